#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Impressions from a log of purchases: for each customer's first purchase of an article four articles that others bought in the same
week, so drawn by popularity, and that the customer has not bought up to that day.
usage: hm_pairs.py PURCHASES.csv.gz [SEED] >PAIRS.csv, of columns time,customer,article,first,bought in order of time; first says that
nobody had bought the article before that day. Days have no clock, and a week is seven days from the first day of the log."""
import csv
import datetime
import gzip
import sys

MASK = (1 << 64) - 1
NEGATIVES = 4


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


with gzip.open(sys.argv[1], "rt", newline="") as f:
    bought = sorted({(r["date"], int(r["customer_id"]), r["article_id"]) for r in csv.DictReader(f)})
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
start = datetime.date.fromisoformat(bought[0][0])


def week(day):
    return (datetime.date.fromisoformat(day) - start).days // 7


weeks, debut, owned = {}, {}, {}
for day, customer, article in bought:
    weeks.setdefault(week(day), []).append(article)
    debut.setdefault(article, day)
print("time,customer,article,first,bought")
at = 0
while at < len(bought):
    end = at  # rows of one day and customer are one basket
    while end < len(bought) and bought[end][:2] == bought[at][:2]:
        end += 1
    day, customer = bought[at][:2]
    mine = owned.setdefault(customer, set())
    fresh = [b[2] for b in bought[at:end] if b[2] not in mine]
    mine.update(fresh)
    pool = weeks[week(day)]
    for article in fresh:
        out = [(article, 1)]
        for t in range(200):
            other = pool[splitmix64((seed << 48) + (int(article) << 16) + (customer << 8) + t) % len(pool)]
            if other not in mine and all(other != o for o, _ in out):
                out.append((other, 0))
                if len(out) > NEGATIVES:
                    break
        for o, label in out:
            print("%s,%d,%s,%d,%d" % (day, customer, o, debut[o] >= day, label))
    at = end
