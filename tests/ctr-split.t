#!/bin/sh
# ctr-split: shards by key and in turn, file names, all or nothing.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
awk 'BEGIN { print "row,user,name"; for (i = 0; i < 20000; i++) print i "," (i % 13 ? i * 7919 % 501 : "") ",u" i % 77 }' >log.csv
ctr-import --format csv --header --columns row:int64,user:int32,name:utf8 --null '' log.csv >log.arrows
ctr-import --format csv --header --columns row:int64,user:uint64,name:utf8 --null '' log.csv >wide.arrows
whole=$(ctr-info --digest log.arrows)

ctr-split -v --shards 4 --by user -o 'by-%02d.arrows' log.arrows 2>said
is "names" "$(ls by-*)" "$(printf 'by-00.arrows\nby-01.arrows\nby-02.arrows\nby-03.arrows')"
is "nothing lost, order kept within a shard" "$(ctr-cat by-*.arrows | ctr-sort -k row | ctr-info --digest)" "$whole"
is "-v counts a shard a line" "$(sed -n 's/^ctr-split: \(.*\): [0-9]* rows$/\1/p' said | tr '\n' ' ')" \
    "by-00.arrows by-01.arrows by-02.arrows by-03.arrows "
is "and the counts add up" "$(sed 's/.*: \([0-9]*\) rows/\1/' said | awk '{ n += $1 } END { print n }')" 20000
shard_of_users() { for f in "$@"; do ctr-export --format csv "$f" | awk -F, -v f="${f#*-}" 'NR > 1 { print $2, f }' | sort -u; done | sort; }
shard_of_users by-*.arrows >by.txt
is "a key, null too, is in one shard" "$(cut -d' ' -f1 by.txt | uniq -d)" ""
is "all keys are there" "$(wc -l <by.txt)" 502
ctr-split --shards 4 --by user -o 'wide-%02d.arrows' --batch 100 wide.arrows
shard_of_users wide-*.arrows >wide.txt
ok "the width of an integer and the batch size do not matter" cmp by.txt wide.txt
ctr-split --shards 3 -o 'turn-%d.arrows' <log.arrows
is "in turn" "$(ctr-export --format csv turn-1.arrows | sed -n 's/,.*//; /^[0-9]/p' | head -3 | tr '\n' ' ')" "1 4 7 "
ctr-split --shards 2 --by user,name -o '100%%-%3d.arrows' log.arrows
ok "several keys, a width, a per cent sign" test -s '100%-  1.arrows'
is "several keys lose nothing" "$(ctr-cat '100%-  0.arrows' '100%-  1.arrows' | ctr-sort -k row | ctr-info --digest)" "$whole"
ctr-split --shards 4 --by user -j 4 -o 'again-%02d.arrows' log.arrows
same() { for i in 00 01 02 03; do cmp "by-$i.arrows" "again-$i.arrows" || return 1; done; }
ok "the same bytes again" same
ctr-select --where false log.arrows >none.arrows
ctr-split --shards 2 --by user -o 'none-%d.arrows' none.arrows
is "no rows: empty streams" "$(ctr-cat none-0.arrows none-1.arrows | ctr-info --digest)" "$(ctr-info --digest none.arrows)"

exits "no pattern" 2 ctr-split --shards 2 log.arrows
err_like "said" "name the shards: -o"
for p in 'x.arrows' 'x-%d-%d' 'x-%s' 'x-%n' 'x-%ld' 'x-%d-%s' 'x-%999999999d' 'x-%' 'x-%*d' 'x-%-3d'; do
    exits "the pattern $p" 2 ctr-split --shards 2 -o "$p" log.arrows
    err_like "is refused" "must hold exactly one %d"
done
exits "no shards" 2 ctr-split --shards 0 -o 'x-%d' log.arrows
exits "too many shards" 2 ctr-split --shards 100000 -o 'x-%d' log.arrows
exits "a key twice" 2 ctr-split --shards 2 --by user,user -o 'x-%d' log.arrows
err_like "is named" '^ctr-split: user is named twice$'
exits "an unknown key" 2 ctr-split --shards 2 --by usr -o 'x-%d' log.arrows
err_like "and the nearest" "usr.*nearest.*user"
cp log.arrows self-1
exits "an input among the outputs" 2 ctr-split --shards 2 -o 'self-%d' self-1
err_like "is refused" "self-1 is both input and output"
ok "and is whole" cmp self-1 log.arrows
head -c $(($(wc -c <log.arrows) / 2)) log.arrows >cut.arrows
exits "a truncated input" 1 ctr-split --shards 2 -o 'cut-%d' cut.arrows
is "leaves no shard and no temporary" "$(ls | grep '^\.*cut-')" ""
few_files() { (ulimit -n 20 && exec ctr-split --shards 40 -o 'few-%d' log.arrows); }
exits "more shards than files may be open" 1 few_files
err_like "says what to do" '^ctr-split: 40 shards need as many open files, and there can be [0-9]+ here: raise the limit \(ulimit -n 56\)'
is "and leaves none" "$(ls | grep few-)" ""
# Killed between renames: shard 0 is missing, although it was there before.
for i in 1 2 3 4 5 6; do # each is linked, then renamed
    ctr-split --shards 3 -o 'set-%d' none.arrows
    exits "killed at rename $i" 137 env ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" LD_PRELOAD="$CTR_BUILD/fault/inject.so" CTR_INJECT=rename:$i:kill \
        ctr-split --shards 3 -o 'set-%d' log.arrows
    ok "and the set is not there" test ! -e set-0
done
exits "a second run" 0 ctr-split --shards 2 -o 'set-%d' log.arrows
err_like "names the shard that is left of the first" '^ctr-split: set-2 is there, too, of a run with more shards$'
is "and has all rows" "$(ctr-cat set-0 set-1 | ctr-sort -k row | ctr-info --digest)" "$whole"
exits "a folder that is not there" 1 ctr-split --shards 2 -o 'no/where-%d' log.arrows
done_testing
