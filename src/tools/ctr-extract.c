/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-extract: converts a stream of raw columns to features by a plan (plan.h). */
#include "common/cli/cli.h"
#include "common/compute/comm.h"
#include "common/rows/flow.h"
#include "common/op/gpu.h"
#include "common/plan/plan.h"
#include "common/op/op.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *fit, *names, *key_seed, *launch, *bad_rows;
    struct ctr_strs place;
    bool explain, dot, inputs, list_ops, lookup_anywhere, table;
    double max_unknown;
    int64_t queue;
} o = { .max_unknown = -1, .queue = CTR_FLOW_QUEUE };

static const struct ctr_opt opts[] = {
    { "fit", 0, CTR_OPT_STR, "PLAN", "fit the plan's vocabularies, quantiles and scales, and write a fitted plan",
      &o.fit, CTR_OPT_PATH | CTR_OPT_BASIC },
    { "names", 0, CTR_OPT_STR, "FILE", "write a readable name of each key to FILE", &o.names,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "key-seed", 0, CTR_OPT_STR, "FILE", "hash keys with the secret in FILE", &o.key_seed, CTR_OPT_PATH },
    { "lookup-anywhere", 0, CTR_OPT_FLAG, NULL,
      "allow lookup() in a fitted plan or model to read files outside its folder", &o.lookup_anywhere, CTR_OPT_LOCAL },
    { "table", 0, CTR_OPT_FLAG, NULL, "the input is the result of the plan's statements, which are not run", &o.table,
      CTR_OPT_LOCAL },
    CTR_OPT_QUEUE(o.queue, NULL),
    CTR_OPT_BAD_ROWS(o.bad_rows, CTR_OPT_LOCAL, NULL),
    CTR_OPT_MAX_UNKNOWN("fail when more of the values of a vocabulary are none of its own", o.max_unknown),
    { "explain", 0, CTR_OPT_FLAG, NULL, "print the plan's layers, types and memory", &o.explain,
      CTR_OPT_LOCAL | CTR_OPT_BASIC },
    { "dot", 0, CTR_OPT_FLAG, NULL, "print the plan as a graph for Graphviz", &o.dot, CTR_OPT_LOCAL },
    { "place", 0, CTR_OPT_LIST, "NODE=cpu|gpu",
      "force an operator onto the CPU or the GPU (with --device gpu or --explain)", &o.place, CTR_OPT_LOCAL },
    { "launch", 0, CTR_OPT_CHOICE, "meta|graph|each",
      "with --device gpu: run a layer as one kernel, a CUDA graph or single kernels (default meta)", &o.launch,
      CTR_OPT_LOCAL },
    { "inputs", 0, CTR_OPT_FLAG, NULL, "print the columns that the plan reads", &o.inputs,
      CTR_OPT_LOCAL | CTR_OPT_BASIC },
    { "list-ops", 0, CTR_OPT_FLAG, NULL, "list the operators of the plan language", &o.list_ops,
      CTR_OPT_LOCAL | CTR_OPT_BASIC },
    { 0 },
};

struct job {
    struct ctr_cli *cli;
    const char *path; /* of the plan */
    struct ctr_plan *plan;
    struct ctr_program *program;
    struct ctr_reader *r;        /* the main stream, of `source`; NULL: the plan reads views */
    struct ctr_flow_views views; /* of a plan with statements */
    struct ctr_buf part;         /* one of several processes: the name of its output */
    struct ctr_batch_source source;
    int64_t rows; /* rows read */
    struct ctr_out *out, *names;
    struct ctr_writer *w;
    struct ctr_spellings *spellings; /* -v */
};

/* Which way a call takes:
 *
 *     PLAN FILE…         open_stream, ctr_program_bind to its columns, then `extract`: a batch in, batches out
 *     PLAN VIEW=FILE…    open_views: the statements of the plan run in threads (ctr_flow_open), and their result is the
 *                        source that is extracted
 *     --fit PLAN         `fit`: the same sources, but batches go to ctr_program_fit; the fitted plan is the output
 *     --explain, --dot   the program is bound to the input's columns and printed; no row is extracted
 *     --inputs           print_inputs: no program, as no stream need be there
 *
 * --memory is divided before anything is read: of 8G with statements and --names, statements take 4G, the names 3G and
 * the program 1G (statements_share, growing_share, program_share). */

/* ---- views ---- */

static bool reads_views(const struct job *j)
{
    return ctr_plan_statement(j->plan, 0) && !o.table;
}

/* Counts of rows are those of this process. */
static void note(void *ctx, const char *text)
{
    const struct ctr_cli *cli = ctx;
    if (cli->ranks.size)
        ctr_cli_note(cli, "rank %d: %s", cli->ranks.rank, text);
    else
        ctr_cli_note(cli, "%s", text);
}

static void debug(void *ctx, const char *text)
{
    ctr_cli_debug(ctx, "%s", text);
}

static int take_views(struct job *j, int first, struct ctr_err *err)
{
    struct ctr_cli *cli = j->cli;
    int rc = ctr_flow_views(&j->views, j->plan, cli->args + first, cli->nargs - first, err);
    for (int i = 0; rc == 0 && i < j->views.n; i++)
        rc = ctr_cli_read(cli, j->views.file[i].path, err);
    return rc;
}

/* ---- one of several processes ---- */

/* mpirun with %d in -o: each process extracts its part of the rows, to a file with its number. They say nothing to each
 * other, so that a shell may start them as well. */
static int take_part(struct job *j, struct ctr_err *err)
{
    struct ctr_cli *cli = j->cli;
    const char *at = cli->out ? strstr(cli->out, "%d") : NULL;
    struct ctr_cli_ranks *r = &cli->ranks;
    if (!at || !ctr_comm_place(&r->rank, &r->size, &r->local)) {
        *r = (struct ctr_cli_ranks){ 0 };
        return 0;
    }
    if (strchr(at + 1, '%') || strchr(cli->out, '%') != at)
        return ctr_cli_usage(err, "ranks (mpirun) write a file each: -o wants one %%d for the number, such as "
                                  "part-%%d.arrows");
    if (o.fit || o.names || o.explain || o.dot || o.inputs || o.list_ops)
        return ctr_cli_usage(err,
                             "%s is of all rows, and each of the ranks (mpirun) has a part of them: run it "
                             "without mpirun, or leave %%d out of -o",
                             o.fit       ? "--fit"
                             : o.names   ? "--names"
                             : o.explain ? "--explain"
                             : o.dot     ? "--dot"
                             : o.inputs  ? "--inputs"
                                         : "--list-ops");
    if (o.bad_rows && strcmp(o.bad_rows, "fail") != 0)
        return ctr_cli_usage(err, "--bad-rows: ranks (mpirun) count no bad rows together: leave them out before, by "
                                  "ctr-select --where");
    int rc = ctr_buf_printf(&j->part, err, "%.*s%d%s", (int)(at - cli->out), cli->out, r->rank, at + 2);
    if (rc == 0)
        rc = ctr_buf_append(&j->part, "", 1, err);
    cli->out = rc ? cli->out : (const char *)j->part.data;
    return rc;
}

/* Of reading: the part of this process. */
static struct ctr_reader_opts part_of(const struct job *j)
{
    const struct ctr_cli_ranks *r = &j->cli->ranks;
    return (struct ctr_reader_opts){ .part = r->rank, .parts = r->size > 1 ? r->size : 0 };
}

/* ---- what prints only ---- */

static int print(struct job *j, const struct ctr_buf *b, struct ctr_err *err)
{
    int rc = ctr_cli_out(j->cli, 0, &j->out, err);
    if (rc == 0)
        rc = ctr_out_write(j->out, b->data, b->len, err);
    return rc < 0 ? rc : ctr_out_commit(j->out, err);
}

static int list_ops(struct job *j, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc = 0;
    for (int i = 0; rc >= 0 && ctr_op_at(i); i++)
        rc = ctr_buf_printf(&b, err, "%s\t%s\t%s\n", ctr_op_name(ctr_op_at(i)), ctr_op_signature(ctr_op_at(i)),
                            ctr_op_help(ctr_op_at(i)));
    rc = rc < 0 ? rc : print(j, &b, err);
    ctr_buf_free(&b);
    return rc;
}

static int print_column(void *ctx, const char *view, const char *column, struct ctr_err *err)
{
    int rc = ctr_buf_quote(ctx, view, strlen(view), err);
    if (rc == 0)
        rc = ctr_buf_append(ctx, "\t", 1, err);
    if (rc == 0)
        rc = ctr_buf_quote(ctx, column, strlen(column), err);
    return rc < 0 ? rc : ctr_buf_append(ctx, "\n", 1, err);
}

/* Print the columns that the plan reads; per view, if it has views. */
static int print_inputs(struct job *j, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    const struct ctr_strs *in = ctr_plan_inputs(j->plan);
    const bool views = reads_views(j);
    int rc = views ? take_views(j, 1, err) : ctr_cli_args(j->cli, 1, 1, err);
    if (rc == 0 && views)
        rc = ctr_flow_inputs(j->plan, &j->views, print_column, &b, err);
    for (int i = 0; rc >= 0 && !views && i < in->n; i++)
        if (!(rc = ctr_buf_quote(&b, in->s[i], strlen(in->s[i]), err)))
            rc = ctr_buf_append(&b, "\n", 1, err);
    rc = rc < 0 ? rc : print(j, &b, err);
    ctr_buf_free(&b);
    return rc;
}

/* --device: the program runs on a GPU; with auto on the CPU where there is none. */
static int open_gpu(struct job *j, struct ctr_err *err)
{
    struct ctr_gpu_opts go = { .device = j->cli->device,
                               .optional = !strcmp(j->cli->device, "auto"),
                               .memory_bytes = j->cli->device_memory_bytes,
                               .note = note,
                               .debug = debug,
                               .ctx = j->cli };
    int rc = o.launch ? ctr_gpu_launch_of(o.launch, &go.launch, err) : 0;
    return rc < 0 || !strcmp(j->cli->device, "cpu") ? rc : ctr_program_gpu(j->program, &go, &o.place, err);
}

static int explain(struct job *j, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    const struct ctr_place_opts po = { &o.place, j->cli->device_memory_bytes };
    int rc = open_gpu(j, err);
    if (rc == 0 && !ctr_program_on_gpu(j->program))
        rc = ctr_program_place(j->program, &po, err);
    if (rc == 0 && !o.dot)
        rc = ctr_flow_explain(j->plan, &b, err);
    if (rc == 0)
        rc = o.dot ? ctr_program_dot(j->program, &b, err) : ctr_program_explain(j->program, &b, err);
    if (rc == 0)
        rc = print(j, &b, err);
    ctr_buf_free(&b);
    return rc;
}

/* ---- shares of --memory ---- */

/* Statements take half of it; of the rest, what grows with the rows (names, or a fitted state) three quarters. */
static int64_t statements_share(const struct job *j)
{
    return reads_views(j) ? (j->cli->memory_bytes + 1) / 2 : 0;
}

static int64_t growing_share(const struct job *j)
{
    return o.names || o.fit ? (j->cli->memory_bytes - statements_share(j)) / 4 * 3 : 0;
}

static int64_t program_share(const struct job *j)
{
    return j->cli->memory_bytes - statements_share(j) - growing_share(j);
}

/* ---- input ---- */

/* A stream that was already extracted has keys instead of values: keys of keys match no model. */
static void note_extracted(const struct job *j)
{
    const struct ctr_strs *in = ctr_plan_inputs(j->plan);
    const struct ctr_schema *s = ctr_batch_source_schema(&j->source);
    if (!ctr_meta_get(&s->meta, CTR_META_PLAN_ID))
        return;
    for (int i = 0, column; i < in->n; i++)
        if ((column = ctr_schema_find(s, in->s[i])) >= 0 && ctr_field_role(&s->f[column]) == CTR_ROLE_FEATURE) {
            ctr_cli_warn(
                j->cli,
                "column %s holds the keys that another ctr-extract made, not what they were made of: ctr-train "
                "and ctr-predict take such a stream as it is",
                in->s[i]);
            return;
        }
}

static int open_views(struct job *j, int first, struct ctr_err *err)
{
    struct ctr_cli *cli = j->cli;
    const struct ctr_reader_opts part = part_of(j);
    const struct ctr_flow_opts fo = { .threads = (int)CTR_MIN(cli->jobs, (int64_t)1024),
                                      .queue = (int)o.queue,
                                      .memory_bytes = statements_share(j),
                                      .batch_rows = cli->batch_rows,
                                      .reader = part.parts ? &part : NULL,
                                      .last = "extract",
                                      .note = note,
                                      .debug = debug,
                                      .time_line = cli->verbose > 1,
                                      .ctx = cli };
    int rc = part.parts ? ctr_flow_parts(j->plan, err) : 0;
    if (rc == 0)
        rc = take_views(j, first, err);
    return rc < 0 ? rc : ctr_flow_open(&j->source, j->plan, &j->views, &fo, err);
}

static int open_part(struct job *j, int first, struct ctr_reader_opts *ro, struct ctr_err *err)
{
    struct ctr_shard_files files = { 0 };
    int rc = ctr_cli_inputs(j->cli, first, err);
    if (rc == 0)
        rc = ctr_shard_files(ro->part, ro->parts, j->cli->args + first, j->cli->nargs - first, &files, err);
    ro->part = files.part;
    ro->parts = files.parts;
    if (rc == 0)
        rc = ctr_reader_open(&j->r, files.path, files.n, ro, err);
    free(files.path);
    return rc;
}

static int open_stream(struct job *j, int first, struct ctr_err *err)
{
    struct ctr_reader_opts ro = part_of(j);
    ro.foreign = true;
    int rc = ro.parts ? open_part(j, first, &ro, err) : ctr_cli_reader(j->cli, first, &ro, &j->r, err);
    if (rc == 0)
        j->source = ctr_batch_source_stream(j->r);
    return rc;
}

static int open_input(struct job *j, int first, struct ctr_err *err)
{
    int rc = (reads_views(j) ? open_views : open_stream)(j, first, err);
    if (rc < 0) {
        struct ctr_err plan = { 0 };
        if (ctr_plan_check(j->plan, &plan) < 0) /* reports the first error */
            *err = plan;
        return err->code;
    }
    if (rc == 0)
        rc = ctr_cli_bad_rows(j->cli, o.bad_rows, err);
    if (rc == 0)
        rc = ctr_plan_narrow(j->plan, &j->source, j->cli->bad, err);
    if (rc == 0)
        note_extracted(j);
    if (rc == 0)
        rc = ctr_program_bind(&j->program, j->plan, ctr_batch_source_schema(&j->source), err);
    if (rc == 0 && !(o.explain || o.dot) && !(o.fit && !o.bad_rows)) /* a fit does not look at roles unasked */
        rc = ctr_plan_good_rows(&j->source, j->plan, j->cli->bad, false, err);
    if (rc == 0)
        ctr_program_memory(j->program, program_share(j));
    if (rc == 0 && j->cli->verbose && !(o.explain || o.dot))
        rc = ctr_spellings_new(&j->spellings, j->program, err);
    return rc < 0 ? rc : ctr_program_threads(j->program, (int)CTR_MIN(j->cli->jobs, (int64_t)1024), err);
}

/* ---- --fit ---- */

static int check_fit(struct job *j, struct ctr_err *err)
{
    const uint64_t need = (uint64_t)ctr_program_fit_memory(j->program), most = (uint64_t)growing_share(j);
    if (!most || need <= most)
        return 0;
    return ctr_fail(err, CTR_ENOMEM,
                    "--fit needs %s after %lld rows, and of --memory it may take %s: give more, fewer rows, or a "
                    "vocab of hashed values (hash_bits)",
                    ctr_size_text_beyond(need, most).s, (long long)j->rows, ctr_size_text(most).s);
}

/* The next batch of the input, of which -v counts the spellings. */
static int next_batch(struct job *j, const struct ctr_batch **b, struct ctr_err *err)
{
    const int rc = ctr_batch_source_next(&j->source, b, err);
    if (rc > 0 && j->spellings && ctr_spellings_see(j->spellings, *b, err))
        return err->code;
    j->rows += rc > 0 ? (*b)->rows : 0;
    return rc;
}

static int fit(struct job *j, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc;
    if (!ctr_plan_needs_fit(j->plan) && (rc = ctr_plan_check(j->plan, err)) == 0) {
        ctr_err_file(err, j->path);
        return ctr_fail(err, CTR_EUSAGE,
                        "there is nothing to fit: the plan has no vocab, quantiles or scale, or is fitted already");
    }
    rc = open_input(j, 0, err);
    if (rc == 0)
        rc = ctr_cli_out(j->cli, CTR_OUT_BINARY, &j->out, err);
    while (rc == 0 && (rc = next_batch(j, &b, err)) > 0) {
        rc = ctr_program_fit(j->program, b, err);
        if (rc == 0)
            rc = check_fit(j, err);
        ctr_cli_progress(j->cli, j->rows, j->r ? ctr_reader_total_rows(j->r) : -1);
    }
    if (rc == 0 && !j->rows)
        ctr_cli_note(j->cli, "the input has no rows: nothing is fitted");
    if (rc == 0)
        rc = ctr_cli_bad_rows_finish(j->cli, err);
    if (rc == 0)
        rc = ctr_program_fit_finish(j->program, err);
    if (rc == 0)
        rc = ctr_program_fit_save(j->program, j->out, err);
    if (rc == 0 && j->spellings)
        ctr_spellings_tell(j->spellings, note, j->cli);
    return rc < 0 ? rc : ctr_out_commit(j->out, err);
}

/* ---- extract ---- */

static int save_names(struct job *j, struct ctr_err *err)
{
    int64_t collisions;
    int rc = ctr_program_names_save(j->program, j->names, &collisions, err);
    if (rc == 0)
        rc = ctr_out_commit(j->names, err);
    if (rc == 0 && collisions)
        ctr_cli_warn(j->cli, "--names: %lld pairs of names share a key, such as %s", (long long)collisions,
                     ctr_program_names_collision(j->program, 0));
    return rc;
}

/* Report values that are not in fitted vocabularies. */
static int tell_unknown(struct job *j, struct ctr_err *err)
{
    struct ctr_unseen *u = NULL, one;
    int n = 0, cap = 0, rc = 0;
    while (rc == 0 && (one.name = ctr_program_unknown(j->program, n, &one.n, &one.unknown)))
        if ((rc = ctr_array_grow(&u, n, &cap, sizeof *u, err)) == 0)
            u[n++] = one;
    if (rc == 0)
        rc = ctr_cli_unseen(j->cli, j->cli->args[0], "values", u, n, o.max_unknown, err);
    free(u);
    return rc;
}

static int open_outputs(struct job *j, struct ctr_err *err)
{
    int rc = ctr_cli_out(j->cli, CTR_OUT_BINARY, &j->out, err);
    if (rc == 0)
        rc = ctr_cli_writer(j->cli, j->out, ctr_program_output(j->program), &j->w, err);
    if (rc == 0 && o.names)
        rc = ctr_cli_side_out(j->cli, o.names, CTR_OUT_BINARY, &j->names, err);
    return rc < 0 || !o.names ? rc : ctr_program_names_start(j->program, growing_share(j), err);
}

/* Options for a GPU, where there is none. */
static int check_unused(struct job *j, struct ctr_err *err)
{
    const struct ctr_place_opts po = { &o.place, j->cli->device_memory_bytes };
    if (o.place.n || o.launch || j->cli->device_memory_bytes)
        ctr_cli_note(j->cli,
                     "every operator runs on the CPU: --place, --launch and --device-memory are for --device gpu");
    return o.place.n ? ctr_program_place(j->program, &po, err) : 0;
}

static int extract(struct job *j, struct ctr_err *err)
{
    const struct ctr_batch *b, *out;
    int rc = open_outputs(j, err);
    if (rc == 0)
        rc = open_gpu(j, err);
    if (rc == 0 && !ctr_program_on_gpu(j->program))
        rc = check_unused(j, err);
    if (rc == 0 && ctr_program_unlabelled(j->program))
        ctr_cli_warn(j->cli, "the input lacks what the label of %s reads: there will be no label", j->path);
    while (rc == 0 && (rc = next_batch(j, &b, err)) > 0) {
        rc = ctr_program_run(j->program, b, &out, err);
        for (int more = 1; rc == 0 && more > 0;) {
            rc = ctr_writer_batch(j->w, out, err);
            if (rc == 0 && out->rows < b->rows) /* flush parts, so that they do not accumulate in the writer */
                rc = ctr_writer_flush(j->w, err);
            if (rc == 0)
                rc = CTR_MIN(more = ctr_program_more(j->program, &out, err), 0);
        }
        if (rc < 0)
            ctr_err_file(err, ctr_batch_source_name(&j->source));
        ctr_cli_progress(j->cli, j->rows, j->r ? ctr_reader_total_rows(j->r) : -1);
    }
    if (rc == 0)
        ctr_program_gpu_say(j->program);
    if (rc == 0)
        rc = tell_unknown(j, err);
    if (rc == 0)
        ctr_program_tell_floats(j->program, j->rows, note, j->cli);
    if (rc == 0 && j->spellings)
        ctr_spellings_tell(j->spellings, note, j->cli);
    if (rc == 0 && o.names)
        rc = save_names(j, err);
    return rc < 0 ? rc : ctr_cli_finish(j->cli, j->w, j->out, err);
}

static int with_plan(struct job *j, struct ctr_err *err)
{
    int first = o.fit ? 0 : 1, rc = ctr_cli_args(j->cli, first, -1, err);
    if (rc < 0)
        return rc;
    j->path = o.fit ? o.fit : j->cli->args[0];
    rc = ctr_cli_reread(j->cli, &j->path, err);
    if (rc == 0 && o.key_seed)
        rc = ctr_cli_read(j->cli, o.key_seed, err);
    if (rc == 0)
        rc = (o.inputs ? ctr_plan_open : ctr_plan_open_all)(&j->plan, j->path, err);
    if (rc < 0) {
        ctr_plan_tell_misplaced(j->cli->args + first, j->cli->nargs - first, err);
        return rc;
    }
    if (o.key_seed && (rc = ctr_plan_key_seed(j->plan, o.key_seed, err)) < 0)
        return rc;
    if (o.table && !ctr_plan_statement(j->plan, 0))
        rc = ctr_plan_check(j->plan, err);
    if (o.table && rc == 0)
        rc = ctr_flow_table(j->plan, j->path, j->cli->args + first, j->cli->nargs - first, err);
    if (rc < 0)
        return rc;
    if ((rc = ctr_cli_queue(j->cli, o.queue, reads_views(j), err)) < 0)
        return rc;
    if (o.lookup_anywhere)
        ctr_plan_lookup_anywhere(j->plan);
    if (o.inputs)
        return print_inputs(j, err);
    if (o.fit)
        return fit(j, err);
    if (!o.explain && !o.dot && ctr_plan_needs_fit(j->plan) && (rc = ctr_plan_check(j->plan, err)) == 0) {
        ctr_err_file(err, j->path);
        return ctr_fail(err, CTR_EUSAGE,
                        "the plan needs fitting first: ctr-extract --fit %s -o FITTED FILE…, then ctr-extract FITTED",
                        j->path);
    }
    rc = open_input(j, first, err);
    if (rc < 0)
        return rc;
    return o.explain || o.dot ? explain(j, err) : extract(j, err);
}

static int extract_features(struct ctr_cli *cli, struct ctr_err *err)
{
    struct job j = { .cli = cli };
    if (o.fit && o.names)
        return ctr_cli_usage(err, "--names belongs to extraction: name the keys with ctr-extract FITTED --names FILE");
    int rc = take_part(&j, err);
    if (rc == 0)
        rc = ctr_cli_max_unknown(o.max_unknown, err);
    if (rc == 0 && (o.fit || o.inputs || o.list_ops))
        rc = ctr_cli_device(cli, false, o.fit ? "ctr-extract --fit" : "ctr-extract without extraction", err);
    if (rc == 0)
        rc = o.list_ops ? list_ops(&j, err) : with_plan(&j, err);
    ctr_spellings_free(j.spellings);
    ctr_program_free(j.program);
    ctr_writer_free(j.w);
    ctr_out_free(j.names);
    ctr_out_free(j.out);
    ctr_batch_source_close(&j.source); /* it may use the plan's statements */
    ctr_flow_views_free(&j.views);
    ctr_buf_free(&j.part);
    ctr_plan_free(j.plan);
    return rc;
}

const struct ctr_tool ctr_tool = {
    "ctr-extract",
    "make features as a plan says",
    "PLAN|FITTED|MODEL [FILE…|VIEW=FILE…]\n--fit PLAN -o FITTED [FILE…|VIEW=FILE…]\n--inputs PLAN "
    "[VIEW=FILE…]\n--list-ops",
    NULL,
    opts,
    CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY | CTR_TOOL_DEVICE,
    extract_features,
};
