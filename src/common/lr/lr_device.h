/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_device: lr trained in minibatches on a device: declarations shared by lr_device.c and lr_device_file.c. */
#ifndef CTR_LR_DEVICE_H
#define CTR_LR_DEVICE_H

#include "common/compute/compute.h"
#include "common/lr/lr.h"
#include "common/table/table.h"

/* Floats of a key's row, for opt_rows. The number of a row is table << 32 | row in its table. */
enum { CTR_LR_DEVICE_W, CTR_LR_DEVICE_Z, CTR_LR_DEVICE_N, CTR_LR_DEVICE_FLOATS };

struct ctr_lr_device {
    struct ctr_params p;
    struct ctr_dev *dev;
    struct ctr_pool *pool;
    struct ctr_learning learning; /* parameters, as in files */
    struct ctr_dev_opt opt;
    struct ctr_embedding *table; /* the first has only the bias; the tables of the stream follow */
    int tables;
    struct ctr_source *source; /* a cache of their rows */
    struct ctr_mat value;      /* the minibatch's rows, from `source` */
    struct ctr_dev_time time;

    /* The minibatch: number of rows, and of entries (keys of rows); how many of both are on the device. */
    int64_t rows, entries, sent_rows, sent_entries;
    int64_t first;                                  /* values include the rows needed from here on */
    int64_t unique;                                 /* distinct table rows in these */
    bool weighted;                                  /* some rows have a weight other than 1 */
    bool ones;                                      /* every x is 1 */
    struct ctr_buf id, segment, x;                  /* u64, i32, f32 [entries]: number, row, value */
    struct ctr_buf start, label, weight;            /* i32 [rows + 1], f32 [rows] */
    struct ctr_buf unique_host, logit;              /* u64 [unique]; f32 [rows] */
    struct ctr_buf begin, hash, entry, row, failed; /* for new rows, by table */
    struct ctr_lr_device_batch {
        struct ctr_mem *id, *segment, *x, *start, *label, *weight;
    } buffers[2]; /* the same on the device, for two minibatches alternately */
    int buffer_index;
    struct ctr_upload upload;
    struct ctr_mem *unique_id, *index;        /* u64 [unique]; i32 [entries] */
    struct ctr_mem *group_start, *group_item; /* i32 [unique + 1], [entries]: the entries of each unique row */
    struct ctr_mem *grad, *squares;           /* f32 [unique] */
    struct ctr_mem *logits, *dlogits;         /* f32 [rows] */

    const struct ctr_strs *names; /* of tables, borrowed */
    struct lr *file;              /* while a file is written … */
    struct ctr_buf places;        /* … and the order of its keys */
};

/* Table `t` of lr has number t + 1 here. */
int ctr_lr_device_bind(struct ctr_lr_device *l, int tables, struct ctr_err *err) CTR_MUST;

/* lr_device_file.c: functions of struct ctr_model */
int ctr_lr_device_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_lr_device_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w,
                       struct ctr_err *err) CTR_MUST;
int ctr_lr_device_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err) CTR_MUST;

/* lr_device_score.c: the same */
int ctr_lr_device_scorer_open(void **scorer, const char *path, const struct ctr_model_info *info,
                              struct ctr_strs *tables, char *warn, size_t warn_size, struct ctr_err *err) CTR_MUST;
void ctr_lr_device_scorer_free(void *scorer);
int ctr_lr_device_session_new(void **session, const void *scorer, const struct ctr_inputs *in,
                              const struct ctr_strs *tables, const char *output, struct ctr_err *err);
void ctr_lr_device_session_free(void *session);
int ctr_lr_device_predict_rows(void *session, const struct ctr_rows *rows, double *score, struct ctr_key_counts *counts,
                               struct ctr_err *err) CTR_MUST;

#endif
