#!/bin/sh
# ctr-gridviz: the page, what it says to tables that are none, hostile names; in a real browser, pointer, keyboard, filter, order, themes.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

eval_columns=by:utf8,slice:utf8,window:timestamp,rows:int64,weight:float64,positives:float64
table() { ctr-import --format csv --header --columns "$eval_columns,$1" -o "$2"; }
table auc_loss:float64,log_loss:float64 a.arrows <<'END'
by,slice,window,rows,weight,positives,auc_loss,log_loss
,,,1000,1000,250,0.3,0.5
site,news,,600,600,100,0.3,0.5
site,news,2026-01-01T00:00:00Z,200,200,50,0.3,0.5
site,news,2026-01-01T01:00:00Z,400,400,50,0.3,0.5
site,shop,,300,300,100,0.3,0.5
site,sport,,100,100,50,,0.5
END
table auc_loss:float64,log_loss:float64,log_loss_low:float64,log_loss_high:float64 b.arrows <<'END'
by,slice,window,rows,weight,positives,auc_loss,log_loss,log_loss_low,log_loss_high
,,,1000,1000,250,0.29,0.51,0.5,0.52
site,news,,600,600,100,0.28,0.45,0.4,0.5
site,shop,,300,300,100,0.31,0.6,0.55,0.65
site,sport,,100,100,50,0.2,0.5,0.45,0.55
END
exits "a page" 0 ctr-gridviz --title 'A & B' -o page.html 'model a=a.arrows' 'model b=b.arrows'
data() { sed -n 's/^<script type="application\/json" id="data">//p; /^"/p; /^{"name/p' "$1" | sed 's/<\/script>$//' | head -20; }
is "its data" "$(data page.html)" '{"title":"A & B",
"by":["site"],
"metrics":[{"name":"auc_loss","help":"1 - auc","goal":"low"},{"name":"log_loss","help":"mean log loss","goal":"low"}],
"by_of":[-1,0,0,0,0,0],
"slice":["","news","news","news","shop","sport"],
"window":[null,null,1767225600000,1767229200000,null,null],
"models":[{"name":"model a",
"rows":[1000,600,200,400,300,100],
"weight":[1000,600,200,400,300,100],
"positives":[250,100,50,50,100,50],
"auc_loss":[0.3,0.3,0.3,0.3,0.3],
"log_loss":[0.5,0.5,0.5,0.5,0.5,0.5]},
{"name":"model b",
"rows":[1000,600,null,null,300,100],
"weight":[1000,600,null,null,300,100],
"positives":[250,100,null,null,100,50],
"auc_loss":[0.29,0.28,null,null,0.31,0.2],
"log_loss":[0.51,0.45,null,null,0.6,0.5],
"log_loss_low":[0.5,0.4,null,null,0.55,0.45],
"log_loss_high":[0.52,0.5,null,null,0.65,0.55]}]}'
ok "no address but comments and names" sh -c '! grep -oE "(src|href)=.?https?:[^ ]*|@import|url\(" page.html'
is "d3 is in it" "$(grep -c '^<script nonce="[0-9a-f]*">// https://d3js.org' page.html)" 1
is "and its licence" "$(grep -c 'd3 5.16.0, https://d3js.org\|AS IS' page.html)" 2
ctr-gridviz --title 'A & B' 'model a=a.arrows' 'model b=b.arrows' >again.html
ok "the same bytes on stdout" cmp page.html again.html
ctr-gridviz -j 4 --title 'A & B' 'model a=a.arrows' 'model b=b.arrows' >again.html
ok "and for any -j" cmp page.html again.html
cat a.arrows | ctr-gridviz >stdin.html
is "stdin is a table" "$(data stdin.html | grep models)" '"models":[{"name":"stdin",'
ctr-gridviz a.arrows | grep -q '"name":"a",' && is "a model is called as its file" 1 1

# ---- what is not good
exits "a stream that is no table" 1 sh -c 'printf "a,b\n1,2\n" | ctr-import --format csv --header | ctr-gridviz'
err_like "is said" "stdin: no eval table: it has no column 'by' of text .ctr-eval --format stream writes one"
ctr-select --columns by,slice,window,rows,weight,positives a.arrows >counts.arrows
exits "a table without metrics" 1 ctr-gridviz counts.arrows
err_like "is said" 'counts.arrows: the eval table has no metric'
ctr-cat a.arrows a.arrows >two.arrows
exits "two tables in one file" 1 ctr-gridviz two.arrows
err_like "is said" 'two.arrows: row 7: a second total: give the table of each model as a file of its own'
mkdir other && cp b.arrows other/a.arrows && cp b.arrows 'x=y.arrows' && ln -s a.arrows link.arrows
exits "one table twice" 2 ctr-gridviz 'a=a.arrows' 'b=link.arrows'
err_like "is said" 'a.arrows and link.arrows are one table'
exits "two files of one name" 2 ctr-gridviz a.arrows other/a.arrows
err_like "want names" "two tables are called 'a': name them, as in NAME=other/a.arrows"
exits "with names they are two" 0 ctr-gridviz a.arrows b=other/a.arrows
exits "one name twice" 2 ctr-gridviz x=a.arrows x=b.arrows
exits "an empty name" 2 ctr-gridviz =a.arrows
exits "a named table that is also the page" 2 ctr-gridviz -o a.arrows x=a.arrows
is "a file with =" "$(ctr-gridviz ./x=y.arrows | data - | grep models)" '"models":[{"name":"x=y",'
is "stdin has a name" "$(ctr-gridviz m=- <a.arrows | data - | grep models)" '"models":[{"name":"m",'
exits "a table that is not there" 1 ctr-gridviz none.arrows
size=$(wc -c <a.arrows)
head -c $((size - 30)) a.arrows >cut.arrows
exits "a truncated table" 1 ctr-gridviz -o cut.html cut.arrows
ok "leaves no page" test ! -e cut.html
{ head -c $((size / 2)) a.arrows; printf X; tail -c +$((size / 2 + 2)) a.arrows; } >flip.arrows
exits "a flipped byte" 1 ctr-gridviz -o flip.html flip.arrows
rubbish 3000 >rubbish
exits "rubbish" 1 sh -c 'ctr-gridviz <rubbish'
exits "an empty input" 1 sh -c 'printf "" | ctr-gridviz'
exits "a full disk" 1 sh -c 'ctr-gridviz a.arrows >/dev/full'
err_like "is said" 'No space left'
exits "a closed stdout" 1 sh -c 'ctr-gridviz a.arrows >&-'
exits "closed stdin" 1 sh -c 'ctr-gridviz <&-'
# A pipe holds the whole page, so the reader goes first: the loop ends when nothing can be written any more.
gone() { { while env printf x 2>/dev/null; do :; done; ctr-gridviz a.arrows 2>gone.err; echo $? >gone.rc; } | head -c 10 >/dev/null; [ ! -s gone.err ] && [ "$(cat gone.rc)" = 141 ]; }
ok "a reader that has gone" gone
exits "a table that is also the page" 2 ctr-gridviz -o a.arrows a.arrows

# ---- hostile names: markup, quotes, control characters, directions, length; equal texts
{
    echo by,slice,window,rows,weight,positives,auc_loss
    echo ',,,1400,1400,100,0.3'
    i=0
    while read -r text; do
        printf 'site,"%b",,%d,100,10,0.3\n' "$text" $((100 + i))
        i=$((i + 1))
    done <<'END'
</script><script>window.hacked = 1</script>
<img src=x onerror=window.hacked=1>
<!--<script>
]]>&lt;b&gt;&amp;
\047\042\042;window.hacked=1//
\001\002\033[31mred\033[0m\177
\0342\0200\0256txt.exe\0342\0200\0256
\0327\0251\0327\0234\0327\0225\0327\0235 \0331\0205\0330\0261\0330\0255\0330\0250\0330\0247
{{constructor.constructor(\042\042window.hacked=1\042\042)()}}
__proto__
constructor
(missing)
END
    printf 'site,%s,,200,100,10,0.3\n' "$(head -c 20000 /dev/zero | tr '\0' x)"
    printf 'site,(missing),,50,100,10,0.4\n'
    printf 'site,far,+300000-01-01T00:00:00Z,40,100,10,0.4\n'
} >hostile.csv
table auc_loss:float64 hostile.arrows <hostile.csv
exits "hostile names" 0 ctr-gridviz --title '</title><script>window.hacked = 1</script>' -o hostile.html '<b>a<b>=hostile.arrows'
is "no markup of theirs" "$(grep -c -e '<script>window' -e '<img' -e '<b>' hostile.html)" 0
is "three elements of script" "$(grep -o '</script>' hostile.html | wc -l)" 3

# ---- a control, with intervals
table log_loss:float64,log_loss_low:float64,log_loss_high:float64,log_loss_control:float64,log_loss_change_low:float64,log_loss_change_high:float64 control.arrows <<'END'
by,slice,window,rows,weight,positives,log_loss,log_loss_low,log_loss_high,log_loss_control,log_loss_change_low,log_loss_change_high
,,,900,900,300,0.459876,0.4512345,0.4698765,0.48,-7,-1
site,news,,600,600,200,0.4501234,0.4412345,0.4598765,0.5,-12,-8
site,shop,,300,300,100,0.5051234,0.4912345,0.5198765,0.5,-3,5
END
exits "a page with a control" 0 ctr-gridviz -o control.html control.arrows

# ---- many slices, and a rest
for m in a b; do
    awk -v m=$m 'BEGIN { print "by,slice,window,rows,weight,positives,log_loss"; print ",,,100000,100000,20000,0.5"
        n = 16000; for (i = 0; i < 30; i++) { printf "ad,item number %d,,%d,%d,%d,%s\n", i, n, n, n / 4, m == "a" ? .5 : .5 + (i % 7 - 3) / 100; if (n > 40) n = int(n / 2) }
        print "ad,tiny,,20,20,3," (m == "a" ? .5 : .6); print "ad,grey,,30,30,30,"; print "ad,\"a \"\"quote\"\", <b>\",,25,25,12," (m == "a" ? .5 : .4)
        print "ad,(rest),,68000,68000,3000," (m == "a" ? .5 : .51) }' | table log_loss:float64 $m.many.arrows
done
ctr-gridviz --title 'many slices' -o many-slices.html a=a.many.arrows b=b.many.arrows

# ---- in a browser
if has_browser 'the page in a browser'; then
    in_browser gridviz.py page.html
    in_browser gridviz.py --hostile hostile.html
    in_browser gridviz.py --control control.html
    in_browser gridviz.py --view many-slices.html
fi
# ---- the example: six models of a small planted world
if [ -x "$CTR_TOP/bin/ctr-gridviz" ]; then
    make -s -C "$CTR_TOP/examples" OUT="$W/figure" FIG2_ROWS=3000 trenches-fig2 >fig2.txt 2>fig2.err
    is "figure 2 of the Trenches, in small" "$(sed 's/ .*//' fig2.txt | tr '\n' ' ')" "model truth crosses hashed-12 l1-30 fast no-user the "
    is "a row of the page a model" "$(grep -c '^{"name":\|"models":\[{"name":' "$(sed -n 's/^the page: //p' fig2.txt)")" 6
else
    skip "figure 2 of the Trenches, in small" "bin/ctr-gridviz is not there: make all"
fi

# ---- many slices of one text, and many columns of slices, take no time that is their number squared
many() { awk -v by="$1" -v slice="$2" 'BEGIN { print "by,slice,rows,weight,positives,log_loss\n,,5,5,1,.5"
    for (i = 0; i < 80000; i++) print "b" by * i ",s" slice * i ",5,5,1,.25" }' |
    ctr-import -f csv --header --columns by:utf8,slice:utf8,rows:int64,weight:float64,positives:float64,log_loss:float64; }
for what in '0 0' '1 0' '0 1'; do
    # shellcheck disable=SC2086
    many $what >"$W/many.arrows"
    ok "80,000 slices, $what" timeout 20 ctr-gridviz -o "$W/many.html" "$W/many.arrows"
    is "all are there, $what" "$(sed -n 's/^"by_of":\[\(.*\)\],*$/\1/p' "$W/many.html" | tr -cd , | wc -c)" 80000
done
done_testing
