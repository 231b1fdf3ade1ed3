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

/* 25 rows from `first` on in three batches; how many bytes they are. */
static size_t write_from(int first, bool file)
{
    const struct ctr_writer_opts opts = { .batch_rows = 10, .file = file };
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_out *o;
    struct ctr_writer *w;
    check(ctr_schema_add(&s, "a", CTR_I64, &err));
    check(ctr_batchbuf_init(&b, &s, &err));
    for (int i = 0; i < ROWS; i++)
        check(ctr_colbuf_i64(&b.col[0], first + i, &err));
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

static size_t write_rows(bool file)
{
    return write_from(0, file);
}

static const char *read_all(const uint8_t *p, size_t n, bool sections)
{
    const struct ctr_reader_opts o = { .sections = sections };
    char *paths[] = { path };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    check(ftruncate(fd, 0) < 0 || pwrite(fd, p, n, 0) != (ssize_t)n ? -1 : 0);
    err = (struct ctr_err){ 0 };
    int rc = ctr_reader_open(&r, paths, 1, &o, &err);
    do
        while (rc >= 0 && (rc = ctr_reader_next(r, &b, &err)) > 0)
            ;
    while (sections && rc >= 0 && (rc = ctr_reader_section(r, &err)) > 0);
    ctr_reader_free(r);
    return rc < 0 ? err.what : "";
}

static const char *read_rows(const uint8_t *p, size_t n)
{
    return read_all(p, n, false);
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

/* Message k of a stream at p: where it begins, how long its metadata is, and what they say. */
static uint8_t *parsed(uint8_t *p, int k, size_t *n, struct arrow_message *m)
{
    struct ctr_buf scratch = { 0 };
    for (;; k--) {
        *n = 8 + (size_t)ctr_fb_load32(p + 4);
        check(ctr_message_parse(m, p, *n, &scratch, &err));
        if (!k)
            break;
        p += *n + (size_t)m->body_length;
    }
    ctr_buf_free(&scratch);
    return p;
}

static uint8_t *message(uint8_t *p, int k, size_t *n)
{
    struct arrow_message m;
    return parsed(p, k, n, &m);
}

/* Of the file in bytes[0, n) the footer, whose list of seals is made that of its messages; sealed again. */
static void seal_footer(size_t n)
{
    const size_t footer = (size_t)ctr_fb_load32(bytes + n - 10);
    uint8_t *p = bytes + n - 10 - footer, *seal = seal_of(p, footer), *list = memmem(p, footer, CTR_SEAL_SEALS, 9);
    while (list && ctr_fb_load32(list) != 5 * 32)
        list++;
    for (int k = 0; list && k < 5; k++) {
        struct arrow_message m;
        size_t length;
        parsed(bytes + 8, k, &length, &m);
        memcpy(list + 4 + 32 * k, m.seal, 32);
    }
    hash_of(p, footer, seal);
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
    struct arrow_message said;
    m = parsed(bytes, 1, &k, &said); /* the sum of a buffer is no number */
    uint8_t *seal = seal_of(m, k);
    m[said.sums + 20 - (char *)m] = 'G';
    hash_of(m, k, seal);
    expect_then_restore(copy, n, "a buffer is damaged");
    /* The last batch again behind the trailer, with the number and the seal that are due. */
    uint8_t *last = message(bytes, 3, &k), *trailer = message(bytes, 4, &k);
    const size_t of_trailer = k, length = (size_t)(trailer - last), rest = n - 8;
    memcpy(copy + rest, last, length);
    memcpy(copy + rest + length, bytes + rest, 8);
    m = parsed(copy + rest, 0, &k, &said);
    seal = seal_of(m, k);
    memcpy(m + (said.after - (char *)m), seal_of(trailer, of_trailer), 32);
    hash_of(m, k, seal);
    change(copy + rest, k, CTR_SEAL_SEQ, "5");
    expect(copy, n + length, "a message follows the trailer");
}

/* ---- messages of another stream ---- */

/* The first `k` messages of one stream, then those of another that has the same schema and other rows. */
static void test_halves(void)
{
    static uint8_t a[MAX], made[MAX];
    size_t length, n = write_from(100, false);
    memcpy(a, bytes, n);
    check(write_rows(false) == n ? 0 : -1);
    for (int k = 2; k < 5; k++) { /* at 1 the whole is the other one, because they have the same schema message */
        char words[64];
        const size_t at = (size_t)(message(a, k, &length) - a);
        memcpy(made, a, at);
        memcpy(made + at, bytes + at, n - at);
        snprintf(words, sizeof words, "message %d belongs to another stream", k);
        expect(made, n, words);
    }
}

/* A message that names none before it, in a stream that does, and the other way round. */
static void test_unlinked(void)
{
    for (int k = 0; k < 5; k++) {
        struct arrow_message said;
        size_t n = write_rows(false), length;
        uint8_t *m = parsed(bytes, k, &length, &said), *seal = seal_of(m, length),
                *key = memmem(m, length, CTR_SEAL_AFTER, strlen(CTR_SEAL_AFTER));
        if (key)
            memcpy(key, "ctr.other", strlen(CTR_SEAL_AFTER));
        hash_of(m, length, seal);
        expect(bytes, n, k == 0 ? "message 1 belongs to another stream" : "belongs to another stream");
    }
}

/* Section k of a bundle of three, of rows from `first` on. */
static void put_section(struct ctr_out *o, int first, int k, bool list)
{
    static const char *const names[] = { "one", "two", "three" };
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_writer *w;
    check(ctr_schema_add(&s, "a", CTR_I64, &err));
    check(ctr_meta_set(&s.meta, CTR_META_SECTION, names[k], &err));
    check(ctr_meta_set(&s.meta, CTR_META_SECTIONS, k || !list ? NULL : "one,two,three", &err));
    check(ctr_batchbuf_init(&b, &s, &err));
    check(ctr_colbuf_i64(&b.col[0], first + k, &err));
    check(ctr_writer_open(&w, o, &s, NULL, &err));
    check(ctr_writer_batch(w, ctr_batchbuf_view(&b), &err));
    check(ctr_writer_finish(w, &err));
    ctr_writer_free(w);
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
}

/* at[k] .. at[k + 1] is section k. */
static void write_bundle(int first, bool list, uint8_t *copy, size_t at[4])
{
    struct ctr_out *o;
    check(ftruncate(fd, 0) | (int)lseek(fd, 0, SEEK_SET));
    check(ctr_out_open(&o, to, 0, &err));
    for (int k = 0; k < 3; k++) {
        at[k] = (size_t)ctr_out_tell(o);
        put_section(o, first, k, list);
    }
    at[3] = (size_t)ctr_out_tell(o);
    check(ctr_out_commit(o, &err));
    ctr_out_free(o);
    check(pread(fd, copy, MAX, 0) == (ssize_t)at[3] ? 0 : -1);
}

/* Sections of two bundles, by letters: the first one's "abc", the other one's "ABC". */
static void expect_sections(bool list, const char *letters, const char *words)
{
    static uint8_t bundle[2][MAX], made[2 * MAX];
    size_t at[2][4], n = 0;
    write_bundle(0, list, bundle[0], at[0]);
    write_bundle(10, list, bundle[1], at[1]);
    for (const char *c = letters; *c; c++) {
        const int which = *c < 'a', k = *c - (which ? 'A' : 'a');
        memcpy(made + n, bundle[which] + at[which][k], at[which][k + 1] - at[which][k]);
        n += at[which][k + 1] - at[which][k];
    }
    const char *got = read_all(made, n, true);
    ok(*words ? strstr(got, words) != NULL : !*got, "sections %s: %s", letters, *got ? got : "they are read");
}

static void test_bundles(void)
{
    for (int list = 0; list < 2; list++) {
        expect_sections(list, "abc", "");
        expect_sections(list, "abcABC", "");
        expect_sections(list, "aBc", "does not follow the section before it: it belongs to another bundle");
        expect_sections(list, "abC", "does not follow the section before it: it belongs to another bundle");
        expect_sections(list, "acb", "does not follow the section before it");
        expect_sections(list, "ac", "does not follow the section before it");
        expect_sections(list, "bc", "begins with a section of a bundle whose earlier sections are missing");
    }
    expect_sections(true, "ab", "section 'three' is missing");
    expect_sections(true, "aAbc", "section 'two' does not follow the section before it");
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
    expect(bytes, n, "the trailer of the file is damaged");
    seal_footer(n);
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

/* Each message of a file in the place of that of another one, whose rows are others; and footers without seals. */
static void test_other_file(void)
{
    static uint8_t a[MAX];
    static const char *const says[] = { "", "a block is not the one that belongs here",
                                        "a block is not the one that belongs here",
                                        "a block is not the one that belongs here",
                                        "the trailer of the file is damaged" };
    size_t n = write_from(100, true), length, footer = (size_t)ctr_fb_load32(bytes + n - 10);
    memcpy(a, bytes, n);
    check(write_rows(true) == n ? 0 : -1);
    for (int k = 0; k < 5; k++) {
        const size_t from = (size_t)(message(a + 8, k, &length) - a),
                     end = k < 4 ? (size_t)(message(a + 8, k + 1, &length) - a) : n - 18 - footer;
        memcpy(bytes + from, a + from, end - from);
        expect(bytes, n, says[k]);
        check(write_rows(true) == n ? 0 : -1);
    }
    uint8_t *p = bytes + n - 10 - footer, *seal = seal_of(p, footer), *seals = memmem(p, footer, CTR_SEAL_SEALS, 9);
    if (seals)
        seals[8] = 'x';
    hash_of(p, footer, seal);
    expect(bytes, n, "the first message of the file is damaged");
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
    test_halves();
    test_unlinked();
    test_bundles();
    test_file();
    test_other_file();
    test_pieces();
    return done_testing();
}
