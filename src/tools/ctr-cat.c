/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-cat: combines inputs into one stream (or file): concatenates, compresses, adds a key, seals foreign streams,
 * rescues broken ones. */
#include "common/cli/cli.h"

static struct {
    const char *to, *key, *compress;
    struct ctr_strs share;
    bool lenient, force;
} o = { .to = "stream", .compress = "none" };

static const struct ctr_opt opts[] = {
    { "to", 0, CTR_OPT_CHOICE, "stream|file", "write a stream, or an IPC file for random access (default stream)",
      &o.to, CTR_OPT_LOCAL },
    { "key", 'k', CTR_OPT_STR, "COL", "with --to file: make a keyed file, whose rows must be sorted by COL", &o.key,
      CTR_OPT_LOCAL, .needs = "to=file" },
    { "compress", 'z', CTR_OPT_CHOICE, "none|lz4|zstd", "compress the column data, for storage (default none)",
      &o.compress, CTR_OPT_LOCAL },
    { "share", 0, CTR_OPT_LIST, "COL,…", "encode these columns with a dictionary per batch, such as those of a user",
      &o.share, CTR_OPT_LOCAL },
    { "lenient", 0, CTR_OPT_FLAG, NULL, "write the rows before the damage in a broken stream as a complete stream",
      &o.lenient, 0 },
    { "force", 0, CTR_OPT_FLAG, NULL,
      "join streams even if their plans, key seeds or roles differ; the result names none of these plans and seeds",
      &o.force, 0 },
    { 0 },
};

/* ---- provenance: of all inputs, as far as they can be looked into before the schema is written ---- */

/* Add the lines of `pg` that `all` lacks. */
static int add_lines(struct ctr_strs *all, const char *pg, struct ctr_err *err)
{
    struct ctr_strs lines = { 0 };
    int rc = pg ? ctr_strs_split(&lines, pg, '\n', err) : 0;
    for (int i = 0; i < lines.n && !rc; i++)
        if (ctr_strs_find(all, lines.s[i]) < 0)
            rc = ctr_strs_add(all, lines.s[i], strlen(lines.s[i]), err);
    ctr_strs_free(&lines);
    return rc;
}

/* Inputs that cannot be opened are reported when they are read. */
static int add_lines_of(struct ctr_strs *all, char *path, struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .sections = true };
    struct ctr_reader *r = NULL;
    struct ctr_err ignored = { 0 };
    int rc = 0;
    if (!ctr_reader_open(&r, &path, 1, &ro, &ignored))
        rc = add_lines(all, ctr_meta_get(&ctr_reader_schema(r)->meta, CTR_META_PG), err);
    ctr_reader_free(r);
    return rc;
}

/* If the inputs have different histories, or their provenance is known only after reading, a line says so. */
static int add_inputs(struct ctr_cli *cli, struct ctr_schema *schema, struct ctr_err *err)
{
    struct ctr_strs all = { 0 };
    struct ctr_buf text = { 0 };
    int pipes = 0, own = 0;
    int rc = add_lines(&all, ctr_meta_get(&schema->meta, CTR_META_PG), err);
    own = all.n;
    for (int i = 1; i < cli->nargs && !rc; i++) {
        if (ctr_cli_reopens(cli->args[i]))
            rc = add_lines_of(&all, cli->args[i], err);
        else
            pipes++;
    }
    const bool several = all.n > own || pipes;
    for (int i = 0; i < all.n && several && !rc; i++)
        rc = ctr_buf_printf(&text, err, "%s%s", i ? "\n" : "", all.s[i]);
    if (text.len && !rc)
        rc = ctr_meta_set(&schema->meta, CTR_META_PG, (const char *)text.data, err);
    text.len = 0;
    if (several && !rc)
        rc = ctr_buf_printf(&text, err,
                            pipes ? "%d inputs, of which %d did not tell beforehand how they were made" : "%d inputs",
                            cli->nargs, pipes);
    if (several && !rc)
        rc = ctr_schema_provenance(schema, cli->tool->name, (const char *)text.data, err);
    ctr_buf_free(&text);
    ctr_strs_free(&all);
    return rc;
}

/* With --force: a stream of several plans is of none. */
static int drop_identity(struct ctr_cli *cli, struct ctr_schema *schema, struct ctr_err *err)
{
    struct ctr_buf dropped = { 0 };
    int rc = ctr_identity_drop(schema, &dropped, err);
    if (!rc && dropped.len)
        ctr_cli_note(cli, "--force: the result does not name %s", (const char *)dropped.data);
    ctr_buf_free(&dropped);
    return rc;
}

static int copy_section(struct ctr_cli *cli, const struct ctr_batch_source *in, struct ctr_reader *r,
                        struct ctr_out *out, struct ctr_err *err)
{
    /* Stored data benefit from larger batches, in which rows share more values. */
    const bool kept = !strcmp(o.to, "file") || strcmp(o.compress, "none") != 0 || o.share.n;
    struct ctr_writer_opts wo = {
        .batch_rows = kept ? cli->batch_rows : ctr_cli_batch_rows(cli, ctr_batch_source_schema(in)),
        .file = !strcmp(o.to, "file"),
        .key = o.key,
    };
    const struct ctr_batch *b;
    struct ctr_schema schema;
    struct ctr_writer *w = NULL;
    int rc = ctr_schema_copy(&schema, ctr_batch_source_schema(in), err);

    if (rc)
        return rc;
    wo.compression = !strcmp(o.compress, "lz4") ? CTR_LZ4 : !strcmp(o.compress, "zstd") ? CTR_ZSTD : CTR_PLAIN;
    if (cli->provenance) /* a plain copy equals its input: it adds no line, so that cat of cat changes nothing */
        rc = ctr_schema_provenance(&schema, cli->tool->name, cli->provenance, err);
    if (!rc && cli->nargs > 1 && !ctr_meta_get(&schema.meta, CTR_META_SECTION))
        rc = add_inputs(cli, &schema, err);
    if (!rc && o.force && !ctr_meta_get(&schema.meta, CTR_META_SECTION))
        rc = drop_identity(cli, &schema, err);
    if (!rc)
        rc = ctr_writer_open(&w, out, &schema, &wo, err);
    cli->idle_writer = w;
    while (!rc && (rc = ctr_batch_source_next(in, &b, err)) > 0) {
        rc = ctr_writer_batch(w, b, err);
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    cli->idle_writer = NULL;
    if (!rc)
        rc = ctr_writer_finish(w, err);
    ctr_writer_free(w);
    ctr_schema_free(&schema);
    return rc;
}

static int share(const struct ctr_cli *cli, struct ctr_batch_source *in, struct ctr_err *err)
{
    struct ctr_strs columns = { 0 };
    int rc = 0;
    for (int i = 0; i < o.share.n && !rc; i++)
        rc = ctr_names_split(&columns, o.share.s[i], ',', err);
    if (!rc)
        rc = ctr_dictionary_source(in, &columns, cli->batch_rows, err);
    ctr_strs_free(&columns);
    return rc;
}

static int concatenate_streams(struct ctr_cli *cli, struct ctr_err *err)
{
    bool file = !strcmp(o.to, "file"); /* an IPC file has one schema: the reader refuses a bundle */
    struct ctr_reader_opts ro = { .sections = !file && !o.share.n, .lenient = o.lenient, .mixed = o.force };
    struct ctr_reader *r = NULL;
    struct ctr_batch_source in = { 0 };
    struct ctr_out *out = NULL;
    int rc, more = 1;

    if (file && o.share.n)
        return ctr_cli_usage(err, "--share is for streams: an IPC file has one dictionary a column, which it cannot "
                                  "replace");
    rc = ctr_cli_reader(cli, 0, &ro, &r, err);
    if (!rc)
        in = ctr_batch_source_stream(r);
    if (!rc && o.share.n)
        rc = share(cli, &in, err);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    while (!rc && more) {
        rc = copy_section(cli, &in, r, out, err);
        more = rc ? 0 : ctr_reader_section(r, err);
        rc = more < 0 ? more : rc;
    }
    if (!rc && ctr_reader_damage(r))
        ctr_cli_warn(cli, "%s; %lld rows were rescued", ctr_reader_damage(r), (long long)ctr_reader_rows(r));
    for (const char *line = rc ? NULL : ctr_reader_mixed(r); line && *line; line += *line == '\n') {
        const size_t n = strcspn(line, "\n");
        ctr_cli_warn(cli, "--force: %.*s", (int)n, line);
        line += n;
    }
    ctr_batch_source_close(&in);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    return rc;
}

const struct ctr_tool ctr_tool = { "ctr-cat",
                                   "concatenate streams, convert between stream and file",
                                   "[FILE…]",
                                   NULL,
                                   opts,
                                   CTR_TOOL_READS | CTR_TOOL_WRITES,
                                   concatenate_streams };
