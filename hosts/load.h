/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/load.h - nigh.so for a host that is itself a shared object. */
#ifndef NIGH_HOSTS_LOAD_H
#define NIGH_HOSTS_LOAD_H

#include "nigh/transport.h"

#include <stddef.h>

/* Loads $NIGH_PLUGIN, else the nigh.so beside the host's object, else the installed one. Returns its table, which stays
 * good until the process ends; NULL: `why`, of `room` bytes, says what failed and what to do. */
const struct nigh_ops *nigh_host_load(char *why, size_t room);

#endif
