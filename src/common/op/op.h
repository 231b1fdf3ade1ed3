/* SPDX-License-Identifier: Apache-2.0
 *
 * op: the operators of the plan language: one table, each row an operator. The plan finds an operator by name
 * (plan_parse.c), binds it to the types and literals of a call (plan_graph.c) and runs it on columns (plan_run.c).
 * body.h defines the rules for an operator's body; op.c has the loops over rows, nulls and dictionary entries, so
 * that NVRTC can compile the same body.
 */
#ifndef CTR_OP_H
#define CTR_OP_H

#include "common/stream/batch.h"

/* The type of an expression. To the checker integers of every width are one type (widened to float64 where a float is
 * needed), and so are floats; columns keep their width. */
struct ctr_vtype {
    enum ctr_type type; /* scalar types, CTR_LIST or CTR_FIXED */
    enum ctr_type item; /* for lists */
    int32_t width;      /* CTR_FIXED */
    bool key; /* CTR_U64 (or a list of it) that already is a 64-bit hash, such as the result of cross: not converted to
                 text */
    bool duration; /* CTR_I64 in ms: 14d, time - time */
    bool aligned;  /* for ctr_op_keys: a list whose items correspond to those of other lists, so that a null item has a
                      key */
};

/* A literal of the language. */
enum ctr_value_kind {
    CTR_V_NULL,
    CTR_V_BOOL,
    CTR_V_INT,
    CTR_V_FLOAT,
    CTR_V_STR,
    CTR_V_TIME,
    CTR_V_DURATION,
    CTR_V_LIST,
    CTR_V_UINT, /* an integer of 2^63 or more; the numbers of the kinds above are part of signals' identities */
};
struct ctr_value {
    enum ctr_value_kind kind;
    int64_t i; /* BOOL, INT, UINT (its 64 bits), TIME (ms), DURATION (ms) */
    double f;
    struct ctr_str s; /* borrowed from the plan */
    struct ctr_value *list;
    int n;
};

struct ctr_vtype ctr_value_type(const struct ctr_value *v);  /* for null: CTR_BOOL */
struct ctr_field ctr_vtype_field(const struct ctr_vtype *t); /* a field of that type, without name */
/* "list<utf8>", "key", "duration": for messages. Returns out. */
const char *ctr_vtype_name(const struct ctr_vtype *t, char *out, size_t size);

struct ctr_op;

/* One call of an operator: the front end fills it up to `bind`, ctr_op_bind completes it. Arguments are in order; named
 * arguments (min=10) have their name and must be literals. A literal argument has `literal` set and no column. */
struct ctr_op_arg {
    const char *name;                /* NULL: positional */
    const struct ctr_value *literal; /* NULL: a column of type `type` */
    struct ctr_vtype type;           /* also of a literal (null: CTR_BOOL, and it fits any type) */
};
struct ctr_op_call {
    const struct ctr_op *op;
    struct ctr_op_arg *arg;
    int nargs;
    struct ctr_vtype result; /* set by bind */
    void *state;             /* parameters and fitted tables, owned by the call */
    int64_t limit_bytes;     /* limit of the texts and items of a result, above which it is CTR_ELARGE; 0: none */
    uint64_t hash_seed;      /* for hashing texts inside the operator; set before bind */
    bool confined;           /* it may read no files outside dir */
    const char *dir;         /* base folder of files that it reads (lookup); NULL: the current one */
};

/* The table, in the order of --list-ops. Infix and unary operators of the language are rows, too, named "or and not ==
 * != < <= > >= + - * / // % neg". */
const struct ctr_op *ctr_op_at(int i); /* NULL past the end */
const struct ctr_op *ctr_op_find(const char *name, size_t n);
/* The same in a given version of the language, so that plans in old models keep their meaning. In version 1, / rounded
 * a quotient of integers down. */
enum { CTR_PLAN_TRUE_QUOTIENT = 2, CTR_PLAN_LANGUAGE = CTR_PLAN_TRUE_QUOTIENT };
const struct ctr_op *ctr_op_find_in(int language, const char *name, size_t n);
const char *ctr_op_name(const struct ctr_op *op);
const char *ctr_op_identity(const struct ctr_op *op);  /* the name, or another one if its meaning has changed */
const char *ctr_op_signature(const struct ctr_op *op); /* "substr(text, start: int, length: int) -> text" */
const char *ctr_op_help(const struct ctr_op *op);      /* one line */
bool ctr_op_fitted(const struct ctr_op *op);
bool ctr_op_takes_literal_list(const struct ctr_op *op); /* an argument must be written out, as in x in [1, 2] */
/* Does each result value depend only on the arguments' values, and is it null when one of them is? */
bool ctr_op_shares(const struct ctr_op_call *call);
/* Does the bound call apply to each item of the list in its first argument, so that the result has the list's
 * length? */
bool ctr_op_lifted(const struct ctr_op_call *call);

/* Check argument types and literals, choose the kernel, set result. The error says which types fit; the front end adds
 * line and column of the plan. */
int ctr_op_bind(struct ctr_op_call *call, struct ctr_err *err) CTR_MUST;
void ctr_op_unbind(struct ctr_op_call *call); /* frees state */

/* Run on `rows` rows: col[i] is the column of argument i (NULL for a literal). `out` is a cleared buffer made for
 * call->result. Thread-safe for different outs. When every column argument shares one dictionary and the operator is
 * pure per value, ctr_op_run computes once per entry and `out` becomes a gather. */
int ctr_op_run(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows, struct ctr_colbuf *out,
               struct ctr_err *err) CTR_MUST;

int ctr_op_too_large(int64_t bytes, int64_t limit, struct ctr_err *err); /* CTR_ELARGE */

/* Features: convert a bound expression's column to keys (uint64, list<uint64>): key = ctr_feature_key(seed, canonical
 * text), for a `key` value ctr_mix64(value ^ seed). Null gives the key of "(missing)"; a null item gives no key, or
 * that key if the list is aligned with others. `memo`: a cache between calls with one seed, initially empty; or
 * NULL. */
int ctr_op_keys(const struct ctr_vtype *type, const struct ctr_col *col, int64_t rows, uint64_t table_seed,
                struct ctr_buf *memo, struct ctr_colbuf *out, struct ctr_err *err) CTR_MUST;

/* The same keys as ctr_op_run followed by ctr_op_keys, skipping the intermediate values if the operator has a shortcut:
 * vocab tests the keys of its argument instead of writing texts. Thread-safe for different outs and memos. */
int ctr_op_run_keys(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows, uint64_t table_seed,
                    struct ctr_buf *memo, struct ctr_colbuf *out, struct ctr_err *err) CTR_MUST;

/* Fitted operators (vocab, quantiles, standardize, …). Fitting: after bind, call ctr_op_fit_update for each batch of
 * the argument column, then ctr_op_fit_finish. A fitted state is saved as one section of a bundle, as a schema and rows
 * (vocab: key uint64, name utf8, count uint64; quantiles: threshold float64). ctr_op_fit_memory returns its size in
 * bytes. A call that is neither fitted nor loaded does not run. */
int ctr_op_fit_update(struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows,
                      struct ctr_err *err) CTR_MUST;
int ctr_op_fit_finish(struct ctr_op_call *call, struct ctr_err *err) CTR_MUST;
int64_t ctr_op_fit_memory(const struct ctr_op_call *call);
/* Bytes that a bound call reads besides its batch: fitted state or the file of a look-up; else 0. */
int64_t ctr_op_memory(const struct ctr_op_call *call);
/* For a vocab that ran: the number of values in `out`, and how many of them are "(other)". `seed`: out holds keys of
 * that seed, from ctr_op_run_keys; NULL: values. */
void ctr_op_fit_count(const struct ctr_op_call *call, const struct ctr_colbuf *out, const uint64_t *seed, int64_t *n,
                      int64_t *unknown);
int ctr_op_fit_schema(const struct ctr_op_call *call, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_op_fit_save(const struct ctr_op_call *call, struct ctr_batchbuf *rows, struct ctr_err *err) CTR_MUST;
int ctr_op_fit_load(struct ctr_op_call *call, const struct ctr_batch *rows,
                    struct ctr_err *err) CTR_MUST; /* repeated */

/* ---- for kernels (common/op): what of a bound call a device needs, and its results as columns ---- */

enum ctr_loop_kind {
    CTR_LOOP_OF_FIXED, /* a result of fixed size */
    CTR_LOOP_OF_TEXT,  /* a text */
    CTR_LOOP_OF_TEXTS, /* a list of texts */
    CTR_LOOP_OF_KEYS,  /* a list of values of eight bytes */
};
struct opv_str;
struct ctr_op_device {
    const char *loop, *file; /* its name in the device source, and the file (loop_*.h) that defines it */
    enum ctr_loop_kind kind;
    int nargs;
    struct ctr_op_device_arg {
        int lane; /* enum opd_lane of oplayer.h */
        bool list;
    } arg[8];
    bool nulls;             /* the loop handles nulls */
    bool lift;              /* it runs over the items of the list in argument 0 */
    struct ctr_vtype inner; /* result type of the loop: of an item, when lifted */
    void *param;
    size_t param_bytes;
    const void *table; /* stays on the device between calls; NULL: none */
    size_t table_bytes;
    uint64_t table_id; /* its alone, also when it is freed and another takes its place */
    size_t table_at;   /* its address belongs to this byte of *param */
    struct opv_str *(*param_texts)(void *param, int k); /* the k-th text that a copy of *param points to, or NULL */
};
/* Returns NULL and fills *d, or the reason why a device cannot run the call: text that follows "…: it ". */
const char *ctr_op_device(const struct ctr_op_call *call, struct ctr_op_device *d);
/* What *d lacks until the call runs: a lookup reads its file, once. */
int ctr_op_device_load(const struct ctr_op_call *call, struct ctr_op_device *d, struct ctr_err *err) CTR_MUST;
/* The loops of the table that have device code, each once, without arguments: at most `cap`. Returns their number.
 */
int ctr_op_device_table(struct ctr_op_device *d, int cap);
/* The value of literal argument k in its lane as the device reads it (at most 16 bytes) and whether it is present.
 * `text` (64 bytes) holds the text of a number. */
void ctr_op_device_literal(const struct ctr_op_call *call, int k, void *value, uint8_t *ok, char *text);
/* Append a lane of fixed size (1 byte for bools, else 8) with a presence byte per row. */
int ctr_op_device_fixed(struct ctr_colbuf *out, const void *lane, const uint8_t *ok, int64_t rows,
                        struct ctr_err *err) CTR_MUST;
/* Fill an empty column with variable-size results: row i has the bytes [at[i], at[i + 1]) and, for lists, the items
 * [item[i], item[i + 1]), whose texts end at end[…]. CTR_ELARGE above limit_bytes (0: no limit). bytes NULL: of lists
 * the shape alone, without items. */
struct ctr_op_device_rows {
    enum ctr_loop_kind kind;
    int64_t rows, limit_bytes;
    const uint8_t *ok, *bytes;
    const int64_t *at, *item;
    const int32_t *end;
};
int ctr_op_device_rows(struct ctr_colbuf *out, const struct ctr_op_device_rows *r, struct ctr_err *err) CTR_MUST;
/* Whether a column may have so many bytes or, of lists, items: CTR_ELARGE as ctr_op_device_rows. */
int ctr_op_device_fits(enum ctr_loop_kind kind, int64_t bytes, int64_t items, int64_t limit_bytes,
                       struct ctr_err *err) CTR_MUST;
/* For a lifted call: set offsets and nulls of the list whose items are in out->item, or nowhere. */
int ctr_op_device_shape(struct ctr_colbuf *out, const struct ctr_col *list, int64_t rows, struct ctr_err *err) CTR_MUST;
/* The keys of a feature as a device call. Its parameters for `seed` are written to *param, which has room for 32 bytes.
 */
const char *ctr_op_device_keys(const struct ctr_vtype *type, uint64_t seed, void *param, struct ctr_op_device *d);
/* The same for ctr_op_run_keys of a fitted vocab: keys of its argument that it does not contain become that of
 * "(other)". *param has room for CTR_OP_DEVICE_PARAM words. */
enum { CTR_OP_DEVICE_PARAM = 12 };
const char *ctr_op_device_vocab_keys(const struct ctr_op_call *call, uint64_t seed, uint64_t *param,
                                     struct ctr_op_device *d);
/* Of either: its result is not keys, but their hashes (ctr_key_hash), `step` numbers apart. For lists it is lifted: a
 * null item has the hash of a null. */
void ctr_op_device_hashes(struct ctr_op_device *d, int64_t step);
/* Numbers as float32, `step` of them apart, a null is 0, and the range of every `every`-th. *param as above. */
void ctr_op_device_dense(int64_t step, int64_t every, uint64_t *param, struct ctr_op_device *d);

/* ---- Unicode: op_unicode.c ---- */

bool ctr_unicode_plain(const uint8_t *p, int64_t n); /* no character above U+02FF: it is in this form */
/* The text in Normalization Form C, which the caller frees. An error where the library is not there. */
int ctr_unicode_nfc(const uint8_t *p, int64_t n, uint8_t **out, int64_t *len, struct ctr_err *err) CTR_MUST;

#endif
