#!/bin/sh
# A model for each day: none (from first values), partial (yesterday's parameters, but new vectors of all keys) and full (all of
# yesterday's model), each judged by the day after it has learned. Ge et al., "Image Matters" (CIKM 2018), table 5.
#     warmstart.sh OUT FEATURES FIRST DAYS [OPTIONS of ctr-train mlp…]      FEATURES: with time, user and label; FIRST: 2017-10-03
# Means of SEEDS, with 95% intervals where they are five.
set -eu
SEEDS=${SEEDS:-1 2 3 4 5}
out=$1 features=$2 first=$3 days=$4
shift 4
mkdir -p "$out"
day() { date -u -d "$first + $1 days" +%Y-%m-%dT00:00Z; }
i=0
while [ $i -lt "$days" ]; do
    ctr-select --where "time >= ts\"$(day $i)\" and time < ts\"$(day $((i + 1)))\"" "$features" -o "$out/day$i.arrows"
    i=$((i + 1))
done
for warm in none partial full; do
    rm -f "$out/$warm.seeds"
    for seed in $SEEDS; do
        i=0 init=
        rm -f "$out/$warm.scored"
        while [ $((i + 1)) -lt "$days" ]; do
            # shellcheck disable=SC2086
            ctr-train mlp $init --seed "$seed" "$@" -o "$out/$warm$i.model" "$out/day$i.arrows" 2>"$out/$warm$i.err"
            # The first day has nothing before it: all three are the same there, and it is left out.
            [ $i -eq 0 ] || ctr-predict -q "$out/$warm$i.model" "$out/day$((i + 1)).arrows" >>"$out/$warm.scored"
            case $warm in
            partial) ctr-select --section 'emb.*' --head 0 "$out/$warm$i.model" >"$out/noids.model" && init="--init $out/noids.model" ;;
            full) init="--init $out/$warm$i.model" ;;
            esac
            i=$((i + 1))
        done
        ctr-eval --metrics gauc,auc,log_loss "$out/$warm.scored" | awk '$1 == "total"' >>"$out/$warm.seeds"
    done
    echo "$warm: $(sed -n 's/ctr-train: .*\.model: \(taken: .*\)/\1/p' "$out/$warm$((i - 1)).err" | grep . || echo nothing taken)"
done
echo
echo '| start | rows | GAUC | AUC | log loss |'
echo '|---|---|---|---|---|'
for warm in none partial full; do
    awk -v name=$warm '
        function show(i,   mean, var) { # Student: 2.776 for five
            mean = sum[i] / NR; var = square[i] / NR - mean * mean
            return NR == 5 ? sprintf("%.4f ± %.4f", mean, 2.776 * sqrt((var > 0 ? var : 0) / (NR - 1))) : sprintf("%.4f", mean) }
        { for (i = 4; i <= 6; i++) { sum[i] += $i; square[i] += $i * $i } rows = $2 }
        END { printf "| %s | %d | %s | %s | %s |\n", name, rows, show(4), show(5), show(6) }' "$out/$warm.seeds"
done
