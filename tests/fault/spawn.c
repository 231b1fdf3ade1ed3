/* SPDX-License-Identifier: Apache-2.0
 *
 * spawn: starts commands for Fault.pm, whose perl is too large to be forked for each of ten thousand runs.
 *
 * A request on stdin is its length (32 bits) and texts that end with NUL: folder, standard input, output and error,
 * seconds until SIGALRM, descriptors to close ("01"), the variables (NAME=VALUE), an empty text, the arguments. The
 * reply on stdout has 64 bits each: microseconds of the processor that the run took, and the status that wait gives. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIR, IN, OUT, ERR, LIMIT, CLOSED, ENV, MOST_TEXTS = 1 << 14, MOST_BYTES = 1 << 20 };
static char request[MOST_BYTES + 1], *text[MOST_TEXTS + 1];

static bool read_whole(void *to, size_t n)
{
    for (char *at = to; n;) {
        const ssize_t got = read(0, at, n);
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

/* The texts of a request; where its arguments begin. */
static char **parse(size_t size)
{
    size_t n = 0, args = 0;
    request[size] = 0;
    for (char *at = request; at < request + size && n < MOST_TEXTS; at += strlen(at) + 1) {
        text[n] = at;
        if (n >= ENV && !args && !*at) {
            text[n] = NULL;
            args = n + 1;
        }
        n++;
    }
    text[n] = NULL;
    return args && args < n ? text + args : NULL;
}

static void become(int fd, const char *path, int flags)
{
    const int got = open(path, flags, 0666);
    if (got < 0 || (got != fd && (dup2(got, fd) != fd || close(got))))
        _exit(126);
}

static void start(char **args) /* behind vfork: system calls alone */
{
    if (chdir(text[DIR]))
        _exit(126);
    become(0, text[IN], O_RDONLY);
    become(1, text[OUT], O_WRONLY | O_CREAT | O_TRUNC);
    become(2, text[ERR], O_WRONLY | O_CREAT | O_TRUNC);
    for (const char *c = text[CLOSED]; *c; c++)
        close(*c - '0');
    alarm((unsigned)strtoul(text[LIMIT], NULL, 10));
    execvpe(args[0], args, text + ENV);
    _exit(127);
}

int main(void)
{
    for (uint32_t size; read_whole(&size, sizeof size);) {
        if (size > MOST_BYTES || !read_whole(request, size))
            return 1;
        char **args = parse(size);
        const pid_t pid = args ? vfork() : -1;
        if (pid == 0)
            start(args);
        int status;
        struct rusage used;
        if (pid < 0 || wait4(pid, &status, 0, &used) != pid)
            return 1;
        struct {
            int64_t us, status;
        } reply = { (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000LL + used.ru_utime.tv_usec +
                        used.ru_stime.tv_usec,
                    status };
        if (write(1, &reply, sizeof reply) != sizeof reply)
            return 1;
    }
    return 0;
}
