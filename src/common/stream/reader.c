/* SPDX-License-Identifier: Apache-2.0
 *
 * reader: reads files, streams in files and sections of streams as one sequence of batches. Invariant: next returns 0
 * only after the end mark of every stream was seen and the trailer of every sealed stream agreed with what was read.
 *
 * With opts.ahead a thread reads the next batch while the caller uses the last one. Either the thread or the caller
 * owns the reader's state (ctr_background), except `shown` and the current batch, which the caller always owns. Only
 * batches are read ahead; anything that changes other state (dictionaries, ends, further streams) waits for the
 * caller's next call.
 */
#include "common/base/memory.h"
#include "common/stream/readercore.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    AHEAD_BATCHES = 2,           /* before a thread is started: short inputs need none */
    AHEAD_MOST_BYTES = 16 << 20, /* maximum batch size, because there are two batches then */
    AHEAD_LOOK_MS = 100,         /* maximum delay until a thread that waits for input notices that it must end */
};

#define WRITER_FAILED ": the program before it in the pipe failed or was stopped"

/* ---- files ---- */

static void close_file(struct ctr_reader *r)
{
    if (r->ipc_open)
        ctr_ipcfile_close(&r->ipc);
    if (r->src_open)
        ctr_source_close(&r->src);
    r->ipc_open = r->src_open = false;
}

static int open_file(struct ctr_reader *r, struct ctr_err *err)
{
    int rc = ctr_source_open(&r->src, r->paths[r->file], &r->opts, &r->stats, err);
    if (rc < 0)
        return rc;
    r->src_open = true;
    r->file_rows = r->file_batches = r->file_streams = 0;
    r->stream_at = r->message_at = -1;
    if (r->src.map) {
        rc = ctr_ipcfile_open(&r->ipc, r->src.map, r->src.map_size, &r->scratch, err);
        r->ipc_open = rc >= 0;
        r->block = 0;
    } else if (r->opts.parts > 1) {
        rc = ctr_fail(err, CTR_EUSAGE, "only an IPC file can be read in parts: make one with ctr-cat --to file");
    }
    return rc;
}

/* ---- messages ---- */

static int fail_truncated(const struct ctr_reader *r, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "truncated after batch %lld (row %lld)%s", (long long)r->file_batches,
                    (long long)r->file_rows, r->src.from_pipe ? WRITER_FAILED : "");
}

static int check_seal(struct ctr_reader *r, struct ctr_err *err)
{
    const struct arrow_message *m = &r->msg;
    const bool begins = m->type == ARROW_SCHEMA && !r->in_stream;
    const bool listed = r->section_set && r->section_at + 1 < r->sections.n;
    if (begins)
        r->sealed = m->sealed && !r->old;
    if (!r->sealed)
        return m->any_ctr ? ctr_fail(err, CTR_EDATA,
                                     "the metadata of a message is damaged (a seal in an unsealed "
                                     "stream)")
                          : 0;
    const int rc =
        ctr_chain_check(&r->chain, m, begins, !r->section_set, listed ? r->sections.s[r->section_at + 1] : NULL, err);
    if (!rc && r->trailer)
        return ctr_fail(err, CTR_EDATA, "a message follows the trailer");
    return rc;
}

/* Of a batch in a file, some of whose columns are not read, buffers are read as they are used. */
static int read_body(struct ctr_reader *r, struct ctr_err *err)
{
    struct arrow_data *d = &r->data[r->at];
    const int64_t at = r->src.offset;
    const bool some = r->msg.type == ARROW_BATCH && r->schema.n < r->leaves.n;
    d->file = NULL;
    int rc = some ? ctr_source_defer(&r->src, &r->body[r->at], r->msg.body_length, &d->have, err) : 0;
    if (!rc && r->msg.body_length > ctr_memory_batch() && !d->uncharged)
        rc = ctr_memory_fail("a batch", r->msg.body_length, err);
    if (rc > 0) {
        d->file = &r->src;
        d->file_at = at;
    }
    return rc ? CTR_MIN(rc, 0) : ctr_source_read(&r->src, &r->body[r->at], r->msg.body_length, err);
}

/* Read a message into meta, msg and body. STEP_END: it was the end mark. */
static int read_message(struct ctr_reader *r, struct ctr_err *err)
{
    r->message_at = r->src.offset;
    uint8_t prefix[8] = { 0xff, 0xff, 0xff, 0xff };
    const size_t mark = r->old ? 0 : 4;
    int rc = ctr_source_read(&r->src, &r->meta, (int64_t)mark + 4, err);
    if (rc < 0)
        return rc;
    if (r->meta.len < mark + 4)
        return fail_truncated(r, err);
    int64_t size = ctr_fb_load32(r->meta.data + mark);
    if (memcmp(r->meta.data, prefix, mark) || size < 0 || size > ARROW_MAX_METADATA || (mark && size % 8))
        return ctr_fail(err, CTR_EDATA, "a message is damaged (no message begins where one should)");
    if (!size)
        return STEP_END;
    /* The metadata follow the prefix, so that the seal hashes one piece. */
    memcpy(prefix + 4, r->meta.data + mark, 4);
    rc = ctr_source_read(&r->src, &r->body[r->at], size, err);
    if (rc < 0)
        return rc;
    if ((int64_t)r->body[r->at].len < size)
        return fail_truncated(r, err);
    r->meta.len = 0;
    rc = ctr_buf_append(&r->meta, prefix, 8, err);
    if (rc >= 0)
        rc = ctr_buf_append(&r->meta, r->body[r->at].data, (size_t)size, err);
    if (rc >= 0)
        rc = ctr_message_parse(&r->msg, r->meta.data, r->meta.len, &r->scratch, err);
    if (rc >= 0)
        rc = check_seal(r, err);
    if (rc >= 0)
        rc = read_body(r, err);
    if (rc < 0)
        return rc;
    r->stats.messages++;
    return (int64_t)r->body[r->at].len < r->msg.body_length ? fail_truncated(r, err) : STEP_ON;
}

static int end_stream(struct ctr_reader *r, struct ctr_err *err)
{
    r->in_stream = false;
    if (r->sealed && !r->trailer)
        return ctr_fail(err, CTR_EDATA, "the stream ends without its trailer after batch %lld (row %lld)",
                        (long long)r->file_batches, (long long)r->file_rows);
    return 0;
}

static int check_trailer(struct ctr_reader *r, struct ctr_err *err)
{
    const struct arrow_message *m = &r->msg;
    r->trailer = true;
    if (m->rows || m->trailer_rows != r->stream_rows || m->trailer_batches != r->stream_batches)
        return ctr_fail(err, CTR_EDATA, "the trailer tells of %lld rows in %lld batches, but %lld in %lld came",
                        (long long)m->trailer_rows, (long long)m->trailer_batches, (long long)r->stream_rows,
                        (long long)r->stream_batches);
    return 0;
}

/* ---- batches ---- */

static int check_counts(const struct ctr_reader *r, const struct arrow_schema *s, struct ctr_err *err)
{
    const struct arrow_message *m = &r->msg;
    int64_t buffers = s->buffers;
    for (size_t i = 0; i < m->nvariadic; i++) {
        int64_t k = ctr_fb_load64(m->variadic + 8 * i);
        if (k < 0 || k > (int64_t)m->nbuffers)
            return ctr_fail(err, CTR_EDATA, "a batch claims %lld buffers for a column", (long long)k);
        buffers += k;
    }
    if (m->nnodes != (size_t)s->nodes || (int64_t)m->nbuffers != buffers || m->nvariadic != (size_t)s->variadics)
        return ctr_fail(err, CTR_EDATA, "a batch has %zu columns and %zu buffers where its schema has %d and %lld",
                        m->nnodes, m->nbuffers, s->nodes, (long long)buffers);
    if (!s->nodes && m->rows > (4 << 20))
        return ctr_fail(err, CTR_EDATA, "a batch without columns claims %lld rows", (long long)m->rows);
    return 0;
}

static int check_rows(const struct ctr_reader *r, struct ctr_err *err)
{
    const struct arrow_message *m = &r->msg;
    const int64_t most = r->opts.most_rows, items = CTR_MAX(most, 8 * m->body_length);
    if (most && m->rows > most)
        return ctr_fail(err, CTR_ELARGE, "more than %lld rows are not taken (%s)", (long long)most,
                        r->opts.most_option);
    for (size_t i = 0; most && i < m->nnodes; i++)
        if (ctr_fb_load64(m->nodes + 16 * i) > items)
            return ctr_fail(err, CTR_ELARGE, "a list has more than %lld items, which their bytes do not hold",
                            (long long)items);
    return 0;
}

/* Decode the batch in msg, at `body`, to the columns of the caller's schema. */
static int decode_batch(struct ctr_reader *r, const uint8_t *body, bool mapped, struct ctr_err *err)
{
    int rc = check_counts(r, &r->arrow, err);
    if (rc >= 0)
        rc = check_rows(r, err);
    r->data[r->at].mapped = r->data[r->at].copied = mapped;
    if (mapped)
        r->data[r->at].file = NULL;
    if (rc >= 0)
        rc = ctr_data_set(&r->data[r->at], &r->msg, body, &r->stats, err);
    for (int i = 0; rc >= 0 && i < r->schema.n; i++) {
        struct arrow_leaf *l = &r->leaves.l[r->columns[i]];
        const struct ctr_col *c = NULL;
        rc = ctr_leaf_decode(l, r->at, &r->data[r->at], &c, err);
        if (rc >= 0)
            rc = ctr_leaf_conform(l, r->at, r->schema.f[i].dict, &c, err);
        if (rc >= 0)
            r->cols[r->at][i] = *c;
    }
    if (rc < 0)
        return rc;
    r->batch[r->at] =
        (struct ctr_batch){ .schema = &r->schema, .rows = r->msg.rows, .first_row = r->rows, .col = r->cols[r->at] };
    return STEP_BATCH;
}

static int take_dictionary(struct ctr_reader *r, const uint8_t *body, struct ctr_err *err)
{
    for (int i = 0; i < r->schema.n; i++) {
        int rc = ctr_leaf_dictionary(&r->leaves.l[r->columns[i]], &r->msg, body, &r->stats, err);
        if (rc < 0)
            return rc;
    }
    return STEP_ON;
}

static void count_batch(struct ctr_reader *r)
{
    r->rows += r->msg.rows;
    r->stream_rows += r->msg.rows;
    r->file_rows += r->msg.rows;
    r->stream_batches++;
    r->file_batches++;
    r->stats.rows += r->msg.rows;
    r->stats.batches++;
}

static bool is_trailer(const struct ctr_reader *r)
{
    return r->sealed && (r->msg.trailer_rows >= 0 || r->msg.trailer_batches >= 0);
}

/* Read the next message of a stream. STEP_BATCH: a decoded batch; STEP_ON: another message; STEP_END: the end mark. */
static int fetch_message(struct ctr_reader *r, struct ctr_err *err)
{
    int rc = read_message(r, err);
    return rc != STEP_ON || r->msg.type != ARROW_BATCH || is_trailer(r)
               ? rc
               : decode_batch(r, r->body[r->at].data, false, err);
}

/* Process the message that was read. */
static int stream_step(struct ctr_reader *r, int fetched, struct ctr_err *err)
{
    int rc;
    if (fetched == STEP_BATCH) {
        count_batch(r);
        return STEP_BATCH;
    }
    if (fetched == STEP_END) {
        rc = end_stream(r, err);
        return rc < 0 ? rc : STEP_ON;
    }
    if (r->msg.type == ARROW_DICTIONARY)
        return take_dictionary(r, r->body[r->at].data, err);
    if (r->msg.type != ARROW_BATCH)
        return ctr_fail(err, CTR_EDATA, "a schema comes in the middle of a stream");
    rc = check_trailer(r, err);
    if (rc >= 0)
        rc = decode_batch(r, r->body[r->at].data, false, err);
    return rc < 0 ? rc : STEP_ON;
}

/* Read the next block of a mapped file. STEP_BATCH: decoded; STEP_ON: it belongs to another part; STEP_END: no block is
 * left. */
static int fetch_block(struct ctr_reader *r, struct ctr_err *err)
{
    const uint8_t *body;
    if (r->dict_block < r->ipc.footer.ndicts || r->block == r->ipc.footer.nblocks)
        return STEP_END;
    int rc = ctr_ipcfile_message(&r->ipc, false, r->block, &r->msg, &body, &r->scratch, err);
    if (rc < 0)
        return rc;
    r->stats.messages++;
    const bool mine = r->opts.parts <= 1 || (r->block_base + (int64_t)r->block) % r->opts.parts == r->opts.part;
    r->block++;
    return mine ? decode_batch(r, body, true, err) : STEP_ON;
}

static int file_step(struct ctr_reader *r, int fetched, struct ctr_err *err)
{
    const uint8_t *body;
    if (fetched != STEP_END) {
        count_batch(r);
        if (fetched == STEP_BATCH)
            return STEP_BATCH;
        r->stats.rows -= r->msg.rows;
        r->stats.batches--;
        return STEP_ON;
    }
    if (r->dict_block < r->ipc.footer.ndicts) {
        int rc = ctr_ipcfile_message(&r->ipc, true, r->dict_block++, &r->msg, &body, &r->scratch, err);
        return rc < 0 ? rc : take_dictionary(r, body, err);
    }
    if (r->ipc.rows >= 0 && r->file_rows != r->ipc.rows)
        return ctr_fail(err, CTR_EDATA, "the trailer tells of %lld rows, but %lld came", (long long)r->ipc.rows,
                        (long long)r->file_rows);
    r->block_base += (int64_t)r->block;
    r->in_stream = false;
    return STEP_ON;
}

static int fetch(struct ctr_reader *r, struct ctr_err *err)
{
    return r->ipc_open ? fetch_block(r, err) : fetch_message(r, err);
}

/* Each step reads one message or block (fetch, which a thread may do), then acts on it (stream_step, file_step). With
 * `|` between calls of ctr_reader_next, and sections "model" and "rows" in one file of a bundle, the steps are:
 *
 *     schema of model   next_stream  begins a stream; ctr_reader_enter adopts it as the section
 *     batch           | STEP_BATCH   counted, decoded, returned
 *     dictionary        STEP_ON      an entry of a column, kept for the batches that follow
 *     batch           | STEP_BATCH
 *     trailer           STEP_ON      rows and batches agree with those that came
 *     end mark          STEP_ON      end_stream: a sealed stream had its trailer
 *     schema of rows  | STEP_END     another section: next returns 0 until ctr_reader_section asks for it
 *
 * A second stream of the same section, or the next file, goes on where the first ended: the caller sees one sequence.
 */

/* ---- reading ahead ---- */

/* Called by the source on the thread while no input arrives. */
static bool fetch_idles(void *ctx)
{
    struct ctr_reader *r = ctx;
    atomic_store(&r->idles, true);
    return !atomic_load(&r->quit);
}

static void fetch_beside(void *ctx)
{
    struct ctr_reader *r = ctx;
    r->fetch_err = (struct ctr_err){ 0 };
    r->fetched = fetch(r, &r->fetch_err);
}

/* After returning batch[at] to the caller, hand the state to the thread. */
static void fetch_ahead(struct ctr_reader *r)
{
    const int64_t most = CTR_MIN((int64_t)AHEAD_MOST_BYTES, ctr_memory_part());
    if (!r->opts.ahead || r->stats.batches < AHEAD_BATCHES ||
        (int64_t)CTR_MIN(r->body[r->at].cap, INT64_MAX / 2) + r->data[r->at].held > most)
        return;
    if (!r->thread && !(r->thread = ctr_background_new())) {
        r->opts.ahead = false;
        return;
    }
    r->fetch_opts = r->opts;
    r->fetch_opts.idle = fetch_idles;
    r->fetch_opts.idle_ctx = r;
    r->fetch_opts.idle_ms = CTR_MIN(r->opts.idle_ms, AHEAD_LOOK_MS);
    r->src.opts = &r->fetch_opts;
    atomic_store(&r->idles, false);
    r->at = !r->at;
    r->fetching = true;
    ctr_background_run(r->thread, fetch_beside, r);
}

/* Take the state back. Meanwhile calls the caller's `idle`, until that gives up. */
static int take_fetched(struct ctr_reader *r, struct ctr_err *err)
{
    while (!ctr_background_wait(r->thread, r->opts.idle_ms))
        if (!atomic_load(&r->quit) && atomic_load(&r->idles) && !r->opts.idle(r->opts.idle_ctx))
            atomic_store(&r->quit, true);
    r->fetching = false;
    r->src.opts = &r->opts;
    if (r->fetched < 0)
        *err = r->fetch_err;
    return r->fetched;
}

/* Process one message or block. */
static int step(struct ctr_reader *r, struct ctr_err *err)
{
    int rc = r->fetching ? take_fetched(r, err) : fetch(r, err);
    return rc < 0 ? rc : r->ipc_open ? file_step(r, rc, err) : stream_step(r, rc, err);
}

/* ---- streams ---- */

static int fail_no_stream(const struct ctr_reader *r, const uint8_t *p, size_t n, struct ctr_err *err)
{
    if (!n)
        return ctr_fail(err, CTR_EDATA, "is empty, without even a schema%s",
                        r->src.from_pipe ? WRITER_FAILED : ": the program that wrote it failed or was stopped");
    if (n < 8 && !memcmp(p, "\xff\xff\xff\xff", CTR_MIN(n, 4)))
        return fail_truncated(r, err);
#define UNPACK " data, not a stream: text is read by ctr-import, a stream must be unpacked first "
    static const char *const known[][2] = {
        { "\x1f\x8b", "gzip" UNPACK "(gzip -dc)" },
        { "\x28\xb5\x2f\xfd", "zstd" UNPACK "(zstd -dc)" },
        { "\x04\x22\x4d\x18", "lz4" UNPACK "(lz4 -dc)" },
        { "PAR1", "Parquet, not a stream: ctr-import FILE.parquet makes one of it" },
        { "FEA1", "a Feather V1 file, not a stream: write it as Feather V2, which is an Arrow IPC file, as "
                  "pyarrow.feather.write_feather does" },
    };
    for (size_t i = 0; i < CTR_COUNT(known); i++)
        if (n >= strlen(known[i][0]) && !memcmp(p, known[i][0], strlen(known[i][0])))
            return ctr_fail(err, CTR_EDATA, "is %s", known[i][1]);
    if (r->file_batches)
        return ctr_fail(err, CTR_EDATA, "what follows batch %lld (row %lld), behind a whole stream, is no stream",
                        (long long)r->file_batches, (long long)r->file_rows);
    return ctr_fail(err, CTR_EDATA, "is not an Arrow stream or IPC file: text is read by ctr-import");
}

/* Do these 8 bytes start a stream of Arrow before 0.15: a size, and a table position within it? */
static bool begins_old(const uint8_t *p)
{
    const int64_t size = ctr_fb_load32(p), root = ctr_fb_load32(p + 4);
    return size >= 16 && size <= ARROW_MAX_METADATA && root >= 4 && root <= size - 4 && root % 4 == 0;
}

static void reset_stream(struct ctr_reader *r)
{
    ctr_leaves_free(&r->leaves);
    r->file_streams++;
    r->stream_rows = r->stream_batches = 0;
    r->trailer = false;
}

/* Mark the column that may hold arbitrary bytes. */
static void mark_bytes(struct ctr_reader *r)
{
    for (int i = 0; r->opts.bytes && i < r->arrow.n; i++) {
        struct arrow_field *f = &r->arrow.f[i];
        const bool binary = f->kind == ARROW_BINARY || f->kind == ARROW_LARGE_BINARY || f->kind == ARROW_BINARY_VIEW;
        f->bytes = binary && !strcmp(f->name, r->opts.bytes);
    }
}

static int begin_ipc(struct ctr_reader *r, struct ctr_err *err)
{
    reset_stream(r);
    ctr_arrow_free(&r->arrow);
    r->arrow = r->ipc.schema;
    r->ipc.schema = (struct arrow_schema){ 0 };
    mark_bytes(r);
    r->sealed = r->ipc.footer.sealed;
    int rc = ctr_leaves_make(&r->leaves, &r->arrow, &r->opts, err);
    if (rc < 0)
        return rc;
    r->in_stream = true;
    r->dict_block = 0;
    return ctr_reader_enter(r, err);
}

/* Read the schema message of a stream. */
static int begin_stream(struct ctr_reader *r, struct ctr_err *err)
{
    reset_stream(r);
    r->stream_at = r->src.offset;
    int rc = read_message(r, err);
    if (rc == CTR_EDATA && r->old &&
        strncmp(err->what, "truncated", 9)) /* the bytes were not such a stream after all */
        rc = fail_no_stream(r, r->meta.data + 4, 4, err);
    if (rc == STEP_END)
        rc = ctr_fail(err, CTR_EDATA, "an end mark comes where a schema is due");
    else if (rc >= 0 && r->msg.type != ARROW_SCHEMA)
        rc = ctr_fail(err, CTR_EDATA, "a stream begins without a schema");
    if (rc < 0)
        return rc;
    ctr_arrow_free(&r->arrow);
    rc = ctr_arrow_schema(&r->arrow, &r->msg.header, err);
    mark_bytes(r);
    if (rc >= 0)
        rc = ctr_leaves_make(&r->leaves, &r->arrow, &r->opts, err);
    if (rc < 0)
        return rc;
    r->in_stream = true;
    return ctr_reader_enter(r, err);
}

/* Find the next stream, in the current or the next file. STEP_END: there is none, or it is another section. */
static int next_stream(struct ctr_reader *r, struct ctr_err *err)
{
    const uint8_t *p;
    size_t n;
    int rc;
    bool fresh = false;
    for (;;) {
        if (!r->src_open) {
            rc = open_file(r, err);
            if (rc < 0)
                return rc;
            fresh = true;
            if (r->ipc_open)
                break;
        }
        n = 0;
        rc = r->ipc_open ? 0 : ctr_source_peek(&r->src, 8, &p, &n, err);
        if (rc < 0)
            return rc;
        r->old = n == 8 && begins_old(p);
        if (r->old || (n == 8 && !memcmp(p, "\xff\xff\xff\xff", 4)))
            break;
        if (n || fresh)
            return fail_no_stream(r, p, n, err);
        if ((rc = ctr_source_unchanged(&r->src, err)) < 0)
            return rc;
        if (r->file + 1 == r->npaths) {
            r->ended = true;
            return STEP_END;
        }
        close_file(r);
        r->file++;
    }
    rc = r->ipc_open ? begin_ipc(r, err) : begin_stream(r, err);
    if (rc >= 0)
        r->stats.sealed = r->sealed && (r->stats.sealed || r->stats.messages <= 1);
    return rc;
}

/* ---- the interface ---- */

/* Add the position to an error; `inside`: within a stream. */
static int located(struct ctr_reader *r, int rc, bool inside, struct ctr_err *err)
{
    char what[sizeof err->what];
    if (rc == CTR_EDATA && r->src_open && !r->opts.lenient && ctr_source_unchanged(&r->src, err) < 0)
        inside = false; /* the error explains it */
    if (rc == CTR_EDATA && inside && strncmp(err->what, "truncated", 9)) {
        memcpy(what, err->what, sizeof what);
        what[sizeof what - 80] = 0;
        ctr_fail(err, rc, "%s, in batch %lld (after row %lld)", what, (long long)r->file_batches + 1,
                 (long long)r->file_rows);
    }
    if (r->src_open)
        ctr_err_file(err, r->src.name);
    r->ended = true;
    if (rc != CTR_EDATA || !r->opts.lenient || !r->section_set)
        return rc;
    const size_t n = strlen(r->damage);
    snprintf(r->damage + n, sizeof r->damage - n, "%s%s", n ? "; " : "", ctr_err_text(err).s);
    return STEP_END;
}

/* After damage, continue with the next stream that starts in the file, or in the next file. */
static int behind_damage(struct ctr_reader *r, struct ctr_err *err)
{
    if (r->section)
        return STEP_END;
    const int64_t from = CTR_MAX(r->message_at, r->stream_at + 1);
    const int rc = r->src_open && !r->src.map ? ctr_source_resync(&r->src, from, &r->scratch, err) : 0;
    if (rc < 0 || (!rc && r->file + 1 == r->npaths))
        return rc < 0 ? rc : STEP_END;
    if (!rc) {
        close_file(r);
        r->file++;
    }
    r->ended = r->in_stream = false;
    *err = (struct ctr_err){ 0 };
    return STEP_ON;
}

static bool at_only(const struct ctr_reader *r)
{
    return r->section && !strcmp(r->section, r->opts.only);
}

/* Go to the section of opts.only, which is then read as a plain stream. */
static int find_only(struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_buf list = { 0 };
    int more = 1, rc = r->section || r->sections.n ? ctr_reader_list_sections(r, &list, err) : 0;
    bool listed = !r->sections.n;
    for (int i = 0; i < r->sections.n; i++)
        listed |= !strcmp(r->sections.s[i], r->opts.only);
    while (rc >= 0 && listed && more > 0 && !at_only(r))
        more = rc = ctr_reader_section(r, err);
    if (rc >= 0 && (!listed || !more)) {
        rc = ctr_fail(err, CTR_EUSAGE, "has no section '%s'%s%s", r->opts.only, list.len ? "; there are " : "",
                      list.len ? (char *)list.data : ": it is a plain stream");
        ctr_err_file(err, ctr_reader_file(r));
    }
    ctr_buf_free(&list);
    r->rows = r->stats.rows = 0;
    return rc < 0 ? rc : ctr_meta_set(&r->schema.meta, CTR_META_SECTIONS, NULL, err);
}

/* Read what follows the section of opts.only, to verify that the input is complete. The caller's view does not
 * change. */
static int pass_rest(struct ctr_reader *r, struct ctr_err *err)
{
    const struct ctr_reader_stats shown = r->shown;
    struct ctr_schema seen = r->schema;
    int more;
    r->schema = (struct ctr_schema){ 0 };
    r->passing = true;
    while ((more = ctr_reader_section(r, err)) > 0)
        if (at_only(r)) {
            more = ctr_fail(err, CTR_EDATA, "has section '%s' twice: give one file at a time", r->opts.only);
            ctr_err_file(err, ctr_reader_file(r));
            break;
        }
    ctr_schema_free(&r->schema);
    r->schema = seen;
    r->shown = shown;
    r->ended = true;
    return more;
}

int ctr_reader_open(struct ctr_reader **out, char *const *paths, int n, const struct ctr_reader_opts *opts,
                    struct ctr_err *err)
{
    static char *const standard_input[] = { "-" };
    struct ctr_reader *r = calloc(1, sizeof *r);
    int rc = 0;
    *out = NULL;
    if (!r)
        return ctr_fail_nomem(err, sizeof *r);
    if (opts)
        r->opts = *opts;
    if (!n) {
        paths = standard_input;
        n = 1;
    }
    r->src.fd = -1;
    r->paths = calloc((size_t)n, sizeof *r->paths);
    if (!r->paths)
        rc = ctr_fail_nomem(err, (size_t)n * sizeof *r->paths);
    for (; rc >= 0 && r->npaths < n; r->npaths++) {
        rc = ctr_strdup(&r->paths[r->npaths], paths[r->npaths], err);
        if (rc >= 0 && strcmp(paths[r->npaths], "-") && !ctr_held(paths[r->npaths]) &&
            access(paths[r->npaths], R_OK) < 0) {
            rc = ctr_fail_sys(err, "cannot open");
            ctr_err_file(err, paths[r->npaths]);
        }
    }
    r->opts.sections |= r->opts.only != NULL;
    for (int k = 0; k < 2; k++)
        r->data[k].uncharged = r->opts.sections; /* a model, whose batches have 8192 vectors */
    if (rc >= 0) {
        rc = next_stream(r, err);
        if (rc < 0)
            rc = located(r, rc, false, err);
    }
    if (rc >= 0 && r->opts.only)
        rc = find_only(r, err);
    if (rc < 0) {
        ctr_reader_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void ctr_reader_free(struct ctr_reader *r)
{
    if (!r)
        return;
    atomic_store(&r->quit, true);
    if (r->fetching)
        ctr_background_wait(r->thread, -1);
    ctr_background_free(r->thread);
    if (r->opts.note)
        ctr_reader_notes(&r->stats, r->opts.note, r->opts.note_ctx);
    close_file(r);
    for (int i = 0; r->paths && i < r->npaths; i++)
        free(r->paths[i]);
    free(r->paths);
    ctr_leaves_free(&r->leaves);
    ctr_arrow_free(&r->arrow);
    for (int k = 0; k < 2; k++) {
        ctr_data_free(&r->data[k]);
        ctr_buf_free(&r->body[k]);
        free(r->cols[k]);
    }
    ctr_part_free(&r->part);
    ctr_buf_free(&r->meta);
    ctr_buf_free(&r->mixed);
    ctr_buf_free(&r->scratch);
    ctr_schema_free(&r->full);
    ctr_schema_free(&r->schema);
    ctr_strs_free(&r->sections);
    free(r->columns);
    free(r->section);
    free(r);
}

const struct ctr_schema *ctr_reader_schema(const struct ctr_reader *r)
{
    return &r->schema;
}

/* The next rows of a batch that is handed out in parts. */
static int next_part(struct ctr_reader *r, const struct ctr_batch **b, struct ctr_err *err)
{
    const int64_t at = r->part_at, n = CTR_MIN(r->part_rows, r->whole->rows - at);
    const int rc = ctr_batch_part(&r->part, r->whole, at, n, err);
    r->part_at += n;
    if (r->part_at == r->whole->rows)
        r->whole = NULL;
    *b = &r->part.batch;
    return rc ? rc : STEP_BATCH;
}

/* With --memory: what stages make of a batch is to take a part of it, too. Parts of whole bytes of bitmaps borrow
 * them. */
static int in_parts(struct ctr_reader *r, const struct ctr_batch **b, struct ctr_err *err)
{
    const int64_t most = r->opts.sections ? INT64_MAX : ctr_memory_part();
    const int64_t bytes = most < INT64_MAX ? ctr_batch_bytes(*b) : 0;
    if (bytes <= most)
        return STEP_BATCH;
    r->whole = *b;
    r->part_at = 0;
    r->part_rows = CTR_MAX((int64_t)((double)(*b)->rows * (double)most / (double)bytes) & ~(int64_t)7, 1);
    return next_part(r, b, err);
}

int ctr_reader_next(struct ctr_reader *r, const struct ctr_batch **b, struct ctr_err *err)
{
    int rc = STEP_ON;
    bool inside = false;
    if (r->whole)
        return next_part(r, b, err);
    while (rc == STEP_ON) {
        if (r->ended || r->section_pending)
            return STEP_END;
        inside = r->in_stream;
        rc = r->in_stream ? step(r, err) : next_stream(r, err);
        if (rc < 0 && (rc = located(r, rc, inside, err)) == STEP_END)
            rc = behind_damage(r, err);
    }
    r->shown = r->stats;
    if (rc == STEP_END && r->opts.only && !r->passing && at_only(r))
        return pass_rest(r, err);
    if (rc <= 0)
        return rc;
    *b = &r->batch[r->at];
    rc = in_parts(r, b, err);
    if (rc == STEP_BATCH)
        fetch_ahead(r);
    return rc;
}

int ctr_reader_section(struct ctr_reader *r, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc;
    do
        rc = ctr_reader_next(r, &b, err);
    while (rc > 0);
    if (rc < 0)
        return rc;
    if (!r->section_pending) {
        if (!r->damage[0] && r->section_at + 1 < r->sections.n) {
            rc = ctr_fail(err, CTR_EDATA, "truncated: section '%s' is missing", r->sections.s[r->section_at + 1]);
            return located(r, rc, false, err);
        }
        return 0;
    }
    rc = ctr_reader_adopt(r, err);
    return rc < 0 ? located(r, rc, false, err) : 1;
}

int64_t ctr_reader_rows(const struct ctr_reader *r)
{
    return r->shown.rows;
}

int64_t ctr_reader_total_rows(const struct ctr_reader *r)
{
    return r->npaths == 1 && r->ipc_open ? r->ipc.rows : -1;
}

const char *ctr_reader_file(const struct ctr_reader *r)
{
    return strcmp(r->paths[r->file], "-") ? r->paths[r->file] : "stdin";
}

const char *ctr_reader_damage(const struct ctr_reader *r)
{
    return r->damage[0] ? r->damage : NULL;
}

const char *ctr_reader_mixed(const struct ctr_reader *r)
{
    return (const char *)r->mixed.data;
}

void ctr_reader_get_stats(const struct ctr_reader *r, struct ctr_reader_stats *s)
{
    *s = r->shown;
}

void ctr_reader_count_cut(struct ctr_reader_stats *s, const char *column, int64_t times, bool entries)
{
    if (times && !s->times_cut) {
        snprintf(s->times_cut_in, sizeof s->times_cut_in, "%s", column);
        s->entries_cut = entries;
    }
    *(strncmp(s->times_cut_in, column, sizeof s->times_cut_in - 1) ? &s->others_cut : &s->times_cut) += times;
}

void ctr_reader_notes(const struct ctr_reader_stats *s, void (*note)(void *ctx, const char *text), void *ctx)
{
    char text[400], more[64] = "";
    if (!s->times_cut)
        return;
    if (s->others_cut)
        snprintf(more, sizeof more, ", and so had %lld in other columns", (long long)s->others_cut);
    ctr_format(text, sizeof text, "column %s: %lld time%s%s had digits below a millisecond, which are cut off%s",
               s->times_cut_in, (long long)s->times_cut, CTR_S(s->times_cut),
               s->entries_cut ? " in dictionaries or runs" : "", more);
    note(ctx, text);
}
