/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-select: selects rows and columns of a stream, or sections of a bundle. select.h transforms rows; this file
 * directs them: to the output, to --rest, or through a spool if the total must be known first. */
#include "common/cli/cli.h"
#include "common/rows/spool.h"
#include "common/rows/select.h"

#include <stdlib.h>

static struct {
    const char *number, *where, *explode, *columns, *head, *tail, *rest, *section, *only;
    struct ctr_strs add, roles;
} o;

static const struct ctr_opt opts[] = {
    { "add-row", 0, CTR_OPT_STR, "NAME", "first add a column: the number of the row in the input, from 1", &o.number,
      CTR_OPT_ONCE },
    { "where", 0, CTR_OPT_STR, "EXPR", "keep only rows that satisfy the condition", &o.where, CTR_OPT_ONCE },
    { "add", 0, CTR_OPT_LIST, "NAME=EXPR", "add a column, or replace the one of this name", &o.add, 0 },
    { "explode", 0, CTR_OPT_STR, "COL,…", "write a row per item of a list; several lists are read in parallel",
      &o.explode, CTR_OPT_ONCE },
    { "columns", 'c', CTR_OPT_STR, "LIST",
      "columns to write, in order: names, globs, NEW=OLD, -DROP and decimals' NAME:TYPE", &o.columns, CTR_OPT_ONCE },
    { "role", 0, CTR_OPT_LIST, "NAME=ROLE", "give a column of the result a role, or none: NAME=", &o.roles, 0 },
    { "head", 0, CTR_OPT_STR, "N|P%", "keep the first N rows, or the first P percent", &o.head, 0 },
    { "tail", 0, CTR_OPT_STR, "N|P%", "keep the last N rows, or the last P percent", &o.tail, 0 },
    { "rest", 0, CTR_OPT_STR, "FILE", "write the rows that were not kept to FILE", &o.rest, CTR_OPT_PATH },
    { "section", 0, CTR_OPT_STR, "GLOB", "change only these sections of a bundle, and copy the others", &o.section, 0 },
    { "only", 0, CTR_OPT_STR, "NAME", "write only this section of a bundle, as a plain stream", &o.only, 0 },
    { 0 },
};

enum { TAIL_IN_MEMORY = 1 << 16 }; /* rows that --tail keeps in memory; more go through the spool */

struct spool;
struct job {
    struct ctr_cli *cli;
    struct ctr_reader *r;
    struct ctr_out *out, *rest_out;
    struct ctr_writer *w, *rest;
    struct ctr_select *s;
    struct ctr_cut head, tail;
    int64_t from, to;         /* of the rows that match --where, these go to the output */
    int64_t seen;             /* rows that have matched --where so far */
    struct ctr_batchbuf part; /* rows of a batch being written */
    int64_t *idx[2];          /* rows of a batch for the output and for the rest */
    int64_t idx_cap;
    struct spool *spool; /* while rows are spooled */
    int64_t empty;
    struct ctr_strs sections;    /* of the input */
    struct ctr_decimal *decimal; /* of --columns */
    int ndecimals;
};

/* Which rows are kept depends on how many there are, so that options decide how often rows are read:
 *
 *     --where X --head 10      pass: [from, to) is known, and reading stops after the tenth row, unless there is --rest
 *     --tail 10, --head 10%    of a file without --where the same, as a file tells its number of rows
 *     --tail 10                else tail_pass: the last rows stay in memory, in a window of 2 * 10 + 8,192
 *     --head 10%               else spool_pass: all rows, with a column MARK that says what --where took, go to a
 *                              temporary file; then their number is known, and the file is read
 *
 * emit() puts a row of those taken to the output if its number is in [from, to), and all others to --rest. */

/* ---- a batch to the output and the rest ---- */

static int write_part(struct job *j, struct ctr_writer *w, const struct ctr_batch *b, const int64_t *idx, int64_t n,
                      struct ctr_err *err)
{
    if (!n || n == b->rows)
        return n ? ctr_writer_batch(w, b, err) : 0;
    ctr_batchbuf_clear(&j->part);
    int rc = ctr_batchbuf_gather(&j->part, b, idx, n, err);
    return rc < 0 ? rc : ctr_writer_batch(w, ctr_batchbuf_view(&j->part), err);
}

static int grow_idx(struct job *j, int64_t rows, struct ctr_err *err)
{
    for (int k = 0; rows > j->idx_cap && k < 2; k++) {
        int64_t *p = realloc(j->idx[k], (size_t)rows * sizeof *p);
        if (!p)
            return ctr_fail_nomem(err, (size_t)rows * sizeof *p);
        j->idx[k] = p;
    }
    j->idx_cap = CTR_MAX(rows, j->idx_cap);
    return 0;
}

static int emit(struct job *j, const struct ctr_batch *b, const uint8_t *taken, struct ctr_err *err)
{
    int64_t n[2] = { 0 };
    int rc = grow_idx(j, b->rows, err);
    if (rc < 0)
        return rc;
    for (int64_t i = 0; i < b->rows; i++) {
        bool take = !taken || taken[i];
        int64_t at = j->seen;
        j->seen += take;
        take = take && at >= j->from && at < j->to;
        j->idx[!take][n[!take]++] = i;
    }
    rc = write_part(j, j->w, b, j->idx[0], n[0], err);
    return rc < 0 || !j->rest ? rc : write_part(j, j->rest, b, j->idx[1], n[1], err);
}

/* ---- one pass ---- */

typedef int sink(struct job *j, const struct ctr_batch *b, const uint8_t *taken, struct ctr_err *err);

/* Send the input through select into `to`, up to the end or to the last row that can matter. */
static int pass(struct job *j, sink *to, bool stops_early, struct ctr_err *err)
{
    const struct ctr_batch *in, *b;
    const uint8_t *taken;
    int rc;
    while ((rc = ctr_reader_next(j->r, &in, err)) > 0) {
        rc = ctr_select_batch(j->s, in, err);
        while (rc == 0 && (rc = ctr_select_next(j->s, &b, &taken, err)) > 0 && !(stops_early && j->seen >= j->to))
            if ((rc = to(j, b, taken, err)) < 0)
                return rc;
        if (rc < 0) {
            ctr_err_file(err, ctr_reader_file(j->r));
            return rc;
        }
        ctr_cli_progress(j->cli, ctr_reader_rows(j->r), -1);
        if (stops_early && j->seen >= j->to)
            return 0;
    }
    return rc;
}

/* ---- --tail of a few rows: the last ones stay in memory ---- */

struct window {
    struct ctr_batchbuf a, b; /* a grows; its last rows are moved to b, then both are swapped */
};

static int window_add(struct window *w, const struct ctr_batch *in, int64_t from, int64_t n, int64_t keep,
                      struct ctr_err *err)
{
    int rc = ctr_batchbuf_range(&w->a, in, from, n, err);
    int64_t rows = ctr_batchbuf_rows(&w->a);
    if (rc < 0 || rows < 2 * keep + 8192)
        return rc;
    ctr_batchbuf_clear(&w->b);
    rc = ctr_batchbuf_range(&w->b, ctr_batchbuf_view(&w->a), rows - keep, keep, err);
    struct ctr_batchbuf swap = w->a;
    w->a = w->b;
    w->b = swap;
    return rc;
}

static int tail_pass(struct job *j, struct ctr_err *err)
{
    struct window w = { 0 };
    const struct ctr_batch *in, *b;
    const uint8_t *taken;
    int64_t keep = j->tail.n, limit = j->head.given ? j->head.n : INT64_MAX;
    int rc = ctr_batchbuf_init(&w.a, ctr_select_schema(j->s), err);
    if (rc == 0)
        rc = ctr_batchbuf_init(&w.b, ctr_select_schema(j->s), err);
    while (rc == 0 && j->seen < limit && (rc = ctr_reader_next(j->r, &in, err)) > 0) {
        rc = ctr_select_batch(j->s, in, err);
        while (rc == 0 && j->seen < limit && (rc = ctr_select_next(j->s, &b, &taken, err)) > 0) {
            const int64_t n = CTR_MIN(b->rows, limit - j->seen), skip = CTR_MAX((int64_t)0, n - keep);
            rc = window_add(&w, b, skip, n - skip, keep, err);
            j->seen += n;
        }
        if (rc < 0)
            ctr_err_file(err, ctr_reader_file(j->r));
    }
    if (rc == 0) {
        int64_t rows = ctr_batchbuf_rows(&w.a);
        ctr_batchbuf_clear(&w.b);
        rc = ctr_batchbuf_range(&w.b, ctr_batchbuf_view(&w.a), CTR_MAX((int64_t)0, rows - keep), CTR_MIN(rows, keep),
                                err);
        if (rc == 0 && rows && keep)
            rc = ctr_writer_batch(j->w, ctr_batchbuf_view(&w.b), err);
    }
    ctr_batchbuf_free(&w.a);
    ctr_batchbuf_free(&w.b);
    return rc;
}

/* ---- two passes: through a temporary file, with a column that says what --where took ---- */

#define MARK "\x01taken"

struct spool {
    struct ctr_spool *file;
    struct ctr_schema schema; /* with the mark column */
    struct ctr_colbuf mark;
    struct ctr_col *col;
};

static int to_spool(struct job *j, const struct ctr_batch *b, const uint8_t *taken, struct ctr_err *err)
{
    struct spool *s = j->spool;
    int rc = 0;
    ctr_colbuf_clear(&s->mark);
    for (int64_t i = 0; rc == 0 && i < b->rows; i++) {
        bool take = !taken || taken[i];
        j->seen += take;
        rc = ctr_colbuf_i64(&s->mark, take, err);
    }
    if (rc < 0)
        return rc;
    memcpy(s->col, b->col, (size_t)b->schema->n * sizeof *s->col);
    s->col[b->schema->n] = *ctr_colbuf_view(&s->mark);
    struct ctr_batch with = { &s->schema, b->rows, b->first_row, s->col };
    return ctr_spool_batch(s->file, &with, err);
}

static int spool_open(struct job *j, struct spool *s, struct ctr_err *err)
{
    const struct ctr_field f = { .type = CTR_BOOL };
    int rc = ctr_schema_copy(&s->schema, ctr_select_schema(j->s), err);
    if (rc == 0)
        rc = ctr_schema_add(&s->schema, MARK, CTR_BOOL, err);
    if (rc >= 0 && !(s->col = calloc((size_t)s->schema.n, sizeof *s->col)))
        rc = ctr_fail_nomem(err, (size_t)s->schema.n * sizeof *s->col);
    if (rc >= 0)
        rc = ctr_colbuf_init(&s->mark, &f, err);
    return rc < 0 ? rc : ctr_spool_new(&s->file, &s->schema, err);
}

static void spool_free(struct spool *s)
{
    ctr_spool_free(s->file);
    ctr_schema_free(&s->schema);
    ctr_colbuf_free(&s->mark);
    free(s->col);
}

static int read_spool(struct job *j, struct ctr_spool *file, struct ctr_err *err)
{
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    uint8_t *taken = NULL;
    int64_t cap = 0;
    int rc = ctr_spool_reread(file, &r, err);
    while (rc == 0 && (rc = ctr_reader_next(r, &b, err)) > 0) {
        int last = b->schema->n - 1;
        struct ctr_batch without = { ctr_select_schema(j->s), b->rows, b->first_row, b->col };
        if (b->rows > cap) {
            free(taken);
            taken = malloc((size_t)b->rows);
            cap = b->rows;
        }
        rc = taken || !b->rows ? 0 : ctr_fail_nomem(err, (size_t)cap);
        for (int64_t i = 0; rc == 0 && i < b->rows; i++)
            taken[i] = ctr_bit(b->col[last].data, i);
        if (rc == 0)
            rc = emit(j, &without, taken, err);
    }
    free(taken);
    ctr_reader_free(r);
    return rc;
}

static int spool_pass(struct job *j, struct ctr_err *err)
{
    struct spool s = { 0 };
    j->spool = &s;
    int rc = spool_open(j, &s, err);
    if (rc == 0)
        rc = pass(j, to_spool, false, err);
    if (rc == 0) {
        ctr_cut_range(&j->head, &j->tail, j->seen, &j->from, &j->to);
        j->seen = 0;
        rc = read_spool(j, s.file, err);
    }
    spool_free(&s);
    return rc;
}

/* ---- one section, or the whole stream ---- */

/* Choose the pass by whether the number of rows is known, irrelevant, or must be counted. */
static int take_rows(struct job *j, struct ctr_err *err)
{
    bool counts = !j->head.percent && !j->tail.given;
    int64_t total = o.where || o.explode || o.section ? -1 : ctr_reader_total_rows(j->r);
    j->seen = 0;
    if (counts || total >= 0) {
        ctr_cut_range(&j->head, &j->tail, total >= 0 ? total : INT64_MAX, &j->from, &j->to);
        bool cut = j->head.given || j->tail.given;
        return pass(j, emit, cut && !j->rest && !o.section, err);
    }
    if (j->rest || j->head.percent || j->tail.percent || j->tail.n > TAIL_IN_MEMORY)
        return spool_pass(j, err);
    return tail_pass(j, err);
}

/* The first section of the rest lists its sections; the input's first section gives all names. */
static int open_rest(struct job *j, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct ctr_buf names = { 0 };
    bool first = ctr_out_tell(j->rest_out) == 0;
    int rc = ctr_schema_copy(&s, ctr_select_schema(j->s), err);
    for (int i = 0; rc >= 0 && first && i < j->sections.n; i++)
        if (ctr_glob(o.section, j->sections.s[i]))
            rc = ctr_buf_printf(&names, err, "%s%s", names.len ? "," : "", j->sections.s[i]);
    if (rc >= 0)
        rc = ctr_buf_append(&names, "", 1, err);
    if (rc == 0)
        rc = ctr_meta_set(&s.meta, CTR_META_SECTIONS, names.len > 1 ? (char *)names.data : NULL, err);
    if (rc == 0)
        rc = ctr_cli_writer(j->cli, j->rest_out, &s, &j->rest, err);
    ctr_buf_free(&names);
    ctr_schema_free(&s);
    return rc;
}

static int open_writers(struct job *j, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_select_schema(j->s);
    int rc = ctr_cli_writer(j->cli, j->out, s, &j->w, err);
    if (rc == 0 && j->rest_out)
        rc = open_rest(j, err);
    if (rc < 0)
        return rc;
    return ctr_batchbuf_init(&j->part, s, err);
}

static void close_section(struct job *j)
{
    j->cli->idle_writer = NULL;
    ctr_writer_free(j->w);
    ctr_writer_free(j->rest);
    ctr_batchbuf_free(&j->part);
    ctr_select_free(j->s);
    j->w = j->rest = NULL;
    j->s = NULL;
}

static int act(struct job *j, struct ctr_err *err)
{
    bool tail_only = j->tail.given && !j->tail.percent && j->tail.n <= TAIL_IN_MEMORY && !o.rest;
    struct ctr_select_spec spec = { .where = o.where,
                                    .add = &o.add,
                                    .explode = o.explode,
                                    .columns = o.columns,
                                    .roles = &o.roles,
                                    .mark = o.rest != NULL,
                                    .decode = tail_only,
                                    .number = o.number };
    int n, rc = ctr_select_new(&j->s, &spec, ctr_reader_schema(j->r), err);
    if (rc < 0)
        return rc;
    const int *inputs = ctr_select_inputs(j->s, &n);
    rc = ctr_reader_project(j->r, inputs, n, err);
    if (rc < 0)
        ctr_err_file(err, ctr_reader_file(j->r));
    if (rc == 0)
        rc = open_writers(j, err);
    if (rc == 0)
        rc = take_rows(j, err);
    if (rc == 0 && j->rest)
        rc = ctr_writer_finish(j->rest, err);
    j->empty += rc == 0 ? ctr_select_empty(j->s) : 0;
    return rc;
}

/* ---- bundles ---- */

static int copy_section(struct job *j, struct ctr_err *err)
{
    const struct ctr_batch *b;
    struct ctr_writer_opts w = { .batch_rows = j->cli->batch_rows };
    int rc = ctr_writer_open(&j->w, j->out, ctr_reader_schema(j->r), &w, err);
    while (rc == 0 && (rc = ctr_reader_next(j->r, &b, err)) > 0)
        rc = ctr_writer_batch(j->w, b, err);
    return rc;
}

static int run_sections(struct job *j, struct ctr_err *err)
{
    struct ctr_buf names = { 0 };
    const char *all = ctr_meta_get(&ctr_reader_schema(j->r)->meta, CTR_META_SECTIONS);
    bool any = false;
    int more = 1, rc = all ? ctr_strs_split(&j->sections, all, ',', err) : 0;
    while (rc == 0 && more > 0) {
        const char *name = ctr_meta_get(&ctr_reader_schema(j->r)->meta, CTR_META_SECTION);
        bool mine = ctr_glob(o.section, name ? name : "");
        any |= mine;
        rc = ctr_buf_printf(&names, err, "%s%s", names.len ? ", " : "", name ? name : "(none)");
        if (rc >= 0)
            rc = mine ? act(j, err) : copy_section(j, err);
        more = rc < 0 ? rc : ctr_reader_section(j->r, err);
        rc = CTR_MIN(more, rc);
        if (rc == 0)
            rc = ctr_writer_finish(j->w, err);
        close_section(j);
    }
    if (rc == 0 && !any)
        rc = ctr_fail(err, CTR_EUSAGE, "no section matches %.60s; there are %.*s", o.section, (int)names.len,
                      names.data);
    ctr_buf_free(&names);
    return rc;
}

/* ---- the tool ---- */

static int finish(struct job *j, struct ctr_err *err)
{
    int rc = j->rest_out ? ctr_out_commit(j->rest_out, err) : 0;
    if (rc == 0 && j->w) /* a plain stream gets its trailer after the rest is in place */
        rc = ctr_writer_finish(j->w, err);
    if (rc == 0)
        rc = ctr_out_commit(j->out, err);
    if (rc == 0 && j->empty)
        ctr_cli_note(j->cli, "--explode %s: %lld rows had no items and gave no row", o.explode, (long long)j->empty);
    for (int i = 0; rc == 0 && i < j->ndecimals; i++)
        if (j->decimal[i].rounded)
            ctr_cli_note(j->cli, "column %s: float64 rounded %lld of its decimals: --columns %s:utf8 keeps every digit",
                         j->decimal[i].name, (long long)j->decimal[i].rounded, j->decimal[i].name);
    return rc;
}

static int select_rows(struct ctr_cli *cli, struct ctr_err *err)
{
    struct job j = { .cli = cli };
    struct ctr_reader_opts ro = { .sections = o.section != NULL, .foreign = true, .only = o.only };
    int rc = 0;
    if (o.section && o.only)
        return ctr_cli_usage(err, "--only leaves out what --section passes through: give one of them");
    if (o.head)
        rc = ctr_cut_parse(&j.head, "--head", o.head, err);
    if (rc == 0 && o.tail)
        rc = ctr_cut_parse(&j.tail, "--tail", o.tail, err);
    if (rc == 0 && o.columns)
        rc = ctr_columns_decimals(o.columns, &j.decimal, &j.ndecimals, err);
    ro.decimal = j.decimal;
    ro.ndecimals = j.ndecimals;
    if (rc == 0)
        rc = ctr_cli_reader(cli, 0, &ro, &j.r, err);
    if (rc == 0)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &j.out, err);
    if (rc == 0 && o.rest)
        rc = ctr_cli_side_out(cli, o.rest, CTR_OUT_BINARY, &j.rest_out, err);
    if (rc == 0)
        rc = o.section ? run_sections(&j, err) : act(&j, err);
    if (rc == 0)
        rc = finish(&j, err);
    close_section(&j);
    ctr_out_free(j.rest_out);
    ctr_out_free(j.out);
    ctr_reader_free(j.r);
    for (int i = 0; i < j.ndecimals; i++)
        free(j.decimal[i].name);
    free(j.decimal);
    free(j.idx[0]);
    free(j.idx[1]);
    ctr_strs_free(&j.sections);
    ctr_strs_free(&o.add);
    ctr_strs_free(&o.roles);
    return rc;
}

const struct ctr_tool ctr_tool = {
    "ctr-select", "choose rows and columns of a stream, or make new ones",
    "[FILE…]",    NULL,
    opts,         CTR_TOOL_READS | CTR_TOOL_WRITES,
    select_rows,
};
