/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-text-alloc: the N-th allocation fails, for every N, while text of each format is imported and exported again:
 * the error says so, nothing leaks. Buffers grow where a value no longer fits; so that each place that writes is the
 * one where they do, the same rows come with a text of every length up to that of the smallest buffer.
 */
#include "alloc.h"
#include "tools/ctr-export/export.h"
#include "common/text/fields.h"
#include "common/text/text.h"
#include "sites.h"
#include "tap.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if !ALLOC_WATCHED
int main(void)
{
    printf("1..0 # SKIP the allocator is the sanitizer's\n");
    return 0;
}
#else

enum { LONGEST = 260 }; /* of '@' */

struct round_trip {
    const char *what;
    const struct ctr_text_format *from;
    struct ctr_text_opts in;
    const char *to;
    struct ctr_export_opts out;
    const char *text;  /* '@' is as long as it is made */
    const char *piece; /* of '@'; NULL: a digit */
    bool pauses;       /* it comes through a pipe, whose writer waits at the end */
};

#define OUT                                                                                                            \
    {                                                                                                                  \
        .threads = 1                                                                                                   \
    }
static const char cells[] = "@,1,2.5,true,2019-11-14T00:00:00Z,\"[1,2]\",\"a "
                            "\"\"b\"\"\"\nx,,,,,,\nx,-1,1e9,false,2019-11-14T00:00:00.5Z,[],\xc3\xa9\n";
static const char columns[] = "s,i:int32,f:float64,b:bool,t:timestamp,l:list<int64>,q";
static const char sparse[] = "1 2:1 3:0.5 17:1e-3@\n0 2:1\n1 4:-1 9:2\n";
static const char blocks[] = "1 0:2:1 1:3:0.5 7:17:1e-3@\n0 0:2:1\n1 2:4:-1 3:9:2\n";
static const char vw[] = "1 2.5 't@|a x:2 y@ |b.c:0.5 z 7:3 |_ k\n-1 |a x |ns.label u\n1 'tag3|b.c q@\n";

#define STEPS_3(s)     s s s
#define STEPS(name, s) name STEPS_3(STEPS_3(STEPS_3(s))) "d:utf8"
static char set_aside[96]; /* quarantine=FILE */
static struct ctr_schema like, like_text, like_keys;

static struct round_trip trips[] = {
    { "csv to csv", &ctr_text_csv, { .columns = columns }, "csv", OUT, cells },
    { "csv, a thread more, to tsv",
      &ctr_text_csv,
      { .columns = columns, .jobs = 2, .block_bytes = 64 },
      "tsv",
      OUT,
      cells },
    { "csv to gzip",
      &ctr_text_csv,
      { .columns = columns, .batch_rows = 2 },
      "csv",
      { .threads = 1, .gzip = true },
      cells },
    { "csv to jsonl", &ctr_text_csv, { .columns = columns }, "jsonl", OUT, cells },
    { "csv with a header",
      &ctr_text_csv,
      { .header = true, .columns = "z=b:int8", .latin1 = true },
      "jsonl",
      OUT,
      "a.x@,b,a.y.z\n1,2,3\n@,4,\n" },
    { "csv with bad rows",
      &ctr_text_csv,
      { .columns = "a:int8,b", .bad_rows = "skip=10" },
      "csv",
      OUT,
      "1,@\nx,@\n1,2,3\n2,\xff\n" },
    { "latin1, inferred",
      &ctr_text_csv,
      { .delimiter = "::", .latin1 = true },
      "csv",
      OUT,
      "caf\xe9::@::1\n\xe9::b::2.5\n" },
    { "csv with quotes, inferred", &ctr_text_csv, { 0 }, "csv", OUT, "\"a\"\"@\",1\n\"\"\"@\",-2.5\n" },
    { "jsonl with dots in names",
      &ctr_text_jsonl,
      { 0 },
      "jsonl",
      OUT,
      "{\"a\":1,\"a.b@\":2,\"c\":{\"d\":1,\"e\":2}}\n{\"c\":3,\"a.b\":1}\n" },
    { "jsonl to jsonl",
      &ctr_text_jsonl,
      { 0 },
      "jsonl",
      OUT,
      "{\"a@\":1,\"b\":{\"c\":\"x\\u00e9@\",\"d\":[1,2]}}\n{\"a\":2.5,\"b\":{\"c\":null,\"d\":[]},\"e\":true}\n" },
    { "jsonl by paths",
      &ctr_text_jsonl,
      { .columns = "p=b.d.1:int64,whole=b,t=t:timestamp,m:list<utf8>", .bad_rows = "skip=9" },
      "jsonl",
      OUT,
      "{\"a\":1,\"b\":{\"c\":\"x@\",\"d\":[1,2]},\"m\":[\"@\",\"b\"]}\n{\"b\":\"@\\n\",\"t\":\"1970\"}\n{nothing}\n{"
      "\"m\":[\"a@\",null],\"t\":\"1970-01-01\"}\n" },
    { "jsonl to npy",
      &ctr_text_jsonl,
      { .columns = "a:int64,b:float32" },
      "npy",
      OUT,
      "{\"a\":1,\"b\":2,\"c\":\"@\"}\n{\"a\":2,\"b\":3}\n" },
    { "libsvm, keys as text", &ctr_text_libsvm, { .keys = "text" }, "vw", OUT, sparse, " 9:1" },
    { "libsvm",
      &ctr_text_libsvm,
      { .keys = "key", .binary = true },
      "libsvm",
      OUT,
      "+1 qid:4 2:1 3:0.5 17:1e-3 # @\n-1 qid:5 2:1\n" },
    { "libsvm, folded",
      &ctr_text_libsvm,
      { .keys = "hash", .bad_rows = "skip=3" },
      "libsvm",
      { .threads = 1, .bits = 7 },
      sparse,
      " 9:1" },
    { "libffm", &ctr_text_libffm, { 0 }, "libffm", OUT, blocks, " 3:9:1" },
    { "libffm, picked", &ctr_text_libffm, { .keys = "text", .columns = "f1,f7" }, "jsonl", OUT, blocks, " 3:9:1" },
    { "vw", &ctr_text_vw, { 0 }, "vw", OUT, vw },
    { "vw, keys as text", &ctr_text_vw, { .keys = "text" }, "vw", OUT, vw },
    { "vw, picked", &ctr_text_vw, { .keys = "text", .columns = "b.c,tag" }, "libffm", OUT, vw },
    { "csv, its columns renamed, with quotes and bad cells",
      &ctr_text_csv,
      { .header = true, .columns = "x,y:int8", .bad_rows = "skip=9" },
      "jsonl",
      OUT,
      "\"a\"\"@\",b\n1,2\n3,\"4\"\"@\"\n" },
    { "csv with a list of weighted keys and times, to jsonl",
      &ctr_text_jsonl,
      { .like = &like_keys },
      "jsonl",
      OUT,
      "{\"k\":[{\"key\":18446744073709551615,\"weight\":0.5},{\"key\":8}],\"t\":\"1970-01-01\",\"f\":0.1,\"u\":{\"v\":"
      "\"@\",\"w\":[\"1970-"
      "01-01\","
      "null]}}\n" },
    { "latin1 with bad rows set aside",
      &ctr_text_csv,
      { .columns = "a:int8,b", .latin1 = true, .bad_rows = set_aside },
      "csv",
      OUT,
      "1,@\nx\xe9,@\n" },
    { "csv like another", &ctr_text_csv, { .header = true, .like = &like }, "csv", OUT, "b,a\n1,@\n2,@\n" },
    { "jsonl like another", &ctr_text_jsonl, { .like = &like }, "csv", OUT, "{\"b\":1,\"a\":\"@\"}\n" },
    { "vw like another", &ctr_text_vw, { .like = &like_text, .keys = "text" }, "vw", OUT, "1 |a x@ y |b z\n" },
    { "libsvm with queries and times, to libsvm",
      &ctr_text_csv,
      { .columns = "l:float32,q:int64,t:timestamp,a:float64,b:float64",
        .role = { [CTR_ROLE_LABEL] = "l", [CTR_ROLE_QUERY] = "q" } },
      "libsvm",
      OUT,
      "1,2,2019-11-14,2.5,0.@\n0,2,2019-11-14,1,1.25\n" },
    { "labels of a letter, with queries, to libsvm",
      &ctr_text_csv,
      { .columns = "l:bool,q:int64,a:float64", .role = { [CTR_ROLE_LABEL] = "l", [CTR_ROLE_QUERY] = "q" } },
      "libsvm",
      OUT,
      "1,2,0.@\n0,2,1.25\n" },
    { "labels of a letter, with importance, to vw",
      &ctr_text_csv,
      { .columns = "l:bool,w:float32,a:float64", .role = { [CTR_ROLE_LABEL] = "l", [CTR_ROLE_WEIGHT] = "w" } },
      "vw",
      OUT,
      "1,2,0.@\n0,,1.25\n" },
    { "lists of texts and of times, to jsonl",
      &ctr_text_jsonl,
      { .columns = "m:list<utf8>,w:list<timestamp>" },
      "jsonl",
      OUT,
      "{\"m\":[\"@\",\"b\",\"c\"],\"w\":[\"1970-01-01\",\"1970-01-02\"]}\n" },
    { "a path of more steps than a tree has at first",
      &ctr_text_jsonl,
      { .columns = STEPS("x=", "a.") "," STEPS("y=", "b.") "," STEPS("z=", "c.") },
      "jsonl",
      OUT,
      "{\"a\":\"@\"}\n" },
    { "csv with importance, to vw",
      &ctr_text_csv,
      { .columns = "l:float32,w:float32,i,a:float64,b:float64",
        .role = { [CTR_ROLE_LABEL] = "l", [CTR_ROLE_WEIGHT] = "w", [CTR_ROLE_ID] = "i" } },
      "vw",
      OUT,
      "1,2,i@,2.5,0.@\n0,2,j,1,1.25\n" },
    { "csv whose writer waits before its types are known",
      &ctr_text_csv,
      { .header = true, .idle_ms = 1 },
      "csv",
      OUT,
      "a,b\n1,@\n2,@\n",
      .pauses = true },
};

static char in_path[32], out_path[32];
static int in_fd, out_fd;

static void put(const char *text, const char *piece, int pad)
{
    static char made[1 << 16];
    size_t n = 0;
    for (; *text; text++)
        if (*text != '@')
            made[n++] = *text;
        else
            for (int i = 0; i < pad; i++, n += strlen(piece))
                memcpy(made + n, piece, strlen(piece));
    if (ftruncate(in_fd, 0) || pwrite(in_fd, made, n, 0) != (ssize_t)n || ftruncate(out_fd, 0) ||
        lseek(out_fd, 0, SEEK_SET))
        printf("Bail out! cannot write\n");
}

/* The writer of a pipe waits, once, and ends. */
static int pipe_in = -1;
int poll(struct pollfd *f, nfds_t n, int ms)
{
    (void)f, (void)ms;
    const bool waits = pipe_in >= 0;
    close(pipe_in);
    pipe_in = -1;
    return waits ? 0 : (int)n;
}

static int open_pipe(char *to, size_t size)
{
    char text[1 << 12];
    int p[2];
    const ssize_t n = pread(in_fd, text, sizeof text, 0);
    if (n < 0 || pipe(p) || write(p[1], text, (size_t)n) != n)
        printf("Bail out! cannot write\n");
    pipe_in = p[1];
    snprintf(to, size, "/dev/fd/%d", p[0]);
    return p[0];
}

/* `late`: allocations fail from the first batch on. */
static int run(const struct round_trip *t, long late, struct ctr_err *err)
{
    char pipe_path[32], *paths[] = { t->pauses ? pipe_path : in_path };
    const int from = t->pauses ? open_pipe(pipe_path, sizeof pipe_path) : -1;
    struct ctr_import *im = NULL;
    struct ctr_export *e = NULL;
    struct ctr_out *out = NULL;
    struct ctr_text_opts in = t->in;
    in.optional = true; /* one line lacks a path with reason */
    struct ctr_export_opts o = t->out;
    const struct ctr_batch *b;
    o.total_rows = -1;
    in.format = t->from;
    int rc = ctr_out_open(&out, out_path, 0, err);
    if (!rc)
        rc = ctr_import_open(&im, &in, paths, 1, err);
    for (int r = 0; r < CTR_NROLES && !rc; r++)
        o.role[r] = ctr_schema_role(ctr_import_schema(im), (enum ctr_role)r);
    if (!rc)
        rc = ctr_export_open(&e, ctr_export_find(t->to), ctr_import_schema(im), &o, out, err);
    if (late)
        alloc_countdown = late;
    while (!rc && (rc = ctr_import_next(im, &b, err)) > 0)
        rc = ctr_export_batch(e, b, err);
    if (!rc)
        rc = ctr_import_finish(im, err);
    if (!rc)
        rc = ctr_export_finish(e, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_export_free(e);
    ctr_import_free(im);
    ctr_out_free(out);
    close(pipe_in);
    close(from);
    pipe_in = -1;
    return rc;
}

static void fail_each(const struct round_trip *t)
{
    long n = 0, total = 0, wrong = 0, leaks = 0, unread = 0;
    for (int pad = 1; pad <= LONGEST; pad += pad < 66 ? 1 : 13) {
        bool failed = true;
        put(t->text, t->piece ? t->piece : "7", pad);
        if (pad == 1) { /* threads leave their stacks to later ones */
            struct ctr_err err = { 0 };
            (void)!run(t, 0, &err);
        }
        for (n = 1; failed && n < 20000; n++) {
            struct ctr_err err = { 0 };
            alloc_arm(pad == 1 ? n : 1 << 20);
            int rc = run(t, pad == 1 ? 0 : n, &err);
            if (alloc_live && leaks++ < 3)
                printf("# allocation %ld of pad %d: %ld left\n", n, pad, alloc_live);
            failed = alloc_disarm();
            if (failed && rc && rc != CTR_ENOMEM && wrong++ < 3)
                printf("# allocation %ld of pad %d: %d %s\n", n, pad, rc, err.what);
            if (!failed && rc && unread++ < 3)
                printf("# pad %d: %s\n", pad, err.what);
            total += failed;
        }
    }
    ok(!wrong && !leaks && !unread && total > 50, "%s: %ld allocations failed one by one, %ld wrong, %ld leaks",
       t->what, total, wrong, leaks);
}

static int run_once(void *trip, struct ctr_err *err)
{
    if (ftruncate(out_fd, 0) || lseek(out_fd, 0, SEEK_SET))
        return CTR_ESYS;
    return run(trip, 0, err);
}

static void fail_sites(struct round_trip *t)
{
    struct sites_tally n = { 0 };
    put(t->text, t->piece ? t->piece : "7", 3);
    sites_each(run_once, t, &n);
    ok(!n.wrong && !n.leaks && n.sites > 10, "%s: %ld calls from %ld places failed, %ld wrong, %ld leaks", t->what,
       n.failed, n.sites, n.wrong, n.leaks);
}

int main(void)
{
    in_fd = memfd_create("in", 0);
    out_fd = memfd_create("out", 0);
    snprintf(in_path, sizeof in_path, "/dev/fd/%d", in_fd);
    snprintf(out_path, sizeof out_path, "/dev/fd/%d", out_fd);
    snprintf(set_aside, sizeof set_aside, "quarantine=%s/ctr-unit-text-alloc-%d",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid());
    struct ctr_err err;
    if (ctr_schema_add(&like, "a", CTR_UTF8, &err) || ctr_schema_add(&like, "b", CTR_I64, &err) ||
        ctr_schema_add(&like_text, "a", CTR_LIST, &err) || ctr_schema_add(&like_text, "b", CTR_LIST, &err))
        return 1;
    if (ctr_schema_add(&like_keys, "k", CTR_LIST, &err) || ctr_schema_add(&like_keys, "t", CTR_TIME, &err) ||
        ctr_schema_add(&like_keys, "f", CTR_F32, &err) || ctr_schema_add(&like_keys, "u.v", CTR_UTF8, &err) ||
        ctr_schema_add(&like_keys, "u.w", CTR_LIST, &err))
        return 1;
    like_text.f[0].item = like_text.f[1].item = CTR_UTF8;
    like_keys.f[0].item = CTR_WKEY;
    like_keys.f[4].item = CTR_TIME;
    for (size_t i = 0; i < CTR_COUNT(trips); i++)
        fail_each(&trips[i]);
    sites_tries = 48;
    for (size_t i = 0; i < CTR_COUNT(trips); i++)
        fail_sites(&trips[i]);
    ctr_schema_free(&like);
    ctr_schema_free(&like_text);
    ctr_schema_free(&like_keys);
    unlink(set_aside + strlen("quarantine="));
    unlink(strcat(set_aside, ".why") + strlen("quarantine="));
    return done_testing();
}
#endif
