/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/machine.h - what this machine lets this process do, for query() and nigh-info. Looks at each call and changes
 * nothing; takes milliseconds. */
#ifndef NIGH_PLUGIN_MACHINE_H
#define NIGH_PLUGIN_MACHINE_H

#include "nigh/transport.h"

/* Fills all of *out. What cannot be found out is 0, with the reason in the reason. Cannot fail. Any thread. */
void nigh_machine_query(struct nigh_query_machine *out);

#endif
