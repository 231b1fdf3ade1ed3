/* SPDX-License-Identifier: Apache-2.0
 *
 * time: converts points in time to and from text: the proleptic Gregorian calendar in UTC, independent of locale and
 * time zone.
 */
#include "common/base/base.h"
#include "common/base/timebody.h"

#include <time.h>

#define DAY_MS OPV_DAY_MS

int64_t ctr_time_civil(int year, int month, int day, int hour, int minute, int second, int ms)
{
    return opv_days_from_civil(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * (int64_t)1000 + ms;
}

static char *put_padded(char *p, int v, int digits)
{
    for (int i = digits; i-- > 0; v /= 10)
        p[i] = (char)('0' + v % 10);
    return p + digits;
}

#define FIRST_DAY INT64_C(-719528) /* 0000-01-01 */
#define LAST_DAY  INT64_C(2932896) /* 9999-12-31 */

size_t ctr_time_iso(char *out, int64_t ms)
{
    const int64_t days = opv_day_of(ms), rest = opv_ms_of_day(ms);
    const int second = (int)(rest / 1000), milli = (int)(rest % 1000);
    const struct opv_date date = opv_date_of(days);
    int y = (int)date.year;
    char *p = out;
    int digits = 4;
    if (days < FIRST_DAY || days > LAST_DAY) { /* ISO's expanded years */
        *p++ = y < 0 ? '-' : '+';
        y = y < 0 ? -y : y;
        for (digits = 6; digits < 9 && y >= (digits == 6 ? 1000000 : digits == 7 ? 10000000 : 100000000);)
            digits++;
    }
    p = put_padded(p, y, digits);
    *p++ = '-';
    p = put_padded(p, date.month, 2);
    *p++ = '-';
    p = put_padded(p, date.day, 2);
    *p++ = 'T';
    p = put_padded(p, second / 3600, 2);
    *p++ = ':';
    p = put_padded(p, second / 60 % 60, 2);
    *p++ = ':';
    p = put_padded(p, second % 60, 2);
    if (milli) {
        *p++ = '.';
        p = put_padded(p, milli, 3);
    }
    *p++ = 'Z';
    return (size_t)(p - out);
}

/* ---- reading ---- */

static bool has_text(int64_t ms)
{
    return ms >= FIRST_DAY * DAY_MS && ms < (LAST_DAY + 1) * DAY_MS;
}

/* Microseconds (per_ms 1000) or nanoseconds since 1970, rounded down to milliseconds. */
static bool parse_fine_epoch(const char *p, size_t n, int64_t per_ms, int64_t *ms, bool *cut)
{
    int64_t t;
    if (!ctr_parse_i64(p, n, &t))
        return false;
    *ms = t / per_ms - (t % per_ms < 0);
    *cut = t % per_ms != 0;
    return has_text(*ms);
}

/* Seconds (scale 1000) or milliseconds (scale 1) since 1970, with an optional fraction, rounded down to
 * milliseconds. */
static bool parse_epoch(const char *p, size_t n, int64_t scale, int64_t *ms, bool *cut)
{
    const char *point = memchr(p, '.', n);
    size_t whole = point ? (size_t)(point - p) : n;
    bool neg = n && *p == '-';
    struct opv_civil t = { 0 }; /* of which the fraction is used */
    int64_t s;
    if (!ctr_parse_i64(p, whole, &s) || __builtin_mul_overflow(s, scale, &s))
        return false;
    if (point) {
        struct opv_cursor c = { (const uint8_t *)point + 1, (const uint8_t *)p + n };
        if ((c.p < c.end && !opv_take_fraction(&c, &t)) || c.p != c.end)
            return false;
        if (scale == 1) { /* all of it is below a millisecond */
            t.finer |= t.ms != 0;
            t.ms = 0;
        }
    }
    *cut = t.finer;
    /* milliseconds read as seconds would be in the year 49000 */
    return !__builtin_add_overflow(s, neg ? -t.ms - t.finer : t.ms, ms) && has_text(*ms);
}

static const struct {
    const char *name;
    bool (*parse)(const char *p, size_t n, int64_t unit, int64_t *ms, bool *cut);
    int64_t unit;
} epochs[] = { { "unix", parse_epoch, 1000 },
               { "unix_ms", parse_epoch, 1 },
               { "unix_us", parse_fine_epoch, 1000 },
               { "unix_ns", parse_fine_epoch, 1000000 } };

bool ctr_time_format_valid(const char *format)
{
    int fields = 0;
    for (size_t i = 0; i < CTR_COUNT(epochs); i++)
        if (!strcmp(format, epochs[i].name))
            return true;
    for (const char *f = format; *f; f++) {
        if (*f != '%')
            continue;
        if (!*++f || !strchr(OPV_TIME_READ, *f))
            return false;
        fields += *f != '%';
    }
    return fields > 0;
}

bool ctr_time_parse_cut(const char *format, const char *p, size_t n, int64_t *ms, bool *cut)
{
    const uint8_t *text = (const uint8_t *)p, *f = (const uint8_t *)format;
    struct opv_civil t;
    for (size_t i = 0; format && i < CTR_COUNT(epochs); i++)
        if (!strcmp(format, epochs[i].name))
            return epochs[i].parse(p, n, epochs[i].unit, ms, cut);
    if (!(f ? opv_civil_parse(f, (int64_t)strlen(format), text, (int64_t)n, &t) : opv_civil_iso(text, (int64_t)n, &t)))
        return false;
    *cut = t.finer;
    return opv_civil_ms(&t, ms);
}

bool ctr_time_parse(const char *format, const char *p, size_t n, int64_t *ms)
{
    bool cut;
    return ctr_time_parse_cut(format, p, n, ms, &cut);
}

int64_t ctr_clock_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

int64_t ctr_clock_ms(void)
{
    return ctr_clock_ns() / 1000000;
}
