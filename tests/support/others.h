/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/others.h - a program that closes all descriptors, as daemons do, and opens others under their numbers: of each
 * kind that nigh has, so that whatever reads, writes, polls, arms or closes one of them is found out.
 */
#ifndef NIGH_TESTS_OTHERS_H
#define NIGH_TESTS_OTHERS_H

enum { OTHERS_FIRST = 3, OTHERS_LAST = 127, OTHERS_KINDS = 6 };

/* All from OTHERS_FIRST on are closed. Which kind a number gets depends on `shift`, below OTHERS_KINDS: a test that goes through
 * all of these has each kind under each number. Ends the program where it cannot. */
void others_open_all(unsigned shift);
/* In place of that one alone. */
void others_open(int fd, unsigned kind);

/* The number of one that is not as it was opened, having said on stdout how; -1: all are. Closes them. */
int others_touched(void);

#endif
