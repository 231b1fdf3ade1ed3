/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-gpu: what stands around the kernels of layers: NVRTC, the cache of code, the memory pool.
 *
 *     unit-gpu                 the pool, where $CTR_CUDA_DRIVER names a driver (tests/gpu.t)
 *     unit-gpu compile ARCH    compiles one text: "compiled" or "cached", key, bytes, hash; status 1 and a message
 *     unit-gpu times ARCH      seconds to compile the layers of examples/criteo.plan, and from the cache
 */
#include "common/op/gpu.h"

#include "tap.h"

#include <stdlib.h>
#include <string.h>

static struct ctr_err err;

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if ((x) < 0) {                                                                                                 \
            fprintf(stderr, "unit-gpu: %s\n", err.what);                                                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The loop of an operator of one argument, or with op NULL of keys. */
static void loop_of(const char *op, struct ctr_vtype type, struct ctr_op_device *d)
{
    struct ctr_op_arg arg = { .type = type };
    struct ctr_op_call call = { .arg = &arg, .nargs = 1 };
    uint64_t param[4];
    const char *why;
    if (op) {
        call.op = ctr_op_find(op, strlen(op));
        CHECK(ctr_op_bind(&call, &err));
    }
    why = op ? ctr_op_device(&call, d) : ctr_op_device_keys(&type, 1, param, d);
    if (why) {
        fprintf(stderr, "unit-gpu: %s: it %s\n", op ? op : "keys", why);
        exit(1);
    }
    ctr_op_unbind(&call);
}

/* ---- compiling ---- */

static void compile(const char *what, const struct ctr_op_device *const *loop, int n, const char *arch)
{
    struct ctr_gpu_image image = { 0 };
    struct ctr_buf text = { 0 };
    CHECK(ctr_gpu_text(&text, loop, n, false, &err));
    CHECK(ctr_gpu_compile(&text, arch, &image, &err));
    const struct ctr_hash128 h = ctr_hash128(image.code.data, image.code.len);
    printf("%s%s %s %zu bytes %016llx", what, image.cached ? "cached" : "compiled", image.key, image.code.len,
           (unsigned long long)h.lo);
    if (*what)
        printf(" %.2f ms", image.seconds * 1e3);
    printf("\n");
    ctr_buf_free(&image.code);
    ctr_buf_free(&text);
}

static void compile_one(const char *arch)
{
    struct ctr_op_device d;
    loop_of("square_log_bucket", (struct ctr_vtype){ .type = CTR_I64 }, &d);
    compile("", (const struct ctr_op_device *const[]){ &d }, 1, arch);
}

/* 13 log_bucket of integers, then the keys of 13 integers and 26 texts: a layer has a loop once, however many calls. */
static void compile_plan(const char *arch)
{
    struct ctr_op_device bucket, integer, text;
    loop_of("log_bucket", (struct ctr_vtype){ .type = CTR_I64 }, &bucket);
    loop_of(NULL, (struct ctr_vtype){ .type = CTR_I64 }, &integer);
    loop_of(NULL, (struct ctr_vtype){ .type = CTR_UTF8 }, &text);
    for (int again = 0; again < 2; again++) {
        compile("layer 1 (log_bucket): ", (const struct ctr_op_device *const[]){ &bucket }, 1, arch);
        if (strcmp(integer.loop, text.loop) == 0)
            compile("layer 2 (keys): ", (const struct ctr_op_device *const[]){ &integer }, 1, arch);
        else
            compile("layer 2 (keys of integers, of texts): ", (const struct ctr_op_device *const[]){ &integer, &text },
                    2, arch);
    }
}

/* ---- the pool ---- */

enum { ROWS = 3000 };

static void append(struct ctr_colbuf *b, int i)
{
    char text[400];
    const int n = i % 7 == 0 ? 0 : (i * 37) % 390;
    for (int k = 0; k < n; k++)
        text[k] = (char)('A' + (i + k) % 26);
    CHECK(i % 11 == 0 ? ctr_colbuf_null(b, &err) : ctr_colbuf_str(b, text, (size_t)n, &err));
}

static bool same_texts(const struct ctr_col *a, const struct ctr_col *b)
{
    if (a->rows != b->rows || a->nulls != b->nulls)
        return false;
    for (int64_t i = 0; i < a->rows; i++)
        if (ctr_col_null(a, i) != ctr_col_null(b, i) || ctr_col_compare(a, i, b, i))
            return false;
    return true;
}

/* One layer: four calls of lower, of all rows, half of them, a row, none. */
static void check_pool(int64_t pool_bytes, const struct ctr_col *in)
{
    enum { CALLS = 4 };
    const int64_t rows[CALLS] = { ROWS, ROWS / 2, 1, 0 };
    const struct ctr_field f = { .type = CTR_UTF8 };
    struct ctr_op_arg arg = { .type = { .type = CTR_UTF8 } };
    struct ctr_op_call lower = { .op = ctr_op_find("lower", 5), .arg = &arg, .nargs = 1 };
    struct ctr_colbuf want[CALLS], got[CALLS];
    struct ctr_gpu_call call[CALLS];
    struct ctr_col part[CALLS];
    const struct ctr_col *col[CALLS];
    struct ctr_gpu *m;
    bool same = true;
    CHECK(ctr_op_bind(&lower, &err));
    CHECK(ctr_gpu_open(&m, &(struct ctr_gpu_opts){ .pool_bytes = pool_bytes }, &err));
    for (int i = 0; i < CALLS; i++) {
        part[i] = *in;
        part[i].rows = rows[i];
        part[i].nulls = 0;
        for (int64_t k = 0; k < rows[i]; k++)
            part[i].nulls += ctr_col_null(in, k);
        col[i] = &part[i];
        CHECK(ctr_colbuf_init(&want[i], &f, &err));
        CHECK(ctr_colbuf_init(&got[i], &f, &err));
        CHECK(ctr_op_run(&lower, &col[i], rows[i], &want[i], &err));
        call[i] = (struct ctr_gpu_call){ .call = &lower, .col = &col[i], .rows = rows[i], .out = &got[i] };
    }
    for (int again = 0; again < 2; again++) { /* the second time the pool has grown */
        const int64_t before = ctr_gpu_stats(m)->overflows;
        for (int i = 0; i < CALLS; i++)
            ctr_colbuf_clear(&got[i]);
        CHECK(ctr_gpu_begin(m, &err));
        CHECK(ctr_gpu_start(m, call, CALLS, &err));
        CHECK(ctr_gpu_finish(m, &err));
        for (int i = 0; i < CALLS; i++)
            same &= same_texts(ctr_colbuf_view(&want[i]), ctr_colbuf_view(&got[i]));
        ok(ctr_gpu_stats(m)->overflows - before == (again ? 0 : pool_bytes < (1 << 20)),
           "a pool of %lld bytes, run %d: it grows when it must, to what is needed", (long long)pool_bytes, again + 1);
    }
    ok(same, "a pool of %lld bytes: no byte of a result is lost", (long long)pool_bytes);
    for (int i = 0; i < CALLS; i++) {
        ctr_colbuf_free(&want[i]);
        ctr_colbuf_free(&got[i]);
    }
    ctr_gpu_free(m);
    ctr_op_unbind(&lower);
}

/* ---- tables that stay on the device ---- */

static void texts(struct ctr_colbuf *b, const char *letters)
{
    CHECK(ctr_colbuf_init(b, &(struct ctr_field){ .type = CTR_UTF8 }, &err));
    for (; *letters; letters++)
        CHECK(ctr_colbuf_str(b, letters, 1, &err));
}

/* Keys of a vocabulary of some letters, on the device: are they those of the host? *at: where its table was. */
static bool same_keys(struct ctr_gpu *m, const char *known, const char *asked, const void **at)
{
    const struct ctr_vtype utf8 = { .type = CTR_UTF8 };
    struct ctr_op_arg arg = { .type = utf8 };
    struct ctr_op_call vocab = { .op = ctr_op_find("vocab", 5), .arg = &arg, .nargs = 1 };
    struct ctr_colbuf fit, rows, want, got;
    uint64_t param[CTR_OP_DEVICE_PARAM];
    struct ctr_op_device d;
    texts(&fit, known);
    texts(&rows, asked);
    const struct ctr_col *const col = ctr_colbuf_view(&rows), *const seen = ctr_colbuf_view(&fit);
    const struct ctr_field keys = { .type = CTR_U64 };
    CHECK(ctr_op_bind(&vocab, &err));
    CHECK(ctr_op_fit_update(&vocab, &seen, seen->rows, &err));
    CHECK(ctr_op_fit_finish(&vocab, &err));
    CHECK(ctr_colbuf_init(&want, &keys, &err));
    CHECK(ctr_colbuf_init(&got, &keys, &err));
    CHECK(ctr_op_run_keys(&vocab, &col, col->rows, 7, NULL, &want, &err));
    const struct ctr_gpu_call call = {
        .filter = &vocab, .type = &utf8, .seed = 7, .col = &col, .rows = col->rows, .out = &got
    };
    CHECK(ctr_gpu_begin(m, &err));
    CHECK(ctr_gpu_start(m, &call, 1, &err));
    CHECK(ctr_gpu_finish(m, &err));
    *at = ctr_op_device_vocab_keys(&vocab, 7, param, &d) ? NULL : d.table;
    const bool same = got.rows == want.rows && !memcmp(got.data.data, want.data.data, (size_t)want.rows * 8);
    for (struct ctr_colbuf *const *b = (struct ctr_colbuf *const[]){ &fit, &rows, &want, &got, NULL }; *b; b++)
        ctr_colbuf_free(*b);
    ctr_op_unbind(&vocab);
    return same;
}

/* A table is freed, and another of its size takes its place on the host. */
static void check_tables(void)
{
    const void *at[2] = { NULL };
    struct ctr_gpu *m;
    int again = 0;
    bool same = true;
    CHECK(ctr_gpu_open(&m, &(struct ctr_gpu_opts){ 0 }, &err));
    for (int i = 0; i < 20; i++) {
        same &= same_keys(m, i % 2 ? "cd" : "ab", "abcde", &at[i % 2]);
        again += i && at[0] == at[1];
    }
    ok(same, "tables freed and made anew, %s at one address: the new ones' keys", again ? "some" : "none");
    ctr_gpu_free(m);
}

int main(int argc, char **argv)
{
    struct ctr_colbuf in;
    if (argc == 3 && !strcmp(argv[1], "compile")) {
        compile_one(argv[2]);
        return 0;
    }
    if (argc == 3 && !strcmp(argv[1], "times")) {
        compile_plan(argv[2]);
        return 0;
    }
    if (!getenv("CTR_CUDA_DRIVER")) {
        printf("1..0 # SKIP there is no driver\n");
        return 0;
    }
    CHECK(ctr_colbuf_init(&in, &(struct ctr_field){ .type = CTR_UTF8 }, &err));
    for (int i = 0; i < ROWS; i++)
        append(&in, i);
    check_pool(1, ctr_colbuf_view(&in));
    check_pool(1 << 10, ctr_colbuf_view(&in));
    check_pool(4 << 10, ctr_colbuf_view(&in));
    check_pool(4 << 20, ctr_colbuf_view(&in));
    check_tables();
    ctr_colbuf_free(&in);
    return done_testing();
}
