#!/bin/sh
# ctr-train --follow: a file that grows, a FIFO whose writers come and go; the model on the way is whole whenever somebody looks, and
# the one at the end is that of a plain run over the same rows; kill -9 and --resume.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
cd "$W" || exit 1
REF="$CTR_TOP/tests/model_reference.py"
ref make onehot 6000 onehot.arrows || exit 1
ctr-cat --batch 100 onehot.arrows >whole.arrows
size=$(wc -c <whole.arrows)
ctr-train lr -q -o want.arrows --progressive wantp.arrows whole.arrows

# reads PID FILE: it has opened it, so that it has its handlers of signals too
reads() { find "/proc/$1/fd" -lname "*/$2" | grep -q .; }

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
cat whole.arrows >>grows.arrows
ctr-train lr -q -o want2.arrows --progressive want2p.arrows whole.arrows whole.arrows
is_all() { cmp -s want2.arrows m.arrows; }
ok 'a second stream behind the first is learned too' until_true is_all
kill -TERM $pid
wait $pid
is 'SIGTERM: status 0' $? 0
ok 'the model of a plain run' cmp want2.arrows m.arrows
ok 'and its predictions, whole' ref same want2p.arrows p.arrows
is 'the summary' "$(awk '/^rows/ { print $2 }' err)" 12000
ls m.arrows.tmp.* >left 2>/dev/null
is 'nothing is left behind' "$(cat left)" ''

# ---- a log that is written anew under the reader
for grown in 0 100; do
    cp whole.arrows anew.arrows
    ctr-train lr -q --follow --flush 20ms --save-every 50ms -o anew.m anew.arrows 2>err &
    pid=$!
    until_true cmp -s want.arrows anew.m
    { tr '\000-\377' '\001-\377\000' <whole.arrows && head -c $grown whole.arrows; } >rubbish
    dd if=rubbish of=anew.arrows conv=notrunc bs=1M 2>/dev/null # it is never shorter when it is looked at
    until_true grep -q anew err || kill -KILL $pid
    wait $pid
    is "of its length and $grown bytes: status 1" $? 1
    ok 'says so' grep -q 'anew.arrows: was cut short and written anew while it was followed.*; the model of the 6000 rows before is saved' err
    rm -f anew.m
done

# ---- the same stop, twice: what timeout sends to a program and to its group
ctr-train lr -q --follow --flush 20ms --save-every 50ms -o twice.arrows whole.arrows &
pid=$!
until_true cmp -s want.arrows twice.arrows
kill -TERM $pid && kill -TERM $pid && kill -INT $pid
wait $pid
is 'SIGTERM, SIGTERM and SIGINT at once: one stop in order' $? 0
ok 'with its model' cmp want.arrows twice.arrows
mkfifo full
ctr-train lr -q --follow --flush 20ms --progressive full -o twice2.arrows whole.arrows &
pid=$!
exec 7<full # no reader, and no room: the end cannot be written
sleep .3
timeout .5 dd if=/dev/zero of=full bs=4096 2>/dev/null
kill -TERM $pid
sleep 1.2
kill -TERM $pid 2>/dev/null
wait $pid
is 'a second stop, later, ends a run that hangs' $? 143
exec 7<&-
is 'nothing is left behind' "$(ls twice2.arrows* 2>/dev/null)" ''
exits '--save-every of the longest time there is' 0 ctr-train lr -q --save-every 15250284452w -o long.arrows whole.arrows
ok 'the same model' cmp want.arrows long.arrows

# ---- rows that wait for the end of their minibatch when the run ends
ctr-train lr -q --minibatch 4000 -o want4000.arrows whole.arrows
: >err # the lines before it are not this one's
ctr-train lr --follow --minibatch 4000 --save-every 1000 --flush 20ms -o w.arrows whole.arrows 2>err &
pid=$!
all_saved() { grep -q 'after 6000 rows' err; }
ok 'all rows are read' until_true all_saved
kill -TERM $pid
wait $pid
ok 'SIGTERM: they are in the model' cmp want4000.arrows w.arrows
head -c $((size * 3 / 4)) whole.arrows >cut.arrows
cat cut.arrows | ctr-train lr -q --follow --minibatch 4000 -o w.arrows 2>err
rows=$(sed -n 's/.*the model of the \([0-9]*\) rows before is saved.*/\1/p' err)
is 'a writer that breaks off in a minibatch' "$((rows > 4000 && rows < 6000))" 1
ctr-select --head "$rows" whole.arrows | ctr-train lr -q --minibatch 4000 -o wantcut.arrows -
same_learned() { ctr-export "$1" | sort >a && ctr-export "$2" | sort >b && cmp a b; }
ok "they are among the $rows rows that it tells" same_learned wantcut.arrows w.arrows

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
ctr-train lr -q --follow --save-every 100ms --flush 20ms -o e.arrows <whole.arrows &
pid=$!
until_true cmp -s want.arrows e.arrows
kill -TERM $pid
wait $pid
ok 'a file as standard input' cmp want.arrows e.arrows
ok 'a pipe ends when its writer does' sh -c 'cat whole.arrows | ctr-train lr -q --follow -o e2.arrows'
ok 'with its model' cmp want.arrows e2.arrows
for every in 1 100 150 250; do # batches have 100 rows
    ctr-train lr --save-every $every -o s.arrows whole.arrows 2>err
    is "--save-every $every alone: so often" "$(grep -c '^saved' err)" $((every > 100 ? 6000 / every : 60))
    ok 'the same model' cmp want.arrows s.arrows
done

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

# ---- checkpoints while the input pauses
: >err
ctr-train lr --follow --flush 20ms --checkpoint i.ckpt --checkpoint-every 50ms -o i.arrows onehot.arrows 2>err &
pid=$!
ok 'a checkpoint of the rows before a pause' until_true grep -q '^saved  *checkpoint.* 6000 ' err # on a slow machine there are some on the way
kill -TERM $pid
wait $pid
ok 'and the model at the end' cmp want.arrows i.arrows
# After log rotation a new log has the name: it is not waited for until it has as many rows.
ctr-select --head 7 onehot.arrows >rotated.arrows
timeout 120 ctr-train lr -q --follow --flush 20ms --checkpoint i.ckpt --checkpoint-every 50ms --resume -o i.arrows rotated.arrows 2>err
is 'a log of fewer rows than the checkpoint: status 1' $? 1
ok 'says so, and what to do' grep -q 'ends after row 7, but i.ckpt was made after row 6000: in another log, .* --init MODEL goes on' err
ok 'the model stays' cmp want.arrows i.arrows
ctr-cat -q rotated.arrows | timeout 120 ctr-train lr -q --follow --flush 20ms --checkpoint i.ckpt --resume -o i.arrows 2>err
ok 'the end of a pipe says so, too' grep -q 'ends after row 7' err

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
cp onehot.arrows turns.arrows
ctr-train lr -q --follow --flush 20ms --save-every 100 -o t.arrows turns.arrows 2>err &
pid=$!
until_true test -s t.arrows
mv turns.arrows turns.1
sleep .2
cat onehot.arrows >>turns.1
cp whole.arrows turns.new
sleep .2
ok 'a file that was renamed is followed on' kill -0 $pid
mv turns.new turns.arrows
wait $pid
is 'until another has its name: status 1' $? 1
ok 'says so, and how far it came' grep -q 'another file took its name while it was followed, and nothing more came; the model of the 12000 rows before is saved$' err
: >empty.arrows
ctr-train lr -q --follow --flush 20ms -o y.arrows empty.arrows 2>err &
pid=$!
until_true reads $pid empty.arrows
kill -TERM $pid
wait $pid
is 'stopped before anything came: status 1' $? 1
ok 'says so' grep -q 'no input came' err
# ---- a disk that gets full
few_bytes() { (ulimit -f "$1" && shift && exec "$@"); } # of 512 or 1024
ctr-train lr -q --save-every 100 -o size.arrows whole.arrows
ctr-select --head 300 whole.arrows | ctr-train lr -q -o size.arrows
few_bytes $(($(wc -c <size.arrows) / 512 + 8)) ctr-train lr --save-every 200 -o d.arrows whole.arrows 2>err
is 'the model cannot be saved any more: status 1' $? 1
row=$(sed -n 's/.*; what was learned from row \([0-9]*\) on is not saved$/\1/p' err)
ok "the message says from which row on, $row" test "${row:-0}" -gt 200
ctr-select --head $((${row:-2} - 1)) whole.arrows | ctr-train lr -q -o want6.arrows
ok 'the model is that of the rows before' test "$(ctr-info --digest want6.arrows)" = "$(ctr-info --digest d.arrows)"
# ---- a log that turns to garbage
{ cat onehot.arrows; echo junk; } | ctr-train lr -q --follow -o j.arrows 2>err
ok 'junk behind a whole stream: the message names the row' grep -q 'what follows batch [0-9]* (row 6000), behind a whole stream, is no stream; the model of the 6000 rows before is saved$' err
ctr-cat --batch 100 onehot.arrows | head -c 60000 >garbage.arrows
head -c 5000 onehot.arrows >>garbage.arrows
cat garbage.arrows | ctr-train lr --follow -o g.arrows 2>err
is 'garbage before the first saving: status 1' $? 1
rows=$(sed -n 's/.*(after row \([0-9]*\)).*/\1/p; s/.*(row \([0-9]*\)).*/\1/p' err)
ok "the message names the row, $rows" test "${rows:-0}" -gt 100
ok 'and says what became of the model' grep -q "; the model of the $rows rows before is saved\$" err
ctr-select -q --head "${rows:-1}" onehot.arrows | ctr-train lr -q -o want4.arrows
ok 'which is that of the rows before' test "$(ctr-info --digest want4.arrows)" = "$(ctr-info --digest g.arrows)"
rm -f g.arrows
head -c 50 whole.arrows | ctr-train lr -q --follow -o g.arrows 2>err
ok 'nothing came before it: it says so' grep -q 'the model is not saved: no row was learned$' err
ok 'and there is none' test ! -e g.arrows

# ---- each saving tells what it saved
ctr-train lr --inclusion bloom=1 --save-every 2000 --checkpoint t.ckpt --checkpoint-every 3000 -o t.arrows whole.arrows 2>err
is 'models and checkpoints, with their rows' "$(awk '/^saved/ { print $2 $4 }' err | tr '\n' ' ')" 'model,2000 checkpoint,3000 model,4000 model,6000 checkpoint,6000 '
for word in 'keys  ' 'bytes a key  ' 'bytes a state  ' 'keys refused  '; do
    is "each and the summary: $word" "$(grep -c "^$word" err)" 6
done

# ---- another number of passes
head -c 60000 whole.arrows >half.arrows
! ctr-train lr -q --checkpoint r.ckpt -o r.arrows half.arrows 2>/dev/null
ctr-train lr -q --passes 3 --resume --checkpoint r.ckpt -o r.arrows whole.arrows
ctr-train lr -q --passes 3 -o want5.arrows whole.arrows
ok '--resume with more --passes: the model of a run with so many' cmp want5.arrows r.arrows
ctr-train lr -q --passes 100000 --checkpoint q.ckpt --checkpoint-every 500 -o q.arrows whole.arrows 2>/dev/null &
pid=$!
later() { grep -aqE '2 [1-9][0-9]* [0-9]+ 0 [0-9a-f]{32}' q.ckpt; }
ok 'a checkpoint of a later pass' until_true later
kill -TERM $pid
wait $pid
: >err # the lines before it are not this one's
ctr-train lr --passes 100000 --checkpoint once.ckpt -o q.arrows whole.arrows 2>err &
pid=$!
until_true grep -q 4096 err
kill -TERM $pid
wait $pid
is 'a stop saves one checkpoint' "$? $(grep -c '^saved  *checkpoint' err)" '1 1'
exits 'with fewer than that' 2 ctr-train lr -q --passes 1 --resume --checkpoint q.ckpt -o q.arrows whole.arrows
err_like 'it says so' 'q.ckpt was made in pass [0-9]+: --passes 1 would end before it'

# ---- a live log with its plan; with statements one view grows and the others are as they are
ctr-synth -q -o logs --rows 3000 --days 2 --seed 3
ctr-import -q -f tsv --header --time time logs/impressions.tsv | ctr-cat --batch 100 >logs/impressions.arrows
ctr-import -q -f tsv --header --time click_time logs/clicks.tsv | ctr-select --columns impression_id,click_time >logs/clicks.arrows
ctr-import -q -f tsv --header -o logs/users.arrows logs/users.tsv
printf 'label click = not is_null(click_time)\nfeature ad = ad_id\nfeature user = user_id\ntime time\n' >live.plan
{ printf 'from log\njoin clicks on impression_id\nwhere ad_id %% 7 != 0\nadd even = ad_id %% 2\njoin users on user_id\n' && cat live.plan && printf 'feature even\nfeature gender\n'; } >views.plan
ctr-join -q -k impression_id logs/clicks.arrows logs/impressions.arrows | ctr-cat --batch 100 >logs/joined.arrows
follow_plan() { # LOG PLAN VIEW…
    _log=$1
    shift
    head -c $(($(wc -c <"logs/$_log") / 2)) "logs/$_log" >growing.arrows
    rm -f live.m live.ckpt
    for _i in 1 2; do # killed in the first half, then on
        ctr-train lr -q --follow -j 2 --flush 20ms --save-every 50ms --checkpoint live.ckpt --checkpoint-every 200 --resume -o live.m "$@" 2>err &
        pid=$!
        [ $_i = 2 ] && tail -c +$(($(wc -c <growing.arrows) + 1)) "logs/$_log" >>growing.arrows
        if [ $_i = 1 ]; then until_true test -s live.ckpt && kill -KILL $pid; else until_true cmp -s plan.m live.m && kill -TERM $pid; fi
        wait $pid
    done 2>/dev/null
}
ctr-train lr -q -o plan.m live.plan logs/joined.arrows
follow_plan joined.arrows live.plan growing.arrows
is 'a plan over a log that grows, killed and resumed: status 0' $? 0
ok 'the model of a plain run' cmp plan.m live.m
ctr-train lr -q -o plan.m views.plan log=logs/impressions.arrows clicks=logs/clicks.arrows users=logs/users.arrows
follow_plan impressions.arrows views.plan log=growing.arrows clicks=logs/clicks.arrows users=logs/users.arrows
is 'a plan with statements, likewise' $? 0
ok 'the model of a plain run over the views' cmp plan.m live.m
ctr-train lr -q --follow --flush 20ms --save-every 50ms -o live.m views.plan log=- clicks=logs/clicks.arrows users=logs/users.arrows <logs/impressions.arrows &
pid=$!
ok 'and with the log on stdin' until_true cmp -s plan.m live.m
kill -TERM $pid
wait $pid 2>/dev/null
no_follow() { # NAME WANTED PLAN-LINES FILE…
    printf '%b\nlabel click = 1\nfeature ad = ad_id\n' "$3" >no.plan
    _name=$1 _wanted=$2
    shift 3
    exits "not $_name" 2 ctr-train lr --follow -o no.m no.plan "$@"
    err_like 'with the remedy' "$_wanted"
}
no_follow 'a group' 'no.plan:2:1: --follow: a group is over when the rows are.*group a static view first' 'from log\ngroup ad_id, n = count()' log=growing.arrows
no_follow 'rows side by side' 'no.plan:2:1: --follow: by-row .*: join by a key' 'from log\njoin clicks by-row' log=growing.arrows clicks=logs/clicks.arrows
no_follow 'a sort' 'no.plan:2:1: --follow: sort waits .*lateness' 'from log\nhistory ad_id by user_id at time sort' log=growing.arrows
no_follow 'text' '--follow: the view log grows, and is text here; give a stream in its place: .*ctr-import .*log=-' 'from log = tsv("logs/impressions.tsv", header=true)'
no_follow 'two files of the log' '--follow reads one input, once: the view log has 2 files' 'from log' log=growing.arrows log=logs/impressions.arrows
exits 'nor of a plan' 2 ctr-train lr --follow -o no.m live.plan growing.arrows growing.arrows
done_testing
