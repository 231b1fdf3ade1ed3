/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-mpi.so: ranks that are MPI processes.
 *
 * Each second a thread sends a sign of life to the next rank and receives one from the previous rank; so if a rank has
 * stopped, or its network fails, at least one other rank notices and ends the run. Only one thread at a time calls MPI
 * (MPI_THREAD_SERIALIZED, one mutex): all waiting polls, and releases the mutex in between. */
#include "common/base/base.h"
#include "common/compute/mpi_plugin.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG_COUNT = 1, TAG_DATA, TAG_ALIVE, PIECE = 1 << 18 /* bytes per message */ };
enum { BEAT_MS = 1000, LOOK_MS = 100, SPIN_US = 200, NAP_US = 50, LONG_NAP_US = 1000, ABORT_S = 5 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* `ends` was set */
    MPI_Comm work, beats;
    int rank, size;
    double limit_s, heard; /* seconds: since the previous rank was heard */
    bool open, ends, lost;
    pthread_t thread;
    bool has_thread;
    MPI_Request *request;
    int *ended; /* [room] */
    int requests, room;
} m = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail_mpi(int code, const char *what, char *why)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    snprintf(why, CTR_MPI_WHY, "MPI: %s: %.400s", what, text);
    return -1;
}

/* ---- signs of life ---- */

static void *beat(void *unused)
{
    const int next = (m.rank + 1) % m.size, before = (m.rank + m.size - 1) % m.size;
    MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
    char out = 0, in;
    double due = 0;
    (void)unused;
    pthread_mutex_lock(&m.lock);
    MPI_Irecv(&in, 1, MPI_BYTE, before, TAG_ALIVE, m.beats, &receive);
    while (!m.ends) {
        int done = 0;
        MPI_Test(&receive, &done, MPI_STATUS_IGNORE);
        if (done) {
            m.heard = now_s();
            MPI_Irecv(&in, 1, MPI_BYTE, before, TAG_ALIVE, m.beats, &receive);
        }
        m.lost |= now_s() - m.heard > m.limit_s;
        MPI_Test(&send, &done, MPI_STATUS_IGNORE);
        if (done && now_s() >= due) {
            MPI_Isend(&out, 1, MPI_BYTE, next, TAG_ALIVE, m.beats, &send);
            due = now_s() + BEAT_MS * 1e-3;
        }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&m.wake, &m.lock, &until);
    }
    MPI_Cancel(&receive);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    if (send != MPI_REQUEST_NULL) {
        MPI_Cancel(&send);
        MPI_Request_free(&send);
    }
    pthread_mutex_unlock(&m.lock);
    return NULL;
}

/* ---- waiting ---- */

static MPI_Request *request(char *why)
{
    if (m.requests == m.room) {
        const int room = m.room ? 2 * m.room : 64;
        MPI_Request *more = realloc(m.request, (size_t)room * sizeof *more);
        if (more)
            m.request = more;
        int *ended = realloc(m.ended, (size_t)room * sizeof *ended);
        if (ended)
            m.ended = ended;
        if (!more || !ended) {
            snprintf(why, CTR_MPI_WHY, "out of memory");
            return NULL;
        }
        m.room = room;
    }
    return &m.request[m.requests++];
}

/* Give the processor to others after so long without a completed request. MPI moves data only while it is called, so
 * that a rank that sleeps stops its messages: while they move, their pieces complete, and it only yields. A long wait
 * sleeps for a sixteenth of its time so far, takes little of the processor, and ends little later. */
static void pause_after(double waited_s)
{
    const double us = waited_s * 1e6, nap = us / 16;
    if (us < SPIN_US)
        sched_yield();
    else
        usleep(nap < NAP_US ? NAP_US : nap > LONG_NAP_US ? LONG_NAP_US : (useconds_t)nap);
}

/* Wait for all requests. */
static int wait_all(char *why)
{
    double moved = now_s();
    for (int left = m.requests; left;) {
        int n = 0;
        pthread_mutex_lock(&m.lock);
        const int code = MPI_Testsome(m.requests, m.request, &n, m.ended, MPI_STATUSES_IGNORE);
        const bool lost = m.lost;
        pthread_mutex_unlock(&m.lock);
        if (code)
            return fail_mpi(code, "waiting for the other ranks", why);
        if (n > 0) {
            left -= n;
            moved = now_s();
            continue;
        }
        if (lost) {
            snprintf(why, CTR_MPI_WHY,
                     "rank %d of %d gave no sign of life for %g s: it stopped, or its network is cut; the run ends",
                     (m.rank + m.size - 1) % m.size, m.size, m.limit_s);
            return -1;
        }
        pause_after(now_s() - moved);
    }
    m.requests = 0;
    return 0;
}

/* ---- the functions ---- */

static int counts(const int64_t *out, int64_t *in, char *why)
{
    MPI_Request *r = request(why);
    if (!r)
        return -1;
    pthread_mutex_lock(&m.lock);
    const int code = MPI_Ialltoall(out, 1, MPI_INT64_T, in, 1, MPI_INT64_T, m.work, r);
    pthread_mutex_unlock(&m.lock);
    return code ? fail_mpi(code, "MPI_Ialltoall", why) : wait_all(why);
}

/* Start to send to or receive from rank i. */
static int start(int i, const void *out, void *in, int64_t n, char *why)
{
    int code = 0;
    for (int64_t at = 0; at < n && !code; at += PIECE) {
        const int part = (int)(n - at < PIECE ? n - at : PIECE);
        MPI_Request *r = request(why);
        if (!r)
            return -1;
        pthread_mutex_lock(&m.lock);
        if (in)
            code = MPI_Irecv((char *)in + at, part, MPI_BYTE, i, TAG_DATA, m.work, r);
        else
            code = MPI_Isend((const char *)out + at, part, MPI_BYTE, i, TAG_DATA, m.work, r);
        pthread_mutex_unlock(&m.lock);
    }
    return code ? fail_mpi(code, "sending to another rank", why) : 0;
}

static int data(const void *const *out, const int64_t *out_n, void *const *in, const int64_t *in_n, char *why)
{
    int rc = 0;
    for (int k = 1; k < m.size && !rc; k++) {
        const int from = (m.rank + m.size - k) % m.size;
        rc = start(from, NULL, in[from], in_n[from], why);
    }
    for (int k = 1; k < m.size && !rc; k++) { /* each rank starts with another one */
        const int to = (m.rank + k) % m.size;
        rc = start(to, out[to], NULL, out_n[to], why);
    }
    return rc ? rc : wait_all(why);
}

/* At exit. If the network has failed, MPI_Abort may wait forever. */
static void end_all(int status, void *none)
{
    (void)none;
    if (!m.open)
        return;
    alarm(ABORT_S);
    pthread_mutex_lock(&m.lock);
    MPI_Abort(MPI_COMM_WORLD, status ? status : 1);
    _exit(status ? status : 1);
}

static void close_all(void)
{
    pthread_mutex_lock(&m.lock);
    m.ends = true;
    pthread_cond_signal(&m.wake);
    pthread_mutex_unlock(&m.lock);
    if (m.has_thread)
        pthread_join(m.thread, NULL);
    free(m.request);
    free(m.ended);
    m.request = NULL;
    m.ended = NULL;
    m.open = false;
    MPI_Finalize();
}

static int local_rank(int *local, char *why)
{
    MPI_Comm machine;
    const int code = MPI_Comm_split_type(m.work, MPI_COMM_TYPE_SHARED, m.rank, MPI_INFO_NULL, &machine);
    if (code)
        return fail_mpi(code, "MPI_Comm_split_type", why);
    MPI_Comm_rank(machine, local);
    MPI_Comm_free(&machine);
    return 0;
}

static int open_all(double limit_s, int *rank, int *size, int *local, char *why)
{
    int level = 0;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code)
        return fail_mpi(code, "MPI_Init_thread", why);
    if (level < MPI_THREAD_SERIALIZED) {
        snprintf(why, CTR_MPI_WHY, "MPI gives threads of level %d, and %d is needed", level, MPI_THREAD_SERIALIZED);
        return -1;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &m.work);
    MPI_Comm_dup(MPI_COMM_WORLD, &m.beats);
    MPI_Comm_set_errhandler(m.work, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(m.beats, MPI_ERRORS_RETURN);
    MPI_Comm_rank(m.work, &m.rank);
    MPI_Comm_size(m.work, &m.size);
    if (local_rank(local, why))
        return -1;
    m.limit_s = limit_s;
    m.heard = now_s();
    if (m.size > 1 && pthread_create(&m.thread, NULL, beat, NULL)) {
        snprintf(why, CTR_MPI_WHY, "no thread can be started");
        return -1;
    }
    m.has_thread = m.size > 1;
    m.open = true;
    on_exit(end_all, NULL);
    *rank = m.rank;
    *size = m.size;
    return 0;
}

extern const struct ctr_mpi_plugin ctr_mpi_plugin;
const struct ctr_mpi_plugin ctr_mpi_plugin = { .layout = CTR_MPI_LAYOUT,
                                               .version = CTR_VERSION,
                                               .open = open_all,
                                               .counts = counts,
                                               .data = data,
                                               .close = close_all };
