/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints, as --resume reads them, by a run of the options that they name, over the rows of ../unit/models.h:
 * refused, or gone on from to the end, and the model saved. Beside them lie scores and, as the best model so far, the
 * checkpoint itself. */
#include "../unit/models.h"
#include "common/train/train.h"
#include "common/lr/variants.h"
#include "harness.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>

FUZZ_STREAM_MUTATOR

enum { ROWS_SLOT = 1, MODEL_SLOT, PREDICTIONS_SLOT };

/* One processor: a feed of threads would start them for each input. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    memset(set, 0, size);
    CPU_SET_S(0, size, set);
    return 0;
}

/* In three batches, for checkpoints are made between batches. */
static void make_rows(void)
{
    struct ctr_reader *r = NULL;
    struct ctr_out *o = NULL;
    struct ctr_writer *w = NULL;
    struct ctr_err err = { 0 };
    FUZZ_CHECK(!model_make_rows(fuzz_out(MODEL_SLOT), &err) && fuzz_path(MODEL_SLOT) && !model_reader(&r, &err));
    FUZZ_CHECK(!ctr_out_open(&o, fuzz_out(ROWS_SLOT), 0, &err) &&
               !ctr_writer_open(&w, o, ctr_reader_schema(r), &(struct ctr_writer_opts){ .batch_rows = 8 }, &err));
    fuzz_drain(r, w);
    FUZZ_CHECK(!ctr_out_commit(o, &err));
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_reader_free(r);
    snprintf(model_rows, sizeof model_rows, "%s", fuzz_path(ROWS_SLOT));
}

static void lay(int slot, const void *data, size_t size)
{
    struct ctr_err err = { 0 };
    int fd = ctr_open(fuzz_out(slot), O_RDWR, 0);
    FUZZ_CHECK(fd >= 0 && !ctr_write_full(fd, data, size, &err));
    if (fd >= 0)
        close(fd);
}

/* What takes long, or much memory, says as little as what does not. */
static bool is_small(const struct ctr_model_info *info)
{
    const struct ctr_params *p = &info->params;
    bool is = p->minibatch <= 32 && (!p->lr.bloom || p->lr.bloom_bytes <= 4096);
    if (info->model->deep)
        is &= p->deep.embedding <= 8;
    for (int i = 0; i < p->deep.hidden.n && info->model->deep; i++)
        is &= p->deep.hidden.size[i] <= 8;
    return is;
}

struct predictions {
    struct ctr_out *out;
    struct ctr_writer *writer;
};

static int open_predictions(void *ctx, const struct ctr_schema *s, struct ctr_writer **w, struct ctr_err *err)
{
    struct predictions *p = ctx;
    int rc = ctr_out_open(&p->out, fuzz_out(PREDICTIONS_SLOT), 0, err);
    if (!rc)
        rc = ctr_writer_open(&p->writer, p->out, s, NULL, err);
    *w = p->writer;
    return rc;
}

/* The options that the file names, which it would be made with. */
static int set_job(struct ctr_train_job *job, const struct ctr_model_info *info, struct ctr_variants *variants,
                   struct ctr_err *err)
{
    const char *line = ctr_meta_get(&info->schema.meta, CTR_META_CHECKPOINT);
    const char *list = ctr_meta_get(&info->schema.meta, CTR_META_VARIANTS);
    static const char two[] = "base\nless out=site\n";
    int64_t scores = 0, every = 0;
    int version = 0;
    job->model = info->model;
    job->params = info->params;
    job->params.threads = 1;
    job->time = job->params.lr.expire ? "time" : NULL;
    if (line)
        (void)sscanf(line, "%d %*s %*s %*s %*s %" SCNd64 " %*s %*s %" SCNd64, &version, &scores, &every);
    job->params.uncertainty = (version & 3) == 3 && job->model->predict_uncertain;
    job->progressive = scores >= 0 ? open_predictions : NULL;
    if (version & 4 && job->model->evaluate) {
        job->validation = model_rows;
        job->validation_every = every;
    }
    if (!list)
        return 0;
    job->params.variants = variants;
    job->model = strstr(list, "single-value") ? &ctr_model_lr_shared_value : &ctr_model_lr_variants;
    int rc = ctr_variants_parse(variants, "list", two, strlen(two), &job->params, err);
    return rc || job->model == &ctr_model_lr_variants ? rc : ctr_buf_printf(&variants->text, err, "single-value\n");
}

static int save(struct ctr_trainer *t, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < ctr_trainer_models(t) && !rc; i++) {
        struct ctr_out *o = NULL;
        rc = ctr_out_open(&o, fuzz_out(MODEL_SLOT), 0, err);
        if (!rc)
            rc = ctr_trainer_save(t, i, o, err);
        ctr_out_free(o);
    }
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const double scores[MODEL_ROWS * 2];
    struct predictions predictions = { 0 };
    struct ctr_train_job job = {
        .passes = 2, .patience = 100, .open = model_open_rows, .ctx = &predictions, .resume = true
    };
    struct ctr_model_info info;
    struct ctr_variants variants = { 0 };
    struct ctr_reader *r = NULL;
    struct ctr_trainer *t = NULL;
    struct ctr_err err = { 0 };
    if (!model_rows[0])
        make_rows();
    job.checkpoint = fuzz_file(0, data, size);
    lay(FUZZ_SCORES, scores, sizeof scores);
    lay(FUZZ_BEST, data, size);
    if (ctr_model_open(job.checkpoint, &info, &r, &err)) {
        FUZZ_CHECK(err.what[0]);
        return 0;
    }
    ctr_reader_free(r);
    if (is_small(&info) && (set_job(&job, &info, &variants, &err) || ctr_trainer_new(&t, &job, &err) ||
                            ctr_trainer_run(t, &err) || save(t, &err)))
        FUZZ_CHECK(err.what[0]);
    ctr_writer_free(predictions.writer);
    ctr_out_free(predictions.out);
    ctr_trainer_free(t);
    ctr_variants_free(&variants);
    ctr_model_info_free(&info);
    return 0;
}
