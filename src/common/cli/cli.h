/* SPDX-License-Identifier: Apache-2.0
 *
 * cli: the scaffold of every tool. A tool is one file that defines `const struct ctr_tool ctr_tool`; main() is here.
 * Its option table is the only source of parsing, --help, completion, provenance and the man page test.
 *
 *     static struct { const char *key; bool inner; } o;
 *     static const struct ctr_opt opts[] = {
 *         { "key", 'k', CTR_OPT_STR, "KEY[=KEY2],…", "columns to join on", &o.key, 0 },
 *         { "inner", 0, CTR_OPT_FLAG, NULL, "keep matched rows only", &o.inner, 0 },
 *         { 0 } };
 *     static int join_streams(struct ctr_cli *cli, struct ctr_err *err) { … }
 *     const struct ctr_tool ctr_tool = {
 *         "ctr-join", "join a stream with another", "-k KEY RIGHT [FILE…]", NULL, opts, 0, join_streams };
 *
 * It returns 0, or a negative enum ctr_code with *err filled: CTR_EUSAGE exits 2, CTR_ENO 3, the rest 1. The
 * scaffold prints the error as "ctr-join: FILE: what".
 */
#ifndef CTR_CLI_H
#define CTR_CLI_H

#include "common/stream/stream.h"

enum ctr_opt_kind {
    CTR_OPT_FLAG,     /* bool */
    CTR_OPT_STR,      /* const char * */
    CTR_OPT_CHOICE,   /* const char *; arg is "a|b|c:N" and the value is one of them, N a number */
    CTR_OPT_INT,      /* int64_t, >= 0 */
    CTR_OPT_REAL,     /* double, finite */
    CTR_OPT_SIZE,     /* int64_t bytes, > 0 */
    CTR_OPT_DURATION, /* int64_t ms */
    CTR_OPT_LIST,     /* struct ctr_strs: the option may be repeated */
    CTR_OPT_COUNT,    /* int, counts repetitions */
    CTR_OPT_READ,     /* any type: `read` parses the text */
    CTR_OPT_MAYBE,    /* const char *; "" for --name, or the value of --name=VALUE, which is a choice of arg */
};
enum {
    CTR_OPT_LOCAL = 1, /* does not change results: left out of provenance */
    CTR_OPT_PATH = 2,  /* completed as a file name; left out of provenance */
    CTR_OPT_ONCE = 4,  /* repeating it is an error */
    CTR_OPT_SOME = 8,  /* CTR_OPT_INT: must be > 0 */
    CTR_OPT_IDLE = 16, /* accepted without effect in this tool: not in the help */
    /* Most users need it. Where more than CTR_HELP_ROWS options have an effect, --help shows only these, and --help=all
     * all of them. */
    CTR_OPT_BASIC = 32,
};
enum { CTR_HELP_ROWS = 24 };

struct ctr_opt {
    const char *name; /* long name; NULL: end of the table */
    char letter;      /* or 0 */
    enum ctr_opt_kind kind;
    const char *arg;  /* name of the argument in the help */
    const char *help; /* one line, lower case, no full stop */
    void *to;
    unsigned flags;
    const char *(*word)(int i); /* or NULL: the valid words in a comma list of CTR_OPT_STR; NULL past the end */
    const char *needs; /* or NULL: a usage error unless one of these is given: "fit|inclusion=bloom" are options (one
                          with value "bloom" or "bloom=…"), "@top|@diff" first arguments */
    const char *group; /* or NULL: the heading in the help; options of a group are adjacent */
    /* CTR_OPT_READ. An error that starts with "wants " is prefixed with the option's name. */
    int (*read)(void *to, const char *text, struct ctr_err *err);
};

enum {
    CTR_TOOL_DEVICE = 4, /* may use a GPU: calls ctr_cli_device when that is decided */
    CTR_TOOL_PREFIX = 2, /* options end at the first argument; the rest belongs to another program */
};

/* Also flags of a tool: the role options --label NAME … that it has, … */
#define CTR_TOOL_ROLE(role) (1u << (8 + (role)))
#define CTR_TOOL_ROLES      (CTR_TOOL_ROLE(CTR_ROLE_SCORE + 1) - CTR_TOOL_ROLE(CTR_ROLE_LABEL))
/* … and the common options that have an effect in it: the help shows only these. */
enum {
    CTR_TOOL_READS = 1 << 20,  /* --jobs */
    CTR_TOOL_WRITES = 1 << 21, /* --batch, --flush */
    CTR_TOOL_MEMORY = 1 << 22, /* --memory */
    CTR_TOOL_SEED = 1 << 23,   /* --seed */
};

struct ctr_cli;
struct ctr_tool {
    const char *name;
    const char *summary;      /* as in the man page's NAME */
    const char *synopsis;     /* the text after "ctr-X [options] "; several forms separated by '\n' */
    const char *const *notes; /* extra paragraphs of --help, or NULL; NULL-terminated */
    const struct ctr_opt *opts;
    unsigned flags;
    int (*run)(struct ctr_cli *cli, struct ctr_err *err);
    const char *(*word)(int i); /* or NULL: valid first arguments; NULL past the end */
    /* Or NULL: the options depend on the first argument. Returns those of `word`; NULL: no such word; for word NULL:
     * those of all words, each name once. `opts` are the options shared by all words. */
    const struct ctr_opt *(*opts_of)(const char *word);
    const char *(*word_help)(int i); /* summary of a word, for the help; without opts_of it may be NULL */
};
extern const struct ctr_tool ctr_tool; /* defined by each tool */
/* All tools, sorted, then NULL, in a program that has them all (main_all.c); NULL in that of one tool. */
extern const struct ctr_tool *const *ctr_tools;
/* What main() does for a tool; returns the exit status. */
int ctr_cli_main(const struct ctr_tool *tool, int argc, char **argv);

struct ctr_cli {
    const struct ctr_tool *tool;
    char **args; /* arguments that are not options */
    int nargs;
    /* common options */
    const char *out;             /* -o, or NULL */
    int64_t jobs;                /* -j, or the default; 1 or more */
    const char *device;          /* cpu, gpu, gpu:N or auto; tools without CTR_TOOL_DEVICE: cpu */
    int64_t device_memory_bytes; /* --device-memory, 0: not given */
    int64_t memory_bytes;        /* --memory, 0: not given */
    int64_t batch_rows;          /* --batch, 0: by ctr_schema_batch_rows */
    uint64_t seed;
    int verbose;
    bool quiet;
    int64_t flush_ms;
    bool progress;                /* whether to show progress */
    const char *role[CTR_NROLES]; /* CTR_TOOL_ROLE: --label NAME … or NULL */
    char *provenance;             /* the options that change results, as typed */
    struct ctr_strs given;        /* names of the options given */
    /* Of a tool that runs as one of several processes (ranks): which of how many, and which of those on this machine:
     * `gpu` is the GPU of that number, modulo the number of GPUs. */
    struct ctr_cli_ranks {
        int rank, size, local;
    } ranks;
    /* scaffold */
    char device_name[16];           /* of `device`, where ranks chose it */
    struct ctr_writer *idle_writer; /* flushed when input is idle */
    struct ctr_err idle_err;        /* why that, or the writing by a thread, failed, which ends the reading */
    struct ctr_background *writes;  /* the thread that writes to it, or NULL */
    int64_t progress_next_ms, progress_start_ms;
    bool progress_drawn; /* a progress line is on the terminal */
    bool told_cut;       /* that times of the input lose digits */
    char reread[32];     /* ctr_cli_reread: the copy's name */
    const char *reread_name;
    bool stdin_taken, stdin_read; /* already used for a copy; already used as an input other than the main stream */
    struct ctr_bad_rows *bad;     /* ctr_cli_bad_rows, or NULL */
    struct ctr_strs read;         /* ctr_cli_read: names */
    struct ctr_strs written;      /* ctr_cli_written: identities of the files */
};

/* Can this operation run on a GPU? If so, --device gpu is opened here, before any input is read, and -v reports the
 * result; if not, gpu is an error and auto becomes cpu. */
bool ctr_cli_wants_gpu(const struct ctr_cli *cli); /* gpu or gpu:N */
int ctr_cli_device(struct ctr_cli *cli, bool can, const char *what, struct ctr_err *err) CTR_MUST;
/* Require min..max positional arguments (max -1: any), else a usage error that shows the synopsis. */
int ctr_cli_args(struct ctr_cli *cli, int min, int max, struct ctr_err *err) CTR_MUST;
/* The usage error for a first argument that is not one of the tool's words; names the nearest word, or all. `what`: a
 * noun for the words. */
int ctr_cli_unknown(const struct ctr_cli *cli, const char *what, struct ctr_err *err) CTR_MUST;
/* Was the option given? */
bool ctr_cli_given(const struct ctr_cli *cli, const char *name);
/* Make a usage error; returns CTR_EUSAGE. */
#define ctr_cli_usage(err, ...) ctr_fail((err), CTR_EUSAGE, __VA_ARGS__)

/* The main stream: args[first…], or stdin. opts may be NULL. Refuses an input that is also the output. Inputs are held
 * (ctr_input_identity_keep) until the tool ends, so each stays the same file for every read. */
int ctr_cli_reader(struct ctr_cli *cli, int first, const struct ctr_reader_opts *opts, struct ctr_reader **r,
                   struct ctr_err *err) CTR_MUST;
/* Another stream than the main one: waiting for it is no reason to write what is pending. `path` of an option is
 * registered by ctr_cli_read before. */
int ctr_cli_side_reader(const struct ctr_cli *cli, const char *path, struct ctr_reader **r,
                        struct ctr_err *err) CTR_MUST;
/* The inputs args[first…], each FILE or NAME=FILE, as files, and their names: that of the file without folder and
 * suffix, or stdin. Checks them as ctr_cli_inputs does; an input or a name given twice is an error. `what`: a noun for
 * an input. */
int ctr_cli_named(struct ctr_cli *cli, int first, const char *what, struct ctr_strs *names,
                  struct ctr_err *err) CTR_MUST;
/* Only the check, for tools that read args[first…] (or stdin) themselves. */
int ctr_cli_inputs(struct ctr_cli *cli, int first, struct ctr_err *err) CTR_MUST;
/* Register an option's file for reading ("-": stdin); refuses -o's file. Call it before ctr_cli_written, which refuses
 * files registered here. */
int ctr_cli_read(struct ctr_cli *cli, const char *path, struct ctr_err *err) CTR_MUST;
/* For a plan or model, which is read more than once: copies a pipe, or stdin for "-", to a temporary file, whose name
 * replaces *path. Once per process. */
int ctr_cli_reread(struct ctr_cli *cli, const char **path, struct ctr_err *err) CTR_MUST;
/* Can an input be opened a second time? False for stdin and pipes; a missing file is reported when it is opened. */
bool ctr_cli_reopens(const char *path);
/* Open -o or stdout for binary or text. */
int ctr_cli_out(struct ctr_cli *cli, unsigned out_flags, struct ctr_out **o, struct ctr_err *err) CTR_MUST;
/* Rows per batch of a stream: from --batch or the schema. */
int64_t ctr_cli_batch_rows(const struct ctr_cli *cli, const struct ctr_schema *schema);
/* A stream writer on `out` with this tool's provenance added to a copy of the schema; flushes when input pauses. */
int ctr_cli_writer(struct ctr_cli *cli, struct ctr_out *out, const struct ctr_schema *schema, struct ctr_writer **w,
                   struct ctr_err *err) CTR_MUST;
/* Flush idle_writer, if there is one. Fails, too, where the thread has failed to write to it. */
int ctr_cli_flush(struct ctr_cli *cli, struct ctr_err *err) CTR_MUST;
/* Write all batches of `rows` to `out` and finish; shows progress of r, from which they are made. With -j 2 and more a
 * batch is written by a thread while the next one is made. */
int ctr_cli_write_all(struct ctr_cli *cli, const struct ctr_reader *r, const struct ctr_batch_source *rows,
                      struct ctr_out *out, struct ctr_err *err) CTR_MUST;
/* Register an option's file for writing (ctr_cli_side_out calls it); refuses an input, -o's file, or another such
 * file. */
int ctr_cli_written(struct ctr_cli *cli, const char *path, struct ctr_err *err) CTR_MUST;
/* Only the check against inputs, for a tool whose outputs cannot be one file. */
int ctr_cli_spares_inputs(const struct ctr_cli *cli, const char *path, struct ctr_err *err) CTR_MUST;
/* A side output (option value): "-" is stdout; a second output to stdout is a usage error. */
int ctr_cli_side_out(struct ctr_cli *cli, const char *path, unsigned out_flags, struct ctr_out **o,
                     struct ctr_err *err) CTR_MUST;

/* A file that a run reads and leaves for the next one (--state): is it there? If not, or if it is no regular file, a
 * note says that this run begins anew. */
bool ctr_cli_goes_on(const struct ctr_cli *cli, const char *path);

/* *column: that of a role: --label NAME if given, else the column with the role, else -1 (or, with `need`, an error
 * that names the option). */
int ctr_cli_role(const struct ctr_cli *cli, const struct ctr_schema *s, enum ctr_role role, bool need, int *column,
                 struct ctr_err *err) CTR_MUST;

/* Messages on stderr: note unless -q, debug with -v; a warning, of what makes results other than they seem, always.
 * They are prefixed with "ctr-join: " and end with a newline. */
void ctr_cli_note(const struct ctr_cli *cli, const char *fmt, ...) CTR_PRINTF(2, 3);
void ctr_cli_warn(const struct ctr_cli *cli, const char *fmt, ...) CTR_PRINTF(2, 3);
/* Reports the number of keys (`what`) unknown to `who`, by table, if there are any; CTR_EDATA if the share in a table
 * exceeds `most` (below 0: no limit). Sorts the list. */
struct ctr_unseen {
    const char *name; /* of the table or vocabulary */
    int64_t n, unknown;
};
int ctr_cli_unseen(const struct ctr_cli *cli, const char *who, const char *what, struct ctr_unseen *u, int n,
                   double most, struct ctr_err *err) CTR_MUST;
#define CTR_OPT_MAX_UNKNOWN(help, v)                                                                                   \
    {                                                                                                                  \
        "max-unknown", 0, CTR_OPT_REAL, "SHARE", help, &(v), CTR_OPT_LOCAL                                             \
    }
int ctr_cli_max_unknown(double most, struct ctr_err *err) CTR_MUST; /* check that it is a share, or -1 */
/* What becomes of rows that a tool cannot use (badrows.h). ctr_cli_bad_rows opens the policy's file and is called once,
 * before ctr_cli_good_rows; ctr_cli_finish then finishes it, or ctr_cli_bad_rows_finish in tools without that. */
#define CTR_OPT_BAD_ROWS(v, with_flags, in_group)                                                                      \
    {                                                                                                                  \
        "bad-rows", 0, CTR_OPT_STR, "fail|skip=MAX|quarantine=FILE",                                                   \
            "what to do with rows that cannot be used (default fail)", &(v), with_flags, .group = (in_group)           \
    }
int ctr_cli_bad_rows(struct ctr_cli *cli, const char *policy, struct ctr_err *err) CTR_MUST;
/* *s becomes the source of its rows that keep the rules. Rules with a column below 0 are left out. */
int ctr_cli_good_rows(struct ctr_cli *cli, struct ctr_batch_source *s, const struct ctr_rule *rule, int n,
                      struct ctr_err *err) CTR_MUST;
bool ctr_cli_keeps_bad_rows(const struct ctr_cli *cli); /* whole, in a file: read all columns */
int ctr_cli_bad_rows_finish(struct ctr_cli *cli, struct ctr_err *err) CTR_MUST;
/* A usage error if rows may be missing where `why` says that they may not. */
int ctr_cli_all_rows(const struct ctr_cli *cli, const char *why, struct ctr_err *err) CTR_MUST;
/* Batches that each stage of a plan may be ahead of the next one. */
#define CTR_OPT_QUEUE(v, in_group)                                                                                     \
    {                                                                                                                  \
        "queue", 0, CTR_OPT_INT, "BATCHES", "let each stage of a plan run up to BATCHES batches ahead (default 4)",    \
            &(v), CTR_OPT_LOCAL | CTR_OPT_SOME, .group = (in_group)                                                    \
    }
/* `views`: does the plan read views? */
int ctr_cli_queue(const struct ctr_cli *cli, int64_t queue, bool views, struct ctr_err *err) CTR_MUST;
void ctr_cli_debug(const struct ctr_cli *cli, const char *fmt, ...) CTR_PRINTF(2, 3);
/* Does the tool's output go to a terminal? And how wide it is for people: $COLUMNS, else the terminal, else 100. */
bool ctr_cli_terminal(const struct ctr_cli *cli);
int ctr_cli_columns(const struct ctr_cli *cli);
/* A progress line, redrawn on a terminal at most ten times a second. total -1: unknown. */
void ctr_cli_progress(struct ctr_cli *cli, int64_t rows, int64_t total);
/* Remove the line, before writing text to stdout, which may be the same terminal. */
void ctr_cli_progress_clear(struct ctr_cli *cli);

/* The last step of a filter, after its side outputs are committed: write the trailer, then commit `o`. */
int ctr_cli_finish(struct ctr_cli *cli, struct ctr_writer *w, struct ctr_out *o, struct ctr_err *err) CTR_MUST;

#endif
