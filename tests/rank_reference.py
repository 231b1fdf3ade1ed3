#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ctr-rank from its definitions: plain loops over the rows of a request.

    rank_reference.py data OUT                      random candidates: ties, nulls, zeros, repeated ids
    rank_reference.py check IN OUT [OPTION...]      is OUT what ctr-rank OPTION... makes of IN? Options as of ctr-rank, but --order
                                                    and --floor name columns. Thompson sampling: are the draws normal, is the order
                                                    that of the draws, are the propensities what a simulation of it gives?"""
import argparse, math, random, sys
import pyarrow as pa


def write(path, table, batch):
    with pa.OSFile(path, "wb") as f, pa.ipc.new_stream(f, table.schema) as w:
        for b in table.to_batches(batch):
            w.write_batch(b)


def data(out):
    rng = random.Random(35)
    n = 6000
    some = [0.0, -0.0, 1.0, 0.5, 0.02, 0.03]
    columns = {
        "q": pa.array([None if rng.random() < .002 else rng.choice("abcdef") * rng.randrange(1, 9) + str(rng.randrange(25)) for _ in range(n)]),
        "ad": pa.array([None if rng.random() < .03 else f"ad{rng.randrange(400)}" for _ in range(n)]).dictionary_encode(),
        "p": pa.array([rng.choice(some) if rng.random() < .3 else rng.betavariate(1, 30) for _ in range(n)]),
        "bid": pa.array([rng.choice([0.0, -0.0, 1.0, 2.5]) if rng.random() < .4 else rng.lognormvariate(0, 1) for _ in range(n)], pa.float32()),
        "u": pa.array([0.0 if rng.random() < .2 else rng.random() * 2 for _ in range(n)]),
        "least": pa.array([rng.choice([-1.0, 0.0, .02]) if rng.random() < .6 else rng.random() * .1 for _ in range(n)]),
        "big": pa.array([2**53 + rng.randrange(4) if rng.random() < .5 else rng.randrange(-3, 3) for _ in range(n)], pa.int64()),
        "pages": pa.array([None if rng.random() < .1 else [rng.randrange(9) for _ in range(rng.randrange(3))] for _ in range(n)], pa.list_(pa.int32())),
        "rank": pa.array([rng.randrange(9) for _ in range(n)], pa.int32()),
        "row": pa.array(range(n), pa.int64()),
    }
    role = {"q": "query", "ad": "id", "p": "score", "u": "uncertainty"}
    fields = [pa.field(k, v.type, metadata={"ctr.role": role[k]} if k in role else None) for k, v in columns.items()]
    log = pa.table(list(columns.values()), schema=pa.schema(fields))
    write(f"{out}/log.arrows", log, 311)
    q = columns["q"].to_pylist()  # the same, sorted, with dictionaries that change
    log = log.take(pa.array(sorted(range(n), key=lambda i: id_key(q[i]))))
    meta = log.schema.field("q").with_type(pa.dictionary(pa.int32(), pa.string()))
    with pa.OSFile(f"{out}/encoded.arrows", "wb") as f:
        schema = log.schema.set(0, meta)
        with pa.ipc.new_stream(f, schema) as w:
            for b in log.to_batches(97):
                w.write_batch(pa.record_batch([b.column(0).dictionary_encode()] + b.columns[1:], schema=schema))


def read(path):
    with pa.OSFile(path, "rb") as f:
        return pa.ipc.open_stream(f).read_all()


def logit(p):
    return -math.inf if p <= 0 else math.inf if p >= 1 else math.log(p / (1 - p))


def sigmoid(x):
    return 0.0 if x == -math.inf else 1.0 if x == math.inf else 1 / (1 + math.exp(-x))


def id_key(v):  # nulls last, texts by bytes
    return (1, b"") if v is None else (0, v.encode())


class Rank:
    def __init__(self, o):
        self.o = o
        self.kind, _, amount = (o.explore or "").partition("=")
        self.amount = float(amount) if amount else 0
        self.slots = [] if not o.slots else [1.0] * int(o.slots) if "," not in o.slots else [float(f) for f in o.slots.split(",")]
        self.top = o.top or len(self.slots) or None

    def value(self, row, explored):
        return row[self.o.order] if self.o.order else row[self.o.bid] * explored if self.o.bid else explored

    def ordered(self, rows, explored):
        """Those not below the floor, best first, as indices."""
        o = self.o
        v = [self.value(r, e) for r, e in zip(rows, explored)]
        keep = [i for i in range(len(rows)) if not o.floor or not v[i] < rows[i][o.floor]]
        return sorted(keep, key=lambda i: (-v[i], id_key(rows[i]["ad"]), i)), v

    def request(self, rows, got):
        """The rows that must come out. Of what is drawn at random, `got` has the draws, and they must fit."""
        o, n = self.o, len(rows)
        explored = [r["p"] + 0.0 for r in rows]
        if self.kind == "ucb":
            explored = [sigmoid(logit(r["p"]) + self.amount * r["u"]) if r["u"] and self.amount else r["p"] for r in rows]
        order, v = self.ordered(rows, explored)
        greedy = list(order)
        if self.kind == "epsilon":
            order = [next(i for i in range(n) if rows[i]["row"] == g["row"]) for g in got]
        shown = order[: self.top]
        result = []
        for k, i in enumerate(shown):
            r = dict(rows[i])
            r["rank_before"] = r.pop("rank")
            r["rank"] = k + 1
            if o.bid:
                r["ecpm"] = rows[i][o.bid] * explored[i]
            if self.kind == "ucb":
                r["explored"] = explored[i]
            if o.price:
                after = v[order[k + 1]] if k + 1 < len(order) else 0.0
                floor = rows[i][o.floor] if o.floor else 0.0
                r["price"] = rows[i][o.bid] if o.price == "first" else min(max(after, floor) / explored[i], rows[i][o.bid]) if explored[i] else 0.0
                if self.slots and k >= len(self.slots):
                    r["price"] = None
            if self.slots:
                r["slot_factor"] = self.slots[k] if k < len(self.slots) else 0.0
            if self.kind == "ucb":
                r["propensity"] = 1.0
            if self.kind == "epsilon":
                r["propensity"] = self.amount / len(order) + (1 - self.amount) * (greedy[k] == i)
            result.append(r)
        return result, greedy == order


def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-12 * max(1, abs(a), abs(b))
    return a == b


def groups(rows):
    by = {}
    for r in rows:
        by.setdefault(r["q"], []).append(r)
    return [by[q] for q in sorted(by, key=id_key)]


def check(argv):
    p = argparse.ArgumentParser()
    for name in ("order", "bid", "floor", "price", "slots", "explore"):
        p.add_argument("--" + name)
    p.add_argument("--top", type=int)
    rank = Rank(p.parse_args(argv[2:]))
    rows, got = read(argv[0]).to_pylist(), read(argv[1]).to_pylist()
    if rank.kind == "thompson":
        return thompson(rank, rows, got)
    at = random_requests = requests = 0
    for request in groups(rows):
        mine = []
        if rank.kind == "epsilon":  # all rows come out, so those of a request are known
            mine = [g for g in got if g["q"] == request[0]["q"]]
        want, greedy = rank.request(request, mine)
        requests += 1
        random_requests += not greedy
        for w in want:
            if at == len(got):
                sys.exit(f"row {at} is missing: {w}")
            g = got[at]
            if set(g) != set(w):
                sys.exit(f"columns {sorted(g)}, want {sorted(w)}")
            for k in w:
                if not same(g[k], w[k]):
                    sys.exit(f"row {at}, {k}: {g[k]}, want {w[k]}\n{g}\n{w}")
            at += 1
    if at != len(got):
        sys.exit(f"{len(got)} rows, want {at}")
    if rank.kind == "epsilon" and not abs(random_requests / requests - rank.amount) < .2:
        sys.exit(f"{random_requests} of {requests} requests are in random order")


def thompson(rank, rows, got):
    """z = (log-odds after - log-odds before) / u must be standard normal, the order that of the values after, and propensities
    the frequencies of a simulation, within five standard deviations of it."""
    import numpy as np
    rng = np.random.default_rng(1)
    z, off, checked = [], 0, 0
    for request in groups(rows):
        mine = [g for g in got if g["q"] == request[0]["q"]]
        v = [rank.value(g, g["explored"]) for g in mine]
        if any((-v[k], id_key(mine[k]["ad"])) > (-v[k + 1], id_key(mine[k + 1]["ad"])) for k in range(len(v) - 1)):
            sys.exit(f"not in order: {mine}")
        if [g["rank"] for g in mine] != list(range(1, len(mine) + 1)):
            sys.exit("ranks")
        z += [(logit(g["explored"]) - logit(g["p"])) / g["u"] for g in mine if g["u"] > .01 and 0 < g["p"] < 1]
        if checked > 60 or len(request) > 40:
            continue
        checked += 1
        runs = 20000
        request.sort(key=lambda r: id_key(r["ad"]))
        u, bid = np.array([r["u"] for r in request]), np.array([r[rank.o.bid] if rank.o.bid else 1.0 for r in request])
        score = np.array([r["p"] for r in request])
        with np.errstate(divide="ignore", over="ignore"):
            odds = np.log(score) - np.log1p(-score)
            drawn = bid / (1 + np.exp(-(odds + u * rng.standard_normal((runs, len(request))))))
        # what does not vary is exact, so that ties are ties
        fixed = (u == 0) | (score == 0) | (score == 1)
        drawn[:, fixed] = (bid * score)[fixed]
        if rank.o.floor:
            drawn[drawn < np.array([r[rank.o.floor] for r in request])] = -1
        first = np.argsort(-drawn, axis=1, kind="stable")
        at = {r["row"]: i for i, r in enumerate(request)}
        for g in mine:
            i = at[g["row"]]
            k = g["rank"] - 1
            share = np.mean((first[:, k] == i) & (drawn[:, i] >= 0))
            p = g["propensity"]
            tolerance = 5 * math.sqrt(max(share * (1 - share), 1 / runs) / runs) + .013
            if not 0 < p <= 1 or abs(p - share) > tolerance:
                sys.exit(f"propensity {p}, the simulation has {share}: {g}")
            off = max(off, abs(p - share))
    z = np.array(z)
    if len(z) > 100:
        d = np.max(np.abs(np.sort(np.vectorize(lambda x: .5 * math.erfc(-x / math.sqrt(2)))(z)) - (np.arange(len(z)) + .5) / len(z)))
        all_kept = not rank.o.floor and rank.o.top and rank.o.top >= 1000
        if all_kept and d > 2 / math.sqrt(len(z)):
            sys.exit(f"draws are not normal: {d} of {len(z)}")
    if not checked:
        sys.exit("nothing checked")


if sys.argv[1] == "data":
    data(sys.argv[2])
else:
    check(sys.argv[2:])
