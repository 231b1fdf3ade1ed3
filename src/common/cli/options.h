/* SPDX-License-Identifier: Apache-2.0
 *
 * options: internal to the scaffold: a single iteration over all option tables, used by parsing, help and
 * completion. */
#ifndef CTR_OPTIONS_H
#define CTR_OPTIONS_H

#include "common/cli/cli.h"

#include <stdio.h>

/* The tables of role and common options, bound to one cli. */
struct ctr_option_tables {
    struct ctr_opt roles[9], common[16];
    const struct ctr_opt *own; /* of the tool, or of its first argument: set by ctr_options_parse */
    const char *word;          /* tools with opts_of: that first argument, or NULL */
};

/* Parses argv into the targets and cli->args. */
int ctr_options_parse(struct ctr_cli *cli, struct ctr_option_tables *t, int argc, char **argv,
                      struct ctr_err *err) CTR_MUST;
/* Free the contents of lists that tools have not taken over. */
void ctr_options_free(const struct ctr_option_tables *t);
/* Print --help; `all`: --help=all, the options that few users need, too. */
void ctr_options_help(const struct ctr_tool *tool, const struct ctr_option_tables *t, bool all, FILE *f);
/* One line per option for completion scripts: "--name<TAB>-l<TAB>kind<TAB>argument<TAB>help". The argument is "a|b|c"
 * for the kinds choice and list (a comma list of these), for "<TAB><TAB>word", the first argument, and for a flag that
 * may have a value. */
void ctr_options_list(const struct ctr_tool *tool, const struct ctr_option_tables *t, FILE *f);

#endif
