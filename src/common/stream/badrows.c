/* SPDX-License-Identifier: Apache-2.0
 *
 * badrows: a source of the rows that keep the rules; the others are counted, told, and written with two columns more to
 * a stream. A batch with bad rows is given as the runs of good rows between them, without a copy. */
#include "common/stream/badrows.h"

#include <stdarg.h>
#include <stdlib.h>

/* A batch of rows 0 to 5, of which 2 and 3 have no label, with --bad-rows quarantine=FILE:
 *
 *     find    ctr_rules_mark: found = 2 3, with their reasons
 *     next    give rows [0, 2), a view of the batch with first_row 0
 *     next    take row 2: count "label click null", set_aside with bad_row 3 and bad_reason; take row 3;
 *             give rows [4, 6), with first_row 2
 *     finish  the stream FILE is ended and renamed into place; "2 of 6 rows are bad and set aside in FILE: 2 label …"
 *
 * In the second pass over a training file (again) the same rows are left out, and nothing is counted or written. */

/* ---- what is known of the bad rows of an input ---- */

/* How many broke a rule in one way. */
struct reason {
    char *text; /* "label click null" */
    int64_t rows;
};

struct ctr_bad_rows {
    struct ctr_bad_rows_opts o;
    bool again, finished;
    int open;          /* sources; one over another sees the same rows */
    int64_t rows, bad; /* of the input */
    struct reason *reason;
    int reasons, cap;
    /* quarantine */
    struct ctr_out *out;
    struct ctr_schema schema; /* of the input, then bad_row and bad_reason */
    struct ctr_writer *w;     /* NULL until a source is opened */
    struct ctr_batchbuf added;
    struct ctr_schema added_schema;
};

static const char row_name[] = "bad_row", reason_name[] = "bad_reason";

static void CTR_PRINTF(2, 3) say(const struct ctr_bad_rows *bad, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    if (!bad->o.note)
        return;
    va_start(ap, fmt);
    ctr_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    bad->o.note(bad->o.ctx, text);
}

int ctr_bad_rows_new(struct ctr_bad_rows **out, const struct ctr_bad_rows_opts *o, struct ctr_err *err)
{
    struct ctr_bad_rows *bad = *out = calloc(1, sizeof *bad);
    if (!bad)
        return ctr_fail_nomem(err, sizeof *bad);
    bad->o = *o;
    int rc = o->policy.kind == CTR_BAD_QUARANTINE ? ctr_out_open(&bad->out, o->policy.file, CTR_OUT_BINARY, err) : 0;
    if (rc) {
        ctr_bad_rows_free(bad);
        *out = NULL;
    }
    return rc;
}

void ctr_bad_rows_free(struct ctr_bad_rows *bad)
{
    if (!bad)
        return;
    for (int i = 0; i < bad->reasons; i++)
        free(bad->reason[i].text);
    free(bad->reason);
    ctr_writer_free(bad->w);
    ctr_out_free(bad->out);
    ctr_batchbuf_free(&bad->added);
    ctr_schema_free(&bad->added_schema);
    ctr_schema_free(&bad->schema);
    free(bad);
}

void ctr_bad_rows_again(struct ctr_bad_rows *bad)
{
    bad->again = true;
}

const struct ctr_bad_policy *ctr_bad_rows_policy(const struct ctr_bad_rows *bad)
{
    return &bad->o.policy;
}

static int count(struct ctr_bad_rows *bad, const struct ctr_rule *r, enum ctr_fault fault, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    int i = 0, rc = ctr_buf_printf(&text, err, "%s %s %s", ctr_roles[r->role], r->name, ctr_faults[fault]);
    while (!rc && i < bad->reasons && strcmp(bad->reason[i].text, (const char *)text.data) != 0)
        i++;
    if (!rc && i == bad->reasons) {
        rc = ctr_array_grow(&bad->reason, i, &bad->cap, sizeof *bad->reason, err);
        if (!rc) {
            bad->reason[i] = (struct reason){ .rows = 0 };
            rc = ctr_strdup(&bad->reason[i].text, (const char *)text.data, err);
        }
        bad->reasons += !rc;
    }
    if (!rc)
        bad->reason[i].rows++;
    ctr_buf_free(&text);
    return rc;
}

/* ---- the quarantine ---- */

static bool is_added(const struct ctr_field *f)
{
    return !strcmp(f->name, row_name) || !strcmp(f->name, reason_name);
}

static int open_writer(struct ctr_bad_rows *bad, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = ctr_meta_copy(&bad->schema.meta, &s->meta, err);
    for (int i = 0; !rc && i < s->n; i++)
        if (!is_added(&s->f[i])) /* of rows that were set aside before */
            rc = CTR_MIN(ctr_schema_add_field(&bad->schema, &s->f[i], NULL, err), 0);
    const int own = bad->schema.n;
    if (!rc)
        rc = CTR_MIN(ctr_schema_add(&bad->schema, row_name, CTR_I64, err), 0);
    if (!rc)
        rc = CTR_MIN(ctr_schema_add(&bad->schema, reason_name, CTR_UTF8, err), 0);
    for (int i = own; !rc && i < bad->schema.n; i++)
        rc = CTR_MIN(ctr_schema_add_field(&bad->added_schema, &bad->schema.f[i], NULL, err), 0);
    if (!rc)
        rc = ctr_batchbuf_init(&bad->added, &bad->added_schema, err);
    if (!rc)
        rc = ctr_schema_provenance(&bad->schema, bad->o.program, "--bad-rows=quarantine", err);
    return rc ? rc : ctr_writer_open(&bad->w, bad->out, &bad->schema, NULL, err);
}

/* Write one row; `row` has it alone. */
static int set_aside(struct ctr_bad_rows *bad, const struct ctr_batch *row, int64_t number, const char *why,
                     struct ctr_err *err)
{
    struct ctr_col *col = calloc((size_t)bad->schema.n, sizeof *col);
    int n = 0, rc = col ? 0 : ctr_fail_nomem(err, (size_t)bad->schema.n * sizeof *col);
    ctr_batchbuf_clear(&bad->added);
    if (!rc)
        rc = ctr_colbuf_i64(&bad->added.col[0], number, err);
    if (!rc)
        rc = ctr_colbuf_str(&bad->added.col[1], why, strlen(why), err);
    for (int i = 0; !rc && i < row->schema->n; i++)
        if (!is_added(&row->schema->f[i]))
            col[n++] = row->col[i];
    if (!rc && n + 2 != bad->schema.n)
        rc =
            ctr_fail(err, CTR_EDATA,
                     "row %lld: %s; %s takes rows as the plan reads them, and this one is bad among its features: give "
                     "--bad-rows skip=MAX",
                     (long long)number, why, bad->o.policy.file);
    if (!rc) {
        memcpy(col + n, ctr_batchbuf_view(&bad->added)->col, 2 * sizeof *col);
        const struct ctr_batch b = { &bad->schema, 1, bad->bad, col };
        rc = ctr_writer_batch(bad->w, &b, err);
    }
    free(col);
    return rc;
}

int ctr_bad_rows_finish(struct ctr_bad_rows *bad, struct ctr_err *err)
{
    int rc = bad->w && !bad->finished ? ctr_writer_finish(bad->w, err) : 0;
    if (!rc && bad->w && !bad->finished)
        rc = ctr_out_commit(bad->out, err);
    const bool told = bad->finished || !bad->bad;
    bad->finished = true;
    if (rc || told)
        return rc;
    const bool kept = bad->o.policy.kind == CTR_BAD_QUARANTINE;
    struct ctr_buf text = { 0 };
    for (int i = 0; !rc && i < bad->reasons; i++)
        rc =
            ctr_buf_printf(&text, err, "%s%lld %s", i ? ", " : "", (long long)bad->reason[i].rows, bad->reason[i].text);
    if (!rc)
        say(bad, "%s%s%lld of %lld rows are bad and %s%s: %s", bad->o.input ? bad->o.input : "",
            bad->o.input ? ": " : "", (long long)bad->bad, (long long)bad->rows, kept ? "set aside in " : "left out",
            kept ? bad->o.policy.file : "", (const char *)text.data);
    ctr_buf_free(&text);
    return rc;
}

/* ---- the source ---- */

struct found {
    int64_t i; /* of the batch */
    const struct ctr_rule *rule;
    enum ctr_fault fault;
    size_t what, hint; /* offsets in texts */
};

struct sieve {
    struct ctr_batch_source below;
    struct ctr_bad_rows *bad;
    struct ctr_bad_look look;
    struct ctr_rule *rule;
    int n;
    bool again, upper;
    const struct ctr_batch *in; /* rows from `at` on are still to be given; NULL: none */
    int64_t at, given;
    struct found *found; /* the bad rows of `in`; those before `taken` are done with */
    int64_t nfound, taken, cap;
    struct ctr_buf broken, texts;
    struct ctr_part part, row;
    struct ctr_batch view;
};

static const char *sieve_name(const void *source)
{
    return ctr_batch_source_name(&((const struct sieve *)source)->below);
}

static void sieve_free(struct sieve *s)
{
    if (s->look.free)
        s->look.free(s->look.ctx);
    free(s->rule);
    free(s->found);
    ctr_buf_free(&s->broken);
    ctr_buf_free(&s->texts);
    ctr_part_free(&s->part);
    ctr_part_free(&s->row);
    free(s);
}

static void sieve_close(void *source)
{
    struct sieve *s = source;
    ctr_batch_source_close(&s->below);
    s->bad->open--;
    sieve_free(s);
}

static int add_found(struct sieve *s, const struct ctr_batch *b, int64_t i, int rule, int64_t before,
                     struct ctr_err *err)
{
    struct ctr_rule_text why;
    if (s->nfound == s->cap) {
        const int64_t cap = CTR_MAX(s->cap * 2, (int64_t)16);
        struct found *more = realloc(s->found, (size_t)cap * sizeof *more);
        if (!more)
            return ctr_fail_nomem(err, (size_t)cap * sizeof *more);
        s->found = more;
        s->cap = cap;
    }
    ctr_rule_why(&s->rule[rule], b, i, &why);
    struct found *f = &s->found[s->nfound];
    *f = (struct found){ before + i, &s->rule[rule], why.fault, s->texts.len, s->texts.len + strlen(why.what) + 1 };
    int rc = ctr_buf_append(&s->texts, why.what, strlen(why.what) + 1, err);
    if (!rc)
        rc = ctr_buf_append(&s->texts, why.hint, strlen(why.hint) + 1, err);
    s->nfound += !rc;
    return rc;
}

/* `before`: rows of the batch before those of b. */
static int mark(struct sieve *s, const struct ctr_batch *b, int64_t before, struct ctr_err *err)
{
    int rc = ctr_buf_room(&s->broken, b->rows, sizeof(uint16_t), err);
    uint16_t *broken = (uint16_t *)(void *)s->broken.data;
    if (rc || !b->rows || !ctr_rules_mark(s->rule, s->n, b, broken))
        return rc;
    for (int64_t i = 0; i < b->rows && !rc; i++)
        if (broken[i])
            rc = add_found(s, b, i, broken[i] - 1, before, err);
    return rc;
}

/* Find the bad rows of a new batch. */
static int find(struct sieve *s, const struct ctr_batch *in, struct ctr_err *err)
{
    const struct ctr_batch *b = in, *next = in;
    int64_t before = 0;
    s->nfound = s->taken = s->at = 0;
    s->texts.len = 0;
    int rc = 0;
    while (!rc && before < in->rows) {
        rc = s->look.look ? s->look.look(s->look.ctx, next, &b, err) : 1;
        next = NULL;
        if (rc <= 0)
            break;
        rc = mark(s, b, before, err);
        before += b->rows;
    }
    s->in = rc < 0 ? NULL : in;
    if (!s->again && !s->upper)
        s->bad->rows += in->rows;
    return rc;
}

enum { TOLD_ROWS = 3 };

static void tell_row(const struct sieve *s, int64_t row, const char *what)
{
    const long long n = s->bad->bad;
    if (n <= TOLD_ROWS)
        say(s->bad, "%s: row %lld: %s", sieve_name(s), (long long)row, what);
    else
        say(s->bad, "%s: row %lld: %s; %lld bad rows so far", sieve_name(s), (long long)row, what, n);
}

/* A bad row, whose turn it is. */
static int take(struct sieve *s, const struct found *f, struct ctr_err *err)
{
    struct ctr_bad_rows *bad = s->bad;
    const struct ctr_bad_policy *policy = &bad->o.policy;
    const char *what = (const char *)s->texts.data + f->what, *hint = (const char *)s->texts.data + f->hint;
    const int64_t row = s->in->first_row + f->i + 1;
    if (policy->kind == CTR_BAD_FAIL && bad->o.failing)
        bad->o.failing(bad->o.ctx);
    if (policy->kind == CTR_BAD_FAIL || (policy->kind == CTR_BAD_SKIP && !s->again && bad->bad == policy->most))
        ctr_err_file(err, sieve_name(s));
    if (policy->kind == CTR_BAD_FAIL)
        return ctr_fail(err, CTR_EDATA, "row %lld: %s%s%s; --bad-rows skip=MAX or quarantine=FILE leaves such rows out",
                        (long long)row, what, *hint ? "; " : "", hint);
    if (s->again)
        return 0;
    if (policy->kind == CTR_BAD_SKIP && bad->bad == policy->most)
        return ctr_bad_policy_exceeded(policy, "row", row, what, err);
    int rc = count(bad, f->rule, f->fault, err);
    if (!rc && policy->kind == CTR_BAD_QUARANTINE && !(rc = ctr_batch_part(&s->row, s->in, f->i, 1, err)))
        rc = set_aside(bad, &s->row.batch, row, what, err);
    bad->bad++;
    if (!rc && (bad->bad <= TOLD_ROWS || !(bad->bad & (bad->bad - 1)))) /* of more, ever fewer */
        tell_row(s, row, what);
    return rc;
}

/* The rows of the batch up to the next bad one; there is at least one. */
static int give(struct sieve *s, const struct ctr_batch **b, struct ctr_err *err)
{
    const int64_t end = s->taken < s->nfound ? s->found[s->taken].i : s->in->rows, n = end - s->at;
    int rc = 0;
    if (n == s->in->rows) {
        s->view = *s->in;
    } else {
        rc = ctr_batch_part(&s->part, s->in, s->at, n, err);
        s->view = s->part.batch;
        s->view.left = s->in->left; /* with them no row is left out (sieve_leave), so s->at is 0 */
    }
    s->view.first_row = s->given;
    *b = n == s->in->rows && s->given == s->in->first_row ? s->in : &s->view;
    s->given += n;
    s->at = end;
    return rc ? rc : 1;
}

static int sieve_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct sieve *s = source;
    const struct ctr_batch *in;
    for (int rc;;) {
        if (!s->in && ((rc = ctr_batch_source_next(&s->below, &in, err)) <= 0 || (rc = find(s, in, err)) < 0))
            return rc;
        if (s->taken < s->nfound && s->found[s->taken].i == s->at) {
            if ((rc = take(s, &s->found[s->taken], err)))
                return rc;
            s->taken++;
            s->at++;
        } else if (s->at < s->in->rows || !s->in->rows) {
            rc = give(s, b, err);
            s->in = s->in->rows ? s->in : NULL;
            return rc;
        }
        if (s->at == s->in->rows)
            s->in = NULL;
    }
}

/* How long hashes are valid is counted in batches, of which a sieve may drop whole ones. */
static int sieve_leave(void *source, const struct ctr_leave *l, const char **why, struct ctr_err *err)
{
    struct sieve *s = source;
    struct ctr_leave leave = *l;
    if (s->bad->o.policy.kind != CTR_BAD_FAIL)
        leave.unwanted = "bad rows are left out";
    return ctr_batch_source_leave(&s->below, &leave, why, err);
}

int ctr_bad_rows_source(struct ctr_batch_source *s, struct ctr_bad_rows *bad, const struct ctr_rule *rule, int n,
                        const struct ctr_bad_look *look, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { NULL, sieve_next, sieve_name, sieve_close, NULL, sieve_leave };
    struct sieve *made = calloc(1, sizeof *made);
    if (made)
        made->rule = calloc((size_t)n + 1, sizeof *made->rule);
    int rc = made && made->rule ? 0 : ctr_fail_nomem(err, sizeof *made);
    if (!rc && bad->out && !bad->w)
        rc = open_writer(bad, ctr_batch_source_schema(s), err);
    if (made && look)
        made->look = *look;
    if (rc) {
        if (made)
            sieve_free(made);
        else if (look)
            look->free(look->ctx);
        return rc;
    }
    memcpy(made->rule, rule, (size_t)n * sizeof *rule);
    made->n = n;
    made->bad = bad;
    made->again = bad->again;
    made->upper = bad->open++;
    made->below = *s;
    *s = (struct ctr_batch_source){ &ops, made };
    return 0;
}
