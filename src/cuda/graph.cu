/* SPDX-License-Identifier: Apache-2.0
 *
 * graph: works that come again and again as CUDA graphs. Between collect and start, works are kept as bytes: function,
 * launch, arguments. Bytes that came OFTEN are captured as a graph, which is launched in their place from then on. So
 * what a graph does is what would have been started, whatever the caller's memory or shapes became meanwhile, and the
 * first time, when kernels are loaded and scratch memory grows, is never captured. During a capture nothing but works
 * is called: no wait, no allocation, no copy. The driver may refuse a capture: then no other is tried, the graphs that
 * are there go on, and other works start as ever.
 *
 *     step 1    forward A B C D; backward E F G H(labels 0)     new, remembered, started one by one
 *     step 2    A B C D; E F G H(labels 1)                      started one by one
 *     step 3    A B C D; E F G H(labels 0)                      captured and launched; started one by one
 *     step 5    A B C D; E F G H(labels 0)                      launched; captured and launched
 *     step 7    A B C D; E F G H(labels 0)                      two launches */
#include "cuda/kernel.h"

#include <stdio.h>
#include <stdlib.h>

/* How many runs of works are remembered, and most bytes of one; a graph is worth its capture from so many works on that
 * came so often before: not where shapes are equal by chance. */
enum { KNOWN = 8, MOST_BYTES = 64 << 10, FEWEST = 4, OFTEN = 2 };

struct known {
    char *work;
    size_t bytes;
    cudaGraphExec_t exec; /* NULL: not yet captured */
    int64_t used, times;
};

struct cuda_graphs {
    struct known known[KNOWN];
    int64_t clock;
    bool collects, whole; /* whole: nothing has started since collect */
    int works;
    size_t bytes;
    alignas(8) char work[MOST_BYTES];
};

void cuda_graphs_open(struct cuda_dev *c)
{
    const char *wanted = getenv("CTR_CUDA_GRAPHS");
    const char *why = wanted && !strcmp(wanted, "0") ? "$CTR_CUDA_GRAPHS is 0"
                      : c->dev->profile              ? "$CTR_PROFILE waits for each operation"
                                                     : "";
    snprintf(c->dev->graphs.why, sizeof c->dev->graphs.why, "%s", why);
    if (!*why) /* without memory there are none */
        c->graphs = (struct cuda_graphs *)calloc(1, sizeof *c->graphs);
}

void cuda_graphs_close(struct cuda_dev *c)
{
    struct cuda_graphs *g = c->graphs;
    for (int i = 0; g && i < KNOWN; i++) {
        if (g->known[i].exec)
            cudaGraphExecDestroy(g->known[i].exec);
        free(g->known[i].work);
    }
    free(g);
    c->graphs = NULL;
}

static void start_each(struct cuda_dev *c)
{
    const struct cuda_graphs *g = c->graphs;
    for (size_t at = 0; at < g->bytes && c->failed == cudaSuccess;) {
        const struct cuda_work *w = (const struct cuda_work *)(const void *)(g->work + at);
        c->failed = w->start(c, w);
        at += w->bytes;
    }
}

/* Out of order with a graph: what is kept starts now, and what follows is not all of it. */
static void start_kept(struct cuda_dev *c)
{
    struct cuda_graphs *g = c->graphs;
    start_each(c);
    g->bytes = 0;
    g->works = 0;
    g->whole = false;
}

cudaStream_t cuda_queue(struct cuda_dev *c)
{
    if (c->graphs && c->graphs->works)
        start_kept(c);
    return c->compute;
}

void cuda_do(struct cuda_dev *c, const struct cuda_work *w)
{
    struct cuda_graphs *g = c->graphs;
    if (g && g->bytes + w->bytes > sizeof g->work)
        start_kept(c);
    if (c->failed != cudaSuccess)
        return;
    if (!g || !g->collects) {
        c->failed = w->start(c, w);
        return;
    }
    memcpy(g->work + g->bytes, w, w->bytes);
    g->bytes += w->bytes;
    g->works++;
}

void cuda_collect(struct ctr_dev *dev)
{
    struct cuda_dev *c = cuda_of(dev);
    if (c->graphs && (!*dev->graphs.why || dev->graphs.made))
        c->graphs->collects = c->graphs->whole = true;
}

/* What is kept as a graph; NULL: dev->graphs.why says why, and no other is captured. */
static cudaGraphExec_t capture(struct cuda_dev *c)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaError_t e = cudaStreamBeginCapture(c->compute, cudaStreamCaptureModeThreadLocal);
    if (e == cudaSuccess) {
        start_each(c);
        e = cudaStreamEndCapture(c->compute, &graph);
        e = c->failed == cudaSuccess ? e : c->failed;
        c->failed = cudaSuccess;
        c->product[0] = 0;
    }
    if (e == cudaSuccess)
        e = cudaGraphInstantiateWithFlags(&exec, graph, 0);
    if (e == cudaSuccess) /* memory of the device runs out here, not at a launch */
        e = cudaGraphUpload(exec, c->compute);
    if (graph)
        cudaGraphDestroy(graph);
    if (e == cudaSuccess) {
        c->dev->graphs.made++;
        return exec;
    }
    if (exec)
        cudaGraphExecDestroy(exec);
    (void)cudaGetLastError(); /* it is no error of the next kernel */
    snprintf(c->dev->graphs.why, sizeof c->dev->graphs.why, "%s", cudaGetErrorString(e));
    return NULL;
}

/* In the place of what has not come for the longest time. */
static void remember(struct cuda_dev *c)
{
    struct cuda_graphs *g = c->graphs;
    struct known *k = g->known;
    for (int i = 1; i < KNOWN; i++)
        k = g->known[i].used < k->used ? &g->known[i] : k;
    if (k->exec) { /* it may be running */
        CUDA_FAILED(c, cudaStreamSynchronize(c->compute));
        cudaGraphExecDestroy(k->exec);
    }
    free(k->work);
    k->exec = NULL;
    k->used = ++g->clock;
    k->times = 1;
    k->work = (char *)malloc(g->bytes);
    k->bytes = k->work ? g->bytes : 0;
    if (k->work)
        memcpy(k->work, g->work, k->bytes);
}

static struct known *find(struct cuda_graphs *g)
{
    for (int i = 0; i < KNOWN; i++)
        if (g->known[i].bytes == g->bytes && !memcmp(g->known[i].work, g->work, g->bytes))
            return &g->known[i];
    return NULL;
}

static void start_as_graph(struct cuda_dev *c)
{
    struct cuda_graphs *g = c->graphs;
    const bool refused = *c->dev->graphs.why;
    struct known *k = find(g);
    if (!k && !refused)
        remember(c);
    if (!k)
        return;
    k->used = ++g->clock;
    if (!k->exec && !refused && ++k->times > OFTEN)
        k->exec = capture(c);
    if (!k->exec)
        return;
    CUDA_FAILED(c, cudaGraphLaunch(k->exec, c->compute));
    c->dev->graphs.launched++;
    g->bytes = 0;
    g->works = 0;
}

int cuda_start(struct ctr_dev *dev, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    struct cuda_graphs *g = c->graphs;
    if (g) {
        if (g->whole && g->works >= FEWEST && c->failed == cudaSuccess)
            start_as_graph(c);
        start_kept(c);
        g->collects = false;
    }
    return cuda_started(c, "starting kernels", err);
}
