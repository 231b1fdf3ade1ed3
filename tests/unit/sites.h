/* SPDX-License-Identifier: Apache-2.0
 *
 * sites: the small helpers by which text, columns and schemas grow fail, once at each place in the library that calls
 * them, at its first calls and at its last. (An allocation that fails shows only those places at which a buffer happens
 * to be full.) The linker leads the calls of other files through here: the Makefile makes its list from the lines that
 * begin with SITE.
 *
 *     sites_each(run, ctx, &t)     run(ctx, err) returns 0, or the error that came */
#ifndef CTR_TEST_SITES_H
#define CTR_TEST_SITES_H

#include <pthread.h>
#include <stdio.h>

#include "alloc.h"
#include "common/plan/plancore.h"
#include "common/stream/stream.h"
#include "common/text/json.h"

enum { SITES = 1 << 14 };
enum sites_mode { SITES_OFF, SITES_COUNT, SITES_FAIL };
static struct site {
    const void *at; /* where the call comes from */
    long calls;
} site[SITES];
static enum sites_mode sites_mode;
static const void *sites_at;
static long sites_to_go;
static long sites_tries = 2; /* first calls of a place; and its last */
static pthread_mutex_t sites_lock = PTHREAD_MUTEX_INITIALIZER;

static bool site_fails(const void *at)
{
    if (sites_mode == SITES_FAIL)
        return at == sites_at && !__atomic_sub_fetch(&sites_to_go, 1, __ATOMIC_RELAXED);
    if (sites_mode == SITES_COUNT) {
        pthread_mutex_lock(&sites_lock);
        size_t i = ((uintptr_t)at * 0x9e3779b97f4a7c15u >> 40) % SITES;
        while (site[i].at && site[i].at != at)
            i = (i + 1) % SITES;
        site[i].at = at;
        site[i].calls++;
        pthread_mutex_unlock(&sites_lock);
    }
    return false;
}

/* What of the arguments is emptied by a failure comes last. */
#define SITE(name, params, args, ...)                                                                                  \
    int __real_##name params;                                                                                          \
    int __wrap_##name params;                                                                                          \
    int __wrap_##name params                                                                                           \
    {                                                                                                                  \
        if (!site_fails(__builtin_return_address(0)))                                                                  \
            return __real_##name args;                                                                                 \
        __VA_ARGS__;                                                                                                   \
        return ctr_fail_nomem(err, 1);                                                                                 \
    }
/* A buffer has no more room than was asked for, so that the writers that look for room themselves ask each time. */
int __real_ctr_buf_reserve(struct ctr_buf *b, size_t n, struct ctr_err *err);
int __wrap_ctr_buf_reserve(struct ctr_buf *b, size_t n, struct ctr_err *err);
int __wrap_ctr_buf_reserve(struct ctr_buf *b, size_t n, struct ctr_err *err)
{
    if (site_fails(__builtin_return_address(0)))
        return ctr_fail_nomem(err, n);
    const int rc = __real_ctr_buf_reserve(b, n, err);
    if (!rc && sites_mode != SITES_OFF && b->cap < 1 << 20)
        b->cap = b->len + n;
    return rc;
}
/* clang-format off */
SITE(ctr_field_set_role, (struct ctr_field *f, enum ctr_role role, struct ctr_err *err), (f, role, err))
SITE(ctr_buf_room, (struct ctr_buf *b, int64_t n, size_t size, struct ctr_err *err), (b, n, size, err))
SITE(ctr_buf_append, (struct ctr_buf *b, const void *p, size_t n, struct ctr_err *err), (b, p, n, err))
SITE(ctr_strs_add, (struct ctr_strs *l, const char *s, size_t n, struct ctr_err *err), (l, s, n, err))
SITE(ctr_strdup, (char **out, const char *s, struct ctr_err *err), (out, s, err), *out = NULL)
SITE(ctr_memdup, (char **out, const char *s, size_t n, struct ctr_err *err), (out, s, n, err), *out = NULL)
SITE(ctr_quote_name, (struct ctr_buf *b, const char *name, struct ctr_err *err), (b, name, err))
SITE(ctr_quote_in, (struct ctr_buf *b, char quote, const char *s, size_t n, struct ctr_err *err), (b, quote, s, n, err))
SITE(ctr_buf_quote, (struct ctr_buf *b, const char *s, size_t n, struct ctr_err *err), (b, s, n, err))
SITE(ctr_write_full, (int fd, const void *p, size_t n, struct ctr_err *err), (fd, p, n, err))
SITE(ctr_pread_full, (int fd, void *p, size_t n, int64_t at, struct ctr_err *err), (fd, p, n, at, err))
SITE(ctr_tmpfile, (struct ctr_err *err), (err))
SITE(ctr_out_write, (struct ctr_out *o, const void *p, size_t n, struct ctr_err *err), (o, p, n, err))
SITE(ctr_meta_set, (struct ctr_meta *m, const char *key, const char *value, struct ctr_err *err), (m, key, value, err))
SITE(ctr_schema_add, (struct ctr_schema *s, const char *name, enum ctr_type type, struct ctr_err *err), (s, name, type, err))
SITE(ctr_schema_add_field, (struct ctr_schema *s, const struct ctr_field *f, const char *name, struct ctr_err *err), (s, f, name, err))
SITE(ctr_schema_copy, (struct ctr_schema *to, const struct ctr_schema *from, struct ctr_err *err), (to, from, err), memset(to, 0, sizeof *to))
SITE(ctr_colbuf_init, (struct ctr_colbuf *b, const struct ctr_field *f, struct ctr_err *err), (b, f, err), memset(b, 0, sizeof *b))
SITE(ctr_colbuf_null, (struct ctr_colbuf *b, struct ctr_err *err), (b, err))
SITE(ctr_colbuf_i64, (struct ctr_colbuf *b, int64_t v, struct ctr_err *err), (b, v, err))
SITE(ctr_colbuf_f64, (struct ctr_colbuf *b, double v, struct ctr_err *err), (b, v, err))
SITE(ctr_colbuf_str, (struct ctr_colbuf *b, const char *p, size_t n, struct ctr_err *err), (b, p, n, err))
SITE(ctr_colbuf_close, (struct ctr_colbuf *b, struct ctr_err *err), (b, err))
SITE(ctr_colbuf_wkey, (struct ctr_colbuf *b, uint64_t key, float weight, struct ctr_err *err), (b, key, weight, err))
SITE(ctr_colbuf_range, (struct ctr_colbuf *b, const struct ctr_col *c, int64_t from, int64_t n, struct ctr_err *err), (b, c, from, n, err))
SITE(ctr_batchbuf_init, (struct ctr_batchbuf *b, const struct ctr_schema *s, struct ctr_err *err), (b, s, err), memset(b, 0, sizeof *b))
SITE(ctr_json_quote, (struct ctr_buf *b, const char *p, size_t n, struct ctr_err *err), (b, p, n, err))
SITE(ctr_schema_provenance, (struct ctr_schema *s, const char *program, const char *options, struct ctr_err *err), (s, program, options, err))
/* clang-format on */

/* Those that return something else, or whose arguments vary. */
int __wrap_ctr_buf_printf(struct ctr_buf *b, struct ctr_err *err, const char *fmt, ...) CTR_PRINTF(3, 4);
int __wrap_ctr_buf_printf(struct ctr_buf *b, struct ctr_err *err, const char *fmt, ...)
{
    va_list ap;
    if (site_fails(__builtin_return_address(0)))
        return ctr_fail_nomem(err, 1);
    va_start(ap, fmt);
    const size_t n = (size_t)vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    const int rc = __real_ctr_buf_reserve(b, n + 1, err);
    if (rc)
        return rc;
    va_start(ap, fmt);
    vsnprintf((char *)b->data + b->len, n + 1, fmt, ap);
    va_end(ap);
    b->len += n;
    return 0;
}
int __wrap_ctr_out_printf(struct ctr_out *o, struct ctr_err *err, const char *fmt, ...) CTR_PRINTF(3, 4);
int __wrap_ctr_out_printf(struct ctr_out *o, struct ctr_err *err, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return site_fails(__builtin_return_address(0)) ? ctr_fail_nomem(err, 1)
                                                   : __real_ctr_out_write(o, text, (size_t)n, err);
}
void *__real_ctr_arena_alloc(struct plan_arena *a, size_t n, struct ctr_err *err);
void *__wrap_ctr_arena_alloc(struct plan_arena *a, size_t n, struct ctr_err *err);
void *__wrap_ctr_arena_alloc(struct plan_arena *a, size_t n, struct ctr_err *err)
{
    return site_fails(__builtin_return_address(0)) ? ctr_fail_nomem(err, n), NULL : __real_ctr_arena_alloc(a, n, err);
}
char *__real_ctr_arena_copy(struct plan_arena *a, const char *p, size_t n, struct ctr_err *err);
char *__wrap_ctr_arena_copy(struct plan_arena *a, const char *p, size_t n, struct ctr_err *err);
char *__wrap_ctr_arena_copy(struct plan_arena *a, const char *p, size_t n, struct ctr_err *err)
{
    return site_fails(__builtin_return_address(0)) ? ctr_fail_nomem(err, n), NULL : __real_ctr_arena_copy(a, p, n, err);
}

/* What came of it. */
struct sites_tally {
    long sites, failed, wrong, leaks; /* places; calls that failed; other errors than that; what was not freed */
};

static void sites_fail(const struct site *s, long nth, int (*run)(void *ctx, struct ctr_err *err), void *ctx,
                       struct sites_tally *t)
{
    struct ctr_err err = { 0 };
    sites_at = s->at;
    sites_to_go = nth;
    sites_mode = SITES_FAIL;
    alloc_arm(-1);
    const int rc = run(ctx, &err);
    if (alloc_live && ALLOC_WATCHED && t->leaks++ < 3)
        printf("# call %ld of the site %p: %ld left\n", nth, s->at, alloc_live);
    (void)alloc_disarm();
    sites_mode = SITES_OFF;
    t->failed += sites_to_go < 1;
    if (rc && rc != CTR_ENOMEM && t->wrong++ < 3)
        printf("# call %ld of the site %p: %d %s\n", nth, s->at, rc, err.what);
}

static inline void sites_each(int (*run)(void *ctx, struct ctr_err *err), void *ctx, struct sites_tally *t)
{
    struct ctr_err err = { 0 };
    memset(site, 0, sizeof site);
    sites_mode = SITES_COUNT;
    int rc = run(ctx, &err);
    sites_mode = SITES_OFF;
    if (rc) {
        printf("# without a failure: %d %s\n", rc, err.what);
        t->wrong++;
    }
    for (size_t i = 0; i < SITES; i++) {
        const long last = site[i].calls;
        t->sites += last > 0;
        for (long nth = 1; nth <= last; nth = nth < sites_tries ? nth + 1 : CTR_MAX(nth + 1, last))
            sites_fail(&site[i], nth, run, ctx, t);
    }
}

#endif
