/* SPDX-License-Identifier: Apache-2.0
 *
 * foreign: Arrow streams as other programs write them, or damaged, from a description: types in the order of
 * a depth-first walk, and for each message its nodes and buffers as they are, so that every lie can be told. */
#ifndef CTR_TEST_FOREIGN_H
#define CTR_TEST_FOREIGN_H

#include "common/stream/arrow.h"

#include <unistd.h>

struct a_type {
    const char *name; /* NULL ends a list */
    int kind, a, b;   /* bits and sign, precision, unit, or width */
    int kids;
    int index, is_signed; /* dictionary-encoded by integers of so many bits (-1: it does not say) … */
    int dict_id;
};
struct a_bytes {
    const void *p;
    int64_t n;     /* bytes written; with p NULL, so many of a hole */
    int64_t claim; /* added to the length */
};
struct a_message {
    int type; /* 0 ends a list */
    int dict_id, delta;
    int64_t rows;
    struct arrow_node node[6];
    struct a_bytes buffer[10];
    int nodes, buffers;
    int64_t variadic[4];
    int variadics;
    int64_t body_claim;
};
struct a_stream {
    struct a_type type[20];
    struct a_message message[5];
};

#define A_BYTES(type, ...)                                                                                             \
    {                                                                                                                  \
        (type[]){ __VA_ARGS__ }, sizeof((type[]){ __VA_ARGS__ })                                                       \
    }
#define A_TEXT(s)                                                                                                      \
    {                                                                                                                  \
        s, sizeof s - 1                                                                                                \
    }
#define A_NONE                                                                                                         \
    {                                                                                                                  \
        NULL, 0                                                                                                        \
    }

static inline void a_put_type(struct ctr_fbw *w, size_t at, int kind, int a, int b)
{
    struct ctr_fb_slot s[] = { { 4, (uint32_t)a, 0 }, { 1, (uint64_t)b, 0 } };
    s[0].size = kind == ARROW_FLOAT || kind == ARROW_DATE || kind == ARROW_TIMESTAMP ? 2 : 4;
    ctr_fb_child(w, at, s, kind == ARROW_INT ? 2 : 1);
}

static inline const struct a_type *a_put_fields(struct ctr_fbw *w, size_t at, const struct a_type *t, int n)
{
    size_t v = ctr_fb_array(w, at, (size_t)n, 4);
    for (int i = 0; i < n; i++) {
        const struct a_type *f = t++;
        struct ctr_fb_slot s[] = { { CTR_FB_REF, 0, 0 },
                                   { 1, 1, 0 },
                                   { 1, (uint64_t)f->kind, 0 },
                                   { CTR_FB_REF, 0, 0 },
                                   { f->index ? CTR_FB_REF : 0, 0, 0 },
                                   { CTR_FB_REF, 0, 0 } };
        struct ctr_fb_slot e[] = { { 8, (uint64_t)f->dict_id, 0 }, { f->index > 0 ? CTR_FB_REF : 0, 0, 0 } };
        ctr_fb_child(w, v + 4 * (size_t)i, s, 6);
        ctr_fb_text(w, s[0].at, f->name, strlen(f->name));
        a_put_type(w, s[3].at, f->kind, f->a, f->b);
        if (f->index)
            ctr_fb_child(w, s[4].at, e, 2);
        if (f->index > 0)
            a_put_type(w, e[1].at, ARROW_INT, f->index, f->is_signed);
        t = a_put_fields(w, s[5].at, t, f->kids);
    }
    return t;
}

static int a_big_endian; /* 1: the schemas say so */
static inline void a_put_schema(struct ctr_fbw *w, size_t at, const struct a_type *types)
{
    struct ctr_fb_slot s[] = { { 2, (uint64_t)a_big_endian, 0 }, { CTR_FB_REF, 0, 0 } };
    int n = 0;
    for (const struct a_type *t = types; t->name; n++)
        for (int left = 1; left > 0 && t->name; left--)
            left += t++->kids;
    ctr_fb_child(w, at, s, 2);
    a_put_fields(w, s[1].at, types, n);
}

static inline int64_t a_body_length(const struct a_message *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->buffers; i++)
        n += (m->buffer[i].n + 63) / 64 * 64;
    return n;
}

/* The table of a record batch; the bodies begin at multiples of 64. */
static inline void a_put_batch(struct ctr_fbw *w, size_t at, const struct a_message *m)
{
    struct ctr_fb_slot s[] = { { 8, (uint64_t)m->rows, 0 },
                               { CTR_FB_REF, 0, 0 },
                               { CTR_FB_REF, 0, 0 },
                               { 0, 0, 0 },
                               { m->variadics ? CTR_FB_REF : 0, 0, 0 } };
    int64_t offset = 0;
    ctr_fb_child(w, at, s, 5);
    size_t v = ctr_fb_array(w, s[1].at, (size_t)m->nodes, 16);
    ctr_fb_put(w, v, m->node, 16 * (size_t)m->nodes);
    v = ctr_fb_array(w, s[2].at, (size_t)m->buffers, 16);
    for (int i = 0; i < m->buffers; i++) {
        int64_t place[2] = { offset, m->buffer[i].n + m->buffer[i].claim };
        ctr_fb_put(w, v + 16 * (size_t)i, place, 16);
        offset += (m->buffer[i].n + 63) / 64 * 64;
    }
    if (m->variadics) {
        v = ctr_fb_array(w, s[4].at, (size_t)m->variadics, 8);
        ctr_fb_put(w, v, m->variadic, 8 * (size_t)m->variadics);
    }
}

/* The metadata of a message, with its prefix; `body` is what follows it. */
static inline void a_put_message(struct ctr_fbw *w, const struct a_type *types, const struct a_message *m, int64_t body)
{
    static const uint8_t head[12] = { 0xff, 0xff, 0xff, 0xff };
    struct ctr_fb_slot s[] = { { 2, ARROW_V5, 0 },
                               { 1, (uint64_t)m->type, 0 },
                               { CTR_FB_REF, 0, 0 },
                               { 8, (uint64_t)(body + m->body_claim), 0 } };
    struct ctr_fb_slot dict[] = { { 8, (uint64_t)m->dict_id, 0 }, { CTR_FB_REF, 0, 0 }, { 1, (uint64_t)m->delta, 0 } };
    w->rc = ctr_buf_append(&w->b, head, sizeof head, w->err);
    ctr_fb_child(w, 8, s, 4);
    if (m->type == ARROW_SCHEMA) {
        a_put_schema(w, s[2].at, types);
    } else if (m->type == ARROW_DICTIONARY) {
        ctr_fb_child(w, s[2].at, dict, 3);
        a_put_batch(w, dict[1].at, m);
    } else {
        a_put_batch(w, s[2].at, m);
    }
    ctr_fb_align(w, 64);
    int32_t size = (int32_t)w->b.len - 8;
    ctr_fb_put(w, 4, &size, 4);
}

/* Appends a message to the file at fd. Buffers without bytes are holes. */
static inline int64_t a_send(int fd, int64_t at, const struct a_type *types, const struct a_message *m,
                             struct ctr_err *err)
{
    struct ctr_fbw w = { .err = err };
    a_put_message(&w, types, m, a_body_length(m));
    int rc = w.rc < 0 || pwrite(fd, w.b.data, w.b.len, at) != (ssize_t)w.b.len ? -1 : 0;
    at += (int64_t)w.b.len;
    for (int i = 0; !rc && i < m->buffers; i++) {
        const struct a_bytes *b = &m->buffer[i];
        rc = b->p && pwrite(fd, b->p, (size_t)b->n, at) != b->n ? -1 : 0;
        at += (b->n + 63) / 64 * 64;
    }
    ctr_buf_free(&w.b);
    return rc || ftruncate(fd, at) < 0 ? -1 : at;
}

/* The whole stream, at the beginning of the file. */
static inline int64_t a_write(int fd, const struct a_stream *s, struct ctr_err *err)
{
    static const struct a_message schema = { .type = ARROW_SCHEMA };
    static const uint8_t eos[8] = { 0xff, 0xff, 0xff, 0xff };
    int64_t at = ftruncate(fd, 0) < 0 ? -1 : a_send(fd, 0, s->type, &schema, err);
    for (const struct a_message *m = s->message; at >= 0 && m->type; m++)
        at = a_send(fd, at, s->type, m, err);
    return at < 0 || pwrite(fd, eos, 8, at) != 8 ? -1 : at + 8;
}

/* The messages of the stream as an IPC file; where its batches lie goes to `blocks`. */
static inline int64_t a_write_file(int fd, const struct a_stream *s, struct arrow_block *blocks, struct ctr_err *err)
{
    static const struct a_message schema = { .type = ARROW_SCHEMA };
    struct ctr_fb_slot t[] = { { 2, ARROW_V5, 0 }, { CTR_FB_REF, 0, 0 }, { CTR_FB_REF, 0, 0 }, { CTR_FB_REF, 0, 0 } };
    struct ctr_fbw w = { .err = err };
    char end[10] = "    ARROW1";
    size_t n = 0;
    int64_t at = ftruncate(fd, 0) < 0 || pwrite(fd, "ARROW1\0", 8, 0) != 8 ? -1 : a_send(fd, 8, s->type, &schema, err);
    for (const struct a_message *m = s->message; at >= 0 && m->type; m++, n++) {
        blocks[n] = (struct arrow_block){ .offset = at, .body_length = a_body_length(m) };
        at = a_send(fd, at, s->type, m, err);
        blocks[n].meta_length = at - blocks[n].offset - blocks[n].body_length;
    }
    w.rc = ctr_buf_append(&w.b, "\0\0\0", 4, err);
    ctr_fb_child(&w, 0, t, 4);
    a_put_schema(&w, t[1].at, s->type);
    ctr_fb_array(&w, t[2].at, 0, 24);
    ctr_fb_put(&w, ctr_fb_array(&w, t[3].at, n, 24), blocks, 24 * n);
    ctr_fb_align(&w, 8);
    int32_t size = (int32_t)w.b.len;
    memcpy(end, &size, 4);
    if (at < 0 || w.rc < 0 || pwrite(fd, "\xff\xff\xff\xff\0\0\0", 8, at) != 8 ||
        pwrite(fd, w.b.data, w.b.len, at + 8) != size || pwrite(fd, end, 10, at + 8 + size) != 10)
        at = -1;
    ctr_buf_free(&w.b);
    return at;
}

#endif
