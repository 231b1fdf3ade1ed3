/* SPDX-License-Identifier: Apache-2.0
 *
 * calapply: applies a calibration map to a stream. The calibrated score replaces the score, with its position and role;
 * the old score is appended as a column named …_raw, without a role. All other columns are borrowed.
 */
#include "common/metric/calmap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct ctr_cal_apply {
    const struct ctr_cal_map *map;
    struct ctr_schema schema;
    int score, by; /* columns; by: -1 */
    struct ctr_colbuf out;
    struct ctr_col *col;
    struct ctr_buf values, text;
    struct ctr_batch batch;
};

static int make_schema(struct ctr_cal_apply *a, const struct ctr_schema *s, struct ctr_err *err)
{
    const struct ctr_field *f = &s->f[a->score];
    struct ctr_field *to;
    char raw[512];
    int rc = ctr_schema_copy(&a->schema, s, err);

    if (rc)
        return rc;
    snprintf(raw, sizeof raw, "%s_raw", f->name);
    if (ctr_schema_find(s, raw) >= 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "column %s is there already: these scores were calibrated before; leave it out "
                        "with ctr-select --columns, or rename it",
                        raw);
    if ((rc = ctr_schema_add_field(&a->schema, f, raw, err)) < 0 ||
        (rc = ctr_meta_set(&a->schema.f[s->n].meta, CTR_META_ROLE, NULL, err)))
        return rc;
    to = &a->schema.f[a->score];
    to->type = f->type == CTR_F32 ? CTR_F32 : CTR_F64;
    to->dict = false;
    return ctr_field_set_role(to, CTR_ROLE_SCORE, err);
}

static int find_by(struct ctr_cal_apply *a, const struct ctr_schema *s, struct ctr_err *err)
{
    const char *name = ctr_cal_map_by(a->map);

    a->by = -1;
    if (!name)
        return 0;
    a->by = ctr_schema_find(s, name);
    if (a->by < 0)
        return ctr_fail(err, CTR_EUSAGE, "the map was fitted by column %s, which the stream does not have", name);
    if (s->f[a->by].type >= CTR_LIST && s->f[a->by].type <= CTR_WKEY)
        return ctr_fail(err, CTR_EUSAGE, "column %s is a list: a row belongs to one slice of a calibration map", name);
    return 0;
}

int ctr_cal_apply_new(struct ctr_cal_apply **out, const struct ctr_cal_map *m, const struct ctr_schema *s, int score,
                      struct ctr_err *err)
{
    const struct ctr_metric_columns c = { -1, -1, score, -1, -1 };
    struct ctr_cal_apply *a;
    int rc = ctr_metric_columns_check(&c, s, err);

    *out = NULL;
    if (rc)
        return rc;
    a = calloc(1, sizeof *a);
    if (!a)
        return ctr_fail_nomem(err, sizeof *a);
    a->map = m;
    a->score = score;
    if (!(rc = find_by(a, s, err)) && !(rc = make_schema(a, s, err)) &&
        !(rc = ctr_colbuf_init(&a->out, &a->schema.f[score], err))) {
        a->col = calloc((size_t)a->schema.n, sizeof *a->col);
        if (!a->col)
            rc = ctr_fail_nomem(err, (size_t)a->schema.n * sizeof *a->col);
    }
    if (rc)
        ctr_cal_apply_free(a);
    else
        *out = a;
    return rc;
}

int ctr_cal_apply_reload(struct ctr_cal_apply **a, struct ctr_cal_map **m, const char *path, struct ctr_file_seen *seen,
                         const struct ctr_schema *s, int score, struct ctr_err *err)
{
    struct ctr_cal_map *map = NULL;
    struct ctr_cal_apply *next = NULL;
    int rc;

    if (!ctr_file_changed(path, seen))
        return 0;
    if ((rc = ctr_cal_map_load(&map, path, err)) || (rc = ctr_cal_apply_new(&next, map, s, score, err))) {
        ctr_cal_map_free(map);
        return rc;
    }
    ctr_cal_apply_free(*a);
    ctr_cal_map_free(*m);
    *a = next;
    *m = map;
    return 1;
}

void ctr_cal_apply_free(struct ctr_cal_apply *a)
{
    if (!a)
        return;
    ctr_schema_free(&a->schema);
    ctr_colbuf_free(&a->out);
    ctr_buf_free(&a->values);
    ctr_buf_free(&a->text);
    free(a->col);
    free(a);
}

const struct ctr_schema *ctr_cal_apply_schema(const struct ctr_cal_apply *a)
{
    return &a->schema;
}

static int slice_of(struct ctr_cal_apply *a, const struct ctr_col *by, int64_t i, int *slice, struct ctr_err *err)
{
    struct ctr_str s;
    int rc;

    if (ctr_col_missing(by, i)) {
        *slice = ctr_cal_map_slice(a->map, NULL, 0);
        return 0;
    }
    if (by->type == CTR_UTF8) {
        s = ctr_col_str(by, i);
    } else {
        ctr_buf_clear(&a->text);
        if ((rc = ctr_col_text(by, i, &a->text, err)))
            return rc;
        s = (struct ctr_str){ (const char *)a->text.data, a->text.len };
    }
    *slice = ctr_cal_map_slice(a->map, s.p, s.n);
    return 0;
}

/* A score below 1 stays below 1 as float32. */
static double rounded(const struct ctr_cal_apply *a, double v)
{
    return a->out.type == CTR_F32 && v < 1 ? CTR_MIN(v, 1 - 0x1p-24) : v;
}

int ctr_cal_apply_batch(struct ctr_cal_apply *a, const struct ctr_batch *b, const struct ctr_batch **out,
                        struct ctr_err *err)
{
    const struct ctr_col *by = a->by >= 0 ? &b->col[a->by] : NULL;
    const double *score;
    int slice = 0, rc;

    if ((rc = ctr_col_checked(&b->col[a->score], CTR_ROLE_SCORE, b->schema->f[a->score].name, b->first_row, &a->values,
                              &score, err)))
        return rc;
    ctr_colbuf_clear(&a->out);
    for (int64_t i = 0; i < b->rows; i++)
        if ((by && (rc = slice_of(a, by, i, &slice, err))) ||
            (rc = ctr_colbuf_f64(&a->out, rounded(a, ctr_cal_map_apply(a->map, slice, score[i])), err)))
            return rc;
    memcpy(a->col, b->col, (size_t)b->schema->n * sizeof *a->col);
    a->col[b->schema->n] = b->col[a->score];
    a->col[a->score] = *ctr_colbuf_view(&a->out);
    a->batch = (struct ctr_batch){ .schema = &a->schema, .rows = b->rows, .first_row = b->first_row, .col = a->col };
    *out = &a->batch;
    return 0;
}
