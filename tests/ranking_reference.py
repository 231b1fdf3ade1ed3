#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ctr-eval --at and --propensity from their definitions, with numpy.

    ranking_reference.py data OUT
    ranking_reference.py ranking IN EVALUATION K... [--reference COL] [--top N]
    ranking_reference.py policy IN EVALUATION [--value COL] [--direct COL]     target: column t; propensity: column prop
    ranking_reference.py obd PROPENSITY-CSV.GZ ACTIONS EVALUATION              of a uniform policy, straight from the file"""
import csv, gzip, math, random, sys
import numpy as np
import pyarrow as pa

Z = 1.959963984540054


def read(path):
    with pa.OSFile(path, "rb") as f:
        return pa.ipc.open_stream(f).read_all()


def data(out):
    rng = random.Random(3)
    n = 8000
    role = {"q": "query", "ad": "id", "y": "label", "p": "score", "w": "weight"}
    c = {
        "q": pa.array([rng.randrange(300) for _ in range(n)], pa.int32()),
        "ad": pa.array([f"a{rng.randrange(900)}" for _ in range(n)]),
        "y": pa.array([rng.choice([0., 0., 0., 0., 0., 1., .5]) for _ in range(n)]),
        "p": pa.array([rng.choice([.1, .2, .3]) if rng.random() < .5 else rng.random() for _ in range(n)]),
        "w": pa.array([rng.choice([0., 1., 2., .5]) for _ in range(n)]),
        "other": pa.array([rng.randrange(20) if rng.random() < .5 else rng.randrange(10**6) for _ in range(n)], pa.int64()),
        "rank": pa.array([rng.randrange(20) for _ in range(n)], pa.int32()),
        "prop": pa.array([.05 + .95 * rng.random() for _ in range(n)]),
        "t": pa.array([rng.choice([0., 1., rng.random()]) for _ in range(n)]),
        "v": pa.array([rng.lognormvariate(0, 1) for _ in range(n)]),
        "d": pa.array([rng.random() * .3 for _ in range(n)], pa.float32()),
    }
    fields = [pa.field(k, v.type, metadata={"ctr.role": role[k]} if k in role else None) for k, v in c.items()]
    t = pa.table(list(c.values()), schema=pa.schema(fields))
    with pa.OSFile(f"{out}/rows.arrows", "wb") as f, pa.ipc.new_stream(f, t.schema) as w:
        for b in t.to_batches(333):
            w.write_batch(b)


def mean(x, w=None):
    """value, low, high: normal interval; the variance of a weighted mean is that of its linearisation."""
    x = np.asarray(x, float)
    w = np.ones(len(x)) if w is None else np.asarray(w, float)
    m = np.sum(w * x) / np.sum(w)
    if len(x) < 2:
        return [m, None, None, len(x)]
    se = math.sqrt(np.sum((w * (x - m)) ** 2) * len(x) / (len(x) - 1)) / np.sum(w)
    return [m, m - Z * se, m + Z * se, len(x)]


def compare(path, want):
    t = read(path)
    got = {r[t.column_names[0]]: [r[k] for k in t.column_names[1:]] for r in t.to_pylist()}
    if set(got) != set(want):
        sys.exit(f"{sorted(got)}, want {sorted(want)}")
    for k, w in want.items():
        for g, x in zip(got[k], w):
            if not (g == x or (g is not None and x is not None and abs(g - x) <= 1e-10 * max(1, abs(x)))):
                sys.exit(f"{k}: {got[k]}, want {w}")


def ranking(path, evaluation, argv):
    reference = top = None
    ks = []
    while argv:
        a = argv.pop(0)
        if a == "--reference":
            reference = argv.pop(0)
        elif a == "--top":
            top = int(argv.pop(0))
        else:
            ks.append(int(a))
    queries = {}
    for i, r in enumerate(read(path).to_pylist()):
        queries.setdefault(r["q"], []).append((r, i))
    want = {}
    for k in ks:
        ndcg, recall = [], []
        for rows in queries.values():
            order = sorted(rows, key=lambda r: (-r[0]["p"], r[0]["ad"].encode(), r[1]))
            gains = [r[0]["y"] for r in order]
            best = sorted(gains, reverse=True)
            dcg = lambda g: sum(x / math.log2(i + 2) for i, x in enumerate(g[:k]))
            if best[0] > 0:
                ndcg.append(dcg(gains) / dcg(best))
            if reference:
                m = min(top or k, len(rows))
                those = sorted(rows, key=lambda r: (-r[0][reference], r[0]["ad"].encode(), r[1]))[:m]
                recall.append(len({r[1] for r in those} & {r[1] for r in order[:k]}) / m)
        want[f"ndcg@{k}"] = mean(ndcg)
        if reference:
            want[f"recall@{k}"] = mean(recall)
    compare(evaluation, want)


def estimates(r, target, prop, u, q=None, d=None):
    w = target / prop
    want = {"logged": mean(r, u), "ips": mean(w * r, u), "snips": mean(r, u * w), "mean_weight": mean(w, u),
            "effective_rows": [np.sum(u * w) ** 2 / np.sum((u * w) ** 2), None, None, len(r)]}
    if d is not None:
        want["dm"] = mean(d, u)
        want["dr"] = mean(d + w * (r - q), u)
    return want


def policy(path, evaluation, argv):
    t = {k: np.array(v, float) for k, v in read(path).to_pydict().items() if k not in ("ad",)}
    option = dict(zip(argv[::2], argv[1::2]))
    v = t[option["--value"]] if "--value" in option else 1.0
    d = t[option["--direct"]] if "--direct" in option else None
    compare(evaluation, estimates(t["y"] * v, t["t"], t["prop"], t["w"], t["p"] * v, d))


def obd(path, actions, evaluation):
    with gzip.open(path, "rt") as f:
        rows = list(csv.DictReader(f))
    r, prop = (np.array([float(x[k]) for x in rows]) for k in ("click", "propensity_score"))
    compare(evaluation, estimates(r, np.full(len(r), 1 / actions), prop, np.ones(len(r))))


if sys.argv[1] == "data":
    data(sys.argv[2])
elif sys.argv[1] == "obd":
    obd(sys.argv[2], int(sys.argv[3]), sys.argv[4])
else:
    {"ranking": ranking, "policy": policy}[sys.argv[1]](sys.argv[2], sys.argv[3], sys.argv[4:])
