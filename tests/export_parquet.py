"""Parquet that ctr-export writes, as pyarrow, DuckDB and Polars read it: export_parquet.py FOLDER."""
import math
import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

FOLDER, ROWS = sys.argv[1], 3000
rnd = random.Random(1)
TYPES = {
    "b": (pa.bool_(), lambda: rnd.random() < 0.5),
    "f32": (pa.float32(), lambda: rnd.choice([0.0, -0.0, 1.5, math.inf])),
    "f64": (pa.float64(), lambda: rnd.gauss(0, 1)),
    "t": (pa.timestamp("ms", "UTC"), lambda: rnd.randrange(-(10**11), 10**12)),
    "s": (pa.string(), lambda: str(rnd.randrange(10**9))),
    "d": (pa.string(), lambda: rnd.choice(["", "a", "b\u00e9", "x" * 100])),
    "seq": (pa.int64(), lambda at=iter(range(10**9)): next(at)),
    "f16": (pa.float16(), lambda: np.float16(rnd.gauss(0, 1))),
    "long": (pa.string(), lambda: "".join(rnd.choice("ab\u00e9\u20ac\U0001f600\x7f") for _ in range(rnd.randrange(130)))),
    "li": (pa.list_(pa.int32()), lambda: [rnd.choice([None, 1, 2]) for _ in range(rnd.randrange(4))]),
    "ls": (pa.list_(pa.string()), lambda: [rnd.choice([None, "q", ""]) for _ in range(rnd.randrange(4))]),
}
for w in (8, 16, 32, 64):
    TYPES[f"i{w}"] = getattr(pa, f"int{w}")(), lambda w=w: rnd.randrange(-(2 ** (w - 1)), 2 ** (w - 1))
    TYPES[f"u{w}"] = getattr(pa, f"uint{w}")(), lambda w=w: rnd.randrange(2**w)


def column(kind, make, nulls):
    return pa.array([None if rnd.random() < nulls else make() for _ in range(ROWS)], kind)


columns = {f"{n}_{p}": column(*t, p / 10) for n, t in TYPES.items() for p in (0, 3, 10)}
hidden = pa.array([9.0] * (2 * ROWS), pa.float32())  # values below a null are none
columns["fixed"] = pa.FixedSizeListArray.from_arrays(hidden, 2, mask=pa.array([i % 3 == 1 for i in range(ROWS)]))
columns["nan"] = pa.array([math.nan] * ROWS)
table = pa.table(columns)
with pa.ipc.new_stream(f"{FOLDER}/py.arrows", table.schema) as w:
    w.write_table(table)


def export(*options):
    subprocess.run(["ctr-export", *options, "-o", f"{FOLDER}/py.parquet", f"{FOLDER}/py.arrows"], check=True)


def same(who, got, skip=()):
    for c in table.column_names:
        if c.split("_")[0] in skip:
            continue
        ours, theirs = ([repr(v) for v in t[c].to_pylist()] for t in (table, got))  # -0.0 is not 0.0, and NaN is NaN
        assert ours == theirs, (who, c, next((i, a, b) for i, (a, b) in enumerate(zip(ours, theirs)) if a != b))


def others():
    try:
        import polars
    except ImportError:
        pass
    else:
        same("polars", polars.read_parquet(f"{FOLDER}/py.parquet").to_arrow())
    try:
        import duckdb
    except ImportError:
        return
    got = duckdb.sql(f"select * from '{FOLDER}/py.parquet'").arrow()
    same("duckdb", got.read_all() if hasattr(got, "read_all") else got, skip=("t", "f16"))  # its time zone is the system's; float16 is float32


snappy = subprocess.run(["ctr-export", "--codec", "snappy", "-f", "parquet", f"{FOLDER}/py.arrows"], capture_output=True)
assert snappy.returncode == 0 or b"lacks snappy" in snappy.stderr, snappy.stderr
for options in [], ["--codec", "none"], *([["--codec", "snappy"]] if snappy.returncode == 0 else []):
    export(*options)
    same("pyarrow", pq.read_table(f"{FOLDER}/py.parquet", page_checksum_verification=True))
    others()
s = pq.ParquetFile(f"{FOLDER}/py.parquet").metadata.row_group(0)
for i in range(s.num_columns):
    name, stats = s.column(i).path_in_schema, s.column(i).statistics
    if "." in name or name[:2] in ("d_", "b_") or name[:4] in ("f16_", "long"):
        continue
    values = [v for v in table[name].to_pylist() if v is not None]
    assert stats.null_count == ROWS - len(values), name
    assert stats.has_min_max == (bool(values) and name != "nan"), name
    if stats.has_min_max and not name.startswith("t_"):
        assert (stats.min, stats.max) == (min(values), max(values)), name
index = {e for i in range(s.num_columns) for e in s.column(i).encodings}
assert {"RLE_DICTIONARY", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"} <= index, index
export()
s = pq.ParquetFile(f"{FOLDER}/py.parquet").metadata.row_group(0)
for i in range(s.num_columns):
    name, stats = s.column(i).path_in_schema, s.column(i).statistics
    if name.startswith("long") and stats.has_min_max:
        values = [v.encode() for v in table[name].to_pylist() if v is not None]
        assert stats.min.encode() <= min(values) and max(values) <= stats.max.encode(), name
    assert s.column(i).has_offset_index, name
    assert s.column(i).has_column_index == (not name.startswith(("f16_0", "f16_3", "nan"))), name
export("--keys", "int64", "--time-unit", "us")
got = pq.read_table(f"{FOLDER}/py.parquet")
assert got["t_3"].type == pa.timestamp("us", "UTC") and got["u64_3"].type == pa.int64()
assert got["t_3"].to_pylist() == table["t_3"].to_pylist()
assert [v if v is None else v % 2**64 for v in got["u64_3"].to_pylist()] == table["u64_3"].to_pylist()
