/* SPDX-License-Identifier: Apache-2.0
 *
 * jsontree: a tree of paths, and the parsing of a line along it.
 */
#include "common/text/jsontree.h"
#include "common/text/jsonscan.h"
#include <stdlib.h>

enum {
    FEW = 8,  /* maximum number of children searched linearly */
    AHEAD = 4 /* members of the previous line to compare with */
};

struct ctr_json_node {
    uint64_t tag;    /* see tag_of */
    uint64_t filter; /* a bit for each child's tag: most keys of a line match no column */
    char *key;
    size_t n;
    int64_t index; /* the key as an array index, or -1 */
    int column;    /* or -1 */
    bool indexed;  /* a child is an index of an array */
    int slot;      /* value of an array of objects at this node, or 0: none (the first value is never one) */
    int parent, child, next, children;
};

/* The columns id, user.name and items.price, numbers 0 to 2, make the nodes
 *
 *     0 root    1 id: column 0    2 user    3 name: column 1, below 2    4 items: slot 3    5 price: column 2, below 4
 *
 * ctr_json_line walks {"id":7,"user":{"name":"x"},"z":[1],"items":[{"price":3}]} along them: value[0] = 7, value[1] =
 * "x"; z has no node (0), and its value is only skipped; value[3] is the text of the array of objects, whose elements
 * jsonl.c walks along a tree of their own, of the path price.
 *
 * Lines of a log have their members mostly in one order: the memo has the bytes between one value and the next, here
 * those of "id": and ,"user": and "name": and so on, each with its node. recall compares these 8 at a time before a key
 * is scanned and looked up. */

/* ---- the tree of paths ---- */

static inline uint64_t hash_of(int parent, const char *key, size_t n)
{
    return ctr_hash64(key, n, ctr_hash_secret + (uint64_t)parent);
}

/* Length, ends and middle of a key: equal keys have equal tags, others rarely do, so that bytes are rarely compared. */
static inline uint64_t tag_of(const char *key, size_t n)
{
    if (!n)
        return 0;
    return (uint64_t)n << 24 ^
           ((uint64_t)(uint8_t)key[0] | (uint64_t)(uint8_t)key[n - 1] << 8 | (uint64_t)(uint8_t)key[n / 2] << 16);
}

static inline bool is_key(const struct ctr_json_node *c, const char *key, size_t n)
{
    return c->n == n && !memcmp(c->key, key, n);
}

static inline uint64_t filter_bit(uint64_t tag)
{
    return (uint64_t)1 << (tag * 0x9e3779b97f4a7c15u >> 58);
}

static int find_child(const struct ctr_json_tree *t, int parent, const char *key, size_t n)
{
    int c = t->node[parent].child;
    uint64_t tag = tag_of(key, n);

    if (!(t->node[parent].filter & filter_bit(tag)))
        return 0;
    if (t->node[parent].children <= FEW || !t->index.cap) {
        while (c && (t->node[c].tag != tag || !is_key(&t->node[c], key, n)))
            c = t->node[c].next;
        return c;
    }
    const struct ctr_index_slot *s = ctr_index_find(&t->index, hash_of(parent, key, n));
    while (s && (t->node[s->number].parent != parent || !is_key(&t->node[s->number], key, n)))
        s = ctr_index_next(&t->index, s);
    return s ? (int)s->number : 0;
}

static int grow_nodes(struct ctr_json_tree *t, struct ctr_err *err)
{
    return ctr_array_grow(&t->node, t->nodes, &t->cap, sizeof(*t->node), err);
}

/* The child with that key, created if needed. */
static int need_child(struct ctr_json_tree *t, int parent, const char *key, size_t n, struct ctr_err *err)
{
    int c = find_child(t, parent, key, n), rc, *last;
    int64_t index;

    if (c)
        return c;
    if ((rc = grow_nodes(t, err)) < 0)
        return rc;
    c = t->nodes;
    t->node[c] = (struct ctr_json_node){ .tag = tag_of(key, n), .n = n, .column = -1, .parent = parent, .index = -1 };
    if (n && key[0] != '-' && key[0] != '+' && ctr_parse_i64(key, n, &index))
        t->node[c].index = index;
    if (!(t->node[c].key = malloc(n + 1)))
        return ctr_fail_nomem(err, n + 1);
    memcpy(t->node[c].key, key, n);
    t->node[c].key[n] = 0;
    t->nodes++;
    for (last = &t->node[parent].child; *last;)
        last = &t->node[*last].next;
    *last = c;
    t->node[parent].children++;
    t->node[parent].indexed |= t->node[c].index >= 0;
    t->node[parent].filter |= filter_bit(t->node[c].tag);
    return c;
}

int ctr_json_tree_begin(struct ctr_json_tree *t, struct ctr_err *err)
{
    int rc;

    ctr_json_tree_free(t);
    if ((rc = grow_nodes(t, err)) == 0)
        t->node[t->nodes++] = (struct ctr_json_node){ .column = -1, .parent = -1, .index = -1 };
    return rc;
}

int ctr_json_tree_add(struct ctr_json_tree *t, const char *path, int column, struct ctr_err *err)
{
    int at = 0, parts = 0;

    for (const char *p = path;; p++) {
        size_t n = strcspn(p, ".");
        if (++parts > CTR_JSON_PATH)
            return ctr_fail(err, CTR_EUSAGE, "the path %.80s… has more than %d parts", path, CTR_JSON_PATH);
        if ((at = need_child(t, at, p, n, err)) < 0)
            return at;
        p += n;
        if (!*p)
            break;
    }
    if (t->node[at].column >= 0)
        return ctr_fail(err, CTR_EUSAGE, "two columns are read from the path %s", path);
    t->node[at].column = column;
    return 0;
}

int ctr_json_tree_name(struct ctr_json_tree *t, const char *name, size_t n, int column, struct ctr_err *err)
{
    int at = need_child(t, 0, name, n, err);

    if (at < 0 || t->node[at].column >= 0)
        return CTR_MIN(at, 0);
    t->node[at].column = column;
    return 1;
}

int ctr_json_tree_end(struct ctr_json_tree *t, struct ctr_err *err)
{
    struct ctr_index index = { 0 };
    int rc = 0;
    for (int c = 1; c < t->nodes && !rc; c++)
        rc = ctr_index_add(&index, hash_of(t->node[c].parent, t->node[c].key, t->node[c].n), (uint32_t)c, err);
    if (rc)
        ctr_index_free(&index);
    t->index = index;
    return rc;
}

void ctr_json_tree_free(struct ctr_json_tree *t)
{
    for (int k = 0; k < t->nodes; k++)
        free(t->node[k].key);
    free(t->node);
    ctr_index_free(&t->index);
    t->node = NULL;
    t->nodes = t->cap = 0; /* find_child uses the lists until the table is built */
}

/* ---- arrays of objects ---- */

/* The columns below a node, by their paths from there. */
static int add_below(struct ctr_json_list *l, const struct ctr_json_tree *t, int node, struct ctr_buf *path,
                     struct ctr_err *err)
{
    const size_t had = path->len;
    int rc = 0;
    for (int c = t->node[node].child; c && !rc; c = t->node[c].next) {
        if (!had && t->node[c].index >= 0) /* one element */
            continue;
        path->len = had;
        rc = ctr_buf_printf(path, err, "%s%s", had ? "." : "", t->node[c].key);
        if (!rc && t->node[c].column >= 0) {
            rc = ctr_json_tree_add(&l->tree, (const char *)path->data, l->n, err);
            l->column[l->n++] = t->node[c].column;
        }
        if (!rc)
            rc = add_below(l, t, c, path, err);
    }
    path->len = had;
    return rc;
}

static bool has_members(const struct ctr_json_tree *t, int node)
{
    int c = t->node[node].child;
    while (c && t->node[c].index >= 0)
        c = t->node[c].next;
    return c;
}

int ctr_json_lists_make(struct ctr_json_lists *ls, struct ctr_json_tree *t, int columns, struct ctr_err *err)
{
    struct ctr_buf path = { 0 };
    int rc = 0;
    ctr_json_lists_free(ls);
    if (!(ls->l = calloc((size_t)t->nodes, sizeof *ls->l)))
        return ctr_fail_nomem(err, (size_t)t->nodes * sizeof *ls->l);
    for (int i = 1; i < t->nodes && !rc; i++) {
        if (!has_members(t, i))
            continue;
        struct ctr_json_list *l = &ls->l[ls->n];
        t->node[i].slot = columns + ls->n++;
        rc = (l->column = calloc((size_t)columns, sizeof *l->column))
                 ? ctr_json_tree_begin(&l->tree, err)
                 : ctr_fail_nomem(err, (size_t)columns * sizeof(int));
        if (!rc)
            rc = add_below(l, t, i, &path, err);
        if (!rc)
            rc = ctr_json_tree_end(&l->tree, err);
        ls->most = CTR_MAX(ls->most, l->n);
    }
    ctr_buf_free(&path);
    return rc;
}

void ctr_json_lists_free(struct ctr_json_lists *ls)
{
    for (int i = 0; i < ls->n; i++) {
        ctr_json_tree_free(&ls->l[i].tree);
        free(ls->l[i].column);
    }
    free(ls->l);
    *ls = (struct ctr_json_lists){ 0 };
}

/* ---- the members of the line before ---- */

static inline bool is_member(const struct ctr_json_member *m, int place, const char *p, const char *end)
{
    uint64_t x;
    int k;

    if (m->place != place || end - p <= m->n)
        return false;
    for (k = 0; k < m->words - 1; k++) {
        memcpy(&x, p + 8 * k, 8);
        if (x != m->text[k])
            return false;
    }
    memcpy(&x, p + 8 * k, 8);
    return (x & m->last) == m->text[k];
}

/* If the member at p is the next one of the previous line, or one soon after it, returns its node and moves w->at. -1:
 * no match. */
static inline int recall(struct ctr_json_walk *w, int place, const char *p, const char *end)
{
    const struct ctr_json_memo *memo = w->memo;

    if (w->at < memo->n && is_member(&memo->m[w->at], place, p, end))
        return memo->m[w->at].node;
    if (*p == '}')
        return -1;
    for (int k = w->at + 1; k < memo->n && k < w->at + AHEAD; k++) {
        if (is_member(&memo->m[k], place, p, end)) {
            w->at = k;
            return memo->m[k].node;
        }
    }
    return -1;
}

/* Store the n bytes before the value of a member of that node. */
static void note_member(struct ctr_json_walk *w, int place, const char *p, size_t n, int node)
{
    struct ctr_json_memo *memo = w->memo;
    struct ctr_json_member *m = &memo->m[w->at];

    if (n > sizeof(m->text) || w->at == CTR_JSON_MEMBERS)
        return;
    if (memo->n < CTR_JSON_MEMBERS)
        memmove(m + 1, m, (size_t)(memo->n++ - w->at) * sizeof(*m));
    *m = (struct ctr_json_member){ .n = (int)n, .words = (int)(n + 7) / 8, .place = place, .node = node };
    memcpy(m->text, p, n);
    memset(&m->last, 0xff, (n - 1) % 8 + 1);
    w->at++;
}

/* ---- walking a line ---- */

static const char *walk(struct ctr_json_walk *w, int node, const char *p, const char *end);

/* An array of objects, which is read later, element by element. */
static const char *keep_array(struct ctr_json_walk *w, int node, const char *p, const char *end)
{
    return ctr_json_value(p, end, &w->value[w->tree->node[node].slot], &w->why);
}

static const char *walk_array(struct ctr_json_walk *w, int node, const char *p, const char *end)
{
    bool first = true;
    int more;

    for (int64_t i = 0; (more = ctr_json_element(&p, end, ']', &first, &w->why)) > 0; i++) {
        int c = w->tree->node[node].child;
        while (c && w->tree->node[c].index != i)
            c = w->tree->node[c].next;
        if (!(p = walk(w, c, p, end)))
            return NULL;
    }
    return more < 0 ? NULL : p;
}

/* A key with dots, as `--flat` writes them, is followed like nested objects. */
static int find_member(const struct ctr_json_tree *t, int node, const char *key, size_t n)
{
    int c = find_child(t, node, key, n);
    const char *dot = c ? NULL : memchr(key, '.', n);

    if (!dot)
        return c;
    for (const char *end = key + n;; key = dot + 1) {
        dot = memchr(key, '.', (size_t)(end - key));
        node = find_child(t, node, key, (size_t)((dot ? dot : end) - key));
        if (!node || !dot)
            return node;
    }
}

/* The node of a key. Escapes in keys are rare: `scratch`, which has room for the line, receives the unescaped key. -1:
 * invalid. */
static int key_child(const struct ctr_json_tree *t, int node, const struct ctr_json *key, struct ctr_buf *scratch)
{
    struct ctr_err err;

    if (!key->escaped)
        return find_member(t, node, key->p, key->n);
    ctr_buf_clear(scratch);
    if (ctr_json_unescape(key->p, key->n, scratch, &err) <= 0)
        return -1;
    return find_member(t, node, (const char *)scratch->data, scratch->len);
}

static inline struct ctr_json *value_of(struct ctr_json_walk *w, int node)
{
    int column = w->tree->node[node].column;

    return column >= 0 ? &w->value[column] : &w->skipped;
}

/* The next member at *p (after the bracket or the previous member): 1, with its node in *c and *p at its value; 0: end
 * of the object; -1: invalid. */
static int next_member(struct ctr_json_walk *w, int node, const char **p, const char *end, bool *first, int *c)
{
    struct ctr_json key;
    int more = ctr_json_element(p, end, '}', first, &w->why);

    if (more <= 0)
        return more;
    if (!ctr_json_key(p, end, &key, &w->why))
        return -1;
    if ((*c = key_child(w->tree, node, &key, w->scratch)) >= 0)
        return 1;
    w->why = "a key with a broken escape";
    return -1;
}

static bool is_empty_object(const char *p, const char *end)
{
    return *p == '{' && *ctr_json_space(p + 1, end) == '}';
}

/* Record a value that no column takes: `from` is the end of the previous member, `p` the value or blanks before it. For
 * an object on a path, its members are recorded instead. */
static void note_untaken(struct ctr_json_walk *w, int node, const char *from, const char *p, const char *end)
{
    const char *value = ctr_json_space(p, end);

    if (*value == 'n' || is_empty_object(value, end) || (node && *value == '{') ||
        (*value == '[' && w->tree->node[node].slot))
        return;
    if (!w->untaken++) {
        const char *key = (const char *)memchr(from, '"', (size_t)(p - from)) + 1;
        w->first_untaken = (struct ctr_str){ key, (size_t)((const char *)memrchr(key, '"', (size_t)(p - key)) - key) };
    }
}

static const char *walk_object(struct ctr_json_walk *w, int node, const char *p, const char *end)
{
    bool first = true;

    for (;;) {
        int c, more;
        const char *from = p;
        if ((c = recall(w, first ? ~node : node, p, end)) >= 0) {
            p += w->memo->m[w->at++].n;
            first = false;
        } else {
            int place = first ? ~node : node;
            if ((more = next_member(w, node, &p, end, &first, &c)) <= 0)
                return more < 0 ? NULL : p;
            note_member(w, place, from, (size_t)(p - from), c);
        }
        if (w->watch && w->tree->node[c].column < 0)
            note_untaken(w, c, from, p, end);
        if ((from = ctr_json_short_value(p, end, value_of(w, c))) != NULL)
            p = from;
        else if (!(p = walk(w, c, ctr_json_space(p, end), end))) /* more blanks than in the previous line */
            return NULL;
    }
}

/* Process the value at p of `node` (0: none). Recursion follows the tree, so CTR_JSON_PATH limits it. */
static const char *walk(struct ctr_json_walk *w, int node, const char *p, const char *end)
{
    const struct ctr_json_node *o = &w->tree->node[node];
    struct ctr_json *v = value_of(w, node);
    const char *e;

    if (o->slot && p < end) {
        w->value[o->slot].kind = CTR_JSON_NONE;
        if (*p == '[' && (!(e = keep_array(w, node, p, end)) || !o->indexed))
            return e;
    }
    if (node && o->child && p < end && (*p == '{' || *p == '[')) {
        e = *p == '{' ? walk_object(w, node, p + 1, end) : walk_array(w, node, p + 1, end);
        if (e)
            *v =
                (struct ctr_json){ .p = p, .n = (size_t)(e - p), .kind = *p == '{' ? CTR_JSON_OBJECT : CTR_JSON_ARRAY };
        return e;
    }
    return ctr_json_value(p, end, v, &w->why);
}

int ctr_json_line(struct ctr_json_walk *w, const char *p, const char *end)
{
    p = ctr_json_space(p, end);
    if (p == end)
        return 0;
    if (w->columns) /* none: only checks that this is an object */
        memset(w->value, 0, (size_t)w->columns * sizeof(*w->value));
    w->at = 0;
    if (*p != '{') {
        w->why = *p == '[' ? "an array where an object is wanted (jq -c '.[]' gives one object a line)"
                           : "no JSON object; is the text of another format, such as csv?";
        return -1;
    }
    if (!(p = walk_object(w, 0, p + 1, end)))
        return -1;
    if (ctr_json_space(p, end) == end)
        return 1;
    w->why = "something behind the object";
    return -1;
}
