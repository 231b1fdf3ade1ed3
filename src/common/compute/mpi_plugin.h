/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of ctr-mpi.so (src/mpi/mpi.c), which comm_mpi.c opens. Neither links the other: plain functions and
 * texts. */
#ifndef CTR_MPI_PLUGIN_H
#define CTR_MPI_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define CTR_MPI_SYMBOL "ctr_mpi_plugin"
enum { CTR_MPI_LAYOUT = 2, /* version of this interface */ CTR_MPI_WHY = 512 };

struct ctr_mpi_plugin {
    int layout;
    char version[32];
    /* Functions return 0, or -1 with a message in `why` (CTR_MPI_WHY bytes). */
    /* local: the number of the rank among those of the same machine. */
    int (*open)(double limit_s, int *rank, int *size, int *local, char *why);
    /* Numbers of bytes to send to and receive from each rank. */
    int (*counts)(const int64_t *out, int64_t *in, char *why);
    /* The bytes; this rank's own part is not touched. */
    int (*data)(const void *const *out, const int64_t *out_n, void *const *in, const int64_t *in_n, char *why);
    /* Waits until the other ranks close. A process that exits without it ends them all. */
    void (*close)(void);
};

#endif
