#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time line of a plan's stages as svg: ctr-train … -v -v 2>&1 >/dev/null | stages.py >stages.svg

A row a stage; it is busy where it neither waits for rows nor is blocked by the queue behind it. Waits shorter than a pixel are drawn as
a share of that pixel."""
import re
import sys

LEFT, WIDTH, ROW, TOP = 130, 800, 30, 46
COLOUR = {"busy": (46, 125, 80), "waiting": (222, 222, 222), "blocked": (240, 170, 80)}


def read(lines):
    ran, waits = {}, {}
    for line in lines:
        m = re.search(r"time line: (.*): (ran|waiting|blocked) ([0-9.]+) ([0-9.]+)$", line)
        if not m:
            continue
        stage, what, begin, end = m[1], m[2], float(m[3]), float(m[4])
        if what == "ran":
            ran[stage] = (begin, end)
        waits.setdefault(stage, []).append((what, begin, end))
    if not ran:
        sys.exit("stages.py: no time line on standard input; -v -v of ctr-extract and ctr-train tells it where -j is above 1")
    return ran, waits


def pixels(begin, end, waits, scale):
    """Of each pixel of the row what is waited and blocked, as shares; None: the stage does not run."""
    row = [None] * WIDTH
    for what, b, e in [("ran", begin, end)] + [w for w in waits if w[0] != "ran"]:
        for x in range(int(b * scale), min(int(e * scale) + 1, WIDTH)):
            share = max(0.0, min(e * scale, x + 1) - max(b * scale, x))
            if what == "ran":
                row[x] = {"waiting": 0.0, "blocked": 0.0}
            elif row[x]:
                row[x][what] += share
    return row


def colour(p):
    waiting, blocked = (min(1, round(p[what] * 4) / 4) for what in ("waiting", "blocked"))
    shares = (max(0.0, 1 - waiting - blocked), waiting, blocked)
    return "#%02x%02x%02x" % tuple(min(255, round(sum(s * c for s, c in zip(shares, rgb)))) for rgb in zip(*COLOUR.values()))


def main():
    ran, waits = read(sys.stdin)
    last = max(e for _, e in ran.values())
    scale, height = WIDTH / last, TOP + ROW * len(ran) + 40
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" font-family="sans-serif" font-size="13">')
    print('<rect width="100%" height="100%" fill="white"/>')
    for i, (name, c) in enumerate(COLOUR.items()):
        print(f'<rect x="{LEFT + 110 * i}" y="14" width="14" height="14" fill="rgb{c}"/><text x="{LEFT + 110 * i + 20}" y="26">{name}</text>')
    for i, (stage, (begin, end)) in enumerate(ran.items()):
        y = TOP + ROW * i
        print(f'<text x="{LEFT - 10}" y="{y + 18}" text-anchor="end">{stage}</text>')
        row, x = pixels(begin, end, waits[stage], scale), 0
        while x < WIDTH:
            c, first = row[x] and colour(row[x]), x
            while x < WIDTH and (row[x] and colour(row[x])) == c:
                x += 1
            if c:
                print(f'<path d="M{LEFT + first} {y + 3}h{x - first}v{ROW - 8}h-{x - first}z" fill="{c}"/>')
    step = min((m * 10.0 ** e for e in range(-4, 6) for m in (1, 2, 5)), key=lambda s: abs(last / s - 6))
    y = TOP + ROW * len(ran)
    at = 0.0
    while at <= last:
        print(f'<path d="M{LEFT + at * scale:.1f} {TOP}V{y + 4}" stroke="#999" stroke-width="0.5"/>'
              f'<text x="{LEFT + at * scale:.1f}" y="{y + 20}" text-anchor="middle">{at:g} s</text>')
        at = round(at + step, 6)
    print("</svg>")


main()
