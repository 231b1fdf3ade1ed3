/* SPDX-License-Identifier: Apache-2.0
 *
 * historystate: what a history knows at the end of its input, as a bundle of streams, from which a later run goes on:
 *
 *     state       one row: the last time, and the counts of all rows
 *     behaviours  a row each, by user, the oldest first: user, time, values
 *     count.N     a row for each key of set N, in the order of its numbers
 *     pending     rows that are not counted yet, or that will leave the window
 *     sessions    a row a user
 *     rest        with a log of behaviours: its rows that no event knows yet, as they are
 *
 * A user or key is a number (its key is a bijection, the same in every process) or bytes. Behaviours that no later
 * event can list are left out, and users are in the order of their keys: so the bytes do not depend on memory or
 * batches. */
#include "common/rows/historycore.h"

#include <stdlib.h>

#define META_STATE "ctr.state" /* schema of the first section: what the state is of */

/* After (u, a, 1, click) (u, b, 2) (u, c, 2, click) (u, d, 3), as user, ad and time, with --columns ad --count ad
 * --where click==1 --session 30m, the state is
 *
 *     state       time 3, known 3, clicks 2, pending_known 0, pending_shown 0
 *     behaviours  (u, 1, a) (u, 2, c): user, time, value
 *     count.0     (a, 1, 1, 1) (b, 1, 1, 0) (c, 1, 1, 1) (d, 0, 0, 0): impressions, known, clicks
 *     pending     (3, 0, 3): time, click, number in count.0. Rows of the last time, such as that of d, count later
 *     sessions    (u, 3, 1, 4): last time, number of the session, position in it
 *
 * Rows of count.N and pending go by numbers, so a set is restored in its order: get_value fails if a value came before.
 * A key stands as (key, bytes, null): u, a text, as key 0 and its bytes. */

/* ---- sections ---- */

struct section {
    struct ctr_schema schema;
    struct ctr_batchbuf rows;
    struct ctr_writer *w;
    int user; /* the first of the columns key, bytes, null */
};

static int add_columns(struct section *s, const char *const *name, const enum ctr_type *type, int n,
                       struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; rc >= 0 && i < n; i++)
        rc = ctr_schema_add(&s->schema, name[i], type[i], err);
    return CTR_MIN(rc, 0);
}

static int add_identity(struct section *s, struct ctr_err *err)
{
    static const char *const name[] = { "key", "bytes", "null" };
    static const enum ctr_type type[] = { CTR_U64, CTR_LIST, CTR_BOOL };
    s->user = s->schema.n;
    const int rc = add_columns(s, name, type, 3, err);
    if (!rc)
        s->schema.f[s->user + 1].item = CTR_U8;
    return rc;
}

static int section_open(struct section *s, struct ctr_out *out, const char *name, struct ctr_err *err)
{
    int rc = ctr_meta_set(&s->schema.meta, CTR_META_SECTION, name, err);
    if (!rc)
        rc = ctr_batchbuf_init(&s->rows, &s->schema, err);
    return rc ? rc : ctr_writer_open(&s->w, out, &s->schema, NULL, err);
}

/* After each row. */
static int section_row(struct section *s, struct ctr_err *err)
{
    if (s->rows.col[0].rows < CTR_BATCH_ROWS)
        return 0;
    const int rc = ctr_writer_batch(s->w, ctr_batchbuf_view(&s->rows), err);
    ctr_batchbuf_clear(&s->rows);
    return rc;
}

static int section_end(struct section *s, int rc, struct ctr_err *err)
{
    if (!rc && s->rows.col[0].rows)
        rc = ctr_writer_batch(s->w, ctr_batchbuf_view(&s->rows), err);
    if (!rc)
        rc = ctr_writer_finish(s->w, err);
    ctr_writer_free(s->w);
    ctr_batchbuf_free(&s->rows);
    ctr_schema_free(&s->schema);
    return rc;
}

static int put_identity(struct section *s, uint64_t key, const struct ctr_str *bytes, bool null, struct ctr_err *err)
{
    struct ctr_colbuf *to = &s->rows.col[s->user];
    int rc = ctr_colbuf_i64(&to[0], bytes ? 0 : (int64_t)key, err);
    if (!rc && bytes) {
        void *p = ctr_buf_extend(&to[1].item->data, (int64_t)bytes->n, 1, &rc, err);
        if (!rc && bytes->n)
            memcpy(p, bytes->p, bytes->n);
        to[1].item->rows += rc ? 0 : (int64_t)bytes->n;
    }
    if (!rc)
        rc = bytes ? ctr_colbuf_close(&to[1], err) : ctr_colbuf_null(&to[1], err);
    return rc ? rc : ctr_colbuf_i64(&to[2], null, err);
}

static int get_identity(const struct ctr_batch *b, int64_t i, bool text, struct ctr_keyvalue *v, struct ctr_err *err)
{
    const struct ctr_col *c = b->col;
    int64_t from = 0, to = 0;
    const struct ctr_col *item = ctr_col_items(&c[1], 0, i, &from, &to);
    if ((item != NULL) != text || (item && item->nulls) || ctr_col_missing(&c[0], i) || ctr_col_missing(&c[2], i))
        return ctr_fail(err, CTR_EDATA, "row %lld: a key of another type", (long long)(b->first_row + i + 1));
    *v = (struct ctr_keyvalue){ .key = (uint64_t)ctr_col_i64(&c[0], i) };
    if (item)
        *v = ctr_keyvalue_text((struct ctr_str){ (const char *)item->data + from, (size_t)(to - from) });
    v->null = ctr_bit(c[2].data, i);
    return 0;
}

/* ---- sets of values, by number ---- */

static int set_keys(const struct ctr_keyvalue_set *x, uint64_t **out, struct ctr_err *err)
{
    uint64_t *key = *out = calloc((size_t)x->n + 1, sizeof *key), at = 0, hash;
    const uint32_t *number;
    if (!key)
        return ctr_fail_nomem(err, (size_t)x->n * sizeof *key);
    while ((number = ctr_keyindex_next(&x->index, &at, &hash)))
        if (*number)
            key[*number - 1] = hash;
    return 0;
}

static int put_value(struct section *s, const struct ctr_keyvalue_set *x, const uint64_t *key, uint32_t number,
                     struct ctr_err *err)
{
    const bool null = x->null == number + 1;
    const struct ctr_str bytes = x->start.len ? ctr_keyvalue_set_text(x, number) : (struct ctr_str){ 0 };
    return put_identity(s, key[number], x->start.len ? &bytes : NULL, null, err);
}

static int get_value(struct ctr_keyvalue_set *x, const struct ctr_batch *b, int64_t i, bool text, struct ctr_err *err)
{
    struct ctr_keyvalue v;
    const uint32_t before = x->n;
    uint32_t number = 0;
    int rc = get_identity(b, i, text, &v, err);
    if (!rc)
        rc = ctr_keyvalue_set_add(x, &v, &number, err);
    if (!rc && number != before)
        return ctr_fail(err, CTR_EDATA, "row %lld: the value came before", (long long)(b->first_row + i + 1));
    return rc;
}

/* ---- saving ---- */

static int head_schema(struct section *s, const struct ctr_historystate *h, struct ctr_err *err)
{
    static const char *const name[] = { "time", "known", "clicks", "pending_known", "pending_shown", "learned" };
    static const enum ctr_type type[] = { CTR_I64, CTR_I64, CTR_I64, CTR_I64, CTR_I64, CTR_I64 };
    return add_columns(s, name, type, h->past ? 6 : 5, err);
}

static int save_head(const struct ctr_historystate *h, struct ctr_out *out, const char *sections, struct ctr_err *err)
{
    const struct ctr_feedback *f = h->counts;
    const int64_t value[] = { h->last_ms,          f->all.known,        f->all.clicks,
                              f->known - f->first, f->shown - f->first, h->learned_ms };
    struct section s = { 0 };
    int rc = head_schema(&s, h, err);
    if (!rc)
        rc = ctr_meta_set(&s.schema.meta, META_STATE, h->what, err);
    if (!rc)
        rc = ctr_meta_set(&s.schema.meta, CTR_META_SECTIONS, sections, err);
    if (!rc)
        rc = section_open(&s, out, "state", err);
    for (int i = 0; !rc && i < s.schema.n; i++)
        rc = (!i && !h->any) || (i == 5 && !h->learned) ? ctr_colbuf_null(&s.rows.col[i], err)
                                                        : ctr_colbuf_i64(&s.rows.col[i], value[i], err);
    return section_end(&s, rc, err);
}

struct user {
    const struct ctr_past *past;
    uint64_t key;
    struct ctr_str text;
};

static int compare_users(const void *a, const void *b)
{
    const struct user *x = a, *y = b;
    if (!x->text.p)
        return x->key < y->key ? -1 : x->key > y->key;
    const int order = memcmp(x->text.p, y->text.p, CTR_MIN(x->text.n, y->text.n));
    return order ? order : x->text.n < y->text.n ? -1 : x->text.n > y->text.n;
}

static int list_users(const struct ctr_historystate *h, struct user **out, int64_t *n, struct ctr_err *err)
{
    const struct ctr_behaviours *u = h->users;
    const struct ctr_past *past = (const struct ctr_past *)(const void *)u->pasts.data;
    const int64_t all = (int64_t)(u->pasts.len / sizeof *past);
    struct user *list = *out = calloc((size_t)all + 1, sizeof *list);
    uint64_t at = 0, key;
    const uint32_t *number;
    *n = 0;
    if (!list)
        return ctr_fail_nomem(err, (size_t)all * sizeof *list);
    if (u->texts)
        for (int64_t i = 0; i < all; i++)
            if (past[i].cap)
                list[(*n)++] = (struct user){ &past[i], 0, ctr_behaviours_text(&past[i]) };
    while (!u->texts && (number = ctr_keyindex_next(&u->index, &at, &key)))
        if (*number && past[*number - 1].cap)
            list[(*n)++] = (struct user){ &past[*number - 1], key, { 0 } };
    qsort(list, (size_t)*n, sizeof *list, compare_users);
    return 0;
}

static int put_values(struct section *s, const struct ctr_historystate *h, const uint64_t *word, struct ctr_err *err)
{
    int rc = ctr_colbuf_i64(&s->rows.col[3], (int64_t)word[0], err);
    for (int v = 0; !rc && v < h->users->values; v++) {
        struct ctr_colbuf *to = &s->rows.col[4 + v];
        if (word[1] >> v & 1) {
            rc = ctr_colbuf_null(to, err);
        } else if (to->type == CTR_UTF8) {
            const struct ctr_str text = ctr_keyvalue_set_text(h->texts, word[2 + v]);
            rc = ctr_colbuf_str(to, text.p, text.n, err);
        } else {
            rc = ctr_colbuf_i64(to, (int64_t)word[2 + v], err);
        }
    }
    return rc;
}

/* Values that are no texts stand as their bits. */
static int behaviours_schema(struct section *s, const struct ctr_historystate *h, struct ctr_err *err)
{
    int rc = add_identity(s, err);
    if (!rc)
        rc = CTR_MIN(ctr_schema_add(&s->schema, "time", CTR_I64, err), 0);
    for (int v = 0; !rc && v < h->users->values; v++) {
        char name[32];
        ctr_format(name, sizeof name, "value.%d", v);
        rc = CTR_MIN(ctr_schema_add(&s->schema, name, h->type[v] == CTR_UTF8 ? CTR_UTF8 : CTR_U64, err), 0);
    }
    return rc;
}

static int save_behaviours(const struct ctr_historystate *h, struct ctr_out *out, struct ctr_err *err)
{
    struct section s = { 0 };
    struct user *user = NULL;
    int64_t n = 0;
    int rc = behaviours_schema(&s, h, err);
    if (!rc)
        rc = section_open(&s, out, "behaviours", err);
    if (!rc)
        rc = list_users(h, &user, &n, err);
    for (int64_t i = 0; !rc && i < n; i++)
        for (uint32_t k = ctr_behaviours_gone(h->users, user[i].past, h->last_ms); !rc && k < user[i].past->n; k++) {
            rc = put_identity(&s, user[i].key, user[i].text.p ? &user[i].text : NULL, false, err);
            if (!rc)
                rc = put_values(&s, h, ctr_behaviour(h->users, user[i].past, k), err);
            if (!rc)
                rc = section_row(&s, err);
        }
    free(user);
    return section_end(&s, rc, err);
}

/* Three numbers a value of a set. */
static int numbers_schema(struct section *s, const char *const name[3], struct ctr_err *err)
{
    static const enum ctr_type type[] = { CTR_I64, CTR_I64, CTR_I64 };
    const int rc = add_identity(s, err);
    return rc ? rc : add_columns(s, name, type, 3, err);
}

static const char *const set_columns[] = { "impressions", "known", "clicks" };
static const char *const session_columns[] = { "time", "number", "position" };

static int save_numbers(const struct ctr_keyvalue_set *x, const int64_t (*value)[3], const char *const name[3],
                        struct ctr_out *out, const char *section, struct ctr_err *err)
{
    struct section s = { 0 };
    uint64_t *key = NULL;
    int rc = numbers_schema(&s, name, err);
    if (!rc)
        rc = section_open(&s, out, section, err);
    if (!rc)
        rc = set_keys(x, &key, err);
    for (uint32_t i = 0; !rc && i < x->n; i++) {
        rc = put_value(&s, x, key, i, err);
        for (int k = 0; !rc && k < 3; k++)
            rc = ctr_colbuf_i64(&s.rows.col[3 + k], value[i][k], err);
        if (!rc)
            rc = section_row(&s, err);
    }
    free(key);
    return section_end(&s, rc, err);
}

/* Three numbers each, in the order of their columns. */
_Static_assert(sizeof(struct ctr_counter) == 3 * sizeof(int64_t), "a counter is three numbers");
_Static_assert(sizeof(struct ctr_session) == 3 * sizeof(int64_t), "a session is three numbers");

static int save_set(const struct ctr_historystate *h, int set, struct ctr_out *out, const char *section,
                    struct ctr_err *err)
{
    return save_numbers(&h->counts->key[set], (const int64_t(*)[3])(const void *)h->counts->counter[set].data,
                        set_columns, out, section, err);
}

static int pending_schema(struct section *s, int words, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < words; i++) {
        char name[32];
        ctr_format(name, sizeof name, "key.%d", i - 2);
        rc = CTR_MIN(ctr_schema_add(&s->schema, i == 0 ? "time" : i == 1 ? "click" : name, CTR_I64, err), 0);
    }
    return rc;
}

static int save_pending(const struct ctr_historystate *h, struct ctr_out *out, struct ctr_err *err)
{
    const struct ctr_feedback *f = h->counts;
    const int words = 2 + f->keys;
    struct section s = { 0 };
    int rc = pending_schema(&s, words, err);
    if (!rc)
        rc = section_open(&s, out, "pending", err);
    for (int64_t r = f->first; !rc && r < f->rows; r++) {
        const int64_t *row = (const int64_t *)(const void *)f->row.data + r * words;
        for (int i = 0; !rc && i < words; i++)
            rc = ctr_colbuf_i64(&s.rows.col[i], row[i], err);
        if (!rc)
            rc = section_row(&s, err);
    }
    return section_end(&s, rc, err);
}

static int save_sessions(const struct ctr_historystate *h, struct ctr_out *out, struct ctr_err *err)
{
    return save_numbers(&h->sessions->users, (const int64_t(*)[3])(const void *)h->sessions->last.data, session_columns,
                        out, "sessions", err);
}

/* Reading on changes nothing else that is saved. */
static int save_rest(const struct ctr_historystate *h, struct ctr_out *out, struct ctr_err *err)
{
    struct section s = { 0 };
    const struct ctr_batch *b;
    int rc = ctr_schema_copy(&s.schema, h->past, err);
    ctr_meta_free(&s.schema.meta);
    s.schema.meta = (struct ctr_meta){ 0 };
    if (!rc)
        rc = section_open(&s, out, "rest", err);
    while (!rc && (rc = h->next_rest(h->ctx, &b, err)) > 0)
        rc = ctr_writer_batch(s.w, b, err);
    return section_end(&s, rc, err);
}

int ctr_historystate_save(const struct ctr_historystate *h, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_buf names = { 0 };
    char name[32];
    int rc = ctr_buf_printf(&names, err, "state,behaviours");
    for (int i = 0; !rc && i < h->counts->keys; i++)
        rc = ctr_buf_printf(&names, err, ",count.%d", i);
    if (!rc)
        rc = ctr_buf_printf(&names, err, ",pending,sessions%s%c", h->past ? ",rest" : "", 0);
    if (!rc)
        rc = save_head(h, out, (const char *)names.data, err);
    ctr_buf_free(&names);
    if (!rc)
        rc = save_behaviours(h, out, err);
    for (int i = 0; !rc && i < h->counts->keys; i++) {
        ctr_format(name, sizeof name, "count.%d", i);
        rc = save_set(h, i, out, name, err);
    }
    if (!rc)
        rc = save_pending(h, out, err);
    if (!rc)
        rc = save_sessions(h, out, err);
    return rc || !h->past ? rc : save_rest(h, out, err);
}

/* ---- restoring ---- */

/* A count that can go on being counted up. */
static bool is_count(int64_t n)
{
    return n >= 0 && n < INT64_MAX / 2;
}

static int no_count(const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "row %lld has a number that is no count", (long long)(b->first_row + i + 1));
}

static int restore_head(struct ctr_historystate *h, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_feedback *f = h->counts;
    if (b->rows != 1)
        return ctr_fail(err, CTR_EDATA, "section state has %lld rows", (long long)b->rows);
    h->any = !ctr_col_missing(&b->col[0], 0);
    h->last_ms = h->any ? ctr_col_i64(&b->col[0], 0) : 0;
    h->learned = h->past && !ctr_col_missing(&b->col[5], 0);
    h->learned_ms = h->learned ? ctr_col_i64(&b->col[5], 0) : 0;
    f->all.known = ctr_col_i64(&b->col[1], 0);
    f->all.clicks = ctr_col_i64(&b->col[2], 0);
    f->first = 0;
    f->known = ctr_col_i64(&b->col[3], 0);
    f->shown = ctr_col_i64(&b->col[4], 0);
    return is_count(f->all.known) && is_count(f->all.clicks) ? 0 : no_count(b, 0, err);
}

static int restore_behaviours(struct ctr_historystate *h, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = ctr_behaviours_reserve(h->users, b->rows, err);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        struct ctr_keyvalue user;
        if ((rc = get_identity(b, i, h->user_text, &user, err)))
            break;
        struct ctr_past *past = ctr_behaviours_past(h->users, ctr_behaviours_user(h->users, &user, true, &rc, err));
        uint64_t *word = past ? ctr_behaviours_add(h->users, past, ctr_col_i64(&b->col[3], i), &rc, err) : NULL;
        for (int v = 0; !rc && v < h->users->values; v++) {
            const struct ctr_col *c = &b->col[4 + v];
            word[2 + v] = 0;
            if (ctr_col_missing(c, i)) {
                word[1] |= (uint64_t)1 << v;
                h->any_null = true;
            } else if (c->type == CTR_UTF8) {
                const struct ctr_keyvalue text = ctr_keyvalue_text(ctr_col_str(c, i));
                uint32_t number = 0;
                rc = ctr_keyvalue_set_add(h->texts, &text, &number, err);
                word[2 + v] = number;
            } else {
                word[2 + v] = (uint64_t)ctr_col_i64(c, i);
            }
        }
    }
    return rc;
}

static int restore_set(struct ctr_historystate *h, int set, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const struct ctr_counter c = { ctr_col_i64(&b->col[3], i), ctr_col_i64(&b->col[4], i),
                                       ctr_col_i64(&b->col[5], i) };
        if (!is_count(c.shown) || !is_count(c.known) || !is_count(c.clicks))
            return no_count(b, i, err);
        rc = get_value(&h->counts->key[set], b, i, h->key_text[set], err);
        if (!rc)
            rc = ctr_buf_append(&h->counts->counter[set], &c, sizeof c, err);
    }
    return rc;
}

static int restore_pending(struct ctr_historystate *h, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_feedback *f = h->counts;
    int rc = 0;
    for (int64_t r = 0; !rc && r < b->rows; r++, f->rows++)
        for (int i = 0; !rc && i < 2 + f->keys; i++) {
            const int64_t v = ctr_col_i64(&b->col[i], r);
            if (i == 1 && v != 0 && v != 1)
                return no_count(b, r, err);
            if (i >= 2 && (v < 0 || v >= (int64_t)f->key[i - 2].n))
                return ctr_fail(err, CTR_EDATA, "section pending: row %lld has a key that is not there",
                                (long long)(b->first_row + r + 1));
            rc = ctr_buf_append(&f->row, &v, sizeof v, err);
        }
    return rc;
}

static int restore_sessions(struct ctr_historystate *h, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const struct ctr_session s = { ctr_col_i64(&b->col[3], i), ctr_col_i64(&b->col[4], i),
                                       ctr_col_i64(&b->col[5], i) };
        if (!is_count(s.number) || !is_count(s.position))
            return no_count(b, i, err);
        rc = get_value(&h->sessions->users, b, i, h->user_text, err);
        if (!rc)
            rc = ctr_buf_append(&h->sessions->last, &s, sizeof s, err);
    }
    return rc;
}

enum kind { HEAD, BEHAVIOURS, SET, PENDING, SESSIONS, REST, OTHER };

static enum kind kind_of(const struct ctr_historystate *h, const char *section, int64_t *set)
{
    static const char *const name[] = { [HEAD] = "state",      [BEHAVIOURS] = "behaviours", [SET] = "",
                                        [PENDING] = "pending", [SESSIONS] = "sessions",     [REST] = "rest" };
    const bool is_set = !strncmp(section, "count.", 6) && ctr_parse_i64(section + 6, strlen(section + 6), set) &&
                        *set >= 0 && *set < h->counts->keys;
    enum kind kind = HEAD;
    while (kind < OTHER && (kind == SET ? !is_set : strcmp(section, name[kind]) != 0))
        kind++;
    return kind;
}

/* Has the section the columns that its kind is saved with? */
static int check_section(const struct ctr_historystate *h, enum kind kind, const char *section,
                         const struct ctr_schema *is, struct ctr_err *err)
{
    struct section s = { 0 };
    char why[300] = "its name is unknown";
    int rc = kind == HEAD              ? head_schema(&s, h, err)
             : kind == BEHAVIOURS      ? behaviours_schema(&s, h, err)
             : kind == SET             ? numbers_schema(&s, set_columns, err)
             : kind == PENDING         ? pending_schema(&s, 2 + h->counts->keys, err)
             : kind == SESSIONS        ? numbers_schema(&s, session_columns, err)
             : kind == REST && h->past ? ctr_schema_copy(&s.schema, h->past, err)
                                       : 0;
    if (!rc && (kind == OTHER || (kind == REST && !h->past) || !ctr_schema_same_types(is, &s.schema, why, sizeof why)))
        rc = ctr_fail(err, CTR_EDATA, "section %s is no part of a state: %s", section, why);
    ctr_schema_free(&s.schema);
    return rc;
}

static int no_nulls(const struct ctr_batch *b, const char *section, struct ctr_err *err)
{
    for (int i = 0; i < b->schema->n; i++)
        if (b->col[i].nulls || b->col[i].dict)
            return ctr_fail(err, CTR_EDATA, "section %s: %s has nulls", section, b->schema->f[i].name);
    return 0;
}

static int restore_section(struct ctr_historystate *h, struct ctr_reader *r, struct ctr_err *err)
{
    const char *name = ctr_meta_get(&ctr_reader_schema(r)->meta, CTR_META_SECTION), *section = name ? name : "";
    int64_t set = 0;
    const enum kind kind = kind_of(h, section, &set);
    const struct ctr_batch *b;
    int rc = check_section(h, kind, section, ctr_reader_schema(r), err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = kind == PENDING ? no_nulls(b, section, err) : 0;
        if (!rc)
            rc = kind == HEAD         ? restore_head(h, b, err)
                 : kind == BEHAVIOURS ? restore_behaviours(h, b, err)
                 : kind == SET        ? restore_set(h, (int)set, b, err)
                 : kind == PENDING    ? restore_pending(h, b, err)
                 : kind == REST       ? h->add_rest(h->ctx, b, err)
                                      : restore_sessions(h, b, err);
    }
    return rc;
}

static int check(const struct ctr_historystate *h, const struct ctr_schema *s, struct ctr_err *err)
{
    const char *is = ctr_meta_get(&s->meta, META_STATE);
    if (!is || strncmp(is, "ctr-history ", 12) != 0)
        return ctr_fail(err, CTR_EUSAGE, "is no state of ctr-history --state");
    if (strcmp(is, h->what) != 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "is the state of other options: %.400s there, %.400s here; a new file begins anew", is,
                        h->what);
    return 0;
}

int ctr_historystate_restore(struct ctr_historystate *h, const char *path, struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .sections = true };
    char *paths[] = { (char *)(uintptr_t)path };
    struct ctr_reader *r = NULL;
    int more = 1, rc = ctr_reader_open(&r, paths, 1, &ro, err);
    if (!rc)
        rc = check(h, ctr_reader_schema(r), err);
    while (!rc && more > 0) {
        rc = restore_section(h, r, err);
        if (!rc)
            rc = more = ctr_reader_section(r, err);
        rc = CTR_MIN(rc, 0);
    }
    ctr_reader_free(r);
    const struct ctr_feedback *f = h->counts;
    if (!rc && (f->known < 0 || f->shown < f->known || f->shown > f->rows))
        rc = ctr_fail(err, CTR_EDATA, "section pending is damaged");
    if (rc)
        ctr_err_file(err, path);
    return rc;
}
