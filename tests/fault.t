#!/bin/sh
# The quick part of every line of the scorecard of faults; `make fault` counts all of it.
top=$(cd "${0%/*}/.." && pwd)
exec "$top/tests/fault/scorecard" --quick --tap
