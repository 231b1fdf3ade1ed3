/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-left: what a plan's extraction leaves in the device's memory (ctr_batch_source_leave) is what it makes on the
 * CPU.
 *
 *     unit-left PLAN FILE BATCHES ROWS MEMORY POOL [NODE=cpu ...]
 *
 * BATCHES of ROWS rows are valid at a time; MEMORY: bytes of the device's, 0: all; POOL: of the first pool, 0: as it
 * is.
 *
 * Reads what is left by the driver that $CTR_CUDA_DRIVER names (tests/left.t), at once and again as late as may be. */
#include "common/op/gpu.h"
#include "common/op/opint.h"
#include "common/plan/plan.h"

#include "tap.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct ctr_err err;

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if ((x) < 0) {                                                                                                 \
            fprintf(stderr, "unit-left: %s\n", err.what);                                                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { MOST = 64, BATCHES = 16 };

/* The columns of a schema by what they may leave. */
struct columns {
    int key[MOST], list[MOST], number[MOST], n, lists, numbers;
};

static struct columns columns_of(const struct ctr_schema *s)
{
    struct columns c = { .n = 0 };
    for (int i = 0; i < s->n; i++) {
        const int role = ctr_field_role(&s->f[i]);
        if (role == CTR_ROLE_FEATURE && s->f[i].type == CTR_U64)
            c.key[c.n++] = i;
        else if (role == CTR_ROLE_FEATURE)
            c.list[c.lists++] = i;
        else if (role == CTR_ROLE_DENSE)
            c.number[c.numbers++] = i;
    }
    return c;
}

static void open_source(struct ctr_batch_source *s, const char *plan_file, char *file, int64_t rows,
                        const struct ctr_gpu_opts *gpu, const struct ctr_strs *place)
{
    struct ctr_reader *r;
    struct ctr_plan *plan;
    CHECK(ctr_reader_open(&r, &file, 1, NULL, &err));
    *s = ctr_batch_source_stream(r);
    if (rows)
        CHECK(ctr_batch_source_regroup(s, rows, &err));
    CHECK(ctr_plan_open(&plan, plan_file, &err));
    CHECK(ctr_plan_source(s, plan, &(struct ctr_plan_source_opts){ .gpu = gpu, .place = place, .threads = 2 }, &err));
}

/* ---- the device's memory ---- */

static int (*copy_down)(void *to, uint64_t from, size_t n, void *stream);

static void *down(uint64_t from, int64_t bytes)
{
    void *to = malloc((size_t)bytes + 8);
    if (!to || (bytes && copy_down(to, from, (size_t)bytes, NULL)))
        exit(1);
    return to;
}

/* What the batches before have left must still be there. */
struct was {
    uint64_t at;
    int64_t bytes;
    struct ctr_hash128 hash;
};
static struct was past[BATCHES][2 + MOST];
static int parts[BATCHES], turn;

static void remember(uint64_t at, int64_t bytes, const void *value)
{
    past[turn][parts[turn]++] = (struct was){ at, bytes, ctr_hash128(value, (size_t)bytes) };
}

static bool all_there(void)
{
    bool same = true;
    for (int b = 0; b < BATCHES; b++)
        for (int i = 0; i < parts[b]; i++) {
            const struct was *w = &past[b][i];
            void *value = down(w->at, w->bytes);
            const struct ctr_hash128 h = ctr_hash128(value, (size_t)w->bytes);
            same &= h.lo == w->hash.lo && h.hi == w->hash.hi;
            free(value);
        }
    return same;
}

/* ---- one batch beside that of the CPU ---- */

static uint64_t key_at(const struct ctr_col *c, int64_t i)
{
    return (uint64_t)ctr_col_i64(c, i);
}

static bool same_keys(const struct columns *c, const struct ctr_batch *got, const struct ctr_batch *want)
{
    const int64_t bytes = got->rows * c->n * 8;
    uint64_t *hash = down(got->left->hashes, bytes);
    bool same = true;
    for (int64_t i = 0; i < got->rows; i++)
        for (int k = 0; k < c->n; k++)
            same &= hash[i * c->n + k] == ctr_key_hash(key_at(&want->col[c->key[k]], i));
    remember(got->left->hashes, bytes, hash);
    free(hash);
    return same;
}

/* A null list has the key of a null alone. */
static bool same_list(const struct ctr_batch *got, const struct ctr_batch *want, int column, uint64_t at)
{
    const struct ctr_col *g = &got->col[column], *w = &want->col[column];
    const char *table = ctr_meta_get(&want->schema->f[column].meta, CTR_META_TABLE);
    const uint64_t missing = ctr_missing_key(ctr_hash64(table, strlen(table), 0));
    const int64_t items = g->offsets[got->rows];
    uint64_t *hash = down(at, items * 8);
    bool same = g->type == CTR_LIST && g->offsets[0] == 0;
    for (int64_t i = 0; i < got->rows; i++) {
        int64_t from = 0, to = 0;
        const struct ctr_col *item = ctr_col_items(w, 0, i, &from, &to);
        if (ctr_col_null(g, i)) {
            same &= to - from == 1 && key_at(item, from) == missing;
            continue;
        }
        same &= to - from == g->offsets[i + 1] - g->offsets[i];
        for (int64_t k = 0; same && k < to - from; k++)
            same &= hash[g->offsets[i] + k] == ctr_key_hash(key_at(item, from + k));
    }
    remember(at, items * 8, hash);
    free(hash);
    return same;
}

static bool same_numbers(const struct columns *c, const struct ctr_batch *got, const struct ctr_batch *want)
{
    const int64_t bytes = got->rows * c->numbers * 4;
    float *x = down(got->left->numbers, bytes);
    bool same = true;
    for (int k = 0; k < c->numbers; k++) {
        double low = INFINITY, high = -INFINITY;
        const struct ctr_col *w = &want->col[c->number[k]];
        for (int64_t i = 0; i < got->rows; i++) {
            const float v = ctr_col_missing(w, i) ? 0 : (float)ctr_col_f64(w, i);
            same &= isfinite(v) && !memcmp(&v, &x[i * c->numbers + k], sizeof v);
            if (i % (got->rows / 256 + 1) == 0 && !ctr_col_missing(w, i)) {
                low = fmin(low, (double)v);
                high = fmax(high, (double)v);
            }
        }
        same &= low == got->left->low[k] && high == got->left->high[k];
    }
    remember(got->left->numbers, bytes, x);
    free(x);
    return same;
}

static bool same_columns(const int *column, int n, const struct ctr_batch *got, const struct ctr_batch *want)
{
    bool same = true;
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < got->rows; i++)
            same &= !ctr_col_compare(&got->col[column[k]], i, &want->col[column[k]], i);
    return same;
}

/* Plans have the label first. */
static bool same_batch(const struct columns *c, const struct ctr_batch *got, const struct ctr_batch *want, int batches)
{
    const struct ctr_left *left = got->left;
    bool same =
        got->rows == want->rows && got->first_row == want->first_row && same_columns((int[]){ 0 }, 1, got, want);
    if (!left)
        return same && same_columns(c->key, c->n, got, want) && same_columns(c->list, c->lists, got, want) &&
               same_columns(c->number, c->numbers, got, want);
    turn = (turn + 1) % batches;
    parts[turn] = 0;
    same = same && same_keys(c, got, want);
    for (int l = 0; l < c->lists; l++)
        same = same && same_list(got, want, c->list[l], left->list[l]);
    return same && (left->numbers ? same_numbers(c, got, want) : same_columns(c->number, c->numbers, got, want)) &&
           all_there();
}

static void say(void *ctx, const char *text)
{
    (void)ctx;
    printf("# %s\n", text);
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        printf("1..0 # SKIP started by tests/left.t\n");
        return 0;
    }
    const int batches = atoi(argv[3]);
    const struct ctr_gpu_opts gpu = {
        .memory_bytes = atoll(argv[5]), .pool_bytes = atoll(argv[6]), .debug = say, .note = say
    };
    const struct ctr_strs place = { .s = argv + 7, .n = argc - 7 };
    void *driver = dlopen(getenv("CTR_CUDA_DRIVER"), RTLD_NOW);
    void *f = driver ? dlsym(driver, "cuMemcpyDtoHAsync_v2") : NULL;
    struct ctr_batch_source on_gpu, on_cpu;
    const struct ctr_batch *got, *want = NULL;
    struct ctr_part part = { 0 };
    const char *why;
    int left = 0, with_numbers = 0, all = 0, rc, other;
    bool same = true;
    if (!f)
        return 1;
    memcpy(&copy_down, &f, sizeof f);
    open_source(&on_gpu, argv[1], argv[2], 0, &gpu, &place);
    const struct columns c = columns_of(ctr_batch_source_schema(&on_gpu));
    const struct ctr_leave leave = { c.key, c.list, c.number, c.n, c.lists, c.numbers, batches, atoll(argv[4]), NULL };
    CHECK(rc = ctr_batch_source_leave(&on_gpu, &leave, &why, &err));
    open_source(&on_cpu, argv[1], argv[2], rc ? leave.rows : 0, NULL, NULL);
    printf("# %s\n", rc ? "left" : why ? why : "no");
    for (int64_t at = 0; same; at += got->rows) { /* where the device has little memory, batches come in parts */
        CHECK(rc = ctr_batch_source_next(&on_gpu, &got, &err));
        if (!want || at == want->rows) {
            CHECK(other = ctr_batch_source_next(&on_cpu, &want, &err));
            at = 0;
            same = rc == other;
        }
        if (!rc)
            break;
        CHECK(ctr_batch_part(&part, want, at, got->rows, &err));
        same = same && at + got->rows <= want->rows && same_batch(&c, got, &part.batch, batches);
        all++;
        left += got->left != NULL;
        with_numbers += got->left && got->left->numbers;
    }
    ok(same, "what is left is what the CPU makes");
    printf("# %d of %d batches left, %d with numbers\n", left, all, with_numbers);
    ctr_part_free(&part);
    ctr_batch_source_close(&on_gpu);
    ctr_batch_source_close(&on_cpu);
    dlclose(driver);
    return done_testing();
}
