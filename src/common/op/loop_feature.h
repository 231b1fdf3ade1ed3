/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_feature: keys of features as a device call: the same as ctr_op_keys on the host (op_key.c, which caches small
 * numbers and processes four texts at a time), for scalars and lists. Argument 0 is already hashed, or, if it is a key
 * itself, its value. */
#ifndef CTR_LOOP_FEATURE_H
#define CTR_LOOP_FEATURE_H

#include "common/op/loop_device.h"

struct op_feature {
    uint64_t seed, missing; /* the key of a null */
    int64_t key;            /* the values are keys */
    int64_t aligned;        /* a null item has a key, too */
    int64_t step;           /* 0: keys; else their hashes, so many numbers apart, for scalars */
};
/* key: p->key, which a loop over rows knows. */
OPV_FN uint64_t op_feature_key(const struct op_feature *p, int64_t key, uint64_t v, uint8_t ok)
{
    return !ok ? p->missing : key ? ctr_mix64(v ^ p->seed) : v;
}
CTR_LOOP_FIXED(loop_feature)
{
    const struct op_feature *p = (const struct op_feature *)u->param;
    uint64_t *const hashes = (uint64_t *)u->out;
    const int64_t step = p->step;
    if (step) /* a loop of its own: the choice within one would cost six instructions a row */
        opd_hashes(u, row, to, w->text[0], [&](int64_t at, int64_t key, uint64_t v, uint8_t ok) {
            hashes[at * step] = ctr_key_hash(op_feature_key(p, key, v, ok));
        });
    else
        opd_hashes(u, row, to, w->text[0], [&](int64_t at, int64_t key, uint64_t v, uint8_t ok) {
            opd_put(u, at, op_feature_key(p, key, v, ok), 1);
        });
}

OPV_FN int64_t op_feature_max(const struct ctr_op_tile *t, int i)
{
    const struct opv_span a = t->in[0].span[i];
    return !t->in[0].ok[i] ? 1 : a.to - a.from;
}
OPV_FN int64_t op_feature_keys(const struct ctr_op_tile *t, int i, uint64_t *to)
{
    const struct op_feature *p = (const struct op_feature *)t->param;
    const struct ctr_op_in *in = &t->in[0];
    int64_t n = 0;
    if (!in->ok[i]) {
        to[0] = p->missing;
        return 1;
    }
    for (int64_t k = in->span[i].from; k < in->span[i].to; k++)
        if (in->item_ok[k] || p->aligned)
            to[n++] = op_feature_key(p, p->key, ((const uint64_t *)in->item)[k], in->item_ok[k]);
    return n;
}
CTR_LOOP_KEYS(loop_features, op_feature_max, op_feature_keys)

/* Keys of a fitted vocab: those that its set does not contain become that of "(other)". Buckets of four, then linear
 * probing, as keyset_filter of op_fit.c. */
struct op_vocab_feature {
    struct op_feature feature;
    const uint64_t *slot; /* 4 * (mask + 1), 0 is free */
    uint64_t mask, shift, secret, other;
    int64_t has_zero;
};
OPV_FN uint64_t op_vocab_key(const struct op_vocab_feature *p, uint64_t x)
{
    const uint64_t last = p->mask * 4 + 3;
    uint64_t i = (x * p->secret >> p->shift) * 4;
    for (int k = 0; k < 4; k++)
        if (p->slot[i + k] == x && (x || p->has_zero))
            return x;
    if (!p->slot[i + 3])
        return p->other;
    for (i = (i + 4) & last; p->slot[i]; i = (i + 1) & last)
        if (p->slot[i] == x)
            return x;
    return p->other;
}
CTR_LOOP_FIXED(loop_vocab_feature)
{
    const struct op_vocab_feature *p = (const struct op_vocab_feature *)u->param;
    uint64_t *const hashes = (uint64_t *)u->out;
    const int64_t step = p->feature.step;
    if (step)
        opd_hashes(u, row, to, w->text[0], [&](int64_t at, int64_t key, uint64_t v, uint8_t ok) {
            hashes[at * step] = ctr_key_hash(op_vocab_key(p, op_feature_key(&p->feature, key, v, ok)));
        });
    else
        opd_hashes(u, row, to, w->text[0], [&](int64_t at, int64_t key, uint64_t v, uint8_t ok) {
            opd_put(u, at, op_vocab_key(p, op_feature_key(&p->feature, key, v, ok)), 1);
        });
}

OPV_FN int64_t op_vocab_keys(const struct ctr_op_tile *t, int i, uint64_t *to)
{
    const int64_t n = op_feature_keys(t, i, to);
    for (int64_t k = 0; k < n; k++)
        to[k] = op_vocab_key((const struct op_vocab_feature *)t->param, to[k]);
    return n;
}
CTR_LOOP_KEYS(loop_vocab_features, op_feature_max, op_vocab_keys)

/* ---- hashes of the items of lists, one behind the other ---- */

/* A loop of its own: in that of the hashes it would take registers from those of scalars. */
OPD_FN void op_seek_null(const struct opd_call *c, int64_t row, int64_t to)
{
    const struct opd_col *a = &c->arg[0].col;
    if (!c->found || !(a->ok || a->valid || a->index))
        return;
    OPD_ROWS(row, to)
    {
        if (opd_place(a, row + c->arg[0].first) < 0)
            atomicMax(&c->found->unfit, 1u);
    }
}
/* Not inlined, for the same reason. */
OPD_FN void op_feature_items(const struct opd_unit *u, int64_t row, int64_t to, uint8_t *text)
{
    const struct op_feature *p = (const struct op_feature *)u->param;
    uint64_t *const hashes = (uint64_t *)u->out;
    opd_hashes(u, row, to, text, [&](int64_t at, int64_t key, uint64_t v, uint8_t ok) {
        hashes[at] = ctr_key_hash(op_feature_key(p, key, v, ok));
    });
}
CTR_LOOP_FIXED(loop_feature_items)
{
    op_seek_null(u->call, row, to);
    op_feature_items(u, row, to, w->text[0]);
}
OPD_FN void op_vocab_items(const struct opd_unit *u, int64_t row, int64_t to, uint8_t *text)
{
    const struct op_vocab_feature *p = (const struct op_vocab_feature *)u->param;
    uint64_t *const hashes = (uint64_t *)u->out;
    opd_hashes(u, row, to, text, [&](int64_t at, int64_t key, uint64_t v, uint8_t ok) {
        hashes[at] = ctr_key_hash(op_vocab_key(p, op_feature_key(&p->feature, key, v, ok)));
    });
}
CTR_LOOP_FIXED(loop_vocab_feature_items)
{
    op_seek_null(u->call, row, to);
    op_vocab_items(u, row, to, w->text[0]);
}

#endif
