/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor_safetensors: the header of safetensors:
 *     {"__metadata__": {…}, "NAME": {"dtype": "F32", "shape": [64, 3], "data_offsets": [BEGIN, END]}, …}
 * Offsets count from the end of the header. */
#include "common/text/tensors.h"
#include "common/text/json.h"

struct entry {
    const struct ctr_dtype *dtype;
    int rank;
    int64_t shape[CTR_TENSOR_RANK], offset[2];
    bool has_shape, has_offsets;
};

static int broken(struct ctr_err *err, const char *why)
{
    return ctr_fail(err, CTR_EDATA, "the header is no JSON object of tensors: %s", why ? why : "it ends early");
}

/* Parse an array of nonnegative numbers; returns how many, or < 0. */
static int numbers(const struct ctr_json *v, int64_t *out, int most, const char **why)
{
    const char *p = v->p + 1, *end = v->p + v->n;
    bool first = true;
    int n = 0, more;

    if (v->kind != CTR_JSON_ARRAY) {
        *why = "shape and data_offsets are arrays";
        return -1;
    }
    while ((more = ctr_json_element(&p, end, ']', &first, why)) > 0) {
        struct ctr_json item;
        p = ctr_json_value(ctr_json_space(p, end), end, &item, why);
        if (!p)
            return -1;
        if (n == most || item.kind != CTR_JSON_PLAIN || !ctr_parse_i64(item.p, item.n, &out[n]) || out[n] < 0) {
            *why = n == most ? "an array is too long" : "a number of an array is no integer of 0 or more";
            return -1;
        }
        n++;
    }
    return more < 0 ? -1 : n;
}

static bool is(const struct ctr_json *v, const char *s)
{
    return v->n == strlen(s) && !memcmp(v->p, s, v->n);
}

static bool read_member(struct entry *e, const struct ctr_json *key, const struct ctr_json *v, const char **why)
{
    if (is(key, "dtype")) {
        e->dtype = v->kind == CTR_JSON_STRING ? ctr_dtype_find(v->p, v->n) : NULL;
        if (!e->dtype)
            *why = "a dtype is none of BOOL, I8 to I64, U8 to U64, F16, BF16, F32, F64";
        return e->dtype;
    }
    if (is(key, "shape")) {
        e->rank = numbers(v, e->shape, CTR_TENSOR_RANK, why);
        return e->has_shape = e->rank >= 0;
    }
    if (is(key, "data_offsets")) {
        const int n = numbers(v, e->offset, 2, why);
        if (n >= 0 && n != 2)
            *why = "data_offsets has two numbers";
        return e->has_offsets = n == 2;
    }
    *why = "a tensor has dtype, shape and data_offsets, no more";
    return false;
}

static bool read_entry(struct entry *e, const struct ctr_json *v, const char **why)
{
    const char *p = v->p + 1, *end = v->p + v->n;
    bool first = true;
    int more;

    if (v->kind != CTR_JSON_OBJECT) {
        *why = "a tensor is an object";
        return false;
    }
    while ((more = ctr_json_element(&p, end, '}', &first, why)) > 0) {
        struct ctr_json key, value;
        if (!ctr_json_key(&p, end, &key, why) || !(p = ctr_json_value(p, end, &value, why)) ||
            !read_member(e, &key, &value, why))
            return false;
    }
    if (!more && !(e->dtype && e->has_shape && e->has_offsets))
        *why = "a tensor lacks dtype, shape or data_offsets";
    return !more && e->dtype && e->has_shape && e->has_offsets;
}

static int add(struct ctr_tensors *f, const struct ctr_json *key, const struct entry *e, int64_t data,
               struct ctr_err *err)
{
    struct ctr_tensor t = { .dtype = e->dtype, .rank = e->rank };
    struct ctr_buf name = { 0 };
    int rc = 0;

    memcpy(t.shape, e->shape, sizeof t.shape);
    if (e->offset[0] > e->offset[1] || e->offset[1] > f->size - data)
        rc = ctr_fail(err, CTR_EDATA, "tensor %.*s: data_offsets %lld and %lld of %lld bytes of data",
                      (int)CTR_MIN(key->n, (size_t)200), key->p, (long long)e->offset[0], (long long)e->offset[1],
                      (long long)(f->size - data));
    t.at = data + e->offset[0];
    t.bytes = e->offset[1] - e->offset[0];
    if (!rc && key->escaped && (rc = ctr_json_unescape(key->p, key->n, &name, err)) >= 0)
        rc = rc ? 0 : broken(err, "a name has an escape that is none");
    const char *text = key->escaped ? (const char *)name.data : key->p;
    const size_t n = key->escaped ? name.len : key->n;
    if (!rc && (!n || memchr(text, 0, n) || !ctr_utf8_valid((const uint8_t *)text, n)))
        rc = broken(err, "a name is empty, or no text");
    if (!rc)
        rc = ctr_tensors_add(f, &t, text, n, err);
    ctr_buf_free(&name);
    return rc;
}

int ctr_safetensors_head(struct ctr_tensors *f, const uint8_t *head, size_t n, struct ctr_err *err)
{
    const char *end = (const char *)head + n, *p = (const char *)head + 8, *why = NULL;
    struct ctr_json all;
    bool first = true;
    int more, rc = 0;

    const char *rest = ctr_json_value(p, end, &all, &why);
    if (!rest || all.kind != CTR_JSON_OBJECT)
        return broken(err, why);
    for (; rest < end; rest++)
        if (*rest != ' ' && *rest != '\n' && *rest)
            return broken(err, "something follows it");
    p = all.p + 1;
    while (!rc && (more = ctr_json_element(&p, end, '}', &first, &why)) != 0) {
        struct ctr_json key, value;
        struct entry e = { 0 };
        if (more < 0 || !ctr_json_key(&p, end, &key, &why) || !(p = ctr_json_value(p, end, &value, &why)))
            return broken(err, why);
        if (is(&key, "__metadata__"))
            continue;
        if (!read_entry(&e, &value, &why))
            return ctr_fail(err, CTR_EDATA, "tensor %.*s: %s", (int)CTR_MIN(key.n, (size_t)200), key.p,
                            why ? why : "the header ends early");
        rc = add(f, &key, &e, (int64_t)n, err);
    }
    return rc;
}
