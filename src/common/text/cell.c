/* SPDX-License-Identifier: Apache-2.0
 *
 * cell: one piece of text as a value: which type it could be, and appending it to a column. */
#include "common/text/json.h"
#include "common/text/text.h"

#include <math.h>
#include <strings.h>

/* ---- inference ---- */

enum {
    SEEN_TEXT = 1,
    SEEN_BOOL = 2,
    SEEN_I64 = 4,
    SEEN_U64 = 8,
    SEEN_NEGATIVE = 16,
    SEEN_FLOAT = 32,
    SEEN_NONFINITE = 64
};

/* "007" and "00.5" are names, not numbers: reading them as numbers would lose digits. */
static bool has_leading_zero(const char *p, size_t n)
{
    if (n && (*p == '-' || *p == '+'))
        p++, n--;
    return n >= 2 && p[0] == '0' && p[1] >= '0' && p[1] <= '9';
}

static unsigned classify(const char *p, size_t n)
{
    int64_t i;
    uint64_t u;
    double f;
    if ((n == 4 && !strncasecmp(p, "true", 4)) || (n == 5 && !strncasecmp(p, "false", 5)))
        return SEEN_BOOL;
    if (has_leading_zero(p, n) || (n && *p == '+'))
        return SEEN_TEXT;
    if (ctr_parse_i64(p, n, &i)) /* -0 is none of uint64, and its sign a part of the text */
        return SEEN_I64 | (*p == '-' ? SEEN_NEGATIVE : 0);
    if (ctr_parse_u64(p, n, &u))
        return SEEN_U64;
    if (!ctr_parse_f64(p, n, &f))
        return SEEN_TEXT;
    if (!isfinite(f))
        return SEEN_NONFINITE;
    /* an integer beyond 64 bits is an identity, and a double would lose its digits */
    return memchr(p, '.', n) || memchr(p, 'e', n) || memchr(p, 'E', n) ? SEEN_FLOAT : SEEN_TEXT;
}

void ctr_infer_see(struct ctr_infer *c, const char *p, size_t n)
{
    c->values++;
    if (!(c->seen & SEEN_TEXT))
        c->seen |= classify(p, n);
}

enum ctr_type ctr_infer_type(const struct ctr_infer *c)
{
    unsigned s = c->seen;
    if (s == SEEN_BOOL)
        return CTR_BOOL;
    if (!s || s == SEEN_NONFINITE || s & (SEEN_TEXT | SEEN_BOOL))
        return CTR_UTF8;
    if (s & (SEEN_FLOAT | SEEN_NONFINITE))
        return CTR_F64;
    if (s & SEEN_U64)
        return s & SEEN_NEGATIVE ? CTR_UTF8 : CTR_U64;
    return CTR_I64;
}

/* ---- appending ---- */

static bool parse_bool(const char *p, size_t n, int64_t *v)
{
    *v = n == 1 ? *p == '1' : n == 4;
    return (n == 1 && (*p == '0' || *p == '1')) || (n == 4 && !strncasecmp(p, "true", 4)) ||
           (n == 5 && !strncasecmp(p, "false", 5));
}

static bool in_range(enum ctr_type t, int64_t v)
{
    int bits = 8 * ctr_types[t].width;
    if (bits == 64)
        return true;
    if (!ctr_types[t].is_signed)
        return v >= 0 && v < (int64_t)1 << bits;
    return v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1);
}

static int append_scalar(struct ctr_colbuf *b, enum ctr_type t, const char *time_format, const char *p, size_t n,
                         bool check, struct ctr_err *err)
{
    int64_t i;
    uint64_t u;
    double f;
    float g;
    int rc;
    switch (t) {
    case CTR_BOOL: rc = parse_bool(p, n, &i) ? ctr_colbuf_i64(b, i, err) : 1; break;
    case CTR_U64: rc = ctr_parse_u64(p, n, &u) ? ctr_colbuf_i64(b, (int64_t)u, err) : 1; break;
    case CTR_TIME: rc = ctr_time_parse(time_format, p, n, &i) ? ctr_colbuf_i64(b, i, err) : 1; break;
    case CTR_UTF8: rc = !check || ctr_utf8_valid((const uint8_t *)p, n) ? ctr_colbuf_str(b, p, n, err) : 1; break;
    case CTR_F64: rc = ctr_parse_f64(p, n, &f) ? ctr_colbuf_f64(b, f, err) : 1; break;
    case CTR_F16:
    case CTR_F32:
        rc = ctr_parse_f32(p, n, &g) && (t == CTR_F32 || ctr_fits_f16(g)) ? ctr_colbuf_f64(b, (double)g, err) : 1;
        break;
    case CTR_WKEY: {
        const char *colon = memchr(p, ':', n);
        size_t key = colon ? (size_t)(colon - p) : 0;
        rc = colon && ctr_parse_u64(p, key, &u) && ctr_parse_f32(colon + 1, n - key - 1, &g)
                 ? ctr_colbuf_wkey(b, u, g, err)
                 : 1;
        break;
    }
    default: rc = ctr_parse_i64(p, n, &i) && in_range(t, i) ? ctr_colbuf_i64(b, i, err) : 1; break;
    }
    return rc > 0 ? 0 : rc < 0 ? rc : 1;
}

/* "[a,b]": what ctr_col_text writes. An empty item is null, but in a list of texts. */
static int append_plain_list(struct ctr_colbuf *b, const struct ctr_field *f, const char *time_format, const char *p,
                             size_t n, bool check, struct ctr_err *err)
{
    int64_t before = b->item->rows;
    if (n < 2 || p[0] != '[' || p[n - 1] != ']')
        return 0;
    const char *end = p + n - 1;
    for (p++; p < end || (p == end && p[-1] == ',');) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t len = (size_t)((comma ? comma : end) - p);
        int rc = len || f->item == CTR_UTF8 ? append_scalar(b->item, f->item, time_format, p, len, check, err)
                                            : ctr_colbuf_null(b->item, err);
        if (rc < 0)
            return rc;
        if (!rc && len)
            goto misfit;
        p += len + 1;
    }
    if (f->type == CTR_FIXED && b->item->rows != (b->rows + 1) * f->width)
        goto misfit;
    int rc = ctr_colbuf_close(b, err);
    return rc < 0 ? rc : 1;
misfit:
    ctr_colbuf_rewind(b->item, before);
    return 0;
}

/* The cell as a JSON array, as ctr-export writes it. The scanner loads beyond the end: a padded copy. */
static int append_json_list(struct ctr_colbuf *b, const struct ctr_field *f, const char *time_format, const char *p,
                            size_t n, bool check, struct ctr_err *err)
{
    struct ctr_buf copy = { 0 }, scratch = { 0 };
    int64_t before = b->item->rows;
    const char *why;
    struct ctr_json v;
    int rc = ctr_buf_append(&copy, p, n, err);
    if (!rc) {
        const char *from = (const char *)copy.data, *end = ctr_json_value(from, from + n, &v, &why);
        bool is_array = end && v.kind == CTR_JSON_ARRAY && end == from + n;
        rc = is_array ? ctr_json_append(b, f, time_format, &v, check, &scratch, err) : 0;
    }
    if (!rc)
        ctr_colbuf_rewind(b->item, before);
    ctr_buf_free(&copy);
    ctr_buf_free(&scratch);
    return rc;
}

/* Texts and weighted keys are tried as JSON first, since quotes would be part of a plain item. */
static int append_list(struct ctr_colbuf *b, const struct ctr_field *f, const char *time_format, const char *p,
                       size_t n, bool check, struct ctr_err *err)
{
    bool json_first = f->item == CTR_UTF8 || f->item == CTR_WKEY;
    int rc = json_first ? append_json_list(b, f, time_format, p, n, check, err)
                        : append_plain_list(b, f, time_format, p, n, check, err);
    if (rc)
        return rc;
    return json_first ? append_plain_list(b, f, time_format, p, n, check, err)
                      : append_json_list(b, f, time_format, p, n, check, err);
}

int ctr_cell_append(struct ctr_colbuf *b, const struct ctr_field *f, const char *time_format, const char *p, size_t n,
                    bool check, struct ctr_err *err)
{
    if (ctr_type_list(f->type))
        return append_list(b, f, time_format, p, n, check, err);
    return append_scalar(b, f->type, time_format, p, n, check, err);
}
