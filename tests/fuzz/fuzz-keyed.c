/* SPDX-License-Identifier: Apache-2.0
 *
 * Keyed files: looked up by keys of the type that they claim. */
#include "harness.h"

FUZZ_STREAM_MUTATOR

static void look_up(struct ctr_keyed *k)
{
    static const char *const texts[] = { "a", "", "b2", "zebra", "\xc3\xa9" };
    const struct ctr_schema *s = ctr_keyed_schema(k);
    const struct ctr_field *f = &s->f[ctr_keyed_column(k)];
    struct ctr_batchbuf out = { 0 };
    struct ctr_colbuf keys = { 0 };
    struct ctr_err err = { 0 };
    bool found[12];
    int rc = ctr_batchbuf_init(&out, s, &err), kind = ctr_types[f->type].floating ? 1 : f->type == CTR_UTF8 ? 2 : 0;
    if (f->type == CTR_LIST || f->type == CTR_FIXED)
        kind = 3;
    rc = rc ? rc
            : ctr_colbuf_init(&keys, &(struct ctr_field){ .type = f->type, .item = f->item, .width = f->width }, &err);
    for (int i = 0; i < 12 && !rc; i++) {
        if (i == 5 || kind == 3)
            rc = ctr_colbuf_null(&keys, &err);
        else if (kind == 2)
            rc = ctr_colbuf_str(&keys, texts[i % 5], strlen(texts[i % 5]), &err);
        else
            rc = kind ? ctr_colbuf_f64(&keys, i * 1.5 - 4, &err) : ctr_colbuf_i64(&keys, i * 7 - 14, &err);
    }
    for (int again = 0; again < 2 && !rc; again++)
        rc = ctr_keyed_get_many(k, ctr_colbuf_view(&keys), &out, found, &err);
    if (!rc) {
        FUZZ_CHECK(ctr_batchbuf_rows(&out) == 24);
        fuzz_look(ctr_batchbuf_view(&out));
    }
    ctr_colbuf_free(&keys);
    ctr_batchbuf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ctr_keyed *k = NULL;
    struct ctr_err err = { 0 };
    if (!ctr_keyed_open(&k, fuzz_file(0, data, size), &err))
        look_up(k);
    else
        FUZZ_CHECK(err.what[0]);
    ctr_keyed_free(k);
    return 0;
}
