/* SPDX-License-Identifier: Apache-2.0
 *
 * op_list: operators that order, select, count or sum the items of a list ("FeatureBox", 3.2: the common operators of
 * lists), some of them by scores that go with the items. Bodies: body_list.h. */
#include "common/op/body_list.h"
#include "common/op/opint.h"

#include <math.h>
#include <stdlib.h>

static struct opv_items items_of(const struct ctr_op_in *in, enum opv_item_kind kind)
{
    return (struct opv_items){ kind, in->item, in->item, in->item, in->item_ok };
}

/* Room for the items of the longest list of a tile. */
static int64_t *room_for_longest(const struct ctr_op_tile *t, struct ctr_err *err)
{
    int64_t longest = 0;
    for (int i = 0; i < t->n; i++)
        if (t->ok[i])
            longest = CTR_MAX(longest, t->in[0].span[i].to - t->in[0].span[i].from);
    int64_t *at = malloc(((size_t)longest + 1) * sizeof *at);
    if (!at)
        (void)ctr_fail_nomem(err, (size_t)longest * sizeof *at);
    return at;
}

/* ---- lists of some of the items ---- */

typedef int64_t choose(const struct opv_items *l, struct opv_span a, int64_t k, int64_t *at);

static int reserve(const struct ctr_op_tile *t, enum opv_item_kind kind, struct ctr_err *err)
{
    const struct opv_str *text = t->in[0].item;
    int64_t items = 0, bytes = 0;
    for (int i = 0; i < t->n; i++) {
        const struct opv_span a = t->in[0].span[i];
        items += t->ok[i] ? a.to - a.from : 0;
        for (int64_t k = a.from; t->ok[i] && kind == OPV_ITEM_STR && k < a.to; k++)
            bytes += t->in[0].item_ok[k] ? text[k].n : 0;
    }
    int rc = ctr_op_reserve_items(t->buf, t->n, items, t->limit_bytes, err);
    if (rc)
        return rc;
    return kind == OPV_ITEM_STR ? ctr_op_reserve_text(t->buf->item, items, bytes, t->limit_bytes, err)
                                : ctr_buf_reserve(&t->buf->item->data, (size_t)(items + 1) * 8, err);
}

/* Append the items at[0..n) to the column. */
static void append(struct ctr_colbuf *b, const struct opv_items *l, const int64_t *at, int64_t n)
{
    if (l->kind == OPV_ITEM_STR) {
        struct opv_sink s = { b->data.data, (int64_t)b->data.len, (int32_t *)b->offsets.data + 1, NULL, b->rows };
        for (int64_t i = 0; i < n; i++) {
            opv_put(&s, l->s[at[i]].p, l->s[at[i]].n);
            opv_end_item(&s);
        }
        b->data.len = (size_t)s.n;
        b->offsets.len = (size_t)(s.items + 1) * sizeof(int32_t);
    } else {
        int64_t *to = (int64_t *)b->data.data + b->rows;
        for (int64_t i = 0; i < n; i++)
            memcpy(&to[i], &l->i[at[i]], sizeof to[i]); /* floats too */
        b->data.len += (size_t)n * 8;
    }
    b->rows += n;
}

static int choose_items(struct ctr_op_tile *t, enum opv_item_kind kind, choose *fn, struct ctr_err *err)
{
    const struct opv_items l = items_of(&t->in[0], kind);
    int64_t *at = room_for_longest(t, err);
    int rc = at ? reserve(t, kind, err) : err->code;
    int32_t *end = rc ? NULL : (int32_t *)(t->buf->offsets.data + t->buf->offsets.len);
    for (int i = 0; !rc && i < t->n; i++) {
        const int64_t k = t->nargs > 1 ? ((const int64_t *)t->in[1].v)[i] : 0;
        if (t->ok[i])
            append(t->buf->item, &l, at, fn(&l, t->in[0].span[i], k, at));
        end[i] = (int32_t)t->buf->item->rows;
    }
    if (!rc)
        t->buf->offsets.len += (size_t)t->n * sizeof *end;
    free(at);
    return rc;
}

#define CTR_LOOP_CHOSEN(name, kind, fn)                                                                                \
    static int name##_run(struct ctr_op_tile *t, struct ctr_err *err)                                                  \
    {                                                                                                                  \
        return choose_items(t, kind, fn, err);                                                                         \
    }                                                                                                                  \
    CTR_LOOP_ROW(name, (kind) == OPV_ITEM_STR ? CTR_LOOP_OF_TEXTS : CTR_LOOP_OF_KEYS)

/* ---- one of the items ---- */

typedef int64_t find(const struct opv_items *l, struct opv_span a, int64_t *at);

static int one_item(struct ctr_op_tile *t, enum opv_item_kind kind, find *fn, struct ctr_err *err)
{
    const struct opv_items l = items_of(&t->in[0], kind);
    int64_t *at = room_for_longest(t, err), *r = t->out;
    for (int i = 0; at && i < t->n; i++) {
        const int64_t found = t->ok[i] ? fn(&l, t->in[0].span[i], at) : -1;
        t->ok[i] &= found >= 0;
        r[i] = 0;
        if (found >= 0)
            memcpy(&r[i], &l.i[found], sizeof r[i]);
    }
    free(at);
    return at ? 0 : err->code;
}

#define CTR_LOOP_FOUND(name, kind, fn)                                                                                 \
    static int name##_run(struct ctr_op_tile *t, struct ctr_err *err)                                                  \
    {                                                                                                                  \
        return one_item(t, kind, fn, err);                                                                             \
    }                                                                                                                  \
    CTR_LOOP_ROW(name, CTR_LOOP_OF_FIXED)

static int one_text(struct ctr_op_tile *t, find *fn, struct ctr_err *err)
{
    const struct opv_items l = items_of(&t->in[0], OPV_ITEM_STR);
    int64_t *at = room_for_longest(t, err), bytes = 0, longest;
    int rc = at ? 0 : err->code;
    for (int i = 0; !rc && i < t->n; i++) { /* no item is longer than the longest of its list */
        longest = 0;
        for (int64_t k = t->in[0].span[i].from; t->ok[i] && k < t->in[0].span[i].to; k++)
            longest = CTR_MAX(longest, l.ok[k] ? l.s[k].n : 0);
        bytes += longest;
    }
    if (!rc)
        rc = ctr_op_reserve_text(t->buf, t->n, bytes, t->limit_bytes, err);
    struct opv_sink s = { t->buf->data.data, (int64_t)t->buf->data.len, NULL, NULL, 0 };
    int32_t *end = rc ? NULL : (int32_t *)(t->buf->offsets.data + t->buf->offsets.len);
    for (int i = 0; !rc && i < t->n; i++) {
        const int64_t found = t->ok[i] ? fn(&l, t->in[0].span[i], at) : -1;
        t->ok[i] &= found >= 0;
        if (found >= 0)
            opv_put(&s, l.s[found].p, l.s[found].n);
        end[i] = (int32_t)s.n;
    }
    if (!rc) {
        t->buf->data.len = (size_t)s.n;
        t->buf->offsets.len += (size_t)t->n * sizeof *end;
    }
    free(at);
    return rc;
}

#define CTR_LOOP_FOUND_TEXT(name, fn)                                                                                  \
    static int name##_run(struct ctr_op_tile *t, struct ctr_err *err)                                                  \
    {                                                                                                                  \
        return one_text(t, fn, err);                                                                                   \
    }                                                                                                                  \
    CTR_LOOP_ROW(name, CTR_LOOP_OF_TEXT)

#include "common/op/loop_list.h"

static int prepare_histogram(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    enum { MOST_BINS = 4096 };
    const struct ctr_value *bins = call->arg[3].literal;
    struct op_histogram *p = calloc(1, sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    s->param = p;
    s->param_free = free;
    s->param_bytes = sizeof *p;
    if (!ctr_value_number(call->arg[1].literal, &p->low) || !ctr_value_number(call->arg[2].literal, &p->high) ||
        !(p->low < p->high && p->high - p->low < OPV_INF))
        return ctr_fail(err, CTR_EUSAGE, "histogram wants low below high: histogram(x, -1, 1, 20)");
    if (bins->kind != CTR_V_INT || bins->i < 1 || bins->i > MOST_BINS)
        return ctr_fail(err, CTR_EUSAGE, "histogram wants 1 to %d bins", MOST_BINS);
    p->bins = bins->i;
    call->result = s->inner = (struct ctr_vtype){ .type = CTR_FIXED, .item = CTR_F32, .width = (int32_t)bins->i };
    return 0;
}

/* ---- top_by: the items with the largest scores ---- */

struct scored {
    double score;
    int64_t whole; /* the score of integers, of which some are equal as doubles; else 0 */
    int64_t item;
};

static bool scores_more(struct scored a, struct scored b)
{
    if (a.score != b.score || a.whole == b.whole)
        return a.score > b.score || (a.score == b.score && a.item < b.item);
    return a.whole > b.whole;
}

/* A heap whose first element has the lowest score. */
static void sift_down(struct scored *h, int64_t root, int64_t n)
{
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && scores_more(h[child], h[child + 1]))
            child++;
        if (!scores_more(h[root], h[child]))
            return;
        const struct scored swap = h[root];
        h[root] = h[child];
        h[child] = swap;
    }
}

/* The k items with the largest scores of n, the largest first, by number of the item, in `at`; returns how many. An
 * item without a score has no part. */
static int64_t take_top(const struct ctr_col *score, int64_t from, int64_t n, int64_t first_item, int64_t k,
                        struct scored *heap, int64_t *at)
{
    int64_t held = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool none = ctr_col_missing(score, from + i);
        const struct scored s = { none ? NAN : ctr_col_f64(score, from + i),
                                  none || !ctr_types[score->type].integer ? 0 : ctr_col_i64(score, from + i),
                                  first_item + i };
        if (s.score != s.score)
            continue;
        if (held < k) {
            heap[held++] = s;
            for (int64_t root = held == k ? k / 2 : 0; root-- > 0;)
                sift_down(heap, root, held);
        } else if (scores_more(s, heap[0])) {
            heap[0] = s;
            sift_down(heap, 0, held);
        }
    }
    for (int64_t root = held < k ? held / 2 : 0; root-- > 0;)
        sift_down(heap, root, held);
    for (int64_t left = held; left > 0; left--) {
        at[left - 1] = heap[0].item;
        heap[0] = heap[left - 1];
        sift_down(heap, 0, left - 1);
    }
    return held;
}

static int prepare_top_by(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_value *k = call->arg[2].literal;
    const struct ctr_vtype *list = &call->arg[0].type;
    (void)s;
    if (call->arg[0].literal || call->arg[1].literal)
        return ctr_fail(err, CTR_EUSAGE, "top_by wants columns as its list and its scores");
    if (k->kind != CTR_V_INT || k->i < 1)
        return ctr_fail(err, CTR_EUSAGE, "top_by wants 1 or more items");
    call->result =
        (struct ctr_vtype){ .type = CTR_LIST, .item = list->item, .key = list->key, .duration = list->duration };
    return 0;
}

/* A row of top_by: *n items of `item` at numbers in `at`; false: the row is null. */
static bool top_of_row(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t row,
                       struct scored *heap, int64_t *at, int64_t *n, const struct ctr_col **item)
{
    const int64_t k = call->arg[2].literal->i;
    int64_t a = 0, a_end = 0, b = 0, b_end = 0;
    if (ctr_col_missing(col[0], row) || ctr_col_missing(col[1], row))
        return false;
    *item = ctr_col_items(col[0], call->arg[0].type.width, row, &a, &a_end);
    const struct ctr_col *score = ctr_col_items(col[1], call->arg[1].type.width, row, &b, &b_end);
    if (a_end - a != b_end - b)
        return false;
    *n = take_top(score, b, b_end - b, a, k, heap, at);
    return true;
}

static int64_t longest_list(const struct ctr_col *list, int32_t width, int64_t rows, int64_t *all)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = 0, to = 0;
        if (!ctr_col_missing(list, i))
            (void)ctr_col_items(list, width, i, &from, &to);
        longest = CTR_MAX(longest, to - from);
        *all += to - from;
    }
    return longest;
}

static int column_top_by(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows,
                         struct ctr_colbuf *out, struct ctr_err *err)
{
    int64_t all = 0, n = 0;
    const int64_t longest = longest_list(col[0], call->arg[0].type.width, rows, &all);
    struct scored *heap = malloc(((size_t)longest + 1) * sizeof *heap);
    int64_t *at = malloc(((size_t)longest + 1) * sizeof *at);
    int rc = heap && at ? 0 : ctr_fail_nomem(err, (size_t)longest * (sizeof *heap + sizeof *at));
    if (!rc)
        rc = ctr_op_reserve_items(out, rows, CTR_MIN(all, rows * CTR_MIN(call->arg[2].literal->i, longest)),
                                  call->limit_bytes, err);
    for (int64_t i = 0; !rc && i < rows; i++) {
        const struct ctr_col *item = NULL;
        const bool is = top_of_row(call, col, i, heap, at, &n, &item);
        if (is)
            rc = ctr_colbuf_gather(out->item, item, at, n, err);
        if (!rc)
            rc = is ? ctr_colbuf_close(out, err) : ctr_colbuf_null(out, err);
    }
    free(heap);
    free(at);
    return rc;
}

const struct ctr_op ctr_ops_list[] = {
    { "sort", "sort(list of numbers, texts, times or durations) -> list",
      "its items in ascending order, text by bytes, without nulls: sort([3,1,2]) is [1,2,3]", 0,
      CTR_VARIANTS({ "[u>[u", loop_sort_u }, { "[i>[i", loop_sort_i }, { "[f>[f", loop_sort_f },
                   { "[t>[t", loop_sort_t }, { "[T>[T", loop_sort_i }, { "[d>[d", loop_sort_i }) },
    { "unique", "unique(list of numbers, texts, times or durations) -> list",
      "each item once, where it comes first, without nulls: unique([3,1,3]) is [3,1]", 0,
      CTR_VARIANTS({ "[u>[u", loop_unique_i }, { "[i>[i", loop_unique_i }, { "[f>[f", loop_unique_f },
                   { "[t>[t", loop_unique_t }, { "[T>[T", loop_unique_i }, { "[d>[d", loop_unique_i }) },
    { "top", "top(list of numbers, texts, times or durations, k: int) -> list",
      "the k largest items, the largest first: top([3,9,5], 2) is [9,5]", 0,
      CTR_VARIANTS({ "[ui>[u", loop_top_u }, { "[ii>[i", loop_top_i }, { "[fi>[f", loop_top_f },
                   { "[ti>[t", loop_top_t }, { "[Ti>[T", loop_top_i }, { "[di>[d", loop_top_i }) },
    { "top_by", "top_by(list, scores: list of numbers, k: int) -> list",
      "the k items with the largest scores, the largest first, of equal ones as they stand; without items whose score "
      "is "
      "null or NaN; null where the lists differ in length: top_by([\"a\",\"b\",\"c\"], [1,3,2], 2) is [b,c]",
      CTR_OP_COLUMN, CTR_VARIANTS({ "[v[fi!>[i", NULL }), NULL, prepare_top_by, column_top_by },
    { "histogram", "histogram(list of numbers, low: number, high: number, bins: int) -> list of float",
      "a vector: log1p of how many items lie in each of so many parts of equal length from low to high; smaller items "
      "count in the first, larger ones in the last; nulls and NaN in none: histogram([-1,0.5,1,7], -1, 1, 2) is "
      "[0.6931472,1.3862944]",
      0, CTR_VARIANTS({ "[ff!f!i!>[f", loop_histogram }), NULL, prepare_histogram },
    { "sum", "sum(list of numbers or durations) -> number or duration",
      "x[0] + x[1] + ..., without nulls: sum([1,2]) is 3, of none 0; null where int64 overflows", 0,
      CTR_VARIANTS({ "[u>i", loop_sum_u }, { "[i>i", loop_sum_i }, { "[f>f", loop_sum_f }, { "[d>d", loop_sum_i }) },
    { "mean", "mean(list of numbers) -> float",
      "sum(x) / number of items that are not null: mean([1,2]) is 1.5; null of none", 0,
      CTR_VARIANTS({ "[f>f", loop_mean }) },
    { "max", "max(list of numbers, times or durations) -> type of the items",
      "the largest item: max([1,7,3]) is 7; null of none", 0,
      CTR_VARIANTS({ "[u>u", loop_max_u }, { "[i>i", loop_max_i }, { "[f>f", loop_max_f }, { "[T>T", loop_max_i },
                   { "[d>d", loop_max_i }) },
    { "min", "min(list of numbers, times or durations) -> type of the items",
      "the smallest item: min([4,1]) is 1; null of none", 0,
      CTR_VARIANTS({ "[u>u", loop_min_u }, { "[i>i", loop_min_i }, { "[f>f", loop_min_f }, { "[T>T", loop_min_i },
                   { "[d>d", loop_min_i }) },
    { "mode", "mode(list of numbers, texts, times or durations) -> type of the items",
      "the item that comes most often, the first of several: mode([1,2,2]) is 2; null of none", 0,
      CTR_VARIANTS({ "[u>u", loop_mode_i }, { "[i>i", loop_mode_i }, { "[f>f", loop_mode_f }, { "[t>t", loop_mode_t },
                   { "[T>T", loop_mode_i }, { "[d>d", loop_mode_i }) },
    { NULL },
};
