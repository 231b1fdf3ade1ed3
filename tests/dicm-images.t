#!/bin/sh
# Tables of images: keyed files, which stay on disk; what a model's tower makes of them (ctr-embed-images --tower), for serving; bad tables.
. "${0%/*}/lib.sh"
has_python pyarrow || skip_all "no pyarrow"
[ -x "$CTR_BUILD/bin/ctr-embed-images" ] || skip_all 'ctr-embed-images was left out of the build'
cd "$W" || exit 1

# images.arrows: 300 images of 24 numbers; rows.arrows: 1200 rows, of which those of test.arrows name images that train.arrows does not
"$PY" - <<'EOP'
import random
import pyarrow as pa
r = random.Random(3)
past = pa.field("h.photo", pa.list_(pa.string()), metadata={"ctr.history": "history", "ctr.history_of": "photo"})
schema = pa.schema([pa.field("click", pa.float64()), pa.field("item", pa.int64()), pa.field("photo", pa.string()), past])
rows = []
for i in range(1200):
    pick = lambda: r.randrange(200) if i < 800 else r.randrange(300)
    a, h = pick(), [pick() for _ in range(r.choice([0, 1, 2, 5]))]
    p = .7 if any(k % 3 == a % 3 for k in h) else .2
    rows.append({"click": float(r.random() < p), "item": a % 7, "photo": "p%d" % a if i % 31 else None, "h.photo": ["p%d" % k for k in h]})
with pa.ipc.new_stream("raw.arrows", schema) as w:
    w.write_table(pa.Table.from_pylist(rows, schema))
fields = pa.schema([pa.field("key", pa.string()), pa.field("vector", pa.list_(pa.float32(), 24))])
images = [{"key": "p%d" % k, "vector": [float(k % 3 == j % 3) + r.gauss(0, .3) for j in range(24)]} for k in range(300)]
with pa.ipc.new_stream("images.arrows", fields) as w:
    w.write_table(pa.Table.from_pylist(images, fields))
EOP
printf 'label click\nfeature item = item\nimage photo = photo\nimage seen in photo of photo = `h.photo`\n' >plan
ctr-extract -q plan -o all.arrows raw.arrows && ctr-select --head 800 --rest test.arrows all.arrows >train.arrows &&
    ctr-sort -k key images.arrows | ctr-cat --batch 32 --to file --key key -o images.arrow || exit 1
train() { ctr-train dicm -q --embedding 5 --hidden 8 --images-tower 16,6 --attention-hidden 4 --images-pool attentive --minibatch 100 --rate .01 "$@" train.arrows; }
predict() { ctr-predict -q "$@" test.arrows; }
scores() { ctr-export -f csv --columns score "$1"; }

# ---- a keyed file stays where it lies
train --images images.arrows -o m.arrows
train --images images.arrow -o keyed.m.arrows
ok 'vectors of a keyed file: the same model' cmp m.arrows keyed.m.arrows
for pass in 1 3; do
    train --passes $pass --images images.arrow -o once.m.arrows
    train --passes $pass --images images.arrow --prefetch 1 --batch 70 -o ahead.m.arrows
    ok "--prefetch 1, $pass passes: the same model" cmp once.m.arrows ahead.m.arrows
done
ok '… with images of a stream, which are in memory' train --images images.arrows --prefetch 1 -o ahead.m.arrows
ok '… the same model' cmp m.arrows ahead.m.arrows
predict --images images.arrows m.arrows >want.p
predict --images images.arrow m.arrows >got.p
ok 'the same scores' cmp want.p got.p
predict -j 4 --images images.arrow m.arrows >got.p
ok '-j 4 too' cmp want.p got.p
ctr-cat --batch 3 test.arrows | ctr-predict -q --images images.arrow m.arrows >got.p
is 'in small batches, too' "$(scores got.p | cksum)" "$(scores want.p | cksum)"
ctr-sort -k key images.arrows | ctr-cat --batch 64 --compress zstd --to file --key key -o small.arrow
predict --images small.arrow m.arrows >got.p
ok 'compressed blocks, too' cmp want.p got.p
"$PY" - <<'EOP'
import pyarrow as pa
fields = pa.schema([pa.field("key", pa.string()), pa.field("vector", pa.list_(pa.float32(), 4096))])
with pa.ipc.new_stream("large.arrows", fields) as w:
    w.write_table(pa.Table.from_pylist([{"key": "p%04d" % k, "vector": [k % 3] * 4096} for k in range(1500)], fields), max_chunksize=100)
EOP
ctr-cat --batch 50 --to file --key key -o large.arrow large.arrows
printf 'label click\nimage photo = if(item == 1, "p0001", "p0002")\n' >few.plan
ctr-extract -q few.plan raw.arrows >few.arrows
bound() { ctr-train dicm -q --embedding 2 --hidden 2 --images-tower 2 --minibatch 10 --memory 16M "$@" -o x.arrows few.arrows; }
exits 'a stream of vectors is held in memory' 1 bound --images large.arrows
err_like 'which --memory bounds' '--memory allows 16.*--images takes no memory for vectors of a keyed file'
exits 'a keyed file is not' 0 bound --images large.arrow

# ---- what the tower makes of them
embed() { ctr-embed-images -q --tower m.arrows --vectors "$@"; }
ok 'ctr-embed-images --tower' embed -o values.arrow images.arrows
ok 'a keyed file of as many numbers as --embedding' sh -c 'ctr-info values.arrow | grep -q "vector .*fixed_size_list<float32>\[5\]" && ctr-info --check values.arrow'
embed -j 4 images.arrow >again.arrow
ok 'the same bytes for any -j, source and output' cmp values.arrow again.arrow
predict --images values.arrow m.arrows >got.p
ok 'predicts with the bits of the vectors, of images that came in no training, too' cmp want.p got.p
predict -j 4 --images values.arrow m.arrows >got.p
ok '-j 4 too' cmp want.p got.p
ctr-select --head 50 test.arrows >few.arrows
is 'and attention weighs them alike (ctr-model explain)' "$(ctr-model explain -q --attention --images values.arrow m.arrows few.arrows | cksum)" \
    "$(ctr-model explain -q --attention --images images.arrow m.arrows few.arrows | cksum)"
exits 'values of a tower to learn from' 2 train --images values.arrow -o x.arrows
err_like 'are refused' 'values.arrow: its vectors are what the tower of a model made .tower=[0-9a-f]*., to predict with that model: learn from the vectors'
ctr-cat --to stream values.arrow >values.arrows
predict --images values.arrows m.arrows >got.p
ok 'as a stream, too' cmp want.p got.p
ctr-select --head 100 images.arrows >some.arrows
embed -o some.arrow some.arrows
exits '--update' 0 ctr-embed-images --tower m.arrows --vectors --update some.arrow -o updated.arrow images.arrows
err_like 'computes what is new' '200 images computed, 100 taken over'
ok 'and is the whole' cmp values.arrow updated.arrow
train --images images.arrows --seed 7 -o other.arrows
exits 'values of another tower' 1 ctr-predict --images values.arrow other.arrows test.arrows
err_like 'are refused' 'values.arrow: its vectors are of another tower .tower=.* than the model.s .*ctr-embed-images --tower MODEL'
exits '--update by another tower' 2 ctr-embed-images --tower other.arrows --vectors --update values.arrow -o x.arrow images.arrows
err_like 'is refused' 'values.arrow was made by tower=.*not comparable'
train --images images.arrows --embedding 4 -o narrow.arrows
exits 'values of another length' 1 ctr-predict --images values.arrow narrow.arrows test.arrows
err_like 'are refused, too' 'its vectors have 5 numbers, the model.s tower gives 4'
exits 'vectors of another length' 1 ctr-embed-images --tower m.arrows --vectors values.arrow
err_like 'are no vectors for the tower' 'values.arrow.*its vectors have 5 numbers, the tower of m.arrows takes 24'
exits 'two vectors of a key' 1 ctr-embed-images --tower m.arrows --vectors images.arrows some.arrows
err_like 'are named' "key 'p[0-9]*' has two vectors"
ctr-extract -q plan raw.arrows | ctr-train dicm -q --images-as-ids -o ids.arrows
exits 'a model without a tower' 2 ctr-embed-images --tower ids.arrows --vectors images.arrows
err_like 'is told of' 'ids.arrows: the model has no tower of images'
exits '--vectors with photographs' 2 ctr-embed-images --tower m.arrows --vectors --bad-images skip images.arrows
exits '--tower --type float16' 2 ctr-embed-images --tower m.arrows --vectors --type float16 images.arrows
exits '--vectors without --tower' 2 ctr-embed-images --vectors images.arrows
exits 'nothing to make vectors with' 2 ctr-embed-images --tower m.arrows images.arrows
"$PY" "$CTR_TOP/tests/images_reference.py" make . && { for i in *.png *.jpg; do [ "$i" = bomb.png ] || echo "$i"; done; } >names
# shellcheck disable=SC2046
ctr-embed-images -q -w tiny.safetensors -o photos.arrow $(cat names)
printf 'label click\nimage photo = if(item == 1, "rgb0", if(item == 2, null, "smooth"))\n' >photos.plan
ctr-extract -q photos.plan raw.arrows | ctr-train dicm -q --images photos.arrow --images-tower 4 --embedding 3 --hidden 4 -o photos.m
# shellcheck disable=SC2046
ok 'photographs to values' ctr-embed-images -q -w tiny.safetensors --tower photos.m -o direct.arrow $(cat names)
ctr-embed-images -q --tower photos.m --vectors -o through.arrow photos.arrow
is 'are those of their vectors' "$(ctr-info --digest direct.arrow)" "$(ctr-info --digest through.arrow)"
exits 'a tower for other vectors' 1 ctr-embed-images -w tiny.safetensors --tower m.arrows rgb0.png
err_like 'is refused' 'm.arrows: its tower takes vectors of 24 numbers, the network gives 9'

# ---- a scale of the vectors, which the model keeps
train --images images.arrow --images-scale standard -o scaled.arrows
predict --images images.arrow scaled.arrows >scaled.p
ctr-embed-images -q --tower scaled.arrows --vectors -o scaled.arrow images.arrows
predict --images scaled.arrow scaled.arrows >got.p
ok '--images-scale standard: values of the tower predict with the bits of the vectors' cmp scaled.p got.p
"$PY" - <<'EOP'
import pyarrow as pa
fields = pa.schema([pa.field("key", pa.string()), pa.field("vector", pa.list_(pa.float32(), 24))])
t = pa.ipc.open_stream("images.arrows").read_all().to_pylist()
for r in t:
    r["vector"] = [1000 * x + 500 for x in r["vector"]]
with pa.ipc.new_stream("large.arrows", fields) as w:
    w.write_table(pa.Table.from_pylist(t, fields))
EOP
train --images large.arrows --images-scale standard -o large.m
predict --images large.arrows large.m >got.p
near() { paste -d, got.csv scaled.csv | awk -F, 'NR > 1 { d = $1 - $2; if (d > .002 || d < -.002) bad++ } END { exit bad > 0 }'; }
scores got.p >got.csv && scores scaled.p >scaled.csv
ok 'does not depend on the unit of the numbers, but for rounding' near

# ---- partial warm-up: all but the vectors of ids
ctr-select --section 'emb.*' --head 0 m.arrows >noids.arrows
ctr-train dicm --embedding 5 --hidden 8 --images-tower 16,6 --attention-hidden 4 --images-pool attentive --minibatch 100 --rate 1e-35 --images images.arrows \
    --init noids.arrows --init-partial -o warm.arrows train.arrows 2>said
ok 'the ids are missing, the tower is not' sh -c 'grep -q "missing, .* of the .* keys of table item" said && ! grep -q "missing.*parameter" said'
ctr-embed-images -q --tower warm.arrows --vectors -o warm.arrow images.arrows
is 'and is that of yesterday' "$(ctr-export -f jsonl warm.arrow | cksum)" "$(ctr-export -f jsonl values.arrow | cksum)"

# ---- several tables as one view: of one network alone
"$PY" - <<'EOP'
import pyarrow as pa
fields = lambda network, *more: pa.schema([pa.field("key", pa.string()), pa.field("vector", pa.list_(pa.float32(), 2)), *more], network and {"ctr.network": network})
for name, network, more in (("a", "net a", ()), ("a2", "net a", (pa.field("n", pa.int64()),)), ("b", "net b", (pa.field("n", pa.int64()),)), ("none", None, (pa.field("k", pa.int64()),))):
    with pa.ipc.new_stream(name + ".net", fields(network, *more)) as w:
        w.write_table(pa.Table.from_pylist([{"key": "p1", "vector": [1, 2], **{f.name: 1 for f in more}}], fields(network, *more)))
EOP
printf 'from v\nlabel y = 0.0\nfeature key\nkeep vector\n' >v.plan
exits 'tables of one network' 0 ctr-extract -q -o x.arrows v.plan v=a.net v=none.net v=a2.net
exits 'tables of two networks' 1 ctr-extract -q -o x.arrows v.plan v=none.net v=a.net v=b.net
err_like 'are not mixed' 'b.net: its vectors are by net b here, and net a in a file before it .none.net is the first.: make both with one network'

# ---- bad tables
"$PY" - <<'EOP'
import pyarrow as pa
fields = pa.schema([pa.field("key", pa.string()), pa.field("vector", pa.list_(pa.float32()))])
bad = {"nan": [["p1", [1, 2]], ["p2", [1, float("nan")]]], "twice": [["p1", [1, 2]], ["p1", [1, 2]]], "length": [["p1", [1, 2]], ["p2", [1, 2, 3]]],
    "null": [["p1", [1, 2]], ["p2", None]], "nokey": [["p1", [1, 2]], [None, [1, 2]]], "missing": [["(missing)", [1, 2]]],
    "empty": [["p1", []]]}
for name, rows in bad.items():
    with pa.ipc.new_stream(name + ".s", fields) as w:
        w.write_table(pa.Table.from_pylist([{"key": k, "vector": v} for k, v in rows], fields))
EOP
two() { printf 'label click\nimage photo = if(item == 1, "p2", "p1")\n' >two.plan && ctr-extract -q two.plan raw.arrows >two.arrows; }
two
refuses() { # refuses WHAT MESSAGE
    ctr-cat --to file --key key -o "$1.bad" "$1.s"
    exits "keyed: $1" 1 ctr-train dicm --images "$1.bad" -o x.arrows two.arrows
    err_like 'is named' "$1.bad: $2"
}
refuses nan "row 2: number 2 of the vector of 'p2' is null, NaN or infinite"
refuses twice "row 2: a second vector of 'p1'"
refuses length "row 2: the vector of 'p2' has 3 numbers, those before have 2"
refuses null "row 2: the vector of 'p2' is null"
refuses nokey 'row 2: the key is null'
refuses empty "row 1: the vector of 'p1' has no numbers"
refuses missing "a key is '.missing.', which stands for a null"
head -c 20000 images.arrow >cut.arrow
exits 'a keyed file that is cut short' 1 predict --images cut.arrow m.arrows
err_like 'is named' 'cut.arrow: '
head -c 9000 images.arrows >cut.arrows
exits 'a stream that is cut short' 1 predict --images cut.arrows m.arrows
err_like 'is named' 'cut.arrows: '
"$PY" - <<'EOP'
b = bytearray(open("images.arrow", "rb").read())
b[len(b) // 2] ^= 1
open("flipped.arrow", "wb").write(b)
EOP
exits 'a block that is damaged' 1 predict --images flipped.arrow m.arrows
err_like 'is named' 'flipped.arrow: '
exits 'no such file' 1 predict --images nowhere.arrow m.arrows
err_like 'is named' 'nowhere.arrow: '
mkfifo rows
cp images.arrow changes.arrow
ctr-predict -q --images changes.arrow m.arrows rows >out.p 2>changed.err &
pid=$!
exec 9>rows
ctr-cat --batch 10 test.arrows >test10.arrows
head -c 8000 test10.arrows >&9
i=0
while ! ls -l "/proc/$pid/fd" 2>/dev/null | grep -q changes.arrow && [ $i -lt 100 ]; do
    sleep .05
    i=$((i + 1))
done
printf x >>changes.arrow
tail -c +8001 test10.arrows >&9
exec 9>&-
wait $pid
is 'a file that another program writes to meanwhile' $? 1
ok 'is told of' grep -q 'changes.arrow: ' changed.err
mkfifo rows2
cp images.arrow gone.arrow
ctr-predict -q --images gone.arrow m.arrows rows2 >gone.p 2>gone.err &
pid=$!
exec 9>rows2
head -c 8000 test10.arrows >&9
i=0
while ! ls -l "/proc/$pid/fd" 2>/dev/null | grep -q gone.arrow && [ $i -lt 100 ]; do
    sleep .05
    i=$((i + 1))
done
rm gone.arrow
tail -c +8001 test10.arrows >&9
exec 9>&-
wait $pid
is 'a file whose name goes away meanwhile is still read' "$? $(scores gone.p | cksum)" "0 $(scores want.p | cksum)"
done_testing
