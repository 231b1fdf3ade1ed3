/* SPDX-License-Identifier: Apache-2.0
 *
 * reread: names of copied inputs within the scaffold (ctr_cli_reread is in cli.h). */
#ifndef CTR_REREAD_H
#define CTR_REREAD_H

#include "common/cli/cli.h"

/* Replace the name of a copy in a message by the name that the user typed. */
void ctr_cli_names(const struct ctr_cli *cli, char *text, size_t size);

#endif
