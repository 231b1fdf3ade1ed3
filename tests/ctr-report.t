#!/bin/sh
# ctr-report: the page is well-formed and accessible, small, says what the tools say, shows no rows; hostile names, empty and wrong files.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
command -v "$PY" >/dev/null 2>&1 || skip_all 'no python3 to read pages with'
page() { "$PY" "$CTR_TOP/tests/html_page.py" "$@"; }
small() { test "$(wc -c <"$1")" -lt 300000; }

# ---- a run
awk 'BEGIN { srand(5); print "time,id,user,site,price,click"
    for (i = 0; i < 4000; i++) { s = int(rand() * 6); p = int(rand() * 1000) / 100
        printf "2026-01-%02dT%02d:00:00Z,%d,u%d,%s,%s,%d\n", 1 + i / 1000, i % 1000 / 42, i, int(rand() * 90), s == 5 ? "" : "s" s, p, rand() < (s + 1) / 12 } }' >log.csv
ctr-import -q --format csv --header --null '' --label click --time time --user user --id id log.csv -o log.arrows
printf '# what a click is\nlabel click\nuser user\ntime time\nkeep site, price\nfeature site\nfeature at = hour_of_day(time)\nfeature pair = cross(site, user)\ndense price\n' >run.plan
ctr-select -q --head 75% --rest later.arrows log.arrows -o earlier.arrows
ctr-extract -q --names names.arrows run.plan earlier.arrows | ctr-train lr -q --alpha 0.05 -o model.arrows --progressive progressive.arrows
ctr-extract -q model.arrows later.arrows | ctr-predict -q model.arrows -o scored.arrows
ctr-stats --profile earlier.profile -o log.stats earlier.arrows
ctr-stats --against earlier.profile -o later.drift later.arrows
ctr-eval --by site --bootstrap 20 --format stream scored.arrows -o site.eval 2>/dev/null
ctr-model top --names names.arrows -n 12 --format stream -o top.arrows model.arrows
run='run.plan model.arrows log.stats later.drift progressive.arrows scored.arrows sites=site.eval top.arrows'
exits 'a page' 0 ctr-report --title 'Sites & prices' -o page.html $run
is 'without a word' "$(cat err)" ''
ok 'it is well-formed, and accessible' page check page.html
ok 'less than 300 kB' small page.html
is 'its parts' "$(grep -o '<h2 id="[a-z]*' page.html | cut -d '"' -f 2 | paste -s -d ' ')" 'plan model statistics drift evaluation weights provenance'
is 'its title' "$(grep -c '<title>Sites &amp; prices</title>' page.html) $(grep -c '<h1>Sites &amp; prices</h1>' page.html)" '1 1'
ok 'links of its contents lead somewhere' page links page.html
ok 'no address of another file' sh -c "! grep -oE '(src|href)=.?[a-z]+:' page.html"
ctr-report -j 3 --title 'Sites & prices' $run >again.html
ok 'the same bytes on stdout, by other threads' cmp page.html again.html
TZ=America/New_York SOURCE_DATE_EPOCH=5 ctr-report --title 'Sites & prices' $run | cmp page.html - && is 'at another time' 1 1
ctr-report --title 'Sites & prices' run.plan model.arrows log.stats later.drift progressive.arrows scored.arrows=- sites=site.eval top.arrows <scored.arrows >again.html
ok 'standard input is a file' cmp page.html again.html

# a checker that can fail
printf '<!DOCTYPE html><html lang="en"><title>t</title><h1>a</h1><p><b>x</p></html>' >broken.html
is 'a page that is not well-formed is found' "$(page check broken.html | grep -c "ends b")" 1
printf '<!DOCTYPE html><html lang="en"><title>t</title><h1>a</h1><script>1</script><a href="#x">y</a></html>' >broken.html
is 'and a script, and a dead link' "$(page check broken.html | grep -c script) $(page links broken.html)" "1 broken.html: #x"

# ---- what it says is what the tools say
eval_line() { ctr-eval "$1" 2>/dev/null | awk '$1 == "slice" { for (i = 2; i <= NF; i++) name[i] = $i } $1 == "total" { for (i = 2; i <= NF; i++) if (name[i] !~ /users|left/) print name[i] "\t" $i }' | sort; }
page_metrics() { page table page.html Metrics "$1" | cut -f 1,2 | grep -v -e '^metric' -e '^click rate' | sort; }
for s in scored progressive; do
    is "metrics of $s, as ctr-eval has them" "$(page_metrics $s.arrows)" "$(eval_line $s.arrows)"
done
is 'in short, too' "$(page table page.html 'In short' | awk -F '\t' '$1 == "scored.arrows" { print $2, $4, $5 }')" \
    "$(ctr-eval --metrics auc,log_loss scored.arrows | awk '$1 == "total" { print $2, $4, $5 }')"
is 'the reliability table' "$(page table page.html 'Reliability: bins of equal weight by score' scored.arrows | sed 1d | tr '\t' ' ')" \
    "$(ctr-eval --reliability scored.arrows 2>/dev/null | awk 'on && NF { print $1, $3, $4, $5, $6 } $1 == "scores" { on = 1 }')"
is 'slices' "$(page table page.html 'By slice' sites | awk -F '\t' 'NR > 1 { print $1, $2, $4 }' | sed 's/ \[.*//')" \
    "$(ctr-eval --by site --metrics auc scored.arrows 2>/dev/null | awk 'NR > 1 { print $1, $2, $4 }')"
ok 'with intervals' sh -c "$PY $CTR_TOP/tests/html_page.py table page.html 'By slice' sites | grep -q '^total.*\\[0\\.[0-9]*, 0\\.[0-9]*\\]'"
stats() { ctr-export --format tsv --null - --columns "$1" log.stats | sed 1d; }
is 'counts of columns' "$(page table page.html Columns log.stats | sed 1d | cut -f 1,2,5)" "$(stats name,type,distinct)"
is 'shares of nulls' "$(page table page.html Columns log.stats | awk -F '\t' 'NR > 1 { print $1, $4 }')" "$(stats name,rows,nulls | awk -F '\t' '{ printf "%s %.4g%%\n", $1, 100 * $3 / $2 }')"
is 'the values of the site' "$(page table page.html Columns log.stats | awk -F '\t' '$1 == "site" { print $8 }')" \
    "$(ctr-export --format jsonl --columns name,top,top_share log.stats | "$PY" -c 'import json, sys
for r in map(json.loads, sys.stdin):
    if r["name"] == "site": print(", ".join(f"{v} {100 * s:.4g}%" for v, s in list(zip(r["top"], r["top_share"]))[:3]))')"
is 'click rates of values' "$(page table page.html 'Click rates of frequent values' log.stats | awk -F '\t' '$1 == "site" { print $2, $3, $4 }')" \
    "$(ctr-export --format jsonl log.stats | "$PY" -c 'import json, sys
for r in map(json.loads, sys.stdin):
    if r["name"] == "site":
        for v in list(zip(r["top"], r["top_rows"], r["top_rate"]))[:5]: print(v[0], v[1], "%.6f" % v[2])')"
is 'drift' "$(page table page.html 'Columns beside those of the reference' | awk -F '\t' 'NR > 1 { print $1, $3 }')" \
    "$(ctr-export --format jsonl --columns name,psi later.drift | "$PY" -c 'import json, sys
for r in map(json.loads, sys.stdin):
    print(r["name"], "-" if r["psi"] is None else "%.4f" % r["psi"])')"
is 'the strongest weights' "$(page table page.html 'Strongest weights' | awk -F '\t' 'NR > 1 { print $2, $1 }')" "$(ctr-model top --names names.arrows -n 12 model.arrows | awk 'NR > 1 { w = $1; sub(/^ *[^ ]+ +[^ ]+ +/, ""); print w, $0 }')"
is 'what they do to the odds' "$(page table page.html 'Strongest weights' | awk -F '\t' 'NR > 1 { d = exp($2) / $3 - 1; if (d > 1e-4 || d < -1e-4) print }')" ''
is 'digests' "$(page table page.html Files | awk -F '\t' '$1 == "scored.arrows" { print $3, $4 } $1 == "top.arrows" { print $3, $4 }' | paste -s -d ' ')" \
    "$(ctr-info scored.arrows | sed -n 's/^rows: //p') $(ctr-info --digest scored.arrows) 12 $(ctr-info --digest top.arrows)"
is 'of a model, of its weights' "$(page table page.html Files | awk -F '\t' '$1 == "model.arrows" { print $4 }')" "$(ctr-info --digest model.arrows | head -n 1)"
is 'programs with their options' "$(page table page.html 'Programs that made these files' | sed 1d | cut -f 1-3 | tr '\t' ' ' | sed 's, *$,,' | sort)" \
    "$(for f in model.arrows log.stats later.drift progressive.arrows scored.arrows site.eval top.arrows; do ctr-info $f; done | sed -n 's/^made by: //p' | sed 's, *$,,' | sort -u)"
is 'the plan is there once' "$(grep -c 'keep site, price' page.html) $(grep -c 'It has the plan of run.plan' page.html)" '1 1'
is 'and what it learns from' "$(page table page.html 'What a model learns from' run.plan | cut -f 1,2 | tr '\t\n' '= ')" 'signal=role site=feature at=feature pair=feature price=dense '
ok 'the model has its options' grep -q 'alpha=0.05' page.html

# ---- contributions of explained rows: sums by table within a row, their means
ctr-select -q --head 40 later.arrows | ctr-model explain -n 0 --format stream model.arrows -o explained.arrows
is 'contributions' "$(ctr-report explained.arrows | page table /dev/stdin 'Contributions to the log odds' | sed 1d)" \
    "$(ctr-export --format jsonl --columns row,table,contribution explained.arrows | "$PY" -c 'import json, sys
rows, seen = {}, []
for r in map(json.loads, sys.stdin):
    rows.setdefault(r["row"], {}).setdefault(r["table"], []).append(r["contribution"])
    if r["table"] not in seen: seen.append(r["table"])
at = {t: [sum(r[t]) for r in rows.values() if t in r] for t in seen}
for t in sorted(seen, key=lambda t: (-sum(map(abs, at[t])), seen.index(t))):
    print(t, "%.6f" % (sum(map(abs, at[t])) / len(rows)), "%+.6f" % (sum(at[t]) / len(rows)), len(at[t]), sep="\t")')"
is 'with a figure' "$(ctr-report explained.arrows | grep -c '<title>Importance</title>')" 1
ok 'no row of them' sh -c '! ctr-report explained.arrows | grep -q "u[0-9]"'

# ---- no rows, no persons
is 'no user and no id is named in statistics' "$(page table page.html Columns log.stats | awk -F '\t' '$1 == "user" || $1 == "id" { print $8 $9 $10 $11 $12 }')" '----
----'
printf 'mail,click\n%s' "$(awk 'BEGIN { for (i = 0; i < 40; i++) print (i < 5 ? "shared@x" : "person" i "@x") ",1" }')" | ctr-import -q -f csv --header --label click | ctr-stats -o mail.stats
ctr-report mail.stats >mail.html
is 'values of a few rows are not there' "$(grep -c 'person[0-9]*@' mail.html) $(grep -o 'shared@x' mail.html | wc -l)" '0 2'

# ---- figures
if ctr-plot --help >/dev/null 2>&1; then
    is 'figures, each an image with a name' "$(grep -c '<svg' page.html)" "$(grep -c '<svg[^>]*role="img"' page.html)"
    ok 'some' test "$(grep -c '<svg' page.html)" -ge 6
    ctr-plot roc -o roc.svg scored=scored.arrows
    ok 'that ctr-plot draws' sh -c "grep -o '<path[^>]*>' roc.svg | head -n 3 | while read -r p; do grep -qF \"\$p\" page.html || exit 1; done"
fi

ctr-calibrate -q --fit platt scored.arrows -o map.arrows && ctr-calibrate -q map.arrows scored.arrows -o calibrated.arrows
ctr-report scored.arrows calibrated.arrows >two.html
is 'two files of scores stand side by side first' "$(grep -c '<svg' two.html) $(sed -n '/id="evaluation"/,/<h3>/p' two.html | grep -c '<svg')" '10 2'
ok 'by their names' sh -c "sed -n '/id=\"evaluation\"/,/<h3>/p' two.html | grep -q calibrated.arrows"

# ---- parts, alone and in other forms
for f in $run; do
    ok "$f alone" sh -c "ctr-report $f >alone.html && $PY $CTR_TOP/tests/html_page.py check alone.html"
done
printf 'label click\nuser user\nfeature s = vocab(site, min=2)\nfeature who = user\n' >vocab.plan
ctr-extract -q --fit vocab.plan -o fitted.arrows earlier.arrows
ctr-extract -q fitted.arrows earlier.arrows | ctr-train lr -q --plan fitted.arrows -o bundle.arrows
ctr-extract -q fitted.arrows earlier.arrows | ctr-train mlp -q --embedding 2 --hidden 3 -o mlp.arrows
ok 'a fitted plan, and models of sections' sh -c "ctr-report vocab.plan fitted.arrows bundle.arrows mlp.arrows >bundles.html && $PY $CTR_TOP/tests/html_page.py check bundles.html"
is 'with their rows' "$(page table bundles.html 'Its sections' bundle.arrows | sed 1d | cut -f 2 | paste -s -d ' ')" "$(ctr-info bundle.arrows | sed -n 's/^rows: //p' | paste -s -d ' ')"
ctr-train lr -q --alpha 0.2 vocab.plan earlier.arrows -o other.arrows 2>/dev/null || ctr-extract -q fitted.arrows earlier.arrows | ctr-train lr -q --alpha 0.2 -o other.arrows
ctr-model diff -n 5 --format stream -o diff.arrows bundle.arrows other.arrows 2>/dev/null
is 'what changed' "$(ctr-report diff.arrows | page table /dev/stdin 'Weights that changed most' | wc -l)" 6
ctr-stats --by site --window 1d --time time earlier.arrows -o by.stats
ctr-eval --by site --window 1d --time time --control scored.arrows --format stream scored.arrows -o windows.eval 2>/dev/null
ctr-stats --by site --against earlier.profile earlier.arrows -o by.drift 2>/dev/null || ctr-stats --against earlier.profile earlier.arrows -o by.drift
ok 'slices and windows' sh -c "ctr-report by.stats windows.eval by.drift >slices.html && $PY $CTR_TOP/tests/html_page.py check slices.html"
ok 'with the control' grep -q 'change_%' slices.html
awk 'BEGIN { print "site,v"; for (i = 0; i < 20; i++) print (i % 2 ? "(missing)" : "") "," (i % 4 < 2 ? "(empty)" : "\"\"") }' |
    ctr-import -q -f csv --header --null N -c site,v | ctr-select --add 'site=if(site == "", null, site)' | ctr-stats --by site -o missing.stats
is 'texts that read like nulls and empty texts are told from these' \
    "$(ctr-report missing.stats | grep -oE "(<small>|, )?&?[#0-9a-z;']*\((missing|empty)\)[&#0-9a-z;']*" | sed "s/&#39;/'/g; s/<small>//; s/, //" | sort -u | tr '\n' ' ')" \
    "'(empty)' '(missing)' (empty) (missing) "
ctr-cat -q --batch 50 scored.arrows | ctr-report scored.arrows=- >batches.html
ctr-report scored.arrows | cmp - batches.html && is 'other batches' 1 1
ctr-cat -q --to file -o scored.arrow scored.arrows
is 'a file instead of a stream' "$(ctr-report scored.arrow | page table /dev/stdin Metrics)" "$(ctr-report scored.arrows | page table /dev/stdin Metrics)"

# ---- without rows, without classes
ctr-select --where false -q scored.arrows -o none.arrows
ctr-select --where 'click == 0' -q scored.arrows -o zeros.arrows
ctr-select --where false -q log.arrows | ctr-stats -o none.stats
ctr-select --where false -q log.stats -o empty.stats
ctr-select --where false -q site.eval -o none.eval
ctr-select --where false -q top.arrows -o none.top
ctr-select --where false -q explained.arrows -o none.explained
for f in none.arrows zeros.arrows none.stats empty.stats none.eval none.top none.explained; do
    ok "$f makes a page" sh -c "ctr-report $f >none.html && $PY $CTR_TOP/tests/html_page.py check none.html"
    ok 'which invents no number' sh -c '! grep -iE ">[+-]?(nan|inf)<" none.html'
done
ok 'labels of one class are told' sh -c 'ctr-report zeros.arrows | grep -q "labels of one class"'

# ---- what is not good
refused() { # refused NAME STATUS REGEX FILE…: and leaves no page
    _n=$1 _s=$2 _re=$3
    shift 3
    rm -f no.html
    exits "$_n" "$_s" ctr-report -o no.html "$@"
    err_like 'says so' "$_re"
    ok 'and no page' test ! -e no.html
}
refused 'rows' 1 'earlier.arrows: it is a stream of rows without label and score: give its profile, .ctr-stats --format stream FILE' run.plan earlier.arrows
refused 'a kept profile' 1 'earlier.profile: it is a profile that ctr-stats --profile keeps: .*ctr-stats --merge --format stream' earlier.profile
refused 'names of keys' 1 'names.arrows: it is a stream of names of keys: .*ctr-model top --names' names.arrows
ctr-calibrate --fit platt scored.arrows -o map.arrows 2>/dev/null
refused 'a map' 1 'map.arrows: it is a calibration map: .*ctr-calibrate MAP SCORES' map.arrows
refused 'text that is no plan' 2 '^ctr-report: log.csv:1:[^;]*; no stream, so it was read as a plan: ctr-import reads other text$' log.csv
printf 'label click\nfeature = = site\n' >bad.plan
printf '# nothing\n' >none.plan
refused 'a plan of nothing' 2 'none.plan: the plan defines nothing' none.plan
refused 'a plan with a mistake' 2 'bad.plan:2:' bad.plan
: >empty
refused 'an empty file' 1 'empty: .*empty' empty
refused 'a file that is not there' 1 'none: ' none
refused 'a folder' 1 '\.: ' .
refused 'an empty name' 2 "'=log.stats' has no name" =log.stats
refused 'two pipes' 2 'are pipes, and only one' - /dev/stdin
refused 'too many files' 2 '25 files are too many for one page, which has room for 24' $(seq 25 | sed 's/.*/log.stats/')
exits 'a file that is also the page' 2 ctr-report -o log.stats log.stats
size=$(wc -c <scored.arrows)
head -c $((size - 30)) scored.arrows >cut.arrows
refused 'a truncated stream' 1 'cut.arrows: ' run.plan cut.arrows
{ head -c $((size / 2)) scored.arrows; printf X; tail -c +$((size / 2 + 2)) scored.arrows; } >flip.arrows
refused 'a flipped byte' 1 'flip.arrows: ' flip.arrows
exits 'a full disk' 1 sh -c 'ctr-report log.stats >/dev/full'
exits 'a closed stdout' 1 sh -c 'ctr-report log.stats >&-'
gone() { { ctr-report $run 2>gone.err; echo $? >gone.rc; } | head -c 10 >/dev/null; [ ! -s gone.err ] && case $(cat gone.rc) in 0 | 141) ;; *) return 1 ;; esac; }
ok 'a reader that has gone' gone
refused 'too little memory' 1 'scored.arrows: .*memory' --memory 1K scored.arrows

# ---- columns of the right names and wrong types are rows like others
ctr-select -q --add 'label=1' --add 'top=3' --add 'psi="x"' --add 'weight="w"' log.stats --columns name,type,rows,nulls,values,top -o wrong.arrows
refused 'a profile of other types' 1 'it is a stream of rows' wrong.arrows

# ---- hostile names and values: markup, quotes, control characters, directions, length
"$PY" - <<'END' >hostile.jsonl
import json
names = ["</td><script>alert(1)</script>", "\"onload='x'", "&lt;&amp;", "a\x01\x1b[31m\x7f", "\u202etxt.exe\u202e", "]]><!--", "x" * 3000, "\u05d7\u05dc\u0644", "__proto__", "e\u0301" * 500]
for i in range(400):
    r = {n: ["<script>v</script>", "</h1>", "\u202e\x07"][i % 3] for n in names}
    r.update(click=i % 2, score=0.25 + 0.5 * (i % 3 == 0))
    print(json.dumps(r))
END
ctr-import -q --label click --score score hostile.jsonl -o hostile.arrows
ctr-stats -o hostile.stats hostile.arrows
ctr-eval --by '</td><script>alert(1)</script>' --format stream -o hostile.eval hostile.arrows 2>/dev/null
printf 'label click\n# <script>c</script> \t%s\nfeature `</td><script>alert(1)</script>`\n' "$(printf '\033[31m')" >hostile.plan
exits 'hostile names' 0 ctr-report --title '</title><script>t</script>' -o hostile.html hostile.stats '<script>n=hostile.arrows' hostile.eval hostile.plan
ok 'are text' page check hostile.html
is 'and no script' "$(grep -ci '<script\|<!--\|<h1></h1>' hostile.html)" 0
ok 'without control characters' sh -c "! LC_ALL=C grep -q '[[:cntrl:]]' <<X
\$(tr -d '\n\t' <hostile.html)
X"
ok 'and directions' sh -c "! grep -q \$(printf '\\342\\200\\256') hostile.html"
ok 'column <script> is there' sh -c "$PY $CTR_TOP/tests/html_page.py table hostile.html Columns | grep -qF '</td><script>alert(1)'"

# ---- small, whatever comes
awk 'BEGIN { for (c = 0; c < 1500; c++) printf "%scolumn_with_a_long_name_%d", c ? "," : "", c; print ",click"
    for (i = 0; i < 60; i++) { for (c = 0; c < 1500; c++) printf "%svalue %d of it", c ? "," : "", i % 7; print "," i % 2 } }' >wide.csv
ctr-import -q --format csv --header --label click wide.csv | ctr-stats -o wide.stats
awk 'BEGIN { print "s,click,score"; for (i = 0; i < 20000; i++) print "s" i "," i % 2 "," (i % 100) / 100 }' | ctr-import -q -f csv --header --label click --score score | ctr-eval --by s --format stream -o slices.eval 2>/dev/null
awk 'BEGIN { print "label click"; for (i = 0; i < 3000; i++) print "feature f" i " = cross(site, \"x" i "\")" }' >long.plan
exits 'a wide log, many slices, a long plan' 0 ctr-report -o large.html wide.stats slices.eval long.plan $run
ok 'less than 300 kB' small large.html
ok 'is well-formed' page check large.html
is 'says what it left out' "$(grep -c 'class="less"' large.html)" "$(grep -cE 'not shown, to keep the page small|No room for the figure' large.html)"
ctr-report wide.stats >wide.html
is 'and how much' "$(($(page table wide.html Columns | sed 1d | wc -l) + $(page text wide.html | awk '/more rows are not shown/ && !n++ { print $1 }')))" 1501
exits '24 files' 0 ctr-report -o many.html $(seq 21 | sed 's/.*/hostile.stats/') wide.stats slices.eval long.plan
ok 'are a page, too' small many.html

# ---- in a browser
if has_browser 'the page in a browser'; then
    in_browser report.py page.html hostile.html large.html
fi
done_testing
