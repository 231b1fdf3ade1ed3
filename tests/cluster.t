#!/bin/sh
# examples/cluster: days to a model by make, GNU parallel, Snakemake, Slurm, and through an object store. Each gives the bytes of one machine by hand; a broken
# day ends the run with no model; the next run does only what is left. Schedulers that are not installed are skipped.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the filters are tried by their own tests'
X=$CTR_TOP/examples/cluster
mkdir "$W/w" && cd "$W/w" || exit 1
mkdir logs want && printf 'label click\nfeature user\nfeature ad\nfeature hour in h = hour\n' >ads.plan
for day in 01 02 03 04; do
    awk -v seed="$day" 'BEGIN { srand(seed); print "click,user,ad,hour"; for (i = 0; i < 400; i++) printf "%d,u%d,a%d,%d\n", rand() < .2, rand() * 50, rand() * 9, rand() * 24 }' \
        >"logs/2026-11-$day.csv"
    ctr-import -q --header "logs/2026-11-$day.csv" | ctr-extract -q ads.plan -o "want/2026-11-$day.arrows"
done
ctr-train lr -q -o want/model want/*.arrows

is_whole() { # is_whole OUT: all that one machine makes, and nothing else
    for _f in "$1"/*.arrows "$1/model"; do
        [ "$(ctr-info --digest "$_f")" = "$(ctr-info --digest "want/${_f##*/}")" ] || { echo "$_f differs"; return 1; }
    done
    [ "$(ls "$1"/*.arrows | wc -l)" = 4 ]
}
# tried NAME COMMAND…: COMMAND with LOGS, PLAN, OUT in the environment, on a good folder twice, then with a broken day, then mended.
tried() {
    _n=$1
    shift
    rm -rf out && mkdir out && cp -r logs "$_n.logs" && export LOGS="$_n.logs" PLAN=ads.plan OUT=out
    ok "$_n: runs" "$@"
    ok "$_n: as by hand" is_whole out
    touch -d '2 hours ago' "$_n.logs"/*.csv ads.plan
    touch -d '1 hour ago' out/*.arrows && touch out/2026-11-04.arrows -d '3 hours ago'
    printf '1,u1,a1,2,surplus\n' >>"$_n.logs/2026-11-04.csv" && touch -d '2 hours ago' "$_n.logs/2026-11-04.csv"
    rm -f out/model out/2026-11-04.arrows
    exits "$_n: a broken day fails" "${FAILS:-1}" "$@"
    ok "$_n: and says which" grep -q '2026-11-04' out.log
    ok "$_n: no model, no features of that day" test ! -e out/model -a ! -e out/2026-11-04.arrows
    _old=$(stat -c %Y out/2026-11-01.arrows)
    cp logs/2026-11-04.csv "$_n.logs/" && touch -d '2 hours ago' "$_n.logs/2026-11-04.csv"
    ok "$_n: goes on when it is mended" "$@"
    ok "$_n: to the same" is_whole out
    is "$_n: days that were done are not made again" "$(stat -c %Y out/2026-11-01.arrows)" "$_old"
}
said() { "$@" >out.log 2>&1 || { _rc=$?; cat out.log; return "$_rc"; }; }

FAILS=2 tried make said make -s -f "$X/days.mk" -j 2 LOGS=make.logs PLAN=ads.plan OUT=out

if parallel --version 2>/dev/null | grep -q '^GNU parallel'; then
    FAILS=1 tried parallel said "$X/parallel.sh" --will-cite -j 2
else
    skip 'GNU parallel' 'not installed'
fi

snake=$(command -v snakemake || echo "$(dirname "$PY")/snakemake")
if [ -x "$snake" ]; then
    snakes() { HOME=$W said "$snake" -q -s "$X/Snakefile" -d "$PWD" -j 2 --config logs="$PWD/$LOGS" plan="$PWD/ads.plan" out="$PWD/out"; }
    FAILS=1 tried snakemake snakes
else
    skip Snakemake 'not installed'
fi

# ---- an object store: a folder behind a command, which breaks as networks do ----
mkdir store
for f in logs/*.csv; do gzip -c "$f" >"store/${f##*/}.gz"; done
cat >get <<'END'
#!/bin/sh
# An object by name; GET_CUT=N breaks after N bytes, with a status of its own.
[ -z "${GET_CUT:-}" ] || { head -c "$GET_CUT" "store/$1"; exit "${GET_STATUS:-1}"; }
cat "store/$1"
END
chmod +x get
stored() { GET="${GET:-./get {\}}" PUT="${PUT:-cat >store/{\}}" PLAN=ads.plan "$X/store.sh" "$@"; }
ok 'store: runs' stored 2026-11-01 2026-11-02
is 'store: as by hand' "$(ctr-info --digest store/2026-11-02.arrows)" "$(ctr-info --digest want/2026-11-02.arrows)"
rm -f store/*.arrows
for cut in 0 10 500; do
    GET_CUT=$cut exits "store: cut after $cut bytes" 1 stored 2026-11-01
    GET_CUT=$cut GET_STATUS=0 exits "store: cut after $cut bytes, and nothing said" 1 stored 2026-11-01
done
gzip -dc store/2026-11-03.csv.gz >store/plain && mv store/plain store/2026-11-03.csv.gz
GET_CUT=5000 exits 'store: a text that is not packed, cut after a row' 1 stored 2026-11-03
ok 'store: nothing was put' test ! -e store/2026-11-01.arrows -a ! -e store/2026-11-03.arrows
PUT='head -c 3000 >store/{}' exits 'store: an object that is put in part' 0 stored 2026-11-01
exits 'store: is refused' 1 ctr-train lr -q -o m store/2026-11-01.arrows
err_like 'store: by its end mark' '2026-11-01.arrows: truncated'

# ---- Kafka: the broker that kcat's library imitates in a producer, for as long as its input is open ----
if command -v kcat >/dev/null; then
    ctr-import -q --header logs/2026-11-01.csv | ctr-export -q -f jsonl >rows.jsonl
    mkfifo open
    kcat -P -b none -X test.mock.num.brokers=1 -d mock -t clicks -p 0 <open 2>broker &
    exec 9>open
    cat rows.jsonl >&9
    until_true grep -q 'bootstrap.servers=' broker
    at=$(sed -n 's/.*bootstrap.servers=//p' broker)
    consumed() { timeout 60 kcat -q -b "$at" -C -t clicks -p 0 -o 100 -c 200 | ctr-import -q -f jsonl | ctr-info --digest; }
    first=$(consumed)
    is 'Kafka: a range of offsets' "$first" "$(sed -n 101,300p rows.jsonl | ctr-import -q -f jsonl | ctr-info --digest)"
    is 'Kafka: the same rows again' "$(consumed)" "$first"
    exec 9>&-
    wait
else
    skip Kafka 'no kcat'
fi

# ---- Spark's shuffles: the rows of one machine ----
if "$PY" -c 'import pyspark, pyarrow' 2>/dev/null; then
    mkdir -p views/impressions views/clicks
    awk 'BEGIN { srand(3); print "id,user,ad,time"; for (i = 0; i < 3000; i++) printf "%d,%d,%d,%d\n", i, rand() * 60, rand() * 20, 1700000000 + i * 37 % 90000 }' |
        ctr-import -q -f csv --header --time time:unix --columns id:int64,user:int64,ad:int64,time:timestamp | ctr-select --add 'at = time + 0s' |
        ctr-select --columns id,user,ad,time=at -o views/i.arrows # without a role, which would not come through Spark
    ctr-select --where 'id % 7 == 3' --add 'click_time = time + 5s' views/i.arrows | ctr-select --columns id,click_time -o views/c.arrows
    ctr-export -q -f parquet -o views/impressions/1.parquet views/i.arrows && ctr-export -q -f parquet -o views/clicks/1.parquet views/c.arrows
    shuffled() {
        PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$CTR_TOP/src/python PYSPARK_PYTHON=$PY PYSPARK_SUBMIT_ARGS='--master local[2] --conf spark.ui.enabled=false pyspark-shell' \
            "$PY" "$X/shuffle.py" views/impressions views/clicks spark 3
    }
    ok 'Spark: joins, histories and groups' shuffled
    ok 'one machine' "$X/shuffle.sh" views/impressions views/clicks one
    is 'Spark: the digests of one machine' "$("$X/shuffle.sh" --digest spark)" "$("$X/shuffle.sh" --digest one)"
    is 'of a join, and histories that are not empty' "$(ctr-select --where 'click and length(history.ad) > 2' one/rows.arrows | ctr-info - | grep -c '^rows: [1-9]')" 1
    ctr-select --head 1 one/rows.arrows | ctr-export -q -f parquet -o one/rows.parquet/more.parquet
    ok 'which a row more changes' test "$("$X/shuffle.sh" --digest spark)" != "$("$X/shuffle.sh" --digest one)"
else
    skip "Spark's shuffles" 'no pyspark'
fi

# ---- Slurm: a controller and one node of our own ----
slurm_up() {
    _id=$(id -u) _s=$W/slurm _host=$(hostname -s)
    mkdir -p "$_s/spool" "$_s/state" && chmod 755 "$W" "$_s" && dd if=/dev/urandom of="$_s/key" bs=128 count=1 2>/dev/null && chmod 600 "$_s/key" || return 1
    munged --force --key-file="$_s/key" --socket="$_s/munge" --pid-file="$_s/munged.pid" --log-file="$_s/munged.log" --seed-file="$_s/seed" || return 1
    cat >"$_s/slurm.conf" <<END
ClusterName=one
SlurmctldHost=$_host(127.0.0.1)
SlurmctldPort=$1
SlurmdPort=$(($1 + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$_s/munge
CredType=cred/munge
StateSaveLocation=$_s/state
SlurmdSpoolDir=$_s/spool
SlurmctldPidFile=$_s/slurmctld.pid
SlurmdPidFile=$_s/slurmd.pid
SlurmctldLogFile=$_s/slurmctld.log
SlurmdLogFile=$_s/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=pmix
SwitchType=switch/none
MinJobAge=300
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
NodeName=$_host NodeAddr=127.0.0.1 CPUs=4 CoresPerSocket=4
PartitionName=all Nodes=$_host Default=YES MaxTime=INFINITE State=UP
END
    export SLURM_CONF="$_s/slurm.conf"
    slurmctld -f "$SLURM_CONF" && slurmd -f "$SLURM_CONF" && until_true sh -c 'sinfo -h -o %t | grep -qx idle'
}
slurm_down() {
    for _p in slurmd slurmctld munged; do
        [ ! -f "$W/slurm/$_p.pid" ] || { _pid=$(cat "$W/slurm/$_p.pid") && kill "$_pid" 2>/dev/null && tail --pid="$_pid" -f /dev/null; }
    done
}
arrays() { # a job array, then the model on this machine
    rm -f array.log.* && ls "$PWD/$LOGS"/*.csv >days
    sbatch --wait -Q --array="1-$(wc -l <days)" -o "$PWD/array.log.%a" -D "$PWD" --export="ALL,DAYS=days,HERE=$X" "$X/array.sbatch" && ctr-train lr -q -o out/model out/*.arrows
    _rc=$?
    cat array.log.* >out.log
    return "$_rc"
}
# shellcheck disable=SC2086
trains() { # NAME PASSES: train.sbatch in the folder NAME
    mkdir -p "$1" && cp want/*.arrows "$1/" && sbatch ${3:-} -Q --parsable -o "$PWD/$1.log" -D "$PWD" --export="ALL,OUT=$1,PASSES=$2,EVERY=400" "$X/train.sbatch"
}
if [ "$(id -u)" != 0 ] || ! command -v munged >/dev/null || ! command -v slurmctld >/dev/null || ! command -v slurmd >/dev/null; then
    skip Slurm 'not installed, or not root'
else
    trap 'slurm_down; rm -rf "$W"' EXIT
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_pml=ob1
    if slurm_up "$((20000 + $$ % 10000))"; then
        FAILS=1 tried slurm arrays
        if [ -f "$CTR_BUILD/lib/ctr/ctr-mpi.so" ] && command -v mpirun >/dev/null; then
            ok 'slurm: two tasks learn one model' trains two 3 --wait
            mpirun --oversubscribe -n 2 ctr-train mlp -q --minibatch 100 --passes 3 -o by-hand want/*.arrows
            ok 'slurm: that of mpirun' cmp two/model by-hand
            # A job that is put back while it runs goes on from its checkpoint.
            job=$(trains again 300)
            if until_true test -s again/run.ckpt; then
                ok 'slurm: a job is put back' scontrol requeue "$job"
                ok 'slurm: and comes to its end' until_true test -s again/model
                mpirun --oversubscribe -n 2 ctr-train mlp -q --minibatch 100 --passes 300 -o by-hand want/*.arrows
                ok 'slurm: to the model of a run that never stopped' cmp again/model by-hand
            else
                ok 'slurm: a checkpoint comes' sh -c 'cat again.log; squeue; false'
            fi
        fi
    else
        ok 'Slurm starts here' sh -c "cat '$W'/slurm/*.log; false"
    fi
fi
done_testing
