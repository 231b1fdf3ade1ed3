/* SPDX-License-Identifier: Apache-2.0
 *
 * columns: the list of --columns: names, globs, new=old, -drop; and the arithmetic of --head and --tail.
 */
#include "common/rows/select.h"

#include <stdlib.h>

int ctr_unquote_name(struct ctr_buf *out, const char *p, size_t n, struct ctr_err *err)
{
    bool quoted = n >= 2 && p[0] == '`' && p[n - 1] == '`';
    int rc = 0;
    for (size_t i = quoted; rc == 0 && i < n - quoted; i++) {
        i += quoted && p[i] == '\\' && i + 2 < n;
        rc = ctr_buf_append(out, &p[i], 1, err);
    }
    if (rc == 0)
        rc = ctr_buf_append(out, "", 1, err);
    if (rc == 0 && out->len == 1)
        return ctr_fail(err, CTR_EUSAGE, "a column's name is empty");
    return rc;
}

void ctr_picks_free(struct ctr_picks *p)
{
    for (int i = 0; i < p->n; i++)
        free(p->p[i].name);
    free(p->p);
    *p = (struct ctr_picks){ 0 };
}

static int pick_add(struct ctr_picks *l, int column, const char *name, struct ctr_err *err)
{
    int rc = ctr_array_grow(&l->p, l->n, &l->cap, sizeof *l->p, err);
    if (rc)
        return rc;
    l->p[l->n] = (struct ctr_pick){ .column = column };
    rc = ctr_strdup(&l->p[l->n].name, name, err);
    l->n += rc == 0;
    return rc;
}

static int pick_find(const struct ctr_picks *l, int column)
{
    for (int i = 0; i < l->n; i++)
        if (l->p[i].column == column)
            return i;
    return -1;
}

static void pick_remove(struct ctr_picks *l, int at)
{
    free(l->p[at].name);
    l->n--;
    memmove(&l->p[at], &l->p[at + 1], (size_t)(l->n - at) * sizeof *l->p);
}

/* One item of the list, without its minus: a name or, unless it is quoted, a glob. */
struct item {
    const char *p;
    size_t n;
    bool drop, quoted;
    const char *eq;     /* of new=old */
    const char *colon;  /* of name:TYPE, or NULL */
    enum ctr_type type; /* then */
};

static bool is_glob(const struct item *it, const char *name)
{
    return !it->quoted && strpbrk(name, "*?");
}

static int take_matching(struct ctr_picks *l, const struct item *it, const char *pattern, const struct ctr_schema *s,
                         struct ctr_err *err)
{
    bool any = false;
    int rc = 0;
    for (int i = 0; rc == 0 && i < s->n; i++) {
        if (!ctr_glob(pattern, s->f[i].name))
            continue;
        int at = pick_find(l, i);
        any = true;
        if (it->drop && at >= 0)
            pick_remove(l, at);
        else if (!it->drop && at < 0)
            rc = pick_add(l, i, s->f[i].name, err);
    }
    return rc == 0 && !any && s->n ? ctr_fail(err, CTR_EUSAGE, "no column matches %.60s", pattern) : rc;
}

/* Is it NAME:TYPE of a type that decimals do not become? */
static bool other_type(const struct item *it)
{
    const char *colon = it->colon || it->drop || it->quoted ? NULL : memrchr(it->p, ':', it->n);
    struct ctr_field f;
    return colon && colon > it->p && ctr_type_parse(colon + 1, it->n - (size_t)(colon + 1 - it->p), &f);
}

/* A TYPE is that which the source gave the column: it has decimals. */
static int check_type(const struct item *it, const struct ctr_field *f, struct ctr_err *err)
{
    char type[64];
    if (!it->colon || f->type == it->type || (ctr_type_list(f->type) && f->item == it->type))
        return 0;
    return ctr_fail(
        err, CTR_EUSAGE,
        "--columns %.*s: the column is %s, and a TYPE is for decimals of other programs' streams: --add makes "
        "a column of another type",
        (int)CTR_MIN(it->n, (size_t)60), it->p, ctr_field_type_name(f, type, sizeof type));
}

/* The column of that name; or of the name before the colon, if there is none. */
static int need_column(const struct item *it, const char *from, const struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    int rc = ctr_unquote_name(&name, from, it->n - (size_t)(from - it->p), err);
    int column = rc ? rc : ctr_schema_find(s, (char *)name.data);
    if (!rc && column < 0 && other_type(it)) {
        ctr_buf_free(&name);
        return ctr_fail(err, CTR_EUSAGE,
                        "--columns %.*s: a TYPE is float64, utf8 or int64, for decimals of other programs' streams: "
                        "--add makes a column of another type",
                        (int)CTR_MIN(it->n, (size_t)60), it->p);
    }
    if (rc || column >= 0 || !it->colon) {
        column = rc || column >= 0 ? column : ctr_schema_need(s, (char *)name.data, err);
        ctr_buf_free(&name);
        return column;
    }
    ctr_buf_clear(&name);
    rc = ctr_unquote_name(&name, from, (size_t)(it->colon - from), err);
    column = rc ? rc : ctr_schema_need(s, (char *)name.data, err);
    ctr_buf_free(&name);
    return column >= 0 && (rc = check_type(it, &s->f[column], err)) ? rc : column;
}

static int take_name(struct ctr_picks *l, const struct item *it, const struct ctr_schema *s, struct ctr_err *err)
{
    int column = need_column(it, it->p, s, err);
    if (column < 0) {
        err->code = CTR_EUSAGE;
        return CTR_EUSAGE;
    }
    int at = pick_find(l, column);
    if (it->drop && at >= 0)
        pick_remove(l, at);
    return it->drop || at >= 0 ? CTR_OK : pick_add(l, column, s->f[column].name, err);
}

/* new=old renames a column that is already selected, else selects it. */
static int take_renamed(struct ctr_picks *l, const struct item *it, const struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_buf to = { 0 };
    int rc = ctr_unquote_name(&to, it->p, (size_t)(it->eq - it->p), err);
    int column = rc < 0 ? rc : need_column(it, it->eq + 1, s, err);
    rc = CTR_MIN(column, 0);
    int at = rc == 0 ? pick_find(l, column) : -1;
    if (rc == 0 && at >= 0 && strcmp(l->p[at].name, s->f[column].name) == 0) {
        free(l->p[at].name);
        l->p[at].name = NULL;
        rc = ctr_strdup(&l->p[at].name, (char *)to.data, err);
    } else if (rc == 0) {
        rc = pick_add(l, column, (char *)to.data, err);
    }
    ctr_buf_free(&to);
    return rc;
}

static int take_item(struct ctr_picks *l, const struct item *it, const struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    if (it->eq && !it->drop)
        return take_renamed(l, it, s, err);
    int rc = ctr_unquote_name(&name, it->p, it->n, err);
    if (rc == 0)
        rc =
            is_glob(it, (char *)name.data) ? take_matching(l, it, (char *)name.data, s, err) : take_name(l, it, s, err);
    ctr_buf_free(&name);
    return rc;
}

/* The types that decimals become. */
static bool decimal_type(const char *p, size_t n, enum ctr_type *type)
{
    static const enum ctr_type types[] = { CTR_F64, CTR_UTF8, CTR_I64 };
    for (size_t i = 0; i < CTR_COUNT(types); i++)
        if (strlen(ctr_types[types[i]].name) == n && !memcmp(ctr_types[types[i]].name, p, n)) {
            *type = types[i];
            return true;
        }
    return false;
}

/* The item at p, up to a comma outside back quotes. */
static struct item next_item(const char *p)
{
    struct item it = { .p = p };
    bool quoted = false;
    it.drop = *p == '-';
    it.p += it.drop;
    it.quoted = *it.p == '`';
    for (; it.p[it.n] && (quoted || it.p[it.n] != ','); it.n++) {
        if (it.p[it.n] == '\\' && quoted && it.p[it.n + 1])
            it.n++;
        else if (it.p[it.n] == '`')
            quoted = !quoted;
        else if (it.p[it.n] == '=' && !quoted && !it.eq)
            it.eq = it.p + it.n;
        else if (it.p[it.n] == ':' && !quoted && it.n)
            it.colon = it.p + it.n;
    }
    if (it.colon && (it.drop || !decimal_type(it.colon + 1, (size_t)(it.p + it.n - it.colon - 1), &it.type)))
        it.colon = NULL;
    return it;
}

int ctr_columns_decimals(const char *list, struct ctr_decimal **out, int *n, struct ctr_err *err)
{
    int rc = 0, cap = 0;
    *out = NULL;
    *n = 0;
    for (const char *p = list; rc == 0;) {
        const struct item it = next_item(p);
        const char *from = it.eq ? it.eq + 1 : it.p;
        struct ctr_buf name = { 0 };
        if (it.colon && it.colon > from)
            rc = ctr_unquote_name(&name, from, (size_t)(it.colon - from), err);
        if (name.len && !rc && !(rc = ctr_array_grow(out, *n, &cap, sizeof **out, err)))
            (*out)[(*n)++] = (struct ctr_decimal){ .name = (char *)name.data, .type = it.type };
        else
            ctr_buf_free(&name);
        p = it.p + it.n;
        if (!*p)
            break;
        p++;
    }
    return rc;
}

int ctr_columns_parse(struct ctr_picks *out, const char *list, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = 0;
    if (*list == '-') /* only dropped columns are named: start from all */
        for (int i = 0; rc == 0 && i < s->n; i++)
            rc = pick_add(out, i, s->f[i].name, err);
    for (const char *p = list; rc == 0;) {
        struct item it = next_item(p);
        rc = take_item(out, &it, s, err);
        p = it.p + it.n;
        if (!*p)
            break;
        p++;
    }
    return rc;
}

/* ---- head and tail ---- */

#define WHOLE INT64_C(100000000) /* 100 per cent in millionths */

int ctr_cut_parse(struct ctr_cut *c, const char *option, const char *text, struct ctr_err *err)
{
    size_t n = strlen(text), whole = strcspn(text, ".%");
    *c = (struct ctr_cut){ .given = true, .percent = n && text[n - 1] == '%' };
    bool good = whole && text[0] >= '0' && text[0] <= '9' && ctr_parse_i64(text, whole, &c->n);
    if (good && c->percent) {
        size_t digits = text[whole] == '.' ? n - 2 - whole : 0;
        int64_t fraction = 0, unit = 1000000;
        good = c->n <= 100 && digits <= 6 && (text[whole] == '.' ? digits > 0 : whole == n - 1);
        if (good && digits)
            good =
                text[whole + 1] >= '0' && text[whole + 1] <= '9' && ctr_parse_i64(text + whole + 1, digits, &fraction);
        for (size_t i = 0; i < digits; i++)
            unit /= 10;
        c->n = good ? c->n * 1000000 + fraction * unit : 0;
        good = good && c->n <= WHOLE;
    } else if (good) {
        good = whole == n;
    }
    return good ? CTR_OK
                : ctr_fail(err, CTR_EUSAGE, "%s %.40s: give a number of rows, or a share such as 50%% or 12.345678%%",
                           option, text);
}

static int64_t share(int64_t total, int64_t millionths)
{
    return (int64_t)((__int128)total * millionths / WHOLE);
}

void ctr_cut_range(const struct ctr_cut *head, const struct ctr_cut *tail, int64_t total, int64_t *from, int64_t *to)
{
    *from = 0;
    *to = total;
    if (head->given)
        *to = head->percent ? share(total, head->n) : CTR_MIN(total, head->n);
    if (tail->given)
        *from = tail->percent ? share(*to, WHOLE - tail->n) : CTR_MAX((int64_t)0, *to - tail->n);
}
