/* SPDX-License-Identifier: Apache-2.0
 *
 * dicm: Deep Image CTR Model (Ge et al., "Image Matters", CIKM 2018, sections 3 and 5). Images of the ad and of the
 * user's behaviours go through one tower of dense layers (deep_images.c), which learns with the rest of the network:
 *
 *     v_image = tower(vector of the image in the file)         as wide as --embedding
 *     u of a list of images, by --images-pool:
 *         sum, mean, max    of its images' v
 *         concat            the v of its newest --images-last images side by side, the newest first, then zeros
 *         attentive         sum of a_e v_e, a_e from an attention unit whose query is the image named by the list's
 *                           history_of
 *         multi-query       the same, plus a second unit with IDs of the ad as the query (deep_attention.h)
 *     logit = base([u of each input of images, values of the other inputs, numbers])
 *
 * The base is lr (deep_linear.c), mlp, or din; in din histories of ids have attention units, too. */
#include "common/deep/deep_linear.h"
#include "common/deep/deep_options.h"
#include "common/deep/din.h"

static const char *const bases[] = { "lr", "mlp", "din", NULL };
static const char *const orders[] = { "end", "newest", NULL };
static const char *const pools[] = { "concat", "max", "mean", "sum", "attentive", "multi-query", NULL };

static const struct ctr_param dicm_options[] = {
    CTR_DEEP_OPTIONS,
    CTR_DEEP_POOLING_OPTION,
    CTR_DEEP_STACK_OPTIONS("200,80"),
    CTR_DIN_ATTENTION_OPTIONS,
    CTR_DEEP_SIDE_OPTIONS,
    CTR_DEEP_IMAGES_OPTION,
    CTR_DEEP_IMAGES_AT_OPTION,
    { "images-pool", CTR_PARAM_WORD, CTR_PARAM_AT(images.pool), "sum",
      .range = "concat, max, mean, sum, attentive or multi-query", .group = CTR_GROUP_MODEL,
      .help = "how to combine the images of a list", .words = pools },
    { "images-last", CTR_PARAM_INT, CTR_PARAM_AT(images.last), "20", 1, 1024, "1 to 1024", "N", CTR_GROUP_MODEL,
      "with --images-pool concat: number of images taken, the newest", .unsaved = "20" },
    { "images-order", CTR_PARAM_WORD, CTR_PARAM_AT(images.order), "newest", .range = "end or newest", .words = orders,
      .flags = CTR_PARAM_UNTYPED, .unsaved = "end" },
    CTR_DEEP_IMAGES_TOWER_OPTION(NULL),
    CTR_DEEP_IMAGES_SCALE_OPTION,
    { "images-as-ids", CTR_PARAM_FLAG, CTR_PARAM_AT(images.as_ids), "no", .range = "yes or no",
      .group = CTR_GROUP_MODEL, .help = "treat images as ordinary keys (the baseline)", .words = ctr_no_yes },
    CTR_DEEP_MISSING_IMAGE_OPTION(NULL),
    { "base", CTR_PARAM_WORD, CTR_PARAM_AT(deep.base), "mlp", .range = "lr, mlp or din", .group = CTR_GROUP_MODEL,
      .help = "network of the other inputs", .words = bases, .flags = CTR_PARAM_BASIC },
    { 0 },
};

static bool is(const char *word, const char *value)
{
    return !strcmp(word, value);
}

static bool attends_to_images(const struct ctr_deep *d)
{
    return is(d->p.images.pool, "attentive") || is(d->p.images.pool, "multi-query");
}

static int check_inputs(struct ctr_deep *d, struct ctr_err *err)
{
    bool any = false, past = false;
    for (int i = 0; i < d->inputs; i++) {
        any |= d->input[i].image;
        past |= d->input[i].image && d->input[i].history_of;
        d->input[i].image &= !d->p.images.as_ids;
    }
    if (!any && !d->p.images.as_ids)
        return ctr_fail(err, CTR_EUSAGE, "no column has the role image: add 'image ad = …' to the plan, or train mlp");
    if (d->p.images.as_ids && d->p.images.file)
        return ctr_fail(err, CTR_EUSAGE, "--images-as-ids takes no vectors of images: leave --images out");
    if (attends_to_images(d) && !past && !d->p.images.as_ids)
        return ctr_fail(err, CTR_EUSAGE,
                        "--images-pool %s: no list of images says which image it is the past of: write 'image "
                        "past in ad of ad = …' in the plan",
                        d->p.images.pool);
    return 0;
}

/* Set the pooling of each input; inputs with attention units become sequences. */
static int pool_inputs(struct ctr_deep *d, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < d->inputs; i++) {
        const struct ctr_deep_input *in = &d->input[i];
        d->input[i].pooling = ctr_deep_pooling_of(in->image ? d->p.images.pool : d->p.deep.pooling);
        if (in->image && in->list && is(d->p.images.pool, "concat"))
            ctr_deep_side_by_side(d, i, (int)d->p.images.last,
                                  is(d->p.images.order, "end") ? CTR_SPLIT_END : CTR_SPLIT_NEWEST);
    }
    for (int i = 0; i < d->inputs && rc >= 0; i++) {
        const struct ctr_deep_input *in = &d->input[i];
        if (in->history_of && (in->image ? attends_to_images(d) : is(d->p.deep.base, "din")))
            rc = ctr_deep_sequence(d, i, err);
    }
    return CTR_MIN(rc, 0);
}

static int32_t width_of_ids(const struct ctr_params *p)
{
    return is(p->deep.base, "lr") ? 1 : (int32_t)p->deep.embedding;
}

/* mlp is din without sequences of ids. */
static const struct ctr_deep_spec *network(const struct ctr_deep *d)
{
    return is(d->p.deep.base, "lr") ? &ctr_linear_network : &ctr_din_network;
}

static int declare(struct ctr_deep *d, struct ctr_err *err)
{
    int rc = check_inputs(d, err);
    if (!rc)
        rc = pool_inputs(d, err);
    if (!rc && !d->p.images.as_ids)
        rc = ctr_deep_images_declare(d, err);
    if (!rc)
        rc = network(d)->declare(d, err);
    return rc ? rc : ctr_deep_images_declare_running(d, err);
}

static int make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    return network(d)->make_room(d, room, err);
}

static int forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    return network(d)->forward(d, from, n, training, err);
}

static int backward(struct ctr_deep *d, struct ctr_err *err)
{
    return network(d)->backward(d, err);
}

static const struct ctr_attention *attention(const struct ctr_deep *d)
{
    return network(d)->attention(d);
}

static void free_network(struct ctr_deep *d)
{
    network(d)->free(d);
}

static const struct ctr_deep_spec dicm_deep = {
    .declare = declare,
    .make_room = make_room,
    .forward = forward,
    .backward = backward,
    .free = free_network,
    .attention = attention,
    .takes_sides = true,
    .width = width_of_ids,
};

const struct ctr_model ctr_model_dicm = {
    .name = "dicm",
    .summary = "images of ads and behaviours beside ids (DICM), by Adam",
    .options = dicm_options,
    .deep = &dicm_deep,
    .gpu = true,
    CTR_DEEP_FUNCTIONS,
};
