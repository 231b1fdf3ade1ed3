# SPDX-License-Identifier: Apache-2.0
"""Filters of ctrkit over Arrow batches, and pipelines of them over files, for Python and the engines that run it on a cluster.

    import ctrkit
    cheap = ctrkit.through(["ctr-select", "--where", "price < 10"])
    cheap(table)                        # a pyarrow.Table, a data frame of pandas or polars, or an iterable of record batches
    cheap.spark(frame)                  # Spark: mapInArrow, with the schema of the result
    cheap.ray(dataset)                  # Ray: map_batches
    cheap.dask(frame)                   # Dask: map_partitions

    ctrkit.over_files(paths, [["ctr-import", "{}"], ["ctr-extract", "plan"]], "features", on=spark)

The engine schedules and shuffles; a filter does the work of a partition. What comes is whole, or an exception comes: the exit status of each
filter is checked, and the trailer of its stream, which it writes after everything else. through() needs pyarrow 11 or later.
"""
import inspect
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterable, Mapping

__version__ = "@VERSION@"
__all__ = ["FilterError", "through", "over_files", "program"]


class FilterError(Exception):
    """A filter failed, or its output is not whole. `argv`: its command; `status`: as Popen.returncode has it; `stderr`: what it said."""

    def __init__(self, why, argv=(), status=None, stderr=""):
        super().__init__(why, list(argv), status, stderr)
        self.argv, self.status, self.stderr = list(argv), status, stderr

    def __str__(self):
        return self.args[0] + (": " + self.stderr.strip() if self.stderr.strip() else "")


def _find(name):
    beside = [sysconfig.get_path("scripts"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")]
    user = sysconfig.get_preferred_scheme("user") if hasattr(sysconfig, "get_preferred_scheme") else os.name + "_user"
    beside += [sysconfig.get_path("scripts", user)]
    return next((p for p in (os.path.join(b, name) for b in beside if b) if os.access(p, os.X_OK)), None) or shutil.which(name)


def program(name):
    """The path of a command: as this package installed it, else as the shell finds it."""
    found = name if os.sep in name else _find(name)
    if not found:
        advice = "" if _find("ctr-cat") else ": pip install ctrkit where this runs"
        raise FilterError(f"there is no {name} in {sysconfig.get_path('scripts')} or PATH{advice}", [name])
    return found


class _Chain:
    """Filters joined by pipes. What they say goes to files, so that none waits for a reader of it."""

    def __init__(self, stages, stdin=None, stdout=None):
        self.children, self.said, self.stages = [], [], stages
        try:
            for i, argv in enumerate(stages):
                last = i + 1 == len(stages)
                said = tempfile.TemporaryFile()
                self.said.append(said)
                child = subprocess.Popen([program(argv[0]), *argv[1:]], stdin=self.children[-1].stdout if i else stdin,
                                         stdout=stdout if last else subprocess.PIPE, stderr=said)
                if i:
                    self.children[-1].stdout.close()
                self.children.append(child)
        except BaseException:
            self.kill()
            raise

    def kill(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
        for child in self.children:
            for pipe in (child.stdin, child.stdout):
                try:
                    if pipe:
                        pipe.close()
                except OSError:
                    pass  # what was left to write
            child.wait()

    def finish(self):
        """Waits for all; raises FilterError for the stage that failed first, and passes on what they said if none did."""
        failed, said = [], []
        for argv, child, file in zip(self.stages, self.children, self.said):
            status = child.wait()
            file.seek(0)
            text = file.read().decode(errors="replace")
            file.close()
            said.append(text)
            if status:
                failed.append((status == -13, len(failed), argv, status, text))  # SIGPIPE: a later stage ended first
        if failed:
            _, _, argv, status, text = min(failed, key=lambda f: f[:2])
            raise FilterError(f"{argv[0]} " + (f"was ended by signal {-status}" if status < 0 else f"failed with status {status}"), argv, status, text)
        sys.stderr.write("".join(said))


class _Flow:
    """Batches through a chain, as an iterator. A thread writes, because filters read and write at once."""

    def __init__(self, stages, schema, batches):
        import pyarrow as pa
        self.pa, self.upstream, self.stopped = pa, None, False
        self.stages = stages
        self.chain = _Chain(stages, subprocess.PIPE, subprocess.PIPE)
        self.feeder = threading.Thread(target=self._feed, args=(schema, iter(batches)), daemon=True)
        self.feeder.start()
        try:
            self.reader = pa.ipc.open_stream(self.chain.children[-1].stdout)
        except (pa.ArrowException, OSError, EOFError) as e:
            self._fail(f"its output is no stream: {e}", e)
        except BaseException:
            self.stop()
            raise
        self.schema = self.reader.schema

    def _feed(self, schema, batches):
        pipe = self.chain.children[0].stdin
        try:
            writer = self.pa.ipc.new_stream(pipe, schema)
            for batch in batches:
                if self.stopped:
                    return
                writer.write_batch(batch)
            writer.close()  # the mark of the end: written after the last batch alone
            pipe.close()
        except BrokenPipeError:
            pass  # the filter has ended: its status says why
        except BaseException as e:  # of the engine: the filter must not take what came for all
            self.upstream = e
            self.chain.children[0].kill()
        finally:
            try:
                pipe.close()
            except OSError:
                pass

    def _fail(self, why, cause=None, cut=True):
        """Raises the cause that comes first: of the engine; if the output is cut, of a filter that failed; else `why`."""
        self.chain.children[-1].stdout.close()
        upstream = self.upstream
        try:
            if cut and upstream is None:
                self.chain.finish()
        finally:
            self.stop()
        if upstream is not None:
            raise upstream
        raise FilterError(f"{self.stages[-1][0]} ended with success, and {why}" if cut else f"{self.stages[-1][0]}: {why}", self.stages[-1]) from cause

    def stop(self):
        self.stopped = True
        self.chain.kill()
        self.feeder.join(5)

    def __iter__(self):
        rows = batches = 0
        trailer = None
        try:
            while True:
                try:
                    batch, metadata = self.reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    break
                except (self.pa.ArrowException, OSError, EOFError) as e:
                    self._fail(f"its output is cut: {e}", e)
                if trailer:
                    self._fail("its output goes on after its trailer", cut=False)
                if metadata is not None and b"ctr.rows" in metadata:
                    trailer = {k: int(metadata[k]) for k in (b"ctr.rows", b"ctr.batches")}
                    continue
                rows += batch.num_rows
                batches += 1
                yield batch
            if not trailer:
                self._fail(f"its output has no trailer after {rows} rows")
            if trailer != {b"ctr.rows": rows, b"ctr.batches": batches}:
                self._fail(f"its output has {rows} rows in {batches} batches, and its trailer says {trailer[b'ctr.rows']} in {trailer[b'ctr.batches']}",
                           cut=False)
            if self.chain.children[-1].stdout.read(1):
                self._fail("its output has more than one stream, as a model does: give it -o FILE", cut=False)
            self.feeder.join()
            if self.upstream is not None:
                raise self.upstream
            self.chain.finish()
        finally:
            self.stop()


def _plain_type(pa, t):
    """The type that Spark has for a column."""
    if pa.types.is_dictionary(t):
        return _plain_type(pa, t.value_type)
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    if pa.types.is_list(t) or pa.types.is_fixed_size_list(t):
        return pa.list_(_plain_type(pa, t.value_type))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _plain_type(pa, f.type)) for f in t])
    wider = {pa.uint64(): pa.int64(), pa.uint32(): pa.int64(), pa.uint16(): pa.int32(), pa.uint8(): pa.int16(), pa.float16(): pa.float32()}
    return wider.get(t, t)


def _plain(pa, a, to):
    """A column as that type. Keys (uint64) keep their 64 bits."""
    if a.type == to:
        return a
    if pa.types.is_dictionary(a.type):
        return _plain(pa, a.dictionary_decode(), to)
    if pa.types.is_uint64(a.type):
        return a.view(to)
    if pa.types.is_list(a.type) or pa.types.is_fixed_size_list(a.type):
        if pa.types.is_fixed_size_list(a.type):
            a = a.cast(pa.list_(a.type.value_type))
        items = _plain(pa, a.values, to.value_type)
        return pa.Array.from_buffers(to, len(a), a.buffers()[:2], a.null_count, a.offset, [items])
    if pa.types.is_struct(a.type):
        fields = [_plain(pa, a.field(i), to.field(i).type) for i in range(a.type.num_fields)]
        return pa.Array.from_buffers(to, len(a), a.buffers()[:1], a.null_count, a.offset, fields)
    return a.cast(to)


def _named(batches, names):
    import pyarrow as pa
    for b in batches:
        yield pa.RecordBatch.from_arrays(b.columns, names=names)


def _cogrouped(plain, left, right, on, partitions, arrow, from_arrow_schema):
    from pyspark.sql import functions
    types = [[dict(f.dtypes)[n] for n in on] for f in (left, right)]
    if not on or types[0] != types[1]:  # a hash depends on the type
        raise ValueError(f"spark(…, right=, on=): the columns {on} are {types[0]} and, on the right, {types[1]}: cast them to the same")
    count = partitions or int(left.sparkSession.conf.get("spark.sql.shuffle.partitions"))

    def bucket(f):
        keys = [f"c{f.columns.index(n)}" for n in on]
        return f.toDF(*[f"c{i}" for i in range(len(f.columns))]).withColumn("bucket", functions.pmod(functions.hash(*keys), functions.lit(count))).groupBy("bucket")
    names, schemas = (left.columns, right.columns), (arrow(left), arrow(right))
    schema = plain.beside(*(s.empty_table() for s in schemas)).schema
    work = lambda a, b: plain.beside(*(t.select(range(len(n))).rename_columns(n) for t, n in zip((a, b), names)))
    return bucket(left).cogroup(bucket(right)).applyInArrow(work, from_arrow_schema(schema))


def _want_batch(given):
    import pyarrow as pa
    if not isinstance(given, pa.RecordBatch):
        raise TypeError(f"a filter takes a pyarrow.Table, a data frame or an iterable of record batches: this is {type(given).__name__}")


class through:  # is called as a function
    """A filter, or a pipeline of them (a list of argument lists), as a function of Arrow data. signed=True gives types that Spark has: keys as
    int64 of the same bits, times in microseconds, no dictionaries."""

    def __init__(self, argv, signed=False):
        self.stages = [list(argv)] if argv and isinstance(argv[0], str) else [list(a) for a in argv]
        if not self.stages or not all(self.stages) or isinstance(argv, str):
            raise ValueError('through() wants a list of arguments, such as ["ctr-select", "--where", "x > 1"]')
        self.signed = signed

    def _flow(self, schema, batches):
        """Its schema, and an iterable of its batches."""
        import pyarrow as pa
        flow = _Flow(self.stages, schema, batches)
        if not self.signed:
            return flow.schema, flow
        plain = pa.schema([pa.field(f.name, _plain_type(pa, f.type)) for f in flow.schema])
        return plain, (pa.RecordBatch.from_arrays([_plain(pa, c, f.type) for c, f in zip(b.columns, plain)], schema=plain) for b in flow)

    def schema(self, schema):
        """The schema of the result for that of an input: the filter runs on no rows."""
        out, batches = self._flow(schema, [])
        for _ in batches:
            pass
        return out

    def _batches(self, batches):
        batches = iter(batches)
        first = next(batches, None)
        if first is None:  # an empty partition, of which not even the schema is known
            return
        _want_batch(first)

        def all_of_them():
            yield first
            yield from batches
        yield from self._flow(first.schema, all_of_them())[1]

    def __call__(self, data):
        import pyarrow as pa
        if isinstance(data, pa.Table):
            schema, batches = self._flow(data.schema, data.to_batches())
            return pa.Table.from_batches(list(batches), schema)
        if isinstance(data, pa.RecordBatch):
            return self(pa.Table.from_batches([data]))
        if type(data).__module__.partition(".")[0] == "pandas":
            return self(pa.Table.from_pandas(data, preserve_index=False)).to_pandas()
        if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__next__"):  # of polars, DuckDB and others
            return self(pa.table(data))
        if not isinstance(data, Iterable) or isinstance(data, (Mapping, str, bytes)):
            _want_batch(data)
        for batch in data if isinstance(data, (list, tuple)) else ():
            _want_batch(batch)
        return self._batches(data)

    def spark(self, frame, right=None, on=(), partitions=None):
        """frame.mapInArrow(…): a partition at a time.

        With `right`, another frame: rows of both whose columns `on` are equal meet in one of `partitions` (default: those of a shuffle), each of which
        fits in a worker's memory; {} in the arguments is a file of right's rows. Needs Spark 4.
        """
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
        plain, names = through(self.stages, signed=True), frame.columns
        zone = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}  # Spark 4
        arrow = lambda f: to_arrow_schema(f.schema, **zone)
        if right is not None:
            return _cogrouped(plain, frame, right, [on] if isinstance(on, str) else list(on), partitions, arrow, from_arrow_schema)
        schema = from_arrow_schema(plain.schema(arrow(frame)))
        if any("." in n or "`" in n for n in names):  # mapInArrow would look for a column in a column
            frame = frame.toDF(*[f"c{i}" for i in range(len(names))])
        return frame.mapInArrow(lambda batches: plain(_named(batches, names)), schema)

    def beside(self, left, right):
        """The filter over the table `left`, where {} in its arguments is a file of the table `right`."""
        import pyarrow as pa
        with tempfile.NamedTemporaryFile(suffix=".arrows") as file:
            with pa.ipc.new_stream(file, right.schema) as writer:
                writer.write_table(right)
            file.flush()
            return through([[a.replace("{}", file.name) for a in argv] for argv in self.stages], self.signed)(left)

    def ray(self, dataset, **options):
        """dataset.map_batches(…): a block at a time, so that what groups or sorts sees the whole of it."""
        return dataset.map_batches(self, batch_format="pyarrow", batch_size=None, **options)

    def dask(self, frame):
        """frame.map_partitions(…)."""
        return frame.map_partitions(self, meta=self(frame._meta))


# ---- files ----


def _stamp(path):
    s = os.stat(path)
    return [os.path.abspath(path), s.st_size, s.st_mtime_ns]


def _one_file(task):
    """A pipeline over a file, unless its output is there, of the same pipeline and files. Returns (output, was it made now?)."""
    path, stages, out = task
    stages = [[a.replace("{}", path) for a in argv] for argv in stages]
    mark = f"{out}.done"
    say = json.dumps({"stages": stages, "files": [_stamp(path)] + [_stamp(a) for argv in stages for a in argv[1:] if os.path.isfile(a)]}, indent=1)
    try:
        with open(mark) as f:
            if f.read() == say and os.path.exists(out):
                return out, False
    except FileNotFoundError:
        pass
    if os.path.exists(mark):
        os.remove(mark)
    stages[-1] += ["-o", out]
    _Chain(stages, subprocess.DEVNULL, subprocess.DEVNULL).finish()
    if not os.path.exists(out):
        raise FilterError(f"{stages[-1][0]} ended with success and left no {out}", stages[-1], 0)
    with open(f"{mark}.{os.getpid()}.{threading.get_ident()}", "w") as f:
        f.write(say)
    os.rename(f.name, mark)
    return out, True


def over_files(paths, pipeline, out, on=None):
    """Each file through a pipeline of filters, side by side; returns a list of (output, was it made now?), in the order of the paths.

    pipeline: argument lists, in which {} is the path. The last one gets -o OUTPUT, which appears whole or not at all. A second run skips the
    files that are done: whose output was made by the same pipeline from the same files (OUTPUT.done says so).
    out: a folder, for outputs named FILE.arrows; or a function of the path.
    on: what runs it: a SparkSession or SparkContext, the module ray, a dask.distributed.Client; None: threads, as many as processors. Workers
    see the files at the same paths, and have ctrkit.
    """
    stages = [list(a) for a in pipeline]
    if not stages or any(isinstance(a, str) for a in pipeline):
        raise ValueError('over_files() wants a list of argument lists, such as [["ctr-import", "{}"], ["ctr-extract", "plan"]]')
    if not any("{}" in a for argv in stages for a in argv):
        raise ValueError("over_files() wants {} in the pipeline where the path of each file goes: no argument has it")
    if not callable(out):
        os.makedirs(out, exist_ok=True)
    tasks = [(str(p), stages, out(str(p)) if callable(out) else os.path.join(out, os.path.basename(p) + ".arrows")) for p in paths]
    used = {}
    for path, _, to in tasks:
        if used.setdefault(to, path) != path:
            raise ValueError(f"{used[to]} and {path} would both become {to}: give a function of the path")
    kind = (getattr(on, "__name__", None) or type(on).__module__).partition(".")[0]
    if on is None:
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(_one_file, tasks))
    if not tasks:
        return []
    if kind == "pyspark":
        return getattr(on, "sparkContext", on).parallelize(tasks, len(tasks)).map(_one_file).collect()
    if kind == "ray":
        return on.get([on.remote(_one_file).remote(t) for t in tasks])
    if kind == "distributed":
        return on.gather(on.map(_one_file, tasks, pure=False))
    raise ValueError(f"over_files() knows no {kind}: on= takes a SparkSession, the module ray, a dask Client, or None")
