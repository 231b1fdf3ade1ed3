/* SPDX-License-Identifier: Apache-2.0
 *
 * device: opens devices and manages their memory and the copy queue. It has everything common to the back ends, so that
 * their slots only allocate, copy and compute. */
#include "common/compute/compute_impl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- opening ---- */

static int open_as(struct ctr_dev *dev, const struct ctr_ops *ops, const struct ctr_dev_want *want, struct ctr_err *err)
{
    dev->ops = ops;
    return ops->open(dev, want, err);
}

static const char *gemm_of(const struct ctr_dev_want *want)
{
    const char *gemm = want->gemm ? want->gemm : getenv("CTR_GEMM");
    return gemm && *gemm ? gemm : "exact";
}

static int open_gpu(struct ctr_dev *dev, const struct ctr_dev_want *want, struct ctr_err *err)
{
    struct ctr_dev_want gpu = *want;
    gpu.gemm = gemm_of(want);
    gpu.number = want->device ? ctr_dev_number_of(want->device) : -1;
    if (strcmp(gpu.gemm, "exact") != 0 && strcmp(gpu.gemm, "tf32") != 0)
        return ctr_fail(err, CTR_EUSAGE, "gemm '%s': on a GPU there are 'exact' and 'tf32'", gpu.gemm);
    int rc = ctr_plugin_open(dev, want->plugin, err);
    if (rc == 0) {
        rc = dev->ops->open(dev, &gpu, err);
        if (rc)
            ctr_plugin_close(dev);
    }
    return rc;
}

static int open_cpu(struct ctr_dev *dev, const struct ctr_dev_want *want, struct ctr_err *err)
{
    const char *gemm = gemm_of(want);

    if (strcmp(gemm, "exact") != 0)
        return ctr_fail(err, CTR_EUSAGE, "gemm '%s': on a CPU there is 'exact' alone", gemm);
    return open_as(dev, &ctr_ops_cpu, want, err);
}

int ctr_dev_number_of(const char *device)
{
    const char *colon = strchr(device, ':');
    int64_t n = -1;
    return colon && ctr_parse_i64(colon + 1, strlen(colon + 1), &n) ? (int)CTR_MIN(n, (int64_t)INT_MAX) : -1;
}

static bool is_kind(const char *device, const char *kind)
{
    const size_t n = strlen(kind);
    return !strncmp(device, kind, n) && (!device[n] || device[n] == ':');
}

static int open_device(struct ctr_dev *dev, const struct ctr_dev_want *want, struct ctr_err *err)
{
    const char *device = want->device ? want->device : "cpu";
    struct ctr_err why = { 0 };

    if (want->ops)
        return open_as(dev, want->ops, want, err);
    if (!strcmp(device, "cpu"))
        return open_cpu(dev, want, err);
    if (is_kind(device, "gpu"))
        return open_gpu(dev, want, err);
    if (!is_kind(device, "auto"))
        return ctr_fail(err, CTR_EUSAGE, "device '%s' is none of 'cpu', 'gpu', 'gpu:N', 'auto'", device);
    if (open_gpu(dev, want, &why) == 0) {
        snprintf(dev->note, sizeof dev->note, "device auto: %s", dev->title);
        return 0;
    }
    snprintf(dev->note, sizeof dev->note, "device auto: the CPU, because %s%s%s", why.file, *why.file ? ": " : "",
             why.what);
    return open_cpu(dev, want, err);
}

int ctr_dev_open(struct ctr_dev **out, const struct ctr_dev_want *want, struct ctr_err *err)
{
    struct ctr_dev *dev = calloc(1, sizeof *dev);

    *out = NULL;
    if (!dev)
        return ctr_fail_nomem(err, sizeof *dev);
    dev->limit_bytes = want->memory_bytes;
    dev->profile = want->profile;
    int rc = open_device(dev, want, err);
    if (rc) {
        free(dev);
        return rc;
    }
    *out = dev;
    return 0;
}

void ctr_dev_free(struct ctr_dev *dev)
{
    if (!dev)
        return;
    for (int i = 0; i < CTR_SCRATCHES; i++)
        ctr_mem_free(dev->scratch[i]);
    dev->ops->close(dev);
    if (dev->plugin)
        ctr_plugin_close(dev);
    free(dev);
}

const char *ctr_dev_name(const struct ctr_dev *dev)
{
    return dev->ops->name;
}

const char *ctr_dev_title(const struct ctr_dev *dev)
{
    return dev->title;
}

const char *ctr_dev_note(const struct ctr_dev *dev)
{
    return dev->note;
}

int ctr_dev_number(const struct ctr_dev *dev)
{
    return dev->number;
}

bool ctr_dev_is_host(const struct ctr_dev *dev)
{
    return dev->host;
}

struct ctr_pool *ctr_dev_pool_of(const struct ctr_dev *dev)
{
    return dev->pool;
}

int64_t ctr_dev_memory(const struct ctr_dev *dev)
{
    return dev->bytes;
}

int64_t ctr_dev_memory_free(const struct ctr_dev *dev)
{
    int64_t there = dev->ops->memory_free(dev);
    return dev->limit_bytes ? CTR_MIN(there, CTR_MAX(dev->limit_bytes - dev->bytes, 0)) : there;
}

int ctr_dev_sync(struct ctr_dev *dev, struct ctr_err *err)
{
    return dev->ops->sync(dev, err);
}

void ctr_dev_collect(struct ctr_dev *dev)
{
    if (dev->ops->collect)
        dev->ops->collect(dev);
}

int ctr_dev_start(struct ctr_dev *dev, int rc, struct ctr_err *err)
{
    struct ctr_err second = { 0 };
    const int started = dev->ops->start ? dev->ops->start(dev, rc ? &second : err) : 0;
    return rc ? rc : started;
}

void ctr_dev_graphs_summary(const struct ctr_dev *dev, struct ctr_say *text)
{
    if (dev->ops->start)
        ctr_say(text, "CUDA graphs          %lld, launched %lld times%s%s\n", (long long)dev->graphs.made,
                (long long)dev->graphs.launched, *dev->graphs.why ? "; no more: " : "", dev->graphs.why);
}

/* ---- memory ---- */

static int no_memory(const struct ctr_dev *dev, size_t bytes, struct ctr_err *err)
{
    const struct ctr_size_text need = ctr_size_text(bytes), held = ctr_size_text((uint64_t)dev->bytes);
    if (dev->limit_bytes)
        return ctr_fail(err, CTR_ENOMEM, "%s: %s more are needed beside %s, and --device-memory allows %s", dev->title,
                        need.s, held.s, ctr_size_text((uint64_t)dev->limit_bytes).s);
    return ctr_fail(err, CTR_ENOMEM,
                    "%s: %s more are needed beside %s, and %s are free: a smaller --minibatch or --device-memory needs "
                    "less",
                    dev->title, need.s, held.s, ctr_size_text((uint64_t)dev->ops->memory_free(dev)).s);
}

int ctr_mem_new(struct ctr_mem **out, struct ctr_dev *dev, size_t bytes, struct ctr_err *err)
{
    struct ctr_err why = { 0 };

    *out = NULL;
    if (dev->limit_bytes && bytes > (size_t)CTR_MAX(dev->limit_bytes - dev->bytes, 0))
        return no_memory(dev, bytes, err);
    struct ctr_mem *m = malloc(sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    *m = (struct ctr_mem){ .dev = dev, .bytes = bytes };
    int rc = dev->ops->mem_new(dev, &m->p, bytes, &why);
    if (rc) {
        free(m);
        if (rc == CTR_ENOMEM)
            return no_memory(dev, bytes, err);
        *err = why;
        return rc;
    }
    dev->bytes += (int64_t)bytes;
    *out = m;
    return 0;
}

int ctr_mem_share(struct ctr_mem **out, struct ctr_dev *dev, const struct ctr_mem *of, struct ctr_err *err)
{
    struct ctr_mem *m = *out = malloc(sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    *m = (struct ctr_mem){ .dev = dev, .p = of->p, .bytes = of->bytes, .shared = true };
    return 0;
}

int ctr_mem_at(struct ctr_mem **out, struct ctr_dev *dev, uint64_t address, size_t bytes, struct ctr_err *err)
{
    const struct ctr_mem there = { .p = (void *)(uintptr_t)address, .bytes = bytes };
    return ctr_mem_share(out, dev, &there, err);
}

int ctr_mem_grow(struct ctr_mem **m, struct ctr_dev *dev, size_t bytes, struct ctr_err *err)
{
    size_t room = *m ? (*m)->bytes : 0;

    if (*m && bytes <= room)
        return 0;
    ctr_mem_free(*m);
    *m = NULL;
    return ctr_mem_new(m, dev, CTR_MAX(bytes, room + room / 2), err);
}

int ctr_mem_keep(struct ctr_mem **m, struct ctr_dev *dev, size_t used, size_t bytes, struct ctr_err *err)
{
    struct ctr_mem *more = NULL;
    const int64_t n = (int64_t)(used / sizeof(float));
    if (*m && bytes <= (*m)->bytes)
        return 0;
    int rc = ctr_mem_new(&more, dev, CTR_MAX(bytes + bytes / 4, 4096), err);
    const struct ctr_dev_copy copy = { ctr_mat(*m, 1, n), ctr_mat(more, 1, n) };
    if (!rc && n)
        rc = ctr_dev_copy(dev, &copy, err);
    if (!rc && *m)
        rc = ctr_dev_sync(dev, err);
    if (rc) {
        ctr_mem_free(more);
        return rc;
    }
    ctr_mem_free(*m);
    *m = more;
    return 0;
}

void ctr_mem_free(struct ctr_mem *m)
{
    if (!m)
        return;
    if (!m->shared) {
        m->dev->bytes -= (int64_t)m->bytes;
        m->dev->ops->mem_free(m->dev, m->p);
    }
    free(m);
}

size_t ctr_mem_bytes(const struct ctr_mem *m)
{
    return m ? m->bytes : 0;
}

void *ctr_mem_host(struct ctr_mem *m)
{
    return m->dev->host ? m->p : NULL;
}

static int check_copy(const struct ctr_mem *m, const char *what, size_t at, size_t bytes, struct ctr_err *err)
{
    if (at <= m->bytes && bytes <= m->bytes - at)
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "%s: bytes %zu … %zu of a buffer of %zu", what, at, at + bytes, m->bytes);
}

static int write_bytes(struct ctr_mem *m, size_t at, const void *host, size_t bytes, bool later, struct ctr_err *err)
{
    int rc = check_copy(m, "write", at, bytes, err);
    return rc || !bytes ? rc : m->dev->ops->write(m->dev, (char *)m->p + at, host, bytes, later, err);
}

int ctr_mem_write(struct ctr_mem *m, size_t at, const void *host, size_t bytes, struct ctr_err *err)
{
    return write_bytes(m, at, host, bytes, false, err);
}

int ctr_mem_write_async(struct ctr_mem *m, size_t at, const void *pinned, size_t bytes, struct ctr_err *err)
{
    return write_bytes(m, at, pinned, bytes, true, err);
}

static int read_bytes(struct ctr_mem *m, size_t at, void *host, size_t bytes, bool later, struct ctr_err *err)
{
    int rc = check_copy(m, "read", at, bytes, err);
    return rc || !bytes ? rc : m->dev->ops->read(m->dev, (const char *)m->p + at, host, bytes, later, err);
}

int ctr_mem_read(struct ctr_mem *m, size_t at, void *host, size_t bytes, struct ctr_err *err)
{
    return read_bytes(m, at, host, bytes, false, err);
}

int ctr_mem_read_later(struct ctr_mem *m, size_t at, void *host, size_t bytes, struct ctr_err *err)
{
    return read_bytes(m, at, host, bytes, true, err);
}

int ctr_host_new(void **p, struct ctr_dev *dev, size_t bytes, struct ctr_err *err)
{
    return dev->ops->host_new(dev, p, bytes, err);
}

void ctr_host_free(void *p, struct ctr_dev *dev)
{
    if (p)
        dev->ops->host_free(dev, p);
}

int ctr_dev_order(struct ctr_dev *dev, enum ctr_queue first, enum ctr_queue then, struct ctr_err *err)
{
    return dev->ops->order(dev, first, then, err);
}

int ctr_dev_copied(struct ctr_dev *dev, struct ctr_err *err)
{
    return dev->ops->copied(dev, err);
}

int ctr_dev_scratch(struct ctr_dev *dev, int i, size_t bytes, void **p, struct ctr_err *err)
{
    int rc = ctr_mem_grow(&dev->scratch[i], dev, bytes, err);
    *p = rc ? NULL : dev->scratch[i]->p;
    return rc;
}

/* ---- between processes ---- */

int ctr_dev_link_find(struct ctr_dev *dev, char place[CTR_LINK_PLACE], struct ctr_err *err)
{
    if (!dev->ops->link)
        return ctr_fail(err, CTR_ESYS, "%s: only GPUs are connected", ctr_dev_title(dev));
    return dev->ops->link->find(dev, place, err);
}

int ctr_dev_link_id(struct ctr_dev *dev, unsigned char id[CTR_LINK_ID], struct ctr_err *err)
{
    return dev->ops->link->id(dev, id, err);
}

int ctr_dev_link(struct ctr_dev *dev, const struct ctr_dev_link *link, struct ctr_err *err)
{
    const int rc = dev->ops->link->open(dev, link, err);
    dev->rank = link->rank;
    dev->ranks = rc ? 0 : link->ranks;
    return rc;
}

int ctr_dev_linked(const struct ctr_dev *dev)
{
    return dev->ranks;
}

int ctr_dev_swap(struct ctr_dev *dev, const struct ctr_dev_swap *a, struct ctr_err *err)
{
    int rc = 0;
    for (int r = 0; r < dev->ranks && !rc; r++) {
        if (a->out_n[r])
            rc = check_copy(a->out, "swap", (size_t)a->out_at[r], (size_t)a->out_n[r], err);
        if (!rc && a->in_n[r])
            rc = check_copy(a->in, "swap", (size_t)a->in_at[r], (size_t)a->in_n[r], err);
    }
    return rc ? rc : dev->ops->link->swap(dev, a, err);
}
