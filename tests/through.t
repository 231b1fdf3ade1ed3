#!/bin/sh
# ctrkit.through and ctrkit.over_files in Python: data of every kind, faults, files. FAULTS=1000 for as many as that.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the module is Python'
has_python pyarrow || skip_all "no pyarrow for $PY"
PYTHONPATH=$CTR_TOP/src/python PYTHONDONTWRITEBYTECODE=1 "$PY" "$CTR_TOP/tests/through.py" "$W" "${FAULTS:-60}"
