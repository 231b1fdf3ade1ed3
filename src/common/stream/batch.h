/* SPDX-License-Identifier: Apache-2.0
 *
 * batch: the data that flows between stages: a schema, and batches of rows stored by column in the layout of Apache
 * Arrow.
 *
 * A `struct ctr_col` is a borrowed view: it owns nothing and stays valid as long as its source documents (a reader:
 * until its next call; a builder: until it changes). A `struct ctr_colbuf` is a growing column that owns its buffers.
 * The reader converts every Arrow type to one of the types below; stages see no others.
 */
#ifndef CTR_BATCH_H
#define CTR_BATCH_H

#include "common/base/base.h"

/* ---- types ---- */

enum ctr_type {
    CTR_BOOL, /* data: bitmap, least significant bit first */
    CTR_I8,
    CTR_I16,
    CTR_I32,
    CTR_I64,
    CTR_U8,
    CTR_U16,
    CTR_U32,
    CTR_U64,
    CTR_F16,
    CTR_F32,
    CTR_F64,
    CTR_UTF8,  /* offsets[rows+1] into data; well-formed UTF-8 */
    CTR_TIME,  /* data: int64_t, ms since 1970 UTC; Arrow timestamp[ms, UTC] */
    CTR_LIST,  /* offsets[rows+1] into item; offsets[0] need not be 0 */
    CTR_FIXED, /* fixed_size_list: item holds rows * width values */
    CTR_WKEY,  /* weighted key, only as item of a list: data: uint64_t key; weight: float. Arrow struct<key, weight> */
    CTR_FOREIGN, /* an Arrow type that is not supported: only in schemas of ctr_reader_opts.foreign, never in a batch */
    CTR_NTYPES
};

/* One row per type: name as in --columns and messages ("int32", "timestamp"), bytes per value in data (0: bitmap or
 * offsets), and classes. */
struct ctr_type_info {
    const char *name;
    int width;
    bool integer, is_signed, floating;
};
extern const struct ctr_type_info ctr_types[CTR_NTYPES];
static inline bool ctr_type_number(enum ctr_type t)
{
    return ctr_types[t].integer || ctr_types[t].floating;
}
static inline bool ctr_type_list(enum ctr_type t)
{
    return t == CTR_LIST || t == CTR_FIXED;
}

/* Ordered key-value metadata, as in Arrow. Our keys: CTR_META_*. */
struct ctr_meta {
    char **kv; /* key, value, key, value, … (both owned) */
    int n;     /* pairs */
};
int ctr_meta_set(struct ctr_meta *m, const char *key, const char *value,
                 struct ctr_err *err) CTR_MUST;                      /* NULL: remove */
const char *ctr_meta_get(const struct ctr_meta *m, const char *key); /* or NULL */
int ctr_meta_copy(struct ctr_meta *to, const struct ctr_meta *from, struct ctr_err *err) CTR_MUST;
void ctr_meta_free(struct ctr_meta *m);

#define CTR_META_ROLE          "ctr.role"       /* field: a name of ctr_roles[] */
#define CTR_META_TABLE         "ctr.table"      /* field: name of the table of its keys */
#define CTR_META_HISTORY_OF    "ctr.history_of" /* field: this list is the history of that column */
#define CTR_META_HISTORY       "ctr.history"    /* field: name of a group of lists, aligned item by item */
#define CTR_META_ORDER         "ctr.order" /* field: "oldest" or "newest" (also without it): the first of a history */
#define CTR_META_SIDE          "ctr.side"  /* field: user or ad */
#define CTR_META_TOWER         "ctr.tower" /* field: these are vectors of that output (a tower) of a model */
#define CTR_META_TOWER_MODEL   "ctr.tower_model" /* field: a hash of the model's parameters */
#define CTR_META_TOWER_BIAS    "ctr.tower_bias"  /* field: constant to add to the product of the two vectors */
#define CTR_META_SECTION       "ctr.section"     /* schema: name of this section of a bundle */
#define CTR_META_SHAPE         "ctr.shape" /* schema of a section: "vector": the values of its one row; "none": no numbers */
#define CTR_META_SECTIONS      "ctr.sections" /* schema of the first section: all names, joined with ',' */
#define CTR_META_PG            "ctr.pg"       /* schema: provenance, one line per program, the latest last */
#define CTR_META_MODEL         "ctr.model"    /* schema of a model: its kind */
#define CTR_META_PLAN          "ctr.plan"     /* schema: text of the plan that made the features */
#define CTR_META_PLAN_ID       "ctr.plan_id"  /* schema: XXH3-128 (hex) of the canonical plan and its fitted state */
#define CTR_META_KEY_SEED      "ctr.key_seed" /* schema: fingerprint of the secret used for the keys: keyseed.c */
#define CTR_META_PLAN_LANGUAGE "ctr.plan_language" /* schema: version of the plan language; absent: the first */
#define CTR_META_NETWORK       "ctr.network" /* schema of a table of images: the network that computed the vectors */
/* schema: types of the columns read by the plan, a line "NAME TYPE" each; the mark follows where no key is made of it
 */
#define CTR_META_PLAN_INPUTS "ctr.plan_inputs"
#define CTR_INPUT_UNKEYED    " (no key)"

/* Roles: tools find columns by them. */
enum ctr_role {
    CTR_ROLE_LABEL,
    CTR_ROLE_WEIGHT,
    CTR_ROLE_USER,
    CTR_ROLE_TIME,
    CTR_ROLE_QUERY,
    CTR_ROLE_ID,
    CTR_ROLE_SCORE,
    CTR_ROLE_UNCERTAINTY,
    CTR_ROLE_FEATURE,
    CTR_ROLE_DENSE,
    CTR_ROLE_IMAGE,
    CTR_NROLES
};
extern const char *const ctr_roles[CTR_NROLES];

struct ctr_field {
    char *name;
    enum ctr_type type;  /* of the values, also when they are dictionary-encoded */
    enum ctr_type item;  /* CTR_LIST, CTR_FIXED: type of the items (a scalar type or CTR_WKEY) */
    int32_t width;       /* CTR_FIXED: items per row */
    const char *foreign; /* CTR_FOREIGN: its name in Arrow, a constant */
    bool dict;           /* batches carry int32 indices and a dictionary of values */
    bool none;           /* CTR_UTF8 of a source whose type has no values: ctr_field_unite gives it any type */
    uint32_t hash;       /* of the name, for ctr_schema_find; 0: not known */
    struct ctr_meta meta;
};

struct ctr_schema {
    struct ctr_field *f;
    int n;
    struct ctr_meta meta;
};

int ctr_schema_add(struct ctr_schema *s, const char *name, enum ctr_type type, struct ctr_err *err) CTR_MUST;
/* Append a copy of a field (name NULL: its own), metadata included. A duplicate name is CTR_EUSAGE. */
int ctr_schema_add_field(struct ctr_schema *s, const struct ctr_field *f, const char *name,
                         struct ctr_err *err) CTR_MUST;
int ctr_schema_copy(struct ctr_schema *to, const struct ctr_schema *from, struct ctr_err *err) CTR_MUST;
void ctr_schema_free(struct ctr_schema *s);
#define CTR_BATCH_ROWS 8192
/* Rows per batch in a pipe: a power of two up to CTR_BATCH_ROWS, chosen by the types of the columns so that a batch
 * takes at most 1 MiB and is still in the cache when the next program reads it. For a section of a bundle, which is
 * stored: CTR_BATCH_ROWS. */
int64_t ctr_schema_batch_rows(const struct ctr_schema *s);
int ctr_schema_find(const struct ctr_schema *s, const char *name); /* index or -1 */
/* Like find, but an unknown name is an error (CTR_EUSAGE, never -1) that names the nearest column. Returns the
 * index. */
int ctr_schema_need(const struct ctr_schema *s, const char *name, struct ctr_err *err) CTR_MUST;
/* Append the columns that a list such as "a,`b,c`" names to the *n of *columns, which the caller frees. A column that
 * is named twice is an error, too. */
int ctr_schema_columns(const struct ctr_schema *s, const char *list, char sep, int **columns, int *n,
                       struct ctr_err *err) CTR_MUST;
int ctr_schema_role(const struct ctr_schema *s, enum ctr_role role); /* the first column of that role, or -1 */
/* May another column have this role (enum ctr_role, or -1: none)? */
bool ctr_schema_role_free(const struct ctr_schema *s, int role);
/* Append a field of another schema: without its role, if that is another column's alone. */
int ctr_schema_add_other(struct ctr_schema *s, const struct ctr_field *f, struct ctr_err *err) CTR_MUST;
/* *column: the one called `name` or, if NULL, the first of that role. -1: none; if `need`, that is an error that names
 * the option to use. */
int ctr_schema_find_role(const struct ctr_schema *s, enum ctr_role role, const char *name, bool need, int *column,
                         struct ctr_err *err) CTR_MUST;
int ctr_field_set_role(struct ctr_field *f, enum ctr_role role, struct ctr_err *err) CTR_MUST;
int ctr_field_role(const struct ctr_field *f); /* enum ctr_role, or -1 */
/* Inputs of a model, of which there may be many columns; others pass through it. */
static inline bool ctr_role_is_input(int role)
{
    return role == CTR_ROLE_FEATURE || role == CTR_ROLE_DENSE || role == CTR_ROLE_IMAGE;
}
static inline bool ctr_field_is_input(const struct ctr_field *f)
{
    return ctr_role_is_input(ctr_field_role(f));
}
bool ctr_field_same_type(const struct ctr_field *a, const struct ctr_field *b);
/* The type that holds exactly the numbers of both; CTR_NTYPES: there is none. */
enum ctr_type ctr_type_wider(enum ctr_type a, enum ctr_type b);
/* Make *had a field that holds the values of both (ctr_colbuf_match converts them); false: there is none. */
bool ctr_field_unite(struct ctr_field *had, const struct ctr_field *f);
/* Same names, types, roles, tables and models of vectors in the same order (provenance, sections and `dict` do not
 * matter)? `why` (may be NULL) gets a description of the first difference. same_types: names and types alone. */
bool ctr_schema_equal(const struct ctr_schema *a, const struct ctr_schema *b, char *why, size_t why_size);
bool ctr_schema_same_types(const struct ctr_schema *a, const struct ctr_schema *b, char *why, size_t why_size);
/* "int32", "list<utf8>", "fixed_size_list<float32>[12]", "list<weighted key>"; returns out. */
const char *ctr_field_type_name(const struct ctr_field *f, char *out, size_t size);
/* The inverse, for --columns: the names of ctr_types and common synonyms (int, float, string, time, list<…>). */
bool ctr_type_parse(const char *s, size_t n, struct ctr_field *f);

/* ---- columns and batches, borrowed ---- */

struct ctr_col {
    enum ctr_type type;
    int64_t rows;
    int64_t nulls;
    const uint8_t *valid;       /* bitmap, 1 = present; NULL when nulls == 0 */
    const void *data;           /* values by type; dictionary-encoded: int32_t indices */
    const int32_t *offsets;     /* CTR_UTF8, CTR_LIST */
    const float *weight;        /* CTR_WKEY */
    const struct ctr_col *item; /* CTR_LIST, CTR_FIXED */
    const struct ctr_col *dict; /* dictionary-encoded: the values (never itself encoded), else NULL */
    uint64_t id;                /* of a dictionary: columns of one id have the same values; 0: unknown */
};

struct ctr_batch {
    const struct ctr_schema *schema;
    int64_t rows;
    int64_t first_row;           /* rows before this batch in its stream */
    const struct ctr_col *col;   /* schema->n of them */
    const struct ctr_left *left; /* of ctr_batch_source_leave: what is on the device instead; NULL: nothing */
};

/* Columns whose values are on a device. Its memory is valid for as many batches as the source was asked for. */
struct ctr_left {
    uint64_t hashes;      /* address: of row i and column k of n, the hash (ctr_key_hash) at 8 * (i * n + k) */
    const uint64_t *list; /* addresses: of item j of a list column its hash at 8 * j; no item is null */
    uint64_t numbers;     /* address: of row i and column k of n, a finite float at 4 * (i * n + k), of a null 0; 0: the
                           * columns have them */
    const double *low, *high; /* ranges of the numbers of some rows; low > high: none is present */
};

static inline bool ctr_bit(const uint8_t *bits, int64_t i)
{
    return bits[i >> 3] >> (i & 7) & 1;
}
int64_t ctr_bits_count(const uint8_t *bits, int64_t from, int64_t n); /* ones among bits [from, from + n) */
void ctr_bits_set(uint8_t *bits, int64_t from, int64_t n);            /* set them */
static inline bool ctr_col_null(const struct ctr_col *c, int64_t i)
{
    return c->valid && !ctr_bit(c->valid, i);
}
/* The plain column that holds the value of row *i (not null); *i becomes its row there. */
static inline const struct ctr_col *ctr_col_plain(const struct ctr_col *c, int64_t *i)
{
    if (!c->dict)
        return c;
    *i = ((const int32_t *)c->data)[*i];
    return c->dict;
}
struct ctr_str {
    const char *p;
    size_t n;
};
/* The text of row i of a CTR_UTF8 column, encoded or not; undefined for a null. */
static inline struct ctr_str ctr_col_str(const struct ctr_col *c, int64_t i)
{
    c = ctr_col_plain(c, &i);
    return (struct ctr_str){ (const char *)c->data + c->offsets[i], (size_t)(c->offsets[i + 1] - c->offsets[i]) };
}
/* Row i of a number, bool or time column as a double or as an int64 (floats truncate; unsigned wrap above 2^63). */
double ctr_col_f64(const struct ctr_col *c, int64_t i);
int64_t ctr_col_i64(const struct ctr_col *c, int64_t i);
/* The whole column, or rows [from, from + n); nulls become `null_value`; out has room for as many values. */
void ctr_col_to_f64(const struct ctr_col *c, double null_value, double *out);
void ctr_col_range_f64(const struct ctr_col *c, int64_t from, int64_t n, double null_value, double *out);
/* Append the canonical text of row i (scalars; lists as [a,b]), the text that keys hash and CSV shows. Null appends
 * nothing. */
int ctr_col_text(const struct ctr_col *c, int64_t i, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;
/* Is the value null, in the column or in its dictionary? */
static inline bool ctr_col_missing(const struct ctr_col *c, int64_t i)
{
    return ctr_col_null(c, i) || (c->dict && ctr_col_null(c->dict, ((const int32_t *)c->data)[i]));
}
/* Items per row of a CTR_FIXED column, encoded or not, for callers without its field; else 0. */
static inline int32_t ctr_col_width(const struct ctr_col *c)
{
    c = c->dict ? c->dict : c;
    return c->type == CTR_FIXED && c->rows ? (int32_t)(c->item->rows / c->rows) : 0;
}
/* The list of row i, encoded or not (width: of a CTR_FIXED field): its items are [*from, *to) of the returned column.
 * NULL: the row is null, and *from and *to are unchanged. */
static inline const struct ctr_col *ctr_col_items(const struct ctr_col *c, int32_t width, int64_t i, int64_t *from,
                                                  int64_t *to)
{
    if (ctr_col_missing(c, i))
        return NULL;
    c = ctr_col_plain(c, &i);
    *from = c->type == CTR_FIXED ? i * width : c->offsets[i];
    *to = c->type == CTR_FIXED ? *from + width : c->offsets[i + 1];
    return c->item;
}
/* The values of a label, weight or score column as doubles, checked: labels and scores lie in [0, 1], weights are
 * finite and not negative, none is null. The error names the row and column of the first bad value. *out points into
 * the column if possible, else into buf. */
int ctr_col_checked(const struct ctr_col *c, enum ctr_role role, const char *name, int64_t first_row,
                    struct ctr_buf *buf, const double **out, struct ctr_err *err) CTR_MUST;
/* The same for the result of an expression; only the remedy in the message about nulls differs. */
int ctr_col_checked_made(const struct ctr_col *c, enum ctr_role role, const char *name, int64_t first_row,
                         struct ctr_buf *buf, const double **out, struct ctr_err *err) CTR_MUST;
/* Total order over the values of two columns of one type: nulls last, NaN after numbers, text by bytes, lists
 * item by item. */
int ctr_col_compare(const struct ctr_col *a, int64_t i, const struct ctr_col *b, int64_t j);
/* 64-bit hash of the value, equal for equal values whatever the encoding and integer width (4 and 4.0 too); nulls
 * hash alike. */
uint64_t ctr_col_hash(const struct ctr_col *c, int64_t i, uint64_t seed);

/* ---- distinct values: values.c ---- */

struct ctr_values {        /* zero-initialise */
    struct ctr_buf number; /* int32_t per row: which value it has, -1: null */
    struct ctr_buf first;  /* int64_t per value: the row of its first occurrence */
    int64_t n, nulls;      /* values; rows without one */
    struct ctr_index index;
};
/* Number the values of a column that is not encoded (width: of a CTR_FIXED field) by first occurrence. Values are
 * compared bit by bit. */
int ctr_values_number(struct ctr_values *v, const struct ctr_col *c, int32_t width, struct ctr_err *err) CTR_MUST;
void ctr_values_free(struct ctr_values *v);

/* ---- growing columns, owned ---- */

/* Start with ctr_colbuf_init; append in any way; ctr_colbuf_view gives a column over the buffers. A buffer of a field
 * with `dict` set holds indices; it borrows the dictionary from the source of the gathers, which must be the same
 * between clears. Every *append* can fail for lack of memory, or if a text or list column exceeds 2^31-1 bytes or items
 * (ctr_fail_too_long makes that error, with its remedy). */
int ctr_fail_too_long(struct ctr_err *err) CTR_MUST;
struct ctr_colbuf {
    enum ctr_type type;
    int32_t width;
    int64_t rows, nulls;
    struct ctr_buf data, valid, offsets, weight; /* valid: empty until the first null */
    struct ctr_colbuf *item;
    const struct ctr_col *dict;
    bool is_dict;
    struct ctr_col view; /* storage for ctr_colbuf_view */
};

int ctr_colbuf_init(struct ctr_colbuf *b, const struct ctr_field *f, struct ctr_err *err) CTR_MUST;
void ctr_colbuf_free(struct ctr_colbuf *b);  /* also of one that is all zero */
void ctr_colbuf_clear(struct ctr_colbuf *b); /* keeps memory */
const struct ctr_col *ctr_colbuf_view(struct ctr_colbuf *b);

/* Room for n more offsets, and the 0 before them. */
int ctr_colbuf_reserve_offsets(struct ctr_colbuf *b, int64_t n, struct ctr_err *err) CTR_MUST;
int ctr_colbuf_null(struct ctr_colbuf *b, struct ctr_err *err) CTR_MUST;
int ctr_colbuf_i64(struct ctr_colbuf *b, int64_t v, struct ctr_err *err) CTR_MUST; /* any integer, bool, time (wraps) */
int ctr_colbuf_f64(struct ctr_colbuf *b, double v, struct ctr_err *err) CTR_MUST;  /* any float type */
int ctr_colbuf_str(struct ctr_colbuf *b, const char *p, size_t n, struct ctr_err *err) CTR_MUST;
/* Lists: append the items to b->item, then close the row. Fixed-size lists: the same, width items per row. */
int ctr_colbuf_close(struct ctr_colbuf *b, struct ctr_err *err) CTR_MUST;
int ctr_colbuf_wkey(struct ctr_colbuf *b, uint64_t key, float weight, struct ctr_err *err) CTR_MUST;
/* Inline versions of ctr_colbuf_wkey and close for parsers that append item by item; fast while there is room and no
 * null. */
static inline int ctr_colbuf_put_wkey(struct ctr_colbuf *b, uint64_t key, float weight, struct ctr_err *err)
{
    if (b->valid.len || b->data.cap < b->data.len + sizeof(key) + CTR_PAD ||
        b->weight.cap < b->weight.len + sizeof(weight) + CTR_PAD)
        return ctr_colbuf_wkey(b, key, weight, err);
    memcpy(b->data.data + b->data.len, &key, sizeof(key));
    memcpy(b->weight.data + b->weight.len, &weight, sizeof(weight));
    b->data.len += sizeof(key);
    b->weight.len += sizeof(weight);
    b->rows++;
    return 0;
}
static inline int ctr_colbuf_put_close(struct ctr_colbuf *b, struct ctr_err *err)
{
    int32_t end = (int32_t)b->item->rows;

    if (b->type != CTR_LIST || b->valid.len || !b->offsets.len || b->item->rows > INT32_MAX ||
        b->offsets.cap < b->offsets.len + sizeof(end) + CTR_PAD)
        return ctr_colbuf_close(b, err);
    memcpy(b->offsets.data + b->offsets.len, &end, sizeof(end));
    b->offsets.len += sizeof(end);
    b->rows++;
    return 0;
}

/* Truncate to `rows` rows and their items; also drops items appended but not closed. */
void ctr_colbuf_rewind(struct ctr_colbuf *b, int64_t rows);

/* Rows [from, from+n) of c. Types must agree; an encoded source is decoded unless the buffer is_dict. */
int ctr_colbuf_range(struct ctr_colbuf *b, const struct ctr_col *c, int64_t from, int64_t n,
                     struct ctr_err *err) CTR_MUST;
/* Column c of a batch of that many rows as column of a schema that other batches have too (ctr_field_unite): *out is c
 * as it is, or decoded where the buffer is no dictionary, widened where its type is another, or nulls where c is NULL;
 * then b, which is cleared, holds it. */
int ctr_colbuf_match(struct ctr_colbuf *b, const struct ctr_col *c, int64_t rows, struct ctr_col *out,
                     struct ctr_err *err) CTR_MUST;
/* Rows idx[0..n) of c in that order; -1 appends a null. */
int ctr_colbuf_gather(struct ctr_colbuf *b, const struct ctr_col *c, const int64_t *idx, int64_t n,
                      struct ctr_err *err) CTR_MUST;

/* The values of a row, column after column:
 *
 *     struct ctr_append a = { rows->col, err, 0 };
 *     ctr_append_text(&a, "ctr");           of the first column
 *     ctr_append_f64(&a, clicks > 0, ctr);  of the second; null without clicks
 *     return a.rc;                          of the first call that failed; calls after it did nothing */
struct ctr_append {
    struct ctr_colbuf *next;
    struct ctr_err *err;
    int rc;
};
void ctr_append_i64(struct ctr_append *a, bool there, int64_t v); /* not there: null */
void ctr_append_f64(struct ctr_append *a, bool there, double v);
void ctr_append_str(struct ctr_append *a, const char *p, size_t n); /* p NULL: null */
void ctr_append_text(struct ctr_append *a, const char *text);

/* One buffer per column of a schema. */
struct ctr_batchbuf {
    const struct ctr_schema *schema; /* borrowed */
    struct ctr_colbuf *col;
    struct ctr_col *views;
    struct ctr_batch batch; /* storage for ctr_batchbuf_view */
};
int ctr_batchbuf_init(struct ctr_batchbuf *b, const struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
void ctr_batchbuf_free(struct ctr_batchbuf *b); /* also of one that is all zero */
void ctr_batchbuf_clear(struct ctr_batchbuf *b);
int64_t ctr_batchbuf_rows(const struct ctr_batchbuf *b);
int ctr_batchbuf_range(struct ctr_batchbuf *b, const struct ctr_batch *from, int64_t start, int64_t n,
                       struct ctr_err *err) CTR_MUST;
int ctr_batchbuf_gather(struct ctr_batchbuf *b, const struct ctr_batch *from, const int64_t *idx, int64_t n,
                        struct ctr_err *err) CTR_MUST;
const struct ctr_batch *ctr_batchbuf_view(struct ctr_batchbuf *b);

/* ---- some rows of a batch: slice.c ---- */

/* Rows [from, from + n) of a batch, borrowed from it and from the slice; the slice starts zeroed and may be reused. */
struct ctr_part {
    struct ctr_batch batch;
    struct ctr_buf cols, bits;
};
int ctr_batch_part(struct ctr_part *s, const struct ctr_batch *b, int64_t from, int64_t n,
                   struct ctr_err *err) CTR_MUST;
void ctr_part_free(struct ctr_part *s);
/* Bytes of the values of rows [from, from + n); a dictionary entry counts each time it is used. */
int64_t ctr_col_bytes(const struct ctr_col *c, int64_t from, int64_t n);
/* Bytes of the values of all rows. */
static inline int64_t ctr_batch_bytes(const struct ctr_batch *b)
{
    int64_t bytes = 0;
    for (int i = 0; i < b->schema->n; i++)
        bytes += ctr_col_bytes(&b->col[i], 0, b->rows);
    return bytes;
}

#include "common/stream/rules.h"

#endif
