/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of lr, in the order of a model file's text. To add one, add a row here, a member of struct ctr_lr_params
 * and an entry in man/ctr-train-lr.1. */
#include <math.h>

#include "common/lr/inclusion.h"
#include "common/lr/lr.h"

static const char *const norms[] = { "none", "l1", "l2", "max", NULL };
static const char *const biases[] = { "yes", "no", NULL };

#define AT(member) CTR_PARAM_AT(member)
const struct ctr_param ctr_lr_options[] = {
    { "alpha", CTR_PARAM_REAL, AT(lr.alpha), "0.1", 0x1p-1074, INFINITY, "above 0", "X", CTR_GROUP_OPTIMIZER,
      "learning rate of each coordinate", .flags = CTR_PARAM_BASIC },
    { "beta", CTR_PARAM_REAL, AT(lr.beta), "1", 0, INFINITY, "0 or more", "X", CTR_GROUP_OPTIMIZER,
      "constant in the learning rate's denominator, which smooths the first steps" },
    { "l1", CTR_PARAM_REAL, AT(lr.l1), "0", 0, INFINITY, "0 or more", "X", CTR_GROUP_REGULARISE,
      "L1 regularisation; a larger X gives more weights of 0", .flags = CTR_PARAM_BASIC },
    { "l2", CTR_PARAM_REAL, AT(lr.l2), "0", 0, INFINITY, "0 or more", "X", CTR_GROUP_REGULARISE, "L2 regularisation",
      .flags = CTR_PARAM_BASIC },
    { "precision", CTR_PARAM_WORD, AT(lr.precision), "f64", .range = "f64, f32 or q2.13", .group = CTR_GROUP_MEMORY,
      .help = "number type of the learner's state; with --minibatch f32", .words = ctr_precision_names,
      .usually = "f32" },
    { "no-bias", CTR_PARAM_FLAG, AT(lr.no_bias), "yes", .range = "yes or no", .group = CTR_GROUP_MODEL,
      .help = "learn without a bias", .words = biases, .saved_as = "bias" },
    { "minibatch", CTR_PARAM_INT, AT(minibatch), "1", 1, CTR_MAX_MINIBATCH, "1 to 65536 rows", "ROWS",
      CTR_GROUP_OPTIMIZER, "rows per update; 1: learn exactly, row by row", .unsaved = "1" },
    { "hash-bits", CTR_PARAM_INT, AT(hash_bits), "0", 0, 32, "1 to 32, or 0 for none", "BITS", CTR_GROUP_MEMORY,
      "hash all keys into one table of 2^BITS keys; 0: keep 64-bit keys", .unsaved = "0" },
    { "dropout", CTR_PARAM_REAL, AT(dropout), "0", 0, 1, "0 or more and below 1", "P", CTR_GROUP_REGULARISE,
      "share of a row's features that an update leaves out", .unsaved = "0" },
    { "normalize", CTR_PARAM_WORD, AT(normalize), "none", .range = "none, l1, l2 or max", .group = CTR_GROUP_MODEL,
      .help = "divide a row's values by this norm of them", .words = norms, .unsaved = "none" },
    { "inclusion", CTR_PARAM_RULE, 0, "all", .unit = "RULE", .group = CTR_GROUP_MEMORY,
      .help = "which new keys to include: all, poisson=P or bloom=N", .read = ctr_inclusion_parse,
      .flags = CTR_PARAM_UNSAVED | CTR_PARAM_ROWWISE },
    { "inclusion-poisson", CTR_PARAM_REAL, AT(lr.poisson), "0", 0, 1 + 0x1p-52, "at most 1", .unsaved = "0",
      .flags = CTR_PARAM_UNTYPED | CTR_PARAM_ROWWISE },
    { "inclusion-bloom", CTR_PARAM_INT, AT(lr.bloom), "0", 0, CTR_MAX_BLOOM, "at most 15", .unsaved = "0",
      .flags = CTR_PARAM_UNTYPED | CTR_PARAM_ROWWISE },
    { "inclusion-memory", CTR_PARAM_BYTES, AT(lr.bloom_bytes), "8M", 4096, 0x1p46, "4K or more", "SIZE",
      CTR_GROUP_MEMORY, "memory of the Bloom filters of --inclusion bloom=N", CTR_PARAM_ROWWISE, .unsaved = "8M",
      .needs = "inclusion=bloom" },
    { "optimizer", CTR_PARAM_WORD, AT(lr.optimizer), "ftrl", .range = "ftrl, ogd, rda, fobos or ogd-count",
      .group = CTR_GROUP_OPTIMIZER, .help = "optimization algorithm", .words = ctr_optimizer_names,
      .flags = CTR_PARAM_ROWWISE, .unsaved = "ftrl" },
    { "learning-rate", CTR_PARAM_WORD, AT(lr.learning_rate), "per-coordinate",
      .range = "per-coordinate, counts or global", .group = CTR_GROUP_OPTIMIZER,
      .help = "what lowers the learning rate: squared gradients, click counts or rows", .words = ctr_rate_names,
      .flags = CTR_PARAM_ROWWISE, .unsaved = "per-coordinate" },
    { "power", CTR_PARAM_REAL, AT(lr.power), "0.5", 0x1p-1074, 1 + 0x1p-52, "above 0 and at most 1", "X",
      CTR_GROUP_OPTIMIZER, "exponent of the count in the learning rate", CTR_PARAM_ROWWISE, .unsaved = "0.5" },
    { "threshold", CTR_PARAM_INT, AT(lr.threshold), "5", 0, CTR_MAX_THRESHOLD, "0 to 1048576 occurrences", "K",
      CTR_GROUP_OPTIMIZER, "ogd-count: occurrences of a key before it is learned", CTR_PARAM_ROWWISE, .unsaved = "5",
      .needs = "optimizer=ogd-count|variants" },
    { "expire", CTR_PARAM_INT, AT(lr.expire), "0", 0, 4094, "at most 4094 days", "DAYS", CTR_GROUP_MEMORY,
      "drop keys that were not seen for more than DAYS days; 0: never", CTR_PARAM_ROWWISE, .unsaved = "0" },
    { "expire-floor", CTR_PARAM_INT, AT(lr.expire_floor), "0", 0, 0x1p62, "a number of keys", "N", CTR_GROUP_MEMORY,
      "always keep at least the N most recent keys", CTR_PARAM_ROWWISE, .unsaved = "0", .needs = "expire" },
    { "keys", CTR_PARAM_INT, AT(lr.keys), "0", 0, 0xdfffffffp0, "a number of keys", "N", CTR_GROUP_MEMORY,
      "expected number of keys, to make room for them ahead; 0: unknown",
      CTR_PARAM_UNSAVED | CTR_PARAM_LOCAL | CTR_PARAM_ROWWISE },
    { "spill", CTR_PARAM_FOLDER, AT(spill), .unit = "DIR", .group = CTR_GROUP_MEMORY,
      .help = "keep keys beyond --memory on disk, in DIR", .flags = CTR_PARAM_UNSAVED },
    { "prefetch", CTR_PARAM_INT, AT(prefetch), "0", 0, 1, "0 or 1: more gains nothing", "N", CTR_GROUP_MEMORY,
      "number of minibatches whose rows are requested ahead, from disk or other ranks",
      CTR_PARAM_UNSAVED | CTR_PARAM_LOCAL },
    { "seed", CTR_PARAM_INT, AT(seed), "0", 0, 0x1p63, "0 or more", .flags = CTR_PARAM_UNTYPED, .unsaved = "0" },
    { "uncertainty", CTR_PARAM_FLAG, AT(uncertainty), .group = CTR_GROUP_OUTPUTS,
      .help = "add each prediction's uncertainty to --progressive", .flags = CTR_PARAM_UNSAVED,
      .needs = "progressive" },
    { 0 },
};
