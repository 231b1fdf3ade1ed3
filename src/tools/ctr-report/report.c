/* SPDX-License-Identifier: Apache-2.0
 *
 * report: reads the files of a run. Each is read once for what it says and for its digest, and once for each figure. */
#include "tools/ctr-report/report.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/plan/plan.h"

/* ---- kinds ---- */

static bool has(const struct ctr_schema *s, const char *const *names)
{
    for (; *names; names++)
        if (ctr_schema_find(s, *names) < 0)
            return false;
    return true;
}

static bool is_kept_profile(const struct ctr_schema *s)
{
    return ctr_meta_get(&s->meta, "ctr.profile");
}

static bool is_names(const struct ctr_schema *s)
{
    static const char *const names[] = { "table", "key", "name", "count", NULL };
    return has(s, names);
}

static bool is_attention(const struct ctr_schema *s)
{
    static const char *const names[] = { "row", "score", "unit", "list", "weight", NULL };
    return has(s, names);
}

static bool is_map(const struct ctr_schema *s)
{
    static const char *const names[] = { "by", "slice", "kind", "name", "score", "value", NULL };
    return has(s, names);
}

/* What is known, but not shown. The remedy names the file by a %s. */
static const struct ctr_report_kind kept_profile = {
    .name = "profile that ctr-stats --profile keeps",
    .is = is_kept_profile,
    .remedy = "give what it says, of `ctr-stats --merge --format stream FILE`",
};
static const struct ctr_report_kind names = {
    .name = "stream of names of keys",
    .is = is_names,
    .remedy = "give the weights by name, of `ctr-model top --names FILE --format stream MODEL`",
};
static const struct ctr_report_kind attention = {
    .name = "stream of items that attention weighs",
    .is = is_attention,
    .remedy = "a report has no rows of data, and these are items of single rows; `ctr-model explain` shows them",
};
static const struct ctr_report_kind map = {
    .name = "calibration map",
    .is = is_map,
    .remedy = "give the scores that it calibrated, of `ctr-calibrate MAP SCORES`",
};
static const struct ctr_report_kind rows = {
    .name = "stream of rows without label and score",
    .remedy = "give its profile, `ctr-stats --format stream FILE`",
};

/* The first that fits. */
static const struct ctr_report_kind *const kinds[] = {
    &ctr_report_model,
    &ctr_report_fitted,
    &kept_profile,
    &attention,
    &ctr_report_explained,
    &ctr_report_changes,
    &ctr_report_weights,
    &names,
    &map,
    &ctr_report_profile,
    &ctr_report_drift,
    &ctr_report_eval,
    &ctr_report_progressive,
    &ctr_report_scores,
    &rows,
};

static const struct ctr_report_kind *kind_of(const struct ctr_schema *s)
{
    size_t i = 0;
    int at[32];
    while (kinds[i]->is ? !kinds[i]->is(s) : !ctr_report_find(s, kinds[i]->columns, kinds[i]->ncolumns, at))
        i++; /* the last one fits all */
    return kinds[i];
}

/* ---- a stream ---- */

static int add_section(struct ctr_report_file *f, const struct ctr_schema *s, struct ctr_err *err)
{
    const char *name = ctr_meta_get(&s->meta, CTR_META_SECTION);
    struct ctr_report_section *more = realloc(f->section, ((size_t)f->nsections + 1) * sizeof *more);

    if (!more)
        return ctr_fail_nomem(err, ((size_t)f->nsections + 1) * sizeof *more);
    f->section = more;
    f->section[f->nsections++] = (struct ctr_report_section){ 0 };
    return name ? ctr_strdup(&f->section[f->nsections - 1].name, name, err) : 0;
}

/* The rows of a section, which the kind gets of the first. */
static int read_section(struct ctr_report_file *f, struct ctr_reader *r, struct ctr_err *err)
{
    const struct ctr_batch *b;
    struct ctr_digest *d = NULL;
    const bool first = !f->nsections;
    int rc = add_section(f, ctr_reader_schema(r), err);

    if (!rc)
        rc = ctr_digest_new(&d, ctr_reader_schema(r), err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        f->section[f->nsections - 1].rows += b->rows;
        rc = ctr_digest_batch(d, b, err);
        if (!rc && first && f->kind->batch)
            rc = f->kind->batch(f, b, err);
    }
    if (!rc)
        ctr_digest_hex(d, f->section[f->nsections - 1].digest);
    ctr_digest_free(d);
    return rc;
}

static int begin(struct ctr_report_file *f, const struct ctr_schema *s, struct ctr_err *err)
{
    const char *pg = ctr_meta_get(&s->meta, CTR_META_PG);
    int rc = 0;

    f->kind = kind_of(s);
    if (f->kind->remedy)
        rc = ctr_fail(err, CTR_EKIND, "it is a %s: %s", f->kind->name, f->kind->remedy);
    if (!rc && pg)
        rc = ctr_strs_split(&f->made, pg, '\n', err);
    if (!rc && f->kind->state && !(f->state = calloc(1, f->kind->state)))
        rc = ctr_fail_nomem(err, f->kind->state);
    if (!rc)
        (void)ctr_report_find(s, f->kind->columns, f->kind->ncolumns, f->state);
    return rc || !f->kind->begin ? rc : f->kind->begin(f, s, err);
}

static int read_stream(struct ctr_report_file *f, struct ctr_err *err)
{
    const struct ctr_reader_opts o = { .sections = true };
    struct ctr_reader_stats stats;
    struct ctr_reader *r = NULL;
    char *path = (char *)(uintptr_t)f->path;
    int rc = ctr_reader_open(&r, &path, 1, &o, err), more = 1;

    if (!rc)
        rc = begin(f, ctr_reader_schema(r), err);
    while (!rc && more) {
        rc = read_section(f, r, err);
        more = rc ? 0 : ctr_reader_section(r, err);
        rc = more < 0 ? more : rc;
    }
    if (!rc) {
        ctr_reader_get_stats(r, &stats);
        f->sealed = stats.sealed;
        rc = f->kind->end ? f->kind->end(f, err) : 0;
    }
    if (rc)
        ctr_err_file(err, f->path);
    ctr_reader_free(r);
    return rc;
}

/* ---- figures ---- */

/* The figure of some files, `svg` is empty if it does not fit one of them. */
static int draw(const struct ctr_report_file *const *of, int n, const struct ctr_plot_kind *k, struct ctr_buf *svg,
                struct ctr_err *err)
{
    const struct ctr_plot_opts o = { .memory_bytes = of[0]->report->memory_bytes,
                                     .pool = of[0]->report->pool,
                                     .no_style = true };
    struct ctr_plot_input in[CTR_SVG_COLOURS] = { { 0 } };
    bool fits = true;
    int rc = 0;

    ctr_buf_clear(svg);
    for (int i = 0; !rc && i < n; i++) {
        struct ctr_reader *r = NULL;
        char *path = (char *)(uintptr_t)of[i]->path;
        if ((rc = ctr_reader_open(&r, &path, 1, NULL, err)))
            break;
        in[i] = (struct ctr_plot_input){ of[i]->name, ctr_batch_source_stream(r) };
        fits &= ctr_plot_fits(k, ctr_reader_schema(r), &o);
    }
    if (!rc && fits)
        rc = ctr_plot_draw(k, in, n, &o, svg, err);
    for (int i = 0; i < n; i++)
        ctr_batch_source_close(&in[i].rows);
    return rc;
}

/* The figure, or where it is to be had. */
static int put_figure(struct ctr_report *r, struct ctr_html *h, const struct ctr_plot_kind *k,
                      const struct ctr_buf *svg)
{
    const size_t before = h->buf.len;

    if (r->used + svg->len + 100 > CTR_REPORT_BYTES - CTR_REPORT_FRAME) {
        ctr_html_markup(h, "<p class=\"less\">");
        ctr_html_format(h, "No room for the figure: ctr-plot %s draws it.", k->name);
        ctr_html_markup(h, "</p>\n");
    } else {
        ctr_html_markup(h, "<figure>");
        if (!h->rc)
            h->rc = ctr_buf_append(&h->buf, svg->data, svg->len, h->err);
        ctr_html_markup(h, "</figure>\n");
    }
    r->used += h->buf.len - before;
    return h->rc;
}

/* Figure `i` of its kind; 0 where there are no more. */
static int add_figure(struct ctr_report_file *f, int i, struct ctr_buf *svg, struct ctr_err *err)
{
    const char *const *name = f->kind->figures;

    for (int at = 0; name && *name && at < i; at++)
        name++;
    if (!name || !*name)
        return 0;
    const struct ctr_plot_kind *k = ctr_plot_find(*name);
    int rc = k ? draw((const struct ctr_report_file *const *)&f, 1, k, svg, err) : 0;
    if (!rc && k && svg->len)
        rc = put_figure(f->report, &f->figures, k, svg);
    if (rc)
        ctr_err_file(err, f->path);
    return rc ? rc : 1;
}

/* Of two or more files of scores: the figures in which they stand side by side. */
static int compare(struct ctr_report *r, struct ctr_buf *svg, struct ctr_err *err)
{
    static const char *const figures[] = { "reliability", "roc" };
    const struct ctr_report_file *of[CTR_SVG_COLOURS];
    int n = 0, rc = 0;

    for (int i = 0; i < r->n && n < CTR_SVG_COLOURS; i++)
        if (r->file[i].kind == &ctr_report_scores)
            of[n++] = &r->file[i];
    for (size_t i = 0; !rc && n > 1 && i < CTR_COUNT(figures); i++) {
        const struct ctr_plot_kind *k = ctr_plot_find(figures[i]);
        rc = k ? draw(of, n, k, svg, err) : 0;
        if (!rc && k && svg->len)
            rc = put_figure(r, &r->compared, k, svg);
    }
    return rc;
}

int ctr_report_figures(struct ctr_report *r, struct ctr_err *err)
{
    struct ctr_buf svg = { 0 };
    int rc = compare(r, &svg, err);

    for (int i = 0, more = 1; rc >= 0 && more; i++) {
        more = 0;
        for (int k = 0; rc >= 0 && k < r->n; k++) {
            rc = add_figure(&r->file[k], i, &svg, err);
            more |= rc > 0;
        }
    }
    ctr_buf_free(&svg);
    return CTR_MIN(rc, 0);
}

/* ---- a file ---- */

/* Text that is no stream is a plan. What is no file is for the reader to refuse. */
static int is_text(const char *path, bool *text, struct ctr_err *err)
{
    char head[6];
    int rc = ctr_is_file(path, err), fd;

    *text = false;
    if (rc <= 0)
        return rc;
    if ((fd = ctr_open_input(path, O_RDONLY, err)) < 0)
        return fd;
    ssize_t n = ctr_read_full(fd, head, sizeof head, err);
    close(fd);
    *text = n > 0 && !(n >= 4 && !memcmp(head, "\xff\xff\xff\xff", 4)) && !(n == 6 && !memcmp(head, "ARROW1", 6));
    return n < 0 ? (int)n : 0;
}

static int read_plan(struct ctr_report_file *f, struct ctr_err *err)
{
    int rc = ctr_plan_open(&f->plan, f->path, err);

    f->kind = &ctr_report_plan;
    if (rc == CTR_EUSAGE || rc == CTR_EDATA) {
        char *more = strstr(err->what, "; line ");
        if (more) /* the first error of a plan is enough to see that it is none */
            *more = 0;
        ctr_err_add(err, "; no stream, so it was read as a plan: ctr-import reads other text");
    }
    if (!rc)
        rc = add_section(f, &(const struct ctr_schema){ 0 }, err);
    if (!rc) {
        memcpy(f->section->digest, ctr_plan_id(f->plan), sizeof f->section->digest - 1);
        rc = f->kind->end(f, err);
    }
    return rc;
}

/* "runs/scored.arrows" is called scored.arrows: a plan and a model often share what is before the dot. */
static int name_file(struct ctr_report_file *f, const char *name, struct ctr_err *err)
{
    const char *base = strrchr(f->path, '/') ? strrchr(f->path, '/') + 1 : f->path;

    return ctr_strdup(&f->name, name ? name : base, err);
}

int ctr_report_add(struct ctr_report *r, const char *path, const char *name, struct ctr_err *err)
{
    struct ctr_report_file *more = realloc(r->file, ((size_t)r->n + 1) * sizeof *more), *f;
    const size_t left = CTR_REPORT_TABLES - CTR_MIN((size_t)CTR_REPORT_TABLES, r->used);
    bool text = false;

    if (!more)
        return ctr_fail_nomem(err, ((size_t)r->n + 1) * sizeof *more);
    r->file = more;
    f = &r->file[r->n++];
    /* What files before this one left is for the others. */
    *f = (struct ctr_report_file){ .report = r,
                                   .path = path,
                                   .html = { .most = CTR_MIN((size_t)CTR_REPORT_TABLES / 4,
                                                             left / (size_t)CTR_MAX(r->files - r->n + 1, 1)),
                                             .err = err },
                                   .figures = { .err = err } };
    int rc = name_file(f, name, err);
    if (!rc)
        rc = is_text(path, &text, err);
    if (!rc)
        rc = text ? read_plan(f, err) : read_stream(f, err);
    if (f->kind && f->kind->free)
        f->kind->free(f->state);
    else
        free(f->state);
    f->state = NULL;
    r->used += f->html.buf.len;
    if (!rc)
        rc = f->html.rc ? f->html.rc : r->brief.rc;
    if (rc)
        ctr_err_file(err, path);
    return rc;
}

void ctr_report_free(struct ctr_report *r)
{
    for (int i = 0; i < r->n; i++) {
        struct ctr_report_file *f = &r->file[i];
        for (int k = 0; k < f->nsections; k++)
            free(f->section[k].name);
        free(f->section);
        free(f->name);
        ctr_plan_free(f->plan);
        ctr_strs_free(&f->made);
        ctr_buf_free(&f->html.buf);
        ctr_buf_free(&f->figures.buf);
    }
    free(r->file);
    ctr_buf_free(&r->brief.buf);
    ctr_buf_free(&r->compared.buf);
}
