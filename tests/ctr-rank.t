#!/bin/sh
# ctr-rank: order, ties, floors, prices, slots, exploration; against plain Python for any memory, batch size and thread count.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

cat >ads.csv <<'CSV'
request,ad,score,bid,u
7,b,0.05,0.5,0.1
2,c,0.02,4,0.25
7,a,0.02,1,0.5
2,a,0.03,1,0
7,c,0.01,4,1
CSV
ctr-import -q -f csv --header --query request --id ad --score score ads.csv >ads.arrows
rank() { ctr-rank -q "$@" | ctr-export -q -f csv --no-header | tr '\n' ' '; }
is 'by score, requests sorted' "$(rank ads.arrows)" '2,a,0.03,1,0,1 2,c,0.02,4,0.25,2 7,b,0.05,0.5,0.1,1 7,a,0.02,1,0.5,2 7,c,0.01,4,1,3 '
is 'by bid x score' "$(rank --bid bid ads.arrows | cut -d' ' -f1,3)" '2,c,0.02,4,0.25,1,0.08 7,c,0.01,4,1,1,0.04'
is 'the second price keeps the place' "$(ctr-rank --bid bid --price second ads.arrows | ctr-export -f csv --columns ad,price | tail -n +2 | tr '\n' ' ')" \
    'c,1.5 a,0 c,2.5 b,0.39999999999999997 a,0 '
is 'and is at least the floor' "$(ctr-rank -q --bid bid --price second --floor '1.5 * score' ads.arrows | ctr-export -f csv --columns ad,price | tail -n +2 | tr '\n' ' ')" \
    'c,1.5 c,1.5 '
ctr-rank --bid bid --floor 0.05 ads.arrows 2>said >/dev/null
ok 'what is below the floor is told' grep -q '4 of 5 candidates are below the floor; 1 of 2 requests have no other' said
printf 'q,ad,s\n1,b,.5\n,a,.5\n,c,.6\n' | ctr-import -q -f csv --header --columns q:int64,ad,s --query q --id ad --score s --null '' | ctr-rank 2>said | ctr-export -f csv --columns ad,rank --no-header >nameless.csv
is 'rows without a request are one' "$(tr '\n' ' ' <nameless.csv)" 'b,1 c,1 a,2 '
ok 'which is told' grep -q '2 of 3 candidates name no request (q is null), and are ranked as one request; ctr-select --where leaves them out' said
is 'the first price is the bid' "$(ctr-rank --bid bid --price first --top 1 ads.arrows | ctr-export -f csv --columns ad,price --no-header | tr '\n' ' ')" 'c,4 c,4 '
is 'another order' "$(ctr-rank --order 'bid' --top 1 ads.arrows | ctr-export -f csv --columns ad,rank --no-header | tr '\n' ' ')" 'c,1 c,1 '
is 'slots keep as many' "$(ctr-rank --slots 1,0.5 ads.arrows | ctr-export -f csv --columns ad,slot_factor --no-header | tr '\n' ' ')" 'a,1 c,0.5 b,1 a,0.5 '
is '--top more: rows without a slot' "$(ctr-rank --bid bid --price second --slots 2 --top 3 ads.arrows | ctr-export -f csv --columns ad,slot_factor,price --no-header | tail -3 | tr '\n' ' ')" \
    'c,1,2.5 b,1,0.39999999999999997 a,0, '
is 'ties by id' "$(printf 'q,ad,s\n1,b,.5\n1,a,.5\n1,,.5\n' | ctr-import -q -f csv --header --query q --id ad --score s --null '' | ctr-rank | ctr-export -f csv --columns ad --no-header | tr '\n' ' ')" 'a b "" '
is 'without id in input order' "$(printf 'q,ad,s\n1,b,.5\n1,a,.5\n' | ctr-import -q -f csv --header --query q --score s | ctr-rank | ctr-export -f csv --columns ad --no-header | tr '\n' ' ')" 'b a '
is 'several columns name a request' "$(rank --by request,bid ads.arrows | tr -s ' ' '\n' | cut -d, -f6 | sort | uniq -c | tr -s ' ')" "$(printf ' 5 1')"
ctr-rank ads.arrows | ctr-rank - >twice.arrows
is 'a rank from before goes on' "$(ctr-info twice.arrows | awk '/^rank/ { printf "%s ", $1 }')" 'rank_before rank '
exits 'once' 2 ctr-rank twice.arrows
err_like 'and what to do then' 'column rank is there, and so is rank_before: leave one out'
ctr-select --where false ads.arrows >none.arrows
is 'no rows' "$(ctr-rank --bid bid --explore epsilon=0.5 none.arrows | ctr-export -f csv)" 'request,ad,score,bid,u,rank,ecpm,propensity'
is 'columns keep their roles' "$(ctr-rank ads.arrows | ctr-info | awk '$1 == "request" || $1 == "ad" || $1 == "rank" { printf "%s %s %s, ", $1, $2, $3 }')" \
    'request int64 query, ad utf8 id, rank int32 -, '

printf '{"a,b":1,"s":0.5,"y":0}\n{"a,b":1,"s":0.6,"y":1}\n' | ctr-import -q -f jsonl --query a,b --score s --label y -o comma.arrows
is 'a request whose name has a comma' "$(ctr-rank comma.arrows | ctr-export -f csv --columns s --no-header | tr '\n' ' ')" '0.6 0.5 '
ok 'and by ctr-eval --at' ctr-eval --at 1 comma.arrows
exits 'no request' 2 sh -c "ctr-import -q -f csv --header --score score ads.csv | ctr-rank"
err_like 'names the option' 'no column has the role query: name the columns of a request with --by'
exits 'no score' 2 sh -c "ctr-import -q -f csv --header --query request ads.csv | ctr-rank"
err_like 'names it, too' 'name one with --score NAME, or say --order EXPR'
exits 'a price without bids' 2 ctr-rank --price second ads.arrows
exits 'a second price in another order' 2 ctr-rank --bid bid --price second --order bid ads.arrows
err_like 'says why' 'leave one out'
exits 'thompson of all rows' 2 ctr-rank --explore thompson --uncertainty u ads.arrows
err_like 'says what to add' 'say how many with --top or --slots'
exits 'no uncertainty' 2 ctr-rank --explore ucb=1 ads.arrows
err_like 'says where it comes from' 'ctr-predict --uncertainty'
exits 'an unknown exploration' 2 ctr-rank --explore greedy ads.arrows
err_like 'names those there are' 'ucb=C .*thompson.*epsilon=E'
exits 'a negative amount' 2 ctr-rank --explore ucb=-1 --uncertainty u ads.arrows
exits 'a share above 1' 2 ctr-rank --explore epsilon=1.5 ads.arrows
exits 'no slots' 2 ctr-rank --slots 0 ads.arrows
exits 'rising factors' 2 ctr-rank --slots 0.5,1 ads.arrows
err_like 'says what they must be' 'none above the one before it: 1'
exits 'a text is no bid' 2 ctr-rank --bid ad ads.arrows
err_like 'with its type' '--bid ad: the column is utf8, and must be a number'
exits 'a text is no order' 2 ctr-rank --order ad ads.arrows
exits 'a null score' 1 sh -c "printf 'q,ad,s\n1,b,\n' | ctr-import -q -f csv --header --columns q:int64,ad:utf8,s:float64 --null '' --query q --id ad --score s | ctr-rank"
err_like 'names request, candidate and column' 'stdin: row of q 1, ad b: the score \(column s\) is null, and must be in \[0, 1\]; ctr-select --where'
exits 'a null order' 1 ctr-rank --order 'if(bid > 1, bid, null)' ads.arrows
err_like 'is an error' 'row of request 2, ad a: --order is null'
exits 'a negative bid' 1 sh -c "ctr-select --add 'bid=bid - 1' ads.arrows | ctr-rank --bid bid"
err_like 'with its value' 'the bid \(column bid\) is -0.5, and must be finite and not negative'
exits 'not sorted' 1 ctr-rank --sorted ads.arrows
err_like 'says what to do' 'ads.arrows: row 2 of request 2, ad c comes after a request that sorts behind it: leave --sorted out'
head -c $(($(wc -c <ads.arrows) - 30)) ads.arrows >cut.arrows
exits 'a truncated input' 1 ctr-rank -o out.arrows cut.arrows
ok 'leaves no output' test ! -e out.arrows
cp ads.arrows same.arrows
exits 'input and output are the same file' 2 ctr-rank -o same.arrows same.arrows

# A draw depends on seed, request and id, not on the rows around it.
ctr-rank --explore thompson --uncertainty u --top 9 --seed 5 ads.arrows | ctr-export -f csv --no-header | sort >all.csv
for q in 2 7; do
    ctr-select --where "request == $q" ads.arrows | ctr-sort -k ad:desc | ctr-rank --explore thompson --uncertainty u --top 9 --seed 5 | ctr-export -f csv --no-header
done | sort >each.csv
ok 'one request alone, in another order, has the same draws' cmp all.csv each.csv
ctr-rank --explore thompson --uncertainty u --top 9 --seed 6 ads.arrows | ctr-export -f csv --no-header | sort >other.csv
ok 'another seed has others' sh -c '! cmp -s all.csv other.csv'
two() { printf 'q,ad,s,u\n1,a,%s,%s\n1,b,%s,%s\n' "$@" | ctr-import -q -f csv --header --query q --id ad --score s | ctr-rank --explore thompson --uncertainty u --top 2 --seed 1 |
    ctr-export -f csv --columns ad,propensity --no-header | sort | tr '\n' ' '; }
# logit .6 - logit .4 = .8109302; Phi(.8109302 / sqrt(2)) = .7168
is 'two candidates: the chance has a closed form' "$(two .6 1 .4 1 | sed 's/\(0\.....\)[0-9]*/\1/g')" 'a,0.7168 b,0.7168 '
is 'without uncertainty it is 1' "$(two .6 0 .4 0)" 'a,1 b,1 '
# Candidates of one id, or of none, have draws of their own: of 400 pairs shown at random the worse one comes first in about half.
alike() { awk -v ad="$1" 'BEGIN { print "q,ad,s,u"; for (i = 0; i < 400; i++) print i "," ad ",.5,1\n" i "," ad ",.4,1" }' |
    ctr-import -q -f csv --header --columns q:int64,ad:utf8,s:float64,u:float64 --query q --id ad --score s |
    ctr-rank -q --explore "$2" --uncertainty u --top 1 | ctr-select --where 's < 0.45' | ctr-export -f csv --no-header | wc -l; }
ok 'candidates without an id change places' test "$(alike '' epsilon=1)" -gt 150
ok 'so do those of one id' test "$(alike a epsilon=1)" -gt 150
# Phi(-.4055 / sqrt(2)) = .387
ok 'and by Thompson sampling' test "$(alike a thompson)" -gt 120

if ! has_python pyarrow numpy; then
    skip 'against the reference' 'no pyarrow or numpy'
    done_testing
    exit 0
fi
REF="$CTR_TOP/tests/rank_reference.py"
ref data . || exit 1
ctr-sort -k q log.arrows >sorted.arrows
checks() { # checks OPTION… : the reference agrees, and other ways give the same bytes
    ctr-rank -q "$@" log.arrows >got.arrows || return 1
    ref check log.arrows got.arrows "$@" || return 1
    for _o in '--memory 1' '--memory 64K -j 4' '-j 2'; do
        ctr-rank -q $_o "$@" log.arrows | cat >other.arrows
        cmp other.arrows got.arrows || { echo "$_o differs"; return 1; }
    done
    ctr-cat --batch 7 sorted.arrows | ctr-rank -q --sorted --batch 100 "$@" >other.arrows
    [ "$(ctr-info --digest other.arrows)" = "$(ctr-info --digest got.arrows)" ] || return 1
    ctr-rank -q --sorted "$@" encoded.arrows >other.arrows
    [ "$(ctr-info --digest other.arrows)" = "$(ctr-info --digest got.arrows)" ]
}
ok 'reference: scores' checks
ok 'reference: top' checks --top 3
ok 'reference: ecpm, prices, slots' checks --bid bid --price second --slots 1,0.7,0.5,0.1 --top 6
ok 'reference: floor' checks --bid bid --price second --floor least
ok 'reference: first price' checks --bid bid --price first --floor least --top 2
ok 'reference: integers beyond 2^53' checks --order big --floor least --top 9
ok 'reference: ucb' checks --bid bid --explore ucb=0.7 --price second --top 5
ok 'reference: epsilon' checks --bid bid --price second --explore epsilon=0.3
ok 'reference: thompson' checks --explore thompson --top 1000
ok 'reference: thompson with bids and floors' checks --bid bid --floor least --explore thompson --top 5
"$PY" - <<'PY' || exit 1
import pyarrow as pa
t = pa.ipc.open_stream("got.arrows").read_all()
p = t["propensity"].to_pylist()
p[3] = p[3] / 2 if p[3] > .3 else p[3] + .5
t = t.set_column(t.column_names.index("propensity"), "propensity", pa.array(p))
with pa.OSFile("bad.arrows", "wb") as f, pa.ipc.new_stream(f, t.schema) as w:
    w.write_table(t)
PY
ok 'the reference finds a wrong propensity' sh -c "! '$PY' '$CTR_TOP/tests/rank_reference.py' check log.arrows bad.arrows --bid bid --floor least --explore thompson --top 5 >/dev/null 2>&1"

# A planted world, closed: requests are ranked with exploration, clicks follow the truth, and from that log alone ctr-eval tells what
# the order without exploration would have earned. Its truth lies in the interval, far from what the log earned.
cat >world.py <<'PY'
import sys
import numpy as np, pyarrow as pa
def write(name, t):
    with pa.OSFile(name, "wb") as f, pa.ipc.new_stream(f, t.schema) as w:
        w.write_table(t)
rng = np.random.default_rng(len(sys.argv[1]))
if sys.argv[1] == "requests":
    n, k = 6000, 5
    odds = -1 + .4 * rng.standard_normal((n, k)) - .5 * np.arange(k)
    u = np.full((n, k), .8)
    true = 1 / (1 + np.exp(-(odds + .5 * rng.standard_normal((n, k)))))
    write("requests.arrows", pa.table({"q": np.repeat(np.arange(n), k), "ad": np.tile(np.arange(k), n), "p": 1 / (1 + np.exp(-odds.ravel())),
                                       "u": u.ravel(), "true": true.ravel()}))
else:
    t = pa.ipc.open_stream(sys.argv[1]).read_all()
    write("log.arrows", t.append_column("click", pa.array((rng.random(len(t)) < t["true"].to_numpy()).astype(np.int8))))
PY
"$PY" world.py requests || exit 1
mean() { ctr-select -q --add 'k=1' "$1" | ctr-group -k k --add "m=mean($2)" | ctr-export -f csv --no-header | cut -d, -f2; }
world() { # world EXPLORE
    _rank="ctr-rank -q --by q --id ad --score p --top 1 requests.arrows"
    $_rank -o greedy.arrows && $_rank --explore "$1" --uncertainty u --seed 2 -o explored.arrows && "$PY" world.py explored.arrows || return 1
    ctr-select -q -c q,ad,best=rank greedy.arrows -o best.arrows && ctr-join -q -k q,ad best.arrows log.arrows -o joined.arrows || return 1
    ctr-eval --label click --propensity propensity --target 'fill(best, 0)' joined.arrows >w.txt || return 1
    awk -v t="$(mean greedy.arrows true)" '{ print } NR > 1 { low[$1] = $3; high[$1] = $4 }
        END { print "truth", t; exit !(low["ips"] < t && t < high["ips"] && low["snips"] < t && t < high["snips"] && high["logged"] < t) }' w.txt
}
for e in epsilon=0.5 thompson; do ok "a planted world: the value of another order from a log of $e" world $e; done

# Sorted input takes constant memory, and a request comes out when the next one begins.
if [ -z "$SAN" ]; then
    "$PY" - <<'PY' || exit 1
import pyarrow as pa
f = pa.OSFile("big.arrows", "wb")
s = pa.schema([("q", pa.int64()), ("s", pa.float64()), ("pad", pa.string())])
w = pa.ipc.new_stream(f, s)
for i in range(400):
    w.write_batch(pa.record_batch([pa.array([(i * 4000 + k) // 20 for k in range(4000)]), pa.array([.5] * 4000), pa.array(["x" * 60] * 4000)], schema=s))
w.close()
PY
    below() { _kb=$1; shift; /usr/bin/time -f %M -o rss "$@" >/dev/null || return 1; [ "$(tail -1 rss)" -lt "$_kb" ] || { cat rss; return 1; }; }
    ok 'sorted input in constant memory' below 25000 sh -c "ctr-rank --sorted --by q --score s --top 1 < big.arrows"
    is 'all requests' "$(ctr-rank --sorted --by q --score s --top 1 big.arrows | ctr-export -f csv --no-header | wc -l)" 80000
fi
live() { { ctr-cat --batch 100 sorted.arrows | head -c 60000; sleep 3; } | timeout 60 ctr-rank --sorted -q --flush 50ms 2>/dev/null | head -c 3000 | wc -c; }
is 'a live pipe moves' "$(live)" 3000
done_testing
