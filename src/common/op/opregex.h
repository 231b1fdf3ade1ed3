/* SPDX-License-Identifier: Apache-2.0
 *
 * opregex: regular expressions for operators, internal to the operators: pattern -> program (op_regex_compile.c) ->
 * table of states (op_regex_dfa.c). */
#ifndef CTR_OPREGEX_H
#define CTR_OPREGEX_H

#include "common/op/loop_regex.h"

/* Fills everything of *re but the states. The error names operator, place in the pattern and remedy. */
int ctr_regex_compile(const char *op, const struct ctr_str *pattern, struct opv_regex *re,
                      struct ctr_err *err) CTR_MUST;
/* The table of states: re->state and nstates, and *next (nstates * nsymbols of them, malloc'ed). No states and no
 * error: there would be too many, or the pattern has \b. */
int ctr_regex_states(struct opv_regex *re, uint16_t **next, struct ctr_err *err) CTR_MUST;

#endif
