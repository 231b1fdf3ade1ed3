/* SPDX-License-Identifier: Apache-2.0
 *
 * gridviz: evaluation tables of several models as one page, which a browser displays offline.
 *
 *     ctr_gridviz_new(&g, err)
 *     ctr_gridviz_add(g, reader, "model a", err)     reads a table of ctr-eval --format stream to its end
 *     ctr_gridviz_data(g, "title", &json, err)
 *     ctr_gridviz_page(&json, &page, err)
 *
 * Rows of the grid are models, columns are slices, as in McMahan et al., "Ad Click Prediction: a View from the
 * Trenches" (KDD 2013), section 5. The page (gridviz.html, .css, .js) uses d3, which the binary contains.
 */
#ifndef CTR_GRIDVIZ_H
#define CTR_GRIDVIZ_H

#include "common/stream/stream.h"

struct ctr_gridviz;
int ctr_gridviz_new(struct ctr_gridviz **g, struct ctr_err *err) CTR_MUST;
void ctr_gridviz_free(struct ctr_gridviz *g);
/* Slices are matched by column, value and window; slices missing from a table stay empty. */
int ctr_gridviz_add(struct ctr_gridviz *g, struct ctr_reader *r, const char *name, struct ctr_err *err) CTR_MUST;
int64_t ctr_gridviz_slices(const struct ctr_gridviz *g);

/* All of it as JSON:
 *     { "title", "by": [column, …],
 *       "metrics": [{ "name", "help", "goal": "high"|"low"|"one"|"none" }, …],
 *       "by_of": [index into by or -1: all rows, …], "slice": [text, …], "window": [ms or null, …]    an item a slice
 *       "models": [{ "name", "rows": […], "weight": […], "positives": […], "auc": […], "auc_low": […], … }, …] } */
int ctr_gridviz_data(const struct ctr_gridviz *g, const char *title, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;
/* The HTML page with these data: gridpage.c. */
int ctr_gridviz_page(const struct ctr_buf *data, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

#endif
