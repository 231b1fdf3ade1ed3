/* SPDX-License-Identifier: Apache-2.0
 *
 * kind: the format of a file by its first bytes, for names that say nothing. */
#ifndef CTR_IMPORT_KIND_H
#define CTR_IMPORT_KIND_H

#include <stdbool.h>

/* A word of --format, or "stream" for an Arrow stream or file; NULL: not known, or `path` ("-": stdin) is no regular
 * file, whose bytes would be gone. */
const char *ctr_import_kind(const char *path);

#endif
