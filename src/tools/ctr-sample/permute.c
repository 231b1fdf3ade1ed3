/* SPDX-License-Identifier: Apache-2.0
 *
 * permute: the rows are written to a file, which is read twice: the columns are shuffled by ctr_sort, and join the
 * other columns row by row. */
#include "tools/ctr-sample/permute.h"

#include <stdlib.h>

#include "common/rows/relation.h"
#include "common/rows/select.h"
#include "common/rows/spool.h"

struct ctr_permute {
    struct ctr_spool *rows;
    int *moved, *rest; /* columns of the rows, in their order */
    int n_moved, n_rest;
    struct ctr_strs no_keys;
};

void ctr_permute_free(struct ctr_permute *p)
{
    if (!p)
        return;
    ctr_spool_free(p->rows);
    free(p->moved);
    free(p->rest);
    free(p);
}

/* Divide the columns into those that move and the rest. *seed: of their names too, so that columns of several calls
 * move independently. */
static int choose(struct ctr_permute *p, const struct ctr_schema *s, const char *list, uint64_t *seed,
                  struct ctr_err *err)
{
    struct ctr_picks picks = { 0 };
    int rc = ctr_columns_parse(&picks, list, s, err);
    bool *moves = calloc((size_t)s->n + 1, sizeof *moves);
    p->moved = calloc((size_t)s->n + 1, sizeof *p->moved);
    p->rest = calloc((size_t)s->n + 1, sizeof *p->rest);
    if (!rc && (!moves || !p->moved || !p->rest))
        rc = ctr_fail_nomem(err, (size_t)s->n * sizeof *p->moved);
    for (int i = 0; i < picks.n && !rc; i++) {
        const char *name = s->f[picks.p[i].column].name;
        moves[picks.p[i].column] = true;
        if (strcmp(name, picks.p[i].name) != 0)
            rc = ctr_fail(err, CTR_EUSAGE, "--permute names columns, and renames none: write %s", name);
    }
    for (int i = 0; i < s->n && !rc; i++) {
        if (moves[i])
            *seed = ctr_hash64(s->f[i].name, strlen(s->f[i].name), *seed);
        *(moves[i] ? &p->moved[p->n_moved++] : &p->rest[p->n_rest++]) = i;
    }
    if (!rc && (!p->n_moved || !p->n_rest))
        rc = ctr_fail(err, CTR_EUSAGE, "--permute %s names %s column%s", list, p->n_moved ? "every" : "no",
                      p->n_moved ? ": rows change places by ctr-sort --shuffle" : "");
    free(moves);
    ctr_picks_free(&picks);
    return rc;
}

static int spool(struct ctr_permute *p, const struct ctr_batch_source *rows, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = ctr_spool_new(&p->rows, ctr_batch_source_schema(rows), err);
    while (!rc && (rc = ctr_batch_source_next(rows, &b, err)) > 0)
        rc = ctr_spool_batch(p->rows, b, err);
    return rc;
}

static int reread(struct ctr_permute *p, struct ctr_batch_source *s, const int *columns, int n, struct ctr_err *err)
{
    struct ctr_reader *r = NULL;
    int rc = ctr_spool_reread(p->rows, &r, err);
    if (rc)
        return rc;
    *s = ctr_batch_source_stream(r);
    return ctr_batch_source_project(s, columns, n, err);
}

/* Restore the order of the columns: first come the rest, then those that moved. */
static int restore(const struct ctr_permute *p, struct ctr_batch_source *s, struct ctr_err *err)
{
    const int n = p->n_moved + p->n_rest;
    int *order = calloc((size_t)n, sizeof *order);
    if (!order)
        return ctr_fail_nomem(err, (size_t)n * sizeof *order);
    for (int i = 0; i < p->n_rest; i++)
        order[p->rest[i]] = i;
    for (int i = 0; i < p->n_moved; i++)
        order[p->moved[i]] = p->n_rest + i;
    int rc = ctr_batch_source_project(s, order, n, err);
    free(order);
    return rc;
}

int ctr_permute_source(struct ctr_permute **out, struct ctr_batch_source *s, const struct ctr_batch_source *rows,
                       const struct ctr_permute_opts *o, struct ctr_err *err)
{
    struct ctr_permute *p = *out = calloc(1, sizeof *p);
    struct ctr_batch_source moved = { 0 };
    struct ctr_sort *sort;
    struct ctr_join *join = NULL;
    uint64_t seed = o->seed;
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    int rc = choose(p, ctr_batch_source_schema(rows), o->columns, &seed, err);
    if (!rc)
        rc = spool(p, rows, err);
    if (!rc)
        rc = reread(p, s, p->rest, p->n_rest, err);
    if (!rc)
        rc = reread(p, &moved, p->moved, p->n_moved, err);
    const struct ctr_sort_opts shuffle = { .keys = &p->no_keys,
                                           .shuffle = true,
                                           .seed = seed,
                                           .memory_bytes = o->memory_bytes,
                                           .batch_rows = o->batch_rows,
                                           .threads = o->threads };
    if (!rc)
        rc = ctr_sort_source(&moved, &shuffle, &sort, err);
    const struct ctr_join_opts by_row = { .how = CTR_JOIN_BY_ROW, .within_ms = -1, .batch_rows = o->batch_rows };
    if (rc)
        ctr_batch_source_close(&moved);
    else
        rc = ctr_join_new(&join, ctr_batch_source_schema(s), &moved, "the columns of --permute", &by_row, err);
    if (!rc && (rc = ctr_join_source(s, join, err)))
        ctr_join_free(join);
    return rc ? rc : restore(p, s, err);
}
