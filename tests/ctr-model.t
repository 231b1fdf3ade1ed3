#!/bin/sh
# ctr-model top: the strongest weights, their names, both formats.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
awk 'BEGIN { print "click,ad,hour"
    for (i = 0; i < 600; i++) print (i % 3 == 0 || i % 5 == 1) "," "ad" i % 6 "," (i % 4 ? i % 4 : "") }' >log.csv
printf 'label click\nfeature ad\nfeature hour\n' >ads.plan
ctr-import --format csv --header log.csv >log.arrows
ctr-extract --names names.arrows -o ads.arrows ads.plan log.arrows
ctr-train lr -q --l1 .5 -o m.arrows ads.arrows

is 'a table of names' "$(ctr-model top -n 4 --names names.arrows m.arrows | awk '{ print $2, $3 }')" 'count feature
100 ad=ad0
100 ad=ad3
100 ad=ad2
100 ad=ad4'
is 'strongest first' "$(ctr-model top -n 0 m.arrows | awk 'NR > 1 { w = $1 < 0 ? -$1 : $1; if (NR > 2 && w > last) print "wrong"; last = w }')" ''
is 'without names, what is known' "$(ctr-model top -n 0 m.arrows | grep -c -e '=(missing)$' -e '(bias)$')" 2
is 'and the rest in hexadecimal' "$(ctr-model top -n 1 m.arrows | grep -cE '=#[0-9a-f]{16}$')" 1
is '--by-table' "$(ctr-model top -n 1 --by-table m.arrows | awk 'NR > 1 { sub("=.*", "", $3); print $3 }')" '(bias)
ad
hour'
is 'a stream' "$(ctr-model top -n 2 --names names.arrows --format stream m.arrows | ctr-select --columns table,name,count | ctr-export --format csv)" \
    'table,name,count
ad,ad0,100
ad,ad3,100'
is '-n 0 shows all that are not 0' "$(ctr-model top -n 0 m.arrows | wc -l)" \
    "$(($(ctr-select --where 'weight != 0' m.arrows | ctr-export --format csv | wc -l)))"
printf 'label click\nfeature ad = vocab(ad, min=2)\n' >vocab.plan
ctr-extract --fit vocab.plan -o fitted.arrows log.arrows
ctr-extract fitted.arrows log.arrows | ctr-train lr -q --plan fitted.arrows -o v.arrows
is 'names from vocabularies in the model' "$(ctr-model top -n 1 v.arrows | awk 'NR > 1 { print $2, $3 }')" '100 ad=ad3'
# A value of two vocabularies: each table has its own name and count for it.
awk 'BEGIN { print "click,a,b"; for (i = 0; i < 60; i++) print i % 2 "," (i < 10 ? "x" : "y") "," (i < 40 ? "x" : "z") }' >two.csv
printf 'label click\nfeature a = vocab(a, min=2)\nfeature b = vocab(b, min=2)\n' >two.plan
ctr-import --format csv --header two.csv >two.arrows
ctr-extract --fit two.plan -o two-fitted.arrows two.arrows
ctr-extract two-fitted.arrows two.arrows | ctr-train lr -q --alpha 1 --plan two-fitted.arrows -o w.arrows
is 'counts are those of the own vocabulary' "$(ctr-model top -n 0 w.arrows | awk '/=/ { print $2, $3 }' | sort)" '10 a=x
20 b=z
40 b=x
50 a=y'
# Weights beyond a million are shown by their first digits.
ctr-extract fitted.arrows log.arrows | ctr-train lr -q --alpha 1e300 --plan fitted.arrows -o wild.arrows
is 'a weight of 300 digits fits its column' "$(ctr-model top -n 1 wild.arrows | awk 'NR > 1 { print ($1 ~ /^[-+][0-9.]*e[+]29[0-9]$/ || $1 ~ /^[-+][0-9.]*e[+]30[0-9]$/) ? length($1) <= 10 : $0 }')" 1

# ---- a model of a million keys is held once, whatever is done to it: peak memory in KiB
peak() {
    "$PY" -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$@"
}
below() { # below KIB COMMAND…
    _most=$1
    shift
    _got=$(peak "$@") && echo "$_got KiB" && test "$_got" -lt "$_most"
}
case $CTR_BUILD in
*san*) skip 'memory of a large model' 'sanitizers have allocators of their own' ;;
*)
    awk 'BEGIN { print "click,k"; for (i = 0; i < 1000000; i++) print (i % 3 == 0) "," i }' >million.csv
    printf 'label click\nfeature k\n' >million.plan
    ctr-import --format csv --header million.csv | ctr-extract million.plan -o million.arrows
    ctr-select --head 1000 -o few.arrows million.arrows
    ok 'learning a million keys: 37 bytes each, and the input read ahead' below 84000 ctr-train lr -q -o million.model million.arrows
    ok 'going on from them: the same' below 84000 ctr-train lr -q --init million.model -o x.arrows few.arrows
    ok 'predicting: 16 bytes, growth and slack' below 36000 ctr-predict million.model few.arrows
    ok 'printing all of them: 48 bytes' below 64000 ctr-model top -n 0 million.model
    ok 'exporting, selecting: none' below 12000 ctr-export -f tsv million.model
    is 'all are printed' "$(ctr-model top -n 0 million.model | wc -l)" 1000002
    ;;
esac
exits 'no action' 2 ctr-model
exits 'another action' 2 ctr-model bottom m.arrows
err_like 'is named' "no action 'bottom'; there is top"
exits 'a stream is no model' 1 ctr-model top log.arrows
err_like 'and says so' 'log.arrows: not a model'
head -c 900 m.arrows >cut.arrows
exits 'a truncated model' 1 ctr-model top cut.arrows
exits 'names that are none' 1 ctr-model top --names cut.arrows m.arrows
done_testing
