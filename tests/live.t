#!/bin/sh
# examples/live.sh runs: what it shows of a log that grows, window by window, is what a plain run over the whole log gives.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half runs it, and the tests of the tools run their code here'
cd "$W" || exit 1
live() { OUT="$W/out" ROWS=12000 PAUSE=.3 timeout 120 "$CTR_TOP/examples/live.sh" >live.txt 2>live.err || { tail live.err; return 1; }; }
ok 'the example runs' live
for model in 'new .05' 'old .5'; do
    ctr-train lr -q --alpha "${model#* }" -o m.arrows --progressive "${model% *}.arrows" out/days.arrows
done
totals() { grep '^total .*log_loss' | awk '{ print $2, $4, $5, $6 }'; }
ctr-eval --window 12h -m log_loss --control old.arrows new.arrows | totals | grep -v '^all' >want
is 'windows, each against the other model' "$(totals <out/windows.txt)" "$(cat want)"
is 'six of half a day' "$(wc -l <want)" 6
is 'with three slices each' "$(grep -c '^os=' out/windows.txt)" 36
ctr-select --where 'time >= ts"2026-01-07T00:00Z"' new.arrows >tail.arrows
ctr-calibrate -q --fit isotonic -o map.arrows tail.arrows
is 'the map at the end is that of the last day' "$(ctr-info --digest out/map.arrows | cut -d' ' -f1)" "$(ctr-info --digest map.arrows | cut -d' ' -f1)"
is 'a map every 12 hours' "$(grep -c 'a map of .* rows before' live.err)" 6
ok 'and both are served' grep -q '^total ' live.txt
done_testing
