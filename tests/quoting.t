#!/usr/bin/env bash
# What is printed for people cannot steer a terminal, forge a line, or read as something else: names and values of hostile
# bytes, given to each tool, in each option, as files, columns, tables and texts.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

# A shell's title, clears, C1, DEL, right to left, an isolate, bytes that are not UTF-8, a line that looks like ours.
H=$'v\e]0;p\a\e[2J\xc2\x9b1m\x7f\xe2\x80\xae\xe2\x81\xa6\xff\r\nFORGED\tB'
U=$'v\e]0;p\a\e[2J\xc2\x9b1m\x7f\xe2\x80\xae\xe2\x81\xa6\r\nFORGED\tB' # the same in UTF-8

# clean : what is bad in each file of said/, all looked at at once.
clean() {
    perl -e 'use utf8; use Encode; for my $f (glob "said/*") { open my $h, "<", $f or die; local $/; my $s = <$h> // ""; $f =~ s/^said.//;
        my $t = eval { decode("UTF-8", $s, 1) };
        if (!defined $t) { print "$f: not UTF-8\n"; next }
        printf "%s: U+%04x\n", $f, ord $1 if $t =~ /([\x00-\x08\x0b-\x1f\x7f-\x9f\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{206f}])/;
        print "$f: a line\n" if $t =~ /^FORGED/m; print "$f: a tab\n" if $t =~ /FORGED\t/ }'
    rm -rf said && mkdir said
}
runs=0
try() { # WHAT COMMAND… : stderr is to be clean
    runs=$((runs + 1))
    "${@:2}" >out 2>"said/$runs. ${1//[^a-zA-Z0-9 =-]/_}" </dev/null
}
people() { # WHAT COMMAND… : stdout too, and it is not empty
    try "$@"
    if [ -s out ]; then cp out "said/$runs. ${1//[^a-zA-Z0-9 =-]/_}, stdout"; else printf '\377' >"said/$runs. $1: nothing"; fi
}
mkdir said

printf 'id,click,u,score\n1,0,a,0.1\n2,1,b,0.9\n' | ctr-import -f csv --header --label click --score score -o log.arrows
printf 'label click\nfeature u\n' >log.plan
ctr-extract log.plan log.arrows -o feat.arrows
ctr-train -q lr feat.arrows -o model.arrows

# ---- every option and argument of every tool ----

for tool in "$CTR_BUILD"/bin/ctr*; do
    name=${tool##*/}
    while IFS=$'\t' read -r option letter kind rest; do
        case $option in --*) ;; *) continue ;; esac
        case $name$option in *--output | *--quiet | *--help | *--version | *--list-options) continue ;; esac
        one_of 4 || continue # the code of a usage error is the same for all
        case $kind in
        flag | '') try "$name $option=" "$name" "$option=$H" log.arrows ;;
        *) try "$name $option" "$name" "$option" "$H" log.arrows ;;
        esac
    done < <("$name" --list-options 2>/dev/null | sed 's/\t\t/\t-\t/g')
    try "$name --$H" "$name" "--$H"
    try "$name -$H" "$name" "-$H"
    try "$name FILE" "$name" "$H"
    for first in log.plan model.arrows lr top list; do
        try "$name $first FILE" "$name" "$first" "$H"
    done
    try "$name -o" "$name" -o "no-such-dir/$H" log.arrows
done
is "options and arguments: no bytes that steer a terminal on stderr ($runs runs)" "$(clean)" ''

# ---- files of that name, with damage ----

runs=0
head -c 700 log.arrows >"$H.arrows"
printf 'id\n1\n"' >"$H.csv"
printf 'feature x = nosuch(u)\n' >"$H.plan"
for tool in cat info sort export select history; do
    command -v "ctr-$tool" >/dev/null && try "ctr-$tool damaged" "ctr-$tool" "$H.arrows"
done
try extract ctr-extract "$H.plan" log.arrows
try import ctr-import -f csv --header "$H.csv"
try join ctr-join -k u "$H.arrows" log.arrows
try predict ctr-predict "$H.arrows" log.arrows
try eval ctr-eval --by u "$H.arrows"
try 'a plan by a pipe' bash -c 'ctr-extract <(cat "$1") log.arrows' - "$H.plan"
printf 'id\n1\n%s\n' "$H" >"$H.csv"
try quarantine ctr-import -f csv --header --columns id:int8 --bad-rows "quarantine=$H.bad" "$H.csv"
ok 'a reason a bad row, on a line' test "$(wc -l <"$H.bad.why")" -eq 2
cp "$H.bad.why" said/why
is "damaged files of such names ($runs runs)" "$(clean)" ''

# ---- columns, values, tables ----

runs=0
"$PY" -I -c 'import json, sys
n = sys.argv[1]
for i in range(40): print(json.dumps({n: n + str(i % 2), "click": i % 3 == 0, "score": .3, "id": i}, ensure_ascii=False))' "$U" |
    ctr-import -f jsonl --label click --score score -o h.arrows
name=$(ctr-info h.arrows | sed -n 's/^\(`v.*`\) .*/\1/p')
printf 'label click\nfeature f in %s = %s\n' "$name" "$name" >h.plan
people 'info' ctr-info h.arrows
people 'inputs' ctr-extract --inputs h.plan
eval "back=$(ctr-extract --inputs h.plan | sed -n 2p)"
is 'a name that ctr-extract --inputs prints is pasted back to a shell' "$(printf %s "$back" | od -An -tx1)" "$(printf %s "$U" | od -An -tx1)"
people 'explain' ctr-extract --explain h.plan h.arrows
people 'dot' ctr-extract --explain --dot h.plan h.arrows
ok 'a name that ctr-info prints is pasted back to a plan' ctr-extract h.plan h.arrows -o hf.arrows --names names.arrows
people 'info of features' ctr-info hf.arrows
try 'train' ctr-train lr hf.arrows -o hm.arrows
people 'info of a model' ctr-info hm.arrows
people 'top' ctr-model top --names names.arrows hm.arrows
people 'top, keys' ctr-model top hm.arrows
people 'explain a row' ctr-model explain hm.arrows hf.arrows
people 'eval' ctr-eval --by "$U" h.arrows
printf 'id,a\n%s\n' "1,x" | ctr-import -f csv --header -o right.arrows
for where in "$name == 1" "nosuch($name)" "$name.x" "'$H'" "\"$H\"" "id == \"$U\""; do
    try "where" ctr-select --where "$where" h.arrows
done
try 'role' ctr-eval --label "$U" h.arrows
try 'types' ctr-join -k "$U=id" right.arrows h.arrows
try 'twice' ctr-join -k "$U" h.arrows h.arrows
try 'a cell' ctr-import -f csv --header --columns id:int8 - <<<$'id\n'"$H"
for format in libsvm libffm vw tsv csv jsonl; do
    printf '%s\n' "$H" >rows
    try "$format" ctr-import -f "$format" rows
    try "$format in a row" ctr-import -f "$format" <(printf '1 |%s x:%s\n{"a":"%s"}\n1 %s:1\n' "$H" "$H" "$H" "$H")
done
db=$PWD/s.db
ctr-signals init --db "$db" >/dev/null 2>&1
try 'signals add' ctr-signals --db "$db" add h.plan
try 'signals note' ctr-signals --db "$db" annotate f "$U"
for list in list versions notes; do
    people "signals $list" ctr-signals --db "$db" "$list"
done
is "columns, values and tables of such bytes ($runs runs)" "$(clean)" ''

# ---- names in back quotes are read back by the options that take several ----

printf '"a,b","x=y",q`q,"c+d\te",t,click,score\n1,2,3,4,5,1,0.5\n' |
    ctr-import -f csv --header --user a,b --time t --label click --score score -c 't:timestamp[unix_ms]' -o odd.arrows
names() { ctr-info "$1" | sed '1,/^column/d' | awk '{ printf "%s ", $1 }'; }
is "names as ctr-info prints them" "$(names odd.arrows)" '`a,b` `x=y` `q\`q` `c+d\x09e` t click score '
odd='`a,b`,`x=y`,`q\`q`,`c+d\x09e`'
reads() { # WHAT COMMAND… : the columns that it gives
    _cols=$2
    exits "$1" 0 "${@:3}" -o odd.out odd.arrows
    is "$1: columns" "$(names odd.out)" "$_cols"
}
all='`a,b` `x=y` `q\`q` `c+d\x09e` t click score '
reads group '`a,b` `x=y` `q\`q` `c+d\x09e` n ' ctr-group -k "$odd" --add 'n=count()'
reads 'group --each-row' "${all}n " ctr-group --each-row -k "$odd" --add 'n=count()'
reads sort "$all" ctr-sort -k "$odd"
reads join "${all}r.t r.click r.score " ctr-join -q -k "$odd" --prefix r. odd.arrows
reads 'join, renamed keys' "${all}\`r.x=y\` " ctr-join -q -k '`a,b`=`a,b`' --prefix r. -c '`x=y`' odd.arrows
reads rank "${all}rank " ctr-rank --by "$odd"
reads 'sort, descending' "$all" ctr-sort -k '`a,b`:desc'
reads 'history --sort' "${all}session.number session.position " ctr-history --sort --session 1s --time t
reads history "${all}\`history.a,b\` \`history.c+d\x09e\` " ctr-history -q -c '`a,b`,`c+d\x09e`'
printf 'a,a:desc\n1,1\n1,2\n' | ctr-import -f csv --header -o desc.arrows
is "a name that ends in :desc" "$(ctr-group -k '`a:desc`' --add 'n=count()' desc.arrows | ctr-export --no-header | tr '\n' ' ')" '1,1 2,1 '
printf '"t,x",u\n2,1\n1,1\n' | ctr-import -f csv --header --user u --time t,x -c '`t,x`:timestamp[unix_ms],u' -o tx.arrows
exits "a time of such a name" 0 ctr-history --sort --session 1s -o tx.out tx.arrows
count=$(ctr-history -q --where 'click > 0' --count '`a,b`,`x=y`+`c+d\x09e`,q`q' odd.arrows | ctr-info | sed -n 's/^\(`*count[^ ]*\) .*/\1/p' | tr '\n' ' ')
is 'history --count' "$count" '`count.a,b.impressions` `count.a,b.clicks` `count.a,b.rate` `count.x=y+c+d\x09e.impressions` `count.x=y+c+d\x09e.clicks` `count.x=y+c+d\x09e.rate` `count.q\`q.impressions` `count.q\`q.clicks` `count.q\`q.rate` '
printf '"a,b",c\nx,y\nx,y\n' | ctr-import -f csv --header -o texts.arrows
exits 'cat --share' 0 ctr-cat --share '`a,b`' -o odd.out texts.arrows
is 'cat --share: it is shared' "$(ctr-info odd.out | awk '/a,b/ { print $2, $3 }' | tr -d ' ')" "$(ctr-cat --share 'a?b' texts.arrows | ctr-info | awk '/a,b/ { print $2, $3 }' | tr -d ' ')"
is export "$(ctr-export -c "$odd" --no-header odd.arrows)" 1,2,3,4
is eval "$(ctr-eval -q --by "$odd" --metrics rows odd.arrows | wc -l)" 6
exits split 0 ctr-split --shards 1 --by "$odd" -o 'odd-%d' odd.arrows
is "a back quote in a name is one" "$(ctr-export -c 'q`q,t' --no-header odd.arrows)" 3,1970-01-01T00:00:00.005Z

ctr-export -f jsonl --columns "$U" h.arrows | head -1 >out
ok 'what is data stays as it is' "$PY" -I -c 'import json, sys; d = json.loads(open("out").read()); assert d == {sys.argv[1]: sys.argv[1] + "0"}, d' "$U"
done_testing
