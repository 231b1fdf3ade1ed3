#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The numbers of ams.md, for ams.sh.

    ams.py vectors N D FILE.npy          N vectors of D numbers
    ams.py table D AMS WORKER SERVER [STORED PART…]
                                         table 2 of the paper, by formula and as counted: files of what ctr-train said; status 3: off by more than 1%;
                                         STORED: of the run over PARTs, whose images are used as often as the paper's
    ams.py times TRIES RANKS BENCH FILE.svg MODEL…   table 1: times of `ctr-train MODEL…` over 1 and RANKS (such as 2,4) ranks on parts that lie
                                         here, beside a model of what one rank takes and what BENCH (bench-comm) takes to send; the curve to 40"""
import array
import os
import random
import re
import resource
import struct
import subprocess
import sys
import time

MIB = 1 << 20
PAPER = {"I": 320000, "N": 1400000, "d": 12, "D": 4096, "b": 4, "uses": 31, "R": 20, "E": 4096 * 256 + 256 * 64 + 64 * 12 + 2 * (256 + 64) + 12}
METHODS = (  # name, bytes of vectors and gradients of a step, of them those of images, as the paper prints them
    ("AMS", lambda I, N, d, D, b: 2 * d * b * (I + N), lambda I, N, d, D, b: 2 * d * b * I, "158M, images 30M"),
    ("PS-worker", lambda I, N, d, D, b: 2 * d * b * N, lambda I, N, d, D, b: 0, "128M"),
    ("PS-server", lambda I, N, d, D, b: D * b * I + 2 * d * b * N, lambda I, N, d, D, b: D * b * I, "5.1G"),
)


def vectors(n, width, path):
    """Each a window of one row of random numbers, as many as make no two the same."""
    r = random.Random(1)
    base = array.array("f", [r.gauss(0, 0.5) for _ in range(width + 60013)])
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (n, width)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        for i in range(n):
            at = i * 7919 % 60013
            base[at : at + width].tofile(f)


def said(path):
    """What the summary of ctr-train says of ranks."""
    text, out = open(path).read(), {}
    m = re.search(r"^steps +(\d+) of (\d+) ranks; a step asks for ([\d.]+) IDs and ([\d.]+) images", text, re.M)
    out["steps"], out["ranks"], out["N"], out["I"] = int(m[1]), int(m[2]), float(m[3]), float(m[4])
    for name, formula, counted, away in re.findall(r"^([a-z][a-z, ]+?)  +([\d.]+) +([\d.]+) +([\d.]+)$", text, re.M):
        out[name] = float(formula) * 1024, float(counted) * 1024, float(away) * 1024
    m = re.search(r"^images embedded +(\d+) of (\d+) asked for: (\d+) forward passes saved", text, re.M)
    out["embedded"], out["asked"], out["saved"] = int(m[1]), int(m[2]), int(m[3])
    out["storage"] = re.search(r"^vectors of images +(.*) with the samples, (.*) on servers: ([\d.]+) times", text, re.M).groups()
    return out


def mib(x):
    return "%.1f" % (x / MIB) if x < 1000 * MIB else "{:,.0f}".format(x / MIB)


def stored(path, parts):
    """A row: vectors of images with the samples, b D for each use, to those on servers, b D for each image. Uses and images are those of the parts."""
    text = subprocess.run(["ctr-export", "-q", "-f", "jsonl", "-c", "photo,seen", *parts], stdout=subprocess.PIPE, text=True, check=True).stdout
    named = re.findall(r"\d+", text)
    want, counted = len(named) / len(set(named)), float(said(path)["storage"][2])
    off = abs(counted / want - 1)
    print("| storage with the samples to that on servers, uses of an image | %d times | 31 times | %.2f times | %.1f times | %.2f%% |" % (PAPER["uses"], want, counted, 100 * off))
    return off


def table(width, paths):
    runs, p, worst = [said(f) for f in paths[:3]], PAPER, 0.0
    ours = {"d": p["d"], "D": width, "b": p["b"]}
    sized = {k: p[k] for k in ("I", "N", "d", "D", "b")}
    print("| vectors and gradients of a step | formula, MiB | printed | a run: formula, MiB | counted | apart by |\n|---|---|---|---|---|---|")
    for (name, total, images, printed), run in zip(METHODS, runs):
        rows = [(name, total, run["vectors, gradients"][1], printed)]
        if name == "AMS":
            rows.append(("AMS, of it images", images, run["image vectors"][1] + run["image gradients"][1], "30M"))
            rows[0] = (*rows[0][:3], "158M")
        for row, formula, counted, printed in rows:
            want = formula(run["I"], run["N"], **ours)
            off = abs(counted / want - 1)
            worst = max(worst, off)
            print("| %s | %s | %s | %.3f | %.3f | %.2f%% |" % (row, mib(formula(**sized)), printed, want / MIB, counted / MIB, 100 * off))
    run = runs[0]
    keys = run["ids"][1] + run["image keys"][1]
    print("| keys, which the paper leaves out | %s | | %.3f | %.3f | %.2f%% |" % (mib(8 * (p["I"] + p["N"])), 8 * (run["I"] + run["N"]) / MIB, keys / MIB, 100 * abs(keys / 8 / (run["I"] + run["N"]) - 1)))
    sync = run["tower gradients"]
    print("| sums of the tower's gradients, R = %d, %d | %s | | %.3f | %.3f | %.2f%% |" % (p["R"], run["ranks"], mib(2 * (p["R"] - 1) * p["b"] * p["E"]), sync[0] / MIB, sync[1] / MIB, 100 * abs(sync[1] / sync[0] - 1)))
    if paths[3:]:
        worst = max(worst, stored(paths[3], paths[4:]))
    print("\n%d steps of %d ranks, %.0f IDs and %.0f images a step, vectors of %d numbers." % (run["steps"], run["ranks"], run["N"], run["I"], width))
    print("AMS embedded %d images of %d that were asked for: %d forward passes (%.0f%%) saved." % (run["embedded"], run["asked"], run["saved"], 100 * run["saved"] / run["asked"]))
    print("Vectors of images: %s with the samples (PS-worker), %s on servers: %s times as much; the paper's 31 are 31 uses of an image, as in the last row." % run["storage"])
    return 3 if worst > 0.01 else 0


# ---- table 1

MPIRUN = ["mpirun", "--oversubscribe", "-q", "-n"]
ROWS, LONG, SHORT = int(os.environ.get("ROWS", 4800)), 12, 4  # rows of a step of all ranks; steps of two runs, whose difference has no start and no end
PAPER_HOURS = {5: 62.9, 10: 32.0, 20: 17.4, 40: 10.2}
SWAPS = 12  # of a step: what is due, who is whole, IDs and images asked for and given, their gradients, two sums of two swaps each


def timed(command):
    """Seconds of wall and of processors, of all processes."""
    before, from_ = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    said_ = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    wall, after = time.monotonic() - from_, resource.getrusage(resource.RUSAGE_CHILDREN)
    if said_.returncode:
        sys.exit(said_.stderr)
    with open("times.txt", "w") as f:
        f.write(said_.stderr)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def step_of(tries, ranks, minibatch, model):
    """Wall and processor seconds of a step, the least of all tries, and what the long run said: its images asked for and embedded, bytes sent."""
    least = {}
    for _ in range(tries):
        for steps in (SHORT, LONG):
            parts = ["%s.%d.part" % (r, steps) for r in range(ranks)]
            for r, name in enumerate(parts):
                first = r * minibatch * LONG
                take = ["--where", "row >= %d and row < %d" % (first, first + minibatch * steps)]
                subprocess.run(["ctr-select", "-q", *take, "-o", name, "times.arrows"], check=True)
            command = ["ctr-train", *model, "-j", "1", "--minibatch", str(minibatch), "-o", "times.model", *parts]
            both = timed((MPIRUN + [str(ranks)] if ranks > 1 else []) + command)
            least[steps] = tuple(map(min, zip(both, least.get(steps, both))))
    wall, processor = ((a - b) / (LONG - SHORT) for a, b in zip(least[LONG], least[SHORT]))
    return wall, processor


def images_of(minibatch, ranks):
    """Images that a step embeds, and asks for, from the rows themselves: the mean of steps between SHORT and LONG."""
    text = subprocess.run(["ctr-export", "-q", "-f", "jsonl", "-c", "row,photo,seen", "times.arrows"], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [set(re.findall(r"\d+", line.split(",", 1)[1])) for line in text.splitlines()]
    embedded = asked = 0
    for s in range(SHORT, LONG):
        each = [set().union(*rows[(r * LONG + s) * minibatch : (r * LONG + s + 1) * minibatch]) for r in range(ranks)]
        embedded += len(set().union(*each))
        asked += sum(map(len, each))
    return embedded / (LONG - SHORT), asked / (LONG - SHORT)


def least_squares(rows, y):
    """Of the columns of rows, by the normal equations, each row weighed by 1 / y: relative errors count."""
    n = len(rows[0])
    a = [[sum(r[i] * r[j] / t / t for r, t in zip(rows, y)) for j in range(n)] + [sum(r[i] / t for r, t in zip(rows, y))] for i in range(n)]
    for i in range(n):
        p = max(range(i, n), key=lambda k: abs(a[k][i]))
        a[i], a[p] = a[p], a[i]
        for k in range(n):
            if k != i:
                f = a[k][i] / a[i][i]
                a[k] = [x - f * z for x, z in zip(a[k], a[i])]
    return [a[i][n] / a[i][i] for i in range(n)]


def costs(rows, y):
    """Least squares without the column that comes out lowest while one is below 0."""
    use = list(range(len(rows[0])))
    while True:
        found = least_squares([[r[i] for i in use] for r in rows], y)
        if min(found) >= 0:
            return [found[use.index(i)] if i in use else 0.0 for i in range(len(rows[0]))]
        del use[found.index(min(found))]


def curve(path, lines):
    """Hours by ranks, both axes by powers of two."""
    from math import log2

    x = lambda r: 70 + 95 * (log2(r) + 0)
    y = lambda h: 40 + 55 * (log2(1024) - log2(h)) * 0.9
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="680" height="470" font-family="sans-serif" font-size="13">', '<rect width="680" height="470" fill="white"/>']
    for r in (1, 2, 5, 10, 20, 40):
        out.append('<path d="M%.1f 40V440" stroke="#ddd"/><text x="%.1f" y="458" text-anchor="middle">%d</text>' % (x(r), x(r), r))
    for h in (8, 16, 32, 64, 128, 256, 512):
        out.append('<path d="M70 %.1fH660" stroke="#ddd"/><text x="62" y="%.1f" text-anchor="end">%d h</text>' % (y(h), y(h) + 4, h))
    for i, (name, points, color) in enumerate(lines):
        at = " ".join("%.1f,%.1f" % (x(r), y(h)) for r, h in points)
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (at, color))
        out += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (x(r), y(h), color) for r, h in points]
        out.append('<text x="380" y="%d" fill="%s">%s</text>' % (64 + 20 * i, color, name))
    with open(path, "w") as f:
        f.write("\n".join(out + ['<text x="330" y="24">hours by ranks</text>', "</svg>\n"]))


def times(tries, ranks, bench, picture, model):
    env = subprocess.run
    sends = {}
    for r in ranks:
        sends[r] = [float(v) for v in env(MPIRUN + [str(r), bench], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1:]]
    step_of(1, 2, ROWS // 8, model)  # which also tells how many floats the layers have
    dense = sum(said("times.txt")[k][1] for k in ("dense gradients", "tower gradients")) / 2  # 2 (R - 1) b n
    # one rank, at several sizes of minibatch: seconds an image, a row, a step
    sizes = sorted({ROWS, ROWS // 2, ROWS // 4, ROWS // 8})
    one = {b: step_of(tries, 1, b, model) for b in sizes}
    found = {b: images_of(b, 1) for b in sizes}
    image, row, step = costs([(found[b][0], b, 1) for b in sizes], [one[b][1] for b in sizes])
    print("One rank, processor seconds: %.1f us an image, %.1f us a row, %.1f ms a step." % (image * 1e6, row * 1e6, step * 1e3))
    for r in ranks:
        print("%d ranks: a swap %.1f us (processor %.1f), a byte to others %.2f ns (processor %.2f)." % (r, sends[r][0], sends[r][2], sends[r][1], sends[r][3]))
    print("\n| ranks | rows a step | wall ms a step | efficiency | processor ms | to one rank | model | apart by |\n|---|---|---|---|---|---|---|---|")
    worst = 0.0
    for kind, size in (("strong", lambda r: ROWS // r), ("weak", lambda r: ROWS // max(ranks))):
        base = one[size(1)]
        for r in [1, *ranks]:
            b = size(r)
            wall, processor = base if r == 1 else step_of(tries, r, b, model)
            embedded, asked = images_of(b, r)
            sent = 2 * (r - 1) * dense + (r - 1) / r * (2 * 48 + 8) * (asked + 24 * b * r) if r > 1 else 0
            says = image * embedded + row * b * r + step * r + (sent * sends[r][3] * 1e-9 + SWAPS * r * sends[r][2] * 1e-6 if r > 1 else 0)
            share = base[0] / wall if kind == "weak" else base[0] / wall / r
            work = processor / base[1] / (r if kind == "weak" else 1)
            worst = max(worst, abs(says / processor - 1)) if r > 1 else worst
            print("| %d %s | %d x %d | %.1f | %.2f | %.1f | %.2f | %.1f | %+.0f%% |" % (r, kind, r, b, wall * 1e3, share, processor * 1e3, work, says * 1e3, 100 * (says / processor - 1)))
    print("\nThe model is apart by %.0f%% at most, over ranks." % (100 * worst))
    # to 40 ranks, each on a processor of its own: the paper's minibatch of 3000 rows and 16,000 images a rank, for as many samples
    r0 = max(ranks)
    lat, byte = sends[r0][0] * 1e-6, sends[r0][1] * 1e-9

    def hours(r):
        b, images, ids = 3000, 16000, 70000
        sync = 2 * (r - 1) / r * dense
        return (image * images + row * b + step + SWAPS * lat * (r - 1) + byte * (sync + (r - 1) / r * (2 * 48 + 8) * (images + ids))) / (b * r)

    scale = PAPER_HOURS[5] / hours(5)
    ours = [(r, hours(r) * scale) for r in (1, 2, 4, 5, 10, 20, 40)]
    print("\n| ranks | the model, 5 ranks as long as the paper's | paper, hours |\n|---|---|---|")
    for r, h in ours:
        print("| %d | %.1f | %s |" % (r, h, PAPER_HOURS.get(r, "")))
    curve(picture, [("model of ctrkit", ours, "#1f77b4"), ("Ge et al., table 1", sorted(PAPER_HOURS.items()), "#d62728")])


if __name__ == "__main__":
    what, *a = sys.argv[1:]
    if what == "vectors":
        vectors(int(a[0]), int(a[1]), a[2])
    elif what == "table":
        sys.exit(table(int(a[0]), a[1:]))
    elif what == "times":
        times(int(a[0]), [int(r) for r in a[1].split(",")], a[2], a[3], a[4:])
    else:
        sys.exit(__doc__)
