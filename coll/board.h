/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/board.h - what the members of a group show each other. Each member writes its own board, in the heap of its arena, and
 * reads all others'. docs/architecture.md, "A collective".
 *
 *   arena state.boards --> struct nigh_boards   BOARDS entries; never freed, entries are used again
 *                            keys[i]            the group's key; 0: free. Another key: this member has left the group
 *                            at[i].revoked      why this member has ended the group
 *                            at[i].slots ---->  struct nigh_call_slot [NIGH_CALL_SLOTS], used in turn by calls 0, 1, 2, ...
 *                            at[i].done         calls of this member that read nothing of others any more
 *                            at[i].where        where it runs: of all members' together, coll/tree.c makes domains
 *                            at[i].domain_slots struct nigh_domain_slot [NIGH_CALL_SLOTS]: the lowest member of a domain alone
 *                            next ---------->   more of them
 *
 *   call n of the group uses slot n % NIGH_CALL_SLOTS of every member; a member writes it when all others' `done` say that
 *   they need call n - NIGH_CALL_SLOTS no longer.
 *
 *   object                        writer            readers
 *   boards, slots, staged data    the member        all other members of the group
 *   data outside of the heap      the member's host the same, while the call is under way
 */
#ifndef NIGH_COLL_BOARD_H
#define NIGH_COLL_BOARD_H

#include "shm/layout.h"

#define NIGH_BOARDS         32u
#define NIGH_CALL_SLOTS     64u /* how far a root may be behind: ranks that share CPUs then run in fewer turns */
#define NIGH_CALL_INLINE    288u /* bytes that lie in the slot, behind its head and in the next four lines */
#define NIGH_STREAM_UNITS   4u   /* of a stream that may be on their way */
#define NIGH_CALL_BYTES_MAX (UINT64_C(1) << 55) /* `bytes` of a slot has eight bits less than a word */
#define NIGH_CALL_ALL       UINT64_MAX          /* of `taken`, `taken_out`: everything */
#define NIGH_FACTOR_BYTES   16u

struct nigh_board {
    uint64_t
        revoked; /* 0, or enum nigh_revoked << 56 | errno << 48 | number of the call, 32 bits, << 16 | the member named */
    uint64_t left;  /* 1: this member has freed the group, and looks at no other member's board any more */
    uint64_t slots; /* arena offset */
    uint64_t where; /* its place, of nigh_tree_word(): stored before the key is */
    uint64_t
        domain_slots; /* arena offset of struct nigh_domain_slot [NIGH_CALL_SLOTS]: representatives; 0: none yet */
    uint64_t tree; /* NIGH_TREE_SHOWN | print of its tree; 0: it has not come to it */
    uint64_t reserved0[2];
    uint64_t done; /* calls */
    uint64_t reserved1[7];
};
static_assert(sizeof(struct nigh_board) == 2 * NIGH_LINE, "board");

#define NIGH_REVOKED(why, number, about) \
    ((uint64_t)(why) << 56 | (uint64_t)(uint32_t)(number) << 16 | (uint64_t)((about)&0xffff))
#define NIGH_REVOKED_ERRNO(errno) ((uint64_t)((errno)&0xff) << 48)
#define NIGH_REVOKED_WHY(word)    ((enum nigh_revoked)((word) >> 56))
#define NIGH_REVOKED_STATUS(word) (-(int)((word) >> 48 & 0xff))
#define NIGH_REVOKED_NUMBER(word) ((uint32_t)((word) >> 16))
#define NIGH_REVOKED_ABOUT(word)  ((uint32_t)((word)&0xffff))

enum nigh_revoked {
    NIGH_REVOKED_NOT = 0,
    NIGH_REVOKED_LEFT = 1,     /* its context was closed */
    NIGH_REVOKED_LOST = 2,     /* the member named has left or died */
    NIGH_REVOKED_MISMATCH = 3, /* it and the member named called different things */
    /* the member named could not be read, has said what cannot be, or has no memory; bits 48..55 are the errno */
    NIGH_REVOKED_FAILED = 4,
    NIGH_REVOKED_ENDED = 5, /* the member named has, by its host; bits 48..55 are the errno */
    NIGH_REVOKED_BETWEEN =
        6, /* the same, when it was through with all calls before that number: these go on */
};

struct nigh_boards {
    uint64_t next; /* arena offset; 0: none */
    uint64_t reserved[7];
    uint64_t keys[NIGH_BOARDS];
    struct nigh_board at[NIGH_BOARDS];
};
static_assert(sizeof(struct nigh_boards) == NIGH_LINE * (1 + NIGH_BOARDS / 8 + 2 * NIGH_BOARDS), "boards");

/* Where the bytes lie that a member gives to a call, or its part of the result. */
enum nigh_lies {
    NIGH_LIES_NOWHERE = 0, /* it gives none */
    NIGH_LIES_INLINE = 1,  /* in the slot */
    NIGH_LIES_WHOLE = 2,   /* at `where` in the arena, a copy: the member may go on */
    NIGH_LIES_STREAM = 3,  /* unit k at `where` + k % NIGH_STREAM_UNITS * NIGH_STREAM_BYTES in the arena */
    NIGH_LIES_HEAP = 4,    /* at `where` in the arena: the host's own buffer, in the heap */
    NIGH_LIES_PROCESS = 5, /* at address `where` of its process: the host's own buffer */
};

/* head is stored last. Of a short call its reader needs the first line alone, or the first few, which it asks for together. */
struct nigh_call_slot {
    uint64_t head;  /* the call's number << 32 | its fingerprint */
    uint64_t bytes; /* of `in`, << 8 | enum nigh_lies */
    /* Of all but INLINE. `parts`: arena offset of struct nigh_part [members]; 0: `in` is one part, or they are all alike. */
    uint64_t where, parts;
    uint8_t payload[NIGH_CALL_INLINE];

    uint64_t call; /* for the texts: op | type << 8 | reduction << 16 | root << 32 */
    uint64_t count;
    uint64_t place;     /* address of a text in the process; 0: none */
    uint64_t staged;    /* units of `in` that are there, of a stream */
    uint64_t reduced;   /* units of which this member's part of the result is there */
    uint64_t taken;     /* units of `in` that this member has taken from all streams that it reads */
    uint64_t taken_out; /* units of the others' parts of the result, likewise */
    uint64_t blocks;    /* of a call that relays: number over it and the lengths of all blocks */

    uint64_t out_where; /* of its part of the result: stored before `reduced` is */
    uint64_t out_lies;
    uint8_t factor[NIGH_FACTOR_BYTES]; /* NIGH_PREMUL */
    uint64_t reserved[4];
};
static_assert(sizeof(struct nigh_call_slot) == 7 * NIGH_LINE, "slot of a call");
static_assert(offsetof(struct nigh_call_slot, call) == 5 * NIGH_LINE, "slot, the line of texts and steps");
static_assert(offsetof(struct nigh_call_slot, out_where) == 6 * NIGH_LINE, "slot, the last line");

/* What the lowest member of a domain shows in a small call, beside its slot. Each word is stored behind what is under it. */
#define NIGH_UP_INLINE   240u
#define NIGH_DOWN_INLINE 48u
struct nigh_domain_slot {
    uint64_t up;       /* as head of struct nigh_call_slot: what its domain has given is there, */
    uint64_t up_where; /* at this arena offset; 0: in the slot */
    uint8_t up_payload[NIGH_UP_INLINE];

    uint64_t down; /* likewise: the result, for its domain */
    uint64_t down_where;
    uint8_t down_payload[NIGH_DOWN_INLINE];
};
static_assert(sizeof(struct nigh_domain_slot) == 5 * NIGH_LINE, "slot of a domain");

#define NIGH_TREE_SHOWN (UINT64_C(1) << 32)

/* Behind the slots: why the group has ended, a text. Stored before `revoked` is. */
#define NIGH_ENDED_WORDS 32u
#define NIGH_SLOTS_BYTES \
    (NIGH_CALL_SLOTS * sizeof(struct nigh_call_slot) + NIGH_ENDED_WORDS * sizeof(uint64_t))

/* What one member is given out of another one's `in`. */
struct nigh_part {
    uint64_t offset, bytes;
};

#endif
