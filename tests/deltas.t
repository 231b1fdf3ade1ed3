#!/bin/sh
# --checkpoint-deltas: checkpoints of what changed. A checkpoint merged with its deltas is, byte for byte, the checkpoint that a
# run without deltas writes at the same row: of every optimizer, with keys that are dropped and come again, of deep models, from
# memory and from disk. Readers of a checkpoint take its deltas; what is no chain is refused.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
cd "$W" || exit 1
MAKE="$CTR_TOP/tests/model_reference.py"
"$PY" "$MAKE" make mixed 600 mixed.arrows && "$PY" "$MAKE" make onehot 900 onehot.arrows || exit 1
for s in mixed onehot; do # ends in its last batch: the run writes a checkpoint before it fails
    ctr-cat --batch 50 -o $s.small $s.arrows
    head -c -3000 $s.small >$s.cut
done
awk 'BEGIN { srand(3); print "click,user,ad,time"
    for (i = 0; i < 900; i++) printf "%d,%d,%d,2026-01-%02dT00:00:00Z\n", rand() < .3, int(i / 20) + int(30 * rand()), int(20 * rand()), 1 + i / 90 }' >days.csv
printf 'label click\ntime time\nfeature user\nfeature ad\n' >days.plan
ctr-import -q --format csv --header --time time days.csv | ctr-extract -q --batch 45 -o days.small days.plan
head -c -3000 days.small >days.cut
awk 'BEGIN { srand(5); print "click,user,ad,tags"
    for (i = 0; i < 6000; i++) print (rand() < .3) "," int(i / 8) + int(200 * rand()) "," int(20 / (.02 + rand())) "," int(50 * rand()) " " int(90 * rand()) }' >many.csv
printf 'label click\nfeature user\nfeature ad\nfeature tags = split(tags, " ")\n' >many.plan
ctr-import -q --format csv --header many.csv | ctr-extract -q --batch 100 -o many.small many.plan
head -c -3000 many.small >many.cut
mkdir whole deltas spill
printf 'key,count\n7,3\n' | ctr-import -q --format csv --header --columns key:uint64,count:int32 -o few.arrows

# both STREAM MODEL OPTIONS… : runs that write checkpoints every 100 rows and stop where the input breaks off
both() {
    _s=$1
    shift
    rm -rf whole/* deltas/*
    (cd whole && ! ctr-train "$@" -q --checkpoint c --checkpoint-every 100 -o m ../$_s.cut) 2>whole.err
    (cd deltas && ! ctr-train "$@" -q --checkpoint c --checkpoint-every 100 --checkpoint-deltas 1000 -o m ../$_s.cut) 2>deltas.err
    grep -q 'truncated' deltas.err && cmp whole.err deltas.err && test -s whole/c && test -s deltas/c.delta.3
}
merged() { ctr-model merge deltas/c $(ls deltas/c.delta.* | sort -t. -k3n) >got && cmp got whole/c; }
same() { both "$@" && merged && ! cmp -s deltas/c whole/c; }
for o in '' '--l1 .1' '--no-bias' '--precision f32' '--precision q2.13 --optimizer ogd' '--learning-rate counts' '--learning-rate global' \
    '--optimizer ogd' '--optimizer rda' '--optimizer fobos --l1 .01' '--optimizer ogd-count --threshold 3 --learning-rate global' \
    '--inclusion bloom=1' '--inclusion poisson=.3' '--dropout .3' '--hash-bits 7'; do
    case $SAN$o in 1*counts | 1*rda | 1*l1*.1 | 1*dropout* | 1*bits*) continue ;; esac
    ok "lr $o" same mixed lr $o
done
ok 'lr, rows of a key a field' same onehot lr
ok 'lr, minibatches, no bias' same many lr --minibatch 37 --no-bias
ok 'lr, minibatches' same many lr --minibatch 64

# ---- keys that are dropped
ok 'lr --expire' same days lr --expire 2
ok 'deltas tell of dropped keys' sh -c 'ctr-select --only lr deltas/c.delta.6 | ctr-select --where dropped | ctr-export | grep -q ",true$"'
ok 'lr --expire, no bias' same days lr --expire 1 --no-bias
ok 'lr --expire --inclusion' same days lr --expire 2 --inclusion bloom=1

# ---- deep models; --l2 alone would read the whole input first, and find where it breaks off
for o in '' '--l2 .01 --l2-counts ../few.arrows' '--memory 2500K --spill ../spill' \
    '--memory 2500K --spill ../spill --prefetch 1 --l2 .01 --l2-counts ../few.arrows'; do
    ok "mlp $o" same many mlp --embedding 20 --hidden 4 --minibatch 30 $o
done
ok 'a delta has the rows that changed' test "$(stat -c %s deltas/c.delta.3)" -lt $(($(stat -c %s whole/c) * 2 / 3))
ok 'fm' same many fm --embedding 4 --minibatch 32

# ---- what reads a checkpoint takes its deltas
both onehot lr
ok 'ctr-predict' sh -c 'ctr-predict -q deltas/c onehot.arrows | ctr-export >a && ctr-predict -q whole/c onehot.arrows | ctr-export >b && cmp a b &&
    cp deltas/c . && ctr-predict -q c onehot.arrows | ctr-export >b && ! cmp -s a b'
ok '--init' sh -c 'ctr-train lr -q --init deltas/c onehot.arrows | ctr-export >a; ctr-train lr -q --init whole/c onehot.arrows | ctr-export >b; cmp a b'
ok 'ctr-model top' sh -c 'ctr-model top deltas/c >a && ctr-model top whole/c >b && cmp a b'
cp whole/c all
prefix() { # the first deltas are the checkpoint as it was after them
    rm -f part/* && mkdir -p part && cp deltas/c deltas/c.delta.[12] part/ && ctr-model merge deltas/c deltas/c.delta.[12] >two &&
        ctr-predict -q part/c onehot.arrows | ctr-export >a && ctr-predict -q two onehot.arrows | ctr-export >b && cmp a b &&
        ctr-model merge deltas/c deltas/c.delta.1 >one && ! cmp -s one two && ctr-model merge two deltas/c.delta.[3-9] >got && cmp got all
}
ok 'the first deltas; merged ones, and the rest' prefix
ctr-select --head 450 -o head.arrows onehot.arrows
ctr-select --tail 450 -o tail.arrows onehot.arrows
reloads() { # the delta is put in place after the first rows were scored
    rm -rf part in && mkdir part && cp deltas/c part/ && mkfifo in || return 1
    ctr-predict -q --reload part/c in >got.p &
    _pid=$!
    { cat head.arrows && until_true test -s got.p && sleep .3 && cp deltas/c.delta.1 part/.new && mv part/.new part/c.delta.1 && cat tail.arrows; } >in
    wait $_pid || return 1
    { ctr-predict -q c head.arrows && ctr-predict -q one tail.arrows; } >want.p
    { ctr-predict -q one head.arrows && ctr-predict -q one tail.arrows; } >other.p
    ctr-export got.p >a && ctr-export want.p >b && cmp a b && ctr-export other.p >b && ! cmp -s a b
}
ok 'ctr-predict --reload takes a delta' reloads

# ---- runs that go on from deltas
train() { ctr-train lr -q --expire 2 "$@" days.small; }
train --progressive all.p -o all.m
resumes() {
    rm -f c c.*
    for delay in .02 .03 .05 .08 600; do
        timeout --foreground -s KILL $delay ctr-train lr -q --expire 2 --checkpoint c --checkpoint-every 45 --checkpoint-deltas 3 --resume \
            --progressive got.p -o got.m days.small && break
    done 2>/dev/null
    cmp got.m all.m && cmp got.p all.p && ! ls c c.* 2>/dev/null
}
ok 'kill -9 and resume; nothing stays' resumes
both days lr --expire 2
goes_on() { (cd deltas && ctr-train lr -q --expire 2 --checkpoint c --resume "$@" -o m ../days.small && cmp m ../all.m && test -z "$(ls | grep -v m)"); }
ok 'on with deltas' goes_on --checkpoint-every 45 --checkpoint-deltas 1000
both days lr --expire 2
ok 'on without' goes_on --checkpoint-every 45
both days lr --expire 2
# Deltas that are missing, or of another checkpoint.
says() { # says TEXT COMMAND… : in the folder of the checkpoint; it fails
    _text=$1
    shift
    (cd deltas && ! "$@" >x 2>x.err && grep -q -e "$_text" x.err)
}
resume() { ctr-train lr -q --expire 2 --checkpoint c --resume --checkpoint-every 300 --checkpoint-deltas 9 -o m ../days.small; }
mv deltas/c.delta.2 gone
for i in resume 'ctr-predict -q c ../onehot.arrows' 'ctr-model top c' 'ctr-train lr -q --init c -o m ../days.small'; do
    ok "a gap: $i" says 'c.delta.2: is missing, and c.delta.3 is there: put it back, or remove the later ones' $i
done
ok 'without the later ones it goes on' sh -c 'cd deltas && rm c.delta.[3-9]* && ctr-train lr -q --expire 2 --checkpoint c --resume --checkpoint-every 300 --checkpoint-deltas 9 -o m ../days.small && cmp m ../all.m'
both days lr --expire 2
cp deltas/c.delta.1 old.1 && cp deltas/c.delta.4 old.4
rm -f deltas/c.delta.[2-9]* deltas/c.delta.1?* && cp old.4 deltas/c.delta.2
for i in resume 'ctr-predict -q c ../onehot.arrows'; do
    ok "a delta of another place: $i" says 'c.delta.2: is a delta of another checkpoint, and does not follow c.delta.1: put the right one' $i
done
cp whole/c deltas/c && rm deltas/c.delta.2
ok 'a delta of another checkpoint' says 'c.delta.1: is a delta of another checkpoint, and does not follow c:' resume
# A run that is killed when a whole checkpoint has taken the place of one with deltas, before these are removed: they are void.
void() (
    rm -rf deltas/* kept* && cd deltas || return 1
    for n in 300 345 390 435 480 525 570 615 660 705; do
        ctr-select --head $n ../days.small | ctr-cat --batch 45 | head -c -100 >../some.cut
        ctr-train lr -q --expire 2 --checkpoint c --resume --checkpoint-every 100 --checkpoint-deltas 3 -o m ../some.cut 2>/dev/null
        test -e c.delta.2 && ! test -e ../kept.1 && cp c.delta.1 ../kept.1 && cp c ../kept
        test -e ../kept && ! test -e c.delta.1 && ! cmp -s c ../kept && break
    done
    test -e ../kept && ! test -e c.delta.1 && ! cmp -s c ../kept && ctr-predict -q c ../days.small >../alone &&
        cp ../kept.1 c.delta.1 && ctr-predict -q c ../days.small | cmp - ../alone || return 1
    ctr-train lr -q --expire 2 --checkpoint c --resume --checkpoint-every 1000 -o m ../some.cut 2>/dev/null
    ! cmp -s ../kept.1 c.delta.1 || return 1
    ctr-train lr -q --expire 2 --checkpoint c --resume -o m ../days.small && cmp m ../all.m && test -z "$(ls | grep -v m)"
)
ok 'deltas of the checkpoint before' void

# ---- refusals
message() { # message TEXT COMMAND…
    _text=$1
    shift
    ! "$@" >x 2>x.err && grep -q -e "$_text" x.err
}
both onehot lr
ok 'a delta is no model' message 'a delta, which holds what changed' ctr-predict deltas/c.delta.1 onehot.arrows
ok 'deltas out of order' message 'c.delta.2: does not follow deltas/c:' ctr-model merge deltas/c deltas/c.delta.2
ok 'without the checkpoint' message 'the checkpoint that it follows comes first' ctr-model merge deltas/c.delta.1 deltas/c.delta.2
ok 'of a model' message 'does not follow' ctr-model merge all.m deltas/c.delta.1
ok 'no delta' message 'no delta: --checkpoint-deltas' ctr-model merge deltas/c whole/c
ok 'a damaged one' sh -c 'rm -f x; cp deltas/c.delta.1 bad; printf Z | dd of=bad bs=1 seek=$(($(stat -c %s bad) - 900)) conv=notrunc 2>/dev/null; ! ctr-model merge -o x deltas/c bad && test ! -e x'
ok 'keys out of order' sh -c 'ctr-select --section lr --tail 10 deltas/c >bad 2>/dev/null; ctr-cat --help >/dev/null; ! ctr-model merge -o x bad deltas/c.delta.1'
ok 'a pipe' message 'a pipe only once' ctr-model merge - deltas/c.delta.1
ok 'several models' message 'of one model' ctr-train lr -q --variants many.csv --checkpoint c --checkpoint-deltas 3 -o m-%s onehot.arrows
ok 'its name is taken' message 'is the name of a file that --checkpoint' ctr-train lr -q --checkpoint c --checkpoint-deltas 3 -o c.delta.1 onehot.arrows
done_testing
