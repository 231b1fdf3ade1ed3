/* SPDX-License-Identifier: Apache-2.0
 *
 * joinsuspect: why a join found no match at all. The first texts of each key are kept from both sides; where none of
 * one side is one of the other, but would be without leading zeros, case, spaces or a decimal part, that is told. */
#include "common/rows/joincore.h"

#include <stdlib.h>

enum { TEXTS = 1000, LONGEST = 256 }; /* of a side and key; bytes of a text: longer ones are not kept */

struct ctr_joinsuspects {
    struct ctr_strs *text[2]; /* by side: one list a key, empty where it is no text */
};

/* ---- what may differ ---- */

static struct ctr_str no_zeros(struct ctr_str s, char *to)
{
    (void)to;
    while (s.n > 1 && *s.p == '0')
        s.p++, s.n--;
    return s;
}

static struct ctr_str no_case(struct ctr_str s, char *to)
{
    for (size_t i = 0; i < s.n; i++)
        to[i] = (char)(s.p[i] >= 'A' && s.p[i] <= 'Z' ? s.p[i] + ('a' - 'A') : s.p[i]);
    return (struct ctr_str){ to, s.n };
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct ctr_str no_spaces(struct ctr_str s, char *to)
{
    (void)to;
    while (s.n && is_space(*s.p))
        s.p++, s.n--;
    while (s.n && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

static struct ctr_str no_decimals(struct ctr_str s, char *to)
{
    size_t n = s.n;
    (void)to;
    while (n > 1 && s.p[n - 1] == '0')
        n--;
    return n > 1 && n < s.n && s.p[n - 1] == '.' ? (struct ctr_str){ s.p, n - 1 } : s;
}

static const struct suspicion {
    const char *what, *remedy;
    struct ctr_str (*without)(struct ctr_str s, char *to); /* `to`: room for LONGEST bytes */
} suspicions[] = {
    { "leading zeros", "one side was a number once; write it as text (ctr-import --columns NAME:utf8)", no_zeros },
    { "upper and lower case", "lower() makes them equal", no_case },
    { "spaces around them", "ctr-import --trim takes them off", no_spaces },
    { "a decimal part", "one side was a float once; import it as an integer (--columns NAME:int64)", no_decimals },
};

/* ---- keeping ---- */

int ctr_joinsuspects_new(struct ctr_join *j, struct ctr_err *err)
{
    bool any = false;
    for (int k = 0; k < j->npairs; k++)
        any |= j->pair[k].cls == CTR_KEY_TEXT;
    if (!any)
        return 0;
    struct ctr_joinsuspects *s = j->suspects = calloc(1, sizeof *s);
    for (int side = 0; s && side < 2; side++)
        s->text[side] = calloc((size_t)j->npairs + 1, sizeof *s->text[side]);
    return s && s->text[0] && s->text[1] ? 0 : ctr_fail_nomem(err, (size_t)j->npairs * sizeof *s->text[0]);
}

void ctr_joinsuspects_free(struct ctr_joinsuspects *s, int keys)
{
    for (int side = 0; s && side < 2; side++) {
        for (int k = 0; s->text[side] && k < keys; k++)
            ctr_strs_free(&s->text[side][k]);
        free(s->text[side]);
    }
    free(s);
}

int ctr_joinsuspects_keep(struct ctr_join *j, const struct ctr_batch *b, bool right, struct ctr_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && j->suspects && k < j->npairs; k++) {
        struct ctr_strs *to = &j->suspects->text[right][k];
        const struct ctr_col *c = &b->col[right ? j->pair[k].right : j->pair[k].left];
        for (int64_t i = 0; !rc && j->pair[k].cls == CTR_KEY_TEXT && i < b->rows && to->n < TEXTS; i++) {
            if (ctr_col_missing(c, i))
                continue;
            const struct ctr_str s = ctr_col_str(c, i);
            if (s.n < LONGEST && !memchr(s.p, 0, s.n))
                rc = ctr_strs_add(to, s.p, s.n, err);
        }
    }
    return rc;
}

/* ---- telling ---- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The texts of a side as they are without what may differ, sorted. */
static char **reduced(const struct ctr_strs *texts, const struct suspicion *of)
{
    char **list = calloc((size_t)texts->n + 1, sizeof *list), room[LONGEST];
    for (int i = 0; list && i < texts->n; i++) {
        const struct ctr_str s = { texts->s[i], strlen(texts->s[i]) }, less = of ? of->without(s, room) : s;
        if (!(list[i] = malloc(less.n + 1)))
            break;
        memcpy(list[i], less.p, less.n);
        list[i][less.n] = 0;
    }
    return list;
}

static void free_reduced(char **list, int n)
{
    for (int i = 0; list && i < n; i++)
        free(list[i]);
    free(list);
}

/* Is a text of one side one of the other? *a, *b: which. */
static bool meet(const struct ctr_strs *left, const struct ctr_strs *right, const struct suspicion *of, int *a, int *b)
{
    char **l = reduced(left, of), **r = reduced(right, of), **sorted = calloc((size_t)right->n + 1, sizeof *sorted);
    bool is = false;
    bool whole = l && r && sorted;
    for (int i = 0; whole && i < left->n; i++)
        whole = l[i];
    for (int i = 0; whole && i < right->n; i++)
        whole = (sorted[i] = r[i]);
    if (whole && right->n)
        qsort(sorted, (size_t)right->n, sizeof *sorted, compare_texts);
    for (int i = 0; whole && !is && i < left->n; i++) {
        is = right->n && bsearch(&l[i], sorted, (size_t)right->n, sizeof *sorted, compare_texts);
        for (*a = i, *b = 0; is && strcmp(l[i], r[*b]) != 0;)
            ++*b;
    }
    free(sorted);
    free_reduced(l, left->n);
    free_reduced(r, right->n);
    return is;
}

const char *ctr_join_suspect(struct ctr_join *j)
{
    int a = 0, b = 0;
    j->suspect[0] = 0;
    for (int k = 0; j->suspects && !j->suspect[0] && k < j->npairs; k++) {
        const struct ctr_strs *left = &j->suspects->text[0][k], *right = &j->suspects->text[1][k];
        if (meet(left, right, NULL, &a, &b))
            continue;
        for (size_t i = 0; !j->suspect[0] && i < CTR_COUNT(suspicions); i++)
            if (meet(left, right, &suspicions[i], &a, &b))
                ctr_format(j->suspect, sizeof j->suspect, "; those of %s differ by %s: '%s' here, '%s' there; %s",
                           j->left.f[j->pair[k].left].name, suspicions[i].what, left->s[a], right->s[b],
                           suspicions[i].remedy);
    }
    return j->suspect;
}
