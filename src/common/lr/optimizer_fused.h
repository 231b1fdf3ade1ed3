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
#define BITS             TYPED(bits, TYPE)
#define IN_TYPE(call)    TYPED(call, TYPE)

/* Eight states to vectors: `half` is the column of four bytes, n or the counts. */
CTR_BODY void NAME(gather)(uint8_t *const *row, VECTOR *value, halves *half, const bool q13, const bool counts)
{
#define WORD_AT(j)    load_word(row[j] + 8)
#define HALF_AT(j)    load_half(row[j] + HALF_OF(counts))
#define WIDE_AT(j)    load_real(row[j] + VALUE_OF(counts))
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
        const lanes wide = { EIGHT(WIDE_AT) };
        memcpy(value, &wide, sizeof *value);
    }
#undef WORD_AT
#undef HALF_AT
#undef WIDE_AT
#undef QUARTER_AT
}

/* The same back, of counts and a value that is not q2.13. */
FUSED_BODY void NAME(scatter)(uint8_t *const *row, const VECTOR *value, halves half)
{
    if (sizeof(REAL) == 4) {
        halves right;
        memcpy(&right, value, sizeof right);
        const struct eight_words both = JOIN(half, right);
        for (int j = 0; j < CTR_LANES; j++) {
            const uint64_t word = ((quad)both.in[j / 4])[j % 4];
            memcpy(row[j] + 8, &word, sizeof word);
        }
        return;
    }
    for (int j = 0; j < CTR_LANES; j++) {
        const uint32_t own = half[j];
        const REAL wide = (*value)[j];
        memcpy(row[j] + HALF_OF(true), &own, sizeof own);
        memcpy(row[j] + VALUE_OF(true), &wide, sizeof wide);
    }
}

/* The root of PN/(N+P), as of_counts has it. */
FUSED_BODY VECTOR NAME(roots_of_counts)(halves count)
{
    const halves codes[2] = { count & 0xffff, count >> 16 };
    VECTOR seen[2];
    for (int i = 0; i < 2; i++) {
        const halves bits = (codes[i] << (23 - CTR_COUNT_BITS)) + ((uint32_t)(127 + CTR_COUNT_BITS) << 23);
        seen[i] = IN_TYPE(of_floats)((lanes_f32)bits - (float)(1 << CTR_COUNT_BITS));
    }
    return IN_TYPE(roots)(seen[0] * seen[1] / IN_TYPE(at_least_one)(seen[0] + seen[1]));
}

/* States to s->z (the true one), to s->n or the counts, and to s->root; and, if `weighs`, weights to s->w, whose dot
 * product it returns. */
FUSED_BODY double NAME(fused_forward)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,
                                      int64_t k, const bool q13, const bool counts, const bool weighs)
{
    const BITS top = (BITS) - ((VECTOR){ 0 });
    REAL *restrict zs = s->z, *restrict ws = s->w, *restrict roots = s->root;
    uint32_t *restrict halfs = counts ? s->more->count : s->n;
    const double *restrict xs = s->x;
    lanes sum = { 0 };
    PARAMS;
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        VECTOR z, n;
        halves half;
        lanes x;
        NAME(gather)(row + i, &z, &half, q13, counts);
        memcpy(halfs + i, &half, sizeof half);
        memcpy(&n, halfs + i, sizeof n);
        const VECTOR root = counts ? NAME(roots_of_counts)(half) : IN_TYPE(roots)(n);
        memcpy(roots + i, &root, sizeof root);
        if (q13)
            z *= (beta + root) * inv_alpha;
        memcpy(zs + i, &z, sizeof z);
        if (!weighs)
            continue;
        const VECTOR size = (VECTOR)((BITS)z & ~top) - l1, v = size / ((beta + root) * inv_alpha + l2);
        const VECTOR w = (VECTOR)(((BITS)v ^ ((z > 0) & top)) & ~(size <= 0));
        memcpy(ws + i, &w, sizeof w);
        memcpy(&x, xs + i, sizeof x);
        sum += IN_TYPE(widen)(w) * x;
    }
    return join_lanes(&sum);
}

/* What does not wait for the gradient: the draws, and the counts and their roots. */
FUSED_BODY void NAME(fused_draw)(const struct ctr_coords *s, int64_t k, const bool q13, const bool counts)
{
    const struct ctr_more *m = s->more;
    const uint32_t low = (uint32_t)m->event.draw, high = (uint32_t)(m->event.draw >> 32);
    const uint32_t shift = m->event.positive ? 16 : 0, *lows = m->low, *highs = m->high;
    uint32_t *restrict count = m->count;
    float *restrict us = (float *)(void *)m->q;
    REAL *restrict next = m->next;
    const double *restrict xs = s->x;
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        if (q13) {
            const lanes_f32 u = __builtin_convertvector((shorts)(draw_eight(lows + i, low) >> 8), lanes_f32) * 0x1p-24f;
            memcpy(us + i, &u, sizeof u);
        }
        if (counts) {
            halves own;
            lanes x;
            memcpy(&x, xs + i, sizeof x);
            memcpy(&own, count + i, sizeof own);
            own = count_eight(own, draw_eight(highs + i, high), shift, x);
            const VECTOR root = NAME(roots_of_counts)(own);
            memcpy(count + i, &own, sizeof own);
            memcpy(next + i, &root, sizeof root);
        }
    }
}

/* q2.13 goes by way of scratch: so small, a number is stored from memory in fewer steps than from a vector. */
FUSED_BODY void NAME(fused_update)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,
                                   int64_t k, double g, const bool q13, const bool counts)
{
    struct ctr_more *m = s->more;
    const REAL *restrict zs = s->z, *restrict ws = s->w, *restrict roots = s->root, *restrict next = m->next;
    int32_t *qs = m->q; /* before it, u */
    REAL *restrict ns = s->n;
    const uint32_t *restrict count = m->count;
    const double *restrict xs = s->x;
    const bool zero = p->beta == 0;
    shorts clips = { 0 };
    PARAMS;
    NAME(fused_draw)(s, k, q13, counts);
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        VECTOR z, w, root, n, raised;
        lanes x;
        memcpy(&z, zs + i, sizeof z);
        memcpy(&w, ws + i, sizeof w);
        memcpy(&root, roots + i, sizeof root);
        memcpy(&x, xs + i, sizeof x);
        const VECTOR gi = IN_TYPE(narrow)(g * x);
        if (counts) {
            memcpy(&raised, next + i, sizeof raised);
        } else {
            memcpy(&n, ns + i, sizeof n);
            n += gi * gi;
            memcpy(ns + i, &n, sizeof n);
            raised = IN_TYPE(roots)(n);
        }
        z += gi - (raised - root) * inv_alpha * w;
        if (q13) {
            VECTOR by = beta + raised;
            lanes_f32 u, eta_z;
            if (zero)
                by += (VECTOR)((BITS)((VECTOR){ 0 } + 1) & (by == 0));
            z *= alpha / by;
            memcpy(&eta_z, &z, sizeof eta_z);
            memcpy(&u, qs + i, sizeof u);
            const shorts q = round_eight(eta_z, u, &clips);
            memcpy(qs + i, &q, sizeof q);
        } else {
            halves own;
            memcpy(&own, count + i, sizeof own);
            NAME(scatter)(row + i, &z, own);
        }
    }
    if (q13)
        p->store(p, s, row, k);
    for (int j = 0; j < CTR_LANES && q13; j++)
        m->event.clips -= clips[j];
}

#define FUSED(name, q13, counts)                                                                                       \
    ATTRIBUTES static double NAME(forward_##name)(const struct ctr_learning *p, const struct ctr_coords *s,            \
                                                  uint8_t *const *row, int64_t k)                                      \
    {                                                                                                                  \
        return NAME(fused_forward)(p, s, row, k, q13, counts, true);                                                   \
    }                                                                                                                  \
    ATTRIBUTES static void NAME(update_##name)(const struct ctr_learning *p, const struct ctr_coords *s,               \
                                               uint8_t *const *row, int64_t k, double g)                               \
    {                                                                                                                  \
        ctr_event_begin(p, &s->more->event);                                                                           \
        NAME(fused_update)(p, s, row, k, g, q13, counts);                                                              \
    }                                                                                                                  \
    ATTRIBUTES static void NAME(update_late_##name)(const struct ctr_learning *p, const struct ctr_coords *s,          \
                                                    uint8_t *const *row, int64_t k, double g)                          \
    {                                                                                                                  \
        (void)NAME(fused_forward)(p, s, row, k, q13, counts, false);                                                   \
        NAME(update_##name)(p, s, row, k, g);                                                                          \
    }
