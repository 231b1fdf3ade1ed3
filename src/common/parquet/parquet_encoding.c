/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_encoding: the encodings of values (Encodings.md), a row of a table each. An encoding gives the next n values
 * of a page; where the page holds fewer, that is an error. */
#include "common/parquet/parquet_impl.h"

#define BIT(type) (1u << (type))
#define ALL       (BIT(PQ_NTYPES) - 1)

static int too_short(const struct pq_column *c, const struct pq_values *v, struct ctr_err *err)
{
    return ctr_pq_damaged(c, err, "a page has fewer values than levels, or its %s data is damaged", v->encoding->name);
}

static uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ---- PLAIN ---- */

static int plain_bits(struct pq_column *c, struct pq_values *v, int64_t n, uint8_t *out, struct ctr_err *err)
{
    if ((v->at + n + 7) / 8 > v->end - v->p)
        return too_short(c, v, err);
    for (int64_t i = v->at; i < v->at + n; i++)
        *out++ = v->p[i >> 3] >> (i & 7) & 1;
    v->at += n;
    return 0;
}

static int plain_fixed(struct pq_column *c, struct pq_values *v, int64_t n, uint8_t *out, struct ctr_err *err)
{
    if (c->leaf->type == PQ_BOOLEAN)
        return plain_bits(c, v, n, out, err);
    if (n > (v->end - v->p) / c->leaf->width)
        return too_short(c, v, err);
    memcpy(out, v->p, (size_t)(n * c->leaf->width));
    v->p += n * c->leaf->width;
    return 0;
}

static int plain_text(struct pq_column *c, struct pq_values *v, int64_t n, struct ctr_str *out, struct ctr_err *err)
{
    const uint8_t *p = v->p, *end = v->end;
    for (int64_t i = 0; i < n; i++) {
        if (end - p < 4 || load32(p) > (size_t)(end - p - 4))
            return too_short(c, v, err);
        out[i] = (struct ctr_str){ (const char *)p + 4, load32(p) };
        p += 4 + out[i].n;
    }
    v->p = p;
    return 0;
}

/* ---- the hybrid: booleans, and indices of a dictionary ---- */

static int rle_start(struct pq_column *c, struct pq_values *v, struct ctr_err *err)
{
    if (v->end - v->p < 4 || load32(v->p) > (size_t)(v->end - v->p - 4))
        return ctr_pq_damaged(c, err, "the length of RLE values lies beyond the page");
    (void)ctr_pq_hybrid_start(&v->hybrid, v->p + 4, v->p + 4 + load32(v->p), 1);
    return 0;
}

static int rle_fixed(struct pq_column *c, struct pq_values *v, int64_t n, uint8_t *out, struct ctr_err *err)
{
    if (!ctr_pq_hybrid_u8(&v->hybrid, out, n))
        return too_short(c, v, err);
    for (int64_t i = 0; i < n; i++)
        out[i] &= 1;
    return 0;
}

static int dict_start(struct pq_column *c, struct pq_values *v, struct ctr_err *err)
{
    if (!c->has_dict)
        return ctr_pq_damaged(c, err, "a page refers to a dictionary, and there is none");
    if (v->p == v->end) /* no value but null */
        return 0;
    if (!ctr_pq_hybrid_start(&v->hybrid, v->p + 1, v->end, *v->p))
        return ctr_pq_damaged(c, err, "indices of a dictionary have %d bits, which is more than 32", *v->p);
    return 0;
}

int ctr_pq_indices(struct pq_column *c, struct pq_values *v, int64_t n, int32_t *out, struct ctr_err *err)
{
    uint32_t most = 0;
    if (!ctr_pq_hybrid_i32(&v->hybrid, out, n))
        return too_short(c, v, err);
    for (int64_t i = 0; i < n; i++)
        most = CTR_MAX(most, (uint32_t)out[i]);
    return n && most >= c->dict_n
               ? ctr_pq_damaged(c, err, "entry %u of a dictionary is used, which has %lld", most, (long long)c->dict_n)
               : 0;
}

static int indices(struct pq_column *c, struct pq_values *v, int64_t n, const int32_t **out, struct ctr_err *err)
{
    int rc = ctr_buf_room(&c->index, n, sizeof(int32_t), err);
    *out = (const int32_t *)(const void *)c->index.data;
    return rc ? rc : ctr_pq_indices(c, v, n, (int32_t *)(void *)c->index.data, err);
}

static int dict_fixed(struct pq_column *c, struct pq_values *v, int64_t n, uint8_t *out, struct ctr_err *err)
{
    const int32_t *index;
    const uint8_t *dict = c->dict_fixed.data;
    const size_t w = (size_t)c->leaf->width;
    int rc = indices(c, v, n, &index, err);
    if (rc)
        return rc;
    switch (w) {
    case 4:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + 4 * i, dict + 4 * (size_t)index[i], 4);
        break;
    case 8:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + 8 * i, dict + 8 * (size_t)index[i], 8);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + w * (size_t)i, dict + w * (size_t)index[i], w);
        break;
    }
    return 0;
}

static int dict_text(struct pq_column *c, struct pq_values *v, int64_t n, struct ctr_str *out, struct ctr_err *err)
{
    const int32_t *index, *offsets = (const int32_t *)(const void *)c->dict_text.offsets.data;
    const char *data = (const char *)c->dict_text.data.data;
    int rc = indices(c, v, n, &index, err);
    for (int64_t i = 0; !rc && i < n; i++)
        out[i] = (struct ctr_str){ data + offsets[index[i]], (size_t)(offsets[index[i] + 1] - offsets[index[i]]) };
    return rc;
}

/* ---- deltas ---- */

static int delta_start(struct pq_column *c, struct pq_values *v, struct ctr_err *err)
{
    return ctr_pq_delta_start(&v->lengths, v->p, v->end) ? 0 : too_short(c, v, err);
}

static int numbers(struct pq_column *c, struct pq_values *v, struct pq_delta *d, struct ctr_buf *b, int64_t n,
                   const int64_t **out, struct ctr_err *err)
{
    int rc = ctr_buf_room(b, n, sizeof(int64_t), err);
    *out = (const int64_t *)(const void *)b->data;
    if (rc)
        return rc;
    return ctr_pq_delta_get(d, (int64_t *)(void *)b->data, n) ? 0 : too_short(c, v, err);
}

static int delta_fixed(struct pq_column *c, struct pq_values *v, int64_t n, uint8_t *out, struct ctr_err *err)
{
    const int64_t *x;
    int rc = numbers(c, v, &v->lengths, &c->numbers, n, &x, err);
    if (rc)
        return rc;
    if (c->leaf->width == 8)
        memcpy(out, x, (size_t)n * 8);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(out + 4 * i, &x[i], 4); /* little-endian: the low half */
    return 0;
}

/* Lengths first, then the bytes of all texts. */
static int lengths_start(struct pq_column *c, struct pq_values *v, struct ctr_err *err)
{
    if (!ctr_pq_delta_start(&v->lengths, v->p, v->end) || !(v->p = ctr_pq_delta_end(&v->lengths)))
        return too_short(c, v, err);
    return 0;
}

static int lengths_text(struct pq_column *c, struct pq_values *v, int64_t n, struct ctr_str *out, struct ctr_err *err)
{
    const int64_t *length;
    int rc = numbers(c, v, &v->lengths, &c->numbers, n, &length, err);
    for (int64_t i = 0; !rc && i < n; i++) {
        if (length[i] < 0 || length[i] > v->end - v->p)
            return too_short(c, v, err);
        out[i] = (struct ctr_str){ (const char *)v->p, (size_t)length[i] };
        v->p += length[i];
    }
    return rc;
}

/* How much each text has of the one before, then what follows, as above. */
static int prefixes_start(struct pq_column *c, struct pq_values *v, struct ctr_err *err)
{
    v->last.len = 0;
    if (!ctr_pq_delta_start(&v->prefixes, v->p, v->end) || !(v->p = ctr_pq_delta_end(&v->prefixes)))
        return too_short(c, v, err);
    return lengths_start(c, v, err);
}

static int prefixes_text(struct pq_column *c, struct pq_values *v, int64_t n, struct ctr_str *out, struct ctr_err *err)
{
    const int64_t *prefix, *length;
    struct ctr_buf *texts = &c->texts;
    size_t before = 0; /* in texts: the text before */
    int rc = numbers(c, v, &v->prefixes, &c->numbers, n, &prefix, err);
    if (!rc)
        rc = numbers(c, v, &v->lengths, &c->numbers2, n, &length, err);
    texts->len = 0;
    if (!rc)
        rc = ctr_buf_append(texts, v->last.data, v->last.len, err);
    size_t before_n = v->last.len;
    for (int64_t i = 0; !rc && i < n; i++) {
        if (prefix[i] < 0 || (size_t)prefix[i] > before_n || length[i] < 0 || length[i] > v->end - v->p)
            return too_short(c, v, err);
        const size_t at = texts->len, k = (size_t)prefix[i], m = (size_t)length[i];
        rc = at + k + m > INT32_MAX ? ctr_fail_too_long(err) : ctr_buf_reserve(texts, k + m, err);
        if (rc)
            return rc;
        memcpy(texts->data + at, texts->data + before, k);
        memcpy(texts->data + at + k, v->p, m);
        texts->len += k + m;
        v->p += m;
        out[i].n = before_n = k + m;
        before = at;
    }
    if (rc)
        return rc;
    size_t at = v->last.len;
    for (int64_t i = 0; i < n; i++) { /* texts moves no more */
        out[i].p = (const char *)texts->data + at;
        at += out[i].n;
    }
    v->last.len = 0;
    return ctr_buf_append(&v->last, texts->data + before, before_n, err);
}

/* Texts as values of fixed length. */
static int prefixes_fixed(struct pq_column *c, struct pq_values *v, int64_t n, uint8_t *out, struct ctr_err *err)
{
    const size_t w = (size_t)c->leaf->width;
    int rc = ctr_buf_room(&c->index, n, sizeof(struct ctr_str), err);
    struct ctr_str *view = (struct ctr_str *)(void *)c->index.data;
    if (!rc)
        rc = prefixes_text(c, v, n, view, err);
    for (int64_t i = 0; !rc && i < n; i++) {
        if (view[i].n != w)
            return too_short(c, v, err);
        memcpy(out + (size_t)i * w, view[i].p, w);
    }
    return rc;
}

/* ---- BYTE_STREAM_SPLIT ---- */

static int split_start(struct pq_column *c, struct pq_values *v, struct ctr_err *err)
{
    return (v->end - v->p) % c->leaf->width ? too_short(c, v, err) : 0;
}

static int split_fixed(struct pq_column *c, struct pq_values *v, int64_t n, uint8_t *out, struct ctr_err *err)
{
    const int64_t w = c->leaf->width, all = (v->end - v->p) / w;
    if (n > all - v->at)
        return too_short(c, v, err);
    for (int64_t k = 0; k < w; k++) {
        const uint8_t *from = v->p + k * all + v->at;
        for (int64_t i = 0; i < n; i++)
            out[i * w + k] = from[i];
    }
    v->at += n;
    return 0;
}

/* ---- all of them ---- */

static const struct pq_encoding encodings[] = {
    { "PLAIN", 0, ALL, NULL, plain_fixed, plain_text },
    { "PLAIN_DICTIONARY", 2, ALL & ~BIT(PQ_BOOLEAN), dict_start, dict_fixed, dict_text },
    { "RLE", 3, BIT(PQ_BOOLEAN), rle_start, rle_fixed, NULL },
    { "DELTA_BINARY_PACKED", 5, BIT(PQ_INT32) | BIT(PQ_INT64), delta_start, delta_fixed, NULL },
    { "DELTA_LENGTH_BYTE_ARRAY", 6, BIT(PQ_BYTES), lengths_start, NULL, lengths_text },
    { "DELTA_BYTE_ARRAY", 7, BIT(PQ_BYTES) | BIT(PQ_FIXED), prefixes_start, prefixes_fixed, prefixes_text },
    { "RLE_DICTIONARY", 8, ALL & ~BIT(PQ_BOOLEAN), dict_start, dict_fixed, dict_text },
    { "BYTE_STREAM_SPLIT", 9, BIT(PQ_INT32) | BIT(PQ_INT64) | BIT(PQ_FLOAT) | BIT(PQ_REAL64) | BIT(PQ_FIXED),
      split_start, split_fixed, NULL },
};

static const struct pq_encoding *find_encoding(int number)
{
    for (size_t i = 0; i < CTR_COUNT(encodings); i++)
        if (encodings[i].number == number)
            return &encodings[i];
    return NULL;
}

bool ctr_pq_encoding_dict(const struct pq_encoding *e)
{
    return e->start == dict_start;
}

int ctr_pq_values_start(struct pq_column *c, int encoding, const uint8_t *p, const uint8_t *end, struct ctr_err *err)
{
    struct pq_values *v = &c->values;
    v->encoding = find_encoding(encoding);
    v->p = p;
    v->end = end;
    v->at = 0;
    if (!v->encoding)
        return ctr_pq_damaged(c, err, "a page has an encoding of number %d, which is not known", encoding);
    if (!(v->encoding->types & BIT(c->leaf->type)))
        return ctr_pq_damaged(c, err, "a page has the encoding %s, which is not one of %s values", v->encoding->name,
                              ctr_pq_types[c->leaf->type]);
    v->hybrid = (struct pq_hybrid){ 0 };
    /* a page without a value but null may have no byte of them */
    v->lengths = v->prefixes = (struct pq_delta){ 0 };
    return v->encoding->start && p < end      ? v->encoding->start(c, v, err)
           : v->encoding->start == dict_start ? dict_start(c, v, err)
                                              : 0;
}

/* ---- the dictionary ---- */

static int add_texts(struct pq_column *c, const struct ctr_str *view, int64_t n, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < n; i++) {
        if (!ctr_utf8_valid((const uint8_t *)view[i].p, view[i].n))
            return ctr_pq_damaged(c, err, "entry %lld of a dictionary is not UTF-8: leave the column out",
                                  (long long)i);
        if (c->dict_text.data.len + view[i].n > INT32_MAX)
            return ctr_pq_damaged(c, err, "a dictionary has more than 2^31 bytes");
        rc = ctr_colbuf_str(&c->dict_text, view[i].p, view[i].n, err);
    }
    return rc;
}

/* Texts of a dictionary: as they are, or made of values of fixed length. */
static int text_dictionary(struct pq_column *c, struct pq_values *v, int64_t n, struct ctr_err *err)
{
    int rc = ctr_buf_room(&c->views, n, sizeof(struct ctr_str), err);
    struct ctr_str *view = (struct ctr_str *)(void *)c->views.data;
    if (!rc && c->leaf->width && n > (v->end - v->p) / c->leaf->width)
        rc = too_short(c, v, err);
    for (int64_t i = 0; !rc && c->leaf->width && i < n; i++)
        view[i] = (struct ctr_str){ (const char *)v->p + i * c->leaf->width, (size_t)c->leaf->width };
    if (!rc && !c->leaf->width)
        rc = plain_text(c, v, n, view, err);
    if (!rc && c->leaf->kind != PQ_K_TEXT) {
        c->texts.len = 0;
        rc = ctr_pq_texts(c->leaf, view, n, &c->texts, view, err);
    }
    return rc ? rc : add_texts(c, view, n, err);
}

int ctr_pq_dictionary(struct pq_column *c, int64_t n, const uint8_t *p, const uint8_t *end, struct ctr_err *err)
{
    struct pq_values v = { .encoding = &encodings[0], .p = p, .end = end };
    const bool text = ctr_pq_is_text(c->leaf->kind);
    ctr_colbuf_clear(&c->dict_text);
    c->has_dict = true;
    c->dict_n = n;
    /* a value takes a bit at least, a text four bytes */
    if (n < 0 || n > (c->leaf->width ? (end - p) / (c->leaf->type == PQ_BOOLEAN ? 1 : c->leaf->width) : (end - p) / 4))
        return ctr_pq_damaged(c, err, "a dictionary of %lld bytes is said to have %lld entries", (long long)(end - p),
                              (long long)n);
    if (n && c->leaf->kind == PQ_K_NULL)
        return ctr_pq_not_null(c, err);
    if (text)
        return text_dictionary(c, &v, n, err);
    int rc = ctr_buf_room(&c->dict_fixed, n, (size_t)c->leaf->width, err);
    return rc ? rc : plain_fixed(c, &v, n, c->dict_fixed.data, err);
}
