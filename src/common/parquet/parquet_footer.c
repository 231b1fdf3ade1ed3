/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_footer: the metadata at the end of a file (FileMetaData of parquet.thrift): schema, row groups, column
 * chunks. Invariant: a footer that was read has a chunk of every leaf in each row group, within the file. */
#include "common/base/memory.h"
#include "common/parquet/parquet_impl.h"

#include <stdlib.h>

const char *const ctr_pq_types[PQ_NTYPES] = {
    "BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY",
};

/* The end of a file is FileMetaData, its length in 4 bytes, and PAR1. The schema in it is a list of elements, a tree in
 * the order of a walk; those of user: int64 and tags: list<utf8> are
 *
 *     element[0]  schema    2 children
 *     element[1]  user      INT64                        leaf 0
 *     element[2]  tags      1 child, a LIST
 *     element[3]  list      1 child, repeated
 *     element[4]  element   BYTE_ARRAY, UTF8             leaf 1
 *
 * so that each row group must have 2 chunks: group[g].chunk[1] is that of tags.list.element. parquet_schema.c makes the
 * columns of these. Members that no function here reads are skipped (ctr_pq_skip), so files of newer writers do. */

static int damaged(struct ctr_err *err, const char *what)
{
    return ctr_fail(err, CTR_EDATA, "the footer is damaged: %s", what);
}

/* ---- types ---- */

/* The field of a union is its value. */
static int which(struct pq_thrift *t, int wire, struct pq_field *f)
{
    *f = (struct pq_field){ 0 };
    if (wire != PQ_STRUCT || !ctr_pq_field(t, f)) {
        t->bad = true;
        return 0;
    }
    return f->id;
}

static void end_struct(struct pq_thrift *t, struct pq_field *f)
{
    while (ctr_pq_field(t, f))
        ctr_pq_skip(t, f->wire);
}

static void read_unit(struct pq_thrift *t, int wire, struct pq_element *e)
{
    struct pq_field f;
    const int unit = which(t, wire, &f);
    if (unit < 1 || unit > 3)
        t->bad = true;
    e->unit = (enum pq_unit)(unit - 1);
    ctr_pq_skip(t, f.wire);
    end_struct(t, &f);
}

/* The struct of a logical type: decimal, time, timestamp and integer have members. */
static void read_members(struct pq_thrift *t, int wire, struct pq_element *e)
{
    struct pq_field f = { 0 };
    if (wire != PQ_STRUCT)
        t->bad = true;
    while (!t->bad && ctr_pq_field(t, &f)) {
        if (e->meaning == PQ_DECIMAL && f.id == 1)
            e->scale = (int32_t)ctr_pq_int(t, f.wire);
        else if (e->meaning == PQ_DECIMAL && f.id == 2)
            e->precision = (int32_t)ctr_pq_int(t, f.wire);
        else if ((e->meaning == PQ_TIME || e->meaning == PQ_TIMESTAMP) && f.id == 2)
            read_unit(t, f.wire, e);
        else if (e->meaning == PQ_INTEGER && f.id == 1)
            e->bits = (int)ctr_pq_int(t, f.wire);
        else if (e->meaning == PQ_INTEGER && f.id == 2)
            e->is_signed = ctr_pq_bool(t, f.wire);
        else
            ctr_pq_skip(t, f.wire);
    }
}

static void read_logical(struct pq_thrift *t, int wire, struct pq_element *e)
{
    static const enum pq_meaning meanings[] = {
        [1] = PQ_UTF8,  [2] = PQ_MAPPING, [3] = PQ_LISTING,   [4] = PQ_UTF8,     [5] = PQ_DECIMAL,
        [6] = PQ_DATE,  [7] = PQ_TIME,    [8] = PQ_TIMESTAMP, [10] = PQ_INTEGER, [11] = PQ_UNKNOWN,
        [12] = PQ_UTF8, [14] = PQ_UUID,   [15] = PQ_FLOAT16,  [16] = PQ_VARIANT,
    };
    struct pq_field f;
    const int id = which(t, wire, &f);
    if (id > 0 && id < (int)CTR_COUNT(meanings) && meanings[id])
        e->meaning = meanings[id];
    read_members(t, f.wire, e);
    end_struct(t, &f);
}

/* Converted types, of files that have no logical ones: meaning, and unit or bits. */
static void apply_converted(struct pq_element *e, int64_t type)
{
    static const struct {
        enum pq_meaning meaning;
        int bits;
        bool is_signed;
        enum pq_unit unit;
    } types[] = {
        [0] = { PQ_UTF8 },
        [1] = { PQ_MAPPING },
        [2] = { PQ_MAPPING },
        [3] = { PQ_LISTING },
        [4] = { PQ_UTF8 },
        [5] = { PQ_DECIMAL },
        [6] = { PQ_DATE },
        [7] = { PQ_TIME, .unit = PQ_MS },
        [8] = { PQ_TIME, .unit = PQ_US },
        [9] = { PQ_TIMESTAMP, .unit = PQ_MS },
        [10] = { PQ_TIMESTAMP, .unit = PQ_US },
        [11] = { PQ_INTEGER, 8 },
        [12] = { PQ_INTEGER, 16 },
        [13] = { PQ_INTEGER, 32 },
        [14] = { PQ_INTEGER, 64 },
        [15] = { PQ_INTEGER, 8, true },
        [16] = { PQ_INTEGER, 16, true },
        [17] = { PQ_INTEGER, 32, true },
        [18] = { PQ_INTEGER, 64, true },
        [19] = { PQ_UTF8 },
        [20] = { PQ_PLAIN_TYPE },
        [21] = { PQ_INTERVAL },
    };
    if (type < 0 || type >= (int64_t)CTR_COUNT(types) || e->meaning != PQ_PLAIN_TYPE)
        return;
    e->meaning = types[type].meaning;
    e->bits = types[type].bits;
    e->is_signed = types[type].is_signed;
    e->unit = types[type].unit;
}

static void read_element(struct pq_thrift *t, struct pq_element *e)
{
    struct pq_field f = { 0 };
    int64_t converted = -1;
    *e = (struct pq_element){ .type = -1, .name = { "", 0 } };
    while (ctr_pq_field(t, &f))
        switch (f.id) {
        case 1: e->type = (int)ctr_pq_int(t, f.wire); break;
        case 2: e->length = (int32_t)ctr_pq_int(t, f.wire); break;
        case 3: e->repetition = (enum pq_repetition)ctr_pq_int(t, f.wire); break;
        case 4: e->name = ctr_pq_binary(t, f.wire); break;
        case 5: e->children = (int32_t)ctr_pq_int(t, f.wire); break;
        case 6: converted = ctr_pq_int(t, f.wire); break;
        case 7: e->scale = (int32_t)ctr_pq_int(t, f.wire); break;
        case 8: e->precision = (int32_t)ctr_pq_int(t, f.wire); break;
        case 10: read_logical(t, f.wire, e); break;
        default: ctr_pq_skip(t, f.wire); break;
        }
    apply_converted(e, converted);
    if (e->children > 0)
        e->type = -1;
    if (e->type >= PQ_NTYPES || (unsigned)e->repetition > PQ_REPEATED || e->children < 0)
        t->bad = true;
}

static int read_schema(struct pq_footer *f, struct pq_thrift *t, int wire, struct ctr_err *err)
{
    int type, cap = 0;
    const int64_t n = ctr_pq_list(t, wire, &type);
    if (f->element || type != PQ_STRUCT || n < 1)
        return damaged(err, "it has no schema");
    for (int64_t i = 0; i < n; i++) {
        int rc = ctr_array_grow(&f->element, f->elements, &cap, sizeof *f->element, err);
        if (rc)
            return rc;
        read_element(t, &f->element[f->elements]);
        if (t->bad)
            return damaged(err, "its schema breaks off");
        f->leaves += f->elements > 0 && f->element[f->elements].type >= 0;
        f->elements++;
    }
    return 0;
}

/* ---- column chunks ---- */

/* Are all data pages encoded by dictionary? The list of encodings does not say which ones are of data pages; the
 * statistics of encodings do. */
static bool dictionary_only(struct pq_thrift *t, int wire)
{
    int type;
    bool only = true;
    int64_t pages = 0;
    const int64_t n = ctr_pq_list(t, wire, &type);
    if (type != PQ_STRUCT)
        t->bad |= n > 0;
    for (int64_t i = 0; i < n && !t->bad; i++) {
        struct pq_field f = { 0 };
        int64_t page = -1, encoding = -1;
        while (ctr_pq_field(t, &f))
            if (f.id == 1)
                page = ctr_pq_int(t, f.wire);
            else if (f.id == 2)
                encoding = ctr_pq_int(t, f.wire);
            else
                ctr_pq_skip(t, f.wire);
        if (page == 0 || page == 3) {
            pages++;
            only &= encoding == 2 || encoding == 8;
        }
    }
    return only && pages;
}

/* Without such statistics: beside RLE_DICTIONARY, PLAIN may be the encoding of the dictionary page alone, and is taken
 * to be; beside PLAIN_DICTIONARY, which is then that page's, it is one of data pages. */
static bool dictionary_listed(struct pq_thrift *t, int wire)
{
    const unsigned old = 1u << 2, dictionary = 1u << 8, plain = 1u << 0, levels = 1u << 3 | 1u << 4;
    unsigned seen = 0;
    int type;
    const int64_t n = ctr_pq_list(t, wire, &type);
    for (int64_t i = 0; i < n && !t->bad; i++) {
        const int64_t e = ctr_pq_int(t, type);
        seen |= 1u << (e >= 0 && e < 31 ? e : 31);
    }
    return seen & dictionary ? !(seen & ~(dictionary | plain | levels)) : seen & old && !(seen & ~(old | levels));
}

/* Statistics: the deprecated fields 1 and 2 are used where 5 and 6 are not there. */
static void read_statistics(struct pq_thrift *t, int wire, struct pq_statistics *s)
{
    struct pq_field f = { 0 };
    struct ctr_str bound[7] = { { NULL, 0 } };
    if (wire != PQ_STRUCT)
        t->bad = true;
    while (!t->bad && ctr_pq_field(t, &f))
        if (f.id == 1 || f.id == 2 || f.id == 5 || f.id == 6)
            bound[f.id] = ctr_pq_binary(t, f.wire);
        else if (f.id == 3)
            s->nulls = ctr_pq_int(t, f.wire);
        else
            ctr_pq_skip(t, f.wire);
    s->old = !bound[5].p && !bound[6].p;
    s->max = bound[s->old ? 1 : 5];
    s->min = bound[s->old ? 2 : 6];
}

static void read_chunk_metadata(struct pq_thrift *t, int wire, struct pq_chunk *c)
{
    struct pq_field f = { 0 };
    int64_t data = -1, dictionary = 0;
    unsigned seen = 0;
    if (wire != PQ_STRUCT)
        t->bad = true;
    while (!t->bad && ctr_pq_field(t, &f)) {
        seen |= f.id >= 1 && f.id < 32 ? 1u << f.id : 0;
        switch (f.id) {
        case 1: c->type = (int)ctr_pq_int(t, f.wire); break;
        case 2: c->all_dict = dictionary_listed(t, f.wire); break;
        case 4: c->codec = (int)ctr_pq_int(t, f.wire); break;
        case 5: c->values = ctr_pq_int(t, f.wire); break;
        case 7: c->bytes = ctr_pq_int(t, f.wire); break;
        case 9: data = ctr_pq_int(t, f.wire); break;
        case 11: dictionary = ctr_pq_int(t, f.wire); break;
        case 12: read_statistics(t, f.wire, &c->statistics); break;
        case 13: c->all_dict = dictionary_only(t, f.wire); break;
        case 14: c->bloom_at = ctr_pq_int(t, f.wire); break;
        case 15: c->bloom_bytes = ctr_pq_int(t, f.wire); break;
        default: ctr_pq_skip(t, f.wire); break;
        }
    }
    c->start = dictionary > 0 && dictionary < data ? dictionary : data;
    const unsigned must = 1u << 1 | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 9;
    if ((seen & must) != must || c->values < 0 || c->bytes < 0 || c->start < 0)
        t->bad = true;
}

static void read_chunk(struct pq_thrift *t, struct pq_chunk *c)
{
    struct pq_field f = { 0 };
    bool described = false;
    *c = (struct pq_chunk){ .statistics = { .nulls = -1 } };
    while (ctr_pq_field(t, &f))
        switch (f.id) {
        case 1: c->elsewhere = ctr_pq_binary(t, f.wire).n > 0; break;
        case 3:
            read_chunk_metadata(t, f.wire, c);
            described = true;
            break;
        case 8:
            c->encrypted = true;
            ctr_pq_skip(t, f.wire);
            break;
        default: ctr_pq_skip(t, f.wire); break;
        }
    if (!described && !c->encrypted)
        t->bad = true;
}

static int read_chunks(struct pq_footer *f, struct pq_thrift *t, int wire, struct pq_group *g, struct ctr_err *err)
{
    int type, cap = 0, n = 0;
    const int64_t chunks = ctr_pq_list(t, wire, &type);
    if (g->chunk || chunks != f->leaves || (chunks && type != PQ_STRUCT))
        return damaged(err, "a row group has not a chunk for each column");
    for (; n < chunks; n++) {
        int rc = ctr_array_grow(&g->chunk, n, &cap, sizeof *g->chunk, err);
        if (rc)
            return rc;
        read_chunk(t, &g->chunk[n]);
        if (t->bad)
            return damaged(err, "a column chunk lacks what must be there");
    }
    return 0;
}

static int read_groups(struct pq_footer *f, struct pq_thrift *t, int wire, struct ctr_err *err)
{
    int type, cap = 0, rc = 0;
    const int64_t n = ctr_pq_list(t, wire, &type);
    if (f->group || !f->element || (n && type != PQ_STRUCT))
        return damaged(err, "its row groups are not where they belong");
    for (int64_t i = 0; i < n && !rc; i++) {
        struct pq_field field = { 0 };
        rc = ctr_array_grow(&f->group, f->groups, &cap, sizeof *f->group, err);
        if (rc)
            return rc;
        struct pq_group *g = &f->group[f->groups++];
        *g = (struct pq_group){ .rows = -1 };
        while (!rc && ctr_pq_field(t, &field))
            if (field.id == 1)
                rc = read_chunks(f, t, field.wire, g, err);
            else if (field.id == 3)
                g->rows = ctr_pq_int(t, field.wire);
            else
                ctr_pq_skip(t, field.wire);
        if (!rc && (t->bad || g->rows < 0 || (!g->chunk && f->leaves)))
            rc = damaged(err, "a row group breaks off");
    }
    return rc;
}

static int read_pairs(struct pq_footer *f, struct pq_thrift *t, int wire, struct ctr_err *err)
{
    int type, cap = 0, rc = 0;
    const int64_t n = ctr_pq_list(t, wire, &type);
    if (f->pair || (n && type != PQ_STRUCT))
        return damaged(err, "its metadata are not where they belong");
    for (int64_t i = 0; i < n && !rc && !t->bad; i++) {
        struct pq_field field = { 0 };
        struct pq_pair p = { 0 };
        while (ctr_pq_field(t, &field))
            if (field.id == 1)
                p.key = ctr_pq_binary(t, field.wire);
            else if (field.id == 2)
                p.value = ctr_pq_binary(t, field.wire);
            else
                ctr_pq_skip(t, field.wire);
        rc = ctr_array_grow(&f->pair, f->pairs, &cap, sizeof *f->pair, err);
        if (!rc)
            f->pair[f->pairs++] = p;
    }
    return rc;
}

/* Which order the bounds of each leaf have: known is 1, that of its type. Without a list for all leaves they have none.
 */
static int read_orders(struct pq_footer *f, struct pq_thrift *t, int wire, struct ctr_err *err)
{
    int type;
    const int64_t n = ctr_pq_list(t, wire, &type);
    if (n && type != PQ_STRUCT)
        t->bad = true;
    if (!f->ordered && n && n == f->leaves) {
        f->ordered = calloc((size_t)n, sizeof *f->ordered);
        if (!f->ordered)
            return ctr_fail_nomem(err, (size_t)n);
    }
    for (int64_t i = 0; i < n && !t->bad; i++) {
        struct pq_field field = { 0 };
        while (ctr_pq_field(t, &field)) {
            if (f->ordered && i < f->leaves)
                f->ordered[i] = field.id == 1;
            ctr_pq_skip(t, field.wire);
        }
    }
    return 0;
}

static int parse(struct pq_footer *f, bool *encrypted, struct ctr_err *err)
{
    struct pq_thrift t = { f->bytes.data, f->bytes.data + f->bytes.len, 0, false };
    struct pq_field field = { 0 };
    int64_t sum = 0;
    int rc = 0;
    f->rows = -1;
    while (!rc && ctr_pq_field(&t, &field))
        switch (field.id) {
        case 2: rc = read_schema(f, &t, field.wire, err); break;
        case 3: f->rows = ctr_pq_int(&t, field.wire); break;
        case 4: rc = read_groups(f, &t, field.wire, err); break;
        case 5: rc = read_pairs(f, &t, field.wire, err); break;
        case 7: rc = read_orders(f, &t, field.wire, err); break;
        case 8:
            *encrypted = true;
            ctr_pq_skip(&t, field.wire);
            break;
        default: ctr_pq_skip(&t, field.wire); break;
        }
    if (!rc && (t.bad || !f->element || f->rows < 0))
        rc = damaged(err, "it breaks off");
    for (int i = 0; !rc && i < f->groups; i++)
        if (__builtin_add_overflow(sum, f->group[i].rows, &sum))
            rc = damaged(err, "its row groups have more than 2^63 rows");
    f->rows = sum; /* some writers leave the number in the footer 0 */
    return rc;
}

int ctr_pq_footer_read(struct pq_footer *f, int fd, int64_t size, struct ctr_err *err)
{
    uint8_t tail[8], head[4];
    uint32_t n;
    bool encrypted = false;
    *f = (struct pq_footer){ 0 };
    if (size < 12)
        return ctr_fail(err, CTR_EDATA, "is no Parquet: %lld bytes are too few", (long long)size);
    int rc = ctr_pread_full(fd, head, sizeof head, 0, err);
    if (!rc)
        rc = ctr_pread_full(fd, tail, sizeof tail, size - (int64_t)sizeof tail, err);
    if (rc)
        return rc;
    if (!memcmp(tail + 4, "PARE", 4))
        return ctr_fail(err, CTR_EDATA, "is encrypted Parquet (PARE): write it without encryption first");
    if (memcmp(head, "PAR1", 4) || memcmp(tail + 4, "PAR1", 4))
        return ctr_fail(err, CTR_EDATA,
                        memcmp(head, "PAR1", 4) ? "is no Parquet: it does not begin with PAR1"
                                                : "is truncated: it does not end with PAR1");
    memcpy(&n, tail, sizeof n);
    if ((int64_t)n > size - 12)
        return ctr_fail(err, CTR_EDATA, "the footer is damaged: it is said to have %u bytes, and the file has %lld", n,
                        (long long)size);
    if ((int64_t)n > ctr_memory_batch())
        return ctr_memory_fail("the footer", n, err);
    rc = ctr_buf_reserve(&f->bytes, n, err);
    if (!rc)
        rc = ctr_pread_full(fd, f->bytes.data, n, size - 8 - (int64_t)n, err);
    f->bytes.len = n;
    if (!rc)
        rc = parse(f, &encrypted, err);
    if (!rc && encrypted)
        rc = ctr_fail(err, CTR_EDATA, "has encrypted columns: write it without encryption first");
    return rc;
}

void ctr_pq_footer_free(struct pq_footer *f)
{
    for (int i = 0; i < f->groups; i++)
        free(f->group[i].chunk);
    free(f->group);
    free(f->pair);
    free(f->ordered);
    free(f->element);
    ctr_buf_free(&f->bytes);
    *f = (struct pq_footer){ 0 };
}
