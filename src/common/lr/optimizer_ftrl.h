/* SPDX-License-Identifier: Apache-2.0
 *
 * The default learner, FTRL-Proximal with a learning rate per coordinate: Algorithm 1 of "Ad Click Prediction: a View
 * from the Trenches" (KDD 2013), with all phases of a row in one function. With per-coordinate z and n:
 *
 *     w_i = 0                                             if |z_i| <= l1
 *     w_i = -(z_i - sgn(z_i) l1) / ((beta + sqrt(n_i)) / alpha + l2)   otherwise
 *     g_i = weight (p - y) x_i,  sigma_i = (sqrt(n_i + g_i^2) - sqrt(n_i)) / alpha
 *     z_i += g_i - sigma_i w_i,  n_i += g_i^2
 *
 * tests/unit/ftrl_plain.h has a version without vectors. The state of a key is z and n, 8 bytes after the pointer to
 * its row. optimizer_types.h includes this text after optimizer_body.h. */
typedef REAL NAME(pair) __attribute__((vector_size(2 * sizeof(REAL)))); /* z, n as in a table row */
typedef REAL NAME(four) __attribute__((vector_size(4 * sizeof(REAL))));

/* Rows' pairs to vectors of z and of n of the processor's width (gcc splits shuffles of wider ones), without a detour
 * through memory; and back. */
CTR_BODY void NAME(gather_pairs)(uint8_t *const *row, REAL *z, REAL *n)
{
    NAME(pair) p[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        memcpy(&p[i], row[i] + 8, sizeof p[i]);
#if WIDTH == 8
#define BOTH(i) __builtin_shufflevector(p[i], p[i + 1], 0, 1, 2, 3)
#define FOUR(i) __builtin_shufflevector(BOTH(i), BOTH(i + 2), 0, 1, 2, 3, 4, 5, 6, 7)
    const TYPED(lanes, TYPE) zs = __builtin_shufflevector(FOUR(0), FOUR(4), 0, 2, 4, 6, 8, 10, 12, 14),
                             ns = __builtin_shufflevector(FOUR(0), FOUR(4), 1, 3, 5, 7, 9, 11, 13, 15);
#undef BOTH
#undef FOUR
#else
    const NAME(four) a = __builtin_shufflevector(p[0], p[2], 0, 1, 2, 3),
                     b = __builtin_shufflevector(p[1], p[3], 0, 1, 2, 3);
    const NAME(four) zs = __builtin_shufflevector(a, b, 0, 4, 2, 6), ns = __builtin_shufflevector(a, b, 1, 5, 3, 7);
#endif
    memcpy(z, &zs, sizeof zs);
    memcpy(n, &ns, sizeof ns);
}

CTR_BODY void NAME(scatter_pairs)(uint8_t *const *row, const REAL *z, const REAL *n)
{
    NAME(four) zs, ns;
    memcpy(&zs, z, sizeof zs);
    memcpy(&ns, n, sizeof ns);
    const NAME(four) a = __builtin_shufflevector(zs, ns, 0, 4, 2, 6), b = __builtin_shufflevector(zs, ns, 1, 5, 3, 7);
    const NAME(pair) p[] = { __builtin_shufflevector(a, a, 0, 1), __builtin_shufflevector(b, b, 0, 1),
                             __builtin_shufflevector(a, a, 2, 3), __builtin_shufflevector(b, b, 2, 3) };
    for (int i = 0; i < 4; i++)
        memcpy(row[i] + 8, &p[i], sizeof p[i]);
}

ATTRIBUTES static double NAME(forward_squares)(const struct ctr_learning *p, const struct ctr_coords *s,
                                               uint8_t *const *row, int64_t k)
{
    const int64_t room = ctr_lanes_padded(k);
    REAL *restrict z = s->z, *restrict n = s->n, *restrict w = s->w, *restrict root = s->root;
    PARAMS;
    for (int64_t i = 0; i < room; i += WIDTH)
        NAME(gather_pairs)(row + i, z + i, n + i);
    for (int64_t i = 0; i < room; i++) {
        const REAL size = fabs(z[i]) - l1;
        root[i] = sqrt(n[i]);
        REAL v = size / ((beta + root[i]) * inv_alpha + l2);
        v = z[i] > 0 ? -v : v;
        w[i] = size <= 0 ? 0 : v;
    }
    return NAME(dot)(w, s->x, room);
}

ATTRIBUTES static void NAME(update_squares)(const struct ctr_learning *p, const struct ctr_coords *s,
                                            uint8_t *const *row, int64_t k, double g)
{
    const int64_t room = ctr_lanes_padded(k);
    REAL *restrict z = s->z, *restrict n = s->n;
    const REAL *restrict w = s->w, *restrict root = s->root;
    const double *restrict x = s->x;
    PARAMS;
    for (int64_t i = 0; i < room; i++) {
        const REAL gi = (REAL)(g * x[i]), next = n[i] + gi * gi;
        z[i] += gi - (sqrt(next) - root[i]) * inv_alpha * w[i];
        n[i] = next;
    }
    for (int64_t i = 0; i < room; i += 4)
        NAME(scatter_pairs)(row + i, z + i, n + i);
}
