#!/bin/sh
# ctr-model: the strongest weights, changes, what makes a prediction; names, both formats.
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
case $CTR_BUILD in
*san*) skip 'memory of a large model' 'sanitizers have allocators of their own' ;;
*)
    awk 'BEGIN { print "click,k"; for (i = 0; i < 1000000; i++) print (i % 3 == 0) "," i }' >million.csv
    printf 'label click\nfeature k\n' >million.plan
    ctr-import --format csv --header million.csv | ctr-extract million.plan -o million.arrows
    ctr-select --head 1000 -o few.arrows million.arrows
    ok 'learning a million keys: 36 bytes each, and the input read ahead' below 84000 ctr-train lr -q -o million.model million.arrows
    ok 'going on from them: the same' below 84000 ctr-train lr -q --init million.model -o x.arrows few.arrows
    ok 'predicting: 16 bytes, growth and slack' below 36000 ctr-predict million.model few.arrows
    ok 'printing all of them: 48 bytes' below 64000 ctr-model top -n 0 million.model
    ok 'exporting, selecting: none' below 12000 ctr-export -f tsv million.model
    is 'all are printed' "$(ctr-model top -n 0 million.model | wc -l)" 1000002
    ;;
esac
exits 'no action' 2 ctr-model
exits 'another action' 2 ctr-model bottom m.arrows
err_like 'is named' "no action 'bottom'; there are top, diff, explain, slim, merge$"
exits 'a stream is no model' 1 ctr-model top log.arrows
err_like 'and says so' 'log.arrows: not a model'
head -c 900 m.arrows >cut.arrows
exits 'a truncated model' 1 ctr-model top cut.arrows
exits 'names that are none' 1 ctr-model top --names cut.arrows m.arrows

# ---- counts by the plan: through intermediates, features that share a table, equal calls of vocab
awk 'BEGIN { print "click,ad,prev,hour,price"; for (i = 0; i < 400; i++) print (i * 7 % 11 < 4) ",ad" i % 5 ",ad" (i + 1) % 4 "," i % 3 "," i % 10 }' >shared.csv
cat >shared.plan <<'END'
label   click
seen = vocab(ad, min=2)
feature first in item = seen
feature again in item = seen
feature same in twin = vocab(ad, min=2)
feature one in both = vocab(ad, min=2)
feature two in both = vocab(prev, min=3)
feature cr = cross(ad, hour)
dense   price = price / 10.0
END
ctr-import --format csv --header shared.csv >shared.arrows
ctr-extract --fit shared.plan -o shared-fitted.arrows shared.arrows
ctr-extract shared-fitted.arrows shared.arrows >shared-features.arrows
ctr-train lr -q --plan shared-fitted.arrows -o s.arrows shared-features.arrows
counts() { ctr-model top -n 0 -t "$1" s.arrows | awk 'NR > 1 { print $2, $3 }' | sort; }
is 'an intermediate in a table: the count of its vocabulary' "$(counts item)" '80 item=ad0
80 item=ad1
80 item=ad2
80 item=ad3
80 item=ad4'
is 'an equal call has the same state' "$(counts twin | head -n 1)" '80 twin=ad0'
is 'two vocabularies in one table: their sum' "$(counts both)" '180 both=ad0
180 both=ad1
180 both=ad2
180 both=ad3
80 both=ad4'
is '--table takes patterns' "$(ctr-model top -n 0 -t 't*' s.arrows | awk 'NR > 1 { sub("=.*", "", $3); print $3 }' | sort -u)" twin

# ---- diff
ctr-train lr -q --l1 .5 -o m2.arrows --alpha .05 ads.arrows
ctr-select --where 'table != "hour"' m2.arrows >less.arrows
exits 'diff' 0 ctr-model diff -n 2 --names names.arrows m.arrows m2.arrows
err_like 'says what is common' '11 keys in both models, 0 only in m.arrows, 0 only in m2.arrows; 11 weights differ'
err_like 'and that options differ' 'learned with different options'
is 'the head' "$(head -n 1 out)" '    change         new         old  feature'
is 'change is new less old, strongest first' "$(ctr-model diff -q -n 0 --format stream m.arrows m2.arrows | ctr-export --format csv --columns old,new,change |
    awk -F, 'NR > 1 { d = $2 - $1 - $3; c = $3 < 0 ? -$3 : $3; if (d > 1e-12 || d < -1e-12 || (NR > 2 && c > last)) print "wrong"; last = c; n++ } END { print n }')" 11
is 'a model and itself' "$(ctr-model diff m.arrows m.arrows 2>&1 | sed '1d')" 'ctr-model: 11 keys in both models, 0 only in m.arrows, 0 only in m.arrows; 0 weights differ'
exits 'a model with fewer keys' 0 ctr-model diff m2.arrows less.arrows
err_like 'is counted' '7 keys in both models, 4 only in m2.arrows, 0 only in less.arrows; 4 weights differ'
is 'what is gone is 0' "$(awk 'NR > 1 { print $2 }' out | sort -u)" '+0.000000'
ctr-cat m.arrows m2.arrows >both.arrows
exits 'two models in one' 1 ctr-model diff m.arrows both.arrows
err_like 'are not sorted' 'both.arrows: row 12 of the model: its rows are not sorted by table and key'
ctr-cat m.arrows m.arrows | ctr-sort -k table,key -o twice.arrows
exits 'a model with each key twice' 1 ctr-model diff m.arrows twice.arrows
err_like 'is refused' 'twice.arrows: row 2 of the model: .* or a key comes twice'
exits 'diff of one' 2 ctr-model diff m.arrows
err_like 'shows how' 'argument is missing: ctr-model .options. diff OLD NEW$'
exits 'two models on one stdin' 2 ctr-model diff - -
err_like 'says so' 'stdin is given for two inputs'
exits 'a table that is not there' 0 ctr-model top --table 'nosuch*' m.arrows
err_like 'says that nothing is shown' "no weight .* table like 'nosuch"
exits 'a folder' 1 ctr-model top .
err_like 'is named' 'ctr-model: .: read failed: Is a directory'
exits 'diff with a stream' 1 ctr-model diff m.arrows log.arrows
exits 'diff with a truncated model' 1 ctr-model diff m.arrows cut.arrows
exits 'diff is written to neither' 2 ctr-model diff --format stream -o m.arrows m.arrows m2.arrows

# ---- explain: contributions add up to the log odds of ctr-predict's score
ctr-model explain -n 0 --format stream s.arrows shared.arrows | ctr-export --format csv >explained.csv
ctr-predict s.arrows shared-features.arrows | ctr-export --format csv --columns score >scores.csv
sums() {
    awk -F, 'NR == FNR { if (FNR > 1) score[FNR - 1] = $1; next }
        FNR > 1 { sum[$1] += $8; if ($2 != score[$1]) bad++; n = $1 > n ? $1 : n; d = $6 * $7 - $8; if (d > 1e-12 || d < -1e-12) bad++ }
        END { for (i = 1; i <= n; i++) { d = 1 / (1 + exp(-sum[i])) - score[i]; if (d > 1e-12 || d < -1e-12) bad++ } print n, bad + 0 }' scores.csv explained.csv
}
is 'contributions add up to the score, for every row' "$(sums)" '400 0'
is 'every feature has its name' "$(awk -F, '$1 == 1 { print $3 "=" $5, $6 }' explained.csv | sort)" '(bias)="" 1
both=ad0 1
both=ad1 1
cr=ad0 x 0 1
item=ad0 2
twin=ad0 1'
is 'a table of the strongest, the rest summed' "$(ctr-select --head 1 shared.arrows | ctr-model explain -n 2 s.arrows | awk 'NR == 1 { print $1, $2, $3; next } NR == 2 { print $1, $2, $3; next } { print $2 == "-" ? $3 " " $4 : "feature" }')" \
    'row 1: score
contribution x feature
feature
feature
(rest)=4 more'
is 'numbers have the name of their column' "$(awk -F, '$1 == 2 && $3 == "price" { print $5, $6 }' explained.csv)" '"" 0.10000000149011612'
is 'without the label' "$(ctr-select --columns ad,prev,hour,price shared.arrows | ctr-model explain -n 0 --format stream s.arrows | ctr-info --digest)" \
    "$(ctr-model explain -n 0 --format stream s.arrows shared.arrows | ctr-info --digest)"
is 'features too, by their plan id; names are not known' "$(ctr-model explain -n 0 --format stream s.arrows shared-features.arrows | ctr-select --columns row,score,table,key,x,weight,contribution | ctr-info --digest)" \
    "$(ctr-model explain -n 0 --format stream s.arrows shared.arrows | ctr-select --columns row,score,table,key,x,weight,contribution | ctr-info --digest)"
ctr-cat --batch 7 shared.arrows | ctr-model explain -j 4 -n 0 s.arrows >one
ctr-model explain -j 1 -n 0 s.arrows shared.arrows >two
ok 'the same bytes for any batch and -j' cmp one two
ctr-extract ads.plan log.arrows | ctr-train lr -q --hash-bits 6 -o hashed.arrows
is 'hashed keys name their tables' "$(ctr-select --head 1 log.arrows | ctr-model explain -n 0 hashed.arrows | awk 'NR > 2 { print $3 }' | sort)" '(bias)
(hashed)=ad=ad0
(hashed)=hour=(missing)'
printf '0 1:1 5:2\n1 2:1\n' | ctr-import --format libsvm >svm.arrows
ctr-train lr -q -o svm-model.arrows svm.arrows
is 'a model without a plan explains its features' "$(ctr-model explain -n 0 --format stream svm-model.arrows svm.arrows | ctr-select --where 'row == 1' | ctr-export --format csv --columns x | sort | tr '\n' ' ')" '1 1 2 x '
exits 'rows without a column' 2 ctr-model explain s.arrows log.arrows
err_like 'it is named' 'log.arrows|prev|price'
ctr-extract --names shared-names.arrows -o /dev/null shared-fitted.arrows shared.arrows
explained() { ctr-model explain -n 0 --format stream "$@" | ctr-info --digest; }
is 'names of features: as those of raw rows' "$(explained --names shared-names.arrows s.arrows shared-features.arrows)" "$(explained s.arrows shared.arrows)"
is 'raw rows have theirs' "$(explained --names shared-names.arrows s.arrows shared.arrows)" "$(explained s.arrows shared.arrows)"
is 'hashed keys of features name their tables' "$(ctr-select --head 1 ads.arrows | ctr-model explain -n 0 --names names.arrows hashed.arrows | awk 'NR > 2 { print $3 }' | sort)" '(bias)
(hashed)=ad=ad0
(hashed)=hour=(missing)'
is 'without them, what is known' "$(ctr-select --head 1 ads.arrows | ctr-model explain -n 0 m.arrows | awk 'NR > 2 { sub("#.*", "#", $3); print $3 }' | sort)" '(bias)
ad=#
hour=(missing)'
exits 'explain with names that are none' 2 ctr-model explain --names shared.arrows s.arrows shared-features.arrows
err_like 'which are named' "shared.arrows: .*'table'"
exits 'names that are cut' 1 sh -c 'head -c 900 shared-names.arrows >cut-names.arrows; ctr-model explain --names cut-names.arrows s.arrows shared-features.arrows'
exits 'names and rows on one stdin' 2 ctr-model explain --names - s.arrows
head -c 2000 shared.arrows >cut-rows.arrows
exits 'truncated rows' 1 ctr-model explain -o none s.arrows cut-rows.arrows
ok 'leave no output' test ! -e none
exits 'a truncated model' 1 ctr-model explain cut.arrows shared.arrows
exits 'a full disk' 1 sh -c 'ctr-model explain s.arrows shared.arrows >/dev/full'
exits 'a closed stdout' 1 sh -c 'ctr-model explain s.arrows shared.arrows >&-'
gone() { { ctr-model explain -q -n 0 s.arrows shared.arrows shared.arrows 2>gone.err; echo $? >gone.rc; } | head -c 10 >/dev/null; [ ! -s gone.err ] && [ "$(cat gone.rc)" = 141 ]; }
ok 'a reader that has gone' gone

# A model without the fitted state of its plan, which learning does not need, is listed all the same.
printf 'label click\nfeature u = vocab(user, min=1)\n' >unfit.plan
printf 'user,click\na,1\nb,0\n' | ctr-import --format csv --header -o unfit.log
ctr-extract --fit unfit.plan unfit.log -o unfit.fitted && ctr-extract unfit.fitted unfit.log | ctr-train lr -q -o unfit.model
exits 'a model without the fitted state' 0 ctr-model top unfit.model
is 'shows its weights' "$(grep -c -e '(bias)' -e 'u=#' "$W/out")" 3
# ---- a model of 5,000 vocabularies: names in no time that is their number squared
n=${SAN:+500} n=${n:-5000}
awk -v n=$n 'BEGIN { print "label y"; for (i = 0; i < n; i++) print "feature f" i " = vocab(concat(a, \"x" i "\"))" }' >many.plan
printf 'y,a\n0,p\n1,q\n1,r\n' | ctr-import -f csv --header -o many.arrows
ctr-extract --fit many.plan many.arrows -o many.fit
ctr-extract many.fit many.arrows | ctr-train -q lr --plan many.fit -o many.m
ok "all weights of $n vocabularies" timeout 120 ctr-model top -f stream -n 0 many.m -o many.top
is 'each has its name, and its count' "$(ctr-export -c name,count --no-header many.top | sed 's/x[0-9]*//' | sort | uniq -c | tr -s ' ' | tr '\n' ';')" " 1 \"\",; $n p,1; $n q,1; $n r,1;"

# ---- names with the byte 0 are whole
printf 'u,c\na\000b,1\na\000c,0\na,1\n' | ctr-import -qf csv --header --label c >"$W/nul.arrows"
printf 'label c\nfeature u\n' >"$W/nul.plan"
ctr-extract -q --names "$W/nul.names" "$W/nul.plan" "$W/nul.arrows" | ctr-train lr -q -o "$W/nul.model" --progressive /dev/null
is "top: the byte 0 in names" "$(ctr-model top "$W/nul.model" --names "$W/nul.names" | awk 'NR > 1 && $3 != "(bias)" { print $3 }' | sort | tr '\n' ' ')" \
    "u=\$'a\\x00b' u=\$'a\\x00c' u=a "
is "in the stream too" "$(ctr-model top -f stream "$W/nul.model" --names "$W/nul.names" | ctr-export --no-header -c name | tr '\000' 0 | sort | tr '\n' ' ')" '"" a a0b a0c '
# ---- buckets have the names of their bounds, in crosses and lists too
awk 'BEGIN { print "age,x,l,click"; for (i = 0; i < 60; i++) print i "," i / 4 - 5 "," i % 3 " " i "," i % 2 }' | ctr-import -q -f csv --header --columns age:int32,x:float64,l:utf8,click:int8 -o buckets.log
cat >buckets.plan <<'END'
label click
feature age = bucket(age, [18, 19, 30])
feature x = bucket(x, [-2.5, 0, 7])
feature ax = cross(bucket(age, [18]), x)
feature l = bucket(int(number(split(l, " "))), [1, 2, 50])
END
ctr-extract -q --names buckets.names buckets.plan buckets.log | ctr-train lr -q -o buckets.m
named() { ctr-export -q -f csv --no-header -c table,name,count buckets.names | grep "^$1," | LC_ALL=C sort | tr '\n' ' '; }
is 'of integers' "$(named age)" 'age,18,1 age,19-29,11 age,<18,18 age,>=30,30 '
is 'of other numbers' "$(named x)" 'x,"[-2.5,0)",10 x,"[0,7)",28 x,<-2.5,10 x,>=7,12 '
is 'of buckets that are crossed' "$(named ax)" 'ax,"<18 x [-2.5,0)",10 ax,"<18 x [0,7)",28 ax,<18 x <-2.5,10 ax,<18 x >=7,12 '
is 'of lists' "$(named l)" 'l,1,21 l,2-49,68 l,<1,21 l,>=50,10 '
is 'counts are those of the rows' "$(awk 'BEGIN { for (i = 0; i < 60; i++) n[i < 18 ? "<18" : i < 19 ? "18" : i < 30 ? "19-29" : ">=30"]++; for (k in n) print "age," k "," n[k] }' | LC_ALL=C sort | tr '\n' ' ')" "$(named age)"
is 'explain names them' "$(ctr-select -q --head 1 buckets.log | ctr-model explain -n 0 buckets.m | grep -c -e 'age=<18' -e 'x=<-2.5')" 2

# ---- a plan with statements, a fitted one
exits 'explain of views, of a plan without statements' 2 ctr-model explain s.arrows log=ads.csv
err_like 'is told' 'log=ads.csv: no such file, and the plan in s.arrows has no statements that read views'
printf 'from log = csv(header=true)\nwhere ad != "ad3"\nlabel click\nfeature ad\n' >where.plan
printf 'ad,click\nad1,1\nad3,0\nad2,0\n' >where.csv
ctr-train lr -q where.plan log=where.csv -o where.m
ctr-import -q -f csv --header where.csv -o where.arrows
is 'explain of views runs the statements' "$(ctr-model explain where.m log=where.csv | grep -c '^row')" 2
exits 'explain of a stream, of a plan with statements' 2 ctr-model explain where.m where.arrows
err_like 'is told' 'where.arrows: the plan in where.m has statements, which are run for views alone: VIEW=FILE; of a table that they made already: ctr-extract --table where.m FILE | ctr-model explain where.m'
is 'the features of a table that they made are explained' "$(ctr-select -q --where 'ad != "ad3"' where.arrows | ctr-extract -q --table where.m | ctr-model explain where.m | grep '^row')" "$(ctr-model explain where.m log=where.csv | grep '^row')"
printf 'click,g\n1,a\n0,b\n1,a\n' | ctr-import -q -f csv --header -o fit.arrows
printf 'label click\nfeature g = vocab(g)\n' >fit.plan
ctr-extract -q --fit fit.plan fit.arrows -o fit.fitted
ctr-extract -q fit.fitted fit.arrows | ctr-train lr -q --plan fit.fitted -o fit.model
is 'slim says, -q or not, that fitted state is left out' "$(ctr-model slim -q fit.model -o fit.slim 2>&1)" \
    'ctr-model: the fitted state of the plan is left out: ctr-extract takes it from fit.model, or from the fitted plan'
done_testing
