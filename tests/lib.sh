# Shell side of the tests: TAP helpers. Source it first: `. "${0%/*}/lib.sh"`. A test file ends with `done_testing`.
set -u
: "${CTR_TOP:=$(cd "$(dirname "$0")/.." && pwd)}"
: "${CTR_BUILD:=$CTR_TOP/build/opt}"
PATH="$CTR_BUILD/bin:$PATH"
export CTR_TOP CTR_BUILD PATH LC_ALL=C TZ=UTC
DATA=${CTR_DATA:-$CTR_TOP/../shared/data}
W=$(mktemp -d "${TMPDIR:-/tmp}/ctrtest.XXXXXX") || exit 1
trap 'rm -rf "$W"' EXIT
n_tests=0
# Not empty under the sanitizers: there what the plain half proves over many repetitions of one path runs over some of them.
case $CTR_BUILD in *-san*) SAN=1 ;; *) SAN= ;; esac

# Python for checks against other programs: $CTR_PYTHON, else the virtual environment that .ci/run makes, else python3.
PY=${CTR_PYTHON:-$CTR_TOP/build/venv/bin/python}
command -v "$PY" >/dev/null 2>&1 || PY=$(command -v python3) || PY=python3

# has_python MODULE… : Python is there and finds all of them; none is loaded, which takes up to a second each. With CTR_PEERS=1, as in CI,
# a missing one ends the test instead of letting it skip.
has_python() {
    _lacks=$("$PY" -c 'import sys; from importlib.util import find_spec; print(*(m for m in sys.argv[1:] if not find_spec(m)))' "$@" 2>/dev/null) || _lacks=$*
    [ -n "$_lacks" ] || return 0
    [ "${CTR_PEERS:-0}" = 0 ] && return 1
    echo "$PY has no $_lacks, and CTR_PEERS=1 wants it" >&2
    exit 1
}

# ok NAME COMMAND… : passes when the command succeeds; its output is shown when it does not.
ok() {
    n_tests=$((n_tests + 1))
    _name=$1
    shift
    if "$@" >"$W/.ok" 2>&1; then
        echo "ok $n_tests - $_name"
    else
        _rc=$?
        echo "not ok $n_tests - $_name"
        { echo "status $_rc: $*"; head -c 4000 "$W/.ok"; } | sed 's/^/# /'
    fi
}

# until_true COMMAND… : waits until it succeeds, two minutes at most: a machine that is slow, or stood still, is no failure.
until_true() {
    for _i in $(seq 2400); do
        "$@" 2>/dev/null && return 0
        sleep .05
    done
    return 1
}

# killed_runs PREFIX COMMAND MS… : COMMAND, which takes what timeout takes, is killed after 0.MS seconds each, then comes to its end.
# In the foreground timeout waits for what it killed; else it dies with it, and the next run could begin beside the last system
# call of the one before. A run that ends as the signal comes has its own status, not that of a timeout.
killed_runs() {
    _prefix=$1 _command=$2 _kills=0 _failed=
    shift 2
    for _ms; do
        "$_command" --foreground --preserve-status -s KILL "0.$_ms" 2>/dev/null
        case $? in 0) ;; 137) _kills=$((_kills + 1)) ;; *) _failed="$_failed 0.$_ms" ;; esac
    done
    ok "${_prefix}some runs were killed" test "$_kills" -gt 0
    is "${_prefix}and none failed" "$_failed" ''
    ok "${_prefix}and a last one comes through" "$_command" 600
}

# is NAME GOT WANT : two strings are equal.
is() {
    n_tests=$((n_tests + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $n_tests - $1"
    else
        echo "not ok $n_tests - $1"
        printf 'got:\n%s\nwant:\n%s\n' "$2" "$3" | sed 's/^/# /'
    fi
}

# exits NAME STATUS COMMAND… : the exit status is STATUS; what it said on stderr is kept in $W/err, stdout in $W/out.
exits() {
    n_tests=$((n_tests + 1))
    _name=$1 _want=$2
    shift 2
    "$@" >"$W/out" 2>"$W/err" </dev/null
    _rc=$?
    if [ "$_rc" -eq "$_want" ]; then
        echo "ok $n_tests - $_name"
    else
        echo "not ok $n_tests - $_name (exit $_rc, want $_want)"
        head -c 2000 "$W/err" | sed 's/^/# /'
    fi
}

# err_like NAME REGEX : the last `exits` said something that matches (grep -E).
err_like() {
    n_tests=$((n_tests + 1))
    if grep -Eq -e "$2" "$W/err"; then
        echo "ok $n_tests - $1"
    else
        echo "not ok $n_tests - $1"
        { echo "wanted: $2"; cat "$W/err"; } | sed 's/^/# /'
    fi
}

# small_batches FILE COMMAND…: over a pipe, in batches of 7 rows; with --l2 as a file, as a pipe's keys are counted on the way.
small_batches() {
    ctr-cat --batch 7 "$1" >"$W/.cut" || return
    shift
    case " $* " in *' --l2 '*) "$@" "$W/.cut" ;; *) cat "$W/.cut" | "$@" ;; esac
}

# ref ACTION ARGUMENT… : the plain version $REF in Python. Under the sanitizers it makes and compares files, and computes no values beside
# ours: the plain half does, and the commands that it would judge have run.
ref() {
    case ${SAN:+$1} in '' | make | data | counts | same | set | column | foreign | auc) "$PY" "$REF" "$@" ;; esac
}

# agrees_with MODEL FIXED OPTION… -- REFERENCE-OPTION… : a model that `small` of the test trains has the values and progressive scores
# of deep_reference.py ($REF), which takes the options FIXED and REFERENCE-OPTION.
agrees_with() {
    _model=$1 _fixed=$2 _o=
    shift 2
    while [ "$1" != -- ]; do _o="$_o $1"; shift; done
    shift
    # shellcheck disable=SC2086
    { [ -n "$SAN" ] || small $_o --rate 1e-35 -o start.arrows; } && small $_o -o got.arrows --progressive got.p &&
        ref "$_model" tiny.arrows start.arrows got.arrows got.p $_fixed "$@"
}

# one_of N : in a loop over ways of the same; under the sanitizers it succeeds each N-th time.
_ways=0
one_of() {
    [ -n "$SAN" ] || return 0
    _ways=$((_ways + 1))
    [ $((_ways % $1)) = 0 ]
}

# same_rows A B : two streams of the same names, values and order; batches and provenance may differ.
same_rows() {
    ctr-export -f jsonl "$1" >"$W/.rows" && ctr-export -f jsonl "$2" | cmp "$W/.rows" -
}

# below KIB COMMAND… : what it takes of memory at most; not under sanitizers, which have allocators of their own. What
# Python takes itself, 9 MiB without its libraries, is the least that is seen: a child begins as a copy of its parent.
below() {
    _most=$1
    shift
    _got=$("$PY" -I -S -c 'import os, resource, sys
null = os.open(os.devnull, os.O_WRONLY)
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, fd) for fd in (1, 2)])
status = os.waitpid(child, 0)[1]
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status != 0)' "$@") && echo "# $_got KiB" && test "$_got" -lt "$_most"
}

# rubbish N : bytes that are nothing, the same ones each time.
rubbish() { cat "$CTR_TOP"/man/*.1 | gzip -n | tail -c +1000 | head -c "$1"; }

skip() { # skip NAME WHY
    n_tests=$((n_tests + 1))
    echo "ok $n_tests - $1 # SKIP $2"
}
# The plug-in for --device gpu: its text as loops on the host; on a machine with a GPU, with CTR_GPU=1, itself.
gpu_plugin=$CTR_BUILD/onhost/ctr-cuda.so
[ -z "${CTR_GPU:-}" ] || gpu_plugin=${CTR_CUDA_PLUGIN:-$CTR_BUILD/lib/ctr/ctr-cuda.so}
gpu_on_host() { [ -z "${CTR_GPU:-}" ]; }
# The driver and NVRTC: what stands for them on the host, else those of the machine, unless others are named.
gpu_driver() {
    if gpu_on_host; then
        export CTR_CUDA_DRIVER="$CTR_BUILD/onhost/libcuda.so" CTR_NVRTC="$CTR_BUILD/onhost/libcuda.so"
        [ -f "$CTR_CUDA_DRIVER" ] || skip_all "there is no c++"
    else
        export CTR_CUDA_DRIVER="${CTR_CUDA_DRIVER:-libcuda.so.1}"
    fi
}
# tap_of FILE : the checks that another program wrote there, numbered as ours.
tap_of() {
    while read -r _line; do
        case $_line in '#'*) echo "$_line" && continue ;; esac
        n_tests=$((n_tests + 1))
        echo "${_line%%" - "*} $n_tests - ${_line#*" - "}"
    done <"$1"
}
# in_browser SCRIPT ARGUMENT… : the checks of browser/SCRIPT, as ours.
in_browser() {
    _script=$1
    shift
    "$PY" "$CTR_TOP/tests/browser/$_script" "$@" >"$W/browser.out" 2>"$W/browser.err" || [ -s "$W/browser.out" ] ||
        echo "not ok - $_script $*: $(tail -n 1 "$W/browser.err")" >"$W/browser.out"
    [ ! -s "$W/browser.err" ] || echo "not ok - $_script $*: $(tail -n 1 "$W/browser.err")" >>"$W/browser.out"
    tap_of "$W/browser.out"
}
# has_browser NAME: chromium is there. Without it NAME is skipped, but with CTR_PEERS=1 the test ends. The plain half opens what both make.
has_browser() {
    [ -z "$SAN" ] || { skip "$1" 'the plain half opens it'; return 1; }
    command -v "${CTR_CHROMIUM:-chromium}" >/dev/null && return
    [ "${CTR_PEERS:-0}" = 0 ] || { echo "no chromium, and CTR_PEERS=1 wants it" >&2; exit 1; }
    skip "$1" 'no chromium'
    return 1
}
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}
done_testing() { echo "1..$n_tests"; }
