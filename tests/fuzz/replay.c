/* SPDX-License-Identifier: Apache-2.0
 *
 * replay: main of a fuzz target without libFuzzer: runs the named files, and those in the named folders, and prints how
 * many. --alloc: runs each again and again, and the N-th allocation fails, for every N (of many, a sample): no crash,
 * and nothing is left allocated. */
#include "../unit/alloc.h"
#include "harness.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

enum { MUTATIONS = 400 }; /* of one file */
enum { MOST_RUNS = 200 }; /* of one file, each with another allocation that fails */

static int files;
static bool starve, mutate;
static long failures, leaks;

bool fuzz_starved(void)
{
    return alloc_armed && alloc_countdown <= 0;
}

static void run_starved(const char *path, const uint8_t *data, size_t n)
{
    alloc_arm(1L << 40);
    LLVMFuzzerTestOneInput(data, n);
    long made = (1L << 40) - alloc_countdown;
    alloc_disarm();
    for (long i = 1; i <= made; i += made > MOST_RUNS ? 1 + (i * 7919 + files) % (2 * made / MOST_RUNS) : 1) {
        alloc_arm(i);
        LLVMFuzzerTestOneInput(data, n);
        failures += alloc_disarm();
        if (alloc_live && !leaks++)
            fprintf(stderr, "%s: allocation %ld fails: %ld are left\n", path, i, alloc_live);
    }
}

/* Changes upon changes, from the file anew after each eighth. */
static void run_mutated(const uint8_t *data, size_t n)
{
    size_t most = 2 * n + 4096, k = n;
    uint8_t *d = malloc(most);
    for (unsigned seed = 0; d && seed < MUTATIONS; seed++) {
        if (seed % 8 == 0)
            memcpy(d, data, k = n);
        k = LLVMFuzzerCustomMutator(d, k, most, seed);
        uint8_t *exact = malloc(k ? k : 1);
        if (exact)
            LLVMFuzzerTestOneInput(memcpy(exact, d, k), k);
        free(exact);
    }
    free(d);
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st)) {
        perror(path);
        return 1;
    }
    uint8_t *data = malloc((size_t)st.st_size + 1);
    size_t n = data ? fread(data, 1, (size_t)st.st_size, f) : 0;
    uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees a read behind the end */
    if (exact)
        memcpy(exact, data, n);
    free(data);
    fclose(f);
    if (exact && getenv("FUZZ_VERBOSE"))
        fprintf(stderr, "%s\n", path);
    if (exact)
        LLVMFuzzerTestOneInput(exact, n);
    if (exact && starve)
        run_starved(path, exact, n);
    if (exact && mutate && LLVMFuzzerCustomMutator)
        run_mutated(exact, n);
    free(exact);
    files++;
    return 0;
}

static int run_folder(const char *path)
{
    DIR *d = opendir(path);
    int failed = 0;
    if (!d)
        return run_file(path);
    for (struct dirent *e; (e = readdir(d));) {
        char name[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        failed |= run_file(name);
    }
    closedir(d);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    starve = ALLOC_WATCHED && argc > 1 && !strcmp(argv[1], "--alloc");
    mutate = argc > 1 && !strcmp(argv[1], "--mutate");
    for (int i = 1 + (argc > 1 && argv[1][0] == '-'); i < argc; i++)
        failed |= run_folder(argv[i]);
    if (starve)
        printf("%d files, %ld allocations failed, %ld left something behind\n", files, failures, leaks);
    else
        printf("%d files\n", files);
    return failed || leaks;
}
