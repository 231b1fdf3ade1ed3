/* SPDX-License-Identifier: Apache-2.0
 *
 * plot: figures of streams, each one <svg> that needs no other file. See ctr-plot(1) for what each kind shows.
 *
 *     struct ctr_plot_input in = { "new model", ctr_batch_source_stream(reader) };
 *     const struct ctr_plot_opts o = { 0 };
 *     ctr_plot_draw(ctr_plot_find("reliability"), &in, 1, &o, &svg, err)
 *     ctr_batch_source_close(&in.rows)
 *
 * A kind is a row of a table: which columns it reads, how many inputs, and the function that draws. Inputs are read
 * once, to their end; the same rows give the same bytes, whatever the batches and threads. An input that has the
 * columns, but no rows or only one class, gives a figure that says so, and no error.
 */
#ifndef CTR_PLOT_H
#define CTR_PLOT_H

#include "common/plot/svg.h"
#include "common/stream/stream.h"

/* A series of the figure. The caller owns the source, whose columns a kind may project. */
struct ctr_plot_input {
    const char *name; /* in the legend and in messages */
    struct ctr_batch_source rows;
};

struct ctr_plot_opts {
    const char *const *role; /* CTR_NROLES names of columns, each or NULL: by role (ctr_cli.role); NULL: all by role */
    const char *title;       /* NULL: made of the kind and its columns */
    const char *column;      /* histogram: of this column. importance: by this column of numbers, or NULL */
    const char *metric;      /* metric: this one of ctr_metrics; NULL: the first that all inputs have */
    int64_t bins;            /* reliability, scores, histogram, learning: about so many; 0: the kind's default */
    int64_t top;             /* importance, drift, histogram of texts: so many bars; 0: the default */
    int64_t memory_bytes;    /* > 0: fail, and say how much is needed, instead of using more */
    struct ctr_pool *pool;   /* or NULL */
    bool no_style;           /* leave out ctr_svg_style: the page that embeds the figure has it */
    void (*progress)(void *ctx, int64_t rows); /* or NULL: called between batches */
    void *progress_ctx;
    struct ctr_buf *notes; /* or NULL: gets a line for each thing that the figure leaves out, for people */
};

struct ctr_plot; /* of the kinds: draw.h */
struct ctr_plot_kind {
    const char *name;
    const char *summary;        /* one line, as in the help */
    const char *title;          /* the heading, where opts has none */
    unsigned roles;             /* 1 << enum ctr_role: columns that it needs */
    unsigned also;              /* the same: columns that it uses where they are */
    const char *const *columns; /* names of columns that it needs, ending in NULL; or NULL */
    const char *from;           /* the command that writes such columns, for messages; or NULL */
    int inputs;                 /* at most CTR_SVG_COLOURS */
    bool (*fits)(const struct ctr_schema *s,
                 const struct ctr_plot_opts *o); /* or NULL: what the columns alone don't say */
    int (*draw)(struct ctr_plot *p, struct ctr_err *err);
};
/* The kinds, in the order of the manual; NULL past the end. */
const struct ctr_plot_kind *ctr_plot_kind_at(int i);
const struct ctr_plot_kind *ctr_plot_find(const char *name); /* or NULL */

/* Has such a stream the columns that the kind needs? If not, ctr_plot_draw says which one is missing. */
bool ctr_plot_fits(const struct ctr_plot_kind *k, const struct ctr_schema *s, const struct ctr_plot_opts *o);

/* Append the figure to `svg`. An error in the rows names the file. */
int ctr_plot_draw(const struct ctr_plot_kind *k, struct ctr_plot_input *in, int n, const struct ctr_plot_opts *o,
                  struct ctr_buf *svg, struct ctr_err *err) CTR_MUST;

#endif
