/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources, stacked: tables in this process, a cache with few slots, and, as test doubles, a disk, two owners of shards
 * and a tower. The same training, with the keys of the next minibatch announced while one is learned from, gives the
 * same bits through each of them. */
#include <stdlib.h>
#include <unistd.h>

#include "common/stream/stream.h"
#include "common/table/table.h"

#include "tap.h"

enum { WIDTH = 3, FLOATS = 3 * WIDTH, OUT = 2, TABLES = 2, KEYS = 60, BATCHES = 24, MOST = 40 };

static struct ctr_dev *dev;

static void must(int rc, const struct ctr_err *err)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err->what);
        exit(1);
    }
}

static void table_init(struct ctr_embedding *t, int number)
{
    ctr_embedding_init(t, WIDTH, FLOATS, 77 + (uint64_t)number, .5F);
}

/* ---- ram ---- */

struct ram {
    struct ctr_embedding table[TABLES];
};

static struct ctr_source *ram_source(struct ram *r)
{
    struct ctr_err err = { 0 };
    struct ctr_source *s = NULL;
    must(ctr_source_ram(&s, dev, WIDTH, FLOATS, &err), &err);
    for (int t = 0; t < TABLES; t++) {
        table_init(&r->table[t], t);
        must(ctr_source_ram_bind(s, t, &r->table[t], &err), &err);
    }
    return s;
}

static void ram_end(struct ram *r)
{
    for (int t = 0; t < TABLES; t++)
        ctr_embedding_free(&r->table[t]);
}

/* ---- a disk: rows in a file, in the order in which they came ---- */

struct disk {
    struct ctr_source base;
    FILE *file;
    struct {
        int table;
        uint64_t hash;
    } row[TABLES * KEYS];
    int64_t rows, reads;
    struct ctr_embedding first[TABLES]; /* empty: what new rows begin with */
};

static long disk_find(const struct disk *d, int table, uint64_t hash)
{
    for (int64_t i = 0; i < d->rows; i++)
        if (d->row[i].table == table && d->row[i].hash == hash)
            return i * (long)(FLOATS * sizeof(float));
    return -1;
}

static int disk_fetch(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, float *to,
                      struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    for (int64_t i = 0; i < keys->n; i++, to += FLOATS) {
        const long at = disk_find(d, keys->table, keys->hash[i]);
        if (at >= 0) {
            if (fseek(d->file, at, SEEK_SET) || fread(to, sizeof *to, FLOATS, d->file) != FLOATS)
                return ctr_fail(err, CTR_ESYS, "a disk that cannot be read");
            d->reads++;
            continue;
        }
        ctr_embedding_gather(&d->first[keys->table], &(uint32_t){ CTR_EMBEDDING_NONE }, &keys->hash[i], 1, FLOATS, to);
        if (!make)
            continue;
        d->row[d->rows].table = keys->table;
        d->row[d->rows++].hash = keys->hash[i];
        if (fseek(d->file, 0, SEEK_END) || fwrite(to, sizeof *to, FLOATS, d->file) != FLOATS)
            return ctr_fail(err, CTR_ESYS, "a disk that is full");
    }
    return 0;
}

static int disk_put(struct ctr_source *s, const struct ctr_source_keys *keys, const float *from, struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    for (int64_t i = 0; i < keys->n; i++, from += FLOATS) {
        const long at = disk_find(d, keys->table, keys->hash[i]);
        if (at < 0 || fseek(d->file, at, SEEK_SET) || fwrite(from, sizeof *from, FLOATS, d->file) != FLOATS)
            return ctr_fail(err, CTR_ESYS, "a row that the disk has not got");
    }
    return 0;
}

static int64_t disk_rows(const struct ctr_source *s, int table)
{
    (void)table;
    return ((const struct disk *)s)->rows;
}

static void disk_free(struct ctr_source *s)
{
    struct disk *d = (struct disk *)s;
    fclose(d->file);
    free(d);
}

static const struct ctr_source_ops disk_ops = {
    .name = "disk", .one_at_a_time = true, .fetch = disk_fetch, .put = disk_put, .rows = disk_rows, .free = disk_free
};

static struct ctr_source *disk_source(void)
{
    struct disk *d = calloc(1, sizeof *d);
    if (!d || !(d->file = tmpfile()))
        exit(1);
    for (int t = 0; t < TABLES; t++)
        table_init(&d->first[t], t);
    d->base = (struct ctr_source){ .ops = &disk_ops, .dev = dev, .width = WIDTH, .floats = FLOATS };
    return &d->base;
}

/* ---- the disk ---- */

/* So little memory that few rows stay in it. */
static struct ctr_source *real_disk(const char *dir)
{
    struct ctr_err err = { 0 };
    struct ctr_source *s = NULL;
    must(ctr_source_disk(&s, dev, WIDTH, FLOATS, FLOATS + 1, dir, 1, &err), &err);
    for (int t = 0; t < TABLES; t++) {
        struct ctr_embedding first;
        ctr_embedding_init(&first, WIDTH, FLOATS + 1, 77 + (uint64_t)t, .5F);
        must(ctr_source_disk_bind(s, t, &first, &err), &err);
    }
    return s;
}

/* ---- two owners: a key is of owner hash % 2 ---- */

enum { OWNERS = 2 };
struct shard {
    struct ctr_source base;
    struct ctr_source *owner[OWNERS];
    struct ctr_mem *all, *part; /* values of all keys; gradients of an owner's */
    struct shard_keys {
        uint64_t hash[TABLES][MOST];
        int from[TABLES][MOST]; /* number of the key in the minibatch */
        int64_t n[TABLES];
    } keys[2][OWNERS];
};

static int shard_begin(struct ctr_source *s, const struct ctr_want *want, int buffer, struct ctr_err *err)
{
    struct shard *h = (struct shard *)s;
    int rc = 0;
    for (int o = 0; o < OWNERS && !rc; o++) {
        struct shard_keys *k = &h->keys[buffer][o];
        struct ctr_want_keys part[TABLES];
        for (int t = 0; t < want->tables; t++) {
            k->n[t] = 0;
            for (int64_t i = 0; i < want->keys[t].n; i++)
                if ((int)(want->keys[t].hash[i] % OWNERS) == o) {
                    k->from[t][k->n[t]] = (int)i;
                    k->hash[t][k->n[t]++] = want->keys[t].hash[i];
                }
            part[t] = (struct ctr_want_keys){ k->hash[t], k->n[t] };
        }
        struct ctr_want theirs = *want;
        theirs.keys = part;
        rc = ctr_source_begin(h->owner[o], &theirs, buffer, err);
    }
    return rc;
}

static float *row(struct ctr_mat m, int64_t i)
{
    return (float *)ctr_mem_host(m.mem) + m.at + i * m.stride;
}

/* Rows of an owner's keys to or from the places that they have in the minibatch. */
static void shard_move(struct shard *h, int buffer, int o, struct ctr_mat theirs, struct ctr_mat all, bool back)
{
    const struct shard_keys *k = &h->keys[buffer][o];
    for (int t = 0; t < TABLES; t++)
        for (int64_t i = 0; i < k->n[t]; i++) {
            float *a = row(all, ctr_source_places(&h->base, buffer, t)[k->from[t][i]]);
            float *b = row(theirs, ctr_source_places(h->owner[o], buffer, t)[i]);
            memcpy(back ? b : a, back ? a : b, WIDTH * sizeof *a);
        }
}

static int shard_values(struct ctr_source *s, int buffer, struct ctr_mat *values, struct ctr_err *err)
{
    struct shard *h = (struct shard *)s;
    int rc = ctr_mem_grow(&h->all, dev, TABLES * MOST * WIDTH * sizeof(float), err);
    *values = ctr_mat(h->all, s->batch[buffer].n, WIDTH);
    for (int o = 0; o < OWNERS && !rc; o++) {
        struct ctr_mat theirs;
        rc = ctr_source_values(h->owner[o], buffer, &theirs, err);
        if (!rc)
            shard_move(h, buffer, o, theirs, *values, false);
    }
    return rc;
}

static int shard_push(struct ctr_source *s, int buffer, const struct ctr_source_step *step, struct ctr_err *err)
{
    struct shard *h = (struct shard *)s;
    int rc = ctr_mem_grow(&h->part, dev, TABLES * MOST * WIDTH * sizeof(float), err);
    for (int o = 0; o < OWNERS && !rc; o++) {
        struct ctr_source_step theirs = *step;
        theirs.grad = ctr_mat(h->part, h->owner[o]->batch[buffer].n, WIDTH);
        shard_move(h, buffer, o, theirs.grad, step->grad, true);
        rc = ctr_source_push(h->owner[o], buffer, &theirs, err);
    }
    return rc;
}

static void shard_drop(struct ctr_source *s, int buffer)
{
    for (int o = 0; o < OWNERS; o++)
        ctr_source_drop(((struct shard *)s)->owner[o], buffer);
}

static int shard_settle(struct ctr_source *s, struct ctr_err *err)
{
    int rc = ctr_source_settle(((struct shard *)s)->owner[0], err);
    return rc ? rc : ctr_source_settle(((struct shard *)s)->owner[1], err);
}

static void shard_free(struct ctr_source *s)
{
    struct shard *h = (struct shard *)s;
    for (int o = 0; o < OWNERS; o++)
        ctr_source_free(h->owner[o]);
    ctr_mem_free(h->all);
    ctr_mem_free(h->part);
    free(h);
}

static const struct ctr_source_ops shard_ops = { .name = "shard",
                                                 .begin = shard_begin,
                                                 .values = shard_values,
                                                 .push = shard_push,
                                                 .drop = shard_drop,
                                                 .settle = shard_settle,
                                                 .free = shard_free };

static struct ctr_source *shard_source(struct ctr_source *a, struct ctr_source *b)
{
    struct shard *h = calloc(1, sizeof *h);
    if (!h)
        exit(1);
    h->base = (struct ctr_source){ .ops = &shard_ops, .dev = dev, .width = WIDTH, .floats = FLOATS };
    h->owner[0] = a;
    h->owner[1] = b;
    return &h->base;
}

/* ---- a tower: y = W x for the vectors x of what lies below; push goes through it and down ---- */

struct tower {
    struct ctr_source base;
    struct ctr_source *below;
    struct ctr_mem *w, *dw, *y, *dx;
    struct ctr_mat x; /* of the last values */
};

static int tower_begin(struct ctr_source *s, const struct ctr_want *want, int buffer, struct ctr_err *err)
{
    return ctr_source_begin(((struct tower *)s)->below, want, buffer, err);
}

static int tower_values(struct ctr_source *s, int buffer, struct ctr_mat *values, struct ctr_err *err)
{
    struct tower *t = (struct tower *)s;
    const int64_t n = s->batch[buffer].n;
    int rc = ctr_source_values(t->below, buffer, &t->x, err);
    *values = ctr_mat(t->y, n, OUT);
    const struct ctr_dev_gemm forward = { .a = t->x, .b = ctr_mat(t->w, OUT, WIDTH), .tb = true, .c = *values };
    return rc ? rc : ctr_dev_gemm(dev, &forward, err);
}

static int tower_push(struct ctr_source *s, int buffer, const struct ctr_source_step *step, struct ctr_err *err)
{
    struct tower *t = (struct tower *)s;
    struct ctr_source_step below = *step;
    below.grad = ctr_mat(t->dx, t->x.rows, WIDTH);
    const struct ctr_mat w = ctr_mat(t->w, OUT, WIDTH), dw = ctr_mat(t->dw, OUT, WIDTH);
    const struct ctr_dev_gemm down = { .a = step->grad, .b = w, .c = below.grad };
    const struct ctr_dev_gemm weight = { .a = step->grad, .ta = true, .b = t->x, .c = dw };
    const struct ctr_dev_axpby learn = { .a = -.01F, .b = 1, .x = dw, .y = w };
    int rc = ctr_dev_gemm(dev, &down, err);
    if (!rc)
        rc = ctr_dev_gemm(dev, &weight, err);
    if (!rc)
        rc = ctr_dev_axpby(dev, &learn, err);
    return rc ? rc : ctr_source_push(t->below, buffer, &below, err);
}

static void tower_drop(struct ctr_source *s, int buffer)
{
    ctr_source_drop(((struct tower *)s)->below, buffer);
}

static int tower_settle(struct ctr_source *s, struct ctr_err *err)
{
    return ctr_source_settle(((struct tower *)s)->below, err);
}

static void tower_free(struct ctr_source *s)
{
    struct tower *t = (struct tower *)s;
    struct ctr_mem *mems[] = { t->w, t->dw, t->y, t->dx };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_source_free(t->below);
    free(t);
}

static const struct ctr_source_ops tower_ops = { .name = "tower",
                                                 .begin = tower_begin,
                                                 .values = tower_values,
                                                 .push = tower_push,
                                                 .drop = tower_drop,
                                                 .settle = tower_settle,
                                                 .free = tower_free };

static struct ctr_source *tower_source(struct ctr_source *below)
{
    struct ctr_err err = { 0 };
    struct tower *t = calloc(1, sizeof *t);
    if (!t)
        exit(1);
    t->base = (struct ctr_source){ .ops = &tower_ops, .dev = dev, .width = OUT, .floats = OUT };
    t->below = below;
    must(ctr_mem_new(&t->w, dev, OUT * WIDTH * sizeof(float), &err), &err);
    must(ctr_mem_new(&t->dw, dev, OUT * WIDTH * sizeof(float), &err), &err);
    must(ctr_mem_new(&t->y, dev, TABLES * MOST * OUT * sizeof(float), &err), &err);
    must(ctr_mem_new(&t->dx, dev, TABLES * MOST * WIDTH * sizeof(float), &err), &err);
    for (int i = 0; i < OUT * WIDTH; i++)
        ((float *)ctr_mem_host(t->w))[i] = (float)(i % 4) / 2 - .7F;
    return &t->base;
}

/* ---- training ---- */

/* The distinct keys of minibatch b, at most MOST a table; the first table is asked for again in a second piece. */
struct batch {
    uint64_t hash[TABLES][MOST];
    int64_t n[TABLES];
};

static void make_batch(struct batch *b, int number)
{
    for (int t = 0; t < TABLES; t++) {
        bool seen[KEYS] = { false };
        b->n[t] = 0;
        for (uint64_t i = 0; i < 2 * MOST / 3; i++) {
            const uint64_t key = ctr_random64(9, (uint64_t)number * TABLES + (uint64_t)t, i) % KEYS;
            if (!seen[key])
                b->hash[t][b->n[t]++] = ctr_key_hash(key + 1);
            seen[key] = true;
        }
    }
}

static void begin(struct ctr_source *s, const struct batch *b, int buffer, bool make, struct ctr_pool *pool, int piece)
{
    struct ctr_err err = { 0 };
    const struct ctr_want_keys keys[TABLES] = { { b->hash[0], piece ? b->n[0] : b->n[0] / 2 },
                                                { b->hash[1], piece ? b->n[1] : 1 } };
    const struct ctr_want want = { TABLES, keys, make, pool };
    must(ctr_source_begin(s, &want, buffer, &err), &err);
}

/* The gradient of a row: a function of its values and its key. */
static void learn(struct ctr_source *s, const struct batch *b, int buffer, int number, struct ctr_mem *grad,
                  struct ctr_pool *pool)
{
    struct ctr_err err = { 0 };
    struct ctr_mat values, again;
    must(ctr_source_values(s, buffer, &values, &err), &err);
    begin(s, b, buffer, true, pool, 1);
    must(ctr_source_values(s, buffer, &again, &err), &err);
    struct ctr_source_step step = {
        .opt = { .kind = CTR_OPT_ADAM, .rate = .05F, .eps = 1e-8F, .beta1 = .9F, .beta2 = .999F, .step = number + 1 },
        .grad = ctr_mat(grad, again.rows, s->width),
        .pool = pool
    };
    for (int t = 0; t < TABLES; t++)
        for (int64_t i = 0; i < b->n[t]; i++) {
            const int64_t at = ctr_source_places(s, buffer, t)[i];
            for (int j = 0; j < s->width; j++)
                row(step.grad, at)[j] = .5F * row(again, at)[j] + (float)(b->hash[t][i] % 7) - 3;
        }
    must(ctr_source_push(s, buffer, &step, &err), &err);
    ctr_source_drop(s, buffer);
}

static int tries; /* of the source, to number keys */

/* The same where the source numbers the keys, each of which comes twice or more. 0: it does not. */
static int learn_entries(struct ctr_source *s, const struct batch *b, int number, struct ctr_mem *grad)
{
    enum { ENTRIES = 2 * MOST * TABLES };
    static const int tables[TABLES] = { 0, 1 };
    static uint64_t hash[ENTRIES];
    struct ctr_err err = { 0 };
    const int64_t n = 2 * CTR_MAX(b->n[0], b->n[1]) * TABLES;
    struct ctr_mem *key = NULL, *list = NULL;
    struct ctr_mat values;
    for (int64_t e = 0; e < n; e++)
        hash[e] = b->hash[e % TABLES][e / TABLES % b->n[e % TABLES]];
    must(ctr_mem_new(&key, dev, sizeof hash, &err), &err);
    must(ctr_mem_new(&list, dev, (3 * ENTRIES + 1) * sizeof(int32_t), &err), &err);
    must(ctr_mem_write(key, 0, hash, sizeof hash, &err), &err);
    const struct ctr_source_part part = { n, tables, TABLES };
    struct ctr_source_entries e = { .hash = hash,
                                    .on_device = ctr_vec(key, n),
                                    .part = &part,
                                    .parts = 1,
                                    .index = ctr_vec(list, n),
                                    .group_item = ctr_vec_at(list, ENTRIES, n),
                                    .group_start = ctr_vec_at(list, 2 * ENTRIES, n + 1) };
    const bool takes = ctr_source_takes_entries(s, n);
    const int rc = takes ? ctr_source_entries(s, 0, &e, &values, &err) : 0;
    tries += takes;
    const int32_t *index = ctr_mem_host(list), *item = index + ENTRIES, *start = item + ENTRIES;
    must(rc, &err);
    struct ctr_source_step step = {
        .opt = { .kind = CTR_OPT_ADAM, .rate = .05F, .eps = 1e-8F, .beta1 = .9F, .beta2 = .999F, .step = number + 1 },
        .grad = ctr_mat(grad, e.distinct, s->width)
    };
    for (int64_t u = 0; rc && u < e.distinct; u++)
        for (int j = 0; j < s->width; j++)
            row(step.grad, u)[j] = .5F * row(values, index[item[start[u]]])[j] + (float)(hash[item[start[u]]] % 7) - 3;
    if (rc)
        must(ctr_source_push(s, 0, &step, &err), &err);
    if (rc)
        ctr_source_drop(s, 0);
    ctr_mem_free(key);
    ctr_mem_free(list);
    return rc;
}

/* What all keys have in the end, and the minibatches between: the keys of the next one are announced before each is
 * learned from. */
static void train(struct ctr_source *s, int threads, float result[TABLES][KEYS][WIDTH])
{
    struct ctr_err err = { 0 };
    struct ctr_pool *pool = NULL;
    struct ctr_mem *grad = NULL;
    static struct batch batch[2];
    memset(result, 0, sizeof(float) * TABLES * KEYS * WIDTH);
    must(ctr_mem_new(&grad, dev, TABLES * MOST * WIDTH * sizeof(float), &err), &err);
    must(threads > 1 ? ctr_pool_new(&pool, threads, CTR_FLOAT_FLUSH, &err) : 0, &err);
    make_batch(&batch[0], 0);
    begin(s, &batch[0], 0, true, pool, 0);
    for (int i = 0; i < BATCHES; i++) {
        const int now = i % 2, next = !now;
        make_batch(&batch[next], i + 1);
        if (i + 1 < BATCHES)
            begin(s, &batch[next], next, true, pool, 0);
        learn(s, &batch[now], now, i, grad, pool);
    }
    must(ctr_source_settle(s, &err), &err);
    for (uint64_t k = 0; k < KEYS; k++) {
        const uint64_t hash = ctr_key_hash(k + 1);
        const struct ctr_want_keys keys[TABLES] = { { &hash, 1 }, { &hash, 1 } };
        const struct ctr_want want = { TABLES, keys, false, NULL };
        struct ctr_mat values;
        must(ctr_source_begin(s, &want, 0, &err), &err);
        must(ctr_source_values(s, 0, &values, &err), &err);
        for (int t = 0; t < TABLES; t++)
            memcpy(result[t][k], row(values, ctr_source_places(s, 0, t)[0]), (size_t)s->width * sizeof(float));
        ctr_source_drop(s, 0);
    }
    ctr_pool_free(pool);
    ctr_mem_free(grad);
}

static int64_t said(const struct ctr_source *s, const char *name)
{
    struct ctr_err err = { 0 };
    struct ctr_buf text = { 0 };
    struct ctr_say to = { &text, &err, 0 };
    ctr_source_summary(s, &to);
    must(to.rc, &err);
    const char *at = text.len ? strstr((const char *)text.data, name) : NULL;
    const int64_t n = at ? atoll(at + strlen(name)) : -1;
    ctr_buf_free(&text);
    return n;
}

static struct ctr_source *cached(struct ctr_source *below)
{
    struct ctr_err err = { 0 };
    struct ctr_source *s = NULL;
    must(ctr_source_cache(&s, dev, below, &err), &err);
    return s;
}

static void test_stacks(void)
{
    static float want[TABLES][KEYS][WIDTH], got[TABLES][KEYS][WIDTH], tower[TABLES][KEYS][WIDTH];
    struct ram ram[2];
    struct ctr_source *s = ram_source(&ram[0]);
    train(s, 1, want);
    bool learned = false;
    for (int t = 0; t < TABLES; t++)
        for (int k = 0; k < KEYS; k++)
            learned |= want[t][k][0] > .6F || want[t][k][0] < -.6F;
    ok(learned, "tables in memory learn");
    ctr_source_free(s);
    ram_end(&ram[0]);

    s = ram_source(&ram[0]);
    train(s, 3, got);
    ok(!memcmp(got, want, sizeof got), "the same bits with three threads");
    ctr_source_free(s);
    ram_end(&ram[0]);

    for (const char *const *slots = (const char *const[]){ "0", "8", "16", "64", "", NULL }; *slots; slots++) {
        setenv("CTR_WORKING_SET", *slots, 1);
        s = cached(ram_source(&ram[0]));
        train(s, 1, got);
        ok(!memcmp(got, want, sizeof got), "a cache of %s slots: %d hits, %d evictions", *slots,
           (int)said(s, "device hits"), (int)said(s, "device evictions"));
        ctr_source_free(s);
        ram_end(&ram[0]);
    }

    setenv("CTR_WORKING_SET", "16", 1);
    s = disk_source();
    train(s, 2, got);
    const int64_t reads = ((struct disk *)s)->reads;
    ok(!memcmp(got, want, sizeof got), "a disk");
    ctr_source_free(s);
    setenv("CTR_WORKING_SET", "", 1);
    struct ctr_source *disk = disk_source();
    s = cached(disk);
    train(s, 1, got);
    ok(!memcmp(got, want, sizeof got) && ((struct disk *)disk)->reads < reads,
       "a cache over a disk, which reads less: %d rows, not %d", (int)((struct disk *)disk)->reads, (int)reads);
    ctr_source_free(s);

    s = shard_source(ram_source(&ram[0]), ram_source(&ram[1]));
    train(s, 1, got);
    ok(!memcmp(got, want, sizeof got), "two owners of tables in memory");
    ctr_source_free(s);
    ram_end(&ram[0]);
    ram_end(&ram[1]);
    setenv("CTR_WORKING_SET", "8", 1);
    s = shard_source(cached(ram_source(&ram[0])), cached(disk_source()));
    train(s, 2, got);
    ok(!memcmp(got, want, sizeof got), "one with a cache over its table, the other one over its disk");
    ctr_source_free(s);
    ram_end(&ram[0]);

    s = tower_source(ram_source(&ram[0]));
    train(s, 1, tower);
    ctr_source_free(s);
    ok(memcmp(tower, want, sizeof got), "a tower computes other vectors");
    ram_end(&ram[0]);
    s = tower_source(cached(ram_source(&ram[0])));
    train(s, 1, got);
    ok(!memcmp(got, tower, sizeof got), "the same over a cache");
    ctr_source_free(s);
    ram_end(&ram[0]);
    s = tower_source(shard_source(cached(disk_source()), disk_source()));
    train(s, 1, got);
    ok(!memcmp(got, tower, sizeof got), "and over two owners");
    ctr_source_free(s);
}

static int sum_rows(void *ctx, uint64_t key, const float *r, struct ctr_err *err)
{
    (void)err;
    *(double *)ctx = *(double *)ctx * 1.25 + (double)key + (double)r[0] + (double)r[FLOATS - 1];
    return 0;
}

static void test_disk(const char *dir)
{
    static float want[TABLES][KEYS][WIDTH], got[TABLES][KEYS][WIDTH];
    struct ctr_err err = { 0 };
    struct ram ram;
    struct ctr_source *s = ram_source(&ram);
    train(s, 1, want);
    ctr_source_free(s);
    ram_end(&ram);
    s = real_disk(dir);
    train(s, 3, got);
    ok(!memcmp(got, want, sizeof got), "the same bits with rows on disk");
    ok(said(s, "memory rows") == 64 && said(s, "memory evictions") > 0, "of which few are in memory: %d, %d went",
       (int)said(s, "memory rows"), (int)said(s, "memory evictions"));
    ok(ctr_source_rows(s, -1) == ctr_source_rows(s, 0) + ctr_source_rows(s, 1) && ctr_source_rows(s, 0) <= KEYS,
       "a row a key: %d and %d", (int)ctr_source_rows(s, 0), (int)ctr_source_rows(s, 1));
    ctr_source_free(s);

    setenv("CTR_WORKING_SET", "8", 1);
    s = cached(real_disk(dir));
    train(s, 1, got);
    ok(!memcmp(got, want, sizeof got), "and with a cache over them");
    ctr_source_free(s);
    setenv("CTR_WORKING_SET", "", 1);
    s = shard_source(real_disk(dir), cached(real_disk(dir)));
    train(s, 2, got);
    ok(!memcmp(got, want, sizeof got), "and two owners of such");
    ctr_source_free(s);

    /* More keys than there are slots, in one minibatch and in two. */
    static uint64_t hash[200];
    for (uint64_t i = 0; i < 200; i++)
        hash[i] = ctr_key_hash(1000 + i);
    const struct ctr_want_keys all = { hash, 200 }, some = { hash, 40 }, others = { hash + 40, 40 };
    struct ctr_want want_all = { 1, &all, true, NULL };
    struct ctr_mat values;
    s = real_disk(dir);
    must(ctr_source_begin(s, &want_all, 0, &err), &err);
    ok(ctr_source_values(s, 0, &values, &err) == CTR_ENOMEM && strstr(err.what, "--memory"), "%s", err.what);
    ctr_source_free(s);
    s = real_disk(dir);
    must(ctr_source_begin(s, &(struct ctr_want){ 1, &some, true, NULL }, 0, &err), &err);
    must(ctr_source_begin(s, &(struct ctr_want){ 1, &others, true, NULL }, 1, &err), &err);
    must(ctr_source_values(s, 0, &values, &err), &err);
    ctr_source_drop(s, 0);
    ok(!ctr_source_values(s, 1, &values, &err) && values.rows == 40, "a second minibatch waits for room");
    ok(ctr_source_rows(s, 0) == 80, "and makes its rows");
    ctr_source_drop(s, 1);

    /* In and out: a key that comes again is found out, in order or not. */
    const float row[FLOATS + 1] = { 1, 2, 3 };
    must(ctr_source_load(s, 1, 7, row, &err), &err);
    must(ctr_source_load(s, 1, 9, row, &err), &err);
    ok(ctr_source_load(s, 1, 9, row, &err) == CTR_EDATA && ctr_source_load(s, 1, 7, row, &err) == CTR_EDATA,
       "a key that is loaded twice: %s", err.what);
    must(ctr_source_load(s, 1, 8, row, &err), &err);
    double sum = 0;
    must(ctr_source_save(s, 1, sum_rows, &sum, &err), &err);
    ok(ctr_source_rows(s, 1) == 3 && sum == ((7 + 1) * 1.25 + 8 + 1) * 1.25 + 9 + 1, "rows come out in order of keys");
    ctr_source_free(s);
}

static void test_order(void)
{
    struct ctr_err err = { 0 };
    struct ram ram;
    struct ctr_source *s = ram_source(&ram);
    static struct batch batch;
    struct ctr_mat values;
    make_batch(&batch, 0);
    begin(s, &batch, 0, true, NULL, 1);
    begin(s, &batch, 1, true, NULL, 1);
    must(ctr_source_values(s, 0, &values, &err), &err);
    ok(ctr_source_values(s, 1, &values, &err) == CTR_EUSAGE, "values before the other minibatch is pushed: %s",
       err.what);
    ctr_source_drop(s, 0);
    ok(!ctr_source_values(s, 1, &values, &err) && values.rows == batch.n[0] + batch.n[1], "after it, they are there");
    ctr_source_free(s);
    ram_end(&ram);
}

/* ---- keys that the source numbers ---- */

/* Keys that share one of the cache's sets of 8 slots. */
static void crowd(struct batch *b, const struct ctr_source *s)
{
    const uint64_t sets = (uint64_t)said(s, "device rows") / 8;
    b->n[0] = 0;
    for (uint64_t k = 1000; b->n[0] < 9; k++) {
        const uint64_t hash = ctr_key_hash(k);
        if (ctr_mix64(ctr_mix64(hash)) % sets == 0)
            b->hash[0][b->n[0]++] = hash;
    }
}

static void test_entries(void)
{
    struct ctr_err err = { 0 };
    struct ram ram[2];
    struct ctr_mem *grad = NULL;
    static struct batch b;
    int done = 0, numbered = 0;
    double of_cache = 0, of_tables = 0;
    setenv("CTR_WORKING_SET", "", 1);
    struct ctr_source *cache = cached(ram_source(&ram[0])), *tables = ram_source(&ram[1]);
    ok(!ctr_source_takes_entries(tables, 1), "tables in memory number no keys");
    must(ctr_mem_new(&grad, dev, TABLES * MOST * WIDTH * sizeof(float), &err), &err);
    for (int i = 0; i < BATCHES; i++) {
        make_batch(&b, i);
        if (i == BATCHES / 2)
            crowd(&b, cache);
        const int rc = learn_entries(cache, &b, i, grad);
        if (!rc)
            begin(cache, &b, 0, true, NULL, 0);
        if (!rc)
            learn(cache, &b, 0, i, grad, NULL);
        done += rc;
        begin(tables, &b, 0, true, NULL, 0);
        learn(tables, &b, 0, i, grad, NULL);
    }
    tries = 0;
    for (int i = 0; i < 30; i++) {
        make_batch(&b, i);
        crowd(&b, cache);
        if (learn_entries(cache, &b, i, grad))
            numbered++;
        begin(cache, &b, 0, true, NULL, 0);
        learn(cache, &b, 0, i, grad, NULL);
        begin(tables, &b, 0, true, NULL, 0);
        learn(tables, &b, 0, i, grad, NULL);
    }
    ok(tries == 5 && !numbered, "where each minibatch crowds a set, it tries after 1, 3, 7 and 15: %d", tries);
    for (int t = 0; t < TABLES; t++) {
        must(ctr_source_save(cache, t, sum_rows, &of_cache, &err), &err);
        must(ctr_source_save(tables, t, sum_rows, &of_tables, &err), &err);
    }
    ok(done == BATCHES - 2, "a cache numbers keys but of the first minibatch and of one that crowds a set: %d of %d",
       done, BATCHES);
    ok(of_cache != 0 && of_cache == of_tables, "and rows learn as in memory");
    ctr_source_free(cache);
    ctr_source_free(tables);
    ctr_mem_free(grad);
    ram_end(&ram[0]);
    ram_end(&ram[1]);
}

/* ---- a table in and out; counts ---- */

static int add_row(void *ctx, uint64_t key, const float *r, struct ctr_err *err)
{
    return ctr_source_load(ctx, 0, key, r, err);
}

static void test_file(void)
{
    static float got[TABLES][KEYS][WIDTH];
    struct ctr_err err = { 0 };
    struct ram ram[2];
    setenv("CTR_WORKING_SET", "", 1);
    struct ctr_source *a = cached(ram_source(&ram[0])), *b = cached(ram_source(&ram[1]));
    double from = 0, to = 0;
    train(a, 1, got);
    must(ctr_source_save(a, 0, add_row, b, &err), &err);
    must(ctr_source_save(a, 0, sum_rows, &from, &err), &err);
    must(ctr_source_save(b, 0, sum_rows, &to, &err), &err);
    ok(from != 0 && from == to, "rows that were saved are loaded");
    ctr_source_free(a);
    ctr_source_free(b);
    ram_end(&ram[0]);
    ram_end(&ram[1]);
}

static void test_counts(void)
{
    struct ctr_err err = { 0 };
    struct ctr_embedding table;
    struct ctr_source *s = NULL;
    const uint64_t hash[3] = { 11, 12, 13 };
    const struct ctr_want_keys keys = { hash, 3 };
    const struct ctr_want want = { 1, &keys, true, NULL };
    uint32_t total[3] = { 0 };
    ctr_embedding_init(&table, WIDTH, FLOATS + 1, 1, .1F);
    must(ctr_source_ram(&s, dev, WIDTH, FLOATS, &err), &err);
    must(ctr_source_ram_bind(s, 0, &table, &err), &err);
    s = cached(s);
    for (int i = 0; i < 2; i++) {
        must(ctr_source_begin(s, &want, 0, &err), &err);
        must(ctr_source_count(s, 0, 0, (const int32_t[]){ 1, 2, INT32_MAX }, total, &err), &err);
        ctr_source_drop(s, 0);
    }
    must(ctr_source_begin(s, &want, 0, &err), &err);
    must(ctr_source_count(s, 0, 0, (const int32_t[]){ 1, 0, 7 }, total, &err), &err);
    ok(total[0] == 3 && total[1] == 4 && total[2] == UINT32_MAX, "uses are counted up to 2^32 - 1");
    ctr_source_free(s);
    ctr_embedding_free(&table);
}

int main(void)
{
    struct ctr_err err = { 0 };
    const char *tmp = getenv("TMPDIR");
    char dir[80];
    snprintf(dir, sizeof dir, "%.50s/unit-source.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return 1;
    must(ctr_dev_open(&dev, &(struct ctr_dev_want){ .device = "cpu", .threads = 1 }, &err), &err);
    test_stacks();
    test_disk(dir);
    rmdir(dir);
    test_order();
    test_entries();
    test_file();
    test_counts();
    ctr_dev_free(dev);
    return done_testing();
}
