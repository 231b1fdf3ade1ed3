/* SPDX-License-Identifier: Apache-2.0
 *
 * calmap: a calibration map: from predicted probabilities to click rates. Loading, saving (calmap.c), and applying it
 * to a stream (calapply.c). ctr-calibrate fits maps. */
#ifndef CTR_CALMAP_H
#define CTR_CALMAP_H

#include "common/metric/metric.h"

enum ctr_cal_kind { CTR_CAL_ISOTONIC_LINEAR, CTR_CAL_ISOTONIC_CONSTANT, CTR_CAL_POWER, CTR_CAL_PLATT, CTR_CAL_KINDS };

#define CTR_CAL_EDGE 0x1p-52 /* minimum distance of values from 0 and 1, unless knots are 0 or 1 */

struct ctr_cal_map;
/* The map as a stream: by utf8, slice utf8 (both null: the global map), kind utf8, name utf8, score float64, value
 * float64. isotonic-*: rows "knot", scores ascending, values not descending; power: "gamma" and "kappa"; platt:
 * "intercept" and "slope" (value only). */
int ctr_cal_map_schema(struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_cal_map_rows(const struct ctr_cal_map *m, struct ctr_batchbuf *rows, struct ctr_err *err) CTR_MUST;
/* Loading checks everything; a file that is not a map, or not monotone, is CTR_EDATA. */
int ctr_cal_map_load(struct ctr_cal_map **m, const char *path, struct ctr_err *err) CTR_MUST;
void ctr_cal_map_free(struct ctr_cal_map *m);
const char *ctr_cal_map_by(const struct ctr_cal_map *m); /* column name, or NULL */
/* The slice of a value (canonical text; NULL for null) with its own map, else 0: the global map. */
int ctr_cal_map_slice(const struct ctr_cal_map *m, const char *text, size_t n);
double ctr_cal_map_apply(const struct ctr_cal_map *m, int slice, double score);

/* Applies a map (borrowed) to a stream: calapply.c. `score` is a column of s. The score column keeps its position, name
 * and role (float32 stays, other types become float64); a column NAME_raw with the old scores is appended. *out is
 * borrowed until the next batch. */
struct ctr_cal_apply;
int ctr_cal_apply_new(struct ctr_cal_apply **a, const struct ctr_cal_map *m, const struct ctr_schema *s, int score,
                      struct ctr_err *err) CTR_MUST;
void ctr_cal_apply_free(struct ctr_cal_apply *a);
/* Check the file of the map *m that *a applies to a stream of schema `s`; *seen: see ctr_file_changed. 1: it has a new
 * map, which replaces *m, and *a applies it; 0: unchanged; < 0: it changed, but is not usable: *a continues with *m
 * until the next change. */
int ctr_cal_apply_reload(struct ctr_cal_apply **a, struct ctr_cal_map **m, const char *path, struct ctr_file_seen *seen,
                         const struct ctr_schema *s, int score, struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_cal_apply_schema(const struct ctr_cal_apply *a);
int ctr_cal_apply_batch(struct ctr_cal_apply *a, const struct ctr_batch *b, const struct ctr_batch **out,
                        struct ctr_err *err) CTR_MUST;

#endif
