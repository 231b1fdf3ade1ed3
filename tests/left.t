#!/bin/sh
# What a plan's extraction leaves in the device's memory for a learner there (ctr_batch_source_leave): hashes of keys, of the
# items of lists, and numbers, with the bits of the CPU. On the stand-in for a GPU; tests/fused-device.t has the learners.
. "${0%/*}/lib.sh"
gpu_driver
export XDG_CACHE_HOME="$W/cache" CTR_CUDA_ON_HOST_THREADS=16 CTR_CUDA_ON_HOST_CXXFLAGS=-O0
[ -z "$SAN" ] || export CTR_CUDA_ON_HOST_CXXFLAGS="-O0 -fsanitize=address,undefined -fsanitize-undefined-trap-on-error -fno-sanitize=vptr"
cd "$W" || exit 1

awk 'BEGIN { srand(7); for (i = 0; i < 3000; i++) {
    printf "{\"click\":%d,\"a\":%s,\"b\":%s,\"c\":%d,\"price\":%s,\"ratio\":%s,", rand() < .3, rand() < .1 ? "null" : int(rand() * 900), rand() < .1 ? "null" : "\"b" int(rand() * 50) "\"", i % 17,
        rand() < .1 ? "null" : (rand() - .5) * 10 ^ int(rand() * 80 - 42), (rand() - .5) * 2000
    printf "\"path\":%s,\"tags\":", rand() < .1 ? "null" : rand() < .1 ? "\"\"" : "\"x" i % 7 "|Y" i % 5 "|z\""
    if (rand() < .1) printf "null"; else { n = int(rand() * 4); printf "["; for (k = 0; k < n; k++) printf "%s\"T%d\"", k ? "," : "", rand() * 40; printf "]" }
    printf ",\"seen\":["; n = int(rand() * 3); for (k = 0; k < n; k++) printf "%s%d", k ? "," : "", rand() * 40
    printf "],\"gaps\":["; for (k = 0; k < n; k++) printf "%s%s", k ? "," : "", rand() < .1 ? "null" : "\"g\""
    print "]}" } }' >rows.jsonl
types=click:int8,a:int64,b:utf8,c:int32,price:float64,ratio:float32,path:utf8
import() { ctr-import -q --format jsonl --columns "$types,tags:list<utf8>,seen:list<int64>,gaps:list<utf8>" -o "$@"; }
import rows.arrows rows.jsonl || exit 1
printf 'label click\nfeature a\nfeature b\nfeature low = lower(b)\nfeature few = vocab(b, min=70)\n' >keys.plan
{ cat keys.plan && printf 'dense price\ndense ratio\ndense c\ndense log = log_scale(c)\ndense n = length(path)\ndense half = price / 2\n'; } >numbers.plan
{ cat keys.plan && printf 'feature tags\nfeature seen\nfeature parts = split(lower(path), "|")\nfeature up = lower(tags)\nfeature once = unique(split(path, "|"))
feature pair = cross(tags, a)\nfeature known = vocab(tags, min=30)\nfeature some = vocab(split(path, "|"), min=400)\nfeature dozens = log_bucket(seen)\n'; } >lists.plan
{ cat lists.plan && sed -n '/^dense/p' numbers.plan; } >both.plan
printf 'label click\nfeature tags\ndense c\n' >one.plan
for p in keys numbers lists both; do ctr-extract -q --fit $p.plan -o $p rows.arrows || exit 1; done
cp one.plan one

# left PLAN FILE BATCHES ROWS MEMORY POOL: what it says is in `said`
left() { "$CTR_BUILD/unit/unit-left" "$@" >said && ! grep '^not ok' said; }
says() { grep -q "^# $1\$" said; }
# whole ROWS NUMBERS: all batches of 3000 rows are left
whole() { _n=$(((3000 + $1 - 1) / $1)) && says "$_n of $_n batches left, $(($2 ? _n : 0)) with numbers"; }

for plan in keys numbers lists both one; do
    numbers=$(grep -c ^dense $plan.plan)
    for rows in 1 7 256 257 1000 4000; do
        [ $rows != 1 ] || [ $plan = both ] || continue
        ok "$plan, batches of $rows rows" left $plan rows.arrows 3 $rows 0 0
        ok "$plan, batches of $rows rows: all are left" whole $rows $numbers
    done
done
for order in copies kernels; do
    CTR_CUDA_ON_HOST_ORDER=$order ok "$order as late as they may be" left both rows.arrows 16 300 0 0
    ok "$order as late as they may be: all are left" whole 300 1
done
for order in forward mixed backward; do
    CTR_CUDA_ON_HOST_BLOCKS=$order ok "threads of a block: $order" left both rows.arrows 2 1000 0 0
done
ctr-select -q --head 0 -o empty.arrows rows.arrows
ok "no rows" left both empty.arrows 3 100 0 0

# ---- what cannot be left comes to the host
for value in 1e300 -1e39 '1e308 * 10' '1e308 * 10 - 1e308 * 10'; do
    ctr-select -q --add "price=if(a == 7, $value, price)" rows.arrows -o odd.arrows
    ok "price = $value in a row or two" left both odd.arrows 3 50 0 0
    ok "price = $value: its batch comes, the others do not" sh -c 'awk "/batches left/ { exit !(\$2 < \$4 && \$2 > \$4 - 9) }" said'
done
{ cat keys.plan && echo 'feature gaps'; } >gaps.plan
ctr-extract -q --fit gaps.plan -o gaps rows.arrows
ok "nulls within lists" left gaps rows.arrows 3 100 0 0
ok "nulls within lists: they come" says '0 of 30 batches left, 0 with numbers'
awk 'NR > 100 { sub(/"gaps":.*/, "\"gaps\":[\"g\"]}") } 1' rows.jsonl >first.jsonl
import first.arrows first.jsonl
ok "nulls within lists of the first rows" left gaps first.arrows 3 100 0 0
ok "nulls within lists of the first rows: the others are left" says '29 of 30 batches left, 0 with numbers'
{ cat keys.plan && printf 'feature gaps group g\nfeature seen group g\n'; } >group.plan
ctr-extract -q --fit group.plan -o group rows.arrows
ok "nulls within aligned lists, which have keys" left group rows.arrows 3 100 0 0
ok "nulls within aligned lists: they are left" whole 100 0
{ cat keys.plan && printf 'feature ten = at(split(path, "|"), 0)\nfeature num = int(tags)\n'; } >lifted.plan
ctr-extract -q --fit lifted.plan -o lifted rows.arrows
ok "nulls that a kernel makes within lists" left lifted rows.arrows 3 10 0 0
ok "nulls that a kernel makes within lists: they come" says '0 of 300 batches left, 0 with numbers'
ok "an operator of a number on the CPU" left both rows.arrows 3 100 0 0 half=cpu log=cpu
ok "an operator of a number on the CPU: keys are left" whole 100 0
ok "an operator of keys on the CPU" left both rows.arrows 3 100 0 0 parts=cpu
ok "an operator of keys on the CPU: they come" says 'the CPU makes some'
{ cat keys.plan && printf 'dense c\ndense v = seen\n'; } >vector.plan
ctr-extract -q --fit vector.plan -o vector rows.arrows
ok "a list of numbers" left vector rows.arrows 3 100 0 0
ok "a list of numbers: keys are left" whole 100 0
ok "more batches than buffers" left both rows.arrows 17 100 0 0
ok "more batches than buffers: they come" says 'more batches wait for the learner than the GPU has buffers for'
awk 'BEGIN { for (i = 0; i < 500; i++) printf "{\"click\":%d,\"pair\":%s}\n", i % 2, i % 9 ? "[" i % 7 "," i % 5 "]" : "null" }' |
    ctr-import -q --format jsonl --columns 'click:int8,pair:fixed_size_list<int64>[2]' -o pairs.arrows
printf 'label click\nfeature pair\n' >pairs.plan
ok "lists of a fixed size, some null" left pairs.plan pairs.arrows 3 100 0 0
ok "lists of a fixed size, some null, with null items: they come" says '0 of 5 batches left, 0 with numbers'
ctr-select -q --where 'length(pair) == 2' -o full.arrows pairs.arrows
ok "lists of a fixed size" left pairs.plan full.arrows 3 100 0 0
ok "lists of a fixed size: all are left" says '5 of 5 batches left, 0 with numbers'
ctr-cat -q --share tags,seen,b,c,path -o shared.arrows rows.arrows
for rows in 100 4000; do
    ok "dictionaries, batches of $rows rows" left both shared.arrows 3 $rows 0 0
    ok "dictionaries, batches of $rows rows: all are left" whole $rows 1
done
for memory in 300000 3000000; do
    ok "$memory bytes of memory" left both rows.arrows 3 500 $memory 0
    ok "$memory bytes of memory: nothing is left" says '0 of [0-9]* batches left, 0 with numbers'
done
ok "enough memory" left both rows.arrows 3 500 20000000 0
ok "enough memory: all are left" whole 500 1
CTR_CUDA_ON_HOST_MEMORY=200000 ok "a device with memory for parts of a batch" left both rows.arrows 3 3000 0 0
CTR_CUDA_ON_HOST_MEMORY=1400000 ok "a device with little more than a pool" left both rows.arrows 3 30 0 0
ok "a device with little more than a pool: all are left" whole 30 1
awk 'BEGIN { for (i = 0; i < 3000; i++) { p = "x|y" i % 9; if (i % 500 == 250) for (k = 0; k < 9; k++) p = p "|" p
    printf "{\"click\":%d,\"path\":\"%s\"}\n", i % 3 == 0, p } }' | ctr-import -q --format jsonl --columns click:int8,path:utf8 -o long.arrows
printf 'label click\nfeature parts = split(path, "|")\ndense n = length(path)\n' >long.plan
ok "lists that are longer than the others" left long.plan long.arrows 3 30 0 0
ok "lists that are longer than the others: all are left" whole 30 1
ok "longer than memory allows" left long.plan long.arrows 3 30 300000 0
ok "longer than memory allows: their batches come" says '94 of 100 batches left, 94 with numbers'
ok "a pool that grows" left both rows.arrows 2 1000 0 100
ok "a pool that grows: all are left" whole 1000 1
done_testing
