#!/bin/sh
# From raw logs to calibrated click probabilities in a planted world: every pipeline is printed, then run. `make demo` builds
# first and calls this. OUT= chooses the folder, ROWS= the size.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PLAN=$here/demo.plan
OUT=${OUT:-$here/out/demo}
ROWS=${ROWS:-400000}
mkdir -p "$OUT"
cd "$OUT"

if [ -t 1 ]; then bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m'); else bold='' dim='' plain=''; fi
say() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
# run 'PIPELINE': print it as one would type it, then run it.
run() {
    printf '%s\n' "$1" | sed "s/^/$dim  \$ /; 2,\$s/\\$ /  /; s/\$/$plain/"
    eval "$1"
}
cp "$PLAN" demo.plan

say "1. A planted world: the logs of $ROWS impressions, whose true click probabilities are known"
run "ctr-synth -o logs --rows $ROWS --seed 1"
run "head -n 3 logs/impressions.tsv"

say "2. Text to streams: typed once, verified ever after"
run "ctr-import --format tsv --header --time time --user user_id --id impression_id logs/impressions.tsv -o impressions.arrows
ctr-import --format tsv --header logs/users.tsv -o users.arrows
ctr-import --format tsv --header logs/campaigns.tsv -o campaigns.arrows
ctr-import --format jsonl --columns ad_id:int64,campaign_id:int64,title:utf8,category:utf8,creative.format:utf8,price:float64 \\
    logs/ads.jsonl -o ads.arrows
ctr-import --format tsv --header --time click_time logs/clicks.tsv |
    ctr-select --columns impression_id,click_time -o clicks.arrows"

say "3. Join the views: impressions stay in order; what has no click is a negative"
run "ctr-join -q -k impression_id clicks.arrows impressions.arrows |
    ctr-join -k user_id users.arrows |
    ctr-join -k ad_id ads.arrows |
    ctr-join -k campaign_id campaigns.arrows -o joined.arrows"

say "4. Features by a plan, fitted on the first 80 per cent of the time"
run "sed -n '1,12p' demo.plan"
run "ctr-select --head 80% --rest later.arrows joined.arrows -o earlier.arrows
ctr-extract --fit demo.plan earlier.arrows -o fitted.arrows"

say "5. Train with FTRL-Proximal; each row is predicted before it is learned from"
run "ctr-extract --names names.arrows fitted.arrows earlier.arrows |
    ctr-train lr --alpha 0.05 --l1 1 --plan fitted.arrows -o model.arrows --progressive progressive.arrows"

say "6. Calibrate on what was predicted before it was seen, then score the last 20 per cent"
run "ctr-select --tail 50% progressive.arrows | ctr-calibrate --fit isotonic -o map.arrows
ctr-extract model.arrows later.arrows | ctr-predict model.arrows -o scored.arrows
ctr-calibrate map.arrows scored.arrows -o calibrated.arrows"

say "7. The report, on impressions that no step has learned from"
printf '\nbefore calibration\n'
run "ctr-eval scored.arrows"
printf '\nafter calibration\n'
run "ctr-eval --reliability calibrated.arrows"
# What calibration changed, from the same figures: on new rows it may cost a little log loss where the model was calibrated already.
{ ctr-eval scored.arrows; ctr-eval calibrated.arrows; } | awk '
    $1 == "slice" { for (i = 1; i <= NF; i++) at[$i] = i }
    $1 == "total" { c[++n] = $at["calibration"]; l[n] = $at["log_loss"] }
    END { printf("\ncalibration: mean score over mean label %s before, %s after; log loss %s before, %s after (%s)\n",
        c[1], c[2], l[1], l[2], l[2] < l[1] ? "better" : l[2] > l[1] ? "worse" : "the same") }'
printf '\nthe best that anybody could do: the planted probabilities themselves\n'
run "ctr-eval --score p_true --metrics auc,log_loss scored.arrows"
printf '\nthe strongest features\n'
run "ctr-model top --names names.arrows -n 12 model.arrows"

say "8. All of it on one page: what is in the log, how the last part differs, how good the scores are"
run "ctr-select --add 'click=not is_null(click_time)' earlier.arrows | ctr-stats --label click --profile earlier.profile -o earlier.stats
ctr-select --add 'click=not is_null(click_time)' later.arrows | ctr-stats --against earlier.profile -o later.drift
ctr-eval --by category --format stream -o category.eval calibrated.arrows
ctr-model top --names names.arrows -n 40 --format stream -o top.arrows model.arrows
ctr-report --title 'A planted world' -o report.html demo.plan model.arrows earlier.stats later.drift \\
    progressive.arrows scored.arrows calibrated.arrows 'by category=category.eval' top.arrows"
printf 'the page: %s/report.html\n' "$PWD"

say "What to type next"
cat <<END
  export PATH="$(dirname "$(command -v ctr-eval)"):\$PATH"; cd $OUT
  ctr-eval --by category calibrated.arrows              # how it does by slice
  ctr-model top --names names.arrows -n 50 model.arrows # more of the model
  ctr-info model.arrows                                 # what a model is: a stream, and how it was made
  ctrkit help tutorial                                  # the tutorial
  make -C examples help                                 # the same on public data sets
END
