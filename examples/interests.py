#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A planted world of interests: a user who read articles of several topics clicks where the candidate has the topic of some of them.

    interests.py ROWS SEED >rows.csv        click,p_true,article,past: past is a list of articles, separated by spaces

log odds = -1.5 + 1.1 min(k, 3) + b(article), where k of the past articles have the candidate's topic and b is drawn once an article. A past article has a
topic as an article does, 12 of them; the plan (interests.plan) does not tell it."""
import math
import random
import sys

ARTICLES, TOPICS = 240, 12
r = random.Random(int(sys.argv[2]))
liked = [r.gauss(0, 0.5) for _ in range(ARTICLES)]
print("click,p_true,article,past")
for _ in range(int(sys.argv[1])):
    article = r.randrange(ARTICLES)
    interests = r.sample(range(TOPICS), 3)
    past = [r.choice(interests) + TOPICS * r.randrange(ARTICLES // TOPICS) for _ in range(r.randrange(13))]
    if past and r.random() < 0.35:  # candidates are often what the user reads
        article = r.choice(interests) + TOPICS * r.randrange(ARTICLES // TOPICS)
    k = sum(a % TOPICS == article % TOPICS for a in past)
    p = 1 / (1 + math.exp(1.5 - 1.1 * min(k, 3) - liked[article]))
    print("%d,%.6f,%d,%s" % (r.random() < p, p, article, " ".join(map(str, past))))
