/* SPDX-License-Identifier: Apache-2.0
 *
 * op_time: operators on times: their parts, in UTC or in a zone, and times as text. What a zone's clocks show is a
 * parameter, made when the call is bound (opzone.h). */
#include "common/op/local.h"
#include "common/op/opzone.h"

#include <stdio.h>
#include <stdlib.h>

/* The literal text of argument k, or NULL. */
static const struct ctr_str *text_of(const struct ctr_op_call *call, const struct ctr_op_state *s, int k)
{
    return k < s->nargs ? &call->arg[k].literal->s : NULL;
}

static int prepare_param(struct ctr_op_state *s, const struct ctr_str *zone, struct ctr_err *err)
{
    struct op_time *p = NULL;
    int rc = ctr_op_zone(s->op->name, zone, &p, &s->param_bytes, err);
    s->param = p;
    s->param_free = free;
    return rc;
}

int ctr_local_open(struct ctr_local **l, const char *zone, const char *what, struct ctr_err *err)
{
    const struct ctr_str name = { zone, strlen(zone) };
    struct op_time *p = NULL;
    size_t bytes;
    const int rc = ctr_op_zone(what, &name, &p, &bytes, err);
    *l = (struct ctr_local *)p;
    return rc;
}

bool ctr_local_parse_cut(const struct ctr_local *l, const char *p, size_t n, int64_t *ms, bool *cut)
{
    struct opv_civil t;
    uint8_t ok = 1;
    if (!opv_civil_iso((const uint8_t *)p, (int64_t)n, &t))
        return false;
    *cut = t.finer;
    *ms = opv_time_of(&t, &((const struct op_time *)l)->zone, &ok);
    return ok;
}

/* Without a zone the loop has no parameters. */
static int prepare_part(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    return s->nargs == 1 ? 0 : prepare_param(s, text_of(call, s, 1), err);
}

/* Has it conversions, all of them among the letters? */
static int check_format(const char *op, const struct ctr_str *f, const char *letters, struct ctr_err *err)
{
    char list[64];
    size_t n = 0;
    bool good = f->n > 1 && f->n <= OP_TIME_FORMAT, any = false;
    for (size_t i = 0; good && i < f->n; i++) {
        if (f->p[i] != '%')
            continue;
        good = ++i < f->n && f->p[i] && strchr(letters, f->p[i]);
        any |= good && f->p[i] != '%';
    }
    if (good && any)
        return 0;
    for (const char *c = letters; *c; c++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%%%c", *c);
    return ctr_fail(err, CTR_EUSAGE,
                    "%s wants a format of at most %d bytes such as \"%%Y-%%m-%%d %%H:%%M\", with conversions out of %s",
                    op, OP_TIME_FORMAT, list);
}

static int prepare_format(struct ctr_op_call *call, struct ctr_op_state *s, bool read, struct ctr_err *err)
{
    const struct ctr_str *f = text_of(call, s, 1);
    const bool iso = read && (!f || (f->n == 3 && !memcmp(f->p, "iso", 3)));
    int rc = iso ? 0 : check_format(s->op->name, f, read ? OPV_TIME_READ : OPV_TIME_WRITTEN, err);
    if (!rc)
        rc = prepare_param(s, text_of(call, s, 2), err);
    if (rc || iso)
        return rc;
    struct op_time *p = s->param;
    p->nformat = (int64_t)f->n;
    memcpy(p->format, f->p, f->n);
    return 0;
}

static int prepare_write(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    return prepare_format(call, s, false, err);
}

static int prepare_read(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    return prepare_format(call, s, true, err);
}

#define PART(loop) CTR_VARIANTS({ "T>i", loop }, { "Tt!>i", loop##_zone }), NULL, prepare_part

const struct ctr_op ctr_ops_time[] = {
    { "hour_of_day", "hour_of_day(time[, zone: text]) -> int",
      "0 to 23, UTC or of a zone: hour_of_day(ts\"2026-03-01T13:45Z\") is 13; hour_of_day(ts\"2026-07-01T13:45Z\", "
      "\"Europe/Paris\") is 15",
      CTR_OP_LIFT, PART(loop_hour) },
    { "day_of_week", "day_of_week(time[, zone: text]) -> int",
      "0 for Monday to 6 for Sunday: day_of_week(ts\"2026-03-01T13:45Z\") is 6", CTR_OP_LIFT, PART(loop_weekday) },
    { "year", "year(time[, zone: text]) -> int", "the year: year(ts\"2026-03-01T13:45Z\") is 2026", CTR_OP_LIFT,
      PART(loop_year) },
    { "month", "month(time[, zone: text]) -> int", "1 to 12: month(ts\"2026-03-01T13:45Z\") is 3", CTR_OP_LIFT,
      PART(loop_month) },
    { "week", "week(time[, zone: text]) -> int",
      "1 to 53, of ISO 8601, where a week belongs to the year of its Thursday: week(ts\"2027-01-03T00:00Z\") is 53",
      CTR_OP_LIFT, PART(loop_week) },
    { "day", "day(time[, zone: text]) -> int", "of the month, 1 to 31: day(ts\"2026-03-01T23:45Z\", \"+01:00\") is 2",
      CTR_OP_LIFT, PART(loop_day) },
    { "format_time", "format_time(time, format: text[, zone: text]) -> text",
      "as text, by a format as of strftime: format_time(ts\"2026-03-01T13:45Z\", \"%d %b %Y %I:%M %p\") is 01 Mar 2026 "
      "01:45 PM",
      CTR_OP_LIFT, CTR_VARIANTS({ "Tt!>t", loop_format_time }, { "Tt!t!>t", loop_format_time }), NULL, prepare_write },
    { "parse_time", "parse_time(text[, format: text[, zone: text]]) -> time",
      "a time out of text, ISO 8601 without a format: parse_time(\"3/1/26 1:45 PM\", \"%m/%d/%y %I:%M %p\") is "
      "2026-03-01T13:45:00Z; null where it does not fit the format",
      CTR_OP_LIFT,
      CTR_VARIANTS({ "t>T", loop_parse_time }, { "tt!>T", loop_parse_time }, { "tt!t!>T", loop_parse_time }), NULL,
      prepare_read },
    { "age", "age(time, since: time) -> duration",
      "how long before time `since` was, time - since: age(ts\"2026-03-01T00:00:05Z\", ts\"2026-03-01T00:00Z\") is "
      "5000",
      CTR_OP_LIFT, CTR_VARIANTS({ "TT>d", loop_age }) },
    { NULL },
};
