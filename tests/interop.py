# SPDX-License-Identifier: Apache-2.0
"""Interop of the stream both ways, as TAP: what pyarrow, Polars and DuckDB write is read and normalised; what is
written here they read. Usage: interop.py FOLDER, with ctr-cat and ctr-info in PATH."""
import datetime as dt
import decimal
import io
import os
import random
import re
import subprocess
import sys
import tempfile
import uuid

import pyarrow as pa
import pyarrow.ipc as ipc

W = sys.argv[1] if len(sys.argv) > 1 else "."
n_tests = 0
UTC = dt.timezone.utc


def ok(cond, name, why=""):
    global n_tests
    n_tests += 1
    print(f"{'ok' if cond else 'not ok'} {n_tests} - {name}")
    if not cond:
        print("\n".join("# " + line for line in str(why).splitlines()[:20]))


def skip(name, why):
    global n_tests
    n_tests += 1
    print(f"ok {n_tests} - {name} # SKIP {why}")


def encode(table, file=False, compression=None, chunk=None, **options):
    out = io.BytesIO()
    opts = ipc.IpcWriteOptions(compression=compression, **options)
    with (ipc.new_file if file else ipc.new_stream)(out, table.schema, options=opts) as w:
        for b in table.to_batches(max_chunksize=chunk):
            w.write_batch(b)
    return out.getvalue()


def run(args, data=None):
    return subprocess.run(args, input=data, capture_output=True)


def cat(data, *args):
    """Through ctr-cat by a pipe, and by a file; both must agree. Returns its output or raises."""
    p = run(["ctr-cat", *args], data)
    path = os.path.join(W, "foreign")
    with open(path, "wb") as f:
        f.write(data)
    q = run(["ctr-cat", *args, path])
    if p.returncode or q.returncode:
        raise RuntimeError((p.stderr or q.stderr).decode())
    if p.stdout != q.stdout:
        raise RuntimeError("pipe and file differ")
    return p.stdout


def decode(data):
    t = (ipc.open_file if data[:6] == b"ARROW1" else ipc.open_stream)(data).read_all()
    t.validate(full=True)
    return t


def same(table, want, name):
    """Each column of `table`, read here and written again, holds the values of `want`."""
    try:
        for how in (dict(), dict(file=True), dict(compression="lz4"), dict(compression="zstd", file=True), dict(chunk=2)):
            got = decode(cat(encode(table, **how))).to_pydict()
            if got != want:
                return ok(False, name, f"{how}\ngot  {got}\nwant {want}")
        ok(True, name)
    except Exception as e:
        ok(False, name, e)


def column(values, typ, want=None, name=None):
    """A column `x` of the values becomes x with `want` (the values themselves by default)."""
    a = values if isinstance(values, pa.Array) else pa.array(values, typ)
    same(pa.table({"x": a}), {"x": want if want is not None else a.to_pylist()}, name or f"read {typ}")


# ---- what others write ---------------------------------------------------------------------------------------------------

def test_scalars():
    column([True, None, False, True, True, None, False, True, True], pa.bool_())
    for bits in (8, 16, 32, 64):
        column([-(2 ** (bits - 1)), None, 2 ** (bits - 1) - 1, 0], getattr(pa, f"int{bits}")())
        column([0, None, 2**bits - 1], getattr(pa, f"uint{bits}")())
    for t in (pa.float32(), pa.float64()):
        column([1.5, None, -0.25, float("inf")], t)
    column(pa.array([1.5, None, -0.25]).cast(pa.float16()), "halffloat")
    texts = ["a", None, "", "zwölf Boxkämpfer", "x" * 100, "twelve bytes", "thirteen byte"]
    for t in (pa.string(), pa.large_string(), pa.string_view()):
        column(texts, t)
    for t in (pa.binary(), pa.large_binary(), pa.binary_view()):
        column([x and x.encode() for x in texts], t, texts)
    column([None, None], pa.null(), [None, None])
    column(pa.array([], pa.string()), "empty", [])
    column(pa.array(["drop", "a", None, "b", "drop"])[1:4], "slice", ["a", None, "b"])
    column(pa.array([True] * 5 + [None, False, True])[3:8], "slice of bool", [True, True, None, False, True])


def test_times():
    at = dt.datetime(2019, 11, 14, 7, 8, 9, 123000, UTC)
    whole = at.replace(microsecond=0)
    for unit in ("s", "ms", "us", "ns"):
        v = whole if unit == "s" else at
        column([v, None], pa.timestamp(unit, "UTC"), [v, None])
        column([v.replace(tzinfo=None), None], pa.timestamp(unit), [v, None], f"timestamp[{unit}] without a zone")
        column([v, None], pa.timestamp(unit, "America/New_York"), [v, None])
    column(pa.array([-1, -1001], pa.int64()).cast(pa.timestamp("us", "UTC")), "times before 1970",
           [dt.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 998000, UTC)])
    fine = pa.table({"n": [1, 2, 3], "x": pa.array([1000, None, 1001], pa.int64()).cast(pa.timestamp("us", "UTC"))})
    said = "ctr-cat: column x: 1 time had digits below a millisecond, which are cut off\n"
    for how in (dict(), dict(file=True), dict(chunk=1)):
        for jobs in "1", "3":
            p = run(["ctr-cat", "-j", jobs], encode(fine, **how))
            ok(p.stderr.decode() == said, f"times that lose digits are counted {how} -j {jobs}", p.stderr.decode())
    ok(not run(["ctr-cat"], encode(fine.slice(0, 2))).stderr, "and none where none does")
    both = run(["ctr-cat"], encode(fine.append_column("y", pa.array([1001, 1002, 1000], pa.int64()).cast(pa.timestamp("us"))))).stderr.decode()
    ok(both == said[:-1] + ", and so had 2 in other columns\n", "each column's count is its own", both)
    entries = fine["x"].combine_chunks().dictionary_encode()
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array([1001], pa.int64()).cast(pa.timestamp("us")))
    for many in pa.DictionaryArray.from_arrays(pa.array([1, 1, 1, 0]), entries.dictionary), runs:
        p = run(["ctr-cat"], encode(pa.table({"x": many})))
        ok(p.stderr.decode() == said.replace("time had", "time in dictionaries or runs had"), "of many rows with one time, it is said that the time counts", p.stderr.decode())
    clicks = pa.table({"click": [0, 1, 1], "time": pa.array([1001, 2000, 3000], pa.int64()).cast(pa.timestamp("us"))})
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "plan"), "w") as f:
            f.write("label click\ntime time\nfeature click2 = click + 1\n")
        with open(os.path.join(folder, "rows"), "wb") as f:
            f.write(encode(clicks))
        p = run(["ctr-train", "lr", "--passes", "3", "-o", os.path.join(folder, "model"), os.path.join(folder, "plan"), os.path.join(folder, "rows")], b"")
        ok(p.stderr.decode().count("1 time had digits") == 1, "once for several passes", p.stderr.decode())
    path = [os.path.join(W, name) for name in ("fine.plan", "fine.arrows", "wide.arrows")]
    for p, data in zip(path, (b"from log\nkeep n\nkeep x\n", encode(fine), encode(fine.append_column("y", fine["n"])))):
        with open(p, "wb") as f:
            f.write(data)
    said = "ctr-extract: view log: column x: %d time%s had digits below a millisecond, which are cut off\n"
    for jobs in "1", "3":
        for files, want in (path[1:2], said % (1, "")), (path[1:], said % (2, "s")):
            p = run(["ctr-extract", "-j", jobs, "-o", os.path.join(W, "x"), path[0], *("log=" + f for f in files)])
            ok(p.stderr.decode() == want, f"so they are in {len(files)} files of a view, -j {jobs}", p.stderr.decode())
    column([dt.date(2019, 11, 14), None, dt.date(1960, 1, 1)], pa.date32(),
           [dt.datetime(2019, 11, 14, tzinfo=UTC), None, dt.datetime(1960, 1, 1, tzinfo=UTC)])


def test_lists():
    ints = [[1, 2], None, [], [3, None], [4]]
    for t in (pa.list_, pa.large_list):
        column(ints, t(pa.int32()))
        column([["a", None], [], None, ["long enough for a view"]], t(pa.string_view()))
        column([[True, False], [None]], t(pa.bool_()))
    column([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))
    column(pa.array(ints, pa.list_(pa.int32()))[1:5], "slice of lists", ints[1:5])
    column([[None], [None, None], []], pa.list_(pa.null()))
    wkey = pa.list_(pa.struct([pa.field("key", pa.uint64()), pa.field("weight", pa.float32())]))
    column([[{"key": 2**64 - 1, "weight": 0.5}], [], None], wkey, name="weighted keys")
    pair = pa.list_(pa.struct([pa.field("id", pa.int64()), pa.field("name", pa.string())]))
    same(pa.table({"x": pa.array([[{"id": 1, "name": "a"}, {"id": None, "name": "b"}], None, []], pair)}),
         {"x.id": [[1, None], None, []], "x.name": [["a", "b"], None, []]}, "a list of structs is aligned lists")


def test_structs():
    s = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.struct([pa.field("c", pa.string())])),
                   pa.field("l", pa.list_(pa.int8()))])
    rows = [{"a": 1, "b": {"c": "x"}, "l": [1]}, None, {"a": None, "b": None, "l": None}, {"a": 2, "b": {"c": None}, "l": []}]
    same(pa.table({"s": pa.array(rows, s)}),
         {"s.a": [1, None, None, 2], "s.b.c": ["x", None, None, None], "s.l": [[1], None, None, []]}, "structs are flattened")


def test_dictionaries():
    for i in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()):
        column(pa.array(["a", None, "b", "a"]).dictionary_encode().cast(pa.dictionary(i, pa.string())), f"dictionary<{i}>")
    for t in (pa.large_string(), pa.string_view(), pa.int64(), pa.float32(), pa.bool_()):
        v = [1, None, 0, 1] if not pa.types.is_large_string(t) and t != pa.string_view() else ["a", None, "b", "a"]
        a = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0], pa.int32()), pa.array([v[0], v[2]]).cast(t))
        column(a, f"dictionary of {t}")
    a = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 1]), pa.array([[1, 2], [3]], pa.list_(pa.int64())))
    column(a, "dictionary of lists", [[3], [1, 2], None, [3]])
    inner = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int8()), pa.array(["p", "q"]))
    column(pa.ListArray.from_arrays(pa.array([0, 2, 3]), inner), "list of a dictionary", [["p", "q"], ["q"]])
    column(pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", None, "b"])), "null in a dictionary",
           ["a", None, "b"])
    st = pa.StructArray.from_arrays([inner], ["d"])
    same(pa.table({"s": st}), {"s.d": ["p", "q", "q"]}, "dictionary in a struct")
    # Replaced and delta dictionaries
    for deltas in (False, True):
        out = io.BytesIO()
        first, second = pa.array(["a", "b"]), pa.array(["a", "b", "c"])
        other = pa.array(["z"])
        schema = pa.schema([("x", pa.dictionary(pa.int32(), pa.string()))])
        with ipc.new_stream(out, schema, options=ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)) as w:
            for d, idx in ((first, [1, 0]), (second, [2, None]), (other, [0]), (first, [1])):
                w.write_batch(pa.record_batch([pa.DictionaryArray.from_arrays(pa.array(idx, pa.int32()), d)], schema=schema))
        want = {"x": ["b", "a", "c", None, "z", "b"]}
        try:
            got = decode(cat(out.getvalue())).to_pydict()
            ok(got == want, f"dictionaries that change, deltas {deltas}", got)
        except Exception as e:
            ok(False, f"dictionaries that change, deltas {deltas}", e)
    # A dictionary that grows by deltas, in many small batches: what comes out grows as what came in, not as its square
    out = io.BytesIO()
    schema = pa.schema([("x", pa.dictionary(pa.int32(), pa.string()))])
    names, want = [f"name {i}" for i in range(40000)], []
    options = ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with ipc.new_stream(out, schema, options=options) as w:
        for n in range(2000, 40001, 200):
            idx = [n - 1, 5, None, n - 1, n - 200, 5, 0]
            w.write_batch(pa.record_batch([pa.DictionaryArray.from_arrays(pa.array(idx, pa.int32()), pa.array(names[:n]))], schema=schema))
            want += [None if i is None else names[i] for i in idx]
    try:
        whole = cat(out.getvalue())
        ok(decode(whole).to_pydict() == {"x": want}, "a dictionary that grows by deltas")
        ok(len(whole) < 2 * len(out.getvalue()), "no more than it was", f"{len(out.getvalue())} bytes became {len(whole)}")
    except Exception as e:
        ok(False, "a dictionary that grows by deltas", e)


def test_decimals():
    # Against the values themselves: an integer, or the float64 nearest to the decimal, whose digits must come back.
    rng = random.Random(1)
    for make, most in ((pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)):
        for scale in (0, 2, 7, -2):
            digits = [0, 1, 9, 10, 10**9 - 1, 10**9, 10**15 - 1, 10**15, 2**53, 2**63 - 1, 4503599627370497] + [rng.randrange(10**15) for _ in range(50)]
            values = [decimal.Decimal(s * d).scaleb(-scale, decimal.Context(prec=90)) for d in digits if d < 10**most for s in (1, -1)]
            values = [v for v in values if (abs(v) < 2**63 if scale <= 0 else abs(v) < 10**15)]
            if scale > 0:
                values = [v for v in values if decimal.Decimal(repr(float(v))) == v]
            a = pa.array([int(v.scaleb(scale, decimal.Context(prec=90))) for v in values] + [None], pa.int64()).to_pylist()
            a = pa.array([None if v is None else decimal.Decimal(v) for v in a], make(most, 0))
            a = pa.Array.from_buffers(make(most, scale), len(a), a.buffers()) # the same digits
            column(a, None, [int(v) if scale <= 0 else float(v) for v in values] + [None], f"{make.__name__}, scale {scale}")
    hard = decimal.Decimal("0.3000000000000000166533453694") # near .3, but not as short
    p = run(["ctr-cat"], encode(pa.table({"x": pa.array([hard])})))
    ok(p.returncode == 1, "digits beyond a float64", p.stdout)
    x = decimal.Decimal(0.1 + 0.2).quantize(decimal.Decimal("1e-17"))
    column(pa.array([x]), None, [0.1 + 0.2], "17 digits that are a float64's")
    column(pa.array([decimal.Decimal(2) ** -20], pa.decimal128(38, 20)), None, [2.0**-20], "20 digits likewise")
    column(pa.array(["1.5", None, "1.5"]).cast(pa.decimal128(5, 2)).dictionary_encode(), None, [1.5, None, 1.5], "a dictionary of decimals")
    column(pa.array([[decimal.Decimal("1.5"), None], None], pa.list_(pa.decimal128(5, 2))), None, [[1.5, None], None], "a list of decimals")


def test_decimals_by_type():
    # ctr-select --columns x:TYPE against Python's own decimals.
    rng = random.Random(2)

    wide = decimal.Context(prec=90)

    def gives_back(v): # with as many digits
        n = len(v.normalize(wide).as_tuple().digits)
        return n <= 15 or decimal.Decimal(f"{float(v):.{n - 1}e}") == v

    def select(a, t):
        return run(["ctr-select", "-c", f"x:{t}"], encode(pa.table({"x": a, "y": a})))

    for make, most in ((pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)):
        for scale in (0, 2, 9, -2):
            digits = [0, 1, 9, 10, 100, 999] + [10**k + d for k in range(1, most) for d in (-1, 0)] + [rng.randrange(10 ** rng.randrange(1, most)) for _ in range(100)]
            digits = [s * d for d in digits if d < 10**most for s in (1, -1)] + [None]
            a = pa.array([None if d is None else decimal.Decimal(d) for d in digits], make(most, 0))
            a = pa.Array.from_buffers(make(most, scale), len(a), a.buffers())
            values = [None if d is None else decimal.Decimal(d).scaleb(-scale, wide) for d in digits]
            name = f"{make.__name__}, scale {scale}"
            got = decode(select(a, "utf8").stdout)["x"].to_pylist()
            ok(got == [v if v is None else format(v, "f") for v in values], f"{name}: every digit", got)
            p = select(a, "float64")
            got, want = decode(p.stdout)["x"].to_pylist(), [v if v is None else float(v) for v in values]
            ok(got == want, f"{name}: as float64", got)
            lost = sum(v is not None and not gives_back(v) for v in values)
            said = re.search(rb"column x: float64 rounded (\d+) of its", p.stderr)
            ok((int(said[1]) if said else 0) == lost, f"{name}: {lost} rounded", p.stderr)
            whole = [v for v in values if v is None or (v == int(v) and -(2**63) <= v < 2**63)]
            b = pa.array([None if v is None else v.scaleb(scale, wide).quantize(1, context=wide) for v in whole], make(most, 0))
            b = pa.Array.from_buffers(make(most, scale), len(b), b.buffers())
            got = decode(select(b, "int64").stdout)["x"].to_pylist()
            ok(got == [v if v is None else int(v) for v in whole], f"{name}: as int64", got)
    half = pa.array([decimal.Decimal("1.50")])
    p = select(half, "int64")
    ok(p.returncode == 1 and b"row 1 of the batch: the decimal is no int64" in p.stderr and b"ctr-select --columns '*,x:utf8' does" in p.stderr, "a fraction is no int64", p.stderr)
    p = run(["ctr-select", "-c", "new=x:utf8,y"], encode(pa.table({"x": half, "y": half})))
    ok(decode(p.stdout).to_pydict() == {"new": ["1.50"], "y": [1.5]}, "a new name, and another column as a number", p.stderr)
    long = encode(pa.table({"id": pa.array([1]), "x": pa.array([decimal.Decimal("0.1234567890123456789")]), "z": pa.array(["a"])}))
    p = run(["ctr-info"], long)
    ok(p.returncode == 1 and b"ctr-select --columns '*,x:utf8' does" in p.stderr, "the advice names the column", p.stderr)
    p = run(["ctr-select", "-c", "*,x:utf8"], long)
    ok(decode(p.stdout).to_pydict() == {"id": [1], "x": ["0.1234567890123456789"], "z": ["a"]}, "and keeps the others, each once", p.stderr)
    for columns in ("id,x:int32", "new=x:int32"):
        p = run(["ctr-select", "-c", columns], long)
        ok(p.returncode == 2 and b"x:int32: a TYPE is float64, utf8 or int64, for decimals of other programs' streams: --add makes" in p.stderr, "another type", p.stderr)
    p = run(["ctr-select", "-c", "x:decimal"], long)
    ok(p.returncode == 2 and b"there is no column 'x:decimal'" in p.stderr, "what is no type is part of the name", p.stderr)
    p = run(["ctr-select", "-c", "x:utf8"], encode(pa.table({"x": pa.array([1])})))
    ok(p.returncode == 2 and b"the column is int64, and a TYPE is for decimals" in p.stderr, "a column of other values has its type", p.stderr)
    p = run(["ctr-select", "-c", "x:utf8"], encode(pa.table({"x:utf8": pa.array([1])})))
    ok(decode(p.stdout).to_pydict() == {"x:utf8": [1]}, "a name that ends like a type", p.stderr)
    for a in (half.dictionary_encode(), pa.array([[decimal.Decimal("1.50"), None], None])):
        got = decode(select(a, "utf8").stdout)["x"].to_pylist()
        ok(got == (["1.50"] if len(a) == 1 else [["1.50", None], None]), f"texts of {a.type}", got)


def test_spans():
    for t, per in ((pa.time32("s"), 1000), (pa.time32("ms"), 1), (pa.duration("s"), 1000), (pa.duration("ms"), 1)):
        column(pa.array([0, None, 7, 86399]).cast(pa.int32() if t.bit_width == 32 else pa.int64()).cast(t), None, [0, None, 7 * per, 86399 * per], f"read {t}")
    for t, by in ((pa.time64("us"), 1000), (pa.time64("ns"), 10**6), (pa.duration("us"), 1000), (pa.duration("ns"), 10**6)):
        column(pa.array([0, None, 7 * by, 86399999 * by]).cast(t), None, [0, None, 7, 86399999], f"read {t}")
    column(pa.array([-1500000]).cast(pa.duration("us")), None, [-1500], "a negative duration")


def test_uuids():
    values = [uuid.UUID(int=i * 0x123456789ABCDEF0123456789) for i in range(5)] + [None]
    a = pa.array([v and v.bytes for v in values], pa.uuid())
    want = [v and str(v) for v in values]
    column(a, None, want, "uuids")
    t = decode(cat(encode(pa.table({"x": a}))))
    ok(t.schema.field(0).type == pa.string() and not (t.schema.field(0).metadata or {}), "are texts, and say so", t.schema)


def test_views_and_runs():
    rows = [[1, 2], None, [], [3, None], [4]]
    for make, v in ((pa.list_view, pa.ListViewArray), (pa.large_list_view, pa.LargeListViewArray)):
        column(rows, make(pa.int32()))
        column([["a", None], [], None, ["long enough for a view"]], make(pa.string_view()))
        offsets = pa.array([3, 0, 1, 4], pa.int32() if make is pa.list_view else pa.int64())
        sizes = pa.array([2, 3, 0, 1], offsets.type)
        a = v.from_arrays(offsets, sizes, pa.array(["e", "d", "c", "b", None]))
        column(a, None, [["b", None], ["e", "d", "c"], [], [None]], f"{a.type}, out of order and shared")
        column(pa.array(rows, make(pa.int32()))[1:4], None, rows[1:4], "slice of views")
        s = pa.array([[{"a": 1, "b": "x"}, {"a": 2, "b": None}], None, []], make(pa.struct([("a", pa.int8()), ("b", pa.string())])))
        same(pa.table({"x": s}), {"x.a": [[1, 2], None, []], "x.b": [["x", None], None, []]}, "views of structs")
    for t in (pa.int16(), pa.int32(), pa.int64()):
        for values in (pa.array([5, None, 7]), pa.array(["a", None, "text that is long"]), pa.array([True, False, None]),
                       pa.array(["x", "y", "x"]).dictionary_encode(), pa.array([[1], [], None]), pa.array([decimal.Decimal("1.5")] * 3)):
            a = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 700], t), values)
            want = [values[0].as_py()] * 2 + [values[1].as_py()] + [values[2].as_py()] * 697
            want = [float(x) if isinstance(x, decimal.Decimal) else x for x in want]
            column(a, None, want, f"runs of {values.type}, ends {t}")
    a = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 9], pa.int32()), pa.array([5, None, 7]))
    column(a[1:7], None, [5, None, 7, 7, 7, 7], "slice of runs")
    s = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])))
    same(pa.table({"x": s}), {"x.a": [1, None, None]}, "runs of structs")
    column(pa.array([], pa.list_view(pa.int8())), None, [], "no views")


def test_refused():
    one = pa.array([1])
    for a, word, cast in (
        (pa.array([b"ab"], pa.binary(2)), "fixed_size_binary", "utf8"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), "map", "two aligned lists"),
        (pa.array([[[1]]]), "list of lists", "cast"),
        (pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), one)), "runs", "decode"),
        (pa.array([decimal.Decimal("0.1234567890123456789")]), "row 1 of the batch: a float64 would round the decimal", "cast"),
        (pa.array([decimal.Decimal(2**63)], pa.decimal128(38, 0)), "row 1 of the batch: the decimal is no int64", "cast"),
        (pa.array([1], pa.duration("us")), "row 1 of the batch: it is finer than a millisecond", "cast"),
        (pa.array([2**62], pa.duration("s")), "row 1 of the batch: it is too long for milliseconds", "cast"),
        (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [one]), "union", "one type"),
        (pa.array([b"\xff\xfe"]), "UTF-8", "cast"),
    ):
        p = run(["ctr-cat"], encode(pa.table({"fine": one, "odd one": a})))
        err = p.stderr.decode()
        ok(p.returncode == 1 and "odd one" in err and word in err and cast in err, f"{word} is refused", err)


def test_left_out():
    # Between others a column of a type that is not read is no error where it is left out.
    n = 1000
    few = pa.array([b"%04d" % (i % 3) if i % 7 else None for i in range(n)], pa.binary(4))
    whole = pa.array(range(n))
    odd = {
        "dictionary of binaries": few.dictionary_encode(),
        "interval": pa.array([(1, 2, i) for i in range(n)], pa.month_day_nano_interval()),
        "fixed_size_binary": pa.array([b"abcd"] * n, pa.binary(4)),
        "map": pa.array([[("k", f"a long text, {i}")] * (i % 3) for i in range(n)], pa.map_(pa.string(), pa.string_view())),
        "list of lists": pa.array([[["a" * 20, "b"], ["c"]]] * n, pa.list_(pa.list_(pa.string_view()))),
        "list of binaries": pa.array([[b"1234"]] * n, pa.list_(pa.binary(4))),
        "list_view of binaries": pa.array([[b"1234"]] * n, pa.list_view(pa.binary(4))),
        "run_end_encoded": pa.RunEndEncodedArray.from_arrays(pa.array([300, n], pa.int32()), few[:2]),
        "dense union": pa.UnionArray.from_dense(pa.array([0] * n, pa.int8()), whole.cast(pa.int32()), [whole, few]),
        "sparse union": pa.UnionArray.from_sparse(pa.array([0] * n, pa.int8()), [whole, few]),
        "struct": pa.array([{"d": b"1234", "v": "y" * 20}] * n, pa.struct([("d", pa.binary(4)), ("v", pa.string_view())])),
    }
    text = pa.array([f"some text that is too long for a view, {i}" for i in range(n)], pa.string_view())
    for what, a in odd.items():
        t = pa.table({"one": whole, "odd": a, "text": text, "last": pa.compute.negate(whole)})
        name = "odd.d" if what == "struct" else "odd"
        p = run(["ctr-select", "--columns", "-" + name], encode(t))
        want = {k: v for k, v in t.to_pydict().items() if k != "odd"}
        got = decode(p.stdout).to_pydict() if not p.returncode else {}
        views = got.pop("odd.v", None)
        ok(got == want and views in (None, ["y" * 20] * n), f"{what} is left out", p.stderr)
        p = run(["ctr-info"], encode(t))
        line = [x for x in p.stdout.decode().splitlines() if x.startswith(name + " ")]
        ok("rows: 1000" in p.stdout.decode() and line and line[0].endswith("(not read)"), f"{what} is shown", p.stdout)
        for how in (["ctr-select"], ["ctr-select", "--where", f"is_null(`{name}`)", "--columns", "one"], ["ctr-info", "--digest"],
                    ["ctr-select", "--add", f"x=concat(`{name}`)", "--columns", "x"], ["ctr-select", "--explode", name, "--columns", "one"]):
            p = run(how, encode(t))
            ok(p.returncode in (1, 2) and name in p.stderr.decode() and not p.stdout, f"{what} is not used: {' '.join(how)}", p.stderr)
    t = pa.table({"click": pa.array([i % 2 for i in range(n)]), "price": few, "ad": text, "score": pa.array([.5] * n)})
    plan = os.path.join(W, "left.plan")
    with open(plan, "w") as f:
        f.write("label click\nfeature ad\n")
    p = run(["ctr-extract", plan], encode(t))
    ok(not p.returncode and decode(p.stdout).num_rows == n, "a plan that does not need it", p.stderr)
    p = run(["ctr-eval", "--label", "click", "--score", "score", "--metrics", "rows,auc"], encode(t))
    ok(not p.returncode and b"0.500000" in p.stdout, "an evaluation that does not", p.stderr)
    p = run(["ctr-eval", "--label", "click", "--score", "score", "--by", "price"], encode(t))
    ok(p.returncode == 1 and b"'price' is of type fixed_size_binary" in p.stderr, "one that does", p.stderr)


def test_shapes():
    big = pa.table({"i": pa.array(range(300000)), "s": pa.array([f"row {i % 977}" for i in range(300000)])})
    same(big, big.to_pydict(), "a batch of 300,000 rows")
    same(pa.table({"i": pa.array([], pa.int64()), "s": pa.array([], pa.string())}), {"i": [], "s": []}, "no rows")
    a = pa.table({"i": [1, 2]})
    p = run(["ctr-cat"], encode(a) + encode(pa.table({"i": [3]})))
    ok(not p.returncode and decode(p.stdout).to_pydict() == {"i": [1, 2, 3]}, "cat a b", p.stderr)
    p = run(["ctr-cat"], encode(a) + encode(pa.table({"j": [3]})))
    ok(p.returncode == 1 and b"column 1 is 'i' in one and 'j'" in p.stderr, "other columns are refused", p.stderr)
    p = run(["ctr-cat"], encode(a)[:-8])
    ok(p.returncode == 1 and b"truncated after batch 1 (row 2)" in p.stderr, "a stream without its end mark", p.stderr)
    p = run(["ctr-cat"], encode(a, file=True) * 2)
    ok(p.returncode == 1 and b"several IPC files" in p.stderr, "two IPC files in one pipe", p.stderr)
    meta = pa.schema([pa.field("i", pa.int64(), metadata={"k": "v", "ctr.role": "label"})], metadata={"m": "ä"})
    t = decode(cat(encode(pa.table({"i": [1]}, schema=meta))))
    ok(t.schema.field(0).metadata[b"ctr.role"] == b"label" and t.schema.metadata[b"m"] == "ä".encode(), "metadata is kept")
    names = pa.table([pa.array([1])] * 2, names=["a", "a"])
    p = run(["ctr-cat"], encode(names))
    ok(p.returncode == 1 and b"'a'" in p.stderr, "two columns of one name are refused", p.stderr)


# ---- others ------------------------------------------------------------------------------------------------------------------

MIXED = {"i": [1, None, 3], "f": [0.5, None, -2.0], "s": ["ä", None, "a text that is longer than twelve"],
         "l": [[1, 2], None, []], "b": [True, None, False], "t": [dt.datetime(2020, 1, 2, 3, 4, 5), None, dt.datetime(1970, 1, 1)]}


def mixed():
    t = pa.table(MIXED)
    return t.set_column(5, "t", t["t"].cast(pa.timestamp("ms", "UTC")))


def test_polars():
    try:
        import polars as pl
    except ImportError:
        return skip("polars", "no polars")
    df = pl.DataFrame(MIXED).with_columns(pl.col("s").cast(pl.Categorical).alias("c"))
    for compression in ("uncompressed", "lz4", "zstd"):
        for file in (False, True):
            out = io.BytesIO()
            (df.write_ipc if file else df.write_ipc_stream)(out, compression=compression)
            try:
                back = cat(out.getvalue())
                got = pl.read_ipc_stream(io.BytesIO(back))
                want = df.with_columns(pl.col("t").cast(pl.Datetime("ms")).dt.replace_time_zone("UTC"), pl.col("c").cast(pl.String))
                got = got.with_columns(pl.col("c").cast(pl.String))
                ok(got.equals(want), f"Polars there and back, {compression}, file={file}", f"{got}\n{want}")
            except Exception as e:
                ok(False, f"Polars there and back, {compression}, file={file}", e)
    data = encode(mixed())
    for how in ([], ["--to", "file"], ["-z", "lz4"], ["-z", "zstd", "--to", "file"]):
        out = cat(data, *how)
        try:
            got = (pl.read_ipc if "--to" in how else pl.read_ipc_stream)(io.BytesIO(out))
            ok(got.to_dicts() == mixed().to_pylist(), f"Polars reads ctr-cat {' '.join(how)}", got)
        except Exception as e:
            ok(False, f"Polars reads ctr-cat {' '.join(how)}", e)


def test_duckdb():
    try:
        import duckdb
    except ImportError:
        return skip("duckdb", "no duckdb")
    con = duckdb.connect()
    con.execute("set timezone = 'UTC'")
    t = con.sql("select i::int as i, i::bigint * 1000000007 as b, 'n' || i as s, i / 3 as f, [i, i + 1] as l, "
                    "{'x': i, 'y': 'z'} as st, date '2020-01-01' + i::int as d, case when i % 3 = 0 then null else i end as n "
                    "from range(5000) r(i)")
    t = t.to_arrow_table() if hasattr(t, "to_arrow_table") else t.arrow()
    t = t.read_all() if hasattr(t, "read_all") else t
    try:
        got = decode(cat(encode(t)))
        ok(got["st.x"].to_pylist() == list(range(5000)) and got["n"].null_count == 1667 and
           got["d"][1].as_py() == dt.datetime(2020, 1, 2, tzinfo=UTC), "DuckDB's arrow result is read")
        ours = ipc.open_stream(cat(encode(mixed())))
        rows = con.execute("select i, f, s, l, b from ours order by i nulls last").fetchall()
        ok(rows == [(1, 0.5, "ä", [1, 2], True), (3, -2.0, "a text that is longer than twelve", [], False),
                    (None,) * 5], "DuckDB queries a stream", rows)
    except Exception as e:
        ok(False, "DuckDB", e)


def test_canonical():
    """Bytes under nulls do not reach the output: equal rows, equal bytes."""
    mask = pa.array([False, True, False]).buffers()[1]
    valid = pa.array([True, False, True]).buffers()[1]
    ints = pa.array([1, 2, 3, 4, 5, 6], pa.int32())
    texts = pa.array(["a", "hidden", "c"])
    dirty = pa.table({
        "i": pa.Array.from_buffers(pa.int32(), 3, [valid, ints.buffers()[1]]),
        "s": pa.Array.from_buffers(pa.string(), 3, [valid, *texts.buffers()[1:]]),
        "l": pa.Array.from_buffers(pa.list_(pa.int32()), 3, [valid, pa.array([0, 2, 4, 6], pa.int32()).buffers()[1]], children=[ints]),
        "f": pa.Array.from_buffers(pa.list_(pa.int32(), 2), 3, [valid], children=[ints]),
        "b": pa.Array.from_buffers(pa.bool_(), 3, [valid, mask]),
    })
    dirty.validate(full=True)
    rows = dirty.to_pydict()
    rows["f"][1] = None
    clean = pa.table({k: pa.array(v, dirty.schema.field(k).type) for k, v in rows.items()})
    a, b = cat(encode(dirty)), cat(encode(clean))
    ok(decode(a).to_pydict() == rows and a == b, "null slots are canonical", f"{decode(a)}\n{decode(b)}")


def test_ours():
    data = encode(mixed())
    for how in ([], ["-z", "lz4"], ["-z", "zstd"], ["--to", "file"], ["--to", "file", "-z", "zstd"], ["--batch", "1"]):
        t = decode(cat(data, *how))
        ok(t.to_pydict() == mixed().to_pydict() and t.schema.types == mixed().schema.types, f"pyarrow reads ctr-cat {' '.join(how)}")
        again = run(["ctr-info", "--digest"], cat(data, *how)).stdout
        ok(again == run(["ctr-info", "--digest"], data).stdout and again, "the same digest as the foreign original")
    key = encode(pa.table({"k": pa.array(range(100), pa.uint64()), "v": pa.array([[float(i)] * 4 for i in range(100)],
                                                                                  pa.list_(pa.float32(), 4))}))
    t = decode(cat(key, "--to", "file", "--key", "k", "--batch", "10"))
    ok(t.num_rows == 100 and t["v"][99].as_py() == [99.0] * 4, "pyarrow reads a keyed file")


def main():
    for test in (test_scalars, test_times, test_lists, test_structs, test_dictionaries, test_decimals, test_decimals_by_type, test_spans, test_uuids,
                 test_views_and_runs, test_refused, test_left_out, test_shapes, test_canonical,
                 test_ours, test_polars, test_duckdb):
        test()
    print(f"1..{n_tests}")


if __name__ == "__main__":
    main()
