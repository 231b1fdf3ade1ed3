/* SPDX-License-Identifier: Apache-2.0
 *
 * ftrl with the square root of a counter, for the states that ftrl.c does not know: all phases of a row in one pass
 * over vectors of eight coordinates, with the bits of the loops of optimizer_body.h. For AVX-512, whose masks and
 * shuffles it needs: with less the loops are faster. optimizer_types.h includes this text behind that one.
 *
 * The columns of such a state, each loaded and stored by itself, or two as one word: so no load meets a part of the
 * row's last stores, for which it would have to wait.
 *
 *     byte of the row      8           12          16
 *     squares, q2.13       value n
 *     counts, q2.13        N     P     value
 *     counts, f32          N     P     value
 *     counts, f64          N     P     value                    */
#define HALF_OF(counts)  ((counts) ? 8 : 10)
#define VALUE_OF(counts) ((counts) ? 12 : 8)
#define EIGHT(call)      call(0), call(1), call(2), call(3), call(4), call(5), call(6), call(7)
#define BITS             TYPED(bits, TYPE)

/* Eight states to vectors: `half` is the column of four bytes, n or the counts. */
CTR_BODY void NAME(gather)(uint8_t *const *row, VECTOR *value, halves *half, const bool q13, const bool counts)
{
#define WORD_AT(j)    load_word(row[j] + 8)
#define HALF_AT(j)    load_half(row[j] + HALF_OF(counts))
#define WIDE_AT(j)    load_word(row[j] + VALUE_OF(counts))
#define QUARTER_AT(j) load_quarter(row[j] + VALUE_OF(counts))
    if (sizeof(REAL) == 4 && !q13) {
        const struct eight_words both = WORDS(WORD_AT);
        const halves right = UPPER(both);
        *half = LOWER(both);
        memcpy(value, &right, sizeof right);
        return;
    }
    *half = (halves){ EIGHT(HALF_AT) };
    if (q13) {
        *value = __builtin_convertvector((shorts){ EIGHT(QUARTER_AT) }, VECTOR) * (REAL)0x1p-13;
    } else {
        const struct eight_words wide = WORDS(WIDE_AT);
        memcpy(value, &wide, sizeof *value);
    }
#undef WORD_AT
#undef HALF_AT
#undef WIDE_AT
#undef QUARTER_AT
}

/* The same back. q2.13: `value` is shorts. */
CTR_BODY void NAME(scatter)(uint8_t *const *row, const void *value, const halves *half, const bool q13,
                            const bool counts)
{
    if (sizeof(REAL) == 4 && !q13) {
        halves right;
        memcpy(&right, value, sizeof right);
        const struct eight_words both = JOIN(*half, right);
        for (int j = 0; j < CTR_LANES; j++) {
            const uint64_t word = ((quad)both.in[j / 4])[j % 4];
            memcpy(row[j] + 8, &word, sizeof word);
        }
        return;
    }
    for (int j = 0; j < CTR_LANES; j++) {
        uint8_t *to = row[j];
        const uint32_t own = (*half)[j];
        memcpy(to + HALF_OF(counts), &own, sizeof own);
        memcpy(to + VALUE_OF(counts), (const uint8_t *)value + (size_t)j * sizeof(REAL),
               q13 ? sizeof(int16_t) : sizeof(REAL));
    }
}

CTR_BODY void NAME(roots)(VECTOR *n)
{
    for (int j = 0; j < CTR_LANES; j++)
        (*n)[j] = sqrt((*n)[j]);
}

/* 1 where v is 0, so that it can divide. */
CTR_BODY void NAME(not_zero)(VECTOR *v)
{
    const VECTOR one = (VECTOR){ 0 } + 1;
    *v += (VECTOR)((BITS)one & (*v == 0));
}

/* The root of PN/(N+P), as of_counts has it. */
CTR_BODY void NAME(roots_of_counts)(const halves *count, VECTOR *root)
{
    const halves codes[2] = { *count & 0xffff, *count >> 16 };
    VECTOR seen[2], sum;
    for (int i = 0; i < 2; i++) {
        const halves bits = (codes[i] << (23 - COUNT_BITS)) + ((uint32_t)(127 + COUNT_BITS) << 23);
        seen[i] = __builtin_convertvector((lanes_f32)bits - (float)(1 << COUNT_BITS), VECTOR);
    }
    sum = seen[0] + seen[1];
    NAME(not_zero)(&sum);
    *root = seen[0] * seen[1] / sum;
    NAME(roots)(root);
}

/* States to s->z (the true one), to s->n or the counts, and to s->root. */
CTR_BODY void NAME(fused_load)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t i,
                               VECTOR *z, VECTOR *root, const bool q13, const bool counts)
{
    halves half;
    NAME(gather)(row + i, z, &half, q13, counts);
    if (counts) {
        NAME(roots_of_counts)(&half, root);
        memcpy(s->more->count + i, &half, sizeof half);
    } else {
        memcpy(root, &half, sizeof half);
        memcpy((REAL *)s->n + i, &half, sizeof half);
        NAME(roots)(root);
    }
    if (q13)
        *z *= ((REAL)p->beta + *root) * (REAL)p->inv_alpha;
    memcpy((REAL *)s->z + i, z, sizeof *z);
    memcpy((REAL *)s->root + i, root, sizeof *root);
}

CTR_BODY double NAME(fused_forward)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,
                                    int64_t k, const bool q13, const bool counts)
{
    const BITS top = (BITS) - ((VECTOR){ 0 });
    lanes sum = { 0 };
    PARAMS;
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        VECTOR z, root;
        lanes x;
        NAME(fused_load)(p, s, row, i, &z, &root, q13, counts);
        memcpy(&x, s->x + i, sizeof x);
        const VECTOR size = (VECTOR)((BITS)z & ~top) - l1, v = size / ((beta + root) * inv_alpha + l2);
        const VECTOR w = (VECTOR)(((BITS)v ^ ((z > 0) & top)) & ~(size <= 0));
        memcpy((REAL *)s->w + i, &w, sizeof w);
        sum += __builtin_convertvector(w, lanes) * x;
    }
    return join_lanes(&sum);
}

/* Counts of one event more, as advance_counts has them. */
CTR_BODY void NAME(count_event)(const halves *draw, uint32_t shift, const lanes *x, halves *count)
{
    const halves own = *count >> shift & 0xffff, below = (1u << (own >> COUNT_BITS)) - 1;
    const bits_f64 any = *x != 0;
    struct eight_words used;
    memcpy(&used, &any, sizeof used);
    const shorts hit = ((*draw & below) == 0) & (shorts)LOWER(used) & (own != 0xffff);
    *count -= (halves)hit << shift;
}

/* What does not wait for the gradient: the draws, and the counts and their roots. */
CTR_BODY void NAME(fused_draw)(const struct ctr_coords *s, int64_t k, const bool q13, const bool counts)
{
    const struct ctr_more *m = s->more;
    const uint32_t low = (uint32_t)m->event.draw, high = (uint32_t)(m->event.draw >> 32);
    const uint32_t shift = m->event.positive ? 16 : 0;
    const uint32_t *restrict lows = m->low, *restrict highs = m->high;
    uint32_t *restrict count = m->count;
    float *restrict u = (float *)(void *)m->q;
    REAL *restrict next = m->next;
    const double *restrict xs = s->x;
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        halves draw;
        if (q13) {
            memcpy(&draw, lows + i, sizeof draw);
            draw += low;
            scatter_eight(&draw);
            const lanes_f32 to = __builtin_convertvector((shorts)(draw >> 8), lanes_f32) * 0x1p-24f;
            memcpy(u + i, &to, sizeof to);
        }
        if (counts) {
            halves own;
            VECTOR root;
            lanes x;
            memcpy(&draw, highs + i, sizeof draw);
            draw += high;
            scatter_eight(&draw);
            memcpy(&x, xs + i, sizeof x);
            memcpy(&own, count + i, sizeof own);
            NAME(count_event)(&draw, shift, &x, &own);
            NAME(roots_of_counts)(&own, &root);
            memcpy(count + i, &own, sizeof own);
            memcpy(next + i, &root, sizeof root);
        }
    }
}

CTR_BODY void NAME(fused_update)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,
                                 int64_t k, double g, const bool q13, const bool counts)
{
    struct ctr_more *m = s->more;
    const REAL *restrict zs = s->z, *restrict ws = s->w, *restrict roots = s->root, *restrict next = m->next;
    const float *restrict us = (const float *)(const void *)m->q;
    const double *restrict xs = s->x;
    const void *const restrict halfs = counts ? (const void *)m->count : s->n;
    shorts clips = { 0 }, q;
    PARAMS;
    NAME(fused_draw)(s, k, q13, counts);
    const bool zero = beta == 0;
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        VECTOR z, w, root, raised;
        halves half;
        lanes x;
        memcpy(&z, zs + i, sizeof z);
        memcpy(&w, ws + i, sizeof w);
        memcpy(&root, roots + i, sizeof root);
        memcpy(&half, (const uint32_t *)halfs + i, sizeof half);
        memcpy(&x, xs + i, sizeof x);
        const VECTOR gi = __builtin_convertvector(g * x, VECTOR);
        if (counts) {
            memcpy(&raised, next + i, sizeof raised);
        } else {
            memcpy(&raised, &half, sizeof half);
            raised += gi * gi;
            memcpy(&half, &raised, sizeof half);
            NAME(roots)(&raised);
        }
        z += gi - (raised - root) * inv_alpha * w;
        if (q13) {
            VECTOR by = beta + raised;
            lanes_f32 u;
            memcpy(&u, us + i, sizeof u);
            if (zero)
                NAME(not_zero)(&by);
            z *= alpha / by;
            round_eight(&z, &u, &q, &clips);
        }
        NAME(scatter)(row + i, q13 ? (const void *)&q : (const void *)&z, &half, q13, counts);
    }
    for (int j = 0; j < CTR_LANES && q13; j++)
        m->event.clips -= clips[j];
}

#define FUSED(name, q13, counts)                                                                                       \
    ATTRIBUTES static double NAME(forward_##name)(const struct ctr_learning *p, const struct ctr_coords *s,            \
                                                  uint8_t *const *row, int64_t k)                                      \
    {                                                                                                                  \
        return NAME(fused_forward)(p, s, row, k, q13, counts);                                                         \
    }                                                                                                                  \
    ATTRIBUTES static void NAME(update_##name)(const struct ctr_learning *p, const struct ctr_coords *s,               \
                                               uint8_t *const *row, int64_t k, double g)                               \
    {                                                                                                                  \
        start_event(p, &s->more->event);                                                                               \
        NAME(fused_update)(p, s, row, k, g, q13, counts);                                                              \
    }                                                                                                                  \
    ATTRIBUTES static void NAME(update_late_##name)(const struct ctr_learning *p, const struct ctr_coords *s,          \
                                                    uint8_t *const *row, int64_t k, double g)                          \
    {                                                                                                                  \
        VECTOR z, root;                                                                                                \
        for (int64_t i = 0; i < k; i += CTR_LANES)                                                                     \
            NAME(fused_load)(p, s, row, i, &z, &root, q13, counts);                                                    \
        NAME(update_##name)(p, s, row, k, g);                                                                          \
    }
