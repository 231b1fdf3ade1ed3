/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-model: look into models. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/cli/cli.h"
#include "common/model/model.h"

static struct {
    const char *names, *format;
    int64_t n;
    bool by_table;
} o = { .n = 20, .format = "table" };

static const struct ctr_opt opts[] = {
    { "count", 'n', CTR_OPT_INT, "N", "show N weights (0: all that are not 0; default 20)", &o.n, 0 },
    { "by-table", 0, CTR_OPT_FLAG, NULL, "show N weights of each table", &o.by_table, 0 },
    { "names", 0, CTR_OPT_STR, "NAMES", "readable names, from ctr-extract --names", &o.names, CTR_OPT_PATH },
    { "format", 0, CTR_OPT_CHOICE, "table|stream", "a table for people, or a stream (default table)", &o.format, 0 },
    { 0 },
};

/* Text that cannot move the cursor: control characters become '?'. */
static int print_text(struct ctr_out *out, struct ctr_str s, struct ctr_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < s.n && !rc; i++) {
        char c = s.p[i];
        rc = ctr_out_write(out, (unsigned char)c < 32 || c == 127 ? "?" : &c, 1, err);
    }
    return rc;
}

static int print_row(struct ctr_out *out, const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    double w = ctr_col_f64(&b->col[4], i);
    int rc = ctr_out_printf(out, err, fabs(w) < 1e6 ? "%+10.6f  " : "%+10.4g  ", w);
    if (!rc && !ctr_col_null(&b->col[3], i))
        rc = ctr_out_printf(out, err, "%10" PRId64 "  ", ctr_col_i64(&b->col[3], i));
    else if (!rc)
        rc = ctr_out_printf(out, err, "%10s  ", "-");
    if (!rc)
        rc = print_text(out, ctr_col_str(&b->col[0], i), err);
    struct ctr_str name = ctr_col_null(&b->col[2], i) ? (struct ctr_str){ NULL, 0 } : ctr_col_str(&b->col[2], i);
    if (!rc && !name.p)
        rc = ctr_out_printf(out, err, "=#%016" PRIx64, ((const uint64_t *)b->col[1].data)[i]);
    else if (!rc && name.n && !(rc = ctr_out_write(out, "=", 1, err)))
        rc = print_text(out, name, err);
    return rc ? rc : ctr_out_write(out, "\n", 1, err);
}

/* Where the rows go. */
struct printer {
    struct ctr_cli *cli;
    struct ctr_out *out;
    struct ctr_writer *w; /* of a stream */
    bool begun;
};

static int print_table(void *ctx, const struct ctr_batch *b, struct ctr_err *err)
{
    struct printer *p = ctx;
    int rc = p->begun ? 0 : ctr_out_printf(p->out, err, "%10s  %10s  feature\n", "weight", "count");
    p->begun = true;
    for (int64_t i = 0; i < b->rows && !rc; i++)
        rc = print_row(p->out, b, i, err);
    return rc;
}

static int print_stream(void *ctx, const struct ctr_batch *b, struct ctr_err *err)
{
    struct printer *p = ctx;
    int rc = p->w ? 0 : ctr_cli_writer(p->cli, p->out, b->schema, &p->w, err);
    return rc || !b->rows ? rc : ctr_writer_batch(p->w, b, err);
}

static int top(struct ctr_cli *cli, struct ctr_err *err)
{
    const struct ctr_top_opts to = { .n = o.n, .by_table = o.by_table, .names = o.names };
    const bool table = !strcmp(o.format, "table");
    struct printer p = { .cli = cli };
    const char *model = cli->args[1];
    int rc = ctr_cli_out(cli, table ? 0 : CTR_OUT_BINARY, &p.out, err);
    if (!rc)
        rc = ctr_cli_reread(cli, &model, err);
    if (!rc && o.names)
        rc = ctr_cli_read(cli, o.names, err);
    if (!rc)
        rc = ctr_model_top(model, &to, table ? print_table : print_stream, &p, err);
    if (!rc)
        rc = table ? ctr_out_commit(p.out, err) : ctr_cli_finish(cli, p.w, p.out, err);
    ctr_writer_free(p.w);
    ctr_out_free(p.out);
    return rc;
}

/* What to do with a model: a row each. */
static const struct {
    const char *name;
    int (*run)(struct ctr_cli *cli, struct ctr_err *err);
} actions[] = { { "top", top } };

static const char *action(int i)
{
    return i < (int)CTR_COUNT(actions) ? actions[i].name : NULL;
}

static int run_tool(struct ctr_cli *cli, struct ctr_err *err)
{
    int rc = ctr_cli_args(cli, 2, 2, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < CTR_COUNT(actions); i++)
        if (!strcmp(actions[i].name, cli->args[0]))
            return actions[i].run(cli, err);
    return ctr_cli_usage(err, "no action '%s'; there is %s (ctr-model [options] top MODEL)", cli->args[0],
                         actions[0].name);
}

const struct ctr_tool ctr_tool = {
    .name = "ctr-model",
    .summary = "look into a model: its strongest weights",
    .synopsis = "top MODEL",
    .opts = opts,
    .run = run_tool,
    .word = action,
};
