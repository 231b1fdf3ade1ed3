#!/bin/sh
# ctr-train dicm: agrees with an independent implementation, whose gradients are finite differences of the whole model, tower
# included; does not depend on how rows arrive; resumes to the same bytes; images that are missing or damaged.
. "${0%/*}/lib.sh"
has_python pyarrow || skip_all "no pyarrow"
REF="$CTR_TOP/tests/deep_reference.py"
cd "$W" || exit 1

# make.py ROWS SEED STREAM IMAGES [float16]: an image of each item, and a history of items and of their images, aligned
cat >make.py <<'EOP'
import random, sys
import pyarrow as pa
r = random.Random(int(sys.argv[2]))
past = lambda name, of, t: pa.field(name, pa.list_(t), metadata={"ctr.history": "history", "ctr.history_of": of})
schema = pa.schema([pa.field("click", pa.float64()), pa.field("w", pa.float64()), pa.field("item", pa.int64()), pa.field("photo", pa.string()),
    pa.field("word", pa.string()), pa.field("age", pa.float64()), past("h.item", "item", pa.int64()), past("h.photo", "photo", pa.string())])
rows = []
for i in range(int(sys.argv[1])):
    item, n = r.randrange(9), r.choice([0, 1, 2, 3, 5]) if i % 40 else 20
    h = [r.randrange(9) for _ in range(n)]
    liked = sum(k % 3 == item % 3 for k in h)
    rows.append({"click": .25 if i % 11 == 0 else float(r.random() < (.7 if liked else .3)), "w": [1.0, 1.0, 2.5, 0.0][i % 4], "item": item,
        "photo": "p%d" % item if i % 17 < 16 else None, "word": r.choice("xyz"), "age": r.random(), "h.item": h, "h.photo": ["p%d" % k for k in h]})
with pa.ipc.new_stream(sys.argv[3], schema) as w:
    w.write_table(pa.Table.from_pylist(rows, schema))
width = 4
images = [{"key": "p%d" % k, "vector": [float(k % 3 == j) + r.gauss(0, .3) for j in range(width)]} for k in range(10)]
fields = pa.schema([pa.field("key", pa.string()), pa.field("vector", pa.list_(pa.float32(), width))])
with pa.ipc.new_stream(sys.argv[4], fields) as w:
    w.write_table(pa.Table.from_pylist(images, fields))
EOP
cat >plan <<'EOP'
label click
weight w
feature item = item
feature past in item of item = `h.item`
image photo = photo
image seen in photo of photo = `h.photo`
feature word = word
dense age
EOP
printf 'image photo = key\nkeep vector\n' >images.plan
make() { "$PY" make.py "$1" "$2" raw.arrows "$4" && ctr-extract -q plan -o "$3" raw.arrows; }
make "$([ -n "$SAN" ] && echo 10 || echo 16)" 1 tiny.arrows images.arrows && cp raw.arrows raw.tiny && make 1500 2 rows.arrows images.arrows &&
    ctr-extract -q images.plan -o keys.arrows images.arrows || exit 1
small() { ctr-train dicm -q --images images.arrows --embedding 2 --hidden 3 --images-tower 3,2 --attention-hidden 2 --minibatch 8 --rate .01 "$@" tiny.arrows; }
told() { ctr-train dicm --images images.arrows --embedding 4 --hidden 12,8 --images-tower 8,6 --attention-hidden 6 --minibatch 100 --rate .01 "$@"; }
train() { told -q "$@"; }
scores() { ctr-export -f csv --columns score "$1"; }

# ---- the model, by finite differences through pooling, tower and base
agrees() { agrees_with dicm "hidden=3 images=keys.arrows images-tower=3,2 attention-hidden=2 minibatch=8 rate=.01" "$@"; } # agrees OPTIONS -- REFERENCE-OPTIONS
ok 'images summed: agrees with the reference: scores before each update, every value after' agrees --
ok 'their means, a tower without hidden layers' agrees --images-pool mean --images-tower 0 -- images-pool=mean images-tower=0
ok 'the largest' agrees --images-pool max -- images-pool=max
ok 'attentive' agrees --images-pool attentive -- images-pool=attentive
ok 'attentive, on din, softmax' agrees --images-pool attentive --base din --attention softmax -- images-pool=attentive base=din attention=softmax
ctr-select --where 'key != "p3"' -o lacks.arrows images.arrows
ctr-extract -q images.plan -o lacks.keys lacks.arrows
# without hidden layers: a unit that is 0 has no derivative
ok 'the largest, beside histories of ids with attention' agrees --images-pool max --base din -- images-pool=max base=din
ok 'the newest two side by side' agrees --images-pool concat --images-last 2 -- images-pool=concat images-last=2
ok 'the newest one' agrees --images-pool concat --images-last 1 -- images-pool=concat images-last=1
ok 'the newest 25, of fewer' agrees --images-pool concat --images-last 25 --base din --pooling mean -- images-pool=concat images-last=25 base=din pooling=mean
ok 'queries of the image and of the IDs that histories are the past of' agrees --images-pool multi-query -- images-pool=multi-query ad=item
ok 'queries of the IDs of --ad-features, on din, softmax' agrees --images-pool multi-query --ad-features item,word --base din --attention softmax -- \
    images-pool=multi-query ad=item,word base=din attention=softmax
# Histories with the oldest first, by the plan and by the column: the newest are at their end.
cp tiny.arrows newest.arrows && sed 's/of photo =/of photo oldest =/' plan >oldest.plan && ctr-extract -q oldest.plan -o tiny.arrows raw.tiny
ok 'the newest two of lists with the oldest first' agrees --images-pool concat --images-last 2 -- images-pool=concat images-last=2
mv newest.arrows tiny.arrows
cat >turn.py <<'EOP'
import sys
import pyarrow as pa
t = pa.ipc.open_stream(sys.argv[1]).read_all()
turned = lambda f: f.with_metadata({**f.metadata, "ctr.order": sys.argv[3]}) if f.name[:2] == "h." else f
rows = [{k: v[::-1] if k[:2] == "h." else v for k, v in r.items()} for r in t.to_pylist()]
schema = pa.schema([turned(f) for f in t.schema])
with pa.ipc.new_stream(sys.argv[2], schema) as w:
    w.write_table(pa.Table.from_pylist(rows, schema))
EOP
"$PY" turn.py raw.tiny turned.raw oldest && ctr-extract -q plan -o turned.arrows turned.raw
"$PY" turn.py raw.tiny false.raw newest && ctr-extract -q plan -o false.arrows false.raw
turned() { # the model of one order scores the other alike, and would not if it did not know it
    small --images-pool concat --images-last 2 --base lr -o concat.m && ctr-predict -q --images images.arrows concat.m tiny.arrows | scores - >a &&
        ctr-predict -q --images images.arrows concat.m turned.arrows | scores - >b && paste a b | awk 'NR > 1 { d = $1 - $2; if (d * d > 1e-12) exit 1 }' &&
        ctr-predict -q --images images.arrows concat.m false.arrows | scores - >c && ! cmp -s a c
}
ok 'a model takes the newest images of either order' turned
exits 'two orders in one input' 1 sh -c 'ctr-cat tiny.arrows turned.arrows >both'
err_like 'are refused' "column 'past' is of order newest in one and oldest in the other"
for pool in sum concat multi-query; do
    ok "logistic regression, $pool" agrees --base lr --images-pool $pool --images-last 2 -- base=lr images-pool=$pool images-last=2 ad=item
done
ok '--images-scale standard, and missing images, which are zeros behind it' agrees --images lacks.arrows --missing-image zero --images-tower 0 --images-scale standard -- \
    images=lacks.keys images-tower=0 images-scale=standard
ok 'missing images are zeros' agrees --images lacks.arrows --missing-image zero --images-tower 0 -- images=lacks.keys images-tower=0
wrong() { ! agrees --images-pool mean --; }
[ "$SAN" ] || ok 'the check can fail' wrong
grep -v '^feature\|^dense' plan >images-only.plan
only() { "$PY" make.py 60 4 raw.arrows x.images && ctr-extract -q images-only.plan raw.arrows | train -o only.arrows && ctr-extract -q images-only.plan raw.arrows |
    ctr-predict --images images.arrows only.arrows >/dev/null; }
ok 'images alone' only
as_ids() { ctr-train dicm -q --images-as-ids --embedding 3 --hidden 4 -o ids.arrows rows.arrows && ctr-predict ids.arrows rows.arrows | ctr-export -f csv >a.csv &&
    ctr-extract -q rows.plan raw2.arrows | ctr-train mlp -q --embedding 3 --hidden 4 -o mlp.arrows &&
    ctr-extract -q rows.plan raw2.arrows | ctr-predict mlp.arrows | ctr-export -f csv >b.csv && cmp a.csv b.csv; }
ids_lr() { ctr-train dicm -q --images-as-ids --base lr --embedding 3 -o ids.arrows rows.arrows && ctr-predict ids.arrows rows.arrows >/dev/null &&
    ctr-export -f safetensors -o ids.safetensors ids.arrows && grep -q '"emb.photo":{"dtype":"F32","shape":\[[0-9]*,1\]' ids.safetensors; }
ok '--images-as-ids --base lr: a number a key' ids_lr
sed 's/^image/feature/' plan >rows.plan
"$PY" make.py 1500 2 raw2.arrows x.images
ok '--images-as-ids is mlp with features in place of images' as_ids

# ---- the same bytes however rows arrive
for o in '--images-pool concat --images-last 3' '--images-pool multi-query --base lr --images-scale standard'; do
    # shellcheck disable=SC2086
    train $o -j 1 -o want.arrows --progressive want.p rows.arrows
    # shellcheck disable=SC2086
    train $o -j 4 -o got.arrows --progressive got.p rows.arrows
    ok "$o -j 4: the same model" cmp want.arrows got.arrows
    ok "$o -j 4: the same predictions" cmp want.p got.p
    # shellcheck disable=SC2086
    ctr-cat --batch 7 rows.arrows | train $o --progressive got.p >got.arrows
    ok "$o over a pipe, other batches: the same model" ref same want.arrows got.arrows
    is "$o: the same predictions" "$(scores got.p | cksum)" "$(scores want.p | cksum)"
    ctr-predict -j 1 --images images.arrows want.arrows rows.arrows >p1
    ctr-cat --batch 11 rows.arrows | ctr-predict -j 4 --images images.arrows want.arrows >p4
    is "$o: scores do not depend on batches or threads" "$(scores p1 | cksum)" "$(scores p4 | cksum)"
done
onhost=$CTR_BUILD/onhost/ctr-cuda.so
if [ -f "$onhost" ]; then
    near() { CTR_CUDA_PLUGIN=$onhost train --device gpu -o gpu.arrows rows.arrows && train -o cpu.arrows rows.arrows && ref same gpu.arrows cpu.arrows 2e-3; }
    ok 'the kernels of a GPU, on the host: the same model but for rounding' near
    numbered() { CTR_CUDA_PLUGIN=$onhost CTR_WORKING_SET=0 train --passes 2 --device gpu -o host.arrows rows.arrows &&
        CTR_CUDA_PLUGIN=$onhost told --passes 2 --device gpu -o there.arrows rows.arrows 2>said && cmp host.arrows there.arrows && grep -q '^keys numbered by     the device$' said; }
    ok 'the device numbers the keys that are no images: the same model' numbered
else
    skip 'the kernels of a GPU' 'there is no c++'
fi
ctr-export -f safetensors -o t.safetensors want.arrows
ok 'the model has the tower' grep -q dicm.image.0.weight t.safetensors

# ---- what attention weighs (ctr-model explain --attention)
ctr-extract -q --names names.arrows plan -o named.arrows raw2.arrows
explain() { ctr-model explain -q --attention --images images.arrows "$@"; }
ctr-select --head 60 named.arrows -o few.arrows
ctr-select --head 60 raw2.arrows -o few.raw
attends() { # attends OPTIONS -- REFERENCE-OPTIONS: the weights of a model that learned with OPTIONS
    _o=
    while [ "$1" != -- ]; do _o="$_o $1"; shift; done
    shift
    # shellcheck disable=SC2086
    train $_o -o a.model rows.arrows && for n in 0 2; do
        explain -n $n --format stream a.model few.arrows >a.explained &&
            ref attention a.model few.arrows a.explained n=$n images=keys.arrows hidden=12,8 images-tower=8,6 attention-hidden=6 "$@" || return 1
    done
}
ok 'explain: the weights of attention are those of the reference' attends --images-pool attentive -- images-pool=attentive
ok 'softmax, queries of IDs, histories of ids' attends --images-pool multi-query --base din --attention softmax -- \
    images-pool=multi-query base=din attention=softmax ad=item
not_softmax() { ! ref attention a.model few.arrows a.explained n=2 images=keys.arrows hidden=12,8 images-tower=8,6 attention-hidden=6 images-pool=multi-query base=din ad=item; }
[ "$SAN" ] || ok 'the check can fail' not_softmax
explain -n 0 --format stream a.model few.raw >raw.explained
explain -n 0 --format stream --names names.arrows a.model few.arrows >named.explained
is 'raw rows have the names that --names tells of features' "$(ctr-info --digest raw.explained)" "$(ctr-info --digest named.explained)"
is 'of every item' "$(ctr-select --where 'is_null(name)' raw.explained | ctr-info | sed -n 's/^rows: //p')" 0
is 'which are the keys of images' "$(ctr-select --where 'list == "seen"' raw.explained | ctr-export -f csv --columns name,candidate | awk -F, 'NR > 1 && ($1 !~ /^p[0-9]$/ || $2 !~ /^(p[0-9]|.?.missing..?|)$/)')" ''
is 'the scores of ctr-predict' "$(ctr-select --where 'place == 1 and unit == 2' --columns row,score raw.explained | ctr-sort -q -k row --unique | ctr-export -f csv | md5sum)" \
    "$(ctr-predict -q --images images.arrows a.model few.arrows | ctr-select --columns score | ctr-export -f csv | awk 'NR == 1 { print "row,score"; next } { print NR - 1 "," $0 }' >all.csv
    ctr-select --where 'place == 1 and unit == 2' --columns row raw.explained | ctr-export -f csv | sort -n -u | awk -F, 'NR == FNR { keep[$1]; next } $1 in keep' - all.csv | md5sum)"
ctr-cat --batch 7 few.arrows | explain -n 0 --format stream --names names.arrows a.model >got.explained
is 'whatever batches are' "$(ctr-info --digest got.explained)" "$(ctr-info --digest named.explained)"
ok 'a text for people' sh -c "explain() { ctr-model explain -q --attention --images images.arrows \"\$@\"; }; explain -n 1 a.model few.raw >text && grep -q '^row 2: score 0' text && grep -Eq '^ +weight  place  item, beside photo=p[0-9]' text && grep -Eq '^ +[+-]0\.[0-9]{6} +[0-9]+  seen=p[0-9]' text && grep -q 'beside .ids.' text && grep -q '(rest)=' text"
page() { # of what attention weighs: pictures inside, light and dark
    mkdir pics && for k in 0 1 2 3 4 5 6 7 8 9; do printf 'picture %d' $k >pics/p$k.jpg; done && tar cf pics.tar -C pics . &&
        ctr-export -f jsonl few.raw >few.jsonl && explain -n 3 --format stream a.model few.raw | ctr-export -f jsonl >few.weights &&
        "$PY" "$CTR_TOP/examples/attention.py" few.jsonl few.weights pics.tar item click >page.html && test "$(grep -c '^<section>' page.html)" -gt 20 &&
        grep -q 'prefers-color-scheme: dark' page.html && grep -q 'src="data:image/jpeg;base64,cGljdHVyZSA' page.html && ! grep -Eq '(src|href)="[^d]|http' page.html
}
ok 'a page with pictures, self-contained' page
exits 'a model of images without them' 2 ctr-model explain a.model few.arrows
err_like 'is told' 'the model learns from images: --images FILE has their vectors'
exits 'explain: an image that the file lacks' 1 ctr-model explain --images lacks.arrows a.model few.arrows
err_like 'is told by row' 'row [0-9]*: image #'
train -o sum.model rows.arrows
exits 'a model that weighs nothing' 2 ctr-model explain --attention --images images.arrows sum.model few.arrows
err_like 'says so' "sum.model: a model of kind 'dicm' without attention units weighs no items"
exits 'images that are none' 1 ctr-model explain --images rows.arrows a.model few.arrows
exits 'a full disk' 1 sh -c 'ctr-model explain --images images.arrows a.model few.arrows >/dev/full'

# ---- checkpoints: killed at any moment, a run goes on to the same bytes
run() { timeout "$@" ctr-train dicm -q --images images.arrows --embedding 4 --hidden 12,8 --images-tower 8,6 --attention-hidden 6 --minibatch 100 --rate .01 \
    --images-scale standard --passes 3 --checkpoint d.ckpt --checkpoint-every 150 --resume -o got.arrows --progressive got.p batches.arrows; }
ctr-cat --batch 70 -o batches.arrows rows.arrows
train --images-scale standard --passes 3 -o want3.arrows --progressive want3.p batches.arrows
killed_runs '' run 005 010 020 040 080 150
ok 'killed and resumed: the same model' ref same want3.arrows got.arrows
ok 'and the same predictions' cmp want3.p got.p

# ---- what is missing or damaged
exits 'an image that the file lacks' 1 ctr-train dicm --images lacks.arrows -o x.arrows rows.arrows
err_like 'names row, column, file and remedy' 'rows.arrows: row [0-9]*: image #[0-9a-f]{16} of column .* is not in lacks.arrows .ctr-extract --names tells its name.: add it .* or train with --missing-image zero'
exits '--missing-image zero' 0 ctr-train dicm --missing-image zero --images lacks.arrows --embedding 3 --hidden 4 --images-tower 3 -o zero.arrows rows.arrows
err_like 'counts them' 'not in the file  *[1-9]'
exits 'and so does the model' 0 sh -c 'ctr-predict -q --images lacks.arrows zero.arrows rows.arrows >p'
bad() { "$PY" - "$1" <<'EOP'
import sys
import pyarrow as pa
bad = {"nan": [["a", [1, 2]], ["b", [1, float("nan")]]], "twice": [["a", [1, 2]], ["b", [1, 2]], ["a", [1, 2]]],
    "length": [["a", [1, 2]], ["b", [1, 2, 3]]], "null": [["a", [1, 2]], ["b", None]], "none": [], "empty": [["a", []]]}[sys.argv[1]]
schema = pa.schema([pa.field("key", pa.string()), pa.field("vector", pa.list_(pa.float32()))])
with pa.ipc.new_stream(sys.argv[1] + ".bad", schema) as w:
    w.write_table(pa.Table.from_pylist([{"key": k, "vector": v} for k, v in bad], schema))
EOP
}
refuses() { # refuses WHAT MESSAGE
    bad "$1"
    exits "images: $1" 1 ctr-train dicm --images "$1.bad" -o x.arrows rows.arrows
    err_like 'is named' "$1.bad: $2"
}
refuses nan "row 2: number 2 of the vector of 'b' is null, NaN or infinite"
refuses twice "row 3: a second vector of 'a'"
refuses length "row 2: the vector of 'b' has 3 numbers, those before have 2"
refuses null "row 2: the vector of 'b' is null"
refuses none 'it has no vectors'
refuses empty "row 1: the vector of 'a' has no numbers"
exits 'images without vectors' 1 ctr-train dicm --images rows.arrows -o x.arrows rows.arrows
exits 'no file of images' 2 ctr-train dicm -o x.arrows rows.arrows
err_like 'is told' 'the model learns from images: --images FILE has their vectors'
exits 'nor in prediction' 2 ctr-predict want.arrows rows.arrows
bad length
ctr-select --where 'key == "b"' -o three.arrows length.bad
exits 'vectors of another length than the model learned' 1 ctr-predict --images three.arrows want.arrows rows.arrows
err_like 'are told' 'three.arrows: its vectors have 3 numbers, the model learned from vectors of 4'
exits 'nor do they go on learning' 1 ctr-train dicm -q --images three.arrows --embedding 4 --hidden 12,8 --images-tower 8,6 --init want.arrows -o x.arrows rows.arrows
err_like 'which is told' 'three.arrows: its vectors have 3 numbers'
exits 'images for mlp' 2 ctr-train mlp -o x.arrows rows.arrows
err_like 'are refused' "column 'photo' has the role image, and mlp does not learn from images: train dicm"
exits 'rows without images' 2 sh -c 'ctr-extract -q rows.plan raw2.arrows | ctr-train dicm --images images.arrows -o x.arrows'
err_like 'are told' 'no column has the role image'
sed 's/ of photo//; s/`h.photo`/split("p1 p2", " ")/' plan >lone.plan
exits 'attention to images that are the past of none' 2 sh -c 'ctr-extract -q lone.plan raw2.arrows | ctr-train dicm --images-pool attentive --images images.arrows -o x.arrows'
err_like 'is told' 'no list of images says which image it is the past of'
sed 's/^feature past.*/feature past = `h.item`/' plan >noids.plan
exits 'no IDs to ask with' 2 sh -c 'ctr-extract -q noids.plan raw2.arrows | ctr-train dicm --images-pool multi-query --images images.arrows -o x.arrows'
err_like 'is told' 'no IDs of the ad to ask with: name the ad.s inputs of keys with --ad-features'
exits 'a full device' 1 sh -c 'ctr-train dicm -q --images images.arrows rows.arrows >/dev/full'
done_testing
