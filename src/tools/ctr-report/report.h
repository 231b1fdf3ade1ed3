/* SPDX-License-Identifier: Apache-2.0
 *
 * report: what files of a run say, as one page.
 *
 *     struct ctr_report r = { .files = 2, .memory_bytes = …, .pool = … };
 *     ctr_report_add(&r, "model.arrows", "model", err)      reads the file; a piece of the page
 *     …                                                     of each of the files
 *     ctr_report_figures(&r, err)
 *     ctr_report_page(&r, "title", &page, err)
 *     ctr_report_free(&r)
 *
 * What a file is, its content says. A kind is a row of a table: how it is known, and the functions that get its
 * batches; reading, digests and provenance are here and the same for all. The page has statistics and no rows of data.
 */
#ifndef CTR_REPORT_H
#define CTR_REPORT_H

#include "common/plot/plot.h"
#include "common/stream/stream.h"
#include "tools/ctr-report/html.h"

enum {
    CTR_REPORT_BYTES = 300000, /* a page never has more */
    CTR_REPORT_TABLES =
        180000, /* for the tables of all files, at least a part of it each; figures have what they leave */
    CTR_REPORT_FRAME = 50000, /* for style, contents and provenance */
    CTR_REPORT_FILES = 24,
};

/* The parts of the page, in its order. */
enum ctr_report_part {
    CTR_PART_PLAN,
    CTR_PART_MODEL,
    CTR_PART_STATISTICS,
    CTR_PART_DRIFT,
    CTR_PART_EVALUATION,
    CTR_PART_WEIGHTS,
    CTR_REPORT_PARTS
};

struct ctr_report_section {
    char *name; /* or NULL: a plain stream */
    int64_t rows;
    char digest[33];
};

struct ctr_report;
struct ctr_plan;
struct ctr_report_file {
    struct ctr_report *report;
    const struct ctr_report_kind *kind;
    char *name;              /* as the page calls it */
    const char *path;        /* borrowed */
    struct ctr_html html;    /* its piece of the page */
    struct ctr_html figures; /* the end of it */
    struct ctr_report_section *section;
    int nsections;
    bool sealed;
    struct ctr_strs made;  /* provenance, a line each */
    struct ctr_plan *plan; /* the plan in it, or NULL */
    void *state;           /* of the kind, or NULL */
};

struct ctr_report {
    int files; /* that there will be */
    struct ctr_report_file *file;
    int n;
    size_t used;              /* bytes of all pieces */
    struct ctr_html brief;    /* rows of the first table: how good scores are */
    struct ctr_html compared; /* figures of several files of scores */
    int64_t memory_bytes;
    struct ctr_pool *pool;
};

/* Columns by name and class, which is checked: a kind gets what it expects. */
enum ctr_report_class { CTR_CLASS_TEXT, CTR_CLASS_NUMBER, CTR_CLASS_TIME, CTR_CLASS_TEXTS, CTR_CLASS_NUMBERS };
struct ctr_report_column {
    const char *name;
    enum ctr_report_class class;
    bool must;
};

struct ctr_report_kind {
    const char *name; /* "a model" without "a" */
    enum ctr_report_part part;
    bool (*is)(const struct ctr_schema *s); /* NULL: it has the columns; without any: no stream, or nothing else fits */
    const struct ctr_report_column *columns;
    int ncolumns;
    size_t state; /* bytes of the file's state, zeroed; it begins with an int for each column: where it is */
    int (*begin)(struct ctr_report_file *f, const struct ctr_schema *s, struct ctr_err *err);
    int (*batch)(struct ctr_report_file *f, const struct ctr_batch *b, struct ctr_err *err); /* of the first section */
    int (*end)(struct ctr_report_file *f, struct ctr_err *err);
    void (*free)(void *state);
    const char *const *figures; /* kinds of ctr-plot, ending in NULL; or NULL */
    const char *remedy;         /* set: such a file is refused; what to do, after "NAME is KIND: " */
};
extern const struct ctr_report_kind ctr_report_plan, ctr_report_fitted, ctr_report_model, ctr_report_weights,
    ctr_report_explained, ctr_report_changes, ctr_report_profile, ctr_report_drift, ctr_report_scores,
    ctr_report_progressive, ctr_report_eval;

/* `path` may be read more than once. `name` NULL: made of it. */
int ctr_report_add(struct ctr_report *r, const char *path, const char *name, struct ctr_err *err) CTR_MUST;
/* The figures of all files, the first of each, then the second of each, as long as there is room. */
int ctr_report_figures(struct ctr_report *r, struct ctr_err *err) CTR_MUST;
int ctr_report_page(const struct ctr_report *r, const char *title, struct ctr_buf *page, struct ctr_err *err) CTR_MUST;
void ctr_report_free(struct ctr_report *r);

/* ---- for kinds ---- */

/* Sets at[i], -1: not there. False: one that must be there is not, or one is of another class. */
bool ctr_report_find(const struct ctr_schema *s, const struct ctr_report_column *want, int n, int *at);
/* Values of a row, columns from ctr_report_find. NaN, or no text (p NULL): null, or no such column. */
double ctr_report_value(const struct ctr_batch *b, int column, int64_t row);
struct ctr_str ctr_report_str(const struct ctr_batch *b, int column, int64_t row);
/* As ctr-stats shows numbers: six digits, "-" for NaN. */
struct ctr_report_number {
    char s[40];
};
struct ctr_report_number ctr_report_number(double x);
struct ctr_report_number ctr_report_percent(double x);
struct ctr_report_number ctr_report_metric(double x);   /* as ctr-eval does */
struct ctr_report_number ctr_report_decimals(double x); /* four */
struct ctr_report_number ctr_report_time(double ms);    /* its second */
/* What slice a row is of, "by = …, from …"; "" without. */
int ctr_report_slice(const struct ctr_batch *b, int by, int window, int64_t row, struct ctr_buf *out,
                     struct ctr_err *err) CTR_MUST;
/* A row of the first table. Values in the order of ctr_report_brief_head, after the name. */
enum { CTR_BRIEF = 6 };
extern const char *const ctr_report_brief_head[CTR_BRIEF + 2];
void ctr_report_brief(struct ctr_report_file *f, const double value[CTR_BRIEF]);

#endif
