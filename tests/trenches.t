#!/bin/sh
# Each experiment of examples/trenches.mk runs, in small and on the generated log alone, and prints its table; examples/trenches.md tells of
# each of them.
. "${0%/*}/lib.sh"
[ -x "$CTR_BUILD/bench/bench-log" ] && [ -x "$CTR_TOP/bin/ctr-train" ] || skip_all "no bench-log or bin/: make check builds them"
case $CTR_BUILD in *-san*) skip_all "the examples run bin/, which the plain build has tried" ;; esac
small="DATA=$W/none OUT=$W/out BENCH_LOG=$CTR_BUILD/bench/bench-log ROWS=16000 VARIANT_ROWS=2000 FIG2_ROWS=3000 FIG3_ROWS=8000 FIG3_MODELS=2"
export RATES=".1 .2"

# trenches TARGET: its table in $W/TARGET
trenches() {
    # shellcheck disable=SC2086
    make -s -C "$CTR_TOP/examples" $small "trenches-$1" >"$W/$1" 2>"$W/$1.err" || { tail -n 20 "$W/$1.err"; return 1; }
    if grep -w -i 'nan\|-nan\|inf' "$W/$1"; then return 1; fi
    grep -q "^    \$ make -C examples trenches-$1\>\|\`make -C examples trenches-$1\`" "$CTR_TOP/examples/trenches.md" || { echo "trenches.md does not tell of it"; return 1; }
}
# words FILE N: the N-th word of every line, in one line
words() { awk -v n="$2" '{ printf "%s%s", (NR > 1 ? " " : ""), $n }' "$1"; }

names=$(sed -n 's/^trenches += //p' "$CTR_TOP/examples/trenches.mk")
for e in $names; do
    ok "trenches-$e" trenches "$e"
done
is 'all of them' "$(echo "$names" | wc -l)" 12
is 'data: the log' "$(words "$W/data" 1)" 'log log'
is 'nohelp: against none' "$(words "$W/nohelp" 2)" 'keys - --hash-bits=18 --hash-bits=20 --hash-bits=22 --hash-bits=24 --dropout=.1 --dropout=.2 --dropout=.5 --normalize=l1 --normalize=l2 --normalize=max'
is 'max of one-hot rows divides by 1' "$(awk '$2 == "--normalize=max" { print $5 }' "$W/nohelp")" '+0.00%'
is 'table1: optimizers' "$(words "$W/table1" 2)" 'optimizer ftrl rda fobos ogd-count'
is 'rates' "$(words "$W/rates" 2)" 'keys per-coordinate counts global'
is 'table2: rules' "$(words "$W/table2" 2)" 'keys all bloom=1 bloom=2 poisson=0.3 poisson=0.1 poisson=0.03'
is 'table2: refusing saves memory' "$(awk '$2 == "poisson=0.03" { print ($5 + 0 > 30 ? "yes" : $0) }' "$W/table2")" yes
is 'precision' "$(words "$W/precision" 2)" 'keys f64 f32 q2.13'
is 'precision: fewer bits, less memory' "$(awk '$2 == "f64" { all = $4 } $2 == "q2.13" { print ($4 < all ? "yes" : $0) }' "$W/precision")" yes
is 'variants: exactly, with one value' "$(sed -n 's/.* \([0-9]*\) variants.*/\1/p' "$W/variants" | tr '\n' ' ')" '100 100 100 60 40 '
ok 'variants: nearly the same order' awk '/^all/ { exit !($NF > .9) }' "$W/variants"
is 'calibration: maps' "$(words "$W/calibration" 2)" 'map none power platt isotonic'
ok 'calibration: isotonic is nearer at the low end than nothing is' awk '$2 == "none" { none = $5 - 1 } $2 == "isotonic" { x = $5 - 1 }
    END { exit !(x * x < none * none) }' "$W/calibration"
is 'bagging' "$(words "$W/bagging" 1)" log
is 'sample: shares' "$(words "$W/sample" 1)" 'share 1 .5 .2 .1 .05 .02 .1,unweighted'
is 'sample: fewer rows, the same calibration but without weights' "$(awk 'NR == 2 { all = $2; c = $7 }
    NR > 2 { print ($2 < all), ($7 > 2 * c) }' "$W/sample" | sort | uniq -c | awk '{ printf "%s ", $0 }' | tr -s ' ')" ' 5 1 0 1 1 1 '
is 'fig3: three settings' "$(sed -n 's/^\([a-z]*\): .*/\1/p' "$W/fig3" | tr '\n' ' ')" 'weak strong narrow '
is 'fig3: twenty classes twice' "$(grep -cE '^([0-9]+\.[0-9]{4} *){4}$' "$W/fig3")" 120
is 'fig3: quartiles of two panels' "$(grep -c '<polyline' "$W/out/trenches/16000/fig3/narrow.svg")" 6
done_testing
