/* SPDX-License-Identifier: Apache-2.0
 *
 * lines: reads files and pipes, compressed or not, as blocks of complete records. Invariants: block boundaries depend
 * only on the bytes (except with idle_ms), a block ends with '\n', line numbers count physical lines, and CTR_PAD bytes
 * past a block are readable. A read error is reported after all records before it, for any block size. A record beyond
 * CTR_RECORD_BYTES is returned in parts, up to the first newline after that size.
 */
#include "common/text/text.h"
#include "common/text/unpack.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef RAW_BYTES /* fuzzing uses fewer */
#define RAW_BYTES ((size_t)256 << 10)
#endif

struct ctr_lines {
    struct ctr_strs paths;
    struct ctr_lines_opts o;
    size_t block_bytes;
    /* blocks */
    struct ctr_buf *slot;
    int slots, next_slot;
    int carry_slot; /* bytes read beyond the last block are in its buffer */
    size_t carry_at, carry_n;
    bool sampled; /* the first block was returned, or needs no sample */
    bool owed;    /* records were returned since the last pause: the next pause is reported even without records */
    /* the file */
    int file, fd; /* index of the open file; fd -1: none is open */
    bool eof, start, pollable;
    struct ctr_file_state opened;
    bool looked;      /* at its first bytes */
    bool headed;      /* what comes before the records was dropped: --skip-lines, sep=, comments */
    bool dropping;    /* … up to the next newline */
    int64_t comments; /* lines dropped so */
    int64_t skip;     /* lines still to be dropped */
    char sep[2];      /* delimiter that the first line of a file set, or "" */
    bool bom_seen;    /* checked for a byte order mark */
    int64_t line;
    uint8_t *raw; /* bytes read but not yet decoded */
    size_t raw_at, raw_n;
    struct ctr_unpack *unpack; /* NULL: plain text */
    bool packed;               /* a file was not */
    bool more_inside;          /* it may hold bytes, although it has received all input */
    /* state of the block being filled */
    size_t at, record, end; /* examined so far; start of the current record; end of the last whole one */
    size_t cell;            /* start of the current cell, behind its blanks with --trim; only for scan_dialect */
    size_t quote, resume;   /* an open quote (SIZE_MAX: none), and the position up to which its end was searched */
    int64_t records;
    enum ctr_text_part part; /* of the data at the front of the buffer */
    int failed;              /* the error to return after the records before it */
    struct ctr_err why;
};

int64_t ctr_count_byte(const char *p, size_t n, char c)
{
    typedef uint8_t v16 __attribute__((vector_size(16)));
    int64_t total = 0;
    size_t i = 0;
    v16 want;
    memset(&want, c, sizeof want);
    while (n - i >= 16) {
        v16 sums = { 0 };
        for (int k = 0; k < 255 && n - i >= 16; k++, i += 16) {
            v16 x;
            memcpy(&x, p + i, 16);
            sums -= (v16)(x == want);
        }
        for (int k = 0; k < 16; k++)
            total += sums[k];
    }
    for (; i < n; i++)
        total += p[i] == c;
    return total;
}

int ctr_lines_open(struct ctr_lines **out, char *const *paths, int n, const struct ctr_lines_opts *o,
                   struct ctr_err *err)
{
    struct ctr_lines *l = calloc(1, sizeof *l);
    int rc = 0;
    *out = NULL;
    if (!l)
        return ctr_fail_nomem(err, sizeof *l);
    l->o = *o;
    l->block_bytes = o->block_bytes ? o->block_bytes : CTR_BLOCK_BYTES;
    l->fd = l->file = -1;
    l->sampled = o->no_sample;
    l->raw = malloc(RAW_BYTES);
    if (!l->raw)
        rc = ctr_fail_nomem(err, RAW_BYTES);
    for (int i = 0; !rc && i < n; i++)
        rc = ctr_strs_add(&l->paths, paths[i], strlen(paths[i]), err);
    if (!rc && !n)
        rc = ctr_strs_add(&l->paths, "-", 1, err);
    if (!rc)
        rc = ctr_lines_slots(l, 1, err);
    if (rc) {
        ctr_lines_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

int ctr_lines_slots(struct ctr_lines *l, int slots, struct ctr_err *err)
{
    struct ctr_buf *p = realloc(l->slot, (size_t)slots * sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, (size_t)slots * sizeof *p);
    for (int i = l->slots; i < slots; i++)
        p[i] = (struct ctr_buf){ 0 };
    l->slot = p;
    l->slots = CTR_MAX(slots, l->slots);
    return 0;
}

static void close_file(struct ctr_lines *l)
{
    if (l->fd > STDIN_FILENO)
        close(l->fd);
    l->fd = -1;
    ctr_unpack_free(l->unpack);
    l->unpack = NULL;
}

void ctr_lines_free(struct ctr_lines *l)
{
    if (!l)
        return;
    close_file(l);
    for (int i = 0; i < l->slots; i++)
        ctr_buf_free(&l->slot[i]);
    free(l->slot);
    free(l->raw);
    ctr_strs_free(&l->paths);
    free(l);
}

/* Bytes of a file pass through at most three stages: read -> unpack (gzip, zstd, …) -> recode (latin1). A block ends at
 * the last newline outside of quotes; what was read beyond it is carried to the next slot's start. With quotes:
 *
 *     block 1 (target size reached within a quoted cell)      block 2
 *     a,1\n  b,"x\n  y"                                      b,"x\n y",2\n  c,3\n
 *     ^ end of the last whole record; the rest is carried ->  ^ read on from where the scan stopped (resume)
 *
 * The scan remembers an open quote, so no byte is examined twice. Slots are used in turn, so a block stays valid while
 * `slots` - 1 further ones are read: that many threads may parse at once. */

/* ---- one file ---- */

static const char *file_name(const struct ctr_lines *l)
{
    const char *path = l->paths.s[l->file];
    return strcmp(path, "-") ? path : "stdin";
}

static int named(const struct ctr_lines *l, int rc, struct ctr_err *err)
{
    if (rc)
        ctr_err_file(err, file_name(l));
    return rc;
}

/* Read some bytes, at least one unless the file ends or is unreadable. */
static int read_some(struct ctr_lines *l, void *p, size_t room, size_t *got, struct ctr_err *err)
{
    ssize_t n;
    *got = 0;
    do
        n = read(l->fd, p, CTR_MIN(room, (size_t)1 << 30));
    while (n < 0 && ctr_again(l->fd, POLLIN));
    if (n < 0) {
        ctr_err_file(err, file_name(l));
        return ctr_fail_sys(err, "read failed");
    }
    *got = (size_t)n;
    return 0;
}

static int open_file(struct ctr_lines *l, struct ctr_err *err)
{
    const char *path = l->paths.s[l->file];
    const bool is_stdin = !strcmp(path, "-");
    int rc = 0;
    if (ctr_held(path))
        rc = l->fd = ctr_open_input(path, O_RDONLY, err);
    else if ((l->fd = is_stdin ? STDIN_FILENO : ctr_open(path, O_RDONLY, 0)) < 0)
        rc = ctr_fail_sys(err, "cannot be opened");
    if (rc >= 0)
        rc = ctr_file_look(l->fd, is_stdin ? NULL : path, &l->opened, err);
    if (rc < 0) {
        close_file(l);
        return named(l, rc, err);
    }
    l->pollable = !l->opened.regular;
    l->eof = l->more_inside = l->looked = l->headed = l->dropping = false;
    l->skip = l->o.skip_lines;
    l->start = true;
    l->bom_seen = l->o.latin1;
    l->line = 1;
    l->raw_at = l->raw_n = 0;
    return 0;
}

/* Is the file compressed? Compressed data have no newline so early, so a complete line is not held back for this
 * check. */
static int look_at_file(struct ctr_lines *l, struct ctr_err *err)
{
    l->looked = true;
    while (l->raw_n < 10 && !memchr(l->raw, '\n', l->raw_n)) {
        size_t got;
        int rc = read_some(l, l->raw + l->raw_n, RAW_BYTES - l->raw_n, &got, err);
        if (rc)
            return rc;
        if (!got)
            break;
        l->raw_n += got;
    }
    if (!l->raw_n && l->paths.s[l->file][ctr_text_unpacked_length(l->paths.s[l->file])])
        return named(l, ctr_fail(err, CTR_EDATA, "truncated: packed by its name, and without a byte"), err);
    const int rc = ctr_unpack_open(&l->unpack, l->raw, l->raw_n, err);
    l->packed |= l->unpack != NULL;
    if (rc == CTR_EKIND)
        ctr_err_add(err, " | %s", l->o.in_plan ? "… VIEW=-" : "ctr-import …");
    return named(l, rc, err);
}

static int unpack_some(struct ctr_lines *l, uint8_t *p, size_t room, size_t *got, struct ctr_err *err)
{
    *got = 0;
    while (!*got) {
        if (l->raw_at == l->raw_n && !l->more_inside) {
            int rc = read_some(l, l->raw, RAW_BYTES, &l->raw_n, err);
            l->raw_at = 0;
            if (rc)
                return rc;
            if (!l->raw_n) {
                rc = ctr_unpack_end(l->unpack, err);
                l->eof = !rc;
                return named(l, rc, err);
            }
        }
        struct ctr_unpack_io io = { .in = l->raw + l->raw_at, .n = l->raw_n - l->raw_at, .out = p, .room = room };
        int rc = ctr_unpack_some(l->unpack, &io, err);
        *got = io.got;
        if (rc)
            return named(l, rc, err);
        l->raw_at += io.used;
        l->more_inside = *got == room;
    }
    return 0;
}

/* Read bytes of the uncompressed file, before any conversion of encoding. */
static int decode_some(struct ctr_lines *l, uint8_t *p, size_t room, size_t *got, struct ctr_err *err)
{
    if (l->unpack)
        return unpack_some(l, p, room, got, err);
    if (l->raw_at < l->raw_n) {
        *got = CTR_MIN(room, l->raw_n - l->raw_at);
        memcpy(p, l->raw + l->raw_at, *got);
        l->raw_at += *got;
        return 0;
    }
    int rc = read_some(l, p, room, got, err);
    if (!rc && !*got)
        l->eof = true;
    return rc;
}

/* Append to `b`, up to `upto` bytes in total; also appends what came before an error. */
static int fill_some(struct ctr_lines *l, struct ctr_buf *b, size_t upto, struct ctr_err *err)
{
    size_t room = upto - b->len, got;
    int rc =
        ctr_buf_reserve(b, room + 2, err); /* extra room for a missing newline, and for a last byte that becomes two */
    if (rc)
        return rc;
    if (!l->o.latin1) {
        rc = decode_some(l, b->data + b->len, room, &got, err);
        b->len += got;
        return rc;
    }
    uint8_t part[16 << 10];
    rc = decode_some(l, part, CTR_MIN(sizeof part, (room + 1) / 2), &got, err);
    uint8_t *to = b->data + b->len;
    for (size_t i = 0; i < got; i++) {
        if (part[i] < 0x80) {
            *to++ = part[i];
        } else {
            *to++ = (uint8_t)(0xc0 | part[i] >> 6);
            *to++ = (uint8_t)(0x80 | (part[i] & 0x3f));
        }
    }
    b->len = (size_t)(to - b->data);
    return rc;
}

/* ---- records ---- */

static void record_ends(struct ctr_lines *l, size_t end)
{
    l->record = l->end = end;
}

/* Find the end of the quote opened at l->quote, and continue after it. false: more bytes are needed. A quote not closed
 * before the end of the file, or within CTR_RECORD_BYTES, makes only its line bad. */
static bool pass_quote(struct ctr_lines *l, const char *p, size_t n)
{
    size_t limit = CTR_MIN(n, l->record + CTR_RECORD_BYTES);
    while (l->resume < limit) {
        const char *q = memchr(p + l->resume, '"', limit - l->resume);
        if (!q) {
            l->resume = limit;
            break;
        }
        size_t at = (size_t)(q - p);
        if (at + 1 == n) { /* not at the end of a file, where a newline follows */
            l->resume = at;
            return false;
        }
        if (p[at + 1] == '"') {
            l->resume = at + 2;
            continue;
        }
        l->at = at + 1;
        l->quote = SIZE_MAX;
        return true;
    }
    if (!l->eof && n < l->record + CTR_RECORD_BYTES)
        return false;
    const char *nl = memchr(p + l->quote, '\n', n - l->quote);
    if (!nl)
        return false;
    record_ends(l, (size_t)(nl - p) + 1);
    l->at = l->end;
    l->records++;
    l->quote = SIZE_MAX;
    return true;
}

/* Count the newlines of [l->at, to), none of which is quoted. */
static void pass_plain(struct ctr_lines *l, const char *p, size_t to)
{
    const char *nl = to > l->at ? memrchr(p + l->at, '\n', to - l->at) : NULL;
    if (nl) {
        if (!l->sampled)
            l->records += ctr_count_byte(p + l->at, (size_t)(nl - p) + 1 - l->at, '\n');
        record_ends(l, (size_t)(nl - p) + 1);
    }
    l->at = to;
}

/* ---- the same with comments, escapes and blanks around cells: byte by byte ---- */

/* Does the record at p, with n bytes so far, begin with the comment's text? -1: more bytes are needed. */
static int is_comment(const struct ctr_lines *l, const char *p, size_t n)
{
    const size_t k = l->o.comment ? strlen(l->o.comment) : 0;
    if (!k || memcmp(p, l->o.comment, CTR_MIN(k, n)) != 0)
        return 0;
    return n >= k ? 1 : l->eof ? 0 : -1;
}

/* Pass a comment at the start of a record: 1; 0: it is none; -1: more bytes are needed. */
static int pass_comment(struct ctr_lines *l, const char *p, size_t n)
{
    const int comment = is_comment(l, p + l->at, n - l->at);
    const char *nl = comment > 0 ? memchr(p + l->at, '\n', n - l->at) : NULL;
    if (comment <= 0 || !nl)
        return -(comment != 0);
    record_ends(l, (size_t)(nl - p) + 1);
    l->at = l->cell = l->end;
    return 1;
}

/* Pass one byte outside of quotes. */
static void pass_byte(struct ctr_lines *l, const char *p)
{
    const char c = p[l->at], *d = l->o.delimiter;
    if (c == '\n') {
        record_ends(l, l->at + 1);
        l->records++;
        l->cell = l->at + 1;
    } else if (d && c == *d) {
        l->cell = l->at + 1;
    } else if (d && c == '"' && l->at == l->cell) {
        l->quote = l->at;
    } else if (l->o.trim && l->at == l->cell && (c == ' ' || c == '\t')) {
        l->cell++;
    }
    l->at++;
}

/* 1: go on; 0: more bytes are needed. */
static int pass_dialect(struct ctr_lines *l, const char *p, size_t n)
{
    if (l->quote == SIZE_MAX && l->at == l->record) {
        const int comment = pass_comment(l, p, n);
        if (comment)
            return comment > 0;
    }
    const bool escaped = l->o.escape && p[l->at] == l->o.escape;
    const bool quote = l->quote != SIZE_MAX && p[l->at] == '"';
    if ((escaped || quote) && l->at + 1 == n)
        return 0;
    if (escaped || (quote && p[l->at + 1] == '"')) {
        l->at += 2;
    } else if (l->quote == SIZE_MAX) {
        pass_byte(l, p);
    } else {
        l->quote = quote ? SIZE_MAX : l->quote;
        l->at++;
    }
    return 1;
}

/* Find the records that end in the first n bytes. A quote that is not closed makes only its line bad, as in pass_quote;
 * at the end of the file an escape does not keep a record open. */
static void scan_dialect(struct ctr_lines *l, const char *p, size_t n)
{
    for (;;) {
        while (l->at < n && pass_dialect(l, p, n))
            ;
        if (l->quote == SIZE_MAX || !(l->eof || n >= l->record + CTR_RECORD_BYTES))
            break;
        const char *nl = memchr(p + l->quote, '\n', n - l->quote);
        if (!nl)
            return;
        record_ends(l, (size_t)(nl - p) + 1);
        l->at = l->cell = l->end;
        l->records++;
        l->quote = SIZE_MAX;
    }
    if (l->eof && l->record < n) {
        record_ends(l, n);
        l->at = n;
    }
}

/* ---- what comes before the records of a file ---- */

/* Is the line at p "sep=X", by which spreadsheets name the delimiter? Then the delimiter is set. */
static bool is_sep(struct ctr_lines *l, const char *p, size_t n)
{
    if (!l->o.sep || l->line != 1 + l->o.skip_lines || n < 6 || memcmp(p, "sep=", 4) != 0 ||
        (p[5] != '\n' && !(n > 6 && p[5] == '\r' && p[6] == '\n')) || p[4] == '"' || p[4] == '\n' || p[4] == '\r' ||
        (l->file > 0 && (!l->o.delimiter || *l->o.delimiter != p[4])))
        return false;
    l->sep[0] = p[4];
    l->o.delimiter = l->sep;
    return true;
}

/* May the line at p be one to drop, for all that its n bytes show? */
static bool is_dropped(struct ctr_lines *l, const char *p, size_t n, bool *unclear)
{
    const bool sep = l->o.sep && l->line == 1 + l->o.skip_lines;
    const int comment = l->skip ? 0 : is_comment(l, p, n);
    *unclear = !l->skip && !l->eof && (comment < 0 || (sep && n < 7 && !memchr(p, '\n', n)));
    l->comments += comment > 0;
    return l->skip || comment > 0 || (!*unclear && sep && is_sep(l, p, n));
}

/* Drop the lines of --skip-lines, "sep=X", and comments: true, if b is at the first record; false: more bytes are
 * needed. */
static bool pass_head(struct ctr_lines *l, struct ctr_buf *b)
{
    size_t at = 0;
    bool unclear = false;
    while (!l->headed && at < b->len && !unclear) {
        const char *p = (char *)b->data + at;
        const size_t n = b->len - at;
        if (!l->dropping && !(l->dropping = is_dropped(l, p, n, &unclear))) {
            l->headed = !unclear;
            continue;
        }
        const char *nl = memchr(p, '\n', n);
        at += nl ? (size_t)(nl - p) + 1 : n;
        if (!nl)
            continue;
        l->dropping = false;
        l->line++;
        l->skip -= l->skip > 0;
    }
    b->len -= at;
    memmove(b->data, b->data + at, b->len);
    return l->headed || l->eof;
}

/* Find the records that end in the first n bytes. */
static void scan(struct ctr_lines *l, const char *p, size_t n)
{
    if (l->o.escape || l->o.trim || l->o.comment) {
        scan_dialect(l, p, n);
        return;
    }
    while (l->at < n || l->quote != SIZE_MAX) {
        if (l->quote != SIZE_MAX) {
            if (!pass_quote(l, p, n))
                return;
            continue;
        }
        const char *q = l->o.delimiter ? memchr(p + l->at, '"', n - l->at) : NULL;
        if (!q) {
            pass_plain(l, p, n);
            return;
        }
        size_t at = (size_t)(q - p);
        pass_plain(l, p, at);
        l->at = at + 1;
        if (at == l->record || p[at - 1] == *l->o.delimiter) {
            l->quote = at;
            l->resume = at + 1;
        }
    }
}

/* Does the block have enough records? */
static bool full(const struct ctr_lines *l, const struct ctr_buf *b)
{
    if (l->eof)
        return true;
    if (b->len < l->block_bytes || !l->end)
        return false;
    return l->sampled || l->records >= CTR_SAMPLE_ROWS || b->len >= CTR_RECORD_BYTES;
}

static bool idle(const struct ctr_lines *l)
{
    struct pollfd f = { .fd = l->fd, .events = POLLIN };
    return l->o.idle_ms > 0 && l->pollable && (l->end ? l->sampled || l->o.early : l->owed) && l->raw_at == l->raw_n &&
           poll(&f, 1, l->o.idle_ms) == 0;
}

/* Read more of a record that is too long. */
static int fill_rest(struct ctr_lines *l, struct ctr_buf *b, struct ctr_err *err)
{
    int rc = fill_some(l, b, l->block_bytes, err);
    if (rc)
        return rc;
    if (l->eof) /* and the previous part had no newline */
        b->data[b->len++] = '\n';
    const uint8_t *nl = memchr(b->data, '\n', b->len);
    l->end = nl ? (size_t)(nl - b->data) + 1 : b->len;
    return 0;
}

/* Fill `b` with complete records and a rest, at most to the end of the file. */
static int fill_block(struct ctr_lines *l, struct ctr_buf *b, bool *was_idle, struct ctr_err *err)
{
    size_t target = CTR_MAX(l->block_bytes, b->len);
    int rc;
    l->at = l->record = l->end = l->cell = 0;
    l->quote = SIZE_MAX;
    l->records = 0;
    if ((!l->looked || l->part != CTR_TEXT_WHOLE) && (*was_idle = idle(l)))
        return 0;
    if (!l->looked && (rc = look_at_file(l, err)))
        return rc;
    if (l->part != CTR_TEXT_WHOLE)
        return fill_rest(l, b, err);
    scan(l, (char *)b->data, b->len);
    while (!full(l, b)) {
        if ((*was_idle = idle(l)))
            return 0;
        if (b->len - l->record > CTR_RECORD_BYTES) { /* what preceded it was returned first */
            l->part = CTR_TEXT_LONG;
            l->end = b->len;
            return 0;
        }
        if (b->len + 1 >= target)
            target *= 2;
        if ((rc = fill_some(l, b, CTR_MIN(target, l->record + CTR_RECORD_BYTES + 1), err)))
            return rc;
        if (!l->bom_seen) {
            if (b->len < 3 && !l->eof && !memchr(b->data, '\n', b->len))
                continue;
            l->bom_seen = true;
            const size_t mark = ctr_utf8_mark(b->data, b->len);
            if (mark) {
                b->len -= mark;
                memmove(b->data, b->data + mark, b->len);
            }
        }
        if (!l->headed && !pass_head(l, b))
            continue;
        if (l->eof && b->len && b->data[b->len - 1] != '\n') {
            if ((rc = ctr_file_unchanged(l->fd, &l->opened, err))) /* the rest of a record that another program cut */
                return named(l, rc, err);
            b->data[b->len++] = '\n';
        }
        if (l->eof || b->len >= l->block_bytes || (l->o.idle_ms > 0 && l->pollable))
            scan(l, (char *)b->data, b->len);
    }
    return 0;
}

/* What was read beyond the last block starts this one. */
static int take_carry(struct ctr_lines *l, struct ctr_buf *b, struct ctr_err *err)
{
    if (l->carry_slot != l->next_slot)
        b->len = 0;
    int rc = ctr_buf_reserve(b, CTR_MAX(l->block_bytes, l->carry_n) + 2, err);
    if (rc)
        return rc;
    if (l->carry_n)
        memmove(b->data, l->slot[l->carry_slot].data + l->carry_at, l->carry_n);
    b->len = l->carry_n;
    return 0;
}

/* Return the complete records of b, up to l->end; none: input pauses. */
static void give(struct ctr_lines *l, const struct ctr_buf *b, bool was_idle, struct ctr_text_block *out)
{
    *out = (struct ctr_text_block){ .p = (char *)b->data,
                                    .n = l->end,
                                    .file = file_name(l),
                                    .first_line = l->line,
                                    .file_start = l->start,
                                    .part = l->end ? l->part : CTR_TEXT_WHOLE,
                                    .idle = was_idle,
                                    .more = l->failed || b->len > l->end || was_idle };
    out->utf8 = l->o.latin1 || ctr_ascii((uint8_t *)out->p, out->n) || ctr_utf8_valid((uint8_t *)out->p, out->n);
    l->line += ctr_count_byte(out->p, out->n, '\n');
    l->owed = !was_idle && (l->owed || l->part == CTR_TEXT_WHOLE);
    if (l->end) {
        l->start = false;
        l->sampled |= l->part == CTR_TEXT_WHOLE;
        if (l->part != CTR_TEXT_WHOLE)
            l->part = out->p[out->n - 1] == '\n' ? CTR_TEXT_WHOLE : CTR_TEXT_LONG_REST;
    }
    l->carry_slot = l->next_slot;
    l->carry_at = l->end;
    l->carry_n = b->len - l->end;
    l->next_slot = (l->next_slot + 1) % l->slots;
}

void ctr_lines_sample(struct ctr_lines *l, const struct ctr_text_block *b)
{
    l->o.early = l->sampled = false;
    l->carry_at = 0;
    l->carry_n += b->n;
    l->next_slot = l->carry_slot;
    l->line = b->first_line;
    l->start = b->file_start;
}

int ctr_lines_next(struct ctr_lines *l, struct ctr_text_block *out, struct ctr_err *err)
{
    struct ctr_buf *b = &l->slot[l->next_slot];
    for (;;) {
        bool was_idle = false;
        int rc;
        if (l->failed) {
            *err = l->why;
            return l->failed;
        }
        if (l->fd < 0) {
            if (l->file + 1 >= l->paths.n)
                return 0;
            l->file++;
            l->carry_n = 0;
            if ((rc = open_file(l, err)))
                return rc;
        }
        if ((rc = take_carry(l, b, err)))
            return rc;
        l->failed = fill_block(l, b, &was_idle, &l->why);
        if (l->failed && l->part == CTR_TEXT_WHOLE)
            scan(l, (char *)b->data, b->len);
        const bool given = l->end > 0 || was_idle;
        if (!l->failed && l->o.no_empty && l->eof && l->start && l->line == 1 && !given)
            l->failed = named(l, ctr_fail(&l->why, CTR_EDATA, "is empty, without a byte"), &l->why);
        if (given)
            give(l, b, was_idle, out);
        if (l->eof && !l->failed)
            l->failed = named(l, ctr_file_unchanged(l->fd, &l->opened, &l->why), &l->why);
        if (l->eof)
            close_file(l);
        if (given)
            return 1;
    }
}

int64_t ctr_lines_comments(const struct ctr_lines *l)
{
    return l->comments;
}

const char *ctr_lines_sep(const struct ctr_lines *l)
{
    return l->sep;
}

bool ctr_lines_packed(const struct ctr_lines *l)
{
    return l->packed;
}
