#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Picks the inputs of build/fuzz/TARGET that reach edges which tests/fuzz/corpus/TARGET does not, the
best gain per byte first, until the corpus holds so many bytes or files.  Needs the targets of `make fuzz`.

    tests/fuzz/distill.py [--bytes N] [--files N] TARGET...
"""
import argparse, os, shutil, subprocess, tempfile

def covers(target, folders):
    """{file: edges that it was the first to reach}, from libFuzzer's merge."""
    with tempfile.TemporaryDirectory() as d:
        control = os.path.join(d, "control")
        os.mkdir(os.path.join(d, "out"))
        subprocess.run(["build/opt-fuzz/fuzz/fuzz-" + target, "-merge=1", "-merge_control_file=" + control,
                        os.path.join(d, "out")] + folders, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = open(control).read().split("\n")
    n = int(lines[0])
    files = lines[2:2 + n]
    edges = {}
    for line in lines[2 + n:]:
        w = line.split()
        if w and w[0] == "COV":
            edges[files[int(w[1])]] = set(w[2:])
    return edges

def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bytes", type=int, default=6000)
    ap.add_argument("--files", type=int, default=60)
    ap.add_argument("targets", nargs="+")
    args = ap.parse_args()
    for t in args.targets:
        corpus, own = "tests/fuzz/corpus/" + t, "build/fuzz/" + t
        # The merge goes from small to large and lists the edges that are new.
        edges = covers(t, [corpus, own])
        have, size = set(), 0
        for f in os.listdir(corpus):
            have |= edges.get(os.path.join(corpus, f), set())
            size += os.path.getsize(os.path.join(corpus, f))
        left = {f: e for f, e in edges.items() if f.startswith(own + "/")}
        before = len(have)
        while left and len(os.listdir(corpus)) < args.files:
            best = max(left, key=lambda f: (len(left[f] - have) / (os.path.getsize(f) + 100), f))
            gain = left.pop(best) - have
            if not gain:
                break
            if size + os.path.getsize(best) > args.bytes:
                continue
            have |= gain
            size += os.path.getsize(best)
            shutil.copy(best, corpus)
        print(f"{t}: {before} -> {len(have)} edges, {size} bytes, {len(os.listdir(corpus))} files")

main()
