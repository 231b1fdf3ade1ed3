/* SPDX-License-Identifier: Apache-2.0
 *
 * deep: the seam between deep models and their trainer.
 *
 * A deep model is one file that exports one const struct ctr_model whose `deep` is a const struct ctr_deep_spec: it
 * declares how each input is embedded and which dense parameters it has, and computes logits and gradients with the
 * operations of compute.h. Everything else is here and the same for all models:
 *
 *     rows -> lists of keys a field -> distinct keys -> their rows, pulled from the tables
 *          -> x = [pooled values | numbers] -> the model's forward -> logits -> scores
 *     loss -> the model's backward -> gradients of x -> of rows, pushed to the tables; of parameters, in one arena
 *
 * A model sees vectors, never keys or tables, so that a table in this process, a cache on a GPU, a parameter
 * server or an owner of images are the same to it. deep.c: shapes, parameters, memory; deep_rows.c: lists, pull and
 * push; deep_common.c: lists that rows have in common; deep_distinct.c: rows that are equal in some inputs;
 * deep_source.c: where rows live; deep_stack.c: a stack of dense layers, a part of models; deep_counts.c: how often
 * keys come; deep_train.c: the learner; deep_ranks.c: a learner over ranks; deep_file.c, deep_read.c: sections of a
 * model file; deep_score.c: prediction.
 *
 * Everything is cut by rows: an activation, a logit, a score depends on its row and on the parameters alone; gradients
 * are sums in the order of rows, of equal lists first (deep_common.c). So neither threads nor how rows arrive change a
 * bit (compute.h, "What results may depend on").
 */
#ifndef CTR_DEEP_H
#define CTR_DEEP_H

#include "common/compute/compute.h"
#include "common/table/table.h"
#include "common/model/model.h"

extern const struct ctr_model ctr_model_mlp, ctr_model_din, ctr_model_two_tower, ctr_model_fm, ctr_model_dcnv2,
    ctr_model_dlrm, ctr_model_dicm;

/* ---- shapes ---- */

/* A column of the stream, in the order of names. */
struct ctr_deep_input {
    char *name, *table; /* table NULL: numbers */
    bool list;
    bool image;               /* its keys' vectors are those of d->images */
    int32_t cols, slots;      /* of keys: columns of x; lists a row: 1, or see ctr_deep_side_by_side */
    int32_t dense, dense_at;  /* numbers a row, and where they begin among all of a row */
    enum ctr_pooling pooling; /* set by the model's declare; SUM unless it says otherwise */
    int table_at;             /* into ctr_deep_tables; -1: numbers */
    int sequence;             /* 1 + its number where declare made it a field of a sequence; 0: pooled */
    /* What the column says of itself (ctr-stream(5)), or NULL: the input that this list is the past of; the lists that
     * it is aligned with, item by item; user or ad. */
    char *history_of, *group, *side;
};

enum ctr_deep_init {
    CTR_INIT_ZERO,
    CTR_INIT_ONE,
    CTR_INIT_PRELU, /* .25 */
    CTR_INIT_GLOROT,
    CTR_INIT_SMALL /* as the vectors of keys: uniform within .01 */
};

/* A dense parameter: rows x cols floats of the arena. */
struct ctr_deep_param {
    char name[32]; /* "0.weight": its section is MODEL.0.weight */
    int64_t rows, cols, at;
    bool vector; /* one row, which is no matrix */
    enum ctr_deep_init init;
    bool state; /* not learned by the optimizer: running statistics */
};

/* A sequence: inputs of keys whose lists are aligned, item by item. A model sees the vectors of all items. */
struct ctr_deep_sequence {
    int fields;
    int *input;      /* the fields, in the order of inputs */
    int *group;      /* of each field: the lists, one a row */
    int64_t cols;    /* of all fields' values */
    int64_t entries; /* of the rows so far */
    struct ctr_mem *value, *grad;
};

/* Distinct hashes of a minibatch, numbered in the order in which they came. */
struct ctr_deep_set {
    struct ctr_keyset keys;
    struct ctr_buf uses; /* i32: how often each came, for the caller to count; 0 at first */
    struct ctr_err err;
};

/* Keys of consecutive inputs that are pooled alike, or of one field of a sequence: the lists of compute.h, on the host
 * and on the device. `common`: of one input of lists; equal lists of the minibatch are one list here, which is pooled
 * once, and whose gradient is the sum of those of its rows (deep_common.c). */
struct ctr_deep_group {
    enum ctr_pooling pooling;
    int first, inputs; /* of the inputs of keys */
    int fields;        /* lists a row */
    int32_t width;     /* floats of a value */
    int64_t x_at;      /* the column of x that it begins at, unless it is of a sequence */
    int sequence;      /* 1 + the number of the sequence; 0: pooled into x */
    int field;         /* of that sequence */
    bool images;       /* of d->images */
    bool ragged;       /* else every list has one entry */
    bool common;
    int64_t entries;
    struct ctr_buf hash;                     /* u64 [entries] */
    struct ctr_buf index, start, segment, x; /* as in struct ctr_lists; start, segment, x where ragged */
    struct ctr_deep_lists {
        struct ctr_mem *index, *start, *segment, *x, *list;
    } buffers[2]; /* on the device, by buffer_index */
    struct ctr_mem *group_start_mem, *group_item_mem;
    int64_t sent_entries, sent_lists, sent_rows; /* on the device already */
    /* where common */
    struct ctr_deep_set distinct; /* lists, by a hash of what is in them */
    struct ctr_buf list;          /* i32: of each row */
    int64_t pooled;               /* lists that are pooled already */
    struct ctr_mem *value, *grad; /* [lists x width] */
    struct ctr_mem *row_start_mem, *row_item_mem;
};

/* Rows of the minibatch that are equal in some inputs (deep_distinct.c). */
struct ctr_deep_distinct {
    bool *has;               /* of each input: is it one of them? */
    size_t bytes;            /* of a record of them */
    struct ctr_deep_set set; /* by a hash of records */
    struct ctr_buf record;   /* of the distinct ones */
    struct ctr_buf number;   /* i32: of each row, that of its distinct one */
    struct ctr_buf first;    /* i32: of each distinct one, the row that it came in first */
    struct ctr_deep_distinct_buffers {
        struct ctr_mem *number, *first;
    } buffers[2]; /* on the device, by buffer_index */
    int64_t sent_rows, sent_distinct;
    struct ctr_mem *row_start_mem, *row_item_mem;
};

/* ---- a network on a device ---- */

/* What the rows of a minibatch bring, on the host and on its way to the device; the lists of their keys are those of
 * the groups. */
struct ctr_minibatch {
    struct ctr_buf label, weight; /* f32 */
    bool weighted;
    /* What comes with the rows is sent while the device still learns from the minibatch before: minibatches alternate
     * between two buffers. A buffer is free again when its next minibatch begins, because the scores between have been
     * waited for. */
    int buffer_index;
    struct ctr_deep_batch {
        struct ctr_mem *label, *weight, *numbers;
    } buffers[2];
    int64_t sent_rows;
    /* The distinct keys so far, by table, in the buffer of the source that is theirs; those of the next minibatch
     * stand in the other one when they were announced. A second buffer takes memory: else there is one. */
    struct ctr_deep_set *set[2];
    int sets, key_buffer;
    bool announced;
    int64_t unique; /* of all tables */
    struct ctr_upload upload;
};

/* Where the vectors of its keys come from and their gradients go. */
struct ctr_vectors {
    struct ctr_source *source; /* deep_source.c; once bound */
    struct ctr_source *store;  /* of that stack, what keeps the rows */
    struct ctr_mat value;      /* [unique x width]: from the source */
    struct ctr_mem *du, *l2;   /* gradients; DIN, eq. 7 */
};

struct ctr_deep_images;
struct ctr_image_table;
struct ctr_deep_spec;
struct ctr_attention;

/* The net: its shape, its parameters in one arena, and what a model sees of a minibatch. */

/* What a network gives beside the logit, from the inputs of one side: a tower's vector. */
struct ctr_deep_output {
    const char *name, *side; /* name NULL ends a list */
};

struct ctr_deep {
    const struct ctr_model *model;
    const struct ctr_deep_spec *spec;
    const struct ctr_deep_output *output; /* of spec->outputs: the network has its inputs alone, no logit; or NULL */
    struct ctr_params p;
    struct ctr_dev *dev;
    bool learns; /* keeps what backward needs */
    /* Set by declare: training computes other activations than prediction (dropout, batch statistics). */
    bool separate_training_forward;
    int64_t step; /* minibatches learned from */
    /* shape */
    struct ctr_deep_input *input;
    int inputs;
    int *key_input;       /* the inputs of keys: numbers of inputs */
    int keys, pooled;     /* how many; how many of them are no fields of sequences */
    int32_t dense, width; /* numbers a row; floats of an embedding */
    int32_t image_width;  /* floats of what the tower gives */
    int32_t image_inputs; /* floats that it takes, as the file says of which the network is made */
    bool tower_alone;     /* the network is there for its tower: it has no images, and no rows */
    int32_t u_cols;       /* value | state: of a row that the optimizer changes */
    int32_t pooled_cols;  /* of x: values; pooled * width unless inputs differ */
    int32_t x_cols;       /* pooled_cols + dense */
    struct ctr_deep_sequence *sequence;
    int sequences;
    struct ctr_deep_group *group;
    int groups;
    struct ctr_deep_distinct *distinct;
    int distincts;
    struct ctr_deep_param *param;
    int params;
    int64_t learned, floats; /* of the arena: parameters that the optimizer learns, all */
    struct ctr_mem *w, *g, *s1, *s2;
    struct ctr_deep_images *images;      /* deep_images.c; NULL: none */
    const struct ctr_image_table *table; /* their vectors, of a scorer, borrowed; NULL: the network reads them */
    struct ctr_mem *bad;                 /* f64: the first element of w that is no number, -1 */
    /* what a model sees of the minibatch: `rows` rows so far, of at most `room` */
    int64_t rows, room;
    struct ctr_mem *x, *dx;         /* [room x x_cols], [room x pooled_cols] */
    struct ctr_mem *logit, *dlogit; /* f32 [room] */
    struct ctr_minibatch batch;
    struct ctr_vectors vectors;
    void *state; /* of the model */
};

struct ctr_deep_spec {
    /* The shape of the inputs is known (x_cols): say how they are pooled, or that they are sequences, which changes
     * x_cols; then add parameters and make `state`. */
    int (*declare)(struct ctr_deep *d, struct ctr_err *err);
    /* Memory for activations of `room` rows. */
    int (*make_room)(struct ctr_deep *d, int64_t room, struct ctr_err *err);
    /* Logits of rows [from, from + n) of x. `training`: as the rows are learned from; always all rows at once if
     * `separate_training_forward`.
     */
    int (*forward)(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err);
    /* From dlogit of all rows: gradients of the parameters (ctr_deep_mat_grad, ctr_deep_vec_grad) and dx. */
    int (*backward)(struct ctr_deep *d, struct ctr_err *err);
    void (*free)(struct ctr_deep *d);
    /* NULL, or what it gives beside the logit. A network that has d->output set before it is shaped has the inputs of
     * that side: declare adds the parameters that the output depends on, under the same names, and forward_output
     * computes it for rows [0, n) of x, in place of forward. */
    const struct ctr_deep_output *outputs;
    int (*forward_output)(struct ctr_deep *d, int64_t n, struct ctr_mat *y, struct ctr_err *err);
    int32_t (*output_width)(const struct ctr_deep *d);
    const char *output_bias; /* the parameter, of one number, that is added to the product of both outputs; or NULL */
    const struct ctr_attention *(*attention)(const struct ctr_deep *d); /* NULL, or its attention units */
    bool takes_sides;                                                   /* its options have CTR_DEEP_SIDE_OPTIONS */
    int32_t extra;                                /* floats of a key's vector beside those of --embedding */
    int32_t (*width)(const struct ctr_params *p); /* NULL, or floats of a key's vector */
};

/* For declare: a parameter's number. rows 0: a vector of cols. Parameters that are `state` come after all others. */
int ctr_deep_param(struct ctr_deep *d, enum ctr_deep_init init, bool state, int64_t rows, int64_t cols,
                   struct ctr_err *err, const char *name, ...) CTR_MUST CTR_PRINTF(7, 8);
/* For declare, before parameters: the lists of input `input` are not pooled: they are a sequence, with those of all
 * inputs of its group (the inputs with the same ctr.history; it alone if it has none). They leave x. Returns the number
 * of the sequence, the same for each input of a group; < 0: an error, such as an input of numbers. */
int ctr_deep_sequence(struct ctr_deep *d, int input, struct ctr_err *err) CTR_MUST;
/* For declare, before parameters: the list of an input becomes `slots` lists, of its last key, the one before, …; empty
 * where there are no more keys. Their values lie side by side in x. */
void ctr_deep_side_by_side(struct ctr_deep *d, int input, int slots);
/* The input of that name, such as what history_of says; -1: none. */
int ctr_deep_find_input(const struct ctr_deep *d, const char *name);

/* A sequence in forward and backward. Entry e of the minibatch is item e - start[row] of its row; item and fields lie
 * side by side: value[e][field * width + i], width that of a key's value or of an image's, times the weight of the key
 * where keys are weighted. Rows are in order, so that the entries of rows [from, from + n) are entries [first, first +
 * count). An empty row has none.
 *
 *     struct ctr_deep_sequence_view s = ctr_deep_sequence_of(d, number, from, n);
 *     ctr_mat_rows(s.value, s.first, s.count)                    // what these rows bring, as the rows of a matrix
 *
 * `value` is there before forward; backward sets `grad`, all of it (it holds anything before), and the rows of the
 * tables learn from that. What a model keeps of each entry from forward to backward has room for ctr_deep_keep. */
struct ctr_deep_sequence_view {
    int fields;
    int64_t entries;            /* of all rows of the minibatch so far */
    int64_t first, count;       /* those of the rows asked for */
    struct ctr_mat value, grad; /* [entries x fields * width]; grad: while learning */
    struct ctr_vec start;       /* i32 [n + 1]: entry of the minibatch where each row asked for begins, and the end */
    struct ctr_vec segment;     /* i32 [entries]: the row of the minibatch of each entry */
    struct ctr_vec weight;      /* none: all 1; weights of keys are in value already */
};
struct ctr_deep_sequence_view ctr_deep_sequence_of(const struct ctr_deep *d, int number, int64_t from, int64_t n);
/* *m has room for `bytes` and keeps its first `used` bytes: a minibatch comes in pieces, and how many entries it will
 * have is not known before its last one. */
int ctr_deep_keep(struct ctr_deep *d, struct ctr_mem **m, size_t used, size_t bytes, struct ctr_err *err) CTR_MUST;

/* For declare: rows that are equal in the inputs of which `has` is set are to be known. Returns their number; < 0: an
 * error. The inputs must be such that ctr_deep_can_be_distinct. */
int ctr_deep_distinct(struct ctr_deep *d, const bool *has, struct ctr_err *err) CTR_MUST;
bool ctr_deep_can_be_distinct(const struct ctr_deep_input *in);
/* In forward of rows [from, from + n), the last ones of the minibatch so far: distinct rows [first, first + count) are
 * new among them. Compute from rows `row` of x, behind what the distinct rows before gave, and copy to each row what
 * row `number` gave. In backward of all rows: ctr_deep_distinct_sum, then backward of the distinct ones; dx is wanted
 * of all rows: that of the distinct one in `row`, 0 in the others. */
struct ctr_deep_distinct_view {
    int64_t first, count;
    struct ctr_vec row;    /* i32 [count]: the row of the minibatch that each came in first */
    struct ctr_vec number; /* i32 [n] */
};
struct ctr_deep_distinct_view ctr_deep_distinct_of(const struct ctr_deep *d, int number, int64_t from, int64_t n);
/* Sums over equal rows, in the order of rows: [rows x cols] to [distinct x cols]. */
int ctr_deep_distinct_sum(struct ctr_deep *d, int number, struct ctr_mat rows, struct ctr_mat sums,
                          struct ctr_err *err) CTR_MUST;

/* Views of parameter i and of its gradient. */
struct ctr_mat ctr_deep_mat(const struct ctr_deep *d, int i);
struct ctr_mat ctr_deep_mat_grad(const struct ctr_deep *d, int i);
struct ctr_vec ctr_deep_vec(const struct ctr_deep *d, int i);
struct ctr_vec ctr_deep_vec_grad(const struct ctr_deep *d, int i);

/* ---- deep.c ---- */

/* The inputs of a stream, owned; and whether two are the same, else why. */
int ctr_deep_inputs(const struct ctr_inputs *in, const struct ctr_strs *tables, struct ctr_deep_input **list, int *n,
                    struct ctr_err *err) CTR_MUST;
/* Sides by the names that --user-features and --ad-features give, which win over those of the stream. */
int ctr_deep_inputs_sides(struct ctr_deep_input *list, int n, const struct ctr_params *p, struct ctr_err *err) CTR_MUST;
void ctr_deep_input_free(struct ctr_deep_input *in); /* what it points to */
void ctr_deep_inputs_free(struct ctr_deep_input *list, int n);
int ctr_deep_inputs_copy(const struct ctr_deep *from, struct ctr_deep_input **list, struct ctr_err *err) CTR_MUST;
int ctr_deep_same_inputs(const struct ctr_deep *d, const struct ctr_deep_input *list, int n,
                         struct ctr_err *err) CTR_MUST;

/* A device for `threads` threads. */
int ctr_deep_open(struct ctr_deep *d, const struct ctr_model *m, const struct ctr_params *p, int threads, bool learns,
                  struct ctr_err *err) CTR_MUST;
/* Give it its inputs (taken over), declare the model, make the arena with its first values. */
int ctr_deep_shape(struct ctr_deep *d, struct ctr_deep_input *list, int n, struct ctr_err *err) CTR_MUST;
/* Memory for `rows` rows; keeps those that are there. */
int ctr_deep_room(struct ctr_deep *d, int64_t rows, struct ctr_err *err) CTR_MUST;
void ctr_deep_free(struct ctr_deep *d);
static inline bool ctr_deep_shaped(const struct ctr_deep *d)
{
    return d->w;
}

/* ---- deep_rows.c: tables, pull and push ---- */

struct ctr_deep_table {
    char *name;
    struct ctr_embedding rows;
};
struct ctr_deep_tables {
    struct ctr_deep_table *t;
    int n;
    int32_t width, floats; /* of a value, of a row: value | state | number of times it came (uint32_t, where l2) */
    bool counts;
    struct ctr_sparse given; /* counts that are given: slots of hash, uint32_t */
};
int ctr_deep_tables_find(const struct ctr_deep_tables *all, const char *name); /* -1 */
int ctr_deep_tables_add(struct ctr_deep_tables *all, const char *name, const struct ctr_params *p, int *at,
                        struct ctr_err *err) CTR_MUST;
void ctr_deep_tables_free(struct ctr_deep_tables *all);
/* Numbers of the inputs' tables, made where they are new and `add` is set; else -1. */
int ctr_deep_tables_bind(struct ctr_deep_tables *all, struct ctr_deep *d, bool add, struct ctr_err *err) CTR_MUST;

/* deep_counts.c: add the counts of a stream, and that of a hash; 0: it has none. */
enum { CTR_DEEP_COUNT_SLOT = 12 };
int ctr_deep_counts_read(struct ctr_sparse *t, const char *path, struct ctr_err *err) CTR_MUST;
uint32_t ctr_deep_count(const struct ctr_sparse *t, uint64_t hash);

/* Append rows [from, from + n) of r to the minibatch: their lists, numbers, labels, weights. */
int ctr_deep_add(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err) CTR_MUST;
/* Find the keys of the rows from `first` on and bring their rows to the device; `make`: with new ones for new keys,
 * while the tables take no more than `bound` bytes (0: none). Then pool into x. `pool` may be NULL. */
int ctr_deep_pull(struct ctr_deep *d, struct ctr_deep_tables *all, bool make, struct ctr_pool *pool, int64_t first,
                  int64_t bound, struct ctr_err *err) CTR_MUST;
/* Rows [from, from + n) of r come next, in the minibatch behind this one, which is pulled and not yet cleared: their
 * keys to the source, so that it fetches rows meanwhile. More of them may follow. Nothing else may come next, unless
 * this is taken back (between minibatches). */
int ctr_deep_announce(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_pool *pool,
                      struct ctr_err *err) CTR_MUST;
void ctr_deep_unannounce(struct ctr_deep *d);
/* The same without new rows: other ranks have some. */
int ctr_deep_pull_none(struct ctr_deep *d, struct ctr_pool *pool, struct ctr_err *err) CTR_MUST;
/* From dx to the gradients of rows, a step of the optimizer on them, and back into the tables. */
int ctr_deep_push(struct ctr_deep *d, struct ctr_deep_tables *all, struct ctr_pool *pool, const struct ctr_dev_opt *opt,
                  struct ctr_err *err) CTR_MUST;
/* ctr_upload, with the minibatch's pinned memory. */
static inline int ctr_deep_send(struct ctr_deep *d, struct ctr_mem **m, const void *host, size_t sent, size_t bytes,
                                struct ctr_err *err)
{
    return ctr_upload(&d->batch.upload, d->dev, m, host, sent, bytes, err);
}
static inline int ctr_deep_sent(struct ctr_deep *d, struct ctr_err *err)
{
    return ctr_uploaded(d->dev, err);
}
/* Forget the minibatch. */
void ctr_deep_clear(struct ctr_deep *d);
void ctr_deep_rows_free(struct ctr_deep *d);
/* The number of a hash, which is made where it is new: that is the last one. *rc: an error, in s->err. */
int32_t ctr_deep_set_add(struct ctr_deep_set *s, uint64_t h, int *rc);
void ctr_deep_set_clear(struct ctr_deep_set *s);
void ctr_deep_set_free(struct ctr_deep_set *s);
/* The entries of each of `rows` numbers of `index`, in ascending order, as pool_grad wants them, to the device. */
int ctr_deep_send_groups(struct ctr_deep *d, const struct ctr_buf *index, int64_t rows, struct ctr_mem **start,
                         struct ctr_mem **item, struct ctr_err *err) CTR_MUST;

/* ---- deep_common.c: lists that rows have in common ---- */

/* Rows [from, from + n) of r into a common group. */
int ctr_deep_common_add(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows *r, int64_t from, int64_t n,
                        struct ctr_err *err) CTR_MUST;
int ctr_deep_common_send(struct ctr_deep *d, struct ctr_deep_group *g, struct ctr_err *err) CTR_MUST;
/* The lists that are not pooled yet, and of rows `first` and later to x, a part of d->x. */
int ctr_deep_common_pool(struct ctr_deep *d, struct ctr_deep_group *g, int64_t first, struct ctr_mat x,
                         struct ctr_err *err) CTR_MUST;
/* g->grad from the gradient of all rows. */
int ctr_deep_common_grad(struct ctr_deep *d, struct ctr_deep_group *g, struct ctr_mat dx, struct ctr_err *err) CTR_MUST;
/* All lists, or those from `first` on. */
struct ctr_lists ctr_deep_common_lists(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first);
/* more[u] += how often entries of row u of the vectors came, beside once a list. */
void ctr_deep_common_uses(const struct ctr_deep *d, int32_t *more);

/* ---- deep_distinct.c: rows that are equal in some inputs ---- */

/* Rows [from, from + n) of r, whose lists are in the groups already, behind d->rows. */
int ctr_deep_distinct_add(struct ctr_deep *d, struct ctr_deep_distinct *s, const struct ctr_rows *r, int64_t from,
                          int64_t n, struct ctr_err *err) CTR_MUST;
int ctr_deep_distinct_send(struct ctr_deep *d, struct ctr_deep_distinct *s, struct ctr_err *err) CTR_MUST;
void ctr_deep_distinct_clear(struct ctr_deep_distinct *s);
void ctr_deep_distinct_free(struct ctr_deep_distinct *s);

/* ---- deep_source.c: where the rows of tables live ---- */

/* The stack of sources, made once from options and device; it knows the tables that there are now. */
int ctr_deep_source_bind(struct ctr_deep_tables *all, struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
int64_t ctr_deep_source_rows(const struct ctr_deep *d, int table); /* that a table has; -1: all tables */
int64_t ctr_deep_source_memory(const struct ctr_deep *d);          /* bytes of rows in this process */
/* What the source has learned is in the tables: before they are read past it. */
int ctr_deep_source_settle(struct ctr_deep *d, struct ctr_err *err) CTR_MUST;

/* ---- deep_images.c: vectors of images, and the tower that they go through ---- */

/* For declare, of a model with inputs of images: read the file of d->p.images, unless d->table is there; add the
 * tower's parameters, image.0.weight … . */
int ctr_deep_images_declare(struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
/* Number the images of the n rows behind d->rows, whose lists are there; first_row: of the stream, of the first one. */
int ctr_deep_images_add(struct ctr_deep *d, int64_t n, int64_t first_row, struct ctr_err *err) CTR_MUST;
/* Of those that are new: vectors to the device, and through the tower. */
int ctr_deep_images_pull(struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
/* What the tower gave, a row for each distinct image of the minibatch, and its gradient. */
struct ctr_mat ctr_deep_images_value(const struct ctr_deep *d);
struct ctr_mat ctr_deep_images_grad(const struct ctr_deep *d);
int ctr_deep_images_room(struct ctr_deep *d, struct ctr_err *err) CTR_MUST; /* for the gradient */
int ctr_deep_images_backward(struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
void ctr_deep_images_clear(struct ctr_deep *d);
int64_t ctr_deep_images_bytes(const struct ctr_deep *d); /* of the table, in memory */
/* "tower=…", of the parameters of the tower; and is the table, where it has values of a tower, of this one? */
int ctr_deep_tower_text(const struct ctr_deep *d, struct ctr_buf *text, struct ctr_err *err) CTR_MUST;
int ctr_deep_images_check(const struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
/* Of a network that is there for its tower: n vectors to values. */
int ctr_deep_tower_rows(struct ctr_deep *d, const float *vectors, int64_t n, float *values,
                        struct ctr_err *err) CTR_MUST;
int ctr_deep_images_summary(const struct ctr_deep *d, struct ctr_buf *text, struct ctr_err *err) CTR_MUST;
void ctr_deep_images_free(struct ctr_deep *d);
/* The table of a network, to lend it to others. */
const struct ctr_image_table *ctr_deep_images_table(const struct ctr_deep *d);

/* ---- deep_train.c, deep_file.c, deep_score.c: the functions of struct ctr_model ---- */

/* What the optimizer keeps of a value, in columns of its own beside it. */
enum { CTR_DEEP_STATES = 2 };
extern const char *const ctr_deep_states[CTR_DEEP_STATES];
/* Columns of the main section that are there where an input has one of them. */
enum { CTR_DEEP_RELATIONS = 3 };
extern const char *const ctr_deep_relations[CTR_DEEP_RELATIONS];

#define CTR_META_MODEL_CLOCK "ctr.model_clock" /* of the main section: minibatches and rows learned from */

struct ctr_deep_learner {
    struct ctr_deep net;
    struct ctr_deep_tables tables;
    struct ctr_pool *pool, *own_pool; /* the device's, or its own; NULL: it is the device's */
    int64_t learned_rows;             /* all passes: the schedule's clock */
    int64_t first_row;                /* of the minibatch, for messages */
    int64_t unchecked; /* the last row of an update whose parameters have not been looked at yet; 0: none */
    struct ctr_dev_time time;
    struct ctr_ahead ahead; /* rows that come next; peek NULL: not known */
    struct {
        bool whole;   /* the minibatch of every rank */
        int64_t rows; /* of the step, of all ranks */
        int64_t keys; /* of all ranks, when the model was saved last */
    } ranks;          /* with net.p.comm */
};

/* deep_ranks.c, of learners with net.p.comm. Put the owners of keys over the source. */
int ctr_deep_ranks_source(struct ctr_deep *d, const struct ctr_deep_tables *all, struct ctr_err *err) CTR_MUST;
/* Before each pull while learning: is this rank's minibatch whole with it? Sets l->ranks. */
int ctr_deep_ranks_round(struct ctr_deep_learner *l, bool whole, struct ctr_err *err) CTR_MUST;
/* This rank's minibatch is whole: pull with the others until all are. */
int ctr_deep_ranks_rest(struct ctr_deep_learner *l, struct ctr_err *err) CTR_MUST;
/* After backward: the gradients of dense parameters become sums over ranks. */
int ctr_deep_ranks_gradients(struct ctr_deep_learner *l, struct ctr_err *err) CTR_MUST;

/* Wait for the last update: parameters that are not numbers any more must reach neither a score nor a checkpoint. */
int ctr_deep_settle(struct ctr_deep_learner *l, struct ctr_err *err) CTR_MUST;

#define CTR_DEEP_FUNCTIONS                                                                                             \
    .by_column = true, .floats = CTR_FLOAT_FLUSH, .rows = CTR_MAX_MINIBATCH, .learner_new = ctr_deep_learner_new,      \
    .learner_free = ctr_deep_learner_free, .bind = ctr_deep_bind, .set_ahead = ctr_deep_set_ahead,                     \
    .train_rows = ctr_deep_train_rows, .end_pass = ctr_deep_end_pass, .evaluate = ctr_deep_evaluate,                   \
    .pending = ctr_deep_pending, .keys = ctr_deep_keys, .memory = ctr_deep_memory, .add_summary = ctr_deep_summary,    \
    .save_schema = ctr_deep_save_schema, .save = ctr_deep_save, .section_names = ctr_deep_section_names,               \
    .save_sections = ctr_deep_save_sections, .load = ctr_deep_load, .warm = ctr_deep_warm,                             \
    .scorer_open = ctr_deep_scorer_open, .scorer_free = ctr_deep_scorer_free, .session_new = ctr_deep_session_new,     \
    .session_free = ctr_deep_session_free, .predict_rows = ctr_deep_predict_rows, .output = ctr_deep_output,           \
    .output_rows = ctr_deep_output_rows, .attends = ctr_deep_attends, .attended_rows = ctr_deep_attended_rows

int ctr_deep_learner_new(void **learner, const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err);
void ctr_deep_learner_free(void *learner);
int ctr_deep_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *tables, struct ctr_err *err);
int ctr_deep_train_rows(void *learner, const struct ctr_rows *rows, double *score, int64_t memory_bytes,
                        struct ctr_err *err);
void ctr_deep_set_ahead(void *learner, const struct ctr_ahead *ahead);
int ctr_deep_evaluate(void *learner, const struct ctr_rows *rows, double *score, struct ctr_err *err);
int ctr_deep_end_pass(void *learner, struct ctr_err *err);
int64_t ctr_deep_pending(const void *learner);
int64_t ctr_deep_keys(const void *learner);
int64_t ctr_deep_memory(const void *learner);
int ctr_deep_summary(const void *learner, struct ctr_buf *text, struct ctr_err *err);
int ctr_deep_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err);
int ctr_deep_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err);
int ctr_deep_section_names(const void *learner, const struct ctr_strs *tables, struct ctr_buf *names,
                           struct ctr_err *err);
int ctr_deep_save_sections(void *learner, const struct ctr_strs *tables, struct ctr_out *out, struct ctr_err *err);
int ctr_deep_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err);
int ctr_deep_warm(void *learner, struct ctr_strs *tables, struct ctr_reader *r, bool partial, struct ctr_buf *told,
                  struct ctr_err *err);
int ctr_deep_scorer_open(void **scorer, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                         char *warn, size_t warn_size, struct ctr_err *err);
void ctr_deep_scorer_free(void *scorer);
int ctr_deep_session_new(void **session, const void *scorer, const struct ctr_inputs *in, const struct ctr_strs *tables,
                         const char *output, struct ctr_err *err);
void ctr_deep_session_free(void *session);
int ctr_deep_predict_rows(void *session, const struct ctr_rows *rows, double *score, struct ctr_key_counts *counts,
                          struct ctr_err *err);
bool ctr_deep_output(const void *scorer, int i, struct ctr_output *out);
int ctr_deep_output_rows(void *session, const struct ctr_rows *rows, float *value, struct ctr_key_counts *counts,
                         struct ctr_err *err);
bool ctr_deep_attends(const void *scorer);
int ctr_deep_attended_rows(void *session, const struct ctr_rows *rows, double *score, ctr_attended_each *each,
                           void *ctx, struct ctr_err *err);

/* Logits of rows [from, from + n) of the minibatch as probabilities; the error names the first that is none. first_row:
 * of the stream, of row `from`. */
int ctr_deep_scores(struct ctr_deep *d, int64_t from, int64_t n, int64_t first_row, double *score,
                    struct ctr_err *err) CTR_MUST;
/* Read all sections behind the main one's schema into a network and its tables, values alone: for prediction. `r`
 * stands before the first batch of the main section. `warn`: what the file lacks. */
int ctr_deep_read(struct ctr_deep *d, struct ctr_deep_tables *all, struct ctr_strs *names, struct ctr_reader *r,
                  char *warn, size_t warn_size, struct ctr_err *err) CTR_MUST;

#endif
