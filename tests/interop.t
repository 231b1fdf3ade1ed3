#!/bin/sh
# Interop both ways with pyarrow, Polars, DuckDB, pandas and numpy: tests/interop.py does it, where Python has them.
. "${0%/*}/lib.sh"
has_python pyarrow || skip_all "no pyarrow for $PY"
has_python polars duckdb pandas numpy sklearn || :
"$PY" "$CTR_TOP/tests/interop.py" "$W"
