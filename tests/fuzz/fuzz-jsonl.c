/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON lines: types inferred, paths, lists, times. The first byte picks the options. */
#include "harness.h"

#include "common/text/text.h"

static const struct ctr_text_opts options[] = {
    { .format = &ctr_text_jsonl, .jobs = 1 },
    { .format = &ctr_text_jsonl, .jobs = 1, .bad_rows = "skip=1000000" },
    { .format = &ctr_text_jsonl,
      .columns = "a:int32,b=b.c:float32,t:timestamp,f:bool,l:list<int64>,s:utf8,u=a:uint64,ls=l:list<utf8>,x=b:utf8",
      .bad_rows = "skip=1000000",
      .jobs = 1 },
    { .format = &ctr_text_jsonl, .columns = "x=a.b.c:float64,y=l[0]:int64,z=l[1].id:utf8", .jobs = 1 },
    { .format = &ctr_text_jsonl, .role = { [CTR_ROLE_LABEL] = "a", [CTR_ROLE_TIME] = "t:unix" }, .jobs = 1 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && !fuzz_packed(data + 1, size - 1))
        fuzz_import(&options[data[0] % CTR_COUNT(options)], data + 1, size - 1);
    return 0;
}
