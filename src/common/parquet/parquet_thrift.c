/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_thrift: reading Thrift's compact protocol (apache/thrift, doc/specs/thrift-compact-protocol.md), in which
 * Parquet's footer and page headers are written. */
#include "common/parquet/parquet_impl.h"

enum { MAX_DEPTH = 24 };

static void *fail(struct pq_thrift *t)
{
    t->bad = true;
    t->p = t->end;
    return NULL;
}

static uint64_t varint(struct pq_thrift *t)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64 && t->p < t->end; shift += 7) {
        const uint8_t byte = *t->p++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return v;
    }
    fail(t);
    return 0;
}

static int64_t zigzag(uint64_t v)
{
    return (int64_t)(v >> 1 ^ -(v & 1));
}

bool ctr_pq_field(struct pq_thrift *t, struct pq_field *f)
{
    if (t->p >= t->end) {
        fail(t);
        return false;
    }
    const uint8_t head = *t->p++;
    if (!head)
        return false;
    const int64_t id = head >> 4 ? f->id + (head >> 4) : zigzag(varint(t));
    f->wire = head & 15;
    f->id = (int)id;
    if (id < INT16_MIN || id > INT16_MAX || f->wire < PQ_TRUE || f->wire > PQ_STRUCT)
        fail(t);
    return !t->bad;
}

int64_t ctr_pq_int(struct pq_thrift *t, int wire)
{
    if (wire == PQ_I8 && t->p < t->end)
        return (int8_t)*t->p++;
    if (wire < PQ_I16 || wire > PQ_I64) {
        fail(t);
        return 0;
    }
    const int64_t v = zigzag(varint(t));
    if (wire != PQ_I64 && (v < INT32_MIN || v > INT32_MAX))
        fail(t);
    return t->bad ? 0 : v;
}

bool ctr_pq_bool(struct pq_thrift *t, int wire)
{
    if (wire != PQ_TRUE && wire != PQ_FALSE)
        fail(t);
    return wire == PQ_TRUE;
}

struct ctr_str ctr_pq_binary(struct pq_thrift *t, int wire)
{
    const uint64_t n = wire == PQ_BINARY ? varint(t) : 0;
    const char *p = (const char *)t->p;
    if (wire != PQ_BINARY || n > (uint64_t)(t->end - t->p)) {
        fail(t);
        return (struct ctr_str){ "", 0 };
    }
    t->p += n;
    return (struct ctr_str){ p, (size_t)n };
}

int64_t ctr_pq_list(struct pq_thrift *t, int wire, int *element)
{
    *element = 0;
    if ((wire != PQ_LIST && wire != PQ_SET) || t->p >= t->end) {
        fail(t);
        return 0;
    }
    const uint8_t head = *t->p++;
    const uint64_t n = head >> 4 == 15 ? varint(t) : head >> 4;
    *element = head & 15;
    if (n > (uint64_t)(t->end - t->p)) { /* an element takes a byte at least */
        fail(t);
        return 0;
    }
    return (int64_t)n;
}

static void skip_bytes(struct pq_thrift *t, uint64_t n)
{
    if (n > (uint64_t)(t->end - t->p))
        fail(t);
    else
        t->p += n;
}

static void skip_list(struct pq_thrift *t, int wire)
{
    int element;
    const int64_t n = ctr_pq_list(t, wire, &element);
    for (int64_t i = 0; i < n && !t->bad; i++)
        if (element == PQ_TRUE || element == PQ_FALSE)
            skip_bytes(t, 1);
        else
            ctr_pq_skip(t, element);
}

static void skip_map(struct pq_thrift *t)
{
    const uint64_t n = varint(t);
    const uint8_t types = n && t->p < t->end ? *t->p++ : 0;
    if (n > (uint64_t)(t->end - t->p))
        fail(t);
    for (uint64_t i = 0; i < n && !t->bad; i++)
        for (int k = 0; k < 2; k++) {
            const int type = k ? types & 15 : types >> 4;
            if (type == PQ_TRUE || type == PQ_FALSE)
                skip_bytes(t, 1);
            else
                ctr_pq_skip(t, type);
        }
}

void ctr_pq_skip(struct pq_thrift *t, int wire)
{
    struct pq_field f = { 0 };
    if (++t->depth > MAX_DEPTH)
        fail(t);
    switch (t->bad ? 0 : wire) {
    case PQ_TRUE:
    case PQ_FALSE: break;
    case PQ_I8: skip_bytes(t, 1); break;
    case PQ_I16:
    case PQ_I32:
    case PQ_I64: varint(t); break;
    case PQ_DOUBLE: skip_bytes(t, 8); break;
    case PQ_BINARY: ctr_pq_binary(t, wire); break;
    case PQ_LIST:
    case PQ_SET: skip_list(t, wire); break;
    case PQ_MAP: skip_map(t); break;
    case PQ_STRUCT:
        while (ctr_pq_field(t, &f))
            ctr_pq_skip(t, f.wire);
        break;
    default: fail(t); break;
    }
    t->depth--;
}
