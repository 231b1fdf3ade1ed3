#!/bin/sh
# What --init-bias auto of ctr-train is worth: progressive log loss over that of a bias that starts at 0, over the whole of each log, and the mean
# score over the mean label of its first half, without and with it. tests/bench/init-bias.sh LOGS, where logs.sh made LOGS.
set -eu
logs=$1 to=$1/tmp
figures() { # LOG ALPHA START: log loss, calibration of the first half
    ctr-train lr -q --time-order ignore --alpha "$2" --init-bias "$3" --progressive "$to/p.arrows" -o "$to/m.arrows" "$logs/$1.arrows"
    ctr-eval -m log_loss --format stream "$to/p.arrows" 2>/dev/null | ctr-export -c log_loss --no-header
    ctr-select --head 50% "$to/p.arrows" | ctr-eval -m calibration --format stream 2>/dev/null | ctr-export -c calibration --no-header
}
echo '| log | alpha | log loss, auto over 0 | first half, 0 | first half, auto |'
echo '|---|---|---|---|---|'
for alpha in 0.005 0.02 0.1; do
    for log in criteo avazu mind amex ml1m ml100k talking obd-random-men obd-random-women obd-bts-men obd-bts-women; do
        { figures $log $alpha 0; figures $log $alpha auto; } | paste -sd' ' |
            awk -v l=$log -v a=$alpha '{ printf "| %s | %s | %.4f | %.3f | %.3f |\n", l, a, $3 / $1, $2, $4 }'
    done
done | awk -F'|' '{ print; fflush(); n[$3]++; s[$3] += log($4) } END { for (a in n) printf "| geometric mean |%s| %.4f | | |\n", a, exp(s[a] / n[a]) }'
