#!/bin/sh
# Interop both ways with pyarrow, Polars and DuckDB: tests/interop.py does it, where Python has them.
. "${0%/*}/lib.sh"
py=${CTR_PYTHON:-}
[ -n "$py" ] || { [ -x "$CTR_TOP/build/venv/bin/python" ] && py=$CTR_TOP/build/venv/bin/python; } || py=python3
"$py" -c 'import pyarrow' 2>/dev/null || skip_all "no pyarrow for $py"
"$py" "$CTR_TOP/tests/interop.py" "$W"
