#!/bin/bash
# What import and export refuse: a command a line, and the words of its message, which name the place and the remedy. Then integers
# of every width at their edges, with and without a text for null.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
printf 'click,site,price,q\n1,a b,0.5,3\n0,c,,\n' | ctr-import --format csv --header --label click --query q -o log.arrows
printf '1 qid:3 1:2\n0 qid:4 2:1\n' | ctr-import --format libsvm -o svm.arrows
printf 'a\n1\n' >a.csv
printf 'label click\nfeature site\n' >log.plan
printf '{"a":1}\n' >a.jsonl
printf 'FEA1\000\000\000\000%0100d\000\000\000\000FEA1' 0 >one.feather

# What stdout leads to is written behind what is there, whatever its name.
echo old >words
for name in - /dev/stdout /dev/fd/1; do ctr-export -f csv --columns click -o $name log.arrows >>words; done
is "-o /dev/stdout appends where stdout does" "$(tr '\n' ' ' <words)" "old click 1 0 click 1 0 click 1 0 "
echo old >words
ctr-export -f csv --columns click -o /dev/stderr log.arrows 2>>words
is "and /dev/stderr" "$(tr '\n' ' ' <words)" "old click 1 0 "

n=0
while IFS='|' read -r status command words; do
    [ -n "$command" ] || continue
    n=$((n + 1))
    command=${command/@PIPE@/|}
    exits "$command" "$status" sh -c "$command"
    err_like "says why ($n)" "$words"
done <<'LIST'
2|ctr-export -f csv --null a,b log.arrows|--null: a text without quotes
2|ctr-export -f csv --null 'x"' log.arrows|--null: a text without quotes
2|ctr-export -f csv --delimiter '"' log.arrows|--delimiter: a text without quotes
2|ctr-export -f csv --delimiter '' log.arrows|--delimiter: a text without quotes
2|ctr-export -f libsvm --bits 63 svm.arrows|--bits: 1 to 62
2|ctr-export -f jsonl --bits 3 log.arrows|--format jsonl takes no --bits
2|ctr-export -f npy --gzip log.arrows|no option
2|ctr-export -f libsvm --bits 0 svm.arrows|--bits wants a whole number from 1 on
2|ctr-sort -k site --memory 0 log.arrows|--memory wants a size such as 256M or 2G, not '0'
2|ctr-cat --device-memory 0G log.arrows|--device-memory wants a size
2|ctr-cat --memory -1 log.arrows|--memory wants a size
2|ctr-cat --memory 1GB log.arrows|--memory wants a size
2|ctr-cat --memory '' log.arrows|--memory wants a size
2|ctr-cat --seed -1 log.arrows|--seed wants a whole number from 0 on
2|ctr-cat --batch 1e3 log.arrows|--batch wants a whole number from 0 on
2|ctr-cat --batch 0x10 log.arrows|--batch wants a whole number from 0 on
2|ctr-cat -j ' 2' log.arrows|--jobs wants a whole number from 0 on
2|ctr-cat --flush 5 log.arrows|--flush wants a duration
2|ctr-eval --bootstrap 0 log.arrows|--bootstrap wants a whole number from 1 on
2|ctr-synth --users 0 -o d|--users wants a whole number from 1 on
2|ctr-train lr --passes 0 log.arrows|--passes wants a whole number from 1 on
0|ctr-cat --seed 1 --version >&2|^ctr-cat [0-9]
2|ctr-cat -o '' log.arrows|^ctr-cat: the name of an output is empty
2|ctr-select --head 1 -o new.arrows --rest ./new.arrows log.arrows|^ctr-select: ./new.arrows is given for two outputs
2|mkdir -p d; ctr-select --head 1 -o d/new --rest d/../d/new log.arrows|is given for two outputs
2|ctr-select --head 1 -o /dev/stdout --rest - log.arrows|two outputs on one stdout
2|ctr-select --head 1 --rest /dev/fd/1 log.arrows|two outputs on one stdout
0|ctr-extract log.plan log.arrows @PIPE@ ctr-extract log.plan|^ctr-extract: column site holds the keys that another ctr-extract made, not what they were made of
2|ctr-export -f libffm --columns site log.arrows|no label column
2|ctr-select --columns 'click,a\ b=price' log.arrows @PIPE@ ctr-export -f tsv --delimiter ' ' --columns nothing|no column
1|ctr-export -f libsvm log.arrows|qid is null
1|ctr-export one.feather|^ctr-export: one.feather: is a Feather V1 file, not a stream: write it as Feather V2, which is an Arrow IPC file
1|ctr-cat <one.feather|^ctr-cat: stdin: is a Feather V1 file
2|ctr-import -f csv --columns a:int65 a.csv|'int65' is no type
2|ctr-import -f csv --columns 'a:' a.csv|is not NAME
2|ctr-import -f csv --columns 'X[1..1000000]' a.csv|are more than
2|ctr-import -f csv --columns 'X[1..3]=Y[1..4]' a.csv|is not NAME
2|ctr-import -f csv --columns 'a:int32' --time a:unix a.csv|a time format wants timestamp
2|ctr-import -f csv --header --like log.arrows --for log.plan a.csv|both choose the columns
2|ctr-import -f jsonl --columns a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h.i a.jsonl|more than [0-9]+ parts
2|ctr-import -f jsonl --columns a=x,b=x a.jsonl|two columns are read from
2|ctr-import -f csv --columns a,a a.csv|names 2
1|printf '"a",b\n' @PIPE@ ctr-import -f csv --columns a:int8,b:int8|line 1
LIST

printf '%s\n' -129 -128 127 128 -32769 -32768 32767 32768 -2147483649 -2147483648 2147483647 2147483648 255 256 65535 65536 4294967295 4294967296 \
    -9223372036854775808 9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616 -1 0 00000000000000000000007 +1 1.0 '' NA >ints
kept() { ctr-import "$@" --bad-rows skip=100 ints 2>/dev/null | ctr-export --no-header | tr '\n' ' '; }
fits() { # fits TYPE NULL: what is kept, as text; "" is a null
    python3 - "$@" <<'EOT'
import sys
bits = int(sys.argv[1].split("int")[1])
low, high = (0, 2**bits - 1) if sys.argv[1][0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
for v in open("ints").read().split("\n")[:-1]:
    if v == sys.argv[2]:
        print('""', end=" ")
    elif v.lstrip("+-").isdigit() and low <= int(v) <= high:
        print(int(v), end=" ")
EOT
}
for type in int8 int16 int32 int64 uint8 uint16 uint32 uint64; do
    is "$type at its edges" "$(kept --format csv --columns "x:$type")" "$(fits $type '')"
    is "$type at its edges, nulls are NA" "$(kept --format csv --columns "x:$type" --null NA)" "$(fits $type NA)"
done
done_testing
