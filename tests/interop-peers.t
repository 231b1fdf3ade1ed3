#!/bin/sh
# The whole matrix of types with each peer, both ways, values compared to the bit: tests/interop_peers.py does it.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half compares values; interop.t reads what others write here'
has_python pyarrow numpy || skip_all "no pyarrow and numpy for $PY"
has_python polars duckdb pandas sklearn || :
"$PY" "$CTR_TOP/tests/interop_peers.py" "$W"
