/* SPDX-License-Identifier: Apache-2.0
 *
 * base: the foundation of every other folder: errors, byte buffers, strings, hashing, numbers and times as text, output
 * files that appear whole or not at all, a thread pool.
 *
 * Conventions of the whole library:
 *  - A function that can fail returns int: 0 (or a documented count >= 0) is success, a negative `enum ctr_code` is
 *    failure and `*err` is filled. The library never prints, exits or touches stdout.
 *  - `struct X *` from X_open/X_new is owned by the caller and released by X_free, which accepts NULL.
 *  - Sizes and rows are int64_t or size_t; bytes are uint8_t or char; times are ms since 1970 UTC in int64_t.
 */
#ifndef CTR_BASE_H
#define CTR_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/base/mix64.h"

#define CTR_VERSION "0.2.0" /* of the next release; its tag is v0.2.0 */

#define CTR_MUST         __attribute__((warn_unused_result))
#define CTR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define CTR_COUNT(a)     (sizeof(a) / sizeof((a)[0]))
#define CTR_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define CTR_MAX(a, b)    ((a) > (b) ? (a) : (b))
#define CTR_S(n)         ((n) == 1 ? "" : "s") /* "%lld row%s", n, CTR_S(n) */

/* ---- errors: err.c ---- */

enum ctr_code {
    CTR_OK = 0,
    CTR_ENOMEM = -1, /* an allocation failed, or --memory does not suffice */
    CTR_ESYS = -2,   /* a system call failed: err->sys is its errno */
    CTR_EDATA = -3,  /* the input is damaged, truncated or does not fit */
    CTR_EUSAGE = -4, /* the command line or the plan asks for something impossible: exit 2 */
    CTR_ENO = -5,    /* the check ran and its answer is no: exit 3 */
    CTR_EKIND = -6,  /* the input is of a kind that this reader does not support; it may be undamaged */
    CTR_ELARGE = -7, /* the rows of a batch are too large together: a smaller batch may fit */
};

struct ctr_err {
    int code;        /* enum ctr_code */
    int sys;         /* errno, or 0 */
    char file[256];  /* "" or the file concerned; printed before `what` */
    char what[1024]; /* names the row or line, if there is one */
    int remedy;      /* bytes of `what` before it says how to mend it; 0: it does not */
    bool nearest;    /* the remedy is a name that is near */
};

/* Fill *err and return `code`, so that callers write `return ctr_fail(err, CTR_EDATA, "…")`. An existing file name is
 * kept. ctr_fail_sys adds ": strerror(errno)" and returns CTR_ESYS. */
int ctr_fail(struct ctr_err *err, int code, const char *fmt, ...) CTR_PRINTF(3, 4);
int ctr_fail_sys(struct ctr_err *err, const char *fmt, ...) CTR_PRINTF(2, 3);
int ctr_fail_nomem(struct ctr_err *err, size_t bytes);
void ctr_err_file(struct ctr_err *err, const char *file); /* set the file name unless it is set */
/* Append to the message, truncated to the space left. */
void ctr_err_add(struct ctr_err *err, const char *fmt, ...) CTR_PRINTF(2, 3);
/* Append how to mend it, which some readers cannot use: see ctr_err_reason. Returns err->code. */
int ctr_err_remedy(struct ctr_err *err, const char *fmt, ...) CTR_PRINTF(2, 3);
struct ctr_err_text {
    char s[2304];
};
struct ctr_err_text ctr_err_text(const struct ctr_err *err);   /* file name and message, for users */
struct ctr_err_text ctr_err_reason(const struct ctr_err *err); /* the same, without the remedy */

/* ---- bytes and strings: buf.c ---- */

enum { CTR_LINE = 64 }; /* bytes of a cache line; threads should not share one */

/* A growing byte buffer.  Zero-initialise to start; capacity always exceeds len by >= CTR_PAD readable bytes, so that
 * kernels may load past the last value. */
#define CTR_PAD 64
struct ctr_buf {
    uint8_t *data; /* 64-byte aligned */
    size_t len, cap;
};

int ctr_buf_reserve(struct ctr_buf *b, size_t extra, struct ctr_err *err) CTR_MUST; /* room for len + extra */
int ctr_buf_room(struct ctr_buf *b, int64_t n, size_t size,
                 struct ctr_err *err) CTR_MUST; /* empty it, then reserve room for n values */
/* Append n uninitialised values of `size` bytes for the caller to fill in. Returns NULL if *rc is already an error or
 * becomes one, so a caller can request several and check *rc once. */
void *ctr_buf_extend(struct ctr_buf *b, int64_t n, size_t size, int *rc, struct ctr_err *err);
int ctr_buf_append(struct ctr_buf *b, const void *p, size_t n, struct ctr_err *err) CTR_MUST;
int ctr_buf_printf(struct ctr_buf *b, struct ctr_err *err, const char *fmt, ...) CTR_MUST CTR_PRINTF(3, 4);
int ctr_buf_vprintf(struct ctr_buf *b, struct ctr_err *err, const char *fmt, va_list ap) CTR_MUST CTR_PRINTF(3, 0);
void ctr_buf_free(struct ctr_buf *b);

/* A text that is made in pieces. rc: the first error, after which nothing more is appended. */
struct ctr_say {
    struct ctr_buf *to;
    struct ctr_err *err;
    int rc;
};
void ctr_say(struct ctr_say *s, const char *fmt, ...) CTR_PRINTF(2, 3);
void ctr_say_bytes(struct ctr_say *s, const void *p, size_t n);
static inline void ctr_buf_clear(struct ctr_buf *b)
{
    b->len = 0;
}

/* Ensure room for element n of an array with room for *cap elements of `size` bytes; a full array doubles. `array`:
 * address of its pointer, NULL at first. */
int ctr_array_grow(void *array, int n, int *cap, size_t size, struct ctr_err *err) CTR_MUST;
/* Make the *n elements of an array at least `to`: the new ones are zero. */
int ctr_array_extend(void *array, int *n, int to, size_t size, struct ctr_err *err) CTR_MUST;

/* Finds elements of an array by hash; see index.c below. */
struct ctr_index_slot {
    uint64_t hash;
    uint32_t number; /* CTR_INDEX_FREE: a free slot */
};
struct ctr_index { /* zero-initialise */
    struct ctr_index_slot *slot;
    int64_t taken, cap; /* slots; cap: 0 or a power of two */
};

/* A list of owned strings. Long lists, such as column names from a file, are found by hash. */
struct ctr_strs {
    char **s;
    int n, cap;
    struct ctr_index index; /* of a long list; the first of equal strings */
};
int ctr_strs_add(struct ctr_strs *l, const char *s, size_t len, struct ctr_err *err) CTR_MUST;
int ctr_strs_split(struct ctr_strs *l, const char *s, char sep, struct ctr_err *err) CTR_MUST; /* "a,b" */
/* The same of names of columns: one in back quotes, at the start or behind = or +, may hold the separator. It keeps
 * its quotes, which ctr_schema_need takes off. ctr_names_add: a name as an item of such a list. */
int ctr_names_split(struct ctr_strs *l, const char *s, char sep, struct ctr_err *err) CTR_MUST;
int ctr_names_add(struct ctr_strs *l, const char *name, struct ctr_err *err) CTR_MUST;
size_t ctr_names_span(const char *s, char stop);            /* bytes before the first `stop` outside of such a name */
int ctr_strs_find(const struct ctr_strs *l, const char *s); /* index of the first equal string, or -1 */
int ctr_strs_find_n(const struct ctr_strs *l, const char *s, size_t n);
void ctr_strs_free(struct ctr_strs *l);

int ctr_strdup(char **out, const char *s, struct ctr_err *err) CTR_MUST;
int ctr_memdup(char **out, const char *s, size_t n, struct ctr_err *err) CTR_MUST; /* appends a terminating 0 */
/* The candidate nearest to `name` by edit distance, or NULL when none is near: for "did you mean". */
const char *ctr_nearest(const char *name, const char *const *candidates, int n);
/* A hint for an unknown name: "; the nearest is 'x'", or "; there are a, b, …" (as many as fit), or "" without
 * candidates. Returns `out`. */
const char *ctr_name_hint(char *out, size_t size, const char *name, const char *const *candidates, int n);
bool ctr_glob(const char *pattern, const char *s); /* '*' and '?' only */
bool ctr_ascii(const uint8_t *p, size_t n);        /* no byte above 0x7f */
/* Is [p, p+n) well-formed UTF-8 (no surrogates, no overlong forms)? */
bool ctr_utf8_valid(const uint8_t *p, size_t n);
size_t ctr_utf8_length(const uint8_t *p, const uint8_t *end); /* bytes of the valid character at p < end, or 0 */

/* ---- text shown to people: quote.c ----
 *
 * All text printed for people, on stderr too, passes through these functions. They escape control characters (C0, DEL,
 * C1), bidirectional controls, line ends and bytes that are not UTF-8 as \xHH. Escaped text is written as $'…', which a
 * shell reads back to the same bytes; names of a plan are written in back quotes, which a plan reads back. */

bool ctr_text_is_plain(const char *s, size_t n); /* can it be shown as it is? */
/* Returns the full length, like snprintf; truncates between characters. */
size_t ctr_quote(char *out, size_t size, const char *s, size_t n);
size_t ctr_quote_value(char *out, size_t size, const char *s, size_t n); /* the same, plain text in '…' */
int ctr_buf_quote(struct ctr_buf *b, const char *s, size_t n, struct ctr_err *err) CTR_MUST;
/* Append a value as the name of a slice or bar among others. NULL is (missing). A text that reads so, or (rest),
 * (others) or (empty), which are such names, too, stands in '…', and so does a text in '…' that then would be the same.
 */
int ctr_buf_value_name(struct ctr_buf *b, const char *s, size_t n, struct ctr_err *err) CTR_MUST;
/* Like printf, but each %s is quoted as above; inside '…' in the format, a text that contains ' is quoted too. Widths
 * count characters. Text that these functions made passes through %s unchanged. */
size_t ctr_format(char *out, size_t size, const char *fmt, ...) CTR_PRINTF(3, 4);
size_t ctr_vformat(char *out, size_t size, const char *fmt, va_list ap) CTR_PRINTF(3, 0);
int ctr_buf_format(struct ctr_buf *b, struct ctr_err *err, const char *fmt, ...) CTR_MUST CTR_PRINTF(3, 4);
int ctr_buf_vformat(struct ctr_buf *b, struct ctr_err *err, const char *fmt, va_list ap) CTR_MUST CTR_PRINTF(3, 0);
void ctr_say_format(struct ctr_say *s, const char *fmt, ...) CTR_PRINTF(2, 3);
bool ctr_name_is_reserved(const char *name); /* a word of the plan language: `or`, `in`, … */
/* A name in the syntax of the plan language: bare, or in back quotes with back quotes, backslashes and unprintable
 * characters escaped. */
int ctr_quote_in(struct ctr_buf *b, char quote, const char *s, size_t n, struct ctr_err *err) CTR_MUST;
int ctr_quote_name(struct ctr_buf *b, const char *name, struct ctr_err *err) CTR_MUST;
void ctr_say_name(struct ctr_say *s, const char *name);

/* ---- optional libraries: optional.c ---- */

/* dlopen. NULL: *why says why not. `global`: its symbols serve libraries that it opens itself. */
void *ctr_library(const char *path, bool global, const char **why);
/* A function of a codec's library ("libsnappy.so.1", "snappy_compress"; the names are listed in optional.c), linked
 * into the program or else opened now. NULL: the library is not there. */
void (*ctr_optional(const char *library, const char *name))(void);

/* ---- hashing: hash.c ---- */

uint64_t ctr_hash64(const void *p, size_t n, uint64_t seed); /* XXH3-64 with seed */
uint64_t ctr_xxh64(const void *p, size_t n);                 /* XXH64, seed 0: of foreign formats */
struct ctr_hash128 {
    uint64_t lo, hi;
};
struct ctr_hash128 ctr_hash128(const void *p, size_t n); /* XXH3-128, seed 0 */
/* The AVX2 versions; only hash.c calls them. */
uint64_t ctr_hash64_avx2(const void *p, size_t n, uint64_t seed);
struct ctr_hash128 ctr_hash128_avx2(const void *p, size_t n);

/* A random odd number, different in every process. Hash tables multiply by it, so that nobody can craft input whose
 * keys collide. No result may depend on it. */
extern uint64_t ctr_hash_secret;
/* The slot of a hash (or any number) in a table of mask + 1 slots (a power of 2, at least 2). Two different numbers
 * share a slot for at most 2 of every mask + 1 secrets. */
static inline uint64_t ctr_hash_place(uint64_t h, uint64_t mask)
{
    return h * ctr_hash_secret >> __builtin_clzll(mask);
}

/* ---- elements of an array by hash: index.c ---- */

/* Open addressing. The caller chooses the hash; seed it with ctr_hash_secret if input could be crafted to collide.
 * Elements with equal hashes are found in insertion order:
 *
 *     const struct ctr_index_slot *s = ctr_index_find(&x, hash);
 *     while (s && !equal(&array[s->number], key))
 *         s = ctr_index_next(&x, s);
 */
#define CTR_INDEX_FREE UINT32_MAX
int ctr_index_add(struct ctr_index *x, uint64_t hash, uint32_t number, struct ctr_err *err) CTR_MUST;
int ctr_index_reserve(struct ctr_index *x, struct ctr_err *err) CTR_MUST; /* ensures a free slot */
void ctr_index_clear(struct ctr_index *x);                                /* keeps memory */
void ctr_index_free(struct ctr_index *x);
static inline struct ctr_index_slot *ctr_index_home(const struct ctr_index *x, uint64_t hash) /* x->cap > 0 */
{
    return &x->slot[ctr_hash_place(hash, (uint64_t)(x->cap - 1))];
}
static inline struct ctr_index_slot *ctr_index_after(const struct ctr_index *x, const struct ctr_index_slot *s)
{
    return &x->slot[(s - x->slot + 1) & (x->cap - 1)];
}
/* Starting at s: the first slot with this hash, or the free slot after them. */
static inline struct ctr_index_slot *ctr_index_from(const struct ctr_index *x, struct ctr_index_slot *s, uint64_t hash)
{
    while (s->number != CTR_INDEX_FREE && s->hash != hash)
        s = ctr_index_after(x, s);
    return s;
}
/* The first element with this hash, and the next with the same hash; NULL: none. */
static inline const struct ctr_index_slot *ctr_index_find(const struct ctr_index *x, uint64_t hash)
{
    const struct ctr_index_slot *s = x->cap ? ctr_index_from(x, ctr_index_home(x, hash), hash) : NULL;
    return s && s->number != CTR_INDEX_FREE ? s : NULL;
}
static inline const struct ctr_index_slot *ctr_index_next(const struct ctr_index *x, const struct ctr_index_slot *of)
{
    const struct ctr_index_slot *s = ctr_index_from(x, ctr_index_after(x, of), of->hash);
    return s->number != CTR_INDEX_FREE ? s : NULL;
}

/* For qsort, of an array of these, or of structs that begin with one: order.c. No number is NaN. */
int ctr_by_u32(const void *a, const void *b);
int ctr_by_u64(const void *a, const void *b);
int ctr_by_i64(const void *a, const void *b);
int ctr_by_f64(const void *a, const void *b);
int ctr_by_text(const void *a, const void *b); /* char * */

void ctr_sha256(const void *data, size_t n, uint8_t out[32]); /* one-way: sha256.c */
/* A feature's key: XXH3-64 of the canonical text of the value, seeded with XXH3-64 of the name of
 * its table.  Integers in decimal, other doubles as ctr_fmt_f64 writes them, null as "(missing)". */
static inline uint64_t ctr_table_seed(const char *table)
{
    return ctr_hash64(table, strlen(table), 0);
}
static inline uint64_t ctr_feature_key(uint64_t table_seed, const void *text, size_t n)
{
    return ctr_hash64(text, n, table_seed);
}
/* Counter-based random numbers: the same for a (seed, stream, counter) everywhere and in any order. */
static inline uint64_t ctr_random64(uint64_t seed, uint64_t stream, uint64_t counter)
{
    return ctr_mix64(ctr_mix64(ctr_mix64(seed + 0x9e3779b97f4a7c15u) ^ stream) + counter * 0x9e3779b97f4a7c15u);
}
static inline double ctr_random01(uint64_t seed, uint64_t stream, uint64_t counter) /* [0, 1) */
{
    return (double)(ctr_random64(seed, stream, counter) >> 11) * 0x1p-53;
}

/* ---- numbers and times as text: num.c, time.c ---- */

/* Writers return the length written and need CTR_NUM_MAX bytes; no terminating zero.  The float writers give the
 * shortest text that reads back to the same bits ("4", "0.1", "1e-05", "nan", "inf", "-inf"): an integral value below
 * 2^53 has no point and no exponent, so that 4 and 4.0 have one text. Locale does not matter. */
#define CTR_NUM_MAX 32
size_t ctr_fmt_i64(char *out, int64_t v);
size_t ctr_fmt_u64(char *out, uint64_t v);
size_t ctr_fmt_f64(char *out, double v);
size_t ctr_fmt_f32(char *out, float v);
/* Readers take the whole of [p, p+n) or return false: no blanks, no locale, correctly rounded, ranges checked. A
 * leading '+' is allowed. Floats accept what the writers write, and "nan", "inf", "infinity" in any case. */
bool ctr_parse_i64(const char *p, size_t n, int64_t *v);
bool ctr_parse_u64(const char *p, size_t n, uint64_t *v);
bool ctr_parse_f64(const char *p, size_t n, double *v);
bool ctr_parse_f32(const char *p, size_t n, float *v);

static inline float ctr_f16_to_f32(uint16_t h) /* without a branch, so that loops are vectorized */
{
    const uint32_t sign = (uint32_t)(h & 0x8000U) << 16, exp = h >> 10 & 31U, man = h & 0x3ffU;
    const float subnormal = (float)(int32_t)man * 0x1p-24F; /* exact */
    uint32_t bits;
    float f;
    memcpy(&bits, &subnormal, sizeof bits);
    const uint32_t normal = (exp + 112 + 112 * (uint32_t)(exp == 31)) << 23 | man << 13;
    bits ^= (bits ^ normal) & -(uint32_t)(exp != 0); /* exp ? normal : bits */
    bits |= sign;
    memcpy(&f, &bits, sizeof f);
    return f;
}
uint16_t ctr_f32_to_f16(float f); /* round to nearest even */

/* Sizes "64", "10K", "256M", "2.7 MiB" (powers of 1024; rounded up to bytes) and durations "14d", "1h", "30m", "15s",
 * "250ms" (to ms). */
bool ctr_parse_size(const char *s, int64_t *bytes);
/* A size for people: "1000 B", "1 KiB", "2.7 MiB". */
struct ctr_size_text {
    char s[24];
};
struct ctr_size_text ctr_size_text(uint64_t bytes);
/* For memory needed beyond `bound`: rounded up, so that a user who types it gets enough, and up further until it
 * differs from the text of `bound`. */
struct ctr_size_text ctr_size_text_beyond(uint64_t bytes, uint64_t bound);
/* A mean or a rate for people: six decimals; below .001 seven and below .0001 eight; an exponent below .00001. At most
 * 10 bytes for values in [0, 1]. */
struct ctr_mean_text {
    char s[32];
};
struct ctr_mean_text ctr_mean_text(double v);
bool ctr_parse_duration(const char *p, size_t n, int64_t *ms);

/* Proleptic Gregorian calendar, UTC; years before 0000 and after 9999 are written and read with a sign and at least six
 * digits, as in "+010000-01-01T00:00:00Z". ctr_time_iso writes "2019-11-14T00:00:00Z", with ".123" before the Z only
 * when ms != 0, and returns the length (no terminator). */
int64_t ctr_time_civil(int year, int month, int day, int hour, int minute, int second, int ms);
size_t ctr_time_iso(char *out, int64_t ms);
/* Parse the whole of [p, p+n). `format`: NULL for ISO 8601 in its usual spellings ("2017-07-03 10:03",
 * "2019-11-14T00:00:00.5+01:00", a bare date), "unix", "unix_ms", "unix_us" and "unix_ns" for numbers (years outside
 * 0000 to 9999 too), else strptime-like: %Y %y %m %d %H %I %M %S (one or two digits each, %S with optional fraction),
 * %p (AM/PM), %b %B, %a %A, %z, %f, %F, %T, %% . */
bool ctr_time_parse(const char *format, const char *p, size_t n, int64_t *ms);
/* The same; *cut: digits other than 0 behind the milliseconds were cut off. */
bool ctr_time_parse_cut(const char *format, const char *p, size_t n, int64_t *ms, bool *cut);
/* The value of a hexadecimal digit in any case; -1: it is none. */
static inline int ctr_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}
/* Bytes of a UTF-8 byte order mark at the start of the text: 3, or 0. */
static inline size_t ctr_utf8_mark(const void *text, size_t n)
{
    return n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}
int64_t ctr_clock_ms(void);                     /* monotonic, arbitrary origin: for deadlines */
int64_t ctr_clock_ns(void);                     /* the same clock, for how long things take */
bool ctr_time_format_valid(const char *format); /* is it one of these formats? */

/* ---- texts on a terminal: columns.c ---- */

int ctr_columns(const char *p, size_t n);                  /* that UTF-8 takes */
size_t ctr_columns_cut(const char *p, size_t n, int most); /* its first bytes that take at most so many */
#define CTR_CUT "\xe2\x80\xa6"                             /* the sign of what is cut, … */

/* ---- instruction sets: cpu.c ---- */

/* May run-time dispatched loops use this level? The processor must support it and $CTR_CPU (plain, avx2 or avx512: the
 * highest level allowed) must permit it; both are read once. Every level gives the same bits. */
enum ctr_cpu { CTR_CPU_PLAIN, CTR_CPU_AVX2, CTR_CPU_AVX512 };
bool ctr_cpu_has(enum ctr_cpu level);
enum ctr_cpu ctr_cpu_best(void);                 /* the highest level allowed */
int ctr_cpu_count(void);                         /* processors that this process may run on */
int ctr_cpu_check(struct ctr_err *err) CTR_MUST; /* CTR_EUSAGE: $CTR_CPU names no level */
void ctr_cpu_limit(const char *most);            /* for tests: replaces $CTR_CPU from now on; NULL: no limit */
static inline void ctr_cpu_pause(void)           /* call it in a loop that waits for another thread */
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* ---- output files: out.c ---- */

/* Does `path` name stdout: NULL, "-" or "/dev/stdout"? The test is on the name; stdout itself may be a regular file. */
bool ctr_names_stdout(const char *path);
/* A file that appears whole or not at all. `path` NULL or "-" is stdout; a FIFO, a device or /dev/fd/N is written
 * directly; anything else is written to a temporary in the same folder, unnamed where the file system supports it,
 * which ctr_out_commit fsyncs and renames. ctr_out_free without commit removes the temporary; so do fatal signals, see
 * ctr_out_cleanup. Writes are buffered; large ones bypass the buffer. */
struct ctr_out;
enum {
    CTR_OUT_BINARY = 1, /* refuse a terminal */
    CTR_OUT_TEMP = 2    /* the path is /dev/fd/N of ctr_tmpfile: messages call it CTR_TEMP_NAME */
};
#define CTR_TEMP_NAME "temporary file (see TMPDIR)"
int ctr_out_open(struct ctr_out **o, const char *path, unsigned flags, struct ctr_err *err) CTR_MUST;
int ctr_out_write(struct ctr_out *o, const void *p, size_t n, struct ctr_err *err) CTR_MUST;
int ctr_out_writev(struct ctr_out *o, const struct iovec *v, int n, struct ctr_err *err) CTR_MUST;
int ctr_out_printf(struct ctr_out *o, struct ctr_err *err, const char *fmt, ...) CTR_MUST CTR_PRINTF(3, 4);
int ctr_out_flush(struct ctr_out *o, struct ctr_err *err) CTR_MUST;
int ctr_out_commit(struct ctr_out *o, struct ctr_err *err) CTR_MUST; /* flush, fsync, close, rename */
/* The files of one product: all are on disk before one is renamed. The first is renamed last, and one of that name is
 * removed before, so that its existence proves the others, whenever the process is killed. */
int ctr_out_commit_all(struct ctr_out *const *o, int n, struct ctr_err *err) CTR_MUST;
void ctr_out_free(struct ctr_out *o);
int64_t ctr_out_tell(const struct ctr_out *o);     /* bytes written so far */
const char *ctr_out_name(const struct ctr_out *o); /* for messages; "stdout" */
/* Kept for stream/: the seal of the last message written (ctr.xxh3), which the next section of a bundle names. */
struct ctr_seal {
    char digits[32]; /* hex, without a terminator; zeros: of none */
};
struct ctr_seal *ctr_out_seal(struct ctr_out *o);
bool ctr_out_is_stdout(const struct ctr_out *o);
void ctr_out_cleanup(void); /* async-signal-safe: unlink the temporaries that are open */
/* The target of a path through all links, even if it does not exist yet; the caller frees it; NULL with errno. */
char *ctr_path_followed(const char *path) CTR_MUST;
/* The last component of a path; *dir gets the status of its directory; NULL: the path has none. Paths with equal name
 * and directory are one file, whether it exists or not. */
struct stat;
const char *ctr_path_in(const char *path, struct stat *dir);
/* Register another writer's temporary for ctr_out_cleanup; the string must stay valid. Returns its slot, or -1 if all
 * slots (thousands) are taken. */
int ctr_temp_hold(const char *path);
void ctr_temp_release(int *slot);

/* An unnamed temporary file in $TMPDIR (or /tmp) for spills: returns its fd, already unlinked. */
int ctr_tmpfile(struct ctr_err *err) CTR_MUST;
int ctr_tmpfile_in(const char *dir, struct ctr_err *err) CTR_MUST; /* the same in another folder */

/* open (with O_CLOEXEC), fsync and ftruncate, repeated after EINTR; -1 with errno. */
int ctr_open(const char *path, int flags, unsigned mode);
int ctr_fsync(int fd);
int ctr_truncate(int fd, int64_t n);

/* Identifies an open file and its content: filestate.c. A reader looks at a file first, and again at the end:
 * was it written to meanwhile? That it was renamed or removed does not matter. */
struct ctr_file_state {
    bool regular;
    bool recent; /* it was written to so shortly before that its times may not tell of another write */
    uint64_t dev, ino;
    int64_t size, time_s, time_ns;
    int64_t change_s, change_ns; /* of the inode: also set when the time of the last write is set back */
    uint64_t label;              /* hash of names, mode and owner, whose change also sets that time; 0: unknown */
    uint64_t tail;               /* recent: hash of the last bytes, which have the last seal of a sealed file */
};
/* The first look, before anything is read. Times come from a clock that ticks every few milliseconds: waits until a
 * write to the file would set another one. While `path` (or NULL) is held the state is the held file's. */
int ctr_file_look(int fd, const char *path, struct ctr_file_state *s, struct ctr_err *err) CTR_MUST;
#define CTR_FILE_CHANGED "was changed or replaced by another program while it was read"
/* Is the open file the one that was looked at, without a write since? Otherwise CTR_EDATA and CTR_FILE_CHANGED. Files
 * that are not regular are never checked. */
int ctr_file_unchanged(int fd, const struct ctr_file_state *s, struct ctr_err *err) CTR_MUST;
/* What stat tells alone: of a file that cannot be opened now. */
struct stat;
struct ctr_file_state ctr_file_state(const struct stat *st);

/* Keeps an input that is read more than once the same file: inputidentity.c. Between ctr_input_identity_keep and the
 * matching number of ctr_input_identity_release calls, ctr_open_input(path) opens the regular file that had the name at
 * ctr_input_identity_keep, even if the name is reused; if that file was written to since, opening fails. For other
 * paths ctr_open_input is open with O_CLOEXEC. */
/* Is it a regular file? 1; 0: it is of another kind, "-", or not there; or an error. */
int ctr_is_file(const char *path, struct ctr_err *err) CTR_MUST;
/* Has the file been replaced or written since the last call, whose state is in *seen (zeros: no call yet)? Call it
 * before opening the file, so that no change is missed. A deleted file counts as unchanged. While the path is held,
 * opening it gives the held file. */
struct ctr_file_seen {
    uint64_t dev, ino;
    int64_t size, time_ms; /* time of the last write, since 1970 */
    int64_t time_ns, change_ns;
};
bool ctr_file_changed(const char *path, struct ctr_file_seen *seen);
int ctr_input_identity_keep(const char *path, struct ctr_err *err) CTR_MUST;
void ctr_input_identity_release(const char *path);
void ctr_input_identity_release_all(void);          /* at exit, when no thread reads any more */
bool ctr_held(const char *path);                    /* can it be opened, even if no file has that name any more? */
bool ctr_input_identity_replaced(const char *path); /* is it held, and has another file its name now, or none? */
bool ctr_input_identity_state(const char *path, struct ctr_file_state *s); /* when it is held */
int ctr_open_input(const char *path, int flags, struct ctr_err *err) CTR_MUST;

/* After a call on fd failed: should the caller repeat it? True after an interruption; for a non-blocking fd (another
 * program that shares the pipe or terminal may have made it so) true after waiting for events (POLLIN, POLLOUT).
 * Otherwise errno has the reason. */
bool ctr_again(int fd, int events);

/* Reads and writes of n bytes that continue after EINTR, EAGAIN and short counts. ctr_read_full returns what it got (<
 * n only at the end of input). */
ssize_t ctr_read_full(int fd, void *p, size_t n, struct ctr_err *err) CTR_MUST;
int ctr_write_full(int fd, const void *p, size_t n, struct ctr_err *err) CTR_MUST;
int ctr_pread_full(int fd, void *p, size_t n, int64_t offset, struct ctr_err *err) CTR_MUST; /* short is an error */

/* ---- threads: pool.c ---- */

/* Like pthread_create. The main thread handles all signals except SIGPIPE, which ends the writer, and SIGBUS, which
 * reports that a mapped file was truncated. */
int ctr_thread_start(pthread_t *id, void *(*main)(void *), void *arg);

/* ctr_pool_run calls fn(ctx, task, worker) for task 0..tasks-1 on up to `threads` workers and returns when all are
 * done. The caller is worker 0; with a NULL pool it is the only one. The assignment of tasks to workers is arbitrary:
 * results must not depend on it. */
struct ctr_pool;
/* Handling of denormal numbers: IEEE keeps them (data, lr), FLUSH replaces denormal operands and results with 0
 * (networks). Sets the mode of this thread; returns the previous one. */
enum ctr_float_mode { CTR_FLOAT_IEEE, CTR_FLOAT_FLUSH };
enum ctr_float_mode ctr_float_mode(enum ctr_float_mode mode);
/* Tasks run in this mode; ctr_pool_run restores the caller's mode. */
int ctr_pool_new(struct ctr_pool **p, int threads, enum ctr_float_mode mode, struct ctr_err *err) CTR_MUST;
void ctr_pool_run(struct ctr_pool *p, int64_t tasks, void (*fn)(void *ctx, int64_t task, int worker), void *ctx);
int ctr_pool_threads(const struct ctr_pool *p);
/* For runs in quick succession: threads spin for some microseconds before they sleep, because waking takes longer. */
void ctr_pool_stay_awake(struct ctr_pool *p);
void ctr_pool_free(struct ctr_pool *p);

/* A thread that runs one task beside the caller: background.c. Between ctr_background_run and a ctr_background_wait
 * that returns true, the caller must not use what fn(ctx) uses. */
struct ctr_background;
struct ctr_background *ctr_background_new(void); /* NULL: no thread available, the caller does the work itself */
void ctr_background_run(struct ctr_background *b, void (*fn)(void *ctx), void *ctx); /* only when no task is running */
bool ctr_background_wait(struct ctr_background *b, int ms); /* is the task done within ms (< 0: wait without limit)? */
void ctr_background_free(struct ctr_background *b);         /* waits for the running task */

/* ---- exp, log, sigmoid: math.c ---- */

/* Fixed order of operations, no libm: the same bits on every processor. */
double ctr_exp(double x);
double ctr_log(double x);
double ctr_log1p(double x);
double ctr_sigmoid(double x);
/* Vectorised, with the same bits; NULL: not available on this architecture. */
typedef void ctr_sigmoids(const double *x, double *p, int64_t n);
ctr_sigmoids *ctr_sigmoids_at(enum ctr_cpu level);

#endif
