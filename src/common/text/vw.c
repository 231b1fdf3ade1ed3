/* SPDX-License-Identifier: Apache-2.0
 *
 * vw: the text of Vowpal Wabbit with simple labels:
 *     [label [importance]] [tag]|namespace[:scale] feature[:value] … |namespace …
 * becomes label, weight (if the first lines have an importance, or with --weight weight), tag (if they have one, or
 * with --id tag) and a column for each namespace of the first lines, "_" for the unnamed one; --columns selects
 * namespaces and skips the others. Values are multiplied by the scale. Blank lines are skipped. Labels of contextual
 * bandits, costs and other reductions are bad rows.
 */
#include "common/text/fields.h"
#include <math.h>

/* The part before the first bar. */
struct head {
    const char *label, *weight, *tag; /* NULL: absent */
    size_t label_n, weight_n, tag_n;
    int words; /* before the tag */
};

static void parse_head(const char *p, const char *bar, struct head *h)
{
    const char *word[3] = { 0 };
    size_t len[3] = { 0 };
    const char *e = ctr_next_token(&p, bar);

    memset(h, 0, sizeof(*h));
    for (; p < e; p = e, e = ctr_next_token(&p, bar)) {
        if (e == bar || *p == '\'') { /* it touches the bar, or is quoted */
            h->tag = p + (*p == '\'');
            h->tag_n = (size_t)(e - h->tag);
            break;
        }
        if (h->words < 3) {
            word[h->words] = p;
            len[h->words] = (size_t)(e - p);
        }
        h->words++;
    }
    h->label = word[0];
    h->label_n = len[0];
    h->weight = word[1];
    h->weight_n = len[1];
}

/* Parse a namespace: "name:scale" directly after the bar. */
static const char *parse_namespace(const char *p, const char *end, size_t *n, float *scale)
{
    const char *e = p, *colon;

    while (e < end && !ctr_is_blank(*e) && *e != '|')
        e++;
    colon = memchr(p, ':', (size_t)(e - p));
    *n = (size_t)((colon ? colon : e) - p);
    *scale = 1;
    if (colon && !ctr_fields_value(colon + 1, (size_t)(e - colon - 1), scale))
        return NULL;
    return e;
}

/* ---- opening ---- */

static const char *const reserved[] = { "label", "weight", "tag" };

static bool is_reserved_name(const char *name)
{
    for (size_t k = 0; k < CTR_COUNT(reserved); k++)
        if (!strcmp(name, reserved[k]))
            return true;
    return false;
}

/* Add the column of a namespace. */
static int add_namespace(struct ctr_fields *s, const char *p, size_t n, struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    bool is_reserved = false;

    for (size_t k = 0; k < CTR_COUNT(reserved); k++)
        is_reserved |= strlen(reserved[k]) == n && !memcmp(reserved[k], p, n);
    int rc = ctr_buf_printf(&name, err, "%s%.*s", is_reserved ? "ns." : "", n ? (int)n : 1, n ? p : "_");
    if (rc == 0)
        rc = ctr_fields_add_field(s, p, n, (const char *)name.data, err);
    ctr_buf_free(&name);
    return rc;
}

static bool known(const struct ctr_fields *s, const char *p, size_t n)
{
    for (int k = 0; k < s->fields; k++)
        if (s->field[k].name_n == n && !memcmp(s->field[k].name, p, n))
            return true;
    return false;
}

static bool nameable(const char *p, size_t n)
{
    return !memchr(p, 0, n) && ctr_utf8_valid((const uint8_t *)p, n) && n < 256;
}

static int line_namespaces(struct ctr_fields *s, const char *bar, const char *end, struct ctr_err *err)
{
    int rc = 0;

    while (bar && rc == 0) {
        const char *e;
        size_t n;
        float scale;
        e = parse_namespace(bar + 1, end, &n, &scale);
        if (e && nameable(bar + 1, n) && !known(s, bar + 1, n))
            rc = add_namespace(s, bar + 1, n, err);
        bar = memchr(bar + 1, '|', (size_t)(end - bar - 1));
    }
    return rc;
}

/* Fixed columns come first: one pass for them, one for the namespaces. */
static int sample(struct ctr_fields *s, const struct ctr_text_opts *o, const struct ctr_text_block *b,
                  struct ctr_err *err)
{
    const char *weight = o->role[CTR_ROLE_WEIGHT], *id = o->role[CTR_ROLE_ID];
    bool has_weight = (weight && !strcmp(weight, "weight")) || (o->like && ctr_schema_find(o->like, "weight") >= 0);
    bool has_tag = (id && !strcmp(id, "tag")) || (o->like && ctr_schema_find(o->like, "tag") >= 0);
    int rc = ctr_fields_fixed(s, "label", CTR_F32, err);

    for (int pass = 0; pass < 2 && rc == 0; pass++) {
        const char *p = b->p, *line, *end;
        for (int n = 0; n < CTR_SAMPLE_ROWS && rc == 0 && (end = ctr_next_record(&p, b->p + b->n, &line)) != NULL;
             n++) {
            const char *bar = memchr(line, '|', (size_t)(end - line));
            struct head h;
            if (!bar)
                continue;
            parse_head(line, bar, &h);
            has_weight |= h.weight != NULL;
            has_tag |= h.tag != NULL && h.tag_n > 0;
            if (pass == 1 && !o->columns && !o->like)
                rc = line_namespaces(s, bar, end, err);
        }
        if (pass == 0 && has_weight)
            rc = ctr_fields_fixed(s, "weight", CTR_F32, err);
        if (pass == 0 && rc == 0 && has_tag)
            rc = ctr_fields_fixed(s, "tag", CTR_UTF8, err);
    }
    return rc;
}

static int picked(struct ctr_fields *s, const struct ctr_text_opts *o, struct ctr_err *err)
{
    struct ctr_text_columns pick = { 0 };
    int rc = ctr_fields_picked(o, &pick, err);

    for (int k = 0; k < pick.n && rc == 0; k++) {
        const char *name = pick.c[k].name;
        if (pick.c[k].typed || pick.c[k].source)
            rc = ctr_fail(err, CTR_EUSAGE, "%s: a namespace takes neither a type nor a source",
                          ctr_text_setting(o, "columns", "%s", name).s);
        else if (!strncmp(name, "ns.", 3) && is_reserved_name(name + 3))
            rc = add_namespace(s, name + 3, strlen(name + 3), err);
        else if (!is_reserved_name(name))
            rc = add_namespace(s, strcmp(name, "_") ? name : "", strcmp(name, "_") ? strlen(name) : 0, err);
    }
    s->fields_open = true;
    ctr_text_columns_free(&pick);
    return rc;
}

static int open_vw(void **state, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                   struct ctr_schema *schema, struct ctr_err *err)
{
    struct ctr_fields *s;
    int rc = ctr_fields_new(&s, o, err);

    *state = s;
    if (rc == 0)
        rc = sample(s, o, first, err);
    if (rc == 0 && (o->columns || o->like))
        rc = picked(s, o, err);
    return rc < 0 ? rc : ctr_fields_schema(s, o, schema, err);
}

/* ---- parsing ---- */

static int put_label(const struct ctr_fields *s, struct ctr_text_job *j, const struct head *h, struct ctr_err *why)
{
    if (!h->label)
        return s->label < 0 ? 0 : ctr_colbuf_null(&j->out.col[s->label], why);
    if (memchr(h->label, ':', h->label_n) || memchr(h->label, ',', h->label_n))
        return ctr_fail(why, CTR_EDATA,
                        "the label %s is one of contextual bandits or costs; simple labels (a number) "
                        "can be read",
                        ctr_text_show(h->label, h->label_n).s);
    if (h->label_n == 6 && !memcmp(h->label, "shared", 6))
        return ctr_fail(why, CTR_EDATA, "'shared' begins an example of several lines; one example a line can be read");
    if (h->words > 2)
        return ctr_fail(why, CTR_EDATA,
                        "more than label and importance before the bar: an initial prediction cannot be kept");
    return ctr_fields_label(s, j, h->label, h->label_n, why);
}

static int put_weight(const struct ctr_fields *s, struct ctr_text_job *j, const struct head *h, struct ctr_err *why)
{
    float v = 1;

    if (h->weight && (!ctr_fields_value(h->weight, h->weight_n, &v) || v < 0))
        return ctr_fail(why, CTR_EDATA, "the importance %s is no number >= 0", ctr_text_show(h->weight, h->weight_n).s);
    if (h->weight && ctr_text_columns_find(&s->columns, "weight", 6) < 0)
        return ctr_fail(why, CTR_EDATA, "an importance, and the first lines had none; %s settles it",
                        ctr_text_setting(s->o, "weight", "weight").s);
    return s->weight < 0 ? 0 : ctr_colbuf_f64(&j->out.col[s->weight], (double)v, why);
}

static int put_tag(const struct ctr_fields *s, struct ctr_text_job *j, const struct head *h, struct ctr_err *why)
{
    bool has = h->tag && h->tag_n;

    if (has && ctr_text_columns_find(&s->columns, "tag", 3) < 0)
        return ctr_fail(why, CTR_EDATA, "a tag, and the first lines had none; %s settles it",
                        ctr_text_setting(s->o, "id", "tag").s);
    if (has && !j->block.utf8 && !ctr_utf8_valid((const uint8_t *)h->tag, h->tag_n))
        return ctr_fail(why, CTR_EDATA, "the tag is not UTF-8; %s settles it",
                        ctr_text_setting(s->o, "encoding", "latin1").s);
    if (s->tag < 0)
        return 0;
    return has ? ctr_colbuf_str(&j->out.col[s->tag], h->tag, h->tag_n, why) : ctr_colbuf_null(&j->out.col[s->tag], why);
}

/* Append the features from p to the next bar or the end; *next is where it stopped. */
static int put_features(const struct ctr_fields *s, struct ctr_text_job *j, int field, float scale, const char *p,
                        const char *end, const char **next, struct ctr_err *why)
{
    while (p < end && *p != '|') {
        const char *name = p, *colon;
        float value = 1;
        int rc;
        if (ctr_is_blank(*p)) {
            p++;
            continue;
        }
        while (p < end && !ctr_is_blank(*p) && *p != '|' && *p != ':')
            p++;
        colon = p;
        if (p < end && *p == ':')
            for (p++; p < end && !ctr_is_blank(*p) && *p != '|';)
                p++;
        if (colon == name)
            return ctr_fail(why, CTR_EDATA, "a feature without a name before ':'");
        if (p > colon && (!ctr_fields_value(colon + 1, (size_t)(p - colon - 1), &value) || !isfinite(value * scale)))
            return ctr_fail(why, CTR_EDATA, "the value of %s is no finite number",
                            ctr_text_show(name, (size_t)(p - name)).s);
        if (field >= 0 && (rc = ctr_fields_item(s, j, field, name, (size_t)(colon - name), value * scale, why)) < 0)
            return rc;
    }
    *next = p;
    return 0;
}

static int row(const struct ctr_fields *s, struct ctr_text_job *j, const char *p, const char *end, struct ctr_err *why)
{
    const char *bar = memchr(p, '|', (size_t)(end - p));
    struct head h;
    int rc, field = -1;

    if (!bar) {
        if (ctr_next_token(&p, end) == p)
            return 0;
        return ctr_fail(why, CTR_EDATA, "no bar ('|')");
    }
    parse_head(p, bar, &h);
    if ((rc = put_label(s, j, &h, why)) < 0 || (rc = put_weight(s, j, &h, why)) < 0 ||
        (rc = put_tag(s, j, &h, why)) < 0)
        return rc;
    while (bar < end) {
        float scale;
        size_t n;
        const char *e = parse_namespace(bar + 1, end, &n, &scale);
        if (!e)
            return ctr_fail(why, CTR_EDATA, "the scale of the namespace %s is no finite number",
                            ctr_text_show(bar + 1, n).s);
        field = ctr_fields_find(s, bar + 1, n, field + 1);
        if (field < 0 && !s->fields_open)
            return ctr_fail(why, CTR_EDATA,
                            "the namespace %s is not among those of the first %d lines; %s with "
                            "all namespaces settles it",
                            ctr_text_show(bar + 1, n).s, CTR_SAMPLE_ROWS, ctr_text_option(s->o, "columns").s);
        if ((rc = put_features(s, j, field, scale, e, end, &bar, why)) < 0)
            return rc;
    }
    return 1;
}

static int parse_vw(const void *state, struct ctr_text_job *j, struct ctr_err *err)
{
    return ctr_fields_parse(state, j, err, row);
}

const struct ctr_text_format ctr_text_vw = { .name = "vw",
                                             .suffix = ".vw",
                                             .honours = CTR_TEXT_FOR | CTR_TEXT_KEYS | CTR_TEXT_COLUMNS,
                                             .open = open_vw,
                                             .parse = parse_vw,
                                             .close = ctr_fields_free };
