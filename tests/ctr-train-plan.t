#!/bin/sh
# ctr-train MODEL PLAN FILE…: a log is extracted in the process. The model and the predictions are those of the pipe from
# ctr-extract, byte for byte, for any number of threads, batch size and pass; so are those of a run that was killed and resumed.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

awk 'BEGIN {
    srand(7)
    print "time,user,ad,price,site,click"
    for (i = 0; i < 5000; i++) {
        u = int(rand() * 200); a = int(rand() * 40)
        printf "%d,u%d,%d,%.2f,s%d,%d\n", 1600000000 + i, u, a, rand() * 10, int(rand() * 9), rand() < .1 + .3 * (u % 3 == a % 3)
    }
}' >log.csv
ctr-import -f csv --header --time time:unix log.csv -o log.arrows || exit 1
cat >plan <<'END'
label   click
time    time
keep    site
feature user in person = user
feature ad = vocab(ad, min=5)
feature both = cross(user, ad)
feature price = log_bucket(price)
END
grep -v vocab plan >plain.plan
ctr-extract -q --fit plan -o fitted.arrows log.arrows || exit 1

# piped PLAN OPTION… : what the two filters make.
piped() {
    _plan=$1
    shift
    ctr-extract -q "$_plan" log.arrows | ctr-train "$@"
}

not() { ! "$@"; }
piped plain.plan lr -q --alpha .2 -o want.arrows --progressive wantp.arrows
ok 'a plan in front of a log' ctr-train lr -q --alpha .2 -o m.arrows --progressive p.arrows plain.plan log.arrows
ok 'the model of the pipe, byte for byte' cmp want.arrows m.arrows
ok 'its predictions' same_rows wantp.arrows p.arrows
ok 'with the log on stdin' sh -c 'ctr-train lr -q --alpha .2 -o stdin.arrows plain.plan - <log.arrows'
ok 'the same bytes' cmp want.arrows stdin.arrows
for run in '-j 1' '-j 4' '-j 2 --memory 8M'; do
    # shellcheck disable=SC2086
    ok "$run" ctr-train lr -q --alpha .2 $run -o run.arrows plain.plan log.arrows
    ok "$run: the same bytes" cmp want.arrows run.arrows
done
# What the stages did: four lines a pass, each of which adds up to the time.
shares() { # FILE STAGE COUNT
    sed -n "s/^ctr-train: stage $2: //p" "$1" | awk -v n="$3" '{ sum = $1 + $3 + $5; bad += sum < 97 || sum > 103 || $1 < 0 || $5 < 0 } END { exit NR != n || bad }'
}
for j in 1 3; do
    ok "-v -j $j" sh -c "ctr-train lr -v -j $j --passes 2 -o said.arrows plain.plan log.arrows 2>said"
    for stage in read extract rows train; do ok "-v -j $j tells of stage $stage in each pass" shares said $stage 2; done
done
ctr-train lr -q --passes 2 -o two.arrows plain.plan log.arrows
ok '-v: the same model' cmp two.arrows said.arrows
ok '-v of a pipe' sh -c 'cat log.arrows | ctr-train lr -v -j 2 -o said.arrows plain.plan 2>said'
ok 'tells of them, too' shares said train 1
ok '-v of features' sh -c 'ctr-extract -q plain.plan log.arrows | ctr-train lr -v -o said.arrows 2>said'
ok 'does not' not grep -q 'stage' said
exits '--queue of a plan without statements' 2 ctr-train lr --queue 2 -o none.arrows plain.plan log.arrows
err_like 'says what it is for' 'queue is for a plan that begins with from VIEW'
ctr-cat --batch 77 log.arrows >small.arrows
ctr-train lr -q --alpha .2 -o small.m plain.plan small.arrows
ok 'small batches: the same bytes' cmp want.arrows small.m

piped fitted.arrows lr -q --plan fitted.arrows -o wantf.arrows
ok 'a fitted plan' ctr-train lr -q -o f.arrows fitted.arrows log.arrows
ok 'its state goes into the model, as with --plan' cmp wantf.arrows f.arrows
ok 'a model is a plan too' ctr-train lr -q -o g.arrows f.arrows log.arrows
ok 'and gives itself' cmp f.arrows g.arrows

ctr-extract -q plain.plan log.arrows -o features.arrows
ctr-train lr -q --passes 3 -o want3.arrows features.arrows
ok 'three passes' ctr-train lr -q --passes 3 -o m3.arrows plain.plan log.arrows
ok 'the same bytes' cmp want3.arrows m3.arrows
ok '--spool keeps what was extracted' sh -c 'ctr-train lr -q --passes 3 --spool s -o m3s.arrows plain.plan <log.arrows'
ok 'the same bytes' cmp want3.arrows m3s.arrows
ok 'the file is a stream of features' same_rows s features.arrows

ctr-train mlp -q --hidden 8 --embedding 4 --minibatch 500 --validation features.arrows -o wantv.arrows features.arrows
ok 'mlp, and --validation of a log' ctr-train mlp -q --hidden 8 --embedding 4 --minibatch 500 --validation log.arrows -o v.arrows \
    plain.plan log.arrows
ok 'the same bytes' cmp wantv.arrows v.arrows

head -c 32 /dev/urandom >secret
ctr-extract -q --key-seed secret plain.plan log.arrows | ctr-train lr -q -o wants.arrows
ok 'with a secret of keys' ctr-train lr -q --key-seed secret -o s.arrows plain.plan log.arrows
ok 'the same bytes' cmp wants.arrows s.arrows
ok 'other keys than without' not same_rows m.arrows s.arrows
exits 'a model that was made with a secret, without it' 2 ctr-train lr -q -o x.arrows s.arrows log.arrows
exits 'a secret for features that are made' 2 ctr-train lr -q --key-seed secret -o x.arrows features.arrows
err_like 'says so' 'key-seed is for a PLAN'

if has_python pyarrow; then
    "$PY" -c 'import pyarrow as pa, sys
s = pa.schema([("user", pa.string()), ("click", pa.int64())])
with pa.ipc.new_stream(sys.stdout.buffer, s) as w:
    for u, c in (["a", "b"], [0, 1]), ([], []), (["c"], [1]), ([], []):
        w.write_batch(pa.record_batch([pa.array(u, pa.string()), pa.array(c, pa.int64())], schema=s))' >foreign.arrows
    printf 'label click\nfeature user\n' >user.plan
    ok 'batches without rows are extracted' sh -c 'timeout 20 ctr-extract -q user.plan foreign.arrows >few.arrows'
    is 'to the rows of the others' "$(ctr-info few.arrows | sed -n 's/^rows: //p')" 3
    ctr-train lr -q -o wante.arrows few.arrows
    ok 'and learned' timeout 20 ctr-train lr -q -o e.arrows user.plan foreign.arrows
    ok 'the same bytes' cmp wante.arrows e.arrows
    "$PY" -c 'import pyarrow as pa, sys
r = pa.ipc.open_stream(sys.argv[1])
with pa.ipc.new_stream(sys.stdout.buffer, r.schema) as w:
    for b in r:
        for part in b.slice(0, 0), b.slice(0, 1), b.slice(1, 0), b.slice(1):
            w.write_batch(part)' few.arrows >holes.arrows
    ok 'features with batches without rows' ctr-train lr -q -o e2.arrows holes.arrows
    ok 'the same model' same_rows wante.arrows e2.arrows
else
    skip 'batches without rows' 'no pyarrow'
fi

# ---- kill -9, and on
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cat log.arrows; done >long.arrows
ctr-train lr -q -o wantl.arrows --progressive wantlp.arrows plain.plan long.arrows
long() {
    timeout "$@" ctr-train lr -q --checkpoint c --checkpoint-every 3000 --resume -o l.arrows --progressive lp.arrows plain.plan long.arrows
}
killed_runs 'kill -9: ' long 02 03 04 05 06
ok 'kill -9 and --resume: the same model' cmp wantl.arrows l.arrows
ok 'the same predictions' same_rows wantlp.arrows lp.arrows

# ---- what is no plan
exits 'a log of text' 2 ctr-train lr -o x.arrows log.csv
err_like 'says what is wanted' 'log.csv:1:5: .*ctr-import makes streams'
awk '{ for (i = 0; i < 12; i++) print }' log.csv >large.csv
exits 'a large one' 1 ctr-train lr -o x.arrows large.csv
err_like 'is no plan at all' 'large.csv: is not an Arrow stream.*ctr-import'
ctr-extract -q plain.plan log.arrows -o plain.features && ctr-train lr -q -o plain.model plain.features
exits 'a plan behind the rows' 1 ctr-train lr -o x.arrows plain.features plain.plan
err_like 'is told where it goes' 'plain.plan: is not an Arrow stream.*; plain.plan is a plan, which goes before the streams$'
exits 'so by ctr-extract' 2 ctr-extract log.arrows plain.plan
err_like 'too' 'log.arrows: holds no plan.*; plain.plan is a plan, which goes before the streams$'
exits 'and a model by ctr-predict' 1 ctr-predict plain.features plain.model
err_like 'too' 'plain.features: .*; plain.model is a model, which goes before the streams$'
# A feature of floats is said once, as by ctr-extract.
ctr-select -q --add 'x = price * (ad + 1) / 7' log.arrows -o floats.arrows
printf 'label click\nfeature x\nfeature ad\n' >floats.plan
ctr-extract floats.plan floats.arrows 2>want.said >floats.f
for j in 1 3; do
    ctr-train lr -j $j --passes 2 -o x.arrows floats.plan floats.arrows 2>&1 | sed -n 's/^ctr-train: feature/ctr-extract: feature/p' >got.said
    ok "a feature of floats, -j $j: what ctr-extract says, once" cmp want.said got.said
done
ok 'which is its keys' grep -q 'feature x makes about [0-9]* keys of 5000 rows' want.said
rm -f x.arrows

exits 'a plan that needs fitting' 2 ctr-train lr -o x.arrows plan log.arrows
err_like 'says how' 'plan: the plan needs fitting first: ctr-extract --fit plan'
printf 'label nosuch\nfeature user\n' >bad.plan
exits 'a column that the log lacks' 2 ctr-train lr -o x.arrows bad.plan log.arrows
err_like 'names it' 'bad.plan:1:7.*nosuch'
exits 'the output is the plan' 2 ctr-train lr -o plain.plan plain.plan log.arrows
head -c 20000 log.arrows >short.arrows
exits 'a log that is cut short' 1 ctr-train lr -q -o x.arrows plain.plan short.arrows
err_like 'says so' 'short.arrows: truncated'
ok 'no model is left' test ! -e x.arrows
done_testing
