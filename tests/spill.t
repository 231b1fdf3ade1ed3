#!/bin/sh
# ctr-train MODEL --memory SIZE --spill DIR: rows of embeddings beyond the memory are on disk, and the model is that of a run that
# has them all in memory, byte for byte: for any memory, -j and batches, after a kill, from --init, with --validation.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
cd "$W" || exit 1
MAKE="$CTR_TOP/tests/model_reference.py"
# First beside the build: reads and writes go around the system's cache where the file system allows it, which no tmpfs does ($TMPDIR).
disk=$(mktemp -d "$CTR_BUILD/spill.XXXXXX") && trap 'rm -rf "$W" "$disk"' EXIT && ln -s "$disk" spill || exit 1
awk 'BEGIN { srand(8); print "click,a,b,x"
    for (i = 0; i < 14000; i++) print (rand() < .4) "," int(12000 * rand()) "," int(30 / (.01 + rand())) "," rand() }' >rows.csv
printf 'label click\nfeature a\nfeature b\ndense x\n' >plan
ctr-import -q --format csv --header rows.csv | ctr-extract -q plan | ctr-cat --batch 77 -o rows.arrows
ctr-select --head 3000 -o some.arrows rows.arrows

train() { ctr-train mlp --embedding 200 --hidden 4 --minibatch 100 --l2 .001 "$@"; }
count() { awk -v name="$1" 'index($0, name) == 1 { print $3 }' "$2"; }

# ---- tables of 20 MiB and more, in a memory of a tenth beside the buffers of the network
train -v --progressive all.p -o all.arrows rows.arrows 2>all.err
train -v --memory 2500K --spill spill --progressive got.p -o got.arrows rows.arrows 2>got.err
ok 'the same model' cmp got.arrows all.arrows
ok 'the same scores' cmp got.p all.p
ok 'rows had to go for others' test "$(count 'memory evictions' got.err)" -gt 5000
keys=$(awk '$1 == "keys" { print $2 }' all.err)
ok "few of $keys rows were in memory: $(count 'memory rows' got.err)" test "$keys" -gt $((10 * $(count 'memory rows' got.err)))
asked() { # without --l2, which counts keys before, in other pieces
    ctr-train mlp --embedding 200 --hidden 4 --minibatch 100 -v --memory $1 --spill spill -o x.arrows rows.arrows 2>&1 |
        awk '/^memory (hits|misses)/ { n += $3 } END { print n }'
}
is 'hits and misses are the distinct keys of minibatches' "$(asked 2500K)" "$(asked 100M)"
train -v --memory 100M --spill spill -o x.arrows rows.arrows 2>room.err
ok 'with room for all of them, too' cmp x.arrows all.arrows
is 'which writes and reads nothing' "$(grep '^disk bytes' room.err | tr -s ' ')" 'disk bytes moved 0 B in 0 reads, 0 B in 0 writes'
# A key without a row is no reason to read: of 4,000 keys that come once, one after another, none is read but for the saved model.
awk 'BEGIN { print "click,a"; for (i = 0; i < 4000; i++) print (i % 3 == 0) "," i }' >once.csv
printf 'label click\nfeature a\n' >once.plan
ctr-import -q --format csv --header once.csv | ctr-extract -q once.plan -o once.arrows
ctr-train mlp --embedding 200 --hidden 4 --minibatch 100 -v --memory 2500K --spill spill -o x.arrows once.arrows 2>once.err
ok 'new keys are not looked for on disk' test "$(count 'memory evictions' once.err)" -gt 1000 -a "$(awk '/^disk rows read/ { print $4 }' once.err)" -lt 1000
is 'the folder is empty' "$(ls spill)" ''
ctr-cat --batch 5000 -o large.arrows rows.arrows
ok 'for any -j and batches' sh -c "ctr-train mlp --embedding 200 --hidden 4 --minibatch 100 --l2 .001 -q -j 3 --memory 3M --spill spill -o got.arrows large.arrows &&
    cmp got.arrows all.arrows"
train -v --memory 2500K --spill spill --prefetch 1 -o got.arrows rows.arrows 2>ahead.err
ok 'with rows that are read ahead' cmp got.arrows all.arrows
train -q -o other.arrows --seed 1 some.arrows
train -q -o some.model some.arrows
ok 'another model is another: the comparison can fail' sh -c '! cmp -s other.arrows some.model'

# ---- all deep models
"$PY" "$MAKE" make mixed 600 mixed.arrows || exit 1
same() { # same MODEL OPTIONS
    ctr-train "$@" -q --embedding 20 --minibatch 50 --passes 2 -o all.m mixed.arrows &&
        ctr-train "$@" -q --embedding 20 --minibatch 50 --passes 2 --memory 2500K --spill spill -o got.m mixed.arrows && cmp got.m all.m
}
for model in mlp fm dcnv2 dlrm; do
    ok "$model" same $model
done
ok 'two-tower' same two-tower --user-features a,age,past,item --ad-features b,text,vec,word
awk 'BEGIN { srand(9); print "click,item,past"
    for (i = 0; i < 1000; i++) print (rand() < .4) "," int(90 * rand()) "," int(90 * rand()) " " int(90 * rand()) }' >past.csv
printf 'label click\nfeature item\nfeature past in item of item = split(past, " ")\n' >past.plan
ctr-import -q --format csv --header past.csv | ctr-extract -q past.plan -o mixed.arrows
ok 'din' same din
if [ -f "$gpu_plugin" ]; then
    export CTR_CUDA_PLUGIN="$gpu_plugin"
    CTR_WORKING_SET=64 train -q --device gpu -o all.m some.arrows
    CTR_WORKING_SET=64 train -q --device gpu --memory 2500K --spill spill -o got.m some.arrows
    ok 'device, memory and disk: the same model' cmp got.m all.m
    unset CTR_CUDA_PLUGIN
fi

ln -s spill link
train -q --memory 2500K --spill link -o one.arrows rows.arrows &
train -q --memory 3M --spill spill -o two.arrows rows.arrows
wait
ok 'two processes with one folder, for one a link' sh -c 'cmp one.arrows all.arrows && cmp two.arrows all.arrows'

# ---- a memory cgroup counts the pages of files in the system's cache: those of the tables are not among them
group=/sys/fs/cgroup/memory/ctr-spill-$$ # version 1; version 2 tells the peak since Linux 5.19
peak=memory.max_usage_in_bytes
[ -d /sys/fs/cgroup/memory ] || { group=/sys/fs/cgroup/ctr-spill-$$ && peak=memory.peak; }
if [ -n "$SAN" ] || ! mkdir $group 2>/dev/null; then
    skip 'the memory of the run, with its files' 'no memory cgroup can be made'
elif [ ! -f $group/$peak ]; then
    rmdir $group
    skip 'the memory of the run, with its files' 'the memory cgroup tells no peak'
else
    sh -c "echo \$\$ >$group/cgroup.procs && exec ctr-train mlp --embedding 200 --hidden 4 --minibatch 100 -q --memory 2500K --spill spill rows.arrows" | cat >x.arrows
    ok 'in a memory cgroup: a model' test -s x.arrows
    ok "and no more than the process takes: $(cat $group/$peak) bytes" test "$(cat $group/$peak)" -lt 40000000 # with mapped files it was 53 million
    rmdir $group
fi

# ---- models and checkpoints do not know where rows were
is 'nothing is left there' "$(ls spill)" ''
rm spill && mkdir spill
train -q --init all.arrows -o all.m some.arrows
train -q --init all.arrows --memory 2500K --spill spill -o got.m some.arrows
ok '--init' cmp got.m all.m
train -q --init all.arrows --init-partial -o all.m some.arrows 2>/dev/null
train -q --init all.arrows --init-partial --memory 2500K --spill spill -o got.m some.arrows 2>/dev/null
ok '--init-partial' cmp got.m all.m
train -q --validation some.arrows --passes 2 -o all.m some.arrows 2>/dev/null
train -q --validation some.arrows --passes 2 --memory 2500K --spill spill -o got.m some.arrows 2>/dev/null
ok '--validation' cmp got.m all.m
resumes() {
    rm -f c.ckpt got.arrows
    for delay in .1 .2 .3 .5 .8 600; do
        timeout --foreground -s KILL $delay ctr-train mlp --embedding 200 --hidden 4 --minibatch 100 --l2 .001 -q --memory 2500K --spill spill "$@" \
            --checkpoint c.ckpt --checkpoint-every 2000 --resume -o got.arrows rows.arrows && break
    done 2>/dev/null
    cmp got.arrows all.arrows
}
ok 'kill -9 and resume' resumes
[ -n "$SAN" ] || ok '… with rows that are read ahead' resumes --prefetch 1
is 'what killed runs left is gone' "$(ls spill)" ''
injected() { # injected KIND:N:ACTION TEXT [OPTIONS]: the run fails with TEXT, whatever call of the file fails
    _inject=$1 _text=$2
    shift 2
    ! env ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" LD_PRELOAD="$CTR_BUILD/fault/inject.so" CTR_INJECT=$_inject ctr-train mlp --embedding 200 --hidden 4 \
        --minibatch 100 -q --memory 2500K --spill spill "$@" -o x.arrows rows.arrows 2>x.err && grep -q -e "$_text" x.err
}
ok 'a disk that cannot be read' injected read:2000+:EIO 'spill: rows on disk: cannot read: Input/output error'
ok 'nor when it reads ahead' injected read:2000+:EIO 'spill: rows on disk: cannot read: Input/output error' --prefetch 1
# The last rows that are read are those of a look at the learned model, whose failure is no reason to end the run; but the model is lost.
printf 'label click\nfeature a\nfeature b\n' >ab.plan
ctr-import -q --format csv --header rows.csv | ctr-select --head 300 | ctr-extract -q ab.plan -o ab.arrows
tiny() { ctr-train mlp -q --embedding 3 --hidden 4 --minibatch 16 --memory 30K --spill spill -o tiny.m ab.arrows; }
tiny && cp tiny.m whole.m
once() { # a read fails once: the run fails, or the model is whole
    for i in $(seq 30 9 120); do
        (export ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" LD_PRELOAD="$CTR_BUILD/fault/inject.so" CTR_INJECT=read:$i:EIO && tiny 2>x.err) && _s=0 || _s=$?
        [ $_s = 1 ] || { [ $_s = 0 ] && cmp tiny.m whole.m; } || return 1
    done
}
ok 'a read that fails once' once
ok 'a disk that is full' injected write:20+:ENOSPC 'spill: rows on disk: cannot write: No space left on device'


# ---- lr, by minibatches
lr() { ctr-train lr -q --minibatch 100 "$@"; }
lr_same() { # lr_same OPTIONS: with one row of ten in memory
    lr "$@" --progressive all.lp -o all.lr rows.arrows 2>/dev/null && ctr-train lr --minibatch 100 "$@" -v --memory 45K --spill spill --progressive got.lp -o got.lr rows.arrows 2>lr.err &&
        cmp all.lr got.lr && cmp all.lp got.lp && test "$(count 'memory evictions' lr.err)" -gt 5000
}
for o in '' '--l1 .1' '--no-bias' '--passes 2 --dropout .2' '--init-bias .3'; do
    ok "lr $o" lr_same $o
done
lr -o all.lr rows.arrows
keys=$(ctr-info all.lr | awk '$1 == "rows:" { print $2 }')
ok "few of $keys rows of lr in memory" test "$keys" -gt $((7 * $(count 'memory rows' lr.err)))
no_more() { awk '$1 == "memory" && $2 == "rows" { said = 1; if (substr($4, 2) + 0 > 45 || $5 != "KiB)") exit 1 } END { exit !said }' lr.err; }
ok 'which take no more than was allowed' no_more
# the keys of one table after those of another: numbers and bytes of indexes change hands
awk 'BEGIN { srand(5); print "click,a,b,c"; for (i = 0; i < 12000; i++) { t = int(i / 4000); print (rand() < .4) "," (t == 0 ? i : 1) "," (t == 1 ? i : 1) "," (t == 2 ? i : 1) } }' >turns.csv
printf 'label click\nfeature a\nfeature b\nfeature c\n' >turns.plan
ctr-import -q --format csv --header turns.csv | ctr-extract -q turns.plan -o turns.arrows
lr -o all.t turns.arrows
ok 'tables that take turns' sh -c 'ctr-train lr -v --minibatch 100 --memory 45K --spill spill -o got.t turns.arrows 2>lr.err && cmp got.t all.t'
ok 'in the memory that was allowed' no_more
ok 'lr, with rows that are read ahead' sh -c 'ctr-train lr -q --minibatch 100 -j 2 --prefetch 1 --memory 90K --spill spill -o got.lr rows.arrows && cmp got.lr all.lr'
ok 'lr, large batches, --batch' sh -c 'ctr-train lr -q --minibatch 100 -j 3 --memory 45K --spill spill -o got.lr large.arrows && cmp got.lr all.lr'
lr -o all.i --init all.lr some.arrows 2>/dev/null
lr -o got.i --init all.lr --memory 45K --spill spill some.arrows 2>/dev/null
ok 'lr --init' cmp all.i got.i
lr_resumes() { # lr_resumes OPTIONS
    rm -f c.ckpt* got.lr
    for delay in .05 .08 .12 .2 600; do
        timeout --foreground -s KILL $delay ctr-train lr -q --minibatch 100 --memory 45K --spill spill "$@" --checkpoint c.ckpt --checkpoint-every 1500 --resume \
            -o got.lr rows.arrows && break
    done 2>/dev/null
    cmp got.lr all.lr
}
ok 'lr: kill -9 and resume' lr_resumes
ok 'lr: from deltas, too' lr_resumes --checkpoint-deltas 3
lr_merged() {
    head -c -3000 rows.arrows >cut.arrows
    rm -f w.ckpt* d.ckpt*
    ! lr --checkpoint w.ckpt --checkpoint-every 3000 -o x cut.arrows 2>/dev/null && ! lr --memory 45K --spill spill --checkpoint d.ckpt --checkpoint-every 3000 \
        --checkpoint-deltas 9 -o x cut.arrows 2>/dev/null && ctr-model merge d.ckpt d.ckpt.delta.* >got && cmp got w.ckpt
}
ok 'lr: deltas from disk are those of a run in memory' lr_merged

# ---- lr, row by row
exact() { ctr-train lr -q "$@"; }
exact_same() { # exact_same MEMORY OPTIONS: with one key of six in memory, or fewer
    _memory=$1
    shift
    exact "$@" --progressive all.p -o all.x rows.arrows 2>/dev/null &&
        ctr-train lr "$@" -v --memory $_memory --spill spill --progressive got.p -o got.x rows.arrows 2>x.err &&
        cmp all.x got.x && cmp all.p got.p && test "$(awk '/^memory was full/ { print $4 }' x.err)" -gt 5
}
for o in '' '--precision f32' '--precision q2.13' '--optimizer ogd' '--optimizer rda --learning-rate global' '--optimizer fobos' '--optimizer fobos --l2 .1 --learning-rate global' \
    '--optimizer ogd-count --threshold 2' '--learning-rate counts' '--learning-rate counts --precision q2.13' '--power .7' '--inclusion poisson=.3' '--uncertainty' \
    '--passes 2 --dropout .2' '--no-bias' '--init-bias auto' '--normalize l2' '--hash-bits 13 --keys 9000' '-j 3 --batch 100'; do
    case $SAN$o in 1*power* | 1*rda* | 1*normal* | 1*bits*) continue ;; esac
    ok "lr row by row $o" exact_same 60K $o
done
bloom() {
    exact --inclusion bloom=1 --inclusion-memory 4K "$@" -o all.x rows.arrows && exact --inclusion bloom=1 --inclusion-memory 4K "$@" --memory 70K --spill spill -o got.x rows.arrows && cmp all.x got.x
}
ok 'lr row by row --inclusion bloom=1' bloom --passes 2
exact -o all.x rows.arrows
keys=$(ctr-info all.x | awk '$1 == "rows:" { print $2 }')
ctr-train lr -v --memory 45K --spill spill -o got.x rows.arrows 2>x.err
ok 'with one key of sixty in memory' sh -c "cmp got.x all.x && test $keys -gt \$((60 * \$(awk '/^memory keys/ { print \$3 }' x.err)))"
ctr-train lr -v --memory 10M --spill spill -o got.x rows.arrows 2>x.err
is 'lr row by row: with room for all, nothing is written or read' "$(grep '^disk bytes' x.err | tr -s ' ')" 'disk bytes moved 0 B in 0 reads, 0 B in 0 writes'
ok 'and the model is the same' cmp got.x all.x
ok 'lr row by row, large batches' sh -c 'ctr-train lr -q -j 3 --memory 70K --spill spill -o got.x large.arrows && cmp got.x all.x'
ok 'lr row by row, one processor' sh -c 'taskset -c 0 ctr-train lr -q --memory 70K --spill spill -o got.x large.arrows && cmp got.x all.x'
ok 'lr row by row, a key a row' sh -c 'ctr-train lr -q -o all.t once.arrows && ctr-train lr -q --memory 40K --spill spill -o got.t once.arrows && cmp got.t all.t'
ok 'lr row by row, tables that take turns' sh -c 'ctr-train lr -q -o all.t turns.arrows && ctr-train lr -q --memory 50K --spill spill -o got.t turns.arrows && cmp got.t all.t'
ok 'lr row by row from a pipe' sh -c 'ctr-cat rows.arrows | ctr-train lr -q --memory 60K --spill spill -o got.x && cmp got.x all.x'
exact -o all.i --init all.x some.arrows
exact -o got.i --init all.x --memory 45K --spill spill some.arrows
ok 'lr row by row --init' cmp all.i got.i
ctr-cat --batch 100 -o double.arrows all.x && ctr-select --tail 5 all.x | ctr-cat -o tail.arrows - && ctr-cat -o twice.arrows double.arrows tail.arrows
ok 'lr row by row, a model with a key twice' sh -c '! ctr-train lr -q --init twice.arrows --memory 45K --spill spill -o x.arrows some.arrows 2>x.err && grep -q -e twice -e before x.err'
for o in '' '--validation-every 1000'; do
    exact --passes 2 --validation some.arrows $o -o all.i rows.arrows
    exact --passes 2 --validation some.arrows $o --memory 60K --spill spill -o got.i rows.arrows
    ok "lr row by row --validation $o" cmp all.i got.i
done
exact_resumes() {
    rm -f c.ckpt* got.x
    for delay in .05 .08 .12 .2 .3 600; do
        timeout --foreground -s KILL $delay ctr-train lr -q --memory 60K --spill spill --checkpoint c.ckpt --checkpoint-every 1500 --resume -o got.x rows.arrows && break
    done 2>/dev/null
    cmp got.x all.x
}
ok 'lr row by row: kill -9 and resume' exact_resumes
exact_injected() { # exact_injected KIND:N:ACTION TEXT
    ! env ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" LD_PRELOAD="$CTR_BUILD/fault/inject.so" CTR_INJECT=$1 ctr-train lr -q --memory 60K --spill spill \
        -o x.arrows rows.arrows 2>x.err && grep -q -e "$2" x.err
}
ok 'lr row by row: a disk that cannot be read' exact_injected read:300+:EIO 'rows on disk: cannot read: Input/output error'
ok 'lr row by row: a disk that is full' exact_injected write:20+:ENOSPC 'rows on disk: cannot write: No space left on device'
# What does not reach the disk is lost to the run, which writes a last checkpoint when it fails: that must not be one without those keys.
lost() {
    for i in $(seq 200 $([ -n "$SAN" ] && echo 150 || echo 60) 1100); do
        rm -f c.ckpt*
        (export ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" LD_PRELOAD="$CTR_BUILD/fault/inject.so" CTR_INJECT=read:$i:EIO &&
            ctr-train lr -q --memory 45K --spill spill --checkpoint c.ckpt --checkpoint-every 77 -o x.arrows few.arrows 2>x.err)
        [ $? = 1 ] && [ -f c.ckpt ] || continue
        ctr-train lr -q --memory 45K --spill spill --resume --checkpoint c.ckpt -o x.arrows few.arrows && cmp x.arrows few.x || return 1
        resumed=$((resumed + 1))
    done
    return 0
}
ctr-cat --batch 77 -o few.arrows some.arrows
exact -o few.x few.arrows
resumed=0
lost
is 'lr row by row: a read that fails once, and resume' "$? $((resumed > 3))" '0 1'
ctr-train lr -v --memory 10M --spill spill -o x.arrows rows.arrows 2>x.err
is 'lr row by row: with room for all, all keys are in memory' "$(count 'memory keys' x.err) $(count 'disk keys  ' x.err)" "$((keys - 1)) 0" # the bias is no key

# ---- refusals
message() { # message TEXT COMMAND…
    _text=$1
    shift
    ! "$@" >x 2>x.err && grep -q -e "$_text" x.err
}
ok 'a minibatch that does not fit' message 'raise it, or lower --minibatch' train -q --minibatch 5000 --memory 2500K --spill spill -o x.arrows rows.arrows
ok 'without --memory' message '--spill: needs --memory' train -q --spill spill -o x.arrows some.arrows
ok 'no such folder' message 'none: no temporary file can be made there' train -q --memory 2500K --spill none -o x.arrows some.arrows
ok 'tables that are too large name the way out' message '(--spill DIR)' train -q --memory 2500K -o x.arrows rows.arrows
ok 'a minibatch of lr that does not fit' message 'raise it, or lower --minibatch' ctr-train lr -q --minibatch 5000 --memory 45K --spill spill -o x.lr rows.arrows
ok 'lr row by row without --memory' message '--spill: needs --memory' ctr-train lr -q --spill spill some.arrows
ok 'lr row by row, no such folder' message 'none: no temporary file can be made there' ctr-train lr -q --memory 1M --spill none some.arrows
ok 'a folder without a name is not the root' message '--spill: the name of the folder for temporary files is empty' ctr-train lr -q --memory 1M --spill '' some.arrows
ok 'lr row by row, a row that does not fit' message 'row 1 has 3 keys, of which --memory 10 KiB holds 0' ctr-train lr -q --memory 10K --spill spill some.arrows
ok 'a filter that takes all of --memory' message 'or lower --inclusion-memory, which takes 8 MiB' ctr-train lr -q --inclusion bloom=1 --memory 8M --spill spill some.arrows
ok 'lr row by row --expire' message 'leave it out, or raise --memory' ctr-train lr -q --expire 1 --memory 1M --spill spill some.arrows
ok 'lr row by row --checkpoint-deltas' message 'leave it out, or learn by --minibatch' ctr-train lr -q --checkpoint c --checkpoint-deltas 2 --memory 1M --spill spill some.arrows
echo a >variants
ok 'lr --variants' message 'leave it or --variants out' ctr-train lr -q --variants variants --memory 1M --spill spill -o 'm-%s' some.arrows
ok 'an error of another file does not name --spill' sh -c '! ctr-train lr -q --minibatch 100 --memory 90K --spill spill some.arrows >/dev/full 2>x.err && grep -q space x.err && ! grep -q -e --spill x.err'
ok '--prefetch of two minibatches' message '--prefetch must be 0 or 1: more gains nothing' train -q --prefetch 2 --memory 2500K --spill spill some.arrows
ok 'lr --prefetch row by row' message '--prefetch goes with --minibatch and --spill' ctr-train lr -q --prefetch 1 some.arrows
ok 'lr without --memory' message '--spill: needs --memory' ctr-train lr -q --minibatch 100 --spill spill some.arrows
ok 'lr --inclusion' message 'leave it or --minibatch out' ctr-train lr -q --minibatch 100 --inclusion bloom=1 --memory 1M --spill spill some.arrows
ok 'lr --expire' message 'leave it or --minibatch out' ctr-train lr -q --minibatch 100 --expire 1 --memory 1M --spill spill some.arrows
is 'and nothing stays' "$(ls spill)" ''
done_testing
