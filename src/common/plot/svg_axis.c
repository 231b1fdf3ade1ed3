/* SPDX-License-Identifier: Apache-2.0
 *
 * Ticks of axes. A tick is a whole number times a step; it is computed with one rounding, so that 3 times 0.1 is 0.3.
 */
#include "common/plot/svg_axis.h"

#include <math.h>
#include <stdio.h>

static double power10(int k)
{
    double p = 1;
    for (int i = 0; i < k; i++)
        p *= 10;
    return p;
}

/* whole * 10^k */
static double scaled(double whole, int k)
{
    return k >= 0 ? whole * power10(k) : whole / power10(-k);
}

/* A step of m * 10^k. */
struct step {
    int m, k;
};

static struct step step_of(double low, double high, int want)
{
    const double least = high / want - low / want;
    struct step s = { 1, 0 };
    while (s.k < 300 && scaled(1, s.k + 1) <= least)
        s.k++;
    while (s.k > -300 && scaled(1, s.k) > least)
        s.k--;
    static const int m[] = { 1, 2, 5 };
    for (size_t i = 0; i < CTR_COUNT(m); i++) {
        s.m = m[i];
        if (scaled(m[i], s.k) >= least)
            return s;
    }
    return (struct step){ 1, s.k + 1 };
}

/* ---- numbers ---- */

static void number_text(char *out, size_t size, double whole, int k, double most, bool percent)
{
    static const struct {
        double from;
        int power;
        const char *sign;
    } unit[] = { { 1e12, -1, "" }, { 1e9, 9, "G" }, { 1e6, 6, "M" }, { 1e4, 3, "k" }, { 1e-4, 0, "" }, { 0, -1, "" } };
    size_t u = 0;
    while (most < unit[u].from)
        u++;
    if (percent)
        snprintf(out, size, "%.*f%%", CTR_MAX(0, -(k + 2)), scaled(whole, k + 2));
    else if (unit[u].power < 0 || whole == 0)
        snprintf(out, size, "%.10g", scaled(whole, k));
    else
        snprintf(out, size, "%.*f%s", CTR_MAX(0, unit[u].power - k), scaled(whole, k - unit[u].power), unit[u].sign);
}

static void number_ticks(struct ctr_axis *a, int want, struct ctr_ticks *t)
{
    const struct step s = step_of(a->low, a->high, want);
    const double size = scaled(s.m, s.k), near = 1e-9;
    double first = ceil(a->low / size - near) + 0.0, last = floor(a->high / size + near);
    if (!a->exact) {
        first = floor(a->low / size + near) + 0.0; /* 0 and not -0 */
        last = ceil(a->high / size - near);
        a->low = CTR_MIN(a->low, scaled(first * s.m, s.k));
        a->high = CTR_MAX(a->high, scaled(last * s.m, s.k));
    }
    const double most = fmax(fabs(a->low), fabs(a->high));
    for (double i = first; i <= last && t->n < CTR_TICKS; i++, t->n++) {
        t->at[t->n] = scaled(i * s.m, s.k);
        number_text(t->text[t->n], sizeof t->text[0], i * s.m, s.k, most, a->kind == CTR_AXIS_PERCENT);
    }
}

/* ---- times ---- */

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
static const int64_t durations[] = { 1,           2,           5,           10,      20,         50,
                                     100,         200,         500,         SECOND,  2 * SECOND, 5 * SECOND,
                                     10 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE,  2 * MINUTE, 5 * MINUTE,
                                     10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR,    2 * HOUR,   3 * HOUR,
                                     6 * HOUR,    12 * HOUR,   DAY,         2 * DAY, 7 * DAY,    14 * DAY };
static const int months[] = { 1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000, 24000, 60000, 120000 };

static int64_t divide_down(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* "2026-01-05T09:30:00.250Z": the parts that tell the ticks of such a step apart. */
static void time_text(struct ctr_ticks *t, int64_t ms, int64_t step, char *last_date)
{
    char iso[CTR_NUM_MAX + 8] = "";
    const size_t n = ctr_time_iso(iso, ms), date = (size_t)((const char *)memchr(iso, 'T', n) - iso);
    char *text = t->text[t->n], *below = t->below[t->n];
    t->at[t->n] = (double)ms;
    if (step >= DAY) {
        snprintf(text, sizeof t->text[0], "%.*s", (int)date, iso);
        t->n++;
        return;
    }
    const int digits = step >= MINUTE ? 5 : step >= SECOND ? 8 : 12;
    snprintf(text, sizeof t->text[0], "%.*s%s", CTR_MIN(digits, (int)(n - date - 2)), iso + date + 1,
             digits == 12 && ms % SECOND == 0 ? ".000" : "");
    if (strncmp(last_date, iso, date) != 0 && date < sizeof t->below[0]) {
        snprintf(below, sizeof t->below[0], "%.*s", (int)date, iso);
        memcpy(last_date, below, sizeof t->below[0]);
        t->dated = true;
    }
    t->n++;
}

static void month_ticks(const struct ctr_axis *a, int want, struct ctr_ticks *t)
{
    char iso[CTR_NUM_MAX + 8] = "";
    int year = 0, month = 0;
    size_t s = 0;
    const double span = (a->high - a->low) / (30.4 * DAY);
    while (s + 1 < CTR_COUNT(months) && span / months[s] > want)
        s++;
    ctr_time_iso(iso, (int64_t)a->low);
    sscanf(iso, "%d-%d", &year, &month);
    int64_t at = divide_down((int64_t)year * 12 + month - 1, months[s]) * months[s];
    for (; t->n < CTR_TICKS; at += months[s]) {
        const int64_t y = divide_down(at, 12);
        const int64_t ms = ctr_time_civil((int)y, (int)(at - y * 12) + 1, 1, 0, 0, 0, 0);
        if ((double)ms > a->high)
            break;
        if ((double)ms < a->low)
            continue;
        const size_t n = ctr_time_iso(iso, ms), date = (size_t)((const char *)memchr(iso, 'T', n) - iso);
        t->at[t->n] = (double)ms;
        snprintf(t->text[t->n++], sizeof t->text[0], "%.*s", (int)(date - (months[s] < 12 ? 3 : 6)), iso);
    }
}

static void time_ticks(const struct ctr_axis *a, int want, struct ctr_ticks *t)
{
    char last_date[16] = "";
    size_t s = 0;
    while (s < CTR_COUNT(durations) && (a->high - a->low) / (double)durations[s] > want)
        s++;
    if (s == CTR_COUNT(durations)) {
        month_ticks(a, want, t);
        return;
    }
    const int64_t step = durations[s], monday = step >= 7 * DAY ? 4 * DAY : 0;
    int64_t at = (divide_down((int64_t)a->low - monday, step)) * step + monday;
    for (; (double)at <= a->high && t->n < CTR_TICKS; at += step)
        if ((double)at >= a->low)
            time_text(t, at, step, last_date);
}

/* ---- both ---- */

/* Ends between which nothing could be told apart. */
static void move_apart(struct ctr_axis *a)
{
    if (!isfinite(a->low) || !isfinite(a->high) || a->high < a->low) { /* of data that overflowed */
        a->low = 0;
        a->high = 1;
    }
    const double most = fmax(fabs(a->low), fabs(a->high));
    if (a->high - a->low > most * 1e-9)
        return;
    const double by = a->kind == CTR_AXIS_TIME ? HOUR : most > 0 ? most / 10 : 1;
    const bool from_zero = a->low >= 0 && a->kind != CTR_AXIS_TIME;
    a->low = from_zero ? fmax(0, a->low - by) : a->low - by;
    a->high += by;
}

void ctr_axis_settle(struct ctr_axis *a, int want, struct ctr_ticks *t)
{
    memset(t, 0, sizeof *t);
    if (a->kind == CTR_AXIS_NAMES)
        return;
    move_apart(a);
    if (a->kind == CTR_AXIS_TIME)
        time_ticks(a, want, t);
    else
        number_ticks(a, want, t);
}
