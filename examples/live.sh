#!/bin/sh
# A model that learns while its log grows, watched as it does: predictions made before each row is learned from are evaluated window by window, by slice,
# against another model, and a calibration map of the last day follows them. Every pipeline is printed, then run. OUT= chooses the folder, ROWS= the size,
# PAUSE= the seconds between two days of the log.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$here/out/live}
ROWS=${ROWS:-100000}
PAUSE=${PAUSE:-2}
mkdir -p "$OUT"
cp "$here/live.plan" "$OUT"
cd "$OUT"
rm -f copy other scored

say() { printf '\n%s\n' "$1"; }
run() {
    printf '%s\n' "$1" | sed 's/^/  $ /; 2,$s/\$ /  /'
    eval "$1"
}

say "1. Three days of a planted world, as features, a file a day"
run "ctr-synth -q -o logs --rows $ROWS --days 3 --start 2026-01-05 --seed 1
ctr-import -q --format tsv --header --time click_time logs/clicks.tsv | ctr-select --columns impression_id,click_time -o clicks.arrows
ctr-import -q --format tsv --header logs/users.tsv -o users.arrows
ctr-import -q --format jsonl --columns ad_id:int64,category:utf8 logs/ads.jsonl -o ads.arrows
ctr-import -q --format tsv --header --time time logs/impressions.tsv |
    ctr-join -q -k impression_id clicks.arrows | ctr-join -q -k user_id users.arrows | ctr-join -q -k ad_id ads.arrows |
    ctr-extract live.plan -o days.arrows
for day in 05 06 07; do
    ctr-select --where \"time >= ts\\\"2026-01-\${day}T00:00Z\\\" and time < ts\\\"2026-01-\${day}T00:00Z\\\" + 1d\" days.arrows -o day\$day.arrows
done"

say "2. The log grows: a day comes, then nothing for a while, then the next"
grow() {
    cat day05.arrows
    sleep "$PAUSE"
    cat day06.arrows
    sleep "$PAUSE"
    cat day07.arrows
}

say "3. Two models learn from it; a window of each is compared as soon as it is over, and a map is fitted every 12 hours"
run 'mkfifo copy other scored
ctr-train lr -q --follow --alpha 0.5 -o other.arrows --progressive other <copy &
ctr-calibrate --fit isotonic --rolling 1d --every 12h -o map.arrows scored &
grow | tee copy |
    ctr-train lr -q --follow --save-every 1s --alpha 0.05 -o model.arrows --progressive - |
    tee scored |
    ctr-eval --window 12h --lateness 10m --by os --slices 2 --metrics log_loss,calibration --control other | tee windows.txt
wait'

say "4. Serving beside it: each batch by the newest model and the newest map"
run "ctr-predict --reload model.arrows day07.arrows | ctr-calibrate --reload map.arrows | ctr-eval --metrics log_loss,calibration"
