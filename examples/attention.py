#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One page with pictures: which images of a user's past attention weighs highest beside the image of a candidate. Self-contained; light
and dark as the reader's system is.
usage: attention.py ROWS.jsonl WEIGHTS.jsonl IMAGES.tar USER LABEL >PAGE.html
ROWS: the rows that were explained, of which USER and LABEL are columns; WEIGHTS: ctr-model explain --attention --images --format stream of them, as
jsonl; IMAGES: files whose names without folder and ending are the keys of images."""
import base64
import collections
import html
import json
import os
import sys
import tarfile

STYLE = """:root { color-scheme: light dark; --ink: #1d2125; --faint: #626a73; --ground: #fff; --card: #f1f3f5; --bar: #2f6f9f; --minus: #b3541e }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --faint: #98a1aa; --ground: #15181b; --card: #22272c; --bar: #6fb1e0; --minus: #e08a54 } }
body { margin: 2em auto; padding: 0 1em; max-width: 66em; font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--ground) }
h1 { font-size: 1.4em } p, figcaption { color: var(--faint) }
section { display: flex; flex-wrap: wrap; gap: .6em; padding: .8em 0; border-top: 1px solid var(--card); align-items: flex-end }
figure { margin: 0; width: 7em } figure.candidate { width: 9em; margin-right: 1.6em }
img, .none { width: 100%; aspect-ratio: 2 / 3; object-fit: cover; background: var(--card); border-radius: 4px; display: block }
figcaption { font-size: .8em; overflow-wrap: anywhere } b { color: var(--ink) }
.weight { height: 6px; background: var(--card); margin-top: 3px } .weight i { display: block; height: 6px; background: var(--bar) }
.weight i.minus { background: var(--minus) }"""

rows_path, weights_path, tar_path, user, label = sys.argv[1:]
with open(rows_path, encoding="utf-8") as f:
    rows = [json.loads(line) for line in f]
weights = collections.defaultdict(list)
with open(weights_path, encoding="utf-8") as f:
    for w in map(json.loads, f):
        if w["of"] is not None and w["candidate"] is not None:  # images beside the image of the candidate
            weights[w["row"]].append(w)
wanted = {n for ws in weights.values() for w in ws for n in (w["candidate"], w["name"])}
pictures = {}
with tarfile.open(tar_path) as tar:
    for member in tar:
        key = os.path.splitext(os.path.basename(member.name))[0]
        if member.isfile() and key in wanted:
            data = tar.extractfile(member).read()
            kind = "png" if data.startswith(b"\x89PNG") else "jpeg"
            pictures[key] = "data:image/%s;base64,%s" % (kind, base64.b64encode(data).decode())


def figure(key, caption, extra="", kind=""):
    picture = '<img alt="%s" src="%s">' % (html.escape(key or ""), pictures[key]) if key in pictures else '<div class="none"></div>'
    return "<figure%s>%s%s<figcaption>%s</figcaption></figure>" % (kind, picture, extra, caption)


def item(w, most):
    bar = '<div class="weight"><i%s style="width: %.1f%%"></i></div>' % (' class="minus"' if w["weight"] < 0 else "", 100 * abs(w["weight"]) / most)
    return figure(w["name"], "<b>%.3f</b> %s, item %d" % (w["weight"], html.escape(w["name"] or "?"), w["place"]), bar)


print('<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">')
print("<title>What attention weighs</title>\n<style>%s</style>" % STYLE)
print("<h1>What attention weighs</h1>\n<p>A line is a user and a candidate, the first picture. Beside it the images of the user's past that attention weighs "
      "highest, with their weights, whose bars are relative to the highest of the line, and their places in the history.</p>")
for row, ws in sorted(weights.items()):
    most = max(abs(w["weight"]) for w in ws) or 1
    r = rows[row - 1]
    caption = "<b>%s</b><br>%s %s, %s %s<br>score %.3f" % (html.escape(ws[0]["candidate"]), html.escape(user), html.escape(str(r[user])), html.escape(label),
                                                           html.escape(str(r[label]).lower()), ws[0]["score"])
    print("<section>%s%s</section>" % (figure(ws[0]["candidate"], caption, kind=' class="candidate"'), "".join(item(w, most) for w in ws)))
print("</html>")
