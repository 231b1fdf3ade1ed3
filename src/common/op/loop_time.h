/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_time: the loops of op_time.c, for the host and for a device: loop.h. */
#ifndef CTR_LOOP_TIME_H
#define CTR_LOOP_TIME_H

#include "common/op/loop.h"

CTR_LOOP1(loop_hour, int64_t, int64_t, opv_hour_of_day(a0[i]))
CTR_LOOP1(loop_day, int64_t, int64_t, opv_day_of_week(a0[i]))
CTR_LOOP2(loop_age, int64_t, int64_t, int64_t, opv_sub_i(a0[i], a1[i], &ok[i]))

#endif
