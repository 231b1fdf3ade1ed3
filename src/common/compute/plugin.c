/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin: finds and opens ctr-cuda.so. No other file refers to it. */
#include "common/compute/compute_impl.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PLUGIN_NAME "ctr-cuda.so"

/* PROGRAM/../lib/ctr/ctr-cuda.so if it exists: as installed, and as in a build folder. */
static bool beside_program(char *path, size_t size)
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);

    if (n < 0)
        return false;
    program[n] = 0;
    snprintf(path, size, "%s/../lib/ctr/%s", dirname(program), PLUGIN_NAME);
    return access(path, R_OK) == 0;
}

int ctr_plugin_open(struct ctr_dev *dev, const char *path, struct ctr_err *err)
{
    char found[PATH_MAX + 32] = PLUGIN_NAME;

    if (!path)
        path = getenv("CTR_CUDA_PLUGIN");
    if (!path) {
        beside_program(found, sizeof found);
        path = found;
    }
    const char *why;
    void *handle = ctr_library(path, false, &why);
    if (!handle)
        return ctr_fail(err, CTR_ESYS, "no GPU: the plug-in cannot be opened: %s (it is built where there is nvcc)",
                        why);
    const struct ctr_plugin *plugin = dlsym(handle, CTR_PLUGIN_SYMBOL);
    if (!plugin || plugin->layout != CTR_PLUGIN_LAYOUT ||
        strncmp(plugin->version, CTR_VERSION, sizeof plugin->version) != 0) {
        int rc = plugin ? ctr_fail(err, CTR_EDATA,
                                   "%s: plug-in of version %.31s (layout %llx), and this program is %s (%llx): install "
                                   "both from one build",
                                   path, plugin->version, (unsigned long long)plugin->layout, CTR_VERSION,
                                   (unsigned long long)CTR_PLUGIN_LAYOUT)
                        : ctr_fail(err, CTR_EDATA, "%s: no plug-in of ctrkit", path);
        dlclose(handle);
        return rc;
    }
    dev->ops = plugin->ops;
    dev->plugin = handle;
    return 0;
}

void ctr_plugin_close(struct ctr_dev *dev)
{
    /* Stays mapped: threads and exit handlers of the driver may still run its code. */
    dev->plugin = NULL;
}
