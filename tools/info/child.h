/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/child.h - what may crash, hang or stay loaded is tried in a process of its own, which writes what it found. */
#ifndef NIGH_INFO_CHILD_H
#define NIGH_INFO_CHILD_H

#include <jansson.h>

/* Runs try() in a child, which is ended after `ms`, with standard streams that lead nowhere. What it returns is written as JSON,
 * and read here. NULL: the child has ended before it said anything. */
json_t *info_in_child(json_t *(*try)(const void *data), const void *data, int ms);

#endif
