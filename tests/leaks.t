#!/bin/sh
# Under the sanitizers what leaks is told, though the search for leaks is left out where nothing is left (tests/unit/leaks.c).
. "${0%/*}/lib.sh"
[ -n "$SAN" ] || skip_all 'only a sanitizer searches for leaks'
cd "$W" || exit 1
cat >leak.c <<'END'
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    char *volatile kept = strdup(argv[0]), *volatile lost = strdup(argv[argc - 1]);
    if (argc == 1) {
        free(lost);
        free(kept);
    }
    kept = lost = NULL;
    if (argc == 3)
        (void)dlsym(RTLD_DEFAULT, "malloc"); /* frees what the loader said before main() */
    return 0;
}
END
# shellcheck disable=SC2046
ok 'a program' $(cat "$CTR_BUILD/flags") -o leak leak.c "$CTR_BUILD/libctr.a" $(pkg-config --libs zlib libxxhash libzstd liblz4) -lm -lpthread
exits 'that frees all' 0 ./leak
is 'says nothing' "$(cat err)" ''
ok 'and is not searched' sh -c 'nm -D leak | grep -q " T __lsan_is_turned_off"'
exits 'that does not' 23 env ASAN_OPTIONS=exitcode=99 LSAN_OPTIONS=exitcode=23 ./leak more
err_like 'is told' 'LeakSanitizer: detected memory leaks'
err_like 'of both' 'SUMMARY: AddressSanitizer: [0-9]* byte.* leaked in 2 allocation'
exits 'by default, with a status that no tool has' 99 ./leak more
exits 'that frees as much of before main()' 23 env ASAN_OPTIONS=exitcode=99 LSAN_OPTIONS=exitcode=23 ./leak more more
cat >undefined.c <<'END'
#include <limits.h>
#include <string.h>
int main(int argc, char **argv)
{
    return argc == 2 ? INT_MAX - 1 + argc : argc == 3 ? argv[1][strlen(argv[1]) + 1 + (size_t)argc * 4000] : 0;
}
END
# shellcheck disable=SC2046
ok 'a program' $(cat "$CTR_BUILD/flags") -o undefined undefined.c "$CTR_BUILD/libctr.a" $(pkg-config --libs zlib libxxhash libzstd liblz4) -lm -lpthread
exits 'in which nothing is undefined' 0 ./undefined
exits 'in which a sum is' 99 ./undefined more
err_like 'is told with its line' 'undefined.c:5'
exits 'which reads where nothing is' 99 ./undefined more more
err_like 'too' 'ERROR: AddressSanitizer'
done_testing
