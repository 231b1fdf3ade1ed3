/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-op: the operators, by a table of calls. Each row runs plain, dictionary-encoded, and repeated over several
 * tiles, which must agree.
 *
 * An argument is "TYPE:value;value;…" (a column; ~ is null; in lists items are separated by ',' and ^ is a null item)
 * or
 * "=TYPE:value" (a literal). The expected result is the texts of the rows, in the same way; "!words" is an error at
 * bind whose message has the words. */
#include "common/op/gpu.h"
#include "common/op/body_hash.h"
#include "common/op/body_list.h"
#include "common/op/opint.h"
#include "common/stream/stream.h"

#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static struct ctr_err err;

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if ((x) < 0) {                                                                                                 \
            printf("# %s:%d: %s\n", __FILE__, __LINE__, err.what);                                                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- columns from text ---- */

static const struct type_name {
    const char *name;
    struct ctr_vtype type;
} type_names[] = {
    { "b", { .type = CTR_BOOL } },
    { "i8", { .type = CTR_I8 } },
    { "i32", { .type = CTR_I32 } },
    { "i", { .type = CTR_I64 } },
    { "u8", { .type = CTR_U8 } },
    { "u16", { .type = CTR_U16 } },
    { "u", { .type = CTR_U64 } },
    { "k", { .type = CTR_U64, .key = true } },
    { "f16", { .type = CTR_F16 } },
    { "f32", { .type = CTR_F32 } },
    { "f", { .type = CTR_F64 } },
    { "t", { .type = CTR_UTF8 } },
    { "T", { .type = CTR_TIME } },
    { "d", { .type = CTR_I64, .duration = true } },
    { "lt", { .type = CTR_LIST, .item = CTR_UTF8 } },
    { "li", { .type = CTR_LIST, .item = CTR_I32 } },
    { "lu", { .type = CTR_LIST, .item = CTR_U64 } },
    { "lf", { .type = CTR_LIST, .item = CTR_F64 } },
    { "lf32", { .type = CTR_LIST, .item = CTR_F32 } },
    { "v2", { .type = CTR_FIXED, .item = CTR_F32, .width = 2 } },
};

static struct ctr_vtype type_of(const char *spec)
{
    size_t n = strcspn(spec, ":");

    for (size_t i = 0; i < CTR_COUNT(type_names); i++)
        if (strlen(type_names[i].name) == n && !memcmp(type_names[i].name, spec, n))
            return type_names[i].type;
    printf("# no type in '%s'\n", spec);
    exit(1);
}

static void append(struct ctr_colbuf *b, const char *p, size_t n)
{
    int64_t i = 0;
    uint64_t u = 0;
    double f = 0;

    if (n == 1 && (*p == '~' || *p == '^')) {
        CHECK(ctr_colbuf_null(b, &err));
    } else if (b->type == CTR_UTF8) {
        CHECK(ctr_colbuf_str(b, p, n, &err));
    } else if (ctr_types[b->type].floating) {
        if (!ctr_parse_f64(p, n, &f))
            exit(1);
        CHECK(ctr_colbuf_f64(b, f, &err));
    } else if (b->type == CTR_LIST || b->type == CTR_FIXED) {
        while (n) {
            size_t k = 0;
            while (k < n && p[k] != ',')
                k++;
            append(b->item, p, k);
            p += k + (k < n);
            n -= k + (k < n);
        }
        CHECK(ctr_colbuf_close(b, &err));
    } else {
        if (b->type == CTR_BOOL)
            i = *p == 't';
        else if (b->type == CTR_TIME)
            ctr_time_parse(NULL, p, n, &i);
        else if (!ctr_parse_i64(p, n, &i) && ctr_parse_u64(p, n, &u))
            i = (int64_t)u;
        CHECK(ctr_colbuf_i64(b, i, &err));
    }
}

static void column(struct ctr_colbuf *b, const char *spec, int repeat)
{
    struct ctr_vtype t = type_of(spec);
    struct ctr_field f = { .type = t.type, .item = t.item, .width = t.width };

    CHECK(ctr_colbuf_init(b, &f, &err));
    for (int r = 0; r < repeat; r++) {
        const char *p = strchr(spec, ':') + 1;
        for (;;) {
            size_t n = strcspn(p, ";");
            append(b, p, n);
            if (!p[n])
                break;
            p += n + 1;
        }
    }
}

/* The same values behind a dictionary of distinct entries (in reverse order of appearance), nulls in both places. */
struct encoded {
    struct ctr_col col, dict;
    struct ctr_colbuf entries;
    int32_t *idx;
};
static void encode(struct encoded *e, const struct ctr_col *c, const struct ctr_vtype *t)
{
    struct ctr_field f = { .type = t->type, .item = t->item, .width = t->width };
    int64_t *first = malloc((size_t)c->rows * sizeof *first), n = 0;

    e->idx = malloc((size_t)c->rows * sizeof *e->idx);
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t k = 0;
        while (k < n && ctr_col_compare(c, first[k], c, i))
            k++;
        if (k == n)
            first[n++] = i;
        e->idx[i] = (int32_t)k;
    }
    CHECK(ctr_colbuf_init(&e->entries, &f, &err));
    for (int64_t k = n - 1; k >= 0; k--)
        CHECK(ctr_colbuf_gather(&e->entries, c, &first[k], 1, &err));
    for (int64_t i = 0; i < c->rows; i++)
        e->idx[i] = ctr_col_null(c, i) && (i & 1) ? 1 << 30 : (int32_t)(n - 1 - e->idx[i]); /* any index below a null */
    e->dict = *ctr_colbuf_view(&e->entries);
    e->col = (struct ctr_col){ .type = c->type, .rows = c->rows, .data = e->idx, .dict = &e->dict };
    /* nulls of odd rows in the column, of even rows in the dictionary */
    uint8_t *valid = calloc(1, (size_t)c->rows / 8 + 1);
    for (int64_t i = 0; i < c->rows; i++) {
        bool null = ctr_col_null(c, i) && (i & 1);
        e->col.nulls += null;
        valid[i >> 3] |= (uint8_t)(!null << (i & 7));
    }
    e->col.valid = e->col.nulls ? valid : NULL;
    if (!e->col.nulls)
        free(valid);
    free(first);
}
static void encoded_free(struct encoded *e)
{
    free((void *)e->col.valid);
    free(e->idx);
    ctr_colbuf_free(&e->entries);
}

/* ---- calls ---- */

#define ARGS 6
struct call {
    struct ctr_op_call call;
    struct ctr_op_arg arg[ARGS];
    struct ctr_value lit[ARGS], item[ARGS][16];
    struct ctr_colbuf col[ARGS];
    const struct ctr_col *view[ARGS];
};

static void literal(struct ctr_value *v, struct ctr_value *items, const char *spec)
{
    const char *p = strchr(spec, ':') + 1;
    size_t n = strlen(p);
    uint64_t u = 0;
    bool ok = true;

    *v = (struct ctr_value){ 0 };
    switch (*spec) {
    case 'n': v->kind = CTR_V_NULL; break;
    case 'i':
        v->kind = CTR_V_INT;
        ok = ctr_parse_i64(p, n, &v->i);
        break;
    case 'f':
        v->kind = CTR_V_FLOAT;
        ok = ctr_parse_f64(p, n, &v->f);
        break;
    case 't':
        v->kind = CTR_V_STR;
        v->s = (struct ctr_str){ p, n };
        break;
    case 'b':
        v->kind = CTR_V_BOOL;
        v->i = *p == 't';
        break;
    case 'T':
        v->kind = CTR_V_TIME;
        ok = ctr_time_parse(NULL, p, n, &v->i);
        break;
    case 'u':
        ok = ctr_parse_u64(p, n, &u);
        v->kind = u > INT64_MAX ? CTR_V_UINT : CTR_V_INT;
        v->i = (int64_t)u;
        break;
    case 'd':
        v->kind = CTR_V_DURATION;
        ok = ctr_parse_duration(p, n, &v->i);
        break;
    default:
        v->kind = CTR_V_LIST;
        v->list = items;
        while (*p || (n && p[-1] == ',')) { /* "=l:1,2.5" are floats, "=lt:a,b" texts */
            char item[64];
            const size_t k = strcspn(p, ",");
            snprintf(item, sizeof item, "%c:%.*s", spec[1] == ':' ? 'f' : spec[1], (int)k, p);
            literal(&items[v->n], NULL, item);
            if (spec[1] == 't')
                items[v->n].s = (struct ctr_str){ p, k };
            v->n++;
            p += k;
            if (!*p)
                break;
            p++;
        }
    }
    if (!ok)
        exit(1);
}

static int prepare(struct call *c, const char *op, const char *const *spec, int repeat)
{
    memset(c, 0, sizeof *c);
    c->call.op = ctr_op_find(op, strlen(op));
    c->call.arg = c->arg;
    if (!c->call.op) {
        printf("# no operator %s\n", op);
        exit(1);
    }
    for (int k = 0; k < ARGS && spec[k]; k++, c->call.nargs++) {
        const char *s = spec[k];
        static char name[ARGS][16];
        if (*s == '.') { /* .name=i:5 */
            size_t n = strcspn(s, "=") - 1;
            memcpy(name[k], s + 1, n);
            name[k][n] = 0;
            c->arg[k].name = name[k];
            s += n + 1;
        }
        if (*s == '=') {
            literal(&c->lit[k], c->item[k], s + 1);
            c->arg[k].literal = &c->lit[k];
        } else {
            c->arg[k].type = type_of(s);
            column(&c->col[k], s, repeat);
            c->view[k] = ctr_colbuf_view(&c->col[k]);
        }
    }
    return ctr_op_bind(&c->call, &err);
}

static int64_t rows_of(const struct call *c)
{
    for (int k = 0; k < c->call.nargs; k++)
        if (c->view[k])
            return c->view[k]->rows;
    return 3;
}

static void finish(struct call *c)
{
    ctr_op_unbind(&c->call);
    for (int k = 0; k < c->call.nargs; k++)
        if (c->view[k])
            ctr_colbuf_free(&c->col[k]);
}

/* ---- the same on a device, where $CTR_CUDA_DRIVER names one (tests/gpu.t) ---- */

static struct ctr_gpu *gpu;
static int on_device, refused;
enum { MOST_OPS = 256 };
static int ran[MOST_OPS], kept[MOST_OPS]; /* calls of each operator: on the device, and on the host alone */

static bool same_bytes(const struct ctr_col *a, const struct ctr_col *b)
{
    if (a->type != b->type || a->rows != b->rows || a->nulls != b->nulls)
        return false;
    for (int64_t i = 0; i < a->rows; i++)
        if (ctr_col_null(a, i) != ctr_col_null(b, i))
            return false;
    if (a->type == CTR_LIST || a->type == CTR_FIXED)
        return (a->type == CTR_FIXED || !memcmp(a->offsets, b->offsets, (size_t)(a->rows + 1) * 4)) &&
               same_bytes(a->item, b->item);
    if (a->type == CTR_UTF8)
        return a->rows == 0 || (!memcmp(a->offsets, b->offsets, (size_t)(a->rows + 1) * 4) &&
                                !memcmp(a->data, b->data, (size_t)a->offsets[a->rows]));
    return a->rows == 0 || !memcmp(a->data, b->data,
                                   a->type == CTR_BOOL ? (size_t)(a->rows + 7) / 8
                                                       : (size_t)a->rows * (size_t)ctr_types[a->type].width);
}

static void count_call(const struct ctr_gpu_call *c, int *calls)
{
    int i = 0;
    while (c->call && ctr_op_at(i) && ctr_op_at(i) != c->call->op)
        i++;
    if (c->call && i < MOST_OPS)
        calls[i]++;
}

static bool is_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = list; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == n && !memcmp(p, name, n))
            return true;
    return false;
}

/* The operators of a kind are those in the list; others are named with what to do. */
enum calls { NEVER_CALLED, NEVER_ON_DEVICE, ALWAYS_ON_DEVICE, SOMETIMES_ON_DEVICE };
static void check_names(enum calls which, const char *list, const char *what, const char *remedy)
{
    for (int i = 0; i < MOST_OPS && ctr_op_at(i); i++) {
        const enum calls is = (ran[i] ? ALWAYS_ON_DEVICE : NEVER_CALLED) + (kept[i] ? 1 : 0);
        const char *name = ctr_op_name(ctr_op_at(i));
        if (is == which && !is_listed(list, name))
            ok(false, "operator %s %s: %s", name, what, remedy);
        else if (is != which && is_listed(list, name))
            ok(false, "operator %s no longer %s: take its name from check_host_only in unit-op.c", name, what);
    }
    ok(true, "%s: %s", what, list);
}

/* The bytes of an operator without a form for the device are right, so that nothing else shows that it is missing: name
 * such an operator here. */
static void check_host_only(void)
{
    const char *const remedy = "give each of its loops a form for the device (loop.h), or name it in check_host_only";
    check_names(NEVER_ON_DEVICE, "vocab quantiles similarity top_by nfc", "runs on the host alone", remedy);
    check_names(SOMETIMES_ON_DEVICE, "number int concat join cross hash lookup", "runs on the host for some types",
                remedy);
    check_names(NEVER_CALLED, "keywords", "is called by no row", "add rows of it to tests/unit/unit-op-table.h");
}

/* Is it refused with a reason, or does it give the bytes of `out`? */
static void check_device(const struct ctr_gpu_call *call, const struct ctr_field *f, struct ctr_colbuf *out)
{
    struct ctr_colbuf made;
    struct ctr_gpu_call c = *call;
    if (!gpu || c.rows == 0)
        return;
    if (ctr_gpu_refuses(&c)) {
        refused++;
        count_call(&c, kept);
        return;
    }
    CHECK(ctr_colbuf_init(&made, f, &err));
    c.out = &made;
    CHECK(ctr_gpu_begin(gpu, &err));
    CHECK(ctr_gpu_start(gpu, &c, 1, &err));
    CHECK(ctr_gpu_finish(gpu, &err));
    if (!same_bytes(ctr_colbuf_view(out), ctr_colbuf_view(&made)))
        ok(false, "%s: the same bytes on the device", c.call ? ctr_op_name(c.call->op) : "keys");
    on_device++;
    count_call(&c, ran);
    ctr_colbuf_free(&made);
}

static void run(struct call *c, const struct ctr_col *const *view, struct ctr_colbuf *out)
{
    struct ctr_field f = { .type = c->call.result.type, .item = c->call.result.item, .width = c->call.result.width };

    CHECK(ctr_colbuf_init(out, &f, &err));
    CHECK(ctr_op_run(&c->call, view, rows_of(c), out, &err));
    check_device(&(struct ctr_gpu_call){ .call = &c->call, .col = view, .rows = rows_of(c) }, &f, out);
}

/* The texts of all rows. */
static char *texts(const struct ctr_col *c, int64_t from, int64_t to)
{
    struct ctr_buf b = { 0 };
    char *s;

    for (int64_t i = from; i < to; i++) {
        if (i > from)
            CHECK(ctr_buf_append(&b, ";", 1, &err));
        if (ctr_col_missing(c, i))
            CHECK(ctr_buf_append(&b, "~", 1, &err));
        else
            CHECK(ctr_col_text(c, i, &b, &err));
    }
    s = strndup(b.data ? (char *)b.data : "", b.len);
    ctr_buf_free(&b);
    return s;
}

static bool same_rows(const struct ctr_col *a, const struct ctr_col *b, int64_t n, int64_t period)
{
    if (a->rows != n || b->rows < period)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (ctr_col_compare(a, i, b, i % period))
            return false;
    return true;
}

/* Encoded arguments give what plain ones gave. */
static bool encoded_agrees(struct call *c, const struct ctr_col *want)
{
    struct encoded e[ARGS];
    const struct ctr_col *view[ARGS] = { 0 };
    struct ctr_colbuf out;
    bool same;

    for (int k = 0; k < c->call.nargs; k++)
        if (c->view[k]) {
            encode(&e[k], c->view[k], &c->arg[k].type);
            view[k] = &e[k].col;
        }
    run(c, view, &out);
    same = same_rows(ctr_colbuf_view(&out), want, want->rows, want->rows);
    if (!same) {
        char *s = texts(ctr_colbuf_view(&out), 0, out.rows);
        printf("# encoded: %s\n", s);
        free(s);
    }
    ctr_colbuf_free(&out);
    for (int k = 0; k < c->call.nargs; k++)
        if (c->view[k])
            encoded_free(&e[k]);
    return same;
}

static void check(const char *op, const char *const *spec, const char *want)
{
    struct call c, many;
    struct ctr_colbuf out, more;
    char *got;
    int rc = prepare(&c, op, spec, 1);

    if (*want == '!') {
        ok(rc == CTR_EUSAGE && strstr(err.what, want + 1), "%s: %s", op, want);
        if (rc != CTR_EUSAGE || !strstr(err.what, want + 1))
            printf("# %d %s\n", rc, err.what);
        finish(&c);
        return;
    }
    CHECK(rc);
    run(&c, c.view, &out);
    got = texts(ctr_colbuf_view(&out), 0, out.rows);
    ok(!strcmp(got, want), "%s(%s%s%s) = %s", op, spec[0], spec[1] ? ", " : "", spec[1] ? spec[1] : "", want);
    if (strcmp(got, want))
        printf("# got %s\n", got);
    free(got);
    if (c.view[0] || c.view[1]) {
        int repeat = (gpu ? 700 : 2500) / (int)out.rows + 1; /* several tiles, or blocks */
        ok(encoded_agrees(&c, ctr_colbuf_view(&out)), "%s: encoded", op);
        CHECK(prepare(&many, op, spec, repeat));
        run(&many, many.view, &more);
        ok(same_rows(ctr_colbuf_view(&more), ctr_colbuf_view(&out), out.rows * repeat, out.rows), "%s: tiles", op);
        ok(encoded_agrees(&many, ctr_colbuf_view(&more)), "%s: tiles, encoded", op);
        ctr_colbuf_free(&more);
        finish(&many);
    }
    ctr_colbuf_free(&out);
    finish(&c);
}

static const struct row {
    const char *op, *arg[ARGS], *want;
} rows[] = {
#include "unit-op-table.h"
};

/* ---- the functions of our own ---- */

static uint64_t bits(double d)
{
    uint64_t u;

    memcpy(&u, &d, 8);
    return u;
}
static double ulps(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return fabs((double)(int64_t)(bits(a) - bits(b)));
}

/* One and many have the bits of the operator, for every instruction set. */
static void test_sigmoids(void)
{
    enum { N = 4099 };
    static double x[N], p[N];
    const double special[] = { 0.0,   -0.0, INFINITY, -INFINITY, NAN,   708,    -708,
                               708.5, -709, 745.5,    -746,      1e300, 5e-324, -1e-17 };
    for (int level = CTR_CPU_PLAIN; level <= CTR_CPU_AVX512; level++) {
        ctr_sigmoids *many = ctr_cpu_has((enum ctr_cpu)level) ? ctr_sigmoids_at((enum ctr_cpu)level) : NULL;
        int64_t differ = 0;
        for (int round = 0; round < 250 && many; round++) {
            for (int i = 0; i < N; i++)
                x[i] = (ctr_random01(9, (uint64_t)round, (uint64_t)i) - 0.5) * (round % 5 ? 20 : 1480);
            memcpy(x + 7, special, sizeof special);
            many(x, p, N);
            for (int i = 0; i < N; i++) {
                const double wanted = opv_sigmoid(x[i]), one = ctr_sigmoid(x[i]);
                const bool same = !memcmp(&wanted, &p[i], sizeof wanted) && !memcmp(&wanted, &one, sizeof wanted);
                differ += !same && !(isnan(wanted) && isnan(one) && isnan(p[i]));
            }
        }
        ok(differ == 0, "sigmoids, instruction set %d: the bits of the operator", level);
    }
}

static void check_math(void)
{
    double worst[4] = { 0 };

    for (uint64_t i = 0; i < 2000000; i++) {
        double u = ctr_random01(7, 0, i), x;
        x = (u - 0.5) * 1400;
        worst[0] = fmax(worst[0], ulps(ctr_exp(x), exp(x)));
        x = (u - 0.5) * 2;
        worst[0] = fmax(worst[0], ulps(ctr_exp(x), exp(x)));
        worst[1] = fmax(worst[1], ulps(ctr_log(u * 4), log(u * 4)));
        x = exp((u - 0.5) * 1400);
        worst[1] = fmax(worst[1], ulps(ctr_log(x), log(x)));
        worst[2] = fmax(worst[2], ulps(ctr_log1p(x), log1p(x)));
        worst[2] = fmax(worst[2], ulps(ctr_log1p(u * 2 - 0.999), log1p(u * 2 - 0.999)));
        x = (u - 0.5) * 80;
        worst[3] = fmax(worst[3], ulps(ctr_sigmoid(x), x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x))));
    }
    ok(worst[0] <= 1, "exp within %g ulp of libm", worst[0]);
    ok(worst[1] <= 1, "log within %g ulp", worst[1]);
    ok(worst[2] <= 2, "log1p within %g ulp", worst[2]);
    ok(worst[3] <= 2, "sigmoid within %g ulp", worst[3]);
    ok(ctr_exp(INFINITY) == INFINITY && ctr_exp(-INFINITY) == 0 && isnan(ctr_exp(NAN)) && ctr_exp(0) == 1, "exp: ends");
    ok(ctr_exp(709.7) < INFINITY && ctr_exp(710) == INFINITY && ctr_exp(-745) > 0 && ctr_exp(-746) == 0, "exp: range");
    ok(ctr_log(0) == -INFINITY && isnan(ctr_log(-1)) && ctr_log(INFINITY) == INFINITY && ctr_log(1) == 0, "log: ends");
    ok(ulps(ctr_log(5e-324), log(5e-324)) <= 1, "log: subnormal");
    ok(ctr_log1p(-1) == -INFINITY && isnan(ctr_log1p(-2)) && ctr_log1p(1e-300) == 1e-300, "log1p: ends");
    ok(ctr_sigmoid(0) == 0.5 && ctr_sigmoid(800) == 1 && ctr_sigmoid(-800) == 0, "sigmoid: ends");
    test_sigmoids();
}

/* ---- keys ---- */

/* Texts of eight bytes are hashed eight at a time; others and nulls stand at `odd` places between them. */
static void check_eights(const char *what, int64_t odd, bool nulls)
{
    enum { N = 3000 };
    static char text[8 * N + 128]; /* with the bytes that a column has behind its values */
    static int32_t off[N + 1];
    static uint8_t valid[N / 8 + 8];
    static uint64_t out[N];
    const uint64_t seed = ctr_table_seed("eights");
    int wrong = 0;
    memset(valid, 0, sizeof valid);
    for (int64_t i = 0; i < N; i++) {
        const bool null = nulls && ctr_mix64((uint64_t)i) % 5 == 0;
        const int32_t n = null ? 0 : odd && i % odd == odd - 1 ? (int32_t)(ctr_mix64((uint64_t)i) % 9) : 8;
        for (int32_t k = 0; k < n; k++)
            text[off[i] + k] = (char)ctr_mix64((uint64_t)(off[i] + k));
        off[i + 1] = off[i] + n;
        valid[i / 8] |= (uint8_t)(!null << (i % 8));
    }
    const struct ctr_col c = {
        .type = CTR_UTF8, .rows = N, .data = text, .offsets = off, .valid = nulls ? valid : NULL
    };
    for (int from = 0; from < 20; from++) {
        ctr_cpu_limit(from % 2 ? "plain" : "avx512");
        CHECK(ctr_keys_scalar(false, &c, from / 2, N - from, seed, NULL, out, &err));
        for (int64_t i = 0; i < N - from; i++) {
            const int64_t j = i + from / 2;
            wrong +=
                out[i] != (ctr_col_null(&c, j) ? ctr_missing_key(seed)
                                               : ctr_feature_key(seed, text + off[j], (size_t)(off[j + 1] - off[j])));
        }
    }
    ctr_cpu_limit(NULL);
    ok(!wrong, "keys of texts of eight bytes, %s", what);
}

static void check_keys(const char *spec)
{
    struct ctr_vtype t = type_of(spec);
    bool list = t.type == CTR_LIST || t.type == CTR_FIXED;
    struct ctr_field f = { .type = list ? CTR_LIST : CTR_U64, .item = CTR_U64 };
    struct ctr_colbuf b, out, out2;
    struct ctr_buf text = { 0 }, memo = { 0 };
    struct encoded e;
    uint64_t seed = ctr_table_seed("a table");
    bool same = true;
    const struct ctr_col *c;

    column(&b, spec, 1);
    c = ctr_colbuf_view(&b);
    CHECK(ctr_colbuf_init(&out, &f, &err));
    CHECK(ctr_op_keys(&t, c, c->rows, seed, &memo, &out, &err));
    check_device(&(struct ctr_gpu_call){ .type = &t, .seed = seed, .col = &c, .rows = c->rows }, &f, &out);
    const struct ctr_col *got = ctr_colbuf_view(&out);
    const struct ctr_col *key = list ? got->item : got;
    int64_t k = 0;
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t from = !list ? i : c->offsets ? c->offsets[i] : i * t.width;
        int64_t to = !list ? i + 1 : c->offsets ? c->offsets[i + 1] : from + t.width;
        for (int64_t j = from; j < to; j++) {
            const struct ctr_col *v = list ? c->item : c;
            uint64_t want = ctr_feature_key(seed, "(missing)", 9);
            if (ctr_col_missing(v, j) && list)
                continue;
            text.len = 0;
            CHECK(ctr_buf_reserve(&text, 1, &err));
            CHECK(ctr_col_text(v, j, &text, &err));
            if (!ctr_col_missing(v, j))
                want = t.key ? ctr_mix64(((const uint64_t *)v->data)[j] ^ seed)
                             : ctr_feature_key(seed, text.data, text.len);
            same &= ((const uint64_t *)key->data)[k++] == want;
        }
        if (list && ctr_col_null(c, i))
            same &= ((const uint64_t *)key->data)[k++] == ctr_feature_key(seed, "(missing)", 9);
        same &= !list || got->offsets[i + 1] == k;
    }
    ok(same && k == key->rows && got->nulls == 0, "keys of %s", spec);
    encode(&e, c, &t);
    CHECK(ctr_colbuf_init(&out2, &f, &err));
    CHECK(ctr_op_keys(&t, &e.col, c->rows, seed, &memo, &out2, &err));
    ok(same_rows(ctr_colbuf_view(&out2), got, c->rows, c->rows), "keys of %s, encoded", spec);
    check_device(
        &(struct ctr_gpu_call){
            .type = &t, .seed = seed, .col = (const struct ctr_col *const[]){ &e.col }, .rows = c->rows },
        &f, &out2);
    encoded_free(&e);
    ctr_buf_free(&text);
    ctr_buf_free(&memo);
    ctr_colbuf_free(&b);
    ctr_colbuf_free(&out);
    ctr_colbuf_free(&out2);
}

static const char *one_key(const char *spec, uint64_t *key)
{
    struct ctr_vtype t = type_of(spec);
    struct ctr_field f = { .type = CTR_U64 };
    struct ctr_colbuf b, out;

    column(&b, spec, 1);
    CHECK(ctr_colbuf_init(&out, &f, &err));
    CHECK(ctr_op_keys(&t, ctr_colbuf_view(&b), 1, 9, NULL, &out, &err));
    memcpy(key, out.data.data, 8);
    ctr_colbuf_free(&b);
    ctr_colbuf_free(&out);
    return spec;
}

static void check_one_key(void)
{
    static const char *const four[] = { "i8:4", "i32:4", "i:4", "u8:4", "u:4", "f16:4", "f32:4", "f:4", "t:4" };
    static const char *const tenth[] = { "f32:0.1", "f:0.1", "t:0.1" };
    uint64_t a, b;

    one_key(four[0], &a);
    for (size_t i = 1; i < CTR_COUNT(four); i++)
        ok((one_key(four[i], &b), a == b), "4 as %s is one key", four[i]);
    one_key(tenth[0], &a);
    for (size_t i = 1; i < CTR_COUNT(tenth); i++)
        ok((one_key(tenth[i], &b), a == b), "0.1 as %s is one key", tenth[i]);
}

static void check_hash(void)
{
    uint8_t text[32];
    int64_t wrong = 0;

    for (uint64_t i = 0; i < 32; i++)
        text[i] = (uint8_t)ctr_random64(5, 0, i);
    for (uint64_t i = 0; i < 170000; i++) {
        uint64_t n = i % 17, at = i / 17 % 16, seed = i < 1000 ? 0 : ctr_random64(5, 1, i);
        wrong += opv_hash_short(text + at, n, seed) != ctr_hash64(text + at, n, seed);
    }
    ok(wrong == 0, "hash of up to 16 bytes equals XXH3-64");
    static uint8_t more[4096];
    for (uint64_t i = 0; i < sizeof more; i++)
        more[i] = (uint8_t)ctr_random64(5, 2, i);
    for (uint64_t n = 17; n < 3000; n += 1 + n / 400) {
        const uint64_t seed = n % 3 ? ctr_random64(5, 3, n) : 0;
        wrong += opv_hash_long(more + n % 7, n, seed) != ctr_hash64(more + n % 7, n, seed);
    }
    ok(wrong == 0, "hash of longer texts, too");
}

/* ---- cross ---- */

static void cross_values(const char *a, const char *b, uint64_t *key, int n)
{
    const char *spec[ARGS] = { a, b };
    struct call c;
    struct ctr_colbuf out;

    CHECK(prepare(&c, "cross", spec, 1));
    run(&c, c.view, &out);
    memcpy(key, out.item ? out.item->data.data : out.data.data, (size_t)n * 8);
    ctr_colbuf_free(&out);
    finish(&c);
}

static void check_cross(void)
{
    uint64_t a, b, pairs[4], one[4];

    cross_values("t:ab", "t:c", &a, 1);
    cross_values("t:a", "t:bc", &b, 1);
    ok(a != b, "cross is not of concatenated text");
    cross_values("t:c", "t:ab", &b, 1);
    ok(a != b, "cross depends on the order");
    cross_values("i:4", "t:x", &a, 1);
    cross_values("f32:4", "t:x", &b, 1);
    ok(a == b, "cross of 4 and 4.0");
    cross_values("lt:a,b", "li:1,2", pairs, 4);
    cross_values("t:a", "i:1", &one[0], 1);
    cross_values("t:a", "i:2", &one[1], 1);
    cross_values("t:b", "i:1", &one[2], 1);
    cross_values("t:b", "i:2", &one[3], 1);
    ok(!memcmp(pairs, one, sizeof one), "cross of lists has the key of each pair, in order");
    cross_values("lt:a,^,b", "li:^,1,2", pairs, 4);
    ok(!memcmp(pairs, one, sizeof one), "a null item takes part in no pair");
    cross_values("lt:a,b", "=i:1", pairs, 2);
    ok(pairs[0] == one[0] && pairs[1] == one[2], "cross of a list and a literal");
}

/* ---- fitted ---- */

/* Save a fitted call's state and load it into another call. */
static void transfer(const struct call *from, struct call *to)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;

    CHECK(ctr_op_fit_schema(&from->call, &s, &err));
    CHECK(ctr_batchbuf_init(&b, &s, &err));
    CHECK(ctr_op_fit_save(&from->call, &b, &err));
    CHECK(ctr_op_fit_load(&to->call, ctr_batchbuf_view(&b), &err));
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
}

static void check_fit(const char *op, const char *const *fit_spec, const char *const *spec, const char *want)
{
    struct call a, b, d;
    struct ctr_colbuf out, keys, keys2;
    uint64_t seed = ctr_table_seed("t");
    char *got;

    CHECK(prepare(&a, op, fit_spec, 1));
    CHECK(ctr_op_fit_update(&a.call, a.view, rows_of(&a), &err));
    ok(ctr_op_fit_memory(&a.call) > 0 || strchr(fit_spec[0], ':')[1] == '~', "%s: fit memory", op);
    CHECK(ctr_op_fit_finish(&a.call, &err));
    CHECK(prepare(&b, op, spec, 1));
    CHECK(ctr_colbuf_init(&out, &(struct ctr_field){ .type = CTR_U64 }, &err));
    ok(ctr_op_run(&b.call, b.view, rows_of(&b), &out, &err) == CTR_EUSAGE, "%s: refuses before it is fitted", op);
    ctr_colbuf_free(&out);
    transfer(&a, &b);
    run(&b, b.view, &out);
    got = texts(ctr_colbuf_view(&out), 0, out.rows);
    ok(!strcmp(got, want), "%s(%s) = %s", op, spec[0], want);
    if (strcmp(got, want))
        printf("# got %s\n", got);
    free(got);
    ok(encoded_agrees(&b, ctr_colbuf_view(&out)), "%s: encoded", op);
    CHECK(prepare(&d, op, spec, 1));
    transfer(&b, &d);
    struct ctr_field f = { .type = out.item ? CTR_LIST : CTR_U64, .item = CTR_U64 };
    CHECK(ctr_colbuf_init(&keys, &f, &err));
    CHECK(ctr_colbuf_init(&keys2, &f, &err));
    CHECK(ctr_op_keys(&b.call.result, ctr_colbuf_view(&out), out.rows, seed, NULL, &keys, &err));
    CHECK(ctr_op_run_keys(&d.call, d.view, out.rows, seed, NULL, &keys2, &err));
    ok(same_rows(ctr_colbuf_view(&keys2), ctr_colbuf_view(&keys), out.rows, out.rows), "%s: keys the short way", op);
    ctr_colbuf_free(&keys);
    ctr_colbuf_free(&keys2);
    ctr_colbuf_free(&out);
    finish(&a);
    finish(&b);
    finish(&d);
}
#define FIT(op, fit_spec, spec, want, ...)                                                                             \
    check_fit(op, (const char *const[ARGS]){ fit_spec, __VA_ARGS__ }, (const char *const[ARGS]){ spec, __VA_ARGS__ },  \
              want)

static void check_fitted(void)
{
    FIT("vocab", "t:a;b;a;c;~;a;b", "t:a;b;c;d;~;", "a;b;(other);(other);~;(other)", ".min=i:2");
    FIT("vocab", "t:a;b;a;c;~;a;b", "t:a;b;c", "a;(other);(other)", ".max=i:1");
    FIT("vocab", "i32:4;4;-7;3000;9", "i32:4;-7;3000;1;~", "4;-7;3000;(other);~", NULL);
    FIT("vocab", "i32:4;4;5", "f:4;5;4.5", "4;(other);(other)", ".min=i:2");
    FIT("vocab", "f32:0.1;0.1", "f:0.1;0.2", "0.1;(other)", ".min=i:2");
    FIT("vocab", "u:18446744073709551615", "u:18446744073709551615;1", "18446744073709551615;(other)", NULL);
    FIT("vocab", "lt:a,b;a;~;", "lt:a,b,^;~;;c", "[a,(other),];~;[];[(other)]", ".min=i:2");
    FIT("vocab", "k:5;6;5", "k:5;7;~", "5;16440341326091803943;~", ".min=i:2");
    FIT("vocab", "t:~", "t:a;~", "(other);~", NULL);
    FIT("quantiles", "f:1;2;3;4;5;6;7;8;~;nan", "f:0;1;2;3;4;5;6;7;99;~", "0;0;0;1;1;2;2;3;3;~", "=i:4");
    FIT("quantiles", "i32:5;5;5;5", "i32:4;5;6", "0;1;1", "=i:4");
    FIT("quantiles", "i32:~", "i32:4;~", "0;~", "=i:4");
    FIT("standardize", "f:1;3;~;nan;inf", "f:1;2;3;5;~;nan;inf;-inf", "-1;0;1;3;~;~;~;~", NULL);
    FIT("standardize", "i32:7;7;7", "i32:7;8;~", "0;0;~", NULL);
    FIT("standardize", "f:0.1;0.1;0.1", "f:0.1;5;inf", "0;0;~", NULL);
    FIT("standardize", "f:~", "f:5;~", "0;~", NULL);
    FIT("minmax", "f32:-2;6;2;~;-inf", "f32:-2;2;6;-8;99;inf;~", "0;0.5;1;0;1;~;~", NULL);
    FIT("minmax", "u:5;5", "u:5;0;18446744073709551615", "0;0;0", NULL);
    FIT("log_scale", "i:0;9", "i:0;9;~", "-1;1;~", NULL);
    FIT("log_scale", "f:-9;9;nan", "f:-9;0;9;-inf", "-1;0;1;~", NULL);
    FIT("standardize", "lf:1,^;~;3;", "lf:1,^,5;~;", "[-1,,3];~;[]", NULL);
}

/* Mean and deviation of numbers far from 0, beside two passes in long double; in pieces they have the same bits. */
static void check_scale(void)
{
    enum { N = 3000 };
    struct ctr_buf spec = { 0 };
    struct call whole, pieces;
    struct ctr_batchbuf got[2];
    struct ctr_schema s = { 0 };
    long double mean = 0, square = 0, x[N];
    uint64_t r = 7;

    CHECK(ctr_buf_append(&spec, "f:", 2, &err));
    for (int i = 0; i < N; i++) {
        r = ctr_mix64(r);
        const double v = 1e9 + (double)(r >> 40) / 65536;
        mean += x[i] = v;
        CHECK(ctr_buf_printf(&spec, &err, "%s%.17g", i ? ";" : "", v));
    }
    CHECK(ctr_buf_append(&spec, "", 1, &err));
    mean /= N;
    for (int i = 0; i < N; i++)
        square += (x[i] - mean) * (x[i] - mean);
    const char *const args[ARGS] = { (char *)spec.data, NULL };
    CHECK(prepare(&whole, "standardize", args, 1));
    CHECK(prepare(&pieces, "standardize", args, 1));
    CHECK(ctr_op_fit_update(&whole.call, whole.view, N, &err));
    for (int64_t at = 0, n; at < N; at += n) {
        struct ctr_col c = *pieces.view[0];
        const struct ctr_col *const view[ARGS] = { &c };
        n = CTR_MIN(N - at, 1 + at % 97);
        c.data = (const uint8_t *)c.data + at * 8;
        c.rows = n;
        CHECK(ctr_op_fit_update(&pieces.call, view, n, &err));
    }
    CHECK(ctr_op_fit_schema(&whole.call, &s, &err));
    for (int k = 0; k < 2; k++) {
        struct call *c = k ? &pieces : &whole;
        CHECK(ctr_op_fit_finish(&c->call, &err));
        CHECK(ctr_batchbuf_init(&got[k], &s, &err));
        CHECK(ctr_op_fit_save(&c->call, &got[k], &err));
    }
    const double m = ctr_col_f64(ctr_colbuf_view(&got[0].col[0]), 0),
                 d = ctr_col_f64(ctr_colbuf_view(&got[0].col[1]), 0);
    ok(fabsl(m - mean) <= 1e-15L * mean, "standardize: the mean of two passes");
    ok(fabsl(d / sqrtl(square / N) - 1) < 1e-9L, "standardize: the deviation of two passes (%.17g)", d);
    ok(m == ctr_col_f64(ctr_colbuf_view(&got[1].col[0]), 0) && d == ctr_col_f64(ctr_colbuf_view(&got[1].col[1]), 0),
       "standardize: the same bits in pieces");
    for (int k = 0; k < 2; k++)
        ctr_batchbuf_free(&got[k]);
    ctr_schema_free(&s);
    ctr_buf_free(&spec);
    finish(&whole);
    finish(&pieces);
    CHECK(prepare(&whole, "minmax", (const char *const[ARGS]){ "f:-1e308;1.5e308", NULL }, 1));
    CHECK(ctr_op_fit_update(&whole.call, whole.view, 2, &err));
    ok(ctr_op_fit_finish(&whole.call, &err) == CTR_EDATA && strstr(err.what, "clip(x, low, high) first"),
       "minmax: a range that overflows is an error");
    finish(&whole);
}

/* ---- lookup ---- */

/* A keyed file with keys 10, 20, … and a name and a list for each. */
static void write_keyed(const char *path, enum ctr_type key)
{
    struct ctr_schema s = { 0 };
    struct ctr_writer_opts opts = { .batch_rows = 4, .file = true, .key = "id" };
    struct ctr_batchbuf b;
    struct ctr_writer *w;
    struct ctr_out *o;

    CHECK(ctr_schema_add(&s, "id", key, &err));
    CHECK(ctr_schema_add(&s, "name", CTR_UTF8, &err));
    CHECK(ctr_schema_add(&s, "tags", CTR_LIST, &err));
    s.f[2].item = CTR_UTF8;
    CHECK(ctr_schema_add(&s, "vector", CTR_FIXED, &err));
    s.f[3].item = CTR_F32;
    s.f[3].width = 2;
    CHECK(ctr_batchbuf_init(&b, &s, &err));
    for (int i = 10; i < 100; i += 10) {
        char text[CTR_NUM_MAX];
        size_t n = ctr_fmt_i64(text, i);
        if (key == CTR_UTF8)
            CHECK(ctr_colbuf_str(&b.col[0], text, n, &err));
        else
            CHECK(ctr_colbuf_i64(&b.col[0], i, &err));
        CHECK(ctr_colbuf_str(&b.col[1], text, i == 50 ? 1 : n, &err));
        CHECK(ctr_colbuf_str(b.col[2].item, text, n, &err));
        CHECK(ctr_colbuf_close(&b.col[2], &err));
        CHECK(ctr_colbuf_f64(b.col[3].item, i, &err));
        CHECK(ctr_colbuf_f64(b.col[3].item, -i / 2.0, &err));
        CHECK(ctr_colbuf_close(&b.col[3], &err));
    }
    CHECK(ctr_out_open(&o, path, 0, &err));
    CHECK(ctr_writer_open(&w, o, &s, &opts, &err));
    CHECK(ctr_writer_batch(w, ctr_batchbuf_view(&b), &err));
    CHECK(ctr_writer_finish(w, &err));
    CHECK(ctr_out_commit(o, &err));
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
}

static void check_lookup(void)
{
    char dir[] = "/tmp/unit-op.XXXXXX", path[64], file[80];

    if (!mkdtemp(dir))
        exit(1);
    snprintf(path, sizeof path, "%s/names.arrow", dir);
    snprintf(file, sizeof file, "=t:%s", path);
    write_keyed(path, CTR_I32);
    check("lookup", (const char *const[ARGS]){ file, "i8:10;11;~;50;90", "=t:name" }, "10;~;~;5;90");
    check("lookup", (const char *const[ARGS]){ file, "i:10;4294967306;-1", "=t:tags" }, "[10];~;~");
    check("lookup", (const char *const[ARGS]){ file, "u:10;18446744073709551615", "=t:id" }, "10;~");
    check("lookup", (const char *const[ARGS]){ file, "t:10", "=t:name" },
          "!lookup: the key of the file, id, is int32, got utf8");
    check("lookup", (const char *const[ARGS]){ file, "i:10", "=t:nam" }, "!name");
    check("embedding", (const char *const[ARGS]){ file, "li:10,20,11,^;~;;11;90", "=t:vector" },
          "[15,-7.5];~;~;~;[90,-45]");
    check("embedding", (const char *const[ARGS]){ file, "li:10,20,10", "=t:vector", ".pool=t:sum" }, "[40,-20]");
    check("embedding", (const char *const[ARGS]){ file, "li:10,30,20", "=t:vector", ".pool=t:max" }, "[30,-5]");
    check("embedding", (const char *const[ARGS]){ file, "li:10", "=t:vector", ".pool=t:min" }, "!pool is");
    check("embedding", (const char *const[ARGS]){ file, "li:10", "=t:tags" },
          "!tags is list<utf8>, and must be vectors of one length");
    check("embedding", (const char *const[ARGS]){ file, "lt:10", "=t:vector" },
          "!embedding: the key of the file, id, is int32, got utf8");
    check("similarity",
          (const char *const[ARGS]){ file, "i:10;20;~;11;30;40", "li:10,20,11,^;;10;10;~;90", "=t:vector" },
          "[1,1,,];[];~;~;~;[1]");
    check("similarity", (const char *const[ARGS]){ file, "i8:40", "li:-40,40", "=t:vector" }, "[,1]");
    check("similarity", (const char *const[ARGS]){ file, "i:10", "lt:10", "=t:vector" },
          "!similarity: the key of the file, id, is int32, got a list of utf8");
    check("similarity", (const char *const[ARGS]){ file, "t:10", "li:10", "=t:vector" },
          "!similarity: the key of the file, id, is int32, got utf8");
    check("similarity", (const char *const[ARGS]){ file, "i:10", "li:10", "=t:name" },
          "!similarity: name is utf8, and must be vectors of one length");
    write_keyed(path, CTR_UTF8);
    check("lookup", (const char *const[ARGS]){ file, "t:10;1;~;90", "=t:name" }, "10;~;~;90");
    write_keyed(path, CTR_U8);
    check("lookup", (const char *const[ARGS]){ file, "i:10;266;-246", "=t:name" }, "10;~;~");
    unlink(path);
    struct call c;
    ok(prepare(&c, "lookup", (const char *const[ARGS]){ file, "i:10", "=t:name" }, 1) < 0, "no such file");
    finish(&c);
    rmdir(dir);
}

/* ---- against plain references ---- */

static void check_buckets(void)
{
    struct ctr_colbuf b, out, out2;
    struct ctr_vtype f64 = { .type = CTR_F64 }, i64 = { .type = CTR_I64 };
    struct ctr_op_arg arg[2] = { { .type = f64 } }, iarg[1] = { { .type = i64 } };
    struct ctr_op_call call = { .op = ctr_op_find("square_log_bucket", 17), .arg = arg, .nargs = 1 }, icall = call;
    struct ctr_op_call lcall = { .op = ctr_op_find("log_bucket", 10), .arg = arg, .nargs = 1 };
    const struct ctr_col *c;
    int64_t wrong = 0, lwrong = 0, n = 0;

    icall.arg = iarg;
    CHECK(ctr_op_bind(&call, &err));
    CHECK(ctr_op_bind(&icall, &err));
    CHECK(ctr_op_bind(&lcall, &err));
    CHECK(ctr_colbuf_init(&b, &(struct ctr_field){ .type = CTR_F64 }, &err));
    for (int64_t i = 0; i < 200000; i++)
        CHECK(ctr_colbuf_f64(&b, i < 100000 ? (double)i : floor(exp(ctr_random01(1, 2, (uint64_t)i) * 43.6)), &err));
    c = ctr_colbuf_view(&b);
    for (int pass = 0; pass < 2; pass++) {
        CHECK(ctr_colbuf_init(&out, &(struct ctr_field){ .type = CTR_I64 }, &err));
        CHECK(ctr_op_run(pass ? &lcall : &call, &c, c->rows, &out, &err));
        for (int64_t i = 0; i < c->rows; i++) {
            double x = ((const double *)c->data)[i];
            long double l = logl((long double)x);
            int64_t got = ((const int64_t *)out.data.data)[i];
            if (pass)
                lwrong += got != (x < 1 ? 0 : 1 + (int64_t)floorl(l));
            else
                wrong += got != (x > 2 ? (int64_t)floorl(l * l) : (int64_t)x);
            n++;
        }
        ctr_colbuf_free(&out);
    }
    ok(n == 400000 && wrong == 0, "square_log_bucket equals floor(ln(x)^2) in long double: %lld wrong",
       (long long)wrong);
    ok(lwrong == 0, "log_bucket equals 1 + floor(ln x) in long double: %lld wrong", (long long)lwrong);
    struct ctr_colbuf ints;
    CHECK(ctr_colbuf_init(&ints, &(struct ctr_field){ .type = CTR_I64 }, &err));
    for (int64_t i = 0; i < c->rows; i++)
        CHECK(ctr_colbuf_i64(&ints, (int64_t)((const double *)c->data)[i], &err));
    const struct ctr_col *ic = ctr_colbuf_view(&ints);
    CHECK(ctr_colbuf_init(&out, &(struct ctr_field){ .type = CTR_I64 }, &err));
    CHECK(ctr_colbuf_init(&out2, &(struct ctr_field){ .type = CTR_I64 }, &err));
    CHECK(ctr_op_run(&icall, &ic, ic->rows, &out, &err));
    CHECK(ctr_op_run(&call, &c, c->rows, &out2, &err));
    ok(same_rows(ctr_colbuf_view(&out), ctr_colbuf_view(&out2), c->rows, c->rows), "of ints as of floats");
    ctr_colbuf_free(&out);
    ctr_colbuf_free(&out2);
    ctr_colbuf_free(&ints);
    ctr_colbuf_free(&b);
    ctr_op_unbind(&call);
    ctr_op_unbind(&icall);
    ctr_op_unbind(&lcall);
}

/* ---- random texts against the plainest code ---- */

enum { RANDOM_ROWS = 6000 };

/* A text of up to `most` characters of a few kinds. */
static void random_text(struct ctr_colbuf *b, uint64_t stream, uint64_t row, int most)
{
    static const char *const piece[] = { "a", "b", "|", "%", "_", "\xc3\xa9", "ab" };
    char text[64];
    size_t n = 0;
    int k = (int)(ctr_random64(3, stream, row * 32) % (uint64_t)(most + 1));

    for (int i = 0; i < k; i++) {
        const char *p = piece[ctr_random64(3, stream, row * 32 + 1 + (uint64_t)i) % CTR_COUNT(piece)];
        memcpy(text + n, p, strlen(p));
        n += strlen(p);
    }
    CHECK(ctr_colbuf_str(b, text, n, &err));
}

static size_t char_len(const char *p)
{
    return (*p & 0x80) ? 2 : 1;
}

static bool like_plain(const char *a, const char *b)
{
    if (!*b)
        return !*a;
    if (*b == '%')
        return like_plain(a, b + 1) || (*a && like_plain(a + char_len(a), b));
    if (!*a)
        return false;
    if (*b == '_')
        return like_plain(a + char_len(a), b + 1);
    return *a == *b && like_plain(a + 1, b + 1);
}

static void substr_plain(const char *a, int64_t start, int64_t count, char *to)
{
    int64_t n = 0, i = 0;

    for (const char *p = a; *p; p += char_len(p))
        n++;
    if (start < 0)
        start += n;
    for (const char *p = a; *p; p += char_len(p), i++)
        if (i >= start && i < start + count)
            for (size_t k = 0; k < char_len(p); k++)
                *to++ = p[k];
    *to = 0;
}

static void run_binary(const char *op, const struct ctr_vtype *ta, const struct ctr_col *a, const struct ctr_vtype *tb,
                       const struct ctr_col *b, const struct ctr_col *c, struct ctr_op_call *call,
                       struct ctr_colbuf *out)
{
    static struct ctr_op_arg arg[3];
    const struct ctr_col *col[3] = { a, b, c };
    struct ctr_field f;

    for (int k = 0; k < 3; k++)
        arg[k] = (struct ctr_op_arg){ .type = k ? *tb : *ta };
    *call = (struct ctr_op_call){ .op = ctr_op_find(op, strlen(op)), .arg = arg, .nargs = c ? 3 : 2 };
    CHECK(ctr_op_bind(call, &err));
    f = (struct ctr_field){ .type = call->result.type, .item = call->result.item };
    CHECK(ctr_colbuf_init(out, &f, &err));
    CHECK(ctr_op_run(call, col, a->rows, out, &err));
    ctr_op_unbind(call);
}

static void check_random(void)
{
    const struct ctr_vtype t = { .type = CTR_UTF8 }, i64 = { .type = CTR_I64 },
                           lt = { .type = CTR_LIST, .item = CTR_UTF8 };
    struct ctr_colbuf a, b, like, sub, split, join, from, count;
    struct ctr_op_call call;
    int64_t wrong_like = 0, wrong_sub = 0, wrong_split = 0, matches = 0;

    CHECK(ctr_colbuf_init(&a, &(struct ctr_field){ .type = CTR_UTF8 }, &err));
    CHECK(ctr_colbuf_init(&b, &(struct ctr_field){ .type = CTR_UTF8 }, &err));
    CHECK(ctr_colbuf_init(&from, &(struct ctr_field){ .type = CTR_I64 }, &err));
    CHECK(ctr_colbuf_init(&count, &(struct ctr_field){ .type = CTR_I64 }, &err));
    for (uint64_t i = 0; i < RANDOM_ROWS; i++) {
        random_text(&a, 1, i, 10);
        random_text(&b, 2, i, 5);
        CHECK(ctr_colbuf_i64(&from, (int64_t)(ctr_random64(3, 4, i) % 30) - 15, &err));
        CHECK(ctr_colbuf_i64(&count, (int64_t)(ctr_random64(3, 5, i) % 12) - 2, &err));
    }
    const struct ctr_col *ca = ctr_colbuf_view(&a), *cb = ctr_colbuf_view(&b);
    run_binary("like", &t, ca, &t, cb, NULL, &call, &like);
    run_binary("substr", &t, ca, &i64, ctr_colbuf_view(&from), ctr_colbuf_view(&count), &call, &sub);
    run_binary("split", &t, ca, &t, cb, NULL, &call, &split);
    run_binary("join", &lt, ctr_colbuf_view(&split), &t, cb, NULL, &call, &join);
    for (int64_t i = 0; i < RANDOM_ROWS; i++) {
        struct ctr_str x = ctr_col_str(ca, i), y = ctr_col_str(cb, i), got = ctr_col_str(ctr_colbuf_view(&sub), i);
        char s[64], p[64], want[64];
        memcpy(s, x.p, x.n);
        memcpy(p, y.p, y.n);
        s[x.n] = p[y.n] = 0;
        bool matched = ctr_bit(ctr_colbuf_view(&like)->data, i);
        wrong_like += matched != like_plain(s, p);
        matches += matched;
        substr_plain(s, ((const int64_t *)from.data.data)[i], ((const int64_t *)count.data.data)[i], want);
        wrong_sub += got.n != strlen(want) || memcmp(got.p, want, got.n);
        got = ctr_col_str(ctr_colbuf_view(&join), i);
        wrong_split += got.n != x.n || memcmp(got.p, x.p, x.n);
    }
    ok(wrong_like == 0 && matches > 300, "like equals its recursive definition on random texts (%lld match)",
       (long long)matches);
    ok(wrong_sub == 0, "substr equals counting characters: %lld wrong", (long long)wrong_sub);
    ok(wrong_split == 0, "join undoes split: %lld wrong", (long long)wrong_split);
    ctr_colbuf_free(&a);
    ctr_colbuf_free(&b);
    ctr_colbuf_free(&from);
    ctr_colbuf_free(&count);
    ctr_colbuf_free(&like);
    ctr_colbuf_free(&sub);
    ctr_colbuf_free(&split);
    ctr_colbuf_free(&join);
}

/* ---- lists long enough for opv_group to compare hashes ---- */

static bool same_item(const char *a, const char *b)
{
    return !strcmp(strcmp(a, "-0") ? a : "0", strcmp(b, "-0") ? b : "0");
}

/* unique and mode of n items from a pool of texts, against their definitions. */
static void check_long_list(const char *type, const char *const *pool, int pools, int n)
{
    const char **item = malloc((size_t)n * sizeof *item), *best = NULL;
    struct ctr_buf spec = { 0 }, want = { 0 };
    int most = 0;

    CHECK(ctr_buf_printf(&spec, &err, "%s:", type));
    CHECK(ctr_buf_append(&want, "[", 1, &err));
    for (int i = 0; i < n; i++) {
        int first = i;
        item[i] = pool[ctr_random64(3, 6, (uint64_t)i) % (uint64_t)pools];
        CHECK(ctr_buf_printf(&spec, &err, "%s%s", i ? "," : "", item[i]));
        if (!strcmp(item[i], "^"))
            continue;
        for (int k = i; k-- > 0;)
            if (same_item(item[k], item[i]))
                first = k;
        if (first == i)
            CHECK(ctr_buf_printf(&want, &err, "%s%s", want.len > 1 ? "," : "", item[i]));
    }
    for (int i = 0; i < n; i++) {
        int count = 0;
        for (int k = 0; k < n; k++)
            count += strcmp(item[i], "^") && same_item(item[i], item[k]);
        if (count > most) {
            most = count;
            best = item[i];
        }
    }
    CHECK(ctr_buf_append(&want, "]", 2, &err));
    CHECK(ctr_buf_append(&spec, "", 1, &err));
    check("unique", (const char *const[ARGS]){ (const char *)spec.data }, (const char *)want.data);
    check("mode", (const char *const[ARGS]){ (const char *)spec.data }, best);
    ctr_buf_free(&spec);
    ctr_buf_free(&want);
    free(item);
}

static void check_long_lists(void)
{
    static const char *const ints[] = { "159035", "164078", "^", "7", "-1", "164078", "159035", "0" },
                             *const floats[] = { "nan", "0", "-0", "2.5", "^", "-inf", "1e+300", "nan" },
                             *const words[] = { "a",
                                                "",
                                                "^",
                                                "b",
                                                "longer than sixteen bytes",
                                                "abcdefgh",
                                                "ab",
                                                "longer than sixteen byteS" };
    const int64_t alike[] = { 159035, 164078 };
    const struct opv_items l = { .kind = OPV_ITEM_I64, .i = alike };

    ok(!((opv_item_hash(&l, 0) ^ opv_item_hash(&l, 1)) & OPV_HASH_PART), "two items whose hashes are alike");
    for (int n = OPV_MANY - 1; n < 3 * OPV_MANY; n += 70) {
        check_long_list("li", ints, (int)CTR_COUNT(ints), n);
        check_long_list("lf", floats, (int)CTR_COUNT(floats), n);
        check_long_list("lt", words, (int)CTR_COUNT(words), n);
    }
}

/* Every other NaN of a column gets the sign, and each a payload of its own. */
static void mark_nans(struct ctr_colbuf *b)
{
    struct ctr_colbuf *values = b->item ? b->item : b;
    double *f64 = (double *)(void *)values->data.data;
    uint32_t *f32 = (uint32_t *)(void *)values->data.data;
    for (int64_t i = 0; i < values->rows; i++) {
        if (values->type == CTR_F64 && isnan(f64[i]))
            f64[i] = opv_bits_f64(0x7ff8000000000001u + (uint64_t)i + ((uint64_t)i << 63));
        if (values->type == CTR_F32 && (f32[i] & 0x7fffffff) > 0x7f800000)
            f32[i] = 0x7fc00001u + (uint32_t)i + ((uint32_t)i << 31);
    }
}

/* Arithmetic that makes a NaN, or passes one on, gives one bit pattern, whatever the processor does. */
static void check_nans(void)
{
    static const struct {
        const char *op, *arg[ARGS];
    } nans[] = {
        { "+", { "f:nan;nan;inf;1;nan", "f:1;nan;-inf;nan;2" } },
        { "-", { "f:nan;nan;inf;1;nan", "f:1;nan;inf;nan;2" } },
        { "*", { "f:nan;nan;inf;1;nan", "f:1;nan;0;nan;2" } },
        { "/", { "f:nan;nan;inf;1;0", "f:1;nan;inf;nan;0" } },
        { "/", { "f:nan;nan", "i:3;4" } },
        { "%", { "f:nan;nan;inf;1;5", "f:1;nan;3;nan;0" } },
        { "+", { "f32:nan;nan;inf;1;nan", "f32:1;nan;-inf;nan;2" } },
        { "neg", { "f:nan;nan" } },
        { "neg", { "f32:nan;nan" } },
        { "number", { "f32:nan;nan" } },
        { "log", { "f:nan;nan;-1;-inf" } },
        { "log1p", { "f:nan;nan;-2;-inf" } },
        { "exp", { "f:nan;nan" } },
        { "sum", { "lf:nan,1;1,nan,nan;inf,-inf" } },
        { "mean", { "lf:nan,1;1,nan,nan;inf,-inf" } },
        { "sum", { "lf32:nan,1;1,nan,nan;inf,-inf" } },
        { "dot", { "lf:nan,1;1,nan;0,1", "lf:1,1;nan,nan;inf,1" } },
    };
    for (size_t i = 0; i < CTR_COUNT(nans); i++) {
        struct ctr_colbuf out;
        struct call c;
        int64_t good = 0;
        CHECK(prepare(&c, nans[i].op, nans[i].arg, 1));
        for (int k = 0; k < c.call.nargs; k++)
            mark_nans(&c.col[k]);
        run(&c, c.view, &out);
        for (int64_t row = 0; row < out.rows; row++)
            good += out.type == CTR_F64
                        ? bits(((const double *)(const void *)out.data.data)[row]) == 0x7ff8000000000000u
                        : ((const uint32_t *)(const void *)out.data.data)[row] == 0x7fc00000u;
        ok(good == out.rows, "%s(%s): one NaN", nans[i].op, nans[i].arg[0]);
        ctr_colbuf_free(&out);
        finish(&c);
    }
}

/* A row of unit-op-table.h is what shows that an operator is right, on the host and on a device (tests/gpu.t). Those
 * without one are tried by the functions above that make their files or fit them, keywords by tests/keywords.t. */
static void check_has_row(const char *name)
{
    bool tried = is_listed("vocab quantiles keywords standardize minmax log_scale lookup embedding similarity", name);

    for (size_t i = 0; i < CTR_COUNT(rows); i++)
        tried |= !strcmp(rows[i].op, name) && rows[i].want[0] != '!';
    ok(tried, "operator %s has a row in tests/unit/unit-op-table.h: { \"%s\", { \"i:1;2\", … }, \"result;result\" }",
       name, name);
}

static void check_table(void)
{
    int n = 0;
    bool whole = true;

    for (const struct ctr_op *op; (op = ctr_op_at(n)); n++) {
        const char *name = ctr_op_name(op), *sig = ctr_op_signature(op), *help = ctr_op_help(op);
        bool good = ctr_op_find(name, strlen(name)) == op && strstr(sig, "->") && *help && !strchr(help, '\n') &&
                    help[strlen(help) - 1] != '.';
        if (!good)
            printf("# %s: name twice, or no signature or help\n", name);
        whole &= good;
        check_has_row(name);
    }
    ok(whole && n > 45, "%d operators, each with signature and help", n);
    ok(!ctr_op_find("no_such", 7), "an unknown operator is not found");
}

int main(void)
{
    if (getenv("CTR_CUDA_DRIVER"))
        CHECK(ctr_gpu_open(&gpu, &(struct ctr_gpu_opts){ .all = true, .pool_bytes = 1 }, &err));
    for (size_t i = 0; i < CTR_COUNT(rows); i++)
        check(rows[i].op, rows[i].arg, rows[i].want);
    if (!gpu)
        check_math();
    check_keys("i8:0;1;-1;127;~;-128");
    check_keys("i:0;1023;1024;-5;9223372036854775807;~;-9223372036854775808;12345678;123456789");
    check_keys("u:0;18446744073709551615;~;7");
    check_keys("k:0;18446744073709551615;~;7");
    check_keys("f:-0;~");
    check_keys("f:0;0.5;1e300;nan;inf;~;4;1e22");
    check_keys("f32:0.1;4;nan;~;-inf;1e20");
    check_keys("f16:0.1;4;~");
    check_keys("b:true;false;~");
    check_keys("t:;a;~;abc;abcdefgh;abcdefghijklmnop;a longer text of more than thirty bytes");
    check_keys("T:2019-11-14T00:00Z;~;1970-01-01");
    check_keys("lt:a,b;~;;^;a,^,c");
    check_keys("li:1,2;~;;5000,-7");
    check_keys("v2:1,2;0.1,4");
    if (!gpu) { /* these call no operator */
        check_eights("all", 0, false);
        check_eights("some of them null", 0, true);
        check_eights("some shorter or empty", 1500, false);
        check_eights("some null, some shorter", 700, true);
    }
    check_hash();
    check_one_key();
    check_cross();
    check_fitted();
    check_scale();
    check_lookup();
    check_buckets();
    check_nans();
    check_random();
    check_long_lists();
    check_table();
    if (gpu) {
        printf("# on a device: %d calls, %d refused, %lld launches, %lld times more pool\n", on_device, refused,
               (long long)ctr_gpu_stats(gpu)->launches, (long long)ctr_gpu_stats(gpu)->overflows);
        check_host_only();
        ctr_gpu_free(gpu);
    }
    return done_testing();
}
