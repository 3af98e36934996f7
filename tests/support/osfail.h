/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/osfail.h - makes one call into the system fail, through the table of shm/os.h, and counts
 * what a process holds, so that a test sees that a failure leaves nothing behind. */
#ifndef NIGH_TESTS_OSFAIL_H
#define NIGH_TESTS_OSFAIL_H

#include "shm/os.h"

#define OSFAIL_ID(result, failed, name, parameters, arguments) OSFAIL_##name,
enum osfail_call { NIGH_OS_CALLS(OSFAIL_ID) OSFAIL_CALLS };
#undef OSFAIL_ID

extern const char *const osfail_names[OSFAIL_CALLS];

/* Puts counting replacements in the table; counters start at 0 and nothing fails yet. */
void osfail_install(void);
/* Puts the real calls back. */
void osfail_remove(void);
/* From now on: the nth call (1 is the next one) of `call` fails with `error`, once. */
void osfail_arm(enum osfail_call call, unsigned nth, int error);
/* The nth and all later ones fail. */
void osfail_arm_all(enum osfail_call call, unsigned nth, int error);
/* As on kernels without pidfds, until osfail_remove() or osfail_arm(): neither a socket gives one nor pidfd_open(). */
void osfail_take_pidfds(void);
/* Calls of `call` since osfail_install() or osfail_arm(). */
unsigned osfail_count(enum osfail_call call);
/* Whether an armed failure has happened. */
int osfail_hit(void);

/* Open descriptors and mappings of memfds of this process: equal before and after when nothing leaked. */
unsigned osfail_open_fds(void);
unsigned osfail_shared_maps(void);

#endif
