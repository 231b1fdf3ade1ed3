#!/bin/sh
# What NVRTC makes of the kernels of plans, run on the CPU (tests/ptx): every operator and extractions, in several orders of blocks
# and threads. And what ptxas says of them: registers, local memory; with the instructions that they run.
. "${0%/*}/lib.sh"
. "${0%/*}/ptx/ptx.sh"
cd "$W" || exit 1

# ---- operators of plans
units() { "$CTR_BUILD/unit/$1" >"$1.out" 2>&1 && ! grep '^not ok' "$1.out"; }
ok "every operator of plans: the bytes of the CPU" units unit-op
ok "the pool of results, and tables" units unit-gpu
PTX_ORDER=rand:4 PTX_FINE=1 ok "in another order" units unit-gpu

# ---- extraction: counts with gaps, hexadecimal texts; then texts, lists, vocabularies
awk 'BEGIN {
    srand(3); printf "click,row"
    for (k = 1; k <= 13; k++) printf ",I%d", k
    for (k = 1; k <= 26; k++) printf ",C%d", k
    print ""
    for (i = 0; i < 512; i++) {
        printf "%d,%d", rand() < .3, i
        for (k = 1; k <= 13; k++) if (rand() < .2) printf ","; else printf ",%d", int(exp(8 * rand())) - 2
        for (k = 1; k <= 26; k++) if (rand() < .1) printf ","; else printf ",%08x", int(rand() * 5000)
        print "" } }' </dev/null | ctr-import -q -f csv --header -o criteo.arrows || exit 1
awk -v OFS='\t' 'BEGIN {
    print "click", "query", "title", "price", "place"
    for (i = 0; i < 150; i++) {
        q = i % 13 == 0 ? "" : "Red Shoes " i % 17 " für  Kinder"
        if (i % 60 == 7) for (k = 0; k < 7; k++) q = q q
        print i % 2, q, i % 11 == 0 ? "" : "neu|Hat " i % 5 "|" (i % 3 ? "Hat 1" : ""), i % 9 ? i * 1.25 : "", "city" i % 5
    } }' </dev/null | ctr-import -q -f tsv --header --null '' --columns click:int8,query:utf8,title:utf8,price:float64,place:utf8 -o text.arrows || exit 1
cat >text.plan <<'PLAN'
label   click
words   = words(lower(query))
parts   = split(title, "|")
keep    parts, low = lower(parts), first = substr(query, 0, 4), cents = int(price * 100), ratio = log(price - 50) % 3
dense   price
feature words
feature part = unique(parts)
feature both = cross(words, place)
feature rare = vocab(place, min=31)
feature cheap = vocab(int(price), max=9)
PLAN
cp "$CTR_TOP/examples/criteo.plan" . && ctr-extract -q --fit text.plan -o text.fitted text.arrows || exit 1
same() { ctr-extract -q "$1" "$2" -o want.arrows && ctr-extract -q --device gpu "$1" "$2" -o got.arrows && cmp got.arrows want.arrows; }
for order in fwd rand:5; do
    PTX_ORDER=$order ok "examples/criteo.plan: the bytes of the CPU ($order)" same criteo.plan criteo.arrows
    PTX_ORDER=$order ok "texts, lists and vocabularies: the bytes of the CPU ($order)" same text.fitted text.arrows
done
PTX_ORDER=rand:5 ok "hashes and numbers that are left for a learner" "$CTR_BUILD/unit/unit-left" text.fitted text.arrows 3 40 0 0

# ---- the kernels of criteo.plan: 39 features
rm -f "$ptx"/counted-*
counted() { # PLAN FILE: instructions a row of 512
    PTX_COUNT=1 ctr-extract -q --device gpu "$1" "$2" -o got.arrows 2>counts
    awk '/^ptx: instructions/ { for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+,?$/) n += $i } END { printf "%.0f", n / 512 }' counts
}
figures=$(counted criteo.plan criteo.arrows)
echo "# $figures instructions of PTX a row"
ok "instructions a row" test "$figures" -gt 0 -a "$figures" -le 4000

# ---- with a list of 51 items a row: no other call has tiles for these
{ cat criteo.plan && echo 'keep items = hash(items)'; } >items.plan
ctr-select -q --add "items=split(concat(row, \"$(seq -s '' -f ' %g' 50)\"), \" \")" criteo.arrows -o items.arrows || exit 1
more=$(($(counted items.plan items.arrows) - figures))
echo "# $more instructions of PTX a row for its items"
ok "instructions an item" test "$more" -gt 0 -a "$more" -le $((51 * 150))
ptxas=$(command -v ptxas || ls "$(dirname "$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")/ptxas" 2>/dev/null)
if [ -n "$ptxas" ]; then
    for f in "$ptx"/counted-*.ptx; do
        "$ptxas" -v --gpu-name sm_90 -o /dev/null "$f" 2>&1
    done >ptxas.out
    sed -n 's/^ptxas info *: \(Used.*\)/# \1/p' ptxas.out
    most() { sed -n "s/.*[^0-9]\([0-9][0-9]*\) $1.*/\1/p" ptxas.out | sort -n | tail -n 1; }
    ok "at most 64 registers a thread" test "$(most registers)" -le 64
    ok "at most 1 KiB of local memory" test "$(most 'bytes cumulative stack')" -le 1024
else
    skip "registers and local memory" "there is no ptxas beside nvcc: install the CUDA toolkit"
fi
done_testing
