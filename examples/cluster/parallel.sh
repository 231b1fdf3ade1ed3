#!/bin/sh
# A folder of daily logs to one model by GNU parallel, a day a processor: LOGS=logs PLAN=ads.plan OUT=out ./parallel.sh [OPTION of parallel …]
# `--sshloginfile hosts` spreads the days over machines that share the folders. A day that fails stops the run; a second run goes on from it.
set -eu
export LOGS="${LOGS:-logs}" PLAN="${PLAN:-ads.plan}" OUT="${OUT:-out}" IMPORT="${IMPORT:---header}"
mkdir -p "$OUT"
find "$LOGS" -name '*.csv' | LC_ALL=C sort >"$OUT/days"
[ -s "$OUT/days" ] || { echo "$0: $LOGS has no *.csv: LOGS=FOLDER names that of the logs" >&2; exit 1; }

# day.sh makes a day's features, unless they are there. Its filters take one processor each: parallel shares them out.
CTR_JOBS=1 parallel --halt soon,fail=1 --env LOGS --env PLAN --env OUT --env IMPORT --env CTR_JOBS "$@" "$(dirname "$0")/day.sh" <"$OUT/days"

sed 's|.*/||; s|\.csv$|.arrows|' "$OUT/days" | (cd "$OUT" && xargs ctr-train lr -q -o model)
