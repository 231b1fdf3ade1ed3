#!/bin/sh
# ctr-stats: profiles against plain Python; any threads, batches and order of rows; merging in any grouping; slices; errors.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

printf 'site,price,click\na,1,1\nb,2.5,0\na,,1\na,nan,0\n,-0,0\n' >log.csv
ctr-import -q -f csv --header --null '' --label click log.csv -o log.arrows
stats() { ctr-stats "$@" | ctr-export -f csv -c "$cols" --no-header | tr '\n' ' '; }
cols=name,type,role,rows,nulls,values,nan,zeros,distinct
is 'counts' "$(stats log.arrows)" 'site,utf8,,5,1,4,,0,2 price,float64,,5,1,4,1,1,4 click,int64,label,5,0,5,,3,2 '
cols=name,min,max,mean,sd,median,quantile_error
is 'numbers, without nulls and NaN' "$(stats log.arrows)" 'site,a,b,,,, price,0,2.5,1.1666666666666667,1.2583057392117916,1,0 click,0,1,0.4,0.5477225575051661,0,0 '
top() { ctr-stats "$1" | ctr-export -f jsonl -c "$2" | tr '\n' ' '; }
is 'frequent values: ties by value, NaN last' "$(top log.arrows top,top_rows)" \
    '{"top":["a","b"],"top_rows":[3,1]} {"top":["0","1","2.5","nan"],"top_rows":[1,1,1,1]} {"top":["0","1"],"top_rows":[3,2]} '
is 'clicks' "$(ctr-stats log.arrows | ctr-export -f csv -c name,rate,null_rate --no-header | tr '\n' ' ')" 'site,0.4,0 price,0.4,1 click,, '
ctr-select --where false log.arrows >none.arrows
cols=name,rows,values,distinct,min,mean,sd,median,information,auc
is 'no rows' "$(stats none.arrows)" 'site,0,0,0,,,,,, price,0,0,0,,,,,, click,0,0,0,,,,,, '
ctr-select --columns site log.arrows >site.arrows
is 'without a label there is no rate' "$(ctr-stats site.arrows | ctr-info | grep -c -e rate -e auc)" 0

# ---- the table
is 'a table' "$(ctr-stats -f table log.arrows | head -n 3 | tail -n 2 | cut -c 1-51)" 'column               type         nulls_%  distinct
site                 utf8              20         2'
printf 'site\n""\n""\nb\n' | ctr-import -q -f csv --header -o blank.arrows
is 'the empty text can be seen' "$(ctr-stats -f table blank.arrows | tail -n 1 | tr -s ' ')" "site utf8 0 2 '' - b - '' 66.7%, b 33.3%"
is 'of no rows, too' "$(ctr-stats -f table none.arrows | wc -l)" 5
is 'a slice has a line for its value and one for its rows' "$(ctr-stats -f table --by site log.arrows | sed -n '1,2p;7,9p')" 'site = a
3 rows

site = b
1 row'
ctr-stats -f table --by site --against log.arrows log.arrows | head -n 2 >heading
is 'with --against, too' "$(sed 's/ .*psi.*/ …/' heading)" 'site = a
column …'
printf 'a\n"x\033[31m\nred"\n' | ctr-import -q -f csv --header -o bad.arrows
ok 'what a terminal would obey is escaped' sh -c "ctr-stats -f table bad.arrows | grep -qF '\\x1b'"

# ---- estimates, infinities, and what cannot be known
seq 100001 170000 | sed 1i\\n | ctr-import -q -f csv --header -o unique.arrows
is 'there are at most as many different values as values' "$(ctr-stats unique.arrows | ctr-export -f csv -c values,distinct --no-header)" 70000,70000
printf 'x\n-inf\n0\n1\ninf\nnan\n' | ctr-import -q -f csv --header --columns x:float64 -o ends.arrows
cols=q01,q25,median,q75,q99,min,max,mean,quantile_error
is 'quantiles beside infinities; NaN is left out' "$(stats ends.arrows)" '-inf,-inf,0.5,inf,inf,-inf,inf,,0 '
ctr-select --where 'x > 1' ends.arrows -o inf.arrows
is 'of nothing else' "$(stats inf.arrows)" 'inf,inf,inf,inf,inf,inf,inf,inf,0 '
(echo n && yes -- -inf | head -n 5000 && seq 70000) | ctr-import -q -f csv --header --columns n:float64 | ctr-stats >ends.stats
ctr-export -f csv -c q01,q05,quantile_error --no-header ends.stats >ends.csv
ok 'of many values, too' grep -q '^-inf,-inf,[0-9.]*$' ends.csv
(echo name,n,click && seq 90 | awk '{ print "u" $1 "," $1 % 5 "," ($1 % 3 == 0) }' && echo ,,1) | ctr-import -q -f csv --header --null '' --label click -o rare.arrows
cols=name,information,auc
is 'rare texts tell what is not known' "$(ctr-stats rare.arrows | ctr-export -f csv -c name,information,auc --no-header | sed 's/\(n,,0\.5\).*/\1…/' | tr '\n' ' ')" 'name,, n,,0.5… click,, '
ok 'in the table, too' sh -c "ctr-stats -f table rare.arrows | grep -q '^name .* -      -  u1 '"
ctr-select --add 'site="a"' rare.arrows -o constant.arrows
is 'one value tells nothing' "$(ctr-stats constant.arrows | ctr-export -f csv -c name,information,auc --no-header | tail -n 1)" site,0,0.5

# ---- slices
is 'by a column, null last' "$(ctr-stats --by site log.arrows | ctr-export -f csv -c by,name,rows,distinct --no-header | grep price | tr '\n' ' ')" \
    'a,price,3,2 b,price,1,1 ,price,1,1 '
printf 't,x\n2024-01-01 00:10:00,1\n2024-01-01 02:00:00,3\n2024-01-01 00:59:59,2\n1969-12-31 23:30:00,5\n' | ctr-import -q -f csv --header --columns t:timestamp,x -o times.arrows
is 'by windows' "$(ctr-stats --time t --window 1h times.arrows | ctr-export -f csv -c window,name,rows,mean --no-header | grep ,x | tr '\n' ' ')" \
    '1969-12-31T23:00:00Z,x,1,5 2024-01-01T00:00:00Z,x,2,1.5 2024-01-01T02:00:00Z,x,1,3 '
is 'a slice is what its rows alone give' "$(ctr-stats --by site log.arrows | ctr-select --where 'by == "a"' | ctr-export -f csv -c name,rows,nulls,distinct,mean,auc)" \
    "$(ctr-select --where 'site == "a"' log.arrows | ctr-stats | ctr-export -f csv -c name,rows,nulls,distinct,mean,auc)"
seq 5000 | sed 1i\\n | ctr-import -q -f csv --header -o seq.arrows
exits 'too many slices' 2 ctr-stats --by n seq.arrows
err_like 'say what to do' 'seq.arrows: more than 4096 slices.*ctr-select'

# ---- errors
exits 'no such column' 2 ctr-stats --by sight log.arrows
err_like 'the nearest is named' "no column 'sight'.*site"
exits 'a window without a time' 2 ctr-stats --window 1h log.arrows
err_like 'names the option' '--time'
exits 'a window of nothing' 2 ctr-stats --window 0h --time t times.arrows
exits 'a label of texts' 2 ctr-stats --label site log.arrows
err_like 'with its type' 'log.arrows: site is no label: it is utf8'
exits 'a time of numbers' 2 ctr-stats --time price --window 1h log.arrows
err_like 'likewise' 'price is no time: it is float64'
exits 'a label beyond 1' 1 ctr-stats --label x times.arrows
err_like 'with its row' 'times.arrows: .*row 2.* x'
exits 'a list to group by' 2 sh -c "ctr-select --add 'l=split(site, \"x\")' log.arrows | ctr-stats --by l"
err_like 'with the remedy' 'explode'
exits 'a profile of a log' 1 ctr-stats --merge log.arrows
err_like 'is none' 'log.arrows: is no profile: .*--profile'
exits 'slices of profiles' 2 ctr-stats --merge --by site log.arrows
head -c $(($(wc -c <log.arrows) - 30)) log.arrows >cut.arrows
exits 'a truncated input' 1 ctr-stats cut.arrows --profile cut.profile -o cut.stats
ok 'leaves nothing' test ! -e cut.profile -a ! -e cut.stats

# ---- merging
ctr-stats --profile log.profile log.arrows -o log.stats
ctr-stats --merge log.profile -o merged.stats
ok 'a profile gives the same again' same_rows log.stats merged.stats
ctr-stats log.profile 2>said >/dev/null
is 'the profile of a profile is another' "$(cat said)" 'ctr-stats: log.profile is a profile: --merge shows it'
ctr-stats --merge log.profile --profile again.profile >/dev/null
ok 'and is the same again' cmp log.profile again.profile
ctr-stats --profile site.profile site.arrows >/dev/null
exits 'profiles of other columns' 2 ctr-stats --merge log.profile site.profile
err_like 'are named' 'site.profile: .*'
printf 'site,x\n(missing),1\n,2\n' | ctr-import -q -f csv --header --null '' -o missing.arrows
is 'a text that reads like the slice of nulls is another one' "$(ctr-stats --by site -f table missing.arrows | grep = | tr '\n' ' ')" \
    "site = '(missing)' site = (missing) "
ctr-stats --by site --profile by.profile log.arrows >/dev/null
exits 'of other slices' 2 ctr-stats --merge log.profile by.profile
err_like 'likewise' 'by.profile: has other slices'
head -c 3000 log.profile >damaged.profile
ctr-select --where 'part != "value"' log.profile -o part.profile
exits 'a part of a profile' 1 ctr-stats --merge part.profile
err_like 'is none' 'part.profile: is no whole profile: of column site rows are missing'
for part in schema column; do
    ctr-select --where "part != \"$part\"" log.profile -o part.profile
    exits "one without $part" 1 ctr-stats --merge part.profile
done
exits 'a damaged profile' 1 ctr-stats --merge damaged.profile
ctr-select --where 'column != "click" or part == "schema"' log.profile -o part.profile
exits 'a profile without its last column' 1 ctr-stats --merge part.profile
err_like 'is none' 'part.profile: is no whole profile: of column click rows are missing'
seq 70000 | sed 1i\\n | ctr-import -q -f csv --header -o once.arrows
ctr-stats --profile once.profile once.arrows >once.stats
ctr-select --where 'part != "value"' once.profile -o part.profile
exits 'one without the sample of its values' 1 ctr-stats --merge part.profile
err_like 'is none' 'part.profile: is no whole profile: of column n rows are missing'

# ---- drift
ctr-select --where 'price > 1' log.arrows -o now.arrows
cols=name,rows,ref_rows,new,vanished,nulls,ref_nulls
is 'against a stream' "$(stats --against log.arrows now.arrows)" 'site,1,5,0,0.75,0,0.2 price,1,5,0,0.75,0,0.2 click,1,5,0,0.4,0,0 '
ctr-stats --against log.arrows now.arrows -o drift.stream
ctr-stats --against log.profile now.arrows -o drift.profile
ok 'a profile is as good' same_rows drift.stream drift.profile
ctr-stats --profile now.profile now.arrows >/dev/null
ctr-stats -j 2 --merge --against log.profile now.profile -o drift.merged
ok 'on both sides' same_rows drift.stream drift.merged
cols=name,psi,js,wasserstein,new
is 'none against itself' "$(stats --against log.arrows log.arrows)" 'site,0,0,,0 price,0,0,0,0 click,0,0,0,0 '
ctr-select --head 50 once.arrows -o few.arrows
cols=name,new
is 'values of one row each are known of a reference of many' "$(stats --against once.arrows few.arrows)" 'n,0 '
cols=name,vanished
is 'and of an input of many' "$(stats --against few.arrows once.arrows)" 'n,0 '
exits 'no limit is passed' 0 ctr-stats --against log.arrows --fail-above psi=0,new=0 log.arrows
exits 'a limit is passed' 3 ctr-stats --against log.arrows --fail-above psi=0.1,vanished=.5 -o limit.stats now.arrows
err_like 'and said' 'site: psi is .*, above 0.1, and 2 columns more'
ok 'with its result' ctr-info --check limit.stats
exits 'nulls' 3 ctr-stats --against log.arrows --fail-above nulls=.1 now.arrows
exits 'and of more' 0 ctr-stats --against log.arrows --fail-above nulls=.3 now.arrows
exits 'no measure' 2 ctr-stats --against log.arrows --fail-above pssi=1 log.arrows
err_like 'and the nearest' 'no measure pssi.*psi'
exits 'no limit' 2 ctr-stats --against log.arrows --fail-above psi log.arrows
exits 'limits of nothing' 2 ctr-stats --fail-above psi=1 log.arrows
exits 'no reference' 1 ctr-stats --against nowhere.arrows log.arrows
cols=by,name,psi,rows,ref_rows
is 'by slice' "$(stats --by site --against by.profile log.arrows | tr ' ' '\n' | grep price | tr '\n' ' ')" 'a,price,0,3,3 b,price,0,1,1 ,price,0,1,1 '
is 'of a stream, too' "$(stats --by site --against log.arrows log.arrows)" "$(stats --by site --against by.profile log.arrows)"
exits 'a reference by slices' 2 ctr-stats --against by.profile log.arrows
ctr-select --add 'more=1' --columns 'site=price,price,more,click' log.arrows -o changed.arrows
exits 'other columns' 0 ctr-stats --against log.arrows changed.arrows -o other.stats
err_like 'are told' 'log.arrows has no column more'
exits 'beyond any limit' 3 ctr-stats --against log.arrows --fail-above nulls=1 site.arrows
err_like 'they are' 'column price cannot be compared, and 1 column more'
ctr-stats --against log.arrows changed.arrows -o other.stats 2>err
err_like 'types too' 'column site is float64, and in log.arrows utf8: not compared'
printf 'g,x\na,u\nb,v\n' | ctr-import -q -f csv --header --columns g:text,x:text -o types.arrows
printf 'g,x\nb,1\n' | ctr-import -q -f csv --header --columns g:text,x:int64 -o types.ref
exits 'of slices after the first' 3 ctr-stats --by g --against types.ref --fail-above psi=9,nulls=.9 -o other.stats types.arrows
err_like 'likewise' 'column x is utf8, and in types.ref int64: not compared'
ctr-stats --against log.arrows site.arrows -o other.stats 2>said
ok 'and those that are gone' grep -q 'the input has no column price, which log.arrows has' said

# ---- drift: rows on one side only
printf 'site,ad\na,1\na,2\nb,1\nb,2\n' | ctr-import -q -f csv --header -o r.arrows
ctr-select --where 'site == "a"' r.arrows -o ra.arrows
ctr-select --head 0 r.arrows -o r0.arrows
ctr-stats --by site --profile r.profile r.arrows >/dev/null
ctr-stats --by site --profile r0.profile r0.arrows >/dev/null
for ref in r.arrows r.profile; do
    exits "$ref: a slice that is gone" 3 ctr-stats --against $ref --by site --fail-above psi=0.2 -o gone.stats ra.arrows
    err_like 'is named' "site = b: the input has no such rows"
    err_like 'is beyond any limit' '^ctr-stats: site = b cannot be compared$'
    is 'and shown' "$(ctr-export -f csv -c by,name,rows,ref_rows,vanished --no-header gone.stats | tr '\n' ' ')" 'a,site,2,2,0 a,ad,2,2,0 b,site,0,2,1 b,ad,0,2,1 '
done
exits 'a new slice' 3 ctr-stats --against ra.arrows --by site --fail-above psi=0.2 -f table r.arrows
err_like 'is named' 'site = b: ra.arrows has no such rows'
is 'and shown' "$(grep -A 1 '^site = b' out)" 'site = b
2 rows here, 0 in ra.arrows'
exits 'without limits it is told' 0 ctr-stats --against ra.arrows --by site r.arrows -o new.stats
err_like 'likewise' 'site = b: ra.arrows has no such rows'
exits 'no rows' 3 ctr-stats --against r.arrows --fail-above psi=0.2 r0.arrows -o none.stats
err_like 'are named' 'the input has no rows'
exits 'no rows of the reference' 3 ctr-stats --against r0.arrows --fail-above psi=0.2 r.arrows -o none.stats
err_like 'are named' 'r0.arrows has no rows'
exits 'none on both sides' 3 ctr-stats --against r0.arrows --fail-above psi=0.2 r0.arrows -o none.stats
err_like 'are named' 'neither the input nor r0.arrows has rows'
exits 'nor in slices' 3 ctr-stats --merge --against r0.profile --fail-above psi=0.2 r0.profile -o none.stats
exits 'no slices' 3 ctr-stats --merge --against r.profile --fail-above psi=0.2 r0.profile -o none.stats
err_like 'each is beyond any limit' 'site = a cannot be compared, and 1 slice more'
printf 'site,t\na,1970-01-01 00:10:00\na,1970-01-01 00:20:00\n' | ctr-import -q -f csv --header --columns site,t:timestamp -o ta.arrows
ctr-select --columns site r.arrows -o rs.arrows
exits 'a slice that is gone is in no window' 3 ctr-stats --by site --time t --window 1h --against rs.arrows --fail-above psi=0.2 ta.arrows -o windows.stats
is 'it has none' "$(ctr-export -f csv -c by,window,name,rows --no-header windows.stats | tr '\n' ' ')" 'a,1970-01-01T00:00:00Z,site,2 a,1970-01-01T00:00:00Z,t,2 b,,site,0 b,,t,0 '
printf '{"l":["a"]}\n' | ctr-import -q -f jsonl -o full.arrows
printf '{"l":[]}\n{"l":["a"]}\n' | ctr-import -q -f jsonl | ctr-select --head 1 -o empty.arrows
exits 'a column without values on one side' 3 ctr-stats --against full.arrows --fail-above psi=0.2 empty.arrows -o none.stats
err_like 'is named' 'column l cannot be compared'
ok 'the table' sh -c "ctr-stats -f table --against log.arrows now.arrows | grep -q '^price  *float64 .* 20\$'"

if ! has_python pyarrow; then
    skip 'against the reference' 'no pyarrow'
    done_testing
    exit 0
fi
REF="$CTR_TOP/tests/stats_reference.py"
ref make . || exit 1

# ---- profiles that lie: forge FROM TO CODE, which changes its rows or its schema
forge() {
    "$PY" - "$@" <<'PYTHON' && ctr-cat raw.arrows -o "$2"
import sys
import pyarrow as pa
import pyarrow.ipc
t = pa.ipc.open_stream(sys.argv[1]).read_all()
rows, schema = t.to_pylist(), t.schema
exec(sys.argv[3])
with pa.ipc.new_stream("raw.arrows", schema) as w:
    w.write_table(pa.Table.from_pylist(rows, schema))
PYTHON
}
forge log.profile forged.profile ''
ok 'a copy is a profile' ctr-stats --merge forged.profile -o copied.stats
ok 'and the same' same_rows log.stats copied.stats
forge log.profile forged.profile 'schema = schema.set(11, pa.field("counts", pa.list_(pa.int32())))'
exits 'counts of four bytes' 1 ctr-stats --merge forged.profile
err_like 'are refused by their type' "is no profile: its column 'counts' is another"
for bytes in 0 9 70; do
    forge log.profile forged.profile "[r for r in rows if r['part'] == 'value'][0]['bytes'] = $bytes"
    exits "a text of one byte that is $bytes long" 1 ctr-stats --merge forged.profile
    err_like 'is refused' 'no row of a profile'
done
forge once.profile forged.profile "[r for r in rows if r['part'] == 'bin'][-1]['key'] = 2**63"
exits 'a bin beyond the greatest number' 1 ctr-stats --merge forged.profile
err_like 'is refused' 'no row of a profile'
for log in small many; do
    ctr-stats -j 1 --label label --profile $log.profile $log.arrows >$log.stats
    ok "$log: against the reference" ref check $log.arrows $log.stats label
    [ $log = many ] && [ -n "$SAN" ] && continue
    [ $log = small ] || for part in bin frequent totals; do
        ctr-select --where "part != \"$part\"" many.profile -o part.profile
        exits "many: without $part" 1 ctr-stats --merge part.profile
    done
    ctr-stats -j 3 --label label --profile threads.profile $log.arrows >threads.stats
    ok "$log: -j" cmp $log.profile threads.profile
    ctr-cat --batch 100 $log.arrows | ctr-stats --label label --profile other.profile >other.stats
    ok "$log: batches" cmp $log.profile other.profile
    ctr-sort --shuffle --seed 5 $log.arrows | ctr-stats --label label --profile other.profile >other.stats
    ok "$log: order" cmp $log.profile other.profile
    ok "$log: statistics are a function of the profile" cmp other.stats $log.stats
    ctr-select --head 70% --rest rest $log.arrows -o a.arrows
    ctr-select --head 1% --rest c.arrows rest -o b.arrows
    for part in a b c; do ctr-stats --label label --profile $part.profile $part.arrows >/dev/null; done
    ctr-stats --merge --profile ab.profile a.profile b.profile >/dev/null
    ctr-stats --merge --profile cb.profile c.profile b.profile >/dev/null
    for parts in 'a b c' 'ab c' 'cb a' 'a cb'; do
        # shellcheck disable=SC2046
        ctr-stats --merge --profile merged.profile $(printf ' %s.profile' $parts) >merged.stats
        ok "$log: $parts merged" cmp $log.profile merged.profile
    done
    ok "$log: and its statistics" same_rows $log.stats merged.stats
done
ctr-stats --label label --by few --profile by.profile small.arrows >by.stats
ctr-select --head 40% --rest b.arrows small.arrows -o a.arrows
for part in a b; do ctr-stats --label label --by few --profile $part.profile $part.arrows >/dev/null; done
ctr-stats --merge --profile merged.profile b.profile a.profile >/dev/null
ok 'slices merged' cmp by.profile merged.profile
ctr-select --where 'label == 1' --rest ref.arrows small.arrows -o now.arrows
ctr-stats --against ref.arrows now.arrows -o drift.stats
ok 'drift: against the reference' ref drift now.arrows ref.arrows drift.stats 1e-9
ctr-select --columns label,float,int,text many.arrows -o some.arrows
ctr-stats --against some.arrows other.arrows -o drift.stats
ok 'of many values, about' ref drift other.arrows some.arrows drift.stats .003
ctr-stats -j 3 --against some.arrows other.arrows -o again.stats
ok 'intervals are of the seed' same_rows drift.stats again.stats
ok 'the check can fail' sh -c "ctr-select --tail 2999 small.arrows | ctr-stats --label label >less.stats; ! '$PY' '$CTR_TOP/tests/stats_reference.py' check small.arrows less.stats label"
[ -n "$SAN" ] || ok 'memory does not grow with distinct values' below 60000 ctr-stats -j 1 --label label many.arrows
done_testing
