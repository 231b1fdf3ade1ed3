/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-model-refuse: model files that hold together as streams but not as models. Each is one that ctr-train wrote with
 * one thing changed; prediction, learning on and resuming say what is wrong, or do without what they do not need. */
#include <stdlib.h>

#include "models.h"
#include "tap.h"

/* ---- a bundle in memory, and a change of it ---- */

enum { MAX_SECTIONS = 16 };
struct section {
    struct ctr_schema schema;
    struct ctr_batchbuf rows;
    int encoded; /* column that is written with a dictionary, or -1 */
};
static struct section bundle[MAX_SECTIONS];
static int sections;
static struct ctr_err err;

static void check(int rc)
{
    if (rc) {
        printf("Bail out! %s\n", err.what);
        exit(1);
    }
}

static void bundle_free(void)
{
    for (int i = 0; i < sections; i++) {
        ctr_batchbuf_free(&bundle[i].rows);
        ctr_schema_free(&bundle[i].schema);
    }
    sections = 0;
}

static void bundle_read(const char *path)
{
    struct ctr_reader_opts o = { .sections = true };
    struct ctr_reader *r;
    const struct ctr_batch *b;
    char *paths[] = { (char *)(uintptr_t)path };
    int rc;
    bundle_free();
    check(ctr_reader_open(&r, paths, 1, &o, &err));
    do {
        struct section *s = &bundle[sections++];
        *s = (struct section){ .encoded = -1 };
        check(ctr_schema_copy(&s->schema, ctr_reader_schema(r), &err));
        for (int c = 0; c < s->schema.n; c++)
            s->schema.f[c].dict = false;
        check(ctr_batchbuf_init(&s->rows, &s->schema, &err));
        while ((rc = ctr_reader_next(r, &b, &err)) > 0)
            check(ctr_batchbuf_range(&s->rows, b, 0, b->rows, &err));
        check(rc);
    } while ((rc = ctr_reader_section(r, &err)) > 0);
    check(rc);
    ctr_reader_free(r);
}

static const char *section_name(const struct section *s)
{
    const char *name = ctr_meta_get(&s->schema.meta, CTR_META_SECTION);
    return name ? name : "";
}

static void section_write(struct section *s, struct ctr_out *o)
{
    struct ctr_writer *w;
    const struct ctr_batch *b = ctr_batchbuf_view(&s->rows);
    struct ctr_col col[16];
    static int32_t place[4096];
    for (int c = 0; c < s->schema.n; c++)
        col[c] = b->col[c];
    for (int i = 0; i < 4096; i++)
        place[i] = i;
    if (s->encoded >= 0 && b->rows <= 4096) {
        s->schema.f[s->encoded].dict = true;
        col[s->encoded] = (struct ctr_col){
            .type = b->col[s->encoded].type, .rows = b->rows, .data = place, .dict = &b->col[s->encoded]
        };
    }
    const struct ctr_batch out = { &s->schema, b->rows, 0, col };
    check(ctr_writer_open(&w, o, &s->schema, NULL, &err));
    check(ctr_writer_batch(w, &out, &err));
    check(ctr_writer_finish(w, &err));
    ctr_writer_free(w);
}

static void bundle_write(const char *path)
{
    struct ctr_buf names = { 0 };
    struct ctr_out *o;
    for (int i = 0; i < sections; i++)
        if (*section_name(&bundle[i])) /* one without a name is one that no list has */
            check(ctr_buf_printf(&names, &err, "%s%s", i ? "," : "", section_name(&bundle[i])));
    check(ctr_meta_set(&bundle[0].schema.meta, CTR_META_SECTIONS, sections > 1 ? (char *)names.data : NULL, &err));
    check(ctr_out_open(&o, path, 0, &err));
    for (int i = 0; i < sections; i++)
        section_write(&bundle[i], o);
    check(ctr_out_commit(o, &err));
    ctr_out_free(o);
    ctr_buf_free(&names);
}

/* "null", a number, text; of a fixed_size_list all of its items, "[null]" one null among them. "@0": a zero byte. */
static int put_value(struct ctr_colbuf *b, const struct ctr_field *f, const char *text)
{
    if (!strcmp(text, "null"))
        return ctr_colbuf_null(b, &err);
    if (f->type == CTR_FIXED) {
        for (int i = 0; i < f->width; i++)
            check(i || strcmp(text, "[null]") ? ctr_colbuf_f64(b->item, strtod(text, NULL), &err)
                                              : ctr_colbuf_null(b->item, &err));
        return ctr_colbuf_close(b, &err);
    }
    if (f->type == CTR_UTF8)
        return strcmp(text, "@0") ? ctr_colbuf_str(b, text, strlen(text), &err) : ctr_colbuf_str(b, "a\0b", 3, &err);
    return ctr_types[f->type].floating ? ctr_colbuf_f64(b, strtod(text, NULL), &err)
                                       : ctr_colbuf_i64(b, strtoll(text, NULL, 10), &err);
}

enum op {
    END,
    SET,    /* row `row` (from the end: -1) of the column = arg */
    RETYPE, /* the column has type arg, and 0 everywhere */
    DROP,   /* the column is not there */
    ENCODE, /* … is written with a dictionary */
    META,   /* key `column` of the schema = arg, NULL: it is not there */
    CUT,    /* the last row is not there */
    REPEAT, /* row `row` comes again at the end, arg times */
    MOVE,   /* the section comes last, */
    AGAIN,  /* … again as the last one, */
    LOSE,   /* … or not at all */
};
struct change {
    const char *section;
    enum op op;
    const char *column, *arg;
    int row;
};

/* The columns of a section made anew. */
static void change_columns(struct section *s, const struct change *x, int column)
{
    struct section to = { .encoded = -1 };
    const struct ctr_batch *b = ctr_batchbuf_view(&s->rows);
    const int64_t rows = b->rows - (x->op == CUT), at = x->row < 0 ? b->rows + x->row : x->row;
    check(ctr_meta_copy(&to.schema.meta, &s->schema.meta, &err));
    for (int c = 0; c < s->schema.n; c++) {
        if (x->op == DROP && c == column)
            continue;
        check(ctr_schema_add_field(&to.schema, &s->schema.f[c], NULL, &err));
        if (x->op == RETYPE && c == column && !ctr_type_parse(x->arg, strlen(x->arg), &to.schema.f[c]))
            check(ctr_fail(&err, CTR_EUSAGE, "%s is no type", x->arg));
    }
    check(ctr_batchbuf_init(&to.rows, &to.schema, &err));
    for (int c = 0, k = 0; c < s->schema.n; c++) {
        if (x->op == DROP && c == column)
            continue;
        struct ctr_colbuf *col = &to.rows.col[k++];
        for (int64_t i = 0; i < rows; i++)
            if (c == column && (x->op == RETYPE || (x->op == SET && i == at)))
                check(put_value(col, &to.schema.f[k - 1], x->op == SET ? x->arg : "0"));
            else
                check(ctr_colbuf_range(col, &b->col[c], i, 1, &err));
        for (int64_t i = x->op == REPEAT ? strtoll(x->arg, NULL, 10) : 0; i > 0; i--)
            check(ctr_colbuf_range(col, &b->col[c], at, 1, &err));
    }
    ctr_batchbuf_free(&s->rows);
    ctr_schema_free(&s->schema);
    *s = to;
    s->rows.schema = &s->schema;
}

static void section_copy(struct section *to, struct section *from)
{
    *to = (struct section){ .encoded = -1 };
    check(ctr_schema_copy(&to->schema, &from->schema, &err));
    check(ctr_batchbuf_init(&to->rows, &to->schema, &err));
    check(ctr_batchbuf_range(&to->rows, ctr_batchbuf_view(&from->rows), 0, ctr_batchbuf_rows(&from->rows), &err));
}

static void change(const struct change *x)
{
    int at = 0;
    while (at < sections && strcmp(section_name(&bundle[at]), x->section) != 0)
        at++;
    if (at == sections)
        check(ctr_fail(&err, CTR_EUSAGE, "no section %s", x->section));
    struct section *s = &bundle[at];
    if (x->op == META) {
        check(ctr_meta_set(&s->schema.meta, x->column, x->arg, &err));
    } else if (x->op >= MOVE) {
        if (x->op != LOSE)
            section_copy(&bundle[sections++], s);
        if (x->op == AGAIN)
            return;
        ctr_batchbuf_free(&s->rows);
        ctr_schema_free(&s->schema);
        sections--;
        memmove(s, s + 1, (size_t)(sections - at) * sizeof *s);
        for (int i = 0; i < sections; i++)
            bundle[i].rows.schema = &bundle[i].schema;
    } else {
        int column = x->column ? ctr_schema_find(&s->schema, x->column) : -1;
        if (x->column && column < 0)
            check(ctr_fail(&err, CTR_EUSAGE, "no column %s", x->column));
        if (x->op == ENCODE)
            s->encoded = column;
        else
            change_columns(s, x, column);
    }
}

/* ---- what is tried ---- */

#define FINE ""
#define LONG_NAME                                                                                                      \
    "a name that is longer than what is kept of one, which is not looked up again for each of the rows that have it: " \
    "the next row that has it finds the table that it named nevertheless, by looking for it among the names of all of" \
    " them, whatever they are, and how long it may take; one of 260 bytes suffices for that, and so this is the end"
struct trial {
    struct change change[3];
    const char *predicted, *learned; /* words of the error; FINE: there is none; learned NULL: as predicted */
};
struct subject {
    const char *kind, *options, *go_on; /* options of learning on, NULL: the same */
    const struct trial *trial;
};

static const struct trial mlp[] = {
    { { { "mlp", META, CTR_META_MODEL, NULL } }, "not a model: ctr-train writes models", NULL },
    { { { "mlp", META, CTR_META_MODEL, "oak" } }, "a model of kind 'oak', which this version does not know", NULL },
    { { { "mlp", META, CTR_META_MODEL_OPTIONS, "embedding=2 hidden=4" } }, "with these options it is", FINE },
    { { { "mlp", META, CTR_META_MODEL_OPTIONS, "hidden=x" } }, "option 'hidden=x' is unknown to this version", NULL },
    /* the main section */
    { { { "mlp", DROP, "name" } }, "section main of the model: a column is missing", NULL },
    { { { "mlp", DROP, "kind" } }, "a column is missing", NULL },
    { { { "mlp", DROP, "table" } }, "a column is missing", NULL },
    { { { "mlp", RETYPE, "table", "int8" } }, "a column is missing", NULL },
    { { { "mlp", ENCODE, "table" } }, "a column is missing", NULL },
    { { { "mlp", DROP, "rows" } }, "a column is missing", NULL },
    { { { "mlp", RETYPE, "rows", "int8" } }, "a column is missing", NULL },
    { { { "mlp", SET, "rows", "null" } }, "a column is missing", NULL },
    { { { "mlp", DROP, "cols" } }, "a column is missing", NULL },
    { { { "mlp", ENCODE, "kind" } }, "a column is missing", NULL },
    { { { "mlp", SET, "name", "@0" } }, "a name or a size is damaged", NULL },
    { { { "mlp", SET, "rows", "-1" } }, "a name or a size is damaged", NULL },
    { { { "mlp", SET, "cols", "-1" } }, "a name or a size is damaged", NULL },
    { { { "mlp", SET, "kind", "kin" } }, "a kind is none of key, keys", NULL },
    { { { "mlp", SET, "kind", "bey" } }, "a kind is none of key, keys", NULL },
    { { { "mlp", SET, "table", "null" } }, "an input of keys has no table", NULL },
    { { { "mlp", SET, "cols", "70000", 3 } }, "more numbers than a row can have", NULL },
    { { { "mlp", SET, "cols", "3", 4 } }, "table item of the model has 3 floats a key, its options say 2", NULL },
    { { { "mlp", SET, "name", "0.wide", 6 } }, "the model has the parameter 0.wide", NULL },
    { { { "mlp", SET, "rows", "9", 6 } }, "the model has the parameter 0.weight of 9 x 7, with these options", NULL },
    { { { "mlp", SET, "cols", "9", 6 } }, "of 3 x 9, with these options it is 0.weight of 3 x 7", NULL },
    { { { "mlp", CUT } }, "the model lacks parameters that its options ask for", NULL },
    { { { "mlp", REPEAT, NULL, "65536", 0 } }, "a kind is none of key, keys", NULL },
    { { { "mlp", REPEAT, NULL, "1", -1 } }, "with these options it is none", NULL },
    { { { "mlp", SET, "name", "other" } }, "the stream lacks the model's input 'other'", NULL },
    { { { "mlp", SET, "kind", "keys" } }, "takes lists of keys of table item, the stream has keys of table", NULL },
    { { { "mlp", META, "ctr.model_clock", NULL } }, FINE, "how many minibatches were learned" },
    { { { "mlp", META, "ctr.model_clock", "7" } }, FINE, "how many minibatches were learned" },
    { { { "mlp", META, "ctr.model_clock", "-7 8" } }, FINE, "how many minibatches were learned" },
    { { { "mlp", META, "ctr.model_clock", "7 -8" } }, FINE, "how many minibatches were learned" },
    /* a table */
    { { { "emb.item", META, CTR_META_TABLE, NULL } }, FINE, FINE },
    { { { "emb.item", META, CTR_META_TABLE, "else" } }, "emb.item of the model: the main section does not list", NULL },
    { { { "mlp", SET, "table", "else" }, { "mlp", SET, "table", "else", 1 } }, "does not list it", NULL },
    { { { "emb.item", META, CTR_META_SECTION, "vocab.item" } }, "the model lacks its section emb.item", NULL },
    { { { "emb.item", LOSE } }, "the model lacks its section emb.item", NULL },
    { { { "emb.item", AGAIN } }, "section emb.item of the model: it comes twice", NULL },
    { { { "emb.item", MOVE } }, FINE, FINE },
    { { { "emb.item", DROP, "key" } }, "column key is missing or not uint64", NULL },
    { { { "emb.item", RETYPE, "key", "int64" } }, "column key is missing or not uint64", NULL },
    { { { "emb.item", ENCODE, "key" } }, "column key is missing or not uint64", NULL },
    { { { "emb.item", DROP, "value" } }, "column value is missing or is not fixed_size_list<float32>[2]", NULL },
    { { { "emb.item", RETYPE, "value", "float32" } }, "column value is missing or is not", NULL },
    { { { "emb.item", RETYPE, "value", "fixed_size_list<float32>[3]" } }, "column value is missing or is not", NULL },
    { { { "emb.item", RETYPE, "value", "fixed_size_list<float64>[2]" } }, "column value is missing or is not", NULL },
    { { { "emb.item", SET, "value", "[null]" } }, "column value is missing or is not", NULL },
    { { { "emb.item", SET, "value", "null" } }, "column value is missing or is not", NULL },
    { { { "emb.item", SET, "value", "inf" } },
      "emb.item of the model: a number of column value is infinite or not",
      NULL },
    { { { "emb.item", SET, "m", "nan" } }, FINE, "emb.item of the model: a number of column m is infinite or not" },
    { { { "emb.item", DROP, "v" } },
      FINE,
      "column v is missing or is not fixed_size_list<float32>[2]: it can predict" },
    { { { "emb.item", DROP, "count" } }, FINE, "column count is missing: the model was trained without --l2" },
    { { { "emb.item", RETYPE, "count", "int32" } }, FINE, "column count is missing" },
    { { { "emb.item", REPEAT, NULL, "1" } }, "emb.item of the model: a key comes twice", NULL },
    { { { "emb.item", CUT } }, FINE, FINE },
    { { { "emb.item", CUT }, { "emb.site", CUT } }, FINE, FINE },
    /* a parameter */
    { { { "mlp.0.weight", META, CTR_META_SECTION, "mlp.9.weight" } }, "the main section does not list it", NULL },
    { { { "mlp.0.weight", META, CTR_META_SECTION, "mlpa" } }, "the model lacks its section 0.weight", NULL },
    { { { "mlp.0.weight", META, CTR_META_SECTION, NULL } }, "section 'mlp.0.bias' does not follow", NULL },
    { { { "mlp.0.weight", MOVE }, { "mlp.0.weight", META, CTR_META_SECTION, NULL } },
      "lacks its section 0.weight",
      NULL },
    { { { "mlp.0.weight", LOSE } }, "lacks its section 0.weight: was it filtered with --section?", NULL },
    { { { "mlp.0.weight", AGAIN } }, "section mlp.0.weight of the model: it comes twice", NULL },
    { { { "mlp.0.weight", DROP, "row" } }, "column row is missing or not int32", NULL },
    { { { "mlp.0.weight", RETYPE, "row", "int64" } }, "column row is missing or not int32", NULL },
    { { { "mlp.0.weight", DROP, "value" } }, "column value is missing or is not", NULL },
    { { { "mlp.0.weight", SET, "row", "2" } }, "its rows are not all there, in order", NULL },
    { { { "mlp.0.weight", REPEAT, NULL, "1" }, { "mlp.0.weight", SET, "row", "3", 3 } },
      "are not all there, in order",
      NULL },
    { { { "mlp.0.weight", CUT } }, "section 0.weight of the model: its rows are not all there", NULL },
    { { { "mlp.0.weight", SET, "value", "-inf" } }, "a number of column value is infinite or not a number", NULL },
    { { { NULL } }, NULL, NULL },
};

static const struct trial mlp_without_counts[] = {
    { { { "emb.item", SET, "m", "0" } }, FINE, "column count is missing: the model was trained without --l2" },
    { { { NULL } }, NULL, NULL },
};

#define TWICE "of the model: its table and key came before; train it again, or keep the first"
static const struct trial lr[] = {
    { { { "lr", META, CTR_META_MODEL_OPTIONS, NULL } }, FINE, FINE },
    { { { "lr", META, CTR_META_MODEL_OPTIONS, "l1=many" } }, "option 'l1=many' is unknown to this version", NULL },
    { { { "lr", META, CTR_META_MODEL_OPTIONS, "l1=-1" } }, "the model's options are damaged: --l1", NULL },
    { { { "lr", DROP, "table" } }, "the model has no column 'table'", NULL },
    { { { "lr", DROP, "key" } }, "the model has no column 'key'", NULL },
    { { { "lr", RETYPE, "table", "int32" } }, "column 'table' of the model has another type", NULL },
    { { { "lr", RETYPE, "key", "int64" } }, "column 'key' of the model has another type", NULL },
    { { { "lr", ENCODE, "key" } }, "column 'key' of the model has another type", NULL },
    { { { "lr", RETYPE, "weight", "int64" } }, "column 'weight' of the model has another type", NULL },
    { { { "lr", RETYPE, "n", "float32" } }, FINE, FINE },
    { { { "lr", SET, "table", "null" } }, "column 'table' of the model has nulls", NULL },
    { { { "lr", SET, "table", "null" }, { "lr", ENCODE, "table" } }, "column 'table' of the model has nulls", NULL },
    { { { "lr", SET, "key", "null" } }, "column 'key' of the model has nulls", NULL },
    { { { "lr", SET, "table", "@0" } }, "a table name of the model holds a zero byte", NULL },
    { { { "lr", SET, "table", "" } }, FINE, FINE },
    { { { "lr", SET, "table", LONG_NAME, 2 } }, FINE, FINE },
    { { { "lr", SET, "z", "inf", 2 } },
      "section lr, row 3, key 1: z is infinite",
      "row 3 of the model: z or n is damaged" },
    { { { "lr", SET, "n", "-1", 2 } },
      "section lr, row 3, key 1: its weight is not a number",
      "row 3 of the model: z or n is damaged" },
    { { { "lr", SET, "n", "inf", 2 } },
      "section lr, row 3, key 1: n is infinite",
      "row 3 of the model: z or n is damaged" },
    { { { "lr", SET, "n", "nan", 2 } }, "section lr, row 3, key 1: n is NaN", "row 3 of the model: z or n is damaged" },
    { { { "lr", REPEAT, NULL, "1", 0 } }, TWICE, TWICE }, /* the bias */
    { { { "lr", REPEAT, NULL, "1", 1 } }, TWICE, TWICE },
    { { { "lr", REPEAT, NULL, "1", 1 }, { "lr", SET, "weight", "0.25", 1 } }, TWICE, TWICE },
    { { { "lr", DROP, "z" } }, FINE, "the model has no column 'z': it can predict but not learn on" },
    { { { "lr", DROP, "n" } }, FINE, "the model has no column 'n': it can predict but not learn on" },
    { { { NULL } }, NULL, NULL },
};

static const struct trial q13[] = {
    { { { "lr", META, CTR_META_MODEL_STEPS, "many" } }, "the model's ctr.model_steps, 'many', is damaged", NULL },
    { { { "lr", META, CTR_META_MODEL_STEPS, "-1" } }, "the model's ctr.model_steps, '-1', is damaged", NULL },
    { { { "lr", META, CTR_META_MODEL_CLIPS, "-1" } }, "the model's ctr.model_clips, '-1', is damaged", NULL },
    { { { "lr", META, CTR_META_MODEL_CLIPS, NULL } }, FINE, FINE },
    { { { "lr", DROP, "negatives" } }, FINE, "has no column 'negatives': it can predict but not learn on" },
    { { { NULL } }, NULL, NULL },
};

static const struct trial weights[] = {
    { { { "lr", SET, "weight", "inf", 2 } }, "section lr, row 3, key ", "row 3 of the model: weight or n is damaged" },
    { { { "lr", SET, "weight", "2", 2 } }, FINE, FINE },
    { { { NULL } }, NULL, NULL },
};
static const struct trial unchanged[] = {
    { { { "lr", META, "x", "y" } }, FINE, FINE },
    { { { NULL } }, NULL, NULL },
};

static const struct trial another_optimizer[] = {
    { { { "lr", META, "x", "y" } }, FINE, "--optimizer rda --learning-rate per-coordinate, whose state is not that" },
    { { { NULL } }, NULL, NULL },
};
static const struct trial another_rate[] = {
    { { { "lr", META, "x", "y" } }, FINE, "whose state is not that of --optimizer ftrl --learning-rate counts" },
    { { { NULL } }, NULL, NULL },
};
static const struct trial another_alpha[] = {
    { { { "lr", META, "x", "y" } }, FINE, "the model's z goes with its --alpha 0.1 and --l1 0.5: give the same" },
    { { { NULL } }, NULL, NULL },
};

static const struct subject subjects[] = {
    { "mlp", "embedding=2 hidden=3 minibatch=8 l2=0.1", NULL, mlp },
    { "mlp", "embedding=2 hidden=3 minibatch=8", "embedding=2 hidden=3 minibatch=8 l2=0.1", mlp_without_counts },
    { "lr", "", NULL, lr },
    { "lr", "precision=q2.13 learning-rate=counts", NULL, q13 },
    { "lr", "optimizer=ogd", NULL, weights },
    { "lr", "optimizer=ogd-count", NULL, weights },
    { "lr", "", "bias=no", unchanged },
    { "lr", "bias=no", NULL, unchanged },
    { "lr", "learning-rate=global l1=0.5", NULL, unchanged },
    { "lr", "optimizer=rda", "", another_optimizer },
    { "lr", "", "learning-rate=counts", another_rate },
    { "lr", "learning-rate=global l1=0.5", "learning-rate=global", another_alpha },
    { "lr", "learning-rate=global l1=0.5", "learning-rate=global l1=0.5 alpha=0.3", another_alpha },
};

static char model[64], changed[64], made[64];

static void judge(const char *what, const struct trial *t, int rc, const char *want)
{
    static const char *const ops[] = { "",    "set",    "retype", "drop",  "encode", "meta",
                                       "cut", "repeat", "move",   "again", "lose" };
    const struct change *x = &t->change[0];
    const bool right = *want ? rc < 0 && rc != CTR_ENOMEM && strstr(err.what, want) : !rc;
    ok(right, "%s: %s %s %s %s: %s", what, x->section, ops[x->op], x->column ? x->column : "", x->arg ? x->arg : "",
       rc ? err.what : "fine");
    if (!right)
        printf("# wanted: %s\n", want);
}

static void try(const struct subject *s, const struct trial *t)
{
    char warned[256];
    double sum;
    bundle_read(model);
    for (int i = 0; i < 3 && t->change[i].op; i++)
        change(&t->change[i]);
    bundle_write(changed);
    err = (struct ctr_err){ 0 };
    judge("predict", t, model_predict(changed, false, &sum, warned, &err), t->predicted);
    unlink(made);
    err = (struct ctr_err){ 0 };
    int rc = model_train(s->kind, s->go_on ? s->go_on : s->options, changed, NULL, made, &err);
    judge("learn on", t, rc, t->learned ? t->learned : t->predicted);
    ok(!rc == !access(made, F_OK), "… and a model is there if it was learned");
}

/* A checkpoint whose section of state is not what it should be. */
static void test_state(void)
{
    static const char options[] = "inclusion-bloom=1 inclusion-memory=4096";
    static const struct trial trials[] = {
        { { { "state", MOVE } }, NULL, FINE },
        { { { "state", META, CTR_META_SECTION, "estate" } }, NULL, "a section that this version does not know" },
        { { { "state", META, CTR_META_SECTION, NULL } }, NULL, "a section that this version does not know" },
        { { { "state", RETYPE, "word", "int64" } }, NULL, "a section that this version does not know" },
        { { { "state", ENCODE, "word" } }, NULL, "a section that this version does not know" },
        { { { "state", DROP, "word" } }, NULL, "a section that this version does not know" },
        { { { "state", SET, "word", "null" } }, NULL, "the checkpoint's state has nulls" },
        { { { "state", CUT } }, NULL, "damaged" },
        { { { "state", LOSE } }, NULL, "damaged" },
    };
    for (size_t i = 0; i < CTR_COUNT(trials); i++) {
        unlink(changed);
        int rc = model_train("lr", options, NULL, changed, made, &err);
        ok(rc == CTR_ESTOPPED && !access(changed, F_OK), "a run stops and leaves its checkpoint");
        bundle_read(changed);
        change(&trials[i].change[0]);
        bundle_write(changed);
        err = (struct ctr_err){ 0 };
        rc = model_train("lr", options, NULL, changed, made, &err);
        judge("resume", &trials[i], rc, trials[i].learned);
    }
}

int main(void)
{
    char rows[64];
    model_file(rows, "rows");
    model_file(model, "model");
    model_file(changed, "changed");
    model_file(made, "made");
    check(model_make_rows(rows, &err));
    for (size_t i = 0; i < CTR_COUNT(subjects); i++) {
        const struct subject *s = &subjects[i];
        check(model_train(s->kind, s->options, NULL, NULL, model, &err));
        for (const struct trial *t = s->trial; t->change[0].section; t++)
            try(s, t);
    }
    test_state();
    bundle_free();
    unlink(rows);
    unlink(model);
    unlink(changed);
    unlink(made);
    return done_testing();
}
