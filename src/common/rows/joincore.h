/* SPDX-License-Identifier: Apache-2.0
 *
 * joincore: shared by the join methods. A method takes a left batch and gives, row by row, its matching right rows;
 * join.c has options, schemas and the output batch.
 */
#ifndef CTR_JOINCORE_H
#define CTR_JOINCORE_H

#include "common/rows/relation.h"
#include "common/rows/relkey.h"
#include "common/rows/roworder.h"

/* The right rows in memory with an index by key. Built once, then read-only. */
struct ctr_jointable {
    struct ctr_rowformat *format; /* tagged; borrowed */
    const struct ctr_keypair *pair;
    int npairs, time_col; /* -1: no time */
    bool grouped;         /* several rows per key: tags become group numbers, in order of first appearance */
                          /* (ctr_jointable_group: the highest bit of a tag is the mark) */
    struct ctr_rowarena arena;
    struct ctr_buf hash; /* uint64_t per row, in order; build frees it */
    int64_t rows;
    uint32_t widest;      /* bytes of the longest row */
    struct ctr_buf slots; /* in huge pages when large: accesses are random */
    uint64_t *slot;       /* 0: empty; else 16 bits of the hash and 48 of the address of the first row of a key */
    uint64_t mask;
    struct ctr_buf start;       /* int64_t per group plus one: first row of each group */
    const uint8_t **group_rows; /* grouped by key, in order (with a time: sorted by it, stable) */
    int64_t *group_time;
};

/* Both sides in partitions on disk: joinspill.c, joinblocks.c. */
struct ctr_joinpair {
    struct ctr_spill left, right;
    int level;
};

/* joingroup.c: the right rows of a key, in the temporary file `groups`. */
struct ctr_joingroup {
    int64_t from, bytes, rows; /* bytes 0: none */
};

struct ctr_joinheads { /* reads groups from right rows sorted by key */
    struct ctr_merge *merge;
    struct ctr_rowref ref[CTR_ROW_TILE];
    int i, n;
    int64_t at, end;    /* in the file */
    int64_t bytes;      /* of the first rows in the table */
    struct ctr_buf key; /* the first row of the current group; empty: none */
};

struct ctr_joinwindow { /* a part of `groups` in memory */
    struct ctr_buf buf;
    int64_t from, next; /* next: position in the current group; 0: at its start */
};

struct ctr_joinpart {
    struct ctr_rowformat lformat, oformat; /* tagged: number of the left row */
    struct ctr_schema oplain;
    struct ctr_roworder order; /* by tag */
    struct ctr_joinpair *pair; /* a stack; the input is partitioned into the first ones */
    int n;
    size_t buf_bytes;
    struct ctr_rowarena scratch;
    int64_t left_rows;
    struct ctr_batchbuf lrows; /* left rows of a partition, by column */
    struct ctr_batchbuf rkeys; /* right keys, for hashing */
    uint64_t *tag;
    struct ctr_spill result;
    struct ctr_merge *merge;
    struct ctr_rowref ref[CTR_ROW_TILE]; /* the next results: [at, have) */
    int at, have;
    struct ctr_batchbuf out;
    /* with --multi */
    struct ctr_spill groups;
    struct ctr_buf group; /* struct ctr_joingroup per group of the table */
    struct ctr_joinheads heads;
    struct ctr_joinwindow window;
    /* while a partition is joined in blocks */
    struct ctr_buf seen; /* one bit per left row: it has matched */
    int64_t seen_row;    /* the next left row */
    bool last;           /* the pass that outputs unmatched rows */
    int64_t load_rows;   /* of a run, ctr_joinpart_load takes so many; 0: all */
};

struct ctr_joinmerge; /* joinmerge.c */

/* A thread's part of the rows of a batch: a run of whole tiles. */
struct ctr_joinshare {
    int64_t from, to;
    int64_t matched;     /* of its rows; */
    struct ctr_buf seen; /* a bit per right row: it has matched one of this share's, of any batch. Empty: see direct */
    struct ctr_colbuf *rout; /* the right columns of its rows; the first share uses those of the join */
    struct ctr_err err;
    int rc;
};

struct ctr_join {
    struct ctr_join_opts opts;
    enum ctr_join_kind once_kind; /* with opts.once: of the result; opts.kind is LEFT instead of ANTI */
    char right_name[256];
    struct ctr_schema left, right, out; /* right: projected, without dictionaries */
    struct ctr_schema left_plain;       /* left without dictionaries, for stored rows */
    struct ctr_batch_source from;       /* the right side */
    struct ctr_keypair *pair;
    int npairs, ltime, rtime; /* -1: none */
    int *right_key, *left_key;
    int *rcol, nr; /* right columns of the output, in its order */
    struct ctr_rowformat format;
    struct ctr_jointable table;
    struct ctr_joinpart *part;
    struct ctr_joinmerge *merge;
    struct ctr_pool *pool; /* NULL: one thread */
    struct ctr_joinshare *share;
    int shares;
    int64_t budget;
    int64_t part_bytes; /* about so many bytes of an output batch */

    /* the current left batch and its matches */
    const struct ctr_batch *b;
    bool direct;      /* each left row is output once, in order: right columns are read as soon as matches are found */
    int64_t pos, sub; /* next row, and number of its matches already output */
    uint64_t *hash;
    uint8_t *null;
    const uint8_t **head; /* matched row (of a group: its first), or NULL */
    uint8_t *skip;        /* one byte per row: leave it out; NULL: none */
    int64_t cap;

    /* the output batch */
    struct ctr_batchbuf lout;
    struct ctr_colbuf *rout;
    struct ctr_col *views;
    struct ctr_batch batch;
    int64_t *lidx;
    const uint8_t **rows;
    int64_t n, out_cap;
    struct ctr_join_stats stats;
    char first[2][160];                /* keys of the first left and right row */
    struct ctr_joinsuspects *suspects; /* NULL: no key is a text */
    char suspect[600];
};

/* jointable.c */
static inline uint64_t ctr_jointable_group(const uint8_t *row)
{
    return ctr_row_tag(row) & UINT64_MAX >> 1;
}
void ctr_jointable_init(struct ctr_jointable *t, struct ctr_join *j);
void ctr_jointable_free(struct ctr_jointable *t);
int64_t ctr_jointable_bytes(const struct ctr_jointable *t, int64_t more_rows); /* once built */
int ctr_jointable_add(struct ctr_jointable *t, const struct ctr_col *cols, const uint64_t *hash, const int64_t *idx,
                      int n, const uint64_t *tags, struct ctr_err *err) CTR_MUST;
int ctr_jointable_add_row(struct ctr_jointable *t, const uint8_t *row, uint64_t hash, struct ctr_err *err) CTR_MUST;
int ctr_jointable_build(struct ctr_jointable *t, const struct ctr_join *j, struct ctr_err *err) CTR_MUST;
/* Look up n <= CTR_ROW_TILE rows of a batch, in three steps, before each of which the memory has time to bring what the
 * one before asked for: slots; head[i] = the row that may match row i, or the first of its group; is it that, rows
 * [first, first + n) of b say, or which one is? */
void ctr_jointable_ask(const struct ctr_jointable *t, const uint64_t *hash, int n);
void ctr_jointable_find(const struct ctr_jointable *t, const uint64_t *hash, const uint8_t *null, int n,
                        const uint8_t **head);
void ctr_jointable_verify(const struct ctr_jointable *t, const struct ctr_batch *b, int64_t first, int n,
                          const uint64_t *hash, const uint8_t **head);
/* Of a table of groups: mark matched right rows, each row or, without a time, the first of its group. */
int64_t ctr_jointable_mark(const uint8_t *const *row, int64_t n);
int64_t ctr_jointable_unmatched(const struct ctr_jointable *t);
/* With a time: the row of the group for a left time, or NULL. */
const uint8_t *ctr_jointable_at(const struct ctr_jointable *t, const struct ctr_join_opts *o, const uint8_t *head,
                                int64_t time);

/* How a right side is made whose keys are different, for messages. */
static inline const char *ctr_join_first_alone(bool in_plan)
{
    return ctr_words(in_plan, "ctr-sort --unique keeps the first",
                     "VIEW=FILE of ctr-sort --unique has the first alone");
}

/* join.c, for the other files */
int ctr_join_reserve(struct ctr_join *j, int64_t rows, struct ctr_err *err) CTR_MUST;     /* hash, null, head */
int ctr_join_out_reserve(struct ctr_join *j, int64_t rows, struct ctr_err *err) CTR_MUST; /* lidx, rows */
int ctr_join_match(struct ctr_join *j, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_join_table_next(struct ctr_join *j, const struct ctr_batch **out, struct ctr_err *err) CTR_MUST;
int64_t ctr_join_left_bytes(const struct ctr_join *j, int64_t from, int64_t n); /* of rows of the left batch */
void ctr_join_clear_out(struct ctr_join *j);
int ctr_join_emit(struct ctr_join *j, const struct ctr_batch *b, const struct ctr_batch **out,
                  struct ctr_err *err) CTR_MUST;

/* joinsuspect.c: texts of keys, for the message of a join without any match */
int ctr_joinsuspects_new(struct ctr_join *j, struct ctr_err *err) CTR_MUST;
int ctr_joinsuspects_keep(struct ctr_join *j, const struct ctr_batch *b, bool right, struct ctr_err *err) CTR_MUST;
void ctr_joinsuspects_free(struct ctr_joinsuspects *s, int keys);

/* joinonce.c: right rows that one left row keeps */
int ctr_join_number(struct ctr_batch_source *right, struct ctr_err *err) CTR_MUST; /* a last column: their numbers */
int ctr_join_once_source(struct ctr_batch_source *s, struct ctr_join *j, struct ctr_err *err) CTR_MUST;

/* joinspill.c: both sides in partitions on disk */
int ctr_joinpart_new(struct ctr_join *j, struct ctr_err *err) CTR_MUST; /* takes the table's rows */
int ctr_joinpart_right(struct ctr_join *j, const struct ctr_batch *b, int64_t first_row, struct ctr_err *err) CTR_MUST;
int ctr_joinpart_left(struct ctr_join *j, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_joinpart_finish(struct ctr_join *j, struct ctr_err *err) CTR_MUST;
int ctr_joinpart_next(struct ctr_join *j, const struct ctr_batch **out, struct ctr_err *err) CTR_MUST;
void ctr_joinpart_free(struct ctr_joinpart *p);
int ctr_joinpart_open_run(struct ctr_joinpart *p, const struct ctr_spill *s, int run, struct ctr_merge **m,
                          struct ctr_err *err) CTR_MUST;
int ctr_joinpart_hash(struct ctr_join *j, bool right, const uint8_t *const *rows, int n, uint64_t *hash,
                      struct ctr_err *err) CTR_MUST;
int64_t ctr_joinpart_need(const struct ctr_join *j, int64_t bytes,
                          int64_t rows); /* memory needed for so much of the right side */
int ctr_joinpart_load(struct ctr_join *j, const struct ctr_spill *right, int run, struct ctr_err *err) CTR_MUST;
int ctr_joinpart_left_run(struct ctr_join *j, const struct ctr_spill *left, struct ctr_err *err) CTR_MUST;

/* joinblocks.c: block by block, a partition whose right rows do not fit because few keys have many rows */
int ctr_joinblocks(struct ctr_join *j, const struct ctr_spill *left, const struct ctr_spill *right,
                   struct ctr_err *err) CTR_MUST;
void ctr_joinblocks_matched(struct ctr_join *j);

/* joingroup.c: groups of right rows on disk, and results that reference them */
struct ctr_joingroup ctr_joingroup_of(const struct ctr_joinpart *p, const uint8_t *head);
int ctr_joingroup_keep(struct ctr_join *j, struct ctr_err *err) CTR_MUST; /* save those of the table */
int ctr_joingroup_open(struct ctr_join *j, struct ctr_err *err) CTR_MUST; /* the last run of groups, sorted by key */
bool ctr_joingroup_more(const struct ctr_joinpart *p);
int ctr_joingroup_load(struct ctr_join *j,
                       struct ctr_err *err) CTR_MUST; /* load first rows of groups into the table until it is full */
void ctr_joingroup_close(struct ctr_joinpart *p);
int64_t ctr_joingroup_matched(const struct ctr_join *j);
/* Up to max output rows, at least one, from a result with a group, whose bytes are taken from *room; window.next is 0
 * after the last. */
int ctr_joingroup_expand(struct ctr_join *j, const uint8_t *result, const struct ctr_joingroup *g, int max,
                         int64_t *room, struct ctr_err *err) CTR_MUST;

/* joinmerge.c: sides sorted by the keys, and row by row */
int ctr_joinmerge_new(struct ctr_join *j, struct ctr_err *err) CTR_MUST;
int ctr_joinmerge_next(struct ctr_join *j, const struct ctr_batch **out, struct ctr_err *err) CTR_MUST;
int ctr_joinmerge_finish(struct ctr_join *j, struct ctr_err *err) CTR_MUST;
int ctr_joinrow_next(struct ctr_join *j, const struct ctr_batch **out, struct ctr_err *err) CTR_MUST;
int ctr_joinrow_finish(struct ctr_join *j, struct ctr_err *err) CTR_MUST;
void ctr_joinmerge_free(struct ctr_joinmerge *m);

#endif
