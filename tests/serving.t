#!/bin/sh
# ctr-model slim: serving files. Scores of rounded weights, uncertainty of pruned keys, pages that processes share, files that change.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
awk 'BEGIN { srand(5); print "click,user,ad,tags,x"
    for (i = 0; i < 6000; i++) { u = int(rand() * rand() * 900); a = int(rand() * 40)
        print (rand() < (a % 5 + u % 3) / 12) ",u" u ",a" a ",t" u % 7 "|t" a % 9 "," i % 10 / 10 } }' >log.csv
printf 'label click\nfeature user\nfeature ad\nfeature both = cross(user, ad)\n' >one.plan
printf 'label click\nfeature user\nfeature tags = split(tags, "|")\ndense x\n' >many.plan
ctr-import --header -o log.arrows log.csv
digest() { ctr-predict -q "$@" | ctr-info --digest; }
text() { ctr-export -f csv --no-header "$@"; }

for p in one many; do
    ctr-extract $p.plan log.arrows | ctr-select --head 5000 --rest $p.test.arrows -o $p.arrows
    ctr-train lr -q --alpha .3 --l1 1 -o $p.model $p.arrows
    ctr-model slim -o $p.serve $p.model 2>$p.words
    ctr-select --add 'weight=if(table == "(bias)", weight, floor(weight * 8192 + 0.5) / 8192)' --columns table,key,weight -o $p.rounded $p.model
    want=$(digest $p.rounded $p.test.arrows)
    is "$p: scores are those of the rounded weights" "$(digest $p.serve $p.test.arrows)" "$want"
    is "$p: by several threads, too" "$(digest -j 4 $p.serve $p.test.arrows)" "$want"
    is "$p: on any processor" "$(CTR_CPU=plain digest $p.serve $p.test.arrows)" "$want"
    ok "$p: which are not those of the model" test "$(digest $p.model $p.test.arrows)" != "$want"
    # A plain reference of every row: the nearest weight, the nearest of 256 rates with alpha .3 and beta 1.
    ctr-select --where 'table != "(bias)"' $p.model | text --columns key,weight,n >full
    text $p.serve | paste -d, full - >both
    is "$p: key, weight and rate of all rows" "$(awk -F, 'FNR == NR { if (log(1 + sqrt($3)) > most) most = log(1 + sqrt($3)); next }
        { rows++; q = $2 * 8192 - $5; r = log(1 + sqrt($3)) / (most / 255) - $6
          if ($1 != $4 || q > .5 || q < -.5 || r > .5000001 || r < -.5000001) print "wrong", $0 } END { print rows }' both both)" "$(wc -l <full | tr -d ' ')"
    ok "$p: some weights are 0" grep -q ',0,[1-9]' both
    # The uncertainty: within what slim has said of the full model; of a pruned model it is not.
    said=$(sed -n 's/.*within \([0-9.]*\)%/\1/p' $p.words)
    for m in model serve; do ctr-predict -q --uncertainty $p.$m $p.test.arrows | text --columns uncertainty >$p.$m.u; done
    ctr-select --where 'weight != 0' $p.model | ctr-predict -q --uncertainty - $p.test.arrows | text --columns uncertainty >$p.pruned.u
    off() { paste -d, $p.model.u "$1" | awk -F, '{ d = $2 / $1 - 1; if (d < 0) d = -d; if (d > most) most = d } END { printf "%.9f", 100 * most }'; }
    ok "$p: uncertainty within $said% of the model's" awk "BEGIN { exit !($(off $p.serve.u) <= $said * 1.05 && $said < 1.4) }"
    ok "$p: a pruned model's is not" awk "BEGIN { exit !($(off $p.pruned.u) > 10) }"
    is "$p: the scores beside it" "$(ctr-predict -q --uncertainty $p.serve $p.test.arrows | ctr-select --columns score | ctr-info --digest)" \
        "$(ctr-predict -q $p.rounded $p.test.arrows | ctr-select --columns score | ctr-info --digest)"
    ctr-model slim -q --weights-only -o $p.only $p.model
    is "$p: keys that the model does not hold" "$(ctr-predict $p.serve $p.test.arrows 2>&1 >/dev/null)" "$(ctr-predict $p.model $p.test.arrows 2>&1 >/dev/null | sed "s/$p.model/$p.serve/")"
    is "$p: --weights-only scores the same" "$(digest $p.only $p.test.arrows)" "$want"
    is "$p: and has no keys of weight 0" "$(text $p.only | grep -c ',0$')" 0
done
keys=$(ctr-info one.serve | awk '/^rows:/ { print $2 }')
ok '11 bytes a key, and a frame' test "$(wc -c <one.serve)" -lt "$((keys * 11 + 6000))"
ok 'where the model takes 36' test "$(wc -c <one.model)" -gt "$((keys * 36))"
ok 'a serving file is whole' ctr-info --check one.serve
is 'the plan is in it' "$(ctr-extract one.serve log.arrows | ctr-info --digest)" "$(ctr-extract one.plan log.arrows | ctr-info --digest)"
is 'through a pipe' "$(cat one.serve | ctr-predict -q - one.test.arrows | ctr-info --digest)" "$(digest one.rounded one.test.arrows)"
is 'of counts, one rate, other powers' "$(for a in '--learning-rate counts' '--learning-rate global' '--power .9' '--optimizer ogd' '--precision q2.13'; do
    # shellcheck disable=SC2086
    ctr-train lr -q $a -o a.model one.arrows && ctr-model slim -o a.serve a.model 2>a.words && said=$(sed -n 's/.*within \([0-9.]*\)%/\1/p' a.words)
    for m in model serve; do ctr-predict -q --uncertainty a.$m one.test.arrows | text --columns uncertainty >a.$m.u; done
    paste -d, a.model.u a.serve.u | awk -F, -v said="$said" '{ d = $2 / $1 - 1; if (d * d > (said * 1.05 / 100 + 1e-6) ^ 2) bad++ } END { printf "%d ", bad }'
done)" '0 0 0 0 0 '

# ---- what changes form
printf '1 1:1\n0 2:1\n1 3:1 4:1\n0 4:1\n1 65536:1\n0 4294967296:1\n0 9223372036854775808:1\n1 18446744073709551615:1\n' | ctr-import -f libsvm >skewed.arrows
ctr-train lr -q -o skewed.model skewed.arrows && ctr-model slim -q -o skewed.serve skewed.model
ctr-select --add 'weight=if(table == "(bias)", weight, floor(weight * 8192 + 0.5) / 8192)' --columns table,key,weight -o skewed.rounded skewed.model
is 'keys that are no hashes' "$(digest skewed.serve skewed.arrows)" "$(digest skewed.rounded skewed.arrows)"
ctr-select --columns table,key,weight --add 'weight=if(table == "user", if(weight < 0, 0 - 5.0, 5.0), if(table == "(bias)", 0 - 9.5, weight))' one.model >wide.model
users=$(ctr-select --where 'table == "user"' wide.model | text | wc -l | tr -d ' ')
exits 'weights out of range' 0 ctr-model slim --weights-only -o wide.serve wide.model
err_like 'are cut off, and counted' "$users weights beyond -4 … 4 were cut off there, which changes scores"
ctr-select --add 'weight=if(table == "(bias)", weight, if(weight > 4, 32767 / 8192.0, if(weight < 0 - 4, 0 - 4.0, floor(weight * 8192 + 0.5) / 8192)))' -o wide.rounded wide.model
is 'the bias stays as it is' "$(digest wide.serve one.test.arrows)" "$(digest wide.rounded one.test.arrows)"
ctr-select --add 'weight=0.25' one.model | ctr-model slim -q - >edited.serve
is 'z and n win over an edited weight' "$(text edited.serve | cksum)" "$(text one.serve | cksum)"
ctr-train lr -q --no-bias -o nobias.model one.arrows && ctr-model slim -q -o nobias.serve nobias.model
ctr-select --add 'weight=floor(weight * 8192 + 0.5) / 8192' --columns table,key,weight -o nobias.rounded nobias.model
is 'without a bias' "$(digest nobias.serve one.test.arrows)" "$(digest nobias.rounded one.test.arrows)"
ctr-select --where 'table == "(bias)"' one.model | ctr-model slim -q - >bias.serve
is 'the bias alone' "$(ctr-predict bias.serve one.test.arrows 2>/dev/null | text --columns score | sort -u | wc -l | tr -d ' ')" 1

# ---- refused
exits 'no rates, no uncertainty' 1 ctr-predict -q --uncertainty one.only one.test.arrows
err_like 'and why' 'one.only: it has no rates.*--weights-only'
ctr-sort -k weight -o unsorted.model one.model
exits 'a model in another order' 1 ctr-model slim -o none unsorted.model
err_like 'and the remedy' 'not in the order of table and key: ctr-sort -k table,key'
ctr-cat one.model one.model | ctr-sort -k table,key -o twice.model
exits 'a key twice' 1 ctr-model slim -o none twice.model
ok 'leave nothing' test ! -e none
for a in 'ctr-model top one.serve' 'ctr-model explain one.serve log.arrows' 'ctr-train lr -q --init one.serve -o none one.arrows' 'ctr-model slim -o none one.serve'; do
    ctr=$(sh -c "$a" 2>&1 >/dev/null)
    is "$a: predicts only" "$(echo "$ctr" | grep -c "of kind '*lr-slim")" 1
done
ctr-cat one.serve >stream.serve
exits 'a stream' 1 ctr-predict stream.serve one.test.arrows
err_like 'is to be a file' 'stream.serve: is a stream.*ctr-cat --to file'
ctr-cat --to file --compress zstd -o packed.serve one.serve 2>/dev/null && exits 'a compressed file' 1 ctr-predict packed.serve one.test.arrows
ctr-sort -k rate one.serve | ctr-cat --to file -o mixed.serve
exits 'rows in another order' 1 ctr-predict mixed.serve one.test.arrows
err_like 'are found' 'mixed.serve: row [0-9]*: the keys of a table are not sorted'
ctr-select --head 10 one.serve | ctr-cat --to file -o few.serve
exits 'rows that are missing' 1 ctr-predict few.serve one.test.arrows
err_like 'are found, too' 'few.serve: its ctr.model_slim is damaged'
size=$(wc -c <one.serve)
found=0 all=0
for at in 300 $((size / 4)) $((size / 2)) $((size * 3 / 4)) $((size - 900)) $((size - 5)); do
    { head -c $at one.serve; head -c $((at + 1)) one.serve | tail -c 1 | LC_ALL=C tr '\000-\377' '\001-\377\000'; tail -c +$((at + 2)) one.serve; } >flipped.serve
    all=$((all + 1))
    ctr-predict flipped.serve one.test.arrows >/dev/null 2>&1 || found=$((found + 1))
done
is 'a byte that was changed anywhere' "$found" "$all"
head -c $((size / 2)) one.serve >cut.serve
exits 'a file cut short' 1 ctr-predict cut.serve one.test.arrows

# ---- the file changes while it is in use: FIFO, so that rows come before and after
mkfifo fifo
ctr-select --head 500 --rest last.arrows -o first.arrows one.test.arrows
change_during() { # COMMAND…: before the last rows. The status is in $status.
    cp one.serve live.serve
    rm -f got.arrows
    ctr-predict --flush 20ms live.serve <fifo >got.arrows 2>"$W/err" &
    exec 3>fifo
    cat first.arrows >&3
    until_true test -s got.arrows
    sleep .1
    "$@"
    cat last.arrows >&3
    exec 3>&-
    wait $!
    status=$?
}
change_during cp one.serve next.serve
is 'nothing changed' "$status $(ctr-info --digest got.arrows)" "0 $(ctr-predict -q one.serve first.arrows last.arrows | ctr-info --digest)"
change_during sh -c 'cp one.only other.serve; mv other.serve live.serve'
is 'another file took its name: the first is read on' "$status $(ctr-info --digest got.arrows)" "0 $(ctr-predict -q one.serve first.arrows last.arrows | ctr-info --digest)"
change_during sh -c 'sleep .02; cat one.serve >live.serve'
is 'written to' "$status" 1
err_like 'is said' 'live.serve:? was changed or replaced by another program'
change_during sh -c ': >live.serve'
is 'cut short' "$status" 1
err_like 'is said, too' 'live.serve'

# ---- pages are shared: no process has a copy of its own
if [ -r /proc/self/smaps ] && [ -z "$SAN" ]; then
    mkfifo f1 f2
    ctr-predict -q --uncertainty one.serve <f1 >p1 2>/dev/null & one=$!
    ctr-predict -q --uncertainty one.serve <f2 >p2 2>/dev/null & two=$!
    exec 4>f1 5>f2
    map() { awk -v want="$2" '/^[0-9a-f]+-[0-9a-f]+ / { here = /one\.serve$/ } here && $1 == want ":" { sum += $2 } END { print sum + 0 }' /proc/"$1"/smaps; }
    mapped() { test "$(map "$1" Rss)" -ge "$((size / 1024))"; }
    ok 'two processes map the whole file' until_true mapped $one
    ok 'at once' until_true mapped $two
    is 'and have no page of it for themselves' "$(map $one Private_Clean) $(map $one Private_Dirty) $(map $two Private_Clean) $(map $two Private_Dirty)" '0 0 0 0'
    ok 'each counts half of it' awk "BEGIN { half = $(map $one Pss) / $(map $one Rss); exit !(half < .51) }"
    cat first.arrows >&4
    cat first.arrows >&5
    exec 4>&- 5>&-
    wait $one
    wait $two
    is 'and predict' "$(ctr-info --digest p1)" "$(ctr-info --digest p2)"
else
    skip 'pages are shared' 'no /proc, or sanitizers'
fi
done_testing
