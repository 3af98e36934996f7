/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/foreign.h - completions of what the program has posted through nigh_plugin(), kept until it asks for them. */
#ifndef NIGH_LIB_FOREIGN_H
#define NIGH_LIB_FOREIGN_H

#include "lib/core.h"

/* Keeps a copy. Without memory for it the completion is lost, which is said. */
void nigh_foreign_add(const struct nigh_completion *completion);

void nigh_foreign_close(void);

#endif
