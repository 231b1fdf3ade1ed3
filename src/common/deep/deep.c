/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of a deep model: its inputs, its dense parameters in one arena, its memory. See deep.h. */
#include "common/deep/deep.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PARAMETERS = 1 << 26 };

/* A model is shaped once its inputs are known. For mlp with --embedding 8 and --hidden 16 over a key `site`, a list of
 * keys `tags` (mean) and a number `price`:
 *
 *     input     cols  group                       x, a row of the network's input
 *     site         8  0: one key a row            x[0 .. 8)    the vector of the key
 *     tags         8  1: lists                    x[8 .. 16)   the mean of its keys' vectors
 *     price        1                              x[16]        the number
 *
 * The model's `declare` then names its parameters, 0.weight of 16 x 17 and so on, which take consecutive places in
 * one arena: values w, gradients g and Adam's two states have the same layout, so that a step over all of them is one
 * call. Memory that depends on the rows of a minibatch is made by ctr_deep_room, and kept. */

/* ---- inputs ---- */

void ctr_deep_input_free(struct ctr_deep_input *in)
{
    char *text[] = { in->name, in->table, in->history_of, in->group, in->side };
    for (size_t k = 0; k < CTR_COUNT(text); k++)
        free(text[k]);
}

void ctr_deep_inputs_free(struct ctr_deep_input *list, int n)
{
    for (int i = 0; list && i < n; i++)
        ctr_deep_input_free(&list[i]);
    free(list);
}

static int copy_text(char **to, const char *from, struct ctr_err *err)
{
    *to = NULL;
    return from ? ctr_strdup(to, from, err) : 0;
}

/* Copy the metadata of a column. */
static int copy_relations(struct ctr_deep_input *to, const char *history_of, const char *group, const char *side,
                          struct ctr_err *err)
{
    int rc = copy_text(&to->history_of, history_of, err);
    if (!rc)
        rc = copy_text(&to->group, group, err);
    return rc ? rc : copy_text(&to->side, side, err);
}

int ctr_deep_inputs_copy(const struct ctr_deep *from, struct ctr_deep_input **list, struct ctr_err *err)
{
    int rc = 0;
    *list = calloc((size_t)from->inputs + 1, sizeof **list);
    if (!*list)
        return ctr_fail_nomem(err, (size_t)from->inputs * sizeof **list);
    for (int i = 0; i < from->inputs && !rc; i++) {
        const struct ctr_deep_input *in = &from->input[i];
        struct ctr_deep_input *to = &(*list)[i];
        *to = *in;
        to->sequence = 0;
        to->name = to->table = to->history_of = to->group = to->side = NULL;
        rc = ctr_strdup(&to->name, in->name, err);
        if (!rc)
            rc = copy_text(&to->table, in->table, err);
        if (!rc)
            rc = copy_relations(to, in->history_of, in->group, in->side, err);
    }
    if (rc)
        ctr_deep_inputs_free(*list, from->inputs);
    return rc;
}

int ctr_deep_inputs(const struct ctr_inputs *in, const struct ctr_strs *tables, struct ctr_deep_input **list, int *n,
                    struct ctr_err *err)
{
    int rc = 0;
    *n = ctr_inputs_count(in);
    *list = calloc((size_t)*n + 1, sizeof **list);
    if (!*list)
        return ctr_fail_nomem(err, (size_t)*n * sizeof **list);
    for (int i = 0; i < *n && !rc; i++) {
        struct ctr_input_info info = ctr_inputs_info(in, i);
        struct ctr_deep_input *p = &(*list)[i];
        *p = (struct ctr_deep_input){ .list = info.list,
                                      .image = info.image,
                                      .dense = info.dense,
                                      .dense_at = info.dense_at,
                                      .table_at = -1,
                                      .oldest_first = info.oldest_first };
        rc = ctr_strdup(&p->name, info.name, err);
        if (!rc && info.table >= 0)
            rc = ctr_strdup(&p->table, tables->s[info.table], err);
        if (!rc)
            rc = copy_relations(p, info.history_of, info.group, info.side, err);
    }
    if (rc) {
        ctr_deep_inputs_free(*list, *n);
        *list = NULL;
    }
    return rc;
}

/* Set the side of the inputs in the list; an input in both lists and an unknown name are errors. */
static int name_side(struct ctr_deep_input *list, int n, const char *names, const char *side, bool *named,
                     struct ctr_err *err)
{
    char pattern[256];
    for (const char *at = names, *end; at && *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)(end - at), at);
        bool any = false;
        for (int i = 0; i < n; i++) {
            if (!ctr_glob(pattern, list[i].name))
                continue;
            if (named[i] && strcmp(list[i].side, side) != 0)
                return ctr_fail(err, CTR_EUSAGE, "input '%.80s' stands in --user-features and in --ad-features",
                                list[i].name);
            free(list[i].side);
            int rc = copy_text(&list[i].side, side, err);
            if (rc)
                return rc;
            any = named[i] = true;
        }
        if (!any)
            return ctr_fail(err, CTR_EUSAGE, "--%s-features: the stream has no input '%.80s'", side, pattern);
    }
    return 0;
}

int ctr_deep_inputs_sides(struct ctr_deep_input *list, int n, const struct ctr_params *p, struct ctr_err *err)
{
    bool *named = calloc((size_t)n + 1, sizeof *named);
    if (!named)
        return ctr_fail_nomem(err, (size_t)n * sizeof *named);
    int rc = name_side(list, n, p->deep.user_features, "user", named, err);
    if (!rc)
        rc = name_side(list, n, p->deep.ad_features, "ad", named, err);
    free(named);
    return rc;
}

static void describe(const struct ctr_deep_input *p, char text[160])
{
    if (p->table)
        snprintf(text, 160, "%s of table %.60s", p->list ? "lists of keys" : "keys", p->table);
    else
        snprintf(text, 160, "%d numbers", p->dense);
}

/* A model trained without such metadata does not need it. */
static int same_relation(const struct ctr_deep_input *in, const char *what, const char *ours, const char *theirs,
                         struct ctr_err *err)
{
    if (!ours || (theirs && !strcmp(ours, theirs)))
        return 0;
    return ctr_fail(err, CTR_EDATA,
                    "the model's input '%.80s' has the %s '%.80s', the stream's has %s%.80s%s: extract the features "
                    "with the model's plan from columns that say it",
                    in->name, what, ours, theirs ? "'" : "none", theirs ? theirs : "", theirs ? "'" : "");
}

static int same_relations(const struct ctr_deep_input *ours, const struct ctr_deep_input *theirs, struct ctr_err *err)
{
    int rc = same_relation(ours, CTR_META_HISTORY_OF, ours->history_of, theirs->history_of, err);
    if (!rc)
        rc = same_relation(ours, CTR_META_HISTORY, ours->group, theirs->group, err);
    if (rc || !theirs->side) /* set by --user-features, not by the stream */
        return rc;
    return same_relation(ours, CTR_META_SIDE, ours->side, theirs->side, err);
}

static bool has_input(const struct ctr_deep_input *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return true;
    return false;
}

/* An input that the stream lacks, or that the model does not know: for one of its outputs, that of the other side. */
static int other_inputs(const struct ctr_deep *d, const struct ctr_deep_input *list, int n, struct ctr_err *err)
{
    for (int i = 0; i < d->inputs; i++)
        if (!has_input(list, n, d->input[i].name))
            return ctr_fail(err, CTR_EDATA,
                            "the stream lacks the model's input '%.80s': extract the features with the model's plan",
                            d->input[i].name);
    for (int i = 0; i < n; i++)
        if (!has_input(d->input, d->inputs, list[i].name))
            return ctr_fail(err, CTR_EDATA,
                            "the stream's feature '%.80s' is no input of the model%s%s: leave the column out "
                            "(ctr-select --columns)",
                            list[i].name, d->output ? " on the side of " : "", d->output ? d->output->name : "");
    return 0;
}

int ctr_deep_same_inputs(struct ctr_deep *d, const struct ctr_deep_input *list, int n, struct ctr_err *err)
{
    if (other_inputs(d, list, n, err))
        return err->code;
    for (int i = 0; i < d->inputs; i++) { /* both in the order of names */
        struct ctr_deep_input *ours = &d->input[i];
        const struct ctr_deep_input *theirs = &list[i];
        char a[160], b[160];
        describe(ours, a);
        describe(theirs, b);
        if (strcmp(a, b) != 0)
            return ctr_fail(err, CTR_EDATA, "the model's input '%.80s' takes %s, the stream has %s", ours->name, a, b);
        if (same_relations(ours, theirs, err))
            return err->code;
        ours->oldest_first = theirs->oldest_first;
    }
    return 0;
}

int64_t ctr_deep_column_of(const struct ctr_deep *d, int input)
{
    int64_t before = 0;
    if (!d->input[input].table)
        return d->pooled_cols + d->input[input].dense_at;
    for (int i = 0; i < input; i++)
        before += d->input[i].table && !d->input[i].sequence ? d->input[i].cols : 0;
    return before;
}

/* ---- sequences ---- */

int ctr_deep_find_input(const struct ctr_deep *d, const char *name)
{
    for (int i = 0; i < d->inputs; i++)
        if (!strcmp(d->input[i].name, name))
            return i;
    return -1;
}

static bool of_group(const struct ctr_deep *d, int i, int input)
{
    const struct ctr_deep_input *in = &d->input[i], *first = &d->input[input];
    return i == input ||
           (in->table && in->image == first->image && in->group && first->group && !strcmp(in->group, first->group));
}

int ctr_deep_sequence(struct ctr_deep *d, int input, struct ctr_err *err)
{
    if (d->input[input].sequence)
        return d->input[input].sequence - 1;
    if (!d->input[input].table)
        return ctr_fail(err, CTR_EUSAGE, "column '%.80s' has numbers: a sequence is of keys; make it a feature",
                        d->input[input].name);
    struct ctr_deep_sequence *list = realloc(d->sequence, ((size_t)d->sequences + 1) * sizeof *list);
    if (!list)
        return ctr_fail_nomem(err, ((size_t)d->sequences + 1) * sizeof *list);
    d->sequence = list;
    struct ctr_deep_sequence *s = &list[d->sequences++];
    *s = (struct ctr_deep_sequence){ .input = calloc((size_t)d->inputs, sizeof *s->input),
                                     .group = calloc((size_t)d->inputs, sizeof *s->group) };
    if (!s->input || !s->group)
        return ctr_fail_nomem(err, (size_t)d->inputs * sizeof *s->input);
    for (int i = 0; i < d->inputs; i++)
        if (of_group(d, i, input)) {
            d->input[i].sequence = d->sequences;
            s->input[s->fields++] = i;
        }
    d->pooled -= s->fields;
    s->cols = (int64_t)s->fields * d->input[input].cols;
    d->pooled_cols -= (int32_t)s->cols;
    d->x_cols -= (int32_t)s->cols;
    return d->sequences - 1;
}

void ctr_deep_side_by_side(struct ctr_deep *d, int input, int slots, enum ctr_split split)
{
    struct ctr_deep_input *in = &d->input[input];
    const int32_t more = (slots - in->slots) * (in->cols / in->slots);
    in->slots = slots;
    in->split = split;
    in->cols += more;
    d->pooled_cols += more;
    d->x_cols += more;
}

int ctr_deep_keep(struct ctr_deep *d, struct ctr_mem **m, size_t used, size_t bytes, struct ctr_err *err)
{
    return ctr_mem_keep(m, d->dev, used, bytes, err);
}

/* ---- parameters ---- */

int ctr_deep_param(struct ctr_deep *d, enum ctr_deep_init init, bool state, int64_t rows, int64_t cols,
                   struct ctr_err *err, const char *name, ...)
{
    struct ctr_deep_param *list = realloc(d->param, ((size_t)d->params + 1) * sizeof *list);
    va_list ap;
    if (!list)
        return ctr_fail_nomem(err, ((size_t)d->params + 1) * sizeof *list);
    d->param = list;
    struct ctr_deep_param *p = &list[d->params];
    *p = (struct ctr_deep_param){
        .vector = !rows, .rows = CTR_MAX(rows, 1), .cols = cols, .at = d->floats, .init = init, .state = state
    };
    va_start(ap, name);
    vsnprintf(p->name, sizeof p->name, name, ap);
    va_end(ap);
    /* 16 floats: align each to a cache line. */
    d->floats += (p->rows * cols + 15) / 16 * 16;
    if (!state)
        d->learned = d->floats;
    return d->params++;
}

struct ctr_mat ctr_deep_mat(const struct ctr_deep *d, int i)
{
    return ctr_mat_at(d->w, d->param[i].at, d->param[i].rows, d->param[i].cols);
}

struct ctr_mat ctr_deep_mat_grad(const struct ctr_deep *d, int i)
{
    return ctr_mat_at(d->g, d->param[i].at, d->param[i].rows, d->param[i].cols);
}

struct ctr_vec ctr_deep_vec(const struct ctr_deep *d, int i)
{
    return ctr_vec_at(d->w, d->param[i].at, d->param[i].rows * d->param[i].cols);
}

struct ctr_vec ctr_deep_vec_grad(const struct ctr_deep *d, int i)
{
    return ctr_vec_at(d->g, d->param[i].at, d->param[i].rows * d->param[i].cols);
}

/* The initial value of element i: Glorot & Bengio (2010), eq. 16, for weights. */
static float first_value(const struct ctr_deep *d, const struct ctr_deep_param *p, int64_t i)
{
    switch (p->init) {
    case CTR_INIT_ONE: return 1;
    case CTR_INIT_PRELU: return 0.25F;
    case CTR_INIT_GLOROT: {
        double limit = sqrt(6.0 / (double)(p->rows + p->cols));
        uint64_t stream = ctr_hash64(p->name, strlen(p->name), 0);
        return (float)((2 * ctr_random01((uint64_t)d->p.seed, stream, (uint64_t)i) - 1) * limit);
    }
    case CTR_INIT_SMALL: {
        const uint64_t stream = ctr_hash64(p->name, strlen(p->name), 0);
        return (float)((2 * ctr_random01((uint64_t)d->p.seed, stream, (uint64_t)i) - 1) * 0.01);
    }
    default: return 0;
    }
}

static int fill_arena(struct ctr_deep *d, struct ctr_err *err)
{
    float *first = calloc((size_t)d->floats + 1, sizeof *first);
    if (!first)
        return ctr_fail_nomem(err, (size_t)d->floats * sizeof *first);
    for (int i = 0; i < d->params; i++)
        for (int64_t j = 0; j < d->param[i].rows * d->param[i].cols; j++)
            first[d->param[i].at + j] = first_value(d, &d->param[i], j);
    int rc = ctr_mem_write(d->w, 0, first, (size_t)d->floats * sizeof *first, err);
    free(first);
    return rc;
}

static int make_arena(struct ctr_deep *d, struct ctr_err *err)
{
    if (d->floats > MAX_PARAMETERS)
        return ctr_fail(err, CTR_EUSAGE,
                        "%" PRId64 " dense parameters: at most %d are allowed; make --hidden or --embedding smaller",
                        d->floats, MAX_PARAMETERS);
    size_t all = (size_t)d->floats * sizeof(float), learned = (size_t)d->learned * sizeof(float);
    int rc = ctr_mem_new(&d->w, d->dev, all, err);
    struct ctr_mem **const kept[] = { &d->g, &d->s1, &d->s2 };
    for (size_t i = 0; i < (d->explains ? 1 : CTR_COUNT(kept)) && !rc && d->learns; i++)
        rc = ctr_mem_new(kept[i], d->dev, learned, err);
    if (!rc && ctr_deep_trains(d))
        rc = ctr_mem_new(&d->bad, d->dev, sizeof(double), err);
    return rc || !ctr_deep_trains(d) ? rc : fill_arena(d, err);
}

/* ---- the network ---- */

int ctr_deep_open(struct ctr_deep *d, const struct ctr_model *m, const struct ctr_params *p, int threads, bool learns,
                  struct ctr_err *err)
{
    memset(d, 0, sizeof *d);
    d->model = m;
    d->spec = m->deep;
    d->p = *p;
    d->learns = learns;
    d->image_width = d->width = (int32_t)p->deep.embedding + d->spec->extra;
    if (d->spec->width)
        d->width = d->spec->width(p);
    d->u_cols = d->width * (learns ? 1 + ctr_opt_states(CTR_OPT_ADAM) : 1);
    struct ctr_dev_want want = { .device = p->device,
                                 .threads = CTR_MAX(threads, 1),
                                 .memory_bytes = p->device_memory,
                                 .profile = ctr_dev_times() };
    int rc = ctr_dev_open(&d->dev, &want, err);
    return rc || !learns ? rc : ctr_comm_link(p->comm, d->dev, d->link, sizeof d->link, err);
}

/* Adjacent key inputs with equal pooling form a group; each field of a sequence is its own group, and so is each input
 * of lists, which many rows may share. */
static int make_groups(struct ctr_deep *d, struct ctr_err *err)
{
    int64_t x = 0;
    d->group = calloc((size_t)d->keys + 1, sizeof *d->group);
    if (!d->group)
        return ctr_fail_nomem(err, (size_t)d->keys * sizeof *d->group);
    if (d->spec->by_table)
        d->group[d->groups++] =
            (struct ctr_deep_group){ .pooling = CTR_POOL_SUM, .fields = 1, .width = d->width, .ragged = true };
    for (int k = 0; k < d->keys; k++) {
        const struct ctr_deep_input *in = &d->input[d->key_input[k]];
        const bool common = in->list && !in->sequence && !in->image && !in->split;
        struct ctr_deep_group *g = &d->group[d->groups - 1];
        const bool alone = in->sequence || in->split || common;
        if (!k || g->images != in->image || g->pooling != in->pooling || g->sequence || g->split || g->common ||
            alone) {
            g = &d->group[d->groups++];
            *g = (struct ctr_deep_group){ .pooling = in->pooling, .first = k, .x_at = x, .sequence = in->sequence };
            g->width = in->cols / in->slots;
            g->ragged = in->sequence > 0;
            g->images = in->image;
            g->common = common;
            g->split = in->split;
        }
        g->inputs++;
        g->fields += in->slots;
        g->ragged |= in->list;
        x += in->sequence ? 0 : in->cols;
        if (!in->sequence)
            continue;
        struct ctr_deep_sequence *s = &d->sequence[in->sequence - 1];
        while (s->input[g->field] != d->key_input[k])
            g->field++;
        s->group[g->field] = d->groups - 1;
        g->pooling = CTR_POOL_SUM; /* of a single entry */
    }
    return 0;
}

int ctr_deep_shape(struct ctr_deep *d, struct ctr_deep_input *list, int n, struct ctr_err *err)
{
    d->input = list;
    d->inputs = n;
    d->key_input = calloc((size_t)n + 1, sizeof *d->key_input);
    if (!d->key_input)
        return ctr_fail_nomem(err, (size_t)n * sizeof *d->key_input);
    for (int i = 0; i < n; i++) {
        d->dense += list[i].dense;
        list[i].slots = 1;
        list[i].split = CTR_SPLIT_NONE;
        list[i].cols = !list[i].table ? 0 : list[i].image && !d->p.images.as_ids ? d->image_width : d->width;
        d->pooled_cols += list[i].cols;
        if (list[i].table)
            d->key_input[d->keys++] = i;
    }
    d->pooled = d->keys;
    d->x_cols = d->pooled_cols + d->dense;
    int rc = d->spec->declare(d, err);
    if (!rc)
        rc = make_groups(d, err);
    if (!rc)
        rc = make_arena(d, err);
    return rc || !ctr_deep_trains(d) ? rc : ctr_deep_images_standardise(d, err);
}

int ctr_deep_room(struct ctr_deep *d, int64_t rows, struct ctr_err *err)
{
    if (rows <= d->room)
        return 0;
    const int64_t room = ctr_deep_trains(d) ? d->p.minibatch : rows;
    const size_t logits = (size_t)room * sizeof(float);
    int rc = ctr_mem_grow(&d->x, d->dev, (size_t)(room * d->x_cols) * sizeof(float), err);
    if (!rc)
        rc = ctr_mem_grow(&d->logit, d->dev, logits, err);
    if (!rc && d->learns)
        rc = ctr_mem_grow(&d->dlogit, d->dev, logits, err);
    if (!rc && d->learns)
        rc = ctr_mem_grow(&d->dx, d->dev, (size_t)(room * ctr_deep_dx_cols(d)) * sizeof(float), err);
    if (!rc)
        rc = d->spec->make_room(d, room, err);
    if (!rc)
        d->room = room;
    return rc;
}

void ctr_deep_free(struct ctr_deep *d)
{
    struct ctr_mem *mems[] = { d->w,
                               d->g,
                               d->s1,
                               d->s2,
                               d->bad,
                               d->x,
                               d->dx,
                               d->logit,
                               d->dlogit,
                               d->batch.buffers[0].label,
                               d->batch.buffers[1].label,
                               d->batch.buffers[0].weight,
                               d->batch.buffers[1].weight,
                               d->batch.buffers[0].numbers,
                               d->batch.buffers[1].numbers,
                               d->batch.hash,
                               d->batch.digest,
                               d->batch.buffers[0].index,
                               d->batch.buffers[1].index,
                               d->batch.group_start,
                               d->batch.group_item,
                               d->batch.bias };
    if (d->state)
        d->spec->free(d);
    ctr_upload_free(&d->batch.upload, d->dev);
    ctr_deep_rows_free(d);
    ctr_deep_images_free(d);
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_buf_free(&d->batch.label);
    ctr_buf_free(&d->batch.weight);
    ctr_buf_free(&d->batch.number);
    ctr_buf_free(&d->batch.part);
    ctr_buf_free(&d->batch.digests);
    ctr_rowbuf_free(&d->batch.home);
    free(d->batch.tables);
    ctr_deep_inputs_free(d->input, d->inputs);
    for (int i = 0; i < d->sequences; i++) {
        free(d->sequence[i].input);
        free(d->sequence[i].group);
        ctr_mem_free(d->sequence[i].value);
        ctr_mem_free(d->sequence[i].grad);
    }
    free(d->sequence);
    free(d->key_input);
    free(d->group);
    free(d->param);
    ctr_dev_free(d->dev);
    memset(d, 0, sizeof *d);
}
