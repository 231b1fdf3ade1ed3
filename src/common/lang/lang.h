/* SPDX-License-Identifier: Apache-2.0
 *
 * feature: the plan language (ctr-plan(5)): text -> plan -> program bound to a schema -> batches of features. Also the
 * expressions of --where and --add.
 */
#ifndef CTR_FEATURE_H
#define CTR_FEATURE_H

#include "common/stream/stream.h"

/* ---- expressions ---- */

/* An expression over the columns of a schema. `what` names its origin for messages ("--where"). The result column is
 * borrowed until the next eval. */
struct ctr_expr;
int ctr_expr_compile(struct ctr_expr **e, const char *what, const char *text, const struct ctr_schema *s,
                     struct ctr_err *err) CTR_MUST;
const struct ctr_field *ctr_expr_field(const struct ctr_expr *e); /* the type of the result */
const struct ctr_strs *ctr_expr_inputs(const struct ctr_expr *e); /* the columns it reads */
int ctr_expr_eval(struct ctr_expr *e, const struct ctr_batch *b, const struct ctr_col **result,
                  struct ctr_err *err) CTR_MUST;
void ctr_expr_free(struct ctr_expr *e);

/* ---- plans ---- */

struct ctr_plan;
/* Parse text (errors name file, line, column), or load a fitted plan or a model (a bundle whose first section carries
 * the plan). */
int ctr_plan_parse(struct ctr_plan **p, const char *file, const char *text, size_t n, struct ctr_err *err) CTR_MUST;
int ctr_plan_open(struct ctr_plan **p, const char *path, struct ctr_err *err) CTR_MUST;
/* The same; errors in its lines wait for ctr_program_bind, which finds more of them, or for ctr_plan_check. */
int ctr_plan_open_all(struct ctr_plan **p, const char *path, struct ctr_err *err) CTR_MUST;
int ctr_plan_check(const struct ctr_plan *p, struct ctr_err *err) CTR_MUST;
/* The plan in the metadata of a stream or a model, without fitted state; *p is NULL when there is none. `what` names it
 * for messages. */
int ctr_plan_of_meta(struct ctr_plan **p, const char *what, const struct ctr_meta *m, struct ctr_err *err) CTR_MUST;
/* Streams of one plan: were the columns that keys are made of of types that give the same keys? CTR_EDATA if not. */
int ctr_plan_same_inputs(const struct ctr_meta *ours, const struct ctr_meta *theirs, struct ctr_err *err) CTR_MUST;
/* Put the plan into the metadata of what was made with it: its text, identity, language and types of inputs. */
int ctr_plan_to_meta(const struct ctr_plan *p, const struct ctr_schema *input, struct ctr_meta *m,
                     struct ctr_err *err) CTR_MUST;
/* The keys of metadata that it sets, NULL at the end. */
extern const char *const ctr_plan_metas[];
void ctr_plan_free(struct ctr_plan *p);
/* Make keys with the secret in a file. A plan that came with the fingerprint of a secret makes none without it. */
int ctr_plan_key_seed(struct ctr_plan *p, const char *path, struct ctr_err *err) CTR_MUST;
/* What lookup() of a plan in a model or fitted plan reads lies in the folder of that, unless this is said. */
void ctr_plan_lookup_anywhere(struct ctr_plan *p);
const char *ctr_plan_text(const struct ctr_plan *p);
/* Input columns the plan reads, in order of first use (ctr-import --for, ctr-extract --inputs). */
const struct ctr_strs *ctr_plan_inputs(const struct ctr_plan *p);
/* May a log do without the column? Of a model's plan: when only the label and the weight read it. */
bool ctr_plan_can_lack(const struct ctr_plan *p, const char *column);
/* Identity of the plan and its fitted state: XXH3-128 in hex; what a model demands of a stream. */
const char *ctr_plan_id(const struct ctr_plan *p);
bool ctr_plan_needs_fit(const struct ctr_plan *p);
/* The sections (vocab.NAME) of the vocabularies whose values are the keys of a table: by name, through any
 * intermediates. */
int ctr_plan_vocabs(const struct ctr_plan *p, const char *table, struct ctr_strs *sections,
                    struct ctr_err *err) CTR_MUST;
/* The fitted state as sections (vocab.NAME, quantiles.NAME), which a model carries so that `ctr-extract MODEL` works:
 * their names are appended to `names` with ',' before each, and the sections written to
 * `out`. */
int ctr_plan_save_section_names(const struct ctr_plan *p, struct ctr_buf *names, struct ctr_err *err) CTR_MUST;
int ctr_plan_save_sections(const struct ctr_plan *p, struct ctr_out *out, struct ctr_err *err) CTR_MUST;

/* ---- statements: plan_statement.c ---- */

/* What a plan that runs the whole way does before its definitions: the lines `from`, `where`, `explode`, `join`,
 * `history` and `group`, in their order. Each means the filter of that name; flow.h runs them. */
enum ctr_statement_kind {
    CTR_STATEMENT_FROM,
    CTR_STATEMENT_WHERE,
    CTR_STATEMENT_EXPLODE,
    CTR_STATEMENT_JOIN,
    CTR_STATEMENT_HISTORY,
    CTR_STATEMENT_GROUP,
};
/* A view: rows that the plan reads. A stream, or text: FORMAT("FILE", option=…), as options of ctr-import. */
struct ctr_view_option {
    const char *name, *text; /* text NULL: true */
    int pos_line;
};
struct ctr_view {
    const char *name, *format; /* format NULL: a stream */
    const char *path;          /* or NULL: VIEW=FILE names it; relative to the folder of the plan */
    const struct ctr_view_option *option;
    int n;
};
/* Of ctr-join, ctr-history or ctr-group: "key", "as-of", … with what would stand behind it; text "": a flag. */
struct ctr_stage_option {
    const char *name, *text;
};
struct ctr_plan_statement {
    enum ctr_statement_kind kind;
    int line, column;
    struct ctr_view view;            /* FROM, JOIN; HISTORY: of behaviours, if it has a name */
    const char *text;                /* WHERE: the condition; EXPLODE: "a,b" */
    struct ctr_stage_option *option; /* JOIN, HISTORY, GROUP (an "add" an aggregate) */
    int n;
    struct ctr_strs inputs, view_inputs; /* columns that it reads of the rows so far; of its view */
};
/* Statement i, borrowed; NULL past the last. A plan without any reads one stream. */
const struct ctr_plan_statement *ctr_plan_statement(const struct ctr_plan *p, int i);
const char *ctr_stage_option(const struct ctr_plan_statement *s, const char *name); /* NULL: not given */
/* Put the place of statement i before an error; returns its code. */
int ctr_plan_at_statement(const struct ctr_plan *p, int i, struct ctr_err *err);
const char *ctr_plan_dir(const struct ctr_plan *p); /* the folder that it lies in; NULL: the current one */
bool ctr_plan_in_bundle(const struct ctr_plan *p);  /* it came in a fitted plan or a model */

/* The signals of a plan, in its order: what has the role feature, dense or image. Borrowed for the time of the call. */
struct ctr_plan_signal {
    const char *name;
    enum ctr_role role;
    const char *table;             /* whose keys these are; of dense its own name */
    const char *definition;        /* in words: the expression, and after "; " the intermediates that it stands on */
    char hash[33];                 /* XXH3-128 (hex) of role, table and expression, whatever intermediates are called */
    const struct ctr_strs *inputs; /* columns of the log that it reads */
};
typedef int ctr_plan_each_signal(void *ctx, const struct ctr_plan_signal *s, struct ctr_err *err);
int ctr_plan_signals(const struct ctr_plan *p, ctr_plan_each_signal *each, void *ctx, struct ctr_err *err) CTR_MUST;

/* Before the first batch: of the source's columns keep those that the plan reads. Where one is missing all stay, and
 * ctr_program_bind says what is wrong. */
int ctr_plan_project(const struct ctr_plan *p, struct ctr_batch_source *s, struct ctr_err *err) CTR_MUST;
/* Is `path` a plan in place of rows: the text of a plan, a fitted plan or a model? Pipes are not looked into: no. */
int ctr_plan_named(const char *path, bool *is_plan, struct ctr_err *err) CTR_MUST;

/* A program: the plan bound to an input schema, types checked, equal subexpressions joined, cut into layers. */
struct ctr_program;
int ctr_program_bind(struct ctr_program **g, struct ctr_plan *p, const struct ctr_schema *input,
                     struct ctr_err *err) CTR_MUST;
void ctr_program_free(struct ctr_program *g);
const struct ctr_schema *ctr_program_output(const struct ctr_program *g); /* with roles, tables, plan and plan id */
/* A model's plan over a log that lacks what the label reads: the output has no label, nor a
 * weight that is lacking too. */
bool ctr_program_unlabelled(const struct ctr_program *g);
/* Run with this many threads; the results are the same. */
int ctr_program_threads(struct ctr_program *g, int threads, struct ctr_err *err) CTR_MUST;
/* Bytes that its buffers may take, before the first run; 0: a GiB. Batches are cut into parts that do, and a row that
 * does not alone is an error. */
void ctr_program_memory(struct ctr_program *g, int64_t bytes);
/* *out, borrowed until the next run, has the first rows of the batch, mostly all; ctr_program_more: 1, and *out has the
 * next ones, or 0: there are no more. The plan must outlive the program. */
int ctr_program_more(struct ctr_program *g, const struct ctr_batch **out, struct ctr_err *err) CTR_MUST;
int ctr_program_run(struct ctr_program *g, const struct ctr_batch *in, const struct ctr_batch **out,
                    struct ctr_err *err) CTR_MUST;
/* Of vocabulary i (its section, such as "vocab.genre"; NULL past the last): the values that it gave so far, and those
 * of them that it does not hold. */
const char *ctr_program_unknown(const struct ctr_program *g, int i, int64_t *values, int64_t *unknown);
/* Placement ("FeatureBox", section 4), which --explain and --dot show: an operator is put on the GPU, layer by layer,
 * unless what it reads beside its batch (dictionary, embeddings, fitted vocabulary) and its result do not fit in what
 * is left of device_memory_bytes; then on the CPU, from where its result is copied. `place`: "NODE=cpu" and "NODE=gpu",
 * by number, the plan's name or that of an output, which override the rule. Without memory (0) all else is on the CPU.
 * It is a plan: ctr_program_run computes on the CPU. Before the first run; CTR_EUSAGE: no such node. */
struct ctr_place_opts {
    const struct ctr_strs *place;
    int64_t device_memory_bytes;
};
int ctr_program_place(struct ctr_program *g, const struct ctr_place_opts *o, struct ctr_err *err) CTR_MUST;
int ctr_program_explain(const struct ctr_program *g, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;
int ctr_program_dot(const struct ctr_program *g, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

/* What the plan extracts from the batches of *s: the schema and rows of a stream of ctr-extract. The source frees the
 * plan, too. memory_bytes: as of ctr_program_memory. */
int ctr_plan_source(struct ctr_batch_source *s, struct ctr_plan *plan, int threads, int64_t memory_bytes,
                    struct ctr_err *err) CTR_MUST;

/* Fit: feed all batches, finish, then save the plan with its fitted state as a bundle. */
int ctr_program_fit(struct ctr_program *g, const struct ctr_batch *in, struct ctr_err *err) CTR_MUST;
int ctr_program_fit_finish(struct ctr_program *g, struct ctr_err *err) CTR_MUST;
int64_t ctr_program_fit_memory(const struct ctr_program *g);
int ctr_program_fit_save(struct ctr_program *g, struct ctr_out *out, struct ctr_err *err) CTR_MUST;

/* Readable names of the keys of row `row` of an output column (of the batch that ran last), in their order. Say before
 * the first run that they will be asked for. Borrowed for the time of the call; no keys in the column: none. */
typedef int ctr_key_name(void *ctx, uint64_t key, struct ctr_str name, struct ctr_err *err);
void ctr_program_keep_names(struct ctr_program *g);
int ctr_program_row_names(const struct ctr_program *g, int column, int64_t row, ctr_key_name *each, void *ctx,
                          struct ctr_err *err) CTR_MUST;

/* Readable names of the keys that were made (ctr-extract --names): rows of table utf8 (dictionary), key uint64, name
 * utf8, count uint64, sorted by table and key; collisions among them are counted. */
int ctr_program_names_start(struct ctr_program *g, struct ctr_err *err) CTR_MUST;
int ctr_program_names_save(struct ctr_program *g, struct ctr_out *out, int64_t *collisions,
                           struct ctr_err *err) CTR_MUST;
/* Two names that collided, in words ("item: \"a\" and \"b\""): pair i of those counted. */
const char *ctr_program_names_collision(const struct ctr_program *g, int i);
int64_t ctr_program_names_memory(const struct ctr_program *g);

#endif
