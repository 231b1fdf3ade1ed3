/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_files: the files that a name stands for: those below a folder, in the order of the bytes of their names,
 * those that a list names, and what their folders say (Hive's partitions, NAME=VALUE). */
#include "common/parquet/parquet_impl.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 64, MAX_NAME = 8192 };

/* A folder that is being listed. */
struct listed {
    const struct listed *above;
    int depth;
    dev_t device;
    ino_t inode;
};

static int add_below(struct ctr_strs *out, const char *folder, const struct listed *above, struct ctr_err *err);

/* Of a folder: what begins with . or _ is no data for Spark, Hive and others either, but a partition that is called so.
 */
static int add_entry(struct ctr_strs *out, const char *folder, const char *name, const struct listed *in,
                     struct ctr_err *err)
{
    const size_t n = strlen(name);
    struct ctr_buf path = { 0 };
    struct stat st;
    if (*name == '.' || (*name == '_' && !strchr(name, '=')))
        return 0;
    int rc = ctr_buf_printf(&path, err, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    if (!rc)
        rc = ctr_buf_append(&path, "", 1, err);
    const bool there = !rc && !stat((const char *)path.data, &st);
    if (there && S_ISDIR(st.st_mode))
        rc = add_below(out, (const char *)path.data, in, err);
    else if (!rc && n > 8 && !strcmp(name + n - 8, ".parquet")) /* opening one that is not there says so */
        rc = ctr_strs_add(out, (const char *)path.data, path.len - 1, err);
    ctr_buf_free(&path);
    return rc;
}

/* A link to a folder above it would give its files again and again. */
static bool is_above(const struct listed *folder)
{
    for (const struct listed *f = folder->above; f; f = f->above)
        if (f->device == folder->device && f->inode == folder->inode)
            return true;
    return false;
}

static int add_below(struct ctr_strs *out, const char *folder, const struct listed *above, struct ctr_err *err)
{
    const struct dirent *e;
    struct stat st = { 0 };
    DIR *d = opendir(folder);
    int rc = d && !fstat(dirfd(d), &st) ? 0 : ctr_fail_sys(err, "cannot list it");
    const struct listed in = { above, above ? above->depth + 1 : 0, st.st_dev, st.st_ino };
    if (!rc && is_above(&in))
        rc = ctr_fail(err, CTR_EDATA, "is a link to a folder that it lies in, whose files would be read again");
    if (!rc && in.depth > MAX_DEPTH)
        rc = ctr_fail(err, CTR_EDATA, "has folders deeper than %d", MAX_DEPTH);
    if (rc)
        ctr_err_file(err, folder);
    while (!rc && (e = readdir(d)))
        rc = add_entry(out, folder, e->d_name, &in, err);
    if (d)
        closedir(d);
    return rc;
}

/* ---- lists of files ---- */

/* A line of a list: relative to the folder of the list. */
static int add_listed(struct ctr_strs *out, const char *list, const char *name, size_t n, int64_t line,
                      struct ctr_err *err)
{
    const char *slash = strrchr(list, '/');
    const size_t folder = slash && *name != '/' ? (size_t)(slash + 1 - list) : 0;
    struct ctr_buf path = { 0 };
    if (*name == '@' || (n == 1 && *name == '-')) {
        ctr_err_file(err, list);
        return ctr_fail(err, CTR_EDATA, "line %lld: %.*s is no file or folder: a file of that name is ./%.*s",
                        (long long)line, (int)n, name, (int)n, name);
    }
    int rc = ctr_buf_append(&path, list, folder, err);
    if (!rc)
        rc = ctr_buf_append(&path, name, n, err);
    if (!rc)
        rc = ctr_buf_append(&path, "", 1, err);
    if (!rc)
        rc = ctr_parquet_files(out, (const char *)path.data, err);
    ctr_buf_free(&path);
    return rc;
}

/* Bytes of a line without its end, which is \n or \r\n or that of the list; -1: it is none. */
static int64_t line_bytes(const char *text, size_t most, bool last)
{
    size_t n = strcspn(text, "\n");
    if (n + 1 >= most || (!text[n] && !last))
        return -1;
    n -= n && text[n - 1] == '\r';
    return memchr(text, '\r', n) ? -1 : (int64_t)n;
}

/* A file or folder a line; empty lines and those that begin with # are passed over. */
static int add_list(struct ctr_strs *out, const char *list, struct ctr_err *err)
{
    char text[MAX_NAME];
    const int before = out->n, fd = ctr_open_input(list, O_RDONLY, err);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    int64_t line = 0;
    int rc = f ? 0 : err->code ? err->code : ctr_fail_sys(err, "cannot open the list of files");
    while (!rc && fgets(text, sizeof text, f)) {
        const size_t mark = line++ ? 0 : ctr_utf8_mark(text, strlen(text)); /* as editors of Windows write it */
        const char *name = text + mark;
        const int64_t n = line_bytes(name, sizeof text - mark, feof(f));
        if (n < 0)
            rc = ctr_fail(err, CTR_EDATA, "line %lld is no name of a file: a list has one a line", (long long)line);
        else if (n && *name != '#')
            rc = add_listed(out, list, name, (size_t)n, line, err);
    }
    if (!rc && ferror(f))
        rc = ctr_fail_sys(err, "cannot read the list of files");
    if (!rc && out->n == before)
        rc = ctr_fail(err, CTR_EDATA, "is a list without a file: it has a name a line");
    if (rc)
        ctr_err_file(err, list);
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    return rc;
}

int ctr_parquet_files(struct ctr_strs *out, const char *path, struct ctr_err *err)
{
    struct ctr_strs below = { 0 };
    struct stat st;
    if (*path == '@')
        return add_list(out, path + 1, err);
    if (!strcmp(path, "-") || stat(path, &st) || !S_ISDIR(st.st_mode))
        return ctr_strs_add(out, path, strlen(path), err);
    int rc = add_below(&below, path, NULL, err);
    if (!rc && !below.n) {
        ctr_err_file(err, path);
        rc = ctr_fail(err, CTR_EDATA, "is a folder without a file *.parquet in it or below");
    }
    if (!rc)
        qsort(below.s, (size_t)below.n, sizeof *below.s, ctr_by_text);
    for (int i = 0; !rc && i < below.n; i++)
        rc = ctr_strs_add(out, below.s[i], strlen(below.s[i]), err);
    ctr_strs_free(&below);
    return rc;
}

/* ---- partitions ---- */

/* Without %41 and the like, which writers put for characters that a folder's name cannot have. */
static int add_decoded(struct ctr_strs *out, const char *p, size_t n, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    int rc = 0;
    for (size_t i = 0; !rc && i < n; i++) {
        const bool coded = p[i] == '%' && i + 2 < n && ctr_hex_digit(p[i + 1]) >= 0 && ctr_hex_digit(p[i + 2]) >= 0;
        const char c = coded ? (char)(ctr_hex_digit(p[i + 1]) << 4 | ctr_hex_digit(p[i + 2])) : p[i];
        rc = ctr_buf_append(&text, &c, 1, err);
        i += coded ? 2 : 0;
    }
    if (!rc && (memchr(text.data ? (const char *)text.data : "", 0, text.len) || !ctr_utf8_valid(text.data, text.len)))
        rc = ctr_fail(err, CTR_EDATA, "a folder of the path is no UTF-8 text");
    if (!rc)
        rc = ctr_strs_add(out, text.data ? (const char *)text.data : "", text.len, err);
    ctr_buf_free(&text);
    return rc;
}

int ctr_pq_partitions(const char *path, struct ctr_strs *names, struct ctr_strs *values, struct ctr_err *err)
{
    int rc = 0;
    for (const char *p = path, *end; !rc && (end = strchr(p, '/')); p = end + 1) {
        const char *eq = memchr(p, '=', (size_t)(end - p));
        if (!eq || eq == p)
            continue;
        rc = add_decoded(names, p, (size_t)(eq - p), err);
        if (!rc)
            rc = add_decoded(values, eq + 1, (size_t)(end - eq - 1), err);
    }
    return rc;
}

bool ctr_pq_partition_null(const char *value)
{
    return !strcmp(value, "__HIVE_DEFAULT_PARTITION__");
}
