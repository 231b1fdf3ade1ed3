/* SPDX-License-Identifier: Apache-2.0
 *
 * main_one: main() of a program that is one tool. */
#include "common/cli/cli.h"

int main(int argc, char **argv)
{
    return ctr_cli_main(&ctr_tool, argc, argv);
}
