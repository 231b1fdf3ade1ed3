/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_variants.h: internal to lr's variants: lr_variants.c, the learner; lr_variants_bind.c, the layout of states;
 * lr_variants_file.c, models and checkpoints. */
#ifndef CTR_LR_VARIANTS_H
#define CTR_LR_VARIANTS_H

#include "common/lr/ftrl_x8.h"
#include "common/lr/inclusion.h"
#include "common/lr/lr_standalone.h"

#define CTR_LR_NONE INT32_MIN

/* A table of features, shared by all variants that learn it. A row of states has: `fixed` bytes, the same in all
 * tables, for learners with counts and learners other than the default one; then the states of the groups of eight (x8)
 * that have this table; then the states of the other variants that have it. Row 0 belongs to refused keys. */
struct shared_table {
    /* By variant: offset in a row of states of the table row for its kernels; CTR_LR_NONE: none. */
    int32_t *at;
    bool *takes;                    /* by variant: it learns this table; false for a table that it only loaded */
    uint32_t x8_end_bytes;          /* offset in a row of states where single variants begin */
    int32_t *x8_at;                 /* by x8: offset of its states in a row of states */
    bool *x8_idle;                  /* by x8: none of its variants learns this table */
    uint64_t *x8_mask;              /* by x8 and lane: all bits set if that lane learns it */
    struct ctr_lr_digested *digest; /* by variant of an x8, while models are saved */
};

/* Up to eight variants of the default optimizer, which one kernel processes together. */
struct x8 {
    int variant[CTR_X8]; /* by lane; -1: the lane is empty */
    int n;
    enum ctr_precision precision;
    struct ctr_x8_params params;
    uint32_t bytes;  /* of their states of one key */
    bool aligned;    /* all learn the same tables, so a row's coordinates have the same numbers in all lanes */
    bool everywhere; /* it learns every table, at the same offset in all */
    bool masked;     /* not aligned, or a lane is empty or has no bias */
    bool weighted;   /* some variants have their own weights */
    uint64_t bias_mask[CTR_X8];
    uint8_t *bias; /* their states of the bias */
};

/* Location of a table's states, valid for a block. */
struct ctr_lr_spot {
    uint8_t *states; /* row 0 */
    uint64_t bytes;  /* per row; 0: no variant has the table */
};

/* A row as an x8 processes it: its coordinates, the bias last. */
struct ctr_lr_x8_row {
    uint8_t **state;
    const uint64_t **mask;
    double *x;
    int64_t k;
    int64_t ones; /* number of ones in x */
};

/* A set of variants that one thread processes: x8s, and indices into q->scalar. */
struct group {
    int x8_from, x8_end;
    int from, end;
    int batch; /* number of single variants that predict together before they learn */
    /* Scratch memory for each of them, `room` long: coordinates, and their locations. */
    struct ctr_buf z, n, w, root, x, slot, hash;
    int64_t room;
    struct ctr_buf k, ones, dot; /* by variant: coordinates; number of ones in x before the zeros, or -1; dot product */
    /* For x8s: the current and next rows of each; scratch memory; the coordinates of one lane. */
    struct ctr_buf x8_rows, x8_room;
    double *x8_w, *x8_root; /* for some x8s, x8_numbers each */
    size_t x8_numbers;
    int32_t *lane_at;
    struct ctr_err err;
    int64_t failed_row; /* within the block */
    _Alignas(64) char padding;
};

struct variant {
    struct lr *one;        /* options and events; its tables stay empty, and its layout is that of rows of states */
    struct lr *loaded;     /* read from a file, not yet copied to the shared tables, or NULL */
    uint8_t *bias, *spare; /* rows as its kernels take them; in `rows` or, for the bias, in its x8 */
    uint8_t *rows;
    int x8;       /* index of its x8, from 1; 0: none */
    int lane;     /* within that x8 */
    bool uniform; /* has every table, at the same offset in all */
};

struct variant_set {
    const struct ctr_variants *vs;
    struct variant *v;
    int n;
    uint32_t fixed;
    bool counts; /* some variants share event counts */
    bool events; /* some need the hashes of rows, or their counts */
    struct x8 *x8;
    int x8_count;
    int *scalar; /* the variants outside x8s; NULL: not bound yet */
    int scalar_count;
    struct shared_table *table;
    int tables;
    struct ctr_lr_orders orders;  /* of the tables, while models are saved */
    const struct ctr_strs *names; /* of tables, owned by the trainer */
    struct lr *find;              /* finds keys in its own tables; its `groups` have the rows of states */
    ctr_sigmoids *sigmoids;
    const struct ctr_x8_kernel *x8_kernel;
    struct ctr_buf spot;   /* by table: struct ctr_lr_spot */
    bool one_spot;         /* equal for all tables */
    struct ctr_pool *pool; /* for more than two threads; else NULL */
    struct group *group;
    int groups;
    /* of the current block */
    const struct ctr_rows *r;
    int64_t from, end;
    const uint32_t *number; /* by entry: row number in the states */
    double *score;
};

/* ---- lr_variants.c ---- */

void ctr_lr_variants_free_loaded(struct variant_set *q);
int64_t ctr_lr_variants_keys(const void *learner);
int64_t ctr_lr_variants_memory(const void *learner);

/* ---- lr_variants_bind.c ---- */

/* A map of the columns of a state: byte offsets in rows of two layouts. */
enum { CTR_LR_PIECES = 4 };
struct ctr_lr_piece {
    uint32_t from, to, bytes;
};
int ctr_lr_pieces(const struct ctr_learning *from, const struct ctr_learning *to,
                  struct ctr_lr_piece piece[CTR_LR_PIECES]);
static inline void ctr_lr_move_state(const struct ctr_lr_piece *piece, int n, const uint8_t *from, uint8_t *to)
{
    for (int i = 0; i < n; i++)
        memcpy(to + piece[i].to, from + piece[i].from, piece[i].bytes);
}

void ctr_lr_variants_lay_out_fixed(struct variant_set *q); /* the first part of every row */
int ctr_lr_variants_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names,
                         struct ctr_err *err) CTR_MUST;

/* For entry e of row i of the block: its table, and its row of states. */
static inline int ctr_lr_table_of(const struct ctr_rows *r, int64_t i, int64_t e)
{
    return r->table[r->transposed ? e - r->start[i] : e];
}
/* The weight of a row of the block for variant v. */
static inline double ctr_lr_weight_of(const struct variant_set *q, int v, int64_t row)
{
    const int own = q->vs->v[v].weight;
    return own >= 0 ? q->r->weights[own][row] : q->r->weight ? q->r->weight[row] : 1;
}
static inline uint8_t *ctr_lr_state_of(const struct variant_set *q, int table, int64_t e)
{
    const struct ctr_lr_spot *spot = (const struct ctr_lr_spot *)(const void *)q->spot.data + table;
    return spot->states + q->number[e] * spot->bytes;
}

/* ---- lr_variants_x8.c ---- */

/* Group the variants, once, by the tables that they learn: has[v * tables + t]. */
int ctr_lr_x8_make(struct variant_set *q, const bool *has, struct ctr_err *err) CTR_MUST;
void ctr_lr_x8_free(struct variant_set *q);
/* Lay out their states of a table from offset `bytes` of a row on; returns the end offset. t->at of their variants must
 * not be CTR_LR_NONE where they have the table. */
uint32_t ctr_lr_x8_lay_out(struct variant_set *q, struct shared_table *t, uint32_t bytes);
/* Set which variants learn table t, after t->takes was set. */
void ctr_lr_x8_bind(const struct variant_set *q, struct shared_table *t);
int ctr_lr_x8_scratch(struct group *w, int64_t longest, struct ctr_err *err) CTR_MUST;
/* The group's x8s learn a row of the block; call it for rows in order. */
int ctr_lr_x8_learn(struct variant_set *q, struct group *w, int64_t row) CTR_MUST;

/* The digests of a table, from its keys. */
void ctr_lr_x8_digest(const struct variant_set *q, int table, const struct ctr_numbered *place, uint64_t n);

/* ---- lr_variants_file.c: of struct ctr_model ---- */

extern const struct ctr_variant_ops ctr_lr_variant_ops;
int ctr_lr_variants_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w,
                         struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_section_names(const void *learner, const struct ctr_strs *tables, struct ctr_buf *names,
                                  struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_save_sections(void *learner, const struct ctr_strs *tables, struct ctr_out *out,
                                  struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err) CTR_MUST;
void ctr_lr_variants_summary(const void *learner, struct ctr_say *text);
int ctr_lr_variants_state(const void *learner, struct ctr_buf *words, struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_restore(void *learner, const uint64_t *word, size_t words, struct ctr_err *err) CTR_MUST;

#endif
