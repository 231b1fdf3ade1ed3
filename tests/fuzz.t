#!/bin/sh
# The corpora of the fuzz targets, every input that once crashed among them, through each target, also with each allocation
# failing in turn; and, when CTR_ARROW_TESTING names a checkout of apache/arrow-testing, Arrow's own crash files through the
# readers of streams and files.
. "${0%/*}/lib.sh"
here=$CTR_TOP/tests/fuzz
for c in "$here"/fuzz-*.c; do
    t=${c##*/fuzz-} t=${t%.c}
    if ! [ -x "$CTR_BUILD/fuzz/fuzz-$t" ]; then # its library is missing
        skip "$t" 'was left out of the build'
        continue
    fi
    n=$(ls "$here/corpus/$t" | wc -l)
    is "$t: $n inputs" "$("$CTR_BUILD/fuzz/fuzz-$t" "$here/corpus/$t" 2>&1 </dev/null | tail -n 12)" "$n files"
    ok "$t: the N-th allocation fails: no crash, nothing left" "$CTR_BUILD/fuzz/fuzz-$t" --alloc "$here/corpus/$t"
    is "$t: changed by its own mutator" "$("$CTR_BUILD/fuzz/fuzz-$t" --mutate "$here/corpus/$t" 2>&1 </dev/null | tail -n 12)" "$n files"
done
printf 'a,b\n1,2\n' >"$W/x.csv"
exits 'a folder that is none' 1 "$CTR_BUILD/fuzz/fuzz-csv" "$W/nowhere"

for t in stream file; do
    d=${CTR_ARROW_TESTING:-}/data/arrow-ipc-$t
    if [ -d "$d" ]; then
        bad=
        for f in "$d"/*; do
            [ -f "$f" ] && [ "${f##*/}" != README.md ] || continue
            ctr-info --check "$f" >"$W/out" 2>"$W/err" </dev/null
            [ $? -eq 3 ] || bad="$bad ${f##*/}"
        done
        is "Arrow's crash files ($t) are refused" "$bad" ''
    else
        skip "Arrow's crash files ($t)" 'CTR_ARROW_TESTING is not set'
    fi
done
done_testing
