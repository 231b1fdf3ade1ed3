/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of ctr-serve: the head, where there is one, the key in its path, and the body as rows and as clicks. */
#include "harness.h"

#include "tools/ctr-serve/serve_images.h"

enum { MOST_CLICKS = 20 };
static const struct {
    const char *name;
    enum ctr_type type, item;
    int32_t width;
} columns[] = { { "user", CTR_I64, 0, 0 },      { "hour", CTR_I8, 0, 0 },          { "ad", CTR_UTF8, 0, 0 },
                { "price", CTR_F32, 0, 0 },     { "tags", CTR_LIST, CTR_UTF8, 0 }, { "seen.at", CTR_TIME, 0, 0 },
                { "v", CTR_FIXED, CTR_F64, 2 }, { "on", CTR_BOOL, 0, 0 } };

/* A generation without a model, which reads these columns. */
static int generation(struct serve_generation *g, int *from, struct ctr_err *err)
{
    static char none[CTR_PAD];
    const struct ctr_text_block first = { .p = none, .file = "request", .first_line = 1 };
    int rc = 0;
    *g = (struct serve_generation){
        .columns = (int)CTR_COUNT(columns), .user_key = -1, .ad_key = -1, .from_users = from, .from_ads = from
    };
    for (size_t i = 0; i < CTR_COUNT(columns) && !rc; i++) {
        rc = ctr_schema_add(&g->schema, columns[i].name, columns[i].type, err);
        from[i] = -1;
        if (rc)
            break;
        g->schema.f[i].item = columns[i].item;
        g->schema.f[i].width = columns[i].width;
    }
    if (!rc)
        rc = ctr_schema_copy(&g->rows, &g->schema, err);
    g->text = (struct ctr_text_opts){ .format = &ctr_text_jsonl, .like = &g->schema, .bad_rows = "fail" };
    return rc ? rc : g->text.format->open(&g->jsonl, &g->text, &first, &g->jsonl_schema, err);
}

static void read_body(struct serve_generation *g, const uint8_t *data, size_t size, struct ctr_err *err)
{
    struct serve_desk *d = NULL;
    struct ctr_buf body = { 0 };
    int rc = serve_desk_new(&d, g, err);
    for (int again = 0; again < 2 && !rc; again++) { /* a desk is used again and again */
        ctr_buf_clear(&body);
        rc = ctr_buf_append(&body, data, size, err);
        if (!rc)
            rc = serve_rows_json(d, body.data, body.len, 100, err);
        FUZZ_CHECK(!rc || err->what[0]);
        if (!rc && d->batch.rows)
            fuzz_look(&d->batch);
        FUZZ_CHECK(d->batch.rows <= 100);
    }
    serve_desk_free(d);
    ctr_buf_free(&body);
}

/* PUT /v1/images/KEY */
static void read_key(const char *path)
{
    char key[SERVE_KEY_BYTES];
    if (strncmp(path, SERVE_IMAGES, strlen(SERVE_IMAGES)) != 0)
        return;
    const char *why = serve_image_key(path, key);
    FUZZ_CHECK(why ? *why : *key && ctr_utf8_valid((const uint8_t *)key, strlen(key)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct serve_generation g = { 0 };
    struct ctr_http_head head;
    struct ctr_err err = { 0 };
    int from[CTR_COUNT(columns)];
    const char *why = NULL;
    const size_t end = ctr_http_head_end(data, size, 0);
    if (end) {
        const int status = ctr_http_head_parse(data, end, &head, &why);
        FUZZ_CHECK(status ? status >= 400 && status < 600 && why && *why
                          : head.path[0] == '/' && head.body_bytes >= 0 && !head.path[sizeof head.path - 1]);
        if (!status)
            read_key(head.path);
    }
    struct ctr_buf body = { 0 }, clicks = { 0 };
    int rc = ctr_buf_append(&body, data + end, size - end, &err);
    if (!rc)
        rc = serve_clicks_read(body.data, body.len, MOST_CLICKS, &clicks, &err);
    FUZZ_CHECK(clicks.len / sizeof(struct serve_click) <= MOST_CLICKS);
    if (!rc)
        for (size_t i = 0; i < clicks.len / sizeof(struct serve_click); i++) {
            const struct serve_click *c = (const struct serve_click *)(void *)clicks.data + i;
            FUZZ_CHECK(c->place >= 0 && *c->id && memchr(c->id, 0, sizeof c->id));
        }
    ctr_buf_free(&body);
    ctr_buf_free(&clicks);
    if (!generation(&g, from, &err))
        read_body(&g, data + end, size - end, &err);
    if (g.jsonl)
        g.text.format->close(g.jsonl);
    ctr_schema_free(&g.jsonl_schema);
    ctr_schema_free(&g.rows);
    ctr_schema_free(&g.schema);
    return 0;
}
