#!/bin/sh
# ctr-train lr -v advises a cross where the planted world has one, says how much it is worth, and is silent where it has none.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
rows=$([ -n "$SAN" ] && echo 24000 || echo 40000)

# world CROSS: c has an effect of its own, d has many values, e is a function of a; the effect of a and b together is CROSS
world() {
    awk -v n="$rows" -v cross="$1" 'function u() { s = (s * 16807) % 2147483647; return s / 2147483647 }
        BEGIN { s = 7; OFS = ","; print "y,a,b,c,d,e"
            for (i = 0; i < n; i++) {
                a = int(u() * u() * 10); b = int(u() * 8); c = int(u() * u() * 40); d = int(u() * 2000)
                z = -1 + (a - 3) * .2 + (c % 5 - 2) * .3 + b % 2 * .4 + (d % 7 - 3) * .1 + ((a + b) % 3 - 1) * cross
                print (u() < 1 / (1 + exp(-z))), "a" a, "b" b, "c" c, "d" d, "e" int(a / 2) } }'
}
plan() { printf '%s\n' 'from log = csv(header=true)' 'label y' 'feature a' 'feature `b b` = b' 'feature c' 'feature d' 'feature e' "$@"; }
train() { ctr-train lr -v "$@" -o m.arrows 2>said; } # PLAN VIEW
advice() { sed -n 's/.*\(try .*\)/\1/p' said; }
world .6 >with.csv
world 0 >without.csv
plan >plain.plan
plan 'feature `a_b b` = cross(a, `b b`)' >crossed.plan

train plain.plan log=with.csv
is 'the cross that the model misses is told as a line of the plan' "$(advice)" "try 'feature \`a_b b\` = cross(a, \`b b\`)'"
cp said first
# The gain is that of the plan with the line: of the log loss of the second half: shrunken, it is a little less.
loss() { ctr-train lr -q "$@" -o m.arrows --progressive - | ctr-select --tail 50% | ctr-eval --metrics log_loss --format stream | ctr-export -f csv --columns log_loss | sed 1d; }
before=$(loss plain.plan log=with.csv) after=$(loss crossed.plan log=with.csv)
told=$(sed -n 's/.* by \([0-9.]*\)% (.*/\1/p' said)
ok "what it is worth ($told%) is what the line brings ($before to $after)" \
    awk -v b="$before" -v a="$after" -v t="$told" 'BEGIN { g = 100 * (1 - a / b); exit !(t > .7 * g && t < 1.2 * g) }'
train -j 3 --batch 100 plain.plan log=with.csv
is 'it does not depend on threads and batches' "$(advice)$(grep together said)" "$(sed -n 's/.*\(try .*\)/\1/p' first)$(grep together first)"
train crossed.plan log=with.csv
is 'a plan that has it gets no advice' "$(advice)" ''
for alpha in .01 .1 1; do
    train --alpha "$alpha" plain.plan log=without.csv
    is "no advice where no cross is (alpha $alpha): a column that another determines is none" "$(advice)" ''
done
ctr-train lr plain.plan log=with.csv -o m.arrows 2>said
is 'nor without -v' "$(advice)" ''
train --memory 4M plain.plan log=with.csv
is 'nor where --memory is too small for the sample' "$(advice)" ''
train --memory 64M plain.plan log=with.csv
ok 'with more it is told' test -n "$(advice)"
train --hash-bits 20 plain.plan log=with.csv
is 'nor where columns share one table' "$(advice)" ''
cp m.arrows v.arrows
ctr-train lr -q --hash-bits 20 plain.plan log=with.csv -o m.arrows
ok 'the model is the same with -v' cmp v.arrows m.arrows
plan 'keep b' >more.plan # the line that is told is one of the plan, whatever names it has
sed -i 's/^feature a$/v = a\nfeature `or` = v/; s/^feature `b b` = b$/feature b/; s/^feature c$/b_or = c\nfeature c = b_or\nfeature b_or_2 = d/' more.plan
train more.plan log=with.csv
is 'names that a plan quotes, and a name that is free' "$(advice)" "try 'feature b_or_3 = cross(b, \`or\`)'"
advice | sed "s/^try '//; s/'$//" >>more.plan
ok 'the plan with that line is read' train more.plan log=with.csv
is 'and gets no advice' "$(advice)" ''
plan 'feature list = split(a, "")' 'weight w = 10' 'dense len = length(b)' >more.plan
train more.plan log=with.csv
ok 'beside lists, weights and numbers it is found, too' grep -q 'a and `b b` tell more together' said
for w in 0.01 100; do # the unit of weights does not matter
    plan "weight w = $w" >more.plan
    train more.plan log=with.csv
    ok "rows of weight $w" grep -q 'a and `b b` tell more together' said
    ok 'as much as those of weight 1' awk -v t="$told" '/together/ { match($0, / by [0-9.]*%/); g = substr($0, RSTART + 4) } END { exit !(g > .7 * t && g < 1.5 * t) }' said
done
done_testing
