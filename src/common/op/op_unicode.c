/* SPDX-License-Identifier: Apache-2.0
 *
 * op_unicode: texts of which Unicode has several spellings as one (UAX #15, Normalization Form C; kept stable by
 * Unicode for all characters that are assigned). By utf8proc, an optional part: its header decides at build time, and
 * the library is opened by the first text that needs it. Below U+0300 every text is in this form. */
#include "common/op/opint.h"

#include <stdlib.h>
#ifdef CTR_UTF8PROC
#include <utf8proc.h>
#endif

/* The first byte of U+0300 in UTF-8. */
enum { FIRST_BYTE = 0xcc };

bool ctr_unicode_plain(const uint8_t *p, int64_t n)
{
    uint8_t top = 0;
    for (int64_t i = 0; i < n; i++)
        top = CTR_MAX(top, p[i]);
    return top < FIRST_BYTE;
}

#ifdef CTR_UTF8PROC
typedef __typeof__(utf8proc_map) map_fn;

static map_fn *find_map(void)
{
    static const char *const library[] = { "libutf8proc.so.3", "libutf8proc.so.2", "libutf8proc.so.1" };
    map_fn *map = NULL;
    for (size_t i = 0; !map && i < CTR_COUNT(library); i++)
        map = (map_fn *)ctr_optional(library[i], "utf8proc_map");
    return map;
}

int ctr_unicode_nfc(const uint8_t *p, int64_t n, uint8_t **out, int64_t *len, struct ctr_err *err)
{
    map_fn *map = find_map();
    *out = NULL;
    *len = 0;
    if (!map)
        return ctr_fail(err, CTR_ESYS, "nfc wants the library libutf8proc, which is not there: install libutf8proc2");
    const utf8proc_ssize_t made = map(p, n, out, (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (made < 0)
        return made == UTF8PROC_ERROR_INVALIDUTF8 ? ctr_fail(err, CTR_EDATA, "nfc: a text is not UTF-8")
                                                  : ctr_fail_nomem(err, (size_t)n * 4);
    *len = made;
    return 0;
}
#else
int ctr_unicode_nfc(const uint8_t *p, int64_t n, uint8_t **out, int64_t *len, struct ctr_err *err)
{
    (void)p;
    (void)n;
    *out = NULL;
    *len = 0;
    return ctr_fail(
        err, CTR_EDATA,
        "nfc: this build lacks utf8proc, which texts beyond Latin letters want: install libutf8proc-dev and "
        "run make again");
}
#endif

/* Texts of a tile: as they are, or made by the library. */
static int nfc(struct ctr_op_tile *t, struct ctr_err *err)
{
    const struct opv_str *a = t->in[0].v;
    uint8_t *made[CTR_OP_TILE];
    int64_t len[CTR_OP_TILE], total = 0;
    int rc = 0, n = 0;
    for (; !rc && n < t->n; n++) {
        made[n] = NULL;
        len[n] = t->ok[n] ? a[n].n : 0;
        if (t->ok[n] && !ctr_unicode_plain(a[n].p, a[n].n))
            rc = ctr_unicode_nfc(a[n].p, a[n].n, &made[n], &len[n], err);
        total += len[n];
    }
    if (!rc)
        rc = ctr_op_reserve_text(t->buf, t->n, total, t->limit_bytes, err);
    if (!rc) {
        uint8_t *to = t->buf->data.data + t->buf->data.len;
        int32_t *end = (int32_t *)(void *)(t->buf->offsets.data + t->buf->offsets.len);
        for (int i = 0; i < t->n; i++) {
            if (len[i])
                memcpy(to, made[i] ? made[i] : a[i].p, (size_t)len[i]);
            to += len[i];
            end[i] = (int32_t)(to - t->buf->data.data);
        }
        t->buf->data.len += (size_t)total;
        t->buf->offsets.len += (size_t)t->n * sizeof *end;
    }
    for (int i = 0; i < n; i++)
        free(made[i]);
    return rc;
}
CTR_LOOP_HOST(loop_nfc, nfc, "asks a library for the characters")

const struct ctr_op ctr_ops_unicode[] = {
    { "nfc", "nfc(text) -> text",
      "in Unicode's Normalization Form C, so that letters with accents are one text, however they are put together: "
      "nfc(\"Red\") is Red",
      CTR_OP_LIFT, CTR_VARIANTS({ "t>t", loop_nfc }) },
    { NULL },
};
