#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An independent FTRL-Proximal (Algorithm 1 of "Ad Click Prediction: a View from the Trenches") in plain double
precision, and what the tests of ctr-train, ctr-predict and ctr-model need besides.

    model_reference.py make KIND ROWS OUT        a stream of features by pyarrow: onehot, mixed
    model_reference.py ftrl STREAM MODEL PROGRESSIVE [alpha=… beta=… l1=… l2=… passes=… bias=…]
    model_reference.py auc STREAM [from]         exact AUC of score and label, of the rows from a fraction on
    model_reference.py same A B                  equal columns but for the order of columns?
    model_reference.py edit MODEL OUT weights|nozn
"""
import math
import sys

import pyarrow as pa


def read(path):
    with pa.ipc.open_stream(path) as r:
        return r.read_all()


def role(field):
    return (field.metadata or {}).get(b"ctr.role", b"").decode()


def table_of(field):
    return (field.metadata or {}).get(b"ctr.table", field.name.encode()).decode()


# ---- streams ------------------------------------------------------------------------------------------------------


def field(name, kind, **meta):
    return pa.field(name, kind, metadata={"ctr." + k: v for k, v in meta.items()})


def key(*parts):
    import hashlib

    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little")


def make(kind, rows, out):
    import random

    rng = random.Random(7)
    wkey = pa.struct([pa.field("key", pa.uint64(), nullable=False), pa.field("weight", pa.float32(), nullable=False)])
    fields = [field("row", pa.int64(), role="id"), field("click", pa.float64(), role="label")]
    fields += [field("a", pa.uint64(), role="feature"), field("b", pa.uint64(), role="feature")]
    if kind == "mixed":
        fields += [
            field("w", pa.float64(), role="weight"),
            field("item", pa.uint64(), role="feature", table="shared"),
            field("past", pa.list_(pa.uint64()), role="feature", table="shared"),
            field("text", pa.list_(pa.field("item", wkey, nullable=False)), role="feature"),
            field("age", pa.float64(), role="dense"),
            field("vec", pa.list_(pa.float32(), 3), role="dense"),
            field("word", pa.dictionary(pa.int32(), pa.uint64()), role="feature"),
            field("note", pa.string()),
        ]
    data = {f.name: [] for f in fields}
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
        for k, v in row.items():
            data[k].append(v)
    columns = []
    for f in fields:
        if pa.types.is_dictionary(f.type):
            columns.append(pa.array(data[f.name], pa.uint64()).dictionary_encode())
        else:
            columns.append(pa.array(data[f.name], f.type))
    t = pa.table(columns, schema=pa.schema(fields))
    with pa.ipc.new_stream(out, t.schema) as w:
        w.write_table(t, max_chunksize=1000)


# ---- the algorithm --------------------------------------------------------------------------------------------------


def coordinates(t):
    """A list a row of (table, key or dense position) -> x, in any order, repeated keys summed."""
    rows = [dict() for _ in range(t.num_rows)]
    for f in t.schema:
        r, tab, col = role(f), table_of(f), t[f.name]
        if r not in ("feature", "dense"):
            continue
        for x, v in zip(rows, col.to_pylist()):
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


def ftrl(t, alpha, beta, l1, l2, passes, bias):
    names = {role(f): f.name for f in t.schema}
    y = [float(v) for v in t[names["label"]].to_pylist()]
    weight = t[names["weight"]].to_pylist() if "weight" in names else [1.0] * len(y)
    z, n, scores = {}, {}, []

    def w_of(k):
        zk = z.get(k, 0.0)
        if abs(zk) <= l1:
            return 0.0
        return -(zk - math.copysign(l1, zk)) / ((beta + math.sqrt(n[k])) / alpha + l2)

    rows = coordinates(t)
    for x in rows:
        if bias:
            x[("(bias)", "bias")] = 1.0
    for one in range(passes):
        for x, label, c in zip(rows, y, weight):
            w = {k: w_of(k) for k in x}
            p = 1 / (1 + math.exp(-math.fsum(w[k] * v for k, v in x.items())))
            if one == 0:
                scores.append(p)
            for k, v in x.items():
                g = c * (p - label) * v
                nk = n.get(k, 0.0)
                sigma = (math.sqrt(nk + g * g) - math.sqrt(nk)) / alpha
                z[k] = z.get(k, 0.0) + g - sigma * w[k]
                n[k] = nk + g * g
    return z, n, {k: w_of(k) for k in z}, scores


def check_ftrl(stream, model, progressive, options):
    o = dict(alpha=0.1, beta=1.0, l1=0.0, l2=0.0, passes=1, bias=1, tolerance=1e-6)
    o.update((k, float(v)) for k, v in (a.split("=") for a in options))
    z, n, w, scores = ftrl(read(stream), o["alpha"], o["beta"], o["l1"], o["l2"], int(o["passes"]), bool(o["bias"]))
    m = read(model)
    got = {}
    for tab, k, *v in zip(*(m[c].to_pylist() for c in ("table", "key", "weight", "z", "n"))):
        got[(tab, k)] = v
    order = list(got)
    assert order == sorted(order), "rows are not sorted by table and key"
    assert len(got) == m.num_rows == len(z), "%d rows, %d keys, the reference has %d" % (m.num_rows, len(got), len(z))
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
    p = read(progressive)["score"].to_pylist()
    assert len(p) == len(scores), "%d predictions, want %d" % (len(p), len(scores))
    worst_p = max((abs(a - b) for a, b in zip(p, scores)), default=0)
    print("worst coordinate %.3g, worst prediction %.3g, %d coordinates" % (worst, worst_p, m.num_rows))
    sys.exit(not (worst < o["tolerance"] and worst_p < o["tolerance"]))


# ---- other checks ----------------------------------------------------------------------------------------------------


def auc(stream, start):
    t = read(stream)
    names = {role(f): f.name for f in t.schema}
    rows = list(zip(t[names["score"]].to_pylist(), t[names["label"]].to_pylist()))
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
    x, y = read(a), read(b)
    names = [n for n in x.schema.names if n in y.schema.names]
    assert names, "no common columns"
    for n in names:
        assert x[n].to_pylist() == y[n].to_pylist(), "column %s differs" % n
    print("%d rows, equal: %s" % (x.num_rows, ",".join(names)))


def edit(model, out, how):
    t = read(model)
    meta = dict(t.schema.metadata)
    if how == "weights":  # weights that z and n contradict
        i = t.schema.get_field_index("weight")
        t = t.set_column(i, t.schema.field(i), pa.array([v + 0.5 for v in t["weight"].to_pylist()], t["weight"].type))
    else:
        t = t.drop(["z", "n"])
    t = t.replace_schema_metadata({k: v for k, v in meta.items() if not k.startswith(b"ctr.x")})
    with pa.ipc.new_stream(out, t.schema) as w:
        w.write_table(t)


if __name__ == "__main__":
    what, *args = sys.argv[1:]
    if what == "make":
        make(args[0], int(args[1]), args[2])
    elif what == "ftrl":
        check_ftrl(args[0], args[1], args[2], args[3:])
    elif what == "auc":
        auc(args[0], float(args[1]) if len(args) > 1 else 0)
    elif what == "same":
        same(*args)
    elif what == "edit":
        edit(*args)
    else:
        sys.exit(__doc__)
