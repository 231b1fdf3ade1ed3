#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""photos.jsonl of ctr-synth as an array of float32 and its keys, in the order of these as text.
usage: photo_npy.py PHOTOS.jsonl VECTORS.npy KEYS.csv"""
import json
import struct
import sys

with open(sys.argv[1], encoding="ascii") as f:
    rows = sorted((str(r["photo"]), r["vector"]) for r in map(json.loads, f))
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0][1]))
head += " " * (117 - len(head)) + "\n"
with open(sys.argv[2], "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    for _, vector in rows:
        f.write(struct.pack("<%df" % len(vector), *vector))
with open(sys.argv[3], "w", encoding="ascii") as f:
    f.write("key\n" + "".join(key + "\n" for key, _ in rows))
