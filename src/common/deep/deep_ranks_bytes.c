/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks sent to each other, beside what the formulas of Ge et al. ("Image Matters", CIKM 2018, section 4.3) say:
 * d floats of b = 4 bytes stand for an ID or an embedded image, D floats for an image in the file; all ranks together
 * ask for N IDs and I images a step, where each rank's are distinct:
 *
 *     AMS 2 d b (I + N)     PS-worker 2 d b N     PS-server D b I + 2 d b N
 *
 * and beside those, which leave them out: keys of 8 bytes, and the sums of n dense gradients over R ranks, of which
 * each rank sends a part to its owner and gets all parts: 2 (R - 1) b n.
 *
 * Formulas are of servers apart from workers. Here every rank is both, so that 1 / R of the bytes stay where they are.
 */
#include <inttypes.h>

#include "common/compute/comm.h"
#include "common/deep/deep.h"
#include "common/deep/image_table.h"

/* Of all ranks, in the order of struct ctr_deep_ranks_sums. */
static int sum_counts(struct ctr_deep_learner *l, struct ctr_err *err)
{
    struct ctr_deep_ranks_sums *s = &l->ranks.sums;
    /* Bytes before this is sent. */
    *s = (struct ctr_deep_ranks_sums){ .bytes = *ctr_comm_bytes(l->net.p.comm), .ids = l->ranks.ids };
    if (l->net.images)
        ctr_deep_images_counts(&l->net, &s->images);
    return ctr_comm_sum_i64(l->net.p.comm, (int64_t *)s, (int)(sizeof *s / sizeof(int64_t)), err);
}

/* Images that any rank has named so far. */
static int count_distinct(struct ctr_deep_learner *l, struct ctr_err *err)
{
    struct ctr_comm *c = l->net.p.comm;
    const int size = ctr_comm_size(c);
    const struct ctr_buf *mine = ctr_deep_images_seen(&l->net);
    struct ctr_buf *in = NULL;
    int rc = ctr_comm_gather_new(c, CTR_COMM_CONTROL, mine->data, mine->len, &in, err);
    l->ranks.distinct = 0;
    for (size_t i = 0; i < mine->len && !rc; i++) {
        unsigned any = 0;
        for (int r = 0; r < size; r++)
            any |= i < in[r].len ? in[r].data[i] : 0;
        l->ranks.distinct += __builtin_popcount(any);
    }
    ctr_comm_gather_free(c, in);
    return rc;
}

int ctr_deep_ranks_count(struct ctr_deep_learner *l, struct ctr_err *err)
{
    if (!l->net.p.comm)
        return 0;
    int rc = sum_counts(l, err);
    return rc || !l->net.images ? rc : count_distinct(l, err);
}

/* ---- as text ---- */

/* Dense parameters of the tower, or the others, as they lie in the arena, where each begins a line of 64 bytes. The
 * scale of images is the same on all ranks. */
static int64_t dense_floats(const struct ctr_deep *d, bool tower)
{
    int64_t n = 0;
    for (int i = 0; i < d->params; i++) {
        const int64_t end = i + 1 < d->params ? d->param[i + 1].at : d->floats;
        const bool images = !strncmp(d->param[i].name, "image.", 6);
        n += images == tower && !(images && d->param[i].state) ? end - d->param[i].at : 0;
    }
    return n;
}

/* Bytes a step, where there is a formula; else -1. */
static double formula(const struct ctr_deep_learner *l, enum ctr_comm_kind kind)
{
    const struct ctr_deep *d = &l->net;
    const struct ctr_deep_ranks_sums *s = &l->ranks.sums;
    const double b = sizeof(float), steps = (double)l->ranks.steps, key = sizeof(uint64_t);
    const double ids = (double)s->ids / steps, images = (double)s->images.asked / steps;
    const double others = ctr_comm_size(d->p.comm) - 1;
    const bool worker = d->images && !strcmp(d->p.images.at, "worker");
    const bool server = d->images && !strcmp(d->p.images.at, "server");
    const double vector = d->images ? (double)ctr_image_table_width(ctr_deep_images_table(d)) : 0;
    switch (kind) {
    case CTR_COMM_IDS: return key * ids;
    case CTR_COMM_VECTORS: return d->width * b * ids;
    case CTR_COMM_GRADIENTS: return d->width * b * ids * (d->spec->ftrl ? 2 : 1); /* sums of g and of g² */
    case CTR_COMM_IMAGES: return worker ? 0 : key * images;
    case CTR_COMM_IMAGE_VECTORS: return worker ? 0 : (server ? vector : d->image_width) * b * images;
    case CTR_COMM_IMAGE_GRADIENTS: return worker || server ? 0 : d->image_width * b * images;
    case CTR_COMM_SYNC: return 2 * others * b * (double)dense_floats(d, false);
    case CTR_COMM_SYNC_TOWER: return 2 * others * b * (double)dense_floats(d, true);
    default: return -1;
    }
}

static bool of_images(enum ctr_comm_kind kind)
{
    return kind == CTR_COMM_IMAGES || kind == CTR_COMM_IMAGE_VECTORS || kind == CTR_COMM_IMAGE_GRADIENTS ||
           kind == CTR_COMM_SYNC_TOWER;
}

static void bytes_table(const struct ctr_deep_learner *l, struct ctr_say *text)
{
    double says[CTR_COMM_KINDS];
    for (enum ctr_comm_kind k = 0; k < CTR_COMM_KINDS; k++)
        says[k] = of_images(k) && !l->net.images ? -1 : formula(l, k);
    ctr_comm_bytes_text(&l->ranks.sums.bytes, l->ranks.steps, says, text);
}

static void images_lines(const struct ctr_deep_learner *l, struct ctr_say *text)
{
    const struct ctr_deep_ranks_sums *s = &l->ranks.sums;
    const int64_t vector = ctr_image_table_width(ctr_deep_images_table(&l->net)) * (int64_t)sizeof(float);
    const struct ctr_deep_images_counts *i = &s->images;
    const int64_t with_samples = i->named_once * vector, on_servers = l->ranks.distinct * vector;
    ctr_say(text, "images embedded      %" PRId64 " of %" PRId64 " asked for: %" PRId64 " forward passes saved\n",
            i->forwards, i->asked, i->asked - i->forwards);
    ctr_say(text, "vectors of images    %s with the samples, %s on servers: %.1f times as much\n",
            ctr_size_text((uint64_t)with_samples).s, ctr_size_text((uint64_t)on_servers).s,
            (double)with_samples / (double)CTR_MAX(on_servers, 1));
}

void ctr_deep_ranks_summary(const struct ctr_deep_learner *l, struct ctr_say *text)
{
    const struct ctr_deep *d = &l->net;
    const double steps = (double)l->ranks.steps;
    if (!d->p.comm || !l->ranks.steps)
        return;
    ctr_say(text, "steps                %lld of %d ranks; a step asks for %.1f IDs", (long long)l->ranks.steps,
            ctr_comm_size(d->p.comm), (double)l->ranks.sums.ids / steps);
    if (d->images)
        ctr_say_format(text, " and %.1f images, distinct a rank; at %s", (double)l->ranks.sums.images.asked / steps,
                       d->p.images.at);
    ctr_say(text, "\n");
    if (!ctr_dev_is_host(d->dev))
        ctr_say_format(text, "dense gradients go   %s\n", d->link);
    bytes_table(l, text);
    if (d->images)
        images_lines(l, text);
}
