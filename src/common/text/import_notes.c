/* SPDX-License-Identifier: Apache-2.0
 *
 * import_notes: reports what an import left out or changed. */
#include "common/text/text.h"

#include <stdarg.h>

struct words {
    const struct ctr_text_opts *o;
    void (*note)(void *ctx, const char *text);
    void *ctx;
};

static void CTR_PRINTF(2, 3) say(const struct words *w, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    ctr_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    w->note(w->ctx, text);
}

/* Report losses of columns with given types. */
static void note_losses(const struct words *w, const struct ctr_schema *s, const struct ctr_text_losses *loss)
{
    for (int i = 0; i < s->n; i++) {
        const char *name = s->f[i].name;
        char type[64];
        ctr_field_type_name(&s->f[i], type, sizeof type);
        if (loss[i].n[CTR_LOSS_ROUNDED])
            say(w, "column %s: %lld integer%s rounded, as %s does not hold %s (the first: %s): %s keeps %s", name,
                (long long)loss[i].n[CTR_LOSS_ROUNDED], loss[i].n[CTR_LOSS_ROUNDED] == 1 ? " was" : "s were", type,
                loss[i].n[CTR_LOSS_ROUNDED] == 1 ? "it" : "them", loss[i].first[CTR_LOSS_ROUNDED].s,
                ctr_text_setting(w->o, "columns", "%s:utf8", name).s, loss[i].n[CTR_LOSS_ROUNDED] == 1 ? "it" : "them");
        if (loss[i].n[CTR_LOSS_LATE])
            say(w,
                "column %s: null in the first %d lines, so it is text, and %lld number%s (the first: %s) became text: "
                "%s "
                "gives the column its type",
                name, CTR_SAMPLE_ROWS, (long long)loss[i].n[CTR_LOSS_LATE], loss[i].n[CTR_LOSS_LATE] == 1 ? "" : "s",
                loss[i].first[CTR_LOSS_LATE].s, ctr_text_option(w->o, "columns").s);
        if (loss[i].n[CTR_LOSS_PADDED])
            say(w,
                "column %s: %lld cell%s lost zeros or a plus in front, as it is %s with --like (the first: %s): in "
                "a utf8 column they stay",
                name, (long long)loss[i].n[CTR_LOSS_PADDED], loss[i].n[CTR_LOSS_PADDED] == 1 ? "" : "s", type,
                loss[i].first[CTR_LOSS_PADDED].s);
        if (loss[i].n[CTR_LOSS_FINER])
            say(w,
                "column %s: %lld time%s had digits below a millisecond, which are cut off (the first: %s): a utf8 "
                "column keeps them",
                name, (long long)loss[i].n[CTR_LOSS_FINER], CTR_S(loss[i].n[CTR_LOSS_FINER]),
                loss[i].first[CTR_LOSS_FINER].s);
    }
}

static void note_nulls(const struct words *w, const struct ctr_schema *s, const struct ctr_import_stats *stats)
{
    for (int i = 0; i < s->n && stats->rows; i++)
        if (stats->loss[i].present && !stats->loss[i].filled)
            say(w, "column %s: null in all %lld lines", s->f[i].name, (long long)stats->rows);
}

void ctr_import_notes(const struct ctr_import *im, const char *bad_rows, void (*note)(void *ctx, const char *text),
                      void (*warn)(void *ctx, const char *text), void *ctx)
{
    const struct ctr_text_opts *o = ctr_import_opts(im);
    const struct words n = { o, note, ctx }, w = { o, warn, ctx };
    struct ctr_import_stats stats;
    ctr_import_get_stats(im, &stats);
    if (stats.bad)
        say(&n, "%lld rows imported, %lld bad rows %s", (long long)stats.rows, (long long)stats.bad,
            strncmp(bad_rows, "skip", 4) ? "quarantined" : "skipped");
    if (stats.comments)
        say(&n, "%lld line%s left out as comments", (long long)stats.comments, stats.comments == 1 ? "" : "s");
    note_losses(&n, ctr_import_schema(im), stats.loss);
    note_nulls(&w, ctr_import_schema(im), &stats);
    if (stats.untaken)
        say(&w,
            "%lld value%s left out, of members without a name, of more than 32 parts or that the first %d lines have "
            "not (the first: %s in line %lld of %s): %s takes what it names",
            (long long)stats.untaken, stats.untaken == 1 ? "" : "s", CTR_SAMPLE_ROWS, stats.untaken_key.s,
            (long long)stats.untaken_line, stats.untaken_file, ctr_text_option(w.o, "columns").s);
}
