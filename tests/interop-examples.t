#!/bin/bash
# examples/interop.md tells the truth: its sh blocks run one after another in one folder, and print the text block that follows.
# A block behind "<!-- needs: MODULE… -->" is skipped where Python lacks one of them.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half runs the examples'
mkdir "$W/bin" "$W/run"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$PY" >"$W/bin/python3"
chmod +x "$W/bin/python3"
PATH="$W/bin:$PATH"
export PYTHONPATH="$CTR_TOP/src/python" PYTHONDONTWRITEBYTECODE=1 # as pip installs it

# blocks FILE: N.sh, N.needs, N.want and N.name for each sh block; prints how many.
blocks() {
    awk -v w="$W" '
    /^```/ && in_block { close(file); in_block = 0; next }
    /^```sh/ { file = w "/" ++n ".sh"; print needs >(w "/" n ".needs"); print title >(w "/" n ".name"); printf "" >file; needs = ""; in_block = 1; next }
    /^```text/ { file = w "/" n ".want"; printf "" >file; in_block = 1; next }
    /^```/ { print "a block of neither sh nor text at line " NR >"/dev/stderr"; exit 1 }
    in_block { print >file; next }
    /^<!-- needs: / { sub(/^<!-- needs: */, ""); sub(/ *-->$/, ""); needs = $0 }
    /^#/ { title = $0; sub(/^#+ */, "", title) }
    END { print n + 0 }' "$1"
}

n=$(blocks "$CTR_TOP/examples/interop.md")
ok 'there are blocks' test "$n" -ge 8
for i in $(seq "$n"); do
    name="$(cat "$W/$i.name"): block $i"
    # shellcheck disable=SC2046
    if ! has_python $(cat "$W/$i.needs"); then
        skip "$name" "$PY lacks one of $(cat "$W/$i.needs")"
        continue
    fi
    got=$(cd "$W/run" && bash -eu -o pipefail "$W/$i.sh" 2>"$W/err") || got="$got
status $?
$(cat "$W/err")"
    is "$name" "$got" "$(cat "$W/$i.want" 2>/dev/null)"
done
ok 'the README leads here' grep -q 'examples/interop.md' "$CTR_TOP/README.md"
done_testing
