/* SPDX-License-Identifier: Apache-2.0
 *
 * image_table: see image_table.h. Invariant: each row in the index is in the file or in memory, and each vector
 * returned has finite numbers. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/isa.h"
#include "common/deep/image_table.h"
#include "common/model/model.h"
#include "common/stream/stream.h"

/* Images that came later, by hash. Its own table, since readers take no lock: a slot is written once, but for its row,
 * which is published last. It never grows. */
struct later_slot {
    uint64_t hash;
    atomic_uint row; /* 1 + number of the image; 0: empty */
};
enum { PIECE = 64 }; /* vectors that are allocated together */
struct later {
    struct later_slot *slot;
    uint64_t mask;
    int64_t room;
    atomic_llong n;
    float **piece;
    int32_t *before; /* the image that had this key, or -1 */
};

/* A block of the file. Its numbers are read where they lie, without the lock, once it was verified. */
struct block {
    _Atomic(const uint8_t *) numbers; /* of its first vector; NULL: unknown, or not in the map as they are */
    const float *scale;
    atomic_bool announced;
};

struct ctr_image_table {
    struct ctr_keyindex place; /* hash -> 1 + row */
    int64_t images;
    int32_t width;
    int columns[3];   /* key, vector, scale */
    bool integers;    /* keys */
    const char *path; /* borrowed */
    char *tower, *network;
    struct later later;
    uint64_t *seed; /* of the tables that name images */
    int seeds;
    uint64_t keys;          /* a hash of them */
    struct ctr_buf vector;  /* for a stream: f32 [images][width] */
    struct ctr_keyed *file; /* or the file; one thread at a time */
    struct ctr_buf first;   /* i64 [blocks + 1]: the first row of each block, and the end */
    struct block *block;
    pthread_mutex_t lock;
};

#define AS(type, buf) ((type *)(void *)(buf).data)

/* Rows of a file with the images a and b in one block and c in the next, to which d and then two versions of b came:
 *
 *     row        0  1  2   3       4    5    6
 *     image      a  b  c  (null)   d    b'   b"      rows from 4 on are numbers 0, 1, 2 in `later`
 *     first     [0  .  2   3]                        the first row of each block, and the end
 *     before                      -1   -1    1       the earlier version among the later ones
 *
 * A minibatch remembers how many later images there were when it began (`then`). find_then of b follows `before` until
 * it is below that: 3 gives row 6, 2 gives row 5, and 1 or 0 gives row 1, from `place`. The vector of a later
 * image is stored first, then its slot, and last the count, so a reader never finds a row without its vector. */

void ctr_image_table_free(struct ctr_image_table *t)
{
    if (!t)
        return;
    ctr_keyindex_free(&t->place);
    ctr_buf_free(&t->vector);
    ctr_buf_free(&t->first);
    free(t->block);
    ctr_keyed_free(t->file);
    pthread_mutex_destroy(&t->lock);
    for (int64_t i = 0; t->later.piece && i <= t->later.room / PIECE; i++)
        free(t->later.piece[i]);
    free(t->later.piece);
    free(t->later.slot);
    free(t->later.before);
    free(t->tower);
    free(t->network);
    free(t->seed);
    free(t);
}

/* ---- columns ---- */

struct ctr_str ctr_image_key(const struct ctr_col *c, int64_t i, char number[CTR_NUM_MAX])
{
    if (c->type == CTR_UTF8)
        return ctr_col_str(c, i);
    const size_t n =
        c->type == CTR_U64 ? ctr_fmt_u64(number, (uint64_t)ctr_col_i64(c, i)) : ctr_fmt_i64(number, ctr_col_i64(c, i));
    return (struct ctr_str){ number, n };
}

static bool is_key(const struct ctr_field *f)
{
    return f->type == CTR_UTF8 || (f->type >= CTR_I8 && f->type <= CTR_U64);
}

static bool is_vector(const struct ctr_field *f, bool scaled)
{
    return (f->type == CTR_FIXED || f->type == CTR_LIST) &&
           (ctr_types[f->item].floating || (scaled && f->item == CTR_I8));
}

int ctr_image_columns(const struct ctr_schema *s, int columns[3], int32_t *width, struct ctr_err *err)
{
    columns[0] = columns[1] = 0;
    columns[2] = ctr_schema_find(s, "scale");
    if (columns[2] >= 0 && !ctr_types[s->f[columns[2]].type].floating)
        columns[2] = -1;
    while (columns[0] < s->n && !is_key(&s->f[columns[0]]))
        columns[0]++;
    while (columns[1] < s->n && !is_vector(&s->f[columns[1]], columns[2] >= 0))
        columns[1]++;
    if (columns[1] < s->n && s->f[columns[1]].item != CTR_I8)
        columns[2] = -1;
    if (columns[0] == s->n || columns[1] == s->n)
        return ctr_fail(err, CTR_EDATA,
                        "it has no column of keys (text or integers) and one of vectors (lists of floats): "
                        "ctr-embed-images writes such files");
    *width = s->f[columns[1]].type == CTR_FIXED ? s->f[columns[1]].width : 0;
    return 0;
}

CTR_FAST static bool all_finite(const float *x, int32_t n)
{
    int32_t bad = 0; /* a count: loops that end early are not made vectors of */
    for (int32_t k = 0; k < n; k++)
        bad += !(fabsf(x[k]) < INFINITY);
    return !bad;
}

static float number_at(const struct ctr_col *items, int64_t i, float scale)
{
    return items->type == CTR_F16  ? ctr_f16_to_f32(((const uint16_t *)items->data)[i])
           : items->type == CTR_I8 ? scale * (float)((const int8_t *)items->data)[i]
                                   : (float)ctr_col_f64(items, i);
}

/* n plain numbers as floats. False: one is NaN or infinite, or the type is not one of these. */
CTR_FAST static bool convert(enum ctr_type type, const void *from, float scale, float *to, int32_t n)
{
    if (type == CTR_F32)
        memcpy(to, from, (size_t)n * sizeof *to);
    for (int32_t k = 0; k < n && type == CTR_F16; k++)
        to[k] = ctr_f16_to_f32(((const uint16_t *)from)[k]);
    for (int32_t k = 0; k < n && type == CTR_I8; k++)
        to[k] = scale * (float)((const int8_t *)from)[k];
    return (type == CTR_F32 || type == CTR_F16 || type == CTR_I8) && all_finite(to, n);
}

int ctr_image_vector(const struct ctr_col *c, const struct ctr_col *scale, int64_t i, int32_t *width,
                     struct ctr_str key, int64_t row, float *to, struct ctr_err *err)
{
    const int shown = (int)CTR_MIN(key.n, 80);
    int64_t at = 0, end = 0;
    const struct ctr_col *items = ctr_col_items(c, *width, i, &at, &end);
    if (!items)
        return ctr_fail(err, CTR_EDATA, "row %" PRId64 ": the vector of '%.*s' is null", row + 1, shown, key.p);
    const bool measure = !*width; /* for lists: use the length of the first */
    if (measure)
        *width = (int32_t)CTR_MIN(end - at, INT32_MAX);
    if (!*width)
        return ctr_fail(err, CTR_EDATA, "row %" PRId64 ": the vector of '%.*s' has no numbers", row + 1, shown, key.p);
    if (end - at != *width)
        return ctr_fail(err, CTR_EDATA,
                        "row %" PRId64 ": the vector of '%.*s' has %" PRId64 " numbers, those before have %d", row + 1,
                        shown, key.p, end - at, *width);
    const bool scaled = scale && !ctr_col_missing(scale, i);
    if (scale && !scaled)
        return ctr_fail(err, CTR_EDATA, "row %" PRId64 ": the scale of '%.*s' is null", row + 1, shown, key.p);
    const float by = scaled ? (float)ctr_col_f64(scale, i) : 1;
    const uint8_t *p = items->data;
    if (!measure && !items->nulls && convert(items->type, p + at * ctr_types[items->type].width, by, to, *width))
        return 0;
    for (int32_t k = 0; k < *width && !measure; k++) {
        to[k] = number_at(items, at + k, by);
        if (ctr_col_null(items, at + k) || !(fabsf(to[k]) < INFINITY))
            return ctr_fail(err, CTR_EDATA,
                            "row %" PRId64 ": number %d of the vector of '%.*s' is null, NaN or infinite", row + 1,
                            k + 1, shown, key.p);
    }
    return 0;
}

/* ---- the index ---- */

static int put_place(struct ctr_image_table *t, uint64_t key, int64_t row, bool *duplicate, struct ctr_err *err)
{
    const uint32_t at = (uint32_t)row + 1;
    int rc = ctr_keyindex_reserve(&t->place, 1, err);
    if (rc)
        return rc;
    uint32_t *place = ctr_keyindex_get(&t->place, ctr_key_hash(key));
    *duplicate = *place && *place != at;
    *place = at;
    return 0;
}

/* Index the text of a key, hashed with the seed of each table of images. */
static int put_text(struct ctr_image_table *t, struct ctr_str text, int64_t row, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < t->seeds && !rc; i++) {
        bool duplicate = false;
        rc = put_place(t, ctr_feature_key(t->seed[i], text.p, text.n), row, &duplicate, err);
        if (!rc && duplicate)
            rc = ctr_fail(err, CTR_EDATA, "row %" PRId64 ": a second vector of '%.*s'", row + 1,
                          (int)CTR_MIN(text.n, 80), text.p);
    }
    return rc;
}

static int put_key(struct ctr_image_table *t, const struct ctr_col *key, int64_t i, struct ctr_err *err)
{
    char number[CTR_NUM_MAX];
    if (ctr_col_missing(key, i))
        return ctr_fail(err, CTR_EDATA, "row %" PRId64 ": the key is null", t->images + 1);
    if (t->images >= INT32_MAX - 1)
        return ctr_fail(err, CTR_EDATA, "more than 2^31 images");
    const struct ctr_str text = ctr_image_key(key, i, number);
    t->keys = ctr_hash64(text.p, text.n, t->keys);
    return put_text(t, text, t->images, err);
}

int64_t ctr_image_table_find(const struct ctr_image_table *t, uint64_t hash)
{
    return ctr_image_table_find_then(t, hash, ctr_image_table_now(t));
}

/* ---- images that come later ---- */

int ctr_image_table_room(struct ctr_image_table *t, int64_t n, struct ctr_err *err)
{
    struct later *l = &t->later;
    uint64_t slots = 64;
    while (slots < 2 * (uint64_t)n * (uint64_t)CTR_MAX(t->seeds, 1))
        slots *= 2;
    l->slot = calloc(slots, sizeof *l->slot);
    l->piece = calloc((size_t)n / PIECE + 1, sizeof *l->piece);
    l->before = calloc((size_t)n + 1, sizeof *l->before);
    l->mask = slots - 1;
    l->room = n;
    return l->slot && l->piece && l->before ? 0 : ctr_fail_nomem(err, slots * sizeof *l->slot);
}

/* The slot of a hash, or the empty one where it would be. */
static struct later_slot *later_slot(const struct later *l, uint64_t hash, uint32_t *row)
{
    uint64_t i = ctr_mix64(hash ^ ctr_hash_secret) & l->mask;
    while ((*row = atomic_load_explicit(&l->slot[i].row, memory_order_acquire)) && l->slot[i].hash != hash)
        i = (i + 1) & l->mask;
    return &l->slot[i];
}

int64_t ctr_image_table_now(const struct ctr_image_table *t)
{
    struct later *l = (struct later *)(uintptr_t)&t->later;
    return atomic_load_explicit(&l->n, memory_order_acquire);
}

int64_t ctr_image_table_find_then(const struct ctr_image_table *t, uint64_t hash, int64_t then)
{
    uint32_t found = 0;
    if (then)
        (void)later_slot(&t->later, hash, &found);
    int64_t later = (int64_t)found - 1;
    while (later >= then)
        later = t->later.before[later];
    if (later >= 0)
        return t->images + 1 + later;
    const uint32_t *place = ctr_keyindex_find(&t->place, hash);
    return place ? (int64_t)*place - 1 : -1;
}

int ctr_image_table_add(struct ctr_image_table *t, struct ctr_str key, const float *vector, struct ctr_err *err)
{
    struct later *l = &t->later;
    const int64_t n = atomic_load(&l->n);
    const size_t bytes = (size_t)t->width * sizeof *vector;
    uint32_t was = 0;
    if (n >= l->room)
        return ctr_fail(err, CTR_ELARGE, "there is no room for more than %" PRId64 " images beside the file", l->room);
    float **piece = &l->piece[n / PIECE];
    if (!*piece && !(*piece = malloc(PIECE * bytes)))
        return ctr_fail_nomem(err, PIECE * bytes);
    memcpy(*piece + n % PIECE * t->width, vector, bytes);
    l->before[n] = -1;
    for (int i = 0; i < t->seeds; i++) { /* the same key in each table of images: the same image before */
        const uint64_t hash = ctr_key_hash(ctr_feature_key(t->seed[i], key.p, key.n));
        struct later_slot *s = later_slot(l, hash, &was);
        if (!i) /* once, before readers find row n */
            l->before[n] = (int32_t)was - 1;
        if (!was)
            s->hash = hash;
        atomic_store_explicit(&s->row, (uint32_t)n + 1, memory_order_release);
    }
    atomic_store_explicit(&l->n, n + 1, memory_order_release);
    return 0;
}

/* ---- a stream, into memory ---- */

static int hold_batch(struct ctr_image_table *t, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_col *key = &b->col[t->columns[0]], *vector = &b->col[t->columns[1]];
    const struct ctr_col *scale = ctr_image_scale(b, t->columns);
    int rc = 0;
    for (int64_t i = 0; i < b->rows && !rc; i++, t->images++) {
        char number[CTR_NUM_MAX];
        rc = put_key(t, key, i, err);
        const struct ctr_str text = rc ? (struct ctr_str){ 0 } : ctr_image_key(key, i, number);
        if (!rc && !t->width)
            rc = ctr_image_vector(vector, scale, i, &t->width, text, t->images, NULL, err);
        float *to = rc ? NULL : ctr_buf_extend(&t->vector, t->width, sizeof *to, &rc, err);
        if (!rc)
            rc = ctr_image_vector(vector, scale, i, &t->width, text, t->images, to, err);
    }
    return rc;
}

static int take_tower(struct ctr_image_table *t, const struct ctr_schema *s, struct ctr_err *err)
{
    const char *how = ctr_meta_get(&s->meta, CTR_META_NETWORK);
    const int rc = how ? ctr_strdup(&t->network, how, err) : 0;
    if (rc)
        return rc;
    if (!how || strncmp(how, CTR_TOWER_PREFIX, strlen(CTR_TOWER_PREFIX)) != 0)
        return 0;
    t->tower = strndup(how, strcspn(how, " "));
    return t->tower ? 0 : ctr_fail_nomem(err, strlen(how));
}

static int hold(struct ctr_image_table *t, struct ctr_err *err)
{
    char *paths[] = { (char *)(uintptr_t)t->path };
    const struct ctr_batch *b;
    struct ctr_reader *r = NULL;
    int rc = ctr_reader_open(&r, paths, 1, NULL, err);
    if (!rc)
        rc = ctr_image_columns(ctr_reader_schema(r), t->columns, &t->width, err);
    if (!rc)
        rc = take_tower(t, ctr_reader_schema(r), err);
    t->integers = !rc && ctr_reader_schema(r)->f[t->columns[0]].type != CTR_UTF8;
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = hold_batch(t, b, err);
    ctr_reader_free(r);
    return rc;
}

/* ---- a keyed file, where it lies ---- */

/* The file must be keyed by the key column; rows are numbered block by block. */
static int index_file(struct ctr_image_table *t, struct ctr_err *err)
{
    const int64_t blocks = ctr_keyed_blocks(t->file);
    int rc = ctr_image_columns(ctr_keyed_schema(t->file), t->columns, &t->width, err);
    if (!rc)
        rc = take_tower(t, ctr_keyed_schema(t->file), err);
    t->columns[0] = ctr_keyed_column(t->file);
    if (!rc && !is_key(&ctr_keyed_schema(t->file)->f[t->columns[0]]))
        rc = ctr_fail(err, CTR_EDATA, "it is keyed by '%.60s', which is neither text nor integers",
                      ctr_keyed_schema(t->file)->f[t->columns[0]].name);
    t->integers = !rc && ctr_keyed_schema(t->file)->f[t->columns[0]].type != CTR_UTF8;
    int64_t *first = rc ? NULL : ctr_buf_extend(&t->first, blocks + 1, sizeof *first, &rc, err);
    for (int64_t b = 0; b < blocks && !rc; b++) {
        const struct ctr_col *key;
        first[b] = t->images;
        rc = ctr_keyed_keys(t->file, b, &key, err);
        for (int64_t i = 0; !rc && i < key->rows; i++, t->images++)
            rc = put_key(t, key, i, err);
    }
    if (!rc)
        first[blocks] = t->images;
    t->block = rc ? NULL : calloc((size_t)blocks + 1, sizeof *t->block);
    if (!rc && !t->block)
        rc = ctr_fail_nomem(err, (size_t)blocks * sizeof *t->block);
    return rc ? rc : ctr_keyed_unchanged(t->file, err);
}

/* The block of a row: the last one that starts at or before it. */
static int64_t block_of(const struct ctr_image_table *t, int64_t row)
{
    const int64_t *first = AS(int64_t, t->first);
    int64_t lo = 0, hi = (int64_t)(t->first.len / sizeof *first) - 1;
    while (hi - lo > 1) {
        const int64_t mid = lo + (hi - lo) / 2;
        *(first[mid] <= row ? &lo : &hi) = mid;
    }
    return lo;
}

/* Do these values lie in the map, one after another and without nulls? */
static bool in_place(const struct ctr_image_table *t, const struct ctr_col *c, const void *p, int64_t n)
{
    const size_t width = (size_t)ctr_types[c->type].width;
    return !c->nulls && !c->dict && !((uintptr_t)p % width) && ctr_keyed_in_place(t->file, p, (size_t)n * width);
}

/* Remember where the numbers of a verified block lie, if they can be read there. */
static void publish(struct ctr_image_table *t, struct block *to, const struct ctr_batch *b)
{
    const struct ctr_col *c = &b->col[t->columns[1]], *scale = ctr_image_scale(b, t->columns);
    int64_t at = 0, end = 0;
    if (c->type != CTR_FIXED || c->nulls || c->dict || !t->width)
        return;
    const struct ctr_col *items = ctr_col_items(c, t->width, 0, &at, &end);
    const uint8_t *p = (const uint8_t *)items->data + at * ctr_types[items->type].width;
    if (!in_place(t, items, p, b->rows * t->width) ||
        (scale && (scale->type != CTR_F32 || !in_place(t, scale, scale->data, b->rows))))
        return;
    to->scale = scale ? scale->data : NULL;
    atomic_store_explicit(&to->numbers, p, memory_order_release);
}

static int fetch_mapped(struct ctr_image_table *t, int64_t row, float *to, struct ctr_err *err)
{
    const int64_t block = block_of(t, row), i = row - AS(int64_t, t->first)[block];
    const struct ctr_batch *b;
    char number[CTR_NUM_MAX];
    int rc = ctr_keyed_block(t->file, block, &b, err);
    if (!rc)
        publish(t, &t->block[block], b);
    return rc ? rc
              : ctr_image_vector(&b->col[t->columns[1]], ctr_image_scale(b, t->columns), i, &t->width,
                                 ctr_image_key(&b->col[t->columns[0]], i, number), row, to, err);
}

static enum ctr_type number_type(const struct ctr_image_table *t)
{
    return ctr_keyed_schema(t->file)->f[t->columns[1]].item;
}

/* The numbers of a row, where they lie; NULL: its block was not verified, or has to be decoded. */
static const uint8_t *numbers_at(const struct ctr_image_table *t, int64_t row, float *scale)
{
    const int64_t block = block_of(t, row), i = row - AS(int64_t, t->first)[block];
    const uint8_t *p = atomic_load_explicit(&t->block[block].numbers, memory_order_acquire);
    *scale = p && t->block[block].scale ? t->block[block].scale[i] : 1;
    return p ? p + i * t->width * ctr_types[number_type(t)].width : NULL;
}

/* For variable-size lists, the first one determines the length. */
static int measure(struct ctr_image_table *t, struct ctr_err *err)
{
    if (t->width || !t->images)
        return 0;
    return fetch_mapped(t, 0, NULL, err);
}

/* ---- the table ---- */

static int hash_tables(struct ctr_image_table *t, const char *const *tables, int n, struct ctr_err *err)
{
    t->seed = calloc((size_t)n + 1, sizeof *t->seed);
    if (!t->seed)
        return ctr_fail_nomem(err, (size_t)n * sizeof *t->seed);
    for (int i = 0; i < n; i++) {
        bool known = false;
        for (int k = 0; k < i; k++)
            known |= !strcmp(tables[i], tables[k]);
        if (!known)
            t->seed[t->seeds++] = ctr_table_seed(tables[i]);
    }
    return 0;
}

static int read_table(struct ctr_image_table *t, struct ctr_err *err)
{
    int rc = ctr_keyed_try(&t->file, t->path, err);
    if (!rc)
        rc = t->file ? index_file(t, err) : hold(t, err);
    if (!rc && t->file)
        rc = measure(t, err);
    if (!rc && (!t->images || !t->width))
        rc = ctr_fail(err, CTR_EDATA, "it has no vectors, or vectors of no numbers");
    for (int i = 0; i < t->seeds && !rc; i++) {
        bool duplicate;
        rc = put_place(t, ctr_feature_key(t->seed[i], "(missing)", 9), t->images, &duplicate, err);
        if (!rc && duplicate)
            rc = ctr_fail(err, CTR_EDATA, "a key is '(missing)', which stands for a null: give the image another name");
    }
    return rc;
}

int ctr_image_table_open(struct ctr_image_table **out, const char *path, const char *const *tables, int n,
                         struct ctr_err *err)
{
    struct ctr_image_table *t = calloc(1, sizeof *t);
    if (!t)
        return ctr_fail_nomem(err, sizeof *t);
    t->path = path;
    pthread_mutex_init(&t->lock, NULL);
    int rc = hash_tables(t, tables, n, err);
    if (!rc)
        rc = read_table(t, err);
    if (rc) {
        ctr_err_file(err, path);
        ctr_image_table_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

int64_t ctr_image_table_rows(const struct ctr_image_table *t)
{
    return t->images + 1 + t->later.room;
}

const char *ctr_image_table_network(const struct ctr_image_table *t)
{
    return t->network;
}

bool ctr_image_table_integers(const struct ctr_image_table *t)
{
    return t->integers;
}

int64_t ctr_image_table_images(const struct ctr_image_table *t)
{
    return t->images;
}

uint64_t ctr_image_table_keys(const struct ctr_image_table *t)
{
    return t->keys;
}

int32_t ctr_image_table_width(const struct ctr_image_table *t)
{
    return t->width;
}

int64_t ctr_image_table_bytes(const struct ctr_image_table *t)
{
    return (int64_t)(ctr_keyindex_bytes(&t->place) + t->vector.len);
}

const char *ctr_image_table_path(const struct ctr_image_table *t)
{
    return t->path;
}

const char *ctr_image_table_tower(const struct ctr_image_table *t)
{
    return t->tower;
}

int ctr_image_table_fetch(const struct ctr_image_table *t, int64_t row, float *to, struct ctr_err *err)
{
    struct ctr_image_table *own = (struct ctr_image_table *)(uintptr_t)t; /* protected by the lock */
    const size_t bytes = (size_t)t->width * sizeof *to;
    int rc = 0;
    const int64_t later = row - t->images - 1;
    if (row == t->images)
        memset(to, 0, bytes);
    else if (later >= 0)
        memcpy(to, t->later.piece[later / PIECE] + later % PIECE * t->width, bytes);
    else if (!t->file)
        memcpy(to, AS(float, t->vector) + row * t->width, bytes);
    else {
        float scale;
        const uint8_t *p = numbers_at(t, row, &scale);
        if (p && convert(number_type(t), p, scale, to, t->width))
            return 0;
        pthread_mutex_lock(&own->lock);
        rc = fetch_mapped(own, row, to, err);
        pthread_mutex_unlock(&own->lock);
    }
    if (rc)
        ctr_err_file(err, t->path);
    return rc;
}

int64_t ctr_image_table_announce(const struct ctr_image_table *t, int64_t row)
{
    float scale;
    if (!t->file || row >= t->images)
        return 0;
    const int64_t block = block_of(t, row), bytes = t->width * (int64_t)ctr_types[number_type(t)].width;
    const uint8_t *p = numbers_at(t, row, &scale);
    if (p) {
        ctr_keyed_announce_bytes(t->file, p, (size_t)bytes);
        return bytes;
    }
    if (atomic_exchange_explicit(&t->block[block].announced, true, memory_order_relaxed))
        return 0;
    return ctr_keyed_announce(t->file, block);
}

int ctr_image_table_unchanged(const struct ctr_image_table *t, struct ctr_err *err)
{
    const int rc = t->file ? ctr_keyed_unchanged(t->file, err) : 0;
    if (rc)
        ctr_err_file(err, t->path);
    return rc;
}
