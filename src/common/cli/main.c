/* SPDX-License-Identifier: Apache-2.0
 *
 * main: the scaffold of every tool: options, --help, --version, signals, exit status. main() itself is in main_one.c,
 * for a program that is one tool, and in main_all.c. */
#include "common/base/memory.h"
#include "common/cli/options.h"
#include "common/cli/reread.h"
#include "common/compute/comm.h"
#include "common/compute/compute.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const struct ctr_tool *const *ctr_tools;

static const struct ctr_tool *running; /* for handlers of signals */
static struct {
    bool version, list_options;
    const char *help; /* NULL: not given */
    const char *progress;
} common = { .progress = "auto" };

static void bind_tables(struct ctr_option_tables *t, struct ctr_cli *cli)
{
    const struct ctr_opt fixed[] = {
        { "output", 'o', CTR_OPT_STR, "FILE", "write the result to FILE instead of stdout", &cli->out,
          CTR_OPT_PATH | CTR_OPT_BASIC },
        { "jobs", 'j', CTR_OPT_INT, "N", "use up to N threads, 0: all (default: a share); results do not depend on N",
          &cli->jobs, CTR_OPT_LOCAL | CTR_OPT_BASIC },
        { "device", 0, CTR_OPT_CHOICE, "cpu|gpu|gpu:N|auto", "compute on the CPU or on a GPU (default cpu)",
          &cli->device, CTR_OPT_LOCAL | CTR_OPT_BASIC },
        { "device-memory", 0, CTR_OPT_SIZE, "SIZE", "limit device memory", &cli->device_memory_bytes, CTR_OPT_LOCAL },
        { "memory", 0, CTR_OPT_SIZE, "SIZE", "memory limit for what grows with the data, such as 2G",
          &cli->memory_bytes, CTR_OPT_LOCAL | CTR_OPT_BASIC },
        { "batch", 0, CTR_OPT_INT, "ROWS", "rows per batch of the output stream (default 0: at most 1 MiB)",
          &cli->batch_rows, CTR_OPT_LOCAL },
        { "flush", 0, CTR_OPT_DURATION, "TIME", "write a short batch when no input came for TIME (default 200ms)",
          &cli->flush_ms, CTR_OPT_LOCAL },
        { "seed", 0, CTR_OPT_INT, "N", "random seed (default 0)", &cli->seed, CTR_OPT_BASIC },
        { "verbose", 'v', CTR_OPT_COUNT, NULL, "print more on stderr", &cli->verbose, CTR_OPT_LOCAL },
        { "quiet", 'q', CTR_OPT_FLAG, NULL, "print only errors and warnings on stderr", &cli->quiet, CTR_OPT_LOCAL },
        { "progress", 0, CTR_OPT_CHOICE, "auto|always|never", "show progress on stderr (default auto: on a terminal)",
          &common.progress, CTR_OPT_LOCAL },
        { "help", 'h', CTR_OPT_MAYBE, "all", "show the options that most users need; all: every option", &common.help,
          CTR_OPT_LOCAL | CTR_OPT_BASIC },
        { "version", 0, CTR_OPT_FLAG, NULL, "show the version", &common.version, CTR_OPT_LOCAL },
        { "list-options", 0, CTR_OPT_FLAG, NULL, "list all options, for completion scripts", &common.list_options,
          CTR_OPT_LOCAL },
    };
    static const struct {
        enum ctr_role role;
        const char *help;
        unsigned flags;
    } roles[] = { { CTR_ROLE_LABEL, "whether the row was clicked, from 0 to 1", CTR_OPT_BASIC },
                  { CTR_ROLE_WEIGHT, "weight of the row", 0 },
                  { CTR_ROLE_USER, "user of the row", CTR_OPT_BASIC },
                  { CTR_ROLE_TIME, "time of the event", CTR_OPT_BASIC },
                  { CTR_ROLE_QUERY, "query or page view", 0 },
                  { CTR_ROLE_ID, "identifier of the row", 0 },
                  { CTR_ROLE_SCORE, "predicted probability", CTR_OPT_BASIC } };

    static const struct {
        const char *name;
        unsigned flag;
    } uses[] = { { "jobs", CTR_TOOL_READS },          { "batch", CTR_TOOL_WRITES },  { "flush", CTR_TOOL_WRITES },
                 { "device", CTR_TOOL_DEVICE },       { "memory", CTR_TOOL_MEMORY }, { "seed", CTR_TOOL_SEED },
                 { "device-memory", CTR_TOOL_DEVICE } };
    int n = 0;

    *t = (struct ctr_option_tables){ 0 };
    memcpy(t->common, fixed, sizeof fixed);
    for (struct ctr_opt *o = t->common; o->name; o++)
        for (size_t i = 0; i < CTR_COUNT(uses); i++)
            if (!strcmp(o->name, uses[i].name) && !(cli->tool->flags & uses[i].flag))
                o->flags |= CTR_OPT_IDLE;
    for (size_t i = 0; i < CTR_COUNT(roles); i++)
        if (cli->tool->flags & CTR_TOOL_ROLE(roles[i].role))
            t->roles[n++] = (struct ctr_opt){
                ctr_roles[roles[i].role],     0, CTR_OPT_STR, "NAME", roles[i].help, &cli->role[roles[i].role],
                CTR_OPT_ONCE | roles[i].flags
            };
}

/* The next open would take a closed standard descriptor: occupy it with one that fails. */
static void hold_standard_fds(void)
{
    static const int mode[] = { O_WRONLY, O_RDONLY, O_RDONLY };

    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", mode[fd]) < 0)
            _exit(1);
}

static void die_of_signal(int sig)
{
    ctr_out_cleanup();
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Batches are views of mapped IPC files. If another program truncates a file, the run cannot continue: verified data
 * are gone. Outputs are discarded as after any error. */
static void die_of_shortened_file(int sig, siginfo_t *info, void *context)
{
    static volatile int dying;
    const char *file = ctr_mapped_file(info->si_addr);
    char name[1024];
    (void)context;
    while (__atomic_exchange_n(&dying, 1, __ATOMIC_SEQ_CST)) /* another thread reports it */
        pause();
    if (!file) { /* a bug, not a truncated file */
        die_of_signal(sig);
        return;
    }
    ctr_quote(name, sizeof name, file, strlen(file));
    const char *const say[] = { running->name, ": ", name,
                                ": was shortened by another program, or its disk failed, while it was read\n" };
    for (size_t i = 0; i < CTR_COUNT(say); i++)
        if (write(STDERR_FILENO, say[i], strlen(say[i])) < 0)
            break;
    ctr_out_cleanup();
    _exit(1);
}

static void catch_signals(void)
{
    struct sigaction bus = { .sa_sigaction = die_of_shortened_file, .sa_flags = SA_SIGINFO };
    static const int fatal[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
    struct sigaction sa = { .sa_handler = die_of_signal, .sa_flags = SA_RESETHAND };
    struct sigaction old;
    sigset_t pipe;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigprocmask(SIG_UNBLOCK, &pipe, NULL); /* whatever the parent left: the end of a reader ends a tool silently */
    for (size_t i = 0; i < CTR_COUNT(fatal); i++)
        if (sigaction(fatal[i], NULL, &old) == 0 && (old.sa_handler == SIG_DFL || fatal[i] == SIGPIPE))
            sigaction(fatal[i], &sa, NULL);
    sigaction(SIGBUS, &bus, NULL);
    signal(SIGXFSZ, SIG_IGN); /* the failing write reports it */
}

static int exit_status(int code)
{
    return code == 0 ? 0 : code == CTR_EUSAGE ? 2 : code == CTR_ENO ? 3 : 1;
}

/* Check text written to stdout instead of data, too: --help >/dev/full must fail. */
static int close_stdout(const struct ctr_tool *tool)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "%s: stdout: write failed: %s\n", tool->name, strerror(errno));
    return 1;
}

/* Processes that mpirun started meet a usage error all at once: the first tells it, and mpirun ends the others. If the
 * first has none, they tell it after three seconds. */
static void let_first_tell(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (rank && strcmp(rank, "0") != 0)
        sleep(3);
}

static int report(const struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_err_text text = ctr_err_text(err);
    ctr_cli_names(cli, text.s, sizeof text.s);
    if (err->sys == EPIPE) { /* the reader has exited: end like SIGPIPE */
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    if (err->code == CTR_EUSAGE)
        let_first_tell();
    fprintf(stderr, "%s%s: %s\n", cli->progress_drawn ? "\n" : "", cli->tool->name, text.s);
    return exit_status(err->code ? err->code : CTR_EDATA);
}

bool ctr_cli_wants_gpu(const struct ctr_cli *cli)
{
    return !strncmp(cli->device, "gpu", 3);
}

int ctr_cli_device(struct ctr_cli *cli, bool can, const char *what, struct ctr_err *err)
{
    struct ctr_dev_want want = { .device = cli->device,
                                 .local_rank = cli->ranks.local,
                                 .memory_bytes = cli->device_memory_bytes };
    struct ctr_dev *dev;

    if (!strcmp(cli->device, "cpu"))
        return 0;
    if (!can && ctr_cli_wants_gpu(cli))
        return ctr_fail(err, CTR_EDATA, "--device gpu: %s has no GPU implementation in this version; use --device cpu",
                        what);
    if (!can) {
        cli->device = "cpu";
        ctr_cli_debug(cli, "device: %s", cli->device);
        return 0;
    }
    int rc = ctr_dev_open(&dev, &want, err);
    if (rc)
        return rc;
    const char *said = *ctr_dev_note(dev) ? ctr_dev_note(dev) : ctr_dev_title(dev);
    if (cli->ranks.size)
        ctr_cli_debug(cli, "rank %d: %s", cli->ranks.rank, said);
    else
        ctr_cli_debug(cli, "%s", said);
    if (ctr_dev_is_host(dev)) {
        cli->device = "cpu";
    } else if (cli->ranks.size) { /* what is opened later is this one, too */
        snprintf(cli->device_name, sizeof cli->device_name, "%.4s:%d", ctr_cli_wants_gpu(cli) ? "gpu" : "auto",
                 ctr_dev_number(dev));
        cli->device = cli->device_name;
    }
    ctr_dev_free(dev);
    return 0;
}

enum { MOST_JOBS = 256 };
static const int64_t no_jobs = INT64_MIN; /* -j was not given */

static bool is_pipe(int fd)
{
    struct stat st;
    return !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

/* Without -j: CTR_JOBS threads, else a share of the processors. The stages of a pipeline run at once, so each pipe at
 * stdin and stdout stands for a stage that needs as much; the other processors of a rank are those of other ranks. */
static int take_share(int64_t *jobs, struct ctr_err *err)
{
    const char *set = getenv("CTR_JOBS");
    if (set && *set) {
        if (ctr_parse_i64(set, strlen(set), jobs) && *jobs >= 0 && *jobs <= MOST_JOBS)
            return 0;
        return ctr_cli_usage(err, "the environment variable CTR_JOBS wants 0 to %d, not '%.40s'", MOST_JOBS, set);
    }
    const int share = ctr_cpu_count() / (1 + is_pipe(STDIN_FILENO) + is_pipe(STDOUT_FILENO));
    *jobs = ctr_comm_started() ? 1 : CTR_MIN(CTR_MAX(share, 1), MOST_JOBS);
    return 0;
}

static int settle(struct ctr_cli *cli, struct ctr_err *err)
{
    int rc = ctr_cpu_check(err);
    if (!rc && cli->jobs == no_jobs)
        rc = take_share(&cli->jobs, err);
    if (rc)
        return rc;
    ctr_memory_set(cli->memory_bytes);
    cli->memory_bytes = ctr_memory_rest();
    if (!cli->jobs)
        cli->jobs = CTR_MIN(ctr_cpu_count(), MOST_JOBS);
    if (cli->jobs < 1 || cli->jobs > MOST_JOBS)
        return ctr_cli_usage(err, "--jobs wants 0 to %d", MOST_JOBS);
    if (cli->batch_rows < 0 || cli->batch_rows > 1 << 20)
        return ctr_cli_usage(err, "--batch wants 0 to %d rows", 1 << 20);
    if (cli->flush_ms > 3600 * 1000)
        return ctr_cli_usage(err, "--flush wants at most 1h");
    cli->flush_ms = CTR_MAX(cli->flush_ms, 1); /* 0 would poll without pause */
    cli->progress = !cli->quiet &&
                    (!strcmp(common.progress, "always") || (!strcmp(common.progress, "auto") && isatty(STDERR_FILENO)));
    return cli->tool->flags & CTR_TOOL_DEVICE ? 0 : ctr_cli_device(cli, false, cli->tool->name, err);
}

int ctr_cli_main(const struct ctr_tool *tool, int argc, char **argv)
{
    struct ctr_cli cli = { .tool = tool, .jobs = no_jobs, .device = "cpu", .flush_ms = 200 };
    struct ctr_option_tables tables;
    struct ctr_err err = { 0 };

    running = tool;
    hold_standard_fds();
    catch_signals();
    bind_tables(&tables, &cli);
    int rc = ctr_options_parse(&cli, &tables, argc, argv, &err);
    if (!rc && (common.help || common.list_options || common.version)) {
        if (common.help)
            ctr_options_help(tool, &tables, *common.help, stdout);
        else if (common.list_options)
            ctr_options_list(tool, &tables, stdout);
        else
            printf("%s %s\n", tool->name, CTR_VERSION);
    } else if (!rc && !(rc = settle(&cli, &err))) {
        rc = tool->run(&cli, &err);
    }
    ctr_bad_rows_free(cli.bad);
    ctr_input_identity_release_all();
    free(cli.provenance);
    ctr_strs_free(&cli.read);
    ctr_strs_free(&cli.given);
    ctr_strs_free(&cli.written);
    ctr_options_free(&tables);
    if (rc)
        return report(&cli, cli.idle_err.code ? &cli.idle_err : &err);
    if (cli.progress_drawn)
        fputc('\n', stderr);
    return close_stdout(tool);
}
