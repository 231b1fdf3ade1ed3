/* SPDX-License-Identifier: Apache-2.0
 *
 * reread: what the scaffold does with the names of copies (ctr_cli_reread is in cli.h). */
#ifndef CTR_REREAD_H
#define CTR_REREAD_H

#include "common/cli/cli.h"

/* In a message, the name that was typed instead of that of the copy. */
void ctr_cli_names(const struct ctr_cli *cli, char *text, size_t size);

#endif
