#!/bin/sh
# A checkpoint does not know the number of ranks: a run goes on over more ranks, over fewer, in one process, or from one process over
# ranks. What a pass still has stays cut as it was, so that each row is learned once: the counts of keys (--l2) are those of a run that
# never stopped. A run breaks off where a file is truncated, which is no matter of time; by --l2-counts, because without it --l2 reads
# all files before the first row is learned from.
. "${0%/*}/lib.sh"
. "${0%/*}/ranks.sh"
cd "$W" || exit 1

awk 'BEGIN { srand(5); print "click,a,b"; for (i = 0; i < 2400; i++) print (rand() < .4) "," int(400 * rand()) "," int(20 / (.01 + rand())) }' >rows.csv
printf 'label click\nfeature a\nfeature b\n' >plan
for i in 0 1 2 3 4 5; do
    awk "NR == 1 || int((NR - 2) / 400) == $i" rows.csv | ctr-import -q --format csv --header - | ctr-extract -q plan | ctr-cat -q --batch 50 -o part-$i.arrows
done
l2='--l2 .001 --l2-counts few.arrows'
printf 'key,count\n7,3\n' | ctr-import -q --format csv --header --columns key:uint64,count:int32 -o few.arrows
whole='part-0.arrows part-1.arrows part-2.arrows part-3.arrows part-4.arrows part-5.arrows'
cut() { # cut NAME BYTES : part-5 breaks off
    head -c "$2" part-5.arrows >"$1"
}
size=$(wc -c <part-5.arrows)
cut early $((size / 2))
cut late $((size * 3 / 4))
broken() { echo "part-0.arrows part-1.arrows part-2.arrows part-3.arrows part-4.arrows $1"; }

train() { # train RANKS OPTION… : 0: without mpirun
    _r=$1
    shift
    # shellcheck disable=SC2086
    set -- ctr-train mlp -q $l2 --embedding 4 --hidden 4 --minibatch 50 --passes 2 --checkpoint c.ckpt --checkpoint-every 300 --resume "$@"
    if [ "$_r" = 0 ]; then "$@"; else run "$_r" "$@" --prefetch $((_r % 2)); fi
}
counts() { # counts MODEL : key and count of each row of tables
    for t in a b; do ctr-select -q --only emb.$t "$1" | ctr-export -q --format csv -c key,count || return; done
}
# shellcheck disable=SC2086
ctr-train mlp -q $l2 --embedding 4 --hidden 4 --minibatch 50 --passes 2 -o want.m $whole
counts want.m >want.counts
ok 'keys are counted' grep -q ',[0-9]*[2-9]$' want.counts

position() { ctr-info --json c.ckpt | grep -o '"ctr.checkpoint":"[^"]*"' | tr '|' '\n' | wc -l; }
breaks_off() { # breaks_off RANKS FILE : then a checkpoint is there
    # shellcheck disable=SC2046
    ! train "$1" -o no.m $(broken "$2") 2>err && [ -s c.ckpt ] && grep -q "$2: truncated" err
}
goes_on() { # goes_on RANKS SHARDS
    [ "$(position)" = "$2" ] || { echo "the checkpoint has $(position) shards"; return 1; }
    # shellcheck disable=SC2086
    train "$1" -o got.m $whole && counts got.m | cmp - want.counts && [ ! -e c.ckpt ]
}
ok 'a run of 3 ranks breaks off' breaks_off 3 early
cp c.ckpt three
for r in 0 5; do
    cp three c.ckpt
    ok "it goes on with $r ranks (0: no mpirun), and learns each row once" goes_on $r 3
done
cp three c.ckpt
ok 'it goes on with 2, and breaks off again' breaks_off 2 late
ok '… and goes on with 4' goes_on 4 3
ok 'a run of one process breaks off' breaks_off 0 late
ok '… and goes on with 3 ranks' goes_on 3 1

# ---- keys that are counted before: the checkpoint has their counts, which no rank counts again
counted() {
    # shellcheck disable=SC2086
    set -- ctr-train mlp -q --l2 .001 --embedding 4 --hidden 4 --minibatch 50 $whole
    "$@" -o want.m && counts want.m >want.counts || return
    timeout 60 mpirun --oversubscribe -q -n 3 "$@" --passes 9999 --checkpoint killed.ckpt --checkpoint-every 5000 -o no.m 2>err </dev/null &
    until [ -s killed.ckpt ]; do kill -0 $! 2>/dev/null || return; done
    kill -TERM $! && ! wait $! && cp killed.ckpt c.ckpt || return # a rank may outlive mpirun and write another one
    _pass=$(ctr-info --json c.ckpt | sed -n 's/.*"ctr.checkpoint":"[0-9]* \([0-9]*\).*/\1/p' | head -n 1)
    run 2 "$@" --passes $((_pass + 2)) --checkpoint c.ckpt --resume -o got.m && counts got.m | cmp - want.counts
}
ok 'counts of all rows, over 3 ranks and then 2' counted
rm -f c.ckpt*

# ---- predictions and early stopping: the same number of ranks gives the bytes of a run that never stopped
extras() { # extras FILE… : of two ranks
    run 2 ctr-train mlp -q --minibatch 50 --rate .01 --passes 3 --checkpoint c.ckpt --checkpoint-every 300 --resume --progressive 'p-%d.arrows' \
        --validation part-0.arrows --patience 3 -o v.m "$@"
}
rm -f c.ckpt
# shellcheck disable=SC2086
extras $whole && mv v.m want.m && for i in 0 1; do mv p-$i.arrows want-$i.arrows; done
# shellcheck disable=SC2046,SC2086
resumed() {
    ! extras $(broken late) 2>err && [ -s c.ckpt ] && [ -s c.ckpt.scores.1 ] && extras $whole && cmp v.m want.m && cmp p-0.arrows want-0.arrows &&
        cmp p-1.arrows want-1.arrows && ! ls c.ckpt* 2>/dev/null
}
ok 'with --progressive and --validation' resumed
# shellcheck disable=SC2046
! extras $(broken late) 2>err
# shellcheck disable=SC2086
exits 'which another number of ranks cannot go on' 2 run 3 ctr-train mlp -q --minibatch 50 --rate .01 --passes 3 --checkpoint c.ckpt --resume \
    --progressive 'p-%d.arrows' --validation part-0.arrows --patience 3 --validation-every 0 -o v.m $whole
rm -f c.ckpt*

# ---- lr, from ranks to one process and back
lr() { # lr RANKS OPTION…
    _r=$1
    shift
    set -- ctr-train lr -q --minibatch 50 --passes 2 --checkpoint c.ckpt --checkpoint-every 300 --resume "$@"
    if [ "$_r" = 0 ]; then "$@"; else run "$_r" "$@"; fi
}
# shellcheck disable=SC2046,SC2086
lr_goes_on() {
    ! lr "$1" -o no.m $(broken early) 2>err && [ -s c.ckpt ] && lr "$2" -o got.m $whole && [ "$(ctr-info --json got.m | grep -o '"rows":[0-9]*')" = "$(ctr-info --json lr.m | grep -o '"rows":[0-9]*')" ]
}
# shellcheck disable=SC2086
ctr-train lr -q --minibatch 50 --passes 2 -o lr.m $whole
ok 'lr: 2 ranks, then one process' lr_goes_on 2 0
ok 'lr: one process, then 3 ranks' lr_goes_on 0 3

# ---- din, dicm and two-tower go on over another number of ranks
awk 'BEGIN { srand(4); print "click,a,b,past,photo,seen"; for (i = 0; i < 2400; i++) { past = seen = ""
    for (k = 0; k < int(4 * rand()); k++) { past = past (k ? " " : "") int(400 * rand()); seen = seen (k ? " " : "") "p" int(30 * rand()) }
    print (rand() < .4) "," int(400 * rand()) "," int(20 / (.01 + rand())) "," past ",p" int(30 * rand()) "," seen } }' >seen.csv
awk 'BEGIN { srand(6); for (i = 0; i < 30; i++) printf "{\"key\": \"p%d\", \"vector\": [%.3f, %.3f, %.3f]}\n", i, rand(), rand(), rand() }' |
    ctr-import -q -f jsonl | ctr-sort -q -k key | ctr-cat -q --to file --key key -o images.arrow
printf 'label click\nfeature a\nfeature b\nfeature past in a of a = split(past, " ")\n' >past.plan
{ cat past.plan && printf 'image photo\nimage seen in photo of photo = split(seen, " ")\n'; } >seen.plan
for kind in past seen; do
    for i in 0 1 2 3 4 5; do
        awk "NR == 1 || int((NR - 2) / 400) == $i" seen.csv | ctr-import -q --format csv --header - | ctr-extract -q $kind.plan | ctr-cat -q --batch 50 -o $kind-$i.arrows
    done
    cut_off=$(($(wc -c <$kind-5.arrows) * 3 / 4))
    head -c $cut_off $kind-5.arrows >$kind-cut.arrows
done
other_kinds() { # other_kinds PARTS MODEL OPTION… : 3 ranks break off; 3 go on to the bytes of a run that did not, 2 and one process learn each row once
    _parts=$1
    shift
    # shellcheck disable=SC2086
    set -- ctr-train "$@" -q $l2 --embedding 4 --hidden 4 --minibatch 50 --passes 2
    run 3 "$@" -o want.m "$_parts"-[0-5].arrows && counts want.m >want.counts && rm -f c.ckpt || return
    set -- "$@" --checkpoint c.ckpt --checkpoint-every 300 --resume
    ! run 3 "$@" -o no.m "$_parts"-[0-4].arrows "$_parts"-cut.arrows 2>err && cp c.ckpt three || return
    run 3 "$@" -o got.m "$_parts"-[0-5].arrows && cmp got.m want.m || return
    cp three c.ckpt && run 2 "$@" -o got.m "$_parts"-[0-5].arrows && counts got.m | cmp - want.counts || return
    cp three c.ckpt && "$@" -o got.m "$_parts"-[0-5].arrows && counts got.m | cmp - want.counts && ! cmp -s got.m want.m
}
ok 'din: 3 ranks, then 3, 2 and one process' other_kinds past din
ok 'dicm' other_kinds seen dicm --images images.arrow --images-tower 4 --images-pool attentive
ok 'two-tower' other_kinds past two-tower --user-features b,past --ad-features a

# ---- deltas of checkpoints, and their merge, which is what a run of whole ones writes at the same row
awk 'BEGIN { srand(3); print "click,user,ad,time"; for (i = 0; i < 2400; i++)
    printf "%d,%d,%d,2026-01-%02dT00:00:00Z\n", rand() < .3, int(i / 20) + int(30 * rand()), int(20 * rand()), 1 + i / 240 }' >days.csv
printf 'label click\ntime time\nfeature user\nfeature ad\n' >days.plan
for i in 0 1 2 3 4 5; do
    awk "NR == 1 || (NR - 2) % 6 == $i" days.csv | ctr-import -q --format csv --header --time time - | ctr-extract -q days.plan | ctr-cat -q --batch 50 -o day-$i.arrows
done
days='day-0.arrows day-1.arrows day-2.arrows day-3.arrows day-4.arrows day-5.arrows'
head -c $(($(wc -c <day-5.arrows) * 3 / 4)) day-5.arrows >day-cut.arrows
cut_days='day-0.arrows day-1.arrows day-2.arrows day-3.arrows day-4.arrows day-cut.arrows'
chain() { # chain RANKS MODEL OPTION… : breaks off with deltas, which are the whole one of a run without; goes on from them to the model of a run that never stopped
    _r=$1
    shift
    rm -f d.ckpt* w.ckpt*
    # shellcheck disable=SC2086
    ! run "$_r" ctr-train "$@" -q --checkpoint w.ckpt --checkpoint-every 200 -o no.m $cut_days 2>err && test -s w.ckpt || return
    # shellcheck disable=SC2086
    ! run "$_r" ctr-train "$@" -q --checkpoint d.ckpt --checkpoint-every 200 --checkpoint-deltas 99 -o no.m $cut_days 2>err && test -s d.ckpt.delta.2 || return
    # shellcheck disable=SC2046
    ctr-model merge d.ckpt $(ls d.ckpt.delta.* | sort -t. -k4n) >merged.ckpt && cmp merged.ckpt w.ckpt || return
    mkdir -p kept && rm -f kept/* && cp d.ckpt* kept/
    # shellcheck disable=SC2086
    run "$_r" ctr-train "$@" -q --checkpoint d.ckpt --checkpoint-every 200 --checkpoint-deltas 99 --resume -o got.m $days &&
        run "$_r" ctr-train "$@" -q -o want.m $days && cmp got.m want.m && ! ls d.ckpt* 2>/dev/null
}
elsewhere() { # elsewhere RANKS MODEL OPTION… : the same deltas go on over another number of ranks, to the same keys
    _r=$1
    shift
    cp kept/* .
    # shellcheck disable=SC2086
    run "$_r" ctr-train "$@" -q --checkpoint d.ckpt --checkpoint-every 200 --checkpoint-deltas 99 --resume -o got.m $days || return
    for s in lr emb.user; do
        for m in got want; do ctr-select -q --only $s $m.m 2>/dev/null | ctr-export -q -c key >$m.keys 2>/dev/null; done
        test -s got.keys && cmp got.keys want.keys && return
    done
    return 1
}
ok 'lr: deltas of 2 ranks' chain 2 lr --minibatch 20 --passes 2
ok '… go on with 3' elsewhere 3 lr --minibatch 20 --passes 2
ok 'mlp: deltas of 3 ranks' chain 3 mlp --embedding 4 --hidden 4 --minibatch 20
ok '… go on with 2' elsewhere 2 mlp --embedding 4 --hidden 4 --minibatch 20

# ---- other input, and a file that is shorter
breaks_off 3 early
awk 'NR > 1 { print prev } { prev = $0 } END { print "1,1,1" }' rows.csv | head -401 | ctr-import -q --format csv --header - | ctr-extract -q plan -o other.arrows
# shellcheck disable=SC2086
exits 'another file: refused' 1 run 2 ctr-train mlp -q $l2 --embedding 4 --hidden 4 --minibatch 50 --passes 2 --checkpoint c.ckpt --resume -o no.m \
    part-0.arrows part-1.arrows other.arrows part-3.arrows part-4.arrows part-5.arrows
err_like 'by its rows' 'rows are not those that c.ckpt was made from'
done_testing
