#!/bin/sh
# ctr-predict: the bits that training would predict, whatever the threads and batches; models that were edited; other plans.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
REF="$CTR_TOP/tests/model_reference.py"
cd "$W" || exit 1
ref make mixed 2500 mixed.arrows || exit 1

for precision in f64 f32; do
    # A second pass starts with the prediction that the model of the first one makes.
    ctr-train lr -q --precision $precision --l1 .1 -o m.arrows mixed.arrows
    ctr-select --head 1 mixed.arrows >one.arrows
    ctr-train lr -q --precision $precision --l1 .1 --init m.arrows --progressive p1.arrows -o x.arrows one.arrows
    ctr-predict m.arrows one.arrows >s1.arrows
    ok "$precision: the bits that training would predict next" same_rows p1.arrows s1.arrows
    ctr-predict -o s.arrows m.arrows mixed.arrows
    ctr-predict -j 4 -o s4.arrows m.arrows mixed.arrows
    ok "$precision: -j 4: the same bytes" cmp s.arrows s4.arrows
    ctr-cat --batch 13 mixed.arrows | ctr-predict m.arrows >s13.arrows
    ok "$precision: other batches, by pipe" cmp s.arrows s13.arrows
    ctr-select --where 'weight != 0' m.arrows >pruned.arrows
    ctr-predict pruned.arrows mixed.arrows >sp.arrows
    ok "$precision: pruned: the same scores" same_rows s.arrows sp.arrows
    ok "$precision: pruned: smaller" test "$(wc -c <pruned.arrows)" -lt "$(wc -c <m.arrows)"
    ctr-select --add 'weight=weight + 0.5' m.arrows >edited.arrows
    exits "$precision: weights that z and n contradict" 0 ctr-predict -o se.arrows edited.arrows mixed.arrows
    err_like 'are counted' 'weights did not agree with z and n, which win'
    ok "$precision: z and n win" same_rows s.arrows se.arrows
    for x in 'z=0/0.0*z' 'n=log(-1)' 'n=1e999'; do
        ctr-select --add "$x" m.arrows >nan.arrows 2>/dev/null || continue
        exits "$precision: $x" 1 ctr-predict -o no.arrows nan.arrows mixed.arrows
        err_like 'is refused with its place' 'nan.arrows: section lr, row 1, key [0-9]+: [zn] is'
    done
    ctr-select --columns -z,-n m.arrows >nozn.arrows
    exits "$precision: without z and n" 0 ctr-predict -o sn.arrows nozn.arrows mixed.arrows
    ok "$precision: the weights do" same_rows s.arrows sn.arrows
    exits "$precision: but it cannot learn on" 1 ctr-train lr -q --init nozn.arrows -o x.arrows mixed.arrows
    err_like 'and says so' "no column 'z'"
done
ref make onehot 2000 onehot.arrows || exit 1
for change in 'hash-bits=9' 'normalize=l2' 'dropout=.3' 'hash-bits=9 normalize=l1 dropout=.3'; do
    options=$(printf '%s' "$change" | sed 's/[^ ]*=/--&/g; s/=/ /g')
    # shellcheck disable=SC2086
    ctr-train lr -q $options -o ch.arrows onehot.arrows
    ctr-predict -o sch.arrows ch.arrows onehot.arrows
    # shellcheck disable=SC2086
    ok "rows are changed as for learning: $change" ref score onehot.arrows ch.arrows sch.arrows $change
done
unscaled() { ! ref score onehot.arrows ch.arrows sch.arrows hash-bits=9 normalize=l1; }
[ "$SAN" ] || ok 'and the check can fail' unscaled
is 'score is float64' "$(ctr-info s.arrows | sed '1,/^column/d' | awk '{ printf "%s %s %s,", $1, $2, $3 }')" \
    'row int64 id,click float64 label,w float64 weight,note utf8 -,score float64 score,'
ctr-select --columns row,a,b,item,past,text,age,vec,word mixed.arrows >nolabel.arrows
ok 'a label is not needed' sh -c 'ctr-predict m.arrows nolabel.arrows >sl.arrows'
ok 'and does not matter' ref same s.arrows sl.arrows
ctr-predict m.arrows <s.arrows >x.arrows 2>err && echo 'not reached'
ok 'no features: an error' grep -q 'no features' err
ref set mixed.arrows unseen.arrows a 1
ctr-select --columns -a mixed.arrows >without.arrows
ctr-predict m.arrows unseen.arrows >su.arrows
ctr-predict m.arrows without.arrows >sw.arrows
ref column su.arrows score >su
ref column sw.arrows score >sw
is 'unseen keys count 0' "$(paste su sw | awk '{ d = $1 - $2 } d * d > 1e-24 { print }')" ''

# ---- plans
printf 'click,ad\n1,a\n0,b\n1,a\n0,c\n' >log.csv
printf 'label click\nfeature ad\n' >one.plan
printf 'label click\nfeature ad = lower(ad)\n' >two.plan
ctr-import --format csv --header log.csv >log.arrows
ctr-extract one.plan log.arrows | ctr-train lr -q -o plan.model
ctr-extract two.plan log.arrows >two.arrows
exits 'a stream of another plan is refused' 1 ctr-predict plan.model two.arrows
err_like 'naming both' "two.arrows: its features are not those that plan.model learned from: its plan has 'feature ad' there and 'feature ad = lower\\(ad\\)' here: .*ctr-extract plan.model"
exits 'a stream without a plan too' 1 ctr-predict plan.model mixed.arrows
err_like 'and says so' 'does not say which plan'
ok 'the model extracts' sh -c 'ctr-extract plan.model log.arrows | ctr-predict plan.model >sx.arrows'
exits '--init of another plan is refused' 1 ctr-train lr -q --init plan.model -o x.arrows two.arrows
err_like 'naming both' 'two.arrows: its features are not those that plan.model learned from'
printf 'label click\nfeature ad = vocab(ad, min=2)\n' >vocab.plan
ctr-extract --fit vocab.plan -o fitted.arrows log.arrows
ctr-extract fitted.arrows log.arrows >fit.arrows
ctr-train lr -o nofit.model fit.arrows 2>err
ok 'a fitted plan that was not named' grep -q 'name the fitted plan with --plan' err
exits 'the wrong one is refused' 2 ctr-train lr -q --plan one.plan -o x.arrows fit.arrows
err_like 'naming both' 'one.plan is plan .* made by plan'
ctr-train lr -q --plan fitted.arrows -o fit.model fit.arrows
ctr-predict fit.model fit.arrows >f1.arrows
ctr-extract fit.model log.arrows | ctr-predict fit.model >f2.arrows
ok 'with it the model extracts and predicts' cmp f1.arrows f2.arrows
ctr-train lr -q --plan fitted.arrows --init fit.model -o fit2.model fit.arrows
ok 'and learns on' test -s fit2.model

# ---- errors
exits 'no model' 2 ctr-predict
exits 'a stream is no model' 1 ctr-predict mixed.arrows mixed.arrows
err_like 'and says so' 'mixed.arrows: not a model'
exits 'a model that is not there' 1 ctr-predict nothing.arrows mixed.arrows
err_like 'is named' 'nothing.arrows'
head -c 1500 m.arrows >cut.model
exits 'a truncated model' 1 ctr-predict cut.model mixed.arrows
head -c 50000 mixed.arrows >cut.arrows
exits 'a truncated input' 1 ctr-predict -o x.out m.arrows cut.arrows
ok 'leaves nothing' test ! -e x.out
full() { ! ctr-predict m.arrows mixed.arrows >/dev/full; }
ok 'a full disk is an error' full
ctr-select --head 0 mixed.arrows >none.arrows
ok 'no rows' sh -c 'ctr-predict m.arrows none.arrows | ctr-info >/dev/null'

# No plan on either side: the tables tell whether features and model belong together.
printf '1 |a x y |b z\n0 |a x |b w\n' | ctr-import -f vw -o ab.arrows
printf '1 |a x y\n0 |a x\n' | ctr-import -f vw -o a.arrows
printf '1 |c x y\n0 |c x\n' | ctr-import -f vw -o c.arrows
ctr-train lr -q -o ab.model ab.arrows
exits 'the same tables' 0 ctr-predict -o x.arrows ab.model ab.arrows
is 'need no words' "$(cat "$W/err")" ''
exits 'a table is missing in the stream' 0 ctr-predict -o x.arrows ab.model a.arrows
err_like 'which is said' 'the stream has no features of 1 of the 2 tables of ab.model, such as b'
exits 'no table is common' 1 ctr-predict -o x.arrows ab.model c.arrows
err_like 'which is refused' 'the stream has none of the 2 tables of ab.model, such as a'

# ---- a model whose rows come twice
ctr-cat m.arrows m.arrows >double.arrows
rows=$(ctr-info m.arrows | sed -n 's/^rows: //p')
twice="double.arrows: row $((rows + 1)) of the model: its table and key came before; train it again, or keep the first"
exits 'a model behind itself' 1 ctr-predict double.arrows mixed.arrows
err_like 'the row is named' "$twice"
exits 'nor can it be learned on' 1 ctr-train lr -q --init double.arrows -o x.arrows mixed.arrows
err_like 'the same row' "$twice"
ctr-sort --unique -k table,key double.arrows >once.arrows
ctr-predict once.arrows mixed.arrows >so.arrows
ctr-predict m.arrows mixed.arrows >s.arrows
ok 'the first of each predict as the model' same_rows s.arrows so.arrows
ctr-sort --shuffle --seed 2 m.arrows >shuffled.arrows
ctr-predict shuffled.arrows mixed.arrows >so.arrows
ok 'rows in any other order do so too' same_rows s.arrows so.arrows

# ---- a model that is replaced while rows come
ctr-select --head 2000 mixed.arrows | ctr-train lr -q -o m2.arrows
ctr-select --head 200 --rest rest.arrows mixed.arrows >h1.arrows
ctr-select --head 200 --rest h3.arrows rest.arrows >h2.arrows
mkfifo fifo
cp m.arrows now.arrows
ctr-predict --reload -v -j 2 --flush 20ms now.arrows <fifo >live.arrows 2>err &
pid=$!
exec 3>fifo
scored() { test "$(ctr-cat -q --lenient live.arrows | ctr-info | sed -n 's/^rows: //p')" = "$1"; }
cat h1.arrows >&3
ok 'rows come before the model is replaced' until_true scored 200
cp m2.arrows new.arrows
mv new.arrows now.arrows
cat h2.arrows >&3
ok 'and after it' until_true scored 400
head -c 1500 m.arrows >now.arrows # as it is while somebody copies over it
cat h1.arrows >&3
ok 'and while the file is no whole model' until_true scored 600
rm now.arrows
cat h2.arrows >&3
ok 'and while there is none' until_true scored 800
cp plan.model new.arrows
mv new.arrows now.arrows
cat h1.arrows >&3
ok 'and while it is a model of other features' until_true scored 1000
cat m.arrows >now.arrows
cat h3.arrows >&3
exec 3>&-
wait $pid
is '--reload: status 0' $? 0
for part in 'm h1' 'm2 h2' 'm2 h1' 'm2 h2' 'm2 h1' 'm h3'; do
    ctr-predict "${part% *}.arrows" "${part#* }.arrows"
done >want.arrows
ok 'each batch has the scores of the model of its time' same_rows want.arrows live.arrows
time='[0-9]{4}(-[0-9]{2}){2}T[0-9:.]*Z'
is '-v tells from which row on which model scores, others are told of' "$(sed -E "s/ of $time\$//; s/(now.arrows:? ).*;/\1…;/" err)" \
    "$(printf 'ctr-predict: %s\n' 'rows from 1 on are scored by now.arrows' 'rows from 201 on are scored by now.arrows' \
        'now.arrows: …; rows from 401 on are scored by the model before' \
        'now.arrows …; rows from 801 on are scored by the model before' 'rows from 1001 on are scored by now.arrows')"
exits '--reload of a pipe' 2 sh -c 'cat m.arrows | ctr-predict --reload - mixed.arrows'
err_like 'cannot be' 'a pipe has none'

# What nothing learns from, and what is not named.
printf 'pic,y,z,t\na,1,0,x\nb,0,1,y\n' | ctr-import -f csv --header -o pic.arrows
printf 'label y\nfeature z\nimage pic\n' >pic.plan
exits 'a column of images, which no model learns from' 2 sh -c 'ctr-extract pic.plan pic.arrows | ctr-train lr -q -o no.m'
err_like 'is not dropped in silence' "column 'pic' has the role image, and lr does not learn from images: train dicm or two-tower, make it a feature in the plan"
printf 'feature z\nkeep y, t\n' >nolabel.plan
exits 'a label that was forgotten' 2 sh -c 'ctr-extract nolabel.plan pic.arrows | ctr-train lr -q -o no.m'
err_like 'has candidates' 'no column has the role label: name one with --label NAME; there is y$'
printf 'feature z\n' >nolabel.plan
exits 'without any' 2 sh -c 'ctr-extract nolabel.plan pic.arrows | ctr-train lr -q -o no.m'
err_like 'the plan needs a line' 'name one with --label NAME, or give the plan of ctr-extract a line label$'

# Keys that the model does not hold.
printf 'u,item,click\n1,a,1\n2,b,0\n3,a,1\n4,c,0\n' | ctr-import -f csv --header -o seen.arrows
printf 'u,item,click\n1,a,1\n2,d,0\n7,e,1\n4,f,0\n5,a,1\n' | ctr-import -f csv --header -o more.arrows
printf 'label click\nfeature u\nfeature item\ndense d = u\n' >seen.plan
ctr-extract seen.plan seen.arrows -o seen.feat
ctr-extract seen.plan more.arrows -o more.feat
for how in 'lr' 'lr --l1 10' 'mlp' 'lr --optimizer ogd'; do
    ctr-train $how -q -o seen.m seen.feat
    ctr-predict seen.m seen.feat 2>err >/dev/null
    is "$how: what was learned from is known, of whatever weight" "$(cat err)" ''
    ctr-predict -j 3 seen.m more.feat 2>err >/dev/null
    is "$how: unknown keys by table, the greatest share first" "$(sed 's/of 1[05] keys/of N keys/' err)" \
        'ctr-predict: seen.m does not know 5 of N keys: item 3 of 5 (60%), u 2 of 5 (40%)'
done
# Deep models count keys where they pull vectors: lists, empty ones too, and two inputs with one table, beside lr's own count.
# (No row has a key twice, since lr sees a key of a table once a row.)
awk 'BEGIN { srand(5); print "u,item,past,click"
    for (i = 0; i < 4000; i++) { n = int(4 * rand()); most = 300 * (1 + int(i / 1000)); a = int(most * rand()); past = ""
        for (j = 0; j < n; j++) past = past (j ? " " : "") "i" (a + 1 + 7 * j) % most
        print int(900 * rand()) ",i" a "," past "," (rand() < .3) } }' >lists.csv
printf 'label click\nfeature u\nfeature item\nfeature past of item = split(past, " ")\n' >lists.plan
ctr-import -q -f csv --header lists.csv | ctr-extract -q lists.plan -o lists.feat
ctr-select --head 500 --rest later.feat lists.feat >early.feat
ctr-train lr -q -o lists-lr.m early.feat
ctr-predict lists-lr.m later.feat 2>want >/dev/null
ok 'lists have keys that are unknown' grep -q 'does not know [0-9]* of [0-9]* keys: .*item [1-9]' want
for how in mlp 'mlp --pooling max' din; do
    ok "$how learns from lists" ctr-train $how -q --embedding 2 --hidden 2 -o lists.m early.feat
    ctr-predict --batch 300 -j 3 lists.m later.feat 2>err >/dev/null
    is "$how: unknown keys of lists" "$(sed 's/^[^:]*: [^ ]*//' err)" "$(sed 's/^[^:]*: [^ ]*//' want)"
done
ctr-train lr -q --l1 10 -o seen.m seen.feat
ctr-select --where 'weight != 0' seen.m -o pruned.m
ctr-predict pruned.m seen.feat 2>err >/dev/null
ok 'of what a model was pruned of it knows nothing' grep -q 'item 4 of 4 (100%)' err
ctr-predict --uncertainty seen.m more.feat 2>err >/dev/null
ok 'with uncertainty the same' grep -q 'item 3 of 5 (60%), u 2 of 5 (40%)' err
exits '--max-unknown: a table above it' 1 ctr-predict --max-unknown .5 -o no.scores seen.m more.feat
err_like 'is an error' 'seen.m does not know 60% of the keys of item, more than --max-unknown 0.5 allows'
ok 'without an output' test ! -e no.scores
exits 'none above it' 0 ctr-predict --max-unknown .6 seen.m more.feat
exits 'a share is from 0 to 1' 2 ctr-predict --max-unknown 60 seen.m more.feat
exits 'a view of a plan' 1 ctr-predict seen.m log=log.csv
err_like 'belongs to the tool before it' 'VIEW=FILE goes to ctr-extract: ctr-extract seen.m log=log.csv … | ctr-predict seen.m'
done_testing
