/* SPDX-License-Identifier: Apache-2.0
 *
 * compute_impl: shared by the back ends: the device and its memory, views as pointers, the interface of the plug-in. C
 * that is also C++. */
#ifndef CTR_COMPUTE_IMPL_H
#define CTR_COMPUTE_IMPL_H

#include "common/compute/compute.h"

enum { CTR_SCRATCHES = 8 };

struct ctr_dev {
    const struct ctr_ops *ops;
    void *state;           /* private to the back end */
    struct ctr_pool *pool; /* CPU */
    bool host, profile;
    int number;                 /* of the GPU, from 0 */
    int rank, ranks;            /* of ctr_dev_link; 0 ranks: none */
    int64_t bytes, limit_bytes; /* allocated; 0: no bound */
    char title[160], note[1400];
    struct {
        int64_t made, launched;
        char why[96]; /* no more are made; "": they are */
    } graphs;
    double seconds[CTR_DEV_OP_COUNT];
    struct ctr_mem *scratch[CTR_SCRATCHES];
    void *plugin; /* handle of dlopen */
};

struct ctr_mem {
    struct ctr_dev *dev;
    void *p;
    size_t bytes;
    bool shared; /* belongs to something else, which frees it */
};

static inline float *ctr_mat_f32(struct ctr_mat m)
{
    return m.mem ? (float *)m.mem->p + m.at : NULL;
}
#define CTR_VEC_POINTER(suffix, type)                                                                                  \
    static inline type *ctr_vec_##suffix(struct ctr_vec v)                                                             \
    {                                                                                                                  \
        return v.mem ? (type *)v.mem->p + v.at : NULL;                                                                 \
    }
CTR_VEC_POINTER(f32, float)
CTR_VEC_POINTER(f64, double)
CTR_VEC_POINTER(i32, int32_t)
CTR_VEC_POINTER(u32, uint32_t)
CTR_VEC_POINTER(u64, uint64_t)
#undef CTR_VEC_POINTER

/* The operation that a gemm's `back` requests. */
static inline struct ctr_dev_act_grad ctr_gemm_back(const struct ctr_dev_gemm *a)
{
    struct ctr_dev_act_grad g;
    g.z = a->back.z;
    g.dy = g.dz = a->c;
    g.act = a->back.act;
    g.batch = false;
    g.dalpha = a->back.dalpha;
    g.dbias = a->back.dbias;
    return g;
}

/* Scratch buffer i of a host device, at least `bytes` large; contents are lost. */
int ctr_dev_scratch(struct ctr_dev *dev, int i, size_t bytes, void **p, struct ctr_err *err) CTR_MUST;

/* Memory of host devices: host.c; open and close for a device without threads and state. */
int ctr_host_open(struct ctr_dev *dev, const struct ctr_dev_want *want, struct ctr_err *err);
void ctr_host_close(struct ctr_dev *dev);
int ctr_host_sync(struct ctr_dev *dev, struct ctr_err *err);
int ctr_host_mem_new(struct ctr_dev *dev, void **p, size_t bytes, struct ctr_err *err);
void ctr_host_mem_free(struct ctr_dev *dev, void *p);
int ctr_host_write(struct ctr_dev *dev, void *to, const void *host, size_t bytes, bool later, struct ctr_err *err);
int ctr_host_read(struct ctr_dev *dev, const void *from, void *host, size_t bytes, bool later, struct ctr_err *err);
int ctr_host_order(struct ctr_dev *dev, enum ctr_queue first, enum ctr_queue then, struct ctr_err *err);
int64_t ctr_host_memory_free(const struct ctr_dev *dev);
#define CTR_HOST_SLOTS                                                                                                 \
    .sync = ctr_host_sync, .mem_new = ctr_host_mem_new, .mem_free = ctr_host_mem_free, .write = ctr_host_write,        \
    .read = ctr_host_read, .host_new = ctr_host_mem_new, .host_free = ctr_host_mem_free, .order = ctr_host_order,      \
    .copied = ctr_host_sync, .memory_free = ctr_host_memory_free

/* The plug-in exports one of these as ctr_plugin. `layout` detects a plug-in built from other headers. */
#define CTR_PLUGIN_SYMBOL "ctr_plugin"
struct ctr_plugin {
    char version[32]; /* CTR_VERSION */
    uint64_t layout;  /* CTR_PLUGIN_LAYOUT */
    const struct ctr_ops *ops;
};
/* Increment the first number for changes that the sizes do not show. */
#define CTR_PLUGIN_LAYOUT                                                                                              \
    ((uint64_t)4 << 48 | (uint64_t)sizeof(struct ctr_ops) << 32 | (uint64_t)sizeof(struct ctr_dev) << 16 |             \
     (uint64_t)sizeof(struct ctr_dev_gemm))
/* Opens the plug-in and sets dev->ops and dev->plugin: plugin.c, the only file that refers to it. */
int ctr_plugin_open(struct ctr_dev *dev, const char *path, struct ctr_err *err) CTR_MUST;
void ctr_plugin_close(struct ctr_dev *dev);

#endif
