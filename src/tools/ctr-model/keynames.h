/* SPDX-License-Identifier: Apache-2.0
 *
 * keynames: the names of keys from a stream of ctr-extract --names, held in memory: 32 bytes per name plus its text. */
#ifndef CTR_KEYNAMES_H
#define CTR_KEYNAMES_H

#include "common/stream/stream.h"

struct ctr_keynames;
int ctr_keynames_open(struct ctr_keynames **names, const char *path, struct ctr_err *err) CTR_MUST;
void ctr_keynames_free(struct ctr_keynames *names);
/* The first name in the stream for a key of a table; p NULL: none. Valid until free. */
struct ctr_str ctr_keynames_get(const struct ctr_keynames *names, const char *table, uint64_t key);

#endif
