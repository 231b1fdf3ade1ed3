/* SPDX-License-Identifier: Apache-2.0
 *
 * words: what a filter does on a command line, a statement does in a plan; each has its words, and messages use those
 * of the user: `ctr_word(o->in_plan, "--sort")` is "--sort" for a filter and "sort" for a statement. Where the words
 * differ by more than the dashes, ctr_words has both. */
#ifndef CTR_WORDS_H
#define CTR_WORDS_H

#include <stdbool.h>

static inline const char *ctr_words(bool in_plan, const char *filter, const char *plan)
{
    return in_plan ? plan : filter;
}

/* `option` begins with "--". */
static inline const char *ctr_word(bool in_plan, const char *option)
{
    return in_plan ? option + 2 : option;
}

#endif
