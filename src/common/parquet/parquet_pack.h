/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_pack: what a writer makes bytes with: Thrift's compact protocol, packed numbers, codecs. Each appends to a
 * buffer. */
#ifndef CTR_PARQUET_PACK_H
#define CTR_PARQUET_PACK_H

#include "common/parquet/parquet_impl.h"

/* ---- Thrift: after an error rc is set, and nothing more is written ---- */

enum { PQ_MAX_NESTING = 12 };
struct pq_put {
    struct ctr_buf *b;
    int depth, last[PQ_MAX_NESTING]; /* the field before, of each open struct */
    int rc;
    struct ctr_err *err;
};
void ctr_pq_put_i8(struct pq_put *t, int field, int v);
void ctr_pq_put_i16(struct pq_put *t, int field, int v);
void ctr_pq_put_i32(struct pq_put *t, int field, int64_t v);
void ctr_pq_put_i64(struct pq_put *t, int field, int64_t v);
void ctr_pq_put_bool(struct pq_put *t, int field, bool v);
void ctr_pq_put_binary(struct pq_put *t, int field, const void *p, size_t n);
void ctr_pq_put_text(struct pq_put *t, int field, const char *s);
void ctr_pq_put_struct(struct pq_put *t, int field); /* until ctr_pq_put_end */
void ctr_pq_put_end(struct pq_put *t);
/* A list of n elements of a type; then its elements: of structs ctr_pq_put_element and ctr_pq_put_end each. */
void ctr_pq_put_list(struct pq_put *t, int field, enum pq_wire element, int64_t n);
void ctr_pq_put_element(struct pq_put *t); /* begins a struct */
void ctr_pq_put_number(struct pq_put *t, int64_t v);
void ctr_pq_put_flag(struct pq_put *t, bool v);
void ctr_pq_put_bytes(struct pq_put *t, const void *p, size_t n);

/* ---- numbers ---- */

/* RLE and bit-packing hybrid of n numbers of `width` bits. */
int ctr_pq_pack_hybrid(struct ctr_buf *b, const int32_t *v, int64_t n, int width, struct ctr_err *err) CTR_MUST;
/* DELTA_BINARY_PACKED; is32: of INT32, whose differences wrap at 32 bits. */
int ctr_pq_pack_delta(struct ctr_buf *b, const int64_t *v, int64_t n, bool is32, struct ctr_err *err) CTR_MUST;

/* ---- codecs ---- */

enum { PQ_CODEC_NONE = 0, PQ_CODEC_SNAPPY = 1, PQ_CODEC_ZSTD = 6 };
int ctr_pq_codec_find(const char *name, struct ctr_err *err) CTR_MUST; /* its number, or CTR_EUSAGE */
/* state: NULL at first; ctr_pq_pack_free frees it. */
int ctr_pq_pack(void **state, int codec, const void *p, size_t n, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;
void ctr_pq_pack_free(void *state);

#endif
