#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An independent FTRL-Proximal (Algorithm 1 of "Ad Click Prediction: a View from the Trenches") in plain double
precision, and what the tests of ctr-train and ctr-predict need besides. Python alone: streams are made and read through the tools.

    model_reference.py make KIND ROWS OUT        a stream of features: onehot, mixed
    model_reference.py ftrl STREAM MODEL PROGRESSIVE [alpha=… beta=… l1=… l2=… passes=… bias=… hash-bits=… normalize=… dropout=… seed=…]
    model_reference.py score STREAM MODEL SCORED [hash-bits=… normalize=… dropout=…]     what the weights of a model predict
    model_reference.py auc STREAM [from]         exact AUC of score and label, of the rows from a fraction on
    model_reference.py same A B                  equal columns but for the order of columns?
    model_reference.py set STREAM OUT COLUMN VALUE [ROW]    one value changed, or all of a column
    model_reference.py column STREAM NAME        its values, a line each
    model_reference.py foreign STREAM OUT        the same by pyarrow: word dictionary-encoded, age as float64
"""
import json
import math
import struct
import subprocess
import sys


def tool(*args, data=None):
    return subprocess.run(args, input=data, stdout=subprocess.PIPE, check=True).stdout


class Table:
    """A stream: fields as ctr-info tells them, columns by name. float32 comes as the shortest text and is rounded to its value."""

    def __init__(self, path):
        self.fields = json.loads(tool("ctr-info", "--json", path))["columns"]
        self.rows = [json.loads(line) for line in tool("ctr-export", "-f", "jsonl", "--flat", path).splitlines()]
        for f in self.fields:
            if "float32" in f["type"]:
                for r in self.rows:
                    r[f["name"]] = single(r[f["name"]])

    def __getitem__(self, name):
        return [r[name] for r in self.rows]


def single(v):
    if isinstance(v, list):
        return [single(x) for x in v]
    return struct.unpack("<f", struct.pack("<f", v))[0] if isinstance(v, float) else v


def role(field):
    return field["metadata"].get("ctr.role", "")


def table_of(field):
    return field["metadata"].get("ctr.table", field["name"])


# ---- streams ------------------------------------------------------------------------------------------------------


def write(like, rows, out):
    lines = "".join(json.dumps(r) + "\n" for r in rows).encode()
    tool("ctr-cat", "--batch", "1000", "-o", out, data=tool("ctr-import", "-f", "jsonl", "--like", like, data=lines))


# Names, types, roles and tables of the columns: what ctr-extract makes of this plan, weighted keys as ctr-import makes them.
PLAN = {
    "onehot": "id row\nlabel click\nfeature a = n\nfeature b = n\n",
    "mixed": "id row\nlabel click\nweight w\nkeep note\nfeature a = n\nfeature b = n\nfeature item in shared = n\n"
    "feature past in shared = ns\ndense age\ndense vec\nfeature word = n\n",
}
COLUMNS = "row:int64,click:float64,w:float64,note:utf8,n:int64,ns:list<int64>,age:float64,vec:fixed_size_list<float32>[3]"


def schema(kind, out):
    """An empty stream of the columns."""
    with open(out + ".plan", "w") as f:
        f.write(PLAN[kind])
    empty = tool("ctr-import", "-f", "jsonl", "--columns", COLUMNS, data=b"")
    with open(out + ".like", "wb") as f:
        f.write(tool("ctr-extract", out + ".plan", data=empty))
    if kind == "mixed":
        with open(out + ".text", "wb") as f:
            f.write(tool("ctr-select", "--head", "0", "--columns", "text", data=tool("ctr-import", "-f", "vw", data=b"1 |text a:2\n")))
        both = tool("ctr-join", "--by-row", out + ".text", out + ".like")
        with open(out + ".like", "wb") as f:
            f.write(tool("ctr-select", "--columns", "row,click,a,b,w,item,past,text,age,vec,word,note", data=both))
    return out + ".like"


def key(*parts):
    import hashlib

    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little")


def make(kind, rows, out):
    import random

    rng = random.Random(7)
    data = []
    for i in range(rows):
        a, b, item = rng.randrange(40), int(rng.paretovariate(0.7)) % 5000, rng.randrange(300)
        p = 1 / (1 + math.exp(1 - (a % 5) * 0.4 - (b % 3) * 0.3 - item % 2))
        row = dict(row=i, click=float(rng.random() < p), a=key("a", a), b=key("b", b))
        if kind == "mixed":
            if i % 11 == 0:
                row["click"] = 0.25  # fractional labels
            row["w"] = [1.0, 1.0, 2.5, 0.0][i % 4]
            row["item"] = key("s", item)
            past = [key("s", rng.randrange(30)) for _ in range(rng.randrange(0, 60 if i % 50 == 0 else 6))]
            row["past"] = past + past[:1] + [key("s", item)]  # repeats within the list, and of the candidate
            row["text"] = [
                dict(key=key("t", rng.randrange(9)), weight=rng.choice([0.0, 0.5, -1.25])) for _ in range(rng.randrange(5))
            ]
            row["age"] = None if i % 7 == 0 else rng.random() * 3
            row["vec"] = [rng.random(), 0.0, -rng.random()]
            row["word"] = key("w", rng.randrange(20))
            row["note"] = "n%d" % (i % 10)
        data.append(row)
    write(schema(kind, out), data, out)


# ---- the algorithm --------------------------------------------------------------------------------------------------


def coordinates(t):
    """A list a row of (table, key or dense position) -> x, in any order, repeated keys summed."""
    rows = [dict() for _ in t.rows]
    for f in t.fields:
        r, tab, col = role(f), table_of(f), t[f["name"]]
        if r not in ("feature", "dense"):
            continue
        for x, v in zip(rows, col):
            if r == "feature":
                entries = v if isinstance(v, list) else [v]
                entries = [(e["key"], e["weight"]) if isinstance(e, dict) else (e, 1.0) for e in entries]
                entries = [((tab, k), w) for k, w in entries]
            elif isinstance(v, list):
                entries = [((tab, "dense", j), e) for j, e in enumerate(v)]
            else:
                entries = [((tab, "dense", -1), v)] if v is not None else []
            for k, w in entries:
                if w != 0:
                    x[k] = x.get(k, 0.0) + w
    return rows


def mix64(x):
    for _ in range(2):
        x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & 2**64 - 1
    return x ^ x >> 32


def sparse_hash(k):
    return mix64(k ^ 0x2545F4914F6CDD1D)


def random64(seed, stream, counter):
    golden = 0x9E3779B97F4A7C15
    return mix64((mix64(mix64(seed + golden & 2**64 - 1) ^ stream) + counter * golden) & 2**64 - 1)


def changed(x, row, o, training=0):
    """A row as section 9 of the paper changes it; training: the number of the pass, None for prediction."""
    bits, norm, drop = int(o.get("hash-bits", 0)), o.get("normalize", "none"), float(o.get("dropout", 0))
    if bits:
        folded = {}
        for (_, k), v in x.items():
            k = ("(hashed)", sparse_hash(k) >> 64 - bits)
            folded[k] = folded.get(k, 0.0) + v
        x = folded
    if norm != "none" and any(x.values()):
        size = {"l1": lambda v: math.fsum(map(abs, v)), "l2": lambda v: math.hypot(*v), "max": lambda v: max(map(abs, v))}[norm](x.values())
        x = {k: v / size for k, v in x.items()}
    if drop and training is None:
        x = {k: v * (1 - drop) for k, v in x.items()}
    elif drop:
        seed = int(o.get("seed", 0))
        seed = random64(seed, 0, training) if training else seed
        x = {k: v for k, v in x.items() if random64(seed, row, sparse_hash(k[1])) >> 11 >= drop * 2**53}
    return x


def ftrl(t, alpha, beta, l1, l2, passes, bias, minibatch, o):
    names = {role(f): f["name"] for f in t.fields}
    y = [float(v) for v in t[names["label"]]]
    weight = t[names["weight"]] if "weight" in names else [1.0] * len(y)
    z, n, scores = {}, {}, []

    def w_of(k):
        zk = z.get(k, 0.0)
        if abs(zk) <= l1:
            return 0.0
        return -(zk - math.copysign(l1, zk)) / ((beta + math.sqrt(n[k])) / alpha + l2)

    whole = coordinates(t)
    for one in range(passes):
        rows = [changed(x, i, o, one) for i, x in enumerate(whole)]
        for x in rows:
            if bias:
                x[("(bias)", "bias")] = 1.0
        for first in range(0, len(rows), minibatch):
            some = range(first, min(first + minibatch, len(rows)))
            weights = [{k: w_of(k) for k in rows[i]} for i in some]
            for i, w in zip(some, weights):
                p = 1 / (1 + math.exp(-math.fsum(w[k] * v for k, v in rows[i].items())))
                if one == 0:
                    scores.append(p)
                for k, v in rows[i].items():
                    g = weight[i] * (p - y[i]) * v
                    nk = n.get(k, 0.0)
                    sigma = (math.sqrt(nk + g * g) - math.sqrt(nk)) / alpha
                    z[k] = z.get(k, 0.0) + g - sigma * w[k]
                    n[k] = nk + g * g
    return z, n, {k: w_of(k) for k in z}, scores


def check_ftrl(stream, model, progressive, options):
    o = dict(alpha=0.1, beta=1.0, l1=0.0, l2=0.0, passes=1, bias=1, minibatch=1, tolerance=1e-6)
    o.update((k, v if k == "normalize" else float(v)) for k, v in (a.split("=") for a in options))
    z, n, w, scores = ftrl(Table(stream), o["alpha"], o["beta"], o["l1"], o["l2"], int(o["passes"]), bool(o["bias"]),
                           int(o["minibatch"]), o)
    m = Table(model)
    got = {}
    for tab, k, *v in zip(*(m[c] for c in ("table", "key", "weight", "z", "n"))):
        got[(tab, k)] = v
    order = list(got)
    assert order == sorted(order), "rows are not sorted by table and key"
    assert len(got) == len(m.rows) == len(z), "%d rows, %d keys, the reference has %d" % (len(m.rows), len(got), len(z))
    # The keys of dense coordinates and of the bias are XXH3 hashes, which this reference does not make: such
    # coordinates are matched by their state within the table.
    hashed, worst = {}, 0.0
    for k in z:
        if len(k) == 2 and k[0] != "(bias)":
            if k not in got:
                sys.exit("no row for %s" % (k,))
            for a, b in zip(got.pop(k), (w[k], z[k], n[k])):
                worst = max(worst, abs(a - b) / max(1.0, abs(b)))
        else:
            hashed.setdefault(k[0], []).append((z[k], n[k], w[k]))
    for (tab, k), (gw, gz, gn) in got.items():
        best = min(hashed[tab], key=lambda v: abs(v[0] - gz) + abs(v[1] - gn))
        hashed[tab].remove(best)
        for a, b in zip((gw, gz, gn), (best[2], best[0], best[1])):
            worst = max(worst, abs(a - b) / max(1.0, abs(b)))
    assert not any(hashed.values()), "coordinates missing: %s" % hashed
    p = Table(progressive)["score"]
    assert len(p) == len(scores), "%d predictions, want %d" % (len(p), len(scores))
    worst_p = max((abs(a - b) for a, b in zip(p, scores)), default=0)
    print("worst coordinate %.3g, worst prediction %.3g, %d coordinates" % (worst, worst_p, len(m.rows)))
    sys.exit(not (worst < o["tolerance"] and worst_p < o["tolerance"]))


def check_score(stream, model, scored, options):
    o = dict(a.split("=") for a in options)
    m = Table(model)
    w = {(t, k): v for t, k, v in zip(m["table"], m["key"], m["weight"])}
    bias = [v for (t, _), v in w.items() if t == "(bias)"]
    worst = 0.0
    for i, (x, p) in enumerate(zip(coordinates(Table(stream)), Table(scored)["score"])):
        z = math.fsum([w.get(k, 0.0) * v for k, v in changed(x, i, o, None).items()] + bias)
        worst = max(worst, abs(p - 1 / (1 + math.exp(-z))))
    print("worst prediction %.3g" % worst)
    sys.exit(not worst < 1e-12)


# ---- other checks ----------------------------------------------------------------------------------------------------


def auc(stream, start):
    t = Table(stream)
    names = {role(f): f["name"] for f in t.fields}
    rows = list(zip(t[names["score"]], t[names["label"]]))
    rows = sorted(rows[int(len(rows) * start):])
    pairs = below = 0.0
    i = 0
    while i < len(rows):
        j = i
        while j < len(rows) and rows[j][0] == rows[i][0]:
            j += 1
        pos = sum(r[1] for r in rows[i:j])
        neg = (j - i) - pos
        pairs += pos * (below + neg / 2)
        below += neg
        i = j
    print("%.4f" % (pairs / (below * (len(rows) - below))))


def same(a, b):
    x, y = Table(a), Table(b)
    names = [f["name"] for f in x.fields if f["name"] in {g["name"] for g in y.fields}]
    assert names, "no common columns"
    assert len(x.rows) == len(y.rows), "%d and %d rows" % (len(x.rows), len(y.rows))
    for n in names:
        assert x[n] == y[n], "column %s differs" % n
    print("%d rows, equal: %s" % (len(x.rows), ",".join(names)))


def set_value(stream, out, column, value, row=None):
    t = Table(stream)
    value = {"null": None, "nan": "NaN", "inf": "Infinity"}.get(value) if value in ("null", "nan", "inf") else json.loads(value)
    for i, r in enumerate(t.rows):
        if row is None or i == int(row) - 1:
            r[column] = value
    write(stream, t.rows, out)


def foreign(stream, out):
    import pyarrow as pa

    t = pa.ipc.open_stream(stream).read_all()
    for name, kind in (("word", pa.dictionary(pa.int32(), pa.uint64())), ("age", pa.float64())):
        i = t.schema.get_field_index(name)
        column = t[name].dictionary_encode() if name == "word" else t[name].cast(kind)
        t = t.set_column(i, pa.field(name, kind, metadata=t.schema.field(i).metadata), column)
    with pa.ipc.new_stream(out, t.schema) as w:
        w.write_table(t.combine_chunks(), max_chunksize=1000)


if __name__ == "__main__":
    what, *args = sys.argv[1:]
    if what == "make":
        make(args[0], int(args[1]), args[2])
    elif what == "ftrl":
        check_ftrl(args[0], args[1], args[2], args[3:])
    elif what == "score":
        check_score(args[0], args[1], args[2], args[3:])
    elif what == "auc":
        auc(args[0], float(args[1]) if len(args) > 1 else 0)
    elif what == "same":
        same(*args)
    elif what == "set":
        set_value(*args)
    elif what == "column":
        print(*Table(args[0])[args[1]], sep="\n")
    elif what == "foreign":
        foreign(*args)
    else:
        sys.exit(__doc__)
