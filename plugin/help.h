/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/help.h - two copy one message: the sender of one that its receiver reads out of its process writes slices of
 * it into the receiver's while it has nothing else to do. The receiver takes slices from the first on, the sender from
 * the last. Where ranks outnumber CPUs, so that what comes to one rank from many is not copied on that rank's CPU alone;
 * where each has one, so that both are at work with one copy.
 */
#ifndef NIGH_PLUGIN_HELP_H
#define NIGH_PLUGIN_HELP_H

#include "shm/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct nigh_context;
struct nigh_endpoint;
struct nigh_message;
struct nigh_send_op;

/*
 * In a crowd. Few slices: between two of its own a sender is one of several on its CPU, and what they leave in the caches is lost.
 * Gather of 1 MiB to one of 8 ranks on 2 CPUs over Intel MPI, in parts of its own, with slices of 64, 128 and 256
 * KiB: 1.6, 1.2 and 1.1; without help 1.9. But at least two, which is worth it from 256 KiB on, where messages of that
 * length are copied once: gather of 256 KiB on an Emerald Rapids 1.03 and, with help, 0.55 of its own.
 */
#define NIGH_HELP_SLICE_BYTES (256u * 1024)
#define NIGH_HELP_FROM        (256u * 1024)
/* Beside a CPU of its own; which messages come so is beside.c's. */
#define NIGH_HELP_BESIDE_FROM (32u * 1024)
/*
 * Below, each of several is one slice there: calls twice as long, and half as many. Windows of 48, 64, 96 and 128 KiB over
 * Open MPI had 10.7, 10.4, 12.3 and 13.2 GB/s in halves and 12.5, 12.0, 13.3 and 14.0 so; 256 KiB the same.
 */
#define NIGH_HELP_HALVES_FROM (224u * 1024)

/* What a word has room for, 16 GiB: longer ones the receiver copies alone. */
#define NIGH_HELP_SLICES_MAX 65534u

/* Both sides': where what concerns an offer is; */
static inline uint32_t nigh_help_slot(uint32_t offer)
{
    return offer % NIGH_OFFERS;
}

/* what it says; */
static inline uint64_t nigh_help_word(uint32_t offer, uint32_t counts)
{
    return (uint64_t)offer << 32 | counts;
}

/* how many slices there are; */
static inline uint64_t nigh_help_slices(uint64_t bytes, uint32_t slice)
{
    return (bytes + slice - 1) / slice;
}

/* and how long each is of a message of so many bytes, which with `one` is one. */
uint32_t nigh_help_slice_of(uint64_t bytes, bool one);

/* The sender's side of an endpoint: what the peer has asked it to help with. */
struct nigh_help {
    struct nigh_send_op *op; /* NULL: nothing */
    uint64_t to, bytes;      /* an address in the peer's process */
    uint32_t offer, taken;   /* the peer's number for it; slices that we have taken */
    uint32_t slice;          /* bytes */
};

/* ---- the receiver's ---- */

/* Did its sender run on `cpu`, which is ours? Then it cannot help, as it runs only while we do not. */
bool nigh_help_cannot(const struct nigh_message *message, uint32_t cpu);

/* May its sender be asked to help? Then it is worth to look first whether other messages wait. */
bool nigh_help_may(const struct nigh_message *message);
/* Asks the senders of those that wait to be copied, where one would wait for another: from then on nothing may be
 * written to the buffer of one that has `offer` but slices that nigh_help_take() has given. */
void nigh_help_offer(struct nigh_context *context);
/* Short enough to be one slice beside others, and nothing of it is copied yet? */
bool nigh_help_is_short(const struct nigh_message *message);
/* Is all of it one slice that the sender was asked for, and has said nothing of? Of what it has put back it says so. */
bool nigh_help_is_unanswered(const struct nigh_message *message);
/* The bytes of the next slice of an offered message, which begins at `got`. 0: the sender has the rest, for now. */
uint64_t nigh_help_take(struct nigh_message *message);
/* Has the sender taken any? */
bool nigh_help_has_begun(const struct nigh_message *message);
/* Does the sender write to its buffer now, or may it? */
bool nigh_help_writes(const struct nigh_message *message);
/* Has it claimed more than there is? */
bool nigh_help_lies(const struct nigh_message *message);
/* Has all of an offered message been copied? Not while nigh_help_writes(). */
bool nigh_help_is_whole(const struct nigh_message *message);
/* Was all of it one slice, which the sender has written? Then it knows that it is over. */
bool nigh_help_was_senders(const struct nigh_message *message);
/* No further slice is the sender's; one that it is at is still written. */
void nigh_help_withdraw(struct nigh_message *message);
/* The message ends. */
void nigh_help_end(struct nigh_message *message);

/* ---- the sender's ---- */

/* HELP has come, for `bytes` at `to`; with `one` they are one slice. False: they cannot be, or were. */
bool nigh_help_asked(struct nigh_endpoint *endpoint, struct nigh_send_op *op, uint32_t offer, uint64_t to,
                     uint64_t bytes, bool one);
/* A slice, or several short messages; in a crowd a turn. False: there was none. */
bool nigh_help_progress(struct nigh_context *context);
/* The operation that we were asked to help with ends. */
void nigh_help_forget(struct nigh_endpoint *endpoint, struct nigh_send_op *op);

#endif
