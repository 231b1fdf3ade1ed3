/* SPDX-License-Identifier: Apache-2.0
 *
 * lr beyond memory. See lr_spill.h. */
#include "common/lr/lr_spill.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/lr/inclusion.h"
#include "common/lr/lr.h"
#include "common/table/keypages.h"

enum {
    GROUP = 64,         /* entries whose homes are prefetched together */
    ROWS_PART = 4,      /* of memory: for the rows that are read ahead */
    MISSING_BYTES = 48, /* of a key that is being brought: in its set, and sorted */
    MISSING_PART = 3,   /* of the keys in memory: brought at a time */
};

struct ctr_lr_spill {
    struct ctr_keypages *file;
    struct ctr_keyset *missing; /* by table: keys that memory lacks */
    struct ctr_buf want;        /* struct ctr_numbered: those of a table, twice */
    int tables;
    int64_t memory, room, some; /* --memory; keys that it holds; missing ones at a time */
    int64_t shared;             /* keys in memory that have a row on disk, too */
    struct ctr_ahead next;
    int64_t ahead; /* rows after those that were brought last whose keys were brought, too */
    struct ctr_lr_elsewhere rows;
    struct ctr_buf keys;                    /* u64, by table */
    int64_t most, brought, emptied, looked; /* keys at once, brought; how often memory was full, and disk looked at */
    struct ctr_err lost;                    /* code 0, or why keys were lost: nothing more is learned or saved */
};

/* Memory has room for four keys, and disk a page with A, B and C. Rows come in blocks of tiles (row: keys):
 *
 *     rows 1, 2: A D     missing A, D; one sweep finds A; D is new     memory A D        disk A B C
 *     row 3:     B E     missing B, E; B is found                      memory A D B E    disk A B C; shared: A, B
 *     row 4:     F       no room: all of memory is merged into the     memory F          disk A B C D E
 *                        pages by key, A's and B's states replaced,
 *                        and the tables begin anew
 *
 * While a key is in memory its state there counts, and the one on disk is old. The rows are learned one by one by the
 * loop of lr in memory, which never sees that a key is missing. */

static int refused(struct ctr_err *err, const char *what, const char *why)
{
    return ctr_fail(err, CTR_EUSAGE, "--spill: %s %s; leave it out, or %s", what, why,
                    "raise --memory until all keys fit and leave --spill out");
}

int ctr_lr_spill_new(struct ctr_lr_spill **out, const struct lr *m, struct ctr_err *err)
{
    const struct ctr_params *p = &m->params;
    *out = NULL;
    if (!p->spill)
        return 0;
    if (!p->memory_bytes)
        return ctr_fail(err, CTR_EUSAGE, "--spill: needs --memory: what the keys in memory may take");
    if (p->lr.expire)
        return refused(err, "--expire", "looks at all keys every day, which it does in memory alone");
    struct ctr_lr_spill *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    ctr_err_file(err, "--spill"); /* no error of the input, whose name would stand before it */
    int rc = ctr_keypages_open(&s->file, p->spill, m->states.bytes, p->memory_bytes, err);
    if (rc) {
        ctr_lr_spill_free(s);
        return rc;
    }
    err->file[0] = 0;
    s->memory = p->memory_bytes;
    const int64_t rest =
        s->memory - s->memory / ROWS_PART - ctr_keypages_memory(s->file) - ctr_inclusion_bytes(m->inclusion);
    s->room = (int64_t)((double)CTR_MAX(rest, 0) /
                        (CTR_KEYINDEX_SLACK + m->states.bytes + (double)MISSING_BYTES / MISSING_PART));
    s->some = s->room / MISSING_PART;
    *out = s;
    return 0;
}

void ctr_lr_spill_free(struct ctr_lr_spill *s)
{
    if (!s)
        return;
    for (int t = 0; t < s->tables; t++)
        ctr_keyset_free(&s->missing[t]);
    free(s->missing);
    ctr_buf_free(&s->want);
    ctr_buf_free(&s->keys);
    ctr_keypages_free(s->file);
    free(s);
}

int ctr_lr_spill_bind(struct lr *m, struct ctr_err *err)
{
    struct ctr_lr_spill *s = m->spill;
    const int rc = s ? ctr_array_extend(&s->missing, &s->tables, m->tables, sizeof *s->missing, err) : 0;
    return rc || !s ? rc : ctr_keypages_bind(s->file, m->tables, err);
}

/* ---- empty ---- */

static int64_t keys_in_memory(const struct lr *m)
{
    uint64_t n = 0;
    for (int t = 0; t < m->tables; t++)
        n += m->table[t].learned;
    return (int64_t)n;
}

struct put {
    struct lr *m;
    int table;
    int64_t replaced;
};

static int put_range(void *ctx, struct ctr_numbered *e, uint64_t n, struct ctr_err *err)
{
    struct put *p = ctx;
    const struct ctr_states *states = &p->m->states;
    const struct ctr_keypages_rows rows = { e, (int64_t)n, ctr_states_rows(states) + CTR_STATE_AT, states->bytes };
    return ctr_keypages_put(p->m->spill->file, p->table, &rows, &p->replaced, err);
}

static void start_tables_anew(struct lr *m)
{
    const uint32_t bytes = m->states.bytes;
    for (int t = 0; t < m->tables; t++) {
        const uint64_t keys = m->table[t].index.used;
        ctr_keys_free(&m->table[t]);
        m->table[t].index.expected = keys; /* about as many come again */
    }
    ctr_states_free(&m->states);
    ctr_states_init(&m->states, bytes);
}

/* All keys in memory go to disk. */
static int empty(struct lr *m, struct ctr_err *err)
{
    struct ctr_lr_spill *s = m->spill;
    struct put put = { .m = m };
    int rc = 0;
    for (; put.table < m->tables && !rc; put.table++)
        rc = m->table[put.table].learned ? ctr_keys_sorted(&m->table[put.table], put_range, &put, err) : 0;
    if (!rc && put.replaced != s->shared) /* those of a model that is read have none */
        rc = ctr_fail(err, CTR_EDATA,
                      "the model has a table and key twice; train it again, or keep the first of such "
                      "rows by ctr-sort --unique -k table,key");
    if (!rc)
        rc = ctr_keypages_settle(s->file, err);
    if (rc)
        s->lost = *err;
    s->most = CTR_MAX(s->most, keys_in_memory(m));
    start_tables_anew(m);
    s->shared = s->ahead = 0;
    return rc;
}

/* Fails if a call of `empty` has failed before, whatever was done about that. */
static int check_lost(const struct ctr_lr_spill *s, struct ctr_err *err)
{
    if (!s->lost.code)
        return 0;
    *err = s->lost;
    ctr_err_add(err, "; keys are lost, so nothing more is saved");
    return err->code;
}

static int make_room(struct lr *m, struct ctr_err *err)
{
    m->spill->emptied++;
    return empty(m, err);
}

int ctr_lr_spill_room(struct lr *m, struct ctr_err *err)
{
    return !m->spill || keys_in_memory(m) < CTR_MAX(m->spill->room, 1) ? 0 : make_room(m, err);
}

/* ---- bring ---- */

static int add_missing(struct lr *m, int table, uint64_t hash, int64_t *n, struct ctr_err *err)
{
    struct ctr_keyset *missing = &m->spill->missing[table];
    const int64_t before = missing->n;
    int rc = 0;
    (void)ctr_keyset_add(missing, hash, &rc, err);
    *n += missing->n - before;
    return rc;
}

/* Collect the keys of a row that memory lacks; *n counts them. */
static int look_up_row(struct lr *m, const struct ctr_rows *r, int64_t row, int64_t *n, struct ctr_err *err)
{
    struct ctr_keyline *home[GROUP];
    int rc = 0;
    for (int64_t at = r->start[row], k; at < r->start[row + 1]; at += k) {
        k = CTR_MIN(r->start[row + 1] - at, GROUP);
        for (int64_t i = 0; i < k; i++) {
            const struct ctr_keyindex *index = &m->table[r->table[at + i]].index;
            home[i] = index->size ? ctr_keyindex_home(index, r->hash[at + i]) : NULL;
            __builtin_prefetch(home[i]);
        }
        for (int64_t i = 0; i < k && !rc; i++) {
            const int table = r->table[at + i];
            if (!home[i] || !ctr_keyindex_find_from(&m->table[table].index, home[i], r->hash[at + i]))
                rc = add_missing(m, table, r->hash[at + i], n, err);
        }
    }
    return rc;
}

/* Collect the missing keys of rows from `from` on, of as many as memory holds. *n counts them, and goes on. */
static int look_up(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t *end, int64_t *n, struct ctr_err *err)
{
    const struct ctr_lr_spill *s = m->spill;
    const int64_t keys = keys_in_memory(m);
    int rc = 0;
    for (*end = from; *end < r->rows && *n <= s->some; ++*end) {
        rc = look_up_row(m, r, *end, n, err);
        if (rc || keys + *n > s->room)
            break;
    }
    return rc;
}

/* The same for the rows after r, which fit. */
static int look_up_ahead(struct lr *m, const struct ctr_rows *r, int64_t *n, struct ctr_err *err)
{
    struct ctr_lr_spill *s = m->spill;
    int64_t end = r->rows;
    int rc = 0;
    for (int k = 1; !rc && end == r->rows && *n <= s->some && (r = s->next.peek(s->next.ctx, k, true)); k++) {
        rc = look_up(m, r, 0, &end, n, err);
        s->ahead += end;
    }
    return rc;
}

static int look_up_all(struct lr *m, const struct ctr_rows *r, int64_t from, bool train, int64_t *end, int64_t *n,
                       struct ctr_err *err)
{
    struct ctr_lr_spill *s = m->spill;
    *n = 0;
    for (int t = 0; t < s->tables; t++)
        ctr_keyset_clear(&s->missing[t]);
    int rc = look_up(m, r, from, end, n, err);
    return rc || !train || !s->next.peek || *end < r->rows ? rc : look_up_ahead(m, r, n, err);
}

struct taken {
    struct lr *m;
    int table;
};

static int take(void *ctx, const uint8_t *row, struct ctr_err *err)
{
    const struct taken *t = ctx;
    struct lr *m = t->m;
    uint64_t key;
    uint8_t *to;
    memcpy(&key, row, sizeof key);
    int rc = ctr_keys_get(&m->table[t->table], &m->states, ctr_key_hash(key), &to, err);
    if (!rc)
        memcpy(to + CTR_STATE_AT, row + CTR_KEYPAGES_KEY, m->states.bytes);
    m->spill->shared++;
    m->spill->brought++;
    return rc;
}

/* The missing keys that are on disk. */
static int fetch(struct lr *m, int table, struct ctr_err *err)
{
    struct ctr_lr_spill *s = m->spill;
    const struct ctr_keyset *missing = &s->missing[table];
    struct taken taken = { m, table };
    int rc = ctr_buf_room(&s->want, 2 * missing->n, sizeof(struct ctr_numbered), err);
    struct ctr_numbered *want = (struct ctr_numbered *)(void *)s->want.data;
    for (int64_t i = 0; i < missing->n && !rc; i++)
        want[i] = (struct ctr_numbered){ ctr_key_unhash(ctr_keyset_hashes(missing)[i]), (uint64_t)i };
    if (!rc)
        want = ctr_numbered_sort(want, want + missing->n, (size_t)missing->n);
    return rc ? rc : ctr_keypages_get(s->file, table, want, missing->n, take, &taken, err);
}

static int no_room(const struct lr *m, const struct ctr_rows *r, int64_t row, int64_t keys, struct ctr_err *err)
{
    const struct ctr_lr_spill *s = m->spill;
    (void)ctr_fail(
        err, CTR_ENOMEM, "row %lld has %lld keys, of which --memory %s holds %lld beside its buffers: raise it",
        (long long)(r->first_row + row + 1), (long long)keys, ctr_size_text((uint64_t)s->memory).s, (long long)s->room);
    const int64_t filter = ctr_inclusion_bytes(m->inclusion);
    if (filter)
        ctr_err_add(err, ", or lower --inclusion-memory, which takes %s", ctr_size_text((uint64_t)filter).s);
    return err->code;
}

void ctr_lr_spill_set_ahead(void *learner, const struct ctr_ahead *ahead)
{
    struct ctr_lr_spill *s = ((struct lr *)learner)->spill;
    if (!s)
        return;
    s->next = ahead ? *ahead : (struct ctr_ahead){ 0 };
    s->ahead = 0;
}

int ctr_lr_spill_bring(struct lr *m, const struct ctr_rows *r, int64_t from, bool train, int64_t *end,
                       struct ctr_err *err)
{
    struct ctr_lr_spill *s = m->spill;
    int64_t n = 0;
    *end = r->rows;
    int rc = s ? check_lost(s, err) : 0;
    if (rc || !s)
        return rc;
    if (train && s->ahead) {
        *end = CTR_MIN(r->rows, from + s->ahead);
        s->ahead -= *end - from;
        return 0;
    }
    if (!ctr_keypages_count(s->file, -1) && keys_in_memory(m) + r->start[r->rows] - r->start[from] <= s->room)
        return 0;
    rc = look_up_all(m, r, from, train, end, &n, err);
    if (!rc && *end == from && keys_in_memory(m)) {
        rc = make_room(m, err);
        if (!rc)
            rc = look_up_all(m, r, from, train, end, &n, err);
    }
    if (!rc && *end == from)
        rc = no_room(m, r, from, n, err);
    for (int t = 0; t < m->tables && !rc && n; t++)
        if (s->missing[t].n && ctr_keypages_count(s->file, t))
            rc = fetch(m, t, err);
    s->looked += n && ctr_keypages_count(s->file, -1);
    return rc;
}

/* ---- saving ---- */

struct page_of {
    const struct lr *m;
    ctr_lr_take_sorted *take;
    void *to;
};

/* Rows of a page are as the learner has them: the key is where a table may keep it. */
static int take_page(void *ctx, const uint8_t *rows, int64_t n, uint32_t bytes, struct ctr_err *err)
{
    const struct page_of *p = ctx;
    struct ctr_numbered place[CTR_KEYPAGES_MOST_ROWS];
    for (int64_t i = 0; i < n; i++) {
        memcpy(&place[i].key, rows + i * bytes, sizeof place[i].key);
        place[i].number = (uint64_t)i;
    }
    const struct ctr_lr_sorted t = { place, (uint64_t)n, rows, bytes, NULL };
    return p->take(p->to, &t, err);
}

static int rows_of(void *ctx, int table, ctr_lr_take_sorted *taker, void *to, struct ctr_err *err)
{
    const struct lr *m = ctx;
    struct page_of page = { m, taker, to };
    return ctr_keypages_each(m->spill->file, table, take_page, &page, err);
}

static int digest_page(void *to, const struct ctr_lr_sorted *t, struct ctr_err *err)
{
    const struct lr *m = to;
    const struct ctr_lr_digested own = ctr_lr_digest_sorted(m, &m->learning, t);
    struct ctr_lr_digested *all = &m->spill->rows.digested;
    (void)err;
    all->digest += own.digest;
    all->finite &= own.finite;
    return 0;
}

int ctr_lr_spill_settle(struct lr *m, struct ctr_err *err)
{
    struct ctr_lr_spill *s = m->spill;
    m->saved.elsewhere = NULL;
    int rc = s ? check_lost(s, err) : 0;
    if (rc || !s || !ctr_keypages_count(s->file, -1))
        return rc;
    rc = empty(m, err);
    ctr_buf_clear(&s->keys);
    uint64_t *keys = ctr_buf_extend(&s->keys, m->tables, sizeof *keys, &rc, err);
    s->rows = (struct ctr_lr_elsewhere){ { 0, true }, keys, rows_of, m };
    for (int t = 0; t < m->tables && !rc; t++) {
        keys[t] = (uint64_t)ctr_keypages_count(s->file, t);
        rc = rows_of(m, t, digest_page, m, err);
    }
    m->saved.elsewhere = &s->rows;
    return rc;
}

/* ---- what was done ---- */

int64_t ctr_lr_spill_keys(const struct ctr_lr_spill *s)
{
    return s ? ctr_keypages_count(s->file, -1) - s->shared : 0;
}

int64_t ctr_lr_spill_memory(const struct ctr_lr_spill *s)
{
    int64_t n = s ? ctr_keypages_memory(s->file) + (int64_t)s->want.cap : 0;
    for (int t = 0; s && t < s->tables; t++)
        n += (int64_t)(s->missing[t].slot.cap + s->missing[t].hash.cap);
    return n;
}

void ctr_lr_spill_summary(const struct lr *m, struct ctr_say *text)
{
    const struct ctr_lr_spill *s = m->spill;
    if (!s)
        return;
    const struct ctr_rowfile_moved moved = ctr_keypages_moved(s->file);
    ctr_say(text,
            "memory keys          %" PRId64 " at most\n"
            "memory was full      %" PRId64 " times\n"
            "disk keys            %" PRId64 "\n"
            "disk keys read       %" PRId64 " in %" PRId64 " sweeps\n"
            "disk bytes moved     %s in %" PRId64 " reads, %s in %" PRId64 " writes\n",
            CTR_MAX(s->most, keys_in_memory(m)), s->emptied, ctr_keypages_count(s->file, -1), s->brought, s->looked,
            ctr_size_text((uint64_t)moved.read_bytes).s, moved.reads, ctr_size_text((uint64_t)moved.written_bytes).s,
            moved.writes);
}
