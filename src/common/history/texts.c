/* SPDX-License-Identifier: Apache-2.0
 *
 * texts: texts by number. Texts with equal hashes are distinguished: the second is stored under the hash with the next
 * seed. */
#include "common/history/historycore.h"

void ctr_texts_init(struct ctr_texts *x)
{
    *x = (struct ctr_texts){ 0 };
    ctr_sparse_init_index(&x->index);
}

void ctr_texts_free(struct ctr_texts *x)
{
    ctr_sparse_free(&x->index);
    ctr_buf_free(&x->bytes);
    ctr_buf_free(&x->start);
}

int64_t ctr_texts_bytes(const struct ctr_texts *x)
{
    return (int64_t)(ctr_sparse_bytes(&x->index) + x->bytes.cap + x->start.cap);
}

struct ctr_str ctr_texts_get(const struct ctr_texts *x, uint64_t number)
{
    const int64_t *start = (const int64_t *)(const void *)x->start.data + number;
    return (struct ctr_str){ (const char *)x->bytes.data + start[0], (size_t)(start[1] - start[0]) };
}

static int put(struct ctr_texts *x, uint8_t *row, struct ctr_str s, uint64_t *number, struct ctr_err *err)
{
    const int64_t none = 0;
    int rc = x->start.len ? 0 : ctr_buf_append(&x->start, &none, sizeof none, err);
    if (!rc)
        rc = ctr_buf_append(&x->bytes, s.p, s.n, err);
    const int64_t end = (int64_t)x->bytes.len;
    if (!rc)
        rc = ctr_buf_append(&x->start, &end, sizeof end, err);
    *number = x->start.len / sizeof end - 2;
    const uint32_t stored = (uint32_t)*number + 1;
    if (!rc)
        memcpy(row + 8, &stored, sizeof stored);
    return rc;
}

int ctr_texts_add(struct ctr_texts *x, struct ctr_str s, uint64_t *number, struct ctr_err *err)
{
    if (x->index.used >= UINT32_MAX - 1)
        return ctr_fail(err, CTR_ENOMEM, "more than %u texts in behaviours", UINT32_MAX - 1);
    int rc = ctr_sparse_reserve(&x->index, 1, err);
    for (uint64_t seed = 0; !rc; seed++) {
        uint8_t *row = ctr_sparse_get(&x->index, ctr_sparse_hash(ctr_hash64(s.p, s.n, seed)));
        if (!ctr_sparse_row_number(row))
            return put(x, row, s, number, err);
        *number = ctr_sparse_row_number(row) - 1;
        const struct ctr_str found = ctr_texts_get(x, *number);
        if (found.n == s.n && !memcmp(found.p, s.p, s.n))
            return 0;
        rc = ctr_sparse_reserve(&x->index, 1, err);
    }
    return rc;
}
