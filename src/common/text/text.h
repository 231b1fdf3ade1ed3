/* SPDX-License-Identifier: Apache-2.0
 *
 * text: text logs to batches (ctr-import) and back (ctr-export). A format is one `const struct ctr_text_format` in one
 * file and one row of ctr_text_formats[] (text.c); the rest is shared: reading lines, the policy for bad rows,
 * inference of types, selection of columns, conversion of cells.
 *
 *     struct ctr_import *im;  const struct ctr_batch *b;
 *     ctr_import_open(&im, &opts, paths, n, err)             reads the first block, decides the schema
 *     while ((rc = ctr_import_next(im, &b, err)) > 0)  …     b is borrowed until the next call
 *     ctr_import_finish(im, err)                             commits the quarantine
 *
 * Processing: ctr_lines returns blocks of whole records; a block is a job; the format's `parse` turns it into rows of
 * job->out and reports unreadable records with ctr_job_bad. parse uses only the job and constant state, so jobs may run
 * on several threads; ctr_import applies the policy in input order, and the result depends neither on threads nor on
 * block boundaries.
 */
#ifndef CTR_TEXT_H
#define CTR_TEXT_H

#include "common/stream/batch.h"
#include "common/stream/condition.h"

/* ---- lines: lines.c ---- */

/* The files in sequence ("-" or none: stdin); gzip, zstd, lz4, bzip2 and xz are detected by content; a UTF-8 byte order
 * mark is dropped; latin1 becomes UTF-8. A block never spans two files. */
struct ctr_lines;
struct ctr_lines_opts {
    bool latin1;
    bool in_plan;          /* see ctr_text_opts */
    bool no_sample;        /* the first block may hold fewer than CTR_SAMPLE_ROWS records */
    bool no_empty;         /* a file without a byte is an error */
    bool early;            /* it may also end where input pauses; ctr_lines_sample then requests the rest */
    const char *delimiter; /* not NULL: CSV quoting with this delimiter (one byte): a newline inside "…" at the start of
                              a field does not end the record */
    int idle_ms;           /* > 0: return what has arrived after so long without input */
    int64_t skip_lines;    /* at the start of each file */
    const char *comment;   /* not NULL: records that begin with it may hold anything; the first ones are dropped */
    char escape;           /* not 0: the byte behind it ends neither a record nor a quote */
    bool trim;             /* a quote may stand behind blanks */
    bool sep;              /* a first line "sep=X" sets the delimiter */
    size_t block_bytes;    /* up to CTR_RECORD_BYTES; 0: CTR_BLOCK_BYTES */
};
#define CTR_BLOCK_BYTES  ((size_t)256 << 10) /* with the rows made of it, fits in a second-level cache */
#define CTR_RECORD_BYTES ((size_t)16 << 20)  /* a longer record is a bad row, returned in parts */

/* Whole records; or the first part of a record that is too long, or a later part. Only the last part ends with '\n'. */
enum ctr_text_part { CTR_TEXT_WHOLE, CTR_TEXT_LONG, CTR_TEXT_LONG_REST };

struct ctr_text_block {
    const char *p; /* whole records, each ended by '\n' (added if the file's last line lacks it); "\r\n" is kept. */
    size_t n;      /* CTR_PAD bytes after the end may be read */
    const char *file;
    int64_t first_line; /* 1-based line number in the file of p[0] */
    enum ctr_text_part part;
    bool file_start; /* p[0] is the first byte of its file */
    bool idle; /* returned because input paused: the rows of this and earlier blocks should be sent on. It is empty if
                  those blocks were already returned */
    bool more; /* the file continues, with a long record or with unreadable data */
    bool utf8; /* the block is well-formed UTF-8: cells need no check */
};

int ctr_lines_open(struct ctr_lines **l, char *const *paths, int n, const struct ctr_lines_opts *o,
                   struct ctr_err *err) CTR_MUST;
/* 1: a block, valid until the `slots`-th following call (see ctr_lines_slots); 0: end; < 0: error. The first block of
 * whole records holds CTR_SAMPLE_ROWS of them, or all up to the end of the file or to a record that is too long,
 * regardless of idle_ms (but see `early`). */
int ctr_lines_next(struct ctr_lines *l, struct ctr_text_block *b, struct ctr_err *err) CTR_MUST;
/* Return the last block, an idle one, again, with the rest of the sample. */
void ctr_lines_sample(struct ctr_lines *l, const struct ctr_text_block *b);
/* Number of blocks valid at a time (default 1): the slots-th call of ctr_lines_next after a block invalidates it. */
int ctr_lines_slots(struct ctr_lines *l, int slots, struct ctr_err *err) CTR_MUST;
const char *ctr_lines_sep(const struct ctr_lines *l);  /* the delimiter that a first line "sep=X" set, or "" */
int64_t ctr_lines_comments(const struct ctr_lines *l); /* before the first record of a file */
bool ctr_lines_packed(const struct ctr_lines *l);      /* a file so far is compressed: damage can be seen late */
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
    CTR_TEXT_DIALECT = 1 << 6,   /* --escape, --comment, --trim, --decimal, --thousands */
};

struct ctr_text_format;
struct ctr_text_opts {
    const struct ctr_text_format *format;
    bool header;
    const char *columns;          /* NAME[=SOURCE][:TYPE],… SOURCE is a header cell or a path; X[1..26] expands */
    bool optional;                /* a path that no row has makes a column of nulls; else it is an error at the end */
    const char *delimiter;        /* NULL: the format's */
    const char *escape;           /* NULL, or one byte, see csvdialect.c */
    const char *comment;          /* NULL, or how lines begin that are left out */
    const char *decimal;          /* NULL: a point */
    const char *thousands;        /* NULL: none */
    bool trim;                    /* blanks around a cell are no part of it */
    int64_t skip_lines;           /* at the start of each file */
    const struct ctr_strs *nulls; /* NULL or none: an empty cell is null */
    bool latin1;
    const struct ctr_schema *like;      /* NULL, or the schema to produce */
    const struct ctr_strs *only;        /* NULL, or the columns that --for needs */
    const struct ctr_strs *lack;        /* NULL, or those of them that may be missing */
    const struct ctr_strs *keep;        /* NULL, or additional columns besides `only` */
    const char *role[CTR_NROLES];       /* --label NAME, …; time: NAME[:FORMAT|unix|unix_ms|…] */
    const char *bad_rows;               /* NULL or fail | skip=MAX | quarantine=FILE */
    const char *schema;                 /* Parquet: NULL or union | first | strict, see parquet.h */
    bool partitions;                    /* Parquet: NAME=VALUE folders of a path are columns */
    int part, parts;                    /* Parquet: 0, 0, or read every parts-th file; columns are of all */
    const struct ctr_conditions *where; /* Parquet: NULL, or rows of which this does not hold may be left out */
    const char *keys;                   /* libsvm, libffm, vw: NULL or hash | key | text, see fields.h */
    bool binary;                        /* the same: labels -1 and 1 are 0 and 1 */
    int jobs;
    int idle_ms;
    int64_t batch_rows; /* per thread: rows returned together, or a multiple of that (0: one block's rows, -1: by
                           ctr_schema_batch_rows) */
    bool no_empty;      /* a file without a byte is an error */
    size_t block_bytes; /* up to CTR_RECORD_BYTES; 0: CTR_BLOCK_BYTES; does not affect the result */
    /* NULL, or may replace the inferred type of a column (true); `seen`: the first rows have a value. Later values are
     * then checked as if it had been inferred. */
    bool (*settle)(void *ctx, const char *column, bool seen, struct ctr_field *type);
    void (*note)(void *ctx, const char *text); /* NULL, or receives warnings about the first rows */
    void *ctx;
    bool in_plan; /* the options are those of a view of a plan: messages name them so */
};
/* An option as its user writes it, for messages: "--header" of ctr-import, "header=true" of a view of a plan; with a
 * value: "--columns a:utf8" and "columns=\"a:utf8\"". `option` is a literal without dashes. */
struct ctr_text_option {
    char s[320];
};
struct ctr_text_option ctr_text_option(const struct ctr_text_opts *o, const char *option);
struct ctr_text_option ctr_text_setting(const struct ctr_text_opts *o, const char *option, const char *fmt, ...)
    CTR_PRINTF(3, 4);
void ctr_text_note(const struct ctr_text_opts *o, const char *fmt, ...) CTR_PRINTF(2, 3);

/* The delimiter: the text itself, or tab for an escape, which is easier to type in a shell. */
static inline const char *ctr_text_delimiter(const char *s)
{
    return s && !strcmp(s, "\\t") ? "\t" : s;
}

/* ---- columns: import_columns.c, cell.c ---- */

/* A column of the input: its name and type. */
struct ctr_text_column {
    char *name;              /* in the stream */
    char *source;            /* in the input: a header cell, a path; NULL: by position */
    struct ctr_field type;   /* name unused; valid if typed, or after ctr_text_schema */
    bool typed;              /* type was given, else it is inferred */
    bool inferred;           /* type inferred from the first rows: later values must not contradict it */
    bool blank;              /* … and the first rows have only nulls */
    bool settled;            /* ctr_text_opts.settle replaced the inferred type */
    bool like;               /* the type comes from --like */
    unsigned seen;           /* value classes for the inference, see ctr_infer; for a list, of its items */
    char *time_format;       /* for CTR_TIME: NULL is ISO 8601 (see ctr_time_parse) */
    struct ctr_local *local; /* of a time_format local:ZONE: ISO 8601 by the clocks of that zone */
    int out;                 /* after ctr_text_schema: index in the schema, or -1: skip it without parsing */
};
struct ctr_text_columns {
    struct ctr_text_column *c;
    int n, cap;
};
int ctr_text_columns_add(struct ctr_text_columns *l, const char *name, size_t n, struct ctr_err *err) CTR_MUST;
void ctr_text_columns_free(struct ctr_text_columns *l);
/* The column of that name, or -1; `need`: or an error that names the nearest (`what`: the requesting option). */
int ctr_text_columns_find(const struct ctr_text_columns *l, const char *name, size_t n);
int ctr_text_columns_need(const struct ctr_text_columns *l, const char *what, const char *name,
                          struct ctr_err *err) CTR_MUST;
/* Parse --columns. Names with , : = [ are in back quotes; a type may be timestamp[FORMAT]. */
int ctr_text_columns_parse(struct ctr_text_columns *l, const struct ctr_text_opts *o, struct ctr_err *err) CTR_MUST;
/* Turn the list of input columns (names known, in input order) into `schema`: applies types of `infer` (one per column,
 * may be NULL if all are typed), --like, --for, roles and --time; sets type and out of every column. */
struct ctr_infer;
int ctr_text_schema(struct ctr_text_columns *l, const struct ctr_infer *infer, const struct ctr_text_opts *o,
                    struct ctr_schema *schema, struct ctr_err *err) CTR_MUST;

/* Type inference. Pass each non-null value of the sample, then ask: int64; uint64 if a value needs it and none is
 * negative; float64; bool for true and false only (not 0 and 1); a time for ISO 8601 in csv and tsv; else utf8, also
 * where a number would lose digits: leading zeros, integers beyond 64 bits, and among non-integers those beyond 2^53
 * that float64 cannot represent. A column with only nulls is utf8. */
struct ctr_infer {
    int64_t values;
    unsigned seen; /* classes of values, see cell.c */
};
void ctr_infer_see(struct ctr_infer *c, const char *p, size_t n);
enum ctr_type ctr_infer_type(const struct ctr_infer *c);
bool ctr_cell_time(const char *p, size_t n); /* is it a time as inference takes it? */
/* Is the column utf8 because a float64 would round its integers? */
bool ctr_infer_rounds(const struct ctr_infer *c);

/* A number that rounds to infinity is not a float16, as one beyond float32 is not a float32. */
static inline bool ctr_fits_f16(float f)
{
    return __builtin_isinf(f) || !(__builtin_fabsf(f) >= 65520);
}

/* A number with leading zeros or a plus, which the value loses: "007", "00.5", "+5". */
static inline bool ctr_cell_padded(const char *p, size_t n)
{
    const bool sign = n && (*p == '-' || *p == '+');
    return n && (*p == '+' || (n >= 2u + sign && p[sign] == '0' && (unsigned char)(p[sign + 1] - '0') <= 9));
}

/* A zero whose sign an integer loses. */
static inline bool ctr_cell_minus_zero(const char *p, size_t n)
{
    return n == 2 && p[0] == '-' && p[1] == '0';
}

/* Is this a valid value of type t for a column whose type was inferred? Not if it would have changed the inference,
 * that is, if it loses something as a t: padded numbers, -0 as an integer, 0 and 1 among true and false, integers that
 * float64 rounds. Whether it is a t at all is checked by the reader of t. */
bool ctr_cell_inferable(enum ctr_type t, const char *p, size_t n);

/* Append the text [p, p+n) to b, the buffer of the column or of its items: 1: done; 0: not a value of b's type, or not
 * valid in an inferred column (nothing is appended); < 0: no memory. The value must be the whole text, without blanks.
 * Lists are "[a,b]". The job says whether its block is UTF-8, and counts losses. */
struct ctr_text_job;
int ctr_cell_append(struct ctr_colbuf *b, const struct ctr_text_column *c, const char *p, size_t n,
                    struct ctr_text_job *j, struct ctr_err *err) CTR_MUST;

/* ---- jobs and bad rows: import.c ---- */

/* A quotation of the input for messages: its first 40 bytes, in quotes, with … if longer. */
struct ctr_text_shown {
    char s[176];
};
struct ctr_text_shown ctr_text_show(const char *p, size_t n);

/* Cells of columns with a given type whose value loses part of the text: they are kept, counted and reported. */
enum ctr_text_loss {
    CTR_LOSS_ROUNDED, /* integers that the float type cannot represent */
    CTR_LOSS_PADDED,  /* with --like: ctr_cell_padded; --columns requests the number */
    CTR_LOSS_LATE,    /* numbers that became text, as the first lines had only nulls */
    CTR_LOSS_FINER,   /* times with digits below a millisecond */
    CTR_NLOSSES
};
struct ctr_text_losses {
    bool present, filled;                      /* formats with paths: in some row; not as null */
    int64_t n[CTR_NLOSSES], open[CTR_NLOSSES]; /* open: in rows that may still become bad */
    struct ctr_text_shown first[CTR_NLOSSES];
};

struct ctr_text_record {
    const char *p; /* as in the block, with its newline */
    size_t n;
    int64_t line, rows; /* rows: of job->out, those of the records before it */
};
struct ctr_bad_row {
    struct ctr_text_record record;
    size_t why; /* offset of the reason in job->why */
};
struct ctr_text_job {
    const struct ctr_text_opts *o;
    struct ctr_text_block block;
    struct ctr_batchbuf out;
    struct ctr_buf scratch, scratch2; /* scratch memory of the format, kept between blocks of this job */
    struct ctr_bad_row *bad;
    int nbad, bad_cap;
    struct ctr_buf why;
    const char *hint; /* for ctr_job_bad_cell, which inserts it before the remedy and clears it; NULL: none */
    bool stop;        /* policy: the first bad row ends the import */
    bool bare;        /* with stop: the error names neither file, line nor options */
    int64_t whole;    /* rows of out that are kept if parse fails */
    int64_t bad_line; /* of the row that ended it; 0: none did */
    int64_t comments; /* lines of the block left out as comments */
    int64_t untaken; /* jsonl without --columns: number of the block's values without a column, and line of the first */
    int64_t untaken_line;
    struct ctr_text_shown untaken_key;
    struct ctr_text_losses *loss; /* one per column of the schema */
    bool lossy;                   /* there are unsettled losses */
    /* set by ctr_import */
    struct ctr_err err;
    int rc;
};

/* Report a record as bad; call ctr_job_rewind first if part of it was appended. `fmt` gives the reason, with column and
 * remedy ("column price: '12x' is no int64; --columns price:float64 settles it"); it is prefixed with file and line.
 * Returns 0: continue with the next record; < 0: return that from parse. */
int ctr_job_bad(struct ctr_text_job *j, const struct ctr_text_record *r, struct ctr_err *err, const char *fmt,
                ...) CTR_MUST CTR_PRINTF(4, 5);
/* Truncate all columns of j->out to `rows` rows, and discard the losses of the removed rows. */
void ctr_job_rewind(struct ctr_text_job *j, int64_t rows);
/* Text only because the first rows had no value: the numbers in it are counted (CTR_LOSS_LATE). */
static inline bool ctr_text_late(const struct ctr_text_column *c)
{
    return c->blank && c->type.type == CTR_UTF8;
}
/* The value that was read from [p, p+n) for column c loses something. When the row, and those since the last call, are
 * good, ctr_job_settle counts it. */
void ctr_job_loss(struct ctr_text_job *j, const struct ctr_text_column *c, enum ctr_text_loss k, const char *p,
                  size_t n);
/* A number of type t was read: record what it loses. */
void ctr_job_value(struct ctr_text_job *j, const struct ctr_text_column *c, enum ctr_type t, const char *p, size_t n);
void ctr_job_settle(struct ctr_text_job *j);
/* What to do about text that is not UTF-8, as the end of a message: p[0, n) is its line. */
struct ctr_text_option ctr_text_recode(const struct ctr_text_opts *o, const char *p, size_t n);
/* Report a cell that does not fit, with its remedy, with the same message for every format. */
int ctr_job_bad_cell(struct ctr_text_job *j, const struct ctr_text_record *r, const struct ctr_text_column *c,
                     struct ctr_str cell, struct ctr_err *err) CTR_MUST;

/* Returns the next record of a block at *p and sets its end, without line end; advances *p. NULL: no more. */
static inline const char *ctr_next_record(const char **p, const char *end, const char **line)
{
    const char *nl;

    if (*p >= end)
        return NULL;
    *line = *p;
    nl = memchr(*p, '\n', (size_t)(end - *p));
    *p = nl + 1; /* the block ends with a newline */
    return nl > *line && nl[-1] == '\r' ? nl - 1 : nl;
}

/* ---- formats: text.c ---- */

struct ctr_text_format {
    const char *name;
    const char *suffix;    /* ".csv": for guessing without --format, also before ".gz", ".zst", … */
    unsigned honours;      /* CTR_TEXT_*: any other option is a usage error */
    const char *delimiter; /* default */
    bool quoted;           /* CSV quoting: determines block boundaries */
    bool paths;            /* a column is a path that a row may lack: losses say which ones were there */
    /* Determine the schema from the options and the first block (n == 0: empty input), which is parsed later like every
     * other. *state is constant afterwards; close frees it (never called with NULL). */
    int (*open)(void **state, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                struct ctr_schema *schema, struct ctr_err *err);
    /* Parse all records of job->block into job->out. The format skips and checks a header (block.file_start). */
    int (*parse)(const void *state, struct ctr_text_job *job, struct ctr_err *err);
    void (*close)(void *state);
    /* The header line of the input, to be the first line of a quarantine file; NULL, or returns NULL: none. */
    const char *(*header)(const void *state, size_t *n);
    /* Are the types of the schema known without the first block? NULL: only if there is no header. */
    bool (*known)(const void *state);
    /* ctr-export has its own table (export.h). */
};
extern const struct ctr_text_format *const ctr_text_formats[];  /* NULL-terminated */
extern const struct ctr_text_format ctr_text_csv, ctr_text_tsv; /* csv.c: tsv has no quoting, cells are raw */
extern const struct ctr_text_format ctr_text_jsonl, ctr_text_libsvm, ctr_text_libffm, ctr_text_vw;
const struct ctr_text_format *ctr_text_format_find(const char *name);
const struct ctr_text_format *ctr_text_format_guess(const char *path); /* from the suffix, or NULL */
size_t ctr_text_unpacked_length(const char *path);                     /* of the name without .gz, .zst, … */

/* ---- import: import.c ---- */

struct ctr_import;
int ctr_import_open(struct ctr_import **im, const struct ctr_text_opts *o, char *const *paths, int n,
                    struct ctr_err *err) CTR_MUST;
const struct ctr_text_opts *ctr_import_opts(const struct ctr_import *im);
const struct ctr_schema *ctr_import_schema(const struct ctr_import *im);
/* Before the first batch: an error if the rows of which the schema was made hold a bad one, and bad rows are errors. */
int ctr_import_check(struct ctr_import *im, struct ctr_err *err) CTR_MUST;
bool ctr_import_idle(const struct ctr_import *im); /* this batch (perhaps without rows), or the schema before it, was
                                                      returned because input paused: flush */
int ctr_import_next(struct ctr_import *im, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;
/* Call after the last batch: commits the quarantine file and its reasons. */
/* CTR_EDATA also where no row has the path of a column that opts.columns names. */
int ctr_import_finish(struct ctr_import *im, struct ctr_err *err) CTR_MUST;
struct ctr_import_stats {
    int64_t rows, bad; /* kept; skipped or quarantined */
    int64_t bytes;
    int64_t comments; /* lines left out */
    /* jsonl: number of values without a column, because the first lines lack the member, and line of the first */
    int64_t untaken, untaken_line;
    char untaken_file[256];
    struct ctr_text_shown untaken_key;
    const struct ctr_text_losses *loss; /* one per column */
};
void ctr_import_get_stats(const struct ctr_import *im, struct ctr_import_stats *s);
bool ctr_import_packed(const struct ctr_import *im); /* ctr_lines_packed */
void ctr_import_free(struct ctr_import *im);
/* Report after the import: bad rows, losses of columns with given types, and values without a column. */
void ctr_import_notes(const struct ctr_import *im, const char *bad_rows, void (*note)(void *ctx, const char *text),
                      void (*warn)(void *ctx, const char *text), void *ctx);

#endif
