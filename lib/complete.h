/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/complete.h - what lib/complete.c needs to know of its neighbours. */
#ifndef NIGH_LIB_COMPLETE_H
#define NIGH_LIB_COMPLETE_H

#include <stdbool.h>
#include <stdint.h>

/* Is it the context of a wake-up among threads (lib/progress.c)? */
bool nigh_progress_is_wake(uint64_t context);

#endif
