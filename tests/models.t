#!/bin/sh
# What every model of `ctr-train --help` holds: a run that is killed at any moment goes on to the bytes of one that never was; lists of one history that
# differ in length are refused, while learning and in prediction; a warm start tells what it took, and refuses other kinds, plans and shapes.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

rows() { # rows ROWS [ROW]: that row has a `kind` less than it has `past`
    awk -v rows="$1" -v bad="${2:-0}" 'BEGIN { srand(4); for (i = 1; i <= rows; i++) { n = 1 + int(rand() * 4); past = kind = seen = ""; a = int(rand() * 60)
        for (k = 0; k < n; k++) { b = int(rand() * 60); past = past (k ? " i" : "i") b; seen = seen (k ? " p" : "p") b % 9; if (k || i != bad) kind = kind (kind == "" ? "k" : " k") b % 5 }
        printf "{\"click\": %d, \"item\": \"i%d\", \"photo\": \"p%d\", \"past\": \"%s\", \"seen\": \"%s\", \"kind\": \"%s\", \"age\": %.3f}\n",
            rand() < (a % 3 ? .3 : .6), a, a % 9, past, seen, kind, rand() } }' | ctr-import -q -f jsonl
}
printf '%s\n' 'label click' 'feature item' 'feature past in item of item group h = split(past, " ")' 'feature kind group h = split(kind, " ")' 'dense age' >keys.plan
{ cat keys.plan; printf '%s\n' 'image photo' 'image seen in photo of photo = split(seen, " ")'; } >photos.plan
awk 'BEGIN { srand(2); for (i = 0; i < 9; i++) printf "{\"key\": \"p%d\", \"vector\": [%.3f, %.3f, %.3f]}\n", i, rand() - .5, rand() - .5, rand() - .5 }' | ctr-import -q -f jsonl -o images.arrows
rows 4000 >log.arrows
rows 4000 2871 >bad.log
for plan in keys photos; do
    ctr-extract -q $plan.plan log.arrows | ctr-cat -q --batch 70 -o $plan.arrows
    ctr-extract -q $plan.plan bad.log -o $plan.bad
    { cat $plan.plan; echo 'feature more = kind'; } >more.plan
    ctr-extract -q more.plan log.arrows -o $plan.more
done

# The options with which each model runs; a model that is not here fails the test.
input=keys
options() {
    input=keys o='--embedding 4 --minibatch 100 --rate .01'
    case $1 in
    lr) o='--alpha .1' ;;
    fm) ;;
    mlp | dcnv2 | dlrm | din) o="$o --hidden 8,4" ;;
    two-tower) o="$o --hidden 8,4 --vector 3 --user-features past,kind,age --ad-features item" ;;
    dicm) o="$o --hidden 8,4 --images images.arrows --images-tower 4" input=photos ;;
    *) return 1 ;;
    esac
}
run() {
    # shellcheck disable=SC2086
    timeout "$@" ctr-train $m -q $o --passes 3 --checkpoint $m.ckpt --checkpoint-every 250 --resume -o got.model --progressive got.p $input.arrows
}
models=$(ctr-train --help | sed -n '/^[Mm]odels/,/^$/s/^  \([a-z0-9-]*\) .*/\1/p')
ok 'the help lists models' test "$(echo "$models" | wc -l)" -ge 8
for m in $models; do
    ok "$m: this test knows it" options "$m" || continue
    # shellcheck disable=SC2086
    ctr-train $m -q $o --passes 3 -o want.model --progressive want.p $input.arrows
    killed_runs "$m: " run 010 020 030 050 080 120
    ok "$m: killed and resumed: the bytes of the model" cmp want.model got.model
    ok "$m: and those of the predictions" cmp want.p got.p
    # shellcheck disable=SC2086
    exits "$m: lists of one history with unequal lengths" 1 ctr-train $m -q $o -o x.model $input.bad
    err_like 'are told with row, columns and remedy' "$input.bad: row 2871: 'kind' has [0-3] items and 'past' has [1-4]: lists of one history .h. are aligned, item by item; mend the row, or"
    images= more=
    [ "$m" != two-tower ] || more="--ad-features item,more"
    [ "$m" != dicm ] || images='--images images.arrows'
    # shellcheck disable=SC2086
    exits "$m: in prediction, too" 1 ctr-predict -q $images -o x.p want.model $input.bad
    err_like 'which names the row' "row 2871: 'kind' has"
    # shellcheck disable=SC2086
    ok "$m: a warm start" sh -c "ctr-train $m $o --init want.model -o warm.model $input.arrows 2>said"
    ok 'says what it took' grep -q 'want.model: taken: [1-9][0-9]* keys of [1-9] tables' said
    other=mlp
    [ "$m" != mlp ] || other=fm
    exits "$m: a warm start from another kind" 2 ctr-train $other -q --init want.model -o x.model $input.arrows
    err_like 'is refused' "want.model: --init: this is a model of kind $m, not $other"
    # shellcheck disable=SC2086
    exits "$m: one from another plan" 1 ctr-train $m -q $o $more --init want.model -o x.model $input.more
    err_like 'is refused, too' "$input.more: its features are not those that want.model learned from: its plan has "
done
done_testing
