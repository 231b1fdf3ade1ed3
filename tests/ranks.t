#!/bin/sh
# mpirun -n R ctr-train MODEL: processes that learn one model. The same bits for R ranks and any -j, those of one process for one
# rank; what R ranks learn is what one process learns from minibatches R times as large. A rank that differs, fails, dies or stops
# ends all of them, without a model. A checkpoint of all goes on to the same model.
. "${0%/*}/lib.sh"
. "${0%/*}/ranks.sh"
cd "$W" || exit 1

train() { # train RANKS OPTION…
    _r=$1
    shift
    run "$_r" ctr-train mlp -q --embedding 8 --hidden 4 --minibatch 100 "$@"
}

awk 'BEGIN { srand(8); print "click,a,b,x,past"
    for (i = 0; i < 4000; i++) print (rand() < .4) "," int(900 * rand()) "," int(30 / (.01 + rand())) "," rand() "," \
        int(900 * rand()) " " int(900 * rand()) }' >rows.csv
printf 'label click\nfeature a\nfeature b\ndense x\nfeature past in a of a = split(past, " ")\n' >plan
ctr-import -q --format csv --header rows.csv | ctr-extract -q plan -o rows.arrows
ctr-cat -q --to file --batch 333 -o rows.arrow rows.arrows

# ---- one rank
ctr-train mlp -q --embedding 8 --hidden 4 --minibatch 100 -o one.m rows.arrows
ok 'one rank: the bytes of no mpirun' sh -c 'mpirun -q -n 1 ctr-train mlp -q --embedding 8 --hidden 4 --minibatch 100 -o got.m rows.arrows && cmp got.m one.m'
ok 'with what one process alone does' run 1 ctr-train lr -q --progressive p -o lr.m rows.arrows

# ---- what ranks learn together: the even and the odd minibatches of 100, and all of them as minibatches of 200
csv() { # csv CONDITION
    awk "NR == 1 || ($1)" rows.csv | ctr-import -q --format csv --header - | ctr-extract -q plan
}
csv 'int((NR - 2) / 100) % 2 == 0' >even.arrows
csv 'int((NR - 2) / 100) % 2 == 1' >odd.arrows
together() { # together MODEL OPTION…
    run 2 ctr-train "$@" -q --minibatch 100 -o two.m even.arrows odd.arrows &&
        ctr-train "$@" -q --minibatch 200 -o all.m rows.arrows &&
        ctr-train "$@" -q --minibatch 100 -o half.m rows.arrows && for m in two all half; do ctr-predict -q $m.m rows.arrows | ctr-export --format csv -c score >$m.csv || return; done &&
        paste -d, two.csv all.csv half.csv | awk -F, 'function abs(x) { return x < 0 ? -x : x }
            NR > 1 { if (abs($1 - $2) > d) d = abs($1 - $2); if (abs($1 - $3) > e) e = abs($1 - $3) }
            END { print NR - 1 " rows, difference " d ", of another size of minibatch " e; exit !(NR == 4001 && d < '"$most"' && e > 1e-3) }'
}
most=1e-5
for model in 'mlp --l2 .001' dcnv2 'din --activation prelu' 'two-tower --user-features a,past --ad-features b,x'; do
    ok "2 ranks learn from minibatches of both: $model" together $model
done
most=1e-6
ok '2 ranks learn from minibatches of both: lr' together lr --l1 .3 --init-bias .4
rm two.m all.m half.m

# ---- the same bits
same() { # same RANKS MODEL OPTION…
    _n=$1
    shift
    run "$_n" ctr-train "$@" -q -j 1 --passes 2 --minibatch 100 -o a.m rows.arrow && run "$_n" ctr-train "$@" -q -j 3 --passes 2 --minibatch 100 -o b.m rows.arrow && cmp a.m b.m
}
ok '2 ranks, any -j' same 2 mlp --l2 .001
cp a.m two.m
ok '3 ranks' same 3 mlp --l2 .001
ok 'have other bits: the comparison can fail' sh -c '! cmp -s a.m two.m'
ok 'statistics of batches' same 3 mlp --batch-norm
ok 'lr' same 3 lr --l1 .3
ok '… goes on from a model' same 2 lr --l1 .3 --init lr.m
ok '… from disk, with requests ahead' sh -c 'mkdir -p rows && mpirun --oversubscribe -q -n 3 ctr-train lr -q --l1 .3 --minibatch 100 --passes 2 --memory 90K --spill rows --prefetch 1 -o got.m rows.arrow &&
    mpirun --oversubscribe -q -n 3 ctr-train lr -q --l1 .3 --minibatch 100 --passes 2 -o want.m rows.arrow && cmp got.m want.m'
ctr-train lr -q --minibatch 100 -o lr-one.m rows.arrow
ok '… one rank: the bytes of no mpirun' sh -c 'mpirun -q -n 1 ctr-train lr -q --minibatch 100 -o got.m rows.arrow && cmp got.m lr-one.m'
ctr-select -q --head 0 -o none.arrows rows.arrows
scores() { ctr-predict -q "$1" rows.arrows | ctr-export -q --format csv -c score >"$1.csv"; }
train 2 --l2 .001 -o got.m none.arrows rows.arrows
train 1 --l2 .001 -o all.m rows.arrows
scores got.m && scores all.m
ok 'a rank without rows changes nothing' cmp got.m.csv all.m.csv

# ---- tables on disk, predictions, early stopping
ok '--prefetch: requests ahead change no bit' sh -c 'for p in 0 1; do
    mpirun --oversubscribe -q -n 3 ctr-train mlp -q --l2 .001 --minibatch 100 --passes 2 --prefetch $p -o p$p.m rows.arrow || exit; done; cmp p0.m p1.m'
ok 'rows on disk' sh -c 'for m in 1 2; do mpirun --oversubscribe -q -n 2 ctr-train mlp -q --l2 .001 --minibatch 100 $o -o d$m.m rows.arrow || exit
    o="--spill . --memory 8M --prefetch 1"; done; cmp d1.m d2.m'
predictions() { # each rank's rows in their order, with scores that no -j changes, and of both the loss that the summary tells
    for j in 1 3; do run 2 ctr-train mlp -j $j --embedding 8 --hidden 4 --minibatch 100 --progressive "p$j-%d.arrows" -o p.m even.arrows odd.arrows 2>said || return; done
    for i in 0 1; do cmp p1-$i.arrows p3-$i.arrows || return; done
    ctr-export -q --format csv -c click p1-0.arrows >got && ctr-export -q --format csv -c click even.arrows | cmp - got &&
        ctr-eval -q -m log_loss --format stream p1-0.arrows p1-1.arrows | ctr-export -q --no-header -c log_loss >got && awk '/progressive log loss/ { print $4 }' said >want &&
        paste got want && paste got want | awk '{ exit !($1 - $2 < 1e-6 && $2 - $1 < 1e-6 && $1 > .1) }'
}
ok 'predictions, by rank' predictions
early() { # early MODEL OPTION… : the model is the best one, whose loss over the validation is what was said
    for j in 1 3; do
        run 2 ctr-train "$@" -j $j --minibatch 100 --passes 9 --validation odd.arrows --validation-every 1500 --patience 2 -o v$j.m even.arrows rows.arrows 2>said || return
    done
    cmp v1.m v3.m && grep -c 'row [0-9]*: validation log loss' said && grep -q 'stopping' said || return
    sed -n 's/.*validation log loss \([0-9.]*\).*the best so far.*/\1/p' said | tail -1 >want
    ctr-predict -q v1.m odd.arrows | ctr-eval -q -m log_loss --format stream | ctr-export -q --no-header -c log_loss >got
    paste got want && paste got want | awk '{ exit !($1 - $2 < 1e-5 && $2 - $1 < 1e-5 && $1 > .1) }'
}
ok 'early stopping' early mlp --embedding 8 --hidden 4 --rate .03
ok 'early stopping of lr' early lr --alpha .9
ok '--init' sh -c 'for i in a b; do mpirun --oversubscribe -q -n 2 ctr-train mlp -q --embedding 8 --hidden 4 --minibatch 100 --init one.m -o $i.m rows.arrow || exit; done; cmp a.m b.m'

# ---- bytes of lr by kind, beside the formulas, whose IDs are counted here
printf 'label click\nfeature a\nfeature b\n' >other.plan
for i in 0 1; do
    awk "NR == 1 || int((NR - 2) / 100) % 2 == $i" rows.csv | ctr-import -q --format csv --header - | ctr-extract -q -o ids-$i.arrows other.plan
done
ids=$(awk -F, 'NR > 1 { m = int((NR - 2) / 100); n += !seen[m]++; n += !seen[m, "a", $2]++; n += !seen[m, "b", $3]++ } END { printf "%.1f", n / 20 }' rows.csv)
run 2 ctr-train lr --minibatch 100 -o no.m ids-0.arrows ids-1.arrows 2>said
ok 'bytes of lr: IDs of a step, the bias among them' grep -qx "steps  *20 of 2 ranks; a step asks for $ids IDs" said
ok '… formulas and counts' awk '/^(ids|vectors|gradients|dense gradients|vectors, gradients)  / { n += $(NF - 2) == $(NF - 1) }
    /^vectors, gradients/ { n += $NF > 1 && $NF < $(NF - 1) } END { exit n != 6 }' said

# ---- what is refused
refused() { # refused NAME PATTERN STATUS COMMAND…
    _name=$1 _like=$2 _want=$3
    shift 3
    rm -f no.m
    "$@" 2>err
    is "$_name: the status" $? "$_want"
    ok "$_name: why" grep -Eq "$_like" err
    ok "$_name: no model" test ! -e no.m
}
set -- --embedding 8 --hidden 4 --minibatch 100 -q -o no.m even.arrows odd.arrows
refused 'other options' "ranks differ: rank 0 has '.*rate=0.001 .*rank 1 has '.*rate=0.3 .*start all of them alike" 2 \
    timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp "$@" : -n 1 ctr-train mlp --rate .3 "$@"
printf 'label click\nfeature a\nfeature b\n' >other.plan
ctr-import -q --format csv --header rows.csv | ctr-extract -q other.plan -o other.arrows
refused 'another plan' "ranks differ: other.arrows of rank 1 cannot be joined with rows.arrows of rank 0: its plan has " 1 train 2 -o no.m rows.arrows other.arrows
printf 'a secret of many bytes' >secret
ctr-import -q --format csv --header rows.csv | ctr-extract -q --key-seed secret plan -o other.arrows
refused 'another secret' "ranks differ: other.arrows of rank 1 cannot be joined with rows.arrows of rank 0: .* --key-seed is none there and [0-9a-f]{32} here" 1 \
    train 2 -o no.m rows.arrows other.arrows
ctr-import -q --format csv --header --columns click:int8,a:float64,b:int64,x:float64,past:utf8 rows.csv | ctr-extract -q plan -o other.arrows
refused 'another type of an input' "ranks differ: other.arrows of rank 1 cannot be joined with rows.arrows of rank 0: input 'a' of its plan was int64 there and float64 here" 1 \
    train 2 -o no.m rows.arrows other.arrows
ctr-import -q --format csv --header rows.csv | ctr-extract -q other.plan -o other.arrows
refused 'lr by rows' '^ctr-train: ranks .mpirun.: lr learns by minibatches there; say of how many rows: --minibatch ROWS' 2 run 2 ctr-train lr -o no.m even.arrows odd.arrows
refused 'other learners' '^ctr-train: lr by minibatches takes no --optimizer: leave it or --minibatch out' 2 run 2 ctr-train lr --optimizer rda --minibatch 9 -o no.m even.arrows odd.arrows
refused 'bad rows to be counted' '^ctr-train: --bad-rows: ranks .mpirun. count no bad rows together: leave them out of the shards first, by ctr-extract --bad-rows' 2 \
    train 2 --bad-rows skip=1 -o no.m even.arrows odd.arrows
printf 'from log\nwhere a > 0\nlabel click\nfeature a\nfeature b\n' >raw.plan
ctr-import -q --format csv --header rows.csv -o log.arrows
ctr-extract -q raw.plan log=log.arrows | ctr-split -q --shards 2 -o 'raw-%d.arrows'
ok 'what it advises' run 2 ctr-train mlp --minibatch 9 -q -o raw.m raw-*.arrows
refused 'predictions in one file' '^ctr-train: ranks write .* a file each: --progressive wants one %d' 2 train 2 --progressive p -o no.m even.arrows odd.arrows
mkdir -p other/bin other/lib/ctr
version=$(ctr-train --version | awk '{ print $2 }')
for f in bin/ctr-train lib/ctr/ctr-mpi.so; do perl -0777 -pe "s/\\Q$version\\E\\0/9${version#?}\\0/g" "$CTR_BUILD/$f" >other/$f; done
chmod +x other/bin/ctr-train
is 'a program of another version' "$(other/bin/ctr-train --version)" "ctr-train 9${version#?}"
refused 'another version' "ranks differ: rank 0 has 'version $version', rank 1 has 'version 9${version#?}': start all of them alike" 2 \
    timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp "$@" : -n 1 other/bin/ctr-train mlp "$@"
refused 'another prefetch' 'ranks differ: rank 0 has .*prefetch 0.*rank 1 has .*prefetch 1' 2 \
    timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp "$@" : -n 1 ctr-train mlp --prefetch 1 "$@"
refused 'another validation' "ranks differ: rank 0 has 'validation none.*rank 1 has 'validation other.arrows" 2 \
    timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp "$@" : -n 1 ctr-train mlp --validation other.arrows "$@"
refused 'another order of files' "ranks differ: rank 0 has 'file 1: even.arrows', rank 1 has 'file 1: odd.arrows'" 2 \
    timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp "$@" : -n 1 ctr-train mlp --embedding 8 --hidden 4 --minibatch 100 -q -o no.m odd.arrows even.arrows
mkdir -p host
ctr-select -q --head 3000 rows.arrow | ctr-cat -q --to file --batch 100 -o host/rows.arrow
refused 'other blocks by one name' "ranks differ: rank 0 has 'file 1: rows.arrow of [0-9]* bytes, .*', rank 1 has 'file 1: rows.arrow of [0-9]* bytes" 2 \
    timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp -q -o no.m rows.arrow : -n 1 -wdir "$PWD/host" ctr-train mlp -q -o no.m rows.arrow
unlike() { # unlike NAME PATTERN OPTION… : rank 1 alone has these options
    _who=$1 _line=$2
    shift 2
    refused "$_who" "ranks differ: rank 0 has $_line.*: start all of them alike" 2 timeout 60 mpirun --oversubscribe -q -n 1 ctr-train "$learner" --minibatch 100 -q \
        -o no.m even.arrows odd.arrows : -n 1 ctr-train "$learner" "$@" --minibatch 100 -q -o no.m even.arrows odd.arrows
}
learner=mlp
unlike 'a checkpoint on one rank' "'checkpoint none, .*rank 1 has 'checkpoint c.ckpt" --checkpoint c.ckpt --checkpoint-every 500
unlike 'predictions of one rank' "'predictions before updates: none', rank 1 has 'predictions before updates: written" --progressive p-%d.arrows
unlike 'another label' "'label none, .*rank 1 has 'label a, " --label a
unlike 'another weight' "'label none, weight none, .*rank 1 has 'label none, weight x, " --weight x
unlike 'another time' "'.*time none, .*rank 1 has '.* time x, " --time x
unlike 'another model to start from' "'begins', rank 1 has 'begins from --init in part'" --init one.m --init-partial
unlike 'another plan in the model' "'--plan none', rank 1 has '--plan plan of [0-9]* bytes" --plan plan
learner=lr
unlike 'another click rate' "'.*initial rate 0'.* rank 1 has '.*initial rate 0.1'" --init-bias .1
learner=two-tower
unlike 'other towers' "'user features none, .*rank 1 has 'user features a,past, ad features b,x'" --user-features a,past --ad-features b,x
printf '%s\n' 1,2 | ctr-import -q --format csv --columns a,b -o host/one.m
set -- --embedding 8 --hidden 4 --minibatch 100 -q -o no.m
refused 'another model by one name' "ranks differ: rank 0 has '--init one.m of [0-9]* bytes, .*', rank 1 has '--init one.m of [0-9]* bytes" 2 \
    timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp --init one.m "$@" "$PWD/even.arrows" "$PWD/odd.arrows" : \
    -n 1 -wdir "$PWD/host" ctr-train mlp --init one.m "$@" "$PWD/even.arrows" "$PWD/odd.arrows"
refused 'too few files' '2 files for 3 ranks.*ctr-split.*one .arrow file' 2 train 3 -o no.m even.arrows odd.arrows
refused 'a file twice' 'are one file' 2 train 2 -o no.m even.arrows even.arrows
refused 'stdin' 'ranks read files, not stdin' 2 train 2 -o no.m even.arrows -
head -c 30000 odd.arrows >cut.arrows
refused 'a truncated file' 'cut.arrows: truncated' 1 train 2 -o no.m even.arrows cut.arrows
refused 'a full disk' '/dev/full' 1 train 2 -o /dev/full even.arrows odd.arrows

# ---- a rank that dies, or stops
ranks_of() { # ranks_of PID : its processes
    ps -eo pid=,ppid=,comm= | awk -v p="$1" '$2 == p && $3 ~ /^ctr-train/ { print $1 }'
}
running() { [ "$(ranks_of "$job" | wc -l)" = 3 ] && [ -s "$1" ]; }
signal_one() { # signal_one SIGNAL [CHECKPOINT] : of three ranks, which have begun
    rm -f no.m c.ckpt
    CTR_RANKS_LIMIT=2 mpirun --oversubscribe -q -n 3 ctr-train mlp -q --embedding 8 --hidden 4 --minibatch 100 --passes 1000 \
        --checkpoint c.ckpt --checkpoint-every 4000 -o no.m rows.arrow 2>err &
    job=$!
    until_true running c.ckpt
    all=$(ranks_of $job)
    kill -"$1" "$(echo "$all" | tail -1)"
    began=$(date +%s)
    wait $job
    status=$?
    took=$(($(date +%s) - began))
}
gone() { for p in $all; do ! kill -0 "$p" 2>/dev/null || return 1; done; }
for signal in KILL STOP; do
    signal_one $signal
    ok "SIG$signal of a rank ends all: status $status" test $status -ne 0
    ok '… within 30 seconds' test $took -le 30
    ok '… no process is left' until_true gone
    ok '… and no model' test ! -e no.m
done
ok 'a rank that stopped is named' grep -q 'rank 2 of 3 gave no sign of life for 2 s' err

# ---- checkpoints
train 3 --passes 6 -o all.m rows.arrow
rm -f c.ckpt
mpirun --oversubscribe -q -n 3 ctr-train mlp -q --embedding 8 --hidden 4 --minibatch 100 --passes 6 --checkpoint c.ckpt --checkpoint-every 4000 -o got.m \
    rows.arrow 2>/dev/null &
job=$!
until_true test -s c.ckpt
kill -KILL "$(ranks_of $job | head -1)" 2>/dev/null
wait $job
train 3 --passes 6 --checkpoint c.ckpt --resume -o got.m rows.arrow
ok 'a run that was killed goes on to the same model' cmp got.m all.m

# ---- other programs do without MPI
ok 'filters do not load MPI' sh -c '! ldd "$CTR_BUILD/bin/ctr-train" | grep -qi mpi'
exits 'srun without PMIx' 2 env SLURM_STEP_NUM_TASKS=3 ctr-train lr -o alone.m rows.arrows
err_like 'tells that each process would learn alone' 'srun started 3 processes .* each would learn alone; srun --mpi=pmix .*env -u SLURM_STEP_NUM_TASKS'
ok '… and no model' test ! -e alone.m

# ---- two runs that write one file
mkfifo rows.fifo
ctr-train lr -q -o alone.m rows.fifo 2>first.err &
first=$!
exec 9>rows.fifo
head -c 2000 rows.arrows >&9
until_true sh -c 'ss -xl 2>/dev/null | grep -q ctr-train || grep -q "@ctr-train" /proc/net/unix'
exits 'another run writes the model' 2 ctr-train lr -q -o ./alone.m rows.arrows
err_like 'is told' '^ctr-train: another ctr-train is running that writes ./alone.m: give each a file of its own'
exits 'another file is another model' 0 ctr-train lr -q -o other.m rows.arrows
tail -c +2001 rows.arrows >&9
exec 9>&-
wait $first
is 'the first comes to its end' "$?" 0
exits 'and the next may write it' 0 ctr-train lr -q -o alone.m rows.arrows

# ---- what ranks say about their processors and shards
mpirun --oversubscribe -q -n 2 taskset -c 0 ctr-train mlp -j 2 --embedding 8 --hidden 4 --minibatch 100 -o no.m rows.arrow 2>err
ok 'more threads than processors are told once' sh -c '[ "$(grep -c "^ctr-train: -j 2, and this rank may use 1 processor: mpirun --bind-to none" err)" = 1 ]'
mpirun --oversubscribe -q -n 2 taskset -c 0 ctr-train mlp -j 0 --embedding 8 --hidden 4 --minibatch 100 -o no.m rows.arrow 2>err
ok '-j 0 takes those that there are' sh -c '! grep "this rank may use" err'
csv 'NR < 200' >few.arrows
csv 'NR >= 200 && NR < 1700' >most.arrows
csv 'NR >= 1700 && NR < 2300' >some.arrows
mpirun --oversubscribe -q -n 3 ctr-train mlp --embedding 8 --hidden 4 --minibatch 100 --passes 2 -o no.m few.arrows most.arrows some.arrows 2>err
is 'shards that differ are told, once' "$(grep -c 'ranks have 198 to 1500 rows of a pass, which takes 15 steps instead of 8: share the rows out evenly (ctr-split --shards 3' err)" 1
mpirun --oversubscribe -q -n 2 ctr-train mlp --embedding 8 --hidden 4 --minibatch 100 -o no.m even.arrows odd.arrows 2>err
ok 'even ones are not' sh -c '! grep "rows of a pass" err'
timeout 60 mpirun --oversubscribe -q -n 3 ctr-train mlp --no-such-option -o no.m rows.arrow 2>err
is 'a usage error of all ranks is told once' "$(grep -c '^ctr-train: ' err)" 1
timeout 60 mpirun --oversubscribe -q -n 1 sleep 20 : -n 1 ctr-train mlp --no-such-option -o no.m rows.arrow 2>err
is 'and that of another rank is told, too' "$(grep -c '^ctr-train: ' err)" 1
exits 'mpirun and no plug-in' 1 env CTR_MPI_PLUGIN=/none.so OMPI_COMM_WORLD_SIZE=2 ctr-train mlp -o no.m rows.arrows
err_like 'is named with its remedy' 'plug-in for MPI cannot be opened.*libopenmpi-dev'

# ---- a model that gives one score to the rows of all ranks
exits 'a constant' 0 run 2 ctr-train lr -q --l1 1e9 --minibatch 50 -o constant.m rows.arrow
is 'is told once' "$(grep -c 'collapsed to a constant: its score is 0[.0-9]* for all of' err)" 1
rm -f constant.m
exits 'and fails with --fail-constant' 1 run 2 ctr-train lr -q --l1 1e9 --minibatch 50 --fail-constant -o constant.m rows.arrow
ok 'without a model' test ! -e constant.m
exits 'ranks that learn do not' 0 train 2 --fail-constant -o good.m rows.arrow
done_testing
