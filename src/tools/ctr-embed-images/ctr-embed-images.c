/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-embed-images: converts photographs to a keyed file of vectors, and vectors to the outputs of a model's tower. */
#include "common/cli/cli.h"
#include "common/deep/image_table.h"
#include "common/deep/model_tower.h"
#include "tools/ctr-embed-images/embed.h"
#include "common/rows/relation.h"

static struct {
    const char *weights, *preprocess, *bad, *type, *column, *key_type, *update, *tower;
    bool vectors;
    int64_t max_pixels;
} o = { .preprocess = "torchvision", .bad = "fail", .type = "float32", .key_type = "utf8", .max_pixels = 64 << 20 };

static const struct ctr_opt opts[] = {
    { "weights", 'w', CTR_OPT_STR, "FILE", "weights of VGG16 as safetensors, named as in torchvision or timm",
      &o.weights, CTR_OPT_PATH | CTR_OPT_BASIC },
    { "tower", 't', CTR_OPT_STR, "MODEL",
      "write the output of the image tower of MODEL (ctr-train dicm) instead of vectors", &o.tower,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "vectors", 0, CTR_OPT_FLAG, NULL,
      "with --tower or --type: read streams of keys and vectors instead of photographs", &o.vectors, 0 },
    { "preprocess", 0, CTR_OPT_CHOICE, "torchvision|caffe",
      "preprocessing of pixels that the weights expect (default torchvision)", &o.preprocess, 0 },
    { "type", 0, CTR_OPT_CHOICE, "float32|float16|int8", "type of the numbers of a vector (default float32)", &o.type,
      0 },
    { "column", 'c', CTR_OPT_STR, "COL", "read streams, whose binary column COL holds the images", &o.column,
      CTR_OPT_BASIC },
    { "key-type", 0, CTR_OPT_CHOICE, "utf8|int64", "type of the keys that are made from file names (default utf8)",
      &o.key_type, 0 },
    { "update", 'u', CTR_OPT_STR, "OLD", "take vectors from OLD, and compute only those of other keys", &o.update,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "bad-images", 0, CTR_OPT_STR, "fail|skip|quarantine=FILE",
      "what to do with images that cannot be decoded (default fail)", &o.bad, CTR_OPT_LOCAL },
    { "max-pixels", 0, CTR_OPT_INT, "N", "largest number of pixels of an image that is decoded (default 67108864)",
      &o.max_pixels, CTR_OPT_LOCAL | CTR_OPT_SOME },
    { 0 },
};

struct run {
    struct ctr_cli *cli;
    struct ctr_dev *dev;
    struct ctr_tower *network;
    struct ctr_model_tower *tower;
    int64_t width; /* of the output vectors */
    struct ctr_reader *vectors;
    int columns[3];
    int32_t in_width;
    struct ctr_buf in, out_values;
    struct ctr_strs in_keys;
    struct ctr_image_source *source;
    struct ctr_schema schema;
    struct ctr_sort *sort;
    struct ctr_strs known;
    struct ctr_batchbuf rows;
    struct ctr_out *out, *quarantine;
    int64_t computed, bad, taken_over, rows_checked;
    struct ctr_image_loss loss;
};

/* For example, `ctr-embed-images -w vgg16.safetensors --tower m.arrows --update old.arrows photos.tar`:
 *
 *     prepare      opens photos.tar, the network (4,096 numbers) and m's tower (say 32); the schema is key, vector[32],
 *                  and "tower=… of NETWORK" in its metadata
 *     take_over    rows of old.arrows, whose metadata must be the same, go to the sort; their keys become `known`
 *     embed_all    photographs with other keys are decoded by threads, go through the network, then through the tower
 *                  (add_rows), and to the sort
 *     write_all    rows in the order of keys; two of one key are an error; a keyed file
 *
 * With --vectors a stream of vectors takes the place of photographs and network (embed_vectors). Each vector depends
 * on its photograph alone, so a file that grew by --update has the rows of one that was made at once. */

/* ---- what goes in and comes out ---- */

static enum ctr_preprocess preprocess(void)
{
    return !strcmp(o.preprocess, "caffe") ? CTR_PREPROCESS_CAFFE : CTR_PREPROCESS_TORCHVISION;
}

static int tell_network(const struct run *r, struct ctr_buf *how, struct ctr_err *err)
{
    const char *was = r->vectors ? ctr_meta_get(&ctr_reader_schema(r->vectors)->meta, CTR_META_NETWORK) : NULL;
    int rc = o.tower ? ctr_buf_printf(how, err, "%s of ", ctr_model_tower_text(r->tower)) : 0;
    if (rc)
        return rc;
    return r->vectors ? ctr_buf_printf(how, err, "%s", was ? was : "vectors of unknown make")
                      : ctr_tower_text(r->network, preprocess(), how, err);
}

static enum ctr_type number_type(void)
{
    return !strcmp(o.type, "float16") ? CTR_F16 : !strcmp(o.type, "int8") ? CTR_I8 : CTR_F32;
}

/* (key, vector), of int8 also its scale, and the origin of the vectors: only tables of one network can be combined. */
static int make_schema(struct run *r, struct ctr_err *err)
{
    const struct ctr_field *key =
        r->vectors ? &ctr_reader_schema(r->vectors)->f[r->columns[0]] : ctr_image_source_key(r->source);
    struct ctr_field vector = {
        .name = (char *)"vector", .type = CTR_FIXED, .item = number_type(), .width = (int32_t)r->width
    };
    struct ctr_buf how = { 0 };
    int rc = ctr_schema_add(&r->schema, key->name, key->type, err);
    if (!rc)
        rc = ctr_field_set_role(&r->schema.f[0], CTR_ROLE_ID, err);
    if (!rc)
        rc = ctr_schema_add_field(&r->schema, &vector, NULL, err);
    if (!rc && vector.item == CTR_I8)
        rc = ctr_schema_add(&r->schema, "scale", CTR_F32, err);
    if (!rc)
        rc = tell_network(r, &how, err);
    if (!rc)
        rc = ctr_meta_set(&r->schema.meta, CTR_META_NETWORK, (const char *)how.data, err);
    if (!rc)
        rc = ctr_schema_provenance(&r->schema, r->cli->tool->name, r->cli->provenance ? r->cli->provenance : "", err);
    ctr_buf_free(&how);
    return rc;
}

/* Copy the rows of --update to the result, and their keys to the known keys. */
static int take_over(struct run *r, struct ctr_err *err)
{
    const char *how = ctr_meta_get(&r->schema.meta, CTR_META_NETWORK);
    struct ctr_reader *old = NULL;
    const struct ctr_batch *b;
    struct ctr_buf text = { 0 };
    char why[600], *path = (char *)o.update;

    int rc = ctr_reader_open(&old, &path, 1, NULL, err);
    if (rc)
        return rc;
    const char *was = ctr_meta_get(&ctr_reader_schema(old)->meta, CTR_META_NETWORK);
    if (!ctr_schema_equal(ctr_reader_schema(old), &r->schema, why, sizeof why))
        rc = ctr_fail(err, CTR_EUSAGE, "%s has other columns than the result: %s", o.update, why);
    else if (!was || strcmp(was, how) != 0)
        rc = ctr_fail(err, CTR_EUSAGE, "%s was made by %s, and the result is by %s: their vectors are not comparable",
                      o.update, was ? was : "something unknown", how);
    while (!rc && (rc = ctr_reader_next(old, &b, err)) > 0) {
        rc = ctr_sort_batch(r->sort, b, err);
        for (int64_t i = 0; i < b->rows && !rc; i++) {
            ctr_buf_clear(&text);
            rc = ctr_col_text(&b->col[0], i, &text, err);
            if (!rc)
                rc = ctr_strs_add(&r->known, text.data ? (const char *)text.data : "", text.len, err);
        }
        r->taken_over += b->rows;
    }
    ctr_buf_free(&text);
    ctr_reader_free(old);
    return rc;
}

static int add_rows(struct run *r, const char *const *key, const float *vector, int64_t n, struct ctr_err *err)
{
    int rc = 0;
    if (r->tower && n) {
        ctr_buf_clear(&r->out_values);
        float *values = ctr_buf_extend(&r->out_values, n * r->width, sizeof *values, &rc, err);
        if (!rc)
            rc = ctr_model_tower_rows(r->tower, vector, n, values, err);
        vector = values;
    }
    ctr_batchbuf_clear(&r->rows);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = ctr_image_put(&r->rows, key[i], vector + i * r->width, r->width, &r->loss, err);
    r->computed += n;
    return rc || !n ? rc : ctr_sort_batch(r->sort, ctr_batchbuf_view(&r->rows), err);
}

static int note_bad(struct run *r, const struct ctr_embedded *b, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < b->n_bad && !rc; i++) {
        ctr_cli_debug(r->cli, "%s: %s", b->bad[i].name, b->bad[i].why);
        if (r->quarantine) {
            struct ctr_buf line = { 0 };
            rc = ctr_buf_format(&line, err, "%s\t%s\n", b->bad[i].name, b->bad[i].why);
            if (!rc)
                rc = ctr_out_write(r->quarantine, line.data, line.len, err);
            ctr_buf_free(&line);
        }
    }
    r->bad += b->n_bad;
    return rc;
}

static int embed_all(struct run *r, struct ctr_err *err)
{
    const struct ctr_embedder_opts eo = {
        .source = r->source,
        .tower = r->network,
        .preprocess = preprocess(),
        .max_pixels = o.max_pixels,
        .threads = (int)r->cli->jobs,
        .skip_bad = strcmp(o.bad, "fail") != 0,
        .known = &r->known,
    };
    struct ctr_embedder *e = NULL;
    const struct ctr_embedded *b;
    int rc = ctr_embedder_open(&e, &eo, err);

    while (!rc && (rc = ctr_embedder_next(e, &b, err)) > 0) {
        rc = add_rows(r, b->key, b->vector, b->n, err);
        if (!rc)
            rc = note_bad(r, b, err);
        ctr_cli_progress(r->cli, r->computed, -1);
    }
    ctr_embedder_free(e);
    return rc;
}

enum { CHUNK = 1024 }; /* vectors per call of the tower */

static int flush_vectors(struct run *r, struct ctr_err *err)
{
    const int rc =
        add_rows(r, (const char *const *)r->in_keys.s, (const float *)(const void *)r->in.data, r->in_keys.n, err);
    ctr_strs_free(&r->in_keys);
    ctr_buf_clear(&r->in);
    ctr_cli_progress(r->cli, ctr_reader_rows(r->vectors), ctr_reader_total_rows(r->vectors));
    return rc;
}

static int add_vector(struct run *r, const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    const int64_t row = b->first_row + i;
    const struct ctr_col *scale = ctr_image_scale(b, r->columns);
    char number[CTR_NUM_MAX];
    int rc = 0;
    if (ctr_col_missing(&b->col[r->columns[0]], i))
        return ctr_fail(err, CTR_EDATA, "row %lld: the key is null", (long long)row + 1);
    const struct ctr_str key = ctr_image_key(&b->col[r->columns[0]], i, number);
    if (memchr(key.p, 0, key.n))
        return ctr_fail(err, CTR_EDATA, "row %lld: the key has a byte 0", (long long)row + 1);
    if (!r->in_width)
        rc = ctr_image_vector(&b->col[r->columns[1]], scale, i, &r->in_width, key, row, NULL, err);
    if (!rc && r->tower && r->in_width != ctr_model_tower_inputs(r->tower))
        rc = ctr_fail(err, CTR_EDATA, "its vectors have %d numbers, the tower of %s takes %d", r->in_width, o.tower,
                      ctr_model_tower_inputs(r->tower));
    if (!rc && ctr_strs_find_n(&r->known, key.p, key.n) >= 0) /* copied from --update */
        return 0;
    if (!rc)
        rc = ctr_strs_add(&r->in_keys, key.p, key.n, err);
    float *to = rc ? NULL : ctr_buf_extend(&r->in, r->in_width, sizeof *to, &rc, err);
    return rc ? rc : ctr_image_vector(&b->col[r->columns[1]], scale, i, &r->in_width, key, row, to, err);
}

static int embed_vectors(struct run *r, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = 0;
    while (!rc && (rc = ctr_reader_next(r->vectors, &b, err)) > 0) {
        rc = 0;
        for (int64_t i = 0; i < b->rows && !rc; i++) {
            rc = add_vector(r, b, i, err);
            if (!rc && r->in_keys.n == CHUNK)
                rc = flush_vectors(r, err);
        }
    }
    if (rc)
        ctr_err_file(err, ctr_reader_file(r->vectors));
    return rc ? rc : flush_vectors(r, err);
}

/* Rows are sorted: equal keys are adjacent. */
static int check_keys(struct run *r, const struct ctr_batch *b, struct ctr_buf *last, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    int rc = 0;
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        ctr_buf_clear(&text);
        rc = ctr_col_text(&b->col[0], i, &text, err);
        if (!rc && (i || r->rows_checked) && text.len == last->len &&
            (!text.len || !memcmp(text.data, last->data, text.len)))
            rc = ctr_fail(err, CTR_EDATA, "key '%.*s' has two vectors", (int)CTR_MIN(text.len, 80),
                          (const char *)text.data);
        const struct ctr_buf swap = *last;
        *last = text;
        text = swap;
    }
    r->rows_checked += b->rows;
    ctr_buf_free(&text);
    return rc;
}

static int write_all(struct run *r, struct ctr_err *err)
{
    struct ctr_buf last = { 0 };
    const struct ctr_writer_opts wo = { .batch_rows = ctr_cli_batch_rows(r->cli, &r->schema),
                                        .file = true,
                                        .key = r->schema.f[0].name };
    const struct ctr_batch *b;
    struct ctr_writer *w = NULL;
    int rc = ctr_sort_finish(r->sort, err);
    if (!rc)
        rc = ctr_writer_open(&w, r->out, &r->schema, &wo, err);
    while (!rc && (rc = ctr_sort_next(r->sort, &b, err)) > 0) {
        rc = check_keys(r, b, &last, err);
        if (!rc)
            rc = ctr_writer_batch(w, b, err);
    }
    ctr_buf_free(&last);
    if (!rc && r->quarantine)
        rc = ctr_out_commit(r->quarantine, err);
    if (!rc)
        rc = ctr_cli_finish(r->cli, w, r->out, err);
    ctr_writer_free(w);
    return rc;
}

static void report(const struct run *r)
{
    if (r->loss.n && number_type() != CTR_F32)
        ctr_cli_note(r->cli, "%s: a stored vector x' is off by |x - x'| / |x| = %.2g on average, %.2g at most", o.type,
                     r->loss.sum / (double)r->loss.n, r->loss.most);
    if (r->taken_over || r->bad)
        ctr_cli_note(r->cli, "%lld image%s computed, %lld taken over, %lld bad%s", (long long)r->computed,
                     CTR_S(r->computed), (long long)r->taken_over, (long long)r->bad,
                     !r->bad         ? ""
                     : r->quarantine ? " and quarantined"
                                     : " and skipped");
}

/* ---- options ---- */

static int check_options(struct ctr_cli *cli, struct ctr_err *err)
{
    const bool quarantine = !strncmp(o.bad, "quarantine=", 11) && o.bad[11];
    if (o.vectors && (o.weights || o.column || ctr_cli_given(cli, "bad-images") || ctr_cli_given(cli, "preprocess") ||
                      ctr_cli_given(cli, "max-pixels") || ctr_cli_given(cli, "key-type")))
        return ctr_cli_usage(err, "--vectors takes no photographs: leave out what is about them");
    if (o.tower && number_type() != CTR_F32)
        return ctr_cli_usage(err, "--tower writes float32, with the bits that the model computes: leave --type out");
    if (o.vectors && !o.tower && !ctr_cli_given(cli, "type"))
        return ctr_cli_usage(err,
                             "--vectors goes with --tower MODEL, whose outputs are written, or with --type, in which "
                             "the vectors are written");
    if (!o.weights && !o.vectors)
        return ctr_cli_usage(err, "--weights names VGG16's weights: ctr-embed-images(1) says where they come from");
    if (strcmp(o.bad, "fail") && strcmp(o.bad, "skip") && !quarantine)
        return ctr_cli_usage(err, "--bad-images wants fail, skip or quarantine=FILE");
    if (o.column && ctr_cli_given(cli, "key-type"))
        return ctr_cli_usage(err,
                             "--key-type is about names of files: with --column keys have the type of their column");
    if (!o.column && cli->role[CTR_ROLE_ID])
        return ctr_cli_usage(err, "--id names a column of a stream, which --column says that the inputs are");
    int rc = o.weights ? ctr_cli_read(cli, o.weights, err) : 0;
    if (!rc && o.tower)
        rc = ctr_cli_read(cli, o.tower, err);
    if (!rc && o.update)
        rc = ctr_cli_read(cli, o.update, err);
    if (!rc)
        rc = ctr_cli_inputs(cli, 0, err);
    return rc;
}

/* Open the photographs and the network. */
static int open_photographs(struct run *r, struct ctr_err *err)
{
    const struct ctr_cli *cli = r->cli;
    const struct ctr_image_source_opts so = { .column = o.column,
                                              .key = cli->role[CTR_ROLE_ID],
                                              .integer_keys = !strcmp(o.key_type, "int64") };
    const struct ctr_dev_want want = { .device = cli->device,
                                       .threads = (int)cli->jobs,
                                       .memory_bytes = cli->device_memory_bytes };
    int rc = ctr_image_source_open(&r->source, cli->args, cli->nargs, &so, err);
    if (!rc)
        rc = ctr_dev_open(&r->dev, &want, err);
    if (!rc)
        rc = ctr_tower_open(&r->network, o.weights, r->dev, err);
    r->width = rc ? 0 : ctr_tower_width(r->network);
    return rc;
}

/* Vectors that are written as they are, in another type. */
static int take_vectors(struct run *r, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(r->vectors);
    const char *was = ctr_meta_get(&s->meta, CTR_META_NETWORK);
    const char *name = s->f[r->columns[1]].name;
    r->width = r->in_width;
    if (was && !strncmp(was, CTR_TOWER_PREFIX, strlen(CTR_TOWER_PREFIX)))
        return ctr_fail(err, CTR_EUSAGE, "%s: outputs of a tower stay float32, with the bits that the model computes",
                        ctr_reader_file(r->vectors));
    if (!r->width)
        return ctr_fail(err, CTR_EUSAGE,
                        "%s: %s has lists of any length, and vectors have one: ctr-import --columns "
                        "'%s:fixed_size_list<float32>[LENGTH],…'",
                        ctr_reader_file(r->vectors), name, name);
    return 0;
}

static int open_vectors(struct run *r, struct ctr_err *err)
{
    int rc = ctr_reader_open(&r->vectors, r->cli->args, r->cli->nargs, NULL, err);
    if (!rc && (rc = ctr_image_columns(ctr_reader_schema(r->vectors), r->columns, &r->in_width, err)))
        ctr_err_file(err, ctr_reader_file(r->vectors));
    if (!rc && !o.tower)
        rc = take_vectors(r, err);
    return rc;
}

static int open_tower(struct run *r, struct ctr_err *err)
{
    const struct ctr_cli *cli = r->cli;
    const struct ctr_model_tower_opts to = { .device = cli->device,
                                             .device_memory = cli->device_memory_bytes,
                                             .threads = (int)cli->jobs };
    int rc = ctr_model_tower_open(&r->tower, o.tower, &to, err);
    if (!rc && r->network && r->width != ctr_model_tower_inputs(r->tower))
        rc = ctr_fail(err, CTR_EDATA, "%s: its tower takes vectors of %d numbers, the network gives %lld", o.tower,
                      ctr_model_tower_inputs(r->tower), (long long)r->width);
    r->width = rc ? 0 : ctr_model_tower_width(r->tower);
    return rc;
}

static int prepare(struct run *r, struct ctr_err *err)
{
    struct ctr_cli *cli = r->cli;
    struct ctr_strs keys = { 0 };
    const struct ctr_sort_opts sort = {
        .keys = &keys, .memory_bytes = cli->memory_bytes, .batch_rows = cli->batch_rows, .threads = (int)cli->jobs
    };

    int rc = ctr_cli_device(cli, true, NULL, err);
    if (!rc)
        rc = check_options(cli, err);
    if (!rc && !strncmp(o.bad, "quarantine=", 11))
        rc = ctr_cli_side_out(cli, o.bad + 11, 0, &r->quarantine, err);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &r->out, err);
    if (!rc)
        rc = o.vectors ? open_vectors(r, err) : open_photographs(r, err);
    if (!rc && o.tower)
        rc = open_tower(r, err);
    if (!rc)
        rc = make_schema(r, err);
    if (!rc)
        rc = ctr_batchbuf_init(&r->rows, &r->schema, err);
    if (!rc)
        rc = ctr_names_add(&keys, r->schema.f[0].name, err);
    if (!rc)
        rc = ctr_sort_new(&r->sort, &r->schema, &sort, err);
    ctr_strs_free(&keys);
    return rc;
}

static int embed_images(struct ctr_cli *cli, struct ctr_err *err)
{
    struct run r = { .cli = cli };
    int rc = prepare(&r, err);
    if (!rc && o.update)
        rc = take_over(&r, err);
    if (!rc)
        rc = o.vectors ? embed_vectors(&r, err) : embed_all(&r, err);
    if (!rc)
        rc = write_all(&r, err);
    if (!rc)
        report(&r);
    ctr_sort_free(r.sort);
    ctr_batchbuf_free(&r.rows);
    ctr_schema_free(&r.schema);
    ctr_strs_free(&r.known);
    ctr_image_source_free(r.source);
    ctr_tower_free(r.network);
    ctr_model_tower_free(r.tower);
    ctr_reader_free(r.vectors);
    ctr_buf_free(&r.in);
    ctr_buf_free(&r.out_values);
    ctr_strs_free(&r.in_keys);
    ctr_dev_free(r.dev);
    ctr_out_free(r.quarantine);
    ctr_out_free(r.out);
    return rc;
}

const struct ctr_tool ctr_tool = {
    "ctr-embed-images",
    "make vectors of photographs",
    "-w WEIGHTS [--tower MODEL] [FILE|TAR…]\n-w WEIGHTS [--tower MODEL] --column COL [FILE…]\n--tower MODEL --vectors "
    "[FILE…]\n--type TYPE --vectors [FILE…]",
    NULL,
    opts,
    CTR_TOOL_ROLE(CTR_ROLE_ID) | CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY | CTR_TOOL_DEVICE,
    embed_images,
};
