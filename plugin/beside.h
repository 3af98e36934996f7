/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/beside.h - two ranks with a CPU each: of a long message each side copies half, straight from one process to the
 * other (help.h), where the CPU is better off so than with two copies beside each other in chunks.
 */
#ifndef NIGH_PLUGIN_BESIDE_H
#define NIGH_PLUGIN_BESIDE_H

#include <stdbool.h>
#include <stdint.h>

/* A receiver that is there is done with one some us behind the last. One that is not, as it computes, is not waited for the
 * next times. config.away_ns. */
#define NIGH_BESIDE_AWAY_NS 100000u

struct nigh_context;
struct nigh_endpoint;
struct nigh_send_op;

/* On this CPU, from so many bytes on, of a message that follows no other, and of one of a row; UINT64_MAX: none. What
 * config.beside_from and .beside_row_from are. */
uint64_t nigh_beside_from(void);
uint64_t nigh_beside_row_from(void);

/* Are messages copied so here? */
bool nigh_beside_is_on(const struct nigh_context *context);
/* Would the peer copy a part of what we send it, and we the rest? */
bool nigh_beside_both_copy(const struct nigh_endpoint *endpoint);
/* Is a message of so many bytes copied so, which follows no other? */
bool nigh_beside_takes(const struct nigh_endpoint *endpoint, uint64_t bytes);
/* The same of the next one; if it may not wait for its receive, not of up to NIGH_EAGER. */
bool nigh_beside_takes_next(struct nigh_endpoint *endpoint, uint64_t bytes, bool may_wait);
/* It has begun, in whichever way. */
void nigh_beside_begun(struct nigh_endpoint *endpoint, uint64_t bytes);
/* FINISH has come for one of up to NIGH_EAGER, and perhaps for others with it. */
void nigh_beside_early_over(struct nigh_endpoint *endpoint, const struct nigh_send_op *op);
/* HELP has come for one: its receiver is there. */
void nigh_beside_early_asked(struct nigh_endpoint *endpoint, const struct nigh_send_op *op);

#endif
