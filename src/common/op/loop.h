/* SPDX-License-Identifier: Apache-2.0
 *
 * loop: macros for the files loop_*.h. Each of those has the loops of a group of operators, written with macros
 * over the bodies of body*.h and compiled twice: on the host a macro becomes a loop over the rows of a tile
 * (opint.h), in a kernel the code of a thread for one row (common/op/loop_device.h). So each operator is written
 * once.
 *
 * In the expressions, i is the row, t the tile, a0, a1, a2 the lanes of the arguments, in the arguments themselves, ok
 * clears a result, p are the parameters of the call.
 *
 *     CTR_LOOP0(name, TR, expr)                   result of type TR; the arguments are in[k]
 *     CTR_LOOP1(name, TA, TR, expr)               one argument, a0, of type TA; CTR_LOOP2, CTR_LOOP3: more
 *     CTR_LOOP_PARAM(name, TA, P, TR, expr)       one argument and the parameters, const P *p
 *     CTR_LOOP_TEXT(name, MAX, WRITE)             a text: MAX(t, i) bounds its bytes, WRITE(t, i, s) writes into a sink
 *     CTR_LOOP_TEXTS(name, MAX, ITEMS, WRITE)     a list of texts: ITEMS(t, i) bounds its items
 *     CTR_LOOP_VECTOR(name, WRITE)                a vector of float32: WRITE(t, i) writes that of row i to t->out
 *     CTR_LOOP_ITEMS(name, T, expr)               one item of the list in[0]: expr returns its number or -1
 *     CTR_LOOP_CHOSEN(name, kind, expr)           some items: expr writes their numbers to `at`, returns how many
 *
 * MAX, ITEMS and WRITE are called only for rows with all arguments present, but for WRITE of a vector, which is called
 * for every row; WRITE may clear t->ok[i]. A loop that cannot be written this way runs only on the host: CTR_LOOP_HOST
 * gives the reason. */
#ifndef CTR_LOOP_H
#define CTR_LOOP_H

#ifdef CTR_KERNEL_TEXT
#include "common/op/loop_device.h"
#else
#include "common/op/opint.h"
#endif

#endif
