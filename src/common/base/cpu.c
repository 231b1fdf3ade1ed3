/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu: which instruction set the dispatched loops may use. Results never depend on it, which the environment variable
 * CTR_CPU=plain|avx2|avx512 lets tests show: it is the highest level that is used. */
#include "common/base/base.h"

#include <stdlib.h>

bool ctr_cpu_may(enum ctr_cpu level)
{
    static const char *const names[] = { "plain", "avx2", "avx512" };
    const char *most = getenv("CTR_CPU");

    for (int i = 0; most && i < (int)CTR_COUNT(names); i++)
        if (!strcmp(most, names[i]) && i < (int)level)
            return false;
#if defined(__x86_64__)
    switch (level) {
    case CTR_CPU_PLAIN: return true;
    case CTR_CPU_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
    case CTR_CPU_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    }
    return false;
#else
    return level == CTR_CPU_PLAIN;
#endif
}

enum ctr_cpu ctr_cpu_best(void)
{
    int level = CTR_CPU_AVX512;
    while (level > CTR_CPU_PLAIN && !ctr_cpu_may((enum ctr_cpu)level))
        level--;
    return (enum ctr_cpu)level;
}
