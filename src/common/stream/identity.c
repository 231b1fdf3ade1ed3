/* SPDX-License-Identifier: Apache-2.0
 *
 * identity: what streams must have in common, beside names and types of columns, to be read as one or to be scored by a
 * model: the plan and its fitted state, the secret of the keys, the types of the columns that keys are made of, the
 * network of vectors. All of it stands in the metadata of the schema; streams that have none of it are compared by
 * their columns. */
#include "common/stream/stream.h"

#include <stdio.h>

static const char none[] = "none";

static bool equal(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* ---- the first line in which two plans differ ---- */

/* Where the line's comment begins, or its end. */
static const char *code_end(const char *p)
{
    char quote = 0;
    for (; *p && *p != '\n' && (quote || *p != '#'); p++)
        quote = *p == quote ? 0 : !quote && (*p == '"' || *p == '`') ? *p : quote;
    return p;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Take the next line that holds more than blanks and a comment; n is 0 at the end. */
static struct ctr_str next_line(const char **text)
{
    struct ctr_str line = { *text, 0 };
    while (!line.n && **text) {
        const char *end = code_end(*text);
        for (line.p = *text; line.p < end && is_blank(*line.p); line.p++)
            ;
        while (end > line.p && is_blank(end[-1]))
            end--;
        line.n = (size_t)(end - line.p);
        *text += strcspn(*text, "\n");
        *text += **text == '\n';
    }
    return line;
}

/* Blanks between words do not matter. */
static bool same_line(struct ctr_str a, struct ctr_str b)
{
    size_t i = 0, j = 0;
    for (;; i++, j++) {
        while (i < a.n && is_blank(a.p[i]))
            i++;
        while (j < b.n && is_blank(b.p[j]))
            j++;
        if (i == a.n || j == b.n || a.p[i] != b.p[j])
            return i == a.n && j == b.n;
    }
}

enum { SHOWN = 120 }; /* bytes of a line */

static const char *quoted(struct ctr_str line, char out[SHOWN + 16])
{
    const int n = (int)CTR_MIN(line.n, (size_t)SHOWN);
    snprintf(out, SHOWN + 16, line.n ? "'%.*s%s'" : "no line", n, line.p, line.n > SHOWN ? "…" : "");
    return out;
}

static void plans_differ(const struct ctr_meta *there, const struct ctr_meta *here, struct ctr_difference *d)
{
    const char *a = ctr_meta_get(there, CTR_META_PLAN), *b = ctr_meta_get(here, CTR_META_PLAN);
    char was[SHOWN + 16], is[SHOWN + 16];
    struct ctr_str x, y;
    snprintf(d->remedy, sizeof d->remedy, "extract both with one plan");
    if (!a || !b) {
        a = ctr_meta_get(there, CTR_META_PLAN_ID);
        b = ctr_meta_get(here, CTR_META_PLAN_ID);
        snprintf(d->what, sizeof d->what, "its plan is %s there and %s here", a ? a : none, b ? b : none);
        return;
    }
    do {
        x = next_line(&a);
        y = next_line(&b);
    } while (x.n && same_line(x, y));
    if (x.n || y.n) {
        snprintf(d->what, sizeof d->what, "its plan has %s there and %s here", quoted(x, was), quoted(y, is));
        return;
    }
    snprintf(d->what, sizeof d->what, "its plan was fitted on other data");
    snprintf(d->remedy, sizeof d->remedy, "extract both with one fitted plan (ctr-extract --fit PLAN -o FITTED)");
}

/* ---- types of inputs: lines "NAME TYPE" ---- */

struct input {
    struct ctr_str name, type;
    bool keyed;
};

static bool next_input(const char **text, struct input *in)
{
    const char *line = *text, *end = line + strcspn(line, "\n"), *name = line;
    const size_t mark = strlen(CTR_INPUT_UNKEYED);
    if (!*line)
        return false;
    *text = end + (*end == '\n');
    if (*name == '`') /* a quoted name, in which a backquote is escaped */
        for (name++; name < end && *name != '`'; name++)
            name += *name == '\\' && name + 1 < end;
    while (name < end && *name != ' ')
        name++;
    in->keyed = !((size_t)(end - name) > mark && !memcmp(end - mark, CTR_INPUT_UNKEYED, mark));
    if (!in->keyed)
        end -= mark;
    in->name = (struct ctr_str){ line, (size_t)(name - line) };
    in->type = (struct ctr_str){ name + (name < end), (size_t)(end - name) - (name < end) };
    return true;
}

static bool same_text(struct ctr_str a, struct ctr_str b)
{
    return a.n == b.n && !memcmp(a.p, b.p, a.n);
}

/* Do values of both types give equal keys? Those of all integers do. */
static bool same_keys(struct ctr_str a, struct ctr_str b)
{
    struct ctr_field f = { 0 }, g = { 0 };
    if (same_text(a, b))
        return true;
    if (!ctr_type_parse(a.p, a.n, &f) || !ctr_type_parse(b.p, b.n, &g) ||
        ctr_type_list(f.type) != ctr_type_list(g.type))
        return false;
    const enum ctr_type x = ctr_type_list(f.type) ? f.item : f.type, y = ctr_type_list(g.type) ? g.item : g.type;
    return x == y || (ctr_types[x].integer && ctr_types[y].integer);
}

static void tell_input(const struct input *there, const struct input *here, struct ctr_difference *d)
{
    const bool bare = there->name.n < 2 || there->name.p[0] != '`';
    const struct ctr_str name = { there->name.p + !bare, there->name.n - (bare ? 0 : 2) };
    const int n = (int)CTR_MIN(name.n, (size_t)80), a = (int)there->type.n, b = (int)here->type.n;
    snprintf(d->what, sizeof d->what,
             "input '%.*s' of its plan was %.*s there and %.*s here, so that one value has two keys", n, name.p, a,
             there->type.p, b, here->type.p);
    snprintf(d->remedy, sizeof d->remedy, "import both with one type, such as ctr-import --columns '%.*s:%.*s'", n,
             name.p, a, there->type.p);
}

static bool inputs_differ(const char *a, const char *b, struct ctr_difference *d)
{
    struct input x, y;
    while (next_input(&a, &x))
        for (const char *at = b; x.keyed && next_input(&at, &y);)
            if (same_text(x.name, y.name) && y.keyed && !same_keys(x.type, y.type)) {
                tell_input(&x, &y, d);
                return true;
            }
    return false;
}

/* ---- all of it ---- */

bool ctr_identity_same(const struct ctr_meta *a, const struct ctr_meta *b, unsigned parts, struct ctr_difference *d)
{
    const char *x = ctr_meta_get(a, CTR_META_KEY_SEED), *y = ctr_meta_get(b, CTR_META_KEY_SEED);
    const char *plan = ctr_meta_get(a, CTR_META_PLAN_ID), *other = ctr_meta_get(b, CTR_META_PLAN_ID);
    *d = (struct ctr_difference){ 0 };
    if ((parts & CTR_IDENTITY_SEED) && !equal(x, y)) {
        snprintf(d->what, sizeof d->what,
                 "the fingerprint of its --key-seed is %s there and %s here, so that one value has two keys",
                 x ? x : none, y ? y : none);
        snprintf(d->remedy, sizeof d->remedy, "extract both with one --key-seed");
        return false;
    }
    if ((parts & CTR_IDENTITY_PLAN) && !equal(plan, other)) {
        plans_differ(a, b, d);
        return false;
    }
    x = ctr_meta_get(a, CTR_META_PLAN_INPUTS);
    y = ctr_meta_get(b, CTR_META_PLAN_INPUTS);
    if ((parts & CTR_IDENTITY_INPUTS) && x && y && equal(plan, other) && !equal(x, y) && inputs_differ(x, y, d))
        return false;
    x = ctr_meta_get(a, CTR_META_NETWORK);
    y = ctr_meta_get(b, CTR_META_NETWORK);
    if ((parts & CTR_IDENTITY_NETWORK) && x && y && !equal(x, y)) {
        snprintf(d->what, sizeof d->what, "its vectors are by %.200s there and by %.200s here", x, y);
        snprintf(d->remedy, sizeof d->remedy, "make both with one network");
        return false;
    }
    return true;
}

/* Are there columns that mean something by their plan only? Not where predictions or labels alone are left. */
static bool has_features(const struct ctr_schema *s)
{
    for (int i = 0; i < s->n; i++)
        if (ctr_field_is_input(&s->f[i]))
            return true;
    return ctr_meta_get(&s->meta, CTR_META_MODEL);
}

/* The identity first: another plan is why columns differ. */
bool ctr_streams_same(const struct ctr_schema *a, const struct ctr_schema *b, struct ctr_difference *d)
{
    const bool features = has_features(a) || has_features(b);
    const bool same_types = ctr_schema_same_types(a, b, NULL, 0);
    if (same_types || (ctr_meta_get(&a->meta, CTR_META_PLAN_ID) && ctr_meta_get(&b->meta, CTR_META_PLAN_ID))) {
        if (!ctr_identity_same(&a->meta, &b->meta, features ? CTR_IDENTITY_ALL : CTR_IDENTITY_NETWORK, d)) {
            d->of_identity = same_types;
            return false;
        }
    }
    *d = (struct ctr_difference){ .of_identity = same_types };
    snprintf(d->remedy, sizeof d->remedy, "make them alike with ctr-select");
    return ctr_schema_equal(a, b, d->what, sizeof d->what);
}

int ctr_identity_drop(struct ctr_schema *s, struct ctr_buf *dropped, struct ctr_err *err)
{
    static const struct {
        const char *key, *name;
    } own[] = { { CTR_META_PLAN_ID, "plan" },     { CTR_META_PLAN, NULL },         { CTR_META_KEY_SEED, "key seed" },
                { CTR_META_PLAN_LANGUAGE, NULL }, { CTR_META_NETWORK, "network" }, { CTR_META_PLAN_INPUTS, NULL } };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(own) && !rc; i++) {
        const char *was = ctr_meta_get(&s->meta, own[i].key);
        if (was && own[i].name)
            rc = ctr_buf_printf(dropped, err, "%s%s %s", dropped->len ? ", " : "", own[i].name, was);
        if (!rc)
            rc = ctr_meta_set(&s->meta, own[i].key, NULL, err);
    }
    for (int i = 0; i < s->n && !rc; i++) {
        const char *was = ctr_meta_get(&s->f[i].meta, CTR_META_TOWER_MODEL);
        if (was)
            rc = ctr_buf_printf(dropped, err, "%smodel %s of column %s", dropped->len ? ", " : "", was, s->f[i].name);
        if (!rc)
            rc = ctr_meta_set(&s->f[i].meta, CTR_META_TOWER_MODEL, NULL, err);
    }
    return rc;
}
