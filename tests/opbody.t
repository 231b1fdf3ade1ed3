#!/bin/sh
# The bodies of the operators are C that is also C++, without a libc; and they compile without any header when the macro of
# NVRTC is set.
. "${0%/*}/lib.sh"
CXX=${CXX:-g++}
command -v "$CXX" >/dev/null || skip_all "no $CXX"
cd "$CTR_TOP" || exit 1
for f in body body_text body_json body_hash body_list body_url body_time body_regex; do
    echo "#include \"common/op/$f.h\""
done >"$W/bodies.h"
cat >"$W/device.h" <<'END'
#define __CUDACC_RTC__ 1
#define __device__
#define __noinline__
#define __forceinline__ inline
static inline unsigned __byte_perm(unsigned x, unsigned, unsigned)
{
    return __builtin_bswap32(x);
}
static inline double __dsqrt_rn(double x)
{
    return __builtin_sqrt(x);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
END
ok "as freestanding C" cc -std=c11 -ffreestanding -fsyntax-only -Wall -Wextra -Wno-unknown-pragmas -Werror -Isrc -x c "$W/bodies.h"
ok "as freestanding C++" "$CXX" -ffreestanding -fsyntax-only -Wall -Wextra -Werror -Isrc -x c++ "$W/bodies.h"
cat "$W/device.h" "$W/bodies.h" >"$W/nvrtc.h"
ok "as device code, without headers" "$CXX" -ffreestanding -nostdinc -fsyntax-only -Isrc -x c++ "$W/nvrtc.h"

# lower() of every letter of its scripts, beside Perl's lc: what has as many bytes of UTF-8 in lower case is in lower case.
cat >"$W/letters.pl" <<'END'
use utf8; use feature "unicode_strings"; binmode STDOUT, ":utf8"; print "x\ty\n";
for my $c (0xc0 .. 0xd7ff) {
    my $s = chr $c;
    next unless $s =~ /[\p{Latin}\p{Greek}\p{Cyrillic}\p{Armenian}]/ and $s =~ /\p{L}/ and $s =~ /\p{In: 14.0}/;
    my $l = lc $s;
    my ($x, $y) = ($s, $l);
    utf8::encode($x);
    utf8::encode($y);
    $l = $s if length $l != 1 or length $x != length $y;
    print "a$s\ta$l\n";
}
END
perl "$W/letters.pl" >"$W/letters.tsv"
ok "letters of four scripts" test "$(wc -l <"$W/letters.tsv")" -gt 1500
is "lower() beside Perl" "$(ctr-import -q -f tsv --header "$W/letters.tsv" | ctr-select -q --where 'lower(x) != y' | ctr-export -q -f tsv | sed 1d)" ""
ok "most capitals" test "$(ctr-import -q -f tsv --header "$W/letters.tsv" | ctr-select -q --where 'lower(x) != x' | ctr-info - | sed -n 's/^rows: //p')" -gt 700
done_testing
