#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Negatives by their definition (ctr-sample(1)): plain loops over csv files. usage: negatives_reference.py LOG ITEMS N SEED POWER TIME
LOG: user,item,time,label; ITEMS: item,kind,time; TIME: before, or none. Writes the log with the negatives, as csv.

Draw t of row r is random64(seed, stream, r << 20 | t); times the sum of weights, the upper 64 of 128 bits are a place among the weights of
the items in order of their time (then of ITEMS). It is drawn again while the user took the item or the row has it; after 64 draws
the place is among those that remain."""
import csv, math, sys

M = (1 << 64) - 1
STREAM = 0x6e6567


def mix(x):
    x ^= x >> 32
    x = x * 0xd6e8feb86659fd93 & M
    x ^= x >> 32
    x = x * 0xd6e8feb86659fd93 & M
    return x ^ x >> 32


def random64(seed, stream, counter):
    return mix(mix(mix(seed + 0x9e3779b97f4a7c15 & M) ^ stream) + counter * 0x9e3779b97f4a7c15 & M)


def weight(count, power):
    return 1 if power == 0 else int(math.exp(power * math.log(1 + count)) * 65536 + .5)


def place(seed, row, turn, total):
    return random64(seed, STREAM, row << 20 | turn) * total >> 64


def at(weights, p):
    for i, w in weights:
        if p < w:
            return i
        p -= w


def draw(seed, row, n, weights, took):
    out, turn = [], 0
    total = sum(w for _, w in weights)
    while len(out) < n and total:
        for _ in range(64):
            i = at(weights, place(seed, row, turn, total))
            turn += 1
            if i not in took and i not in out:
                break
        else:
            rest = [(i, w) for i, w in weights if i not in took and i not in out]
            if not rest:
                break
            i = at(rest, place(seed, row, turn, sum(w for _, w in rest)))
            turn += 1
        out.append(i)
    return out


def main():
    log, items = (list(csv.DictReader(open(p))) for p in sys.argv[1:3])
    n, seed, power, before = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), sys.argv[6] == "before"
    positive = [float(r["label"]) > 0 for r in log]
    if before:
        items.sort(key=lambda i: int(i["time"]) if i["time"] else -1)
    known = {i["item"] for i in items}
    w = csv.writer(sys.stdout, lineterminator="\n")
    w.writerow(["user", "item", "kind", "time", "label"])
    for r, row in enumerate(log):
        w.writerow([row[c] for c in ("user", "item", "kind", "time", "label")])
        if not positive[r]:
            continue
        t = int(row["time"])
        seen = [x for x, p in zip(log, positive) if p and (not before or int(x["time"]) <= t)]
        took = {x["item"] for x in seen if x["user"] == row["user"]}
        counts = {}
        for x in seen:
            if x["item"] in known and (not before or int(x["time"]) < t):
                counts[x["item"]] = counts.get(x["item"], 0) + 1
        among = [i["item"] for i in items if not before or not i["time"] or int(i["time"]) < t]
        kind = {i["item"]: i["kind"] for i in items}
        for i in draw(seed, r, n, [(i, weight(counts.get(i, 0), power)) for i in among], took):
            w.writerow([row["user"], i, kind[i], row["time"], 0])


main()
