/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/shared.h - every access to shared memory. This header alone names memory orders. Each acquire, release
 * and fence carries a label from the table below that names its partner; an unlisted label does not compile,
 * and a test fails a label that is used without its partner. docs/memory-model.md argues each pair.
 */
#ifndef NIGH_SHM_SHARED_H
#define NIGH_SHM_SHARED_H

#include <stdint.h>

/*
 * LABEL(name, kind, partner)
 *
 *   RING_PUBLISH   the producer's store of a slot's first word: everything of the message is visible before it
 *   RING_PEEK      the consumer's load of that word
 *   COUNT_SET      the producer's store of how many bytes of a message lie in a shuttle: they are visible before it
 *   COUNT_GET      the consumer's load of it
 *   CREDIT_RETURN  the consumer's store of how far it has read: its reads of the slots are done before it
 *   CREDIT_TAKE    the producer's load of it before it overwrites those slots or reuses those chunks
 *   DIRECTORY_SET  the producer's store of where a pair's ring lies
 *   DIRECTORY_GET  the consumer's load of it
 *   ATTACH_TELL    the listener's fence between its answer, by socket, and its next look at the dialler's ring
 *   ATTACH_LOOK    the dialler's fence between publishing in a ring that nobody has attached, and its look for an answer
 *   SLEEP_ENTER    the sleeper's fence between raising its flag and its last look at the rings
 *   SLEEP_CHECK    the publisher's fence between publishing and its look at the flag
 *   HINT_SET       the publisher's read-modify-write of a hint bit, after publishing
 *   HINT_TAKE      the consumer's exchange of a hint word, before it polls those rings
 *   BELL_RING      the waker's increment of the futex word
 *   BELL_READ      the sleeper's load of it before its last look
 *   FLAG_RAISE     the service thread's store "there is something to do"
 *   FLAG_SEE       the owner's load of it
 *   GOODBYE_SAY    the store "I have left you", after everything that was published
 *   GOODBYE_HEAR   the peer's load of it, before it reads the rest
 *   LEAVE_SAY      the fence of one who leaves a peer, or deregisters memory, between saying so and using memory that
 *                  the peer may be reading
 *   LEAVE_HEAR     the reader's fence between its copy out of that memory and its look whether the owner has said so
 *   REGION_SET     the owner's store of a registered region's key, of its place, and of where their table lies
 *   REGION_GET     the reader's load of each of these
 *   DEVICES_TELL   the owner's store of how many CUDA devices it uses, behind what they are
 *   DEVICES_HEAR   the peer's load of it
 *   NOTE_SET       the owner's store of each word of its status line
 *   NOTE_GET       an observer's load of each of these
 *   NUDGE_SET      the read-modify-write that asks a peer for a full pass
 *   NUDGE_SEE      the peer's load of it, before that pass
 *   SLICE_DONE     between threads of one process: the read-modify-write of a message's count of slices
 *                  that are being copied
 *   SLICE_SEE      the load of it by the thread that ends the message
 *   LIFE_HOLD      the owner's store that puts a life word into the kernel's list, or takes all out: the kernel follows
 *                  that list when the process ends, and marks the words behind all that the process had stored
 *   LIFE_SEE       the peer's load of a life word
 *   HELP_TAKE      the receiver's fence between saying which slices of a message it takes, and its look
 *                  at what the sender has
 *   HELP_CLAIM     the sender's fence between saying which slices it takes, and its look at what the receiver has
 *   HELP_DONE      the sender's store of how many it has taken, which may put one back, and how many of these it has
 *                  written into the receiver's buffer
 *   HELP_SEE       the receiver's load of that
 *   BOARD_SHOW     a member's store of what its board says of a group: where its slots lie, then the group's key
 *   BOARD_FIND     another member's load of that key
 *   CALL_PUBLISH   a member's store of the first word of a collective's slot, behind the rest of the slot and its data
 *   CALL_PEEK      another member's load of that word
 *   STEP_SET       a member's store of how far it has come: staged, reduced, taken, done with
 *   STEP_GET       another member's load of each of these
 */
#define NIGH_ORDER_LABELS(LABEL)                 \
    LABEL(RING_PUBLISH, release, RING_PEEK)      \
    LABEL(RING_PEEK, acquire, RING_PUBLISH)      \
    LABEL(COUNT_SET, release, COUNT_GET)         \
    LABEL(COUNT_GET, acquire, COUNT_SET)         \
    LABEL(CREDIT_RETURN, release, CREDIT_TAKE)   \
    LABEL(CREDIT_TAKE, acquire, CREDIT_RETURN)   \
    LABEL(DIRECTORY_SET, release, DIRECTORY_GET) \
    LABEL(DIRECTORY_GET, acquire, DIRECTORY_SET) \
    LABEL(ATTACH_TELL, fence, ATTACH_LOOK)       \
    LABEL(ATTACH_LOOK, fence, ATTACH_TELL)       \
    LABEL(SLEEP_ENTER, fence, SLEEP_CHECK)       \
    LABEL(SLEEP_CHECK, fence, SLEEP_ENTER)       \
    LABEL(HINT_SET, release, HINT_TAKE)          \
    LABEL(HINT_TAKE, acquire, HINT_SET)          \
    LABEL(BELL_RING, release, BELL_READ)         \
    LABEL(BELL_READ, acquire, BELL_RING)         \
    LABEL(FLAG_RAISE, release, FLAG_SEE)         \
    LABEL(FLAG_SEE, acquire, FLAG_RAISE)         \
    LABEL(NOTIFY_ARM, release, NOTIFY_TAKE)      \
    LABEL(NOTIFY_TAKE, acquire, NOTIFY_ARM)      \
    LABEL(GOODBYE_SAY, release, GOODBYE_HEAR)    \
    LABEL(GOODBYE_HEAR, acquire, GOODBYE_SAY)    \
    LABEL(LEAVE_SAY, fence, LEAVE_HEAR)          \
    LABEL(LEAVE_HEAR, fence, LEAVE_SAY)          \
    LABEL(REGION_SET, release, REGION_GET)       \
    LABEL(REGION_GET, acquire, REGION_SET)       \
    LABEL(DEVICES_TELL, release, DEVICES_HEAR)   \
    LABEL(DEVICES_HEAR, acquire, DEVICES_TELL)   \
    LABEL(NOTE_SET, release, NOTE_GET)           \
    LABEL(NOTE_GET, acquire, NOTE_SET)           \
    LABEL(NUDGE_SET, release, NUDGE_SEE)         \
    LABEL(NUDGE_SEE, acquire, NUDGE_SET)         \
    LABEL(SLICE_DONE, release, SLICE_SEE)        \
    LABEL(SLICE_SEE, acquire, SLICE_DONE)        \
    LABEL(LIFE_HOLD, release, LIFE_SEE)          \
    LABEL(LIFE_SEE, acquire, LIFE_HOLD)          \
    LABEL(HELP_TAKE, fence, HELP_CLAIM)          \
    LABEL(HELP_CLAIM, fence, HELP_TAKE)          \
    LABEL(HELP_DONE, release, HELP_SEE)          \
    LABEL(HELP_SEE, acquire, HELP_DONE)          \
    LABEL(BOARD_SHOW, release, BOARD_FIND)       \
    LABEL(BOARD_FIND, acquire, BOARD_SHOW)       \
    LABEL(CALL_PUBLISH, release, CALL_PEEK)      \
    LABEL(CALL_PEEK, acquire, CALL_PUBLISH)      \
    LABEL(STEP_SET, release, STEP_GET)           \
    LABEL(STEP_GET, acquire, STEP_SET)

#define NIGH_ORDER_ENUM(name, kind, partner) NIGH_##name,
enum nigh_order_label { NIGH_ORDER_LABELS(NIGH_ORDER_ENUM) NIGH_ORDER_LABEL_COUNT };
#undef NIGH_ORDER_ENUM

/* Where a model explorer takes over: every shared access passes here first. Nothing in a normal build. */
#ifndef NIGH_STEP
#define NIGH_STEP(label) ((void)(label))
#endif
#define NIGH_RELAXED NIGH_ORDER_LABEL_COUNT

/* The call site's label is a bare name from the table: nigh_store_release(&slot->head, word, RING_PUBLISH). */
#define nigh_load_acquire(p, label) (NIGH_STEP(NIGH_##label), __atomic_load_n((p), __ATOMIC_ACQUIRE))
#define nigh_store_release(p, v, label) \
    (NIGH_STEP(NIGH_##label), __atomic_store_n((p), (v), __ATOMIC_RELEASE))
#define nigh_fetch_or_release(p, v, label) \
    (NIGH_STEP(NIGH_##label), __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST))
#define nigh_fetch_add_release(p, v, label) \
    (NIGH_STEP(NIGH_##label), __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#define nigh_exchange_acquire(p, v, label) \
    (NIGH_STEP(NIGH_##label), __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))

/* A full fence. The light form stops the compiler only: its partner then runs the fence on every CPU
 * (membarrier). */
#define nigh_fence_full(label)  (NIGH_STEP(NIGH_##label), __atomic_thread_fence(__ATOMIC_SEQ_CST))
#define nigh_fence_light(label) (NIGH_STEP(NIGH_##label), __atomic_signal_fence(__ATOMIC_SEQ_CST))

/* Relaxed: for words that carry no other data with them; the call site says why that is enough. */
#define nigh_load_relaxed(p)     (NIGH_STEP(NIGH_RELAXED), __atomic_load_n((p), __ATOMIC_RELAXED))
#define nigh_store_relaxed(p, v) (NIGH_STEP(NIGH_RELAXED), __atomic_store_n((p), (v), __ATOMIC_RELAXED))

/* Two words that lie one behind the other, each of them relaxed: one entry of the store queue where
 * the CPU has vectors. */
typedef uint64_t nigh_pair_of_words __attribute__((vector_size(16), aligned(8), may_alias));
#define nigh_store_pair_relaxed(p, first, second) \
    (NIGH_STEP(NIGH_RELAXED),                     \
     (void)(*(volatile nigh_pair_of_words *)(void *)(p) = (nigh_pair_of_words){(first), (second)}))

/* Asks for a line that is stored to soon, while other work is done. */
static inline void nigh_prefetch_to_write(const void *line)
{
#if defined(__x86_64__)
    /* The built-in is a prefetch for reading where the compiler is told of no later CPU. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* Stores to write-combining memory of a device are on their way when it returns, before any later store. Between processes
 * it orders nothing. */
static inline void nigh_flush_combined(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#elif defined(__aarch64__)
    __asm__ volatile("dmb oshst" : : : "memory");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* In a spin loop: lets a hyperthread sibling run and keeps the loop from being reordered wildly at its exit. */
static inline void nigh_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield" ::: "memory");
#else
    __asm__ __volatile__("" ::: "memory");
#endif
}

#endif
