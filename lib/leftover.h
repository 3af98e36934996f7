/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/leftover.h - what a program has forgotten, named when it leaves. */
#ifndef NIGH_LIB_LEFTOVER_H
#define NIGH_LIB_LEFTOVER_H

/* Names requests that were never waited for, communicators that were not freed, messages held in place. How many. */
int nigh_leftover_requests(void);

/* Names messages that have arrived and were never received; to be asked when all ranks have come. How many. */
int nigh_leftover_messages(void);

#endif
