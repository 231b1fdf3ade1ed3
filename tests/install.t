#!/bin/bash
# make install puts programs, manuals and completion in place; the completion completes; make uninstall takes all away.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half installs'
top=$CTR_TOP
installs() { make -s -C "$top" install B="$CTR_BUILD" DESTDIR="$W/root" PREFIX=/usr; }
ok 'make install' installs
is 'every program' "$(cd "$W/root/usr/bin" && ls)" "$(cd "$CTR_BUILD/bin" && ls)"
is 'every manual' "$(cd "$W/root/usr/share/man" && find . -type f | sed 's,.*/,,' | sort)" "$(cd "$top/man" && ls | sort)"
ok 'an installed program runs' "$W/root/usr/bin/ctr-info" --version
is 'ctrkit finds its tools' "$("$W/root/usr/bin/ctrkit" --list | wc -l)" "$(ls "$CTR_BUILD/bin" | grep -c '^ctr-')"
mkdir "$W/a 'b\" \$c" && cp "$CTR_BUILD/bin/ctrkit" "$CTR_BUILD/bin/ctr-cat" "$W/a 'b\" \$c"
is 'in any folder' "$("$W/a 'b\" \$c/ctrkit" --list)" 'ctr-cat          concatenate streams, convert between stream and file'
is 'whole summaries' "$(ctrkit --list | sed 's/^[^ ]* *//')" "$(for t in "$CTR_BUILD"/bin/ctr-*; do sed -n 's/^\.Nd //p' "$top/man/${t##*/}.1"; done)"
exits 'a tool that a build lacks' 1 "$W/a 'b\" \$c/ctrkit" signals list
err_like 'is named with its remedy' '^ctrkit: ctr-signals was left out of this build, which found no SQLite: install it .libsqlite3-dev'
# A build goes on where SQLite came after it: what it lacks of the tool is made.
if pkg-config --exists sqlite3; then
    cp -al "$CTR_BUILD" "$W/later" && rm -rf "$W/later/src/tools/ctr-signals" "$W/later/bin/ctr-signals"
    rest() { make -n V=1 NVCC= differ= B="$W/later" -C "$top" bins | grep -Eo '[^ ]*/ctr-signals/[a-z-]*\.c$|-o [^ ]*/bin/ctr-signals' | sed 's,.*[ /],,' | sort | tr '\n' ' '; }
    is 'the rest of a build is made' "$(rest)" "$( (cd "$top/src/tools/ctr-signals" && ls *.c; echo ctr-signals) | sort | tr '\n' ' ')"
fi
ok 'ctrkit runs one' "$W/root/usr/bin/ctrkit" info --version

completions() { # completions WORD… : what bash would offer for the last word
    (
        compgen() { builtin compgen "$@"; }
        . "$W/root/usr/share/bash-completion/completions/ctrkit"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _ctrkit "$1"
        printf '%s\n' "${COMPREPLY[@]}"
    )
}
PATH=$W/root/usr/bin:$PATH
is 'the help of all options' "$(completions ctr-train --hel | tr '\n' ' ')" '--help --help=all '
is 'bash completes options' "$(completions ctr-join --with)" '--within'
is 'and choices' "$(completions ctr-cat --compress z)" 'zstd'
is 'the formats of ctr-import' "$(completions ctr-import --format '' | tr '\n' ' ')" 'csv tsv jsonl libsvm libffm vw parquet npy safetensors '
is 'the formats of ctr-export' "$(completions ctr-export -f lib | tr '\n' ' ')" 'libsvm libffm '
is 'metrics' "$(completions ctr-eval --metrics au | tr '\n' ' ')" 'auc auc_loss '
is 'more metrics behind a comma' "$(completions ctr-eval -m log_loss,ga)" 'log_loss,gauc'
printf 'click,user id,ad\n1,u,a\n' | "$W/root/usr/bin/ctr-import" -q -f csv --header -o "$W/log.arrows"
is 'columns of a stream that is named' "$(completions ctr-join "$W/log.arrows" -k a)" 'ad'
is 'more of them' "$(completions ctr-sample "$W/log.arrows" --permute click,a)" 'click,ad'
is 'columns to choose' "$(completions ctr-select "$W/log.arrows" --columns click,a)" 'click,ad'
is 'roles' "$(completions ctr-eval "$W/log.arrows" --label cl)" 'click'
printf '{"a b":1,"$(touch${IFS}ran)":2,"*":3}\n' | "$W/root/usr/bin/ctr-import" -q -f jsonl -o "$W/names.arrows"
is 'names of any kind' "$(cd "$W" && completions ctr-select names.arrows --columns '' | tr '\n' ,)" 'a b,$(touch${IFS}ran),*,'
ok 'none is run by the shell' test ! -e "$W/ran"
is 'files, too' "$(cp "$W/log.arrows" "$W/log 2.arrows" && cd "$W" && completions ctr-cat log | sort)" "$(printf 'log 2.arrows\nlog.arrows')"
is 'none where no stream is' "$(completions ctr-eval --label cl)" ''
models=$(sed -n 's/^    ROW(ctr_model_\([a-z0-9_]*\),.*/\1/p' "$top/src/common/model/models.c" | tr _ -)
is 'the model to train' "$(completions ctr-train '')" "$models"
is 'behind ctrkit too' "$(completions ctrkit train --l1 1 '')" "$models"
is 'what to do with a model' "$(completions ctr-model t)" 'top'
is 'then files' "$(cd "$top/man" && completions ctr-model top ctr-i | sort | tr '\n' ' ')" 'ctr-import.1 ctr-info.1 '
is 'files where there is no such word' "$(cd "$top/man" && completions ctr-cat ctr-c | sort | tr '\n' ' ')" 'ctr-calibrate.1 ctr-cat.1 ctr-cookbook.7 '
is 'manuals' "$(completions ctrkit help ev)" 'eval'
is 'shells' "$(completions ctrkit --completion f)" 'fish'
ok 'the help has the metrics' sh -c 'ctr-eval --help | grep -A1 -e "--metrics" | grep -q "auc,auc_loss,.*gauc"'
is 'and tools' "$(completions ctrkit calib)" 'calibrate'
is 'and options behind ctrkit' "$(completions ctrkit calibrate --pie)" '--pieces'
if command -v fish >/dev/null; then
    # fished LINE : what fish would offer for the last word of a line, names only
    fished() { (cd "$W" && HOME=$W XDG_CONFIG_HOME=$W/config XDG_DATA_HOME=$W/data fish -N -c 'source $argv[1]; complete -C $argv[2]' "$W/root/usr/share/fish/vendor_completions.d/ctrkit.fish" "$1" | cut -f 1 | tr '\n' ' '); }
    is 'fish completes options' "$(fished 'ctr-join --withi')" '--within '
    is 'choices' "$(fished 'ctr-cat --compress z')" 'zstd '
    is 'metrics behind a comma' "$(fished 'ctr-eval -m log_loss,ga')" 'log_loss,gauc '
    is 'the model to train, behind ctrkit' "$(fished 'ctrkit train ml')" 'mlp '
    is 'tools' "$(fished 'ctrkit calib')" 'calibrate '
    is 'columns' "$(fished 'ctr-join log.arrows -k a')" 'ad '
    is 'files' "$(fished 'ctr-cat log.arr')" 'log.arrows '
else
    skip 'fish reads its completion' 'no fish'
fi
if command -v zsh >/dev/null; then
    ok 'zsh reads its completion' zsh -n "$W/root/usr/share/zsh/site-functions/_ctrkit"
    cat >"$W/tabbed.zsh" <<'END'
zmodload zsh/zpty || exit
folder=$1 to=$2 line=$3
zpty z zsh -f -i
zpty -w z "PS1= fpath=(${(q)folder} \$fpath); autoload -Uz compinit; compinit -u -d $to.dump
show() { print -r -- \$BUFFER >$to.new; mv $to.new $to }; zle -N show; bindkey '^X' show; bindkey '^I' complete-word; print REA''DY"
zpty -m -r z out '*READY*'
zpty -w -n z "$line"$'\t\x18'
for i in {1..400}; do [[ -e $to ]] && break; zpty -r -t z out; sleep .05; done
zpty -d z
END
    # tabbed LINE : what a zsh on a terminal makes of it when Tab is pressed behind it. Its compinit has found the file by itself.
    tabbed() {
        timeout 30 zsh -f "$W/tabbed.zsh" "$W/root/usr/share/zsh/site-functions" "$W/tabbed" "$1" >/dev/null 2>&1 </dev/null
        cat "$W/tabbed"
        rm -f "$W/tabbed"
    }
    is 'zsh completes options' "$(tabbed 'ctr-join --withi')" 'ctr-join --within='
    is 'flags' "$(tabbed 'ctr-join --inn')" 'ctr-join --inner '
    is 'choices' "$(tabbed 'ctr-export --format=np')" 'ctr-export --format=npy '
    is 'choices of a short option' "$(tabbed 'ctr-export -f np')" 'ctr-export -f npy '
    is 'metrics' "$(tabbed 'ctr-eval -m log_loss,gau')" 'ctr-eval -m log_loss,gauc,'
    is 'the model to train, behind ctrkit' "$(tabbed 'ctrkit train ml')" 'ctrkit train mlp '
    is 'manuals' "$(tabbed 'ctrkit help ev')" 'ctrkit help eval '
    is 'tools' "$(tabbed 'ctrkit calib')" 'ctrkit calibrate '
    is 'options of ctrkit' "$(tabbed 'ctrkit --completion zs')" 'ctrkit --completion zsh '
    is 'files' "$(cd "$top/man" && tabbed 'ctr-cat ctr-calib')" 'ctr-cat ctr-calibrate.1 '
else
    skip 'zsh reads its completion' 'no zsh'
fi
ok 'make uninstall' make -s -C "$top" uninstall B="$CTR_BUILD" DESTDIR="$W/root" PREFIX=/usr
is 'leaves nothing' "$(find "$W/root" -type f -o -type l)" ''
# A folder whose name has blanks and quotes, beside one that is its first word.
mkdir "$W/root/my" && echo kept >"$W/root/my/file"
odd() { make -s -C "$top" "$1" B="$CTR_BUILD" DESTDIR="$W/root" PREFIX="/my 'own' tools"; }
ok 'make install into a folder with blanks' odd install
is 'puts all there' "$(cd "$W/root/my 'own' tools" && find . -type f | wc -l) $(ls "$W/root/my")" "$(($(ls "$CTR_BUILD/bin" "$top/man" | grep -c 'ctr') + $(ls "$CTR_BUILD/lib/ctr" | wc -l) + 3)) file"
ok 'make uninstall from there' odd uninstall
is 'leaves what is beside it' "$(cd "$W/root" && find . -type f -o -type l)" './my/file'
done_testing
