#!/bin/sh
# ctr-plot: its numbers against those of plot_reference.py, which reads them back from the figures; figures without data; hostile names; the same bytes for any
# threads and batches; figures as a person can read them in a diff (tests/golden/plot); in a real browser.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
has_python xml.etree.ElementTree || skip_all "no Python"
judged() { # judged NAME KIND SVG CSV ARGUMENT…
    _what=$1
    shift
    ok "$_what" "$PY" "$CTR_TOP/tests/plot_reference.py" "$@"
}
svg() { "$PY" -c 'import sys, xml.etree.ElementTree as e; [e.parse(f) for f in sys.argv[1:]]' "$@"; }

# ---- rows: ties, weights, fractional labels; two models
awk 'BEGIN { srand(5); print "time,site,click,score,other,w,x"
  for (i = 0; i < 3000; i++) { h = int(24 * rand()); q = int(1 + 60 * rand() * rand()) / 100
    y = rand() < q; if (i % 97 == 0) y = .25
    printf "2026-01-0%dT%02d:%02d:00Z,s%d,%s,%s,%.3f,%.2f,%.3f\n", 1 + i / 1000, h, i % 60, i % 7, y, q, q * rand(), .5 + rand(), exp(6 * rand()) } }' >rows.csv
types=time:timestamp,site:utf8,click:float64,score:float64,other:float64,w:float64,x:float64
ctr-import -q -f csv --header --columns $types --label click --score score --time time --weight w -o rows.arrows rows.csv
ctr-import -q -f csv --header --columns $types --label click --score other --time time -o other.arrows rows.csv
cut -d, -f1-4 rows.csv >plain.csv
ctr-import -q -f csv --header --columns time:timestamp,site:utf8,click:float64,score:float64 --label click --score score --time time -o plain.arrows plain.csv
awk -F, 'NR == 1 { $4 = "x"; $5 = "score" } 1' OFS=, rows.csv | cut -d, -f1-3,5 >other.csv
for kind in reliability roc pr lift scores learning; do
    ctr-plot $kind -o $kind.svg plain.arrows
    judged "$kind: its numbers" $kind $kind.svg plain.csv
    ctr-plot $kind -o $kind.w.svg rows.arrows
    judged "$kind of weighted rows" $kind $kind.w.svg rows.csv
done
judged 'scores: those with clicks' scores scores.svg plain.csv series=1
for kind in reliability roc pr lift; do
    ctr-plot $kind -o $kind.2.svg plain.arrows other=other.arrows
    judged "$kind of two models" $kind $kind.2.svg plain.csv name='plain: '
    judged "$kind: the second one" $kind $kind.2.svg other.csv name='other: ' series=1
done
ctr-plot reliability --bins 3 -o bins.svg plain.arrows
judged 'other bins' reliability bins.svg plain.csv bins=3
ctr-plot learning --bins 7 -o blocks.svg plain.arrows
judged 'other blocks' learning blocks.svg plain.csv bins=7
ctr-plot scores --bins 7 -o few.svg plain.arrows
judged 'fewer bins of scores' scores few.svg plain.csv bins=7
ctr-plot hours -o hours.svg rows.arrows
judged 'hours' hours hours.svg rows.csv
ctr-plot histogram --column x -o x.svg plain=other.arrows
judged 'a histogram, whose ends are left out' histogram x.svg rows.csv column=x
ctr-select --where 'x < 30' other.arrows | ctr-plot histogram --column x -o small.svg
awk -F, 'NR == 1 || $7 < 30' rows.csv >small.csv
judged 'a histogram' histogram small.svg small.csv column=x
ctr-select --columns n --add 'n = row_number % 23' --add-row row_number other.arrows >whole.arrows 2>/dev/null ||
    awk 'BEGIN { print "n"; for (i = 0; i < 3000; i++) print i % 23 }' | ctr-import -q -f csv --header -o whole.arrows
ctr-plot histogram --column n -o whole.svg whole.arrows
ctr-export -f csv whole.arrows >whole.csv
judged 'whole numbers have bins of 1' histogram whole.svg whole.csv column=n
is 'as many as numbers' "$(grep -c '<rect class="ctr-f0 ctr-faint"' whole.svg)" 23

# ---- tables of other tools
for m in plain other; do ctr-eval -q --by site --window 6h --bootstrap 30 --format stream --metrics log_loss,auc -o $m.eval $m.arrows; done
ctr-plot metric -o metric.svg plain.eval other.eval
for m in plain other; do ctr-export -f csv $m.eval >$m.eval.csv; done
judged 'a metric by time with intervals' metric metric.svg plain.eval.csv metric=auc
judged 'of the second model' metric metric.svg other.eval.csv metric=auc series=1
ctr-plot metric --metric log_loss -o loss.svg plain.eval
judged 'another metric' metric loss.svg plain.eval.csv metric=log_loss
ctr-eval -q --window 6h --control other.arrows --metrics log_loss --format stream plain.arrows | ctr-plot metric -o control.svg
is 'the kinds of the help are those of the manual' "$(ctr-plot --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' | sort | tr '\n' ' ')" "$(sed -n 's/^\.It Cm \([a-z]*\)$/\1/p' "$CTR_TOP/man/ctr-plot.1" | sort | tr '\n' ' ')"
ctr-eval -q --window 6h --metrics calibration --format stream plain.arrows | ctr-plot metric -o calibration.svg
is 'calibration has a line at 1' "$(grep -c '<path class="ctr-r"' calibration.svg)" 1
is 'a control is a second line' "$(grep -c 'class="ctr-line ctr-l1" d="M[0-9. ]*L' control.svg)" 1
ctr-stats --format stream rows.arrows -o stats.arrows
ctr-export -f csv --columns name,information stats.arrows >stats.csv
ctr-plot importance -o stats.svg stats.arrows
judged 'importance: information' importance stats.svg stats.csv column=information
ctr-select --where 'site != "s6" and x < 100' rows.arrows | ctr-stats --against rows.arrows --format stream -o drift.arrows
ctr-export -f csv --columns name,psi drift.arrows >drift.csv
ctr-plot drift -o drift.svg drift.arrows
judged 'drift' drift drift.svg drift.csv column=psi
printf 'row,table,key,name,contribution\n1,(bias),9,,-2\n1,a,1,x,0.5\n1,a,2,y,-1.5\n1,b,3,z,0.25\n2,a,1,x,0.5\n2,b,4,u,-0.75\n2,,,,0.1\n' |
    ctr-import -q -f csv --header --null '' | ctr-plot importance -o explain.svg
is 'importance: contributions, summed by table and row' "$(grep -o '<title>[^<]*: [^<]*' explain.svg | sed 's/<title>//' | tr '\n' ';')" 'a: 0.75;b: 0.5;(rest): 0.05;'
printf 'table,key,name,count,weight\n(bias),9,,,-3\na,1,x,7,-0.5\na,255,,7,0.25\nb,3,z,7,\n' | ctr-import -q -f csv --header --null '' --columns table:utf8,key:uint64,name:utf8,count:uint64,weight:float64 |
    ctr-plot importance -o weights.svg
is 'importance: weights' "$(grep -o '<title>[^<]*: [^<]*' weights.svg | sed 's/<title>//' | tr '\n' ';')" 'a = x: -0.5;a #00000000000000ff: 0.25;'
is 'negative ones to the left' "$(grep -c '<rect class="ctr-f1" x=' weights.svg)" 1
ctr-plot histogram --column site -o sites.svg rows=rows.arrows plain.arrows
is 'a histogram of texts, of two inputs' "$(grep -c '<rect class="ctr-f1" x=.*<title>plain: ' sites.svg)" 7
ctr-plot histogram --column site --count 2 -o two.svg plain.arrows
is 'the most frequent ones' "$(grep -o 'ctr-t" x="[0-9.]*" y="[0-9.]*" text-anchor="end">[^<]*' two.svg | sed 's/.*>//' | tr '\n' ' ')" 's0 s1 (others) '
ctr-select --where false plain.arrows | ctr-plot histogram --column site --count 2 -o two.svg plain.arrows none=-
is 'an input without rows has no others' "$(grep -o '<title>none: [0-9.]*' two.svg | sort -u)" '<title>none: 0'

# ---- times
span() { printf 'by,window,rows,auc\n,2026-02-27T00:00:00Z,1,0.5\n,%s,1,0.6\n' "$1" | ctr-import -q -f csv --header --columns by:utf8,window:timestamp,rows:int64,auc:float64 --null '' |
    ctr-plot metric | sed -n 's/.*class="ctr-t ctr-[xm]".*>\(20[0-9-]*\|[0-9:.]*\)<\/text>/\1/p' | tr '\n' ' '; }
is 'ticks of minutes, and the date' "$(span 2026-02-27T00:20:00Z)" '00:00 2026-02-27 00:05 00:10 00:15 00:20 '
is 'of hours over midnight' "$(span 2026-02-28T06:00:00Z)" '00:00 2026-02-27 06:00 12:00 18:00 00:00 2026-02-28 06:00 '
is 'of days' "$(span 2026-03-03T00:00:00Z)" '2026-02-27 2026-02-28 2026-03-01 2026-03-02 2026-03-03 '
is 'of weeks, which begin on Mondays' "$(span 2026-03-31T00:00:00Z)" '2026-03-02 2026-03-09 2026-03-16 2026-03-23 2026-03-30 '
is 'of months' "$(span 2026-08-31T00:00:00Z)" '2026-03 2026-05 2026-07 '
is 'of years' "$(span 2031-01-02T00:00:00Z)" '2027 2028 2029 2030 2031 '
is 'before 1970' "$(span 1969-12-31T00:00:00Z | cut -c 1-14)" '1970 1980 1990'

# ---- nothing to draw
none() { sed -n 's/.*class="ctr-t ctr-n ctr-m".*>\(.*\)<\/text>/\1/p' "$1"; }
for kind in reliability roc pr lift scores learning hours 'histogram --column x' 'histogram --column site'; do
    ctr-select --head 0 rows.arrows >no.arrows
    # shellcheck disable=SC2086
    exits "$kind of no rows" 0 ctr-plot $kind -o no.svg no.arrows
    is "is a figure that says so: $kind" "$(none no.svg)" 'no rows'
    err_like "and so does stderr: $kind" '^ctr-plot: no rows$'
    ok "a whole one: $kind" svg no.svg
done
ctr-select --where 'click == 0' plain.arrows >zeros.arrows
ctr-select --where 'click == 1' plain.arrows >ones.arrows
for kind in roc pr lift; do
    ctr-plot $kind -q zeros.arrows >zeros.svg
    is "$kind without a click" "$(none zeros.svg)" 'undefined, as no row has a click'
done
ctr-plot roc -q ones.arrows >ones.svg
is 'roc of clicks alone' "$(none ones.svg)" 'undefined, as all rows have clicks'
ctr-plot roc zeros.arrows plain.arrows >both.svg
is 'beside another model it is said in the legend' "$(grep -c '>zeros: undefined, as no row has a click<' both.svg)" 1
ctr-plot reliability zeros.arrows >flat.svg
ok 'reliability of one class is drawn' grep -q '<circle' flat.svg
for kind in reliability roc pr lift scores learning hours 'histogram --column x' 'histogram --column site'; do
    # shellcheck disable=SC2086
    ctr-select --where 'click == 1' rows.arrows | ctr-select --head 1 | ctr-plot -q $kind -o one.svg
    ok "a single row: $kind" svg one.svg
done
ctr-select --add 'w = 0.0' --columns click,score,w plain.arrows >weightless.arrows
ctr-plot roc -q --weight w weightless.arrows >weightless.svg
is 'weights of 0' "$(none weightless.svg)" 'undefined, as all weights are 0'
printf 'x,y\nnan,1\ninf,\n,\n' | ctr-import -q -f csv --header --null '' --columns x:float64,y:float64 >odd.arrows
ctr-plot histogram -q --column x odd.arrows >odd.svg
is 'NaN, infinities and nulls are none' "$(none odd.svg)" 'no finite values'
printf 'x\n1\nnan\n2\n-inf\n\n-0\n0\n' | ctr-import -q -f csv --header --null '' --columns x:float64 | ctr-plot histogram --column x >odd.svg
is 'or counted' "$(grep -o '>4 values, [^<]*' odd.svg | head -n 1)" '>4 values, 1 null, 1 NaN, 1 infinite'
is '-0 is 0' "$(grep -c ': 2, 50%<' odd.svg)" 1
printf 'x\n1e300\n-1e300\n1e-300\n5e-324\n0\n' | ctr-import -q -f csv --header --columns x:float64 | ctr-plot histogram --column x >wide.svg
is 'the widest range' "$(grep -o ': [0-9], [0-9]*%<' wide.svg | tr '\n' ' ')" ': 1, 20%< : 3, 60%< : 1, 20%< '
printf 'site\na\n\nb\n' | ctr-import -q -f csv --header --null '' | ctr-plot histogram --column site >missing.svg
is 'a null text is a value' "$(grep -c '>(missing)<' missing.svg)" 1
printf 'site\n(missing)\n\n(empty)\n\047(missing)\047\n' | ctr-import -q -f csv --header --null '' | ctr-plot histogram --column site >missing.svg
is 'and not a text that reads like one' "$(grep -o ">[^<>]*([a-z]*)[^<>]*</text>" missing.svg | sort | tr '\n' ' ')" \
    ">''(missing)''</text> >'(empty)'</text> >'(missing)'</text> >(missing)</text> "
printf 'site,x\n,1\n(missing),2\n' | ctr-import -q -f csv --header --null '' -c site,x:int64 -o missing.arrows
ctr-stats --by site --against missing.arrows missing.arrows | ctr-plot drift >missing.svg
is 'also in a figure of slices' "$(grep -o ">x, [^<>]*</text>" missing.svg | sort | tr '\n' ' ')" ">x, '(missing)'</text> >x, (missing)</text> "
printf 'site\na\n""\nb\n' | ctr-import -q -f csv --header | ctr-plot histogram --column site >empty.svg
is 'so is the empty one' "$(grep -c '>(empty)<' empty.svg)" 1
printf 'w\n1e308\n-1e308\n1e300\n' | ctr-import -q -f csv --header | ctr-plot histogram --column w >wide.svg
ok 'the ends may lie farther apart than the largest number' sh -c '! grep -q -e nan -e inf wide.svg && grep -q "[^0-9]353V122" wide.svg'

# ---- errors
printf 'click,score\n1,0.5\n0,nan\n' | ctr-import -q -f csv --header --label click --score score >nan.arrows
for kind in reliability roc scores learning; do
    exits "$kind of a NaN" 1 ctr-plot $kind -o nan.svg nan.arrows
    err_like "names the row: $kind" 'nan.arrows: .*row 2.*NaN|nan.arrows: row 2: .*nan'
    ok "and writes nothing: $kind" test ! -e nan.svg
done
printf 'y,a\n1,x\n0,z\n' | ctr-import -q -f csv --header --label y -o pair.arrows
printf 'label y\nfeature a\n' >pair.plan
ctr-train lr -q pair.plan pair.arrows -o pair.model --progressive pair.progressive
ctr-extract pair.model pair.arrows | ctr-predict -q pair.model -o pair.predicted
exits 'learning of scores by a model that has learned' 2 ctr-plot learning -o nan.svg pair.predicted
err_like 'says what to give' 'pair.predicted: these are scores of ctr-predict: .* ctr-train --progressive'
ok 'and takes those' ctr-plot learning -o learning.svg pair.progressive
exits 'no kind' 2 ctr-plot
exits 'another word' 2 ctr-plot rok plain.arrows
err_like 'names the nearest' "no kind of figure 'rok'; the nearest is 'roc'"
exits 'a role that is missing' 2 ctr-plot roc stats.arrows
err_like 'is named' 'stats.arrows: no column has the role label: name one with --label NAME'
exits 'a table of another kind' 2 ctr-plot drift stats.arrows
err_like 'names what writes the right one' "stats.arrows: .*psi.*; ctr-stats --against REF --format stream writes it"
exits 'importance of rows' 2 ctr-plot importance plain.arrows
err_like 'says what it is made from' 'plain.arrows: no importance in it: ctr-model explain, ctr-model top or ctr-stats'
exits 'a metric of rows' 2 ctr-plot metric plain.arrows
err_like 'as well' 'ctr-eval --window 1h --format stream'
exits 'a histogram of what' 2 ctr-plot histogram plain.arrows
err_like 'is asked' 'histogram wants a column: --column NAME'
exits 'of a column that is not there' 2 ctr-plot histogram --column sit plain.arrows
err_like 'names the nearest' "the nearest is 'site'"
exits 'two inputs for one' 2 ctr-plot drift drift.arrows stats.arrows
err_like 'are too many' 'drift shows 1 input, and these are 2'
exits 'one file twice' 2 ctr-plot roc a=plain.arrows b=plain.arrows
err_like 'is said' 'plain.arrows and plain.arrows are one input'
exits 'an option of another kind' 2 ctr-plot roc --column x plain.arrows
printf 'x,t\n-1,a\n1.5,b\n-2,c\n' | ctr-import -q -f csv --header -o signs.arrows
exits 'one bin, of values on both sides of 0' 0 timeout 20 ctr-plot histogram --bins 1 --column x signs.arrows
is 'is two, which meet at 0' "$(grep -o '<title>-[^<]*' out)" '<title>-2 to 0: 2, 66.67%'
exits 'importance by a text' 2 ctr-plot importance --column t signs.arrows
err_like 'is told' 'signs.arrows: column t is utf8, but a bar must be a number'
exits 'a score that is a text' 2 ctr-plot scores --score t signs.arrows
err_like 'is told, too' 'signs.arrows: column t is utf8, but a score must be a number'
exits 'texts beside numbers' 2 ctr-plot histogram --column site plain.arrows whole.arrows
exits 'a histogram of lists' 2 sh -c 'printf "{\"a\":[1,2]}\n" | ctr-import -q -f jsonl | ctr-plot histogram --column a'
err_like 'says what makes rows of them' 'ctr-select --explode'
exits 'an output named as another kind of file' 2 ctr-plot roc -o r.png plain.arrows
err_like 'is told' 'figures are svg, and r.png has another ending'
exits 'too little memory' 1 ctr-plot roc --memory 1K plain.arrows
err_like 'is said' '--memory'

# ---- hostile names
{ printf '\003' && echo; } >/dev/null
printf 'name,psi,psi_low,psi_high\n"<script>alert(1)</script>",0.3,0.2,0.4\n"a&b ""c"" '"'"'d'"'"'",0.2,-0.1,0.3\n%s,0.1,,\n' "$(printf '%0100d' 7)" | ctr-import -q -f csv --header --null '' --columns name:utf8,psi:float64,psi_low:float64,psi_high:float64 >hostile.arrows
printf 'name,psi\n"\001\033[31m \342\200\256x",0.3\n' | ctr-import -q -f csv --header --columns name:utf8,psi:float64 >control.arrows
ctr-plot drift --title '</title><script>' -o hostile.svg hostile.arrows
ok 'hostile names: well-formed' svg hostile.svg
is 'no element of theirs' "$(grep -c '<script' hostile.svg)" 0
ok 'they are there as text' grep -q '&lt;script&gt;alert(1)&lt;/script&gt;: 0.3 (0.2 to 0.4)' hostile.svg
is 'a name that is too long is cut, and whole in its tip' "$(grep -c '<title>0*7</title>0*…</text>' hostile.svg)" 1
is 'a bar whose interval holds 0 is faint' "$(grep -c 'ctr-faint' hostile.svg)" 2
ctr-plot drift -o control.svg control.arrows
ok 'control characters: well-formed' svg control.svg
is 'are shown as codes' "$(grep -c 'x01.*x1b.*xe2.x80.xae' control.svg)" 2

printf 'name,psi\n"\357\277\276\357\277\277 \360\237\230\200",0.3\n%s,0.2\n' "$(printf '%05000d' 7)" | ctr-import -q -f csv --header --columns name:utf8,psi:float64 | ctr-plot drift -o nonchars.svg
ok 'characters that XML has not: well-formed' svg nonchars.svg
is 'the number of a long name is told' "$(grep -c '<title>0*…: 0.2</title>' nonchars.svg)" 1
printf 'click,score,w\n1,0.5,1e308\n0,0.4,1e308\n' | ctr-import -q -f csv --header --label click --score score --weight w >overflow.arrows
exits 'weights that overflow' 1 ctr-plot roc overflow.arrows
err_like 'are told' 'overflow.arrows: the weights add up to more than a double holds'
for kind in scores learning 'histogram --column score'; do
    # shellcheck disable=SC2086
    ctr-plot -q $kind overflow.arrows >over.svg
    ok "or leave a figure that ends: $kind" svg over.svg
done

# ---- the same bytes
for kind in reliability roc pr lift scores learning hours 'histogram --column x' 'histogram --column site'; do
    # shellcheck disable=SC2086
    ctr-plot $kind -j 1 a=rows.arrows >a.svg && small_batches rows.arrows ctr-plot $kind -j 4 a=- >b.svg
    ok "for any -j and batches: $kind" cmp a.svg b.svg
done
ctr-cat --to file rows.arrows -o rows.arrow
ctr-plot roc a=rows.arrow >b.svg && ctr-plot roc a=rows.arrows >a.svg
ok 'of a file as of a stream' cmp a.svg b.svg
ok 'all figures are well-formed' svg ./*.svg
is 'no address but that of svg' "$(cat ./*.svg | grep -o 'https\{0,1\}:[^"]*' | sort -u)" 'http://www.w3.org/2000/svg'
ok 'a curve of many scores stays small' test "$(wc -c <roc.2.svg)" -lt 60000
is 'no memory that grows with the rows' "$(awk 'BEGIN { print "x"; for (i = 0; i < 300000; i++) print i * 1.1 }' | ctr-import -q -f csv --header | ctr-plot histogram --column x | grep -c '<rect class="ctr-f0 ctr-faint"')" 21

million() { awk 'BEGIN { print "click,score"; for (i = 0; i < 600000; i++) print (i * 7919 % 10007 < 900) "," (i * 131 % 100003) / 100003 }' | ctr-import -q -f csv --header --columns click:int8,score:float32 --label click --score score -o million.arrows; }
if [ -z "$SAN" ]; then
    million
    ok 'histograms take no memory that grows with the rows' below 24000 ctr-plot scores -j 1 million.arrows
    ok 'curves 8 bytes a row of float32 at most, and the sort' below 34000 ctr-plot roc -j 1 million.arrows
fi

# ---- golden figures, as text
golden() { # golden NAME KIND…, of stdin
    _golden=$1
    shift
    ctr-plot "$@" | sed '/^<style>/d' >"$_golden.svg"
    [ -z "${CTR_GOLDEN:-}" ] || cp "$_golden.svg" "$CTR_TOP/tests/golden/plot/$_golden.svg"
    ok "the figure $_golden is that of tests/golden/plot" diff "$CTR_TOP/tests/golden/plot/$_golden.svg" "$_golden.svg"
}
printf '%s\n' click,score 1,0.9 1,0.8 0,0.8 1,0.4 0,0.3 0,0.3 0,0.1 0,0.1 | ctr-import -q -f csv --header --label click --score score >tiny.arrows
golden tiny-roc roc tiny.arrows
golden tiny-reliability reliability --bins 3 tiny.arrows
golden tiny-drift drift hostile.arrows
ctr-select --head 0 tiny.arrows >none.arrows
golden tiny-none -q lift <none.arrows

# ---- in a browser
if has_browser 'figures in a browser'; then
    in_browser plot.py reliability.2.svg roc.2.svg metric.svg drift.svg hostile.svg hours.svg sites.svg no.svg
fi
done_testing
