#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of images.md from what images.sh measured, beside those of "Image Matters" (Ge et al., CIKM 2018).
usage: images.py RESULTS.tsv [CURVES.tsv [FIGURE.svg]]; each line is row, seed, GAUC, AUC (of a curve: row, seed, start, GAUC, AUC).
FIGURE.svg becomes the drawing of the curves.
A difference is paired by seed; its 95% interval is Student's. Exit status 3 when a difference that is asserted, because five
worlds showed it significantly, is not positive."""
import collections
import math
import os
import sys

STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


def read(path, columns):
    rows = collections.defaultdict(dict)
    with open(path, encoding="ascii") as f:
        for line in f:
            cells = line.rstrip("\n").split("\t")
            rows[tuple(cells[:1] + cells[2:columns - 2])][cells[1]] = (float(cells[-2]), float(cells[-1]))
    return rows


results = {k[0]: v for k, v in read(sys.argv[1], 4).items()}
wrong = 0


def interval(values):
    """Mean, and half of the 95% interval."""
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, math.inf
    return mean, STUDENT.get(n, 1.96) * math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)


def values(weights, metric):
    """For each seed the sum of weight times figure over rows."""
    seeds = set.intersection(*(set(results.get(r, ())) for r in weights))
    return [sum(w * results[r][s][metric] for r, w in weights.items()) for s in sorted(seeds)]


def show(weights, metric, sign=False):
    v = values(weights, metric)
    if not v:
        return "-"
    mean, half = interval(v)
    return ("%+.4f" if sign else "%.4f") % mean + (" ± %.4f" % half if len(v) > 1 else "")


def table(title, rows, control):
    """rows: (name, row, the paper's GAUC). Nothing of which was measured: none."""
    if not any(r in results for _, r, _ in rows):
        return
    print("### %s\n" % title)
    print("| | paper: GAUC | gain | ours: GAUC | gain | AUC | gain |\n|---|---|---|---|---|---|---|")
    was = next((p for _, r, p in rows if r == control), None)
    for name, row, paper in rows:
        gain = "" if row == control or paper is None or was is None else "%+.4f" % (paper - was)
        print("| %s | %s | %s | %s | %s | %s | %s |" % (
            name, "" if paper is None else "%.4f" % paper, gain, show({row: 1}, 0),
            "" if row == control else show({row: 1, control: -1}, 0, True), show({row: 1}, 1),
            "" if row == control else show({row: 1, control: -1}, 1, True)))
    print()


def claim(text, weights, asserted=True):
    """The paper has a positive sum: what of it is seen here."""
    global wrong
    v = values(weights, 0)
    if not v:
        return
    mean, half = interval(v)
    verdict = "significant" if mean > half else "not significant" if mean > -half else "THE OTHER WAY, significantly"
    wrong += asserted and mean <= 0
    if len(v) < 2:
        print("- %s: %+.4f GAUC, in one world, so without an interval" % (text, mean))
    else:
        print("- %s: %+.4f ± %.4f GAUC, %s" % (text, mean, half, verdict))


def figure(path, starts, curves):
    """Draw (name, colour, [(mean, half of the 95% interval) at each start])."""
    top = math.ceil(max(m + h for _, _, c in curves for m, h in c) * 50) / 50
    low = math.floor(min(m - h for _, _, c in curves for m, h in c) * 50) / 50
    left, right, above, below = 70, 660, 40, 380

    def x(i):
        return left + 20 + (right - left - 40) * i / max(len(starts) - 1, 1)

    def y(v):
        return below - (below - above) * (v - low) / (top - low)

    s = ['<svg xmlns="http://www.w3.org/2000/svg" width="680" height="440" font-family="sans-serif" font-size="13">',
         '<rect width="680" height="440" fill="white"/>']
    for k in range(round((top - low) * 50) + 1):
        v = low + k / 50
        s.append('<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.2f</text>' % (left, y(v), right, left - 8, y(v) + 4, v))
    for i, start in enumerate(starts):
        s.append('<text x="%.1f" y="%d" text-anchor="middle">%s</text><text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (
            x(i), below + 20, start[5:10], x(i), below + 36, start[11:16]))
    for n, (name, colour, c) in enumerate(curves):
        shift = 3 * n  # bars beside each other
        for i, (mean, half) in enumerate(c):
            if half < math.inf:
                s.append('<path d="M%.1f %.1fV%.1f" stroke="%s" stroke-opacity="0.4" stroke-width="2"/>' % (x(i) + shift, y(mean - half), y(mean + half), colour))
        s.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (" ".join("%.1f,%.1f" % (x(i), y(m)) for i, (m, _) in enumerate(c)), colour))
        s += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (x(i), y(m), colour) for i, (m, _) in enumerate(c)]
        s.append('<path d="M%d %dh24" stroke="%s" stroke-width="2"/><text x="%d" y="%d">%s</text>' % (left + 250, above + 290 + 20 * n, colour, left + 282, above + 294 + 20 * n, name))
    s.append('<text x="%d" y="22">GAUC of the next 28 hours, before they are learned from</text>' % left)
    with open(path, "w", encoding="ascii") as f:
        f.write("\n".join(s) + "\n</svg>\n")


table("Table 3: which images", [("baseline: ids of images", "ids", .6205), ("image of the ad", "ad", .6235),
                                ("images of behaviours", "behaviour", .6219), ("images of behaviours, their mean", "behaviour-mean", None),
                                ("both", "multi-query", .6260)], "ids")
claim("the image of the ad adds", {"ad": 1, "ids": -1})
claim("images of behaviours add", {"behaviour": 1, "ids": -1}, False)
claim("the mean of images of behaviours adds", {"behaviour-mean": 1, "ids": -1}, False)
claim("both add", {"multi-query": 1, "ids": -1})
claim("both add more than the sum of each", {"multi-query": 1, "ids": 1, "ad": -1, "behaviour": -1})
print()
order = [("multi-query", .6260), ("attentive", .6257), ("sum", .6248), ("max", .6236), ("concat", .6232)]
table("Table 4: aggregators of the images of behaviours", [("baseline: ids of images", "ids", .6205), ("image of the ad alone", "ad", .6235)] +
      [(r, r, p) for r, p in order[::-1]] + [("mean (not in the paper)", "mean", None)], "ids")
for (better, _), (worse, _) in zip(order, order[1:]):
    claim("%s above %s" % (better, worse), {better: 1, worse: -1}, better != "multi-query")
print()
table("Figure 5: the network of the ids (the paper has bars without figures for lr and din)",
      [("lr, ids", "lr-ids", None), ("lr, images", "lr-images", None), ("mlp, ids", "ids", .6205), ("mlp, images", "multi-query", .6260),
       ("din, ids", "din-ids", None), ("din, images", "din-images", None)], "ids")
for base, ids, images in ("lr", "lr-ids", "lr-images"), ("mlp", "ids", "multi-query"), ("din", "din-ids", "din-images"):
    claim("images add to %s" % base, {images: 1, ids: -1})
claim("din with images above mlp with images", {"din-images": 1, "multi-query": -1}, False)
print()
table("Table 5: warm-up from the model of yesterday", [("none", "multi-query", .6260), ("partial: all but the vectors of ids", "partial", .6283),
                                                       ("full", "full", .6230)], "multi-query")
claim("partial above none", {"partial": 1, "multi-query": -1})
claim("none above full", {"multi-query": 1, "full": -1}, False)
claim("partial above full", {"partial": 1, "full": -1}, False)
print()
table("Table 5 where vectors of ids overfit (`--l2 0`)", [("none", "loose-none", .6260), ("partial: all but the vectors of ids", "loose-partial", .6283),
                                                         ("full", "loose-full", .6230)], "loose-none")
claim("partial above none", {"loose-partial": 1, "loose-none": -1}, False)
claim("none above full", {"loose-none": 1, "loose-full": -1}, False)
claim("partial above full", {"loose-partial": 1, "loose-full": -1}, False)
print()
table("Table 6: the best model", [("baseline: ids of images", "ids", .6205), ("dicm: multi-query, partial warm-up", "partial", .6283)], "ids")
claim("dicm above the baseline", {"partial": 1, "ids": -1})
print()
if "towers-ids" in results:
    table("Table 8: two towers, for pre-ranking", [("baseline", "towers-ids", .6165), ("images", "towers-images", .6225)], "towers-ids")
    claim("images add to two towers", {"towers-images": 1, "towers-ids": -1})
    print()
if len(sys.argv) > 2 and os.path.exists(sys.argv[2]):
    curves = read(sys.argv[2], 5)
    print("### Figure 6: GAUC in the course of the first pass, of rows that were not learned from yet\n")
    print("| from | baseline | dicm, multi-query | gain |\n|---|---|---|---|")
    drawn = {"ids": [], "multi-query": []}
    starts = sorted({k[1] for k in curves})
    for start in starts:
        pair = [curves.get((r, start), {}) for r in ("ids", "multi-query")]
        seeds = sorted(set(pair[0]) & set(pair[1]))
        for p, c in zip(pair, drawn.values()):
            c.append(interval([p[s][0] for s in seeds]))
        mean, half = interval([pair[1][s][0] - pair[0][s][0] for s in seeds])
        print("| %s | %.4f | %.4f | %+.4f ± %.4f |" % (start, *(sum(p[s][0] for s in seeds) / len(seeds) for p in pair), mean, half))
    print()
    if len(sys.argv) > 3:
        figure(sys.argv[3], starts, [("ids of images", "#d62728", drawn["ids"]), ("dicm: images, multi-query", "#1f77b4", drawn["multi-query"])])
sys.exit(3 if wrong else 0)
