/* SPDX-License-Identifier: Apache-2.0
 *
 * The sparse side of a deep model: the tables, the lists of a minibatch, pull and push.
 *
 * Each table finds its distinct keys independently, so tables are distributed over threads and results do not depend on
 * threads. A source (table/source.h) gives the vectors of distinct keys, in the order of first occurrence. The set of
 * these is its own hash table: 4 bytes a slot beside the array of hashes that the source receives, emptied for each
 * minibatch.
 */
#include <math.h>
#include <stdlib.h>

#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

/* The keys of the minibatch, by table. */
static struct ctr_deep_set *sets_of(const struct ctr_deep *d)
{
    return d->batch.set[d->batch.key_buffer];
}

/* A minibatch of three rows with a key `site` and a list `tags`, both of table 0 (capital letters are hashes):
 *
 *     rows        site A, tags [B C]   site B, tags []   site A, tags [C]
 *     add         group site: entries A B A; group tags: entries B C C, starts 0 2 2 3
 *     find_keys   the table's distinct keys in order of first occurrence, input by input: A B C are 0 1 2;
 *                 index of site 0 1 0, of tags 1 2 2
 *     pull        the source gives the vectors of A, B, C as rows 0, 1, 2 of one matrix; each group pools its lists
 *                 into its columns of x
 *     push        gradients of x go back along the same lists, added up for each of the 3 rows in the order of
 *                 entries; the source steps and stores them
 *
 * Where the device numbers the keys (deep_numbers.c), entries go up as hashes, or are there; find_keys and push's lists
 * of entries are its work, and the rows of the matrix are those of the table on the device.
 *
 * Several tables' distinct keys follow one another in the matrix. ctr_deep_announce does the first steps for the next
 * minibatch in the other buffer, so that a source on disk or of other ranks can fetch what is coming. */

/* ---- tables ---- */

/* Half-width of the initial values: small compared with Adam's first steps (0.003). */
static const float FIRST_SCALE = 0.01F;

int ctr_deep_tables_find(const struct ctr_deep_tables *all, const char *name)
{
    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->t[i].name, name))
            return i;
    return -1;
}

int ctr_deep_tables_add(struct ctr_deep_tables *all, const char *name, const struct ctr_params *p, int *at,
                        struct ctr_err *err)
{
    if ((*at = ctr_deep_tables_find(all, name)) >= 0)
        return 0;
    struct ctr_deep_table *t = realloc(all->t, ((size_t)all->n + 1) * sizeof *t);
    if (!t)
        return ctr_fail_nomem(err, ((size_t)all->n + 1) * sizeof *t);
    all->t = t;
    *at = all->n;
    t += all->n;
    int rc = ctr_strdup(&t->name, name, err);
    if (rc)
        return rc;
    ctr_embedding_init(&t->rows, all->width, all->floats, ctr_random64((uint64_t)p->seed, ctr_table_seed(name), 0),
                       all->zero ? 0 : FIRST_SCALE);
    all->n++;
    return 0;
}

void ctr_deep_tables_free(struct ctr_deep_tables *all)
{
    for (int i = 0; i < all->n; i++) {
        ctr_embedding_free(&all->t[i].rows);
        free(all->t[i].name);
    }
    free(all->t);
    ctr_keyindex_free(&all->given);
    *all = (struct ctr_deep_tables){ 0 };
}

int ctr_deep_tables_bind(struct ctr_deep_tables *all, struct ctr_deep *d, bool add, struct ctr_err *err)
{
    int rc = 0;
    for (int k = 0; k < d->keys && !rc; k++) {
        struct ctr_deep_input *in = &d->input[d->key_input[k]];
        if (in->image)
            continue;
        in->table_at = ctr_deep_tables_find(all, in->table);
        if (in->table_at < 0 && add)
            rc = ctr_deep_tables_add(all, in->table, &d->p, &in->table_at, err);
    }
    if (!rc)
        rc = ctr_deep_source_bind(all, d, err);
    if (rc || d->batch.sets >= all->n)
        return rc;
    for (int b = 0; b < 2; b++) {
        struct ctr_deep_set *set = realloc(d->batch.set[b], (size_t)all->n * sizeof *set);
        if (!set)
            return ctr_fail_nomem(err, (size_t)all->n * sizeof *set);
        memset(set + d->batch.sets, 0, (size_t)(all->n - d->batch.sets) * sizeof *set);
        d->batch.set[b] = set;
    }
    d->batch.sets = all->n;
    return 0;
}

/* ---- lists ---- */

/* For rows with one key per key input: the entries of the rows are the lists of the single group. */
static int add_plain(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    struct ctr_deep_group *g = d->group;
    const int64_t at = r->start[from];
    const int rc = ctr_buf_append(&g->hash, r->hash + at, (size_t)(n * d->keys) * sizeof *r->hash, err);
    g->entries += n * d->keys;
    return rc;
}

/* Split a list into lists of one entry each, from its start or its end, after the k existing entries of group g. */
static int64_t add_slots(struct ctr_deep_group *g, const struct ctr_rows *r, int64_t first, int64_t end, bool from_end,
                         int64_t row, int64_t k, int32_t **start)
{
    for (int s = 0; s < g->fields; s++) {
        const int64_t e = from_end ? end - 1 - s : first + s;
        if (e >= first && e < end) {
            AS(uint64_t, g->hash)[g->entries + k] = r->hash[e];
            AS(int32_t, g->segment)[g->entries + k] = (int32_t)(row * g->fields + s);
            AS(float, g->x)[g->entries + k++] = r->x ? (float)r->x[e] : 1;
        }
        *(*start)++ = (int32_t)(g->entries + k);
    }
    return k;
}

int ctr_deep_count_fits(int64_t entries, struct ctr_err *err)
{
    return entries <= INT32_MAX ? 0
                                : ctr_fail(err, CTR_EDATA, "a minibatch has more than 2^31 keys: lower --minibatch");
}

/* Add the entries of group g in rows [from, from + n). The entries of a row are in input order. */
static int add_lists(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows *r, int64_t from, int64_t n,
                     struct ctr_err *err)
{
    const int first = d->key_input[g->first];
    const bool from_end = g->split == CTR_SPLIT_END || d->input[first].oldest_first;
    int64_t all = r->start[from + n] - r->start[from], at = g->entries;
    int rc = ctr_deep_count_fits(at + all, err);
    if (rc)
        return rc;
    uint64_t *hash = ctr_buf_extend(&g->hash, all, sizeof *hash, &rc, err);
    int32_t *segment = ctr_buf_extend(&g->segment, g->ragged ? all : 0, sizeof *segment, &rc, err);
    float *x = ctr_buf_extend(&g->x, g->ragged ? all : 0, sizeof *x, &rc, err);
    if (!rc && g->ragged && !g->start.len)
        rc = ctr_buf_append(&g->start, &(int32_t){ 0 }, sizeof(int32_t), err);
    int32_t *start = ctr_buf_extend(&g->start, g->ragged ? n * g->fields : 0, sizeof *start, &rc, err);
    if (rc)
        return rc;
    int64_t k = 0;
    for (int64_t i = from; i < from + n; i++) {
        int64_t e = r->start[i], end = r->start[i + 1];
        while (e < end && ctr_deep_input_of(d, r, i, e) < first)
            e++;
        if (g->split) { /* one input */
            for (end = e; end < r->start[i + 1] && ctr_deep_input_of(d, r, i, end) == first;)
                end++;
            k = add_slots(g, r, e, end, from_end, d->rows + i - from, k, &start);
            continue;
        }
        for (int f = 0; f < g->inputs; f++) {
            const int input = d->key_input[g->first + f];
            for (; e < end && ctr_deep_input_of(d, r, i, e) == input; e++, k++) {
                hash[k] = r->hash[e];
                if (g->ragged) {
                    segment[k] = (int32_t)((d->rows + i - from) * g->fields + f);
                    x[k] = r->x ? (float)r->x[e] : 1;
                }
            }
            if (g->ragged)
                *start++ = (int32_t)(at + k);
        }
    }
    g->entries += k;
    g->hash.len = (size_t)g->entries * sizeof *hash;
    g->segment.len = g->ragged ? (size_t)g->entries * sizeof *segment : 0;
    g->x.len = g->ragged ? (size_t)g->entries * sizeof *x : 0;
    return 0;
}

/* The lists of a sequence's fields have as many keys as each other, in each of the n new rows: of lists that are
 * aligned (inputs.c) not every item may have one. first_row: of the stream, of the first row. */
static int check_aligned(const struct ctr_deep *d, struct ctr_deep_sequence *s, int64_t n, int64_t first_row,
                         struct ctr_err *err)
{
    const struct ctr_deep_group *first = &d->group[s->group[0]];
    const int32_t *start = AS(int32_t, first->start) + d->rows;
    for (int f = 1; f < s->fields; f++) {
        const int32_t *other = AS(int32_t, d->group[s->group[f]].start) + d->rows;
        for (int64_t i = 0; i < n; i++)
            if (other[i + 1] != start[i + 1]) {
                return ctr_fail(err, CTR_EDATA,
                                "row %lld: '%.80s' has %d keys and '%.80s' has %d: lists of one history (%.80s) are "
                                "aligned, item by item; an item that is null or has the weight 0 gives no key",
                                (long long)(first_row + i + 1), d->input[s->input[0]].name, start[i + 1] - start[i],
                                d->input[s->input[f]].name, other[i + 1] - other[i], d->input[s->input[0]].group);
            }
    }
    s->entries = first->entries;
    return 0;
}

/* Numbers that are sent, or are there, into their columns of x. */
static int add_numbers(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    const uint64_t left = r->left ? r->left->numbers : 0;
    const int64_t at = ((left ? r->left_row : 0) + from) * d->dense;
    const size_t bytes = (size_t)(n * d->dense) * sizeof(float);
    struct ctr_mem **sent = &d->batch.buffers[d->batch.buffer_index].numbers, *there = NULL;
    if (!bytes)
        return 0;
    int rc = left ? ctr_mem_at(&there, d->dev, left + (uint64_t)at * sizeof(float), bytes, err)
                  : ctr_deep_send(d, sent, r->dense + at, 0, bytes, err);
    if (!rc && !left)
        rc = ctr_deep_sent(d, err);
    const struct ctr_mat to = ctr_mat_rows(ctr_mat(d->x, d->room, d->x_cols), d->rows, n);
    const struct ctr_dev_copy copy = { ctr_mat(left ? there : *sent, n, d->dense),
                                       ctr_mat_cols(to, d->pooled_cols, d->dense) };
    if (!rc)
        rc = ctr_dev_copy(d->dev, &copy, err);
    ctr_mem_free(there);
    return rc;
}

static int add_labels(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    int rc = 0;
    if (!ctr_deep_trains(d))
        return 0;
    float *label = ctr_buf_extend(&d->batch.label, n, sizeof *label, &rc, err);
    float *weight = ctr_buf_extend(&d->batch.weight, n, sizeof *weight, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        label[i] = (float)r->label[from + i];
        weight[i] = r->weight ? (float)r->weight[from + i] : 1;
    }
    d->batch.weighted |= r->weight != NULL;
    return rc;
}

int ctr_deep_add(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    struct ctr_rows host;
    int rc = ctr_deep_room(d, d->rows + n, err);
    if (!rc && r->left && !ctr_deep_keeps_left(d)) {
        rc = ctr_deep_left_rows(d, r, from, n, &d->batch.home, &host, err);
        r = &host;
        from = 0;
    }
    if (!rc && !r->left)
        rc = ctr_deep_bring(d, err);
    d->batch.left |= r->left != NULL;
    if (!rc && d->spec->by_table)
        rc = ctr_deep_entries_add(d, r, from, n, err);
    else if (!rc && r->left)
        rc = ctr_deep_add_left(d, r->left, r->left_row + from, n, err);
    else if (!rc && d->groups == 1 && !d->group->ragged)
        rc = add_plain(d, r, from, n, err);
    else
        for (int g = 0; g < d->groups && !rc; g++)
            rc = d->group[g].common ? ctr_deep_common_add(d, &d->group[g], r, from, n, err)
                                    : add_lists(d, &d->group[g], r, from, n, err);
    for (int i = 0; i < d->sequences && !rc; i++)
        rc = check_aligned(d, &d->sequence[i], n, r->first_row + from, err);
    for (int i = 0; i < d->distincts && !rc; i++)
        rc = ctr_deep_distinct_add(d, &d->distinct[i], r, from, n, err);
    if (!rc && d->images)
        rc = ctr_deep_images_add(d, n, r->first_row + from, err);
    if (!rc)
        rc = add_numbers(d, r, from, n, err);
    if (!rc)
        rc = add_labels(d, r, from, n, err);
    if (!rc)
        d->rows += n;
    return rc;
}

/* ---- distinct keys ---- */

int32_t ctr_deep_set_add(struct ctr_deep_set *s, uint64_t h, int *rc)
{
    return ctr_keyset_add(&s->keys, h, rc, &s->err);
}

struct pull {
    struct ctr_deep *d;
    struct ctr_deep_tables *all;
    bool make;
    int64_t first; /* row */
};

/* Iterates over the entries of key input k in the rows from p->first on, or of the new common lists. */
struct walk {
    struct ctr_deep_group *g;
    int64_t list, lists, entry, end;
};

static struct walk walk_field(const struct pull *p, int k)
{
    struct ctr_deep_group *g = p->d->group;
    while (k >= g->first + g->inputs)
        g++;
    if (g->common)
        return (struct walk){ g, p->first ? g->pooled : 0, g->equal.set.keys.n, 0, 0 };
    return (struct walk){ g, p->first * g->fields + k - g->first, p->d->rows * g->fields, 0, 0 };
}

/* The next entry, or -1. */
static inline int64_t walk_next(struct walk *w)
{
    while (w->entry >= w->end) {
        if (w->list >= w->lists)
            return -1;
        w->entry = w->g->ragged ? AS(int32_t, w->g->start)[w->list] : w->list;
        w->end = w->g->ragged ? AS(int32_t, w->g->start)[w->list + 1] : w->list + 1;
        w->list += w->g->fields;
    }
    return w->entry++;
}

/* Find the distinct keys of table t. */
static void find_keys(void *ctx, int64_t t, int worker)
{
    struct pull *p = ctx;
    struct ctr_deep_set *s = &sets_of(p->d)[t];
    int rc = 0;
    (void)worker;
    for (int k = 0; k < p->d->keys && !rc; k++) {
        if (p->d->input[p->d->key_input[k]].table_at != t)
            continue;
        struct walk w = walk_field(p, k);
        uint64_t before = 0;
        int32_t number = -1;
        for (int64_t e; !rc && (e = walk_next(&w)) >= 0;) {
            const uint64_t hash = AS(uint64_t, w.g->hash)[e];
            if (number < 0 || hash != before) /* rows of one user follow each other */
                number = ctr_deep_set_add(s, hash, &rc);
            before = hash;
            AS(int32_t, w.g->index)[e] = number;
        }
    }
    s->err.code = rc;
}

/* Set the vector row of each entry. */
static void place_entries(void *ctx, int64_t t, int worker)
{
    struct pull *p = ctx;
    struct ctr_deep *d = p->d;
    const int32_t *place = ctr_source_places(d->vectors.source, d->batch.key_buffer, (int)t);
    (void)worker;
    for (int k = 0; k < d->keys; k++) {
        if (d->input[d->key_input[k]].table_at != t)
            continue;
        struct walk w = walk_field(p, k);
        for (int64_t e; (e = walk_next(&w)) >= 0;)
            AS(int32_t, w.g->index)[e] = place[AS(int32_t, w.g->index)[e]];
    }
}

/* ---- sending ---- */

int ctr_deep_check_bound(const struct ctr_deep *d, const struct ctr_deep_tables *all, int64_t entries, int64_t bound,
                         struct ctr_err *err)
{
    uint64_t need = (uint64_t)ctr_dev_memory(d->dev) + ctr_keyindex_bytes(&all->given);
    need += (uint64_t)ctr_deep_images_bytes(d);
    if (!bound || d->p.spill) /* a source with rows on disk enforces the bound itself */
        return 0;
    need += (uint64_t)ctr_deep_source_memory(d);
    need += (uint64_t)entries * ((uint64_t)all->floats * sizeof(float) + 16);
    if (need <= (uint64_t)bound)
        return 0;
    return ctr_fail(
        err, CTR_ENOMEM,
        "the tables of embeddings and a minibatch need %s to go on, --memory allows %s: raise it, keep rows on "
        "disk (--spill DIR), drop rare values (vocab with min=...), or lower %s--minibatch%s",
        ctr_size_text_beyond(need, (uint64_t)bound).s, ctr_size_text((uint64_t)bound).s,
        d->spec->by_table ? "" : "--embedding or ",
        ctr_deep_images_bytes(d) ? "; --images takes no memory for vectors of a keyed file (ctr-cat --key)" : "");
}

int ctr_deep_begin_keys(struct ctr_deep *d, int buffer, bool make, struct ctr_pool *pool, int64_t *unique,
                        struct ctr_err *err)
{
    const struct ctr_deep_set *set = d->batch.set[buffer];
    struct ctr_want_keys *keys = calloc((size_t)d->batch.sets + 1, sizeof *keys);
    int rc = keys ? 0 : ctr_fail_nomem(err, (size_t)d->batch.sets * sizeof *keys);
    *unique = 0;
    for (int t = 0; t < d->batch.sets && !rc; t++) {
        keys[t] = (struct ctr_want_keys){ ctr_keyset_hashes(&set[t].keys), set[t].keys.n };
        *unique += set[t].keys.n;
        if (set[t].err.code) {
            *err = set[t].err;
            rc = err->code;
        }
    }
    const struct ctr_want want = { .tables = d->batch.sets, .keys = keys, .make = make, .pool = pool };
    if (!rc)
        rc = ctr_source_begin(d->vectors.source, &want, buffer, err);
    free(keys);
    return rc;
}

/* The same of the minibatch at hand, unless all of them were announced. */
static int begin_own_keys(struct ctr_deep *d, bool make, struct ctr_pool *pool, struct ctr_err *err)
{
    const struct ctr_deep_set *set = d->batch.set[d->batch.key_buffer];
    if (!d->batch.known)
        return ctr_deep_begin_keys(d, d->batch.key_buffer, make, pool, &d->batch.unique, err);
    d->batch.unique = 0;
    for (int t = 0; t < d->batch.sets; t++) {
        d->batch.unique += set[t].keys.n;
        if (set[t].err.code) {
            *err = set[t].err;
            return err->code;
        }
    }
    return 0;
}

/* ---- the next minibatch ---- */

struct announce {
    struct ctr_deep *d;
    const struct ctr_rows *r;
    int64_t from, n;
};

/* Find the distinct keys of table t in the coming rows. */
static void announce_keys(void *ctx, int64_t t, int worker)
{
    const struct announce *a = ctx;
    const struct ctr_deep *d = a->d;
    const struct ctr_rows *r = a->r;
    struct ctr_deep_set *s = &d->batch.set[!d->batch.key_buffer][t];
    int rc = 0;
    (void)worker;
    for (int k = 0; k < d->keys && !r->table && !rc;
         k++) { /* one key each: by field, in the order in which they will be added */
        if (d->input[d->key_input[k]].table_at != t)
            continue;
        for (int64_t i = a->from; i < a->from + a->n && !rc; i++)
            (void)ctr_deep_set_add(s, r->hash[r->start[i] + k], &rc);
    }
    for (int64_t e = r->start[a->from]; r->table && e < r->start[a->from + a->n] && !rc; e++)
        if (d->input[r->table[e]].table_at == t)
            (void)ctr_deep_set_add(s, r->hash[e], &rc);
    s->err.code = rc;
}

int ctr_deep_announce(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_pool *pool,
                      struct ctr_err *err)
{
    struct announce a = { d, r, from, n };
    int64_t unique;
    if ((!n && !d->p.comm) || !d->vectors.source)
        return 0;
    d->batch.announced = true;
    if (n && d->spec->by_table)
        ctr_deep_entries_announce(d, r, from, n, pool);
    else if (n)
        ctr_pool_run(pool, d->batch.sets, announce_keys, &a);
    return ctr_deep_begin_keys(d, !d->batch.key_buffer, true, pool, &unique, err);
}

static int send_lists(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_batch *on = &d->batch.buffers[d->batch.buffer_index];
    const size_t known = (size_t)d->batch.sent_rows * sizeof(float);
    const bool made = ctr_deep_made_lists(d);
    int rc = ctr_deep_trains(d) ? ctr_deep_send(d, &on->label, d->batch.label.data, known, d->batch.label.len, err) : 0;
    if (!rc && d->batch.weighted)
        rc = ctr_deep_send(d, &on->weight, d->batch.weight.data, known, d->batch.weight.len, err);
    d->batch.sent_rows = d->rows;
    for (int i = 0; i < d->groups && !rc; i++) {
        struct ctr_deep_group *g = &d->group[i];
        struct ctr_deep_lists *l = &g->buffers[d->batch.buffer_index];
        const size_t sent = (size_t)g->sent_entries * 4, all = (size_t)g->entries * 4;
        if (!ctr_deep_numbered(d, g))
            rc = ctr_deep_send(d, &l->index, g->index.data, sent, all, err);
        if (!rc && g->ragged && !made)
            rc = ctr_deep_send(d, &l->x, g->x.data, sent, all, err);
        if (!rc && g->ragged && !g->field && !made) /* fields of a sequence share these */
            rc = ctr_deep_send(d, &l->segment, g->segment.data, sent, all, err);
        if (!rc && g->ragged && !g->field && !made)
            rc = ctr_deep_send(d, &l->start, g->start.data, (size_t)g->sent_lists * 4, g->start.len, err);
        if (!rc && g->common)
            rc = ctr_deep_equal_send(d, &g->equal, err);
        g->sent_entries = g->entries;
        g->sent_lists = (int64_t)(g->start.len / 4);
    }
    for (int i = 0; i < d->distincts && !rc; i++)
        rc = ctr_deep_distinct_send(d, &d->distinct[i], err);
    return rc;
}

struct ctr_vec ctr_deep_index(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first, int64_t n)
{
    return ctr_deep_numbered(d, g)
               ? ctr_vec_at(d->batch.buffers[d->batch.buffer_index].index, g->first_entry + first, n)
               : ctr_vec_at(g->buffers[d->batch.buffer_index].index, first, n);
}

struct ctr_vec ctr_deep_x(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first, int64_t n)
{
    return ctr_deep_made_lists(d) ? (struct ctr_vec){ 0 } : ctr_vec_at(g->buffers[d->batch.buffer_index].x, first, n);
}

/* The lists of group g from row `first` on. */
static struct ctr_lists lists_of(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first)
{
    const struct ctr_deep_lists *on = &g->buffers[d->batch.buffer_index];
    struct ctr_lists l = { .lists = (d->rows - first) * g->fields, .per_row = g->fields };
    if (g->ragged) { /* start holds entry numbers of the minibatch */
        l.start = ctr_vec_at(on->start, first * g->fields, l.lists + 1);
        l.index = ctr_deep_index(d, g, 0, g->entries);
        l.segment = ctr_vec(on->segment, g->entries);
        l.x = ctr_deep_x(d, g, 0, g->entries);
    } else {
        l.index = ctr_deep_index(d, g, first * g->fields, l.lists);
    }
    return l;
}

static struct ctr_mat part_of_x(const struct ctr_deep *d, const struct ctr_deep_group *g, struct ctr_mem *m,
                                int64_t stride, int64_t first)
{
    return (struct ctr_mat){ m, first * stride + g->x_at, d->rows - first, (int64_t)g->fields * g->width, stride };
}

/* ---- sequences: each entry is a list of its own ---- */

static int64_t start_of(const struct ctr_deep_group *g, int64_t row)
{
    return row ? AS(int32_t, g->start)[row] : 0;
}

static struct ctr_lists entries_of(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first)
{
    return (struct ctr_lists){ .lists = g->entries - first,
                               .per_row = 1,
                               .index = ctr_deep_index(d, g, first, g->entries - first),
                               .x = ctr_deep_x(d, g, first, g->entries - first) };
}

/* A field's columns for the entries from `first` on. */
static struct ctr_mat part_of_sequence(const struct ctr_deep *d, const struct ctr_deep_group *g, struct ctr_mem *m,
                                       int64_t first)
{
    const int64_t stride = d->sequence[g->sequence - 1].cols;
    return (struct ctr_mat){ m, first * stride + (int64_t)g->field * g->width, g->entries - first, g->width, stride };
}

/* Memory for the entries; keeps those of rows before `first`. */
static int sequence_room(struct ctr_deep *d, int64_t first, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < d->sequences && !rc; i++) {
        struct ctr_deep_sequence *s = &d->sequence[i];
        const size_t entry = (size_t)s->cols * sizeof(float);
        const size_t used = (size_t)start_of(&d->group[s->group[0]], first) * entry;
        rc = ctr_deep_keep(d, &s->value, used, (size_t)s->entries * entry, err);
        if (!rc && d->learns)
            rc = ctr_deep_keep(d, &s->grad, 0, (size_t)s->entries * entry, err);
    }
    return rc;
}

struct ctr_deep_sequence_view ctr_deep_sequence_of(const struct ctr_deep *d, int number, int64_t from, int64_t n)
{
    const struct ctr_deep_sequence *s = &d->sequence[number];
    const struct ctr_deep_group *g = &d->group[s->group[0]];
    const struct ctr_deep_lists *on = &g->buffers[d->batch.buffer_index];
    const int64_t cols = s->cols, first = start_of(g, from);
    return (struct ctr_deep_sequence_view){
        .fields = s->fields,
        .entries = s->entries,
        .first = first,
        .count = start_of(g, from + n) - first,
        .value = ctr_mat(s->value, s->entries, cols),
        .grad = d->learns ? ctr_mat(s->grad, s->entries, cols) : (struct ctr_mat){ 0 },
        .start = ctr_vec_at(on->start, from, n + 1),
        .segment = ctr_vec(on->segment, s->entries),
    };
}

static int pool_all(struct ctr_deep *d, int64_t first, struct ctr_err *err)
{
    int rc = sequence_room(d, first, err);
    if (!rc && d->images)
        rc = ctr_deep_images_pull(d, err);
    for (int i = 0; i < d->groups && !rc; i++) {
        struct ctr_deep_group *g = &d->group[i];
        if (g->common) {
            rc = ctr_deep_common_pool(d, g, first, part_of_x(d, g, d->x, d->x_cols, first), err);
            continue;
        }
        struct ctr_dev_pool pool = { .how = g->pooling,
                                     .lists = lists_of(d, g, first),
                                     .rows = g->images ? ctr_deep_images_value(d) : d->vectors.value,
                                     .out = part_of_x(d, g, d->x, d->x_cols, first) };
        if (g->sequence) {
            const int64_t e = start_of(g, first);
            pool.lists = entries_of(d, g, e);
            pool.out = part_of_sequence(d, g, d->sequence[g->sequence - 1].value, e);
        }
        rc = ctr_dev_pool(d->dev, &pool, err);
    }
    return rc;
}

/* ---- pull ---- */

int64_t ctr_deep_entries(const struct ctr_deep *d)
{
    int64_t entries = 0;
    for (int g = 0; g < d->groups; g++)
        entries += d->group[g].images ? 0 : d->group[g].entries;
    return entries;
}

int ctr_deep_pull(struct ctr_deep *d, struct ctr_deep_tables *all, bool make, struct ctr_pool *pool, int64_t first,
                  int64_t bound, struct ctr_err *err)
{
    struct pull p = { d, all, make, first };
    int rc = make ? ctr_deep_check_bound(d, all, ctr_deep_entries(d), bound, err) : 0; /* each may be new */
    const bool before = d->batch.on_device;
    if (!rc && make && (rc = ctr_deep_number_there(d, all, first, err)) > 0)
        return send_lists(d, err) || ctr_deep_sent(d, err) ? err->code : pool_all(d, first, err);
    rc = rc ? rc : ctr_deep_bring(d, err);
    if (before) { /* the host has numbered none of them */
        ctr_source_drop(d->vectors.source, d->batch.key_buffer);
        p.first = 0;
        for (int g = 0; g < d->groups; g++)
            d->group[g].sent_entries = 0;
    }
    for (int g = 0; g < d->groups && !rc; g++)
        (void)ctr_buf_extend(&d->group[g].index,
                             d->group[g].entries - (int64_t)(d->group[g].index.len / sizeof(int32_t)), sizeof(int32_t),
                             &rc, err);
    if (rc)
        return rc;
    if (d->spec->by_table)
        ctr_deep_entries_number(d, p.first, pool);
    else
        ctr_pool_run(pool, d->batch.sets, find_keys, &p);
    if (!d->vectors.source) /* no tables */
        return send_lists(d, err) || ctr_deep_sent(d, err) ? err->code : pool_all(d, first, err);
    if ((rc = begin_own_keys(d, make, pool, err)))
        return rc;
    if (d->spec->by_table)
        rc = ctr_deep_entries_place(d, p.first, pool, err);
    else
        ctr_pool_run(pool, d->batch.sets, place_entries, &p);
    if (rc || (rc = send_lists(d, err))) /* copied while rows are fetched */
        return rc;
    rc = ctr_source_values(d->vectors.source, d->batch.key_buffer, &d->vectors.value, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    return rc ? rc : pool_all(d, first, err);
}

int ctr_deep_pull_none(struct ctr_deep *d, bool make, struct ctr_pool *pool, struct ctr_err *err)
{
    int rc = d->vectors.source ? begin_own_keys(d, make, pool, err) : 0;
    if (!rc && d->vectors.source)
        rc = ctr_source_values(d->vectors.source, d->batch.key_buffer, &d->vectors.value, err);
    return rc || !d->images ? rc : ctr_deep_images_pull(d, err);
}

/* ---- push ---- */

int ctr_deep_send_groups(struct ctr_deep *d, const struct ctr_buf *of, int64_t rows, struct ctr_mem **start_mem,
                         struct ctr_mem **item_mem, struct ctr_err *err)
{
    struct ctr_buf start = { 0 }, item = { 0 };
    const int32_t *index = AS(int32_t, *of);
    const int64_t entries = (int64_t)(of->len / sizeof *index);
    int rc = 0;
    int32_t *s = ctr_buf_extend(&start, rows + 2, sizeof *s, &rc, err);
    int32_t *it = ctr_buf_extend(&item, entries, sizeof *it, &rc, err);
    if (!rc) {
        memset(s, 0, (size_t)(rows + 2) * sizeof *s);
        for (int64_t e = 0; e < entries; e++)
            s[index[e] + 2]++;
        for (int64_t u = 1; u < rows + 1; u++)
            s[u + 1] += s[u];
        for (int64_t e = 0; e < entries; e++)
            it[s[index[e] + 1]++] = (int32_t)e;
        rc = ctr_deep_send(d, start_mem, start.data, 0, (size_t)(rows + 1) * sizeof *s, err);
    }
    if (!rc)
        rc = ctr_deep_send(d, item_mem, item.data, 0, (size_t)entries * sizeof *it, err);
    ctr_buf_free(&start);
    ctr_buf_free(&item);
    return rc;
}

static struct ctr_mat squares_of(const struct ctr_deep *d)
{
    return d->spec->ftrl ? ctr_mat(d->vectors.squares, d->batch.unique, d->width) : (struct ctr_mat){ 0 };
}

static int row_gradients(struct ctr_deep *d, struct ctr_err *err)
{
    int rc = ctr_mem_grow(&d->vectors.du, d->dev, (size_t)(d->batch.unique * d->width) * sizeof(float), err);
    bool begun[2] = { false, false }; /* for tables, for images */
    const int64_t all = ctr_deep_entries(d);
    if (!rc && d->images)
        rc = ctr_deep_images_room(d, err);
    for (int i = 0; i < d->groups && !rc; i++) {
        struct ctr_deep_group *g = &d->group[i];
        const bool there = ctr_deep_numbered(d, g);
        const struct ctr_mat rows = g->images ? ctr_deep_images_value(d) : d->vectors.value;
        const struct ctr_mat to =
            g->images ? ctr_deep_images_grad(d) : ctr_mat(d->vectors.du, d->batch.unique, d->width);
        /* during the backward pass */
        if (!there)
            rc = ctr_deep_send_groups(d, &g->index, to.rows, &g->group_start_mem, &g->group_item_mem, err);
        if (!rc && g->common)
            rc = ctr_deep_equal_sum(d, &g->equal, part_of_x(d, g, d->dx, d->pooled_cols, 0),
                                    ctr_mat(g->grad, g->equal.set.keys.n, g->width), err);
        else if (!rc && !there)
            rc = ctr_deep_sent(d, err);
        if (rc)
            break;
        struct ctr_dev_pool_grad grad = {
            .how = g->pooling,
            .lists = lists_of(d, g, 0),
            .group_start = ctr_vec(there ? d->batch.group_start : g->group_start_mem, to.rows + 1),
            .group_item = there ? ctr_vec(d->batch.group_item, all) : ctr_vec(g->group_item_mem, g->entries),
            .first = there ? g->first_entry : 0,
            .rows = rows,
            .dout = part_of_x(d, g, d->dx, d->pooled_cols, 0),
            .out = part_of_x(d, g, d->x, d->x_cols, 0),
            .grad = to,
            .squares = squares_of(d),
            .add = begun[g->images]
        };
        begun[g->images] = true;
        if (g->sequence) {
            grad.lists = entries_of(d, g, 0);
            grad.dout = part_of_sequence(d, g, d->sequence[g->sequence - 1].grad, 0);
        }
        if (g->common) {
            grad.lists = ctr_deep_common_lists(d, g, 0);
            grad.dout = ctr_mat(g->grad, g->equal.set.keys.n, d->width);
            grad.out = ctr_mat(g->value, g->equal.set.keys.n, d->width);
        }
        rc = ctr_dev_pool_grad(d->dev, &grad, err);
    }
    return rc;
}

int ctr_deep_push(struct ctr_deep *d, struct ctr_deep_tables *all, struct ctr_pool *pool, const struct ctr_dev_opt *opt,
                  struct ctr_err *err)
{
    const int64_t sums = CTR_MAX(d->batch.unique * d->width, 1); /* also where other ranks have the rows */
    int rc = d->spec->ftrl ? ctr_mem_grow(&d->vectors.squares, d->dev, (size_t)sums * sizeof(float), err) : 0;
    if (!rc && d->rows)
        rc = row_gradients(d, err);
    if (!rc && d->images)
        rc = ctr_deep_images_push(d, opt, err);
    if (!rc && all->counts)
        rc = ctr_deep_send_l2(d, all, err);
    const struct ctr_source_step step = { .opt = *opt,
                                          .grad = ctr_mat(d->vectors.du, d->batch.unique, d->width),
                                          .l2_row = all->counts ? ctr_vec(d->vectors.l2, d->batch.unique)
                                                                : (struct ctr_vec){ 0 },
                                          .squares = squares_of(d),
                                          .pool = pool };
    return rc ? rc : ctr_source_push(d->vectors.source, d->batch.key_buffer, &step, err);
}

/* Drop the keys of the minibatch in a buffer. */
static void forget_keys(struct ctr_deep *d, int buffer)
{
    if (d->vectors.source)
        ctr_source_drop(d->vectors.source, buffer);
    for (int t = 0; t < d->batch.sets; t++)
        ctr_keyset_clear(&d->batch.set[buffer][t].keys);
}

void ctr_deep_unannounce(struct ctr_deep *d)
{
    d->batch.begun = d->batch.known = false;
    forget_keys(d, d->batch.key_buffer);
}

void ctr_deep_clear(struct ctr_deep *d)
{
    d->rows = d->batch.unique = d->batch.sent_rows = 0;
    d->batch.buffer_index = !d->batch.buffer_index;
    d->batch.weighted = d->batch.on_device = d->batch.left = false;
    ctr_buf_clear(&d->batch.number);
    ctr_buf_clear(&d->batch.label);
    ctr_buf_clear(&d->batch.weight);
    for (int i = 0; i < d->groups; i++) {
        struct ctr_deep_group *g = &d->group[i];
        struct ctr_buf *bufs[] = { &g->hash,  &g->index, &g->start,    &g->segment,   &g->x,
                                   &g->table, &g->item,  &g->row_item, &g->row_count, &g->digest };
        for (size_t b = 0; b < CTR_COUNT(bufs); b++)
            ctr_buf_clear(bufs[b]);
        ctr_deep_equal_clear(&g->equal);
        g->entries = g->sent_entries = g->sent_lists = g->pooled = 0;
    }
    for (int i = 0; i < d->sequences; i++)
        d->sequence[i].entries = 0;
    for (int i = 0; i < d->distincts; i++)
        ctr_deep_distinct_clear(&d->distinct[i]);
    if (d->images)
        ctr_deep_images_clear(d);
    forget_keys(d, d->batch.key_buffer);
    if (d->batch.announced)
        d->batch.key_buffer = !d->batch.key_buffer;
    d->batch.begun = d->batch.announced;
    d->batch.announced = d->batch.known = false;
}

void ctr_deep_rows_free(struct ctr_deep *d)
{
    for (int i = 0; d->group && i < d->groups; i++) {
        struct ctr_deep_group *g = &d->group[i];
        struct ctr_buf *bufs[] = { &g->hash,  &g->index, &g->start,    &g->segment,   &g->x,
                                   &g->table, &g->item,  &g->row_item, &g->row_count, &g->digest };
        struct ctr_mem *mems[] = { g->group_start_mem, g->group_item_mem, g->value, g->grad };
        for (int b = 0; b < 2; b++) {
            const struct ctr_deep_lists *l = &g->buffers[b];
            struct ctr_mem *of[] = {
                l->index, l->start, l->segment, l->x, l->hash, l->item, l->row_item, l->row_count
            };
            for (size_t k = 0; k < CTR_COUNT(of); k++)
                ctr_mem_free(of[k]);
        }
        for (size_t b = 0; b < CTR_COUNT(bufs); b++)
            ctr_buf_free(bufs[b]);
        for (size_t b = 0; b < CTR_COUNT(mems); b++)
            ctr_mem_free(mems[b]);
        ctr_deep_equal_free(&g->equal);
    }
    for (int i = 0; i < d->distincts; i++)
        ctr_deep_distinct_free(&d->distinct[i]);
    free(d->distinct);
    for (int i = 0; i < 2 * d->batch.sets; i++)
        ctr_keyset_free(&d->batch.set[i % 2][i / 2].keys);
    free(d->batch.set[0]);
    free(d->batch.set[1]);
    ctr_source_free(d->vectors.source);
    ctr_mem_free(d->vectors.du);
    ctr_mem_free(d->vectors.l2);
    ctr_mem_free(d->vectors.squares);
}
