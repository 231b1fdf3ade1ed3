/* SPDX-License-Identifier: Apache-2.0
 *
 * keynames: entries sorted by key and table, the earlier name first; one buffer holds all texts. */
#include "tools/ctr-model/keynames.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    uint64_t key, table; /* hash of its name */
    size_t at, n;        /* in texts */
};

struct ctr_keynames {
    struct ctr_buf entries, texts;
};

static int by_key(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int take(struct ctr_keynames *names, const struct ctr_batch *b, const int column[3], struct ctr_err *err)
{
    const struct ctr_col *table = &b->col[column[0]], *key = &b->col[column[1]], *name = &b->col[column[2]];
    int rc = 0;

    for (int64_t i = 0; i < b->rows && !rc; i++) {
        if (ctr_col_missing(table, i) || ctr_col_missing(key, i) || ctr_col_missing(name, i))
            continue;
        const struct ctr_str text = ctr_col_str(name, i), of = ctr_col_str(table, i);
        const struct entry e = { (uint64_t)ctr_col_i64(key, i), ctr_hash64(of.p, of.n, 0), names->texts.len, text.n };
        rc = ctr_buf_append(&names->texts, text.p, text.n, err);
        if (!rc)
            rc = ctr_buf_append(&names->entries, &e, sizeof e, err);
    }
    return rc;
}

static int read_names(struct ctr_keynames *names, struct ctr_reader *r, struct ctr_err *err)
{
    static const char *const name[] = { "table", "key", "name" };
    static const enum ctr_type type[] = { CTR_UTF8, CTR_U64, CTR_UTF8 };
    static const int column[] = { 0, 1, 2 };
    const struct ctr_schema *s = ctr_reader_schema(r);
    const struct ctr_batch *b;
    int at[3], rc = 0;

    for (int i = 0; i < 3; i++) {
        if ((at[i] = ctr_schema_need(s, name[i], err)) < 0)
            return at[i];
        if (s->f[at[i]].type != type[i])
            return ctr_fail(err, CTR_EDATA, "column '%s' is not of type %s", name[i], ctr_types[type[i]].name);
    }
    rc = ctr_reader_project(r, at, 3, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = take(names, b, column, err);
    return rc;
}

int ctr_keynames_open(struct ctr_keynames **out, const char *path, struct ctr_err *err)
{
    struct ctr_keynames *names = *out = calloc(1, sizeof *names);
    char *paths[] = { (char *)(uintptr_t)path };
    struct ctr_reader *r = NULL;

    if (!names)
        return ctr_fail_nomem(err, sizeof *names);
    int rc = ctr_reader_open(&r, paths, 1, NULL, err);
    if (!rc && (rc = read_names(names, r, err)))
        ctr_err_file(err, path);
    ctr_reader_free(r);
    if (names->entries.len)
        qsort(names->entries.data, names->entries.len / sizeof(struct entry), sizeof(struct entry), by_key);
    return rc;
}

void ctr_keynames_free(struct ctr_keynames *names)
{
    if (!names)
        return;
    ctr_buf_free(&names->entries);
    ctr_buf_free(&names->texts);
    free(names);
}

struct ctr_str ctr_keynames_get(const struct ctr_keynames *names, const char *table, uint64_t key)
{
    const struct entry *e = (const struct entry *)(void *)names->entries.data,
                       want = { key, ctr_hash64(table, strlen(table), 0), 0, 0 };
    size_t low = 0, high = names->entries.len / sizeof *e, end = high;

    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (by_key(&e[mid], &want) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == end || e[low].key != key || e[low].table != want.table)
        return (struct ctr_str){ NULL, 0 };
    return (struct ctr_str){ (const char *)names->texts.data + e[low].at, e[low].n };
}
