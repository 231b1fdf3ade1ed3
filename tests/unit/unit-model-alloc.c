/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-model-alloc: the N-th allocation fails, for every N, while models of every shape are learned, saved, learned on,
 * resumed, read for prediction and exported as tensors: the error says so, nothing leaks, nothing half is left. */
#include "alloc.h"
#include "tools/ctr-export/safetensors.h"
#include "models.h"
#include "sites.h"
#include "tap.h"

#if !ALLOC_WATCHED
int main(void)
{
    printf("1..0 # SKIP the allocator is the sanitizer's\n");
    return 0;
}
#else

static char model[64], made[64], checkpoint[64];

struct subject {
    const char *kind, *options;
    bool uncertain, resumed;
};
static const struct subject subjects[] = {
    { "lr", "l1=0.1", true, false },
    { "lr", "precision=f32 minibatch=4", false, false },
    { "lr", "precision=q2.13 learning-rate=counts expire=1", false, false },
    { "lr", "optimizer=rda inclusion-bloom=1 inclusion-memory=4096", false, true },
    { "mlp", "embedding=2 hidden=3 minibatch=24 l2=0.1 batch-norm=yes", false, false },
    { "mlp", "embedding=2 hidden=0 minibatch=24", false, true },
    { "fm", "embedding=2 minibatch=24", false, false },
    { "dcnv2", "embedding=2 hidden=3 minibatch=24 cross-layers=2 cross-rank=2", false, false },
    { "dlrm", "embedding=2 hidden=3 bottom=3 minibatch=24", false, false },
};

/* Checkpoints of many models: a section each. */
static const struct {
    bool single_value;
    const char *lines;
} many[] = {
    { false, "a\nb l1=.2\nc out=x\n" },
    { true, "a\nb out=site\nc out=x bias=no\n" },
};

static int learn_on(const struct subject *s, struct ctr_err *err)
{
    unlink(made);
    return model_train(s->kind, s->options, model, NULL, made, err);
}

static int resume(const struct subject *s, struct ctr_err *err)
{
    unlink(made);
    unlink(checkpoint);
    int rc = model_train(s->kind, s->options, NULL, checkpoint, made, err);
    return rc == CTR_ESTOPPED ? model_train(s->kind, s->options, NULL, checkpoint, made, err) : rc;
}

static int predict(const struct subject *s, struct ctr_err *err)
{
    char warned[256];
    double sum;
    return model_predict(model, s->uncertain, &sum, warned, err);
}

static int export(const struct subject *s, struct ctr_err *err)
{
    struct ctr_reader_opts all = { .sections = true };
    struct ctr_reader *r = NULL;
    struct ctr_out *o = NULL;
    struct ctr_buf left_out = { 0 };
    char *path[] = { model };
    (void)s;
    unlink(made);
    int rc = ctr_reader_open(&r, path, 1, &all, err);
    if (!rc)
        rc = ctr_out_open(&o, made, 0, err);
    if (!rc)
        rc = ctr_safetensors_write(r, o, &left_out, err);
    if (!rc)
        rc = ctr_out_commit(o, err);
    ctr_out_free(o);
    ctr_reader_free(r);
    ctr_buf_free(&left_out);
    return rc;
}

static void fail_each(const struct subject *s, const char *what, int (*run)(const struct subject *, struct ctr_err *))
{
    long n = 0, wrong = 0, leaks = 0, half = 0;
    struct ctr_err err = { 0 };
    int rc = run(s, &err); /* threads leave their stacks to later ones */
    do {                   /* until none is left to fail; what can do without may succeed */
        err = (struct ctr_err){ 0 };
        alloc_arm(++n);
        rc = run(s, &err);
        if (alloc_live && leaks++ < 3)
            printf("# allocation %ld: %ld left\n", n, alloc_live);
        if (rc && rc != CTR_ENOMEM && wrong++ < 3)
            printf("# allocation %ld: %d %s\n", n, rc, err.what);
        half += rc && run != predict && access(made, F_OK) == 0;
    } while (alloc_disarm() && n < 20000);
    ok(!rc && n > 10 && !wrong && !leaks && !half, "%s %s: %s: %ld allocations failed one by one", s->kind, s->options,
       what, n - 1);
}

struct action {
    const struct subject *subject;
    int (*run)(const struct subject *, struct ctr_err *);
};

static int act(void *ctx, struct ctr_err *err)
{
    const struct action *a = ctx;
    const int rc = a->run(a->subject, err);
    if (rc && a->run != predict && access(made, F_OK) == 0)
        return ctr_fail(err, CTR_EDATA, "a failure left a file");
    return rc;
}

static void fail_sites(const struct subject *s)
{
    int (*const runs[])(const struct subject *, struct ctr_err *) = { learn_on, predict, export, resume };
    struct sites_tally t = { 0 };
    for (size_t i = 0; i < CTR_COUNT(runs); i++)
        if (s->resumed || runs[i] != resume)
            sites_each(act, &(struct action){ s, runs[i] }, &t);
    ok(!t.wrong && !t.leaks && t.sites > 20, "%s %s: %ld calls from %ld places failed, %ld wrong, %ld leaks", s->kind,
       s->options, t.failed, t.sites, t.wrong, t.leaks);
}

int main(void)
{
    struct ctr_err err = { 0 };
    char rows[64];
    model_file(rows, "rows");
    model_file(model, "model");
    model_file(made, "made");
    model_file(checkpoint, "checkpoint");
    ok(!model_make_rows(rows, &err), "rows %s", err.what);
    for (size_t i = 0; i < CTR_COUNT(subjects); i++) {
        const struct subject *s = &subjects[i];
        int rc = model_train(s->kind, s->options, NULL, NULL, model, &err);
        ok(!rc, "%s %s is learned %s", s->kind, s->options, err.what);
        if (rc)
            continue;
        fail_each(s, "learn on and save", learn_on);
        if (s->resumed)
            fail_each(s, "stop and resume", resume);
        fail_each(s, "predict", predict);
        fail_each(s, "export", export);
        fail_sites(s);
    }
    for (size_t i = 0; i < CTR_COUNT(many); i++) {
        const struct subject s = { "lr", many[i].single_value ? "l1=0.1" : "l2=0.1", false, true };
        model_variants = many[i].lines;
        model_single_value = many[i].single_value;
        fail_each(&s, "variants, stop and resume", resume);
    }
    unlink(rows);
    unlink(model);
    unlink(made);
    unlink(checkpoint);
    return done_testing();
}
#endif
