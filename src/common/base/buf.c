/* SPDX-License-Identifier: Apache-2.0
 *
 * buf: growing byte buffers and lists of strings. Invariant: data is 64-byte aligned and CTR_PAD bytes past len are
 * readable. */
#include "common/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A buffer that grows by a byte a time has the capacities 64 128 192 320 512 768 … 1747776, half as much more each
 * time, and then 4194240: with CTR_PAD, 4 MiB, the first mapping.
 *
 *     0            len           cap           cap + CTR_PAD
 *     | bytes      | reserved    | zeros       |               a read of up to CTR_PAD bytes from len is allowed
 *
 * From there on resize is map_longer: pages are moved, not copied. A list of strings (ctr_strs) is indexed by hash when
 * it has more than SHORT_LIST. */

enum { HUGE_PAGE = 2 << 20 };

/* Large buffers are mappings of whole huge pages, if the system grants them. They grow by remapping, without copying,
 * and no page is cleared twice. */
static bool is_large(size_t bytes)
{
    return bytes >= HUGE_PAGE;
}

/* Zeroed memory on its own pages, huge pages where the system grants them, rounded up to 2 MiB. NULL on failure;
 * release with munmap. */
static uint8_t *pages_map(size_t bytes)
{
    uint8_t *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)p % HUGE_PAGE;
    if (before)
        (void)munmap(p, before);
    (void)munmap(p + before + bytes, HUGE_PAGE - before);
    (void)madvise(p + before, bytes, MADV_HUGEPAGE); /* only advice: results do not depend on it */
    return p + before;
}

/* Extend a mapping in place or move it; NULL: it is unchanged. */
static uint8_t *map_longer(uint8_t *p, size_t old, size_t bytes)
{
    uint8_t *to;

    if (mremap(p, old, bytes, 0) != MAP_FAILED)
        return p;
    if (!(to = pages_map(bytes)))
        return NULL;
    if (mremap(p, old, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED)
        return to;
    (void)munmap(to, bytes);
    return NULL;
}

static void release(struct ctr_buf *b)
{
    if (b->cap && is_large(b->cap + CTR_PAD))
        (void)munmap(b->data, b->cap + CTR_PAD);
    else
        free(b->data);
}

/* Room for `cap` bytes and the pad: returns the new memory with the buffer's bytes, having released the old, or
 * NULL. */
static uint8_t *resize(struct ctr_buf *b, size_t cap)
{
    size_t bytes = cap + CTR_PAD;

    if (is_large(bytes) && b->cap && is_large(b->cap + CTR_PAD))
        return map_longer(b->data, b->cap + CTR_PAD, bytes);
    uint8_t *p = is_large(bytes) ? pages_map(bytes) : aligned_alloc(64, bytes);
    if (!p)
        return NULL;
    if (b->len)
        memcpy(p, b->data, b->len);
    release(b);
    return p;
}

int ctr_buf_reserve(struct ctr_buf *b, size_t extra, struct ctr_err *err)
{
    size_t need, cap;

    if (extra <= b->cap - b->len && b->cap)
        return 0;
    if (extra > SIZE_MAX / 4 - b->len)
        return ctr_fail_nomem(err, extra);
    need = b->len + extra;
    cap = CTR_MAX(need, b->cap + b->cap / 2);
    cap = (CTR_MAX(cap, 64) + 63) & ~(size_t)63;
    if (is_large(cap + CTR_PAD))
        cap = (cap + CTR_PAD + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE - CTR_PAD;
    uint8_t *p = resize(b, cap);
    if (!p)
        return ctr_fail_nomem(err, cap);
    if (!is_large(cap + CTR_PAD)) /* mappings are zero already */
        memset(p + cap, 0, CTR_PAD);
    b->data = p;
    b->cap = cap;
    return 0;
}

int ctr_buf_append(struct ctr_buf *b, const void *p, size_t n, struct ctr_err *err)
{
    int rc = ctr_buf_reserve(b, n, err);

    if (rc)
        return rc;
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    return 0;
}

int ctr_buf_room(struct ctr_buf *b, int64_t n, size_t size, struct ctr_err *err)
{
    ctr_buf_clear(b);
    return ctr_buf_reserve(b, (size_t)n * size, err);
}

void *ctr_buf_extend(struct ctr_buf *b, int64_t n, size_t size, int *rc, struct ctr_err *err)
{
    if (*rc || (*rc = ctr_buf_reserve(b, (size_t)n * size, err)))
        return NULL;
    void *at = b->data + b->len;
    b->len += (size_t)n * size;
    return at;
}

int ctr_buf_vprintf(struct ctr_buf *b, struct ctr_err *err, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    int rc = n < 0 ? ctr_fail(err, CTR_EDATA, "text cannot be formatted") : ctr_buf_reserve(b, (size_t)n + 1, err);
    if (!rc) {
        vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    return rc;
}

int ctr_buf_printf(struct ctr_buf *b, struct ctr_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int rc = ctr_buf_vprintf(b, err, fmt, ap);
    va_end(ap);
    return rc;
}

void ctr_say(struct ctr_say *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!s->rc)
        s->rc = ctr_buf_vprintf(s->to, s->err, fmt, ap);
    va_end(ap);
}

void ctr_say_bytes(struct ctr_say *s, const void *p, size_t n)
{
    if (!s->rc)
        s->rc = ctr_buf_append(s->to, p, n, s->err);
}

void ctr_buf_free(struct ctr_buf *b)
{
    release(b);
    *b = (struct ctr_buf){ 0 };
}

/* ---- lists of strings ---- */

enum { SHORT_LIST = 32 }; /* up to here strings are compared one by one */

static bool is_str(const char *have, const char *s, size_t n)
{
    return strlen(have) == n && !memcmp(have, s, n);
}

static uint64_t hash_of(const char *s, size_t n)
{
    return ctr_hash64(s, n, ctr_hash_secret);
}

static int find_by_hash(const struct ctr_strs *l, const char *s, size_t n)
{
    const struct ctr_index_slot *p = ctr_index_find(&l->index, hash_of(s, n));
    while (p && !is_str(l->s[p->number], s, n))
        p = ctr_index_next(&l->index, p);
    return p ? (int)p->number : -1;
}

/* Index the strings from number `from` on. */
static int index_strs(struct ctr_strs *l, int from, struct ctr_err *err)
{
    int rc = 0;
    for (int i = from; i < l->n && !rc; i++) {
        const size_t n = strlen(l->s[i]);
        if (find_by_hash(l, l->s[i], n) < 0)
            rc = ctr_index_add(&l->index, hash_of(l->s[i], n), (uint32_t)i, err);
    }
    return rc;
}

int ctr_array_grow(void *array, int n, int *cap, size_t size, struct ctr_err *err)
{
    const int more = *cap ? 2 * *cap : 16;
    void **at = array, *p; /* of any type: all data pointers have the same representation */

    if (n < *cap)
        return 0;
    p = realloc(*at, (size_t)more * size);
    if (!p)
        return ctr_fail_nomem(err, (size_t)more * size);
    *at = p;
    *cap = more;
    return 0;
}

int ctr_array_extend(void *array, int *n, int to, size_t size, struct ctr_err *err)
{
    uint8_t **at = array, *p;

    if (to <= *n)
        return 0;
    p = realloc(*at, (size_t)to * size);
    if (!p)
        return ctr_fail_nomem(err, (size_t)to * size);
    memset(p + (size_t)*n * size, 0, (size_t)(to - *n) * size);
    *at = p;
    *n = to;
    return 0;
}

static int grow_strs(struct ctr_strs *l, struct ctr_err *err)
{
    int cap = l->cap ? l->cap * 2 : 8;
    char **p = realloc(l->s, (size_t)cap * sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, (size_t)cap * sizeof *p);
    l->s = p;
    l->cap = cap;
    return 0;
}

int ctr_strs_add(struct ctr_strs *l, const char *s, size_t len, struct ctr_err *err)
{
    int rc = l->n == l->cap ? grow_strs(l, err) : 0;
    if (rc)
        return rc;
    char *copy = malloc(len + 1);
    if (!copy)
        return ctr_fail_nomem(err, len + 1);
    memcpy(copy, s, len);
    copy[len] = 0;
    l->s[l->n++] = copy;
    if (l->n > SHORT_LIST && (rc = index_strs(l, l->index.cap ? l->n - 1 : 0, err)))
        free(l->s[--l->n]);
    return rc;
}

int ctr_strs_split(struct ctr_strs *l, const char *s, char sep, struct ctr_err *err)
{
    for (;;) {
        const char *end = strchr(s, sep);
        size_t n = end ? (size_t)(end - s) : strlen(s);
        int rc = ctr_strs_add(l, s, n, err);
        if (rc)
            return rc;
        if (!end)
            return 0;
        s = end + 1;
    }
}

/* Bytes of the name in back quotes that s begins with; 1: it begins with none. */
static size_t quoted_bytes(const char *s)
{
    for (size_t i = 1; *s == '`' && s[i]; i++) {
        if (s[i] == '`')
            return i + 1;
        i += s[i] == '\\' && s[i + 1];
    }
    return 1;
}

size_t ctr_names_span(const char *s, char stop)
{
    size_t n = 0;
    while (s[n] && s[n] != stop) {
        const bool starts = !n || s[n - 1] == '=' || s[n - 1] == '+';
        n += starts ? quoted_bytes(s + n) : 1;
    }
    return n;
}

int ctr_names_split(struct ctr_strs *l, const char *s, char sep, struct ctr_err *err)
{
    for (;; s++) {
        const size_t n = ctr_names_span(s, sep);
        const int rc = ctr_strs_add(l, s, n, err);
        s += n;
        if (rc || !*s)
            return rc;
    }
}

int ctr_names_add(struct ctr_strs *l, const char *name, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc = ctr_quote_name(&b, name, err);
    if (!rc)
        rc = ctr_strs_add(l, (const char *)b.data, b.len, err);
    ctr_buf_free(&b);
    return rc;
}

int ctr_strs_find_n(const struct ctr_strs *l, const char *s, size_t n)
{
    if (l->index.cap)
        return find_by_hash(l, s, n);
    for (int i = 0; i < l->n; i++)
        if (is_str(l->s[i], s, n))
            return i;
    return -1;
}

int ctr_strs_find(const struct ctr_strs *l, const char *s)
{
    return ctr_strs_find_n(l, s, strlen(s));
}

void ctr_strs_free(struct ctr_strs *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->s[i]);
    free(l->s);
    ctr_index_free(&l->index);
    *l = (struct ctr_strs){ 0 };
}

int ctr_memdup(char **out, const char *s, size_t n, struct ctr_err *err)
{
    *out = malloc(n + 1);
    if (!*out)
        return ctr_fail_nomem(err, n + 1);
    memcpy(*out, s, n);
    (*out)[n] = 0;
    return 0;
}

int ctr_strdup(char **out, const char *s, struct ctr_err *err)
{
    return ctr_memdup(out, s, strlen(s), err);
}

/* Levenshtein distance of names of at most 63 bytes; longer ones are truncated. */
static int edit_distance(const char *a, const char *b)
{
    int row[64], n = (int)CTR_MIN(strlen(a), 63), m = (int)CTR_MIN(strlen(b), 63);

    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int up = row[j];
            int best = CTR_MIN(row[j] + 1, row[j - 1] + 1);
            row[j] = CTR_MIN(best, diagonal + ((a[i - 1] | 32) != (b[j - 1] | 32)));
            diagonal = up;
        }
    }
    return row[m];
}

const char *ctr_nearest(const char *name, const char *const *candidates, int n)
{
    const char *best = NULL;
    int best_distance = (int)CTR_MIN(strlen(name), 63) / 2 + 1;

    for (int i = 0; i < n; i++) {
        bool prefix = *name && !strncmp(name, candidates[i], strlen(name));
        int d = prefix ? 1 : edit_distance(name, candidates[i]);
        if (d < best_distance) {
            best_distance = d;
            best = candidates[i];
        }
    }
    return best;
}

const char *ctr_name_hint(char *out, size_t size, const char *name, const char *const *candidates, int n)
{
    const char *near = ctr_nearest(name, candidates, n);
    size_t at = 0;
    *out = 0;
    if (near) {
        ctr_format(out, size, "; the nearest is '%s'", near);
        return out;
    }
    for (int i = 0; i < n; i++) {
        if (at + ctr_quote(NULL, 0, candidates[i], strlen(candidates[i])) + strlen("; there are , …") >= size) {
            snprintf(out + at, size - at, "%s", i ? ", …" : "");
            break;
        }
        at += ctr_format(out + at, size - at, "%s%s", i ? ", " : n > 1 ? "; there are " : "; there is ", candidates[i]);
    }
    return out;
}

bool ctr_glob(const char *pattern, const char *s)
{
    const char *star = NULL, *resume = NULL;

    while (*s) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = s;
        } else if (*pattern == '?' || *pattern == *s) {
            pattern++;
            s++;
        } else if (star) {
            pattern = star;
            s = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

bool ctr_ascii(const uint8_t *p, size_t n)
{
    uint64_t any = 0, x[4];
    size_t i = 0;

    for (; n - i >= 32; i += 32) {
        memcpy(x, p + i, 32);
        any |= x[0] | x[1] | x[2] | x[3];
    }
    for (; i < n; i++)
        any |= p[i];
    return !(any & 0x8080808080808080u);
}

size_t ctr_utf8_length(const uint8_t *p, const uint8_t *end)
{
    uint8_t lo = 0x80, hi = 0xbf;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if ((size_t)(end - p) < n)
        return 0;
    if (p[0] == 0xe0)
        lo = 0xa0;
    else if (p[0] == 0xed)
        hi = 0x9f;
    else if (p[0] == 0xf0)
        lo = 0x90;
    else if (p[0] == 0xf4)
        hi = 0x8f;
    if (p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

bool ctr_utf8_valid(const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n;

    while (p < end) {
        uint64_t w;
        size_t k;
        if (end - p >= 8) {
            memcpy(&w, p, 8);
            if (!(w & 0x8080808080808080u)) {
                p += 8;
                continue;
            }
        }
        if (*p < 0x80) {
            p++;
            continue;
        }
        k = ctr_utf8_length(p, end);
        if (!k)
            return false;
        p += k;
    }
    return true;
}
