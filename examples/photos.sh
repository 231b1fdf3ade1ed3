# shellcheck shell=sh disable=SC2154
# What fashion.sh and movies.sh share: photographs as short vectors, models with five seeds, tables. It is sourced in the folder of the
# products. Variables: here; SEEDS; settings, options of all models; learn and test, conditions for rows of features; slice, a column
# of truth values, and slice_name; kept, the columns that ctr-eval reads.

# short FILE: each photograph as 128 numbers of length 1, in photos.arrow; photo_vectors.py never sees an event.
short() {
    ctr-select -q --columns vector "$1" | ctr-export -f npy -o raw.npy
    python3 "$here/photo_vectors.py" 128 raw.npy unit.npy
    ctr-select -q --columns key "$1" -o keys.arrows
    ctr-import -q -f npy unit.npy | ctr-select -q --columns vector=value | ctr-join -q --by-row keys.arrows | ctr-cat --to file --key key -o photos.arrow
    rm raw.npy unit.npy keys.arrows
}

# model NAME PLAN OPTION…: learns from the rows of history.arrows for which $learn holds, scores those of $test with each seed; their mean
# score is in NAME.arrows, and a line a seed in seeds.tsv: name, seed, AUC, GAUC, AUC of the slice.
model() {
    name=$1 plan=$2
    shift 2
    ctr-extract -q "$plan" history.arrows -o features.arrows
    ctr-select -q --where "$learn" features.arrows -o train.arrows
    ctr-select -q --where "$test" features.arrows -o test.arrows
    images=
    case " $* " in *' --images '*) images='--images photos.arrow' ;; esac
    sum=0 n=0
    for seed in $SEEDS; do
        # shellcheck disable=SC2086
        ctr-train dicm $settings --seed "$seed" "$@" -o model.arrows train.arrows
        # shellcheck disable=SC2086
        ctr-predict -q $images model.arrows test.arrows -o scored.arrows
        ctr-eval --by "$slice" --metrics auc,gauc scored.arrows | awk -v OFS='\t' -v m="$name" -v s="$seed" -v by="$slice=true" \
            '$1 == "total" { a = $4; g = $5 } $1 == by { print m, s, a, g, $4 }' >>seeds.tsv
        n=$((n + 1)) sum="$sum + s$seed"
        ctr-select -q --columns "s$seed=score" scored.arrows -o "s$seed.arrows"
        if [ $n = 1 ]; then ctr-select -q --columns "$kept" scored.arrows -o all.arrows; fi
        ctr-join -q --by-row "s$seed.arrows" all.arrows -o more.arrows
        mv more.arrows all.arrows
    done
    ctr-select -q --add "score=($sum) / $n" all.arrows -o "$name.arrows"
}

# tables NAME…: the first is compared with.
tables() {
    echo "| model | AUC, mean of seeds | GAUC | AUC, $slice_name | AUC of the mean score | $slice_name |"
    echo '|---|---|---|---|---|---|'
    for m in "$@"; do
        together=$(ctr-eval --score score --by "$slice" --metrics auc "$m.arrows" |
            awk -v by="$slice=true" '$1 == "total" { a = $4 } $1 == by { printf "%.4f | %.4f", a, $4 }')
        awk -F '\t' -v m="$m" -v t="$together" '$1 == m { for (i = 3; i <= 5; i++) { s[i] += $i; q[i] += $i * $i } n++ }
            END { printf "| %s", m
                  for (i = 3; i <= 5; i++) { d = q[i] / n - s[i] / n * (s[i] / n); printf " | %.4f ± %.4f", s[i] / n, 2.776 * sqrt(d > 0 ? d / (n > 1 ? n - 1 : 1) : 0) }
                  printf " | %s |\n", t }' seeds.tsv
    done
    control=$1
    shift
    printf '\nGains of the mean scores over %s, with 95%% intervals of 1000 bootstrap samples of users:\n\n' "$control"
    echo "| model | AUC | GAUC | AUC, $slice_name |"
    echo '|---|---|---|---|'
    for m in "$@"; do
        ctr-eval --score score --by "$slice" --metrics auc,gauc --control "$control.arrows" --bootstrap 1000 "$m.arrows" |
            awk -v m="$m" -v by="$slice=true" '
                function gain() { return sprintf("%+.4f [%+.4f, %+.4f]", $3 - $6, $8 * $6 / 100, $9 * $6 / 100) }
                $1 == "total" && $2 == "auc" { a = gain() } $1 == "total" && $2 == "gauc" { g = gain() } $1 == by && $2 == "auc" { s = gain() }
                END { printf "| %s | %s | %s | %s |\n", m, a, g, s }'
    done
}

# compare WITHOUT WITH: the models of ids alone, with the tower of dicm, with what the plan WITH makes of the photographs, with both.
compare() {
    rm -f seeds.tsv
    tower='--images photos.arrow --images-tower 0 --images-pool attentive --attention-hidden 8'
    model ids "$1" --images-as-ids
    # shellcheck disable=SC2086
    model tower "$1" $tower
    model cosine "$2" --images-as-ids
    # shellcheck disable=SC2086
    model images "$2" $tower
    tables ids tower cosine images
}
