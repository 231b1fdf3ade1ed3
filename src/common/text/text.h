/* SPDX-License-Identifier: Apache-2.0
 *
 * text: text logs to batches (ctr-import) and back (ctr-export). A format is one `const struct ctr_text_format` in one
 * file and one row of ctr_text_formats[] (text.c); everything else is shared: the source of lines, the policy for bad
 * rows, the inference of types, the choice of columns, the conversion of a cell.
 *
 *     struct ctr_import *im;  const struct ctr_batch *b;
 *     ctr_import_open(&im, &opts, paths, n, err)             reads the first block, decides the schema
 *     while ((rc = ctr_import_next(im, &b, err)) > 0)  …     b is borrowed until the next call
 *     ctr_import_finish(im, err)                             commits the quarantine
 *
 * What happens to a line: ctr_lines hands out blocks of whole records; a block is a job; the format's `parse` turns it
 * into rows of job->out and reports the records that it cannot take with ctr_job_bad. parse sees nothing but the job
 * and the constant state, so jobs may run on several threads; ctr_import applies the policy in the order of the input,
 * and the result depends neither on threads nor on where blocks were cut.
 */
#ifndef CTR_TEXT_H
#define CTR_TEXT_H

#include "common/batch/batch.h"

/* ---- lines: lines.c ---- */

/* The files one after another ("-" or none: stdin); gzip, zstd and lz4 are known by content; a UTF-8 byte order mark is
 * dropped; latin1 becomes UTF-8. A block never spans two files. */
struct ctr_lines;
struct ctr_lines_opts {
    bool latin1;
    bool no_sample;        /* the first block need not hold CTR_SAMPLE_ROWS records */
    bool early;            /* nor where input pauses; a caller that needs them asks with ctr_lines_sample */
    const char *delimiter; /* not NULL: CSV quoting with this delimiter (one byte), a newline inside "…" at the start of
                              a field ends no record */
    int idle_ms;           /* > 0: hand out what is there when no input came for so long */
    size_t block_bytes;    /* up to CTR_RECORD_BYTES; 0: CTR_BLOCK_BYTES */
};
#define CTR_BLOCK_BYTES  ((size_t)256 << 10) /* with what is made of it, in a second-level cache */
#define CTR_RECORD_BYTES ((size_t)16 << 20)  /* a longer record is a bad row, which comes in parts */

/* Whole records; or the first part of one that is too long, or another one. The last of them ends with '\n', and no
 * other does. */
enum ctr_text_part { CTR_TEXT_WHOLE, CTR_TEXT_LONG, CTR_TEXT_LONG_REST };

struct ctr_text_block {
    const char *p; /* whole records, each ended by '\n' (supplied where the file lacks the last one); "\r\n" is kept. */
    size_t n;      /* CTR_PAD bytes after the end may be read */
    const char *file;
    int64_t first_line; /* 1-based line number in the file of p[0] */
    enum ctr_text_part part;
    bool file_start; /* p[0] is the first byte of its file */
    bool idle;       /* handed out because no more input came: what was made of it, and of those before, should be sent
                        on. It may have no records, when those before were handed out already */
    bool more;       /* the file goes on: with a long record, or with what cannot be read */
    bool utf8;       /* all of it is well-formed UTF-8: cells need no check of their own */
};

int ctr_lines_open(struct ctr_lines **l, char *const *paths, int n, const struct ctr_lines_opts *o,
                   struct ctr_err *err) CTR_MUST;
/* 1: a block, valid until the `slots`-th call after this one (see ctr_lines_slots); 0: end; < 0: error. The first
 * block of whole records holds CTR_SAMPLE_ROWS of them, or all up to the end of the file or a record that is too long,
 * whatever idle_ms says (but see `early`). */
int ctr_lines_next(struct ctr_lines *l, struct ctr_text_block *b, struct ctr_err *err) CTR_MUST;
/* Take back the block that came last, an idle one, to hand it out with the rest of the sample. */
void ctr_lines_sample(struct ctr_lines *l, const struct ctr_text_block *b);
/* How many blocks stay valid at a time (default 1): a block dies at the slots-th call of ctr_lines_next after it. */
int ctr_lines_slots(struct ctr_lines *l, int slots, struct ctr_err *err) CTR_MUST;
void ctr_lines_free(struct ctr_lines *l);
int64_t ctr_count_byte(const char *p, size_t n, char c);

#define CTR_SAMPLE_ROWS 1000

/* ---- options: what ctr-import was asked for ---- */

enum {
    CTR_TEXT_HEADER = 1 << 0,    /* --header */
    CTR_TEXT_DELIMITER = 1 << 1, /* --delimiter */
    CTR_TEXT_NULL = 1 << 2,      /* --null */
    CTR_TEXT_COLUMNS = 1 << 3,   /* --columns and --like */
    CTR_TEXT_FOR = 1 << 4,       /* --for */
    CTR_TEXT_KEYS = 1 << 5,      /* --keys, --binary */
};

struct ctr_text_format;
struct ctr_text_opts {
    const struct ctr_text_format *format;
    bool header;
    const char *columns;          /* NAME[=SOURCE][:TYPE],…  SOURCE is a header cell or a path; X[1..26] repeats */
    const char *delimiter;        /* NULL: the format's */
    const struct ctr_strs *nulls; /* NULL or none: an empty cell is null */
    bool latin1;
    const struct ctr_schema *like; /* NULL, or the schema to produce */
    const struct ctr_strs *only;   /* NULL, or the names of the columns that --for wants */
    const struct ctr_strs *lack;   /* NULL, or those of them that may be absent */
    const struct ctr_strs *keep;   /* NULL, or more columns besides `only` */
    const char *role[CTR_NROLES];  /* --label NAME, …; time: NAME[:FORMAT|unix|unix_ms|…] */
    const char *bad_rows;          /* NULL or fail | skip=MAX | quarantine=FILE */
    const char *keys;              /* libsvm, libffm, vw: NULL or hash | key | text, see fields.h */
    bool binary;                   /* the same: labels -1 and 1 are 0 and 1 */
    int jobs;
    int idle_ms;
    int64_t batch_rows; /* of one thread: rows given out together, or times that (0: as a block has them, -1: as
                           ctr_schema_batch_rows says) */
    size_t block_bytes; /* up to CTR_RECORD_BYTES; 0: CTR_BLOCK_BYTES; never changes the result */
    void (*note)(void *ctx, const char *text); /* NULL, or takes what looks odd about the first rows */
    void *ctx;
};
void ctr_text_note(const struct ctr_text_opts *o, const char *fmt, ...) CTR_PRINTF(2, 3);

/* What --delimiter means: itself, but for the tab that a shell makes hard to type. */
static inline const char *ctr_text_delimiter(const char *s)
{
    return s && !strcmp(s, "\\t") ? "\t" : s;
}

/* ---- columns: import_columns.c, cell.c ---- */

/* A column of the input: how it is called, what it becomes. */
struct ctr_text_column {
    char *name;            /* in the stream */
    char *source;          /* in the input: a header cell, a path; NULL: by position */
    struct ctr_field type; /* name unused; valid if typed or after ctr_text_schema */
    bool typed;            /* type was given, else it is inferred */
    bool inferred;         /* the type comes from the first rows: a later value is one that they could have had */
    bool like;             /* the type comes from --like */
    unsigned seen;         /* what it was inferred from, see ctr_infer; of a list, its items */
    char *time_format;     /* for CTR_TIME: NULL is ISO 8601 (see ctr_time_parse) */
    int out;               /* after ctr_text_schema: index in the schema, or -1: skip it unparsed */
};
struct ctr_text_columns {
    struct ctr_text_column *c;
    int n, cap;
};
int ctr_text_columns_add(struct ctr_text_columns *l, const char *name, size_t n, struct ctr_err *err) CTR_MUST;
void ctr_text_columns_free(struct ctr_text_columns *l);
/* The column of that name, or -1; `need`: or an error that names the nearest (`what`: the option that asked). */
int ctr_text_columns_find(const struct ctr_text_columns *l, const char *name, size_t n);
int ctr_text_columns_need(const struct ctr_text_columns *l, const char *what, const char *name,
                          struct ctr_err *err) CTR_MUST;
/* The text of --columns. Names with , : = [ stand in back quotes; a type may be timestamp[FORMAT]. */
int ctr_text_columns_parse(struct ctr_text_columns *l, const char *spec, struct ctr_err *err) CTR_MUST;
/* Finish the list of input columns (names known, in input order) into `schema`: types of `infer` (one a column, may be
 * NULL when all are typed), --like, --for, roles and --time applied; sets type and out of every column. */
struct ctr_infer;
int ctr_text_schema(struct ctr_text_columns *l, const struct ctr_infer *infer, const struct ctr_text_opts *o,
                    struct ctr_schema *schema, struct ctr_err *err) CTR_MUST;

/* Inference. See each value of the sample (not the nulls), then ask: int64; uint64 if a value needs it and none is
 * negative; float64; bool for true and false only (never 0 and 1); else utf8, also for what would lose digits: leading
 * zeros, integers beyond 64 bits, and beside what is no integer those beyond 2^53 that a float64 does not give back. A
 * column of nulls only is utf8. */
struct ctr_infer {
    int64_t values;
    unsigned seen; /* classes of values, see cell.c */
};
void ctr_infer_see(struct ctr_infer *c, const char *p, size_t n);
enum ctr_type ctr_infer_type(const struct ctr_infer *c);
/* Is the column utf8 because a float64 would round its integers? */
bool ctr_infer_rounds(const struct ctr_infer *c);

/* A number that would round to infinity is no float16, as one beyond float32 is none. */
static inline bool ctr_fits_f16(float f)
{
    return __builtin_isinf(f) || !(__builtin_fabsf(f) >= 65520);
}

/* Zeros or a plus in front of a number, which its value does not keep: "007", "00.5", "+5". */
static inline bool ctr_cell_padded(const char *p, size_t n)
{
    const bool sign = n && (*p == '-' || *p == '+');
    return n && (*p == '+' || (n >= 2u + sign && p[sign] == '0' && (unsigned char)(p[sign + 1] - '0') <= 9));
}

/* May a column whose type was inferred have this as a value of type t? Not if the sample would then have had another
 * type, as a cell may be t and yet lose something: padded numbers, 0 and 1 among true and false, integers that a
 * float64 rounds. Whether it is a t at all, the reader of t says. */
bool ctr_cell_inferable(enum ctr_type t, const char *p, size_t n);

/* Append the text [p, p+n) to b, the buffer of the column or of its items: 1 done; 0: it is no value of b's type, or
 * none that an inferred column takes (nothing is appended); < 0: no memory. The whole of the text must be the value; no
 * blanks. Lists are "[a,b]". The job says whether its block is UTF-8, and counts what is lost. */
struct ctr_text_job;
int ctr_cell_append(struct ctr_colbuf *b, const struct ctr_text_column *c, const char *p, size_t n,
                    struct ctr_text_job *j, struct ctr_err *err) CTR_MUST;

/* ---- jobs and bad rows: import.c ---- */

/* What the input says, made fit for a message: its first 40 bytes, in quotes, with … where it goes on. */
struct ctr_text_shown {
    char s[176];
};
struct ctr_text_shown ctr_text_show(const char *p, size_t n);

/* Cells whose value is not all that the text said, in columns whose type was given: they are kept, counted and told. */
enum ctr_text_loss {
    CTR_LOSS_ROUNDED, /* integers that the type of floats does not hold */
    CTR_LOSS_PADDED,  /* with --like: ctr_cell_padded; --columns asked for the number */
    CTR_NLOSSES
};
struct ctr_text_losses {
    int64_t n[CTR_NLOSSES], open[CTR_NLOSSES]; /* open: of rows that may turn out to be bad */
    struct ctr_text_shown first[CTR_NLOSSES];
};

struct ctr_text_record {
    const char *p; /* as it stands in the block, with its newline */
    size_t n;
    int64_t line;
};
struct ctr_bad_row {
    struct ctr_text_record record;
    size_t why; /* offset of the reason in job->why */
};
struct ctr_text_job {
    struct ctr_text_block block;
    struct ctr_batchbuf out;
    struct ctr_buf scratch, scratch2; /* the format's, kept from block to block of this job */
    struct ctr_bad_row *bad;
    int nbad, bad_cap;
    struct ctr_buf why;
    const char *hint; /* for ctr_job_bad_cell, which puts it before the remedy and forgets it; NULL: none */
    bool stop;        /* policy: the first bad row ends the import */
    int64_t untaken;  /* jsonl without --columns: values of the block that no column takes, and of the first of them */
    int64_t untaken_line;
    struct ctr_text_shown untaken_key;
    struct ctr_text_losses *loss; /* one a column of the schema */
    bool lossy;                   /* there are some that are not settled */
    /* ctr_import's */
    struct ctr_err err;
    int rc;
};

/* Report a record as bad, after ctr_job_rewind if part of it was appended. `fmt` gives the reason, with column and
 * remedy ("column price: '12x' is no int64; --columns price:float64 settles it"); file and line are put before it.
 * Returns 0: go on with the next record; < 0: return that from parse. */
int ctr_job_bad(struct ctr_text_job *j, const struct ctr_text_record *r, struct ctr_err *err, const char *fmt,
                ...) CTR_MUST CTR_PRINTF(4, 5);
/* Cut all columns of j->out back to `rows` rows, and forget what these lost. */
void ctr_job_rewind(struct ctr_text_job *j, int64_t rows);
/* A value of column c was read from [p, p+n) of type t: does it lose something? Once its row, and those before since
 * the last call, is good, ctr_job_settle counts it. */
void ctr_job_value(struct ctr_text_job *j, const struct ctr_text_column *c, enum ctr_type t, const char *p, size_t n);
void ctr_job_settle(struct ctr_text_job *j);
/* The reason for a cell that does not fit, with its remedy, the same words for every format. */
int ctr_job_bad_cell(struct ctr_text_job *j, const struct ctr_text_record *r, const struct ctr_text_column *c,
                     struct ctr_str cell, struct ctr_err *err) CTR_MUST;

/* The next record at *p of a block: its end without line end; *p moves on. NULL: no more. */
static inline const char *ctr_next_record(const char **p, const char *end, const char **line)
{
    const char *nl;

    if (*p >= end)
        return NULL;
    *line = *p;
    nl = memchr(*p, '\n', (size_t)(end - *p));
    *p = nl + 1; /* a block ends with one */
    return nl > *line && nl[-1] == '\r' ? nl - 1 : nl;
}

/* ---- formats: text.c ---- */

struct ctr_text_format {
    const char *name;
    const char *suffix;    /* ".csv": guessed when --format is not given, also before ".gz", ".zst", ".lz4" */
    unsigned honours;      /* CTR_TEXT_*: another option is a usage error */
    const char *delimiter; /* default */
    bool quoted;           /* CSV quoting: blocks are cut accordingly */
    /* Decide the schema from the options and the first block (n == 0: empty input), which is parsed afterwards like
     * every other. *state is constant from then on, and freed by close (NULL is never passed). */
    int (*open)(void **state, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                struct ctr_schema *schema, struct ctr_err *err);
    /* All records of job->block into job->out. A header (block.file_start) is the format's to skip and check. */
    int (*parse)(const void *state, struct ctr_text_job *job, struct ctr_err *err);
    void (*close)(void *state);
    /* The header line of the input, to stand first in a quarantine file; NULL or returns NULL: none. */
    const char *(*header)(const void *state, size_t *n);
    /* Do the types of the schema stand without the first block? NULL: not if there is a header. */
    bool (*known)(const void *state);
    /* ctr-export adds its own table (export.h). */
};
extern const struct ctr_text_format *const ctr_text_formats[];  /* NULL-terminated */
extern const struct ctr_text_format ctr_text_csv, ctr_text_tsv; /* csv.c: tsv has no quoting, cells are raw */
extern const struct ctr_text_format ctr_text_jsonl, ctr_text_libsvm, ctr_text_libffm, ctr_text_vw;
const struct ctr_text_format *ctr_text_format_find(const char *name);
const struct ctr_text_format *ctr_text_format_guess(const char *path); /* by suffix, or NULL */
size_t ctr_text_unpacked_length(const char *path);                     /* of the name without .gz, .zst or .lz4 */

/* ---- import: import.c ---- */

struct ctr_import;
int ctr_import_open(struct ctr_import **im, const struct ctr_text_opts *o, char *const *paths, int n,
                    struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_import_schema(const struct ctr_import *im);
bool ctr_import_idle(const struct ctr_import *im); /* the batch, which may have no rows, or the schema before it, came
                                                      because input paused: flush */
int ctr_import_next(struct ctr_import *im, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;
/* After the last batch: the quarantine and its reasons appear. */
int ctr_import_finish(struct ctr_import *im, struct ctr_err *err) CTR_MUST;
struct ctr_import_stats {
    int64_t rows, bad; /* kept; skipped or quarantined */
    int64_t bytes;
    /* jsonl: values that no column took, because the first lines have no such member, and the first of them */
    int64_t untaken, untaken_line;
    char untaken_file[256];
    struct ctr_text_shown untaken_key;
    const struct ctr_text_losses *loss; /* one a column */
};
void ctr_import_get_stats(const struct ctr_import *im, struct ctr_import_stats *s);
void ctr_import_free(struct ctr_import *im);
/* In words, once it has finished: bad rows, what columns of a given type do not keep of their cells, and values that no
 * column took. */
void ctr_import_notes(const struct ctr_import *im, const char *bad_rows, void (*note)(void *ctx, const char *text),
                      void *ctx);

#endif
