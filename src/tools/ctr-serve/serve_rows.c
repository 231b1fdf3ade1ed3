/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_rows: {"user": {…}, "context": {…}, "ads": [{…}, …]} to raw columns, a row an ad. The objects are lines for the
 * parser of `ctr-import --format jsonl`, with the types that the columns had when the model was trained, so that a
 * value means what it means in a log. A column comes from one place: the user, the context or the ads, else the file of
 * users or of ads; what comes from nowhere is an error, as a misspelt name would otherwise be a column of nulls.
 */
#include "tools/ctr-serve/serve_prerank.h"

#include "common/text/json.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- desks ---- */

static int job_init(struct ctr_text_job *j, const struct serve_generation *g, const char *name, struct ctr_err *err)
{
    j->o = &g->text;
    j->stop = j->bare = true;
    j->block = (struct ctr_text_block){ .file = name, .first_line = 1, .utf8 = true };
    j->loss = calloc((size_t)g->jsonl_schema.n + 1, sizeof *j->loss);
    if (!j->loss)
        return ctr_fail_nomem(err, (size_t)g->jsonl_schema.n * sizeof *j->loss);
    return ctr_batchbuf_init(&j->out, &g->jsonl_schema, err);
}

static void job_free(struct ctr_text_job *j)
{
    ctr_batchbuf_free(&j->out);
    ctr_buf_free(&j->scratch);
    ctr_buf_free(&j->scratch2);
    ctr_buf_free(&j->why);
    free(j->bad);
    free(j->loss);
}

static int open_keyed(struct ctr_keyed **k, struct ctr_batchbuf *rows, const struct serve_keyed *of,
                      struct ctr_err *err)
{
    int rc = of ? ctr_keyed_open(k, of->path, err) : 0;
    return rc || !of ? rc : ctr_batchbuf_init(rows, &of->schema, err);
}

int serve_desk_new(struct serve_desk **out, struct serve_generation *g, struct ctr_err *err)
{
    const size_t n = (size_t)g->schema.n + 1;
    struct serve_desk *d = *out = calloc(1, sizeof *d);
    if (!d)
        return ctr_fail_nomem(err, sizeof *d);
    d->g = g;
    d->common = calloc(n, sizeof *d->common);
    d->col = calloc(n, sizeof *d->col);
    d->view = calloc(n, sizeof *d->view);
    int rc = d->common && d->col && d->view ? 0 : ctr_fail_nomem(err, n * sizeof *d->col);
    if (!rc)
        rc = job_init(&d->user, g, "user", err);
    if (!rc)
        rc = job_init(&d->context, g, "context", err);
    if (!rc)
        rc = job_init(&d->ads, g, "ads", err);
    if (!rc)
        rc = open_keyed(&d->users_file, &d->users_rows, g->users, err);
    if (!rc)
        rc = open_keyed(&d->ads_file, &d->ads_rows, g->ads, err);
    if (!rc && g->prerank)
        rc = serve_cut_new(&d->cut, g, err);
    if (rc) {
        serve_desk_free(d);
        *out = NULL;
    }
    return rc;
}

void serve_desk_free(struct serve_desk *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->lanes; i++)
        serve_lane_free(d->lane[i]);
    serve_cut_free(d->cut);
    job_free(&d->user);
    job_free(&d->context);
    job_free(&d->ads);
    ctr_keyed_free(d->users_file);
    ctr_keyed_free(d->ads_file);
    ctr_batchbuf_free(&d->users_rows);
    ctr_batchbuf_free(&d->ads_rows);
    ctr_buf_free(&d->lines);
    ctr_buf_free(&d->zeros);
    ctr_buf_free(&d->found);
    free(d->common);
    free(d->col);
    free(d->view);
    free(d);
}

/* ---- objects as lines ---- */

static void job_clear(struct ctr_text_job *j)
{
    ctr_batchbuf_clear(&j->out);
    for (int i = 0; i < j->out.schema->n; i++) {
        struct ctr_text_losses *l = &j->loss[i];
        l->present = l->filled = false;
        memset(l->n, 0, sizeof l->n);
        memset(l->open, 0, sizeof l->open);
    }
    j->lossy = false;
    ctr_buf_clear(&j->why);
    j->nbad = 0;
    j->bad_line = 0;
}

/* "ads[3]: column x: …": there are no lines, no options. */
static int say_where(const struct ctr_text_job *j, int rc, bool list, struct ctr_err *err)
{
    struct ctr_err told = { .code = rc };
    if (rc != CTR_EDATA)
        return rc;
    if (list && j->bad_line)
        snprintf(told.what, sizeof told.what, "%s[%lld]: %.900s", j->block.file, (long long)j->bad_line - 1, err->what);
    else
        snprintf(told.what, sizeof told.what, "%s: %.900s", j->block.file, err->what);
    *err = told;
    return rc;
}

static int parse_lines(const struct serve_generation *g, struct ctr_text_job *j, const char *p, size_t n, bool list,
                       struct ctr_err *err)
{
    j->block.p = p;
    j->block.n = n;
    return say_where(j, g->text.format->parse(g->jsonl, j, err), list, err);
}

/* The line of an element: an object as it is, a key alone as the object that has it. */
static int put_line(struct ctr_buf *lines, const struct ctr_json *v, const char *key, const char *what,
                    struct ctr_err *err)
{
    const bool text = v->kind == CTR_JSON_STRING, alone = text || v->kind == CTR_JSON_PLAIN;
    int rc = 0;
    if (v->kind != CTR_JSON_OBJECT && !alone)
        return ctr_fail(err, CTR_EDATA, "%s: wants objects, or keys alone", what);
    if (alone && !key)
        return ctr_fail(err, CTR_EDATA,
                        "%s: a key alone needs the file of its columns (--%s), and there is none: give an "
                        "object",
                        what, *what == 'u' ? "users" : "ads");
    if (alone) {
        rc = ctr_buf_append(lines, "{", 1, err);
        if (!rc)
            rc = ctr_json_quote(lines, key, strlen(key), err);
        if (!rc)
            rc = ctr_buf_append(lines, ":", 1, err);
    }
    if (!rc)
        rc = ctr_buf_append(lines, v->p - text, v->n + (text ? 2 : 0), err);
    return rc ? rc : ctr_buf_append(lines, alone ? "}\n" : "\n", alone ? 2 : 1, err);
}

static const char *key_name(const struct serve_generation *g, int column)
{
    return column < 0 ? NULL : g->schema.f[column].name;
}

static int parse_one(struct serve_desk *d, struct ctr_text_job *j, const struct ctr_json *v, const char *key,
                     struct ctr_err *err)
{
    ctr_buf_clear(&d->lines);
    int rc = put_line(&d->lines, v, key, j->block.file, err);
    return rc ? rc : parse_lines(d->g, j, (const char *)d->lines.data, d->lines.len, false, err);
}

static int parse_ads(struct serve_desk *d, const struct ctr_json *v, int64_t most, struct ctr_err *err)
{
    const char *p = v->p + 1, *end = v->p + v->n, *why = "";
    const char *key = key_name(d->g, d->g->ad_key);
    struct ctr_json ad;
    bool first = true;
    int64_t n = 0;
    int more, rc = 0;
    if (v->kind != CTR_JSON_ARRAY)
        return ctr_fail(err, CTR_EDATA, "ads: wants a list");
    ctr_buf_clear(&d->lines);
    while (!rc && (more = ctr_json_element(&p, end, ']', &first, &why)) > 0) {
        if (!(p = ctr_json_value(p, end, &ad, &why)))
            return ctr_fail(err, CTR_EDATA, "ads[%lld]: no JSON: %s", (long long)n, why);
        if (n++ == most)
            return ctr_fail(err, CTR_ELARGE, "ads: more than %lld are not taken (--max-ads)", (long long)most);
        rc = put_line(&d->lines, &ad, key, "ads", err);
    }
    if (!rc && more < 0)
        rc = ctr_fail(err, CTR_EDATA, "ads: no JSON: %s", why);
    return rc ? rc : parse_lines(d->g, &d->ads, (const char *)d->lines.data, d->lines.len, true, err);
}

/* ---- the body ---- */

struct members {
    struct ctr_json user, context, ads;
};

static int take_member(struct members *m, const struct ctr_json *key, const struct ctr_json *v, struct ctr_err *err)
{
    static const char *const names[] = { "user", "context", "ads" };
    struct ctr_json *const to[] = { &m->user, &m->context, &m->ads };
    for (size_t i = 0; i < CTR_COUNT(names); i++)
        if (!key->escaped && key->n == strlen(names[i]) && !memcmp(key->p, names[i], key->n)) {
            if (to[i]->kind != CTR_JSON_NONE)
                return ctr_fail(err, CTR_EDATA, "'%s' is there twice", names[i]);
            *to[i] = *v;
            return 0;
        }
    return ctr_fail(err, CTR_EDATA, "'%.*s' is no member of a request: it has user, context and ads",
                    (int)CTR_MIN(key->n, (size_t)40), key->p);
}

bool serve_join_lines(uint8_t *body, size_t n)
{
    bool text = false;
    if (!memchr(body, '\n', n))
        return true;
    for (size_t i = 0; i < n; i++) {
        if (body[i] == '\n' && text)
            return false;
        if (body[i] == '\n')
            body[i] = ' ';
        else if (body[i] == '"')
            text = !text;
        else if (body[i] == '\\' && text && i + 1 < n && body[i + 1] != '\n')
            i++;
    }
    return true;
}

static int split_body(uint8_t *body, size_t n, struct members *m, struct ctr_err *err)
{
    if (!serve_join_lines(body, n))
        return ctr_fail(err, CTR_EDATA, "the body is no JSON: a line ends within a text");
    const char *p = ctr_json_space((const char *)body, (const char *)body + n), *end = (const char *)body + n;
    const char *why = "no object";
    struct ctr_json key, v;
    bool first = true;
    int more = -1;
    if (!ctr_utf8_valid(body, n))
        return ctr_fail(err, CTR_EDATA, "the body is not UTF-8");
    if (p == end || *p++ != '{')
        return ctr_fail(err, CTR_EDATA, "the body is no JSON object");
    while ((more = ctr_json_element(&p, end, '}', &first, &why)) > 0) {
        if (!ctr_json_key(&p, end, &key, &why) || !(p = ctr_json_value(p, end, &v, &why)))
            return ctr_fail(err, CTR_EDATA, "the body is no JSON: %s", why);
        int rc = take_member(m, &key, &v, err);
        if (rc)
            return rc;
    }
    if (more < 0 || ctr_json_space(p, end) != end)
        return ctr_fail(err, CTR_EDATA, "the body is no JSON: %s", more < 0 ? why : "something follows the object");
    return 0;
}

/* ---- one place a column ---- */

static bool given(const struct ctr_text_job *j, int column)
{
    return column >= 0 && j->loss[column].present;
}

/* Column k has one value for all ads: `entry`, of one row. */
static void set_common(struct serve_desk *d, int k, const struct ctr_col *entry, int64_t rows)
{
    d->view[k] = *entry;
    d->common[k] = true;
    d->col[k] = (struct ctr_col){ .type = entry->type, .rows = rows, .data = d->zeros.data, .dict = &d->view[k] };
}

int serve_look_up(struct ctr_keyed *file, struct ctr_batchbuf *rows, const struct ctr_col *keys, struct ctr_buf *found,
                  int64_t *missed, struct ctr_err *err)
{
    int rc = 0;
    ctr_batchbuf_clear(rows);
    ctr_buf_clear(found);
    bool *is = ctr_buf_extend(found, keys->rows, sizeof *is, &rc, err);
    if (!rc)
        rc = ctr_keyed_get_many(file, keys, rows, is, err);
    for (int64_t i = 0; !rc && i < keys->rows; i++)
        *missed += !is[i];
    return rc;
}

static int look_up_user(struct serve_desk *d, bool *user, struct ctr_err *err)
{
    const struct serve_generation *g = d->g;
    struct ctr_text_job *const by = given(&d->user, g->user_key) ? &d->user : &d->context;
    *user = g->users && given(by, g->user_key);
    return *user ? serve_look_up(d->users_file, &d->users_rows, ctr_colbuf_view(&by->out.col[g->user_key]), &d->found,
                                 &d->no_user, err)
                 : 0;
}

static int look_up_ads(struct serve_desk *d, bool *ads, struct ctr_err *err)
{
    const struct serve_generation *g = d->g;
    *ads = g->ads && given(&d->ads, g->ad_key);
    return *ads ? serve_look_up(d->ads_file, &d->ads_rows, ctr_colbuf_view(&d->ads.out.col[g->ad_key]), &d->found,
                                &d->no_ad, err)
                : 0;
}

int serve_fail_missing(const struct serve_generation *g, int k, struct ctr_err *err)
{
    const char *name = g->schema.f[k].name;
    const bool in_users = g->from_users[k] >= 0, in_ads = g->from_ads[k] >= 0;
    if (in_users || in_ads)
        return ctr_fail(err, CTR_EDATA, "column %s is missing: give it, or %s, by which the file of %s has it", name,
                        key_name(g, in_users ? g->user_key : g->ad_key), in_users ? "users" : "ads");
    return ctr_fail(err, CTR_EDATA, "column %s is missing: the user, the context or the ads give it (null: not known)",
                    name);
}

static int place_column(struct serve_desk *d, int k, bool user, bool ads, struct ctr_err *err)
{
    const struct serve_generation *g = d->g;
    struct ctr_text_job *const jobs[] = { &d->user, &d->context, &d->ads };
    const int64_t rows = d->batch.rows;
    const struct ctr_text_job *place = NULL;
    d->common[k] = false;
    for (size_t i = 0; i < CTR_COUNT(jobs); i++) {
        if (!given(jobs[i], k))
            continue;
        if (place)
            return ctr_fail(err, CTR_EDATA, "column %s is in %s and in %s: give it once", g->schema.f[k].name,
                            place->block.file, jobs[i]->block.file);
        place = jobs[i];
    }
    if (place && place != &d->ads)
        set_common(d, k, ctr_colbuf_view(&place->out.col[k]), rows);
    else if (place)
        d->col[k] = *ctr_colbuf_view(&d->ads.out.col[k]);
    else if (serve_cut_column(d, k))
        d->col[k] = *serve_cut_column(d, k);
    else if (user && g->from_users[k] >= 0)
        set_common(d, k, ctr_colbuf_view(&d->users_rows.col[g->from_users[k]]), rows);
    else if (ads && g->from_ads[k] >= 0)
        d->col[k] = *ctr_colbuf_view(&d->ads_rows.col[g->from_ads[k]]);
    else
        return serve_fail_missing(g, k, err);
    return 0;
}

static int place_columns(struct serve_desk *d, bool user, struct ctr_err *err)
{
    const int64_t rows = d->batch.rows;
    bool ads = false;
    int rc = look_up_ads(d, &ads, err);
    if (!rc && d->zeros.len < (size_t)rows * sizeof(int32_t)) {
        ctr_buf_clear(&d->zeros);
        void *zeros = ctr_buf_extend(&d->zeros, rows, sizeof(int32_t), &rc, err);
        if (!rc)
            memset(zeros, 0, (size_t)rows * sizeof(int32_t));
    }
    for (int k = 0; k < d->g->columns && !rc; k++)
        rc = place_column(d, k, user, ads, err);
    return rc;
}

int serve_rows_json(struct serve_desk *d, uint8_t *body, size_t n, int64_t most_rows, struct ctr_err *err)
{
    struct members m = { 0 };
    bool user = false;
    job_clear(&d->user);
    job_clear(&d->context);
    job_clear(&d->ads);
    int rc = split_body(body, n, &m, err);
    const bool ads = m.ads.kind > CTR_JSON_NULL;
    if (!rc && !ads && !(d->cut && m.ads.kind <= CTR_JSON_NULL))
        rc = ctr_fail(err, CTR_EDATA, m.ads.kind == CTR_JSON_NONE ? "'ads' is missing" : "ads: wants a list");
    if (!rc && m.user.kind > CTR_JSON_NULL)
        rc = parse_one(d, &d->user, &m.user, key_name(d->g, d->g->user_key), err);
    if (!rc && m.context.kind > CTR_JSON_NULL)
        rc = parse_one(d, &d->context, &m.context, NULL, err);
    if (!rc && ads)
        rc = parse_ads(d, &m.ads, most_rows, err);
    d->batch =
        (struct ctr_batch){ .schema = &d->g->rows, .rows = rc ? 0 : ctr_batchbuf_rows(&d->ads.out), .col = d->col };
    if (!rc && (d->batch.rows || d->cut))
        rc = look_up_user(d, &user, err);
    if (!rc && d->cut)
        rc = serve_cut(d, user, ads, err);
    if (rc)
        d->batch.rows = 0;
    return rc || !d->batch.rows ? rc : place_columns(d, user, err);
}
