/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/light.h - requests of small sends, which need no operation: such a send is over when it is posted, so a request
 * is little more than its number. What a sender stores between two messages bounds its rate: stores leave the CPU in
 * order, and those to the ring wait for lines that another CPU holds (docs/rationale/libnigh.md). So a send stores one
 * word here, and more only if it is not like the one before it.
 */
#ifndef NIGH_LIB_LIGHT_H
#define NIGH_LIB_LIGHT_H

#include "lib/alike.h"

#include <stddef.h>

#define NIGH_LIGHTS      512u  /* the youngest: those that have ended are known by a bit each */
#define NIGH_LIGHTS_KEPT 4096u /* older ones that have not ended */
#define NIGH_LIGHT_WORDS (NIGH_LIGHTS / 64)

/*
 * Handle of a light request:   63 | 62 .. 11 | 10 .. 0
 *                               1 |  serial  |  bytes
 */
#define NIGH_LIGHT       (UINT64_C(1) << 63)
#define NIGH_LIGHT_BYTES UINT64_C(0x7ff)
#define NIGH_LIGHT_SHIFT 11

_Static_assert(NIGH_INJECT_BYTES <= NIGH_LIGHT_BYTES, "a handle says how long its message was");

/* What sends that follow each other have in common: from one call site to one rank, alike. */
struct nigh_run {
    uint64_t first; /* serial number of the first of them */
    uint64_t who;   /* 63 rank in the communicator 48 | 47 address of the call site 0 */
    uint64_t tag;   /* as the plugin has it: lib/comm.h */
    uint64_t bytes;
};

#define NIGH_RUN_RANK 48 /* addresses of programs end below */

_Static_assert(NIGH_MAX_RANKS <= UINT64_C(1) << (64 - NIGH_RUN_RANK), "any rank fits");

/*
 * A serial number is never given twice. Those in [limit - NIGH_LIGHTS, next) are young: the bit of each says whether it
 * has ended. When `next` comes to `limit`, 64 are too old to be, and what has not ended of them is kept elsewhere.
 */
struct nigh_lights {
    uint64_t next;  /* the next one's */
    uint64_t limit; /* a multiple of 64 */
    struct nigh_alike last;
    uint64_t ended[NIGH_LIGHT_WORDS]; /* by serial number, modulo NIGH_LIGHTS */
} __attribute__((aligned(64)));

_Static_assert(offsetof(struct nigh_lights, ended) == 64, "a send like the last one looks at one line");

extern struct nigh_lights nigh_lights;

void nigh_lights_open(void);

/* Ends that all of `next` up to `limit` are given: the next send may have one if there is room. False: the place of one
 * that must be kept is taken. */
bool nigh_lights_more(void);

/* The next ones are such sends: all has been checked. */
void nigh_lights_turn(const struct nigh_comm *comm, uint64_t with, uint64_t bytes, const char *site);

/* Who and where the last send was. */
uint64_t nigh_lights_who(void);

/* What is known of one that has not ended. False: it has ended, or never was. */
bool nigh_light_know(uint64_t id, struct nigh_run *known);

/* Ends one that is not young. False: as above. */
bool nigh_light_end_old(uint64_t serial);

/* Calls `visit` with the handle of each that has not ended, oldest first. */
void nigh_lights_each(void (*visit)(uint64_t id, void *data), void *data);

static inline uint64_t nigh_light_who(int rank, const char *site)
{
    return (uint64_t)(uint32_t)rank << NIGH_RUN_RANK |
           ((uintptr_t)site & ((UINT64_C(1) << NIGH_RUN_RANK) - 1));
}

static inline int nigh_who_rank(uint64_t who)
{
    return (int)(who >> NIGH_RUN_RANK);
}

static inline const char *nigh_who_site(uint64_t who)
{
    return (const char *)(uintptr_t)(who & ((UINT64_C(1) << NIGH_RUN_RANK) - 1));
}

/* Is this send like the last, and has a place? */
static inline bool nigh_light_goes_on(const struct nigh_comm *comm, uint64_t with, uint64_t bytes,
                                      const char *site)
{
    return nigh_is_alike(&nigh_lights.last, comm, with, bytes, site) &&
           nigh_likely(nigh_lights.next != nigh_lights.limit);
}

/* Its handle. */
static inline uint64_t nigh_light_take(uint64_t bytes)
{
    return NIGH_LIGHT | nigh_lights.next++ << NIGH_LIGHT_SHIFT | bytes;
}

static inline uint64_t nigh_light_serial(uint64_t id)
{
    return (id & ~NIGH_LIGHT) >> NIGH_LIGHT_SHIFT;
}

static inline bool nigh_light_is_young(uint64_t serial)
{
    return serial - (nigh_lights.limit - NIGH_LIGHTS) < nigh_lights.next - (nigh_lights.limit - NIGH_LIGHTS);
}

static inline uint64_t *nigh_light_word(uint64_t serial)
{
    return &nigh_lights.ended[serial / 64 % NIGH_LIGHT_WORDS];
}

/* Has the one that `id` names not ended? */
static inline bool nigh_light_stands(uint64_t id)
{
    uint64_t serial = nigh_light_serial(id);
    struct nigh_run known;

    if (nigh_likely(!(id & NIGH_LIGHT)))
        return false;
    return nigh_light_is_young(serial) ? !(*nigh_light_word(serial) >> serial % 64 & 1)
                                       : nigh_light_know(id, &known);
}

/* Ends the one that `id` names. False: it has ended, or is none. */
static inline bool nigh_light_end(uint64_t id)
{
    uint64_t serial = nigh_light_serial(id), bit = UINT64_C(1) << serial % 64;
    uint64_t *word = nigh_light_word(serial);

    if (!(id & NIGH_LIGHT))
        return false;
    if (nigh_unlikely(!nigh_light_is_young(serial)))
        return nigh_light_end_old(serial);
    if (*word & bit)
        return false;
    *word |= bit;
    return true;
}

#define NIGH_LIGHT_NEXT \
    (UINT64_C(1) << NIGH_LIGHT_SHIFT) /* from a handle to the next one of the same length */

/* How many from the one that `id` names on have not ended, as far as one word tells. 0: that has,
 * or is none, or is old. */
static inline uint32_t nigh_lights_standing(uint64_t id)
{
    uint64_t serial = nigh_light_serial(id), ended, given;
    uint32_t run;

    if (!(id & NIGH_LIGHT) || !nigh_light_is_young(serial))
        return 0;
    ended = *nigh_light_word(serial) >> serial % 64;
    run = ended ? (uint32_t)__builtin_ctzll(ended) : 64 - (uint32_t)(serial % 64);
    given = nigh_lights.next - serial;
    return run < given ? run : (uint32_t)given;
}

/* Ends the first `count` of these, at least one. */
static inline void nigh_lights_end(uint64_t id, uint32_t count)
{
    uint64_t serial = nigh_light_serial(id);

    *nigh_light_word(serial) |= UINT64_MAX >> (64 - count) << serial % 64;
}

#endif
