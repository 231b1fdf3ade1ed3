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
import contextlib
import inspect
import itertools
import json
import os
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

try:
    import pyarrow as pa
    import pyarrow.compute as compute
except ImportError:  # over_files() needs none
    pa = None

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
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")  # pip install --target
    ours = [sysconfig.get_path("scripts"), beside, os.path.join(site.getuserbase(), "bin")]
    return shutil.which(name, path=os.pathsep.join([*ours, os.environ.get("PATH", os.defpath)]))


def program(name):
    """The path of a command: as this package installed it, else as the shell finds it."""
    found = _find(name)
    if not found:
        advice = "" if _find("ctr-cat") else ": pip install ctrkit where this runs"
        raise FilterError(f"there is no {name} in {sysconfig.get_path('scripts')} or PATH{advice}", [name])
    return found


def _takes_file(stages):
    return any("{}" in a for argv in stages for a in argv)


class _Chain:
    """Filters joined by pipes. What they say goes to files, so that none waits for a reader of it."""

    def __init__(self, stages, stdin, stdout):
        self.children, self.said, self.stages = [], [], stages
        try:
            for argv in stages:
                out = stdout if len(self.children) + 1 == len(stages) else subprocess.PIPE
                self.said.append(tempfile.TemporaryFile())
                self.children.append(subprocess.Popen([program(argv[0]), *argv[1:]], stdin=stdin, stdout=out, stderr=self.said[-1]))
                if len(self.children) > 1:
                    stdin.close()
                stdin = self.children[-1].stdout
        except BaseException:
            self.kill()
            raise

    def kill(self):
        for child in self.children:
            child.kill()
        for child in self.children:
            with contextlib.suppress(OSError), child:  # closes its pipes, of which one may have something left to write, and waits
                pass

    def finish(self):
        """Waits for all; raises FilterError for the stage that failed first, and passes on what they said if none did."""
        failed, said = [], ""
        for argv, child, file in zip(self.stages, self.children, self.said):
            status = child.wait()
            with file:
                file.seek(0)
                text = file.read().decode(errors="replace")
            said += text
            if status:
                how = f"was ended by signal {-status}" if status < 0 else f"failed with status {status}"
                failed.append((status == -13, FilterError(f"{argv[0]} {how}", argv, status, text)))  # SIGPIPE: a later stage ended first
        if failed:
            raise min(failed, key=lambda f: f[0])[1]
        sys.stderr.write(said)


class _Flow:
    """Batches through a chain, as an iterator. A thread writes, because filters read and write at once."""

    def __init__(self, stages, schema, batches):
        self.last, self.upstream = stages[-1], None
        self.chain = _Chain(stages, subprocess.PIPE, subprocess.PIPE)
        self.out = self.chain.children[-1].stdout
        self.feeder = threading.Thread(target=self._feed, args=(schema, iter(batches)), daemon=True)
        self.feeder.start()
        try:
            self.reader = self._read(pa.ipc.open_stream, self.out)
        except BaseException:
            self.stop()
            raise
        self.schema = self.reader.schema

    def _feed(self, schema, batches):
        pipe = self.chain.children[0].stdin
        try:
            writer = pa.ipc.new_stream(pipe, schema)
            for batch in batches:
                writer.write_batch(batch)
            writer.close()  # the mark of the end: written after the last batch alone
            pipe.close()
        except BrokenPipeError:
            pass  # the filter has ended: its status says why
        except BaseException as e:  # of the engine: the filter must not take what came for all
            self.upstream = e
            self.chain.children[0].kill()
        finally:
            with contextlib.suppress(OSError):
                pipe.close()

    def _read(self, call, *args):
        try:
            return call(*args)
        except (pa.ArrowException, OSError, EOFError) as e:
            self._end(f"is cut: {e}", e)

    def _end(self, cut=None, cause=None):
        """Raises what came first: an exception of the engine, the failure of a filter, or how the output is cut."""
        if cut:
            self.out.close()
        else:
            self.feeder.join()
        if self.upstream is not None:
            raise self.upstream
        self.chain.finish()
        if cut:
            raise FilterError(f"{self.last[0]} ended with success, and its output {cut}", self.last) from cause

    def _wrong(self, what):
        raise FilterError(f"{self.last[0]}: its output {what}", self.last)

    def stop(self):
        self.chain.kill()
        self.feeder.join(5)

    def __iter__(self):
        rows, batches, trailer = 0, 0, None
        try:
            with contextlib.suppress(StopIteration):
                while True:
                    batch, metadata = self._read(self.reader.read_next_batch_with_custom_metadata)
                    if trailer:
                        self._wrong("goes on after its trailer")
                    if metadata is not None and b"ctr.rows" in metadata:
                        trailer = int(metadata[b"ctr.rows"]), int(metadata[b"ctr.batches"])
                        continue
                    rows += batch.num_rows
                    batches += 1
                    yield batch
            if not trailer:
                self._end(f"has no trailer after {rows} rows")
            if trailer != (rows, batches):
                self._wrong(f"has {rows} rows in {batches} batches, and its trailer says {trailer[0]} in {trailer[1]}")
            if self.out.read(1):
                self._wrong("has more than one stream, as a model does: give it -o FILE")
            self._end()
        finally:
            self.stop()


def _plain(t):
    """The type that Spark has for a column."""
    if pa.types.is_dictionary(t):
        return _plain(t.value_type)
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    if pa.types.is_list(t) or pa.types.is_fixed_size_list(t):
        return pa.list_(_plain(t.value_type))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _plain(f.type)) for f in t])
    wider = {pa.uint64(): pa.int64(), pa.uint32(): pa.int64(), pa.uint16(): pa.int32(), pa.uint8(): pa.int16(), pa.float16(): pa.float32()}
    return wider.get(t, t)


def _batch(given):
    if not isinstance(given, pa.RecordBatch):
        raise TypeError(f"a filter takes a pyarrow.Table, a data frame or an iterable of record batches: this is {type(given).__name__}")
    return given


def _rounds(column):
    """Would integers of a column, or of its lists, be rounded as the float64 that pandas makes of them beside nulls?"""
    if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        return any(_rounds(c.flatten()) for c in column.iterchunks())
    if not column.null_count or column.type not in (pa.int64(), pa.uint64()):
        return False
    try:
        column.cast(pa.float64())
    except pa.ArrowInvalid:
        return True
    return False


def _to_pandas(table):
    """As Table.to_pandas(), but where that would round integers beside nulls, pandas' Int64 or UInt64, or lists as arrays of objects."""
    import numpy
    import pandas
    frame = table.to_pandas()
    for name, column in zip(table.column_names, table.columns):
        if _rounds(column) and column.type in (pa.int64(), pa.uint64()):
            frame[name] = column.to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype(), pa.uint64(): pandas.UInt64Dtype()}.get)
        elif _rounds(column):
            frame[name] = [None if cell is None else numpy.array(cell, dtype=object) for cell in column.to_pylist()]
    return frame


class through:  # is called as a function
    """A filter, or a pipeline of them (a list of argument lists), as a function of Arrow data. signed=True gives types that Spark has: keys as
    int64 of the same bits, times in microseconds, no dictionaries."""

    __name__ = "through"  # Ray's map_groups asks a function for it

    def __init__(self, argv, signed=False):
        import pyarrow  # or say that there is none
        self.stages = [list(argv)] if argv and isinstance(argv[0], str) else [list(a) for a in argv]
        if not self.stages or not all(self.stages) or isinstance(argv, str):
            raise ValueError('through() wants a list of arguments, such as ["ctr-select", "--where", "x > 1"]')
        self.signed = signed

    def _flow(self, schema, batches):
        """Its schema, and an iterable of its batches."""
        flow = _Flow(self.stages, schema, batches)
        if not self.signed:
            return flow.schema, flow
        plain = pa.schema([pa.field(f.name, _plain(f.type)) for f in flow.schema])
        cast = lambda c, t: c if c.type == t else c.cast(t, safe="uint64" not in str(c.type))  # keys keep their 64 bits
        return plain, (pa.RecordBatch.from_arrays([cast(c, t) for c, t in zip(b.columns, plain.types)], schema=plain) for b in flow)

    def schema(self, schema):
        """The schema of the result for that of an input: the filter runs on no rows."""
        return self(schema.empty_table()).schema

    def _batches(self, batches):
        batches = iter(batches)
        first = next(batches, None)
        if first is not None:  # of an empty partition not even the schema is known
            yield from self._flow(_batch(first).schema, itertools.chain([first], batches))[1]

    def __call__(self, data):
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if isinstance(data, pa.Table):
            schema, batches = self._flow(data.schema, data.to_batches())
            return pa.Table.from_batches(list(batches), schema)
        if type(data).__module__.partition(".")[0] == "pandas":
            return _to_pandas(self(pa.Table.from_pandas(data, preserve_index=False)))
        if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__next__"):  # of polars, DuckDB and others
            return self(pa.table(data))
        if not isinstance(data, Iterable) or isinstance(data, (Mapping, str, bytes)):
            _batch(data)
        return self._batches([_batch(b) for b in data] if isinstance(data, (list, tuple)) else data)

    def spark(self, frame, right=None, on=(), partitions=None):
        """frame.mapInArrow(…): a partition at a time.

        With `right`, another frame: rows of both whose columns `on` are equal meet in one of `partitions` (default: those of a shuffle), each of which
        fits in a worker's memory; {} in the arguments is a file of right's rows. Columns of times must be of one type on both sides.
        """
        from pyspark.sql import functions
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
        plain = through(self.stages, signed=True)
        zone = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}  # Spark 4
        numbered = lambda f, side: f.toDF(*[f"{side}{i}" for i in range(len(f.columns))])  # mapInArrow takes a.b for b in a column a
        names, arrow = frame.columns, to_arrow_schema(frame.schema, **zone)
        if right is None:
            work = lambda batches: plain(pa.RecordBatch.from_arrays(b.columns, names=names) for b in batches)
            return numbered(frame, "l").mapInArrow(work, from_arrow_schema(plain.schema(arrow)))
        on, sides = [on] if isinstance(on, str) else list(on), {"l": names, "r": right.columns}
        if not on or any(n not in columns for n in on for columns in sides.values()):
            raise ValueError(f"spark(…, right=, on=): on= names columns of both frames, by which their rows meet: this is {on}")
        if not _takes_file(self.stages):
            raise ValueError("spark(…, right=): wants {} in the arguments where the file of right's rows goes: no argument has it")
        arrows = {"l": arrow, "r": to_arrow_schema(right.schema, **zone)}
        for n in on:
            l, r = (arrows[side].types[columns.index(n)] for side, columns in sides.items())
            # Spark hashes a local time or a day as the instant that it is in the session's zone; ctr-join takes it for one in UTC.
            if pa.types.is_temporal(l) and pa.types.is_temporal(r) and l != r:
                raise ValueError(f"spark(…, right=, on=): {n} is {l} and, on the right, {r}: cast them to the same")
        schema = plain.beside(arrow.empty_table(), arrows["r"].empty_table()).schema
        keys = [functions.coalesce(*(f"{side}{columns.index(n)}" for side, columns in sides.items())) for n in on]
        # One frame of the rows of both, in which those of a side have nulls in the columns of the other.
        both = [numbered(f, side).withColumn("side", functions.lit(side)) for side, f in (("l", frame), ("r", right))]
        both = both[0].unionByName(both[1], allowMissingColumns=True).repartition(*([partitions] if partitions else []), *keys)
        return both.mapInArrow(lambda batches: plain._meet(sides, batches), from_arrow_schema(schema))

    def _meet(self, sides, batches):
        """The filter over a partition of spark(…, right=)."""
        batches = list(batches)
        if batches:
            table = pa.Table.from_batches(batches)
            rows = [table.filter(compute.equal(table["side"], side)).select([f"{side}{i}" for i in range(len(names))]).rename_columns(names)
                    for side, names in sides.items()]
            yield from self.beside(*rows).to_batches()

    def beside(self, left, right):
        """The filter over the table `left`, where {} in its arguments is a file of the table `right`."""
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


def _stamp(path, above=()):
    """What tells that a file or folder changed. A link to nothing is no error, nor is one to a folder above it, which is not read again."""
    s = os.stat(path, follow_symlinks=os.path.exists(path))
    listed = (*above, (s.st_dev, s.st_ino))
    names = sorted(os.listdir(path)) if os.path.isdir(path) and listed[-1] not in above else []
    inside = [_stamp(os.path.join(path, name), listed) for name in names]
    return [os.path.abspath(path), s.st_size, s.st_mtime_ns, *inside]


def _files(stages):
    """The files that arguments name, by themselves or behind VIEW= or --option=, and folders behind VIEW=."""
    return [f for argv in stages for a in argv[1:] for f in (a, a.partition("=")[2])
            if os.path.isfile(f) or (f != a and a[0] != "-" and os.path.isdir(f))]


def _one_file(task):
    """A pipeline over a file, unless its output is there, of the same pipeline and files. Returns (output, was it made now?)."""
    path, stages, out = task
    stages = [[a.replace("{}", path) for a in argv] for argv in stages]
    mark = f"{out}.done"
    say = json.dumps({"stages": stages, "files": [_stamp(f) for f in [path, *_files(stages)]]}, indent=1)
    with contextlib.suppress(FileNotFoundError):
        with open(mark) as f:
            if f.read() == say and os.path.exists(out):
                return out, False
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
    if not _takes_file(stages):
        raise ValueError("over_files() wants {} in the pipeline where the path of each file goes: no argument has it")
    if not callable(out):
        os.makedirs(out, exist_ok=True)
    tasks = [(str(p), stages, out(str(p)) if callable(out) else os.path.join(out, os.path.basename(p) + ".arrows")) for p in paths]
    made = {}
    for path, _, to in tasks:
        if made.setdefault(to, path) != path:
            raise ValueError(f"{made[to]} and {path} would both become {to}: give a function of the path")
    kind = (getattr(on, "__name__", None) or type(on).__module__).partition(".")[0]
    if on is None:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(_one_file, tasks))
    if kind == "pyspark":
        return getattr(on, "sparkContext", on).parallelize(tasks, len(tasks) or 1).map(_one_file).collect()
    if kind == "ray":
        return on.get([on.remote(_one_file).remote(t) for t in tasks])
    if kind == "distributed":
        return on.gather(on.map(_one_file, tasks, pure=False))
    raise ValueError(f"over_files() knows no {kind}: on= takes a SparkSession, the module ray, a dask Client, or None")
