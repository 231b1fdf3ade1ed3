/* SPDX-License-Identifier: Apache-2.0
 *
 * oploop: what the files oploop_*.h need. Each of them has the loops of a group of operators, written in macros over
 * the bodies of opbody*.h, and is text for two compilers: on the host a macro becomes a loop over the rows of a tile
 * (opint.h), in a kernel the code of a thread for one row (common/op/oploop_device.h). So an operator is written once.
 *
 * Within the expressions i is the row, t the tile, a0, a1, a2 the lanes of the arguments, in the arguments themselves,
 * ok what clears a result, p the parameters of the call.
 *
 *     CTR_LOOP0(name, TR, expr)                   result of type TR; the arguments are in[k]
 *     CTR_LOOP1(name, TA, TR, expr)               one argument, a0, of type TA; CTR_LOOP2, CTR_LOOP3: more
 *     CTR_LOOP_PARAM(name, TA, P, TR, expr)       one argument and the parameters, const P *p
 *     CTR_LOOP_TEXT(name, MAX, WRITE)             a text: MAX(t, i) bounds its bytes, WRITE(t, i, s) writes into a sink
 *     CTR_LOOP_TEXTS(name, MAX, ITEMS, WRITE)     a list of texts: ITEMS(t, i) bounds its items
 *     CTR_LOOP_ITEMS(name, T, expr)               one of the items of the list in[0]: expr gives its number or -1
 *     CTR_LOOP_CHOSEN(name, kind, expr)           some of its items: expr writes their numbers to `at`, gives how many
 *
 * MAX, ITEMS and WRITE see rows whose arguments are all present; WRITE may clear t->ok[i]. A loop that has no such form
 * is the host's alone: CTR_LOOP_HOST says why. */
#ifndef CTR_OPLOOP_H
#define CTR_OPLOOP_H

#ifdef CTR_KERNEL_TEXT
#include "common/op/oploop_device.h"
#else
#include "common/op/opint.h"
#endif

#endif
