#!/bin/sh
# Every deep model beside the same model in PyTorch (models_torch.py), from the same first values: the loss of each of 50 minibatches before its
# update. Prints a table of deep.md; a difference above 1e-4 is a failure. OUT= chooses the folder, TORCH= the Python that has PyTorch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$here/out}
TORCH=${TORCH:-python3}
STEPS=50 MINIBATCH=200 RATE=.003
mkdir -p "$OUT/steps"
cd "$OUT/steps"
python3 "$here/interests.py" $((STEPS * MINIBATCH)) 1 | ctr-import -q --format csv --header | ctr-extract -q "$here/steps.plan" -o rows.arrows
echo '| model | PyTorch, minibatch 1 | ctr-train | PyTorch, minibatch 50 | ctr-train | largest difference |'
echo '|---|---|---|---|---|---|'
failed=0
while read -r model options; do
    # shellcheck disable=SC2086
    set -- "$model" -q --embedding 8 --minibatch $MINIBATCH $options
    ctr-train "$@" --rate 1e-35 -o start.model rows.arrows
    ctr-train "$@" --rate $RATE -o end.model --progressive progressive.arrows rows.arrows
    "$TORCH" "$here/models_torch.py" steps start.model rows.arrows progressive.arrows $STEPS $RATE "$model${options:+ $options}" || failed=1
done <<'END'
mlp --hidden 32,16
mlp --hidden 32,16 --activation dice
two-tower --hidden 32 --vector 8 --user-features past,read --ad-features article,shelf,place
fm
dcnv2 --hidden 32,16
dcnv2 --hidden 32,16 --structure stacked --cross-rank 4
dlrm --hidden 32,16 --bottom 16
din --hidden 32 --attention-hidden 16,8
din --hidden 32 --attention-hidden 16,8 --attention softmax --activation prelu
END
exit $failed
