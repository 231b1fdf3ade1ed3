/* SPDX-License-Identifier: Apache-2.0
 *
 * svg: the document, its frame, and marks between the axes. Widths of texts are estimated, as a reader's fonts are not
 * known: by columns of a terminal, of 7.4 units at 12, which wide fonts take for digits. */
#include "common/plot/svg_axis.h"

#include <math.h>
#include <stdio.h>

/* Colours that people with colour blindness can tell apart (after Okabe and Ito), darker on white and lighter on black;
 * dashes tell lines apart where there is no colour. Dark is for screens, so paper is white. */
const char ctr_svg_style[] =
    ".ctr-plot{max-width:100%;height:auto}"
    ".ctr-bg{fill:#fff}.ctr-t{fill:#222;font:12px "
    "system-ui,sans-serif}.ctr-h{font-size:15px;font-weight:600}.ctr-m{fill:#595959}"
    ".ctr-n{font-size:14px}.ctr-g{stroke:#e4e4e4}.ctr-a{stroke:#777}.ctr-r{stroke:#777;stroke-dasharray:5 4}"
    ".ctr-w{stroke:#222;stroke-width:1.4}.ctr-line{fill:none;stroke-width:1.8}.ctr-band{opacity:.18}"
    ".ctr-faint{fill-opacity:.35}.ctr-f0{fill:#0b62a4}.ctr-f1{fill:#c8500a}.ctr-f2{fill:#00785c}.ctr-f3{fill:#a8408f}"
    ".ctr-f4{fill:#7d6400}.ctr-f5{fill:#3f8fc4}.ctr-f6{fill:#7a4b2a}.ctr-f7{fill:#5a5a5a}"
    ".ctr-l0{stroke:#0b62a4}.ctr-l1{stroke:#c8500a;stroke-dasharray:7 2}.ctr-l2{stroke:#00785c;stroke-dasharray:2 2}"
    ".ctr-l3{stroke:#a8408f;stroke-dasharray:9 2 2 2}.ctr-l4{stroke:#7d6400;stroke-dasharray:4 "
    "2}.ctr-l5{stroke:#3f8fc4}"
    ".ctr-l6{stroke:#7a4b2a;stroke-dasharray:7 2}.ctr-l7{stroke:#5a5a5a;stroke-dasharray:2 2}"
    "@media screen and (prefers-color-scheme:dark){.ctr-bg{fill:#151719}.ctr-t{fill:#e6e6e6}.ctr-m{fill:#a8a8a8}"
    ".ctr-g{stroke:#303336}.ctr-a,.ctr-r{stroke:#8a8a8a}.ctr-w{stroke:#e6e6e6}.ctr-f0{fill:#6cb6ff}.ctr-f1{fill:#"
    "ff9e5e}"
    ".ctr-f2{fill:#4cc9a0}.ctr-f3{fill:#e58ad0}.ctr-f4{fill:#e0c04c}.ctr-f5{fill:#9cd3f5}.ctr-f6{fill:#c9a283}"
    ".ctr-f7{fill:#b8b8b8}.ctr-l0{stroke:#6cb6ff}.ctr-l1{stroke:#ff9e5e}.ctr-l2{stroke:#4cc9a0}.ctr-l3{stroke:#e58ad0}"
    ".ctr-l4{stroke:#e0c04c}.ctr-l5{stroke:#9cd3f5}.ctr-l6{stroke:#c9a283}.ctr-l7{stroke:#b8b8b8}}";

enum { WIDTH = 640, HEIGHT = 400, EDGE = 12, ROW = 20, NAME_COLUMNS = 34, LEGEND_COLUMNS = 60, TITLE_COLUMNS = 76 };
static const double column = 7.4; /* of text */

/* What lay_out measures, from top to bottom, and the names of its numbers:
 *
 *     EDGE      left                    right   width
 *     title (y 24), subtitle (42), rows of the legend (legend_y …), label of the y axis (label_y)
 *     top       +------------------------+
 *     ticks of  |  marks                 |             left is EDGE + the widest of the ticks + 8
 *     the y axis|                        |
 *     bottom    +------------------------+
 *               ticks of the x axis, their dates, its label                       height
 *
 * A figure is ctr_svg_begin, marks in the units of the axes, such as ctr_svg_line(g, 0, x, y, n), and ctr_svg_end. Each
 * writes its element at once: what comes later lies above. */

/* ---- texts ---- */

/* What stands for the character at `text`, whose bytes are *n then; NULL: itself. XML has no U+FFFE and U+FFFF. */
static const char *escaped(const char *text, size_t left, size_t *n)
{
    static const char *const code[128] = { ['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;" };
    *n = 1;
    if (!((uint8_t)*text & 0x80))
        return code[(uint8_t)*text];
    if (left < 3 || (memcmp(text, "\xef\xbf\xbe", 3) != 0 && memcmp(text, "\xef\xbf\xbf", 3) != 0))
        return NULL;
    *n = 3;
    return "\xef\xbf\xbd";
}

int ctr_svg_escape(struct ctr_buf *out, const char *text, size_t n, struct ctr_err *err)
{
    struct ctr_buf plain = { 0 };
    int rc = 0;
    if (!ctr_text_is_plain(text, n)) {
        rc = ctr_buf_quote(&plain, text, n, err);
        text = (const char *)plain.data;
        n = plain.len;
    }
    for (size_t i = 0, from = 0, bytes = 1; !rc && i <= n; i += bytes) {
        const char *c = i < n ? escaped(text + i, n - i, &bytes) : NULL;
        if (i < n && !c)
            continue;
        rc = ctr_buf_append(out, text + from, i - from, err);
        if (!rc && c)
            rc = ctr_buf_append(out, c, strlen(c), err);
        from = i + bytes;
    }
    ctr_buf_free(&plain);
    return rc;
}

static void put(struct ctr_svg *g, const char *fmt, ...) CTR_PRINTF(2, 3);
static void put(struct ctr_svg *g, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!g->rc)
        g->rc = ctr_buf_vprintf(g->out, g->err, fmt, ap);
    va_end(ap);
}

static void put_text(struct ctr_svg *g, const char *text)
{
    if (!g->rc)
        g->rc = ctr_svg_escape(g->out, text, strlen(text), g->err);
}

/* A number with at most two decimals. */
struct number {
    char s[40];
};
static struct number number(double v)
{
    struct number t;
    int n = snprintf(t.s, sizeof t.s, "%.2f", fabs(v) < .005 ? 0 : v);
    while (t.s[n - 1] == '0')
        t.s[--n] = 0;
    if (t.s[n - 1] == '.')
        t.s[n - 1] = 0;
    return t;
}

static int text_columns(const char *text)
{
    return ctr_columns(text, strlen(text));
}

/* A text at a place of the document; what is wider than `most` columns is cut, and is whole in its tip. */
static void put_label(struct ctr_svg *g, double x, double y, const char *class, const char *anchor, const char *text,
                      int most)
{
    const size_t n = strlen(text);
    const bool cut = text_columns(text) > most;
    const size_t keep = cut ? ctr_columns_cut(text, n, most - 1) : n;
    put(g, "<text class=\"ctr-t%s%s\" x=\"%s\" y=\"%s\"", *class ? " " : "", class, number(x).s, number(y).s);
    if (strcmp(anchor, "start") != 0)
        put(g, " text-anchor=\"%s\"", anchor);
    put(g, ">");
    if (cut) {
        put(g, "<title>");
        put_text(g, text);
        put(g, "</title>");
    }
    if (!g->rc)
        g->rc = ctr_svg_escape(g->out, text, keep, g->err);
    put(g, "%s</text>\n", cut ? CTR_CUT : "");
}

/* ---- the frame ---- */

struct frame {
    const struct ctr_figure *f;
    struct ctr_ticks x, y;
    double legend_y; /* baseline of its first row */
    double label_y;  /* of the label of the y axis */
    double height;
    int rows; /* of the legend */
};

static double legend_width(const char *name)
{
    return 26 + column * CTR_MIN(text_columns(name), LEGEND_COLUMNS) + 14;
}

/* Where the entries of the legend are; draws them, or counts its rows. */
static int legend(struct ctr_svg *g, const struct frame *l, bool draw)
{
    double x = EDGE, y = l->legend_y;
    int rows = l->f->nlegend > 0;
    for (int i = 0; i < l->f->nlegend; i++) {
        const double width = legend_width(l->f->legend[i]);
        if (x > EDGE && x + width > g->width) {
            x = EDGE;
            y += 18;
            rows++;
        }
        if (draw) {
            const int c = i % CTR_SVG_COLOURS;
            put(g, "<rect class=\"ctr-f%d\" x=\"%s\" y=\"%s\" width=\"10\" height=\"10\"/>", c, number(x).s,
                number(y - 10).s);
            put(g, "<path class=\"ctr-line ctr-l%d\" d=\"M%s %sh12\"/>", c, number(x + 10).s, number(y - 5).s);
            put_label(g, x + 26, y, "", "start", l->f->legend[i], LEGEND_COLUMNS);
        }
        x += width;
    }
    return rows;
}

static double widest(const struct ctr_axis *a, const struct ctr_ticks *t)
{
    int most = 0;
    for (int i = 0; i < t->n; i++)
        most = CTR_MAX(most, text_columns(t->text[i]));
    for (int i = 0; a->kind == CTR_AXIS_NAMES && i < (int)a->high; i++)
        most = CTR_MAX(most, CTR_MIN(text_columns(a->names[i]), NAME_COLUMNS));
    return most * column;
}

static void lay_out(struct ctr_svg *g, struct frame *l)
{
    const struct ctr_figure *f = l->f;
    const bool names = g->y.kind == CTR_AXIS_NAMES;
    ctr_axis_settle(&g->y, 6, &l->y);
    g->left = EDGE + widest(&g->y, &l->y) + 8;
    const bool time = g->x.kind == CTR_AXIS_TIME;
    g->right = g->width - (time ? 36 : 22);
    ctr_axis_settle(&g->x, (int)((g->right - g->left) / (time ? 80 : 60)), &l->x);
    double y = 22;
    if (f->subtitle)
        y += 19;
    l->legend_y = y + 22;
    l->rows = legend(g, l, false);
    if (l->rows)
        y += 6 + 18 * l->rows;
    l->label_y = y + 22;
    if (g->y.label && *g->y.label)
        y += 22;
    g->top = y + 13;
    const double below = 20 + (l->x.dated ? 15 : 0) + (g->x.label && *g->x.label ? 19 : 0) + 8;
    l->height = names ? g->top + CTR_MAX(1, g->y.high) * ROW + below : f->height ? f->height : HEIGHT;
    g->height = (int)ceil(l->height);
    g->bottom = g->height - below;
}

static void put_axes(struct ctr_svg *g, const struct frame *l)
{
    for (int i = 0; i < l->y.n; i++) {
        const double y = ctr_svg_y(g, l->y.at[i]);
        put(g, "<path class=\"ctr-g\" d=\"M%s %sH%s\"/>", number(g->left).s, number(y).s, number(g->right).s);
        put_label(g, g->left - 6, y + 4, "ctr-y", "end", l->y.text[i], 40);
    }
    for (int i = 0; i < l->x.n; i++) {
        const double x = ctr_svg_x(g, l->x.at[i]);
        put(g, "<path class=\"ctr-%c\" d=\"M%s %sV%s\"/>", g->y.kind == CTR_AXIS_NAMES ? 'g' : 'a', number(x).s,
            number(g->y.kind == CTR_AXIS_NAMES ? g->top : g->bottom).s, number(g->bottom + 4).s);
        put_label(g, x, g->bottom + 17, "ctr-x", "middle", l->x.text[i], 40);
        if (*l->x.below[i])
            put_label(g, x, g->bottom + 32, "ctr-m", "middle", l->x.below[i], 40);
    }
    for (int i = 0; g->y.kind == CTR_AXIS_NAMES && i < (int)g->y.high; i++)
        put_label(g, g->left - 6, ctr_svg_y(g, i + .5) + 4, "", "end", g->y.names[i], NAME_COLUMNS);
    if (g->x.label && *g->x.label) {
        const double half = text_columns(g->x.label) * column / 2; /* it stays in the figure */
        const double middle = CTR_MAX(g->width / 2.0, CTR_MIN((g->left + g->right) / 2, g->width - EDGE - half));
        put_label(g, middle, g->height - 9, "ctr-m", "middle", g->x.label, TITLE_COLUMNS);
    }
    if (g->y.label && *g->y.label)
        put_label(g, EDGE, l->label_y, "ctr-m", "start", g->y.label, TITLE_COLUMNS);
}

static void put_head(struct ctr_svg *g, const struct frame *l)
{
    const struct ctr_figure *f = l->f;
    const char *title = f->title ? f->title : "";
    put(g,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ctr-plot\" role=\"img\" width=\"%d\" height=\"%d\" "
        "viewBox=\"0 0 %d %d\">\n<title>",
        g->width, g->height, g->width, g->height);
    put_text(g, title);
    put(g, "</title>\n");
    if (f->summary || f->subtitle) {
        put(g, "<desc>");
        put_text(g, f->summary ? f->summary : f->subtitle);
        put(g, "</desc>\n");
    }
    if (!f->no_style)
        put(g, "<style>%s</style>\n", ctr_svg_style);
    put(g, "<rect class=\"ctr-bg\" width=\"%d\" height=\"%d\"/>\n", g->width, g->height);
    put_label(g, EDGE, 24, "ctr-h", "start", title, TITLE_COLUMNS * 4 / 5);
    if (f->subtitle)
        put_label(g, EDGE, 42, "ctr-m", "start", f->subtitle, g->width / 7);
}

void ctr_svg_begin(struct ctr_svg *g, const struct ctr_figure *f, struct ctr_buf *out, struct ctr_err *err)
{
    struct frame l = { .f = f };
    *g = (struct ctr_svg){ .out = out, .err = err, .width = f->width ? f->width : WIDTH, .x = f->x, .y = f->y };
    lay_out(g, &l);
    put_head(g, &l);
    if (f->message) {
        put_label(g, g->width / 2.0, (g->top + g->bottom) / 2, "ctr-n ctr-m", "middle", f->message, TITLE_COLUMNS);
        return;
    }
    legend(g, &l, true);
    put_axes(g, &l);
}

int ctr_svg_end(struct ctr_svg *g)
{
    const bool names = g->y.kind == CTR_AXIS_NAMES;
    if (g->right > g->left) { /* the axis stands before the marks that begin at it */
        const double zero = names && g->x.low < 0 && g->x.high > 0 ? ctr_svg_x(g, 0) : g->left;
        if (names)
            put(g, "<path class=\"ctr-a\" d=\"M%s %sV%s\"/>\n", number(zero).s, number(g->top).s, number(g->bottom).s);
        else
            put(g, "<path class=\"ctr-a\" d=\"M%s %sH%s\"/>\n", number(g->left).s, number(g->bottom).s,
                number(g->right).s);
    }
    put(g, "</svg>\n");
    return g->rc;
}

/* ---- marks ---- */

static double place(const struct ctr_axis *a, double v, double from, double to)
{
    const double scale = isinf(a->high - a->low) ? .5 : 1; /* of ends near the largest number */
    const double low = scale * a->low, at = scale * CTR_MIN(CTR_MAX(v, a->low), a->high);
    const double share = (at - low) / (scale * a->high - low);
    return from + share * (to - from);
}

double ctr_svg_x(const struct ctr_svg *g, double x)
{
    return place(&g->x, x, g->left, g->right);
}

double ctr_svg_y(const struct ctr_svg *g, double y)
{
    if (g->y.kind == CTR_AXIS_NAMES)
        return place(&g->y, y, g->top, g->bottom);
    return place(&g->y, y, g->bottom, g->top);
}

static bool there(double x, double y)
{
    return !isnan(x) && !isnan(y);
}

static int colour(int series)
{
    return series % CTR_SVG_COLOURS;
}

void ctr_svg_line(struct ctr_svg *g, int series, const double *x, const double *y, int64_t n)
{
    bool open = false;
    put(g, "<path class=\"ctr-line ctr-l%d\" d=\"", colour(series));
    for (int64_t i = 0; i < n; i++) {
        if (there(x[i], y[i]))
            put(g, "%c%s %s", open ? 'L' : 'M', number(ctr_svg_x(g, x[i])).s, number(ctr_svg_y(g, y[i])).s);
        open = there(x[i], y[i]);
    }
    put(g, "\"/>\n");
}

void ctr_svg_steps(struct ctr_svg *g, int series, const double *x, const double *y, int64_t n)
{
    bool open = false;
    put(g, "<path class=\"ctr-line ctr-l%d\" d=\"", colour(series));
    for (int64_t i = 0; i < n; i++) {
        if (!there(x[i], y[i])) {
            open = false;
            continue;
        }
        const struct number across = number(ctr_svg_x(g, x[i])), up = number(ctr_svg_y(g, y[i]));
        if (open)
            put(g, "V%sH%s", up.s, across.s);
        else
            put(g, "M%s %s", across.s, up.s);
        open = true;
    }
    put(g, "\"/>\n");
}

void ctr_svg_band(struct ctr_svg *g, int series, const double *x, const double *low, const double *high, int64_t n)
{
    put(g, "<path class=\"ctr-band ctr-f%d\" d=\"", colour(series));
    for (int64_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && there(low[end], high[end]); end++)
            put(g, "%c%s %s", end > i ? 'L' : 'M', number(ctr_svg_x(g, x[end])).s, number(ctr_svg_y(g, low[end])).s);
        for (int64_t k = end; k-- > i;)
            put(g, "L%s %s", number(ctr_svg_x(g, x[k])).s, number(ctr_svg_y(g, high[k])).s);
        if (end > i)
            put(g, "Z");
    }
    put(g, "\"/>\n");
}

static void put_tip(struct ctr_svg *g, const char *shape, const char *tip)
{
    if (!tip) {
        put(g, "/>\n");
        return;
    }
    put(g, "><title>");
    put_text(g, tip);
    put(g, "</title></%s>\n", shape);
}

void ctr_svg_dot(struct ctr_svg *g, int series, double x, double y, double low, double high, const char *tip)
{
    if (!there(x, y))
        return;
    if (there(low, high))
        put(g, "<path class=\"ctr-l%d\" d=\"M%s %sV%s\"/>", colour(series), number(ctr_svg_x(g, x)).s,
            number(ctr_svg_y(g, low)).s, number(ctr_svg_y(g, high)).s);
    put(g, "<circle class=\"ctr-f%d\" cx=\"%s\" cy=\"%s\" r=\"3.2\"", colour(series), number(ctr_svg_x(g, x)).s,
        number(ctr_svg_y(g, y)).s);
    put_tip(g, "circle", tip);
}

void ctr_svg_bar(struct ctr_svg *g, int series, double x0, double x1, double y0, double y1, bool faint, const char *tip)
{
    if (!there(x0, y0) || !there(x1, y1))
        return;
    const double left = ctr_svg_x(g, CTR_MIN(x0, x1)), right = ctr_svg_x(g, CTR_MAX(x0, x1));
    const double a = ctr_svg_y(g, y0), b = ctr_svg_y(g, y1);
    put(g, "<rect class=\"ctr-f%d%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"", colour(series),
        faint ? " ctr-faint" : "", number(left).s, number(CTR_MIN(a, b)).s, number(right - left).s,
        number(fabs(a - b)).s);
    put_tip(g, "rect", tip);
}

static void put_straight(struct ctr_svg *g, char class, double x0, double y0, double x1, double y1)
{
    if (there(x0, y0) && there(x1, y1))
        put(g, "<path class=\"ctr-%c\" d=\"M%s %sL%s %s\"/>\n", class, number(ctr_svg_x(g, x0)).s,
            number(ctr_svg_y(g, y0)).s, number(ctr_svg_x(g, x1)).s, number(ctr_svg_y(g, y1)).s);
}

void ctr_svg_whisker(struct ctr_svg *g, double x0, double x1, double y0, double y1)
{
    put_straight(g, 'w', x0, y0, x1, y1);
}

void ctr_svg_rule(struct ctr_svg *g, double x0, double y0, double x1, double y1)
{
    put_straight(g, 'r', x0, y0, x1, y1);
}
