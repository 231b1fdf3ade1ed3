/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a group of n <= GROUP rows to columns from `at` on. optimizer_columns.c includes this text once per type,
 * with NAME, REAL, ABSOLUTE and SQRT defined. */
CTR_BODY void NAME(group)(const struct ctr_learning *l, const uint8_t *const *row, int64_t n,
                          const struct ctr_state_columns *to, int64_t at)
{
    const struct ctr_layout lay = l->layout;
    const bool q13 = l->precision == CTR_Q13_STATE;
    const REAL inv_alpha = (REAL)l->inv_alpha, beta = (REAL)l->beta, l1 = (REAL)l->l1, l2 = (REAL)l->l2;
    REAL z[GROUP], root[GROUP], w[GROUP];
    float of_counts[GROUP] = { 0 };
    uint32_t count[GROUP];
    for (int64_t i = 0; i < n; i++) {
        int16_t q;
        uint16_t code;
        if (q13) {
            memcpy(&q, row[i] + lay.value, sizeof q);
            z[i] = (REAL)q * (REAL)0x1p-13;
        } else
            memcpy(&z[i], row[i] + lay.value, sizeof *z);
        if (lay.counts)
            memcpy(&count[i], row[i] + lay.counts, sizeof *count);
        else if (q13) {
            memcpy(&code, row[i] + lay.n, sizeof code);
            root[i] = (REAL)ctr_squares_value(code);
        } else
            memcpy(&root[i], row[i] + lay.n, sizeof *root);
    }
    if (lay.counts)
        roots_of_counts(count, n, to->negatives + at, to->positives + at, of_counts);
    else
        memcpy((REAL *)to->n + at, root, (size_t)n * sizeof *root);
    for (int64_t i = 0; i < n; i++)
        root[i] = lay.counts ? (REAL)of_counts[i] : SQRT(root[i]);
    for (int64_t i = 0; i < n && q13; i++)
        z[i] *= (beta + root[i]) * inv_alpha;
    for (int64_t i = 0; i < n; i++) {
        const REAL size = ABSOLUTE(z[i]) - l1, v = size / ((beta + root[i]) * inv_alpha + l2);
        const REAL turned = z[i] > 0 ? -v : v;
        w[i] = size <= 0 ? 0 : turned;
    }
    memcpy((REAL *)to->value + at, z, (size_t)n * sizeof *z);
    memcpy((REAL *)to->weight + at, w, (size_t)n * sizeof *w);
}

#undef NAME
#undef REAL
#undef ABSOLUTE
#undef SQRT
