#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Impressions from a log that has clicks only: for each user's first click on an article one article that was not clicked, drawn
among the clicks of the last hour, so by popularity and from the past alone.
usage: globo_pairs.py CLICKS.csv.gz >PAIRS.csv, of columns user,time,article,click in order of time."""
import csv, gzip, sys

HOUR = 3600_000
MASK = (1 << 64) - 1


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


with gzip.open(sys.argv[1], "rt", newline="") as f:
    clicks = sorted((int(r["click_timestamp"]), int(r["user_id"]), int(r["click_article_id"])) for r in csv.DictReader(f))
seen = {}
first = now = 0  # clicks[first:now] are those of the last hour, before this one's time
out = ["user,time,article,click\n"]
for i, (time, user, article) in enumerate(clicks):
    while clicks[first][0] < time - HOUR:
        first += 1
    while clicks[now][0] < time:
        now += 1
    past = seen.setdefault(user, set())
    if article not in past and now > first:
        for t in range(10):
            other = clicks[first + splitmix64(10 * i + t) % (now - first)][2]
            if other != article and other not in past:
                out.append(f"{user},{time},{article},1\n{user},{time},{other},0\n")
                break
    past.add(article)
    if len(out) > 1 << 16:
        sys.stdout.writelines(out)
        out.clear()
sys.stdout.writelines(out)
