#!/bin/sh
# ctr-train MODEL PLAN FILE --device gpu: the keys that a plan's kernels make stay in the device's memory until the embeddings
# are gathered; the host sees labels, numbers, counts and what is new to it. The model is that of the extracted stream, byte for byte.
. "${0%/*}/lib.sh"
gpu_driver
[ -f "$gpu_plugin" ] || skip_all "the plug-in on the host: there is no c++"
export XDG_CACHE_HOME="$W/cache" CTR_CUDA_ON_HOST_THREADS=16 CTR_CUDA_ON_HOST_CXXFLAGS=-O1 CTR_CUDA_PLUGIN="$gpu_plugin"
[ -z "$SAN" ] || export CTR_CUDA_ON_HOST_CXXFLAGS="-O0 -fsanitize=address,undefined -fsanitize-undefined-trap-on-error -fno-sanitize=vptr"
cd "$W" || exit 1

# Nulls, rare values, texts; a key a row in `id`.
awk 'BEGIN { srand(5); print "click,a,b,c,place,price,id"
    for (i = 0; i < 9000; i++) { a = int(1 / (.0004 + rand())); b = int(300 * rand())
        printf "%d,%s,%s,%d,%s,%s,%d\n", rand() < .2 + .5 * ((7 * a + b) % 3 == 0), rand() < .1 ? "" : a, rand() < .2 ? "" : "b" b, i % 17,
            "city " int(9 * rand()), rand() < .1 ? "" : rand() * 90, i } }' >rows.csv
ctr-import -q --format csv --header --columns click:int8,a:int64,b:utf8,c:int32,place:utf8,price:float64,id:int64 -o rows.arrows rows.csv || exit 1
cat >keys.plan <<'PLAN'
label   click
bb      = lower(b)
feature a
feature b = bb
feature ab = cross(a, bb)
feature c
feature rare = vocab(bb, min=40)
feature place
dense   price = log_scale(price)
PLAN
ctr-extract -q --fit keys.plan -o plan rows.arrows || exit 1
printf 'label click\nfeature a\nfeature b\nfeature id\n' >ids.plan
printf 'label click\nfeature a\nfeature b\n' >two.plan

train() { ctr-train "$@"; }
values() { ctr-info --digest "$1" | cksum; }
# of the plug-in's report, which comes after the driver's
calls() { awk -v name="$1" '$1 $2 $3 == "onhost:" name { n = $4 } END { print n }' "$2"; }
stay() { grep -q '^keys of the plan     stay on the device$' said; }
come() { grep -q "^keys of the plan     come to the host: $1\$" said; }
# same PLAN ROWS MODEL OPTIONS…: the model of the extracted stream, and that of the plan, whose words are in `said`.
same() {
    _plan=$1 _rows=$2
    shift 2
    ctr-extract -q "$_plan" "$_rows" -o stream.arrows && ctr-train "$@" -q --device gpu --plan "$_plan" -o stream.m stream.arrows && ctr-train "$@" -v --device gpu -o plan.m "$_plan" "$_rows" 2>said &&
        [ "$(values plan.m)" = "$(values stream.m)" ]
}

# ---- the same model
shape="--embedding 6 --hidden 8,4"
for minibatch in 100 1024 4096; do
    ok "mlp, minibatches of $minibatch" same plan rows.arrows mlp $shape --minibatch $minibatch --passes 2
    ok "mlp, minibatches of $minibatch: keys stay" stay
done
for learner in "dcnv2 $shape" "dlrm --embedding 6 --hidden 8,4 --bottom 8" "fm --embedding 6"; do
    ok "${learner%% *}" same plan rows.arrows $learner --minibatch 700
    ok "${learner%% *}: keys stay" stay
done
# lr: rows by table, with a bias. With -v it measures crosses, for which the host reads the keys.
sed '/^dense/d' keys.plan >lr.plan
ctr-extract -q --fit lr.plan -o lr.fitted rows.arrows
for o in '' '--no-bias'; do
    ok "lr $o" same lr.fitted rows.arrows lr --minibatch 700 --passes 2 $o
    ok "lr $o: with -v keys come" come 'crosses are measured'
    CTR_CUDA_ON_HOST_SAYS=1 train lr -q --device gpu --minibatch 700 --passes 2 $o -o got.m lr.fitted rows.arrows 2>there
    is "lr $o: the same without" "$(values got.m)" "$(values plan.m)"
    CTR_CUDA_ON_HOST_SAYS=1 train lr -q --device gpu --minibatch 700 --passes 2 $o -o got.m stream.arrows 2>here
    ok "lr $o: hashes do not go up" test "$(calls bytes there)" -lt "$(($(calls bytes here) - 400000))"
done
another() { same plan rows.arrows mlp $shape --minibatch 700 && cp plan.m one.m && same plan rows.arrows mlp $shape --minibatch 701 && ! cmp -s one.m plan.m; }
ok "another minibatch gives another model: the comparison can fail" another
for j in 1 2 4; do
    train mlp -q $shape --device gpu --minibatch 700 -j $j -o got.m plan rows.arrows
    ok "-j $j: the same bytes" cmp got.m one.m
done
for batch in 1 77 8192; do
    ctr-cat -q --batch $batch -o batch.arrows rows.arrows
    train mlp -q $shape --device gpu --minibatch 700 -o got.m plan batch.arrows
    is "batches of $batch rows: the same" "$(values got.m)" "$(values one.m)"
done
for order in copies kernels; do
    CTR_CUDA_ON_HOST_ORDER=$order train mlp -q $shape --device gpu --minibatch 700 -o got.m plan rows.arrows
    ok "$order as late as they may be: the same bytes" cmp got.m one.m
done
for memory in '--memory 5M' '--device-memory 3M' '--device-memory 20M'; do
    ok "$memory" same plan rows.arrows mlp $shape --minibatch 700 --passes 2 $memory
done
# Buffers of hashes are not freed for a layer that needs more than those before.
awk 'BEGIN { print "click,t"; for (i = 0; i < 40000; i++) printf "%d,w%d\n", i % 3 == 0, i % 50; s = "Q"; while (length(s) < 200000) s = s s; print "1," s }' |
    ctr-import -q --format csv --header --columns click:int8,t:utf8 -o long.arrows
{ printf 'label click\nu = lower(t)\n' && for i in 1 2 3 4 5 6 7 8 9; do echo "feature f$i = u"; done; } >long.plan
ok "a long text, behind many rows, in little memory" same long.plan long.arrows fm --embedding 1 --minibatch 500 --device-memory 5M
ok "its keys come" come 'the device has no room for those of all rows'
ok "more memory" same long.plan long.arrows fm --embedding 1 --minibatch 500 --device-memory 200M
ok "its keys stay" stay
CTR_CUDA_ON_HOST_MEMORY=200000 train mlp -q $shape --device gpu --minibatch 700 -o got.m plan rows.arrows
is "a device with memory for parts of a batch alone" "$(values got.m)" "$(values one.m)"
CTR_WORKING_SET=64 train mlp -q $shape --device gpu --minibatch 700 -o got.m plan rows.arrows
is "fewer rows on the device than keys" "$(values got.m)" "$(values one.m)"
ctr-cat -q --share place,b -o encoded.arrows rows.arrows
train mlp -v $shape --device gpu --minibatch 700 -o got.m plan encoded.arrows 2>said
ok "columns that are dictionaries: keys stay" stay
is "and make the same model" "$(values got.m)" "$(values one.m)"
ok "a key a row" same ids.plan rows.arrows mlp $shape --minibatch 700 --passes 2
ok "its keys stay" stay
train mlp -q $shape --device gpu --minibatch 700 --progressive plan.p -o got.m plan rows.arrows
ctr-extract -q plan rows.arrows | train mlp -q $shape --device gpu --minibatch 700 --progressive stream.p -o got.m
is "--progressive: the same scores" "$(values plan.p)" "$(values stream.p)"
ok "some files, the last minibatch of each short" same plan rows.arrows mlp $shape --minibatch 4000
head -n 700 rows.csv | ctr-import -q --format csv --header --columns click:int8,a:int64,b:utf8,c:int32,place:utf8,price:float64,id:int64 -o few.arrows
train mlp -q $shape --device gpu --minibatch 512 -o plan.m plan few.arrows rows.arrows few.arrows
for f in few rows few; do ctr-extract -q plan $f.arrows -o $f.features; done
train mlp -q $shape --device gpu --minibatch 512 --plan plan -o stream.m few.features rows.features few.features
is "several files" "$(values plan.m)" "$(values stream.m)"

# ---- lists: of texts that the device cuts, of a column, in the table of a key, with nulls and empty ones, that rows have in common
awk 'BEGIN { srand(9); print "click,item,cat,user,tags,past,kinds,price"; for (i = 0; i < 5000; i++) { u = int(300 * rand()); past = kinds = ""
    for (k = 0; k < u % 7; k++) { past = past (k ? " " : "") (u * k) % 90; kinds = kinds (k ? " " : "") "k" (u * k) % 8 }
    printf "%d,%d,k%d,%d,%s,%s,%s,%s\n", rand() < .3, 90 * rand(), 8 * rand(), u, rand() < .1 ? "" : int(u / 3) " T" u % 5 " t" u % 5, past, kinds,
        rand() < .1 ? "" : rand() } }' >lists.csv
ctr-import -q --format csv --header --columns click:int8,item:int64,cat:utf8,user:int64,tags:utf8,past:utf8,kinds:utf8,price:float64 lists.csv |
    ctr-select -q --add 'numbers = split(past, " ")' -o lists.arrows
cat >lists.plan <<'PLAN'
label   click
feature item
feature cat
feature user
feature tags in item = lower(split(tags, " "))
feature past in item of item = split(past, " ")
feature kinds in cat of cat = split(kinds, " ")
feature numbers in item
dense   price
PLAN
for learner in "mlp $shape" "din $shape" "dcnv2 $shape" "fm --embedding 6" "dlrm --embedding 6 --hidden 8,4 --bottom 8" "mlp $shape --pooling mean" "mlp $shape --pooling max"; do
    ok "lists: $learner" same lists.plan lists.arrows $learner --minibatch 700 --passes 2
    ok "lists: $learner: keys stay" stay
done
same lists.plan lists.arrows din $shape --minibatch 700 && cp plan.m lists.m
for batch in 1 77 8192; do
    ctr-cat -q --batch $batch -o batch.arrows lists.arrows
    train din -q $shape --device gpu --minibatch 700 -o got.m lists.plan batch.arrows
    is "lists in batches of $batch rows: the same" "$(values got.m)" "$(values lists.m)"
done
for order in copies kernels; do
    CTR_CUDA_ON_HOST_ORDER=$order train din -q $shape --device gpu --minibatch 700 -o got.m lists.plan lists.arrows
    ok "lists: $order as late as they may be: the same bytes" cmp got.m lists.m
done
ctr-cat -q --share tags,numbers -o encoded.arrows lists.arrows
train din -v $shape --device gpu --minibatch 700 -o got.m lists.plan encoded.arrows 2>said
is "lists of dictionaries make the same model" "$(values got.m)" "$(values lists.m)"
ok "their keys stay" stay
for memory in 'CTR_WORKING_SET=64' 'CTR_CUDA_ON_HOST_MEMORY=400000'; do
    env $memory ctr-train din -q $shape --device gpu --minibatch 700 -o got.m lists.plan lists.arrows
    is "lists: $memory" "$(values got.m)" "$(values lists.m)"
done

# Hashes, segments and weights of the items of lists do not go up; rows of new keys do.
CTR_CUDA_ON_HOST_SAYS=1 train din -q $shape --device gpu --minibatch 700 --passes 2 -o got.m lists.plan lists.arrows 2>there
ctr-extract -q lists.plan lists.arrows -o stream.arrows
CTR_CUDA_ON_HOST_SAYS=1 train din -q $shape --device gpu --minibatch 700 --passes 2 -o got.m stream.arrows 2>here
up() { echo $(($(calls bytes "$1") - $(calls down "$1"))); }
ok "lists: $(up there) bytes go up, of the stream $(up here)" test "$(up there)" -lt "$(($(up here) / 2))"
# A kernel that faults leaves copies that never run: their memory goes all the same.
for call in fault:5 launch:40 copy:9 back:9 wait:6; do
    CTR_CUDA_ON_HOST_FAIL=$call train din -q $shape --device gpu --minibatch 700 -o failed.m lists.plan lists.arrows 2>said
    ok "$call fails, and the run ends with these words" grep "^ctr-train: lists.arrows: .*\(cuda\|GPU\): " said
done

# ---- what a pass of three minibatches costs: what four passes do and two do not
printf 'label click\nfeature a\nfeature b\ndense price\n' >cost.plan
for passes in 2 4; do
    CTR_CUDA_ON_HOST_SAYS=1 train mlp -q --embedding 8 --hidden 16,8 --device gpu --minibatch 4096 --passes $passes -o got.m cost.plan rows.arrows 2>cost.$passes
done
cost() { echo $((($(calls "$1" cost.4) - $(calls "$1" cost.2)) / 2)); }
ok "at most 40 launches a minibatch ($(cost launch))" test "$(cost launch)" -le 120
ok "two waits a minibatch, one for the end of a pass, two for the last rows ($(cost wait))" test "$(cost wait)" -le 9
# A label 4 and a score 4; lists of keys that are new on the device; hashes and numbers of the last rows.
ok "at most 11 bytes a row ($(($(cost bytes) / 9000)))" test "$(cost bytes)" -le 99000
ok "of these 7 to the host ($(($(cost down) / 9000)))" test "$(cost down)" -le 63000

# ---- the rows that tell whether the model has collapsed are read back
train mlp -q $shape --device gpu --minibatch 700 --rate 0 -o got.m two.plan rows.arrows 2>plan.said
ctr-extract -q two.plan rows.arrows | train mlp -q $shape --device gpu --minibatch 700 --rate 0 -o got.m 2>stream.said
is "a model that has not learned: the same words" "$(cat plan.said)" "$(cat stream.said)"

# The range of each number, of some rows of a batch.
printf 'label click\nfeature b\ndense a\ndense price\ndense c\ndense id\ndense few = if(c == 3, 70, 1)\ndense zero = if(c == 3, 0.0, c * -1.5)\n' >ranges.plan
train mlp $shape --device gpu --minibatch 700 -o got.m ranges.plan rows.arrows 2>said
ok "ranges: keys stay" stay
grep ' from .* to ' said >plan.said
ctr-extract -q ranges.plan rows.arrows | train mlp $shape --device gpu --minibatch 700 -o got.m 2>said
grep ' from .* to ' said >stream.said
ok "ranges: there are some" grep 'few from 1 to 70.*zero from -24 to 0' stream.said
is "numbers with other ranges: the same words" "$(cat plan.said)" "$(cat stream.said)"

# ---- keys come to the host where it reads them
ctr-extract -q plan rows.arrows -o stream.arrows
stops="--minibatch 700 --passes 2 --validation-every 1500 --patience 1 --validation"
train mlp -q $shape --device gpu $stops few.features --plan plan -o want.m stream.arrows
train mlp -v $shape --device gpu $stops few.arrows -o got.m plan rows.arrows 2>said
is "validation, and a run that stops early" "$(values got.m)" "$(values want.m)"
ok "validation: keys stay" stay
# Tiles that are learned in parts, between which the model is scored.
parts() {
    _plan=$1 _rows=$2
    shift 2
    ctr-extract -q "$_plan" "$_rows" -o stream.arrows && train "$@" --device gpu --validation stream.arrows --validation-every 300 --patience 99 -o want.m --plan "$_plan" stream.arrows 2>want.said &&
        train "$@" --device gpu --validation "$_rows" --validation-every 300 --patience 99 -o got.m "$_plan" "$_rows" 2>said && stay && [ "$(values got.m)" = "$(values want.m)" ] &&
        grep 'validation log loss' want.said >want.losses && grep 'validation log loss' said | cmp - want.losses && [ "$(wc -l <want.losses)" -gt 9 ]
}
ok "validation within tiles" parts plan rows.arrows mlp $shape --minibatch 100
ok "validation within tiles: lists" parts lists.plan lists.arrows din $shape --minibatch 300
export CTR_WORKING_SET=0
ok "validation within tiles: lists, whose keys the host numbers" parts lists.plan lists.arrows din $shape --minibatch 300
unset CTR_WORKING_SET
ok "a checkpoint" same plan rows.arrows mlp $shape --minibatch 700 --checkpoint cp
ok "a checkpoint: keys come" come 'a checkpoint has their digest'
train mlp -v $shape --device gpu --minibatch 700 --passes 2 --spool spool -o got.m plan rows.arrows 2>said
train mlp -q $shape --device gpu --minibatch 700 --passes 2 -o want.m plan rows.arrows
is "--spool" "$(values got.m)" "$(values want.m)"
ok "counts for --l2" same plan rows.arrows mlp $shape --minibatch 700 --l2 .01
ok "--l2: keys come" come '--l2 counts them'
train mlp -v $shape --device gpu --minibatch 700 --place place=cpu -o got.m plan rows.arrows 2>said
is "an operator on the CPU" "$(values got.m)" "$(values one.m)"
printf 'from log\nwhere c < 9\nlabel click\nfeature a\nfeature b\n' >flow.plan
train mlp -v $shape --device gpu --minibatch 700 -j 1 -o one.m flow.plan log=rows.arrows 2>said
ok "views in one thread: keys stay" stay
train mlp -v $shape --device gpu --minibatch 700 -j 4 -o got.m flow.plan log=rows.arrows 2>said
ok "views in several threads: keys come" come 'a queue copies them'
is "the same model" "$(values got.m)" "$(values one.m)"
# A batch of bad rows alone gives the learner no tile, by which the age of hashes is counted.
ctr-select -q --add 'price=if(id % 100 < 60, 1e300, price)' rows.arrows -o bad.arrows
sed 's/log_scale(price)/price/' keys.plan >bad.plan
ctr-extract -q --fit bad.plan -o bad.fitted rows.arrows
ok "bad rows" same bad.fitted bad.arrows mlp $shape --minibatch 20 --bad-rows skip=9000
ok "bad rows that are left out: keys come" come 'bad rows are left out'
train mlp -v $shape --minibatch 700 -o got.m plan rows.arrows 2>said
ok "on the CPU nothing is said of it" sh -c '! grep -q "^keys of the plan" said'
done_testing
