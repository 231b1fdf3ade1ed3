/* SPDX-License-Identifier: Apache-2.0
 *
 * tap: unit tests in C. `ok(cond, "what %d", i)`; main ends with `return done_testing();`. */
#ifndef CTR_TAP_H
#define CTR_TAP_H

#include <stdio.h>

static int tap_n, tap_failed;
#define ok(cond, ...)                                                                                                  \
    do {                                                                                                               \
        int tap_ok_ = !!(cond);                                                                                        \
        printf("%sok %d - ", tap_ok_ ? "" : "not ", ++tap_n);                                                          \
        printf(__VA_ARGS__);                                                                                           \
        printf("\n");                                                                                                  \
        if (!tap_ok_) {                                                                                                \
            tap_failed++;                                                                                              \
            printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond);                                                        \
        }                                                                                                              \
    } while (0)
static inline int done_testing(void)
{
    printf("1..%d\n", tap_n);
    return tap_failed != 0;
}
#endif
