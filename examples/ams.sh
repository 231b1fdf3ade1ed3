#!/bin/sh
# Training over ranks with images, after table 2 of "Image Matters" (Ge et al., CIKM 2018): what AMS, PS-worker and PS-server send in a step,
# counted in a run at a hundredth of the paper's size and beside the formulas; then table 1, how the time falls with ranks (ams.md).
# OUT= chooses the folder, D= the numbers of an image, IMAGES= their number, RANKS=, MINIBATCH= rows of a rank in a step, STEPS=;
# TIMES='' leaves table 1 out, else it has the ranks to time, ROWS= rows of a step of all of them, TRIES= runs of each, of which the fastest counts.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$here/out}
D=${D:-4096} IMAGES=${IMAGES:-16000} RANKS=${RANKS:-2} MINIBATCH=${MINIBATCH:-300} STEPS=${STEPS:-4}
mkdir -p "$OUT/ams"
cd "$OUT/ams"
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none

# A row names 24 distinct IDs of a million and 6 images.
rows() { # rows NUMBER SEED
    awk -v n="$1" -v seed="$2" -v images="$IMAGES" 'BEGIN { srand(seed); print "row,click,user,ids,ad,photo,seen"
        for (r = 0; r < n; r++) { ids = seen = ""
            for (k = 0; k < 22; k++) ids = ids (k ? " " : "") int(1e6 * rand())
            for (k = 0; k < 5; k++) seen = seen (k ? " " : "") int(images * rand())
            print r "," (rand() < .3) "," int(1e6 * rand()) "," ids "," int(1e6 * rand()) "," int(images * rand()) "," seen } }' |
        ctr-import -q -f csv --header - | ctr-extract -q rows.plan
}
cat >rows.plan <<'END'
label click
feature user
feature ids = split(ids, " ")
feature ad
image photo
image seen in photo of photo = split(seen, " ")
END
if [ ! -e "images.$D.$IMAGES.arrow" ]; then
    python3 "$here/ams.py" vectors "$IMAGES" "$D" vectors.npy
    awk -v n="$IMAGES" 'BEGIN { print "key"; for (i = 0; i < n; i++) printf "%08d\n", i }' | ctr-import -q -f csv --header --columns key:utf8 - -o keys.arrows
    ctr-import -q vectors.npy | ctr-select -q --columns vector=value | ctr-join -q --by-row keys.arrows |
        ctr-select -q --add 'name=concat(int(key))' | ctr-select -q --columns name,vector | ctr-sort -q -k name |
        ctr-cat -q --batch 64 --to file --key name -o "images.$D.$IMAGES.arrow"
    rm -f vectors.npy keys.arrows
fi
model="dicm --images images.$D.$IMAGES.arrow --seed 1"

# ---- table 2
rank=0
while [ "$rank" -lt "$RANKS" ]; do
    rows $((MINIBATCH * STEPS)) "$rank" >"part-$rank.arrows"
    rank=$((rank + 1))
done
for at in ams worker server; do
    # shellcheck disable=SC2086
    mpirun --oversubscribe -q -n "$RANKS" ctr-train $model -j 1 --minibatch "$MINIBATCH" --images-at $at -o $at.model part-[0-9]*.arrows 2>$at.txt
    # shellcheck disable=SC2046
    ctr-predict -q --images "images.$D.$IMAGES.arrow" $at.model $(ls part-[0-9]*.arrows) | ctr-export -q -f csv -c score >$at.csv
done
# as many rows, whose images are used 31 times
used=$((RANKS * MINIBATCH * STEPS * 6 / 31))
rank=0
while [ "$rank" -lt "$RANKS" ]; do
    (IMAGES=$used && rows $((MINIBATCH * STEPS)) "$rank" >"often-$rank.arrows")
    rank=$((rank + 1))
done
# shellcheck disable=SC2086
mpirun --oversubscribe -q -n "$RANKS" ctr-train $model -j 1 --minibatch "$MINIBATCH" -o stored.model often-[0-9]*.arrows 2>stored.txt
python3 "$here/ams.py" table "$D" ams.txt worker.txt server.txt stored.txt often-[0-9]*.arrows

# ---- table 1
[ -n "${TIMES-2,4}" ] || exit 0
bench=${BENCH_COMM:-$here/../build/opt/bench/bench-comm}
[ -x "$bench" ] || make -s -C "$here/.." build/opt/bench/bench-comm
echo 'keep row' >>rows.plan
rows $((12 * ${ROWS:-4800})) 7 >times.arrows
echo
# shellcheck disable=SC2086
ROWS=${ROWS:-4800} python3 "$here/ams.py" times "${TRIES:-3}" "${TIMES-2,4}" "$bench" curve.svg $model
