/* SPDX-License-Identifier: Apache-2.0
 *
 * replay: main of a fuzz target without libFuzzer: runs the named files, and those in the named folders, and prints how
 * many. */
#include "harness.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

static int files;

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
    for (int i = 1; i < argc; i++)
        failed |= run_folder(argv[i]);
    printf("%d files\n", files);
    return failed;
}
