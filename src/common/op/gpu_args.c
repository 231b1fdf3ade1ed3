/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_args: see gpu_args.h. */
#include "common/op/gpu_args.h"
#include "common/op/body_hash.h"

#include <stdlib.h>

enum { ALIGN = 64 };

/* Two calls of one layer, lower(a) and lower(b) of three rows, as the block that goes up:
 *
 *     0      a byte, so that no ref is 0
 *     64 …   offsets and bytes of a, those of b (put_once: a buffer that both read is there once), each at 64 bytes
 *     then   call[2], first[2] = 0 2 (the calls of loop 0), variable[2] = 0 1, the pool, place[2]
 *
 * While the block grows, a pointer is a ref, offset * 4 + area: byte 64 of it is 256, byte 64 of the results 257. When
 * the areas have addresses, say results at 0x7000, ctr_gpu_args_place turns 257 into 0x7040 and appends the calls. A
 * text within the block that points to bytes within it is in `fixes`, to be turned in the same way. */

/* ---- refs ---- */

static void *ref(enum gpu_area area, int64_t at)
{
    return (void *)(uintptr_t)((uint64_t)at * GPU_AREAS + (uint64_t)area); /* so that no ref is 0 */
}

static void *address(uint64_t at)
{
    return at ? ref(GPU_ADDRESS, (int64_t)at) : NULL;
}

static int64_t rounded(int64_t bytes)
{
    return (CTR_MAX(bytes, 1) + ALIGN - 1) / ALIGN * ALIGN;
}

static void *take(struct gpu_args *a, enum gpu_area area, int64_t bytes)
{
    int64_t at = a->size[area];
    a->size[area] += rounded(bytes);
    return ref(area, at);
}

/* Copy n bytes to the device, followed by 8 readable bytes. p: NULL for zeros. */
static int put(struct gpu_args *a, const void *p, int64_t n, void **to, struct ctr_err *err)
{
    const int64_t at = (a->up.len + ALIGN - 1) / ALIGN * ALIGN, end = at + n + 8;
    if (end > a->up.cap) {
        a->up.cap = end + end / 2;
        int rc = a->device->stage(a->device->ctx, &a->up.data, &a->up.cap, err);
        if (rc < 0)
            return rc;
    }
    memset(a->up.data + a->up.len, 0, (size_t)(at - a->up.len));
    if (n && p)
        memcpy(a->up.data + at, p, (size_t)n);
    memset(a->up.data + (p ? at + n : at), 0, (size_t)(p ? 8 : n + 8));
    a->up.len = end;
    *to = ref(GPU_UP, at);
    return 0;
}

/* The same for a buffer of a column that several arguments may share. */
static int put_once(struct gpu_args *a, const void *p, int64_t n, const void **to, struct ctr_err *err)
{
    void *at = address(a->passing ? 0 : a->device->copied(a->device->ctx, p, n));
    for (int i = 0; !at && i < a->nseen; i++)
        if (a->seen[i].p == p && a->seen[i].bytes >= n)
            at = ref(GPU_UP, a->seen[i].at);
    *to = at;
    if (at)
        return 0;
    int rc = put(a, p, n, &at, err);
    if (rc == 0)
        rc = ctr_array_grow(&a->seen, a->nseen, &a->seen_cap, sizeof *a->seen, err);
    if (rc == 0)
        a->seen[a->nseen++] = (struct gpu_seen){ p, n, ctr_gpu_at(at), a->passing };
    *to = at;
    return rc;
}

/* ---- columns ---- */

static int64_t device_type(enum ctr_type t)
{
    static const int8_t types[CTR_NTYPES] = {
        [CTR_BOOL] = OPD_BOOL, [CTR_I8] = OPD_I8,   [CTR_I16] = OPD_I16,   [CTR_I32] = OPD_I32, [CTR_I64] = OPD_I64,
        [CTR_U8] = OPD_U8,     [CTR_U16] = OPD_U16, [CTR_U32] = OPD_U32,   [CTR_U64] = OPD_U64, [CTR_F16] = OPD_F16,
        [CTR_F32] = OPD_F32,   [CTR_F64] = OPD_F64, [CTR_UTF8] = OPD_UTF8, [CTR_TIME] = OPD_I64
    };
    return types[t];
}

/* Copy the values of the first `rows` rows of a plain column. */
static int put_values(struct gpu_args *a, const struct ctr_col *c, int64_t rows, struct opd_col *to,
                      struct ctr_err *err)
{
    const int width = ctr_types[c->type].width;
    to->type = device_type(c->type);
    if (c->type != CTR_UTF8)
        return put_once(a, c->data, c->type == CTR_BOOL ? (rows + 7) / 8 : rows * width, &to->data, err);
    if (rows == 0)
        return put_once(a, "\0\0\0", 4, (const void **)&to->offsets, err);
    int rc = put_once(a, c->offsets, (rows + 1) * 4, (const void **)&to->offsets, err);
    return rc < 0 ? rc : put_once(a, c->data, c->offsets[rows], &to->data, err);
}

static int put_valid(struct gpu_args *a, const struct ctr_col *c, int64_t rows, const uint8_t **to, struct ctr_err *err)
{
    return c->valid ? put_once(a, c->valid, (rows + 7) / 8, (const void **)to, err) : 0;
}

static int put_col(struct gpu_args *a, const struct ctr_col *c, int64_t rows, bool values, struct opd_col *to,
                   struct ctr_err *err)
{
    int rc = put_valid(a, c, rows, &to->valid, err);
    if (rc < 0)
        return rc;
    if (!c->dict)
        return values ? put_values(a, c, rows, to, err) : 0;
    to->entries = c->dict->rows;
    rc = put_once(a, c->data, rows * 4, (const void **)&to->index, err);
    if (rc == 0)
        rc = put_valid(a, c->dict, c->dict->rows, &to->entry_valid, err);
    return rc < 0 || !values ? rc : put_values(a, c->dict, c->dict->rows, to, err);
}

static int64_t lane_bytes(int lane)
{
    return lane == OPD_LANE_BOOL ? 1 : lane == OPD_STR || lane == OPD_TEXT ? (int64_t)sizeof(struct opv_str) : 8;
}

/* Scratch memory for n items. */
static void take_items(struct gpu_args *a, int64_t n, const struct ctr_vtype *type, struct opd_arg *to,
                       struct opd_call *call)
{
    if (!call->at)
        call->at = take(a, GPU_SCRATCH, n * 8);
    if (to->lane == OPD_NONE)
        return;
    to->item = take(a, GPU_SCRATCH, n * lane_bytes((int)to->lane));
    to->item_ok = take(a, GPU_SCRATCH, n);
    if ((to->lane == OPD_TEXT || to->lane == OPD_HASH) && type->item != CTR_UTF8)
        to->item_text = take(a, GPU_SCRATCH, n * OPD_NUMBER);
}

/* Copy a list: its items are a column with its own lanes. kept: they are on the device already. */
static int put_list(struct gpu_args *a, const struct ctr_col *c, const struct ctr_vtype *type, int64_t rows, bool kept,
                    struct opd_arg *to, struct opd_call *call, struct ctr_err *err)
{
    const int64_t from = c->offsets && rows ? c->offsets[0] : 0;
    const int64_t end = rows == 0 ? 0 : c->offsets ? c->offsets[rows] : rows * type->width;
    int rc = put_valid(a, c, rows, &to->valid, err);
    to->width = type->width;
    to->first = from;
    if (rc == 0 && c->offsets)
        rc = put_once(a, c->offsets, (rows + 1) * 4, (const void **)&to->offsets, err);
    if (rc < 0)
        return rc;
    take_items(a, end - from, type, to, call);
    return to->lane == OPD_NONE || kept ? 0 : put_col(a, c->item, end, true, &to->col, err);
}

/* ---- arguments that are on the device already ---- */

/* Values of a result, for lists their items. */
static void set_values(const struct gpu_kept *r, struct opd_col *to)
{
    to->type = r->type == CTR_BOOL ? OPD_BYTE : device_type(r->type);
    to->data = address(r->kind == CTR_LOOP_OF_FIXED ? r->out : r->data);
    if (r->kind == CTR_LOOP_OF_TEXT)
        to->at = address(r->at);
    if (r->kind == CTR_LOOP_OF_TEXTS)
        to->offsets = address(r->ends);
}

/* Its rows. c: the column that it would be on the host, without values. */
static int put_kept_rows(struct gpu_args *a, const struct gpu_kept *r, const struct ctr_col *c, struct opd_col *to,
                         struct ctr_err *err)
{
    int rc = 0;
    if (r->lift) /* lists, whose shape the host has */
        return put_valid(a, c, c->rows, &to->valid, err);
    *(c->dict ? &to->entry_ok : &to->ok) = address(r->ok);
    set_values(r, to);
    if (c->dict) {
        to->entries = c->dict->rows;
        rc = put_once(a, c->data, c->rows * 4, (const void **)&to->index, err);
    }
    return rc;
}

/* The items of its lists, as rows or as those of a list. */
static void set_kept_items(const struct gpu_kept *r, struct opd_col *to)
{
    set_values(r, to);
    if (r->lift) /* else an item is never null */
        to->ok = address(r->ok);
}

static int put_kept(struct gpu_args *a, struct gpu_call *m, const struct gpu_kept *r, const struct ctr_vtype *type,
                    int k, struct opd_call *call, struct ctr_err *err)
{
    struct opd_arg *to = &call->arg[k];
    const struct ctr_col *c = m->from->col[k];
    int rc = 0;
    if (m->d.lift && k == 0) {
        m->rows = r->lift ? r->rows : r->items;
        to->key = type->key;
        set_kept_items(r, &to->col);
    } else if (!m->d.arg[k].list) {
        rc = put_kept_rows(a, r, c, &to->col, err);
    } else {
        to->list = true;
        if (r->lift) {
            rc = put_list(a, c, type, m->from->rows, true, to, call, err);
        } else {
            to->ok = address(r->ok);
            to->at = address(r->item);
            take_items(a, r->items, type, to, call);
        }
        set_kept_items(r, &to->col);
    }
    return rc;
}

/* ---- calls ---- */

static bool is_list(const struct ctr_vtype *t)
{
    return t->type == CTR_LIST || t->type == CTR_FIXED;
}

static struct ctr_vtype item_type(const struct ctr_vtype *t)
{
    return (struct ctr_vtype){ .type = t->item, .key = t->key, .duration = t->duration };
}

/* Decode encoded lists first, like the host's driver. */
static int decoded(struct gpu_call *m, int k, const struct ctr_vtype *type, const struct ctr_col **c,
                   struct ctr_err *err)
{
    const struct ctr_field f = ctr_vtype_field(type);
    if (!(*c)->dict || !is_list(type))
        return 0;
    int rc = ctr_colbuf_init(&m->plain[k], &f, err);
    if (rc == 0)
        rc = ctr_colbuf_range(&m->plain[k], *c, 0, m->from->rows, err);
    *c = ctr_colbuf_view(&m->plain[k]);
    return rc;
}

static int put_literal(struct gpu_args *a, const struct gpu_call *m, int k, struct opd_arg *to, struct ctr_err *err)
{
    struct opv_str value[1] = { { NULL, 0 } };
    char text[64];
    uint8_t ok = 1;
    void *at = NULL, *bytes = NULL;
    int rc = 0;
    if (to->lane != OPD_NONE)
        ctr_op_device_literal(m->from->call, k, value, &ok, text);
    to->literal = 1;
    to->literal_ok = ok;
    if (to->lane == OPD_NONE) /* the operator has used it */
        return 0;
    if (to->lane == OPD_STR || to->lane == OPD_TEXT) {
        rc = put(a, value->p, value->n, &bytes, err);
        value->p = bytes;
    }
    if (rc == 0)
        rc = put(a, value, sizeof value, &at, err);
    to->col.data = at;
    if (rc == 0 && bytes) {
        const int64_t fix = ctr_gpu_at(at);
        rc = ctr_buf_append(&a->fixes, &fix, sizeof fix, err);
    }
    return rc;
}

static enum opd_reads reads_of(const struct opd_arg *to)
{
    static const int8_t of_type[OPD_BYTE + 1] = { [OPD_I32] = OPD_READS_I32,
                                                  [OPD_I64] = OPD_READS_I64,
                                                  [OPD_F32] = OPD_READS_F32,
                                                  [OPD_F64] = OPD_READS_F64,
                                                  [OPD_UTF8] = OPD_READS_TEXT };
    enum { INTEGERS = 1 << OPD_READS_I32 | 1 << OPD_READS_I64, FLOATS = 1 << OPD_READS_F32 | 1 << OPD_READS_F64 };
    static const uint8_t by_lane[OPD_HASH + 1] = { [OPD_LANE_I64] = INTEGERS,
                                                   [OPD_LANE_F64] = INTEGERS | FLOATS,
                                                   [OPD_STR] = 1 << OPD_READS_TEXT,
                                                   [OPD_TEXT] = 1 << OPD_READS_TEXT,
                                                   [OPD_HASH] = INTEGERS | 1 << OPD_READS_TEXT };
    const enum opd_reads reads = (enum opd_reads)of_type[to->col.type];
    if (to->lane == OPD_LANE_U64 || (to->lane == OPD_HASH && to->key))
        return OPD_READS_KEY;
    return !(by_lane[to->lane] >> reads & 1)       ? OPD_BY_TYPE
           : reads == OPD_READS_TEXT && to->col.at ? OPD_READS_RESULT
                                                   : reads;
}

/* What a thread need not ask for each row. */
static void set_reads(struct opd_arg *to)
{
    to->reads = reads_of(to);
    to->plain = to->literal || to->list || to->col.index || to->first ? OPD_BY_TYPE : to->reads;
    to->hash_secret = opv_hash_8_secret(to->hash_seed);
    to->present = to->col.ok ? to->col.ok : to->col.valid;
    to->by = to->col.ok ? 0 : 3;
    to->low = to->col.ok ? 0 : 7;
}

static int put_arg(struct gpu_args *a, struct gpu_call *m, int k, struct opd_call *call, struct ctr_err *err)
{
    struct opd_arg *to = &call->arg[k];
    struct ctr_vtype type = m->from->call ? m->from->call->arg[k].type : *m->from->type;
    const struct ctr_col *c = m->from->col[k];
    int rc;
    to->lane = m->d.arg[k].lane;
    if (m->from->call && m->from->call->arg[k].literal)
        return put_literal(a, m, k, to, err);
    a->passing = false;
    to->hash_seed = m->from->call ? m->from->call->hash_seed : m->from->seed;
    to->key = type.key;
    if (m->from->from && m->from->from[k])
        return put_kept(a, m, a->device->kept(a->device->ctx, m->from->from[k]), &type, k, call, err);
    if ((rc = decoded(m, k, &type, &c, err)) < 0)
        return rc;
    a->passing = c != m->from->col[k];
    if (m->d.lift && k == 0) { /* its items as rows */
        const int64_t rows = m->from->rows, from = c->offsets && rows ? c->offsets[0] : 0;
        m->rows = rows == 0 ? 0 : c->offsets ? c->offsets[rows] - from : rows * type.width;
        type = item_type(&type);
        to->key = type.key;
        to->first = from;
        return put_col(a, c->item, from + m->rows, to->lane != OPD_NONE, &to->col, err);
    }
    to->list = m->d.arg[k].list;
    return to->list ? put_list(a, c, &type, m->from->rows, false, to, call, err)
                    : put_col(a, c, m->from->rows, to->lane != OPD_NONE, &to->col, err);
}

/* Copy the parameters, and the texts that they point to. */
static int put_param(struct gpu_args *a, const struct gpu_call *m, const void **to, struct ctr_err *err)
{
    void *at = NULL, *bytes = NULL;
    int rc = 0;
    if (!m->d.param_bytes)
        return 0;
    rc = put(a, m->d.param, (int64_t)m->d.param_bytes, &at, err);
    *to = at;
    if (rc == 0 && m->d.table) {
        uint64_t table = 0;
        rc = a->device->put(a->device->ctx, m->d.table_id, m->d.table, (int64_t)m->d.table_bytes, &table, err);
        memcpy(a->up.data + ctr_gpu_at(at) + m->d.table_at, &table, sizeof table);
    }
    for (int k = 0; rc == 0 && m->d.param_texts; k++) {
        const struct opv_str *s = m->d.param_texts(m->d.param, k);
        if (!s)
            break;
        const int64_t in = (const char *)s - (const char *)m->d.param, fix = ctr_gpu_at(at) + in;
        rc = put(a, s->p, s->n, &bytes, err);
        if (rc == 0) {
            memcpy(a->up.data + fix + offsetof(struct opv_str, p), &bytes, sizeof bytes);
            rc = ctr_buf_append(&a->fixes, &fix, sizeof fix, err);
        }
    }
    return rc;
}

/* The type of the values that are there: integers have 8 bytes. */
static enum ctr_type kept_type(const struct ctr_vtype *t)
{
    const enum ctr_type type = t->type == CTR_LIST ? t->item : t->type;
    return ctr_types[type].integer && ctr_types[type].width < 8 ? CTR_I64 : type;
}

/* A result stays in its slot: presence, then values, or where the items and bytes of each row begin. */
static int keep_rows(struct gpu_args *a, const struct gpu_call *m, struct opd_call *call, struct ctr_err *err)
{
    const bool fixed = m->d.kind == CTR_LOOP_OF_FIXED;
    const int64_t values = rounded(fixed ? m->rows * call->bytes : (m->rows + 1) * 8), ok = rounded(m->rows);
    uint64_t at = 0;
    int rc = a->device->room(a->device->ctx, m->from->keep, ok + (fixed ? 1 : 2) * values, &at, err);
    if (rc < 0)
        return rc;
    struct gpu_kept *r = a->device->kept(a->device->ctx, m->from->keep);
    *r = (struct gpu_kept){ .rows = m->rows,
                            .kind = m->d.kind,
                            .lift = m->d.lift,
                            .type = kept_type(&m->d.inner),
                            .width = call->bytes,
                            .ok = at,
                            .out = fixed ? at + (uint64_t)ok : 0,
                            .item = fixed ? 0 : at + (uint64_t)ok,
                            .at = fixed ? 0 : at + (uint64_t)(ok + values) };
    call->ok = address(r->ok);
    call->out = address(r->out);
    call->row_bytes = address(r->at);
    call->row_items = address(r->item);
    return 0;
}

static void take_rows(struct gpu_args *a, const struct gpu_call *m, struct opd_call *call)
{
    call->ok = take(a, GPU_DOWN, m->rows);
    if (m->d.kind == CTR_LOOP_OF_FIXED) {
        call->out = take(a, GPU_DOWN, m->rows * call->bytes);
        return;
    }
    call->row_bytes = take(a, GPU_DOWN, (m->rows + 1) * 8);
    call->row_items = take(a, GPU_DOWN, (m->rows + 1) * 8);
}

static int put_call(struct gpu_args *a, struct gpu_call *m, struct opd_call *call, struct ctr_err *err)
{
    const enum ctr_loop_kind kind = m->d.kind;
    int rc = put_param(a, m, &call->param, err);
    m->rows = m->from->rows;
    call->nargs = m->d.nargs;
    call->nulls = m->d.nulls;
    for (int k = 0; rc == 0 && k < m->d.nargs; k++) {
        rc = put_arg(a, m, k, call, err);
        set_reads(&call->arg[k]);
    }
    call->rows = m->rows;
    if (kind == CTR_LOOP_OF_FIXED) {
        call->vector = m->d.inner.type == CTR_FIXED;
        call->bytes = call->vector ? m->d.inner.width * (int64_t)sizeof(float) : m->d.inner.type == CTR_BOOL ? 1 : 8;
    } else {
        call->bytes = kind == CTR_LOOP_OF_KEYS ? 8 : 0;
        call->start = take(a, GPU_SCRATCH, m->rows * 8);
    }
    if (rc == 0 && m->from->keep)
        return keep_rows(a, m, call, err);
    if (m->from->step)
        call->out = address(m->from->left);
    else
        take_rows(a, m, call);
    if (m->from->found)
        call->found = ref(GPU_UP, a->found_at + (int64_t)sizeof(struct opd_found) * a->nfound++);
    return rc;
}

int ctr_gpu_args_column(struct gpu_args *a, const struct ctr_col *c, const struct ctr_vtype *type,
                        const struct gpu_device *device, struct ctr_err *err)
{
    struct opd_call call = { 0 };
    struct opd_arg *to = &call.arg[0];
    *a = (struct gpu_args){ .device = device };
    void *none;
    int rc = put(a, NULL, 1, &none, err); /* so that no ref is 0 */
    to->lane = OPD_LANE_I64;              /* values are read */
    return rc < 0           ? rc
           : !is_list(type) ? put_col(a, c, c->rows, true, &to->col, err)
           : c->dict        ? 0
                            : put_list(a, c, type, c->rows, false, to, &call, err);
}

/* Group calls with the same loop, in the order of the first call of each. */
static void make_groups(struct gpu_args *a)
{
    int at = 0;
    for (int i = 0; i < a->n; i++) {
        int g = 0;
        while (g < a->nloops && strcmp(a->loop[g]->loop, a->info[i].d.loop) != 0)
            g++;
        if (g == a->nloops)
            a->loop[a->nloops++] = &a->info[i].d;
        a->info[i].group = g;
    }
    for (int g = 0; g < a->nloops; g++) {
        a->first[g].call = at;
        for (int i = 0; i < a->n; i++)
            if (a->info[i].group == g)
                a->order[at++] = i;
    }
    a->first[a->nloops].call = at;
    for (int i = 0; i < a->n; i++)
        if (a->info[a->order[i]].d.kind != CTR_LOOP_OF_FIXED)
            a->variable[a->nvariable++] = i;
}

/* Calls of fixed size have tiles of their own; those of variable size share the number of the longest. */
static int64_t tiles_of(const struct opd_call *c)
{
    return (c->rows + OPD_TILE - 1) / OPD_TILE;
}
static bool has_tiles(const struct gpu_args *a, int i)
{
    return a->info[a->order[i]].d.kind == CTR_LOOP_OF_FIXED;
}
static void count_tiles(struct gpu_args *a)
{
    int64_t tile = 0;
    a->tiles = 1;
    for (int g = 0, i = 0; g <= a->nloops; g++) {
        for (; i < a->first[g].call; i++)
            if (has_tiles(a, i))
                tile += tiles_of(&a->call[i]);
            else
                a->tiles = CTR_MAX(a->tiles, tiles_of(&a->call[i]));
        a->first[g].tile = (int32_t)tile;
    }
}
static int put_tiles(struct gpu_args *a, void **to, struct ctr_err *err)
{
    int rc = put(a, NULL, a->first[a->nloops].tile * (int64_t)sizeof(struct opd_tile), to, err);
    struct opd_tile *t = rc < 0 ? NULL : (void *)(a->up.data + ctr_gpu_at(*to));
    for (int32_t i = 0; t && i < a->n; i++)
        for (int32_t at = 0; has_tiles(a, i) && at < tiles_of(&a->call[i]); at++)
            *t++ = (struct opd_tile){ i, at };
    return rc;
}

const char *ctr_gpu_describe(const struct ctr_gpu_call *c, uint64_t param[CTR_OP_DEVICE_PARAM], struct ctr_op_device *d)
{
    if (c->call)
        return ctr_op_device(c->call, d);
    if (c->dense) {
        ctr_op_device_dense(c->step, c->rows / CTR_GPU_RANGE_ROWS + 1, param, d);
        return NULL;
    }
    const char *why = c->filter ? ctr_op_device_vocab_keys(c->filter, c->seed, param, d)
                                : ctr_op_device_keys(c->type, c->seed, param, d);
    if (!why && c->step)
        ctr_op_device_hashes(d, c->step);
    return why;
}

static int describe(struct gpu_call *m, const struct ctr_gpu_call *from, struct ctr_err *err)
{
    const char *why = ctr_gpu_describe(from, m->param, &m->d);
    m->from = from;
    if (!why && from->call)
        return ctr_op_device_load(from->call, &m->d, err);
    return why ? ctr_fail(err, CTR_EDATA, "%s has no code for a GPU: it %s",
                          from->call ? ctr_op_name(from->call->op) : "a feature", why)
               : 0;
}

int ctr_gpu_args(struct gpu_args *a, const struct ctr_gpu_call *call, int n, const struct ctr_op_device *table,
                 int ntable, const struct gpu_device *device, struct ctr_err *err)
{
    int rc = 0, found = 0;
    *a = (struct gpu_args){ .device = device, .n = n, .size = { ALIGN, ALIGN, ALIGN } };
    a->call = calloc((size_t)n, sizeof *a->call);
    a->info = calloc((size_t)n, sizeof *a->info);
    a->order = calloc((size_t)n, sizeof *a->order);
    a->loop = calloc((size_t)(n + ntable), sizeof *a->loop);
    a->first = calloc((size_t)(n + ntable) + 1, sizeof *a->first);
    a->variable = calloc((size_t)n, sizeof *a->variable);
    if (!a->call || !a->info || !a->order || !a->loop || !a->first || !a->variable)
        return ctr_fail_nomem(err, (size_t)n * sizeof *a->call);
    for (int i = 0; i < ntable; i++)
        a->loop[a->nloops++] = &table[i];
    for (int i = 0; rc == 0 && i < n; i++)
        rc = describe(&a->info[i], &call[i], err);
    if (rc == 0)
        make_groups(a);
    for (int i = 0; i < n; i++)
        found += call[i].found != NULL;
    void *none = NULL;
    if (rc == 0)
        rc = put(a, NULL, 1, &none, err); /* so that no ref is 0 */
    if (rc == 0 && found)
        rc = put(a, NULL, found * (int64_t)sizeof(struct opd_found), &none, err);
    a->found_at = ctr_gpu_at(none);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = put_call(a, &a->info[a->order[i]], &a->call[i], err);
    if (rc == 0)
        count_tiles(a);
    a->total = take(a, GPU_DOWN, a->nvariable * 16);
    a->sum = take(a, GPU_SCRATCH, a->nvariable * a->tiles * 16);
    a->size[GPU_UP] = a->up.len + n * (int64_t)(sizeof *a->call + sizeof(struct opd_place)) + (n + ntable) * 16 +
                      a->first[a->nloops].tile * (int64_t)sizeof(struct opd_tile) + 1024;
    return rc;
}

/* ---- addresses ---- */

static void resolve(void *field, const uint64_t base[GPU_AREAS])
{
    uint64_t v;
    memcpy(&v, field, sizeof v);
    if (v) {
        v = base[v % GPU_AREAS] + v / GPU_AREAS;
        memcpy(field, &v, sizeof v);
    }
}

static void resolve_call(struct opd_call *c, const uint64_t base[GPU_AREAS])
{
    void *const fields[] = { &c->param, &c->out, &c->ok, &c->at, &c->start, &c->row_bytes, &c->row_items, &c->found };
    for (size_t i = 0; i < CTR_COUNT(fields); i++)
        resolve(fields[i], base);
    for (int k = 0; k < c->nargs; k++) {
        struct opd_arg *g = &c->arg[k];
        void *const of_arg[] = { &g->col.data,        &g->col.valid, &g->col.offsets,  &g->col.at,  &g->col.index,
                                 &g->col.entry_valid, &g->col.ok,    &g->col.entry_ok, &g->valid,   &g->ok,
                                 &g->offsets,         &g->at,        &g->item,         &g->item_ok, &g->item_text,
                                 &g->present };
        for (size_t i = 0; i < CTR_COUNT(of_arg); i++)
            resolve(of_arg[i], base);
    }
}

int ctr_gpu_args_place(struct gpu_args *a, const uint64_t base[GPU_AREAS], struct ctr_err *err)
{
    const int64_t *fix = (const int64_t *)(const void *)a->fixes.data;
    struct opd_call *placed = malloc((size_t)a->n * sizeof *placed);
    void *at = NULL;
    int rc = placed ? 0 : ctr_fail_nomem(err, (size_t)a->n * sizeof *placed);
    for (size_t i = 0; rc == 0 && i < a->fixes.len / sizeof *fix; i++)
        resolve(a->up.data + fix[i], base);
    for (int i = 0; rc == 0 && i < a->n; i++) {
        placed[i] = a->call[i];
        resolve_call(&placed[i], base);
    }
    if (rc == 0)
        rc = put(a, placed, a->n * (int64_t)sizeof *placed, &at, err);
    a->calls_at = ctr_gpu_at(at);
    if (rc == 0)
        rc = put(a, a->first, (a->nloops + 1) * (int64_t)sizeof *a->first, &at, err);
    a->first_at = ctr_gpu_at(at);
    if (rc == 0)
        rc = put_tiles(a, &at, err);
    a->tiles_at = ctr_gpu_at(at);
    if (rc == 0)
        rc = put(a, a->variable, a->nvariable * (int64_t)sizeof *a->variable, &at, err);
    a->variable_at = ctr_gpu_at(at);
    if (rc == 0)
        rc = put(a, NULL, sizeof(struct opd_pool), &at, err);
    a->pool_at = ctr_gpu_at(at);
    if (rc == 0)
        rc = put(a, NULL, a->nvariable * (int64_t)sizeof(struct opd_place), &at, err);
    a->place_at = ctr_gpu_at(at);
    free(placed);
    return rc;
}

void ctr_gpu_args_free(struct gpu_args *a)
{
    for (int i = 0; a->info && i < a->n; i++)
        for (int k = 0; k < OPD_ARGS; k++)
            ctr_colbuf_free(&a->info[i].plain[k]);
    free(a->call);
    free(a->info);
    free(a->order);
    free(a->loop);
    free(a->first);
    free(a->variable);
    free(a->seen);
    ctr_buf_free(&a->fixes);
}
