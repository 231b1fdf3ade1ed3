/* SPDX-License-Identifier: Apache-2.0
 *
 * timebody: the calendar, and reading times from text, as bodies in the subset of C that mathbody.h describes. time.c
 * and the operators on times (op/body_time.h) share them. The calendar is the proleptic Gregorian one; a time is
 * milliseconds since 1970-01-01T00:00Z, and a day the number of days since then.
 */
#ifndef CTR_TIMEBODY_H
#define CTR_TIMEBODY_H

#include "common/base/mathbody.h"

#define OPV_DAY_MS 86400000LL

struct opv_date {
    int64_t year;
    int32_t month, day; /* from 1 */
};

/* Years are counted from March, so that the leap day comes last, in cycles of 400. */
OPV_FN int64_t opv_days_from_civil(int64_t year, int64_t month, int64_t day)
{
    const int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
    const int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + in_year - 719468;
}
OPV_FN struct opv_date opv_date_of(int64_t days)
{
    struct opv_date d;
    const int64_t n = days + 719468, era = (n >= 0 ? n : n - 146096) / 146097, day = n - era * 146097;
    const int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    const int64_t in_year = day - (365 * year + year / 4 - year / 100), month = (5 * in_year + 2) / 153;
    d.day = (int32_t)(in_year - (153 * month + 2) / 5 + 1);
    d.month = (int32_t)(month < 10 ? month + 3 : month - 9);
    d.year = year + era * 400 + (d.month <= 2);
    return d;
}
OPV_FN int64_t opv_day_of(int64_t t)
{
    return t / OPV_DAY_MS - (t % OPV_DAY_MS < 0);
}
OPV_FN int64_t opv_ms_of_day(int64_t t)
{
    const int64_t ms = t % OPV_DAY_MS;
    return ms < 0 ? ms + OPV_DAY_MS : ms;
}
OPV_FN int64_t opv_weekday(int64_t day) /* 0 is Monday; 1970-01-01 was a Thursday */
{
    const int64_t r = (day + 3) % 7;
    return r < 0 ? r + 7 : r;
}
/* ISO 8601: a week belongs to the year of its Thursday. */
OPV_FN int64_t opv_iso_week(int64_t day, int64_t *year)
{
    const int64_t thursday = day - opv_weekday(day) + 3;
    *year = opv_date_of(thursday).year;
    return (thursday - opv_days_from_civil(*year, 1, 1)) / 7 + 1;
}

OPV_CONST char opv_months[12][10] = { "January", "February", "March",     "April",   "May",      "June",
                                      "July",    "August",   "September", "October", "November", "December" };
OPV_CONST char opv_weekdays[7][10] = { "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday" };

/* ---- reading ---- */

struct opv_cursor {
    const uint8_t *p, *end;
};

/* What a text says of a time. */
struct opv_civil {
    int64_t year;
    int32_t month, day, hour, minute, second, ms;
    int32_t pm; /* 1 am, 2 pm, 0 not given */
    int32_t hour12, zoned;
    int32_t offset_m; /* minutes east of UTC */
    int32_t finer;    /* digits other than 0 were cut off behind the milliseconds */
};

OPV_FN int opv_digit_next(const struct opv_cursor *c)
{
    return c->p < c->end && (uint8_t)(*c->p - '0') < 10;
}
/* min..max digits */
OPV_FN int opv_take_int(struct opv_cursor *c, int min, int max, int32_t *v)
{
    int n = 0;
    int32_t x = 0;
    for (; n < max && opv_digit_next(c); n++)
        x = x * 10 + (*c->p++ - '0');
    *v = x;
    return n >= min;
}
OPV_FN int opv_take_char(struct opv_cursor *c, uint8_t ch)
{
    if (c->p >= c->end || *c->p != ch)
        return 0;
    c->p++;
    return 1;
}
/* Digits of a fraction of a second, truncated to milliseconds. */
OPV_FN int opv_take_fraction(struct opv_cursor *c, struct opv_civil *t)
{
    int n = 0;
    int32_t x = 0;
    for (; opv_digit_next(c); c->p++, n++)
        if (n < 3)
            x = x * 10 + (*c->p - '0');
        else
            t->finer |= *c->p != '0';
    for (int i = n; i < 3; i++)
        x *= 10;
    t->ms = x;
    return n > 0;
}
/* Z, +01, +0100, +01:00 */
OPV_FN int opv_take_zone(struct opv_cursor *c, struct opv_civil *t)
{
    int32_t h, m = 0;
    int neg, colon;
    t->offset_m = 0;
    t->zoned = 1;
    if (opv_take_char(c, 'Z') || opv_take_char(c, 'z'))
        return 1;
    neg = opv_take_char(c, '-');
    if ((!neg && !opv_take_char(c, '+')) || !opv_take_int(c, 2, 2, &h))
        return 0;
    colon = opv_take_char(c, ':');
    if ((colon || opv_digit_next(c)) && !opv_take_int(c, 2, 2, &m))
        return 0;
    t->offset_m = neg ? -(h * 60 + m) : h * 60 + m;
    return h < 24 && m < 60;
}
/* One of n names, whole or its first three letters, in any case. */
OPV_FN int opv_take_name(struct opv_cursor *c, const char (*names)[10], int n, int32_t *number)
{
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (names[i][k] && c->p + k < c->end && (c->p[k] | 32) == (names[i][k] | 32))
            k++;
        if (k < 3)
            continue;
        c->p += names[i][k] ? 3 : k;
        *number = i + 1;
        return 1;
    }
    return 0;
}
OPV_FN int opv_take_am_pm(struct opv_cursor *c, int32_t *pm)
{
    if (c->end - c->p < 2 || (c->p[1] | 32) != 'm' || ((c->p[0] | 32) != 'a' && (c->p[0] | 32) != 'p'))
        return 0;
    *pm = (c->p[0] | 32) == 'p' ? 2 : 1;
    c->p += 2;
    return 1;
}

/* Its milliseconds since 1970, in UTC if it has a zone, else in local time; 0: there is no such time. */
OPV_FN int opv_civil_ms(const struct opv_civil *t, int64_t *ms)
{
    const int leap = t->year % 4 == 0 && (t->year % 100 != 0 || t->year % 400 == 0);
    const int short_month = t->month == 4 || t->month == 6 || t->month == 9 || t->month == 11;
    int64_t hour = t->hour, days, back, rest;
    if (t->month < 1 || t->month > 12 || t->day < 1 || t->day > (t->month == 2 ? 28 + leap : 31 - short_month))
        return 0;
    if (t->pm || t->hour12) {
        if (hour < 1 || hour > 12)
            return 0;
        hour = hour % 12 + (t->pm == 2 ? 12 : 0);
    }
    if (hour > 23 || t->minute > 59 || t->second > 60)
        return 0;
    days = opv_days_from_civil(t->year, t->month, t->day);
    back = days < 0 ? OPV_DAY_MS : 0; /* so that the last days of int64 do not overflow */
    rest = ((hour * 60 + t->minute) * 60 + t->second) * 1000 + t->ms - (int64_t)t->offset_m * 60000 - back;
    days += back != 0;
    if (days > OPV_I64_MAX / OPV_DAY_MS || days < OPV_I64_MIN / OPV_DAY_MS)
        return 0;
    days *= OPV_DAY_MS;
    if (rest > 0 ? days > OPV_I64_MAX - rest : days < OPV_I64_MIN - rest)
        return 0;
    *ms = days + rest;
    return 1;
}

/* A year of four digits, or one with a sign and five to nine digits. */
OPV_FN int opv_take_iso_year(struct opv_cursor *c, int64_t *year)
{
    int32_t y;
    const int neg = opv_take_char(c, '-'), sign = neg || opv_take_char(c, '+');
    if (!opv_take_int(c, sign ? 5 : 4, sign ? 9 : 4, &y) || (neg && !y))
        return 0;
    *year = neg ? -y : y;
    return 1;
}
OPV_FN int opv_take_iso_clock(struct opv_cursor *c, struct opv_civil *t)
{
    int blank;
    if (!opv_take_char(c, 'T') && !opv_take_char(c, 't') && !opv_take_char(c, ' '))
        return 0;
    if (!opv_take_int(c, 1, 2, &t->hour) || !opv_take_char(c, ':') || !opv_take_int(c, 2, 2, &t->minute))
        return 0;
    if (opv_take_char(c, ':') && (!opv_take_int(c, 2, 2, &t->second) ||
                                  ((opv_take_char(c, '.') || opv_take_char(c, ',')) && !opv_take_fraction(c, t))))
        return 0;
    blank = opv_take_char(c, ' ');
    return !(blank || c->p < c->end) || opv_take_zone(c, t);
}
/* YYYY-MM-DD[(T| )H[H]:MM[:SS[(.|,)fraction]][ ][zone]]; slashes may replace hyphens. */
OPV_FN int opv_civil_iso(const uint8_t *p, int64_t n, struct opv_civil *t)
{
    struct opv_cursor cursor = { p, p + n }, *c = &cursor;
    const struct opv_civil none = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    uint8_t sep;
    *t = none;
    if (!opv_take_iso_year(c, &t->year))
        return 0;
    sep = c->p < c->end ? *c->p : 0;
    if ((sep != '-' && sep != '/') || !opv_take_char(c, sep) || !opv_take_int(c, 1, 2, &t->month) ||
        !opv_take_char(c, sep) || !opv_take_int(c, 1, 2, &t->day))
        return 0;
    return (c->p == c->end || opv_take_iso_clock(c, t)) && c->p == c->end;
}

/* Two digits, of which the first may be missing. */
OPV_FN int opv_take_two(struct opv_cursor *c, int32_t *v)
{
    return opv_take_int(c, 1, 2, v);
}
OPV_FN int opv_take_year(struct opv_cursor *c, struct opv_civil *t)
{
    int32_t y;
    const int ok = opv_take_int(c, 4, 4, &y);
    t->year = y;
    return ok;
}
OPV_FN int opv_take_short_year(struct opv_cursor *c, struct opv_civil *t)
{
    int32_t y;
    const int ok = opv_take_two(c, &y);
    t->year = y + (y < 69 ? 2000 : 1900); /* as in POSIX */
    return ok;
}
OPV_FN int opv_take_hour12(struct opv_cursor *c, struct opv_civil *t)
{
    t->hour12 = 1;
    return opv_take_two(c, &t->hour);
}
/* Seconds, and a fraction unless the format has one. */
OPV_FN int opv_take_seconds(struct opv_cursor *c, struct opv_civil *t, int point_follows)
{
    return opv_take_two(c, &t->second) && (point_follows || !opv_take_char(c, '.') || opv_take_fraction(c, t));
}
OPV_FN int opv_take_day_name(struct opv_cursor *c)
{
    int32_t ignored;
    return opv_take_name(c, opv_weekdays, 7, &ignored);
}

/* The conversions of a format: opv_civil_parse. */
#define OPV_TIME_READ "YymbBdHIpMSfzFTaA%"
/* Reads the conversion of that letter. */
OPV_FN int opv_take_field(struct opv_cursor *c, uint8_t letter, int point_follows, struct opv_civil *t)
{
    switch (letter) {
    case 'Y': return opv_take_year(c, t);
    case 'y': return opv_take_short_year(c, t);
    case 'm': return opv_take_two(c, &t->month);
    case 'b':
    case 'B': return opv_take_name(c, opv_months, 12, &t->month);
    case 'd': return opv_take_two(c, &t->day);
    case 'H': return opv_take_two(c, &t->hour);
    case 'I': return opv_take_hour12(c, t);
    case 'p': return opv_take_am_pm(c, &t->pm);
    case 'M': return opv_take_two(c, &t->minute);
    case 'S': return opv_take_seconds(c, t, point_follows);
    case 'f': return opv_take_fraction(c, t);
    case 'z': return opv_take_zone(c, t);
    case 'F':
        return opv_take_year(c, t) && opv_take_char(c, '-') && opv_take_two(c, &t->month) && opv_take_char(c, '-') &&
               opv_take_two(c, &t->day);
    case 'T':
        return opv_take_two(c, &t->hour) && opv_take_char(c, ':') && opv_take_two(c, &t->minute) &&
               opv_take_char(c, ':') && opv_take_seconds(c, t, point_follows);
    case 'a':
    case 'A': return opv_take_day_name(c); /* it may contradict the date, which counts */
    case '%': return opv_take_char(c, '%');
    default: return 0;
    }
}
/* Reads the whole of [p, p+n) by a format of nf bytes; 0: it does not fit. What it does not name is 1970-01-01T00:00.
 */
OPV_FN int opv_civil_parse(const uint8_t *format, int64_t nf, const uint8_t *p, int64_t n, struct opv_civil *t)
{
    struct opv_cursor c = { p, p + n };
    const struct opv_civil none = { 1970, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    *t = none;
    for (int64_t f = 0; f < nf; f++) {
        if (format[f] != '%') {
            if (!opv_take_char(&c, format[f]))
                return 0;
        } else if (++f == nf || !opv_take_field(&c, format[f], f + 1 < nf && format[f + 1] == '.', t)) {
            return 0;
        }
    }
    return c.p == c.end;
}

#endif
