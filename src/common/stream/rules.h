/* SPDX-License-Identifier: Apache-2.0
 *
 * rules: what a stage needs of the values of a row. A row that breaks a rule is a bad row: stream/badrows.h says what
 * becomes of it. */
#ifndef CTR_RULES_H
#define CTR_RULES_H

#include "common/stream/batch.h"

/* By role. Label and score: a number in [0, 1]. Weight: finite and not negative. Dense: numbers, or null, neither NaN
 * nor infinite. Feature: the same of the weights of its keys. Others: not null. */
struct ctr_rule {
    int column; /* of the batch */
    enum ctr_role role;
    const char *name;
    bool made;           /* the column is the result of an expression, which `name` names */
    bool single;         /* dense: as float32 */
    const char *aligned; /* or NULL; feature: instead, a row's list is as long as that of column `first`; the group */
    int first;
    const char *first_name;
};

enum ctr_fault {
    CTR_FAULT_NULL,
    CTR_FAULT_NUMBER,
    CTR_FAULT_LARGE, /* a finite number that float32 makes infinite */
    CTR_FAULT_RANGE,
    CTR_FAULT_NEGATIVE,
    CTR_FAULT_LENGTH,
    CTR_NFAULTS
};
extern const char *const ctr_faults[CTR_NFAULTS]; /* "null", "NaN or infinite", … */

/* For each row i of a batch: 0, or 1 + the number of the first rule that it breaks. Returns whether some do. */
bool ctr_rules_mark(const struct ctr_rule *rule, int n, const struct ctr_batch *b, uint16_t *broken);
/* What is wrong with row i, as in "the label (column click) is null", and what else to say about it, or "". */
struct ctr_rule_text {
    enum ctr_fault fault;
    char what[512], hint[200];
};
/* The first number of row i of a column, or weight of a key, that is neither null nor finite (single: as float32): its
 * place in *of, the values, items or weights; -1: there is none. */
int64_t ctr_number_bad(const struct ctr_batch *b, int column, int64_t i, bool single, const struct ctr_col **of);
/* Why number `at` of c, the values, items or weights of a column, is bad. */
void ctr_number_why(const struct ctr_col *c, int64_t at, const char *column, struct ctr_rule_text *to);
void ctr_rule_why(const struct ctr_rule *rule, const struct ctr_batch *b, int64_t i, struct ctr_rule_text *to);

/* ---- what becomes of bad rows ---- */

enum ctr_bad_kind { CTR_BAD_FAIL, CTR_BAD_SKIP, CTR_BAD_QUARANTINE };
struct ctr_bad_policy {
    enum ctr_bad_kind kind;
    int64_t most;     /* CTR_BAD_SKIP: that many are left out, one more is an error */
    const char *file; /* CTR_BAD_QUARANTINE; part of the text */
};
/* "fail" (or NULL), "skip=MAX" or "quarantine=FILE"; else CTR_EUSAGE. */
int ctr_bad_policy_parse(struct ctr_bad_policy *p, const char *text, struct ctr_err *err) CTR_MUST;
/* The error of a row too many; `where`: "row" or "line". */
int ctr_bad_policy_exceeded(const struct ctr_bad_policy *p, const char *where, int64_t number, const char *why,
                            struct ctr_err *err);

#endif
