/* SPDX-License-Identifier: Apache-2.0
 *
 * libsvm: "label [qid:N] index:value … [# comment]" becomes label, qid (if the first lines have one, or --query qid)
 * and features. libffm: "label field:index:value …" becomes label and a column f<field> for each field of the first
 * lines, in the order of their numbers; --columns f0,f3 picks fields and skips the others.
 */
#include "common/text/fields.h"
#include <stdlib.h>

/* The end of the line's data: before a comment. */
static const char *cut_comment(const char *p, const char *end)
{
    const char *hash = end > p ? memchr(p, '#', (size_t)(end - p)) : NULL;
    return hash ? hash : end;
}

static bool starts(const char *p, const char *e, const char *prefix)
{
    size_t n = strlen(prefix);
    return (size_t)(e - p) >= n && !memcmp(p, prefix, n);
}

/* ---- libsvm ---- */

static bool sample_has_qid(const struct ctr_text_block *b)
{
    const char *p = b->p, *line, *end;

    for (int rows = 0; rows < CTR_SAMPLE_ROWS && (end = ctr_next_record(&p, b->p + b->n, &line)) != NULL; rows++) {
        const char *e;
        end = cut_comment(line, end);
        line = ctr_next_token(&line, end);
        e = ctr_next_token(&line, end);
        if (starts(line, e, "qid:"))
            return true;
    }
    return false;
}

static int libsvm_open(void **state, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                       struct ctr_schema *schema, struct ctr_err *err)
{
    const char *query = o->role[CTR_ROLE_QUERY];
    struct ctr_fields *s;
    int rc = ctr_fields_new(&s, o, err);

    *state = s;
    if (rc == 0)
        rc = ctr_fields_fixed(s, "label", CTR_F32, err);
    if (rc == 0 && (sample_has_qid(first) || (query && !strcmp(query, "qid"))))
        rc = ctr_fields_fixed(s, "qid", CTR_I64, err);
    if (rc == 0)
        rc = ctr_fields_add_field(s, "features", 8, "features", err);
    return rc < 0 ? rc : ctr_fields_schema(s, o, schema, err);
}

/* Append the token [p, e), qid:N; p == e: the row has none. */
static int put_qid(const struct ctr_fields *s, struct ctr_text_job *j, const char *p, const char *e,
                   struct ctr_err *why)
{
    int64_t qid;

    if (p == e)
        return s->query < 0 ? 0 : ctr_colbuf_null(&j->out.col[s->query], why);
    if (!ctr_parse_i64(p + 4, (size_t)(e - p - 4), &qid))
        return ctr_fail(why, CTR_EDATA, "%s is no integer qid", ctr_text_show(p, (size_t)(e - p)).s);
    if (s->query < 0 && ctr_text_columns_find(&s->columns, "qid", 3) < 0)
        return ctr_fail(why, CTR_EDATA, "a qid, and the first lines had none; %s settles it",
                        ctr_text_setting(s->o, "query", "qid").s);
    return s->query < 0 ? 0 : ctr_colbuf_i64(&j->out.col[s->query], qid, why);
}

/* Append index:value of `field`. */
static int put_pair(const struct ctr_fields *s, struct ctr_text_job *j, int field, const char *p, const char *e,
                    struct ctr_err *why)
{
    const char *colon = memchr(p, ':', (size_t)(e - p)), *index = p;
    size_t n = colon ? (size_t)(colon - p) : 0;
    float value;

    if (!colon)
        return ctr_fail(why, CTR_EDATA, "%s is not index:value", ctr_text_show(p, (size_t)(e - p)).s);
    if (!ctr_fields_index(&index, &n))
        return ctr_fail(why, CTR_EDATA, "the index of %s is no whole number", ctr_text_show(p, (size_t)(e - p)).s);
    if (!ctr_fields_value(colon + 1, (size_t)(e - colon - 1), &value))
        return ctr_fail(why, CTR_EDATA, "the value of %s is no finite number", ctr_text_show(p, (size_t)(e - p)).s);
    return ctr_fields_item(s, j, field, index, n, value, why);
}

static int libsvm_row(const struct ctr_fields *s, struct ctr_text_job *j, const char *p, const char *end,
                      struct ctr_err *why)
{
    int rc;

    end = cut_comment(p, end);
    const char *e = ctr_next_token(&p, end);
    if (p == e)
        return 0;
    if ((rc = ctr_fields_label(s, j, p, (size_t)(e - p), why)) < 0)
        return rc;
    p = e;
    e = ctr_next_token(&p, end);
    if (starts(p, e, "qid:")) {
        rc = put_qid(s, j, p, e, why);
        p = e;
        e = ctr_next_token(&p, end);
    } else {
        rc = put_qid(s, j, p, p, why);
    }
    for (; rc == 0 && p < e; p = e, e = ctr_next_token(&p, end))
        rc = put_pair(s, j, 0, p, e, why);
    return rc < 0 ? rc : 1;
}

static int libsvm_parse(const void *state, struct ctr_text_job *j, struct ctr_err *err)
{
    return ctr_fields_parse(state, j, err, libsvm_row);
}

const struct ctr_text_format ctr_text_libsvm = { .name = "libsvm",
                                                 .suffix = ".libsvm",
                                                 .honours = CTR_TEXT_FOR | CTR_TEXT_KEYS,
                                                 .open = libsvm_open,
                                                 .parse = libsvm_parse,
                                                 .close = ctr_fields_free };

/* ---- libffm ---- */

/* Add the fields of a line that are not in seen[0..n); stops at one too many. */
static int line_fields(const char *p, const char *end, uint64_t *seen, int n)
{
    const char *e = ctr_next_token(&p, end);
    int k;

    for (p = e, e = ctr_next_token(&p, end); p < e && n <= CTR_MAX_FIELDS; p = e, e = ctr_next_token(&p, end)) {
        const char *colon = memchr(p, ':', (size_t)(e - p));
        uint64_t field;
        if (!colon || !ctr_parse_u64(p, (size_t)(colon - p), &field))
            continue;
        for (k = 0; k < n && seen[k] != field;)
            k++;
        if (k == n)
            seen[n++] = field;
    }
    return n;
}

static int sample_fields(struct ctr_fields *s, const struct ctr_text_block *b, struct ctr_err *err)
{
    uint64_t *seen = malloc((CTR_MAX_FIELDS + 1) * sizeof(*seen));
    const char *p = b->p, *line, *end;
    int n = 0, rc = 0;

    if (!seen)
        return ctr_fail_nomem(err, CTR_MAX_FIELDS * sizeof(*seen));
    for (int rows = 0; rows < CTR_SAMPLE_ROWS && (end = ctr_next_record(&p, b->p + b->n, &line)) != NULL; rows++)
        n = line_fields(line, cut_comment(line, end), seen, n);
    qsort(seen, (size_t)n, sizeof(*seen), ctr_by_u64);
    for (int k = 0; k < n && rc == 0; k++) {
        char name[CTR_NUM_MAX + 2] = "f";
        size_t len = ctr_fmt_u64(name + 1, seen[k]);
        name[1 + len] = 0;
        rc = ctr_fields_add_field(s, name + 1, len, name, err);
    }
    free(seen);
    return rc;
}

/* --columns f0,f3: the fields to take. */
static int picked_fields(struct ctr_fields *s, const struct ctr_text_opts *o, struct ctr_err *err)
{
    struct ctr_text_columns pick = { 0 };
    int rc = ctr_fields_picked(o, &pick, err);

    for (int k = 0; k < pick.n && rc == 0; k++) {
        const char *name = pick.c[k].name;
        uint64_t number;
        if (!strcmp(name, "label"))
            continue;
        if (pick.c[k].typed || pick.c[k].source || name[0] != 'f' ||
            !ctr_parse_u64(name + 1, strlen(name + 1), &number) || (name[1] == '0' && name[2]))
            rc = ctr_fail(err, CTR_EUSAGE, "%s: the fields of libffm are f0, f1, …, without types",
                          ctr_text_setting(o, "columns", "%s", name).s);
        else
            rc = ctr_fields_add_field(s, name + 1, strlen(name + 1), name, err);
    }
    s->fields_open = true;
    ctr_text_columns_free(&pick);
    return rc;
}

static int libffm_open(void **state, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                       struct ctr_schema *schema, struct ctr_err *err)
{
    struct ctr_fields *s;
    int rc = ctr_fields_new(&s, o, err);

    *state = s;
    if (rc == 0)
        rc = ctr_fields_fixed(s, "label", CTR_F32, err);
    if (rc == 0)
        rc = o->columns || o->like ? picked_fields(s, o, err) : sample_fields(s, first, err);
    return rc < 0 ? rc : ctr_fields_schema(s, o, schema, err);
}

static int libffm_row(const struct ctr_fields *s, struct ctr_text_job *j, const char *p, const char *end,
                      struct ctr_err *why)
{
    int rc, field = -1;

    end = cut_comment(p, end);
    const char *e = ctr_next_token(&p, end);
    if (p == e)
        return 0;
    rc = ctr_fields_label(s, j, p, (size_t)(e - p), why);
    for (p = e, e = ctr_next_token(&p, end); rc == 0 && p < e; p = e, e = ctr_next_token(&p, end)) {
        const char *colon = memchr(p, ':', (size_t)(e - p)), *number = p;
        size_t n = colon ? (size_t)(colon - p) : 0;
        if (!colon || !ctr_fields_index(&number, &n))
            return ctr_fail(why, CTR_EDATA, "%s is not field:index:value", ctr_text_show(p, (size_t)(e - p)).s);
        field = ctr_fields_find(s, number, n, field + 1);
        if (field >= 0)
            rc = put_pair(s, j, field, colon + 1, e, why);
        else if (!s->fields_open)
            return ctr_fail(why, CTR_EDATA,
                            "field %.*s is not among those of the first %d lines; %s with all "
                            "fields (f0,f1,…) settles it",
                            (int)n, number, CTR_SAMPLE_ROWS, ctr_text_option(s->o, "columns").s);
    }
    return rc < 0 ? rc : 1;
}

static int libffm_parse(const void *state, struct ctr_text_job *j, struct ctr_err *err)
{
    return ctr_fields_parse(state, j, err, libffm_row);
}

const struct ctr_text_format ctr_text_libffm = { .name = "libffm",
                                                 .suffix = ".libffm",
                                                 .honours = CTR_TEXT_FOR | CTR_TEXT_KEYS | CTR_TEXT_COLUMNS,
                                                 .open = libffm_open,
                                                 .parse = libffm_parse,
                                                 .close = ctr_fields_free };
