/* SPDX-License-Identifier: Apache-2.0
 *
 * fields: internal to the importers of libsvm, libffm and vw. A line is a label and (feature, value) items, each in a
 * field: the single `features` column of libsvm, a field of libffm, a namespace of vw. A field becomes, by --keys,
 *   hash list<weighted key>: ctr_feature_key of the feature's text in the table that bears the column's name (default)
 *   key   list<weighted key>: the feature is an integer and the key itself, as ctr-export wrote it
 *   text list<utf8> NAME and list<float32> NAME.weight: everything stays readable, and ctr-export writes it back
 */
#ifndef CTR_FIELDS_H
#define CTR_FIELDS_H

#include "common/text/text.h"

enum ctr_keys { CTR_KEYS_HASH, CTR_KEYS_KEY, CTR_KEYS_TEXT };

struct ctr_input_field {
    char *name; /* as in the input */
    size_t name_n;
    int out, weight_out; /* columns of the batch, or -1: skipped */
    uint64_t seed;
};

struct ctr_fields {
    const struct ctr_text_opts *o;
    enum ctr_keys keys;
    bool binary;      /* labels -1 and 1 become 0 and 1, others are bad */
    bool fields_open; /* unlisted fields are skipped (--columns), otherwise bad rows */
    struct ctr_input_field *field;
    int fields, cap;
    struct ctr_index index;          /* of the fields by name */
    int label, weight, query, tag;   /* columns of the batch, or -1 */
    struct ctr_text_columns columns; /* only while opening */
};

#define CTR_MAX_FIELDS 4096

/* Opening: new, add columns in order, then the schema. *s is valid after any error except lack of memory, for the
 * format's `close`: ctr_fields_free. */
int ctr_fields_new(struct ctr_fields **s, const struct ctr_text_opts *o, struct ctr_err *err) CTR_MUST;
int ctr_fields_fixed(struct ctr_fields *s, const char *name, enum ctr_type type, struct ctr_err *err) CTR_MUST;
/* Once for each name in the input; `column` is the name in the stream. */
int ctr_fields_add_field(struct ctr_fields *s, const char *name, size_t n, const char *column,
                         struct ctr_err *err) CTR_MUST;
int ctr_fields_picked(const struct ctr_text_opts *o, struct ctr_text_columns *pick, struct ctr_err *err) CTR_MUST;
int ctr_fields_schema(struct ctr_fields *s, const struct ctr_text_opts *o, struct ctr_schema *schema,
                      struct ctr_err *err) CTR_MUST;
void ctr_fields_free(void *fields);
/* Index of the field of that name, or -1. `guess` is tried first. */
int ctr_fields_find(const struct ctr_fields *s, const char *name, size_t n, int guess);

/* Parsing. All return 0, or CTR_EDATA with the reason in *why, or another error. */
int ctr_fields_item(const struct ctr_fields *s, struct ctr_text_job *j, int field, const char *p, size_t n, float value,
                    struct ctr_err *why) CTR_MUST;
bool ctr_fields_value(const char *p, size_t n, float *v); /* a finite number */
int ctr_fields_label(const struct ctr_fields *s, struct ctr_text_job *j, const char *p, size_t n,
                     struct ctr_err *why) CTR_MUST;
/* An index of digits only, without its leading zeros. */
bool ctr_fields_index(const char **p, size_t *n);

/* Call `row` for every record of the block, without its line end; it returns 1 (appended a row, without closing its
 * lists), 0 (nothing: a blank line) or < 0 as above. */
int ctr_fields_parse(const struct ctr_fields *s, struct ctr_text_job *j, struct ctr_err *err,
                     int (*row)(const struct ctr_fields *s, struct ctr_text_job *j, const char *p, const char *end,
                                struct ctr_err *why)) CTR_MUST;

static inline bool ctr_is_blank(char c)
{
    return c == ' ' || c == '\t';
}
/* The next token of [*p, end), delimited by blanks: returns its end; *p is its start. Empty at the end of the line. */
static inline const char *ctr_next_token(const char **p, const char *end)
{
    const char *e;

    while (*p < end && ctr_is_blank(**p))
        (*p)++;
    for (e = *p; e < end && !ctr_is_blank(*e);)
        e++;
    return e;
}

#endif
