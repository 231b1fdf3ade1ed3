/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-seal: streams and files whose seals are right and whose words are not: each is written, one thing in it is
 * changed, and what holds it is sealed again. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/stream/arrow.h"
#include "tap.h"

enum { ROWS = 25, MAX = 1 << 14 };
static struct ctr_err err;
static int fd;
static char path[64], to[64];
static uint8_t bytes[MAX];

static void check(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err.what);
        exit(1);
    }
}

/* 25 rows in three batches; how many bytes they are. */
static size_t write_rows(bool file)
{
    const struct ctr_writer_opts opts = { .batch_rows = 10, .file = file };
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_out *o;
    struct ctr_writer *w;
    check(ctr_schema_add(&s, "a", CTR_I64, &err));
    check(ctr_batchbuf_init(&b, &s, &err));
    for (int i = 0; i < ROWS; i++)
        check(ctr_colbuf_i64(&b.col[0], i, &err));
    check(ftruncate(fd, 0) | (int)lseek(fd, 0, SEEK_SET));
    check(ctr_out_open(&o, to, 0, &err));
    check(ctr_writer_open(&w, o, &s, &opts, &err));
    check(ctr_writer_batch(w, ctr_batchbuf_view(&b), &err));
    check(ctr_writer_finish(w, &err));
    check(ctr_out_commit(o, &err));
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
    return (size_t)pread(fd, bytes, MAX, 0);
}

static const char *read_rows(const uint8_t *p, size_t n)
{
    char *paths[] = { path };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    check(ftruncate(fd, 0) < 0 || pwrite(fd, p, n, 0) != (ssize_t)n ? -1 : 0);
    err = (struct ctr_err){ 0 };
    int rc = ctr_reader_open(&r, paths, 1, NULL, &err);
    while (rc >= 0 && (rc = ctr_reader_next(r, &b, &err)) > 0)
        ;
    ctr_reader_free(r);
    return rc < 0 ? err.what : "";
}

/* ---- seals ---- */

static void hash_of(const uint8_t *p, size_t n, uint8_t *digits)
{
    char text[33];
    memset(digits, '0', 32);
    const struct ctr_hash128 h = ctr_hash128(p, n);
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
    memcpy(digits, text, 32);
}

/* Where the digits of the seal of p[0, n) are: those that are the hash. */
static uint8_t *seal_of(uint8_t *p, size_t n)
{
    for (size_t i = 4; i + 32 <= n; i++) {
        uint8_t was[32];
        if (ctr_fb_load32(p + i - 4) != 32)
            continue;
        memcpy(was, p + i, 32);
        hash_of(p, n, p + i);
        if (!memcmp(was, p + i, 32))
            return p + i;
        memcpy(p + i, was, 32);
    }
    check(ctr_fail(&err, CTR_EDATA, "no seal"));
    return NULL;
}

/* Message k of a stream at p: where it begins, how long its metadata is. */
static uint8_t *message(uint8_t *p, int k, size_t *n)
{
    struct ctr_buf scratch = { 0 };
    for (;; k--) {
        struct arrow_message m = { 0 };
        *n = 8 + (size_t)ctr_fb_load32(p + 4);
        check(ctr_message_parse(&m, p, *n, &scratch, &err));
        if (!k)
            break;
        p += *n + (size_t)m.body_length;
    }
    ctr_buf_free(&scratch);
    return p;
}

/* In p[0, n) the value of `key` becomes `value`, of the same length; sealed again. */
static void change(uint8_t *p, size_t n, const char *key, const char *value)
{
    uint8_t *seal = seal_of(p, n);
    const size_t length = strlen(value);
    uint8_t *at = memmem(p, n, key, strlen(key));
    /* The value lies near its key, with its length before it. */
    for (uint8_t *v = p + 4; at && v + length < p + n; v++)
        if ((size_t)ctr_fb_load32(v - 4) == length && v != at && v > at - 64 && v < at + 64 &&
            strspn((char *)v, "0123456789") == length) {
            memcpy(v, value, length);
            hash_of(p, n, seal);
            return;
        }
    check(ctr_fail(&err, CTR_EDATA, "no %s", key));
}

/* ---- the lies ---- */

static void expect(const uint8_t *p, size_t n, const char *words)
{
    const char *got = read_rows(p, n);
    ok(*words ? strstr(got, words) != NULL : !*got, "%s", *got ? got : "it is read");
}

/* Of what was changed in `bytes`; then it is as in `copy` again. */
static void expect_then_restore(const uint8_t *copy, size_t n, const char *why)
{
    expect(bytes, n, why);
    memcpy(bytes, copy, n);
}

static void test_stream(void)
{
    uint8_t copy[MAX];
    size_t n = write_rows(false), k;
    uint8_t *m = message(bytes, 4, &k);
    expect(bytes, n, "");
    memcpy(copy, bytes, n);
    change(m, k, CTR_SEAL_ROWS, "-5");
    expect_then_restore(copy, n, "is damaged (ctr.rows)");
    change(m, k, CTR_SEAL_ROWS, "26");
    expect_then_restore(copy, n, "the trailer tells of 26 rows in 3 batches, but 25 in 3 came");
    change(m, k, CTR_SEAL_BATCHES, "2");
    expect_then_restore(copy, n, "the trailer tells of 25 rows in 2 batches");
    m = message(bytes, 1, &k); /* the sum of a buffer is no number */
    uint8_t *seal = seal_of(m, k), *sums = memmem(m, k, CTR_SEAL_SUMS, strlen(CTR_SEAL_SUMS));
    for (uint8_t *v = m + 4; sums && v + 32 < m + k; v++)
        if (ctr_fb_load32(v - 4) == 32 && v != seal && strspn((char *)v, "0123456789abcdef") == 32)
            v[20] = 'G';
    hash_of(m, k, seal);
    expect_then_restore(copy, n, "a buffer is damaged");
    /* The last batch again behind the trailer, with the number that is due. */
    uint8_t *last = message(bytes, 3, &k), *trailer = message(bytes, 4, &k);
    const size_t length = (size_t)(trailer - last), rest = n - 8;
    memcpy(copy + rest, last, length);
    memcpy(copy + rest + length, bytes + rest, 8);
    (void)message(copy + rest, 0, &k);
    change(copy + rest, k, CTR_SEAL_SEQ, "5");
    expect(copy, n + length, "a message follows the trailer");
}

static void test_file(void)
{
    uint8_t copy[MAX];
    size_t n = write_rows(true), k, footer = (size_t)ctr_fb_load32(bytes + n - 10);
    uint8_t *p = bytes + n - 10 - footer, *m = message(bytes + 8, 4, &k);
    memcpy(copy, bytes, n);
    expect(bytes, n, "");
    change(p, footer, CTR_SEAL_ROWS, "2x");
    expect_then_restore(copy, n, "the trailer of the file is damaged");
    change(p, footer, CTR_SEAL_ROWS, "26");
    expect(bytes, n, "the trailer of the file is damaged");
    change(m, k, CTR_SEAL_ROWS, "26");
    expect_then_restore(copy, n, "the trailer tells of 26 rows, but 25 came");
    change(m, k, CTR_SEAL_BATCHES, "2");
    expect_then_restore(copy, n, "the trailer of the file is damaged");
    change(m, k, CTR_SEAL_SEQ, "7");
    expect_then_restore(copy, n, "the trailer of the file is damaged");
    m = message(bytes + 8, 0, &k);
    change(m, k, CTR_SEAL_SEQ, "1");
    expect_then_restore(copy, n, "the first message of the file is damaged");
    /* The byte of the first message that is its type says another one. */
    for (size_t i = 8; i < k; i++) {
        uint8_t *seal = seal_of(m, k);
        if (m[i] == ARROW_SCHEMA) {
            m[i] = ARROW_BATCH;
            hash_of(m, k, seal);
            (void)read_rows(bytes, n);
        }
        memcpy(bytes, copy, n);
    }
    ok(true, "each byte of the first message that could be its type");
}

/* Files of which pieces are missing, or have no seal where others have one. */
static void test_pieces(void)
{
    static uint8_t made[MAX];
    size_t n = write_rows(true), footer = (size_t)ctr_fb_load32(bytes + n - 10), k;
    memcpy(made, bytes, 8); /* a footer, and nothing before it */
    memcpy(made + 8, bytes + n - 10 - footer, footer + 10);
    expect(made, footer + 18, "the file");
    uint8_t *p = bytes + n - 10 - footer, *seal = seal_of(p, footer), *rows = memmem(p, footer, CTR_SEAL_ROWS, 8);
    memcpy(made, bytes, n);
    if (rows)
        *rows = 'x';
    hash_of(p, footer, seal);
    expect(bytes, n, "the trailer of the file is damaged");
    memcpy(bytes, made, n);
    uint8_t *m = message(bytes + 8, 4, &k); /* the byte of the trailer that is its type says another one */
    for (size_t i = 8; i < k; i++) {
        seal = seal_of(m, k);
        if (m[i] == ARROW_BATCH) {
            m[i] = ARROW_SCHEMA;
            hash_of(m, k, seal);
            (void)read_rows(bytes, n);
        }
        memcpy(bytes, made, n);
    }
    (void)message(bytes + 8, 0, &k); /* of no seal at all, but for words of seals in its batches */
    for (uint8_t *at; (at = memmem(bytes, n, CTR_SEAL_XXH3, strlen(CTR_SEAL_XXH3)));)
        *at = 'x';
    for (uint8_t *at; (at = memmem(p, footer, "ctr.", 4));)
        *at = 'x';
    for (uint8_t *at; (at = memmem(bytes + 8, k, "ctr.", 4));)
        *at = 'x';
    expect(bytes, n, "a block is not the one that belongs here");
}

int main(void)
{
    fd = memfd_create("seal", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(to, sizeof to, "/dev/fd/%d", fd);
    test_stream();
    test_file();
    test_pieces();
    return done_testing();
}
