#!/bin/sh
# Embedding&MLP beside logistic regression: a planted world whose best AUC is known, with five seeds and PyTorch beside it where
# there is one; two public logs. Prints the tables of deep.md. OUT= chooses the folder, ROWS= the size of the planted world,
# TORCH= the Python that has it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$here/out}
ROWS=${ROWS:-250000}
TORCH=${TORCH:-python3}
MLP='--embedding 8 --hidden 64,32 --minibatch 250'
mkdir -p "$OUT/deep"
cd "$OUT/deep"
rm -f ./*.new

auc() { ctr-eval --metrics auc,log_loss "$@" | awk '$1 == "total" { print $4, $5 }'; }
row() { printf '| %s | %s | %s |\n' "$@"; }

ctr-synth -q -o logs --rows "$ROWS" --users 2000 --ads 500 --rate 0.2 --seed 1
ctr-import --format tsv --header --time time logs/impressions.tsv -o impressions.arrows
ctr-import --format tsv --header logs/users.tsv -o users.arrows
ctr-import --format jsonl --columns ad_id:int64,campaign_id:int64,category:utf8 logs/ads.jsonl -o ads.arrows
ctr-import --format tsv --header --time click_time logs/clicks.tsv | ctr-select --columns impression_id,click_time -o clicks.arrows
ctr-join -q -k impression_id clicks.arrows impressions.arrows | ctr-join -q -k user_id users.arrows |
    ctr-join -q -k ad_id ads.arrows | ctr-extract "$here/deep.plan" | ctr-select --head 75% --rest test.arrows -o train.arrows
ctr-select --head 80% --rest tune.arrows -o learn.arrows train.arrows

# best NAME OPTIONS…: of several settings (a line each on stdin), the one with the lowest log loss on tune.arrows, learned from
# learn.arrows. The last quarter, which the tables are about, has no say in it.
best() {
    while read -r settings; do
        # shellcheck disable=SC2086
        ctr-train "$@" -q $settings -o best.arrows learn.arrows
        echo "$(ctr-predict -q best.arrows tune.arrows | auc | cut -d ' ' -f 2) $settings"
    done | sort -n | head -n 1 | cut -d ' ' -f 2-
}
grid() { # grid A B: every pair
    for a in $2; do for b in $4; do echo "$1 $a $3 $b"; done; done
}
lr=$(grid --alpha '.01 .02 .05 .1 .2' --passes '1 2 4' | best lr)
# shellcheck disable=SC2086
mlp=$(grid --l2 '0 1 3' --passes '1 2 4 8' | best mlp $MLP)
echo "## A planted world: $ROWS impressions, the last quarter to test"
echo
echo '| model | test AUC | test log loss |'
echo '|---|---|---|'
row 'the planted probabilities' $(auc --score p_true test.arrows)
# shellcheck disable=SC2086
ctr-train lr -q $lr -o lr.arrows train.arrows
row "lr $lr" $(ctr-predict -q lr.arrows test.arrows | auc)
for seed in 1 2 3 4 5; do
    # shellcheck disable=SC2086
    ctr-train mlp -q $MLP $mlp --seed $seed -o mlp.arrows train.arrows
    set -- $(ctr-predict -q mlp.arrows test.arrows | auc)
    row "mlp $mlp, seed $seed" "$@"
    echo "$@" >>mlp.txt.new
done
mean() { awk -v c="$2" '{ s += $c } END { printf("%.6f", s / NR) }' "$1"; }
row 'mlp, mean' "$(mean mlp.txt.new 1)" "$(mean mlp.txt.new 2)"
rm mlp.txt.new
if "$TORCH" -c 'import torch' 2>/dev/null; then
    for s in train test; do ctr-export -f jsonl $s.arrows -o $s.jsonl; done
    for seed in 1 2 3 4 5; do
        # shellcheck disable=SC2046
        "$TORCH" "$here/deep_torch.py" train.jsonl test.jsonl $seed 8 64,32 250 $(echo "$mlp" | awk '{ print $4, $2 }') >>torch.txt.new
        row "PyTorch, seed $seed" "$(tail -n 1 torch.txt.new)" ''
    done
    row 'PyTorch, mean' "$(mean torch.txt.new 1)" ''
    rm torch.txt.new
fi

# Public logs, one pass, progressively: each row is predicted before it is learned from; figures of the second half.
echo
echo '## Public logs, one pass, the second half of the rows predicted before they were learned from'
echo
echo '| log and model | AUC | log loss |'
echo '|---|---|---|'
public() { # public NAME FEATURES
    ctr-train lr -q --alpha 0.05 -o model.arrows --progressive p.arrows "$2"
    row "$1, lr" $(ctr-select --tail 50% p.arrows | auc)
    ctr-train lr -q --alpha 0.05 --minibatch 50 --precision f32 -o model.arrows --progressive p.arrows "$2"
    row "$1, lr --minibatch 50 --precision f32" $(ctr-select --tail 50% p.arrows | auc)
    ctr-train mlp -q --minibatch 50 -o model.arrows --progressive p.arrows "$2"
    row "$1, mlp --minibatch 50" $(ctr-select --tail 50% p.arrows | auc)
    ctr-train mlp -q --minibatch 50 --hidden 64,32 --dropout 0.2 --l2 0.01 -o model.arrows --progressive p.arrows "$2"
    row "$1, mlp --minibatch 50 --hidden 64,32 --dropout 0.2 --l2 0.01" $(ctr-select --tail 50% p.arrows | auc)
}
[ ! -e ../criteo/features.arrows ] || public 'criteo_small_20k' ../criteo/features.arrows
[ ! -e ../ml1m/features.arrows ] || public 'ml1m_half' ../ml1m/features.arrows
