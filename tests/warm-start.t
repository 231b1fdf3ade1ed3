#!/bin/sh
# Warm start: --init takes every parameter by name and shape and says so; a selection of sections is a partial start;
# --init-partial takes what fits of a model of another plan or shape, and says what it skipped and what is missing.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
cd "$W" || exit 1
awk 'BEGIN { srand(6); print "row,user,ad,click"
  for (i = 0; i < 3000; i++) { u = int(rand() * 40); a = int(rand() * 30); print i ",u" u ",ad" a "," (rand() < (u % 2 == a % 2 ? 0.5 : 0.1)) } }' >log.csv
printf 'label click\nid row\nfeature user\nfeature ad\n' >pairs.plan
printf 'label click\nid row\nfeature user\nfeature ad\nfeature third = row %% 3\n' >more.plan
ctr-import -q -f csv --header log.csv -o log.arrows
ctr-extract -q pairs.plan log.arrows >pairs.arrows
ctr-extract -q more.plan log.arrows >more.arrows
train() { _m=$1; shift; ctr-train "$_m" --hidden 4 --embedding 3 --minibatch 100 "$@" 2>said.full; _rc=$?; grep -E 'taken|skipped|missing' said.full | sed 's/.*ctr-train: //' >said; return $_rc; }
towers='--user-features user --vector 3'
values() { # values A B NAMES…: equal tensors of these names; -NAME: different ones
    "$PY" - "$CTR_TOP" "$@" <<'EOF2'
import sys
sys.path.insert(0, sys.argv[1] + "/tests")
from deep_reference import tensors
a, b = tensors(sys.argv[2]), tensors(sys.argv[3])
for n in sys.argv[4:]:
    same = a.get(n.lstrip("-")) == b.get(n.lstrip("-"))
    assert same != n.startswith("-"), n
EOF2
}
# A rate at which nothing moves shows what a run starts from.
still='--rate 1e-35'
train mlp -o day1.model pairs.arrows
ok '--init' train mlp $still --init day1.model -o got.model pairs.arrows
is 'says what was taken' "$(cat said)" 'day1.model: taken: 70 keys of 2 tables, 5 parameters'
ok 'and it is' values day1.model got.model emb.ad emb.user mlp.0.weight mlp.0.bias mlp.1.weight
ctr-select --section 'emb.ad' --head 0 day1.model >half.model
train mlp $still -o fresh.model pairs.arrows
ok 'a selection of sections: all but the vectors of ads' train mlp $still --init half.model -o got.model pairs.arrows
is 'says what is missing' "$(cat said)" 'half.model: taken: 40 keys of 2 tables, 5 parameters
half.model: missing, and start at first values: 30 of the 30 keys of table ad'
ok 'takes the rest, and starts them as a new model does' values day1.model got.model emb.user mlp.0.weight -emb.ad
ok 'from the same first values' values fresh.model got.model emb.ad -emb.user -mlp.0.weight
ctr-select --section 'emb.*' --head 0 day1.model >noids.model
ok 'all but the vectors of keys' train mlp --init noids.model -o got.model pairs.arrows
is 'names both tables' "$(tail -n 1 said)" 'noids.model: missing, and start at first values: 30 of the 30 keys of table ad, 40 of the 40 keys of table user'

# ---- another plan, other shapes
exits '--init of another plan' 1 ctr-train mlp --hidden 4 --embedding 3 --init day1.model -o x.model more.arrows
err_like 'is refused' "more.arrows: its features are not those that day1.model learned from: its plan has .*: extract them with ctr-extract day1.model"
ok '--init-partial of another plan' train mlp $still --init day1.model --init-partial -o got.model more.arrows
is 'takes what has the same name and shape, and says what it does not' "$(cat said)" 'day1.model: its features were made by plan '"$(grep -o 'made by plan [0-9a-f]*, ' said | sed 's/made by plan //; s/, //')"', those of the stream by plan '"$(grep -o 'stream by plan [0-9a-f]*' said | sed 's/.* //')"': tables of one name are taken for the same
day1.model: taken: 70 keys of 2 tables, 4 parameters
day1.model: skipped: parameter 0.weight (of another shape here)
day1.model: missing, and start at first values: table third, parameter 0.weight'
train mlp $still -o fresh.model more.arrows
ok 'it is there' values day1.model got.model emb.ad emb.user mlp.0.bias mlp.1.weight -mlp.0.weight
ok 'and the rest is new' values fresh.model got.model emb.third mlp.0.weight -emb.ad
ok '--init-partial with vectors of another length' sh -c "ctr-train mlp --hidden 4 --embedding 5 --init-partial --init day1.model -o got.model pairs.arrows 2>&1 | grep -q 'skipped: table ad (another --embedding here), table user (another --embedding here)'"
exits '--init with vectors of another length' 1 ctr-train mlp --hidden 4 --embedding 5 --init day1.model -o x.model pairs.arrows
err_like 'is refused, and told of --init-partial' 'table ad of the model has 3 floats a key, its options say 5; --init-partial takes what fits'
train mlp --init-partial --init day1.model -o partial.model pairs.arrows
train mlp --init day1.model -o whole.model pairs.arrows
ok '--init-partial of a model that fits is --init' values whole.model partial.model emb.ad emb.user mlp.0.weight mlp.0.bias mlp.0.alpha mlp.1.weight
# shellcheck disable=SC2086
train two-tower $towers --ad-features ad -o towers.model pairs.arrows
# shellcheck disable=SC2086
ok 'two-tower: --init-partial' train two-tower $towers --ad-features ad,third $still --init-partial --init towers.model -o got.model more.arrows
ok 'the tower of the user is whole, that of the ad begins anew below' values towers.model got.model two-tower.user.0.weight two-tower.ad.1.weight two-tower.bias -two-tower.ad.0.weight emb.ad
ctr-train lr -q -o day1.lr pairs.arrows
ok 'lr' sh -c 'ctr-train lr --init day1.lr -o got.lr pairs.arrows 2>&1 | sed -n "s/ctr-train: \(.*taken\)/\1/p" >said'
is 'says what was taken, too' "$(cat said)" 'day1.lr: taken: 71 keys of 2 tables'
exits 'lr with --init-partial' 2 ctr-train lr --init day1.lr --init-partial -o x.lr pairs.arrows
err_like 'is told so' 'lr takes no --init-partial'
exits '--init-partial without --init' 2 ctr-train mlp --init-partial -o x.model pairs.arrows
exits 'a model of another kind' 2 ctr-train mlp --init towers.model --init-partial -o x.model pairs.arrows
head -c 3000 day1.model >cut.model
exits 'a truncated model' 1 ctr-train mlp --hidden 4 --embedding 3 --init cut.model --init-partial -o x.model pairs.arrows
err_like 'is no partial one' 'cut.model: truncated'

# ---- a run that is killed goes on from what it started with
ctr-cat --batch 70 more.arrows >batches.arrows
train mlp --passes 3 --init day1.model --init-partial -o want.model batches.arrows
run() { timeout "$@" ctr-train mlp -q --hidden 4 --embedding 3 --minibatch 100 --passes 3 --init day1.model --init-partial \
    --checkpoint c.ckpt --checkpoint-every 60 --resume -o got.model batches.arrows; }
killed_runs '--init-partial: ' run 005 010 020 040
ok 'to the model of a run that was never killed' values want.model got.model emb.ad emb.user emb.third mlp.0.weight mlp.1.weight
done_testing
