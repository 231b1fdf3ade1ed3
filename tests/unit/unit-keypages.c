/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk by key: random puts and gets beside a plain sorted array; the order and the number of rows; room on disk
 * is reused. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/table/keypages.h"

#include "tap.h"

enum { KEYS = 4000, STATE = 6, MEMORY = 1 << 20, PUTS = 60 };

static char dir[80];
static uint16_t want[2][KEYS]; /* by table and key: what was put last; 0: nothing */

static void must(int rc, const struct ctr_err *err)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err->what);
        exit(1);
    }
}

/* Keys are far apart, so that all their bytes count. */
static uint64_t key_at(int64_t i)
{
    return (uint64_t)i << 50 | 7;
}

static int index_of(const uint8_t *row)
{
    uint64_t key;
    memcpy(&key, row, sizeof key);
    return (int)(key >> 50);
}

static uint16_t value_of(const uint8_t *state)
{
    uint16_t value[3];
    memcpy(value, state, sizeof value);
    return (value[0] ^ value[1]) == UINT16_MAX && value[2] == 9 ? value[0] : 0;
}

struct seen {
    int table, n, right, last;
};

static int see(void *ctx, const uint8_t *row, struct ctr_err *err)
{
    struct seen *s = ctx;
    const int i = index_of(row);
    (void)err;
    s->n++;
    s->right += i > s->last && want[s->table][i] && value_of(row + CTR_KEYPAGES_KEY) == want[s->table][i];
    s->last = i;
    return 0;
}

static int see_page(void *ctx, const uint8_t *rows, int64_t n, uint32_t bytes, struct ctr_err *err)
{
    int rc = bytes == CTR_KEYPAGES_KEY + STATE && n <= CTR_KEYPAGES_MOST_ROWS ? 0 : -1;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = see(ctx, rows + i * bytes, err);
    return rc;
}

/* Put each key of [from, to) with a probability of 1 / every; false: *replaced or the number of rows is wrong. */
static bool put(struct ctr_keypages *p, int table, int from, int to, int every, int64_t *count, struct ctr_err *err)
{
    static struct ctr_numbered place[KEYS];
    static uint16_t state[KEYS][4];
    int64_t replaced = 0, old = 0;
    struct ctr_keypages_rows rows = { place, 0, (const uint8_t *)state, sizeof state[0] };
    for (int i = from; i < to; i++)
        if (rand() % every == 0) {
            const uint16_t value = (uint16_t)(1 + rand() % 60000);
            place[rows.n++] = (struct ctr_numbered){ key_at(i), (uint64_t)i };
            state[i][0] = value;
            state[i][1] = (uint16_t)~value;
            state[i][2] = 9;
            old += want[table][i] != 0;
            want[table][i] = value;
        }
    must(ctr_keypages_put(p, table, &rows, &replaced, err), err);
    count[table] += rows.n - old;
    return replaced == old && ctr_keypages_count(p, table) == count[table];
}

static bool get(struct ctr_keypages *p, int table, int every, struct ctr_err *err)
{
    static struct ctr_numbered key[KEYS];
    struct seen s = { .table = table, .last = -1 };
    int n = 0, there = 0;
    for (int i = 0; i < KEYS; i++)
        if (rand() % every == 0) {
            key[n++] = (struct ctr_numbered){ key_at(i), 0 };
            there += want[table][i] != 0;
        }
    must(ctr_keypages_get(p, table, key, n, see, &s, err), err);
    return s.n == there && s.right == there;
}

static void test_beside_array(void)
{
    struct ctr_err err = { 0 };
    struct ctr_keypages *p = NULL;
    int64_t count[2] = { 0 };
    int puts = 0, gets = 0, whole = 0;
    must(ctr_keypages_open(&p, dir, STATE, MEMORY, &err), &err);
    must(ctr_keypages_bind(p, 2, &err), &err);
    for (int i = 0; i < PUTS; i++) {
        const int table = i % 2, from = rand() % KEYS, to = i % 3 ? KEYS : CTR_MIN(from + 40, KEYS);
        puts += put(p, table, i % 3 == 1 ? 0 : from, to, 1 + rand() % 50, count, &err);
        must(ctr_keypages_settle(p, &err), &err);
        gets += get(p, table, 1 + i % 9, &err) && get(p, !table, 200, &err);
        struct seen s = { .table = table, .last = -1 };
        must(ctr_keypages_each(p, table, see_page, &s, &err), &err);
        whole += s.n == count[table] && s.right == s.n;
    }
    ok(puts == PUTS, "puts replace the rows that were there: %d of %d", puts, (int)PUTS);
    ok(gets == PUTS, "gets find them, and nothing else: %d", gets);
    ok(whole == PUTS, "all rows, in the order of keys: %d", whole);
    ok(ctr_keypages_count(p, -1) == count[0] + count[1], "rows of all tables");
    ctr_keypages_free(p);
}

/* One key of each page is put again and again: the file stays small. */
static void test_room(void)
{
    struct ctr_err err = { 0 };
    struct ctr_keypages *p = NULL;
    int64_t count[2] = { 0 };
    memset(want, 0, sizeof want);
    must(ctr_keypages_open(&p, dir, STATE, 64 << 10, &err), &err);
    must(ctr_keypages_bind(p, 2, &err), &err);
    int good = put(p, 0, 0, KEYS, 1, count, &err);
    for (int i = 0; i < 200; i++) {
        good += put(p, 0, 0, KEYS, 400, count, &err);
        must(ctr_keypages_settle(p, &err), &err);
    }
    const struct ctr_rowfile_moved m = ctr_keypages_moved(p);
    ok(good == 201 && get(p, 0, 1, &err), "%lld MiB written, and all rows are right", (long long)m.written_bytes >> 20);
    ok(ctr_keypages_memory(p) < 64 << 10, "in little memory: %lld bytes", (long long)ctr_keypages_memory(p));
    ctr_keypages_free(p);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.50s/unit-keypages.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return 1;
    srand(5);
    test_beside_array();
    test_room();
    ok(!rmdir(dir), "nothing stays");
    return done_testing();
}
