/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_page: the pages of a column chunk: header, checksum, levels, and where values begin. A page is unpacked when
 * it is opened; levels are taken of it in pieces. */
#include "common/base/memory.h"
#include "common/parquet/parquet_impl.h"

#include <zlib.h>

enum { HEAD_BYTES = 16 << 10, MAX_HEAD_BYTES = 16 << 20 };

struct head {
    int64_t type, size, packed; /* PageType; unpacked and packed bytes */
    bool has_crc;
    uint32_t crc;
    int64_t values, encoding;
    int64_t def_encoding, rep_encoding; /* version 1 */
    int64_t def_bytes, rep_bytes;       /* version 2 */
    bool is_packed, whole;              /* whole: the struct that belongs to the type was there */
};
enum { DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 };

/* ---- bytes of the file ---- */

/* n bytes from c->at on, in the window. */
static int need(struct pq_column *c, int64_t n, const uint8_t **p, struct ctr_err *err)
{
    const int64_t have = c->window_at + (int64_t)c->window.len - c->at;
    if (c->at >= c->window_at && have >= n) {
        *p = c->window.data + (c->at - c->window_at);
        return 0;
    }
    const int64_t want = CTR_MAX(n, CTR_MIN(PQ_WINDOW, c->said_end - c->at));
    if (n > c->end - c->at)
        return ctr_pq_damaged(c, err, "a page lies beyond the end of its column chunk");
    int rc = ctr_buf_room(&c->window, want, 1, err);
    if (!rc)
        rc = ctr_pread_full(c->fd, c->window.data, (size_t)want, c->at, err);
    if (rc)
        return rc;
    c->window_at = c->at;
    c->window.len = (size_t)want;
    c->bytes_read += want;
    *p = c->window.data;
    return 0;
}

/* ---- the header ---- */

static void read_data_head(struct pq_thrift *t, int wire, struct head *h, int type)
{
    struct pq_field f = { 0 };
    if (wire != PQ_STRUCT)
        t->bad = true;
    h->whole |= h->type == type;
    while (!t->bad && ctr_pq_field(t, &f)) {
        int64_t *to = f.id == 1                           ? &h->values
                      : f.id == 2 && type != DATA_PAGE_V2 ? &h->encoding
                      : f.id == 3 && type == DATA_PAGE    ? &h->def_encoding
                      : f.id == 4 && type == DATA_PAGE    ? &h->rep_encoding
                      : f.id == 4 && type == DATA_PAGE_V2 ? &h->encoding
                      : f.id == 5 && type == DATA_PAGE_V2 ? &h->def_bytes
                      : f.id == 6 && type == DATA_PAGE_V2 ? &h->rep_bytes
                                                          : NULL;
        if (to)
            *to = ctr_pq_int(t, f.wire);
        else if (f.id == 7 && type == DATA_PAGE_V2)
            h->is_packed = ctr_pq_bool(t, f.wire);
        else
            ctr_pq_skip(t, f.wire);
    }
}

static void read_head(struct pq_thrift *t, struct head *h)
{
    struct pq_field f = { 0 };
    *h = (struct head){ .type = -1, .size = -1, .packed = -1, .values = -1, .encoding = -1, .is_packed = true };
    while (ctr_pq_field(t, &f))
        switch (f.id) {
        case 1: h->type = ctr_pq_int(t, f.wire); break;
        case 2: h->size = ctr_pq_int(t, f.wire); break;
        case 3: h->packed = ctr_pq_int(t, f.wire); break;
        case 4:
            h->crc = (uint32_t)ctr_pq_int(t, f.wire);
            h->has_crc = true;
            break;
        case 5: read_data_head(t, f.wire, h, DATA_PAGE); break;
        case 7: read_data_head(t, f.wire, h, DICTIONARY_PAGE); break;
        case 8: read_data_head(t, f.wire, h, DATA_PAGE_V2); break;
        default: ctr_pq_skip(t, f.wire); break;
        }
}

bool ctr_pq_dictionary_size(int fd, const struct pq_chunk *chunk, int64_t *values, int64_t *bytes)
{
    uint8_t p[64];
    struct ctr_err ignored = { 0 };
    struct head h;
    if (chunk->bytes < (int64_t)sizeof p || ctr_pread_full(fd, p, sizeof p, chunk->start, &ignored))
        return false;
    struct pq_thrift t = { p, p + sizeof p, 0, false };
    read_head(&t, &h);
    *values = h.values;
    *bytes = h.size;
    return !t.bad && h.type == DICTIONARY_PAGE && h.values >= 0;
}

/* Its length is not known: statistics in it may be long. */
static int next_head(struct pq_column *c, struct head *h, struct ctr_err *err)
{
    for (int64_t n = HEAD_BYTES;; n = CTR_MIN(n * 16, MAX_HEAD_BYTES)) {
        const int64_t left = c->end - c->at;
        const uint8_t *p;
        if (left <= 0)
            return ctr_pq_damaged(c, err, "the column chunk ends before its last page");
        int rc = need(c, CTR_MIN(n, left), &p, err);
        if (rc)
            return rc;
        struct pq_thrift t = { p, p + CTR_MIN(n, left), 0, false };
        read_head(&t, h);
        if (!t.bad) {
            c->at += t.p - p;
            return 0;
        }
        if (n >= left || n == MAX_HEAD_BYTES)
            return ctr_pq_damaged(c, err, "the header of a page is damaged");
    }
}

static int check_head(const struct pq_column *c, const struct head *h, struct ctr_err *err)
{
    const bool typed = h->type != INDEX_PAGE && h->type >= DATA_PAGE && h->type <= DATA_PAGE_V2;
    if (h->size < 0 || h->packed < 0 || h->type < 0 || (typed && (!h->whole || h->values < 0 || h->encoding < 0)) ||
        h->def_bytes < 0 || h->rep_bytes < 0 || h->size > INT32_MAX || h->values > INT32_MAX ||
        h->def_bytes > CTR_MIN(h->size, h->packed) || h->rep_bytes > CTR_MIN(h->size, h->packed) - h->def_bytes)
        return ctr_pq_damaged(c, err, "the header of a page is damaged");
    if (h->packed > c->end - c->at)
        return ctr_pq_damaged(c, err, "a page of %lld bytes lies beyond the end of its column chunk",
                              (long long)h->packed);
    if (h->size > ctr_memory_batch())
        return ctr_memory_fail("a page", h->size, err);
    return 0;
}

/* ---- levels ---- */

static int level_width(int most)
{
    return most ? 32 - __builtin_clz((unsigned)most) : 0;
}

/* Version 1: levels with their length before them, or in the deprecated packing. *p moves behind. */
static int start_levels(struct pq_column *c, int most, int64_t encoding, int64_t values, const uint8_t **p,
                        const uint8_t *end, struct pq_hybrid *h, const uint8_t **packed, struct ctr_err *err)
{
    const int width = level_width(most);
    uint32_t n;
    *packed = NULL;
    if (!most)
        return 0;
    if (encoding == 4) {
        const int64_t bytes = (values * width + 7) / 8;
        if (bytes > end - *p)
            return ctr_pq_damaged(c, err, "levels lie beyond the page");
        *packed = *p;
        *p += bytes;
        return 0;
    }
    if (encoding != 3)
        return ctr_pq_damaged(c, err, "levels have an encoding of number %lld, which is not known",
                              (long long)encoding);
    if (end - *p < 4)
        return ctr_pq_damaged(c, err, "levels lie beyond the page");
    memcpy(&n, *p, sizeof n);
    *p += 4;
    if (n > (size_t)(end - *p))
        return ctr_pq_damaged(c, err, "levels lie beyond the page");
    (void)ctr_pq_hybrid_start(h, *p, *p + n, width);
    *p += n;
    return 0;
}

static bool take_levels(struct pq_hybrid *h, const uint8_t *packed, int most, int64_t at, uint8_t *out, int64_t n)
{
    uint8_t top = 0;
    if (packed)
        ctr_pq_bit_packed(packed, level_width(most), at, out, n);
    else if (!ctr_pq_hybrid_u8(h, out, n))
        return false;
    for (int64_t i = 0; i < n; i++)
        top = CTR_MAX(top, out[i]);
    return top <= most;
}

int ctr_pq_levels(struct pq_column *c, struct ctr_err *err)
{
    const struct pq_leaf *l = c->leaf;
    const int64_t n = l->max_def ? CTR_MIN(c->page_left, PQ_PIECE) : c->page_left;
    if ((l->max_rep && !take_levels(&c->rep, c->rep_packed, l->max_rep, c->levels_at, c->rep_level, n)) ||
        (l->max_def && !take_levels(&c->def, c->def_packed, l->max_def, c->levels_at, c->def_level, n)))
        return ctr_pq_damaged(c, err, "the levels of a page are damaged, or fewer than its values");
    c->levels_at += n;
    c->page_left -= n;
    c->piece = n;
    c->piece_at = 0;
    return 0;
}

/* ---- pages ---- */

static int unpack(struct pq_column *c, const uint8_t *p, int64_t n, int64_t size, bool is_packed, const uint8_t **out,
                  struct ctr_err *err)
{
    if (!is_packed || c->chunk->codec == PQ_UNCOMPRESSED) {
        *out = p;
        return n == size ? 0
                         : ctr_pq_damaged(c, err, "an uncompressed page has %lld bytes instead of %lld", (long long)n,
                                          (long long)size);
    }
    struct ctr_err why = { 0 };
    int rc = ctr_pq_unpack(&c->unpack, c->chunk->codec, p, (size_t)n, (size_t)size, &c->page, &why);
    *out = c->page.data;
    return rc ? ctr_fail(err, rc, "column %s %s", c->name, why.what) : 0;
}

static int open_v1(struct pq_column *c, const struct head *h, const uint8_t *p, struct ctr_err *err)
{
    int rc = unpack(c, p, h->packed, h->size, true, &p, err);
    const uint8_t *end = p + h->size;
    if (!rc)
        rc = start_levels(c, c->leaf->max_rep, h->rep_encoding, h->values, &p, end, &c->rep, &c->rep_packed, err);
    if (!rc)
        rc = start_levels(c, c->leaf->max_def, h->def_encoding, h->values, &p, end, &c->def, &c->def_packed, err);
    return rc ? rc : ctr_pq_values_start(c, (int)h->encoding, p, end, err);
}

/* Version 2: levels are never packed. */
static int open_v2(struct pq_column *c, const struct head *h, const uint8_t *p, struct ctr_err *err)
{
    const int64_t levels = h->rep_bytes + h->def_bytes;
    const uint8_t *values;
    c->rep_packed = c->def_packed = NULL;
    (void)ctr_pq_hybrid_start(&c->rep, p, p + h->rep_bytes, level_width(c->leaf->max_rep));
    (void)ctr_pq_hybrid_start(&c->def, p + h->rep_bytes, p + levels, level_width(c->leaf->max_def));
    int rc =
        unpack(c, p + levels, h->packed - levels, h->size - levels, h->is_packed && h->packed > levels, &values, err);
    return rc ? rc : ctr_pq_values_start(c, (int)h->encoding, values, values + (h->size - levels), err);
}

static int open_dictionary(struct pq_column *c, const struct head *h, const uint8_t *p, struct ctr_err *err)
{
    if (c->has_dict)
        return ctr_pq_damaged(c, err, "a column chunk has two dictionaries");
    if (h->encoding != 0 && h->encoding != 2)
        return ctr_pq_damaged(c, err, "a dictionary has an encoding of number %lld, which is not known",
                              (long long)h->encoding);
    int rc = unpack(c, p, h->packed, h->size, true, &p, err);
    return rc ? rc : ctr_pq_dictionary(c, h->values, p, p + h->size, err);
}

static int open_data(struct pq_column *c, const struct head *h, const uint8_t *p, struct ctr_err *err)
{
    if (h->values > c->values_left)
        return ctr_pq_damaged(c, err, "its pages have more values than the footer says");
    c->values_left -= h->values;
    c->page_left = h->values;
    c->levels_at = 0;
    c->piece = c->piece_at = 0;
    return h->type == DATA_PAGE ? open_v1(c, h, p, err) : open_v2(c, h, p, err);
}

static int check_crc(const struct pq_column *c, const struct head *h, const uint8_t *p, struct ctr_err *err)
{
    if (!h->has_crc || (uint32_t)crc32(0, p, (uInt)h->packed) == h->crc)
        return 0;
    return ctr_pq_damaged(c, err, "the checksum of a page is wrong");
}

int ctr_pq_page_next(struct pq_column *c, struct ctr_err *err)
{
    struct head h;
    const uint8_t *p;
    while (c->values_left > 0) {
        int rc = next_head(c, &h, err);
        if (!rc)
            rc = check_head(c, &h, err);
        if (!rc && h.type != DATA_PAGE && h.type != DATA_PAGE_V2 && h.type != DICTIONARY_PAGE) {
            c->at += h.packed;
            continue;
        }
        if (!rc)
            rc = need(c, h.packed, &p, err);
        if (!rc)
            rc = check_crc(c, &h, p, err);
        c->at += rc ? 0 : h.packed;
        if (!rc)
            rc = h.type == DICTIONARY_PAGE ? open_dictionary(c, &h, p, err) : open_data(c, &h, p, err);
        if (rc || (h.type != DICTIONARY_PAGE && h.values))
            return rc ? rc : 1;
    }
    return 0;
}
