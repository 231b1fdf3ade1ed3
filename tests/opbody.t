#!/bin/sh
# The bodies of the operators are C that is also C++, without a libc; and they compile without any header when the macro of
# NVRTC is set.
. "${0%/*}/lib.sh"
CXX=${CXX:-g++}
command -v "$CXX" >/dev/null || skip_all "no $CXX"
cd "$CTR_TOP" || exit 1
for f in opbody opbody_text opbody_json opbody_hash opbody_list opbody_url; do
    echo "#include \"common/op/$f.h\""
done >"$W/bodies.h"
cat >"$W/device.h" <<'END'
#define __CUDACC_RTC__ 1
#define __device__
#define __noinline__
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
END
ok "as freestanding C" cc -std=c11 -ffreestanding -fsyntax-only -Wall -Wextra -Wno-unknown-pragmas -Werror -Isrc -x c "$W/bodies.h"
ok "as freestanding C++" "$CXX" -ffreestanding -fsyntax-only -Wall -Wextra -Werror -Isrc -x c++ "$W/bodies.h"
cat "$W/device.h" "$W/bodies.h" >"$W/nvrtc.h"
ok "as device code, without headers" "$CXX" -ffreestanding -nostdinc -fsyntax-only -Isrc -x c++ "$W/nvrtc.h"
done_testing
