/* SPDX-License-Identifier: Apache-2.0
 *
 * svg: writes one figure: heading, axes with ticks, legend, and what is drawn between the axes.
 *
 *     struct ctr_svg g;
 *     const struct ctr_figure f = { .title = "ROC", .x = { "false positive rate", 0, 1 }, .y = { "true …", 0, 1 } };
 *     ctr_svg_begin(&g, &f, out, err);
 *     ctr_svg_line(&g, 0, x, y, n);
 *     rc = ctr_svg_end(&g);                  0, or the first error of these calls, which do nothing after it
 *
 * All texts are shown as plain text: markup is escaped, control characters are shown as codes. Coordinates have two
 * decimals, so the bytes depend on the numbers alone. Colours, for light and dark and for print, are those of
 * ctr_svg_style, by class; no element has an id, so several figures may stand in one page.
 */
#ifndef CTR_SVG_H
#define CTR_SVG_H

#include "common/base/base.h"

enum { CTR_SVG_COLOURS = 8 }; /* of series 0, 1, …; further ones begin again */

/* The rules of all classes, without <style>. A page may override them: their selectors are single classes, .ctr-… */
extern const char ctr_svg_style[];

enum ctr_axis_kind {
    CTR_AXIS_NUMBER,
    CTR_AXIS_PERCENT, /* 0.1 is shown as 10% */
    CTR_AXIS_TIME,    /* ms since 1970, shown as dates and times, UTC */
    CTR_AXIS_NAMES,   /* y only: row i, from the top, spans [i, i + 1] and has the name names[i] */
};
struct ctr_axis {
    const char *label;
    double low, high; /* finite; ends at which nothing lies are moved apart */
    enum ctr_axis_kind kind;
    bool exact;               /* keep the ends; else they move outwards to the next tick */
    const char *const *names; /* CTR_AXIS_NAMES: high - low of them */
};

struct ctr_figure {
    const char *title, *subtitle; /* subtitle: or NULL */
    const char *summary;          /* what the figure shows, in words, for screen readers; NULL: title and subtitle */
    struct ctr_axis x, y;
    const char *const *legend; /* names of series 0, 1, …; or NULL */
    int nlegend;
    const char *message; /* or NULL: instead of data, such as "no rows" */
    bool no_style;
    int width, height; /* 0: 640, 400; with CTR_AXIS_NAMES the height follows their number */
};

struct ctr_svg { /* plain data; set by ctr_svg_begin */
    struct ctr_buf *out;
    struct ctr_err *err;
    int rc;
    int width, height;
    double left, right, top, bottom; /* the area between the axes */
    struct ctr_axis x, y;            /* with their final ends */
};
void ctr_svg_begin(struct ctr_svg *g, const struct ctr_figure *f, struct ctr_buf *out, struct ctr_err *err);
int ctr_svg_end(struct ctr_svg *g) CTR_MUST;

/* Where a value lies; values beyond the axis lie at its end. */
double ctr_svg_x(const struct ctr_svg *g, double x);
double ctr_svg_y(const struct ctr_svg *g, double y);

/* Points that are NaN leave a gap in lines, steps and bands, and are no dots or bars. */
void ctr_svg_line(struct ctr_svg *g, int series, const double *x, const double *y, int64_t n);
/* y[i] holds from x[i - 1] to x[i] (y[0] at x[0]). */
void ctr_svg_steps(struct ctr_svg *g, int series, const double *x, const double *y, int64_t n);
void ctr_svg_band(struct ctr_svg *g, int series, const double *x, const double *low, const double *high, int64_t n);
/* A dot, its interval as a line if there are low and high, and a tip, which browsers show (ended by a zero, or NULL).
 */
void ctr_svg_dot(struct ctr_svg *g, int series, double x, double y, double low, double high, const char *tip);
/* A bar from (x0, y0) to (x1, y1); `faint`: of something that is not sure. */
void ctr_svg_bar(struct ctr_svg *g, int series, double x0, double x1, double y0, double y1, bool faint,
                 const char *tip);
void ctr_svg_whisker(struct ctr_svg *g, double x0, double x1, double y0,
                     double y1);                                                  /* a thin line, as of an interval */
void ctr_svg_rule(struct ctr_svg *g, double x0, double y0, double x1, double y1); /* a dashed line, to compare with */

/* Append a text to a document of XML, as its content or as the value of an attribute. */
int ctr_svg_escape(struct ctr_buf *out, const char *text, size_t n, struct ctr_err *err) CTR_MUST;

#endif
