/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/name.h - addresses that a host makes of a node and a service before there is an endpoint. They are
 * records of the size of nigh's addresses, and stand for the endpoint that was opened under that name on this machine.
 */
#ifndef NIGH_LIBFABRIC_NAME_H
#define NIGH_LIBFABRIC_NAME_H

#include "nigh/transport.h"

#include <stdbool.h>

/* The record of a node and a service, or, with both NULL, one that stands for no endpoint yet. -FI_ENODATA
 * `node` is not this machine; logged. */
int nigh_fi_name_make(const char *node, const char *service, void *out);

/* Is it such a record? *job: the nigh job that stands for it, in which the endpoint is rank 0; 0:
 * it stands for none. */
bool nigh_fi_name_read(const void *address, uint64_t *job);

#endif
