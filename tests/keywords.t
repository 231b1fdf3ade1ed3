#!/bin/sh
# keywords(): the terms of highest tf-idf by fitted document frequencies, against plain Python; threads, models, bad sections.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

printf 'title,click\nred shoes red,1\nblue shoes,0\nred hat,1\n,0\nshoes shoes hat gold,0\n' >small.csv
ctr-import -q -f csv --header --null '' --columns title:utf8,click:int8 small.csv -o small.arrows
cat >small.plan <<'END_PLAN'
label click
keep top = keywords(split(title, " "), k=2)
feature word = keywords(split(title, " "), k=2)
END_PLAN
ok 'fits' ctr-extract -q --fit small.plan -o fitted small.arrows
is 'the dictionary: lists with a term, and lists' "$(ctr-select --only keywords.top fitted | ctr-export -f csv -c name,count,lists | tail -n +2 | sort | tr '\n' ' ')" \
    'blue,1,4 gold,1,4 hat,2,4 red,2,4 shoes,3,4 '
# shoes: 2 (ln(5/4) + 1) = 2.446; gold: ln(5/2) + 1 = 1.916; hat: ln(5/3) + 1 = 1.511
is 'the highest first, null of null' "$(ctr-extract -q fitted small.arrows | ctr-export -f jsonl -c top | tr '\n' ' ')" \
    '{"top":["red","shoes"]} {"top":["blue","shoes"]} {"top":["red","hat"]} {"top":null} {"top":["shoes","gold"]} '
sed 's/k=2/k=2, min=2/' small.plan >min.plan
ctr-extract -q --fit min.plan -o min.fitted small.arrows
is 'min leaves rare terms out' "$(ctr-extract -q min.fitted small.arrows | ctr-export -f jsonl -c top | tr '\n' ' ')" \
    '{"top":["red","shoes"]} {"top":["shoes"]} {"top":["red","hat"]} {"top":null} {"top":["shoes","hat"]} '
printf 'title,click\nnew words hat,1\n' | ctr-import -q -f csv --header --columns title:utf8,click:int8 -o new.arrows
is 'terms beyond the dictionary are none' "$(ctr-extract -q fitted new.arrows | ctr-export -f jsonl -c top)" '{"top":["hat"]}'
ok 'trained' ctr-train lr -q fitted small.arrows -o small.model
is 'the model has the dictionary' "$(ctr-select --only keywords.top small.model | ctr-info --digest)" "$(ctr-select --only keywords.top fitted | ctr-info --digest)"
is 'and gives the same features' "$(ctr-extract -q small.model small.arrows | ctr-info --digest)" "$(ctr-extract -q fitted small.arrows | ctr-info --digest)"
ok '--explain' sh -c "ctr-extract --explain small.plan small.arrows | grep -q 'to be fitted: keywords'"

exits 'without k' 2 sh -c 'sed "s/, k=2//" small.plan >bad.plan; ctr-extract --fit bad.plan small.arrows'
err_like 'says so' 'keywords wants k'
exits 'k of 0' 2 sh -c 'sed "s/k=2/k=0/" small.plan >bad.plan; ctr-extract --fit bad.plan small.arrows'
exits 'of numbers' 2 sh -c 'printf "label click\nfeature w = keywords([1, 2], k=1)\n" >bad.plan; ctr-extract --fit bad.plan small.arrows'
exits 'not fitted' 2 ctr-extract small.plan small.arrows
err_like 'says how' '--fit'

if ! has_python pyarrow; then
    skip 'against the reference' 'no pyarrow'
    done_testing
    exit 0
fi
"$PY" - ${SAN:+400} <<'PY' || exit 1
import math, random, sys
import pyarrow as pa
rng = random.Random(3)
n = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
words = [f"w{i}" for i in range(300)] + ["ä", "", "a\0b", "a"]
def words_of():
    return [None if rng.random() < .02 else words[min(int(rng.paretovariate(.5)), len(words)) - 1] for _ in range(rng.randrange(40))]
lists = [None if rng.random() < .05 else words_of() for _ in range(n)]
df, N = {}, 0
for l in lists:
    if l is not None:
        N += 1
        for t in {t for t in l if t is not None}:
            df[t] = df.get(t, 0) + 1
def keywords(l, k, least):
    if l is None:
        return None
    tf, first = {}, {}
    for i, t in enumerate(l):
        if t is not None and df[t] >= least:
            tf[t] = tf.get(t, 0) + 1
            first.setdefault(t, i)
    score = {t: tf[t] * (math.log((1 + N) / (1 + df[t])) + 1) for t in tf}
    return sorted(tf, key=lambda t: (-score[t], first[t]))[:k]
def write(name, table):
    with pa.OSFile(name, "wb") as f, pa.ipc.new_stream(f, table.schema) as w:
        for b in table.to_batches(301):
            w.write_batch(b)
label = pa.array([i % 2 for i in range(n)], pa.int8())
write("lists", pa.table({"l": pa.array(lists, pa.list_(pa.string())), "label": label}))
write("want", pa.table({"a": pa.array([keywords(l, 3, 1) for l in lists], pa.list_(pa.string())),
                        "b": pa.array([keywords(l, 50, 5) for l in lists], pa.list_(pa.string()))}))
PY
printf 'label label\nkeep a = keywords(l, k=3), b = keywords(l, k=50, min=5)\nfeature l\n' >ref.plan
ctr-extract -q --fit ref.plan -o ref.fitted lists
for o in '-j 1' '-j 3' '-j 2 --batch 77'; do
    is "the reference, $o" "$(ctr-extract -q $o ref.fitted lists | ctr-select --columns a,b | ctr-info --digest)" "$(ctr-info --digest want)"
done
ctr-sort -q --shuffle lists -o shuffled
ctr-extract -q --fit ref.plan -o shuffled.fitted shuffled
is 'the order of rows does not matter' "$(ctr-select --only keywords.b shuffled.fitted | ctr-info --digest)" "$(ctr-select --only keywords.b ref.fitted | ctr-info --digest)"
ctr-cat -q --batch 100 lists | ctr-extract -q --fit ref.plan -o cut.fitted
is 'nor how they are cut' "$(ctr-info --digest cut.fitted)" "$(ctr-info --digest ref.fitted)"
done_testing
