#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ctr-sample --permute must hold, and what a column is worth to a linear model, from its weights by name. Python alone.

    permute_reference.py moved BEFORE.csv AFTER.csv COLUMN…    the columns moved together to other rows, nothing else did
    permute_reference.py worth AFTER.csv WEIGHTS.csv LABEL SLICE FEATURE…   log loss of these rows: total, then by slice
"""
import csv
import math
import sys


def rows(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def moved(before, after, names):
    a, b = rows(before), rows(after)
    assert len(a) == len(b) and a[0].keys() == b[0].keys(), "other rows or columns"
    rest = [n for n in a[0] if n not in names]
    assert [[r[n] for n in rest] for r in a] == [[r[n] for n in rest] for r in b], "another column changed"
    was, now = ([tuple(r[n] for n in names) for r in t] for t in (a, b))
    assert sorted(was) == sorted(now), "other values, or columns that moved apart"
    assert was != now or len(set(was)) == 1, "nothing moved"
    if len(set(was)) == len(was) > 50:  # places are known: a uniform permutation has about one fixed point, and no order
        place = {v: i for i, v in enumerate(was)}
        to = [place[v] for v in now]
        assert sum(i == t for i, t in enumerate(to)) < 8, "most stayed"
        n = len(to)
        mean = (n - 1) / 2
        r = sum((i - mean) * (t - mean) for i, t in enumerate(to)) / sum((i - mean) ** 2 for i in range(n))
        assert abs(r) < 4 / math.sqrt(n), "the order stayed: correlation %g" % r
        follows = sum(t2 == t + 1 for t, t2 in zip(to, to[1:]))
        assert follows < 8, "runs stayed"


def worth(path, weights, label, by, features):
    w = {(r["table"], r["name"]): float(r["weight"]) for r in rows(weights)}
    loss = {}
    for r in rows(path):
        z = w.get(("(bias)", ""), 0.0) + sum(w.get((f, r[f]), 0.0) for f in features)
        y = float(r[label])
        each = math.log1p(math.exp(-abs(z))) + max(z, 0) - y * z
        for s in ("total", "%s=%s" % (by, r[by])):
            loss.setdefault(s, []).append(each)
    for s in ["total"] + sorted(k for k in loss if k != "total"):
        print("%s %.6f" % (s, sum(loss[s]) / len(loss[s])))


if __name__ == "__main__":
    what, *a = sys.argv[1:]
    if what == "moved":
        moved(a[0], a[1], a[2:])
    elif what == "worth":
        worth(a[0], a[1], a[2], a[3], a[4:])
    else:
        sys.exit(__doc__)
