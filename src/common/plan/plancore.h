/* SPDX-License-Identifier: Apache-2.0
 *
 * plancore: internal to the plan language; others include plan.h.
 *
 *     plan_lex.c    text -> tokens
 *     plan_parse.c  tokens -> definitions (repetition expanded, names resolved)
 *     plan_statement.c  tokens -> statements: the source of the rows
 *     plan_inputs.c the column types for which a plan was made
 *     plan_graph.c  definitions + schema -> graph of typed nodes, equal nodes merged, in layers
 *     plan_serve.c  the plan of a model without its label
 *     plan_spelling.c  texts that differ by Unicode normalisation alone
 *     plan_run.c    runs batches through a graph
 *     plan_gpu.c    runs nodes of a graph on a GPU
 *     plan.c        the public plan: files, fitted state, identity
 *     program.c     the public program: roles and outputs
 *     plan_fit.c, plan_names.c, plan_show.c   fitting, readable names, --explain and --dot
 *     expr.c        single expressions
 *
 * One arena holds everything that a parse creates.
 */
#ifndef CTR_PLANCORE_H
#define CTR_PLANCORE_H

#include "common/plan/plan.h"
#include "common/op/op.h"

#ifndef PLAN_MAX_DEFS           /* fuzzing uses fewer */
#define PLAN_MAX_DEFS (1 << 16) /* definitions after repetition */
#endif
enum {
    PLAN_MAX_TEXT = 1 << 20,       /* bytes of a plan */
    PLAN_MAX_NESTING = 64,         /* brackets within brackets */
    PLAN_MAX_DEPTH = 1000,         /* calls within calls, including chains of infix operators */
    PLAN_MAX_TOKENS = 1 << 20,     /* including repetitions */
    PLAN_MAX_CONSTANT = 1 << 20,   /* bytes of a text computed from literals */
    PLAN_MAX_CONSTANTS = 16 << 20, /* of all of them together */
    PLAN_NODE_BYTES = 64 << 20,    /* of a node's result, unless memory is smaller */
};

/* ---- arena ---- */

struct plan_block;
struct plan_arena {
    struct plan_block *head;
    size_t used, cap;
};
void *ctr_arena_alloc(struct plan_arena *a, size_t n, struct ctr_err *err) CTR_MUST; /* zeroed, 16-byte aligned */
char *ctr_arena_copy(struct plan_arena *a, const char *p, size_t n, struct ctr_err *err) CTR_MUST;
void ctr_arena_free(struct plan_arena *a);

/* A map from names to small numbers; the names are borrowed. */
struct plan_map {
    struct plan_map_entry {
        const char *name;
        int value;
    } * entry;
    int n, cap;
    struct ctr_index index;
};
int ctr_map_get(const struct plan_map *m, const char *name); /* or -1 */
int ctr_map_set(struct plan_map *m, const char *name, int value, struct ctr_err *err) CTR_MUST;
void ctr_map_free(struct plan_map *m);

/* ---- errors ---- */

struct plan_pos {
    int line, col; /* 1-based, in characters */
};
/* The origin of a text. A command line expression has no lines: "--where: character 7: …". */
struct plan_source {
    const char *file;
    bool inline_text;
    bool bundle; /* a fitted plan or a model, whose lines users do not see */
};
/* CTR_EUSAGE with file, line and column in err->file. */
int ctr_plan_fail(const struct plan_source *src, struct plan_pos pos, struct ctr_err *err, const char *fmt, ...)
    CTR_PRINTF(4, 5);
/* Prefix an error from a callee with the position; returns its code. */
int ctr_plan_locate(const struct plan_source *src, struct plan_pos pos, struct ctr_err *err);

/* Errors of a plan, one per line, in line order: the parser continues after an erroneous line. */
enum { PLAN_FAULTS = 6 };
struct plan_faults {
    struct plan_fault {
        struct plan_pos pos;
        char what[256];
    } fault[PLAN_FAULTS];
    int n, more;            /* errors kept; further errors */
    struct plan_map broken; /* names defined in unreadable lines: references to them are not reported as errors */
};
/* Keep an error of a line and clear *err; return any other error. An error without text belongs to a line that depends
 * on a broken one. */
int ctr_plan_keep(struct plan_faults *f, struct ctr_err *err);
int ctr_plan_raise(const struct plan_source *src, const struct plan_faults *f, struct ctr_err *err) CTR_MUST;

/* ---- tokens ---- */

enum plan_tok_kind {
    TOK_END,
    TOK_LINE, /* end of a line, outside brackets */
    TOK_NAME,
    TOK_LITERAL,
    TOK_OPEN,
    TOK_CLOSE,
    TOK_LIST,
    TOK_UNLIST,
    TOK_COMMA,
    TOK_ASSIGN,
    TOK_INFIX, /* text is an operator's name: == != < <= > >= + - * / // % */
};

struct plan_tok {
    enum plan_tok_kind kind;
    struct plan_pos pos;
    struct ctr_str source; /* as written */
    const char *name;      /* TOK_NAME, TOK_INFIX: the name itself */
    bool quoted;           /* `name` was quoted */
    bool range;            /* name[lo..hi] */
    int width;             /* number of digits to which range numbers are padded */
    int64_t lo, hi;
    struct ctr_value value; /* TOK_LITERAL */
    bool unidentified;      /* a file name, which does not change the plan's identity */
};

struct plan_toks {
    struct plan_tok *t;
    int n, cap;
};

/* faults NULL: stop at the first error. */
int ctr_plan_lex(struct plan_toks *out, struct plan_arena *arena, const struct plan_source *src, const char *text,
                 size_t n, struct plan_faults *faults, struct ctr_err *err) CTR_MUST;

/* ---- syntax tree ---- */

enum plan_ast_kind { AST_NAME, AST_LITERAL, AST_CALL };

struct plan_ast {
    enum plan_ast_kind kind;
    struct plan_pos pos;
    int depth;
    const char *name; /* AST_NAME, AST_CALL */
    int def;          /* AST_NAME: the definition it refers to, or -1: an input column */
    struct ctr_value value;
    const struct ctr_op *op; /* AST_CALL */
    struct plan_ast **arg;
    const char **arg_name; /* NULL: positional */
    int nargs;
};
static inline bool ctr_plan_is_column(const struct plan_ast *a)
{
    return a->kind == AST_NAME && a->def < 0;
}

enum plan_kind {
    PLAN_VALUE, /* intermediate */
    PLAN_KEEP,
    PLAN_ROLE, /* role: which one */
};

struct plan_def {
    enum plan_kind kind;
    enum ctr_role role;
    const char *name, *table; /* table: of features and images, default the name */
    const char *column;       /* of the output: the name, or NAME.feature beside a kept NAME */
    const char *of;           /* the feature whose history this one is, or NULL */
    const char *group;        /* name of its group of aligned lists, or NULL: that of its column */
    const char *order;        /* oldest or newest: which item comes first; or NULL: as in its column */
    struct plan_ast *expr;
    struct plan_pos pos, of_pos;
    bool defines; /* NAME = expr; else only the name */
};

/* The result of a parse. */
struct plan_tree {
    int language; /* set by the caller: CTR_PLAN_LANGUAGE, or the version of an old model */
    struct plan_arena arena;
    struct plan_source src;
    struct plan_def *def;
    int ndefs, cap;
    struct ctr_plan_statement *statement;
    int nstatements, statements_cap;
    struct plan_map names;    /* of the definitions */
    struct ctr_strs inputs;   /* columns in order of first use */
    struct ctr_buf canonical; /* the text without comments and other irrelevant choices, for the identity */
    int nfitted;              /* calls of fitted operators in the text */
    bool later;               /* set by the caller: raise faults at bind, together with those found there */
    struct plan_faults faults;
};

int ctr_plan_parse_tree(struct plan_tree *t, const char *file, const char *text, size_t n,
                        struct ctr_err *err) CTR_MUST;
/* Parse a single expression: the tree has one definition without a name. */
int ctr_plan_parse_expr(struct plan_tree *t, const char *what, const char *text, size_t n,
                        struct ctr_err *err) CTR_MUST;
/* Does the line starting at token t hold a statement? Parse it up to `end`, the last token of the line. */
bool ctr_plan_is_statement(const struct plan_tok *t);
int ctr_plan_read_statement(struct plan_tree *tree, struct plan_tok *t, struct plan_tok *end,
                            struct ctr_err *err) CTR_MUST;
void ctr_plan_statements_free(struct plan_tree *t);
void ctr_plan_tree_free(struct plan_tree *t);

/* ---- graph ---- */

enum plan_node_kind {
    NODE_COLUMN, /* an input column */
    NODE_CAST,   /* a column whose type differs from that in the plan's metadata: plan_inputs.c */
    NODE_CONST,  /* a literal as a column */
    NODE_CALL,   /* an operator */
    NODE_KEYS,   /* keys of a feature */
    NODE_DENSE,  /* to float32 */
    NODE_LABEL,  /* checked, to a number */
    NODE_WEIGHT, /* checked */
};

struct plan_node {
    enum plan_node_kind kind;
    struct plan_pos pos;
    struct ctr_vtype type;
    int depth;
    bool live;   /* an output needs it */
    bool shared; /* depends on one dictionary-encoded input column only: computed once per dictionary entry, and stays
                    encoded */
    bool used;   /* it is an output itself */
    bool fused; /* NODE_KEYS: keys of the call without its values; NODE_CALL: used only by such keys, so it does not run
                 */
    bool on_gpu; /* runs on the GPU, with the others of its layer */
    int column;  /* NODE_COLUMN */
    int *arg;    /* node of each argument of the call, -1 for a literal; other kinds: arg[0] */
    int nargs;
    uint64_t hash; /* of kind, operator and arguments, to merge equal nodes */
    uint64_t seed; /* NODE_KEYS */
    const char *table;
    const char *name;       /* the first definition with this value, or NULL */
    struct ctr_value value; /* NODE_CONST */
    struct ctr_op_call call;
    bool bound;
    const char *fit_section; /* fitted: name of its section */
    bool fit_ready;
    int64_t values, unknown; /* of a vocab: values produced; how many of them were "(other)" */
    double large;            /* NODE_DENSE: the first number that only float32 makes infinite … */
    int64_t large_row;       /* … and its row, from 1; 0: there is none */
    uint64_t *sketch;        /* NODE_KEYS of a column of floats: PLAN_SKETCH_BITS bits, one set for each key; or NULL */
    struct ctr_colbuf out;
    bool has_out;
    const struct ctr_col *col;      /* of the current batch */
    const struct ctr_col **arg_col; /* scratch memory for the argument columns */
    struct ctr_col encoded;         /* shared: storage for col */
    struct ctr_col absent;          /* its values are on the GPU alone: storage for col */
    struct ctr_buf scratch;
    const char *side; /* ctr.side; "": mixed */
    const char *past, *group,
        *order;            /* ctr.history_of, ctr.history and ctr.order of the column whose items these are, or NULL */
    const char *role_name; /* for messages about a number of a role: its name in the plan */
};

enum { PLAN_SKETCH_BITS = 1 << 19 };

struct plan_graph {
    struct plan_arena arena;
    struct plan_source src;
    const struct ctr_schema *input;
    const enum ctr_type *cast; /* per input column, see ctr_inputs_bind; NULL: no casts */
    struct plan_node *node;
    int n, cap;
    int64_t limit_bytes;    /* limit of one variable-size node's data per batch; above: CTR_ELARGE */
    int64_t folded;         /* bytes of texts computed from literals */
    bool no_fusion;         /* the caller reads every value */
    struct ctr_index nodes; /* by hash */
    int *order;             /* live nodes by depth, then by number */
    int *layer;             /* nlayers + 1 offsets into order */
    int norder, nlayers;
    const char *dir;               /* base folder of files that operators read */
    bool confined;                 /* they may read no files elsewhere */
    uint64_t key_seed;             /* seed of all hashes of texts that become keys */
    struct plan_faults *faults;    /* NULL: stop at the first error */
    int *def_node;                 /* ctr_graph_tree: node of each definition's value */
    struct ctr_pool *pool;         /* NULL: one thread */
    struct ctr_err *task_err;      /* with a pool: one per node of the widest layer */
    const struct ctr_batch *batch; /* being processed */
    struct plan_gpu *gpu;          /* NULL: all nodes run on the CPU */
};

/* The result of binding an expression: a node, or a literal not yet used by a call. */
struct plan_ref {
    int node; /* -1: a literal */
    const struct plan_ast *literal;
};

struct ctr_vtype ctr_field_vtype(const struct ctr_field *f);
int ctr_inputs_cast(const struct plan_graph *g, struct plan_node *n, const struct ctr_col *c,
                    struct ctr_err *err) CTR_MUST;
int ctr_graph_init(struct plan_graph *g, const struct plan_source *src, const struct ctr_schema *input, const char *dir,
                   struct ctr_err *err) CTR_MUST;
void ctr_graph_free(struct plan_graph *g);
/* Bind all definitions of a tree except those in leave_out (NULL: none): g->def_node[i]. */
int ctr_graph_tree(struct plan_graph *g, const struct plan_tree *t, const bool *leave_out,
                   struct ctr_err *err) CTR_MUST;
/* Add a node that converts `node` for a role (NODE_KEYS, NODE_DENSE, NODE_LABEL, NODE_WEIGHT). Returns it. */
int ctr_graph_convert(struct plan_graph *g, enum plan_node_kind kind, int node, const struct plan_def *d,
                      struct ctr_err *err) CTR_MUST;
/* Mark `node` and its dependencies as live. */
void ctr_graph_use(struct plan_graph *g, int node);
/* Call after the last use: divide into layers, create buffers. */
int ctr_graph_seal(struct plan_graph *g, struct ctr_err *err) CTR_MUST;
int ctr_graph_run(struct plan_graph *g, const struct ctr_batch *in, struct ctr_err *err) CTR_MUST;
/* Set n->arg_col to the argument columns of a call or of keys; entries: to the entries of their dictionary. */
void ctr_node_args(const struct plan_graph *g, struct plan_node *n, bool entries);
/* The encoded column from which a shared node is computed, where that is faster; else NULL. */
const struct ctr_col *ctr_node_shared(const struct plan_graph *g, const struct plan_node *n, int64_t rows);
/* Set n->col; if `shared` is not NULL, the values belong to its entries. */
void ctr_node_done(struct plan_node *n, const struct ctr_col *values, const struct ctr_col *shared);
/* plan_gpu.c: why a GPU cannot run a node (words that follow "it "), or NULL. For each batch begin; for each of its
 * layers start the on_gpu nodes, and finish or abandon them after the others have run. 1 from start (nothing runs) or
 * finish: the batch has what cannot be left, and begins again without `leave`. */
const char *ctr_node_refused(const struct plan_graph *g, const struct plan_node *n);
int ctr_graph_begin_gpu(struct plan_graph *g, bool leave, struct ctr_err *err) CTR_MUST;
int ctr_graph_start_gpu(struct plan_graph *g, int layer, struct ctr_err *err) CTR_MUST;
int ctr_graph_finish_gpu(struct plan_graph *g, int layer, struct ctr_err *err) CTR_MUST;
void ctr_graph_abandon_gpu(struct plan_graph *g);
/* From the next batch on leave these nodes on the GPU, where their arguments are or can go: keys, lists of keys,
 * numbers. In *of, columns are nodes. 1: done; 0: there are fewer buffers than batches, and nothing changed. After a
 * batch: what is left; NULL: its nodes have everything. */
int ctr_graph_leave_gpu(struct plan_graph *g, const struct ctr_leave *of, struct ctr_err *err) CTR_MUST;
const struct ctr_left *ctr_graph_left_gpu(struct plan_graph *g);
void ctr_graph_free_gpu(struct plan_graph *g);
bool ctr_value_equal(const struct ctr_value *a, const struct ctr_value *b); /* equal kind and bits */
/* Write a literal in the syntax of the language. `brief`: only the first 60 bytes of long texts and 8 items of long
 * lists. */
void ctr_value_show(struct ctr_say *s, const struct ctr_value *v, bool brief);

#endif
