/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-inputidentity: files that other programs replace or overwrite while they are read: a model at each of its opens,
 * inputs that are held, with descriptors and without. */
#include "models.h"
#include "tap.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static struct ctr_err err;
static char rows[64], model[64], other[64], junk[64], spare[64];

static void must(int rc)
{
    if (rc) {
        printf("Bail out! %s: %s\n", err.file, err.what);
        exit(1);
    }
}

/* ---- the other program: it acts before open number `act_at` of the model ---- */

enum act { RENAME, OVERWRITE, REMOVE };
static enum act act;
static const char *act_with;
static int act_at, opens;

static void copy(const char *from, const char *to) /* in place */
{
    char bytes[1 << 16];
    const int in = (int)syscall(SYS_openat, AT_FDCWD, from, O_RDONLY, 0);
    const int out = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (ssize_t n; (n = read(in, bytes, sizeof bytes)) > 0;)
        must(write(out, bytes, (size_t)n) != n);
    close(in);
    close(out);
}

static void act_now(void)
{
    if (act == RENAME) {
        copy(act_with, spare);
        must(rename(spare, model));
    } else if (act == OVERWRITE) {
        copy(act_with, model);
    } else {
        must(unlink(model));
    }
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    struct stat a, b;
    if (act_at && !stat(path, &a) && !stat(model, &b) && a.st_ino == b.st_ino && ++opens == act_at)
        act_now();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* ---- models ---- */

static int predict(double *sum)
{
    char warned[256];
    err = (struct ctr_err){ 0 };
    opens = 0;
    return model_predict(model, false, sum, warned, &err);
}

/* A predictor is of one file, whatever comes in its place: the scores are the first model's, or, where its bytes were
 * overwritten, there is an error, and nothing to be freed. */
static void test_model(const char *kind)
{
    static const char *const names[] = { "renamed over", "overwritten", "removed" };
    const struct ctr_predict_opts o = { .threads = 1 };
    double want, sum;
    char at[80];
    snprintf(at, sizeof at, "%s.first", model);
    must(model_train(kind, "", NULL, NULL, at, &err));
    must(model_train(kind, strcmp(kind, "mlp") ? "alpha=.9" : "rate=.9", NULL, NULL, other, &err));
    copy(at, model);
    act_at = 0;
    must(predict(&want));
    for (act = RENAME; act <= REMOVE; act++)
        for (int with = 0; with < (act == REMOVE ? 1 : 2); with++) {
            int bad = 0, good = 0, refused = 0;
            opens = act_at = 1; /* at 1 the other file would be the first that is seen */
            while (opens == act_at) {
                copy(at, model);
                act_with = with ? junk : other;
                act_at++;
                const int rc = predict(&sum);
                good += !rc && sum == want;
                refused += rc && act == OVERWRITE && strstr(ctr_err_text(&err).s, "was changed");
                bad += rc ? act != OVERWRITE : sum != want;
            }
            ok(!bad && good > (act != OVERWRITE) && (act != OVERWRITE || refused > 0),
               "%s, a model that is %s%s: %d wrong, %d of the first, %d told of", kind, names[act],
               act == REMOVE ? ""
               : with        ? " with junk"
                             : " with another",
               bad, good, refused);
        }
    struct ctr_predictor *p = (struct ctr_predictor *)&p;
    act_at = 0;
    copy(junk, model);
    ok(ctr_predictor_open(&p, model, &o, &err) && !p, "%s: nothing is there after an error", kind);
    unlink(at);
}

/* ---- what is held ---- */

static char first_byte(const char *path, int *rc)
{
    char c = 0;
    err = (struct ctr_err){ 0 };
    const int fd = *rc = ctr_open_input(path, O_RDONLY, &err);
    if (fd >= 0) {
        must(read(fd, &c, 1) != 1);
        close(fd);
    }
    return c;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    must(!f || fputs(text, f) < 0);
    fclose(f);
}

static void test_hold(bool descriptors)
{
    struct rlimit was;
    int rc;
    must(getrlimit(RLIMIT_NOFILE, &was));
    const struct rlimit few = { 1, was.rlim_max };
    put(model, "a");
    put(other, "b");
    must(descriptors ? 0 : setrlimit(RLIMIT_NOFILE, &few));
    must(ctr_input_identity_keep(model, &err));
    must(ctr_input_identity_keep(model, &err));
    must(setrlimit(RLIMIT_NOFILE, &was));
    ok(ctr_held(model) == descriptors && first_byte(model, &rc) == 'a', "a file that is held");
    must(rename(other, model));
    const char c = first_byte(model, &rc);
    ok(descriptors ? c == 'a' : rc == CTR_EDATA && strstr(err.what, "replaced"), "another one has its name: %s",
       descriptors ? "the first" : err.what);
    ctr_input_identity_release(model);
    ok(descriptors ? first_byte(model, &rc) == 'a' : !ctr_held(model), "it is held twice");
    ctr_input_identity_release(model);
    ok(first_byte(model, &rc) == 'b' && !ctr_held(model), "and no more");
    must(ctr_input_identity_keep(model, &err));
    put(model, "cc");
    ok(!first_byte(model, &rc) && rc == CTR_EDATA && strstr(err.what, "was changed"), "written to: %s", err.what);
    ctr_input_identity_release(model);
    ok(first_byte(model, &rc) == 'c', "no longer held");
}

/* ---- where times are coarse ---- */

/* A folder where two writes one after another often set the same time, or NULL. */
static const char *coarse_folder(void)
{
    static const char *const folders[] = { "/dev/shm", "/tmp", "/run", "/dev", "." };
    for (size_t i = 0; i < CTR_COUNT(folders); i++) {
        char path[64];
        struct stat st, before = { 0 };
        int same = 0;
        snprintf(path, sizeof path, "%s/ctr-unit-%d.coarse", folders[i], (int)getpid());
        const int fd = open(path, O_RDWR | O_CREAT, 0600);
        for (int k = 0; k < 100 && fd >= 0; k++) {
            must(write(fd, "x", 1) != 1 || fstat(fd, &st));
            same += st.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
            before = st;
        }
        if (fd >= 0)
            close(fd);
        unlink(path);
        if (same > 50)
            return folders[i];
    }
    return NULL;
}

static void name_files(const char *folder)
{
    static const char *const names[] = { "rows", "model", "other", "junk", "spare" };
    char *const files[] = { rows, model, other, junk, spare };
    for (size_t i = 0; i < CTR_COUNT(files); i++)
        if (folder)
            snprintf(files[i], 64, "%s/ctr-unit-%d.%s", folder, (int)getpid(), names[i]);
        else
            model_file(files[i], names[i]);
}

static void remove_files(void)
{
    char *const files[] = { rows, model, other, junk, spare };
    for (size_t i = 0; i < CTR_COUNT(files); i++)
        unlink(files[i]);
}

/* A file overwritten with as many bytes, where the time of the write may be that of the first look, and with a time
 * that is set back. */
static void test_look(const char *folder)
{
    struct ctr_file_state state;
    int found = 0, set_back = 0, moved = 0;
    for (int i = 0; i < 50; i++) {
        struct stat st;
        put(model, "one");
        const int fd = open(model, O_RDWR);
        must(ctr_file_look(fd, model, &state, &err));
        must(pwrite(fd, "two", 3, 0) != 3);
        found += ctr_file_unchanged(fd, &state, &err) == CTR_EDATA;
        must(ctr_file_look(fd, model, &state, &err) || fstat(fd, &st));
        must(pwrite(fd, "six", 3, 0) != 3);
        const struct timespec times[] = { st.st_atim, st.st_mtim };
        must(futimens(fd, times));
        set_back += ctr_file_unchanged(fd, &state, &err) == CTR_EDATA;
        must(ctr_file_look(fd, model, &state, &err) || rename(model, spare));
        moved += !ctr_file_unchanged(fd, &state, &err);
        must(unlink(spare));
        moved += !ctr_file_unchanged(fd, &state, &err);
        close(fd);
    }
    ok(found == 50, "%s: a write is found, %d of 50", folder, found);
    ok(set_back == 50, "with its time set back, %d of 50", set_back);
    ok(moved == 100, "a file that is renamed or removed is the same, %d of 100", moved);
}

int main(void)
{
    const char *coarse = coarse_folder();
    alarm(300);
    name_files(NULL);
    must(model_make_rows(rows, &err));
    put(junk, "no model, but text");
    test_model("lr");
    test_model("mlp");
    test_hold(true);
    test_hold(false);
    test_look("a file");
    must(ctr_input_identity_keep("-", &err) || ctr_input_identity_keep("/dev/null", &err) ||
         ctr_input_identity_keep("/nowhere/at-all", &err));
    ok(!ctr_held("-") && !ctr_held("/dev/null") && !ctr_held("/nowhere/at-all"), "only regular files are");
    remove_files();
    if (!coarse) {
        ok(true, "coarse times # SKIP no folder that can be written to has them");
        return done_testing();
    }
    name_files(coarse);
    must(model_make_rows(rows, &err));
    put(junk, "no model, but text");
    test_model("lr");
    test_look(coarse);
    remove_files();
    return done_testing();
}
