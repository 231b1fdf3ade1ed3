#!/bin/sh
# mpirun -n R ctr-train dicm, two-tower --images: images have owners (--images-at ams, server) or none (worker). One model from all three, that of a
# plain version of the paper's Algorithm 1, whose counts are those that the summary prints.
. "${0%/*}/lib.sh"
. "${0%/*}/ranks.sh"
export PY
cd "$W" || exit 1

# 60 images of 6 numbers, of which rows name 1 to 6
awk 'BEGIN { srand(5); for (i = 0; i < 60; i++) { printf "{\"key\": \"p%02d\", \"vector\": [", i >"images.jsonl"
        for (k = 0; k < 6; k++) printf "%s%.3f", k ? ", " : "", (i % 3 == k % 3) + rand() - .5 >"images.jsonl"
        print "]}" >"images.jsonl" }
    print "click,item,photo,past,x" >"rows.csv"
    for (r = 0; r < 1500; r++) { a = int(60 * rand() * rand()); past = ""; same = 0; n = int(6 * rand())
        for (k = 0; k < n; k++) { b = int(60 * rand() * rand()); past = past (k ? " " : "") sprintf("p%02d", b); same += a % 3 == b % 3 }
        print (rand() < (same ? .7 : .2)) "," int(40 * rand()) "," (r % 19 ? sprintf("p%02d", a) : "") "," past "," rand() >"rows.csv" } }'
ctr-import -q -f jsonl images.jsonl -o images.arrows
ctr-sort -q -k key images.arrows | ctr-cat -q --batch 7 --to file --key key -o images.arrow
printf 'label click\nfeature item\ndense x\nimage photo\nimage seen in photo of photo = split(past, " ")\n' >plan
rows() { # rows CONDITION
    awk "NR == 1 || ($1)" rows.csv | ctr-import -q --format csv --header - | ctr-extract -q plan
}
rows 1 >rows.arrows
rows 'int((NR - 2) / 50) % 2 == 0' >even.arrows
rows 'int((NR - 2) / 50) % 2 == 1' >odd.arrows
ctr-cat -q --to file --batch 111 -o rows.arrow rows.arrows
dicm="--images images.arrow --embedding 3 --hidden 6 --images-tower 5,4 --rate .01 --minibatch"
towers="--images images.arrow --user-features seen,item --ad-features photo,x --embedding 3 --hidden 6 --images-tower 5 --rate .01 --minibatch"
scores() { ctr-predict -q --images images.arrow "$1" rows.arrows | ctr-export -q --format csv -c score >"$1.csv"; }
near() { # near A B WITHIN : scores of two models
    scores "$1" && scores "$2" && paste -d, "$1.csv" "$2.csv" | awk -F, -v most="$3" 'NR > 1 { e = $1 - $2; if (e < 0) e = -e; if (e > d) d = e }
        END { print NR - 1 " rows, difference " d; exit !(NR == 1501 && d < most) }'
}

# ---- one rank
for model in "dicm $dicm" "two-tower $towers"; do
    name=${model%% *}
    # shellcheck disable=SC2086
    ctr-train $model 50 -q -o one.m rows.arrows && run 1 ctr-train $model 50 -q -o got.m rows.arrows
    ok "$name: one rank: the bytes of no mpirun" cmp got.m one.m
    # shellcheck disable=SC2086
    ctr-train $model 100 -q -o all.m rows.arrows
    for at in ams worker server; do
        # shellcheck disable=SC2086
        run 2 ctr-train $model 50 -q --images-at $at -o $at.m even.arrows odd.arrows
        ok "$name at $at: 2 ranks learn from minibatches of both" near $at.m all.m 1e-5
    done
    ok "$name: the same bits at worker and server" "$PY" "$CTR_TOP/tests/deep_reference.py" same worker.m server.m 0
    ok 'the comparison can fail' eval '! near one.m all.m 1e-3'
done

# ---- the same bits
for at in ams server; do
    # shellcheck disable=SC2086
    run 3 ctr-train dicm -q -j 1 --passes 2 --images-pool attentive --images-at $at $dicm 50 -o a.m rows.arrow &&
        run 3 ctr-train dicm -q -j 3 --batch 17 --passes 2 --images-pool attentive --images-at $at $dicm 50 -o b.m rows.arrow
    ok "3 ranks at $at, any -j and batches" cmp a.m b.m
done
# shellcheck disable=SC2086
run 2 ctr-train dicm -q --images-scale standard --batch-norm $dicm 50 -o two.m rows.arrow && ctr-train dicm -q --images-scale standard $dicm 50 -o one.m rows.arrows
ok '--images-scale: statistics of the file stay as they are' sh -c '"$PY" -c "
import sys; sys.path.insert(0, \"$CTR_TOP/tests\")
from deep_reference import tensors
a, b = tensors(\"one.m\"), tensors(\"two.m\")
assert all(a[n] == b[n] for n in (\"dicm.image.mean\", \"dicm.image.scale\"))"'
ctr-select -q --head 0 -o none.arrows rows.arrows
# shellcheck disable=SC2086
for at in ams worker server; do
    run 2 ctr-train dicm -q --images-at $at $dicm 50 -o empty.m none.arrows rows.arrows
    ok "at $at: a rank without rows has images of others" near empty.m "$(ctr-train dicm -q $dicm 50 -o alone.m rows.arrows && echo alone.m)" 1e-5
done

# ---- a plain version, and counts
if has_python numpy pyarrow; then
    printf 'image photo = key\nkeep vector\n' >images.plan
    ctr-extract -q images.plan -o keys.arrows images.arrows
    # no nulls: the zeros of one lie on the kink of the activation
    printf 'label click\nfeature item\ndense x\nimage photo = fill(photo, "p00")\nimage seen in photo of photo = split(fill(past, "p01"), " ")\n' >plan
    rows 'NR < 400 && int((NR - 2) / 50) % 2 == 0' >a.arrows
    rows 'NR < 300 && int((NR - 2) / 50) % 2 == 1' >b.arrows
    ctr-select -q --head 0 -o none.arrows a.arrows
    for ranks in 2 3; do
        [ $ranks = 2 ] && set -- a.arrows b.arrows || set -- a.arrows b.arrows none.arrows
        rm -f got.m
        # shellcheck disable=SC2086
        run $ranks ctr-train dicm --base lr $dicm 50 -o got.m "$@" 2>said && ctr-cat -q a.arrows b.arrows | ctr-train dicm -q --base lr $dicm 50 --rate 1e-35 -o start.m
        ok "$ranks ranks: the values of a plain version" sh -c '"$PY" "$0"/tests/ams_reference.py keys.arrows start.m got.m 50 .01 "$@" >counts' "$CTR_TOP" "$@"
        ok "$ranks ranks: its counts" awk -v ranks=$ranks 'NR == FNR { for (i = 1; i < NF; i += 2) n[$i] = $(i + 1); next }
            function near(a, b) { return a - b < .06 && b - a < .06 }
            /^steps/ { good += $2 == n["steps"] && $4 == ranks && near($10, n["ids"] / n["steps"]) && near($13, n["images"] / n["steps"]) }
            /^images embedded/ { good += $3 == n["forwards"] && $5 == n["images"] && $8 == n["images"] - n["forwards"] }
            /^ids |^vectors  |^gradients|^image / { good += near($(NF - 2), $(NF - 1)) && $(NF - 1) > 0 }
            /^tower gradients|^dense gradients/ { good += near($(NF - 2), $(NF - 1)) && $(NF - 1) > 0 }
            END { if (good != 10) print good " of 10"; exit good != 10 }' counts said
    done
fi

# ---- checkpoints, and those that read the model
# shellcheck disable=SC2086
long() { run 2 ctr-train dicm -q --passes 8 $dicm 50 "$@" rows.arrow; }
long -o want.m
rm -f c.ckpt
# shellcheck disable=SC2086
mpirun --oversubscribe -q -n 2 ctr-train dicm -q --passes 8 $dicm 50 --checkpoint c.ckpt --checkpoint-every 2000 -o got.m rows.arrow 2>/dev/null &
job=$!
until_true test -s c.ckpt
kill -KILL "$(ps -eo pid=,ppid=,comm= | awk -v p=$job '$2 == p && $3 ~ /^ctr-train/ { print $1 }' | head -n 1)" 2>/dev/null
wait $job
long --checkpoint c.ckpt --resume -o got.m
ok 'a run that was killed goes on to the same model' cmp got.m want.m
ok 'ctr-embed-images --tower' ctr-embed-images -q --tower got.m --vectors -o values.arrow images.arrow
scores got.m
ctr-predict -q --images values.arrow got.m rows.arrows | ctr-export -q --format csv -c score >values.csv
ok 'and its values predict the same' cmp values.csv got.m.csv
ctr-select -q --section 'emb.*' --head 0 -o noids.m got.m
# shellcheck disable=SC2086
ok 'a partial warm start of ranks' run 2 ctr-train dicm --init noids.m --init-partial $dicm 50 -o warm.m rows.arrow 2>said

# ---- the table of examples/ams.md, at a small scale, and what MPI itself counts
small() { OUT=$W/ams D=64 IMAGES=500 MINIBATCH=50 STEPS=3 TIMES= "$CTR_TOP/examples/ams.sh" >table; }
ok 'ams.sh: formulas and counts agree within 1%' small
ok 'at the sizes of the paper' sh -c 'for n in 157.5 29.3 128.2 5,128 13.1 154.6; do grep -q "| $n |" table || { echo "no $n"; exit 1; }; done'
ok 'storage: images that are used 31 times' grep -Eq '^. storage .*[|] 31 times [|] 31 times [|] 3[01][.][0-9]* times [|] 3[01][.][0-9] times ' table
sed '/^vectors, gradients/s/ 26[0-9]\.[0-9]/ 300.0/g' ams/ams/ams.txt >off.txt
off() { "$PY" "$CTR_TOP/examples/ams.py" table 64 off.txt ams/ams/worker.txt ams/ams/server.txt >/dev/null; }
exits 'a count that is off: status 3' 3 off
ok 'the model at worker and server: the same scores' cmp ams/ams/worker.csv ams/ams/server.csv
ok 'at ams: within 1e-5' sh -c 'paste -d, ams/ams/ams.csv ams/ams/worker.csv | awk -F, "NR > 1 { e = \$1 - \$2; d = e > d ? e : -e > d ? -e : d } END { exit !(NR > 100 && d < 1e-5) }"'
monitored() { # bytes that rank 0 sent to rank 1, as Open MPI's monitoring has them, beside the half of what the summary says
    (cd ams/ams && env -u OMPI_MCA_pml timeout 60 mpirun --oversubscribe -q -n 2 --mca pml_monitoring_enable 1 --mca pml_monitoring_enable_output 1 ctr-train dicm \
        --images images.64.500.arrow --seed 1 -j 1 --minibatch 50 -o m.model part-0.arrows part-1.arrows 2>&1) >monitor.txt
    grep -q '^E.0.1.' monitor.txt || return 77
    awk '/^E\t0\t1\t/ { mpi = $4 } /^steps/ { steps = $2 } /^[a-z].* [0-9.]+ +[0-9.]+ *$/ && !/^vectors, gradients|^progressive|^mean/ { ours += $NF }
        END { ours *= steps * 1024 / 2; print "MPI " mpi ", summary " ours; exit !(mpi > 1e5 && mpi < 1.02 * ours && mpi > .98 * ours) }' monitor.txt
}
if ompi_info 2>/dev/null | grep -q 'pml: monitoring'; then
    ok 'Open MPI counts the bytes that the summary says' monitored
fi

# ---- what is refused
ctr-select -q --where 'key != "p07"' -o fewer.arrows images.arrows
# shellcheck disable=SC2086
timeout 60 mpirun --oversubscribe -q -n 1 ctr-train dicm -q $dicm 50 -o no.m even.arrows odd.arrows : \
    -n 1 ctr-train dicm -q $dicm 50 --images fewer.arrows -o no.m even.arrows odd.arrows 2>err
is 'other images: the status' $? 2
ok 'other images: why' grep -q 'ranks differ: rank 0 has 60 images of 6 numbers.*rank 1 has 59 images.*give all of them one file of --images' err
# shellcheck disable=SC2086
run 2 ctr-train dicm -q $dicm 50 --images fewer.arrows -o no.m even.arrows odd.arrows 2>err
is 'an image that is missing: the status' $? 1
ok 'an image that is missing: why' grep -q 'row [0-9]*: image #[0-9a-f]* of column .* is not in fewer.arrows' err
done_testing
