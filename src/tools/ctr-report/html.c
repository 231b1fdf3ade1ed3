/* SPDX-License-Identifier: Apache-2.0
 *
 * html: pieces of the page, escaped and bounded. */
#include "tools/ctr-report/html.h"

#include "common/plot/plot.h"

enum {
    ROW = 3000, /* bytes that a row of a table may take: cells are cut */
    LINE = 400, /* columns of a line of a plan that are shown */
};

void ctr_html_markup(struct ctr_html *h, const char *markup)
{
    if (!h->rc)
        h->rc = ctr_buf_append(&h->buf, markup, strlen(markup), h->err);
}

void ctr_html_text(struct ctr_html *h, const char *text, size_t n)
{
    if (!h->rc)
        h->rc = ctr_svg_escape(&h->buf, text, n, h->err);
}

/* Texts that are not plain are quoted first, so that columns are those that are seen. Marks that take no column count
 * as bytes. */
void ctr_html_cut(struct ctr_html *h, const char *text, size_t n, int columns)
{
    struct ctr_buf shown = { 0 };
    size_t taken = CTR_MIN(n, (size_t)8 * (size_t)columns), end;

    while (taken && taken < n && ((uint8_t)text[taken] & 0xc0) == 0x80)
        taken--;
    if (!h->rc)
        h->rc = ctr_buf_quote(&shown, text, taken, h->err);
    if (!h->rc) {
        const char *p = (const char *)shown.data;
        end = ctr_columns_cut(p, shown.len, columns);
        end = CTR_MIN(end, (size_t)4 * (size_t)columns);
        while (end && end < shown.len && ((uint8_t)p[end] & 0xc0) == 0x80)
            end--;
        ctr_html_text(h, p, end);
        if (end < shown.len || taken < n)
            ctr_html_markup(h, CTR_CUT);
    }
    ctr_buf_free(&shown);
}

static void put_format(struct ctr_html *h, const char *fmt, va_list ap) CTR_PRINTF(2, 0);
static void put_format(struct ctr_html *h, const char *fmt, va_list ap)
{
    struct ctr_buf text = { 0 };

    if (!h->rc)
        h->rc = ctr_buf_vformat(&text, h->err, fmt, ap);
    if (!h->rc)
        ctr_html_text(h, (const char *)text.data, text.len);
    ctr_buf_free(&text);
}

void ctr_html_format(struct ctr_html *h, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_format(h, fmt, ap);
    va_end(ap);
}

void ctr_html_element(struct ctr_html *h, const char *tag, const char *text)
{
    ctr_html_markup(h, "<");
    ctr_html_markup(h, tag);
    ctr_html_markup(h, ">");
    ctr_html_format(h, "%s", text);
    ctr_html_markup(h, "</");
    ctr_html_markup(h, tag);
    ctr_html_markup(h, ">\n");
}

int64_t ctr_html_lines(struct ctr_html *h, const char *text)
{
    int64_t left_out = 0;

    while (*text) {
        const size_t n = strcspn(text, "\n"), shown = n - (n && text[n - 1] == '\r');
        if (ctr_html_full(h))
            left_out++;
        else {
            for (size_t at = 0, to; at < shown; at = to + (to < shown)) { /* a tab is no control character here */
                to = CTR_MIN(at + strcspn(text + at, "\t\n"), shown);
                ctr_html_cut(h, text + at, to - at, LINE);
                if (to < shown)
                    ctr_html_markup(h, "\t");
            }
            ctr_html_markup(h, "\n");
        }
        text += n + (text[n] == '\n');
    }
    return left_out;
}

bool ctr_html_full(const struct ctr_html *h)
{
    return h->rc || h->buf.len + ROW > h->most;
}

/* ---- tables ---- */

struct ctr_html_table ctr_html_table(struct ctr_html *h, const char *caption, const char *const *head)
{
    /* Tables that are too wide scroll by themselves: keys reach them as a region with a name. */
    ctr_html_markup(h, "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"");
    ctr_html_format(h, "%s", caption);
    ctr_html_markup(h, "\"><table>\n<caption>");
    ctr_html_format(h, "%s", caption);
    ctr_html_markup(h, "</caption>\n<thead><tr>");
    for (int i = 0; head[i]; i++) {
        const bool number = *head[i] == '>';
        ctr_html_markup(h, number ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">");
        ctr_html_format(h, "%s", head[i] + number);
        ctr_html_markup(h, "</th>");
    }
    ctr_html_markup(h, "</tr></thead>\n<tbody>\n");
    return (struct ctr_html_table){ .h = h, .head = head };
}

bool ctr_html_row(struct ctr_html_table *t)
{
    if (t->open)
        ctr_html_markup(t->h, "</tr>\n");
    t->open = !t->left_out && !ctr_html_full(t->h);
    t->left_out += !t->open;
    if (!t->open)
        return false;
    ctr_html_markup(t->h, "<tr>");
    t->column = 0;
    t->rows++;
    return true;
}

void ctr_html_cell_begin(struct ctr_html_table *t)
{
    const bool number = t->head[t->column] && *t->head[t->column] == '>';

    ctr_html_markup(t->h, !t->column ? "<th scope=\"row\">" : number ? "<td class=\"n\">" : "<td>");
}

void ctr_html_cell_end(struct ctr_html_table *t)
{
    ctr_html_markup(t->h, t->column ? "</td>" : "</th>");
    t->column++;
}

void ctr_html_cell(struct ctr_html_table *t, const char *fmt, ...)
{
    va_list ap;

    ctr_html_cell_begin(t);
    va_start(ap, fmt);
    put_format(t->h, fmt, ap);
    va_end(ap);
    ctr_html_cell_end(t);
}

void ctr_html_text_cell(struct ctr_html_table *t, const char *text, size_t n, int columns)
{
    ctr_html_cell_begin(t);
    ctr_html_cut(t->h, text, n, columns);
    ctr_html_cell_end(t);
}

void ctr_html_table_end(struct ctr_html_table *t)
{
    if (t->open)
        ctr_html_markup(t->h, "</tr>\n");
    ctr_html_markup(t->h, "</tbody></table></div>\n");
    if (!t->rows && !t->left_out)
        ctr_html_element(t->h, "p", "It has no rows.");
    if (t->left_out) {
        ctr_html_markup(t->h, "<p class=\"less\">");
        ctr_html_format(t->h, "%lld more row%s not shown, to keep the page small.", (long long)t->left_out,
                        t->left_out == 1 ? " is" : "s are");
        ctr_html_markup(t->h, "</p>\n");
    }
}
