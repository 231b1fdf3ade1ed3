/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_text: generates the source of a layer's kernel. The bodies are the files compiled for the host: the program
 * contains them (by the assembler's .incbin), and a kernel includes those of its operators. */
#include "common/op/gpu.h"

#include <string.h>

#define HEADERS(X)                                                                                                     \
    X(mathbody, "base/mathbody.h")                                                                                     \
    X(mix64, "base/mix64.h")                                                                                           \
    X(timebody, "base/timebody.h")                                                                                     \
    X(table, "op/body_table.h")                                                                                        \
    X(body, "op/body.h")                                                                                               \
    X(hash, "op/body_hash.h")                                                                                          \
    X(body_json, "op/body_json.h")                                                                                     \
    X(body_list, "op/body_list.h")                                                                                     \
    X(body_regex, "op/body_regex.h")                                                                                   \
    X(body_text, "op/body_text.h")                                                                                     \
    X(body_time, "op/body_time.h")                                                                                     \
    X(body_url, "op/body_url.h")                                                                                       \
    X(layer, "op/oplayer.h")                                                                                           \
    X(loop, "op/loop.h")                                                                                               \
    X(device, "op/loop_device.h")                                                                                      \
    X(dense, "op/loop_dense.h")                                                                                        \
    X(feature, "op/loop_feature.h")                                                                                    \
    X(infix, "op/loop_infix.h")                                                                                        \
    X(json, "op/loop_json.h")                                                                                          \
    X(key, "op/loop_key.h")                                                                                            \
    X(list, "op/loop_list.h")                                                                                          \
    X(lookup, "op/loop_lookup.h")                                                                                      \
    X(number, "op/loop_number.h")                                                                                      \
    X(regex, "op/loop_regex.h")                                                                                        \
    X(scale, "op/loop_scale.h")                                                                                        \
    X(text, "op/loop_text.h")                                                                                          \
    X(time, "op/loop_time.h")                                                                                          \
    X(url, "op/loop_url.h")

#define EMBED(id, file)                                                                                                \
    extern const char gpu_##id[];                                                                                      \
    __asm__(".section .rodata\n"                                                                                       \
            ".global gpu_" #id "\n"                                                                                    \
            "gpu_" #id ": .incbin \"src/common/" file "\"\n"                                                           \
            ".byte 0\n"                                                                                                \
            ".previous\n");
HEADERS(EMBED)
#undef EMBED

static const struct header {
    const char *name, *text;
} headers[] = {
#define ROW(id, file) { "common/" file, gpu_##id },
    HEADERS(ROW)
#undef ROW
};

const char *ctr_gpu_header(int i, const char **text)
{
    if (i < 0 || i >= (int)CTR_COUNT(headers))
        return NULL;
    *text = headers[i].text;
    return headers[i].name;
}

struct ctr_hash128 ctr_gpu_headers_hash(void)
{
    struct ctr_hash128 h[CTR_COUNT(headers)];
    for (size_t i = 0; i < CTR_COUNT(headers); i++)
        h[i] = ctr_hash128(headers[i].text, strlen(headers[i].text));
    return ctr_hash128(h, sizeof h);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int include(struct ctr_buf *text, const struct ctr_op_device *const *loop, int k, struct ctr_err *err)
{
    const char *file = base_name(loop[k]->file);
    for (int i = 0; i < k; i++)
        if (!strcmp(base_name(loop[i]->file), file))
            return 0;
    return ctr_buf_printf(text, err, "#include \"common/op/%s\"\n", file);
}

static int loop_line(struct ctr_buf *text, const struct ctr_op_device *d, int group, struct ctr_err *err)
{
    static const char *const macros[] = { [CTR_LOOP_OF_FIXED] = "OPD_FIXED",
                                          [CTR_LOOP_OF_TEXT] = "OPD_TEXT_",
                                          [CTR_LOOP_OF_TEXTS] = "OPD_TEXTS_",
                                          [CTR_LOOP_OF_KEYS] = "OPD_KEYS_" };
    return ctr_buf_printf(text, err, "    %s(%d, %s)\n", macros[d->kind], group, d->loop);
}

int ctr_gpu_text(struct ctr_buf *text, const struct ctr_op_device *const *loop, int n, bool each, struct ctr_err *err)
{
    bool fixed = true; /* without the pool and compaction there is less to compile */
    int rc = ctr_buf_printf(text, err, "#define CTR_KERNEL_TEXT 1\n");
    for (int k = 0; k < n; k++)
        fixed = fixed && loop[k]->kind == CTR_LOOP_OF_FIXED;
    if (rc >= 0)
        rc = ctr_buf_printf(text, err, "%s#include \"common/op/loop_device.h\"\n",
                            fixed ? "#define OPD_FIXED_ONLY 1\n" : "");
    for (int k = 0; rc >= 0 && k < n; k++)
        rc = include(text, loop, k, err);
    if (rc >= 0 && !each) {
        rc = ctr_buf_printf(text, err, "\nOPD_KERNEL(ctr_layer)\n{\n    OPD_ROW(0)\n");
        for (int k = 0; rc >= 0 && k < n; k++)
            rc = loop_line(text, loop[k], k, err);
        if (rc >= 0)
            rc = ctr_buf_printf(text, err, "}\n");
    }
    for (int k = 0; rc >= 0 && each && k < n; k++) {
        rc = ctr_buf_printf(text, err, "\nOPD_KERNEL(ctr_op_%d)\n{\n    OPD_ROW(%d)\n", k, k);
        if (rc >= 0)
            rc = loop_line(text, loop[k], k, err);
        if (rc >= 0)
            rc = ctr_buf_printf(text, err, "}\n");
    }
    return CTR_MIN(rc, 0);
}
