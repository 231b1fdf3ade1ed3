/* SPDX-License-Identifier: Apache-2.0
 *
 * model: learning and predicting over streams of features.
 *
 *     batches -> ctr_inputs -> rows of (key, table, x), label, weight -> a model's train_rows / predict_rows -> scores
 *
 * A model is one file that exports one const struct ctr_model, listed in the table of models.c. Code that all models
 * share (columns to rows, passes, progressive predictions, checkpoints, resume, the frame of the model file) is in
 * inputs.c, inputs_rows.c, modelfile.c, predictor.c and train/, and does not depend on the kind of model.
 */
#ifndef CTR_MODEL_H
#define CTR_MODEL_H

#include "common/stream/stream.h"
#include "common/table/table.h"

/* ---- rows: inputs.c, inputs_rows.c ---- */

/* Rows as the learner reads them. Entries of row i are start[i] … start[i+1]-1, in the order of column names, then of
 * list items. A row has no (table, key) twice: the x of repeated keys are summed in order. Entries with x = 0 are
 * omitted. */
struct ctr_rows {
    int64_t rows;
    int64_t first_row; /* of the stream, for messages */
    const int64_t *start;
    const uint64_t *hash;  /* ctr_key_hash of the key; none with left */
    const uint16_t *table; /* index into the list of table names; by column: number of the input, or NULL if each input
                              has one entry */
    const double *x;       /* NULL: all 1 */
    const double *label;   /* NULL: none */
    const double *weight;  /* NULL: all 1 */
    const double *const *weights; /* in the order of the calls of ctr_inputs_weigh; NULL: none */
    const int32_t *day;           /* since 1970, UTC; NULL: not requested */
    bool one_a_table;             /* a row has at most one entry per table; by column: each key input has exactly one */
    bool transposed;        /* one_a_table, x NULL, and entry k of row i is hash[k * rows + i]; table: of one row */
    const float *dense;     /* by column: rows x ctr_inputs_dense; NULL: none */
    const uint32_t *number; /* one per entry, set by the model's `find`; NULL: find did not run */
    const struct ctr_rows_left *left; /* NULL, or what is on the learner's device in place of hash, x and dense */
    int64_t left_row;                 /* of its rows, the first of these */
    /* of rows to learn: */
    bool unscored; /* nobody needs the predictions: a learner may leave them out where they cost extra, score[i] = 0 */
    const struct ctr_worker *worker; /* a second thread for a part of the work; NULL: none */
};

/* Rows on a device (ctr_batch_source_leave); their x are all 1. */
struct ctr_rows_left {
    uint64_t
        hashes; /* address: row i has the hash of its k-th key, of inputs with a key a row, at 8 * (i * keys + k) */
    int keys, lists;
    const struct ctr_rows_list {
        uint64_t hash;               /* address: item j has its hash at 8 * j */
        const int32_t *item, *count; /* [rows]: the first item of each row, and how many; item -1: `none` is the one */
        uint64_t none;
    } * list;         /* of inputs with lists; both kinds in the order of inputs. Then there is no table */
    uint64_t numbers; /* address: as dense; 0: they are there */
};

/* Columns of a schema bound as features: role feature (keys: uint64, lists of it, weighted keys) and role dense (a
 * weighted coordinate, one per position for vectors; a null gives none). A null key becomes the key of "(missing)". */
struct ctr_inputs;
enum { CTR_MAX_TABLES = 65535 };
#define CTR_BIAS_TABLE "(bias)"
uint64_t ctr_dense_key(uint64_t table_seed, int64_t position); /* position -1: a plain number */
uint64_t ctr_bias_key(void);

/* label, weight: columns, or -1. `change`: a transform of the rows, or NULL. Names of tables are looked up in `tables`
 * and appended if new. */
struct ctr_row_transform;
int ctr_inputs_new(struct ctr_inputs **in, const struct ctr_schema *s, int label, int weight,
                   const struct ctr_row_transform *change, struct ctr_strs *tables, struct ctr_err *err) CTR_MUST;
void ctr_inputs_free(struct ctr_inputs *in);
/* Add the weights of this column to the rows, beside their own weight; call before the first batch. */
int ctr_inputs_weigh(struct ctr_inputs *in, int column, struct ctr_err *err) CTR_MUST;
/* Make each column an input of its own, numbered in the order of names: entries carry its number instead of a table's
 * and are not merged; numbers give no entries but go to `dense`, 0 for null. A list of numbers must have a fixed
 * size. */
int ctr_inputs_by_column(struct ctr_inputs *in, struct ctr_err *err) CTR_MUST;
/* Transpose rows if the schema guarantees that every row has one entry per table with x = 1. */
void ctr_inputs_transpose(struct ctr_inputs *in);
struct ctr_input_info {
    const char *name; /* of the column */
    int table;        /* index into the list of table names; -1: numbers */
    int rows_table;   /* table of its entries in ctr_rows, for numbers too, unless rows come by column */
    bool list;        /* any number of keys per row; else one */
    bool image;       /* has role image */
    int dense;        /* numbers per row; 0: keys */
    int dense_at;     /* their position in a row of `dense` */
    /* ctr.history_of, ctr.history, ctr.side of the column, or NULL */
    const char *history_of, *group, *side;
    bool oldest_first; /* ctr.order */
};
/* Give rows the day of this time column. */
int ctr_inputs_days(struct ctr_inputs *in, int column, struct ctr_err *err) CTR_MUST;
int ctr_inputs_count(const struct ctr_inputs *in);
int ctr_inputs_dense(const struct ctr_inputs *in); /* numbers per row, all columns together */
struct ctr_input_info ctr_inputs_info(const struct ctr_inputs *in, int i);
/* What ctr_inputs_batch and ctr_inputs_rows want of a row. *rules is the caller's to free and has room for one
 * more; its texts are borrowed from the schema. */
int ctr_inputs_rules(const struct ctr_inputs *in, struct ctr_rule **rules, int *n, struct ctr_err *err) CTR_MUST;
/* From now on, keep the range of each number of some hundred rows of each batch. Range of input i: false if none was
 * seen. */
void ctr_inputs_watch(struct ctr_inputs *in);
bool ctr_inputs_range(const struct ctr_inputs *in, int i, double *low, double *high);
/* Leave the keys of the source on the device of the learner: ctr_batch_source_leave, for columns that this sets, unless
 * there are keys with weights. Rows then are `left` where the batch is. */
int ctr_inputs_leave(const struct ctr_inputs *in, const struct ctr_batch_source *s, const struct ctr_leave *how,
                     const char **why, struct ctr_err *err) CTR_MUST;
/* Start a batch (borrowed until the next one) and check all its labels and weights. */
int ctr_inputs_batch(struct ctr_inputs *in, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
/* How many of rows [from, from + n) have at most `entries` entries together; at least one. Results per row take about
 * thirty bytes per entry, so rows with long lists are processed fewer at a time. */
enum { CTR_TILE_ENTRIES = 1 << 18, CTR_ENTRY_BYTES = 32 };
int64_t ctr_inputs_fit(const struct ctr_inputs *in, int64_t from, int64_t n, int64_t entries);
/* Memory for rows. Zero-initialise to start. */
struct ctr_rowbuf {
    struct ctr_buf start, hash, table, x, dense, label, weight, day, number, weights, weight_at, left, item;
};
void ctr_rowbuf_free(struct ctr_rowbuf *b);
/* Its rows [from, from + n). *rows lies in `buf` and no longer needs the batch; buf NULL: it is borrowed until the next
 * call or batch. Lists of one group (ctr.history) that differ in length are an error. */
int ctr_inputs_rows(struct ctr_inputs *in, struct ctr_rowbuf *buf, int64_t from, int64_t n, struct ctr_rows *rows,
                    struct ctr_err *err) CTR_MUST;

/* Copy `left` rows [from, from + n) with `dense` numbers each and their labels: *kept borrows *buf, and needs what is
 * on the device. */
int ctr_rows_keep_left(const struct ctr_rows *r, int64_t from, int64_t n, int64_t dense, struct ctr_rowbuf *buf,
                       struct ctr_rows *kept, struct ctr_err *err) CTR_MUST;

/* ---- models: models.c, one file each ---- */

struct ctr_comm;

/* A range of keys for one thread to find. Several threads find parts of the rows at once; each part is processed in the
 * order of rows. ORDERED (always used with a memory bound): rows wait until the rows before them are done, and two
 * parts run alone, one before all others and one after them. */
enum ctr_finds { CTR_FIND_NOTHING, CTR_FIND_UNORDERED, CTR_FIND_ORDERED };
enum { CTR_FIND_PARTS = 5, CTR_FIND_FIRST = CTR_FIND_PARTS, CTR_FIND_LAST, CTR_FIND_MOST_PARTS, CTR_FIND_THREADS = 3 };
/* A second thread for one piece of the learner's work: submit gives it fn(arg); settle returns when that is done, and
 * runs it in the caller if the thread has not started. One piece at a time. */
struct ctr_worker {
    void (*submit)(void *ctx, void (*fn)(void *arg), void *arg);
    void (*settle)(void *ctx);
    void *ctx;
};
/* The rows that train_rows gets in k calls; NULL: not known yet. `wait`: for those that are being read. */
struct ctr_ahead {
    const struct ctr_rows *(*peek)(void *ctx, int k, bool wait);
    void *ctx;
};
struct ctr_find {
    int part, thread;
    int64_t memory_bytes; /* 0: no bound */
    uint32_t *number;     /* one per entry, in the order in which train_rows takes them; find sets those of its part */
};

/* Sizes of layers. */
enum { CTR_MAX_LAYERS = 8, CTR_MAX_UNITS = 1 << 16 };
struct ctr_sizes {
    int n;
    int32_t size[CTR_MAX_LAYERS];
};
bool ctr_sizes_parse(struct ctr_sizes *s, const char *text, size_t n); /* "200,80"; "0": none */

/* Values of the models' options: those that all models or the trainer read, then a struct for each family of models,
 * which its own files read. Each model's table (struct ctr_param) lists those it has. */

/* lr: lr/lr_options.c. */
struct ctr_lr_params {
    double alpha, beta, l1, l2;
    double power;              /* exponent of the counter in the learning rate */
    const char *precision;     /* one of f64, f32, q2.13 */
    const char *optimizer;     /* an optimizer name of optimizer.h */
    const char *learning_rate; /* one of per-coordinate, counts, global */
    bool no_bias;
    int64_t threshold; /* ogd-count: occurrences before a key is learned */
    int64_t keys;      /* expected in all tables, 0: unknown. Not saved */
    /* Inclusion of new keys: inclusion.h. All are included when both are 0. */
    double poisson;
    int64_t bloom, bloom_bytes;   /* occurrences before a key is included; memory of the filters */
    int64_t expire, expire_floor; /* days until a key is dropped, 0: never; keys always kept: expiry.h */
};

/* Images of deep models: deep/deep_images.c, dicm.c. */
struct ctr_image_params {
    const char *file;       /* of their vectors. Not saved */
    const char *missing;    /* fail, zero; NULL: a model that takes no images */
    const char *at;         /* over ranks: ams, worker, server. Stands in no file */
    struct ctr_sizes tower; /* units of the tower's hidden layers */
    const char *scale;      /* none, standard */
    const char *pool;       /* dicm: how lists of images are pooled */
    int64_t last;           /* concat: how many of a list's images it takes … */
    const char *order;      /* … the newest, or, in older files, those at the end */
    bool as_ids;            /* an embedding per key replaces the tower */
};

/* Deep models: deep/deep_options.h, and the files of those that have more. */
struct ctr_deep_params {
    double l2;               /* lambda of the embeddings' regularisation */
    const char *l2_counts;   /* stream of n_j, or NULL: the rows are counted. Not saved */
    double rate;             /* Adam's */
    double decay;            /* factor for the rate … */
    int64_t decay_every;     /* … applied every so many rows */
    int64_t embedding;       /* floats per key */
    struct ctr_sizes hidden; /* units of the hidden layers, from the inputs up */
    const char *activation;  /* prelu, relu, dice */
    const char *pooling;     /* of the values of a field's keys: sum, mean or max */
    bool batch_norm;
    const char *user_features, *ad_features; /* names of inputs, or NULL: the columns' sides decide. Not saved */
    const char *attention;                   /* din: plain, softmax */
    struct ctr_sizes attention_hidden;       /* of attention units, like hidden */
    int64_t cross_layers, cross_rank;        /* dcnv2; rank 0: full matrices */
    const char *structure;                   /* dcnv2: parallel, stacked */
    struct ctr_sizes bottom;                 /* dlrm: units of the layers over the numbers */
    int64_t vector;                          /* two-tower: width of a tower's vector */
    const char *base;                        /* dicm: lr, mlp, din */
};

struct ctr_params {
    int64_t minibatch; /* rows per update: their gradients use the weights before the first; 1: exact row by row */
    int64_t seed;
    /* Changes to rows before learner or scorer: row_transform.h. */
    int64_t hash_bits;     /* 0: unchanged keys */
    double dropout;        /* share of a row's features to leave out in training; of hidden units in deep models */
    const char *normalize; /* none, l1, l2, max */
    struct ctr_lr_params lr;
    struct ctr_deep_params deep;
    struct ctr_image_params images;
    /* Not saved in model files: */
    const struct ctr_variants *variants; /* NULL: one model. Else rows are trained one by one */
    int threads;                         /* changes no result, like the following */
    bool uncertainty;                    /* train_rows computes it, too */
    struct ctr_comm *comm;               /* comm.h: the ranks of the run, NULL: none; deep models */
    const char *device;                  /* NULL, cpu, gpu, auto: deep models */
    int64_t device_memory;               /* bytes, 0: all of the device */
    int64_t memory_bytes;                /* 0: no bound */
    int64_t prefetch;                    /* minibatches to look ahead */
    const char *spill;                   /* folder for rows beyond memory_bytes, or NULL */
};
enum { CTR_MAX_MINIBATCH = 65536, CTR_MAX_THRESHOLD = 1 << 20, CTR_MAX_BLOOM = 15 };

/* An option of a model. The model's table of them is the only source of its options: parsing, defaults, ranges, help,
 * provenance and the text in model files come from it. Model files list options in the table's order. */
enum ctr_param_kind {
    CTR_PARAM_REAL,  /* double; finite, least <= value < most */
    CTR_PARAM_INT,   /* int64_t; least <= value <= most */
    CTR_PARAM_BYTES, /* the same, given as a size such as 8M */
    CTR_PARAM_WORD,  /* const char *, one of `words` */
    CTR_PARAM_FLAG,  /* bool; `words`: the texts of false and true in files */
    CTR_PARAM_SIZES, /* struct ctr_sizes */
    CTR_PARAM_FILE,  /* const char *, the name of a file that is read */
    CTR_PARAM_TEXT,  /* const char *; UNSAVED */
    CTR_PARAM_RULE,  /* option syntax for other rows' members; `read` parses it */
    CTR_PARAM_FOLDER /* const char *, the name of a folder that is used */
};
enum {
    CTR_PARAM_UNSAVED = 1, /* not saved in model files */
    CTR_PARAM_UNTYPED = 2, /* only in files: no command line option */
    CTR_PARAM_ROWWISE = 4, /* does not apply to a learner with `by_minibatches` */
    CTR_PARAM_LOCAL = 8,   /* changes no result: left out of provenance */
    CTR_PARAM_BASIC = 16,  /* most users need it: CTR_OPT_BASIC */
};
struct ctr_params;
struct ctr_param {
    const char *name; /* of the option; NULL: end of the table */
    enum ctr_param_kind kind;
    size_t at;         /* offset of the member of ctr_params */
    const char *usual; /* the default, as a user types it; NULL: 0, none */
    double least, most;
    const char *range; /* in words */
    const char *unit;  /* the argument in the help; NULL: a flag, or the words */
    const char *group; /* heading in the help */
    const char *help;
    unsigned flags;
    const char
        *unsaved; /* NULL: always saved; else the value that is not saved and that files without the option imply */
    const char *saved_as; /* the name in files, if different */
    const char *const *words;
    const char *needs;   /* as ctr_opt.needs */
    const char *usually; /* the default with `by_minibatches`, if different */
    int (*read)(void *params, const char *text, struct ctr_err *err); /* CTR_PARAM_RULE */
};
#define CTR_PARAM_AT(member) offsetof(struct ctr_params, member)
/* Group headings; the help uses this order. */
#define CTR_GROUP_MODEL      "model"
#define CTR_GROUP_OPTIMIZER  "optimizer"
#define CTR_GROUP_REGULARISE "regularisation"
#define CTR_GROUP_INPUT      "input"
#define CTR_GROUP_PASSES     "passes and stopping"
#define CTR_GROUP_MEMORY     "memory"
#define CTR_GROUP_OUTPUTS    "outputs"
#define CTR_GROUP_RESTART    "restart"
#define CTR_GROUP_MANY       "many models"

/* The frame of a model file, read from the metadata of its first section. */
struct ctr_model_info {
    const struct ctr_model *model;
    struct ctr_params params; /* precision is a constant string */
    struct ctr_schema schema; /* of the first section */
    bool uncertainty;         /* requested from the scorer */
};

/* ---- several models in one pass: lr/variants.h reads them ---- */

enum { CTR_MAX_VARIANTS = 1024, CTR_MAX_VARIANT_NAME = 64 };

struct ctr_variant {
    char *name; /* letters, digits, '_', '-', '.'; starts with a letter or digit */
    int line;
    struct ctr_params params;
    struct ctr_strs in, out; /* patterns */
    int weight;              /* row weights: index into `weights` below; -1: the command's */
};

struct ctr_variants {
    const char *path; /* borrowed, for messages */
    struct ctr_variant *v;
    int n;
    struct ctr_strs weights; /* columns, each once */
    struct ctr_buf text;     /* all settings that change what is learned, one per line: for checkpoints */
};

/* A serving file: only for prediction, small, memory mapped. */
struct ctr_slim_opts {
    bool weights_only;             /* omit learning rates and keys of weight 0 */
    const char *program, *options; /* for the provenance */
};
struct ctr_slim_told {
    int64_t keys, pruned, cut; /* keys written; keys omitted with weight 0; weights cut to the range */
    double rate_error;         /* the largest relative error */
    bool fitted;               /* the model's fitted sections were left out */
};
struct ctr_model_info;

/* Keys of scored rows per table (by column: per input): all keys, and keys missing from the model's file. */
struct ctr_key_counts {
    int64_t *keys, *unknown;
};
static inline void ctr_count_key(struct ctr_key_counts *c, int table, bool known)
{
    c->keys[table]++;
    c->unknown[table] += !known;
}

/* A named output of a model in addition to its scores: a vector per row, computed from the inputs of one side. */
struct ctr_output {
    const char *name;
    int32_t width;  /* floats */
    float bias;     /* the score is the sigmoid of the inner product of the model's two vectors, plus this */
    uint64_t model; /* a hash of all parameters: vectors match only vectors with the same hash */
};

/* What an attention unit gave the items of a history: those of row i of the rows have weight[start[i]] … in the order
 * of the row's lists. */
struct ctr_attended {
    const int *inputs; /* the lists, aligned item by item: numbers of ctr_inputs, n of them */
    int n;
    bool by_ids; /* items are weighed beside IDs of the ad; else beside what their lists are the past of */
    int64_t rows;
    const int32_t *start; /* [rows + 1] */
    const float *weight;
};
typedef int ctr_attended_each(void *ctx, const struct ctr_attended *unit, struct ctr_err *err);

/* What makes up the log odds of rows: base + their parts add up to the logit, within CTR_PARTS_ERROR where fewer points
 * than the most were enough. Borrowed until the next call. */
#define CTR_PARTS_ERROR 1e-3
struct ctr_parts {
    const double *entry;   /* one per entry of the rows */
    const double *number;  /* [rows x numbers] */
    const double *base;    /* [rows]: the logit without vectors and numbers, which are 0 there */
    const double *logit;   /* [rows] */
    const int32_t *points; /* [rows]: of the integral */
};

struct ctr_model;
/* Operations of a learner that trains all models of params.variants at once, for single models. */
enum { CTR_SAVE_TOGETHER = 4 };
typedef int ctr_save_rows(void *const *learner, int n, const struct ctr_strs *tables, struct ctr_writer *const *w,
                          struct ctr_err *err);
struct ctr_variant_ops {
    /* Load the initial state of model i from the current section of the reader, a file of `model`. */
    int (*load)(void *learner, int i, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err);
    /* Extract model i as a learner of `model`; freed like one. */
    int (*standalone)(const void *learner, int i, const struct ctr_strs *tables, void **one, struct ctr_err *err);
    /* NULL, or computes what all calls of `standalone` share, with the threads of a pool (NULL: one); no learning or
     * finding may run meanwhile. */
    int (*prepare)(void *learner, struct ctr_pool *pool, struct ctr_err *err);
    /* NULL, or lists models, at most CTR_SAVE_TOGETHER, that are saved faster together, if i is the first of them:
     * returns how many; 0: another model's list has i. */
    int (*together)(const void *learner, int i, int *models);
    /* Saves the learners that `standalone` returned, as model->save does. */
    ctr_save_rows *save;
    const struct ctr_model *model;
};

/* Of models whose log odds are no sum over entries. */
struct ctr_explain_ops {
    /* What makes the log odds up: a session of its own, and scores and parts of rows, some dozens at a time. */
    int (*open)(void **explainer, const void *scorer, const struct ctr_inputs *in, const struct ctr_strs *tables,
                struct ctr_err *err);
    void (*free)(void *explainer);
    int (*rows)(void *explainer, const struct ctr_rows *rows, double *score, struct ctr_parts *parts,
                struct ctr_err *err);
    /* Does the model weigh the items of histories? Then scores of a session's rows, and `each` gets every unit that
     * weighs. */
    bool (*attends)(const void *scorer);
    int (*attended_rows)(void *session, const struct ctr_rows *rows, double *score, ctr_attended_each *each, void *ctx,
                         struct ctr_err *err);
};

/* NULL in place of a function says that the model has no such thing. Some have one implementor all the same:
 * write_slim, slim and row_weights lr; counts, count_rows, pending, warm, output, output_rows, input, images and
 * explain what all deep models share; together and save, above, lr by variants. They are no direct calls because the
 * trainer, the predictor and tools know no folder of models (tests/layers.t), and ask a model what it has by them. */
struct ctr_image_table;
struct ctr_model {
    const char *name, *summary;
    const struct ctr_param *options;
    bool by_minibatches; /* learns another model of this name by minibatches: accepts no CTR_PARAM_ROWWISE */
    const struct ctr_variant_ops *variant_ops; /* NULL: one model. Else score[i * params.variants->n + m] belongs to
                                                  model m, and files are checkpoints */
    const void *deep;                          /* deep models: struct ctr_deep_spec */
    bool gpu;                                  /* it can compute on a GPU */
    /* NULL, or writes the model at `path` as a serving file; and the model that predicts from that. */
    int (*write_slim)(const char *path, const struct ctr_model_info *info, const struct ctr_slim_opts *o,
                      struct ctr_out *out, struct ctr_slim_told *told, struct ctr_err *err);
    const struct ctr_model *slim;

    /* Takes rows by column, see ctr_inputs_by_column; `rows` at a time, 0: a size suited to row by row. */
    bool by_column;
    int64_t rows;

    /* A learner. Table numbers index the list given to `bind`, which may grow between calls; `in` are the inputs of the
     * stream. */
    int (*learner_new)(void **learner, const struct ctr_model *model, const struct ctr_params *p, struct ctr_err *err);
    void (*learner_free)(void *learner);
    int (*bind)(void *learner, const struct ctr_inputs *in, const struct ctr_strs *tables, struct ctr_err *err);
    /* NULL, or sets the bias of all its models that have one; call it after bind, while no row is pending. */
    int (*set_bias)(void *learner, double log_odds, struct ctr_err *err);
    /* Train row by row, exactly (or by params.minibatch): score[i] is the prediction before the update by row i, i from
     * 0. With params.uncertainty, score[rows->rows + i] is that of row i, for a model with predict_uncertain.
     * memory_bytes 0: no bound. */
    int (*train_rows)(void *learner, const struct ctr_rows *rows, double *score, int64_t memory_bytes,
                      struct ctr_err *err);
    /* NULL, or finds the keys of rows before train_rows gets them; if set, it is called for all rows, in parts, each in
     * the order of rows, by several threads, of which only one at a time has a given part. The mode for a run that
     * saves checkpoints, and for one that does not: */
    int (*find)(void *learner, const struct ctr_rows *rows, const struct ctr_find *f, struct ctr_err *err);
    enum ctr_finds (*finds)(const void *learner, bool saves);
    /* NULL, or gives the learner access to the rows ahead; NULL takes it away. */
    void (*set_ahead)(void *learner, const struct ctr_ahead *ahead);
    /* NULL, or: does the learner want the keys of all rows counted before it learns? `can`: it is done. Then count_rows
     * gets them all, after bind; and NULL once these were all. Over ranks all call it, each with own rows or none. */
    bool (*counts)(void *learner, bool can);
    int (*count_rows)(void *learner, const struct ctr_rows *rows, int64_t memory_bytes, struct ctr_err *err);
    /* NULL, or scores rows without learning; only between passes. At most params.minibatch rows. Over ranks all call
     * it, each with rows of its own or none. */
    int (*evaluate)(void *learner, const struct ctr_rows *rows, double *score, struct ctr_err *err);
    /* NULL: rows are never `left`. Else why they must not be, or NULL: train_rows takes such rows, and needs what is on
     * the device until it returns. bring_rows: rows [from, from + n) as *host, which borrows the labels of r and what
     * is in *to. */
    const char *(*refuses_left)(const void *learner);
    int (*bring_rows)(void *learner, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_rowbuf *to,
                      struct ctr_rows *host, struct ctr_err *err);
    int (*end_pass)(void *learner, struct ctr_err *err); /* all rows of a pass have been given */
    bool (*transposed)(const void *learner);             /* does it accept transposed rows? NULL: no */
    /* Number of rows scored but not yet learned, or NULL: always 0. Checkpoints do not contain them: a resumed run
     * gives them to train_rows again, right after load. */
    int64_t (*pending)(const void *learner);
    int64_t (*keys)(const void *learner);
    int64_t (*memory)(const void *learner); /* bytes */
    /* NULL, or appends summary lines "name value": what was saved, and how. */
    void (*add_summary)(const void *learner, struct ctr_say *text);
    /* NULL, or what deltas need: see enum ctr_changes (table/changed.h). With CTR_CHANGES_ONLY, save writes the rows of
     * keyed sections that changed alone, and all else. */
    int (*changes)(void *learner, enum ctr_changes what, struct ctr_err *err);
    /* NULL, or saves checkpoint state beside the main section as 64-bit words (none: nothing), and restores it. */
    int (*state)(const void *learner, struct ctr_buf *words, struct ctr_err *err);
    int (*restore)(void *learner, const uint64_t *word, size_t words, struct ctr_err *err);
    /* Save the main section: columns and metadata of the model, then rows; then further sections, or NULL: their names,
     * each after a ',', and the sections. Load: the reader is at the first batch of the main section. */
    int (*save_schema)(const void *learner, struct ctr_schema *s, struct ctr_err *err);
    int (*save)(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err);
    int (*section_names)(const void *learner, const struct ctr_strs *tables, struct ctr_buf *names,
                         struct ctr_err *err);
    int (*save_sections)(void *learner, const struct ctr_strs *tables, struct ctr_out *out, struct ctr_err *err);
    int (*load)(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err);
    /* NULL, or a load that reports, in lines for people, what it took, skipped and missed. `partial`: into a bound,
     * untrained learner; it takes what matches by name and shape and keeps the rest. */
    int (*warm)(void *learner, struct ctr_strs *tables, struct ctr_reader *r, bool partial, struct ctr_buf *told,
                struct ctr_err *err);

    /* A scorer: the part of a model that prediction needs, immutable and shared by threads. `warn` receives a warning
     * about the file. */
    int (*scorer_open)(void **scorer, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                       char *warn, size_t warn_size, struct ctr_err *err);
    void (*scorer_free)(void *scorer);
    /* Per-thread state for rows of one stream. The list of tables starts with the scorer's; `output`: the vector output
     * to compute instead of scores, or NULL. */
    int (*session_new)(void **session, const void *scorer, const struct ctr_inputs *in, const struct ctr_strs *tables,
                       const char *output, struct ctr_err *err);
    void (*session_free)(void *session);
    bool predicts_transposed;   /* accepts transposed rows */
    enum ctr_float_mode floats; /* float mode for prediction */
    /* `counts`: receives the counts of the rows' keys; NULL: no counting. */
    int (*predict_rows)(void *session, const struct ctr_rows *rows, double *score, struct ctr_key_counts *counts,
                        struct ctr_err *err);
    /* The same with the uncertainty of each score; called instead if the scorer was opened for it. NULL: not
     * supported. */
    int (*predict_uncertain)(void *session, const struct ctr_rows *rows, double *score, double *uncertainty,
                             struct ctr_key_counts *counts, struct ctr_err *err);
    /* NULL, or, for linear models, the weights of row i's entries; returns the bias. */
    double (*row_weights)(const void *session, const struct ctr_rows *rows, int64_t i, double *weight);
    /* NULL, or its vector outputs: output i, false past the last; and the rows of a session for one, `width` floats
     * each. */
    bool (*output)(const void *scorer, int i, struct ctr_output *out);
    int (*output_rows)(void *session, const struct ctr_rows *rows, float *value, struct ctr_key_counts *counts,
                       struct ctr_err *err);
    /* NULL, or its inputs by name, and their sides (or NULL): false past the last. */
    bool (*input)(const void *scorer, int i, const char **name, const char **side);
    /* NULL, or its table of images, if it has one (deep/image_table.h). */
    struct ctr_image_table *(*images)(const void *scorer);
    const struct ctr_explain_ops *explain; /* NULL: row_weights tells all, or nothing does */
};
/* The model of that name, or NULL; defined in model/models.c, which knows every learner. */
const struct ctr_model *ctr_model_find(const char *name);

/* ---- model files: modelfile.c ---- */

#define CTR_META_MODEL_OPTIONS "ctr.model_options" /* "alpha=0.1 beta=1 …" */
#define CTR_META_MODEL_WEIGHTS "ctr.model_weights" /* lr: digest of the weights other than 0 */
#define CTR_META_MODEL_STEPS   "ctr.model_steps"   /* lr: events learned, for training that continues */
#define CTR_META_MODEL_CLIPS   "ctr.model_clips"   /* lr: number of values that q2.13 clipped */
#define CTR_META_MODEL_CLOCK   "ctr.model_clock"   /* lr, fobos with one rate: sum of the shrinkage so far */
#define CTR_META_MODEL_SLIM    "ctr.model_slim"    /* a serving file: header before its rows */
#define CTR_META_VARIANTS      "ctr.variants"      /* a checkpoint of several models: their text */
#define CTR_META_CHECKPOINT    "ctr.checkpoint"    /* a model saved during a run: its position */
#define CTR_META_DELTA         "ctr.delta" /* a checkpoint of what changed alone: the state (ctr_model_state) before it */
#define CTR_META_REPLACES      "ctr.replaces" /* a whole checkpoint: the state of the one whose deltas it makes void */
#define CTR_COLUMN_DROPPED     "dropped"      /* of a delta: the key is no more */

/* The model's default params; params as text, "alpha=0.1 beta=1 l1=0 l2=0 precision=f64 bias=yes", and back. */
struct ctr_params ctr_params_usual(const struct ctr_model *m);
int ctr_params_text(const struct ctr_model *m, const struct ctr_params *p, struct ctr_buf *out,
                    struct ctr_err *err) CTR_MUST;
int ctr_params_parse(const struct ctr_model *m, struct ctr_params *p, const char *text, struct ctr_err *err) CTR_MUST;
/* Set one option by its name in files. */
int ctr_params_set(const struct ctr_model *m, struct ctr_params *p, struct ctr_str name, struct ctr_str value,
                   struct ctr_err *err) CTR_MUST;
int ctr_params_check(const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err) CTR_MUST;
void ctr_params_reset(const struct ctr_model *m, const struct ctr_param *o,
                      struct ctr_params *p); /* set it to its default */
bool ctr_model_takes(const struct ctr_model *m, const struct ctr_param *o);
const char *ctr_model_how(const struct ctr_model *m); /* " by minibatches" or "", appended to its name */

/* Read the frame of the model at path; leaves the reader at the first batch of the main section. */
int ctr_model_open(const char *path, struct ctr_model_info *info, struct ctr_reader **r, struct ctr_err *err) CTR_MUST;
void ctr_model_info_free(struct ctr_model_info *info);
int ctr_model_slim(const char *path, const struct ctr_slim_opts *o, struct ctr_out *out, struct ctr_slim_told *told,
                   struct ctr_err *err) CTR_MUST;
/* Make `images`, which may be NULL, the file of the images of a model that is opened. Of a model that has none it is
 * CTR_EUSAGE. */
int ctr_model_images(struct ctr_model_info *info, const char *path, const char *images, struct ctr_err *err) CTR_MUST;
/* Fail if another plan extracted the stream. `path` is the model's. */
int ctr_model_same_plan(const struct ctr_model_info *info, const char *path, const struct ctr_schema *stream,
                        struct ctr_err *err) CTR_MUST;
/* Write a learner as a model. `stream`: the schema of the training data, whose plan and provenance are copied.
 * `checkpoint`: NULL, or the text of CTR_META_CHECKPOINT. `program`, `options`: for the provenance. `fitted`: NULL, or
 * a fitted plan whose other sections are appended. */
struct ctr_save {
    const struct ctr_model *model;
    const struct ctr_params *params;
    void *learner;
    const struct ctr_strs *tables;
    const struct ctr_schema *stream;
    const char *checkpoint, *program, *options, *fitted;
    const char *delta;    /* NULL, or the state that the learner's changes follow, which alone are written */
    const char *replaces; /* NULL, or the state of the whole checkpoint before, which has deltas */
    char *state;          /* NULL, or gets the state that is saved: CTR_STATE_TEXT bytes */
};
/* Is `path` the fitted plan of this stream? And does the stream's plan have state that the model should include? */
int ctr_model_check_fitted(const char *path, const struct ctr_schema *stream, struct ctr_err *err) CTR_MUST;
bool ctr_model_wants_fitted(const struct ctr_schema *stream);
int ctr_model_save(const struct ctr_save *s, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
/* Write n models together with `save` (struct ctr_variant_ops); NULL: one model with its own save. */
int ctr_model_save_some(const struct ctr_save *s, int n, ctr_save_rows *save, struct ctr_out *const *out,
                        struct ctr_err *err) CTR_MUST;
/* Restore the state of a checkpoint; the reader is past its main section. */
int ctr_model_restore(const struct ctr_model *model, void *learner, struct ctr_reader *r, struct ctr_err *err) CTR_MUST;

/* ---- deltas: modelmerge.c ----
 *
 * A delta is a file like that of a checkpoint, but sections by key hold only the rows that changed since the state
 * before and, in the column `dropped`, keys that went since. Each file says which state it holds, by a hash of the
 * metadata of its first section: options, and the position with the digest of the rows learned and the sums of all
 * predictions, bit for bit. A delta names the state that it follows, so that no other file passes for that one. A whole
 * checkpoint names the whole one before it if that had deltas: what is left of these, when a run is killed before it
 * has removed them, is void. Any other delta that does not follow is an error. */
enum { CTR_STATE_TEXT = 33 };
void ctr_model_state(const struct ctr_meta *meta, char out[CTR_STATE_TEXT]);
/* The checkpoint path[0] with its deltas path[1 … n-1], in their order, as the checkpoint that would have been written
 * whole, byte for byte. Memory: a batch a file. */
int ctr_model_merge(char *const *path, int n, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
/* FILE.delta.N, from 1 */
int ctr_delta_path(const char *checkpoint, int64_t n, struct ctr_buf *path, struct ctr_err *err) CTR_MUST;
bool ctr_model_is_delta(const char *path); /* by its beginning: the end may be missing */
/* A model, or a checkpoint with all deltas beside it that follow: `path` is the file's own, or, of deltas, of a
 * temporary file that holds them merged. */
struct ctr_model_whole {
    char *path;
    int fd;                     /* -1: none */
    int64_t deltas;             /* merged */
    char state[CTR_STATE_TEXT]; /* of the last one */
    char base[CTR_STATE_TEXT];  /* of the file */
};
int ctr_model_whole(const char *path, struct ctr_model_whole *w, struct ctr_err *err) CTR_MUST;
/* Where the checkpoint was made, its deltas included: the text of CTR_META_CHECKPOINT; empty: a model has none. */
int ctr_model_position(const char *path, struct ctr_buf *line, struct ctr_err *err) CTR_MUST;
/* Is there a delta more since? *seen: of the file that was looked at last; zeros: none was. */
bool ctr_model_whole_grew(const char *path, const struct ctr_model_whole *w, struct ctr_file_seen *seen);
void ctr_model_whole_free(struct ctr_model_whole *w);
/* The same after work that returned rc, which it returns: its message names `path`, not the temporary file. */
int ctr_model_whole_end(struct ctr_model_whole *w, const char *path, int rc, struct ctr_err *err) CTR_MUST;

/* ---- predicting: loaded.c ----
 *
 *     struct ctr_loaded *m;                                           // once a process
 *     ctr_loaded_open(&m, "m.arrows", &(struct ctr_predict_opts){ 0 }, err);
 *     struct ctr_session *s;                                          // once a thread and schema
 *     ctr_session_new(&s, m, schema, NULL, err);
 *     ctr_session_rows(s, batch, 0, batch->rows, score, NULL, err);   // as often as there are rows
 *     ctr_session_free(s);
 *     ctr_loaded_free(m);
 */

struct ctr_predict_opts {
    int threads;        /* for a predictor */
    bool uncertainty;   /* beside each score, see ctr_model.predict_uncertain */
    const char *device; /* as in struct ctr_params */
    int64_t device_memory;
    const char *images; /* file of image vectors; NULL: none */
    const char *output; /* for a predictor: the output whose vectors replace scores; NULL: scores */
};

/* A model for prediction: options, plan, tables and weights, read once, and copied to a device once. It is immutable,
 * so any number of threads may use it. It counts its owners (each session is one) and is freed with the last. */
struct ctr_loaded;
int ctr_loaded_open(struct ctr_loaded **m, const char *path, const struct ctr_predict_opts *o,
                    struct ctr_err *err) CTR_MUST;
struct ctr_loaded *ctr_loaded_hold(struct ctr_loaded *m); /* adds an owner; returns m */
void ctr_loaded_free(struct ctr_loaded *m);               /* removes an owner; NULL: nothing */
const struct ctr_model_info *ctr_loaded_info(const struct ctr_loaded *m);
const char *ctr_loaded_path(const struct ctr_loaded *m);
const struct ctr_model_whole *ctr_loaded_whole(const struct ctr_loaded *m); /* the file and its deltas */
const char *ctr_loaded_warning(const struct ctr_loaded *m);                 /* "" or a warning about the file */
/* The output of that name; the error lists the existing ones. */
int ctr_loaded_output(const struct ctr_loaded *m, const char *name, struct ctr_output *out,
                      struct ctr_err *err) CTR_MUST;

/* Its table of images, to which more may be added; NULL: none. */
struct ctr_image_table *ctr_loaded_images(const struct ctr_loaded *m);
/* Its inputs, of models that name them: false past the last. An output needs those of its side. */
bool ctr_loaded_input(const struct ctr_loaded *m, int i, const char **name, const char **side);

/* Per-thread prediction state for one schema: bound inputs, memory for rows and activations. One thread at a time.
 * Scores have the same bits for any number of sessions and any division of rows into calls. `output`: see struct
 * ctr_predict_opts; the stream needs only the inputs of its side. The schema is borrowed. */
struct ctr_session;
int ctr_session_new(struct ctr_session **s, struct ctr_loaded *m, const struct ctr_schema *schema, const char *output,
                    struct ctr_err *err) CTR_MUST;
void ctr_session_free(struct ctr_session *s);
int ctr_session_rules(const struct ctr_session *s, struct ctr_rule **rules, int *n,
                      struct ctr_err *err) CTR_MUST;          /* ctr_inputs_rules */
const char *ctr_session_warning(const struct ctr_session *s); /* "" or a warning about the stream */
/* Rows [from, from + n) of a batch: n scores, and n uncertainties if the model was opened for them (else NULL). */
int ctr_session_rows(struct ctr_session *s, const struct ctr_batch *b, int64_t from, int64_t n, double *score,
                     double *uncertainty, struct ctr_err *err) CTR_MUST;
/* The same for an output: n times its width floats. */
int ctr_session_vectors(struct ctr_session *s, const struct ctr_batch *b, int64_t from, int64_t n, float *value,
                        struct ctr_err *err) CTR_MUST;
/* For the rows so far: the number of keys of table i, and of those missing from the model's file; NULL past the last
 * table. The session owns the name. */
const char *ctr_session_unknown(const struct ctr_session *s, int i, int64_t *keys, int64_t *unknown);

/* ---- predicting a stream with several threads: predictor.c ---- */

#define CTR_VECTOR_COLUMN "vector"
struct ctr_predictor;
int ctr_predictor_open(struct ctr_predictor **p, const char *path, const struct ctr_predict_opts *o,
                       struct ctr_err *err) CTR_MUST;
/* The same of a model that is loaded, of which it becomes an owner: for several predictors of one model. */
int ctr_predictor_of(struct ctr_predictor **p, struct ctr_loaded *m, const struct ctr_predict_opts *o,
                     struct ctr_err *err) CTR_MUST;
const char *ctr_predictor_warning(const struct ctr_predictor *p); /* after open and after bind: "" or a warning */
/* Bind to a stream: the output has its columns that are not inputs, then `score` (float64, role score), or `vector`
 * (fixed_size_list<float32>) of an output. */
int ctr_predictor_bind(struct ctr_predictor *p, const struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_predictor_schema(const struct ctr_predictor *p);
/* What it wants of a row, once it is bound: ctr_inputs_rules. */
int ctr_predictor_rules(const struct ctr_predictor *p, struct ctr_rule **rules, int *n, struct ctr_err *err) CTR_MUST;
/* As ctr_session_unknown, summed over threads. */
const char *ctr_predictor_unknown(const struct ctr_predictor *p, int i, int64_t *keys, int64_t *unknown);
int ctr_predictor_run(struct ctr_predictor *p, const struct ctr_batch *in, const struct ctr_batch **out,
                      struct ctr_err *err) CTR_MUST;
void ctr_predictor_free(struct ctr_predictor *p);
/* Check whether the model file of a bound predictor changed. 1: it holds another model, and *next predicts the same
 * stream with it; 0: no change; < 0: it changed, but is not usable. After < 0, p remains usable and further calls
 * return 0 until the file changes again; a missing file counts as unchanged. */
int ctr_predictor_reload(struct ctr_predictor *p, struct ctr_predictor **next, struct ctr_err *err) CTR_MUST;
int64_t ctr_predictor_time_ms(const struct ctr_predictor *p); /* modification time of its file, since 1970 */

/* The output schema of progressive and predict: passed columns, then score, or `n` columns score.NAME (without the
 * role). from[i]: column of s, or -1 - the index of the score. */
int ctr_scored_schema(const struct ctr_schema *s, const char *const *name, int n, struct ctr_schema *out, int **from,
                      struct ctr_err *err) CTR_MUST;
/* Append a column `uncertainty` (float64, role uncertainty), whose `from` refers to the value after one score. */
int ctr_scored_uncertainty(struct ctr_schema *out, int *from, struct ctr_err *err) CTR_MUST;

#include "common/model/row_transform.h"

#endif
