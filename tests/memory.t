#!/bin/sh
# --memory bounds a process: peak memory is at most the limit and 24 MB, which are the program itself: code and libraries (14 MB),
# stacks and heaps of threads, buffers of input and output. A batch that does not fit is an error with figures.
. "${0%/*}/lib.sh"
case $CTR_BUILD in *san*) skip_all 'sanitizers have allocators of their own' ;; esac
has_python pyarrow || skip_all "$PY has no pyarrow"
cd "$W" || exit 1
export TMPDIR="$W"

base=24000 # KB
within() { # within MIB COMMAND…
    _limit=$1
    shift
    below $((_limit * 1024 + base)) "$@"
}
refuses() { # refuses MIB MESSAGE COMMAND… : status 1 with these words, within the memory
    _mib=$1 _words=$2
    shift 2
    within "$_mib" sh -c '"$@" >refused.out 2>refused.err; [ $? -eq 1 ]' sh "$@" && grep -q -e "$_words" refused.err || { cat refused.err; return 1; }
}

"$PY" - <<'EOF'
import pyarrow as pa, pyarrow.ipc as ipc, random
def write(name, columns, rows, **o):
    t = pa.table(columns)
    with ipc.new_stream(name, t.schema, options=ipc.IpcWriteOptions(**o)) as w:
        for b in t.to_batches(rows): w.write_batch(b)
random.seed(3)
n = 400000
keys = list(range(n)); random.shuffle(keys)
for s in 'abc':
    write(f'{s}.arrows', {'k': keys, s + '1': [float(i) for i in range(n)], s + '2': [i * .5 for i in range(n)]}, 8192)
random.shuffle(keys)
write('log.arrows', {'k': keys, 'user': [i % 50000 for i in keys], 'click': [i % 7 == 0 for i in keys],
                     'time': pa.array([1000 * i for i in range(n)], pa.timestamp('ms', 'UTC'))}, 8192)
write('zeros.arrows', {'k': pa.array([0] * 4000000), 'v': pa.array([0.] * 4000000)}, 4000000, compression='zstd')
write('equal.arrows', {'k': pa.array([0] * 2000000), 'v': pa.array([0.] * 2000000)}, 8192)
write('plain.arrows', {'k': pa.array(range(3000000))}, 3000000)
write('wide.arrows', {'click': [i % 3 == 0 for i in range(4096)], **{f'c{k}': [(i * 7919 + k) % 97 for i in range(4096)] for k in range(300)}}, 512)
write('rare.arrows', {'k': [int(i % 500 == 0) for i in range(300000)], 't': ['x' * 100000 if i % 500 == 0 else 'y' for i in range(300000)]}, 8192)
write('cell.arrows', {'k': [1, 2], 't': ['x' * 30000000, 'y']}, 2)
EOF

# ---- statements share one budget
printf 'from log\n' >two.plan
for s in a b c; do echo "join $s on k"; done >>two.plan
printf 'label click\ntime time\nfeature k\ndense a1\ndense b2\ndense c2\n' >>two.plan
for j in 1 2; do
    ok "three joins of a plan, -j $j" within 32 ctr-extract -q -j $j --memory 32M -o three.feat two.plan log=log.arrows a=a.arrows b=b.arrows c=c.arrows
done
ctr-extract -q -o all.feat two.plan log=log.arrows a=a.arrows b=b.arrows c=c.arrows
is '… whose rows are the same' "$(ctr-info --digest three.feat)" "$(ctr-info --digest all.feat)"
ok 'a history and a group behind a join' within 96 sh -c "printf 'from log\njoin a on k\nhistory k by user at time last 5\ngroup user, n = count(), m = sum(a1)\nkeep user\nkeep n\nkeep m\n' >hist.plan
    ctr-extract -q -j 2 --memory 96M hist.plan log=log.arrows a=a.arrows"
ok 'ctr-train lr over three joins' within 48 ctr-train lr -q -j 2 --memory 48M -o three.model two.plan log=log.arrows a=a.arrows b=b.arrows c=c.arrows

# ---- what grows with the rows
printf 'feature k\nfeature user\n' >k.plan
ok '--names' within 96 ctr-extract -q --memory 96M --names k.names -o k.feat k.plan log.arrows
ok '--names that do not fit' refuses 24 '^ctr-extract: log.arrows: --names needs [0-9.]* MiB after [0-9]* rows, and of --memory it may take 18 MiB' \
    ctr-extract -q --memory 24M --names no.names -o k.feat k.plan log.arrows
printf 'feature k = vocab(k)\n' >v.plan
ok '--fit that does not fit' refuses 16 '^ctr-extract: --fit needs [0-9.]* MiB after [0-9]* rows, and of --memory it may take 12 MiB' \
    ctr-extract -q --memory 16M --fit v.plan -o no.fitted log.arrows
ok '--fit' within 96 ctr-extract -q --memory 96M --fit v.plan -o v.fitted log.arrows

# ---- batches
printf 'feature k\ndense v\n' >zeros.plan
for tool in 'ctr-sort -k k' 'ctr-join -k k a.arrows' 'ctr-group -k k --add n=count()' 'ctr-extract zeros.plan' 'ctr-sample --share .5 --query k --label v'; do
    ok "a batch of 5 KB that unpacks to 61 MiB: $tool" refuses 16 \
        'zeros.arrows: a batch needs 61.1 MiB, and of --memory 16 MiB a batch may take 4 MiB: write smaller batches (ctr-cat --batch ROWS)' \
        ${tool%% *} --memory 16M ${tool#* } zeros.arrows
done
ok 'as the side that a join holds' refuses 16 'zeros.arrows: a batch needs 61.1 MiB' ctr-join --memory 16M -k k zeros.arrows log.arrows
ok 'one that is not packed' refuses 16 'plain.arrows: a batch needs 22.9 MiB, and' ctr-sort --memory 16M -k k plain.arrows
ok 'is read when it fits' within 192 ctr-sort --memory 192M -k k plain.arrows
ok 'a cell of 30 MB' refuses 64 'cell.arrows: a batch needs 28.7 MiB, and of --memory 64 MiB a batch may take 8 MiB' ctr-sort --memory 64M -k k cell.arrows
for j in 1 2; do
    ok "600 rows of 100 KB, side by side behind many small ones, -j $j" within 32 ctr-sort --memory 32M -j $j -k k rare.arrows
done
ctr-cat --batch 8192 -o cut.arrows plain.arrows
ok 'and so are smaller ones' within 16 ctr-sort --memory 16M -k k cut.arrows
ok 'rows of one key on the side that a join holds' refuses 16 'rows 1 and 2 have the same key k=0' ctr-join --memory 16M -k k equal.arrows log.arrows

# ---- rows in flight
{ echo 'label click'; for k in $(seq 0 299); do echo "feature c$k"; done; } >wide.plan
ctr-extract -q -o wide.feat wide.plan wide.arrows
for j in 1 2; do
    ok "ctr-train lr of 300 features, -j $j" within 32 ctr-train lr -q -j $j --memory 32M -o lr.model wide.feat
    ok "… made of their plan, -j $j" within 32 ctr-train lr -q -j $j --memory 32M -o lr2.model wide.plan wide.arrows
done
ctr-train lr -q -o lr3.model wide.feat
ok '… the same models' sh -c 'for m in lr lr2 lr3; do ctr-info --digest $m.model; done | uniq | wc -l | grep -qx 1'
ok 'mlp' within 128 ctr-train mlp -q --minibatch 256 --memory 128M -o mlp.model wide.plan wide.arrows

# ---- other tools
ok 'ctr-history --sort' within 32 ctr-history -q --sort --user user --time time -c k --window 50s --memory 32M log.arrows
ok 'ctr-sort -j 2' within 16 ctr-sort -j 2 -k k --memory 16M a.arrows
ok 'ctr-join' within 16 ctr-join -q -j 2 -k k --memory 16M a.arrows log.arrows
ok 'ctr-group' within 16 ctr-group -q -k user --memory 16M --add 'n=quantile(k,.5)' log.arrows
done_testing
