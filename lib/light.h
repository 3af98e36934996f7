/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/light.h - the short way of small sends: the one line that it writes, and requests that need no operation.
 *
 * What a sender stores between two messages bounds its rate: stores leave the CPU in order, and those to the ring wait
 * for lines that another CPU holds, so each further line that is stored to costs about 9 ns across two L3s
 * (docs/rationale.md). Hence all that a small send changes lies in the line of its call site.
 *
 * A small send is over when it is posted. Nothing is left to happen to its request, so that is sixteen bytes in a small table
 * instead of an operation. Where its place there is still taken, by a request of NIGH_LIGHTS sends ago, it is an ordinary one.
 */
#ifndef NIGH_LIB_LIGHT_H
#define NIGH_LIB_LIGHT_H

#include "lib/core.h"

#include <stddef.h>

#define NIGH_LIGHTS 1024u /* 16 KiB: half of a first-level cache */

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
    uint64_t id;      /* the handle, 0: free */
    const char *site; /* of the call that sent it */
} __attribute__((aligned(16)));

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
    /* Of a send that the plugin may refuse. */
    nigh_request *request;
    uint64_t dest;
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

static inline void nigh_light_give(struct nigh_light *light)
{
    light->id = 0;
}

#endif
