/* SPDX-License-Identifier: Apache-2.0
 *
 * time: converts points in time to and from text: the proleptic Gregorian calendar in UTC, independent of locale and
 * time zone.
 */
#include "common/base/base.h"

#include <strings.h>
#include <time.h>

#define DAY_MS 86400000

/* Days since 1970-01-01: years are counted from March, so that the leap day comes last, in cycles of 400. */
static int64_t days_from_civil(int y, int m, int d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year = y - era * 400, day = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + year * 365 + year / 4 - year / 100 + day - 719468;
}

static void civil_from_days(int64_t days, int *y, int *m, int *d)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day = days - era * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t in_year = day - (365 * year + year / 4 - year / 100), month = (5 * in_year + 2) / 153;
    *d = (int)(in_year - (153 * month + 2) / 5 + 1);
    *m = (int)(month < 10 ? month + 3 : month - 9);
    *y = (int)(year + era * 400 + (*m <= 2));
}

int64_t ctr_time_civil(int year, int month, int day, int hour, int minute, int second, int ms)
{
    return days_from_civil(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * (int64_t)1000 + ms;
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
    int64_t days = ms / DAY_MS, rest = ms % DAY_MS;
    if (rest < 0)
        days--, rest += DAY_MS;
    int y, m, d, second = (int)(rest / 1000), milli = (int)(rest % 1000);
    civil_from_days(days, &y, &m, &d);
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
    p = put_padded(p, m, 2);
    *p++ = '-';
    p = put_padded(p, d, 2);
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

struct cursor {
    const char *p, *end;
};

struct civil {
    int year, month, day, hour, minute, second, ms;
    int pm;       /* 1 am, 2 pm, 0 not given */
    int offset_m; /* minutes east of UTC */
    bool hour12;
};

/* min..max digits */
static bool take_int(struct cursor *c, int min, int max, int *v)
{
    int n = 0, x = 0;
    while (n < max && c->p < c->end && *c->p >= '0' && *c->p <= '9')
        x = x * 10 + (*c->p++ - '0'), n++;
    *v = x;
    return n >= min;
}

static bool take_char(struct cursor *c, char ch)
{
    return c->p < c->end && *c->p == ch ? c->p++, true : false;
}

/* Digits of a fraction of a second, truncated to milliseconds. */
static bool take_fraction(struct cursor *c, int *ms)
{
    int n = 0, x = 0;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++, n++)
        if (n < 3)
            x = x * 10 + (*c->p - '0');
    for (int i = n; i < 3; i++)
        x *= 10;
    *ms = x;
    return n > 0;
}

/* Z, +01, +0100, +01:00 */
static bool take_zone(struct cursor *c, int *offset_m)
{
    int h, m = 0;
    *offset_m = 0;
    if (take_char(c, 'Z') || take_char(c, 'z'))
        return true;
    bool neg = c->p < c->end && *c->p == '-';
    if (!neg && (c->p >= c->end || *c->p != '+'))
        return false;
    c->p++;
    if (!take_int(c, 2, 2, &h))
        return false;
    bool colon = take_char(c, ':');
    if ((colon || (c->p < c->end && *c->p >= '0' && *c->p <= '9')) && !take_int(c, 2, 2, &m))
        return false;
    *offset_m = neg ? -(h * 60 + m) : h * 60 + m;
    return h < 24 && m < 60;
}

static bool finish(const struct civil *t, int64_t *ms)
{
    static const uint8_t month_days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = t->year % 4 == 0 && (t->year % 100 != 0 || t->year % 400 == 0);
    if (t->month < 1 || t->month > 12 || t->day < 1 || t->day > month_days[t->month - 1] ||
        (t->month == 2 && t->day == 29 && !leap))
        return false;
    int hour = t->hour;
    if (t->pm || t->hour12) {
        if (hour < 1 || hour > 12)
            return false;
        hour = hour % 12 + (t->pm == 2 ? 12 : 0);
    }
    if (hour > 23 || t->minute > 59 || t->second > 60)
        return false;
    /* computed so that the last days of int64 do not overflow */
    int64_t days = days_from_civil(t->year, t->month, t->day), back = days < 0 ? DAY_MS : 0;
    int64_t rest = ctr_time_civil(1970, 1, 1, hour, t->minute, t->second, t->ms) - (int64_t)t->offset_m * 60000 - back;
    return !__builtin_mul_overflow(days + (back != 0), (int64_t)DAY_MS, ms) && !__builtin_add_overflow(*ms, rest, ms);
}

/* A year of four digits, or one with a sign and five to nine digits. */
static bool take_iso_year(struct cursor *c, int *year)
{
    const bool neg = take_char(c, '-');
    if (!neg && !take_char(c, '+'))
        return take_int(c, 4, 4, year);
    if (!take_int(c, 5, 9, year) || (neg && !*year))
        return false;
    *year = neg ? -*year : *year;
    return true;
}

/* YYYY-MM-DD[(T| )H[H]:MM[:SS[(.|,)fraction]][ ][zone]]; slashes may replace hyphens. */
static bool parse_iso(struct cursor *c, int64_t *ms)
{
    struct civil t = { 0 };
    if (!take_iso_year(c, &t.year))
        return false;
    char sep = c->p < c->end ? *c->p : 0;
    if ((sep != '-' && sep != '/') || !take_char(c, sep) || !take_int(c, 1, 2, &t.month) || !take_char(c, sep) ||
        !take_int(c, 1, 2, &t.day))
        return false;
    if (c->p < c->end) {
        if (!take_char(c, 'T') && !take_char(c, 't') && !take_char(c, ' '))
            return false;
        if (!take_int(c, 1, 2, &t.hour) || !take_char(c, ':') || !take_int(c, 2, 2, &t.minute))
            return false;
        if (take_char(c, ':') &&
            (!take_int(c, 2, 2, &t.second) || ((take_char(c, '.') || take_char(c, ',')) && !take_fraction(c, &t.ms))))
            return false;
        bool blank = take_char(c, ' ');
        if ((blank || c->p < c->end) && !take_zone(c, &t.offset_m))
            return false;
    }
    return c->p == c->end && finish(&t, ms);
}

static bool has_text(int64_t ms)
{
    return ms >= FIRST_DAY * DAY_MS && ms < (LAST_DAY + 1) * DAY_MS;
}

/* Microseconds (per_ms 1000) or nanoseconds since 1970, rounded down to milliseconds. */
static bool parse_fine_epoch(const char *p, size_t n, int64_t per_ms, int64_t *ms)
{
    int64_t t;
    if (!ctr_parse_i64(p, n, &t))
        return false;
    *ms = t / per_ms - (t % per_ms < 0);
    return has_text(*ms);
}

/* Seconds (scale 1000) or milliseconds (scale 1) since 1970, with an optional fraction, rounded down to
 * milliseconds. */
static bool parse_epoch(const char *p, size_t n, int64_t scale, int64_t *ms)
{
    const char *point = memchr(p, '.', n);
    size_t whole = point ? (size_t)(point - p) : n;
    bool neg = n && *p == '-';
    int64_t s;
    int frac = 0, finer = 0;
    if (!ctr_parse_i64(p, whole, &s) || __builtin_mul_overflow(s, scale, &s))
        return false;
    if (point) {
        struct cursor c = { point + 1, p + n };
        if ((c.p < c.end && !take_fraction(&c, &frac)) || c.p != c.end)
            return false;
        if (scale == 1)
            frac = 0;
        for (const char *d = point + 1 + (scale == 1 ? 0 : 3); d < p + n; d++)
            finer |= *d != '0';
    }
    /* milliseconds read as seconds would be in the year 49000 */
    return !__builtin_add_overflow(s, neg ? -frac - finer : frac, ms) && has_text(*ms);
}

static bool take_name(struct cursor *c, int *month)
{
    static const char *const names[] = { "january", "february", "march",     "april",   "may",      "june",
                                         "july",    "august",   "september", "october", "november", "december" };
    for (int i = 0; i < 12; i++) {
        size_t len = strlen(names[i]), left = (size_t)(c->end - c->p), n = 3;
        if (left < 3 || strncasecmp(c->p, names[i], 3))
            continue;
        if (left >= len && !strncasecmp(c->p, names[i], len))
            n = len;
        c->p += n;
        *month = i + 1;
        return true;
    }
    return false;
}

static bool take_year(struct cursor *c, int *year)
{
    return take_int(c, 4, 4, year);
}

static bool take_short_year(struct cursor *c, int *year)
{
    bool ok = take_int(c, 1, 2, year);
    *year += *year < 69 ? 2000 : 1900; /* as in POSIX */
    return ok;
}

static bool take_two(struct cursor *c, int *v)
{
    return take_int(c, 1, 2, v);
}

static bool take_am_pm(struct cursor *c, int *pm)
{
    if (c->end - c->p < 2 || (c->p[1] | 32) != 'm' || ((c->p[0] | 32) != 'a' && (c->p[0] | 32) != 'p'))
        return false;
    *pm = (c->p[0] | 32) == 'p' ? 2 : 1;
    c->p += 2;
    return true;
}

static bool take_percent(struct cursor *c, int *none)
{
    (void)none;
    return take_char(c, '%');
}

/* The conversions of a format, by letter: the function that reads it, and the destination. */
#define TO(field) offsetof(struct civil, field)
static const struct conversion {
    bool (*take)(struct cursor *c, int *to);
    size_t to;
    bool hour12;   /* it selects the twelve-hour clock */
    bool fraction; /* a fraction of a second may follow */
} conversions['z' + 1] = {
    ['Y'] = { take_year, TO(year) },
    ['y'] = { take_short_year, TO(year) },
    ['m'] = { take_two, TO(month) },
    ['b'] = { take_name, TO(month) },
    ['B'] = { take_name, TO(month) },
    ['d'] = { take_two, TO(day) },
    ['H'] = { take_two, TO(hour) },
    ['I'] = { take_two, TO(hour), .hour12 = true },
    ['p'] = { take_am_pm, TO(pm) },
    ['M'] = { take_two, TO(minute) },
    ['S'] = { take_two, TO(second), .fraction = true },
    ['f'] = { take_fraction, TO(ms) },
    ['z'] = { take_zone, TO(offset_m) },
    ['%'] = { take_percent },
};
#undef TO

static const struct conversion *find_conversion(char letter)
{
    const size_t i = (unsigned char)letter;
    return i < CTR_COUNT(conversions) && conversions[i].take ? &conversions[i] : NULL;
}

/* Read the conversion whose letter is at f. */
static bool take_field(struct cursor *c, const char *f, struct civil *t)
{
    const struct conversion *k = find_conversion(*f);
    if (!k || !k->take(c, (int *)(void *)((char *)t + k->to)))
        return false;
    t->hour12 |= k->hour12;
    return !k->fraction || f[1] == '.' || !take_char(c, '.') || take_fraction(c, &t->ms);
}

static const struct {
    const char *name;
    bool (*parse)(const char *p, size_t n, int64_t unit, int64_t *ms);
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
        if (!find_conversion(*++f))
            return false;
        fields += *f != '%';
    }
    return fields > 0;
}

bool ctr_time_parse(const char *format, const char *p, size_t n, int64_t *ms)
{
    struct cursor c = { p, p + n };
    if (!format)
        return parse_iso(&c, ms);
    for (size_t i = 0; i < CTR_COUNT(epochs); i++)
        if (!strcmp(format, epochs[i].name))
            return epochs[i].parse(p, n, epochs[i].unit, ms);
    struct civil t = { .year = 1970, .month = 1, .day = 1 };
    for (const char *f = format; *f; f++) {
        if (*f != '%') {
            if (!take_char(&c, *f))
                return false;
        } else if (!take_field(&c, ++f, &t)) {
            return false;
        }
    }
    return c.p == c.end && finish(&t, ms);
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
