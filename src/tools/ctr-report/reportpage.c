/* SPDX-License-Identifier: Apache-2.0
 *
 * reportpage: the page around the pieces: head and style, contents, parts in their order, provenance. */
#include "tools/ctr-report/report.h"

__asm__(".section .rodata\n"
        ".global ctr_report_css, ctr_report_css_size\n"
        "ctr_report_css: .incbin \"src/tools/ctr-report/report.css\"\n"
        "1: .balign 8\n"
        "ctr_report_css_size: .quad 1b - ctr_report_css\n"
        ".previous\n");
extern const char ctr_report_css[];
extern const uint64_t ctr_report_css_size;

static const struct {
    const char *id, *title, *about;
} parts[CTR_REPORT_PARTS] = {
    [CTR_PART_PLAN] = { "plan", "Plan", "What is predicted, and from what." },
    [CTR_PART_MODEL] = { "model", "Model", "What was learned, and how." },
    [CTR_PART_STATISTICS] = { "statistics", "Statistics", "What is in the columns, as ctr-stats tells it." },
    [CTR_PART_DRIFT] = { "drift", "Drift", "How columns differ from those of a reference, as ctr-stats tells it." },
    [CTR_PART_EVALUATION] = { "evaluation", "Evaluation", "How good scores are, as ctr-eval tells it." },
    [CTR_PART_WEIGHTS] = { "weights", "Strongest weights", "What moves the log odds most, as ctr-model tells it." },
};

static bool has_part(const struct ctr_report *r, int part)
{
    for (int i = 0; i < r->n; i++)
        if ((int)r->file[i].kind->part == part)
            return true;
    return false;
}

static void put_head(struct ctr_html *h, const char *title)
{
    /* No script may run and nothing may be loaded, even where a browser ignores that there is none. */
    ctr_html_markup(
        h, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<meta name=\"generator\" content=\"ctrkit " CTR_VERSION "\">\n<title>");
    ctr_html_format(h, "%s", title);
    ctr_html_markup(h, "</title>\n<style>\n");
    ctr_html_markup(h, ctr_svg_style);
    if (!h->rc)
        h->rc = ctr_buf_append(&h->buf, ctr_report_css, ctr_report_css_size, h->err);
    ctr_html_markup(h, "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#content\">To the content</a>\n");
}

static void put_contents(struct ctr_html *h, const struct ctr_report *r, const char *title)
{
    ctr_html_markup(h, "<header>\n");
    ctr_html_element(h, "h1", title);
    ctr_html_markup(h, "<p class=\"lead\">");
    ctr_html_format(h, "Made by ctrkit " CTR_VERSION " of %d file%s. It has statistics, and no rows of data.", r->n,
                    CTR_S(r->n));
    ctr_html_markup(h, "</p>\n</header>\n<nav aria-label=\"Contents\"><ol>\n");
    for (int i = 0; i < CTR_REPORT_PARTS; i++)
        if (has_part(r, i)) {
            ctr_html_markup(h, "<li><a href=\"#");
            ctr_html_markup(h, parts[i].id);
            ctr_html_markup(h, "\">");
            ctr_html_markup(h, parts[i].title);
            ctr_html_markup(h, "</a></li>\n");
        }
    ctr_html_markup(h, "<li><a href=\"#provenance\">Provenance</a></li>\n</ol></nav>\n<main id=\"content\">\n");
}

static void put_brief(struct ctr_html *h, const struct ctr_report *r)
{
    if (!r->brief.buf.len)
        return;
    struct ctr_html_table t = ctr_html_table(h, "In short", ctr_report_brief_head);
    t.rows = 1;
    if (!h->rc)
        h->rc = ctr_buf_append(&h->buf, r->brief.buf.data, r->brief.buf.len, h->err);
    ctr_html_table_end(&t);
}

static void put_part(struct ctr_html *h, const struct ctr_report *r, int part)
{
    ctr_html_markup(h, "<section aria-labelledby=\"");
    ctr_html_markup(h, parts[part].id);
    ctr_html_markup(h, "\">\n<h2 id=\"");
    ctr_html_markup(h, parts[part].id);
    ctr_html_markup(h, "\">");
    ctr_html_markup(h, parts[part].title);
    ctr_html_markup(h, "</h2>\n<p class=\"lead\">");
    ctr_html_markup(h, parts[part].about);
    ctr_html_markup(h, "</p>\n");
    if (part == CTR_PART_EVALUATION && !h->rc)
        h->rc = ctr_buf_append(&h->buf, r->compared.buf.data, r->compared.buf.len, h->err);
    for (int i = 0; i < r->n; i++) {
        const struct ctr_report_file *f = &r->file[i];
        if ((int)f->kind->part != part)
            continue;
        ctr_html_markup(h, "<h3>");
        ctr_html_cut(h, f->name, strlen(f->name), 80);
        ctr_html_markup(h, "</h3>\n");
        if (!h->rc)
            h->rc = ctr_buf_append(&h->buf, f->html.buf.data, f->html.buf.len, h->err);
        if (!h->rc)
            h->rc = ctr_buf_append(&h->buf, f->figures.buf.data, f->figures.buf.len, h->err);
    }
    ctr_html_markup(h, "</section>\n");
}

/* ---- provenance ---- */

static const char *const file_head[] = { "file", "what it is", ">rows", "digest", "checksums", NULL };

/* Of a bundle the rows and the digest of its first section. */
static void put_files(struct ctr_html *h, const struct ctr_report *r)
{
    struct ctr_html_table t = ctr_html_table(h, "Files", file_head);

    for (int i = 0; i < r->n; i++) {
        const struct ctr_report_file *f = &r->file[i];
        if (!ctr_html_row(&t))
            continue;
        ctr_html_text_cell(&t, f->name, strlen(f->name), 40);
        ctr_html_cell(&t, "%s", f->kind->name);
        if (f->kind == &ctr_report_plan)
            ctr_html_cell(&t, "-");
        else
            ctr_html_cell(&t, "%lld", (long long)f->section->rows);
        ctr_html_cell_begin(&t);
        ctr_html_markup(h, "<code>");
        ctr_html_format(h, "%s", f->section->digest);
        ctr_html_markup(h, "</code>");
        ctr_html_cell_end(&t);
        ctr_html_cell(&t, "%s",
                      f->kind == &ctr_report_plan ? "-"
                      : f->sealed                 ? "whole and verified"
                                                  : "a foreign stream");
    }
    ctr_html_table_end(&t);
}

static const char *const made_head[] = { "program", "version", "options", "files", NULL };

/* Is this line of file `i` the first of its text? */
static bool is_first(const struct ctr_report *r, int i, int line)
{
    for (int k = 0; k < i; k++)
        if (ctr_strs_find(&r->file[k].made, r->file[i].made.s[line]) >= 0)
            return false;
    return ctr_strs_find(&r->file[i].made, r->file[i].made.s[line]) == line;
}

static int put_made(struct ctr_html_table *t, const struct ctr_report *r, const char *line)
{
    struct ctr_strs part = { 0 };
    int rc = ctr_strs_split(&part, line, '\t', t->h->err), n = 0;

    if (!rc && part.n >= 3 && ctr_html_row(t)) {
        ctr_html_text_cell(t, part.s[0], strlen(part.s[0]), 40);
        ctr_html_text_cell(t, part.s[1], strlen(part.s[1]), 20);
        ctr_html_cell_begin(t);
        ctr_html_markup(t->h, "<code>");
        ctr_html_cut(t->h, part.s[2], strlen(part.s[2]), 240);
        ctr_html_markup(t->h, "</code>");
        ctr_html_cell_end(t);
        ctr_html_cell_begin(t);
        for (int k = 0; k < r->n; k++)
            if (ctr_strs_find(&r->file[k].made, line) >= 0) {
                ctr_html_markup(t->h, n++ ? ", " : "");
                ctr_html_cut(t->h, r->file[k].name, strlen(r->file[k].name), 20);
            }
        ctr_html_cell_end(t);
    }
    ctr_strs_free(&part);
    return rc;
}

static int put_provenance(struct ctr_html *h, const struct ctr_report *r)
{
    int rc = 0;

    ctr_html_markup(
        h, "<section aria-labelledby=\"provenance\">\n<h2 id=\"provenance\">Provenance</h2>\n<p class=\"lead\">"
           "What the page was made of. A digest is that of ctr-info --digest, of a model that of its weights; "
           "of a plan it is its id.</p>\n");
    put_files(h, r);
    struct ctr_html_table t = ctr_html_table(h, "Programs that made these files", made_head);
    for (int i = 0; !rc && i < r->n; i++)
        for (int k = 0; !rc && k < r->file[i].made.n; k++)
            if (is_first(r, i, k))
                rc = put_made(&t, r, r->file[i].made.s[k]);
    ctr_html_table_end(&t);
    ctr_html_markup(h, "</section>\n");
    return rc;
}

int ctr_report_page(const struct ctr_report *r, const char *title, struct ctr_buf *page, struct ctr_err *err)
{
    struct ctr_html h = { .most = CTR_REPORT_BYTES - 200, .err = err };

    put_head(&h, title);
    put_contents(&h, r, title);
    put_brief(&h, r);
    for (int i = 0; i < CTR_REPORT_PARTS; i++)
        if (has_part(r, i))
            put_part(&h, r, i);
    int rc = put_provenance(&h, r);
    ctr_html_markup(&h, "</main>\n</body>\n</html>\n");
    if (!rc)
        rc = h.rc;
    if (!rc && h.buf.len > CTR_REPORT_BYTES)
        rc = ctr_fail(err, CTR_EDATA, "the page would have %zu bytes, and has %d at most: give fewer files", h.buf.len,
                      CTR_REPORT_BYTES);
    *page = h.buf;
    return rc;
}
