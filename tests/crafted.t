#!/bin/sh
# Keys made to share one slot of a table by its hash: every table takes them as it takes any others. What was made for
# the hashes without a secret took a minute in each (80,000 keys, quadratic); here it has seconds.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
has_python json || skip_all "no python"
N=${SAN:+20000}
N=${N:-100000}
# keys HOW : inverses of mix64(key ^ salt): the upper half of the hash is alike (tables of models), or its lower bits (joins), or those of
# the hash of the hash (sets of users and queries).
keys() {
    "$PY" - "$N" "$1" <<'PYTHON'
import sys
M = (1 << 64) - 1
def unmix(h):
    for _ in range(2):
        h ^= h >> 32
        h = h * 0xcfee444d8b59a89b & M
    return h ^ h >> 32
n, how = int(sys.argv[1]), sys.argv[2]
for i in range(1, n + 1):
    if how == "lists":
        print(f"{i % 3 == 0:d} 1:1 2:1 {i + 2}:1 {unmix(0x1f67b3b7a4a4406e) ^ 0x2545f4914f6cdd1d}:1")
        continue
    if how == "model":
        k = unmix(0x1234 << 48 | i) ^ 0x2545f4914f6cdd1d
    elif how == "join":
        k = unmix((i & 0xffff) << 48 | i >> 16 << 44 | 5) ^ 0x6a6f696e
    else:
        k = unmix(unmix(i << 32 | 5))
    if how == "model":
        print(f"{i % 3 == 0:d} {k}:1")
    else:
        print(f"{i % 3 == 0:d},{i / n:.5f},{k - (1 << 64) if k >> 63 else k}")
PYTHON
}
soon() { timeout 10 "$@"; }
for how in join set; do
    keys $how | ctr-import -f csv --columns y:float64,s:float64,k:int64 --label y -o $how.arrows
done
ctr-select --columns k,v=s join.arrows >right.arrows
ok 'ctr-join' soon ctr-join -k k -o o.arrows right.arrows join.arrows
ok 'ctr-join in little memory' soon ctr-join -k k --memory 2M -o o2.arrows right.arrows join.arrows
ok 'the same rows' same_rows o.arrows o2.arrows
is 'the keys all differ' "$(ctr-info o.arrows | sed -n 's/^rows: //p')" $N
ok 'queries of ctr-sample' soon ctr-sample --query k --share .5 -o o.arrows set.arrows
ok 'users of GAUC' soon ctr-eval -q --user k --score s --metrics gauc set.arrows
ok 'slices' soon ctr-eval -q --by k --score s --metrics log_loss --slices 5 set.arrows
ok 'slices of calibration' soon ctr-calibrate -q --fit isotonic --by k --score s -o map.arrows set.arrows
keys model | ctr-import -f libsvm --keys key -o model.arrows
ok 'ctr-train lr' soon ctr-train lr -q -o m.arrows model.arrows
ok 'ctr-predict' soon ctr-predict -o o.arrows m.arrows model.arrows
ok 'the keys all differ' test "$(ctr-info m.arrows | sed -n 's/^rows: //p')" -ge $N
ok 'ctr-train mlp' soon ctr-train mlp -q -o d.arrows model.arrows
# Lists whose last key is zero in the last product of XXH3-64 with their length as the seed, so that the key before it does not count.
keys lists | ctr-import -f libsvm --keys key -o lists.arrows
ok 'lists of a minibatch' soon ctr-train mlp -q --embedding 1 --hidden 1 --minibatch 65536 -o l.arrows lists.arrows
done_testing
