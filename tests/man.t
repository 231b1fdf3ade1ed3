#!/bin/sh
# Every example in the manual pages runs.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half runs the examples, whose code the tests of the tools run here'

# The examples of a page, as a script.
page_script() {
    awk '/^\.Sh /{ examples = on = ($2 == "EXAMPLES") }
         /^\.Ss /{ on = examples || $2 == "First" } # steps
         on && /^\.Bd -literal/{ take = 1; next }
         /^\.Ed/{ take = 0 }
         take' "$1" | sed 's/^\\&//; s/\\e/\\/g; s/\\\\/\\/g; s/\\-/-/g'
}
# Where MPI starts no processes, one process alone does what a page gives to mpirun.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
alone='mpirun() { while [ "$1" != ctr-train ]; do shift; done; "$@"; }'
[ -z "$SAN" ] && [ -f "$CTR_BUILD/lib/ctr/ctr-mpi.so" ] && timeout 60 mpirun -q -n 2 true >"$W/mpirun.out" 2>&1 </dev/null && alone=
run_script() { (cd "$1" && { echo "$alone" && cat script; } >run && timeout 600 sh -eu ./run) </dev/null; }

for page in "$CTR_TOP"/man/*.1; do
    name=$(basename "$page" .1)
    tool=$name # or what it begins with: of ctr-train-two-tower, ctr-train
    while ! [ -x "$CTR_BUILD/bin/$tool" ] && [ "$tool" != "${tool%-*}" ]; do tool=${tool%-*}; done
    if ! [ -x "$CTR_BUILD/bin/$tool" ]; then # its library is missing
        skip "$name(1): its examples run" "$name was left out of the build"
        continue
    fi
    mkdir -p "$W/$name"
    page_script "$page" >"$W/$name/script"
    ok "$name(1) has an example" test -s "$W/$name/script"
    ok "$name(1): its examples run" run_script "$W/$name"
done
for page in "$CTR_TOP"/man/*.[57]; do
    [ -f "$page" ] || continue
    name=$(basename "$page")
    mkdir -p "$W/$name"
    page_script "$page" >"$W/$name/script"
    [ -s "$W/$name/script" ] && ok "$name: its examples run" run_script "$W/$name"
done
if command -v mandoc >/dev/null; then
    lint() { ! mandoc -Tlint -Wwarning "$CTR_TOP"/man/*.[1-9] | grep -E 'WARNING|ERROR|UNSUPP'; }
    ok "mandoc finds nothing" lint
fi
# The other reader of manuals: no complaint, and the footer, which a macro that was called by mistake takes away.
if command -v groff >/dev/null && command -v preconv >/dev/null; then
    for page in "$CTR_TOP"/man/*.[1-9]; do
        preconv "$page" | groff -mandoc -Tutf8 -rLL=78n -ww >"$W/page" 2>"$W/page.err"
        is "groff reads $(basename "$page")" "$(cat "$W/page.err")$(tail -n 1 "$W/page" | cut -c 1-6)" ctrkit
    done
else
    skip "groff reads the manuals" "no groff"
fi
# roff reads a lone backslash itself: what the reader of a page types must be what the test above ran.
# A page is shown indented, and so is what is copied from it: the end of a here document would not be seen.
here_document() { ! grep -n '<<' "$CTR_TOP"/man/*.[1-9]; }
ok "no example has a here document" here_document
raw_backslash() { ! grep -nE '(^|[^\\])(\\\\)*\\n' "$CTR_TOP"/man/*.[1-9]; }
ok "a newline in an example is written \\\\n" raw_backslash
done_testing
