/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu: the instruction set that dispatched loops may use. Results never depend on it; tests verify that with the
 * environment variable CTR_CPU=plain|avx2|avx512, the highest level to use. Processor and environment are queried once,
 * because that takes longer than hashing a few hundred bytes. */
#include "common/base/base.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static int best = -1; /* -1: not yet known */

static bool has_level(enum ctr_cpu level)
{
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

void ctr_cpu_limit(const char *most)
{
    static const char *const names[] = { "plain", "avx2", "avx512" };
    int level = CTR_CPU_AVX512;

    for (int i = 0; most && i < (int)CTR_COUNT(names); i++)
        if (!strcmp(most, names[i]))
            level = i;
    while (level > CTR_CPU_PLAIN && !has_level((enum ctr_cpu)level))
        level--;
    __atomic_store_n(&best, level, __ATOMIC_RELAXED);
}

enum ctr_cpu ctr_cpu_best(void)
{
    if (__atomic_load_n(&best, __ATOMIC_RELAXED) < 0)
        ctr_cpu_limit(getenv("CTR_CPU"));
    return (enum ctr_cpu)__atomic_load_n(&best, __ATOMIC_RELAXED);
}

bool ctr_cpu_has(enum ctr_cpu level)
{
    return level <= ctr_cpu_best();
}

int ctr_cpu_count(void)
{
    cpu_set_t set; /* too small for some machines */
    const long n = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    return (int)CTR_MAX(n, 1);
}
