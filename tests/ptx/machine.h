/* SPDX-License-Identifier: Apache-2.0
 *
 * machine: runs translated kernels on the host, one thread at a time, and owns what they may touch.
 *
 * A thread of a block is a fibre. It goes on until a barrier, a warp operation or an atomic; with PTX_FINE=k also until
 * one of k/8 of all loads and stores. PTX_ORDER says which thread and block goes on:
 *     fwd        blocks and threads in order, one block at a time (default)
 *     rev        the last block and the last thread first
 *     rand:SEED  four blocks in flight, the next step drawn
 *
 * An error is told with kernel, block, thread and line of the PTX, and aborts: accesses outside of an allocation, of
 * shared memory or misaligned, division by 0, lanes that a mask wrongly names, a barrier that a part of a block
 * reaches, dead- and livelock. Not modelled: stores that others see late (every order here is sequentially consistent),
 * registers, caches, time; streams and events, since each call is done when it returns. */
#ifndef PTX_MACHINE_H
#define PTX_MACHINE_H

#include <cstdint>
#include <string>

extern "C" {
#include "device.h"
}

struct kernel {
    struct ptx_kernel k;
};

/* Device memory lies between pages that nobody owns, and is poisoned. */
void *device_alloc(uint64_t bytes);
int device_free(void *p); /* -1: none starts there */
/* The side or sides that are of the device must lie there whole. */
void device_copy(void *to, bool to_device, const void *from, bool from_device, uint64_t bytes);
void device_set(void *p, int value, uint64_t bytes);

/* BASE.so: the translation of BASE.ptx, made if it is not there. -1: it cannot be made. */
int translate(const std::string &base);
/* Kernel `name` of a module's translation; NULL: there is none. */
const kernel *kernel_find(const std::string &base, const std::string &name);
std::string machine_folder(void); /* where modules lie: beside this library */
/* -1: a driver would refuse its size. */
int launch(const kernel *k, const unsigned grid[3], const unsigned block[3], uint64_t shared, const uint8_t *param);

#endif
