#!/bin/sh
# ctr-import of jsonl, libsvm, libffm and vw: round trips through ctr-export, quarantine, real files, the same bytes however it
# runs. The parsers' own rules are in unit-formats.c.
. "${0%/*}/lib.sh"

# ---- jsonl
cat >"$W/log.jsonl" <<'EOT'
{"user":{"id":7,"name":"al"},"click":true,"tags":["a","b"],"price":0.1}
{"click":false,"user":{"id":8},"tags":[],"extra":{"deep":[1,{"x":2}]}}
EOT
is "jsonl: all that there is" "$(ctr-import "$W/log.jsonl" | ctr-export -f jsonl)" \
    '{"user":{"id":7,"name":"al"},"click":true,"tags":["a","b"],"price":0.1,"extra":{"deep":null}}
{"user":{"id":8,"name":null},"click":false,"tags":[],"price":null,"extra":{"deep":"[1,{\"x\":2}]"}}'
is "jsonl: fields by path" "$(ctr-import -c u=user.id:int32,x=extra.deep.1.x:int8,click -f jsonl --label click - <"$W/log.jsonl" | ctr-export)" \
    'u,x,click
7,,true
8,2,false'
gzip -c "$W/log.jsonl" >"$W/log.jsonl.gz"
is "jsonl: gzip, format by suffix" "$(ctr-import "$W/log.jsonl.gz" | ctr-info --digest)" "$(ctr-import "$W/log.jsonl" | ctr-info --digest)"
ctr-import "$W/log.jsonl" >"$W/a.arrows"
is "jsonl: export and import again: the same rows" "$(ctr-export -f jsonl "$W/a.arrows" | ctr-import -f jsonl - | ctr-info --digest)" \
    "$(ctr-info --digest "$W/a.arrows")"
is "jsonl: --like" "$(ctr-import -f jsonl --like "$W/a.arrows" - <"$W/log.jsonl" | ctr-info --digest)" "$(ctr-info --digest "$W/a.arrows")"
dotted='a,a.b,a.b.c
1,2,3'
is "jsonl: members with dots in their names, beside the ones above them" \
    "$(echo "$dotted" | ctr-import -qf csv --header | ctr-export -f jsonl | ctr-import -f jsonl 2>&1 | ctr-export)" "$dotted"
dots() { ctr-import -f jsonl "$@" 2>&1 | ctr-export -d ';' | tr '\n' ' '; }
is "jsonl: in objects too" "$(echo '{"x":{"a":1,"a.b":2,"a.b.c":{"d":3}}}' | dots)" 'x.a;x.a.b;x.a.b.c.d 1;2;3 '
is "jsonl: names with dots on the way" "$(echo '{"a":1,"a.b":{"c":2},"x.y":{"z":3},"a.":4,".":5}' | dots)" 'a;a.b.c;x.y.z;a.;. 1;2;3;4;5 '
is "jsonl: with --columns" "$(echo '{"x.y":{"z.u":3}}' | dots -c q=x.y.z.u:int8)" 'q 3 '
is "jsonl: a name of two members: the last counts" "$(printf '{"a":{"b":1},"a.b":2}\n{"a.b":2,"a":{"b":1}}\n' | dots)" 'a.b 2 1 '
is "jsonl: a value here, and dots below an object there, are one text" "$(printf '{"a":1}\n{"a":{"b.c":2}}\n' | dots)" \
    'a 1 "{""b.c"":2}" '
is "jsonl: and a name above another with dots, whose letters begin alike" \
    "$(printf '{"a":1}\n{"a":{"bc":2}}\n{"a":{"b":{"d":3}}}\n' | dots)" 'a 1 "{""bc"":2}" "{""b"":{""d"":3}}" '
is "jsonl: 30 members of 200" "$(awk 'BEGIN { for (i = 0; i < 200; i++) s = s ",\"k" i "\":" i; print "{" substr(s, 2) ",\"no.k1\":-1}" }' |
    dots -c "$(seq -s, -f k%g 0 7 200)")" "$(seq -s';' -f k%g 0 7 200) $(seq -s';' 0 7 200) "
is "jsonl: a value here and an object there are one text" \
    "$(printf '{"a":1,"c.d":1}\n{"a":{"b":2},"c":3}\n' | ctr-import -qf jsonl | ctr-export -d ';')" 'a;c.d;c
1;1;
"{""b"":2}";;3'
exits "jsonl: --header means nothing" 2 ctr-import -f jsonl --header "$W/log.jsonl"
exits "csv: --keys means nothing" 2 ctr-import -f csv --keys text "$W/log.jsonl"
exits "jsonl: a path twice" 2 ctr-import -c a=user.id,b=user.id "$W/log.jsonl"

# A member that the first lines have not, in whatever place, is not left out silently.
awk 'BEGIN { for (i = 0; i < 1200; i++) print "{\"a\":" i ",\"u\":{\"id\":1},\"e\":{}}"
    print "{\"a\":1,\"u\":{\"id\":2,\"name\":\"al\"},\"e\":{ },\"none\":null}"
    print "{\"a\":1,\"u\":5,\"e\":{\"k\":1},\"q\" : [2]}" }' >"$W/late.jsonl"
for j in 1 3; do
    exits "jsonl: members that come late (-j $j)" 0 ctr-import -j $j -o "$W/late.arrows" "$W/late.jsonl"
    is "are counted, and the first is named" "$(cat "$W/err")" \
        "ctr-import: 4 values left out, of members without a name, of more than 32 parts or that the first 1000 lines have not (the first: 'name' in line 1201 of $W/late.jsonl): --columns takes what it names"
done
deep=$(printf 'p.%.0s' $(seq 32))
printf '{"a":1,"%sb":2}\n{"a":2,"%sb":3}\n' "$deep" "$deep" >"$W/deep.jsonl"
exits "jsonl: a name of more parts than a path may have" 0 ctr-import -o "$W/late.arrows" "$W/deep.jsonl"
err_like "is left out and counted" "2 values left out, of members without a name, of more than 32 parts or that .* in line 1 of"
is "and the rest is there" "$(ctr-export "$W/late.arrows" | tr '\n' ' ')" 'a 1 2 '
exits "jsonl: named columns need no sample" 0 ctr-import -c a,u.id -o "$W/late.arrows" "$W/late.jsonl"
is "and is told nothing" "$(cat "$W/err")" ''
while IFS='|' read -r name in re; do
    printf "$in" >"$W/in.jsonl"
    exits "jsonl: $name" 1 ctr-import "$W/in.jsonl"
    err_like "says so" "in.jsonl: $re"
done <<'EOT'
an array|[{"a":1}]\n|line 1: no JSON: an array where an object is wanted .jq -c '.\[\]' gives one object a line.$
an object over lines|\n{\n"a":1}\n|line 2: no JSON: the line ends inside an object or array; jq -c . makes one object a line$
no member|{}\n{}\n|line 1: an object without members, and nothing else in the first 1000 lines
an empty name|{"":0}\n|line 1: the name '' is empty and can be no column, and there is none other in the first 1000 lines: rename it, as jq's with_entries does
a byte 0 in a name|{}\n{"a":{"foo\\u0000bar":42}}\n|line 2: the name .'foo.x00bar' holds the byte 0 and can be no column
a name in latin1|{"caf\351":1}\n|line 1: the name .'caf.xe9' is not UTF-8 and can be no column
objects without values|{"a":{"b":{}}}\n|line 1: an object without members, and nothing else in the first 1000 lines
blank lines|\n\n|the input is empty: without --columns its columns are not known
half a surrogate pair|{"a":"\\ud800"}\n|line 1: column a: a .u escape is half a surrogate pair, or broken
EOT

exits "jsonl: only a name of 33 parts" 1 sh -c "printf '{\"%sb\":2}\n' $deep | ctr-import -f jsonl"
err_like "says so" "line 1: the name 'p.p.*' has more than 32 parts and can be no column"
is "jsonl: one that can be no column, beside one that can" "$(echo '{"":0,"a":{"":1}}' | ctr-import -qf jsonl | ctr-export -f jsonl)" '{"a.":1}'

printf '{"l":["a,b","q\\"",null],"w":[{"key":5,"weight":0.5}],"n":[1.5,"NaN"],"i":[1,2]}\n{"l":[],"w":[],"n":[],"i":null}\n' >"$W/l.jsonl"
types='l:list<utf8>,w:list<weighted key>,n:list<float32>,i:list<int8>'
ctr-import -c "$types" "$W/l.jsonl" >"$W/l.arrows"
for f in csv tsv jsonl; do
    header=$([ $f = jsonl ] || echo --header)
    is "lists go out and come back as $f" "$(ctr-export -f $f "$W/l.arrows" | ctr-import -f $f $header -c "$types" - | ctr-info --digest)" \
        "$(ctr-info --digest "$W/l.arrows")"
done

# ---- libsvm, libffm, vw: what comes in goes out, by text and by key
cat >"$W/a.libsvm" <<'EOT'
1 qid:4 3:1 11:0.5 90:-2
0 qid:5 7:1
1 qid:5
EOT
is "libsvm: by text" "$(ctr-import --keys text "$W/a.libsvm" | ctr-export -f libsvm)" "$(cat "$W/a.libsvm")"
is "libsvm: by key" "$(ctr-import --keys key "$W/a.libsvm" | ctr-export -f libsvm)" "$(cat "$W/a.libsvm")"
ctr-import "$W/a.libsvm" >"$W/hashed.arrows"
is "libsvm: hashed keys come back with --keys key" \
    "$(ctr-export -f libsvm "$W/hashed.arrows" | ctr-import -f libsvm --keys key - | ctr-export -f libsvm)" "$(ctr-export -f libsvm "$W/hashed.arrows")"
cat >"$W/a.libffm" <<'EOT'
1 0:3:0.5 2:11:1 2:12:1
0 1:7:1
EOT
is "libffm: by text" "$(ctr-import --keys text "$W/a.libffm" | ctr-export -f libffm)" "$(cat "$W/a.libffm")"
is "libffm: by key" "$(ctr-import --keys key "$W/a.libffm" | ctr-export -f libffm)" "$(cat "$W/a.libffm")"
cat >"$W/a.vw" <<'EOT'
1 2 'a |ad sport car |price x:0.5
0 1 'b |ad news
|ad no label
EOT
is "vw: a label that is named leaves the column label without a role" \
    "$(ctr-import --label weight "$W/a.vw" 2>/dev/null | ctr-info | awk '$3 == "label" || $1 == "label" { print $1, $3 }')" 'label -
weight label'
is "vw: by text" "$(ctr-import --keys text "$W/a.vw" | ctr-export -f vw)" "$(cat "$W/a.vw")"

for f in vw libffm; do
    ctr-import --keys text "$W/a.$f" >"$W/like.arrows"
    is "$f: --like makes the same schema of other rows" "$(ctr-import -f $f --keys text --like "$W/like.arrows" - <"$W/a.$f" | ctr-info --digest)" \
        "$(ctr-info --digest "$W/like.arrows")"
    exits "$f: --like of other keys" 2 ctr-import -f $f --like "$W/like.arrows" "$W/a.$f"
    err_like "names column and option" 'column [a-z0-9]* holds texts; --keys text makes such'
done

# ---- bad rows: kept and quarantined lines are together the input
quarantine() { # FORMAT OPTIONS…: stdin is the log; says rows kept, then the quarantine, then the reasons' lines
    _f=$1
    shift
    rm -f "$W/q" "$W/q.why"
    ctr-import -q -f "$_f" "$@" --bad-rows "quarantine=$W/q" - >"$W/q.arrows" && ctr-info "$W/q.arrows" | sed -n 's/^rows: /kept /p' &&
        cat "$W/q" && cut -f2 "$W/q.why"
}
is "jsonl: quarantine" "$(printf '{"a":1}\n{"a":x}\n{"a":"y"}\n{"a":2}\n{"a":3' | quarantine jsonl -c a:int8)" 'kept 2
{"a":x}
{"a":"y"}
{"a":3
2
3
5'
is "libsvm: quarantine" "$(printf '1 1:1\n1 x\n# c\n0 2:2\n' | quarantine libsvm)" 'kept 2
1 x
2'
is "libffm: quarantine" "$(printf '1 1:1:1\n1 1:1\n0 1:2:2\n' | quarantine libffm)" 'kept 2
1 1:1
2'
is "vw: quarantine" "$(printf '1 |a b\n1:2:3 |a b\nx\n0 |a c\n' | quarantine vw)" 'kept 2
1:2:3 |a b
x
2
3'
exits "skip=1 allows one" 1 sh -c "printf '1 |a\n1:2:3 |a b\nx\n' | ctr-import -f vw --bad-rows skip=1 -"
err_like "and names the second" 'line 3: bad row 2'

# ---- threads, pipes and blocks change nothing
awk 'BEGIN { for (i = 0; i < 60000; i++) printf "%d |u u%d |a a%d w%d:0.%d\n", i % 2, i % 97, i % 1013, i % 7, i % 10 }' >"$W/big.vw"
awk 'BEGIN { for (i = 0; i < 60000; i++) printf "{\"i\":%d,\"o\":{\"t\":\"text %d\",\"l\":[%d,%d]},\"skip\":{\"a\":[{}]}}\n", i, i, i, -i }' >"$W/big.jsonl"
for f in vw jsonl; do
    ctr-import -j 1 "$W/big.$f" >"$W/1.arrows"
    ctr-import -f $f -j 4 - <"$W/big.$f" >"$W/4.arrows"
    is "$f: the same rows by one thread from a file and by four from a pipe" "$(ctr-info --digest "$W/4.arrows")" "$(ctr-info --digest "$W/1.arrows")"
done
if has_python pyarrow; then
    ok "jsonl: python sees what json.loads sees" "$PY" -c "
import pyarrow as pa, json
t = pa.ipc.open_stream('$W/1.arrows').read_all().to_pylist()
for got, line in zip(t, open('$W/big.jsonl'), strict=True):
    w = json.loads(line); assert got == {'i': w['i'], 'o.t': w['o']['t'], 'o.l': w['o']['l'], 'skip.a': json.dumps(w['skip']['a']).replace(' ', '')}, got"
else
    skip "jsonl in python" "no pyarrow"
fi

# ---- plain parsers of csv, tsv and jsonl see the same rows
if has_python pyarrow; then
    ok "random logs: the rows of plain parsers" "$PY" "$CTR_TOP/tests/import_reference.py" "$([ -n "$SAN" ] && echo 1 || echo 3)"
else
    skip "plain parsers" "no pyarrow"
fi

# A format of the table of text.c is a word of ctr-import --format, and has a fuzzer, unit tests and an entry in ctr-import(1).
formats=$(sed -n '/ctr_text_formats\[\] = {/,/};/p' "$CTR_TOP/src/common/text/text.c" | grep -o '&ctr_text_[a-z0-9_]*' | sed 's/.*_//')
is 'ctr-import --format takes the formats of ctr_text_formats, text.c (its row in src/tools has the words)' \
    "$(ctr-import --list-options | awk -F '\t' '$1 == "--format" { print $4 }' | tr '|' '\n' | grep -vxE 'parquet|npy|safetensors')" "$formats"
for f in $formats; do
    ok "format $f has a fuzzer: tests/fuzz/fuzz-NAME.c with &ctr_text_$f" grep -qw "ctr_text_$f" "$CTR_TOP"/tests/fuzz/fuzz-*.c
    ok "format $f has rows in tests/unit/unit-formats.c" grep -q "\"$f\"" "$CTR_TOP/tests/unit/unit-formats.c"
    ok "ctr-import(1) names format $f" grep -qw "$f" "$CTR_TOP/man/ctr-import.1"
done

# ---- real files
F=$DATA/formats
if [ -d "$F" ]; then
    zcat "$F/libsvm/a9a.gz" | sed 's/ *$//' >"$W/a9a"
    ctr-import -f libsvm --keys text "$F/libsvm/a9a.gz" | ctr-export -f libsvm >"$W/a9a.out"
    ok "a9a comes back byte for byte" cmp "$W/a9a" "$W/a9a.out"
    is "heart_scale: labels -1 and 1 become 0 and 1" \
        "$(ctr-import -f libsvm --binary "$F/libsvm/heart_scale" | ctr-export --no-header -c label | sort | uniq -c | tr -s ' ' | tr '\n' ';')" ' 150 0; 120 1;'
    is "frappe (libfm): a third is positive" \
        "$(ctr-import -f libsvm --binary "$F/libfm/frappe.validation.libfm.gz" | ctr-export --no-header -c label | awk '{ s += $1 } END { printf "%d %.3f", NR, s / NR }')" '57722 0.330'
    tokens() { awk '{ n = split($0, a, " "); for (i = 2; i <= n; i++) { split(a[i], p, ":"); print NR, p[1], p[2], p[3] + 0 } }' | sort; }
    tokens <"$F/libffm/criteo_small_train.txt" >"$W/ffm.want"
    ctr-import -f libffm --keys text "$F/libffm/criteo_small_train.txt" | ctr-export -f libffm | tokens >"$W/ffm.got"
    ok "libffm: every feature of criteo_small comes back" cmp "$W/ffm.want" "$W/ffm.got"
    zcat "$F/vw/0002.dat.gz" | tr -d "'" | tr -s ' ' | sed 's/ *$//; s/ \([^ |]*\)|/ \1 |/' >"$W/vw.want"
    ctr-import -f vw --keys text "$F/vw/0002.dat.gz" | ctr-export -f vw | tr -d "'" >"$W/vw.got"
    ok "vw: 0002.dat comes back but for the form of its numbers" "$PY" -c "
def words(line): return [w if ':' not in w else (w.split(':')[0], round(float(w.split(':')[1]), 5)) for w in line.split()]
def norm(line):
    h, *ns = line.split('|'); return [float(x) if i < 2 else x for i, x in enumerate(h.split())], [words(n) for n in ns]
a, b = list(map(norm, open('$W/vw.want'))), list(map(norm, open('$W/vw.got')))
assert len(a) == 1000 and [x[1:] for x in a] == [x[1:] for x in b]
assert all(abs(x[0][0] - y[0][0]) < 1e-6 and x[0][1:] == y[0][1:] for x, y in zip(a, b))"
    exits "vw: contextual bandits are refused" 1 ctr-import -f vw "$F/vw/rcv1_raw_cb_small.vw.gz"
    err_like "with a clear message" "line 1: the label '1:1:0.5' is one of contextual bandits"
    is "jsonl: igl.dsjson" "$(ctr-import -f jsonl -c p:'list<float64>',cost=_label_cost:float32 "$F/jsonl_vw/igl.dsjson" | ctr-export -f jsonl | head -1)" \
        '{"p":[0.25,0.25,0.25,0.25],"cost":0}'
    exits "jsonl: more members than columns can be" 1 ctr-import -f jsonl "$F/jsonl_vw/0001.json.gz"
    err_like "says what to do" 'more than 4096 members: pick some with --columns'
    is "jsonl: and that works" "$(ctr-import -f jsonl -c _label:int8,features:utf8 "$F/jsonl_vw/0001.json.gz" | ctr-export -f csv --no-header -c _label | sort | uniq -c | tr -s ' ' | tr '\n' ';')" \
        "$(zcat "$F/jsonl_vw/0001.json.gz" | cut -d, -f1 | cut -d: -f2 | sort | uniq -c | tr -s ' ' | tr '\n' ';')"
else
    skip "real files" "no ../shared/data"
fi
done_testing
