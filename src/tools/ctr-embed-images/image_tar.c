/* SPDX-License-Identifier: Apache-2.0
 *
 * image_tar: reads tar archives sequentially: POSIX ustar, pax headers (path, size) and GNU's long names; sparse files
 * are recognised, not read. Invariant: between calls the input is `left` bytes of an entry, and the padding to a whole
 * block, before the next header. */
#include "tools/ctr-embed-images/embed.h"

#include <stdlib.h>

enum { BLOCK = 512, PIECE = 1 << 20, NAME_BYTES = 1 << 16 };

struct ctr_tar {
    int fd;
    struct ctr_buf head; /* bytes read before opening */
    size_t head_at;
    int64_t left, padding; /* of the last entry */
    struct ctr_buf name, next_name;
    int64_t next_size; /* pax: of the next entry, or -1 */
    bool next_sparse;  /* pax: the next entry is a sparse file */
    int64_t at;        /* in the archive, for messages */
    char why[100];
};

/* Octal digits, with blanks and zero bytes around them; or GNU's base 256; -1: neither. */
static int64_t number(const uint8_t *p, int n)
{
    int64_t v = 0;
    int i = 0;
    if (p[0] & 0x80) {
        v = p[0] & 0x3f;
        for (i = 1; i < n; i++)
            if (v > INT64_MAX >> 8)
                return -1;
            else
                v = v << 8 | p[i];
        return p[0] & 0x40 ? -1 : v;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) /* 12 digits fit */
        v = v << 3 | (p[i] - '0');
    while (i < n && (p[i] == ' ' || !p[i]))
        i++;
    return i == n ? v : -1;
}

static bool sum_fits(const uint8_t *h)
{
    int64_t sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : h[i];
    return number(h + 148, 8) == sum;
}

bool ctr_tar_is(const void *head, size_t n)
{
    return n >= BLOCK && *(const uint8_t *)head && sum_fits(head);
}

int ctr_tar_open(struct ctr_tar **out, int fd, const void *head, size_t n, struct ctr_err *err)
{
    struct ctr_tar *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return ctr_fail_nomem(err, sizeof *t);
    t->fd = fd;
    t->next_size = -1;
    int rc = ctr_buf_append(&t->head, head, n, err);
    if (rc) {
        ctr_tar_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void ctr_tar_free(struct ctr_tar *t)
{
    if (!t)
        return;
    ctr_buf_free(&t->head);
    ctr_buf_free(&t->name);
    ctr_buf_free(&t->next_name);
    free(t);
}

static int cut_short(const struct ctr_tar *t, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "the archive is truncated: it ends at byte %lld, without an end mark",
                    (long long)t->at);
}

/* Read exactly n bytes: 1, or 0 at the end of input. */
static int take(struct ctr_tar *t, void *to, size_t n, struct ctr_err *err)
{
    const size_t there = CTR_MIN(t->head.len - t->head_at, n);
    if (there)
        memcpy(to, t->head.data + t->head_at, there);
    t->head_at += there;
    t->at += (int64_t)there;
    if (there == n)
        return 1;
    ssize_t got = ctr_read_full(t->fd, (uint8_t *)to + there, n - there, err);
    if (got < 0)
        return (int)got;
    t->at += got;
    if (there + (size_t)got == n)
        return 1;
    return there + (size_t)got ? cut_short(t, err) : 0;
}

/* Append n bytes to `out`, in pieces, so that a wrong length allocates no memory. */
static int append(struct ctr_tar *t, struct ctr_buf *out, int64_t n, struct ctr_err *err)
{
    while (n > 0) {
        const size_t piece = (size_t)CTR_MIN(n, (int64_t)PIECE);
        int rc = ctr_buf_reserve(out, piece, err);
        if (!rc && (rc = take(t, out->data + out->len, piece, err)) == 0)
            rc = cut_short(t, err);
        if (rc < 0)
            return rc;
        out->len += piece;
        n -= (int64_t)piece;
    }
    return 0;
}

static int skip(struct ctr_tar *t, int64_t n, struct ctr_err *err)
{
    uint8_t piece[1 << 14];
    while (n > 0) {
        const size_t part = (size_t)CTR_MIN(n, (int64_t)sizeof piece);
        int rc = take(t, piece, part, err);
        if (rc <= 0)
            return rc ? rc : cut_short(t, err);
        n -= (int64_t)part;
    }
    return 0;
}

int ctr_tar_read(struct ctr_tar *t, struct ctr_buf *out, struct ctr_err *err)
{
    ctr_buf_clear(out);
    int rc = append(t, out, t->left, err);
    t->left = 0;
    return rc;
}

/* Records "LENGTH KEY=VALUE\n" of a pax header. */
static int read_pax(struct ctr_tar *t, const struct ctr_buf *b, struct ctr_err *err)
{
    const char *p = (const char *)b->data, *end = p + b->len;
    int rc = 0;
    while (p < end && !rc) {
        const char *blank = memchr(p, ' ', (size_t)CTR_MIN(end - p, 20));
        int64_t n;
        if (!blank || !ctr_parse_i64(p, (size_t)(blank - p), &n) || n < blank - p + 2 || n > end - p ||
            p[n - 1] != '\n')
            return ctr_fail(err, CTR_EDATA, "the pax header before byte %lld is damaged", (long long)t->at);
        const char *key = blank + 1, *stop = p + n - 1, *equals = memchr(key, '=', (size_t)(stop - key));
        if (equals && equals - key == 4 && !memcmp(key, "path", 4)) {
            ctr_buf_clear(&t->next_name);
            rc = ctr_buf_append(&t->next_name, equals + 1, (size_t)(stop - equals - 1), err);
        } else if (equals && equals - key == 4 && !memcmp(key, "size", 4)) {
            if (!ctr_parse_i64(equals + 1, (size_t)(stop - equals - 1), &t->next_size) || t->next_size < 0)
                return ctr_fail(err, CTR_EDATA, "the pax header before byte %lld is damaged", (long long)t->at);
        } else if (equals && equals - key == 15 && !memcmp(key, "GNU.sparse.name", 15)) {
            ctr_buf_clear(&t->next_name);
            rc = ctr_buf_append(&t->next_name, equals + 1, (size_t)(stop - equals - 1), err);
        }
        t->next_sparse |= equals && equals - key > 11 && !memcmp(key, "GNU.sparse.", 11);
        p += n;
    }
    return rc;
}

static size_t text_length(const uint8_t *p, size_t n)
{
    const uint8_t *end = memchr(p, 0, n);
    return end ? (size_t)(end - p) : n;
}

static int set_name(struct ctr_tar *t, const uint8_t *h, struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(&t->name);
    if (t->next_name.len) {
        rc = ctr_buf_append(&t->name, t->next_name.data, t->next_name.len, err);
    } else {
        const size_t prefix = memcmp(h + 257, "ustar\0", 6) ? 0 : text_length(h + 345, 155);
        if (prefix)
            rc = ctr_buf_append(&t->name, h + 345, prefix, err);
        if (prefix && !rc)
            rc = ctr_buf_append(&t->name, "/", 1, err);
        if (!rc)
            rc = ctr_buf_append(&t->name, h, text_length(h, 100), err);
    }
    if (!rc)
        rc = ctr_buf_append(&t->name, "", 1, err);
    ctr_buf_clear(&t->next_name);
    return rc;
}

/* Read a header that describes the next entry. */
static int read_extension(struct ctr_tar *t, char type, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc = 0;
    if (t->left > NAME_BYTES)
        return ctr_fail(err, CTR_EDATA, "a header of %lld bytes before byte %lld: at most %d are read",
                        (long long)t->left, (long long)t->at, NAME_BYTES);
    rc = ctr_tar_read(t, &b, err);
    if (!rc && type == 'x')
        rc = read_pax(t, &b, err);
    if (!rc && type == 'L') {
        ctr_buf_clear(&t->next_name);
        rc = ctr_buf_append(&t->next_name, b.data, text_length(b.data, b.len), err);
    }
    ctr_buf_free(&b);
    return rc;
}

/* The map of a sparse file that GNU tar writes goes on in blocks behind the header. */
static int skip_sparse_map(struct ctr_tar *t, const uint8_t *h, struct ctr_err *err)
{
    uint8_t block[BLOCK];
    bool more = h[482];
    int rc = 1;
    while (more && (rc = take(t, block, BLOCK, err)) > 0)
        more = block[504];
    return rc ? CTR_MIN(rc, 0) : cut_short(t, err);
}

/* Types of entries; others than these have contents that are not those of a file, as far as is known here. */
static const struct {
    const char *types;
    bool regular;
    const char *why;
} kinds[] = {
    { "07", true, NULL },
    { "5DV", false, NULL }, /* directories, GNU's too; the label of a volume */
    { "1", false, "is a hard link, whose contents are under another name: archive with tar --hard-dereference" },
    { "2", false, "is a symbolic link, without contents: archive with tar --dereference" },
    { "346", false, "is a device or a FIFO, without contents" },
    { "S", false, "is a sparse file: archive without tar --sparse" },
    { "M", false, "begins in another volume of the archive: join them by tar --multi-volume" },
};

static void describe(struct ctr_tar *t, char type, struct ctr_tar_entry *e)
{
    const size_t n = t->name.len - 1;
    *e = (struct ctr_tar_entry){ .name = (const char *)t->name.data, .bytes = t->left };
    const char sought = (char)(t->next_sparse ? 'S' : type ? type : '0');
    for (size_t i = 0; i < CTR_COUNT(kinds); i++)
        if (strchr(kinds[i].types, sought)) {
            e->regular = kinds[i].regular && n && e->name[n - 1] != '/';
            e->why = kinds[i].why;
            return;
        }
    ctr_format(t->why, sizeof t->why, "is an entry of type %d, which is not read", (unsigned char)type);
    e->why = t->why;
}

int ctr_tar_next(struct ctr_tar *t, struct ctr_tar_entry *e, struct ctr_err *err)
{
    uint8_t h[BLOCK];
    for (;;) {
        int rc = skip(t, t->left + t->padding, err);
        t->left = t->padding = 0;
        if (!rc && (rc = take(t, h, BLOCK, err)) == 0)
            rc = cut_short(t, err);
        if (rc < 0)
            return rc;
        if (!h[0] && !memcmp(h, h + 1, BLOCK - 1))
            return 0;
        const int64_t size = number(h + 124, 12);
        if (!sum_fits(h) || size < 0)
            return ctr_fail(err, CTR_EDATA, "the header before byte %lld is no header of tar, or damaged",
                            (long long)t->at);
        const char type = (char)h[156];
        const bool links = type >= '1' && type <= '6'; /* links, devices, directories: no contents */
        t->left = links ? 0 : t->next_size >= 0 && type != 'x' && type != 'L' ? t->next_size : size;
        t->padding = t->left % BLOCK ? BLOCK - t->left % BLOCK : 0;
        if (type == 'x' || type == 'L' || type == 'K' || type == 'g') {
            rc = read_extension(t, type, err);
            if (rc)
                return rc;
            continue;
        }
        t->next_size = -1;
        rc = set_name(t, h, err);
        if (rc)
            return rc;
        describe(t, type, e);
        t->next_sparse = false;
        return type == 'S' && (rc = skip_sparse_map(t, h, err)) ? rc : 1;
    }
}
