/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_column: a column chunk as rows of a growing column: levels say which rows and items are there, the encoding
 * gives the values that are, close together, and they are spread to their places. */
#include "common/parquet/parquet_impl.h"

#include <stdarg.h>
#include <stdlib.h>

/* The lists [1, null], null, [] and [2], where lists and items may be null (list_def 2, max_def 3), in a chunk:
 *
 *     def  3 2 | 0 | 1 | 3     0: no list, 1: an empty one, 2: an item that is null, 3: a value
 *     rep  0 1 | 0 | 0 | 0     0: a row begins
 *     values 1 2, in the encoding of the page
 *
 * take_lists reads the levels: ends 2 2 2 3, row_present 1 0 1 1, present 1 0 1. append reads the two values to the
 * start of the room for three items, spread moves them, last one first, to where present is 1, 1 0 2, and count_rows
 * adds the bits 101. A column without lists has its rows in the place of items (read_flat). Levels come PQ_PIECE at a
 * time, and a batch may end between any two rows: piece_at is where the next one goes on. */

/* Old writers did not count the header of the dictionary page among a chunk's bytes. */
enum { OLD_HEAD_BYTES = 100 };

static int fault(const struct pq_column *c, bool row, struct ctr_err *err, const char *fmt, va_list ap)
{
    char why[512], near[48] = "";
    ctr_vformat(why, sizeof why, fmt, ap);
    if (row)
        ctr_format(near, sizeof near, " (near row %lld)", (long long)(c->row + c->out.rows + 1));
    return ctr_fail(err, CTR_EDATA, "column %s: %s%s", c->name, why, near);
}

int ctr_pq_damaged(const struct pq_column *c, struct ctr_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int rc = fault(c, true, err, fmt, ap);
    va_end(ap);
    return rc;
}

/* The message says which row. */
static int CTR_PRINTF(3, 4) unfit(const struct pq_column *c, struct ctr_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int rc = fault(c, false, err, fmt, ap);
    va_end(ap);
    return rc;
}

int ctr_pq_not_null(const struct pq_column *c, struct ctr_err *err)
{
    return ctr_pq_damaged(c, err, "its type is that of nothing but nulls, and it has values");
}

static int open_plain(struct pq_column *c, const struct ctr_schema *schema, const struct ctr_field *f,
                      struct ctr_text_column *as, struct ctr_err *err)
{
    static const struct ctr_field text = { .type = CTR_UTF8 };
    struct ctr_field out = *f;
    c->name = f->name;
    c->as = as;
    c->dict = f->dict;
    c->job.block.utf8 = true;
    c->job.out.schema = schema;
    c->def_level = malloc(4 * (size_t)PQ_PIECE);
    if (!c->def_level)
        return ctr_fail_nomem(err, 4 * (size_t)PQ_PIECE);
    c->rep_level = c->def_level + PQ_PIECE;
    c->present = c->rep_level + PQ_PIECE;
    c->row_present = c->present + PQ_PIECE;
    c->fixes = f->type == CTR_FIXED;
    out.type = c->fixes ? CTR_LIST : f->type;
    c->form = out;
    int rc = ctr_colbuf_init(&c->dict_text, &text, err);
    return rc ? rc : ctr_colbuf_init(&c->converted, &as->type, err);
}

int ctr_pq_column_open(struct pq_column *c, const struct ctr_schema *schema, int column, struct ctr_text_column *as,
                       struct ctr_err *err)
{
    struct ctr_field f = schema->f[column];
    if (f.item != CTR_WKEY || !ctr_type_list(f.type))
        return open_plain(c, schema, &f, as, err);
    c->weights = calloc(1, sizeof *c->weights);
    if (!c->weights)
        return ctr_fail_nomem(err, sizeof *c->weights);
    c->weights->half.type = (struct ctr_field){ .type = CTR_LIST, .item = CTR_F32 };
    c->half.type = (struct ctr_field){ .type = CTR_LIST, .item = CTR_U64 };
    f.item = CTR_U64;
    int rc = open_plain(c, schema, &f, &c->half, err);
    f.item = CTR_F32;
    return rc ? rc : open_plain(c->weights, schema, &f, &c->weights->half, err);
}

static int need_losses(struct pq_column *c, struct ctr_err *err)
{
    const size_t n = (size_t)c->job.out.schema->n;
    if (!c->job.loss && !(c->job.loss = calloc(n, sizeof *c->job.loss)))
        return ctr_fail_nomem(err, n * sizeof *c->job.loss);
    return 0;
}

int ctr_pq_column_file(struct pq_column *c, const struct pq_leaf *leaf, struct ctr_err *err)
{
    struct ctr_field f = c->as->type;
    c->leaf = leaf;
    c->row = 0;
    c->from = leaf ? PQ_FROM_FILE : PQ_FROM_NOWHERE;
    c->converts = leaf && leaf->kind != PQ_K_NULL && !ctr_pq_same_type(&leaf->native, &c->as->type);
    if (c->converts)
        f = leaf->native;
    f.type = c->fixes ? CTR_LIST : f.type;
    f.dict = c->dict;
    c->form = f;
    return c->converts ? need_losses(c, err) : 0;
}

int ctr_pq_column_constant(struct pq_column *c, const char *text, struct ctr_err *err)
{
    char type[64];
    c->from = text ? PQ_FROM_PATH : PQ_FROM_NOWHERE;
    c->leaf = NULL;
    c->row = 0;
    c->converts = false;
    c->form = c->as->type;
    c->form.dict = c->dict;
    ctr_colbuf_clear(&c->converted);
    if (!text)
        return 0;
    c->text.len = 0;
    int rc = need_losses(c, err);
    const bool inferred = !c->as->typed && ctr_types[c->as->type.type].integer;
    const size_t zeros = inferred && strlen(text) > 1 ? CTR_MIN(strspn(text, "0"), strlen(text) - 1) : 0;
    if (!rc)
        rc = ctr_buf_append(&c->text, text, strlen(text) + 1, err);
    if (!rc)
        rc = ctr_cell_append(&c->converted, c->as, (const char *)c->text.data + zeros, c->text.len - 1 - zeros, &c->job,
                             err);
    if (rc > 0)
        return 0;
    return rc ? rc
              : unfit(c, err, "%s, in the path, is not %s: --columns names its type",
                      ctr_text_show(text, strlen(text)).s, ctr_field_type_name(&c->as->type, type, sizeof type));
}

void ctr_pq_column_free(struct pq_column *c)
{
    struct ctr_buf *const bufs[] = { &c->window, &c->page, &c->dict_fixed, &c->fixed,    &c->index, &c->views,
                                     &c->texts,  &c->made, &c->numbers,    &c->numbers2, &c->text,  &c->values.last };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    ctr_colbuf_free(&c->out);
    ctr_colbuf_free(&c->dict_text);
    ctr_colbuf_free(&c->mixed);
    ctr_colbuf_free(&c->converted);
    ctr_pq_unpack_free(&c->unpack);
    free(c->job.loss);
    free(c->def_level);
    if (c->weights)
        ctr_pq_column_free(c->weights);
    free(c->weights);
}

int ctr_pq_column_start(struct pq_column *c, int fd, int64_t size, const struct pq_chunk *chunks, struct ctr_err *err)
{
    ctr_colbuf_clear(&c->dict_text); /* of another file, whatever this column has in this one */
    if (c->from != PQ_FROM_FILE)
        return 0;
    const struct pq_chunk *chunk = &chunks[c->leaf->column];
    c->fd = fd;
    c->chunk = chunk;
    c->at = chunk->start;
    c->values_left = chunk->values;
    c->window.len = 0;
    c->page_left = c->piece = c->piece_at = 0;
    c->has_dict = false;
    c->dict_n = 0;
    if (chunk->encrypted)
        return ctr_pq_damaged(c, err, "it is encrypted: write the file without encryption first");
    if (chunk->elsewhere)
        return ctr_pq_damaged(c, err, "it lies in another file, which is not read");
    if (chunk->type != c->leaf->type)
        return ctr_pq_damaged(c, err, "a column chunk has another type than the schema");
    if (__builtin_add_overflow(chunk->start, chunk->bytes, &c->end) || c->end > size - 8)
        return ctr_pq_damaged(c, err, "a column chunk lies beyond the end of the file");
    c->said_end = c->end;
    c->end = CTR_MIN(c->end + OLD_HEAD_BYTES, size - 8);
    return c->weights ? ctr_pq_column_start(c->weights, fd, size, chunks, err) : 0;
}

/* ---- bits ---- */

/* Bits for rows up to `rows`, zeroed. */
static int bits_room(struct ctr_buf *b, int64_t rows, struct ctr_err *err)
{
    const size_t n = (size_t)(rows + 7) / 8;
    int rc = n > b->len ? ctr_buf_reserve(b, n - b->len, err) : 0;
    if (rc || n <= b->len)
        return rc;
    memset(b->data + b->len, 0, n - b->len);
    b->len = n;
    return 0;
}

/* Set bits from `at` on of n bytes that are 0 or 1. */
static void bits_put(uint8_t *bits, int64_t at, const uint8_t *from, int64_t n)
{
    int64_t i = 0;
    for (; i < n && (at + i) & 7; i++)
        bits[(at + i) >> 3] |= (uint8_t)(from[i] << ((at + i) & 7));
    for (; i + 8 <= n; i += 8) {
        uint64_t v;
        memcpy(&v, from + i, sizeof v);
        bits[(at + i) >> 3] = (uint8_t)(v * 0x0102040810204080u >> 56);
    }
    for (; i < n; i++)
        bits[(at + i) >> 3] |= (uint8_t)(from[i] << ((at + i) & 7));
}

/* n rows more, of which `nulls` are not present. */
static int count_rows(struct ctr_colbuf *b, int64_t n, int64_t nulls, const uint8_t *present, struct ctr_err *err)
{
    if (nulls || b->valid.len) {
        const bool fresh = !b->valid.len;
        int rc = bits_room(&b->valid, b->rows + n, err);
        if (rc)
            return rc;
        if (fresh)
            ctr_bits_set(b->valid.data, 0, b->rows);
        if (nulls)
            bits_put(b->valid.data, b->rows, present, n);
        else
            ctr_bits_set(b->valid.data, b->rows, n);
    }
    b->rows += n;
    b->nulls += nulls;
    return 0;
}

/* ---- values of fixed width ---- */

/* k values stand at the start of room for n: move them to the places that are present, zeros between. */
#define SPREAD(type)                                                                                                   \
    static void spread_##type(uint8_t *at, int64_t n, int64_t k, const uint8_t *present)                               \
    {                                                                                                                  \
        type *v = (type *)(void *)at;                                                                                  \
        for (int64_t i = n - 1; i >= k; i--)                                                                           \
            v[i] = present[i] ? v[--k] : 0;                                                                            \
    }
SPREAD(uint8_t)
SPREAD(uint16_t)
SPREAD(uint32_t)
SPREAD(uint64_t)

static void spread(uint8_t *at, int width, int64_t n, int64_t k, const uint8_t *present)
{
    switch (width) {
    case 1: spread_uint8_t(at, n, k, present); break;
    case 2: spread_uint16_t(at, n, k, present); break;
    case 4: spread_uint32_t(at, n, k, present); break;
    default: spread_uint64_t(at, n, k, present); break;
    }
}

static int append_bits(struct pq_column *c, struct ctr_colbuf *b, int64_t n, int64_t k, const uint8_t *present,
                       struct ctr_err *err)
{
    int rc = ctr_buf_room(&c->fixed, n, 1, err);
    if (!rc)
        rc = c->values.encoding->fixed(c, &c->values, k, c->fixed.data, err);
    if (!rc)
        rc = bits_room(&b->data, b->rows + n, err);
    if (rc)
        return rc;
    if (k < n)
        spread_uint8_t(c->fixed.data, n, k, present);
    bits_put(b->data.data, b->rows, c->fixed.data, n);
    return 0;
}

static int append_fixed(struct pq_column *c, struct ctr_colbuf *b, int64_t n, int64_t k, const uint8_t *present,
                        struct ctr_err *err)
{
    const bool same = c->leaf->kind == PQ_K_SAME;
    const int width = ctr_types[b->type].width;
    int rc = ctr_buf_reserve(&b->data, (size_t)n * (size_t)width, err);
    if (!rc && !same)
        rc = ctr_buf_room(&c->fixed, k, (size_t)c->leaf->width, err);
    uint8_t *to = b->data.data + b->data.len;
    if (!rc && k)
        rc = c->values.encoding->fixed(c, &c->values, k, same ? to : c->fixed.data, err);
    if (!rc && k && !same)
        rc = ctr_pq_convert(c, c->fixed.data, k, to, err);
    if (rc)
        return rc;
    if (k < n)
        spread(to, width, n, k, present);
    b->data.len += (size_t)n * (size_t)width;
    return 0;
}

/* ---- texts ---- */

/* The next k texts. */
static int next_texts(struct pq_column *c, int64_t k, const struct ctr_str **out, bool *checked, struct ctr_err *err)
{
    const struct pq_leaf *l = c->leaf;
    const bool dict = ctr_pq_encoding_dict(c->values.encoding);
    int rc = ctr_buf_room(&c->views, k, sizeof(struct ctr_str), err);
    struct ctr_str *view = (struct ctr_str *)(void *)c->views.data;
    *out = view;
    *checked = dict || l->kind != PQ_K_TEXT;
    if (rc || !k)
        return rc;
    if (dict || !l->width) {
        rc = c->values.encoding->text ? c->values.encoding->text(c, &c->values, k, view, err)
                                      : ctr_pq_damaged(c, err, "texts have an encoding for numbers");
    } else {
        rc = ctr_buf_room(&c->fixed, k, (size_t)l->width, err);
        if (!rc)
            rc = c->values.encoding->fixed(c, &c->values, k, c->fixed.data, err);
        for (int64_t i = 0; !rc && i < k; i++)
            view[i] = (struct ctr_str){ (const char *)c->fixed.data + i * l->width, (size_t)l->width };
    }
    if (rc || dict || l->kind == PQ_K_TEXT)
        return rc;
    c->made.len = 0;
    return ctr_pq_texts(l, view, k, &c->made, view, err);
}

/* Are these texts, put together, UTF-8 each? */
static bool all_utf8(const struct ctr_str *view, int64_t k, const uint8_t *joined, size_t n)
{
    bool middle = false; /* a text begins within a character */
    for (int64_t i = 0; i < k; i++)
        middle |= view[i].n && ((uint8_t)view[i].p[0] & 0xc0) == 0x80;
    return !middle && ctr_utf8_valid(joined, n);
}

static int not_utf8(const struct pq_column *c, const struct ctr_str *view, int64_t k, struct ctr_err *err)
{
    int64_t i = 0;
    while (i + 1 < k && ctr_utf8_valid((const uint8_t *)view[i].p, view[i].n))
        i++;
    return unfit(c, err, "%s, near row %lld, is not UTF-8: leave the column out", ctr_text_show(view[i].p, view[i].n).s,
                 (long long)(c->row + c->out.rows + 1));
}

/* Append k texts to the data of b, and n ends of them, where present says. */
static int append_texts(struct pq_column *c, struct ctr_colbuf *b, const struct ctr_str *view, int64_t n, int64_t k,
                        const uint8_t *present, bool checked, struct ctr_err *err)
{
    size_t total = 0;
    for (int64_t i = 0; i < k; i++)
        total += view[i].n;
    if (total > INT32_MAX || b->data.len + total > INT32_MAX)
        return ctr_fail_too_long(err);
    const bool first = !b->offsets.len;
    int rc = ctr_buf_reserve(&b->data, total + CTR_PAD, err);
    if (!rc)
        rc = ctr_buf_reserve(&b->offsets, ((size_t)n + 1) * sizeof(int32_t), err);
    if (rc)
        return rc;
    if (first) {
        *(int32_t *)(void *)b->offsets.data = 0;
        b->offsets.len = sizeof(int32_t);
    }
    int32_t *end = (int32_t *)(void *)(b->offsets.data + b->offsets.len);
    uint8_t *start = b->data.data + b->data.len, *to = start;
    for (int64_t i = 0, j = 0; i < n; i++) {
        if (k == n || present[i]) {
            memcpy(to, view[j].p, view[j].n);
            to += view[j++].n;
        }
        end[i] = (int32_t)(to - b->data.data);
    }
    b->data.len += total;
    b->offsets.len += (size_t)n * sizeof(int32_t);
    return checked || all_utf8(view, k, start, total) ? 0 : not_utf8(c, view, k, err);
}

/* ---- dictionary columns ---- */

/* Index the rows so far in a dictionary of this batch, in which each row has an entry: pages without a dictionary
 * follow. */
static int mix(struct pq_column *c, struct ctr_err *err)
{
    const struct ctr_col dict = *ctr_colbuf_view(&c->dict_text);
    int32_t *index = (int32_t *)(void *)c->out.data.data;
    c->is_mixed = true;
    for (int64_t i = 0; i < c->out.rows; i++) {
        if (c->out.valid.len && !ctr_bit(c->out.valid.data, i))
            continue;
        const struct ctr_str s = ctr_col_str(&dict, index[i]);
        int rc = ctr_colbuf_str(&c->mixed, s.p, s.n, err);
        if (rc)
            return rc;
        index[i] = (int32_t)(c->mixed.rows - 1);
    }
    return 0;
}

static int append_indices(struct pq_column *c, struct ctr_colbuf *b, int64_t n, int64_t k, const uint8_t *present,
                          struct ctr_err *err)
{
    int rc = ctr_buf_reserve(&b->data, (size_t)n * sizeof(int32_t), err);
    if (!rc && k && !c->is_mixed && !ctr_pq_encoding_dict(c->values.encoding))
        rc = mix(c, err);
    if (rc)
        return rc;
    int32_t *index = (int32_t *)(void *)(b->data.data + b->data.len);
    if (k && !c->is_mixed) {
        rc = ctr_pq_indices(c, &c->values, k, index, err);
    } else if (k) {
        const struct ctr_str *view;
        bool checked;
        const int64_t first = c->mixed.rows;
        rc = next_texts(c, k, &view, &checked, err);
        if (!rc)
            rc = append_texts(c, &c->mixed, view, k, k, NULL, checked, err);
        c->mixed.rows += rc ? 0 : k;
        for (int64_t i = 0; i < k; i++)
            index[i] = (int32_t)(first + i);
    }
    if (rc)
        return rc;
    if (k < n)
        spread_uint32_t((uint8_t *)index, n, k, present);
    b->data.len += (size_t)n * sizeof(int32_t);
    return 0;
}

/* ---- rows ---- */

/* n values of a column or of its lists, k of them present. */
static int append(struct pq_column *c, struct ctr_colbuf *b, int64_t n, int64_t k, const uint8_t *present,
                  struct ctr_err *err)
{
    int rc;
    if (!n)
        return 0;
    if (k && c->leaf->kind == PQ_K_NULL)
        return ctr_pq_not_null(c, err);
    if (b->is_dict) {
        rc = append_indices(c, b, n, k, present, err);
    } else if (b->type == CTR_UTF8) {
        const struct ctr_str *view;
        bool checked;
        rc = next_texts(c, k, &view, &checked, err);
        if (!rc)
            rc = append_texts(c, b, view, n, k, present, checked, err);
    } else if (b->type == CTR_BOOL) {
        rc = append_bits(c, b, n, k, present, err);
    } else {
        rc = append_fixed(c, b, n, k, present, err);
    }
    return rc ? rc : count_rows(b, n, n - k, present, err);
}

/* Levels to take: 1; 0: the chunk has no more. */
static int next_piece(struct pq_column *c, struct ctr_err *err)
{
    int rc = 1;
    if (c->piece_at < c->piece)
        return 1;
    if (!c->page_left)
        rc = ctr_pq_page_next(c, err);
    if (rc <= 0)
        return rc;
    rc = ctr_pq_levels(c, err);
    return rc ? rc : 1;
}

static int too_few(const struct pq_column *c, struct ctr_err *err)
{
    return ctr_pq_damaged(c, err, "it has fewer rows than its row group");
}

static int read_flat(struct pq_column *c, int64_t rows, struct ctr_err *err)
{
    const uint8_t most = c->leaf->max_def;
    while (rows) {
        int rc = next_piece(c, err);
        if (rc <= 0)
            return rc ? rc : too_few(c, err);
        const int64_t n = CTR_MIN(rows, c->piece - c->piece_at);
        int64_t k = n;
        if (most) {
            const uint8_t *def = c->def_level + c->piece_at;
            k = 0;
            for (int64_t i = 0; i < n; i++)
                k += c->present[i] = def[i] == most;
        }
        rc = append(c, &c->out, n, k, c->present, err);
        if (rc)
            return rc;
        c->piece_at += n;
        rows -= n;
    }
    return 0;
}

/* What the levels of a piece say about rows and items. */
struct taken {
    int64_t entries, rows, items, present, nulls;
};

/* Levels [piece_at, …) that belong to the row that is open and to at most `rows` more; ends[] gets the end of the open
 * row and of those after it, in items from `items` on. */
static int take_lists(struct pq_column *c, int64_t rows, bool open, int32_t *ends, int64_t items, struct taken *t,
                      struct ctr_err *err)
{
    const int list = c->leaf->list_def, most = c->leaf->max_def;
    const uint8_t *def = c->def_level, *rep = c->rep_level;
    int32_t *end = ends - 1;
    int64_t i = c->piece_at;
    *t = (struct taken){ 0 };
    for (; i < c->piece; i++) {
        if (!rep[i]) {
            if (t->rows == rows)
                break;
            c->row_present[t->rows++] = def[i] >= list - 1;
            t->nulls += def[i] < list - 1;
            *++end = (int32_t)items;
        } else if ((!open && !t->rows) || def[i] < list) {
            return ctr_pq_damaged(c, err, "the levels of a list contradict each other");
        }
        if (def[i] >= list) {
            t->present += c->present[t->items++] = def[i] == most;
            if (++items > INT32_MAX)
                return ctr_fail_too_long(err);
            *end = (int32_t)items;
        }
    }
    t->entries = i - c->piece_at;
    return 0;
}

static int read_lists(struct pq_column *c, int64_t rows, struct ctr_err *err)
{
    struct ctr_colbuf *b = &c->out;
    bool open = false;
    for (;;) {
        struct taken t;
        int rc = next_piece(c, err);
        if (rc <= 0)
            return rc || !rows ? rc : too_few(c, err);
        const bool first = !b->offsets.len;
        rc = ctr_buf_reserve(&b->offsets, ((size_t)(c->piece - c->piece_at) + 1) * sizeof(int32_t), err);
        if (rc)
            return rc;
        if (first) {
            *(int32_t *)(void *)b->offsets.data = 0;
            b->offsets.len = sizeof(int32_t);
        }
        rc = take_lists(c, rows, open, (int32_t *)(void *)(b->offsets.data + b->offsets.len), b->item->rows, &t, err);
        if (!rc)
            rc = append(c, b->item, t.items, t.present, c->present, err);
        if (!rc && t.rows)
            rc = count_rows(b, t.rows, t.nulls, c->row_present, err);
        if (rc)
            return rc;
        b->offsets.len += (size_t)t.rows * sizeof(int32_t);
        c->piece_at += t.entries;
        rows -= t.rows;
        open = true;
        if (c->piece_at < c->piece)
            return 0; /* the next row begins here */
    }
}

/* Rows without values in the file: nulls, or the one of the path. */
static int read_none(struct pq_column *c, int64_t rows, struct ctr_err *err)
{
    static const int64_t first[PQ_PIECE];
    const struct ctr_col *one = ctr_colbuf_view(&c->converted);
    int rc = 0;
    for (int64_t i = 0; !rc && i < rows && c->from == PQ_FROM_NOWHERE; i++)
        rc = ctr_colbuf_null(&c->out, err);
    for (int64_t i = 0, n; !rc && i < rows && c->from == PQ_FROM_PATH; i += n) {
        n = CTR_MIN(rows - i, PQ_PIECE);
        rc = c->dict ? ctr_buf_append(&c->out.data, first, (size_t)n * sizeof(int32_t), err)
                     : ctr_colbuf_gather(&c->out, one, first, n, err);
        if (!rc && c->dict)
            rc = count_rows(&c->out, n, 0, NULL, err);
    }
    return rc;
}

/* A column of nulls in the place of one of lists. */
static int read_null_lists(struct pq_column *c, int64_t rows, struct ctr_err *err)
{
    while (rows) {
        int rc = next_piece(c, err);
        if (rc <= 0)
            return rc ? rc : too_few(c, err);
        rc = 0;
        const int64_t n = CTR_MIN(rows, c->piece - c->piece_at);
        for (int64_t i = 0; !rc && i < n; i++)
            rc = c->leaf->max_def && c->def_level[c->piece_at + i] < c->leaf->max_def ? ctr_colbuf_null(&c->out, err)
                                                                                      : ctr_pq_not_null(c, err);
        if (rc)
            return rc;
        c->piece_at += n;
        rows -= n;
    }
    return 0;
}

static int read_rows(struct pq_column *c, int64_t rows, struct ctr_err *err)
{
    if (c->from != PQ_FROM_FILE)
        return read_none(c, rows, err);
    if (c->out.type == CTR_LIST && !c->leaf->max_rep)
        return read_null_lists(c, rows, err);
    return c->leaf->max_rep ? read_lists(c, rows, err) : read_flat(c, rows, err);
}

int ctr_pq_column_read(struct pq_column *c, int64_t rows, struct ctr_err *err)
{
    const int rc = read_rows(c, rows, err);
    return rc || !c->weights ? rc : read_rows(c->weights, rows, err);
}

int ctr_pq_column_finish(struct pq_column *c, struct ctr_err *err)
{
    if (c->from != PQ_FROM_FILE)
        return 0;
    if (c->piece_at == c->piece && !c->page_left && !c->values_left)
        return c->weights ? ctr_pq_column_finish(c->weights, err) : 0;
    return ctr_pq_damaged(c, err, "it has more rows than its row group");
}

/* ---- another type ---- */

static int misfit(const struct pq_column *c, int64_t row, struct ctr_err *err)
{
    char type[64];
    ctr_field_type_name(&c->as->type, type, sizeof type);
    return unfit(c, err, "%s (row %lld) is not %s%s%s", ctr_text_show((const char *)c->text.data, c->text.len).s,
                 (long long)row, type, c->as->time_format ? " in the form " : "",
                 c->as->time_format ? c->as->time_format : "");
}

/* The text of row i; of a bool that is to be a number, 1 or 0. */
static int cell_text(struct pq_column *c, const struct ctr_col *from, int64_t i, struct ctr_err *err)
{
    c->text.len = 0;
    int rc = from->type == CTR_BOOL && ctr_type_number(c->as->type.type)
                 ? ctr_buf_append(&c->text, ctr_bit(from->data, i) ? "1" : "0", 1, err)
                 : ctr_col_text(from, i, &c->text, err);
    return rc ? rc : ctr_buf_reserve(&c->text, 1, err);
}

static int convert(struct pq_column *c, struct ctr_err *err)
{
    const struct ctr_col *from = ctr_colbuf_view(&c->out);
    const struct ctr_type_info *was = &ctr_types[from->type], *to = &ctr_types[c->as->type.type];
    /* The text of a float32 reads as another float64; decimal texts are for those that ask for the type. */
    const bool widens = !c->as->typed && was->floating && to->floating && to->width > was->width;
    ctr_colbuf_clear(&c->converted);
    for (int64_t i = 0; i < from->rows; i++) {
        const bool null = ctr_col_null(from, i);
        int rc = null     ? ctr_colbuf_null(&c->converted, err)
                 : widens ? ctr_colbuf_f64(&c->converted, ctr_col_f64(from, i), err)
                          : cell_text(c, from, i, err);
        if (!rc && !null && !widens) {
            rc = ctr_cell_append(&c->converted, c->as, (const char *)c->text.data, c->text.len, &c->job, err);
            rc = rc > 0 ? 0 : rc < 0 ? rc : misfit(c, c->row + i + 1, err);
        }
        if (rc)
            return rc;
    }
    ctr_job_settle(&c->job);
    return 0;
}

/* Lists of one length, which some programs know as a type of their own. */
static int fix(struct pq_column *c, struct ctr_err *err)
{
    const struct ctr_col *from = ctr_colbuf_view(&c->out);
    const int32_t width = c->as->type.width;
    ctr_colbuf_clear(&c->converted);
    for (int64_t i = 0; i < from->rows; i++) {
        const bool null = ctr_col_null(from, i);
        const int64_t at = from->offsets[i], n = from->offsets[i + 1] - at;
        if (!null && n != width)
            return unfit(c, err, "a list has %lld items (row %lld), and each is to have %d", (long long)n,
                         (long long)(c->row + i + 1), width);
        int rc =
            null ? ctr_colbuf_null(&c->converted, err) : ctr_colbuf_range(c->converted.item, from->item, at, n, err);
        if (!rc && !null)
            rc = ctr_colbuf_close(&c->converted, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Keys and their weights as one list. */
static int pair(struct pq_column *c, const struct ctr_col **view, struct ctr_err *err)
{
    const struct ctr_col *k = ctr_colbuf_view(&c->out), *w = ctr_colbuf_view(&c->weights->out);
    if (k->nulls != w->nulls || k->item->nulls || w->item->nulls ||
        (k->rows && memcmp(k->offsets, w->offsets, ((size_t)k->rows + 1) * sizeof *k->offsets) != 0))
        return ctr_pq_damaged(c, err, "its keys are not as many as its weights");
    c->pairs[1] = *k->item;
    c->pairs[1].type = CTR_WKEY;
    c->pairs[1].weight = w->item->data;
    c->pairs[0] = *k;
    c->pairs[0].item = &c->pairs[1];
    *view = c->pairs;
    return 0;
}

int ctr_pq_column_view(struct pq_column *c, const struct ctr_col **view, struct ctr_err *err)
{
    if (c->weights)
        return pair(c, view, err);
    int rc = c->converts ? convert(c, err) : c->fixes ? fix(c, err) : 0;
    if (rc)
        return rc;
    if (c->dict)
        c->out.dict = ctr_colbuf_view(c->from == PQ_FROM_PATH ? &c->converted
                                      : c->is_mixed           ? &c->mixed
                                                              : &c->dict_text);
    *view = ctr_colbuf_view(c->converts || c->fixes ? &c->converted : &c->out);
    return 0;
}
