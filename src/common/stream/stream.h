/* SPDX-License-Identifier: Apache-2.0
 *
 * stream: reader and writer of the record stream, an Arrow IPC stream (or file) with an integrity layer in metadata
 * that other programs ignore. See ctr-stream(5). One reader and one writer serve every tool.
 *
 *     struct ctr_reader *r;  const struct ctr_batch *b;
 *     ctr_reader_open(&r, paths, npaths, NULL, err)
 *     while ((rc = ctr_reader_next(r, &b, err)) > 0)  … b is borrowed until the next call …
 *     rc == 0: the input was whole, to its trailer and end mark.  rc < 0: it was not; write no trailer.
 *     ctr_reader_free(r)
 *
 * What a reader hands out has been verified: metadata always, buffers of the wanted columns before they are used.
 */
#ifndef CTR_STREAM_H
#define CTR_STREAM_H

#include "common/stream/batch.h"

/* ---- reading ---- */

struct ctr_reader;

/* How the decimals of a column are read. */
struct ctr_decimal {
    char *name;
    enum ctr_type type; /* CTR_I64: an error where one has a fraction; CTR_F64: rounded; CTR_UTF8: with all digits */
    int64_t rounded;    /* how many were, so far */
};

struct ctr_reader_opts {
    bool lenient;      /* rescue: damage ends the input instead of an error, or skips to the next stream; see
                          ctr_reader_damage */
    const char *bytes; /* the column of this name (borrowed) may have type binary and hold bytes that are not text */
    bool mixed;    /* plain streams of one another's columns may differ in identity and roles; see ctr_reader_mixed */
    bool foreign;  /* unsupported column types are allowed if ctr_reader_project leaves them out: CTR_FOREIGN */
    bool sections; /* accept a bundle: ctr_reader_next ends after each section, continue with ctr_reader_section */
    const char
        *only; /* read the section of this name (borrowed) as a plain stream; the others are checked and skipped */
    int part, parts; /* of an IPC file: only blocks i with i mod parts == part (parts 0: all) */
    /* Called after idle_ms without input, so that a writer can flush (NULL: none). False: stop; next fails. */
    bool (*idle)(void *ctx);
    void *idle_ctx;
    int idle_ms;
    void (*note)(void *ctx, const char *text); /* of ctr_reader_notes, which ctr_reader_free calls; or NULL */
    void *note_ctx;
    struct ctr_decimal *decimal; /* of n columns (borrowed); those of others are exact as numbers, or an error */
    int ndecimals;
    bool follow; /* needs idle: the input may grow: the end of a file, or of the writers of a FIFO, does not end it */
    int64_t most_rows; /* of a batch; more are CTR_ELARGE before they are decoded (0: any). Nulls and runs of a large
                          array take few bytes: with it, items of lists are no more than the body has bits, either */
    const char *most_option; /* needs most_rows: the option that says so (borrowed) */
    int64_t most_written; /* bytes of a batch's texts and lists that share theirs (views, runs, dictionaries in lists)
                             once each is written out; more are CTR_ELARGE before they are (0: any) */
    const char *written_option; /* needs most_written: the option that says so (borrowed) */
    bool ahead; /* needs idle: a thread reads the next batch while the caller uses the last; same result */
};

/* Opens the files as one stream: n == 0 or "-" is stdin; each may be a stream, several streams one after another (`cat
 * a b`), or an IPC file (known by its magic; mapped into memory). Schemas must be equal; the message names the first
 * difference. A bundle without opts->sections is an error that lists the sections. Foreign streams are validated in
 * full. Stdin that is a terminal is an error that explains what to do. opts may be NULL. Paths are copied. */
int ctr_reader_open(struct ctr_reader **r, char *const *paths, int n, const struct ctr_reader_opts *opts,
                    struct ctr_err *err) CTR_MUST;
void ctr_reader_free(struct ctr_reader *r);

/* Valid until ctr_reader_free, or until ctr_reader_section moves on. */
const struct ctr_schema *ctr_reader_schema(const struct ctr_reader *r);

/* Before the first ctr_reader_next: keep these columns only, in this order; schema and batches change accordingly. The
 * other columns are not verified. */
int ctr_reader_project(struct ctr_reader *r, const int *columns, int n, struct ctr_err *err) CTR_MUST;

/* 1: *b is the next batch (rows may be 0 only in foreign streams); 0: end, and the input was whole; < 0: error, whose
 * message names file, batch and row. */
int ctr_reader_next(struct ctr_reader *r, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;

/* With opts->sections, after ctr_reader_next returned 0: 1 when another section follows (ctr_reader_schema then returns
 * its schema), 0 at the end of input. Also skips, but checks, the unread rest of a section. */
int ctr_reader_section(struct ctr_reader *r, struct ctr_err *err) CTR_MUST;

int64_t ctr_reader_rows(const struct ctr_reader *r);       /* returned so far, over all files */
int64_t ctr_reader_total_rows(const struct ctr_reader *r); /* from file footers, or -1 when unknown */
const char *ctr_reader_file(const struct ctr_reader *r);   /* name of the file being read; valid until free */
const char *
ctr_reader_damage(const struct ctr_reader *r); /* lenient: description and position of the damage, or NULL */

const char *
ctr_reader_mixed(const struct ctr_reader *r); /* mixed: a line for each stream that differed so far, or NULL */

/* The IPC file that is mapped at this address, or NULL. Async-signal-safe. Batches of a file are views of its pages; if
 * another program truncates the file, reading them raises SIGBUS, and the handler uses this name in its message. */
const char *ctr_mapped_file(const void *address);

struct ctr_reader_stats {
    int64_t batches, rows, messages;
    int64_t bytes_read;     /* from pipes and files; for a mapped file, bytes of the used buffers */
    int64_t bytes_verified; /* hashed */
    bool sealed;            /* the input has the integrity layer */
    int64_t times_cut;      /* to milliseconds … */
    char times_cut_in[64];  /* … in this column, the first that has such times … */
    bool entries_cut;       /* each counted once for all rows of its entry in a dictionary, or run … */
    int64_t others_cut;     /* … and in others */
};
void ctr_reader_get_stats(const struct ctr_reader *r, struct ctr_reader_stats *s);
/* Count times of a column that lost digits. */
void ctr_reader_count_cut(struct ctr_reader_stats *s, const char *column, int64_t times, bool entries);
/* For the user: how many times of foreign streams had digits below a millisecond, which are cut off; if any had. */
void ctr_reader_notes(const struct ctr_reader_stats *s, void (*note)(void *ctx, const char *text), void *ctx);

/* each(ctx, name, unit) for the durations in the schema of a message of Arrow, of which Parquet files hold a copy: the
 * name has dots behind structs, items of lists have that of the list; unit 0 s, 1 ms, 2 us, 3 ns. A message that is
 * damaged has none. */
int ctr_arrow_durations(const uint8_t *message, size_t n, void (*each)(void *ctx, const char *name, int unit),
                        void *ctx, struct ctr_err *err) CTR_MUST;

/* The files of part `part` of `parts`: every parts-th one, or, of one IPC file, the blocks; for ctr_reader_open. `path`
 * is the caller's to free, also after an error: shards.c. */
struct ctr_shard_files {
    char **path; /* borrowed names */
    int n, part, parts;
};
int ctr_shard_files(int part, int parts, char *const *path, int n, struct ctr_shard_files *mine,
                    struct ctr_err *err) CTR_MUST;

/* ---- identity: identity.c ---- */

/* Streams that are read as one, validated against each other or scored by a model have equal columns and one identity:
 * plan and fitted state, secret of the keys, types of the plan's inputs (those that become keys), network of vectors.
 */
struct ctr_difference {
    char what[700]; /* "… there and … here": there is the first argument */
    char remedy[240];
    bool of_identity; /* or of roles: the columns have the same names and types */
};
/* For readers and everything else that joins rows. Where no feature is left, plans do not matter. */
bool ctr_streams_same(const struct ctr_schema *there, const struct ctr_schema *here, struct ctr_difference *d);
enum {
    CTR_IDENTITY_SEED = 1,
    CTR_IDENTITY_PLAN = 2,
    CTR_IDENTITY_INPUTS = 4,
    CTR_IDENTITY_NETWORK = 8,
    CTR_IDENTITY_ALL = 15
};
/* The identity alone, in metadata of schemas: for a model, whose columns are others, and between ranks. */
bool ctr_identity_same(const struct ctr_meta *there, const struct ctr_meta *here, unsigned parts,
                       struct ctr_difference *d);
/* Remove it; `dropped` gets a list of what there was, for people. */
int ctr_identity_drop(struct ctr_schema *s, struct ctr_buf *dropped, struct ctr_err *err) CTR_MUST;

/* ---- batch sources: batch_source.c ---- */

/* A source of batches: a stream or files, text, or a stage over another source (ctr_select_source, ctr_join_source,
 * ctr_plan_source). Filters, trainers and raw-to-feature plans all read one:
 *
 *     struct ctr_batch_source s = ctr_batch_source_stream(reader);   s owns the reader
 *     ctr_select_source(&s, …), ctr_join_source(&s, …)               s becomes the stage, which owns the former s
 *     while ((rc = ctr_batch_source_next(&s, &b, err)) > 0)  …       b is borrowed until the next call
 *     ctr_batch_source_close(&s)                                     frees all stages
 *
 * If a function that puts a stage over *s fails, *s is unchanged. Each pass opens a new source. The rows depend neither
 * on threads nor on batch boundaries.
 *
 * A stage over one source begins its struct with that one, `struct ctr_batch_source below`. */
struct ctr_leave;
struct ctr_batch_source_ops {
    const struct ctr_schema *(*schema)(const void *source); /* NULL: that of `below` */
    /* 1: *b is the next batch, borrowed until the next call; 0: the end, and the input was whole; < 0: an error. */
    int (*next)(void *source, const struct ctr_batch **b, struct ctr_err *err);
    /* Of the file being read, for messages; valid until close. NULL: that of `below`. */
    const char *(*name)(const void *source);
    void (*close)(void *source);
    /* May be NULL. Before the first next: keep these columns only; the others are not read. */
    int (*project)(void *source, const int *columns, int n, struct ctr_err *err);
    /* May be NULL: ctr_batch_source_leave. */
    int (*leave)(void *source, const struct ctr_leave *l, const char **why, struct ctr_err *err);
};
struct ctr_batch_source {
    const struct ctr_batch_source_ops *ops; /* NULL: not open */
    void *source;
};
static inline const struct ctr_schema *ctr_batch_source_schema(const struct ctr_batch_source *s)
{
    return s->ops->schema ? s->ops->schema(s->source) : ctr_batch_source_schema(s->source);
}
static inline int ctr_batch_source_next(const struct ctr_batch_source *s, const struct ctr_batch **b,
                                        struct ctr_err *err)
{
    return s->ops->next(s->source, b, err);
}
static inline const char *ctr_batch_source_name(const struct ctr_batch_source *s)
{
    return s->ops->name ? s->ops->name(s->source) : ctr_batch_source_name(s->source);
}
static inline void ctr_batch_source_close(struct ctr_batch_source *s)
{
    if (s->ops)
        s->ops->close(s->source);
    s->ops = NULL;
}
/* The batches of a reader, which the source frees. */
struct ctr_batch_source ctr_batch_source_stream(struct ctr_reader *r);
/* Before the first next: keep these columns only, in this order. A source that must read all columns hides the others.
 */
int ctr_batch_source_project(struct ctr_batch_source *s, const int *columns, int n, struct ctr_err *err) CTR_MUST;
/* The same: keep the columns whose positions are in c (-1: none) and, if not NULL, these others, in the order of the
 * source; the positions become the new ones. */
int ctr_batch_source_keep(struct ctr_batch_source *s, int *const *c, int n, const bool *others,
                          struct ctr_err *err) CTR_MUST;
/* Regroup *s into batches of `rows` rows, counted from its start; shorter batches occur at the end of a file and where
 * the input breaks off. */
int ctr_batch_source_regroup(struct ctr_batch_source *s, int64_t rows, struct ctr_err *err) CTR_MUST;
/* Before the first next, for a reader on the device that makes the keys of these columns: leave them there, and the
 * numbers if they can be. A batch then has `left`, valid for `batches` batches with rows; the columns have no values,
 * lists of keys and of their nulls excepted. Batches begin and end as if they were regrouped by `rows`. A batch may
 * have all in its columns all the same. 1: done; 0: not for this source, *why (NULL: not for any of its kind) and
 * nothing changed. */
struct ctr_leave {
    const int *column, *list, *number; /* of keys, one a row; of lists of keys, of any length; of numbers, one a row */
    int n, lists, numbers;
    int batches;
    int64_t rows;
    const char *unwanted; /* NULL, or why this is not to be done, which then is the *why of a source that could */
};
static inline int ctr_batch_source_leave(const struct ctr_batch_source *s, const struct ctr_leave *l, const char **why,
                                         struct ctr_err *err)
{
    *why = NULL;
    return s->ops->leave ? s->ops->leave(s->source, l, why, err) : 0;
}
/* An object that consumes and produces batches: pass each input batch to `batch`, then call `next` until it returns 0;
 * after the last input call `finish`, then `next` for the remaining results. *s becomes the source of the object's
 * results and frees the object. */
struct ctr_push_ops {
    const struct ctr_schema *(*schema)(const void *object);
    int (*batch)(void *object, const struct ctr_batch *b, struct ctr_err *err);
    int (*finish)(void *object, struct ctr_err *err);
    int (*next)(void *object, const struct ctr_batch **b, struct ctr_err *err); /* 1, 0: more input, < 0 */
    void (*free)(void *object);
};
int ctr_batch_source_push(struct ctr_batch_source *s, const struct ctr_push_ops *push, void *object,
                          struct ctr_err *err) CTR_MUST;
/* Like the other stages, but all columns stay and the schema records that `program` ran with these options: for a stage
 * whose rows must equal the output of that filter byte for byte. */
int ctr_batch_source_provenance(struct ctr_batch_source *s, const char *program, const char *options,
                                struct ctr_err *err) CTR_MUST;

/* Run *s on its own thread, which makes up to `slots` batches ahead and then waits. The rows are unchanged. Closing
 * waits for the batch in progress. */
enum { CTR_STAGE_WAITS = 4096 }; /* the first ones are kept */
struct ctr_stage_waits {
    int64_t from_ns[CTR_STAGE_WAITS], to_ns[CTR_STAGE_WAITS]; /* ctr_clock_ns */
    int n;
};
struct ctr_stage_times {
    int64_t ran_ns;                            /* run time of the thread, from start to last batch */
    int64_t blocked_ns;                        /* part of it: all slots were full */
    int64_t starved_ns;                        /* wait time of the caller: no batch was ready */
    int64_t start_ns;                          /* of the thread */
    struct ctr_stage_waits *blocked, *starved; /* or NULL: when that was; the caller's */
};
/* "stage NAME: 60% busy, 30% waiting, 10% blocked of 2.50 s", for people: of its run time a stage waited for rows, was
 * blocked by the stage behind it, and was busy else. */
struct ctr_stage_text {
    char s[160];
};
struct ctr_stage_text ctr_stage_text(const char *name, int64_t ran_ns, int64_t waited_ns, int64_t blocked_ns);
int ctr_batch_source_queue(struct ctr_batch_source *s, int slots, struct ctr_stage_times *times /* or NULL */,
                           struct ctr_err *err) CTR_MUST;

/* Common features ("Image Matters" of Ge et al., CIKM 2018, section 7.2): encode these columns of *s (names, or
 * patterns with * and ?; lists too) by one dictionary per batch, so that the values that rows of one user share are
 * stored and written once. Batches have `rows` rows (0: CTR_BATCH_ROWS). Values and digest are unchanged. */
int ctr_dictionary_source(struct ctr_batch_source *s, const struct ctr_strs *columns, int64_t rows,
                          struct ctr_err *err) CTR_MUST;

/* ---- writing ---- */

struct ctr_writer;

enum ctr_compression { CTR_PLAIN, CTR_LZ4, CTR_ZSTD };

enum { CTR_BATCH_BYTES = 64 << 20 };
struct ctr_writer_opts {
    int64_t batch_rows;  /* 0: CTR_BATCH_ROWS */
    int64_t batch_bytes; /* maximum bytes of values per message (one row may exceed it); 0: CTR_BATCH_BYTES */
    enum ctr_compression compression;
    bool file;       /* an IPC file instead of a stream */
    const char *key; /* file: keyed by this column; rows must arrive sorted by it (checked) */
};

/* Writes to `out` (borrowed; several writers one after another make a bundle). The schema is copied. The writer
 * regroups rows into batches of batch_rows rows, or as many as fit in batch_bytes, so the bytes do not depend on the
 * input's batches; a batch that already fits is written without a copy. A changed dictionary or ctr_writer_flush causes
 * a short batch. */
int ctr_writer_open(struct ctr_writer **w, struct ctr_out *out, const struct ctr_schema *schema,
                    const struct ctr_writer_opts *opts, struct ctr_err *err) CTR_MUST;
int ctr_writer_batch(struct ctr_writer *w, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_writer_flush(struct ctr_writer *w, struct ctr_err *err) CTR_MUST;
/* Write the trailer and the end mark, which alone mark the data as complete. Does not commit `out`. */
int ctr_writer_finish(struct ctr_writer *w, struct ctr_err *err) CTR_MUST;
void ctr_writer_free(struct ctr_writer *w); /* never writes */
int64_t ctr_writer_rows(const struct ctr_writer *w);
const struct ctr_schema *ctr_writer_schema(const struct ctr_writer *w);

/* Provenance, like samtools' @PG: append "program\tversion\toptions\tparent" to the schema, unless the same line
 * exists. `options` holds only what changes results. */
int ctr_schema_provenance(struct ctr_schema *s, const char *program, const char *options, struct ctr_err *err) CTR_MUST;

/* ---- digest ---- */

/* A hash of schema (names, types, roles, tables, histories, sides, section) and rows in order; it ignores batch
 * boundaries, dictionary encoding, compression and provenance. */
struct ctr_digest;
int ctr_digest_new(struct ctr_digest **d, const struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_digest_batch(struct ctr_digest *d, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
void ctr_digest_hex(struct ctr_digest *d, char out[33]);
void ctr_digest_free(struct ctr_digest *d);

/* ---- keyed files ---- */

/* An IPC file sorted by one column, with the first key of each block in the footer (ctr-cat --to file --key COL). */
struct ctr_keyed;
int ctr_keyed_open(struct ctr_keyed **k, const char *path, struct ctr_err *err) CTR_MUST;
void ctr_keyed_free(struct ctr_keyed *k);
const struct ctr_schema *ctr_keyed_schema(const struct ctr_keyed *k);
int ctr_keyed_column(const struct ctr_keyed *k); /* index of the key column */
/* Looks up the n values of `keys` (a column of the key's type, any encoding) and appends one row per key to `out` (made
 * over ctr_keyed_schema), all null where the key is absent or null; a key repeated in the file gives its first row.
 * found[i] says whether key i exists (may be NULL). Reads and verifies only blocks that can hold a key and keeps them
 * in a small cache. */
int ctr_keyed_get_many(struct ctr_keyed *k, const struct ctr_col *keys, struct ctr_batchbuf *out, bool *found,
                       struct ctr_err *err) CTR_MUST;
int64_t ctr_keyed_blocks_read(const struct ctr_keyed *k);
int64_t ctr_keyed_bytes(const struct ctr_keyed *k); /* of the file */
/* As ctr_keyed_open, but *k is NULL for a valid input without keys: a pipe, a stream, an IPC file without keys. */
int ctr_keyed_try(struct ctr_keyed **k, const char *path, struct ctr_err *err) CTR_MUST;
/* Access by block: the number of blocks; the keys of a block (nothing else is read and verified), borrowed until the
 * next call; all columns of a block, borrowed until the next look-up or block. */
int64_t ctr_keyed_blocks(const struct ctr_keyed *k);
int ctr_keyed_keys(struct ctr_keyed *k, int64_t block, const struct ctr_col **keys, struct ctr_err *err) CTR_MUST;
int ctr_keyed_block(struct ctr_keyed *k, int64_t block, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;
/* A block, or bytes of one that lie in the map, will be read: the system begins to read them from disk, and does not
 * wait. Returns the bytes of the block. */
int64_t ctr_keyed_announce(const struct ctr_keyed *k, int64_t block);
void ctr_keyed_announce_bytes(const struct ctr_keyed *k, const void *p, size_t bytes);
/* Do these bytes of a block lie in the map? Then they stay there while the file is open. */
bool ctr_keyed_in_place(const struct ctr_keyed *k, const void *p, size_t bytes);
/* Call before using results from blocks: has another program written to the file? */
int ctr_keyed_unchanged(const struct ctr_keyed *k, struct ctr_err *err) CTR_MUST;

/* ---- mapped files ---- */

/* A sealed, uncompressed IPC file of numeric columns without nulls, whose values are read in place: pages of the file,
 * which processes share. Opening verifies the whole file. After reading values (any number of threads may), a caller
 * must check ctr_mapped_unchanged before it outputs results. */
struct ctr_mapped;
int ctr_mapped_open(struct ctr_mapped **m, const char *path, struct ctr_err *err) CTR_MUST;
void ctr_mapped_free(struct ctr_mapped *m);
const struct ctr_schema *ctr_mapped_schema(const struct ctr_mapped *m);
int64_t ctr_mapped_rows(const struct ctr_mapped *m);
int64_t ctr_mapped_block_rows(const struct ctr_mapped *m); /* of every block but the last, which may have fewer */
const void *ctr_mapped_values(const struct ctr_mapped *m, int64_t block, int column);
int ctr_mapped_unchanged(const struct ctr_mapped *m, struct ctr_err *err) CTR_MUST;

#include "common/stream/badrows.h"

#endif
