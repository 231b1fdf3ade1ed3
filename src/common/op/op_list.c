/* SPDX-License-Identifier: Apache-2.0
 *
 * op_list: operators that order, select, count or sum the items of a list ("FeatureBox", 3.2: the common operators of
 * lists). Bodies: body_list.h. */
#include "common/op/body_list.h"
#include "common/op/opint.h"

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

const struct ctr_op ctr_ops_list[] = {
    { "sort", "sort(list of numbers, texts, times or durations) -> list",
      "its items in ascending order, text by bytes, without nulls: sort([3,1,2]) is [1,2,3]", 0,
      CTR_VARIANTS({ "[i>[i", loop_sort_i }, { "[f>[f", loop_sort_f }, { "[t>[t", loop_sort_t },
                   { "[T>[T", loop_sort_i }, { "[d>[d", loop_sort_i }) },
    { "unique", "unique(list of numbers, texts, times or durations) -> list",
      "each item once, where it comes first, without nulls: unique([3,1,3]) is [3,1]", 0,
      CTR_VARIANTS({ "[i>[i", loop_unique_i }, { "[f>[f", loop_unique_f }, { "[t>[t", loop_unique_t },
                   { "[T>[T", loop_unique_i }, { "[d>[d", loop_unique_i }) },
    { "top", "top(list of numbers, texts, times or durations, k: int) -> list",
      "the k largest items, the largest first: top([3,9,5], 2) is [9,5]", 0,
      CTR_VARIANTS({ "[ii>[i", loop_top_i }, { "[fi>[f", loop_top_f }, { "[ti>[t", loop_top_t },
                   { "[Ti>[T", loop_top_i }, { "[di>[d", loop_top_i }) },
    { "sum", "sum(list of numbers or durations) -> number or duration",
      "x[0] + x[1] + ..., without nulls: sum([1,2]) is 3, of none 0; null where int64 overflows", 0,
      CTR_VARIANTS({ "[i>i", loop_sum_i }, { "[f>f", loop_sum_f }, { "[d>d", loop_sum_i }) },
    { "mean", "mean(list of numbers) -> float",
      "sum(x) / number of items that are not null: mean([1,2]) is 1.5; null of none", 0,
      CTR_VARIANTS({ "[f>f", loop_mean }) },
    { "max", "max(list of numbers, times or durations) -> type of the items",
      "the largest item: max([1,7,3]) is 7; null of none", 0,
      CTR_VARIANTS({ "[i>i", loop_max_i }, { "[f>f", loop_max_f }, { "[T>T", loop_max_i }, { "[d>d", loop_max_i }) },
    { "min", "min(list of numbers, times or durations) -> type of the items",
      "the smallest item: min([4,1]) is 1; null of none", 0,
      CTR_VARIANTS({ "[i>i", loop_min_i }, { "[f>f", loop_min_f }, { "[T>T", loop_min_i }, { "[d>d", loop_min_i }) },
    { "mode", "mode(list of numbers, texts, times or durations) -> type of the items",
      "the item that comes most often, the first of several: mode([1,2,2]) is 2; null of none", 0,
      CTR_VARIANTS({ "[i>i", loop_mode_i }, { "[f>f", loop_mode_f }, { "[t>t", loop_mode_t }, { "[T>T", loop_mode_i },
                   { "[d>d", loop_mode_i }) },
    { NULL },
};
