/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON lines: types inferred, paths, lists, times. The first byte picks the options, from 128 on those
 * about arrays of objects. */
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

static const struct ctr_text_opts objects[] = {
    { .format = &ctr_text_jsonl, .jobs = 1 },
    { .format = &ctr_text_jsonl,
      .columns =
          "a.x:list<int32>,y=a.p.q:list<float64>,z=a.1.x:int8,s=a.s:list<utf8>,f=b.x:fixed_size_list<float32>[2]",
      .bad_rows = "skip=1000000",
      .jobs = 1 },
    { .format = &ctr_text_jsonl, .columns = "a.x,a.p.q,b.x:list<uint64>", .jobs = 1 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ctr_text_opts *o = !size            ? NULL
                                    : data[0] >= 128 ? &objects[data[0] % CTR_COUNT(objects)]
                                                     : &options[data[0] % CTR_COUNT(options)];
    if (o && !fuzz_packed(data + 1, size - 1))
        fuzz_import(o, data + 1, size - 1);
    return 0;
}
