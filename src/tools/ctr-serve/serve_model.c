/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_model: generations. A thread looks at the files ten times a second. Where one has been replaced, it loads and
 * verifies it, makes a desk for each thread, has it answer some requests of late, and only then exchanges the pointer
 * that requests take: what is being answered keeps the old generation, which goes with its last request. Parts that did
 * not change are shared. A bad file is reported, and the generation of now stays.
 */
#include "tools/ctr-serve/serve_images.h"
#include "tools/ctr-serve/serve_prerank.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 100, RECENT = 8, RECENT_BYTES = 256 << 10, RECENT_EVERY = 8 };
enum { MODEL, MAP, USERS, ADS, TOWER, VECTORS, IMAGES, FILES };

struct serve_models {
    struct serve_models_opts o;
    struct serve_generation *now;
    pthread_mutex_t lock;
    struct ctr_file_seen seen[FILES], seen_delta[2]; /* of the model, of the tower */
    bool refused[FILES];                             /* files of now that did not fit what is served */
    struct ctr_buf recent[RECENT];                   /* bodies */
    pthread_mutex_t recent_lock;
    int next_recent;
    atomic_uint requests;
    pthread_t watcher;
    bool watching;
    atomic_bool stop;
};

/* A model and its map are replaced at once, and the new model fits only the new map:
 *
 *     look             changed: MODEL, MAP; both are `refused` until they are taken
 *     take_together    generation_new reads both, shares the other parts, makes a desk for each thread and warms it up;
 *                      `now` is exchanged under the lock, and the old generation goes with its last request
 *
 * If the map is damaged instead, generation_new says so (*bad = MAP), and the model is tried alone beside the map of
 * now; then the map, which is reported and stays refused. When a file changes next, the refused ones are tried with it,
 * so that a model and a map that arrive one after the other are taken as soon as both are there. */

static const char *path_of(const struct serve_models *s, int file)
{
    const struct serve_files *f = &s->o.files;
    const char *const paths[FILES] = { [MODEL] = f->model, [MAP] = f->map,         [USERS] = f->users,  [ADS] = f->ads,
                                       [TOWER] = f->tower, [VECTORS] = f->vectors, [IMAGES] = f->images };
    return paths[file];
}

/* ---- parts ---- */

/* The metadata of a section but for its provenance, by name: the plan, its identity and types, the kind and options of
 * the model, its fixed parameters. */
static int put_meta(struct ctr_buf *to, const struct ctr_meta *m, struct ctr_err *err)
{
    const size_t pair = 2 * sizeof *m->kv;
    char **kv = malloc(((size_t)m->n + 1) * pair);
    int rc = kv ? 0 : ctr_fail_nomem(err, (size_t)m->n * pair);
    if (!rc && m->n) {
        memcpy(kv, m->kv, (size_t)m->n * pair);
        qsort(kv, (size_t)m->n, pair, ctr_by_text);
    }
    for (int i = 0; !rc && i < 2 * m->n; i++)
        if (strcmp(kv[i - i % 2], CTR_META_PG) != 0)
            rc = ctr_buf_append(to, kv[i], strlen(kv[i]) + 1, err);
    free(kv);
    return rc;
}

/* What a score depends on: XXH3-128 over all sections, of each the digest that ctr-info prints, as a line, then names
 * and values of its metadata, each with its byte 0. Digests alone leave the plan and the options out. Reading all of
 * the file verifies it. */
static int identity_of(const char *path, char hex[33], struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .sections = true };
    char *const paths[] = { (char *)(uintptr_t)path };
    struct ctr_buf parts = { 0 };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int rc = ctr_reader_open(&r, paths, 1, &ro, err), more = !rc;
    while (more > 0) {
        struct ctr_digest *d = NULL;
        rc = ctr_digest_new(&d, ctr_reader_schema(r), err);
        while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
            rc = ctr_digest_batch(d, b, err);
        if (!rc)
            ctr_digest_hex(d, hex);
        ctr_digest_free(d);
        if (!rc)
            rc = ctr_buf_printf(&parts, err, "%s\n", hex);
        if (!rc)
            rc = put_meta(&parts, &ctr_reader_schema(r)->meta, err);
        more = rc ? rc : ctr_reader_section(r, err);
        rc = CTR_MIN(more, 0);
    }
    if (!rc) {
        const struct ctr_hash128 h = ctr_hash128(parts.data, parts.len);
        snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
    }
    ctr_reader_free(r);
    ctr_buf_free(&parts);
    return rc;
}

static void model_release(struct serve_model *m)
{
    if (!m || atomic_fetch_sub(&m->owners, 1) > 1)
        return;
    serve_inbox_detach(m->inbox, m);
    ctr_plan_free(m->plan);
    ctr_loaded_free(m->loaded);
    if (m->images_fd >= 0)
        close(m->images_fd);
    pthread_mutex_destroy(&m->bind);
    free(m);
}

void serve_model_rename(const struct serve_model *m, struct ctr_err *err)
{
    char *at = *m->images_path ? strstr(err->what, m->images_path) : NULL;
    char rest[sizeof err->what];
    if (*m->images_path && !strcmp(err->file, m->images_path))
        snprintf(err->file, sizeof err->file, "%s", m->images);
    if (!at)
        return;
    snprintf(rest, sizeof rest, "%s", at + strlen(m->images_path));
    ctr_format(at, sizeof err->what - (size_t)(at - err->what), "%.200s%.1500s", m->images, rest);
}

static int open_images(struct serve_model *m, const char *path, struct ctr_err *err)
{
    m->images = path;
    m->images_fd = ctr_open(path, O_RDONLY, 0);
    if (m->images_fd >= 0) {
        snprintf(m->images_path, sizeof m->images_path, "/proc/self/fd/%d", m->images_fd);
        return 0;
    }
    const int rc = ctr_fail_sys(err, "cannot open");
    ctr_err_file(err, path);
    return rc;
}

static int note_image(void *ctx, const struct ctr_plan_signal *s, struct ctr_err *err)
{
    (void)err;
    *(bool *)ctx |= s->role == CTR_ROLE_IMAGE;
    return 0;
}

/* Does the model learn from images? One of a model and its tower may not: its kind may have none, or its plan. */
static int takes_images(const char *path, bool *takes, struct ctr_err *err)
{
    struct ctr_model_info info = { 0 };
    struct ctr_reader *r = NULL;
    struct ctr_plan *plan = NULL;
    int rc = ctr_model_open(path, &info, &r, err);
    *takes = false;
    if (!rc && info.params.images.missing && !(rc = ctr_plan_open(&plan, path, err)))
        rc = ctr_plan_signals(plan, note_image, takes, err);
    ctr_plan_free(plan);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    if (rc)
        ctr_err_file(err, path);
    return rc;
}

static int model_read(struct serve_model *m, const struct serve_files *f, struct ctr_err *err)
{
    struct ctr_predict_opts how = { .threads = 1, .images = f->images, .uncertainty = f->uncertainty };
    bool takes = true;
    int rc = f->images && f->tower ? takes_images(f->model, &takes, err) : 0;
    if (!rc && f->images && takes)
        rc = open_images(m, f->images, err);
    how.images = m->images ? m->images_path : NULL;
    if (!rc)
        rc = ctr_loaded_open(&m->loaded, f->model, &how, err);
    const struct ctr_model_whole *whole = rc ? NULL : ctr_loaded_whole(m->loaded);
    if (!rc && !ctr_meta_get(&ctr_loaded_info(m->loaded)->schema.meta, CTR_META_PLAN)) {
        ctr_err_file(err, f->model);
        return ctr_fail(err, CTR_EUSAGE,
                        "it has no plan, by which features are made of a request: train it with a plan "
                        "(ctr-train MODEL PLAN), or on what ctr-extract wrote");
    }
    if (!rc)
        rc = ctr_plan_open(&m->plan, f->model, err);
    if (!rc && f->key_seed)
        rc = ctr_plan_key_seed(m->plan, f->key_seed, err);
    if (!rc)
        rc = identity_of(whole->path, m->digest, err);
    m->inbox = f->inbox;
    if (!rc && how.images)
        rc = serve_inbox_attach(f->inbox, m, f->model, err);
    return rc;
}

/* All of one file, whatever takes its name meanwhile. */
static int model_load(struct serve_model **out, const struct serve_files *f, struct ctr_err *err)
{
    struct serve_model *m = *out = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    atomic_init(&m->owners, 1);
    m->images_fd = -1;
    pthread_mutex_init(&m->bind, NULL);
    int rc = ctr_input_identity_keep(f->model, err);
    if (!rc) {
        rc = model_read(m, f, err);
        ctr_input_identity_release(f->model);
    }
    if (rc) {
        serve_model_rename(m, err);
        model_release(m);
        *out = NULL;
    }
    return rc;
}

static void map_release(struct serve_map *m)
{
    if (!m || atomic_fetch_sub(&m->owners, 1) > 1)
        return;
    ctr_cal_map_free(m->map);
    free(m);
}

static int map_load(struct serve_map **out, const char *path, struct ctr_err *err)
{
    struct serve_map *m = *out = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    atomic_init(&m->owners, 1);
    int rc = ctr_input_identity_keep(path, err);
    if (!rc) {
        rc = ctr_cal_map_load(&m->map, path, err);
        if (!rc)
            rc = identity_of(path, m->digest, err);
        ctr_input_identity_release(path);
    }
    if (rc) {
        map_release(m);
        *out = NULL;
    }
    return rc;
}

static void keyed_release(struct serve_keyed *k)
{
    if (!k || atomic_fetch_sub(&k->owners, 1) > 1)
        return;
    if (k->fd >= 0)
        close(k->fd);
    ctr_schema_free(&k->schema);
    free(k->path);
    free(k);
}

static int keyed_read(struct serve_keyed *k, struct ctr_err *err)
{
    struct ctr_keyed *file = NULL;
    int rc = ctr_keyed_open(&file, k->path, err);
    if (!rc)
        rc = ctr_schema_copy(&k->schema, ctr_keyed_schema(file), err);
    for (int i = 0; i < k->schema.n && !rc; i++)
        k->schema.f[i].dict = false;
    if (!rc)
        k->key = ctr_keyed_column(file);
    ctr_keyed_free(file);
    return rc;
}

static int keyed_load(struct serve_keyed **out, const char *path, struct ctr_err *err)
{
    char name[40];
    struct serve_keyed *k = *out = calloc(1, sizeof *k);
    if (!k)
        return ctr_fail_nomem(err, sizeof *k);
    atomic_init(&k->owners, 1);
    k->fd = ctr_open(path, O_RDONLY, 0);
    int rc = k->fd < 0 ? ctr_fail_sys(err, "cannot open") : 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", k->fd);
    if (!rc)
        rc = ctr_strdup(&k->path, name, err);
    if (!rc)
        rc = keyed_read(k, err);
    if (rc) {
        if (!strcmp(err->file, name))
            *err->file = 0;
        ctr_err_file(err, path);
        keyed_release(k);
        *out = NULL;
    }
    return rc;
}

/* ---- a generation ---- */

static int add_column(struct serve_generation *g, const char *name, struct ctr_err *err)
{
    struct ctr_field type;
    if (!ctr_plan_input_type(g->model->plan, name, &type))
        return ctr_fail(
            err, CTR_EUSAGE,
            "the model does not say of what type its column %s was: train it with this version, on raw columns", name);
    int rc = ctr_schema_add(&g->schema, name, type.type, err);
    if (!rc) {
        g->schema.f[g->schema.n - 1].item = type.item;
        g->schema.f[g->schema.n - 1].width = type.width;
    }
    return rc;
}

/* The columns of a request: those that the plan reads, without the ones that only label and weight read. */
static int plan_columns(struct serve_generation *g, struct ctr_err *err)
{
    const struct ctr_strs *in = ctr_plan_inputs(g->model->plan);
    int rc = 0;
    for (int i = 0; i < in->n && rc >= 0; i++)
        if ((rc = ctr_plan_role_reads(g->model->plan, CTR_ROLE_QUERY, in->s[i], err)) > 0)
            rc = ctr_strs_add(&g->query, in->s[i], strlen(in->s[i]), err);
    for (int i = 0; i < in->n && !rc; i++)
        if (!ctr_plan_can_lack(g->model->plan, in->s[i]))
            rc = add_column(g, in->s[i], err);
    g->columns = g->schema.n;
    return rc ? rc : ctr_schema_copy(&g->rows, &g->schema, err);
}

/* Where columns are in a file of users or ads, which have the types of the model. */
static int join_file(struct serve_generation *g, const struct serve_keyed *k, const char *path, int **from, int *key,
                     struct ctr_err *err)
{
    char is[64], wants[64];
    int rc = 0;
    *key = -1;
    if (k) {
        const struct ctr_field *f = &k->schema.f[k->key];
        *key = ctr_schema_find(&g->schema, f->name);
        if (*key < 0 && !(rc = ctr_schema_add_field(&g->schema, f, NULL, err)))
            *key = g->schema.n - 1;
    }
    if (!rc && !(*from = malloc(((size_t)g->schema.n + 2) * sizeof **from)))
        rc = ctr_fail_nomem(err, (size_t)g->schema.n * sizeof **from);
    for (int i = 0; !rc && i < g->schema.n + 2; i++) {
        const int at = k && i < g->schema.n ? ctr_schema_find(&k->schema, g->schema.f[i].name) : -1;
        (*from)[i] = at;
        if (at >= 0 && !ctr_field_same_type(&k->schema.f[at], &g->schema.f[i])) {
            ctr_err_file(err, path);
            return ctr_fail(err, CTR_EUSAGE,
                            "column %s is %s, and the model learned from %s: cast it (ctr-select --add)",
                            g->schema.f[i].name, ctr_field_type_name(&k->schema.f[at], is, sizeof is),
                            ctr_field_type_name(&g->schema.f[i], wants, sizeof wants));
        }
    }
    return rc;
}

static int open_jsonl(struct serve_generation *g, struct ctr_err *err)
{
    static char none[CTR_PAD];
    const struct ctr_text_block first = { .p = none, .file = "request", .first_line = 1 };
    g->text = (struct ctr_text_opts){ .format = &ctr_text_jsonl, .like = &g->schema, .bad_rows = "fail" };
    return g->text.format->open(&g->jsonl, &g->text, &first, &g->jsonl_schema, err);
}

static void generation_free(struct serve_generation *g)
{
    while (g->desk) {
        struct serve_desk *d = g->desk;
        g->desk = d->next;
        serve_desk_free(d);
    }
    if (g->jsonl)
        g->text.format->close(g->jsonl);
    ctr_schema_free(&g->jsonl_schema);
    ctr_schema_free(&g->schema);
    ctr_schema_free(&g->rows);
    ctr_strs_free(&g->query);
    free(g->from_users);
    free(g->from_ads);
    model_release(g->model);
    map_release(g->map);
    keyed_release(g->users);
    keyed_release(g->ads);
    serve_prerank_free(g->prerank);
    model_release(g->tower);
    serve_vectors_release(g->vectors);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

void serve_generation_release(struct serve_generation *g)
{
    if (g && atomic_fetch_sub(&g->owners, 1) == 1)
        generation_free(g);
}

int serve_desk_take(struct serve_generation *g, struct serve_desk **d, struct ctr_err *err)
{
    pthread_mutex_lock(&g->lock);
    *d = g->desk;
    if (*d)
        g->desk = (*d)->next;
    pthread_mutex_unlock(&g->lock);
    return *d ? 0 : serve_desk_new(d, g, err);
}

void serve_desk_give(struct serve_generation *g, struct serve_desk *d)
{
    pthread_mutex_lock(&g->lock);
    d->next = g->desk;
    g->desk = d;
    pthread_mutex_unlock(&g->lock);
}

/* The columns that are common to all ads, as requests of the generation before had them: bit i: column i. */
static void shape_of(struct serve_generation *old, const struct serve_generation *g, bool *common)
{
    memset(common, 0, (size_t)g->columns * sizeof *common);
    if (!old)
        return;
    pthread_mutex_lock(&old->lock);
    for (int i = 0; old->desk && i < g->columns; i++) {
        const int was = ctr_schema_find(&old->schema, g->schema.f[i].name);
        common[i] = was >= 0 && was < old->columns && old->desk->common[was];
    }
    pthread_mutex_unlock(&old->lock);
}

/* ---- requests of late ---- */

void serve_models_remember(struct serve_models *s, const uint8_t *body, size_t n)
{
    struct ctr_err err;
    if (atomic_fetch_add(&s->requests, 1) % RECENT_EVERY || n > RECENT_BYTES || pthread_mutex_trylock(&s->recent_lock))
        return;
    struct ctr_buf *to = &s->recent[s->next_recent];
    s->next_recent = (s->next_recent + 1) % RECENT;
    ctr_buf_clear(to);
    if (ctr_buf_append(to, body, n, &err))
        ctr_buf_clear(to);
    pthread_mutex_unlock(&s->recent_lock);
}

static int ignore(void *ctx, const struct ctr_batch *b, const double *score, struct ctr_err *err)
{
    (void)ctx, (void)b, (void)score, (void)err;
    return 0;
}

/* Answer a request for nobody; one that does not fit the new model is none of its faults. */
static void try_request(struct serve_desk *d, uint8_t *body, size_t n)
{
    struct serve_lane *lane = NULL;
    struct ctr_err err = { 0 };
    int rc = serve_rows_json(d, body, n, INT64_MAX, &err);
    if (!rc && d->batch.rows)
        rc = serve_lane_common(d, &lane, &err);
    if (!rc && lane)
        rc = serve_lane_run(lane, &d->batch, ignore, NULL, &err);
    if (rc && lane)
        serve_lane_drop(d, lane);
    else if (lane)
        serve_lane_forget(lane);
}

static void warm_up(struct serve_models *s, struct serve_desk *d)
{
    struct ctr_buf body = { 0 };
    struct ctr_err err;
    for (int i = 0; i < RECENT; i++) {
        ctr_buf_clear(&body);
        pthread_mutex_lock(&s->recent_lock);
        const struct ctr_buf *from = &s->recent[i];
        const int rc = from->len ? ctr_buf_append(&body, from->data, from->len, &err) : 0;
        pthread_mutex_unlock(&s->recent_lock);
        if (!rc && body.len)
            try_request(d, body.data, body.len);
    }
    ctr_buf_free(&body);
}

static int make_desks(struct serve_models *s, struct serve_generation *g, struct serve_generation *old,
                      struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < s->o.threads && !rc; i++) {
        struct serve_desk *d;
        struct serve_lane *lane;
        rc = serve_desk_new(&d, g, err);
        if (rc)
            return rc;
        shape_of(old, g, d->common);
        rc = serve_lane_common(d, &lane, err);
        if (!rc)
            rc = serve_lane_ranks(d, lane, err);
        if (!rc)
            warm_up(s, d);
        serve_desk_give(g, d);
    }
    return rc;
}

static int load_part(struct serve_generation *g, const struct serve_files *f, int file, struct ctr_err *err)
{
    struct serve_files tower = *f;
    tower.model = f->tower;
    tower.uncertainty = false; /* its vectors have none */
    switch (file) {
    case MODEL: return model_load(&g->model, f, err);
    case MAP: return map_load(&g->map, f->map, err);
    case USERS: return keyed_load(&g->users, f->users, err);
    case ADS: return keyed_load(&g->ads, f->ads, err);
    case TOWER: return model_load(&g->tower, &tower, err);
    case VECTORS: return serve_vectors_load(&g->vectors, f->vectors, err);
    default: return 0; /* images are the model's */
    }
}

static void share_part(struct serve_generation *g, struct serve_generation *old, int file)
{
    switch (file) {
    case MODEL: atomic_fetch_add(&(g->model = old->model)->owners, 1); break;
    case MAP: atomic_fetch_add(&(g->map = old->map)->owners, 1); break;
    case USERS: atomic_fetch_add(&(g->users = old->users)->owners, 1); break;
    case ADS: atomic_fetch_add(&(g->ads = old->ads)->owners, 1); break;
    case TOWER: atomic_fetch_add(&(g->tower = old->tower)->owners, 1); break;
    case VECTORS: atomic_fetch_add(&(g->vectors = old->vectors)->owners, 1); break;
    default: break;
    }
}

static int complete(struct serve_models *s, struct serve_generation *g, struct serve_generation *old,
                    struct ctr_err *err)
{
    const struct serve_files *f = &s->o.files;
    if (f->images && !g->model->images && !(g->tower && g->tower->images)) {
        ctr_err_file(err, f->model);
        return ctr_fail(err, CTR_EUSAGE, "neither it nor the model of --prerank takes images: leave --images out");
    }
    int rc = plan_columns(g, err);
    g->rank = &s->o.rank;
    if (rc)
        ctr_err_file(err, f->model);
    if (!rc && g->tower && (rc = serve_prerank_new(g, f->top, err)))
        ctr_err_file(err, f->tower);
    if (!rc)
        rc = join_file(g, g->users, f->users, &g->from_users, &g->user_key, err);
    if (!rc)
        rc = join_file(g, g->ads, f->ads, &g->from_ads, &g->ad_key, err);
    if (!rc && g->prerank)
        rc = serve_prerank_key(g, f->vectors, err);
    if (!rc)
        rc = open_jsonl(g, err);
    if (!rc && (rc = make_desks(s, g, old, err)))
        ctr_err_file(err, f->model);
    g->loaded_ms = ctr_clock_ms();
    return rc;
}

/* changed[i]: file i is read, the other parts are those of `old`. *bad: the file that cannot be loaded, whatever the
 * others are; -1: they do not fit each other. */
static int generation_new(struct serve_models *s, struct serve_generation *old, const bool changed[FILES],
                          struct serve_generation **out, int *bad, struct ctr_err *err)
{
    struct serve_generation *g = *out = calloc(1, sizeof *g);
    int rc = 0;
    *bad = -1;
    if (!g)
        return ctr_fail_nomem(err, sizeof *g);
    atomic_init(&g->owners, 1);
    pthread_mutex_init(&g->lock, NULL);
    for (int i = 0; i < FILES && !rc; i++) {
        if (!path_of(s, i))
            continue;
        if (changed[i] || (changed[IMAGES] && (i == MODEL || i == TOWER)))
            rc = load_part(g, &s->o.files, i, err);
        else
            share_part(g, old, i);
        if (rc)
            *bad = changed[i] ? i : IMAGES;
    }
    if (!rc)
        rc = complete(s, g, old, err);
    if (rc) {
        generation_free(g);
        *out = NULL;
    }
    return rc;
}

struct serve_generation *serve_models_hold(struct serve_models *s)
{
    pthread_mutex_lock(&s->lock);
    struct serve_generation *g = s->now;
    atomic_fetch_add(&g->owners, 1);
    pthread_mutex_unlock(&s->lock);
    return g;
}

/* ---- replaced files ---- */

static void count_load(struct serve_models *s, int64_t good, int64_t bad)
{
    pthread_mutex_lock(&s->o.metrics->lock);
    s->o.metrics->loads += good;
    s->o.metrics->bad_loads += bad;
    pthread_mutex_unlock(&s->o.metrics->lock);
}

static bool look(struct serve_models *s, bool changed[FILES])
{
    bool any = false;
    for (int i = 0; i < FILES; i++) {
        const char *path = path_of(s, i);
        changed[i] = path && ctr_file_changed(path, &s->seen[i]);
        if (path && (i == MODEL || i == TOWER) && !changed[i])
            changed[i] =
                ctr_model_whole_grew(path, ctr_loaded_whole((i == MODEL ? s->now->model : s->now->tower)->loaded),
                                     &s->seen_delta[i != MODEL]);
        any |= changed[i];
    }
    return any;
}

static int count_of(const bool file[FILES])
{
    int n = 0;
    for (int i = 0; i < FILES; i++)
        n += file[i];
    return n;
}

/* Read these files, and serve them from now on. `say`: an error is reported and counted; of several files it may be
 * that of one. *bad: as of generation_new. */
static bool replace(struct serve_models *s, const bool file[FILES], bool say, int *bad)
{
    struct serve_generation *next, *old = s->now;
    struct ctr_err err = { 0 };
    char text[2600];
    const int rc = generation_new(s, old, file, &next, bad, &err);
    if (rc && say) {
        ctr_format(text, sizeof text, "%s; what was served before goes on", ctr_err_text(&err).s);
        s->o.warn(s->o.ctx, text);
        count_load(s, 0, 1); /* after the reason is set, so that it can be read once the count has changed */
    }
    if (rc)
        return false;
    count_load(s, count_of(file), 0);
    for (int i = 0; i < FILES; i++)
        s->refused[i] &= !file[i];
    pthread_mutex_lock(&s->lock);
    s->now = next;
    pthread_mutex_unlock(&s->lock);
    ctr_format(text, sizeof text, "serves model %s%s%s from now on", next->model->digest, next->map ? " with map " : "",
               next->map ? next->map->digest : "");
    serve_generation_release(old);
    s->o.note(s->o.ctx, text);
    return true;
}

/* Files that changed, and those that were refused before, may fit only together: all that can be loaded, or all of
 * these but one. */
static void take_together(struct serve_models *s)
{
    bool all[FILES], taken = false;
    int n, bad = -1;
    memcpy(all, s->refused, sizeof all);
    while ((n = count_of(all)) > 1 && !(taken = replace(s, all, false, &bad)) && bad >= 0)
        all[bad] = false;
    for (int i = 0; i < FILES && n > 2 && !taken; i++)
        if (all[i]) {
            all[i] = false;
            taken = replace(s, all, false, &bad);
            all[i] = true;
        }
}

/* What is left is tried alone, so that a good file is taken beside a bad one. */
static void take_changes(struct serve_models *s, bool changed[FILES])
{
    int bad;
    for (int i = 0; i < FILES; i++)
        s->refused[i] |= changed[i]; /* until it is taken */
    take_together(s);
    for (int i = 0; i < FILES; i++)
        if (changed[i] && s->refused[i]) {
            bool one[FILES] = { false };
            one[i] = true;
            (void)replace(s, one, true, &bad);
        }
}

static void *watch(void *arg)
{
    const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
    struct serve_models *s = arg;
    bool changed[FILES];
    while (!atomic_load(&s->stop)) {
        if (look(s, changed))
            take_changes(s, changed);
        s->o.look(s->o.ctx);
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

int serve_models_open(struct serve_models **out, const struct serve_models_opts *o, struct ctr_err *err)
{
    bool all[FILES];
    int bad;
    memset(all, true, sizeof all);
    struct serve_models *s = *out = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->o = *o;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->recent_lock, NULL);
    for (int i = 0; i < FILES; i++)
        if (path_of(s, i))
            ctr_file_changed(path_of(s, i), &s->seen[i]); /* from before it is read, so that no change is missed */
    int rc = generation_new(s, NULL, all, &s->now, &bad, err);
    if (rc) {
        serve_models_free(s);
        *out = NULL;
    }
    return rc;
}

int serve_models_watch(struct serve_models *s, struct ctr_err *err)
{
    if (ctr_thread_start(&s->watcher, watch, s))
        return ctr_fail_sys(err, "cannot start a thread");
    s->watching = true;
    return 0;
}

void serve_models_free(struct serve_models *s)
{
    if (!s)
        return;
    atomic_store(&s->stop, true);
    if (s->watching)
        pthread_join(s->watcher, NULL);
    serve_generation_release(s->now);
    for (int i = 0; i < RECENT; i++)
        ctr_buf_free(&s->recent[i]);
    pthread_mutex_destroy(&s->recent_lock);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
