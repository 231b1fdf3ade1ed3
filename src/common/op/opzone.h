/* SPDX-License-Identifier: Apache-2.0
 *
 * opzone: time zones for operators, internal to the operators. */
#ifndef CTR_OPZONE_H
#define CTR_OPZONE_H

#include "common/op/loop_time.h"

/* Parameters of a call with that zone (NULL: UTC): calloc'ed, *bytes long, without a format. A zone is an IANA name,
 * which is looked up in $TZDIR or /usr/share/zoneinfo, "UTC", or an offset such as "+05:30"; `op` is for messages. */
int ctr_op_zone(const char *op, const struct ctr_str *zone, struct op_time **out, size_t *bytes,
                struct ctr_err *err) CTR_MUST;

#endif
