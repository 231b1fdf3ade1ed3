#!/bin/sh
# What streams must have in common to be read as one: plan, secret of the keys, types of the plan's inputs, roles, network and model of
# vectors. Files of a command line, streams joined by cat, --validation, --init, --resume, models and their features; tests/ranks.t has the ranks.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

awk 'BEGIN { print "ad,day,price,click"; for (i = 0; i < 400; i++) print i % 7 "," i % 5 "," i % 2 "," i % 2 }' >log.csv
import() { ctr-import -q --format csv --header --columns "$1" log.csv; }
import ad:int64,day:int64,price:int64,click:int8 >int.arrows
import ad:int32,day:int8,price:int64,click:int8 >narrow.arrows
import ad:int64,day:float64,price:int64,click:int8 >float.arrows
import ad:int64,day:int64,price:float64,click:int8 >price.arrows
printf 'feature ad\nfeature day\ndense price\nlabel click\n' >p.plan
printf '# other words\n\nfeature   ad   # the ad\nfeature day\ndense price\nlabel click' >words.plan
printf 'feature ad\nfeature day = day + 1\ndense price\nlabel click\n' >day.plan
printf 'feature ad\nfeature day\ndense price\nid click\n' >role.plan
printf 'feature ad = vocab(ad, min=2)\nfeature day\ndense price\nlabel click\n' >vocab.plan
printf 'the secret of the one' >one
printf 'the secret of the other' >other
ctr-extract p.plan int.arrows -o base.f
ctr-extract --key-seed one p.plan int.arrows -o one.f
ctr-extract --key-seed other p.plan int.arrows -o other.f
ctr-extract day.plan int.arrows -o day.f
ctr-extract p.plan float.arrows -o float.f
ctr-extract p.plan narrow.arrows -o narrow.f
ctr-extract p.plan price.arrows -o price.f
ctr-extract words.plan int.arrows -o words.f
ctr-extract --fit vocab.plan int.arrows -o a.fitted
ctr-select --head 13 int.arrows | ctr-extract --fit vocab.plan -o b.fitted
ctr-extract a.fitted int.arrows -o fita.f
ctr-extract b.fitted int.arrows -o fitb.f

# ---- what differs, and the remedy; both files are named
seed='fingerprint of its --key-seed is [0-9a-f]{32} there and [0-9a-f]{32} here, so that one value has two keys: extract both with one --key-seed'
refused() { # refused NAME FIRST SECOND PATTERN
    exits "$1" 1 ctr-train lr -q -o m $2 $3
    err_like 'is said' "^ctr-train: $3: cannot be joined with $2: $4 \(ctr-cat --force"
}
refused 'another secret' one.f other.f "the $seed"
refused 'a secret and none' base.f one.f 'the fingerprint of its --key-seed is none there and [0-9a-f]{32} here, .*'
refused 'another plan' base.f day.f "its plan has 'feature day' there and 'feature day = day \+ 1' here: extract both with one plan"
refused 'a plan fitted on other data' fita.f fitb.f 'its plan was fitted on other data: extract both with one fitted plan .*'
refused 'an input of another type' base.f float.f "input 'day' of its plan was int64 there and float64 here, .*: import both with one type, such as ctr-import --columns 'day:int64'"
for f in words narrow price; do
    ok "the same: $f" ctr-train lr -q -o $f.m base.f $f.f
done
ctr-cat --to file -o one.arrow one.f
ctr-cat --to file -o other.arrow other.f
refused 'of files with blocks' one.arrow other.arrow "the $seed"
refused 'of a file and a stream' one.arrow other.f "the $seed"
"$PY" -c 'import pyarrow' 2>/dev/null && { # role and table are all that differs
    "$PY" -c 'import pyarrow.ipc as i
t = i.open_stream("base.f").read_all()
f = t.schema.field("click")
t = t.cast(t.schema.set(t.schema.names.index("click"), f.with_metadata({"ctr.role": "id"})))
i.new_stream("role.f", t.schema).write_table(t)'
    refused 'another role' base.f role.f "column 'click' is of role label in one and id in the other: make them alike with ctr-select"
}

# ---- all that read several streams as one
for tool in 'ctr-cat' 'ctr-sort -k click' 'ctr-split --shards 2 -o x-%d' 'ctr-info' 'ctr-info --digest' 'ctr-select --where click==0' 'ctr-export' \
    'ctr-join -k click labels' 'ctr-group -k click --add n="count()"' 'ctr-eval --score price' 'ctr-train mlp -o x' 'ctr-predict one.m' 'ctr-model explain one.m'; do
    [ -s one.m ] || { ctr-train lr -q -o one.m one.f; printf 'click,name\n0,no\n1,yes\n' | ctr-import --format csv --header --columns click:uint8,name -o labels; }
    exits "$tool" 1 sh -c "$tool one.f other.f"
    err_like 'refuses' 'other.f: cannot be joined with one.f: the fingerprint'
    exits "$tool in a pipe" 1 sh -c "cat one.f other.f | $tool"
    err_like 'refuses' 'stdin: stream 2 in it \(after row 400\) cannot be joined with the first: the fingerprint'
done
ok 'nothing was split' sh -c '! ls x-* 2>/dev/null'
exits '--validation' 1 ctr-train lr -q -o x one.f --validation other.f
err_like 'refuses' "^ctr-train: other.f: --validation does not fit one.f, which is learned from: the $seed"
exits '--validation: types' 1 ctr-train lr -q -o x base.f --validation float.f
err_like 'refuses' "^ctr-train: float.f: --validation does not fit base.f, .*input 'day' of its plan was int64 there and float64 here"
exits '--init' 1 ctr-train lr -q -o x other.f --init one.m
err_like 'refuses' '^ctr-train: other.f: its features are not those that one.m learned from: the fingerprint .*: extract them with ctr-extract one.m'
exits '--init-partial: the secret' 1 sh -c 'ctr-train mlp -q -o one.mlp one.f && ctr-train mlp -q -o x other.f --init-partial --init one.mlp'
err_like 'refuses' "^ctr-train: other.f: --init-partial one.mlp does not fit: the $seed"
exits 'predict' 1 ctr-predict one.m other.f
err_like 'refuses' '^ctr-predict: other.f: its features are not those that one.m learned from: the fingerprint .*: extract them with ctr-extract one.m'
head -c "$(($(wc -c <one.f) - 100))" one.f >cut.f
exits 'a run that breaks off' 1 ctr-train lr -q -o x --checkpoint c --checkpoint-every 100 cut.f
exits '--resume' 1 ctr-train lr -q -o x --checkpoint c --checkpoint-every 100 --resume other.f
err_like 'refuses' '^ctr-train: other.f: its features are not those that c learned from: the fingerprint'
ok '--resume of the same' ctr-train lr -q -o x --checkpoint c --checkpoint-every 100 --resume one.f
ctr-train lr -q -o other.m other.f
exits 'two models in one pipe' 1 sh -c 'cat one.m other.m | ctr-cat'

# ---- where no feature is left, plans do not matter
for k in one other; do ctr-predict $k.m $k.f -o $k.p; ctr-select --columns click $k.f -o $k.labels; done
ok 'predictions of two models' ctr-eval one.p other.p
ok 'labels alone' ctr-cat -o x one.labels other.labels

# ---- ctr-cat --force
exits '--force' 0 ctr-cat -q --force -o forced.f one.f other.f day.f
exits '--force, not quiet' 0 ctr-cat --force -o forced.f one.f other.f day.f
err_like 'names what it drops' '^ctr-cat: --force: the result does not name plan [0-9a-f]{32}, key seed [0-9a-f]{32}$'
err_like 'and what differed' '^ctr-cat: --force: other.f: the fingerprint of its --key-seed is [0-9a-f]{32} there and [0-9a-f]{32} here, .*; there: one.f$'
err_like 'in each file' '^ctr-cat: --force: day.f: .*; there: one.f$'
is 'and has all rows' "$(ctr-info forced.f | grep -E '^(rows|plan_id|key_seed):')" 'rows: 1200'
exits 'from a pipe' 0 sh -c 'cat one.f other.f | ctr-cat --force >forced2.f'
err_like 'too' '^ctr-cat: --force: stdin: stream 2 in it \(after row 400\) the fingerprint'
ok 'it is learned from' ctr-train lr -q -o x forced.f
exits 'other columns are not joined by force' 1 ctr-cat --force one.f int.arrows
err_like 'either' "cannot be joined with one.f: column 3 is|cannot be joined with one.f: column 1|cannot be joined with one.f: column '"
done_testing
