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

exits "two files in one pipe" 1 sh -c "cat '$W/a.arrow' '$W/a.arrow' | ctr-cat"
printf 'user,show\n1,0\n' | ctr-import --format csv --header >"$W/b.arrows"
exits "another schema" 1 ctr-cat "$W/a.arrows" "$W/b.arrows"
err_like "names file and difference" "b.arrows: has another schema than what came before: column 2 is 'click' in one and 'show' in the other .*: give one at a time, or make them alike with ctr-select\)$"
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
err_like "each is told of" '/cut: truncated after batch 1 .row 3.; .*/b.arrows: has another schema .*; 8 rows were rescued$'
exits "one that is not there is an error" 1 ctr-cat --lenient "$W/cut" "$W/none.arrows"

# A column of a type that is not read can be left out, and is an error where it is used.
unread=$CTR_TOP/tests/fuzz/corpus/stream/types-not-read
is "beside columns that are not read" "$(ctr-select --columns id,last "$unread" | ctr-info | sed -n 's/^rows: //p')" 5
exits "one of them in a condition" 2 ctr-select --columns id --where 'price > 1' "$unread"
err_like "is told of where it stands" "column 'price' is of type decimal, which is not supported"

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
is 'ctr-info: control characters of metadata do not reach a terminal' "$(ctr-info "$W/esc.arrows" | grep -c "$esc") $(ctr-info "$W/esc.arrows" | grep -c -e '--delimiter=?')" '0 1'
ok 'its JSON has them' sh -c "ctr-info --json '$W/esc.arrows' | grep -q -F 'delimiter=\\u001b'"
done_testing
