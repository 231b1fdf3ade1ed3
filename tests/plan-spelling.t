#!/bin/sh
# ctr-extract -v counts the texts of keys that differ by Unicode normalisation alone. The judge is Python's unicodedata.
. "$CTR_TOP/tests/lib.sh"

rows() {
    ctr-import -q -f jsonl --label click - >"$W/in.arrows"
}
plan() { printf '%s\n' 'label click' "$@" >"$W/p.plan"; }
said() { ctr-extract -v "$W/p.plan" "$W/in.arrows" 2>&1 >"$W/out" | grep 'normalisation' | sed 's/^ctr-extract: //'; }

rows <<'END_ROWS'
{"city":"Caf\u00e9","tags":["A\u030a","x"],"n":1,"click":1}
{"city":"Cafe\u0301","tags":["\u00c5"],"n":2,"click":0}
{"city":"cafe","tags":[null],"n":3,"click":0}
{"city":"Cafe\u0301","tags":null,"n":4,"click":0}
{"city":"o\u0308\u0323","tags":["y"],"n":4,"click":0}
{"city":"o\u0323\u0308","tags":["y"],"n":4,"click":0}
{"city":"\u6771","tags":["y"],"n":4,"click":0}
{"city":null,"tags":["\u212b"],"n":4,"click":0}
END_ROWS
plan 'feature city'
case $(said) in *utf8proc*) echo '1..0 # SKIP no libutf8proc'; exit 0 ;; esac
is 'texts that are one by NFC' "$(said)" 'column city: 2 of its values are keys of their own, though they differ from others by Unicode normalisation alone, such as "Cafe\u0301" from "Caf\u00e9": nfc(city) makes them one'
is 'and they are two keys' "$(ctr-export -c city "$W/out" | tail -n +2 | head -n 2 | sort -u | wc -l)" 2
is 'of lists' "$(plan 'feature tags'; said)" 'column tags: 2 of its values are keys of their own, though they differ from others by Unicode normalisation alone, such as "A\u030a" from "\u00c5": nfc(tags) makes them one'
is 'of both' "$(plan 'feature tags' 'feature city'; said | grep -c normalisation)" 2
is 'through operators' "$(plan 'feature x = cross(lower(city), n)'; said | grep -c 'column city: 2 ')" 1
is 'nfc makes one key of them' "$(plan 'feature city = lower(nfc(city))'; said)" ''
is 'no key is made of their number' "$(plan 'feature city = length(city)'; said)" ''
is 'nor of a condition' "$(plan 'feature x = if(city == "a", n, 2)'; said)" ''
is 'nothing is said without -v' "$(plan 'feature city'; ctr-extract "$W/p.plan" "$W/in.arrows" 2>&1 >/dev/null)" ''
is 'the rows are the same with it' "$(ctr-extract -v "$W/p.plan" "$W/in.arrows" 2>/dev/null | cksum)" "$(ctr-extract "$W/p.plan" "$W/in.arrows" | cksum)"
ctr-cat --share city "$W/in.arrows" >"$W/dict.arrows" && mv "$W/dict.arrows" "$W/in.arrows"
is 'of a dictionary column' "$(plan 'feature city'; said | grep -c 'column city: 2 of its values')" 1
is 'with a vocabulary, when it is fitted' "$(plan 'feature city = vocab(city, min=1)'; ctr-extract -v --fit "$W/p.plan" -o "$W/f.arrows" "$W/in.arrows" 2>&1 | grep -c 'column city: 2 of its values')" 1
is 'of a view' "$(printf 'from log\nlabel click\nfeature city\n' >"$W/v.plan"; ctr-extract -v "$W/v.plan" log="$W/in.arrows" 2>&1 >/dev/null | grep -c 'column city: 2 of its values')" 1
for statements in 'sort n' 'where n > 0' 'add city = lower(city)' 'join (group city, seen = count()) on city'; do
    printf '%s\n' 'from log' "$statements" 'label click' 'feature city' >"$W/v.plan"
    is "of what '$statements' makes" "$(ctr-extract -v "$W/v.plan" log="$W/in.arrows" 2>&1 >/dev/null | grep -c 'column city: 2 of its values')" 1
done
is 'not of a key that statements alone compare' "$(printf '%s\n' 'from log' 'join (group city, seen = count()) on city' 'label click' 'feature seen' >"$W/v.plan"; ctr-extract -v "$W/v.plan" log="$W/in.arrows" 2>&1 >/dev/null | grep -c normalisation)" 0

# ---- many: more than are kept
if has_python unicodedata; then
    "$PY" - >"$W/many.jsonl" <<'END_PY'
import json, random, unicodedata
rng = random.Random(5)
for i in range(60000):
    t = "".join(chr(rng.choice((0xe9, 0xc5, 0x1e69, 0x6771, 0xac01))) for _ in range(3)) + str(rng.randrange(20000))
    print(json.dumps({"t": unicodedata.normalize("NFD", t) if rng.random() < .2 else t, "click": 0}))
END_PY
    want=$("$PY" - "$W/many.jsonl" <<'END_PY'
import json, sys, unicodedata
t = {json.loads(l)["t"] for l in open(sys.argv[1])}
print(len(t) - len({unicodedata.normalize("NFC", x) for x in t}))
END_PY
)
    ctr-import -q -f jsonl --label click "$W/many.jsonl" >"$W/in.arrows"
    plan 'feature t'
    got=$(said | sed -n 's/^column t: about \([0-9]*\) of its.*/\1/p')
    is "about as many as there are: $want, and $got by the sample" "$(awk -v a="$want" -v b="$got" 'BEGIN { print (b > .7 * a && b < 1.4 * a) }')" 1
    is 'in any order of the rows' "$(ctr-sort -k t -o "$W/s.arrows" "$W/in.arrows"; mv "$W/s.arrows" "$W/in.arrows"; said | sed -n 's/^column t: about \([0-9]*\) of its.*/\1/p')" "$got"
else
    skip 'estimates' 'no Python'
fi
done_testing
