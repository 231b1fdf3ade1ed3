/* SPDX-License-Identifier: Apache-2.0 */
#include "common/lr/expiry.h"

enum { AGES = 4096 }; /* days with separate counts, more than --expire allows: all older days count as one */

static void stamp_unknown(const struct ctr_expiry *e, const struct ctr_keys *table, int tables,
                          const struct ctr_states *states, int32_t today)
{
    for (int i = 0; i < tables; i++) {
        uint64_t at = 0, hash;
        for (uint8_t *row; (row = ctr_keys_row(&table[i], states, &at, &hash));)
            if (ctr_expiry_day(e, row) == CTR_NO_DAY)
                ctr_expiry_stamp(e, row, today);
    }
}

static int64_t age_of(const struct ctr_expiry *e, const uint8_t *row)
{
    int64_t age = (int64_t)e->today - ctr_expiry_day(e, row);
    return CTR_MIN(CTR_MAX(age, 0), AGES - 1);
}

/* The minimum age of keys to drop; AGES: none. */
static int64_t oldest_kept(const struct ctr_expiry *e, const struct ctr_keys *table, int tables,
                           const struct ctr_states *states)
{
    int64_t count[AGES] = { 0 }, kept = 0, age = 0;
    for (int i = 0; i < tables; i++) {
        uint64_t at = 0, hash;
        for (const uint8_t *row; (row = ctr_keys_row(&table[i], states, &at, &hash));)
            count[age_of(e, row)]++;
    }
    for (; age < AGES && (age <= e->days || kept < e->floor); age++)
        kept += count[age];
    return age;
}

struct choice {
    const struct ctr_expiry *e;
    int64_t age;
};

static bool young(const void *ctx, const uint8_t *row)
{
    const struct choice *c = ctx;
    return age_of(c->e, row) < c->age;
}

/* The keys of a table that are about to be dropped. */
static int note_gone(const struct choice *c, const struct ctr_keys *t, int table, const struct ctr_states *states,
                     struct ctr_err *err)
{
    uint64_t at = 0, hash;
    int rc = 0;
    for (const uint8_t *row; !rc && (row = ctr_keys_row(t, states, &at, &hash));)
        if (!young(c, row))
            rc = ctr_buf_append(c->e->gone, &(struct ctr_expired){ table, ctr_key_unhash(hash) },
                                sizeof(struct ctr_expired), err);
    return rc;
}

int ctr_expiry_begin(struct ctr_expiry *e, struct ctr_keys *table, int tables, struct ctr_states *states, int32_t today,
                     struct ctr_err *err)
{
    if (e->today == CTR_NO_DAY)
        stamp_unknown(e, table, tables, states, today);
    e->today = today;
    const struct choice c = { e, oldest_kept(e, table, tables, states) };
    int rc = 0;
    for (int i = 0; i < tables && !rc && c.age < AGES; i++) {
        const uint64_t before = table[i].index.used;
        rc = e->gone ? note_gone(&c, &table[i], i, states, err) : 0;
        if (!rc)
            rc = ctr_keys_filter(&table[i], states, young, &c, err);
        e->dropped += (int64_t)(before - table[i].index.used);
    }
    return rc;
}

int ctr_expiry_save(const struct ctr_expiry *e, struct ctr_buf *words, struct ctr_err *err)
{
    const uint64_t word[CTR_EXPIRY_WORDS] = { (uint64_t)(int64_t)e->today, (uint64_t)e->dropped };
    return ctr_buf_append(words, word, sizeof word, err);
}

void ctr_expiry_load(struct ctr_expiry *e, const uint64_t *word)
{
    e->today = (int32_t)(int64_t)word[0];
    e->dropped = (int64_t)word[1];
}
