/* SPDX-License-Identifier: Apache-2.0
 *
 * csv.h: internal to the delimited formats: csv.c (schema, tiles, bad rows), csvindex.c (ends of cells), csvdialect.c
 * (what a cell means), csvcell.c (columns of cells to values).
 *
 * A tile is a run of complete records, about CSV_TILE_BYTES of a block. Its cells are given by their ends: cell c of
 * row r ends at end[first[r] + c] (a delimiter, or the end of the line) and starts after the previous delimiter. All
 * offsets count from the start of the block. A cell that starts with a quote, if quoting is enabled, includes its
 * quotes.
 */
#ifndef CTR_CSV_H
#define CTR_CSV_H

#include "common/text/text.h"

#ifndef CSV_TILE_BYTES /* fuzzing uses small ones */
#define CSV_TILE_BYTES (32 << 10)
#endif
#define CSV_MAX_COLUMNS 10000

/* status of a record; a positive one is the number (from 1) of the column whose cell does not fit */
enum { CSV_GOOD = 0, CSV_COUNT = -1, CSV_OPEN_QUOTE = -2, CSV_AFTER_QUOTE = -3, CSV_COMMENT = -4 };

struct csv_tile {
    const char *p; /* the block */
    uint32_t from, to;
    uint32_t *end;
    /* every record of the tile */
    int records;
    uint32_t *start; /* start[records] is the tile's end */
    uint32_t *record_first, *cells;
    int32_t *status;
    /* the good ones */
    int rows;
    uint32_t *row_start, *first, *record;
    /* scratch a row */
    int64_t *value;
    uint32_t *length;
    uint64_t *present;        /* bitmap */
    uint8_t *special;         /* per column: some cell is quoted or escaped, or the dialect says how to read all */
    struct ctr_text_job *job; /* that receives the values; NULL while the schema is unknown */
    struct ctr_buf *unquoted;
};

/* The rules for separating cells. */
struct csv_dialect {
    const char *delimiter;
    uint32_t delimiter_n;
    bool quoted;
    const struct ctr_str *null; /* null texts; nulls == 0: the empty cell */
    int nulls;
    char escape;  /* 0: none */
    bool letters; /* behind an escape letters are control characters */
    bool trim;
    const char *comment;             /* NULL, or what a record begins with that is none */
    const char *decimal, *thousands; /* NULL: a point; none */
    int columns;
};

/* Index the tile at t->from of a block of n bytes: fills to, end, start, record_first, cells, status, records. Keeps at
 * most `columns` ends per record, and `max_records` records. */
void ctr_csv_index(struct csv_tile *t, size_t n, const struct csv_dialect *d, int max_records);

/* Append column c of the good rows to b; a row whose cell does not fit gets its status (if it has none) and a null.
 * Returns < 0 only for lack of memory. */
int ctr_csv_column(struct csv_tile *t, const struct csv_dialect *d, const struct ctr_text_column *column, int c,
                   struct ctr_colbuf *b, struct ctr_err *err);

/* The raw text of a cell of record k, and its content without quotes (in t->unquoted until the next call if necessary);
 * *quoted: was it quoted? */
struct ctr_str ctr_csv_raw(const struct csv_tile *t, const struct csv_dialect *d, uint32_t row_start, uint32_t first,
                           int c);
int ctr_csv_unquote(struct csv_tile *t, const struct csv_dialect *d, struct ctr_str *cell, bool *quoted,
                    struct ctr_err *err);
/* The same, and whether the cell is a missing value. */
int ctr_csv_cell(struct csv_tile *t, const struct csv_dialect *d, struct ctr_str *cell, bool *quoted, bool *null,
                 struct ctr_err *err);

/* The number in a cell as everything else reads it: without groups, with a point. False: it is no number of the
 * dialect. */
struct csv_number {
    char text[480];
    size_t n;
};
bool ctr_csv_number(const struct csv_dialect *d, struct ctr_str s, struct csv_number *x);
/* ctr_infer_see with numbers of the dialect. */
void ctr_csv_see(const struct csv_dialect *d, struct ctr_infer *infer, struct ctr_str cell);

/* The few texts of a column of the sample whose other cells are numbers: they may stand for a missing value. */
enum { CSV_WORDS = 3 };
struct csv_words {
    int64_t numbers;
    int64_t cells, times;           /* of them, times without zeros before digits: 2026-1-2 3:04 */
    char time[24], time_format[20]; /* the first, and how --time names it */
    int n;
    bool other; /* more texts, or long ones */
    struct csv_word {
        char text[24];
        size_t n;
        int64_t times;
    } word[CSV_WORDS];
};
void ctr_csv_words_see(struct csv_words *w, const struct csv_dialect *d, struct ctr_str cell);
void ctr_csv_words_note(const struct csv_words *w, const struct ctr_text_opts *o, const char *column);

static inline bool ctr_csv_blank(const struct csv_dialect *d, char c)
{
    return (c == ' ' || c == '\t') && c != *d->delimiter;
}

static inline bool ctr_csv_comment(const struct csv_dialect *d, const char *p, size_t n)
{
    const size_t k = d->comment ? strlen(d->comment) : 0;
    return k && n >= k && !memcmp(p, d->comment, k);
}

static inline bool ctr_csv_null(const struct csv_dialect *d, struct ctr_str s)
{
    for (int i = 0; i < d->nulls; i++)
        if (s.n == d->null[i].n && (!s.n || !memcmp(s.p, d->null[i].p, s.n)))
            return true;
    return !d->nulls && !s.n;
}
#endif
