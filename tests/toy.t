#!/bin/sh
# A new model is one file, one row of the table of models, and one page: tests/toy/ has the file and the page, and everything
# else, from --help to prediction, follows. The tools that learn and predict are linked anew with it; nothing else is compiled.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half links it'
cd "$CTR_TOP" || exit 1
[ -f "$CTR_BUILD/flags" ] || skip_all "there are no flags of the build"
flags=$(cat "$CTR_BUILD/flags")
libs="$(pkg-config --libs zlib libxxhash libzstd liblz4) -lm -lpthread"

# The row, as CONTRIBUTING.md says.
sed '/ROW(ctr_model_mlp, NULL/a\    ROW(ctr_model_toy, NULL, NULL, NULL) \\' src/common/model/models.c >"$W/models.c"
is "one row" "$(diff src/common/model/models.c "$W/models.c" | grep -c '^>')" 1
compile() { $flags -c -o "$W/$2.o" "$1"; }
compile src/common/cli/main_one.c main # make may have removed its object
ok "the row compiles" compile "$W/models.c" models
ok "and the file" compile tests/toy/toy.c toy
mkdir "$W/bin"
for tool in ctr-train ctr-predict; do
    ok "$tool" $flags -o "$W/bin/$tool" "$CTR_BUILD/src/tools/$tool"/*.o "$W/main.o" "$W/models.o" "$W/toy.o" "$CTR_BUILD/libctr.a" $libs
done
PATH="$W/bin:$PATH"
cd "$W" || exit 1

ok "--help lists it" sh -c "ctr-train --help | grep -qE '^ *toy  *one linear layer over embeddings, by Adam'"
options() { sed -n 's/^\.It Fl //p' "$1" | sed -n 's/^\([A-Za-z] , \)\{0,1\}-\([a-z0-9-]*\).*/--\2/p' | sort -u; }
shown() { ctr-train "$@" --help=all | sed -n 's/^  \(-[A-Za-z], \|    \)\(--[a-z0-9-]*\).*/\2/p' | sort -u; }
shown >all
shown toy | comm -23 - all >own
is "its page has the options that --help shows" "$(options "$CTR_TOP/tests/toy/ctr-train-toy.1" | tr '\n' ' ')" "$(tr '\n' ' ' <own)"
exits "an option of another model" 2 ctr-train toy --hidden 8
err_like "is none of its" 'hidden'

awk 'BEGIN { srand(3); print "click,a,b,c,x"
    for (i = 0; i < 3000; i++) { a = int(300 * rand() * rand()); b = int(9 * rand())
        print (rand() < .1 + .5 * (a % 3 == 0)) "," a "," b ",t" a % 7 "|t" b "," rand() } }' >rows.csv
printf 'label click\nfeature a\nfeature b\nfeature t = split(c, "|")\ndense x\n' >rows.plan
ctr-import -q --format csv --header rows.csv | ctr-extract -q rows.plan -o rows.arrows
ctr-select --head 2000 --rest test.arrows rows.arrows >train.arrows
learn() { ctr-train "$@" -q --embedding 4 --minibatch 100 --rate .01 --l2 .01 --passes 4 train.arrows; }
digest() { ctr-info --digest "$@" | cut -c1-32; }
ok "it learns" learn toy -o toy.arrows
learn mlp --hidden 0 -o mlp.arrows
for model in toy mlp; do ctr-predict -q $model.arrows test.arrows | ctr-select --columns score,click -o $model.scores; done
is "what mlp learns without hidden layers, to the bit" "$(digest toy.scores)" "$(digest mlp.scores)"
auc() { ctr-eval -m auc "$1" | tail -n 1 | awk '{ printf "%.2f", $NF }'; }
ok "and it is not nothing: AUC $(auc toy.scores)" awk "BEGIN { exit !($(auc toy.scores) > .7) }"
is "the same bytes for any -j and --batch" "$(small_batches train.arrows ctr-train toy -q --embedding 4 --minibatch 100 --rate .01 --l2 .01 -j 3 | cksum)" \
    "$(ctr-train toy -q --embedding 4 --minibatch 100 --rate .01 --l2 .01 train.arrows | cksum)"
is "sections of its own" "$(ctr-info --json toy.arrows | grep -o '"ctr.sections":"[^"]*"')" '"ctr.sections":"toy,emb.a,emb.b,emb.t,toy.0.weight,toy.0.bias"'
CTR_CUDA_PLUGIN="$CTR_BUILD/onhost/ctr-cuda.so"
if [ -f "$CTR_CUDA_PLUGIN" ]; then
    export CTR_CUDA_PLUGIN
    ok "it learns on a GPU, too" learn toy --device gpu -o gpu.arrows
    ctr-predict -q gpu.arrows test.arrows | ctr-select --columns score,click -o gpu.scores
    is "as well" "$(auc gpu.scores)" "$(auc toy.scores)"
else
    skip "a GPU" "there is no c++"
fi
done_testing
