# SPDX-License-Identifier: Apache-2.0
"""Random tables, written in a dialect of csv or tsv in many ways and read by ctr-import: the values must be those that were
written. Usage: dialects.py FOLDER SEED, with ctr-import and ctr-export in PATH. Prints "same ROWS" for each dialect."""
import json
import random
import subprocess
import sys

folder, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
PIECES = ["a", "b", " ", "\t", ",", ";", '"', "\\", "\n", "#", "N", "n", "t", "é", "long text without end", "\\N", "1.5", "'"]


def value():
    if rng.random() < 0.1:
        return None
    return "".join(rng.choice(PIECES) for _ in range(rng.choice([0, 1, 2, 3, 3, 8])))


def in_quotes(v, escape):
    out = '"'
    for c in v:
        if c == '"':
            out += rng.choice(['""', "\\" + '"']) if escape else '""'
        elif c == "\\" and escape:
            out += "\\\\"
        else:
            out += c
    return out + '"'


def escaped(v, delimiter, letters):
    out = ""
    for c in v:
        if letters and c in "\n\t":
            out += rng.choice(["\\" + c, {"\n": "\\n", "\t": "\\t"}[c]])
        elif c in (delimiter, "\\", "\n"):
            out += "\\" + c
        elif c == '"' and not letters:
            out += "\\" + c
        else:
            out += c
    return out


def cell(v, d, first):
    if v is None:
        text = "\\N"
    else:
        blank = d["trim"] and v != v.strip(" \t")
        plain = not any(c in v for c in (d["delimiter"], "\n", '"', "\\"))
        comment = first and d["comment"] and v.startswith("#")
        ways = []
        if d["csv"]:
            ways.append(lambda: in_quotes(v, d["escape"]))
        if d["escape"] and not blank and not comment:
            ways.append(lambda: escaped(v, d["delimiter"], not d["csv"]))
        if plain and not blank and not comment and v != "\\N":
            ways.append(lambda: v)
        if not ways:
            return None
        text = rng.choice(ways)()
    if d["trim"] and not (first and d["comment"]):
        text = rng.choice(["", " ", "  "]) + text + rng.choice(["", " ", "\t" if d["delimiter"] != "\t" else " "])
    return text


for number in range(12):
    csv = rng.random() < 0.6
    d = dict(csv=csv, delimiter=rng.choice(",;|") if csv else "\t", escape=rng.random() < 0.7 or not csv, trim=rng.random() < 0.5,
             comment=rng.random() < 0.5)
    end = rng.choice(["\n", "\r\n"])
    text, want = "", []
    for _ in range(rng.choice([3, 20, 20000])):
        if d["comment"] and rng.random() < 0.2:
            text += "#" + rng.choice(["", ' "', " a,b", ',"', "\\"]) + end
        row = [value() for _ in range(3)]
        cells = [cell(v, d, i == 0) for i, v in enumerate(row)]
        if None in cells or (d["trim"] and not d["csv"] and any(v and v != v.strip(" \t") for v in row)):
            continue
        text += d["delimiter"].join(cells) + end
        want.append(row)
    if text.endswith("\n") and rng.random() < 0.5:
        text = text[: -len(end)]
    path = f"{folder}/dialect.txt"
    with open(path, "w", newline="", encoding="utf-8") as f:
        f.write(text)
    args = ["ctr-import", "-q", "-f", "csv" if csv else "tsv", "-d", d["delimiter"], "-c", "a:utf8,b:utf8,c:utf8", "--null", "\\N"]
    args += ["--escape", "\\"] * d["escape"] + ["--trim"] * d["trim"] + ["--comment", "#"] * d["comment"]
    for jobs in ("1", "3"):
        p = subprocess.run(args + ["-j", jobs, path], capture_output=True)
        q = subprocess.run(["ctr-export", "-q", "-f", "jsonl"], input=p.stdout, capture_output=True)
        got = [list(json.loads(line).values()) for line in q.stdout.decode().split("\n") if line]
        if p.returncode or q.returncode or got != want:
            k = next((k for k, (g, w) in enumerate(zip(got, want)) if g != w), min(len(got), len(want)))
            print(f"other: seed {seed}, dialect {number} {d} {end!r}: {p.stderr.decode()}{q.stderr.decode()}"
                  f"row {k + 1}: {got[k:k + 1]} for {want[k:k + 1]}, {len(got)} rows for {len(want)}")
            sys.exit(1)
    print("same", len(want))
