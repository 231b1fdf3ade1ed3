#!/bin/sh
# --bad-rows of all tools that cannot use some rows: results are those of the log without them, bad rows are counted, numbered and
# set aside, rows before a bad one are delivered, and a live chain passes over the row that stopped it.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

same() { [ "$(ctr-info --digest "$1")" = "$(ctr-info --digest "$2")" ]; } # rows; provenance apart
rows() { ctr-info "$1" | sed -n 's/^rows: //p'; }

# A log with a bad row in 97, of six kinds in turn, and the same without them.
log() {
    awk -v n="$1" -v all="$2" 'BEGIN {
        print "id,user,ad,x,click,w,ts"
        for (s = i = 0; i < n; i++) {
            s = (s * 1103515245 + 12345) % 2147483648; u = int(s / 65536) % 300
            s = (s * 1103515245 + 12345) % 2147483648; a = int(s / 65536) % 50
            s = (s * 1103515245 + 12345) % 2147483648; c = s / 2147483648 < (a % 5 + 1) / 7 ? 1 : 0
            x = a / 50; w = 1 + u % 3 / 2; t = 1600000000 + i * 10; k = i % 97 == 5 ? int(i / 97) % 6 : -1
            if (k >= 0 && !all) continue
            if (k == 0) c = ""; if (k == 1) w = -1; if (k == 2) w = "nan"; if (k == 3) t = ""; if (k == 4) x = "inf"; if (k == 5) c = 2
            print i "," u "," a "," x "," c "," w "," t
        } }' | ctr-import -q -f csv --header -c id:int64,user:int64,ad:int64,x:float64,click:float64,w:float64,ts:timestamp --time ts:unix --user user
}
log 5000 1 >all.arrows
log 5000 '' >good.arrows

# ---- ctr-extract: rows of which the plan makes roles that cannot be
cat >roles.plan <<'END'
label y = click >= 1
weight w
time ts
feature ad
feature u = vocab(user, min=2)
dense x
keep id
END
cat >lacks.plan <<'END'
label y = if(click > 1, null, click)
weight w
time ts
feature ad
END
exits 'a null label ends an extraction' 1 ctr-extract lacks.plan all.arrows
err_like 'named with its remedy' '^ctr-extract: all.arrows: row 6: the label .y. is null, as what it is made of is; fill.*; --bad-rows skip=MAX or quarantine=FILE leaves such rows out$'
ctr-extract lacks.plan all.arrows 2>err | ctr-cat --lenient 2>lenient | ctr-export --no-header >got
is 'the rows before it have gone out' "$(wc -l <got)" 5
exits 'without the end of a stream' 1 sh -c 'ctr-extract lacks.plan all.arrows 2>err | ctr-cat >out'
ctr-select --where 'click <= 1 and w >= 0 and not is_null(ts)' all.arrows | ctr-extract lacks.plan >want.arrows
for j in 1 3; do
    ctr-extract -j $j --batch 100 --bad-rows skip=45 lacks.plan all.arrows >got.arrows 2>err
    ok "the result is that of the rows without them (-j $j)" same got.arrows want.arrows
done
is 'counted by kind' "$(tail -n 1 err)" 'ctr-extract: 44 of 5000 rows are bad and left out: 17 label y null, 9 weight w negative, 9 weight w NaN or infinite, 9 time ts null'
exits 'one too many' 1 ctr-extract --bad-rows skip=2 lacks.plan all.arrows
err_like 'is named' 'all.arrows: row 200: bad row 3 where --bad-rows allows 2: the weight .column w. is nan, but must be finite and not negative$'
exits 'set aside' 0 ctr-extract --bad-rows quarantine=bad.arrows -o got.arrows lacks.plan all.arrows
ok 'they are whole rows, with number and reason' test "$(ctr-export bad.arrows | sed -n '1p;3p')" = 'id,user,ad,x,click,w,ts,bad_row,bad_reason
'"$(ctr-export all.arrows | sed -n 104p)"',103,"the weight (column w) is -1, but must be finite and not negative"'
exits 'nothing is set aside by a run that fails' 1 ctr-extract --bad-rows quarantine=none.arrows -o got.arrows lacks.plan all.arrows nothere
ok 'no file' test ! -e none.arrows
exits 'the quarantine of rows that were set aside before' 0 ctr-extract -q --bad-rows quarantine=again.arrows -o got.arrows lacks.plan bad.arrows
is 'has one pair of columns more' "$(ctr-export again.arrows | head -n 1)" 'id,user,ad,x,click,w,ts,bad_row,bad_reason'

# Fitted state, names and counts are those of the good rows, too. x and a label of 2 are good to an extraction.
ctr-select --where 'not is_null(click) and w >= 0 and not is_null(ts)' all.arrows >some.arrows
ctr-extract -q --fit roles.plan -o want.fit some.arrows
ctr-extract -q --fit roles.plan --bad-rows skip=99 -o got.fit all.arrows
ok 'a fit without them' same want.fit got.fit
ctr-extract -q --names want.names want.fit some.arrows >want.arrows
ctr-extract -q --names got.names --bad-rows skip=99 want.fit all.arrows >got.arrows
ok 'names' same want.names got.names
ok 'and features' same want.arrows got.arrows

# ---- ctr-train
cat >features.plan <<'END'
keep click
keep w
keep ts
feature ad
feature u = user
dense x
keep id
END
for f in all good; do ctr-extract -q features.plan $f.arrows >$f.f; done
roles='--label click --weight w --time-order fail'
train() { # MODEL OPTIONS…
    rm -f spool
    ctr-train "$1" -q $roles $2 --progressive want.p -o want.m good.f 2>err || return 1
    rm -f spool
    ctr-train "$1" -q $roles $2 -j 2 --bad-rows skip=52 --progressive got.p -o got.m all.f 2>err && cmp want.m got.m && cmp want.p got.p
}
ok 'lr' train lr ''
ok 'lr, minibatches' train lr '--minibatch 100'
ok 'lr, passes' train lr '--passes 3'
ok 'lr, a spool' train lr '--passes 2 --spool spool'
[ "$SAN" ] || ok 'fm' train fm '--minibatch 100 --passes 2'
ok 'mlp' train mlp '--minibatch 64 --embedding 4'
sed 's/^keep click/label click/; s/^keep w/weight w/; s/^keep ts/time ts/' features.plan >train.plan
ctr-train lr -q -o want.m train.plan good.arrows
exits 'a plan' 0 ctr-train lr $roles --passes 2 --bad-rows quarantine=bad.arrows -o got.m train.plan all.arrows
ok 'sets rows of the log aside' test "$(ctr-export --no-header bad.arrows | wc -l) $(ctr-export bad.arrows | head -n 1)" = '52 id,user,ad,x,click,w,ts,bad_row,bad_reason'
err_like 'once, in several passes' '52 of 5000 rows are bad and set aside in bad.arrows: 9 label click null, 9 weight w negative, 9 weight w NaN or infinite, 9 time ts null, 8 dense x NaN or infinite, 8 label click not in .0, 1.$'
ctr-train lr -q $roles --passes 2 -o want.m train.plan good.arrows
ok 'and has the model of the others' cmp want.m got.m
exits 'a validation' 0 ctr-train lr -q $roles --bad-rows skip=52 --validation all.f -o got.m all.f
exits 'with more bad rows than allowed' 1 ctr-train lr -q $roles --bad-rows skip=20 --validation all.f -o got.m good.f
err_like 'is named' 'all.f: row 2334: bad row 21 where --bad-rows allows 20: '

# A run that a bad row ended has learned the rows before it, and goes on from there.
exits 'a bad row ends a run' 1 ctr-train lr $roles --checkpoint ckpt -o got.m all.f
err_like 'whose checkpoint has the rows before it' '^saved  *checkpoint, after 5 rows$'
exits 'the same run again ends there, too' 1 ctr-train lr -q $roles --checkpoint ckpt --resume -o got.m all.f
exits 'but leaves the row out when it may' 0 ctr-train lr -q $roles --checkpoint ckpt --resume --bad-rows quarantine=bad.arrows -o got.m all.f
ctr-train lr -q $roles -o want.m good.f
ok 'with the model of the good rows' cmp want.m got.m
is 'all bad rows are set aside' "$(rows bad.arrows)" 52
ctr-cat --batch 50 all.f >small.f
killed() { timeout "$@" ctr-train lr -q $roles --passes 40 --checkpoint k.ckpt --checkpoint-every 100 --resume --bad-rows skip=52 -o k.m small.f 2>k.err; }
ctr-train lr -q $roles --passes 40 -o want.m good.f
killed_runs 'kill -9: ' killed 05 08 11 15
ok 'kill -9, and on: the same model' cmp want.m k.m

# ---- a live chain
ctr-cat --batch 10 all.f >whole.f
size=$(wc -c <whole.f)
head -c $((size / 2)) whole.f >live.f
follow() { exec ctr-train lr -q $roles --follow --flush 20ms --save-every 100ms --checkpoint f.ckpt --checkpoint-every 50 --resume -o f.m "$@" live.f; }
(follow 2>err)
is 'a log that grows, and a bad row' $? 1
ok 'the model of the rows before it is saved' grep -q 'row 6: .*; the model of the 5 rows before is saved$' err
(follow 2>err)
is 'again, at each restart' $? 1
follow --bad-rows skip=52 2>err &
pid=$!
tail -c +$((size / 2 + 1)) whole.f >>live.f
ctr-train lr -q $roles -o want.m good.f
ok 'with --bad-rows skip it goes on' until_true cmp -s want.m f.m
kill -TERM $pid
wait $pid
is 'to its end' $? 0
mkfifo pipe
(ctr-extract --bad-rows quarantine=chain.bad train.plan pipe 2>err | ctr-train lr -q --follow --flush 20ms --save-every 50ms -o chain.m - 2>err2; echo $? >status) &
pid=$!
ctr-select --where 'x <= 1 and (is_null(click) or click <= 1)' all.arrows | ctr-cat --batch 20 >pipe
wait $pid
is 'ctr-extract in a chain' "$(cat status)" 0
ctr-extract train.plan good.arrows | ctr-train lr -q -o want.m -
ok 'the model of the good rows' same want.m chain.m

# ---- ctr-predict, ctr-eval, ctr-calibrate
ctr-train lr -q $roles -o model.arrows good.f
ctr-select --where 'x <= 1' all.f | ctr-predict -q model.arrows >want.arrows
exits 'ctr-predict: numbers that are none' 0 ctr-predict --bad-rows skip=8 -o got.arrows model.arrows all.f
ok 'are left out' same want.arrows got.arrows
err_like 'and told' '^ctr-predict: 8 of 5000 rows are bad and left out: 8 dense x NaN or infinite$'
ctr-predict model.arrows all.f 2>err | ctr-cat --lenient 2>lenient | ctr-export --no-header >got
is 'rows before one are delivered' "$(wc -l <got)" 393
ctr-select --add 'score=if(id % 97 == 8, 1.5, score)' got.arrows >scores.arrows
ctr-select --where 'score <= 1 and click <= 1 and w >= 0 and not is_null(ts)' scores.arrows >usable.arrows
eval_of() { ctr-eval -q --label click --weight w --score score --user id --time ts --window 4h "$@"; }
eval_of usable.arrows >want
eval_of --bad-rows skip=99 scores.arrows >got
ok 'ctr-eval' cmp want got
eval_of --bad-rows quarantine=bad.arrows scores.arrows >got
is 'ctr-eval sets rows aside' "$(rows bad.arrows)" $(($(rows scores.arrows) - $(rows usable.arrows)))
ok 'with all their columns' test "$(ctr-export bad.arrows | head -n 1)" = "$(ctr-export scores.arrows | head -n 1),bad_row,bad_reason"
exits 'beside a control all rows are wanted' 2 eval_of --bad-rows skip=9 --control scores.arrows scores.arrows
fit() { ctr-calibrate --fit power -q --label click --weight w --score score "$@"; }
ctr-select --where 'score <= 1 and click <= 1 and w >= 0' scores.arrows | fit -o want.map
for policy in skip=99 quarantine=bad.arrows; do
    fit --bad-rows $policy -o got.map scores.arrows
    ok "ctr-calibrate --fit ($policy)" cmp want.map got.map
done
ctr-select --where 'score <= 1' scores.arrows | ctr-calibrate -q want.map >want.arrows
ctr-calibrate -q --bad-rows skip=99 want.map scores.arrows >got.arrows
ok 'ctr-calibrate' same want.arrows got.arrows
fit --rolling 2h --every 1h --time ts --bad-rows quarantine=bad.arrows -o got.map scores.arrows 2>err
is 'a rolling one sets rows aside' "$(rows bad.arrows)" $(($(rows scores.arrows) - $(rows usable.arrows)))

# ---- ctr-history, ctr-sample
history() { ctr-history -q -c ad --count ad --where 'click > 0' --time ts --user user "$@"; }
ctr-select --where 'not is_null(ts)' all.arrows | history >want.arrows
history --bad-rows skip=9 all.arrows >got.arrows
ok 'ctr-history' same want.arrows got.arrows
exits 'a row without a time' 1 history all.arrows
err_like 'is named with its remedy' '^ctr-history: all.arrows: row 297: the time .column ts. is null; --bad-rows skip=MAX or quarantine=FILE leaves such rows out$'
history --batch 50 all.arrows 2>err | ctr-cat --lenient 2>lenient | ctr-export --no-header >got
is 'rows before it are delivered' "$(wc -l <got)" 296
sample() { ctr-sample -q --share .5 --query user --label click --weight w "$@"; }
ctr-select --where 'click <= 1 and w >= 0' all.arrows | sample >want.arrows
sample --bad-rows skip=99 all.arrows >got.arrows
ok 'ctr-sample' same want.arrows got.arrows

# ---- the option
for tool in extract train predict history eval calibrate sample; do
    ok "ctr-$tool --help has the option" sh -c "ctr-$tool --help=all | grep -q -- '--bad-rows fail|skip=MAX|quarantine=FILE'"
done
exits 'a bad policy' 2 ctr-extract --bad-rows never lacks.plan all.arrows
err_like 'is told' '^ctr-extract: --bad-rows wants fail, skip=MAX or quarantine=FILE, not .never.$'
exits 'a quarantine over the input' 2 ctr-extract --bad-rows quarantine=all.arrows -o got.arrows lacks.plan all.arrows
exits 'and over the output' 2 ctr-extract --bad-rows quarantine=got.arrows -o got.arrows lacks.plan all.arrows
done_testing
