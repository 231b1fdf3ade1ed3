/* SPDX-License-Identifier: Apache-2.0
 *
 * json: finding one's way in JSON text without building it. All functions look at [p, end) only, but may load up to
 * CTR_PAD bytes beyond `end`; they return NULL, with a reason in *why, where the text is broken.
 */
#ifndef CTR_JSON_H
#define CTR_JSON_H

#include "common/batch/batch.h"

#define CTR_JSON_DEPTH 256 /* deeper nesting is refused */

/* A value as it stands in the text. */
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

/* The value at p, which is no blank: what it is, and where it ends (returned). Brackets and quotes of a container are
 * matched, no more; a plain value must be a JSON number, true, false or null. */
const char *ctr_json_value(const char *p, const char *end, struct ctr_json *v, const char **why);
/* Is the array or object that a value is JSON all through? NULL, or why not. */
const char *ctr_json_unsound(const struct ctr_json *v);
/* Step through a container: *p is behind its opening bracket or behind an element; 1: an element begins at *p, 0: its
 * end, *p behind the closing bracket; -1: broken. `first` starts true. */
int ctr_json_element(const char **p, const char *end, char close, bool *first, const char **why);
/* The key at *p and its colon: *key is the text in quotes, *p the first byte of the value. */
bool ctr_json_key(const char **p, const char *end, struct ctr_json *key, const char **why);

/* Append the text of an escaped string to `out`: 1, or 0 where an escape is none or half a surrogate pair. */
int ctr_json_unescape(const char *p, size_t n, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

/* Append a text in quotes, escaped where it must be. */
int ctr_json_quote(struct ctr_buf *b, const char *p, size_t n, struct ctr_err *err) CTR_MUST;

/* Append a value to a column, as ctr_cell_append: 1; 0: it does not fit (rewind: items may be left behind); < 0: no
 * memory. A utf8 column takes any value, as its text, of an object or array what is JSON all through; null and none are
 * null; texts that spell a number or a time are one. Recursion is that of the type: lists hold scalars. */
struct ctr_text_column;
struct ctr_text_job;
int ctr_json_append(struct ctr_colbuf *b, const struct ctr_text_column *c, const struct ctr_json *v,
                    struct ctr_text_job *j, struct ctr_buf *scratch, struct ctr_err *err) CTR_MUST;

#endif
