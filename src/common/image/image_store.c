/* SPDX-License-Identifier: Apache-2.0
 *
 * image_store: vectors as rows of a table of float32, float16 or int8, and how far the stored numbers are from those
 * that were computed. */
#include "common/image/image.h"

#include <math.h>

static int put_key(struct ctr_batchbuf *rows, const char *key, struct ctr_err *err)
{
    int64_t number = 0;
    uint64_t large = 0;
    if (rows->schema->f[0].type == CTR_UTF8)
        return ctr_colbuf_str(&rows->col[0], key, strlen(key), err);
    if (!ctr_parse_i64(key, strlen(key), &number) && ctr_parse_u64(key, strlen(key), &large))
        number = (int64_t)large;
    return ctr_colbuf_i64(&rows->col[0], number, err);
}

/* The step of int8: the largest number is 127 steps. */
static float step_of(const float *vector, int64_t width)
{
    float most = 0;
    for (int64_t i = 0; i < width; i++)
        most = fmaxf(most, fabsf(vector[i]));
    return most / 127;
}

static int put_number(struct ctr_colbuf *to, enum ctr_type type, float x, float step, float *stored,
                      struct ctr_err *err)
{
    if (type == CTR_I8) {
        const float n = step > 0 ? fminf(fmaxf(rintf(x / step), -127), 127) : 0;
        *stored = n * step;
        return ctr_colbuf_i64(to, (int64_t)n, err);
    }
    *stored = type == CTR_F16 ? ctr_f16_to_f32(ctr_f32_to_f16(x)) : x;
    return ctr_colbuf_f64(to, (double)x, err);
}

int ctr_image_put(struct ctr_batchbuf *rows, const char *key, const float *vector, int64_t width,
                  struct ctr_image_loss *loss, struct ctr_err *err)
{
    struct ctr_colbuf *v = &rows->col[1];
    const enum ctr_type type = rows->schema->f[1].item;
    const float step = type == CTR_I8 ? step_of(vector, width) : 0;
    double off = 0, all = 0;
    int rc = put_key(rows, key, err);
    for (int64_t i = 0; i < width && !rc; i++) {
        float stored = 0;
        if (type == CTR_F16 && fabsf(vector[i]) >= 65520.0f)
            return ctr_fail(err, CTR_EDATA, "the vector of %s has a number beyond 65504: --type float32 holds it", key);
        rc = put_number(v->item, type, vector[i], step, &stored, err);
        off += ((double)vector[i] - stored) * ((double)vector[i] - stored);
        all += (double)vector[i] * vector[i];
    }
    if (!rc)
        rc = ctr_colbuf_close(v, err);
    if (!rc && type == CTR_I8)
        rc = ctr_colbuf_f64(&rows->col[2], (double)step, err);
    const double relative = all > 0 ? sqrt(off / all) : 0;
    loss->n++;
    loss->sum += relative;
    loss->most = fmax(loss->most, relative);
    return rc;
}
