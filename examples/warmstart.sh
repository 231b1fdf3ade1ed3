#!/bin/sh
# A model for each day: none (from first values), partial (yesterday's parameters, but new vectors of all keys) and full (all of
# yesterday's model), each judged by the day after it has learned. Ge et al., "Image Matters" (CIKM 2018), table 5.
#     warmstart.sh OUT FEATURES FIRST DAYS [OPTIONS of ctr-train mlp…]      FEATURES: with time, user and label; FIRST: 2017-10-03
# Each start has the setting of SETTINGS (lines of options) whose log loss is lowest on days 3 and 4, with seed 1; the later days
# are reported: means of SEEDS, with 95% intervals where they are five.
set -eu
SEEDS=${SEEDS:-1 2 3 4 5}
SETTINGS=${SETTINGS:-$(for rate in .0005 .001 .002 .004 .008; do for l2 in 0 .001 .01 .1; do echo "--rate $rate --l2 $l2"; done; done)}
out=$1 features=$2 first=$3 days=$4
shift 4
mkdir -p "$out"
day() { date -u -d "$first + $1 days" +%Y-%m-%dT00:00Z; }
i=0
while [ $i -lt "$days" ]; do
    ctr-select --where "time >= ts\"$(day $i)\" and time < ts\"$(day $((i + 1)))\"" "$features" -o "$out/day$i.arrows"
    i=$((i + 1))
done

run() { # run START FROM TO OPTION… : learn days 0 to TO - 1, score days FROM to TO; total of the metrics
    warm=$1 from=$2 to=$3 i=0 init=
    shift 3
    rm -f "$out/$warm.scored"
    while [ $i -lt "$to" ]; do
        # shellcheck disable=SC2086
        ctr-train mlp $init "$@" -o "$out/$warm$i.model" "$out/day$i.arrows" 2>"$out/$warm$i.err"
        i=$((i + 1))
        [ $i -lt "$from" ] || ctr-predict -q "$out/$warm$((i - 1)).model" "$out/day$i.arrows" >>"$out/$warm.scored"
        case $warm in
        partial) ctr-select --section 'emb.*' --head 0 "$out/$warm$((i - 1)).model" >"$out/noids.model" && init="--init $out/noids.model" ;;
        full) init="--init $out/$warm$((i - 1)).model" ;;
        esac
    done
    ctr-eval --metrics gauc,auc,log_loss "$out/$warm.scored" | awk '$1 == "total"'
}

for warm in none partial full; do
    # The first day has nothing before it: all starts are the same there, and what it has learned is not scored.
    echo "$SETTINGS" | while read -r setting; do
        # shellcheck disable=SC2086
        echo "$(run $warm 2 3 --seed 1 "$@" $setting) | $setting"
    done >"$out/$warm.search"
    sort -g -k6,6 "$out/$warm.search" | sed -n '1s/.* | //p' >"$out/$warm.setting"
    rm -f "$out/$warm.seeds"
    for seed in $SEEDS; do
        # shellcheck disable=SC2046
        run $warm 4 $((days - 1)) --seed "$seed" "$@" $(cat "$out/$warm.setting") >>"$out/$warm.seeds"
    done
    echo "$warm: $(sed -n 's/ctr-train: .*\.model: \(taken: .*\)/\1/p' "$out/$warm$((days - 2)).err" | grep . || echo nothing taken)"
done
echo
echo '| start | setting | rows | GAUC | AUC | log loss |'
echo '|---|---|---|---|---|---|'
for warm in none partial full; do
    awk -v name=$warm -v setting="$(cat "$out/$warm.setting")" '
        function show(i,   mean, var) { # Student: 2.776 for five
            mean = sum[i] / NR; var = square[i] / NR - mean * mean
            return NR == 5 ? sprintf("%.4f ± %.4f", mean, 2.776 * sqrt((var > 0 ? var : 0) / (NR - 1))) : sprintf("%.4f", mean) }
        { for (i = 4; i <= 6; i++) { sum[i] += $i; square[i] += $i * $i } rows = $2 }
        END { printf "| %s | %s | %d | %s | %s | %s |\n", name, setting, rows, show(4), show(5), show(6) }' "$out/$warm.seeds"
done
