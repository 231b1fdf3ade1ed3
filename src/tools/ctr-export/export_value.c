/* SPDX-License-Identifier: Apache-2.0
 *
 * export_value: single values as text and as JSON, for all export formats. Floats print shortest and read back to the
 * same bits; nothing depends on the locale.
 */
#include "tools/ctr-export/export_format.h"
#include <math.h>

int ctr_put_scalar(struct ctr_buf *b, const struct ctr_col *c, int64_t i, struct ctr_err *err)
{
    char *p = ctr_put_room(b, CTR_NUM_MAX, err);
    size_t n = 0;

    if (!p)
        return CTR_ENOMEM;
    c = ctr_col_plain(c, &i);
    switch (c->type) {
    case CTR_BOOL:
        n = ctr_bit(c->data, i) ? 4 : 5;
        memcpy(p, n == 4 ? "true" : "false", n);
        break;
    case CTR_F64: n = ctr_fmt_f64(p, ((const double *)c->data)[i]); break;
    case CTR_F32: n = ctr_fmt_f32(p, ((const float *)c->data)[i]); break;
    case CTR_F16: n = ctr_fmt_f32(p, ctr_f16_to_f32(((const uint16_t *)c->data)[i])); break;
    case CTR_U64: n = ctr_fmt_u64(p, ((const uint64_t *)c->data)[i]); break;
    case CTR_I64: n = ctr_fmt_i64(p, ((const int64_t *)c->data)[i]); break;
    case CTR_I32: n = ctr_fmt_i64(p, ((const int32_t *)c->data)[i]); break;
    case CTR_I16: n = ctr_fmt_i64(p, ((const int16_t *)c->data)[i]); break;
    case CTR_I8: n = ctr_fmt_i64(p, ((const int8_t *)c->data)[i]); break;
    case CTR_U32: n = ctr_fmt_u64(p, ((const uint32_t *)c->data)[i]); break;
    case CTR_U16: n = ctr_fmt_u64(p, ((const uint16_t *)c->data)[i]); break;
    case CTR_TIME: n = ctr_time_iso(p, ((const int64_t *)c->data)[i]); break;
    default:
        n = ctr_fmt_u64(p, ((const uint8_t *)c->data)[i]);
        break; /* CTR_U8: texts and lists are handled elsewhere */
    }
    b->len += n;
    return 0;
}

static int put_float(struct ctr_buf *b, const struct ctr_col *c, int64_t i, struct ctr_err *err)
{
    double v = ctr_col_f64(c, i);

    if (isfinite(v))
        return ctr_put_scalar(b, c, i, err);
    return isnan(v) ? ctr_put(b, "\"NaN\"", 5, err)
           : v > 0  ? ctr_put(b, "\"Infinity\"", 10, err)
                    : ctr_put(b, "\"-Infinity\"", 11, err);
}

static int put_wkey(struct ctr_buf *b, const struct ctr_col *c, int64_t i, struct ctr_err *err)
{
    const struct ctr_col w = { .type = CTR_F32, .rows = c->rows, .data = c->weight };
    char *p = ctr_put_room(b, 64, err);
    size_t n = 7;
    int rc;

    if (!p)
        return CTR_ENOMEM;
    memcpy(p, "{\"key\":", 7);
    n += ctr_fmt_u64(p + n, ((const uint64_t *)c->data)[i]);
    memcpy(p + n, ",\"weight\":", 10);
    b->len += n + 10;
    if ((rc = put_float(b, &w, i, err)) < 0)
        return rc;
    return ctr_put(b, "}", 1, err);
}

int ctr_put_json(struct ctr_buf *b, const struct ctr_col *c, int64_t i, struct ctr_err *err)
{
    if (ctr_col_missing(c, i))
        return ctr_put(b, "null", 4, err);
    switch (c->type) {
    case CTR_UTF8: {
        struct ctr_str s = ctr_col_str(c, i);
        return ctr_json_quote(b, s.p, s.n, err);
    }
    case CTR_F16:
    case CTR_F32:
    case CTR_F64: return put_float(b, c, i, err);
    case CTR_TIME: {
        int rc;
        if ((rc = ctr_put(b, "\"", 1, err)) < 0 || (rc = ctr_put_scalar(b, c, i, err)) < 0)
            return rc;
        return ctr_put(b, "\"", 1, err);
    }
    case CTR_WKEY: return put_wkey(b, c, i, err);
    case CTR_LIST:
    case CTR_FIXED: {
        int64_t from = 0, to = 0;
        const struct ctr_col *item = ctr_col_items(c, ctr_col_width(c), i, &from, &to);
        int rc = ctr_put(b, "[", 1, err);
        for (int64_t k = from; k < to && rc == 0; k++) {
            if (k > from)
                rc = ctr_put(b, ",", 1, err);
            if (rc == 0)
                rc = ctr_put_json(b, item, k, err);
        }
        return rc < 0 ? rc : ctr_put(b, "]", 1, err);
    }
    default: return ctr_put_scalar(b, c, i, err);
    }
}
