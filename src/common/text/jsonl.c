/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonl: one JSON object a line. Columns are paths (user.id, items.0.price), kept in a tree; what is not on a path is
 * skipped without being built. A line is walked to its end before anything is appended: the values of its paths are
 * noted where they stand, the last one of a repeated key wins, and an absent one is null.
 *
 * Without --columns the paths and types are those of the first lines: nested objects become dotted names, arrays of
 * scalars lists; what is sometimes an object or holds objects stays JSON text (utf8).
 */
#include "common/text/json.h"
#include "common/text/text.h"
#include <stdlib.h>

enum {
    MAX_PATH = 32,      /* parts of a path */
    MAX_COLUMNS = 4096, /* found in the first lines */
    FEW = 8             /* children that are searched one by one */
};

struct node {
    uint64_t tag;    /* see tag_of */
    uint64_t filter; /* a bit for each child's tag: most keys of a line are wanted by nobody */
    char *key;
    size_t n;
    int64_t index; /* the key as an index of an array, or -1 */
    int column;    /* of jsonl.columns, or -1 */
    int parent, child, next, children;
};

struct jsonl {
    struct ctr_text_columns columns;
    struct node *node; /* node[0] is the line's object */
    int nodes, cap;
    int *slot; /* hash table over (parent, key): node, or 0 */
    size_t slots;
};

/* ---- the tree of paths ---- */

static inline size_t slot_of(const struct jsonl *j, int parent, const char *key, size_t n)
{
    return ctr_hash64(key, n, (uint64_t)parent) & (j->slots - 1);
}

/* Length, ends and middle of a key: equal keys have equal tags, and other keys rarely, so that bytes are seldom
 * compared. */
static inline uint64_t tag_of(const char *key, size_t n)
{
    if (!n)
        return 0;
    return (uint64_t)n << 24 ^
           ((uint64_t)(uint8_t)key[0] | (uint64_t)(uint8_t)key[n - 1] << 8 | (uint64_t)(uint8_t)key[n / 2] << 16);
}

static inline bool is_key(const struct node *c, const char *key, size_t n)
{
    return c->n == n && !memcmp(c->key, key, n);
}

static inline uint64_t filter_bit(uint64_t tag)
{
    return (uint64_t)1 << (tag * 0x9e3779b97f4a7c15u >> 58);
}

static int find_child(const struct jsonl *j, int parent, const char *key, size_t n)
{
    int c = j->node[parent].child;
    uint64_t tag = tag_of(key, n);

    if (!(j->node[parent].filter & filter_bit(tag)))
        return 0;
    if (j->node[parent].children <= FEW || !j->slot) {
        while (c && (j->node[c].tag != tag || !is_key(&j->node[c], key, n)))
            c = j->node[c].next;
        return c;
    }
    for (size_t at = slot_of(j, parent, key, n); (c = j->slot[at]) != 0; at = (at + 1) & (j->slots - 1))
        if (j->node[c].parent == parent && is_key(&j->node[c], key, n))
            return c;
    return 0;
}

static int grow_nodes(struct jsonl *j, struct ctr_err *err)
{
    int cap = j->cap ? 2 * j->cap : 64;
    struct node *p;

    if (j->nodes < j->cap)
        return 0;
    p = realloc(j->node, (size_t)cap * sizeof(*p));
    if (!p)
        return ctr_fail_nomem(err, (size_t)cap * sizeof(*p));
    j->node = p;
    j->cap = cap;
    return 0;
}

/* The child of that key, made if it is not there. */
static int need_child(struct jsonl *j, int parent, const char *key, size_t n, struct ctr_err *err)
{
    int c = find_child(j, parent, key, n), rc, *last;
    int64_t index;

    if (c)
        return c;
    if ((rc = grow_nodes(j, err)) < 0)
        return rc;
    c = j->nodes;
    j->node[c] = (struct node){ .tag = tag_of(key, n), .n = n, .column = -1, .parent = parent, .index = -1 };
    if (n && key[0] != '-' && key[0] != '+' && ctr_parse_i64(key, n, &index))
        j->node[c].index = index;
    if (!(j->node[c].key = malloc(n + 1)))
        return ctr_fail_nomem(err, n + 1);
    memcpy(j->node[c].key, key, n);
    j->node[c].key[n] = 0;
    j->nodes++;
    for (last = &j->node[parent].child; *last;)
        last = &j->node[*last].next;
    *last = c;
    j->node[parent].children++;
    j->node[parent].filter |= filter_bit(j->node[c].tag);
    return c;
}

static int add_root(struct jsonl *j, struct ctr_err *err)
{
    int rc = grow_nodes(j, err);

    if (rc == 0)
        j->node[j->nodes++] = (struct node){ .column = -1, .parent = -1, .index = -1 };
    return rc;
}

/* A path with dots leads through objects, and is also the name of a member of the line itself: what `--flat` wrote. */
static int add_path(struct jsonl *j, const char *path, int column, struct ctr_err *err)
{
    int at = 0, parts = 0;

    for (const char *p = path;; p++) {
        size_t n = strcspn(p, ".");
        if (++parts > MAX_PATH)
            return ctr_fail(err, CTR_EUSAGE, "the path %.80s… has more than %d parts", path, MAX_PATH);
        if ((at = need_child(j, at, p, n, err)) < 0)
            return at;
        p += n;
        if (!*p)
            break;
    }
    if (j->node[at].column >= 0)
        return ctr_fail(err, CTR_EUSAGE, "two columns are read from the path %s", path);
    j->node[at].column = column;
    if (parts > 1) {
        if ((at = need_child(j, 0, path, strlen(path), err)) < 0)
            return at;
        j->node[at].column = column;
    }
    return 0;
}

static int build_table(struct jsonl *j, struct ctr_err *err)
{
    for (j->slots = 16; j->slots < 2 * (size_t)j->nodes;)
        j->slots *= 2;
    j->slot = NULL; /* find_child goes by the lists until it stands */
    int *slot = calloc(j->slots, sizeof(*slot));
    if (!slot)
        return ctr_fail_nomem(err, j->slots * sizeof(*slot));
    for (int c = 1; c < j->nodes; c++) {
        size_t at = slot_of(j, j->node[c].parent, j->node[c].key, j->node[c].n);
        while (slot[at])
            at = (at + 1) & (j->slots - 1);
        slot[at] = c;
    }
    j->slot = slot;
    return 0;
}

static void free_tree(struct jsonl *j)
{
    for (int k = 0; k < j->nodes; k++)
        free(j->node[k].key);
    free(j->node);
    free(j->slot);
    j->node = NULL;
    j->slot = NULL;
    j->nodes = j->cap = 0;
}

static const char *path_of(const struct ctr_text_column *c)
{
    return c->source ? c->source : c->name;
}

/* The tree over the columns; `wanted`: only those that are in the schema. */
static int build_tree(struct jsonl *j, bool wanted, struct ctr_err *err)
{
    int rc;

    free_tree(j);
    if ((rc = add_root(j, err)) < 0)
        return rc;
    for (int k = 0; k < j->columns.n; k++)
        if ((!wanted || j->columns.c[k].out >= 0) && (rc = add_path(j, path_of(&j->columns.c[k]), k, err)) < 0)
            return rc;
    return build_table(j, err);
}

/* ---- walking a line ---- */

static const char *walk(const struct jsonl *j, int node, const char *p, const char *end, struct ctr_json *value,
                        struct ctr_buf *scratch, const char **why);

static const char *walk_array(const struct jsonl *j, int node, const char *p, const char *end, struct ctr_json *value,
                              struct ctr_buf *scratch, const char **why)
{
    bool first = true;
    int more;

    for (int64_t i = 0; (more = ctr_json_element(&p, end, ']', &first, why)) > 0; i++) {
        int c = j->node[node].child;
        while (c && j->node[c].index != i)
            c = j->node[c].next;
        if (!(p = walk(j, c, p, end, value, scratch, why)))
            return NULL;
    }
    return more < 0 ? NULL : p;
}

/* The child that a key names. Escapes in keys are rare: they are undone in `scratch`, which has room for the line. -1:
 * no text. */
static int key_child(const struct jsonl *j, int node, const struct ctr_json *key, struct ctr_buf *scratch)
{
    struct ctr_err err;

    if (!key->escaped)
        return find_child(j, node, key->p, key->n);
    ctr_buf_clear(scratch);
    if (ctr_json_unescape(key->p, key->n, scratch, &err) <= 0)
        return -1;
    return find_child(j, node, (const char *)scratch->data, scratch->len);
}

static const char *walk_object(const struct jsonl *j, int node, const char *p, const char *end, struct ctr_json *value,
                               struct ctr_buf *scratch, const char **why)
{
    bool first = true;
    int more;

    while ((more = ctr_json_element(&p, end, '}', &first, why)) > 0) {
        struct ctr_json key;
        int c;
        if (!ctr_json_key(&p, end, &key, why))
            return NULL;
        if ((c = key_child(j, node, &key, scratch)) < 0) {
            *why = "a key with a broken escape";
            return NULL;
        }
        if (!(p = walk(j, c, p, end, value, scratch, why)))
            return NULL;
    }
    return more < 0 ? NULL : p;
}

/* The value at p belongs to `node` (0: to none). Its depth is that of the tree, so recursion is bounded by MAX_PATH. */
static const char *walk(const struct jsonl *j, int node, const char *p, const char *end, struct ctr_json *value,
                        struct ctr_buf *scratch, const char **why)
{
    struct ctr_json skipped, *v = node && j->node[node].column >= 0 ? &value[j->node[node].column] : &skipped;
    const char *e;

    if (node && j->node[node].child && p < end && (*p == '{' || *p == '[')) {
        e = *p == '{' ? walk_object(j, node, p + 1, end, value, scratch, why)
                      : walk_array(j, node, p + 1, end, value, scratch, why);
        if (e && v != &skipped)
            *v =
                (struct ctr_json){ .p = p, .n = (size_t)(e - p), .kind = *p == '{' ? CTR_JSON_OBJECT : CTR_JSON_ARRAY };
        return e;
    }
    return ctr_json_value(p, end, v, why);
}

/* 1: the values of the line, 0: a blank line, -1: broken. */
static int read_line(const struct jsonl *j, const char *p, const char *end, struct ctr_json *value,
                     struct ctr_buf *scratch, const char **why)
{
    p = ctr_json_space(p, end);
    if (p == end)
        return 0;
    memset(value, 0, (size_t)j->columns.n * sizeof(*value));
    if (*p != '{') {
        *why =
            *p == '[' ? "an array where an object is wanted (jq -c '.[]' gives one object a line)" : "no JSON object";
        return -1;
    }
    if (!(p = walk_object(j, 0, p + 1, end, value, scratch, why)))
        return -1;
    if (ctr_json_space(p, end) == end)
        return 1;
    *why = "something behind the object";
    return -1;
}

/* ---- the first lines: which columns, which types ---- */

static const char *discover(struct jsonl *j, const char *prefix, size_t prefix_n, int depth, const char *p,
                            const char *end, struct ctr_buf *scratch, int *rc, struct ctr_err *err);

static int note_column(struct jsonl *j, const char *name, size_t n, struct ctr_err *err)
{
    int at = need_child(j, 0, name, n, err); /* the tree serves as a set of names here */

    if (at < 0 || j->node[at].column >= 0)
        return at < 0 ? at : 0;
    if (j->columns.n >= MAX_COLUMNS)
        return ctr_fail(err, CTR_EDATA, "the first lines have more than %d members: pick some with --columns",
                        MAX_COLUMNS);
    j->node[at].column = j->columns.n;
    return ctr_text_columns_add(&j->columns, name, n, err);
}

/* A member: an object is entered, anything else is a column. */
static const char *discover_member(struct jsonl *j, const char *prefix, size_t prefix_n, int depth, const char *p,
                                   const char *end, struct ctr_buf *scratch, int *rc, struct ctr_err *err)
{
    const char *why, *e;
    struct ctr_json key, v;
    struct ctr_buf name = { 0 };
    int fits;

    if (!ctr_json_key(&p, end, &key, &why) || !(e = ctr_json_value(p, end, &v, &why)))
        return NULL;
    ctr_buf_clear(scratch);
    fits = ctr_json_unescape(key.p, key.n, scratch, err);
    *rc = CTR_MIN(fits, 0);
    if (fits < 0)
        return NULL;
    if (!fits || memchr(scratch->data, 0, scratch->len) || !ctr_utf8_valid(scratch->data, scratch->len))
        return e;
    *rc = ctr_buf_append(&name, prefix, prefix_n, err);
    if (*rc == 0)
        *rc = ctr_buf_append(&name, scratch->data, scratch->len, err);
    if (*rc == 0 && v.kind == CTR_JSON_OBJECT && depth + 1 < MAX_PATH) {
        *rc = ctr_buf_append(&name, ".", 1, err);
        if (*rc == 0)
            discover(j, (const char *)name.data, name.len, depth + 1, v.p + 1, v.p + v.n, scratch, rc, err);
    } else if (*rc == 0 && name.len) {
        *rc = note_column(j, (const char *)name.data, name.len, err);
    }
    ctr_buf_free(&name);
    return e;
}

static const char *discover(struct jsonl *j, const char *prefix, size_t prefix_n, int depth, const char *p,
                            const char *end, struct ctr_buf *scratch, int *rc, struct ctr_err *err)
{
    const char *why;
    bool first = true;

    while (*rc == 0 && ctr_json_element(&p, end, '}', &first, &why) > 0)
        if (!(p = discover_member(j, prefix, prefix_n, depth, p, end, scratch, rc, err)))
            return NULL;
    return p;
}

/* Where one line has a value and another an object, the dotted names go and the whole stays as JSON text. */
static void drop_below_values(struct ctr_text_columns *l)
{
    int kept = 0;

    for (int k = 0; k < l->n; k++) {
        bool below = false;
        for (const char *dot = strchr(l->c[k].name, '.'); dot && !below; dot = strchr(dot + 1, '.'))
            below = ctr_text_columns_find(l, l->c[k].name, (size_t)(dot - l->c[k].name)) >= 0;
        if (below)
            l->c[k].name[0] = 0; /* found by no prefix */
    }
    for (int k = 0; k < l->n; k++) {
        if (l->c[k].name[0])
            l->c[kept++] = l->c[k];
        else
            free(l->c[k].name);
    }
    l->n = kept;
}

static int discover_columns(struct jsonl *j, const struct ctr_text_block *b, struct ctr_buf *scratch,
                            struct ctr_err *err)
{
    const char *p = b->p, *line, *end;
    int rc = add_root(j, err);

    for (int n = 0; rc == 0 && n < CTR_SAMPLE_ROWS && (end = ctr_next_record(&p, b->p + b->n, &line)) != NULL; n++) {
        line = ctr_json_space(line, end);
        if (line < end && *line == '{')
            discover(j, "", 0, 0, line + 1, end, scratch, &rc, err);
    }
    if (rc == 0)
        drop_below_values(&j->columns);
    return rc;
}

/* What the values of a column were. */
struct seen {
    struct ctr_infer plain, item;
    bool scalar, text, list, object, item_text, item_deep;
};

static bool is_nonfinite(const struct ctr_json *v)
{
    return (v->n == 3 && !memcmp(v->p, "NaN", 3)) || (v->n == 8 && !memcmp(v->p, "Infinity", 8)) ||
           (v->n == 9 && !memcmp(v->p, "-Infinity", 9));
}

/* A scalar: numbers decide the type; NaN and the infinities are written as text. */
static void see_scalar(struct ctr_infer *infer, bool *text, const struct ctr_json *v)
{
    if (v->kind == CTR_JSON_PLAIN || (v->kind == CTR_JSON_STRING && is_nonfinite(v)))
        ctr_infer_see(infer, v->p, v->n);
    *text |= v->kind == CTR_JSON_STRING && !is_nonfinite(v);
}

static void see(struct seen *s, const struct ctr_json *v)
{
    const char *p, *end, *why;
    bool first = true;
    struct ctr_json item;

    if (v->kind == CTR_JSON_NONE || v->kind == CTR_JSON_NULL)
        return;
    p = v->p + 1;
    end = v->p + v->n;
    s->object |= v->kind == CTR_JSON_OBJECT;
    s->list |= v->kind == CTR_JSON_ARRAY;
    s->scalar |= v->kind == CTR_JSON_PLAIN || v->kind == CTR_JSON_STRING;
    see_scalar(&s->plain, &s->text, v);
    while (v->kind == CTR_JSON_ARRAY && ctr_json_element(&p, end, ']', &first, &why) > 0 &&
           (p = ctr_json_value(p, end, &item, &why)) != NULL) {
        see_scalar(&s->item, &s->item_text, &item);
        s->item_deep |= item.kind == CTR_JSON_ARRAY || item.kind == CTR_JSON_OBJECT;
    }
}

/* Lists get their type here, scalars through the inference that all formats share. */
static void settle(struct ctr_text_column *c, struct seen *s)
{
    bool text = s->object || s->text || s->item_deep || (s->list && s->scalar);

    if (text) {
        ctr_infer_see(&s->plain, "text", 4);
    } else if (s->list && !c->typed) {
        c->typed = true;
        c->type = (struct ctr_field){ .type = CTR_LIST, .item = s->item_text ? CTR_UTF8 : ctr_infer_type(&s->item) };
    }
}

static int infer_types(struct jsonl *j, const struct ctr_text_block *b, struct ctr_infer *infer,
                       struct ctr_buf *scratch, struct ctr_err *err)
{
    struct seen *seen = calloc((size_t)j->columns.n + 1, sizeof(*seen));
    struct ctr_json *value = calloc((size_t)j->columns.n + 1, sizeof(*value));
    const char *p = b->p, *line, *end, *why;
    int rc = seen && value ? 0 : ctr_fail_nomem(err, (size_t)j->columns.n * sizeof(*seen));

    for (int n = 0; rc == 0 && n < CTR_SAMPLE_ROWS && (end = ctr_next_record(&p, b->p + b->n, &line)) != NULL; n++) {
        ctr_buf_clear(scratch);
        if ((rc = ctr_buf_reserve(scratch, (size_t)(end - line), err)) == 0 &&
            read_line(j, line, end, value, scratch, &why) > 0)
            for (int k = 0; k < j->columns.n; k++)
                see(&seen[k], &value[k]);
    }
    for (int k = 0; k < j->columns.n && rc == 0; k++) {
        settle(&j->columns.c[k], &seen[k]);
        infer[k] = seen[k].plain;
    }
    free(seen);
    free(value);
    return rc;
}

static int list_columns(struct jsonl *j, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                        struct ctr_buf *scratch, struct ctr_err *err)
{
    int rc = 0;

    if (o->columns)
        return ctr_text_columns_parse(&j->columns, o->columns, err);
    for (int k = 0; o->like && k < o->like->n && rc == 0; k++)
        rc = ctr_text_columns_add(&j->columns, o->like->f[k].name, strlen(o->like->f[k].name), err);
    return o->like ? rc : discover_columns(j, first, scratch, err);
}

static int open_jsonl(void **state, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                      struct ctr_schema *schema, struct ctr_err *err)
{
    struct jsonl *j = calloc(1, sizeof(*j));
    struct ctr_infer *infer = NULL;
    struct ctr_buf scratch = { 0 };
    int rc;

    *state = j;
    if (!j)
        return ctr_fail_nomem(err, sizeof(*j));
    rc = list_columns(j, o, first, &scratch, err);
    if (rc == 0 && !j->columns.n)
        rc = ctr_fail(err, CTR_EDATA, "no JSON object in the first %d lines: name the columns with --columns",
                      CTR_SAMPLE_ROWS);
    if (rc == 0 && !(infer = calloc((size_t)j->columns.n + 1, sizeof(*infer))))
        rc = ctr_fail_nomem(err, (size_t)j->columns.n * sizeof(*infer));
    if (rc == 0 && (rc = build_tree(j, false, err)) == 0 && (rc = infer_types(j, first, infer, &scratch, err)) == 0 &&
        (rc = ctr_text_schema(&j->columns, infer, o, schema, err)) == 0)
        rc = build_tree(j, true, err);
    free(infer);
    ctr_buf_free(&scratch);
    return rc;
}

static void close_jsonl(void *state)
{
    struct jsonl *j = state;

    free_tree(j);
    ctr_text_columns_free(&j->columns);
    free(j);
}

/* ---- rows ---- */

/* The values of the line into the columns: 1; 0: *column is the first that does not fit. */
static int put_row(const struct jsonl *j, struct ctr_text_job *job, const struct ctr_json *value,
                   struct ctr_buf *scratch, int *column, struct ctr_err *err)
{
    for (int k = 0; k < j->columns.n; k++) {
        const struct ctr_text_column *c = &j->columns.c[k];
        int rc = c->out < 0 ? 1
                            : ctr_json_append(&job->out.col[c->out], &c->type, c->time_format, &value[k],
                                              !job->block.utf8, scratch, err);
        *column = k;
        if (rc <= 0)
            return rc;
    }
    return 1;
}

/* job->scratch holds the values of a line, and behind them room for escapes: that is a buffer of its own here. */
static int parse_jsonl(const void *state, struct ctr_text_job *job, struct ctr_err *err)
{
    const struct jsonl *j = state;
    const char *p = job->block.p, *end = p + job->block.n, *line, *e, *why = "";
    int64_t number = job->block.first_line;
    struct ctr_buf scratch = { 0 };
    struct ctr_json *value;
    int rc = ctr_buf_reserve(&job->scratch, (size_t)j->columns.n * sizeof(*value), err), column = 0;

    value = (struct ctr_json *)job->scratch.data;
    for (; rc == 0 && (e = ctr_next_record(&p, end, &line)) != NULL; number++) {
        int64_t rows = ctr_batchbuf_rows(&job->out);
        int got;
        ctr_buf_clear(&scratch);
        if ((rc = ctr_buf_reserve(&scratch, (size_t)(e - line), err)))
            break;
        got = read_line(j, line, e, value, &scratch, &why);
        if (got < 0) {
            rc = ctr_job_bad(job, line, (size_t)(p - line), number, err, "no JSON: %s", why);
        } else if (got > 0 && (rc = put_row(j, job, value, &scratch, &column, err)) == 0) {
            ctr_job_rewind(job, rows);
            rc = ctr_job_bad_cell(job, line, (size_t)(p - line), number, &j->columns.c[column], value[column].p,
                                  value[column].n, err);
        } else if (rc > 0) {
            rc = 0;
        }
    }
    ctr_buf_free(&scratch);
    return rc;
}

const struct ctr_text_format ctr_text_jsonl = { .name = "jsonl",
                                                .suffix = ".jsonl",
                                                .honours = CTR_TEXT_COLUMNS | CTR_TEXT_FOR,
                                                .open = open_jsonl,
                                                .parse = parse_jsonl,
                                                .close = close_jsonl };
