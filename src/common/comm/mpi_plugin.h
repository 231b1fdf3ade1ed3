/* SPDX-License-Identifier: Apache-2.0
 *
 * What ctr-mpi.so exports (src/mpi/mpi.c) and comm_mpi.c opens. It links neither way: plain functions and texts. */
#ifndef CTR_MPI_PLUGIN_H
#define CTR_MPI_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define CTR_MPI_SYMBOL "ctr_mpi_plugin"
enum { CTR_MPI_LAYOUT = 1, /* of what follows */ CTR_MPI_WHY = 512 };

struct ctr_mpi_plugin {
    int layout;
    char version[32];
    /* Functions return 0, or -1 with `why`, which has room for CTR_MPI_WHY bytes. */
    int (*open)(double limit_s, int *rank, int *size, char *why);
    /* How many bytes go to each rank, and come from it. */
    int (*counts)(const int64_t *out, int64_t *in, char *why);
    /* The bytes; those for this rank itself are left alone. */
    int (*data)(const void *const *out, const int64_t *out_n, void *const *in, const int64_t *in_n, char *why);
    /* Waits for the other ranks to close. A process that exits without it ends them all. */
    void (*close)(void);
};

#endif
