/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of models, and their options as text. */
#include "common/model/model.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "common/lr/optimizer.h"

static const struct ctr_model *const models[] = {
    &ctr_model_lr,
    &ctr_model_mlp,
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

static const char *const norms[] = { "none", "l1", "l2", "max", NULL };
static const char *const biases[] = { "yes", "no", NULL };
static const char *const activations[] = { "prelu", "relu", "dice", NULL };
static const char *const no_yes[] = { "no", "yes", NULL };

enum kind { REAL, INT, WORD, FLAG, SIZES };
enum { TEXT_MAX = CTR_MAX_LAYERS * 8 + CTR_NUM_MAX };

/* The options of ctr_params under their names in a model file. */
static const struct param {
    const char *name;
    enum kind kind;
    size_t at;
    double least, most;       /* REAL, INT */
    const char *const *words; /* WORD; of FLAG: false, true */
    const char *must;         /* the range in words */
    bool always;              /* written even when it has its default, if the model takes it */
    const char *typed;        /* what the option is called where it is typed, if that is not its name */
} params[] = {
#define AT(member) offsetof(struct ctr_params, member)
    { "alpha", REAL, AT(alpha), 0x1p-1074, INFINITY, NULL, "above 0", true },
    { "beta", REAL, AT(beta), 0, INFINITY, NULL, "0 or more", true },
    { "l1", REAL, AT(l1), 0, INFINITY, NULL, "0 or more", true },
    { "l2", REAL, AT(l2), 0, INFINITY, NULL, "0 or more", true },
    { "precision", WORD, AT(precision), 0, 0, ctr_precision_names, "f64, f32 or q2.13", true },
    { "bias", FLAG, AT(no_bias), 0, 0, biases, "yes or no", true, "no-bias" },
    { "minibatch", INT, AT(minibatch), 1, CTR_MAX_MINIBATCH, NULL, "1 to 65536 rows", false },
    { "hash-bits", INT, AT(hash_bits), 0, 32, NULL, "1 to 32, or 0 for none", false },
    { "dropout", REAL, AT(dropout), 0, 1, NULL, "0 or more and below 1", false },
    { "normalize", WORD, AT(normalize), 0, 0, norms, "none, l1, l2 or max", false },
    { "inclusion-poisson", REAL, AT(poisson), 0, 1 + 0x1p-52, NULL, "at most 1", false, "inclusion" },
    { "inclusion-bloom", INT, AT(bloom), 0, CTR_MAX_BLOOM, NULL, "at most 15", false, "inclusion" },
    { "inclusion-memory", INT, AT(bloom_bytes), 4096, 0x1p46, NULL, "4K or more", false },
    { "optimizer", WORD, AT(optimizer), 0, 0, ctr_optimizer_names, "ftrl, ogd, rda, fobos or ogd-count", false },
    { "learning-rate", WORD, AT(learning_rate), 0, 0, ctr_rate_names, "per-coordinate, counts or global", false },
    { "power", REAL, AT(power), 0x1p-1074, 1 + 0x1p-52, NULL, "above 0 and at most 1", false },
    { "threshold", INT, AT(threshold), 0, CTR_MAX_THRESHOLD, NULL, "0 to 1048576 occurrences", false },
    { "expire", INT, AT(expire), 0, 4094, NULL, "at most 4094 days", false },
    { "expire-floor", INT, AT(expire_floor), 0, 0x1p62, NULL, "a number of keys", false },
    { "seed", INT, AT(seed), 0, 0x1p63, NULL, "0 or more", false },
    { "embedding", INT, AT(embedding), 1, 1024, NULL, "1 to 1024", true },
    { "hidden", SIZES, AT(hidden), 0, 0, NULL, "1 to 8 sizes such as 200,80, each 1 to 65536, or 0 for none", true },
    { "activation", WORD, AT(activation), 0, 0, activations, "prelu, relu or dice", true },
    { "batch-norm", FLAG, AT(batch_norm), 0, 0, no_yes, "yes or no", true },
    { "rate", REAL, AT(rate), 0x1p-126, 0x1p126, NULL, "above 0 and below 8e37", true },
    { "decay", REAL, AT(decay), 0x1p-126, 1 + 0x1p-52, NULL, "above 0 and at most 1", true },
    { "decay-every", INT, AT(decay_every), 1, 0x1p62, NULL, "1 or more", true },
#undef AT
};

static void *value_of(const struct ctr_params *p, const struct param *o)
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

static bool in_range(const struct ctr_params *p, const struct param *o)
{
    switch (o->kind) {
    case REAL: {
        double v = *(const double *)value_of(p, o);
        return v >= o->least && v < o->most;
    }
    case INT: {
        double v = (double)*(const int64_t *)value_of(p, o);
        return v >= o->least && v <= o->most;
    }
    case WORD: {
        const char *v = *(const char *const *)value_of(p, o);
        return v && word_of(o->words, v, strlen(v));
    }
    case SIZES: {
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

/* Does the model take this option? It may name it as --no-X, and --X for all of X-…. */
static bool takes(const struct ctr_model *m, const struct param *o)
{
    for (const char *const *name = m->options; *name; name++) {
        const char *word = strncmp(*name, "no-", 3) ? *name : *name + 3;
        const size_t n = strlen(word);
        if (*word == *o->name && !strncmp(o->name, word, n) && (!o->name[n] || o->name[n] == '-'))
            return true;
    }
    return false;
}

int ctr_params_check(const struct ctr_params *p, struct ctr_err *err)
{
    for (size_t i = 0; i < CTR_COUNT(params); i++)
        if (!in_range(p, &params[i]))
            return ctr_fail(err, CTR_EUSAGE, "--%s must be %s", params[i].name, params[i].must);
    return 0;
}

/* The value as text. */
static void print_value(const struct ctr_params *p, const struct param *o, char text[TEXT_MAX])
{
    const void *v = value_of(p, o);
    if (o->kind == SIZES) {
        const struct ctr_sizes *s = v;
        size_t at = 0;
        for (int i = 0; i < s->n; i++) {
            at += i > 0;
            text[at - (i > 0)] = ',';
            at += ctr_fmt_i64(text + at, s->size[i]);
        }
        snprintf(text + at, 2, "%s", s->n ? "" : "0");
    } else if (o->kind == REAL)
        text[ctr_fmt_f64(text, *(const double *)v)] = 0;
    else if (o->kind == INT)
        text[ctr_fmt_i64(text, *(const int64_t *)v)] = 0;
    else
        snprintf(text, TEXT_MAX, "%s", o->kind == FLAG ? o->words[*(const bool *)v] : *(const char *const *)v);
}

int ctr_params_text(const struct ctr_model *m, const struct ctr_params *p, struct ctr_buf *out, struct ctr_err *err)
{
    static const struct ctr_params usual = CTR_PARAMS_DEFAULT;
    const char *space = "";
    for (size_t i = 0; i < CTR_COUNT(params); i++) {
        char v[TEXT_MAX], u[TEXT_MAX];
        if (!takes(m, &params[i]))
            continue;
        print_value(p, &params[i], v);
        print_value(&usual, &params[i], u);
        if (!params[i].always && !strcmp(u, v))
            continue;
        int rc = ctr_buf_printf(out, err, "%s%s=%s", space, params[i].name, v);
        if (rc)
            return rc;
        space = " ";
    }
    return 0;
}

int ctr_params_foreign(const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err)
{
    static const struct ctr_params usual = CTR_PARAMS_DEFAULT;
    for (size_t i = 0; i < CTR_COUNT(params); i++) {
        char v[TEXT_MAX], u[TEXT_MAX];
        print_value(p, &params[i], v);
        print_value(&usual, &params[i], u);
        if (!takes(m, &params[i]) && strcmp(u, v) != 0)
            return ctr_fail(err, CTR_EUSAGE, "%s%s takes no --%s", m->name,
                            m == &ctr_model_lr_device ? " on a GPU" : "",
                            params[i].typed ? params[i].typed : params[i].name);
    }
    return 0;
}

static bool parse_value(struct ctr_params *p, const struct param *o, const char *text, size_t n)
{
    const char *word = o->words ? word_of(o->words, text, n) : NULL;
    switch (o->kind) {
    case REAL: return ctr_parse_f64(text, n, value_of(p, o));
    case INT: return ctr_parse_i64(text, n, value_of(p, o));
    case SIZES: return ctr_sizes_parse(value_of(p, o), text, n);
    case FLAG: *(bool *)value_of(p, o) = word == o->words[1]; return word;
    default: *(const char **)value_of(p, o) = word; return word;
    }
}

static bool parse_one(struct ctr_params *p, const char *name, size_t name_n, const char *v, size_t n)
{
    for (size_t i = 0; i < CTR_COUNT(params); i++)
        if (strlen(params[i].name) == name_n && !memcmp(params[i].name, name, name_n))
            return parse_value(p, &params[i], v, n);
    return false;
}

int ctr_params_set(struct ctr_params *p, struct ctr_str name, struct ctr_str value, struct ctr_err *err)
{
    for (size_t i = 0; i < CTR_COUNT(params); i++)
        if (strlen(params[i].name) == name.n && !memcmp(params[i].name, name.p, name.n)) {
            if (parse_value(p, &params[i], value.p, value.n) && in_range(p, &params[i]))
                return 0;
            return ctr_fail(err, CTR_EUSAGE, "%s must be %s, not '%.*s'", params[i].name, params[i].must,
                            (int)CTR_MIN(value.n, 80), value.p);
        }
    return ctr_fail(err, CTR_EUSAGE, "there is no option '%.*s'", (int)CTR_MIN(name.n, 80), name.p);
}

int ctr_params_parse(struct ctr_params *p, const char *text, struct ctr_err *err)
{
    struct ctr_err inner = { 0 };
    *p = (struct ctr_params)CTR_PARAMS_DEFAULT;
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, " "), eq = strcspn(s, "= ");
        if (eq == n || !parse_one(p, s, eq, s + eq + 1, n - eq - 1))
            return ctr_fail(err, CTR_EDATA, "the model's option '%.*s' is unknown to this version", (int)n, s);
        s += n + strspn(s + n, " ");
    }
    if (ctr_params_check(p, &inner))
        return ctr_fail(err, CTR_EDATA, "the model's options are damaged: %s", inner.what);
    return 0;
}
