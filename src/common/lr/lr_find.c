/* SPDX-License-Identifier: Apache-2.0
 *
 * lr, the finder: looks up the state numbers of the keys of coming rows, ahead of the learner, on any waiting thread
 * (feed.h). Rows with one key per table are looked up table by table, in blocks, so that small tables stay in the
 * first-level cache and lines of large ones are prefetched while another table is processed. Hence columns, parts and
 * prefetches here: finding keys is half of a run's time; transposing numbers by eights and deferring slow look-ups gain
 * 4 to 8% each. */
#include <stdlib.h>

#include "common/base/isa.h"
#include "common/lr/inclusion.h"
#include "common/lr/lr.h"
#include "common/lr/transpose_x8.h"

enum {
    BLOCK_ROWS = 256,     /* rows between two growths */
    LIST_ROWS = 64,       /* the same if a table can have many keys per row: room is made for each */
    BLOCK_ENTRIES = 8192, /* maximum entries of these rows */
    NEAR_BYTES = 16384,   /* indexes up to this size need no prefetch */
    WORD = 64,            /* entries per bitmap word */
    ASKS = 64,            /* keys batched for the inclusion filter */
    GROUP = 8,            /* columns whose numbers are transposed together */
};
#define ASKED UINT32_MAX /* temporary number: the key may be new, and the filter must decide */

static void finder_free(struct ctr_lr_finder *f)
{
    struct ctr_buf *bufs[] = { &f->hash[0], &f->hash[1], &f->home[0], &f->home[1], &f->group, &f->own };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
}

void ctr_lr_finding_init(struct ctr_lr_finding *f)
{
    f->kernel = ctr_keyindex_kernel_at((int)ctr_cpu_best());
    pthread_rwlock_init(&f->lock, NULL);
}

void ctr_lr_finding_free(struct ctr_lr_finding *f)
{
    finder_free(&f->here);
    for (int i = 0; i < CTR_FIND_THREADS; i++)
        finder_free(&f->by_thread[i]);
    pthread_rwlock_destroy(&f->lock);
    ctr_buf_free(&f->registered);
    free(f->extra);
}

int64_t ctr_lr_block_end(const struct ctr_rows *r, int64_t from)
{
    if (r->one_a_table)
        return CTR_MIN(from + BLOCK_ROWS, r->rows);
    int64_t end = CTR_MIN(from + LIST_ROWS, r->rows);
    while (end > from + 1 && r->start[end] - r->start[from] > BLOCK_ENTRIES)
        end--;
    return end;
}

/* ---- room ---- */

static uint64_t bytes_after(struct lr *m)
{
    uint64_t need = (uint64_t)ctr_inclusion_bytes(m->inclusion);
    for (int i = 0; i < m->tables; i++) {
        const struct ctr_states *s = ctr_lr_states_of(m, i);
        need += m->finding.extra[i] ? ctr_keys_bytes_after(&m->table[i], s, m->finding.extra[i])
                                    : ctr_keys_bytes(&m->table[i], s);
    }
    return need;
}

static int check_memory(struct lr *m, int64_t bound, struct ctr_err *err)
{
    const uint64_t need = bytes_after(m);
    uint64_t keys = !m->no_bias;
    if (need <= (uint64_t)bound)
        return 0;
    for (int i = 0; i < m->tables; i++)
        keys += m->table[i].index.used;
    const struct ctr_size_text needs = ctr_size_text_beyond(need, (uint64_t)bound),
                               allows = ctr_size_text((uint64_t)bound);
    if (m->finding.variants)
        return ctr_fail(err, CTR_ENOMEM,
                        "%lld keys of %d variants need %s to go on, --memory allows %s: raise it, refuse rare keys "
                        "(--inclusion), or share values (--single-value)",
                        (long long)keys, m->finding.variants, needs.s, allows.s);
    return ctr_fail(
        err, CTR_ENOMEM,
        "the table of %lld keys needs %s to go on, --memory allows %s: raise it, keep keys on disk (--spill "
        "DIR), refuse rare keys (--inclusion, or vocab with min=…), or use --precision f32 or q2.13",
        (long long)keys, needs.s, allows.s);
}

/* The room that a block needs at most, by table: as if all of its keys were new. */
static void measure_block(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end)
{
    int64_t first = r->start[from], last = r->one_a_table ? r->start[from + 1] : r->start[end];
    int64_t each = r->one_a_table ? end - from : 1;
    memset(m->finding.extra, 0, (size_t)m->tables * sizeof *m->finding.extra);
    for (int64_t e = first; e < last; e++) {
        const int table = r->table[r->transposed ? e - first : e];
        m->finding.extra[table] += ctr_lr_wants(m, table) ? (uint64_t)each : 0;
    }
}

struct new_key {
    uint64_t hash;
    int table;
};

static int by_table_and_hash(const void *a, const void *b)
{
    const struct new_key *x = a, *y = b;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* The room that it needs exactly: so the required --memory depends on the keys, not on blocks. */
static int count_new(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, struct ctr_err *err)
{
    struct ctr_buf found = { 0 };
    int rc = 0;
    for (int64_t row = from; row < end && !rc; row++)
        for (int64_t e = r->start[row]; e < r->start[row + 1] && !rc; e++) {
            const int64_t k = e - r->start[row];
            const struct new_key key = { r->hash[r->transposed ? k * r->rows + row : e],
                                         r->table[r->transposed ? k : e] };
            if (ctr_lr_wants(m, key.table) && !ctr_keyindex_find(&m->table[key.table].index, key.hash))
                rc = ctr_buf_append(&found, &key, sizeof key, err);
        }
    const int64_t n = (int64_t)(found.len / sizeof(struct new_key));
    const struct new_key *key = (struct new_key *)(void *)found.data;
    memset(m->finding.extra, 0, (size_t)m->tables * sizeof *m->finding.extra);
    if (n)
        qsort(found.data, (size_t)n, sizeof *key, by_table_and_hash);
    for (int64_t i = 0; i < n; i++)
        m->finding.extra[key[i].table] += !i || by_table_and_hash(&key[i - 1], &key[i]);
    ctr_buf_free(&found);
    return rc;
}

static int reserve_block(struct lr *m, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < m->tables && !rc; i++)
        if (m->finding.extra[i])
            rc = ctr_keys_reserve(&m->table[i], ctr_lr_states_of(m, i), m->finding.extra[i], err);
    return rc;
}

static int make_scratch(struct ctr_lr_finder *f, int64_t entries, struct ctr_err *err)
{
    struct ctr_buf *bufs[] = { &f->hash[0], &f->hash[1], &f->home[0], &f->home[1] };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(bufs) && !rc; i++)
        rc = ctr_buf_room(bufs[i], entries, sizeof(uint64_t), err);
    return rc ? rc : ctr_buf_room(&f->group, entries * GROUP, sizeof(uint32_t), err);
}

/* A block of three rows with the keys A B A of table site and x y x of table ad; y is new, and numbers of states are
 * A 7, B 8, x 9:
 *
 *     begin_column   site: home lines of A B A, prefetched      ad: home lines of x y x, prefetched
 *     end_column     site: 7 8 7                                ad: 9 10 9; y gets the next number, 10
 *     put_group      rows: 7 9, 8 10, 7 9
 *
 * The next column begins before this one ends, so that its lines arrive meanwhile (f->hash and f->home are double).
 * With an inclusion filter y gets ASKED instead; after all columns ask_rows lets the filter decide, row by row: a
 * number, or 0, which is no state. Threads take parts of the columns (find_part), so no table has two finders. */

/* ---- one key a table ---- */

struct column { /* of a block */
    int table;
    int64_t n;
    const uint64_t *hash; /* NULL: no learner uses the table */
    struct ctr_keyline *const *home;
};

static void prefetch_all(struct ctr_keyline *const *home, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        __builtin_prefetch(home[i]);
}

/* Start on the keys of rows [from, end) at position k of a row: compute their hashes and homes, and prefetch. */
static struct column begin_column(const struct lr *m, const struct ctr_lr_finder *f, const struct ctr_rows *r,
                                  int64_t from, int64_t end, int64_t k, int stage)
{
    const int64_t n = end - from, width = r->start[from + 1] - r->start[from];
    const int table = r->table[r->transposed ? k : r->start[from] + k];
    const struct ctr_keys *t = &m->table[table];
    if (!ctr_lr_wants(m, table))
        return (struct column){ .table = table, .n = n };
    uint64_t *hash = (uint64_t *)(void *)f->hash[stage].data;
    struct ctr_keyline **home = (struct ctr_keyline **)(void *)f->home[stage].data;
    const uint64_t *of = r->transposed ? r->hash + k * r->rows + from : r->hash + r->start[from] + k;
    for (int64_t i = 0; i < n && !r->transposed; i++)
        hash[i] = of[i * width];
    const struct column c = { table, n, r->transposed ? of : hash, home };
    m->finding.kernel->homes(&t->index, c.hash, n, home);
    if (ctr_keyindex_bytes(&t->index) > NEAR_BYTES)
        prefetch_all(home, n);
    return c;
}

/* The number of a key that is not in its home line. */
static uint32_t other_number(struct lr *m, int table, struct ctr_keyline *home, uint64_t hash)
{
    struct ctr_keys *t = &m->table[table];
    return m->inclusion ? ASKED
                        : ctr_keys_number(t, ctr_lr_states_of(m, table), ctr_keyindex_get_from(&t->index, home, hash));
}

/* The same for the keys of rows from + i, for all bits i of `others`. */
static void find_others(struct lr *m, const struct column *c, int64_t from, uint64_t others, uint32_t *restrict number)
{
    for (; others; others &= others - 1) {
        const int64_t row = from + __builtin_ctzll(others);
        number[row] = other_number(m, c->table, c->home[row], c->hash[row]);
    }
}

/* Prefetch for the keys whose home lines are full: they need further lines. */
static void prefetch_further(struct ctr_keyline *const *home, uint64_t others)
{
    for (; others; others &= others - 1) {
        const struct ctr_keyline *line = home[__builtin_ctzll(others)];
        if (line->n < CTR_KEYLINE_KEYS)
            continue;
        __builtin_prefetch(line + 1);
        __builtin_prefetch(line + 2);
    }
}

/* Finish the column: the numbers of its keys. Most are in their home lines; the others, in the order of rows, wait
 * until all lines have been seen. */
static void end_column(struct lr *m, const struct column *c, uint32_t *restrict number)
{
    uint64_t others[BLOCK_ROWS / WORD];
    for (int64_t i = 0; !c->hash && i < c->n; i++)
        number[i] = 0;
    for (int64_t at = 0; c->hash && at < c->n; at += WORD) {
        others[at / WORD] = m->finding.kernel->find(c->hash + at, c->home + at, CTR_MIN(c->n - at, WORD), number + at);
        prefetch_further(c->home + at, others[at / WORD]);
    }
    for (int64_t at = 0; c->hash && at < c->n; at += WORD)
        find_others(m, c, at, others[at / WORD], number);
}

/* Transpose the numbers of some columns to rows of `width`: several per row, because they share a cache line. */
static void put_group(const struct lr *m, const uint32_t *restrict column, int64_t columns, int64_t rows, int64_t width,
                      uint32_t *restrict number)
{
    const int64_t turned = columns == GROUP ? rows / GROUP * GROUP : 0;
    if (turned)
        m->loops->transpose(column, rows, turned, number, width);
    number += turned * width;
    for (int64_t i = turned; i < rows; i++, number += width)
        for (int64_t k = 0; k < columns; k++)
            number[k] = column[k * rows + i];
}

struct positions { /* within a row */
    int64_t from, end;
};

static void find_positions(struct lr *m, const struct ctr_lr_finder *f, const struct ctr_rows *r, int64_t from,
                           int64_t end, struct positions p, uint32_t *number)
{
    const int64_t rows = end - from, width = r->start[from + 1] - r->start[from];
    uint32_t *group = (uint32_t *)(void *)f->group.data;
    int64_t in = 0; /* columns in the group */
    struct column next = { .n = 0 };
    if (p.from < p.end)
        next = begin_column(m, f, r, from, end, p.from, 0);
    for (int64_t k = p.from, stage = 1; k < p.end; k++, stage ^= 1) {
        const struct column c = next;
        if (k + 1 < p.end)
            next = begin_column(m, f, r, from, end, k + 1, (int)stage);
        end_column(m, &c, group + in++ * rows);
        if (k + 1 < p.end && in < GROUP)
            continue;
        put_group(m, group, in, rows, width, number + r->start[from] + k - (in - 1));
        in = 0;
    }
}

/* ---- new keys and the filter ---- */

struct ask {
    uint64_t hash, draw;
    struct ctr_keyline *home;
    int64_t row, entry;
    int table;
};

/* Set the numbers of existing keys and keep the others in `ask`. Returns how many those are. */
static int64_t find_held(const struct lr *m, struct ask *ask, int64_t n, uint32_t *number)
{
    int64_t left = 0;
    for (int64_t i = 0; i < n; i++) {
        struct ask a = ask[i];
        const uint32_t *found = ctr_keyindex_find_from(&m->table[a.table].index, a.home, a.hash);
        if (found) {
            number[a.entry] = *found;
            continue;
        }
        a.draw = ctr_inclusion_draw(m->inclusion, m->seed[a.table], a.hash);
        ctr_inclusion_prefetch(m->inclusion, a.draw);
        ask[left++] = a;
    }
    return left;
}

/* Set the numbers of keys that did not exist before, and may by now; 0: refused. */
static void decide(struct lr *m, struct ask *ask, int64_t n, uint32_t *number)
{
    n = find_held(m, ask, n, number);
    for (int64_t i = 0; i < n; i++, ask++) {
        struct ctr_keys *t = &m->table[ask->table];
        uint32_t *own = ctr_keyindex_find_from(&t->index, ask->home, ask->hash);
        if (!own && ctr_inclusion_takes(m->inclusion, ask->row, ask->draw))
            own = ctr_keyindex_get_from(&t->index, ask->home, ask->hash);
        number[ask->entry] = own ? ctr_keys_number(t, ctr_lr_states_of(m, ask->table), own) : 0;
    }
}

/* The filter must see rows in order, and the new keys of a row in their order: several at a time, to prefetch for
 * them. */
static void ask_rows(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, uint32_t *number)
{
    struct ask ask[ASKS];
    int64_t n = 0;
    for (int64_t i = from; i < end; i++)
        for (int64_t at = r->start[i], some; at < r->start[i + 1]; at += some) {
            some = CTR_MIN(WORD, r->start[i + 1] - at);
            for (uint64_t rest = m->loops->equal(number + at, some, ASKED); rest; rest &= rest - 1) {
                const int64_t e = at + __builtin_ctzll(rest), k = r->transposed ? e - r->start[i] : e;
                const int table = r->table[k];
                const uint64_t hash = r->hash[r->transposed ? k * r->rows + i : e];
                struct ctr_keyline *home = ctr_keyindex_home(&m->table[table].index, hash);
                __builtin_prefetch(home);
                __builtin_prefetch(home + 1);
                ask[n++] =
                    (struct ask){ .hash = hash, .home = home, .row = r->first_row + i, .entry = e, .table = table };
                if (n == ASKS) {
                    decide(m, ask, n, number);
                    n = 0;
                }
            }
        }
    decide(m, ask, n, number);
}

/* ---- any rows ---- */

/* Entry by entry: a table may occur several times in a row. */
static void find_entries(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, uint32_t *number)
{
    struct ctr_keyline **home = (struct ctr_keyline **)(void *)m->finding.here.home[0].data;
    const int64_t first = r->start[from];
    for (int64_t e = first, i = 0; e < r->start[end]; e++, i++) {
        home[i] = ctr_keyindex_home(&m->table[r->table[e]].index, r->hash[e]);
        __builtin_prefetch(home[i]);
    }
    for (int64_t row = from; row < end; row++)
        for (int64_t e = r->start[row]; e < r->start[row + 1]; e++)
            number[e] = ctr_lr_wants(m, r->table[e]) ? other_number(m, r->table[e], home[e - first], r->hash[e]) : 0;
}

/* For a block, or more if no thread finds ahead. */
static int find_room(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, int64_t bound,
                     struct ctr_err *err)
{
    int rc = 0;
    measure_block(m, r, from, end);
    if (bound && bytes_after(m) > (uint64_t)bound) {
        rc = count_new(m, r, from, end, err);
        if (!rc)
            rc = check_memory(m, bound, err);
    }
    return rc ? rc : reserve_block(m, err);
}

int ctr_lr_find_block(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, int64_t bound,
                      uint32_t *number, struct ctr_err *err)
{
    const int64_t first = r->start[from], last = r->start[end];
    int rc = find_room(m, r, from, end, bound, err);
    if (!rc)
        rc = make_scratch(&m->finding.here, r->one_a_table ? end - from : last - first, err);
    if (rc)
        return rc;
    if (r->one_a_table)
        find_positions(m, &m->finding.here, r, from, end, (struct positions){ 0, r->start[from + 1] - first }, number);
    else
        find_entries(m, r, from, end, number);
    if (m->inclusion)
        ask_rows(m, r, from, end, number);
    return 0;
}

/* ---- states for what was found ---- */

static int make_state_groups(struct lr *m, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < m->tables && !rc; i++)
        if (ctr_lr_wants(m, i))
            rc = ctr_states_make(ctr_lr_states_of(m, i), m->table[i].known, err);
    return rc;
}

int ctr_lr_register_keys(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, const uint32_t *number,
                         struct ctr_err *err)
{
    const int64_t first = r->start[from], last = r->start[end], k = r->start[from + 1] - first;
    uint32_t most = 0;
    int rc = r->one_a_table ? ctr_buf_room(&m->finding.registered, 2 * k, sizeof most, err) : 0;
    if (rc)
        return rc;
    struct ctr_lr_registered registered = { (uint32_t *)(void *)m->finding.registered.data,
                                            (uint32_t *)(void *)m->finding.registered.data + k };
    for (int64_t j = 0; r->one_a_table && j < k; j++) {
        const struct ctr_keys *t = &m->table[r->table[r->transposed ? j : first + j]];
        registered.known[j] = t->known;
        registered.learned[j] = 0;
    }
    if (r->one_a_table)
        m->loops->register_keys(number + first, end - from, k, &registered);
    for (int64_t j = 0; r->one_a_table && j < k; j++) {
        struct ctr_keys *t = &m->table[r->table[r->transposed ? j : first + j]];
        t->known = registered.known[j];
        t->learned += registered.learned[j];
        most = CTR_MAX(most, t->known);
    }
    for (int64_t e = first; !r->one_a_table && e < last; e++) {
        ctr_keys_register(&m->table[r->table[e]], number[e]);
        most = CTR_MAX(most, number[e]);
    }
    return m->groups.states ? make_state_groups(m, err) : ctr_states_make(&m->states, most, err);
}

/* ---- ahead, on any thread ---- */

/* For rows with one key per table: each part has a range of their positions. */
static int find_part(struct lr *m, struct ctr_lr_finder *f, const struct ctr_rows *r, int part, int64_t bound,
                     uint32_t *number, struct ctr_err *err)
{
    const int64_t width = r->start[1] - r->start[0], each = (width + CTR_FIND_PARTS - 1) / CTR_FIND_PARTS;
    const struct positions p = { CTR_MIN(part * each, width), CTR_MIN((part + 1) * each, width) };
    int rc = 0;
    for (int64_t from = 0, end; from < r->rows && !rc; from = end) {
        end = ctr_lr_block_end(r, from);
        const int64_t room = m->inclusion ? r->rows : end - from; /* a filter decides on new keys after all blocks */
        for (int64_t k = p.from; k < p.end && !rc && !bound; k++) /* otherwise there is room: see find_room */
            if (ctr_lr_wants(m, r->table[k]))
                rc = ctr_keys_reserve(&m->table[r->table[k]], ctr_lr_states_of(m, r->table[k]), (uint64_t)room, err);
        if (!rc && !(rc = make_scratch(f, end - from, err)))
            find_positions(m, f, r, from, end, p, number);
    }
    return rc;
}

static int find_all(struct lr *m, const struct ctr_rows *r, int64_t bound, uint32_t *number, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t from = 0, end; from < r->rows && !rc; from = end) {
        end = ctr_lr_block_end(r, from);
        rc = ctr_lr_find_block(m, r, from, end, bound, number, err);
    }
    return rc;
}

/* Rows with lists, which may have a table twice, are found in one part. For all others the first part checks --memory,
 * and the last asks the filter. */
int ctr_lr_find(void *learner, const struct ctr_rows *r, const struct ctr_find *f, struct ctr_err *err)
{
    struct lr *m = learner;
    int rc = 0;
    pthread_rwlock_rdlock(&m->finding.lock);
    if (!r->transposed)
        rc = f->part ? 0 : find_all(m, r, f->memory_bytes, f->number, err);
    else if (f->part == CTR_FIND_FIRST)
        rc = f->memory_bytes ? find_room(m, r, 0, r->rows, f->memory_bytes, err) : 0;
    else if (f->part < CTR_FIND_PARTS)
        rc = find_part(m, &m->finding.by_thread[f->thread], r, f->part, f->memory_bytes, f->number, err);
    else if (m->inclusion)
        ask_rows(m, r, 0, r->rows, f->number);
    pthread_rwlock_unlock(&m->finding.lock);
    return rc;
}

void ctr_lr_hold_finders(struct lr *m)
{
    pthread_rwlock_wrlock(&m->finding.lock);
}

void ctr_lr_release_finders(struct lr *m)
{
    pthread_rwlock_unlock(&m->finding.lock);
}

/* ---- loops for the learner ---- */

CTR_BODY void rows_body(uint8_t *base, uint64_t bytes, const uint32_t *restrict number, int64_t k,
                        uint8_t **restrict row)
{
    for (int64_t i = 0; i < k; i++)
        row[i] = base + number[i] * bytes;
}

CTR_BODY void register_body(const uint32_t *restrict number, int64_t rows, int64_t k,
                            const struct ctr_lr_registered *registered)
{
    uint32_t *restrict known = registered->known, *restrict learned = registered->learned;
    for (int64_t i = 0; i < rows; i++, number += k)
        for (int64_t j = 0; j < k; j++) {
            learned[j] += number[j] > known[j];
            known[j] = CTR_MAX(known[j], number[j]);
        }
}

CTR_BODY void transpose_body(const uint32_t *column, int64_t step, int64_t rows, uint32_t *number, int64_t width)
{
    for (int64_t i = 0; i < rows; i += GROUP)
        ctr_transpose_x8(column + i, step, number + i * width, width);
}

typedef int8_t eight_bytes __attribute__((vector_size(8)));

CTR_BODY uint64_t equal_body(const uint32_t *number, int64_t n, uint32_t to)
{
    uint64_t bits = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        ctr_u32x8 v;
        uint64_t word;
        memcpy(&v, number + i, sizeof v);
        const eight_bytes same = __builtin_convertvector(v == to, eight_bytes);
        memcpy(&word, &same, sizeof word);
        bits |= ctr_byte_bits(word) << i;
    }
    for (; i < n; i++)
        bits |= (uint64_t)(number[i] == to) << i;
    return bits;
}

#define DEFINE_LOOPS(isa, attributes)                                                                                  \
    attributes static void rows_##isa(uint8_t *base, uint64_t bytes, const uint32_t *restrict number, int64_t k,       \
                                      uint8_t **restrict row)                                                          \
    {                                                                                                                  \
        rows_body(base, bytes, number, k, row);                                                                        \
    }                                                                                                                  \
    attributes static void register_##isa(const uint32_t *restrict number, int64_t rows, int64_t k,                    \
                                          const struct ctr_lr_registered *registered)                                  \
    {                                                                                                                  \
        register_body(number, rows, k, registered);                                                                    \
    }                                                                                                                  \
    attributes static void transpose_##isa(const uint32_t *column, int64_t step, int64_t rows, uint32_t *number,       \
                                           int64_t width)                                                              \
    {                                                                                                                  \
        transpose_body(column, step, rows, number, width);                                                             \
    }                                                                                                                  \
    attributes static uint64_t equal_##isa(const uint32_t *number, int64_t n, uint32_t to)                             \
    {                                                                                                                  \
        return equal_body(number, n, to);                                                                              \
    }

CTR_EACH_ISA(DEFINE_LOOPS)

#define LOOPS_ROW(isa)                                                                                                 \
    {                                                                                                                  \
        rows_##isa, register_##isa, transpose_##isa, equal_##isa                                                       \
    }
static const struct ctr_lr_loops loops[] = CTR_ISA_TABLE(LOOPS_ROW);

const struct ctr_lr_loops *ctr_lr_loops_best(void)
{
    return &loops[ctr_cpu_best()];
}
