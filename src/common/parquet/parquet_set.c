/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_set: the columns of several files as those of one, matched by name: the order is that of the first file, and
 * of the first that has a column; a type that holds the values of all; nulls where a file lacks a column; the
 * partitions of paths. Invariant: what is settled here does not depend on which columns are wanted. */
#include "common/parquet/parquet_impl.h"

#include <stdlib.h>

enum { MAX_DIGITS = 18 }; /* of an int64 */

/* ---- types ---- */

bool ctr_pq_same_type(const struct ctr_field *leaf, const struct ctr_field *as)
{
    if (leaf->type == CTR_LIST)
        return ctr_type_list(as->type) && leaf->item == as->item;
    return leaf->type == as->type;
}

/* Values of one type that differ in what they mean: numbers, times of day and durations, texts and decimals. Timestamps
 * of any unit are one, and so are durations. */
int ctr_pq_meaning(const struct pq_leaf *l)
{
    const enum ctr_type t = l->native.type == CTR_LIST ? l->native.item : l->native.type;
    const bool of_day = t != CTR_TIME && (l->kind == PQ_K_US || l->kind == PQ_K_NS || l->kind == PQ_K_MS32);
    return l->kind == PQ_K_DECIMAL ? 2 : l->duration ? 3 : of_day;
}

const char *ctr_pq_meaning_name(int meaning)
{
    return (const char *const[]){ "plain value", "time of day", "decimal", "duration" }[meaning];
}

bool ctr_pq_widens(const struct ctr_field *from, const struct ctr_field *to)
{
    return from->type != CTR_TIME && to->type != CTR_TIME && from->type != CTR_LIST && to->type != CTR_LIST &&
           ctr_type_wider(from->type, to->type) == to->type;
}

bool ctr_pq_no_values(const struct pq_leaf *l)
{
    return l->kind == PQ_K_NULL;
}

/* ---- a file more ---- */

static int copy_leaf(struct pq_leaf *to, const struct pq_leaf *from, int file, struct ctr_err *err)
{
    *to = *from;
    to->refusal = to->conflict = NULL;
    to->file = file;
    to->seen = file + 1;
    int rc = ctr_strdup(&to->name, from->name, err);
    return rc || !from->refusal ? rc : ctr_strdup(&to->refusal, from->refusal, err);
}

/* The type of a column that was there takes another file's in. */
static int unite(struct pq_leaf *all, const struct pq_leaf *l, char *const *paths, int file, struct ctr_err *err)
{
    char there[64], here[64], why[900];
    all->seen = file + 1;
    all->dict += l->dict;
    if (ctr_pq_no_values(all) && !ctr_pq_no_values(l)) { /* which stay nulls of the other type */
        all->kind = l->kind;
        all->duration = l->duration;
        all->native = l->native;
        all->scale = l->scale;
        all->precision = l->precision;
        all->file = file;
        return l->refusal && !all->refusal ? ctr_strdup(&all->refusal, l->refusal, err) : 0;
    }
    const bool same = ctr_pq_same_type(&all->native, &l->native);
    if (ctr_pq_no_values(l) || all->conflict || l->refusal || (same && ctr_pq_meaning(all) == ctr_pq_meaning(l)))
        return 0;
    const enum ctr_type t = ctr_type_wider(all->native.type, l->native.type);
    if (!same && t != CTR_NTYPES && ctr_pq_meaning(all) == ctr_pq_meaning(l)) {
        all->native.type = t;
        return 0;
    }
    all->apart = ctr_pq_meaning(all) != ctr_pq_meaning(l);
    if (all->apart)
        ctr_format(why, sizeof why, "is a %s in %s, and a %s in %s", ctr_pq_meaning_name(ctr_pq_meaning(all)),
                   paths[all->file], ctr_pq_meaning_name(ctr_pq_meaning(l)), paths[file]);
    else
        ctr_format(why, sizeof why, "is %s in %s, and %s in %s", ctr_field_type_name(&all->native, there, sizeof there),
                   paths[all->file], ctr_field_type_name(&l->native, here, sizeof here), paths[file]);
    return ctr_strdup(&all->conflict, why, err);
}

static int add_leaf(struct pq_leaves *all, const struct pq_leaf *l, int file, struct ctr_err *err)
{
    int rc = ctr_array_grow(&all->leaf, all->n, &all->cap, sizeof *all->leaf, err);
    if (!rc)
        rc = copy_leaf(&all->leaf[all->n], l, file, err);
    all->n += !rc;
    return rc;
}

/* Does every row group say that the column is dictionary-encoded, in groups of whole batches? */
static bool comes_as_dictionary(const struct pq_footer *f, const struct pq_leaf *l)
{
    if (l->native.type != CTR_UTF8 || ctr_pq_no_values(l) || !f->groups || f->rows / f->groups < CTR_BATCH_ROWS)
        return false;
    for (int g = 0; g < f->groups; g++)
        if (!f->group[g].chunk[l->column].all_dict)
            return false;
    return true;
}

/* Many short texts, of which a batch has nearly as many as rows, cost more as a dictionary of each batch than as texts.
 */
static bool dictionary_pays(const struct pq_footer *f, const struct pq_leaf *l, int fd)
{
    enum { FEW = 2048, LONG_BYTES = 24 };
    int64_t values, bytes;
    return !ctr_pq_dictionary_size(fd, &f->group[0].chunk[l->column], &values, &bytes) || values <= FEW ||
           bytes / values > LONG_BYTES;
}

int ctr_pq_set_add(struct pq_leaves *all, const struct pq_footer *f, const struct pq_leaves *leaves, int fd,
                   char *const *paths, int file, struct ctr_err *err)
{
    int rc = 0, guess = 0;
    for (int i = 0; !rc && i < leaves->n; i++) {
        struct pq_leaf *l = &leaves->leaf[i];
        const int k = ctr_pq_leaf(all, l->name, guess);
        guess = k < 0 ? all->n + 1 : k + 1;
        l->dict = comes_as_dictionary(f, l) && dictionary_pays(f, l, fd) ? f->rows + 1
                  : ctr_pq_no_values(l)                                  ? 0
                                                                         : -f->rows;
        if (k < 0) {
            rc = add_leaf(all, l, file, err);
            if (!rc && file)
                all->leaf[all->n - 1].role = ctr_pq_role(f, l->name) + 1;
        } else if (all->leaf[k].seen == file + 1)
            all->leaf[k].ambiguous = true;
        else
            rc = unite(&all->leaf[k], l, paths, file, err);
    }
    return rc;
}

/* ---- partitions ---- */

static int add_partition(struct pq_leaves *all, const char *name, struct ctr_err *err)
{
    struct pq_leaf l = { .kind = PQ_K_TEXT, .column = -1, .partition = true };
    l.name = (char *)(uintptr_t)name; /* which is copied */
    return add_leaf(all, &l, 0, err);
}

static int name_taken(const char *name, const char *why, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EUSAGE, "the partition %s of the path %s: read the files without partitions", name, why);
}

/* What the values of a partition are, over all paths. */
struct values {
    struct ctr_infer infer;
    bool other;         /* not digits alone */
    size_t most, plain; /* bytes: of all, at most; of those without zeros in front, at least */
    size_t low, high;   /* and of those with zeros, at least and at most */
};

static void see_value(struct values *v, const char *s)
{
    const size_t n = strlen(s);
    ctr_infer_see(&v->infer, s, n);
    v->other |= !n || s[strspn(s, "0123456789")];
    v->most = CTR_MAX(v->most, n);
    if (n > 1 && *s == '0') {
        v->low = v->low ? CTR_MIN(v->low, n) : n;
        v->high = CTR_MAX(v->high, n);
    } else {
        v->plain = v->plain ? CTR_MIN(v->plain, n) : n;
    }
}

/* Names of folders stay as they are written, but for integers: where all values are digits, hour=3 and hour=03 are one.
 */
static void settle_values(struct pq_leaf *l, const struct values *v)
{
    const enum ctr_type t = ctr_infer_type(&v->infer);
    const bool digits = v->most && !v->other && v->most <= MAX_DIGITS;
    l->native.type = digits ? CTR_I64 : ctr_types[t].integer ? t : CTR_UTF8;
    l->padded = digits && v->high && (v->low != v->high || (v->plain && v->plain < v->high)); /* not of one width */
}

/* The partitions of all paths as columns behind the others. */
int ctr_pq_set_partitions(struct pq_leaves *all, const struct ctr_strs *paths, struct ctr_err *err)
{
    const int first = all->n;
    struct values *value = NULL;
    int rc = 0, cap = 0;
    for (int p = 0; !rc && p < paths->n; p++) {
        struct ctr_strs names = { 0 }, values = { 0 };
        rc = ctr_pq_partitions(paths->s[p], &names, &values, err);
        for (int i = 0; !rc && i < names.n; i++) {
            int k = ctr_pq_leaf(all, names.s[i], first + i);
            if (k >= 0 && k < first)
                rc = name_taken(names.s[i], "is also a column of the file", err);
            else if (ctr_strs_find(&names, names.s[i]) != i)
                rc = name_taken(names.s[i], "is there twice", err);
            else if (k < 0)
                rc = add_partition(all, names.s[i], err);
            k = k < 0 ? all->n - 1 : k;
            const int had = cap;
            if (!rc)
                rc = ctr_array_grow(&value, k - first, &cap, sizeof *value, err);
            if (!rc && cap > had)
                memset(value + had, 0, (size_t)(cap - had) * sizeof *value);
            if (!rc && !ctr_pq_partition_null(values.s[i]))
                see_value(&value[k - first], values.s[i]);
        }
        if (rc)
            ctr_err_file(err, paths->s[p]);
        ctr_strs_free(&names);
        ctr_strs_free(&values);
    }
    for (int k = first; !rc && k < all->n; k++)
        settle_values(&all->leaf[k], &value[k - first]);
    free(value);
    return rc;
}
