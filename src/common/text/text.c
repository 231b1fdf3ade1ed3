/* SPDX-License-Identifier: Apache-2.0
 *
 * text: the table of the formats that ctr-import reads. A new format is a file and a row here. */
#include "common/text/text.h"

const struct ctr_text_format *const ctr_text_formats[] = {
    &ctr_text_csv, &ctr_text_tsv, &ctr_text_jsonl, &ctr_text_libsvm, &ctr_text_libffm, &ctr_text_vw, NULL,
};

const struct ctr_text_format *ctr_text_format_find(const char *name)
{
    for (int i = 0; ctr_text_formats[i]; i++)
        if (!strcmp(ctr_text_formats[i]->name, name))
            return ctr_text_formats[i];
    return NULL;
}

const struct ctr_text_format *ctr_text_format_guess(const char *path)
{
    size_t n = strlen(path);
    if (n > 3 && !strcmp(path + n - 3, ".gz"))
        n -= 3;
    for (int i = 0; ctr_text_formats[i]; i++) {
        const char *suffix = ctr_text_formats[i]->suffix;
        size_t k = suffix ? strlen(suffix) : 0;
        if (k && n > k && !memcmp(path + n - k, suffix, k))
            return ctr_text_formats[i];
    }
    return NULL;
}
