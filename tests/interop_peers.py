# SPDX-License-Identifier: Apache-2.0
"""The matrix of types with pyarrow, Polars, DuckDB, pandas, numpy and scikit-learn, both ways. Random columns of every type, with
nulls, cut at odd offsets, in batches of all sizes; values are compared as bits. Text that ctr-export writes is read by others too.
Usage: interop_peers.py FOLDER, with the tools in PATH."""
import datetime as dt
import io
import json
import os
import random
import struct
import sys

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

import interop
from interop import W, UTC, cat, decode, encode, ok, run, skip

EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
rng = random.Random(20130811)


def bits(v):
    """A value such that == means the same bits: NaN, -0.0 and 0.0 are told apart, times are milliseconds."""
    if isinstance(v, (float, np.floating)):
        return "nan" if v != v else struct.pack("<d", v)
    if isinstance(v, dt.datetime):
        return ("ms", (v - EPOCH) // dt.timedelta(milliseconds=1))
    if isinstance(v, (list, tuple, np.ndarray)):
        return [bits(x) for x in v]
    if isinstance(v, dict):
        return {k: bits(x) for k, x in v.items()}
    return v.item() if isinstance(v, np.generic) else v


def rows_of(columns):
    return {k: bits(list(v)) for k, v in columns.items()}


def check(name, f):
    """f() returns what was got and what was wanted, or raises."""
    try:
        got, want = f()
        where = ""
        if got != want and isinstance(got, dict) and isinstance(want, dict):
            bad = [k for k in want if got.get(k) != want[k]]
            where = f"columns {bad}\ngot  {str(got.get(bad[0]))[:300]}\nwant {str(want[bad[0]])[:300]}" if bad else list(got)
        ok(got == want, name, where or f"got  {str(got)[:300]}\nwant {str(want)[:300]}")
    except Exception as e:
        ok(False, name, f"{type(e).__name__}: {e}")


def peer(name):
    try:
        return __import__(name)
    except ImportError:
        return skip(name, f"no {name}")


# ---- a table of everything that is written ---------------------------------------------------------------------------------

def some(n, f, nulls=0.2):
    return [None if rng.random() < nulls else f() for _ in range(n)]


def an_int(b, signed):
    lo, hi = (-(2 ** (b - 1)), 2 ** (b - 1) - 1) if signed else (0, 2**b - 1)
    return lambda: rng.choice([lo, hi, 0, rng.randint(lo, hi)])


def a_float(b):
    code = {16: "<e", 32: "<f", 64: "<d"}[b]
    extra = [0.0, -0.0, float("inf"), float("-inf"), float("nan")]
    return lambda: rng.choice([rng.choice(extra), struct.unpack(code, rng.randbytes(b // 8))[0]])


def a_text():
    return rng.choice(["", "a", "zwölf", "twelve bytes", "thirteen byte", "a tab\tand a \"quote\", a\nline", "\U0001F600" * rng.randrange(9)])


def a_time():
    return EPOCH + dt.timedelta(milliseconds=rng.randrange(-10**12, 4 * 10**12))


WKEY = pa.list_(pa.struct([pa.field("key", pa.uint64()), pa.field("weight", pa.float32())]))
SCALARS = {"bool": (pa.bool_(), lambda: rng.random() < 0.5), "utf8": (pa.string(), a_text), "time": (pa.timestamp("ms", "UTC"), a_time)}
SCALARS.update({f"int{b}": (getattr(pa, f"int{b}")(), an_int(b, True)) for b in (8, 16, 32, 64)})
SCALARS.update({f"uint{b}": (getattr(pa, f"uint{b}")(), an_int(b, False)) for b in (8, 16, 32, 64)})
SCALARS.update({f"float{b}": (getattr(pa, f"float{b}")(), a_float(b)) for b in (16, 32, 64)})


def column_of(values, typ):
    """float16 is made from its bits, so that no conversion lies between."""
    if typ == pa.float16():
        return pa.array(np.array([np.nan if v is None else v for v in values], np.float16), typ,
                        mask=np.array([v is None for v in values], bool))
    if pa.types.is_nested(typ) and typ.value_type == pa.float16():
        if pa.types.is_fixed_size_list(typ):
            flat = [x for v in values for x in (v or [None] * typ.list_size)]
            return pa.FixedSizeListArray.from_arrays(column_of(flat, pa.float16()), typ.list_size, mask=pa.array([v is None for v in values]))
        ends = np.cumsum([0] + [len(v or []) for v in values])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), column_of([x for v in values for x in v or []], pa.float16()),
                                        mask=pa.array([v is None for v in values]))
    return pa.array(values, typ)


def everything(n):
    """Every type that is written, n rows, as what pyarrow calls it; no column is null-free or all null by design."""
    t = {}
    for k, (typ, f) in SCALARS.items():
        t[k] = column_of(some(n, f), typ)
        t[f"list.{k}"] = column_of(some(n, lambda: some(rng.randrange(4), f)), pa.list_(typ))
        t[f"fixed.{k}"] = column_of(some(n, lambda: some(3, f)), pa.list_(typ, 3))
        if typ not in (pa.float16(), pa.bool_()):
            words = pa.array([f() for _ in range(9)], typ)
            t[f"dict.{k}"] = pa.DictionaryArray.from_arrays(pa.array(some(n, lambda: rng.randrange(9)), pa.int32()), words)
    t["wkey"] = pa.array(some(n, lambda: [{"key": an_int(64, False)(), "weight": float(rng.randrange(9)) / 4} for _ in range(rng.randrange(3))]), WKEY)
    return pa.table(t)


def values(table):
    return rows_of({k: table[k].to_pylist() for k in table.column_names})


FORMS = ([], ["--batch", "7"], ["-z", "lz4"], ["-z", "zstd"], ["--to", "file"], ["--to", "file", "-z", "lz4"], ["--to", "file", "-z", "zstd"])


def test_the_test():
    """What compares values can tell them apart."""
    t = pa.table({"x": [0.0, 1.0]})
    for a, b in ((0.0, -0.0), (1.0, 1.0 + 2**-52), (None, float("nan")), ([], None), (EPOCH, EPOCH + dt.timedelta(milliseconds=1))):
        ok(bits([a]) != bits([b]), f"{a} is not {b}")
    ok(values(decode(cat(encode(t)))) != values(pa.table({"x": [-0.0, 1.0]})), "nor in a table")


def test_pyarrow():
    t = everything(400)
    want = values(t)
    odd = pa.concat_tables([t.slice(3, 5), t.slice(0, 0), t.slice(8, 1), t.slice(9, 391)])
    ways = [({}, t), (dict(compression="lz4"), t), (dict(compression="zstd"), t), (dict(file=True), t), (dict(file=True, compression="lz4"), t),
            (dict(file=True, compression="zstd"), t), (dict(chunk=1), t), (dict(chunk=7, emit_dictionary_deltas=True), t)]
    for how, x in ways:
        check(f"pyarrow there and back, every type, {how}", lambda: (values(decode(cat(encode(x, **how)))), want))
    check("slices at odd offsets, an empty batch between", lambda: (values(decode(cat(encode(odd)))), values(t.slice(3))))
    sealed = cat(encode(t))
    for how in FORMS:
        check(f"pyarrow reads ctr-cat {' '.join(how)}, every type", lambda: (values(decode(cat(sealed, *how))), want))
    for n in (0, 1, 64, 65):
        check(f"every type, {n} rows", lambda: (values(decode(cat(encode(t.slice(1, n))))), values(t.slice(1, n))))
    check("types come back as they were", lambda: (decode(sealed).schema.types, t.schema.types))
    wide = {f"large.{k}": t[k].cast(pa.large_list(t[k].type.value_type)) for k in t.column_names if k.startswith("list.")}
    wide |= {f"big.{f}": t["utf8"].cast(f) for f in (pa.large_string(), pa.string_view())}
    check("64-bit offsets and views", lambda: (list(values(decode(cat(encode(pa.table(wide))))).values()), [want[k.replace("large.", "")] if k in
          [f"large.{c}" for c in t.column_names] else want["utf8"] for k in wide]))


def test_zones():
    base = [rng.randrange(-10**18, 4 * 10**18) for _ in range(50)] + [None, 0, -1]
    for unit, div in (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)):
        for zone in (None, "UTC", "Europe/Berlin", "America/New_York", "+05:30", "Etc/GMT+12"):
            raw = [None if v is None else v // div for v in base]
            x = pa.array(raw, pa.int64()).cast(pa.timestamp(unit, zone))
            want = [None if v is None else v * div // 10**6 for v in raw]
            check(f"timestamp[{unit}, {zone}]", lambda: (decode(cat(encode(pa.table({"x": x}))))["x"].cast(pa.int64()).to_pylist(), want))


def test_dictionaries():
    """Dictionaries that grow and change within a stream, with and without deltas, and inside lists."""
    words = [f"word {i}" for i in range(1000)]
    for deltas in (False, True):
        for inner in (False, True):
            typ = pa.dictionary(pa.int16(), pa.string())
            schema = pa.schema([("x", pa.list_(typ) if inner else typ)])
            out, want, size = io.BytesIO(), [], 1
            with ipc.new_stream(out, schema, options=ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)) as w:
                for step in range(30):
                    size = rng.randrange(1, 20) if step % 10 == 9 else min(size + rng.randrange(60), 1000)
                    shift = step // 10  # every tenth step another dictionary, which is no extension of the one before
                    d = pa.array(words[shift:shift + size])
                    idx = some(rng.randrange(5), lambda: rng.randrange(len(d)))
                    want += [None if i is None else words[shift + i] for i in idx]
                    a = pa.DictionaryArray.from_arrays(pa.array(idx, pa.int16()), d)
                    if inner:
                        a = pa.ListArray.from_arrays(pa.array([0, len(idx)], pa.int32()), a)
                    w.write_batch(pa.record_batch([a], schema=schema))
            def flat():
                got = decode(cat(out.getvalue()))["x"].to_pylist()
                return ([v for row in got for v in row] if inner else got), want
            check(f"30 dictionaries, deltas {deltas}, in lists {inner}", flat)
    f = io.BytesIO()
    schema = pa.schema([("x", pa.dictionary(pa.int32(), pa.string()))])
    with ipc.new_file(f, schema, options=ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as w:
        for n in (2, 3, 900):
            w.write_batch(pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([n - 1, None], pa.int32()), pa.array(words[:n]))], schema=schema))
    check("delta dictionaries in an IPC file", lambda: (decode(cat(f.getvalue()))["x"].to_pylist(),
          [words[1], None, words[2], None, words[899], None]))


def test_sizes():
    n = 1_000_000
    g = np.random.default_rng(1)
    t = pa.table({"i": g.integers(-2**63, 2**63, n), "f": g.random(n), "u": g.integers(0, 255, n).astype(np.uint8),
                  "s": pa.array([f"{i:x}" for i in range(n)]), "l": pa.FixedSizeListArray.from_arrays(pa.array(g.random(2 * n, np.float32)), 2)})
    for how in ({}, dict(compression="lz4"), dict(compression="zstd", file=True)):
        check(f"a batch of a million rows, {how}", lambda: (decode(cat(encode(t, **how))).combine_chunks().equals(t.combine_chunks()), True))
    check("written as one batch of a million rows too", lambda: ((x := decode(cat(encode(t), "--batch", str(n)))).equals(t), len(x.to_batches()) == 1) and
          ((x.equals(t), len(x.to_batches())), (True, 1)))
    wide = pa.table({f"c{i}": pa.array([i, None] if i % 3 else [str(i), ""]) for i in range(10000)})
    check("10,000 columns", lambda: (decode(cat(encode(wide))).equals(wide), True))
    check("10,000 columns, a file, compressed", lambda: (decode(cat(encode(wide), "--to", "file", "-z", "lz4")).equals(wide), True))
    check("no columns", lambda: (decode(cat(encode(pa.table({})))).column_names, []))
    for c in ("lz4", "zstd"):
        x = pa.table({"i": pa.array([7] * 5 + [None]), "z": pa.array([None] * 6, pa.int64()), "e": [""] * 6})
        check(f"tiny and empty buffers, {c}", lambda: (decode(cat(encode(x, compression=c))).equals(x), True))


def test_refused():
    for what, a, words in (
        ("an interval", pa.array([None], pa.month_day_nano_interval()), ("'odd'", "interval", "int64")),
        ("16 bytes", pa.array([b"a" * 16], pa.binary(16)), ("'odd'", "fixed_size_binary", "utf8")),
        ("a time that milliseconds do not hold", pa.array([2**62], pa.timestamp("s")), ("'odd'", "out of range", "row 1")),
    ):
        p = run(["ctr-cat"], encode(pa.table({"fine": pa.array([1]), "odd": a})))
        said = p.stderr.decode()
        ok(p.returncode == 1 and all(w in said for w in words), f"{what} is refused, naming column and cast", said)
    tensor = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), (2, 2)), pa.array([[1, 2, 3, 4]], pa.list_(pa.float32(), 4)))
    t = pa.table({"t": tensor, "j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"]))})
    check("extension types stay what they are", lambda: (decode(cat(encode(t))).schema.types, t.schema.types))


# ---- Polars ----------------------------------------------------------------------------------------------------------------------

def polars_values(df):
    return rows_of({k: df[k].to_list() for k in df.columns})


def test_polars():
    pl = peer("polars")
    if not pl:
        return
    t = everything(300)
    want = values(t)
    sealed = cat(encode(t))
    for how in FORMS:
        read = pl.read_ipc if "--to" in how else pl.read_ipc_stream
        check(f"Polars reads ctr-cat {' '.join(how)}, every type", lambda: (polars_values(read(io.BytesIO(cat(sealed, *how)))), want))
    changed = cat(encode(pa.table({"x": pa.array(["a", "b"]).dictionary_encode()})) + encode(pa.table({"x": pa.array(["z", "a"]).dictionary_encode()})))
    check("two streams with other dictionaries, made one", lambda: (decode(changed)["x"].to_pylist(), ["a", "b", "z", "a"]))
    check("Polars reads dictionaries that are replaced", lambda: (pl.read_ipc_stream(io.BytesIO(changed))["x"].cast(pl.String).to_list(), ["a", "b", "z", "a"]))
    path = os.path.join(W, "p.arrow")
    with open(path, "wb") as f:
        f.write(cat(sealed, "--to", "file"))
    check("Polars scans a file", lambda: (polars_values(pl.scan_ipc(path).select("int8", "list.utf8").collect()), {k: want[k] for k in ("int8", "list.utf8")}))
    df = pl.from_arrow(t.drop_columns([k for k in t.column_names if k.startswith("dict.") and k != "dict.utf8"]))
    df = df.with_columns(pl.col("utf8").fill_null("x").cast(pl.Categorical).alias("cat"),
                         pl.Series("enum", some(300, lambda: rng.choice("uvw")), pl.Enum(["w", "v", "u"])),
                         pl.Series("bin", some(300, lambda: b"ab"), pl.Binary), pl.Series("null", [None] * 300, pl.Null),
                         pl.Series("catlist", some(300, lambda: ["p", "q"]), pl.List(pl.Categorical)))
    w = polars_values(df.with_columns(pl.col("bin").cast(pl.String), pl.col("cat").cast(pl.String)))
    for c in ("uncompressed", "lz4", "zstd"):
        for level in ("newest", "oldest"):
            for stream in (True, False):
                def back():
                    out = io.BytesIO()
                    (df.write_ipc_stream if stream else df.write_ipc)(out, compression=c, compat_level=getattr(pl.CompatLevel, level)())
                    return values(decode(cat(out.getvalue()))), w
                check(f"what Polars writes is read, every type, {c}, {level}, {'stream' if stream else 'file'}", back)
    struct_ = pl.DataFrame({"s": [{"a": 1, "b": ["x"]}, None], "d": [dt.date(1969, 12, 31), None], "l": [[{"a": 1}], []]})
    out = io.BytesIO()
    struct_.write_ipc_stream(out)
    check("Polars structs, dates, lists of structs", lambda: (values(decode(cat(out.getvalue()))),
          rows_of({"s.a": [1, None], "s.b": [["x"], None], "d": [dt.datetime(1969, 12, 31, tzinfo=UTC), None], "l.a": [[1], []]})))
    for unit in ("ms", "us", "ns"):
        for zone in (None, "UTC", "Asia/Tokyo"):
            x = pl.DataFrame({"x": pl.Series([1573715289123456789 // {"ms": 10**6, "us": 10**3, "ns": 1}[unit], None]).cast(pl.Datetime(unit, zone))})
            out = io.BytesIO()
            x.write_ipc_stream(out)
            check(f"Polars Datetime({unit}, {zone})", lambda: (decode(cat(out.getvalue()))["x"].cast(pa.int64()).to_pylist(), [1573715289123, None]))
    for typ, v, want in ((pl.Decimal(10, 2), 1.5, 1.5), (pl.Decimal(30, 0), 7, 7), (pl.Time, dt.time(1), 3600000), (pl.Duration, dt.timedelta(1), 86400000)):
        out = io.BytesIO()
        pl.DataFrame({"x": pl.Series([v, None], dtype=typ)}).write_ipc_stream(out)
        check(f"Polars {typ}", lambda: (decode(cat(out.getvalue()))["x"].to_pylist(), [want, None]))
    for typ, v, word in ((pl.Int128, 1, "128 bits"), (pl.List(pl.List(pl.Int8)), [[1]], "list of lists")):
        out = io.BytesIO()
        pl.DataFrame({"odd": pl.Series([v], dtype=typ)}).write_ipc_stream(out)
        p = run(["ctr-cat"], out.getvalue())
        ok(p.returncode == 1 and b"'odd'" in p.stderr and word.encode() in p.stderr and b"cast" in p.stderr, f"Polars {typ} is refused", p.stderr.decode())
    empty = pl.DataFrame(schema={"i": pl.Int64, "s": pl.String, "c": pl.Categorical, "l": pl.List(pl.Float32)})
    for stream in (True, False):
        out = io.BytesIO()
        (empty.write_ipc_stream if stream else empty.write_ipc)(out)
        check(f"Polars, no rows, {'stream' if stream else 'file'}", lambda: (values(decode(cat(out.getvalue()))), {"i": [], "s": [], "c": [], "l": []}))


# ---- DuckDB ----------------------------------------------------------------------------------------------------------------------

def duck_arrow(relation):
    """Values are taken as Arrow: DuckDB's own rows of Python want pytz for times."""
    r = relation.to_arrow_table() if hasattr(relation, "to_arrow_table") else relation.arrow()
    return r.read_all() if hasattr(r, "read_all") else r


def test_duckdb():
    duckdb = peer("duckdb")
    if not duckdb:
        return
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    t = everything(300)
    sealed = cat(encode(t.drop_columns([k for k in t.column_names if "float16" in k])))

    def arrow(sql):
        return duck_arrow(con.sql(sql))

    for k in t.column_names:
        def column():
            con.register("ours", ipc.open_stream(sealed).read_all().select([k]))
            return bits(arrow(f'select "{k}" from ours')[k].to_pylist()), bits(t[k].to_pylist())
        if "float16" in k:
            skip(f"DuckDB reads {k}", "DuckDB has no float16")
            continue
        check(f"DuckDB reads {k}", column)
    for how in FORMS:
        def whole():
            data = cat(sealed, *how)
            con.register("reader", ipc.open_file(data).read_all() if "--to" in how else ipc.open_stream(data))
            return con.sql("select count(*), sum(int32::bigint), count(utf8), sum(len(\"list.int8\")), max(epoch_ms(time)) from reader").fetchall(), [
                (300, sum(v or 0 for v in t["int32"].to_pylist()), 300 - t["utf8"].null_count, sum(len(v or []) for v in t["list.int8"].to_pylist()),
                 max(v for v in t["time"].cast(pa.int64()).to_pylist() if v is not None))]
        check(f"DuckDB counts ctr-cat {' '.join(how)}", whole)
    sql = """select i::tinyint a, i::smallint b, i::int c, i::bigint d, i::utinyint e, i::usmallint f, i::uinteger g, i::ubigint h,
             i / 3::double as j, (i / 3)::float k, i % 2 = 0 l, 'x' || i m, [i, null] n, [i, i + 1]::int[2] o, {'p': i, 'q': ['r']} s,
             date '1970-01-01' + i::int t, timestamp '2020-01-01' + interval (i) minute u, timestamptz '2020-01-01 00:00:00Z' v,
             ('w' || i % 3)::enum('w0', 'w1', 'w2') w, nullif(i, 5) x, encode('y' || i) y from range(100) r(i)"""

    def from_duckdb():
        x = arrow(sql)
        want = {}
        for f in x.schema:
            v = x[f.name].to_pylist()
            if pa.types.is_struct(f.type):
                want["s.p"], want["s.q"] = [r["p"] for r in v], [r["q"] for r in v]
            elif pa.types.is_date(f.type):
                want[f.name] = [dt.datetime(d.year, d.month, d.day, tzinfo=UTC) for d in v]
            elif pa.types.is_timestamp(f.type):
                want[f.name] = [d.replace(tzinfo=UTC) if d.tzinfo is None else d for d in v]
            else:
                want[f.name] = [b.decode() if isinstance(b, bytes) else b for b in v]
        return values(decode(cat(encode(x)))), rows_of(want)
    check("what DuckDB makes is read, every type", from_duckdb)
    check("DuckDB, no rows", lambda: (values(decode(cat(encode(arrow("select 1 a, 'x' b where false"))))), {"a": [], "b": []}))
    for sql, want in (("select 1::hugeint x", 1), ("select 1.5::decimal(4, 1) x", 1.5), ("select time '01:02:03' x", 3723000),
                      ("select sum(i::decimal(18, 2)) x from range(1000) t(i)", 499500.0)):
        check(f"DuckDB: {sql}", lambda: (decode(cat(encode(arrow(sql))))["x"].to_pylist(), [want]))
    for sql, word in (("select map {'a': 1} x", "map"), ("select interval 1 day x", "interval")):
        p = run(["ctr-cat"], encode(arrow(sql)))
        ok(p.returncode == 1 and b"'x'" in p.stderr and word.encode() in p.stderr and b"cast" in p.stderr, f"DuckDB: {sql} is refused", p.stderr.decode())


# ---- pandas and numpy ------------------------------------------------------------------------------------------------------------

def test_pandas():
    pd = peer("pandas")
    if not pd:
        return
    n = 500
    df = pd.DataFrame({
        "i": np.arange(n), "f": np.random.default_rng(2).random(n), "b": np.arange(n) % 3 == 0, "s": [f"s{i}" for i in range(n)],
        "o": pd.Series(some(n, lambda: "x"), dtype=object), "n": pd.array(some(n, lambda: 2**60 + 1), dtype="Int64"),
        "c": pd.Categorical(some(n, lambda: rng.choice("pqr")), categories=["unused", "r", "q", "p"], ordered=True),
        "ci": pd.Categorical(some(n, lambda: rng.choice([10, 20]))), "t": pd.date_range("2020-01-01", periods=n, freq="37min", tz="Europe/Paris"),
        "d": pd.date_range("1969-01-01", periods=n, freq="D"), "l": [[float(i)] * (i % 3) for i in range(n)],
    }, index=pd.Index(range(7, 7 + n), name="row"))
    t = pa.Table.from_pandas(df)
    check("pandas to a stream", lambda: (values(decode(cat(encode(t)))), rows_of({k: [
        v if v is None or not isinstance(v, dt.datetime) else v.replace(tzinfo=UTC) if v.tzinfo is None else v for v in t[k].to_pylist()] for k in t.column_names})))

    def frame():
        got = decode(cat(encode(t))).to_pandas()
        assert list(got.index) == list(df.index), "the index"
        same = {k: [x for x in got[k].astype(object).where(got[k].notna(), None)] == [x for x in df[k].astype(object).where(df[k].notna(), None)]
                for k in ("i", "f", "b", "s", "o", "n", "c", "ci", "t")}
        return same, dict.fromkeys(same, True)
    check("and back, index and categories too", frame)
    for c in ("uncompressed", "lz4", "zstd"):
        path, out = os.path.join(W, "f.feather"), os.path.join(W, "f.arrow")

        def feather():
            df.reset_index().to_feather(path, compression=c)
            p = run(["ctr-cat", "--to", "file", *([] if c == "uncompressed" else ["-z", c]), "-o", out, path])
            assert not p.returncode, p.stderr
            got = pd.read_feather(out)
            return [list(got[k]) == list(df[k]) for k in ("i", "f", "b", "s")] + [list(got["row"]) == list(df.index), got["n"].sum() == df["n"].sum()], [True] * 6
        check(f"feather both ways, {c}", feather)
    p = run(["ctr-import", "-f", "csv", "--header"], b"a,b\n1,x\n,\n3,z\n")
    check("read_pandas of ctr-import", lambda: (ipc.open_stream(p.stdout).read_pandas().to_csv(index=False), "a,b\n1.0,x\n,\n3.0,z\n"))


def test_numpy():
    g = np.random.default_rng(3)
    for typ in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"):
        a = g.integers(0, 2, 1000).astype(bool) if typ == "bool" else np.frombuffer(g.bytes(1000 * np.dtype(typ).itemsize), typ)
        x = cat(encode(pa.table({"a": a})))

        def npy():
            p = run(["ctr-export", "-f", "npy"], x)
            assert not p.returncode, p.stderr
            got = np.load(io.BytesIO(p.stdout))
            return (str(got.dtype), got.shape, got.tobytes()), (("uint8" if typ == "bool" and got.dtype != bool else typ), a.shape, a.tobytes())
        check(f"numpy {typ} to a stream and to npy, bit for bit", npy)
        check(f"numpy {typ}, Arrow's view of a stream", lambda: (decode(x)["a"].to_numpy().tobytes(), a.tobytes()))
    m = g.random((200, 8), np.float32)
    x = cat(encode(pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(m.ravel()), 8)})))
    check("a matrix as a fixed_size_list, and back by npy", lambda: (np.load(io.BytesIO(run(["ctr-export", "-f", "npy"], x).stdout)).tobytes(), m.tobytes()))
    check("a matrix, and back by pyarrow", lambda: (decode(x)["v"].combine_chunks().flatten().to_numpy().tobytes(), m.tobytes()))


# ---- text ------------------------------------------------------------------------------------------------------------------------

def test_text():
    n = 300
    t = pa.table({"i": pa.array(some(n, an_int(64, True)), pa.int64()), "u": pa.array(some(n, an_int(64, False)), pa.uint64()),
                  "f": pa.array([rng.uniform(-1, 1) * 10 ** rng.randrange(-300, 300) for _ in range(n)]),
                  "g": pa.array([rng.random() for _ in range(n)], pa.float32()), "b": pa.array([rng.random() < 0.5 for _ in range(n)]),
                  "s": pa.array([a_text() + "x" for _ in range(n)]), "t": pa.array(some(n, a_time), pa.timestamp("ms", "UTC"))})
    data = encode(t)
    path = {}
    for f in ("csv", "jsonl"):
        path[f] = os.path.join(W, "text." + f)
        p = run(["ctr-export", "-f", f, "-o", path[f]], data)
        ok(not p.returncode, f"{f} is written", p.stderr)
    # What a text holds, in the types a reader takes from it: numbers, texts, times as ISO 8601 texts.
    want = {k: t[k].to_pylist() for k in ("i", "u", "f", "s", "b")}
    check("json reads the jsonl", lambda: ([[r[k] for k in want] for r in map(json.loads, open(path["jsonl"]))], [list(r) for r in zip(*want.values())]))
    pd, pl, duckdb = peer("pandas"), peer("polars"), peer("duckdb")
    if pd:
        def pandas_csv():
            got = pd.read_csv(path["csv"], dtype={"i": "Int64", "u": "UInt64", "g": "float32"}, parse_dates=["t"],
                              **({} if pd.__version__ >= "3" else {"float_precision": "round_trip"}))
            return ([[None if pd.isna(v) else v for v in got[k]] for k in want] + [[None if pd.isna(v) else v.to_pydatetime() for v in got["t"]]],
                    list(want.values()) + [t["t"].to_pylist()])
        check("pandas reads the csv", pandas_csv)
        check("pandas reads float32 of the csv", lambda: (pd.read_csv(path["csv"], dtype={"g": "float32"})["g"].to_numpy().tobytes(), t["g"].to_numpy().tobytes()))
    if pl:
        schema = {"i": pl.Int64, "u": pl.UInt64, "f": pl.Float64, "g": pl.Float32, "b": pl.Boolean, "s": pl.String, "t": pl.Datetime("ms", "UTC")}
        text = {**schema, "t": pl.String}
        check("Polars reads the csv", lambda: (polars_values(pl.read_csv(path["csv"], schema=text).with_columns(pl.col("t").str.to_datetime(time_unit="ms", time_zone="UTC", format="%+"))), values(t)))
        check("Polars reads the jsonl", lambda: (polars_values(pl.read_ndjson(path["jsonl"], schema=text).drop("t", "g")), values(t.drop_columns(["t", "g"]))))
    if duckdb:
        con = duckdb.connect()
        con.execute("set timezone = 'UTC'")
        types = "{'i': 'bigint', 'u': 'ubigint', 'f': 'double', 'g': 'float', 'b': 'boolean', 's': 'varchar', 't': 'timestamptz'}"

        def duck(sql):
            return values(duck_arrow(con.sql(sql))), values(t)
        check("DuckDB reads the csv", lambda: duck(f"select * from read_csv('{path['csv']}', header = true, columns = {types}, parallel = false)"))
        check("DuckDB reads the jsonl", lambda: duck(f"select * from read_json('{path['jsonl']}', format = 'newline_delimited', columns = {types})"))
    if peer("sklearn"):
        from sklearn.datasets import dump_svmlight_file, load_svmlight_file
        x = np.round(np.random.default_rng(4).random((50, 6)), 3) * (np.random.default_rng(5).random((50, 6)) < 0.5)
        y = np.arange(50) % 2
        svm = pa.table({"click": pa.array(y, pa.int8()), **{f"x{i}": x[:, i] for i in range(6)}})
        p = run(["ctr-export", "-q", "-f", "libsvm", "--label", "click"], encode(svm))

        def sklearn():
            assert not p.returncode, p.stderr
            gx, gy = load_svmlight_file(io.BytesIO(p.stdout), n_features=7)
            gx = gx.toarray()
            gx = gx[:, :6] if not gx[:, 6].any() else gx[:, 1:]
            return (gx.tobytes(), list(gy)), (x.tobytes(), list(y.astype(float)))
        check("scikit-learn reads the libsvm", sklearn)
        out = io.BytesIO()
        dump_svmlight_file(x, y, out, zero_based=False)
        check("what scikit-learn writes as libsvm is imported", lambda: (
            [[v[1] for v in sorted(r)] for r in ([(int(a.split(":")[0]), float(a.split(":")[1])) for a in line.split()[1:]]
             for line in run(["ctr-export", "-q", "-f", "libsvm"], run(["ctr-import", "-f", "libsvm", "--keys", "key"], out.getvalue()).stdout).stdout.decode().splitlines())],
            [list(r[r != 0]) for r in x]))


for test in (test_the_test, test_pyarrow, test_zones, test_dictionaries, test_sizes, test_refused, test_polars, test_duckdb, test_pandas, test_numpy, test_text):
    test()
print(f"1..{interop.n_tests}")
