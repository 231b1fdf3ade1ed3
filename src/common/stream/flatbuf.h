/* SPDX-License-Identifier: Apache-2.0
 *
 * flatbuf: the part of FlatBuffers needed for Arrow's metadata, without generated code.
 *
 * Tables are written parent first, with placeholders for references, which are linked when the child is written; so
 * every offset points forward. Reading checks every access against the buffer and records the first bad one in `bad`:
 * callers continue (they get zeros) and check once at the end.
 */
#ifndef CTR_FLATBUF_H
#define CTR_FLATBUF_H

#include "common/base/base.h"

/* ---- writing ---- */

struct ctr_fbw {
    struct ctr_buf b;
    struct ctr_err *err;
    int rc; /* sticky */
};

/* One field of a table, in the order of its schema. */
enum { CTR_FB_REF = -4 };
struct ctr_fb_slot {
    int size;       /* 0: absent; 1, 2, 4, 8: a scalar; CTR_FB_REF: a reference to be linked */
    uint64_t value; /* of a scalar */
    size_t at;      /* out: its position in the buffer */
};

size_t ctr_fb_child(struct ctr_fbw *w, size_t at, struct ctr_fb_slot *s, int n); /* table, linked from `at` */
size_t ctr_fb_text(struct ctr_fbw *w, size_t at, const char *p, size_t n);       /* returns the position of its bytes */
/* A vector of `count` zeroed elements of `size` bytes, linked from `at`; elements are aligned to min(size, 8). Returns
 * their position. */
size_t ctr_fb_array(struct ctr_fbw *w, size_t at, size_t count, size_t size);
void ctr_fb_put(struct ctr_fbw *w, size_t at, const void *p, size_t n); /* overwrite bytes that are there */
void ctr_fb_align(struct ctr_fbw *w, size_t to);

/* ---- reading ---- */

struct ctr_fbr {
    const uint8_t *p;
    size_t n;
    size_t budget; /* bytes of text and elements that may still be read: limits children that are shared many times */
    bool bad;
};
struct ctr_fb_view { /* a table, or nothing (at == 0) */
    struct ctr_fbr *r;
    size_t at, vtable;
    unsigned vsize, size;
};
struct ctr_fb_vec { /* a vector: `at` is its first element */
    size_t at, count;
};

void ctr_fbr_init(struct ctr_fbr *r, const void *p, size_t n);
struct ctr_fb_view ctr_fb_root(struct ctr_fbr *r);
int64_t ctr_fb_int(const struct ctr_fb_view *t, int field, int size, int64_t absent); /* sign-extended */
struct ctr_fb_view ctr_fb_sub(const struct ctr_fb_view *t, int field);
struct ctr_fb_vec ctr_fb_list(const struct ctr_fb_view *t, int field, size_t size);
struct ctr_fb_view ctr_fb_at(struct ctr_fbr *r, const struct ctr_fb_vec *v, size_t i); /* a vector of tables */
const char *ctr_fb_str(const struct ctr_fb_view *t, int field, size_t *n); /* not terminated; NULL: absent */
int64_t ctr_fb_load64(const uint8_t *p);
int32_t ctr_fb_load32(const uint8_t *p);

#endif
