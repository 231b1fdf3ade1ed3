/* SPDX-License-Identifier: Apache-2.0
 *
 * vectors: the column of vectors of a stream. See retrieval.h. */
#include "tools/ctr-predict/retrieval.h"

#include <math.h>
#include <stdio.h>

static bool is_vector(const struct ctr_field *f)
{
    return f->type == CTR_FIXED && f->item == CTR_F32 && ctr_meta_get(&f->meta, CTR_META_TOWER);
}

int ctr_vectors_find(struct ctr_vectors *v, const struct ctr_schema *s, const char *side, const char *name,
                     struct ctr_err *err)
{
    double bias;
    *v = (struct ctr_vectors){ .column = -1 };
    for (int i = 0; i < s->n; i++) {
        if (!is_vector(&s->f[i]))
            continue;
        if (v->column >= 0)
            return ctr_fail(err, CTR_EUSAGE, "%.200s: columns '%s' and '%s' both hold vectors: leave one out", name,
                            s->f[v->column].name, s->f[i].name);
        v->column = i;
    }
    if (v->column < 0)
        return ctr_fail(err, CTR_EUSAGE, "%.200s: no column holds vectors: ctr-predict --tower %s makes them", name,
                        side);
    const struct ctr_field *f = &s->f[v->column];
    const char *tower = ctr_meta_get(&f->meta, CTR_META_TOWER), *text = ctr_meta_get(&f->meta, CTR_META_TOWER_BIAS);
    const char *model = ctr_meta_get(&f->meta, CTR_META_TOWER_MODEL);
    if (strcmp(tower, side) != 0)
        return ctr_fail(err, CTR_EUSAGE, "%.200s: these are vectors of the %.20s, those of the %s are wanted here",
                        name, tower, side);
    if (!model || !text || !ctr_parse_f64(text, strlen(text), &bias) || !(fabs(bias) < 1e38))
        return ctr_fail(err, CTR_EDATA,
                        "%.200s: column '%s' does not say which model made it: make it anew with "
                        "ctr-predict --tower %s",
                        name, f->name, side);
    v->width = f->width;
    v->bias = (float)bias;
    snprintf(v->model, sizeof v->model, "%s", model);
    return 0;
}

int ctr_vectors_fit(const struct ctr_vectors *user, const struct ctr_vectors *ad, struct ctr_err *err)
{
    if (!strcmp(user->model, ad->model) && user->width == ad->width)
        return 0;
    return ctr_fail(err, CTR_EDATA,
                    "the vectors of the users are of model %s, those of the ads of model %s: make both with one model",
                    user->model, ad->model);
}
