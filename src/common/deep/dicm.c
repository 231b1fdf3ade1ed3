/* SPDX-License-Identifier: Apache-2.0
 *
 * dicm: Deep Image CTR Model (Ge et al., "Image Matters", CIKM 2018, sections 3 and 5). Images of the ad and of the
 * user's behaviours go through one tower of dense layers (deep_images.c), which learns with the rest of the network:
 *
 *     v_image = tower(vector of the image in the file)         as wide as --embedding
 *     v of an input of images = sum, mean or largest of its images' v, or their sum with weights of an attention unit
 *     logit = base([v of each input, numbers])
 *
 * The base is that of mlp.c, or din.c where histories of ids have attention units too. Attention to images is din's
 * unit: the past of images beside the image that it is the past of (section 5.2, "attentive pooling"). */
#include "common/deep/deep_options.h"
#include "common/deep/din.h"

static const char *const bases[] = { "mlp", "din", NULL };
static const char *const pools[] = { "sum", "mean", "max", "attentive", NULL };
static const char *const missing[] = { "fail", "zero", NULL };

static const struct ctr_param dicm_options[] = {
    CTR_DEEP_OPTIONS,
    CTR_DEEP_POOLING_OPTION,
    CTR_DEEP_STACK_OPTIONS("200,80"),
    CTR_DIN_ATTENTION_OPTIONS,
    { "images", CTR_PARAM_FILE, CTR_PARAM_AT(images), .unit = "FILE", .group = CTR_GROUP_MODEL,
      .help = "vectors of images: a column of keys and one of lists of floats", .flags = CTR_PARAM_UNSAVED },
    { "images-pool", CTR_PARAM_WORD, CTR_PARAM_AT(images_pool), "sum", .range = "sum, mean, max or attentive",
      .group = CTR_GROUP_MODEL, .help = "of the images of a list", .words = pools },
    { "images-tower", CTR_PARAM_SIZES, CTR_PARAM_AT(images_tower), "256,64",
      .range = "1 to 8 sizes such as 256,64, each 1 to 65536, or 0 for none", .unit = "N,N,…", .group = CTR_GROUP_MODEL,
      .help = "units of the hidden layers between an image and its --embedding numbers, or 0" },
    { "images-as-ids", CTR_PARAM_FLAG, CTR_PARAM_AT(images_as_ids), "no", .range = "yes or no",
      .group = CTR_GROUP_MODEL, .help = "the baseline: images are keys like others", .words = ctr_no_yes },
    { "missing-image", CTR_PARAM_WORD, CTR_PARAM_AT(missing_image), "fail", .range = "fail or zero",
      .group = CTR_GROUP_INPUT, .help = "a row names an image that the file lacks", .words = missing },
    { "base", CTR_PARAM_WORD, CTR_PARAM_AT(base), "mlp", .range = "mlp or din", .group = CTR_GROUP_MODEL,
      .help = "network of the other inputs", .words = bases },
    { 0 },
};

static int check_inputs(struct ctr_deep *d, struct ctr_err *err)
{
    bool any = false, past = false;
    for (int i = 0; i < d->inputs; i++) {
        any |= d->input[i].image;
        past |= d->input[i].image && d->input[i].history_of;
        d->input[i].image &= !d->p.images_as_ids;
    }
    if (!any && !d->p.images_as_ids)
        return ctr_fail(err, CTR_EUSAGE, "no column has the role image: add 'image ad = …' to the plan, or train mlp");
    if (d->p.images_as_ids && d->p.images)
        return ctr_fail(err, CTR_EUSAGE, "--images-as-ids takes no vectors of images: leave --images out");
    if (!strcmp(d->p.images_pool, "attentive") && !past && !d->p.images_as_ids)
        return ctr_fail(err, CTR_EUSAGE,
                        "--images-pool attentive: no list of images says which image it is the past of: write 'image "
                        "past in ad of ad = …' in the plan");
    return 0;
}

static int dicm_declare(struct ctr_deep *d, struct ctr_err *err)
{
    int rc = check_inputs(d, err);
    if (!rc && !d->p.images_as_ids)
        rc = ctr_deep_images_declare(d, err);
    return rc ? rc : ctr_din_declare(d, err);
}

static const struct ctr_deep_spec dicm_deep = {
    .declare = dicm_declare,
    .make_room = ctr_din_make_room,
    .forward = ctr_din_forward,
    .backward = ctr_din_backward,
    .free = ctr_din_free,
};

const struct ctr_model ctr_model_dicm = {
    .name = "dicm",
    .summary = "images of ads and behaviours beside ids (DICM), by Adam",
    .options = dicm_options,
    .deep = &dicm_deep,
    .device = &ctr_model_dicm,
    CTR_DEEP_FUNCTIONS,
};
