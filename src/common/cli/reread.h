/* SPDX-License-Identifier: Apache-2.0
 *
 * reread: what the scaffold does with the names of copies (ctr_cli_reread is in cli.h). */
#ifndef CTR_REREAD_H
#define CTR_REREAD_H

#include "common/cli/cli.h"

/* Refuse an input (NULL, "-": stdin) that is -o as well. */
int ctr_cli_read(struct ctr_cli *cli, const char *path, struct ctr_err *err) CTR_MUST;
/* In a message, the name that was typed instead of that of the copy. */
void ctr_cli_names(const struct ctr_cli *cli, char *text, size_t size);

#endif
