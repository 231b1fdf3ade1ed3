#!/bin/sh
# mpirun -n R ctr-train MODEL PLAN VIEW=FILE… and ctr-extract: the rows of `from` are shared out by files or blocks, other views are
# whole. All ranks' rows are those of one process, models those of its features cut alike; what needs rows of other ranks is refused.
. "${0%/*}/lib.sh"
. "${0%/*}/ranks.sh"
cd "$W" || exit 1

awk 'BEGIN {
    srand(11)
    for (f = 0; f < 4; f++) {
        log_ = "log-" f ".csv"
        print "id,user,ad,t,click,words,x" >log_
        for (i = 0; i < 700; i++) {
            id = 700 * f + i
            w = "w" int(rand() * 30)
            for (k = int(rand() * 3); k > 0; k--) w = w "|w" int(rand() * 30)
            # x has fractions in the first file alone
            printf "%d,%d,%d,%d,%d,%s,%s\n", id, int(rand() * 90), int(rand() * 40), 1600000000 + 10 * id, rand() < .3, w, f ? int(9 * rand()) : int(9 * rand()) + .5 >log_
        }
    }
    print "user,age" >"users.csv"
    for (u = 0; u < 80; u++) print u "," 20 + u % 50 >"users.csv"
    print "ad,since,brand" >"ads.csv"
    for (a = 0; a < 40; a++) for (k = 0; k < 3; k++) printf "%d,%d,b%d\n", a, 1600000000 + 9000 * k + 10 * a, (a + k) % 7 >"ads.csv"
    print "id,kind" >"seen.csv"
    for (i = 0; i < 2800; i += 1 + int(rand() * 3)) print i "," (i % 2 ? "view" : "touch") >"seen.csv"
    print "user,at,price" >"buys.csv"
    for (u = 0; u < 90; u++) for (k = 0; k < 4; k++) printf "%d,%d,%d\n", u, 1600000000 + 7000 * k + int(rand() * 900), 3 * k + u % 5 >"buys.csv"
    print "user,t,brand" >"past.csv"
    for (i = 0; i < 900; i++) printf "%d,%d,b%d\n", int(rand() * 90), 1600000000 + 30 * i, int(rand() * 7) >"past.csv"
}' </dev/null
cat >raw.plan <<'PLAN'
from log = csv(header=true, time="t:unix")
where id % 10 != 3
add words = split(words, "|")
explode words
join users = csv(header=true) on user
join ads = csv(header=true, time="since:unix") on ad as-of t = since prefix "ad."
join seen = csv(header=true) (group id, times = count(), kinds = distinct(kind)) on id
join buys = csv(header=true, time="at:unix") on user next t = at within 1h prefix "next."
history brand from past = csv(header=true, time="t:unix") by user at t last 3
label   click
feature user
feature ad
feature words
feature brand = ad.brand
feature past in brand of brand = history.brand
dense   age
dense   x
dense   seen = fill(times, 0)
dense   sorts = fill(kinds, 0)
dense   price = next.price
keep    id
PLAN
sides='users=users.csv ads=ads.csv seen=seen.csv buys=buys.csv past=past.csv'
log='log=log-0.csv log=log-1.csv log=log-2.csv log=log-3.csv'
digest() { ctr-info --digest "$@" | awk '{ print $1 }'; }
# shellcheck disable=SC2086
extract() { # extract RANKS OUT FILE… : the parts of the ranks
    _r=$1 _o=$2
    shift 2
    run "$_r" ctr-extract -q raw.plan $sides -o "$_o-%d.arrows" "$@"
}
train() { # train RANKS MODEL OPTION…
    _r=$1 _model=$2
    shift 2
    # shellcheck disable=SC2086
    run "$_r" ctr-train "$_model" -q $net raw.plan $sides "$@"
}

# ---- features: those of one process
rows() { for _f in "$@"; do ctr-export -q --format csv --no-header "$_f" || return; done | sort; }
# shellcheck disable=SC2086
ctr-extract -q raw.plan $sides $log -o want.arrows
rows want.arrows >want.rows
ok 'there are more than rows of the log' test "$(wc -l <want.rows)" -gt 3000
for r in 2 3; do
    # shellcheck disable=SC2086
    ok "ctr-extract, $r ranks" extract $r part$r $([ $r = 2 ] || echo --memory 2M) $log
    # shellcheck disable=SC2046
    rows $(seq -f "part$r-%g.arrows" 0 $((r - 1))) >got.rows
    ok "$r ranks: all rows are those of one process" cmp got.rows want.rows
    for i in $(seq 0 $((r - 1))); do
        # shellcheck disable=SC2086,SC2046
        ctr-extract -q raw.plan $sides $(seq -f log=log-%g.csv "$i" "$r" 3) -o one.arrows
        is "rank $i of $r: the digest of one process over its files" "$(digest part$r-$i.arrows)" "$(digest one.arrows)"
    done
done
ctr-import -q -f csv --header --time t:unix log-0.csv log-1.csv log-2.csv log-3.csv | ctr-cat -q --to file --batch 64 -o log.arrow
ok 'blocks of one file' extract 3 block log=log.arrow
# shellcheck disable=SC2086
ctr-extract -q raw.plan $sides log=log.arrow -o whole.arrows
ok 'are all of its rows' sh -c 'for i in 0 1 2; do ctr-export -q --format csv --no-header block-$i.arrows >b$i || exit; [ -s b$i ] || exit; done
    sort b0 b1 b2 >got && ctr-export -q --format csv --no-header whole.arrows | sort | cmp - got'
printf 'label click\nfeature user\nkeep id\n' >flat.plan
ctr-export -q --no-header -c id log.arrow | sort -n >ids
ok 'a plan without statements: blocks are shared out, too' run 2 ctr-extract -q flat.plan log.arrow -o 'flat-%d.arrows'
ok '… all of them' sh -c 'for i in 0 1; do ctr-export -q --no-header -c id flat-$i.arrows || exit; done | sort -n | cmp - ids'

mkdir -p folder
for i in 0 1 2 3; do ctr-import -q -f csv --header log-$i.csv | ctr-export -q --format parquet -o folder/$i.parquet; done
printf 'from log\njoin users = csv(header=true) on user\nlabel click\nfeature age\nkeep id\n' >folder.plan
ok 'a folder of Parquet' run 3 ctr-extract -q folder.plan log=folder users=users.csv -o 'folder-%d.arrows'
rows folder-0.arrows folder-1.arrows folder-2.arrows >got.rows
ctr-extract -q folder.plan log=folder users=users.csv | ctr-export -q --format csv --no-header | sort >folder.rows
ok '… all of its rows' sh -c '[ "$(wc -l <folder.rows)" = 2800 ] && cmp got.rows folder.rows'

# ---- training: the bits of features that are cut alike
net='--embedding 4 --hidden 4 --minibatch 100'
for model in mlp lr; do
    [ $model = lr ] && net='--minibatch 100 --l1 .3'
    # shellcheck disable=SC2086
    ok "$model: 2 ranks" train 2 $model -j 1 --passes 2 -o got.m $log
    # shellcheck disable=SC2086
    run 2 ctr-train $model -q $net --passes 2 -o want.m part2-0.arrows part2-1.arrows
    is "$model: the model of the features" "$(ctr-predict -q got.m want.arrows | digest -)" "$(ctr-predict -q want.m want.arrows | digest -)"
    # shellcheck disable=SC2086
    ok "$model: any -j, and --memory" sh -c "mpirun --oversubscribe -q -n 2 ctr-train $model -q $net -j 3 --memory 40M --passes 2 -o more.m raw.plan $sides $log && cmp got.m more.m"
done
net='--embedding 4 --hidden 4 --minibatch 100'
# shellcheck disable=SC2086
ok 'one rank: the bytes of no mpirun' sh -c "mpirun -q -n 1 ctr-train mlp -q $net -o got.m raw.plan $sides $log && ctr-train mlp -q $net -o want.m raw.plan $sides $log && cmp got.m want.m"
ok 'blocks of one file' train 3 mlp -o blocks.m log=log.arrow
run 3 ctr-train mlp -q --embedding 4 --hidden 4 --minibatch 100 -o want.m block-0.arrows block-1.arrows block-2.arrows
is '… the model of their features' "$(ctr-predict -q blocks.m want.arrows | digest -)" "$(ctr-predict -q want.m want.arrows | digest -)"
head -n 1 log-0.csv >none.csv
ok 'a rank without rows' train 2 mlp -o got.m log=log-0.csv log=none.csv
ok '--progressive: a rank writes its rows' train 2 mlp --progressive 'p-%d.arrows' -o got.m log=log-0.csv log=log-1.csv
ok '… all of them' sh -c 'for i in 0 1; do ctr-export -q --no-header -c id part2-$i.arrows | awk -v i=$i "\$1 >= 700 * i && \$1 < 700 * (i + 1)" >want; ctr-export -q --no-header -c id p-$i.arrows | cmp - want || exit; done'
# shellcheck disable=SC2086
run 2 ctr-train mlp $net -o got.m raw.plan $sides $log 2>said
ok 'counts of rank 0 are called that' grep -q '^ctr-train: rank 0: join users: [0-9]* of [0-9]* rows have no match' said
is '… and are told once' "$(grep -c 'join users' said)" 1

# ---- a run that is killed goes on, also with another number of ranks
# shellcheck disable=SC2086
train 3 mlp --passes 4 -o all.m $log
rm -f c.ckpt
# shellcheck disable=SC2086
mpirun --oversubscribe -q -n 3 ctr-train mlp -q $net --passes 4 --checkpoint c.ckpt --checkpoint-every 3000 -o got.m raw.plan $sides $log 2>/dev/null </dev/null &
job=$!
until_true sh -c "[ -s c.ckpt ] || ! kill -0 $job"
kill -KILL "$(ps -eo pid=,ppid=,comm= | awk -v p="$job" '$2 == p && $3 ~ /^ctr-train/ { print $1 }' | head -n 1)" 2>/dev/null
wait $job
cp c.ckpt kept 2>/dev/null
# shellcheck disable=SC2086
train 3 mlp --passes 4 --checkpoint c.ckpt --resume -o got.m $log
ok 'a run that was killed goes on to the same model' cmp got.m all.m
if [ -s kept ]; then
    cp kept c.ckpt
    # shellcheck disable=SC2086
    ok '… and with two ranks' train 2 mlp --passes 4 --checkpoint c.ckpt --resume -o got.m $log
    cp kept c.ckpt
    # shellcheck disable=SC2086
    ok '… and without ranks' ctr-train mlp -q $net --passes 4 --checkpoint c.ckpt --resume -o got.m raw.plan $sides $log
fi

# ---- what is refused
refused() { # refused NAME PATTERN STATUS COMMAND…
    _name=$1 _like=$2 _want=$3
    shift 3
    rm -f no.m no-*.arrows
    "$@" 2>err
    is "$_name: the status" $? "$_want"
    ok "$_name: why" grep -Eq "$_like" err
    ok "$_name: nothing is left" sh -c '[ ! -e no.m ] && ! ls no-*.arrows'
}
statement() { # statement NAME LINE PATTERN
    { echo 'from log = csv(header=true, time="t:unix")'; echo "$2"; printf 'label click\nfeature ad\n'; } >no.plan
    refused "$1" "no.plan:2:1: ranks .mpirun. share out the rows of log, and this statement needs $3.*ctr-extract PLAN VIEW=FILE.* ctr-split --shards R" 2 \
        run 2 ctr-train mlp -q --minibatch 9 -o no.m no.plan log=log-0.csv log=log-1.csv
    refused "$1, extraction" "no.plan:2:1: ranks .mpirun. share out the rows of log" 2 run 2 ctr-extract -q no.plan log=log-0.csv log=log-1.csv -o 'no-%d.arrows'
}
statement 'a history of the rows themselves' 'history ad by user at t' 'the rows before it: take the behaviours from a view'
statement sessions 'history session 30m by user at t' 'the rows of a user before it'
statement 'a group' 'group ad, click = max(click)' 'all rows with its key'
statement 'a group of each row' 'join (group ad, n = count()) on ad' 'all rows with its key'
statement 'a sort' 'sort t' 'all rows, to order them'
statement unique 'unique user' 'all rows, of which it keeps one of each key'
printf 'from log = csv(header=true, time="t:unix")\njoin ads = csv(header=true, time="since:unix") on ad next t = since once prefix "n."\nlabel click\nfeature ad\n' >no.plan
refused once 'needs all rows that may take the row of the view' 2 run 2 ctr-train mlp -q --minibatch 9 -o no.m no.plan log=log-0.csv log=log-1.csv ads=ads.csv
printf 'from log = csv(header=true)\njoin users = csv(header=true) on user merge\nlabel click\nfeature ad\n' >no.plan
refused merge 'all rows in the order of the key: leave merge out' 2 run 2 ctr-train mlp -q --minibatch 9 -o no.m no.plan log=log-0.csv log=log-1.csv users=users.csv
printf 'from log = csv(header=true)\njoin users = csv(header=true) by-row prefix "u."\nlabel click\nfeature ad\n' >no.plan
refused by-row 'its place among all rows' 2 run 2 ctr-train mlp -q --minibatch 9 -o no.m no.plan log=log-0.csv log=log-1.csv users=users.csv
printf 'from log = csv(header=true)\nunion more = csv(header=true)\nlabel click\nfeature ad\n' >no.plan
refused union 'needs the rows of its view once, and every rank would read them all: name its files as those of the first view' 2 \
    run 2 ctr-train mlp -q --minibatch 9 -o no.m no.plan log=log-0.csv log=log-1.csv more=log-2.csv
refused 'union, extraction' 'every rank would read them all' 2 run 2 ctr-extract -q no.plan log=log-0.csv log=log-1.csv more=log-2.csv -o 'no-%d.arrows'
# shellcheck disable=SC2086
refused 'too few files' '1 file for 2 ranks: each rank reads files of its own' 2 train 2 mlp -o no.m log=log-0.csv
# shellcheck disable=SC2086
refused 'a file twice' 'are one file' 2 train 2 mlp -o no.m log=log-0.csv log=log-0.csv
ctr-import -q -f csv --header log-0.csv -o some.arrows
ctr-import -q -f csv --header log-1.csv | ctr-select -q --columns id,user,click -o few.arrows
ctr-import -q -f csv --header log-2.csv | ctr-select -q --columns id,user,click -o few2.arrows
printf 'from log\nlabel click\nfeature user\nfeature ad\n' >lack.plan
refused 'a column that no rank has' "there is no column 'ad'" 2 run 2 ctr-train mlp -q --minibatch 9 -o no.m lack.plan log=few.arrows log=few2.arrows
cut -d , -f 1,2,4- log-1.csv >fewer.csv
printf 'from log = csv(header=true)\nlabel click\nfeature user\nfeature ad\n' >header.plan
refused 'text of a rank with another header' 'fewer.csv: there is no column ad, which log-0.csv has' 1 \
    run 2 ctr-train mlp -q --minibatch 9 -o no.m header.plan log=log-0.csv log=fewer.csv
# lacking WHAT FILE… : features and a model of two ranks, of which one has only files that lack a column
lacking() {
    _what=$1 _files=
    shift
    for _f in "$@"; do _files="$_files log=$_f"; done
    # shellcheck disable=SC2086
    ctr-extract -q lack.plan $_files -o one.arrows
    # shellcheck disable=SC2086
    ok "$_what: files of a rank that lack a column" run 2 ctr-extract -q lack.plan $_files -o 'lack-%d.arrows'
    rows lack-0.arrows lack-1.arrows >got.rows
    rows one.arrows | cmp -s - got.rows
    is "$_what: the rows of one process" $? 0
    # shellcheck disable=SC2086
    ok "$_what: a model" run 2 ctr-train mlp -q --embedding 4 --hidden 4 --minibatch 100 -o got.m lack.plan $_files
    run 2 ctr-train mlp -q --embedding 4 --hidden 4 --minibatch 100 -o want.m lack-0.arrows lack-1.arrows
    is "$_what: that of the features" "$(ctr-predict -q got.m one.arrows | digest -)" "$(ctr-predict -q want.m one.arrows | digest -)"
}
printf 'from log\nlabel click\nfeature user\nfeature ad\nkeep id\n' >lack.plan
lacking streams some.arrows few.arrows
lacking 'streams, the first rank' few.arrows some.arrows few2.arrows
for f in some few few2; do ctr-export -q --format parquet -o $f.parquet $f.arrows; done
lacking Parquet some.parquet few.parquet
lacking 'Parquet, the first rank' few.parquet some.parquet few2.parquet
mkdir -p kind/k=1 kind/k=2 kind/k=x kind/k=3
cp some.parquet kind/k=1
cp few.parquet kind/k=2
cp few2.parquet kind/k=3
cp few.parquet kind/k=x
printf 'from log = parquet(partitions=true)\nlabel click\nfeature k\nfeature ad\nkeep id\n' >lack.plan
lacking 'partitions that are integers on one rank' kind/k=1/some.parquet kind/k=x/few.parquet kind/k=2/few.parquet kind/k=3/few2.parquet
refused 'a view on stdin' 'ranks read files, not stdin: name the file of the view past' 2 \
    run 2 ctr-train mlp -q --minibatch 9 -o no.m raw.plan log=log-0.csv log=log-1.csv users=users.csv ads=ads.csv seen=seen.csv buys=buys.csv past=-
awk 'NR == 300 { sub(/,/, ",none,") } 1' log-1.csv >bad.csv
# shellcheck disable=SC2086
refused 'a row of rank 1' 'bad.csv: line 300: ' 1 train 2 mlp -o no.m log=log-0.csv log=bad.csv
mkdir -p host
cp log-*.csv ads.csv seen.csv buys.csv past.csv raw.plan host
head -n 50 users.csv >host/users.csv
# shellcheck disable=SC2086
refused 'another view by one name' "ranks differ: rank 0 has 'users users.csv of [0-9]* bytes, .*', rank 1 has 'users users.csv of [0-9]* bytes" 2 \
    timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp -q $net -o no.m raw.plan $sides $log : -n 1 -wdir "$PWD/host" ctr-train mlp -q $net -o no.m raw.plan $sides $log
cp users.csv host
sed 's/!= 3/!= 4/' raw.plan >host/raw.plan
# shellcheck disable=SC2086
refused 'another plan by one name' "ranks differ: rank 0 has 'plan raw.plan of [0-9]* bytes, .*', rank 1 has 'plan raw.plan of [0-9]* bytes" 2 \
    timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp -q $net -o no.m raw.plan $sides $log : -n 1 -wdir "$PWD/host" ctr-train mlp -q $net -o no.m raw.plan $sides $log
# shellcheck disable=SC2086
refused 'names of a part' '[-]-names is of all rows' 2 extract 2 no --names names $log
# shellcheck disable=SC2086
refused 'bad rows of a part' '[-]-bad-rows: ranks .mpirun. count no bad rows together' 2 extract 2 no --bad-rows skip=3 $log
# shellcheck disable=SC2086
refused 'a name with two numbers' '[-]o wants one %d for the number' 2 run 2 ctr-extract -q raw.plan $sides -o 'no-%d-%d.arrows' $log
# shellcheck disable=SC2086
exits 'a bad row of one rank: extraction' 1 extract 2 no log=log-0.csv log=bad.csv
err_like 'names it' 'bad.csv: line 300: '
ok 'it leaves no part of the rank' test ! -e no-1.arrows
# shellcheck disable=SC2086
ok 'without %d each process extracts all rows' run 2 ctr-extract -q raw.plan $sides -o all.arrows $log
is '… which is no part' "$(ctr-export -q --no-header all.arrows | wc -l)" "$(ctr-export -q --no-header want.arrows | wc -l)"
done_testing
