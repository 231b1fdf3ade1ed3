/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor_npy: the header of npy (versions 1 to 3), a Python dict:
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } */
#include "common/text/tensors.h"

static const struct {
    const char *descr, *dtype;
    bool time;
} types[] = {
    { "|b1", "BOOL" }, { "|i1", "I8" },  { "<i2", "I16" },           { "<i4", "I32" }, { "<i8", "I64" },
    { "|u1", "U8" },   { "<u2", "U16" }, { "<u4", "U32" },           { "<u8", "U64" }, { "<f2", "F16" },
    { "<f4", "F32" },  { "<f8", "F64" }, { "<M8[ms]", "I64", true },
};

struct scan {
    const char *p, *end;
    const char *why;
};

static void blanks(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n'))
        s->p++;
}

static bool take(struct scan *s, char c)
{
    blanks(s);
    const bool there = s->p < s->end && *s->p == c;
    s->p += there;
    return there;
}

static bool word(struct scan *s, const char *w)
{
    const size_t n = strlen(w);
    blanks(s);
    const bool there = (size_t)(s->end - s->p) >= n && !memcmp(s->p, w, n);
    s->p += there ? n : 0;
    return there;
}

/* A string in quotes of either kind, without escapes. */
static bool quoted(struct scan *s, struct ctr_str *out)
{
    blanks(s);
    if (s->p == s->end || (*s->p != '\'' && *s->p != '"'))
        return false;
    const char quote = *s->p++;
    out->p = s->p;
    while (s->p < s->end && *s->p != quote && *s->p != '\\')
        s->p++;
    out->n = (size_t)(s->p - out->p);
    return take(s, quote);
}

static bool shape(struct scan *s, struct ctr_tensor *t)
{
    if (!take(s, '('))
        return false;
    while (!take(s, ')')) {
        blanks(s);
        const char *from = s->p;
        while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
            s->p++;
        if (t->rank == CTR_TENSOR_RANK || !ctr_parse_i64(from, (size_t)(s->p - from), &t->shape[t->rank]))
            return false;
        t->rank++;
        if (!take(s, ',')) {
            if (!take(s, ')'))
                return false;
            break;
        }
    }
    return true;
}

static bool member(struct scan *s, struct ctr_tensor *t, struct ctr_str *descr, bool *fortran, unsigned *seen)
{
    struct ctr_str key;
    if (!quoted(s, &key) || !take(s, ':'))
        return false;
    if (key.n == 5 && !memcmp(key.p, "descr", 5)) {
        *seen |= 1;
        return quoted(s, descr);
    }
    if (key.n == 13 && !memcmp(key.p, "fortran_order", 13)) {
        *seen |= 2;
        *fortran = word(s, "True");
        return *fortran || word(s, "False");
    }
    *seen |= 4;
    return key.n == 5 && !memcmp(key.p, "shape", 5) && shape(s, t);
}

int ctr_npy_head(struct ctr_tensors *f, const uint8_t *head, size_t n, struct ctr_err *err)
{
    const size_t skip = head[6] > 1 ? 12 : 10;
    struct scan s = { (const char *)head + skip, (const char *)head + n, NULL };
    struct ctr_tensor t = { .at = (int64_t)n };
    struct ctr_str descr = { 0 };
    bool fortran = false;
    unsigned seen = 0;

    if (head[6] < 1 || head[6] > 3 || n < skip)
        return ctr_fail(err, CTR_EKIND, "is npy of version %d: 1 to 3 are read", head[6]);
    bool good = take(&s, '{');
    while (good && !take(&s, '}')) {
        good = member(&s, &t, &descr, &fortran, &seen);
        if (good && !take(&s, ',')) {
            good = take(&s, '}');
            break;
        }
    }
    blanks(&s);
    if (!good || seen != 7 || s.p != s.end)
        return ctr_fail(
            err, CTR_EDATA,
            "the npy header is not {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }; an array of "
            "records is not read");
    for (size_t i = 0; i < CTR_COUNT(types); i++)
        if (strlen(types[i].descr) == descr.n && !memcmp(types[i].descr, descr.p, descr.n)) {
            t.dtype = ctr_dtype_find(types[i].dtype, strlen(types[i].dtype));
            t.time = types[i].time;
        }
    if (!t.dtype)
        return ctr_fail(err, CTR_EKIND,
                        "npy of '%.*s' is not read: little-endian numbers, bools and datetime64[ms] are "
                        "(numpy.asarray(x, dtype='<f4'))",
                        (int)CTR_MIN(descr.n, (size_t)60), descr.p);
    if (fortran && t.rank > 1)
        return ctr_fail(err, CTR_EKIND, "the array is in Fortran order: numpy.ascontiguousarray(x) is not");
    t.bytes = f->size - t.at;
    return ctr_tensors_add(f, &t, "value", 5, err);
}
