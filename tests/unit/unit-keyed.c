/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-keyed: get-many against a plain scan, for keys that are there and that are not, unique and repeated, numbers,
 * text and times; blocks that no key needs stay unread.
 */
#include "common/stream/stream.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct ctr_err err;
static char path[64];

static void must(int rc, const char *what)
{
    if (rc < 0) {
        printf("Bail out! %s: %s: %s\n", what, err.file, err.what);
        exit(1);
    }
}

/* Key number v as a value of type t; monotone in v. */
static void put_key(struct ctr_colbuf *b, enum ctr_type t, int64_t v)
{
    char text[32];
    if (t == CTR_UTF8)
        must(ctr_colbuf_str(b, text, (size_t)snprintf(text, sizeof text, v ? "k,%%%06d\xc3\xa4\n" : "", (int)v), &err),
             "str");
    else if (t == CTR_F64)
        must(ctr_colbuf_f64(b, (double)v / 3, &err), "f64");
    else
        must(ctr_colbuf_i64(b, v * (t == CTR_TIME ? 86400 : 1), &err), "i64");
}

static void make_schema(struct ctr_schema *s, enum ctr_type t)
{
    must(ctr_schema_add(s, "value", CTR_I64, &err), "add");
    must(ctr_schema_add(s, "key", t, &err), "add");
    must(ctr_schema_add(s, "name", CTR_UTF8, &err), "add");
}

/* `rows` rows with key 2 * (i / repeat), a null key last; returns finish's code. */
static int write_file(const struct ctr_schema *s, int64_t rows, int repeat, bool sorted, enum ctr_compression how)
{
    struct ctr_out *o;
    struct ctr_writer *w;
    struct ctr_batchbuf b;
    struct ctr_writer_opts opts = { .batch_rows = 10, .file = true, .key = "key", .compression = how };
    must(ctr_batchbuf_init(&b, s, &err), "batchbuf");
    for (int64_t i = 0; i < rows; i++) {
        char text[32];
        must(ctr_colbuf_i64(&b.col[0], i, &err), "value");
        put_key(&b.col[1], s->f[1].type, sorted ? i / repeat * 2 : rows - i);
        must(ctr_colbuf_str(&b.col[2], text, (size_t)snprintf(text, sizeof text, "row %d", (int)i), &err), "name");
    }
    must(ctr_colbuf_i64(&b.col[0], -1, &err), "value");
    must(ctr_colbuf_null(&b.col[1], &err), "null");
    must(ctr_colbuf_null(&b.col[2], &err), "null");
    must(ctr_out_open(&o, path, 0, &err), "out");
    must(ctr_writer_open(&w, o, s, &opts, &err), "writer");
    int rc = ctr_writer_batch(w, ctr_batchbuf_view(&b), &err);
    if (rc >= 0) {
        must(ctr_writer_finish(w, &err), "finish");
        must(ctr_out_commit(o, &err), "commit");
    }
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_batchbuf_free(&b);
    return rc;
}

static int64_t count(const bool *found, int64_t n)
{
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++)
        k += found[i];
    return k;
}

static void test_lookups(enum ctr_type t, int repeat, enum ctr_compression how)
{
    struct ctr_schema s = { 0 };
    struct ctr_keyed *k;
    struct ctr_colbuf keys;
    struct ctr_batchbuf out;
    bool found[400];
    int64_t rows = 333, n = 0, bad = 0;
    make_schema(&s, t);
    must(write_file(&s, rows, repeat, true, how), "write");
    must(ctr_keyed_open(&k, path, &err), "open");
    must(ctr_colbuf_init(&keys, &s.f[1], &err), "keys");
    must(ctr_batchbuf_init(&out, &s, &err), "out");
    for (; n < 399; n++) /* odd ones are absent, some beyond the end */
        put_key(&keys, t, (int64_t)(ctr_random64(7, 0, (uint64_t)n) % 800));
    must(ctr_colbuf_null(&keys, &err), "null");
    n++;
    must(ctr_keyed_get_many(k, ctr_colbuf_view(&keys), &out, found, &err), "get");
    const struct ctr_batch *b = ctr_batchbuf_view(&out);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = i == 399 ? -1 : (int64_t)(ctr_random64(7, 0, (uint64_t)i) % 800);
        bool there = v >= 0 && v % 2 == 0 && v / 2 * repeat < rows;
        bad += found[i] != there || ctr_col_null(&b->col[0], i) == there;
        if (there && found[i])
            bad += ctr_col_i64(&b->col[0], i) != v / 2 * repeat ||
                   ctr_col_compare(&b->col[1], i, ctr_colbuf_view(&keys), i);
    }
    ok(!bad && b->rows == n, "%s, keys %d times, compression %d: %lld wrong", ctr_types[t].name, repeat, (int)how,
       (long long)bad);
    const int64_t read = ctr_keyed_blocks_read(k), first = count(found, n);
    ctr_batchbuf_clear(&out);
    must(ctr_keyed_get_many(k, ctr_colbuf_view(&keys), &out, found, &err), "get");
    ok(ctr_keyed_blocks_read(k) == read && count(found, n) == first,
       "%lld blocks, more than are kept: those that come again are verified already", (long long)read);
    ctr_keyed_free(k);

    must(ctr_keyed_open(&k, path, &err), "open");
    ctr_colbuf_clear(&keys);
    ctr_batchbuf_clear(&out);
    put_key(&keys, t, 102);
    must(ctr_keyed_get_many(k, ctr_colbuf_view(&keys), &out, found, &err), "get");
    ok(ctr_keyed_blocks_read(k) <= (repeat > 1 ? 2 : 1), "one key reads one block");
    ctr_colbuf_free(&keys);
    ctr_batchbuf_free(&out);
    ctr_keyed_free(k);
    ctr_schema_free(&s);
}

/* Another first key in the footer, of the same length, sealed again: it must be a value of the type of the key. */
static void test_footer(enum ctr_type t, const char *key, const char *says)
{
    struct ctr_schema s = { 0 };
    struct ctr_keyed *k = NULL;
    static char p[1 << 16];
    char hex[33];
    make_schema(&s, t);
    must(write_file(&s, 333, 1, true, CTR_PLAIN), "write");
    FILE *f = fopen(path, "r+b");
    size_t n = f ? fread(p, 1, sizeof p, f) : 0;
    int32_t length;
    memcpy(&length, p + n - 10, 4);
    char *footer = p + n - 10 - length, *keys = memmem(footer, (size_t)length, "ctr.keys", 9);
    char *digits = memmem(footer, (size_t)length, "ctr.xxh3", 9);
    keys += 12 + 4; /* the text begins after its length */
    while (*keys != ',')
        keys++;
    memcpy(keys + 1, key, strlen(key)); /* the second block's */
    for (digits += 9; strspn(digits, "0123456789abcdef") < 32; digits++)
        ;
    memset(digits, '0', 32);
    struct ctr_hash128 h = ctr_hash128(footer, (size_t)length);
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
    memcpy(digits, hex, 32);
    rewind(f);
    must(fwrite(p, 1, n, f) == n && !fclose(f) ? 0 : -1, "put");
    int rc = ctr_keyed_open(&k, path, &err);
    ok(says ? rc == CTR_EDATA && strstr(err.what, says) : rc == 0, "%s, keys '%s': %s", ctr_types[t].name, key,
       rc < 0 ? err.what : "read");
    ctr_keyed_free(k);
    ctr_schema_free(&s);
}

int main(void)
{
    static const struct {
        enum ctr_type t;
        const char *key, *says;
    } footers[] = {
        { CTR_I64, "1", NULL },
        { CTR_I64, "x", "the keys in the footer are damaged" },
        { CTR_U64, "x", "keys in the footer are" },
        { CTR_F64, "x", "keys in the footer are" },
        { CTR_TIME, "x", "keys in the footer are" },
        { CTR_UTF8, "x", NULL },
        { CTR_UTF8, "%ZZ", "keys in the footer are" },
        { CTR_UTF8, "%2Z", "keys in the footer are" },
        { CTR_UTF8, "%/0", "keys in the footer are" },
        { CTR_UTF8, "%:0", "keys in the footer are" },
        { CTR_UTF8, "%@0", "keys in the footer are" },
        { CTR_UTF8, "%G0", "keys in the footer are" },
        { CTR_UTF8, "%4F", NULL },
        { CTR_UTF8, "%,%", "keys in the footer are" },
        { CTR_UTF8, "%-,", "keys in the footer are" },
        { CTR_UTF8, ",", "the footer has" },
    };
    static const enum ctr_type t[] = { CTR_I64, CTR_U64, CTR_UTF8, CTR_TIME, CTR_F64 };
    struct ctr_schema s = { 0 };
    struct ctr_keyed *k;
    snprintf(path, sizeof path, "/tmp/unit-keyed-%d", (int)getpid());
    for (size_t i = 0; i < CTR_COUNT(t); i++)
        for (int repeat = 1; repeat <= 25; repeat += 12)
            test_lookups(t[i], repeat, (enum ctr_compression)(repeat % 3));
    make_schema(&s, CTR_I64);
    ok(write_file(&s, 100, 1, false, CTR_PLAIN) == CTR_EDATA && strstr(err.what, "row 2 is out of order"),
       "rows out of order: %s", err.what);
    must(write_file(&s, 0, 1, true, CTR_PLAIN), "write");
    ok(ctr_keyed_open(&k, path, &err) == 0, "nothing but a null");
    ctr_keyed_free(k);
    ctr_schema_free(&s);
    for (size_t i = 0; i < CTR_COUNT(footers); i++)
        test_footer(footers[i].t, footers[i].key, footers[i].says);
    unlink(path);
    return done_testing();
}
