/* SPDX-License-Identifier: Apache-2.0
 *
 * local: times as the clocks of a zone show them, for readers of text; operators have the same (parse_time).
 *
 *     ctr_local_open(&l, "Europe/Paris", what, err)    what: the option, for messages
 *     ctr_local_parse_cut(l, p, n, &ms, &cut)
 *     free(l)
 */
#ifndef CTR_LOCAL_H
#define CTR_LOCAL_H

#include "common/base/base.h"

struct ctr_local;
/* An IANA name, which is looked up in $TZDIR or /usr/share/zoneinfo, "UTC", or an offset such as "+05:30". */
int ctr_local_open(struct ctr_local **l, const char *zone, const char *what, struct ctr_err *err) CTR_MUST;
/* ISO 8601, as ctr_time_parse_cut; a zone in the text wins. False: the text is none. */
bool ctr_local_parse_cut(const struct ctr_local *l, const char *p, size_t n, int64_t *ms, bool *cut);

#endif
