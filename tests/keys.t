#!/bin/sh
# How a key is made, as ctr-stream(5) tells it: its table of test vectors, and its lines of Python.
. "${0%/*}/lib.sh"
P="$CTR_TOP/man/ctr-stream.5"
sed -n '/^table  value/,/^\.Ed/{/^table/d;/^\.Ed/d;s/\\(.e/\xc3\xa9/;p;}' "$P" >"$W/vectors"
is "the manual has five" "$(wc -l <"$W/vectors")" 5
printf 'a,b,c,t\n7,.1,caf\303\251,2019-11-14T07:08:09Z\n,,,\n' | ctr-import -f csv --header --time t -o "$W/rows.arrows"
printf 'feature a\nfeature b\nfeature c\nfeature time in t = t\nfeature again in a = concat("", b)\nkeep bits = hash_bits(c, 10)\nkeep hash = hash(c)\nfeature list in c = split(c, "?")\n' >"$W/p.plan"
ctr-extract -q "$W/p.plan" "$W/rows.arrows" | ctr-export -f jsonl >"$W/keys"
key() { sed -n "$2p" "$W/keys" | sed "s/.*\"$1\":\\([0-9]*\\).*/\\1/"; } # COLUMN ROW
vector() { awk -v n="$1" 'NR == n { print $3 }' "$W/vectors"; }
is "an integer" "$(key a 1)" "$(vector 1)"
is "a float" "$(key b 1)" "$(vector 2)"
is "a text" "$(key c 1)" "$(vector 3)"
is "a time" "$(key time 1)" "$(vector 4)"
is "null" "$(key a 2)" "$(vector 5)"
has_python xxhash || { skip "Python" "no xxhash for $PY"; done_testing; exit; }
sed -n '/^from xxhash/,/^\.Ed/{/^\.Ed/d;p;}' "$P" >"$W/manual.py"
is "the lines of Python are few" "$(($(wc -l <"$W/manual.py") < 18))" 1
cat >"$W/run.py" <<'EOT'
from manual import key, hash_bits, text
import json
print([key("a", 7), key("b", .1), key("c", "caf\u00e9"), key("t", "2019-11-14T07:08:09Z"), key("a", None)])
print([hash_bits("caf\u00e9", 10), hash_bits("caf\u00e9", 64)])
assert key("x", 7) == key("x", 7.0) == key("x", "7") != key("y", 7)
for x in (1e15, 1e16, 123456789.25, 1e-5, 5e-324, 1.7976931348623157e308, -0.5, 1e22, 123456789012345680.0, 0.1 + 0.2, -3.0, 1e100): print(repr(x), text(x))
EOT
"$PY" "$W/run.py" >"$W/out"
is "they give the vectors" "$(sed -n 1p "$W/out" | tr -d '[],')" "$(awk '{ printf "%s%s", s, $3; s = " " }' "$W/vectors")"
is "and the highest bits" "$(sed -n 2p "$W/out" | tr -d '[],')" "$(key bits 1) $(key hash 1)"
awk 'NR > 2 { print $1 }' "$W/out" >"$W/floats"
is "texts of floats are those of ctr-export" "$(ctr-import -f csv -c x:float64 "$W/floats" | ctr-export --no-header)" "$(awk 'NR > 2 { print $2 }' "$W/out")"
done_testing
