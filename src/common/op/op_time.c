/* SPDX-License-Identifier: Apache-2.0
 *
 * op_time: operators on times. Always in UTC: for another zone use time + 8h. */
#include "common/op/loop_time.h"

const struct ctr_op ctr_ops_time[] = {
    { "hour_of_day", "hour_of_day(time) -> int",
      "0 to 23, UTC: hour_of_day(ts\"2026-03-01T13:45Z\") is 13; of another zone: hour_of_day(time + 8h)", CTR_OP_LIFT,
      CTR_VARIANTS({ "T>i", loop_hour }) },
    { "day_of_week", "day_of_week(time) -> int",
      "0 for Monday to 6 for Sunday, UTC: day_of_week(ts\"2026-03-01T13:45Z\") is 6", CTR_OP_LIFT,
      CTR_VARIANTS({ "T>i", loop_day }) },
    { "age", "age(time, since: time) -> duration",
      "how long before time `since` was, time - since: age(ts\"2026-03-01T00:00:05Z\", ts\"2026-03-01T00:00Z\") is "
      "5000",
      CTR_OP_LIFT, CTR_VARIANTS({ "TT>d", loop_age }) },
    { NULL },
};
