#!/bin/sh
# Steps of trenches.mk that are more than a pipeline. Called by make, with bin/ in PATH.
#
#     trenches.sh held-out LOG 'OPTIONS OF ctr-train lr'
#
# learns from LOG.train.arrows and scores LOG.test.arrows, with alpha .1 and then twice and half of it for as long as the log loss falls, and
# prints of the best: keys, AucLoss (1 - AUC), log loss, alpha.
#
#     trenches.sh against-first
#
# reads lines `log name keys AucLoss log-loss alpha` and prints them as a table, with AucLoss relative to the first line of each log.
#
#     trenches.sh slices NAME COLUMN
#
# reads by,slice,window,rows,auc_loss_change and prints a line: the name, the change of all rows, then the values of the column by theirs.
set -eu
tmp=$(mktemp -d "${TMPDIR:-/tmp}/trenches.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

# one ALPHA: learn and score with it, leave the figures in the variable `one`
one() {
    # shellcheck disable=SC2086
    ctr-train lr $options --alpha "$1" "$log.train.arrows" -o "$tmp/model" 2>"$tmp/err" || { cat "$tmp/err" >&2; exit 1; }
    one=$(ctr-predict "$tmp/model" "$log.test.arrows" | ctr-eval --metrics auc_loss,log_loss | tail -n 1 | awk -v alpha="$1" \
        -v keys="$(awk '$1 == "keys" { print $2 }' "$tmp/err")" '{ print keys, $4, $5, alpha }')
    [ "$one" ]
}

# climb FACTOR: from the best alpha so far, for as long as the log loss falls
climb() {
    while one "$(echo "${best##* }" | awk -v by="$1" '{ print $1 * by }')" && echo "$one $best" | awk '{ exit !($3 < $7) }'; do
        best=$one
    done
}

held_out() {
    log=$1 options=$2
    one 0.1
    best=$one
    climb 2
    [ "${best##* }" != 0.1 ] || climb .5
    echo "$best"
}

against_first() {
    awk 'BEGIN { printf "%-8s %-18s %9s %9s %10s %9s %6s\n", "log", "", "keys", "AucLoss", "relative", "log loss", "alpha" }
        $1 != log_name { log_name = $1; base = $4 }
        { printf "%-8s %-18s %9d %9.5f %+9.2f%% %9.5f %6s\n", $1, $2, $3, $4, 100 * ($4 / base - 1), $5, $6 }'
}

slices() {
    awk -F, 'NR > 1 && $1 == "" && $3 == "" { total = $5 } NR > 1 && $1 == "'"$2"'" && $3 == "" { printf "%s\t%s\n", $5, $2 } END { print "total\t" total }' |
        sort -g | awk -F '\t' -v name="$1" '$1 == "total" { total = $2; next } { list = list sprintf("%s%s %+.1f", list ? ", " : "", $2, $1) }
            END { printf "%-10s %+9.2f   %s\n", name, total, list }'
}

case ${1-} in
slices) shift && slices "$@" ;;
held-out) shift && held_out "$@" ;;
against-first) against_first ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
