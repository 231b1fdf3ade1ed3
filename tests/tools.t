#!/bin/sh
# What holds for every tool: exit statuses, closed and full outputs, vanished readers, rubbish. tests/help.t has what their helps and manuals say.
. "${0%/*}/lib.sh"
tools=$(cd "$CTR_BUILD/bin" && ls)

fails_with() { # fails_with REGEX COMMAND: not 0, and says so
    _re=$1
    shift
    if "$@" 2>"$W/fails"; then echo "succeeded"; return 1; fi
    grep -Eq "$_re" "$W/fails" || { cat "$W/fails"; return 1; }
}
help_to() { timeout 120 "$1" --help >"$2"; }
help_closed() { timeout 120 "$1" --help >&-; }

rubbish 3000 >"$W/rubbish"
printf '' >"$W/empty"
for t in $tools; do
    ok "$t --help" "$t" --help
    exits "$t: an unknown option is a usage error" 2 "$t" --no-such-option
    err_like "$t: and named" "no option '--no-such-option'"
    ok "$t --help to a full disk fails" fails_with 'No space left' help_to "$t" /dev/full
    ok "$t --help to a closed stdout fails" fails_with 'Bad file descriptor' help_closed "$t"
done

exits "an unknown CTR_CPU is a usage error" 2 env CTR_CPU=avx1024 ctr-cat "$W/empty"
err_like "which names what there is" "CTR_CPU=avx1024: it is plain, avx2 or avx512"

# Filters that read a stream from stdin, with the arguments that they need.
filters() {
    cat <<'LIST'
ctr-info
ctr-cat
ctr-export --format csv
ctr-select --where true
ctr-sort -k a
ctr-group -k a --add n=count()
ctr-rank --by a
ctr-eval --weight a
ctr-stats
ctr-plot histogram --column a
LIST
}
has() { case " $(echo $tools) " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
filters | while read -r t args; do has "$t" && echo "$t $args"; done >"$W/filters"

if has ctr-import; then
    awk 'BEGIN { print "a,label,score"; for (i = 0; i < 30000; i++) print i "," i % 2 "," (i % 97) / 100 }' >"$W/big.csv"
    ctr-import --format csv --header --label label --score score "$W/big.csv" >"$W/big.arrows"
    size=$(wc -c <"$W/big.arrows")
    head -c $((size - 20)) "$W/big.arrows" >"$W/cut.arrows"
    { head -c 5000 "$W/big.arrows"; printf 'X'; tail -c +5002 "$W/big.arrows"; } >"$W/flip.arrows"
fi
run_in() { timeout 120 $1 <"$2"; }
run_to() { timeout 120 $1 <"$2" >"$3"; }
run_stdout_closed() { timeout 120 $1 <"$2" >&-; }
run_stdin_closed() { timeout 120 $1 <&-; }
reader_gone() { # the tool ends by SIGPIPE, silently
    { timeout 120 sh -c "$1 2>'$W/gone.err'; echo \$? >'$W/gone.rc'" <"$2"; } | head -c 10 >/dev/null
    [ ! -s "$W/gone.err" ] || { cat "$W/gone.err"; return 1; }
    rc=$(cat "$W/gone.rc")
    [ "$rc" = 141 ] || [ "$rc" = 0 ] || { echo "exit $rc"; return 1; }
}
while read -r cmd; do
    ok "$cmd: rubbish is refused" fails_with 'stdin' run_in "$cmd" "$W/rubbish"
    ok "$cmd: an empty input is refused" fails_with 'stdin.*empty' run_in "$cmd" "$W/empty"
    ok "$cmd: closed stdin" fails_with 'Bad file descriptor' run_stdin_closed "$cmd"
    [ -s "$W/big.arrows" ] || continue
    ok "$cmd: works" run_in "$cmd" "$W/big.arrows"
    ok "$cmd: truncated input" fails_with 'stdin: .*(truncated|ends)' run_in "$cmd" "$W/cut.arrows"
    ok "$cmd: a flipped byte" fails_with 'stdin: ' run_in "$cmd" "$W/flip.arrows"
    ok "$cmd: a full disk" fails_with 'No space left' run_to "$cmd" "$W/big.arrows" /dev/full
    ok "$cmd: closed stdout" fails_with 'Bad file descriptor' run_stdout_closed "$cmd" "$W/big.arrows"
    case $cmd in ctr-info* | ctr-eval* | ctr-stats* | ctr-plot*) ;; *) ok "$cmd: a vanished reader" reader_gone "$cmd" "$W/big.arrows" ;; esac
done <"$W/filters"

# A program that blocks SIGPIPE leaves it so to those that it starts.
blocked="perl -MPOSIX -e 'sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGPIPE)); exec @ARGV'"
[ ! -s "$W/big.arrows" ] || ok "a vanished reader where SIGPIPE is blocked" reader_gone "$blocked ctr-cat" "$W/big.arrows"

# A name that a script left empty is seen in the message.
for cmd in 'ctr-cat' 'ctr-import -f csv' 'ctr-extract' 'ctr-predict'; do
    has "${cmd%% *}" && ok "$cmd: an empty name" fails_with "^${cmd%% *}: '': cannot" $cmd ''
done

# A limit of the size of files is an error like a full disk, and no signal.
if [ -s "$W/big.arrows" ]; then
    over_the_limit() { ( ulimit -f 1; trap - XFSZ; exec ctr-cat "$W/big.arrows" -o "$W/limited" ) }
    ok "a file over the limit of the shell" fails_with 'limited: write failed: File too large' over_the_limit
    ok "and nothing is left" test ! -e "$W/limited"
fi

# A stage that fails makes every later stage fail, without pipefail.
if has ctr-import && has ctr-select; then
    chain_fails() { if ctr-cat "$W/cut.arrows" 2>/dev/null | ctr-select --where true 2>/dev/null | ctr-cat 2>/dev/null | ctr-info >/dev/null 2>&1; then return 1; fi; }
    ok "a chain of four tools fails when the first one fails" chain_fails
fi
# ---- what is not quite a name
while IFS='|' read -r says command; do
    exits "$command" 2 $command
    err_like 'names what there is' "$says"
done <<'LIST'
there is no tool 'trian'; the nearest is 'train'$|ctrkit trian lr
there is no tool 'xyzzy'; there are calibrate, cat, |ctrkit xyzzy
there is no tool 'trian'; the nearest is 'train'$|ctrkit help trian
there is no tool '../bin/ctr-cat'|ctrkit help ctr-../bin/ctr-cat
'--he' may be --head or --help$|ctr-select --he 3
'--p' may be --power or --place or another$|ctr-train lr --p x
argument is missing: ctr-calibrate .options. --fit KIND .* …; --help shows the other forms$|ctr-calibrate
--shards N says how many, 1 to 65536$|ctr-split
--user is given twice, and only the last would count$|ctr-eval --user a --user b
LIST
ok 'manuals of a build that is not installed' sh -c "MANPATH=/nowhere ctrkit help select | grep -q ctr-select"
ok 'of a format' sh -c "MANPATH=/nowhere ctrkit help plan | grep -qi ctr-plan"
ok 'of a model, by the name of its page' sh -c "MANPATH=/nowhere ctrkit help train-lr | grep -q 'ctr-train-lr'"
ok 'of a model' sh -c "MANPATH=/nowhere ctrkit help din | grep -qi ctr-train-din"
alone=$W/alone # copies without manuals beside them
mkdir -p "$alone" && cp "$CTR_BUILD/bin/ctrkit" "$CTR_BUILD/bin/ctr-select" "$CTR_BUILD/bin/ctr-train" "$alone"
for page in 'select|ctr-select - choose' 'train din|ctr-train-din - deep' 'din|ctr-train-din - deep' 'plan|ctr-plan - the' 'memory|ctr-memory - tables' 'ranks|ctr-ranks - one' 'tutorial|ctrkit - .* tutorial' 'cookbook|ctr-cookbook - twelve'; do
    # shellcheck disable=SC2086
    ok "without manuals and man: ${page%|*}" sh -c "PATH=/nowhere '$alone/ctrkit' help ${page%|*} | /bin/sed -n 2p | /bin/grep -q '${page#*|}'"
done
exits 'a word that has no page' 1 "$alone/ctrkit" help train dni
err_like 'is told' '^ctrkit: there is no manual page ctr-train-dni'
for model in $(ctr-train --list-options | awk -F '\t' '$3 == "word" { gsub("[|]", " ", $4); print $4 }'); do
    ok "ctr-train $model --help=all" ctr-train $model --help=all
done
exits '--help of other words' 2 ctr-train lr --help=al
err_like 'says which there are' "--help wants all, not 'al'"
is '-h is --help' "$(ctr-train lr -h)" "$(ctr-train lr --help)"
is 'common options that do nothing are not shown' "$(ctr-cat --help=all | grep -cE -e '--(seed|memory|device)')" 0
exits 'but taken' 2 ctr-cat --seed 1 --device-memory 0G

# ---- an option that would do nothing is not ignored
while IFS='|' read -r with command; do
    exits "$command" 2 $command
    err_like 'names what it lacks' "goes with $with\$"
done <<'LIST'
--optimizer=ogd-count or --variants|ctr-train lr --threshold 3
--inclusion=bloom|ctr-train lr --inclusion poisson=0.1 --inclusion-memory 1M
--passes|ctr-train lr --spool s.arrows
--checkpoint|ctr-train lr --resume
--progressive|ctr-train lr --uncertainty
--to=file|ctr-cat --key k
--next or --as-of|ctr-join --within 1h -k k right.arrows
--by|ctr-eval --slices 3
--reliability|ctr-eval --bins 3
--fit=isotonic|ctr-calibrate --fit power --pieces linear
add or check|ctr-signals list --platform web
top or diff or explain|ctr-model slim m.arrows --by-table
slim|ctr-model top m.arrows --weights-only
explain|ctr-model top m.arrows --images i.arrows
LIST
ok 'a value behind a "="' sh -c '! ctr-train lr --inclusion bloom=2 --inclusion-memory 1M --threshold 3 /nowhere 2>&1 | grep "inclusion-memory goes"'
done_testing
