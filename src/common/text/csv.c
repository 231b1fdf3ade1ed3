/* SPDX-License-Identifier: Apache-2.0
 *
 * csv: delimited text: csv (RFC 4180: quoted cells may contain delimiters, newlines and doubled quotes) and tsv (cells
 * are raw bytes). The state is constant after opening; a block is parsed tile by tile, each tile column by column. If a
 * cell does not fit, its tile is reverted and parsed again without the bad rows, so that the common path needs no
 * checks for them.
 */
#include "common/text/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct csv_nulls {
    int from, n;
};

struct csv {
    const struct ctr_text_opts *o;
    struct csv_dialect d;
    struct ctr_str *null;
    struct csv_nulls *nulls; /* per column: its null texts */
    struct ctr_text_columns columns;
    bool header;
    char *header_line; /* including its newline */
    size_t header_n;
    char header_file[256];
};

static void csv_close(void *state)
{
    struct csv *s = state;
    ctr_text_columns_free(&s->columns);
    free(s->header_line);
    free(s->null);
    free(s->nulls);
    free(s);
}

/* The rules for the cells of column c. */
static struct csv_dialect dialect_of(const struct csv *s, int c)
{
    struct csv_dialect d = s->d;
    d.null = s->null + s->nulls[c].from;
    d.nulls = s->nulls[c].n;
    return d;
}

/* The block "7,a\nx,b\n,\"c,d\"\n" as columns n:int64 and t:utf8 is one tile (csv.h), which is parsed so:
 *
 *     ctr_csv_index   end = 1 3 5 7 8 14, start = 0 4 8 15, record_first = 0 2 4, cells = 2 2 2, status = 0 0 0
 *     choose_rows     all three records
 *     append_columns  n: 7, null, null, and status[1] = 1, as cell x of column 1 is no int64; t: a, b, "c,d" unquoted
 *     choose_rows     now two rows: the columns are rewound, and append_columns runs once more on records 0 and 2
 *     report          line 2 goes to ctr_job_bad with the reason; import.c applies the policy
 *
 * A record with too few or too many cells has its status from the start, so the second run is only for misfits. */

/* ---- scratch ---- */

static void *take(uint8_t **at, size_t bytes)
{
    void *p = *at;
    *at += (bytes + 63) & ~(size_t)63;
    return p;
}

/* The arrays of a tile, allocated from one buffer that is kept between blocks. */
static int tile_init(struct csv_tile *t, const struct csv_dialect *d, const struct ctr_text_block *b,
                     struct ctr_buf *scratch, struct ctr_buf *unquoted, struct ctr_err *err)
{
    size_t rows = CSV_TILE_BYTES + 4, ends = rows + (size_t)d->columns + 128;
    size_t total = 4 * ends + 8 * 4 * rows + 8 * rows + rows / 8 + (size_t)d->columns + 64 * 16;
    int rc = ctr_buf_reserve(scratch, total, err);
    if (rc)
        return rc;
    uint8_t *at = scratch->data;
    *t = (struct csv_tile){ .p = b->p, .unquoted = unquoted };
    t->end = take(&at, 4 * ends);
    t->start = take(&at, 4 * rows);
    t->record_first = take(&at, 4 * rows);
    t->cells = take(&at, 4 * rows);
    t->status = take(&at, 4 * rows);
    t->row_start = take(&at, 4 * rows);
    t->first = take(&at, 4 * rows);
    t->record = take(&at, 4 * rows);
    t->value = take(&at, 8 * rows);
    t->length = take(&at, 4 * rows);
    t->present = take(&at, rows / 8 + 8);
    t->special = take(&at, (size_t)d->columns);
    return 0;
}

/* Select the rows that are good so far. */
static void choose_rows(struct csv_tile *t, int from)
{
    int n = 0;
    for (int r = from; r < t->records; r++)
        if (t->status[r] == CSV_GOOD) {
            t->row_start[n] = t->start[r];
            t->first[n] = t->record_first[r];
            t->record[n++] = (uint32_t)r;
        }
    t->rows = n;
}

/* ---- a header that was not told of ---- */

/* Whether the first record of a tile looks like a header: every cell is a name, of which up to half are empty; and is
 * the name of its column. */
struct csv_look {
    bool named, same;
};

/* The name that a cell of a header gives column c: cN where it is empty, as above the index of a data frame. */
static struct ctr_str header_name(struct ctr_str cell, int c, char *room, size_t bytes)
{
    if (cell.n)
        return cell;
    return (struct ctr_str){ room, (size_t)snprintf(room, bytes, "c%d", c + 1) };
}

static int look(const struct csv *s, struct csv_tile *t, uint32_t row_start, uint32_t first, int cells,
                struct csv_look *l, struct ctr_err *err)
{
    int empty = 0;
    *l = (struct csv_look){ cells > 0, cells == s->columns.n };
    for (int c = 0; l->named && c < cells; c++) {
        struct ctr_str cell = ctr_csv_raw(t, &s->d, row_start, first, c);
        struct ctr_infer alone = { 0 };
        bool quoted;
        int rc = ctr_csv_unquote(t, &s->d, &cell, &quoted, err);
        if (rc)
            return rc;
        for (size_t i = 0; i < cell.n; i++)
            l->named &= (unsigned char)cell.p[i] >= ' ';
        const unsigned char k = cell.n ? (unsigned char)*cell.p : 0;
        ctr_infer_see(&alone, cell.p, cell.n);
        empty += !cell.n;
        l->named &= !cell.n || ((((k | 32) >= 'a' && (k | 32) <= 'z') || k == '_' || k >= 0x80) &&
                                ctr_infer_type(&alone) == CTR_UTF8);
        l->same = l->same && strlen(s->columns.c[c].name) == cell.n && !memcmp(s->columns.c[c].name, cell.p, cell.n);
    }
    l->named &= 2 * empty <= cells;
    return 0;
}

/* Does the first record contain each column name, like an undeclared header? */
static bool holds_names(const struct csv *s, const struct csv_tile *t, const struct ctr_text_columns *given,
                        const struct ctr_schema *like)
{
    const int n = given->n ? given->n : like ? like->n : 0;
    int found = 0;
    for (int i = 0; i < n; i++) {
        const char *name = !given->n ? like->f[i].name : given->c[i].source ? given->c[i].source : given->c[i].name;
        bool there = false;
        for (int c = 0; !there && c < s->d.columns; c++) {
            struct ctr_str cell = ctr_csv_raw(t, &s->d, t->start[0], 0, c);
            if (s->d.quoted && cell.n >= 2 && *cell.p == '"')
                cell = (struct ctr_str){ cell.p + 1, cell.n - 2 };
            there = strlen(name) == cell.n && !memcmp(name, cell.p, cell.n);
        }
        found += there;
    }
    return n && found == n;
}

/* ---- opening ---- */

/* The number of cells of the first record. If it is unreadable, no column is known. */
static int count_cells(struct csv *s, const struct ctr_text_block *b, struct csv_tile *t, struct ctr_err *err)
{
    ctr_csv_index(t, b->n, &s->d, 1);
    s->d.columns = (int)t->cells[0];
    if (t->cells[0] > CSV_MAX_COLUMNS) {
        ctr_err_file(err, b->file);
        return ctr_fail(err, CTR_EDATA, "line %lld: %u columns, at most %d are supported; is %s right?",
                        (long long)b->first_line, t->cells[0], CSV_MAX_COLUMNS, ctr_text_option(s->o, "delimiter").s);
    }
    return 0;
}

static int check_first(const struct csv *s, const struct ctr_text_block *b, const struct csv_tile *t,
                       struct ctr_err *err)
{
    if (t->status[0] != CSV_OPEN_QUOTE && t->status[0] != CSV_AFTER_QUOTE)
        return 0;
    ctr_err_file(err, b->file);
    return ctr_fail(err, CTR_EDATA, "line %lld: a quote does not enclose a whole cell; %s takes quotes as they are",
                    (long long)b->first_line, ctr_text_setting(s->o, "format", "tsv").s);
}

/* Does a line read as one column look like several? Returns the option to suggest, or "". */
static struct ctr_text_option other_delimiter(const struct ctr_text_opts *o, const struct csv_dialect *d,
                                              const struct csv_tile *t)
{
    static const struct {
        const char *text, *option, *value;
    } delimiters[] = {
        { "\t", "format", "tsv" }, { ";", "delimiter", ";" }, { "::", "delimiter", "::" },
        { "|", "delimiter", "|" }, { ",", "format", "csv" },
    };
    const struct ctr_text_option none = { "" };
    const char *line = t->p + t->start[0];
    size_t n = t->start[1] - t->start[0];
    if (d->columns != 1 || (d->quoted && *line == '"'))
        return none;
    for (size_t i = 0; i < CTR_COUNT(delimiters); i++)
        if (strcmp(d->delimiter, delimiters[i].text) && memmem(line, n, delimiters[i].text, strlen(delimiters[i].text)))
            return ctr_text_setting(o, delimiters[i].option, "%s", delimiters[i].value);
    return none;
}

/* Lines that end in CR alone form a single line; of those that end in CR CR LF, the last cell ends in a CR. */
static void note_line_ends(const struct ctr_text_opts *o, const struct ctr_text_block *b)
{
    const char *cr = memchr(b->p, '\r', b->n), *nl = memchr(b->p, '\n', b->n);
    if (nl && nl - b->p > 1 && nl[-1] == '\r' && nl[-2] == '\r')
        ctr_text_note(o, "line 1 of %s ends in two CR, of which one stays in its last cell; tr -d '\\r' mends that",
                      b->file);
    else if (cr && nl == b->p + b->n - 1 && cr < nl - 1)
        ctr_text_note(o, "%s is one line with CR in it; if its lines end in CR, tr '\\r' '\\n' mends them", b->file);
}

static void note_delimiter(const struct ctr_text_opts *o, const struct csv_dialect *d, const struct csv_tile *t)
{
    const struct ctr_text_option remedy = other_delimiter(o, d, t);
    if (*remedy.s)
        ctr_text_note(o, "line 1 is taken for one column; %s may be meant", remedy.s);
}

static int read_header(struct csv *s, const struct ctr_text_block *b, struct csv_tile *t, struct ctr_err *err)
{
    int rc = check_first(s, b, t, err);
    if (rc)
        return rc;
    s->header_n = t->start[1] - t->start[0];
    s->header_line = malloc(s->header_n);
    if (!s->header_line)
        return ctr_fail_nomem(err, s->header_n);
    memcpy(s->header_line, b->p + t->start[0], s->header_n);
    snprintf(s->header_file, sizeof s->header_file, "%s", b->file);
    for (int c = 0; c < s->d.columns; c++) {
        struct ctr_str cell = ctr_csv_raw(t, &s->d, t->start[0], 0, c);
        char unnamed[16];
        bool quoted;
        if ((rc = ctr_csv_unquote(t, &s->d, &cell, &quoted, err)))
            return rc;
        cell = header_name(cell, c, unnamed, sizeof unnamed);
        if (memchr(cell.p, 0, cell.n)) {
            ctr_err_file(err, b->file);
            return ctr_fail(err, CTR_EDATA, "line %lld: the name of column %d holds the byte 0",
                            (long long)b->first_line, c + 1);
        }
        if (!ctr_utf8_valid((const uint8_t *)cell.p, cell.n)) {
            ctr_err_file(err, b->file);
            return ctr_fail(err, CTR_EDATA, "line %lld: the name of column %d is not UTF-8; %s",
                            (long long)b->first_line, c + 1, ctr_text_recode(s->o, s->header_line, s->header_n).s);
        }
        if ((rc = ctr_text_columns_add(&s->columns, cell.p, cell.n, err)))
            return rc;
    }
    return 0;
}

static int move_column(struct ctr_text_column *to, struct ctr_text_column *from, struct ctr_err *err)
{
    free(to->name);
    to->name = strdup(from->name);
    to->type = from->type;
    to->typed = from->typed;
    to->time_format = from->time_format;
    to->local = from->local;
    from->time_format = NULL;
    from->local = NULL;
    return to->name ? 0 : ctr_fail_nomem(err, strlen(from->name));
}

/* The column of the header that each entry of --columns names, by its own name or =SOURCE, or -1. Returns how many name
 * one. */
static int find_named(const struct ctr_text_columns *l, const struct ctr_text_columns *given, int *at)
{
    int named = 0;
    for (int i = 0; i < given->n; i++) {
        const char *name = given->c[i].source ? given->c[i].source : given->c[i].name;
        at[i] = ctr_text_columns_find(l, name, strlen(name));
        named += at[i] >= 0;
    }
    return named;
}

/* Entry `missing` is not in the header: fail, with the columns that no entry names as candidates. */
static int fail_missing(const struct csv *s, const struct ctr_text_columns *given, const int *at, int missing,
                        struct ctr_err *err)
{
    const struct ctr_text_columns *l = &s->columns;
    const struct ctr_text_column *c = &given->c[missing];
    const char **free_names = calloc((size_t)l->n + 1, sizeof *free_names);
    char hint[200] = "";
    int n = 0;
    if (!free_names)
        return ctr_fail_nomem(err, (size_t)l->n * sizeof *free_names);
    for (int k = 0; k < l->n; k++) {
        bool taken = false;
        for (int i = 0; i < given->n; i++)
            taken |= at[i] == k;
        if (!taken)
            free_names[n++] = l->c[k].name;
    }
    ctr_name_hint(hint, sizeof hint, c->source ? c->source : c->name, free_names, n);
    free(free_names);
    const struct ctr_text_option columns = ctr_text_option(s->o, "columns");
    if (c->source)
        return ctr_fail(err, CTR_EUSAGE, "%s: the input has no column '%s'%s", columns.s, c->source, hint);
    return ctr_fail(err, CTR_EUSAGE, "%s: the input has no column '%s'%s; %s=OLD renames column OLD", columns.s,
                    c->name, hint, c->name);
}

/* --columns with a header: entries name columns of the header, by their own name or =SOURCE, and set types and rename.
 * As many names as there are columns, none of which is in the header, rename all in order. A mixture is an error: by
 * position a column that is misspelt or missing would exchange the others. */
static int apply_names(struct csv *s, struct ctr_text_columns *given, const struct ctr_text_opts *o,
                       struct ctr_err *err)
{
    struct ctr_text_columns *l = &s->columns;
    int *at = calloc((size_t)given->n + 1, sizeof *at), rc = 0;
    if (!at)
        return ctr_fail_nomem(err, (size_t)given->n * sizeof *at);
    bool sourced = false;
    for (int i = 0; i < given->n; i++)
        sourced |= given->c[i].source != NULL;
    const struct ctr_text_option columns = ctr_text_option(o, "columns");
    const int named = find_named(l, given, at);
    if (!named && !sourced && given->n == l->n) {
        ctr_text_note(o, "%s names no column of the header: its names replace those of the header in order", columns.s);
        for (int i = 0; i < given->n; i++)
            at[i] = i;
    } else if (!named && !sourced && given->n > l->n) {
        rc = ctr_fail(err, CTR_EUSAGE, "%s names %d columns, the header has %d", columns.s, given->n, l->n);
    }
    for (int i = 0; !rc && i < given->n; i++) { /* all before renaming any */
        if (at[i] < 0)
            rc = fail_missing(s, given, at, i, err);
        for (int k = 0; !rc && k < i; k++)
            if (at[k] == at[i])
                rc = ctr_fail(err, CTR_EUSAGE, "%s: column '%s' of the input stands there twice", columns.s,
                              l->c[at[i]].name);
    }
    for (int i = 0; !rc && i < given->n; i++)
        rc = move_column(&l->c[at[i]], &given->c[i], err);
    free(at);
    return rc;
}

/* Names by position: --columns, --like, or c1, c2, … If bad rows are tolerated, the first record may be one. */
static int name_columns(struct csv *s, struct ctr_text_columns *given, const struct ctr_text_opts *o,
                        const struct ctr_text_block *b, const struct csv_tile *t, struct ctr_err *err)
{
    const struct ctr_text_option what = ctr_text_option(o, given->n ? "columns" : "like");
    int names = given->n ? given->n : o->like ? o->like->n : 0, rc = 0;
    bool strict = !o->bad_rows || !strcmp(o->bad_rows, "fail");
    const struct ctr_text_option other = b->n ? other_delimiter(o, &s->d, t) : (struct ctr_text_option){ "" };
    if (b->n && (strict || !names) && (rc = check_first(s, b, t, err)))
        return rc;
    if (names && b->n && strict && names != s->d.columns) {
        ctr_err_file(err, b->file);
        if (holds_names(s, t, given, o->like))
            return ctr_fail(err, CTR_EUSAGE,
                            "line 1 has %d columns, %s names %d, which are among them; %s may be meant", s->d.columns,
                            what.s, names, ctr_text_option(o, "header").s);
        return ctr_fail(err, CTR_EUSAGE, "line 1 has %d column%s, %s names %d%s%s%s%s", s->d.columns,
                        s->d.columns == 1 ? "" : "s", what.s, names, s->d.columns > 1 ? "" : "; ",
                        s->d.columns > 1 || *other.s ? "" : "is ",
                        *other.s            ? other.s
                        : s->d.columns == 1 ? ctr_text_option(o, "delimiter").s
                                            : "",
                        *other.s            ? " may be meant"
                        : s->d.columns == 1 ? " right?"
                                            : "");
    }
    if (!names && b->n)
        note_delimiter(o, &s->d, t);
    if (!names && !b->n) {
        ctr_err_file(err, b->file);
        return ctr_fail(err, CTR_EDATA, "the input is empty: without %s its columns are not known",
                        ctr_text_option(o, "columns").s);
    }
    for (int i = 0; !rc && i < given->n; i++)
        if (given->c[i].source)
            rc = ctr_fail(err, CTR_EUSAGE, "%s: %s=%s wants %s", ctr_text_option(o, "columns").s, given->c[i].name,
                          given->c[i].source, ctr_text_option(o, "header").s);
    if (given->n) {
        s->columns = *given;
        *given = (struct ctr_text_columns){ 0 };
    }
    for (int i = 0; !rc && s->columns.n < (names ? names : s->d.columns); i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i + 1);
        const char *p = o->like ? o->like->f[i].name : name;
        rc = ctr_text_columns_add(&s->columns, p, strlen(p), err);
    }
    s->d.columns = s->columns.n;
    return rc;
}

/* Infer types from the first CTR_SAMPLE_ROWS records, without the first, which may be a header. */
static int infer_types(const struct csv *s, const struct ctr_text_block *b, struct csv_tile *t, struct ctr_infer *infer,
                       struct csv_words *words, struct ctr_err *err)
{
    int left = CTR_SAMPLE_ROWS + s->header;
    t->to = 0;
    for (bool head = true; left > 0 && t->to < b->n; head = false) {
        t->from = t->to;
        ctr_csv_index(t, b->n, &s->d, CSV_TILE_BYTES);
        choose_rows(t, head);
        for (int i = 0; i < t->rows && (int)t->record[i] < left; i++)
            for (int c = 0; c < s->d.columns; c++) {
                struct ctr_str cell = ctr_csv_raw(t, &s->d, t->row_start[i], t->first[i], c);
                const struct csv_dialect d = dialect_of(s, c);
                bool quoted, null = true;
                int rc = s->columns.c[c].typed ? 0 : ctr_csv_cell(t, &d, &cell, &quoted, &null, err);
                if (rc)
                    return rc;
                if (null)
                    continue;
                ctr_csv_see(&d, &infer[c], cell);
                ctr_csv_words_see(&words[c], &d, cell);
            }
        left -= t->records;
    }
    return 0;
}

/* What logs write where a number is missing: no name of a column. */
static bool stands_for_nothing(struct ctr_str s)
{
    static const char *const words[] = { "na", "n/a",  "nan", "null",     "none",      "nil",       "\\n", "-",
                                         "?",  "#n/a", "inf", "infinity", "-infinity", "undefined", "-inf" };
    for (size_t i = 0; i < CTR_COUNT(words); i++)
        if (strlen(words[i]) == s.n && !strncasecmp(words[i], s.p, s.n))
            return true;
    return false;
}

/* Are the names of a first record distinct? */
static bool distinct(const struct ctr_strs *names)
{
    for (int i = 0; i < names->n; i++)
        if (ctr_strs_find(names, names->s[i]) != i)
            return false;
    return true;
}

/* A word as programs name columns by. */
static bool is_identifier(const char *s)
{
    const char *p = s;
    while ((unsigned char)*p >= 0x80 || (*p && strchr("_.-", *p)) || (*p >= '0' && *p <= '9') ||
           ((*p | 32) >= 'a' && (*p | 32) <= 'z'))
        p++;
    return *s && !*p;
}

/* Is the first record, whose cells these are, a header over texts? They are words that no later record has in its
 * column, where values do come again. */
static int names_texts(const struct csv *s, const struct ctr_strs *cells, struct csv_tile *t, size_t n, bool *is,
                       struct ctr_err *err)
{
    enum { KEPT = 16 };
    uint64_t(*seen)[KEPT] = calloc((size_t)cells->n + 1, sizeof *seen);
    bool again = false, first = false;
    int rows = 0;
    *is = false;
    if (!seen)
        return ctr_fail_nomem(err, ((size_t)cells->n + 1) * sizeof *seen);
    for (int c = 0; c < cells->n; c++)
        first |= !is_identifier(cells->s[c]);
    t->to = 0;
    for (bool head = true; !first && rows < CTR_SAMPLE_ROWS && t->to < n; head = false) {
        t->from = t->to;
        ctr_csv_index(t, n, &s->d, CSV_TILE_BYTES);
        choose_rows(t, head);
        for (int i = 0; i < t->rows; i++, rows++)
            for (int c = 0; c < cells->n; c++) {
                struct ctr_str cell = ctr_csv_raw(t, &s->d, t->row_start[i], t->first[i], c);
                bool quoted;
                int rc = ctr_csv_unquote(t, &s->d, &cell, &quoted, err);
                if (rc) {
                    free(seen);
                    return rc;
                }
                const uint64_t hash = ctr_xxh64(cell.p, cell.n) | 1;
                first |= cell.n == strlen(cells->s[c]) && !memcmp(cell.p, cells->s[c], cell.n);
                for (int k = 0; k < KEPT; k++)
                    again |= cell.n && seen[c][k] == hash;
                seen[c][rows % KEPT] = hash;
            }
    }
    free(seen);
    *is = again && !first && cells->n > 1;
    return 0;
}

/* Add the first record, not declared a header, to the sample. If it is text (or empty) in every column, and a text
 * stands above numbers, it may be one: 1, if nothing else names the columns. Where it may be one and is taken as data,
 * *noted is set. */
static int infer_first(const struct csv *s, const struct ctr_text_opts *o, struct csv_tile *t, size_t n,
                       struct ctr_infer *infer, struct csv_words *words, bool *noted, struct ctr_err *err)
{
    bool names = true, empty = false, other = false, text = true;
    struct ctr_strs cells = { 0 };
    struct csv_look first = { 0 };
    t->from = t->to = 0;
    ctr_csv_index(t, n, &s->d, 1);
    choose_rows(t, 0);
    for (int c = 0; t->rows && c < s->d.columns; c++) {
        struct ctr_str cell = ctr_csv_raw(t, &s->d, t->row_start[0], t->first[0], c);
        struct ctr_infer alone = { 0 };
        enum ctr_type rest = ctr_infer_type(&infer[c]);
        const struct csv_dialect d = dialect_of(s, c);
        char unnamed[16];
        bool quoted, null;
        int rc = ctr_csv_cell(t, &d, &cell, &quoted, &null, err);
        const struct ctr_str name = header_name(cell, c, unnamed, sizeof unnamed);
        if (!rc)
            rc = ctr_strs_add(&cells, name.p, name.n, err);
        if (rc) {
            ctr_strs_free(&cells);
            return rc;
        }
        ctr_csv_see(&d, &alone, cell);
        empty |= !cell.n;
        names &= !cell.n || (!null && ctr_infer_type(&alone) == CTR_UTF8 && !stands_for_nothing(cell));
        text &= !s->columns.c[c].typed || s->columns.c[c].type.type == CTR_UTF8;
        other |=
            cell.n && infer[c].values &&
            (ctr_type_number(rest) || rest == CTR_BOOL || rest == CTR_TIME); /* columns with a given type have none */
        if (s->columns.c[c].typed || null)
            continue;
        ctr_csv_see(&d, &infer[c], cell);
        ctr_csv_words_see(&words[c], &d, cell);
    }
    const bool unnamed = distinct(&cells) && !o->columns && !o->like, alone = unnamed && !o->in_plan;
    bool over_texts = false;
    int rc = t->rows ? look(s, t, t->row_start[0], t->first[0], s->d.columns, &first, err) : 0;
    names &= !empty || first.named;
    if (!rc && t->rows && names && !other && !empty && !first.same && unnamed)
        rc = names_texts(s, &cells, t, n, &over_texts, err);
    ctr_strs_free(&cells);
    if (rc)
        return rc;
    if (over_texts)
        ctr_text_note(o, "line 1 is taken as a row; %s if it names the columns", ctr_text_option(o, "header").s);
    if (t->rows && names && other && first.named && alone)
        return 1;
    *noted = t->rows && ((names && other) || (first.same && text));
    if (*noted)
        ctr_text_note(o, "line 1 looks like the names of the columns; %s may be meant", ctr_text_option(o, "header").s);
    return 0;
}

/* A header without rows: types that were not given are guesses. */
static void note_no_rows(const struct csv *s, const struct ctr_text_opts *o, const struct ctr_text_block *b)
{
    bool known = o->like || b->more || b->n > s->header_n;
    for (int i = 0, typed = 0; !known && i < s->columns.n; i++)
        known = (typed += s->columns.c[i].typed) == s->columns.n;
    if (!known)
        ctr_text_note(o, "%s has no rows: columns without a type are utf8; %s gives types", b->file,
                      o->in_plan ? ctr_text_option(o, "columns").s : "--columns or --like");
}

/* Parse an option --null, [NAME:]STR: the column, or -1 for all, and STR. Names may contain colons: the longest that is
 * a column is used. */
static int null_column(const struct csv *s, const char *text, int *column, struct ctr_str *null, struct ctr_err *err)
{
    const char *colon = strchr(text, ':');
    *column = -1;
    *null = (struct ctr_str){ text, strlen(text) };
    for (const char *p = colon; p; p = strchr(p + 1, ':')) {
        const int c = p == text ? -1 : ctr_text_columns_find(&s->columns, text, (size_t)(p - text));
        if (c < 0 && p != text)
            continue;
        *column = c;
        *null = (struct ctr_str){ p + 1, strlen(p + 1) };
    }
    if (!colon || null->p != text)
        return 0;
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(colon - text), text);
    *column = ctr_text_columns_need(&s->columns, s->o->in_plan ? "null=\"NAME:STR\"" : "--null NAME:STR", name, err);
    ctr_err_add(err, "; a text with a colon, for all columns, is %s", ctr_text_setting(s->o, "null", ":%.80s", text).s);
    return *column;
}

/* Set the texts of --null: first those for all columns; a column with its own texts has both. Without any, the empty
 * cell is null. */
static int set_nulls(struct csv *s, const struct ctr_strs *nulls, struct ctr_err *err)
{
    const int n = nulls ? nulls->n : 0;
    struct ctr_str *text = calloc((size_t)n + 1, sizeof *text);
    int *column = calloc((size_t)n + 1, sizeof *column), all = 0, used = 0, rc = 0;
    s->nulls = calloc((size_t)s->columns.n + 1, sizeof *s->nulls);
    s->null = calloc(((size_t)n + 1) * ((size_t)n + 1), sizeof *s->null);
    if (!text || !column || !s->nulls || !s->null)
        rc = ctr_fail_nomem(err,
                            ((size_t)n + 1) * ((size_t)n + 1) * sizeof *text + (size_t)s->columns.n * sizeof *s->nulls);
    for (int i = 0; !rc && i < n; i++)
        rc = CTR_MIN(null_column(s, nulls->s[i], &column[i], &text[i], err), 0);
    for (int i = 0; !rc && i < n; i++)
        if (column[i] < 0)
            s->null[all++] = text[i];
    used = CTR_MAX(all, 1);
    for (int c = 0; !rc && c < s->columns.n; c++)
        s->nulls[c].n = all;
    for (int i = 0; !rc && i < n; i++) { /* the first text of a column adds the common ones */
        struct csv_nulls *own = column[i] < 0 ? NULL : &s->nulls[column[i]];
        if (!own || own->from)
            continue;
        own->from = used;
        for (int k = i; k < n; k++)
            if (column[k] == column[i])
                s->null[used++] = text[k];
        memcpy(s->null + used, s->null, (size_t)all * sizeof *s->null);
        used += all;
        own->n = used - own->from;
    }
    free(text);
    free(column);
    return rc;
}

static int check_delimiter(const struct csv_dialect *d, const struct ctr_text_opts *o, struct ctr_err *err)
{
    if (!d->delimiter_n || d->delimiter_n > 16 || memchr(d->delimiter, '\n', d->delimiter_n) ||
        memchr(d->delimiter, '\r', d->delimiter_n) || memchr(d->delimiter, '"', d->delimiter_n) ||
        !ctr_utf8_valid((const uint8_t *)d->delimiter, d->delimiter_n))
        return ctr_fail(err, CTR_EUSAGE, "%s wants 1 to 16 bytes of UTF-8 without quotes and newlines",
                        ctr_text_option(o, "delimiter").s);
    if (o->escape && (strlen(o->escape) != 1 || strchr("\n\r", *o->escape) || *o->escape == *d->delimiter))
        return ctr_fail(err, CTR_EUSAGE, "%s wants one byte that is no delimiter and no line end",
                        ctr_text_option(o, "escape").s);
    if (o->comment && (!*o->comment || strlen(o->comment) > 16 || strpbrk(o->comment, "\n\r\"")))
        return ctr_fail(err, CTR_EUSAGE, "%s wants 1 to 16 bytes without quotes and line ends",
                        ctr_text_option(o, "comment").s);
    const struct {
        const char *name, *text;
    } signs[] = { { "decimal", o->decimal }, { "thousands", o->thousands } };
    for (size_t i = 0; i < CTR_COUNT(signs); i++)
        if (signs[i].text &&
            (!*signs[i].text || strlen(signs[i].text) > 4 || strpbrk(signs[i].text, "0123456789+-eE\n\r")))
            return ctr_fail(err, CTR_EUSAGE, "%s wants a sign such as a comma or a point",
                            ctr_text_option(o, signs[i].name).s);
    if (o->thousands && !strcmp(o->thousands, o->decimal ? o->decimal : "."))
        return ctr_fail(err, CTR_EUSAGE, "%s is the decimal sign as well: %s names that",
                        ctr_text_option(o, "thousands").s, ctr_text_option(o, "decimal").s);
    return 0;
}

/* The block without leading comments: these come here only where a line that is too long came before. */
static struct ctr_text_block without_comments(const struct csv_dialect *d, const struct ctr_text_block *b)
{
    struct ctr_text_block rest = *b;
    while (ctr_csv_comment(d, rest.p, rest.n)) {
        const char *nl = memchr(rest.p, '\n', rest.n);
        rest.n -= (size_t)(nl + 1 - rest.p);
        rest.p = nl + 1;
        rest.first_line++;
    }
    return rest;
}

/* Texts among numbers, which --null may name. */
static void note_words(const struct csv *s, const struct ctr_text_opts *o, const struct csv_words *words)
{
    for (int c = 0; c < s->columns.n; c++)
        if (s->columns.c[c].out >= 0 && s->columns.c[c].inferred && s->columns.c[c].type.type == CTR_UTF8)
            ctr_csv_words_note(&words[c], o, s->columns.c[c].name);
}

/* 1: line 1 holds the names of the columns, though no option says so. */
static int set_up(struct csv *s, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                  struct ctr_schema *schema, struct ctr_err *err)
{
    const struct ctr_text_block block = without_comments(&s->d, first), *b = &block;
    struct csv_words *words = NULL;
    struct ctr_buf scratch = { 0 }, unquoted = { 0 };
    struct ctr_text_columns given = { 0 };
    struct ctr_infer *infer = NULL;
    bool noted = false;
    struct csv_tile t;
    int rc = check_delimiter(&s->d, o, err);
    if (!rc && o->columns)
        rc = ctr_text_columns_parse(&given, o, err);
    s->d.columns = CSV_MAX_COLUMNS;
    if (!rc)
        rc = tile_init(&t, &s->d, b, &scratch, &unquoted, err);
    if (!rc && b->n) {
        note_line_ends(o, b);
        rc = count_cells(s, b, &t, err);
    }
    if (!rc && s->header && b->n) {
        rc = read_header(s, b, &t, err);
        if (!rc)
            note_delimiter(o, &s->d, &t);
        if (!rc && given.n)
            rc = apply_names(s, &given, o, err);
    } else if (!rc) {
        rc = name_columns(s, &given, o, b, &t, err);
    }
    if (!rc)
        rc = set_nulls(s, o->nulls, err);
    if (!rc && (!(infer = calloc((size_t)s->d.columns + 1, sizeof *infer)) ||
                !(words = calloc((size_t)s->d.columns + 1, sizeof *words))))
        rc = ctr_fail_nomem(err, ((size_t)s->d.columns + 1) * (sizeof *infer + sizeof *words));
    if (!rc && b->n)
        rc = infer_types(s, b, &t, infer, words, err);
    for (int c = 0; !rc && b->n && c < s->d.columns; c++)
        s->columns.c[c].blank = !s->columns.c[c].typed && !infer[c].values;
    if (!rc && s->header && b->n)
        note_no_rows(s, o, b);
    if (!rc && b->n && !s->header)
        rc = infer_first(s, o, &t, b->n, infer, words, &noted, err);
    if (!rc)
        rc = ctr_text_schema(&s->columns, infer, o, schema, err);
    if (!rc && !o->like && !noted) /* the words of a header are no nulls */
        note_words(s, o, words);
    free(infer);
    free(words);
    ctr_text_columns_free(&given);
    ctr_buf_free(&scratch);
    ctr_buf_free(&unquoted);
    return rc;
}

static int csv_setup(struct csv *s, const struct ctr_text_opts *o, const struct ctr_text_block *b,
                     struct ctr_schema *schema, struct ctr_err *err)
{
    int rc = set_up(s, o, b, schema, err);

    if (rc <= 0)
        return rc;
    ctr_text_columns_free(&s->columns);
    free(s->nulls);
    free(s->null);
    s->nulls = NULL;
    s->null = NULL;
    s->header = true;
    ctr_text_note(o, "line 1 holds the names of the columns, as --header says; if it is data, --columns names them");
    return set_up(s, o, b, schema, err);
}

static int csv_open(void **state, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                    struct ctr_schema *schema, struct ctr_err *err)
{
    struct csv *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    const char *delimiter = o->delimiter ? o->delimiter : o->format->delimiter;
    s->header = o->header;
    s->d = (struct csv_dialect){ .delimiter = delimiter, .delimiter_n = (uint32_t)strlen(delimiter) };
    s->d.quoted = o->format->quoted && s->d.delimiter_n == 1;
    s->d.escape = o->escape && strcmp(o->escape, "\"") != 0 ? *o->escape : 0; /* two quotes are one in any case */
    s->d.letters = !o->format->quoted;
    s->d.trim = o->trim;
    s->d.comment = o->comment;
    s->d.decimal = o->decimal;
    s->d.thousands = o->thousands;
    s->o = o;
    int rc = csv_setup(s, o, first, schema, err);
    if (rc) {
        csv_close(s);
        return rc;
    }
    *state = s;
    return 0;
}

/* ---- parsing ---- */

static int report(const struct csv *s, struct csv_tile *t, struct ctr_text_job *j, int r, int64_t line, int64_t rows,
                  struct ctr_err *err)
{
    const struct ctr_text_record record = { t->p + t->start[r], t->start[r + 1] - t->start[r], line, rows };
    int status = t->status[r];
    struct csv_look first = { 0 };
    if (!s->header && j->block.file_start && !t->start[r] && (status > 0 || status == CSV_COUNT)) {
        const int cells = (int)CTR_MIN(t->cells[r], (uint32_t)s->d.columns);
        int rc = look(s, t, t->start[r], t->record_first[r], cells, &first, err);
        if (rc)
            return rc;
    }
    const char *named = !first.named    ? ""
                        : j->o->in_plan ? "; the line looks like the names of the columns, and header=true may be meant"
                                        : "; the line looks like the names of the columns, and --header may be meant";
    if (status == CSV_COUNT && t->cells[r] == 1 && (record.n == 1 || (record.n == 2 && *record.p == '\r')))
        return ctr_job_bad(j, &record, err, "an empty line where there should be %d columns; %s leaves it out",
                           s->d.columns, ctr_text_setting(j->o, "bad-rows", "skip=MAX").s);
    if (status == CSV_COUNT)
        return ctr_job_bad(j, &record, err, "%u column%s where there should be %d%s; %s settles it", t->cells[r],
                           t->cells[r] == 1 ? "" : "s", s->d.columns, named, ctr_text_option(j->o, "bad-rows").s);
    if (status == CSV_OPEN_QUOTE)
        return ctr_job_bad(j, &record, err, "a quote is not closed; %s takes quotes as they are",
                           ctr_text_setting(j->o, "format", "tsv").s);
    if (status == CSV_AFTER_QUOTE)
        return ctr_job_bad(j, &record, err, "text follows a closing quote; %s takes quotes as they are",
                           ctr_text_setting(j->o, "format", "tsv").s);
    struct ctr_str cell = ctr_csv_raw(t, &s->d, t->start[r], t->record_first[r], status - 1);
    bool quoted;
    int rc = ctr_csv_unquote(t, &s->d, &cell, &quoted, err);
    struct csv_number x; /* the remedy is for the number as it is read */
    if (!rc && (s->d.decimal || s->d.thousands) && s->columns.c[status - 1].type.type != CTR_UTF8 &&
        ctr_csv_number(&s->d, cell, &x))
        cell = (struct ctr_str){ x.text, x.n };
    j->hint = named;
    return rc ? rc : ctr_job_bad_cell(j, &record, &s->columns.c[status - 1], cell, err);
}

static int append_columns(const struct csv *s, struct csv_tile *t, struct ctr_text_job *j, struct ctr_err *err)
{
    for (int c = 0; c < s->columns.n; c++) {
        const struct ctr_text_column *column = &s->columns.c[c];
        const struct csv_dialect d = dialect_of(s, c);
        int rc = column->out < 0 ? 0 : ctr_csv_column(t, &d, column, c, &j->out.col[column->out], err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Parse the records of a tile from `skip` on. *line is the line number at *counted, an offset in the block. */
static int parse_tile(const struct csv *s, struct csv_tile *t, int skip, struct ctr_text_job *j, uint32_t *counted,
                      int64_t *line, struct ctr_err *err)
{
    int64_t before = ctr_batchbuf_rows(&j->out), good = 0;
    choose_rows(t, skip);
    int rc = append_columns(s, t, j, err);
    if (rc)
        return rc;
    int tried = t->rows;
    choose_rows(t, skip);
    if (t->rows < tried) {
        ctr_job_rewind(j, before);
        if ((rc = append_columns(s, t, j, err)))
            return rc;
    }
    ctr_job_settle(j);
    if (t->rows == t->records - skip)
        return 0;
    for (int r = skip; r < t->records; r++) {
        if (t->status[r] == CSV_GOOD || t->status[r] == CSV_COMMENT) {
            good += t->status[r] == CSV_GOOD;
            j->comments += t->status[r] == CSV_COMMENT;
            continue;
        }
        *line += ctr_count_byte(t->p + *counted, t->start[r] - *counted, '\n');
        *counted = t->start[r];
        if ((rc = report(s, t, j, r, *line, before + good, err)))
            return rc;
    }
    return 0;
}

static int check_header(const struct csv *s, const struct csv_tile *t, const struct ctr_text_block *b,
                        struct ctr_err *err)
{
    size_t n = t->start[1] - t->start[0], m = s->header_n;
    const char *p = b->p + t->start[0];
    while (n && (p[n - 1] == '\n' || p[n - 1] == '\r'))
        n--;
    while (m && (s->header_line[m - 1] == '\n' || s->header_line[m - 1] == '\r'))
        m--;
    if (n == m && !memcmp(p, s->header_line, n))
        return 0;
    ctr_err_file(err, b->file);
    return ctr_fail(err, CTR_EDATA, "line %lld: the header differs from that of %s; import them one by one",
                    (long long)b->first_line, s->header_file);
}

static int csv_parse(const void *state, struct ctr_text_job *j, struct ctr_err *err)
{
    const struct csv *s = state;
    const struct ctr_text_block *b = &j->block;
    struct csv_tile t;
    int64_t line = b->first_line;
    uint32_t counted = 0;
    int rc = tile_init(&t, &s->d, b, &j->scratch, &j->scratch2, err);
    t.job = j;
    for (bool head = s->header && b->file_start; !rc && t.to < b->n; head = false) {
        t.from = t.to;
        ctr_csv_index(&t, b->n, &s->d, CSV_TILE_BYTES);
        if (head)
            rc = check_header(s, &t, b, err);
        if (!rc)
            rc = parse_tile(s, &t, head, j, &counted, &line, err);
    }
    return rc;
}

static const char *csv_header(const void *state, size_t *n)
{
    const struct csv *s = state;
    *n = s->header_n;
    return s->header_line;
}

static bool csv_known(const void *state)
{
    const struct csv *s = state;
    for (int i = 0; i < s->columns.n; i++)
        if (s->columns.c[i].out >= 0 && !s->columns.c[i].typed)
            return false;
    return true;
}

const struct ctr_text_format ctr_text_csv = {
    .name = "csv",
    .suffix = ".csv",
    .honours =
        CTR_TEXT_HEADER | CTR_TEXT_DELIMITER | CTR_TEXT_NULL | CTR_TEXT_COLUMNS | CTR_TEXT_FOR | CTR_TEXT_DIALECT,
    .delimiter = ",",
    .quoted = true,
    .open = csv_open,
    .parse = csv_parse,
    .close = csv_close,
    .header = csv_header,
    .known = csv_known,
};

const struct ctr_text_format ctr_text_tsv = {
    .name = "tsv",
    .suffix = ".tsv",
    .honours =
        CTR_TEXT_HEADER | CTR_TEXT_DELIMITER | CTR_TEXT_NULL | CTR_TEXT_COLUMNS | CTR_TEXT_FOR | CTR_TEXT_DIALECT,
    .delimiter = "\t",
    .open = csv_open,
    .parse = csv_parse,
    .close = csv_close,
    .header = csv_header,
    .known = csv_known,
};
