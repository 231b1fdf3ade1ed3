/* SPDX-License-Identifier: Apache-2.0
 *
 * selectsource: select as a stage over a source of batches. */
#include "common/rows/select.h"

#include <stdlib.h>

struct selected {
    struct ctr_batch_source below;
    struct ctr_select *select;
};

static const struct ctr_schema *selected_schema(const void *source)
{
    return ctr_select_schema(((const struct selected *)source)->select);
}

static void selected_close(void *source)
{
    struct selected *s = source;
    ctr_select_free(s->select);
    ctr_batch_source_close(&s->below);
    free(s);
}

/* Skips batches without selected rows. */
static int selected_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct selected *s = source;
    for (;;) {
        const struct ctr_batch *in;
        const uint8_t *taken;
        int rc;
        while ((rc = ctr_select_next(s->select, b, &taken, err)) > 0)
            if ((*b)->rows)
                return rc;
        if (!rc && (rc = ctr_batch_source_next(&s->below, &in, err)) <= 0)
            return rc;
        if (rc > 0)
            rc = ctr_select_batch(s->select, in, err);
        if (rc < 0) {
            ctr_err_file(err, ctr_batch_source_name(&s->below));
            return rc;
        }
    }
}

int ctr_select_source(struct ctr_batch_source *s, const struct ctr_select_spec *spec, struct ctr_select **stage,
                      struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { selected_schema, selected_next, NULL, selected_close, NULL };
    struct selected *new = calloc(1, sizeof *new);
    int n, rc = new ? ctr_select_new(&new->select, spec, ctr_batch_source_schema(s), err)
                    : ctr_fail_nomem(err, sizeof *new);
    if (!rc) {
        const int *inputs = ctr_select_inputs(new->select, &n);
        rc = ctr_batch_source_project(s, inputs, n, err);
        if (rc)
            ctr_err_file(err, ctr_batch_source_name(s));
    }
    if (rc) {
        if (new)
            selected_close(new);
        return rc;
    }
    if (stage)
        *stage = new->select;
    new->below = *s;
    *s = (struct ctr_batch_source){ &ops, new };
    return 0;
}
