#!/bin/sh
# Scheduling of a plan ("FeatureBox", section 4): nodes, layers, placement under --device-memory, and what --explain and --dot print.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

printf 'query,title,time,click\nRed Shoes,red shoes|new,2024-05-01 10:00:00,1\nhat,blue hat|old,2024-05-01 23:00:00,0\n' |
    ctr-import -q -f csv --header --columns query:utf8,title:utf8,time:timestamp,click:int8 -o log.arrows

# As in figure 4: eight operators of three functions, in three layers; f2 and f3 share operators with the others.
cat >figure4.plan <<'PLAN'
op1 = lower(query)
op2 = split(title, "|")
op3 = hour_of_day(time)
op4 = words(op1)
op5 = unique(op2)
op6 = bucket(op3, [6, 12, 18])
op7 = cross(op4, op5)
op8 = cross(op5, op6)
keep f1 = op7, f2 = op8, f3 = op6
PLAN
# The same three functions, each written out.
cat >written.plan <<'PLAN'
keep f1 = cross(words(lower(query)), unique(split(title, "|")))
keep f2 = cross(unique(split(title, "|")), bucket(hour_of_day(time), [6, 12, 18]))
keep f3 = bucket(hour_of_day(time), [6, 12, 18])
PLAN
layers() { ctr-extract --explain "$@" log.arrows | awk '/^layer/ { l = $2 + 0 } /^  #/ && l { n[l]++; s[l] = s[l] " " $3 } END { for (i = 1; i in n; i++) print n[i] s[i] }' |
    sed 's/<[a-z0-9]*>//g; s/list//g'; }
ctr-extract --explain figure4.plan log.arrows >shown
of_layer() { awk -v want="$1" '/^layer/ { l = $2 + 0 } /^  #/ && l == want { match($0, /= op[0-9]/); print substr($0, RSTART + 2, 3) }' shown | tr '\n' ' '; }
is 'layer 1: operators of columns alone' "$(of_layer 1)" 'op1 op2 op3 '
is 'layer 2' "$(of_layer 2)" 'op4 op5 op6 '
is 'layer 3' "$(of_layer 3)" 'op7 op8 '
is 'no other layer' "$(of_layer 4)" ''
calls() { ctr-extract --explain "$1" log.arrows | awk '/^layer/ { l = $2 + 0 } /^  #/ && l { split($0, w, "("); n = split(w[1], v, " "); print l, v[n] }' | sort; }
is 'equal calls are one node: written out, the same eight in the same layers' "$(calls written.plan)" "$(calls figure4.plan)"
is 'eight of them' "$(calls written.plan | grep -c .)" 8
is 'with the same results' "$(ctr-extract -q written.plan log.arrows | ctr-export -f csv -c f3)" "$(ctr-extract -q figure4.plan log.arrows | ctr-export -f csv -c f3)"

# Placement.
place() { ctr-extract --explain "$@" | sed -n 's/^  #.*= \(op[0-9]\).*\[\([a-z]*\), .*: \(.*\)\]$/\1 \2 \3/p'; }
is 'without --device-memory: the CPU, and why' "$(place figure4.plan log.arrows | sort -u -k 2)" 'op1 cpu no --device-memory'
is 'with room: the GPU' "$(place --device-memory 1G figure4.plan log.arrows | awk '{ print $2 }' | sort | uniq -c | tr -s ' ')" ' 8 gpu'
ctr-extract --explain --device-memory 1G --place op5=cpu --place 3=cpu figure4.plan log.arrows >forced
is '--place puts by name and by number' "$(grep -c 'cpu, .*: --place\]' forced)" 2
ok 'the results of these are copied' grep -Eq '6 nodes on the gpu with .* of 1 GiB, 2 on the cpu; [1-9].* are copied' forced
ok 'and what runs is said' grep -q '^run: on the cpu, without --device gpu' forced
exits 'no such node' 2 ctr-extract --explain --place op9=gpu figure4.plan log.arrows
err_like 'is told' 'op9=gpu: the plan has no such node'
exits 'no such device' 2 ctr-extract --explain --place op1=tpu figure4.plan log.arrows
err_like 'is told too' 'wants NODE=cpu or NODE=gpu'
ctr-extract --device-memory 1G figure4.plan log.arrows >got.arrows 2>said
ok 'no silent CPU' grep -q 'every operator runs on the CPU: --place, --launch and --device-memory are for --device gpu' said
ctr-extract -q figure4.plan log.arrows >want.arrows
ok 'the bytes do not depend on the placement' cmp want.arrows got.arrows

# What no kernel has stays on the CPU, whatever fits; what is computed of it goes on. Without room nothing is on the GPU.
awk 'BEGIN { for (i = 0; i < 99000; i++) printf "%d,%d\n", i, i * 7 }' | ctr-import -q -f csv --columns k:int64,v:int64 | ctr-cat --to file --key k -o dict.arrow
awk 'BEGIN { print "k,click"; for (i = 0; i < 5000; i++) print i % 4000 "," i % 2 }' | ctr-import -q -f csv --header -o keys.arrows
printf 'far = lookup("dict.arrow", k, "v")\nnear = k %% 10\nkeep far, near, both = far + near\nfeature who = vocab(k)\n' >memory.plan
ctr-extract -q --fit memory.plan -o memory.fitted keys.arrows
ctr-extract --explain --device-memory 8M memory.fitted keys.arrows >shown
ok 'a dictionary that fits' grep -Eq 'lookup\(.* \[gpu, 1\.[0-9]* MiB: fits in the 8 MiB left' shown
ok 'what is computed of it is not' grep -Eq 'both.*\[gpu, .* fits in the .* left\]' shown
ok 'keys of a fitted vocabulary count with what it holds' grep -Eq 'keys\(.*\[gpu, [2-9][0-9][0-9](\.[0-9])? KiB: fits in' shown
ctr-extract --explain --device-memory 200K memory.fitted keys.arrows >shown
ok 'a vocabulary that does not fit' grep -Eq 'keys\(.*\[cpu, [2-9][0-9][0-9].* KiB: does not fit in the .*left\]' shown
ctr-extract --explain --device-memory 64K memory.fitted keys.arrows >shown
ok 'results that do not fit' grep -Eq 'both.*\[cpu, .*: does not fit in the .*left\]' shown
printf 'label click\nfeature q = quantiles(k, 4)\n' >quantiles.plan
ctr-extract -q --fit quantiles.plan -o quantiles.fitted keys.arrows
ok 'fitted thresholds' sh -c "ctr-extract --explain --device-memory 8M quantiles.fitted keys.arrows | grep -q 'keys(.*\[cpu, .*: it asks fitted thresholds'"
ctr-extract --explain --device-memory 1M memory.fitted keys.arrows >shown
ok 'one that does not' grep -Eq 'lookup\(.* \[cpu, 1\.[0-9]* MiB: does not fit in the 1 MiB left' shown
exits 'no kernel has it' 2 ctr-extract --explain --place q=gpu quantiles.fitted keys.arrows
err_like 'is told, too' 'q=gpu: a GPU cannot run the node: it asks fitted thresholds'

# The picture.
ctr-extract --dot --device-memory 1G --place op5=cpu figure4.plan log.arrows >figure4.dot
is 'a box a layer' "$(grep -c 'subgraph cluster_layer' figure4.dot)" 4
ok 'names, not numbers' grep -qF 'cross(op4, op5)' figure4.dot
ok 'devices' sh -c 'grep "unique(op2)" figure4.dot | grep -q ", cpu," && grep "lower(query)" figure4.dot | grep -q "gpu,.*palegreen"'
is 'an edge an argument: three of columns, seven of operators' "$(grep -c ' -> n[0-9]' figure4.dot)" 10
if command -v dot >/dev/null 2>&1; then
    ok 'graphviz reads it' dot -Tsvg -o figure4.svg figure4.dot
fi
done_testing
