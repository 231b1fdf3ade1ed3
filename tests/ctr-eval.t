#!/bin/sh
# ctr-eval: values by hand, slices, windows, controls, intervals, every message; against scikit-learn and plain loops.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

roles="--label click --score p --weight w --user user --time t"
import() { ctr-import --format csv --header $roles "$1"; }
cat >small.csv <<'END'
click,p,w,user,t,genre
1,0.9,1,a,2020-01-01T00:10:00Z,x
0,0.8,2,a,2020-01-01T00:20:00Z,y
1,0.7,1,b,2020-01-01T00:50:00Z,x
0,0.7,1,b,2020-01-01T01:10:00Z,x
0.5,0.4,2,b,2020-01-01T01:20:00Z,y
0,0.3,1,c,2020-01-01T01:30:00Z,y
0,0.2,0.5,c,2020-01-01T02:59:00Z,
END
import small.csv >small.arrows

# auc by hand: positives .9 (1), .7 (1), .4 (1) against negatives .8 (2), .7 (1), .4 (1), .3 (1), .2 (.5):
# (5.5 + 3 + 2) / (3 * 5.5) = .636364; users a 1 (weight 3), b .25 / .5 … c has one class.
is "the total" "$(ctr-eval small.arrows)" "\
slice  rows  weight  positives       auc  auc_loss      gauc  log_loss  normalized_entropy  squared_error  calibration  users  left_out_users  left_out_rows
total     7   8.500          3  0.636364  0.363636  0.714286  0.797676            1.228615       0.235294     1.700000      2               1              2"
metrics=$(ctr-eval --list-options | awk -F'\t' '$1 == "--metrics" { gsub("[|]", ",", $4); print $4 }')
is "heads are the names that --metrics takes" "$(ctr-eval --metrics "$metrics" small.arrows | awk 'NR == 1 { for (i = 5; i <= NF - 3; i++) printf "%s%s", (i > 5 ? "," : ""), $i }')" "$metrics"
for m in $(echo "$metrics" | tr , ' '); do
    ok "metric $m has an entry in ctr-eval(1): .It Cm $m, with its formula" grep -qE "^\.It Cm ([a-z_]+ , )*$m( ,.*)?\$" "$CTR_TOP/man/ctr-eval.1"
done
# Where clicks are rare, means keep four digits.
awk 'BEGIN { print "click,score"; for (i = 0; i < 40000; i++) print (i % 2532 == 0) "," .00039 + i % 7 / 1e6 }' | ctr-import --format csv --header --label click --score score >rare.arrows
is "small means have digits" "$(ctr-eval --metrics mean_score,mean_label,squared_error rare.arrows | awk 'NR == 2 { print $4, $5, $6 }')" '0.0003930 0.0004000 0.0003998'
is "in a reliability diagram too" "$(ctr-eval --reliability --bins 1 --metrics rows rare.arrows | awk 'END { print $1, $3, $5, $6 }')" '0.0003900 0.0003960 0.0003930 0.0004000'
# The line of progress is taken away before the table stands on the same terminal.
alone() { "$@" --progress always 2>&1 | sed "s/^.*$(printf '\033')\[K//" | grep -v '^$'; }
is "progress leaves the table alone" "$(alone ctr-eval small.arrows | head -n 1 | cut -c 1-13)" "slice  rows  "
is "so it does with ctr-info" "$(alone ctr-info small.arrows | head -n 1)" "rows: 7"
is "and with ctr-export" "$(alone ctr-export -c click --batch 1 small.arrows | head -n 2 | tr '\n' ' ')" "click 1 "
is "slices and windows" "$(ctr-eval --by genre --window 1h --metrics auc,calibration small.arrows)" "\
slice            window                rows  weight  positives       auc  calibration
total            all                      7   8.500          3  0.636364     1.700000
total            2020-01-01T00:00:00Z     3       4          2  0.500000     1.600000
total            2020-01-01T01:00:00Z     3       4          1  0.500000     1.800000
total            2020-01-01T02:00:00Z     1   0.500          0         -            -
genre=(missing)  all                      1   0.500          0         -            -
genre=(missing)  2020-01-01T02:00:00Z     1   0.500          0         -            -
genre=x          all                      3       3          2  0.750000     1.150000
genre=x          2020-01-01T00:00:00Z     2       2          2         -     0.800000
genre=x          2020-01-01T01:00:00Z     1       1          0         -            -
genre=y          all                      3       5          1  0.375000     2.700000
genre=y          2020-01-01T00:00:00Z     1       2          0         -            -
genre=y          2020-01-01T01:00:00Z     2       3          1  0.750000     1.100000"
is "several columns, numbers in order" "$(ctr-eval --by w,user --metrics rows small.arrows)" "\
slice   rows  weight  positives
total      7   8.500          3
w=0.5      1   0.500          0
w=1        4       4          2
w=2        2       4          1
user=a     2       3          1
user=b     3       4          2
user=c     2   1.500          0"
is "--by a,b is --by a --by b" "$(ctr-eval --by w,user small.arrows)" "$(ctr-eval -b w -b user small.arrows)"
is "a stream has the same, undefined is null" "$(ctr-eval --format stream -b genre -m auc,squared_error small.arrows | ctr-export --format csv)" "\
by,slice,rows,weight,positives,auc,squared_error
,,7,8.5,3,0.6363636363636364,0.23529411764705888
genre,(missing),1,0.5,0,,0.04000000000000001
genre,x,3,3,2,0.75,0.19666666666666666
genre,y,3,5,1,0.375,0.2780000000000001"
awk 'BEGIN { n = split("(missing)|(missing)|(missing)|||(rest)|(rest)|\047(missing)\047|\047(missing)\047|y|z", g, "|"); print "click,score,g"
    for (i = 1; i <= n; i++) print i % 2 ",.5," g[i] }' | ctr-import --format csv --header --label click --score score >named.arrows
is "a text that reads like the slice of nulls, or the rest, is another slice" "$(ctr-eval --format stream -b g -n 4 -m rows named.arrows | ctr-export --no-header -c slice,rows | LC_ALL=C sort | tr '\n' ' ')" \
    "''(missing)'',2 '(missing)',3 '(rest)',2 (missing),2 (rest),2 ,11 "
is "in the table, too" "$(ctr-eval -b g -n 4 -m rows named.arrows | awk 'NR > 2 { print $1, $2 }' | LC_ALL=C sort | tr '\n' ' ')" \
    "g=''(missing)'' 2 g='(missing)' 3 g='(rest)' 2 g=(missing) 2 g=(rest) 2 "
is "roles by option" "$(ctr-import --format csv --header small.csv | ctr-eval --label click --score p -m auc)" "\
slice  rows  positives       auc
total     7      2.500  0.766667"

# ---- the slices with the most rows; the others are one
is "--slices: the most rows, the first to come at a tie; the rest summed" "$(ctr-eval --by genre --slices 1 -m auc,calibration small.arrows)" "\
slice         rows  weight  positives       auc  calibration
total            7   8.500          3  0.636364     1.700000
genre=x          3       3          2  0.750000     1.150000
genre=(rest)     4   5.500          1  0.444444     2.800000"
is "the rest in windows" "$(ctr-eval --by genre -n 1 --window 1h -m rows small.arrows | sed -n '/rest/p')" "\
genre=(rest)  all                      4   5.500          1
genre=(rest)  2020-01-01T00:00:00Z     1       2          0
genre=(rest)  2020-01-01T01:00:00Z     2       3          1
genre=(rest)  2020-01-01T02:00:00Z     1   0.500          0"
printf 'click,p,k\n1,0.5,1\n0,0.4,0\n1,0.6,2\n0,0.7,1\n0,0.5,3\n' | ctr-import --format csv --header --label click --score p >numbers.arrows
is "no number is the rest" "$(ctr-eval --by k -n 1 -m rows numbers.arrows | tr -s ' ')" "slice rows positives
total 5 2
k=1 2 1
k=(rest) 3 1"
is "as many slices as there are: no rest" "$(ctr-eval --by genre -n 3 small.arrows)" "$(ctr-eval --by genre small.arrows)"
# 6000 values, of which 8 * 20 + 1024 are held; the common ones come all the time.
awk -v OFS=, 'BEGIN { print "click,p,w,user,t,ad,ads"; s = 7; for (i = 0; i < 30000; i++) { s = (s * 16807) % 2147483647; p = int(1000 * (s / 2147483647)) / 1000
    s = (s * 16807) % 2147483647; r = s / 2147483647; a = r < .5 ? int(r * 50) : 100 + i % 6000; s = (s * 16807) % 2147483647
    print (i % 50 ? (s / 2147483647 < p) : .25), p, i % 3 ? 1 : 2, "u" s % 900, "2020-01-01T0" i % 3 ":00:00Z", "ad" a, "ad" a "|ad" i % 7 "|ad" i % 7 } }' >many.csv
ctr-import --format csv --header $roles many.csv | ctr-select --add 'top=if(length(ad) <= 4, ad, "(rest)")' --add 'list=split(ads, "|")' -o many.arrows
# Values of ad0 … ad24 alone: the rest is what is no such.
cut_to() { grep -E "^(ad|top)=(ad[0-9]|ad1[0-9]|ad2[0-4]|\(rest\)) " | sed 's/^[a-z]*=//' | tr -s ' ' | sort; }
for args in '-m auc,log_loss,calibration' '-m auc,gauc --bootstrap 8' "-m auc,squared_error --control many.arrows" '--window 1h -m auc,normalized_entropy'; do
    is "many values, the rest summed: $args" "$(ctr-eval $args --by ad --slices 25 many.arrows | cut_to)" "$(ctr-eval $args --by top many.arrows | tr -d \' | cut_to)"
done
ctr-eval --by ad,list --slices 20 --window 1h --bootstrap 4 --format stream many.arrows >s1
ctr-cat --batch 7 many.arrows | ctr-eval --by ad,list --slices 20 --window 1h --bootstrap 4 --format stream -j 4 >s4
ok "the same bytes for any -j and batch" cmp s1 s4
is "no row is lost" "$(ctr-export --format csv --columns by,window,rows s1 | awk -F, '$1 == "ad" { n[$2 != ""] += $3 } END { print n[0], n[1] }')" "30000 30000"
awk 'BEGIN { print "click,p,k"; for (i = 0; i < 5000; i++) print "1,0.5,v" (i == 1000 || i == 2000 ? "late" : i); for (i = 0; i < 100; i++) print "1,0.5,vlate" }' |
    ctr-import --format csv --header --label click --score p >late.arrows
exits "a value that went and came back" 0 ctr-eval --by k --slices 1 -m rows late.arrows
err_like "may lack rows, which is said" '1 slices may lack up to [2-9] of their rows, which are in .rest.: a larger --slices finds them'
is "they are in the rest" "$(cat out)" "slice     rows  positives
total     5100       5100
k=vlate    100        100
k=(rest)  5000       5000"
exits "few enough values" 0 ctr-eval --by ad --slices 700 many.arrows
is "nothing is lacking" "$(grep -v 'labels of one class' err)" ""
case $CTR_BUILD in
*san*) skip "memory is bounded" "sanitizers have allocators of their own" ;;
*)
    awk 'BEGIN { print "click,p,k"; for (i = 0; i < 600000; i++) print i % 2 "," (i % 10) / 10 "," i }' | ctr-import --format csv --header --label click --score p >wide.arrows
    ok "600,000 values in the memory of 1,832" below 20000 ctr-eval -m log_loss,calibration --by k --slices 101 wide.arrows
    ;;
esac

# ---- control and intervals
sed 's/0\.9/0.1/' small.csv >worse.csv
import worse.csv >worse.arrows
is "a control" "$(ctr-eval --control worse.arrows -m auc,squared_error small.arrows)" "\
slice  metric            value   control  change_%
total  auc            0.636364  0.303030   110.000
total  squared_error  0.235294  0.329412   -28.571"
ctr-cat --batch 3 worse.arrows -o threes.arrows
ctr-eval --control worse.arrows small.arrows >ones
ctr-cat --batch 2 small.arrows | ctr-eval --control threes.arrows >others
ok "in batches of its own" cmp ones others
sed '3s/^0/1/' small.csv >label.csv
sed '4s/,b,/,c,/' small.csv >user.csv
sed '$d' small.csv >fewer.csv
for i in label user fewer; do import $i.csv >$i.arrows; done
exits "a control with another label" 1 ctr-eval --control label.arrows small.arrows
err_like "says the row" 'row 2: label.arrows has another label: --control wants the same rows in the same order'
exits "a control with another user" 1 ctr-eval --control user.arrows small.arrows
err_like "says the row" 'row 3: user.arrows has another user'
exits "a control with fewer rows" 1 ctr-eval --control fewer.arrows small.arrows
err_like "says so" 'row 7: fewer.arrows has fewer rows'
exits "a control with more rows" 1 ctr-eval --control small.arrows fewer.arrows
err_like "says so" 'row 7: small.arrows has more rows'
sed '3s/0\.8/1.8/' small.csv >high.csv
import high.csv >high.arrows
exits "a control with a bad score" 1 ctr-eval --control high.arrows small.arrows
err_like "names file and row" 'high.arrows: row 2: the score \(column p\) is 1.8, but must be in \[0, 1\]'

awk -v OFS=, 'BEGIN { print "click,p,user"; s = 1; for (i = 0; i < 3000; i++) { s = (s * 16807) % 2147483647; p = s / 2147483647
    s = (s * 16807) % 2147483647; print (s / 2147483647 < p * p), p, "u" s % 40 } }' >some.csv
ctr-import --format csv --header --label click --score p --user user some.csv >some.arrows
ctr-eval --bootstrap 200 --format stream -j 1 some.arrows >b1
ctr-eval --bootstrap 200 --format stream -j 4 some.arrows >b4
ctr-cat --batch 7 some.arrows | ctr-eval --bootstrap 200 --format stream -j 2 >b7
ok "3000 rows were made" test -s b1
ok "the same bytes for 1 and 4 threads" cmp b1 b4
ok "and for any batch" cmp b1 b7
ctr-eval --bootstrap 200 --seed 2 --format stream some.arrows >b2
ok "another seed, another interval" sh -c '! cmp -s b1 b2'
ctr-export --format csv b1 >b1.csv
ok "intervals lie around values" awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i } NR == 2 {
    exit !($c["auc_low"] < $c["auc"] && $c["auc"] < $c["auc_high"] && $c["auc_high"] - $c["auc_low"] < .1 &&
           $c["gauc_low"] < $c["gauc"] && $c["gauc"] < $c["gauc_high"]) }' b1.csv
ctr-eval --control some.arrows --bootstrap 20 -m auc some.arrows >same
is "a model against itself" "$(awk 'NR == 2 { print $7, $8, $9 }' same)" "0.000 0.000 0.000"

# ---- reliability
is "a reliability diagram" "$(ctr-eval --reliability --bins 3 --ascii -m rows small.arrows)" "\
slice  rows  weight  positives
total     7   8.500          3

scores                   weight  mean_score  click_rate  # click rate, | mean score
0.200000 - 0.400000        3.50    0.342857    0.285714  ###########  |
0.700000 - 0.800000           4    0.750000    0.250000  ##########                    |
0.900000 - 0.900000           1    0.900000    1.000000  ####################################|###"
exits "no drawing in a stream" 2 ctr-eval --reliability --format stream small.arrows
exits "a time that nothing asks for" 2 ctr-eval --time t small.arrows
err_like "says what does" '--time goes with --window or --control'
exits "an id that nothing asks for" 2 ctr-eval --id user small.arrows
err_like "says what does" '--id goes with --control'
exits "a query" 2 ctr-eval --query user small.arrows
err_like "says what to do" '--query goes with --at: .*--by'
exits "a column twice" 2 ctr-eval --by user,t --by user small.arrows
err_like "is named" '^ctr-eval: small.arrows: user is named twice$'
exits "windows of no time" 2 ctr-eval -w 0s small.arrows
err_like "are refused" '--window wants more than 0'
exits "no bins" 2 ctr-eval --reliability --bins 0 small.arrows

# ---- what is not good
bad() { # NAME SED-SCRIPT REGEX
    sed "$2" small.csv >bad.csv
    import bad.csv >bad.arrows
    exits "$1" 1 ctr-eval bad.arrows
    err_like "$1: said" "$3"
}
bad "a label of 2" '3s/^0/2/' 'bad.arrows: row 2: the label \(column click\) is 2, but must be in \[0, 1\]'
bad "a missing label" '3s/^0//' 'row 2: the label \(column click\) is null'
bad "a score below 0" '4s/0\.7/-0.7/' 'row 3: the score \(column p\) is -0.7'
bad "a score that is no number" '4s/0\.7/nan/' 'row 3: the score \(column p\) is (nan|null)'
bad "a negative weight" '5s/,1,/,-1,/' 'row 4: the weight \(column w\) is -1, but must be finite and not negative'
bad "an infinite weight" '5s/,1,/,inf,/' 'row 4: the weight \(column w\) is (inf|null)'
sed '4s/2020[^,]*//' small.csv >bad.csv
import bad.csv >bad.arrows
exits "a missing time" 1 ctr-eval --window 1h bad.arrows
err_like "a missing time: said" 'row 3: the time \(column t\) is null'
exits "no such metric" 2 ctr-eval --metrics auk small.arrows
err_like "the nearest is named" "no metric is called 'auk'; the nearest is 'auc'"
exits "a metric of another trade" 2 ctr-eval --metrics zzz-score small.arrows
err_like "all are named" "no metric is called 'zzz-score'; there are auc, auc_loss, gauc, log_loss"
exits "a metric twice" 2 ctr-eval --metrics auc,log_loss,auc small.arrows
err_like "would be two columns of a name" "'auc' stands twice in the list of metrics"
ctr-import --format csv --header --label click --score p small.csv >plain.arrows
exits "gauc without users" 2 ctr-eval --metrics gauc plain.arrows
err_like "says what is needed" 'gauc needs the users.*--user NAME'
exits "no label" 2 sh -c 'ctr-import --format csv --header small.csv | ctr-eval'
err_like "names the option" 'no column has the role label: name one with --label NAME'
exits "an unknown column" 2 ctr-eval --by gender small.arrows
err_like "the nearest column" 'genre'
printf 'click,ad,product\n1,a,p\n0,b,q\n' | ctr-import -q -f csv --header -o products.arrows -
printf 'label click\nfeature ad\n' >products.plan
ctr-train lr -q --progressive products.p -o products.model products.plan products.arrows
exits "a column that the plan does not keep" 2 ctr-eval --by product products.p
err_like "a line of the plan keeps it" "there is no column 'product'; there are click, score; .keep product. in the plan passes it on$"
exits "where no plan made the rows" 2 ctr-eval --by product plain.arrows
err_like "there is no such line" "there is no column 'product'; there are .*[a-z]$"
ok "nor is it told" sh -c "! grep -q keep '$W/err'"
exits "a label of text" 2 ctr-eval --label genre small.arrows
err_like "says what fits" 'column genre is utf8, but a label must be a bool or a number'
exits "too little memory" 1 ctr-eval --memory 1K some.arrows
err_like "says what is needed" '--memory does not hold the 3000 rows so far in order of score: [0-9.]+ KiB are needed'
head -c 600 small.arrows >cut.arrows
exits "truncated input" 1 ctr-eval cut.arrows

# ---- one class, no rows
sed '1!s/^[^,]*,/0,/' small.csv >zero.csv
import zero.csv >zero.arrows
exits "one class is no failure" 0 ctr-eval -m auc,log_loss,calibration zero.arrows
err_like "but explained" 'all 7 labels are 0: auc, gauc and normalized_entropy are undefined'
is "and shown" "$(cat out)" "\
slice  rows  weight  positives  auc  log_loss  calibration
total     7   8.500          0    -  1.108153            -"
printf 'label,score,s\n1,.5,a\n0,.3,a\n1,.2,b\n0,.2,c\n' | ctr-import -q -f csv --header --label label --score score -o "$W/slices.arrows"
exits "slices of one class" 0 ctr-eval --by s "$W/slices.arrows"
err_like "are counted" '2 of 3 slices have labels of one class, or no weight: auc, gauc and normalized_entropy are undefined there'
exits "no slice of one class" 0 ctr-eval "$W/slices.arrows"
ok "is not told of" test ! -s "$W/err"
head -1 small.csv >none.csv
ctr-import --format csv --header --columns click:int8,p:float64,w:float64,user:utf8,t:timestamp,genre:utf8 $roles none.csv >none.arrows
exits "no rows is no failure" 0 ctr-eval --by genre -m auc,log_loss none.arrows
err_like "but explained" 'the input has no rows: no metric is defined'
is "and shown" "$(cat out)" "\
slice  rows  weight  positives  auc  log_loss
total     0       0          0    -         -"

# ---- slices are values: these had one hash under any secret
printf 'click,p,x\n1,.5,.1925\n0,.25,15662147458457960000\n1,.5,.1925\n0,.5,0\n0,.5,-0\n1,.5,\n' |
    ctr-import -q -f csv --header --null '' --label click --score p --columns click:int8,p:float64,x:float64 >floats.arrows
is "floats by value" "$(ctr-eval --by x -m log_loss floats.arrows | awk 'NR > 2 { print $1, $2 }' | tr '\n' ' ')" \
    'x=0 2 x=0.1925 2 x=1.566214745845796e+19 1 x=(missing) 1 '
printf 'click,p,id\n1,.5,victim000033801\n' | ctr-import -f csv --header --label click --score p --id id >one.arrows
printf 'click,p,id\n1,.5,qIk8.C33\n' | ctr-import -f csv --header --label click --score p --id id >other.arrows
exits "a control with another id, of the same hash" 1 ctr-eval --control other.arrows one.arrows
err_like "is told" 'row 1: other.arrows has another id'
users() { awk 'BEGIN { print "click,p,who"; for (i = 0; i < 4000; i++) printf "%d,%.4f,a user with a long name %d\n", i % 3 == 0, i * 7 % 1000 / 1000, i * 13 % 500 }'; }
users | ctr-import -f csv --header --label click --score p --user who >texts.arrows
users | sed '2,$s/[a-z ]*\([0-9]*\)$/\1/' | ctr-import -f csv --header --label click --score p --user who >numbers.arrows
is "users by text" "$(ctr-eval -m gauc texts.arrows)" "$(ctr-eval -m gauc numbers.arrows)"

# ---- rows without a user: user a ranks right (auc 1), the null rows wrong (0); one of them is fractional: two halves, as in AUC
cat >nobody.csv <<'END'
click,p,user,site
1,0.9,a,x
0,0.2,a,x
1,0.1,,x
0,0.8,,x
0.5,0.4,,y
END
import_users() { ctr-import --format csv --header --label click --score p --user user "$@"; }
import_users nobody.csv >nobody.arrows
gauc() { ctr-eval -m gauc "$@" 2>said | awk 'NR == 2 { print $4, $5, $6, $7 }'; }
is "gauc leaves rows without a user out" "$(gauc nobody.arrows)" "1.000000 1 0 4"
is "and says so" "$(cat said)" "ctr-eval: 3 rows have no user: gauc leaves them out (--null-user one takes them as one user's)"
is "or they are one user's" "$(gauc --null-user one nobody.arrows)" "0.433333 2 0 0"
is "which needs no words" "$(cat said)" ""
is "also by slice" "$(ctr-eval -m gauc --by site nobody.arrows 2>/dev/null | awk 'NR > 2 { print $1, $4, $5, $6, $7 }')" "\
site=x 1.000000 1 0 2
site=y - 0 0 2"
is "by batches of one row" "$(ctr-cat --batch 1 nobody.arrows | gauc)" "1.000000 1 0 4"
ok "each of them is resampled by itself" test "$(ctr-eval -m gauc,mean_label --bootstrap 50 nobody.arrows 2>/dev/null |
    awk 'NR == 2 { print $3, $4, $5 } NR == 3 { print ($4 < $5) }' | tr '\n' ' ')" = "1.000000 1.000000 1.000000 1 "
exits "another word" 2 ctr-eval --null-user many nobody.arrows
ctr-eval -m auc nobody.arrows >out 2>err
is "without gauc there is nothing to say" "$(cat err)" ""

# ---- windows of a stream that goes on: each as soon as it is over, what --window gives at the end
live() { ctr-eval --window 1h --lateness "$@"; }
is "each window by itself, the total and its slices" "$(live 0s --by genre -m auc,calibration small.arrows)" "\
slice    window                rows  weight  positives       auc  calibration
total    2020-01-01T00:00:00Z     3       4          2  0.500000     1.600000
genre=x  2020-01-01T00:00:00Z     2       2          2         -     0.800000
genre=y  2020-01-01T00:00:00Z     1       2          0         -            -

slice    window                rows  weight  positives       auc  calibration
total    2020-01-01T01:00:00Z     3       4          1  0.500000     1.800000
genre=x  2020-01-01T01:00:00Z     1       1          0         -            -
genre=y  2020-01-01T01:00:00Z     2       3          1  0.750000     1.100000

slice            window                rows  weight  positives  auc  calibration
total            2020-01-01T02:00:00Z     1   0.500          0    -            -
genre=(missing)  2020-01-01T02:00:00Z     1   0.500          0    -            -"
# Times run backwards by up to 40 minutes, some sites come and go.
awk -v OFS=, 'BEGIN { s = 7; print "click,p,q,user,t,site"; for (i = 0; i < 4000; i++) { s = s * 16807 % 2147483647; u = s / 2147483647
    t = i * 20 - int(u * u * 2400) + 86400; printf("%d,%.3f,%.3f,u%d,1970-01-%02dT%02d:%02d:%02dZ,s%d\n", u < .3, u / 2 + .1, 1 - u, i * 7 % 50,
    1 + t / 86400, t / 3600 % 24, t / 60 % 60, t % 60, i * i % 7 + int(i / 1000)) } }' >walk.csv
import_walk() { ctr-import --format csv --header --label click --user user --time t "$@" walk.csv; }
import_walk --score p >walk.arrows
import_walk --score q >other.arrows
rows_of() { ctr-export -f csv --no-header | sort; }
for more in "" "--by site" "--by site,user --slices 3" "--by site --control other.arrows" "--by site --bootstrap 20"; do
    ctr-eval --window 1h $more --format stream walk.arrows | ctr-select --where 'not is_null(window)' | rows_of >at-end
    live 40m $more --format stream walk.arrows >live.out 2>said
    case $more in
    *slices*) # of each window those with the most rows, not of the whole
        ok "live, $more: the totals" sh -c "ctr-export -f csv --no-header live.out | grep '^,,' | sort >a; grep '^,,' at-end | cmp a -"
        ok "live, $more: every row is in a slice" test "$(ctr-select --where 'by == "site"' live.out | ctr-export -c rows --no-header |
            awk '{ n += $1 } END { print n }')" = 4000 ;;
    *bootstrap*) # the number of a user is that of the window
        ok "live, $more: the same values" sh -c "cut -d, -f1-6 at-end >a; rows_of() { ctr-export -f csv --no-header | sort; }; rows_of <live.out | cut -d, -f1-6 | cmp a -" ;;
    *) ok "live $more: the windows of the whole" sh -c "ctr-export -f csv --no-header live.out | sort | cmp - at-end" ;;
    esac
    is "live $more: nothing to say" "$(cat said)" ""
    ctr-cat --batch 7 walk.arrows | live 40m $more --format stream -j 3 | ctr-info --digest | cut -d' ' -f1 >d
    is "live $more: by other batches" "$(cat d)" "$(ctr-info --digest live.out | cut -d' ' -f1)"
done
live 5m -m rows --format stream walk.arrows 2>said >late.arrows
lost=$(sed -n 's/^ctr-eval: \([0-9]*\) rows so far came after.*/\1/p' said | tail -n 1)
is "a row that is late is counted" "$(ctr-export -c rows --no-header late.arrows | awk -v n="$lost" '{ n += $1 } END { print n, (n > 0) }')" "4000 1"
ok "and more than one" test "$lost" -gt 10
mkfifo grows
live 40m -m rows grows >seen.txt 2>said &
pid=$!
exec 3>grows
ctr-cat --batch 100 walk.arrows >whole.arrows
head -c $(($(wc -c <whole.arrows) / 2)) whole.arrows >&3
ok "a window is written while the stream goes on" until_true grep -q 1970-01-02T05:00:00Z seen.txt
ok "and no more than is over" sh -c "! grep -q 1970-01-02T20 seen.txt"
tail -c +$(($(wc -c <whole.arrows) / 2 + 1)) whole.arrows >&3
exec 3>&-
wait $pid
is "to the end" "$? $(grep -c total seen.txt)" "0 $(awk -F, 'NR > 1 { print substr($5, 1, 13) }' walk.csv | sort -u | wc -l)"
exits "--lateness without windows" 2 ctr-eval --lateness 5m walk.arrows
exits "--lateness and a drawing" 2 live 5m --reliability walk.arrows
exits "a null time" 1 sh -c "sed '3s/1970[^,]*//' walk.csv | ctr-import --format csv --header --label click --score p --time t | ctr-eval --window 1h --lateness 1m"
err_like "is named" 'row 2: the time \(column t\) is null; --bad-rows skip=MAX or quarantine=FILE leaves such rows out'
exits "too little memory" 1 live 5m --memory 1K walk.arrows
err_like "says what is needed" '--memory does not hold'
if [ -z "$SAN" ]; then # a hundred times as many windows take no more memory
    long() { awk -v OFS=, -v n=$1 'BEGIN { print "click,p,t"; for (i = 0; i < n; i++) print i % 5 == 0, i % 100 / 100, i * 30 }' |
        ctr-import --format csv --header --label click --score p --columns click:int8,p:float32,t:timestamp --time t:unix; }
    long 400000 >long.arrows
    ok "memory is that of the windows that are open" below 12000 ctr-eval --window 1h --lateness 0s long.arrows
fi

# ---- against others
if has_python pyarrow numpy sklearn; then
    cat >ref.py <<'END'
import os, subprocess, sys, io, numpy as np, pyarrow as pa
from sklearn.metrics import roc_auc_score, log_loss, brier_score_loss

def evaluate(cols, args, roles):
    a = {k: v if isinstance(v, pa.Array) else pa.array(v) for k, v in cols.items()}
    s = pa.schema([pa.field(k, v.type, metadata={'ctr.role': roles[k]} if k in roles else None) for k, v in a.items()])
    buf = io.BytesIO()
    t = pa.Table.from_arrays(list(a.values()), schema=s)
    with pa.ipc.new_stream(buf, s) as w:
        for b in t.to_batches(max_chunksize=997):
            w.write_batch(b)
    out = subprocess.run(['ctr-eval', '--format', 'stream'] + args, input=buf.getvalue(), stdout=subprocess.PIPE, check=True)
    return pa.ipc.open_stream(out.stdout).read_all().to_pylist()

def auc(p, y, w):
    return roc_auc_score(np.r_[np.zeros(len(y)), np.ones(len(y))], np.r_[p, p], sample_weight=np.r_[w * (1 - y), w * y])

def near(what, a, b):
    if not abs(a - b) <= 1e-9 * max(1, abs(b)):
        sys.exit(f'{what}: {a} is not {b}')

san = '-san' in os.environ['CTR_BUILD'] # there scores of both widths, with and without weights
roles = {'y': 'label', 'p': 'score', 'w': 'weight', 'u': 'user'}
for seed in [0, 3] if san else range(6):
    rng = np.random.default_rng(seed)
    n = 5000
    p = rng.beta(1, 3, n)
    if seed % 2:
        p = np.round(p, 2).astype(np.float32)
    y = (rng.random(n) < p).astype(float)
    if seed >= 3:
        y = np.where(rng.random(n) < .2, rng.random(n), y)
    w = np.ones(n) if seed in (0, 1) else rng.integers(0, 4, n) / 2
    u = rng.integers(0, 200, n)
    g = [list(rng.choice(['a', 'b', 'c'], rng.integers(0, 5))) for _ in range(n)]
    cols = {'y': y, 'p': p, 'u': u, 'g': pa.array(g, pa.list_(pa.string()))}
    if seed > 1:
        cols['w'] = w
    rows = evaluate(cols, ['--by', 'g'], roles)
    t, q = rows[0], p.astype(float)
    near('auc', t['auc'], auc(q, y, w))
    near('log_loss', t['log_loss'], -(w * (y * np.log(np.maximum(q, 2**-52)) + (1 - y) * np.log(1 - q))).sum() / w.sum())
    if seed < 3:
        near('log_loss of scikit-learn', t['log_loss'], log_loss(y, np.clip(q, 2**-52, 1), sample_weight=w))
        near('squared_error', t['squared_error'], brier_score_loss(y, q, sample_weight=w))
    near('calibration', t['calibration'], (w * q).sum() / (w * y).sum())
    num = den = out_users = out_rows = 0
    for k in np.unique(u):
        m = u == k
        if (w * y)[m].sum() > 0 and (w * (1 - y))[m].sum() > 0:
            num += w[m].sum() * auc(q[m], y[m], w[m])
            den += w[m].sum()
        else:
            out_users += 1
            out_rows += m.sum()
    near('gauc', t['gauc'], num / den)
    near('left out users', t['left_out_users'], out_users)
    near('left out rows', t['left_out_rows'], out_rows)
    near('users', t['users'], len(np.unique(u)) - out_users)
    for r in rows[1:]:
        m = np.array([r['slice'] in x for x in g])
        near('rows of ' + r['slice'], r['rows'], m.sum())
        near('auc of ' + r['slice'], r['auc'], auc(q[m], y[m], w[m]))

# Rows that weigh 1: slices by texts short, long and with zero bytes, by the same as a dictionary, by small and large numbers, with nulls.
names = ['', 'a', 'ab', 'ab\0', 'x' * 15, 'x' * 16, 'x' * 17] + [f'site{i}' for i in range(300)]
for seed in [1, 2] if san else range(4):
    rng = np.random.default_rng(seed)
    n = 6000
    p = [rng.beta(1, 3, n), np.round(rng.beta(1, 3, n), 2).astype(np.float32), rng.choice([0, 5e-324, 1e-300, .25, 1], n), np.full(n, .5)][seed]
    y = (rng.random(n) < .2 + .5 * p).astype(np.int8)
    k = np.minimum(rng.integers(0, len(names), n), rng.integers(0, len(names), n))
    lost = rng.random(n) < .03
    texts = pa.array([None if lost[i] else names[k[i]] for i in range(n)])
    numbers = pa.array([None if lost[i] else int(k[i]) * (10**12 if k[i] % 5 == 0 else 1) for i in range(n)])
    by = {'s': texts, 'd': texts.dictionary_encode(), 'i': numbers, 'e': numbers.dictionary_encode()}
    cols = {'y': y, 'p': p, **by}
    roles = {'y': 'label', 'p': 'score'}
    for some in ([], ['--slices', '20']):
        rows = evaluate(cols, ['-m', 'auc,log_loss,squared_error,calibration', '--by', 's,d,i,e'] + some, roles)
        of = {c: [r for r in rows if r['by'] == c] for c in by}
        value = np.where(lost, '(missing)', np.array(names, object)[k])
        shown = {r['slice'] for r in of['s']}
        for r in of['s'] + [rows[0]]:
            # by Python, since NumPy compares without zero bytes at the end
            m = np.array([v not in shown if r['slice'] == '(rest)' else r['slice'] in (None, v) for v in value])
            if not m.any():
                continue
            near('rows', r['rows'], m.sum())
            near('squared error', r['squared_error'], ((p[m].astype(float) - y[m]) ** 2).mean())
            if 0 < y[m].sum() < m.sum():
                near(f'auc of {r["slice"]}', r['auc'], roc_auc_score(y[m], p[m]))
            elif r['auc'] is not None:
                sys.exit('an auc of one class')
        bare = lambda c: sorted(str([v for key, v in r.items() if key not in ('by', 'slice')]) for r in of[c])
        if not bare('s') == bare('d') == bare('i') == bare('e'):
            sys.exit('slices depend on how the column is stored')
    found = {str(evaluate({'y': y, 'p': p, 'u': u}, ['-m', 'gauc,auc'], {**roles, 'u': 'user'})) for u in by.values()}
    if len(found) != 1:
        sys.exit(f'gauc depends on how users are stored: {found}')
END
    ok "agrees with scikit-learn and plain loops, slices by list too" "$PY" ref.py
else
    skip "agrees with scikit-learn and plain loops" "no pyarrow and scikit-learn: set CTR_PYTHON"
fi
if [ -d "$DATA/ipinyou_scored" ]; then
    for i in train test; do
        ctr-import --format csv --delimiter "$(printf '\t')" --columns click:int8,price:int32,pctr:float64,slot:int32 \
            --label click --score pctr "$DATA/ipinyou_scored/sam.1458.$i.txt.gz" >$i.arrows
    done
    is "iPinYou, 1458.train" "$(ctr-eval -m auc train.arrows | awk 'NR == 2 { print $2, $3, $4 }')" "220000 156 0.752936"
    is "iPinYou, 1458.test" "$(ctr-eval -m auc test.arrows | awk 'NR == 2 { print $2, $3, $4 }')" "80000 51 0.730479"
else
    skip "iPinYou" "no ../shared/data"
fi

# ---- predictions of several models
printf 'click,score.fast,score.slow,scores\n1,.5,.6,1\n0,.25,.125,2\n' | ctr-import -f csv --header --label click -o many.arrows
exits "several scores, none with the role" 2 ctr-eval many.arrows
err_like "are listed" 'no column has the role score: name one with --score NAME; there are score.fast, score.slow$'
exits "a score that is not there" 2 ctr-eval --score score.fsat many.arrows
err_like "is told the nearest" "there is no column 'score.fsat'; the nearest is 'score.fast'"
ok "one of them" ctr-eval --score score.fast many.arrows
# ---- weights that overflow, or vanish: no mean, and never 0
for w in 1e308 1e-200; do
    printf 'click,w,score\n1,%s,.4\n0,%s,.3\n' $w $w | ctr-import -f csv --header --label click --weight w --score score --columns click:int8,w:float64,score:float64 -o wide.arrows
    ctr-eval wide.arrows >wide 2>wide.err
    ok "weights of $w are said" grep -q 'the weights add up to' wide.err
done
is 'no metric of 0' "$(ctr-eval -q -f stream --metrics log_loss,squared_error,auc wide.arrows | ctr-export -c auc --no-header)$(printf 'click,w,score\n1,1e308,.4\n0,1e308,.3\n' | ctr-import -f csv --header --label click --weight w --score score --columns click:int8,w:float64,score:float64 | ctr-eval -q -f stream --metrics log_loss,squared_error | ctr-export -c log_loss,squared_error --no-header)" '"",'
# ---- many users in many days: the rest takes those that go, not the windows of all that stay, time and again
rows=${SAN:+60000} rows=${rows:-600000}
awk -v n=$rows 'BEGIN { for (i = 0; i < n; i++) print i % 2 ",.5," (i % 2 ? i : i % 998) "," 86400 * (i * 7919 % 3001) }' |
    ctr-import -f csv --label click --score p --time t:unix --columns click:int8,p:float64,u:utf8,t:timestamp -o days.arrows
ok '--slices 5 of '$((rows / 2))' users by day, in 5 s of a processor' sh -c 'ulimit -t 5; exec ctr-eval -q --time t --by u --window 1d --slices 5 --metrics log_loss days.arrows >days'
is 'with all rows of all days' "$(awk '$1 == "u=(rest)" && $2 == "all" || $1 ~ /^u=[0-9]/ && $2 == "all" { n += $3 } END { print n }' days)" $rows

# ---- a value with the byte 0 is a value of its own
printf 's,l,score\na\000c,0,.2\na\000b,1,.5\na,1,.9\na\000b,0,.1\n\000,1,.5\n' | ctr-import -qf csv --header --label l --score score >"$W/nul.arrows"
is "the byte 0 in slices: each has its row" "$(ctr-eval --by s "$W/nul.arrows" | awk 'NR > 2 { print $1, $2 }' | tr '\n' ';')" \
    "s=\$'\\x00' 1;s=a 1;s=\$'a\\x00b' 2;s=\$'a\\x00c' 1;"
is "and its text in the stream" "$(ctr-eval --by s -f stream "$W/nul.arrows" | ctr-export --no-header -c slice | tail -n +2 | tr '\000' 0 | tr '\n' ' ')" '0 a a0b a0c '
if [ -x "$CTR_BUILD/bin/ctr-gridviz" ]; then
    is "and on the page" "$(ctr-eval --by s -f stream "$W/nul.arrows" | ctr-gridviz | grep -o '"slice":\[[^]]*\]')" '"slice":["","\u0000","a","a\u0000b","a\u0000c"]'
fi
# A click whose weight is lost in the sum of the others is no reason to say that there are none.
printf 'score,label,weight\n.2,0,1e-300\n.6,1,1\n.5,1,1\n' | ctr-import -q --format csv --header -o tiny.arrows
exits 'a weight that vanishes' 0 ctr-eval --label label --score score --weight weight tiny.arrows
err_like 'is not said to be no row' '^ctr-eval: all 3 labels are 1, or the weights of the others vanish in the sum: auc'
exits 'without weights' 0 sh -c 'ctr-select --where label==1 tiny.arrows | ctr-eval --label label --score score'
err_like 'labels are all one' '^ctr-eval: all 2 labels are 1: auc'
# ---- a terminal
if has_python pty; then
    { echo y,p,site && awk -v OFS=, 'BEGIN { for (i = 0; i < 40; i++) print i % 3 == 0, (i * 7 % 40) / 40, i % 2 ? "a.site.with.a.very.long.name.example.com" : "b" }'; } |
        ctr-import -q -f csv --header --label y --score p -o "$W/sites.arrows"
    for w in 300 20 40 60 80 120; do
        "$PY" "$CTR_TOP/tests/term.py" $w ctr-eval --progress never --by site --metrics auc,log_loss,squared_error "$W/sites.arrows" >"$W/term.$w"
        ok "a table is not wider than $w columns" "$PY" -c "import sys; sys.exit(any(len(l.rstrip('\n')) > max($w, 31) for l in open('$W/term.$w')))"
        is "each value stands in it, $w" "$(tr ' ' '\n' <"$W/term.$w" | grep -c '^[0-9][0-9.]*$')" "$(tr ' ' '\n' <"$W/term.300" | grep -c '^[0-9][0-9.]*$')"
    done
    is "with room it is that of a pipe" "$(cat "$W/term.300")" "$(ctr-eval --by site --metrics auc,log_loss,squared_error "$W/sites.arrows")"
else
    skip "a terminal" "no python"
fi
done_testing
