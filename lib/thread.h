/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/thread.h - NIGH_PROGRESS=thread: a thread that waits and polls while the program computes. */
#ifndef NIGH_LIB_THREAD_H
#define NIGH_LIB_THREAD_H

#include "lib/core.h"

/* -ENOMEM (said): no thread can be started. */
int nigh_thread_start(struct nigh_call call);

/* Where such threads are to run: a list as in "0-3,7"; with as many CPUs as there are ranks each has the one of its
 * number. NULL or empty: where its rank does. -EINVAL: that is no list. */
int nigh_thread_cpus(const char *text);

/* A large message is under way (nigh_core.spare alone): it looks for itself for a moment. Under the lock. */
void nigh_thread_expect(void);

/* Ends it, if there is one; called with the lock, which is open meanwhile. */
void nigh_thread_stop(void);

#endif
