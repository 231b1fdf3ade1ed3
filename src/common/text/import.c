/* SPDX-License-Identifier: Apache-2.0
 *
 * import: turns blocks of lines into batches with a format, and applies the policy for bad rows. The pool runs the jobs
 * of a round; their batches, bad rows and errors are processed in input order, so threads change nothing.
 *
 * Three parties share the work, and a format sees only its part:
 *
 *     lines.c    files, unpacking, encoding   blocks of whole records, and the number of the first line
 *     format     open: the columns, of the first block; parse: a block to columns, the same function in every thread
 *     import.c   the round of blocks, bad rows, batches
 *
 * A format that meets a bad cell rewinds the columns to the row's start, calls ctr_job_bad with the reason, and goes on
 * with the next record: it knows no policy. With -j 2 and "1\n2\nx\n", "4\ny\n6\n" as blocks, the jobs give the rows
 * 1 2 with the bad line 3, and 4 6 with the bad line 5. Only then, in order, the policy is asked: skip=1 takes line 3,
 * and at line 5 the import ends behind the row 4, as one thread would. The plain parsers are tests/import_reference.py.
 */
#include "common/base/memory.h"
#include "common/text/textsample.h"
#include "common/text/text.h"

#include <stdio.h>
#include <stdlib.h>

struct ctr_import {
    struct ctr_text_opts o;
    struct ctr_lines *lines;
    struct ctr_schema schema;
    void *state;
    struct ctr_pool *pool;
    struct ctr_text_job *job;
    int jobs, round, next; /* jobs of the current round, and the next one to return */
    /* one job, and no lists: blocks are merged into batches, so that the writer need not copy rows for that */
    bool gather;
    int64_t given;            /* rows of the job already returned, which the next call drops */
    struct ctr_batchbuf rest; /* the rows after those, being moved to the front */
    struct ctr_col *head;     /* views of the returned rows */
    struct ctr_batch batch;
    struct ctr_text_block first;
    struct ctr_text_sample sample;         /* used if one of the first records is too long */
    bool have_first, sampled, ended, idle; /* sampled: `first` ends at CTR_SAMPLE_ROWS or where it cannot go on */
    struct ctr_err end_err;                /* the error that ended the input, reported after the jobs of the round */
    int end_rc;
    struct ctr_import_stats stats;
    /* bad rows */
    struct ctr_bad_policy policy;
    struct ctr_out *quarantine, *why;
    struct ctr_buf raw;
    struct ctr_text_losses *loss; /* one per column */
};

/* ---- what formats say about a bad row ---- */

int ctr_job_bad(struct ctr_text_job *j, const struct ctr_text_record *r, struct ctr_err *err, const char *fmt, ...)
{
    char why[512], reason[512];
    const char *remedy = j->bare ? strstr(fmt, "; %s") : NULL; /* an option: it ends the text */
    if (remedy) {
        snprintf(reason, sizeof reason, "%.*s", (int)(remedy - fmt), fmt);
        fmt = reason;
    }
    va_list ap;
    va_start(ap, fmt);
    ctr_vformat(why, sizeof why, fmt, ap);
    va_end(ap);
    if (j->stop) {
        j->whole = r->rows;
        j->bad_line = r->line;
        if (j->bare)
            return ctr_fail(err, CTR_EDATA, "%s", why);
        ctr_err_file(err, j->block.file);
        return ctr_fail(err, CTR_EDATA, "line %lld: %s", (long long)r->line, why);
    }
    int rc = ctr_array_grow(&j->bad, j->nbad, &j->bad_cap, sizeof *j->bad, err);
    if (rc)
        return rc;
    j->bad[j->nbad] = (struct ctr_bad_row){ *r, j->why.len };
    rc = ctr_buf_append(&j->why, why, strlen(why) + 1, err);
    if (!rc)
        j->nbad++;
    return rc;
}

void ctr_job_rewind(struct ctr_text_job *j, int64_t rows)
{
    for (int i = 0; i < j->out.schema->n; i++)
        ctr_colbuf_rewind(&j->out.col[i], rows);
    for (int i = 0; j->lossy && i < j->out.schema->n; i++)
        memset(j->loss[i].open, 0, sizeof j->loss[i].open);
    j->lossy = false;
}

void ctr_job_settle(struct ctr_text_job *j)
{
    for (int i = 0; j->lossy && i < j->out.schema->n; i++)
        for (int k = 0; k < CTR_NLOSSES; k++) {
            j->loss[i].n[k] += j->loss[i].open[k];
            j->loss[i].open[k] = 0;
        }
    j->lossy = false;
}

struct ctr_text_shown ctr_text_show(const char *p, size_t n)
{
    struct ctr_text_shown t;
    size_t shown = CTR_MIN(n, 40);
    while (shown < n && shown > 30 && ((unsigned char)p[shown] & 0xc0) == 0x80)
        shown--;
    const size_t at = CTR_MIN(ctr_quote_value(t.s, sizeof t.s, p, shown), sizeof t.s - 1);
    if (shown < n)
        snprintf(t.s + at - 1, sizeof t.s - at + 1, "…'");
    return t;
}

/* The type that would accept the value and those from which the column was inferred, for the remedy. */
static enum ctr_type fitting_type(const struct ctr_text_column *c, const char *p, size_t n)
{
    struct ctr_infer infer = { .seen = c->seen };
    ctr_infer_see(&infer, p, n);
    enum ctr_type t = ctr_infer_type(&infer);
    if (t == CTR_BOOL || !ctr_type_number(c->type.type))
        t = CTR_UTF8;
    return t;
}

/* Control characters that no text has: not those of white space, nor 1 to 3 and ESC, which separate cells or colour
 * them. */
static bool is_binary(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        if (c < ' ' && (!c || c > 3) && (c < 8 || c > 13) && c != 27)
            return true;
    }
    return false;
}

struct ctr_text_option ctr_text_recode(const struct ctr_text_opts *o, const char *p, size_t n)
{
    struct ctr_text_option t;
    if (is_binary(p, n))
        return (struct ctr_text_option){ "the line has control characters as binary data do: is it text?" };
    ctr_format(t.s, sizeof t.s, "%s may settle it", ctr_text_setting(o, "encoding", "latin1").s);
    return t;
}

static bool looks_null(const char *p, size_t n)
{
    static const char *const words[] = { "NA", "N/A", "n/a", "null", "NULL", "None", "\\N", "-", "?", "nan", "NaN" };
    for (size_t i = 0; i < CTR_COUNT(words); i++)
        if (strlen(words[i]) == n && !memcmp(words[i], p, n))
            return true;
    return !n; /* an empty cell, if --null names others */
}

void ctr_text_note(const struct ctr_text_opts *o, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    if (!o->note)
        return;
    va_start(ap, fmt);
    ctr_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    o->note(o->ctx, text);
}

/* Unambiguous time formats: a text in one of them needs no choice between day and month. */
static const char *time_form(const char *cell, size_t n)
{
    static const char *const forms[] = { "%Y-%m-%d %H:%M:%S UTC",
                                         "%Y-%m-%d %H:%M:%S GMT",
                                         "%d/%b/%Y:%H:%M:%S %z",
                                         "%d/%b/%Y:%H:%M:%S",
                                         "%d-%b-%Y %H:%M:%S",
                                         "%d %b %Y %H:%M:%S",
                                         "%b %d %Y %H:%M:%S",
                                         "%d %b %Y",
                                         "%b %d, %Y" };
    int64_t ms;
    for (size_t i = 0; i < CTR_COUNT(forms); i++)
        if (ctr_time_parse(forms[i], cell, n, &ms))
            return forms[i];
    return NULL;
}

static int bad_time(struct ctr_text_job *j, const struct ctr_text_record *r, const struct ctr_text_column *c,
                    struct ctr_str cell, const char *hint, struct ctr_err *err)
{
    const struct ctr_text_shown shown = ctr_text_show(cell.p, cell.n);
    const struct ctr_text_option bad = ctr_text_option(j->o, "bad-rows");
    const char *bad_rows = bad.s;
    const char *is = c->time_format ? c->time_format : "ISO 8601", *form = time_form(cell.p, cell.n);
    if (c->inferred)
        return ctr_job_bad(j, r, err, "column %s: %s is no time in the form ISO 8601%s%s; %s or %s settles it", c->name,
                           shown.s,
                           ctr_time_parse(NULL, cell.p, cell.n, &(int64_t){ 0 }) ? " that milliseconds hold" : "", hint,
                           ctr_text_setting(j->o, "columns", "%s:utf8", c->name).s, bad_rows);
    if (form)
        return ctr_job_bad(j, r, err, "column %s: %s is no time in the form %s%s; %s or %s settles it", c->name,
                           shown.s, is, hint, ctr_text_setting(j->o, "time", "%s:%s", c->name, form).s, bad_rows);
    return ctr_job_bad(
        j, r, err,
        "column %s: %s is no time in the form %s%s; %s (%%Y-%%m-%%d …, unix, unix_ms, unix_us) or %s settles it",
        c->name, shown.s, is, hint, ctr_text_setting(j->o, "time", "%s:FORMAT", c->name).s, bad_rows);
}

int ctr_job_bad_cell(struct ctr_text_job *j, const struct ctr_text_record *r, const struct ctr_text_column *c,
                     struct ctr_str cell, struct ctr_err *err)
{
    const struct ctr_text_shown shown = ctr_text_show(cell.p, cell.n);
    const char *text = shown.s;
    const char *hint = j->hint ? j->hint : "";
    char type[64];
    j->hint = NULL;
    ctr_field_type_name(&c->type, type, sizeof type);
    if (c->type.type == CTR_UTF8)
        return ctr_job_bad(j, r, err, "column %s: %s is not UTF-8; %s", c->name, text,
                           ctr_text_recode(j->o, r->p, r->n).s);
    if (looks_null(cell.p, cell.n))
        return ctr_job_bad(j, r, err, "column %s: %s is not %s; %s may settle it", c->name, text, type,
                           ctr_text_setting(j->o, "null", "%.*s", (int)CTR_MIN(cell.n, 40), cell.p).s);
    if (c->type.type == CTR_TIME)
        return bad_time(j, r, c, cell, hint, err);
    if (c->settled)
        return ctr_job_bad(j, r, err, "column %s: %s is not %s, as which the plan knows the column; %s settles it",
                           c->name, text, type, ctr_text_option(j->o, "bad-rows").s);
    const enum ctr_type fit = fitting_type(c, cell.p, cell.n);
    const char *keeps = "";
    if (c->inferred && !ctr_cell_inferable(c->type.type, cell.p, cell.n))
        keeps = ctr_cell_padded(cell.p, cell.n)       ? ", which keeps no zeros or plus in front"
                : ctr_cell_minus_zero(cell.p, cell.n) ? ", which has no -0"
                : c->type.type == CTR_F64             ? ", which does not hold this integer"
                                                      : ", as 0 and 1 are none of true and false";
    /* neither type accepts the other's extreme values, and the other values are unknown here */
    const bool either = c->typed && ((c->type.type == CTR_U64 && fit == CTR_I64) || fit == CTR_U64);
    /* large integers are those written with an exponent among integers */
    const bool rounds = c->typed && fit == CTR_F64 && (c->type.type == CTR_I64 || c->type.type == CTR_U64) &&
                        (memchr(cell.p, 'e', cell.n) || memchr(cell.p, 'E', cell.n));
    return ctr_job_bad(j, r, err, "column %s: %s is not %s%s%s; %s%s or %s settles it", c->name, text, type, keeps,
                       hint, ctr_text_setting(j->o, "columns", "%s:%s", c->name, ctr_types[fit].name).s,
                       either   ? " (utf8 where others do not fit that)"
                       : rounds ? " (utf8 where integers beyond 2^53 are not to be rounded)"
                                : "",
                       ctr_text_option(j->o, "bad-rows").s);
}

/* ---- the policy ---- */

static int parse_policy(struct ctr_import *im, struct ctr_err *err)
{
    int rc = ctr_bad_policy_parse(&im->policy, im->o.bad_rows, err);
    if (rc || im->policy.kind != CTR_BAD_QUARANTINE)
        return rc;
    struct ctr_buf why = { 0 };
    rc = ctr_buf_printf(&why, err, "%s.why", im->policy.file);
    if (!rc)
        rc = ctr_out_open(&im->quarantine, im->policy.file, 0, err);
    if (!rc)
        rc = ctr_out_open(&im->why, (char *)why.data, 0, err);
    ctr_buf_free(&why);
    return rc;
}

/* The raw bytes of the input: latin1 was converted to UTF-8, and is converted back. */
static int write_raw(struct ctr_import *im, const char *p, size_t n, struct ctr_err *err)
{
    if (!im->o.latin1)
        return ctr_out_write(im->quarantine, p, n, err);
    im->raw.len = 0;
    int rc = ctr_buf_reserve(&im->raw, n, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c >= 0x80)
            c = (unsigned char)(c << 6 | ((unsigned char)p[++i] & 0x3f));
        im->raw.data[im->raw.len++] = c;
    }
    return ctr_out_write(im->quarantine, im->raw.data, im->raw.len, err);
}

static void take_untaken(struct ctr_import_stats *s, const struct ctr_text_job *j)
{
    if (j->untaken && !s->untaken) {
        s->untaken_line = j->untaken_line;
        snprintf(s->untaken_file, sizeof s->untaken_file, "%s", j->block.file);
        s->untaken_key = j->untaken_key;
    }
    s->untaken += j->untaken;
}

/* Collect the losses of a job's columns and reset them. */
static void take_losses(struct ctr_import *im, struct ctr_text_job *j)
{
    for (int i = 0; i < im->schema.n; i++) {
        im->loss[i].present |= j->loss[i].present;
        im->loss[i].filled |= j->loss[i].filled;
    }
    for (int i = 0; i < im->schema.n; i++)
        for (int k = 0; k < CTR_NLOSSES; k++) {
            if (j->loss[i].n[k] && !im->loss[i].n[k])
                im->loss[i].first[k] = j->loss[i].first[k];
            im->loss[i].n[k] += j->loss[i].n[k];
            j->loss[i].n[k] = 0;
        }
}

static int take_row(struct ctr_import *im, const char *file, const struct ctr_text_record *r, const char *why,
                    struct ctr_err *err)
{
    im->stats.bad++;
    if (im->policy.kind == CTR_BAD_SKIP && im->stats.bad > im->policy.most) {
        ctr_err_file(err, file);
        return ctr_bad_policy_exceeded(&im->policy, "line", r->line, why, err);
    }
    if (im->policy.kind != CTR_BAD_QUARANTINE)
        return 0;
    char name[1024];
    ctr_quote(name, sizeof name, file, strlen(file)); /* keep it one line */
    int rc = write_raw(im, r->p, r->n, err);
    return rc ? rc : ctr_out_printf(im->why, err, "%s\t%lld\t%s\n", name, (long long)r->line, why);
}

/* Handle part of a record that is too long. A header is needed under every policy. */
static int take_long(struct ctr_import *im, const struct ctr_text_block *b, struct ctr_err *err)
{
    if (b->part == CTR_TEXT_LONG_REST)
        return im->policy.kind == CTR_BAD_QUARANTINE ? write_raw(im, b->p, b->n, err) : 0;
    const bool header = im->o.header && b->file_start;
    const struct ctr_text_record r = { b->p, b->n, b->first_line, 0 };
    if (im->policy.kind != CTR_BAD_FAIL && !header)
        return take_row(im, b->file, &r, "longer than 16 MiB, the most that a line may have", err);
    ctr_err_file(err, b->file);
    return ctr_fail(err, CTR_EDATA, "line %lld: longer than 16 MiB, the most that a line may have%s%s%s",
                    (long long)b->first_line, header ? "" : "; ", header ? "" : ctr_text_option(&im->o, "bad-rows").s,
                    header ? "" : " settles it");
}

/* If a bad row is an error, the rows before it remain. */
static int take_bad(struct ctr_import *im, struct ctr_text_job *j, struct ctr_err *err)
{
    if (j->block.part != CTR_TEXT_WHOLE)
        return take_long(im, &j->block, err);
    take_untaken(&im->stats, j);
    take_losses(im, j);
    int rc = 0;
    for (int i = 0; !rc && i < j->nbad; i++) {
        const struct ctr_text_record *r = &j->bad[i].record;
        rc = take_row(im, j->block.file, r, (const char *)j->why.data + j->bad[i].why, err);
        if (rc)
            ctr_job_rewind(j, r->rows);
    }
    return rc;
}

/* ---- opening ---- */

static int check_options(const struct ctr_text_opts *o, struct ctr_err *err)
{
    const struct {
        bool given;
        unsigned flag;
        const char *name;
    } options[] = {
        { o->header, CTR_TEXT_HEADER, "header" },
        { o->delimiter, CTR_TEXT_DELIMITER, "delimiter" },
        { o->escape, CTR_TEXT_DIALECT, "escape" },
        { o->comment, CTR_TEXT_DIALECT, "comment" },
        { o->trim, CTR_TEXT_DIALECT, "trim" },
        { o->decimal, CTR_TEXT_DIALECT, "decimal" },
        { o->thousands, CTR_TEXT_DIALECT, "thousands" },
        { o->nulls && o->nulls->n, CTR_TEXT_NULL, "null" },
        { o->columns, CTR_TEXT_COLUMNS, "columns" },
        { o->like, CTR_TEXT_COLUMNS, "like" },
        { o->only, CTR_TEXT_FOR, "for" },
        { o->keys, CTR_TEXT_KEYS, "keys" },
        { o->binary, CTR_TEXT_KEYS, "binary" },
    };
    for (size_t i = 0; i < CTR_COUNT(options); i++)
        if (options[i].given && !(o->format->honours & options[i].flag))
            return ctr_fail(err, CTR_EUSAGE, "%s takes no %s", ctr_text_setting(o, "format", "%s", o->format->name).s,
                            ctr_text_option(o, options[i].name).s);
    if (o->like && o->only)
        return ctr_fail(err, CTR_EUSAGE, "--like and --for both choose the columns: give one of them");
    return 0;
}

/* Are all types known before the first line? Then no sample is needed. */
static int types_known(const struct ctr_text_opts *o, bool *known, struct ctr_err *err)
{
    struct ctr_text_columns l = { 0 };
    int rc = 0;
    *known = o->like != NULL;
    if (!o->like && o->columns && !o->header && !(rc = ctr_text_columns_parse(&l, o, err))) {
        *known = l.n > 0;
        for (int i = 0; i < l.n; i++)
            *known &= l.c[i].typed;
    }
    ctr_text_columns_free(&l);
    return rc;
}

static int open_jobs(struct ctr_import *im, struct ctr_err *err)
{
    im->job = calloc((size_t)im->jobs, sizeof *im->job);
    if (!im->job)
        return ctr_fail_nomem(err, (size_t)im->jobs * sizeof *im->job);
    const size_t columns = (size_t)im->schema.n + 1;
    im->loss = calloc(columns, sizeof *im->loss);
    im->stats.loss = im->loss;
    if (!im->loss)
        return ctr_fail_nomem(err, columns * sizeof *im->loss);
    for (int i = 0; i < im->jobs; i++) {
        int rc = ctr_batchbuf_init(&im->job[i].out, &im->schema, err);
        if (rc)
            return rc;
        if (!(im->job[i].loss = calloc(columns, sizeof *im->loss)))
            return ctr_fail_nomem(err, columns * sizeof *im->loss);
        im->job[i].o = &im->o;
        im->job[i].stop = im->policy.kind == CTR_BAD_FAIL;
    }
    if (im->jobs > 1)
        return ctr_pool_new(&im->pool, im->jobs, CTR_FLOAT_IEEE, err);
    if (im->o.batch_rows < 0)
        im->o.batch_rows = ctr_schema_batch_rows(&im->schema);
    im->gather = im->o.batch_rows > 0;
    for (int i = 0; i < im->schema.n; i++)
        im->gather &= !ctr_type_list(im->schema.f[i].type);
    if (!im->gather)
        return 0;
    im->head = calloc((size_t)im->schema.n + 1, sizeof *im->head);
    return im->head ? ctr_batchbuf_init(&im->rest, &im->schema, err)
                    : ctr_fail_nomem(err, (size_t)im->schema.n * sizeof *im->head);
}

/* A first line "sep=X" set the delimiter. */
static int take_sep(struct ctr_import *im, struct ctr_err *err)
{
    const char *sep = ctr_lines_sep(im->lines);
    if (!*sep || im->o.delimiter == sep)
        return 0;
    if (im->o.delimiter && strcmp(im->o.delimiter, sep) != 0) {
        ctr_err_file(err, im->first.file);
        return ctr_fail(err, CTR_EUSAGE, "its first line says sep=%s, and not %s", sep,
                        ctr_text_setting(&im->o, "delimiter", "%s", im->o.delimiter).s);
    }
    im->o.delimiter = sep;
    ctr_text_note(&im->o, "%s: its first line, sep=%s, names the delimiter and is no row", im->first.file, sep);
    return 0;
}

/* The first complete records, from which the format determines the columns. */
static int first_block(struct ctr_import *im, const char *file, struct ctr_err *err)
{
    int rc;
    while ((rc = ctr_lines_next(im->lines, &im->first, err)) > 0 && im->first.part != CTR_TEXT_WHOLE) {
        rc = take_long(im, &im->first, err);
        if (rc)
            return rc;
    }
    im->have_first = rc > 0;
    im->ended = rc == 0;
    if (!im->have_first)
        im->first = (struct ctr_text_block){ .p = "", .file = file };
    return rc < 0 ? rc : take_sep(im, err);
}

/* Input paused before the sample was complete: does what has arrived (a header) determine all types? If not, wait for
 * the sample. Errors in the options are reported then. */
static int settle_sample(struct ctr_import *im, const char *file, struct ctr_err *err)
{
    const struct ctr_text_format *f = im->o.format;
    struct ctr_text_opts quiet = im->o;
    struct ctr_schema schema = { 0 };
    struct ctr_err none = { 0 };
    void *state = NULL;
    quiet.note = NULL;
    bool known = !f->open(&state, &quiet, &im->first, &schema, &none) && f->known(state);
    if (state)
        f->close(state);
    ctr_schema_free(&schema);
    if (known)
        return 0;
    ctr_lines_sample(im->lines, &im->first);
    return first_block(im, file, err);
}

/* A record after the first block is too long and is skipped: the records after it also belong to the sample. */
static int pass_long(struct ctr_import *im, struct ctr_err *err)
{
    if (!im->have_first || !im->first.more || ctr_count_byte(im->first.p, im->first.n, '\n') >= CTR_SAMPLE_ROWS)
        return 0;
    int rc = ctr_text_sample_gather(&im->sample, im->lines, &im->first, im->policy.kind == CTR_BAD_QUARANTINE, err);
    im->have_first = false;
    return rc;
}

static int open_import(struct ctr_import *im, char *const *paths, int n, struct ctr_err *err)
{
    const struct ctr_text_format *f = im->o.format;
    struct ctr_lines_opts lo = {
        .latin1 = im->o.latin1, .in_plan = im->o.in_plan, .idle_ms = im->o.idle_ms, .block_bytes = im->o.block_bytes
    };
    const char *delimiter = im->o.delimiter ? im->o.delimiter : f->delimiter, *header = NULL;
    const char *file = n ? paths[0] : "stdin";
    size_t header_n = 0;
    int rc;
    lo.no_empty = im->o.no_empty;
    lo.early = im->o.header && f->known;
    lo.delimiter = f->quoted && strlen(delimiter) == 1 ? delimiter : NULL;
    lo.sep = f->quoted;
    lo.skip_lines = im->o.skip_lines;
    lo.comment = im->o.comment;
    lo.trim = im->o.trim;
    lo.escape = im->o.escape ? *im->o.escape : 0;
    if ((rc = check_options(&im->o, err)) || (rc = parse_policy(im, err)) ||
        (rc = types_known(&im->o, &lo.no_sample, err)) || (rc = ctr_lines_open(&im->lines, paths, n, &lo, err)) ||
        (rc = ctr_lines_slots(im->lines, im->jobs, err)) || (rc = first_block(im, file, err)) ||
        (lo.early && !lo.no_sample && im->first.idle && (rc = settle_sample(im, file, err))) ||
        (im->policy.kind != CTR_BAD_FAIL && !lo.no_sample && (rc = pass_long(im, err))) ||
        (rc = f->open(&im->state, &im->o, &im->first, &im->schema, err)) || (rc = open_jobs(im, err)))
        return rc;
    im->sampled = !lo.no_sample;
    if (im->quarantine && f->header && (header = f->header(im->state, &header_n)))
        rc = write_raw(im, header, header_n, err);
    im->idle = im->first.idle;
    return rc;
}

int ctr_import_open(struct ctr_import **out, const struct ctr_text_opts *o, char *const *paths, int n,
                    struct ctr_err *err)
{
    struct ctr_import *im = calloc(1, sizeof *im);
    *out = NULL;
    if (!im)
        return ctr_fail_nomem(err, sizeof *im);
    im->o = *o;
    im->jobs = CTR_MAX(o->jobs, 1);
    int rc = open_import(im, paths, n, err);
    if (rc) {
        ctr_import_free(im);
        return rc;
    }
    *out = im;
    return 0;
}

const struct ctr_text_opts *ctr_import_opts(const struct ctr_import *im)
{
    return &im->o;
}

const struct ctr_schema *ctr_import_schema(const struct ctr_import *im)
{
    return &im->schema;
}

bool ctr_import_idle(const struct ctr_import *im)
{
    return im->idle;
}

/* ---- running ---- */

static void run_job(void *ctx, int64_t task, int worker)
{
    struct ctr_import *im = ctx;
    struct ctr_text_job *j = &im->job[task];
    (void)worker;
    if (!im->gather)
        ctr_batchbuf_clear(&j->out);
    j->nbad = 0;
    j->untaken = 0;
    j->comments = 0;
    j->why.len = 0;
    j->err = (struct ctr_err){ 0 };
    j->lossy = false;
    j->whole = ctr_batchbuf_rows(&j->out);
    j->rc = j->block.part == CTR_TEXT_WHOLE && j->block.n ? im->o.format->parse(im->state, j, &j->err) : 0;
    if (j->rc)
        ctr_job_rewind(j, j->whole);
}

/* Read a block per job, and parse them. A read error is reported after the rows before it were returned. */
static void run_round(struct ctr_import *im)
{
    im->round = im->next = 0;
    while (!im->ended && im->round < im->jobs) {
        struct ctr_text_block *b = &im->job[im->round].block;
        int rc = 1;
        if (im->sample.next < im->sample.n)
            *b = im->sample.piece[im->sample.next++];
        else if (im->have_first)
            *b = im->first;
        else
            rc = ctr_lines_next(im->lines, b, &im->end_err);
        im->have_first = false;
        im->ended = rc <= 0;
        im->end_rc = CTR_MIN(rc, 0);
        im->round += rc > 0;
        if (rc > 0 && b->idle)
            break;
    }
    if (im->round > 1)
        ctr_pool_run(im->pool, im->round, run_job, im);
    else if (im->round)
        run_job(im, 0, 0);
}

int ctr_import_check(struct ctr_import *im, struct ctr_err *err)
{
    struct ctr_text_job *j = im->job;
    const int64_t records = im->have_first ? ctr_count_byte(im->first.p, im->first.n, '\n') : 0;
    if (im->policy.kind != CTR_BAD_FAIL || !im->have_first)
        return 0;
    j->block = im->first;
    run_job(im, 0, 0);
    if (j->rc)
        *err = j->err;
    int rc = j->rc ? j->rc : take_bad(im, j, err);
    ctr_batchbuf_clear(&j->out);
    memset(im->loss, 0, ((size_t)im->schema.n + 1) * sizeof *im->loss);
    im->stats.untaken = 0;
    if (rc || !im->sampled || !im->first.more || im->first.idle || records >= CTR_SAMPLE_ROWS ||
        im->first.n >= CTR_RECORD_BYTES)
        return rc;
    struct ctr_text_block rest; /* what ended the sample early: a line that is too long, or data that cannot be read */
    rc = ctr_lines_next(im->lines, &rest, err);
    return rc > 0 && rest.part != CTR_TEXT_WHOLE ? take_long(im, &rest, err) : CTR_MIN(rc, 0);
}

/* Apply the policy to a job. If it fails, its rows before the error are the last ones. */
static void settle_job(struct ctr_import *im, struct ctr_text_job *j)
{
    if (!j->rc)
        j->rc = take_bad(im, j, &j->err);
    if (j->rc) {
        im->ended = true;
        im->end_rc = j->rc;
        im->end_err = j->err;
        im->next = im->round;
    }
    im->stats.bytes += (int64_t)j->block.n;
    im->stats.comments += j->comments;
    im->idle = j->block.idle;
}

static int next_job(struct ctr_import *im, const struct ctr_batch **b, struct ctr_err *err)
{
    for (;;) {
        if (im->next == im->round) {
            if (im->ended) {
                if (im->end_rc)
                    *err = im->end_err;
                return im->end_rc;
            }
            run_round(im);
            continue;
        }
        struct ctr_text_job *j = &im->job[im->next++];
        settle_job(im, j);
        int64_t rows = ctr_batchbuf_rows(&j->out);
        if (!rows && !im->idle)
            continue;
        *b = ctr_batchbuf_view(&j->out);
        j->out.batch.first_row = im->stats.rows;
        im->stats.rows += rows;
        return 1;
    }
}

/* With one job and no lists, blocks are parsed one behind the other into job->out until it has batch_rows rows. With
 * batch_rows 3, and blocks of 2, 3 and 1 rows, the calls of ctr_import_next do:
 *
 *     1st   gather_block: rows 1 2; gather_block: rows 1 2 3 4 5; give 3, the largest multiple
 *     2nd   drop_given moves 4 5 to the front; gather_block: 4 5 6; give 3
 *     3rd   drop_given empties it; the input has ended: 0, or the error that ended it
 *
 * Where a pause of the input ends the block (idle), all rows that are there are given. */

/* ---- blocks put together ---- */

#define GATHER_BYTES ((int64_t)64 << 20) /* of text: batches with long rows are returned as they are */

/* Move the rows after the returned ones to the front. */
static int drop_given(struct ctr_import *im, struct ctr_err *err)
{
    struct ctr_batchbuf *out = &im->job->out, was = *out;
    int64_t left = ctr_batchbuf_rows(out) - im->given;
    int rc = 0;
    if (im->given && left) {
        ctr_batchbuf_clear(&im->rest);
        rc = ctr_batchbuf_range(&im->rest, ctr_batchbuf_view(out), im->given, left, err);
        *out = im->rest;
        im->rest = was;
    } else if (im->given) {
        ctr_batchbuf_clear(out);
    }
    im->given = 0;
    return rc;
}

/* Append another block to the existing rows. If it fails, the error is reported after the rows before it. */
static void gather_block(struct ctr_import *im)
{
    run_round(im);
    if (im->round)
        settle_job(im, im->job);
}

/* Return the first n rows of the job. */
static const struct ctr_batch *give(struct ctr_import *im, int64_t n)
{
    const struct ctr_batch *all = ctr_batchbuf_view(&im->job->out);
    for (int i = 0; i < im->schema.n; i++) {
        struct ctr_col *c = &im->head[i];
        *c = all->col[i];
        c->rows = n;
        c->nulls = c->valid ? n - ctr_bits_count(c->valid, 0, n) : 0;
        c->valid = c->nulls ? c->valid : NULL;
    }
    im->batch = (struct ctr_batch){ .schema = &im->schema, .rows = n, .first_row = im->stats.rows, .col = im->head };
    im->stats.rows += n;
    im->given = n;
    return &im->batch;
}

static int next_gathered(struct ctr_import *im, const struct ctr_batch **b, struct ctr_err *err)
{
    struct ctr_text_job *j = im->job;
    int64_t want = im->o.batch_rows, rows, from = im->stats.bytes;
    int rc = drop_given(im, err);
    if (rc)
        return rc;
    im->idle = false;
    while ((rows = ctr_batchbuf_rows(&j->out)) < want && !im->ended && !im->idle &&
           !(rows && im->stats.bytes - from >= CTR_MIN(GATHER_BYTES, ctr_memory_part())))
        gather_block(im);
    if (rows || im->idle) {
        *b = give(im, rows >= want && !im->idle ? rows - rows % want : rows);
        return 1;
    }
    if (im->end_rc)
        *err = im->end_err;
    return im->end_rc;
}

bool ctr_import_packed(const struct ctr_import *im)
{
    return ctr_lines_packed(im->lines);
}

int ctr_import_next(struct ctr_import *im, const struct ctr_batch **b, struct ctr_err *err)
{
    return im->gather ? next_gathered(im, b, err) : next_job(im, b, err);
}

/* A path in --columns that no line has is mistyped: the column would be null in all rows. */
static int check_paths(const struct ctr_import *im, struct ctr_err *err)
{
    if (!im->o.format->paths || !im->o.columns || im->o.optional || !im->stats.rows)
        return 0;
    for (int i = 0; i < im->schema.n; i++)
        if (!im->loss[i].present)
            return ctr_fail(err, CTR_EDATA,
                            "column %s: none of the %lld lines has its path: leave it out, or write the path as "
                            "name=user.id:int64",
                            im->schema.f[i].name, (long long)im->stats.rows);
    return 0;
}

int ctr_import_finish(struct ctr_import *im, struct ctr_err *err)
{
    int rc = check_paths(im, err);
    if (!rc && im->quarantine)
        rc = ctr_out_commit(im->quarantine, err);
    return rc || !im->why ? rc : ctr_out_commit(im->why, err);
}

void ctr_import_get_stats(const struct ctr_import *im, struct ctr_import_stats *s)
{
    *s = im->stats;
    s->comments += ctr_lines_comments(im->lines);
}

void ctr_import_free(struct ctr_import *im)
{
    if (!im)
        return;
    for (int i = 0; im->job && i < im->jobs; i++) {
        struct ctr_text_job *j = &im->job[i];
        ctr_batchbuf_free(&j->out);
        ctr_buf_free(&j->scratch);
        ctr_buf_free(&j->scratch2);
        ctr_buf_free(&j->why);
        free(j->bad);
        free(j->loss);
    }
    free(im->job);
    free(im->loss);
    ctr_batchbuf_free(&im->rest);
    free(im->head);
    ctr_pool_free(im->pool);
    if (im->state)
        im->o.format->close(im->state);
    ctr_lines_free(im->lines);
    ctr_text_sample_free(&im->sample);
    ctr_schema_free(&im->schema);
    ctr_out_free(im->quarantine);
    ctr_out_free(im->why);
    ctr_buf_free(&im->raw);
    free(im);
}
