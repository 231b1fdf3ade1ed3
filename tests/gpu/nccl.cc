/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl: stands for libnccl.so.2 where there is no GPU ($CTR_NCCL_LIBRARY names it): ranks that are processes of one
 * machine send each other bytes over Unix sockets. As of NCCL with blocking = 0, connecting and groups go on in the
 * background and ncclCommGetAsyncError tells when they are done.
 *
 * $CTR_NCCL_ON_HOST_FAIL=CALL:N has the N-th call of a name fail (open, send, receive, group: the call itself; network:
 * the group, later), or never end (stall), or kill or stop the process there. $CTR_NCCL_ON_HOST_SAYS has the end of the
 * process tell the bytes sent. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "cuda/onhost.h"

static int64_t sent_bytes;

struct report {
    ~report()
    {
        if (getenv("CTR_NCCL_ON_HOST_SAYS"))
            fprintf(stderr, "nccl: %lld bytes sent\n", (long long)sent_bytes);
    }
};
static struct report at_end;

static bool fails(const char *call, int64_t n)
{
    const char *want = getenv("CTR_NCCL_ON_HOST_FAIL");
    return want && want == strstr(want, call) && want[strlen(call)] == ':' && atoll(want + strlen(call) + 1) == n;
}

struct transfer {
    int rank;
    bool out;
    char *p;
    size_t left;
};

struct ncclComm {
    int rank, ranks;
    std::string id;
    std::vector<int> socket;
    std::thread thread;
    std::atomic<ncclResult_t> state;
    std::atomic<bool> ends;
};

static void run(ncclComm_t c, std::function<ncclResult_t()> what)
{
    if (c->thread.joinable())
        c->thread.join();
    c->state = ncclInProgress;
    c->thread = std::thread([=] { c->state = what(); });
}

/* ---- connecting ---- */

static socklen_t address(const ncclComm_t c, int rank, struct sockaddr_un *a)
{
    *a = {};
    a->sun_family = AF_UNIX; /* of a name without a file */
    const int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "%s-%d", c->id.c_str(), rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* A rank connects to each lower one and writes its number. */
static ncclResult_t connect_all(ncclComm_t c, int listener)
{
    struct sockaddr_un a;
    for (int r = 0; r < c->rank; r++) {
        const int s = socket(AF_UNIX, SOCK_STREAM, 0);
        const socklen_t n = address(c, r, &a);
        while (connect(s, (struct sockaddr *)&a, n) && !c->ends)
            usleep(1000);
        if (c->ends || write(s, &c->rank, sizeof c->rank) != sizeof c->rank)
            return ncclSystemError;
        c->socket[(size_t)r] = s;
    }
    for (int k = c->rank + 1; k < c->ranks; k++) {
        struct pollfd p = { listener, POLLIN, 0 };
        int r = 0;
        while (poll(&p, 1, 10) == 0)
            if (c->ends)
                return ncclSystemError;
        const int s = accept(listener, NULL, NULL);
        if (s < 0 || read(s, &r, sizeof r) != sizeof r)
            return ncclSystemError;
        c->socket[(size_t)r] = s;
    }
    close(listener);
    return ncclSuccess;
}

/* ---- a group ---- */

/* As much of a transfer as goes now. */
static bool go_on(int s, struct transfer *t)
{
    const ssize_t n =
        t->out ? send(s, t->p, t->left, MSG_DONTWAIT | MSG_NOSIGNAL) : recv(s, t->p, t->left, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    t->p += n;
    t->left -= (size_t)n;
    return true;
}

static ncclResult_t move(ncclComm_t c, std::vector<struct transfer> all)
{
    for (;;) {
        std::vector<struct pollfd> wait;
        for (struct transfer &t : all) {
            const int s = c->socket[(size_t)t.rank];
            if (t.left && !go_on(s, &t))
                return ncclRemoteError;
            if (t.left)
                wait.push_back({ s, (short)(t.out ? POLLOUT : POLLIN), 0 });
        }
        if (wait.empty())
            return ncclSuccess;
        if (c->ends)
            return ncclSystemError;
        poll(wait.data(), wait.size(), 10);
    }
}

static std::vector<struct transfer> group;
static ncclComm_t group_comm;
static cudaStream_t group_stream;

static ncclResult_t add(const char *call, int64_t n, struct transfer t, ncclComm_t c, cudaStream_t s)
{
    group.push_back(t);
    group_comm = c;
    group_stream = s;
    return fails(call, n) ? ncclInternalError : ncclSuccess;
}

extern "C" {
ncclResult_t ncclGetVersion(int *version)
{
    *version = 21400;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(id->internal, sizeof id->internal, "ctr-nccl-%ld-%ld%09ld", (long)getpid(), (long)t.tv_sec, t.tv_nsec);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    struct sockaddr_un a;
    ncclComm_t c = *comm = new ncclComm{ rank, ranks, id.internal, std::vector<int>((size_t)ranks, -1), {}, {}, {} };
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    const socklen_t n = address(c, rank, &a);
    if (config->blocking || fails("open", 1) || bind(s, (struct sockaddr *)&a, n) || listen(s, ranks))
        return ncclSystemError;
    run(c, [=] { return connect_all(c, s); });
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *result)
{
    *result = c->state;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    c->ends = true;
    if (c->thread.joinable())
        c->thread.join();
    for (const int s : c->socket)
        if (s >= 0)
            close(s);
    delete c;
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *p, size_t n, ncclDataType_t, int rank, ncclComm_t c, cudaStream_t s)
{
    static int64_t calls;
    sent_bytes += (int64_t)n;
    return add("send", ++calls, { rank, true, const_cast<char *>((const char *)p), n }, c, s);
}

ncclResult_t ncclRecv(void *p, size_t n, ncclDataType_t, int rank, ncclComm_t c, cudaStream_t s)
{
    static int64_t calls;
    return add("receive", ++calls, { rank, false, (char *)p, n }, c, s);
}

ncclResult_t ncclGroupStart()
{
    group.clear();
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    static int64_t calls;
    const int64_t n = ++calls;
    if (fails("kill", n) || fails("stop", n))
        raise(fails("kill", n) ? SIGKILL : SIGSTOP);
    if (fails("group", n))
        return ncclSystemError;
    if (group.empty())
        return ncclSuccess;
    onhost_run(group_stream, group_stream->queued); /* what comes before it */
    const ncclComm_t c = group_comm;
    run(c, [=, all = group] {
        while (fails("stall", n) && !c->ends)
            usleep(1000);
        return fails("network", n) ? ncclRemoteError : move(c, all);
    });
    return ncclInProgress;
}

const char *ncclGetErrorString(ncclResult_t e)
{
    return e == ncclRemoteError     ? "remote process exited or there was a network error"
           : e == ncclSystemError   ? "unhandled system error"
           : e == ncclInternalError ? "internal error"
                                    : "no error";
}

const char *ncclGetLastError(ncclComm_t)
{
    return "";
}
}
