/* SPDX-License-Identifier: Apache-2.0
 *
 * csv and tsv: quoting, delimiters of several characters, types given and inferred, bad rows. The first byte picks the
 * options, from 128 on those of a dialect. */
#include "harness.h"

#include "common/text/text.h"

static const struct ctr_text_opts options[] = {
    { .format = &ctr_text_csv, .header = true, .jobs = 1 },
    { .format = &ctr_text_csv, .jobs = 1, .bad_rows = "skip=1000000" },
    { .format = &ctr_text_tsv, .header = true, .jobs = 1 },
    { .format = &ctr_text_tsv, .jobs = 1, .nulls = &(struct ctr_strs){ (char *[]){ "\\N" }, 1, 1 } },
    { .format = &ctr_text_csv, .delimiter = "::", .jobs = 1, .bad_rows = "skip=1000000" },
    { .format = &ctr_text_csv, .delimiter = ";", .header = true, .jobs = 1, .latin1 = true },
    { .format = &ctr_text_tsv, .delimiter = "|", .jobs = 1, .bad_rows = "skip=1000000" },
    { .format = &ctr_text_csv,
      .columns = "a:int32,b:float32,c:timestamp,d:bool,e:list<int64>,f:utf8,g:uint8,h:list<utf8>",
      .role = { [CTR_ROLE_LABEL] = "d" },
      .bad_rows = "skip=1000000",
      .jobs = 1 },
    { .format = &ctr_text_csv,
      .header = true,
      .columns = "x=a:float64,t=b:timestamp[%y%m%d%H],v=c:fixed_size_list<float32>[2]",
      .bad_rows = "skip=1000000",
      .jobs = 1 },
};

static const struct ctr_text_opts dialects[] = {
    { .format = &ctr_text_csv, .escape = "\\", .bad_rows = "skip=1000000", .jobs = 1 },
    { .format = &ctr_text_tsv, .escape = "\\", .nulls = &(struct ctr_strs){ (char *[]){ "\\N" }, 1, 1 }, .jobs = 1 },
    { .format = &ctr_text_csv, .header = true, .trim = true, .comment = "#", .bad_rows = "skip=1000000", .jobs = 1 },
    { .format = &ctr_text_csv, .delimiter = ";", .decimal = ",", .thousands = ".", .skip_lines = 1, .jobs = 1 },
    { .format = &ctr_text_csv,
      .escape = "\\",
      .trim = true,
      .comment = "//",
      .thousands = "'",
      .columns = "a:int32,b:float64,c:utf8,d:list<utf8>",
      .bad_rows = "skip=1000000",
      .jobs = 1 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ctr_text_opts *o = !size            ? NULL
                                    : data[0] >= 128 ? &dialects[data[0] % CTR_COUNT(dialects)]
                                                     : &options[data[0] % CTR_COUNT(options)];
    if (o && !fuzz_packed(data + 1, size - 1))
        fuzz_import(o, data + 1, size - 1);
    return 0;
}
