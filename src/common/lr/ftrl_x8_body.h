/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of ftrl_x8.c, which includes this text once per instruction set and type, with NAME, ATTRIBUTES, WIDTH,
 * REAL, BITS (an integer of its size), TOP (its sign bit), SQRT and HALF_OF_ROOTS defined. A vector has WIDTH numbers,
 * the processor's width: gcc compiles comparisons and shuffles of wider vectors to scalar code. */
typedef REAL NAME(vector) __attribute__((vector_size(WIDTH * sizeof(REAL))));
typedef BITS NAME(bits) __attribute__((vector_size(WIDTH * sizeof(REAL))));
typedef double NAME(wide) __attribute__((vector_size(WIDTH * sizeof(double))));
typedef int64_t NAME(wide_bits) __attribute__((vector_size(WIDTH * sizeof(double))));
typedef uint64_t NAME(words) __attribute__((vector_size(WIDTH * sizeof(double))));
#define VECTOR       NAME(vector)
#define WIDE         NAME(wide)
#define PARTS        (LANES / WIDTH)
#define EACH_PART(h) for (int h = 0; h < PARTS; h++)

struct NAME(params) {
    VECTOR inv_alpha, beta, l1, l2;
};

CTR_BODY void NAME(load)(const double *from, VECTOR *to)
{
    WIDE all;
    memcpy(&all, from, sizeof all);
    *to = __builtin_convertvector(all, VECTOR);
}

CTR_BODY void NAME(load_params)(const struct ctr_x8_params *from, struct NAME(params) * to)
{
    EACH_PART(h)
    {
        NAME(load)(from->inv_alpha + h * WIDTH, &to[h].inv_alpha);
        NAME(load)(from->beta + h * WIDTH, &to[h].beta);
        NAME(load)(from->l1 + h * WIDTH, &to[h].l1);
        NAME(load)(from->l2 + h * WIDTH, &to[h].l2);
    }
}

/* x in the lanes, from lane `first` on, that have the coordinate. Through memory: for x - (vector){ 0 } gcc 12 emits
 * eight dependent instructions. */
CTR_BODY void NAME(load_x)(const struct ctr_x8_row *r, int64_t i, int first, const bool masked, WIDE *to)
{
    double all[WIDTH];
    NAME(wide_bits) mask;
    for (int v = 0; v < WIDTH; v++)
        all[v] = r->x[i];
    memcpy(to, all, sizeof all);
    if (masked) {
        memcpy(&mask, r->mask[i] + first, sizeof mask);
        *to = (WIDE)((NAME(wide_bits)) * to & mask);
    }
}

CTR_BODY void NAME(roots)(VECTOR *n)
{
    for (int v = 0; v < WIDTH; v++)
        (*n)[v] = SQRT((*n)[v]);
}

/* For every other coordinate, where the processor has two independent ways to compute roots (root_x8.h). */
ATTRIBUTES CTR_BODY void NAME(roots_in_turn)(int64_t i, VECTOR *n)
{
    if (i & 1)
        HALF_OF_ROOTS(n);
    else
        NAME(roots)(n);
}

CTR_BODY void NAME(weigh)(const struct NAME(params) * p, const VECTOR *z, const VECTOR *root, VECTOR *to)
{
    const VECTOR size = (VECTOR)((NAME(bits)) * z & ~(TOP)) - p->l1;
    const VECTOR weight = size / ((p->beta + *root) * p->inv_alpha + p->l2);
    const NAME(bits) minus = (*z > 0) & (TOP), zero = size <= 0;
    *to = (VECTOR)(((NAME(bits))weight ^ minus) & ~zero);
}

ATTRIBUTES static void NAME(weights)(const struct ctr_x8_params *from, const void *from_z, const void *from_n,
                                     void *to_w, int64_t k)
{
    const REAL *restrict zs = from_z, *restrict ns = from_n;
    REAL *restrict ws = to_w;
    struct NAME(params) p[PARTS] = { 0 };
    NAME(load_params)(from, p);
    for (int64_t i = 0; i < k * LANES; i += LANES)
        EACH_PART(h)
        {
            VECTOR z, root, to = { 0 };
            memcpy(&z, zs + i + h * WIDTH, sizeof z);
            memcpy(&root, ns + i + h * WIDTH, sizeof root);
            NAME(roots)(&root);
            NAME(weigh)(&p[h], &z, &root, &to);
            memcpy(ws + i + h * WIDTH, &to, sizeof to);
        }
}

ATTRIBUTES static void NAME(digest)(const uint64_t *mixed, const void *from_z, const void *from_n, const void *from_w,
                                    int64_t k, uint64_t *sum, double *wrong)
{
    const REAL *restrict zs = from_z, *restrict ns = from_n, *restrict ws = from_w;
    VECTOR off[PARTS] = { 0 };
    NAME(words) all[PARTS];
    memcpy(all, sum, sizeof all);
    for (int64_t i = 0; i < k; i++)
        EACH_PART(h)
        {
            const int64_t at = i * LANES + h * WIDTH;
            VECTOR z, n, own;
            memcpy(&z, zs + at, sizeof z);
            memcpy(&n, ns + at, sizeof n);
            memcpy(&own, ws + at, sizeof own);
            const WIDE weight = __builtin_convertvector(own, WIDE);
            NAME(words) x = (NAME(words))weight + mixed[i]; /* ctr_mix64 of each lane */
            x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
            x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
            all[h] += (x ^ x >> 32) & (NAME(words))(weight != 0);
            off[h] += z * 0 + n * 0;
        }
    memcpy(sum, all, sizeof all);
    for (int v = 0; v < LANES; v++)
        wrong[v] += (double)off[v / WIDTH][v % WIDTH];
}

/* ---- the coordinates of a row ---- */

ATTRIBUTES CTR_BODY void NAME(forward_any)(const struct ctr_x8_params *from, const struct ctr_x8_row *row, double *dot,
                                           const bool masked)
{
    const struct ctr_x8_row r = *row; /* a copy, because stores might alias *row */
    REAL *restrict to_w = r.w, *restrict to_root = r.root;
    WIDE sum[CTR_LANES][PARTS] = { 0 };
    struct NAME(params) p[PARTS] = { 0 };
    NAME(load_params)(from, p);
    for (int64_t i = 0; i < r.k; i++) {
        EACH_PART(h)
        {
            const REAL *const state = (const REAL *)(const void *)r.state[i] + h * WIDTH;
            VECTOR z, root, to = { 0 };
            WIDE x;
            memcpy(&z, state, sizeof z);
            memcpy(&root, state + LANES, sizeof root);
            NAME(roots_in_turn)(i, &root);
            NAME(weigh)(&p[h], &z, &root, &to);
            memcpy(to_w + i * LANES + h * WIDTH, &to, sizeof to);
            memcpy(to_root + i * LANES + h * WIDTH, &root, sizeof root);
            NAME(load_x)(&r, i, h * WIDTH, masked, &x);
            sum[i % CTR_LANES][h] += __builtin_convertvector(to, WIDE) * x;
        }
        if (i < r.nexts)
            ask_for(r.next[i], 2 * LANES * sizeof(REAL));
    }
    for (int64_t i = r.k; i < r.nexts; i++)
        ask_for(r.next[i], 2 * LANES * sizeof(REAL));
    for (int h = 0; h < PARTS && dot; h++) {
        const WIDE all =
            ((sum[0][h] + sum[4][h]) + (sum[2][h] + sum[6][h])) + ((sum[1][h] + sum[5][h]) + (sum[3][h] + sum[7][h]));
        memcpy(dot + h * WIDTH, &all, sizeof all);
    }
}

ATTRIBUTES CTR_BODY void NAME(update_any)(const struct ctr_x8_params *p, const struct ctr_x8_row *row, const double *g,
                                          const bool masked)
{
    const struct ctr_x8_row r = *row;
    const REAL *restrict from_w = r.w, *restrict from_root = r.root;
    VECTOR inv_alpha[PARTS] = { 0 };
    WIDE all_g[PARTS];
    EACH_PART(h)
    NAME(load)(p->inv_alpha + h * WIDTH, &inv_alpha[h]);
    memcpy(all_g, g, sizeof all_g);
    for (int64_t i = 0; i < r.k; i++)
        EACH_PART(h)
        {
            REAL *const state = (REAL *)(void *)r.state[i] + h * WIDTH;
            VECTOR z, n, own, root;
            WIDE x;
            memcpy(&z, state, sizeof z);
            memcpy(&n, state + LANES, sizeof n);
            memcpy(&own, from_w + i * LANES + h * WIDTH, sizeof own);
            memcpy(&root, from_root + i * LANES + h * WIDTH, sizeof root);
            NAME(load_x)(&r, i, h * WIDTH, masked, &x);
            const VECTOR gi = __builtin_convertvector(all_g[h] * x, VECTOR), next = n + gi * gi;
            VECTOR next_root = next;
            NAME(roots_in_turn)(i, &next_root);
            z += gi - (next_root - root) * inv_alpha[h] * own;
            memcpy(state, &z, sizeof z);
            memcpy(state + LANES, &next, sizeof next);
        }
}

ATTRIBUTES static void NAME(forward)(const struct ctr_x8_params *p, const struct ctr_x8_row *r, double *dot)
{
    if (r->mask)
        NAME(forward_any)(p, r, dot, true);
    else
        NAME(forward_any)(p, r, dot, false);
}

ATTRIBUTES static void NAME(update)(const struct ctr_x8_params *p, const struct ctr_x8_row *r, const double *g)
{
    if (r->mask)
        NAME(update_any)(p, r, g, true);
    else
        NAME(update_any)(p, r, g, false);
}

#undef VECTOR
#undef WIDE
#undef PARTS
#undef EACH_PART
