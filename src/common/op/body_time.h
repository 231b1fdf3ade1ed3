/* SPDX-License-Identifier: Apache-2.0
 *
 * body_time: bodies of the operators on times, in the subset of body.h: local time, parts of a date, and times as text
 * by a format. A zone is a table of when its clocks were set (op_zone.c makes it of the system's tzdata when a plan is
 * bound), so that a body needs no file.
 */
#ifndef CTR_BODY_TIME_H
#define CTR_BODY_TIME_H

#include "common/base/timebody.h"
#include "common/op/body_text.h"

/* ---- zones ---- */

/* From time `at` on clocks show UTC + offset ms, up to the next row; row 0 has the least time of all. */
struct opv_zone_row {
    int64_t at, offset;
};
/* The calendar repeats after 400 years, which are whole weeks: from `repeats` on (the start of a year) the 400 years of
 * rows that follow it stand for all later ones. */
#define OPV_400_YEARS (146097 * OPV_DAY_MS)
struct opv_zone {
    int64_t n, repeats;
    struct opv_zone_row row[1]; /* n of them */
};

OPV_FN int64_t opv_zone_back(const struct opv_zone *z, int64_t t) /* whole cycles to go back */
{
    return t < z->repeats ? 0 : (t - z->repeats) / OPV_400_YEARS * OPV_400_YEARS;
}
OPV_FN int64_t opv_zone_offset(const struct opv_zone *z, int64_t t)
{
    const struct opv_zone_row *base = z->row;
    t -= opv_zone_back(z, t);
    for (int64_t n = z->n, half; n > 1; n -= half) {
        half = n >> 1;
        base += base[half].at <= t ? half : 0;
    }
    return base->offset;
}
/* The time that clocks show at t, as if it were one of UTC. */
OPV_FN int64_t opv_local(const struct opv_zone *z, int64_t t, uint8_t *ok)
{
    return opv_add_i(t, opv_zone_offset(z, t), ok);
}
/* When clocks show `local`: the first time where they do so twice; where they skip it, as far behind the jump as it is
 * behind the time at which they jumped. */
OPV_FN int64_t opv_from_local(const struct opv_zone *z, int64_t local, uint8_t *ok)
{
    const int64_t back = opv_zone_back(z, local);
    int64_t from = 0, to = z->n;
    while (to - from > 1) {
        const int64_t half = (from + to) >> 1, before = z->row[half - 1].offset, after = z->row[half].offset;
        if (z->row[half].at + (before > after ? before : after) <= local - back)
            from = half;
        else
            to = half;
    }
    return opv_sub_i(local, z->row[from].offset, ok);
}

/* ---- parts; times are local ---- */

OPV_FN int64_t opv_hour_of_day(int64_t t)
{
    return opv_ms_of_day(t) / 3600000;
}
OPV_FN int64_t opv_day_of_week(int64_t t)
{
    return opv_weekday(opv_day_of(t));
}
OPV_FN int64_t opv_year(int64_t t)
{
    return opv_date_of(opv_day_of(t)).year;
}
OPV_FN int64_t opv_month(int64_t t)
{
    return opv_date_of(opv_day_of(t)).month;
}
OPV_FN int64_t opv_day(int64_t t)
{
    return opv_date_of(opv_day_of(t)).day;
}
OPV_FN int64_t opv_week(int64_t t)
{
    int64_t year;
    return opv_iso_week(opv_day_of(t), &year);
}

/* ---- text ---- */

#define OPV_TIME_WRITTEN "YymdHIpMSfzFTaAbBjGVu%"

OPV_FN void opv_put_padded(struct opv_sink *s, int64_t v, int digits)
{
    int64_t power = 1;
    for (int i = 1; i < digits; i++)
        power *= 10;
    for (; power > 0; power /= 10)
        opv_put_byte(s, (uint8_t)('0' + v / power % 10));
}
/* Four digits; before 0000 and after 9999 a sign and at least six. */
OPV_FN void opv_put_year(struct opv_sink *s, int64_t year)
{
    const int64_t y = year < 0 ? -year : year;
    int digits = 6;
    if (year >= 0 && year <= 9999) {
        opv_put_padded(s, year, 4);
        return;
    }
    for (int64_t power = 1000000; digits < 9 && y >= power; power *= 10)
        digits++;
    opv_put_byte(s, year < 0 ? '-' : '+');
    opv_put_padded(s, y, digits);
}
OPV_FN void opv_put_name(struct opv_sink *s, const char *name, int most)
{
    for (int i = 0; i < most && name[i]; i++)
        opv_put_byte(s, (uint8_t)name[i]);
}
OPV_FN void opv_put_date(struct opv_sink *s, struct opv_date d)
{
    opv_put_year(s, d.year);
    opv_put_byte(s, '-');
    opv_put_padded(s, d.month, 2);
    opv_put_byte(s, '-');
    opv_put_padded(s, d.day, 2);
}
OPV_FN void opv_put_clock(struct opv_sink *s, int64_t second) /* of the day */
{
    opv_put_padded(s, second / 3600, 2);
    opv_put_byte(s, ':');
    opv_put_padded(s, second / 60 % 60, 2);
    opv_put_byte(s, ':');
    opv_put_padded(s, second % 60, 2);
}
OPV_FN void opv_put_offset(struct opv_sink *s, int64_t offset) /* +hhmm, seconds cut off */
{
    const int64_t m = (offset < 0 ? -offset : offset) / 60000;
    opv_put_byte(s, offset < 0 ? '-' : '+');
    opv_put_padded(s, m / 60 * 100 + m % 60, 4);
}
OPV_FN void opv_put_date_field(struct opv_sink *s, uint8_t letter, int64_t days)
{
    const struct opv_date d = opv_date_of(days);
    int64_t year, week;
    switch (letter) {
    case 'Y': opv_put_year(s, d.year); break;
    case 'y': opv_put_padded(s, (d.year % 100 + 100) % 100, 2); break;
    case 'm': opv_put_padded(s, d.month, 2); break;
    case 'd': opv_put_padded(s, d.day, 2); break;
    case 'F': opv_put_date(s, d); break;
    case 'b': opv_put_name(s, opv_months[d.month - 1], 3); break;
    case 'B': opv_put_name(s, opv_months[d.month - 1], 9); break;
    case 'j': opv_put_padded(s, days - opv_days_from_civil(d.year, 1, 1) + 1, 3); break;
    default: /* G, V */
        week = opv_iso_week(days, &year);
        if (letter == 'G')
            opv_put_year(s, year);
        else
            opv_put_padded(s, week, 2);
    }
}
OPV_FN void opv_put_field(struct opv_sink *s, uint8_t letter, int64_t t, int64_t offset)
{
    const int64_t days = opv_day_of(t), ms = opv_ms_of_day(t), second = ms / 1000, hour = second / 3600;
    switch (letter) {
    case 'H': opv_put_padded(s, hour, 2); break;
    case 'I': opv_put_padded(s, hour % 12 ? hour % 12 : 12, 2); break;
    case 'p': opv_put_name(s, hour < 12 ? "AM" : "PM", 2); break;
    case 'M': opv_put_padded(s, second / 60 % 60, 2); break;
    case 'S': opv_put_padded(s, second % 60, 2); break;
    case 'f': opv_put_padded(s, ms % 1000, 3); break;
    case 'T': opv_put_clock(s, second); break;
    case 'z': opv_put_offset(s, offset); break;
    case 'a': opv_put_name(s, opv_weekdays[opv_weekday(days)], 3); break;
    case 'A': opv_put_name(s, opv_weekdays[opv_weekday(days)], 9); break;
    case 'u': opv_put_padded(s, opv_weekday(days) + 1, 1); break;
    case '%': opv_put_byte(s, '%'); break;
    default: opv_put_date_field(s, letter, days);
    }
}
/* Upper bound of what a conversion writes. */
enum { OPV_TIME_FIELD = 16 };
OPV_FN void opv_time_write(const uint8_t *format, int64_t nf, const struct opv_zone *z, int64_t t, struct opv_sink *s,
                           uint8_t *ok)
{
    const int64_t offset = opv_zone_offset(z, t), local = opv_add_i(t, offset, ok);
    for (int64_t f = 0; *ok && f < nf; f++) {
        if (format[f] != '%' || f + 1 == nf)
            opv_put_byte(s, format[f]);
        else
            opv_put_field(s, format[++f], local, offset);
    }
}
/* Of a text that was parsed: a zone in it wins. */
OPV_FN int64_t opv_time_of(const struct opv_civil *t, const struct opv_zone *z, uint8_t *ok)
{
    int64_t ms = 0;
    if (!opv_civil_ms(t, &ms)) {
        *ok = 0;
        return 0;
    }
    return t->zoned ? ms : opv_from_local(z, ms, ok);
}
/* A format of no bytes is ISO 8601. */
OPV_FN int64_t opv_time_read(const uint8_t *format, int64_t nf, const struct opv_zone *z, struct opv_str a, uint8_t *ok)
{
    struct opv_civil t;
    if (!(nf ? opv_civil_parse(format, nf, a.p, a.n, &t) : opv_civil_iso(a.p, a.n, &t))) {
        *ok = 0;
        return 0;
    }
    return opv_time_of(&t, z, ok);
}

#endif
