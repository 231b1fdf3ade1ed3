#!/bin/sh
# A planted world of interests (interests.py): lr, mlp, two-tower and din, and the last three in PyTorch (models_torch.py) where there is
# one. OUT= chooses the folder, ROWS= the size, SEEDS= the seeds, TORCH= the Python that has PyTorch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$here/out}
ROWS=${ROWS:-60000}
TORCH=${TORCH:-python3}
SEEDS=${SEEDS:-1 2 3 4 5}
mkdir -p "$OUT/interests"
cd "$OUT/interests"
rm -f ./*.new

auc() { ctr-eval --metrics auc,log_loss "$@" | awk '$1 == "total" { print $4, $5 }'; }
row() { printf '| %s | %s | %s |\n' "$@"; }
column() { cut -d ' ' -f "$2" "$1" | tr '\n' ' ' | sed 's/ $//'; }
mean() { awk -v c="$2" '{ s += $c } END { printf("%.6f", s / NR) }' "$1"; }

python3 "$here/interests.py" "$ROWS" 1 | ctr-import -q --format csv --header | ctr-extract -q "$here/interests.plan" |
    ctr-select --head 75% --rest test.arrows -o train.arrows
echo '| model | test AUC | test log loss |'
echo '|---|---|---|'
row 'the planted probabilities' $(auc --score p_true test.arrows)
ctr-train lr -q --passes 2 -o lr.arrows train.arrows
row 'lr --passes 2' $(ctr-predict -q lr.arrows test.arrows | auc)
torch=
"$TORCH" -c 'import torch' 2>/dev/null && torch=1
for model in mlp 'two-tower --user-features past --ad-features article' 'din --attention-hidden 16,8'; do
    for seed in $SEEDS; do
        set -- -q --embedding 8 --hidden 32 --minibatch 200 --seed "$seed"
        # shellcheck disable=SC2086
        ctr-train $model "$@" --rate .003 --passes 8 -o model.arrows train.arrows
        echo $(ctr-predict -q model.arrows test.arrows | auc) >>seeds.new
        [ -n "$torch" ] || continue
        # shellcheck disable=SC2086
        ctr-train $model "$@" --rate 1e-35 -o start.arrows train.arrows
        "$TORCH" "$here/models_torch.py" auc start.arrows train.arrows test.arrows same 8 .003 >>same.new
        "$TORCH" "$here/models_torch.py" auc start.arrows train.arrows test.arrows "$seed" 8 .003 >>torch.new
    done
    row "$model: mean ($(column seeds.new 1))" "$(mean seeds.new 1)" "$(mean seeds.new 2)"
    [ -z "$torch" ] || row "in PyTorch from the same first values: mean ($(column same.new 1))" "$(mean same.new 1)" ''
    [ -z "$torch" ] || row "in PyTorch from its own: mean ($(column torch.new 1))" "$(mean torch.new 1)" ''
    rm -f seeds.new same.new torch.new
done
