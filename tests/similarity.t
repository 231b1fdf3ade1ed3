#!/bin/sh
# similarity, histogram and top_by beside numpy: cosines of keyed vectors of float32, float16 and int8, counts of them by part, the
# items with the largest; whatever -j and batches; in lr and deep models; histories of 100,000 items.
. "${0%/*}/lib.sh"
has_python numpy || skip_all 'no numpy'
[ -x "$CTR_BUILD/bin/ctr-embed-images" ] || skip_all 'ctr-embed-images was left out of the build'
cd "$W" || exit 1

cat >make.py <<'PY'
import json, sys
import numpy as np
g = np.random.default_rng(5)
n, d, rows = 300, 21, 900
v = g.standard_normal((n, d)).astype(np.float32) * np.exp(g.standard_normal((n, 1))).astype(np.float32)
v[7] = 0  # no direction
with open("vectors.csv", "w") as f:
    print("id,vector", file=f)
    for i in range(n):
        if i % 11:  # the others have no vector
            print(f'a{i},"[{",".join(repr(float(x)) for x in v[i])}]"', file=f)
with open("rows.jsonl", "w") as f:
    for r in range(rows):
        m = 0 if r % 13 == 0 else int(g.integers(1, 60))
        past = [None if g.random() < .05 else f"a{int(g.integers(0, n + 5))}" for _ in range(m)]
        print(json.dumps({"row": r, "click": int(g.random() < .3), "ad": None if r % 17 == 3 else f"a{int(g.integers(0, n))}",
                          "past": None if r % 19 == 4 else past, "when": list(range(m)) if r % 23 else [1]}), file=f)
PY
cat >check.py <<'PY'
import csv, json, sys
import numpy as np
csv.field_size_limit(1 << 30)
stored, made, kind, tolerance = sys.argv[1:5]  # the text of a float is the shortest of its type
tolerance = float(tolerance)
vectors = {}
for r in csv.DictReader(open(stored)):
    vectors[r["id"]] = np.array(json.loads(r["vector"]), dtype=kind).astype(np.float64) * float(r.get("scale") or 1)
rows = [json.loads(x) for x in open("rows.jsonl")]
got = list(csv.DictReader(open(made)))
assert len(got) == len(rows), (len(got), len(rows))
nulls = items = missing = 0
def cell(text):
    return None if text == "-" else json.loads(text)
def quoted(text):
    return None if text == "-" else [None if x is None else str(x) for x in json.loads(text)]
for r, o in zip(rows, got):
    assert int(o["row"]) == r["row"]
    own = vectors.get(r["ad"])
    want = None
    if own is not None and own.any() and r["past"] is not None:
        want = []
        for k in r["past"]:
            v = vectors.get(k)
            want.append(None if v is None or not v.any() else float(own @ v / np.linalg.norm(own) / np.linalg.norm(v)))
    elif own is not None and r["past"] is not None:
        want = [None] * len(r["past"])  # a vector without direction
    s = cell(o["s"])
    assert (s is None) == (want is None), (r, o)
    nulls += s is None
    if s is None:
        assert o["h"] == o["t"] == o["w"] == "-"
        continue
    assert len(s) == len(want)
    for a, b in zip(s, want):
        assert (a is None) == (b is None), (a, b)
        missing += a is None
        items += 1
        assert a is None or (abs(a - b) < tolerance and abs(a) <= 1), (a, b)
    x = np.array([a for a in s if a is not None])
    bins = np.clip(np.floor((x + 1) / 2 * 8), 0, 7).astype(int) if len(x) else np.array([], dtype=int)
    h = np.log1p(np.bincount(bins, minlength=8).astype(np.float64)).astype(np.float32)
    assert np.allclose(np.array(json.loads(o["h"]), dtype=np.float32), h, rtol=2e-7, atol=0), (o["h"], h)
    order = sorted((i for i in range(len(s)) if s[i] is not None), key=lambda i: (-s[i], i))[:5]
    assert quoted(o["t"]) == [r["past"][i] for i in order], (o["t"], order)
    if len(r["when"]) == len(s):
        assert json.loads(o["w"]) == [r["when"][i] for i in order], o["w"]
    else:
        assert o["w"] == "-", o["w"]
assert nulls > 50 and items > 5000 and missing > 300, (nulls, items, missing)
print(nulls, items, missing)
PY
"$PY" make.py
ctr-import -q -f csv --header --columns 'id,vector:fixed_size_list<float32>[21]' vectors.csv | ctr-sort -q -k id | ctr-cat -q --to file --batch 16 --key id -o f32.arrow
ctr-import -q -f jsonl --columns row:int64,click:int8,ad:utf8,past:list\<utf8\>,when:list\<int64\> rows.jsonl -o rows.arrows
for type in float16 int8; do
    ok "$type: stored" sh -c "ctr-embed-images --vectors --type $type -o $type.arrow f32.arrow 2>said"
    ok "$type: its error is told" grep -Eq "^ctr-embed-images: $type: a stored vector x' is off by .* = [0-9.e-]* on average, [0-9.e-]* at most" said
done
cat >plan <<'PLAN'
keep row
keep s = similarity("vectors.arrow", ad, past, "vector")
keep h = histogram(s, -1, 1, 8)
keep t = top_by(past, s, 5)
keep w = top_by(when, s, 5)
PLAN
table() { ctr-export -q --format csv --null - "$@"; }
for type in f32:float32 float16:float16 int8:int8; do
    kind=${type#*:} type=${type%:*}
    cp $type.arrow vectors.arrow
    ctr-export -q --format csv $type.arrow >stored.csv
    ok "$type: extraction" ctr-extract -q plan rows.arrows -o got.arrows
    table got.arrows >got.csv
    ok "$type: beside numpy" "$PY" check.py stored.csv got.csv $kind 1e-12
    for how in '-j 3' '--batch 7'; do
        # shellcheck disable=SC2086
        ctr-cat -q --batch 50 rows.arrows | ctr-extract -q $how plan -o more.arrows
        is "$type: $how" "$(ctr-info --digest <more.arrows)" "$(ctr-info --digest <got.arrows)"
    done
done
cp f32.arrow vectors.arrow
ok 'the check can fail' sh -c "! '$PY' check.py stored.csv got.csv int8 1e-9 2>err || sed 's/0\\.1/0.2/' got.csv >bad.csv && ! '$PY' check.py stored.csv bad.csv int8 1e-9 2>err"
ok 'a small --memory cuts batches' sh -c 'ctr-extract -q --memory 4M plan rows.arrows -o more.arrows && [ "$(ctr-export -q more.arrows | cksum)" = "$(ctr-extract -q plan rows.arrows | ctr-export -q | cksum)" ]'

# ---- embedding and lookup: the numbers that a table stands for
cat >pool.plan <<'PLAN'
keep row
keep l = lookup("vectors.arrow", ad, "vector")
keep m = embedding("vectors.arrow", past, "vector")
keep x = embedding("vectors.arrow", past, "vector", pool="max")
PLAN
cat >pool.py <<'PY'
import csv, json, sys
import numpy as np
vectors = {r["id"]: np.array(json.loads(r["vector"]), dtype=sys.argv[3]).astype(np.float32) * np.float32(r.get("scale") or 1)
           for r in csv.DictReader(open(sys.argv[1]))}
rows = [json.loads(x) for x in open("rows.jsonl")]
got, seen = list(csv.DictReader(open(sys.argv[2]))), 0
assert len(got) == len(rows)
for r, o in zip(rows, got):
    has = np.array([vectors[k] for k in r["past"] or [] if k in vectors], dtype=np.float32)
    want = {"l": vectors.get(r["ad"]), "m": has.astype(np.float64).mean(0) if len(has) else None, "x": has.max(0) if len(has) else None}
    for name, w in want.items():
        assert (o[name] == "-") == (w is None), (name, r, o)
        if w is not None:
            seen += 1
            assert np.array_equal(np.array(json.loads(o[name]), dtype=np.float32), w.astype(np.float32)), (name, r, o[name])
assert seen > 2000, seen
PY
for type in f32:float32 float16:float16 int8:int8; do
    kind=${type#*:} type=${type%:*}
    cp $type.arrow vectors.arrow
    ctr-export -q --format csv $type.arrow >stored.csv
    ok "$type: lookup and embedding" ctr-extract -q pool.plan rows.arrows -o got.arrows
    table got.arrows >got.csv
    ok "$type: … beside numpy" "$PY" pool.py stored.csv got.csv $kind
done
cp f32.arrow vectors.arrow

# ---- how far int8 and float16 are off: the definition
ok 'the error that is told is that of the definition' "$PY" - <<'PY'
import csv, json, re, subprocess
import numpy as np
def table(path):
    out = subprocess.run(["ctr-export", "-q", "--format", "csv", path], capture_output=True, text=True, check=True).stdout
    return {r["id"]: np.array(json.loads(r["vector"]), dtype=np.float64) * float(r.get("scale") or 1) for r in csv.DictReader(out.splitlines())}
v = table("f32.arrow")
for type in "float16", "int8":
    said = subprocess.run(["ctr-embed-images", "--vectors", "--type", type, "-o", "again.arrow", "f32.arrow"], capture_output=True, text=True, check=True).stderr
    mean, most = map(float, re.search(r"= (\S+) on average, (\S+) at most", said).groups())
    w = table(type + ".arrow")
    e = [np.linalg.norm(v[k] - w[k]) / np.linalg.norm(v[k]) if v[k].any() else 0 for k in v]
    assert set(v) == set(w)
    assert abs(mean - np.mean(e)) < .06 * np.mean(e) and abs(most - np.max(e)) < .06 * np.max(e), (type, mean, most, np.mean(e), np.max(e))
    if type == "int8":
        for k in v:
            assert np.all(np.abs(v[k] - w[k]) <= np.abs(v[k]).max() / 127 * .50001), k
PY

# ---- in models: vectors as numbers, the nearest as features
cat >tier.plan <<'PLAN'
label   click
s       = similarity("vectors.arrow", ad, past, "vector")
feature ad
feature near in ad of ad = top_by(past, s, 4)
dense   tier = histogram(s, -1, 1, 8)
PLAN
for model in 'lr --alpha .1' 'mlp --embedding 4 --hidden 4' 'din --embedding 4 --hidden 4' 'fm --embedding 4'; do
    # shellcheck disable=SC2086
    ok "$model" ctr-train $model -q --minibatch 64 -o m.m tier.plan rows.arrows
    ok "$model: the model extracts and predicts" sh -c 'ctr-extract -q m.m rows.arrows | ctr-predict -q m.m | ctr-export -q --no-header -c score | sort -u | wc -l | grep -qv "^[01]$"'
done
ok 'lr has a weight for each part' sh -c 'ctr-train lr -q -o m.m tier.plan rows.arrows && ctr-export -q --format csv m.m | grep -c tier >n && [ $(cat n) -ge 4 ] && [ $(cat n) -le 8 ]'

# ---- as images: a table of int8 or float16 is that of the numbers that it stands for
printf 'label click\nfeature ad\nimage photo = ad\nimage seen in photo of photo = past\n' >image.plan
ctr-extract -q image.plan rows.arrows -o images.arrows
for type in float16 int8; do
    ctr-export -q --format csv $type.arrow >stored.csv
    "$PY" - $type <<'PY'
import csv, json, sys
import numpy as np
kind = np.float16 if sys.argv[1] == "float16" else np.int8
with open("plain.csv", "w") as f:
    print("id,vector", file=f)
    for r in csv.DictReader(open("stored.csv")):
        x = np.array(json.loads(r["vector"]), dtype=kind).astype(np.float32) * np.float32(r.get("scale") or 1)
        print(f'{r["id"]},"[{",".join(repr(float(v)) for v in x)}]"', file=f)
PY
    ctr-import -q -f csv --header --columns 'id,vector:fixed_size_list<float32>[21]' plain.csv | ctr-cat -q --to file --key id -o plain.arrow
    for t in $type plain; do
        ctr-train dicm -q --images $t.arrow --missing-image zero --images-tower 3 --embedding 4 --hidden 4 --minibatch 64 -o $t.m images.arrows
        ctr-predict -q --images $t.arrow $t.m images.arrows | ctr-export -q --no-header -c score >$t.scores
    done
    ok "dicm learns from $type what it learns from its numbers in float32" cmp $type.scores plain.scores
    ok '… there are scores' sh -c "[ \$(sort -u $type.scores | wc -l) -gt 100 ]"
    ctr-predict -q --images f32.arrow plain.m images.arrows | ctr-export -q --no-header -c score >f32.scores
    ok '… which are not those of the vectors before' sh -c "! cmp -s f32.scores plain.scores"
done

# ---- a history of 100,000 items: the nearest 50, in little memory
"$PY" - <<'PY'
import numpy as np
g = np.random.default_rng(9)
n, d = 20000, 16
v = g.standard_normal((n, d)).astype(np.float32)
np.save("long.npy", v)
past = g.integers(0, n, 100000)
np.save("past.npy", past)
with open("long.jsonl", "w") as f:
    for r in range(6):
        print('{"ad":%d,"past":%s}' % (r, str(past.tolist()).replace(" ", "")), file=f)
with open("long.csv", "w") as f:
    print("id,vector", file=f)
    for i in range(n):
        print(f'{i},"[{",".join(repr(float(x)) for x in v[i])}]"', file=f)
PY
ctr-import -q -f csv --header --columns 'id:int64,vector:fixed_size_list<float32>[16]' long.csv | ctr-cat -q --to file --key id -o long.arrow
ctr-import -q -f jsonl --columns 'ad:int64,past:list<int64>' long.jsonl -o long.arrows
printf 'keep ad\nkeep near = top_by(past, similarity("long.arrow", ad, past, "vector"), 50)\n' >long.plan
ok 'the nearest of 100,000' ctr-extract -q long.plan long.arrows -o near.arrows
ctr-export -q --format csv near.arrows >near.csv
ok '… beside numpy' "$PY" - <<'PY'
import csv, json
import numpy as np
csv.field_size_limit(1 << 30)
v, past = np.load("long.npy").astype(np.float64), np.load("past.npy")
unit = v / np.linalg.norm(v, axis=1, keepdims=True)
rows = list(csv.DictReader(open("near.csv")))
assert len(rows) == 6
for r in rows:
    s = unit[past] @ unit[int(r["ad"])]
    got = json.loads(r["near"])
    assert len(got) == 50
    # equal items have equal scores, whose order among themselves nobody sees
    want = past[np.argsort(-s, kind="stable")[:50]].tolist()
    if got != want: # two items whose cosines differ in the last bits alone
        a, b = (np.array([unit[k] @ unit[int(r["ad"])] for k in x]) for x in (got, want))
        assert np.allclose(a, b, atol=1e-12), (got, want)
PY

# ---- what is refused
exits 'a column that has no vectors' 2 ctr-select -q --add 's=similarity("f32.arrow", ad, past, "id")' rows.arrows
err_like 'is told with a remedy' 'similarity: id is utf8, and must be vectors of one length: fixed_size_list<float32>\[LENGTH\]'
exits 'keys of another type' 2 ctr-select -q --add 's=similarity("long.arrow", ad, past, "vector")' rows.arrows
err_like 'is told' 'similarity: the key of the file, id, is int64, got utf8'
exits 'vectors of any length' 2 sh -c 'printf "id,v\na,\"[1,2]\"\n" | ctr-import -q -f csv --header --columns "id,v:list<float32>" -o any.arrows && ctr-embed-images --vectors --type int8 -o no.arrow any.arrows'
err_like 'are told' 'v has lists of any length, and vectors have one: ctr-import --columns'
exits 'vectors without a type or a tower' 2 ctr-embed-images --vectors -o no.arrow f32.arrow
err_like 'are told' '--vectors goes with --tower MODEL, whose outputs are written, or with --type'
ok 'nothing is left' test ! -e no.arrow
done_testing
