#!/bin/sh
# The recipes of one data set of the BARS benchmark (bars/recipes.txt), learned from features that bars.mk made: the published figures
# in one column, ours in the next. OUT= the folder of the products, SMALL=1 shrinks the networks, for a try.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
set_name=$1
cd "$OUT/bars/$set_name"

# Values in the vocabularies, and one more a field for all others, as the benchmark counts them.
entries=$(ctr-info --json fitted.arrows | sed -n 's/^{"rows":\([0-9]*\),.*"ctr\.section":"vocab\..*/\1/p' | awk '{ s += $1 } END { print s + NR }')
case $set_name in
criteo_x4) published=910708 ;;
avazu_x4) published=3750975 ;;
frappe_x1) published=5389 ;;
*) published=unknown ;;
esac
echo "vocabulary: $entries entries, published: $published"

show() { [ "$1" = - ] && echo ' ' || echo "$1"; }
echo '| model | gAUC published | ours | AUC published | ours | log loss published | ours |'
echo '|---|---|---|---|---|---|---|'
grep "^$set_name *|" "$here/bars/recipes.txt" | while IFS='|' read -r _ model options gauc auc loss; do
    model=$(echo $model)
    [ -z "${SMALL-}" ] || options=$(echo "$options" | sed 's/\(hidden\) [0-9,]*/\1 4/g; s/--minibatch [0-9]*/--minibatch 50/')
    case $model in
    lr) how="--progressive progressive.arrows" ;;
    *) how="--passes ${PASSES:-100} --patience 5 --validation valid.arrows" ;;
    esac
    case $options in *--l2*) [ "$model" = lr ] || ! grep -q vocab "$here/bars/$set_name.plan" || how="$how --l2-counts fitted.arrows" ;; esac
    # shellcheck disable=SC2086
    ctr-train $model -q $options $how -o "$model.arrows" train.arrows
    set -- $(ctr-predict -q "$model.arrows" test.arrows | ctr-eval --metrics "$([ "$(echo $gauc)" = - ] || echo gauc,)auc,log_loss" | awk '$1 == "total" { $1 = $2 = $3 = ""; print }')
    [ "$(echo $gauc)" != - ] || set -- - "$@"
    echo "| $model | $(show $gauc) | $(show $1) | $(show $auc) | $2 | $(show $loss) | $3 |"
    [ "$model" != lr ] || echo "| lr, progressive, one pass | | | | | $([ $set_name = criteo_x4 ] && echo .457 || echo ' ') | $(ctr-eval -m log_loss progressive.arrows | awk '$1 == "total" { print $NF }') |"
done
