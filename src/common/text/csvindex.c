/* SPDX-License-Identifier: Apache-2.0
 *
 * csvindex: finds the ends of the cells of a tile. Text without quotes and with a one-byte delimiter is processed 64
 * bytes at a time; everything else by a scanner of the whole grammar. Both give the same result, on every processor.
 */
#include "common/text/csv.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Store the positions of delimiters and newlines in [from, to) to end[], and for each newline its index there to
 * line[]. Returns the number of positions; *lines: of newlines. end needs room for 64 more. */
typedef uint32_t index_fn(const char *p, uint32_t from, uint32_t to, char delimiter, uint32_t *end, uint32_t *line,
                          int *lines);

static inline uint32_t emit(uint64_t cells, uint64_t newlines, uint32_t base, uint32_t *end, uint32_t k, uint32_t *line,
                            int *lines)
{
    uint32_t *o = end + k;
    for (; newlines; newlines &= newlines - 1)
        line[(*lines)++] = k + (uint32_t)__builtin_popcountll(cells & ((newlines & -newlines) - 1));
    k += (uint32_t)__builtin_popcountll(cells);
    while (cells) { /* four at a time: most words of a log have few cells */
        for (int i = 0; i < 4; i++) {
            o[i] = base + (uint32_t)__builtin_ctzll(cells | 1ull << 63);
            cells &= cells - 1;
        }
        o += 4;
    }
    return k;
}

/* The last bytes of a tile, or the whole tile if there is no faster way. */
static uint32_t index_tail(const char *p, uint32_t from, uint32_t to, char delimiter, uint32_t *end, uint32_t k,
                           uint32_t *line, int *lines)
{
    for (; from < to; from++) {
        if (p[from] == '\n')
            line[(*lines)++] = k;
        if (p[from] == '\n' || p[from] == delimiter)
            end[k++] = from;
    }
    return k;
}

#if defined(__x86_64__)
__attribute__((target("avx2,bmi,popcnt"))) static uint32_t
index_avx2(const char *p, uint32_t from, uint32_t to, char delimiter, uint32_t *end, uint32_t *line, int *lines)
{
    const __m256i d = _mm256_set1_epi8(delimiter), nl = _mm256_set1_epi8('\n');
    uint32_t k = 0;
    for (; to - from >= 64; from += 64) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(p + from)),
                b = _mm256_loadu_si256((const __m256i *)(p + from + 32));
        uint64_t newlines = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, nl)) |
                            (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, nl)) << 32;
        uint64_t cells = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, d)) |
                         (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, d)) << 32;
        k = emit(cells | newlines, newlines, from, end, k, line, lines);
    }
    return index_tail(p, from, to, delimiter, end, k, line, lines);
}

static uint32_t index_sse2(const char *p, uint32_t from, uint32_t to, char delimiter, uint32_t *end, uint32_t *line,
                           int *lines)
{
    const __m128i d = _mm_set1_epi8(delimiter), nl = _mm_set1_epi8('\n');
    uint32_t k = 0;
    for (; to - from >= 64; from += 64) {
        uint64_t newlines = 0, cells = 0;
        for (int i = 0; i < 4; i++) {
            __m128i a = _mm_loadu_si128((const __m128i *)(p + from + 16 * i));
            newlines |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(a, nl)) << (16 * i);
            cells |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(a, d)) << (16 * i);
        }
        k = emit(cells | newlines, newlines, from, end, k, line, lines);
    }
    return index_tail(p, from, to, delimiter, end, k, line, lines);
}

static index_fn *choose(void)
{
    return ctr_cpu_has(CTR_CPU_AVX2) ? index_avx2 : index_sse2;
}
#else
static uint32_t index_plain(const char *p, uint32_t from, uint32_t to, char delimiter, uint32_t *end, uint32_t *line,
                            int *lines)
{
    return index_tail(p, from, to, delimiter, end, 0, line, lines);
}

static index_fn *choose(void)
{
    return index_plain;
}
#endif

/* A line that ends in "\r\n" ends before the "\r". */
static void trim_return(struct csv_tile *t, uint32_t row_start, uint32_t *end)
{
    if (*end > row_start && t->p[*end - 1] == '\r')
        --*end;
}

static void index_fast(struct csv_tile *t, const struct csv_dialect *d)
{
    int lines = 0;
    uint32_t start = t->from, first = 0, *line = t->cells;
    choose()(t->p, t->from, t->to, *d->delimiter, t->end, line, &lines);
    for (int r = 0; r < lines; r++) {
        uint32_t last = line[r], newline = t->end[last];
        t->start[r] = start;
        t->record_first[r] = first;
        t->cells[r] = last - first + 1;
        t->status[r] = t->cells[r] == (uint32_t)d->columns ? CSV_GOOD : CSV_COUNT;
        if (ctr_csv_comment(d, t->p + start, newline + 1 - start))
            t->status[r] = CSV_COMMENT;
        trim_return(t, last > first ? t->end[last - 1] + 1 : start, &t->end[last]);
        start = newline + 1;
        first = last + 1;
    }
    t->start[lines] = start;
    t->records = lines;
}

/* ---- the whole grammar ---- */

/* The quote that closes the one at q, or NULL. */
static const char *closing_quote(const char *q, const char *end, char escape)
{
    while (escape && ++q < end) {
        if (*q == escape || (*q == '"' && q[1] == '"'))
            q++;
        else if (*q == '"')
            return q;
    }
    if (escape)
        return NULL;
    for (q++; (q = memchr(q, '"', (size_t)(end - q)));) {
        if (q[1] != '"') /* a block ends with a newline */
            return q;
        q += 2;
    }
    return NULL;
}

/* The end of the cell at p: a delimiter or newline. An escape before the last newline of the block escapes nothing. */
static const char *cell_end(const char *p, const char *end, const struct csv_dialect *d, bool *escaped)
{
    char d0 = *d->delimiter;
    for (;; p++) {
        if (d->escape && *p == d->escape && p + 2 < end) {
            *escaped = true;
            p++;
            continue;
        }
        if (*p == '\n')
            return p;
        if (*p == d0 && (d->delimiter_n == 1 || !memcmp(p, d->delimiter, d->delimiter_n)))
            return p;
    }
}

static const char *skip_blanks(const char *p, const struct csv_dialect *d)
{
    while (d->trim && ctr_csv_blank(d, *p))
        p++;
    return p;
}

/* Index one record; returns the start of the next. The block must end with a newline. */
static const char *index_record(struct csv_tile *t, const char *p, const char *end, const struct csv_dialect *d,
                                uint32_t *k)
{
    int r = t->records;
    uint32_t cells = 0, columns = (uint32_t)d->columns;
    t->start[r] = (uint32_t)(p - t->p);
    t->record_first[r] = *k;
    t->status[r] = CSV_GOOD;
    if (ctr_csv_comment(d, p, (size_t)(end - p))) {
        t->status[r] = CSV_COMMENT;
        t->cells[r] = 0;
        t->records++;
        return (const char *)memchr(p, '\n', (size_t)(end - p)) + 1;
    }
    for (;;) {
        const char *q = p, *start = p, *quote = skip_blanks(p, d);
        bool escaped = false;
        if (d->quoted && *quote == '"') {
            const char *close = closing_quote(quote, end, d->escape);
            if (!close) {
                t->status[r] = CSV_OPEN_QUOTE;
                p = (const char *)memchr(p, '\n', (size_t)(end - p)) + 1;
                break;
            }
            q = skip_blanks(close + 1, d);
            if (*q != *d->delimiter && *q != '\n' && !(*q == '\r' && q[1] == '\n'))
                t->status[r] = CSV_AFTER_QUOTE;
            if (cells < columns)
                t->special[cells] = 1;
        }
        q = cell_end(q, end, d, &escaped);
        if (cells < columns) {
            t->special[cells] |= escaped;
            t->end[*k] = (uint32_t)(q - t->p);
            if (*q == '\n')
                trim_return(t, (uint32_t)(start - t->p), &t->end[*k]);
            ++*k;
        }
        cells++;
        if (*q == '\n') {
            p = q + 1;
            break;
        }
        p = q + d->delimiter_n;
    }
    t->cells[r] = cells;
    if (!t->status[r] && cells != columns)
        t->status[r] = CSV_COUNT;
    t->records++;
    return p;
}

static void index_whole(struct csv_tile *t, size_t n, const struct csv_dialect *d, int max_records)
{
    const char *p = t->p + t->from, *end = t->p + n,
               *stop = (size_t)(end - p) > CSV_TILE_BYTES ? p + CSV_TILE_BYTES : end;
    uint32_t k = 0;
    while (p < stop && t->records < max_records)
        p = index_record(t, p, end, d, &k);
    t->to = t->start[t->records] = (uint32_t)(p - t->p);
}

void ctr_csv_index(struct csv_tile *t, size_t n, const struct csv_dialect *d, int max_records)
{
    const char *p = t->p + t->from;
    size_t left = n - t->from;
    const char *last = left > CSV_TILE_BYTES ? memrchr(p, '\n', CSV_TILE_BYTES) : t->p + n - 1;
    t->records = 0;
    memset(t->special, d->trim || d->decimal || d->thousands, (size_t)d->columns);
    if (!last || d->delimiter_n > 1 || max_records < CSV_TILE_BYTES ||
        (d->quoted && memchr(p, '"', (size_t)(last - p))) || (d->escape && memchr(p, d->escape, (size_t)(last - p)))) {
        index_whole(t, n, d, max_records);
        return;
    }
    t->to = (uint32_t)(last + 1 - t->p);
    index_fast(t, d);
}
