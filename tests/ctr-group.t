#!/bin/sh
# ctr-group: aggregates, nulls, errors; against plain Python loops for any memory, batch size and thread count.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

cat >a.csv <<'CSV'
k,n,x,s,t
b,3,1.5,b,2024-01-01 00:00:00
a,,nan,a,2024-01-02 00:00:00
b,1,,b,
,3,-2,,2024-01-03 00:00:00
a,2,inf,ab,2024-01-01 00:00:00
b,2,0.5,a,2024-01-05 00:00:00
CSV
ctr-import --format csv --header --columns k:utf8,n:int64,x:float64,s:utf8,t:timestamp --null '' a.csv >a.arrows
group() { _k=$1; shift; ctr-group -k "$_k" $(printf ' --add %s' "$@") a.arrows | ctr-export --format csv | tail -n +2 | tr '\n' ' '; }
is 'groups in the order of the key, null last' "$(group k 'c=count()' 'n=count(n)')" 'a,2,1 b,3,3 ,1,1 '
is 'sums and means without nulls' "$(group k 's=sum(n)' 'm=mean(n)' 'x=sum(x)')" 'a,2,2,nan b,6,2,2 ,3,3,-2 '
is 'extremes, NaN the largest' "$(group k 'a=min(x)' 'b=max(x)' 'c=min(s)' 'd=max(t)')" \
    'a,inf,nan,a,2024-01-02T00:00:00Z b,0.5,1.5,a,2024-01-05T00:00:00Z ,-2,-2,,2024-01-03T00:00:00Z '
is 'the first and the last row' "$(group k 'f=first(n)' 'l=last(x)')" 'a,,inf b,3,0.5 ,3,-2 '
is 'values in order' "$(group k 'd=distinct(s)' 'q=quantile(n,0.5)' 'r=quantile(n,0.25)')" 'a,2,2,2 b,2,2,1.5 ,0,3,3 '
is 'no values' "$(group k 's=sum(s)' 2>/dev/null)$(group s 'm=mean(n)' 'q=quantile(x,.5)')" 'a,2,nan ab,2,inf b,2,1.5 ,3,-2 '
is 'a key is counted too' "$(group n 'd=distinct(n)' 'c=count(n)')" '1,1,1 2,1,2 3,1,2 ,0,0 '
ctr-select --where false a.arrows >none.arrows
is 'no rows' "$(ctr-group -k k --add 'n=count()' none.arrows | ctr-export --format csv)" 'k,n'
ctr-import -q --format csv --header --user k --label n a.csv | ctr-group -k k --add 'n=mean(n)' >roles.arrows
is 'keys keep their roles, aggregates have none' "$(ctr-info roles.arrows | awk '$1 == "k" || $1 == "n" { print $1, $2, $3 }' | tr '\n' ' ')" 'k utf8 user n float64 - '

is 'most frequent values, the smallest of equals' "$(group k 'm=mode(n)' 't=top(n,2)' 's=top(s,9)')" 'a,2,[2],"[""a"",""ab""]" b,1,"[1,2]","[""b"",""a""]" ,3,[3], '
exits 'top of nothing' 2 ctr-group -k k --add 't=top(n)' a.arrows
err_like 'says what it wants' 'top\(COLUMN, N\) wants a number of values N from 1 to 1000'
exits 'top 0' 2 ctr-group -k k --add 't=top(n, 0)' a.arrows

exits 'no key' 2 ctr-group --add 'n=count()' a.arrows
err_like 'names the option' 'say what to group by: -k COLUMN'
exits 'nothing to compute' 2 ctr-group -k k a.arrows
err_like 'shows how' 'add NAME=AGGREGATE'
exits 'an unknown aggregate' 2 ctr-group -k k --add 'n=meen(n)' a.arrows
err_like 'and the nearest' "no aggregate meen.*nearest is 'mean'"
exits 'an unknown column' 2 ctr-group -k k --add 'n=sum(m)' a.arrows
err_like 'is named' "there is no column 'm'"
exits 'no aggregate' 2 ctr-group -k k --add 'n' a.arrows
exits 'a text is no number' 2 ctr-group -k k --add 'n=sum(s)' a.arrows
err_like 'with its type' 's is utf8, and sum takes numbers'
exits 'a quantile beyond 1' 2 ctr-group -k k --add 'n=quantile(n,1.5)' a.arrows
exits 'a quantile of nothing' 2 ctr-group -k k --add 'n=quantile(n)' a.arrows
exits 'a column twice' 2 ctr-group -k k --add 'k=count()' a.arrows
exits 'a key twice' 2 ctr-group -k k,k --add 'n=count()' a.arrows
ctr-select --add 'l=split(s, "x")' a.arrows >l.arrows
exits 'a list is no key' 2 ctr-group -k l --add 'n=count()' l.arrows
err_like 'said' 'a list cannot be a key'
printf 'k,n\n1,9223372036854775807\n1,1\n' | ctr-import -f csv --header --columns k:int64,n:int64 >big.arrows
exits 'a sum beyond int64' 1 ctr-group -k k --add 's=sum(n)' big.arrows
err_like 'tells the remedy' 'the group k=1: sum\(n\) is beyond int64'
is 'whose mean there is' "$(ctr-group -k k --add 's=mean(n)' big.arrows | ctr-export -f csv --no-header)" '1,4.611686018427388e+18'
cp a.arrows b.arrows
exits 'input and output are the same file' 2 ctr-group -k k --add 'n=count()' -o b.arrows b.arrows
head -c $(($(wc -c <a.arrows) - 30)) a.arrows >cut.arrows
exits 'a truncated input' 1 ctr-group -k k --add 'n=count()' -o out.arrows cut.arrows
ok 'leaves no output' test ! -e out.arrows

printf 'k,n\n1,2\n' | ctr-import -q -f csv --header -o "$W/named.arrows"
exits 'two columns of one name' 2 ctr-group -k k --add 'n=count()' --add 'n=sum(n)' "$W/named.arrows"
err_like 'say where to name them' 'two columns of the result are called n: --add gives each a name of its own, NAME=sum'
exits 'a column named as a key' 2 ctr-group -k k --add 'k=count()' "$W/named.arrows"
mkdir ref
if ! has_python pyarrow; then
    skip 'against the reference' 'no pyarrow'
    done_testing
    exit 0
fi
"$PY" "$CTR_TOP/tests/relation-reference.py" group ref || exit 1
while IFS="$(printf '\t')" read -r name args; do
    want=$(ctr-info --digest "ref/$name.want")
    args=$(echo "$args" | sed 's#OUT#ref#g')
    for o in '--memory 1' "--memory 1M --batch 100 -j 1" '--memory 1M -j 4' '-j 1'; do
        one_of 3 || continue
        is "reference: $name, $o" "$(ctr-group -q $o $args | ctr-info --digest)" "$want"
    done
    keys=${args#-k } keys=${keys%% *}
    ctr-sort -k "$keys" ref/log >ref/sorted
    for o in '-j 1' '-j 4 --memory 1M' '--batch 100'; do
        one_of 2 || continue
        is "reference: $name, --sorted, $o" "$(ctr-cat --batch 517 ref/sorted | ctr-group -q --sorted $o ${args% *} | ctr-info --digest)" "$want"
    done
done <ref/cases
# Day by day: each run goes on from the state of the one before, and the last one gives what one run over all days gives.
days() { # ARGUMENTS
    rm -f ref/state
    from=0
    for to in 3000 3000 11000 20000; do
        ctr-select --add-row day.n --where "day.n > $from and day.n <= $to" --columns '-day.n' ref/log >ref/day
        ctr-group -q --state ref/state "$@" ref/day >ref/got || return 1
        from=$to
    done
    ctr-info --digest ref/got
}
while IFS="$(printf '\t')" read -r name args; do
    one_of 3 || continue
    for o in '-j 1' '-j 3 --batch 100'; do
        is "day by day: $name, $o" "$(days $o ${args% *})" "$(ctr-info --digest "ref/$name.want")"
    done
    cp ref/state ref/state.1
    days -j 4 --memory 40M ${args% *} >/dev/null
    ok "day by day: $name, the same bytes of the state" cmp ref/state ref/state.1
done <ref/cases
for o in '--memory 1' '-j 4'; do
    rm -f "state$o"
    ctr-group -q $o --state "state$o" -k user,flag --add 'd=distinct(text)' --add 'q=quantile(real,.5)' --add 't=top(word,2)' --add 'l=last(list)' ref/log >/dev/null
done
ok 'groups beyond memory: the same bytes of the state' cmp 'state--memory 1' 'state-j 4'
n='-k small --add n=count() --add f=first(text)'
rm -f state
is 'the first run' "$(ctr-group $n --state state ref/log 2>&1 >/dev/null)" 'ctr-group: state is not there yet: this is the first run'
cp state state.1
ok 'another begins at it' sh -c "ctr-group $(printf "'%s' " $n) --state state ref/log 2>&1 >/dev/null | grep -q '^ctr-group: 6 groups go on from state$'"
is 'of no rows: what is known' "$(cp state.1 state; ctr-select --where false ref/log | ctr-group -q $n --state state | ctr-info --digest)" "$(ctr-group -q $n ref/log | ctr-info --digest)"
ok 'and the state stays' cmp state state.1
exits 'a run that fails' 1 sh -c "head -c 30000 ref/log | ctr-group $(printf "'%s' " $n) --state state"
ok 'leaves the state' cmp state state.1
exits 'an output that fails' 1 sh -c "ctr-group $(printf "'%s' " $n) --state state ref/log >/dev/full"
ok 'leaves it too' cmp state state.1
exits 'a state of others' 2 ctr-group -k small --add 'n=count(user)' --state state ref/log
err_like 'says of what' 'state: is the state of other groups: .*n=count\(\).* there, .*n=count\(user: int32\) here'
exits 'of other keys' 2 ctr-group -k user --add 'n=count()' --add 'f=first(text)' --state state ref/log
err_like 'says so' 'state: is the state of groups by other keys'
exits 'no state' 2 ctr-group $n --state ref/log ref/sorted
err_like 'is refused' 'is no state of ctr-group'
ctr-group -q -k small --add 'n=distinct(user)' --state values ref/log >/dev/null
is 'values in order are a section each' "$(ctr-info values | sed -n 's/^section: //p' | tr '\n' ' ')" 'groups values.0 '
ctr-select --section values.0 --add 'state.times=0' values >odd
exits 'values that are none' 1 ctr-group -q -k small --add 'n=distinct(user)' --state odd ref/log
err_like 'are told' 'odd: row [0-9]+: values of no group'
exits 'too little memory' 1 ctr-group $n --memory 1K --state state ref/log
err_like 'says what it needs' 'groups of the state take .* and a third of --memory is'
exits '--state on stdout' 2 ctr-group $n --state - ref/log
exits '--state and --sorted' 2 ctr-group $n --sorted --state state ref/log
head -c $(($(wc -c <state) - 20)) state >cut
exits 'a state that is cut' 1 ctr-group $n --state cut ref/log
mkdir each
"$PY" "$CTR_TOP/tests/relation-reference.py" each each || exit 1
while IFS="$(printf '\t')" read -r name args; do
    want=$(ctr-info --digest "each/$name.want")
    args=$(echo "$args" | sed 's#OUT#each#g')
    for o in '-j 1' '--batch 5 -j 4' '--memory 2M'; do
        one_of 2 || continue
        is "reference: each row, $name, $o" "$(ctr-group -q $o $args | ctr-info --digest)" "$want"
    done
    is "reference: each row, $name, in one batch" "$(ctr-cat --batch 8192 each/log | ctr-group -q ${args% *} | ctr-info --digest)" "$want"
done <each/cases
is 'groups beyond memory are joined back' "$(ctr-group -q --memory 1 --each-row -k user --add 'n=count()' each/log | ctr-info --digest)" \
    "$(ctr-group -q --each-row -k user --add 'n=count()' each/log | ctr-info --digest)"
exits 'as of a time, in memory' 1 ctr-group --memory 1K --each-row --as-of time -k user --add 'n=count()' each/log
err_like 'says what it needs' '[0-9]+ groups take .* and --memory allows 1 KiB'
exits 'as of a time, out of order' 1 sh -c "ctr-sort -k time:desc each/log | ctr-group --each-row --as-of time -k user --add 'n=count()'"
err_like 'names row and remedy' 'row [0-9]+: its time .* runs backwards.*sort the rows first \(ctr-sort -k time\)'
exits 'as of a time, values in order' 2 ctr-group --each-row --as-of time -k user --add 'n=distinct(text)' each/log
err_like 'says which can be had' 'distinct\(text\) needs all values'
exits '--each-row with a column that is there' 2 ctr-group --each-row -k user --add 'text=count()' each/log
err_like 'says so' 'the rows have a column text already'
exits '--each-row --sorted' 2 ctr-group --each-row --sorted -k user --add 'n=count()' each/log
is 'each row of none' "$(ctr-select --where false each/log | ctr-group --each-row --as-of time -k user --add 'n=count()' | ctr-info | sed -n 1p)" 'rows: 0'
exits '--sorted of rows that are not' 1 ctr-group --sorted -k k --add 'n=count()' a.arrows
err_like 'names row and key' 'row 2 \(k=a\) is not in order of the keys: leave out --sorted, or sort it'
is '--sorted gives groups before the end' "$(awk 'BEGIN { for (i = 0; i < 30000; i++) print i }' | ctr-import -qf csv --columns k:int64 >many.arrows
    (head -c 200000 many.arrows; sleep .1) | ctr-group -q --sorted -k k --add 'n=count()' 2>/dev/null | ctr-cat -q --lenient 2>/dev/null | ctr-export -f csv --no-header | sed -n 8193p)" '8192,1'
ctr-group -v -k user --memory 64K --add 'n=quantile(real,.5)' ref/log 2>said >/dev/null
ok '-v tells of the runs' grep -Eq '[0-9]+ runs, [0-9.]+ [KM]?i?B spilled' said
ok 'and of the groups' grep -q '[0-9]* groups of 20000 rows' said
no_tmp() { TMPDIR=$W/nowhere ctr-group -k user --memory 1 --add 'n=count()' ref/log >no.arrows 2>no.err; }
exits 'a missing TMPDIR' 1 no_tmp
case $CTR_BUILD in
*san*) skip '--memory is kept' 'sanitizers have allocators of their own' ;;
*)
    awk 'BEGIN { for (i = 0; i < 300000; i++) printf "%d,%0300d\n", i * 7919 % 100003, i }' | ctr-import -f csv --columns k:int32,pad:utf8 -o large.arrows
    ok '--memory 64M is kept within 5%, and 5 MB of program' below 73000 ctr-group -q -j 1 -k k --memory 64M --add 'l=last(pad)' large.arrows
    ;;
esac
# One integer key is found by its hash alone, in batches without nulls; a null has the hash of one integer, 0xb49a1f7c83d652e9.
rare=-5432995380820815127 low=-9223372036854775808
for o in "$rare  0 $rare $low" "  $rare $rare 0 $low" "$rare $rare 0 $low $rare"; do # a null between, first or none
    { echo k && echo "$o" | tr ' ' '\n'; } >hash.csv
    echo "$o" | tr ' ' '\n' | sort | uniq -c | awk '{ print $2 "," $1 }' | sort >want
    for b in 1 2 100; do
        for j in 1 3; do
            ctr-import -q --format csv --header --columns k:int64 --null '' hash.csv | ctr-cat --batch $b | ctr-group -q -j $j -k k --add 'n=count()' | ctr-export --format csv --no-header |
                sort >got
            ok "the integer with the hash of null, batches of $b, -j $j" cmp got want
        done
    done
done
done_testing
