/* SPDX-License-Identifier: Apache-2.0
 *
 * split: assigns rows to shards. Invariant: the shard depends only on the values of the keys and the number of shards,
 * so that logs split on different days or machines correspond. */
#include "tools/ctr-split/split.h"
#include "common/rows/relkey.h"

#include <stdlib.h>

struct ctr_split {
    int *key, nkeys, shards;
    int64_t seen, cap;
    uint64_t *hash;
    int64_t *rows, *start;
};

int ctr_split_new(struct ctr_split **out, const struct ctr_schema *schema, const char *keys, int shards,
                  struct ctr_err *err)
{
    struct ctr_split *s;
    int rc = 0;

    *out = NULL;
    if (shards < 1)
        return ctr_fail(err, CTR_EUSAGE, "the number of shards must be at least 1");
    s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->shards = shards;
    s->start = calloc((size_t)shards + 1, sizeof *s->start);
    if (!s->start)
        rc = ctr_fail_nomem(err, (size_t)shards * sizeof *s->start);
    if (!rc && keys)
        rc = ctr_key_columns(schema, keys, ',', &s->key, &s->nkeys, err);
    if (rc) {
        ctr_split_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void ctr_split_free(struct ctr_split *s)
{
    if (!s)
        return;
    free(s->key);
    free(s->hash);
    free(s->rows);
    free(s->start);
    free(s);
}

static int reserve(struct ctr_split *s, int64_t rows, struct ctr_err *err)
{
    if (rows <= s->cap)
        return 0;
    free(s->hash);
    free(s->rows);
    s->cap = 0;
    s->hash = malloc((size_t)rows * sizeof *s->hash);
    s->rows = malloc((size_t)rows * sizeof *s->rows);
    if (!s->hash || !s->rows)
        return ctr_fail_nomem(err, (size_t)rows * sizeof *s->rows);
    s->cap = rows;
    return 0;
}

int ctr_split_batch(struct ctr_split *s, const struct ctr_batch *b, const int64_t **rows, const int64_t **start,
                    struct ctr_err *err)
{
    uint64_t shards = (uint64_t)s->shards;
    int64_t sum = 0;
    int rc = reserve(s, b->rows, err);

    if (!rc && s->nkeys)
        rc = ctr_keys_hash(b, s->key, s->nkeys, 0, s->hash, NULL, err);
    if (rc)
        return rc;
    memset(s->start, 0, ((size_t)shards + 1) * sizeof *s->start);
    for (int64_t i = 0; i < b->rows; i++) {
        s->hash[i] = (s->nkeys ? s->hash[i] : (uint64_t)(s->seen + i)) % shards;
        s->start[s->hash[i] + 1]++;
    }
    for (uint64_t k = 0; k < shards; k++) { /* start[k + 1]: start of shard k until it is filled */
        int64_t n = s->start[k + 1];
        s->start[k + 1] = sum;
        sum += n;
    }
    for (int64_t i = 0; i < b->rows; i++)
        s->rows[s->start[s->hash[i] + 1]++] = i;
    s->seen += b->rows;
    *rows = s->rows;
    *start = s->start;
    return 0;
}

/* ---- names ---- */

/* At a '%': parse its conversion; NULL if it is not allowed. Sets width and zero, and returns the rest. */
static const char *conversion(const char *p, int *width, bool *zero)
{
    *width = 0;
    *zero = *++p == '0';
    while (*p >= '0' && *p <= '9' && *width < 100)
        *width = *width * 10 + *p++ - '0';
    return *p == 'd' && *width <= 20 ? p + 1 : NULL;
}

int ctr_split_name(const char *pattern, int shard, struct ctr_buf *out, struct ctr_err *err)
{
    int found = 0, rc = 0, width;
    bool zero;

    ctr_buf_clear(out);
    for (const char *p = pattern; !rc && *p;) {
        if (*p != '%') {
            rc = ctr_buf_append(out, p++, 1, err);
            continue;
        }
        if (p[1] == '%') {
            rc = ctr_buf_append(out, p, 1, err);
            p += 2;
            continue;
        }
        p = conversion(p, &width, &zero);
        found = p ? found + 1 : -1;
        if (found != 1)
            break;
        rc = zero ? ctr_buf_printf(out, err, "%0*d", width, shard) : ctr_buf_printf(out, err, "%*d", width, shard);
    }
    if (!rc && found != 1)
        return ctr_fail(
            err, CTR_EUSAGE,
            "'%s' must hold exactly one %%d or %%02d, the number of the shard (and %%%% for a per cent sign)", pattern);
    return rc ? rc : ctr_buf_append(out, "", 1, err);
}
