/* SPDX-License-Identifier: Apache-2.0
 *
 * sort: external merge sort. Rows are converted to the row-wise form, sorted by reference, and returned by column; data
 * beyond memory is spilled as sorted runs. Invariant: runs and the rows in them are in input order, so the stable merge
 * of runs equals one stable sort for any memory size. */
#include "common/rows/relation.h"
#include "common/rows/roworder.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MIN_MEMORY (64 << 10)
#define MIN_READ   (64 << 10)
#define MAX_READ   (8 << 20)
#define MAX_RESULT (4 << 20)

/* Rows to be written to a run. */
struct bin {
    struct ctr_rowarena arena;
    struct ctr_rowref *refs;
    int64_t n, cap;
};

struct ctr_sort {
    struct ctr_sort_opts opts;
    struct ctr_schema schema;
    struct ctr_rowformat format;
    struct ctr_roworder order;
    struct bin bins[2], *bin; /* bin: being filled; with threads the other one is being written */
    struct ctr_rowref *tmp;
    int64_t tmp_cap, budget, bytes; /* bytes: of all rows */
    pthread_t writer;
    bool spilled; /* at least one run */
    bool writing; /* the thread is running and owns these: its bin, tmp, spill, stats.dropped */
    int writer_rc;
    struct ctr_err writer_err;
    struct ctr_spill spill;
    struct ctr_merge *merge;
    struct ctr_buf last; /* the row kept last, for unique */
    bool has_last;
    int64_t next;                      /* in-memory result: next reference */
    const uint8_t *tile[CTR_ROW_TILE]; /* the next rows of the result … */
    int tile_at, tile_n;               /* … from tile_at on */
    int64_t batch_bytes;               /* end a batch of the result */
    struct ctr_batchbuf out[2];
    int at;                       /* the batch that is made next; with threads the caller has the other one */
    struct ctr_background *maker; /* with threads: makes it meanwhile */
    bool making; /* until ctr_background_wait it owns batch `at` and all that the result is read from */
    int made_rc;
    struct ctr_err made_err;
    struct ctr_sort_stats stats;
};

/* The keys 5 2 9, 1 5' 7 and 4, as three batches of which one fits into memory (5' is equal to 5 and comes later):
 *
 *     ctr_sort_batch    the bin is full before 1 and before 4: runs [2 5 9] and [1 5' 7] are spilled
 *     ctr_sort_finish   the last bin is run [4]; if there are too many runs to read at once, merge_passes merges some
 *     ctr_sort_next     merge of the runs: 1 2 4 5 5' 7 9; equal keys go in the order of runs, that of the input
 *
 * With unique, 5' is dropped in the merge, as same as the row before it (or as the last of the tile before, which is
 * kept in `last`). If all rows fit, there is no run: the references are sorted and rows are read from the bin. */

int64_t ctr_relation_memory(int64_t memory_bytes)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    if (memory_bytes > 0)
        return memory_bytes;
    return pages > 0 && size > 0 ? pages * size / 4 : (int64_t)1 << 30;
}

static int check_opts(const struct ctr_sort_opts *o, struct ctr_err *err)
{
    bool keys = o->keys && o->keys->n;

    if (o->shuffle && (keys || o->unique))
        return ctr_fail(err, CTR_EUSAGE, "--shuffle goes without keys and without --unique");
    if (!o->shuffle && !keys)
        return ctr_fail(err, CTR_EUSAGE, "say what to sort by: -k COLUMN, or --shuffle");
    return 0;
}

static int plain_schema(struct ctr_schema *to, const struct ctr_schema *from, struct ctr_err *err)
{
    int rc = ctr_schema_copy(to, from, err);

    for (int i = 0; !rc && i < to->n; i++)
        to->f[i].dict = false;
    return rc;
}

int ctr_sort_new(struct ctr_sort **out, const struct ctr_schema *schema, const struct ctr_sort_opts *o,
                 struct ctr_err *err)
{
    struct ctr_sort *s;
    int rc = check_opts(o, err);

    *out = NULL;
    if (rc)
        return rc;
    s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->opts = *o;
    if (s->opts.batch_rows <= 0)
        s->opts.batch_rows = CTR_BATCH_ROWS;
    /* A tenth is for other needs: batches of the reader and the writer, slack of the blocks. */
    s->budget = CTR_MAX(ctr_relation_memory(o->memory_bytes) / 10 * 9, MIN_MEMORY);
    ctr_spill_init(&s->spill, (size_t)CTR_MAX(CTR_MIN(s->budget / 16, 1 << 20), 4096));
    for (int i = 0; i < 2; i++)
        ctr_rowarena_init(&s->bins[i].arena, (size_t)CTR_MAX(CTR_MIN(s->budget / 16, 8 << 20), 4096));
    s->bin = &s->bins[0];
    rc = plain_schema(&s->schema, schema, err);
    if (!rc)
        rc = ctr_rowformat_init(&s->format, &s->schema, o->shuffle, err);
    if (!rc && o->shuffle)
        s->order = (struct ctr_roworder){ .format = &s->format, .by_tag = true, .exact = true };
    else if (!rc)
        rc = ctr_roworder_init(&s->order, &s->format, &s->schema, o->keys, err);
    for (int i = 0; !rc && i < 2; i++)
        rc = ctr_batchbuf_init(&s->out[i], &s->schema, err);
    s->opts.keys = NULL;
    if (rc) {
        ctr_sort_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

const struct ctr_schema *ctr_sort_schema(const struct ctr_sort *s)
{
    return &s->schema;
}

static void free_bins(struct ctr_sort *s)
{
    for (int i = 0; i < 2; i++) {
        ctr_rowarena_free(&s->bins[i].arena);
        free(s->bins[i].refs);
        s->bins[i].refs = NULL;
    }
    free(s->tmp);
    s->tmp = NULL;
}

void ctr_sort_free(struct ctr_sort *s)
{
    if (!s)
        return;
    if (s->writing)
        pthread_join(s->writer, NULL);
    ctr_background_free(s->maker);
    ctr_merge_free(s->merge);
    ctr_spill_free(&s->spill);
    free_bins(s);
    ctr_buf_free(&s->last);
    for (int i = 0; i < 2; i++)
        if (s->out[i].schema)
            ctr_batchbuf_free(&s->out[i]);
    ctr_roworder_free(&s->order);
    ctr_rowformat_free(&s->format);
    ctr_schema_free(&s->schema);
    free(s);
}

void ctr_sort_get_stats(const struct ctr_sort *s, struct ctr_sort_stats *st)
{
    if (s->making)
        (void)ctr_background_wait(s->maker, -1);
    *st = s->stats;
}

/* ---- taking in ---- */

static int grow_refs(struct ctr_rowref **r, int64_t *cap, int64_t need, struct ctr_err *err)
{
    int64_t to = CTR_MAX(need, *cap + *cap / 2);
    struct ctr_rowref *p;

    if (need <= *cap)
        return 0;
    p = realloc(*r, (size_t)to * sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, (size_t)to * sizeof *p);
    *r = p;
    *cap = to;
    return 0;
}

/* Drop later rows with the key of an earlier one. The references must be sorted. */
static int64_t drop_equal(struct ctr_sort *s, struct bin *b)
{
    int64_t kept = 0;

    if (!s->opts.unique)
        return b->n;
    for (int64_t i = 0; i < b->n; i++)
        if (!i || ctr_rowref_compare(&s->order, &b->refs[kept - 1], &b->refs[i]))
            b->refs[kept++] = b->refs[i];
    s->stats.dropped += b->n - kept;
    return kept;
}

static int sort_rows(struct ctr_sort *s, struct bin *b, struct ctr_err *err)
{
    int rc = grow_refs(&s->tmp, &s->tmp_cap, b->n, err);
    int64_t cap = b->cap;
    struct ctr_rowref *was = b->refs;

    if (rc)
        return rc;
    ctr_rowrefs_sort(&s->order, &b->refs, &s->tmp, b->n);
    if (b->refs != was) { /* they were swapped */
        b->cap = s->tmp_cap;
        s->tmp_cap = cap;
    }
    b->n = drop_equal(s, b);
    return 0;
}

static inline void prefetch_row(const uint8_t *row, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(row + at);
}

/* Bytes of a row to prefetch. */
static uint32_t ahead_bytes(const struct ctr_sort *s)
{
    return CTR_MIN(s->format.fixed_bytes + (s->format.variable ? 128 : 0), 1024);
}

static int write_run(struct ctr_sort *s, struct bin *b, struct ctr_err *err)
{
    uint32_t ahead = ahead_bytes(s);
    int rc = sort_rows(s, b, err);

    if (!rc)
        rc = ctr_spill_begin(&s->spill, err);
    for (int64_t i = 0; !rc && i < b->n; i++) {
        if (i + 8 < b->n)
            prefetch_row(b->refs[i + 8].row, ahead);
        rc = ctr_spill_row(&s->spill, b->refs[i].row, err);
    }
    b->n = 0;
    ctr_rowarena_clear(&b->arena);
    return rc;
}

static struct bin *other_bin(struct ctr_sort *s)
{
    return s->bin == &s->bins[0] ? &s->bins[1] : &s->bins[0];
}

static void *write_behind(void *arg)
{
    struct ctr_sort *s = arg;

    s->writer_rc = write_run(s, other_bin(s), &s->writer_err);
    return NULL;
}

static int await_writer(struct ctr_sort *s, struct ctr_err *err)
{
    if (!s->writing)
        return 0;
    pthread_join(s->writer, NULL);
    s->writing = false;
    if (s->writer_rc)
        *err = s->writer_err;
    return s->writer_rc;
}

/* The bin is full. With one thread it is written; with more, a thread writes it while the other bin is filled: then
 * each may use half of the memory, except the first, which may turn out to be the only one. */
static int spill_bin(struct ctr_sort *s, struct ctr_err *err)
{
    int rc = await_writer(s, err);

    if (rc)
        return rc;
    if (s->opts.threads < 2)
        return write_run(s, s->bin, err);
    if (!s->spilled) {
        rc = write_run(s, s->bin, err);
        free(s->bin->refs);
        free(s->tmp);
        s->bin->refs = s->tmp = NULL;
        s->bin->cap = s->tmp_cap = 0;
        return rc ? rc
                  : ctr_rowarena_halve(&s->bin->arena, &other_bin(s)->arena,
                                       err); /* freed pages would stay with the process */
    }
    s->bin = other_bin(s);
    if (ctr_thread_start(&s->writer, write_behind, s)) /* no thread available: write here */
        return write_run(s, other_bin(s), err);
    s->writing = true;
    return 0;
}

static bool bin_full(const struct ctr_sort *s)
{
    int64_t used = s->bin->arena.in_use + 2 * s->bin->n * (int64_t)sizeof *s->bin->refs;
    bool half = s->opts.threads > 1 && s->spilled;

    return s->bin->n && used >= (half ? s->budget / 20 * 9 : s->budget);
}

int ctr_sort_batch(struct ctr_sort *s, const struct ctr_batch *b, struct ctr_err *err)
{
    int64_t idx[CTR_ROW_TILE];
    uint64_t tag[CTR_ROW_TILE];
    uint8_t *at[CTR_ROW_TILE];

    for (int64_t done = 0; done < b->rows;) {
        int n = (int)CTR_MIN(b->rows - done, CTR_ROW_TILE), rc = 0;
        for (int i = 0; i < n; i++) {
            idx[i] = done + i;
            tag[i] = s->opts.shuffle ? ctr_random64(s->opts.seed, 0, (uint64_t)(s->stats.rows + i)) : 0;
        }
        if (bin_full(s)) {
            rc = spill_bin(s, err);
            s->spilled = true;
        }
        if (!rc)
            rc = grow_refs(&s->bin->refs, &s->bin->cap, s->bin->n + n, err);
        if (!rc)
            rc = ctr_rowarena_add(&s->bin->arena, &s->format, b->col, idx, n, tag, at, err);
        if (rc)
            return rc;
        for (int i = 0; i < n; i++) {
            s->bytes += ctr_row_size(at[i]);
            ctr_rowref_set(&s->order, &s->bin->refs[s->bin->n++], at[i]);
        }
        s->stats.rows += n;
        done += n;
    }
    return 0;
}

/* ---- merging ---- */

static bool same_as_last(struct ctr_sort *s, const struct ctr_rowref *r)
{
    struct ctr_rowref last;

    if (!s->has_last)
        return false;
    ctr_rowref_set(&s->order, &last, s->last.data);
    return !ctr_rowref_compare(&s->order, &last, r);
}

static int keep_last(struct ctr_sort *s, const uint8_t *row, struct ctr_err *err)
{
    s->last.len = 0;
    s->has_last = true;
    return ctr_buf_append(&s->last, row, ctr_row_size(row), err);
}

/* Up to max (<= CTR_ROW_TILE) rows of the merge; with unique, without repeated keys. 0 at the end. */
static int merged_rows(struct ctr_sort *s, struct ctr_merge *m, const uint8_t **rows, int max, struct ctr_err *err)
{
    struct ctr_rowref refs[CTR_ROW_TILE];
    int n, kept = 0, rc = 0;

    while (!kept && (n = ctr_merge_next(m, refs, max, err)) != 0) {
        if (n < 0)
            return n;
        for (int i = 0; i < n; i++) {
            bool same = s->opts.unique &&
                        (i ? !ctr_rowref_compare(&s->order, &refs[i - 1], &refs[i]) : same_as_last(s, &refs[i]));
            s->stats.dropped += same;
            if (!same)
                rows[kept++] = refs[i].row;
        }
        if (s->opts.unique && (rc = keep_last(s, refs[n - 1].row, err)))
            return rc;
    }
    return kept;
}

static int merge_open(struct ctr_sort *s, const struct ctr_spill *from, int first, int n, struct ctr_merge **m,
                      struct ctr_err *err)
{
    struct ctr_merge_source *src = calloc((size_t)n + 1, sizeof *src);
    int64_t bytes = CTR_MIN(CTR_MAX(s->budget / (n + 2), MIN_READ / 4), MAX_READ);
    int rc;

    if (bytes >= (int64_t)HUGE_PAGE) /* a buffer uses whole huge pages, including its padding */
        bytes -= bytes % (int64_t)HUGE_PAGE + CTR_PAD;

    if (!src)
        return ctr_fail_nomem(err, (size_t)n * sizeof *src);
    for (int i = 0; i < n; i++)
        src[i] = (struct ctr_merge_source){ from->fd, from->run[first + i] };
    rc = ctr_merge_open(m, &s->order, src, n, (size_t)bytes, err);
    free(src);
    return rc;
}

/* Merge adjacent runs into one run of `to`. */
static int merge_some(struct ctr_sort *s, int first, int n, struct ctr_spill *to, struct ctr_err *err)
{
    const uint8_t *rows[CTR_ROW_TILE];
    struct ctr_merge *m;
    int rc = merge_open(s, &s->spill, first, n, &m, err), k = 0;

    if (rc)
        return rc;
    s->has_last = false;
    rc = ctr_spill_begin(to, err);
    while (!rc && (k = merged_rows(s, m, rows, CTR_ROW_TILE, err)) > 0)
        for (int i = 0; !rc && i < k; i++)
            rc = ctr_spill_row(to, rows[i], err);
    ctr_merge_free(m);
    s->has_last = false;
    return rc ? rc : k;
}

/* Reduce the number of runs until one merge with buffers of reasonable size can read them all. */
static int merge_passes(struct ctr_sort *s, struct ctr_err *err)
{
    int fan = (int)CTR_MIN(CTR_MAX(s->budget / MIN_READ - 2, 4), 512), rc = 0;

    while (!rc && s->spill.n > fan) {
        struct ctr_spill to;
        ctr_spill_init(&to, s->spill.buf_bytes);
        for (int i = 0; !rc && i < s->spill.n; i += fan)
            rc = merge_some(s, i, CTR_MIN(fan, s->spill.n - i), &to, err);
        if (!rc)
            rc = ctr_spill_flush(&to, err);
        s->stats.spilled_bytes += to.end;
        s->stats.passes++;
        ctr_spill_free(&s->spill);
        s->spill = to;
    }
    return rc;
}

/* Two batches of the result are held beside the budget, so wide rows make short ones: a power of two, as a writer's
 * are; fewer where rows are much wider than the mean. */
static void bound_result(struct ctr_sort *s)
{
    const int64_t most = CTR_MAX(CTR_MIN(s->budget / 32, MAX_RESULT), MIN_READ);
    int64_t rows = CTR_BATCH_ROWS;

    s->batch_bytes = 2 * most;
    while (rows > 1 && s->stats.rows && rows > most / (s->bytes / s->stats.rows + 1))
        rows /= 2;
    s->opts.batch_rows = CTR_MIN(s->opts.batch_rows, rows);
}

int ctr_sort_finish(struct ctr_sort *s, struct ctr_err *err)
{
    int rc;

    bound_result(s);
    if (!s->spilled)
        return sort_rows(s, s->bin, err);
    rc = await_writer(s, err);
    if (!rc && s->bin->n)
        rc = write_run(s, s->bin, err);
    if (!rc)
        rc = ctr_spill_flush(&s->spill, err);
    s->stats.runs = s->spill.n;
    s->stats.spilled_bytes = s->spill.end;
    free_bins(s);
    if (!rc)
        rc = merge_passes(s, err);
    s->stats.passes++;
    return rc ? rc : merge_open(s, &s->spill, 0, s->spill.n, &s->merge, err);
}

/* ---- giving back ---- */

static int memory_rows(struct ctr_sort *s, const uint8_t **rows, int max)
{
    int n = (int)CTR_MIN(s->bin->n - s->next, max);
    uint32_t ahead = ahead_bytes(s);

    for (int i = 0; i < n; i++)
        rows[i] = s->bin->refs[s->next + i].row;
    s->next += n;
    for (int i = 0; i < max && s->next + i < s->bin->n; i++)
        prefetch_row(s->bin->refs[s->next + i].row, ahead);
    return n;
}

/* The next rows of the result in s->tile, if none is left there. 0 at the end. */
static int next_tile(struct ctr_sort *s, struct ctr_err *err)
{
    if (s->tile_at < s->tile_n)
        return 1;
    const int n =
        s->merge ? merged_rows(s, s->merge, s->tile, CTR_ROW_TILE, err) : memory_rows(s, s->tile, CTR_ROW_TILE);
    s->tile_at = 0;
    s->tile_n = CTR_MAX(n, 0);
    return n;
}

static int make_batch(struct ctr_sort *s, struct ctr_err *err)
{
    struct ctr_batchbuf *out = &s->out[s->at];
    int64_t have = 0, bytes = 0;
    int rc = 0;

    ctr_batchbuf_clear(out);
    while (have < s->opts.batch_rows && bytes < s->batch_bytes && (rc = next_tile(s, err)) > 0) {
        const uint8_t *const *rows = s->tile + s->tile_at;
        const int most = (int)CTR_MIN(s->opts.batch_rows - have, s->tile_n - s->tile_at);
        int n = 0;
        while (n < most && bytes < s->batch_bytes)
            bytes += ctr_row_size(rows[n++]);
        rc = 0;
        for (int c = 0; !rc && c < s->schema.n; c++)
            rc = ctr_row_read(&s->format, c, rows, n, &out->col[c], err);
        if (rc)
            break;
        s->tile_at += n;
        have += n;
    }
    return rc < 0 ? rc : have > 0;
}

static void make_beside(void *ctx)
{
    struct ctr_sort *s = ctx;
    s->made_rc = make_batch(s, &s->made_err);
}

static int take_made(struct ctr_sort *s, struct ctr_err *err)
{
    (void)ctr_background_wait(s->maker, -1);
    s->making = false;
    if (s->made_rc < 0)
        *err = s->made_err;
    return s->made_rc;
}

/* With threads, one makes the next batch while the caller uses this one. */
int ctr_sort_next(struct ctr_sort *s, const struct ctr_batch **b, struct ctr_err *err)
{
    int rc = s->making ? take_made(s, err) : make_batch(s, err);

    if (rc <= 0)
        return rc;
    *b = ctr_batchbuf_view(&s->out[s->at]);
    if (s->opts.threads <= 1)
        return rc;
    s->at = !s->at;
    if ((*b)->rows == s->opts.batch_rows && !s->maker)
        s->maker = ctr_background_new();
    s->making = s->maker;
    if (s->making)
        ctr_background_run(s->maker, make_beside, s);
    return rc;
}
