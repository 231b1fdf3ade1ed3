#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plain first versions of ctr-import's parsers: csv a character after the other, tsv a split, jsonl json.loads and a walk
along each path. Random logs with good and bad rows are read by both, in one block and in small parts, by one thread and
four. usage: import_reference.py SEEDS"""
import json, random, subprocess, sys
import pyarrow as pa


def csv(text):
    """Rows of cells: None for an empty one, False for one that goes on behind its closing quote."""
    row, i = [], 0
    while i < len(text):
        cell, quoted = "", text[i] == '"'
        i += quoted
        while quoted:
            end = text.index('"', i)
            cell, i = cell + text[i:end], end + 1
            if text[i] != '"':
                break
            cell, i = cell + '"', i + 1
        end = min(text.find(c, i) % (len(text) + 1) for c in ",\n")
        rest = text[i:end].removesuffix("\r") if text[end] == "\n" else text[i:end]
        row.append(cell if quoted and not rest else False if quoted else rest or None)
        i = end + 1
        if text[end] == "\n":
            yield row
            row = []


def tsv(text):
    for line in text.split("\n")[:-1]:
        yield [c or None for c in line.removesuffix("\r").split("\t")]


def jsonl(text):
    for line in text.split("\n")[:-1]:
        row = []
        for path in "i", "x", "t", "b", "o.t":
            value = json.loads(line)
            for name in path.split("."):
                value = (value or {}).get(name)
            row.append(value)
        yield row


def random_table(rng, delimiter, quotes):
    text = ""
    for _ in range(3000):
        cells = []
        for _ in range(rng.choice([3] * 50 + [2, 4])):
            cell = "".join(rng.choice('ab"\'é 1' + ("" if delimiter == "," else ",")) for _ in range(int(rng.expovariate(.2))))
            if quotes and rng.random() < .4:
                cell = '"' + cell.replace('"', '""') + rng.choice(["", ",", "\n", '""']) + '"' + rng.choice([""] * 60 + ["x", ' "'])
            elif quotes:
                cell = cell.lstrip('"')
            cells.append(cell)
        text += delimiter.join(cells) + rng.choice(["\n", "\n", "\r\n"])
    return text


def random_json(rng):
    text = ""
    for _ in range(3000):
        word = lambda: "".join(rng.choice('ab"\\/é\n\t😀\x01') for _ in range(rng.randrange(9)))
        o = {"i": rng.getrandbits(rng.randrange(64)) * rng.choice([1, -1]), "x": rng.gauss(0, 1) * 10.0 ** rng.randrange(-300, 300),
             "t": word(), "b": rng.random() < .5, "o": {"t": word(), "": [word(), {"t": 7}]}, word() + "?": None}
        members = [(k, rng.choice([v] * 9 + [None])) for k, v in o.items() if rng.random() < .9]
        rng.shuffle(members)
        text += json.dumps(dict(members), ensure_ascii=rng.random() < .5, separators=rng.choice([(",", ":"), (" , ", "\t: ")])) + "\n"
    return text


for seed in range(int(sys.argv[1])):
    rng = random.Random(seed)
    for kind, types, text in (("csv", 3 * ["utf8"], random_table(rng, ",", True)), ("tsv", 3 * ["utf8"], random_table(rng, "\t", False)),
                              ("jsonl", ["int64", "float64", "utf8", "bool", "utf8"], random_json(rng))):
        names = ["i", "x", "t", "b", "o.t"] if kind == "jsonl" else ["i", "x", "t"]
        want = [r for r in globals()[kind](text) if len(r) == len(names) and False not in [c for c in r if kind != "jsonl"]]
        for more in (["-j", "1"], ["-j", "4", "--batch", "100"]):
            out = subprocess.run(["ctr-import", "-q", "-f", kind, "-c", ",".join(map(":".join, zip(names, types))), "--bad-rows", "skip=9999",
                                  *more, "-"], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
            got = [list(r.values()) for r in pa.ipc.open_stream(out).read_all().to_pylist()]
            if got != want:
                bad = next((i for i, (g, w) in enumerate(zip(got, want)) if g != w), min(len(got), len(want)))
                sys.exit(f"{kind} of seed {seed}, {more}: row {bad + 1} is {got[bad:bad + 1]}, not {want[bad:bad + 1]}; {len(got)} rows of {len(want)}")
