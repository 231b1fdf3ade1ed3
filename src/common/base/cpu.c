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

static const char *const names[] = { "plain", "avx2", "avx512" };

/* The level of a name; -1: there is none. */
static int level_of(const char *name)
{
    int level = (int)CTR_COUNT(names) - 1;
    while (level >= 0 && strcmp(name, names[level]) != 0)
        level--;
    return level;
}

int ctr_cpu_check(struct ctr_err *err)
{
    const char *most = getenv("CTR_CPU");
    if (!most || !*most || level_of(most) >= 0)
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "the environment has CTR_CPU=%s: it is %s, %s or %s", most, names[CTR_CPU_PLAIN],
                    names[CTR_CPU_AVX2], names[CTR_CPU_AVX512]);
}

void ctr_cpu_limit(const char *most)
{
    int level = most ? level_of(most) : -1;

    if (level < 0)
        level = CTR_CPU_AVX512;
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
