/* SPDX-License-Identifier: Apache-2.0
 *
 * spool: stores a stream in an unlinked temporary file, to read it a second time. Private to stages that need two
 * passes over a pipe. */
#ifndef CTR_SPOOL_H
#define CTR_SPOOL_H

#include "common/stream/stream.h"

struct ctr_spool;
int ctr_spool_new(struct ctr_spool **s, const struct ctr_schema *schema, struct ctr_err *err) CTR_MUST;
int ctr_spool_batch(struct ctr_spool *s, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
/* After the last batch: *r reads them back, as often as it is asked for; the caller frees it before the spool. */
int ctr_spool_reread(struct ctr_spool *s, struct ctr_reader **r, struct ctr_err *err) CTR_MUST;
void ctr_spool_free(struct ctr_spool *s);

#endif
