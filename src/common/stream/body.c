/* SPDX-License-Identifier: Apache-2.0
 *
 * body: the buffers of a message. Invariant: a buffer that is returned is inside the body, is aligned, has the
 * requested bytes and, in a sealed stream, has been verified; other buffers are never read.
 */
#include "common/stream/arrow.h"
#include "common/base/memory.h"

#include <stdlib.h>

/* Represents an empty buffer: kernels may load past the last value. */
static const uint8_t no_bytes[CTR_PAD] __attribute__((aligned(64)));

int ctr_data_set(struct arrow_data *d, const struct arrow_message *m, const uint8_t *body, struct ctr_reader_stats *st,
                 struct ctr_err *err)
{
    d->m = m;
    d->body = body;
    d->stats = st;
    d->held = d->written = 0;
    d->seen.len = 0;
    int rc = ctr_buf_reserve(&d->seen, m->nbuffers + 1, err);
    if (rc < 0)
        return rc;
    memset(d->seen.data, 0, m->nbuffers);
    d->seen.len = m->nbuffers;
    if ((m->codec == CTR_PLAIN && !d->mapped) || (size_t)d->nown >= m->nbuffers)
        return 0;
    struct arrow_own *p = realloc(d->own, m->nbuffers * sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, m->nbuffers * sizeof *p);
    memset(p + d->nown, 0, (m->nbuffers - (size_t)d->nown) * sizeof *p);
    d->own = p;
    d->nown = (int)m->nbuffers;
    return 0;
}

void ctr_data_free(struct arrow_data *d)
{
    for (int i = 0; i < d->nown; i++) {
        ctr_buf_free(&d->own[i].copy);
        ctr_buf_free(&d->own[i].plain);
    }
    free(d->own);
    ctr_buf_free(&d->seen);
    *d = (struct arrow_data){ 0 };
}

int ctr_data_node(const struct arrow_data *d, int node, int64_t *rows, int64_t *nulls, struct ctr_err *err)
{
    if ((size_t)node >= d->m->nnodes)
        return ctr_fail(err, CTR_EDATA, "a batch has fewer columns than its schema");
    *rows = ctr_fb_load64(d->m->nodes + 16 * (size_t)node);
    *nulls = ctr_fb_load64(d->m->nodes + 16 * (size_t)node + 8);
    if (*rows < 0 || *nulls < 0 || *nulls > *rows)
        return ctr_fail(err, CTR_EDATA, "a batch claims a column of %lld rows and %lld nulls", (long long)*rows,
                        (long long)*nulls);
    return 0;
}

static bool hex64(const char *p, uint64_t *v)
{
    uint64_t x = 0;
    for (int i = 0; i < 16; i++) {
        unsigned c = (unsigned char)p[i];
        if (c - '0' < 10u)
            x = x << 4 | (c - '0');
        else if (c - 'a' < 6u)
            x = x << 4 | (c - 'a' + 10);
        else
            return false;
    }
    *v = x;
    return true;
}

/* Verify the sum of buffer i, whose bytes are at p, and the zero padding up to the next multiple of 64. */
static int verify(struct arrow_data *d, int i, const uint8_t *p, int64_t offset, int64_t length, struct ctr_err *err)
{
    uint64_t want;
    if (!hex64(d->m->sums + 16 * (size_t)i, &want) || ctr_hash64(p, (size_t)length, 0) != want)
        return ctr_fail(err, CTR_EDATA, "a buffer is damaged (its checksum differs)");
    d->stats->bytes_verified += length;
    int64_t end = CTR_MIN((offset + length + ARROW_ALIGN - 1) / ARROW_ALIGN * ARROW_ALIGN, d->m->body_length);
    for (int64_t k = offset + length; k < end; k++)
        if (d->body[k])
            return ctr_fail(err, CTR_EDATA, "the padding of a buffer is damaged");
    return 0;
}

/* Bytes of the body that lie in the file still: those of a buffer and its padding. */
static int read_deferred(struct arrow_data *d, int64_t offset, int64_t length, struct ctr_err *err)
{
    const int64_t from = CTR_MAX(offset, d->have),
                  to = CTR_MIN((offset + length + ARROW_ALIGN - 1) / ARROW_ALIGN * ARROW_ALIGN, d->m->body_length);
    return to > from
               ? ctr_source_read_at(d->file, (uint8_t *)(uintptr_t)d->body + from, to - from, d->file_at + from, err)
               : 0;
}

/* The bytes that a buffer says it has when it is unpacked. */
static int64_t unpacked(const struct arrow_data *d, const uint8_t *p, int64_t length)
{
    return d->m->codec != CTR_PLAIN && length >= 8 ? CTR_MAX(ctr_fb_load64(p), 0) : 0;
}

/* Those of all buffers that are there to be looked at. */
static int64_t all_unpacked(const struct arrow_data *d)
{
    const struct arrow_message *m = d->m;
    int64_t sum = 0;
    for (size_t i = 0; i < m->nbuffers && !d->file; i++) {
        const int64_t at = ctr_fb_load64(m->buffers + 16 * i), n = ctr_fb_load64(m->buffers + 16 * i + 8);
        if (at >= 0 && n >= 0 && at <= m->body_length && n <= m->body_length - at)
            sum += CTR_MIN(unpacked(d, d->body + at, n), INT64_C(1) << 40);
    }
    return sum;
}

/* --memory: of what is used, the copies, the unpacked bytes and those that lie in a file still. */
static int charge(struct arrow_data *d, const uint8_t *p, bool copy, int64_t length, struct ctr_err *err)
{
    const int64_t most = ctr_memory_batch(), more = unpacked(d, p, length);
    if (d->uncharged || most == INT64_MAX)
        return 0;
    const int64_t held = d->held + (copy || d->file ? length : 0);
    d->held = held + CTR_MIN(more, most);
    return held > most || more > most - held
               ? ctr_memory_fail("a batch", CTR_MAX(held + CTR_MIN(more, INT64_C(1) << 40), all_unpacked(d)), err)
               : 0;
}

/* Copy, verify and unpack buffer i, at `offset` of the body, once. */
static int prepare(struct arrow_data *d, int i, bool copy, int64_t need, int64_t offset, int64_t length,
                   struct ctr_err *err)
{
    const struct arrow_message *m = d->m;
    const uint8_t *p = length ? d->body + offset : no_bytes;
    int rc = 0;
    if (d->seen.data[i])
        return 0;
    if (d->mapped)
        d->stats->bytes_read += length;
    if (d->file)
        rc = read_deferred(d, offset, length, err);
    if (!rc)
        rc = charge(d, p, copy, length, err);
    if (!rc && copy && length) {
        d->own[i].copy.len = 0;
        rc = ctr_buf_append(&d->own[i].copy, p, (size_t)length, err);
        p = d->own[i].copy.data;
    }
    if (!rc && m->sealed && !d->trusted)
        rc = verify(d, i, p, offset, length, err);
    if (!rc && m->codec != CTR_PLAIN && length) {
        d->own[i].plain.len = 0;
        rc = ctr_ipc_decompress(m->codec, p, (size_t)length, 2 * need + (64 << 10), &d->own[i].plain, err);
    }
    d->seen.data[i] = !rc;
    return rc;
}

static int get_buffer(struct arrow_data *d, int i, bool copy, int64_t need, const uint8_t **p, int64_t *n,
                      struct ctr_err *err)
{
    const struct arrow_message *m = d->m;
    if ((size_t)i >= m->nbuffers)
        return ctr_fail(err, CTR_EDATA, "a batch has fewer buffers than its schema needs");
    const int64_t offset = ctr_fb_load64(m->buffers + 16 * (size_t)i);
    int64_t length = ctr_fb_load64(m->buffers + 16 * (size_t)i + 8);
    if (offset < 0 || length < 0 || offset > m->body_length || length > m->body_length - offset ||
        (length && offset % 8))
        return ctr_fail(err, CTR_EDATA, "a buffer does not lie in its body");
    copy = d->mapped && (copy || d->copied || m->codec != CTR_PLAIN);
    int rc = prepare(d, i, copy, need, offset, length, err);
    if (rc < 0)
        return rc;
    *p = copy ? d->own[i].copy.data : d->body + offset;
    if (m->codec != CTR_PLAIN && length) {
        *p = d->own[i].plain.data;
        length = (int64_t)d->own[i].plain.len;
    }
    if (!length)
        *p = no_bytes;
    if (length < need)
        return ctr_fail(err, CTR_EDATA, "a buffer has %lld bytes where its column needs %lld", (long long)length,
                        (long long)need);
    *n = length;
    return 0;
}

int ctr_data_buffer(struct arrow_data *d, int i, int64_t need, const uint8_t **p, int64_t *n, struct ctr_err *err)
{
    int64_t length;
    return get_buffer(d, i, true, need, p, n ? n : &length, err);
}

int ctr_data_values(struct arrow_data *d, int i, int64_t need, const uint8_t **p, struct ctr_err *err)
{
    int64_t length;
    return get_buffer(d, i, false, need, p, &length, err);
}

int ctr_data_valid(struct arrow_data *d, int i, int64_t rows, int64_t nulls, const uint8_t **p, struct ctr_err *err)
{
    int64_t n, need = (rows + 7) / 8;
    int rc = ctr_data_buffer(d, i, 0, p, &n, err);
    if (rc < 0)
        return rc;
    if (n >= need && n && ctr_bits_count(*p, 0, rows) != rows - nulls)
        return ctr_fail(err, CTR_EDATA, "a column claims %lld nulls and has %lld", (long long)nulls,
                        (long long)(rows - ctr_bits_count(*p, 0, rows)));
    if (nulls && n < need)
        return ctr_fail(err, CTR_EDATA, "a bitmap of nulls is too short");
    if (!nulls)
        *p = NULL;
    return 0;
}
