#!/bin/sh
# What --min-clicks of ctr-calibrate is worth: log loss on the half of each log that the map was not fitted to, both ways, over that of the scores as
# they are. Scores are progressive, less the first tenth. tests/bench/min-clicks.sh LOGS DATA, where logs.sh made LOGS.
set -eu
logs=$1 data=$2 to=$1/tmp counts='0 1 2 3 5 10 20 30 50 100'
sum() { ctr-eval -m log_loss --format stream "$@" 2>/dev/null | ctr-export -c rows,log_loss --no-header -f csv | awk -F, '{ printf "%.15g\n", $1 * $2 }'; }
both() { # FILE-A FILE-B OPTIONS…
    a=$1 b=$2
    shift 2
    ctr-calibrate -q --fit isotonic "$@" -o "$to/a.map" "$a"
    ctr-calibrate -q --fit isotonic "$@" -o "$to/b.map" "$b"
    { ctr-calibrate "$to/a.map" "$b" | sum; ctr-calibrate "$to/b.map" "$a" | sum; } | awk '{ s += $1 } END { print s }'
}
row() { # NAME SCORED PIECES
    ctr-select --head 50% --rest "$to/b.arrows" "$2" -o "$to/a.arrows"
    base=$({ sum "$to/a.arrows"; sum "$to/b.arrows"; } | awk '{ s += $1 } END { print s }')
    printf '| %s, %s |' "$1" "$3"
    for n in $counts; do
        printf ' %s |' "$(both "$to/a.arrows" "$to/b.arrows" --pieces "$3" --min-clicks "$n" | awk -v b="$base" '{ printf "%.4f", $1 / b }')"
    done
    echo
}
echo "| log, pieces | $(echo $counts | sed 's/ / | /g') |"
echo "|---$(for n in $counts; do printf '|---'; done)|"
for pieces in linear constant; do
    for log in criteo avazu mind amex ml1m ml100k talking obd-random-men obd-random-women obd-bts-men obd-bts-women; do
        ctr-train lr -q --alpha 0.05 --progressive "$to/p.arrows" -o "$to/m.arrows" "$logs/$log.arrows"
        ctr-select --tail 90% "$to/p.arrows" -o "$to/scored.arrows"
        row $log "$to/scored.arrows" $pieces
    done
    for log in 1458.train 1458.test; do
        ctr-import --format tsv --columns click:int8,price:int32,pctr:float64,slot:int32 --label click --score pctr \
            "$data/ipinyou_scored/sam.$log.txt.gz" -o "$to/scored.arrows"
        row ipinyou-$log "$to/scored.arrows" $pieces
    done
done
