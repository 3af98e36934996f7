/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/pair.h - a job of two: this process and one that it forks, which sends back what it gets. */
#ifndef NIGH_INFO_PAIR_H
#define NIGH_INFO_PAIR_H

#include <sys/types.h>

#include "tools/info/plugin.h"

#define INFO_PROBLEM 512

struct info_pair {
    const struct nigh_ops *ops;
    struct nigh_context *context;
    struct nigh_endpoint *self, *other;
    pid_t child;
    char *buffer;
    char problem[INFO_PROBLEM]; /* what went wrong, with the last line that the module logged */
};

/* Forks, opens on both sides, connects to itself and to the other process. 0, or -1 with pair->problem set and nothing
 * left behind. */
int info_pair_open(const struct info_plugin *plugin, struct info_pair *pair);

/* Exchanges messages of all sizes with the endpoint, so that the module measures and chooses. 0, or -1 and problem. */
int info_pair_exercise(struct info_pair *pair, struct nigh_endpoint *endpoint);

/* Ends the other process and closes. */
void info_pair_close(struct info_pair *pair);

#endif
