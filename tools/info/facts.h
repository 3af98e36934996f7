/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/facts.h - what nigh-info finds out, a section each, as the JSON that --json prints and from which the
 * tables for people are made. docs/man/nigh-info.1 lists the members. */
#ifndef NIGH_INFO_FACTS_H
#define NIGH_INFO_FACTS_H

#include <jansson.h>

#include "tools/info/plugin.h"

/* Each returns a new reference, or NULL when there is no memory. What cannot be found out is said in the section, in a
 * member "error". */
json_t *info_module(const struct info_plugin *plugin);
json_t *info_machine(const struct info_plugin *plugin);
json_t *info_limits(const struct info_plugin *plugin);
json_t *info_environment(const struct info_plugin *plugin);
/* Opens contexts in this process and in one that it forks, and exchanges messages for some tenths of a second. */
json_t *info_paths(const struct info_plugin *plugin);

/* Hands memory of CUDA devices from one child process to another: some seconds where there are many devices. */
json_t *info_devices(const struct info_plugin *plugin);

/* Tries each MPI that is found, in a child process: some tenths of a second each. */
json_t *info_mpis(const struct info_plugin *plugin);

/* Loads what NCCL would load as its net plugin, in a child process. */
json_t *info_nccl(const struct info_plugin *plugin);

#endif
