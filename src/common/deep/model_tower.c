/* SPDX-License-Identifier: Apache-2.0
 *
 * model_tower: see model_tower.h. */
#include <stdlib.h>

#include "common/deep/deep.h"
#include "common/deep/model_tower.h"

struct ctr_model_tower {
    struct ctr_model_info info;
    struct ctr_deep net;
    struct ctr_buf text;
};

void ctr_model_tower_free(struct ctr_model_tower *t)
{
    if (!t)
        return;
    ctr_deep_free(&t->net);
    ctr_model_info_free(&t->info);
    ctr_buf_free(&t->text);
    free(t);
}

static int read_tower(struct ctr_model_tower *t, const char *path, const struct ctr_model_tower_opts *o,
                      struct ctr_err *err)
{
    struct ctr_deep_tables tables = { 0 };
    struct ctr_strs names = { 0 };
    struct ctr_reader *r = NULL;
    int rc = ctr_model_open(path, &t->info, &r, err);
    if (!rc && !t->info.model->deep)
        rc = ctr_fail(err, CTR_EUSAGE, "models of kind %s have no tower of images: those of dicm and two-tower have",
                      t->info.model->name);
    struct ctr_params p = t->info.params;
    p.device = o->device;
    p.device_memory = o->device_memory;
    if (!rc)
        rc = ctr_deep_open(&t->net, t->info.model, &p, o->threads, false, err);
    t->net.tower_alone = true;
    tables.width = tables.floats = t->net.width;
    if (!rc)
        rc = ctr_deep_read(&t->net, &tables, &names, r, NULL, 0, err);
    if (!rc && !t->net.images)
        rc = ctr_fail(err, CTR_EUSAGE, "the model has no tower of images: it learned from none, or from their ids");
    if (!rc)
        rc = ctr_deep_tower_text(&t->net, &t->text, err);
    ctr_reader_free(r);
    ctr_strs_free(&names);
    ctr_deep_tables_free(&tables);
    return rc;
}

int ctr_model_tower_open(struct ctr_model_tower **out, const char *path, const struct ctr_model_tower_opts *o,
                         struct ctr_err *err)
{
    struct ctr_model_tower *t = calloc(1, sizeof *t);
    *out = t;
    if (!t)
        return ctr_fail_nomem(err, sizeof *t);
    int rc = read_tower(t, path, o, err);
    if (rc) {
        ctr_err_file(err, path);
        ctr_model_tower_free(t);
        *out = NULL;
    }
    return rc;
}

int32_t ctr_model_tower_inputs(const struct ctr_model_tower *t)
{
    return t->net.image_inputs;
}

int32_t ctr_model_tower_width(const struct ctr_model_tower *t)
{
    return t->net.image_width;
}

const char *ctr_model_tower_text(const struct ctr_model_tower *t)
{
    return (const char *)t->text.data;
}

int ctr_model_tower_rows(struct ctr_model_tower *t, const float *vectors, int64_t n, float *values, struct ctr_err *err)
{
    return ctr_deep_tower_rows(&t->net, vectors, n, values, err);
}
