#!/bin/bash
# make install puts programs, manuals and completion in place; the completion completes; make uninstall takes all away.
. "${0%/*}/lib.sh"
top=$CTR_TOP
installs() { make -s -C "$top" install B="$CTR_BUILD" DESTDIR="$W/root" PREFIX=/usr; }
ok 'make install' installs
is 'every program' "$(cd "$W/root/usr/bin" && ls)" "$(cd "$CTR_BUILD/bin" && ls)"
is 'every manual' "$(cd "$W/root/usr/share/man" && find . -type f | sed 's,.*/,,' | sort)" "$(cd "$top/man" && ls | sort)"
ok 'an installed program runs' "$W/root/usr/bin/ctr-info" --version
is 'ctrkit finds its tools' "$("$W/root/usr/bin/ctrkit" --list | wc -l)" "$(ls "$CTR_BUILD/bin" | grep -c '^ctr-')"
mkdir "$W/a 'b\" \$c" && cp "$CTR_BUILD/bin/ctrkit" "$CTR_BUILD/bin/ctr-cat" "$W/a 'b\" \$c"
is 'in any folder' "$("$W/a 'b\" \$c/ctrkit" --list)" 'ctr-cat          concatenate streams, convert between stream and file'
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
is 'bash completes options' "$(completions ctr-join --with)" '--within'
is 'and choices' "$(completions ctr-cat --compress z)" 'zstd'
is 'the formats of ctr-import' "$(completions ctr-import --format '' | tr '\n' ' ')" 'csv tsv jsonl libsvm libffm vw '
is 'the formats of ctr-export' "$(completions ctr-export -f lib | tr '\n' ' ')" 'libsvm libffm '
is 'metrics' "$(completions ctr-eval --metrics au | tr '\n' ' ')" 'auc auc_loss '
is 'more metrics behind a comma' "$(completions ctr-eval -m log_loss,ga)" 'log_loss,gauc'
is 'the model to train' "$(completions ctr-train '')" "lr
mlp"
is 'behind ctrkit too' "$(completions ctrkit train --l1 1 '')" "lr
mlp"
is 'what to do with a model' "$(completions ctr-model t)" 'top'
is 'then files' "$(cd "$top/man" && completions ctr-model top ctr-i | sort | tr '\n' ' ')" 'ctr-import.1 ctr-info.1 '
is 'files where there is no such word' "$(cd "$top/man" && completions ctr-cat ctr-c | sort | tr '\n' ' ')" 'ctr-calibrate.1 ctr-cat.1 '
is 'manuals' "$(completions ctrkit help ev)" 'eval'
is 'shells' "$(completions ctrkit --completion b)" 'bash'
ok 'the help has the metrics' sh -c 'ctr-eval --help | grep -A1 -e "--metrics" | grep -q "auc,auc_loss,.*gauc"'
is 'and tools' "$(completions ctrkit calib)" 'calibrate'
is 'and options behind ctrkit' "$(completions ctrkit calibrate --pie)" '--pieces'
if command -v zsh >/dev/null; then
    ok 'zsh reads its completion' zsh -n "$W/root/usr/share/zsh/site-functions/_ctrkit"
    specs() { # specs WORD… : what zsh is told to offer
        zsh -fc '_arguments() { print -rl -- "$@" }; compadd() { print -r -- "$@" }
            script=$1; shift; words=("$@") CURRENT=$#; source $script' zsh "$W/root/usr/share/zsh/site-functions/_ctrkit" "$@"
    }
    is 'zsh has choices' "$(specs ctr-export '' | sed -n 's/^--format=.*:value://p')" '(csv tsv jsonl libsvm libffm vw npy safetensors)'
    is 'zsh has flags' "$(specs ctr-join '' | grep '^--inner')" "$(ctr-join --list-options | awk -F'\t' '$1 == "--inner" { print $1 "[" $5 "]" }')"
    is 'zsh has metrics' "$(specs ctr-eval '' | grep -c '^--metrics=.*:_values -s , word auc auc_loss ')" 1
    is 'zsh has models' "$(specs ctrkit train '' | grep '^1:')" '1:word:(lr)'
    is 'zsh has manuals' "$(specs ctrkit help ev | grep -c 'eval')" 1
else
    skip 'zsh reads its completion' 'no zsh'
fi
ok 'make uninstall' make -s -C "$top" uninstall B="$CTR_BUILD" DESTDIR="$W/root" PREFIX=/usr
is 'leaves nothing' "$(find "$W/root" -type f -o -type l)" ''
done_testing
