/* SPDX-License-Identifier: Apache-2.0
 *
 * ipcfile: an Arrow IPC file in memory: magic, the messages of a stream, the footer with their positions, its length,
 * magic. In a sealed file every byte from first to last is accounted for.
 */
#include "common/stream/arrow.h"

enum { MAX_GAP = 256 };

void ctr_ipcfile_close(struct ctr_ipcfile *f)
{
    ctr_footer_free(&f->footer);
    ctr_arrow_free(&f->schema);
    ctr_buf_free(&f->copy);
    *f = (struct ctr_ipcfile){ 0 };
}

/* The size of the metadata at `at`, or -1 if no message starts there; *head is the length of its prefix. Before version
 * 0.15 of Arrow, which had no seals, the size was not preceded by a marker. */
static int64_t size_at(const struct ctr_ipcfile *f, int64_t at, int *head)
{
    const bool marked = ctr_fb_load32(f->map + at) == -1;
    *head = marked ? 8 : 4;
    return marked || !f->footer.sealed ? ctr_fb_load32(f->map + at + *head - 4) : -1;
}

/* Copy metadata from the map, so that no other process can change them. */
static int copy_at(struct ctr_ipcfile *f, int64_t at, int64_t length, struct ctr_err *err)
{
    f->copy.len = 0;
    return ctr_buf_append(&f->copy, f->map + at, (size_t)length, err);
}

/* Parse the message at `at`, whose metadata must end before `end`; *length includes the prefix. */
static int message_at(struct ctr_ipcfile *f, int64_t at, int64_t end, struct arrow_message *m, int64_t *length,
                      struct ctr_buf *scratch, struct ctr_err *err)
{
    if (end - at < 16)
        return ctr_fail(err, CTR_EDATA, "a block does not lie in the file");
    uint8_t prefix[8] = { 0xff, 0xff, 0xff, 0xff };
    int head;
    const int64_t size = size_at(f, at, &head);
    const int32_t size32 = (int32_t)size;
    if (size < 8 || size > ARROW_MAX_METADATA || size > end - at - head)
        return ctr_fail(err, CTR_EDATA, "a block of the file is damaged");
    *length = size + head;
    memcpy(prefix + 4, &size32, 4);
    f->copy.len = 0;
    int rc = ctr_buf_append(&f->copy, prefix, 8, err);
    if (!rc)
        rc = ctr_buf_append(&f->copy, f->map + at + head, (size_t)size, err);
    return rc ? rc : ctr_message_parse(m, f->copy.data, f->copy.len, scratch, err);
}

static int check_block(const struct ctr_ipcfile *f, const struct arrow_block *b, struct ctr_err *err)
{
    if (b->offset < 8 || b->offset % 8 || b->meta_length < 16 || b->meta_length % 8 || b->body_length < 0 ||
        b->offset > f->footer_at || b->meta_length > f->footer_at - b->offset ||
        b->body_length > f->footer_at - b->offset - b->meta_length)
        return ctr_fail(err, CTR_EDATA, "the footer points outside the file");
    return 0;
}

/* Is it the message of this number that the footer was written with? */
static bool belongs(const struct ctr_ipcfile *f, const struct arrow_message *m, int64_t seq)
{
    const size_t n = sizeof(struct ctr_seal), messages = f->footer.nblocks + 2;
    return m->sealed && m->seq == seq &&
           (f->seals ? (size_t)seq < messages && !memcmp(m->seal, f->seals + n * (size_t)seq, n) : !m->after);
}

/* Schema, blocks, trailer and end mark must follow one another without a gap. */
static int check_sealed(struct ctr_ipcfile *f, struct ctr_buf *scratch, struct ctr_err *err)
{
    static const uint8_t eos[8] = { 0xff, 0xff, 0xff, 0xff };
    struct arrow_message m;
    int64_t at = 8, length, batches = (int64_t)f->footer.nblocks;
    const char *rows = ctr_meta_get(&f->footer.meta, CTR_SEAL_ROWS);
    f->seals = ctr_meta_get(&f->footer.meta, CTR_SEAL_SEALS);
    if (f->seals && strlen(f->seals) != (f->footer.nblocks + 2) * sizeof(struct ctr_seal))
        return ctr_fail(err, CTR_EDATA, "the footer is damaged");
    int rc = message_at(f, at, f->footer_at, &m, &length, scratch, err);
    if (rc >= 0 && (m.type != ARROW_SCHEMA || !belongs(f, &m, 0) || m.body_length))
        rc = ctr_fail(err, CTR_EDATA, "the first message of the file is damaged");
    at += length;
    for (size_t i = 0; rc >= 0 && i < f->footer.nblocks; i++) {
        const struct arrow_block *b = &f->footer.blocks[i];
        if (b->offset != at)
            return ctr_fail(err, CTR_EDATA, "the blocks of the file do not follow one another");
        at = b->offset + b->meta_length + b->body_length;
    }
    if (rc >= 0)
        rc = message_at(f, at, f->footer_at, &m, &length, scratch, err);
    if (rc < 0)
        return rc;
    if (m.body_length > f->footer_at - at - length)
        return ctr_fail(err, CTR_EDATA, "the trailer of the file is damaged");
    at += length + m.body_length;
    if (m.type != ARROW_BATCH || !belongs(f, &m, batches + 1) || m.trailer_batches != batches || !rows ||
        !ctr_parse_i64(rows, strlen(rows), &f->rows) || m.trailer_rows != f->rows)
        return ctr_fail(err, CTR_EDATA, "the trailer of the file is damaged");
    if (f->footer_at - at != 8 || memcmp(f->map + at, eos, 8))
        return ctr_fail(err, CTR_EDATA, "the end of the file is damaged");
    for (int64_t k = at - m.body_length; k < at; k++) /* offsets of empty columns */
        if (f->map[k])
            return ctr_fail(err, CTR_EDATA, "the trailer of the file is damaged");
    return 0;
}

/* The end of the messages that start at `at`: at an end mark, or where no message starts. */
static int64_t skip_messages(struct ctr_ipcfile *f, int64_t at, struct ctr_buf *scratch)
{
    struct ctr_err ignored;
    struct arrow_message m;
    int64_t length;
    int head;
    while (f->footer_at - at >= 16 && size_at(f, at, &head) > 0 &&
           message_at(f, at, f->footer_at, &m, &length, scratch, &ignored) >= 0 &&
           m.body_length <= f->footer_at - at - length)
        at += length + m.body_length;
    return at;
}

/* A file whose footer has no seal must be from another program: it must not start with a sealed message, and its last
 * block must end shortly before the footer (otherwise the footer belongs to another file, as when two files are
 * concatenated in a pipe).
 */
static int check_foreign(struct ctr_ipcfile *f, struct ctr_buf *scratch, struct ctr_err *err)
{
    struct ctr_err ignored;
    struct arrow_message m;
    int64_t end = 0, length;
    if (message_at(f, 8, f->footer_at, &m, &length, scratch, &ignored) >= 0 && m.any_ctr)
        return ctr_fail(err, CTR_EDATA, "the footer is damaged (it has no seal)");
    for (int k = 0; k < 2; k++) {
        const struct arrow_block *b = k ? f->footer.blocks : f->footer.dicts;
        for (size_t i = 0; i < (k ? f->footer.nblocks : f->footer.ndicts); i++)
            end = CTR_MAX(end, b[i].offset + b[i].meta_length + b[i].body_length);
    }
    end = skip_messages(f, end ? end : 8, scratch);
    if (end > 8 && f->footer_at - end > MAX_GAP)
        return ctr_fail(
            err, CTR_EDATA,
            "has %lld bytes between its last block and its footer: several IPC files in one pipe? name them "
            "as arguments",
            (long long)(f->footer_at - end));
    return 0;
}

int ctr_ipcfile_open(struct ctr_ipcfile *f, const uint8_t *map, int64_t size, struct ctr_buf *scratch,
                     struct ctr_err *err)
{
    *f = (struct ctr_ipcfile){ .map = map, .size = size, .rows = -1 };
    int64_t length = size < 18 ? 0 : ctr_fb_load32(map + size - 10);
    if (size < 18 || memcmp(map + size - 6, "ARROW1", 6))
        return ctr_fail(err, CTR_EDATA, "truncated: an IPC file that does not end in its footer");
    if (length < 16 || length > size - 18)
        return ctr_fail(err, CTR_EDATA, "the footer is damaged");
    f->footer_at = size - 10 - length;
    int rc = copy_at(f, f->footer_at, length, err);
    if (rc >= 0)
        rc = ctr_footer_parse(&f->footer, &f->schema, f->copy.data, f->copy.len, scratch, err);
    for (size_t i = 0; rc >= 0 && i < f->footer.ndicts; i++)
        rc = check_block(f, &f->footer.dicts[i], err);
    for (size_t i = 0; rc >= 0 && i < f->footer.nblocks; i++)
        rc = check_block(f, &f->footer.blocks[i], err);
    if (rc >= 0 && !f->footer.sealed)
        rc = check_foreign(f, scratch, err);
    if (rc >= 0 && f->footer.sealed)
        rc = check_sealed(f, scratch, err);
    if (rc < 0)
        ctr_ipcfile_close(f);
    return rc;
}

int ctr_ipcfile_message(struct ctr_ipcfile *f, bool dict, size_t i, struct arrow_message *m, const uint8_t **body,
                        struct ctr_buf *scratch, struct ctr_err *err)
{
    const struct arrow_block *b = dict ? &f->footer.dicts[i] : &f->footer.blocks[i];
    int64_t length, seq = 1 + (int64_t)(dict ? i : f->footer.ndicts + i);
    int rc = message_at(f, b->offset, b->offset + b->meta_length, m, &length, scratch, err);
    if (rc < 0)
        return rc;
    if (length != b->meta_length || m->body_length != b->body_length ||
        m->type != (dict ? ARROW_DICTIONARY : ARROW_BATCH))
        return ctr_fail(err, CTR_EDATA, "a block is not what the footer says");
    if (f->footer.sealed ? !belongs(f, m, seq) : m->sealed || m->any_ctr)
        return ctr_fail(err, CTR_EDATA, "a block is not the one that belongs here");
    *body = f->map + b->offset + b->meta_length;
    return 0;
}
