/* SPDX-License-Identifier: Apache-2.0
 *
 * ftrl with the square root of a counter, for the table rows that ftrl.c does not know: all phases of a row in one,
 * with the bits of the loops of optimizer_body.h. optimizer_types.h includes this text behind that one.
 *
 * The columns of such a row, each loaded and stored by itself, or two as one word: so no load meets a part of the row's
 * last stores, for which it would have to wait.
 *
 *     byte                 8           12          16
 *     squares, q2.13       value n
 *     counts, q2.13        N     P     value
 *     counts, f32          N     P     value
 *     counts, f64          N     P     value                    */
#define HALF(counts)  ((counts) ? 8 : 10)
#define VALUE(counts) ((counts) ? 12 : 8)
#define EIGHT(call)   call(0), call(1), call(2), call(3), call(4), call(5), call(6), call(7)

LOOP void NAME(gather)(const struct ctr_coords *s, uint8_t *const *row, int64_t i, const bool q13, const bool counts)
{
    REAL *value = (REAL *)s->z + i, *n = (REAL *)s->n + i;
#define WORD_AT(j)    load_word(row[i + (j)] + 8)
#define HALF_AT(j)    load_half(row[i + (j)] + HALF(counts))
#define WIDE_AT(j)    load_word(row[i + (j)] + VALUE(counts))
#define QUARTER_AT(j) load_quarter(row[i + (j)] + VALUE(counts))
    halves half;
    if (sizeof(REAL) == 4 && !q13) {
        const words both = { EIGHT(WORD_AT) };
        const halves right = __builtin_convertvector(both >> 32, halves);
        half = __builtin_convertvector(both, halves);
        memcpy(value, &right, sizeof right);
    } else {
        half = (halves){ EIGHT(HALF_AT) };
        if (q13) {
            const lanes_f32 z = __builtin_convertvector((shorts){ EIGHT(QUARTER_AT) }, lanes_f32) * 0x1p-13f;
            memcpy(value, &z, sizeof z);
        } else {
            const words wide = { EIGHT(WIDE_AT) };
            memcpy(value, &wide, sizeof wide);
        }
    }
    memcpy(counts ? (void *)(s->more->count + i) : (void *)n, &half, sizeof half);
#undef WORD_AT
#undef HALF_AT
#undef WIDE_AT
#undef QUARTER_AT
}

LOOP void NAME(scatter)(const struct ctr_coords *s, uint8_t *const *row, int64_t i, const bool q13, const bool counts)
{
    const struct ctr_more *m = s->more;
    const REAL *value = (const REAL *)s->z + i;
    const uint8_t *half = counts ? (const void *)(m->count + i) : (const void *)((const REAL *)s->n + i);
    halves left, right;
    memcpy(&left, half, sizeof left);
    memcpy(&right, value, sizeof right);
    const words both = __builtin_convertvector(left, words) | __builtin_convertvector(right, words) << 32;
    for (int j = 0; j < CTR_LANES; j++) {
        const uint64_t word = both[j];
        const int16_t q = (int16_t)m->q[i + j];
        if (sizeof(REAL) == 4 && !q13) {
            memcpy(row[i + j] + 8, &word, sizeof word);
            continue;
        }
        memcpy(row[i + j] + HALF(counts), half + (size_t)j * sizeof(uint32_t), sizeof(uint32_t));
        memcpy(row[i + j] + VALUE(counts), q13 ? (const void *)&q : (const void *)(value + j),
               q13 ? sizeof q : sizeof *value);
    }
}

LOOP void NAME(fused_load)(const struct ctr_coords *s, uint8_t *const *row, int64_t room, const bool q13,
                           const bool counts)
{
    for (int64_t i = 0; i < room; i += CTR_LANES)
        NAME(gather)(s, row, i, q13, counts);
}

LOOP void NAME(fused_roots)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room, const bool q13,
                            const bool counts)
{
    const uint32_t *restrict count = s->more->count;
    REAL *restrict z = s->z, *restrict n = s->n, *restrict root = s->root, seen;
    PARAMS;
    for (int64_t i = 0; i < room; i++) {
        if (counts)
            n[i] = NAME(of_counts)(count[i], &seen);
        root[i] = sqrt(n[i]);
        if (q13)
            z[i] *= (beta + root[i]) * inv_alpha;
    }
}

LOOP double NAME(fused_forward)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,
                                int64_t k, const bool q13, const bool counts)
{
    const int64_t room = (k + CTR_LANES - 1) / CTR_LANES * CTR_LANES;
    const uint32_t *restrict count = s->more->count;
    REAL *restrict z = s->z, *restrict n = s->n, *restrict w = s->w, *restrict root = s->root, seen;
    PARAMS;
    NAME(fused_load)(s, row, room, q13, counts);
    for (int64_t i = 0; i < room; i++) {
        if (counts)
            n[i] = NAME(of_counts)(count[i], &seen);
        root[i] = sqrt(n[i]);
        REAL by = (beta + root[i]) * inv_alpha;
        if (q13)
            z[i] *= by;
        REAL size = fabs(z[i]) - l1, v = size / (by + l2);
        v = z[i] > 0 ? -v : v;
        w[i] = size <= 0 ? 0 : v;
    }
    return NAME(dot)(w, s->x, room);
}

LOOP void NAME(fused_update)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t k,
                             double g, const bool q13, const bool counts)
{
    const int64_t room = (k + CTR_LANES - 1) / CTR_LANES * CTR_LANES;
    REAL *restrict z = s->z, *restrict n = s->n, *restrict next = s->more->next;
    const REAL *restrict w = s->w, *restrict root = s->root;
    const double *restrict x = s->x;
    PARAMS;
    halve_any(p, s, room);
    if (counts)
        NAME(advance_counts_any)(p, s, room, false);
    for (int64_t i = 0; i < room; i++) {
        REAL gi = (REAL)(g * x[i]), to = n[i] + gi * gi;
        if (!counts)
            n[i] = to;
        REAL raised = counts ? next[i] : sqrt(to), sigma = (raised - root[i]) * inv_alpha;
        z[i] += gi - sigma * w[i];
        REAL by = beta + raised;
        if (q13)
            z[i] *= alpha / (by + (REAL)(by == 0));
    }
    if (q13)
        round_any(p, s, room);
    for (int64_t i = 0; i < room; i += CTR_LANES)
        NAME(scatter)(s, row, i, q13, counts);
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
        const int64_t room = (k + CTR_LANES - 1) / CTR_LANES * CTR_LANES;                                              \
        NAME(fused_load)(s, row, room, q13, counts);                                                                   \
        NAME(fused_roots)(p, s, room, q13, counts);                                                                    \
        NAME(update_##name)(p, s, row, k, g);                                                                          \
    }
