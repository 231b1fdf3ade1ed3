/* SPDX-License-Identifier: Apache-2.0
 *
 * show.h: profiles for tools, a row of a stream for each column, and for people, a line of a table. */
#ifndef CTR_SHOW_H
#define CTR_SHOW_H

#include "tools/ctr-stats/profiles.h"

int ctr_show_schema(const struct ctr_profiles *p, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_show_rows(const struct ctr_profiles *p, struct ctr_batchbuf *rows, struct ctr_err *err) CTR_MUST;
int ctr_show_table(const struct ctr_profiles *p, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

/* ---- cells of both, and of drift ---- */

void ctr_put_f64(struct ctr_append *a, double x); /* NaN: null */
/* Column name, type and role; by and window where there are such. */
int ctr_put_names_schema(const struct ctr_profiles *p, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
void ctr_put_names(const struct ctr_profiles *p, const struct ctr_slice *slice, const struct ctr_profile *column,
                   struct ctr_append *a);
/* A number in at most eight characters; NaN as -. */
struct ctr_cell {
    char s[32];
};
struct ctr_cell ctr_cell(double x);
/* Append "by = value, from window"; nothing where there is one slice. */
int ctr_slice_name(const struct ctr_profiles *p, const struct ctr_slice *slice, struct ctr_buf *out,
                   struct ctr_err *err) CTR_MUST;
/* The same as a line, after an empty one if there is text before it. */
int ctr_slice_title(const struct ctr_profiles *p, const struct ctr_slice *slice, struct ctr_buf *out,
                    struct ctr_err *err) CTR_MUST;
/* The text, cut to `width` characters, … at its end. */
int ctr_cell_text(struct ctr_buf *out, const char *text, size_t n, int width, struct ctr_err *err) CTR_MUST;

#endif
