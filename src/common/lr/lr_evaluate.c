/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of rows by a learner of lr as it stands, without learning and without new keys: early stopping. */
#include "common/lr/lr.h"
#include "common/lr/lr_spill.h"

/* The weight of a table row. */
static double weight_of(const struct lr *m, const uint8_t *row)
{
    struct ctr_state s;
    ctr_state_read(&m->learning, &m->more.event, row, &s);
    return ctr_state_weight(&m->learning, &m->more.event, &s);
}

/* The row of a key, or NULL: it has none. */
static const uint8_t *row_of(const struct lr *m, int table, uint64_t hash)
{
    const struct ctr_keys *t = &m->table[table];
    const uint32_t *found = ctr_keyindex_find(&t->index, hash), number = found ? *found : 0;
    return number && number <= t->known ? ctr_states_row(&m->states, number) : NULL; /* others are found ahead */
}

static double logit_of(const struct lr *m, const struct ctr_rows *r, int64_t i, double *term)
{
    const int64_t at = r->start[i], k = r->start[i + 1] - at, all = k + !m->no_bias;
    for (int64_t j = 0; j < k; j++) {
        const uint8_t *row = row_of(m, r->table[at + j], r->hash[at + j]);
        term[j] = row ? weight_of(m, row) * (r->x ? r->x[at + j] : 1) : 0;
    }
    if (!m->no_bias)
        term[k] = weight_of(m, m->bias);
    for (int64_t j = all; j < ctr_lanes_padded(all); j++)
        term[j] = 0;
    return ctr_lr_sum_terms(m, r, i, term);
}

int ctr_lr_evaluate(void *learner, const struct ctr_rows *r, double *score, struct ctr_err *err)
{
    struct lr *m = learner;
    int64_t most = 0;
    for (int64_t i = 0; i < r->rows; i++)
        most = CTR_MAX(most, r->start[i + 1] - r->start[i]);
    int rc = ctr_buf_room(&m->scratch.terms, ctr_lanes_padded(most + 1), sizeof *score, err);
    ctr_lr_hold_finders(m);
    for (int64_t i = 0, here = 0; i < r->rows && !rc; i++) {
        if (i == here && (rc = ctr_lr_spill_bring(m, r, i, false, &here, err)))
            break;
        score[i] = ctr_sigmoid(logit_of(m, r, i, (double *)(void *)m->scratch.terms.data));
        if (!(score[i] >= 0))
            rc = ctr_lr_diverged(r->first_row + i + 1, err);
    }
    ctr_lr_release_finders(m);
    return rc;
}
