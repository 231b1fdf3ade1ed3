/* SPDX-License-Identifier: Apache-2.0
 *
 * harness: what the fuzz targets share. A target is one file fuzz-X.c with LLVMFuzzerTestOneInput, which drives the
 * library and returns 0 whatever the input is; a crash, a sanitizer's report or FUZZ_CHECK is a finding. With clang the
 * targets are libFuzzer's (`make fuzz`); with any compiler they are linked with replay.c and run the files in corpus/
 * (`make check`).
 */
#ifndef CTR_FUZZ_HARNESS_H
#define CTR_FUZZ_HARNESS_H

#include <stdlib.h>

#include "common/stream/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) __attribute__((weak));

/* An invariant of the library that no input may break; unless an allocation failed on purpose. */
#define FUZZ_CHECK(cond)                                                                                               \
    do {                                                                                                               \
        if (!(cond) && !fuzz_starved())                                                                                \
            abort();                                                                                                   \
    } while (0)
bool fuzz_starved(void);

/* Files in memory (memfile.c), FUZZ_SLOTS of them: the path of one that holds the bytes, which are borrowed; of one
 * that ctr_out_open writes straight to, empty at first, at most a mebibyte; and the latter's to read. */
enum { FUZZ_SCORES = 4, FUZZ_BEST, FUZZ_SLOTS }; /* the last two are what lies beside a checkpoint in slot 0 */
const char *fuzz_file(int slot, const uint8_t *data, size_t size);
const char *fuzz_out(int slot);
const char *fuzz_path(int slot);

/* Fixed batches, made once: rows of every type with nulls, odd numbers and odd texts; features as a model sees them. */
const struct ctr_batch *fuzz_batch(void);
const struct ctr_batch *fuzz_features(void);

/* Read all of it, looking at every value. */
void fuzz_drain(struct ctr_reader *r, struct ctr_writer *w);
void fuzz_look(const struct ctr_batch *b);

/* Mutation of streams and IPC files: messages and their parts are changed, dropped, repeated and swapped, and the
 * checksums are made right again, so that what lies behind them is reached. */
size_t fuzz_mutate_stream(uint8_t *data, size_t size, size_t max_size, unsigned seed);
void fuzz_reseal(uint8_t *data, size_t size);
#define FUZZ_STREAM_MUTATOR                                                                                            \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)                         \
    {                                                                                                                  \
        return fuzz_mutate_stream(data, size, max_size, seed);                                                         \
    }

/* Text formats: imports the bytes as these options say. */
struct ctr_text_opts;
void fuzz_import(const struct ctr_text_opts *o, const uint8_t *data, size_t size);
/* Is it packed? That is fuzz-unpack's: a few bytes that unpack to megabytes would take the time of all others. */
bool fuzz_packed(const uint8_t *data, size_t size);

#endif
