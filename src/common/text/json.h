/* SPDX-License-Identifier: Apache-2.0
 *
 * json: navigates JSON text without building a tree. All functions interpret only [p, end), but may load up to CTR_PAD
 * bytes past `end`; for invalid text they return NULL, with a reason in *why.
 */
#ifndef CTR_JSON_H
#define CTR_JSON_H

#include "common/stream/batch.h"

#define CTR_JSON_DEPTH 256 /* deeper nesting is an error */

/* A value within the text. */
enum ctr_json_kind { CTR_JSON_NONE, CTR_JSON_NULL, CTR_JSON_STRING, CTR_JSON_PLAIN, CTR_JSON_ARRAY, CTR_JSON_OBJECT };
struct ctr_json {
    const char *p; /* STRING: without the quotes; PLAIN: a number, true or false; ARRAY, OBJECT: with the brackets */
    size_t n;
    enum ctr_json_kind kind;
    bool escaped; /* STRING: has backslashes */
};

static inline const char *ctr_json_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* Parse the value at p, which must not be a blank; returns its end. For a container it only matches brackets and
 * quotes; a plain value must be a JSON number, true, false or null. */
const char *ctr_json_value(const char *p, const char *end, struct ctr_json *v, const char **why);
/* Is an array or object valid JSON throughout? NULL, or the reason why not. */
const char *ctr_json_unsound(const struct ctr_json *v);
/* Iterate over a container: *p is after its opening bracket or after an element; 1: an element starts at *p; 0: end,
 * with *p after the closing bracket; -1: invalid. `first` starts true. */
int ctr_json_element(const char **p, const char *end, char close, bool *first, const char **why);
/* Parse the key at *p and its colon: *key is the text within quotes, *p the first byte of the value. */
bool ctr_json_key(const char **p, const char *end, struct ctr_json *key, const char **why);

/* Append the text of an escaped string to `out`: 1, or 0 if an escape is invalid or half a surrogate pair. */
int ctr_json_unescape(const char *p, size_t n, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

/* Append a text in quotes, with the necessary escapes. */
int ctr_json_quote(struct ctr_buf *b, const char *p, size_t n, struct ctr_err *err) CTR_MUST;
void ctr_say_json(struct ctr_say *s, const char *p, size_t n);
void ctr_say_json_text(struct ctr_say *s, const char *before, const char *text); /* `before` as it is, then the text */

/* Append a value to a column, like ctr_cell_append: 1; 0: it does not fit (rewind: items may remain); < 0: no memory. A
 * utf8 column accepts any value as its text, but an object or array only if it is valid JSON throughout; null and
 * CTR_JSON_NONE give null; texts that contain a number or a time are accepted as one. Recursion is limited by the type:
 * lists contain scalars. */
struct ctr_text_column;
struct ctr_text_job;
int ctr_json_append(struct ctr_colbuf *b, const struct ctr_text_column *c, const struct ctr_json *v,
                    struct ctr_text_job *j, struct ctr_buf *scratch, struct ctr_err *err) CTR_MUST;

#endif
