/* SPDX-License-Identifier: Apache-2.0
 *
 * plan: the plan language (ctr-plan(5)): text -> plan -> program bound to a schema -> batches of features. Also the
 * expressions of --where and --add.
 */
#ifndef CTR_PLAN_H
#define CTR_PLAN_H

#include "common/stream/condition.h"
#include "common/stream/stream.h"

/* ---- expressions ---- */

/* Which files lookup() and embedding() read. */
struct ctr_lookups {
    const char *dir; /* relative names start here; NULL: the current folder */
    bool confined;   /* files outside dir are refused */
};
/* An expression over the columns of a schema. `what` names its origin in messages ("--where"). lookups NULL: any file.
 * The result column is borrowed until the next eval. */
struct ctr_expr;
int ctr_expr_compile(struct ctr_expr **e, const char *what, const char *text, const struct ctr_schema *s,
                     const struct ctr_lookups *lookups, struct ctr_err *err) CTR_MUST;
const struct ctr_field *ctr_expr_field(const struct ctr_expr *e); /* the type of the result */
const struct ctr_strs *ctr_expr_inputs(const struct ctr_expr *e); /* the columns it reads */
int ctr_expr_eval(struct ctr_expr *e, const struct ctr_batch *b, const struct ctr_col **result,
                  struct ctr_err *err) CTR_MUST;
void ctr_expr_free(struct ctr_expr *e);
/* What an expression says about single columns; nothing where it is none, which ctr_expr_compile reports. Free it. */
int ctr_expr_conditions(struct ctr_conditions *out, const char *text, struct ctr_err *err) CTR_MUST;

/* ---- plans ---- */

struct ctr_plan;
/* Parse text (errors name file, line, column), or load a fitted plan or a model (a bundle whose first section carries
 * the plan). */
int ctr_plan_parse(struct ctr_plan **p, const char *file, const char *text, size_t n, struct ctr_err *err) CTR_MUST;
int ctr_plan_open(struct ctr_plan **p, const char *path, struct ctr_err *err) CTR_MUST;
/* The same, but errors in the plan's lines are deferred to ctr_program_bind, which finds more of them, or to
 * ctr_plan_check. */
int ctr_plan_open_all(struct ctr_plan **p, const char *path, struct ctr_err *err) CTR_MUST;
int ctr_plan_check(const struct ctr_plan *p, struct ctr_err *err) CTR_MUST;
/* Read the plan in the metadata of a stream or model, without fitted state; *p is NULL if there is none. `what` names
 * the file in messages. */
int ctr_plan_of_meta(struct ctr_plan **p, const char *what, const struct ctr_meta *m, struct ctr_err *err) CTR_MUST;
/* Store the plan in the metadata of its result: its text, identity, language and types of inputs. */
int ctr_plan_to_meta(const struct ctr_plan *p, const struct ctr_schema *input, struct ctr_meta *m,
                     struct ctr_err *err) CTR_MUST;
/* The metadata keys that it sets; NULL at the end. */
extern const char *const ctr_plan_metas[];
void ctr_plan_free(struct ctr_plan *p);
/* Hash keys with the secret in a file. A plan that carries the fingerprint of a secret makes no keys without that
 * secret. */
int ctr_plan_key_seed(struct ctr_plan *p, const char *path, struct ctr_err *err) CTR_MUST;
/* Allow lookup() in the plan of a model or bundle to read files outside the bundle's folder. */
void ctr_plan_lookup_anywhere(struct ctr_plan *p);
const char *ctr_plan_text(const struct ctr_plan *p);
/* Input columns that the plan reads, in order of first use (ctr-import --for, ctr-extract --inputs). */
const struct ctr_strs *ctr_plan_inputs(const struct ctr_plan *p);
/* May a log lack the column? For a model's plan: if only the label and the weight read it. */
bool ctr_plan_can_lack(const struct ctr_plan *p, const char *column);
/* Does the name stand for a definition or an input column? And the name that the plan has for a column of its result
 * (column x.feature: x), or NULL. */
bool ctr_plan_has_name(const struct ctr_plan *p, const char *name);
const char *ctr_plan_name_of(const struct ctr_plan *p, const char *column);
/* Identity of the plan and its fitted state: XXH3-128 in hex; models require it of a stream. */
const char *ctr_plan_id(const struct ctr_plan *p);
bool ctr_plan_needs_fit(const struct ctr_plan *p);
/* The sections (vocab.NAME) of the vocabularies whose values become the keys of a table, directly or through
 * intermediates. */
int ctr_plan_vocabs(const struct ctr_plan *p, const char *table, struct ctr_strs *sections,
                    struct ctr_err *err) CTR_MUST;
/* The fitted state as sections (vocab.NAME, quantiles.NAME), which a model includes so that `ctr-extract MODEL` works:
 * appends their names to `names`, each after a ',', and writes the sections to `out`. */
int ctr_plan_save_section_names(const struct ctr_plan *p, struct ctr_buf *names, struct ctr_err *err) CTR_MUST;
int ctr_plan_save_sections(const struct ctr_plan *p, struct ctr_out *out, struct ctr_err *err) CTR_MUST;

/* ---- statements: plan_statement.c ---- */

/* The statements that a raw-to-feature plan runs before its definitions: the lines `from`, `where`, `add`, `explode`,
 * `join`, `history`, `group`, `sort`, `unique` and `union`, in order. Each means the filter of that name (union: rows
 * behind rows, by the names of columns); flow.h runs them. */
enum ctr_statement_kind {
    CTR_STATEMENT_FROM,
    CTR_STATEMENT_WHERE,
    CTR_STATEMENT_ADD,
    CTR_STATEMENT_EXPLODE,
    CTR_STATEMENT_JOIN,
    CTR_STATEMENT_HISTORY,
    CTR_STATEMENT_GROUP,
    CTR_STATEMENT_EACH, /* join (group …): of the rows themselves */
    CTR_STATEMENT_SORT,
    CTR_STATEMENT_UNIQUE,
    CTR_STATEMENT_UNION,
};
/* A view: rows that the plan reads, from a stream or from text: FORMAT("FILE", option=…), with options of
 * ctr-import. */
struct ctr_view_option {
    const char *name, *text; /* text NULL: true */
};
struct ctr_view {
    const char *name, *format; /* format NULL: a stream */
    const char *path;          /* or NULL: VIEW=FILE gives it; relative to the plan's folder */
    const struct ctr_view_option *option;
    int n;
};
/* An option of ctr-join, ctr-history, ctr-group or ctr-sort: "key", "as-of", … and its argument; text "": a flag.
 * Options of ctr-group that a join applies to its view are "group-key" and "group-add". */
struct ctr_stage_option {
    const char *name, *text;
};
struct ctr_plan_statement {
    enum ctr_statement_kind kind;
    int line, column;
    struct ctr_view view;            /* FROM, JOIN, UNION; HISTORY: of behaviours, if given */
    const char *text;                /* WHERE: the condition; ADD: "NAME=EXPR"; EXPLODE: "a,b" */
    const char *adds;                /* ADD: the name */
    struct ctr_stage_option *option; /* from JOIN on (each "add" is an aggregate) */
    int n;
    struct ctr_strs inputs, view_inputs; /* columns that it reads from the rows so far; from its view */
};
/* Statement i, borrowed; NULL past the last. A plan without statements reads one stream. */
const struct ctr_plan_statement *ctr_plan_statement(const struct ctr_plan *p, int i);
const char *ctr_stage_option(const struct ctr_plan_statement *s, const char *name); /* NULL: not given */
/* Prefix an error with the position of statement i; returns its code. */
int ctr_plan_at_statement(const struct ctr_plan *p, int i, struct ctr_err *err);
struct ctr_lookups ctr_plan_lookups(const struct ctr_plan *p);
const char *ctr_plan_dir(const struct ctr_plan *p); /* its folder; NULL: the current one */
bool ctr_plan_in_bundle(const struct ctr_plan *p);  /* it was read from a fitted plan or a model */

/* The type that a column had when the plan was fitted or learned from; false: not known, or one that no text has. Does
 * a column of another type give equal keys, where its values allow it? */
bool ctr_plan_input_type(const struct ctr_plan *p, const char *name, struct ctr_field *type);
bool ctr_plan_type_fits(const struct ctr_field *was, const struct ctr_field *is);

/* 1: the definition of that role, or one that it uses, reads the column; 0: no; or an error. */
int ctr_plan_role_reads(const struct ctr_plan *p, enum ctr_role role, const char *column, struct ctr_err *err) CTR_MUST;
/* Does the result show the values of a column: does a line `keep` or `id` read it? */
bool ctr_plan_keeps(const struct ctr_plan *p, const char *column);

/* The signals of a plan, in order: the definitions with role feature, dense or image. Borrowed during the call. */
struct ctr_plan_signal {
    const char *name;
    enum ctr_role role;
    const char *table;      /* table of its keys; for dense its own name */
    const char *definition; /* text: the expression and, after "; ", the intermediates that it uses */
    char hash[33]; /* XXH3-128 (hex) of role, table and expression, independent of the names of intermediates */
    const struct ctr_strs *inputs; /* columns of the log that it reads */
};
typedef int ctr_plan_each_signal(void *ctx, const struct ctr_plan_signal *s, struct ctr_err *err);
int ctr_plan_signals(const struct ctr_plan *p, ctr_plan_each_signal *each, void *ctx, struct ctr_err *err) CTR_MUST;

/* Before the first batch: project the source to the columns that the plan reads. If one is missing, all columns stay,
 * and ctr_program_bind reports the error. */
int ctr_plan_project(const struct ctr_plan *p, struct ctr_batch_source *s, struct ctr_err *err) CTR_MUST;
/* Is `path` a plan instead of rows: plan text, a fitted plan or a model? For a pipe the answer is no, without reading
 * it. */
int ctr_plan_named(const char *path, bool *is_plan, struct ctr_err *err) CTR_MUST;
/* After a failure: where one of these files, which are read as rows, is a plan or a model, say so, and where it goes.
 */
void ctr_plan_tell_misplaced(char *const *files, int n, struct ctr_err *err);

/* Once a program is bound to its schema: *s becomes the source of the rows of which the plan makes a label in [0, 1]
 * and a weight of 0 or more. Where bad rows are left out, also those whose time is null and, with `dense`, those of
 * which it makes numbers that are NaN or infinite. */
/* ctr_plan_project, unless bad rows are kept whole, in a file: then all columns stay that can be read. */
int ctr_plan_narrow(const struct ctr_plan *p, struct ctr_batch_source *s, const struct ctr_bad_rows *bad,
                    struct ctr_err *err) CTR_MUST;
int ctr_plan_good_rows(struct ctr_batch_source *s, struct ctr_plan *p, struct ctr_bad_rows *bad, bool dense,
                       struct ctr_err *err) CTR_MUST;
/* A program: the plan bound to an input schema, with types checked, equal subexpressions merged, and divided into
 * layers. */
struct ctr_program;
int ctr_program_bind(struct ctr_program **g, struct ctr_plan *p, const struct ctr_schema *input,
                     struct ctr_err *err) CTR_MUST;
void ctr_program_free(struct ctr_program *g);
const struct ctr_schema *ctr_program_output(const struct ctr_program *g); /* with roles, tables, plan and plan id */
/* For a model's plan on a log that lacks the label's inputs: the output has no label, and no weight if its inputs are
 * missing, too. */
bool ctr_program_unlabelled(const struct ctr_program *g);
/* Run with this many threads; the results do not change. */
int ctr_program_threads(struct ctr_program *g, int threads, struct ctr_err *err) CTR_MUST;
/* Limit of its buffers in bytes, to be set before the first run; 0: a GiB. Batches are processed in parts that fit; a
 * single row that does not fit is an error. */
void ctr_program_memory(struct ctr_program *g, int64_t bytes);
/* *out, borrowed until the next run, has the first rows of the batch, usually all; ctr_program_more returns 1 with the
 * next rows in *out, or 0 after the last. The plan must outlive the program. */
int ctr_program_more(struct ctr_program *g, const struct ctr_batch **out, struct ctr_err *err) CTR_MUST;
int ctr_program_run(struct ctr_program *g, const struct ctr_batch *in, const struct ctr_batch **out,
                    struct ctr_err *err) CTR_MUST;
/* Counts of vocabulary i (its section, such as "vocab.genre"; NULL past the last): the values that it produced so far,
 * and those not in it. */
const char *ctr_program_unknown(const struct ctr_program *g, int i, int64_t *values, int64_t *unknown);
/* Note, with the remedy: the first number of each dense column that float32 makes infinite, and each feature that is a
 * plain column of floats and made many keys. `rows`: of the input. */
void ctr_program_tell_floats(const struct ctr_program *g, int64_t rows, void (*note)(void *ctx, const char *text),
                             void *ctx);
/* Values of text columns that are keys of their own although they differ from others by Unicode normalisation alone,
 * counted (exactly up to some thousands of values beyond ASCII a column), with nfc() as the remedy: plan_spelling.c.
 * Made of a bound program, it sees the program's input. */
struct ctr_spellings;
int ctr_spellings_new(struct ctr_spellings **s, const struct ctr_program *g, struct ctr_err *err) CTR_MUST;
int ctr_spellings_see(struct ctr_spellings *s, const struct ctr_batch *in, struct ctr_err *err) CTR_MUST;
void ctr_spellings_tell(struct ctr_spellings *s, void (*note)(void *ctx, const char *text), void *ctx);
void ctr_spellings_free(struct ctr_spellings *s);
/* Placement ("FeatureBox", section 4), shown by --explain and --dot: layer by layer, an operator is placed on the GPU
 * if a kernel exists for it, and the data it reads besides its batch (dictionary, embeddings, fitted vocabulary) and
 * its result fit in the rest of device_memory_bytes; otherwise on the CPU, and its result is copied. `place`:
 * "NODE=cpu" and "NODE=gpu" override the rule; NODE is a number, a name in the plan or an output's name. Without memory
 * (0) all other operators are on the CPU. Before the first run; CTR_EUSAGE: no such node, or one without a kernel. */
struct ctr_place_opts {
    const struct ctr_strs *place;
    int64_t device_memory_bytes;
};
int ctr_program_place(struct ctr_program *g, const struct ctr_place_opts *o, struct ctr_err *err) CTR_MUST;
/* Before the first run: open a GPU, place the nodes with its memory or that of o->memory_bytes, compile the kernels of
 * the layers; ctr_program_run then has the GPU run what is placed on it. Results are the same bytes. CTR_ESYS: there is
 * no GPU or no NVRTC; with o->optional the program then runs on the CPU. */
struct ctr_gpu_opts; /* common/op/gpu.h */
int ctr_program_gpu(struct ctr_program *g, const struct ctr_gpu_opts *o, const struct ctr_strs *place,
                    struct ctr_err *err) CTR_MUST;
bool ctr_program_on_gpu(const struct ctr_program *g);
/* On a GPU, before the first run: ctr_batch_source_leave of output columns, but for the regrouping. */
struct ctr_leave;
int ctr_program_leave(struct ctr_program *g, const struct ctr_leave *l, const char **why, struct ctr_err *err) CTR_MUST;
/* A line a layer to o->debug: nodes, launches, memory, times. */
void ctr_program_gpu_say(const struct ctr_program *g);
int ctr_program_explain(const struct ctr_program *g, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;
int ctr_program_dot(const struct ctr_program *g, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

/* What a source of features did, by ctr_clock_ns. */
struct ctr_plan_times {
    int64_t start_ns, end_ns;    /* the first call; no more rows were there, 0: some are left */
    int64_t read_ns, extract_ns; /* how long it read its rows; how long the plan's operators took */
};
/* A source of the plan's features of the batches of *s: schema and rows of a stream of ctr-extract. The source also
 * frees the plan. */
struct ctr_plan_source_opts {
    int threads;
    int64_t memory_bytes;           /* see ctr_program_memory */
    const struct ctr_gpu_opts *gpu; /* see ctr_program_gpu; NULL: run on the CPU */
    struct ctr_bad_rows *bad;       /* or NULL: ctr_plan_good_rows, with numbers */
    const struct ctr_strs *place;   /* with gpu: NODE=cpu|gpu, as ctr_program_gpu takes them; NULL: none */
    /* Called when the source is closed after its end, or NULL; note: ctr_program_tell_floats then. */
    void (*closed)(void *ctx, const struct ctr_plan_times *times);
    void (*note)(void *ctx, const char *text);
    void *ctx;
};
int ctr_plan_source(struct ctr_batch_source *s, struct ctr_plan *plan, const struct ctr_plan_source_opts *o,
                    struct ctr_err *err) CTR_MUST;

/* Fit: feed all batches, finish, then save the plan with its fitted state as a bundle. */
int ctr_program_fit(struct ctr_program *g, const struct ctr_batch *in, struct ctr_err *err) CTR_MUST;
int ctr_program_fit_finish(struct ctr_program *g, struct ctr_err *err) CTR_MUST;
/* Bytes of the fitted state, twice: finish makes sections of it. */
int64_t ctr_program_fit_memory(const struct ctr_program *g);
int ctr_program_fit_save(struct ctr_program *g, struct ctr_out *out, struct ctr_err *err) CTR_MUST;

/* Readable names of the keys in row `row` of an output column (of the last batch), in order. Request them before the
 * first run. Borrowed during the call; a column without keys gives none. */
typedef int ctr_key_name(void *ctx, uint64_t key, struct ctr_str name, struct ctr_err *err);
void ctr_program_keep_names(struct ctr_program *g);
int ctr_program_row_names(const struct ctr_program *g, int column, int64_t row, ctr_key_name *each, void *ctx,
                          struct ctr_err *err) CTR_MUST;

/* Readable names of the program's keys (ctr-extract --names): rows of table utf8 (dictionary), key uint64, name utf8,
 * count uint64, sorted by table and key; counts collisions among them. */
/* most_bytes: of memory, 0: no bound; where names need more, the run fails. */
int ctr_program_names_start(struct ctr_program *g, int64_t most_bytes, struct ctr_err *err) CTR_MUST;
int ctr_program_names_save(struct ctr_program *g, struct ctr_out *out, int64_t *collisions,
                           struct ctr_err *err) CTR_MUST;
/* The two names of collision i as text ("item: \"a\" and \"b\""). */
const char *ctr_program_names_collision(const struct ctr_program *g, int i);

#endif
