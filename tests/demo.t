#!/bin/sh
# The demo runs to its end, prints what it runs, and its report is sound.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half runs it, and the tests of the tools run their code here'
demo() { OUT="$W/demo" ROWS=30000 "$CTR_TOP/examples/demo.sh" >"$W/demo.txt" 2>"$W/demo.err" || { tail "$W/demo.err"; return 1; }; }
ok 'the demo runs' demo
ok 'it prints the pipelines' grep -q 'ctr-train lr' "$W/demo.txt"
ok 'the reliability diagram is there' grep -q 'click rate, .* mean score' "$W/demo.txt"
ok 'features have readable names' grep -Eq 'position=|interest_category=' "$W/demo.txt"
told() { # what calibration changed is told in the figures of the two tables
    awk '$1 == "slice" { for (i = 1; i <= NF; i++) at[$i] = i }
        $1 == "total" && n < 2 { c[++n] = $at["calibration"]; l[n] = $at["log_loss"] }
        /^calibration: / { said = $0 }
        END { want = "calibration: mean score over mean label " c[1] " before, " c[2] " after; log loss " l[1] " before, " l[2] " after ("
            want = want (l[2] < l[1] ? "better" : l[2] > l[1] ? "worse" : "the same") ")"
            print said; print want; exit !(n == 2 && said == want) }' "$W/demo.txt"
}
ok 'it tells what calibration changed' told
sound() { # the planted truth beats the model, the model beats chance
    awk '$1 == "slice" { for (i = 1; i <= NF; i++) at[$i] = i } $1 == "total" { auc[++n] = $at["auc"] }
        END { print n, auc[1], auc[2], auc[3]; exit !(n == 3 && auc[3] > auc[1] && auc[1] > .55) }' "$W/demo.txt"
}
ok 'the truth beats the model, the model beats chance' sound
page() { "$PY" "$CTR_TOP/tests/html_page.py" "$@"; }
if command -v "$PY" >/dev/null 2>&1; then
    ok 'it ends with a page' page check "$W/demo/report.html"
    ok 'of less than 300 kB' test "$(wc -c <"$W/demo/report.html")" -lt 300000
    ok 'whose place is told' grep -qF "the page: $W/demo/report.html" "$W/demo.txt"
    is 'with the figures of the report' "$(page table "$W/demo/report.html" 'In short' | awk -F '\t' '$1 == "scored.arrows" || $1 == "calibrated.arrows" { print $4, $5 }')" \
        "$(awk '$1 == "slice" { for (i = 1; i <= NF; i++) at[$i] = i } $1 == "total" && n++ < 2 { print $at["auc"], $at["log_loss"] }' "$W/demo.txt")"
else
    skip 'it ends with a page' 'no python3'
fi
done_testing
