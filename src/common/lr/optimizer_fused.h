/* SPDX-License-Identifier: Apache-2.0
 *
 * ftrl with the square root of a counter, for the states that optimizer_ftrl.h does not handle: all phases of a row in
 * one pass over eight coordinates at a time, with the bits of the loops of optimizer_body.h. For processors with the
 * vectors of optimizer_x8.h. optimizer_types.h includes this text after it. It saves 7% of a run with q2.13 and 8% with
 * counts; counts as f32, which gain 2%, share the text.
 *
 * Each column of such a state is loaded and stored separately, or two as one word, so that no load overlaps part of a
 * recent store, for which it would have to wait.
 *
 *     byte of the row      8           12          16
 *     squares, q2.13       value and the code of n
 *     counts, q2.13        N     P     value
 *     counts, f32          N     P     value
 *     counts, f64          N     P     value
 *
 * Numbers of the type occupy PARTS vectors, doubles WIDES; q2.13 is used with floats, which occupy one. */
#define IN_ISA(name)      TYPED(name, ISA)
#define FUSED_BODY        IN_ISA(FOR)
#define VECTOR            NAME(reals)
#define BITS              NAME(bits)
#define WIDE              IN_ISA(doubles)
#define PARTS             (CTR_LANES * sizeof(REAL) / sizeof(VECTOR))
#define WIDES             (CTR_LANES * sizeof(double) / sizeof(WIDE))
#define EACH_PART(h)      _Pragma("GCC unroll 2") for (size_t h = 0; h < PARTS; h++)
#define PART_OF(array, h) ((array) + i + (h)*CTR_LANES / PARTS)

FUSED_BODY void NAME(load_x)(const double *from, WIDE *x)
{
    for (size_t h = 0; h < WIDES; h++)
        memcpy(&x[h], from + h * CTR_LANES / WIDES, sizeof *x);
}

/* Eight states to vectors: `half` is n (a float) or the counts. */
FUSED_BODY void NAME(gather)(uint8_t *const *row, VECTOR *value, halves *half, const bool q13, const bool counts)
{
#define HALF_AT(j)    load_half(row[j] + 8)
#define QUARTER_AT(j) load_quarter(row[j] + 12)
    if (sizeof(REAL) == 4 && !q13) {
        halves right;
        IN_ISA(load_words)(row, half, &right);
        memcpy(value, &right, sizeof right);
        return;
    }
    *half = (halves){ EIGHT(HALF_AT) };
    if (!q13) {
        IN_ISA(load_reals)(row, (WIDE *)value);
        return;
    }
    const shorts q = counts ? (shorts){ EIGHT(QUARTER_AT) } : (shorts)(*half << 16);
    const lanes_f32 eta_z = __builtin_convertvector(q, lanes_f32) * (counts ? 0x1p-13f : 0x1p-29f);
    memcpy(value, &eta_z, sizeof eta_z);
    *half = counts ? *half : *half >> 16 << CTR_SQUARES_SHIFT;
#undef HALF_AT
#undef QUARTER_AT
}

/* The reverse, for counts and a value that is not q2.13. */
FUSED_BODY void NAME(scatter)(uint8_t *const *row, const VECTOR *value, halves half)
{
    if (sizeof(REAL) == 4) {
        halves right;
        memcpy(&right, value, sizeof right);
        IN_ISA(store_words)(row, half, right);
        return;
    }
    for (size_t j = 0; j < CTR_LANES; j++) {
        const uint32_t own = half[j];
        const REAL wide = value[j * PARTS / CTR_LANES][j % (CTR_LANES / PARTS)];
        uint8_t *const to = row[j]; /* read once: the compiler must assume that stores alias the pointers */
        memcpy(to + 8, &own, sizeof own);
        memcpy(to + 12, &wide, sizeof wide);
    }
}

/* States to s->z (the true z), to s->n or the counts, and to s->root; and, if `weighs`, weights to s->w, returning
 * their dot product. */
FUSED_BODY double NAME(fused_forward)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,
                                      int64_t k, const bool q13, const bool counts)
{
    const BITS top = (BITS) - ((VECTOR){ 0 });
    REAL *restrict zs = s->z, *restrict ws = s->w, *restrict roots = s->root;
    uint32_t *restrict halfs = counts ? s->more->count : s->n;
    const double *restrict xs = s->x;
    WIDE sum[WIDES] = { 0 };
    lanes all;
    PARAMS;
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        VECTOR z[PARTS], root[PARTS], w[PARTS];
        WIDE x[WIDES];
        halves half;
        NAME(gather)(row + i, z, &half, q13, counts);
        memcpy(halfs + i, &half, sizeof half);
        NAME(of_floats)(counts ? roots_of_counts(half) : roots_f32((lanes_f32)half), root);
        EACH_PART(h)
        {
            memcpy(PART_OF(roots, h), &root[h], sizeof *root);
            if (q13)
                z[h] *= (beta + root[h]) * inv_alpha;
            memcpy(PART_OF(zs, h), &z[h], sizeof *z);
            const VECTOR size = (VECTOR)((BITS)z[h] & ~top) - l1, v = size / ((beta + root[h]) * inv_alpha + l2);
            w[h] = (VECTOR)(((BITS)v ^ ((z[h] > 0) & top)) & ~(size <= 0));
            memcpy(PART_OF(ws, h), &w[h], sizeof *w);
        }
        NAME(load_x)(xs + i, x);
        NAME(add_products)(sum, w, x);
    }
    memcpy(&all, sum, sizeof all);
    return ctr_lanes_total(&all);
}

/* The part that does not depend on the gradient: the counts and their roots. */
FUSED_BODY void NAME(fused_count)(const struct ctr_coords *s, int64_t k)
{
    const struct ctr_more *m = s->more;
    const uint32_t high = (uint32_t)(m->event.draw >> 32), *highs = m->high;
    const uint32_t shift = m->event.positive ? 16 : 0;
    uint32_t *restrict count = m->count;
    REAL *restrict next = m->next;
    const double *restrict xs = s->x;
    const bool weighted = count_weighted(s, k);
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        halves own;
        WIDE x[WIDES];
        VECTOR root[PARTS];
        NAME(load_x)(xs + i, x);
        memcpy(&own, count + i, sizeof own);
        if (!weighted)
            own = IN_ISA(count_x8)(own, draw_x8(highs + i, high), shift, x);
        memcpy(count + i, &own, sizeof own);
        NAME(of_floats)(roots_of_counts(own), root);
        EACH_PART(h)
        {
            memcpy(PART_OF(next, h), &root[h], sizeof *root);
        }
    }
}

/* n of q2.13 including the row's gradients, and its roots; returns the bits of n before truncation. */
FUSED_BODY halves NAME(advance_x8)(const float *from, halves draw, const VECTOR *gi, VECTOR *root)
{
    lanes_f32 n, g;
    memcpy(&n, from, sizeof n);
    memcpy(&g, gi, sizeof g);
    n += g * g;
    const halves own = (halves)n + (draw & ((1u << CTR_SQUARES_SHIFT) - 1));
    const lanes_f32 raised = roots_f32((lanes_f32)(own & -(1u << CTR_SQUARES_SHIFT)));
    memcpy(root, &raised, sizeof raised);
    return own;
}

/* q2.13 goes through scratch memory: such a small number takes fewer steps to store from memory than from a vector. */
FUSED_BODY void NAME(fused_update)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,
                                   int64_t k, double g, const bool q13, const bool counts)
{
    struct ctr_more *m = s->more;
    const REAL *restrict zs = s->z, *restrict ws = s->w, *restrict roots = s->root, *restrict next = m->next;
    const uint32_t *restrict count = m->count, *lows = m->low, low = (uint32_t)m->event.draw;
    uint32_t *words = (uint32_t *)m->q;
    const double *restrict xs = s->x;
    shorts clips = { 0 };
    PARAMS;
    if (counts)
        NAME(fused_count)(s, k);
    for (int64_t i = 0; i < k; i += CTR_LANES) {
        VECTOR z[PARTS], gi[PARTS], raised[PARTS];
        WIDE x[WIDES];
        halves draw, own;
        NAME(load_x)(xs + i, x);
        NAME(gradients)(g, x, gi);
        if (q13)
            draw = draw_x8(lows + i, low);
        if (!counts)
            own = NAME(advance_x8)((const float *)s->n + i, draw, gi, raised);
        EACH_PART(h)
        {
            VECTOR w, root;
            memcpy(&z[h], PART_OF(zs, h), sizeof *z);
            memcpy(&w, PART_OF(ws, h), sizeof w);
            memcpy(&root, PART_OF(roots, h), sizeof root);
            if (counts)
                memcpy(&raised[h], PART_OF(next, h), sizeof *raised);
            z[h] += gi[h] - (raised[h] - root) * inv_alpha * w;
            if (q13) {
                VECTOR by = beta + raised[h];
                by += (VECTOR)((BITS)((VECTOR){ 0 } + 1) & (by == 0));
                z[h] *= alpha / by;
            }
        }
        if (q13) {
            lanes_f32 eta_z;
            memcpy(&eta_z, z, sizeof eta_z);
            const halves q = round_x8(eta_z, draw, &clips) >> 16;
            const halves word = counts ? q : (own << 1 & 0xffff0000) | q;
            memcpy(words + i, &word, sizeof word);
        } else {
            memcpy(&own, count + i, sizeof own);
            NAME(scatter)(row + i, z, own);
        }
    }
    for (int64_t i = 0; i < k && q13; i += CTR_LANES)
        for (int64_t j = i; j < i + CTR_LANES; j++) {
            uint8_t *const to = row[j];
            if (counts)
                memcpy(to + 8, count + j, sizeof *count);
            memcpy(to + (counts ? 12 : 8), words + j, counts ? sizeof(int16_t) : sizeof *words);
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
        ctr_event_begin(p, &s->more->event);                                                                           \
        NAME(fused_update)(p, s, row, k, g, q13, counts);                                                              \
    }
