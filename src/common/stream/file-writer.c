/* SPDX-License-Identifier: Apache-2.0
 *
 * file-writer: the footer of an IPC file: the position of each block and, in a keyed file, its first key. Keys are
 * written as by ctr_col_text, with '%', ',' and control characters as %XX; null is "%-".
 */
#include "common/stream/writer.h"

#include <stdio.h>
#include <stdlib.h>

struct ctr_file_writer {
    struct ctr_buf blocks, keys, seals;
    int key; /* column, or -1 */
    const char *name;
    struct ctr_colbuf last; /* the key of the previous row */
    bool last_set, unique;
    int64_t rows;
};

void ctr_file_writer_free(struct ctr_file_writer *f)
{
    if (!f)
        return;
    ctr_buf_free(&f->blocks);
    ctr_buf_free(&f->keys);
    ctr_buf_free(&f->seals);
    if (f->last_set)
        ctr_colbuf_free(&f->last);
    free(f);
}

int ctr_file_writer_new(struct ctr_file_writer **out, const struct ctr_schema *s, const char *key, struct ctr_err *err)
{
    struct ctr_file_writer *f = calloc(1, sizeof *f);
    *out = f;
    if (!f)
        return ctr_fail_nomem(err, sizeof *f);
    f->key = -1;
    f->unique = true;
    if (!key)
        return 0;
    f->key = ctr_schema_need(s, key, err);
    if (f->key < 0)
        return f->key;
    const struct ctr_field *field = &s->f[f->key];
    f->name = field->name;
    if (field->type != CTR_UTF8 && field->type != CTR_TIME && !ctr_type_number(field->type))
        return ctr_fail(err, CTR_EUSAGE, "column '%s' cannot be a key: keys are numbers, times or text", key);
    int rc = ctr_colbuf_init(&f->last, field, err);
    f->last_set = rc >= 0;
    return rc;
}

static int add_key(struct ctr_file_writer *f, const struct ctr_col *c, int64_t row, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    int rc = f->keys.len ? ctr_buf_append(&f->keys, ",", 1, err) : 0;
    if (rc >= 0 && ctr_col_missing(c, row))
        return ctr_buf_append(&f->keys, "%-", 2, err);
    if (rc >= 0)
        rc = ctr_col_text(c, row, &text, err);
    for (size_t i = 0; rc >= 0 && i < text.len; i++) {
        uint8_t ch = text.data[i];
        if (ch < 32 || ch == '%' || ch == ',' || ch == 127)
            rc = ctr_buf_printf(&f->keys, err, "%%%02X", ch);
        else
            rc = ctr_buf_append(&f->keys, &ch, 1, err);
    }
    /* An empty first key must leave a mark, so that the list is not mistaken for an empty one. */
    if (rc >= 0 && !text.len)
        rc = ctr_buf_append(&f->keys, "%.", 2, err);
    ctr_buf_free(&text);
    return rc;
}

static int check_order(struct ctr_file_writer *f, const struct ctr_col *c, int64_t from, int64_t n, struct ctr_err *err)
{
    const struct ctr_col *before = ctr_colbuf_view(&f->last);
    int64_t at = 0;
    for (int64_t i = from; i < from + n; i++) {
        if (before->rows) {
            int d = ctr_col_compare(before, at, c, i);
            if (d > 0) {
                int64_t row = f->rows + i - from + 1;
                return ctr_fail(err, CTR_EDATA,
                                "row %lld is out of order: a file keyed by '%s' must be sorted by it "
                                "(ctr-sort -k %s)",
                                (long long)row, f->name, f->name);
            }
            f->unique &= d != 0;
        }
        before = c;
        at = i;
    }
    int64_t last = from + n - 1;
    ctr_colbuf_clear(&f->last);
    return ctr_colbuf_gather(&f->last, c, &last, 1, err);
}

int ctr_file_writer_block(struct ctr_file_writer *f, struct arrow_block b, const struct ctr_col *cols, int64_t from,
                          int64_t n, struct ctr_err *err)
{
    int rc = ctr_buf_append(&f->blocks, &b, sizeof b, err);
    if (rc >= 0 && f->key >= 0)
        rc = check_order(f, &cols[f->key], from, n, err);
    if (rc >= 0 && f->key >= 0)
        rc = add_key(f, &cols[f->key], from, err);
    f->rows += n;
    return rc;
}

int ctr_file_writer_seal(struct ctr_file_writer *f, const struct ctr_seal *seal, struct ctr_err *err)
{
    return ctr_buf_append(&f->seals, seal->digits, sizeof seal->digits, err);
}

static int footer_meta(const struct ctr_file_writer *f, struct ctr_meta *m, int64_t rows, int64_t batches,
                       struct ctr_err *err)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)rows);
    int rc = ctr_meta_set(m, CTR_SEAL_ROWS, text, err);
    snprintf(text, sizeof text, "%lld", (long long)batches);
    if (rc >= 0)
        rc = ctr_meta_set(m, CTR_SEAL_BATCHES, text, err);
    if (rc >= 0)
        rc = ctr_meta_set(m, CTR_SEAL_SEALS, (char *)f->seals.data, err);
    if (rc >= 0 && f->key >= 0)
        rc = ctr_meta_set(m, CTR_SEAL_KEY, f->name, err);
    if (rc >= 0 && f->key >= 0)
        rc = ctr_meta_set(m, CTR_SEAL_KEYS, (char *)f->keys.data, err);
    if (rc >= 0 && f->key >= 0 && f->unique)
        rc = ctr_meta_set(m, CTR_SEAL_UNIQUE, "1", err);
    return rc;
}

int ctr_file_writer_finish(struct ctr_file_writer *f, struct ctr_out *out, const struct ctr_schema *s, int64_t rows,
                           int64_t batches, struct ctr_err *err)
{
    struct ctr_meta m = { 0 };
    struct ctr_fbw w = { 0 };
    uint8_t end[10] = "    ARROW1";
    int rc = ctr_buf_append(&f->keys, "", 1, err); /* terminator */
    f->keys.len--;
    if (rc >= 0)
        rc = ctr_buf_append(&f->seals, "", 1, err);
    if (rc >= 0)
        rc = footer_meta(f, &m, rows, batches, err);
    if (rc >= 0)
        rc = ctr_meta_footer(&w, s, NULL, 0, (struct arrow_block *)f->blocks.data,
                             f->blocks.len / sizeof(struct arrow_block), &m, err);
    uint32_t size = (uint32_t)w.b.len;
    memcpy(end, &size, 4);
    if (rc >= 0 && w.b.len > INT32_MAX) /* LCOV_EXCL_BR_LINE: so many batches and keys */
        rc = ctr_fail(err, CTR_EDATA, "the footer would exceed 2 GiB: use a larger --batch"); /* LCOV_EXCL_LINE */
    if (rc >= 0)
        rc = ctr_out_write(out, w.b.data, w.b.len, err);
    if (rc >= 0)
        rc = ctr_out_write(out, end, sizeof end, err);
    ctr_buf_free(&w.b);
    ctr_meta_free(&m);
    return rc;
}
