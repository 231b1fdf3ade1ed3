/* SPDX-License-Identifier: Apache-2.0
 *
 * image_source: returns images one by one from files, archives, or a column of a stream. */
#include "tools/ctr-embed-images/embed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 512, PIECE = 1 << 20, MOST_BYTES = 1 << 30 };

struct ctr_image_source {
    struct ctr_image_source_opts opts;
    char *const *paths;
    int n, at; /* paths, the next */
    int fd;
    struct ctr_tar *tar; /* of the path before `at`, or NULL */
    struct ctr_file_state opened;
    struct ctr_reader *reader;
    const struct ctr_batch *batch;
    int64_t row;
    int columns[2]; /* key, bytes: after projection */
    struct ctr_field key;
    struct ctr_buf bytes, name, text;
    char why[300];
};

static char *const only_stdin[] = { (char *)"-" };

/* ---- streams ---- */

static int open_stream(struct ctr_image_source *s, struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .bytes = s->opts.column };
    int rc = ctr_reader_open(&s->reader, s->paths, s->n, &ro, err);
    if (rc)
        return rc;
    const struct ctr_schema *schema = ctr_reader_schema(s->reader);
    int bytes = ctr_schema_need(schema, s->opts.column, err);
    if (bytes < 0)
        return bytes;
    int key;
    if ((rc = ctr_schema_find_role(schema, CTR_ROLE_ID, s->opts.key, true, &key, err)))
        return rc;
    char type[64];
    const struct ctr_field *f = &schema->f[key];
    if (f->type != CTR_UTF8 && !ctr_types[f->type].integer)
        return ctr_fail(err, CTR_EUSAGE, "column %s is %s: keys are utf8 or integers", f->name,
                        ctr_field_type_name(f, type, sizeof type));
    if (schema->f[bytes].type != CTR_UTF8 || bytes == key)
        return ctr_fail(err, CTR_EUSAGE, "column %s is %s: images are a column of binary", s->opts.column,
                        ctr_field_type_name(&schema->f[bytes], type, sizeof type));
    s->key = (struct ctr_field){ .type = f->type };
    rc = ctr_strdup(&s->key.name, f->name, err);
    if (rc)
        return rc;
    const int wanted[2] = { key, bytes };
    return ctr_reader_project(s->reader, wanted, 2, err);
}

static int next_row(struct ctr_image_source *s, struct ctr_image_item *item, struct ctr_err *err)
{
    while (!s->batch || s->row == s->batch->rows) {
        int rc = ctr_reader_next(s->reader, &s->batch, err);
        if (rc <= 0)
            return rc;
        s->row = 0;
    }
    const struct ctr_col *key = &s->batch->col[0], *bytes = &s->batch->col[1];
    const int64_t row = s->row++;
    ctr_buf_clear(&s->text);
    ctr_buf_clear(&s->name);
    if (ctr_col_missing(key, row))
        return ctr_fail(err, CTR_EDATA, "row %lld: column %s: a key is null",
                        (long long)(s->batch->first_row + row + 1), s->key.name);
    int rc = ctr_col_text(key, row, &s->text, err);
    if (!rc)
        rc = ctr_buf_append(&s->text, "", 1, err);
    if (!rc)
        rc = ctr_buf_printf(&s->name, err, "row %lld (%s %s)", (long long)(s->batch->first_row + row + 1), s->key.name,
                            (const char *)s->text.data);
    if (rc)
        return rc;
    *item = (struct ctr_image_item){ .key = (const char *)s->text.data, .name = (const char *)s->name.data };
    if (ctr_col_missing(bytes, row)) {
        item->why = "is null";
        return 1;
    }
    const struct ctr_str v = ctr_col_str(bytes, row);
    item->bytes = (const uint8_t *)v.p;
    item->n = v.n;
    return 1;
}

/* ---- files and archives ---- */

/* The key from a name: its stem. */
static int set_key(struct ctr_image_source *s, struct ctr_image_item *item, struct ctr_err *err)
{
    const char *slash = strrchr(item->name, '/'), *base = slash ? slash + 1 : item->name, *dot = strrchr(base, '.');
    const size_t n = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    int64_t v;

    ctr_buf_clear(&s->text);
    if (!ctr_utf8_valid((const uint8_t *)base, n))
        return ctr_fail(err, CTR_EDATA, "%s: the name is not UTF-8, and is the key", item->name);
    if (s->opts.integer_keys && !ctr_parse_i64(base, n, &v))
        return ctr_fail(err, CTR_EDATA, "%s: the stem of the name is no int64, as --key-type wants it", item->name);
    int rc = s->opts.integer_keys ? ctr_buf_printf(&s->text, err, "%lld", (long long)v)
                                  : ctr_buf_append(&s->text, base, n, err);
    if (!rc)
        rc = ctr_buf_append(&s->text, "", 1, err);
    item->key = (const char *)s->text.data;
    return rc;
}

/* Compressed archives, by their first bytes. They are refused whatever --bad-images says, because they may hold many
 * images; nothing in an archive is looked at like this. */
static const struct {
    const char *magic, *what, *unpack;
} packed[] = {
    { "\x1f\x8b", "gzip data", "gzip -dc" },       { "\x28\xb5\x2f\xfd", "zstd data", "zstd -dc" },
    { "\xfd\x37zXZ", "xz data", "xz -dc" },        { "BZh", "bzip2 data", "bzip2 -dc" },
    { "\x04\x22\x4d\x18", "LZ4 data", "lz4 -dc" },
};

static int refuse_packed(const struct ctr_image_source *s, const char *name, struct ctr_err *err)
{
    for (size_t i = 0; i < CTR_COUNT(packed); i++)
        if (s->bytes.len >= strlen(packed[i].magic) && !memcmp(s->bytes.data, packed[i].magic, strlen(packed[i].magic)))
            return ctr_fail(err, CTR_EUSAGE,
                            "%s is %s, not an image or a tar archive; unpack it first: %s FILE | ctr-embed-images …",
                            name, packed[i].what, packed[i].unpack);
    if (s->bytes.len >= 4 && !memcmp(s->bytes.data, "PK\3\4", 4))
        return ctr_fail(err, CTR_EUSAGE,
                        "%s is a zip archive, not an image or a tar archive; unpack it first: unzip FILE", name);
    return 0;
}

/* An image that cannot be opened is an error of that image; a disk that cannot be read is not. */
static int unreadable(struct ctr_image_source *s, struct ctr_image_item *item, int error)
{
    ctr_format(s->why, sizeof s->why, "cannot be read: %s", strerror(error));
    item->why = s->why;
    return 1;
}

/* Is the whole PNG there? Then what follows its end is left out. *at: the chunk that was reached before. */
static bool png_ended(struct ctr_buf *b, size_t *at)
{
    enum { SIGNATURE = 8, AROUND = 12 /* length, type and checksum */ };
    if (b->len < SIGNATURE || memcmp(b->data, "\x89PNG\r\n\x1a\n", SIGNATURE) != 0)
        return false;
    for (*at = CTR_MAX(*at, (size_t)SIGNATURE); *at + AROUND <= b->len;) {
        const uint8_t *p = b->data + *at;
        const bool last = !memcmp(p + 4, "IEND", 4);
        const size_t next = *at + AROUND + ((size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
        if (last && next <= b->len)
            b->len = next;
        if (last || next > b->len)
            return last && next == b->len;
        *at = next;
    }
    return false;
}

static int read_rest(struct ctr_image_source *s, struct ctr_image_item *item, struct ctr_err *err)
{
    size_t at = 0;
    while (!png_ended(&s->bytes, &at)) {
        int rc = ctr_buf_reserve(&s->bytes, PIECE, err);
        if (rc)
            return rc;
        ssize_t got = ctr_read_full(s->fd, s->bytes.data + s->bytes.len, PIECE, err);
        if (got < 0) {
            ctr_err_file(err, item->name);
            return (int)got;
        }
        s->bytes.len += (size_t)got;
        if (got < PIECE)
            break;
        if (s->bytes.len > MOST_BYTES) {
            item->why = "has more than 1 GiB";
            return 1;
        }
    }
    item->bytes = s->bytes.data;
    item->n = s->bytes.len;
    return 1;
}

static void close_file(struct ctr_image_source *s)
{
    ctr_tar_free(s->tar);
    s->tar = NULL;
    if (s->fd > 0)
        close(s->fd);
    s->fd = -1;
}

/* Open the next path: 1 and an image, or 0 and s->tar. */
static int open_path(struct ctr_image_source *s, struct ctr_image_item *item, struct ctr_err *err)
{
    const char *path = s->paths[s->at++];
    const bool standard = !strcmp(path, "-");
    struct stat st;

    item->name = standard ? "stdin" : path;
    s->fd = standard ? 0 : ctr_open(path, O_RDONLY, 0);
    if (s->fd < 0 &&
        (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP || errno == ENAMETOOLONG))
        return unreadable(s, item, errno);
    if (s->fd < 0)
        return ctr_fail_sys(err, "cannot open %s", path);
    if (!fstat(s->fd, &st) && S_ISDIR(st.st_mode))
        return unreadable(s, item, EISDIR);
    ctr_buf_clear(&s->bytes);
    int rc = ctr_file_look(s->fd, standard ? NULL : path, &s->opened, err);
    if (!rc)
        rc = ctr_buf_reserve(&s->bytes, HEAD_BYTES, err);
    if (rc)
        return rc;
    const ssize_t got = ctr_read_full(s->fd, s->bytes.data, HEAD_BYTES, err);
    if (got < 0) {
        ctr_err_file(err, item->name);
        return (int)got;
    }
    s->bytes.len = (size_t)got;
    if (ctr_tar_is(s->bytes.data, s->bytes.len))
        return ctr_tar_open(&s->tar, s->fd, s->bytes.data, s->bytes.len, err);
    if (got >= 6 && (!memcmp(s->bytes.data, "\xff\xff\xff\xff", 4) || !memcmp(s->bytes.data, "ARROW1", 6)))
        return ctr_fail(err, CTR_EUSAGE, "%s is a record stream: --column names its column of images", item->name);
    rc = refuse_packed(s, item->name, err);
    if (rc)
        return rc;
    return got < HEAD_BYTES ? (item->bytes = s->bytes.data, item->n = s->bytes.len, 1) : read_rest(s, item, err);
}

static int next_entry(struct ctr_image_source *s, struct ctr_image_item *item, struct ctr_err *err)
{
    struct ctr_tar_entry e;
    int rc;
    while ((rc = ctr_tar_next(s->tar, &e, err)) > 0) {
        if (!e.regular && !e.why)
            continue;
        ctr_buf_clear(&s->name);
        rc = ctr_buf_append(&s->name, e.name, strlen(e.name) + 1, err);
        item->name = (const char *)s->name.data;
        if (rc)
            return rc;
        item->why = e.why ? e.why : e.bytes > MOST_BYTES ? "has more than 1 GiB" : NULL;
        if (item->why)
            return 1;
        rc = ctr_tar_read(s->tar, &s->bytes, err);
        item->bytes = s->bytes.data ? s->bytes.data : (const uint8_t *)"";
        item->n = s->bytes.len;
        return rc ? rc : 1;
    }
    return rc;
}

static int next_file(struct ctr_image_source *s, struct ctr_image_item *item, struct ctr_err *err)
{
    int rc = 0;
    while (!rc) {
        *item = (struct ctr_image_item){ 0 };
        if (s->tar) {
            rc = next_entry(s, item, err);
            if (!rc)
                rc = ctr_file_unchanged(s->fd, &s->opened, err);
            if (rc < 0)
                ctr_err_file(err, s->paths[s->at - 1]);
            if (rc)
                break;
        }
        close_file(s);
        if (s->at == s->n)
            return 0;
        rc = open_path(s, item, err);
        if (rc && !s->tar)
            close_file(s);
    }
    return rc < 0 ? rc : (rc = set_key(s, item, err)) ? rc : 1;
}

/* ---- both ---- */

int ctr_image_source_open(struct ctr_image_source **out, char *const *paths, int n,
                          const struct ctr_image_source_opts *opts, struct ctr_err *err)
{
    struct ctr_image_source *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->opts = *opts;
    s->paths = n ? paths : only_stdin;
    s->n = n ? n : 1;
    s->fd = -1;
    int rc = 0;
    if (opts->column) {
        rc = open_stream(s, err);
    } else {
        s->key.type = opts->integer_keys ? CTR_I64 : CTR_UTF8;
        rc = ctr_strdup(&s->key.name, "key", err);
    }
    if (rc) {
        ctr_image_source_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

int ctr_image_source_next(struct ctr_image_source *s, struct ctr_image_item *item, struct ctr_err *err)
{
    return s->reader ? next_row(s, item, err) : next_file(s, item, err);
}

const struct ctr_field *ctr_image_source_key(const struct ctr_image_source *s)
{
    return &s->key;
}

void ctr_image_source_free(struct ctr_image_source *s)
{
    if (!s)
        return;
    close_file(s);
    ctr_reader_free(s->reader);
    ctr_buf_free(&s->bytes);
    ctr_buf_free(&s->name);
    ctr_buf_free(&s->text);
    free(s->key.name);
    free(s);
}
