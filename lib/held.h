/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/held.h - messages received in place that the program has not released yet, for the list of leftovers. */
#ifndef NIGH_LIB_HELD_H
#define NIGH_LIB_HELD_H

#include "lib/request.h"

/* The message that `operation`, a receive in place, was given at operation->data. */
void nigh_held_add(const struct nigh_operation *operation);

/* It was released. */
void nigh_held_remove(const void *data);

/* Names each that is left and forgets them; how many there were. */
int nigh_held_report(void);

#endif
