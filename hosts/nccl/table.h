/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/nccl/table.h - what NCCL holds of ours: numbers in the place of pointers. A number says its kind and how often its place
 * was used before, so a host that uses one after its end, or one of another kind, gets an error and not a crash.
 */
#ifndef NIGH_NCCL_TABLE_H
#define NIGH_NCCL_TABLE_H

#include <stdbool.h>
#include <stdint.h>

enum nigh_nccl_kind {
    NIGH_NCCL_CONTEXT = 1 << 0,
    NIGH_NCCL_LISTENER = 1 << 1,
    NIGH_NCCL_SENDER = 1 << 2,
    NIGH_NCCL_RECEIVER = 1 << 3,
    NIGH_NCCL_MEMORY = 1 << 4,
};

/* A number for an object; NULL: no memory, or a million are in use. Any thread. */
void *nigh_nccl_table_add(enum nigh_nccl_kind kind, void *object);
/* The object, if the number is of one of `kinds` and in use; else NULL. Any thread, never waits. */
void *nigh_nccl_table_find(unsigned kinds, const void *number);
/* The number is over. */
void nigh_nccl_table_remove(const void *number);

/* In a forked child: all numbers are over, as nigh's contexts are the parent's. Waits for nobody: a thread of the parent may
 * have held the lock. */
void nigh_nccl_table_forked(void);
/* Was the number good in the process that this one was forked from? */
bool nigh_nccl_table_inherited(const void *number);

/* Requests: a connection's number with a place in it and a serial number. */
enum { NIGH_NCCL_SERIAL_BITS = 18, NIGH_NCCL_PLACE_BITS = 6 };
void *nigh_nccl_request_number(const void *connection, unsigned place, uint32_t serial);
unsigned nigh_nccl_request_place(const void *request);
uint32_t nigh_nccl_request_serial(const void *request);
/* The connection, or NULL. */
void *nigh_nccl_request_find(const void *request);

#endif
