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
is 'and tools' "$(completions ctrkit calib)" 'calibrate'
is 'and options behind ctrkit' "$(completions ctrkit calibrate --pie)" '--pieces'
if command -v zsh >/dev/null; then
    ok 'zsh reads its completion' zsh -n "$W/root/usr/share/zsh/site-functions/_ctrkit"
else
    skip 'zsh reads its completion' 'no zsh'
fi
ok 'make uninstall' make -s -C "$top" uninstall B="$CTR_BUILD" DESTDIR="$W/root" PREFIX=/usr
is 'leaves nothing' "$(find "$W/root" -type f -o -type l)" ''
done_testing
