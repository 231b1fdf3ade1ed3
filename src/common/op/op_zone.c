/* SPDX-License-Identifier: Apache-2.0
 *
 * op_zone: the zones of the system's tzdata as tables: TZif files (RFC 8536) and the rule for all later years at their
 * end (POSIX TZ). Invariant: a file's numbers are claims, checked against its length before they are used.
 *
 * The rule is written out, two rows a year, for the 400 years after which weekdays, leap years and so the rule's times
 * repeat. A row is 16 bytes; a zone with such a rule has about 1,000. */
#include "common/op/opzone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ZONES "/usr/share/zoneinfo"

enum { MOST_BYTES = 1 << 18 };

struct rows {
    struct opv_zone_row *row;
    int n, cap;
    int64_t repeats;
};

static int add_row(struct rows *z, int64_t at, int64_t offset, struct ctr_err *err)
{
    int rc = ctr_array_grow(&z->row, z->n, &z->cap, sizeof *z->row, err);
    if (!rc)
        z->row[z->n++] = (struct opv_zone_row){ at, offset };
    return rc;
}

/* ---- the rule of later years: "CET-1CEST,M3.5.0,M10.5.0/3" ---- */

/* A day of the year, and the ms after its midnight, in local time. */
struct change {
    char kind; /* M month.week.weekday, J day without February 29, 0 day from 0 */
    int month, week, day;
    int64_t ms;
};
struct rule {
    int64_t standard, summer; /* offsets */
    bool has_summer;
    struct change start, end; /* of summer time */
};

static bool take_number(const char **p, int most, int *v)
{
    int n = 0;
    *v = 0;
    for (; **p >= '0' && **p <= '9' && n < 4; n++)
        *v = *v * 10 + (*(*p)++ - '0');
    return n && *v <= most;
}

/* [+-]hh[:mm[:ss]] */
static bool take_hms(const char **p, int64_t *ms)
{
    int part[3] = { 0 };
    const bool neg = **p == '-';
    *p += **p == '-' || **p == '+';
    if (!take_number(p, 167, &part[0]))
        return false;
    for (int k = 1; k < 3 && **p == ':'; k++)
        if (++*p, !take_number(p, 59, &part[k]))
            return false;
    *ms = ((part[0] * 60 + part[1]) * 60 + part[2]) * INT64_C(1000) * (neg ? -1 : 1);
    return true;
}

static bool take_abbreviation(const char **p)
{
    const char *from = *p;
    if (**p == '<') {
        *p += strcspn(*p, ">");
        return **p == '>' ? ++*p, true : false;
    }
    while ((unsigned char)((**p | 32) - 'a') < 26)
        ++*p;
    return *p - from >= 3;
}

static bool take_change(const char **p, struct change *c)
{
    *c = (struct change){ .ms = 2 * 3600000 };
    if (*(*p)++ != ',')
        return false;
    if (**p == 'M') {
        c->kind = 'M';
        ++*p;
        if (!take_number(p, 12, &c->month) || c->month < 1 || *(*p)++ != '.' || !take_number(p, 5, &c->week) ||
            c->week < 1 || *(*p)++ != '.' || !take_number(p, 6, &c->day))
            return false;
    } else {
        c->kind = **p == 'J' ? 'J' : '0';
        *p += **p == 'J';
        if (!take_number(p, 365, &c->day) || (c->kind == 'J' && c->day < 1))
            return false;
    }
    return **p != '/' || (++*p, take_hms(p, &c->ms));
}

static bool parse_rule(const char *p, struct rule *r)
{
    int64_t west;
    if (!take_abbreviation(&p) || !take_hms(&p, &west))
        return false;
    *r = (struct rule){ .standard = -west, .summer = 3600000 - west, .has_summer = *p != 0 };
    if (!*p)
        return true;
    if (!take_abbreviation(&p))
        return false;
    if (*p != ',') {
        if (!take_hms(&p, &west))
            return false;
        r->summer = -west;
    }
    return take_change(&p, &r->start) && take_change(&p, &r->end) && !*p;
}

/* When the local clock of that offset shows the time of the change. */
static int64_t change_at(const struct change *c, int64_t year, int64_t offset)
{
    const int64_t january = opv_days_from_civil(year, 1, 1);
    const bool leap = opv_days_from_civil(year + 1, 1, 1) - january == 366;
    int64_t day;
    if (c->kind == 'M') { /* the week-th such weekday of the month, 5 the last; POSIX counts from Sunday */
        const int64_t first = opv_days_from_civil(year, c->month, 1);
        const int64_t next = c->month < 12 ? opv_days_from_civil(year, c->month + 1, 1) : january + 365 + leap;
        day = first + (c->day + 6 - opv_weekday(first) + 7) % 7 + 7 * (c->week - 1);
        day -= day >= next ? 7 : 0;
    } else if (c->kind == 'J') {
        day = january + c->day - 1 + (leap && c->day >= 60);
    } else {
        day = january + c->day;
    }
    return day * OPV_DAY_MS + c->ms - offset;
}

static int add_if_later(struct rows *z, int64_t last, int64_t at, int64_t offset, struct ctr_err *err)
{
    return at > last ? add_row(z, at, offset, err) : 0;
}

static int add_rule(struct rows *z, const struct rule *r, struct ctr_err *err)
{
    const int64_t last = z->row[z->n - 1].at;
    const int64_t from = z->n > 1 ? CTR_MAX(opv_date_of(opv_day_of(last)).year, 1970) : 1970;
    int rc = 0;
    if (!r->has_summer)
        return z->row[z->n - 1].offset == r->standard ? 0 : add_row(z, last + 1, r->standard, err);
    for (int64_t year = from; !rc && year <= from + 403; year++) {
        const int64_t start = change_at(&r->start, year, r->standard), end = change_at(&r->end, year, r->summer);
        rc = start < end ? add_if_later(z, last, start, r->summer, err) : add_if_later(z, last, end, r->standard, err);
        if (!rc)
            rc = start < end ? add_if_later(z, last, end, r->standard, err)
                             : add_if_later(z, last, start, r->summer, err);
    }
    z->repeats = opv_days_from_civil(from + 2, 1, 1) * OPV_DAY_MS;
    return rc;
}

/* ---- TZif ---- */

static int64_t big_endian(const uint8_t *p, int bytes)
{
    uint64_t v = p[0] & 0x80 ? UINT64_MAX : 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return (int64_t)v;
}

struct counts {
    int64_t utc, standard, leaps, times, types, chars;
};

/* The head of a block, or false. *bytes: of its data. */
static bool read_head(const uint8_t *p, int64_t n, int width, struct counts *c, int64_t *bytes)
{
    if (n < 44 || memcmp(p, "TZif", 4))
        return false;
    int64_t *const to[] = { &c->utc, &c->standard, &c->leaps, &c->times, &c->types, &c->chars };
    for (int k = 0; k < 6; k++) {
        *to[k] = big_endian(p + 20 + 4 * k, 4);
        if (*to[k] < 0 || *to[k] > n)
            return false;
    }
    *bytes = c->times * (width + 1) + c->types * 6 + c->chars + c->leaps * (width + 4) + c->standard + c->utc;
    return *bytes <= n - 44 && c->types > 0;
}

/* 0; 1: it is no TZif file, or damaged. */
static int read_rows(const uint8_t *p, int64_t n, struct rows *z, struct ctr_err *err)
{
    struct counts c;
    int64_t bytes;
    int width = 4, rc;
    char footer[128] = "";
    if (!read_head(p, n, 4, &c, &bytes))
        return 1;
    if (p[4] >= '2') { /* the block of 8 bytes a time comes second */
        p += 44 + bytes;
        n -= 44 + bytes;
        width = 8;
        if (!read_head(p, n, 8, &c, &bytes) || 44 + bytes >= n || p[44 + bytes] != '\n')
            return 1;
        const uint8_t *rule = p + 44 + bytes + 1, *end = memchr(rule, '\n', (size_t)(n - 44 - bytes - 1));
        if (!end || end - rule >= (int64_t)sizeof footer)
            return 1;
        memcpy(footer, rule, (size_t)(end - rule));
    }
    if (c.leaps) /* "right/…", whose times count leap seconds */
        return 1;
    const uint8_t *at = p + 44, *index = at + c.times * width, *type = index + c.times;
    rc = add_row(z, INT64_MIN, big_endian(type, 4) * 1000, err);
    for (int64_t k = 0; !rc && k < c.times; k++) {
        const int64_t t = big_endian(at + k * width, width);
        if (index[k] >= c.types || t > INT64_MAX / 2000)
            return 1;
        if (t > INT64_MIN / 2000 && t * 1000 > z->row[z->n - 1].at)
            rc = add_row(z, t * 1000, big_endian(type + 6 * index[k], 4) * 1000, err);
        else if (t <= INT64_MIN / 2000) /* "since the big bang" */
            z->row[0].offset = big_endian(type + 6 * index[k], 4) * 1000;
    }
    struct rule r;
    if (rc || !*footer)
        return rc;
    return parse_rule(footer, &r) ? add_rule(z, &r, err) : 1;
}

/* ---- names ---- */

/* "+05:30", "-0330" */
static bool is_offset(const struct ctr_str *name, int64_t *ms)
{
    struct opv_cursor c = { (const uint8_t *)name->p, (const uint8_t *)name->p + name->n };
    struct opv_civil t = { 0 };
    if (!name->n || (*name->p != '+' && *name->p != '-') || !opv_take_zone(&c, &t) || c.p != c.end)
        return false;
    *ms = t.offset_m * INT64_C(60000);
    return true;
}

/* No absolute path and no "..": only files of the folder of zones. */
static bool is_name(const struct ctr_str *name)
{
    for (size_t i = 0; i < name->n; i++) {
        const char c = name->p[i];
        if (!((unsigned char)((c | 32) - 'a') < 26 || (c >= '0' && c <= '9') || (i && strchr("_+-/", c))))
            return false;
    }
    return name->n && name->n < 64;
}

static int no_zone(const char *op, const struct ctr_str *name, const char *folder, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EUSAGE,
                    "%s: %s has no time zone '%.*s': names are such as Europe/Paris, UTC or +05:30; Debian's package "
                    "tzdata has the files",
                    op, folder, (int)CTR_MIN(name->n, (size_t)40), name->p);
}

static int read_zone(const char *op, const struct ctr_str *name, struct rows *z, struct ctr_err *err)
{
    const char *folder = getenv("TZDIR");
    char path[4096];
    int rc;
    folder = folder && *folder ? folder : ZONES;
    const int used = snprintf(path, sizeof path, "%s/%.*s", folder, (int)name->n, name->p);
    if (!is_name(name) || used >= (int)sizeof path)
        return no_zone(op, name, folder, err);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? no_zone(op, name, folder, err)
                                                   : ctr_fail_sys(err, "%s: %s: cannot open", op, path);
    uint8_t *text = malloc(MOST_BYTES);
    int64_t n = 0;
    ssize_t got = 1;
    while (text && got && n < MOST_BYTES) {
        got = read(fd, text + n, (size_t)(MOST_BYTES - n));
        if (got < 0 && errno != EINTR)
            break;
        n += CTR_MAX(got, 0);
    }
    if (!text)
        rc = ctr_fail_nomem(err, MOST_BYTES);
    else if (got < 0 && errno != EISDIR)
        rc = ctr_fail_sys(err, "%s: %s: cannot read", op, path);
    else if (got < 0 || n == MOST_BYTES || (rc = read_rows(text, n, z, err)) > 0)
        rc = no_zone(op, name, folder, err);
    free(text);
    close(fd);
    return rc;
}

int ctr_op_zone(const char *op, const struct ctr_str *zone, struct op_time **out, size_t *bytes, struct ctr_err *err)
{
    struct rows z = { .repeats = INT64_MAX };
    int64_t offset = 0;
    int rc = !zone || (zone->n == 3 && !memcmp(zone->p, "UTC", 3)) || is_offset(zone, &offset)
                 ? add_row(&z, INT64_MIN, offset, err)
                 : read_zone(op, zone, &z, err);
    *bytes = sizeof **out + (size_t)z.n * sizeof *z.row;
    *out = rc ? NULL : calloc(1, *bytes);
    if (!rc && !*out)
        rc = ctr_fail_nomem(err, *bytes);
    if (!rc) {
        (*out)->zone.n = z.n;
        (*out)->zone.repeats = z.repeats;
        memcpy((*out)->zone.row, z.row, (size_t)z.n * sizeof *z.row);
    }
    free(z.row);
    return rc;
}
