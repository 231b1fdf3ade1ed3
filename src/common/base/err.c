/* SPDX-License-Identifier: Apache-2.0
 *
 * err: filling of struct ctr_err. Never allocates, so that it works without free memory. */
#include "common/base/base.h"

#include <errno.h>
#include <stdio.h>

static void err_vset(struct ctr_err *err, int code, int sys, const char *fmt, va_list ap)
{
    err->code = code;
    err->sys = sys;
    err->remedy = 0;
    err->nearest = false;
    ctr_vformat(err->what, sizeof err->what, fmt, ap);
}

int ctr_fail(struct ctr_err *err, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    err_vset(err, code, 0, fmt, ap);
    va_end(ap);
    return code;
}

int ctr_fail_sys(struct ctr_err *err, const char *fmt, ...)
{
    int sys = errno;
    char reason[128];
    va_list ap;

    va_start(ap, fmt);
    err_vset(err, CTR_ESYS, sys, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->what);
    snprintf(err->what + n, sizeof err->what - n, "%s%s", n ? ": " : "", strerror_r(sys, reason, sizeof reason));
    return CTR_ESYS;
}

int ctr_fail_nomem(struct ctr_err *err, size_t bytes)
{
    return ctr_fail(err, CTR_ENOMEM, "out of memory: %s more were needed", ctr_size_text(bytes).s);
}

void ctr_err_add(struct ctr_err *err, const char *fmt, ...)
{
    const size_t n = strlen(err->what);
    va_list ap;
    va_start(ap, fmt);
    ctr_vformat(err->what + n, sizeof err->what - n, fmt, ap);
    va_end(ap);
}

int ctr_err_remedy(struct ctr_err *err, const char *fmt, ...)
{
    const size_t n = strlen(err->what);
    va_list ap;
    err->remedy = (int)n;
    va_start(ap, fmt);
    ctr_vformat(err->what + n, sizeof err->what - n, fmt, ap);
    va_end(ap);
    return err->code;
}

struct ctr_err_text ctr_err_text(const struct ctr_err *err)
{
    struct ctr_err_text text;
    ctr_format(text.s, sizeof text.s, "%s%s%s", err->file, err->file[0] ? ": " : "",
               err->what[0] ? err->what : "failed");
    return text;
}

struct ctr_err_text ctr_err_reason(const struct ctr_err *err)
{
    struct ctr_err cut = *err;
    if (cut.remedy)
        cut.what[cut.remedy] = 0;
    return ctr_err_text(&cut);
}

void ctr_err_file(struct ctr_err *err, const char *file)
{
    if (!err->file[0] && file)
        snprintf(err->file, sizeof err->file, "%s",
                 *file ? file : "''"); /* the result of an unset variable in a shell */
}
