#!/bin/sh
# Steps of trenches.mk that are more than a pipeline. Called by make, with bin/ in PATH.
#
#     trenches.sh held-out LOG 'OPTIONS OF ctr-train lr'
#
# learns from LOG.train.arrows, with alpha .1 and then twice and half of it for as long as the log loss of LOG.validation.arrows falls, scores
# LOG.test.arrows with the best, and prints: keys, AucLoss (1 - AUC), log loss, alpha.
#
#     trenches.sh against-first
#
# reads lines `log name keys AucLoss log-loss alpha` and prints them as a table, with AucLoss relative to the first line of each log.
#
#     trenches.sh slices NAME COLUMN
#
# reads by,slice,window,rows,auc_loss_change and prints a line: the name, the change of all rows, then the three values of the
# column with the best and the three with the worst.
#
#     trenches.sh inclusion STREAM RULE FILTER-MEMORY (of bloom=N)
#
# learns with the rule and prints: log, rule, keys, KiB of the learner, progressive AucLoss.
#
#     trenches.sh precision STREAM PRECISION
#
# likewise with a precision.
#
#     trenches.sh memory-against-loss
#
# prints such lines as a table, relative to the first one of each log.
#
#     trenches.sh variants STREAM
#
# learns 100 variants exactly and with --single-value, and compares memory and the order of their AucLoss: of all, and of those that lack
# one column at most, which differ little.
#
#     trenches.sh bagging STREAM
#
# learns 10 variants without a fifth of the columns each and one with all, and prints the AucLoss of all, of the ten, and of their mean.
#
#     trenches.sh sample LOG SHARE [OPTIONS OF ctr-select]
#
# learns from a sample of the queries of LOG.train.arrows (column visit), scores LOG.rest.arrows, and prints: share, rows learned from, keys,
# AucLoss, log loss, mean score over mean label.
#
#     trenches.sh sample-table
#
# prints such lines as a table, relative to the first one.
#
#     trenches.sh fig3 DIR 'OPTIONS OF THE TRUTH' PICTURE MODELS CLASSES
#
# learns the truth by DIR/truth.plan from DIR/raw.arrows with the options, draws labels from its probabilities, learns by DIR/model.plan from
# the first 80 per cent, and compares |error of the log-odds| on the others with the uncertainty and with the spread of MODELS bootstrap
# models: figures on stdout, and the picture.
#
#     trenches.sh calibration LOG
#
# learns from LOG.train.arrows, fits maps to the scores of LOG.validation.arrows, and prints for those of LOG.test.arrows: log, map, log loss,
# and mean score over mean label of the lowest 10% of the scores, the middle 80%, the highest 10%, and of these the highest 1%.
#
#     trenches.sh calibration-of NAME FIT TEST [SCORE]
#
# likewise with streams that have scores, in the column SCORE.
#
#     trenches.sh calibration-table
#
# prints such lines as a table, with the log loss relative to the first line of each log.
#
#     trenches.sh sparsity LOG
#
# prints for each optimizer, learned from LOG.train.arrows: log, name, options, non-zero weights, and AucLoss of LOG.test.arrows with that of
# FTRL and its 95% interval in per cent. Rates and regularisation are chosen on LOG.validation.arrows: of all that were tried, those that leave
# the fewest weights with an AucLoss at most one per cent above the lowest of FTRL; where none is so good, those with the lowest.
#
#     trenches.sh sparsity-table
#
# prints such lines as a table, relative to the first line of each log.
set -eu
rates=${RATES:-.025 .05 .1 .2 .4 .8} # of table 1
tmp=$(mktemp -d "${TMPDIR:-/tmp}/trenches.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

# values METRIC,… OPTION… : of a stream on stdin or a file, by ctr-eval
values() {
    ctr-eval --metrics "$@" | awk -v n="$(echo "$1" | tr , ' ' | wc -w)" 'END { if (NF <= n) exit 1
        for (i = NF - n + 1; i <= NF; i++) printf "%s%s", $i, (i < NF ? " " : "\n") }'
}
# losses MODEL STREAM: AucLoss and log loss
losses() { ctr-predict "$1" "$2" | values auc_loss,log_loss; }

# one ALPHA: learn with it and score the rows to choose by; leave the figures in the variable `one`
one() {
    # shellcheck disable=SC2086
    ctr-train lr $options --alpha "$1" "$log.train.arrows" -o "$tmp/model" 2>"$tmp/err" || { cat "$tmp/err" >&2; exit 1; }
    one="$(awk '$1 == "keys" { print $2 }' "$tmp/err") $(losses "$tmp/model" "$log.$choose_by.arrows") $1" || exit 1
}
keep() { best=$one && mv "$tmp/model" "$tmp/best"; }

# climb FACTOR: from the best alpha so far, for as long as the log loss falls
climb() {
    while one "$(echo "${best##* }" | awk -v by="$1" '{ print $1 * by }')" && echo "$one $best" | awk '{ exit !($3 < $7) }'; do
        keep
    done
}

# tune LOG OPTIONS PART: the best alpha on LOG.PART.arrows; leaves its figures in the variable `best`, its model in $tmp/best
tune() {
    log=$1 options=$2 choose_by=$3
    one 0.1
    keep
    climb 2
    [ "${best##* }" != 0.1 ] || climb .5
}

held_out() {
    tune "$1" "$2" validation
    reported=$(losses "$tmp/best" "$log.test.arrows")
    echo "${best%% *} $reported ${best##* }"
}

# grid OPTIMIZER OPTION VALUE… : learns with each rate and each value of the option, which are variants, from the first part; prints
# optimizer, rate, option, value, AucLoss of the second part; leaves scores of the third, and models. Rows of the later parts weigh 0.
grid() {
    optimizer=$1 option=$2
    shift 2
    for value; do echo "v$value $option=$value"; done >"$tmp/list"
    for alpha in $rates; do
        at=$tmp/$optimizer-$alpha
        ctr-train lr -q --optimizer "$optimizer" --alpha "$alpha" --weight learned --variants "$tmp/list" "$tmp/rows" -o "$at-v%s" --progressive "$tmp/p"
        ctr-select --where 'part == 2' -o "$tmp/second" "$tmp/p"
        ctr-select --where 'part == 3' -o "$at.third" "$tmp/p"
        for value; do echo "$optimizer $alpha $option $value $(values auc_loss --score "score.v$value" "$tmp/second")"; done
        rm "$tmp/p"
    done
}

# count OPTIMIZER RATE VALUE : weights that are not 0
count() { ctr-select --where 'weight != 0' "$tmp/$1-$2-vv$3" | ctr-info - | awk '$1 == "rows:" { print $2 }'; }

# sparsest LOSS : of the lines of a grid on stdin the one with the fewest weights whose AucLoss is not above LOSS, or that with the least AucLoss
sparsest() {
    sort -k5,5g >"$tmp/grid"
    awk -v most="$1" '$5 <= most || NR == 1' "$tmp/grid" | while read -r o a option v loss; do
        echo "$(count "$o" "$a" "$v") $o $a $option $v $loss"
    done | sort -k1,1n | head -n 1
}

sparsity() {
    log=$1
    i=0
    for part in train validation test; do
        i=$((i + 1))
        ctr-select --add "part=$i" "$log.$part.arrows" | ctr-select --add 'learned=if(part == 1, 1, 0)' -o "$tmp/part.$i"
    done
    ctr-cat -o "$tmp/rows" "$tmp/part.1" "$tmp/part.2" "$tmp/part.3"
    rows=$(ctr-info "$tmp/part.1" | awk '$1 == "rows:" { print $2 }')
    l1='.25 .35 .5 .6 .7 .8 .9 1 1.15 1.3 1.6 2 2.8 4 8 16' target='' control=''
    for o in ftrl rda fobos ogd-count; do
        # shellcheck disable=SC2046,SC2086
        case $o in
        fobos) grid $o l1 $(echo 1 2 4 8 11 16 23 32 45 64 90 128 180 256 360 512 | awk -v rows="$rows" '{ for (i = 1; i <= NF; i++) printf "%.3g ", $i / rows }') ;;
        ogd-count) grid $o threshold 1 2 3 4 5 6 8 11 13 16 19 23 32 45 64 90 ;;
        *) grid $o l1 $l1 ;;
        esac >"$tmp/lines"
        [ -n "$target" ] || target=$(awk 'NR == 1 || $5 < low { low = $5 } END { print 1.01 * low }' "$tmp/lines")
        sparsest "$target" <"$tmp/lines" | while read -r n _ a option v _; do
            ctr-select --add "score=\`score.v$v\`" -o "$tmp/$o.scored" "$tmp/$o-$a.third"
            change=$([ $o = ftrl ] && echo '0 0 0' || ctr-eval -q --score score --control "$tmp/ftrl.scored" --bootstrap 1000 --metrics auc_loss --format stream "$tmp/$o.scored" |
                ctr-export --format tsv --columns auc_loss_change,auc_loss_change_low,auc_loss_change_high | sed 1d)
            echo "$(basename "$log") $o --alpha $a --$option $v $n $(values auc_loss --score score "$tmp/$o.scored")" $change
        done
        rm -f "$tmp/$o"-*
    done
}

sparsity_table() {
    awk 'BEGIN { printf "%-8s %-10s %-32s %9s %9s %9s %9s %20s\n", "log", "optimizer", "options", "non-zero", "relative", "AucLoss", "relative", "95% interval" }
        $1 != log_name { log_name = $1; nonzero = $7 }
        { printf "%-8s %-10s %-32s %9d %+8.1f%% %9.5f %+8.2f%% %+9.2f%% %+9.2f%%\n", $1, $2, $3 " " $4 " " $5 " " $6, $7, 100 * ($7 / nonzero - 1), $8, $9, $10, $11 }'
}

# The score with so many per mille of the sorted ones below it.
quantile() { awk -v at="$1" '{ x[NR] = $1 } END { i = int(NR * at / 1000); print x[i < 1 ? 1 : i] }' "$tmp/sorted"; }

calibration_of() {
    score=${4:-score}
    ctr-export -f csv --no-header -c "$score" "$3" | sort -g >"$tmp/sorted"
    low=$(quantile 100) high=$(quantile 900) top=$(quantile 990)
    ctr-select --add "raw = $score" "$3" -o "$tmp/none"
    for map in none power platt isotonic; do
        if [ $map != none ]; then
            ctr-calibrate -q --fit $map -o "$tmp/map" "$2"
            ctr-calibrate "$tmp/map" "$tmp/none" -o "$tmp/$map"
        fi
        printf '%s %s %s' "$1" $map "$(values log_loss "$tmp/$map")"
        for where in "raw <= $low" "raw > $low and raw <= $high" "raw > $high" "raw > $top"; do
            value=$(ctr-select --where "$where" "$tmp/$map" | values calibration 2>/dev/null)
            printf ' %s' "${value:--}"
        done
        echo
    done
}

calibration() {
    ctr-train lr -q --alpha .05 "$1.train.arrows" -o "$tmp/model"
    for part in validation test; do ctr-predict -q "$tmp/model" "$1.$part.arrows" -o "$tmp/$part"; done
    calibration_of "$(basename "$1")" "$tmp/validation" "$tmp/test"
}

calibration_table() {
    awk 'function bias(x) { return x == "-" ? "-" : sprintf("%.3f", x) }
        BEGIN { printf "%-8s %-9s %9s %9s %8s %8s %8s %8s\n", "log", "map", "log loss", "relative", "low 10%", "middle", "top 10%", "top 1%" }
        $1 != log_name { log_name = $1; base = $3 }
        { printf "%-8s %-9s %9.5f %+8.2f%% %8s %8s %8s %8s\n", $1, $2, $3, 100 * ($3 / base - 1), bias($4), bias($5), bias($6), bias($7) }'
}

against_first() {
    awk 'BEGIN { printf "%-8s %-18s %9s %9s %10s %9s %6s\n", "log", "", "keys", "AucLoss", "relative", "log loss", "alpha" }
        $1 != log_name { log_name = $1; base = $4 }
        { printf "%-8s %-18s %9d %9.5f %+9.2f%% %9.5f %6s\n", $1, $2, $3, $4, 100 * ($4 / base - 1), $5, $6 }'
}

slices() {
    awk -F, 'NR > 1 && $1 == "" && $3 == "" { total = $5 } NR > 1 && $1 == "'"$2"'" && $3 == "" && $5 != "" { printf "%s\t%s\n", $5, $2 } END { print "total\t" total }' |
        sort -g | awk -F '\t' -v name="$1" '$1 == "total" { total = $2; next } { c[++n] = sprintf("%s %+.1f", $2, $1) }
            END { for (i = 1; i <= n; i++) if (n <= 6 || i <= 3 || i > n - 3) list = list (i > 1 ? ", " : "") (n > 6 && i == n - 2 ? "..., " : "") c[i]
                printf "%-10s %+9.2f   %s\n", name, total, list }'
}

# figure FILE NAME : keys, or KiB of the learner with its filter, of the summary that ctr-train printed
figure() {
    awk -v name="$2" '$1 == "keys" && !keys { keys = $2 } /^bytes a key/ { each = $4 } /^inclusion filter/ { filter = $3 * ($4 == "MiB" ? 1024 : 1) }
        END { print name == "keys" ? keys : keys * each / 1024 + filter }' "$1"
}

# learner STREAM NAME OPTION… : log, name, keys, KiB of the learner, progressive AucLoss
learner() {
    stream=$1 name=$2
    shift 2
    ctr-train lr --alpha 0.05 "$@" "$stream" -o "$tmp/model" --progressive "$tmp/p" 2>"$tmp/err" ||
        { cat "$tmp/err" >&2; exit 1; }
    loss=$(values auc_loss "$tmp/p")
    echo "$(basename "$stream" .arrows) $name $(figure "$tmp/err" keys) $(figure "$tmp/err" KiB) $loss"
}

inclusion() {
    case $2 in
    bloom=*) learner "$1" "$2" --inclusion "$2" --inclusion-memory "$3" ;;
    *) learner "$1" "$2" --inclusion "$2" ;;
    esac
}

memory_against_loss() {
    awk 'BEGIN { printf "%-8s %-14s %9s %10s %10s %9s %10s\n", "log", "", "keys", "KiB", "RAM saved", "AucLoss", "relative" }
        $1 != log_name { log_name = $1; kib = $4; base = $5 }
        { printf "%-8s %-14s %9d %10.0f %9.1f%% %9.6f %+9.3f%%\n", $1, $2, $3, $4, 100 * (1 - $4 / kib), $5, 100 * ($5 / base - 1) }'
}

# columns STREAM : those with the role feature
columns() { ctr-info "$1" | awk '/^column / { on = 1; next } on && $3 == "feature" { print $1 }'; }

# leave_out N SHARE : N variants without a random share of the columns on stdin; the draws are the same every time
leave_out() {
    awk -v n="$1" -v share="$2" 'BEGIN { srand(20130811) } { c[NR] = $1 }
        END { for (v = 1; v <= n; v++) { s = ""; for (i = 1; i <= NR; i++) if (rand() < share) s = s "," c[i]
            if (s == "") s = "," c[1 + v % NR]; print "some" v " out=" substr(s, 2) } }'
}

# by_loss PREDICTIONS VARIANT… : the variants from the best to the worst, numbered
by_loss() {
    file=$1
    shift
    for v; do echo "$v $(values auc_loss --score "score.$v" "$file")"; done | sort -k2,2g | awk '{ print $1, NR }' | sort
}

variants() {
    columns "$1" >"$tmp/columns"
    { echo all; sed 's/.*/without-& out=&/' "$tmp/columns"; leave_out 60 0.2 <"$tmp/columns"; } >"$tmp/list"
    for how in '' --single-value; do
        # shellcheck disable=SC2086
        ctr-train lr --alpha 0.05 $how --variants "$tmp/list" "$1" -o "$tmp/model-%s" --progressive "$tmp/p$how" 2>"$tmp/words" ||
            { cat "$tmp/words" >&2; exit 1; }
        rm -f "$tmp"/model-*
        printf '%-16s %6d variants %12.0f KiB\n' "${how:-exactly}" "$(wc -l <"$tmp/list")" "$(figure "$tmp/words" KiB)"
    done
    echo 'rank correlation of their AucLoss:'
    for which in . '^some' '^all|^without'; do
        list=$(awk -v which="$which" '$1 ~ which { print $1 }' "$tmp/list")
        for how in '' --single-value; do by_loss "$tmp/p$how" $list >"$tmp/order$how"; done
        join "$tmp/order" "$tmp/order--single-value" | awk -v which="$which" '{ d += ($2 - $3) ^ 2 }
            END { name = which == "." ? "all" : which == "^some" ? "without some columns" : "without one column at most"
                printf "%-28s %4d variants %8.4f\n", name, NR, 1 - 6 * d / (NR * (NR * NR - 1)) }'
    done
}

bagging() {
    columns "$1" | leave_out 10 0.2 | { echo all; cat; } >"$tmp/list"
    ctr-train lr -q --alpha 0.05 --variants "$tmp/list" "$1" -o "$tmp/model-%s" --progressive "$tmp/p"
    mean=$(awk 'NR > 1 { s = s (s ? " + " : "") "score." $1 } END { print "(" s ") / " NR - 1 }' "$tmp/list")
    ctr-select --add "bag=$mean" "$tmp/p" >"$tmp/bag"
    for s in $(sed 's/ .*//; s/^/score./' "$tmp/list") bag; do
        echo "$s $(values auc_loss,log_loss --score "$s" "$tmp/bag")"
    done | awk -v name="$(basename "$1" .arrows)" 'NR == 1 { a = $2; l = $3 } $1 ~ /some/ { sa += $2; n++ } $1 == "bag" { b = $2; bl = $3 }
        END { printf "%-8s all columns %.5f, ten without a fifth %.5f, their mean prediction %.5f (%+.2f%%); log loss %.5f, mean %.5f\n", \
            name, a, sa / n, b, 100 * (b / a - 1), l, bl }'
    rm -f "$tmp"/model-*
}

sample() {
    log=$1 share=$2
    shift 2
    ctr-sample -q --query visit --share "$share" "$log.train.arrows" | ctr-select "$@" >"$tmp/sample"
    ctr-train lr --alpha 0.05 "$tmp/sample" -o "$tmp/model" 2>"$tmp/err" || { cat "$tmp/err" >&2; exit 1; }
    scored=$(ctr-predict "$tmp/model" "$log.rest.arrows" | values auc_loss,log_loss,calibration)
    echo "$share${1:+,unweighted} $(awk '$1 == "rows" || $1 == "keys" { print $2 }' "$tmp/err" | paste -sd ' ') $scored"
}

sample_table() {
    awk 'BEGIN { printf "%-16s %9s %9s %9s %10s %9s %12s\n", "share", "rows", "keys", "AucLoss", "relative", "log loss", "calibration" }
        NR == 1 { base = $4 }
        { printf "%-16s %9d %9d %9.5f %+9.2f%% %9.5f %12.4f\n", $1, $2, $3, $4, 100 * ($4 / base - 1), $5, $6 }'
}

# The plan of figure 3: labels drawn from p by SEED, and for each bootstrap model how often it draws the row (Poisson, mean 1)
fig3_plan() { # PLAN SEED MODELS
    echo "label click = hash_bits(row * 1000 + $2, 32) * 2.3283064365386963e-10 < p"
    echo 'keep p'
    grep -E '^(feature|keep)' "$1"
    for k in $(seq "$3"); do
        echo "u$k = hash_bits(row * 1000 + $k, 32) * 2.3283064365386963e-10"
        echo "keep w$k = if(u$k < 0.3679, 0, if(u$k < 0.7358, 1, if(u$k < 0.9197, 2, if(u$k < 0.9810, 3, if(u$k < 0.9963, 4, 5)))))"
    done
}

# unseen MODEL STREAM: how many keys of each row the model does not have
unseen() {
    ctr-export --format tsv --columns key "$1" | sed 1d >"$tmp/keys"
    features=$(columns "$2" | paste -sd,)
    ctr-export --format tsv --columns "$features" "$2" | sed 1d \
        | awk 'NR == FNR { seen[$1]; next } { n = 0; k = split($0, key, /[^0-9]+/); for (i = 1; i <= k; i++) n += key[i] != "" && !(key[i] in seen); print n }' "$tmp/keys" -
}

# scores MODEL STREAM COLUMNS
scores() { ctr-predict --uncertainty "$1" "$2" | ctr-export --format tsv --columns "$3" -o "$tmp/tsv" && sed 1d "$tmp/tsv"; }

fig3() {
    dir=$1 models=$4
    ctr-extract "$dir/truth.plan" "$dir/raw.arrows" >"$tmp/truth.arrows"
    # shellcheck disable=SC2086
    ctr-train lr -q $2 "$tmp/truth.arrows" -o "$tmp/truth.model"
    ctr-export --format tsv --columns n,weight "$tmp/truth.model" | awk 'NR > 1 { c = ($1 < 1 ? 1 : $1 < 10 ? 2 : 3); k[c]++; w[c] += ($2 < 0 ? -$2 : $2) }
        END { printf "mean |weight| of the truth: n < 1 %.3f (%d keys), 1 <= n < 10 %.3f (%d), 10 <= n %.3f (%d)\n", w[1] / k[1], k[1], w[2] / k[2], k[2], w[3] / k[3], k[3] }'
    ctr-predict "$tmp/truth.model" "$tmp/truth.arrows" | ctr-select --add p=score --columns p | ctr-join -q --by-row - "$dir/raw.arrows" >"$tmp/raw.arrows"
    for seed in 0 999; do
        fig3_plan "$dir/model.plan" $seed "$models" >"$tmp/fig3.plan"
        ctr-extract "$tmp/fig3.plan" "$tmp/raw.arrows" | ctr-select --head 80% --rest "$tmp/test.$seed" -o "$tmp/train.$seed"
        ctr-train lr -q "$tmp/train.$seed" -o "$tmp/model.$seed"
    done
    scores "$tmp/model.0" "$tmp/test.0" p,score,uncertainty >"$tmp/scores"
    unseen "$tmp/model.0" "$tmp/test.0" >"$tmp/unseen"
    scores "$tmp/model.999" "$tmp/test.999" score >"$tmp/again"
    for k in $(seq "$models"); do echo "$k weight=w$k"; done >"$tmp/list"
    ctr-train lr -q --variants "$tmp/list" "$tmp/train.0" -o "$tmp/bootstrap-%s"
    for k in $(seq "$models"); do scores "$tmp/bootstrap-$k" "$tmp/test.0" score >"$tmp/bootstrap.$k"; done
    # shellcheck disable=SC2046
    paste "$tmp/scores" "$tmp/unseen" "$tmp/again" $(seq -f "$tmp/bootstrap.%g" "$models") | gawk -v svg="$3" -v BINS="$5" -f "${0%/*}/trenches-fig3.awk"
}

case ${1-} in
inclusion) shift && inclusion "$@" ;;
precision) learner "$2" "$3" --precision "$3" ;;
memory-against-loss) memory_against_loss ;;
variants) shift && variants "$@" ;;
bagging) shift && bagging "$@" ;;
sample) shift && sample "$@" ;;
sample-table) sample_table ;;
fig3) shift && fig3 "$@" ;;
slices) shift && slices "$@" ;;
held-out) shift && held_out "$@" ;;
calibration) calibration "$2" ;;
calibration-of) shift && calibration_of "$@" ;;
calibration-table) calibration_table ;;
against-first) against_first ;;
sparsity) shift && sparsity "$@" ;;
sparsity-table) sparsity_table ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
