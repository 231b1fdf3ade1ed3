/* SPDX-License-Identifier: Apache-2.0
 *
 * text_option: options of text in messages, as the user writes them: of ctr-import, or of a view of a plan. */
#include "common/text/text.h"

#include <stdarg.h>
#include <stdio.h>

struct ctr_text_option ctr_text_option(const struct ctr_text_opts *o, const char *option)
{
    struct ctr_text_option t;
    const bool flag = !strcmp(option, "header") || !strcmp(option, "binary") || !strcmp(option, "trim");
    snprintf(t.s, sizeof t.s, "%s%s%s", o->in_plan ? "" : "--", option, !o->in_plan ? "" : flag ? "=true" : "=\"…\"");
    for (char *p = t.s; o->in_plan && *p != '='; p++)
        *p = *p == '-' ? '_' : *p; /* names of a plan have no minus */
    return t;
}

/* Can a shell read the value without quotes? */
static bool is_bare(const char *value)
{
    for (const char *p = value; *p; p++)
        if (strchr(" \"'\\$`!#&*?|<>()[]{};~", *p))
            return false;
    return *value;
}

struct ctr_text_option ctr_text_setting(const struct ctr_text_opts *o, const char *option, const char *fmt, ...)
{
    struct ctr_text_option t, name = ctr_text_option(o, option);
    char value[256];
    va_list ap;
    va_start(ap, fmt);
    ctr_vformat(value, sizeof value, fmt, ap);
    va_end(ap);
    if (o->in_plan && !strcmp(option, "format"))
        ctr_format(t.s, sizeof t.s, "the format %s", value);
    else if (o->in_plan)
        ctr_format(t.s, sizeof t.s, "%.*s=\"%s\"", (int)strcspn(name.s, "="), name.s, value);
    else if (is_bare(value) && strcmp(option, "null") != 0) /* a text for null may be any: quotes show where it ends */
        ctr_format(t.s, sizeof t.s, "%s %s", name.s, value);
    else
        ctr_format(t.s, sizeof t.s, "%s '%s'", name.s, value);
    return t;
}
