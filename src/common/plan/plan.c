/* SPDX-License-Identifier: Apache-2.0
 *
 * plan: the public view of a plan: its text, its fitted state, its identity. The state is kept as sections, as in a
 * fitted plan or a model; only binding passes it to operators.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/plan/program.h"

/* The fitted plan of `feature v = vocab(site)` in a file, and which function reads which part:
 *
 *     section plan     metadata CTR_META_PLAN: the text; CTR_META_PLAN_ID; CTR_META_PLAN_INPUTS: types of columns
 *     section vocab.v  the state of the operator: key, name, count
 *
 *     ctr_plan_parse     text: parse, identify
 *     load_bundle        file: set_meta takes the text, load_section the rows of vocab.v
 *     ctr_plan_of_meta   metadata of a stream of features: the text alone, such as for ctr-signals
 *
 * The identity is a hash of the canonical text (no comments, one form of blanks), then a line "vocab.v DIGEST" for each
 * section in the order of names, then the print of the key seed. Two fits of one plan have two identities. */

/* ---- identity ---- */

static int section_order(const void *a, const void *b)
{
    const struct plan_section *x = *(const struct plan_section *const *)a, *y = *(const struct plan_section *const *)b;
    return strcmp(x->name, y->name);
}

/* Hashes only names and types, so that what a model adds to a copied section does not change the plan's identity. */
static int section_digest(const struct plan_section *s, struct ctr_buf *to, struct ctr_err *err)
{
    struct ctr_schema plain = { 0 };
    struct ctr_digest *d = NULL;
    char hex[33] = "";
    int rc = 0;
    for (int i = 0; rc >= 0 && i < s->schema.n; i++) {
        rc = ctr_schema_add(&plain, s->schema.f[i].name, s->schema.f[i].type, err);
        if (rc >= 0) {
            plain.f[i].item = s->schema.f[i].item;
            plain.f[i].width = s->schema.f[i].width;
        }
    }
    if (rc >= 0)
        rc = ctr_digest_new(&d, &plain, err);
    if (rc == 0) {
        struct ctr_batch b = *ctr_batchbuf_view((struct ctr_batchbuf *)&s->rows);
        b.schema = &plain;
        rc = ctr_digest_batch(d, &b, err);
    }
    if (rc == 0) {
        ctr_digest_hex(d, hex);
        rc = ctr_buf_printf(to, err, "\n%s %s", s->name, hex);
    }
    ctr_digest_free(d);
    ctr_schema_free(&plain);
    return CTR_MIN(rc, 0);
}

int ctr_plan_identify(struct ctr_plan *p, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    const struct plan_section **s = calloc((size_t)p->nsections + 1, sizeof *s);
    int rc = s ? ctr_buf_append(&b, p->tree.canonical.data, p->tree.canonical.len, err)
               : ctr_fail_nomem(err, (size_t)p->nsections * sizeof *s);
    for (int i = 0; s && i < p->nsections; i++)
        s[i] = &p->section[i];
    if (s)
        qsort(s, (size_t)p->nsections, sizeof *s, section_order);
    for (int i = 0; rc == 0 && i < p->nsections; i++)
        rc = section_digest(s[i], &b, err);
    if (rc == 0 && p->seed_print)
        rc = ctr_buf_printf(&b, err, "\nkey_seed %s", p->seed_print);
    if (rc == 0) {
        struct ctr_hash128 h = ctr_hash128(b.data, b.len);
        snprintf(p->id, sizeof p->id, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
    }
    free(s);
    ctr_buf_free(&b);
    return rc;
}

/* ---- sections ---- */

int ctr_plan_add_section(struct ctr_plan *p, const char *name, const struct ctr_schema *schema,
                         struct plan_section **out, struct ctr_err *err)
{
    const int cap = p->cap;
    int rc = ctr_array_grow(&p->section, p->nsections, &p->cap, sizeof *p->section, err);
    if (rc)
        return rc;
    for (int i = 0; i < p->nsections && p->cap != cap; i++) /* the rows point to the adjacent schema, which moved */
        p->section[i].rows.schema = &p->section[i].schema;
    struct plan_section *s = &p->section[p->nsections++];
    *s = (struct plan_section){ 0 };
    rc = ctr_strdup(&s->name, name, err);
    if (rc == 0)
        rc = ctr_schema_copy(&s->schema, schema, err);
    for (int i = 0; rc == 0 && i < schema->n; i++)
        s->schema.f[i].dict = false;
    if (rc == 0)
        rc = ctr_batchbuf_init(&s->rows, &s->schema, err);
    *out = s;
    return rc;
}

const struct plan_section *ctr_plan_section(const struct ctr_plan *p, const char *name)
{
    for (int i = 0; i < p->nsections; i++)
        if (strcmp(p->section[i].name, name) == 0)
            return &p->section[i];
    return NULL;
}

/* Does a section hold the state of a fitted operator: vocab.NAME? */
static bool is_fitted_section(const char *name)
{
    const char *dot = name ? strchr(name, '.') : NULL;
    const struct ctr_op *op = dot ? ctr_op_find(name, (size_t)(dot - name)) : NULL;
    return op && ctr_op_fitted(op);
}

int ctr_plan_save_section_names(const struct ctr_plan *p, struct ctr_buf *names, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < p->nsections; i++)
        rc = ctr_buf_printf(names, err, ",%s", p->section[i].name);
    return rc;
}

int ctr_plan_save_sections(const struct ctr_plan *p, struct ctr_out *out, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < p->nsections; i++) {
        struct plan_section *s = &p->section[i];
        struct ctr_writer *w = NULL;
        rc = ctr_meta_set(&s->schema.meta, CTR_META_SECTION, s->name, err);
        if (rc == 0)
            rc = ctr_writer_open(&w, out, &s->schema, NULL, err);
        if (rc == 0 && ctr_batchbuf_rows(&s->rows))
            rc = ctr_writer_batch(w, ctr_batchbuf_view(&s->rows), err);
        if (rc == 0)
            rc = ctr_writer_finish(w, err);
        ctr_writer_free(w);
    }
    return rc;
}

/* ---- opening ---- */

static int plan_new(struct ctr_plan **out, const char *path, struct ctr_err *err)
{
    struct ctr_plan *p = calloc(1, sizeof *p);
    bool descriptor = strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/self/fd/", 14) == 0;
    const char *slash = !descriptor ? strrchr(path, '/') : NULL; /* for a pipe use the current folder */
    *out = p;
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    int rc = slash ? ctr_strdup(&p->dir, path, err) : CTR_OK;
    if (rc == 0 && slash)
        p->dir[slash == path ? 1 : slash - path] = 0;
    return rc;
}

/* The text is copied into metadata of streams and models, including comments, so it must be UTF-8. */
static int not_utf8(const char *file, const char *text, size_t n, struct ctr_err *err)
{
    struct plan_pos at = { 1, 1 };
    const char *end = memchr(text, '\n', n);
    for (; end && ctr_utf8_valid((const uint8_t *)text, (size_t)(end - text)); at.line++) {
        n -= (size_t)(end + 1 - text);
        text = end + 1;
        end = memchr(text, '\n', n);
    }
    return ctr_plan_fail(&(struct plan_source){ .file = file }, at, err,
                         "the line is not UTF-8 (iconv -f latin1 -t utf-8 may settle it)");
}

static int set_text(struct ctr_plan *p, const char *file, const char *text, size_t n, struct ctr_err *err)
{
    if (!p->tree.language)
        p->tree.language = CTR_PLAN_LANGUAGE;
    if (memchr(text, 0, n))
        return ctr_fail(err, CTR_EUSAGE, "holds zero bytes: this is no plan");
    if (!ctr_utf8_valid((const uint8_t *)text, n))
        return not_utf8(file, text, n, err);
    p->text = malloc(n + 1);
    if (!p->text)
        return ctr_fail_nomem(err, n + 1);
    memcpy(p->text, text, n);
    p->text[n] = 0;
    return ctr_plan_parse_tree(&p->tree, file, p->text, n, err);
}

int ctr_plan_parse(struct ctr_plan **out, const char *file, const char *text, size_t n, struct ctr_err *err)
{
    struct ctr_plan *p;
    int rc = plan_new(&p, file, err);
    *out = NULL;
    if (rc == 0)
        rc = set_text(p, file, text, n, err);
    if (rc == 0)
        rc = ctr_plan_identify(p, err);
    if (rc < 0)
        ctr_plan_free(p);
    else
        *out = p;
    return rc;
}

/* ---- in metadata ---- */

const char *const ctr_plan_metas[] = { CTR_META_PLAN,        CTR_META_PLAN_ID,  CTR_META_PLAN_LANGUAGE,
                                       CTR_META_PLAN_INPUTS, CTR_META_KEY_SEED, NULL };

int ctr_plan_to_meta(const struct ctr_plan *p, const struct ctr_schema *input, struct ctr_meta *m, struct ctr_err *err)
{
    char language[CTR_NUM_MAX];
    struct ctr_buf inputs = { 0 };
    language[ctr_fmt_i64(language, p->tree.language)] = 0;
    int rc = p->inputs ? CTR_OK : ctr_inputs_write(p, input, &inputs, err);
    const char *const value[] = { p->text, p->id, p->tree.language > 1 ? language : NULL,
                                  p->inputs ? p->inputs : (const char *)inputs.data, p->seed_print };
    for (int i = 0; rc == 0 && ctr_plan_metas[i]; i++)
        rc = ctr_meta_set(m, ctr_plan_metas[i], value[i], err);
    ctr_buf_free(&inputs);
    return rc;
}

static int set_meta(struct ctr_plan *p, const char *what, const struct ctr_meta *m, struct ctr_err *err)
{
    const char *text = ctr_meta_get(m, CTR_META_PLAN), *inputs = ctr_meta_get(m, CTR_META_PLAN_INPUTS);
    const char *language = ctr_meta_get(m, CTR_META_PLAN_LANGUAGE);
    int64_t version = 1;
    if (language &&
        (!ctr_parse_i64(language, strlen(language), &version) || version < 1 || version > CTR_PLAN_LANGUAGE))
        return ctr_fail(err, CTR_EUSAGE,
                        "its plan is of version %.20s of the language, which this version of ctrkit does not know",
                        language);
    p->tree.language = (int)version;
    const char *print = ctr_meta_get(m, CTR_META_KEY_SEED);
    int rc = inputs ? ctr_strdup(&p->inputs, inputs, err) : CTR_OK;
    if (rc == 0 && print)
        rc = ctr_strdup(&p->seed_print, print, err);
    return rc ? rc : set_text(p, what, text, strlen(text), err);
}

int ctr_plan_of_meta(struct ctr_plan **out, const char *what, const struct ctr_meta *m, struct ctr_err *err)
{
    *out = NULL;
    if (!ctr_meta_get(m, CTR_META_PLAN))
        return CTR_OK;
    struct ctr_plan *p;
    int rc = plan_new(&p, what, err);
    if (rc == 0)
        rc = set_meta(p, what, m, err);
    if (rc == 0)
        rc = ctr_plan_identify(p, err);
    if (rc < 0)
        ctr_plan_free(p);
    else
        *out = p;
    return rc;
}

void ctr_plan_lookup_anywhere(struct ctr_plan *p)
{
    p->anywhere = true;
}

void ctr_plan_free(struct ctr_plan *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->nsections; i++) {
        ctr_batchbuf_free(&p->section[i].rows);
        ctr_schema_free(&p->section[i].schema);
        free(p->section[i].name);
    }
    free(p->section);
    ctr_plan_tree_free(&p->tree);
    free(p->text);
    free(p->inputs);
    free(p->seed_print);
    free(p->dir);
    free(p);
}

static int load_section(struct ctr_plan *p, struct ctr_reader *r, const char *name, struct ctr_err *err)
{
    struct plan_section *s;
    const struct ctr_batch *b;
    if (ctr_plan_section(p, name))
        return ctr_fail(err, CTR_EDATA, "the section %.80s is there twice", name);
    int rc = ctr_plan_add_section(p, name, ctr_reader_schema(r), &s, err);
    while (rc == 0 && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = ctr_batchbuf_range(&s->rows, b, 0, b->rows, err);
    return rc;
}

/* Load a fitted plan or a model: the text in the metadata of the first section, the state in other sections. */
static int load_bundle(struct ctr_plan *p, const char *path, struct ctr_err *err)
{
    struct ctr_reader_opts ro = { .sections = true };
    struct ctr_reader *r = NULL;
    char *paths[1] = { (char *)path };
    int rc = ctr_reader_open(&r, paths, 1, &ro, err), more = 1;
    for (bool first = true; rc == 0 && more > 0; first = false) {
        const struct ctr_meta *meta = &ctr_reader_schema(r)->meta;
        const char *name = ctr_meta_get(meta, CTR_META_SECTION);
        if (first && !ctr_meta_get(meta, CTR_META_PLAN))
            rc = ctr_fail(err, CTR_EUSAGE,
                          "holds no plan: it is neither a fitted plan nor a model trained on extracted features");
        p->is_model |= first && ctr_meta_get(meta, CTR_META_MODEL);
        p->tree.src.bundle = true;
        if (rc == 0 && first)
            rc = set_meta(p, path, meta, err);
        if (rc == 0 && is_fitted_section(name))
            rc = load_section(p, r, name, err);
        if (rc == 0)
            rc = more = ctr_reader_section(r, err);
        rc = CTR_MIN(rc, 0);
    }
    ctr_reader_free(r);
    if (rc == 0 && p->tree.nfitted && !p->nsections)
        rc = ctr_fail(err, CTR_EUSAGE,
                      "the plan in it needs fitting, and the fitted state is not there: use the fitted plan that made "
                      "the features, which ctr-train --plan puts into a model");
    return rc;
}

static int read_text(int fd, struct ctr_buf *b, struct ctr_err *err)
{
    for (;;) {
        int rc = ctr_buf_reserve(b, 1 << 16, err);
        if (rc < 0)
            return rc;
        ssize_t n = ctr_read_full(fd, b->data + b->len, 1 << 16, err);
        if (n < 0)
            return (int)n;
        b->len += (size_t)n;
        if (n < 1 << 16 || b->len > PLAN_MAX_TEXT)
            return CTR_OK;
    }
}

static bool is_stream(const struct ctr_buf *b)
{
    return (b->len >= 4 && memcmp(b->data, "\xff\xff\xff\xff", 4) == 0) ||
           (b->len >= 6 && memcmp(b->data, "ARROW1", 6) == 0);
}

static int open_plan(struct ctr_plan **out, const char *path, bool later, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    struct ctr_plan *p;
    int fd, rc = plan_new(&p, path, err);
    *out = NULL;
    if (rc == 0)
        p->tree.later = later;
    if (rc == 0 && (rc = ctr_input_identity_keep(path, err)) == 0) {
        fd = rc = ctr_open_input(path, O_RDONLY, err);
        if (fd >= 0) {
            rc = read_text(fd, &b, err);
            close(fd);
        }
    }
    if (rc == 0)
        rc = is_stream(&b) ? load_bundle(p, path, err) : set_text(p, path, (char *)b.data, b.len, err);
    if (rc == 0)
        rc = ctr_plan_identify(p, err);
    ctr_input_identity_release(path);
    ctr_buf_free(&b);
    if (rc < 0) {
        ctr_err_file(err, path);
        ctr_plan_free(p);
        return rc;
    }
    *out = p;
    return CTR_OK;
}

int ctr_plan_open(struct ctr_plan **p, const char *path, struct ctr_err *err)
{
    return open_plan(p, path, false, err);
}

int ctr_plan_open_all(struct ctr_plan **p, const char *path, struct ctr_err *err)
{
    return open_plan(p, path, true, err);
}

int ctr_plan_check(const struct ctr_plan *p, struct ctr_err *err)
{
    return ctr_plan_raise(&p->tree.src, &p->tree.faults, err);
}

/* For a stream: is it a model or a fitted plan, whose first section has a name? */
static int stream_is_plan(const char *path, bool *is_plan, struct ctr_err *err)
{
    struct ctr_reader_opts ro = { .sections = true, .foreign = true };
    struct ctr_reader *r = NULL;
    char *paths[1] = { (char *)(uintptr_t)path };
    int rc = ctr_reader_open(&r, paths, 1, &ro, err);
    if (rc == 0) {
        const struct ctr_meta *meta = &ctr_reader_schema(r)->meta;
        *is_plan = ctr_meta_get(meta, CTR_META_PLAN) &&
                   (ctr_meta_get(meta, CTR_META_SECTION) || ctr_meta_get(meta, CTR_META_MODEL));
    }
    ctr_reader_free(r);
    return rc;
}

int ctr_plan_named(const char *path, bool *is_plan, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    *is_plan = false;
    int rc = ctr_is_file(path, err), fd = rc > 0 ? ctr_open_input(path, O_RDONLY, err) : -1;
    if (rc <= 0) {
        if (rc)
            ctr_err_file(err, path);
        return rc;
    }
    rc = fd < 0 ? fd : read_text(fd, &b, err);
    if (fd >= 0)
        close(fd);
    if (rc == 0 && is_stream(&b))
        rc = stream_is_plan(path, is_plan, err);
    else if (rc == 0)
        *is_plan = b.len && b.len <= PLAN_MAX_TEXT && !memchr(b.data, 0, b.len);
    ctr_buf_free(&b);
    if (rc < 0)
        ctr_err_file(err, path);
    return rc;
}

void ctr_plan_tell_misplaced(char *const *files, int n, struct ctr_err *err)
{
    for (int i = 0; i < n && (err->code == CTR_EDATA || err->code == CTR_EUSAGE); i++) {
        struct ctr_err unused = { 0 };
        struct ctr_plan *p = NULL;
        bool is_plan;
        if (ctr_plan_named(files[i], &is_plan, &unused) || !is_plan)
            continue;
        const bool opens = !ctr_plan_open(&p, files[i], &unused); /* not, say, a model of features that no plan made */
        (void)ctr_err_remedy(err, "; %s is a %s, which goes before the streams", files[i],
                             !opens        ? "plan or model"
                             : p->is_model ? "model"
                                           : "plan");
        ctr_plan_free(p);
        return;
    }
}

/* ---- what it says ---- */

const char *ctr_plan_text(const struct ctr_plan *p)
{
    return p->text;
}
const struct ctr_strs *ctr_plan_inputs(const struct ctr_plan *p)
{
    return &p->tree.inputs;
}
const char *ctr_plan_id(const struct ctr_plan *p)
{
    return p->id;
}
bool ctr_plan_needs_fit(const struct ctr_plan *p)
{
    return p->tree.nfitted && !p->nsections;
}
