#!/bin/sh
# ctr-train lr --device gpu --minibatch: the model of the CPU with as large minibatches, to 1e-4 in log-odds; its files are lr's.
# The plug-in's text runs as loops on the host, with memory of its own.
. "${0%/*}/lib.sh"
onhost=$gpu_plugin
[ -f "$onhost" ] || skip_all "the plug-in on the host: there is no c++"
has_python json || skip_all "no python"
export CTR_CUDA_PLUGIN="$onhost"
cd "$W" || exit 1
awk 'BEGIN { srand(7); print "click,a,b,x,c"
    for (i = 0; i < 6000; i++) { a = int(1 / (.0004 + rand())); b = int(2000 * rand())
        print (rand() < .2 + .5 * ((7 * a + b) % 3 == 0)) "," a "," b "," rand() "," i } }' >rows.csv
printf 'label click\nfeature a\nfeature b\nfeature c\ndense x\n' >plan
ctr-import -q --format csv --header rows.csv | ctr-extract -q plan | ctr-cat --batch 77 -o rows.arrows
"$PY" "$CTR_TOP/tests/model_reference.py" make mixed 2500 mixed.arrows || exit 1
cpu() { ctr-train lr --minibatch 200 "$@"; }
gpu() { ctr-train lr --device gpu --minibatch 200 "$@"; }
count() { awk -v name="$1" '$1 " " $2 == name { print $3 }' "$2"; }
not() { ! "$@"; }

# close A B: log-odds of the scores agree to 1e-4.
log_odds() { ctr-export -q --format csv --columns score "$1" | awk 'NR > 1 { printf("%.9f\n", log($1 / (1 - $1))) }'; }
close() {
    log_odds "$1" >a.txt
    log_odds "$2" >b.txt
    paste a.txt b.txt | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; n++ } END { print n " rows, off by " most; exit !(n && most <= 1e-4) }'
}

# ---- the CPU's learner, whatever the rows and the options
for o in '' '--l1 1 --l2 .5 --beta 2' '--no-bias --alpha .3' '--dropout .3 --seed 5' '--normalize l2' '--hash-bits 7' '--passes 3'; do
    for rows in rows mixed; do
        # shellcheck disable=SC2086
        cpu -q $o -o cpu.arrows --progressive cpu.p $rows.arrows && gpu -q $o -o gpu.arrows --progressive gpu.p $rows.arrows
        ok "$rows $o: the same scores before each update" close cpu.p gpu.p
        ctr-predict -q cpu.arrows $rows.arrows -o cpu.q && ctr-predict -q gpu.arrows $rows.arrows -o gpu.q
        ok "$rows $o: and by the models" close cpu.q gpu.q
        is "$rows $o: of the same keys" "$(ctr-select --columns table,key gpu.arrows | ctr-info --digest)" \
            "$(ctr-select --columns table,key cpu.arrows | ctr-info --digest)"
    done
done
cpu -q --minibatch 201 --progressive other.p -o other.arrows rows.arrows
cpu -q -o cpu.arrows --progressive cpu.p rows.arrows
ok "minibatches of other sizes give other scores: the comparison can fail" not close other.p cpu.p

# ---- the same bytes, however rows arrive and whatever the device holds
CTR_WORKING_SET=0 gpu -v -o want.arrows --progressive want.p rows.arrows 2>none.err
ok "a set of no rows is none" not grep -q "^device rows" none.err
for rows in 8 64 1024 ''; do
    CTR_WORKING_SET=$rows gpu -v -j 2 --progressive got.p -o got.arrows rows.arrows 2>"set$rows.err"
    ok "the same model with a set of ${rows:-all} rows" cmp got.arrows want.arrows
    ok "and the same scores" cmp got.p want.p
done
is "the set has the size that was asked for" "$(count 'device rows' set64.err)" 64
ok "a larger set has more hits" test "$(count 'device hits' set1024.err)" -gt "$(count 'device hits' set64.err)"
ok "a small one evicts" test "$(count 'device evictions' set64.err)" -gt 0
for j in 1 4; do
    gpu -q -j $j --progressive got.p -o got.arrows rows.arrows
    ok "-j $j: the same model" cmp got.arrows want.arrows
    ok "-j $j: the same scores" cmp got.p want.p
done
values() { ctr-info --digest "$1"; }
for batch in 1 1000 6000; do
    ctr-cat --batch $batch rows.arrows | gpu -q >got.arrows
    is "batches of $batch rows: the same rows of the model" "$(values got.arrows)" "$(values want.arrows)"
done
CTR_CUDA_ON_HOST_ORDER=copies gpu -q -o got.arrows rows.arrows
ok "copies as late as they may be: the same model" cmp got.arrows want.arrows
CTR_CUDA_ON_HOST_ORDER=kernels gpu -q -o got.arrows rows.arrows
ok "kernels as late as they may be: the same model" cmp got.arrows want.arrows
if gpu_on_host; then
    careless() { CTR_CUDA_ON_HOST_ORDER="copies careless" gpu -q -o got.arrows rows.arrows 2>/dev/null && cmp -s got.arrows want.arrows; }
    ok "an order that is not kept is found" not careless
fi
gpu -v --device-memory 200K -o got.arrows rows.arrows 2>tight.err
ok "200 KiB are enough, where all rows would take more" cmp got.arrows want.arrows
ok "and rows had to go for others" test "$(count 'device evictions' tight.err)" -gt 0
ctr-select --columns x,c,b,a,click rows.arrows | gpu -q -o got.arrows
is "the order of columns does not matter" "$(values got.arrows)" "$(values want.arrows)"

# ---- it stops and goes on
killed() { timeout "$@" ctr-train lr -q --device gpu --minibatch 200 --passes 2 --checkpoint c.ckpt --checkpoint-every 500 --resume \
    --progressive got.p -o got.arrows rows.arrows; }
for set in 0 64 ''; do
    export CTR_WORKING_SET=$set
    gpu -q --passes 2 -o two.arrows --progressive two.p rows.arrows
    killed_runs "a set of ${set:-all} rows: " killed 005 010 020 030 045 060 080 100
    is "a set of ${set:-all} rows: to the model of a run that was never killed" "$(values got.arrows)" "$(values two.arrows)"
    is "a set of ${set:-all} rows: and its scores" "$(log_odds got.p | cksum)" "$(log_odds two.p | cksum)"
done
unset CTR_WORKING_SET
part() { # a checkpoint in the middle of a minibatch: the input breaks off
    rm -f d.ckpt*
    ! head -c 100000 rows.arrows | gpu -q --checkpoint d.ckpt >x.arrows 2>/dev/null && test -s d.ckpt
}
ok "an input that breaks off leaves its checkpoint" part
ok "which predicts on a CPU" sh -c 'ctr-predict -q d.ckpt rows.arrows >/dev/null'
cp d.ckpt e.ckpt
ok "and goes on" gpu -q --resume --checkpoint d.ckpt -o got.arrows rows.arrows
is "to the same model" "$(values got.arrows)" "$(values want.arrows)"
ok "on a CPU, too" cpu -q --resume --checkpoint e.ckpt -o cpu2.arrows rows.arrows
ctr-predict -q cpu2.arrows rows.arrows -o cpu2.q && ctr-predict -q want.arrows rows.arrows -o want.q
ok "to scores as close" close cpu2.q want.q

# ---- from one to the other
for start in cpu want; do
    cpu -q --init $start.arrows -o on-cpu.arrows --progressive on-cpu.p rows.arrows
    gpu -q --init $start.arrows -o on-gpu.arrows --progressive on-gpu.p rows.arrows
    ok "--init of a model of the ${start%want}${start#cpu}: on both the same" close on-cpu.p on-gpu.p
done
ctr-train lr -q -o exact.arrows rows.arrows
ok "a model that went row by row goes on" gpu -q --init exact.arrows --progressive got.p -o got.arrows rows.arrows
cpu -q --init exact.arrows --progressive on-cpu.p -o on-cpu.arrows rows.arrows
ok "as on the CPU" close on-cpu.p got.p
ctr-select -q --columns table,key,weight want.arrows -o bare.arrows
exits "--init without z and n" 1 gpu -q --init bare.arrows -o none.arrows rows.arrows
err_like "is refused" "bare.arrows: the model has no column 'z': it can predict but not learn on"
ctr-train lr -q --optimizer ogd -o ogd.arrows rows.arrows
ctr-train lr -q --power .7 -o power.arrows rows.arrows
exits "--init of another power" 2 gpu -q --init power.arrows -o none.arrows rows.arrows
err_like "is refused" 'learned with --power 0.7, which lr by minibatches does not go on from'
ctr-cat exact.arrows exact.arrows >double.arrows
exits "--init whose rows come twice" 1 gpu -q --init double.arrows -o none.arrows rows.arrows
err_like "the row is named" 'double.arrows: row [0-9]+ of the model: its table and key came before'
exits "--init of another optimizer" 2 gpu -q --init ogd.arrows -o none.arrows rows.arrows
err_like "is refused" 'optimizer ogd .* which lr by minibatches does not go on from'

# ---- what it says
exits "prediction on a GPU" 2 ctr-predict -q --device gpu want.arrows rows.arrows
err_like "is refused" 'lr predicts on the CPU, which looks its keys up: leave it out'
ctr-predict -q --device auto -o auto.q want.arrows rows.arrows && ctr-predict -q -o cpu.q want.arrows rows.arrows
ok "auto takes the CPU" cmp auto.q cpu.q
exits "no --minibatch" 2 ctr-train lr -q --device gpu -o none.arrows rows.arrows
err_like "is a usage error" 'lr learns by minibatches there; say of how many rows: --minibatch ROWS'
for o in '--optimizer ogd' '--learning-rate counts' '--power .6' '--inclusion bloom=3' '--expire 5'; do
    # shellcheck disable=SC2086
    exits "$o" 2 gpu -q $o -o none.arrows rows.arrows
    err_like "is refused" "lr by minibatches takes no $(echo "${o% *}" | sed 's/-/[-]/g')"
done
for p in q2.13 f64; do
    exits "--precision $p" 2 gpu -q --precision $p -o none.arrows rows.arrows
    err_like "is refused" 'by minibatches lr keeps its state as f32: leave --precision out'
done
ok "--precision f32 says what is" gpu -q --precision f32 -o got.arrows rows.arrows
is "and changes nothing" "$(values got.arrows)" "$(values want.arrows)"
exits "--uncertainty" 2 gpu -q --uncertainty --progressive p -o none.arrows rows.arrows
err_like "is refused" 'models of kind lr have no uncertainty by minibatches'
echo 'v --alpha .2' >variants
exits "--variants" 2 gpu -q --variants variants -o 'none-%s.arrows' rows.arrows
err_like "are refused" 'lr by minibatches takes no --variants'
exits "auto with a GPU" 0 ctr-train lr -v --device auto --minibatch 200 -o got.arrows rows.arrows
err_like "takes it" 'device auto: cuda: '
ok "and gives its model" cmp got.arrows want.arrows
exits "auto without --minibatch" 0 ctr-train lr -v --device auto -o got.arrows rows.arrows
err_like "takes the CPU" '^ctr-train: device: cpu'
ok "row by row" cmp got.arrows exact.arrows
exits "auto without a GPU" 0 env CTR_CUDA_PLUGIN="$W/none.so" ctr-train lr -v --device auto --minibatch 200 -o got.arrows rows.arrows
err_like "says why it takes the CPU" 'device auto: the CPU, because no GPU: the plug-in cannot be opened'
is "with the CPU's model" "$(values got.arrows)" "$(values cpu.arrows)"
for why in PLUGIN=/none.so $(gpu_on_host && echo ON_HOST_DEVICES=0 ON_HOST_DRIVER=0); do
    exits "no GPU: $why" 1 env "CTR_CUDA_$why" ctr-train lr -q --device gpu --minibatch 200 -o none.arrows rows.arrows
    err_like "no silent fall-back" 'no GPU: '
done
exits "memory that does not suffice" 1 gpu -q --device-memory 4K -o none.arrows rows.arrows
err_like "says what is needed" 'more are needed beside .*, and --device-memory allows 4 KiB|bytes of scratch are needed'
exits "a table larger than --memory" 1 gpu -q --memory 4K -o none.arrows rows.arrows
err_like "says what helps" 'need .* to go on, --memory allows 4 KiB: raise it, .*drop rare values'
awk -F, -v OFS=, 'NR == 2501 { $1 = 1; $4 = "1e30" } { print }' rows.csv >late.csv
ctr-import -q --format csv --header late.csv | ctr-extract -q plan | ctr-cat --batch 77 -o late.arrows
exits "a learner that diverges" 1 gpu -q --checkpoint n.ckpt --checkpoint-every 70 -o none.arrows late.arrows
err_like "names the row" 'late.arrows: row 2[5-7][0-9][0-9]: the prediction is not a number: the learner diverged; scale numbers down, or lower --alpha'
ok "its last good checkpoint predicts" sh -c 'ctr-predict -q n.ckpt rows.arrows >/dev/null'
ok "nothing is written for what failed" test ! -e none.arrows

# ---- validation
gpu -v --validation rows.arrows --passes 3 -o got.arrows rows.arrows 2>valid.err
is "a loss for each pass" "$(grep -c 'validation log loss' valid.err)" 3
gpu --validation rows.arrows -o got0.arrows rows.arrows 2>valid.err
is "that of its model's predictions" "$(sed -n 's/.*validation log loss \([0-9.]*\),.*/\1/p' valid.err)" \
    "$(ctr-predict -q got0.arrows rows.arrows | ctr-eval -q --metrics log_loss | awk 'END { print $NF }')"
CTR_WORKING_SET=0 gpu -q --validation rows.arrows --passes 3 -o got0.arrows rows.arrows
ok "which does not depend on the set" cmp got.arrows got0.arrows
done_testing
