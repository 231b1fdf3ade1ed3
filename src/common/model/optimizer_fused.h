/* SPDX-License-Identifier: Apache-2.0
 *
 * ftrl with the square root of a counter, for the table rows that ftrl.c does not know: all phases of a row in one,
 * with the bits of the loops of optimizer_body.h. optimizer_types.h includes this text behind that one.
 *
 * Such a row has 14, 16 or 20 bytes. One load and one store of the 64 bits at MIDDLE do most of it; bits of the hash
 * that lie there go back as they came. What lies before them is loaded so that no load meets a part of the row's last
 * store, for which it would have to wait.
 *
 *     byte                 0             4           8           12          16
 *     squares, q2.13       hash                      value n
 *     counts, q2.13        hash                      N     P     value
 *     counts, f32          hash                      N     P     value
 *     counts, f64          hash                      N     P     value                    */
#define MIDDLE(q13) (sizeof(REAL) == 8 ? 4 : (q13) ? 6 : 8)
#define EIGHT(call) call(0), call(1), call(2), call(3), call(4), call(5), call(6), call(7)

LOOP void NAME(gather)(const struct ctr_coords *s, uint8_t *const *row, int64_t i, const bool q13, const bool counts)
{
    struct ctr_more *m = s->more;
    REAL *to = (REAL *)s->z + i, *to_n = (REAL *)s->n + i;
#define AT_MIDDLE(j) load_word(row[i + (j)] + MIDDLE(q13))
#define AT_12(j)     load_word(row[i + (j)] + 12)
#define AT_0(j)      load_half(row[i + (j)])
#define AT_4(j)      load_half(row[i + (j)] + 4)
#define SHORT_4(j)   load_quarter(row[i + (j)] + 4)
    const words middle = { EIGHT(AT_MIDDLE) };
    const halves left = __builtin_convertvector(middle, halves), right = __builtin_convertvector(middle >> 32, halves);
    halves count, high;
    if (sizeof(REAL) == 8) {
        const words value = { EIGHT(AT_12) };
        memcpy(to, &value, sizeof value);
        high = left, count = right;
    } else if (!q13) {
        high = (halves){ EIGHT(AT_4) }, count = left;
        memcpy(to, &right, sizeof right);
    } else {
        const lanes_f32 z = __builtin_convertvector((shorts)(counts ? right : left) >> 16, lanes_f32) * 0x1p-13f;
        const halves low = { EIGHT(AT_0) };
        memcpy(to, &z, sizeof z);
        memcpy(m->low + i, &low, sizeof low);
        high = left << 16, count = left >> 16 | right << 16;
        if (counts)
            high |= (halves){ EIGHT(SHORT_4) };
        else
            memcpy(to_n, &right, sizeof right);
    }
    memcpy(m->high + i, &high, sizeof high);
    if (counts)
        memcpy(m->count + i, &count, sizeof count);
#undef AT_MIDDLE
#undef AT_12
#undef AT_0
#undef AT_4
#undef SHORT_4
}

LOOP void NAME(scatter)(const struct ctr_coords *s, uint8_t *const *row, int64_t i, const bool q13, const bool counts)
{
    const struct ctr_more *m = s->more;
    halves high, count, value, n, left, right;
    memcpy(&high, m->high + i, sizeof high);
    memcpy(&count, m->count + i, sizeof count);
    memcpy(&value, q13 ? (const void *)(m->q + i) : (const void *)((REAL *)s->z + i), sizeof value);
    memcpy(&n, (REAL *)s->n + i, sizeof n);
    if (sizeof(REAL) == 8)
        left = high, right = count;
    else if (!q13)
        left = count, right = value;
    else if (counts)
        left = high >> 16 | count << 16, right = count >> 16 | value << 16;
    else
        left = high >> 16 | value << 16, right = n;
    const words middle = __builtin_convertvector(left, words) | __builtin_convertvector(right, words) << 32;
    for (int j = 0; j < CTR_LANES; j++) {
        const uint64_t word = middle[j];
        memcpy(row[i + j] + MIDDLE(q13), &word, sizeof word);
        if (sizeof(REAL) == 8)
            memcpy(row[i + j] + 12, (REAL *)s->z + i + j, sizeof(REAL));
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
