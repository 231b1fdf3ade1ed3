/* SPDX-License-Identifier: Apache-2.0
 *
 * modeloptions: builds a tool's option table from the tables of models. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/ctr-train/modeloptions.h"

static const char *const groups[] = { CTR_GROUP_MODEL,   CTR_GROUP_OPTIMIZER, CTR_GROUP_REGULARISE,
                                      CTR_GROUP_INPUT,   CTR_GROUP_PASSES,    CTR_GROUP_MEMORY,
                                      CTR_GROUP_OUTPUTS, CTR_GROUP_RESTART,   CTR_GROUP_MANY };

static const enum ctr_opt_kind kinds[] = {
    [CTR_PARAM_REAL] = CTR_OPT_REAL,   [CTR_PARAM_INT] = CTR_OPT_INT,   [CTR_PARAM_BYTES] = CTR_OPT_SIZE,
    [CTR_PARAM_WORD] = CTR_OPT_CHOICE, [CTR_PARAM_FLAG] = CTR_OPT_FLAG, [CTR_PARAM_SIZES] = CTR_OPT_READ,
    [CTR_PARAM_FILE] = CTR_OPT_STR,    [CTR_PARAM_RULE] = CTR_OPT_READ, [CTR_PARAM_TEXT] = CTR_OPT_STR,
    [CTR_PARAM_FOLDER] = CTR_OPT_STR,
};

static int read_sizes(void *to, const char *text, struct ctr_err *err)
{
    return ctr_sizes_parse(to, text, strlen(text))
               ? 0
               : ctr_cli_usage(err, "wants sizes of layers such as 200,80, each 1 to %d, or 0", CTR_MAX_UNITS);
}

static bool has(const struct ctr_model_opts *t, const char *name)
{
    int i = 0;
    while (i < t->n && strcmp(t->opt[i].name, name))
        i++;
    return i < t->n;
}

/* Every command line comes here, so no table that is too long passes a test. */
static void need_room(const struct ctr_model_opts *t, const char *name)
{
    if (t->n < CTR_MODEL_OPTS_MAX)
        return;
    fprintf(stderr, "no room for --%s: raise CTR_MODEL_OPTS_MAX\n", name);
    abort();
}

void ctr_model_opts_add(struct ctr_model_opts *t, const struct ctr_opt *o)
{
    need_room(t, o->name);
    t->opt[t->n++] = *o;
}

/* "a|b|c" */
static void join_words(const char *const *words, char *to, size_t size)
{
    size_t at = 0;
    for (int i = 0; words[i] && at < size; i++)
        at += (size_t)snprintf(to + at, size - at, "%s%s", i ? "|" : "", words[i]);
}

/* The help text, with range and default. */
static void write_help(const struct ctr_param *o, char *to, size_t size)
{
    const bool number = o->range && o->unit, tells = o->usual && o->kind != CTR_PARAM_FLAG;
    snprintf(to, size, "%s%s%s%s%s%s%s", o->help, number || tells ? " (" : "", number ? o->range : "",
             number && tells ? "; " : "", tells ? "default " : "", tells ? o->usual : "", number || tells ? ")" : "");
}

static unsigned flags_of(const struct ctr_param *o)
{
    const bool path = o->kind == CTR_PARAM_FILE || o->kind == CTR_PARAM_FOLDER;
    return (path                         ? CTR_OPT_PATH
            : o->flags & CTR_PARAM_LOCAL ? CTR_OPT_LOCAL
                                         : 0) |
           (o->flags & CTR_PARAM_BASIC ? CTR_OPT_BASIC : 0);
}

void ctr_model_opts_take(struct ctr_model_opts *t, const struct ctr_model *m, struct ctr_params *p)
{
    for (const struct ctr_param *o = m->options; o->name; o++) {
        const int i = t->n;
        if (o->flags & CTR_PARAM_UNTYPED || has(t, o->name))
            continue;
        need_room(t, o->name);
        write_help(o, t->help[i], sizeof t->help[i]);
        if (o->kind == CTR_PARAM_WORD)
            join_words(o->words, t->arg[i], sizeof t->arg[i]);
        ctr_model_opts_add(t, &(struct ctr_opt){ .name = o->name,
                                                 .kind = kinds[o->kind],
                                                 .arg = o->kind == CTR_PARAM_WORD ? t->arg[i] : o->unit,
                                                 .help = t->help[i],
                                                 .to = (char *)p + o->at,
                                                 .flags = flags_of(o),
                                                 .needs = o->needs,
                                                 .group = o->group,
                                                 .read = o->read ? o->read : read_sizes });
    }
}

static int place_of(const struct ctr_opt *o)
{
    int i = 0;
    while (i < (int)CTR_COUNT(groups) && strcmp(groups[i], o->group))
        i++;
    return i;
}

const struct ctr_opt *ctr_model_opts_done(struct ctr_model_opts *t)
{
    for (int i = 1; i < t->n; i++) {
        const struct ctr_opt o = t->opt[i];
        int k = i;
        for (; k > 0 && place_of(&t->opt[k - 1]) > place_of(&o); k--)
            t->opt[k] = t->opt[k - 1];
        t->opt[k] = o;
    }
    return t->opt;
}

int ctr_model_opts_read(const struct ctr_model *m, struct ctr_cli *cli, const struct ctr_params *p, struct ctr_err *err)
{
    int rc = 0;
    for (const struct ctr_param *o = m->options; o->name && !rc; o++) {
        const char *path = o->kind == CTR_PARAM_FILE ? *(const char *const *)((const char *)p + o->at) : NULL;
        rc = path ? ctr_cli_read(cli, path, err) : 0;
    }
    return rc;
}

int ctr_model_opts_fit(const struct ctr_model *m, const struct ctr_cli *cli, struct ctr_params *p, struct ctr_err *err)
{
    for (const struct ctr_param *o = m->options; o->name; o++) {
        const bool given = ctr_cli_given(cli, o->name);
        if (given && !ctr_model_takes(m, o))
            return ctr_cli_usage(err, "%s%s takes no --%s: leave it or --minibatch out", m->name, ctr_model_how(m),
                                 o->name);
        if (!given && o->usually)
            ctr_params_reset(m, o, p);
    }
    return 0;
}
