/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/layout.h - what lies where in shared memory. A layout change bumps NIGH_LAYOUT_VERSION; the golden test
 * in tests/abi pins every offset.
 */
#ifndef NIGH_SHM_LAYOUT_H
#define NIGH_SHM_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The arena: one memfd a context, sealed (SHRINK, GROW, FUTURE_WRITE, SEAL) before its descriptor leaves. Its
 * owner alone maps it writable; peers map it read-only. All of it is reserved, pages are committed
 * (fallocate) before they are first written. What is committed stays so: FUTURE_WRITE refuses to punch holes.
 * It goes to every peer.
 *
 *   0          header  struct nigh_arena_header      written once, before the descriptor leaves
 *   4 KiB      state   struct nigh_arena_state       written when the owner goes to sleep and wakes, when its
 *                                                    table of readable regions moves, and now and then where it runs
 *   + 128      note    struct nigh_arena_note        what the owner waits for: when its host says so
 *   + 256      counts  struct nigh_arena_counters    what it has done: for observers, nothing depends on it
 *   + 1024     devices struct nigh_arena_devices     which CUDA devices it uses: when its program has loaded the driver
 *   pairs_off  pairs   struct nigh_pair [peers_max]  one for each peer this context knows, by its own index
 *   pool_off   pool    chunks for large messages     in rotation among all pairs
 *   heap_off   heap    the program's own buffers     read in place by peers
 *   behind it  copies  of what several peers are sent at a time (plugin/share.h), read like these
 *
 * The window: one memfd for each directed pair, made by its sender, sealed (SHRINK, GROW, SEAL), handed to that one
 * peer. Reserved when the endpoint is made, committed as it is used (shm/window.h).
 *
 *   0          ring    struct nigh_slot [64]         when the pair first talks
 *   4 KiB      ring    struct nigh_slot [NIGH_RING]  when the first was full; not there if NIGH_RING is 64
 *   the last 512 KiB: shuttle                        from the first lone message of more than a body on
 *
 * The shuttle is written by whoever holds it: its maker at first; a message that lies in it hands it
 * over to the message's receiver, whose answer may then lie there, too, in lines that reading has
 * brought into its cache (plugin/shuttle.h).
 *
 * The reader of a window maps it writable, too, and never writes its rings. A line that is read through a read-only
 * mapping stays shared with its writer, whose next store to it then waits; through a writable one it moves to the
 * reader, and stores to lines that are elsewhere are fetched side by side (docs/rationale/read-only-mapping.md). What
 * it gives away is little: the sender reads nothing but answers' bytes out of the window, and nobody else has it, so a
 * stray store of the reader can damage only messages between the two.
 *
 * Who may write what:
 *
 *   object                     writer                      readers
 *   header, state, note        owner                       every peer, observers
 *   devices                    owner                       every peer
 *   counts                     owner                       observers
 *   pair[i].consumed, .cold,   owner, as receiver from i   peer i, as sender
 *     .read_cost, .reading,
 *     .asks, .offered
 *   pair[i].ring, .closed,     owner, as sender to i       peer i, as receiver
 *     .helped, .ended
 *   pair[i].life               owner; the kernel at the    peer i
 *                              end of the owner's process
 *   chunks                     owner, as sender to i       peer i, as receiver
 *   rings in window to i       owner, as sender to i;      peer i, as receiver
 *                              peer i could, and does not
 *   shuttle in window to i     who of the two holds it     the other one
 *   heap                       owner's program             peers that were sent a reference
 *   program's memory (own      owner's program             peers that were sent a reference
 *     memfd, not sealed
 *     against writing)
 *   doorbell (own memfd,       every peer and the owner    the owner
 *     SHRINK, GROW, SEAL)
 */

#define NIGH_ARENA_MAGIC    UINT64_C(0x31616e6572612d6e) /* "n-arena1" */
#define NIGH_LAYOUT_VERSION 30u
#define NIGH_LINE           64u
#define NIGH_PAGE           4096u

/* What a sound arena cannot exceed; a peer's header that does is refused. */
#define NIGH_PEERS_MAX      65536u
#define NIGH_RING_SLOTS_MIN 64u
#define NIGH_RING_SLOTS_MAX 65536u
/* The longest message that a shuttle takes: half of an L2 of 1 MiB. At twice that it gains nothing any more. */
#define NIGH_SHUTTLE_BYTES 524288u
/* Where in it the count of a counted message lies, which is shorter (NIGH_F_COUNTED): a word that says how many bytes
 * of it may be read. In the last line of what gets memory at once, so that it needs none of its own. */
#define NIGH_SHUTTLE_COUNT (65536u - NIGH_LINE)
/* Where in the program's memory it says that it is no longer the file's (struct nigh_memory_head). */
#define NIGH_PROGRAM_TAKEN_BACK 8u
#define NIGH_ARENA_MAX          (UINT64_C(1) << 44) /* 16 TiB: a peer must not use up our address space */

/* arena_header.flags: the owner runs membarrier before it sleeps, so publishers that are registered for it
 * need no fence of their own. Told, not assumed: a sandbox may refuse membarrier to one side alone. */
#define NIGH_ARENA_FENCES 1u

struct nigh_arena_header {
    uint64_t magic;
    uint32_t version;
    uint32_t peers_max;
    uint64_t bytes;       /* of the whole arena; must equal the file's size */
    uint64_t incarnation; /* random, of this context */
    uint64_t pairs_off;
    uint64_t pool_off, pool_bytes;
    uint64_t heap_off, heap_bytes;
    uint32_t flags; /* NIGH_ARENA_* */
    uint32_t
        memory_fd; /* the owner's descriptor of its program's memory, + 1; 0 = it has none: shm/program.h */
    /* Where the owner's private memory holds its incarnation: what the probe of cma reads. */
    uint64_t nonce_address;
    /* Whose it is: for observers. Peers have been told by the greeting, and do not look here. */
    uint64_t job;
    uint32_t rank, ranks;
    /* The program's memory: where it lies in the owner, all of it in that file. */
    uint64_t memory_address, memory_bytes;
    uint64_t memory_id; /* at the beginning of the file, too: another one may have that descriptor by now */
};
static_assert(sizeof(struct nigh_arena_header) == 128, "arena header");

struct nigh_arena_state {
    uint32_t asleep; /* enum nigh_asleep: publishers ring the doorbell when not 0 */
    /* 0: no pair[i].cold has ever been 1, so publishers need not look there. Beside `asleep`: both are one load. */
    uint32_t cold;
    uint64_t regions; /* arena offset of struct nigh_region_table, in the heap; 0 = none yet */
    uint64_t reserved0;
    uint64_t
        boards; /* arena offset of the first struct nigh_boards (coll/board.h), in the heap; 0 = none yet */
    uint32_t reserved[8];
};
static_assert(sizeof(struct nigh_arena_state) == NIGH_LINE, "arena state is one line");

/* BOTH: one thread sleeps in wait(), another one waits for the descriptor. */
enum nigh_asleep { NIGH_AWAKE = 0, NIGH_ASLEEP = 1 };

/*
 * The status line: struct nigh_note of nigh/transport.h, packed into two lines. `sequence` is odd while it is being
 * written; half of it is the note's serial, which also counts what moves while a note says "blocked" (shm/note.h).
 */
#define NIGH_NOTE_OFFSET     128u
#define NIGH_NOTE_SITE_BYTES 40u
struct nigh_arena_note {
    uint64_t sequence;
    uint64_t checked;
    uint64_t state_op;   /* state << 32 | op */
    uint64_t group_peer; /* group << 32 | peer */
    uint64_t members;
    uint64_t tag;
    uint64_t bytes;
    uint64_t requests;
    uint64_t since_ns;
    uint64_t site[NIGH_NOTE_SITE_BYTES / 8];
    uint64_t until_ns;
    uint64_t reserved;
};
static_assert(sizeof(struct nigh_arena_note) == 2 * NIGH_LINE, "arena note");
static_assert(NIGH_NOTE_OFFSET >= 2 * sizeof(struct nigh_arena_state),
              "a prefetch of state does not fetch note");

/* What a context has done, each word by itself and relaxed. By path: inline, eager, chunked, heap, cma, lend, device. */
#define NIGH_COUNTERS_OFFSET 256u
#define NIGH_COUNTED_PATHS   7u
struct nigh_arena_counters {
    uint64_t sent[NIGH_COUNTED_PATHS], sent_bytes[NIGH_COUNTED_PATHS];
    uint64_t received, received_bytes;
    uint64_t put, get, atomic;
    uint64_t unexpected, truncated, lost, broken;
    uint64_t sleeps, wakes, rescues, ring_full, ring_grown, path_changes;
    /* How many there are, as of the owner's last look at all its peers (before each sleep, if not oftener). */
    uint64_t posted, arrived, queued, peers;
    uint64_t reserved[3];
};
static_assert(sizeof(struct nigh_arena_counters) == 36 * 8, "arena counters");

/* CUDA devices that a context uses: written once, `count` last. A process that sees more tells of the first ones. */
#define NIGH_DEVICES_OFFSET 1024u
#define NIGH_DEVICES_MAX    64u
#define NIGH_DEVICES_WSL    1u /* of `flags`: its driver is that of WSL */
#define NIGH_TOLD_MIG       1u /* of a device's: an instance of a divided one */
#define NIGH_TOLD_MPS       2u /* processes share it through MPS */
struct nigh_arena_device {
    uint8_t uuid[16];
    uint32_t number; /* as the owner counts */
    uint32_t flags;  /* NIGH_TOLD_* */
    uint32_t ways;   /* a bit for each kind of handle that its driver knows: 1 << enum nigh_cuda_way */
    uint32_t reserved;
};
struct nigh_arena_devices {
    uint32_t count; /* of `at`; 0: it uses none yet */
    uint32_t flags; /* NIGH_DEVICES_* */
    uint64_t pid_space;
    uint64_t reserved[6];
    struct nigh_arena_device at[NIGH_DEVICES_MAX];
};
static_assert(sizeof(struct nigh_arena_device) == 32, "arena device");
static_assert(offsetof(struct nigh_arena_devices, at) == NIGH_LINE, "arena devices");
static_assert(NIGH_COUNTERS_OFFSET + sizeof(struct nigh_arena_counters) <= NIGH_DEVICES_OFFSET &&
                  NIGH_DEVICES_OFFSET + sizeof(struct nigh_arena_devices) <= NIGH_PAGE,
              "state, note, counters and devices are one page");

/*
 * Registered memory in the heap that may be read: peers get it without the owner's help. A table that has become too
 * small is left where it is, for those who are looking at it, and a larger one takes its place.
 */
struct nigh_region_entry {
    uint64_t key; /* 0 = none; stored last */
    uint64_t offset, bytes;
    uint64_t reserved;
};
struct nigh_region_table {
    uint64_t count; /* of `at`; a region's number in its key is its place here */
    uint64_t reserved[7];
    struct nigh_region_entry at[];
};
static_assert(sizeof(struct nigh_region_table) == NIGH_LINE, "region table");

/* Messages of one sender's that both may be copying: enough that it has others to go on with while the receiver is at some.
 * Their words are a line. */
#define NIGH_OFFERS 8u

/* Four lines for a peer, apart because they have different readers' rhythms: `consumed` changes while data
 * flows in, `ring` and `life` about never, `offered` while long messages come, what stands behind it while they go out. */
struct nigh_pair {
    uint64_t consumed; /* slots of the peer's ring to us that we have read, ever; its credit */
    uint32_t cold; /* 1: we do not poll this peer's ring each time, so it must set a hint after publishing */
    uint32_t reserved0;
    /* What copying out cost of the pieces that the peer asked to be timed, by its strategy: lines << 32 | nanoseconds,
     * ever; both wrap. */
    uint64_t read_cost[6];

    uint64_t
        ring; /* our ring to the peer: offset in its window / NIGH_PAGE << 8 | log2(slots); 0 = none yet */
    /* odd: we have left this peer; what is in the ring can still be read. Counts on when the index is used again, so
     * that a peer which looks late still sees that its own use is over */
    uint32_t closed;
    /* Of the peer's private memory by us: 0 not tried yet, 1 allowed, else 1 + why not (errno). */
    uint32_t reading;
    /* 1: much that the peer has sent waits here for receives, so it had better ask (plugin/crammed.h). Not in the line of
     * `consumed`: the peer times its loads of that behind its copies, to feel where we lie (plugin/plan.c). */
    uint32_t crammed;
    /* 1: of a message that we read out of the peer's memory we ask it to copy a part. */
    uint32_t asks;
    uint32_t maps; /* 1: we have mapped the peer's program's memory: shm/program.h */
    /* A robust futex of our service thread's, which the kernel marks when our process ends (shm/life.h): its number and
     * the kernel's bits; 0: none. */
    uint32_t life;
    uint32_t
        ended; /* 1: our operations with the peer have failed: what it reads of ours may be in other use */
    uint32_t reserved2;
    uint64_t reserved1[3];

    /* Of messages that both copy (plugin/help.h), each at the place of its number, as number << 32 | slices: as the
     * receiver of one, that we have taken from its beginning; */
    uint64_t offered[NIGH_OFFERS];

    /* as the sender of one, that we have taken from its end << 16, | of these written. */
    uint64_t helped[NIGH_OFFERS];
};
static_assert(sizeof(struct nigh_pair) == 4 * NIGH_LINE, "pair");
static_assert(offsetof(struct nigh_pair, ring) == NIGH_LINE, "pair.ring");
static_assert(offsetof(struct nigh_pair, offered) == 2 * NIGH_LINE, "pair.offered");
static_assert(offsetof(struct nigh_pair, helped) == 3 * NIGH_LINE, "pair.helped");

/*
 * A slot of a ring: one line. The ring is used from its last slot downwards (shm/ring.h). Word 0 is stored last, with
 * release, and holds the lap: slots of an earlier lap, and the zeroed memory of a new ring (laps begin
 * with 1), are told from fresh ones by it. A message of more than NIGH_SLOT_PAYLOAD bytes goes on in
 * the slots below, which are pure payload.
 *
 *   63        48 47        32 31   24 23   16 15         0
 *   |   lap     |   bytes    | class | kind  |   flags    |    word 0
 */
struct nigh_slot {
    uint64_t head;
    uint64_t tag;
    uint64_t imm;
    uint8_t payload[40];
};
static_assert(sizeof(struct nigh_slot) == NIGH_LINE, "slot is one line");
#define NIGH_SLOT_PAYLOAD 40u

/* The doorbell of a context: a memfd of its own, the only memory that peers may write. Forging it costs time
 * only. The owner knows the peer of bit i % 64 of hints[i / 64] as i. */
struct nigh_doorbell {
    uint32_t bell; /* futex word: changes whenever somebody rings */
    uint32_t reserved0[15];
    uint64_t summary; /* bit w % 64 set: hints[w] may have bits */
    uint64_t nudges;  /* how often a full pass was asked for; a bit of summary goes with each */
    uint64_t reserved1[6];
    uint64_t hints[]; /* bit set: look at the ring from that peer */
};
static_assert(offsetof(struct nigh_doorbell, summary) == NIGH_LINE, "doorbell.summary");
static_assert(offsetof(struct nigh_doorbell, hints) == 2 * NIGH_LINE, "doorbell.hints");

#endif
