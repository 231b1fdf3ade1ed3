/* SPDX-License-Identifier: Apache-2.0
 *
 * main_all: main() of one program that is every tool (`make single`): the name it was started by chooses the tool, and
 * any other name is ctrkit, which starts the program again by the name of a tool. The Makefile writes the table,
 * tools.inc, a line TOOL(name) each, and renames each tool's `ctr_tool` so. */
#include "common/cli/cli.h"

#define TOOL(name) extern const struct ctr_tool ctr_tool_##name;
#include "tools.inc"
#undef TOOL

static const struct ctr_tool *const all[] = {
#define TOOL(name) &ctr_tool_##name,
#include "tools.inc"
#undef TOOL
    NULL,
};

static const struct ctr_tool *find(const char *name)
{
    for (int i = 0; all[i]; i++)
        if (!strcmp(all[i]->name, name))
            return all[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const char *path = argc > 0 ? argv[0] : "", *slash = strrchr(path, '/');
    const struct ctr_tool *tool = find(slash ? slash + 1 : path);
    ctr_tools = all;
    return ctr_cli_main(tool ? tool : find("ctrkit"), argc, argv);
}
