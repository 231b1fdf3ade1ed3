/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-import: converts Parquet, text logs, and arrays of numbers to a stream. */
#include "common/cli/cli.h"
#include "common/plan/plan.h"
#include "common/parquet/parquet.h"
#include "common/rows/select.h"
#include "common/text/tensor.h"
#include "tools/ctr-import/kind.h"
#include "tools/ctr-import/oldtimes.h"
#include "tools/ctr-import/tensor_rows.h"
#include "common/text/text.h"

#include <sys/stat.h>

static struct {
    const char *format, *like, *plan, *delimiter, *encoding, *keep, *where;
    struct ctr_strs nulls;
    struct ctr_text_opts text;
} o = { .text.nulls = &o.nulls };

static const struct ctr_opt opts[] = {
    { "format", 'f', CTR_OPT_CHOICE, "csv|tsv|jsonl|libsvm|libffm|vw|parquet|npy|safetensors",
      "input format (default: by the suffix of FILE, or by its content)", &o.format, CTR_OPT_BASIC },
    { "header", 0, CTR_OPT_FLAG, NULL, "the first line of each file names the columns", &o.text.header, CTR_OPT_BASIC },
    { "columns", 'c', CTR_OPT_STR, "NAME[=SOURCE][:TYPE],…", "names and types of the columns; X[1..26] repeats",
      &o.text.columns, CTR_OPT_ONCE | CTR_OPT_BASIC },
    { "like", 0, CTR_OPT_STR, "FILE", "take names, types and roles from the stream FILE", &o.like,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "for", 0, CTR_OPT_STR, "PLAN", "import only the columns that PLAN reads", &o.plan, CTR_OPT_PATH },
    { "keep", 0, CTR_OPT_STR, "NAME,…", "with --for: also import these columns, such as the keys of a join", &o.keep,
      CTR_OPT_ONCE, .needs = "for" },
    { "delimiter", 'd', CTR_OPT_STR, "STR", "separator of cells, such as ::", &o.delimiter, CTR_OPT_BASIC },
    { "null", 0, CTR_OPT_LIST, "[NAME:]STR", "text of a missing value, in all columns or in NAME (default: empty)",
      &o.nulls, CTR_OPT_BASIC },
    { "escape", 0, CTR_OPT_STR, "CHAR", "csv, tsv: the character that takes the meaning from the next, such as \\",
      &o.text.escape, 0 },
    { "comment", 0, CTR_OPT_STR, "STR", "csv, tsv: leave out lines that begin with STR, such as #", &o.text.comment,
      0 },
    { "skip-lines", 0, CTR_OPT_INT, "N", "leave out the first N lines of each file", &o.text.skip_lines, 0 },
    { "trim", 0, CTR_OPT_FLAG, NULL, "csv, tsv: blanks around a cell are no part of it", &o.text.trim, 0 },
    { "decimal", 0, CTR_OPT_STR, "SIGN", "csv, tsv: decimal sign of numbers (default a point)", &o.text.decimal, 0 },
    { "thousands", 0, CTR_OPT_STR, "SIGN", "csv, tsv: what separates groups of three digits (default nothing)",
      &o.text.thousands, 0 },
    { "encoding", 0, CTR_OPT_CHOICE, "utf8|latin1", "encoding of the input (default utf8)", &o.encoding, 0 },
    { "keys", 0, CTR_OPT_CHOICE, "hash|key|text", "libsvm, libffm, vw: read a feature as a hashed key, a key or a text",
      &o.text.keys, 0 },
    { "binary", 0, CTR_OPT_FLAG, NULL, "libsvm, libffm, vw: change labels -1 and 1 to 0 and 1", &o.text.binary, 0 },
    CTR_OPT_BAD_ROWS(o.text.bad_rows, 0, NULL),
    { "where", 0, CTR_OPT_STR, "EXPR", "Parquet: import only rows for which EXPR is true, and read few others",
      &o.where, CTR_OPT_ONCE | CTR_OPT_BASIC },
    { "schema", 0, CTR_OPT_CHOICE, "union|first|strict",
      "Parquet: columns of all files, of the first, or the same in each (default union)", &o.text.schema,
      CTR_OPT_BASIC },
    { "partitions", 0, CTR_OPT_FLAG, NULL, "Parquet: folders called NAME=VALUE are columns", &o.text.partitions,
      CTR_OPT_BASIC },
    { 0 },
};

static const char *const notes[] = {
    "--time NAME[:FORMAT] also says how the time is written: ISO 8601 by default, else unix, unix_ms, unix_us, "
    "unix_ns, local:ZONE, or fields such as '%m/%d/%Y %I:%M:%S %p'.",
    NULL,
};

/* Which way an input takes:
 *
 *     vectors.npy, *.safetensors         import_tensors: a file at a time, no options about text
 *     day.parquet, a folder              import_parquet: a folder is replaced by the files below it
 *     log.tsv, a.csv.gz                  import: choose_format goes by --format, then the name, then the content
 *     - (stdin) with "{" as first byte   import: as JSON lines, and says so
 *     x.arrows, x.zip                    refused, with what to do instead (others)
 *     @LIST                              the files that it names, before any of these
 *
 * All are a loop of batches from a source to a writer. On its way ctr_old_times_see looks for times of January 1970,
 * which are seconds that were read as milliseconds. The trailer comes last, when the quarantine is in place. */

/* Inputs that are not text. */
#define IS_STREAM "is a stream by its name, which every tool reads as it is; --format says if it is text"
static const struct {
    const char *name, *remedy;
} others[] = {
    { "*.arrows", IS_STREAM },
    { "*.arrow", IS_STREAM },
    { "*.feather", IS_STREAM },
    { "*.zip", "is a zip archive by its name, to be unpacked first: unzip -p FILE | ctr-import --format …" },
};

/* The format by content, where the name says nothing; NULL: not known. */
static const char *kind(const struct ctr_cli *cli)
{
    const char *path = cli->nargs ? cli->args[0] : "-";
    static const char *const known[] = { "*.arrows", "*.arrow",   "*.feather",    "*.zip",
                                         "*.npy",    "*.parquet", "*.safetensors" };
    for (size_t i = 0; i < CTR_COUNT(known); i++)
        if (ctr_glob(known[i], path))
            return NULL;
    return o.format || ctr_text_format_guess(path) ? NULL : ctr_import_kind(path);
}

static int choose_format(struct ctr_cli *cli, struct ctr_text_opts *t, struct ctr_err *err)
{
    const char *by_content = kind(cli), *file = cli->nargs ? cli->args[0] : "stdin";
    if (o.format)
        t->format = ctr_text_format_find(o.format);
    else if (cli->nargs)
        t->format = ctr_text_format_guess(cli->args[0]);
    if (t->format)
        return 0;
    if (by_content && !strcmp(by_content, "stream"))
        return ctr_cli_usage(err, "%s is a stream by its content, which every tool reads as it is", file);
    t->format = by_content ? ctr_text_format_find(by_content) : NULL;
    if (t->format) {
        ctr_cli_note(cli, "%s is read as %s, as which it begins; --format says otherwise", file, by_content);
        return 0;
    }
    struct stat st;
    for (size_t i = 0; cli->nargs && i < CTR_COUNT(others); i++)
        if (ctr_glob(others[i].name, cli->args[0]))
            return ctr_cli_usage(err, "%s %s", cli->args[0], others[i].remedy);
    if (cli->nargs && strcmp(file, "-") != 0 && stat(file, &st)) {
        ctr_err_file(err, file);
        return ctr_fail_sys(err, "cannot open it");
    }
    return ctr_cli_usage(err, "the format is not known from %s%s: name it with --format csv, tsv, jsonl, …",
                         cli->nargs ? "the name " : "a file name", cli->nargs ? cli->args[0] : "");
}

/* Read the schema of --like from a stream, without its rows. */
static int read_like(struct ctr_schema *like, struct ctr_err *err)
{
    struct ctr_reader *r = NULL;
    char *path = (char *)o.like;
    int rc = ctr_reader_open(&r, &path, 1, NULL, err);
    if (!rc)
        rc = ctr_schema_copy(like, ctr_reader_schema(r), err);
    ctr_reader_free(r);
    return rc;
}

static int copy_rows(struct ctr_cli *cli, struct ctr_import *im, struct ctr_writer *w, struct ctr_old_times *times,
                     struct ctr_err *err)
{
    const struct ctr_batch *b;
    int64_t rows = 0;
    int rc = ctr_import_idle(im) ? ctr_writer_flush(w, err) : 0;
    while (!rc && (rc = ctr_import_next(im, &b, err)) > 0) {
        rc = ctr_old_times_see(times, b, err);
        if (!rc)
            rc = ctr_writer_batch(w, b, err);
        if (!rc && ctr_import_idle(im))
            rc = ctr_writer_flush(w, err);
        if (rc)
            return rc;
        ctr_cli_progress(cli, rows += b->rows, -1);
    }
    struct ctr_err second = { 0 };
    if (rc < 0 && !ctr_import_packed(im)) /* the rows before the error, without a trailer; damage may lie before it */
        (void)!ctr_writer_flush(w, &second);
    return rc;
}

/* If all rows are in the quarantine, fail without a product: the options do not match this log. */
static int check_kept(const struct ctr_import *im, struct ctr_err *err)
{
    struct ctr_import_stats stats;
    ctr_import_get_stats(im, &stats);
    if (stats.rows || !stats.bad || strncmp(o.text.bad_rows, "quarantine=", 11))
        return 0;
    return ctr_fail(err, CTR_EDATA, "none of %lld rows could be read; they are in %s, and why in %s.why",
                    (long long)stats.bad, o.text.bad_rows + 11, o.text.bad_rows + 11);
}

static void note(void *ctx, const char *text)
{
    ctr_cli_note(ctx, "%s", text);
}

static void warn(void *ctx, const char *text)
{
    ctr_cli_warn(ctx, "%s", text);
}

/* Side outputs first, then the trailer: a complete stream implies that the quarantine is complete. */
static int import(struct ctr_cli *cli, const struct ctr_text_opts *t, struct ctr_err *err)
{
    struct ctr_import *im = NULL;
    struct ctr_writer *w = NULL;
    struct ctr_out *out = NULL;
    struct ctr_buf why = { 0 };
    struct ctr_old_times times = { 0 };
    int rc = ctr_cli_inputs(cli, 0, err);
    if (!rc && t->bad_rows && !strncmp(t->bad_rows, "quarantine=", 11)) {
        rc = ctr_cli_written(cli, t->bad_rows + 11, err);
        if (!rc)
            rc = ctr_buf_printf(&why, err, "%s.why", t->bad_rows + 11);
        if (!rc)
            rc = ctr_cli_written(cli, (const char *)why.data, err);
    }
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = ctr_import_open(&im, t, cli->args, cli->nargs, err);
    if (!rc)
        rc = ctr_cli_writer(cli, out, ctr_import_schema(im), &w, err);
    if (!rc)
        rc = copy_rows(cli, im, w, &times, err);
    if (!rc)
        rc = ctr_import_finish(im, err);
    if (!rc)
        rc = check_kept(im, err);
    if (!rc)
        rc = ctr_cli_finish(cli, w, out, err);
    if (!rc)
        ctr_import_notes(im, t->bad_rows, note, warn, cli);
    if (!rc)
        ctr_old_times_tell(&times, ctr_import_schema(im), warn, cli);
    ctr_old_times_free(&times);
    ctr_writer_free(w);
    ctr_import_free(im);
    ctr_out_free(out);
    ctr_buf_free(&why);
    return rc;
}

/* ---- npy and safetensors ---- */

/* Is it one of these, by --format or by its name? */
static bool is_tensors(const struct ctr_cli *cli)
{
    const char *is = o.format ? o.format : kind(cli);
    if (is)
        return !strcmp(is, "npy") || !strcmp(is, "safetensors");
    return cli->nargs && (ctr_glob("*.npy", cli->args[0]) || ctr_glob("*.safetensors", cli->args[0]));
}

static int check_tensor_options(struct ctr_cli *cli, struct ctr_err *err)
{
    static const char *const text[] = { "header",   "like",       "for",    "delimiter", "null",
                                        "encoding", "keys",       "binary", "bad-rows",  "escape",
                                        "comment",  "skip-lines", "trim",   "decimal",   "thousands" };
    for (size_t i = 0; i < CTR_COUNT(text); i++)
        if (ctr_cli_given(cli, text[i]))
            return ctr_cli_usage(err, "--%s is about text: npy and safetensors take --columns and roles", text[i]);
    if (cli->nargs > 1)
        return ctr_cli_usage(err,
                             "npy and safetensors are imported a file at a time: ctr-cat joins what comes of them");
    return ctr_cli_inputs(cli, 0, err);
}

static int copy_tensor_rows(struct ctr_cli *cli, struct ctr_tensor_rows *t, struct ctr_err *err)
{
    struct ctr_writer *w = NULL;
    struct ctr_out *out = NULL;
    const struct ctr_batch *b;
    int rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = ctr_cli_writer(cli, out, ctr_tensor_rows_schema(t), &w, err);
    while (!rc && (rc = ctr_tensor_rows_next(t, &b, err)) > 0) {
        rc = ctr_writer_batch(w, b, err);
        ctr_cli_progress(cli, b->first_row + b->rows, -1);
    }
    if (!rc)
        rc = ctr_cli_finish(cli, w, out, err);
    ctr_writer_free(w);
    ctr_out_free(out);
    return rc;
}

static int import_tensors(struct ctr_cli *cli, struct ctr_err *err)
{
    const char *path = cli->nargs ? cli->args[0] : "-";
    struct ctr_tensor_rows *t = NULL;
    struct ctr_strs names = { 0 };
    int rc = check_tensor_options(cli, err);
    if (!rc)
        rc = ctr_cli_reread(cli, &path, err);
    if (!rc && o.text.columns)
        rc = ctr_strs_split(&names, o.text.columns, ',', err);
    if (!rc)
        rc = ctr_tensor_rows_open(&t, path, o.text.columns ? &names : NULL, cli->batch_rows, err);
    for (int role = 0; role < CTR_NROLES && !rc; role++)
        if (cli->role[role])
            rc = ctr_tensor_rows_role(t, cli->role[role], (enum ctr_role)role, err);
    if (!rc && ctr_tensor_rows_flattened(t))
        ctr_cli_note(cli, "%s: what lies behind the first dimension becomes one list, in C order",
                     ctr_tensor_rows_flattened(t));
    if (!rc)
        rc = copy_tensor_rows(cli, t, err);
    ctr_tensor_rows_free(t);
    ctr_strs_free(&names);
    return rc;
}

/* ---- Parquet ---- */

/* By --format, by its name, or by its content; of a folder, those of the files below it are the only ones that are
 * read. */
static bool is_parquet(const struct ctr_cli *cli)
{
    const char *path = cli->nargs ? cli->args[0] : "-";
    struct stat st;
    if (o.format)
        return !strcmp(o.format, "parquet");
    return ctr_glob("*.parquet", path) || (!ctr_text_format_guess(path) && ctr_parquet_is(path)) ||
           (strcmp(path, "-") != 0 && !stat(path, &st) && S_ISDIR(st.st_mode));
}

static int check_parquet_options(struct ctr_cli *cli, struct ctr_err *err)
{
    static const char *const text[] = { "header", "delimiter", "null",     "encoding", "keys",
                                        "binary", "bad-rows",  "escape",   "comment",  "skip-lines",
                                        "trim",   "decimal",   "thousands" };
    for (size_t i = 0; i < CTR_COUNT(text); i++)
        if (ctr_cli_given(cli, text[i]))
            return ctr_cli_usage(err,
                                 "--%s is about text: Parquet, which has types and nulls of its own, takes --columns, "
                                 "--like, --for, --where, --schema, --partitions and roles",
                                 text[i]);
    return 0;
}

/* Folders become the files below them: from here on these are the arguments. */
static int expand_folders(struct ctr_cli *cli, struct ctr_strs *files, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < cli->nargs; i++)
        rc = ctr_parquet_files(files, cli->args[i], err);
    if (!rc && files->n) {
        cli->args = files->s;
        cli->nargs = files->n;
    }
    return rc ? rc : ctr_cli_inputs(cli, 0, err);
}

static void verbose_stats(struct ctr_cli *cli, const struct ctr_parquet *p)
{
    struct ctr_parquet_stats s;
    if (!cli->verbose)
        return;
    ctr_parquet_get_stats(p, &s);
    ctr_cli_note(cli, "%lld rows of %d row groups, %d of %d columns, %s of %s read", (long long)s.rows, s.groups,
                 s.columns, s.of_columns, ctr_size_text((uint64_t)s.bytes_read).s, ctr_size_text((uint64_t)s.bytes).s);
    if (o.where)
        ctr_cli_note(cli, "--where left out %d row groups of %lld rows by what the files say of them", s.groups_out,
                     (long long)s.rows_out);
}

/* *s: the rows of p, of which only those that --where keeps, which is read from `where` too. */
static int parquet_rows(struct ctr_parquet **p, struct ctr_cli *cli, struct ctr_text_opts *t,
                        struct ctr_conditions *where, struct ctr_batch_source *s, struct ctr_err *err)
{
    const struct ctr_select_spec spec = { .where = o.where };
    int rc = o.where ? ctr_expr_conditions(where, o.where, err) : 0;
    t->where = where;
    if (!rc)
        rc = ctr_parquet_open(p, t, cli->args, cli->nargs, err);
    if (rc)
        return rc;
    *s = ctr_parquet_source(*p);
    return o.where ? ctr_select_source(s, &spec, NULL, err) : 0;
}

static int import_parquet(struct ctr_cli *cli, struct ctr_text_opts *t, struct ctr_err *err)
{
    struct ctr_parquet *p = NULL;
    struct ctr_batch_source s = { 0 };
    struct ctr_conditions where = { 0 };
    struct ctr_strs files = { 0 };
    struct ctr_writer *w = NULL;
    struct ctr_out *out = NULL;
    struct ctr_old_times times = { 0 };
    const struct ctr_batch *b;
    char **const args = cli->args;
    const int nargs = cli->nargs;
    int rc = check_parquet_options(cli, err);
    if (!rc)
        rc = expand_folders(cli, &files, err);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = parquet_rows(&p, cli, t, &where, &s, err);
    if (!rc)
        rc = ctr_cli_writer(cli, out, ctr_batch_source_schema(&s), &w, err);
    while (!rc && (rc = ctr_batch_source_next(&s, &b, err)) > 0) {
        rc = ctr_old_times_see(&times, b, err);
        if (!rc)
            rc = ctr_writer_batch(w, b, err);
        ctr_cli_progress(cli, ctr_writer_rows(w), -1);
    }
    if (!rc)
        rc = ctr_cli_finish(cli, w, out, err);
    if (!rc) {
        ctr_parquet_notes(p, note, cli);
        ctr_old_times_tell(&times, ctr_batch_source_schema(&s), warn, cli);
        verbose_stats(cli, p);
    }
    ctr_old_times_free(&times);
    ctr_writer_free(w);
    ctr_batch_source_close(&s);
    ctr_parquet_free(p);
    ctr_out_free(out);
    ctr_conditions_free(&where);
    cli->args = args;
    cli->nargs = nargs;
    ctr_strs_free(&files);
    return rc;
}

/* @LIST becomes the files that it names: from here on these are the arguments. */
static int expand_lists(struct ctr_cli *cli, struct ctr_strs *files, struct ctr_err *err)
{
    bool any = false;
    int rc = 0;
    for (int i = 0; !rc && i < cli->nargs; i++) {
        const bool list = cli->args[i][0] == '@';
        any |= list;
        if (list)
            rc = ctr_cli_read(cli, cli->args[i] + 1, err);
        if (!rc)
            rc = list ? ctr_parquet_files(files, cli->args[i], err)
                      : ctr_strs_add(files, cli->args[i], strlen(cli->args[i]), err);
    }
    if (!rc && any) {
        cli->args = files->s;
        cli->nargs = files->n;
    }
    return rc;
}

static int import_logs(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_text_opts t = o.text;
    struct ctr_schema like = { 0 };
    struct ctr_plan *plan = NULL;
    struct ctr_strs lack = { 0 }, keep = { 0 };
    if (is_tensors(cli))
        return import_tensors(cli, err);
    t.delimiter = ctr_text_delimiter(o.delimiter);
    t.latin1 = o.encoding && !strcmp(o.encoding, "latin1");
    t.jobs = (int)cli->jobs;
    t.batch_rows = cli->batch_rows ? cli->batch_rows : -1;
    t.idle_ms = (int)cli->flush_ms;
    t.note = note;
    t.ctx = cli;
    const bool parquet = is_parquet(cli);
    int rc = parquet ? 0
             : o.where || o.text.schema || o.text.partitions
                 ? ctr_cli_usage(err, "--%s is about Parquet%s",
                                 o.where             ? "where"
                                 : o.text.partitions ? "partitions"
                                                     : "schema",
                                 o.where ? ": ctr-select --where filters a stream" : "")
                 : choose_format(cli, &t, err);
    memcpy(t.role, cli->role, sizeof t.role);
    if (!rc && o.keep)
        rc = ctr_strs_split(&keep, o.keep, ',', err);
    if (!rc && o.like)
        rc = ctr_cli_read(cli, o.like, err);
    if (!rc && o.like)
        rc = read_like(&like, err);
    if (!rc && o.plan)
        rc = ctr_cli_reread(cli, &o.plan, err);
    if (!rc && o.plan)
        rc = ctr_plan_open(&plan, o.plan, err);
    if (!rc && plan && ctr_plan_statement(plan, 0))
        rc = ctr_cli_usage(
            err, "--for: %s reads several views; it can import text itself: from VIEW = csv(\"FILE\", …)", o.plan);
    t.like = o.like ? &like : NULL;
    t.only = plan ? ctr_plan_inputs(plan) : NULL;
    t.lack = &lack;
    t.keep = &keep;
    for (int i = 0; !rc && plan && i < t.only->n; i++)
        if (ctr_plan_can_lack(plan, t.only->s[i]))
            rc = ctr_strs_add(&lack, t.only->s[i], strlen(t.only->s[i]), err);
    if (!rc)
        rc = parquet ? import_parquet(cli, &t, err) : import(cli, &t, err);
    ctr_schema_free(&like);
    ctr_plan_free(plan);
    ctr_strs_free(&lack);
    ctr_strs_free(&keep);
    return rc;
}

static int import_files(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_strs files = { 0 };
    char **const args = cli->args;
    const int nargs = cli->nargs;
    int rc = expand_lists(cli, &files, err);
    if (!rc)
        rc = import_logs(cli, err);
    cli->args = args;
    cli->nargs = nargs;
    ctr_strs_free(&files);
    return rc;
}

const struct ctr_tool ctr_tool = {
    "ctr-import", "make a record stream of Parquet or text logs",    "[FILE…]",    notes,
    opts,         CTR_TOOL_ROLES | CTR_TOOL_READS | CTR_TOOL_WRITES, import_files,
};
