/* SPDX-License-Identifier: Apache-2.0
 *
 * device: what a translated kernel sees of the machine: its thread, checks of its accesses, and the instructions of PTX
 * that C has no operator for. ptx_to_c.py writes C that includes this; machine.cc has the other side.
 *
 * Registers are integers of their width: f32 and f64 live in them as bit patterns, so that nothing rounds on the way.
 * Shared memory starts at address 0 of its own space; as a generic address it is where the block's buffer lies on the
 * host. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct thread;

enum warp_op { OP_SHFL_UP = 1, OP_SHFL_DOWN, OP_SHFL_IDX, OP_SHFL_BFLY, OP_BALLOT, OP_ANY, OP_ALL, OP_UNI, OP_WBAR };
enum bar_red { RED_NONE, RED_OR, RED_AND, RED_POPC };

struct machine {
    uint64_t hit_from, hit_to; /* the allocation of the last access: the quick check */
    uint32_t shared_bytes;     /* of a block in this launch */
    int fine;                  /* a switch of threads before fine/8 of all loads and stores */
    uint64_t random;
    void (*check)(struct thread *, uint64_t at, unsigned bytes, unsigned align, int write, const char *kernel,
                  int line);
    void (*yield)(struct thread *, int always);
    void (*warp)(struct thread *, int op, uint32_t a, uint32_t b, uint32_t c, uint32_t mask, int line);
    void (*bar)(struct thread *, int id, int red, int predicate);
    void (*die)(struct thread *, const char *what, const char *kernel, int line);
};

struct thread {
    uint32_t tid[3], ntid[3], ctaid[3], nctaid[3];
    uint32_t lane, warp;
    uint8_t *shared;
    const uint8_t *param;
    uint32_t param_bytes;
    uint32_t result, result_predicate; /* of the last warp operation or barrier */
    struct machine *m;
    uint8_t *stack; /* a fibre's: .local memory lies in it */
    const char *kernel;
    int state, op, line; /* what it waits for */
    uint32_t a, b, c, mask;
    int bar_id, bar_red, bar_predicate;
    void *sp;
};

/* A module's tables, which the translation defines and the machine finds by dlsym; the last entry is empty. */
struct ptx_kernel {
    const char *name;
    void (*run)(struct thread *);
    unsigned static_shared, param_bytes, params;
    const unsigned *param; /* offset and size of each */
};
struct ptx_global {
    void *at;
    uint64_t bytes;
};

#ifdef PTX_COUNT
enum { N_OTHER, N_CALL, N_GLOBAL, N_GENERIC, N_LOCAL, N_SHARED, N_PARAM, N_CONST, N_KINDS };
static long ptx_count[N_KINDS];
static void __attribute__((destructor)) ptx_count_say(void)
{
    const long *n = ptx_count;
    if (n[N_OTHER])
        fprintf(stderr,
                "ptx: instructions: other %ld, calls %ld, loads and stores global %ld generic %ld local %ld shared %ld "
                "param %ld\n",
                n[N_OTHER], n[N_CALL], n[N_GLOBAL], n[N_GENERIC], n[N_LOCAL], n[N_SHARED], n[N_PARAM]);
}
#define COUNT(kind) ptx_count[kind]++
#else
#define COUNT(kind) (void)0
#endif

/* ---- bits of floats. Of a NaN that arithmetic makes, a GPU's f32 is canonical; f64 keeps the host's ---- */
static inline float u2f(uint32_t x)
{
    float f;
    memcpy(&f, &x, 4);
    return f;
}
static inline uint32_t f2u(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return x != x ? 0x7fffffff : u;
}
static inline double u2d(uint64_t x)
{
    double f;
    memcpy(&f, &x, 8);
    return f;
}
static inline uint64_t d2u(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
/* .ftz: a denormal is a zero of its sign */
static inline float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* ---- checks ---- */
static inline void check(struct thread *t, uint64_t at, unsigned bytes, unsigned align, int write, const char *kernel,
                         int line)
{
    const struct machine *m = t->m;
    if (__builtin_expect(at < m->hit_from || at + bytes > m->hit_to || (at & (align - 1)), 0))
        m->check(t, at, bytes, align, write, kernel, line);
}
static inline void check_shared(struct thread *t, uint64_t at, unsigned bytes, const char *kernel, int line)
{
    if (at + bytes > t->m->shared_bytes)
        t->m->die(t, "shared memory out of range", kernel, line);
    if (at & (bytes - 1))
        t->m->die(t, "misaligned shared access", kernel, line);
}
static inline void maybe_yield(struct thread *t)
{
    struct machine *m = t->m;
    if (__builtin_expect(m->fine, 0)) {
        m->random = m->random * 6364136223846793005ULL + 1442695040888963407ULL;
        if (((m->random >> 33) & 7) < (unsigned)m->fine)
            m->yield(t, 0);
    }
}

/* ---- cvt of floats to integers saturates ---- */
static inline int64_t f2s64(double x)
{
    return x != x ? INT64_MIN : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}
static inline uint64_t f2u64(double x)
{
    return x != x ? 1ULL << 63 : x >= 0x1p64 ? UINT64_MAX : x <= 0 ? 0 : (uint64_t)x;
}
static inline int32_t f2s32(double x)
{
    return x != x ? 0 : x >= 0x1p31 ? INT32_MAX : x <= -0x1p31 ? INT32_MIN : (int32_t)x;
}
static inline uint32_t f2u32(double x)
{
    return x != x ? 0 : x >= 0x1p32 ? UINT32_MAX : x <= 0 ? 0 : (uint32_t)(int64_t)x;
}

/* ---- integers ---- */
static inline uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}
static inline uint64_t shl64(uint64_t a, uint32_t n)
{
    return n > 63 ? 0 : a << n;
}
static inline uint32_t shl32(uint32_t a, uint32_t n)
{
    return n > 31 ? 0 : a << n;
}
static inline uint64_t shr64(uint64_t a, uint32_t n)
{
    return n > 63 ? 0 : a >> n;
}
static inline uint32_t shr32(uint32_t a, uint32_t n)
{
    return n > 31 ? 0 : a >> n;
}
static inline int64_t sar64(int64_t a, uint32_t n)
{
    return a >> least(n, 63);
}
static inline int32_t sar32(int32_t a, uint32_t n)
{
    return a >> least(n, 31);
}
static inline uint64_t brev64(uint64_t x)
{
    uint64_t r = 0;
    for (int i = 0; i < 64; i++)
        r |= ((x >> i) & 1) << (63 - i);
    return r;
}
/* bfi and bfe: bits from `at`, `n` of them, of a register of `width` bits */
static inline uint64_t bfi(uint64_t a, uint64_t b, uint32_t at, uint32_t n, unsigned width)
{
    for (unsigned i = 0; i < (n & 255) && (at & 255) + i < width; i++) {
        const uint64_t bit = 1ULL << ((at & 255) + i);
        b = (b & ~bit) | (((a >> i) & 1) << ((at & 255) + i));
    }
    return b;
}
static inline uint64_t bfe(uint64_t a, uint32_t at, uint32_t n, unsigned width, int is_signed)
{
    const unsigned from = at & 255, bits = n & 255, last = width - 1;
    const uint64_t sign = is_signed && bits ? (a >> least(from + bits - 1, last)) & 1 : 0;
    uint64_t r = 0;
    for (unsigned i = 0; i <= last; i++)
        r |= (i < bits && from + i <= last ? (a >> (from + i)) & 1 : sign) << i;
    return r;
}
static inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t selectors)
{
    const uint64_t bytes = ((uint64_t)b << 32) | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t s = (selectors >> (4 * i)) & 15;
        const uint8_t x = (uint8_t)(bytes >> (8 * (s & 7)));
        r |= (uint32_t)(s & 8 ? (x & 0x80 ? 0xff : 0) : x) << (8 * i);
    }
    return r;
}
static inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1)
            r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}
