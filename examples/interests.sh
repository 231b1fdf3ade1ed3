#!/bin/sh
# A planted world of interests (interests.py): lr, mlp, two-tower and din, and the last three in PyTorch (models_torch.py) where there is
# one. OUT= chooses the folder, ROWS= the size, SEEDS= the seeds, MODELS= some of lr, mlp, two-tower and din, TORCH= the Python that has
# PyTorch. No GAUC: each row is a user of its own. Seconds are processor seconds of learning, all threads, of one seed (the mean).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$here/out}
ROWS=${ROWS:-60000}
TORCH=${TORCH:-python3}
SEEDS=${SEEDS:-1 2 3 4 5}
MODELS=${MODELS:-lr mlp two-tower din}
mkdir -p "$OUT/interests"
cd "$OUT/interests"
rm -f ./*.new

auc() { ctr-eval --metrics auc,log_loss "$@" | awk '$1 == "total" { print $4, $5 }'; }
row() { printf '| %s | %s | %s | %s |\n' "$@"; }
column() { cut -d ' ' -f "$2" "$1" | tr '\n' ' ' | sed 's/ $//'; }
mean() { awk -v c="$2" -v digits="${3:-6}" '{ s += $c } END { printf("%.*f", digits, s / NR) }' "$1"; }

python3 "$here/interests.py" "$ROWS" 1 | ctr-import -q --format csv --header | ctr-extract -q "$here/interests.plan" |
    ctr-select --head 75% --rest test.arrows -o train.arrows
options() { # what a model has beside the settings of all networks
    case $1 in
    lr) echo '--passes 2' ;;
    mlp) ;;
    two-tower) echo '--user-features past --ad-features article' ;;
    din) echo '--attention-hidden 16,8' ;;
    *) echo "interests.sh: no model '$1'" >&2 && return 1 ;;
    esac
}
# learn FILE ARGUMENTS…: ctr-train, whose processor seconds FILE gets
learn() {
    file=$1
    shift
    times >times.new # a subshell would have no children to count
    ctr-train "$@"
    times >>times.new
    awk 'NR % 2 == 0 { split($1 " " $2, t, /[ms ]+/); s = t[1] * 60 + t[2] + t[3] * 60 + t[4] - s } END { printf("%.2f\n", s) }' times.new >>"$file"
}
echo '| model | test AUC | test log loss | seconds |'
echo '|---|---|---|---|'
row 'the planted probabilities' $(auc --score p_true test.arrows) ''
torch=
"$TORCH" -c 'import torch' 2>/dev/null && torch=1
for model in $MODELS; do
    own=$(options "$model")
    if [ "$model" = lr ]; then
        # shellcheck disable=SC2086
        learn seconds.new lr -q $own -o lr.arrows train.arrows
        row "lr $own" $(ctr-predict -q lr.arrows test.arrows | auc) "$(mean seconds.new 1 2)"
        rm -f seconds.new
        continue
    fi
    for seed in $SEEDS; do
        # shellcheck disable=SC2086
        set -- "$model" $own -q --embedding 8 --hidden 32 --minibatch 200 --seed "$seed"
        learn seconds.new "$@" --rate .003 --passes 8 -o model.arrows train.arrows
        echo $(ctr-predict -q model.arrows test.arrows | auc) >>seeds.new
        [ -n "$torch" ] || continue
        ctr-train "$@" --rate 1e-35 -o start.arrows train.arrows
        "$TORCH" "$here/models_torch.py" auc start.arrows train.arrows test.arrows same 8 .003 >>same.new
        "$TORCH" "$here/models_torch.py" auc start.arrows train.arrows test.arrows "$seed" 8 .003 >>torch.new
    done
    row "$model${own:+ $own}: mean ($(column seeds.new 1))" "$(mean seeds.new 1)" "$(mean seeds.new 2)" "$(mean seconds.new 1 2)"
    [ -z "$torch" ] || row "in PyTorch from the same first values: mean ($(column same.new 1))" "$(mean same.new 1)" '' ''
    [ -z "$torch" ] || row "in PyTorch from its own: mean ($(column torch.new 1))" "$(mean torch.new 1)" '' ''
    rm -f seeds.new same.new torch.new seconds.new
done
rm -f times.new
