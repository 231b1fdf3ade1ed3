#!/bin/sh
# ctr-train two-tower: agrees with an independent implementation, whose gradients are finite differences of the whole model;
# does not depend on how rows arrive; resumes to the same bytes; needs each input to be of one side, and says how.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
REF="$CTR_TOP/tests/deep_reference.py"
MAKE="$CTR_TOP/tests/model_reference.py"
cd "$W" || exit 1

"$PY" "$MAKE" make mixed "$([ -n "$SAN" ] && echo 24 || echo 40)" tiny.arrows && "$PY" "$MAKE" make mixed 1500 rows.arrows || exit 1
# `item` and `past` share a table: of one side here, of both sides below.
U=a,age,past,item A='b,text,vec,word'
sides() { echo "--user-features $U --ad-features $A"; }
# shellcheck disable=SC2046
small() { ctr-train two-tower -q $(sides) --embedding 2 --hidden 4,3 --vector 3 --minibatch 16 --rate .01 "$@" tiny.arrows; }
# shellcheck disable=SC2046
train() { ctr-train two-tower -q $(sides) --embedding 5 --hidden 16,8 --vector 6 --minibatch 100 "$@"; }
scores() { ctr-export -f csv --columns score "$1"; }

agrees() { agrees_with two-tower "user=$U ad=$A hidden=4,3 minibatch=16 rate=.01" "$@"; } # agrees OPTIONS -- REFERENCE-OPTIONS
ok 'agrees with the reference: scores before each update, every value after' agrees --
ok 'dice and batch normalization, which each tower has of its own' agrees --batch-norm --activation dice -- batch-norm=1 activation=dice
ok 'relu, lists pooled by their largest' agrees --activation relu --pooling max -- activation=relu pooling=max
ok 'no hidden layer, l2, two passes' agrees --hidden 0 --l2 .5 --passes 2 -- hidden=0 l2=.5 passes=2
U=a,age,past A='b,item,text,vec,word'
ok 'a table of both sides learns from both' agrees --
wrong() { ! agrees -- rate=.0101; }
[ "$SAN" ] || ok 'the check can fail' wrong
other() (U=a,age,past,b A='item,text,vec,word' && ref score got.safetensors tiny.arrows got.p user=$U ad="$A" hidden=4,3)
ctr-export -o got.safetensors got.arrows
not_other() { ! other; }
[ "$SAN" ] || ok 'and sees which inputs are of which side' not_other

# ---- images: those of the user summed, through a tower that both sides learn
awk 'BEGIN { srand(2); for (i = 0; i < 9; i++) printf "{\"key\": \"p%d\", \"vector\": [%.3f, %.3f, %.3f]}\n", i, rand() - .5, rand() - .5, rand() - .5 }' | ctr-import -q -f jsonl >images.arrows
awk 'BEGIN { srand(3); for (i = 0; i < 12; i++) { n = i % 4; past = ""; for (k = 0; k < n; k++) past = past (k ? " p" : "p") int(rand() * 9)
    printf "{\"click\": %d, \"item\": %d, \"photo\": %s, \"past\": \"%s\", \"age\": %.2f}\n", i % 3 == 0, i % 5, i == 7 ? "null" : "\"p" int(rand() * 9) "\"", past, rand() } }' | ctr-import -q -f jsonl >raw.arrows
printf 'label click\nfeature item\nimage photo\nimage seen in photo of photo = split(past, " ")\ndense age\n' >photos.plan
ctr-extract -q photos.plan raw.arrows >photos.arrows
printf 'image photo = key\nkeep vector\n' >images.plan
ctr-extract -q images.plan images.arrows >keys.arrows
photos() { ctr-train two-tower -q --images images.arrows --user-features seen,age --ad-features photo,item --embedding 2 --hidden 3 --vector 2 --images-tower 3,2 --minibatch 5 --rate .01 "$@"; }
agrees_photos() { # agrees_photos OPTIONS -- REFERENCE-OPTIONS
    _o=
    while [ "$1" != -- ]; do _o="$_o $1"; shift; done
    shift
    # shellcheck disable=SC2086
    photos $_o --rate 1e-35 -o start.arrows photos.arrows && photos $_o -o got.arrows --progressive got.p photos.arrows &&
        ref two-tower photos.arrows start.arrows got.arrows got.p user=seen,age ad=photo,item hidden=3 images=keys.arrows images-tower=3,2 minibatch=5 rate=.01 "$@"
}
ok 'images agree with the reference' agrees_photos --
ok 'images are summed, whatever pools keys; a tower without hidden layers; two passes' agrees_photos --pooling max --images-tower 0 --passes 2 -- pooling=max images-tower=0 passes=2
photos --passes 40 -j 1 -o one.arrows photos.arrows
ctr-cat --batch 1 -o batches1.arrows photos.arrows
photos --passes 40 -j 3 -o many.arrows batches1.arrows
ok 'images, -j 3 and small batches: the same values' ref same one.arrows many.arrows
photos --images-tower 2 --missing-image zero -o small.arrows photos.arrows
ok 'the model keeps options of images' sh -c 'ctr-info small.arrows | grep -q "images-tower=2.*missing-image=zero"'

# ---- the same bytes however rows arrive
for o in '' '--batch-norm --dropout .2 --l2 .1 --pooling max'; do
    # shellcheck disable=SC2086
    train $o -j 1 -o want.arrows --progressive want.p rows.arrows
    # shellcheck disable=SC2086
    train $o -j 3 -o got.arrows --progressive got.p rows.arrows
    ok "two-tower $o -j 3: the same model" cmp want.arrows got.arrows
    ok "two-tower $o -j 3: the same predictions" cmp want.p got.p
    # shellcheck disable=SC2086
    small_batches rows.arrows train $o --progressive got.p >got.arrows
    is "two-tower $o, small batches: the same predictions" "$(scores got.p | cksum)" "$(scores want.p | cksum)"
    ok "two-tower $o: and the same values" ref same want.arrows got.arrows
done
train -o want.arrows --progressive want.p rows.arrows
for cpu in plain avx2; do
    CTR_CPU=$cpu train -o got.arrows rows.arrows
    ok "the same model on a processor that is $cpu" cmp want.arrows got.arrows
done
differ() { ! cmp -s "$1" "$2"; }
train --seed 1 -o got.arrows rows.arrows
ok 'another seed, another model' differ want.arrows got.arrows
train --seed 1 --dropout .2 -o dropped.arrows rows.arrows
ok 'dropout, another model' differ dropped.arrows got.arrows

# ---- prediction
ctr-predict -j 1 want.arrows rows.arrows >p1
ctr-cat --batch 11 rows.arrows | ctr-predict -j 4 want.arrows >p4
is 'scores do not depend on batches or threads' "$(scores p1 | cksum)" "$(scores p4 | cksum)"
ctr-select --head 100 rows.arrows >some.arrows
ctr-export -o want.safetensors want.arrows
ctr-predict want.arrows some.arrows >some.p
ok 'the exported tensors predict the same' ref score want.safetensors some.arrows some.p user=$U ad="$A" hidden=16,8

# ---- checkpoints, and going on
ctr-cat --batch 70 rows.arrows >batches.arrows # checkpoints fall into the middle of minibatches
train --passes 2 --dropout .2 -o want2.arrows rows.arrows
# shellcheck disable=SC2046
run() { timeout "$@" ctr-train two-tower -q $(sides) --embedding 5 --hidden 16,8 --vector 6 --minibatch 100 --dropout .2 --passes 2 \
    --checkpoint c.ckpt --checkpoint-every 60 --resume -o got.arrows batches.arrows; }
killed_runs 'two-tower: ' run 005 010 020 040 080
ok 'to the values of a run that was never killed' ref same want2.arrows got.arrows
train --passes 2 -o twice.arrows rows.arrows
ok '--init goes on from values and state' train --init want.arrows -o got.arrows rows.arrows
ok 'as a second pass would' ref same twice.arrows got.arrows

# ---- sides
ctr-train two-tower -q --user-features 'a*,past' --ad-features 'b,i*,t*,v*,wo*' --embedding 5 --hidden 16,8 --vector 6 --minibatch 100 -o got.arrows rows.arrows
ok 'patterns name the same inputs' ref same want.arrows got.arrows
is 'the model keeps the sides' "$(ctr-export -f csv --section two-tower --columns name,side want.arrows | grep -c ',user$')" 3
exits 'inputs of no side' 2 ctr-train two-tower -o x.arrows rows.arrows
err_like 'are told how to get one' "input 'a' belongs to neither tower: assign it with --user-features or --ad-features"
exits 'no input of the ad' 2 ctr-train two-tower --user-features '*' -o x.arrows rows.arrows
err_like 'is told which option' 'the tower of the ad has no input: assign some with --ad-features'
exits 'an input in both lists' 2 ctr-train two-tower --user-features '*' --ad-features b -o x.arrows rows.arrows
err_like 'is named' "input 'b' stands in --user-features and in --ad-features"
exits 'a name of no input' 2 ctr-train two-tower --user-features a,cat --ad-features b -o x.arrows rows.arrows
err_like 'is named too' "\-\-user-features: the stream has no input 'cat'"
exits 'other sides than the model that it goes on from' 1 ctr-train two-tower -q --user-features a --ad-features 'b,i*,t*,v*,wo*,past,age' \
    --embedding 5 --hidden 16,8 --vector 6 --minibatch 100 --init want.arrows -o x.arrows rows.arrows
err_like 'are refused' "input 'age' has the ctr.side 'user'"
exits 'an option of another model' 2 ctr-train mlp --vector 3 -o x.arrows rows.arrows
err_like 'is refused' 'mlp takes no --vector'
exits 'a model of another kind' 2 ctr-train mlp --init want.arrows -o x.arrows rows.arrows
err_like 'is refused too' 'this is a model of kind two-tower, not mlp'
exits 'a full device' 1 sh -c "ctr-train two-tower -q --user-features a --ad-features b,past,item,text,vec,word,age rows.arrows >/dev/full"

# ---- a planted world in which user and ad tell nothing but together
if [ -z "$SAN" ]; then
    awk 'BEGIN { srand(3); print "user,ad,click"
      for (i = 0; i < 20000; i++) { u = int(rand() * 40); a = int(rand() * 30); print "u" u ",ad" a "," (rand() < (u % 2 == a % 2 ? 0.5 : 0.1)) } }' >planted.csv
    printf 'label click\nfeature user\nfeature ad\n' >planted.plan
    ctr-import -q -f csv --header planted.csv | ctr-extract -q planted.plan | ctr-select --head 50% --rest later.arrows -o planted.arrows
    auc() { ctr-eval --metrics auc "$@" | awk '$1 == "total" { print $NF }'; }
    learned() {
        ctr-train lr -q -o lr.arrows planted.arrows
        ctr-train two-tower -q --user-features user --ad-features ad --vector 4 --hidden 0 --embedding 4 --rate .02 --minibatch 100 --passes 3 -o t.arrows planted.arrows
        lr=$(ctr-predict -q lr.arrows later.arrows | auc) towers=$(ctr-predict -q t.arrows later.arrows | auc)
        echo "AUC of lr $lr, of two-tower $towers"
        awk -v l="$lr" -v t="$towers" 'BEGIN { exit !(l < .53 && t > .71) }'
    }
    ok 'two-tower sees what lr cannot' learned
fi
done_testing
