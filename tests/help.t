#!/bin/sh
# What is written about the tools alike in several places: helps, tables of options, manuals, README.md, the text of manuals in ctrkit.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half compares what is written; tools.t runs each --help here'
man=$CTR_TOP/man
tools=$(cd "$CTR_BUILD/bin" && ls)

# Options that a manual describes: `.It Fl -name` or `.It Fl x , -name`.
man_options() {
    sed -n 's/^\.It Fl //p' "$1" | sed -n 's/^\([A-Za-z] , \)\{0,1\}-\([a-z0-9-]*\).*/--\2/p' | sort -u
}
common_options() {
    "$CTR_BUILD/bin/ctrkit" --list-options | cut -f1 | grep -v -e '^--list$' -e '^--completion$' | sort -u
}
common_options >"$W/common"

help_is_manual() { # the tool's own options are those of its page
    "$1" --list-options | cut -f1 | grep . | sort -u | comm -23 - "$W/common" >"$W/table"
    case $1 in ctr-*) : ;; esac
    for _page in "$man/$1.1" "$man/$1"-*.1; do # of its own, and of its first arguments
        [ ! -f "$_page" ] || man_options "$_page"
    done | sort -u | comm -23 - "$W/common" >"$W/page"
    # role options may be described once, in ctrkit(7)
    "$1" --help=all | sed -n '/by role/,/^common/p' | sed -n 's/^ *--\([a-z]*\) NAME.*/--\1/p' | sort >"$W/roles"
    comm -23 "$W/table" "$W/roles" >"$W/table.own"
    comm -23 "$W/page" "$W/roles" >"$W/page.own"
    diff "$W/table.own" "$W/page.own"
}
summary_is_manual() {
    want=$("$1" --help | sed '/^$/q' | tr -s '\n ' '  ' | sed 's/^[^ ]* - //; s/ $//')
    grep -qxF ".Nd $want" "$man/$1.1" || { echo "no '.Nd $want' in $1.1"; return 1; }
}
fits_80_columns() {
    { $1 --help && $1 --help=all; } | sed 's/…/./g' | awk 'length($0) > 79 { print; wide = 1 } / $/ { print "blank at the end: " $0; wide = 1 } END { exit wide }'
}

for t in $tools; do
    ok "$t --help fits a terminal" fits_80_columns "$t"
    is "$t --version" "$("$t" --version)" "$t $("$CTR_BUILD/bin/ctrkit" --version | cut -d' ' -f2)"
    ok "$t: a manual page, man/$t.1" test -f "$man/$t.1"
    ok "$t: ctrkit(7) refers to its page" grep -q "^\.Xr $t 1 ,*\$" "$man/ctrkit.7"
    ok "$t: README.md has it, under The tools" grep -q "^| .*\b$t\b.* |" "$CTR_TOP/README.md"
    ok "$t: a test runs it, tests/$t.t" grep -qw "$t" "$CTR_TOP"/tests/*.t
    if [ -f "$man/$t.1" ]; then
        ok "$t: the manual's options are the tool's" help_is_manual "$t"
        ok "$t: the manual's summary is the tool's" summary_is_manual "$t"
    fi
done
ok 'a page, page for page' sh -c "for p in '$man'/*; do grep -qxF \"\$(printf '\\f %s' \"\${p##*/}\")\" '$CTR_BUILD/manuals.txt' || exit 1; done"
# The text of each page has the letters, digits and signs that mandoc prints, in its order.
signs() { sed 's/.\x08//g' | tr -cd 'A-Za-z0-9|/+*%-' | fold -w 100; }
same_signs() {
    awk -f "$CTR_TOP/src/tools/mdoc-to-text.awk" "$1" | sed 1d | signs >"$W/ours" && mandoc -T ascii -O width=300 "$1" | sed '1d;$d' | signs | diff "$W/ours" -
}
if command -v mandoc >/dev/null; then
    for page in "$man"/*; do
        ok "the text of ${page##*/} is that of mandoc" same_signs "$page"
    done
else
    skip 'the text of pages is that of mandoc' 'no mandoc (make deps installs it)'
fi

# ---- the options of a first argument
options_of_help() { sed -n 's/^  \(-[A-Za-z], \|    \)\(--[a-z0-9-]*\).*/\2/p' | sort; }
shown() { "$@" --help=all | options_of_help; }
models=$(for p in "$man"/ctr-train-*.1; do p=${p##*/ctr-train-} && echo "${p%.1}"; done)
for model in $(ctr-train --list-options | awk -F '\t' '$3 == "word" { gsub("[|]", " ", $4); print $4 }'); do
    ok "ctr-train $model has a page, man/ctr-train-$model.1" test -f "$man/ctr-train-$model.1"
    ok "ctr-train $model has an entry in ctr-train(1): .It Cm $model" grep -q "^\.It Cm $model\$" "$man/ctr-train.1"
done
for model in $models; do
    ok "ctr-train $model --help fits a terminal" fits_80_columns "ctr-train $model"
    shown ctr-train $model >"$W/shown.$model"
    ctr-train $model --list-options | cut -f1 | grep . | sort >"$W/listed"
    man_options "$man/ctr-train-$model.1" >"$W/page"
    shown ctr-train | cat - "$W/common" | sort -u | comm -23 "$W/shown.$model" - >"$W/own"
    is "the options of ctr-train-$model(1) are its own" "$(cat "$W/page")" "$(cat "$W/own")"
    is "and shows what ctr-train $model takes" "$(comm -23 "$W/shown.$model" "$W/listed")$(comm -13 "$W/shown.$model" "$W/listed")" ''
done
shown ctr-train >"$W/shown"
is 'the options of ctr-train(1) are the shared ones' "$(man_options "$man/ctr-train.1")" "$(sort -u "$W/common" "$W/roles" | comm -23 "$W/shown" - | grep -vxE -e '--(label|weight|time)')"
is 'ctr-train --help shows what all models take' "$(for m in $models; do [ $m = lr ] || comm -12 "$W/shown.lr" "$W/shown.$m"; done | grep -vxE -e '--(l2|minibatch|dropout|spill|prefetch)' | sort -u)" "$(cat "$W/shown")"
is 'a model alone has its own' "$(grep -cxE -e '--(alpha|variants|uncertainty|init-bias)' "$W/shown.lr") $(grep -cxE -e '--(alpha|variants|uncertainty|init-bias)' "$W/shown.mlp")" '4 0'
is 'roles that do something alone are there' "$(ctr-train --help=all | sed -n 's/^ *--\([a-z]*\) NAME.*/\1/p' | tr '\n' ' ')" 'label weight time '
exits 'others are none' 2 ctr-train lr --user u

# --help of a command with more than 24 options shows the 10 to 20 that most users need, as its table marks them (CTR_OPT_BASIC), and says how to see all.
# That of others shows all, as --help=all does, and --list-options has all of any. help_is_short COMMAND
help_is_short() {
    "$@" --help >"$W/short" && "$@" --help=all >"$W/long" || return 1
    "$@" --list-options | cut -f1 | sort >"$W/listed"
    options_of_help <"$W/long" | comm -23 - "$W/listed" | grep . && { echo 'not in --list-options'; return 1; }
    _all=$(options_of_help <"$W/long" | grep -c .)
    _some=$(options_of_help <"$W/short" | grep -c .)
    [ "$_all" -gt 24 ] || { diff "$W/short" "$W/long"; return; }
    [ "$_some" -ge 10 ] && [ "$_some" -le 20 ] || { echo "shows $_some of $_all options: mark 10 to 20 with CTR_OPT_BASIC"; return 1; }
    tail -n 1 "$W/short" | grep -xF "These are $_some of $_all options; \`$* --help=all\` shows all." || { tail -n 1 "$W/short"; return 1; }
    ! sed '$d' "$W/short" | grep -vxFf "$W/long" || { echo 'not in --help=all'; return 1; }
}
for t in $tools; do
    ok "$t --help shows what most users need, --help=all the rest" help_is_short "$t"
done
for model in $models; do
    ok "ctr-train $model --help, too" help_is_short ctr-train $model
done
long_help() { awk -v o="$1" 'BEGIN { for (i = 0; i < 25; i++) print (o ~ /help/ ? "      " : "") "--o" i }'; }
long_help_passes() { help_is_short long_help | grep -q 'mark 10 to 20 with CTR_OPT_BASIC'; }
ok 'which a table without marks fails' long_help_passes
is 'the options of lr that most users need' "$(ctr-train lr --help | options_of_help | tr '\n' ' ')" \
    '--alpha --checkpoint --device --help --jobs --l1 --l2 --label --memory --output --passes --progressive --seed --time --validation '

# No option that the help of a model lists is refused: each one with a value that it takes and the options that it goes with,
# over a few rows. `refused MODEL OPTION…` names those that are.
value_of() {
    case $1 in
    --init-bias | --alpha | --beta | --power | --rate | --decay | --dropout) echo .5 ;;
    --inclusion) echo poisson=.5 ;;
    --inclusion-memory | --images-memory | --memory | --device-memory) echo 64M ;;
    --spill) echo "$W/spill" ;;
    --hidden | --attention-hidden) echo 4 ;;
    --init) echo "$W/start.$2" ;;
    --validation) echo "$W/few.arrows" ;;
    --variants) echo "$W/variants.txt" ;;
    --device) echo cpu ;;
    --checkpoint) echo "$W/kept" ;;
    --time | --weight) echo price ;;
    --spool | --progressive | --output) echo "$W/written" ;;
    --save-every | --checkpoint-every) echo 1000 ;;
    --flush) echo 1s ;;
    --label) echo click ;;
    --minibatch) echo 2 ;;
    *) echo 1 ;;
    esac
}
with_of() {
    case $1 in
    --spill) echo --minibatch 2 --memory 64M ;;
    --prefetch) echo --minibatch 2 --spill "$W/spill" --memory 64M ;;
    --decay-every) echo --decay .5 ;;
    --l2-counts) echo --l2 .5 ;;
    --save-every) echo -o "$W/written" ;;
    --threshold) echo --optimizer ogd-count ;;
    --inclusion-memory) echo --inclusion bloom=2 ;;
    --expire-floor) echo --expire 1 ;;
    --validation-every | --patience) echo --validation "$W/few.arrows" ;;
    --spool) echo --passes 2 ;;
    --checkpoint-every | --checkpoint-deltas | --resume) echo --checkpoint "$W/kept" ;;
    --uncertainty) echo --progressive "$W/written" ;;
    --init-partial) echo --init "$W/start.$2" ;;
    --variants) echo -o "$W/v-%s.arrows" ;;
    --single-value) echo --variants "$W/variants.txt" -o "$W/v-%s.arrows" ;;
    esac
}
refused() {
    _model=$1
    shift
    for _o; do
        rm -f "$W/kept"*
        _kind=$(ctr-train $_model --list-options | awk -F '\t' -v o="$_o" '$1 == o { split($4, w, "|"); print $3 == "choice" ? w[1] : $3 }')
        case $_kind in flag | '') _v= ;; file | text | number | size | duration) _v==$(value_of "$_o" $_model) ;; *) _v==$_kind ;; esac
        ctr-train $_model -q $(with_of "$_o" $_model) "$_o$_v" "$W/few.arrows" >"$W/m.arrows" 2>"$W/said"
        grep -Eq -e "takes? no $_o\\b" "$W/said" && echo "$_o"
    done
}
if [ -x "$CTR_BUILD/bin/ctr-import" ]; then
    printf 'click,user,price\n1,a,2\n0,b,3\n1,a,4\n0,c,5\n' | ctr-import -f csv --header >"$W/few.log"
    printf 'label click\nfeature user\ndense price\n' >"$W/few.plan"
    ctr-extract -q "$W/few.plan" "$W/few.log" >"$W/few.arrows"
    printf 'base\nother alpha=.2\n' >"$W/variants.txt"
    mkdir "$W/spill"
    for model in $models; do
        ctr-train $model -q -o "$W/start.$model" "$W/few.arrows" 2>/dev/null
        is "no option that ctr-train $model --help lists is refused" "$(refused $model $(grep -vxE -e '--(help|version|list-options|follow)' "$W/shown.$model"))" ''
    done
    is 'which would be found' "$(refused lr --init-partial --alpha --hidden)" "$(printf '%s\n' --init-partial --hidden)"
fi
done_testing
