/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_nvrtc: compiles the source of a layer with NVRTC, which is opened only to compile, and caches the code on disk:
 * $XDG_CACHE_HOME/ctrkit, or ~/.cache/ctrkit. A cached file is named by the hash of everything that the code depends
 * on, appears complete or not at all, and contains a hash of itself: damaged files are replaced. */
#include "common/op/gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CALLS(X)                                                                                                       \
    X(nvrtcVersion, (int *, int *))                                                                                    \
    X(nvrtcCreateProgram, (void **, const char *, const char *, int, const char *const *, const char *const *))        \
    X(nvrtcDestroyProgram, (void **))                                                                                  \
    X(nvrtcCompileProgram, (void *, int, const char *const *))                                                         \
    X(nvrtcGetCUBINSize, (void *, size_t *))                                                                           \
    X(nvrtcGetCUBIN, (void *, char *))                                                                                 \
    X(nvrtcGetProgramLogSize, (void *, size_t *))                                                                      \
    X(nvrtcGetProgramLog, (void *, char *))

struct nvrtc {
    void *library;
    int major, minor;
#define MEMBER(name, args) int(*name) args;
    CALLS(MEMBER)
#undef MEMBER
};

/* Each operation is rounded: the same bits as on the CPU. */
static const char *const options[] = { "--std=c++17", "--fmad=false", "--disable-warnings", "--Ofast-compile=mid" };

/* The last one, which NVRTC has since 12.9, halves the time to compile, for half more instructions: for layers of many
 * operators. */
enum { LARGE_TEXT = 1000 };
static size_t options_of(const struct nvrtc *n, size_t text_bytes)
{
    return CTR_COUNT(options) - ((n->major == 12 && n->minor < 9) || text_bytes < LARGE_TEXT);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int open_nvrtc(struct nvrtc *n, struct ctr_err *err)
{
    static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                         "/usr/local/cuda/lib64/libnvrtc.so" };
    const char *path = getenv("CTR_NVRTC"), *missing = NULL, *why = NULL;
    for (size_t i = 0; !n->library && i < (path ? 1 : CTR_COUNT(names)); i++)
        n->library = ctr_library(path ? path : names[i], false, &why);
    if (!n->library)
        return ctr_fail(err, CTR_ESYS,
                        "kernels cannot be compiled, there is no NVRTC: %s (it comes with the CUDA toolkit)", why);
#define FIND(name, args)                                                                                               \
    if (!(*(void **)&n->name = dlsym(n->library, #name)) && !missing)                                                  \
        missing = #name;
    CALLS(FIND)
#undef FIND
    if (missing || n->nvrtcVersion(&n->major, &n->minor))
        return ctr_fail(err, CTR_ESYS, "NVRTC has no %s: CUDA 12 or newer is wanted", missing ? missing : "version");
    if (n->major < 12)
        return ctr_fail(err, CTR_ESYS, "NVRTC %d.%d is too old: CUDA 12 or newer is wanted", n->major, n->minor);
    return 0;
}

/* ---- the cache ---- */

struct cache_head {
    char magic[8];
    uint64_t bytes;
    struct ctr_hash128 hash;
};
static const char magic[8] = "ctrkern";

static void make_key(const struct nvrtc *n, const struct ctr_buf *text, const char *arch, char key[33])
{
    struct {
        struct ctr_hash128 text, headers, options[CTR_COUNT(options)];
        int64_t version[2];
        char arch[16];
    } all;
    memset(&all, 0, sizeof all);
    all.text = ctr_hash128(text->data, text->len);
    all.headers = ctr_gpu_headers_hash();
    for (size_t i = 0; i < options_of(n, text->len); i++)
        all.options[i] = ctr_hash128(options[i], strlen(options[i]));
    all.version[0] = n->major;
    all.version[1] = n->minor;
    snprintf(all.arch, sizeof all.arch, "%s", arch);
    struct ctr_hash128 h = ctr_hash128(&all, sizeof all);
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

/* Cached code is run as it is: a file that other users can write to would let them run code as this user. */
static bool is_own(const struct stat *st)
{
    return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* The path of a file of the cache, creating its folders; false: no cache. *distrusted: the folder is not the user's
 * own, or others may write to it. */
static bool cache_path(const char *name, char *path, size_t size, bool *distrusted)
{
    struct stat st;
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (xdg && *xdg == '/')
        n = snprintf(path, size, "%s/ctrkit", xdg);
    else if (home && *home == '/')
        n = snprintf(path, size, "%s/.cache/ctrkit", home);
    else
        return false;
    for (char *p = path + 1; n < (int)size && *p; p++)
        if (*p == '/') {
            *p = 0;
            (void)mkdir(path, 0777);
            *p = '/';
        }
    if (n >= (int)size || (mkdir(path, 0700) && errno != EEXIST) || stat(path, &st))
        return false;
    *distrusted = !is_own(&st);
    if (*distrusted)
        return false;
    return snprintf(path + n, size - (size_t)n, "/%s", name) < (int)(size - (size_t)n);
}

/* Failing to write the cache is not an error. */
static void cache_write(const char *path, const void *head, size_t size, const void *body, size_t bytes)
{
    struct ctr_err ignored = { 0 };
    struct ctr_out *o = NULL;
    int rc = ctr_out_open(&o, path, CTR_OUT_BINARY, &ignored);
    if (rc == 0)
        rc = ctr_out_write(o, head, size, &ignored);
    if (rc == 0)
        rc = ctr_out_write(o, body, bytes, &ignored);
    if (rc == 0)
        rc = ctr_out_commit(o, &ignored);
    if (rc == 0)
        (void)chmod(path, 0600); /* for any umask */
    ctr_out_free(o);
}

/* Open a file of the cache to read it; NULL: there is none, or *distrusted. */
static FILE *cache_open(const char *path, bool *distrusted)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    *distrusted = f && (fstat(fileno(f), &st) || !is_own(&st));
    if (*distrusted) {
        fclose(f);
        f = NULL;
    }
    return f;
}

/* Opening NVRTC takes longer than reading code, so the cache stores its version, valid while the library file is
 * unchanged. */
struct stamp {
    char asked[128], path[512]; /* $CTR_NVRTC; the file found */
    int64_t size, seconds, nanoseconds, major, minor;
};

static bool stamp_of(const char *path, struct stamp *s)
{
    struct stat st;
    const char *asked = getenv("CTR_NVRTC");
    memset(s, 0, sizeof *s);
    if (strlen(path) >= sizeof s->path || (asked && strlen(asked) >= sizeof s->asked) || stat(path, &st))
        return false;
    strcpy(s->path, path);
    strcpy(s->asked, asked ? asked : "");
    s->size = st.st_size;
    s->seconds = st.st_mtim.tv_sec;
    s->nanoseconds = st.st_mtim.tv_nsec;
    return true;
}

static void write_stamp(const struct nvrtc *n)
{
    char path[PATH_MAX];
    struct stamp s;
    bool distrusted;
    Dl_info info;
    if (!dladdr(*(void *const *)&n->nvrtcVersion, &info) || !stamp_of(info.dli_fname, &s))
        return;
    s.major = n->major;
    s.minor = n->minor;
    if (cache_path("nvrtc", path, sizeof path, &distrusted))
        cache_write(path, &s, sizeof s, "", 0);
}

static bool read_stamp(struct nvrtc *n)
{
    char path[PATH_MAX];
    struct stamp was, is;
    bool distrusted;
    FILE *f = cache_path("nvrtc", path, sizeof path, &distrusted) ? cache_open(path, &distrusted) : NULL;
    bool same = f && fread(&was, sizeof was, 1, f) == 1 && fgetc(f) == EOF && memchr(was.path, 0, sizeof was.path) &&
                stamp_of(was.path, &is);
    if (f)
        fclose(f);
    if (!same)
        return false;
    is.major = was.major;
    is.minor = was.minor;
    n->major = (int)was.major;
    n->minor = (int)was.minor;
    return !memcmp(&was, &is, sizeof is);
}

/* Whether a whole file lies there; image->damaged: one that is not whole does; image->distrusted: one that others may
 * write. */
static bool cache_read(const char *path, struct ctr_gpu_image *image)
{
    struct ctr_buf *code = &image->code;
    struct ctr_err ignored = { 0 };
    struct cache_head head;
    struct stat st;
    FILE *f = cache_open(path, &image->distrusted);
    bool good = f && fread(&head, sizeof head, 1, f) == 1 && !memcmp(head.magic, magic, sizeof magic) &&
                !fstat(fileno(f), &st) && (uint64_t)st.st_size == sizeof head + head.bytes &&
                ctr_buf_reserve(code, (size_t)head.bytes, &ignored) == 0 &&
                fread(code->data, 1, (size_t)head.bytes, f) == head.bytes;
    if (good) {
        const struct ctr_hash128 h = ctr_hash128(code->data, (size_t)head.bytes);
        good = h.hi == head.hash.hi && h.lo == head.hash.lo;
        code->len = good ? (size_t)head.bytes : 0;
    }
    image->damaged = f && !good;
    if (f)
        fclose(f);
    return good;
}

/* ---- compiling ---- */

/* result: of nvrtcCompileProgram. */
static int refused(const struct nvrtc *n, void *program, int result, const char *arch, struct ctr_err *err)
{
    enum { OUT_OF_MEMORY = 1, INVALID_OPTION = 5 };
    size_t size = 0;
    char *log = NULL;
    if (result == OUT_OF_MEMORY)
        return ctr_fail(err, CTR_ENOMEM,
                        "NVRTC has too little memory to compile the kernel of a layer; --place NODE=cpu leaves an "
                        "operator out of it");
    if (result == INVALID_OPTION)
        return ctr_fail(err, CTR_ESYS,
                        "NVRTC %d.%d does not know %s, or another option that it gets: that of a newer CUDA toolkit is "
                        "wanted",
                        n->major, n->minor, arch);
    if (n->nvrtcGetProgramLogSize(program, &size) == 0 && (log = calloc(1, size + 1)))
        (void)n->nvrtcGetProgramLog(program, log);
    int rc =
        ctr_fail(err, CTR_EDATA,
                 "NVRTC %d.%d refuses the kernel of a layer (--place NODE=cpu leaves an operator out of it): %.200s",
                 n->major, n->minor, log ? log : "it does not say why");
    free(log);
    return rc;
}

static int compile(const struct nvrtc *n, const char *text, const char *arch, struct ctr_buf *code, struct ctr_err *err)
{
    const char *name[64], *header[64], *option[CTR_COUNT(options) + 1];
    const size_t noptions = options_of(n, strlen(text));
    char architecture[48];
    void *program = NULL;
    size_t size = 0;
    int headers = 0, rc = 0;
    while (headers < 64 && (name[headers] = ctr_gpu_header(headers, &header[headers])))
        headers++;
    memcpy(option, options, sizeof options);
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", arch);
    option[noptions] = architecture;
    if (n->nvrtcCreateProgram(&program, text, "layer.cu", headers, header, name))
        return ctr_fail(err, CTR_ESYS, "NVRTC does not start");
    const int result = n->nvrtcCompileProgram(program, (int)noptions + 1, option);
    if (result || n->nvrtcGetCUBINSize(program, &size) || !size)
        rc = refused(n, program, result, arch, err);
    if (rc == 0)
        rc = ctr_buf_reserve(code, size, err);
    if (rc == 0 && n->nvrtcGetCUBIN(program, (char *)code->data))
        rc = ctr_fail(err, CTR_ESYS, "NVRTC gives no code");
    code->len = rc ? 0 : size;
    (void)n->nvrtcDestroyProgram(&program);
    return rc;
}

/* Get its version, from the cache or the library. */
static int know_version(struct nvrtc *n, struct ctr_err *err)
{
    if (n->major || read_stamp(n))
        return 0;
    int rc = open_nvrtc(n, err);
    if (rc == 0)
        write_stamp(n);
    return rc;
}

static int compile_new(struct nvrtc *n, const struct ctr_buf *text, const char *arch, struct ctr_gpu_image *out,
                       const char *path, struct ctr_err *err)
{
    struct ctr_buf whole = { 0 };
    int rc = n->library ? 0 : open_nvrtc(n, err);
    if (rc == 0)
        rc = ctr_buf_append(&whole, text->data, text->len, err);
    if (rc == 0)
        rc = ctr_buf_append(&whole, "", 1, err);
    if (rc == 0)
        rc = compile(n, (const char *)whole.data, arch, &out->code, err);
    ctr_buf_free(&whole);
    if (rc == 0 && path) {
        struct cache_head head = { .bytes = out->code.len, .hash = ctr_hash128(out->code.data, out->code.len) };
        memcpy(head.magic, magic, sizeof magic);
        cache_write(path, &head, sizeof head, out->code.data, out->code.len);
    }
    return rc;
}

int ctr_gpu_compile(const struct ctr_buf *text, const char *arch, struct ctr_gpu_image *out, struct ctr_err *err)
{
    static struct nvrtc nvrtc; /* never closed */
    char path[PATH_MAX], name[sizeof out->key + sizeof ".cubin"];
    const double from = now();
    int rc = know_version(&nvrtc, err);
    if (rc < 0)
        return rc;
    make_key(&nvrtc, text, arch, out->key);
    snprintf(name, sizeof name, "%s.cubin", out->key);
    bool place = cache_path(name, path, sizeof path, &out->distrusted);
    out->cached = place && cache_read(path, out);
    if (!out->cached)
        rc = compile_new(&nvrtc, text, arch, out, place ? path : NULL, err);
    out->seconds = now() - from;
    return rc;
}
