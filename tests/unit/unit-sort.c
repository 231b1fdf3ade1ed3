/* SPDX-License-Identifier: Apache-2.0
 *
 * Unit tests of the row-wise form and of sorting: random batches of every type against the plain order of
 * ctr_col_compare, for many memory sizes. */
#include "common/rows/relation.h"
#include "common/rows/roworder.h"
#include "tap.h"

#include <stdlib.h>

static struct ctr_err err;
static uint64_t counter;

static uint64_t rnd(uint64_t below)
{
    return ctr_random64(7, 1, counter++) % below;
}

static struct ctr_schema all_types(void)
{
    struct ctr_schema s = { 0 };
    int rc = 0;

    for (int t = 0; !rc && t < CTR_FOREIGN; t++)
        if (t != CTR_WKEY && t != CTR_LIST && t != CTR_FIXED)
            rc = ctr_schema_add(&s, ctr_types[t].name, (enum ctr_type)t, &err);
    static const enum ctr_type items[] = { CTR_I32, CTR_UTF8, CTR_BOOL, CTR_WKEY };
    for (size_t i = 0; !rc && i < CTR_COUNT(items); i++) {
        char name[32];
        snprintf(name, sizeof name, "list%zu", i);
        rc = ctr_schema_add(&s, name, CTR_LIST, &err);
        s.f[s.n - 1].item = items[i];
    }
    if (!rc)
        rc = ctr_schema_add(&s, "vector", CTR_FIXED, &err);
    s.f[s.n - 1].item = CTR_F32;
    s.f[s.n - 1].width = 3;
    if (!rc)
        rc = ctr_schema_add(&s, "row", CTR_I64, &err);
    return rc ? (struct ctr_schema){ 0 } : s;
}

static int random_value(struct ctr_colbuf *b, bool in_list)
{
    static const double reals[] = { 0.0, -0.0, 1.5, -2.25, 1e30, -1e30, 3.0 };
    char text[64];
    size_t n = rnd(4) ? rnd(5) : rnd(40);
    int rc = 0;

    if (rnd(8) == 0 && !(in_list && b->type == CTR_WKEY))
        return ctr_colbuf_null(b, &err);
    switch (b->type) {
    case CTR_UTF8:
        for (size_t i = 0; i < n; i++)
            text[i] = (char)("ab\0z"[rnd(4)]);
        return ctr_colbuf_str(b, text, n, &err);
    case CTR_F16:
    case CTR_F32:
    case CTR_F64: return ctr_colbuf_f64(b, rnd(9) ? reals[rnd(CTR_COUNT(reals))] : strtod("nan", NULL), &err);
    case CTR_WKEY: return ctr_colbuf_wkey(b, rnd(5), (float)rnd(3), &err);
    case CTR_LIST:
        for (uint64_t i = rnd(4); !rc && i > 0; i--)
            rc = random_value(b->item, true);
        return rc ? rc : ctr_colbuf_close(b, &err);
    case CTR_FIXED:
        for (int i = 0; !rc && i < b->width; i++)
            rc = random_value(b->item, true);
        return rc ? rc : ctr_colbuf_close(b, &err);
    case CTR_BOOL: return ctr_colbuf_i64(b, (int64_t)rnd(2), &err);
    default: return ctr_colbuf_i64(b, rnd(2) ? (int64_t)rnd(3) - 1 : (int64_t)ctr_random64(3, 3, counter++), &err);
    }
}

static int random_rows(struct ctr_batchbuf *b, int64_t n)
{
    int rc = 0;

    for (int64_t i = 0; !rc && i < n; i++) {
        for (int c = 0; !rc && c < b->schema->n - 1; c++)
            rc = random_value(&b->col[c], false);
        if (!rc)
            rc = ctr_colbuf_i64(&b->col[b->schema->n - 1], i, &err);
    }
    return rc;
}

static bool same_value(const struct ctr_col *a, int64_t i, const struct ctr_col *b, int64_t j)
{
    return ctr_col_compare(a, i, b, j) == 0;
}

static void test_round_trip(const struct ctr_schema *s, const struct ctr_batch *b)
{
    struct ctr_rowformat f;
    struct ctr_rowarena arena;
    struct ctr_batchbuf back;
    uint8_t **rows = calloc((size_t)b->rows, sizeof *rows);
    int64_t idx[CTR_ROW_TILE];
    int rc = ctr_rowformat_init(&f, s, false, &err), bad = 0;

    ctr_rowarena_init(&arena, 4096);
    for (int64_t i = 0; !rc && i < b->rows; i += 100) {
        int n = (int)CTR_MIN(100, b->rows - i);
        for (int k = 0; k < n; k++)
            idx[k] = i + k;
        rc = ctr_rowarena_add(&arena, &f, b->col, idx, n, NULL, rows + i, &err);
    }
    if (!rc)
        rc = ctr_batchbuf_init(&back, s, &err);
    for (int c = 0; !rc && c < s->n; c++)
        rc = ctr_row_read(&f, c, (const uint8_t *const *)rows, b->rows, &back.col[c], &err);
    ok(!rc, "columns to rows and back");
    const struct ctr_batch *v = ctr_batchbuf_view(&back);
    for (int c = 0; c < s->n; c++) {
        bad += v->col[c].nulls != b->col[c].nulls;
        for (int64_t i = 0; i < b->rows; i++)
            bad += !same_value(&b->col[c], i, &v->col[c], i);
    }
    ok(v->rows == b->rows && !bad, "every value of every type survives (%d differ)", bad);
    ctr_batchbuf_free(&back);
    ctr_rowarena_free(&arena);
    ctr_rowformat_free(&f);
    free(rows);
}

/* ---- sorting ---- */

struct ref_key {
    int col;
    bool desc;
};
static const struct ctr_batch *ref_batch;
static const struct ref_key *ref_keys;
static int ref_nkeys;

static bool is_nan(const struct ctr_col *c, int64_t i)
{
    return ctr_types[c->type].floating && ctr_col_f64(c, i) != ctr_col_f64(c, i);
}

static int ref_compare_keys(int64_t i, int64_t j)
{
    for (int k = 0; k < ref_nkeys; k++) {
        const struct ctr_col *c = &ref_batch->col[ref_keys[k].col];
        bool last = ctr_col_missing(c, i) || ctr_col_missing(c, j) || is_nan(c, i) || is_nan(c, j);
        int r = ctr_col_compare(c, i, c, j);
        if (r)
            return ref_keys[k].desc && !last ? -r : r;
    }
    return 0;
}

static int ref_compare(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    int r = ref_compare_keys(i, j);

    return r ? r : (i > j) - (i < j);
}

/* The row numbers of the sorted result, or NULL. */
static int64_t *sort_with(const struct ctr_batch *b, const struct ctr_sort_opts *o, int64_t cut, int64_t *n,
                          struct ctr_sort_stats *st)
{
    struct ctr_sort *s;
    struct ctr_batchbuf piece;
    const struct ctr_batch *out;
    int64_t *rows = calloc((size_t)b->rows + 1, sizeof *rows);
    int rc = ctr_sort_new(&s, b->schema, o, &err);

    *n = 0;
    if (rc) {
        free(rows);
        return NULL;
    }
    if (!rc)
        rc = ctr_batchbuf_init(&piece, b->schema, &err);
    for (int64_t i = 0; !rc && i < b->rows; i += cut) {
        ctr_batchbuf_clear(&piece);
        rc = ctr_batchbuf_range(&piece, b, i, CTR_MIN(cut, b->rows - i), &err);
        if (!rc)
            rc = ctr_sort_batch(s, ctr_batchbuf_view(&piece), &err);
    }
    if (!rc)
        rc = ctr_sort_finish(s, &err);
    while (!rc && (rc = ctr_sort_next(s, &out, &err)) > 0) {
        const struct ctr_col *row = &out->col[b->schema->n - 1];
        for (int64_t i = 0; i < out->rows; i++) {
            int64_t r = ctr_col_i64(row, i);
            for (int c = 0; c < b->schema->n; c++)
                if (!same_value(&b->col[c], r, &out->col[c], i))
                    r = -1 - r;
            rows[(*n)++] = r;
        }
        rc = 0;
    }
    ctr_sort_get_stats(s, st);
    ctr_sort_free(s);
    ctr_batchbuf_free(&piece);
    if (rc) {
        free(rows);
        return NULL;
    }
    return rows;
}

static void test_sort(const struct ctr_batch *b, const char *spec, const struct ref_key *keys, int nkeys)
{
    static const int64_t memory[] = { 1, 200 << 10, 1 << 30 };
    struct ctr_strs list = { 0 };
    int64_t *want = malloc((size_t)b->rows * sizeof *want), n;

    ref_batch = b;
    ref_keys = keys;
    ref_nkeys = nkeys;
    for (int64_t i = 0; i < b->rows; i++)
        want[i] = i;
    qsort(want, (size_t)b->rows, sizeof *want, ref_compare);
    if (ctr_strs_add(&list, spec, strlen(spec), &err))
        return;
    for (size_t m = 0; m < CTR_COUNT(memory); m++)
        for (int unique = 0; unique < 2; unique++) {
            struct ctr_sort_opts o = { .keys = &list, .unique = unique, .memory_bytes = memory[m], .batch_rows = 1000 };
            struct ctr_sort_stats st;
            int64_t *got = sort_with(b, &o, m ? 777 : 100, &n, &st), bad = 0, kept = 0;
            for (int64_t i = 0; got && i < b->rows; i++)
                if (!unique || !i || ref_compare_keys(want[i - 1], want[i]))
                    bad += kept >= n || got[kept] != want[i], kept++;
            ok(got && n == kept && !bad && (unique ? st.dropped == b->rows - kept : !st.dropped),
               "-k %s%s, %lld bytes, %lld runs, %lld passes: %lld rows, %lld wrong", spec, unique ? " --unique" : "",
               (long long)memory[m], (long long)st.runs, (long long)st.passes, (long long)n, (long long)bad);
            ok((m == 2) == (st.runs == 0), "spills when it must");
            free(got);
        }
    ctr_strs_free(&list);
    free(want);
}

static void test_shuffle(const struct ctr_batch *b)
{
    struct ctr_sort_opts o = { .shuffle = true, .seed = 5, .memory_bytes = 1 << 30 };
    struct ctr_sort_stats st;
    int64_t n, m, same = 0, moved = 0;
    int64_t *one = sort_with(b, &o, 500, &n, &st), *two;
    char *seen = calloc((size_t)b->rows, 1);

    o.memory_bytes = 1;
    two = sort_with(b, &o, 91, &m, &st);
    for (int64_t i = 0; one && two && i < n; i++) {
        same += one[i] == two[i];
        moved += one[i] != i;
        if (one[i] >= 0)
            seen[one[i]]++;
    }
    ok(n == b->rows && m == n && same == n, "a shuffle does not depend on memory or batches");
    ok(moved > n * 9 / 10 && !memchr(seen, 0, (size_t)n), "a shuffle is a permutation, and moves rows");
    free(two);
    o.seed = 6;
    two = sort_with(b, &o, 500, &m, &st);
    same = 0;
    for (int64_t i = 0; one && two && i < n; i++)
        same += one[i] == two[i];
    ok(same < n / 10, "another seed, another order");
    free(one);
    free(two);
    free(seen);
}

static void test_errors(const struct ctr_schema *s)
{
    static const char *const bad[][2] = {
        { "int33", "int3" },
        { "int32,int32", "twice" },
        { "list0", "list" },
    };
    struct ctr_sort *sort;
    struct ctr_sort_opts o = { 0 };

    ok(ctr_sort_new(&sort, s, &o, &err) == CTR_EUSAGE && strstr(err.what, "-k"), "no keys: %s", err.what);
    for (size_t i = 0; i < CTR_COUNT(bad); i++) {
        struct ctr_strs list = { 0 };
        err = (struct ctr_err){ 0 };
        if (ctr_strs_add(&list, bad[i][0], strlen(bad[i][0]), &err))
            return;
        o.keys = &list;
        ok(ctr_sort_new(&sort, s, &o, &err) < 0 && strstr(err.what, bad[i][1]), "-k %s: %s", bad[i][0], err.what);
        ctr_strs_free(&list);
    }
}

int main(void)
{
    struct ctr_schema s = all_types();
    struct ctr_batchbuf buf;
    const struct ctr_batch *b;

    ok(s.n == CTR_FOREIGN - 3 + 6, "a schema of every type");
    if (ctr_batchbuf_init(&buf, &s, &err) || random_rows(&buf, 5000))
        return 1;
    b = ctr_batchbuf_view(&buf);
    test_round_trip(&s, b);
    for (int c = 0; c < CTR_FOREIGN - 3; c++) {
        char spec[64];
        snprintf(spec, sizeof spec, "%s", s.f[c].name);
        test_sort(b, spec, &(struct ref_key){ c, false }, 1);
        snprintf(spec, sizeof spec, "%s:desc", s.f[c].name);
        test_sort(b, spec, &(struct ref_key){ c, true }, 1);
    }
    test_sort(b, "utf8,int8:desc,float32", (struct ref_key[]){ { CTR_UTF8, 0 }, { CTR_I8, 1 }, { CTR_F32, 0 } }, 3);
    test_sort(b, "bool,int8:asc,int16,uint8",
              (struct ref_key[]){ { CTR_BOOL, 0 }, { CTR_I8, 0 }, { CTR_I16, 0 }, { CTR_U8, 0 } }, 4);
    test_shuffle(b);
    test_errors(&s);
    ctr_batchbuf_free(&buf);
    ctr_schema_free(&s);
    return done_testing();
}
