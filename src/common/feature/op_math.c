/* SPDX-License-Identifier: Apache-2.0
 *
 * op_math: exp and log for the rest of the library: the bodies of opbody.h behind external names. */
#include "common/feature/opint.h"

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
