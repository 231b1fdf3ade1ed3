/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions of --where and --add over columns of every type, and the lists of --columns. */
#include "harness.h"

#include "common/plan/plan.h"
#include "common/rows/select.h"

static void evaluate(const char *text)
{
    struct ctr_expr *e = NULL;
    struct ctr_err err = { 0 };
    const struct ctr_batch *b = fuzz_batch();
    const struct ctr_col *c;
    if (ctr_expr_compile(&e, "--where", text, b->schema, NULL, &err) < 0) {
        FUZZ_CHECK(err.what[0]);
        return;
    }
    if (ctr_expr_eval(e, b, &c, &err) >= 0) {
        struct ctr_schema s = { .f = (struct ctr_field *)(uintptr_t)ctr_expr_field(e), .n = 1 };
        FUZZ_CHECK(c->rows == b->rows);
        fuzz_look(&(struct ctr_batch){ .schema = &s, .rows = c->rows, .col = c });
    }
    ctr_expr_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct ctr_picks picks = { 0 };
    struct ctr_err err = { 0 };
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (size && text[0] == '\f') /* never in an expression */
        FUZZ_CHECK(ctr_columns_parse(&picks, text + 1, fuzz_batch()->schema, &err) >= 0 || err.what[0]);
    else
        evaluate(text);
    ctr_picks_free(&picks);
    free(text);
    return 0;
}
