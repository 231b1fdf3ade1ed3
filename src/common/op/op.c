/* SPDX-License-Identifier: Apache-2.0
 *
 * op: the driver of operators: runs a bound call on columns, tile by tile. It handles nulls, dictionaries, lists as
 * arguments of scalar operators, and literals, so that no operator has to. */
#include "common/op/opint.h"

#include <stdlib.h>

/* A call runs in three steps, of which the operator's loop sees only the last:
 *
 *     lower(name) where name is a dictionary column:    once per entry, then gathered by index   (run_entries)
 *     lower(tags) where tags is a list of texts:        on the items; the shape is copied        (run_lifted)
 *     any columns:                                      256 rows at a time                       (run_tiles)
 *
 * For a tile each argument is loaded into a lane, an array of one C type, whatever the column's type: an int8 and an
 * int64 column are both int64_t, a literal is the same value 256 times. `ok` says which rows have a value: where any
 * argument is null the result is, unless the operator takes nulls itself (CTR_OP_NULLS). So 3 + x with x = 1, null, 5:
 *
 *     in[0].v 3 3 3    in[1].v 1 0 5    ok 1 0 1    ->  loop: out 4 3 8, ok 1 0 1  ->  column 4, null, 8
 *
 * Results go straight into the output column where its values have 8 bytes; bits and narrow types through an array. */

/* ---- tiles ---- */

struct arg_work {
    struct ctr_op_in in;
    struct ctr_buf item, item_ok, text;
    uint8_t ok[CTR_OP_TILE];
    struct opv_span span[CTR_OP_TILE];
    struct opv_str lane[CTR_OP_TILE]; /* of any kind: this is the widest */
};

struct work {
    struct ctr_op_in *in;
    struct arg_work *arg;
    uint8_t ok[CTR_OP_TILE];
};

/* The lane of a literal: the same value in every row, filled once. */
bool ctr_lane_literal(enum ctr_lane lane, uint64_t hash_seed, const struct ctr_value *v, char *text, void *to, int n)
{
    double f = 0;
    struct opv_str s = { (const uint8_t *)v->s.p, v->kind == CTR_V_STR ? (int64_t)v->s.n : 0 };

    (void)ctr_value_number(v, &f);
    if (lane == CTR_LANE_TEXT || lane == CTR_LANE_HASH) {
        if (v->kind == CTR_V_BOOL)
            s.n = v->i ? 4 : 5, s.p = (const uint8_t *)(v->i ? "true" : "false");
        else if (v->kind != CTR_V_STR) {
            s.p = (const uint8_t *)text;
            s.n = (int64_t)(v->kind == CTR_V_FLOAT  ? ctr_fmt_f64(text, v->f)
                            : v->kind == CTR_V_TIME ? ctr_time_iso(text, v->i)
                            : v->kind == CTR_V_UINT ? ctr_fmt_u64(text, (uint64_t)v->i)
                                                    : ctr_fmt_i64(text, v->i));
        }
    }
    for (int i = 0; i < n; i++)
        switch (lane) {
        case CTR_LANE_BOOL: ((uint8_t *)to)[i] = v->i != 0; break;
        case CTR_LANE_I64:
        case CTR_LANE_U64: ((int64_t *)to)[i] = v->i; break;
        case CTR_LANE_F64: ((double *)to)[i] = f; break;
        case CTR_LANE_HASH: ((uint64_t *)to)[i] = ctr_text_key(s.p, s.n, hash_seed); break;
        default: ((struct opv_str *)to)[i] = s; break;
        }
    return v->kind != CTR_V_NULL && !(v->kind == CTR_V_UINT && lane == CTR_LANE_I64);
}

static void fill_literal(enum ctr_lane lane, uint64_t hash_seed, const struct ctr_op_arg *a, struct arg_work *w)
{
    char *text = (char *)w->span; /* a literal does not use its spans */

    memset(w->ok, ctr_lane_literal(lane, hash_seed, a->literal, text, w->lane, CTR_OP_TILE), sizeof w->ok);
    w->in = (struct ctr_op_in){ .v = w->lane, .ok = w->ok };
}

/* Spans of rows of a list column, and the lane of the items they cover. */
static int load_list(struct ctr_lane_kind kind, uint64_t hash_seed, const struct ctr_vtype *type,
                     const struct ctr_col *c, int64_t from, int n, struct arg_work *w, struct ctr_err *err)
{
    int64_t base = c->offsets ? c->offsets[from] : from * type->width;
    int rc;

    for (int i = 0; i < n; i++) {
        int64_t at = c->offsets ? c->offsets[from + i] : (from + i) * type->width;
        int64_t to = c->offsets ? c->offsets[from + i + 1] : at + type->width;
        w->span[i] = (struct opv_span){ at - base, to - base };
    }
    int64_t items = w->span[n - 1].to;
    w->in.span = w->span;
    if (kind.lane == CTR_LANE_NONE)
        return 0;
    if ((rc = ctr_buf_reserve(&w->item, (size_t)items * sizeof(struct opv_str) + 1, err)) ||
        (rc = ctr_buf_reserve(&w->item_ok, (size_t)items + 1, err)) ||
        (rc = ctr_lane_load(kind.lane, type->key, hash_seed, c->item, base, items, w->item.data, w->item_ok.data,
                            &w->text, &w->in.item, err)))
        return rc;
    w->in.item_ok = w->item_ok.data;
    return 0;
}

static int load_arg(struct ctr_lane_kind kind, uint64_t hash_seed, const struct ctr_vtype *type,
                    const struct ctr_col *c, int64_t from, int n, struct arg_work *w, struct ctr_err *err)
{
    if (kind.list) {
        ctr_lane_valid(c->valid, from, n, w->ok);
        return load_list(kind, hash_seed, type, c, from, n, w, err);
    }
    return ctr_lane_load(kind.lane, type->key, hash_seed, c, from, n, w->lane, w->ok, &w->text, &w->in.v, err);
}

static void work_free(struct work *w, int nargs)
{
    for (int k = 0; w->arg && k < nargs; k++) {
        ctr_buf_free(&w->arg[k].item);
        ctr_buf_free(&w->arg[k].item_ok);
        ctr_buf_free(&w->arg[k].text);
    }
    free(w->arg);
    free(w->in);
}

static int work_init(struct work *w, const struct ctr_op_call *call, struct ctr_err *err)
{
    const struct ctr_op_state *s = call->state;
    size_t n = (size_t)s->nargs + 1;

    w->in = calloc(n, sizeof *w->in);
    w->arg = malloc(n * sizeof *w->arg);
    if (!w->in || !w->arg) {
        free(w->in);
        free(w->arg);
        return ctr_fail_nomem(err, n * sizeof *w->arg);
    }
    for (int k = 0; k < s->nargs; k++) {
        struct arg_work *a = &w->arg[k];
        a->item = a->item_ok = a->text = (struct ctr_buf){ 0 };
        a->in = (struct ctr_op_in){ .ok = a->ok };
        if (call->arg[k].literal)
            fill_literal(s->in[k].lane, call->hash_seed, &call->arg[k], a);
    }
    return 0;
}

static int run_tiles(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t from, int64_t rows,
                     int (*fn)(void *ctx, struct ctr_op_tile *t, struct ctr_err *err), void *ctx, struct work *w,
                     struct ctr_err *err)
{
    const struct ctr_op_state *s = call->state;

    for (int64_t done = 0; done < rows; done += CTR_OP_TILE) {
        struct ctr_op_tile t = { .n = (int)CTR_MIN(rows - done, CTR_OP_TILE),
                                 .nargs = s->nargs,
                                 .in = w->in,
                                 .ok = w->ok,
                                 .param = s->param,
                                 .limit_bytes = call->limit_bytes };
        memset(w->ok, 1, (size_t)t.n);
        for (int k = 0; k < s->nargs; k++) {
            int rc = call->arg[k].literal ? 0
                                          : load_arg(s->in[k], call->hash_seed, &call->arg[k].type, col[k], from + done,
                                                     t.n, &w->arg[k], err);
            if (rc)
                return rc;
            w->in[k] = w->arg[k].in;
            if (!(s->op->flags & CTR_OP_NULLS))
                for (int i = 0; i < t.n; i++)
                    w->ok[i] &= w->arg[k].ok[i];
        }
        int rc = fn(ctx, &t, err);
        if (rc)
            return rc;
    }
    return 0;
}

int ctr_op_tiles(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t from, int64_t rows,
                 int (*fn)(void *ctx, struct ctr_op_tile *t, struct ctr_err *err), void *ctx, struct ctr_err *err)
{
    struct work w;
    int rc = work_init(&w, call, err);

    if (rc)
        return rc;
    rc = run_tiles(call, col, from, rows, fn, ctx, &w, err);
    work_free(&w, ((const struct ctr_op_state *)call->state)->nargs);
    return rc;
}

/* ---- results ---- */

struct run {
    const struct ctr_op_state *s;
    struct ctr_colbuf *out;
};

/* The value of a null is 0, so that equal columns have equal bytes. */
static void clear_nulls(uint64_t *v, const uint8_t *ok, int n)
{
    for (int i = 0; i < n; i++)
        v[i] = ok[i] ? v[i] : 0;
}

static int run_fixed8(const struct run *r, struct ctr_op_tile *t, struct ctr_err *err)
{
    struct ctr_buf *data = &r->out->data;
    int rc = ctr_buf_reserve(data, (size_t)t->n * 8, err);

    if (rc)
        return rc;
    t->out = data->data + data->len;
    if ((rc = r->s->loop->run(t, err)))
        return rc;
    if (memchr(t->ok, 0, (size_t)t->n))
        clear_nulls(t->out, t->ok, t->n);
    data->len += (size_t)t->n * 8;
    return 0;
}

/* bool: bytes to bits; float32: narrowed exactly, because the values came from float32. */
static int append_narrow(struct ctr_colbuf *out, const void *lane, const uint8_t *ok, int n, struct ctr_err *err)
{
    bool bits = out->type == CTR_BOOL;
    size_t size = bits ? (size_t)(n + 7) / 8 : (size_t)n * sizeof(float);
    int rc = ctr_buf_reserve(&out->data, size, err);

    if (rc)
        return rc;
    if (bits) {
        const uint8_t *v = lane;
        uint8_t *to = out->data.data + out->data.len;
        memset(to, 0, size);
        for (int i = 0; i < n; i++)
            to[i >> 3] |= (uint8_t)((v[i] & ok[i]) << (i & 7));
    } else {
        const double *v = lane;
        float *to = (void *)(out->data.data + out->data.len);
        for (int i = 0; i < n; i++)
            to[i] = ok[i] ? (float)v[i] : 0;
    }
    out->data.len += size;
    return 0;
}

static int run_narrow(const struct run *r, struct ctr_op_tile *t, struct ctr_err *err)
{
    double scratch[CTR_OP_TILE];

    t->out = scratch;
    int rc = r->s->loop->run(t, err);
    return rc ? rc : append_narrow(r->out, scratch, t->ok, t->n, err);
}

/* Integers of fewer than 64 bits: the low bytes. */
static int append_low(struct ctr_colbuf *out, const void *lane, const uint8_t *ok, int n, struct ctr_err *err)
{
    const size_t width = (size_t)ctr_types[out->type].width;
    const int64_t *v = lane;
    int rc = ctr_buf_reserve(&out->data, (size_t)n * width, err);

    for (int i = 0; !rc && i < n; i++, out->data.len += width) {
        const int64_t low = ok[i] ? v[i] : 0;
        memcpy(out->data.data + out->data.len, &low, width);
    }
    return rc;
}

/* Vectors of float32. */
static int append_vectors(struct ctr_colbuf *out, const float *v, const uint8_t *ok, int64_t rows, struct ctr_err *err)
{
    int rc = 0;

    for (int64_t i = 0; !rc && i < rows; i++, v += out->width) {
        for (int32_t d = 0; !rc && ok[i] && d < out->width; d++)
            rc = ctr_colbuf_f64(out->item, v[d], err);
        if (!rc)
            rc = ok[i] ? ctr_colbuf_close(out, err) : ctr_colbuf_null(out, err);
    }
    return rc;
}

int ctr_op_device_fixed(struct ctr_colbuf *out, const void *lane, const uint8_t *ok, int64_t rows, struct ctr_err *err)
{
    const size_t width = out->type == CTR_BOOL ? 1 : 8;
    int rc = 0;

    if (out->type == CTR_FIXED)
        return append_vectors(out, lane, ok, rows, err);
    for (int64_t done = 0; !rc && done < rows; done += CTR_OP_TILE) {
        const int n = (int)CTR_MIN(rows - done, CTR_OP_TILE);
        const uint8_t *from = (const uint8_t *)lane + (size_t)done * width;
        rc = out->type == CTR_BOOL || out->type == CTR_F32 ? append_narrow(out, from, ok + done, n, err)
             : ctr_types[out->type].width < 8              ? append_low(out, from, ok + done, n, err)
                                                           : ctr_buf_append(&out->data, from, (size_t)n * 8, err);
        rc = rc ? rc : ctr_lane_append_valid(out, ok + done, n, err);
    }
    return rc;
}

static int run_vectors(const struct run *r, struct ctr_op_tile *t, struct ctr_err *err)
{
    float *v = malloc((size_t)t->n * (size_t)r->out->width * sizeof *v);
    if (!v)
        return ctr_fail_nomem(err, (size_t)t->n * (size_t)r->out->width * sizeof *v);
    t->out = v;
    int rc = r->s->loop->run(t, err);
    if (!rc)
        rc = append_vectors(r->out, v, t->ok, t->n, err);
    free(v);
    return rc;
}

static int run_tile(void *ctx, struct ctr_op_tile *t, struct ctr_err *err)
{
    const struct run *r = ctx;
    int rc;

    t->buf = r->out;
    if (r->out->type == CTR_FIXED)
        return run_vectors(r, t, err);
    if (r->out->type == CTR_UTF8 || r->out->type == CTR_LIST)
        rc = r->s->loop->run(t, err);
    else if (r->out->type == CTR_BOOL || r->out->type == CTR_F32)
        rc = run_narrow(r, t, err);
    else
        rc = run_fixed8(r, t, err);
    return rc ? rc : ctr_lane_append_valid(r->out, t->ok, t->n, err);
}

static int run_plain(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t from, int64_t rows,
                     struct ctr_colbuf *out, struct ctr_err *err)
{
    struct run r = { call->state, out };

    return ctr_op_tiles(call, col, from, rows, run_tile, &r, err);
}

/* ---- lists, item by item ---- */

/* Offsets and nulls of the list column whose items the loop has computed. */
int ctr_op_device_shape(struct ctr_colbuf *out, const struct ctr_col *c, int64_t rows, struct ctr_err *err)
{
    uint8_t ok[CTR_OP_TILE];
    const int64_t width = c->offsets ? 0 : ctr_col_width(c);
    int rc;

    if (out->type == CTR_LIST) {
        if (rows * width > INT32_MAX)
            return ctr_op_too_large(rows * width, INT32_MAX, err);
        if ((rc = ctr_op_reserve_items(out, rows, 0, 0, err)))
            return rc;
        for (int64_t i = 1; i <= rows; i++)
            ((int32_t *)out->offsets.data)[i] = c->offsets ? c->offsets[i] - c->offsets[0] : (int32_t)(i * width);
        out->offsets.len = (size_t)(rows + 1) * sizeof(int32_t);
    }
    for (int64_t done = 0; done < rows; done += CTR_OP_TILE) {
        int64_t n = CTR_MIN(rows - done, CTR_OP_TILE);
        ctr_lane_valid(c->valid, done, n, ok);
        if ((rc = ctr_lane_append_valid(out, ok, n, err)))
            return rc;
    }
    return 0;
}

static int run_lifted(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows,
                      struct ctr_colbuf *out, struct ctr_err *err)
{
    struct ctr_op_state *s = call->state;
    const struct ctr_col *c = col[0], *item = c->item;
    int64_t from = c->offsets ? c->offsets[0] : 0;
    int64_t n = c->offsets ? c->offsets[rows] - from : rows * call->arg[0].type.width;

    if (rows == 0)
        return 0;
    int rc = run_plain(call, &item, from, n, out->item, err);
    (void)s;
    return rc ? rc : ctr_op_device_shape(out, c, rows, err);
}

/* ---- dictionaries ---- */

static int run_decoded(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows,
                       struct ctr_colbuf *out, struct ctr_err *err)
{
    const struct ctr_op_state *s = call->state;

    if (s->op->flags & CTR_OP_COLUMN)
        return s->op->column(call, col, rows, out, err);
    return s->lift ? run_lifted(call, col, rows, out, err) : run_plain(call, col, 0, rows, out, err);
}

/* Bytes that rows idx[0, n) of a column would add to another column. */
static int64_t gathered_bytes(const struct ctr_col *c, const int64_t *idx, int64_t n)
{
    int64_t bytes = 0;

    for (int64_t i = 0; i < n; i++)
        bytes += idx[i] < 0 ? 0 : ctr_col_bytes(c, idx[i], 1);
    return bytes;
}

/* If the only column argument is encoded: compute once per entry, then gather. */
static int run_entries(const struct ctr_op_call *call, int k, const struct ctr_col *const *col, int64_t rows,
                       struct ctr_colbuf *out, struct ctr_err *err)
{
    struct ctr_field f = ctr_vtype_field(&call->result);
    const struct ctr_col **entry = calloc((size_t)call->nargs, sizeof *entry);
    int64_t idx[CTR_OP_TILE], bytes = 0;
    struct ctr_colbuf b;

    if (!entry)
        return ctr_fail_nomem(err, (size_t)call->nargs * sizeof *entry);
    entry[k] = col[k]->dict;
    int rc = ctr_colbuf_init(&b, &f, err);
    if (!rc)
        rc = run_decoded(call, entry, col[k]->dict->rows, &b, err);
    for (int64_t done = 0; !rc && done < rows; done += CTR_OP_TILE) {
        int64_t n = CTR_MIN(rows - done, CTR_OP_TILE);
        const int32_t *v = (const int32_t *)col[k]->data + done;
        for (int64_t i = 0; i < n; i++)
            idx[i] = ctr_col_null(col[k], done + i) ? -1 : v[i];
        if (call->limit_bytes && f.type >= CTR_UTF8)
            bytes += gathered_bytes(ctr_colbuf_view(&b), idx, n);
        rc = bytes > call->limit_bytes ? ctr_op_too_large(bytes, call->limit_bytes, err)
                                       : ctr_colbuf_gather(out, ctr_colbuf_view(&b), idx, n, err);
    }
    ctr_colbuf_free(&b);
    free(entry);
    return rc;
}

/* Decode encoded list columns first, because lanes cannot hold them. */
static int run_lists_decoded(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows,
                             struct ctr_colbuf *out, struct ctr_err *err)
{
    const struct ctr_col **plain = calloc((size_t)call->nargs + 1, sizeof *plain);
    struct ctr_colbuf *b = calloc((size_t)call->nargs + 1, sizeof *b);
    int rc = plain && b ? 0 : ctr_fail_nomem(err, (size_t)call->nargs * sizeof *b);

    for (int k = 0; !rc && k < call->nargs; k++) {
        if (call->arg[k].literal)
            continue;
        plain[k] = col[k];
        if (col[k]->dict && col[k]->dict->item) {
            struct ctr_field f = ctr_vtype_field(&call->arg[k].type);
            if (!(rc = ctr_colbuf_init(&b[k], &f, err)) && !(rc = ctr_colbuf_range(&b[k], col[k], 0, rows, err)))
                plain[k] = ctr_colbuf_view(&b[k]);
        }
    }
    if (!rc)
        rc = run_decoded(call, plain, rows, out, err);
    for (int k = 0; b && k < call->nargs; k++)
        ctr_colbuf_free(&b[k]);
    free(b);
    free(plain);
    return rc;
}

int ctr_op_run(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows, struct ctr_colbuf *out,
               struct ctr_err *err)
{
    const struct ctr_op_state *s = call->state;
    int columns = 0, only = -1;
    bool encoded_list = false;

    if (s->needs_fit)
        return ctr_fail(err, CTR_EUSAGE, "%s is not fitted: fit the plan first, with ctr-extract --fit", s->op->name);
    for (int k = 0; k < call->nargs; k++) {
        if (call->arg[k].literal)
            continue;
        columns++;
        only = k;
        encoded_list |= col[k]->dict && col[k]->dict->item;
    }
    if (columns == 1 && col[only]->dict && col[only]->dict->rows <= rows && !(s->op->flags & CTR_OP_NULLS))
        return run_entries(call, only, col, rows, out, err);
    if (encoded_list)
        return run_lists_decoded(call, col, rows, out, err);
    return run_decoded(call, col, rows, out, err);
}

int ctr_op_run_keys(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows, uint64_t table_seed,
                    struct ctr_buf *memo, struct ctr_colbuf *out, struct ctr_err *err)
{
    struct ctr_field f = ctr_vtype_field(&call->result);
    struct ctr_colbuf b;
    int rc;

    if (ctr_vocab_has_keys(call))
        return ctr_vocab_keys(call, col, rows, table_seed, memo, out, err);
    if ((rc = ctr_colbuf_init(&b, &f, err)))
        return rc;
    rc = ctr_op_run(call, col, rows, &b, err);
    if (!rc)
        rc = ctr_op_keys(&call->result, ctr_colbuf_view(&b), rows, table_seed, memo, out, err);
    ctr_colbuf_free(&b);
    return rc;
}
