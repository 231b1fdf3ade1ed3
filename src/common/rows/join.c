/* SPDX-License-Identifier: Apache-2.0
 *
 * join: options, schemas, and the output batch; jointable.c, joinmerge.c or joinspill.c find the matching right rows.
 * Invariant: left rows keep their order, and so do the right rows of each.
 *
 * A batch takes three steps, of which only the middle one knows rows. -k user --multi, left users "a b c a", right rows
 * a1 b1 a2:
 *
 *     match  look the keys up in the table                head = a1, b1, none, a1   (the first of each group)
 *     put    list the rows of the output, as two columns  lidx = 0 0 1 2 3 3        rows = a1 a2 b1 none a1 a2
 *     emit   left columns by lidx, right columns by rows, a column after the other
 *
 * So --inner, --anti and times change what `put` lists, threads share the loops of match and emit by rows, and a batch
 * that would be too large is cut between two entries of the list: (pos, sub) is where the next one goes on. Where every
 * left row is output once (`direct`), nothing is listed: right columns are read in the tile that was just matched,
 * which is the fast one beside the three steps. The plain version, a loop over the left rows with a dictionary, is
 * tests/relation-reference.py, which every method must equal.
 */
#include "common/rows/joincore.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- options ---- */

static int check_opts(const struct ctr_join_opts *o, struct ctr_err *err)
{
    const bool p = o->in_plan;
    if (o->how == CTR_JOIN_BY_ROW && (o->keys || o->multi || o->at || o->kind != CTR_JOIN_LEFT))
        return ctr_fail(err, CTR_EUSAGE, "%s joins row with row: it takes no keys, times, %s, %s or %s",
                        ctr_word(p, "--by-row"), ctr_word(p, "--inner"), ctr_word(p, "--anti"), ctr_word(p, "--multi"));
    if (o->how != CTR_JOIN_BY_ROW && !o->keys && !o->at)
        return ctr_fail(err, CTR_EUSAGE, "say what to join on: %s COLUMN, or %s", ctr_words(p, "-k", "on"),
                        ctr_word(p, "--by-row"));
    if (o->at && (o->multi || o->how == CTR_JOIN_MERGE))
        return ctr_fail(err, CTR_EUSAGE, "%s and %s find one row in memory: not with %s or %s", ctr_word(p, "--as-of"),
                        ctr_word(p, "--next"), ctr_word(p, "--multi"), ctr_word(p, "--merge"));
    if (o->inclusive && o->at != CTR_JOIN_AS_OF)
        return ctr_fail(err, CTR_EUSAGE, "%s goes with %s", ctr_word(p, "--inclusive"), ctr_word(p, "--as-of"));
    if (o->once && o->at != CTR_JOIN_NEXT)
        return ctr_fail(err, CTR_EUSAGE, "%s goes with %s", ctr_word(p, "--once"), ctr_word(p, "--next"));
    if (o->within_ms >= 0 && !o->at)
        return ctr_fail(err, CTR_EUSAGE, "%s goes with %s or %s", ctr_word(p, "--within"), ctr_word(p, "--next"),
                        ctr_word(p, "--as-of"));
    return 0;
}

static int find_time(struct ctr_join *j, const struct ctr_schema *right, int *rtime, struct ctr_err *err)
{
    struct ctr_keypair *p;
    int n, rc = ctr_keypairs_parse(j->opts.time, &j->left, right, j->right_name, j->opts.in_plan, &p, &n, err);

    if (rc)
        return rc;
    j->ltime = p[0].left;
    *rtime = p[0].right;
    if (n != 1)
        rc = ctr_fail(err, CTR_EUSAGE, "'%s' must be one time column, or LEFT=RIGHT", j->opts.time);
    else if (p[0].cls != CTR_KEY_TIME && p[0].cls != CTR_KEY_INT)
        rc = ctr_fail(err, CTR_EUSAGE, "%s must be a timestamp or an integer", j->left.f[j->ltime].name);
    free(p);
    return rc;
}

/* Left columns user, ad; right columns id, city, age. -k user=id --columns age --prefix u. gives
 *
 *     pair        user = id, as column 0 and column 0
 *     project     the right source is asked for id and age alone, which are its columns 0 and 1 from now on
 *     rcol        1: of the right columns, age is output
 *     out         user, ad, u.age
 *
 * So a right row is stored as (id, age). A right column loses a role that only one column may have, such as time, if a
 * left column has it. */

/* ---- schemas ---- */

static bool is_key(const struct ctr_keypair *p, int n, int right)
{
    for (int k = 0; k < n; k++)
        if (p[k].right == right)
            return true;
    return false;
}

/* The right columns to output: those named, else all except the keys, and except a time column named like the
 * left's. */
static int wanted(struct ctr_join *j, const struct ctr_schema *right, int rtime, bool *want, struct ctr_err *err)
{
    int *named = NULL, n = 0, rc = 0;

    if (j->opts.once)
        want[right->n - 1] = true; /* the number */
    if (j->opts.kind == CTR_JOIN_ANTI || j->once_kind == CTR_JOIN_ANTI)
        return 0;
    if (j->opts.columns && (rc = ctr_schema_columns(right, j->opts.columns, ',', &named, &n, err)))
        ctr_err_file(err, j->right_name);
    for (int i = 0; i < n; i++)
        want[named[i]] = true;
    free(named);
    for (int i = 0; !j->opts.columns && i < right->n; i++) {
        bool same_time = i == rtime && !j->opts.prefix && !strcmp(right->f[i].name, j->left.f[j->ltime].name);
        want[i] = !is_key(j->pair, j->npairs, i) && !same_time;
    }
    return rc;
}

/* Does a left column already have this role, which only one column may have? */
static bool role_taken(const struct ctr_join *j, int role)
{
    return role >= 0 && role != CTR_ROLE_FEATURE && role != CTR_ROLE_DENSE && role != CTR_ROLE_IMAGE &&
           ctr_schema_role(&j->left, (enum ctr_role)role) >= 0;
}

/* Add the prefix to a name of the right side. */
static int prefix_meta(const struct ctr_join *j, struct ctr_field *to, const char *key, const char *name,
                       struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc = ctr_buf_printf(&b, err, "%s%s", j->opts.prefix, name);
    if (!rc)
        rc = ctr_buf_append(&b, "", 1, err);
    if (!rc)
        rc = ctr_meta_set(&to->meta, key, (const char *)b.data, err);
    ctr_buf_free(&b);
    return rc;
}

/* A right history refers to its column under the new name; if that column is not output, to a left column. The group of
 * aligned lists gets the prefix of its columns. */
static int follow_history(const struct ctr_join *j, const struct ctr_schema *right, const bool *want,
                          struct ctr_field *to, struct ctr_err *err)
{
    const char *of = ctr_meta_get(&to->meta, CTR_META_HISTORY_OF), *group = ctr_meta_get(&to->meta, CTR_META_HISTORY);
    int column = of ? ctr_schema_find(right, of) : -1;
    int rc = group ? prefix_meta(j, to, CTR_META_HISTORY, group, err) : 0;
    return rc || column < 0 || !want[column] ? rc : prefix_meta(j, to, CTR_META_HISTORY_OF, of, err);
}

static int add_right(struct ctr_join *j, const struct ctr_schema *right, const bool *want, int column,
                     struct ctr_err *err)
{
    const struct ctr_field *f = &right->f[column];
    struct ctr_buf name = { 0 };
    int rc = ctr_buf_printf(&name, err, "%s%s", j->opts.prefix ? j->opts.prefix : "", f->name);

    if (!rc)
        rc = ctr_buf_append(&name, "", 1, err);
    if (!rc && ctr_schema_find(&j->out, (const char *)name.data) >= 0)
        rc = ctr_fail(err, CTR_EUSAGE, "both sides have a column %s: give those of %s a name of their own with %s",
                      (const char *)name.data, j->right_name,
                      ctr_words(j->opts.in_plan, "--prefix, or take fewer of them with --columns", "prefix \"NAME.\""));
    if (!rc)
        rc = ctr_schema_add_field(&j->out, f, (const char *)name.data, err);
    if (!rc) {
        struct ctr_field *to = &j->out.f[j->out.n - 1];
        to->dict = false;
        if (role_taken(j, ctr_field_role(f)))
            rc = ctr_meta_set(&to->meta, CTR_META_ROLE, NULL, err);
        if (!rc && j->opts.prefix)
            rc = follow_history(j, right, want, to, err);
    }
    ctr_buf_free(&name);
    return rc;
}

/* Project the right side to the needed columns; key and time columns then index the projected schema. */
static int project(struct ctr_join *j, const struct ctr_schema *right, int rtime, const bool *want, struct ctr_err *err)
{
    int *keep = calloc((size_t)right->n + 1, sizeof *keep), *at = calloc((size_t)right->n + 1, sizeof *at), n = 0, rc;

    rc = keep && at ? 0 : ctr_fail_nomem(err, (size_t)right->n * sizeof *keep);
    for (int i = 0; !rc && i < right->n; i++)
        if (want[i] || i == rtime || is_key(j->pair, j->npairs, i)) {
            at[i] = n;
            keep[n++] = i;
        }
    for (int i = 0; !rc && i < right->n; i++)
        if (want[i]) {
            j->rcol[j->nr++] = at[i];
            rc = add_right(j, right, want, i, err);
        }
    if (!rc) {
        j->rtime = rtime < 0 ? -1 : at[rtime];
        for (int k = 0; k < j->npairs; k++)
            j->right_key[k] = j->pair[k].right = at[j->pair[k].right];
        rc = ctr_batch_source_project(&j->from, keep, n, err);
    }
    free(keep);
    free(at);
    return rc ? rc : ctr_schema_copy(&j->right, ctr_batch_source_schema(&j->from), err);
}

static int make_schemas(struct ctr_join *j, const struct ctr_schema *left, struct ctr_err *err)
{
    const struct ctr_schema *right = ctr_batch_source_schema(&j->from);
    bool *want = calloc((size_t)right->n + 1, sizeof *want);
    int rtime = -1, rc = want ? ctr_schema_copy(&j->left, left, err) : ctr_fail_nomem(err, (size_t)right->n);

    if (!rc)
        rc = ctr_schema_copy(&j->out, left, err);
    if (!rc)
        rc = ctr_schema_copy(&j->left_plain, left, err);
    if (!rc && j->opts.keys)
        rc = ctr_keypairs_parse(j->opts.keys, left, right, j->right_name, j->opts.in_plan, &j->pair, &j->npairs, err);
    if (!rc && j->opts.at)
        rc = find_time(j, right, &rtime, err);
    j->left_key = calloc((size_t)j->npairs + 1, sizeof *j->left_key);
    j->right_key = calloc((size_t)j->npairs + 1, sizeof *j->right_key);
    j->rcol = calloc((size_t)right->n + 1, sizeof *j->rcol);
    if (!rc && (!j->left_key || !j->right_key || !j->rcol))
        rc = ctr_fail_nomem(err, (size_t)right->n * sizeof *j->rcol);
    for (int k = 0; !rc && k < j->npairs; k++)
        j->left_key[k] = j->pair[k].left;
    if (!rc)
        rc = wanted(j, right, rtime, want, err);
    if (!rc)
        rc = project(j, right, rtime, want, err);
    free(want);
    for (int i = 0; i < j->right.n; i++)
        j->right.f[i].dict = false; /* rows are stored decoded */
    for (int i = 0; i < j->left_plain.n; i++)
        j->left_plain.f[i].dict = false;
    return rc;
}

static int make_output(struct ctr_join *j, struct ctr_err *err)
{
    int rc = ctr_batchbuf_init(&j->lout, &j->left, err);

    j->rout = calloc((size_t)j->nr + 1, sizeof *j->rout);
    j->views = calloc((size_t)j->out.n + 1, sizeof *j->views);
    if (!rc && (!j->rout || !j->views))
        rc = ctr_fail_nomem(err, (size_t)j->out.n * sizeof *j->views);
    for (int i = 0; !rc && i < j->nr; i++)
        rc = ctr_colbuf_init(&j->rout[i], &j->right.f[j->rcol[i]], err);
    return rc;
}

/* ---- shares of a batch ---- */

static int make_shares(struct ctr_join *j, struct ctr_err *err)
{
    int rc = j->opts.threads > 1 && j->opts.how == CTR_JOIN_HASH
                 ? ctr_pool_new(&j->pool, j->opts.threads, CTR_FLOAT_IEEE, err)
                 : 0;

    if (rc)
        return rc;
    j->shares = j->pool ? ctr_pool_threads(j->pool) : 1;
    j->share = calloc((size_t)j->shares, sizeof *j->share);
    if (!j->share)
        return ctr_fail_nomem(err, (size_t)j->shares * sizeof *j->share);
    j->share[0].rout = j->rout;
    for (int k = 1; !rc && k < j->shares; k++) {
        struct ctr_colbuf *rout = j->share[k].rout = calloc((size_t)j->nr + 1, sizeof *rout);
        if (!rout)
            return ctr_fail_nomem(err, (size_t)j->nr * sizeof *rout);
        for (int i = 0; !rc && i < j->nr; i++)
            rc = ctr_colbuf_init(&rout[i], &j->right.f[j->rcol[i]], err);
    }
    return rc;
}

static void free_shares(struct ctr_join *j)
{
    for (int k = 0; j->share && k < j->shares; k++)
        ctr_buf_free(&j->share[k].seen);
    for (int k = 1; j->share && k < j->shares; k++) {
        for (int i = 0; j->share[k].rout && i < j->nr; i++)
            ctr_colbuf_free(&j->share[k].rout[i]);
        free(j->share[k].rout);
    }
    free(j->share);
    ctr_pool_free(j->pool);
}

/* Run `fn` over n rows, divided into shares of whole tiles. */
static void run_shares(struct ctr_join *j, int64_t n, void (*fn)(void *ctx, int64_t share, int worker))
{
    int64_t tiles = (n + CTR_ROW_TILE - 1) / CTR_ROW_TILE;

    for (int k = 0; k < j->shares; k++) {
        j->share[k].from = tiles * k / j->shares * CTR_ROW_TILE;
        j->share[k].to = CTR_MIN(tiles * (k + 1) / j->shares * CTR_ROW_TILE, n);
    }
    ctr_pool_run(j->pool, j->shares, fn, j);
}

/* ---- the first keys, and times, for a message ---- */

static int keep_first(struct ctr_join *j, const struct ctr_batch *b, bool right, struct ctr_err *err)
{
    const int *key = right ? j->right_key : j->left_key, time = right ? j->rtime : j->ltime;
    struct ctr_buf text = { 0 };
    char type[64], *const to = j->first[right];
    size_t n = 0;
    int rc = 0;

    for (int k = 0; !rc && k < j->npairs + (time >= 0) && b->rows && n + 1 < sizeof j->first[right]; k++) {
        const int at = k < j->npairs ? key[k] : time;
        const struct ctr_field *f = &b->schema->f[at];
        const bool null = ctr_col_missing(&b->col[at], 0);
        ctr_buf_clear(&text);
        if (null || (!(rc = ctr_buf_reserve(&text, 1, err)) && !(rc = ctr_col_text(&b->col[at], 0, &text, err))))
            n += (size_t)snprintf(to + n, sizeof j->first[right] - n, "%s%.40s (%.20s) %.*s", k ? ", " : "", f->name,
                                  ctr_field_type_name(f, type, sizeof type), null ? 4 : (int)CTR_MIN(text.len, 40u),
                                  null ? "null" : (const char *)text.data);
    }
    ctr_buf_free(&text);
    return rc;
}

const char *ctr_join_first(const struct ctr_join *j, bool right)
{
    return j->first[right];
}

/* ---- reading the right side into memory ---- */

static int take_right(struct ctr_join *j, const struct ctr_batch *b, struct ctr_err *err)
{
    int64_t idx[CTR_ROW_TILE], first = j->stats.right_rows;
    uint64_t tag[CTR_ROW_TILE];
    int rc;

    if (j->part)
        return ctr_joinpart_right(j, b, first, err);
    if ((rc = ctr_join_reserve(j, b->rows, err)) ||
        (rc = ctr_keys_hash(b, j->right_key, j->npairs, ctr_hash_secret, j->hash, j->null, err)))
        return rc;
    for (int64_t at = 0; !rc && at < b->rows; at += CTR_ROW_TILE) {
        int n = (int)CTR_MIN(b->rows - at, CTR_ROW_TILE);
        for (int i = 0; i < n; i++) {
            idx[i] = at + i;
            tag[i] = (uint64_t)(first + at + i);
        }
        rc = ctr_jointable_add(&j->table, b->col, j->hash, idx, n, tag, err);
    }
    if (!rc && ctr_jointable_bytes(&j->table, 0) > j->budget)
        rc = ctr_joinpart_new(j, err);
    return rc;
}

/* Where the sets of many threads would take much memory, matched rows are marked themselves, after each batch. */
static int make_seen(struct ctr_join *j, struct ctr_err *err)
{
    const int64_t bytes = (j->stats.right_rows + 7) / 8 + 1, behind = 8 * (bytes - 1);
    int rc = 0;

    if (j->shares * bytes > j->budget / 32)
        return 0;
    ctr_row_set_tag(j->format.none, (uint64_t)behind);
    for (int k = 0; !rc && k < j->shares; k++)
        if (!(rc = ctr_buf_room(&j->share[k].seen, bytes, 1, err))) {
            memset(j->share[k].seen.data, 0, (size_t)bytes);
            j->share[k].seen.len = (size_t)bytes;
        }
    return rc;
}

static int read_right(struct ctr_join *j, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc;

    ctr_jointable_init(&j->table, j);
    while ((rc = ctr_batch_source_next(&j->from, &b, err)) > 0) {
        if ((!*j->first[1] && (rc = keep_first(j, b, true, err))) || (rc = ctr_joinsuspects_keep(j, b, true, err)) ||
            (rc = take_right(j, b, err)))
            return rc;
        j->stats.right_rows += b->rows;
    }
    if (rc || j->part)
        return rc;
    rc = ctr_jointable_build(&j->table, j, err);
    return rc || j->table.grouped ? rc : make_seen(j, err);
}

enum { PART_BYTES = 64 << 20, LEAST_PART_BYTES = 1 << 20 };

int ctr_join_new(struct ctr_join **out, const struct ctr_schema *left, struct ctr_batch_source *right,
                 const char *right_name, const struct ctr_join_opts *o, struct ctr_err *err)
{
    struct ctr_join *j = calloc(1, sizeof *j);
    int rc = j ? check_opts(o, err) : ctr_fail_nomem(err, sizeof *j);

    *out = NULL;
    if (rc) {
        free(j);
        ctr_batch_source_close(right);
        return rc;
    }
    j->opts = *o;
    j->opts.multi |= o->kind == CTR_JOIN_ANTI && !o->at; /* only whether there is one matters */
    j->from = *right;
    right->ops = NULL;
    j->once_kind = o->once ? o->kind : CTR_JOIN_LEFT;
    j->opts.kind = o->once && o->kind == CTR_JOIN_ANTI ? CTR_JOIN_LEFT : o->kind;
    rc = o->once ? ctr_join_number(&j->from, err) : 0;
    j->ltime = j->rtime = -1;
    if (j->opts.batch_rows <= 0)
        j->opts.batch_rows = CTR_BATCH_ROWS;
    j->budget = CTR_MAX(ctr_relation_memory(o->memory_bytes) / 10 * 9, 64 << 10);
    j->part_bytes = CTR_MIN(CTR_MAX(ctr_relation_memory(o->memory_bytes) / 4, LEAST_PART_BYTES), PART_BYTES);
    snprintf(j->right_name, sizeof j->right_name, "%s", right_name);
    if (!rc)
        rc = make_schemas(j, left, err);
    if (!rc)
        rc = ctr_joinsuspects_new(j, err);
    if (!rc)
        rc = make_output(j, err);
    if (!rc)
        rc = ctr_rowformat_init(&j->format, &j->right, true, err);
    if (!rc)
        rc = make_shares(j, err);
    if (!rc)
        rc = o->how == CTR_JOIN_HASH ? read_right(j, err) : ctr_joinmerge_new(j, err);
    j->opts.keys = j->opts.time = j->opts.prefix = j->opts.columns = NULL;
    if (rc) {
        ctr_join_free(j);
        return rc;
    }
    *out = j;
    return 0;
}

void ctr_join_free(struct ctr_join *j)
{
    if (!j)
        return;
    ctr_joinpart_free(j->part);
    ctr_joinmerge_free(j->merge);
    ctr_joinsuspects_free(j->suspects, j->npairs);
    ctr_batch_source_close(&j->from);
    ctr_jointable_free(&j->table);
    ctr_rowformat_free(&j->format);
    free_shares(j);
    if (j->lout.schema)
        ctr_batchbuf_free(&j->lout);
    for (int i = 0; j->rout && i < j->nr; i++)
        ctr_colbuf_free(&j->rout[i]);
    free(j->rout);
    free(j->views);
    free(j->pair);
    free(j->left_key);
    free(j->right_key);
    free(j->rcol);
    free(j->hash);
    free(j->null);
    free(j->head);
    free(j->lidx);
    free(j->rows);
    ctr_schema_free(&j->left);
    ctr_schema_free(&j->left_plain);
    ctr_schema_free(&j->right);
    ctr_schema_free(&j->out);
    free(j);
}

const struct ctr_schema *ctr_join_schema(const struct ctr_join *j)
{
    return &j->out;
}

int64_t ctr_join_memory(const struct ctr_join *j)
{
    return j->opts.how != CTR_JOIN_HASH ? 0 : j->part ? j->budget : ctr_jointable_bytes(&j->table, 0);
}

void ctr_join_get_stats(const struct ctr_join *j, struct ctr_join_stats *st)
{
    *st = j->stats;
}

/* ---- one left batch ---- */

int ctr_join_reserve(struct ctr_join *j, int64_t rows, struct ctr_err *err)
{
    if (rows <= j->cap)
        return 0;
    free(j->hash);
    free(j->null);
    free(j->head);
    j->cap = 0;
    j->hash = malloc((size_t)rows * sizeof *j->hash);
    j->null = malloc((size_t)rows);
    j->head = malloc((size_t)rows * sizeof *j->head);
    if (!j->hash || !j->null || !j->head)
        return ctr_fail_nomem(err, (size_t)rows * sizeof *j->hash);
    j->cap = rows;
    return 0;
}

int ctr_join_out_reserve(struct ctr_join *j, int64_t rows, struct ctr_err *err)
{
    if (rows <= j->out_cap)
        return 0;
    free(j->lidx);
    free(j->rows);
    j->out_cap = 0;
    j->lidx = malloc((size_t)rows * sizeof *j->lidx);
    j->rows = malloc((size_t)rows * sizeof *j->rows);
    if (!j->lidx || !j->rows)
        return ctr_fail_nomem(err, (size_t)rows * sizeof *j->lidx);
    j->out_cap = rows;
    return 0;
}

/* Is a row output, given whether it has a match? */
static bool takes(const struct ctr_join *j, bool matched)
{
    return j->opts.kind != (matched ? CTR_JOIN_ANTI : CTR_JOIN_INNER);
}

/* Append the right columns of n <= CTR_ROW_TILE rows to those of a share: these rows stay in the cache from column to
 * column. */
static void read_rows(const struct ctr_join *j, struct ctr_joinshare *s, const uint8_t *const *rows, int64_t n)
{
    for (int i = 0; !s->rc && i < j->nr; i++)
        s->rc = ctr_row_read(&j->format, j->rcol[i], rows, n, &s->rout[i], &s->err);
}

/* For a time join, the row for each time. */
static void find_times(const struct ctr_join *j, int64_t from, int64_t to)
{
    const struct ctr_col *t = &j->b->col[j->ltime];

    for (int64_t i = from; i < to; i++)
        if (j->head[i])
            j->head[i] =
                ctr_col_missing(t, i) ? NULL : ctr_jointable_at(&j->table, &j->opts, j->head[i], ctr_col_i64(t, i));
}

/* Tags are the numbers of the right rows; `none` has a bit in the byte behind them. */
static void note_seen(const struct ctr_join *j, struct ctr_joinshare *s, const uint8_t *const *head, int n)
{
    const uint8_t *none = j->format.none;
    uint8_t *seen = s->seen.data;
    int64_t matched = 0;

    for (int i = 0; i < n; i++) {
        const uint64_t row = ctr_row_tag(head[i] ? head[i] : none);
        seen[row >> 3] |= (uint8_t)(1 << (row & 7));
        matched += head[i] != NULL;
    }
    s->matched += matched;
}

/* Find the matches of a share. While the rows of a tile are read, the memory brings those of the next tile and the
 * slots of the one behind it. */
static void match_share(void *ctx, int64_t share, int worker)
{
    enum { TILE = CTR_ROW_TILE / 4 };
    struct ctr_join *j = ctx;
    struct ctr_joinshare *s = &j->share[share];
    const struct ctr_jointable *t = &j->table;

    (void)worker;
    s->rc = 0;
    s->matched = 0;
    for (int64_t at = s->from - 2 * TILE, find, ask; at < s->to; at += TILE) {
        if ((ask = at + 2 * TILE) < s->to)
            ctr_jointable_ask(t, j->hash + ask, (int)CTR_MIN(s->to - ask, TILE));
        if ((find = at + TILE) >= s->from && find < s->to)
            ctr_jointable_find(t, j->hash + find, j->null + find, (int)CTR_MIN(s->to - find, TILE), j->head + find);
        if (at < s->from)
            continue;
        const int n = (int)CTR_MIN(s->to - at, TILE);
        ctr_jointable_verify(t, j->b, at, n, j->hash + at, j->head + at);
        if (j->ltime >= 0)
            find_times(j, at, at + n);
        if (s->seen.len)
            note_seen(j, s, j->head + at, n);
        if (j->direct)
            read_rows(j, s, j->head + at, n);
    }
}

static int64_t count_matched(const struct ctr_join *j)
{
    int64_t n = 0;

    if (j->skip)
        for (int64_t i = 0; i < j->b->rows; i++)
            n += j->head[i] != NULL;
    else if (j->share->seen.len)
        for (int k = 0; k < j->shares; k++)
            n += j->share[k].matched;
    else
        n = ctr_jointable_mark(j->head, j->b->rows);
    return n;
}

/* Right rows that no share has seen. */
static int64_t count_unseen(const struct ctr_join *j)
{
    int64_t n = j->stats.right_rows;

    for (int64_t i = 0; 8 * i < j->stats.right_rows; i++) {
        uint8_t seen = 0;
        for (int k = 0; k < j->shares; k++)
            seen |= j->share[k].seen.data[i];
        n -= __builtin_popcount(seen);
    }
    return n;
}

/* Find the matches of a batch in the table. */
int ctr_join_match(struct ctr_join *j, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = ctr_join_reserve(j, b->rows, err);

    if (!rc)
        rc = ctr_keys_hash(b, j->left_key, j->npairs, ctr_hash_secret, j->hash, j->null, err);
    if (rc)
        return rc;
    j->b = b;
    j->pos = j->sub = 0;
    j->direct = j->share->seen.len && takes(j, false) && (double)b->rows * j->table.widest <= (double)j->part_bytes;
    if (j->direct)
        ctr_join_clear_out(j);
    run_shares(j, b->rows, match_share);
    j->stats.matched += count_matched(j);
    j->stats.left_rows += b->rows;
    j->stats.unmatched = j->stats.left_rows - j->stats.matched;
    return 0;
}

/* Prefetch the right rows that are read next: the fixed part and the start of the variable part. The rows of a batch
 * exceed the cache. */
static void ask_rows(const struct ctr_join *j, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        if (j->rows[i]) {
            __builtin_prefetch(j->rows[i]);
            __builtin_prefetch(j->rows[i] + j->format.fixed_bytes);
        }
}

/* Read the right columns of a share of the output rows. */
static void read_share(void *ctx, int64_t share, int worker)
{
    struct ctr_join *j = ctx;
    struct ctr_joinshare *s = &j->share[share];

    (void)worker;
    s->rc = 0;
    for (int64_t at = s->from; at < s->to; at += CTR_ROW_TILE) {
        ask_rows(j, at + CTR_ROW_TILE, CTR_MIN(s->to, at + 2 * CTR_ROW_TILE));
        read_rows(j, s, j->rows + at, CTR_MIN(s->to - at, CTR_ROW_TILE));
    }
}

/* Join the right columns of the shares. */
static int take_right_columns(struct ctr_join *j, struct ctr_err *err)
{
    int rc = 0;

    for (int k = 0; k < j->shares; k++) {
        struct ctr_joinshare *s = &j->share[k];
        if (s->rc) {
            *err = s->err;
            return s->rc;
        }
        for (int i = 0; k && !rc && i < j->nr; i++)
            rc = ctr_colbuf_range(&j->rout[i], ctr_colbuf_view(&s->rout[i]), 0, s->to - s->from, err);
    }
    return rc;
}

void ctr_join_clear_out(struct ctr_join *j)
{
    ctr_batchbuf_clear(&j->lout);
    for (int k = 0; k < j->shares; k++)
        for (int i = 0; i < j->nr; i++)
            ctr_colbuf_clear(&j->share[k].rout[i]);
    j->n = 0;
}

/* Output the left rows lidx[0..n) of b, with the right columns in rout. If these are all rows of b in order, they are
 * borrowed. */
int ctr_join_emit(struct ctr_join *j, const struct ctr_batch *b, const struct ctr_batch **out, struct ctr_err *err)
{
    bool whole = j->n == b->rows;
    int rc = 0;

    for (int64_t i = 0; whole && !j->direct && i < j->n; i++)
        whole = j->lidx[i] == i;
    if (!whole)
        rc = ctr_batchbuf_gather(&j->lout, b, j->lidx, j->n, err);
    if (rc)
        return rc;
    for (int i = 0; i < j->left.n; i++)
        j->views[i] = whole ? b->col[i] : *ctr_colbuf_view(&j->lout.col[i]);
    for (int i = 0; i < j->nr; i++)
        j->views[j->left.n + i] = *ctr_colbuf_view(&j->rout[i]);
    j->batch = (struct ctr_batch){ .schema = &j->out, .rows = j->n, .first_row = j->stats.out_rows, .col = j->views };
    j->stats.out_rows += j->n;
    *out = &j->batch;
    return 1;
}

/* Output the rows of the batch from `pos` on, each once, with its match. */
static void put_rows(struct ctr_join *j)
{
    const bool matched = takes(j, true), unmatched = takes(j, false);
    const uint8_t *const *restrict head = j->head, **restrict rows = j->rows;
    int64_t *restrict lidx = j->lidx, n = 0;

    for (int64_t i = j->pos; i < j->b->rows; i++) {
        lidx[n] = i;
        rows[n] = head[i];
        n += (head[i] ? matched : unmatched) & !(j->skip && j->skip[i]);
    }
    j->n = n;
    j->pos = j->b->rows;
}

/* Output the rows from `pos` on with all their matches, while there is room. */
static void put_groups(struct ctr_join *j, int64_t room)
{
    for (; j->pos < j->b->rows && j->n < room; j->pos++, j->sub = 0) {
        const uint8_t *head = j->head[j->pos], *const *group = &head; /* NULL: one row, expanded later */
        int64_t n = 1;
        if ((j->skip && j->skip[j->pos]) || !takes(j, head))
            continue;
        if (head) {
            const int64_t *start = (const int64_t *)j->table.start.data + ctr_jointable_group(head);
            group = j->table.group_rows + start[0];
            n = start[1] - start[0];
            if (j->part && ctr_joingroup_of(j->part, head).bytes) {
                group = NULL;
                n = 1;
            }
        }
        for (; j->sub < n && j->n < room; j->n++) {
            j->lidx[j->n] = j->pos;
            j->rows[j->n] = group ? group[j->sub] : NULL;
            j->sub++;
        }
        if (j->sub < n)
            return;
    }
}

int64_t ctr_join_left_bytes(const struct ctr_join *j, int64_t from, int64_t n)
{
    int64_t bytes = 0;

    for (int i = 0; i < j->left.n; i++)
        bytes += j->left.f[i].dict ? 4 * n : ctr_col_bytes(&j->b->col[i], from, n);
    return bytes;
}

/* Long texts of one side that match many rows of the other exceed any memory: leave the output rows that exceed
 * part_bytes, if not the first, to the next batch. first_pos, first_sub: pos and sub before them. Left rows count only
 * with --multi, which repeats them. */
static void cut_output(struct ctr_join *j, int64_t first_pos, int64_t first_sub)
{
    int64_t bytes = 0, each = 0, n, sub = 0;
    double most = (double)j->n * j->table.widest;

    if (j->opts.multi && most <= (double)j->part_bytes) {
        int64_t runs = 0, longest = 0;
        for (int64_t i = 0; i < j->n; i++) {
            runs = i && j->lidx[i] == j->lidx[i - 1] ? runs + 1 : 1;
            longest = CTR_MAX(longest, runs);
        }
        if (j->n)
            most += (double)longest * (double)ctr_join_left_bytes(j, first_pos, j->lidx[j->n - 1] + 1 - first_pos);
    }
    if (most <= (double)j->part_bytes)
        return;
    for (n = 0; n < j->n; n++) {
        if (j->opts.multi && (!n || j->lidx[n] != j->lidx[n - 1]))
            each = ctr_join_left_bytes(j, j->lidx[n], 1);
        bytes += each + (j->rows[n] ? ctr_row_size(j->rows[n]) : 0);
        if (n && bytes > j->part_bytes)
            break;
    }
    if (n == j->n)
        return;
    j->pos = j->lidx[n];
    for (int64_t i = n; i-- > 0 && j->lidx[i] == j->pos;)
        sub++;
    j->sub = sub + (j->pos == first_pos ? first_sub : 0);
    j->n = n;
}

/* The output rows of the batch from `pos` on, or as many as fit. */
static int put(struct ctr_join *j, struct ctr_err *err)
{
    const int64_t pos = j->pos, sub = j->sub;
    int64_t room;
    int rc;

    ctr_join_clear_out(j);
    room = j->opts.multi ? CTR_MAX(j->opts.batch_rows, 256) : j->b->rows;
    if ((rc = ctr_join_out_reserve(j, room, err)))
        return rc;
    if (j->opts.multi)
        put_groups(j, room);
    else
        put_rows(j);
    cut_output(j, pos, sub);
    run_shares(j, j->n, read_share);
    return 0;
}

int ctr_join_table_next(struct ctr_join *j, const struct ctr_batch **out, struct ctr_err *err)
{
    int rc = 0;

    if (!j->b || j->pos == j->b->rows)
        return 0;
    if (j->direct)
        j->pos = j->n = j->b->rows;
    else
        rc = put(j, err);
    if (rc || !j->n)
        return rc;
    rc = take_right_columns(j, err);
    return rc ? rc : ctr_join_emit(j, j->b, out, err);
}

int ctr_join_batch(struct ctr_join *j, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = *j->first[0] ? 0 : keep_first(j, b, false, err);

    if (!rc)
        rc = ctr_joinsuspects_keep(j, b, false, err);
    if (rc)
        return rc;
    if (j->part)
        return ctr_joinpart_left(j, b, err);
    if (j->opts.how == CTR_JOIN_HASH)
        return ctr_join_match(j, b, err);
    j->b = b;
    j->pos = j->sub = 0;
    j->stats.left_rows += b->rows;
    return 0;
}

int ctr_join_next(struct ctr_join *j, const struct ctr_batch **out, struct ctr_err *err)
{
    if (j->part)
        return ctr_joinpart_next(j, out, err);
    if (j->opts.how == CTR_JOIN_HASH)
        return ctr_join_table_next(j, out, err);
    return j->opts.how == CTR_JOIN_MERGE ? ctr_joinmerge_next(j, out, err) : ctr_joinrow_next(j, out, err);
}

int ctr_join_finish(struct ctr_join *j, struct ctr_err *err)
{
    if (j->part)
        return ctr_joinpart_finish(j, err);
    j->b = NULL;
    if (j->opts.how == CTR_JOIN_HASH) {
        j->stats.right_unmatched = j->share->seen.len ? count_unseen(j) : ctr_jointable_unmatched(&j->table);
        return 0;
    }
    return j->opts.how == CTR_JOIN_MERGE ? ctr_joinmerge_finish(j, err) : ctr_joinrow_finish(j, err);
}
