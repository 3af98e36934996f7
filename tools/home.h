/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/home.h - where the parts of nigh lie that a tool needs: named by a variable, in the build folder that the tool
 * itself lies in, or installed. So every tool works from a build folder with no variable set. */
#ifndef NIGH_TOOLS_HOME_H
#define NIGH_TOOLS_HOME_H

#include <stdbool.h>
#include <stddef.h>

/* The path of `part`, such as "plugin/.libs/nigh.so", in the build folder that the running program lies in. False: it lies
 * in none, or there is no such part. */
bool tool_in_build(const char *part, char *path, size_t room);

/* The root of the sources that the build folder was configured for. False: the running program lies in none. */
bool tool_sources(char *path, size_t room);

/* The module: $NIGH_PLUGIN, else that of the build folder, else the installed one. Does not look whether it can be read. */
void tool_plugin(char *path, size_t room);

#endif
