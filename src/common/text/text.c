/* SPDX-License-Identifier: Apache-2.0
 *
 * text: the table of the formats that ctr-import reads. To add a format, add a file and a row here. */
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

static bool ends(const char *p, size_t n, const char *suffix)
{
    size_t k = strlen(suffix);
    return n > k && !memcmp(p + n - k, suffix, k);
}

size_t ctr_text_unpacked_length(const char *path)
{
    static const char *const packed[] = { ".gz", ".zst", ".lz4", ".bz2", ".xz", ".Z" };
    size_t n = strlen(path);
    for (size_t i = 0; i < CTR_COUNT(packed); i++)
        if (ends(path, n, packed[i]))
            return n - strlen(packed[i]);
    return n;
}

const struct ctr_text_format *ctr_text_format_guess(const char *path)
{
    static const struct {
        const char *suffix;
        const struct ctr_text_format *format;
    } others[] = { { ".ndjson", &ctr_text_jsonl },
                   { ".json", &ctr_text_jsonl },
                   { ".svm", &ctr_text_libsvm },
                   { ".ffm", &ctr_text_libffm } };
    const size_t n = ctr_text_unpacked_length(path);
    for (int i = 0; ctr_text_formats[i]; i++)
        if (ends(path, n, ctr_text_formats[i]->suffix))
            return ctr_text_formats[i];
    for (size_t i = 0; i < CTR_COUNT(others); i++)
        if (ends(path, n, others[i].suffix))
            return others[i].format;
    return NULL;
}
