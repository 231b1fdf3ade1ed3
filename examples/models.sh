#!/bin/sh
# Models side by side on one log, MovieLens: the last 20% of each user's events are the test. Options are chosen on the 10% before
# them; then each model learns from the first 80% with five seeds. Prints a table of deep.md: means, and 95% intervals over the seeds.
# Seconds are processor seconds of learning, all threads, start and saved model included, of one pass (the mean of the seeds).
# FEATURES= names the features, of ml1mmodels.plan; OUT= the folder of the products; MODELS= some of the models.
set -eu
OUT=${OUT:-out}
MODELS=${MODELS:-lr fm dcnv2 dlrm mlp two-tower din}
mkdir -p "$OUT/models"
cd "$OUT/models"
part() { ctr-select --where "$2" "$FEATURES" -o "$1.arrows"; }
part learn 'place < 0.7'
part tune 'place >= 0.7 and place < 0.8'
part train 'place < 0.8'
part test 'place >= 0.8'

own() { # what a model has beside the settings that are chosen
    case $1 in
    lr) ;;
    fm) echo '--embedding 16 --minibatch 500' ;;
    two-tower) echo '--embedding 16 --minibatch 500 --hidden 64,32 --user-features user,age,gender,occupation,past --ad-features movie,genre,year' ;;
    *) echo '--embedding 16 --minibatch 500 --hidden 64,32' ;;
    esac
}
settings() {
    case $1 in
    lr) for a in .02 .05 .1 .2; do for p in 1 2 4; do echo "--alpha $a --passes $p"; done; done ;;
    fm | dcnv2) for r in .001 .003 .01; do for l in 0 .01 .1 1; do for p in 1 2 4; do echo "--rate $r --l2 $l --passes $p"; done; done; done ;;
    *) for r in .001 .003; do for l in .01 .1 1; do for p in 2 4; do echo "--rate $r --l2 $l --passes $p"; done; done; done ;;
    esac
}
figures() { ctr-eval --metrics auc,gauc,log_loss | awk '$1 == "total" { print $4, $5, $6 }'; }

echo '| model | chosen | AUC | GAUC | log loss | seconds a pass |'
echo '|---|---|---|---|---|---|'
for m in $MODELS; do
    chosen=$(settings "$m" | while read -r s; do
        # shellcheck disable=SC2046,SC2086
        ctr-train "$m" -q $(own "$m") $s -o tune.model learn.arrows
        echo "$(ctr-predict -q tune.model tune.arrows | figures | cut -d ' ' -f 3) $s"
    done | sort -n | head -n 1 | cut -d ' ' -f 2-)
    rm -f seeds.txt
    for seed in 1 2 3 4 5; do
        times >times.txt # a subshell would have no children to count
        # shellcheck disable=SC2046,SC2086
        ctr-train "$m" -q $(own "$m") $chosen --seed $seed -o "$m.model" train.arrows
        times >>times.txt
        seconds=$(awk 'NR % 2 == 0 { split($1 " " $2, t, /[ms ]+/); s = t[1] * 60 + t[2] + t[3] * 60 + t[4] - s } END { print s }' times.txt)
        echo "$(ctr-predict -q "$m.model" test.arrows | figures) $seconds" >>seeds.txt
    done
    awk -v m="$m" -v c="$chosen" '
        function show(i,   mean, half) { # Student: 2.776 for five
            mean = sum[i] / NR; half = 2.776 * sqrt((square[i] / NR - mean * mean > 0 ? square[i] / NR - mean * mean : 0) / (NR - 1))
            return sprintf(half < .00005 ? "%.4f" : "%.4f ± %.4f", mean, half) }
        { for (i = 1; i <= 3; i++) { sum[i] += $i; square[i] += $i * $i } time += $4 }
        BEGIN { passes = c; sub(/.*--passes /, "", passes) }
        END { printf "| %s | %s | %s | %s | %s | %.1f |\n", m, c, show(1), show(2), show(3), time / NR / passes }' seeds.txt
done
