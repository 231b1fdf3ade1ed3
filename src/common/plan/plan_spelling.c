/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_spelling: counts the texts of input columns that become keys of their own although Unicode calls them equal to
 * others (UAX #15: they differ by Normalization Form C alone).
 *
 * Of each column the table holds the distinct texts beyond ASCII, found by the hash of their normal form. When it is
 * full, it keeps the half of the forms with one bit of the hash more at zero (distinct sampling; Gibbons, VLDB 2001):
 * the count is exact up to there, and an estimate beyond; it does not depend on the order of the rows. ASCII texts are
 * left out: only three characters of Unicode normalise to ASCII. */
#include "common/plan/program.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_TEXTS = 1 << 14, SHOWN = 48 };

struct text {
    uint64_t form, hash; /* of the normal form, and of the text itself */
    uint8_t n;
    char shown[SHOWN]; /* the first n bytes of a text that is no normal form */
};

struct column {
    int column;
    uint64_t mask; /* forms with one of these bits are left out */
    struct text *text;
    int n, cap;
    struct ctr_index forms; /* numbers of texts by their form */
};

struct ctr_spellings {
    const struct ctr_schema *input;
    struct column *c;
    int n;
    struct ctr_err why; /* why texts cannot be compared */
};

/* ---- which columns ---- */

/* Texts, lists of them, and keys made of them. */
static bool keeps_text(const struct plan_node *n)
{
    const enum ctr_type t = n->type.type;
    return n->type.key || t == CTR_UTF8 || ((t == CTR_LIST || t == CTR_FIXED) && n->type.item == CTR_UTF8);
}

/* keyed[i]: the text of node i reaches a key. Arguments come before their users. */
static void find_keyed(const struct plan_graph *g, bool *keyed)
{
    for (int i = g->n - 1; i >= 0; i--) {
        const struct plan_node *n = &g->node[i];
        const bool passes = n->kind == NODE_CALL && keyed[i] && strcmp(ctr_op_name(n->call.op), "nfc") != 0;
        for (int k = 0; (passes || n->kind == NODE_KEYS) && k < n->nargs; k++)
            if (n->arg[k] >= 0 && keeps_text(&g->node[n->arg[k]]))
                keyed[n->arg[k]] = true;
    }
}

int ctr_spellings_new(struct ctr_spellings **out, const struct ctr_program *p, struct ctr_err *err)
{
    const struct plan_graph *g = &p->graph;
    struct ctr_spellings *s = *out = calloc(1, sizeof *s);
    bool *keyed = calloc((size_t)g->n + 1, sizeof *keyed);
    int rc = s && keyed ? 0 : ctr_fail_nomem(err, (size_t)g->n);
    if (!rc && !(s->c = calloc((size_t)g->n + 1, sizeof *s->c)))
        rc = ctr_fail_nomem(err, (size_t)g->n * sizeof *s->c);
    if (!rc) {
        s->input = &p->input;
        find_keyed(g, keyed);
        for (int i = 0; i < g->n; i++)
            if (keyed[i] && g->node[i].kind == NODE_COLUMN)
                s->c[s->n++] = (struct column){ .column = g->node[i].column };
    }
    free(keyed);
    return rc;
}

void ctr_spellings_free(struct ctr_spellings *s)
{
    for (int i = 0; s && i < s->n; i++) {
        free(s->c[i].text);
        ctr_index_free(&s->c[i].forms);
    }
    free(s ? s->c : NULL);
    free(s);
}

/* ---- texts ---- */

static int add(struct column *c, const struct text *t, struct ctr_err *err)
{
    int rc = ctr_array_grow(&c->text, c->n, &c->cap, sizeof *c->text, err);
    if (!rc)
        rc = ctr_index_add(&c->forms, t->form, (uint32_t)c->n, err);
    if (!rc)
        c->text[c->n++] = *t;
    return rc;
}

/* Keep half of the forms. */
static int thin_out(struct column *c, struct ctr_err *err)
{
    const int n = c->n;
    int rc = 0;
    c->mask = c->mask << 1 | 1;
    ctr_index_clear(&c->forms);
    c->n = 0;
    for (int i = 0; !rc && i < n; i++)
        if (!(c->text[i].form & c->mask))
            rc = add(c, &c->text[i], err);
    return rc;
}

static bool known(const struct column *c, uint64_t form, uint64_t hash)
{
    const struct ctr_index_slot *s = ctr_index_find(&c->forms, form);
    while (s && c->text[s->number].hash != hash)
        s = ctr_index_next(&c->forms, s);
    return s;
}

/* The whole characters of a text that are shown. */
static uint8_t shown_bytes(struct ctr_str v)
{
    size_t n = CTR_MIN(v.n, (size_t)SHOWN);
    while (n && n < v.n && ((uint8_t)v.p[n] & 0xc0) == 0x80)
        n--;
    return (uint8_t)n;
}

static int see_text(struct column *c, struct ctr_str v, struct ctr_err *err)
{
    struct text t = { .hash = ctr_hash64(v.p, v.n, 0) };
    uint8_t *form = NULL;
    int64_t n;
    t.form = t.hash;
    if (!ctr_unicode_plain((const uint8_t *)v.p, (int64_t)v.n)) {
        const int rc = ctr_unicode_nfc((const uint8_t *)v.p, (int64_t)v.n, &form, &n, err);
        if (rc)
            return rc;
        t.form = ctr_hash64(form, (size_t)n, 0);
        free(form);
    }
    if (t.form & c->mask || known(c, t.form, t.hash))
        return 0;
    if (t.form != t.hash)
        memcpy(t.shown, v.p, t.n = shown_bytes(v));
    int rc = add(c, &t, err);
    while (!rc && c->n > MAX_TEXTS && c->mask != UINT64_MAX)
        rc = thin_out(c, err);
    return rc;
}

static int see_texts(struct column *c, const struct ctr_col *col, int64_t from, int64_t to, struct ctr_err *err)
{
    int rc = 0;
    if (col->dict)
        return see_texts(c, col->dict, 0, col->dict->rows, err);
    if (from >= to ||
        ctr_ascii((const uint8_t *)col->data + col->offsets[from], (size_t)(col->offsets[to] - col->offsets[from])))
        return 0;
    for (int64_t i = from; !rc && i < to; i++) {
        const struct ctr_str v = ctr_col_str(col, i);
        if (!ctr_col_null(col, i) && !ctr_ascii((const uint8_t *)v.p, v.n))
            rc = see_text(c, v, err);
    }
    return rc;
}

static int see_column(struct column *c, const struct ctr_col *col, int64_t rows, struct ctr_err *err)
{
    if (col->dict)
        return see_column(c, col->dict, col->dict->rows, err);
    if (col->type == CTR_UTF8)
        return see_texts(c, col, 0, rows, err);
    return see_texts(c, col->item, col->offsets ? col->offsets[0] : 0,
                     col->offsets ? col->offsets[rows] : col->item->rows, err);
}

int ctr_spellings_see(struct ctr_spellings *s, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < s->n && !s->why.code; i++)
        rc = see_column(&s->c[i], &b->col[s->c[i].column], b->rows, err);
    if (!rc || rc == CTR_ENOMEM)
        return rc;
    s->why = *err;
    *err = (struct ctr_err){ 0 };
    return 0;
}

/* ---- what is said ---- */

static int by_form(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    return x->form != y->form ? (x->form < y->form ? -1 : 1) : (x->hash > y->hash) - (x->hash < y->hash);
}

/* Texts that share a form with another one, less one for each form; *example is one that is no normal form. */
static int64_t count(struct column *c, const struct text **example)
{
    int64_t n = 0;
    *example = NULL;
    if (c->n)
        qsort(c->text, (size_t)c->n, sizeof *c->text, by_form);
    for (int i = 1; i < c->n; i++)
        if (c->text[i].form == c->text[i - 1].form) {
            n++;
            for (int k = i - 1; !*example && k <= i; k++)
                *example = c->text[k].n ? &c->text[k] : NULL;
        }
    return n;
}

/* Characters beyond ASCII by their number, as two spellings look alike. */
static void show(const uint8_t *p, size_t n, char *out, size_t room)
{
    size_t at = 0;
    *out = '\0';
    for (const uint8_t *end = p + n; p < end && at + 12 < room;) {
        const size_t bytes = CTR_MAX(ctr_utf8_length(p, end), 1);
        uint32_t c = bytes == 1 ? *p : *p & (0x7fu >> bytes);
        for (size_t i = 1; i < bytes; i++)
            c = c << 6 | (p[i] & 0x3f);
        at += (size_t)snprintf(out + at, room - at,
                               c < 0x7f && c >= ' ' ? "%c"
                               : c < 0x10000        ? "\\u%04x"
                                                    : "\\U%06x",
                               c);
        p += bytes;
    }
}

static void tell(const struct ctr_spellings *s, struct column *c, void (*note)(void *ctx, const char *text), void *ctx)
{
    enum { ROOM = 8 * SHOWN };
    char text[1024], here[ROOM], there[ROOM];
    const char *name = s->input->f[c->column].name;
    const struct text *example;
    const int64_t n = count(c, &example);
    struct ctr_err ignored = { 0 };
    uint8_t *form = NULL;
    int64_t bytes;
    if (!n || !example || ctr_unicode_nfc((const uint8_t *)example->shown, example->n, &form, &bytes, &ignored))
        return;
    show((const uint8_t *)example->shown, example->n, here, sizeof here);
    show(form, (size_t)bytes, there, sizeof there);
    free(form);
    ctr_format(text, sizeof text,
               "column %s: %s%lld of its values are keys of their own, though they differ from others by Unicode "
               "normalisation alone, such as \"%s\" from \"%s\": nfc(%s) makes them one",
               name, c->mask ? "about " : "", (long long)(n * (int64_t)(c->mask + 1)), here, there, name);
    note(ctx, text);
}

void ctr_spellings_tell(struct ctr_spellings *s, void (*note)(void *ctx, const char *text), void *ctx)
{
    char text[1024];
    for (int i = 0; i < s->n; i++)
        tell(s, &s->c[i], note, ctx);
    if (!s->why.code)
        return;
    ctr_format(text, sizeof text, "values that differ by Unicode normalisation alone are not counted: %s", s->why.what);
    note(ctx, text);
}
