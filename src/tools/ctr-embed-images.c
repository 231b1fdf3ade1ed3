/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-embed-images: photographs to a keyed file of vectors. */
#include "common/cli/cli.h"
#include "common/image/image.h"
#include "common/relation/relation.h"

#include <stdlib.h>

static struct {
    const char *weights, *preprocess, *bad, *type, *column, *key_type, *update;
    int64_t max_pixels;
} o = { .preprocess = "torchvision", .bad = "fail", .type = "float32", .key_type = "utf8", .max_pixels = 64 << 20 };

static const struct ctr_opt opts[] = {
    { "weights", 'w', CTR_OPT_STR, "FILE", "VGG16's weights as safetensors, under torchvision's or timm's names",
      &o.weights, CTR_OPT_PATH },
    { "preprocess", 0, CTR_OPT_CHOICE, "torchvision|caffe", "how the weights want their pixels (default: torchvision)",
      &o.preprocess, 0 },
    { "type", 0, CTR_OPT_CHOICE, "float32|float16", "numbers of a vector (default: float32)", &o.type, 0 },
    { "column", 'c', CTR_OPT_STR, "COL", "the inputs are record streams: the images are this column of binary",
      &o.column, 0 },
    { "key-type", 0, CTR_OPT_CHOICE, "utf8|int64", "type of the keys that are made from names (default: utf8)",
      &o.key_type, 0 },
    { "update", 'u', CTR_OPT_STR, "OLD", "take over the vectors of OLD and compute those of other keys only", &o.update,
      CTR_OPT_PATH },
    { "bad-images", 0, CTR_OPT_STR, "fail|skip|quarantine=FILE", "what to do with images that cannot be decoded",
      &o.bad, CTR_OPT_LOCAL },
    { "max-pixels", 0, CTR_OPT_INT, "N", "an image of more pixels is bad (default: 67108864)", &o.max_pixels,
      CTR_OPT_LOCAL | CTR_OPT_SOME },
    { 0 },
};

struct run {
    struct ctr_cli *cli;
    struct ctr_dev *dev;
    struct ctr_tower *tower;
    struct ctr_image_source *source;
    struct ctr_schema schema;
    struct ctr_sort *sort;
    struct ctr_strs known;
    struct ctr_batchbuf rows;
    struct ctr_out *out, *quarantine;
    int64_t computed, bad, taken_over;
};

/* ---- what goes in and comes out ---- */

/* (key, vector), and how vectors were made: tables of one network fit together. */
static int make_schema(struct run *r, struct ctr_err *err)
{
    const struct ctr_field *key = ctr_image_source_key(r->source);
    struct ctr_field vector = { .name = (char *)"vector",
                                .type = CTR_FIXED,
                                .item = !strcmp(o.type, "float16") ? CTR_F16 : CTR_F32,
                                .width = (int32_t)ctr_tower_width(r->tower) };
    struct ctr_buf how = { 0 };
    int rc = ctr_schema_add(&r->schema, key->name, key->type, err);
    if (!rc)
        rc = ctr_field_set_role(&r->schema.f[0], CTR_ROLE_ID, err);
    if (!rc)
        rc = ctr_schema_add_field(&r->schema, &vector, NULL, err);
    if (!rc)
        rc = ctr_buf_printf(&how, err, "vgg16-fc6 weights=%s side=%d preprocess=%s", ctr_tower_digest(r->tower),
                            ctr_tower_side(r->tower), o.preprocess);
    if (!rc)
        rc = ctr_meta_set(&r->schema.meta, CTR_META_NETWORK, (const char *)how.data, err);
    if (!rc)
        rc = ctr_schema_provenance(&r->schema, r->cli->tool->name, r->cli->provenance ? r->cli->provenance : "", err);
    ctr_buf_free(&how);
    return rc;
}

/* Rows of --update: into the result, their keys among the known. */
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

static int add_rows(struct run *r, const struct ctr_embedded *b, struct ctr_err *err)
{
    const int64_t width = ctr_tower_width(r->tower);
    ctr_batchbuf_clear(&r->rows);
    for (int i = 0; i < b->n; i++) {
        int rc = ctr_image_put(&r->rows, b->key[i], b->vector + i * width, width, err);
        if (rc)
            return rc;
    }
    return b->n ? ctr_sort_batch(r->sort, ctr_batchbuf_view(&r->rows), err) : 0;
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
        .tower = r->tower,
        .preprocess = !strcmp(o.preprocess, "caffe") ? CTR_PREPROCESS_CAFFE : CTR_PREPROCESS_TORCHVISION,
        .max_pixels = o.max_pixels,
        .threads = (int)r->cli->jobs,
        .skip_bad = strcmp(o.bad, "fail") != 0,
        .known = &r->known,
    };
    struct ctr_embedder *e = NULL;
    const struct ctr_embedded *b;
    int rc = ctr_embedder_open(&e, &eo, err);

    while (!rc && (rc = ctr_embedder_next(e, &b, err)) > 0) {
        rc = add_rows(r, b, err);
        if (!rc)
            rc = note_bad(r, b, err);
        r->computed += b->n;
        ctr_cli_progress(r->cli, r->computed, -1);
    }
    ctr_embedder_free(e);
    return rc;
}

static int write_all(struct run *r, struct ctr_err *err)
{
    const struct ctr_writer_opts wo = { .batch_rows = ctr_cli_batch_rows(r->cli, &r->schema),
                                        .file = true,
                                        .key = r->schema.f[0].name };
    const struct ctr_batch *b;
    struct ctr_writer *w = NULL;
    int rc = ctr_sort_finish(r->sort, err);
    if (!rc)
        rc = ctr_writer_open(&w, r->out, &r->schema, &wo, err);
    while (!rc && (rc = ctr_sort_next(r->sort, &b, err)) > 0)
        rc = ctr_writer_batch(w, b, err);
    if (!rc && r->quarantine)
        rc = ctr_out_commit(r->quarantine, err);
    if (!rc)
        rc = ctr_cli_finish(r->cli, w, r->out, err);
    ctr_writer_free(w);
    return rc;
}

static void report(const struct run *r)
{
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
    if (!o.weights)
        return ctr_cli_usage(err, "--weights names VGG16's weights: ctr-embed-images(1) says where they come from");
    if (strcmp(o.bad, "fail") && strcmp(o.bad, "skip") && !quarantine)
        return ctr_cli_usage(err, "--bad-images wants fail, skip or quarantine=FILE");
    if (o.column && ctr_cli_given(cli, "key-type"))
        return ctr_cli_usage(err,
                             "--key-type is about names of files: with --column keys have the type of their column");
    if (!o.column && cli->role[CTR_ROLE_ID])
        return ctr_cli_usage(err, "--id names a column of a stream, which --column says that the inputs are");
    int rc = ctr_cli_read(cli, o.weights, err);
    if (!rc && o.update)
        rc = ctr_cli_read(cli, o.update, err);
    if (!rc)
        rc = ctr_cli_inputs(cli, 0, err);
    return rc;
}

static int prepare(struct run *r, struct ctr_err *err)
{
    struct ctr_cli *cli = r->cli;
    const struct ctr_image_source_opts so = { .column = o.column,
                                              .key = cli->role[CTR_ROLE_ID],
                                              .integer_keys = !strcmp(o.key_type, "int64") };
    const struct ctr_dev_want want = { .device = cli->device,
                                       .threads = (int)cli->jobs,
                                       .memory_bytes = cli->device_memory_bytes };
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
        rc = ctr_image_source_open(&r->source, cli->args, cli->nargs, &so, err);
    if (!rc)
        rc = ctr_dev_open(&r->dev, &want, err);
    if (!rc)
        rc = ctr_tower_open(&r->tower, o.weights, r->dev, err);
    if (!rc)
        rc = make_schema(r, err);
    if (!rc)
        rc = ctr_batchbuf_init(&r->rows, &r->schema, err);
    if (!rc)
        rc = ctr_strs_add(&keys, r->schema.f[0].name, strlen(r->schema.f[0].name), err);
    if (!rc)
        rc = ctr_sort_new(&r->sort, &r->schema, &sort, err);
    ctr_strs_free(&keys);
    return rc;
}

static int run(struct ctr_cli *cli, struct ctr_err *err)
{
    struct run r = { .cli = cli };
    int rc = prepare(&r, err);
    if (!rc && o.update)
        rc = take_over(&r, err);
    if (!rc)
        rc = embed_all(&r, err);
    if (!rc)
        rc = write_all(&r, err);
    if (!rc)
        report(&r);
    ctr_sort_free(r.sort);
    ctr_batchbuf_free(&r.rows);
    ctr_schema_free(&r.schema);
    ctr_strs_free(&r.known);
    ctr_image_source_free(r.source);
    ctr_tower_free(r.tower);
    ctr_dev_free(r.dev);
    ctr_out_free(r.quarantine);
    ctr_out_free(r.out);
    return rc;
}

const struct ctr_tool ctr_tool = {
    "ctr-embed-images",
    "photographs to vectors",
    "-w WEIGHTS [FILE|TAR…]\n-w WEIGHTS --column COL [FILE…]",
    NULL,
    opts,
    CTR_TOOL_ROLE(CTR_ROLE_ID) | CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY | CTR_TOOL_DEVICE,
    run,
};
