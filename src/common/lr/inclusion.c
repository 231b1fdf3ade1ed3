/* SPDX-License-Identifier: Apache-2.0
 *
 * Inclusion of new keys. See inclusion.h. A key's counters of all generations are in one cache line: loading it is the
 * main cost. */
#include "common/lr/inclusion.h"

#include <math.h>
#include <stdlib.h>

#include "common/table/table.h"

enum {
    GENERATIONS = 4, /* 4 bits of a cell each */
    LINE = 64,
    PROBES = 4,
    LOAD = 2, /* occurrences per line before the next generation counts */
    REGISTERS = 4096,
    HEADER = 5, /* words of a saved state before its registers */
};

struct ctr_inclusion {
    double poisson;
    int bloom;
    uint64_t seed;
    int64_t pass, refused;
    uint8_t rank[REGISTERS]; /* of a HyperLogLog of the keys asked about */
    /* bloom */
    uint8_t *line; /* of 32 cells; a cell holds 4 bits of every generation */
    uint64_t lines;
    struct ctr_area area;
    int64_t now, counted; /* the current generation, and its number of counts */
};

int ctr_inclusion_parse(void *params, const char *text, struct ctr_err *err)
{
    struct ctr_params *p = params;
    const size_t n = strlen(text);
    p->lr.poisson = 0;
    p->lr.bloom = 0;
    if (!strcmp(text, "all"))
        return 0;
    if (!strncmp(text, "poisson=", 8) && ctr_parse_f64(text + 8, n - 8, &p->lr.poisson) && p->lr.poisson > 0 &&
        p->lr.poisson <= 1)
        return 0;
    if (!strncmp(text, "bloom=", 6) && ctr_parse_i64(text + 6, n - 6, &p->lr.bloom) && p->lr.bloom >= 1 &&
        p->lr.bloom <= CTR_MAX_BLOOM)
        return 0;
    return ctr_fail(err, CTR_EUSAGE,
                    "--inclusion wants all, poisson=P with P above 0 and at most 1, or bloom=N with N from 1 to %d, "
                    "not '%s'",
                    CTR_MAX_BLOOM, text);
}

int ctr_inclusion_new(struct ctr_inclusion **out, const struct ctr_params *p, struct ctr_err *err)
{
    *out = NULL;
    if (!p->lr.bloom && !(p->lr.poisson > 0))
        return 0;
    struct ctr_inclusion *n = calloc(1, sizeof *n);
    if (!n)
        return ctr_fail_nomem(err, sizeof *n);
    n->poisson = p->lr.poisson;
    n->bloom = (int)p->lr.bloom;
    n->seed = (uint64_t)p->seed;
    n->lines = p->lr.bloom ? (uint64_t)p->lr.bloom_bytes / LINE : 0;
    int rc = n->lines ? ctr_area_grow(&n->area, n->lines * LINE, err) : 0;
    if (rc) {
        free(n);
        return rc;
    }
    n->line = n->area.base;
    *out = n;
    return 0;
}

void ctr_inclusion_free(struct ctr_inclusion *n)
{
    if (!n)
        return;
    ctr_area_free(&n->area);
    free(n);
}

/* ---- decisions ---- */

void ctr_inclusion_end_pass(struct ctr_inclusion *n)
{
    n->pass++;
}

/* Clear the oldest generation, which counts next. */
static void next_generation(struct ctr_inclusion *n)
{
    n->now = (n->now + 1) % GENERATIONS;
    n->counted = 0;
    const uint64_t keep = ~(UINT64_C(0x000f000f000f000f) << 4 * n->now);
    uint64_t *word = (uint64_t *)(void *)n->line;
    for (uint64_t i = 0; i < n->lines * (LINE / 8); i++)
        word[i] &= keep;
}

/* The counters of a cell as bytes, and the bytewise minimum of two; all are below 16. */
static uint32_t spread(uint16_t cell)
{
    return (cell & 0x0f0fu) | (uint32_t)(cell >> 4 & 0x0f0f) << 16;
}
static uint32_t lesser(uint32_t a, uint32_t b)
{
    const uint32_t not_less = ((a | 0x80808080u) - b) & 0x80808080u, mask = (not_less >> 7) * 255;
    return (b & mask) | (a & ~mask);
}

/* Has the key occurred `bloom` times? Otherwise count this occurrence: only the smallest counters are incremented,
 * which reduces errors ("conservative update"). */
static bool came_often(struct ctr_inclusion *n, uint64_t x)
{
    uint16_t *line = (uint16_t *)(void *)(n->line + ctr_hash_scale(x, n->lines) * LINE), *cell[PROBES];
    uint32_t least = 0x0f0f0f0f;
    for (int i = 0; i < PROBES; i++) {
        cell[i] = &line[x >> 5 * i & 31];
        least = lesser(least, spread(*cell[i]));
    }
    if ((int)(least * 0x01010101u >> 24) >= n->bloom)
        return true;
    const uint16_t one = (uint16_t)(1u << 4 * n->now), mask = (uint16_t)(15 * one);
    uint16_t low = mask;
    for (int i = 0; i < PROBES; i++)
        low = CTR_MIN(low, *cell[i] & mask);
    for (int i = 0; i < PROBES; i++)
        if ((*cell[i] & mask) == low)
            *cell[i] = (uint16_t)(*cell[i] + one);
    if (++n->counted == LOAD * (int64_t)n->lines)
        next_generation(n);
    return false;
}

static void remember(struct ctr_inclusion *n, uint64_t x)
{
    uint8_t *rank = &n->rank[x % REGISTERS], r = (uint8_t)(__builtin_clzll(x | REGISTERS) + 1);
    *rank = CTR_MAX(*rank, r);
}

uint64_t ctr_inclusion_draw(const struct ctr_inclusion *n, uint64_t table_seed, uint64_t hash)
{
    return ctr_mix64(ctr_mix64(table_seed + n->seed) ^ hash);
}

void ctr_inclusion_prefetch(const struct ctr_inclusion *n, uint64_t draw)
{
    if (n->lines)
        __builtin_prefetch(n->line + ctr_hash_scale(draw, n->lines) * LINE, 1);
}

bool ctr_inclusion_takes(struct ctr_inclusion *n, int64_t row, uint64_t draw)
{
    remember(n, draw);
    const bool take =
        n->bloom ? came_often(n, draw) : ctr_random01(draw, (uint64_t)n->pass, (uint64_t)row) < n->poisson;
    n->refused += !take;
    return take;
}

/* ---- words for the user ---- */

int64_t ctr_inclusion_bytes(const struct ctr_inclusion *n)
{
    return n ? (int64_t)(n->lines * LINE) : 0;
}

int64_t ctr_inclusion_refused(const struct ctr_inclusion *n)
{
    return n->refused;
}

/* Flajolet et al., HyperLogLog (2007), with linear counting while registers are empty. */
int64_t ctr_inclusion_seen(const struct ctr_inclusion *n)
{
    const double m = REGISTERS;
    double sum = 0;
    int empty = 0;
    for (int i = 0; i < REGISTERS; i++) {
        sum += ldexp(1, -n->rank[i]);
        empty += !n->rank[i];
    }
    double e = 0.7213 / (1 + 1.079 / m) * m * m / sum;
    return llround(e < 2.5 * m && empty ? m * log(m / empty) : e);
}

void ctr_inclusion_summary(const struct ctr_inclusion *n, int64_t keys, struct ctr_say *text)
{
    if (!n)
        return;
    const int64_t seen = CTR_MAX(ctr_inclusion_seen(n), keys);
    ctr_say(text,
            "keys refused         %lld of about %lld, %lld times\n"
            "inclusion filter     %s\n",
            (long long)(seen - keys), (long long)seen, (long long)n->refused,
            ctr_size_text((uint64_t)ctr_inclusion_bytes(n)).s);
}

/* ---- checkpoints ---- */

int ctr_inclusion_save(const struct ctr_inclusion *n, struct ctr_buf *words, struct ctr_err *err)
{
    const uint64_t header[HEADER] = { (uint64_t)n->refused, (uint64_t)n->now, (uint64_t)n->counted, n->lines,
                                      (uint64_t)n->pass };
    int rc = ctr_buf_append(words, header, sizeof header, err);
    if (!rc)
        rc = ctr_buf_append(words, n->rank, sizeof n->rank, err);
    return rc || !n->lines ? rc : ctr_buf_append(words, n->line, n->lines * LINE, err);
}

static size_t words_of(const struct ctr_inclusion *n)
{
    return HEADER + REGISTERS / 8 + n->lines * (LINE / 8);
}

int ctr_inclusion_load(struct ctr_inclusion *n, const uint64_t *word, size_t words, struct ctr_err *err)
{
    const int64_t full = LOAD * (int64_t)n->lines;
    if (words != words_of(n) || word[3] != n->lines || word[1] >= GENERATIONS || word[4] > INT64_MAX ||
        (full ? word[2] >= (uint64_t)full : word[2] != 0))
        return ctr_fail(err, CTR_EDATA, "the checkpoint's state of --inclusion is damaged");
    n->refused = (int64_t)word[0];
    n->now = (int64_t)word[1];
    n->counted = (int64_t)word[2];
    n->pass = (int64_t)word[4];
    memcpy(n->rank, word + HEADER, sizeof n->rank);
    if (n->lines)
        memcpy(n->line, word + HEADER + REGISTERS / 8, n->lines * LINE);
    return 0;
}
