/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are threads of one process: what they send to each other, sums in the order of ranks, a rank that ends the
 * run or gives no sign of life; and tables whose keys they own, which learn what one rank learns from all minibatches.
 */
#include <math.h>
#include <stdlib.h>

#include "common/table/table.h"

#include "comm_threads.h"
#include "tap.h"

enum { MOST_RANKS = 4, WIDTH = 3, FLOATS = 3 * WIDTH, TABLES = 2, KEYS = 300, BATCHES = 12, MOST = 200 };

static void must(int rc, const struct ctr_err *err)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err->what);
        exit(1);
    }
}

/* fn on every rank at once, each with what is its of `all`. */
struct rank {
    struct ctr_comm *comm;
    void (*fn)(struct rank *r);
    void *of;
    bool good;
    struct ctr_err err;
};

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    r->fn(r);
    ctr_comm_free(r->comm);
    return NULL;
}

static bool run_ranks(int n, double limit_s, void (*fn)(struct rank *r), void *of, struct rank rank[MOST_RANKS])
{
    struct ctr_err err = { 0 };
    struct ctr_comm *comm[MOST_RANKS];
    pthread_t id[MOST_RANKS];
    bool good = true;
    must(ctr_comm_threads(comm, n, limit_s, &err), &err);
    for (int i = 0; i < n; i++) {
        rank[i] = (struct rank){ .comm = comm[i], .fn = fn, .of = of };
        if (ctr_thread_start(&id[i], run_rank, &rank[i]))
            exit(1);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(id[i], NULL);
        good &= rank[i].good;
    }
    return good;
}

/* ---- what they send ---- */

static void send_all(struct rank *r)
{
    const int rank = ctr_comm_rank(r->comm), n = ctr_comm_size(r->comm);
    struct ctr_comm_part out[MOST_RANKS];
    struct ctr_buf in[MOST_RANKS] = { { 0 } };
    char text[MOST_RANKS][1000];
    r->good = true;
    for (int turn = 0; turn < 20; turn++) {
        for (int i = 0; i < n; i++) { /* turn + rank + i letters, none where that is a multiple of 3 */
            const size_t len = (size_t)((turn + rank + i) % 3 ? 10 * turn + 7 * rank + i : 0);
            memset(text[i], 'a' + rank + i, len);
            out[i] = (struct ctr_comm_part){ text[i], len };
        }
        must(ctr_comm_swap(r->comm, CTR_COMM_IDS, out, in, &r->err), &r->err);
        for (int i = 0; i < n; i++) {
            r->good &= in[i].len == (size_t)((turn + rank + i) % 3 ? 10 * turn + 7 * i + rank : 0);
            for (size_t k = 0; k < in[i].len; k++)
                r->good &= in[i].data[k] == 'a' + rank + i;
        }
    }
    must(ctr_comm_gather(r->comm, CTR_COMM_CONTROL, &rank, sizeof rank, in, &r->err), &r->err);
    for (int i = 0; i < n; i++)
        r->good &= in[i].len == sizeof rank && *(int *)(void *)in[i].data == i;
    int word = rank == n - 1 ? 77 : 0;
    must(ctr_comm_broadcast(r->comm, n - 1, &word, sizeof word, &r->err), &r->err);
    int64_t count[2] = { rank, 1 };
    must(ctr_comm_sum_i64(r->comm, count, 2, &r->err), &r->err);
    must(ctr_comm_barrier(r->comm, &r->err), &r->err);
    const struct ctr_comm_bytes *bytes = ctr_comm_bytes(r->comm);
    r->good &= word == 77 && count[0] == n * (n - 1) / 2 && count[1] == n && bytes->all[CTR_COMM_IDS] > 0;
    r->good &= n > 1 ? bytes->away[CTR_COMM_IDS] > 0 : !bytes->away[CTR_COMM_IDS];
    for (int i = 0; i < n; i++)
        ctr_buf_free(&in[i]);
}

/* A float of rank r: sums of them depend on their order. */
static float part(int rank, int i)
{
    return (float)(ctr_random01(5, (uint64_t)rank, (uint64_t)i) - .5) * (float)(rank % 2 ? 1e6 : 1);
}

static void sum_all(struct rank *r)
{
    float v[101];
    const int n = ctr_comm_size(r->comm);
    r->good = true;
    for (int len = 0; len <= 101; len += len < 5 ? 1 : 32) {
        for (int i = 0; i < len; i++)
            v[i] = part(ctr_comm_rank(r->comm), i);
        must(ctr_comm_sum(r->comm, CTR_COMM_SYNC, v, len, &r->err), &r->err);
        for (int i = 0; i < len; i++) {
            float sum = part(0, i);
            for (int k = 1; k < n; k++)
                sum += part(k, i);
            r->good &= v[i] == sum;
        }
    }
}

static void abort_one(struct rank *r)
{
    if (ctr_comm_rank(r->comm) == 1) {
        ctr_comm_abort(r->comm, "no memory");
        r->good = true;
        return;
    }
    const int rc = ctr_comm_barrier(r->comm, &r->err);
    r->good = rc == CTR_ESYS && strstr(r->err.what, "rank 1 ended the run: no memory");
}

static void leave_one(struct rank *r)
{
    r->good = true;
    if (ctr_comm_rank(r->comm) != 1)
        r->good = ctr_comm_barrier(r->comm, &r->err) == CTR_ESYS && strstr(r->err.what, "no sign of life");
}

static void test_comm(void)
{
    struct rank rank[MOST_RANKS];
    for (int n = 1; n <= MOST_RANKS; n++) {
        ok(run_ranks(n, 20, send_all, NULL, rank), "%d ranks send to each other", n);
        ok(run_ranks(n, 20, sum_all, NULL, rank), "%d ranks sum in the order of ranks", n);
    }
    ok(run_ranks(3, 20, abort_one, NULL, rank), "a rank that ends the run: %s", rank[0].err.what);
    ok(run_ranks(3, .2, leave_one, NULL, rank), "a rank that is silent: %s", rank[0].err.what);
    int v[1] = { 3 };
    struct ctr_err err = { 0 };
    struct ctr_buf in = { 0 };
    ok(ctr_comm_size(NULL) == 1 && !ctr_comm_broadcast(NULL, 0, v, sizeof v, &err) &&
           !ctr_comm_gather(NULL, CTR_COMM_IDS, v, sizeof v, &in, &err) && *(int *)(void *)in.data == 3,
       "a run without ranks");
    ctr_buf_free(&in);
}

/* ---- tables that ranks own ---- */

/* What one rank sees, or all. */
struct keys {
    uint64_t hash[TABLES][MOST];
    int64_t n[TABLES];
};

static struct keys keys_of(int number, int rank)
{
    struct keys k = { .n = { 0 } };
    for (int t = 0; t < TABLES; t++) {
        bool seen[KEYS] = { false };
        const int n = (number + rank) % 5 == 4 ? 0 : 40 + 10 * rank; /* sometimes nothing */
        for (uint64_t i = 0; i < (uint64_t)n; i++) {
            const uint64_t key = ctr_random64(9, (uint64_t)(number * MOST_RANKS + rank), (uint64_t)t * 1000 + i) % KEYS;
            if (!seen[key])
                k.hash[t][k.n[t]++] = ctr_key_hash(key + 1);
            seen[key] = true;
        }
    }
    return k;
}

struct net {
    struct ctr_dev *dev;
    struct ctr_embedding table[TABLES];
    struct ctr_source *source;
    struct ctr_mem *grad, *l2;
    int buffer;
    bool announced;
};

static void net_open(struct net *net, struct ctr_comm *comm)
{
    struct ctr_err err = { 0 };
    static const struct ctr_source_ranks_kinds kinds = { CTR_COMM_IDS, CTR_COMM_VECTORS, CTR_COMM_GRADIENTS };
    *net = (struct net){ 0 };
    must(ctr_dev_open(&net->dev, &(struct ctr_dev_want){ .device = "cpu", .threads = 1 }, &err), &err);
    must(ctr_source_ram(&net->source, net->dev, WIDTH, FLOATS, &err), &err);
    for (int t = 0; t < TABLES; t++) {
        ctr_embedding_init(&net->table[t], WIDTH, FLOATS + 1, 77 + (uint64_t)t, .5F);
        must(ctr_source_ram_bind(net->source, t, &net->table[t], &err), &err);
    }
    must(comm ? ctr_source_ranks(&net->source, comm, net->source, FLOATS + 1, &kinds, &err) : 0, &err);
    must(ctr_mem_new(&net->grad, net->dev, MOST_RANKS * TABLES * MOST * WIDTH * sizeof(float), &err), &err);
    must(ctr_mem_new(&net->l2, net->dev, MOST_RANKS * TABLES * MOST * sizeof(float), &err), &err);
}

static void net_free(struct net *net)
{
    ctr_source_free(net->source);
    for (int t = 0; t < TABLES; t++)
        ctr_embedding_free(&net->table[t]);
    ctr_mem_free(net->grad);
    ctr_mem_free(net->l2);
    ctr_dev_free(net->dev);
}

static float *row(struct ctr_mat m, int64_t i)
{
    return (float *)ctr_mem_host(m.mem) + m.at + i * m.stride;
}

/* The gradient of a key on a rank. Multiples of 1/64, so that no sum is rounded. */
static float slope(uint64_t hash, int number, int rank, int j)
{
    return (float)(int)(ctr_random64(hash, (uint64_t)number, (uint64_t)(rank * WIDTH + j)) % 64) / 64 - .4375F;
}

static void begin(struct net *net, const struct keys *k, bool half, int buffer)
{
    struct ctr_err err = { 0 };
    const struct ctr_want_keys keys[TABLES] = { { k->hash[0], half ? k->n[0] / 2 : k->n[0] },
                                                { k->hash[1], half ? 0 : k->n[1] } };
    const struct ctr_want want = { TABLES, keys, true, NULL };
    must(ctr_source_begin(net->source, &want, buffer, &err), &err);
}

/* Learn from k, whose gradients are those of ranks [from, end), in net->buffer. `next`: announced before the push, to
 * be learned from next, so that k was announced too; or NULL. */
static void learn(struct net *net, const struct keys *k, const struct keys *next, int number, int from, int end,
                  bool counts)
{
    struct ctr_err err = { 0 };
    struct ctr_mat values, again;
    const int buffer = net->buffer;
    if (!net->announced) {
        begin(net, k, true, buffer);
        must(ctr_source_values(net->source, buffer, &values, &err), &err);
        begin(net, k, false, buffer);
    }
    must(ctr_source_values(net->source, buffer, &again, &err), &err);
    if (next) {
        begin(net, next, false, !buffer);
        net->buffer = !buffer;
    }
    net->announced = next;
    struct ctr_source_step step = {
        .opt = { .kind = CTR_OPT_ADAM, .rate = .05F, .eps = 1e-8F, .beta1 = .9F, .beta2 = .999F, .step = number + 1 },
        .grad = ctr_mat(net->grad, again.rows, WIDTH),
        .l2_row = counts ? ctr_vec(net->l2, again.rows) : (struct ctr_vec){ 0 }
    };
    for (int t = 0; t < TABLES; t++) {
        int32_t uses[MOST_RANKS * MOST];
        uint32_t total[MOST_RANKS * MOST];
        for (int64_t i = 0; i < k->n[t]; i++) {
            const int64_t at = ctr_source_places(net->source, buffer, t)[i];
            uses[i] = 0;
            memset(row(step.grad, at), 0, WIDTH * sizeof(float));
            for (int r = from; r < end; r++) {
                const struct keys theirs = keys_of(number, r);
                for (int64_t n = 0; n < theirs.n[t]; n++)
                    for (int j = 0; j < WIDTH && theirs.hash[t][n] == k->hash[t][i]; j++) {
                        row(step.grad, at)[j] += slope(k->hash[t][i], number, r, j);
                        uses[i] += !j;
                    }
            }
        }
        if (counts)
            must(ctr_source_count(net->source, buffer, t, uses, total, &err), &err);
        for (int64_t i = 0; i < k->n[t] && counts; i++)
            ((float *)ctr_mem_host(net->l2))[ctr_source_places(net->source, buffer, t)[i]] = .01F / (float)total[i];
    }
    must(ctr_source_push(net->source, buffer, &step, &err), &err);
    ctr_source_drop(net->source, buffer);
}

/* The keys of all ranks. */
static struct keys *keys_of_all(int number, int ranks)
{
    struct {
        struct keys k;
        uint64_t room[TABLES][MOST_RANKS * MOST];
    } *all = calloc(1, sizeof *all);
    if (!all)
        exit(1);
    for (int r = 0; r < ranks; r++) {
        const struct keys theirs = keys_of(number, r);
        for (int t = 0; t < TABLES; t++)
            for (int64_t i = 0; i < theirs.n[t]; i++) {
                int64_t at = 0;
                while (at < all->k.n[t] && all->k.hash[t][at] != theirs.hash[t][i])
                    at++;
                if (at == all->k.n[t] && at < MOST)
                    all->k.hash[t][all->k.n[t]++] = theirs.hash[t][i];
            }
    }
    return &all->k;
}

/* Rows of all tables, as they are saved. */
struct saved {
    int n, first; /* rows; of table 0 */
    uint64_t key[TABLES * KEYS];
    float row[TABLES * KEYS][FLOATS + 1];
};

static int save_row(void *ctx, uint64_t key, const float *r, struct ctr_err *err)
{
    struct saved *s = ctx;
    (void)err;
    s->key[s->n] = key;
    memcpy(s->row[s->n++], r, sizeof s->row[0]);
    return 0;
}

static void save(struct net *net, struct saved *s)
{
    struct ctr_err err = { 0 };
    for (int t = 0; t < TABLES; t++) {
        must(ctr_source_save(net->source, t, save_row, s, &err), &err);
        s->first = t ? s->first : s->n;
    }
}

struct trial {
    bool counts, ahead;
    struct saved saved[MOST_RANKS];
    const struct saved *load; /* rows to begin with */
};

static void train_rank(struct rank *r)
{
    struct trial *t = r->of;
    struct net net;
    const int rank = ctr_comm_rank(r->comm);
    net_open(&net, r->comm);
    for (int i = 0; i < (t->load ? t->load->n : 0); i++)
        must(ctr_source_load(net.source, i >= t->load->first, t->load->key[i], t->load->row[i], &r->err), &r->err);
    struct keys k[2] = { keys_of(0, rank) }; /* of two minibatches: a source borrows their hashes */
    for (int i = 0; i < BATCHES && !t->load; i++) {
        k[(i + 1) % 2] = keys_of(i + 1, rank);
        learn(&net, &k[i % 2], t->ahead && i < BATCHES - 1 ? &k[(i + 1) % 2] : NULL, i, rank, rank + 1, t->counts);
    }
    save(&net, &t->saved[rank]);
    net_free(&net);
    r->good = true;
}

static bool same(const struct saved *a, const struct saved *b)
{
    return a->n == b->n && a->n && !memcmp(a->key, b->key, (size_t)a->n * sizeof a->key[0]) &&
           !memcmp(a->row, b->row, (size_t)a->n * sizeof a->row[0]);
}

static void test_shards(bool counts, bool ahead)
{
    static struct trial trial, again;
    static struct saved want;
    struct rank rank[MOST_RANKS];
    for (int n = 1; n <= 3; n++) {
        struct net net;
        memset(&want, 0, sizeof want);
        net_open(&net, NULL);
        for (int i = 0; i < BATCHES; i++) {
            struct keys *k = keys_of_all(i, n);
            learn(&net, k, NULL, i, 0, n, counts);
            free(k);
        }
        save(&net, &want);
        net_free(&net);
        trial = (struct trial){ .counts = counts, .ahead = ahead };
        run_ranks(n, 20, train_rank, &trial, rank);
        ok(same(&trial.saved[0], &want),
           "%d owners, which learn%s%s what one learns from all their minibatches: %d rows", n,
           counts ? ", with counts," : "", ahead ? ", requests ahead," : "", want.n);
        bool none = true;
        for (int r = 1; r < n; r++)
            none &= !trial.saved[r].n;
        ok(none, "rank 0 alone gets the rows that are saved");
    }
    again = (struct trial){ .load = &want };
    run_ranks(3, 20, train_rank, &again, rank);
    ok(same(&again.saved[0], &want), "rows are loaded by those that own them");
}

/* Of images, every one, every second one, every sixth one is used: whatever the rows, each rank has its part. */
static void test_owners(void)
{
    enum { ROWS = 60000, TOP = 8 };
    double worst = 0;
    for (int ranks = 2; ranks <= TOP; ranks++)
        for (int step = 1; step <= 6; step++) {
            int has[TOP] = { 0 };
            for (uint64_t row = 0; row < ROWS; row += (uint64_t)step)
                has[ctr_rank_owner(row, ranks)]++;
            for (int r = 0; r < ranks; r++)
                worst = fmax(worst, fabs(has[r] * (double)ranks * step / ROWS - 1));
        }
    ok(worst < .1, "owners of rows of a table have equal parts to %.1f%%", worst * 100);
}

int main(void)
{
    test_owners();
    test_comm();
    test_shards(false, false);
    test_shards(true, false);
    test_shards(true, true);
    return done_testing();
}
