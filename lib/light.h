/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/light.h - the short way of small sends: the one line that it writes, and requests that need no operation.
 *
 * What a sender stores between two messages bounds its rate: stores leave the CPU in order, and those to the ring wait
 * for lines that another CPU holds, so each further line that is stored to costs about 9 ns across two L3s
 * (docs/rationale.md). Hence all that a small send changes lies in the line of its call site.
 *
 * A small send is over when it is posted. Nothing is left to happen to its request, so that is half a line in a small table
 * instead of an operation. Where its place there is still taken, by a request of NIGH_LIGHTS sends ago, it is an ordinary one.
 */
#ifndef NIGH_LIB_LIGHT_H
#define NIGH_LIB_LIGHT_H

#include "lib/core.h"

#include <stddef.h>

#define NIGH_LIGHTS 512u /* 16 KiB: half of a first-level cache */

/*
 * Handle of a light request:   63 | 62 .. 31 | 30 .. 11 | 10 .. 0
 *                               1 |  serial  |  thread  |  bytes
 * The low bits of the serial number are its place. Threads number for themselves: a counter in common would be one more
 * line to store to.
 */
#define NIGH_LIGHT        (UINT64_C(1) << 63)
#define NIGH_LIGHT_BYTES  UINT64_C(0x7ff)
#define NIGH_LIGHT_THREAD (UINT64_C(1) << 11)
#define NIGH_LIGHT_STEP   (UINT64_C(1) << 31)

_Static_assert(NIGH_INJECT_BYTES <= NIGH_LIGHT_BYTES, "a handle says how long its message was");

struct nigh_light {
    uint64_t id;           /* the handle, 0: free */
    uint64_t who;          /* 63 rank in the communicator 48 | 47 address of the call site 0 */
    uint64_t tag;          /* as the plugin has it: lib/comm.h */
    nigh_request *request; /* of the caller, while the plugin may still refuse the send */
} __attribute__((aligned(32)));

#define NIGH_LIGHT_RANK 48 /* addresses of programs end below */

_Static_assert(NIGH_MAX_RANKS <= UINT64_C(1) << (64 - NIGH_LIGHT_RANK), "any rank fits");

/* Two neighbours at once: an entry of the store queue less. */
typedef uint64_t nigh_two_words __attribute__((vector_size(16), may_alias));

static inline void nigh_store_two(void *at, uint64_t first, uint64_t second)
{
    *(nigh_two_words *)at = (nigh_two_words){first, second};
}

/* What is in nigh_site. The first line is written by each send, the second by none. */
struct nigh_hot {
    const char *site;
    uint64_t next; /* handle of the next light request, of no bytes yet */
    uint64_t spare[2];
    struct nigh_send send; /* nigh_hot_open() */
};

_Static_assert(offsetof(struct nigh_hot, send.tag) + 8 == 64, "buffer, bytes and tag end with the line");
_Static_assert(sizeof(struct nigh_hot) <= sizeof(struct nigh_site), "it lies in there");

extern struct nigh_light nigh_lights[NIGH_LIGHTS];

/* Of this thread. */
static inline struct nigh_hot *nigh_hot(void)
{
    return (struct nigh_hot *)(void *)&nigh_site;
}

void nigh_hot_open(struct nigh_hot *hot);

/* Has this thread sent before? */
static inline bool nigh_hot_is_open(const struct nigh_hot *hot)
{
    return (hot->next & NIGH_LIGHT) != 0;
}

static inline struct nigh_light *nigh_light_place(uint64_t id)
{
    return &nigh_lights[id / NIGH_LIGHT_STEP % NIGH_LIGHTS];
}

/* What `id` names, NULL if it is of another kind or was waited for. Inline: id of a request that is light, mostly. */
static inline struct nigh_light *nigh_light_find(uint64_t id)
{
    struct nigh_light *light = nigh_light_place(id);

    return id & NIGH_LIGHT && light->id == id ? light : NULL;
}

static inline uint64_t nigh_light_who(int rank, const char *site)
{
    return (uint64_t)(uint32_t)rank << NIGH_LIGHT_RANK |
           ((uintptr_t)site & ((UINT64_C(1) << NIGH_LIGHT_RANK) - 1));
}

static inline int nigh_light_rank(const struct nigh_light *light)
{
    return (int)(light->who >> NIGH_LIGHT_RANK);
}

static inline const char *nigh_light_site(const struct nigh_light *light)
{
    return (const char *)(uintptr_t)(light->who & ((UINT64_C(1) << NIGH_LIGHT_RANK) - 1));
}

static inline void nigh_light_give(struct nigh_light *light)
{
    light->id = 0;
}

#endif
