#!/bin/sh
# The quick part of every line of the scorecard of faults; `make fault` counts all of it. Under the sanitizers allocations do not
# fail (3a), for they have an allocator of their own, and memory is not measured.
top=$(cd "${0%/*}/.." && pwd)
exec "$top/tests/fault/scorecard" --quick --tap
