/* SPDX-License-Identifier: Apache-2.0
 *
 * arrow: internal to stream/: the components of reader and writer. See ctr-stream(5) for the format.
 *
 *   flatbuf.c     metadata, bytes          arrow-meta.c   our metadata, written     emit.c     columns -> body buffers
 *   source.c      pipes and files          arrow-parse.c  any metadata, validated   body.c     buffers, verified
 *   compress.c    ZSTD, LZ4 bodies         leaves.c       schema -> columns         writer.c reader.c ipcfile.c keyed.c
 *                                          normalise.c    body buffers -> columns
 */
#ifndef CTR_ARROW_H
#define CTR_ARROW_H

#include "common/stream/flatbuf.h"
#include "common/stream/stream.h"

enum {
    ARROW_MAX_METADATA = 16 << 20,
    ARROW_MAX_DEPTH = 16,
    ARROW_MAX_FIELDS = 16384,
    ARROW_MAX_PAIRS = 4096,
    ARROW_ALIGN = 64,
    ARROW_V5 = 4,
};

/* Numbers of the Type union of Schema.fbs. */
enum arrow_kind {
    ARROW_NULL = 1,
    ARROW_INT,
    ARROW_FLOAT,
    ARROW_BINARY,
    ARROW_UTF8,
    ARROW_BOOL,
    ARROW_DECIMAL,
    ARROW_DATE,
    ARROW_TIME,
    ARROW_TIMESTAMP,
    ARROW_INTERVAL,
    ARROW_LIST,
    ARROW_STRUCT,
    ARROW_UNION,
    ARROW_FIXED_BINARY,
    ARROW_FIXED_LIST,
    ARROW_MAP,
    ARROW_DURATION,
    ARROW_LARGE_BINARY,
    ARROW_LARGE_UTF8,
    ARROW_LARGE_LIST,
    ARROW_RUN_END,
    ARROW_BINARY_VIEW,
    ARROW_UTF8_VIEW,
    ARROW_LIST_VIEW,
    ARROW_LARGE_LIST_VIEW,
    ARROW_NKINDS
};
/* Message headers. */
enum { ARROW_SCHEMA = 1, ARROW_DICTIONARY = 2, ARROW_BATCH = 3 };

#define CTR_SEAL_SEQ     "ctr.seq"
#define CTR_SEAL_AFTER   "ctr.after" /* ctr.xxh3 of the message before, of a section's schema of the section before */
#define CTR_SEAL_SUMS    "ctr.sums"
#define CTR_SEAL_XXH3    "ctr.xxh3"
#define CTR_SEAL_ROWS    "ctr.rows"
#define CTR_SEAL_BATCHES "ctr.batches"
#define CTR_SEAL_KEY     "ctr.key"    /* footer: the column that a file is sorted by */
#define CTR_SEAL_KEYS    "ctr.keys"   /* footer: first key of each block */
#define CTR_SEAL_UNIQUE  "ctr.unique" /* footer: "1" when no key repeats */
#define CTR_SEAL_SEALS   "ctr.seals"  /* footer: ctr.xxh3 of each message from schema to trailer */

/* What a message that follows nothing names as ctr.after. */
#define CTR_SEAL_NONE "00000000000000000000000000000000"

/* The place of a message in its stream: its number, and the seal of the message before. Writing or checking a message
 * moves on to the next one. */
struct arrow_link {
    int64_t seq;
    struct ctr_seal after;
};

/* ---- link.c: messages of sealed streams, as a reader checks them ---- */

struct arrow_chain {
    struct arrow_link at; /* of the message that is due */
    bool linked;          /* messages of this stream name the ones before */
};
struct arrow_message;
/* Is message m the one that is due? Moves on to the next one. begins: it is the schema of a stream; first: nothing was
 * read before; due: the section that must follow, by a list of the first one, or NULL. */
int ctr_chain_check(struct arrow_chain *c, const struct arrow_message *m, bool begins, bool first, const char *due,
                    struct ctr_err *err) CTR_MUST;

/* ---- emit.c: columns to the nodes and buffers of a body ---- */

struct arrow_node {
    int64_t rows, nulls;
};
struct arrow_part { /* one body buffer */
    const void *p;  /* NULL: at offset `at` in scratch memory */
    size_t at, n;
    uint64_t sum;
    int64_t offset; /* in the body */
};
struct arrow_body { /* reused for each batch */
    struct ctr_buf nodes, parts, scratch, packed;
    struct ctr_buf clean; /* struct ctr_colbuf *: items of rewritten lists */
    int nnodes, nparts;
    int64_t length;
};
void ctr_body_clear(struct arrow_body *b);
void ctr_body_free(struct arrow_body *b);
/* Append rows [from, from+n) of a column (its indices if encoded). Canonical: null slots hold zeros, bits past the end
 * are 0, offsets start at 0, so that equal rows give equal bytes. */
int ctr_body_column(struct arrow_body *b, const struct ctr_col *c, int32_t width, int64_t from, int64_t n,
                    struct ctr_err *err) CTR_MUST;
/* Compress, hash and lay out. */
int ctr_body_seal(struct arrow_body *b, enum ctr_compression how, struct ctr_err *err) CTR_MUST;
static inline struct arrow_part *ctr_body_parts(const struct arrow_body *b)
{
    return (struct arrow_part *)b->parts.data;
}

/* ---- arrow-meta.c: our metadata ---- */

/* The message (prefix and metadata, padded so that a body at `offset` + its length is aligned) of a schema, a batch or
 * a dictionary (id >= 0), at *link, which moves on. `extra` may be NULL. */
int ctr_meta_schema(struct ctr_fbw *w, const struct ctr_schema *s, struct arrow_link *link, int64_t offset,
                    struct ctr_err *err) CTR_MUST;
int ctr_meta_batch(struct ctr_fbw *w, const struct arrow_body *b, int64_t rows, int64_t dict_id,
                   struct arrow_link *link, enum ctr_compression how, const struct ctr_meta *extra,
                   struct ctr_err *err) CTR_MUST;

struct arrow_block { /* as in the footer of an IPC file */
    int64_t offset;
    int64_t meta_length; /* followed by 4 bytes of padding in the file; includes the prefix */
    int64_t body_length;
};
int ctr_meta_footer(struct ctr_fbw *w, const struct ctr_schema *s, const struct arrow_block *dicts, size_t ndicts,
                    const struct arrow_block *blocks, size_t nblocks, const struct ctr_meta *extra,
                    struct ctr_err *err) CTR_MUST;

/* ---- compress.c ---- */

/* Append an IPC-compressed buffer (int64 length, then the data; or -1 and the uncompressed data). */
int ctr_ipc_compress(enum ctr_compression how, const void *p, size_t n, struct ctr_buf *out,
                     struct ctr_err *err) CTR_MUST;
/* The inverse; `most` limits the result, and memory grows with the actual output. */
int ctr_ipc_decompress(enum ctr_compression how, const uint8_t *p, size_t n, int64_t most, struct ctr_buf *out,
                       struct ctr_err *err) CTR_MUST;

/* ---- arrow-parse.c: any metadata, validated ---- */

struct arrow_field {
    char *name;
    enum arrow_kind kind;
    int bits;       /* of an int, float, decimal or time */
    bool is_signed; /* int */
    int unit;       /* time unit: 0 s, 1 ms, 2 us, 3 ns; date: 0 day, 1 ms; union: 0 sparse, 1 dense */
    int32_t width;  /* fixed size list or binary */
    int scale;      /* decimal */
    bool bytes;     /* binary that is returned unchecked, not as text */
    bool dict;
    int64_t dict_id;
    int index_bits;
    bool index_signed;
    const struct arrow_field *up; /* its parent; NULL for a column */
    struct arrow_field *child;
    int nchild;
    struct ctr_meta meta;
    int node, buffer, variadic; /* first of its own in a batch, or in the dictionary that contains it */
};
struct arrow_schema {
    struct arrow_field *f;
    int n;
    struct ctr_meta meta;
    int nodes, buffers, variadics; /* number of its own in a batch */
};
void ctr_arrow_free(struct arrow_schema *s);

/* A parsed message; points into its metadata. */
struct arrow_message {
    struct ctr_fbr fb;
    int type; /* ARROW_SCHEMA … */
    int64_t body_length;
    struct ctr_fb_view header;
    int64_t dict_id; /* ARROW_DICTIONARY */
    bool delta;
    /* batch or dictionary */
    int64_t rows;
    const uint8_t *nodes, *buffers, *variadic;
    size_t nnodes, nbuffers, nvariadic;
    enum ctr_compression codec;
    /* seal */
    bool sealed, any_ctr;
    int64_t seq, trailer_rows, trailer_batches; /* -1: absent */
    const char *sums;
    size_t sums_n;
    const char *seal, *after; /* 32 digits each; after: NULL in older streams */
};
/* `p`: prefix and metadata, n bytes. Checks the seal, if there is one. */
int ctr_message_parse(struct arrow_message *m, const uint8_t *p, size_t n, struct ctr_buf *scratch,
                      struct ctr_err *err) CTR_MUST;
int ctr_arrow_schema(struct arrow_schema *s, const struct ctr_fb_view *t, struct ctr_err *err) CTR_MUST;
/* Is it a list of any layout? The 16 bytes of a UUID? */
bool ctr_arrow_list(const struct arrow_field *f);
bool ctr_arrow_uuid(const struct arrow_field *f);
/* The name of a field's type if it is unsupported, else NULL; and the error about it. */
const char *ctr_arrow_foreign(const struct arrow_field *f);
int ctr_arrow_refuse(const struct arrow_field *f, struct ctr_err *err) CTR_MUST;

struct arrow_footer {
    struct arrow_block *dicts, *blocks;
    size_t ndicts, nblocks;
    struct ctr_meta meta;
    bool sealed;
};
int ctr_footer_parse(struct arrow_footer *f, struct arrow_schema *s, const uint8_t *p, size_t n,
                     struct ctr_buf *scratch, struct ctr_err *err) CTR_MUST;
void ctr_footer_free(struct arrow_footer *f);

/* ---- body.c: the buffers of a message, verified before they are used ---- */

/* Another program may write to a mapped file. So a copy is verified, except for values of a keyed file, which may be
 * large and accessed randomly: no address depends on them, and ctr_source_unchanged is called after reading them. */
struct arrow_data {
    const struct arrow_message *m;
    const uint8_t *body;
    struct ctr_buf seen; /* one byte per buffer: verified and unpacked */
    struct arrow_own {
        struct ctr_buf copy, plain; /* copy of mapped bytes; decompressed bytes */
    } * own;                        /* by buffer */
    int nown;
    struct ctr_reader_stats *stats;
    const struct arrow_source *file; /* or NULL: a buffer is read of it when it is used … */
    int64_t file_at, have;           /* … from here on, but for the first bytes of the body, which are there */
    int64_t held;                    /* bytes of memory that the buffers used so far take */
    int64_t written;                 /* bytes of texts and lists that share theirs, once each is written out */
    bool uncharged;                  /* they may take more than ctr_memory_batch */
    bool mapped;                     /* bytes are read when a buffer is used */
    bool copied;                     /* copy values, too */
    bool trusted;                    /* these bytes have been verified before */
};
int ctr_data_set(struct arrow_data *d, const struct arrow_message *m, const uint8_t *body, struct ctr_reader_stats *st,
                 struct ctr_err *err) CTR_MUST;
void ctr_data_free(struct arrow_data *d);
int ctr_data_node(const struct arrow_data *d, int node, int64_t *rows, int64_t *nulls, struct ctr_err *err) CTR_MUST;
/* Buffer i, which must have `need` bytes; its length in *n, if n is not NULL. */
int ctr_data_buffer(struct arrow_data *d, int i, int64_t need, const uint8_t **p, int64_t *n,
                    struct ctr_err *err) CTR_MUST;
/* The same for values, on which no address depends. */
int ctr_data_values(struct arrow_data *d, int i, int64_t need, const uint8_t **p, struct ctr_err *err) CTR_MUST;
/* The bitmap of a node's buffer, checked against its null count; NULL without nulls. */
int ctr_data_valid(struct arrow_data *d, int i, int64_t rows, int64_t nulls, const uint8_t **p,
                   struct ctr_err *err) CTR_MUST;

/* ---- normalise.c: arrow arrays to columns ---- */

/* Storage of a decoded column: level 0 is the column, level 1 its items. */
struct arrow_level {
    struct ctr_col col;
    struct ctr_buf data, offsets, valid;
    struct ctr_colbuf gathered; /* values of a dictionary, if it must not be kept */
    struct ctr_colbuf few;      /* the entries of a large dictionary that rows use */
    struct ctr_colbuf spread;   /* rows of runs, or items of views, which may repeat */
    bool gathered_set, few_set, spread_set;
};
struct arrow_store {
    struct arrow_level lv[2];
};
/* The values of a dictionary on the path of a leaf. */
struct arrow_dict {
    bool ready, grown_set;
    struct arrow_store store;
    struct ctr_colbuf grown; /* after a delta */
    struct ctr_col col;
    struct ctr_buf place;  /* scratch: uint32_t per entry, 0; see few_entries */
    struct ctr_buf chosen; /* scratch: int64_t: which entries */
    struct arrow_data data;
    struct arrow_message m;
    struct ctr_buf meta, body; /* col points into them */
};
/* A column of a batch that is not in the batch's own bytes. */
struct arrow_decoded {
    struct arrow_store store;
    struct ctr_buf index; /* see ctr_leaf_conform */
    struct ctr_col conformed;
};
/* One column of ours: the path of fields that leads to its values. */
struct arrow_leaf {
    const struct arrow_field *path[ARROW_MAX_DEPTH + 1];
    int depth;
    struct ctr_field field;            /* the resulting field; owns name and meta */
    const struct arrow_field *foreign; /* the field that makes it CTR_FOREIGN */
    struct ctr_decimal *decimal;       /* what the caller wants of its decimals, or NULL */
    int64_t most_written;              /* as of ctr_reader_opts */
    const char *written_option;
    struct arrow_decoded out[2];                  /* of the current batch, and of the one read ahead */
    struct arrow_dict *dict[ARROW_MAX_DEPTH + 1]; /* if path[i] is encoded */
};
struct arrow_leaves {
    struct arrow_leaf *l;
    int n, cap;
};
/* The columns of a schema, and their storage: leaves.c. Unsupported columns are an error, or become CTR_FOREIGN. `o`
 * may be NULL. */
int ctr_leaves_make(struct arrow_leaves *ls, const struct arrow_schema *s, const struct ctr_reader_opts *o,
                    struct ctr_err *err) CTR_MUST;
int ctr_leaf_refuse(const struct arrow_leaf *l, struct ctr_err *err) CTR_MUST;
void ctr_leaves_free(struct arrow_leaves *ls);
/* The column of a batch; valid until the next call with out[at], or until the bytes of the batch or a dictionary are
 * released. */
int ctr_leaf_decode(struct arrow_leaf *l, int at, struct arrow_data *d, const struct ctr_col **out,
                    struct ctr_err *err) CTR_MUST;
/* The same column, encoded or not as the promised schema requires. */
int ctr_leaf_conform(struct arrow_leaf *l, int at, bool dict, const struct ctr_col **c, struct ctr_err *err) CTR_MUST;
/* A dictionary has arrived: copy the part that this leaf needs. */
int ctr_leaf_dictionary(struct arrow_leaf *l, const struct arrow_message *m, const uint8_t *body,
                        struct ctr_reader_stats *st, struct ctr_err *err) CTR_MUST;

/* ---- values_foreign.c: values of types that have none of ours; c has rows, validity and our type ---- */

/* Decimals of 32 to 256 bits to int64 or float64, or to text in lv; times and durations to milliseconds; 16 bytes to
 * text in lv. rounded: NULL, or counts the decimals that a float64 rounds, which else are errors. */
int ctr_decimal_values(const struct ctr_col *c, const uint8_t *p, int bits, int scale, void *to, int64_t *rounded,
                       struct ctr_err *err) CTR_MUST;
int ctr_decimal_texts(const struct ctr_col *c, const uint8_t *p, int bits, int scale, struct arrow_level *lv,
                      struct ctr_err *err) CTR_MUST;
int ctr_span_values(const struct ctr_col *c, const uint8_t *p, int bits, int unit, int64_t *to,
                    struct ctr_err *err) CTR_MUST;
int ctr_uuid_values(const struct ctr_col *c, const uint8_t *p, struct arrow_level *lv, struct ctr_err *err) CTR_MUST;

/* ---- source.c: bytes of a pipe or file ---- */

struct arrow_source {
    int fd;
    bool own_fd, from_pipe, pollable, eof;
    bool grows;          /* a file that is followed */
    bool replaced;       /* another file has its name now */
    struct ctr_buf tail; /* the last bytes read */
    char *name;
    struct ctr_buf look; /* read ahead: [at, look.len) */
    size_t at;
    int64_t offset;     /* bytes returned */
    const uint8_t *map; /* of a file that others may write to: bytes that are read twice must be copied first */
    int64_t map_size;
    struct ctr_file_state opened; /* its state at opening */
    const struct ctr_reader_opts *opts;
    struct ctr_reader_stats *stats;
};
int ctr_source_open(struct arrow_source *s, const char *path, const struct ctr_reader_opts *opts,
                    struct ctr_reader_stats *st, struct ctr_err *err) CTR_MUST;
void ctr_source_close(struct arrow_source *s);
/* Read up to n bytes into out (replacing its content); out->len < n only at the end of input. Memory grows with the
 * bytes received. */
int ctr_source_read(struct arrow_source *s, struct ctr_buf *out, int64_t n, struct ctr_err *err) CTR_MUST;
/* Take n bytes without reading them, where they lie in a file that can be read anywhere: 1, and `out` has room for
 * them, whose first *have are there. 0: nothing is taken. */
int ctr_source_defer(struct arrow_source *s, struct ctr_buf *out, int64_t n, int64_t *have,
                     struct ctr_err *err) CTR_MUST;
int ctr_source_read_at(const struct arrow_source *s, uint8_t *to, int64_t n, int64_t at, struct ctr_err *err) CTR_MUST;
/* Look at the next bytes without consuming them: *got of n are available. */
int ctr_source_peek(struct arrow_source *s, size_t n, const uint8_t **p, size_t *got, struct ctr_err *err) CTR_MUST;
/* Is it the file that was opened, in the same state? Otherwise an error. A followed file may grow. */
int ctr_source_unchanged(const struct arrow_source *s, struct ctr_err *err) CTR_MUST;
/* After damage: find the next offset from `from` on at which the valid schema message of a sealed stream starts. 1:
 * found; 0: none, or the input is not a regular file. */
int ctr_source_resync(struct arrow_source *s, int64_t from, struct ctr_buf *scratch, struct ctr_err *err) CTR_MUST;

/* ---- ipcfile.c: a mapped IPC file ---- */

struct ctr_ipcfile {
    const uint8_t *map;
    int64_t size, footer_at;
    struct ctr_buf copy; /* of the current metadata */
    struct arrow_footer footer;
    struct arrow_schema schema;
    int64_t rows;      /* of all blocks, from the seal; -1: no seal */
    const char *seals; /* of the footer: 32 digits for each message; NULL in older files */
};
/* Check the footer, that blocks are at valid positions and, in a sealed file, both ends and that there are no gaps. */
int ctr_ipcfile_open(struct ctr_ipcfile *f, const uint8_t *map, int64_t size, struct ctr_buf *scratch,
                     struct ctr_err *err) CTR_MUST;
void ctr_ipcfile_close(struct ctr_ipcfile *f);
/* Parse block i (or dictionary i) into *m, which is valid until the next one; its body begins at *body. */
int ctr_ipcfile_message(struct ctr_ipcfile *f, bool dict, size_t i, struct arrow_message *m, const uint8_t **body,
                        struct ctr_buf *scratch, struct ctr_err *err) CTR_MUST;

#endif
