/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer: the arithmetic of linear learners on the coordinates of one row, after "Ad Click Prediction: a View from
 * the Trenches" (KDD 2013), section 3, and McMahan, "Follow-the-Regularized-Leader and Mirror Descent" (AISTATS 2011).
 *
 * Three choices that go with each other make a learner, and each is a row of a table or an enum here:
 *
 *   optimizer    what a gradient does to a coordinate    ftrl, rda (state z, a sum of gradients),
 *                                                        ogd, fobos, ogd-count (state w, the weight itself)
 *   rate         what the learning rate eta counts       squares: n += g^2;
 *                                                        counts: n = PN/(N+P) of the coordinate's events N, P,
 *                                                        each counted as its weight;
 *                                                        global: n = events of the whole stream
 *   precision    how the state lies in the table         f64, f32, q2.13
 *
 *     1/eta = (beta + n^power) / alpha          n is that before the row for z -> w, that with the row for a step
 *
 * fobos shrinks every weight at every event. A weight whose key does not come shrinks by a rate that is known: its row
 * keeps the time at which it was computed, and what it lost since then is computed in closed form when it is read.
 *
 * PN/(N+P) and its square root are floats, whatever the precision: counters are off by more than that rounds.
 *
 * The state of a key is the columns that its layout names: counts come first, because learners of other parameters can
 * share them; a learner's own columns, value and n, follow. Kernels get table rows: pointers 8 bytes before states,
 * where a table may keep the hash. They store nowhere else than in [row + 8, row + layout.bytes), because states of
 * other keys, of the same event too, may lie directly before and behind. Every kernel gives the same bits: element-wise
 * IEEE operations, no contraction, and a dot product of eight partial sums (coordinate i in sum i mod 8) joined in one
 * order, in double whatever the precision.
 */
#ifndef CTR_OPTIMIZER_H
#define CTR_OPTIMIZER_H

#include "common/base/base.h"

enum { CTR_LANES = 8 };
static inline int64_t ctr_lanes_padded(int64_t n) /* to whole lanes */
{
    return (n + CTR_LANES - 1) / CTR_LANES * CTR_LANES;
}
enum ctr_precision { CTR_F64_STATE, CTR_F32_STATE, CTR_Q13_STATE, CTR_PRECISIONS };
enum ctr_rate { CTR_RATE_SQUARES, CTR_RATE_COUNTS, CTR_RATE_GLOBAL, CTR_RATES };
extern const char *const ctr_precision_names[CTR_PRECISIONS + 1]; /* NULL-terminated, as options name them */
extern const char *const ctr_rate_names[CTR_RATES + 1];

enum ctr_step { CTR_STEP_FTRL, CTR_STEP_FTRL_GLOBAL, CTR_STEP_RDA, CTR_STEP_OGD, CTR_STEP_FOBOS, CTR_STEPS };

struct ctr_optimizer {
    const char *name, *summary;
    bool dual;  /* the state is z, from which the weight follows; else the weight */
    bool holds; /* a coordinate stays 0 for its first `threshold` occurrences */
    enum ctr_step step, step_global;
};
extern const char *const ctr_optimizer_names[];      /* NULL-terminated, in the order of the table */
const struct ctr_optimizer *ctr_optimizer_at(int i); /* the first one is the default; NULL past the end */

/* Where the columns of a table row lie; 0: there is none. */
struct ctr_layout {
    uint32_t counts; /* uint16_t N, then P: counters of section 4.5, see ctr_count_value */
    uint32_t value;  /* z or weight: double, float, or int16_t in units of 2^-13 */
    uint32_t n;      /* double, float, or ctr_squares_code; of ogd-count, while it holds: occurrences, negative */
    uint32_t last;   /* of fobos, double: the event's clock when the value was computed */
    uint32_t bytes;  /* of the row, with the 8 before the state */
    uint32_t value_bytes, n_bytes;
};

/* What changes from row to row; one a thread. */
struct ctr_event {
    uint64_t step;     /* events so far: rows whose weight is not 0 */
    bool positive;     /* label >= 0.5 */
    double weight;     /* how much it counts */
    uint64_t draw;     /* random bits of this step: a key's are its hash + these, uniform and new with every event */
    double root, next; /* of the global rate: n^power before and with this event */
    /* What weights shrink with: events so far; of the global rate the sum of their rates eta, or with l2 that of
     * log(1 + eta l2). */
    double clock;
    int64_t clips; /* values cut off by q2.13 */
};

/* Is row i an event? Then *e is set for its update. */
static inline bool ctr_event_set(struct ctr_event *e, double label, double weight)
{
    e->positive = label >= 0.5;
    e->weight = weight;
    return weight != 0;
}

/* Scratch of one row: arrays padded to CTR_LANES, of double (f64) or float (f32, q2.13). */
struct ctr_more;
struct ctr_coords {
    void *z, *n, *w, *root;
    double *x; /* padded with 0 */
    struct ctr_more *more;
};
/* What learners other than the default one need besides. */
struct ctr_more {
    struct ctr_event event;
    /* Halves of the hashes of the row's coordinates: for draws of q2.13, of counts. The bias and the padding have 0.
     * Set before every update, by one of the functions below. */
    const uint32_t *low, *high;
    void *next; /* n^power with the row's gradient */
    uint32_t *count;
    int32_t *q;
    struct ctr_buf bufs[5];
};
int ctr_more_reserve(struct ctr_more *m, int64_t coordinates, struct ctr_err *err) CTR_MUST;
/* Those of the k hashes of a row. */
void ctr_more_hash(struct ctr_more *m, const uint64_t *hash, int64_t k);
/* Those of rows by column, hash k of row i at hash[k * column + i]: hash >> shift, to rows of `width`, whole lanes.
 * Whole lanes of rows are stored. */
void ctr_halves_transpose(const uint64_t *hash, int64_t column, int64_t k, int64_t rows, int shift, int64_t width,
                          uint32_t *to);
void ctr_more_free(struct ctr_more *m);

/* A learner's parameters, and the functions that they choose. Pointers to table rows are padded too, with a spare row
 * of zeros, which no update changes. */
struct ctr_learning;
typedef double ctr_forward(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t k);
typedef void ctr_update(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t k,
                        double g);
struct ctr_learning {
    double alpha, inv_alpha, beta, l1, l2, power;
    double threshold;
    uint64_t seed; /* of the draws of q2.13 and of counts */
    const struct ctr_optimizer *optimizer;
    enum ctr_step step;
    enum ctr_precision precision;
    enum ctr_rate rate;
    struct ctr_layout layout;
    bool events;    /* s->more is needed, and its event before each update */
    bool rooted;    /* weights follow from z and n */
    bool shrinking; /* weights follow from the last one computed, n, and the time since then: fobos */
    const struct ctr_isa *isa;
    void (*load)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room);
    void (*store)(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room);

    ctr_forward *forward;        /* gathers the state of k rows and returns the dot product */
    ctr_update *update;          /* after forward: the update with g = weight (p - y), scattered */
    ctr_update *update_deferred; /* the same when rows may have changed since forward; w is the one of then */
};

/* The event of an update: its number and its draw. */
static inline void ctr_event_begin(const struct ctr_learning *l, struct ctr_event *e)
{
    e->step++;
    e->draw = ctr_mix64(l->seed ^ e->step * 0x9e3779b97f4a7c15u);
}

struct ctr_params;
/* Fails when the parameters do not go together. */
int ctr_learning_init(struct ctr_learning *l, const struct ctr_params *p, struct ctr_err *err) CTR_MUST;
/* Choose the functions again, of a usable instruction set; not fused: by the loops that every choice has. */
void ctr_learning_use(struct ctr_learning *l, const struct ctr_isa *isa, bool fused);
bool ctr_learning_is_default(const struct ctr_learning *l);       /* the kernels of optimizer_ftrl.h do it */
double ctr_learning_root(const struct ctr_learning *l, double n); /* n^power */
void ctr_learning_start(const struct ctr_learning *l, struct ctr_event *e, uint64_t step); /* after `step` events */
/* The state has more than the weight from which this follows. */
static inline bool ctr_learning_derives(const struct ctr_learning *l)
{
    return l->optimizer->dual || l->shrinking;
}
/* A weight of fobos whose key does not come for `time` on the event's clock; root: n^power. */
double ctr_learning_shrunk(const struct ctr_learning *l, double w, double root, double time);

/* Lines of a summary: what a state holds, in bytes, and what q2.13 cut off. */
int ctr_learning_summary(const struct ctr_learning *l, const struct ctr_event *e, struct ctr_buf *text,
                         struct ctr_err *err) CTR_MUST;

/* ---- one coordinate, with the bits of the kernels: files, prediction, tests ---- */

/* State as files tell it: value is z or the weight (of fobos: that of `last`); n that of the rate (global: not used).
 */
struct ctr_state {
    double value, n, last;
    uint64_t negatives, positives;
};
void ctr_state_read(const struct ctr_learning *l, const struct ctr_event *e, const uint8_t *row, struct ctr_state *s);
void ctr_state_write(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s, uint8_t *row);
double ctr_state_weight(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s);
/* Gives a row this weight, and leaves n and the counts as they are. */
void ctr_state_set_weight(const struct ctr_learning *l, const struct ctr_event *e, double weight, uint8_t *row);
/* States and weights of many rows, to columns in the type of the state (q2.13: float); n, or the counts, as the rate
 * wants it. Of learners that have them: ftrl with the root of sums of squares or of counts. */
struct ctr_state_columns {
    void *weight, *value, *n;
    uint64_t *negatives, *positives;
};
bool ctr_state_has_columns(const struct ctr_learning *l);
void ctr_state_columns(const struct ctr_learning *l, const uint8_t *const *row, int64_t n,
                       const struct ctr_state_columns *to);

/* alpha / (beta + n^power); of a key that ogd-count holds, that of an unseen one. */
double ctr_state_rate(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s);

/* A counter of 16 bits: exact below 2048, then a floating-point number of 11 bits that goes up with probability
 * 2^-exponent, so that its value is unbiased and off by some 1.3% (Csuros, "Approximate counting with a floating-point
 * counter", 2010). It ends at 8.8e12. An event whose weight is not 1 is added as that, and the sum rounded at random to
 * one of the two counters beside it, so that it is unbiased likewise. */
enum { CTR_COUNT_BITS = 11 };
static inline uint64_t ctr_count_value(uint16_t c)
{
    const uint64_t one = UINT64_C(1) << CTR_COUNT_BITS;
    return ((one + (c & (one - 1))) << (c >> CTR_COUNT_BITS)) - one;
}
/* The same as a float: less 2^11, its bits are those of one. */
static inline float ctr_count_float(uint32_t c)
{
    const uint32_t bits = (c << (23 - CTR_COUNT_BITS)) + ((uint32_t)(127 + CTR_COUNT_BITS) << 23);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f - (float)(1 << CTR_COUNT_BITS);
}
/* PN/(N+P) of both counters, what the sum of squared gradients would be if p had always been P/(N+P) (section 4.5); and
 * N + P. */
static inline float ctr_count_mean(uint32_t count, float *seen)
{
    const float negatives = ctr_count_float(count & 0xffff), positives = ctr_count_float(count >> 16);
    const float sum = negatives + positives;
    *seen = sum;
    return negatives * positives / (sum + (float)(sum == 0));
}
/* The counter after an event of this weight; bits: random. Of weight 1 as kernels count it. */
uint16_t ctr_count_add(uint16_t c, double weight, uint32_t bits);
uint16_t ctr_count_code(uint64_t value); /* of the largest counter value that is not above it */

/* n of q2.13: a sum of squares in 16 bits, the upper ones of a float without its sign, 8 of exponent and 8 of mantissa.
 * What an update adds is mostly less than the last bit stands for, and rounded to the nearest n would stand still; so
 * it is rounded at random as section 4.2 rounds coefficients, up with the probability that is the part cut off: n is
 * unbiased, and off by 3.7% or less, as counters of 8 bits would be (section 4.5). It never falls, and stays where the
 * gradient is 0. `up`: 15 random bits, or CTR_SQUARES_NEAREST for numbers of files. ogd-count, whose n has a sign while
 * it holds, keeps a float. */
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

double ctr_lanes_join(const double sum[CTR_LANES]); /* of the lanes' sums */
/* Of given weights and x (NULL: 1), with the bits of forward. */
double ctr_lanes_dot(const double *w, const double *x, int64_t k);

/* ---- kernels, by instruction set ---- */

typedef void ctr_coords_loop(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room);
typedef void ctr_coords_step(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room, double g);
struct ctr_isa {
    const char *name;
    /* Index 0: double, 1: float. */
    ctr_coords_loop *root[CTR_RATES][2];       /* n^.5 */
    ctr_coords_step *advance[CTR_RATES][2][2]; /* n and next with the row; second index: holds */
    double (*weights[CTR_STEPS][2])(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room);
    ctr_coords_step *step[CTR_STEPS][2];
    ctr_coords_loop *expand, *shrink; /* q2.13: eta z to z by root, z to eta z by next */
    ctr_coords_loop *round;           /* q2.13: z to q at random */
    ctr_coords_step *advance_codes;   /* q2.13: as advance, for n of 16 bits */
    /* All phases in one, where they are not NULL: of ftrl with power 0.5. */
    struct ctr_fused {
        ctr_forward *forward;
        ctr_update *update, *update_deferred;
    } fused[CTR_RATES][CTR_PRECISIONS];
};
/* Fastest first; the last one runs everywhere. */
const struct ctr_isa *ctr_isa_at(int i);
const struct ctr_isa *ctr_isa_best(void);

#endif
