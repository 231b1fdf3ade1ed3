#!/bin/sh
# make html: a page for each manual, well-formed, an index that has all of them, no dead link; the same bytes again.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half makes the site'
command -v mandoc >/dev/null || skip_all 'no mandoc'
command -v "$PY" >/dev/null 2>&1 || skip_all 'no python3'
page() { "$PY" "$CTR_TOP/tests/html_page.py" "$@"; }
site() { "$CTR_TOP/.ci/html/make" "$CTR_TOP/man" "$1"; }
ok 'the site is made' site "$W/site"
is 'a page for each manual' "$(ls "$W/site" | grep -c '\.[1-9]\.html$')" "$(ls "$CTR_TOP"/man/*.[1-9] | wc -l)"
ok 'pages are well-formed' page check "$W"/site/*.html
# Manuals of other programs are Debian's; SEE ALSO names some addresses.
ok 'no link is dead' page links "$W"/site/*.html
is 'links to elsewhere are few' "$(page elsewhere "$W"/site/*.html | grep -v -e '^https://manpages.debian.org/[a-z]*\.[1-9]$' -e '^https://arrow.apache.org/' -e '^https://github.com/Cyan4973/xxHash$')" ''
is 'the index has all manuals' "$(grep -o 'href="[a-z0-9-]*\.[1-9]\.html"' "$W/site/index.html" | sort -u | wc -l)" "$(ls "$CTR_TOP"/man/*.[1-9] | wc -l)"
ok 'with what each does' grep -qF "$(sed -n 's/^\.Nd //p' "$CTR_TOP/man/ctr-join.1")" "$W/site/index.html"
ok 'a page links to the others that it names' grep -q 'href="ctr-eval.1.html"' "$W/site/ctr-gridviz.1.html"
ok 'examples stand in it' grep -q 'ctr-import --format csv' "$W/site/ctr-stats.1.html"
printf 'x' >"$W/site/old.html"
ok 'again' site "$W/site"
ok 'what was there is gone' test ! -e "$W/site/old.html"
ok 'once more, elsewhere' site "$W/twin"
ok 'the same bytes' diff -r "$W/site" "$W/twin"
cp -r "$CTR_TOP/man" "$W/man" && sed -i 's/^\.Xr ctr-eval 1 ,$/.Xr ctr-evil 1 ,/' "$W/man/ctr-gridviz.1"
ok 'a manual that does not exist' "$CTR_TOP/.ci/html/make" "$W/man" "$W/bad"
is 'is a link to elsewhere, which is found' "$(page elsewhere "$W"/bad/*.html | grep evil)" https://manpages.debian.org/ctr-evil.1
done_testing
