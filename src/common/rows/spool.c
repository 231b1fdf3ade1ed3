/* SPDX-License-Identifier: Apache-2.0
 *
 * spool: written once as an ordinary stream, then read as one, so that data read back from the disk are verified. */
#include "common/rows/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct ctr_spool {
    int fd;
    char path[32]; /* /dev/fd/N: the file is unnamed */
    struct ctr_out *out;
    struct ctr_writer *w;
    bool whole;
};

int ctr_spool_new(struct ctr_spool **spool, const struct ctr_schema *schema, struct ctr_err *err)
{
    struct ctr_spool *s = calloc(1, sizeof *s);
    struct ctr_schema plain;

    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->fd = ctr_tmpfile(err);
    int rc = s->fd < 0 ? err->code : ctr_schema_copy(&plain, schema, err);
    if (!rc) {
        snprintf(s->path, sizeof s->path, "/dev/fd/%d", s->fd);
        rc = ctr_meta_set(&plain.meta, CTR_META_SECTION, NULL, err); /* one stream, not a bundle */
        if (!rc)
            rc = ctr_meta_set(&plain.meta, CTR_META_SECTIONS, NULL, err);
        if (!rc)
            rc = ctr_out_open(&s->out, s->path, CTR_OUT_TEMP, err);
        if (!rc)
            rc = ctr_writer_open(&s->w, s->out, &plain, NULL, err);
        ctr_schema_free(&plain);
    }
    if (rc) {
        ctr_spool_free(s);
        return rc;
    }
    *spool = s;
    return 0;
}

int ctr_spool_batch(struct ctr_spool *s, const struct ctr_batch *b, struct ctr_err *err)
{
    return ctr_writer_batch(s->w, b, err);
}

int ctr_spool_reread(struct ctr_spool *s, struct ctr_reader **r, struct ctr_err *err)
{
    char *path = s->path;
    int rc = s->whole ? 0 : ctr_writer_finish(s->w, err);

    if (!rc && !s->whole)
        rc = ctr_out_commit(s->out, err);
    s->whole |= !rc;
    return rc ? rc : ctr_reader_open(r, &path, 1, NULL, err);
}

void ctr_spool_free(struct ctr_spool *s)
{
    if (!s)
        return;
    ctr_writer_free(s->w);
    ctr_out_free(s->out);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}
