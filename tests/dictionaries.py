"""Reads the dictionaries of streams and bundles as other programs do: dictionaries.py check FILE… (a line of TAP
each), nulls FILE, foreign FILE (writes one)."""
import io
import shutil
import subprocess
import sys
import traceback

import pyarrow as pa
import pyarrow.parquet as pq


def tables(path):
    """A bundle is streams one after another."""
    source = pa.BufferReader(open(path, "rb").read())
    while source.tell() < source.size():
        with pa.ipc.open_stream(source) as reader:
            yield reader.read_all()


def entries(column):
    for chunk in column.chunks:
        assert chunk.dictionary.null_count == 0, "a null among the entries"
        values = chunk.dictionary.to_pylist()
        texts = [repr(v) for v in values]
        assert len(set(texts)) == len(texts), "an entry twice"
        assert chunk.null_count == sum(v is None for v in chunk.to_pylist()), "nulls"


def check_pandas(table):
    frame = table.to_pandas()
    for name in table.column_names:
        assert frame[name].isna().sum() == table[name].null_count, name


def check_parquet(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    back = pq.read_table(io.BytesIO(sink.getvalue()))
    for name in table.column_names:
        assert back[name].to_pylist() == table[name].to_pylist(), name


def check_polars(table):
    import polars as pl

    frame = pl.from_arrow(table)
    for name in table.column_names:
        assert frame[name].null_count() == table[name].null_count, name


def check_duckdb(table):
    import duckdb

    duckdb.sql("set threads=1")
    for name in table.column_names:
        nulls = duckdb.sql(f'select count(*) from "table" where "{name}" is null').fetchall()[0][0]
        assert nulls == table[name].null_count, name


def check_clickhouse(table):
    tool = shutil.which("clickhouse-local")
    if not tool:
        return
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    name = table.column_names[0]
    said = subprocess.run([tool, "--input-format", "ArrowStream", "--query", f"select countIf(`{name}` is null) from table"],
                          input=sink.getvalue(), capture_output=True, check=True)
    assert int(said.stdout) == table[name].null_count


def check(path):
    for table in tables(path):
        coded = [f.name for f in table.schema if pa.types.is_dictionary(f.type)]
        for name in coded:
            entries(table[name])
        # Neither pandas nor Parquet knows dictionaries of lists.
        table = table.select([n for n in coded if not pa.types.is_nested(table.schema.field(n).type.value_type)])
        if not table.column_names or not table.num_rows:
            continue
        table.unify_dictionaries()
        for peer in (check_pandas, check_parquet, check_polars, check_duckdb, check_clickhouse):
            try:
                peer(table)
            except ImportError:
                pass


def check_all(*paths):
    for path in paths:
        try:
            check(path)
            print("ok -", path)
        except Exception:
            print("not ok -", path)
            print("# " + traceback.format_exc().replace("\n", "\n# "))


def nulls(path):
    for table in tables(path):
        print(*(f"{n}={table[n].null_count}" for n in table.column_names))


def foreign(path):
    index = pa.array([1, 0, 2, 3, None, 2], pa.int32())
    texts = pa.DictionaryArray.from_arrays(index, pa.array([None, "b", "a", "b"]))
    lists = pa.DictionaryArray.from_arrays(index, pa.array([None, ["x"], [], ["x"]], pa.list_(pa.string())))
    table = pa.table({"d": texts, "l": lists})
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


{"check": check_all, "nulls": nulls, "foreign": foreign}[sys.argv[1]](*sys.argv[2:])
