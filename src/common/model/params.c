/* SPDX-License-Identifier: Apache-2.0
 *
 * params: the options of a model, driven by its option table: conversion to text, checks and comparison. */
#include <stddef.h>
#include <stdio.h>

#include "common/model/model.h"

enum { TEXT_MAX = CTR_MAX_LAYERS * 8 + CTR_NUM_MAX };

static void *value_of(const struct ctr_params *p, const struct ctr_param *o)
{
    return (char *)(uintptr_t)p + o->at;
}

static const char *word_of(const char *const *words, const char *text, size_t n)
{
    for (; *words; words++)
        if (strlen(*words) == n && !memcmp(*words, text, n))
            return *words;
    return NULL;
}

static bool in_range(const struct ctr_params *p, const struct ctr_param *o)
{
    switch (o->kind) {
    case CTR_PARAM_REAL: {
        double v = *(const double *)value_of(p, o);
        return v >= o->least && v < o->most;
    }
    case CTR_PARAM_INT:
    case CTR_PARAM_BYTES: {
        double v = (double)*(const int64_t *)value_of(p, o);
        return v >= o->least && v <= o->most;
    }
    case CTR_PARAM_WORD: {
        const char *v = *(const char *const *)value_of(p, o);
        return v && word_of(o->words, v, strlen(v));
    }
    case CTR_PARAM_SIZES: {
        const struct ctr_sizes *v = value_of(p, o);
        bool right = v->n >= 0 && v->n <= CTR_MAX_LAYERS;
        for (int i = 0; i < v->n && right; i++)
            right = v->size[i] >= 1 && v->size[i] <= CTR_MAX_UNITS;
        return right;
    }
    default: return true;
    }
}

bool ctr_sizes_parse(struct ctr_sizes *s, const char *text, size_t n)
{
    int64_t v;
    *s = (struct ctr_sizes){ 0 };
    if (n == 1 && *text == '0')
        return true;
    for (const char *end = text + n; text <= end;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        size_t len = (size_t)((comma ? comma : end) - text);
        if (s->n == CTR_MAX_LAYERS || !ctr_parse_i64(text, len, &v) || v < 1 || v > CTR_MAX_UNITS)
            return false;
        s->size[s->n++] = (int32_t)v;
        text += len + 1;
    }
    return true;
}

bool ctr_model_takes(const struct ctr_model *m, const struct ctr_param *o)
{
    return !(m->by_minibatches && o->flags & CTR_PARAM_ROWWISE);
}

const char *ctr_model_how(const struct ctr_model *m)
{
    return m->by_minibatches ? " by minibatches" : "";
}

static const char *saved_name(const struct ctr_param *o)
{
    return o->saved_as ? o->saved_as : o->name;
}

/* Row i of those that a model's file can contain; NULL past the end. */
static const struct ctr_param *saved_at(const struct ctr_model *m, int i)
{
    for (const struct ctr_param *o = m->options; o->name; o++)
        if (!(o->flags & CTR_PARAM_UNSAVED) && ctr_model_takes(m, o) && i-- == 0)
            return o;
    return NULL;
}

static const struct ctr_param *saved_find(const struct ctr_model *m, struct ctr_str name)
{
    const struct ctr_param *o;
    for (int i = 0; (o = saved_at(m, i)); i++)
        if (strlen(saved_name(o)) == name.n && !memcmp(saved_name(o), name.p, name.n))
            return o;
    return NULL;
}

int ctr_params_check(const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err)
{
    for (const struct ctr_param *o = m->options; o->name; o++)
        if (ctr_model_takes(m, o) && !in_range(p, o))
            return ctr_fail(err, CTR_EUSAGE, "--%s must be %s", saved_name(o), o->range);
    return 0;
}

/* The value as text. */
static void print_value(const struct ctr_params *p, const struct ctr_param *o, char text[TEXT_MAX])
{
    const void *v = value_of(p, o);
    if (o->kind == CTR_PARAM_SIZES) {
        const struct ctr_sizes *s = v;
        size_t at = 0;
        for (int i = 0; i < s->n; i++) {
            at += i > 0;
            text[at - (i > 0)] = ',';
            at += ctr_fmt_i64(text + at, s->size[i]);
        }
        snprintf(text + at, 2, "%s", s->n ? "" : "0");
    } else if (o->kind == CTR_PARAM_REAL)
        text[ctr_fmt_f64(text, *(const double *)v)] = 0;
    else if (o->kind == CTR_PARAM_INT || o->kind == CTR_PARAM_BYTES)
        text[ctr_fmt_i64(text, *(const int64_t *)v)] = 0;
    else
        snprintf(text, TEXT_MAX, "%s",
                 o->kind == CTR_PARAM_FLAG ? o->words[*(const bool *)v] : *(const char *const *)v);
}

static bool parse_value(struct ctr_params *p, const struct ctr_param *o, const char *text, size_t n)
{
    const char *word = o->words ? word_of(o->words, text, n) : NULL;
    switch (o->kind) {
    case CTR_PARAM_REAL: return ctr_parse_f64(text, n, value_of(p, o));
    case CTR_PARAM_INT:
    case CTR_PARAM_BYTES: return ctr_parse_i64(text, n, value_of(p, o));
    case CTR_PARAM_SIZES: return ctr_sizes_parse(value_of(p, o), text, n);
    case CTR_PARAM_FLAG: *(bool *)value_of(p, o) = word == o->words[1]; return word;
    case CTR_PARAM_WORD: *(const char **)value_of(p, o) = word; return word;
    default: return false; /* not saved in files */
    }
}

/* Set a default, given as typed. */
static void set_usual(struct ctr_params *p, const struct ctr_param *o, const char *text)
{
    if (text && o->kind == CTR_PARAM_BYTES)
        (void)ctr_parse_size(text, value_of(p, o));
    else if (text)
        (void)parse_value(p, o, text, strlen(text));
}

void ctr_params_reset(const struct ctr_model *m, const struct ctr_param *o, struct ctr_params *p)
{
    set_usual(p, o, m->by_minibatches && o->usually ? o->usually : o->usual);
}

struct ctr_params ctr_params_usual(const struct ctr_model *m)
{
    struct ctr_params p = { .threads = 1 };
    for (const struct ctr_param *o = m->options; o->name; o++)
        ctr_params_reset(m, o, &p);
    return p;
}

int ctr_params_text(const struct ctr_model *m, const struct ctr_params *p, struct ctr_buf *out, struct ctr_err *err)
{
    const struct ctr_param *o;
    const char *space = "";
    for (int i = 0; (o = saved_at(m, i)); i++) {
        struct ctr_params without = { 0 };
        char v[TEXT_MAX], u[TEXT_MAX] = "";
        print_value(p, o, v);
        set_usual(&without, o, o->unsaved);
        if (o->unsaved)
            print_value(&without, o, u);
        if (!strcmp(u, v))
            continue;
        int rc = ctr_buf_printf(out, err, "%s%s=%s", space, saved_name(o), v);
        if (rc)
            return rc;
        space = " ";
    }
    return 0;
}

int ctr_params_set(const struct ctr_model *m, struct ctr_params *p, struct ctr_str name, struct ctr_str value,
                   struct ctr_err *err)
{
    const struct ctr_param *o = saved_find(m, name);
    if (!o)
        return ctr_fail(err, CTR_EUSAGE, "there is no option '%.*s'", (int)CTR_MIN(name.n, 80), name.p);
    if (parse_value(p, o, value.p, value.n) && in_range(p, o))
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "%s must be %s, not '%.*s'", saved_name(o), o->range, (int)CTR_MIN(value.n, 80),
                    value.p);
}

int ctr_params_parse(const struct ctr_model *m, struct ctr_params *p, const char *text, struct ctr_err *err)
{
    struct ctr_err inner = { 0 };
    const struct ctr_param *o;
    *p = ctr_params_usual(m);
    for (int i = 0; (o = saved_at(m, i)); i++)
        set_usual(p, o, o->unsaved);
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, " "), eq = strcspn(s, "= ");
        o = saved_find(m, (struct ctr_str){ s, eq });
        if (eq == n || !o || !parse_value(p, o, s + eq + 1, n - eq - 1))
            return ctr_fail(err, CTR_EDATA, "the model's option '%.*s' is unknown to this version", (int)n, s);
        s += n + strspn(s + n, " ");
    }
    if (ctr_params_check(m, p, &inner))
        return ctr_fail(err, CTR_EDATA, "the model's options are damaged: %s", inner.what);
    return 0;
}
