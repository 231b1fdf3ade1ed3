/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction with deep models: tables and parameters are read once and shared; each session has its own network over
 * them, on its own device, or the network of one output, which has only the inputs of one side. A score depends only on
 * its row. An unknown key has the initial value of the learner. */
#include <math.h>
#include <stdlib.h>

#include "common/deep/deep_attention.h"
#include "common/deep/image_table.h"

struct scorer {
    struct ctr_deep model; /* shape and parameters */
    struct ctr_deep_tables tables;
    uint64_t id; /* a hash of all parameters */
};

struct session {
    const struct scorer *of;
    struct ctr_deep net;
    bool *searched; /* by input: its keys are looked up to be counted */
};

/* Of a two-tower model with inputs site and age of the user, brand and price of the ad, of which age and price are
 * numbers, there are:
 *
 *     scorer                 parameters and tables, read once, and their hash `id`
 *     session                a network over the scorer's parameters (ctr_mem_share), with activations of its own
 *     session of output ad   a network of brand and price alone (keep_side). Price is number 0, not 1, so parameters
 *                            lie elsewhere than in the whole network: they are copied by name (take_weights)
 *
 * predict_rows: add and pull the rows' keys, forward, scores, and then count known and unknown keys. The pull has
 * looked up most keys already (count_pulled); the others, such as those of lists in common, are searched again. */

/* ---- what threads share ---- */

void ctr_deep_scorer_free(void *scorer)
{
    struct scorer *s = scorer;
    if (!s)
        return;
    ctr_deep_free(&s->model);
    ctr_deep_tables_free(&s->tables);
    free(s);
}

static int hash_key(void *ctx, uint64_t key, const float *row, struct ctr_err *err)
{
    const struct scorer *s = ((void **)ctx)[0];
    uint64_t *sum = ((void **)ctx)[1];
    (void)err;
    *sum = ctr_hash64(row, (size_t)s->tables.width * sizeof *row, *sum ^ key);
    return 0;
}

/* A hash of all parameters, to identify stored outputs: vectors of different models must not be combined. */
static int make_id(struct scorer *s, struct ctr_err *err)
{
    const size_t bytes = (size_t)s->model.floats * sizeof(float);
    float *w = s->model.spec->outputs ? malloc(CTR_MAX(bytes, 1)) : NULL;
    if (!s->model.spec->outputs)
        return 0;
    int rc = w ? ctr_mem_read(s->model.w, 0, w, bytes, err) : ctr_fail_nomem(err, bytes);
    if (!rc)
        s->id = ctr_hash64(w, bytes, (uint64_t)s->model.p.seed);
    for (int i = 0; i < s->tables.n && !rc; i++) {
        void *ctx[] = { s, &s->id };
        s->id = ctr_hash64(s->tables.t[i].name, strlen(s->tables.t[i].name), s->id);
        rc = ctr_embedding_sorted(&s->tables.t[i].rows, hash_key, ctx, err);
    }
    free(w);
    return rc;
}

int ctr_deep_scorer_open(void **out, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                         char *warn, size_t warn_size, struct ctr_err *err)
{
    struct scorer *s = calloc(1, sizeof *s);
    struct ctr_model_info again = { 0 };
    struct ctr_reader *r = NULL;
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    int rc = ctr_deep_open(&s->model, info->model, &info->params, 1, false, err);
    s->tables.width = s->tables.floats = s->model.width;
    if (!rc)
        rc = ctr_model_open(path, &again, &r, err);
    if (!rc)
        rc = ctr_deep_read(&s->model, &s->tables, tables, r, warn, warn_size, err);
    if (!rc)
        rc = ctr_deep_images_check(&s->model, err);
    if (!rc)
        rc = make_id(s, err);
    if (!rc)
        rc = ctr_dev_sync(s->model.dev, err);
    if (rc)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    ctr_model_info_free(&again);
    if (rc) {
        ctr_deep_scorer_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* The value of a parameter with one number; 0 if there is none of that name. */
static float one_number(const struct ctr_deep *d, const char *name)
{
    struct ctr_err err = { 0 };
    float v = 0;
    for (int i = 0; name && i < d->params; i++)
        if (!strcmp(d->param[i].name, name) &&
            ctr_mem_read(d->w, (size_t)d->param[i].at * sizeof v, &v, sizeof v, &err))
            return 0;
    return v;
}

bool ctr_deep_output(const void *scorer, int i, struct ctr_output *out)
{
    const struct scorer *s = scorer;
    const struct ctr_deep_output *list = s->model.spec->outputs;
    for (int k = 0; list && k <= i; k++)
        if (!list[k].name)
            return false;
    if (!list)
        return false;
    *out = (struct ctr_output){ .name = list[i].name,
                                .width = s->model.spec->output_width(&s->model),
                                .bias = one_number(&s->model, s->model.spec->output_bias),
                                .model = s->id };
    return true;
}

struct ctr_image_table *ctr_deep_scorer_images(const void *scorer)
{
    return (struct ctr_image_table *)(uintptr_t)ctr_deep_images_table(&((const struct scorer *)scorer)->model);
}

bool ctr_deep_scorer_input(const void *scorer, int i, const char **name, const char **side)
{
    const struct ctr_deep *d = &((const struct scorer *)scorer)->model;
    if (i >= d->inputs)
        return false;
    *name = d->input[i].name;
    *side = d->input[i].side;
    return true;
}

/* ---- a thread's network ---- */

void ctr_deep_session_free(void *session)
{
    struct session *s = session;
    ctr_deep_free(&s->net);
    free(s->searched);
    free(s);
}

static const struct ctr_deep_output *find_output(const struct ctr_deep_spec *spec, const char *name)
{
    const struct ctr_deep_output *o = spec->outputs;
    while (o && o->name && strcmp(o->name, name) != 0)
        o++;
    return o && o->name ? o : NULL;
}

/* Keep the inputs of a side and free the others. Adjusts the positions of numbers. */
static int keep_side(struct ctr_deep_input *list, int n, const char *side)
{
    int kept = 0, dense = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i].side, side) != 0) {
            ctr_deep_input_free(&list[i]);
            continue;
        }
        list[kept] = list[i];
        list[kept].dense_at = dense;
        dense += list[kept++].dense;
    }
    return kept;
}

/* The parameters of the whole network: one memory for all sessions. Those of an output are copied by name, because
 * their positions differ. */
static int take_weights(const struct ctr_deep *from, struct ctr_deep *to, struct ctr_err *err)
{
    int rc = 0;
    if (!to->output) {
        ctr_mem_free(to->w);
        to->w = NULL;
        return ctr_mem_share(&to->w, to->dev, from->w, err);
    }
    const size_t bytes = (size_t)from->floats * sizeof(float);
    float *w = malloc(CTR_MAX(bytes, 1));
    if (!w)
        return ctr_fail_nomem(err, bytes);
    struct ctr_mem *shared = NULL; /* accessed through this thread's device */
    rc = ctr_mem_share(&shared, to->dev, from->w, err);
    if (!rc)
        rc = ctr_mem_read(shared, 0, w, bytes, err);
    for (int i = 0; i < to->params && !rc; i++) {
        const struct ctr_deep_param *p = from->param, *q = &to->param[i];
        while (strcmp(p->name, q->name) != 0)
            p++;
        rc = ctr_mem_write(to->w, (size_t)q->at * sizeof *w, w + p->at, (size_t)(q->rows * q->cols) * sizeof *w, err);
    }
    ctr_mem_free(shared);
    free(w);
    return rc;
}

static int open_net(const struct scorer *of, struct ctr_deep *net, const char *output, bool explains,
                    struct ctr_err *err)
{
    struct ctr_deep_input *list;
    int n = of->model.inputs, rc = ctr_deep_open(net, of->model.model, &of->model.p, 1, false, err);
    if (rc)
        return rc;
    net->learns = net->explains = explains;
    net->table = ctr_deep_images_table(&of->model);
    net->image_inputs = of->model.image_inputs;
    net->output = output ? find_output(net->spec, output) : NULL;
    rc = ctr_deep_inputs_copy(&of->model, &list, err);
    if (rc)
        return rc;
    if (net->output)
        n = keep_side(list, n, net->output->side);
    rc = ctr_deep_shape(net, list, n, err);
    if (!rc)
        rc = take_weights(&of->model, net, err);
    return rc ? rc : ctr_deep_tables_bind((struct ctr_deep_tables *)(uintptr_t)&of->tables, net, false, err);
}

int ctr_deep_scorer_net(const void *scorer, struct ctr_deep *net, const struct ctr_inputs *in,
                        const struct ctr_strs *tables, const char *output, bool explains, struct ctr_err *err)
{
    struct ctr_deep_input *list = NULL;
    int n, rc = open_net(scorer, net, output, explains, err);
    if (!rc)
        rc = ctr_deep_inputs(in, tables, &list, &n, err);
    if (rc)
        return rc;
    rc = ctr_deep_same_inputs(net, list, n, err);
    ctr_deep_inputs_free(list, n);
    return rc;
}

int ctr_deep_session_new(void **out, const void *scorer, const struct ctr_inputs *in, const struct ctr_strs *tables,
                         const char *output, struct ctr_err *err)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->of = scorer;
    int rc = ctr_deep_scorer_net(s->of, &s->net, in, tables, output, false, err);
    if (!rc && !(s->searched = calloc((size_t)s->net.inputs + 1, sizeof *s->searched)))
        rc = ctr_fail_nomem(err, (size_t)s->net.inputs + 1);
    if (rc)
        ctr_deep_session_free(s);
    else
        *out = s;
    return rc;
}

int ctr_deep_scorer_add(const void *scorer, struct ctr_deep *net, const struct ctr_rows *r, struct ctr_err *err)
{
    const struct scorer *s = scorer;
    int rc = ctr_deep_add(net, r, 0, r->rows, err);
    return rc ? rc : ctr_deep_pull(net, (struct ctr_deep_tables *)(uintptr_t)&s->tables, false, NULL, 0, 0, err);
}

static int add_rows(struct session *s, const struct ctr_rows *r, struct ctr_err *err)
{
    return ctr_deep_scorer_add(s->of, &s->net, r, err);
}

enum { RUN = 64 }; /* keys that are looked up together, so that their lines are fetched at once */

static void count_run(const struct session *s, int input, const uint64_t *hash, int64_t n,
                      struct ctr_key_counts *counts)
{
    const struct ctr_deep *net = &s->net;
    const int table = net->input[input].table_at;
    const bool image = net->images && net->input[input].image;
    uint32_t row[RUN];
    if (table >= 0 && !image)
        ctr_embedding_find(&s->of->tables.t[table].rows, hash, n, row);
    for (int64_t i = 0; i < n; i++)
        ctr_count_key(counts, input,
                      image ? ctr_image_table_find(ctr_deep_images_table(net), hash[i]) >= 0
                            : table >= 0 && row[i] != CTR_EMBEDDING_NONE);
}

/* The lists of key input k in the rows of a pull. */
struct pulled {
    const struct ctr_deep_group *g;
    const uint32_t *number; /* by key of the table; NULL: the keys must be looked up */
    int32_t first;          /* the place of key 0 */
    int field;
};

/* Did the pull look up every key of input k? Not those of images, of a list that rows have in common, which counts in
 * each row, and of a list that is split, which may have more keys than it is split into. */
static struct pulled pulled_of(const struct ctr_deep *net, int k)
{
    const struct ctr_deep_input *in = &net->input[net->key_input[k]];
    struct pulled p = { net->group, NULL, 0, 0 };
    while (k >= p.g->first + p.g->inputs)
        p.g++;
    p.field = k - p.g->first;
    if (in->image || in->table_at < 0 || !net->vectors.source || p.g->common || p.g->fields != p.g->inputs)
        return p;
    p.number = ctr_source_numbers(net->vectors.source, net->batch.key_buffer, in->table_at);
    if (net->batch.set[net->batch.key_buffer][in->table_at].keys.n) /* keys of a table have places one after another */
        p.first = *ctr_source_places(net->vectors.source, net->batch.key_buffer, in->table_at);
    return p;
}

static void count_pulled(const struct ctr_deep *net, int k, const struct pulled *p, int64_t rows,
                         struct ctr_key_counts *counts)
{
    const int32_t *place = (const int32_t *)(const void *)p->g->index.data;
    const int32_t *start = (const int32_t *)(const void *)p->g->start.data;
    int64_t keys = 0, unknown = 0;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t list = i * p->g->fields + p->field, first = p->g->ragged ? start[list] : list;
        const int64_t end = p->g->ragged ? start[list + 1] : list + 1;
        for (int64_t e = first; e < end; e++)
            unknown += p->number[place[e] - p->first] == CTR_EMBEDDING_NONE;
        keys += end - first;
    }
    counts->keys[net->key_input[k]] += keys;
    counts->unknown[net->key_input[k]] += unknown;
}

/* Look up the keys of the inputs that are marked. */
static void count_searched(const struct session *s, const struct ctr_rows *r, struct ctr_key_counts *counts)
{
    const int64_t first = r->start[0], end = r->start[r->rows], keys = s->net.keys;
    for (int64_t e = first, n; r->table && e < end; e += n) { /* lists: an input's keys lie one after another */
        for (n = 1; n < RUN && e + n < end && r->table[e + n] == r->table[e];)
            n++;
        if (s->searched[r->table[e]])
            count_run(s, r->table[e], r->hash + e, n, counts);
    }
    for (int64_t k = 0; !r->table && k < keys; k++) { /* one key an input: they lie row by row */
        uint64_t hash[RUN];
        for (int64_t i = 0, n; s->searched[s->net.key_input[k]] && i < r->rows; i += n) {
            n = CTR_MIN(RUN, r->rows - i);
            for (int64_t l = 0; l < n; l++)
                hash[l] = r->hash[first + (i + l) * keys + k];
            count_run(s, s->net.key_input[k], hash, n, counts);
        }
    }
}

static void count_keys(const struct session *s, const struct ctr_rows *r, struct ctr_key_counts *counts)
{
    bool search = false;
    for (int k = 0; k < s->net.keys && r->rows; k++) {
        const struct pulled p = pulled_of(&s->net, k);
        if (p.number)
            count_pulled(&s->net, k, &p, r->rows, counts);
        search |= s->searched[s->net.key_input[k]] = !p.number;
    }
    if (search)
        count_searched(s, r, counts);
}

int ctr_deep_predict_rows(void *session, const struct ctr_rows *r, double *score, struct ctr_key_counts *counts,
                          struct ctr_err *err)
{
    struct session *s = session;
    int rc = add_rows(s, r, err);
    if (!rc)
        rc = s->net.spec->forward(&s->net, 0, r->rows, false, err);
    if (!rc)
        rc = ctr_deep_scores(&s->net, 0, r->rows, r->first_row, score, err);
    if (!rc && counts)
        count_keys(s, r, counts);
    ctr_deep_clear(&s->net);
    return rc;
}

int ctr_deep_output_rows(void *session, const struct ctr_rows *r, float *value, struct ctr_key_counts *counts,
                         struct ctr_err *err)
{
    struct session *s = session;
    struct ctr_mat y = { 0 };
    int rc = add_rows(s, r, err);
    if (!rc)
        rc = s->net.spec->forward_output(&s->net, r->rows, &y, err);
    if (!rc)
        rc = ctr_mem_read(y.mem, (size_t)y.at * sizeof *value, value, (size_t)(y.rows * y.cols) * sizeof *value, err);
    for (int64_t i = 0; !rc && i < y.rows * y.cols; i++)
        if (!(fabsf(value[i]) < INFINITY))
            rc = ctr_fail(err, CTR_EDATA, "row %lld: the vector is not a number: scale the inputs' numbers down",
                          (long long)(r->first_row + i / y.cols + 1));
    if (!rc && counts)
        count_keys(s, r, counts);
    ctr_deep_clear(&s->net);
    return rc;
}

/* ---- attention ---- */

bool ctr_deep_attends(const void *scorer)
{
    const struct ctr_deep *d = &((const struct scorer *)scorer)->model;
    struct ctr_attention_weights first;
    return d->spec->attention && ctr_attention_weights(d, d->spec->attention(d), 0, &first);
}

/* The weights of a unit, off the device. */
static int give_unit(const struct ctr_deep *d, const struct ctr_attention_weights *w, struct ctr_buf *buf,
                     ctr_attended_each *each, void *ctx, struct ctr_err *err)
{
    const struct ctr_deep_sequence_view v = ctr_deep_sequence_of(d, w->sequence, 0, d->rows);
    int rc = 0;
    ctr_buf_clear(buf);
    int32_t *start = ctr_buf_extend(buf, d->rows + 1 + v.entries, sizeof *start, &rc, err);
    if (rc)
        return rc;
    float *weight = (float *)(void *)(start + d->rows + 1);
    rc = ctr_mem_read(v.start.mem, (size_t)v.start.at * sizeof *start, start, (size_t)(d->rows + 1) * sizeof *start,
                      err);
    if (!rc)
        rc = ctr_mem_read(w->weight.mem, (size_t)w->weight.at * sizeof *weight, weight,
                          (size_t)v.entries * sizeof *weight, err);
    const struct ctr_attended unit = { .inputs = d->sequence[w->sequence].input,
                                       .n = d->sequence[w->sequence].fields,
                                       .by_ids = w->ids,
                                       .rows = d->rows,
                                       .start = start,
                                       .weight = weight };
    return rc ? rc : each(ctx, &unit, err);
}

int ctr_deep_attended_rows(void *session, const struct ctr_rows *r, double *score, ctr_attended_each *each, void *ctx,
                           struct ctr_err *err)
{
    struct session *s = session;
    const struct ctr_attention *units = s->net.spec->attention(&s->net);
    struct ctr_attention_weights w;
    struct ctr_buf buf = { 0 };
    int rc = add_rows(s, r, err);
    if (!rc)
        rc = s->net.spec->forward(&s->net, 0, r->rows, false, err);
    if (!rc)
        rc = ctr_deep_scores(&s->net, 0, r->rows, r->first_row, score, err);
    for (int i = 0; !rc && ctr_attention_weights(&s->net, units, i, &w); i++)
        rc = give_unit(&s->net, &w, &buf, each, ctx, err);
    ctr_deep_clear(&s->net);
    ctr_buf_free(&buf);
    return rc;
}
