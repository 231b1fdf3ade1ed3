/* SPDX-License-Identifier: Apache-2.0
 *
 * gridpage: the HTML page of gridviz. The binary contains template, style, script and d3 (by the assembler's .incbin);
 * @NAME@ in the template is replaced by one of them. */
#include "tools/ctr-gridviz/gridviz.h"

#include <inttypes.h>
#include <stdio.h>

#define EMBED(name, file)                                                                                              \
    extern const char gridviz_##name[];                                                                                \
    extern const uint64_t gridviz_##name##_size;                                                                       \
    __asm__(".section .rodata\n"                                                                                       \
            ".global gridviz_" #name ", gridviz_" #name "_size\n"                                                      \
            "gridviz_" #name ": .incbin \"" file "\"\n"                                                                \
            "1: .balign 8\n"                                                                                           \
            "gridviz_" #name "_size: .quad 1b - gridviz_" #name "\n"                                                   \
            ".previous\n")
EMBED(html, "src/tools/ctr-gridviz/gridviz.html");
EMBED(css, "src/tools/ctr-gridviz/gridviz.css");
EMBED(js, "src/tools/ctr-gridviz/gridviz.js");
EMBED(d3, "src/tools/ctr-gridviz/d3.min.js");
EMBED(licence, "src/tools/ctr-gridviz/d3.LICENSE");

struct part {
    const char *name, *text;
    size_t n;
};

/* The replacement of @NAME@ at p, which is after the first @; NULL: none. */
static const struct part *find_part(const struct part *part, size_t n, const char *p, size_t left)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = strlen(part[i].name);
        if (k < left && !memcmp(part[i].name, p, k) && p[k] == '@')
            return &part[i];
    }
    return NULL;
}

/* In JSON '<' occurs only in texts: it is escaped, so that no text can end the script element. */
static int put_data(const struct ctr_buf *data, struct ctr_buf *out, struct ctr_err *err)
{
    const char *p = (const char *)data->data, *end = p + data->len;
    int rc = 0;

    while (!rc && p < end) {
        const char *at = memchr(p, '<', (size_t)(end - p));
        rc = ctr_buf_append(out, p, (size_t)((at ? at : end) - p), err);
        if (!rc && at)
            rc = ctr_buf_append(out, "\\u003c", 6, err);
        p = at ? at + 1 : end;
    }
    return rc;
}

int ctr_gridviz_page(const struct ctr_buf *data, struct ctr_buf *out, struct ctr_err *err)
{
    struct ctr_hash128 h = ctr_hash128(data->data, data->len);
    char nonce[33]; /* allows only the page's own scripts */
    const struct part part[] = {
        { "NONCE", nonce, 32 },
        { "STYLE", gridviz_css, gridviz_css_size },
        { "SCRIPT", gridviz_js, gridviz_js_size },
        { "D3", gridviz_d3, gridviz_d3_size },
        { "LICENCE", gridviz_licence, gridviz_licence_size },
        { "DATA", NULL, 0 },
    };
    const char *p = gridviz_html, *end = p + gridviz_html_size;
    int rc = 0;

    snprintf(nonce, sizeof nonce, "%016" PRIx64 "%016" PRIx64, h.hi, h.lo);
    while (!rc && p < end) {
        const char *at = memchr(p, '@', (size_t)(end - p));
        const struct part *with = at ? find_part(part, CTR_COUNT(part), at + 1, (size_t)(end - at - 1)) : NULL;
        size_t n = (size_t)((at ? at + !with : end) - p);
        rc = ctr_buf_append(out, p, n, err);
        if (!rc && with)
            rc = with->text ? ctr_buf_append(out, with->text, with->n, err) : put_data(data, out, err);
        p += n + (with ? strlen(with->name) + 2 : 0);
    }
    return rc;
}
