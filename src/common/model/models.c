/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of models, and their options as text. */
#include "common/model/model.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

static const struct ctr_model *const models[] = {
    &ctr_model_lr,
};

const struct ctr_model *ctr_model_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(models) ? models[i] : NULL;
}

const struct ctr_model *ctr_model_find(const char *name)
{
    for (size_t i = 0; i < CTR_COUNT(models); i++)
        if (!strcmp(models[i]->name, name))
            return models[i];
    return NULL;
}

/* ---- options ---- */

/* Real options: bounds are the smallest value allowed, and whether it is itself allowed. */
static const struct real {
    const char *name;
    size_t at;
    bool positive;
} reals[] = {
    { "alpha", offsetof(struct ctr_params, alpha), true },
    { "beta", offsetof(struct ctr_params, beta), false },
    { "l1", offsetof(struct ctr_params, l1), false },
    { "l2", offsetof(struct ctr_params, l2), false },
};
static const char *const precisions[] = { "f64", "f32" };

static double *real_of(struct ctr_params *p, const struct real *r)
{
    return (double *)(void *)((char *)p + r->at);
}

static const char *precision_of(const char *text, size_t n)
{
    for (size_t i = 0; i < CTR_COUNT(precisions); i++)
        if (strlen(precisions[i]) == n && !memcmp(precisions[i], text, n))
            return precisions[i];
    return NULL;
}

int ctr_params_check(const struct ctr_params *p, struct ctr_err *err)
{
    for (size_t i = 0; i < CTR_COUNT(reals); i++) {
        double v = *real_of((struct ctr_params *)(uintptr_t)p, &reals[i]);
        if (!(v >= 0 && v < INFINITY) || (reals[i].positive && v == 0))
            return ctr_fail(err, CTR_EUSAGE, "--%s must be %s", reals[i].name,
                            reals[i].positive ? "above 0" : "0 or more");
    }
    if (!precision_of(p->precision, strlen(p->precision)))
        return ctr_fail(err, CTR_EUSAGE, "--precision is f64 or f32");
    if (p->minibatch < 1 || p->minibatch > CTR_MAX_MINIBATCH)
        return ctr_fail(err, CTR_EUSAGE, "--minibatch wants 1 to %d rows", CTR_MAX_MINIBATCH);
    return 0;
}

int ctr_params_text(const struct ctr_params *p, struct ctr_buf *out, struct ctr_err *err)
{
    struct ctr_params copy = *p;
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(reals) && !rc; i++) {
        char v[CTR_NUM_MAX + 1];
        v[ctr_fmt_f64(v, *real_of(&copy, &reals[i]))] = 0;
        rc = ctr_buf_printf(out, err, "%s=%s ", reals[i].name, v);
    }
    if (!rc)
        rc = ctr_buf_printf(out, err, "precision=%s bias=%s", p->precision, p->no_bias ? "no" : "yes");
    if (!rc && p->minibatch > 1)
        rc = ctr_buf_printf(out, err, " minibatch=%lld", (long long)p->minibatch);
    return rc;
}

static int parse_one(struct ctr_params *p, const char *name, size_t name_n, const char *v, size_t n)
{
    for (size_t i = 0; i < CTR_COUNT(reals); i++)
        if (strlen(reals[i].name) == name_n && !memcmp(reals[i].name, name, name_n))
            return ctr_parse_f64(v, n, real_of(p, &reals[i])) ? 0 : -1;
    if (name_n == 9 && !memcmp(name, "precision", 9))
        return (p->precision = precision_of(v, n)) ? 0 : -1;
    if (name_n == 9 && !memcmp(name, "minibatch", 9))
        return ctr_parse_i64(v, n, &p->minibatch) ? 0 : -1;
    if (name_n == 4 && !memcmp(name, "bias", 4)) {
        p->no_bias = n == 2 && !memcmp(v, "no", 2);
        return p->no_bias || (n == 3 && !memcmp(v, "yes", 3)) ? 0 : -1;
    }
    return -1;
}

int ctr_params_parse(struct ctr_params *p, const char *text, struct ctr_err *err)
{
    struct ctr_err inner = { 0 };
    *p = (struct ctr_params)CTR_PARAMS_DEFAULT;
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, " "), eq = strcspn(s, "= ");
        if (eq == n || parse_one(p, s, eq, s + eq + 1, n - eq - 1) || !p->precision)
            return ctr_fail(err, CTR_EDATA, "the model's option '%.*s' is unknown to this version", (int)n, s);
        s += n + strspn(s + n, " ");
    }
    if (ctr_params_check(p, &inner))
        return ctr_fail(err, CTR_EDATA, "the model's options are damaged: %s", inner.what);
    return 0;
}
