/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_time: the loops of op_time.c, for the host and for a device: loop.h. */
#ifndef CTR_LOOP_TIME_H
#define CTR_LOOP_TIME_H

#include "common/op/body_time.h"
#include "common/op/loop_text.h"

/* The parameters of a call that names a zone or a format. The zone's rows follow it. */
enum { OP_TIME_FORMAT = 120 };
struct op_time {
    int64_t nformat;
    uint8_t format[OP_TIME_FORMAT];
    struct opv_zone zone;
};

/* A part of a date or of a day: in UTC, and in a zone. */
#define OP_PART(name, body)                                                                                            \
    CTR_LOOP1(name, int64_t, int64_t, body(a0[i]))                                                                     \
    CTR_LOOP_PARAM(name##_zone, int64_t, struct op_time, int64_t, body(opv_local(&p->zone, a0[i], &ok[i])))
OP_PART(loop_hour, opv_hour_of_day)
OP_PART(loop_weekday, opv_day_of_week)
OP_PART(loop_year, opv_year)
OP_PART(loop_month, opv_month)
OP_PART(loop_week, opv_week)
OP_PART(loop_day, opv_day)

#define OP_TIME(t)       ((const struct op_time *)(t)->param)
#define FORMAT_MAX(t, i) (OP_TIME(t)->nformat * OPV_TIME_FIELD)
#define FORMAT_WRITE(t, i, s)                                                                                          \
    opv_time_write(OP_TIME(t)->format, OP_TIME(t)->nformat, &OP_TIME(t)->zone, OP_INT(t, 0, i), s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_format_time, FORMAT_MAX, FORMAT_WRITE)
CTR_LOOP_PARAM(loop_parse_time, struct opv_str, struct op_time, int64_t,
               opv_time_read(p->format, p->nformat, &p->zone, a0[i], &ok[i]))

CTR_LOOP2(loop_age, int64_t, int64_t, int64_t, opv_sub_i(a0[i], a1[i], &ok[i]))

#endif
