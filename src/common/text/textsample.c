/* SPDX-License-Identifier: Apache-2.0
 *
 * textsample: copies the blocks to one buffer, and long records to a temporary file, which is mapped. */
#include "common/text/textsample.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int add_piece(struct ctr_text_sample *s, const struct ctr_text_block *b, struct ctr_err *err)
{
    int rc = ctr_array_grow(&s->piece, s->n, &s->cap, sizeof *s->piece, err);
    if (!rc)
        s->piece[s->n++] = *b;
    return rc;
}

static int add_text(struct ctr_text_sample *s, const struct ctr_text_block *b, struct ctr_err *err)
{
    int rc = ctr_buf_append(&s->text, b->p, b->n, err);
    return rc || !b->n ? rc : add_piece(s, b, err);
}

/* Add part of a long record. */
static int add_long(struct ctr_text_sample *s, const struct ctr_text_block *b, bool keep, struct ctr_err *err)
{
    int rc = b->part == CTR_TEXT_LONG ? add_piece(s, b, err) : 0;
    if (rc)
        return rc;
    if (b->part == CTR_TEXT_LONG)
        s->piece[s->n - 1].n = 0;
    if (!keep)
        return 0;
    if (!s->fd && (rc = ctr_tmpfile(err)) < 0)
        return rc;
    s->fd = s->fd ? s->fd : rc;
    if ((rc = ctr_write_full(s->fd, b->p, b->n, err)))
        return rc;
    s->piece[s->n - 1].n += b->n;
    s->long_bytes += b->n;
    return 0;
}

/* Set the addresses of the pieces, once nothing moves any more. */
static int place(struct ctr_text_sample *s, struct ctr_err *err)
{
    const char *text = (const char *)s->text.data, *line = "";
    if (s->long_bytes) {
        void *map = mmap(NULL, s->long_bytes, PROT_READ, MAP_PRIVATE, s->fd, 0);
        if (map == MAP_FAILED)
            return ctr_fail_sys(err, "cannot map");
        line = s->map = map;
        s->map_bytes = s->long_bytes;
    }
    for (int i = 0; i < s->n; i++) {
        const char **at = s->piece[i].part == CTR_TEXT_WHOLE ? &text : &line;
        s->piece[i].p = *at;
        *at += s->piece[i].n;
    }
    return 0;
}

int ctr_text_sample_gather(struct ctr_text_sample *s, struct ctr_lines *lines, struct ctr_text_block *first, bool keep,
                           struct ctr_err *err)
{
    struct ctr_text_block b = *first;
    struct ctr_err later; /* a read error is reported again, after what came before it */
    int64_t records = ctr_count_byte(b.p, b.n, '\n');
    size_t sample = b.n;
    int rc = add_text(s, &b, err);
    while (!rc && records < CTR_SAMPLE_ROWS && sample < CTR_RECORD_BYTES && ctr_lines_next(lines, &b, &later) > 0) {
        rc = b.part == CTR_TEXT_WHOLE ? add_text(s, &b, err) : add_long(s, &b, keep, err);
        if (rc || b.file_start) /* only the first file is sampled */
            break;
        if (b.part != CTR_TEXT_WHOLE)
            continue;
        records += ctr_count_byte(b.p, b.n, '\n');
        sample += b.n;
    }
    if (!rc)
        rc = place(s, err);
    if (rc)
        return rc;
    first->p = (const char *)s->text.data;
    first->n = sample;
    return 0;
}

void ctr_text_sample_free(struct ctr_text_sample *s)
{
    if (s->map)
        munmap(s->map, s->map_bytes);
    if (s->fd)
        close(s->fd);
    free(s->piece);
    ctr_buf_free(&s->text);
}
