#!/bin/sh
# Features of one day: PLAN=ads.plan OUT=out ./day.sh logs/2026-11-01.csv. The last filter of the pipe writes the file, which appears whole or not at
# all, and fails when one before it did; so a file that is newer than its log and the plan is done.
set -eu
out=$OUT/$(basename "$1" .csv).arrows
if [ "$out" -nt "$1" ] && [ "$out" -nt "$PLAN" ]; then exit; fi
# shellcheck disable=SC2086
ctr-import -q ${IMPORT:---header} "$1" | ctr-extract -q "$PLAN" -o "$out"
