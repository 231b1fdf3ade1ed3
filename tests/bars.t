#!/bin/sh
# The recipes of the BARS benchmark (examples/bars.mk) run on made-up files of its formats: every recipe gives a row of figures, and
# the vocabularies have as many entries as the benchmark's way of counting gives.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
case $CTR_BUILD in *-san*) skip_all "the recipes run bin/, which the plain build has tried" ;; esac
export PATH
cd "$W" || exit 1
"$CTR_TOP/examples/bars-synth.sh" data 300
cat >count.py <<'END'
# What the benchmark counts: the values of each field that come often enough, and one entry a field for all others; null is no value.
import csv, math, sys
from collections import Counter
name, path = sys.argv[1:]
least = {"criteo_x4": 10, "avazu_x4": 2}.get(name, 1)
rows = list(csv.DictReader(open(path)))
fields = [f for f in rows[0] if f not in ("Label", "label", "click", "id", "hour")]
values = {f: [r[f] for r in rows] for f in fields}
if name == "criteo_x4":
    for f in fields:
        if f[0] == "I":
            numbers = [float(v or 0) for v in values[f]]
            values[f] = [str(math.floor(math.log(v) ** 2) if v > 2 else int(v)) for v in numbers]
if name == "avazu_x4":
    import datetime
    times = [datetime.datetime.strptime(r["hour"], "%y%m%d%H") for r in rows]
    values.update(hour=[t.hour for t in times], weekday=[t.weekday() for t in times], weekend=[t.weekday() >= 5 for t in times])
print(sum(sum(n >= least for v, n in Counter(c).items() if v != "") + 1 for c in values.values()))
END
for name in criteo_x4:Criteo_x4:5 avazu_x4:Avazu_x4:5 taobaoad_x1:TaobaoAd_x1:1 amazonelectronics_x1:AmazonElectronics_x1:1 \
    movielenslatest_x1:MovielensLatest_x1:2 kuaivideo_x1:KuaiVideo_x1:1 frappe_x1:Frappe_x1:3; do
    set=${name%%:*} folder=${name#*:}
    ok "$set runs" sh -c "make -s -C '$CTR_TOP/examples' BARS='$W/data' OUT='$W/out' SMALL=1 PASSES=1 bars-$set >$set.txt 2>$set.err || { tail -n 5 $set.err; exit 1; }"
    is "$set: a row a recipe, with its figures" "$(awk -F '|' 'NR > 3 { for (i = 2; i <= 8; i++) if ($i ~ /^ 0\.[0-9]+ $/) n[NR]++; rows++ } END { bad = 0; for (i = 4; i <= NR; i++) bad += !n[i]; print rows, bad + 0 }' $set.txt)" "${folder#*:} 0"
done
for set in criteo_x4:Criteo_x4 avazu_x4:Avazu_x4 frappe_x1:Frappe_x1; do
    is "${set%:*}: entries of the vocabularies" "$(sed -n 's/^vocabulary: \([0-9]*\) entries.*/\1/p' "${set%:*}.txt")" "$("$PY" count.py "${set%:*}" "data/${set#*:}/train.csv")"
done
units() { ctr-info "out/bars/$1/din.arrows" | sed -n 's/^section: din\.\(attention[0-9]*\)\.0\.weight$/\1/p' | grep -c .; }
for set in amazonelectronics_x1:1 taobaoad_x1:3 kuaivideo_x1:2; do
    is "${set%:*}: attention units, one a history" "$(units "${set%:*}")" "${set#*:}"
done
is 'amazonelectronics_x1: the unit compares item and category' "$(ctr-info out/bars/amazonelectronics_x1/din.arrows | sed -n '/^section: din.attention1.0.weight$/,/^$/s/^value *fixed_size_list<float32>\(.*\]\).*/\1/p')" '[512]'
ok 'nothing is made again' sh -c "test -z \"\$(make -n -C '$CTR_TOP/examples' BARS='$W/data' OUT='$W/out' bars-frappe_x1 | grep -c ctr-import | grep -v '^0')\""
done_testing
