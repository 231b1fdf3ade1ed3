"""Parquet files of every type, encoding, codec, page version and null pattern, written by pyarrow, Polars and DuckDB, read by ctr-import
and by pyarrow, and compared value by value.

    parquet.py DIR FROM TO     files FROM to TO-1 of a fixed sequence; prints one line for each that differs, and the number of files
    parquet.py --compare FILE [OPTION…]     one file, ctr-import with these options
    parquet.py --dictionaries DIR           dictionary columns, also beside pages without a dictionary; prints what differs
    parquet.py --decimals DIR               decimals as text, float64 and int64; UUIDs
    parquet.py --durations DIR              durations of each unit and writer, alone, in structs and lists, in sets of files
"""
import decimal, os, random, subprocess, sys, uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CODECS = ["NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI"]
NUMBERS = ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", None]
TEXTS = ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", None]
NULLS = ["none", "all", "some", "runs", "first", "last"]


# ---- what a table is to be here

def ms(column, per_ms):
    """Integers of some unit to milliseconds, rounded down."""
    numbers = column.cast(pa.int64()) if not pa.types.is_time32(column.type) else column.cast(pa.int32()).cast(pa.int64())
    valid = numbers.is_valid()
    out = np.floor_divide(numbers.fill_null(0).to_numpy(zero_copy_only=False), per_ms)
    return pa.array(out, pa.int64(), mask=~valid.to_numpy(zero_copy_only=False))


UNITS = {"s": None, "ms": 1, "us": 1000, "ns": 1000000}


def plain(column):
    """A column without children, as the type that the stream has."""
    t = column.type
    if pa.types.is_dictionary(t):
        return plain(column.dictionary_decode())
    if isinstance(t, pa.BaseExtensionType):
        if t.extension_name == "arrow.uuid":
            return pa.array([str(v) if v is not None else None for v in column.to_pylist()], pa.string())
        return plain(column.storage)
    if pa.types.is_timestamp(t):
        return ms(column, UNITS[t.unit]).cast(pa.timestamp("ms", "UTC"))
    if pa.types.is_date32(t):
        return column.cast(pa.timestamp("ms")).cast(pa.timestamp("ms", "UTC"))
    if pa.types.is_time(t):
        return ms(column, UNITS[t.unit])
    if pa.types.is_null(t):
        return column.cast(pa.string())
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t) \
            or pa.types.is_fixed_size_binary(t) or pa.types.is_binary_view(t):
        return pa.array([v.decode() if isinstance(v, bytes) else v for v in column.to_pylist()], pa.string())
    return column


def flat(name, column):
    """Structs as names with dots, lists of structs as lists beside each other."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    t = column.type
    if pa.types.is_struct(t):
        for f, child in zip(t, column.flatten()):
            yield from flat(f"{name}.{f.name}", child)
    elif pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.array([len(v) if v is not None else 0 for v in column.to_pylist()], np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        items = pa.concat_arrays([c for c in [column.drop_null().flatten()]])
        for n, child in flat(name, items):
            yield n, pa.ListArray.from_arrays(pa.array(offsets), child, mask=pa.array(~valid))
    else:
        yield name, plain(column)


def bits(array):
    """NaN is equal to NaN here, and 0 is not -0."""
    if pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(array.offsets, bits(array.values), mask=array.is_null())
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64())
    if pa.types.is_floating(array.type):
        wide = {16: np.uint16, 32: np.uint32, 64: np.uint64}[array.type.bit_width]
        kind = {16: np.float16, 32: np.float32, 64: np.float64}[array.type.bit_width]
        null = array.is_null().to_numpy(zero_copy_only=False)
        values = np.array([0 if v is None else v for v in array.to_pylist()], kind) if null.any() else array.to_numpy(zero_copy_only=False)
        return pa.array(np.ascontiguousarray(values).view(wide), mask=null)
    return array


def compare(path, options=(), written=None):
    """What differs between ctr-import and pyarrow, or None."""
    run = subprocess.run(["ctr-import", "-q", *options, path], capture_output=True, timeout=60)
    if run.returncode:
        return run.stderr.decode().strip() or f"exit {run.returncode}"
    got = pa.ipc.open_stream(run.stdout).read_all()
    try:
        want = pq.read_table(path, use_threads=False)
    except (OSError, pa.ArrowException):  # pyarrow cannot read some of what it writes, such as pages of deltas without a value
        if written is None:
            raise
        want = written
    columns = [c for name in want.column_names for c in flat(name, want.column(name))]
    if [n for n, _ in columns] != got.column_names:
        return f"columns {got.column_names} instead of {[n for n, _ in columns]}"
    for name, w in columns:
        g = got.column(name)
        g = g.combine_chunks() if g.num_chunks != 1 else g.chunk(0)
        g = g.dictionary_decode() if pa.types.is_dictionary(g.type) else g
        g = pa.ListArray.from_arrays(g.offsets, g.values, mask=g.is_null()) if pa.types.is_list(g.type) else g
        if g.type != w.type:
            return f"{name} is {g.type} instead of {w.type}"
        g, w = bits(g), bits(w)
        if not g.equals(w):
            for i, (a, b) in enumerate(zip(g.to_pylist(), w.to_pylist())):
                if a != b and not (a != a and b != b):
                    return f"{name} row {i}: {a!r} instead of {b!r}"
            return f"{name}: {len(g)} rows instead of {len(w)}, or bits differ"
    return None


# ---- tables

def present(r, kind, n):
    if kind == "runs":
        out, v = [], True
        while len(out) < n:
            out += [v] * r.randrange(1, 90)
            v = not v
        return out[:n]
    return {"none": [True] * n, "all": [False] * n, "some": [r.random() < .7 for _ in range(n)], "first": [i > 0 for i in range(n)],
            "last": [i + 1 < n for i in range(n)]}[kind]


def integers(r, n, low, high):
    style = r.randrange(4)
    if style == 0:
        return [r.randrange(low, high + 1) for _ in range(n)]
    if style == 1:
        few = [r.randrange(low, high + 1) for _ in range(5)] + [low, high]
        return [r.choice(few) for _ in range(n)]
    if style == 2:
        start = r.randrange(low, high + 1)
        return [max(low, min(high, start + i // 3)) for i in range(n)]
    return [r.choice([low, high, 0]) for _ in range(n)]


def words(r, n):
    few = ["", "a", "ad", "añ", "日本", "x" * 40, "prefix-one", "prefix-two", "prefix-three"]
    if r.randrange(2):
        return [r.choice(few) for _ in range(n)]
    return ["user-%06d" % r.randrange(10 ** 6) + r.choice(few) for _ in range(n)]


def floats(r, n):
    odd = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5, -2.25]
    return [r.choice(odd) if r.random() < .2 else r.choice([r.gauss(0, 1), float(r.randrange(9))]) for _ in range(n)]


def scalars(r, n):
    """Name, type and values of each kind of column."""
    for b in (8, 16, 32, 64):
        yield f"i{b}", getattr(pa, f"int{b}")(), integers(r, n, -2 ** (b - 1), 2 ** (b - 1) - 1)
        yield f"u{b}", getattr(pa, f"uint{b}")(), integers(r, n, 0, 2 ** b - 1)
    yield "bool", pa.bool_(), [r.random() < .5 if r.random() < .5 else True for _ in range(n)]
    yield "f32", pa.float32(), [float(np.float32(v)) for v in floats(r, n)]
    yield "f64", pa.float64(), floats(r, n)
    yield "f16", pa.float16(), [np.float16(v) for v in floats(r, n)]
    yield "text", pa.string(), words(r, n)
    yield "bytes", pa.binary(), [w.encode() for w in words(r, n)]
    yield "fixed", pa.binary(5), [b"%05d" % r.randrange(r.choice([9, 99999])) for _ in range(n)]
    yield "date", pa.date32(), integers(r, n, -30000, 60000)
    for unit in ("ms", "us", "ns"):
        yield f"ts_{unit}", pa.timestamp(unit, r.choice([None, "UTC", "Europe/Paris"])), integers(r, n, -4 * 10 ** 12 * UNITS[unit], 4 * 10 ** 12 * UNITS[unit])
        top = 86400 * 1000 * UNITS[unit] - 1
        yield f"time_{unit}", (pa.time32 if unit == "ms" else pa.time64)(unit), integers(r, n, 0, top)


def lists(r, n):
    lengths = [r.choice([0, 0, 1, 2, 3, r.randrange(40)]) for _ in range(n)]
    flat_n = sum(lengths)

    def cut(values):
        out, at = [], 0
        for k in lengths:
            out.append(values[at:at + k])
            at += k
        return out

    holes = present(r, r.choice(NULLS), flat_n)
    hole = lambda values: [v if p else None for v, p in zip(values, holes)]
    yield "l_i64", pa.list_(pa.int64()), cut(hole(integers(r, flat_n, -2 ** 63, 2 ** 63 - 1)))
    yield "l_text", pa.list_(pa.string()), cut(hole(words(r, flat_n)))
    yield "l_f32", pa.list_(pa.float32()), cut([float(np.float32(v)) for v in floats(r, flat_n)])
    yield "l_bool", pa.list_(pa.bool_()), cut(hole([r.random() < .5 for _ in range(flat_n)]))
    ids, names = integers(r, flat_n, 0, 99), words(r, flat_n)
    items = [{"id": a, "name": b} if p else None for a, b, p in zip(ids, names, holes)]
    yield "l_struct", pa.list_(pa.struct([("id", pa.int32()), ("name", pa.string())])), cut(items)
    yield "s", pa.struct([("a", pa.int16()), ("in", pa.struct([("t", pa.string()), ("l", pa.list_(pa.int8()))]))]), [
        {"a": v % 99, "in": r.choice([None, {"t": r.choice([None, "x"]), "l": r.choice([None, [], [1, None]])}])} for v in range(n)]


def table(r, n):
    fields, columns = [], []
    for name, t, values in [*scalars(r, n), *lists(r, n)]:
        required = r.random() < .2
        there = [True] * n if required else present(r, r.choice(NULLS), n)
        columns.append(pa.array([v if p else None for v, p in zip(values, there)], t))
        fields.append(pa.field(name, t, nullable=not required))
    return pa.table(columns, pa.schema(fields))


def encoding(r, t):
    if pa.types.is_boolean(t):
        return r.choice(["PLAIN", "RLE", None])
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return r.choice(TEXTS)
    if pa.types.is_fixed_size_binary(t):
        return r.choice(["PLAIN", "BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY", None])
    if pa.types.is_float16(t):
        return r.choice(["PLAIN", "BYTE_STREAM_SPLIT", None])
    if pa.types.is_floating(t):
        return r.choice(["PLAIN", "BYTE_STREAM_SPLIT", None])
    return r.choice(NUMBERS)


def leaves(name, t):
    """The paths of a column in the file."""
    if pa.types.is_struct(t):
        for f in t:
            yield from leaves(f"{name}.{f.name}", f.type)
    elif pa.types.is_list(t):
        yield from leaves(f"{name}.list.element", t.value_type)
    else:
        yield name, t


def write_arrow(r, path, t, i):
    n = max(len(t), 1)
    encodings = {p: encoding(r, lt) for f in t.schema for p, lt in leaves(f.name, f.type)}
    int96 = r.random() < .1
    for p, lt in [x for f in t.schema for x in leaves(f.name, f.type)]:
        if int96 and pa.types.is_timestamp(lt):
            encodings[p] = r.choice(["PLAIN", None])
    dictionary = [p for p, e in encodings.items() if e is None]
    pq.write_table(t, path, compression=CODECS[i % len(CODECS)], data_page_version=["1.0", "2.0"][i // len(CODECS) % 2],
                   row_group_size=r.choice([1, 7, n // 3 + 1, n, n]) if n < 500 else r.choice([n // 3 + 1, n]),
                   data_page_size=r.choice([64, 1000, 1 << 20]), write_batch_size=r.choice([1, 20, 1024]),
                   use_dictionary=dictionary, dictionary_pagesize_limit=r.choice([64, 1 << 20]),
                   column_encoding={p: e for p, e in encodings.items() if e}, write_page_checksum=bool(r.randrange(2)),
                   use_deprecated_int96_timestamps=int96, store_schema=False)


def write_polars(r, path, t, i):
    import polars as pl
    pl.from_arrow(t).write_parquet(path, compression=["uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"][i // 3 % 6],
                                   row_group_size=r.choice([50, 1000]), data_page_size=r.choice([200, 1 << 20]))


def write_duckdb(r, path, t, i):
    import duckdb
    con = duckdb.connect()
    con.register("t", t)
    codec = ["uncompressed", "snappy", "gzip", "zstd", "lz4_raw", "brotli"][i // 3 % 6]
    con.execute(f"COPY t TO '{path}' (FORMAT parquet, CODEC {codec}, ROW_GROUP_SIZE {r.choice([2048, 100000])}, "
                f"PARQUET_VERSION {r.choice(['v1', 'v2'])})")


def make(directory, i):
    """The i-th file: every third is Polars' or DuckDB's."""
    r = random.Random(i)
    n = r.choice([0, 1, 2, 9, 100, 300, 300, 1000])
    path = os.path.join(directory, f"{i}.parquet")
    t = table(r, n)
    if i % 6 == 2:
        t = t.drop_columns(["f16", "fixed"])
        write_polars(r, path, t, i)
    elif i % 6 == 5:
        t = t.drop_columns(["f16", "time_ns"])
        write_duckdb(r, path, t, i)
    else:
        write_arrow(r, path, t, i)
    return path, t


def dictionaries(directory):
    """Row groups as large as batches: texts come as dictionary columns. In the second file the dictionary is full after some pages."""
    r = random.Random(5)
    n = 20000
    few = ["", "a", "日本", "word"]

    def part(low):
        ads = ["ad-%05d" % r.randrange(low, 3000) if r.random() < .9 else None for _ in range(n)]
        return pa.table({"few": [r.choice(few) for _ in range(n)], "ad": ads, "n": range(n), "none": pa.array([None] * n, pa.string())})

    tables = [part(2000), part(0), part(2500)]
    paths = [os.path.join(directory, f"dict{i}.parquet") for i in range(3)]
    for path, t, limit in zip(paths, tables, [1 << 20, 9000, 1 << 20]):
        pq.write_table(t, path, compression="NONE", row_group_size=10000, data_page_size=3000, dictionary_pagesize_limit=limit, write_batch_size=100)
    bad = 0
    for options in [], ["--batch", "1000"], ["--batch", "7777"], ["-j", "3"], ["-c", "few,ad,n,none"]:
        got = pa.ipc.open_stream(subprocess.run(["ctr-import", "-q", *options, *paths], capture_output=True, check=True).stdout).read_all()
        if not pa.types.is_dictionary(got.schema.field("ad").type):
            print("ad is no dictionary column")
            bad = 1
        for name in got.column_names:
            g = got.column(name)
            g = pa.chunked_array([c.dictionary_decode() for c in g.chunks]) if pa.types.is_dictionary(g.type) else g
            if g.to_pylist() != pa.concat_tables(tables).column(name).to_pylist():
                print(f"{options}: {name} differs")
                bad = 1
    plain = os.path.join(directory, "plain.parquet")
    pq.write_table(tables[2].slice(0, 9000), plain, use_dictionary=False)
    for order in [paths[0], plain], [plain, paths[0]]:
        got = pa.ipc.open_stream(subprocess.run(["ctr-import", "-q", "-c", "ad", *order], capture_output=True, check=True).stdout).read_all()["ad"]
        want = pa.concat_tables([pq.read_table(p, columns=["ad"]) for p in order])["ad"]
        if not pa.types.is_dictionary(got.type) or pa.chunked_array([c.dictionary_decode() for c in got.chunks]).to_pylist() != want.to_pylist():
            print(f"{order}: {got.type}, or other values: most rows are dictionary-encoded")
            bad = 1
    kinds = {"few": ([f"ad-{i:05}" for i in range(2000)], True), "many": ([f"ad-{i:05}" for i in range(3000)], False),
             "long": ([f"the title of an advertisement, {i:05}" for i in range(3000)], True)}
    path = os.path.join(directory, "pays.parquet")
    pq.write_table(pa.table({k: [v[i % len(v)] for i in range(n)] for k, (v, _) in kinds.items()}), path)
    got = pa.ipc.open_stream(subprocess.run(["ctr-import", "-q", path], capture_output=True, check=True).stdout).read_all()
    for k, (v, dictionary) in kinds.items():
        if pa.types.is_dictionary(got.schema.field(k).type) != dictionary or got[k].to_pylist() != [v[i % len(v)] for i in range(n)]:
            print(f"{k}: {got.schema.field(k).type}, or other values")
            bad = 1
    few, none = os.path.join(directory, "few.parquet"), os.path.join(directory, "none.parquet")
    pq.write_table(pq.read_table(path).slice(0, 500), few, use_dictionary=False)
    pq.write_table(pq.read_table(path).slice(0, 0), none)
    for order in [few, path], [path, few], [none, path], [path, none]:
        got = pa.ipc.open_stream(subprocess.run(["ctr-import", "-q", *order], capture_output=True, check=True).stdout).read_all()
        for k, (_, dictionary) in kinds.items():
            if pa.types.is_dictionary(got.schema.field(k).type) != dictionary:
                print(f"{order}: {k}: {got.schema.field(k).type}")
                bad = 1
    lacks = os.path.join(directory, "lacks.parquet")
    pq.write_table(pa.table({"other": [1, 2, 3]}), lacks)
    results = [subprocess.run(["ctr-import", "-q", "-j", j, path, lacks], capture_output=True, check=True).stdout for j in ("1", "2")]
    if results[0] != results[1]:
        print("a file without dictionary columns behind one with them: -j 1 and -j 2 differ")
        bad = 1
    return bad


def decimals(directory):
    r = random.Random(6)
    path = os.path.join(directory, "decimals.parquet")
    bad = 0
    for precision, scale, as_integer in [(9, 2, True), (9, 2, False), (18, 0, True), (18, 18, True), (38, 10, False), (76, 5, False), (1, 0, False)]:
        t = (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
        top = 10 ** precision - 1
        values = [decimal.Decimal(v).scaleb(-scale, decimal.Context(prec=90)) if v is not None else None
                  for v in [0, 1, -1, top, -top, None] + [r.randrange(-top, top + 1) for _ in range(50)] + [r.randrange(-9, 10) for _ in range(9)]]
        for dictionary in False, True:
            column = pa.array(values, t)
            pq.write_table(pa.table({"d": column, "u": pa.array([None if v is None else uuid.UUID(int=abs(hash(v))).bytes for v in values], pa.uuid())}), path,
                           use_dictionary=dictionary, store_decimal_as_integer=as_integer, store_schema=False)
            text = [v if v is None else format(v, "f") for v in values]
            checks = [("utf8", text), ("float64", [v if v is None else float(v) for v in text])]
            if not scale and precision <= 18:
                checks.append(("int64", [v if v is None else int(v) for v in values]))
            for name, want in checks:
                run = subprocess.run(["ctr-import", "-q", "-c", f"d:{name},u", path], capture_output=True)
                got = pa.ipc.open_stream(run.stdout).read_all() if not run.returncode else None
                if got is None or got.column("d").to_pylist() != want:
                    print(f"decimal({precision},{scale}) as {name}: {run.stderr.decode()} {got and got.column('d').to_pylist()[:9]} {want[:9]}")
                    bad = 1
                elif got.column("u").to_pylist() != [None if v is None else str(uuid.UUID(int=abs(hash(v)))) for v in values]:
                    print("UUIDs differ")
                    bad = 1
    return bad


DAY = 86400000


def durations(directory):
    """Parquet has no durations: they are int64, and Arrow's schema in the file tells the unit."""
    bad = 0

    def check(what, got, want):
        nonlocal bad
        bad |= got != want
        if got != want:
            print(f"{what}: {got}, not {want}")

    def read(files, *options):
        run = subprocess.run(["ctr-import", *options, *files], capture_output=True)
        said = run.stderr.decode()
        return (said, None) if run.returncode else (said, pa.ipc.open_stream(run.stdout).read_all())

    def write(name, table, **options):
        path = os.path.join(directory, name + ".parquet")
        pq.write_table(table, path, **options)
        return path

    files = []
    for unit, per in (("s", 1000), ("ms", 1), ("us", 1 / 1000), ("ns", 1 / 1000000)):
        of_ms = [DAY, None, -5000, 0]
        d = pa.array([v if v is None else round(v / per) for v in of_ms], pa.int64()).cast(pa.duration(unit))
        n = pa.array([1, 2, 3, 4], pa.int64())
        lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4], pa.int32()), d)
        t = pa.table({"d": d, "n": n, "s": pa.StructArray.from_arrays([n, d], ["n", "d"]), "l": lists, "k": d.dictionary_encode()})
        files.append(write(unit, t))
        said, got = read(files[-1:])
        check(unit, said, "")
        check(unit, got.to_pydict(), {"d": of_ms, "n": [1, 2, 3, 4], "s.n": [1, 2, 3, 4], "s.d": of_ms, "k": of_ms,
                                      "l": [[DAY, None], [], [-5000], [0]]})
        for low, rows in (DAY, [1]), (1, [1]), (-5000, [1, 3, 4]):
            said, got = read(files[-1:], "--where", f"d >= {low}")
            check(f"{unit} --where d >= {low}", got.column("n").to_pylist(), rows)
    said, got = read(files, "-c", "d")
    check("all units", got.column("d").to_pylist(), [DAY, None, -5000, 0] * 4)
    fine = write("fine", pa.table({"d": pa.array([1500, -1500, 2000], pa.int64()).cast(pa.duration("us"))}))
    said, got = read([fine])
    check("finer ones", got.column("d").to_pylist(), [1, -2, 2])
    check("finer ones", said, "ctr-import: column d: 2 values had digits below a millisecond, which are cut off\n")
    long = write("long", pa.table({"d": pa.array([2**62], pa.int64()).cast(pa.duration("s"))}))
    said, got = read([long])
    check("a long one", got is None and "long.parquet: column d" in said and "too long for milliseconds" in said, True)
    number = write("number", pa.table({"d": pa.array([5], pa.int64())}))
    said, got = read([files[0], number])
    check("durations and numbers", got is None and "is a duration in" in said and "a plain value in" in said, True)
    for value in b"", b"/////w", b"////////////////AAAA", b"*" * 40, b"QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB":
        t = pa.table({"d": pa.array([5], pa.int64())}).replace_schema_metadata({b"ARROW:schema": value})
        said, got = read([write("odd", t, store_schema=False)])
        check(f"a schema {value}", got and got.column("d").to_pylist(), [5])
    try:
        import polars as pl
        import datetime as dt
        path = os.path.join(directory, "polars.parquet")
        pl.DataFrame({"d": [dt.timedelta(days=1), None]}).write_parquet(path)
        check("Polars", read([path])[1].column("d").to_pylist(), [DAY, None])
    except ImportError:
        pass
    return bad


def main():
    if sys.argv[1] == "--durations":
        return durations(sys.argv[2])
    if sys.argv[1] == "--dictionaries":
        return dictionaries(sys.argv[2])
    if sys.argv[1] == "--decimals":
        return decimals(sys.argv[2])
    if sys.argv[1] == "--compare":
        why = compare(sys.argv[2], sys.argv[3:])
        print(why or "equal")
        return 1 if why else 0
    directory, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    bad = 0
    for i in range(first, last):
        path, t = make(directory, i)
        why = compare(path, written=t)
        if why:
            print(f"{path}: {why}")
            bad += 1
        else:
            os.unlink(path)
    print(f"{last - first - bad} of {last - first} files")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
