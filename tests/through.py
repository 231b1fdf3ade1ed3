# ctrkit.through and ctrkit.over_files (src/python/ctrkit.py): through.py FOLDER FAULTS. Prints TAP.
import os
import random
import subprocess
import sys
import threading

import pyarrow as pa

import ctrkit

folder, faults = sys.argv[1], int(sys.argv[2])
os.chdir(folder)
tests = 0


def ok(name, yes, why=""):
    global tests
    tests += 1
    print(f"{'ok' if yes else 'not ok'} {tests} - {name}")
    if not yes:
        print(f"# {why}")
    sys.stdout.flush()


def equal(name, got, want):
    ok(name, got == want, f"got {got!r}, want {want!r}")


def skip(name, why):
    global tests
    tests += 1
    print(f"ok {tests} - {name} # SKIP {why}")


def raises(name, kind, words, call):
    try:
        got = call()
        ok(name, False, f"no exception: {got!r:.200}")
    except kind as e:
        ok(name, all(w in str(e) for w in words), f"{type(e).__name__}: {e}")


def rows(batches):
    return [r for b in batches for r in b.to_pylist()]


N = 20000
table = pa.table({"n": pa.array(range(N), pa.int64()), "text": pa.array([None if i % 11 == 0 else f"t{i % 7}" for i in range(N)]),
                  "x": pa.array([float("nan") if i % 13 == 0 else -0.0 if i % 5 == 0 else i / 8 for i in range(N)])})
even = ctrkit.through(["ctr-select", "--where", "n % 2 == 0"])
want = table.take(pa.array(range(0, N, 2)))

# ---- data of every kind
same = lambda a, b: a.select(b.schema.names).combine_chunks().to_batches()[0].equals(b.combine_chunks().to_batches()[0]) or repr(a.to_pylist()) == repr(b.to_pylist())
ok("a table", same(even(table), want))
ok("batches, as an iterator", repr(rows(even(iter(table.to_batches(777))))) == repr(want.to_pylist()))
ok("a list of batches", repr(rows(even(table.to_batches(777)))) == repr(want.to_pylist()))
ok("a reader, as an iterator", repr(rows(even(pa.RecordBatchReader.from_batches(table.schema, table.to_batches(777))))) == repr(want.to_pylist()))


class Frame:  # as of polars, whose iterator gives columns
    def __iter__(self):
        return iter(table.columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return table.__arrow_c_stream__(requested_schema)


if hasattr(table, "__arrow_c_stream__"):
    ok("a frame that is an Arrow stream", same(even(Frame()), want))
else:
    skip("a frame that is an Arrow stream", "no such streams in this pyarrow")
try:
    import polars
    ok("a frame of polars", same(even(polars.from_arrow(table)).cast(want.schema), want))
except ImportError:
    skip("a frame of polars", "no polars")
try:
    import pandas
    large = [2**62 + 1, None, -(2**62) - 1]
    frame = ctrkit.through(["ctr-cat"])(pandas.DataFrame({"id": pandas.array(large, dtype="Int64"), "n": [1.0, None, 3.0]}))
    equal("a frame of pandas", [frame["n"].sum(), len(frame)], [4.0, 3])
    named = ctrkit.through(["ctr-select", "--add", "id=if(n > 2, 4611686018427387905, null)"])(pandas.DataFrame({"n": [1, 2, 3]}))
    equal("large integers beside nulls are not rounded", named["id"].dropna().tolist(), large[:1])
    lists = ctrkit.through(["ctr-cat"])(pandas.DataFrame({"l": [[1], [2**53 + 1, None]]}))
    equal("nor those of lists", [list(cell) for cell in lists["l"]], [[1], [2**53 + 1, None]])
    equal("small ones are float64, as pandas has them", str(ctrkit.through(["ctr-select", "--add", "id=if(n > 2, 5, null)"])(pandas.DataFrame({"n": [1, 2, 3]}))["id"].dtype), "float64")
except ImportError:
    skip("a frame of pandas", "no pandas")
ok("a batch", same(even(table.to_batches()[0]), want))
equal("the schema, by no rows", even.schema(table.schema).names, ["n", "text", "x"])
equal("no rows, with the schema", (even(table.slice(0, 0)).num_rows, even(table.slice(0, 0)).schema.names), (0, ["n", "text", "x"]))
equal("no batches: no partition", list(even(iter([]))), [])
equal("batches without rows", rows(even(iter([table.to_batches()[0].slice(0, 0)] * 3))), [])
equal("all rows left out", ctrkit.through(["ctr-select", "--where", "n < 0"])(table).num_rows, 0)
two = ctrkit.through([["ctr-select", "--where", "n % 2 == 0"], ["ctr-select", "--add", "m=n + 1"], ["ctr-cat"]])
equal("a pipeline", two(table)["m"].to_pylist(), list(range(1, N, 2)))
ok("a function again and again", same(even(even(table)), want))
big = pa.table({"n": pa.array(range(3_000_000), pa.int64())})
equal("more than pipes hold", even(big).num_rows, 1_500_000)
equal("a filter that must read all first", ctrkit.through(["ctr-sort", "-k", "n"])(big).num_rows, 3_000_000)

# ---- types that Spark has
kinds = pa.table({
    "a.b": pa.array([1, 2, None], pa.int32()), "key": pa.array([2**64 - 1, 5, None], pa.uint64()), "keys": pa.array([[2**63, None], [], None], pa.list_(pa.uint64())),
    "byte": pa.array([255, 0, None], pa.uint8()), "word": pa.array([65535, 0, None], pa.uint16()), "u32": pa.array([2**32 - 1, 0, None], pa.uint32()),
    "half": pa.array([1.5, -0.0, None], pa.float32()).cast(pa.float16()), "time": pa.array([-1, 1700000000123, None], pa.timestamp("ms", "UTC")),
    "dict": pa.array(["x", "y", None]).dictionary_encode(), "vec": pa.array([[1.0, 2.0], [3.0, 4.0], None], pa.list_(pa.float32(), 2))})
cat = ctrkit.through(["ctr-cat"], signed=True)
plain = cat(kinds)
equal("their types", [str(t) for t in plain.schema.types],
      ["int32", "int64", "list<item: int64>", "int16", "int32", "int64", "float", "timestamp[us, tz=UTC]", "string", "list<item: float>"])
equal("the schema says so before", cat.schema(kinds.schema).types, plain.schema.types)
equal("keys keep their bits", plain["key"].to_pylist(), [-1, 5, None])
equal("in lists", plain["keys"].to_pylist(), [[-2**63, None], [], None])
equal("small ones their values", [plain[c].to_pylist() for c in ("byte", "word", "u32")], [[255, 0, None], [65535, 0, None], [2**32 - 1, 0, None]])
equal("halves, times, texts, vectors", [repr(plain.column(c).cast(pa.int64() if c == "time" else plain[c].type).to_pylist()) for c in ("half", "time", "dict", "vec")],
      ["[1.5, -0.0, None]", "[-1000, 1700000000123000, None]", "['x', 'y', None]", "[[1.0, 2.0], [3.0, 4.0], None]"])
equal("slices, too", cat(kinds.slice(1, 1)).to_pylist(), plain.slice(1, 1).to_pylist())

# ---- what fails, and says why
FilterError = ctrkit.FilterError
raises("a usage error", FilterError, ["ctr-select failed with status 2", "there is no column 'nope'"], lambda: ctrkit.through(["ctr-select", "--where", "nope > 1"])(table))
raises("of an iterator", FilterError, ["no column 'nope'"], lambda: list(ctrkit.through(["ctr-select", "--where", "nope > 1"])(iter(table.to_batches(100)))))
raises("the first of a pipeline is named, not those behind it", FilterError, ["ctr-select failed", "nope"],
       lambda: ctrkit.through([["ctr-select", "--where", "nope > 1"], ["ctr-cat"], ["ctr-sort", "-k", "n"]])(table))
raises("the last one, too", FilterError, ["ctr-sort failed", "nope"], lambda: ctrkit.through([["ctr-cat"], ["ctr-sort", "-k", "nope"]])(big))
raises("a type that it does not read", FilterError, ["interval"], lambda: ctrkit.through(["ctr-cat"])(pa.table({"d": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})))
raises("no such program", FilterError, ["there is no nosuch"], lambda: ctrkit.through(["nosuch"])(table))
try:
    ctrkit.through(["ctr-nope"])(table)
except FilterError as e:
    ok("a misspelt one: no advice to install what is there", "there is no ctr-nope in " in str(e) and "pip" not in str(e), e)
found, ctrkit._find = ctrkit._find, lambda name: None
raises("no program of ctrkit at all", FilterError, ["there is no ctr-cat", ": pip install ctrkit where this runs"], lambda: ctrkit.through(["ctr-cat"])(table))
ctrkit._find = found
for given, name in ((None, "NoneType"), ({"n": [1]}, "dict"), ("rows", "str"), (3, "int"), ([1], "int"), ([table], "Table"), (object(), "object")):
    raises(f"of {name}, at the call", TypeError, [f"a pyarrow.Table, a data frame or an iterable of record batches: this is {name}"], lambda: even(given))
raises("of an iterator of others, when it is read", TypeError, ["this is Table"], lambda: list(even(iter([table]))))
raises("a text is no list", ValueError, ["list of arguments"], lambda: ctrkit.through("ctr-cat"))
raises("nothing", ValueError, ["list of arguments"], lambda: ctrkit.through([]))
raises("success and no output", FilterError, ["true ended with success"], lambda: ctrkit.through(["true"])(table))
raises("a stream without a trailer", FilterError, ["no trailer"], lambda: ctrkit.through(["cat"])(table))
raises("a model, which is many streams", FilterError, ["more than one stream"], lambda: ctrkit.through(["sh", "-c", "ctr-cat | tee copy; cat copy"])(table))
try:
    ctrkit.through(["sh", "-c", "echo because >&2; exit 7"])(table)
except FilterError as e:
    equal("status, command and words of the exception", (e.status, e.argv[0], e.stderr), (7, "sh", "because\n"))
import pickle
copy = pickle.loads(pickle.dumps(even))
ok("a function travels to other processes", same(copy(table), want))
raised = FilterError("why", ["a"], 3, "words")
again = pickle.loads(pickle.dumps(raised))
equal("so does its exception", (str(again), again.status), ("why: words", 3))


class Upstream(Exception):
    pass


def broken(batches, at):
    for i, b in enumerate(batches):
        if i == at:
            raise Upstream(at)
        yield b


raises("an exception of the engine is the engine's", Upstream, [], lambda: list(even(broken(table.to_batches(500), 3))))
raises("even before the first batch", Upstream, [], lambda: list(even(broken(table.to_batches(500), 0))))
taken = even(iter(table.to_batches(500)))
next(taken)
taken.close()
ok("take(1): nothing stays behind", not [t for t in threading.enumerate() if t is not threading.main_thread()])

# ---- faults: whole data or an exception
random.seed(1)
batches = table.to_batches(400)
reference = repr(want["n"].to_pylist())
sink = pa.BufferOutputStream()
with pa.ipc.new_stream(sink, table.schema) as writer:
    writer.write_table(table)
size = len(subprocess.run(["ctr-select", "--where", "n % 2 == 0"], input=sink.getvalue().to_pybytes(), capture_output=True).stdout)
outcome = {}


def fault(kind):
    """Runs with a fault; returns the numbers that came with success, or None for an exception."""
    if kind == "output cut":
        run, data = ctrkit.through(["sh", "-c", f"ctr-select --where 'n % 2 == 0' | head -c {random.randrange(size)}"]), batches
    elif kind == "input cut":
        run, data = ctrkit.through(["sh", "-c", f"head -c {random.randrange(1000, size)} | ctr-select --where 'n % 2 == 0'"]), batches
    elif kind == "killed":
        run, data = ctrkit.through(["timeout", "-s", "KILL", f"{random.random() * .015:.4f}", "ctr-select", "--where", "n % 2 == 0"]), batches
    elif kind == "killed in a pipeline":
        run = ctrkit.through([["ctr-cat"], ["timeout", "-s", "KILL", f"{random.random() * .015:.4f}", "ctr-select", "--where", "n % 2 == 0"], ["ctr-cat"]])
        data = batches
    elif kind == "late failure":
        run, data = ctrkit.through(["sh", "-c", "ctr-select --where 'n % 2 == 0'; exit 1"]), batches
    else:
        run, data = even, broken(batches, random.randrange(len(batches)))
    try:
        return repr([n for b in run(iter(data)) for n in b.column("n").to_pylist()])
    except (FilterError, Upstream):
        return None


short = []
kinds = ["output cut", "input cut", "killed", "killed in a pipeline", "late failure", "exception of the engine"]
for i in range(faults):
    kind = kinds[i % len(kinds)]
    got = fault(kind)
    if got not in (None, reference):
        short.append((i, kind))
    outcome.setdefault(kind, [0, 0])[got is not None] += 1
equal(f"{faults} faults never give short data with success", short, [])
for kind in kinds:
    print(f"# {kind}: {outcome.get(kind, [0, 0])[0]} exceptions, {outcome.get(kind, [0, 0])[1]} whole")
ok("most of them are faults", sum(o[0] for o in outcome.values()) > faults // 2, outcome)
equal("no processes stay behind", subprocess.run(["pgrep", "-P", str(os.getpid()), "ctr-"], capture_output=True, text=True).stdout, "")
ok("no descriptors stay open", len(os.listdir("/proc/self/fd")) < 20, os.listdir("/proc/self/fd"))

# ---- files
os.makedirs("in/deep", exist_ok=True)
for i in range(5):
    with open(f"in/{i}.csv", "w") as f:
        f.write("a,b\n" + "".join(f"{i},{j}\n" for j in range(100 * i)))
paths = [f"in/{i}.csv" for i in range(5)]
steps = [["ctr-import", "-q", "-f", "csv", "--header", "--columns", "a:int32,b:int32", "{}"], ["ctr-select", "--where", "b % 2 == 0"]]
count = lambda p: pa.ipc.open_stream(p).read_all().num_rows
first = ctrkit.over_files(paths, steps, "out")
equal("a file each", first, [(f"out/{i}.csv.arrows", True) for i in range(5)])
equal("its rows", [count(p) for p, _ in first], [50 * i for i in range(5)])
times = [os.stat(p).st_mtime_ns for p, _ in first]
equal("a second run makes nothing", ctrkit.over_files(paths, steps, "out"), [(p, False) for p, _ in first])
equal("and leaves the files", [os.stat(p).st_mtime_ns for p, _ in first], times)
with open("in/2.csv", "a") as f:
    f.write("2,1000\n")
equal("a file that changed is done again", [now for _, now in ctrkit.over_files(paths, steps, "out")], [i == 2 for i in range(5)])
equal("with its new row", count("out/2.csv.arrows"), 101)
os.remove("out/3.csv.arrows")
equal("so is one whose output is gone", [now for _, now in ctrkit.over_files(paths, steps, "out")], [i == 3 for i in range(5)])
other = [steps[0], ["ctr-select", "--where", "b % 2 == 1"]]
equal("another pipeline does all again", [now for _, now in ctrkit.over_files(paths, other, "out")], [True] * 5)
views = [["ctr-extract", "-q", "of.plan", "log={}", "names=names.csv"]]
for name, text in (("of.plan", "from log = csv(header=true)\njoin names = csv(header=true) on b\nlabel y = a > 1\nfeature name\n"), ("names.csv", "b,name\n1,x\n")):
    with open(name, "w") as f:
        f.write(text)
equal("views", [now for _, now in ctrkit.over_files(paths[1:3], views, "views.out")], [True] * 2)
equal("that are done", [now for _, now in ctrkit.over_files(paths[1:3], views, "views.out")], [False] * 2)
with open("names.csv", "a") as f:
    f.write("2,z\n")
equal("a view that changed makes all anew", [now for _, now in ctrkit.over_files(paths[1:3], views, "views.out")], [True] * 2)
os.makedirs("days/day=1")
parts = lambda: ctrkit.over_files(["days"], [["ctr-import", "-q", "--partitions", "{}"]], "days.out")[0]
for name, rows in (("a", 3), ("b", 4)):
    subprocess.run(["ctr-export", "-o", f"days/day=1/{name}.parquet", first[rows][0]], check=True)
    equal(f"a folder with {name}", (parts()[1], parts()[1]), (True, False))
equal("has the rows of all files below it", count(parts()[0]), sum(count(first[rows][0]) for rows in (3, 4)))
with open("folder.plan", "w") as f:
    f.write("from log = csv(header=true)\njoin days on b\nlabel y = a > 1\nfeature a_of\n")
os.makedirs("side")
os.symlink("nowhere", "side/link")
view = lambda: ctrkit.over_files(paths[1:2], [["ctr-extract", "-q", "folder.plan", "log={}", "days=side"]], "folder.out")[0][1]
for name, k in (("a", 1), ("b", 2)):
    subprocess.run(f"printf 'b,a_of\\n{k},{k}\\n' | ctr-import -q -f csv --header | ctr-export -o side/{name}.parquet", shell=True, check=True)
    equal(f"a view that is a folder, with {name}", (view(), view()), (True, False))
for name in "left", "right":  # followed on and on, they would be 2^40 folders
    os.makedirs("looped", exist_ok=True)
    os.symlink("../looped", f"looped/{name}")
equal("a folder with links to itself", [name[0].rpartition("/")[2] for name in ctrkit._stamp("looped")[3:]], ["left", "right"])
with open("in/4.csv", "a") as f:
    f.write("4,no number\n")
before = open("out/4.csv.arrows", "rb").read()
raises("a bad file", FilterError, ["ctr-import failed", "4.csv", "no number"], lambda: ctrkit.over_files(paths, other, "out"))
ok("leaves its old output, which is not done", open("out/4.csv.arrows", "rb").read() == before and not os.path.exists("out/4.csv.arrows.done"))
raises("two files of one name", ValueError, ["in/1.csv and in/deep/1.csv"], lambda: ctrkit.over_files(["in/1.csv", "in/deep/1.csv"], steps, "out"))
equal("names by a function", ctrkit.over_files(["in/1.csv"], steps, lambda p: "named.arrows"), [("named.arrows", True)])
equal("no files", ctrkit.over_files([], steps, "out"), [])
raises("a pipeline is a list of lists", ValueError, ["list of argument lists"], lambda: ctrkit.over_files(paths, ["ctr-cat"], "out"))
raises("a pipeline without {}", ValueError, ["wants {} in the pipeline"], lambda: ctrkit.over_files(paths, [["ctr-select", "--head", "2"]], "none"))
ok("makes nothing", not os.path.exists("none"))
raises("an engine that it does not know", ValueError, ["knows no collections"], lambda: ctrkit.over_files(paths[:1], steps, "out", on=__import__("collections").OrderedDict()))

# ---- engines, where they are installed
big = pa.table({"user": pa.array([i * 7919 % 997 for i in range(N)], pa.int64()), "a.b": pa.array(range(N), pa.int64()),
                "time": pa.array([1700000000000000 + i * 1000 for i in range(N)], pa.timestamp("us", "UTC"))})
per_user = ctrkit.through(["ctr-group", "-k", "user", "--add", "n=count()", "--add", "last=max(a.b)"])
one = sorted(per_user(big).to_pylist(), key=lambda r: r["user"])
keyed = ["ctr-extract", "features.plan"]
with open("features.plan", "w") as f:
    f.write("keep user\nfeature k = cross(user, a.b)\n")
keys = {(r["user"], r["k"]) for r in ctrkit.through(keyed, signed=True)(big).to_pylist()}


def spark():
    from pyspark.sql import SparkSession
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
               .config("spark.sql.execution.arrow.pyspark.enabled", "true").config("spark.sql.shuffle.partitions", "3").getOrCreate())
    session.sparkContext.setLogLevel("OFF")
    try:
        frame = session.createDataFrame(big.to_pandas()).repartition(5, "user")
        equal("Spark: rows", sorted(r["a.b"] for r in ctrkit.through(["ctr-select", "--where", "a.b % 2 == 0"]).spark(frame).collect()), list(range(0, N, 2)))
        equal("Spark: times and types", [str(t) for t in ctrkit.through(["ctr-cat"]).spark(frame).dtypes],
              ["('user', 'bigint')", "('a.b', 'bigint')", "('time', 'timestamp')"])
        got = sorted((r.asDict() for r in per_user.spark(frame).collect()), key=lambda r: r["user"])
        equal("Spark: groups of a shuffle by key are those of one machine", got, one)
        equal("Spark: keys, of which half are above 2^63", {(r["user"], r["k"]) for r in ctrkit.through(keyed).spark(frame).collect()}, keys)
        equal("Spark: more partitions than rows", len(even.spark(session.createDataFrame([(1,), (2,)], "n bigint").repartition(6)).collect()), 1)
        equal("Spark: no rows", even.spark(session.createDataFrame([], "n bigint")).collect(), [])
        equal("Spark: take(5)", len(ctrkit.through(["ctr-cat"]).spark(frame).take(5)), 5)
        raises("Spark: a filter that fails on rows, not on none", Exception, ["sh failed with status 3", "because"],
               lambda: ctrkit.through(["sh", "-c", "ctr-cat -o part.$$ && cat part.$$ && rows=$(ctr-info --digest part.$$) && test $(wc -c <part.$$) -lt 9000 || "
                                       "{ echo because >&2; exit 3; }"]).spark(frame).collect())
        looked = ctrkit.through([["ctr-join", "-q", "-k", "a.b", "{}"], ["ctr-select", "--add", "found = not is_null(word)"]])
        words = pa.table({"a.b": pa.array(range(0, N, 3), pa.int64()), "word": [f"w{i}" for i in range(0, N, 3)]})
        together = looked.beside(big.select(["user", "a.b"]), words).to_pylist()
        sides = frame.select("user", "`a.b`"), session.createDataFrame(words.to_pandas())
        equal("Spark: a join, both sides shuffled by key", sorted((r.asDict() for r in looked.spark(sides[0], right=sides[1], on="a.b", partitions=7).collect()),
                                                                  key=lambda r: r["a.b"]), together)
        narrow = looked.spark(sides[0], right=sides[1].selectExpr("int(`a.b`) as `a.b`", "word"), on=["a.b"])
        equal("Spark: a join by integers of two widths", sorted((r.asDict() for r in narrow.collect()), key=lambda r: r["a.b"]), together)
        raises("Spark: keys of other kinds", FilterError, ["ctr-join failed", "a.b"],
               lambda: looked.spark(sides[0], right=sides[1].selectExpr("string(`a.b`) as `a.b`", "word"), on="a.b"))
        raises("Spark: keys of times with a zone and days", ValueError, ["time is timestamp[us, tz=UTC]", "date32"],
               lambda: ctrkit.through(["ctr-join", "-k", "time", "{}"]).spark(frame.select("time"), right=frame.selectExpr("date(time) as time"), on="time"))
        raises("Spark: a join by nothing", ValueError, ["columns of both frames", "[]"], lambda: looked.spark(sides[0], right=sides[1]))
        raises("Spark: a join by a column of one side", ValueError, ["columns of both frames", "word"], lambda: looked.spark(sides[0], right=sides[1], on="word"))
        raises("Spark: a join without a file of the right", ValueError, ["wants {} in the arguments"], lambda: ctrkit.through(["ctr-cat"]).spark(sides[0], right=sides[1], on="a.b"))
        equal("Spark: a join with no rows on the right", {r["found"] for r in looked.spark(sides[0], right=sides[1].where("false"), on="a.b").collect()}, {False})
        raises("Spark: a join that fails", Exception, ["ctr-join failed", "nope"], lambda: ctrkit.through(["ctr-join", "-k", "nope", "{}"]).spark(sides[0], right=sides[1], on="a.b"))
        equal("Spark: files", [now for _, now in ctrkit.over_files(paths[:3], steps, "spark.out", on=session)], [True] * 3)
        equal("Spark: files that are done", [now for _, now in ctrkit.over_files(paths[:3], steps, "spark.out", on=session.sparkContext)], [False] * 3)
    finally:
        session.stop()


def ray():
    import ray as engine
    engine.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error", runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}})
    try:
        data = engine.data.from_arrow([big.slice(i * 5000, 5000) for i in range(4)])
        equal("Ray: rows", sorted(r["a.b"] for r in ctrkit.through(["ctr-select", "--where", "a.b % 2 == 0"]).ray(data).take_all()), list(range(0, N, 2)))
        parts = data.map_batches(lambda t: t.append_column("part", pa.array([u % 4 for u in t["user"].to_pylist()])), batch_format="pyarrow")
        got = parts.groupby("part").map_groups(per_user, batch_format="pyarrow").take_all()
        equal("Ray: groups of a shuffle by key are those of one machine", sorted(got, key=lambda r: r["user"]), one)
        raises("Ray: a filter that fails", Exception, ["no column 'nope'"], lambda: ctrkit.through(["ctr-select", "--where", "nope > 1"]).ray(data).take_all())
        equal("Ray: files", [now for _, now in ctrkit.over_files(paths[:3], steps, "ray.out", on=engine)], [True] * 3)
        equal("Ray: files that are done", [now for _, now in ctrkit.over_files(paths[:3], steps, "ray.out", on=engine)], [False] * 3)
    finally:
        engine.shutdown()


def dask():
    import dask.dataframe
    frame = dask.dataframe.from_pandas(big.to_pandas(), npartitions=3)
    got = ctrkit.through(["ctr-select", "--where", "a.b % 2 == 0"]).dask(frame).compute()
    equal("Dask: rows", sorted(got["a.b"].tolist()), list(range(0, N, 2)))
    got = per_user.dask(frame.shuffle("user")).compute().sort_values("user").to_dict("records")
    equal("Dask: groups of a shuffle by key are those of one machine", got, one)
    raises("Dask: a filter that fails", Exception, ["no column 'nope'"], lambda: ctrkit.through(["ctr-select", "--where", "nope > 1"]).dask(frame).compute())
    from dask.distributed import Client
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as client:
        equal("Dask: files", [now for _, now in ctrkit.over_files(paths[:3], steps, "dask.out", on=client)], [True] * 3)


for engine in (spark, ray, dask):
    module = "pyspark" if engine is spark else engine.__name__
    try:
        __import__(module)
    except ImportError:
        skip(f"on {module}", f"no {module}")
        continue
    engine()

print(f"1..{tests}")
