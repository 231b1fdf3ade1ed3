/* SPDX-License-Identifier: Apache-2.0
 *
 * model: learning and predicting over streams of features.
 *
 *     batches -> ctr_inputs -> rows of (key, table, x), label, weight -> a model's train_rows / predict_rows -> scores
 *
 * A model is one file that exports one const struct ctr_model and is one row of the table in models.c. What all models
 * share (columns to rows, passes, progressive predictions, checkpoints, resume, the frame of the model file) lives in
 * inputs.c, trainer.c, checkpoint.c, modelfile.c and predictor.c, and does not depend on the kind of model.
 */
#ifndef CTR_MODEL_H
#define CTR_MODEL_H

#include "common/stream/stream.h"

/* ---- rows: inputs.c ---- */

/* Rows as a learner sees them. Entries of row i are start[i] … start[i+1]-1, in the order of column names and then of
 * the list; no (table, key) twice in a row (the x of repeated ones were summed in the order of the row); an x that was
 * 0 is left out. */
struct ctr_rows {
    int64_t rows;
    int64_t first_row; /* of the stream, for messages */
    const int64_t *start;
    const uint64_t *hash;  /* ctr_sparse_hash of the key */
    const uint16_t *table; /* index into the list of table names; by column: number of the input, or, where each has one
                              entry, NULL */
    const double *x;       /* NULL: all 1 */
    const double *label;   /* NULL: none */
    const double *weight;  /* NULL: all 1 */
    const double *const *weights; /* of ctr_inputs_weigh, in its order; NULL: none */
    const int32_t *day;           /* since 1970, UTC; NULL: not asked for */
    bool one_a_table;             /* no table has more than one entry a row; by column: each input of keys has one */
    bool transposed;    /* one_a_table, x NULL, and entry k of row i lies at hash[k * rows + i]; table: of one row */
    const float *dense; /* by column: rows x ctr_inputs_dense; NULL: none */
    const uint32_t *number; /* what the model's `find` has made, one an entry; NULL: it was not asked */
};

/* Columns of a schema bound as features: role feature (keys: uint64, lists of it, weighted keys) and dense (a weighted
 * coordinate; of vectors, one a position; null: none). A null key is the key of "(missing)". */
struct ctr_inputs;
enum { CTR_MAX_TABLES = 65535 };
#define CTR_BIAS_TABLE "(bias)"
uint64_t ctr_dense_key(uint64_t table_seed, int64_t position); /* position -1: a plain number */
uint64_t ctr_bias_key(void);

/* label, weight: columns, or -1. `change`: what to do to the rows, or NULL. Names of tables are found in, or appended
 * to, `tables`. */
struct ctr_row_transform;
int ctr_inputs_new(struct ctr_inputs **in, const struct ctr_schema *s, int label, int weight,
                   const struct ctr_row_transform *change, struct ctr_strs *tables, struct ctr_err *err) CTR_MUST;
void ctr_inputs_free(struct ctr_inputs *in);
/* From now on rows have the weights of this column too, beside their own: before the first batch. */
int ctr_inputs_weigh(struct ctr_inputs *in, int column, struct ctr_err *err) CTR_MUST;
/* From now on each column is an input of its own, numbered in the order of names: entries carry its number in place of
 * a table's and are not joined; numbers give no entries but stand in `dense`, 0 where they are null. A list of numbers
 * must have a fixed size. */
int ctr_inputs_by_column(struct ctr_inputs *in, struct ctr_err *err) CTR_MUST;
/* From now on rows are transposed where every row has one entry a table with x = 1: a matter of the schema. */
void ctr_inputs_transpose(struct ctr_inputs *in);
struct ctr_input_info {
    const char *name; /* of the column */
    int table;        /* into the list of table names; -1: numbers */
    int rows_table;   /* the same of its entries in ctr_rows, numbers too, unless rows come by column */
    bool list;        /* any number of keys a row; else one */
    bool image;       /* of the role image */
    int dense;        /* numbers a row; 0: keys */
    int dense_at;     /* their place in a row of `dense` */
    /* ctr.history_of, ctr.history, ctr.side of the column, or NULL */
    const char *history_of, *group, *side;
};
/* From now on rows come with the day of this column of times. */
int ctr_inputs_days(struct ctr_inputs *in, int column, struct ctr_err *err) CTR_MUST;
int ctr_inputs_count(const struct ctr_inputs *in);
int ctr_inputs_dense(const struct ctr_inputs *in); /* numbers a row, all columns together */
struct ctr_input_info ctr_inputs_info(const struct ctr_inputs *in, int i);
/* Take a batch (borrowed until the next one): all its labels and weights are checked. */
int ctr_inputs_batch(struct ctr_inputs *in, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
/* How many of rows [from, from + n) have at most `entries` together; at least one. What is made of rows takes some
 * thirty bytes an entry, so that rows with long lists are taken fewer at a time. */
enum { CTR_TILE_ENTRIES = 1 << 18, CTR_ENTRY_BYTES = 32 };
int64_t ctr_inputs_fit(const struct ctr_inputs *in, int64_t from, int64_t n, int64_t entries);
/* Memory that rows lie in. Zero-initialise to start. */
struct ctr_rowbuf {
    struct ctr_buf start, hash, table, x, dense, label, weight, day, number, weights, weight_at;
};
void ctr_rowbuf_free(struct ctr_rowbuf *b);
/* Its rows [from, from + n). *rows lies in `buf` and no longer needs the batch; buf NULL: it is borrowed until the next
 * call or batch. Lists of one group (ctr.history) that differ in length are an error. */
int ctr_inputs_rows(struct ctr_inputs *in, struct ctr_rowbuf *buf, int64_t from, int64_t n, struct ctr_rows *rows,
                    struct ctr_err *err) CTR_MUST;
/* Does a column take part in learning (feature, dense, image), or does it pass through? */
bool ctr_field_is_input(const struct ctr_field *f);

/* ---- models: models.c, one file each ---- */

struct ctr_comm;

/* What a thread finds the keys of. The parts of rows are found by several threads at once, each part in the order of
 * rows. In turn (always with a bound of memory): rows wait for those before to be through, and two parts are alone, one
 * before all others and one behind them. */
enum ctr_finds { CTR_FIND_NOTHING, CTR_FIND_UNORDERED, CTR_FIND_ORDERED };
enum { CTR_FIND_PARTS = 5, CTR_FIND_FIRST = CTR_FIND_PARTS, CTR_FIND_LAST, CTR_FIND_MOST_PARTS, CTR_FIND_THREADS = 3 };
/* A thread that does one piece of learning beside the caller: submit gives it fn(arg), settle returns when that is
 * done; the caller does it itself where the thread has not begun. One piece at a time. */
struct ctr_worker {
    void (*submit)(void *ctx, void (*fn)(void *arg), void *arg);
    void (*settle)(void *ctx);
    void *ctx;
};
/* Rows that train_rows gets next, right behind those that it has now; NULL: not known yet. */
struct ctr_ahead {
    const struct ctr_rows *(*peek)(void *ctx);
    void *ctx;
};
struct ctr_find {
    int part, thread;
    int64_t memory_bytes; /* 0: no bound */
    uint32_t *number;     /* one an entry, in whatever order train_rows takes them: to be set, of this part's */
};

/* Sizes of layers. */
enum { CTR_MAX_LAYERS = 8, CTR_MAX_UNITS = 1 << 16 };
struct ctr_sizes {
    int n;
    int32_t size[CTR_MAX_LAYERS];
};
bool ctr_sizes_parse(struct ctr_sizes *s, const char *text, size_t n); /* "200,80"; "0": none */

/* Options of models: the values. Which of them a model has, its table says (struct ctr_param). */
struct ctr_params {
    double alpha, beta, l1, l2;
    double power;              /* of the counter in the learning rate */
    const char *precision;     /* f64, f32, q2.13 */
    const char *optimizer;     /* a name of optimizer.h */
    const char *learning_rate; /* per-coordinate, counts, global */
    bool no_bias;
    int64_t threshold; /* ogd-count: occurrences before a key is learned */
    int64_t minibatch; /* rows whose gradients are those of the weights before the first of them; 1: exact */
    /* How rows are changed before a learner or a scorer sees them: row_transform.h. */
    int64_t hash_bits;     /* 0: keys as they are */
    double dropout;        /* share of a row's features that is not learned from */
    const char *normalize; /* none, l1, l2, max */
    /* Which new keys are taken up: inclusion.h. All when both are 0. */
    double poisson;
    int64_t bloom, bloom_bytes;   /* times a key is refused; memory of the filters */
    int64_t expire, expire_floor; /* days after which a key is dropped, 0: never; keys that stay: expiry.h */
    int64_t seed;
    /* Deep models. There l2 is lambda of the embeddings' regularisation, dropout that of hidden units. */
    int64_t embedding;                 /* floats of a key's value */
    struct ctr_sizes hidden;           /* units of the hidden layers, from the inputs up */
    const char *activation;            /* prelu, relu, dice */
    const char *pooling;               /* of the values of a field's keys: sum, mean, max */
    const char *attention;             /* plain, softmax */
    struct ctr_sizes attention_hidden; /* of attention units, as hidden */
    bool batch_norm;
    int64_t cross_layers, cross_rank;        /* dcnv2; rank 0: full matrices */
    const char *structure;                   /* dcnv2: parallel, stacked */
    struct ctr_sizes bottom;                 /* dlrm: units of the layers over the numbers */
    int64_t vector;                          /* numbers of a tower's vector */
    const char *images_pool;                 /* dicm: how lists of images are pooled */
    int64_t images_last;                     /* of a list, that concat takes */
    struct ctr_sizes images_tower;           /* units of the tower's hidden layers */
    const char *missing_image;               /* fail, zero; NULL: a model that takes no images */
    const char *base;                        /* lr, mlp, din */
    bool images_as_ids;                      /* a vector a key in place of the tower */
    const char *images;                      /* the file of their vectors. Stands in no file */
    const char *user_features, *ad_features; /* names of inputs, or NULL: they say it. Stand in no file */
    double rate;                             /* Adam's */
    double decay;                            /* the rate is multiplied by it … */
    int64_t decay_every;                     /* … after so many rows */
    const struct ctr_variants *variants;     /* NULL: one model. Else row by row. Stands in no file of a model */
    int threads;                             /* changes no result and stands in no file; nor do these: */
    bool uncertainty;                        /* train_rows tells it, too */
    struct ctr_comm *comm;                   /* comm.h: the ranks that learn together, NULL: none; deep models */
    const char *device;                      /* NULL, cpu, gpu, auto: deep models */
    int64_t device_memory;                   /* bytes, 0: what it has */
    int64_t memory_bytes;                    /* 0: no bound */
    int64_t prefetch;                        /* minibatches looked ahead. Stands in no file */
    const char *spill;                       /* folder for rows beyond that, or NULL. Stands in no file */
    const char *l2_counts;                   /* stream of n_j, or NULL: the running counts. Stands in no file, either */
};
enum { CTR_MAX_MINIBATCH = 65536, CTR_MAX_THRESHOLD = 1 << 20, CTR_MAX_BLOOM = 15 };

/* An option of a model. The model's table of them is all there is to say of its options: parsing, defaults, ranges,
 * help, provenance and the text in model files come from it. Its order is that of a model file's text. */
enum ctr_param_kind {
    CTR_PARAM_REAL,  /* double; finite, least <= value < most */
    CTR_PARAM_INT,   /* int64_t; least <= value <= most */
    CTR_PARAM_BYTES, /* the same, given as a size such as 8M */
    CTR_PARAM_WORD,  /* const char *, one of `words` */
    CTR_PARAM_FLAG,  /* bool; `words`: false, true as a file has them */
    CTR_PARAM_SIZES, /* struct ctr_sizes */
    CTR_PARAM_FILE,  /* const char *, the name of a file that is read */
    CTR_PARAM_TEXT,  /* const char *; UNSAVED */
    CTR_PARAM_RULE,  /* `read` takes it apart into other rows' members */
    CTR_PARAM_FOLDER /* const char *, the name of a folder that is used */
};
enum {
    CTR_PARAM_UNSAVED = 1, /* stands in no model file */
    CTR_PARAM_UNTYPED = 2, /* is no option by itself: a file alone has it */
    CTR_PARAM_LOCAL = 8,   /* changes no result: out of provenance */
    CTR_PARAM_ROWWISE = 4, /* not of a learner with `on_device` */
};
struct ctr_params;
struct ctr_param {
    const char *name; /* of the option; NULL ends the table */
    enum ctr_param_kind kind;
    size_t at;         /* of the member of ctr_params */
    const char *usual; /* the default, as it is typed; NULL: 0, none */
    double least, most;
    const char *range; /* in words */
    const char *unit;  /* the argument in the help; NULL: a flag, or the words */
    const char *group; /* heading in the help */
    const char *help;
    unsigned flags;
    const char
        *unsaved; /* NULL: always in the file; else the value that is left out, so what a file without it means */
    const char *saved_as; /* the name in a file, if that is another one */
    const char *const *words;
    const char *needs;   /* as ctr_opt.needs */
    const char *usually; /* the default with `on_device`, if that is another one */
    int (*read)(void *params, const char *text, struct ctr_err *err); /* CTR_PARAM_RULE */
};
#define CTR_PARAM_AT(member) offsetof(struct ctr_params, member)
/* Headings of groups; the help shows them in this order. */
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
    bool uncertainty;         /* asked of the scorer */
};

/* ---- several models in one pass: variants/variants.h reads them ---- */

enum { CTR_MAX_VARIANTS = 1024, CTR_MAX_VARIANT_NAME = 64 };

struct ctr_variant {
    char *name; /* letters, digits, '_', '-', '.'; begins with a letter or a digit */
    int line;
    struct ctr_params params;
    struct ctr_strs in, out; /* patterns */
    int weight;              /* of the rows: number in `weights` below; -1: that of the command */
};

struct ctr_variants {
    const char *path; /* borrowed, for messages */
    struct ctr_variant *v;
    int n;
    struct ctr_strs weights; /* columns, each once */
    struct ctr_buf text;     /* all that changes what is learned, line by line: for checkpoints */
};

/* A serving file: for prediction alone, small, mapped. */
struct ctr_slim_opts {
    bool weights_only;             /* without learning rates, and keys of weight 0 */
    const char *program, *options; /* for the provenance */
};
struct ctr_slim_told {
    int64_t keys, pruned, cut; /* written; of these, with weight 0; with weights that are out of range */
    double rate_error;         /* the largest relative one */
};
struct ctr_model_info;

/* Keys of rows that were scored, by the number of an entry's table (by column: of its input): all, and those that the
 * model's file does not hold. */
struct ctr_key_counts {
    int64_t *keys, *unknown;
};
static inline void ctr_count_key(struct ctr_key_counts *c, int table, bool known)
{
    c->keys[table]++;
    c->unknown[table] += !known;
}

/* A named output of a model beside its scores: a vector a row, from the inputs of one side. */
struct ctr_output {
    const char *name;
    int32_t width;  /* floats */
    float bias;     /* the score is the sigmoid of the inner product of the model's two vectors, plus this */
    uint64_t model; /* a hash of all parameters: vectors of other models fit no product with these */
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

struct ctr_model;
/* A learner of the models of params.variants in one: what tells them apart. */
enum { CTR_SAVE_TOGETHER = 4 };
typedef int ctr_save_rows(void *const *learner, int n, const struct ctr_strs *tables, struct ctr_writer *const *w,
                          struct ctr_err *err);
struct ctr_variant_ops {
    /* What model i starts from: the section of `model` that the reader stands in. */
    int (*load)(void *learner, int i, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err);
    /* A learner of `model` as if it had learned alone; freed as such. */
    int (*standalone)(const void *learner, int i, const struct ctr_strs *tables, void **one, struct ctr_err *err);
    /* NULL, or makes what all calls of `standalone` share, by the threads of a pool (NULL: one); nothing is learned or
     * found meanwhile. */
    int (*prepare)(void *learner, struct ctr_pool *pool, struct ctr_err *err);
    /* NULL, or models, at most CTR_SAVE_TOGETHER of them, that are saved faster together, listed when i is the first of
     * them: how many; 0: i is in the list of another one. */
    int (*together)(const void *learner, int i, int *models);
    /* Saves the learners that `standalone` made, as model->save does. */
    ctr_save_rows *save;
    const struct ctr_model *model;
};

struct ctr_model {
    const char *name, *summary;
    const struct ctr_param *options;
    bool on_device; /* it learns on a GPU in the place of another model: takes no CTR_PARAM_ROWWISE */
    const struct ctr_variant_ops *variant_ops; /* NULL: one model. Else score[i * params.variants->n + m] is model m's,
                                                  and files are checkpoints */
    const void *deep;                          /* deep models: struct ctr_deep_spec */
    /* What learns it on a GPU: itself, another one whose files are the same, or NULL: nothing. */
    const struct ctr_model *device;
    /* What learns it over ranks, where that is another one whose files are the same; deep models do it themselves. */
    const struct ctr_model *ranks;
    /* NULL, or writes the model at `path` as a serving file; and what predicts from it. */
    int (*write_slim)(const char *path, const struct ctr_model_info *info, const struct ctr_slim_opts *o,
                      struct ctr_out *out, struct ctr_slim_told *told, struct ctr_err *err);
    const struct ctr_model *slim;

    /* Takes rows by column, see ctr_inputs_by_column; `rows` at a time, 0: as suits row by row. */
    bool by_column;
    int64_t rows;

    /* A learner. Tables are numbered by the list given to `bind`, which may grow from call to call; `in` are the inputs
     * of the stream. */
    int (*learner_new)(void **learner, const struct ctr_model *model, const struct ctr_params *p, struct ctr_err *err);
    void (*learner_free)(void *learner);
    int (*bind)(void *learner, const struct ctr_inputs *in, const struct ctr_strs *tables, struct ctr_err *err);
    /* NULL, or sets the bias of all its models that have one; after bind, where no row is pending. */
    void (*set_bias)(void *learner, double log_odds);
    /* Row by row, exactly (or by params.minibatch): score[i] is predicted before the update by row i, and i counts from
     * 0. With params.uncertainty that of row i stands in score[rows->rows + i]: of a model that has predict_uncertain.
     * memory_bytes 0: no bound. */
    int (*train_rows)(void *learner, const struct ctr_rows *rows, double *score, int64_t memory_bytes,
                      struct ctr_err *err);
    /* NULL, or what can be done for rows, and is for all that are learned, before train_rows gets them: their keys are
     * found, part by part, of each part in the order of rows; by several threads, of which one at a time has a part.
     * How, in a run that saves on its way, and in one that does not? */
    int (*find)(void *learner, const struct ctr_rows *rows, const struct ctr_find *f, struct ctr_err *err);
    enum ctr_finds (*finds)(const void *learner, bool saves);
    /* NULL, or takes a second thread for a part of its work; NULL takes it away again. */
    void (*set_worker)(void *learner, const struct ctr_worker *worker);
    /* NULL, or is told how to look ahead; NULL takes it away again. */
    void (*set_ahead)(void *learner, const struct ctr_ahead *ahead);
    /* NULL, or scores of rows that are not learned from; between passes. At most params.minibatch rows. */
    int (*evaluate)(void *learner, const struct ctr_rows *rows, double *score, struct ctr_err *err);
    int (*end_pass)(void *learner, struct ctr_err *err); /* the rows of a pass are all there */
    bool (*transposed)(const void *learner);             /* may rows be? NULL: no */
    /* Rows that were scored and not yet learned from, or NULL: always 0. They are in no checkpoint: a resumed run gives
     * them to train_rows again, right after load. */
    int64_t (*pending)(const void *learner);
    int64_t (*keys)(const void *learner);
    int64_t (*memory)(const void *learner); /* bytes */
    /* NULL, or lines of "name value" for the summary: what was saved, and how. */
    int (*add_summary)(const void *learner, struct ctr_buf *text, struct ctr_err *err);
    /* NULL, or what a checkpoint needs beside the main section, as 64-bit words (none: nothing), and back. */
    int (*state)(const void *learner, struct ctr_buf *words, struct ctr_err *err);
    int (*restore)(void *learner, const uint64_t *word, size_t words, struct ctr_err *err);
    /* The main section: columns and metadata of its own, then its rows; other sections behind it, or NULL: their names,
     * each after a ',', and themselves. And back: the reader stands before the first batch of the main section. */
    int (*save_schema)(const void *learner, struct ctr_schema *s, struct ctr_err *err);
    int (*save)(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err);
    int (*section_names)(const void *learner, const struct ctr_strs *tables, struct ctr_buf *names,
                         struct ctr_err *err);
    int (*save_sections)(void *learner, const struct ctr_strs *tables, struct ctr_out *out, struct ctr_err *err);
    int (*load)(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err);
    /* NULL, or load that tells, in lines for people, what was taken, skipped and missing. `partial`: into a learner
     * that is bound and has learned nothing; what has the same name and shape is taken, the rest stays as it is. */
    int (*warm)(void *learner, struct ctr_strs *tables, struct ctr_reader *r, bool partial, struct ctr_buf *told,
                struct ctr_err *err);

    /* A scorer: what prediction needs and no more, shared by threads: nothing in it changes. `warn` says what the user
     * should know about the file. */
    int (*scorer_open)(void **scorer, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                       char *warn, size_t warn_size, struct ctr_err *err);
    void (*scorer_free)(void *scorer);
    /* What one thread needs beside it for rows of one stream. The list of tables begins with the scorer's; `output`:
     * what it computes in place of scores, or NULL. */
    int (*session_new)(void **session, const void *scorer, const struct ctr_inputs *in, const struct ctr_strs *tables,
                       const char *output, struct ctr_err *err);
    void (*session_free)(void *session);
    bool predicts_transposed;   /* rows may be */
    enum ctr_float_mode floats; /* in which it predicts */
    /* `counts`: the rows' keys are added to them; NULL: they are not counted. */
    int (*predict_rows)(void *session, const struct ctr_rows *rows, double *score, struct ctr_key_counts *counts,
                        struct ctr_err *err);
    /* The same with the uncertainty of each score, of a scorer that was asked for it, in place of the other; or NULL:
     * the model has none. */
    int (*predict_uncertain)(void *session, const struct ctr_rows *rows, double *score, double *uncertainty,
                             struct ctr_key_counts *counts, struct ctr_err *err);
    /* NULL, or of a linear model: the weights of row i's entries; returns the bias. */
    double (*row_weights)(const void *session, const struct ctr_rows *rows, int64_t i, double *weight);
    /* NULL, or what it computes beside scores: output i, false past the last one; and rows of a session of it, `width`
     * floats each. */
    bool (*output)(const void *scorer, int i, struct ctr_output *out);
    int (*output_rows)(void *session, const struct ctr_rows *rows, float *value, struct ctr_key_counts *counts,
                       struct ctr_err *err);
    /* NULL, or does it weigh the items of histories? Then scores of rows, and `each` gets every unit that weighs. */
    bool (*attends)(const void *scorer);
    int (*attended_rows)(void *session, const struct ctr_rows *rows, double *score, ctr_attended_each *each, void *ctx,
                         struct ctr_err *err);
};
/* The model of that name, or NULL: models/models.c defines it, above every learner. */
const struct ctr_model *ctr_model_find(const char *name);

/* ---- model files: modelfile.c ---- */

#define CTR_META_MODEL_OPTIONS "ctr.model_options" /* "alpha=0.1 beta=1 …" */
#define CTR_META_MODEL_WEIGHTS "ctr.model_weights" /* lr: digest of the weights that are not 0 */
#define CTR_META_MODEL_STEPS   "ctr.model_steps"   /* lr: events learned, where the learner goes on from it */
#define CTR_META_MODEL_CLIPS   "ctr.model_clips"   /* lr: values that q2.13 cut off */
#define CTR_META_MODEL_CLOCK   "ctr.model_clock"   /* lr: of fobos with one rate, the sum of what rows shrink by */
#define CTR_META_MODEL_SLIM    "ctr.model_slim"    /* a serving file: what stands before its rows */
#define CTR_META_VARIANTS      "ctr.variants"      /* a checkpoint of several models: the text of them */
#define CTR_META_CHECKPOINT    "ctr.checkpoint"    /* a model saved on the way: where it was */

/* Params of the model's defaults; and as text, "alpha=0.1 beta=1 l1=0 l2=0 precision=f64 bias=yes", and back. */
struct ctr_params ctr_params_usual(const struct ctr_model *m);
int ctr_params_text(const struct ctr_model *m, const struct ctr_params *p, struct ctr_buf *out,
                    struct ctr_err *err) CTR_MUST;
int ctr_params_parse(const struct ctr_model *m, struct ctr_params *p, const char *text, struct ctr_err *err) CTR_MUST;
/* One of them, under its name in files. */
int ctr_params_set(const struct ctr_model *m, struct ctr_params *p, struct ctr_str name, struct ctr_str value,
                   struct ctr_err *err) CTR_MUST;
int ctr_params_check(const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err) CTR_MUST;
void ctr_params_reset(const struct ctr_model *m, const struct ctr_param *o, struct ctr_params *p); /* to its default */
bool ctr_model_takes(const struct ctr_model *m, const struct ctr_param *o);
const char *ctr_model_where(const struct ctr_model *m); /* " on a GPU" or "", behind its name */

/* Read the frame of the model at path; the reader stands before the first batch of the main section. */
int ctr_model_open(const char *path, struct ctr_model_info *info, struct ctr_reader **r, struct ctr_err *err) CTR_MUST;
void ctr_model_info_free(struct ctr_model_info *info);
int ctr_model_slim(const char *path, const struct ctr_slim_opts *o, struct ctr_out *out, struct ctr_slim_told *told,
                   struct ctr_err *err) CTR_MUST;
/* Make `images`, which may be NULL, the file of the images of a model that is opened. Of a model that has none it is
 * CTR_EUSAGE. */
int ctr_model_images(struct ctr_model_info *info, const char *path, const char *images, struct ctr_err *err) CTR_MUST;
/* Refuse a stream that another plan extracted. `path` is the model's. */
int ctr_model_same_plan(const struct ctr_model_info *info, const char *path, const struct ctr_schema *stream,
                        struct ctr_err *err) CTR_MUST;
/* Write a learner as a model. `stream`: the schema that it learned from (plan and provenance are copied). `checkpoint`:
 * NULL, or the text of CTR_META_CHECKPOINT. `program`, `options`: for the provenance. `fitted`: NULL, or a fitted plan
 * whose other sections are copied behind. */
struct ctr_save {
    const struct ctr_model *model;
    const struct ctr_params *params;
    void *learner;
    const struct ctr_strs *tables;
    const struct ctr_schema *stream;
    const char *checkpoint, *program, *options, *fitted;
};
/* Is `path` the fitted plan of this stream? And does the stream's plan have state that a model should take along? */
int ctr_model_check_fitted(const char *path, const struct ctr_schema *stream, struct ctr_err *err) CTR_MUST;
bool ctr_model_wants_fitted(const struct ctr_schema *stream);
int ctr_model_save(const struct ctr_save *s, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
/* n models, whose rows `save` writes, together (struct ctr_variant_ops); NULL: one model, as it does. */
int ctr_model_save_some(const struct ctr_save *s, int n, ctr_save_rows *save, struct ctr_out *const *out,
                        struct ctr_err *err) CTR_MUST;
/* The state of a checkpoint, from a reader that stands behind its main section. */
int ctr_model_restore(const struct ctr_model *model, void *learner, struct ctr_reader *r, struct ctr_err *err) CTR_MUST;

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
    int threads;        /* of a predictor */
    bool uncertainty;   /* beside each score, see ctr_model.predict_uncertain */
    const char *device; /* as in struct ctr_params */
    int64_t device_memory;
    const char *images; /* the file of images' vectors; NULL: none */
    const char *output; /* of a predictor: the vectors of this output in place of scores; NULL: scores */
};

/* A model for prediction: options, plan, tables and weights, read once, on a device once. It does not change any more,
 * so that any number of threads may use it. Each session holds it: it is freed when the last of its owners frees it. */
struct ctr_loaded;
int ctr_loaded_open(struct ctr_loaded **m, const char *path, const struct ctr_predict_opts *o,
                    struct ctr_err *err) CTR_MUST;
struct ctr_loaded *ctr_loaded_hold(struct ctr_loaded *m); /* one owner more; returns m */
void ctr_loaded_free(struct ctr_loaded *m);               /* one owner less; NULL: nothing */
const struct ctr_model_info *ctr_loaded_info(const struct ctr_loaded *m);
const char *ctr_loaded_path(const struct ctr_loaded *m);
const char *ctr_loaded_warning(const struct ctr_loaded *m); /* "" or what to say of the file */
/* The output of that name; an error lists those that there are. */
int ctr_loaded_output(const struct ctr_loaded *m, const char *name, struct ctr_output *out,
                      struct ctr_err *err) CTR_MUST;

/* What a thread predicts rows of one schema with: bound inputs, memory for rows and activations. One thread at a time;
 * scores are the same bits for any number of sessions, and however rows are cut into calls. `output`: as of struct
 * ctr_predict_opts; the stream needs the inputs of its side alone. The schema is borrowed. */
struct ctr_session;
int ctr_session_new(struct ctr_session **s, struct ctr_loaded *m, const struct ctr_schema *schema, const char *output,
                    struct ctr_err *err) CTR_MUST;
void ctr_session_free(struct ctr_session *s);
const char *ctr_session_warning(const struct ctr_session *s); /* "" or what to say of the stream */
/* Rows [from, from + n) of a batch: n scores, and n uncertainties where the model was opened for them (else NULL). */
int ctr_session_rows(struct ctr_session *s, const struct ctr_batch *b, int64_t from, int64_t n, double *score,
                     double *uncertainty, struct ctr_err *err) CTR_MUST;
/* The same of an output: n times its width floats. */
int ctr_session_vectors(struct ctr_session *s, const struct ctr_batch *b, int64_t from, int64_t n, float *value,
                        struct ctr_err *err) CTR_MUST;
/* Of the rows so far, the keys of table i and those of them that the model's file does not hold; NULL past the last
 * table. The name is the session's. */
const char *ctr_session_unknown(const struct ctr_session *s, int i, int64_t *keys, int64_t *unknown);

/* ---- predicting a stream with several threads: predictor.c ---- */

#define CTR_VECTOR_COLUMN "vector"
struct ctr_predictor;
int ctr_predictor_open(struct ctr_predictor **p, const char *path, const struct ctr_predict_opts *o,
                       struct ctr_err *err) CTR_MUST;
const char *ctr_predictor_warning(const struct ctr_predictor *p); /* after open, after bind: "" or what to say */
/* Bind to a stream: output is its columns that are no inputs, then `score` (float64, role score), or `vector`
 * (fixed_size_list<float32>) of an output. */
int ctr_predictor_bind(struct ctr_predictor *p, const struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_predictor_schema(const struct ctr_predictor *p);
/* As ctr_session_unknown, of all threads. */
const char *ctr_predictor_unknown(const struct ctr_predictor *p, int i, int64_t *keys, int64_t *unknown);
int ctr_predictor_run(struct ctr_predictor *p, const struct ctr_batch *in, const struct ctr_batch **out,
                      struct ctr_err *err) CTR_MUST;
void ctr_predictor_free(struct ctr_predictor *p);
/* Look at the file of a predictor that is bound. 1: it holds another model now, and *next predicts the same stream with
 * that one; 0: it does not; < 0: it does, and that cannot be used. In the last case p goes on, and is told 0 until the
 * file changes again; while the file is gone, it did not change. */
int ctr_predictor_reload(struct ctr_predictor *p, struct ctr_predictor **next, struct ctr_err *err) CTR_MUST;
int64_t ctr_predictor_time_ms(const struct ctr_predictor *p); /* when its file was written, since 1970 */

/* The output schema of progressive and predict: what passes through, then score, or `n` columns score.NAME (none has
 * the role). from[i]: column of s, or -1 - the number of the score. */
int ctr_scored_schema(const struct ctr_schema *s, const char *const *name, int n, struct ctr_schema *out, int **from,
                      struct ctr_err *err) CTR_MUST;
/* One column more, `uncertainty` (float64, its role), whose `from` is that of the number behind one score. */
int ctr_scored_uncertainty(struct ctr_schema *out, int *from, struct ctr_err *err) CTR_MUST;

/* ---- looking into models: topweights.c, explain.c ---- */

struct ctr_top_opts {
    int64_t n;         /* rows, 0: all */
    bool by_table;     /* n a table */
    const char *table; /* pattern: of the tables that match alone; NULL: of all */
    const char *names; /* stream of ctr-extract --names, or NULL: sections vocab.* of the model, if any */
};
/* Rows of (table, key, name, count, weight), strongest |weight| first (by table: tables in order of name), given to
 * `each` in batches, of which the last may be empty. Memory: 48 bytes a weight that is shown, and names. */
typedef int ctr_top_each(void *ctx, const struct ctr_batch *rows, struct ctr_err *err);
int ctr_model_top(const char *path, const struct ctr_top_opts *o, ctr_top_each *each, void *ctx,
                  struct ctr_err *err) CTR_MUST;
/* What changed from one model to another: rows of (table, key, name, old, new, change), strongest |change|
 * first; a key that a model lacks has weight 0 there. */
struct ctr_diff_counts {
    int64_t both, only_a, only_b; /* keys */
    int64_t differ;               /* weights */
    bool same_plan, same_options;
};
int ctr_model_diff(const char *from, const char *to, const struct ctr_top_opts *o, struct ctr_diff_counts *counts,
                   ctr_top_each *each, void *ctx, struct ctr_err *err) CTR_MUST;

/* What makes the prediction of a row. Of a linear model: its log odds are the sum of the contributions, weight times x,
 * of its features and the bias. Of a model with attention units: the weight of each item of its histories. */
struct ctr_explain;
struct ctr_explain_opts {
    int64_t n;          /* the strongest features of a row, or items of a history; 0: all */
    const char *names;  /* a stream of ctr-extract --names, for rows that are features; or NULL */
    const char *images; /* the file of images' vectors; or NULL */
};
int ctr_explain_open(struct ctr_explain **e, const char *path, const struct ctr_explain_opts *o,
                     struct ctr_err *err) CTR_MUST;
bool ctr_explain_attends(const struct ctr_explain *e); /* items, not features */
void ctr_explain_free(struct ctr_explain *e);
const char *ctr_explain_warning(const struct ctr_explain *e); /* after open: "" or what to say */
/* The rows: raw ones, to which the plan in the model is applied, which gives names; or features, by their plan id or
 * because the model has no plan, whose names are those of ctr_explain_open. */
int ctr_explain_bind(struct ctr_explain *e, const struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_explain_schema(const struct ctr_explain *e);
/* Appends a row a feature: row (from 1), score, table, key, name, x, weight, contribution; the n strongest of a row,
 * strongest first, then the sum of the others as table "(rest)". A name that is not known is null.
 * Or a row for each list of an item of a history: row, score, unit (from 1), list, of (what the list is the past of;
 * "(ids)" where items are weighed beside IDs of the ad; or null), candidate (the name of the row's key of `of`, or
 * null), place (from 1, in the list), key, name, weight; likewise, with the sum as list "(rest)". */
int ctr_explain_batch(struct ctr_explain *e, const struct ctr_batch *b, struct ctr_batchbuf *out,
                      struct ctr_err *err) CTR_MUST;

#include "common/model/row_transform.h"

#endif
