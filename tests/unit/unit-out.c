/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-out: a file that is written has no name until it is whole, so that SIGKILL leaves nothing; and what becomes of
 * it where the system refuses one thing or another. */
#include "common/base/base.h"

#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct ctr_err err;
static char dir[] = "/tmp/ctr-unit-XXXXXX", path[64];

/* Instead of the C library's: what the system may answer. */
static int link_errno, link_failures; /* so many times */
static bool without_proc;
static atomic_int linking; /* ms that a link takes, before it is made and after; 0 as soon as it has begun */

static void sleep_ms(int ms)
{
    if (ms)
        nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    if (link_failures && link_failures--) {
        errno = link_errno;
        return -1;
    }
    const int ms = atomic_exchange(&linking, 0);
    sleep_ms(ms);
    const int rc = (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags), sys = errno;
    sleep_ms(ms);
    errno = sys;
    return rc;
}

int access(const char *name, int mode)
{
    if (without_proc && !strncmp(name, "/proc/", 6)) {
        errno = ENOENT;
        return -1;
    }
    return (int)syscall(SYS_faccessat, AT_FDCWD, name, mode);
}

static int entries(void)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += *e->d_name != '.';
    if (d)
        closedir(d);
    return n;
}

static bool is_there(const char *text)
{
    char got[64];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, got, sizeof got);
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)strlen(text) && !memcmp(got, text, strlen(text));
}

/* Writes `text`; how many names there were meanwhile. */
static int write_file(const char *text, int *rc)
{
    struct ctr_out *o = NULL;
    *rc = ctr_out_open(&o, path, 0, &err);
    if (!*rc)
        *rc = ctr_out_write(o, text, strlen(text), &err);
    if (!*rc)
        *rc = ctr_out_flush(o, &err);
    const int n = entries();
    if (!*rc)
        *rc = ctr_out_commit(o, &err);
    ctr_out_free(o);
    return n;
}

static void test_killed(int left)
{
    struct ctr_out *o;
    int status;
    pid_t child = fork();
    if (!child) {
        if (!ctr_out_open(&o, path, 0, &err) && !ctr_out_write(o, "abc", 3, &err) && !ctr_out_flush(o, &err))
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    ok(child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status), "a process is killed while it writes");
    ok(entries() == left, "and leaves %d names", left);
}

static void *write_thread(void *arg)
{
    int rc;
    (void)write_file("abc", &rc);
    return arg;
}

/* It ends while another thread gives a name. */
static void test_ended(void)
{
    enum { MS = 30 };
    pthread_t thread;
    int status;
    pid_t child = fork();
    if (!child) {
        linking = MS;
        if (pthread_create(&thread, NULL, write_thread, NULL))
            _exit(1);
        while (linking)
            sleep_ms(1);
        ctr_out_cleanup();
        sleep_ms(MS * 3 / 2); /* as long as it may take to die, and less than the link */
        _exit(0);
    }
    ok(child > 0 && waitpid(child, &status, 0) == child && !status, "a process ends while a thread of it writes");
    ok(!entries() || (entries() == 1 && is_there("abc")), "and leaves nothing, or what it has written whole");
    unlink(path);
}

static void test_unnamed(void)
{
    static const struct {
        const char *what;
        int sys, failures, rc;
    } row[] = { { "all is well", 0, 0, 0 },
                { "its first names are taken", EEXIST, 3, 0 },
                { "it must not have a name: copied", EPERM, 1, 0 },
                { "no free name at all: copied", EEXIST, 100, 0 },
                { "no room for a name", ENOSPC, 1, CTR_ESYS } };
    struct stat st;
    int rc;
    for (size_t i = 0; i < CTR_COUNT(row); i++) {
        link_errno = row[i].sys;
        link_failures = row[i].failures;
        ok(write_file(row[i].what, &rc) == 0 && rc == row[i].rc, "%s: no name while it is written", row[i].what);
        ok(entries() == (row[i].rc ? 0 : 1) && (row[i].rc || is_there(row[i].what)), "%s: whole or not at all",
           row[i].what);
        ok(row[i].rc || (!stat(path, &st) && (st.st_mode & 07777) == 0640), "%s: of the mode of any new file",
           row[i].what);
        unlink(path);
        ok(!link_failures, "%s: the system was asked", row[i].what);
    }
    for (int failures = 0; failures < 2; failures++) {
        ok(write_file("old", &rc) == 0 && !rc && !chmod(path, 07604), "a file that is there already");
        link_errno = EPERM;
        link_failures = failures;
        ok(write_file("new", &rc) == 1 && !rc && is_there("new"), "is replaced");
        ok(!stat(path, &st) && (st.st_mode & 07777) == 0604, "and keeps its mode, but for the set-ID bits");
        unlink(path);
    }
    test_killed(0);
    test_ended();
}

static void test_named(void)
{
    struct stat st;
    int rc;
    without_proc = true;
    ok(write_file("abc", &rc) == 1 && !rc && is_there("abc") && entries() == 1, "without /proc it has a name at once");
    ok(!stat(path, &st) && (st.st_mode & 07777) == 0640, "and the same mode");
    unlink(path);
    test_killed(1);
}

static void test_long_name(void)
{
    struct ctr_out *o;
    char name[300] = "";
    memset(name, 'x', 250);
    memcpy(name, dir, strlen(dir));
    name[strlen(dir)] = '/';
    memset(name + strlen(dir) + 1, 'x', 250);
    ok(ctr_out_open(&o, name, 0, &err) && err.sys == ENAMETOOLONG, "a name that leaves no room for the temporary's: %s",
       "known before anything is written");
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    umask(027);
    snprintf(path, sizeof path, "%s/file", dir);
    const int fd = open(dir, O_TMPFILE | O_RDWR, 0600);
    if (fd >= 0) { /* else the file system has no such files */
        close(fd);
        test_unnamed();
    }
    test_named();
    test_long_name();
    char clean[64];
    snprintf(clean, sizeof clean, "rm -r %s", dir);
    return system(clean) ? 1 : done_testing();
}
