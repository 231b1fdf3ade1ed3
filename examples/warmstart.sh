#!/bin/sh
# A model for each day: none (from first values), partial (yesterday's parameters, but new vectors of all keys) and full (all of
# yesterday's model), each judged by the day after it has learned. Ge et al., "Image Matters" (CIKM 2018), table 5.
#     warmstart.sh OUT FEATURES FIRST DAYS [OPTIONS of ctr-train mlp…]      FEATURES: with time, user and label; FIRST: 2017-10-03
set -eu
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
    i=0 init=
    while [ $((i + 1)) -lt "$days" ]; do
        # shellcheck disable=SC2086
        ctr-train mlp $init "$@" -o "$out/$warm$i.model" "$out/day$i.arrows" 2>"$out/$warm$i.err"
        ctr-predict -q "$out/$warm$i.model" "$out/day$((i + 1)).arrows" -o "$out/$warm$i.scored"
        case $warm in
        partial) ctr-select --section 'emb.*' --head 0 "$out/$warm$i.model" >"$out/noids.model" && init="--init $out/noids.model" ;;
        full) init="--init $out/$warm$i.model" ;;
        esac
        i=$((i + 1))
    done
    echo "$warm: $(sed -n 's/ctr-train: .*\.model: \(taken: .*\)/\1/p' "$out/$warm$((i - 1)).err" | grep . || echo nothing taken)"
    # The first day has nothing before it: all three are the same there, and it is left out.
    rm -f "$out/$warm.scored"
    i=1
    while [ $((i + 1)) -lt "$days" ]; do
        cat "$out/$warm$i.scored" >>"$out/$warm.scored"
        i=$((i + 1))
    done
    ctr-eval --metrics gauc,auc,log_loss "$out/$warm.scored"
done
