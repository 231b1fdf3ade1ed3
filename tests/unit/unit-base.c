/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-base: buffers, strings, hashing, output files and the thread pool. */
#include "common/base/base.h"

#include "tap.h"

#include <float.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static struct ctr_err err;

static void test_strings(void)
{
    static const char *const names[] = { "user_id", "movie_id", "rating" };
    static const struct {
        const char *s;
        bool valid;
    } utf8[] = { { "plain", true },
                 { "\xc3\xa9", true },
                 { "\xe2\x82\xac", true },
                 { "\xf0\x9f\x98\x80", true },
                 { "\xc0\xaf", false },
                 { "\xed\xa0\x80", false },
                 { "\xf4\x90\x80\x80", false },
                 { "\xe2\x82", false },
                 { "eightchr\xff", false },
                 { "\x80", false },
                 { "\xf0\x8f\xbf\xbf", false } };
    struct ctr_strs l = { 0 };
    struct ctr_buf b = { 0 };
    char hint[64];

    ok(ctr_nearest("usr_id", names, 3) == names[0], "nearest name is found");
    ok(!ctr_nearest("zzzzzzzz", names, 3), "nothing near is NULL");
    ok(!strcmp(ctr_name_hint(hint, sizeof hint, "usr_id", names, 3), "; the nearest is 'user_id'"), "hint: %s", hint);
    ok(!strncmp(ctr_name_hint(hint, sizeof hint, "zzzzzzzz", names, 3), "; there are user_id, ", 21), "hint: %s", hint);
    ok(!strcmp(ctr_name_hint(hint, 30, "zzzzzzzz", names, 3), "; there are user_id, …"), "hint, cut: %s", hint);
    ok(!*ctr_name_hint(hint, 8, "zzzzzzzz", names, 3) && !*ctr_name_hint(hint, 8, "z", names, 0), "no hint");
    ok(ctr_glob("vocab.*", "vocab.city") && !ctr_glob("vocab.*", "lr") && ctr_glob("*", "") && ctr_glob("a?c*", "abcd"),
       "globs");
    for (size_t i = 0; i < CTR_COUNT(utf8); i++)
        ok(ctr_utf8_valid((const uint8_t *)utf8[i].s, strlen(utf8[i].s)) == utf8[i].valid, "utf8 case %zu", i);
    ok(!ctr_strs_split(&l, "a,,b", ',', &err) && l.n == 3 && !*l.s[1] && ctr_strs_find(&l, "b") == 2,
       "split keeps empties");
    ctr_strs_free(&l);
    ok(!ctr_quote_name(&b, "a b", &err) && b.len == 5 && !memcmp(b.data, "`a b`", 5), "a name is quoted when needed");
    b.len = 0;
    ok(!ctr_quote_name(&b, "a`b\\c\n", &err) && b.len == 13 && !memcmp(b.data, "`a\\`b\\\\c\\x0a`", 13),
       "what would end the quotes is escaped");
    ctr_buf_clear(&b);
    ok(!ctr_quote_name(&b, "a.b_1", &err) && b.len == 5, "a bare name stays bare");
    b.len = 0;
    ok(!ctr_buf_printf(&b, &err, "%s-%d", "x", 7) && b.len == 3 && !memcmp(b.data, "x-7", 3), "printf into a buffer");
    ctr_buf_free(&b);
}

/* What is shown to people: each text, as itself, as a value of a message, and as a name of a plan. */
static const struct {
    const char *text, *shown, *value, *name;
} quoted[] = {
    { "a.b_1", "a.b_1", "'a.b_1'", "a.b_1" },
    { "", "", "''", "``" },
    { "a b", "a b", "'a b'", "`a b`" },
    { "it's", "it's", "$'it\\'s'", "`it's`" },
    { "C:\\x0a", "C:\\x0a", "'C:\\x0a'", "`C:\\\\x0a`" },
    { "C:\n", "$'C:\\x0a'", "$'C:\\x0a'", "`C:\\x0a`" },
    { "C:\\x0a\n", "$'C:\\\\x0a\\x0a'", "$'C:\\\\x0a\\x0a'", "`C:\\\\x0a\\x0a`" },
    { "$'C:\\x0a'", "$'$\\'C:\\\\x0a\\''", "$'$\\'C:\\\\x0a\\''", "`$'C:\\\\x0a'`" },
    { "\033[2J", "$'\\x1b[2J'", "$'\\x1b[2J'", "`\\x1b[2J`" },
    { "\177", "$'\\x7f'", "$'\\x7f'", "`\\x7f`" },
    { "\xc2\x9b"
      "2J",
      "$'\\xc2\\x9b2J'", "$'\\xc2\\x9b2J'", "`\\xc2\\x9b2J`" }, /* C1 */
    { "\x9b"
      "2J",
      "$'\\x9b2J'", "$'\\x9b2J'", "`\\x9b2J`" },                                         /* no UTF-8 */
    { "\xe2\x80\xae", "$'\\xe2\\x80\\xae'", "$'\\xe2\\x80\\xae'", "`\\xe2\\x80\\xae`" }, /* right to left */
    { "\xe2\x81\xa6", "$'\\xe2\\x81\\xa6'", "$'\\xe2\\x81\\xa6'", "`\\xe2\\x81\\xa6`" }, /* isolate */
    { "\xd8\x9c", "$'\\xd8\\x9c'", "$'\\xd8\\x9c'", "`\\xd8\\x9c`" },                    /* letter mark */
    { "\xe2\x80\xa8", "$'\\xe2\\x80\\xa8'", "$'\\xe2\\x80\\xa8'", "`\\xe2\\x80\\xa8`" }, /* line separator */
    { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
      "'\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80'", "`\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80`" },
};

static void test_quoting(void)
{
    struct ctr_buf b = { 0 };
    char s[200];
    for (size_t i = 0; i < CTR_COUNT(quoted); i++) {
        const char *text = quoted[i].text;
        const size_t n = strlen(text);
        const bool plain = !strcmp(quoted[i].shown, text);
        ok(ctr_quote(s, sizeof s, text, n) == strlen(s) && !strcmp(s, quoted[i].shown), "shown %zu: %s", i, s);
        ok(ctr_quote_value(s, sizeof s, text, n) == strlen(s) && !strcmp(s, quoted[i].value), "value %zu: %s", i, s);
        ok(ctr_format(s, sizeof s, "no '%s'", text) == strlen(s) && !strcmp(s + 3, quoted[i].value),
           "in quotes of a format %zu: %s", i, s);
        ok(ctr_format(s, 3, "'%s'", text) == strlen(quoted[i].value), "its length where there is no room %zu", i);
        ctr_buf_clear(&b);
        ok(!ctr_quote_name(&b, text, &err) && b.len == strlen(quoted[i].name) && !memcmp(b.data, quoted[i].name, b.len),
           "name %zu", i);
        ctr_fail(&err, CTR_EDATA, "%s", text);
        ok(ctr_text_is_plain(err.what, strlen(err.what)), "in an error %zu", i);
        ok(plain <= !strcmp(err.what, text), "what is plain stays %zu: %s", i, err.what);
        err = (struct ctr_err){ 0 };
        ctr_err_file(&err, text);
        const struct ctr_err_text all = ctr_err_text(&err);
        ok(ctr_text_is_plain(all.s, strlen(all.s)), "as a file %zu", i);
    }
    ctr_buf_free(&b);
    ok(ctr_quote(s, sizeof s, "a\0b", 3) == 9 && !strcmp(s, "$'a\\x00b'"), "a byte 0: %s", s);
}

/* Each conversion as printf has it. */
static void test_formats(void)
{
    char want[200], got[200];
    const char *const e = "\xc3\xa9"; /* one column, two bytes */
#define SAME(...)                                                                                                      \
    snprintf(want, sizeof want, __VA_ARGS__);                                                                          \
    ok(ctr_format(got, sizeof got, __VA_ARGS__) == strlen(want) && !strcmp(got, want), "%s", got)
    SAME("%d %5d %-5d| %05d %+d %u %x %02X %c %%", -3, 4, 5, 6, 7, -1, 0xab, 12, 'q');
    SAME("%lld %016llx %zu %zd %ld %ju %hhd %08llX", (long long)INT64_MIN, 1ULL << 63, (size_t)-1, (ssize_t)-1, -1L,
         UINTMAX_MAX, 3, 7ULL);
    SAME("%g %.3f %10.6f %-10.2e %.*f %+10.4g", 1e300, 2.5, 3.25, 4., 2, 5., 6.);
    SAME("%s|%8s|%-8s|%.2s|%*s|%-*s|%.*s|%-6.*s|", "a", "b", "c", "defg", 4, "h", 4, "i", 1, "jk", 1, "lm");
#undef SAME
    ok(ctr_format(got, sizeof got, "%3s|%-3s|", e, e) == 10 && !strcmp(got, "  \xc3\xa9|\xc3\xa9  |"), "columns: %s",
       got);
    ctr_format(got, sizeof got, "%.3s|", "\xc3\xa9\xc3\xa9");
    ok(!strcmp(got, "\xc3\xa9|"), "a precision cuts between characters: %s", got);
    ok(ctr_format(got, 6, "%s", "\xc3\xa9\xc3\xa9\xc3\xa9") == 6 && !strcmp(got, "\xc3\xa9\xc3\xa9"),
       "and so does the end of the room");
    ok(ctr_format(got, 6, "a%s", "\n\n") == 12 && !strcmp(got, "a$'"), "no half of an escape: %s", got);
    ok(ctr_format(got, sizeof got, "%8s|", "\n") == 9 && !strcmp(got, " $'\\x0a'|"), "a width of escapes: %s", got);
}

/* A short list is compared, a long one looked up; both give the first of equal strings. */
static void test_strs(void)
{
    struct ctr_strs l = { 0 };
    char name[32];
    int wrong = 0, failed = 0;

    ok(ctr_strs_find(&l, "s0") == -1, "nothing is in an empty list");
    for (int i = 0; i < 3000; i++) {
        failed += ctr_strs_add(&l, name, (size_t)snprintf(name, sizeof name, "s%d", i % 1000), &err) != 0;
        wrong += ctr_strs_find(&l, name) != i % 1000 || ctr_strs_find(&l, "s") != -1;
        snprintf(name, sizeof name, "s%d", (i + 1) % 1001); /* s1000 never comes */
        wrong += ctr_strs_find(&l, name) != (i < 999 || (i + 1) % 1001 == 1000 ? -1 : (i + 1) % 1001);
    }
    ok(!failed && !wrong && l.n == 3000, "strings are found in lists of 1 to 3000");
    ctr_strs_free(&l);
}

static void test_hash(void)
{
    static uint8_t bytes[40000];
    int differ = 0, differ128 = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)ctr_mix64(i);
    for (size_t n = 0; n < sizeof bytes - 1; n += n < 300 ? 1 : 97) {
        XXH128_hash_t want = XXH3_128bits(bytes + 1, n);
        struct ctr_hash128 got = ctr_hash128(bytes + 1, n);
        differ += ctr_hash64(bytes + 1, n, n & 3) != XXH3_64bits_withSeed(bytes + 1, n, n & 3);
        differ128 += got.lo != want.low64 || got.hi != want.high64;
    }
    ok(!differ && !differ128, "every length hashes as libxxhash does");
    ok(ctr_hash64("", 0, 0) == 0x2d06800538d394c2u, "XXH3-64 of nothing");
    ok(ctr_feature_key(ctr_table_seed("a"), "4", 1) != ctr_feature_key(ctr_table_seed("b"), "4", 1),
       "tables keep keys apart");
    ok(ctr_random64(1, 2, 3) == ctr_random64(1, 2, 3) && ctr_random64(1, 2, 3) != ctr_random64(1, 2, 4) &&
           ctr_random64(1, 2, 3) != ctr_random64(1, 3, 2) && ctr_random64(0, 0, 0) != 0,
       "counter-based random numbers");
}

static void test_out(void)
{
    char dir[] = "/tmp/ctr-unit-XXXXXX", path[64];
    struct ctr_out *o;
    struct stat st;

    if (!mkdtemp(dir))
        return;
    snprintf(path, sizeof path, "%s/file", dir);
    ok(!ctr_out_open(&o, path, 0, &err) && !ctr_out_write(o, "abc", 3, &err), "open and write");
    ok(stat(path, &st) != 0, "nothing is there before commit");
    ctr_out_free(o);
    ok(rmdir(dir) == 0, "without commit nothing is left");
    ok(mkdir(dir, 0700) == 0, "again");
    ok(!ctr_out_open(&o, path, 0, &err) && !ctr_out_printf(o, &err, "%05d", 42) && ctr_out_tell(o) == 5, "printf");
    ok(!ctr_out_commit(o, &err) && stat(path, &st) == 0 && st.st_size == 5, "commit makes it whole");
    ctr_out_free(o);
    unlink(path);
    rmdir(dir);
    ok(ctr_out_open(&o, "/nonexistent/file", 0, &err) == CTR_ESYS && strstr(err.what, "/nonexistent/file"),
       "a folder that is not there is named");
    ok(!ctr_out_open(&o, "/dev/full", 0, &err) && !ctr_out_write(o, "abc", 3, &err) &&
           ctr_out_commit(o, &err) == CTR_ESYS && strstr(err.what, "No space left"),
       "a full device is an error at commit at the latest");
    ctr_out_free(o);
}

static void add_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    __atomic_fetch_add((int64_t *)ctx, task, __ATOMIC_RELAXED);
}

static void count_task(void *ctx, int64_t task, int worker)
{
    (void)task, (void)worker;
    __atomic_fetch_add((int64_t *)ctx, 1, __ATOMIC_RELAXED);
}

/* Half of the smallest normal number, or 0. */
static bool flushes(void)
{
    volatile double least = DBL_MIN;
    return least * 0.5 == 0;
}

static void count_flushing(void *ctx, int64_t task, int worker)
{
    (void)task, (void)worker;
    __atomic_fetch_add((int64_t *)ctx, flushes(), __ATOMIC_RELAXED);
}

/* On other processors than x86-64 all modes are IEEE. */
static void test_float_mode(void)
{
    const enum ctr_float_mode modes[] = { CTR_FLOAT_IEEE, CTR_FLOAT_FLUSH };
    ctr_float_mode(CTR_FLOAT_FLUSH);
    const bool can = flushes();
    ctr_float_mode(CTR_FLOAT_IEEE);
    for (int i = 0; i < 8; i++) {
        const enum ctr_float_mode mine = modes[i & 1], pools = modes[i >> 1 & 1];
        struct ctr_pool *p;
        int64_t flushed = 0;
        ctr_float_mode(mine);
        const int rc = ctr_pool_new(&p, i & 4 ? 3 : 1, pools, &err);
        const bool before = flushes();
        ctr_pool_run(p, 100, count_flushing, &flushed);
        ctr_pool_run(p, 1, count_flushing, &flushed);
        ok(!rc && flushed == (pools == CTR_FLOAT_FLUSH && can ? 101 : 0) &&
               before == (mine == CTR_FLOAT_FLUSH && can) && flushes() == before,
           "tasks run in the pool's mode, the caller keeps its own: %d", i);
        ctr_pool_free(p);
    }
    ctr_float_mode(CTR_FLOAT_IEEE);
}

static void test_pool(void)
{
    struct ctr_pool *p;
    int64_t sum = 0;

    ok(!ctr_pool_new(&p, 4, CTR_FLOAT_IEEE, &err) && ctr_pool_threads(p) == 4, "a pool of four");
    for (int round = 0; round < 1000; round++)
        ctr_pool_run(p, 10, add_task, &sum);
    ok(sum == 45000, "every task ran once a round");
    ctr_pool_free(p);

    /* Short runs one after another, of threads that stay awake: one that comes too late for a run is not waited for,
     * and must not take what is left of the next one's tasks as this one's. */
    int64_t wrong = 0;
    ok(!ctr_pool_new(&p, 2, CTR_FLOAT_IEEE, &err), "a pool of two");
    ctr_pool_stay_awake(p);
    for (int64_t i = 0; i < 20000; i++) {
        int64_t ran = 0;
        ctr_pool_run(p, i % 5, count_task, &ran);
        wrong += ran != i % 5;
    }
    ok(wrong == 0, "20000 short runs: %lld wrong", (long long)wrong);
    ctr_pool_free(p);
}

/* Two buffers that grow in turns stand in each other's way, so that their pages move. */
static void test_large_buffers(void)
{
    enum { PART = 1 << 20, PARTS = 40 };
    struct ctr_buf b[2] = { 0 };
    uint8_t *part = malloc(PART);
    int wrong = 0;

    for (int k = 0; part && k < 2 * PARTS; k++) {
        memset(part, k, PART);
        wrong += ctr_buf_append(&b[k % 2], part, PART, &err) || (uintptr_t)b[k % 2].data % 64;
    }
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < b[side].len; i++)
            wrong += b[side].data[i] != (uint8_t)(2 * (i / PART) + (size_t)side);
        for (int k = 0; k < CTR_PAD; k++) /* readable */
            wrong += b[side].data[b[side].cap + (size_t)k] != 0;
        ctr_buf_free(&b[side]);
    }
    ok(!wrong, "large buffers keep their bytes where they grow");
    free(part);
}

int main(void)
{
    test_strings();
    test_large_buffers();
    test_strs();
    test_quoting();
    test_formats();
    test_hash();
    test_out();
    test_pool();
    test_float_mode();
    return done_testing();
}
