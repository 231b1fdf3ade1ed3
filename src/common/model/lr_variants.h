/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_variants.h: what the files of lr's variants share: lr_variants.c, the learner; lr_variants_bind.c, where states
 * lie; lr_variants_file.c, models and checkpoints. */
#ifndef CTR_LR_VARIANTS_H
#define CTR_LR_VARIANTS_H

#include "common/feature/op.h"
#include "common/model/inclusion.h"
#include "common/model/lr.h"
#include "common/model/variants.h"

enum { CTR_LR_KEY_STRIDE = 16 }; /* of a table of keys: hash, index + 1 of the row of states */
#define CTR_LR_NONE INT32_MIN

/* A table of features, shared by all variants that learn it. A row of states is: `fixed` bytes, the same in all tables,
 * for learners whose kernels want the hash of a key, or its counts, beside their state; then the states of the others
 * that have this table. */
struct shared {
    struct ctr_sparse keys;
    struct ctr_area states;
    uint64_t rows;  /* of states */
    uint32_t bytes; /* of a row of states; 0: no variant has it */
    /* By variant: where in a row of states is what its kernels take for a table row; CTR_LR_NONE: it has none. */
    int32_t *at;
    uint8_t *nothing;     /* a row of zeros, for keys that are refused */
    struct ctr_buf order; /* while models are saved: keys sorted, struct ctr_lr_place */
};

/* Some variants, which one thread takes through a block. */
struct group {
    int from, end;
    int batch; /* variants that predict together, before they learn */
    /* Scratch of each of them, `room` long: coordinates, and where they lie. */
    struct ctr_buf z, n, w, root, x, slot;
    int64_t room;
    struct ctr_buf k, ones, dot; /* by variant: coordinates; x holds so many ones, then zeros, or -1; dot product */
    struct ctr_err err;
    int64_t failed_row; /* of the block */
    _Alignas(64) char apart;
};

struct variant {
    struct lr *one;        /* options, events; its tables stay empty, and its layout is that of rows of states */
    struct lr *loaded;     /* read from a file and not yet in the shared tables, or NULL */
    uint8_t *bias, *spare; /* rows as its kernels want them */
    bool uniform;          /* lies at the same place in every table, and has them all */
};

struct many {
    const struct ctr_variants *vs;
    struct variant *v;
    int n;
    uint32_t fixed;
    bool counts; /* some variants share counts of events */
    struct shared *table;
    int tables;
    const struct ctr_strs *names; /* of tables, the trainer's */
    uint64_t *seed, *extra;
    struct ctr_inclusion *inclusion;
    ctr_sigmoids *sigmoids;
    struct ctr_buf home, state; /* of the block's entries: pointers */
    struct ctr_buf dirty;       /* of the block's rows: has it keys that are refused? */
    struct ctr_pool *pool;      /* NULL: one thread */
    struct group *group;
    int groups;
    /* of the block */
    const struct ctr_rows *r;
    int64_t from, end;
    double *score;
};

/* The learner of variant i alone, without what all share. */
int ctr_lr_variant_new(const struct many *q, int i, struct lr **one, struct ctr_err *err) CTR_MUST;
void ctr_lr_variants_free_loaded(struct many *q);
int64_t ctr_lr_variants_keys(const void *learner);
int64_t ctr_lr_variants_memory(const void *learner);

/* ---- lr_variants_bind.c ---- */

/* The columns of a state: byte offsets in a row of one layout and in one of another. */
struct ctr_lr_piece {
    uint32_t from, to, bytes;
};
int ctr_lr_pieces(const struct ctr_learning *from, const struct ctr_learning *to, struct ctr_lr_piece piece[3]);
static inline void ctr_lr_move_state(const struct ctr_lr_piece *piece, int n, const uint8_t *from, uint8_t *to)
{
    for (int i = 0; i < n; i++)
        memcpy(to + piece[i].to, from + piece[i].from, piece[i].bytes);
}

void ctr_lr_variants_lay_out_fixed(struct many *q); /* the front of every row */
uint32_t ctr_lr_own_bytes(const struct lr *m);      /* of a variant's own columns, behind the hash */
int ctr_lr_variants_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names,
                         struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_reserve(struct shared *t, uint64_t extra, struct ctr_err *err) CTR_MUST;

/* The states of a slot of the table of keys; a new key gets its row. */
static inline uint8_t *ctr_lr_states_of(struct many *q, struct shared *t, uint8_t *slot)
{
    uint64_t index;
    memcpy(&index, slot + 8, sizeof index);
    if (!index) {
        index = ++t->rows;
        memcpy(slot + 8, &index, sizeof index);
        if (q->fixed)
            memcpy(t->states.base + (index - 1) * t->bytes, slot, sizeof(uint64_t));
    }
    return t->states.base + (index - 1) * t->bytes;
}

/* ---- lr_variants_file.c: of struct ctr_model ---- */

extern const struct ctr_many ctr_lr_many;
void ctr_lr_variants_forget_order(struct many *q);
int ctr_lr_variants_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w,
                         struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_section_names(const void *learner, const struct ctr_strs *tables, struct ctr_buf *names,
                                  struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_save_sections(void *learner, const struct ctr_strs *tables, struct ctr_out *out,
                                  struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_words(const void *learner, struct ctr_buf *text, struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_state(const void *learner, struct ctr_buf *words, struct ctr_err *err) CTR_MUST;
int ctr_lr_variants_restore(void *learner, const uint64_t *word, size_t words, struct ctr_err *err) CTR_MUST;

#endif
