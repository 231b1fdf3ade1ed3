#!/bin/sh
# Vectors of towers: ctr-predict --tower needs the columns of its side alone, --dot gives the bits of the whole model's scores,
# --top the best ads of each user, held against a plain sort of all products; and each refusal.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
awk 'BEGIN { srand(4); print "row,user,ad,age,price,click"
  for (i = 0; i < 4000; i++) { u = int(rand() * 40); a = int(rand() * 300)
    print i ",u" u ",ad" a "," u % 7 "," a % 11 / 4 "," (rand() < (u % 2 == a % 2 ? 0.5 : 0.1)) } }' >log.csv
printf 'label click\nid row\nkeep u = user, a = ad\nfeature user\ndense age\nfeature ad\nfeature group in ad = ad\ndense price\n' >pairs.plan
ctr-import -q -f csv --header log.csv | ctr-extract -q pairs.plan >pairs.arrows
for o in '' '--batch-norm --activation dice' '--hidden 0'; do
    # shellcheck disable=SC2086
    ctr-train two-tower -q --user-features user,age --ad-features 'ad,group,price' --vector 5 --hidden 6,4 --embedding 4 --rate .02 \
        --minibatch 100 $o -o m.arrows pairs.arrows
    ctr-select --columns u,user,age pairs.arrows | ctr-sort -q --unique -k u 2>/dev/null | ctr-predict --tower user m.arrows >users.arrows
    ctr-select --columns a,price,ad,group pairs.arrows | ctr-sort -q --unique -k a 2>/dev/null | ctr-predict --tower ad m.arrows >ads.arrows
    ctr-predict m.arrows pairs.arrows >whole.arrows
    ctr-predict --dot -k u,a users.arrows ads.arrows pairs.arrows >dot.arrows
    is "two-tower $o: --dot gives the rows and bits of the whole model" "$(ctr-info --digest dot.arrows)" "$(ctr-info --digest whole.arrows)"
done
is 'a stream of vectors: other columns pass, features go' "$(ctr-export -f csv ads.arrows | head -n 1)" 'a,vector'
for j in 1 3; do
    ctr-cat --batch 7 pairs.arrows | ctr-predict -j $j --dot -k u,a users.arrows ads.arrows >got.arrows
    is "-j $j, small batches: the same rows" "$(ctr-info --digest got.arrows)" "$(ctr-info --digest whole.arrows)"
    ctr-select --columns u,user,age pairs.arrows | ctr-sort -q --unique -k u 2>/dev/null | ctr-cat --batch 3 | ctr-predict -j $j --tower user m.arrows >got.arrows
    is "-j $j, small batches: the same vectors" "$(ctr-info --digest got.arrows)" "$(ctr-info --digest users.arrows)"
done
ctr-predict --memory 1 --dot -k u,a users.arrows ads.arrows pairs.arrows >got.arrows
is 'vectors that do not fit into --memory: the same rows' "$(ctr-info --digest got.arrows)" "$(ctr-info --digest whole.arrows)"
ctr-select --columns id=u,vector users.arrows >renamed.arrows
ctr-predict --dot -k u=id,a renamed.arrows ads.arrows pairs.arrows >got.arrows
is 'keys that are called otherwise among the vectors' "$(ctr-info --digest got.arrows)" "$(ctr-info --digest whole.arrows)"

# ---- the best ads
cat >best.py <<'EOF2'
import json, struct, subprocess, sys
def rows(path):
    return [json.loads(l) for l in subprocess.run(["ctr-export", "-f", "jsonl", path], stdout=subprocess.PIPE, check=True).stdout.splitlines()]
users, ads, got, k = rows(sys.argv[1]), rows(sys.argv[2]), rows(sys.argv[3]), int(sys.argv[4])
k = min(k, len(ads))
assert len(got) == k * len(users), len(got)
import math
bias = float(sys.argv[5])
for n, u in enumerate(users):
    product = [sum(x * y for x, y in zip(u["vector"], a["vector"])) for a in ads]
    want = sorted(range(len(ads)), key=lambda i: (-product[i], i))[:k]
    for r in range(k):
        g = got[n * k + r]
        place = next(i for i, a in enumerate(ads) if a["a"] == g["a"])
        assert g["u"] == u["u"] and g["rank"] == r + 1, g
        assert abs(product[place] - product[want[r]]) < 1e-5, (g, ads[want[r]])
        if product[place] == product[want[r]]:
            assert place == want[r], "of equal ones the first"
        assert bias != bias or abs(g["score"] - 1 / (1 + math.exp(-product[place] - bias))) < 1e-5
EOF2
bias=$(ctr-export -f csv --section two-tower.bias --columns value m.arrows | tail -n 1 | tr -d '"[]')
ctr-predict --top 7 --dot users.arrows ads.arrows >top.arrows
if has_python json; then
    ok '--top 7: the best seven of each user, by a plain sort' "$PY" best.py users.arrows ads.arrows top.arrows 7 "$bias"
    if [ -f "$gpu_plugin" ]; then
        CTR_CUDA_PLUGIN=$gpu_plugin ctr-predict -q --device gpu --top 7 --dot users.arrows ads.arrows >gpu.arrows
        ok '--top 7 on a GPU: the same' "$PY" best.py users.arrows ads.arrows gpu.arrows 7 "$bias"
    else
        skip '--top 7 on a GPU' 'no plug-in'
    fi
    ctr-predict -q --top 1000 --dot users.arrows ads.arrows >all.arrows
    ok '--top beyond the ads: all of them, in order' "$PY" best.py users.arrows ads.arrows all.arrows 1000 "$bias"
    ctr-select --add 'z = concat("Z", a)' ads.arrows | ctr-select --columns a=z,vector | ctr-cat ads.arrows - >doubled.arrows
    ctr-predict --top 10 --dot users.arrows doubled.arrows >ties.arrows
    is 'of equal ads the one that comes first' "$(ctr-export -f csv --columns u,rank,a ties.arrows | awk -F, 'NR > 1 && $2 % 2 == 0 && $3 != "Z" last { print } { last = $3 }')" ''
fi
for j in 1 2 3; do
    ctr-cat --batch 3 users.arrows >small.arrows
    ctr-predict -j $j --top 7 --dot small.arrows ads.arrows >got.arrows
    is "--top, -j $j, small batches: the same rows" "$(ctr-info --digest got.arrows)" "$(ctr-info --digest top.arrows)"
done
ctr-select --columns u,a,was=score top.arrows | ctr-predict --dot -k u,a users.arrows ads.arrows | ctr-select --where 'score != was' >differ.arrows
is 'the scores of --top are those of the pairs, bit for bit' "$(ctr-info differ.arrows | sed -n 's/^rows: //p')" 0
exits 'fewer ads than K' 0 ctr-predict --top 1000 --dot users.arrows ads.arrows
err_like 'is said' 'ads.arrows has [0-9]+ ads, fewer than --top 1000'

# ---- images: of what users clicked before on one side, of the ad on the other, through one tower
awk 'BEGIN { srand(5)
  for (i = 0; i < 60; i++) printf "{\"key\": \"p%d\", \"vector\": [%.3f, %.3f, %.3f]}\n", i, (i % 3 == 0) + rand(), (i % 3 == 1) + rand(), (i % 3 == 2) + rand() >"images.jsonl"
  print "row,user,ad,past,click"
  for (i = 0; i < 40; i++) { n = int(rand() * 5); for (k = 0; k < n; k++) past[i] = past[i] (k ? " " : "") "p" int(rand() * 60) }
  for (i = 0; i < 2000; i++) { u = int(rand() * 40); a = int(rand() * 60); same = index(past[u] " ", "p" a " ")
    print i ",u" u "," (i % 50 ? "p" a : "") "," past[u] "," (rand() < (same ? 0.6 : 0.2)) } }' >log.csv
cat >photos.plan <<'EOF3'
label click
id row
keep u = user, a = ad
feature user
feature ad
image photo = ad
image seen in photo of photo = split(past, " ")
EOF3
ctr-import -q images.jsonl >images.arrows
ctr-import -q -f csv --header log.csv | ctr-extract -q photos.plan >photos.arrows
photos() { ctr-train two-tower -q --user-features user,seen --ad-features ad,photo --vector 5 --hidden 6 --embedding 4 --images-tower 5,3 --rate .02 --minibatch 100 "$@"; }
users() { ctr-select --columns u,user,seen photos.arrows | ctr-sort -q --unique -k u 2>/dev/null | ctr-predict --tower user "$@"; }
ads() { ctr-select --columns a,ad,photo photos.arrows | ctr-select --where 'not is_null(a)' | ctr-sort -q --unique -k a 2>/dev/null | ctr-predict --tower ad "$@"; }
ctr-select --where 'not is_null(a)' photos.arrows >shown.arrows
for o in '' '--pooling max --batch-norm' '--images-tower 0'; do
    # shellcheck disable=SC2086
    photos --images images.arrows $o -o pm.arrows photos.arrows
    users --images images.arrows pm.arrows >pu.arrows
    ads --images images.arrows pm.arrows >pa.arrows
    ctr-predict --images images.arrows pm.arrows shown.arrows >pw.arrows
    ctr-predict --dot -k u,a pu.arrows pa.arrows shown.arrows >pd.arrows
    is "images $o: --dot gives the rows and bits of the whole model" "$(ctr-info --digest pd.arrows)" "$(ctr-info --digest pw.arrows)"
done
photos --images images.arrows -o pm.arrows photos.arrows
users --images images.arrows pm.arrows >pu.arrows
ads --images images.arrows pm.arrows >pa.arrows
for j in 1 3; do
    ctr-select --columns u,user,seen photos.arrows | ctr-sort -q --unique -k u 2>/dev/null | ctr-cat --batch 3 | ctr-predict -j $j --images images.arrows --tower user pm.arrows >got.arrows
    is "images, -j $j, small batches: the same vectors" "$(ctr-info --digest got.arrows)" "$(ctr-info --digest pu.arrows)"
done
sed 's/,p[0-9]*,/,p1,/' log.csv | ctr-import -q -f csv --header | ctr-extract -q photos.plan >moved.arrows
ctr-select --columns u,user,seen moved.arrows | ctr-sort -q --unique -k u 2>/dev/null | ctr-predict --tower user --images images.arrows pm.arrows >got.arrows
is "a vector of the user does not depend on the ad's image" "$(ctr-info --digest got.arrows)" "$(ctr-info --digest pu.arrows)"
ctr-import -q images.jsonl | ctr-select --where 'key != "p7"' >lacks.arrows
exits 'an image of the user that the file lacks' 1 sh -c 'ctr-select --columns u,user,seen photos.arrows | ctr-predict --images lacks.arrows --tower user pm.arrows'
err_like 'is told by row and column' "row [0-9]+: image #[0-9a-f]{16} of column 'seen' is not in lacks.arrows"
exits 'a tower of images without their vectors' 2 sh -c 'ctr-select --columns u,user,seen photos.arrows | ctr-predict --tower user pm.arrows'
err_like 'is told' '\-\-images FILE has their vectors'
exits '--missing-image zero' 0 photos --missing-image zero --images lacks.arrows -o zero.arrows photos.arrows
users --images lacks.arrows zero.arrows >zu.arrows
ads --images lacks.arrows zero.arrows >za.arrows
ctr-predict --images lacks.arrows zero.arrows shown.arrows >zw.arrows
is 'is kept by the model: the towers give the bits of the whole one' "$(ctr-predict --dot -k u,a zu.arrows za.arrows shown.arrows | ctr-info --digest)" "$(ctr-info --digest zw.arrows)"
exits '--images where no column has the role image' 2 ctr-train two-tower --images images.arrows --user-features user,age --ad-features 'ad,group,price' -o x.arrows pairs.arrows
err_like 'is refused' 'no column has the role image: .* leave --images out'
exits 'images of no side' 2 ctr-train two-tower --images images.arrows --user-features user,seen --ad-features ad -o x.arrows photos.arrows
err_like 'are named' "input 'photo' belongs to neither tower"
exits 'images for mlp' 2 ctr-train mlp -o x.arrows photos.arrows
err_like 'are refused' 'mlp does not learn from images: train dicm or two-tower'
sed '/^image seen/d' photos.plan >ad.plan
ctr-import -q -f csv --header log.csv | ctr-extract -q ad.plan >alone.arrows
photos --user-features user --ad-features ad,photo --images images.arrows -o am.arrows alone.arrows
ctr-select --columns u,user alone.arrows | ctr-sort -q --unique -k u 2>/dev/null | ctr-predict --tower user --images images.arrows am.arrows >au.arrows
ctr-select --where 'not is_null(a)' alone.arrows >shown.arrows
ctr-select --columns a,ad,photo shown.arrows | ctr-sort -q --unique -k a 2>/dev/null | ctr-predict --tower ad --images images.arrows am.arrows >aa.arrows
ctr-predict --images images.arrows am.arrows shown.arrows >aw.arrows
is 'images on one side alone: the same bits' "$(ctr-predict --dot -k u,a au.arrows aa.arrows shown.arrows | ctr-info --digest)" "$(ctr-info --digest aw.arrows)"
if [ -x "$CTR_BUILD/bin/ctr-embed-images" ]; then
    ctr-embed-images -q --tower pm.arrows --vectors -o values.arrow images.arrows
    users --images values.arrow pm.arrows >got.arrows
    is 'what the tower makes of the images (ctr-embed-images --tower): the same vectors' "$(ctr-info --digest got.arrows)" "$(ctr-info --digest pu.arrows)"
else
    skip 'ctr-embed-images --tower' 'it was left out of the build'
fi

# ---- what is wrong
ctr-select --columns u,user,age,ad,group,price pairs.arrows >both.arrows
exits 'columns of the other side beside those wanted' 1 ctr-predict --tower user m.arrows both.arrows
err_like 'are named' "feature '[a-z]*' is no input of the model on the side of user: leave the column out"
ctr-select --columns u,user pairs.arrows >half.arrows
exits 'a column of the side that is missing' 1 ctr-predict --tower user m.arrows half.arrows
err_like 'is named' "'age'"
ctr-train lr -q -o lr.arrows pairs.arrows
exits 'a model without towers' 2 ctr-predict --tower user lr.arrows pairs.arrows
err_like 'is refused' 'models of kind lr have no output user: those of two-tower have towers'
exits 'a side that is none' 2 ctr-predict --tower adv m.arrows pairs.arrows
err_like 'is told which there are' 'they have user, ad'
ctr-train two-tower -q --user-features user,age --ad-features 'ad,group,price' --vector 5 --hidden 0 --embedding 4 --seed 2 -o other.arrows pairs.arrows
ctr-select --columns a,price,ad,group pairs.arrows | ctr-sort -q --unique -k a 2>/dev/null | ctr-predict --tower ad other.arrows >other.ads
exits 'vectors of two models' 1 ctr-predict --dot -k u,a users.arrows other.ads pairs.arrows
err_like 'fit no product' 'the vectors of the users are of model [0-9a-f]+, those of the ads of model [0-9a-f]+: make both with one model'
exits 'nor do they make one stream' 1 ctr-cat ads.arrows other.ads
err_like 'whose models are named' "other.ads: cannot be joined with ads.arrows: column 'vector' is of model [0-9a-f]+ in one and [0-9a-f]+ in the other"
exits 'nor with --top' 1 ctr-predict --top 3 --dot users.arrows other.ads
exits 'vectors of the wrong side' 2 ctr-predict --dot -k u,a ads.arrows users.arrows pairs.arrows
err_like 'are refused' 'ads.arrows: these are vectors of the ad, those of the user are wanted here'
exits 'a stream without vectors' 2 ctr-predict --top 3 --dot pairs.arrows ads.arrows
err_like 'is told how to get them' 'no column holds vectors: ctr-predict --tower user makes them'
ctr-select --head 5 users.arrows >some.arrows
exits 'a pair whose user has no vector' 1 ctr-predict --dot -k u,a some.arrows ads.arrows pairs.arrows
err_like 'is named, with a remedy' "row [0-9]+: some.arrows has no vector of 'u' u[0-9]+: make it with ctr-predict --tower user"
ctr-cat users.arrows users.arrows >twice.arrows
exits 'a user that comes twice' 1 ctr-predict --dot -k u,a twice.arrows ads.arrows pairs.arrows
err_like 'is named' 'have the same key u=u'
exits 'an ad that comes twice, for --top' 1 sh -c 'ctr-cat ads.arrows ads.arrows >twice.ads; ctr-predict --dot --top 3 users.arrows twice.ads'
err_like 'is named' "twice.ads: rows [0-9]+ and [0-9]+ are one ad, 'a' ad[0-9]+: it would take two places; ctr-sort --unique"
exits 'pairs without the column of a key' 2 ctr-predict --dot -k u,nowhere users.arrows ads.arrows pairs.arrows
err_like 'are told which columns they have, and no other' "nowhere"
ok 'and no other' sh -c '! grep -q "user.vector" "$1"' sh "$W/err"
if has_python pyarrow; then
    "$PY" - <<'EOF4'
import pyarrow as pa
t = pa.ipc.open_stream("ads.arrows").read_all()
v = t["vector"].combine_chunks()
x = v.flatten().to_pylist()
x[v.type.list_size * 3 + 1] = float("nan")
t = t.set_column(1, t.schema.field("vector"), pa.FixedSizeListArray.from_arrays(pa.array(x, pa.float32()), v.type.list_size))
with pa.ipc.new_stream("nan.ads", t.schema) as w:
    w.write_table(t)
EOF4
    exits 'a vector with NaN, of a pair' 1 ctr-predict --dot -k u,a users.arrows nan.ads pairs.arrows
    err_like 'is named by file and ad' "row [0-9]+: a number of the vector that nan.ads has of 'a' ad[0-9]+ is null or not finite"
    exits 'of an ad for --top' 1 ctr-predict --dot --top 2 users.arrows nan.ads
    err_like 'is named by row' 'nan.ads: row 4: the vector is null, or a number of it is not finite'
fi
exits '--images for a model that has none' 2 ctr-predict --images pairs.arrows m.arrows pairs.arrows
exits 'of another kind too' 2 ctr-predict --images pairs.arrows lr.arrows pairs.arrows
err_like 'is refused' "lr.arrows: a model of kind 'lr' has no images: leave --images out"
exits '--dot without --key or --top' 2 ctr-predict --dot users.arrows ads.arrows pairs.arrows
err_like 'wants one' '\-\-dot wants --key USER,AD, the columns of the pairs, or --top K'
exits 'one key' 2 ctr-predict --dot -k u users.arrows ads.arrows pairs.arrows
exits '--top and --key' 2 ctr-predict --dot --top 2 -k u,a users.arrows ads.arrows
exits '--top without --dot' 2 ctr-predict --top 2 m.arrows pairs.arrows
exits '--dot and --tower' 2 ctr-predict --dot --tower user -k u,a users.arrows ads.arrows
exits '--tower and --uncertainty' 2 ctr-predict --tower user --uncertainty m.arrows pairs.arrows
ctr-select --columns u=a,vector ads.arrows >clash.arrows
exits 'columns of users and ads with one name' 2 ctr-predict --top 2 --dot users.arrows clash.arrows
err_like 'say how to rename one' "column 'u' of clash.arrows has the name of another column of the result: .*ctr-select --columns NEW=u"
exits 'a truncated stream of ads' 1 sh -c 'head -c 2000 ads.arrows >cut.arrows; ctr-predict --top 2 --dot users.arrows cut.arrows'
err_like 'is told' 'cut.arrows: truncated'
exits 'a full device' 1 sh -c 'ctr-predict --top 2 --dot users.arrows ads.arrows >/dev/full'
exits '--memory that the ads outgrow' 1 ctr-predict --memory 1K --top 2 --dot users.arrows ads.arrows
err_like 'is told' 'take more than --memory allows'

# ---- several streams of vectors as one view: of one model alone
ctr-train two-tower -q --seed 7 --user-features user,age --ad-features 'ad,group,price' --vector 5 --hidden 6,4 --embedding 4 --minibatch 100 -o m2.arrows pairs.arrows
ctr-select --columns u,user,age pairs.arrows | ctr-sort -q --unique -k u 2>/dev/null | ctr-predict --tower user m2.arrows | ctr-select --add more=1 >other.arrows
ctr-select --add more=1 users.arrows >same.arrows
ctr-select --columns u=a,vector,more=a ads.arrows >ads-too.arrows
printf 'from v\nlabel y = 0.0\nfeature u\nkeep vector\n' >v.plan
exits 'vectors of one model' 0 ctr-extract -q -o x.arrows v.plan v=users.arrows v=same.arrows
exits 'vectors of two models' 1 ctr-extract -q -o x.arrows v.plan v=users.arrows v=other.arrows
err_like 'are not mixed' 'other.arrows: column vector: its vectors are of the model [0-9a-f]* here, and [0-9a-f]* in a file before it .users.arrows is the first.'
exits 'nor are those of users and ads' 1 ctr-extract -q -o x.arrows v.plan v=users.arrows v=ads-too.arrows
err_like 'which are said' 'ads-too.arrows: column vector: its vectors are of the tower ad here, and user in a file before it'
done_testing
