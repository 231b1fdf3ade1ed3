#!/bin/sh
# The experiments of examples/ on the real logs reach the figures that they are known to reach. Skipped where the logs are not.
. "${0%/*}/lib.sh"
[ -d "$DATA" ] || skip_all "no data in $DATA"
case $CTR_BUILD in *-san*) skip_all "the examples run bin/, which the plain build has tried" ;; esac
export PATH

# figures EXPERIMENT: run it; its tables are kept in $W/EXPERIMENT.txt
figures() { make -s -C "$CTR_TOP/examples" DATA="$DATA" OUT="$W/examples" "$1" >"$W/$1.txt" 2>"$W/$1.err" || { tail -n 20 "$W/$1.err"; return 1; }; }
# cell FILE N COLUMN: the value in the N-th row that begins with "total"
cell() {
    awk -v n="$2" -v c="$3" '$1 == "slice" { for (i = 1; i <= NF; i++) at[$i] = i }
        $1 == "total" && ++seen == n { print $at[c] }' "$1"
}
reaches() { # reaches FILE N COLUMN LEAST
    got=$(cell "$@")
    echo "$3 is ${got:-missing}, wanted at least $4"
    awk -v a="$got" -v b="$4" 'BEGIN { exit !(a != "" && a + 0 >= b + 0) }'
}

# interests: the planted world of deep.md, one seed, without PyTorch: what reads the past beside the candidate is far ahead
interests() {
    make -s -C "$CTR_TOP/examples" OUT="$W/world" ROWS=60000 SEEDS=1 MODELS='lr mlp din' TORCH=false interests >"$W/interests.md" || return 1
    awk -F '|' '{ split($2, name, /[ :]+/); a[name[2]] = $3 } END { print "lr" a["lr"] "mlp" a["mlp"] "din" a["din"]
        exit !(a["lr"] > .6 && a["mlp"] > a["lr"] + .03 && a["din"] > a["mlp"] + .07 && a["din"] < a["the"]) }' "$W/interests.md"
}
ok 'interests: din above mlp above lr' interests
is 'interests: a row a model, with its processor seconds' "$(grep -cE '^\| (lr|mlp|din).*\| 0\.[0-9]{6} \| 0\.[0-9]{6} \| [0-9]+\.[0-9]{2} \|$' "$W/interests.md")" 3
is 'interests: an unknown model' "$(OUT=$W/world ROWS=50 MODELS=dni "$CTR_TOP/examples/interests.sh" 2>&1 >/dev/null | tail -n 1)" "interests.sh: no model 'dni'"

help() { make -s -C "$CTR_TOP/examples" help | sed 1d | cut -f 1 | tr -d ' ' | tr '\n' ' '; }
trenches=$(sed -n 's/^trenches += /trenches-/p' "$CTR_TOP/examples/trenches.mk" | sed 's/-fig2$/-fig2 trenches-fig2.png/' | tr '\n' ' ')
bars=$(sed -n 's/^bars := //p' "$CTR_TOP/examples/bars.mk" | tr ' ' '\n' | sed 's/^/bars-/' | tr '\n' ' ')'bars frappe '
is 'help lists targets' "$(help)" "demo live serve featurebox ams funnel criteo avazu mind mindhistory globo globodin amex deep amazon taobao interests steps warm ml100k ml1m ml1mhistory ml1mdin parquet models ipinyou images warmup fashion movies simtier signals trenches $trenches$bars"
# images: the smallest path; figures are those of a small world, of which one direction is asserted
small_images() { # images.sh ROW…: GAUC of the rows
    OUT=$W/small ROWS=20000 SEEDS=1 ONLY="$*" "$CTR_TOP/examples/images.sh" >"$W/images.md" 2>"$W/images.err" || { cat "$W/images.err"; return 1; }
    awk '{ g[$1] = $3 } END { print g["ids"], g["attentive"]; exit !(g["attentive"] > g["ids"] + .01) }' "$W/small/images/results.tsv"
}
ok 'images: photographs add to ids in a small world' small_images ids attentive
ok 'images: a table with the figures of the paper' grep -q '^| attentive | 0.6257 | +0.0052 | 0\.[5-7]' "$W/images.md"
# warmup: as above, in two worlds of many ids: vectors of ids that overfit do not help the next model
warmup() {
    make -s -C "$CTR_TOP/examples" OUT="$W" ROWS=20000 SEEDS='1 2' warmup >"$W/warmup.md" || return 1
    awk '{ g[$1] += $3 / 2 } END { print g["loose-none"], g["loose-partial"], g["loose-full"]; exit !(g["loose-partial"] > g["loose-full"] + .005) }' "$W/warmup/3/images/results.tsv"
}
ok 'warmup: partial above full where ids overfit' warmup
is 'warmup: its table alone' "$(grep -c '^###' "$W/warmup.md")" 2
reversed() { printf 'ids\t1\t.7\t.7\nids\t2\t.71\t.71\nad\t1\t.6\t.6\nad\t2\t.61\t.61\n' >"$W/reversed.tsv"; python3 "$CTR_TOP/examples/images.py" "$W/reversed.tsv" >/dev/null; echo $?; }
is 'images: status 3 where a direction is reversed' "$(reversed)" 3
drawn() { # a curve of two points in two worlds
    for row in ids multi-query; do for seed in 1 2; do for day in 1 2; do
        printf '%s\t%s\t2026-01-0%sT00:00:00Z\t.%s%s\t.7\n' $row $seed $day $((6 + ${#row} / 11)) $((day + seed))
    done; done; done >"$W/curves.tsv"
    : >"$W/none.tsv"
    python3 "$CTR_TOP/examples/images.py" "$W/none.tsv" "$W/curves.tsv" "$W/curves.svg" >"$W/curves.md" || return 1
    python3 -c 'import sys, xml.etree.ElementTree as e; print([len(l.get("points").split()) for l in e.parse(sys.argv[1]).getroot() if l.tag.endswith("polyline")])' "$W/curves.svg"
    grep -c '^| 2026.*| +0.1000 ± 0.0000 |' "$W/curves.md"
}
is 'images: a picture of two curves beside their table' "$(drawn | tr '\n' ' ')" '[2, 2] 2 '
is 'warmup has its own number of rows' "$(make -n -C "$CTR_TOP/examples" warmup | grep -o 'ROWS=[0-9]*')" 'ROWS=40000'
lacks() { CTR_CHROMIUM=$W/none make -s -C "$CTR_TOP/examples" OUT="$W/lacks" trenches-fig2.png >"$W/lacks.txt" 2>&1 || grep -c 'no chromium: install chromium' "$W/lacks.txt"; }
is 'what a target needs is told before it works' "$(lacks) $(ls "$W/lacks" 2>/dev/null)" '1 '
for e in criteo avazu mind mindhistory amex ml100k ml1m ml1mhistory parquet amazon taobao ipinyou; do ok "$e runs" figures $e; done
# funnel: the second stage orders what was bought better than the first
funnel() {
    make -s -C "$CTR_TOP/examples" OUT="$W/funnel" DATA="$DATA" funnel >"$W/funnel.txt" || return 1
    awk '$1 == "recall@400" { r = $2 } $1 == "ndcg@10" { n[++k] = $2 } END { print r, n[1], n[2]; exit !(r > .25 && n[2] > n[1] && k == 2) }' "$W/funnel.txt"
}
[ ! -d "$DATA/hm_small" ] || ok 'funnel: recall of the first stage, and the second one is better' funnel
ok 'criteo: AUC >= .737' reaches "$W/criteo.txt" 1 auc .737
ok 'parquet: AUC >= .77, as from text' reaches "$W/parquet.txt" 1 auc .77
ok 'mind: AUC >= .627 from ids alone' reaches "$W/mind.txt" 1 auc .627
ok 'mindhistory: AUC >= .66 from running rates' reaches "$W/mindhistory.txt" 1 auc .66
ok 'mindhistory: GAUC >= .58' reaches "$W/mindhistory.txt" 1 gauc .58
ok 'ml100k: AUC >= .76' reaches "$W/ml100k.txt" 1 auc .76
# Its files: from the folder of the data, or the archive, which is checked; without a network the remedy is said.
files() { "$CTR_TOP/examples/ml100k.sh" "$@" 2>"$W/ml.err"; }
ok 'ml100k: the files of the data' sh -c "'$CTR_TOP/examples/ml100k.sh' '$W/ml' '$DATA' && test \"\$(wc -l <'$W/ml/u.data')\" = 100000"
offline() { ! https_proxy=http://127.0.0.1:9 HTTPS_PROXY=http://127.0.0.1:9 files "$W/ml2" "$W/none" && grep -q 'cannot fetch https://files.grouplens.org.*without a network, fetch it elsewhere and put it into .*/ml2, or name a folder' "$W/ml.err" && ! ls "$W"/ml2/u.* 2>/dev/null; }
ok 'ml100k: without a network' offline
another() { mkdir "$W/ml3" && echo no >"$W/ml3/ml-100k.zip" && ! files "$W/ml3" "$W/none" && grep -q 'is not the archive of' "$W/ml.err"; }
ok 'ml100k: another archive' another
# A server in the place of GroupLens, whose archive is made of the data: the script beside it has its address and sum.
archive_of() { # URL ARCHIVE: the script for them
    sed "s|^url=.*|url=$1|; s|^archive=[0-9a-f]*|archive=$(sha256sum <"$2" | cut -c1-64)|" "$CTR_TOP/examples/ml100k.sh" >"$W/ml/ours.sh" && chmod +x "$W/ml/ours.sh"
}
served() {
    mkdir -p "$W/ml/site" && "$PY" -c '
import gzip, os, sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as z:
    for name in "u.data", "u.item", "u.user":
        path = os.path.join(sys.argv[2], name)
        z.writestr("ml-100k/" + name, open(path, "rb").read() if os.path.exists(path) else gzip.open(path + ".gz").read())' "$W/ml/site/ml-100k.zip" "$DATA/ml100k" &&
        echo 'sign in, please' >"$W/ml/site/other.zip"
    (cd "$W/ml/site" && exec "$PY" -u -c '
import http.server
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(s.server_address[1], flush=True)
s.serve_forever()' >"$W/ml/port" 2>/dev/null) &
    server=$!
    until_true test -s "$W/ml/port" && site=http://127.0.0.1:$(cat "$W/ml/port")
}
fetched() { "$@" >"$W/ml/said" 2>&1 && cmp "$W/ml/u.data" "$to/u.data" && cmp "$W/ml/u.item" "$to/u.item" && cmp "$W/ml/u.user" "$to/u.user"; }
without() { # PROGRAM…: a PATH of links to all others
    mkdir -p "$W/ml/bin" && ln -sf -t "$W/ml/bin" /usr/bin/* && (cd "$W/ml/bin" && rm -f "$@")
}
if [ -d "$DATA/ml100k" ] && served; then
    archive_of "$site/ml-100k.zip" "$W/ml/site/ml-100k.zip"
    to=$W/ml5
    ok 'ml100k: the archive is fetched and unpacked' fetched "$W/ml/ours.sh" "$to" "$W/none"
    kill "$server"
    rm "$to/u.data"
    ok 'ml100k: once' fetched "$W/ml/ours.sh" "$to" "$W/none"
    served
    archive_of "$site/ml-100k.zip" "$W/ml/site/ml-100k.zip"
    if without curl unzip && [ -x "$W/ml/bin/wget" ] && [ -x "$W/ml/bin/python3" ]; then
        to=$W/ml6
        ok 'ml100k: by wget and python3, too' fetched env PATH="$W/ml/bin" "$W/ml/ours.sh" "$to" "$W/none"
    fi
    archive_of "$site/other.zip" "$W/ml/site/ml-100k.zip"
    exits 'ml100k: something else in its place' 1 "$W/ml/ours.sh" "$W/ml7" "$W/none"
    err_like 'is told' "^ml100k.sh: 16 bytes came from $site/other.zip, which are not the archive that this was written for"
    is 'and nothing of it stays' "$(ls "$W/ml7")" ''
    archive_of "$site/none.zip" "$W/ml/site/ml-100k.zip"
    exits 'ml100k: the site has it no more' 1 "$W/ml/ours.sh" "$W/ml7" "$W/none"
    err_like 'is told with the remedy' 'cannot fetch .*none.zip .*404.*: without a network, fetch it elsewhere and put it into'
    kill "$server"
fi
changed() { mkdir -p "$W/d/ml100k" && for f in u.item u.user u.data; do echo no >"$W/d/ml100k/$f"; done && ! files "$W/ml4" "$W/d" && grep -q 'u.data is not that of MovieLens-100k' "$W/ml.err" && test ! -e "$W/ml4/u.data"; }
ok 'ml100k: a changed file' changed
ok 'ml1mhistory: AUC >= .795' reaches "$W/ml1mhistory.txt" 1 auc .795
ok 'amex: AUC >= .562' reaches "$W/amex.txt" 1 auc .562
ok 'ml1m: AUC >= .777' reaches "$W/ml1m.txt" 1 auc .777
ok 'ml1m: GAUC >= .725' reaches "$W/ml1m.txt" 1 gauc .725
ok 'ml1m: a row a genre' grep -q '^genres=Film-Noir' "$W/ml1m.txt"
is 'ipinyou: AUC of train' "$(cell "$W/ipinyou.txt" 1 auc | cut -c 1-6)" 0.7529
is 'ipinyou: AUC of test, rounded' "$(printf '%.4f' "$(cell "$W/ipinyou.txt" 2 auc)")" 0.7305
less() { awk -v a="$(cell "$W/ipinyou.txt" 3 log_loss)" -v b="$(cell "$W/ipinyou.txt" 2 log_loss)" 'BEGIN { print a, b; exit !(a < b) }'; }
ok 'ipinyou: calibration on train lowers the log loss of test' less
if command -v ctr-signals >/dev/null; then
    ok 'signals runs' figures signals
    is 'signals: days that fail, and the days between them' "$(awk '/^day/ { split(substr($0, 46), w, /[ :]+/); printf "%s %s %s %s,", $1, $2, w[1], w[2] }' "$W/signals.txt")" \
        'day 1 passed ,day 2 passed ,day 3 price drifted,day 4 price drifted,day 5 passed ,day 6 price missing,day 7 price absent,day 8 user drifted,day 9 passed ,day 14 hour drifted,day 14 passed ,'
    is 'signals: all of the plan are white-listed and consumed' "$(awk '/^signal / { on = $3 == "state"; next } on && NF { n[$3 " " $6]++ } END { for (k in n) print k }' "$W/signals.txt")" 'allowed 1'
fi
# What README.md shows of ml100k is what comes out.
readme_is_true() {
    sed -n 's/^    \(total .*\|occupation=.*\|keys  .*\|progressive .*\)/\1/p' "$CTR_TOP/README.md" >"$W/shown"
    [ "$(wc -l <"$W/shown")" -ge 5 ] || { echo "README shows no figures"; return 1; }
    cat "$W/ml100k.txt" "$W/ml100k.err" >"$W/ml100k.all"
    while IFS= read -r line; do grep -qxF -e "$line" "$W/ml100k.all" || { echo "not so: $line"; return 1; }; done <"$W/shown"
}
ok 'the README shows what comes out' readme_is_true
done_testing
