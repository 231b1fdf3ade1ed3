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
    const char *eq; /* of new=old */
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

static int take_name(struct ctr_picks *l, const struct item *it, const char *name, const struct ctr_schema *s,
                     struct ctr_err *err)
{
    int column = ctr_schema_need(s, name, err);
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
    struct ctr_buf to = { 0 }, from = { 0 };
    int rc = ctr_unquote_name(&to, it->p, (size_t)(it->eq - it->p), err);
    if (rc == 0)
        rc = ctr_unquote_name(&from, it->eq + 1, it->n - (size_t)(it->eq + 1 - it->p), err);
    int column = rc < 0 ? rc : ctr_schema_need(s, (char *)from.data, err);
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
    ctr_buf_free(&from);
    return rc;
}

static int take_item(struct ctr_picks *l, const struct item *it, const struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    if (it->eq && !it->drop)
        return take_renamed(l, it, s, err);
    int rc = ctr_unquote_name(&name, it->p, it->n, err);
    if (rc == 0)
        rc = is_glob(it, (char *)name.data) ? take_matching(l, it, (char *)name.data, s, err)
                                            : take_name(l, it, (char *)name.data, s, err);
    ctr_buf_free(&name);
    return rc;
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
    }
    return it;
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
