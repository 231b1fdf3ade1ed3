/* SPDX-License-Identifier: Apache-2.0
 *
 * jsontree: extracts the values of some paths (user.id, items.0.price) from lines of JSON objects. The paths form a
 * tree; other members are checked and skipped. A line is parsed to its end: values are recorded in place, the last one
 * of a repeated key counts, and an absent one is CTR_JSON_NONE. Private to jsonl.c.
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

/* Add paths between begin, which empties the tree, and end. `column` is the index of the path's value. */
int ctr_json_tree_begin(struct ctr_json_tree *t, struct ctr_err *err) CTR_MUST;
int ctr_json_tree_add(struct ctr_json_tree *t, const char *path, int column, struct ctr_err *err) CTR_MUST;
/* The same for a single name, including dots: the tree serves as a set. Returns 1, or 0 if the name already has a
 * column. */
int ctr_json_tree_name(struct ctr_json_tree *t, const char *name, size_t n, int column, struct ctr_err *err) CTR_MUST;
int ctr_json_tree_end(struct ctr_json_tree *t, struct ctr_err *err) CTR_MUST;
void ctr_json_tree_free(struct ctr_json_tree *t);

/* Arrays of objects: {"items":[{"ad":5},{"ad":6}]} gives the paths below items a list each. A node with members below
 * it gets the slot of an array: the value of index `columns` + slot, if an array stands there. After ctr_json_tree_end.
 */
struct ctr_json_list {
    struct ctr_json_tree tree; /* of an element, with the columns 0 … n-1, which are */
    int *column;               /* … these of the line */
    int n;
};
struct ctr_json_lists {
    struct ctr_json_list *l; /* by slot */
    int n, most;             /* most: columns of one */
};
int ctr_json_lists_make(struct ctr_json_lists *ls, struct ctr_json_tree *t, int columns, struct ctr_err *err) CTR_MUST;
void ctr_json_lists_free(struct ctr_json_lists *ls);

/* The text between the previous value and the value of a member: comma, blanks, key and colon. The same bytes at the
 * same place have the same meaning, and lines of a log are alike. */
#define CTR_JSON_MEMBER_WORDS 5
#define CTR_JSON_MEMBERS      256
struct ctr_json_member {
    uint64_t text[CTR_JSON_MEMBER_WORDS]; /* 0 beyond n */
    uint64_t last;                        /* mask of the last word */
    int n, words;
    int place; /* the object's node, or its complement for its first member */
    int node;  /* the member's node */
};
struct ctr_json_memo {
    int n;
    struct ctr_json_member m[CTR_JSON_MEMBERS];
};

/* One per thread. */
struct ctr_json_walk {
    const struct ctr_json_tree *tree;
    struct ctr_json *value; /* one per column */
    int columns;
    struct ctr_json_memo *memo; /* starts with n == 0; affects only speed */
    struct ctr_buf *scratch;    /* room for the line */
    const char *why;
    bool watch; /* count values that no column takes, except nulls and empty objects: */
    int64_t untaken;
    struct ctr_str first_untaken; /* key of the first one, as in its line */
    /* internal state */
    int at;                  /* the expected member */
    struct ctr_json skipped; /* a value that belongs to no column */
};

/* 1: the values of the line [p, end), which must be followed by a newline; 0: a blank line; -1: invalid, see w->why. */
int ctr_json_line(struct ctr_json_walk *w, const char *p, const char *end);

#endif
