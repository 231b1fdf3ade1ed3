/* SPDX-License-Identifier: Apache-2.0
 *
 * export_jsonl: one JSON object per line. A column named user.id becomes the member id of the object user; the members
 * of an object are together, at the position of the first. The text between two values is constant, so it is generated
 * once: a row is a sequence of (text, column) steps.
 */
#include "tools/ctr-export/export_format.h"
#include <stdlib.h>

struct step {
    size_t text, n; /* in jsonl.text: the text before the value */
    int column;
};

struct jsonl {
    struct step *step;
    bool *nested; /* per column: its name is a path */
    int steps;
    struct ctr_buf text;
    size_t tail, tail_n; /* closing brackets and the newline */
};

enum { MAX_DEPTH = 32 };

/* Is a name with dots a path? Not if a part is empty, if it has very many, or if it is below another column: `user` and
 * `user.id` would make user both a value and an object, so the second keeps its dot. */
static bool is_path(const struct ctr_export *e, const char *name)
{
    size_t dots = 0;

    if (e->opts.flat || name[0] == '.' || strstr(name, ".."))
        return false;
    for (const char *p = name; (p = strchr(p, '.')) != NULL; p++) {
        if (!p[1] || ++dots >= MAX_DEPTH)
            return false;
        for (int k = 0; k < e->schema.n; k++)
            if (strlen(e->schema.f[k].name) == (size_t)(p - name) &&
                !memcmp(e->schema.f[k].name, name, (size_t)(p - name)))
                return false;
    }
    return dots > 0;
}

static size_t part_end(const struct jsonl *j, int column, const char *name, size_t from)
{
    const char *dot = j->nested[column] ? strchr(name + from, '.') : NULL;
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* Write the members of the object whose path is the first `depth` bytes of column `like` (depth 0: the row): each of
 * its columns not yet done, and for a deeper one that whole object. */
static int object(struct ctr_export *e, struct jsonl *j, bool *done, int like, size_t depth, struct ctr_err *err)
{
    const char *path = e->schema.f[like].name;
    bool first = true;

    if (ctr_put(&j->text, "{", 1, err) < 0)
        return CTR_ENOMEM;
    for (int k = 0; k < e->schema.n; k++) {
        const char *name = e->schema.f[k].name;
        size_t from = depth ? depth + 1 : 0, end;
        int rc;
        if (done[k] || (depth && (!j->nested[k] || strncmp(name, path, depth) || name[depth] != '.')))
            continue;
        end = part_end(j, k, name, from);
        if ((!first && (rc = ctr_put(&j->text, ",", 1, err)) < 0) ||
            (rc = ctr_json_quote(&j->text, name + from, end - from, err)) < 0 ||
            (rc = ctr_put(&j->text, ":", 1, err)) < 0)
            return rc;
        first = false;
        if (name[end]) {
            if ((rc = object(e, j, done, k, end, err)) < 0 || (rc = ctr_put(&j->text, "}", 1, err)) < 0)
                return rc;
            continue;
        }
        done[k] = true;
        j->step[j->steps].n = j->text.len - j->step[j->steps].text;
        j->step[j->steps++].column = k;
        j->step[j->steps].text = j->text.len;
    }
    return 0;
}

static int start(struct ctr_export *e, struct ctr_buf *head, struct ctr_err *err)
{
    struct jsonl *j = calloc(1, sizeof(*j));
    bool *done = calloc((size_t)e->schema.n + 1, 1);

    (void)head;
    e->state = j;
    if (j) {
        j->step = calloc((size_t)e->schema.n + 1, sizeof(*j->step));
        j->nested = calloc((size_t)e->schema.n + 1, sizeof(*j->nested));
    }
    if (!j || !j->step || !j->nested || !done) {
        free(done);
        return ctr_fail_nomem(err, (size_t)e->schema.n * sizeof(*j->step));
    }
    for (int k = 0; k < e->schema.n; k++)
        j->nested[k] = is_path(e, e->schema.f[k].name);
    int rc = e->schema.n ? object(e, j, done, 0, 0, err) : ctr_put(&j->text, "{", 1, err);
    free(done);
    if (rc < 0)
        return rc;
    j->tail = j->step[j->steps].text;
    if ((rc = ctr_put(&j->text, "}\n", 2, err)) < 0)
        return rc;
    j->tail_n = j->text.len - j->tail;
    return 0;
}

static int rows(const struct ctr_export *e, const struct ctr_batch *b, int64_t from, int64_t to,
                struct ctr_export_tile *t, struct ctr_err *err)
{
    const struct jsonl *j = e->state;

    for (int64_t i = from; i < to; i++) {
        for (int k = 0; k < j->steps; k++) {
            const struct step *s = &j->step[k];
            int rc = ctr_put(&t->text, j->text.data + s->text, s->n, err);
            if (rc == 0)
                rc = ctr_put_json(&t->text, &b->col[s->column], i, err);
            if (rc < 0)
                return rc;
        }
        if (ctr_put(&t->text, j->text.data + j->tail, j->tail_n, err) < 0)
            return CTR_ENOMEM;
    }
    return 0;
}

static void stop(struct ctr_export *e)
{
    struct jsonl *j = e->state;

    if (!j)
        return;
    free(j->step);
    free(j->nested);
    ctr_buf_free(&j->text);
    free(j);
}

const struct ctr_export_format ctr_export_jsonl = { "jsonl", CTR_EXPORT_FLAT, false, start, rows, NULL, stop };
