#!/bin/sh
# The recipes of ctr-cookbook(7), in order, and the first commands of the tutorial print what the pages say they print, to the letter.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half runs the recipes'
# recipes PAGE SECTION FOLDER: of each section of the page whose title matches, the commands, N.sh, and what they print, N.want. Prints N, which is
# 0 where the title has no number.
recipes() {
    awk -v section="$2" -v to="$3" '/^\.S[hs] /{ on = $0 ~ "^\\.Ss " section; n = $2 + 0; if (on) print n }
        /^\.Bd -literal/{ file = to "/" n ".sh"; next }
        /^\.Bd -unfilled/{ file = to "/" n ".want"; next }
        /^\.Ed/{ file = ""; next }
        on && file { gsub(/\\&/, ""); gsub(/\\-/, "-"); gsub(/\\e/, "\\"); print >file }' "$1"
}
cook() { # cook FOLDER N: its commands, in the folder of those before it
    cd "$1/run" && timeout 300 sh -eu "../$2.sh" >"../$2.got" 2>"../$2.err" </dev/null || echo "exit status $?"
}
mkdir -p "$W/book/run" "$W/first/run" "$W/other"
book=$CTR_TOP/man/ctr-cookbook.7
is 'twelve recipes' "$(recipes "$book" '[0-9]' "$W/book" | tr '\n' ' ')" '1 2 3 4 5 6 7 8 9 10 11 12 '
is 'the first commands of the tutorial' "$(recipes "$CTR_TOP/man/ctrkit.7" 'First commands' "$W/first")" 0
is 'are twelve' "$(grep -c '^ctr-' "$W/first/0.sh")" 12
for r in first/0 book/1 book/2 book/3 book/4 book/5 book/6 book/7 book/8 book/9 book/10 book/11 book/12; do
    is "$r runs without a word on stderr" "$(cook "$W/${r%/*}" "${r#*/}"; cat "$W/$r.err")" ''
    ok "$r prints what the page says" diff "$W/$r.want" "$W/$r.got"
done
# A page that says something else is found.
sed 's/^user_id /user_di /' "$book" >"$W/other.7" && recipes "$W/other.7" '[0-9]' "$W/other" >"$W/.n"
other() { ! diff "$W/other/1.want" "$W/book/1.got"; }
ok 'another output would be seen' other
done_testing
