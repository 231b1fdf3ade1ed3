/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_code: see gpu_code.h. */
#include "common/op/gpu_code.h"
#include "common/op/gpu_args.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_LOOPS = 256 };

/* ---- loops ---- */

static int add_loop(struct ctr_op_device *loop, int n, const struct ctr_op_device *d)
{
    for (int k = 0; k < n; k++)
        if (!strcmp(loop[k].loop, d->loop))
            return n;
    loop[n] = (struct ctr_op_device){ .loop = d->loop, .file = d->file, .kind = d->kind };
    return n + 1;
}

/* The distinct loops of n calls, of which *loop has room; with opts->all, after those of all operators, too. */
static int loops_of(const struct gpu_code *c, const struct ctr_gpu_call *call, int n, struct ctr_op_device *loop,
                    int *nloops, struct ctr_err *err)
{
    uint64_t param[CTR_OP_DEVICE_PARAM];
    *nloops = c->opts->all ? CTR_MIN(ctr_op_device_table(loop, MOST_LOOPS), MOST_LOOPS) : 0;
    for (int i = 0; i < n; i++) {
        struct ctr_op_device d;
        const char *why = ctr_gpu_describe(&call[i], param, &d);
        if (why)
            return ctr_fail(err, CTR_EDATA, "%s has no code for a GPU: it %s",
                            call[i].call ? ctr_op_name(call[i].call->op) : "a feature", why);
        *nloops = add_loop(loop, *nloops, &d);
    }
    return 0;
}

static bool same_loops(const struct gpu_module *m, const struct ctr_op_device *loop, int n)
{
    for (int i = 0; i < n && m->nloops == n; i++)
        if (strcmp(m->loop[i].loop, loop[i].loop) != 0)
            return false;
    return m->nloops == n;
}

/* Does the kernel have an operator with variable-size results, called or not? */
static bool has_places(const struct gpu_module *m)
{
    for (int i = 0; i < m->nloops; i++)
        if (m->loop[i].kind != CTR_LOOP_OF_FIXED)
            return true;
    return false;
}

/* ---- modules ---- */

static void say_compiled(const struct gpu_code *c, int loops, const struct ctr_gpu_image *image)
{
    char text[256];
    double *total = image->cached ? &c->stats->cached_seconds : &c->stats->compile_seconds;
    *total += image->seconds;
    *(image->cached ? &c->stats->cached : &c->stats->compiled) += 1;
    snprintf(text, sizeof text, "kernel %.8s: %d operator%s for %s, %zu bytes, %s in %.2f ms", image->key, loops,
             loops == 1 ? "" : "s", ctr_gpu_cuda_arch(c->cuda), image->code.len, image->cached ? "cached" : "compiled",
             image->seconds * 1e3);
    if (c->opts->debug)
        c->opts->debug(c->opts->ctx, text);
    snprintf(text, sizeof text, "the cache had a damaged kernel, %.8s: it was compiled again", image->key);
    if (image->damaged && c->opts->note)
        c->opts->note(c->opts->ctx, text);
    if (image->distrusted && c->opts->note)
        c->opts->note(
            c->opts->ctx,
            "the cache of kernels was not used: ctrkit's folder in $XDG_CACHE_HOME or ~/.cache, or a file in it, "
            "belongs to another user or can be written by others: take it away, or chmod -R go-w it");
}

static int text_of(const struct gpu_code *c, const struct gpu_module *m, struct ctr_buf *text, struct ctr_err *err)
{
    const struct ctr_op_device **loop = calloc((size_t)m->nloops + 1, sizeof *loop);
    if (!loop)
        return ctr_fail_nomem(err, (size_t)m->nloops * sizeof *loop);
    for (int i = 0; i < m->nloops; i++)
        loop[i] = &m->loop[i];
    int rc = ctr_gpu_text(text, loop, m->nloops, c->opts->launch != CTR_GPU_LAYER, err);
    free(loop);
    return rc;
}

static int find_functions(const struct gpu_code *c, struct gpu_module *m, struct ctr_err *err)
{
    char name[32] = "ctr_layer";
    int rc = 0;
    m->nfunctions = c->opts->launch == CTR_GPU_LAYER ? 1 : m->nloops;
    m->function = calloc((size_t)m->nfunctions, sizeof *m->function);
    if (!m->function)
        return ctr_fail_nomem(err, (size_t)m->nfunctions * sizeof *m->function);
    for (int i = 0; rc == 0 && i < m->nfunctions; i++) {
        if (c->opts->launch != CTR_GPU_LAYER)
            snprintf(name, sizeof name, "ctr_op_%d", i);
        rc = ctr_gpu_cuda_function(c->cuda, m->module, name, &m->function[i], err);
    }
    if (rc == 0 && has_places(m))
        rc = ctr_gpu_cuda_function(c->cuda, m->module, "ctr_sums", &m->sums, err);
    if (rc == 0 && has_places(m))
        rc = ctr_gpu_cuda_function(c->cuda, m->module, "ctr_places", &m->places, err);
    if (rc == 0 && has_places(m))
        rc = ctr_gpu_cuda_function(c->cuda, m->module, "ctr_compact", &m->compact, err);
    return rc;
}

static void module_free(const struct gpu_code *c, struct gpu_module *m)
{
    ctr_gpu_cuda_graph_free(c->cuda, m->graph);
    ctr_gpu_cuda_unload(c->cuda, m->module);
    free((void *)(uintptr_t)m->loop);
    free(m->function);
    free(m);
}

/* Takes over `loop`. */
static int load(struct gpu_code *c, struct ctr_op_device *loop, int nloops, struct gpu_module **out,
                struct ctr_err *err)
{
    struct ctr_gpu_image image = { 0 };
    struct ctr_buf text = { 0 };
    struct gpu_module *m = calloc(1, sizeof *m);
    if (!m) {
        free(loop);
        return ctr_fail_nomem(err, sizeof *m);
    }
    *m = (struct gpu_module){ .loop = loop, .nloops = nloops };
    int rc = text_of(c, m, &text, err);
    if (rc == 0)
        rc = ctr_gpu_compile(&text, ctr_gpu_cuda_arch(c->cuda), &image, err);
    if (rc == 0)
        say_compiled(c, nloops, &image);
    if (rc == 0)
        rc = ctr_gpu_cuda_load(c->cuda, &image.code, &m->module, err);
    if (rc == 0)
        rc = find_functions(c, m, err);
    if (rc == 0)
        rc = ctr_array_grow(&c->module, c->nmodules, &c->cap, sizeof(struct gpu_module *), err);
    if (rc == 0)
        c->module[c->nmodules++] = *out = m;
    else
        module_free(c, m);
    ctr_buf_free(&text);
    ctr_buf_free(&image.code);
    return rc;
}

int ctr_gpu_code(struct gpu_code *c, const struct ctr_gpu_call *call, int n, struct gpu_module **out,
                 struct ctr_err *err)
{
    int nloops = 0;
    struct ctr_op_device *loop = calloc((size_t)n + (c->opts->all ? MOST_LOOPS : 0), sizeof *loop);
    int rc = loop ? loops_of(c, call, n, loop, &nloops, err) : ctr_fail_nomem(err, (size_t)n * sizeof *loop);
    *out = NULL;
    for (int i = 0; rc == 0 && !*out && i < c->nmodules; i++)
        if (same_loops(c->module[i], loop, nloops))
            *out = c->module[i];
    if (rc == 0 && !*out)
        return load(c, loop, nloops, out, err);
    free(loop);
    return rc;
}

void ctr_gpu_code_free(struct gpu_code *c)
{
    for (int i = 0; i < c->nmodules; i++)
        module_free(c, c->module[i]);
    free(c->module);
}
