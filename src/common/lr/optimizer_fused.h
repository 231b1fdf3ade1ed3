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
 *     squares, q2.13       value and the code of n
 *     counts, q2.13        N     P     value
 *     counts, f32          N     P     value
 *     counts, f64          N     P     value                    */
#define BITS          TYPED(bits, TYPE)
#define IN_TYPE(call) TYPED(call, TYPE)

/* Eight states to vectors: `half` is n, which is a float, or the counts. */
CTR_BODY void NAME(gather)(uint8_t *const *row, VECTOR *value, halves *half, const bool q13, const bool counts)
{
#define WORD_AT(j)    load_word(row[j] + 8)
#define HALF_AT(j)    load_half(row[j] + 8)
#define WIDE_AT(j)    load_real(row[j] + 12)
#define QUARTER_AT(j) load_quarter(row[j] + 12)
    if (sizeof(REAL) == 4 && !q13) {
        const struct eight_words both = WORDS(WORD_AT);
        const halves right = UPPER(both);
        *half = LOWER(both);
        memcpy(value, &right, sizeof right);
        return;
    }
    *half = (halves){ EIGHT(HALF_AT) };
    if (q13) {
        const shorts q = counts ? (shorts){ EIGHT(QUARTER_AT) } : (shorts)(*half << 16);
        *value = __builtin_convertvector(q, VECTOR) * (REAL)(counts ? 0x1p-13 : 0x1p-29);
        *half = counts ? *half : *half >> 16 << CTR_SQUARES_SHIFT;
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
        memcpy(row[j] + 8, &own, sizeof own);
        memcpy(row[j] + 12, &wide, sizeof wide);
    }
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
        const VECTOR root = counts ? IN_TYPE(of_floats)(roots_of_counts(half)) : IN_TYPE(roots)(n);
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
    return ctr_lanes_total(&sum);
}

/* What does not wait for the gradient: the counts and their roots. */
FUSED_BODY void NAME(fused_count)(const struct ctr_coords *s, int64_t k)
{
    const struct ctr_more *m = s->more;
    const uint32_t high = (uint32_t)(m->event.draw >> 32), *highs = m->high;
    const uint32_t shift = m->event.positive ? 16 : 0;
    uint32_t *restrict count = m->count;
    REAL *restrict next = m->next;
    const double *restrict xs = s->x;
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        halves own;
        lanes x;
        memcpy(&x, xs + i, sizeof x);
        memcpy(&own, count + i, sizeof own);
        own = count_eight(own, draw_eight(highs + i, high), shift, x);
        const VECTOR root = IN_TYPE(of_floats)(roots_of_counts(own));
        memcpy(count + i, &own, sizeof own);
        memcpy(next + i, &root, sizeof root);
    }
}

/* q2.13 goes by way of scratch: so small, a number is stored from memory in fewer steps than from a vector. */
FUSED_BODY void NAME(fused_update)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,
                                   int64_t k, double g, const bool q13, const bool counts)
{
    struct ctr_more *m = s->more;
    const REAL *restrict zs = s->z, *restrict ws = s->w, *restrict roots = s->root, *restrict next = m->next;
    const REAL *restrict ns = s->n;
    const uint32_t *restrict count = m->count, *lows = m->low, low = (uint32_t)m->event.draw;
    uint32_t *words = (uint32_t *)m->q;
    const double *restrict xs = s->x;
    shorts clips = { 0 };
    PARAMS;
    if (counts)
        NAME(fused_count)(s, k);
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        VECTOR z, w, root, n, raised;
        halves draw, own;
        lanes x;
        memcpy(&z, zs + i, sizeof z);
        memcpy(&w, ws + i, sizeof w);
        memcpy(&root, roots + i, sizeof root);
        memcpy(&x, xs + i, sizeof x);
        const VECTOR gi = IN_TYPE(narrow)(g * x);
        if (q13)
            draw = draw_eight(lows + i, low);
        if (counts) {
            memcpy(&raised, next + i, sizeof raised);
        } else {
            memcpy(&n, ns + i, sizeof n);
            n += gi * gi;
            memcpy(&own, &n, sizeof own);
            own += draw & ((1u << CTR_SQUARES_SHIFT) - 1);
            const halves bits = own & -(1u << CTR_SQUARES_SHIFT);
            memcpy(&n, &bits, sizeof bits);
            raised = IN_TYPE(roots)(n);
        }
        z += gi - (raised - root) * inv_alpha * w;
        if (q13) {
            VECTOR by = beta + raised;
            lanes_f32 eta_z;
            by += (VECTOR)((BITS)((VECTOR){ 0 } + 1) & (by == 0));
            z *= alpha / by;
            memcpy(&eta_z, &z, sizeof eta_z);
            const halves q = round_eight(eta_z, draw, &clips) >> 16;
            const halves word = counts ? q : (own << 1 & 0xffff0000) | q;
            memcpy(words + i, &word, sizeof word);
        } else {
            memcpy(&own, count + i, sizeof own);
            NAME(scatter)(row + i, &z, own);
        }
    }
    for (int64_t i = 0; i < k && q13; i += CTR_LANES)
        for (int64_t j = i; j < i + CTR_LANES; j++) {
            if (counts)
                memcpy(row[j] + 8, count + j, sizeof *count);
            memcpy(row[j] + (counts ? 12 : 8), words + j, counts ? sizeof(int16_t) : sizeof *words);
        }
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
