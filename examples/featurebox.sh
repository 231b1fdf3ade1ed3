#!/bin/sh
# From raw views to a model in one command ("FeatureBox", Zhao et al., 2022), and the same by the filters of its statements: in
# pipes, and staged through files as jobs of a cluster do it. OUT= chooses the folder, ROWS= the number of impressions; ONLY=views makes nothing but them.
set -eu
PLAN=$(cd "$(dirname "$0")" && pwd)/featurebox.plan
OUT=${OUT:-out/featurebox}
ROWS=${ROWS:-200000}
mkdir -p "$OUT"
cd "$OUT"
cp "$PLAN" featurebox.plan
views='impressions=logs/impressions.tsv clicks=logs/clicks.tsv users=logs/users.tsv ads=logs/ads.jsonl basic=logs/basic.tsv'
ads_columns='ad_id:int64,campaign_id:int64,title:utf8,category:utf8,creative.format:utf8,price:float64'
where='position >= 0 and not is_null(user_id)'

say() { printf '\n%s\n' "$1"; }
# timed NAME 'PIPELINE': print it, run it, keep its seconds, those of the processors, and the bytes that it read and wrote, through
# pipes too.
timed() {
    printf '%s\n' "$2" | sed 's/^/  $ /'
    _start=$(date +%s.%N)
    (
        eval "$2"
        times >times.txt
        while read -r _what _bytes; do echo "$_what $_bytes"; done </proc/self/io >io.txt
    )
    _end=$(date +%s.%N)
    awk -v n="$1" -v a="$_start" -v b="$_end" 'function s(t) { split(t, p, "m"); return 60 * p[1] + p[2] }
        FILENAME == "times.txt" { if (FNR == 2) cpu = s($1) + s($2); next } /^[rw]char/ { io[$1] = $2 }
        END { printf "%s\t%.2f\t%.2f\t%d\t%d\n", n, b - a, cpu, io["rchar:"], io["wchar:"] }' times.txt io.txt >>seconds.tsv
}
import() { ctr-import -q --format tsv --header "$@"; }

say "1. The views: $ROWS impressions of a planted world, and basic features of another job, by the id of the impression"
[ -s logs/basic.tsv ] || ctr-synth -q -o logs --rows "$ROWS" --seed 1
[ "${ONLY-}" != views ] || exit 0
rm -f seconds.tsv

say '2. One command, from raw text to a model'
timed fused "ctr-train lr -q -j 2 featurebox.plan $views -o fused.model"

say '3. The filters of its statements, in pipes'
timed pipe "import --time click_time logs/clicks.tsv -o clicks.arrows
import logs/users.tsv -o users.arrows
ctr-import -q --format jsonl --columns '$ads_columns' logs/ads.jsonl -o ads.arrows
import logs/basic.tsv -o basic.arrows
import --time time logs/impressions.tsv | ctr-select -q --where '$where' |
    ctr-join -q -k impression_id --prefix=click. clicks.arrows | ctr-join -q -k user_id users.arrows | ctr-join -q -k ad_id ads.arrows |
    ctr-join -q -k impression_id --merge basic.arrows | ctr-extract -q --table featurebox.plan | ctr-train lr -q -o pipe.model"

say '4. Staged: each stage writes a file, of streams'
timed staged "import --time click_time logs/clicks.tsv -o clicks.arrows
import logs/users.tsv -o users.arrows
ctr-import -q --format jsonl --columns '$ads_columns' logs/ads.jsonl -o ads.arrows
import logs/basic.tsv -o basic.arrows
import --time time logs/impressions.tsv -o 1.arrows
ctr-select -q --where '$where' 1.arrows -o 2.arrows
ctr-join -q -k impression_id --prefix=click. clicks.arrows 2.arrows -o 3.arrows
ctr-join -q -k user_id users.arrows 3.arrows -o 4.arrows
ctr-join -q -k ad_id ads.arrows 4.arrows -o 5.arrows
ctr-join -q -k impression_id --merge basic.arrows 5.arrows -o 6.arrows
ctr-extract -q --table featurebox.plan 6.arrows -o 7.arrows
ctr-train lr -q 7.arrows -o staged.model"
ls -l [1-7].arrows | awk '{ n += $5 } END { printf "intermediate\t%d\n", n }' >bytes.tsv

say '5. Staged by gzip-compressed text, as between the jobs of a cluster'
gz() { ctr-export -q --format csv | gzip -1 >"$1.csv.gz"; }
table() { ctr-import -q --format csv --header --like "$1.arrows" "$1.csv.gz"; }
timed text "import --time time logs/impressions.tsv | gz 1
table 1 | ctr-select -q --where '$where' | gz 2
table 2 | ctr-join -q -k impression_id --prefix=click. clicks.arrows | gz 3
table 3 | ctr-join -q -k user_id users.arrows | gz 4
table 4 | ctr-join -q -k ad_id ads.arrows | gz 5
table 5 | ctr-join -q -k impression_id --merge basic.arrows | gz 6
table 6 | ctr-extract -q --table featurebox.plan | gz 7
table 7 | ctr-train lr -q -o text.model"
ls -l [1-7].csv.gz | awk '{ n += $5 } END { printf "intermediate, gzip\t%d\n", n }' >>bytes.tsv

say 'What it took: seconds; the ratio to one command; seconds of processors; MB read and written, pipes too. And the bytes of files
between the stages'
awk -F'\t' '{ s[$1] = $2; n[NR] = $1; rest[$1] = sprintf("%.2f\t%.0f\t%.0f", $3, $4 / 1e6, $5 / 1e6) } END {
    for (i = 1; i <= NR; i++) printf "%s\t%s\t%.1f\t%s\n", n[i], s[n[i]], s[n[i]] / s["fused"], rest[n[i]] }' seconds.tsv
cat bytes.tsv
cmp fused.model pipe.model
tables() { for s in fused staged text; do ctr-info --digest "$s.model"; done | uniq | wc -l; }
printf 'models that differ: %d\n' "$(($(tables) - 1))"
