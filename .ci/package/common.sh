# Sourced by the scripts beside it, which `make dist`, `make deb`, … start: what they share.
set -eu
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
cd "$(dirname "$0")/../.."
: "${B:=build/opt}"
: "${VERSION:=$(sed -n 's/^#define CTR_VERSION "\([^"]*\)".*/\1/p' src/common/base/base.h)}"
D=build/dist        # what is made
work=build/package  # scratch
mkdir -p "$D" "$work"
name=$(basename "$0")

fail() { echo "make $name: $*" >&2; exit 1; }
need() { # need PACKAGE PROGRAM…
    _package=$1
    shift
    for _p in "$@"; do command -v "$_p" >/dev/null || fail "there is no $_p: apt-get install $_package"; done
}
in_git() { git rev-parse --git-dir >/dev/null 2>&1 && git ls-files --error-unmatch Makefile >/dev/null 2>&1; }

# The tag of a release names it; src/common/base/base.h has the same, so that a tarball knows it, too.
tag=$(in_git && git tag --points-at HEAD 'v[0-9]*' | tail -n 1 || true)
[ -z "$tag" ] || [ "$tag" = "v$VERSION" ] || fail "HEAD has the tag $tag, and src/common/base/base.h says $VERSION"

# The time of everything that is packed: the commit's; of a tarball, that of its files.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    if in_git; then SOURCE_DATE_EPOCH=$(git log -1 --format=%ct); else SOURCE_DATE_EPOCH=$(stat -c %Y Makefile); fi
fi
export SOURCE_DATE_EPOCH VERSION B LC_ALL=C TZ=UTC

# copy_tree TO : the tracked files as they are here.
copy_tree() {
    rm -rf "$1" && mkdir -p "$1"
    if in_git; then git ls-files -z | tar -c --null -T - -f -; else tar -c --exclude ./build --exclude './bin/ctr*' -f - .; fi | tar -x -C "$1"
}
