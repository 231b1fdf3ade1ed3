/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_impl: what the files of this folder share, from bytes up: Thrift, the footer, the tree of the schema, codecs,
 * packed numbers, encodings, pages, columns. Nothing here trusts the file: a reader of bytes has an end, a count is
 * compared with what the bytes can hold, and memory follows what was read, not what was announced. */
#ifndef CTR_PARQUET_IMPL_H
#define CTR_PARQUET_IMPL_H

#include "common/parquet/parquet.h"
#include "common/stream/condition.h"

/* ---- Thrift's compact protocol: parquet_thrift.c ---- */

/* A reader over [p, end). After an error `bad` is set, p is end, and everything read is 0. */
struct pq_thrift {
    const uint8_t *p, *end;
    int depth;
    bool bad;
};
enum pq_wire {
    PQ_TRUE = 1,
    PQ_FALSE,
    PQ_I8,
    PQ_I16,
    PQ_I32,
    PQ_I64,
    PQ_DOUBLE,
    PQ_BINARY,
    PQ_LIST,
    PQ_SET,
    PQ_MAP,
    PQ_STRUCT
};
/* A field of a struct; start with zeros. */
struct pq_field {
    int id, wire;
};
/* The next field, whose value must be read or skipped next; false at the end of the struct. */
bool ctr_pq_field(struct pq_thrift *t, struct pq_field *f);
/* Values of the field; another type than the field has is an error. */
int64_t ctr_pq_int(struct pq_thrift *t, int wire);
bool ctr_pq_bool(struct pq_thrift *t, int wire);
struct ctr_str ctr_pq_binary(struct pq_thrift *t, int wire);
/* The number of elements of a list, of the type *element; never more than there are bytes. */
int64_t ctr_pq_list(struct pq_thrift *t, int wire, int *element);
void ctr_pq_skip(struct pq_thrift *t, int wire);

/* ---- the footer: parquet_footer.c ---- */

enum pq_type { PQ_BOOLEAN, PQ_INT32, PQ_INT64, PQ_INT96, PQ_FLOAT, PQ_REAL64, PQ_BYTES, PQ_FIXED, PQ_NTYPES };
extern const char *const ctr_pq_types[PQ_NTYPES];
enum pq_repetition { PQ_REQUIRED, PQ_OPTIONAL, PQ_REPEATED };
enum pq_unit { PQ_MS, PQ_US, PQ_NS };
/* What a type means: logical and converted types as one. */
enum pq_meaning {
    PQ_PLAIN_TYPE,
    PQ_UTF8,
    PQ_MAPPING,
    PQ_LISTING,
    PQ_DECIMAL,
    PQ_DATE,
    PQ_TIME,
    PQ_TIMESTAMP,
    PQ_INTEGER,
    PQ_UNKNOWN,
    PQ_UUID,
    PQ_FLOAT16,
    PQ_INTERVAL,
    PQ_VARIANT,
};

struct pq_element {
    struct ctr_str name; /* in the bytes of the footer */
    int type;            /* enum pq_type, or -1: a group */
    int32_t length;      /* PQ_FIXED */
    enum pq_repetition repetition;
    int32_t children;
    enum pq_meaning meaning;
    int32_t scale, precision; /* PQ_DECIMAL */
    enum pq_unit unit;
    int bits; /* PQ_INTEGER */
    bool is_signed;
};

struct pq_chunk {
    int type, codec;
    int64_t values, start, bytes;
    bool all_dict;  /* every data page is known to be dictionary-encoded */
    bool elsewhere; /* in another file */
    bool encrypted;
    struct pq_statistics {
        struct ctr_str min, max; /* PLAIN, in the bytes of the footer; p NULL: not there */
        bool old;                /* the deprecated fields, whose order is that of signed numbers */
        int64_t nulls;           /* -1: not there */
    } statistics;
    int64_t bloom_at, bloom_bytes; /* 0: there is no bloom filter; its bytes may be unknown */
};

struct pq_group {
    int64_t rows;
    struct pq_chunk *chunk; /* one per leaf */
};

struct pq_footer {
    struct ctr_buf bytes;
    struct pq_element *element;
    int elements, leaves;
    struct pq_group *group;
    int groups;
    bool *ordered; /* NULL, or of each leaf: bounds are in the order of its type */
    int64_t rows;
    struct pq_pair { /* key-value metadata; in the bytes of the footer */
        struct ctr_str key, value;
    } * pair;
    int pairs;
};
int ctr_pq_footer_read(struct pq_footer *f, int fd, int64_t size, struct ctr_err *err) CTR_MUST;
void ctr_pq_footer_free(struct pq_footer *f);

/* ---- the tree of the schema: parquet_schema.c ---- */

/* How physical values become ours; a row of ctr_pq_kinds[]. */
enum pq_kind {
    PQ_K_BITS,   /* bool */
    PQ_K_NULL,   /* no values: nulls of any type */
    PQ_K_SAME,   /* the bytes as they are: int32, int64, float, double, float16 */
    PQ_K_NARROW, /* int32 to 8 or 16 bits, checked */
    PQ_K_DAY,    /* int32 days to a time */
    PQ_K_US,     /* int64 µs to ms, digits counted */
    PQ_K_NS,
    PQ_K_S,       /* int64 s to ms */
    PQ_K_MS32,    /* int32 ms to int64 */
    PQ_K_INT96,   /* nanoseconds of the day and Julian day */
    PQ_K_TEXT,    /* bytes, checked to be UTF-8 */
    PQ_K_UUID,    /* 16 bytes to text */
    PQ_K_DECIMAL, /* any of four types to text */
};

struct pq_leaf {
    char *name; /* ours: with dots, without the levels that a list is made of */
    int column; /* among the leaves of the file */
    int type;
    int32_t width; /* bytes of a physical value; 0: PQ_BYTES. A bool takes one byte once it is unpacked */
    enum pq_kind kind;
    int32_t scale, precision;
    uint8_t max_def, max_rep;
    uint8_t list_def; /* max_rep 1: definition level from which there is an item */
    struct ctr_field native;
    bool duration; /* of milliseconds, once it is converted */
    char *refusal; /* NULL, or why the column cannot be read */
    /* of the columns of several files: parquet_set.c */
    int64_t dict;   /* above 0: comes as dictionary pages that pay in files of half the rows or more */
    int32_t fixed;  /* LIST: the items of each, or 0 */
    bool partition; /* of the path, not in the file */
    bool padded;    /* and an integer that is written with and without zeros in front */
    bool ambiguous; /* a file has two of this name */
    char *conflict; /* NULL, or why two files differ */
    bool apart;     /* ... in what the values mean, so that no type is that of both */
    int file;       /* the first that has it */
    int role;       /* 1 + that in this file, if it is not the first of all: one that a single column may have */
    int seen;       /* 1 + the last one that was added */
    int absent;     /* files that lack it */
};
struct pq_leaves {
    struct pq_leaf *leaf;
    int n;
    int cap; /* of parquet_set.c */
};
int ctr_pq_leaves(struct pq_leaves *l, const struct pq_footer *f, struct ctr_err *err) CTR_MUST;
void ctr_pq_leaves_free(struct pq_leaves *l);
int ctr_pq_leaf(const struct pq_leaves *l, const char *name, int guess); /* or -1; guess: where it may be */

/* ---- the schema in Arrow's terms: parquet_arrow.c ---- */

/* Leaves that are durations by it become int64 of milliseconds. */
int ctr_pq_durations(const struct pq_footer *f, struct pq_leaves *leaves, struct ctr_err *err) CTR_MUST;

/* ---- metadata of ctr-export: parquet_meta.c ---- */

/* Roles, tables, provenance and plan into the schema, where no option says otherwise. */
#define PQ_META_WIDTH "ctr.width"
#define PQ_META_PAIRS "ctr.weighted"
/* Set `fixed` of the leaves whose lists have all as many items; make one leaf of NAME.key and NAME.weight, which are
 * weighted keys. */
int ctr_pq_shapes(const struct pq_footer *f, struct pq_leaves *all, struct ctr_err *err) CTR_MUST;
/* The role that a file says of a column, of those that a single column may have, or -1. */
int ctr_pq_role(const struct pq_footer *f, const char *column);
int ctr_pq_metadata(const struct pq_footer *f, const struct ctr_text_columns *columns, struct ctr_schema *s,
                    struct ctr_err *err) CTR_MUST;

/* ---- the columns of several files: parquet_set.c ---- */

/* May values of the leaf's type come as the other one unchanged: the same, or lists that have the same length? */
bool ctr_pq_same_type(const struct ctr_field *leaf, const struct ctr_field *as);
int ctr_pq_meaning(const struct pq_leaf *l);
const char *ctr_pq_meaning_name(int meaning);
bool ctr_pq_widens(const struct ctr_field *from, const struct ctr_field *to); /* numbers without loss */
bool ctr_pq_no_values(const struct pq_leaf *l);                               /* a column of nothing but nulls */
/* Add the columns of file number `file`, open as `fd`; `dict` of leaves is set. */
int ctr_pq_set_add(struct pq_leaves *all, const struct pq_footer *f, const struct pq_leaves *leaves, int fd,
                   char *const *paths, int file, struct ctr_err *err) CTR_MUST;
int ctr_pq_set_partitions(struct pq_leaves *all, const struct ctr_strs *paths, struct ctr_err *err) CTR_MUST;

/* ---- row groups that a condition leaves out: parquet_prune.c ---- */

struct pq_column;
/* False: no row of the group makes the condition true. Columns are those of the schema, set to the current file. */
bool ctr_pq_may_hold(const struct ctr_conditions *where, const struct pq_column *columns,
                     const struct ctr_schema *schema, const struct pq_footer *footer, const struct pq_group *group,
                     int fd, int64_t size, int64_t *bytes_read);

/* ---- paths: parquet_files.c ---- */

/* The NAME=VALUE folders of a path, in order. */
int ctr_pq_partitions(const char *path, struct ctr_strs *names, struct ctr_strs *values, struct ctr_err *err) CTR_MUST;
bool ctr_pq_partition_null(const char *value);

/* ---- codecs: parquet_codec.c ---- */

struct pq_unpack { /* zero-initialise; what a codec keeps between pages */
    void *zstd;
};
/* Unpack [p, p+n) to `size` bytes exactly. `out` grows with what is unpacked. */
int ctr_pq_unpack(struct pq_unpack *u, int codec, const uint8_t *p, size_t n, size_t size, struct ctr_buf *out,
                  struct ctr_err *err) CTR_MUST;
void ctr_pq_unpack_free(struct pq_unpack *u);
enum { PQ_UNCOMPRESSED = 0 };

/* ---- packed numbers: parquet_bits.c ---- */

/* Bytes from p up to 64 beyond the end may be read (CTR_PAD). */

/* RLE and bit-packing hybrid of numbers of `width` bits. */
struct pq_hybrid {
    const uint8_t *p, *end;
    int width;
    int64_t run, packed; /* values left of the run; only one is not 0 */
    int64_t at;          /* packed: values taken from p */
    uint32_t value;      /* of the run */
};
bool ctr_pq_hybrid_start(struct pq_hybrid *h, const uint8_t *p, const uint8_t *end, int width);
bool ctr_pq_hybrid_i32(struct pq_hybrid *h, int32_t *out, int64_t n); /* false: not so many values */
bool ctr_pq_hybrid_u8(struct pq_hybrid *h, uint8_t *out, int64_t n);  /* width up to 8 */
/* The deprecated packing, from the most significant bit; `at`: values before. */
void ctr_pq_bit_packed(const uint8_t *p, int width, int64_t at, uint8_t *out, int64_t n);

struct pq_delta {
    const uint8_t *p, *end;
    int64_t block, minis, mini_values; /* values of a block, miniblocks of it, values of one */
    int64_t left;                      /* values not taken yet */
    uint64_t last, min;
    bool first;            /* `last` is the value to be given next */
    const uint8_t *width;  /* of the current block's miniblocks */
    int64_t mini, mini_at; /* which one, and the values taken of it */
    int64_t mini_left;     /* values of it not taken yet */
};
bool ctr_pq_delta_start(struct pq_delta *d, const uint8_t *p, const uint8_t *end);
bool ctr_pq_delta_get(struct pq_delta *d, int64_t *out, int64_t n);
const uint8_t *ctr_pq_delta_end(const struct pq_delta *d); /* of a fresh one: where its bytes end; NULL: damaged */

/* ---- columns: parquet_column.c, parquet_page.c, parquet_encoding.c, parquet_convert.c ---- */

enum { PQ_PIECE = 8192, PQ_WINDOW = 256 << 10 };

/* The values of the current data page. */
struct pq_values {
    const struct pq_encoding *encoding;
    const uint8_t *p, *end;
    int64_t at; /* values given */
    struct pq_hybrid hybrid;
    struct pq_delta lengths, prefixes;
    struct ctr_buf last; /* DELTA_BYTE_ARRAY: the value before */
};

struct pq_column {
    enum {
        PQ_FROM_FILE,
        PQ_FROM_PATH,
        PQ_FROM_NOWHERE
    } from;                     /* in the current file; PATH: one value, NOWHERE: nulls */
    const struct pq_leaf *leaf; /* of the current file */
    const char *name;           /* in the stream */
    bool dict;                  /* comes as a dictionary column */
    int fd;
    const struct pq_chunk *chunk;
    int64_t row;         /* of the file, at the start of the batch */
    int64_t at, end;     /* in the file: the next page; the end of the chunk at most */
    int64_t said_end;    /* and as the footer says */
    int64_t values_left; /* of the chunk, in pages not opened yet */
    int64_t bytes_read;
    struct ctr_buf window; /* bytes of the file from window_at on */
    int64_t window_at;
    struct pq_unpack unpack;
    struct ctr_buf page; /* unpacked */
    /* the current page */
    int64_t page_left; /* levels not taken yet */
    struct pq_hybrid def, rep;
    const uint8_t *def_packed, *rep_packed; /* not NULL: in the deprecated packing */
    int64_t levels_at;
    struct pq_values values;
    /* levels of a piece of it */
    uint8_t *def_level, *rep_level;
    uint8_t *present, *row_present; /* scratch: is the value there, is the row? */
    int64_t piece, piece_at;
    /* the chunk's dictionary */
    bool has_dict;
    int64_t dict_n;
    struct ctr_buf dict_fixed;   /* physical values */
    struct ctr_colbuf dict_text; /* or texts */
    struct ctr_colbuf mixed;     /* dictionary of a batch with pages that are not dictionary-encoded */
    bool is_mixed;
    /* scratch */
    struct ctr_buf fixed, index, views, texts, numbers, numbers2;
    struct ctr_buf made;   /* texts of values that are none, such as decimals: beside `texts`, which may hold these */
    int64_t lost;          /* times with digits below a millisecond */
    struct ctr_field form; /* the leaf's own type */
    struct ctr_colbuf out; /* rows of the batch, of this type */
    /* conversion to another type that was asked for: through text */
    bool converts, fixes; /* fixes: lists, which become lists of fixed length */
    struct ctr_text_column *as;
    struct ctr_text_job job;
    struct ctr_colbuf converted; /* of the path: its value */
    struct ctr_buf text;
    /* weighted keys: this column has the keys, and `weights` (or NULL) the weights */
    struct pq_column *weights;
    struct ctr_text_column half; /* the type of each of the two */
    struct ctr_col pairs[2];     /* both together: the lists, their items */
};
/* "column x: … (near row N)", CTR_EDATA */
int ctr_pq_damaged(const struct pq_column *c, struct ctr_err *err, const char *fmt, ...) CTR_PRINTF(3, 4);
int ctr_pq_not_null(const struct pq_column *c, struct ctr_err *err); /* the same, of a column of nulls */
/* A column of the schema; both are borrowed. `as`: its type, as it was asked for or settled. */
int ctr_pq_column_open(struct pq_column *c, const struct ctr_schema *schema, int column, struct ctr_text_column *as,
                       struct ctr_err *err) CTR_MUST;
/* In the next file it is this leaf, whose values are converted through text where its type is another; NULL: nulls. Or,
 * in all rows of the file, this text of the path (NULL: null). */
int ctr_pq_column_file(struct pq_column *c, const struct pq_leaf *leaf, struct ctr_err *err) CTR_MUST;
int ctr_pq_column_constant(struct pq_column *c, const char *text, struct ctr_err *err) CTR_MUST;
void ctr_pq_column_free(struct pq_column *c);
/* size: of the file; chunks: of the row group */
int ctr_pq_column_start(struct pq_column *c, int fd, int64_t size, const struct pq_chunk *chunks,
                        struct ctr_err *err) CTR_MUST;
static inline void ctr_pq_column_skip(struct pq_column *c, int64_t rows) /* that were read, or are left out */
{
    c->row += rows;
    if (c->weights)
        c->weights->row += rows;
}
static inline int64_t ctr_pq_column_bytes(const struct pq_column *c)
{
    return c->bytes_read + (c->weights ? c->weights->bytes_read : 0);
}
int ctr_pq_column_read(struct pq_column *c, int64_t rows, struct ctr_err *err) CTR_MUST; /* append these rows */
int ctr_pq_column_finish(struct pq_column *c, struct ctr_err *err) CTR_MUST; /* the chunk must have no more */
/* The rows of the batch, as another type if one was asked for. */
int ctr_pq_column_view(struct pq_column *c, const struct ctr_col **view, struct ctr_err *err) CTR_MUST;

/* The values and unpacked bytes of the page that a chunk begins with; false: it is no dictionary that can be read. */
bool ctr_pq_dictionary_size(int fd, const struct pq_chunk *chunk, int64_t *values, int64_t *bytes);
int ctr_pq_page_next(struct pq_column *c, struct ctr_err *err) CTR_MUST; /* 1: a data page; 0: the chunk's end */
/* The next piece of levels: c->piece of them. */
int ctr_pq_levels(struct pq_column *c, struct ctr_err *err) CTR_MUST;

struct pq_encoding {
    const char *name;
    int number;
    unsigned types; /* bits of enum pq_type */
    int (*start)(struct pq_column *c, struct pq_values *v, struct ctr_err *err);
    /* The next n values. fixed: leaf->width bytes each; text: views, valid until the next call or page. */
    int (*fixed)(struct pq_column *c, struct pq_values *v, int64_t n, uint8_t *out, struct ctr_err *err);
    int (*text)(struct pq_column *c, struct pq_values *v, int64_t n, struct ctr_str *out, struct ctr_err *err);
};
bool ctr_pq_encoding_dict(const struct pq_encoding *e);
int ctr_pq_values_start(struct pq_column *c, int encoding, const uint8_t *p, const uint8_t *end,
                        struct ctr_err *err) CTR_MUST;
int ctr_pq_indices(struct pq_column *c, struct pq_values *v, int64_t n, int32_t *out, struct ctr_err *err) CTR_MUST;
/* The dictionary page, n values in PLAIN. */
int ctr_pq_dictionary(struct pq_column *c, int64_t n, const uint8_t *p, const uint8_t *end,
                      struct ctr_err *err) CTR_MUST;

/* parquet_convert.c */
/* Is it one of those whose values become texts? */
static inline bool ctr_pq_is_text(enum pq_kind k)
{
    return k >= PQ_K_TEXT;
}
/* n physical values to ours (not texts), `to` has the native width; bits: one byte a value. May be in place for equal
 * widths. */
int ctr_pq_convert(struct pq_column *c, const uint8_t *from, int64_t n, uint8_t *to, struct ctr_err *err) CTR_MUST;
/* Physical values of fixed width to texts, appended to `texts`; views are set. */
int ctr_pq_texts(const struct pq_leaf *l, const struct ctr_str *raw, int64_t n, struct ctr_buf *texts,
                 struct ctr_str *views, struct ctr_err *err) CTR_MUST;

#endif
