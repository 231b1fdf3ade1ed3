#!/bin/sh
# Every example in the manual pages runs, and prints what the page says. A page of a tool begins with what most people need: three options, one
# example with its output.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half runs the examples, whose code the tests of the tools run here'

# The examples of a page, as a script: what block N prints goes to N.got; what the page says that it prints is written to FOLDER/N.want.
page_script() { # page_script PAGE FOLDER
    awk -v to="$2" '/^\.Sh /{ examples = on = ($2 == "EXAMPLES") }
         /^\.Ss /{ on = examples || $2 == "First" } # steps
         /^\.Bd -literal/{ take = on; want = ""; if (on) print "exec >" ++n ".got"; next }
         /^\.Bd -unfilled/{ want = on && n ? to "/" n ".want" : ""; next }
         /^\.Ed/{ take = 0; want = ""; next }
         take || want { sub(/^\\&/, ""); gsub(/\\e/, "\\"); gsub(/\\\\/, "\\"); gsub(/\\-/, "-") }
         want && !/^\$ / { print >want }
         want && /^\$ / { want = "" } # a session, which is not run
         take' "$1"
}
# Where MPI starts no processes, one process alone does what a page gives to mpirun.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
alone='mpirun() { while [ "$1" != ctr-train ]; do shift; done; "$@"; }'
[ -z "$SAN" ] && [ -f "$CTR_BUILD/lib/ctr/ctr-mpi.so" ] && timeout 60 mpirun -q -n 2 true >"$W/mpirun.out" 2>&1 </dev/null && alone=
run_script() { (cd "$1" && { echo "$alone" && cat script; } >run && timeout 600 sh -eu ./run) </dev/null; }

# The lines of N.want follow each other somewhere in N.got.
prints() {
    for _want in "$1"/*.want; do
        [ -e "$_want" ] || return 0
        awk 'FNR == NR { want = want $0 "\n"; next } { got = got $0 "\n" } END { exit !index("\n" got, "\n" want) }' "$_want" "${_want%.want}.got" ||
            { diff "$_want" "${_want%.want}.got"; return 1; }
    done
}
# The first heading of the description, within 50 lines, is that of the first steps: three options, then commands, then what they print.
begins_well() {
    awk '/^\.Sh / { on = $2 == "DESCRIPTION"; at = NR }
        on && /^\.Ss / { steps = $3 == "steps" && NR - at < 50 && !seen++ }
        steps && /^\.It / && !commands { options++ }
        steps && /^\.Bd -literal/ && options >= 3 { commands = 1 }
        steps && commands && /^\.Bd -unfilled/ { good = 1 }
        END { exit !good }' "$1"
}

for page in "$CTR_TOP"/man/*.1; do
    name=$(basename "$page" .1)
    tool=$name # or what it begins with: of ctr-train-two-tower, ctr-train
    while ! [ -x "$CTR_BUILD/bin/$tool" ] && [ "$tool" != "${tool%-*}" ]; do tool=${tool%-*}; done
    if ! [ -x "$CTR_BUILD/bin/$tool" ]; then # its library is missing
        skip "$name(1): its examples run" "$name was left out of the build"
        continue
    fi
    mkdir -p "$W/$name"
    page_script "$page" "$W/$name" >"$W/$name/script"
    ok "$name(1) begins with three options and an example with its output" begins_well "$page"
    ok "$name(1): its examples run" run_script "$W/$name"
    ok "$name(1): they print what it says" prints "$W/$name"
done
for page in "$CTR_TOP"/man/*.[57]; do
    [ -f "$page" ] || continue
    name=$(basename "$page")
    mkdir -p "$W/$name"
    page_script "$page" "$W/$name" >"$W/$name/script"
    [ -s "$W/$name/script" ] && ok "$name: its examples run" run_script "$W/$name"
done
# A page that says something else, and one that begins otherwise, are found.
mkdir -p "$W/other"
cp "$W/ctr-join/"*.got "$W/other/" && sed 's/,31$/,32/' "$W/ctr-join/1.want" >"$W/other/1.want"
other() { ! prints "$W/other"; }
ok "another output would be seen" other
sed '/^\.Ss First steps/d' "$CTR_TOP/man/ctr-join.1" >"$W/other.1"
otherwise() { ! begins_well "$W/other.1"; }
ok "another beginning, too" otherwise
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
# What awk's rand() gives differs between programs of this name.
chance() { ! grep -nw 'rand()' "$CTR_TOP"/man/*.[1-9]; }
ok "no example uses awk's rand()" chance
raw_backslash() { ! grep -nE '(^|[^\\])(\\\\)*\\n' "$CTR_TOP"/man/*.[1-9]; }
ok "a newline in an example is written \\\\n" raw_backslash
done_testing
