/* SPDX-License-Identifier: Apache-2.0
 *
 * jsontree: the values of some paths (user.id, items.0.price) in lines of JSON objects. The paths stand in a tree; what
 * is not on a path is checked and skipped without being built. A line is walked to its end: the values are noted where
 * they stand, the last one of a repeated key wins, and an absent one is CTR_JSON_NONE. Private to jsonl.c.
 */
#ifndef CTR_JSONTREE_H
#define CTR_JSONTREE_H

#include "common/text/json.h"

#define CTR_JSON_PATH 32 /* parts of a path */

struct ctr_json_node;
struct ctr_json_tree {
    struct ctr_json_node *node; /* node[0] is the line's object */
    int nodes, cap;
    struct ctr_index index; /* of the nodes by parent and key */
};

/* Paths are added between begin, which empties the tree, and end. `column` is the index of the path's value. */
int ctr_json_tree_begin(struct ctr_json_tree *t, struct ctr_err *err) CTR_MUST;
int ctr_json_tree_add(struct ctr_json_tree *t, const char *path, int column, struct ctr_err *err) CTR_MUST;
/* The same of one name, dots and all: the tree is used as a set. 1, or 0 where it has a column. */
int ctr_json_tree_name(struct ctr_json_tree *t, const char *name, size_t n, int column, struct ctr_err *err) CTR_MUST;
int ctr_json_tree_end(struct ctr_json_tree *t, struct ctr_err *err) CTR_MUST;
void ctr_json_tree_free(struct ctr_json_tree *t);

/* What stood between the value before and the value of a member: comma, blanks, key and colon. The same bytes at the
 * same place mean the same again, and the lines of a log are alike. */
#define CTR_JSON_MEMBER_WORDS 5
#define CTR_JSON_MEMBERS      256
struct ctr_json_member {
    uint64_t text[CTR_JSON_MEMBER_WORDS]; /* 0 beyond n */
    uint64_t last;                        /* mask of the last word */
    int n, words;
    int place; /* the object's node, or its complement for its first member */
    int node;  /* the member's */
};
struct ctr_json_memo {
    int n;
    struct ctr_json_member m[CTR_JSON_MEMBERS];
};

/* One a thread. */
struct ctr_json_walk {
    const struct ctr_json_tree *tree;
    struct ctr_json *value; /* one a column */
    int columns;
    struct ctr_json_memo *memo; /* starts with n == 0; changes speed, never a result */
    struct ctr_buf *scratch;    /* room for the line */
    const char *why;
    bool watch; /* count the values that no column takes, nulls and empty objects aside: */
    int64_t untaken;
    struct ctr_str first_untaken; /* key of the first, as it stands in the line that was walked then */
    /* the walk's own */
    int at;                  /* the member that is expected */
    struct ctr_json skipped; /* what belongs to no column */
};

/* 1: the values of the line [p, end), behind which stands a newline; 0: a blank line, -1: broken, for w->why. */
int ctr_json_line(struct ctr_json_walk *w, const char *p, const char *end);

#endif
