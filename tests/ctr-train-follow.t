#!/bin/sh
# ctr-train --follow: a file that grows, a FIFO whose writers come and go; the model on the way is whole whenever somebody looks, and
# the one at the end is that of a plain run over the same rows; kill -9 and --resume.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
cd "$W" || exit 1
ref() { "$PY" "$CTR_TOP/tests/model_reference.py" "$@"; }
ref make onehot 6000 onehot.arrows || exit 1
ctr-cat --batch 100 onehot.arrows >whole.arrows
size=$(wc -c <whole.arrows)
ctr-train lr -q -o want.arrows --progressive wantp.arrows whole.arrows

# until CONDITION…: wait for it, ten seconds at most
until_true() {
    for _i in $(seq 200); do
        "$@" 2>/dev/null && return 0
        sleep .05
    done
    return 1
}

# ---- a file that grows, cut anywhere
: >grows.arrows
ctr-train lr --follow --save-every 200 --flush 20ms -o m.arrows --progressive p.arrows grows.arrows 2>err &
pid=$!
head -c 100000 whole.arrows >>grows.arrows
ok 'a model on the way' until_true test -s m.arrows
at=100000
failed=0
while [ $at -lt "$size" ]; do
    tail -c +$((at + 1)) whole.arrows | head -c 33333 >>grows.arrows
    at=$((at + 33333))
    ctr-predict -q m.arrows onehot.arrows >scores 2>>predict.err || failed=$((failed + 1))
    ctr-info --check m.arrows >scores 2>>predict.err || failed=$((failed + 1))
done
is 'whoever reads it meanwhile finds a whole one' "$failed $(cat predict.err)" '0 '
cp m.arrows before.arrows
cat whole.arrows >>grows.arrows
differs() { ! cmp -s before.arrows m.arrows; }
ok 'a second stream behind the first is learned too' until_true differs
sleep 1
kill -TERM $pid
wait $pid
is 'SIGTERM: status 0' $? 0
ctr-train lr -q -o want2.arrows --progressive want2p.arrows whole.arrows whole.arrows
ok 'the model of a plain run' cmp want2.arrows m.arrows
ok 'and its predictions, whole' ref same want2p.arrows p.arrows
is 'the summary' "$(awk '/^rows/ { print $2 }' err)" 12000
ls m.arrows.tmp.* >left 2>/dev/null
is 'nothing is left behind' "$(cat left)" ''

# ---- a FIFO
mkfifo fifo
ctr-train lr -q --follow --save-every 50ms --flush 20ms -o f.arrows fifo &
pid=$!
ok 'one writer' cp whole.arrows fifo
ok 'and another' cp whole.arrows fifo
same_now() { cmp -s f.arrows want2.arrows; }
ok 'after a pause the model has all that came' until_true same_now
kill -INT $pid
wait $pid
is 'SIGINT: status 0' $? 0
ok 'the same model' cmp want2.arrows f.arrows
ctr-train lr -q --follow -o e.arrows <whole.arrows &
pid=$!
sleep 1
kill -TERM $pid
wait $pid
ok 'a file as standard input' cmp want.arrows e.arrows
ok 'a pipe ends when its writer does' sh -c 'cat whole.arrows | ctr-train lr -q --follow -o e2.arrows'
ok 'with its model' cmp want.arrows e2.arrows
ctr-train lr -q --save-every 100 -o s.arrows whole.arrows
ok '--save-every alone' cmp want.arrows s.arrows

# ---- kill -9, and on
cp whole.arrows grows.arrows
follow() { exec ctr-train lr -q --follow --save-every 100ms --flush 20ms --checkpoint c.ckpt --checkpoint-every 500 --resume -o k.arrows \
    --progressive kp.arrows grows.arrows; }
for i in 1 2 3; do
    follow 2>/dev/null &
    pid=$!
    until_true test -s c.ckpt
    sleep .$i
    kill -KILL $pid
    wait $pid 2>/dev/null
done
ok 'a checkpoint' test -s c.ckpt
cat whole.arrows >>grows.arrows
rm -f k.arrows
follow &
pid=$!
done_all() { cmp -s k.arrows want2.arrows; }
ok 'the model on the way gets there' until_true done_all
kill -TERM $pid
wait $pid
is 'resumed, stopped: status 0' $? 0
ok 'the model of a run that was never killed' cmp want2.arrows k.arrows
ok 'and its predictions' ref same want2p.arrows kp.arrows
ok 'the checkpoint is kept: the run may go on' test -s c.ckpt
cat whole.arrows >>grows.arrows
ctr-train lr -q -o want3.arrows whole.arrows whole.arrows whole.arrows
follow &
pid=$!
done_all() { cmp -s k.arrows want3.arrows; }
ok 'and does' until_true done_all
kill -TERM $pid
wait $pid

# ---- what it refuses
exits 'no file for the model' 2 ctr-train lr --follow whole.arrows
err_like 'says so' 'name a file with -o'
exits 'two inputs' 2 ctr-train lr --follow -o x.arrows whole.arrows whole.arrows
exits 'two passes' 2 ctr-train lr --follow --passes 2 -o x.arrows whole.arrows
exits 'a time that is none' 2 ctr-train lr --save-every often -o x.arrows whole.arrows
ctr-cat --to file -o whole.arrow whole.arrows
exits 'an IPC file' 2 ctr-train lr --follow -o x.arrows whole.arrow
err_like 'says why' 'only streams can be followed'
cp whole.arrows shrinks.arrows
ctr-train lr -q --follow --flush 20ms --save-every 100 -o x.arrows shrinks.arrows 2>err &
pid=$!
until_true test -s x.arrows
: >shrinks.arrows
wait $pid
is 'a file that is cut short: status 1' $? 1
ok 'says so' grep -q 'was cut short while it was followed' err
: >empty.arrows
ctr-train lr -q --follow --flush 20ms -o y.arrows empty.arrows 2>err &
pid=$!
sleep .5
kill -TERM $pid
wait $pid
is 'stopped before anything came: status 1' $? 1
ok 'says so' grep -q 'no input came' err
done_testing
