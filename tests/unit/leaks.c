/* SPDX-License-Identifier: Apache-2.0
 * Of a program under AddressSanitizer: where nothing is left allocated at its end, nothing has leaked,
 * and the search for leaks is left out. It takes a third of the time of a short run, for it reads all
 * memory of the sanitizer's library. Less than before main() is searched too: what was allocated there and is freed
 * (dlsym frees the words of an error) could hide a leak. What the compiler made trap, as it is undefined, is told with
 * its line, and what a sanitizer tells ends in a status that no tool has. tests/leaks.t */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

size_t __sanitizer_get_current_allocated_bytes(void); /* gcc comes without sanitizer/allocator_interface.h */
int __lsan_is_turned_off(void);
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "handle_sigill=1:exitcode=99";
}

static size_t before_main;
static void *volatile kept; /* so that nothing allocated, of which the sanitizer says 1, is not a byte that leaks */

/* The C library does not free its buffer of standard output, which so would always be left. */
static char out[4096];

__attribute__((constructor)) static void count(void)
{
    if (!isatty(STDOUT_FILENO))
        setvbuf(stdout, out, _IOFBF, sizeof out);
    kept = malloc(1);
    before_main = __sanitizer_get_current_allocated_bytes();
}

int __lsan_is_turned_off(void)
{
    return __sanitizer_get_current_allocated_bytes() == before_main;
}
