#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An independent --single-value: one z and n a coordinate of FTRL-Proximal, moved by the mean gradient of the variants that have it.

    single_reference.py STREAM VARIANTS PROGRESSIVE [alpha l1]    are the scores of PROGRESSIVE those of the reference?
    single_reference.py ranks WORDS WORDS                         Spearman's rank correlation of the AUCs of two summaries
"""
import fnmatch
import json
import math
import subprocess
import sys


def rows(path):
    return [json.loads(line) for line in subprocess.run(["ctr-export", "-f", "jsonl", "--flat", path], stdout=subprocess.PIPE, check=True).stdout.splitlines()]


def variants(path, columns):
    for line in open(path):
        words = line.split("#")[0].split()
        own = {"in": "*", "out": "", "bias": "yes"}
        own.update(w.split("=", 1) for w in words[1:])
        if words:
            match = lambda c, key: any(fnmatch.fnmatchcase(c, p) for p in own[key].split(","))
            yield words[0], {c for c in columns if match(c, "in") and not match(c, "out")} | ({"(bias)"} if own["bias"] == "yes" else set())


def check(stream, listing, progressive, alpha=0.1, l1=0.0):
    data, got = rows(stream), rows(progressive)
    columns = sorted(c for c in data[0] if c not in ("click", "w"))
    vs = list(variants(listing, columns))
    z, n, worst = {}, {}, 0
    for r, seen in zip(data, got):
        keys = [(c, r[c]) for c in columns] + [("(bias)", 0)]
        w = {}
        for k in keys:
            v = z.get(k, 0.0)
            w[k] = 0.0 if abs(v) <= l1 else -(v - math.copysign(l1, v)) / ((1 + math.sqrt(n.get(k, 0.0))) / alpha)
        p = [1 / (1 + math.exp(-sum(w[k] for k in keys if k[0] in has))) for _, has in vs]
        worst = max([worst] + [abs(q - seen["score." + name]) for q, (name, _) in zip(p, vs)])
        for k in keys:
            g = [q - r["click"] for q, (_, has) in zip(p, vs) if k[0] in has]
            if g:
                g, old = sum(g) / len(g), n.get(k, 0.0)
                z[k] = z.get(k, 0.0) + g - (math.sqrt(old + g * g) - math.sqrt(old)) / alpha * w[k]
                n[k] = old + g * g
    print(f"{len(data)} rows, {len(vs)} variants, largest difference {worst:.2g}")
    return worst < 1e-9 and len(data) == len(got)


def ranks(*paths):
    def auc(path):
        lines = [line.split() for line in open(path)]
        start = next(i for i, f in enumerate(lines) if f[:1] == ["variant"])
        return {f[0]: float(f[2]) for f in lines[start + 1:] if len(f) == 3}
    def ranked(t):  # of equal ones the mean rank, so that ties are no agreement
        values = sorted(t.values())
        return {k: values.index(v) + (values.count(v) - 1) / 2 for k, v in t.items()}
    a, b = (ranked(auc(p)) for p in paths)
    middle = (len(a) - 1) / 2
    dot = lambda x, y: sum((x[k] - middle) * (y[k] - middle) for k in a)
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


if sys.argv[1] == "ranks":
    print("%.4f" % ranks(*sys.argv[2:]))
else:
    sys.exit(not check(*sys.argv[1:4], *map(float, sys.argv[4:])))
