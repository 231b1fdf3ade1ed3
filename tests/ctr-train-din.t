#!/bin/sh
# ctr-train din: agrees with an independent implementation, whose gradients are finite differences of the whole model; does
# not depend on how rows arrive; resumes to the same bytes; rows without a history; what is wrong is said.
. "${0%/*}/lib.sh"
has_python pyarrow || skip_all "no pyarrow"
REF="$CTR_TOP/tests/deep_reference.py"
cd "$W" || exit 1

# Raw rows: a history of aligned columns, one of which is the past of nothing here, and a list that is a history by itself.
cat >make.py <<'EOP'
import random, sys
import pyarrow as pa
r = random.Random(int(sys.argv[2]))
def past(name, of, t):
    return pa.field(name, pa.list_(t), metadata={"ctr.history": "history", **({"ctr.history_of": of} if of else {})})
schema = pa.schema([pa.field("click", pa.float64()), pa.field("w", pa.float64()), pa.field("item", pa.int64()), pa.field("cat", pa.string()),
    pa.field("word", pa.string()), pa.field("age", pa.float64()), past("h.item", "item", pa.int64()), past("h.cat", "cat", pa.string()),
    past("h.days", None, pa.int64()), pa.field("bought", pa.string())])
rows = []
for i in range(int(sys.argv[1])):
    item, n = r.randrange(12), r.choice([0, 1, 2, 3, 5]) if i % 40 else 30
    h = [r.randrange(12) for _ in range(n)]
    liked = sum(k % 3 == item % 3 for k in h)
    rows.append({"click": .25 if i % 11 == 0 else float(r.random() < (.7 if liked else .3)), "w": [1.0, 1.0, 2.5, 0.0][i % 4], "item": item,
        "cat": "c%d" % (item % 3), "word": r.choice("xyz"), "age": r.random(), "h.item": h, "h.cat": ["c%d" % (k % 3) for k in h],
        "h.days": [r.randrange(3) for _ in h], "bought": " ".join(str(r.randrange(12)) for _ in range(r.choice([0, 0, 1, 2])))})
with pa.ipc.new_stream(sys.stdout.buffer, schema) as w:
    w.write_table(pa.Table.from_pylist(rows, schema))
EOP
cat >plan <<'EOP'
label click
weight w
feature item = item
feature cat = cat
feature past in item = `h.item`
feature pcat in cat = `h.cat`
feature days = `h.days`
feature bought in item of item = split(bought, " ")
feature word = word
dense age
EOP
make() { "$PY" make.py "$1" "$2" | ctr-extract -q plan -o "$3"; }
make "$([ -n "$SAN" ] && echo 16 || echo 24)" 1 tiny.arrows && make 1500 2 rows.arrows || exit 1
small() { ctr-train din -q --embedding 2 --hidden 3 --attention-hidden 2 --minibatch 12 --rate .01 "$@" tiny.arrows; }
train() { ctr-train din -q --embedding 4 --hidden 12,8 --attention-hidden 6,4 --minibatch 100 --rate .01 "$@"; }
scores() { ctr-export -f csv --columns score "$1"; }

# ---- the model: aligned fields, one without a candidate, two histories, empty ones, row weights, fractional labels
agrees() { agrees_with din "hidden=3 attention-hidden=2 minibatch=12 rate=.01 activation=dice" "$@"; } # agrees OPTIONS -- REFERENCE-OPTIONS
ok 'agrees with the reference: scores before each update, every value after' agrees --
ok 'the columns of the user first' agrees --user-features word,age,past --
ok 'softmax' agrees --attention softmax -- attention=softmax
ok 'prelu' agrees --activation prelu -- activation=prelu
ok 'units without hidden layers, softmax' agrees --attention-hidden 0 --attention softmax -- attention-hidden=0 attention=softmax
ok 'batch normalization, dropout, means, l2' agrees --batch-norm --dropout .3 --seed 3 --pooling mean --l2 .1 -- \
    batch-norm=1 dropout=.3 seed=3 pooling=mean l2=.1
wrong() { ! agrees -- attention=softmax; }
[ "$SAN" ] || ok 'the check can fail' wrong

# ---- the same bytes however rows arrive
for o in '' '--attention softmax --activation prelu --l2 .1'; do
    # shellcheck disable=SC2086
    train $o -j 1 -o want.arrows --progressive want.p rows.arrows
    for j in 2 4; do
        # shellcheck disable=SC2086
        train $o -j $j -o got.arrows --progressive got.p rows.arrows
        ok "din $o -j $j: the same model" cmp want.arrows got.arrows
        ok "din $o -j $j: the same predictions" cmp want.p got.p
    done
    # shellcheck disable=SC2086
    small_batches rows.arrows train $o --progressive got.p >got.arrows
    ok "din $o other batches: the same model" ref same want.arrows got.arrows
    is "din $o: the same predictions" "$(scores got.p | cksum)" "$(scores want.p | cksum)"
    # shellcheck disable=SC2086
    CTR_CPU=plain train $o -o got.arrows rows.arrows
    ok "din $o: the same model on a plain processor" cmp want.arrows got.arrows
done
onhost=$CTR_BUILD/onhost/ctr-cuda.so
if [ -f "$onhost" ]; then
    near() { CTR_CUDA_PLUGIN=$onhost train --device gpu -o gpu.arrows rows.arrows && train -o cpu.arrows rows.arrows && ref same gpu.arrows cpu.arrows 2e-3; }
    ok 'the kernels of a GPU, on the host: the same model but for rounding' near
else
    skip 'the kernels of a GPU' 'there is no c++'
fi

# ---- prediction
train -o want.arrows rows.arrows
ctr-predict -j 1 want.arrows rows.arrows >p1
ctr-cat --batch 11 rows.arrows | ctr-predict -j 4 want.arrows >p4
is 'scores do not depend on batches or threads' "$(scores p1 | cksum)" "$(scores p4 | cksum)"
ctr-select --tail 10 rows.arrows | ctr-predict want.arrows >p10
is 'nor on the other rows' "$(scores p10 | tail -n 10)" "$(scores p1 | tail -n 10)"
ctr-export -o want.safetensors want.arrows
ok 'the exported tensors predict the same' ref score want.safetensors rows.arrows p1 hidden=12,8 attention-hidden=6,4 activation=dice

# ---- histories: the candidate is looked at, the order of items is not
"$PY" - <<'EOP' | ctr-extract -q want.arrows -o asked.arrows
import sys
import pyarrow as pa
sys.path.insert(0, ".")
past = lambda name, of, t: pa.field(name, pa.list_(t), metadata={"ctr.history": "history", **({"ctr.history_of": of} if of else {})})
schema = pa.schema([pa.field("click", pa.float64()), pa.field("w", pa.float64()), pa.field("item", pa.int64()), pa.field("cat", pa.string()),
    pa.field("word", pa.string()), pa.field("age", pa.float64()), past("h.item", "item", pa.int64()), past("h.cat", "cat", pa.string()),
    past("h.days", None, pa.int64()), pa.field("bought", pa.string())])
row = {"click": 0.0, "w": 1.0, "item": 3, "cat": "c0", "word": "x", "age": .5, "h.item": [1, 3], "h.cat": ["c1", "c0"], "h.days": [0, 1], "bought": ""}
rows = [row, {**row, "h.item": [3, 1], "h.cat": ["c0", "c1"], "h.days": [1, 0]}, {**row, "h.item": [], "h.cat": [], "h.days": []}]
with pa.ipc.new_stream(sys.stdout.buffer, schema) as w:
    w.write_table(pa.Table.from_pylist(rows, schema))
EOP
turned() {
    ctr-predict -q want.arrows asked.arrows | ctr-export -f csv --no-header --columns score >asked.txt
    awk '{ s[NR] = $1 } END { d = s[1] - s[2]; if (d < 0) d = -d; exit !(d < 1e-6 && s[3] != s[1]) }' asked.txt
}
ok 'the order of items is no matter, that there are none is' turned

# ---- checkpoints: killed at any moment, a run goes on to the same bytes
run() { timeout "$@" ctr-train din -q --embedding 4 --hidden 12,8 --attention-hidden 6,4 --minibatch 100 --rate .01 --passes 3 \
    --checkpoint d.ckpt --checkpoint-every 150 --resume -o got.arrows --progressive got.p batches.arrows; }
ctr-cat --batch 70 -o batches.arrows rows.arrows
train --passes 3 -o want3.arrows --progressive want3.p batches.arrows
killed_runs '' run 005 010 015 020 030 040 060 080 110 150 200
ok 'killed and resumed: the same model' ref same want3.arrows got.arrows
ok 'and the same predictions' cmp want3.p got.p
ctr-train din -q --embedding 4 --hidden 12,8 --attention-hidden 6,4 --minibatch 100 --rate .01 --init want.arrows -o twice.arrows rows.arrows
train --passes 2 -o two.arrows rows.arrows
ok '--init goes on as a second pass would' ref same two.arrows twice.arrows

# ---- what is wrong
exits '--init of another shape' 1 ctr-train din --init want.arrows --embedding 4 --hidden 12,8 --attention-hidden 6,5 -o x.arrows rows.arrows
err_like 'is told' 'want.arrows: the model has the parameter attention1.1.weight of 4 x 6, with these options it is attention1.1.weight of 5 x 6'
exits '--init of mlp' 2 sh -c 'ctr-train mlp -q --hidden 3 -o mlp.arrows tiny.arrows && ctr-train din --init mlp.arrows -o x.arrows tiny.arrows'
err_like 'is told' 'this is a model of kind mlp, not din'
grep -v 'past\|pcat\|days\|bought' plan >none.plan
exits 'no history' 2 sh -c '"$0" make.py 20 1 | ctr-extract -q none.plan | ctr-train din -o x.arrows' "$PY"
err_like 'says what to do' "no feature says which one it is the past of: add 'feature past of item = "
# Where nobody asks for predictions before updates, they are left out; the model is the same, and so is what a diverging run says.
for o in '' '--activation prelu --batch-norm --dropout .2' '--activation prelu'; do
    # shellcheck disable=SC2086
    train $o --passes 2 --progressive asked.p -o asked.arrows rows.arrows
    # shellcheck disable=SC2086
    ctr-cat --batch 7 rows.arrows | train $o --passes 2 --spool spool -o quiet.arrows
    ok "${o:-dice}: the same model with and without predictions before updates" ref same asked.arrows quiet.arrows
done
exits 'a rate that diverges, with -q' 1 train --rate 1e30 -o x.arrows rows.arrows
err_like 'names the row' 'row [0-9]*: .* is not a number.*the learner diverged'

# Lists of one group are aligned as lists (models.t); here each item also wants a key, which a null in a stream of another program has not.
"$PY" - <<'EOP' >nulls.arrows
import sys
import pyarrow as pa
t = pa.ipc.open_stream("rows.arrows").read_all()
lists = t["past"].to_pylist()
at = next(i for i, v in enumerate(lists) if i > 5 and v)
lists[at][0] = None
open("at", "w").write(str(at + 1))
t = t.set_column(t.schema.get_field_index("past"), t.schema.field("past"), pa.array(lists, t.schema.field("past").type))
with pa.ipc.new_stream(sys.stdout.buffer, t.schema) as w:
    w.write_table(t)
EOP
exits 'an item of a history without a key' 1 ctr-train din -o x.arrows nulls.arrows
err_like 'is told with row, columns and reason' "nulls.arrows: row $(cat at): 'days' has [1-9][0-9]* keys and 'past' has [0-9]+: lists of one history .history. are aligned, item by item; an item that is null or has the weight 0 gives no key"
exits 'which mlp, whose lists are sets, leaves out' 0 ctr-train mlp -q --hidden 3 -o x.arrows nulls.arrows
grep -v '^feature cat' plan >lacks.plan
exits 'a candidate that is missing' 0 sh -c '"$0" make.py 20 1 | ctr-extract -q lacks.plan | ctr-train din -q -o x.arrows' "$PY"
exits 'an attention that is none' 2 ctr-train din --attention hard -o x.arrows rows.arrows
exits 'sizes that are none' 2 ctr-train din --attention-hidden 3,x -o x.arrows rows.arrows
err_like 'say which option' '--attention-hidden wants sizes of layers'
exits 'an option of din for mlp' 2 ctr-train mlp --attention softmax -o x.arrows rows.arrows
err_like 'is refused' 'mlp takes no --attention'
exits 'a stream of no rows' 0 sh -c 'ctr-select --head 0 rows.arrows | ctr-train din -q -o empty.arrows'
ok 'gives a model that predicts' sh -c 'ctr-predict empty.arrows rows.arrows >/dev/null'
exits '--memory' 1 ctr-train din --memory 100K -o x.arrows rows.arrows
err_like 'says what is needed' 'need .* to go on, --memory allows 100 KiB: raise it'
exits 'a full device' 1 sh -c 'ctr-train din -q rows.arrows >/dev/full'
done_testing
