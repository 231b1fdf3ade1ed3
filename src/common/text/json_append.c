/* SPDX-License-Identifier: Apache-2.0
 *
 * json_append: appends a JSON value to a column of any type. A value that does not fit may leave items in a list that
 * is not closed: the caller must rewind.
 */
#include "common/text/json.h"
#include "common/text/text.h"

/* {"key":1,"weight":0.5}, as written by ctr-export. */
static int put_weighted(struct ctr_colbuf *b, const struct ctr_json *v, struct ctr_err *err)
{
    const char *p = v->p + 1, *end = v->p + v->n, *why;
    bool first = true, has_key = false;
    uint64_t id = 0;
    float weight = 1;
    struct ctr_json key, x;
    int more, rc;

    while ((more = ctr_json_element(&p, end, '}', &first, &why)) > 0) {
        if (!ctr_json_key(&p, end, &key, &why) || !(p = ctr_json_value(p, end, &x, &why)))
            return 0;
        if (key.n == 3 && !memcmp(key.p, "key", 3))
            has_key = ctr_parse_u64(x.p, x.n, &id);
        else if (key.n != 6 || memcmp(key.p, "weight", 6) || !ctr_parse_f32(x.p, x.n, &weight))
            return 0;
    }
    if (more < 0 || !has_key)
        return 0;
    rc = ctr_colbuf_wkey(b, id, weight, err);
    return rc < 0 ? rc : 1;
}

static int put_list(struct ctr_colbuf *b, const struct ctr_text_column *c, const struct ctr_json *v,
                    struct ctr_text_job *j, struct ctr_buf *scratch, struct ctr_err *err)
{
    const char *p = v->p + 1, *end = v->p + v->n, *why;
    bool first = true;
    struct ctr_json x;
    int more = 0, rc = 1;

    while (rc > 0 && (more = ctr_json_element(&p, end, ']', &first, &why)) > 0) {
        if (!(p = ctr_json_value(p, end, &x, &why)))
            return 0;
        rc = ctr_json_append(b->item, c, &x, j, scratch, err);
    }
    if (rc <= 0 || more < 0 || (b->type == CTR_FIXED && b->item->rows != (b->rows + 1) * c->type.width))
        return CTR_MIN(rc, 0);
    rc = ctr_colbuf_close(b, err);
    return rc < 0 ? rc : 1;
}

int ctr_json_append(struct ctr_colbuf *b, const struct ctr_text_column *c, const struct ctr_json *v,
                    struct ctr_text_job *j, struct ctr_buf *scratch, struct ctr_err *err)
{
    bool list = ctr_type_list(b->type);
    int rc;

    if (v->kind == CTR_JSON_NONE || v->kind == CTR_JSON_NULL) {
        rc = ctr_colbuf_null(b, err);
        return rc < 0 ? rc : 1;
    }
    if (list)
        return v->kind == CTR_JSON_ARRAY ? put_list(b, c, v, j, scratch, err) : 0;
    if (b->type == CTR_WKEY && v->kind == CTR_JSON_OBJECT)
        return put_weighted(b, v, err);
    if ((v->kind == CTR_JSON_ARRAY || v->kind == CTR_JSON_OBJECT) && (b->type != CTR_UTF8 || ctr_json_unsound(v)))
        return 0;
    if (v->kind != CTR_JSON_STRING || !v->escaped)
        return ctr_cell_append(b, c, v->p, v->n, j, err);
    ctr_buf_clear(scratch);
    if ((rc = ctr_json_unescape(v->p, v->n, scratch, err)) <= 0)
        return rc;
    return ctr_cell_append(b, c, (const char *)scratch->data, scratch->len, j, err);
}
