/* SPDX-License-Identifier: Apache-2.0
 *
 * table: sparse state, which every model learns: 64-bit keys -> numbers.
 *
 *     keyhash.h    hashes of keys, and where they lie in a table
 *     area.h       memory that grows in place
 *     keyindex.h   the hash table under every model: keys -> numbers of states or rows
 *     states.h     an index and the states of coordinates in pages: lr's learner
 *     weights.h    a read-only table of weights: lr's scorer
 *     knownkeys.h  the keys that such a table leaves out, as fingerprints
 *     source.h     where the vectors of a network's keys live: in these tables, on a device, in a file
 *     source_ranks.h  a source whose keys are owned by ranks, which are processes
 *     merge_ranks.h   rows of all ranks in the order of keys, on rank 0
 *     rowfile.h    rows on disk, by place: under a source
 *     keypages.h   rows on disk, by key, without an index of keys: lr beyond memory
 *     keyset.h     the distinct keys of a minibatch
 *     keyvalue.h   the distinct values of columns, compared: users, keys of counts
 *     embedding.h  vectors of floats and their optimizer state, made from the key's hash: deep models
 */
#ifndef CTR_TABLE_H
#define CTR_TABLE_H

#include "common/table/area.h"
#include "common/table/embedding.h"
#include "common/table/keyhash.h"
#include "common/table/keyindex.h"
#include "common/table/keypages.h"
#include "common/table/keyset.h"
#include "common/table/knownkeys.h"
#include "common/table/merge_ranks.h"
#include "common/table/rowfile.h"
#include "common/table/source.h"
#include "common/table/source_ranks.h"
#include "common/table/keyvalue.h"
#include "common/table/sorted.h"
#include "common/table/states.h"
#include "common/table/weights.h"

#endif
