/* SPDX-License-Identifier: Apache-2.0
 *
 * flatbuf: see flatbuf.h. Invariants: a written buffer passes a strict FlatBuffers verifier, including alignment; no
 * read leaves [p, p+n), for any bytes.
 */
#include "common/stream/flatbuf.h"

/* ---- writing ---- */

/* Append n zero bytes. */
static bool grow(struct ctr_fbw *w, size_t n)
{
    if (w->rc < 0)
        return false;
    w->rc = ctr_buf_reserve(&w->b, n, w->err);
    if (w->rc < 0)
        return false;
    memset(w->b.data + w->b.len, 0, n);
    w->b.len += n;
    return true;
}

void ctr_fb_align(struct ctr_fbw *w, size_t to)
{
    grow(w, (to - w->b.len % to) % to);
}

void ctr_fb_put(struct ctr_fbw *w, size_t at, const void *p, size_t n)
{
    if (w->rc == 0 && n)
        memcpy(w->b.data + at, p, n);
}

static void link_to(struct ctr_fbw *w, size_t at, size_t target)
{
    uint32_t d = (uint32_t)(target - at);
    ctr_fb_put(w, at, &d, 4);
}

/* Offsets of the fields in the table, widest first, so that there is no padding between them. */
static unsigned table_layout(const struct ctr_fb_slot *s, int n, uint16_t *off)
{
    unsigned end = 4;
    static const int widths[] = { 8, 4, 2, 1 };
    for (size_t k = 0; k < CTR_COUNT(widths); k++)
        for (int i = 0; i < n; i++) {
            unsigned size = s[i].size == CTR_FB_REF ? 4 : (unsigned)s[i].size;
            if (size != (unsigned)widths[k])
                continue;
            end = (end + size - 1) / size * size;
            off[i] = (uint16_t)end;
            end += size;
        }
    return end;
}

/* Returns the start of the table; Arrow's tables have at most 7 fields. */
static size_t put_table(struct ctr_fbw *w, struct ctr_fb_slot *s, int n)
{
    uint16_t vt[2 + 16] = { 0 };
    unsigned size = table_layout(s, n, vt + 2);
    vt[0] = (uint16_t)(4 + 2 * n);
    vt[1] = (uint16_t)size;
    ctr_fb_align(w, 2);
    size_t vat = w->b.len;
    grow(w, vt[0]);
    ctr_fb_align(w, 8);
    size_t at = w->b.len;
    grow(w, size);
    int32_t back = (int32_t)(at - vat);
    ctr_fb_put(w, vat, vt, vt[0]);
    ctr_fb_put(w, at, &back, 4);
    for (int i = 0; i < n; i++) {
        s[i].at = at + vt[2 + i];
        if (s[i].size > 0)
            ctr_fb_put(w, s[i].at, &s[i].value, (size_t)s[i].size); /* little-endian */
    }
    return at;
}

size_t ctr_fb_child(struct ctr_fbw *w, size_t at, struct ctr_fb_slot *s, int n)
{
    size_t t = put_table(w, s, n);
    link_to(w, at, t);
    return t;
}

size_t ctr_fb_text(struct ctr_fbw *w, size_t at, const char *p, size_t n)
{
    size_t to = ctr_fb_array(w, at, n, 1);
    grow(w, 1); /* the terminating zero is not counted */
    ctr_fb_put(w, to, p, n);
    return to;
}

size_t ctr_fb_array(struct ctr_fbw *w, size_t at, size_t count, size_t size)
{
    ctr_fb_align(w, 4);
    if (size % 8 == 0 && w->b.len % 8 == 0)
        grow(w, 4); /* the count directly precedes the elements, which are aligned to 8 */
    uint32_t n = (uint32_t)count;
    size_t head = w->b.len;
    grow(w, 4 + count * size);
    ctr_fb_put(w, head, &n, 4);
    link_to(w, at, head);
    return head + 4;
}

/* ---- reading ---- */

int64_t ctr_fb_load64(const uint8_t *p)
{
    int64_t v;
    memcpy(&v, p, 8);
    return v;
}

int32_t ctr_fb_load32(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return v;
}

static unsigned load16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}

void ctr_fbr_init(struct ctr_fbr *r, const void *p, size_t n)
{
    *r = (struct ctr_fbr){ .p = p, .n = n, .budget = 4 * n + 65536 };
}

static bool spend(struct ctr_fbr *r, size_t n)
{
    if (n > r->budget)
        r->bad = true;
    else
        r->budget -= n;
    return !r->bad;
}

/* The target of the reference at `at`, with `need` readable bytes, or 0. */
static size_t follow(struct ctr_fbr *r, size_t at, size_t need)
{
    if (r->bad || at > r->n || r->n - at < 4) {
        r->bad = true;
        return 0;
    }
    size_t to = at + (uint32_t)ctr_fb_load32(r->p + at);
    if (to == at || to > r->n || r->n - to < need) {
        r->bad = true;
        return 0;
    }
    return to;
}

static struct ctr_fb_view table_at(struct ctr_fbr *r, size_t ref)
{
    struct ctr_fb_view t = { .r = r };
    size_t at = follow(r, ref, 4);
    if (!at || !spend(r, 8))
        return t;
    int64_t vt = (int64_t)at - ctr_fb_load32(r->p + at);
    if (vt < 0 || (size_t)vt > r->n || r->n - (size_t)vt < 4)
        goto bad;
    t.vtable = (size_t)vt;
    t.vsize = load16(r->p + vt);
    t.size = load16(r->p + vt + 2);
    if (t.vsize < 4 || t.vsize % 2 || t.vsize > r->n - (size_t)vt || t.size < 4 || t.size > r->n - at)
        goto bad;
    t.at = at;
    return t;
bad:
    r->bad = true;
    return (struct ctr_fb_view){ .r = r };
}

struct ctr_fb_view ctr_fb_root(struct ctr_fbr *r)
{
    return table_at(r, 0);
}

/* The position of a field of `size` bytes, or 0 if absent. */
static size_t field_at(const struct ctr_fb_view *t, int field, unsigned size)
{
    unsigned slot = 4 + 2 * (unsigned)field;
    if (!t->at || t->r->bad || slot + 2 > t->vsize)
        return 0;
    unsigned off = load16(t->r->p + t->vtable + slot);
    if (!off)
        return 0;
    if (off < 4 || off + size > t->size) {
        t->r->bad = true;
        return 0;
    }
    return t->at + off;
}

int64_t ctr_fb_int(const struct ctr_fb_view *t, int field, int size, int64_t absent)
{
    size_t at = field_at(t, field, (unsigned)size);
    if (!at)
        return absent;
    const uint8_t *p = t->r->p + at;
    switch (size) {
    case 1: return (int8_t)p[0];
    case 2: return (int16_t)load16(p);
    case 4: return ctr_fb_load32(p);
    default: return ctr_fb_load64(p);
    }
}

struct ctr_fb_view ctr_fb_sub(const struct ctr_fb_view *t, int field)
{
    size_t at = field_at(t, field, 4);
    return at ? table_at(t->r, at) : (struct ctr_fb_view){ .r = t->r };
}

struct ctr_fb_vec ctr_fb_list(const struct ctr_fb_view *t, int field, size_t size)
{
    size_t at = field_at(t, field, 4), to = at ? follow(t->r, at, 4) : 0;
    if (!to)
        return (struct ctr_fb_vec){ 0 };
    size_t count = (uint32_t)ctr_fb_load32(t->r->p + to);
    if (count > (t->r->n - to - 4) / size || !spend(t->r, count)) {
        t->r->bad = true;
        return (struct ctr_fb_vec){ 0 };
    }
    return (struct ctr_fb_vec){ to + 4, count };
}

struct ctr_fb_view ctr_fb_at(struct ctr_fbr *r, const struct ctr_fb_vec *v, size_t i)
{
    return table_at(r, v->at + 4 * i);
}

const char *ctr_fb_str(const struct ctr_fb_view *t, int field, size_t *n)
{
    struct ctr_fb_vec v = ctr_fb_list(t, field, 1);
    *n = v.count;
    return v.at ? (const char *)t->r->p + v.at : NULL;
}
