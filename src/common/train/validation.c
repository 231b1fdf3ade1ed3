/* SPDX-License-Identifier: Apache-2.0
 *
 * Progressive validation: sums over predictions made before the learner saw the row. All sums depend only on the
 * sequence of rows. */
#include "common/train/trainer.h"

#include <math.h>

#include "common/base/isa.h"

static const double P_MIN = 1e-15; /* limits the loss of a wrong and certain prediction */

void ctr_validation_start(struct ctr_validation *v)
{
    memset(v, 0, sizeof *v);
    v->product = 1;
    v->next_report = 1;
}

void ctr_validation_settle(struct ctr_validation *v)
{
    double loss = -ctr_log(v->product);
    v->product = 1;
    v->s.loss += loss;
    v->s.since_loss += loss;
}

static const double LEAST = 1e-280; /* minimum of a product before its logarithm is taken */

double ctr_validation_clip(double p)
{
    return p < P_MIN ? P_MIN : p > 1 - P_MIN ? 1 - P_MIN : p;
}

/* A bin is a 128th of a doubling of the odds: the leading bits of the double, from 2^-32 to 2^32. */
enum { PER_DOUBLING = 128, MANTISSA_BITS = 52 - 7, LOWEST = (1023 - CTR_AUC_BINS / PER_DOUBLING / 2) * PER_DOUBLING };

static int bin_of(double p)
{
    double odds = p / (1 - p);
    uint64_t bits;
    memcpy(&bits, &odds, sizeof bits);
    int bin = (int)(bits >> MANTISSA_BITS) - LOWEST;
    return bin < 0 ? 0 : bin >= CTR_AUC_BINS ? CTR_AUC_BINS - 1 : bin;
}

CTR_BODY double *bins_of(struct ctr_validation *v, double label)
{
    return label == 1 ? v->positive : v->negative;
}

double ctr_validation_loss(double p, double label)
{
    double loss = 0;
    if (label > 0)
        loss -= label * ctr_log(p);
    if (label < 1)
        loss -= (1 - label) * ctr_log(1 - p);
    return loss;
}

void ctr_validation_row(struct ctr_validation *v, double score, double label, double weight)
{
    double p = ctr_validation_clip(score);
    int bin = bin_of(p);
    v->s.weight += weight;
    v->s.since_weight += weight;
    v->s.positives += weight * label;
    if (weight == 1 && (label == 0 || label == 1)) {
        bins_of(v, label)[bin] += 1;
        v->product *= label == 1 ? p : 1 - p;
        if (v->product < LEAST)
            ctr_validation_settle(v);
    } else {
        const double loss = ctr_validation_loss(p, label);
        v->positive[bin] += weight * label;
        v->negative[bin] += weight * (1 - label);
        v->s.loss += weight * loss;
        v->s.since_loss += weight * loss;
    }
}

static bool is_plain(const struct ctr_rows *r, int64_t i)
{
    const double label = r->label[i];
    return (!r->weight || r->weight[i] == 1) && (label == 0 || label == 1);
}

/* For plain rows the sums of a run stay in registers. */
static void one_model(struct ctr_validation *v, const double *score, int64_t stride, const struct ctr_rows *r,
                      int64_t from, int64_t end)
{
    struct ctr_train_stats s = v->s;
    double product = v->product;
    for (int64_t i = from; i < end; i++) {
        const double label = r->label[i];
        if (!is_plain(r, i)) {
            v->s = s;
            v->product = product;
            ctr_validation_row(v, score[i * stride], label, r->weight ? r->weight[i] : 1);
            s = v->s;
            product = v->product;
            continue;
        }
        const double p = ctr_validation_clip(score[i * stride]);
        bins_of(v, label)[bin_of(p)] += 1;
        s.weight += 1;
        s.since_weight += 1;
        s.positives += label;
        product *= label == 1 ? p : 1 - p;
        if (product < LEAST) {
            v->s = s;
            v->product = product;
            ctr_validation_settle(v);
            s = v->s;
            product = v->product;
        }
    }
    v->s = s;
    v->product = product;
}

/* ---- some models at once, each in a lane, with the bits of one_model ---- */

enum { WORTH_IT = 3 /* models */, AHEAD = 16 /* rows between prefetch and use of bins */ };

CTR_BODY void count_lanes(struct ctr_validation *v, int n, double label, const int64_t *bin)
{
    for (int m = 0; m < n; m++)
        bins_of(&v[m], label)[bin[m]] += 1;
}

/* Vectors of this width: gcc compiles vectors wider than the processor's to scalar code. */
#define DEFINE_LANES(width)                                                                                            \
    typedef double lanes_##width __attribute__((vector_size(width * sizeof(double))));                                 \
    typedef int64_t bits_##width __attribute__((vector_size(width * sizeof(int64_t))));                                \
    CTR_BODY void select_##width(const bits_##width *where, const lanes_##width *yes, lanes_##width *no)               \
    {                                                                                                                  \
        const bits_##width a = (bits_##width)(*yes), b = (bits_##width)(*no);                                          \
        *no = (lanes_##width)((a & *where) | (b & ~*where));                                                           \
    }                                                                                                                  \
    /* p off 0 and 1, and the bin of its odds. */                                                                      \
    CTR_BODY void clip_##width(lanes_##width *p, bits_##width *bin)                                                    \
    {                                                                                                                  \
        const lanes_##width least = P_MIN - (lanes_##width){ 0 }, most = (1 - P_MIN) - (lanes_##width){ 0 };           \
        const bits_##width low = *p<least, high = *p> most;                                                            \
        select_##width(&low, &least, p);                                                                               \
        select_##width(&high, &most, p);                                                                               \
        const lanes_##width odds = *p / (1 - *p);                                                                      \
        *bin = ((bits_##width)odds >> MANTISSA_BITS) - LOWEST;                                                         \
        *bin &= ~(*bin < 0);                                                                                           \
        const bits_##width beyond = *bin > CTR_AUC_BINS - 1;                                                           \
        *bin = (*bin & ~beyond) | ((CTR_AUC_BINS - 1) & beyond);                                                       \
    }                                                                                                                  \
    /* Models v[0 … n - 1], n <= width, over rows from `from` on up to the first that is not plain, or the end. */   \
    CTR_BODY int64_t plain_rows_##width(struct ctr_validation *v, int n, const double *score, int64_t stride,          \
                                        const struct ctr_rows *r, int64_t from, int64_t end)                           \
    {                                                                                                                  \
        lanes_##width product, weight = { 0 }, since = { 0 }, positives = { 0 };                                       \
        double next[width];                                                                                            \
        int64_t bins[AHEAD][width], i = from;                                                                          \
        for (int m = 0; m < width; m++)                                                                                \
            next[m] = m < n ? v[m].product : 1;                                                                        \
        memcpy(&product, next, sizeof product);                                                                        \
        for (int m = 0; m < n; m++) {                                                                                  \
            weight[m] = v[m].s.weight;                                                                                 \
            since[m] = v[m].s.since_weight;                                                                            \
            positives[m] = v[m].s.positives;                                                                           \
            next[m] = 0;                                                                                               \
        }                                                                                                              \
        for (; i < end && is_plain(r, i); i++) {                                                                       \
            const double labels[] = { r->label[i], r->label[i], r->label[i], r->label[i],                              \
                                      r->label[i], r->label[i], r->label[i], r->label[i] };                            \
            lanes_##width p, label;                                                                                    \
            bits_##width bin, small;                                                                                   \
            memcpy(&label, labels, sizeof label);                                                                      \
            const bits_##width positive = label == 1;                                                                  \
            if (n == width)                                                                                            \
                memcpy(&p, score + i * stride, sizeof p);                                                              \
            else {                                                                                                     \
                memcpy(next, score + i * stride, (size_t)n * sizeof *next);                                            \
                memcpy(&p, next, sizeof p);                                                                            \
            }                                                                                                          \
            clip_##width(&p, &bin);                                                                                    \
            int64_t *to = bins[i % AHEAD];                                                                             \
            if (i - from >= AHEAD)                                                                                     \
                count_lanes(v, n, r->label[i - AHEAD], to);                                                            \
            memcpy(to, &bin, sizeof bin);                                                                              \
            for (int m = 0; m < n; m++)                                                                                \
                __builtin_prefetch(bins_of(&v[m], r->label[i]) + to[m], 1);                                            \
            lanes_##width factor = 1 - p;                                                                              \
            select_##width(&positive, &p, &factor);                                                                    \
            weight += 1;                                                                                               \
            since += 1;                                                                                                \
            positives += label;                                                                                        \
            product *= factor;                                                                                         \
            small = product < LEAST;                                                                                   \
            int64_t any = 0;                                                                                           \
            for (int m = 0; m < n; m++)                                                                                \
                any |= small[m];                                                                                       \
            for (int m = 0; any && m < n; m++)                                                                         \
                if (small[m]) {                                                                                        \
                    v[m].product = product[m];                                                                         \
                    ctr_validation_settle(&v[m]);                                                                      \
                    product[m] = v[m].product;                                                                         \
                }                                                                                                      \
        }                                                                                                              \
        for (int64_t row = CTR_MAX(from, i - AHEAD); row < i; row++)                                                   \
            count_lanes(v, n, r->label[row], bins[row % AHEAD]);                                                       \
        for (int m = 0; m < n; m++) {                                                                                  \
            v[m].s.weight = weight[m];                                                                                 \
            v[m].s.since_weight = since[m];                                                                            \
            v[m].s.positives = positives[m];                                                                           \
            v[m].product = product[m];                                                                                 \
        }                                                                                                              \
        return i;                                                                                                      \
    }
DEFINE_LANES(4)
DEFINE_LANES(8)

typedef int64_t plain_rows_of(struct ctr_validation *v, int n, const double *score, int64_t stride,
                              const struct ctr_rows *r, int64_t from, int64_t end);
#define DEFINE_ROWS(isa, attributes, width)                                                                            \
    attributes static int64_t plain_rows_##isa(struct ctr_validation *v, int n, const double *score, int64_t stride,   \
                                               const struct ctr_rows *r, int64_t from, int64_t end)                    \
    {                                                                                                                  \
        return n == width ? plain_rows_##width(v, width, score, stride, r, from, end)                                  \
                          : plain_rows_##width(v, n, score, stride, r, from, end);                                     \
    }                                                                                                                  \
    enum { WIDTH_##isa = width };
#define DEFINE_ROWS_plain(attributes)  DEFINE_ROWS(plain, attributes, 4)
#define DEFINE_ROWS_avx2(attributes)   DEFINE_ROWS(avx2, attributes, 4)
#define DEFINE_ROWS_avx512(attributes) DEFINE_ROWS(avx512, attributes, 8)
#define DEFINE_KERNEL(isa, attributes) DEFINE_ROWS_##isa(attributes)
CTR_EACH_ISA(DEFINE_KERNEL)

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
        WIDTH_##isa, plain_rows_##isa                                                                                  \
    }
static const struct {
    int width; /* models */
    plain_rows_of *rows;
} kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

static void some_models(struct ctr_validation *v, int n, const double *score, int64_t stride, const struct ctr_rows *r,
                        int64_t from, int64_t end)
{
    plain_rows_of *const rows = kernels[ctr_cpu_best()].rows;
    for (int64_t i = from; (i = rows(v, n, score, stride, r, i, end)) < end; i++)
        for (int m = 0; m < n; m++)
            ctr_validation_row(&v[m], score[i * stride + m], r->label[i], r->weight ? r->weight[i] : 1);
}

void ctr_validation_rows(struct ctr_validation *v, int models, const double *score, int64_t stride,
                         const struct ctr_rows *r, int64_t from, int64_t end)
{
    const int width = kernels[ctr_cpu_best()].width;
    for (int m = 0, n; m < models; m += n) {
        n = CTR_MIN(models - m, width);
        if (n >= WORTH_IT)
            some_models(v + m, n, score + m, stride, r, from, end);
        else
            for (int i = m; i < m + n; i++)
                one_model(&v[i], score + i, stride, r, from, end);
    }
}

void ctr_validation_add(struct ctr_validation *v, const struct ctr_validation *more)
{
    v->s.rows += more->s.rows;
    v->s.weight += more->s.weight;
    v->s.loss += more->s.loss;
    v->s.positives += more->s.positives;
    v->next_report = CTR_MAX(v->next_report, more->next_report);
    for (int i = 0; i < CTR_AUC_BINS; i++) {
        v->positive[i] += more->positive[i];
        v->negative[i] += more->negative[i];
    }
}

double ctr_trainer_auc(const struct ctr_trainer *t, int model)
{
    const struct ctr_validation *v = &t->v[model];
    double below = 0, pairs = 0, positive = 0;
    for (int i = 0; i < CTR_AUC_BINS; i++) {
        pairs += v->positive[i] * (below + v->negative[i] / 2);
        below += v->negative[i];
        positive += v->positive[i];
    }
    return isnormal(positive * below) ? pairs / (positive * below) : NAN; /* also NaN if weights overflow */
}
