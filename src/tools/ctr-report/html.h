/* SPDX-License-Identifier: Apache-2.0
 *
 * html: writes pieces of the page. Markup is constant text of the program; all other text is escaped here, and cannot
 * be markup. Calls after the first error do nothing; the error is in `rc`.
 *
 *     struct ctr_html h = { .most = 9000, .err = err };
 *     static const char *const head[] = { "slice", ">rows", NULL };
 *     struct ctr_html_table t = ctr_html_table(&h, "By slice", head);
 *     while (…)
 *         if (ctr_html_row(&t)) {
 *             ctr_html_text_cell(&t, slice, n, 40);
 *             ctr_html_cell(&t, "%lld", rows);
 *         }
 *     ctr_html_table_end(&t);
 *
 * A piece is bounded: once it has `most` bytes its tables take no more rows, and say how many they left out.
 */
#ifndef CTR_HTML_H
#define CTR_HTML_H

#include "common/base/base.h"

struct ctr_html { /* zero-initialise but for most and err */
    struct ctr_buf buf;
    size_t most;
    struct ctr_err *err;
    int rc;
};

void ctr_html_markup(struct ctr_html *h, const char *markup);
void ctr_html_text(struct ctr_html *h, const char *text, size_t n);
/* At most `columns` columns of it, then an ellipsis. */
void ctr_html_cut(struct ctr_html *h, const char *text, size_t n, int columns);
/* The result of the format as text. */
void ctr_html_format(struct ctr_html *h, const char *fmt, ...) CTR_PRINTF(2, 3);
/* <TAG>text</TAG>; tag is a constant. */
void ctr_html_element(struct ctr_html *h, const char *tag, const char *text);
/* Text of many lines, as long as there is room. Returns how many lines were left out. */
int64_t ctr_html_lines(struct ctr_html *h, const char *text);
bool ctr_html_full(const struct ctr_html *h);

struct ctr_html_table {
    struct ctr_html *h;
    const char *const *head;
    int column; /* of the next cell */
    int64_t rows, left_out;
    bool open; /* a row is */
};
/* head: names of columns, ending in NULL; those of numbers begin with '>'. The first column names the rows. */
struct ctr_html_table ctr_html_table(struct ctr_html *h, const char *caption, const char *const *head);
/* Begins a row; false: there is no room. */
bool ctr_html_row(struct ctr_html_table *t);
void ctr_html_cell(struct ctr_html_table *t, const char *fmt, ...) CTR_PRINTF(2, 3);
void ctr_html_text_cell(struct ctr_html_table *t, const char *text, size_t n, int columns);
/* A cell of several pieces. */
void ctr_html_cell_begin(struct ctr_html_table *t);
void ctr_html_cell_end(struct ctr_html_table *t);
void ctr_html_table_end(struct ctr_html_table *t);

#endif
