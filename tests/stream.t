#!/bin/sh
# The stream as tools see it: live pipes, joined streams, bundles, files from pipes, and what the errors say.
. "${0%/*}/lib.sh"
printf 'user,click\n1,0\n2,1\n3,0\n' | ctr-import --format csv --header >"$W/a.arrows"
ctr-cat --to file --key user "$W/a.arrows" -o "$W/a.arrow"

# A live pipe moves before its end: the rows come out while the input is held open.
mkfifo "$W/in"
ctr-cat --flush 20ms <"$W/in" >"$W/live" &
exec 3>"$W/in"
size=$(($(wc -c <"$W/a.arrows") - 8))
head -c $size "$W/a.arrows" >&3
rows_came() { [ "$(wc -c <"$W/live")" -gt 1000 ]; }
ok "rows came before the end of input" until_true rows_came
tail -c 8 "$W/a.arrows" >&3
exec 3>&-
wait
is "and the stream is whole" "$(ctr-info --digest "$W/live")" "$(ctr-info --digest "$W/a.arrows")"
for t in 'ctr-cat' 'ctr-select --where true -j 2'; do
    $t --flush 20ms <"$W/in" >/dev/full 2>"$W/full" &
    exec 3>"$W/in"
    head -c $size "$W/a.arrows" >&3
    has_ended() { ! kill -0 $!; }
    ok "$t: an output that fails while no input comes ends it" until_true has_ended
    exec 3>&-
    wait $! && status=0 || status=$?
    is "$t: with the reason" "$status $(cat "$W/full")" "1 ${t%% *}: stdout: write failed: No space left on device"
done
# With -j 2 a thread writes. One whole batch fills its output, so that the writing fails, not a flush.
awk 'BEGIN { print "user"; for (i = 0; i < 20000; i++) print i }' | ctr-import -q --format csv --header --columns user:int64 >"$W/many"
for j in 1 2; do
    ctr-join -q --anti -k user -j $j --flush 20ms "$W/a.arrows" <"$W/in" >/dev/full 2>"$W/full" &
    exec 3>"$W/in"
    head -c 140000 "$W/many" >&3
    ok "ctr-join -j $j: writing that fails while no input comes ends it" until_true has_ended
    exec 3>&-
    wait $! && status=0 || status=$?
    is "ctr-join -j $j: with the reason" "$status $(cat "$W/full")" "1 ctr-join: stdout: write failed: No space left on device"
done

d=$(ctr-info --digest "$W/a.arrows")
is "a file has the digest of its stream" "$(ctr-info --digest "$W/a.arrow")" "$d"
is "also from a pipe" "$(cat "$W/a.arrow" | ctr-info --digest)" "$d"
is "also as standard input" "$(ctr-info --digest <"$W/a.arrow")" "$d"
ctr-select --where 'click == 0' "$W/a.arrows" -o "$W/made.arrows"
made() { ctr-info "$@" | sed -n 's/^made by: ctr-\([a-z]*\) [0-9.]* */\1 /p'; }
first=$(made "$W/a.arrows")
is "a cat of equals has no more to say" "$(ctr-cat "$W/a.arrows" "$W/a.arrows" | made)" "$first"
is "a cat of others tells how both were made" "$(ctr-cat "$W/a.arrows" "$W/made.arrows" | made)" "$first
select --where=click == 0
cat 2 inputs"
is "a file too" "$(ctr-cat --to file -o "$W/both.arrow" "$W/a.arrow" "$W/made.arrows" "$W/a.arrows" && made "$W/both.arrow")" "$first
select --where=click == 0
cat 3 inputs"
is "a pipe tells too late" "$(ctr-cat "$W/a.arrows" - <"$W/made.arrows" | made)" "$first
cat 2 inputs, of which 1 did not tell beforehand how they were made"
is "cat a b" "$(cat "$W/a.arrows" "$W/a.arrows" | ctr-info --digest)" "$(ctr-cat "$W/a.arrows" "$W/a.arrow" | ctr-info --digest)"

# The first part of one stream and the rest of another one, which has the same schema and as many bytes: what is read is the one or the
# other. So it is with the first sections of one bundle and the last one of another; each end mark moves what follows by 8 bytes.
seq 1000 1079 | sed 's/$/,1/; 1i user,click' | ctr-import -q --format csv --header | ctr-cat --batch 20 -o "$W/one"
seq 2000 2079 | sed 's/$/,1/; 1i user,click' | ctr-import -q --format csv --header | ctr-cat --batch 20 -o "$W/two"
printf 'feature u = vocab(user, min=1)\nfeature v = vocab(user + 1, min=1)\n' >"$W/parts.plan"
for i in one two; do ctr-extract -q --fit "$W/parts.plan" "$W/$i" -o "$W/$i.fit"; done
parts() {
    for at in $(seq "$3" 64 "$(($(wc -c <"$1") - 1))"); do
        if got=$({ head -c "$at" "$1"; tail -c +$((at + 1)) "$2"; } | ctr-info --digest 2>&1); then echo $got; fi
    done | sort -u
}
wholes() { for i; do echo $(ctr-info --digest "$i"); done | sort -u; }
is "no parts of two streams are a stream" "$(parts "$W/one" "$W/two" 64)" "$(wholes "$W/one" "$W/two")"
is "nor are those of two bundles" "$(parts "$W/one.fit" "$W/two.fit" 16)" "$(wholes "$W/one.fit" "$W/two.fit")"

exits "two files in one pipe" 1 sh -c "cat '$W/a.arrow' '$W/a.arrow' | ctr-cat"
printf 'user,show\n1,0\n' | ctr-import --format csv --header >"$W/b.arrows"
exits "another schema" 1 ctr-cat "$W/a.arrows" "$W/b.arrows"
err_like "names file and difference" "/b.arrows: cannot be joined with .*/a.arrows: column 2 is 'click' in one and 'show' in the other: make them alike with ctr-select \(the files of a command are read as one stream\)$"
head -c $size "$W/a.arrows" >"$W/cut"
exits "no end mark" 1 ctr-cat "$W/cut"
err_like "tells how far it came" 'ctr-cat: .*/cut: truncated after batch 1 \(row 3\)$'
exits "rows out of key order" 1 ctr-cat --to file --key click "$W/a.arrows"
err_like "names the row and the remedy" 'row 3 is out of order.*ctr-sort -k click'
exits "not there" 1 ctr-cat "$W/none.arrows"
err_like "errno" 'none.arrows: cannot open: No such file'
exits "a folder" 1 ctr-cat "$W"
err_like "is told" 'is a directory'

# In a chain without pipefail the last program fails too.
exits "a chain of four" 1 sh -c "ctr-cat '$W/cut' | ctr-cat | ctr-cat | ctr-cat >'$W/last'"
is "it says that it is not the first" "$(sh -c "false | ctr-cat" 2>&1)" \
    'ctr-cat: stdin: is empty, without even a schema: the program before it in the pipe failed or was stopped'
is "nor when it was cut in the middle" "$(cat "$W/cut" | ctr-cat 2>&1 >/dev/null)" \
    'ctr-cat: stdin: truncated after batch 1 (row 3): the program before it in the pipe failed or was stopped'
exits "rescue" 0 sh -c "ctr-cat --lenient '$W/cut' 2>/dev/null | ctr-info --digest"
is "has the rows" "$(cat "$W/out")" "$d"
# Behind a damage the next stream of the file, and the next file, are read on; what stands in a text is no stream.
rescued() { ctr-cat --lenient "$@" 2>"$W/err" | ctr-export -f csv | tail -n +2 | tr '\n' ' '; }
size=$(wc -c <"$W/made.arrows")
cat "$W/cut" "$W/made.arrows" >"$W/torn"                                # it ends behind a message
head -c $((size - 100)) "$W/made.arrows" | cat - "$W/a.arrows" >>"$W/torn" # and in one
rubbish 5000 >>"$W/torn"
cat "$W/b.arrows" "$W/made.arrows" >>"$W/torn"
is "behind a damage the next streams of the file are read" "$(rescued "$W/torn")" '1,0 2,1 3,0 1,0 3,0 1,0 3,0 1,0 2,1 3,0 1,0 3,0 '
is "each is told of" "$(grep -o '/torn: ' "$W/err" | wc -l) $(grep -o ', behind a whole stream, is no stream' "$W/err") $(grep -o '[0-9]* rows were rescued' "$W/err")" \
    '4 , behind a whole stream, is no stream 12 rows were rescued'
is "not in a pipe" "$(rescued <"$W/torn" 2>&1; cat "$W/torn" | rescued)" '1,0 2,1 3,0 1,0 2,1 3,0 '
rubbish 100 >"$W/junk"
is "and the next files, if they can be" "$(rescued "$W/cut" "$W/b.arrows" "$W/a.arrow" "$W/junk" "$W" "$W/made.arrows")" '1,0 2,1 3,0 1,0 2,1 3,0 1,0 3,0 '
err_like "each is told of" '/cut: truncated after batch 1 .row 3.; .*/b.arrows: cannot be joined with .*; 8 rows were rescued$'
exits "one that is not there is an error" 1 ctr-cat --lenient "$W/cut" "$W/none.arrows"

# A column of a type that is not read can be left out, and is an error where it is used.
unread=$CTR_TOP/tests/fuzz/corpus/stream/types-not-read
is "beside columns that are not read" "$(ctr-select --columns id,last "$unread" | ctr-info | sed -n 's/^rows: //p')" 5
exits "one of them in a condition" 2 ctr-select --columns id --where 'is_null(m)' "$unread"
err_like "is told of where it stands" "column 'm' is of type map, which is not supported"

# A bundle cannot be one file; nothing comes out of the attempt.
printf 'feature u = vocab(user, min=1)\n' >"$W/u.plan"
ctr-extract --fit "$W/u.plan" -o "$W/bundle" "$W/a.arrows"
exits "a bundle as a file" 1 ctr-cat --to file "$W/bundle"
err_like "is refused with what is in it" 'bundle of sections \(.*vocab.u\).*ctr-select --section'
is "before a byte was written" "$(wc -c <"$W/out")" 0
head -c $(($(wc -c <"$W/bundle") - 60)) "$W/bundle" | cat - "$W/bundle" >"$W/two"
exits "a bundle that is cut short" 0 ctr-cat --lenient -o "$W/rescued" "$W/two"
is "has its sections up to there" "$(ctr-info "$W/rescued" | grep -c '^section:')" "$(ctr-info "$W/bundle" | grep -c '^section:')"

# A mapped file that another program cuts short while it is read, by this thread or another.
for j in 1 2; do
    seq 1000000 | ctr-import --format csv --columns n:int64 | ctr-cat --batch 1000 --to file -o "$W/big.arrow"
    (
        ctr-cat -j $j "$W/big.arrow" 2>"$W/err"
        echo $? >"$W/status"
    ) | {
        head -c 1000 >"$W/came"
        truncate -s 8192 "$W/big.arrow"
        cat >>"$W/came"
    }
    is "-j $j: a file that is cut while it is read is an error" "$(cat "$W/status")" 1
    err_like "names the file" '^ctr-cat: .*/big.arrow: was shortened by another program'
done
exits "the next program fails too" 1 ctr-info "$W/came"
err_like "for what it got is no whole stream" 'truncated after batch'
# ---- what a terminal is shown
esc=$(printf '\033')
printf 'a\0332\n' | ctr-import -f csv --columns x:utf8,y:int32 --delimiter "$esc" >"$W/esc.arrows"
is 'ctr-info: control characters of metadata do not reach a terminal' "$(ctr-info "$W/esc.arrows" | grep -c "$esc") $(ctr-info "$W/esc.arrows" | grep -cF -e '--delimiter=\x1b')" '0 1'
ok 'its JSON has them' sh -c "ctr-info --json '$W/esc.arrows' | grep -q -F 'delimiter=\\u001b'"
# ---- what is not read is not damaged; what Arrow wrote before 0.15 is read
if has_python pyarrow; then
    "$PY" - "$W" <<'EOT'
import sys
import pyarrow as pa
folder = sys.argv[1]
t = pa.table({"a": [1, None, 3], "s": ["x", "yy", None], "l": [[1, 2], [], None], "f": [.5, 1.5, 2.5], "d": pa.array(["u", "v", "u"]).dictionary_encode()})
old = pa.ipc.IpcWriteOptions(use_legacy_format=True, metadata_version=pa.ipc.MetadataVersion.V4)
def put(name, table, new=pa.ipc.new_stream, times=1, **options):
    with new(f"{folder}/{name}", table.schema, **options) as w:
        for _ in range(times):
            w.write_table(table)
put("now.arrows", t, times=2)
put("old.arrows", t, times=2, options=old)
put("old.arrow", t, pa.ipc.new_file, 2, options=old)
put("none.arrows", t, times=0, options=old)
put("none.arrow", t, pa.ipc.new_file, 0, options=old)
put("map.arrows", pa.table({"x": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))}))
put("lists.arrows", pa.table({"x": pa.array([[[1]]])}))
put("far.arrows", pa.table({"x": pa.array([2**62], pa.timestamp("s"))}))
put("twice.arrows", pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]))
put("child.arrows", pa.table({"x": pa.array([{"y": 1}]), "x.y": [1]}))
EOT
    for f in old.arrows old.arrow; do
        is "$f: the rows of today's format" "$(ctr-info --digest "$W/$f")" "$(ctr-info --digest "$W/now.arrows")"
        exits "$f: sound" 0 ctr-info --check "$W/$f"
        is "$f: from a pipe" "$(cat "$W/$f" | ctr-info --digest)" "$(ctr-info --digest "$W/now.arrows")"
        size=$(stat -c %s "$W/$f")
        for cut in 20 300 $((size / 2)) $((size - 9)) $((size - 1)); do
            head -c $cut "$W/$f" >"$W/cut"
            exits "$f of $size bytes, cut at $cut" 3 ctr-info --check "$W/cut"
            err_like "is truncated" truncated
        done
    done
    for f in none.arrows none.arrow; do exits "$f: without rows" 0 ctr-info --check "$W/$f"; done
    is "two old streams are one" "$(cat "$W/old.arrows" "$W/old.arrows" | ctr-export | wc -l)" 13
    is "an old one is sealed as every other" "$(ctr-cat "$W/old.arrows" | ctr-info | grep sealed)" 'sealed: yes'
    while IFS='|' read -r name why; do
        exits "$name is not damaged" 1 ctr-info --check "$W/$name.arrows"
        err_like "says what it has" "$name.arrows: column 'x[.y]*'.* $why"
        head -c -20 "$W/$name.arrows" >"$W/cut"
        case $name in twice | child) ;; *) exits "$name, cut short, is" 3 ctr-info --check "$W/cut" ;; esac
    done <<'EOT'
map|is of type map, which is not supported: cast it to two aligned lists
lists|is a list of lists, which is not supported
far|row 1 of the batch is a time out of range
twice|is there twice: rename one where the stream is written, in pyarrow with Table.rename_columns
child|is there twice: rename one where the stream is written, in pyarrow with Table.rename_columns .the child b of a struct a is a.b.
EOT
else
    skip "kinds that are not read, and old ones" "no pyarrow"
fi
for junk in 'text, no stream\n' '\037\213\010\000\001\002\003\004\005\006' '\000\001\000\000\020\000\000\000junk that begins as an old stream does, and is none, for long enough to be read'; do
    printf "$junk" >"$W/junk"
    exits "no stream" 3 ctr-info --check "$W/junk"
done
cd "$W" || exit 1
# Of a stream in a file buffers of columns that are not read are not read either: the same verdict as of a pipe, wherever a byte is
# wrong, and wherever the file ends.
awk 'BEGIN { srand(3); print "a,b,c,d"; for (i = 0; i < 40000; i++) print i "," rand() ",text " i % 777 "," int(rand() * 1e9) }' | ctr-import -q -f csv --header -o wide.arrows
size=$(wc -c <wide.arrows)
differ=0
for k in $(seq ${SAN:-40}); do
    at=$((k * 7919 * 13 % size))
    cp wide.arrows flip.arrows
    printf '\377' | dd of=flip.arrows bs=1 seek="$at" conv=notrunc 2>/dev/null
    [ "$(ctr-select -q --columns b flip.arrows 2>&1 | ctr-info --digest 2>&1)" = "$(ctr-select -q --columns b - <flip.arrows 2>&1 | ctr-info --digest 2>&1)" ] || differ=$((differ + 1))
    head -c "$at" wide.arrows >cut.arrows
    [ "$(ctr-select -q --columns b cut.arrows 2>&1 >/dev/null | sed 's/.*: //')" = "$(ctr-select -q --columns b - <cut.arrows 2>&1 >/dev/null | sed 's/.*: //')" ] || differ=$((differ + 1))
done
is 'a column of a damaged file: as of a pipe' "$differ" 0
done_testing
