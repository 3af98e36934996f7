/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/doorbell.h - sleeping and being woken. A context that goes to sleep raises `asleep` in its arena,
 * fences, looks once more and sleeps on its doorbell; a peer that publishes looks at `asleep` and rings. The
 * fence between the peer's publishing and its look costs more than all the rest of a small send, so where the
 * kernel has membarrier the sleeper runs it for everybody (asymmetric fences). docs/memory-model.md has the
 * proof.
 */
#ifndef NIGH_SHM_DOORBELL_H
#define NIGH_SHM_DOORBELL_H

#include "include/common/descriptor.h"
#include "shm/layout.h"
#include "shm/shared.h"
#include <stdbool.h>

struct nigh_bell {
    struct nigh_doorbell *shared; /* writable; NULL: not open */
    uint64_t bytes;
    uint32_t words;         /* of hints */
    int fd;                 /* own memfd; -1 in a peer's */
    struct nigh_file_id id; /* of fd */
};

/* Own doorbell for `peers_max` peers (1 .. NIGH_PEERS_MAX), wholly backed by memory. -ENOMEM, -EMFILE,
 * -EPERM, -ENOSYS, logged; nothing remains then and *out is not written. */
int nigh_bell_create(uint32_t peers_max, struct nigh_bell *out);
/* A peer's, from its descriptor, which it does not close. Checks size and seals (SHRINK, GROW, SEAL): -EPROTO; -ENOMEM.
 * Both logged. */
int nigh_bell_map(int fd, struct nigh_bell *out);
/* Both kinds; closes its descriptor. Nothing happens if shared is NULL. */
void nigh_bell_close(struct nigh_bell *bell);

/* True when this process is registered for membarrier, so its publishers need no fence of their own towards
 * sleepers that run it. Registers at the first call, which may take milliseconds in a process with threads;
 * any thread. */
bool nigh_bell_light(void);

/* Whether publishing to the owner of `arena` needs no fence (nigh_fence_light instead of nigh_fence_full,
 * SLEEP_CHECK): this process is registered and the owner runs membarrier before it sleeps. Ask once a peer. */
static inline bool nigh_bell_light_to(const struct nigh_arena_header *arena)
{
    return (arena->flags & NIGH_ARENA_FENCES) && nigh_bell_light();
}

/* Whether peers may rely on this process to run membarrier before it sleeps: registered, and not refused to this thread since.
 * For NIGH_ARENA_FENCES, by which they are told. */
bool nigh_bell_can_fence(void);

/* The sleeper's side of the asymmetric fence (SLEEP_ENTER): afterwards whatever any peer published is visible
 * here, or that peer will see our flag. One system call of about a microsecond where peers `rely` on membarrier. False: it is
 * refused now, as by a sandbox that closed later (logged once). Then a peer may miss the flag, so sleep for NIGH_UNFENCED_NS
 * at most. */
bool nigh_bell_fence(bool rely);
#define NIGH_UNFENCED_NS UINT64_C(10000000)

/* Wakes the owner of a peer's (or own) doorbell; `asleep` as read from its arena (any value: it is a peer's).
 * Changes the bell always; system calls only for the values of enum nigh_asleep. Never blocks. */
void nigh_bell_ring(struct nigh_bell *bell, uint32_t asleep);

/* Tells the owner that the ring from the peer it knows as `index` has something. Out of range: nothing
 * happens. After publishing (HINT_SET). */
void nigh_bell_hint(struct nigh_bell *bell, uint32_t index);

/* Asks the owner for a full pass: it finds the request at its next look, and by the hint for `index` it looks. Returns
 * the number of this nudge. The caller rings the bell behind a fence of its own (SLEEP_CHECK). */
uint64_t nigh_bell_nudge(struct nigh_bell *bell, uint32_t index);

/* The number of the last nudge (NUDGE_SEE). */
static inline uint64_t nigh_bell_nudges(const struct nigh_bell *bell)
{
    return nigh_load_acquire(&bell->shared->nudges, NUDGE_SEE);
}

/* The bell's value before the last look (BELL_READ). */
static inline uint32_t nigh_bell_read(const struct nigh_bell *bell)
{
    return nigh_load_acquire(&bell->shared->bell, BELL_READ);
}

/* Sleeps until the bell differs from `seen` or timeout_ns from now have passed (UINT64_MAX: no limit). 0: look
 * again, the bell has perhaps changed; -ETIMEDOUT; -EINTR a signal handler ran. */
int nigh_bell_sleep(struct nigh_bell *bell, uint32_t seen, uint64_t timeout_ns);

#endif
