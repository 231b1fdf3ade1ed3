/* SPDX-License-Identifier: Apache-2.0
 *
 * kind: a file's format by its content: the magic bytes of binary formats, and of text what its first line shows. Only
 * what is plain is said: a line of one column is of no format, and packed text is not looked into. */
#include "tools/ctr-import/kind.h"
#include "common/base/base.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 1 << 16 };

static bool begins(const char *p, size_t n, const char *magic, size_t bytes)
{
    return n >= bytes && !memcmp(p, magic, bytes);
}

/* Eight bytes that say how long the JSON behind them is. */
static bool is_safetensors(const char *p, size_t n)
{
    uint64_t bytes = 0;
    for (int k = 7; k >= 0 && n > 8; k--)
        bytes = bytes << 8 | (uint8_t)p[k];
    return n > 9 && p[8] == '{' && bytes >= 2 && bytes < (UINT64_C(100) << 20);
}

/* "1 3:0.5 7:1", also with qid:4 */
static bool is_libsvm(const char *p, size_t n)
{
    const char *end = memchr(p, ' ', n), *colon = memchr(p, ':', n);
    double label;
    int64_t index;
    if (!end || !colon || !ctr_parse_f64(p, (size_t)(end - p), &label))
        return false;
    end++;
    return colon > end &&
           ((colon - end == 3 && !memcmp(end, "qid", 3)) || ctr_parse_i64(end, (size_t)(colon - end), &index));
}

static const char *kind_of_text(const char *p, size_t n)
{
    const char *line = memchr(p, '\n', n);
    const size_t mark = ctr_utf8_mark(p, n);
    p += mark;
    n = line ? (size_t)(line - p) : n - mark;
    if (!n || memchr(p, 0, n))
        return NULL;
    return *p == '{'            ? "jsonl"
           : memchr(p, '\t', n) ? "tsv"
           : memchr(p, ',', n)  ? "csv"
           : is_libsvm(p, n)    ? "libsvm"
                                : NULL;
}

static const char *kind_of(const char *p, size_t n)
{
    static const struct {
        const char *magic;
        size_t n;
        const char *kind;
    } magics[] = { { "PAR1", 4, "parquet" },
                   { "PARE", 4, "parquet" },
                   { "\x93NUMPY", 6, "npy" },
                   { "ARROW1", 6, "stream" },
                   { "\xff\xff\xff\xff", 4, "stream" } };
    for (size_t i = 0; i < CTR_COUNT(magics); i++)
        if (begins(p, n, magics[i].magic, magics[i].n))
            return magics[i].kind;
    return is_safetensors(p, n) ? "safetensors" : kind_of_text(p, n);
}

const char *ctr_import_kind(const char *path)
{
    static char head[HEAD];
    const bool in = !strcmp(path, "-");
    struct ctr_err none = { 0 };
    struct stat st;
    if ((in ? fstat(STDIN_FILENO, &st) : stat(path, &st)) || !S_ISREG(st.st_mode))
        return NULL;
    const int fd = in ? STDIN_FILENO : ctr_open_input(path, O_RDONLY, &none);
    const off_t at = in ? lseek(fd, 0, SEEK_CUR) : 0;
    const ssize_t n = fd >= 0 && at >= 0 ? pread(fd, head, sizeof head, at) : -1;
    if (!in && fd >= 0)
        close(fd);
    return n > 0 ? kind_of(head, (size_t)n) : NULL;
}
