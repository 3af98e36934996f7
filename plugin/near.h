/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/near.h - where ranks share CPUs: which of the peers that each pass looks at share ours. */
#ifndef NIGH_PLUGIN_NEAR_H
#define NIGH_PLUGIN_NEAR_H

#include <stdint.h>

struct nigh_context;

/* Where this thread runs, + 1; 0: not known. A message that its receiver copies says so of its sender, too. */
uint32_t nigh_near_cpu(void);

/* Tells peers on which CPU we are. */
void nigh_near_tell(struct nigh_context *context);
/* Puts those on ours first in the list of the hot. */
void nigh_near_first(struct nigh_context *context);

#endif
