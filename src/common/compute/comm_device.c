/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the ranks' devices, sent from device to device: whether all ranks can, which is the same answer on each,
 * and the swap and the sum of comm.c for it. See comm.h. */
#include "common/compute/comm_impl.h"
#include "common/compute/compute.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- connected or through host memory ---- */

/* What all ranks learn of one: where its device is, or why it cannot be connected. */
struct endpoint {
    char place[128], why[160];
};

/* The machine: containers of one machine have different host names but the same boot id. */
static void machine(char *text, size_t size)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!f || !fgets(text, (int)size, f))
        (void)gethostname(text, size - 1);
    if (f)
        fclose(f);
    text[strcspn(text, "\n")] = 0;
}

static struct endpoint endpoint_of(struct ctr_dev *dev)
{
    const char *wanted = getenv("CTR_NCCL");
    struct endpoint e = { 0 };
    struct ctr_err err = { 0 };
    char where[64] = "", place[CTR_LINK_PLACE] = "";
    if (wanted && !strcmp(wanted, "0"))
        snprintf(e.why, sizeof e.why, "CTR_NCCL=0");
    else if (ctr_dev_link_find(dev, place, &err))
        snprintf(e.why, sizeof e.why, "%.150s", err.what);
    machine(where, sizeof where);
    snprintf(e.place, sizeof e.place, "%s %s", where, place);
    return e;
}

/* Is there a reason to send through host memory? The same on all ranks. */
static bool has_reason(const struct endpoint *w, int n, char *why, size_t size)
{
    for (int r = 0; r < n; r++)
        if (*w[r].why) {
            snprintf(why, size, "through host memory, because of rank %d: %s", r, w[r].why);
            return true;
        }
    for (int r = 0; r < n; r++)
        for (int i = 0; i < r; i++)
            if (!strcmp(w[i].place, w[r].place)) {
                snprintf(why, size, "through host memory, because ranks %d and %d share a GPU", i, r);
                return true;
            }
    return false;
}

static int connect_all(struct ctr_comm *c, struct ctr_dev *dev, struct ctr_err *err)
{
    struct ctr_dev_link link = { .rank = c->rank, .ranks = c->size, .limit_s = ctr_comm_limit_s() };
    int rc = c->rank ? 0 : ctr_dev_link_id(dev, link.id, err);
    if (!rc)
        rc = ctr_comm_broadcast(c, 0, link.id, sizeof link.id, err);
    return rc ? rc : ctr_dev_link(dev, &link, err);
}

int ctr_comm_link(struct ctr_comm *c, struct ctr_dev *dev, char *how, size_t size, struct ctr_err *err)
{
    *how = 0;
    if (!c || c->size == 1)
        return 0;
    const struct endpoint mine = endpoint_of(dev);
    struct endpoint *all = calloc((size_t)c->size, sizeof *all);
    int rc = all ? ctr_comm_gather(c, CTR_COMM_CONTROL, &mine, sizeof mine, c->in, err)
                 : ctr_fail_nomem(err, (size_t)c->size * sizeof *all);
    for (int r = 0; r < c->size && !rc; r++)
        memcpy(&all[r], c->in[r].data, CTR_MIN(sizeof *all, c->in[r].len));
    if (!rc && !has_reason(all, c->size, how, size)) {
        snprintf(how, size, "from GPU to GPU, by NCCL");
        rc = connect_all(c, dev, err);
    }
    free(all);
    return rc;
}

/* ---- the calls ---- */

/* ctr_comm_swap_known between memories of devices. It begins when all ranks have got there, and waits for its end. */
static int swap_mem(struct ctr_comm *c, enum ctr_comm_kind kind, struct ctr_dev *dev, const struct ctr_dev_swap *swap,
                    struct ctr_err *err)
{
    ctr_comm_wait(c);
    for (int r = 0; r < c->size; r++)
        ctr_comm_count(c, kind, r, swap->out_n[r]);
    int rc = ctr_dev_sync(dev, err); /* the limit of the swap is not for what is queued before it */
    if (!rc)
        rc = ctr_comm_barrier(c, err);
    if (!rc)
        rc = ctr_dev_swap(dev, swap, err);
    c->failed |= rc < 0;
    return rc;
}

/* The parts of v by rank, in bytes: where they begin, and how long they are. */
static void parts_of(const struct ctr_comm *c, int64_t at, int64_t n, int64_t *from, int64_t *bytes)
{
    for (int r = 0; r < c->size; r++) {
        const int64_t first = ctr_comm_first(c, n, r);
        from[r] = (at + first) * (int64_t)sizeof(float);
        bytes[r] = (ctr_comm_first(c, n, r + 1) - first) * (int64_t)sizeof(float);
    }
}

/* room: this rank's part as each rank has it, [size x mine]. It becomes the sum, in row 0. */
static int sum_rows(struct ctr_comm *c, struct ctr_dev *dev, struct ctr_mem *room, int64_t mine, struct ctr_err *err)
{
    int rc = 0;
    for (int r = 1; r < c->size && mine && !rc; r++) {
        const struct ctr_dev_axpby add = {
            .a = 1, .b = 1, .x = ctr_mat_at(room, r * mine, 1, mine), .y = ctr_mat(room, 1, mine)
        };
        rc = ctr_dev_axpby(dev, &add, err);
    }
    return rc;
}

int ctr_comm_sum_mem(struct ctr_comm *c, enum ctr_comm_kind kind, struct ctr_dev *dev, struct ctr_mem *v, int64_t at,
                     int64_t n, struct ctr_mem **room, struct ctr_err *err)
{
    const size_t size = (size_t)c->size;
    const int64_t mine = ctr_comm_first(c, n, c->rank + 1) - ctr_comm_first(c, n, c->rank);
    const int64_t bytes = mine * (int64_t)sizeof(float);
    int64_t *number = calloc(5 * size, sizeof *number);
    if (!number)
        return ctr_fail_nomem(err, 5 * size * sizeof *number);
    int64_t *of_v = number, *of_v_n = number + size, *row = number + 2 * size, *row_n = number + 3 * size;
    const int64_t *first = number + 4 * size; /* zeros */
    parts_of(c, at, n, of_v, of_v_n);
    for (int r = 0; r < c->size; r++) {
        row[r] = r * bytes;
        row_n[r] = bytes;
    }
    int rc = ctr_mem_grow(room, dev, size * (size_t)bytes, err);
    const struct ctr_dev_swap parts = { v, *room, of_v, of_v_n, row, row_n },
                              sums = { *room, v, first, row_n, of_v, of_v_n };
    if (!rc)
        rc = swap_mem(c, kind, dev, &parts, err);
    if (!rc)
        rc = sum_rows(c, dev, *room, mine, err);
    if (!rc)
        rc = swap_mem(c, kind, dev, &sums, err);
    free(number);
    return rc;
}
