#!/bin/sh
# The plug-in for GPUs, its text on the host: threads of blocks race under ThreadSanitizer, every call that can fail fails once, and
# what a minibatch costs beside its arithmetic is bounded.
. "${0%/*}/lib.sh"
export CTR_CUDA_PLUGIN="$CTR_BUILD/onhost/ctr-cuda.so"
[ -f "$CTR_CUDA_PLUGIN" ] || skip_all "there is no c++"
cd "$W" || exit 1
awk 'BEGIN { srand(7); print "click,a,b,x"
    for (i = 0; i < 12000; i++) { a = int(3000 * rand() * rand()); b = int(400 * rand())
        print (rand() < .2 + .5 * ((7 * a + b) % 3 == 0)) "," a "," b "," rand() } }' >rows.csv
printf 'label click\nfeature a\nfeature b\ndense x\n' >plan
ctr-import -q --format csv --header rows.csv | ctr-extract -q plan -o rows.arrows
for batch in 125 2000; do
    ctr-cat --batch $batch -o batch$batch.arrows rows.arrows
done
mlp() { ctr-train mlp -q --device gpu --embedding 8 --hidden 16,8,8 "$@"; }
lr() { ctr-train lr -q --device gpu "$@"; }
calls() { sed -n "s/^on host: $1 //p" "$2"; }

# ---- what stands for CUDA is as strict
refuses() { c++ -std=c++20 -O1 -Wall -Wextra -DCTR_CUDA_ON_HOST -I"$CTR_TOP/src" "$CTR_TOP/tests/gpu/refuses.cc" -o refuses && ./refuses; }
ok "pointers, launches, products and faults are refused as by CUDA" refuses

# ---- races: every kernel, in all trials of all operations
# What the trials read and write themselves, fill and compare, is no access of a kernel.
tsan() { TSAN_OPTIONS=ignore_noninstrumented_modules=1 CTR_CUDA_PLUGIN=$CTR_BUILD/onhost-tsan/ctr-cuda.so "$CTR_BUILD/onhost-tsan/compute" --device gpu --seed 3 "$@" >tsan.out 2>&1; }
if [ ! -x "$CTR_BUILD/onhost-tsan/compute" ]; then
    skip "races" "not built under other sanitizers"
elif tsan fill; then
    ok "no thread of a block races with another, in any operation" tsan
    is "all operations were tried" "$(grep -c '^ok .* - every operation is tried' tsan.out)" 1
    grep -A12 '^WARNING' tsan.out | sed 's/^/# /'
    careless() { ! CTR_CUDA_ON_HOST_ORDER=careless tsan reduce; }
    ok "a barrier that orders nothing is found" careless
    ok "as a race" grep -q 'data race .* in join_block' tsan.out
else
    skip "races" "ThreadSanitizer does not run here"
fi

# ---- what a minibatch costs: what four passes do and two do not, by minibatch, in tenths
if [ -z "$SAN" ]; then # counts, of trainings that are run here below
    # cost CALL RUN
    cost() { echo $((($(calls "$1" "$2.4") - $(calls "$1" "$2.2")) * 10 * ${2#*-*-} / (2 * 12000))); }
    for learner in mlp lr; do
        for run in 125-500 125-2000 125-4000 2000-500 2000-2000 2000-4000; do
            for passes in 2 4; do
                CTR_CUDA_ON_HOST_SAYS=1 $learner --minibatch ${run#*-} --passes $passes -o /dev/null batch${run%-*}.arrows 2>$learner-$run.$passes >/dev/null
            done
        done
        case $learner in
        mlp) bounds="launch:165 wait:25 back:62 copy:45" ;; # two graphs, and 14 kernels
        lr) bounds="launch:155 wait:25 back:62 copy:65" ;;
        esac
        for bound in $bounds; do
            call=${bound%:*} most=${bound#*:}
            for minibatch in 500 2000 4000; do
                tenths=$(cost "$call" $learner-125-$minibatch)
                ok "$learner: at most $most tenths of $call a minibatch of $minibatch ($tenths)" test "$tenths" -le "$most"
                is "$learner: as many with batches of 2000 rows" "$(cost "$call" $learner-2000-$minibatch)" "$tenths"
            done
        done
    done

    # The end of a pass waits twice, too.
    ok "mlp: two waits a minibatch ($(cost wait mlp-125-500) tenths)" test "$(cost wait mlp-125-500)" -le 22
    # Keys of two fields 16, a number 4, a label 4, a score 4; and lists of a few keys that are new on the device.
    ok "mlp: at most 29 bytes a row ($(($(cost bytes mlp-125-4000) / 40000)))" test "$(cost bytes mlp-125-4000)" -le 1160000
    ok "mlp: of these 5 to the host ($(($(cost down mlp-125-4000) / 40000)))" test "$(cost down mlp-125-4000)" -le 200000
    ok "mlp: no copy from or to pageable memory" sh -c "! grep -h 'copies of pageable' mlp-125-*.? | grep -v 'on host: 0 '"
fi

# ---- distinct keys of a minibatch: found by the device or, where it keeps no rows, by the host
same() { # same MODEL OPTIONS… FILE: both give one model
    CTR_WORKING_SET=0 ctr-train "$@" -q --device gpu -o host.m && ctr-train "$@" -v --device gpu -o there.m 2>there.err && cmp host.m there.m
}
numbered() { grep -q "^keys numbered by     the $1\$" there.err; }
shape="--embedding 8 --hidden 16,8"
for learner in "mlp $shape" "dcnv2 $shape" "dlrm $shape" "fm --embedding 8" lr; do
    ok "${learner%% *}: keys numbered by the device: the same model" same $learner --minibatch 500 --passes 2 rows.arrows
    ok "${learner%% *}: they are" numbered device
done
for pooling in mean max; do
    ok "pooled by $pooling" same mlp $shape --pooling $pooling --minibatch 500 rows.arrows
done
pieces() {
    CTR_WORKING_SET=0 $1 --minibatch 500 -o host.m batch125.arrows && cat batch125.arrows | $1 --minibatch 500 --follow -o there.m && cmp host.m there.m
}
for learner in mlp lr; do
    ok "$learner: a minibatch that comes in pieces" pieces $learner
done
# A key a row, in a table of its own or in that of another feature: some sets of slots have no room for all keys of a minibatch.
awk -F, 'NR == 1 { print "id," $0; next } { print NR "," $0 }' rows.csv >ids.csv
for in in id a; do
    printf 'label click\nfeature id in %s\nfeature a\nfeature b\n' $in >ids.plan
    ctr-import -q --format csv --header ids.csv | ctr-extract -q ids.plan -o ids.arrows
    ok "a key a row, in the table $in" same mlp $shape --minibatch 4000 --passes 3 ids.arrows
    ok "numbered by the device" numbered device
done
printf 'label click\nfeature a\nfeature both = split(both, " ")\n' >lists.plan
awk -F, 'NR == 1 { print "both," $0; next } { print $2 " " $3 "," $0 }' rows.csv | ctr-import -q --format csv --header | ctr-extract -q lists.plan -o lists.arrows
ok "lists" same mlp $shape --minibatch 500 lists.arrows
ok "numbered by the device" numbered device
# Lists that rows have in common, with nulls and empty ones, in the table of a key; a history, which has one of its own.
awk 'BEGIN { srand(9); print "click,item,cat,user,tags,past,kinds"; for (i = 0; i < 5000; i++) { u = int(300 * rand()); past = kinds = ""
    for (k = 0; k < u % 7; k++) { past = past (k ? " " : "") (u * k) % 90; kinds = kinds (k ? " " : "") "k" (u * k) % 8 }
    printf "%d,%d,k%d,%d,%s,%s,%s\n", rand() < .3, 90 * rand(), 8 * rand(), u, rand() < .1 ? "" : int(u / 3) " t" u % 5 " t" u % 5, past, kinds } }' >history.csv
cat >history.plan <<'PLAN'
label   click
feature item
feature cat
feature user
feature tags in item = split(tags, " ")
feature past in item of item = split(past, " ")
feature kinds in cat of cat = split(kinds, " ")
PLAN
ctr-import -q --format csv --header --columns click:int8,item:int64,cat:utf8,user:int64,tags:utf8,past:utf8,kinds:utf8 history.csv | ctr-extract -q history.plan -o history.arrows
for pooling in sum mean max; do
    ok "lists in the table of a key, pooled by $pooling" same mlp $shape --pooling $pooling --minibatch 500 --passes 2 history.arrows
    ok "numbered by the device" numbered device
done
# In pieces, where the device has numbered some of a minibatch when it has no room for lists of more, and the host numbers all of it.
awk 'BEGIN { srand(2); print "click,a,many"; n = 6000; for (i = 0; i < 13000; i++) { if (i % 1000 == 0) n = int(n * 1.08)
    s = ""; for (k = 0; k < 16; k++) s = s (k ? " " : "") (i % 1000 * 16 + k) % n; printf "%d,%d,%s\n", rand() < .3, (i * 7) % n, s } }' >many.csv
printf 'label click\nfeature many = split(many, " ")\n' >many.plan
printf 'label click\nfeature a\n' >one.plan
for plan in many one; do
    ctr-import -q --format csv --header many.csv | ctr-extract -q $plan.plan -o many.arrows
    ctr-cat -q --batch 250 -o pieces.arrows many.arrows
    CTR_WORKING_SET=0 ctr-train mlp -q --embedding 4 --hidden 8 --device gpu --minibatch 1000 -o host.m many.arrows
    for memory in 8M 9M 10M 12M 14M; do
        crowded() { cat pieces.arrows | ctr-train mlp -q --embedding 4 --hidden 8 --device gpu --device-memory $memory --minibatch 1000 --follow -o there.m && cmp host.m there.m; }
        ok "$plan: pieces, $memory of the device" crowded
    done
done
for learner in "din $shape" "dcnv2 $shape" "fm --embedding 8"; do
    ok "${learner%% *}: lists" same $learner --minibatch 700 --passes 2 history.arrows
    ok "numbered by the device" numbered device
done
ok "counts" same mlp $shape --l2 .001 --minibatch 500 rows.arrows
ok "are the host's" numbered 'host: --l2 counts them'
# Where the device has memory for the rows of keys but not for lists of entries as well, the host goes on.
awk 'BEGIN { srand(3); print "click,a,b,c,d,e"; for (i = 0; i < 9000; i++)
    print (rand() < .3) "," int(50 * rand()) "," int(40 * rand()) "," int(30 * rand()) "," int(9 * rand()) "," int(i < 6000 ? 9 * rand() : i) }' >short.csv
printf 'label click\nfeature a\nfeature b\nfeature c\nfeature d\nfeature e\n' >short.plan
ctr-import -q --format csv --header short.csv | ctr-extract -q short.plan -o short.arrows
for memory in 1M 2M 4M 6M 8M 10M 20M; do
    ok "lr: with $memory of the device" same lr --minibatch 3000 --passes 2 --device-memory $memory short.arrows
    case $memory in
    2M) ok "numbered by the host" numbered 'host: the device has no room for all of their rows and entries' ;;
    20M) ok "numbered by the device" numbered device ;;
    esac
done
another() { same mlp $shape --minibatch 500 rows.arrows && cp host.m one.m && same mlp $shape --minibatch 499 rows.arrows && ! cmp -s one.m host.m; }
ok "another minibatch gives another model: the comparison can fail" another

# ---- CUDA graphs: the same model without; what has other operands each time is none
head -n 701 rows.csv | ctr-import -q --format csv --header | ctr-extract -q plan -o few.arrows
graphs() { # graphs MODEL OPTIONS…: both give one model, with and without
    CTR_CUDA_GRAPHS=0 ctr-train "$@" -q --device gpu -o plain.m && ctr-train "$@" -v --device gpu -o graph.m 2>graph.err && cmp plain.m graph.m
}
launched() { sed -n 's/^CUDA graphs  *[0-9]*, launched \([0-9]*\) times.*/\1/p' graph.err; }
awk -F, 'NR == 1 { print "both," $0; next } { print (NR % 3 ? $2 " " : "") $3 "," $0 }' rows.csv | head -n 4001 | ctr-import -q --format csv --header | ctr-extract -q lists.plan -o some.arrows
for way in "mlp $shape" "mlp $shape --batch-norm" "mlp $shape --activation dice" "dcnv2 $shape" "dlrm $shape" "fm --embedding 8" \
    "two-tower $shape --user-features a --ad-features b,x"; do
    ok "graphs: ${way%% *}${way#* 16,8}" graphs $way --minibatch 300 --passes 3 rows.arrows
done
ok "graphs: lr" graphs lr --minibatch 300 --passes 2 rows.arrows
ok "graphs: lists" graphs mlp $shape --minibatch 300 --passes 2 some.arrows
printf 'label click\ntiny = x * 1e-39\ndense tiny\n' >tiny.plan
ctr-import -q --format csv --header rows.csv | ctr-extract -q tiny.plan -o tiny.arrows
ok "graphs: numbers that are denormal" graphs mlp --hidden 8 --activation relu --minibatch 300 tiny.arrows
ok "graphs: dropout" graphs mlp $shape --dropout .2 --minibatch 300 --passes 2 rows.arrows
for order in copies kernels; do
    CTR_CUDA_ON_HOST_ORDER=$order ok "graphs: $order late" graphs mlp $shape --minibatch 499 --passes 2 --validation few.arrows rows.arrows
done
ok "graphs: validation in a pass, the best model" graphs mlp $shape --minibatch 300 --passes 3 --validation few.arrows --validation-every 3000 rows.arrows
# Of 40 minibatches a pass: two graphs each but for the first ones of a shape.
ok "graphs: most minibatches are two ($(launched))" test "$(launched)" -ge 230
resumed() { # where the input broke off, in the middle of a minibatch
    rm -f c.ckpt
    ! head -c 150000 batch125.arrows | ctr-train mlp $shape -q --device gpu --minibatch 300 --checkpoint c.ckpt -o none.m 2>cut.err && test -s c.ckpt &&
        ctr-train mlp $shape -v --device gpu --minibatch 300 --checkpoint c.ckpt --resume -o resumed.m batch125.arrows 2>graph.err && grep -q 'resum' graph.err &&
        CTR_CUDA_GRAPHS=0 ctr-train mlp $shape -q --device gpu --minibatch 300 -o plain.m batch125.arrows && cmp resumed.m plain.m
}
ok "graphs: a run that is resumed" resumed
# A capture that fails at any of its calls.
uncaptured() {
    CTR_CUDA_ON_HOST_SAYS=1 ctr-train mlp $shape -q --device gpu --minibatch 300 --passes 4 -o whole.m few.arrows 2>graph.err
    _all=$(calls capture graph.err) _i=1
    [ "$_all" -gt 20 ] || return 1
    while [ $_i -le "$_all" ]; do
        CTR_CUDA_ON_HOST_SAYS=1 CTR_CUDA_ON_HOST_FAIL=capture:$_i ctr-train mlp $shape -v --device gpu --minibatch 300 --passes 4 -o part.m few.arrows 2>graph.err &&
            cmp whole.m part.m && grep -q '^CUDA graphs .*; no more: ' graph.err && grep -q '^on host: 0 left' graph.err || { echo "capture:$_i"; cat graph.err; return 1; }
        _i=$((_i + ${SAN:+9} + 1))
    done
}
ok "graphs: no more after a capture that fails, at any call; the same model" uncaptured
CTR_CUDA_ON_HOST_FAIL=capture:20 ok "graphs: the second one is refused" graphs mlp $shape --minibatch 300 --passes 4 few.arrows
is "the first one goes on" "$(grep -c 'graphs  *1, launched 6 times; no more' graph.err)" 1
CTR_PROFILE=1 ok "graphs: with a profile" graphs mlp $shape --minibatch 300 --passes 4 few.arrows
ok "there are none, which is said" grep -q '^CUDA graphs  *0, launched 0 times; no more: .CTR_PROFILE waits for each operation$' graph.err

# ---- the n-th call of each kind fails: exit 1, words that name the device, no file, nothing left, no hang. (Waiting before what is
# done with is freed may fail when all is read already: then the file is whole.)
CTR_CUDA_ON_HOST_SAYS=1 mlp --minibatch 300 --passes 2 -o mlp.arrows few.arrows 2>mlp.calls
CTR_CUDA_ON_HOST_SAYS=1 lr --minibatch 300 --passes 2 -o lr.arrows few.arrows 2>lr.calls
# One thread: whether two of them find work, each with memory of its own, is a matter of chance on a loaded machine.
CTR_CUDA_ON_HOST_SAYS=1 ctr-predict -q -j 1 --device gpu mlp.arrows few.arrows -o predict.arrows 2>predict.calls
predict() { ctr-predict -q -j 1 --device gpu mlp.arrows few.arrows -o none.arrows; }
train_mlp() { mlp --minibatch 300 --passes 2 -o none.arrows few.arrows; }
train_lr() { lr --minibatch 300 --passes 2 -o none.arrows few.arrows; }
fails() { # fails COMMAND CALL:N
    rm -f none.arrows
    CTR_CUDA_ON_HOST_SAYS=1 CTR_CUDA_ON_HOST_FAIL=$2 "$1" 2>failed.err
    _rc=$?
    [ "${2%:*}$_rc" = wait0 ] && cmp none.arrows "${1#train_}.arrows" && return 0
    [ $_rc -eq 1 ] && grep -q '^ctr-.*cuda: its kernels on the host' failed.err && [ ! -e none.arrows ] && [ "$(sed -n 's/^on host: \(.*\) left/\1/p' failed.err)" = 0 ] && return 0
    echo "$1, $2:" && cat failed.err
    return 1
}
every() { # every COMMAND CALL HOW-MANY: so many of them, the first and the last among them
    _all=$(calls "$2" "${1#train_}.calls") _bad=0 _i=0
    while [ $_i -lt "$3" ]; do
        fails "$1" "$2:$((1 + _i * (_all - 1) / ($3 - 1)))" || _bad=1
        _i=$((_i + 1))
    done
    return $_bad
}
tries=${SAN:+3}
for call in malloc copy back launch blas wait create; do
    ok "mlp: a $call that fails" every train_mlp $call "${tries:-6}"
    ok "predict: a $call that fails" every predict $call "${tries:-3}"
    [ $call = blas ] || ok "lr: a $call that fails" every train_lr $call "${tries:-4}"
done
CTR_CUDA_ON_HOST_FAIL=launch:999999 mlp --minibatch 300 --passes 2 -o other.arrows few.arrows
ok "a call that is not reached changes nothing" cmp other.arrows mlp.arrows

# ---- which device, and how it multiplies
two() { CTR_CUDA_ON_HOST_DEVICES=2 CTR_CUDA_DEVICE=$1 mlp --minibatch 300 --passes 2 -j 3 -o second.arrows few.arrows; }
ok "another device" two 1
ok "the same model" cmp second.arrows mlp.arrows
exits "a device that is not there" 1 two 2
err_like "says how many there are" "no GPU '2' .\\\$CTR_CUDA_DEVICE.: the driver finds 2, counted from 0"
exits "no number" 1 two first
CTR_GEMM=tf32 exits "products of tf32" 0 ctr-train mlp -v --device gpu --embedding 8 --hidden 16,8,8 --minibatch 300 -o tf32.arrows few.arrows
err_like "are said" 'products of tf32'
ok "and are others" sh -c '! cmp -s tf32.arrows mlp.arrows'
CTR_GEMM=none exits "unknown products" 2 mlp -o none.arrows few.arrows
err_like "are none of a GPU" "gemm 'none': on a GPU there are 'exact' and 'tf32'"
done_testing
