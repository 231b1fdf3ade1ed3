#!/bin/sh
# ctr-train lr --inclusion: the rules are those of a plain reference, whatever batches, threads and resumption.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
REF="$CTR_TOP/tests/model_reference.py"
cd "$W" || exit 1

train() { ctr-train lr -q "$@"; }
# keys MODEL : the keys that it holds but for the bias, sorted
keys() { ctr-export -f csv --columns table,key "$1" | sed 1d | grep -v '(bias)' | sort; }

# 6,000 rows of three features: `a` has common values, `b` rare ones, `c` values that come twice at most.
awk 'BEGIN { srand(5); print "a,b,c,w,click"
  for (i = 0; i < 6000; i++) { a = int(exp(rand() * 5)); b = int(exp(rand() * rand() * 8)); c = int(rand() * 6000)
    print a "," b "," c "," (i % 3 ? 1 : 0.25) "," (rand() < (a % 5 + 1) / 10) } }' >log.csv
printf 'label click\nkeep w\nfeature a\nfeature b\nfeature c\n' >log.plan
ctr-import -q --format csv --header log.csv | ctr-extract -q log.plan >log.arrows
ctr-export -f csv --columns a,b,c log.arrows | sed 1d >rows.csv

# ---- bloom
for n in 1 2 5; do
    train --inclusion bloom=$n --inclusion-memory 64M -o b$n.arrows log.arrows
    awk -F, -v n=$n '{ for (i = 1; i <= 3; i++) c[substr("abc", i, 1) "," $i]++ }
        END { for (k in c) if (c[k] > n) print k }' rows.csv | sort >want
    ok "bloom=$n: keys that came more than $n times" sh -c "test -s want && cmp want -" <<LIST
$(keys b$n.arrows)
LIST
done
train -o all.arrows log.arrows
ok 'all is the default' sh -c 'ctr-train lr -q --inclusion all -o all2.arrows log.arrows &&
    test "$(ctr-info --digest all.arrows)" = "$(ctr-info --digest all2.arrows)"'
# A row whose key is refused is learned as the row without it: with the first occurrence of every key left out by hand.
awk -F, 'NR > 1 { printf "{\"a\":["; if ("a" $1 in s) printf "%s", $1; printf "],\"b\":["; if ("b" $2 in s) printf "%s", $2
        printf "],\"c\":["; if ("c" $3 in s) printf "%s", $3; print "],\"w\":" $4 ",\"click\":" $5 "}"
        s["a" $1]; s["b" $2]; s["c" $3] }' log.csv |
    ctr-import -q --format jsonl --columns 'a:list<int64>,b:list<int64>,c:list<int64>,w:float64,click:int8' |
    ctr-extract -q log.plan >without.arrows
train --inclusion bloom=1 --inclusion-memory 64M --progressive bp.arrows -o b.arrows log.arrows
train --progressive wp.arrows -o w.arrows without.arrows
is 'a row is learned as without the keys that were refused' "$(
    for s in wp bp; do ctr-export -f csv --columns score $s.arrows | sed 1d >$s.csv; done
    paste -d, wp.csv bp.csv | awk -F, '{ d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d } END { print NR, worst < 1e-12 }')" \
    '6000 1'

# ---- poisson
train --inclusion poisson=0.2 -o p.arrows log.arrows
train --inclusion poisson=0.2 --seed 7 -o p7.arrows log.arrows
ok 'poisson: another seed takes up other keys' sh -c 'test "$(ctr-info --digest p.arrows)" != "$(ctr-info --digest p7.arrows)"'
ok 'poisson=1 takes every key' sh -c 'ctr-train lr -q --inclusion poisson=1 -o p1.arrows log.arrows &&
    test "$(ctr-info --digest p1.arrows | tail -1)" = "$(ctr-info --digest all.arrows | tail -1)"'
# A key that came k times is held with probability 1 - (1 - p)^k.
keys p.arrows >held
is 'poisson=0.2: as many keys as the formula expects, within 4 standard deviations' "$(awk -F, '
    NR == FNR { held[$0]; n++; next }
    { for (i = 1; i <= 3; i++) c[substr("abc", i, 1) "," $i]++ }
    END { for (k in c) { p = 1 - 0.8 ^ c[k]; mean += p; var += p * (1 - p) }
        d = (n - mean) / sqrt(var); print (d < 4 && d > -4) ? "yes" : "no: " n " of " mean }' held rows.csv)" yes

# ---- the same however rows arrive, and whatever their weight
for rule in poisson=0.1 bloom=2; do
    train --inclusion $rule -o one.arrows --progressive onep.arrows log.arrows
    ctr-cat --batch 7 log.arrows >small.arrows
    train --inclusion $rule -j 4 --progressive two.p -o two.arrows small.arrows
    ok "$rule: small batches, -j 4: the same predictions" cmp onep.arrows two.p
    ok "$rule: the same model" "$PY" "$REF" same one.arrows two.arrows
    train --inclusion $rule --weight w -o weighted.arrows log.arrows
    keys one.arrows >one.keys
    ok "$rule: weights change no decision" sh -c 'cmp one.keys -' <<LIST
$(keys weighted.arrows)
LIST
    train --inclusion $rule --passes 2 -o want.arrows --progressive want.p small.arrows
    go() { timeout "$@" ctr-train lr -q --inclusion $rule --passes 2 --checkpoint c.ckpt --checkpoint-every 500 --resume \
        --progressive got.p -o got.arrows small.arrows; }
    killed_runs "$rule: " go 006 012 018 024 030 040
    ok "$rule: with the model of a run that was never killed" cmp want.arrows got.arrows
    ok "$rule: and its predictions" cmp want.p got.p
done

# ---- a stopped run's state is checked
! head -c 60000 small.arrows | ctr-train lr -q --inclusion bloom=2 --checkpoint d.ckpt >/dev/null 2>&1
ok 'the state stands in a section of its own' sh -c 'ctr-info d.ckpt | grep -q "^section: state"'
exits 'another rule is refused' 2 ctr-train lr --inclusion bloom=3 --resume --checkpoint d.ckpt -o x.arrows small.arrows
err_like 'with both' 'inclusion-bloom=2.*inclusion-bloom=3.*the same options'
ok 'a checkpoint predicts' sh -c 'ctr-predict d.ckpt log.arrows >/dev/null'

# ---- words and errors
ctr-train lr --inclusion bloom=1 -o x.arrows log.arrows 2>words
ok 'bytes a key' grep -Eq '^bytes a key +[0-9.]+$' words
ok 'keys refused' grep -Eq '^keys refused +[0-9]+ of about [0-9]+, [0-9]+ times$' words
ok 'memory of the filters' grep -q '^inclusion filter     8 MiB$' words
seen=$(awk '/^keys refused/ { print $6 + 0 }' words) all=$(tr , '\n' <rows.csv | sort | uniq | wc -l)
ok "all keys are estimated to some percent: $seen of $all" test $((seen * 100)) -gt $((all * 95)) -a $((seen * 100)) -lt $((all * 105))
for rule in '' bloom bloom=0 bloom=16 bloom=x poisson=0 poisson=1.1 poisson=nan poisson=-1 none; do
    exits "--inclusion '$rule' is a usage error" 2 ctr-train lr --inclusion "$rule" -o y.arrows log.arrows
done
err_like 'that says what there is' "wants all, poisson=P .* or bloom=N .* not 'none'"
exits 'filters too small' 2 ctr-train lr --inclusion bloom=1 --inclusion-memory 100 -o y.arrows log.arrows
ok 'no model is left' test ! -e y.arrows
done_testing
