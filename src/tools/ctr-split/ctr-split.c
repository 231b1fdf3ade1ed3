/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-split: divides a stream into shards by key or round robin. Invariant: shard 0 is renamed into place last, after
 * every one was written completely, so that it stands for all. */
#include "common/cli/cli.h"
#include "tools/ctr-split/split.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_SHARDS = 65536, SPARE_FILES = 16 /* for the input and other open files */ };

static struct {
    int64_t shards;
    const char *by;
} o;

static const struct ctr_opt opts[] = {
    { "shards", 'n', CTR_OPT_INT, "N", "number of shards", &o.shards, 0 },
    { "by", 'b', CTR_OPT_STR, "COL,…",
      "put rows with equal keys into one shard (default: rows go to the shards in turn)", &o.by, CTR_OPT_ONCE },
    { 0 },
};

struct shards { /* [o.shards] */
    struct ctr_out **out;
    struct ctr_writer **w;
};

static int open_shards(struct ctr_cli *cli, const struct ctr_schema *s, struct shards *shard, struct ctr_err *err)
{
    struct rlimit files;
    struct ctr_buf name = { 0 };
    int rc = 0;

    if (!getrlimit(RLIMIT_NOFILE, &files)) { /* one descriptor per shard: raise the limit as far as allowed */
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    for (int i = 0; !rc && i < o.shards; i++) {
        rc = ctr_split_name(cli->out, i, &name, err);
        if (!rc)
            rc = ctr_cli_spares_inputs(cli, (const char *)name.data, err);
        if (!rc)
            rc = ctr_out_open(&shard->out[i], (const char *)name.data, CTR_OUT_BINARY, err);
        if (!rc)
            rc = ctr_cli_writer(cli, shard->out[i], s, &shard->w[i], err);
        if (rc && (err->sys == EMFILE || err->sys == ENFILE)) {
            errno = err->sys;
            rc = ctr_fail_sys(err,
                              "%lld shards need as many open files, and there can be %d here: raise the limit (ulimit "
                              "-n %lld), or split into fewer shards and each of them again",
                              (long long)o.shards, i, (long long)o.shards + SPARE_FILES);
        }
        cli->idle_writer = NULL; /* shards are not read while they are written */
    }
    ctr_buf_free(&name);
    return rc;
}

static int deal(struct shards *shard, struct ctr_split *split, const struct ctr_batch *b, struct ctr_batchbuf *rows,
                struct ctr_err *err)
{
    const int64_t *row, *start;
    int rc = ctr_split_batch(split, b, &row, &start, err);

    for (int i = 0; !rc && i < o.shards; i++) {
        if (start[i] == start[i + 1])
            continue;
        ctr_batchbuf_clear(rows);
        rc = ctr_batchbuf_gather(rows, b, row + start[i], start[i + 1] - start[i], err);
        if (!rc)
            rc = ctr_writer_batch(shard->w[i], ctr_batchbuf_view(rows), err);
    }
    return rc;
}

/* A shard of that number is left of a run with more shards, and part-* would read it, too. */
static int note_left(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    int rc = ctr_split_name(cli->out, (int)o.shards, &name, err);
    if (!rc && !access((const char *)name.data, F_OK))
        ctr_cli_note(cli, "%s is there, too, of a run with more shards", (const char *)name.data);
    ctr_buf_free(&name);
    return rc;
}

static int finish(struct ctr_cli *cli, struct shards *shard, struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < o.shards; i++)
        rc = ctr_writer_finish(shard->w[i], err);
    if (!rc)
        rc = ctr_out_commit_all(shard->out, (int)o.shards, err);
    for (int i = 0; !rc && i < o.shards; i++)
        ctr_cli_debug(cli, "%s: %lld rows", ctr_out_name(shard->out[i]), (long long)ctr_writer_rows(shard->w[i]));
    return rc ? rc : note_left(cli, err);
}

static int split_all(struct ctr_cli *cli, struct ctr_reader *r, struct ctr_split *split, struct shards *shard,
                     struct ctr_err *err)
{
    struct ctr_batchbuf rows;
    const struct ctr_batch *b;
    int rc = ctr_batchbuf_init(&rows, ctr_reader_schema(r), err);

    if (rc)
        return rc;
    rc = open_shards(cli, ctr_reader_schema(r), shard, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = deal(shard, split, b, &rows, err);
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    if (!rc)
        rc = finish(cli, shard, err);
    ctr_batchbuf_free(&rows);
    return rc;
}

static int check_options(const struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    int rc = 0;

    if (o.shards < 1 || o.shards > MAX_SHARDS)
        rc = ctr_cli_usage(err, "--shards N says how many, 1 to %d", MAX_SHARDS);
    else if (!cli->out)
        rc = ctr_cli_usage(err, "name the shards: -o 'part-%%02d.arrows'");
    else
        rc = ctr_split_name(cli->out, 0, &name, err);
    ctr_buf_free(&name);
    return rc;
}

static int split_rows(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_reader *r = NULL;
    struct ctr_split *split = NULL;
    struct shards shard = { 0 };
    int rc = check_options(cli, err);

    if (!rc)
        rc = ctr_cli_reader(cli, 0, NULL, &r, err);
    if (!rc)
        rc = ctr_split_new(&split, ctr_reader_schema(r), o.by, (int)o.shards, err);
    if (!rc && (!(shard.out = calloc((size_t)o.shards, sizeof(struct ctr_out *))) ||
                !(shard.w = calloc((size_t)o.shards, sizeof(struct ctr_writer *)))))
        rc = ctr_fail_nomem(err, (size_t)o.shards * 2 * sizeof(struct ctr_out *));
    if (!rc)
        rc = split_all(cli, r, split, &shard, err);
    for (int i = 0; shard.w && i < o.shards; i++) {
        ctr_writer_free(shard.w[i]);
        ctr_out_free(shard.out[i]);
    }
    free(shard.out);
    free(shard.w);
    ctr_split_free(split);
    ctr_reader_free(r);
    return rc;
}

const struct ctr_tool ctr_tool = { "ctr-split",
                                   "cut a stream into shards, by key or in turn",
                                   "--shards N [--by COL,…] -o 'part-%02d.arrows' [FILE…]",
                                   NULL,
                                   opts,
                                   CTR_TOOL_READS | CTR_TOOL_WRITES,
                                   split_rows };
