/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, log and sigmoid for the whole library: the bodies of mathbody.h behind external names.
 *
 * The sigmoids, single and vectorised, have the bits of opv_sigmoid: the operations of opv_exp in order, but without
 * its branches, half of which would be mispredicted. The vectorised one is compiled for several instruction sets. Where
 * a branch would be taken they call opv_sigmoid. */
#include <math.h>

#include "common/base/base.h"
#include "common/base/isa.h"
#include "common/base/mathbody.h"

double ctr_exp(double x)
{
    return opv_exp(x);
}
double ctr_log(double x)
{
    return opv_log(x);
}
double ctr_log1p(double x)
{
    return opv_log1p(x);
}

static const double FAR = 708; /* exp(-708) is above 2^-1022 */

CTR_BODY double near_sigmoid(double x)
{
    const double whole = 0x1.8p52; /* adding it rounds to an integer, which is then in the low bits */
    const double a = -fabs(x), y = a * 1.4426950408889634 + 0.5, nearest = (y + whole) - whole;
    const double k = nearest - 0.5 + copysign(0.5, y - nearest); /* floor of y; a condition would compile to a branch */
    const double q = opv_exp_near(a - k * OPV_LN2_HI, k * OPV_LN2_LO);
    const double shifted = k + whole;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    const double e = q * power;
    return (x >= 0 ? 1.0 : e) / (1.0 + e);
}

double ctr_sigmoid(double x)
{
    return fabs(x) <= FAR ? near_sigmoid(x) : opv_sigmoid(x);
}

CTR_BODY void sigmoids(const double *restrict x, double *restrict p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        p[i] = near_sigmoid(x[i]);
}

static void far_ones(const double *x, double *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(x[i]) <= FAR))
            p[i] = opv_sigmoid(x[i]);
}

#define DEFINE_KERNEL(isa, attributes)                                                                                 \
    attributes static void sigmoids_##isa(const double *restrict x, double *restrict p, int64_t n)                     \
    {                                                                                                                  \
        sigmoids(x, p, n);                                                                                             \
        far_ones(x, p, n);                                                                                             \
    }

CTR_EACH_ISA(DEFINE_KERNEL)

#define KERNEL_ROW(isa) sigmoids_##isa
static ctr_sigmoids *const kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

ctr_sigmoids *ctr_sigmoids_at(enum ctr_cpu level)
{
    return level < CTR_COUNT(kernels) ? kernels[level] : NULL;
}
