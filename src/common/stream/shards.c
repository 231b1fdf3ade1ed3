/* SPDX-License-Identifier: Apache-2.0
 *
 * shards: which files, or which blocks of one IPC file, a process reads that is one of several which share the rows
 * out among them. */
#include "common/stream/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct place {
    dev_t dev;
    ino_t ino;
    int file;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    if (x->ino != y->ino)
        return x->ino < y->ino ? -1 : 1;
    return (x->file > y->file) - (x->file < y->file);
}

/* Fail if two of the files are the same: their rows would be learned twice. */
static int check_twice(char *const *path, int n, struct ctr_err *err)
{
    struct place *at = malloc(((size_t)n + 1) * sizeof *at);
    int known = 0, rc = 0;
    if (!at)
        return ctr_fail_nomem(err, (size_t)n * sizeof *at);
    for (int i = 0; i < n; i++) {
        struct stat st;
        if (!stat(path[i], &st))
            at[known++] = (struct place){ st.st_dev, st.st_ino, i };
    }
    qsort(at, (size_t)known, sizeof *at, by_place);
    for (int i = 1; !rc && i < known; i++)
        if (at[i].dev == at[i - 1].dev && at[i].ino == at[i - 1].ino)
            rc = ctr_fail(err, CTR_EUSAGE, "%s and %s are one file: its rows would be learned twice",
                          path[at[i - 1].file], path[at[i].file]);
    free(at);
    return rc;
}

static bool has_blocks(const char *path)
{
    char magic[6] = "";
    FILE *f = fopen(path, "rb");
    const bool is = f && fread(magic, sizeof magic, 1, f) == 1 && !memcmp(magic, "ARROW1", sizeof magic);
    if (f)
        fclose(f);
    return is;
}

int ctr_shard_files(int part, int parts, char *const *path, int n, struct ctr_shard_files *mine, struct ctr_err *err)
{
    *mine = (struct ctr_shard_files){ .path = calloc((size_t)n + 1, sizeof *mine->path) };
    if (!mine->path)
        return ctr_fail_nomem(err, (size_t)n * sizeof *mine->path);
    for (int i = 0; i < n; i++)
        if (!strcmp(path[i], "-"))
            return ctr_fail(err, CTR_EUSAGE, "ranks read files, not stdin: name them");
    if (n == 1 && has_blocks(path[0])) {
        mine->path[mine->n++] = path[0];
        mine->part = part;
        mine->parts = parts;
        return 0;
    }
    if (n < parts)
        return ctr_fail(err, CTR_EUSAGE,
                        "%d file%s for %d ranks: each rank reads files of its own; name %d or more (ctr-split makes "
                        "them), or one .arrow file, whose blocks are shared out (ctr-cat --to file)",
                        n, CTR_S(n), parts, parts);
    for (int i = part; i < n; i += parts)
        mine->path[mine->n++] = path[i];
    return check_twice(path, n, err);
}
