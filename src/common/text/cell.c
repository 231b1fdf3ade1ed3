/* SPDX-License-Identifier: Apache-2.0
 *
 * cell: converts a piece of text to a value: infers its type, and appends it to a column. */
#include "common/op/local.h"
#include "common/text/json.h"
#include "common/text/text.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

/* ---- inference ---- */

enum {
    SEEN_TEXT = 1,
    SEEN_BOOL = 2,
    SEEN_I64 = 4,
    SEEN_U64 = 8,
    SEEN_NEGATIVE = 16,
    SEEN_FLOAT = 32,
    SEEN_NONFINITE = 64,
    SEEN_WIDE = 128, /* an integer that float64 cannot represent */
    SEEN_HUGE = 256, /* an integer beyond 64 bits */
    SEEN_TIME = 512  /* ISO 8601, see ctr_cell_time */
};

/* The digits of an integer, also with zeros after a point, from the first nonzero one: empty for 0 and for other
 * text. */
static struct ctr_str integer_digits(const char *p, size_t n)
{
    size_t k = n && (*p == '-' || *p == '+'), from, end;
    while (k < n && p[k] == '0')
        k++;
    for (from = k; k < n && (unsigned char)(p[k] - '0') <= 9;)
        k++;
    end = k;
    if (k < n && p[k] == '.')
        for (k++; k < n && p[k] == '0';)
            k++;
    return (struct ctr_str){ p + from, k == n ? end - from : 0 };
}

static bool is_text(struct ctr_str s, const char *text, size_t n)
{
    return s.n == n && !memcmp(s.p, text, n);
}

/* Can a float of type t represent this integer? `spelled`: it must read back with the same digits; otherwise only the
 * value matters. All integers of fewer digits than 16 (float64), 8 (float32) or 4 (float16) can be represented. */
static bool float_holds(enum ctr_type t, const char *p, size_t n, bool spelled)
{
    const size_t safe = t == CTR_F64 ? 15 : t == CTR_F32 ? 7 : 3;
    const struct ctr_str digits = n > safe ? integer_digits(p, n) : (struct ctr_str){ 0 };
    char text[512];
    double v = 0;
    float f = 0;

    if (digits.n <= safe)
        return true;
    if (t == CTR_F64 ? !ctr_parse_f64(digits.p, digits.n, &v) : !ctr_parse_f32(digits.p, digits.n, &f))
        return false;
    if (t == CTR_F16)
        f = ctr_f16_to_f32(ctr_f32_to_f16(f));
    if (is_text(digits, text, t == CTR_F64 ? ctr_fmt_f64(text, v) : ctr_fmt_f32(text, f)))
        return true;
    return !spelled && is_text(digits, text, (size_t)snprintf(text, sizeof text, "%.0f", t == CTR_F64 ? v : (double)f));
}

static unsigned integer_width(const char *p, size_t n)
{
    return float_holds(CTR_F64, p, n, true) ? 0 : SEEN_WIDE;
}

static bool digits(const char *p, size_t from, size_t n)
{
    bool good = true;
    for (size_t i = from; i < from + n; i++)
        good &= (unsigned char)(p[i] - '0') <= 9;
    return good;
}

/* "2019-11-14", "2019-11-14T10:00[:00[.123]][Z|+01:00]", with T or a blank: what a time in milliseconds keeps. So no
 * 60th second, and no finer digits but zeros. */
static bool time_form(const char *p, size_t n)
{
    size_t i = 16;
    if (n < 10 || p[4] != '-' || p[7] != '-' || !digits(p, 0, 4) || !digits(p, 5, 2) || !digits(p, 8, 2))
        return false;
    if (n > 10) {
        if (n < 16 || (p[10] != 'T' && p[10] != ' ') || p[13] != ':' || !digits(p, 11, 2) || !digits(p, 14, 2))
            return false;
        if (i < n && p[i] == ':') {
            if (n < 19 || !digits(p, 17, 2) || p[17] == '6')
                return false;
            i = 19;
        }
        if (i == 19 && i < n && p[i] == '.')
            for (size_t from = ++i; i < n && (unsigned char)(p[i] - '0') <= 9; i++)
                if (i >= from + 3 && p[i] != '0')
                    return false;
    }
    return true;
}

bool ctr_cell_time(const char *p, size_t n)
{
    int64_t ms;
    return time_form(p, n) && ctr_time_parse(NULL, p, n, &ms);
}

static unsigned classify(const char *p, size_t n)
{
    int64_t i;
    uint64_t u;
    double f;
    if ((n == 4 && !strncasecmp(p, "true", 4)) || (n == 5 && !strncasecmp(p, "false", 5)))
        return SEEN_BOOL;
    if (ctr_cell_padded(p, n)) /* an identifier, not a number */
        return SEEN_TEXT;
    if (ctr_cell_minus_zero(p, n)) /* a float64 keeps its sign */
        return SEEN_FLOAT | SEEN_NEGATIVE;
    if (ctr_parse_i64(p, n, &i))
        return SEEN_I64 | (*p == '-' ? SEEN_NEGATIVE : 0) | integer_width(p, n);
    if (ctr_parse_u64(p, n, &u))
        return SEEN_U64 | integer_width(p, n);
    if (!ctr_parse_f64(p, n, &f))
        return ctr_cell_time(p, n) ? SEEN_TIME : SEEN_TEXT;
    if (!isfinite(f))
        return SEEN_NONFINITE;
    /* an integer beyond 64 bits is an identifier whose digits a double would lose */
    return memchr(p, '.', n) || memchr(p, 'e', n) || memchr(p, 'E', n) ? SEEN_FLOAT | integer_width(p, n)
                                                                       : SEEN_HUGE | SEEN_WIDE;
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
    if (s == SEEN_TIME)
        return CTR_TIME;
    if (!s || s == SEEN_NONFINITE || s & (SEEN_TEXT | SEEN_BOOL | SEEN_HUGE | SEEN_TIME))
        return CTR_UTF8;
    if (s & (SEEN_FLOAT | SEEN_NONFINITE))
        return s & SEEN_WIDE ? CTR_UTF8 : CTR_F64;
    if (s & SEEN_U64)
        return s & SEEN_NEGATIVE ? CTR_UTF8 : CTR_U64;
    return CTR_I64;
}

bool ctr_infer_rounds(const struct ctr_infer *c)
{
    return c->seen & SEEN_WIDE && c->seen & (SEEN_FLOAT | SEEN_NONFINITE) &&
           !(c->seen & (SEEN_TEXT | SEEN_BOOL | SEEN_TIME));
}

bool ctr_cell_inferable(enum ctr_type t, const char *p, size_t n)
{
    switch (t) {
    case CTR_BOOL: return n != 1;
    case CTR_TIME: return time_form(p, n); /* which is parsed next */
    case CTR_F64: return !ctr_cell_padded(p, n) && float_holds(t, p, n, true);
    case CTR_I64:
    case CTR_U64: return !ctr_cell_padded(p, n) && !ctr_cell_minus_zero(p, n);
    default: return true;
    }
}

void ctr_job_loss(struct ctr_text_job *j, const struct ctr_text_column *c, enum ctr_text_loss k, const char *p,
                  size_t n)
{
    struct ctr_text_losses *l = &j->loss[c->out];
    if (!l->n[k] && !l->open[k])
        l->first[k] = ctr_text_show(p, n);
    l->open[k]++;
    j->lossy = true;
}

void ctr_job_value(struct ctr_text_job *j, const struct ctr_text_column *c, enum ctr_type t, const char *p, size_t n)
{
    if (ctr_types[t].floating && !float_holds(t, p, n, false))
        ctr_job_loss(j, c, CTR_LOSS_ROUNDED, p, n);
    if (c->like && (ctr_types[t].floating || ctr_types[t].integer) && ctr_cell_padded(p, n))
        ctr_job_loss(j, c, CTR_LOSS_PADDED, p, n);
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

/* Digits below a millisecond are cut off, and counted. */
static bool take_time(struct ctr_text_job *j, const struct ctr_text_column *c, const char *p, size_t n, int64_t *ms)
{
    bool cut = false;
    if (!(c->local ? ctr_local_parse_cut(c->local, p, n, ms, &cut)
                   : ctr_time_parse_cut(c->time_format, p, n, ms, &cut)))
        return false;
    if (cut)
        ctr_job_loss(j, c, CTR_LOSS_FINER, p, n);
    return true;
}

static int append_scalar(struct ctr_colbuf *b, const struct ctr_text_column *c, const char *p, size_t n,
                         struct ctr_text_job *j, struct ctr_err *err)
{
    const enum ctr_type t = b->type;
    int64_t i;
    uint64_t u;
    double f;
    float g;
    int rc;
    if (c->inferred && !ctr_cell_inferable(t, p, n))
        return 0;
    switch (t) {
    case CTR_BOOL: rc = parse_bool(p, n, &i) ? ctr_colbuf_i64(b, i, err) : 1; break;
    case CTR_U64: rc = ctr_parse_u64(p, n, &u) ? ctr_colbuf_i64(b, (int64_t)u, err) : 1; break;
    case CTR_TIME: rc = take_time(j, c, p, n, &i) ? ctr_colbuf_i64(b, i, err) : 1; break;
    case CTR_UTF8:
        rc = j->block.utf8 || ctr_utf8_valid((const uint8_t *)p, n) ? ctr_colbuf_str(b, p, n, err) : 1;
        break;
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
    if (!rc && !c->inferred && (ctr_types[t].floating || c->like))
        ctr_job_value(j, c, t, p, n);
    return rc > 0 ? 0 : rc < 0 ? rc : 1;
}

/* "[a,b]", as written by ctr_col_text. An empty item is null, except in a list of texts. */
static int append_plain_list(struct ctr_colbuf *b, const struct ctr_text_column *c, const char *p, size_t n,
                             struct ctr_text_job *j, struct ctr_err *err)
{
    int64_t before = b->item->rows;
    if (n < 2 || p[0] != '[' || p[n - 1] != ']')
        return 0;
    const char *end = p + n - 1;
    for (p++; p < end || (p == end && p[-1] == ',');) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t len = (size_t)((comma ? comma : end) - p);
        int rc = len || b->item->type == CTR_UTF8 ? append_scalar(b->item, c, p, len, j, err)
                                                  : ctr_colbuf_null(b->item, err);
        if (rc < 0)
            return rc;
        if (!rc && len)
            goto misfit;
        p += len + 1;
    }
    if (b->type == CTR_FIXED && b->item->rows != (b->rows + 1) * c->type.width)
        goto misfit;
    int rc = ctr_colbuf_close(b, err);
    return rc < 0 ? rc : 1;
misfit:
    ctr_colbuf_rewind(b->item, before);
    return 0;
}

/* The cell as a JSON array, as written by ctr-export. Copied with padding, because the scanner loads past the end. */
static int append_json_list(struct ctr_colbuf *b, const struct ctr_text_column *c, const char *p, size_t n,
                            struct ctr_text_job *j, struct ctr_err *err)
{
    struct ctr_buf copy = { 0 }, scratch = { 0 };
    int64_t before = b->item->rows;
    const char *why;
    struct ctr_json v;
    int rc = ctr_buf_append(&copy, p, n, err);
    if (!rc) {
        const char *from = (const char *)copy.data, *end = ctr_json_value(from, from + n, &v, &why);
        bool is_array = end && v.kind == CTR_JSON_ARRAY && end == from + n;
        rc = is_array ? ctr_json_append(b, c, &v, j, &scratch, err) : 0;
    }
    if (!rc)
        ctr_colbuf_rewind(b->item, before);
    ctr_buf_free(&copy);
    ctr_buf_free(&scratch);
    return rc;
}

/* For texts and weighted keys JSON is tried first, because quotes would be part of a plain item. */
static int append_list(struct ctr_colbuf *b, const struct ctr_text_column *c, const char *p, size_t n,
                       struct ctr_text_job *j, struct ctr_err *err)
{
    bool json_first = b->item->type == CTR_UTF8 || b->item->type == CTR_WKEY;
    const struct ctr_text_losses before = j->loss[c->out];
    int rc = json_first ? append_json_list(b, c, p, n, j, err) : append_plain_list(b, c, p, n, j, err);
    if (rc)
        return rc;
    j->loss[c->out] = before;
    return json_first ? append_plain_list(b, c, p, n, j, err) : append_json_list(b, c, p, n, j, err);
}

int ctr_cell_append(struct ctr_colbuf *b, const struct ctr_text_column *c, const char *p, size_t n,
                    struct ctr_text_job *j, struct ctr_err *err)
{
    return ctr_type_list(b->type) ? append_list(b, c, p, n, j, err) : append_scalar(b, c, p, n, j, err);
}
