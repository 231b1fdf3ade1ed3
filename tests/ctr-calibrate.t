#!/bin/sh
# ctr-calibrate: maps by hand, every message, monotone whatever the data; against scikit-learn and plain Newton steps.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

import() { ctr-import --format csv --header --label click --score score "$@"; }
cat >small.csv <<'END'
click,score,site
0,0.1,a
1,0.2,a
0,0.3,a
0,0.3,b
1,0.5,b
0,0.6,b
1,0.8,a
END
import small.csv >small.arrows

# ---- isotonic, by hand: .1 -> 0; {.2, .3, .3} pool to 1/3; {.5, .6} to 1/2; .8 -> 1
ctr-calibrate --fit isotonic --min-clicks 0 -o map small.arrows 2>said
is "an isotonic map is a readable stream" "$(ctr-export --format csv map)" "\
by,slice,kind,name,score,value
,,isotonic-linear,knot,0.1,0
,,isotonic-linear,knot,0.2,0.3333333333333333
,,isotonic-linear,knot,0.3,0.3333333333333333
,,isotonic-linear,knot,0.5,0.5
,,isotonic-linear,knot,0.6,0.5
,,isotonic-linear,knot,0.8,1"
is "bias before and after" "$(cat said)" "\
ctr-calibrate: mean score over mean label, on the rows of the fit:
ctr-calibrate:          scores               mean_score  click_rate    before     after
ctr-calibrate: low      0.100000 - 0.300000    0.225000    0.250000    0.9000    1.0000
ctr-calibrate: middle   0.500000 - 0.600000    0.550000    0.500000    1.1000    1.0000
ctr-calibrate: high     0.800000 - 0.800000    0.800000    1.000000    0.8000    1.0000
ctr-calibrate: 4 pools of scores
ctr-calibrate: the map gives 0 and 1, which costs without end where it is wrong (--min-clicks 1 or more)"
cat >new.csv <<'END'
id,score,user
1,0,x
2,0.15,y
3,0.25,x
4,0.4,y
5,0.7,x
6,0.9,y
END
ctr-import --format csv --header --score score --id id --user user new.csv >new.arrows
is "applied: linear between knots, clamped outside" "$(ctr-calibrate map new.arrows | ctr-export --format csv)" "\
id,score,user,score_raw
1,0,x,0
2,0.16666666666666663,y,0.15
3,0.3333333333333333,x,0.25
4,0.4166666666666667,y,0.4
5,0.7499999999999999,x,0.7
6,1,y,0.9"
ctr-calibrate map new.arrows >cal.arrows
is "the roles are right" "$(ctr-info cal.arrows | awk '/^(id|score|user|score_raw) / { print $1, $3 }')" "\
id id
score score
user user
score_raw -"
ctr-calibrate --fit isotonic --min-clicks 0 --pieces constant -q -o steps small.arrows
is "constant pieces" "$(ctr-calibrate steps new.arrows | ctr-export --format csv | cut -d, -f2)" "\
score
0
0
0.3333333333333333
0.3333333333333333
0.5
1"
ctr-cat --batch 2 small.arrows | ctr-calibrate --fit isotonic --min-clicks 0 -q -j 4 | ctr-info --digest >d2
ctr-info --digest map >d1
is "the same map for any batch and number of threads" "$(cut -d' ' -f1 d2)" "$(cut -d' ' -f1 d1)"

# The textbook: equal scores are one pool; while a pool's mean is not above that of the one before, both are one. Prints the first and the last
# score of each pool with its mean.
pools() { # CSV of click,score
    tail -n +2 "$1" | sort -t, -k2,2g | awk -F, '
        function join() { while (k > 1 && c[k] * n[k - 1] <= c[k - 1] * n[k]) { c[k - 1] += c[k]; n[k - 1] += n[k]; high[k - 1] = high[k]; k-- } }
        $2 != last || !k { join(); k++; c[k] = n[k] = 0; low[k] = high[k] = last = $2 }
        { c[k] += $1; n[k]++ }
        END { join(); for (i = 1; i <= k; i++) { printf "%.12g %.12g\n", low[i], c[i] / n[i]; if (high[i] != low[i]) printf "%.12g %.12g\n", high[i], c[i] / n[i] } }'
}

# ---- counts and sums of weights: whole numbers give the blocks that weights of 2 give, with ties and without
for levels in 3 40 1000 100000; do
    awk -v OFS=, -v n="$levels" 'BEGIN { s = 5; print "click,score,narrow,w"; for (i = 0; i < 3000; i++) { s = (s * 16807) % 2147483647; p = int(s / 2147483647 * n) / n
        s = (s * 16807) % 2147483647; print (s / 2147483647 < p * p), p, p, 2 } }' >ties.csv
    import --columns click:int8,score:float64,narrow:float32,w:int8 ties.csv >ties.arrows
    ctr-calibrate --fit isotonic -q --min-clicks 0 -o plain.map --score score ties.arrows
    is "$levels levels: the pools of the textbook" "$(ctr-export -c score,value --no-header plain.map | awk -F, '{ printf "%.12g %.12g\n", $1, $2 }' | md5sum)" "$(pools ties.csv | md5sum)"
    for score in "score --min-clicks 0" "narrow --min-clicks 0" score "narrow --min-clicks 40"; do
        ctr-calibrate --fit isotonic -q -o whole.map --score $score ties.arrows
        ctr-calibrate --fit isotonic -q -o twos.map --score $score --weight w ties.arrows
        is "$levels levels, $score: the same map" "$(ctr-info --digest whole.map | cut -d' ' -f1)" "$(ctr-info --digest twos.map | cut -d' ' -f1)"
    done
done

# ---- 300,000 rows, whose pools are found in bins of scores, unless the report (without -q) needs them sorted: smooth scores, of float32, in a narrow
# range with some far away, of 50 levels, and wrong ones
awk -v OFS=, 'BEGIN { s = 7; print "click,smooth,close,levels,wrong,narrow"; for (i = 0; i < 300000; i++) { s = (s * 16807) % 2147483647; p = s / 2147483647
    s = (s * 16807) % 2147483647; printf "%d,%.17g,%.17g,%.17g,%.17g,%.6g\n", s / 2147483647 < p * p * .7, p, i % 1000 ? .5 + p * 1e-9 : p * 1e-200, int(p * 50) / 50, 1 - p, p } }' >binned.csv
ctr-import --header --label click --columns click:int8,smooth:float64,close:float64,levels:float64,wrong:float64,narrow:float32 binned.csv -o binned.arrows 2>/dev/null
kinds="smooth close levels wrong" column=1
for score in $kinds; do
    column=$((column + 1))
    [ -n "$SAN" ] && [ $score != close ] && continue
    cut -d, -f1,$column binned.csv >one.csv
    ctr-calibrate --fit isotonic -q --min-clicks 0 -o binned.map --score $score binned.arrows
    is "bins, $score: the pools of the textbook" "$(ctr-export -c score,value --no-header binned.map | awk -F, '{ printf "%.12g %.12g\n", $1, $2 }' | md5sum)" "$(pools one.csv | md5sum)"
done
for score in $kinds narrow; do
    for o in "" "--min-clicks 0" "--min-clicks 2000" "-j 3"; do
        ctr-calibrate --fit isotonic -q $o -o binned.map --score $score binned.arrows
        ctr-calibrate --fit isotonic $o -o sorted.map --score $score binned.arrows 2>said
        is "bins, $score $o: the map of sorted rows" "$(ctr-info --digest binned.map | cut -d' ' -f1)" "$(ctr-info --digest sorted.map | cut -d' ' -f1)"
    done
done

# Where most rows are in bins that hold an end of a pool, all are sorted in place: a copy of them took 8 MB more.
ctr-cat -q binned.arrows binned.arrows binned.arrows >thrice.arrows 2>/dev/null
[ -n "$SAN" ] || ok "bins, levels: no copy of most rows" below 23500 ctr-calibrate --fit isotonic -q -j 1 --min-clicks 0 -o binned.map --score levels thrice.arrows

# ---- pools of few clicks: by hand, .1 -> 0; {.2, .3} -> 1/3 (a tie of two at .3); {.5, .6} -> 1/2; .8 -> 1
map_of() { import - | ctr-calibrate --fit isotonic "$@" 2>said | ctr-export --no-header -f csv | awk -F, '{ printf("%s%s:%.4f", (NR > 1 ? " " : ""), $5, $6) }'; }
is "a click and a non-click each" "$(map_of --min-clicks 1 <small.csv)" "0.1:0.2500 0.3:0.2500 0.5:0.6667 0.8:0.6667"
ok "what is left is said" grep -q '2 pools of scores, 4 before those with fewer than 1 clicks or non-clicks were merged' said
ok "and no more" test "$(grep -c 'the map gives' said)" = 0
# Pools that lose the ranking: a platt map stands in for them, and says so, -q or not. Where nothing was merged, or the scores rank nothing, pools stay.
is "3 clicks make no pool of 10 each: a platt map" "$(map_of -q <small.csv | sed 's/:.*//') $(cat said)" " ctr-calibrate: the map is platt of 3 clicks and \
4 non-clicks, as 1 isotonic pool of at least 10 of each keeps 0% of the ranking (--min-clicks)"
awk -v OFS=, 'BEGIN { s = 7; print "click,score,site"; for (i = 0; i < 4000; i++) { s = (s * 16807) % 2147483647; p = (s / 2147483647) ^ 8
    s = (s * 16807) % 2147483647; print (s / 2147483647 < p * .06), p, i % 2 } }' >few.csv
import few.csv >few.arrows
ctr-calibrate --fit isotonic -o few.map few.arrows 2>said
auc() { ctr-eval -m auc "$@" | awk 'END { print $NF }'; }
is "a few dozen clicks in two pools, which lose most of the ranking: all of it stays" "$(ctr-calibrate few.map few.arrows | auc) $(grep -c 'the map is platt of .* isotonic pools' said)" \
    "$(auc few.arrows) 1"
is "the map says so itself" "$(ctr-info few.map | grep -c 'calibration.*platt of')" 1
ctr-calibrate -q --fit isotonic --min-clicks 0 -o few.map few.arrows 2>said
is "pools that were not merged stay" "$(ctr-export -c kind --no-header few.map | sort -u) $(cat said)" 'isotonic-linear '
ctr-select --add 'other = 1 - score' few.arrows | ctr-calibrate -q --fit isotonic --score other -o few.map 2>said
is "scores that rank nothing stay one pool" "$(ctr-export -c kind --no-header few.map | sort -u) $(cat said)" 'isotonic-linear '
ctr-calibrate -q --fit isotonic --by site --slice-clicks 5 -o few.map few.arrows 2>said
is "slices likewise" "$(ctr-export -c slice,kind --no-header -f csv few.map | sort -u | tr '\n' ' ') $(grep -c '2 values of site are platt' said)" ',platt 0,platt 1,platt  1'
is "rows count, not weights" "$(sed 's/$/,0.125/; 1s/0.125/w/' small.csv | map_of --weight w --min-clicks 1)" "0.1:0.2500 0.3:0.2500 0.5:0.6667 0.8:0.6667"
is "rows that weigh nothing do not" "$(awk -v OFS=, 'NR == 1 { print $0, "w"; next } { print $0, 1 } END { print "1,0.1,a,0" }' small.csv |
    map_of --weight w --min-clicks 1)" "0.1:0.2500 0.3:0.2500 0.5:0.6667 0.8:0.6667"
is "a fractional label is one of each" "$(printf 'click,score\n0.5,0.1\n0.75,0.4\n' | map_of --min-clicks 1)" "0.1:0.5000 0.4:0.7500"
# The share of clicks of these weights rounds to 1; a power map goes above it, and a platt map rounds to both.
extreme() { ctr-calibrate -q --fit "$@" -o edge.map edge.arrows && ctr-calibrate edge.map edge.arrows | ctr-export --no-header -f csv -c score |
    awk '$1 == 0 || $1 == 1 { bad++ } END { print NR, bad + 0 }'; }
awk -v OFS=, 'BEGIN { print "click,score,w"; for (i = 0; i < 40; i++) print (i % 20 > 0), i < 20 ? .999 : 1, i % 20 ? 1e17 : 1
    for (i = 0; i < 40; i++) print (i % 20 == 0), i < 20 ? 0 : 1e-300, i % 20 ? 1 : 1e-20 }' >edge.csv
for type in float64 float32; do
    ctr-import --format csv --header --label click --score score --weight w --columns click:int8,score:$type,w:float64 edge.csv >edge.arrows
    for kind in "isotonic --min-clicks 1" isotonic power platt; do
        is "no 0 and no 1: $kind, $type" "$(extreme $kind)" "80 0"
    done
done

# ---- slices
{ echo click,score,site; awk -v OFS=, 'BEGIN { for (i = 0; i < 60; i++) { p = (i % 10 + .5) / 10
    print (i * 7 % 10 < i % 10), p, "a"; print (i * 7 % 10 < i % 10 / 2), p, "b"; if (i < 4) print i % 2, p, "thin"
    if (i < 20) print 0, p, "none" } }'; } >sites.csv
import sites.csv >sites.arrows
ctr-calibrate --fit isotonic --by site --slice-clicks 5 -o by.map sites.arrows 2>said
is "slices with maps of their own" "$(ctr-export --format csv by.map | awk -F, 'NR > 1 { print $1, $2 }' | uniq)" " 
site a
site b"
sed 's/,a$/,bb/' sites.csv >long.csv
import long.csv >long.arrows
is "in the order of their names" "$(ctr-calibrate -q --fit isotonic --by site --slice-clicks 5 long.arrows | ctr-export --format csv |
    awk -F, 'NR > 1 { print $2 }' | uniq | tr '\n' ' ')" " b bb "
ok "says how many are thin" grep -q '2 of 4 values of site have maps of their own' said
printf 'score,site\n0.85,a\n0.85,b\n0.85,thin\n0.85,unseen\n0.85,\n' >one.csv
ctr-import --format csv --header --score score one.csv >one.arrows
ctr-calibrate --fit isotonic -q -o all.map sites.arrows
ctr-calibrate by.map one.arrows | ctr-export --format csv | cut -d, -f1 | tr '\n' ' ' >got
g=$(ctr-calibrate all.map one.arrows | ctr-export --format csv | awk -F, 'NR == 2 { print $1 }')
set -- $(cat got)
is "thin, unseen and null slices use the global map" "$4 $5 $6" "$g $g $g"
ok "others their own" test "$2" != "$3" -a "$2" != "$g" -a "$3" != "$g"

# ---- what is not good
printf 'click,score\n' >none.csv
ctr-import --format csv --header --columns click:int8,score:float64 --label click --score score none.csv >none.arrows
exits "nothing to fit to" 1 ctr-calibrate --fit isotonic -o no.map none.arrows
err_like "says so" 'the input has no rows: there is nothing to fit a map to'
ok "and leaves no map" test ! -e no.map
sed '1!s/^1/0/' small.csv >zero.csv
import zero.csv >zero.arrows
exits "one class" 1 ctr-calibrate --fit power -o no.map zero.arrows
err_like "says so" 'all 7 rows have the label 0 .*: a map needs both classes'
exits "a bad score" 1 sh -c "sed '3s/0.2/1.2/' small.csv >bad.csv; ctr-import --format csv --header --label click --score score bad.csv | ctr-calibrate --fit platt -o no.map"
err_like "names the row" 'row 2: the score \(column score\) is 1.2, but must be in \[0, 1\]'
printf 'y,p,w\n1,0.5,1e308\n0,0.2,1e308\n1,0.7,1\n0,0.6,1\n' | ctr-import --format csv --header --label y --score p --weight w >huge.arrows
exits "weights whose sums overflow" 1 ctr-calibrate --fit power -o huge.map huge.arrows
err_like "says what to do" 'the weights add up to inf: divide them by a constant'
exits "a bad score to be calibrated" 1 sh -c "ctr-import --format csv --header --label click --score score bad.csv | ctr-calibrate map"
err_like "names the row" 'row 2: the score'
exits "no map" 2 ctr-calibrate
exits "a stream that is no map" 1 ctr-calibrate small.arrows new.arrows
err_like "says so" 'small.arrows: not a calibration map: it has no column by'
head -c 700 map >cut.map
exits "a truncated map" 1 ctr-calibrate cut.map new.arrows
exits "calibrated twice" 2 ctr-calibrate map cal.arrows
err_like "says what to do" 'column score_raw is there already'
exits "without the column of the map" 2 ctr-calibrate by.map new.arrows
err_like "names it" 'fitted by column site, which the stream does not have'
exits "a label with a map" 2 ctr-calibrate --label click map small.arrows
err_like "says why" '--label does nothing without --fit'
exits "a user" 2 ctr-calibrate --fit power --user site small.arrows
err_like "says so" no option '--user'
exits "pieces with a map" 2 ctr-calibrate --pieces constant map small.arrows
exits "--by with a map" 2 ctr-calibrate --by site by.map one.arrows
exits "an unknown column" 2 ctr-calibrate --fit power --by sit small.arrows
err_like "the nearest" 'site'
exits "too little memory" 1 ctr-calibrate --memory 10 --fit isotonic -o no.map sites.arrows
err_like "says what is needed" '--memory does not hold'
edit() { # NAME AWK REGEX: an edited map is refused
    ctr-export --format csv map | awk -F, -v OFS=, "$2" >edit.csv
    ctr-import --format csv --header --columns by:utf8,slice:utf8,kind:utf8,name:utf8,score:float64,value:float64 edit.csv >edit.map
    exits "$1" 1 ctr-calibrate edit.map new.arrows
    err_like "$1: said" "$3"
}
edit "a map that descends" 'NR == 4 { $6 = .2 } 1' 'not a calibration map: row 3: it is not monotone'
edit "a map of repeated scores" 'NR == 4 { $5 = .2 } 1' 'row 3: it is not monotone'
edit "a value above 1" 'NR == 7 { $6 = 2 } 1' 'row 6: .*must be in \[0, 1\]'
edit "an unknown kind" 'NR == 2 { $3 = "linear" } 1' 'row 1: an unknown kind'
edit "a map without rows" 'NR == 1' 'it is empty'
edit "a map without the global one" 'NR > 1 { $1 = "site"; $2 = "a" } 1' 'the global map must come first'
edit "half a power map" 'NR == 1; NR == 2 { print ",,power,gamma,,1" }' 'a slice lacks a parameter'
edit "a negative kappa" 'NR == 1; NR == 2 { print ",,power,gamma,,1"; print ",,power,kappa,,-1" }' 'kappa and slope must be positive'

# ---- monotone, within [0, 1], whatever the data
awk 'BEGIN { print "score"; for (i = 0; i <= 2000; i++) printf "%.9g\n", (i / 2000) ^ 3 }' >grid.csv
ctr-import --format csv --header --score score grid.csv >grid.arrows
monotone() {
    ctr-calibrate "$1" grid.arrows | ctr-export --format csv |
        awk -F, 'NR > 1 { n++; if ($1 < last || $1 > 1) bad = 1; last = $1 + 0 } END { exit bad || n != 2001 }'
}
for seed in 1 2 3 4; do
    awk -v OFS=, -v s="$seed" 'BEGIN { print "click,score"; for (i = 0; i < 400; i++) { s = (s * 16807) % 2147483647
        p = s / 2147483647; s = (s * 16807) % 2147483647; q = s / 2147483647; print (q < (NR % 2 ? p : 1 - p) * .7), p } }' >r.csv
    import r.csv >r.arrows
    for kind in isotonic "isotonic --min-clicks 0" "isotonic --min-clicks 1 --pieces constant" power platt; do
        ctr-calibrate --fit $kind -q -o r.map r.arrows
        ok "monotone: $kind, seed $seed" monotone r.map
    done
done
awk -v OFS=, 'BEGIN { print "click,score"; for (i = 1; i < 100; i++) print (i * 37 % 100 > i), i / 100 }' >down.csv
import down.csv >down.arrows
ctr-calibrate --fit power -o down.map down.arrows 2>said
ok "clicks that fall with the score: kappa stays positive" grep -q 'a slope was raised to 0.001' said
for i in 0 1 2 3 4 5 6 7 8 9; do echo "$((i < 2)),0.$((i + 1))5"; done | sed '1i click,score' |
    ctr-import -q -f csv --header --label click --score score -o reversed.arrows
for kind in platt power; do # the likelihood has no maximum at a negative slope
    ctr-calibrate -q --fit $kind -o reversed.map reversed.arrows 2>/dev/null
    is "$kind: the lowest scores have all clicks: the mean is their rate" "$(ctr-calibrate reversed.map reversed.arrows |
        ctr-eval -q --metrics mean_score --format stream | ctr-select --add 'm=round(mean_score, 6)' | ctr-export --no-header -c m)" 0.2
done
ok "and the map monotone" monotone down.map

# ---- held-out rows, and a feature that the model does not see: of the rows with a low score some click as often as not, of those with a
# high score some always do, so that the click rate is above the score at both ends and no power of the score
awk -v OFS=, 'function u() { s = (s * 16807) % 2147483647; return s / 2147483647 }
    BEGIN { s = 11; print "click,site,score"; for (i = 0; i < 60000; i++) { z = u() * 5 - 5; p = 1 / (1 + exp(-z))
        h = u(); q = h < .04 && z < -3 ? .5 : h > .7 && z > -1.5 ? 1 : p; print (u() < q), "s" int(u() * 3), p } }' >hidden.csv
import hidden.csv | ctr-select --head 50% --rest later.arrows >sooner.arrows
for kind in isotonic power platt; do
    ctr-calibrate --fit $kind --held-out later.arrows -o h.$kind.map sooner.arrows 2>held.$kind
done
is "held-out rows: says so" "$(sed -n 1p held.isotonic)" 'ctr-calibrate: mean score over mean label, on the rows held out in later.arrows:'
is "low, middle, high" "$(awk '{ print $2 }' held.power | paste -sd' ')" 'mean scores low middle high'
measured() { # LOW|HIGH FIELD KIND: off by this factor, as a distance
    awk -v w="$1" -v f="$2" '$2 == w { v = $(NF + f); print (v > 1 ? v - 1 : 1 / v - 1) }' "held.$3"
}
for end in low high; do
    ok "$end scores were off" awk -v b="$(measured $end -1 isotonic)" 'BEGIN { exit !(b > .1) }'
    ok "$end: isotonic leaves less bias than power" \
        awk -v i="$(measured $end 0 isotonic)" -v p="$(measured $end 0 power)" 'BEGIN { print i, p; exit !(i < .1 && i < p / 2) }'
done
third() { ctr-calibrate h.isotonic.map later.arrows | ctr-select --where 'score_raw <= 0.03' | ctr-eval -m calibration | awk 'END { print $NF }'; }
agrees() { awk -v a="$(third)" 'BEGIN { exit !(a > .9 && a < 1.1) }'; }
ok "ctr-eval sees the same" agrees
ctr-calibrate --fit isotonic --by site --held-out later.arrows -o hs.map sooner.arrows 2>held.by
ok "by slices" grep -q '3 of 3 values of site' held.by
ctr-calibrate -q --fit isotonic -o plain.map sooner.arrows
same_map() { test "$(ctr-info --digest plain.map | cut -d' ' -f1)" = "$(ctr-info --digest h.isotonic.map | cut -d' ' -f1)"; }
ok "the map is that without them" same_map
# A weight of 2 is the row twice.
awk -F, -v OFS=, 'NR == 1 { print $0, "w"; next } NR < 9000 { print $0, NR % 3 == 0 ? 2 : 1 }' hidden.csv >weighted.csv
awk -F, -v OFS=, 'NR < 9000 { print } NR > 1 && NR < 9000 && NR % 3 == 0 { print }' hidden.csv >twice.csv
import twice.csv >twice.arrows
ctr-import --format csv --header --label click --score score --weight w weighted.csv >weighted.arrows
for kind in "isotonic --min-clicks 0" power platt; do
    for s in weighted twice; do
        ctr-calibrate -q --fit $kind -o $s.map $s.arrows
        ctr-calibrate $s.map grid.arrows | ctr-export --format csv | cut -d, -f1 >$s.txt
    done
    ok "$kind: weights count" sh -c "paste weighted.txt twice.txt | awk 'NR > 1 { d = \$1 - \$2; if (d * d > 1e-18) bad = 1 } END { exit bad || NR < 2000 }'"
done
exits "--held-out without rows" 1 ctr-calibrate --fit isotonic --held-out none.arrows -o no.map sooner.arrows
ok "leaves no map" test ! -e no.map
printf 'click,site\n1,a\n' | ctr-import --format csv --header --label click -o unscored.arrows
exits "--held-out without scores" 2 ctr-calibrate --fit power --held-out unscored.arrows -o no.map sooner.arrows
ok "names its file" grep -q 'unscored.arrows: no column has the role score' "$W/err"
exits "a log without scores" 2 ctr-calibrate --fit power -o no.map unscored.arrows
ok "names its file, too" grep -q 'unscored.arrows: no column has the role score' "$W/err"
exits "ctr-eval of it" 2 ctr-eval unscored.arrows
ok "likewise" grep -q 'unscored.arrows: no column has the role score' "$W/err"
exits "--held-out with a map" 2 ctr-calibrate --held-out later.arrows map new.arrows

# ---- a map that is replaced while rows come
ctr-calibrate -q --fit power -o one.map sooner.arrows
ctr-calibrate -q --fit platt -o two.map sooner.arrows
ctr-select --head 200 --rest rest.arrows later.arrows >h1.arrows
ctr-select --head 200 --rest h3.arrows rest.arrows >h2.arrows
mkfifo fifo
cp one.map now.map
ctr-calibrate --reload -v --flush 20ms now.map <fifo >live.arrows 2>err &
pid=$!
exec 3>fifo
calibrated() { test "$(ctr-cat -q --lenient live.arrows | ctr-info | sed -n 's/^rows: //p')" = "$1"; }
cat h1.arrows >&3
ok 'rows come before the map is replaced' until_true calibrated 200
cp two.map new.map
mv new.map now.map
cat h2.arrows >&3
ok 'and after it' until_true calibrated 400
head -c 700 one.map >now.map # as it is while somebody copies over it
cat h1.arrows >&3
ok 'and while the file is no whole map' until_true calibrated 600
rm now.map
cat h2.arrows >&3
ok 'and while there is none' until_true calibrated 800
cp by.map new.map
ctr-select --columns click,score h1.arrows >bare.arrows
mv new.map now.map
cat h1.arrows >&3
ok 'and while it is one by slices' until_true calibrated 1000
cat h3.arrows >&3
exec 3>&-
wait $pid
is '--reload: status 0' $? 0
for part in 'one h1' 'two h2' 'two h1' 'two h2' 'by h1' 'by h3'; do ctr-calibrate "${part% *}.map" "${part#* }.arrows"; done >want.arrows
ok 'each batch has the map of its time' same_rows want.arrows live.arrows
is '-v tells from which row on, others are told of' "$(grep -c 'calibrated by another now.map' err) $(grep -c 'rows from 401 on are calibrated by the map before' err)" "2 1"
cp one.map now.map
ctr-calibrate --reload --flush 20ms now.map <fifo >live.arrows 2>err &
pid=$!
exec 3>fifo
cat bare.arrows >&3
ok 'rows come before a map by slices does' until_true calibrated 200
cp by.map new.map
mv new.map now.map
cat bare.arrows >&3
exec 3>&-
wait $pid
is 'a map by a column that the stream lacks is told of' "$(grep -c 'fitted by column site.*by the map before' err)" 1
exits '--reload of a pipe' 2 sh -c 'cat one.map | ctr-calibrate --reload - bare.arrows'
err_like 'cannot be' 'a pipe has none'
exits '--reload and --fit' 2 ctr-calibrate --reload --fit power -o no.map bare.arrows

# ---- a rolling fit: each map is that of the rows of the time before
awk -v OFS=, 'function u() { s = (s * 16807) % 2147483647; return s / 2147483647 }
    BEGIN { s = 3; print "click,score,site,time"; for (i = 0; i < 6000; i++) { p = u(); t = 7200 + i * 6 - int(u() * u() * 4000)
        printf("%d,%.4f,s%d,1970-01-01T%02d:%02d:%02dZ\n", u() < p * (i > 3000 ? .3 : .8), p, i % 3, t / 3600, t / 60 % 60, t % 60) } }' >roll.csv
ctr-import --format csv --header --label click --score score --time time roll.csv >roll.arrows
roll() { ctr-calibrate --fit isotonic --rolling 2h --every 1h -o roll.map "$@" 2>said; }
roll roll.arrows
ctr-select --where 'time >= ts"1970-01-01T10:00:00Z"' roll.arrows | ctr-calibrate -q --fit isotonic -o tail.map
same_map() { test "$(ctr-info --digest "$1" | cut -d' ' -f1)" = "$(ctr-info --digest "$2" | cut -d' ' -f1)"; }
ok "at the end, of the last two hours" same_map roll.map tail.map
is "each is told" "$(sed -n 's/.* rows before \(.*\):.*mean label was.*/\1/p' said | cut -c 12-13 | tr '\n' ' ')" "02 03 04 05 06 07 08 09 10 11 12 "
is "and on how many rows it stands" "$(sed -n 's/.*a map of \([0-9]*\) rows before 1970-01-01T12:.*/\1/p' said)" \
    "$(awk -F, 'substr($4, 12) >= "10:"' roll.csv | grep -vc click)"
ctr-cat --batch 7 roll.arrows | roll --by site --slice-clicks 20
cp roll.map sevens.map
mv said said.sevens
roll --by site --slice-clicks 20 roll.arrows
ok "by any batches" same_map roll.map sevens.map
ok "with the same words" cmp said said.sevens
# Rows up to a row of hour 6, and no more than the map before hour 6 has seen, wherever they stand.
awk -F, 'NR == 1 || !over; NR > 1 && substr($4, 12) >= "06:" { over = 1 }' roll.csv >six.csv
ctr-import --format csv --header --label click --score score --time time six.csv >six.arrows
mkfifo grows
ctr-cat --batch 50 roll.arrows >whole.arrows
ctr-calibrate --fit isotonic --rolling 2h --every 1h -o live.map grows 2>err &
pid=$!
exec 3>grows
head -c $(($(wc -c <whole.arrows) / 2)) whole.arrows >&3
ok "a map is there while the stream goes on" until_true grep -q 'before 1970-01-01T06:00' err
ok "and whole" ctr-calibrate live.map grid.arrows
tail -c +$(($(wc -c <whole.arrows) / 2 + 1)) whole.arrows >&3
exec 3>&-
wait $pid
ok "at the end it is the same" same_map live.map tail.map
ctr-select --where 'time < ts"1970-01-01T06:00:00Z" and time >= ts"1970-01-01T04:00:00Z"' six.arrows | ctr-calibrate -q --fit isotonic -o want.map
ctr-select --where 'time < ts"1970-01-01T06:00:00Z"' six.arrows | roll -
ok "the map before an hour is that of the two hours before" same_map roll.map want.map
{ cat roll.csv; echo '1,0.5,s1,1970-01-01T01:00:00Z'; } | ctr-import --format csv --header --label click --score score --time time | roll
ok "rows that are too old are counted" grep -q '1 rows were older than --rolling when they came' said
{ cat roll.csv; echo '1,0.5,s1,1970-03-01T01:00:00Z'; } | ctr-import --format csv --header --label click --score score --time time | roll
is "a status of 0" $? 0
ok "rows of one class are told of" grep -q 'no map of the rows before 1970-03-01T02.*both classes.*the one before stays' said
is "each map says its clicks and pools" "$(grep -c 'mean label was.*; isotonic-linear of [0-9]* clicks and [0-9]* non-clicks in [0-9]* pools' said)" 9
cp roll.map before.map
awk -v OFS=, 'BEGIN { for (i = 0; i < 300; i++) print (i == 250 || i == 290), i / 300, "s1,1970-03-01T01:00:00Z" }' >two.csv
cat roll.csv two.csv | ctr-import --format csv --header --label click --score score --time time | roll
ok "two clicks replace no map" same_map roll.map before.map
is "which is said" "$(grep -c 'no map of the rows before 1970-03-01T02.*: one class has 2 of the 300 rows, fewer than --min-clicks 10.*the one before stays' said)" 1
{ head -n 1 roll.csv; cat two.csv; } | ctr-import --format csv --header --label click --score score --time time >two.arrows
exits "nor one that was there at the start" 1 roll two.arrows
ok "it stays" same_map roll.map before.map
rm -f roll.map
roll two.arrows
is "where there is none they make one" "$? $(ctr-export -c kind --no-header roll.map | sort -u)" '0 platt'
rm -f roll.map
awk -F, 'NR == 1 || $1 == 0' roll.csv | ctr-import --format csv --header --label click --score score --time time >none.arrows
exits "where no rows gave a map" 1 ctr-calibrate --fit isotonic --rolling 2h --every 1h -o roll.map none.arrows
ok "there is none" test ! -e roll.map
exits "a map that goes nowhere" 2 ctr-calibrate --fit isotonic --rolling 2h roll.arrows
err_like "wants a file" 'name a file with -o'
exits "not a multiple" 2 ctr-calibrate --fit isotonic --rolling 2h --every 45m -o roll.map roll.arrows
exits "of nothing" 2 ctr-calibrate --fit isotonic --rolling 0s -o roll.map roll.arrows
exits "held out" 2 ctr-calibrate --fit isotonic --rolling 2h --held-out roll.arrows -o roll.map roll.arrows
exits "no time" 2 ctr-calibrate --fit isotonic --rolling 2h -o roll.map sooner.arrows
err_like "names the option" 'no column has the role time: name one with --time NAME'
exits "a time of one fit" 2 ctr-calibrate --fit isotonic --time time -o roll.map roll.arrows
exits "a bad score in a rolling fit" 1 sh -c "sed '3s/,0[.][0-9]*/,1.5/' roll.csv | ctr-import --format csv --header --label click --score score --time time | ctr-calibrate --fit isotonic --rolling 2h -o roll.map"
err_like "is named by its row" 'row 2: the score'
exits "too little memory for a rolling fit" 1 ctr-calibrate --fit isotonic --rolling 2h --memory 1K -o roll.map roll.arrows
err_like "is said" '--memory does not hold'

# ---- against others
if has_python pyarrow numpy sklearn; then
    cat >ref.py <<'END'
import subprocess, sys, io, numpy as np, pyarrow as pa
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

def stream(cols, roles):
    s = pa.schema([pa.field(k, pa.array(v).type, metadata={'ctr.role': roles[k]} if k in roles else None) for k, v in cols.items()])
    buf = io.BytesIO()
    with pa.ipc.new_stream(buf, s) as w:
        w.write_table(pa.Table.from_arrays([pa.array(v) for v in cols.values()], schema=s), max_chunksize=1000)
    return buf.getvalue()

def run(args, data):
    return subprocess.run(['ctr-calibrate', '-q'] + args, input=data, stdout=subprocess.PIPE, check=True).stdout

def apply(args, train, p):
    open('ref.map', 'wb').write(run(['--fit'] + args, train))
    t = pa.ipc.open_stream(run(['ref.map'], stream({'p': p}, {'p': 'score'}))).read_all()
    assert (t['p_raw'].to_numpy() == p).all()
    return t['p'].to_numpy(), {r['name']: r['value'] for r in pa.ipc.open_stream('ref.map').read_all().to_pylist()}

def near(what, a, b, eps=1e-9):
    if not np.all(np.abs(a - b) <= eps * np.maximum(1, np.abs(b))):
        sys.exit(f'{what}: {a} is not {b}')

for seed in range(4):
    rng = np.random.default_rng(seed)
    n = 4000
    p = rng.beta(1, 8, n)
    if seed % 2:
        p = np.round(p, 2) + .001
    y = (rng.random(n) < .8 * p ** .8).astype(np.int8)
    w = rng.integers(0, 4, n) / 2 if seed > 1 else np.ones(n)
    train = stream({'y': y, 'p': p, 'w': w}, {'y': 'label', 'p': 'score', 'w': 'weight'})
    q = np.r_[p, rng.random(500)]
    got, _ = apply(['isotonic', '--min-clicks', '0'], train, q)
    m = w > 0
    near('isotonic', got, IsotonicRegression(out_of_bounds='clip').fit(p[m], y[m], sample_weight=w[m]).predict(q))
    got, par = apply(['power'], train, q)
    a, b, t = 0.0, 1.0, np.log(p)
    for _ in range(50):
        mu = w * np.exp(a + b * t)
        g = np.array([(w * y - mu).sum(), ((w * y - mu) * t).sum()])
        h = np.array([[mu.sum(), (mu * t).sum()], [(mu * t).sum(), (mu * t * t).sum()]])
        d = np.linalg.solve(h, g)
        a, b = a + d[0], b + d[1]
    near('kappa', par['kappa'], b)
    near('gamma', par['gamma'], np.exp(a))
    near('power', got, np.minimum(1, np.exp(a) * q ** b))
    got, par = apply(['platt'], train, q)
    x = np.log(p / (1 - p))
    r = LogisticRegression(C=1e12, tol=1e-12, max_iter=1000).fit(x[:, None], y, sample_weight=w)
    near('slope', par['slope'], r.coef_[0, 0], 1e-4)
    near('intercept', par['intercept'], r.intercept_[0], 1e-4)
    near('platt', got, 1 / (1 + np.exp(-(par['intercept'] + par['slope'] * np.log(q / (1 - q))))))
END
    ok "isotonic, power and platt agree with others" "$PY" ref.py
else
    skip "isotonic, power and platt agree with others" "no pyarrow and scikit-learn: set CTR_PYTHON"
fi
if [ -d "$DATA/ipinyou_scored" ]; then
    for i in train test; do
        ctr-import --format csv --delimiter "$(printf '\t')" --columns click:int8,price:int32,pctr:float64,slot:int32 \
            --label click --score pctr "$DATA/ipinyou_scored/sam.1458.$i.txt.gz" >$i.arrows
    done
    figures() { ctr-eval -m normalized_entropy,calibration "$@" | awk 'NR == 2 { print $(NF - 1), $NF }'; }
    ctr-calibrate --fit isotonic -q -o ip.map train.arrows
    is "iPinYou: isotonic on its own rows is calibrated" "$(ctr-calibrate ip.map train.arrows | figures | cut -d' ' -f2)" 1.000000
    # 51 clicks, at a lower rate than those of the fit: the ratio goes from .866 to 1.29, with all pools to 1.264, exactly as with
    # scikit-learn 1.9; but the scores say more than the click rate now, which they did not before.
    is "iPinYou: the test rows before" "$(figures test.arrows)" "1.027106 0.865940"
    is "iPinYou: the test rows after" "$(ctr-calibrate ip.map test.arrows | figures)" "0.954746 1.293955"
    ctr-calibrate --fit isotonic --min-clicks 0 -q -o ip.map train.arrows
    is "iPinYou: with all pools" "$(ctr-calibrate ip.map test.arrows | figures)" "0.934553 1.264169"
else
    skip "iPinYou" "no ../shared/data"
fi
# Newton's method from where the link is flat: scores that are far too small, and by far too steep.
awk 'BEGIN { srand(4); print "click,score"; for (i = 0; i < 4000; i++) { t = rand() * 4 - 4
    printf("%d,%.17g\n", rand() < 1 / (1 + exp(-t)), 1 / (1 + exp(20 - 3 * t))) } }' >tiny.csv
import tiny.csv >tiny.arrows
for kind in platt power; do
    ctr-calibrate -q --fit $kind -o tiny.map tiny.arrows
    is "$kind: scores a million times too small" "$(ctr-calibrate tiny.map tiny.arrows | ctr-eval -m calibration --format stream |
        ctr-export -c calibration --no-header | awk '{ print ($1 > 0.99 && $1 < 1.01) ? "as many clicks as expected" : $1 }')" "as many clicks as expected"
done
awk 'BEGIN { print "click,score"; for (i = 0; i < 400; i++) printf("%d,%.17g\n", i % 20 == 0 || (i > 300 && i % 3), 0.5 + i * 1e-9) }' >flat.csv
import flat.csv >flat.arrows
exits "a power map that no number holds is an error" 1 ctr-calibrate -q --fit power -o flat.map flat.arrows
err_like "which names other maps" 'fit isotonic or platt'
# Scores of exactly 0 and 1 have two click rates, which two numbers fit as well as pools do. On the rows of the fit a platt map
# is no worse than the scores themselves and than the click rate, whatever the scores; where it had to turn wrong ones round
# its slope was set to 0.001, which costs a little.
log_loss() { ctr-eval -m log_loss --format stream "$@" | ctr-export -c log_loss --no-header; }
awk 'BEGIN { srand(3); print "click,hard,steep,wrong,few,flat"
    for (i = 0; i < 4000; i++) { s = rand() < .4; u = rand(); y = rand() < (s ? .9 : .08)
        printf("%d,%d,%.17g,%.17g,%.17g,%.17g\n", y, s, s ? 1 - u * 1e-9 : u * 1e-12, 1 - u * y, u < .001 ? u : s, .1) } }' >hard.csv
ctr-import --header --label click --columns click:int8,hard:float64,steep:float64,wrong:float64,few:float64,flat:float64 hard.csv >hard.arrows
for score in hard steep wrong few flat; do
    ctr-calibrate -q --score $score --fit platt -o hard.map hard.arrows
    ctr-calibrate --score $score hard.map hard.arrows | log_loss --score $score >hard.platt
    ctr-select --add "rate = $(awk -F, 'NR > 1 { n++; c += $1 } END { printf("%.17g", c / n) }' hard.csv) + 0.0" hard.arrows | log_loss --score rate >hard.rate
    log_loss --score $score hard.arrows >hard.same
    ok "platt, $score scores: no worse than the scores and the click rate" awk '{ x[NR] = $1 } END { print x[1], x[2], x[3]
        exit !(NR == 3 && x[1] <= x[2] + 1e-9 && x[1] <= x[3] + (wrong ? 0.01 : 1e-9)) }' wrong=$([ $score = wrong ] && echo 1) hard.platt hard.same hard.rate
done
ctr-calibrate -q --score hard --fit isotonic -o hard.map hard.arrows
ctr-calibrate -q --score hard --fit platt -o hard.platt.map hard.arrows
is "platt, scores of 0 and 1: as good as isotonic" "$(ctr-calibrate --score hard hard.platt.map hard.arrows | log_loss --score hard | cut -c 1-9)" \
    "$(ctr-calibrate --score hard hard.map hard.arrows | log_loss --score hard | cut -c 1-9)"
# A slice is the whole text of its value, a byte 0 in it too.
awk 'BEGIN { for (i = 0; i < 400; i++) printf("{\"site\":\"a\\u0000%s\",\"click\":%d,\"score\":%.2f}\n", i % 2 ? "x" : "y", i % 2 ? i % 8 == 1 : i % 8 != 0, .2 + i % 5 / 10) }' |
    ctr-import --format jsonl --label click --score score --columns site:utf8,click:int8,score:float64 >zero.arrows
ctr-calibrate -q --fit platt --by site --slice-clicks 1 -o zero.map zero.arrows
is 'slices with a byte 0' "$(ctr-export -f jsonl -c slice,name zero.map | sort -u | grep slope)" '{"slice":"a\u0000x","name":"slope"}
{"slice":"a\u0000y","name":"slope"}
{"slice":null,"name":"slope"}'
is 'each scored by its own map' "$(ctr-calibrate zero.map zero.arrows | ctr-eval -m calibration --by site --format stream |
    ctr-select --where 'slice != ""' | ctr-export -c calibration --no-header | cut -c 1-5 | sort -u)" 1.000
done_testing
