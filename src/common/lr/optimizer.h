/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer: the arithmetic of linear learners for the coordinates of one row, after "Ad Click Prediction: a View from
 * the Trenches" (KDD 2013), section 3, and McMahan, "Follow-the-Regularized-Leader and Mirror Descent" (AISTATS 2011).
 *
 * A learner combines three choices, each a table row or an enum below:
 *
 *   optimizer    how a gradient changes a coordinate  ftrl, rda (state z, a sum of gradients),
 *                                                        ogd, fobos, ogd-count (state w, the weight itself)
 *   rate         what sets the learning rate eta      squares: n += g^2;
 *                                                        counts: n = PN/(N+P) of the coordinate's events N, P,
 *                                                        each counted with its weight;
 *                                                        global: n = events of the whole stream
 *   precision    how the table stores the state       f64, f32, q2.13
 *
 *     1/eta = (beta + n^power) / alpha          z -> w uses n before the row, a step uses n including the row
 *
 * fobos shrinks every weight at every event. The rate at which a weight shrinks while its key does not occur is known:
 * its row stores the time of the last computation, and reading it applies the shrinkage since then in closed form.
 *
 * PN/(N+P) and its square root are floats in every precision: the counters' own error is larger than the rounding.
 *
 * The state of a key consists of the columns in its layout: first counts, because learners with other parameters can
 * share them, then the learner's own columns, value and n. Kernels take table rows: pointers 8 bytes before states,
 * where a table may store the hash. They write only to [row + 8, row + layout.bytes), because states of other keys of
 * the same event may be directly before and after. Every kernel gives the same bits: element-wise IEEE operations, no
 * contraction, and a dot product of eight partial sums (coordinate i in sum i mod 8), added in a fixed order, in double
 * for every precision.
 */
#ifndef CTR_OPTIMIZER_H
#define CTR_OPTIMIZER_H

#include "common/base/base.h"

enum { CTR_LANES = 8 };
static inline int64_t ctr_lanes_padded(int64_t n) /* rounded up to whole lanes */
{
    return (n + CTR_LANES - 1) / CTR_LANES * CTR_LANES;
}
enum ctr_precision { CTR_F64_STATE, CTR_F32_STATE, CTR_Q13_STATE, CTR_PRECISIONS };
enum ctr_rate { CTR_RATE_SQUARES, CTR_RATE_COUNTS, CTR_RATE_GLOBAL, CTR_RATES };
extern const char *const ctr_precision_names[CTR_PRECISIONS + 1]; /* NULL-terminated, as in options */
extern const char *const ctr_rate_names[CTR_RATES + 1];

enum ctr_step { CTR_STEP_FTRL, CTR_STEP_FTRL_GLOBAL, CTR_STEP_RDA, CTR_STEP_OGD, CTR_STEP_FOBOS, CTR_STEPS };

struct ctr_optimizer {
    const char *name, *summary;
    bool dual;  /* the state is z, and the weight is computed from it; else the weight */
    bool holds; /* a coordinate stays 0 for its first `threshold` occurrences */
    enum ctr_step step, step_global;
};
extern const char *const ctr_optimizer_names[];      /* NULL-terminated, in table order */
const struct ctr_optimizer *ctr_optimizer_at(int i); /* the first one is the default; NULL past the end */

/* Offsets of the columns in a table row; 0: absent. */
struct ctr_layout {
    uint32_t counts; /* uint16_t N, then P: counters of section 4.5, see ctr_count_value */
    uint32_t value;  /* z or weight: double, float, or int16_t in units of 2^-13 */
    uint32_t n; /* double, float, or ctr_squares_code; ogd-count: the negative number of occurrences while it holds */
    uint32_t last;  /* fobos, double: the event's clock when the value was computed */
    uint32_t bytes; /* of the row, including the 8 before the state */
    uint32_t value_bytes, n_bytes;
};

/* The values that change from row to row; one per thread. */
struct ctr_event {
    uint64_t step;     /* events so far: rows whose weight is not 0 */
    bool positive;     /* label >= 0.5 */
    double weight;     /* weight of the event */
    uint64_t draw;     /* random bits of this step: a key's are its hash + these, uniform and new for every event */
    double root, next; /* global rate: n^power before and after this event */
    /* The clock of weight decay: events so far; for the global rate the sum of their rates eta or, with l2, of log(1 +
     * eta l2). */
    double clock;
    int64_t clips; /* values clipped by q2.13 */
};

/* Is row i an event? If so, sets *e for its update. */
static inline bool ctr_event_set(struct ctr_event *e, double label, double weight)
{
    e->positive = label >= 0.5;
    e->weight = weight;
    return weight != 0;
}

/* Scratch memory of one row: arrays padded to CTR_LANES, of double (f64) or float (f32, q2.13). */
struct ctr_more;
struct ctr_coords {
    void *z, *n, *w, *root;
    double *x; /* padded with 0 */
    struct ctr_more *more;
};
/* Additional data for learners other than the default one. */
struct ctr_more {
    struct ctr_event event;
    /* Halves of the hashes of the row's coordinates, for random draws of q2.13 and of counts. 0 for the bias and the
     * padding. One of the functions below sets them before every update. */
    const uint32_t *low, *high;
    void *next; /* n^power including the row's gradient */
    uint32_t *count;
    int32_t *q;
    struct ctr_buf bufs[5];
};
int ctr_more_reserve(struct ctr_more *m, int64_t coordinates, struct ctr_err *err) CTR_MUST;
/* From the k hashes of a row. */
void ctr_more_hash(struct ctr_more *m, const uint64_t *hash, int64_t k);
/* From rows stored by column, hash k of row i at hash[k * column + i]: stores hash >> shift as rows of `width`, in
 * whole lanes. */
void ctr_halves_transpose(const uint64_t *hash, int64_t column, int64_t k, int64_t rows, int shift, int64_t width,
                          uint32_t *to);
void ctr_more_free(struct ctr_more *m);

/* A learner's parameters, and the functions chosen by them. Pointers to table rows are padded, too, with a spare row of
 * zeros that no update changes. */
struct ctr_learning;
typedef double ctr_forward(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t k);
typedef void ctr_update(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t k,
                        double g);
struct ctr_learning {
    double alpha, inv_alpha, beta, l1, l2, power;
    double threshold;
    uint64_t seed; /* for the draws of q2.13 and of counts */
    const struct ctr_optimizer *optimizer;
    enum ctr_step step;
    enum ctr_precision precision;
    enum ctr_rate rate;
    struct ctr_layout layout;
    bool events;    /* s->more must be set, and its event before each update */
    bool rooted;    /* weights are computed from z and n */
    bool shrinking; /* fobos: weights are computed from the last value, n, and the time since then */
    const struct ctr_isa *isa;
    void (*load)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room);
    void (*store)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room);

    ctr_forward *forward; /* gathers the states of k rows and returns the dot product */
    ctr_update *update;   /* after forward: updates with g = weight (p - y) and scatters */
};

/* Start the event of an update: its number and random bits. */
static inline void ctr_event_begin(const struct ctr_learning *l, struct ctr_event *e)
{
    e->step++;
    e->draw = ctr_mix64(l->seed ^ e->step * 0x9e3779b97f4a7c15u);
}

struct ctr_params;
/* Fails if the parameters are inconsistent. */
int ctr_learning_init(struct ctr_learning *l, const struct ctr_params *p, struct ctr_err *err) CTR_MUST;
/* Choose the functions again for a supported instruction set; not fused: the generic loops. */
void ctr_learning_use(struct ctr_learning *l, const struct ctr_isa *isa, bool fused);
bool ctr_learning_is_default(const struct ctr_learning *l);       /* handled by the kernels of optimizer_ftrl.h */
double ctr_learning_root(const struct ctr_learning *l, double n); /* n^power */
void ctr_learning_start(const struct ctr_learning *l, struct ctr_event *e,
                        uint64_t step); /* state after `step` events */
/* Is the weight computed from other columns of the state? */
static inline bool ctr_learning_derives(const struct ctr_learning *l)
{
    return l->optimizer->dual || l->shrinking;
}
/* The fobos weight w after `time` on the event's clock without its key; root: n^power. */
double ctr_learning_shrunk(const struct ctr_learning *l, double w, double root, double time);

/* Summary lines: bytes of a state, and values clipped by q2.13. */
void ctr_learning_summary(const struct ctr_learning *l, const struct ctr_event *e, struct ctr_say *text);

/* ---- one coordinate, with the bits of the kernels: files, prediction, tests ---- */

/* State as in files: value is z or the weight (fobos: as of `last`); n as the rate uses it (global: unused).
 */
struct ctr_state {
    double value, n, last;
    uint64_t negatives, positives;
};
void ctr_state_read(const struct ctr_learning *l, const struct ctr_event *e, const uint8_t *row, struct ctr_state *s);
void ctr_state_write(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s, uint8_t *row);
double ctr_state_weight(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s);
/* Give a row this weight and leave n and the counts unchanged. */
void ctr_state_set_weight(const struct ctr_learning *l, const struct ctr_event *e, double weight, uint8_t *row);
/* States and weights of many rows as columns in the type of the state (q2.13: float); n, or the counts, as the rate
 * uses it. Only for ftrl with the square root of sums of squares or of counts. */
struct ctr_state_columns {
    void *weight, *value, *n;
    uint64_t *negatives, *positives;
};
bool ctr_state_has_columns(const struct ctr_learning *l);
void ctr_state_columns(const struct ctr_learning *l, const uint8_t *const *row, int64_t n,
                       const struct ctr_state_columns *to);

/* alpha / (beta + n^power); for a key that ogd-count holds, the rate of an unseen key. */
double ctr_state_rate(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s);

/* A counter of 16 bits: exact below 2048, then a floating-point number of 11 bits, incremented with probability
 * 2^-exponent, so that its value is unbiased, with an error of about 1.3% (Csuros, "Approximate counting with a
 * floating-point counter", 2010). Its maximum is 8.8e12. An event with a weight other than 1 adds its weight; the sum
 * is rounded at random to one of the two nearest counter values, so that it remains unbiased. */
enum { CTR_COUNT_BITS = 11 };
static inline uint64_t ctr_count_value(uint16_t c)
{
    const uint64_t one = UINT64_C(1) << CTR_COUNT_BITS;
    return ((one + (c & (one - 1))) << (c >> CTR_COUNT_BITS)) - one;
}
/* The counter as a float: after subtracting 2^11, its bits are those of the float. */
static inline float ctr_count_float(uint32_t c)
{
    const uint32_t bits = (c << (23 - CTR_COUNT_BITS)) + ((uint32_t)(127 + CTR_COUNT_BITS) << 23);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f - (float)(1 << CTR_COUNT_BITS);
}
/* PN/(N+P) of both counters: the sum of squared gradients if p had always been P/(N+P) (section 4.5); and N + P. */
static inline float ctr_count_mean(uint32_t count, float *seen)
{
    const float negatives = ctr_count_float(count & 0xffff), positives = ctr_count_float(count >> 16);
    const float sum = negatives + positives;
    *seen = sum;
    return negatives * positives / (sum + (float)(sum == 0));
}
/* The counter after an event of this weight; bits: random. For weight 1, equal to the kernels' result. */
uint16_t ctr_count_add(uint16_t c, double weight, uint32_t bits);
uint16_t ctr_count_code(uint64_t value); /* of the largest counter value not above it */

/* n of q2.13: a sum of squares in 16 bits, the upper bits of a float without its sign, 8 of exponent and 8 of mantissa.
 * Most updates add less than the last bit, and rounding to nearest would never change n; so n is rounded at random, as
 * section 4.2 rounds coefficients: up with the probability given by the part cut off. n is unbiased, with an error of
 * at most 3.7%, like counters of 8 bits (section 4.5). It never decreases, and a gradient of 0 leaves it unchanged.
 * `up`: 15 random bits, or CTR_SQUARES_NEAREST for numbers from files. ogd-count, whose n is negative while it holds,
 * uses a float. */
enum { CTR_SQUARES_SHIFT = 15, CTR_SQUARES_NEAREST = 1 << (CTR_SQUARES_SHIFT - 1) };
static inline float ctr_squares_value(uint16_t code)
{
    const uint32_t bits = (uint32_t)code << CTR_SQUARES_SHIFT;
    float n;
    memcpy(&n, &bits, sizeof n);
    return n;
}
static inline uint16_t ctr_squares_code(float n, uint32_t up)
{
    uint32_t bits;
    memcpy(&bits, &n, sizeof bits);
    return (uint16_t)((bits + up) >> CTR_SQUARES_SHIFT);
}

/* ---- the dot product ---- */

double ctr_lanes_join(const double sum[CTR_LANES]); /* sum of the lanes */
/* For given weights and x (NULL: 1), with the bits of forward. */
double ctr_lanes_dot(const double *w, const double *x, int64_t k);

/* ---- kernels, by instruction set ---- */

typedef void ctr_coords_loop(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room);
typedef void ctr_coords_step(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room, double g);
struct ctr_isa {
    const char *name;
    /* Index 0: double, 1: float. */
    ctr_coords_loop *root[CTR_RATES][2];       /* n^.5 */
    ctr_coords_step *advance[CTR_RATES][2][2]; /* n and next, including the row; second index: holds */
    double (*weights[CTR_STEPS][2])(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room);
    ctr_coords_step *step[CTR_STEPS][2];
    ctr_coords_loop *expand, *shrink; /* q2.13: eta z to z using root, z to eta z using next */
    ctr_coords_loop *round;           /* q2.13: z to q, rounded at random */
    ctr_coords_step *advance_codes;   /* q2.13: like advance, for n of 16 bits */
    /* All phases in one function, or NULL: for ftrl with power 0.5. */
    struct ctr_fused {
        ctr_forward *forward;
        ctr_update *update;
    } fused[CTR_RATES][CTR_PRECISIONS];
};
/* By enum ctr_cpu; NULL past the end. */
const struct ctr_isa *ctr_isa_at(int i);

#endif
