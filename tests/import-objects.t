#!/bin/sh
# Arrays of objects in jsonl: aligned lists, one for each member; exploded together, by ctr-select and in plans.
. "${0%/*}/lib.sh"
lines() { ctr-import -f jsonl "$@" | ctr-export -f jsonl; }
bad() { # NAME WORDS LINES [OPTION…]: it exits 1 and says WORDS
    _n=$1 _w=$2 _l=$3
    shift 3
    printf "$_l" >"$W/bad.jsonl"
    exits "$_n" 1 ctr-import -f jsonl -o "$W/bad.arrows" "$@" "$W/bad.jsonl"
    err_like "$_n: says so" "$_w"
}

printf '{"user":1,"items":[{"ad":5,"t":10},{"ad":6,"t":12}]}\n{"user":2,"items":[]}\n{"user":3}\n{"user":4,"items":null}
{"user":5,"items":[null,{"ad":7,"extra":"x"},{}]}\n' >"$W/log.jsonl"
ctr-import -o "$W/log.arrows" "$W/log.jsonl"
is "a list for each member, aligned" "$(ctr-export -f jsonl "$W/log.arrows")" '{"user":1,"items":{"ad":[5,6],"t":[10,12],"extra":[null,null]}}
{"user":2,"items":{"ad":[],"t":[],"extra":[]}}
{"user":3,"items":{"ad":null,"t":null,"extra":null}}
{"user":4,"items":{"ad":null,"t":null,"extra":null}}
{"user":5,"items":{"ad":[null,7,null],"t":[null,null,null],"extra":[null,"x",null]}}'
is "their types" "$(ctr-info "$W/log.arrows" | awk '/^items/ { print $1, $2 }' | tr '\n' ' ')" 'items.ad list<int64> items.t list<int64> items.extra list<utf8> '
is "exploded together" "$(ctr-select --explode 'items.*' --columns user,ad=items.ad,t=items.t "$W/log.arrows" 2>/dev/null | ctr-export | tr '\n' ' ')" \
    'user,ad,t 1,5,10 1,6,12 5,, 5,7, 5,, '
printf 'from log = jsonl("log.jsonl")\nexplode items.ad, items.t\nkeep user, ad = items.ad, t = items.t\n' >"$W/p.plan"
is "in a plan" "$(cd "$W" && ctr-extract -q p.plan | ctr-export | tr '\n' ' ')" 'user,ad,t 1,5,10 1,6,12 5,, 5,7, 5,, '
is "an empty array first" "$(printf '{"a":[],"b":1}\n{"a":[{"x":5}]}\n{"a":null}\n' | lines)" '{"b":1,"a":{"x":[]}}
{"b":null,"a":{"x":[5]}}
{"b":null,"a":{"x":null}}'
exits "members without a name" 0 sh -c "printf '{\"a\":null}\n{\"a\":[{\"\":1}]}\n{\"a\":{\"\":1}}\n' | ctr-import -q -f jsonl -o '$W/none.arrows'"
is "are left out" "$(ctr-export -f jsonl "$W/none.arrows" | head -n 1)" '{"a":null}'
is "only empty ones" "$(printf '{"a":[]}\n{"a":[{}]}\n' | lines)" '{"a":"[]"}
{"a":"[{}]"}'
is "an object in another line: one text" "$(printf '{"a":[{"x":5}]}\n{"a":{"x":6}}\n' | lines)" '{"a":"[{\"x\":5}]"}
{"a":"{\"x\":6}"}'
is "a value in another line: one text" "$(printf '{"a":[{"x":5}]}\n{"a":7}\n{"a":[1,2]}\n' | lines)" '{"a":"[{\"x\":5}]"}
{"a":"7"}
{"a":"[1,2]"}'
is "two arrays in one line" "$(printf '{"a":[{"x":5},{"x":6}],"b":{"c":[{"y":true}]},"d":[{"x":"t"}]}\n{"d":[{}],"a":[]}\n' | lines)" \
    '{"a":{"x":[5,6]},"b":{"c":{"y":[true]}},"d":{"x":["t"]}}
{"a":{"x":[]},"b":{"c":{"y":null}},"d":{"x":[null]}}'
is "objects and values in one array: one text" "$(printf '{"a":[{"x":5},6]}\n' | lines)" '{"a":"[{\"x\":5},6]"}'
is "objects below, and lists, which are texts" "$(printf '{"a":[{"p":{"q":1.5},"l":[1,2],"s":[{"r":1}]},{"p":{"q":2}},{"p":null}]}\n' | lines)" \
    '{"a":{"p":{"q":[1.5,2,null]},"l":["[1,2]",null,null],"s":["[{\"r\":1}]",null,null]}}'
is "an object, null in other lines" "$(printf '{"u":null}\n{"u":{"id":1}}\n{}\n' | lines | tr '\n' ' ')" '{"u":{"id":null}} {"u":{"id":1}} {"u":{"id":null}} '
is "an array below an object" "$(printf '{"s":{"a":[{"x":1},{"x":2}],"n":3}}\n' | lines)" '{"s":{"a":{"x":[1,2]},"n":3}}'
is "with --columns" "$(printf '{"a":[{"x":5,"y":1},{"x":6,"y":2}]}\n' | lines -c 'b=a.x:list<int32>,c=a.1.y:int8,a.y')" '{"b":[5,6],"c":2,"a":{"y":[1,2]}}'
is "fixed size" "$(printf '{"a":[{"x":5},{"x":6}]}\n' | lines -c 'a.x:fixed_size_list<float32>[2]')" '{"a":{"x":[5,6]}}'
is "a key with an escape, and repeated members" "$(printf '{"a":[{"\\u0078":5,"x":7}],"a":[{"x":8},{"x":9}]}\n' | lines)" '{"a":{"x":[8,9]}}'
bad "a fixed size that differs" 'fixed_size_list' '{"a":[{"x":5}]}\n' -c 'a.x:fixed_size_list<float32>[2]'
bad "a column that is no list" "column a.x: the line has an array of objects there, which gives a list; --columns 'a.x:list<int32>' settles it" '{"a":[{"x":5}]}\n' -c a.x:int32
bad "a member that does not fit" "line 2: column a.x: .* has a member that does not fit list<int64>; --columns 'a.x:list<utf8>' or --bad-rows" '{"a":[{"x":5}]}\n{"a":[{"x":"b"}]}\n' -c 'a.x:list<int64>'
bad "an element that is no object" "column a.x: '.3.' has an element that is no object" '{"a":[3]}\n' -c 'a.x:list<int64>'
bad "no JSON within" 'line 1: column a.x: no JSON: no colon behind a key' '{"a":[{"x":5},{"x"}]}\n' -c 'a.x:list<int64>'
printf '{"a":[{"x":1}]}\n{"a":[{"x":1},{"x":"no"}]}\n{"a":[{"x":2}]}\n' >"$W/q.jsonl"
is "a bad row leaves nothing behind" "$(lines -c 'a.x:list<int8>' --bad-rows "quarantine=$W/q" "$W/q.jsonl" 2>/dev/null; cat "$W/q")" '{"a":{"x":[1]}}
{"a":{"x":[2]}}
{"a":[{"x":1},{"x":"no"}]}'
awk 'BEGIN { for (i = 0; i < 1000; i++) print "{\"a\":[{\"x\":1}]}"; print "{\"a\":[{\"x\":1,\"late\":2},{\"late\":3}]}" }' >"$W/late.jsonl"
exits "members that come late" 0 ctr-import -j 2 -o "$W/l.arrows" "$W/late.jsonl"
err_like "are counted" "2 values left out, .* .the first: 'late' in line 1001 of"
if has_python json; then
    cat >"$W/lists.py" <<'EOT'
import json, random, subprocess, sys
rng = random.Random(int(sys.argv[1]))
def element():
    if rng.random() < .1: return None
    e = {}
    if rng.random() < .8: e["ad"] = rng.choice([None, rng.randrange(10**6), -3])
    if rng.random() < .5: e["s"] = rng.choice(["", "é", 'q"\\', None, "a" * 40])
    if rng.random() < .5: e["p"] = rng.choice([None, {}, {"q": rng.random()}, {"q": None, "z": 1}])
    if rng.random() < .3: e["other"] = rng.choice([[1, {"ad": 5}], {"ad": 1}, "x"])
    keys = list(e); rng.shuffle(keys)
    return {k: e[k] for k in keys}
lines, want = [], []
for i in range(5000):
    line = {"u": i}
    how = rng.random()
    if how < .8: line["items"] = [element() for _ in range(rng.choice([0, 1, 2, 9]))]
    elif how < .9: line["items"] = None
    items = line.get("items")
    def get(e, *path):
        for k in path:
            e = e.get(k) if isinstance(e, dict) else None
        return e
    lists = [None if items is None else [get(e, *path) for e in items] for path in (("ad",), ("s",), ("p", "q"))]
    want.append([i] + lists)
    text = json.dumps(line, ensure_ascii=rng.random() < .5, separators=rng.choice([(",", ":"), (", ", ": ")]))
    lines.append(text)
p = subprocess.run(["ctr-import", "-f", "jsonl", "-j", sys.argv[2], "-c", "u:int64,ad=items.ad:list<int64>,s=items.s:list<utf8>,q=items.p.q:list<float64>"],
                   input="\n".join(lines).encode(), capture_output=True)
q = subprocess.run(["ctr-export", "-f", "jsonl"], input=p.stdout, capture_output=True)
got = [list(json.loads(l).values()) for l in q.stdout.decode().splitlines()]
print("same" if got == want else (p.stderr, [(g, w) for g, w in zip(got, want) if g != w][:2]))
p = subprocess.run(["ctr-select", "--explode", "ad,s,q"], input=p.stdout, capture_output=True)
q = subprocess.run(["ctr-export", "-f", "jsonl"], input=p.stdout, capture_output=True)
got = [list(json.loads(l).values()) for l in q.stdout.decode().splitlines()]
print("same" if got == [[w[0], *x] for w in want if w[1] for x in zip(*w[1:])] else p.stderr)
EOT
    for seed in 1 2; do is "random lines, and exploded, seed $seed" "$("$PY" "$W/lists.py" $seed $seed | uniq)" same; done
else
    skip "random lines" "no python3"
fi
done_testing
