/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_names: readable names for the keys of a program. The names of a row are generated in the same order as its keys;
 * a key with two names is a collision. It has its own hash table: key, position and count are in the slot, so that a
 * known name costs one cache miss besides its text.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/plan/program.h"

struct name_slot {
    uint64_t key, count; /* count 0: free */
    uint64_t at;         /* offset in `text` of length, then bytes */
};

struct name_table {
    const char *table;
    struct name_slot *slot;
    size_t used, cap;
    struct ctr_buf text;
};

struct plan_names {
    struct name_table *t;
    int n;
    int *of;            /* table of each output column; -1: no keys */
    int64_t rows, most; /* named so far; bytes that all tables may take, 0: no bound */
    struct ctr_strs collisions;
    struct ctr_buf scratch;
};

enum { MAX_COLLISIONS = 1000 }; /* maximum listed individually */

/* The names of one row, concatenated. */
struct row_names {
    struct ctr_buf text, end; /* end: size_t each */
};

static size_t names_count(const struct row_names *r)
{
    return r->end.len / sizeof(size_t);
}
static struct ctr_str names_at(const struct row_names *r, size_t i)
{
    const size_t *end = (const size_t *)r->end.data;
    size_t from = i ? end[i - 1] : 0;
    return (struct ctr_str){ (const char *)r->text.data + from, end[i] - from };
}
static int names_close(struct row_names *r, struct ctr_err *err)
{
    return ctr_buf_append(&r->end, &r->text.len, sizeof r->text.len, err);
}
static void names_free(struct row_names *r)
{
    ctr_buf_free(&r->text);
    ctr_buf_free(&r->end);
}

/* The names of one row of "feature age_tag = cross(bucket(age, [18, 30]), tags)" with age 24 and tags ["car", "dog"]:
 * literals and columns give lists of names, of which cross makes all combinations, as it does of the values, so that
 * name i is that of key i:
 *
 *     bucket(age, …)   value 1          -> "18-29"     by its bounds, not by its number
 *     tags             "car", "dog"     -> "car" "dog"
 *     cross            two keys         -> "18-29 x car" "18-29 x dog" */

/* ---- the names of a row ---- */

#define MISSING "(missing)"

static int node_names(const struct plan_graph *g, int node, bool nulls, int64_t row, struct row_names *r,
                      struct ctr_err *err);

/* What bucket() of a column made: its thresholds; NULL: another operator, or none. */
static const struct ctr_value *thresholds_of(const struct plan_node *n)
{
    const bool is = n->kind == NODE_CALL && n->nargs == 2 && !strcmp(ctr_op_name(n->call.op), "bucket");
    return is && n->call.arg[1].literal && n->call.arg[1].literal->n ? n->call.arg[1].literal : NULL;
}

static int threshold(struct ctr_buf *to, const char *before, const struct ctr_value *v, int64_t less,
                     struct ctr_err *err)
{
    char text[CTR_NUM_MAX];
    const size_t n = v->kind == CTR_V_INT ? ctr_fmt_i64(text, v->i - less) : ctr_fmt_f64(text, v->f);
    const int rc = ctr_buf_append(to, before, strlen(before), err);
    return rc ? rc : ctr_buf_append(to, text, n, err);
}

/* The bounds of bucket k: "<18", ">=55" and between them "18-24" of integers, else "[18,25)". */
static int bucket_name(const struct plan_node *n, const struct ctr_value *at, int64_t k, struct ctr_buf *to,
                       struct ctr_err *err)
{
    const struct ctr_vtype *x = &n->call.arg[0].type;
    const enum ctr_type type = x->type == CTR_LIST || x->type == CTR_FIXED ? x->item : x->type;
    if (k <= 0)
        return threshold(to, "<", &at->list[0], 0, err);
    const struct ctr_value *low = &at->list[k - 1], *high = &at->list[k];
    if (k >= at->n)
        return threshold(to, ">=", &at->list[at->n - 1], 0, err);
    const bool whole = ctr_types[type].integer && low->kind == CTR_V_INT && high->kind == CTR_V_INT && low->i >= 0;
    int rc = threshold(to, whole ? "" : "[", low, 0, err);
    if (!rc && whole && high->i - low->i > 1)
        rc = threshold(to, "-", high, 1, err);
    if (!rc && !whole)
        rc = threshold(to, ",", high, 0, err);
    return rc || whole ? rc : ctr_buf_append(to, ")", 1, err);
}

/* The value of a column of a node as its key has it, but for buckets. */
static int value_name(const struct plan_node *n, const struct ctr_col *c, int64_t i, struct ctr_buf *to,
                      struct ctr_err *err)
{
    const struct ctr_value *at = thresholds_of(n);
    const size_t from = to->len;
    int64_t k = 0;
    const int rc = ctr_col_text(c, i, to, err);
    if (rc || !at || !ctr_parse_i64((const char *)to->data + from, to->len - from, &k))
        return rc;
    to->len = from;
    return bucket_name(n, at, k, to, err);
}

/* `nulls`: a null item is "(missing)", otherwise it has no name and no key. */
static int value_names(const struct plan_node *n, bool nulls, int64_t row, struct row_names *r, struct ctr_err *err)
{
    const struct ctr_col *c = n->col;
    bool list = n->type.type == CTR_LIST || n->type.type == CTR_FIXED;
    int64_t from = row, to = row + 1;
    int rc = 0;
    if (list)
        c = ctr_col_items(c, n->type.width, row, &from, &to);
    for (; rc == 0 && from < to; from++) {
        const bool null = ctr_col_missing(c, from);
        if (null && !nulls)
            continue;
        rc = null ? ctr_buf_append(&r->text, MISSING, sizeof MISSING - 1, err) : value_name(n, c, from, &r->text, err);
        if (rc == 0)
            rc = names_close(r, err);
    }
    return rc;
}

static int literal_names(const struct ctr_value *v, struct row_names *r, struct ctr_err *err)
{
    char text[64];
    size_t n = 0;
    switch (v->kind) {
    case CTR_V_BOOL: n = (size_t)snprintf(text, sizeof text, "%s", v->i ? "true" : "false"); break;
    case CTR_V_FLOAT: n = ctr_fmt_f64(text, v->f); break;
    case CTR_V_TIME: n = ctr_time_iso(text, v->i); break;
    case CTR_V_UINT: n = ctr_fmt_u64(text, (uint64_t)v->i); break;
    case CTR_V_STR:
    case CTR_V_LIST: break;
    default: n = ctr_fmt_i64(text, v->i); break;
    }
    int rc =
        v->kind == CTR_V_STR ? ctr_buf_append(&r->text, v->s.p, v->s.n, err) : ctr_buf_append(&r->text, text, n, err);
    return rc < 0 ? rc : names_close(r, err);
}

/* All combinations, the last argument fastest, like the operator. */
static int product(const struct row_names *a, const struct row_names *b, struct row_names *r, struct ctr_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < names_count(a); i++)
        for (size_t j = 0; rc == 0 && j < names_count(b); j++) {
            struct ctr_str x = names_at(a, i), y = names_at(b, j);
            rc = ctr_buf_append(&r->text, x.p, x.n, err);
            if (rc == 0)
                rc = ctr_buf_append(&r->text, " x ", 3, err);
            if (rc == 0)
                rc = ctr_buf_append(&r->text, y.p, y.n, err);
            if (rc == 0)
                rc = names_close(r, err);
        }
    return rc;
}

static int arg_names(const struct plan_graph *g, const struct plan_node *n, int k, bool nulls, int64_t row,
                     struct row_names *r, struct ctr_err *err)
{
    return n->arg[k] < 0 ? literal_names(n->call.arg[k].literal, r, err) : node_names(g, n->arg[k], nulls, row, r, err);
}

static int cross_names(const struct plan_graph *g, const struct plan_node *n, int64_t row, struct row_names *r,
                       struct ctr_err *err)
{
    struct row_names so_far = { 0 };
    int rc = 0;
    for (int k = 0; rc == 0 && k < n->nargs; k++) {
        struct row_names arg = { 0 }, both = { 0 };
        rc = arg_names(g, n, k, false, row, &arg, err);
        if (rc == 0 && k)
            rc = product(&so_far, &arg, &both, err);
        names_free(&so_far);
        so_far = k ? both : arg;
        if (k)
            names_free(&arg);
    }
    for (size_t i = 0; rc == 0 && i < names_count(&so_far); i++) {
        struct ctr_str s = names_at(&so_far, i);
        rc = ctr_buf_append(&r->text, s.p, s.n, err);
        if (rc == 0)
            rc = names_close(r, err);
    }
    names_free(&so_far);
    return rc;
}

static int node_names(const struct plan_graph *g, int node, bool nulls, int64_t row, struct row_names *r,
                      struct ctr_err *err)
{
    const struct plan_node *n = &g->node[node];
    const char *op = n->kind == NODE_CALL ? ctr_op_name(n->call.op) : "";
    if (n->type.key && strcmp(op, "cross") == 0)
        return cross_names(g, n, row, r, err);
    if (n->type.key && strcmp(op, "hash") == 0)
        return arg_names(g, n, 0, nulls, row, r, err);
    return value_names(n, nulls, row, r, err);
}

/* ---- the tables ---- */

/* Bytes of all tables and of the copy of the largest one's slots that growing it or sorting it takes; `grows`: it gets
 * so many slots. */
static int64_t names_memory(const struct plan_names *m, const struct name_table *grows, size_t cap)
{
    size_t bytes = 0, most = 0;
    for (int i = 0; i < m->n; i++) {
        const size_t slots = (&m->t[i] == grows ? cap : m->t[i].cap) * sizeof(struct name_slot);
        bytes += slots + m->t[i].text.cap;
        most = CTR_MAX(most, slots);
    }
    return (int64_t)(bytes + most / 4 * 3);
}

static int check_memory(const struct plan_names *m, const struct name_table *grows, size_t cap, struct ctr_err *err)
{
    const int64_t need = names_memory(m, grows, cap);
    if (!m->most || need <= m->most)
        return CTR_OK;
    return ctr_fail(err, CTR_ENOMEM,
                    "--names needs %s after %lld rows, and of --memory it may take %s: give more, or fewer rows",
                    ctr_size_text_beyond((uint64_t)need, (uint64_t)m->most).s, (long long)m->rows,
                    ctr_size_text((uint64_t)m->most).s);
}

static int table_grow(struct plan_names *m, struct name_table *t, struct ctr_err *err)
{
    size_t cap = t->cap ? t->cap * 2 : 1024;
    int rc = check_memory(m, t, cap, err);
    if (rc < 0)
        return rc;
    struct name_slot *slot = calloc(cap, sizeof *slot);
    if (!slot)
        return ctr_fail_nomem(err, cap * sizeof *slot);
    for (size_t i = 0; i < t->cap; i++) {
        size_t at = ctr_hash_place(t->slot[i].key, cap - 1);
        if (!t->slot[i].count)
            continue;
        while (slot[at].count)
            at = (at + 1) & (cap - 1);
        slot[at] = t->slot[i];
    }
    free(t->slot);
    t->slot = slot;
    t->cap = cap;
    return CTR_OK;
}

static struct ctr_str slot_name(const struct name_table *t, const struct name_slot *s)
{
    uint64_t n;
    memcpy(&n, t->text.data + s->at, sizeof n);
    return (struct ctr_str){ (const char *)t->text.data + s->at + sizeof n, n };
}

static int add_collision(struct plan_names *m, const struct name_table *t, struct ctr_str a, struct ctr_str b,
                         struct ctr_err *err)
{
    ctr_buf_clear(&m->scratch);
    int rc = ctr_buf_printf(&m->scratch, err, "%s: \"%.*s\" and \"%.*s\"", t->table, (int)CTR_MIN(a.n, (size_t)100),
                            a.p, (int)CTR_MIN(b.n, (size_t)100), b.p);
    if (rc < 0)
        return rc;
    rc = ctr_buf_append(&m->scratch, "", 1, err);
    if (rc < 0 || m->collisions.n >= MAX_COLLISIONS || ctr_strs_find(&m->collisions, (char *)m->scratch.data) >= 0)
        return rc;
    return ctr_strs_add(&m->collisions, (char *)m->scratch.data, m->scratch.len - 1, err);
}

static int table_add(struct plan_names *m, struct name_table *t, uint64_t key, struct ctr_str name, struct ctr_err *err)
{
    int rc = t->used * 4 >= t->cap * 3 ? table_grow(m, t, err) : CTR_OK;
    if (rc < 0)
        return rc;
    size_t at = ctr_hash_place(key, t->cap - 1);
    while (t->slot[at].count && t->slot[at].key != key)
        at = (at + 1) & (t->cap - 1);
    struct name_slot *s = &t->slot[at];
    if (s->count++) {
        struct ctr_str known = slot_name(t, s);
        const bool same = known.n == name.n && memcmp(known.p, name.p, name.n) == 0;
        return same ? CTR_OK : add_collision(m, t, known, name, err);
    }
    uint64_t n = name.n;
    t->used++;
    s->key = key;
    s->at = t->text.len;
    rc = ctr_buf_append(&t->text, &n, sizeof n, err);
    return rc < 0 ? rc : ctr_buf_append(&t->text, name.p, name.n, err);
}

/* Call `each` for the keys of a row with their names, in order. */
static int each_name(const struct plan_graph *g, const struct plan_node *k, int64_t row, struct row_names *r,
                     ctr_key_name *each, void *ctx, struct ctr_err *err)
{
    static const struct ctr_str missing = { MISSING, sizeof MISSING - 1 };
    bool list = k->type.type == CTR_LIST;
    const struct ctr_col *c = k->col, *keys = list ? c->item : c;
    int64_t from = list ? c->offsets[row] : row, to = list ? c->offsets[row + 1] : row + 1;
    if (ctr_col_missing(g->node[k->arg[0]].col, row))
        return each(ctx, ((const uint64_t *)keys->data)[from], missing, err); /* it has a key, also if it is a list */
    ctr_buf_clear(&r->text);
    ctr_buf_clear(&r->end);
    int rc = node_names(g, k->arg[0], k->group, row, r, err);
    if (rc == 0 && names_count(r) != (size_t)(to - from)) /* LCOV_EXCL_BR_LINE keys and names are generated alike */
        return ctr_fail(err, CTR_EDATA, "row %lld: %lld keys have %zu names",    /* LCOV_EXCL_LINE */
                        (long long)row, (long long)(to - from), names_count(r)); /* LCOV_EXCL_LINE */
    for (int64_t i = from; rc == 0 && i < to; i++)
        rc = each(ctx, ((const uint64_t *)keys->data)[i], names_at(r, (size_t)(i - from)), err);
    return rc;
}

struct into {
    struct plan_names *names;
    struct name_table *table;
};

static int into_table(void *ctx, uint64_t key, struct ctr_str name, struct ctr_err *err)
{
    struct into *to = ctx;
    return table_add(to->names, to->table, key, name, err);
}

int ctr_names_update(struct ctr_program *g, struct ctr_err *err)
{
    struct plan_names *m = g->names;
    struct row_names r = { 0 };
    int rc = 0;
    for (int i = 0; rc == 0 && i < g->output.n; i++) {
        const struct plan_node *k = &g->graph.node[g->node[i]];
        struct into to = { m, m->of[i] < 0 ? NULL : &m->t[m->of[i]] };
        for (int64_t row = 0; rc == 0 && to.table && row < g->graph.batch->rows; row++)
            rc = each_name(&g->graph, k, row, &r, into_table, &to, err);
    }
    names_free(&r);
    m->rows += g->graph.batch->rows;
    return rc < 0 ? rc : check_memory(m, NULL, 0, err);
}

void ctr_program_keep_names(struct ctr_program *g)
{
    ctr_program_look_at_rows(g);
}

int ctr_program_row_names(const struct ctr_program *g, int column, int64_t row, ctr_key_name *each, void *ctx,
                          struct ctr_err *err)
{
    const struct plan_node *k = &g->graph.node[g->node[column]];
    struct row_names r = { 0 };
    int rc = k->kind == NODE_KEYS ? each_name(&g->graph, k, row, &r, each, ctx, err) : 0;
    names_free(&r);
    return rc;
}

int ctr_program_names_start(struct ctr_program *g, int64_t most_bytes, struct ctr_err *err)
{
    size_t n = (size_t)g->output.n + 1;
    struct plan_names *m = g->names = calloc(1, sizeof *m);
    if (!m || !(m->t = calloc(n, sizeof *m->t)) || !(m->of = calloc(n, sizeof *m->of)))
        return ctr_fail_nomem(err, n * sizeof *m->t);
    m->most = most_bytes;
    ctr_program_look_at_rows(g);
    for (int i = 0; i < g->output.n; i++) {
        const char *table = g->graph.node[g->node[i]].table;
        m->of[i] = -1;
        if (!table)
            continue;
        for (int k = 0; k < m->n && m->of[i] < 0; k++)
            if (strcmp(m->t[k].table, table) == 0)
                m->of[i] = k;
        if (m->of[i] < 0) {
            m->of[i] = m->n;
            m->t[m->n++].table = table;
        }
    }
    return CTR_OK;
}

void ctr_names_free(struct plan_names *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n; i++) {
        free(m->t[i].slot);
        ctr_buf_free(&m->t[i].text);
    }
    free(m->t);
    free(m->of);
    ctr_strs_free(&m->collisions);
    ctr_buf_free(&m->scratch);
    free(m);
}

const char *ctr_program_names_collision(const struct ctr_program *g, int i)
{
    return g->names->collisions.s[i];
}

/* ---- saving ---- */

/* Move the used slots to the front, sorted; the table is not used afterwards. */
static void sort_slots(struct name_table *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->cap; i++)
        if (t->slot[i].count)
            t->slot[n++] = t->slot[i];
    if (n)
        qsort(t->slot, n, sizeof *t->slot, ctr_by_u64);
}

static int names_schema(struct ctr_schema *s, struct ctr_err *err)
{
    int rc = ctr_schema_add(s, "table", CTR_UTF8, err);
    if (rc >= 0) {
        s->f[0].dict = true;
        rc = ctr_schema_add(s, "key", CTR_U64, err);
    }
    if (rc >= 0)
        rc = ctr_schema_add(s, "name", CTR_UTF8, err);
    return rc < 0 ? rc : ctr_schema_add(s, "count", CTR_U64, err);
}

/* Rows of one table, a batch at a time. */
static int save_table(const struct name_table *t, int number, const struct ctr_col *tables, struct ctr_writer *w,
                      struct ctr_batchbuf *b, struct ctr_err *err)
{
    int32_t index[1024];
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(index); i++)
        index[i] = number;
    for (size_t done = 0; rc == 0 && done < t->used;) {
        size_t n = CTR_MIN(t->used - done, CTR_COUNT(index));
        const struct ctr_col col = { .type = CTR_UTF8, .rows = (int64_t)n, .data = index, .dict = tables };
        ctr_batchbuf_clear(b);
        rc = ctr_colbuf_range(&b->col[0], &col, 0, (int64_t)n, err);
        for (size_t i = done; rc == 0 && i < done + n; i++) {
            const struct ctr_str name = slot_name(t, &t->slot[i]);
            struct ctr_append a = { b->col + 1, err, 0 };
            ctr_append_i64(&a, true, (int64_t)t->slot[i].key);
            ctr_append_str(&a, ctr_utf8_valid((const uint8_t *)name.p, name.n) ? name.p : NULL, name.n);
            ctr_append_i64(&a, true, (int64_t)t->slot[i].count);
            rc = a.rc;
        }
        if (rc == 0)
            rc = ctr_writer_batch(w, ctr_batchbuf_view(b), err);
        done += n;
    }
    return rc;
}

static int save_tables(struct plan_names *m, struct ctr_colbuf *tables, struct ctr_out *out, const struct ctr_schema *s,
                       struct ctr_err *err)
{
    struct ctr_batchbuf b;
    struct ctr_writer *w = NULL;
    int rc = ctr_batchbuf_init(&b, s, err);
    for (int i = 0; rc == 0 && i < m->n; i++)
        rc = ctr_colbuf_str(tables, m->t[i].table, strlen(m->t[i].table), err);
    const struct ctr_col *dict = ctr_colbuf_view(tables);
    if (rc == 0)
        rc = ctr_writer_open(&w, out, s, NULL, err);
    for (int i = 0; rc == 0 && i < m->n; i++) {
        sort_slots(&m->t[i]);
        rc = save_table(&m->t[i], i, dict, w, &b, err);
    }
    if (rc == 0)
        rc = ctr_writer_finish(w, err);
    ctr_writer_free(w);
    ctr_batchbuf_free(&b);
    return rc;
}

int ctr_program_names_save(struct ctr_program *g, struct ctr_out *out, int64_t *collisions, struct ctr_err *err)
{
    struct plan_names *m = g->names;
    const struct ctr_field text = { .type = CTR_UTF8 };
    struct ctr_schema s = { 0 };
    struct ctr_colbuf tables;
    *collisions = m->collisions.n;
    if (m->n)
        qsort(m->t, (size_t)m->n, sizeof *m->t, ctr_by_text);
    int rc = ctr_colbuf_init(&tables, &text, err);
    if (rc == 0)
        rc = names_schema(&s, err);
    if (rc >= 0)
        rc = ctr_meta_set(&s.meta, CTR_META_PLAN_ID, ctr_plan_id(g->plan), err);
    if (rc >= 0)
        rc = save_tables(m, &tables, out, &s, err);
    ctr_colbuf_free(&tables);
    ctr_schema_free(&s);
    return rc;
}

/* ---- which vocabularies a table is made of ---- */

/* The expression that an intermediate's name refers to. */
static const struct plan_ast *resolve(const struct plan_tree *t, const struct plan_ast *a, int *def)
{
    while (a->kind == AST_NAME && a->def >= 0) {
        *def = a->def;
        a = t->def[a->def].expr;
    }
    return a;
}

static const char *arg_name(const struct plan_ast *a, int i)
{
    return a->arg_name[i] ? a->arg_name[i] : "";
}

static bool same_ast(const struct plan_tree *t, const struct plan_ast *a, const struct plan_ast *b)
{
    int def;
    a = resolve(t, a, &def);
    b = resolve(t, b, &def);
    if (a == b)
        return true;
    if (a->kind != b->kind || a->nargs != b->nargs)
        return false;
    if (a->kind == AST_LITERAL)
        return ctr_value_equal(&a->value, &b->value);
    if (strcmp(a->name, b->name))
        return false;
    for (int i = 0; i < a->nargs; i++)
        if (strcmp(arg_name(a, i), arg_name(b, i)) || !same_ast(t, a->arg[i], b->arg[i]))
            return false;
    return true;
}

/* Equal calls share the state of the first one, under the name of its definition. */
int ctr_plan_vocabs(const struct ctr_plan *p, const char *table, struct ctr_strs *sections, struct ctr_err *err)
{
    const struct plan_tree *t = &p->tree;
    struct ctr_buf name = { 0 };
    int rc = 0;
    for (int i = 0; rc == 0 && i < t->ndefs; i++) {
        int def = i, k = 0;
        if (t->def[i].kind != PLAN_ROLE || strcmp(t->def[i].table, table))
            continue;
        const struct plan_ast *call = resolve(t, t->def[i].expr, &def);
        if (call->kind != AST_CALL || strcmp(ctr_op_name(call->op), "vocab"))
            continue;
        while (k < def && !same_ast(t, t->def[k].expr, call))
            k++;
        ctr_buf_clear(&name);
        rc = ctr_buf_printf(&name, err, "vocab.%s", t->def[k].name);
        if (rc == 0 && ctr_strs_find(sections, (char *)name.data) < 0)
            rc = ctr_strs_add(sections, (char *)name.data, name.len, err);
    }
    ctr_buf_free(&name);
    return rc;
}
