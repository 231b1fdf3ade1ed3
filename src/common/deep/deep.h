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
 * push; deep_numbers.c: keys that the device numbers; deep_left.c: keys that are there; deep_entries.c: lists of rows
 * by table; deep_equal.c: lists that rows have in common, rows that are equal in some inputs; deep_source.c: where rows
 * live; deep_stack.c: a stack of dense layers, a part of models; deep_counts.c: how often keys come; deep_train.c: the
 * learner; deep_ranks.c: a learner over ranks; deep_ranks_bytes.c: what ranks send; deep_file.c, deep_read.c: sections
 * of a model file; deep_score.c: prediction; deep_explain.c: what makes one.
 *
 * Everything is cut by rows: an activation, a logit, a score depends on its row and on the parameters alone; gradients
 * are sums in the order of rows, of equal lists first (deep_equal.c). So neither threads nor how rows arrive change a
 * bit (compute.h, "What results may depend on").
 */
#ifndef CTR_DEEP_H
#define CTR_DEEP_H

#include "common/compute/comm.h"
#include "common/compute/compute.h"
#include "common/table/table.h"
#include "common/model/model.h"

/* ---- shapes ---- */

/* How ctr_deep_side_by_side cuts a list: it does not, by the order of its column, or always from the end. */
enum ctr_split { CTR_SPLIT_NONE, CTR_SPLIT_NEWEST, CTR_SPLIT_END };

/* A column of the stream; inputs are sorted by name. */
struct ctr_deep_input {
    char *name, *table; /* table NULL: numbers */
    bool list;
    bool image;               /* the vectors of its keys come from d->images */
    int32_t cols, slots;      /* for keys: columns of x; lists per row: 1, or see ctr_deep_side_by_side */
    int32_t dense, dense_at;  /* numbers per row, and the offset of the first one among all numbers of a row */
    enum ctr_pooling pooling; /* set by the model's declare; default SUM */
    int table_at;             /* index into ctr_deep_tables; -1: numbers */
    int sequence;             /* 1 + number of its sequence, set by declare; 0: pooled */
    /* Metadata of the column (ctr-stream(5)), or NULL: the input whose history this list is; the group of lists aligned
     * with it, item by item; user or ad. */
    char *history_of, *group, *side;
    bool oldest_first; /* ctr.order, of the stream at hand */
    enum ctr_split split;
};

enum ctr_deep_init {
    CTR_INIT_ZERO,
    CTR_INIT_ONE,
    CTR_INIT_PRELU, /* .25 */
    CTR_INIT_GLOROT,
    CTR_INIT_SMALL /* like the vectors of keys: uniform in [-.01, .01) */
};

/* A dense parameter: rows x cols floats of the arena. */
struct ctr_deep_param {
    char name[32]; /* "0.weight": its section is MODEL.0.weight */
    int64_t rows, cols, at;
    bool vector; /* one row, not a matrix */
    enum ctr_deep_init init;
    bool state; /* running statistics, which the optimizer does not change */
};

/* A sequence: key inputs whose lists are aligned, item by item. A model sees the vectors of all items. */
struct ctr_deep_sequence {
    int fields;
    int *input;      /* the fields, in input order */
    int *group;      /* for each field: its lists, one per row */
    int64_t cols;    /* of the values of all fields */
    int64_t entries; /* in the rows so far */
    struct ctr_mem *value, *grad;
};

/* Distinct hashes of a minibatch, numbered in order of first occurrence. */
struct ctr_deep_set {
    struct ctr_keyset keys;
    struct ctr_err err;
};

/* What rows of a minibatch have in common, by number: deep_equal.c. */
struct ctr_deep_equal {
    struct ctr_deep_set set;      /* the distinct ones, by a keyed hash of their contents */
    struct ctr_buf number;        /* i32: of each row */
    struct ctr_mem *on_device[2]; /* the same, by buffer_index */
    int64_t sent;                 /* rows already there */
    struct ctr_mem *start, *item; /* the rows of each number, for their sums */
};

/* Keys of consecutive inputs with equal pooling, or of one field of a sequence: the lists of compute.h, on the host and
 * on the device. `common`: for one input of lists; equal lists of the minibatch become one list, pooled once, whose
 * gradient is the sum over its rows (deep_equal.c). */
struct ctr_deep_group {
    enum ctr_pooling pooling;
    int first, inputs; /* index and number of its key inputs */
    int fields;        /* lists per row */
    int32_t width;     /* floats of a value */
    int64_t x_at;      /* its first column of x, unless it belongs to a sequence */
    int sequence;      /* 1 + number of the sequence; 0: pooled into x */
    int field;         /* index in that sequence */
    bool images;       /* uses d->images */
    bool ragged;       /* else every list has one entry */
    bool common;
    enum ctr_split split; /* of its one input */
    int64_t entries;
    struct ctr_buf hash;                     /* u64 [entries] */
    struct ctr_buf index, start, segment, x; /* as in struct ctr_lists; start, segment and x if ragged */
    struct ctr_buf table;                    /* with `by_table`, u16 [entries]: their tables */
    struct ctr_deep_lists {
        struct ctr_mem *index, *start, *segment, *x, *hash;
        struct ctr_mem *item, *row_item, *row_count;
    } buffers[2]; /* on the device, by buffer_index */
    struct ctr_mem *group_start_mem, *group_item_mem;
    int64_t sent_entries, sent_lists; /* already on the device */
    int64_t first_entry;              /* among those of all groups, where the device numbers them */
    /* if the keys are on the device: deep_left.c */
    struct ctr_buf item;                /* i32: of each list, its first item */
    struct ctr_buf row_item, row_count; /* i32: of each row, if common: item of its list, and how many */
    struct ctr_buf digest;              /* u64: of each list, if common: two numbers */
    /* if common */
    struct ctr_deep_equal equal;  /* of each row, its list */
    int64_t pooled;               /* lists already pooled */
    struct ctr_mem *value, *grad; /* [lists x width] */
};

/* Rows of the minibatch that are equal in some inputs (deep_equal.c). */
struct ctr_deep_distinct {
    bool *has;    /* of each input: is it one of them? */
    size_t bytes; /* of a record of them */
    struct ctr_deep_equal equal;
    struct ctr_buf record;              /* of the distinct ones */
    struct ctr_buf first;               /* i32: of each distinct one, the row that it came in first */
    struct ctr_mem *first_on_device[2]; /* by buffer_index */
    int64_t sent;                       /* distinct ones already there */
};

/* ---- a network on a device ---- */

/* Data of a minibatch's rows, on the host and on the way to the device; the groups hold the lists of keys. */
struct ctr_minibatch {
    struct ctr_buf label, weight; /* f32 */
    bool weighted;
    /* Minibatches alternate between two device buffers, so that the next one is sent while the device still learns the
     * current one. A buffer is free when its next minibatch begins, because the scores in between were waited for. */
    int buffer_index;
    struct ctr_deep_batch {
        struct ctr_mem *label, *weight, *numbers;
        struct ctr_mem *index; /* of the entries of all groups, if the device has numbered them */
    } buffers[2];
    int64_t sent_rows;
    bool on_device;       /* the device has numbered the keys of this minibatch so far: ctr_source_entries */
    bool left;            /* the hashes of its entries are on the device alone: deep_left.c */
    struct ctr_mem *hash; /* of the entries of all groups, if there are several */
    struct ctr_mem *group_start, *group_item; /* the entries of each distinct key */
    int *tables; /* for that: of a row's keys, `fields` of them; 0: tables differ from row to row */
    int fields;
    struct ctr_buf number;  /* where tables differ from row to row: u64, of each entry, ctr_source_number */
    struct ctr_buf part;    /* struct ctr_source_part: of the groups */
    struct ctr_mem *bias;   /* u64: the hash of the bias, for each row */
    struct ctr_mem *digest; /* u64: of lists of new rows, */
    struct ctr_buf digests; /* the same on the host */
    struct ctr_rowbuf home; /* rows that came to the host */
    /* The distinct keys so far, by table, per buffer of the source; the other buffer has those of the next minibatch if
     * they were announced. The second buffer takes memory and may be absent. */
    struct ctr_deep_set *set[2];
    int sets, key_buffer;
    bool announced;
    bool begun;     /* the keys of this minibatch were announced, or those of some ranks */
    bool known;     /* the keys of this minibatch, on all ranks: no more are asked for */
    int64_t unique; /* over all tables */
    struct ctr_upload upload;
};

/* The source of the vectors of its keys, and destination of their gradients. */
struct ctr_vectors {
    struct ctr_source *source; /* deep_source.c; once bound */
    struct ctr_source *store;  /* the source in that stack that stores the rows */
    struct ctr_mat value;      /* [unique x width]: from `source` */
    struct ctr_mem *du, *l2;   /* gradients; DIN, eq. 7 */
    struct ctr_mem *squares;   /* with `ftrl`: sums of the squares of what is summed in du */
};

struct ctr_deep_images;
struct ctr_image_table;
struct ctr_deep_spec;
struct ctr_attention;

/* The network: its shape, its parameters in one arena, and a model's view of a minibatch. */

/* An output of a network besides the logit, computed from the inputs of one side: a tower's vector. */
struct ctr_deep_output {
    const char *name, *side; /* name NULL: end of the list */
};

struct ctr_deep {
    const struct ctr_model *model;
    const struct ctr_deep_spec *spec;
    const struct ctr_deep_output
        *output; /* an element of spec->outputs: the network has only that output's inputs and no logit; or NULL */
    struct ctr_params p;
    struct ctr_dev *dev;
    char link[240]; /* how dense gradients travel between ranks: ctr_comm_link */
    bool learns;    /* keeps what backward needs */
    bool explains;  /* learns, but only the gradients of a row's inputs, numbers too: deep_explain.c */
    /* Set by declare: training computes different activations from prediction (dropout, batch statistics). */
    bool separate_training_forward;
    int64_t step; /* minibatches learned */
    /* shape */
    struct ctr_deep_input *input;
    int inputs;
    int *key_input;       /* input numbers of the key inputs */
    int keys, pooled;     /* how many; how many of them are pooled (not in sequences) */
    int32_t dense, width; /* numbers per row; floats of an embedding */
    int32_t image_width;  /* floats of the tower's output */
    int32_t image_inputs; /* floats of the tower's input, as in the file from which the network is made */
    bool tower_alone;     /* the network is only its tower: it has no images and no rows */
    int32_t u_cols;       /* value | state: floats of a row that the optimizer changes */
    int32_t pooled_cols;  /* columns of x with values; pooled * width unless inputs differ */
    int32_t x_cols;       /* pooled_cols + dense */
    struct ctr_deep_sequence *sequence;
    int sequences;
    struct ctr_deep_group *group;
    int groups;
    struct ctr_deep_distinct *distinct;
    int distincts;
    struct ctr_deep_param *param;
    int params;
    int64_t learned, floats; /* of the arena: parameters that the optimizer learns; all */
    struct ctr_mem *w, *g, *s1, *s2;
    struct ctr_deep_images *images;      /* deep_images.c; NULL: none */
    const struct ctr_image_table *table; /* image vectors borrowed from a scorer; NULL: the network reads them itself */
    struct ctr_mem *bad;                 /* f64: index of the first non-finite element of w, or -1 */
    /* the model's view of the minibatch: `rows` rows so far, of at most `room` */
    int64_t rows, room;
    struct ctr_mem *x, *dx;         /* [room x x_cols], [room x ctr_deep_dx_cols] */
    struct ctr_mem *logit, *dlogit; /* f32 [room] */
    struct ctr_minibatch batch;
    struct ctr_vectors vectors;
    void *state; /* private to the model */
};

struct ctr_deep_spec {
    /* Called when the shape of the inputs is known (x_cols): set their pooling, or make them sequences (which changes
     * x_cols); then add parameters and make `state`. */
    int (*declare)(struct ctr_deep *d, struct ctr_err *err);
    /* Memory for activations of `room` rows. */
    int (*make_room)(struct ctr_deep *d, int64_t room, struct ctr_err *err);
    /* Logits of rows [from, from + n) of x. `training`: for rows to be learned; called for all rows at once if
     * `separate_training_forward`.
     */
    int (*forward)(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err);
    /* From dlogit of all rows, compute the gradients of the parameters (ctr_deep_mat_grad, ctr_deep_vec_grad) and dx,
     * whose columns are the first ctr_deep_dx_cols of x. With d->explains, backward follows a forward pass that was
     * none of training: dlogit is 1, statistics are constants, and nothing is dropped. */
    int (*backward)(struct ctr_deep *d, struct ctr_err *err);
    void (*free)(struct ctr_deep *d);
    /* NULL, or outputs besides the logit. A network whose d->output is set before shaping has only the inputs of that
     * side: declare adds the parameters that the output uses, under the same names, and forward_output, called instead
     * of forward, computes it for rows [0, n) of x. */
    const struct ctr_deep_output *outputs;
    int (*forward_output)(struct ctr_deep *d, int64_t n, struct ctr_mat *y, struct ctr_err *err);
    int32_t (*output_width)(const struct ctr_deep *d);
    const char *output_bias; /* a parameter (one number) to add to the product of both outputs; or NULL */
    const struct ctr_attention *(*attention)(const struct ctr_deep *d); /* NULL, or its attention units */
    bool takes_sides;                                                   /* its options include CTR_DEEP_USER_OPTION */
    int32_t extra;                                /* floats of a key's vector in addition to --embedding */
    int32_t (*width)(const struct ctr_params *p); /* NULL, or floats of a key's vector */
    bool by_table; /* no inputs: rows by table (deep_entries.c), whose keys start from 0 */
    bool ftrl;     /* keys learn by FTRL-Proximal from sums over a minibatch; else by Adam from means */
};

/* For declare: add a parameter and return its number. rows 0: a vector of cols. Parameters that are `state` must come
 * after all others. */
int ctr_deep_param(struct ctr_deep *d, enum ctr_deep_init init, bool state, int64_t rows, int64_t cols,
                   struct ctr_err *err, const char *name, ...) CTR_MUST CTR_PRINTF(7, 8);
/* For declare, before parameters: make the lists of input `input` a sequence instead of pooling them, together with all
 * inputs of its group (the inputs with the same ctr.history; only itself if it has none). They get no columns of x.
 * Returns the number of the sequence, equal for all inputs of a group; < 0: an error, for example for an input of
 * numbers. */
int ctr_deep_sequence(struct ctr_deep *d, int input, struct ctr_err *err) CTR_MUST;
/* For declare, before parameters: split the list of an input into `slots` lists: its newest key, the one before, …;
 * empty where there are no more keys. Their values are side by side in x. */
void ctr_deep_side_by_side(struct ctr_deep *d, int input, int slots, enum ctr_split split);
/* The input of that name, for example a history_of; -1: none. */
int ctr_deep_find_input(const struct ctr_deep *d, const char *name);
/* The first column of d->x with the value of an input that is in no sequence. */
int64_t ctr_deep_column_of(const struct ctr_deep *d, int input);

/* A sequence in forward and backward. Entry e of the minibatch is item e - start[row] of its row; fields are side by
 * side: value[e][field * width + i], where width is that of a key's or an image's value; weighted keys multiply it by
 * their weights. Rows are in order, so the entries of rows [from, from + n) are [first, first + count). An empty row
 * has no entries.
 *
 *     struct ctr_deep_sequence_view s = ctr_deep_sequence_of(d, number, from, n);
 *     ctr_mat_rows(s.value, s.first, s.count)                    // the entries of these rows, as a matrix
 *
 * `value` is set before forward; backward must set all of `grad` (its content is undefined before), and the tables'
 * rows learn from it. ctr_deep_keep makes room for per-entry data that a model keeps from forward to backward. */
struct ctr_deep_sequence_view {
    int fields;
    int64_t entries;            /* of all rows of the minibatch so far */
    int64_t first, count;       /* those of the requested rows */
    struct ctr_mat value, grad; /* [entries x fields * width]; grad: only in training */
    struct ctr_vec start;       /* i32 [n + 1]: first entry of each requested row in the minibatch, and the end */
    struct ctr_vec segment;     /* i32 [entries]: row of each entry in the minibatch */
    struct ctr_vec weight;      /* none: all 1; weights of keys are already in value */
};
struct ctr_deep_sequence_view ctr_deep_sequence_of(const struct ctr_deep *d, int number, int64_t from, int64_t n);
/* Give *m room for `bytes`, keeping its first `used` bytes: a minibatch arrives in pieces, and its number of entries is
 * unknown until the last one. */
int ctr_deep_keep(struct ctr_deep *d, struct ctr_mem **m, size_t used, size_t bytes, struct ctr_err *err) CTR_MUST;

/* For declare: rows that are equal in the inputs of which `has` is set are to be known. Returns their number; < 0: an
 * error. The inputs must be such that ctr_deep_can_be_distinct. */
int ctr_deep_distinct(struct ctr_deep *d, const bool *has, struct ctr_err *err) CTR_MUST;
bool ctr_deep_can_be_distinct(const struct ctr_deep_input *in);
/* In forward of rows [from, from + n), the last ones of the minibatch so far: distinct rows [first, first + count) are
 * new among them. Compute from rows `row` of x, behind what the distinct rows before gave, and copy to each row what
 * row `number` gave. In backward of all rows: ctr_deep_equal_sum, then backward of the distinct ones; dx is wanted
 * of all rows: that of the distinct one in `row`, 0 in the others. */
struct ctr_deep_distinct_view {
    int64_t first, count;
    struct ctr_vec row;    /* i32 [count]: the row of the minibatch that each came in first */
    struct ctr_vec number; /* i32 [n] */
};
struct ctr_deep_distinct_view ctr_deep_distinct_of(const struct ctr_deep *d, int number, int64_t from, int64_t n);
/* Sums over equal rows, in the order of rows: [rows x cols] to [distinct x cols]. */
int ctr_deep_equal_sum(struct ctr_deep *d, struct ctr_deep_equal *e, struct ctr_mat rows, struct ctr_mat sums,
                       struct ctr_err *err) CTR_MUST;

/* Views of parameter i and of its gradient. */
struct ctr_mat ctr_deep_mat(const struct ctr_deep *d, int i);
struct ctr_mat ctr_deep_mat_grad(const struct ctr_deep *d, int i);
struct ctr_vec ctr_deep_vec(const struct ctr_deep *d, int i);
struct ctr_vec ctr_deep_vec_grad(const struct ctr_deep *d, int i);

/* ---- deep.c ---- */

/* The inputs of a stream, owned by the caller; and are two lists of inputs equal, else why not? */
int ctr_deep_inputs(const struct ctr_inputs *in, const struct ctr_strs *tables, struct ctr_deep_input **list, int *n,
                    struct ctr_err *err) CTR_MUST;
/* Set sides from the names in --user-features and --ad-features, which override those of the stream. */
int ctr_deep_inputs_sides(struct ctr_deep_input *list, int n, const struct ctr_params *p, struct ctr_err *err) CTR_MUST;
void ctr_deep_input_free(struct ctr_deep_input *in); /* frees its members */
void ctr_deep_inputs_free(struct ctr_deep_input *list, int n);
int ctr_deep_inputs_copy(const struct ctr_deep *from, struct ctr_deep_input **list, struct ctr_err *err) CTR_MUST;
int ctr_deep_same_inputs(struct ctr_deep *d, const struct ctr_deep_input *list, int n, struct ctr_err *err) CTR_MUST;

/* Open a device with `threads` threads. */
int ctr_deep_open(struct ctr_deep *d, const struct ctr_model *m, const struct ctr_params *p, int threads, bool learns,
                  struct ctr_err *err) CTR_MUST;
/* Set its inputs (takes ownership), declare the model, and make the arena with initial values. */
int ctr_deep_shape(struct ctr_deep *d, struct ctr_deep_input *list, int n, struct ctr_err *err) CTR_MUST;
/* Memory for `rows` rows; keeps the existing rows. */
int ctr_deep_room(struct ctr_deep *d, int64_t rows, struct ctr_err *err) CTR_MUST;
void ctr_deep_free(struct ctr_deep *d);
static inline bool ctr_deep_shaped(const struct ctr_deep *d)
{
    return d->w;
}
/* Does it learn from rows, with their statistics and draws? */
static inline bool ctr_deep_trains(const struct ctr_deep *d)
{
    return d->learns && !d->explains;
}
/* Columns of dx: those of keys, and of numbers only to explain, since numbers have nothing to learn. */
static inline int64_t ctr_deep_dx_cols(const struct ctr_deep *d)
{
    return d->explains ? d->x_cols : d->pooled_cols;
}

/* ---- deep_rows.c: tables, pull and push ---- */

struct ctr_deep_table {
    char *name;
    struct ctr_embedding rows;
};
struct ctr_deep_tables {
    struct ctr_deep_table *t;
    int n;
    int32_t width, floats; /* of a value, of a row: value | state | rows with the key (uint32_t, with l2) */
    bool zero;             /* rows start from 0 */
    bool counts;
    bool recounts; /* the rows of this run are counted before it learns: a model that it starts from gives no counts */
    bool counted;  /* the counts are those of all rows: learning adds none */
    struct ctr_keyindex given; /* counts from a file, by hash */
};
int ctr_deep_tables_find(const struct ctr_deep_tables *all, const char *name); /* or -1 */
int ctr_deep_tables_add(struct ctr_deep_tables *all, const char *name, const struct ctr_params *p, int *at,
                        struct ctr_err *err) CTR_MUST;
void ctr_deep_tables_free(struct ctr_deep_tables *all);
/* Numbers of the inputs' tables; `add` creates new ones, else they get -1. */
int ctr_deep_tables_bind(struct ctr_deep_tables *all, struct ctr_deep *d, bool add, struct ctr_err *err) CTR_MUST;

/* deep_counts.c: read the counts of a stream. */
int ctr_deep_counts_read(struct ctr_keyindex *t, const char *path, struct ctr_err *err) CTR_MUST;
/* Before push: lambda / n_j of each row of the minibatch, for the optimizer. */
int ctr_deep_send_l2(struct ctr_deep *d, const struct ctr_deep_tables *all, struct ctr_err *err) CTR_MUST;

/* Append rows [from, from + n) of r to the minibatch: their lists, numbers, labels, weights. */
int ctr_deep_add(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err) CTR_MUST;
/* Find the keys of the rows from `first` on and bring their table rows to the device; `make`: create rows for new keys
 * while the tables take at most `bound` bytes (0: no bound). Then pool into x. `pool` may be NULL. */
int ctr_deep_pull(struct ctr_deep *d, struct ctr_deep_tables *all, bool make, struct ctr_pool *pool, int64_t first,
                  int64_t bound, struct ctr_err *err) CTR_MUST;
/* Announce rows [from, from + n) of r, which belong to the minibatch after the current one (pulled, not yet cleared),
 * so that the source fetches their table rows meanwhile. More of them may follow. The next minibatch must then begin
 * with these rows, unless the announcement is revoked (between minibatches). */
int ctr_deep_announce(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_pool *pool,
                      struct ctr_err *err) CTR_MUST;
void ctr_deep_unannounce(struct ctr_deep *d);
/* The input of entry e of row i. */
static inline int ctr_deep_input_of(const struct ctr_deep *d, const struct ctr_rows *r, int64_t i, int64_t e)
{
    return r->table ? r->table[e] : d->key_input[e - r->start[i]];
}
/* The parts of a pull that need no lists: is there memory for `entries` keys, each of which may be new? Announce the
 * keys of all tables in a buffer to the source, unless a table's thread failed; *unique: how many there are. */
int ctr_deep_check_bound(const struct ctr_deep *d, const struct ctr_deep_tables *all, int64_t entries, int64_t bound,
                         struct ctr_err *err) CTR_MUST;
int ctr_deep_begin_keys(struct ctr_deep *d, int buffer, bool make, struct ctr_pool *pool, int64_t *unique,
                        struct ctr_err *err) CTR_MUST;
/* Pull without new rows, because other ranks have some. */
int ctr_deep_pull_none(struct ctr_deep *d, bool make, struct ctr_pool *pool, struct ctr_err *err) CTR_MUST;
/* Turn dx into gradients of table rows, apply an optimizer step, and write them back to the tables. */
int ctr_deep_push(struct ctr_deep *d, struct ctr_deep_tables *all, struct ctr_pool *pool, const struct ctr_dev_opt *opt,
                  struct ctr_err *err) CTR_MUST;
/* ctr_upload with the minibatch's pinned memory. */
static inline int ctr_deep_send(struct ctr_deep *d, struct ctr_mem **m, const void *host, size_t sent, size_t bytes,
                                struct ctr_err *err)
{
    return ctr_upload(&d->batch.upload, d->dev, m, host, sent, bytes, err);
}
static inline int ctr_deep_sent(struct ctr_deep *d, struct ctr_err *err)
{
    return ctr_uploaded(&d->batch.upload, d->dev, err);
}
/* Clear the minibatch. */
void ctr_deep_clear(struct ctr_deep *d);
void ctr_deep_rows_free(struct ctr_deep *d);
/* Has the device numbered the keys of this group? Those of images it never does. */
static inline bool ctr_deep_numbered(const struct ctr_deep *d, const struct ctr_deep_group *g)
{
    return d->batch.on_device && !g->images;
}
/* Numbers of entries are int32: an error if there are more. */
int ctr_deep_count_fits(int64_t entries, struct ctr_err *err) CTR_MUST;
/* Entries of all groups without images; and, of entries [first, first + n) of one, their x and the rows of values. */
int64_t ctr_deep_entries(const struct ctr_deep *d);
struct ctr_vec ctr_deep_x(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first, int64_t n);
struct ctr_vec ctr_deep_index(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first, int64_t n);
/* The number of a hash; a new hash gets the next number. *rc: set on an error, which is in s->err. */
int32_t ctr_deep_set_add(struct ctr_deep_set *s, uint64_t h, int *rc);
/* Send the entries of each of `rows` values of `index`, in ascending order, to the device, as pool_grad requires. */
int ctr_deep_send_groups(struct ctr_deep *d, const struct ctr_buf *index, int64_t rows, struct ctr_mem **start,
                         struct ctr_mem **item, struct ctr_err *err) CTR_MUST;

/* ---- deep_numbers.c: keys that the device numbers ---- */

/* NULL: it does, in minibatches that are learned from; else why the host does. */
const char *ctr_deep_host_numbers(const struct ctr_deep *d, const struct ctr_deep_tables *all);
/* Each row has n keys, and key k belongs to table d->batch.tables[k], which the caller sets. */
int ctr_deep_set_fields(struct ctr_deep *d, int n, struct ctr_err *err) CTR_MUST;
/* Before pooling, in the place of the host: number the keys of the minibatch; `first`: its first new row. Those before
 * are numbered again. 1: done; 0: the host numbers its keys. */
int ctr_deep_number_there(struct ctr_deep *d, const struct ctr_deep_tables *all, int64_t first,
                          struct ctr_err *err) CTR_MUST;

/* ---- deep_left.c: rows whose keys are on the device (ctr_rows.left) ---- */

/* Do they stay there, as rows to be added now? Else ctr_deep_left_rows gives them on the host (ctr_deep_bring_rows). */
bool ctr_deep_keeps_left(const struct ctr_deep *d);
int ctr_deep_left_rows(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_rowbuf *to,
                       struct ctr_rows *host, struct ctr_err *err) CTR_MUST;
/* Add the entries of rows [from, from + n) there. */
int ctr_deep_add_left(struct ctr_deep *d, const struct ctr_rows_left *left, int64_t from, int64_t n,
                      struct ctr_err *err) CTR_MUST;
/* Of each row, keys [first, first + n) of those that it has one of, and the bias unless it is 0, behind the entries of
 * g: only on the device. */
struct ctr_left_keys {
    int first, n;
    uint64_t bias;
};
int ctr_deep_add_left_keys(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows_left *left, int64_t from,
                           int64_t n, struct ctr_left_keys keys, struct ctr_err *err) CTR_MUST;
/* The lists of g from number `first` on, which are in g->item and g->start, on the device. */
int ctr_deep_take_left(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows_list *l, int64_t first,
                       struct ctr_err *err) CTR_MUST;
/* Bring the entries of the minibatch to the host, if they are not there. */
int ctr_deep_bring(struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
/* Did the device make the lists of the minibatch? Then it has their segments, and x is 1. */
static inline bool ctr_deep_made_lists(const struct ctr_deep *d)
{
    return d->batch.left && !d->spec->by_table;
}

/* ---- deep_entries.c: rows by table ---- */

/* Add the lists of rows [from, from + n) of r. */
int ctr_deep_entries_add(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n,
                         struct ctr_err *err) CTR_MUST;
/* Number the distinct keys of the rows from `first` on, by table, in its set; then turn the numbers into rows of
 * values.
 */
void ctr_deep_entries_number(struct ctr_deep *d, int64_t first, struct ctr_pool *pool);
int ctr_deep_entries_place(struct ctr_deep *d, int64_t first, struct ctr_pool *pool, struct ctr_err *err) CTR_MUST;
/* Number the distinct keys of rows to come, n > 0, in the same order, in the sets of the other buffer. */
void ctr_deep_entries_announce(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n,
                               struct ctr_pool *pool);

/* ---- deep_equal.c: what rows have in common: lists of an input, or all of some inputs ---- */

void ctr_deep_equal_clear(struct ctr_deep_equal *e);
void ctr_deep_equal_free(struct ctr_deep_equal *e);
int ctr_deep_equal_send(struct ctr_deep *d, struct ctr_deep_equal *e, struct ctr_err *err) CTR_MUST;

/* Add rows [from, from + n) of r to a common group. */
int ctr_deep_common_add(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows *r, int64_t from, int64_t n,
                        struct ctr_err *err) CTR_MUST;
/* The same of rows whose lists are on the device, where each has a digest of two numbers. And: g's keys have come to
 * the host, where lists are compared item by item. */
int ctr_deep_common_add_left(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows_list *l, int64_t from,
                             int64_t n, const uint64_t *digest, struct ctr_err *err) CTR_MUST;
int ctr_deep_common_bring(struct ctr_deep_group *g, struct ctr_err *err) CTR_MUST;
/* Pool the lists not yet pooled, and copy those of rows `first` and later to x, a part of d->x. */
int ctr_deep_common_pool(struct ctr_deep *d, struct ctr_deep_group *g, int64_t first, struct ctr_mat x,
                         struct ctr_err *err) CTR_MUST;
/* All lists, or those from `first` on. */
struct ctr_lists ctr_deep_common_lists(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first);

/* Rows [from, from + n) of r, whose lists are in the groups already, behind d->rows. */
int ctr_deep_distinct_add(struct ctr_deep *d, struct ctr_deep_distinct *s, const struct ctr_rows *r, int64_t from,
                          int64_t n, struct ctr_err *err) CTR_MUST;
int ctr_deep_distinct_send(struct ctr_deep *d, struct ctr_deep_distinct *s, struct ctr_err *err) CTR_MUST;
void ctr_deep_distinct_clear(struct ctr_deep_distinct *s);
void ctr_deep_distinct_free(struct ctr_deep_distinct *s);

/* ---- deep_source.c: where the rows of tables live ---- */

/* Create the stack of sources, once, from options and device, and bind the current tables. */
int ctr_deep_source_bind(struct ctr_deep_tables *all, struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
int64_t ctr_deep_source_rows(const struct ctr_deep *d, int table); /* rows of a table; -1: all tables */
int64_t ctr_deep_source_memory(const struct ctr_deep *d);          /* bytes of rows in this process */
/* Write what the source has learned to the tables, before they are read directly. */
int ctr_deep_source_settle(struct ctr_deep *d, struct ctr_err *err) CTR_MUST;

/* ---- deep_images.c: vectors of images, and the tower that they go through ---- */

struct ctr_deep_images_counts { /* of what is learned from */
    int64_t named, absent;      /* entries of rows, and of these without a vector */
    int64_t named_once;         /* in the first pass */
    int64_t asked, forwards;    /* distinct images of minibatches; vectors that went through the tower */
};

/* For declare of a model with image inputs: read the file d->p.images.file, unless d->table is set; add the tower's
 * parameters, image.0.weight … . */
int ctr_deep_images_declare(struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
/* For declare, behind all parameters that are learned: of --images-scale standard, mean and 1 / standard deviation of
 * each number of the vectors, from up to CTR_IMAGE_SAMPLE images of the file in evenly spread runs. Learning does not
 * change them; the tower takes (v - mean) * scale, and 0 of an image that is not there. A network without images:
 * nothing. */
enum { CTR_IMAGE_SAMPLE = 4096 };
int ctr_deep_images_declare_running(struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
/* Of a network to learn, whose arena is there: their first values, which a model that is loaded replaces. */
int ctr_deep_images_standardise(struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
/* Rows [from, from + n) of r follow: the system begins to read their images from disk (--prefetch). */
void ctr_deep_images_announce(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n);
/* Number the images of the n rows after d->rows, whose lists exist; first_row: stream row of the first one. */
int ctr_deep_images_add(struct ctr_deep *d, int64_t n, int64_t first_row, struct ctr_err *err) CTR_MUST;
/* Bring the tower's output for new images; over ranks every rank calls this, also without new ones. */
int ctr_deep_images_pull(struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
/* The tower's output, one row per distinct image of the minibatch, and its gradient. Push computes the
 * gradients of the tower's parameters from it. */
struct ctr_mat ctr_deep_images_value(const struct ctr_deep *d);
struct ctr_mat ctr_deep_images_grad(const struct ctr_deep *d);
int ctr_deep_images_room(struct ctr_deep *d, struct ctr_err *err) CTR_MUST; /* memory for the gradient */
int ctr_deep_images_push(struct ctr_deep *d, const struct ctr_dev_opt *opt, struct ctr_err *err) CTR_MUST;
void ctr_deep_images_clear(struct ctr_deep *d);
int64_t ctr_deep_images_bytes(const struct ctr_deep *d); /* of the table in memory */
/* "tower=…", a hash of the tower's parameters; and, if the table holds tower outputs, are they of this tower? */
int ctr_deep_tower_text(const struct ctr_deep *d, struct ctr_buf *text, struct ctr_err *err) CTR_MUST;
int ctr_deep_images_check(const struct ctr_deep *d, struct ctr_err *err) CTR_MUST;
/* For a network that is only a tower: n vectors to values. */
int ctr_deep_tower_rows(struct ctr_deep *d, const float *vectors, int64_t n, float *values,
                        struct ctr_err *err) CTR_MUST;
void ctr_deep_images_summary(const struct ctr_deep *d, const struct ctr_deep_images_counts *all, struct ctr_say *text);
/* Of this rank, so far; and a bit for each row of the table: some row of the stream has named it (over ranks). */
void ctr_deep_images_counts(const struct ctr_deep *d, struct ctr_deep_images_counts *counts);
const struct ctr_buf *ctr_deep_images_seen(const struct ctr_deep *d);
void ctr_deep_images_pass(struct ctr_deep *d); /* a pass has ended */
void ctr_deep_images_free(struct ctr_deep *d);
/* A network's table, to lend to others. */
const struct ctr_image_table *ctr_deep_images_table(const struct ctr_deep *d);

/* ---- deep_lr.c: what learns lr by minibatches; no row of the table of models ---- */

extern const struct ctr_model ctr_model_lr_minibatch;

/* ---- deep_train.c, deep_file.c, deep_score.c: the functions of struct ctr_model ---- */

/* Optimizer state of a value, in its own columns after it. */
enum { CTR_DEEP_STATES = 2 };
extern const char *const ctr_deep_states[CTR_DEEP_STATES];
/* Columns of the main section that are present only if some input has such metadata. */
enum { CTR_DEEP_RELATIONS = 3 };
extern const char *const ctr_deep_relations[CTR_DEEP_RELATIONS];

/* Of the main section: minibatches and rows learned; 1 where the counts of keys are those of all rows. */
#define CTR_META_MODEL_CLOCK "ctr.model_clock"

/* The step of a network with `ftrl`. */
struct ctr_dev_opt ctr_deep_ftrl(const struct ctr_params *p);

struct ctr_deep_learner {
    struct ctr_deep net;
    struct ctr_deep_tables tables;
    struct ctr_pool *pool, *own_pool; /* the device's pool, or its own; NULL: own_pool is not needed */
    int64_t learned_rows;             /* over all passes: clock of the learning rate schedule */
    int64_t first_row;                /* stream row of the minibatch's first row, for messages */
    int64_t unchecked;                /* the last row of an update whose parameters are not yet checked; 0: none */
    double bad;                       /* what the device found then */
    struct ctr_dev_time time;
    struct ctr_ahead ahead; /* the next rows; peek NULL: unknown */
    bool unscored;          /* as the rows said that came last */
    struct {
        bool whole;               /* every rank's minibatch is complete */
        int64_t rows;             /* of this step, over all ranks */
        int64_t keys;             /* over all ranks, at the last save */
        int64_t announced, next;  /* rows whose keys were announced: of this minibatch, of the one that follows */
        const struct ctr_rows *r; /* behind row `from` of these lies the one that follows; NULL: not known */
        int64_t from;
        struct ctr_buf host;  /* f32: gradients on their way */
        struct ctr_mem *room; /* the same, where devices are connected */
        int64_t steps, ids;   /* steps taken; distinct IDs in this rank's minibatches, summed */
        struct ctr_deep_ranks_sums {
            struct ctr_comm_bytes bytes;
            int64_t ids;
            struct ctr_deep_images_counts images;
        } sums;           /* over all ranks, at the last save */
        int64_t distinct; /* images that any rank had named by then */
    } ranks;              /* if net.p.comm is set */
};

/* deep_ranks_bytes.c: sum the counts of all ranks, before a save; and print them in a summary. */
int ctr_deep_ranks_count(struct ctr_deep_learner *l, struct ctr_err *err) CTR_MUST;
void ctr_deep_ranks_summary(const struct ctr_deep_learner *l, struct ctr_say *text);

/* deep_ranks.c, for learners with net.p.comm. Stack the distribution of keys to owners on the source. */
int ctr_deep_ranks_source(struct ctr_deep *d, const struct ctr_deep_tables *all, struct ctr_err *err) CTR_MUST;
/* Before each pull in training: does this pull complete this rank's minibatch? Sets l->ranks. */
int ctr_deep_ranks_round(struct ctr_deep_learner *l, bool whole, struct ctr_err *err) CTR_MUST;
/* This rank's minibatch is complete: join in pulls until all ranks' are. */
int ctr_deep_ranks_rest(struct ctr_deep_learner *l, struct ctr_err *err) CTR_MUST;
/* All ranks announce the keys of the next minibatch, as far as they know them: once a step, between its pull and push.
 */
int ctr_deep_ranks_ahead(struct ctr_deep_learner *l, struct ctr_err *err) CTR_MUST;
/* After backward: sum the gradients of dense parameters over ranks. */
int ctr_deep_ranks_gradients(struct ctr_deep_learner *l, struct ctr_err *err) CTR_MUST;

/* Wait for the last update: parameters that are not finite must reach neither a score nor a checkpoint. */
int ctr_deep_settle(struct ctr_deep_learner *l, struct ctr_err *err) CTR_MUST;

#define CTR_DEEP_FUNCTIONS                                                                                             \
    .by_column = true, .floats = CTR_FLOAT_FLUSH, .rows = CTR_MAX_MINIBATCH, .learner_new = ctr_deep_learner_new,      \
    .learner_free = ctr_deep_learner_free, .bind = ctr_deep_bind, .set_ahead = ctr_deep_set_ahead,                     \
    .counts = ctr_deep_counts, .count_rows = ctr_deep_count_rows, .train_rows = ctr_deep_train_rows,                   \
    .refuses_left = ctr_deep_refuses_left, .bring_rows = ctr_deep_bring_rows, .end_pass = ctr_deep_end_pass,           \
    .evaluate = ctr_deep_evaluate, .pending = ctr_deep_pending, .keys = ctr_deep_keys, .memory = ctr_deep_memory,      \
    .add_summary = ctr_deep_summary, .changes = ctr_deep_changes, .save_schema = ctr_deep_save_schema,                 \
    .save = ctr_deep_save, .section_names = ctr_deep_section_names, .save_sections = ctr_deep_save_sections,           \
    .load = ctr_deep_load, .warm = ctr_deep_warm, .scorer_open = ctr_deep_scorer_open,                                 \
    .scorer_free = ctr_deep_scorer_free, .session_new = ctr_deep_session_new, .session_free = ctr_deep_session_free,   \
    .predict_rows = ctr_deep_predict_rows, .output = ctr_deep_output, .output_rows = ctr_deep_output_rows,             \
    .input = ctr_deep_scorer_input, .images = ctr_deep_scorer_images, .explain = &ctr_deep_explain

int ctr_deep_learner_new(void **learner, const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err);
void ctr_deep_learner_free(void *learner);
int ctr_deep_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *tables, struct ctr_err *err);
int ctr_deep_train_rows(void *learner, const struct ctr_rows *rows, double *score, int64_t memory_bytes,
                        struct ctr_err *err);
void ctr_deep_set_ahead(void *learner, const struct ctr_ahead *ahead);
bool ctr_deep_counts(void *learner, bool can);
int ctr_deep_count_rows(void *learner, const struct ctr_rows *rows, int64_t memory_bytes, struct ctr_err *err);
int ctr_deep_evaluate(void *learner, const struct ctr_rows *rows, double *score, struct ctr_err *err);
int ctr_deep_end_pass(void *learner, struct ctr_err *err);
int64_t ctr_deep_pending(const void *learner);
const char *ctr_deep_refuses_left(const void *learner);
int ctr_deep_bring_rows(void *learner, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_rowbuf *to,
                        struct ctr_rows *host, struct ctr_err *err);
int ctr_deep_changes(void *learner, enum ctr_changes what, struct ctr_err *err);
int64_t ctr_deep_keys(const void *learner);
int64_t ctr_deep_memory(const void *learner);
void ctr_deep_summary(const void *learner, struct ctr_say *text);
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
struct ctr_image_table *ctr_deep_scorer_images(const void *scorer);
bool ctr_deep_scorer_input(const void *scorer, int i, const char **name, const char **side);
bool ctr_deep_output(const void *scorer, int i, struct ctr_output *out);
int ctr_deep_output_rows(void *session, const struct ctr_rows *rows, float *value, struct ctr_key_counts *counts,
                         struct ctr_err *err);
bool ctr_deep_attends(const void *scorer);
int ctr_deep_attended_rows(void *session, const struct ctr_rows *rows, double *score, ctr_attended_each *each,
                           void *ctx, struct ctr_err *err);
extern const struct ctr_explain_ops ctr_deep_explain; /* deep_explain.c */

/* A network over a scorer's parameters and tables, bound to the inputs of a stream. output: NULL, or its name.
 * `explains`: for deep_explain.c. The caller frees it, after an error too. */
int ctr_deep_scorer_net(const void *scorer, struct ctr_deep *net, const struct ctr_inputs *in,
                        const struct ctr_strs *tables, const char *output, bool explains, struct ctr_err *err) CTR_MUST;
/* Append all rows to its minibatch, and pull. */
int ctr_deep_scorer_add(const void *scorer, struct ctr_deep *net, const struct ctr_rows *r,
                        struct ctr_err *err) CTR_MUST;
/* Probabilities from the logits of rows [from, from + n) of the minibatch; the error names the first that is not
 * finite. first_row: stream row of row `from`. score NULL: only check them. */
int ctr_deep_scores(struct ctr_deep *d, int64_t from, int64_t n, int64_t first_row, double *score,
                    struct ctr_err *err) CTR_MUST;
/* Read all sections after the main section's schema into a network and its tables, without optimizer state: for
 * prediction. `r` is at the first batch of the main section. `warn`: receives what the file lacks. */
int ctr_deep_read(struct ctr_deep *d, struct ctr_deep_tables *all, struct ctr_strs *names, struct ctr_reader *r,
                  char *warn, size_t warn_size, struct ctr_err *err) CTR_MUST;

#endif
