/* SPDX-License-Identifier: Apache-2.0
 *
 * op_device: bound calls in the form a device needs, and its results as columns. The kernels are in common/op.
 * Invariant: a call that is not refused gives the same column as ctr_op_run. */
#include "common/op/oplayer.h"
#include "common/op/opint.h"

_Static_assert((int)OPD_HASH == (int)CTR_LANE_HASH && (int)OPD_STR == (int)CTR_LANE_STR &&
                   (int)OPD_LANE_BOOL == (int)CTR_LANE_BOOL,
               "lanes are numbered alike");
_Static_assert(OPD_ARGS == CTR_COUNT(((struct ctr_op_device *)0)->arg), "as many arguments");

static bool is_list(const struct ctr_vtype *t)
{
    return t->type == CTR_LIST || t->type == CTR_FIXED;
}

/* The reason why a device cannot load a column of that type into the lane, or NULL. */
static const char *no_lane(enum ctr_lane lane, enum ctr_type type, bool key)
{
    const bool text = lane == CTR_LANE_TEXT || (lane == CTR_LANE_HASH && !key);
    if (type == CTR_WKEY)
        return "reads weighted keys";
    if (text && ctr_types[type].floating)
        return "needs the text of floats";
    return text && type == CTR_TIME ? "needs the text of times" : NULL;
}

static const char *no_arg(const struct ctr_op_call *call, const struct ctr_op_state *s, int k)
{
    struct ctr_vtype t = call->arg[k].type;
    if (call->arg[k].literal)
        return NULL;
    if (is_list(&t) && !s->in[k].list && !(s->lift && k == 0) && s->in[k].lane != CTR_LANE_NONE)
        return "reads whole lists";
    return no_lane(s->in[k].lane, is_list(&t) ? t.item : t.type, t.key);
}

const char *ctr_op_device(const struct ctr_op_call *call, struct ctr_op_device *d)
{
    const struct ctr_op_state *s = call->state;
    const char *why = NULL;

    if (s->op->flags & CTR_OP_COLUMN)
        return ctr_op_device_lookup(call, d);
    if (s->loop->host_only)
        return s->loop->host_only;
    if (s->nargs > OPD_ARGS)
        return "has more than 8 arguments";
    for (int k = 0; !why && k < s->nargs; k++)
        why = no_arg(call, s, k);
    if (why)
        return why;
    *d = (struct ctr_op_device){ .loop = s->loop->name,
                                 .file = s->loop->file,
                                 .kind = s->loop->kind,
                                 .nargs = s->nargs,
                                 .nulls = s->op->flags & CTR_OP_NULLS,
                                 .lift = s->lift,
                                 .inner = s->inner,
                                 .param = s->param,
                                 .param_bytes = s->param_bytes,
                                 .param_texts = s->param_texts };
    for (int k = 0; k < s->nargs; k++)
        d->arg[k] = (struct ctr_op_device_arg){ (int)s->in[k].lane, s->in[k].list };
    return NULL;
}

static void add_loop(struct ctr_op_device *d, int cap, int *n, struct ctr_op_device loop)
{
    for (int i = 0; i < CTR_MIN(*n, cap); i++)
        if (!strcmp(d[i].loop, loop.loop))
            return;
    if (*n < cap)
        d[*n] = loop;
    ++*n;
}

int ctr_op_device_table(struct ctr_op_device *d, int cap)
{
    /* chosen by prepare; not in any table row */
    static const struct ctr_op_device others[] = {
        { .loop = "loop_cross_lists", .file = "loop_key.h", .kind = CTR_LOOP_OF_KEYS },
        { .loop = "loop_dense", .file = "loop_dense.h", .kind = CTR_LOOP_OF_FIXED },
        { .loop = "loop_feature", .file = "loop_feature.h", .kind = CTR_LOOP_OF_FIXED },
        { .loop = "loop_features", .file = "loop_feature.h", .kind = CTR_LOOP_OF_KEYS },
        { .loop = "loop_vocab_feature", .file = "loop_feature.h", .kind = CTR_LOOP_OF_FIXED },
        { .loop = "loop_vocab_features", .file = "loop_feature.h", .kind = CTR_LOOP_OF_KEYS },
        { .loop = "loop_feature_items", .file = "loop_feature.h", .kind = CTR_LOOP_OF_FIXED },
        { .loop = "loop_vocab_feature_items", .file = "loop_feature.h", .kind = CTR_LOOP_OF_FIXED },
        { .loop = "loop_lookup", .file = "loop_lookup.h", .kind = CTR_LOOP_OF_FIXED },
        { .loop = "loop_lookup_text", .file = "loop_lookup.h", .kind = CTR_LOOP_OF_TEXT },
        { .loop = "loop_embedding", .file = "loop_lookup.h", .kind = CTR_LOOP_OF_FIXED },
    };
    int n = 0;
    for (int op = 0; ctr_op_at(op); op++)
        for (const struct ctr_op_variant *v = ctr_op_at(op)->variants; v->args; v++)
            if (v->loop && !v->loop->host_only)
                add_loop(d, cap, &n,
                         (struct ctr_op_device){ .loop = v->loop->name, .file = v->loop->file, .kind = v->loop->kind });
    for (size_t i = 0; i < CTR_COUNT(others); i++)
        add_loop(d, cap, &n, others[i]);
    return n;
}

void ctr_op_device_literal(const struct ctr_op_call *call, int k, void *value, uint8_t *ok, char *text)
{
    const struct ctr_op_state *s = call->state;
    *ok = ctr_lane_literal(s->in[k].lane, call->hash_seed, call->arg[k].literal, text, value, 1);
}

uint64_t ctr_op_table_id(void)
{
    static _Atomic uint64_t last;
    return ++last;
}

/* As struct op_feature of loop_feature.h. */
struct feature {
    uint64_t seed, missing;
    int64_t key, aligned, step;
};

const char *ctr_op_device_keys(const struct ctr_vtype *type, uint64_t seed, void *param, struct ctr_op_device *d)
{
    const bool list = is_list(type);
    const char *why = no_lane(CTR_LANE_HASH, list ? type->item : type->type, type->key);
    if (why)
        return why;
    *(struct feature *)param = (struct feature){ seed, ctr_missing_key(seed), type->key, type->aligned, 0 };
    *d = (struct ctr_op_device){ .loop = list ? "loop_features" : "loop_feature",
                                 .file = "loop_feature.h",
                                 .kind = list ? CTR_LOOP_OF_KEYS : CTR_LOOP_OF_FIXED,
                                 .nargs = 1,
                                 .arg = { { OPD_HASH, list } },
                                 .nulls = true,
                                 .inner = { .type = list ? CTR_LIST : CTR_U64, .item = CTR_U64, .key = true },
                                 .param = param,
                                 .param_bytes = sizeof(struct feature) };
    return NULL;
}

void ctr_op_device_hashes(struct ctr_op_device *d, int64_t step)
{
    ((struct feature *)d->param)->step = step; /* with which that of a vocab begins */
    if (d->kind == CTR_LOOP_OF_FIXED)
        return;
    d->loop = d->param_bytes == sizeof(struct feature) ? "loop_feature_items" : "loop_vocab_feature_items";
    d->kind = CTR_LOOP_OF_FIXED;
    d->lift = true;
    d->arg[0].list = false;
    d->inner = (struct ctr_vtype){ .type = CTR_U64, .key = true };
}

/* As struct op_dense of loop_dense.h. */
struct dense {
    int64_t step, every;
};
_Static_assert(sizeof(struct dense) <= CTR_OP_DEVICE_PARAM * sizeof(uint64_t), "it has room");

void ctr_op_device_dense(int64_t step, int64_t every, uint64_t *param, struct ctr_op_device *d)
{
    *(struct dense *)(void *)param = (struct dense){ step, every };
    *d = (struct ctr_op_device){ .loop = "loop_dense",
                                 .file = "loop_dense.h",
                                 .kind = CTR_LOOP_OF_FIXED,
                                 .nargs = 1,
                                 .arg = { { OPD_LANE_F64, false } },
                                 .nulls = true,
                                 .inner = { .type = CTR_F32 },
                                 .param = param,
                                 .param_bytes = sizeof(struct dense) };
}

/* As struct op_vocab_feature of loop_feature.h. */
struct vocab_feature {
    struct feature feature;
    struct ctr_vocab_set set;
};
_Static_assert(sizeof(struct vocab_feature) <= CTR_OP_DEVICE_PARAM * sizeof(uint64_t), "it has room");

const char *ctr_op_device_vocab_keys(const struct ctr_op_call *call, uint64_t seed, uint64_t *param,
                                     struct ctr_op_device *d)
{
    struct vocab_feature *p = (void *)param;
    const char *why;
    if (!ctr_vocab_has_keys(call)) { /* another fitted operator, or a vocab that is not fitted */
        why = ctr_op_device(call, d);
        return why ? why : "is not fitted";
    }
    why = ctr_op_device_keys(&call->arg[0].type, seed, p, d);
    if (why)
        return why;
    if (!ctr_vocab_set(call, seed, &p->set, &d->table_id))
        return "has no memory for its set of keys";
    d->loop = is_list(&call->arg[0].type) ? "loop_vocab_features" : "loop_vocab_feature";
    d->param_bytes = sizeof *p;
    d->table = p->set.slot;
    d->table_bytes = (p->set.mask + 1) * 4 * sizeof *p->set.slot;
    d->table_at = offsetof(struct vocab_feature, set.slot);
    return NULL;
}

int ctr_op_device_fits(enum ctr_loop_kind kind, int64_t bytes, int64_t items, int64_t limit_bytes, struct ctr_err *err)
{
    const int64_t width = kind == CTR_LOOP_OF_TEXTS ? 4 : 8;
    if (limit_bytes && kind != CTR_LOOP_OF_TEXT && items > limit_bytes / width)
        return ctr_op_too_large(items * width, limit_bytes, err);
    return limit_bytes && kind != CTR_LOOP_OF_KEYS && bytes > limit_bytes ? ctr_op_too_large(bytes, limit_bytes, err)
                                                                          : 0;
}

/* Append the ends of rows, which start at 0, after the column's existing ones. */
static int append_ends(struct ctr_colbuf *out, const int64_t *at, int64_t rows, struct ctr_err *err)
{
    int32_t *end = (int32_t *)(out->offsets.data + out->offsets.len);
    for (int64_t i = 0; i < rows; i++)
        end[i] = (int32_t)at[i + 1];
    out->offsets.len += (size_t)rows * sizeof *end;
    (void)err;
    return 0;
}

static int append_items(struct ctr_colbuf *out, const struct ctr_op_device_rows *r, struct ctr_err *err)
{
    const int64_t items = r->item[r->rows], bytes = r->at[r->rows];
    struct ctr_colbuf *b = out->item;
    int rc = ctr_op_reserve_items(out, r->rows, items, r->limit_bytes, err);
    if (!rc && r->kind == CTR_LOOP_OF_TEXTS)
        rc = ctr_op_reserve_text(b, items, bytes, r->limit_bytes, err);
    if (!rc && r->kind == CTR_LOOP_OF_TEXTS)
        rc = ctr_buf_append(&b->offsets, r->end, (size_t)items * sizeof *r->end, err);
    if (!rc)
        rc = ctr_buf_append(&b->data, r->bytes, (size_t)bytes, err);
    b->rows += rc ? 0 : items;
    return rc;
}

static int append_lists(struct ctr_colbuf *out, const struct ctr_op_device_rows *r, struct ctr_err *err)
{
    const int rc = r->bytes ? append_items(out, r, err) : ctr_op_reserve_items(out, r->rows, 0, 0, err);
    return rc ? rc : append_ends(out, r->item, r->rows, err);
}

int ctr_op_device_rows(struct ctr_colbuf *out, const struct ctr_op_device_rows *r, struct ctr_err *err)
{
    int rc;
    if (r->kind != CTR_LOOP_OF_TEXT)
        rc = append_lists(out, r, err);
    else {
        rc = ctr_op_reserve_text(out, r->rows, r->at[r->rows], r->limit_bytes, err);
        if (!rc)
            rc = ctr_buf_append(&out->data, r->bytes, (size_t)r->at[r->rows], err);
        if (!rc)
            rc = append_ends(out, r->at, r->rows, err);
    }
    for (int64_t done = 0; !rc && done < r->rows; done += CTR_OP_TILE)
        rc = ctr_lane_append_valid(out, r->ok + done, CTR_MIN(r->rows - done, CTR_OP_TILE), err);
    return rc;
}
