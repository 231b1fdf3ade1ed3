/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-export: a stream to text (csv, tsv, jsonl, libsvm, libffm, vw, or a table for people), to Parquet, to a NumPy
 * array or to safetensors. An incomplete stream gives exit 1, and no file under -o.
 */
#include "common/cli/cli.h"
#include "common/parquet/parquet_write.h"
#include "tools/ctr-export/export.h"
#include "tools/ctr-export/export_table.h"
#include "tools/ctr-export/safetensors.h"
#include "common/text/text.h"
#include <stdlib.h>

static struct {
    const char *format, *columns, *delimiter, *null_text, *formulas, *section, *codec, *keys, *time_unit;
    bool no_header, flat, vertical;
    int64_t bits, head;
} o = { .head = -1 };

static const struct ctr_opt opts[] = {
    { "format", 'f', CTR_OPT_CHOICE, "csv|tsv|table|jsonl|libsvm|libffm|vw|parquet|npy|safetensors",
      "output format (default: by the suffix of -o, table on a terminal, else csv)", &o.format, CTR_OPT_BASIC },
    { "columns", 'c', CTR_OPT_STR, "NAME,…", "write only these columns, in this order", &o.columns,
      CTR_OPT_ONCE | CTR_OPT_BASIC },
    { "head", 0, CTR_OPT_INT, "N", "write the first N rows only, and read no more", &o.head, CTR_OPT_BASIC },
    { "vertical", 0, CTR_OPT_FLAG, NULL, "table: a line for each value, whole", &o.vertical, CTR_OPT_BASIC },
    { "section", 0, CTR_OPT_STR, "NAME", "write this section of a bundle, such as a model", &o.section, 0 },
    { "no-header", 0, CTR_OPT_FLAG, NULL, "csv, tsv, table: write no header line", &o.no_header, 0 },
    { "delimiter", 'd', CTR_OPT_STR, "STR", "csv, tsv: separator of cells", &o.delimiter, 0 },
    { "null", 0, CTR_OPT_STR, "STR", "csv, tsv, table: text of a null (default: empty; table: null)", &o.null_text, 0 },
    { "formulas", 0, CTR_OPT_CHOICE, "keep|escape|fail",
      "csv, tsv: what to do with texts that a spreadsheet would run as formulas (default keep)", &o.formulas, 0 },
    { "flat", 0, CTR_OPT_FLAG, NULL, "jsonl: keep dots in names instead of writing nested objects", &o.flat, 0 },
    { "codec", 0, CTR_OPT_CHOICE, "zstd|snappy|none", "parquet: how pages are compressed (default zstd)", &o.codec,
      CTR_OPT_BASIC },
    { "keys", 0, CTR_OPT_CHOICE, "uint64|int64",
      "parquet: write uint64, as keys are, as int64 with the same bits, for readers without unsigned integers (default "
      "uint64)",
      &o.keys, 0 },
    { "time-unit", 0, CTR_OPT_CHOICE, "ms|us", "parquet: unit of times (default ms)", &o.time_unit, 0 },
    { "bits", 0, CTR_OPT_INT, "N", "libsvm, libffm, vw: fold keys into 2^N indices, which may collide", &o.bits,
      CTR_OPT_SOME },
    { 0 },
};

/* The program for the compression that the suffix promises, if this tool lacks it, or NULL. */
static const char *other_packer(const char *out)
{
    static const struct {
        const char *suffix, *program;
    } packers[] = { { ".zst", "zstd" }, { ".lz4", "lz4" }, { ".bz2", "bzip2" }, { ".xz", "xz" }, { ".zip", "zip" } };
    const char *dot = out ? strrchr(out, '.') : NULL;
    for (size_t i = 0; dot && i < CTR_COUNT(packers); i++)
        if (!strcmp(dot, packers[i].suffix))
            return packers[i].program;
    return NULL;
}

/* The format named, or given by the suffix of -o (before .gz, which sets *gzip), or csv; NULL for a suffix of another
 * format. */
static const struct ctr_export_format *choose_format(const char *out, bool *gzip)
{
    static const char *const others[] = { "arrow", "arrows", "parquet", "feather", "json", "xlsx" };
    const struct ctr_export_format *f = NULL;
    size_t n = out ? strlen(out) : 0;
    char suffix[16] = "";

    *gzip = n > 3 && !strcmp(out + n - 3, ".gz");
    n -= *gzip ? 3 : 0;
    for (size_t k = 1; k < n && k < sizeof suffix && out[n - k] != '/'; k++)
        if (out[n - k] == '.') {
            memcpy(suffix, out + n - k + 1, k - 1);
            break;
        }
    if (o.format)
        return ctr_export_find(o.format);
    if (!strcmp(suffix, "ndjson"))
        return ctr_export_find("jsonl");
    for (size_t i = 0; i < CTR_COUNT(others); i++)
        if (!strcmp(suffix, others[i]))
            return NULL;
    f = ctr_export_find(suffix);
    return f ? f : ctr_export_find("csv");
}

static int project(struct ctr_reader *r, struct ctr_err *err)
{
    int *column = NULL, n = 0, rc = ctr_schema_columns(ctr_reader_schema(r), o.columns, ',', &column, &n, err);

    if (rc == 0)
        rc = ctr_reader_project(r, column, n, err);
    free(column);
    return rc;
}

/* The next batch, up to row --head: 1; 0: the end, or enough rows. */
static int next_batch(struct ctr_reader *r, int64_t rows, struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_batch *next;
    int rc = rows == o.head ? 0 : ctr_reader_next(r, &next, err);
    if (rc <= 0)
        return rc;
    *b = *next;
    if (o.head >= 0)
        b->rows = CTR_MIN(b->rows, o.head - rows);
    return 1;
}

/* No input comes: go on to wait for it, unless the rows so far cannot be written. */
static bool is_written(void *ctx)
{
    struct ctr_export *e = *(struct ctr_export **)ctx;
    struct ctr_err told_by_copy;
    return !e || !ctr_export_await(e, &told_by_copy);
}

static int copy(struct ctr_cli *cli, struct ctr_reader *r, struct ctr_export *e, struct ctr_err *err)
{
    struct ctr_batch b;
    int rc, written;

    while ((rc = next_batch(r, ctr_export_rows(e), &b, err)) > 0) {
        ctr_cli_progress_clear(cli);
        if ((rc = ctr_export_batch(e, &b, err)) < 0)
            break;
        ctr_cli_progress(cli, ctr_export_rows(e), ctr_reader_total_rows(r));
    }
    ctr_cli_progress_clear(cli);
    if ((written = ctr_export_await(e, err)) < 0)
        return written;
    return rc < 0 ? ctr_export_break_off(e, err) : ctr_export_finish(e, err);
}

/* Is it a format that is no text, row after row: named, or by the suffix of -o? */
static bool is_format(const char *name, const char *out)
{
    const size_t n = out ? strlen(out) : 0, m = strlen(name);
    return o.format ? !strcmp(o.format, name) : n > m + 1 && out[n - m - 1] == '.' && !strcmp(out + n - m, name);
}

static bool has_text_options(void)
{
    return o.delimiter || o.null_text || o.formulas || o.no_header || o.flat || o.bits;
}

static bool cuts(void)
{
    return o.head >= 0 || o.vertical;
}

static bool has_parquet_options(void)
{
    return o.codec || o.keys || o.time_unit;
}

static int run_parquet(struct ctr_cli *cli, struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .only = o.section };
    const struct ctr_parquet_writer_opts wo = { .codec = o.codec,
                                                .signed_keys = o.keys && !strcmp(o.keys, "int64"),
                                                .microseconds = o.time_unit && !strcmp(o.time_unit, "us"),
                                                .memory_bytes = cli->memory_bytes,
                                                .threads = (int)cli->jobs };
    struct ctr_parquet_writer *w = NULL;
    struct ctr_reader *r = NULL;
    struct ctr_out *out = NULL;
    const struct ctr_batch *b;
    int rc = has_text_options() || o.vertical ? ctr_cli_usage(err, "--format parquet takes no option of text") : 0;
    if (!rc && o.head >= 0)
        rc = ctr_cli_usage(err, "--format parquet takes no --head: ctr-select --head %lld goes before it",
                           (long long)o.head);
    if (!rc)
        rc = ctr_cli_reader(cli, 0, &ro, &r, err);
    if (!rc && o.columns)
        rc = project(r, err);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = ctr_parquet_writer_open(&w, ctr_reader_schema(r), &wo, out, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = ctr_parquet_writer_batch(w, b, err);
        ctr_cli_progress(cli, ctr_parquet_writer_rows(w), ctr_reader_total_rows(r));
    }
    ctr_cli_progress_clear(cli);
    if (!rc)
        rc = ctr_parquet_writer_finish(w, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_parquet_writer_free(w);
    ctr_out_free(out);
    ctr_reader_free(r);
    return rc;
}

static int run_safetensors(struct ctr_cli *cli, struct ctr_err *err)
{
    const struct ctr_reader_opts sections = { .sections = true, .only = o.section };
    struct ctr_buf left_out = { 0 };
    struct ctr_reader *r = NULL;
    struct ctr_out *out = NULL;
    int rc = 0;
    if (o.columns || has_text_options() || cuts())
        rc = ctr_cli_usage(err, "--format safetensors takes no option of its own: choose columns with ctr-select");
    if (!rc)
        rc = ctr_cli_reader(cli, 0, &sections, &r, err);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc && (rc = ctr_safetensors_write(r, out, &left_out, err)) < 0)
        ctr_err_file(err, ctr_reader_file(r));
    if (!rc && left_out.len)
        ctr_cli_note(cli, "not written: %s", (const char *)left_out.data);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_buf_free(&left_out);
    ctr_out_free(out);
    ctr_reader_free(r);
    return rc;
}

/* Named, or asked for by --vertical; what is written to a terminal without an option that says otherwise. */
static bool is_table(const struct ctr_cli *cli)
{
    if (o.format)
        return !strcmp(o.format, "table");
    return o.vertical || (ctr_cli_terminal(cli) && !o.delimiter && !o.formulas && !o.flat && !o.bits);
}

static int run_table(struct ctr_cli *cli, struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .only = o.section };
    const struct ctr_table_opts to = {
        .width = ctr_cli_columns(cli), .vertical = o.vertical, .no_header = o.no_header, .null_text = o.null_text
    };
    struct ctr_reader *r = NULL;
    struct ctr_table *t = NULL;
    struct ctr_out *out = NULL;
    struct ctr_batch b;
    struct ctr_err of_the_end = { 0 };
    int64_t rows = 0;
    int rc = 0;
    if (o.delimiter || o.formulas || o.flat || o.bits || (o.vertical && o.no_header))
        rc = ctr_cli_usage(err, "--format table takes --columns, --head, --null and --vertical or --no-header");
    if (!rc)
        rc = ctr_cli_reader(cli, 0, &ro, &r, err);
    if (!rc && o.columns)
        rc = project(r, err);
    if (!rc)
        rc = ctr_cli_out(cli, 0, &out, err);
    if (!rc)
        rc = ctr_table_open(&t, ctr_reader_schema(r), &to, out, err);
    while (!rc && (rc = next_batch(r, rows, &b, err)) > 0) {
        ctr_cli_progress_clear(cli);
        rc = ctr_table_batch(t, &b, err);
        if (!rc)
            rc = ctr_out_flush(out, err);
        rows += b.rows;
        if (!ctr_cli_terminal(cli)) /* there rows are the progress, and share their line with it */
            ctr_cli_progress(cli, rows, ctr_reader_total_rows(r));
    }
    ctr_cli_progress_clear(cli);
    if (rc < 0 && rows && !ctr_table_finish(t, &of_the_end)) /* the first rows wait for their widths */
        (void)!ctr_out_flush(out, &of_the_end);
    if (!rc)
        rc = ctr_table_finish(t, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    if (!rc && ctr_table_left_out(t))
        ctr_cli_note(cli, "%d column%s no room: --columns chooses, --vertical shows all", ctr_table_left_out(t),
                     ctr_table_left_out(t) == 1 ? " has" : "s have");
    ctr_table_free(t);
    ctr_out_free(out);
    ctr_reader_free(r);
    return rc;
}

static int export_stream(struct ctr_cli *cli, struct ctr_err *err)
{
    if (other_packer(cli->out))
        return ctr_cli_usage(err, "%s: text is written plain, or as .gz; pipe it: ctr-export … | %s >%s", cli->out,
                             other_packer(cli->out), cli->out);
    if (is_format("parquet", cli->out))
        return run_parquet(cli, err);
    if (has_parquet_options())
        return ctr_cli_usage(err, "--codec, --keys and --time-unit are of --format parquet");
    if (is_format("safetensors", cli->out))
        return run_safetensors(cli, err);
    if (is_table(cli))
        return run_table(cli, err);
    if (o.vertical)
        return ctr_cli_usage(err, "--vertical is of --format table");
    struct ctr_reader *r = NULL;
    struct ctr_export *e = NULL;
    const struct ctr_reader_opts ro = {
        .only = o.section, .idle = is_written, .idle_ctx = &e, .idle_ms = (int)cli->flush_ms, .ahead = cli->jobs > 1
    };
    struct ctr_export_opts eo = CTR_EXPORT_OPTS;
    const struct ctr_export_format *f = choose_format(cli->out, &eo.gzip);
    struct ctr_out *out = NULL;

    eo.no_header = o.no_header;
    eo.flat = o.flat;
    eo.delimiter = ctr_text_delimiter(o.delimiter);
    eo.null_text = o.null_text;
    eo.formulas = o.formulas;
    eo.bits = (int)CTR_MIN(o.bits, (int64_t)64);
    eo.threads = ctr_cli_terminal(cli) ? 1 : (int)cli->jobs; /* there rows share lines with the progress */
    if (!f)
        return ctr_cli_usage(err, "%s: the suffix is that of no format written here: name one with --format%s",
                             cli->out, strstr(cli->out, ".arrow") ? ", or copy the stream with ctr-cat" : "");
    int rc = ctr_export_check(f, &eo, err);
    if (rc == 0)
        rc = ctr_cli_reader(cli, 0, &ro, &r, err);
    if (rc == 0 && o.columns)
        rc = project(r, err);
    for (int k = 0; k < CTR_NROLES && !rc; k++)
        rc = ctr_cli_role(cli, ctr_reader_schema(r), (enum ctr_role)k, false, &eo.role[k], err);
    if (rc)
        goto done;
    eo.total_rows = ctr_reader_total_rows(r);
    if (o.head >= 0 && eo.total_rows >= 0)
        eo.total_rows = CTR_MIN(eo.total_rows, o.head);
    if ((rc = ctr_cli_out(cli, ctr_export_binary(f) ? CTR_OUT_BINARY : 0, &out, err)) < 0 ||
        (rc = ctr_export_open(&e, f, ctr_reader_schema(r), &eo, out, err)) < 0)
        goto done;
    if (*ctr_export_left_out(e))
        ctr_cli_note(cli, "not written: %s", ctr_export_left_out(e));
    if ((rc = copy(cli, r, e, err)) == 0)
        rc = ctr_out_commit(out, err);
done:
    ctr_export_free(e);
    ctr_out_free(out);
    ctr_reader_free(r);
    return rc;
}

const struct ctr_tool ctr_tool = { "ctr-export", "write a stream as text, Parquet, NumPy array or safetensors",
                                   "[FILE…]",    NULL,
                                   opts,         CTR_TOOL_ROLES | CTR_TOOL_READS | CTR_TOOL_MEMORY,
                                   export_stream };
