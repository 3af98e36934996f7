/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and figures for people. */
#include "tools/top/words.h"

#include <inttypes.h>
#include <stdio.h>

const char *top_state_word(enum top_state state)
{
    static const char *const words[TOP_STATES] = {"running", "computing", "idle", "waiting",
                                                  "blocked", "stopped",   "left", "dead"};

    return words[state];
}

const char *top_path_word(unsigned path)
{
    static const char *const words[NIGH_COUNTED_PATHS] = {"inline", "eager", "chunked", "heap",
                                                          "cma",    "lend",  "device"};

    return words[path];
}

const char *top_op_word(uint32_t op, char room[TOP_WORDS])
{
    static const char *const words[] = {
        [NIGH_NOTE_OP_NONE] = "something",
        [NIGH_NOTE_OP_SEND] = "send",
        [NIGH_NOTE_OP_SSEND] = "ssend",
        [NIGH_NOTE_OP_RECV] = "recv",
        [NIGH_NOTE_OP_SENDRECV] = "sendrecv",
        [NIGH_NOTE_OP_PROBE] = "probe",
        [NIGH_NOTE_OP_MPROBE] = "mprobe",
        [NIGH_NOTE_OP_MRECV] = "mrecv",
        [NIGH_NOTE_OP_WAIT] = "wait",
        [NIGH_NOTE_OP_WAITALL] = "waitall",
        [NIGH_NOTE_OP_WAITANY] = "waitany",
        [NIGH_NOTE_OP_WAITSOME] = "waitsome",
        [NIGH_NOTE_OP_LEND] = "lend",
        [NIGH_NOTE_OP_PUT] = "put",
        [NIGH_NOTE_OP_GET] = "get",
        [NIGH_NOTE_OP_ATOMIC] = "atomic",
        [NIGH_NOTE_OP_FENCE] = "fence",
        [NIGH_NOTE_OP_BARRIER] = "barrier",
        [NIGH_NOTE_OP_BROADCAST] = "broadcast",
        [NIGH_NOTE_OP_REDUCE] = "reduce",
        [NIGH_NOTE_OP_ALLREDUCE] = "allreduce",
        [NIGH_NOTE_OP_GATHER] = "gather",
        [NIGH_NOTE_OP_SCATTER] = "scatter",
        [NIGH_NOTE_OP_ALLGATHER] = "allgather",
        [NIGH_NOTE_OP_ALLTOALL] = "alltoall",
        [NIGH_NOTE_OP_REDUCE_SCATTER] = "reduce_scatter",
        [NIGH_NOTE_OP_SCAN] = "scan",
        [NIGH_NOTE_OP_EXSCAN] = "exscan",
        [NIGH_NOTE_OP_SPLIT] = "split",
        [NIGH_NOTE_OP_OPEN] = "start",
        [NIGH_NOTE_OP_CLOSE] = "end",
        [NIGH_NOTE_OP_WAIT_SEND] = "wait for a send",
        [NIGH_NOTE_OP_WAIT_RECV] = "wait for a receive",
    };

    if (op < sizeof(words) / sizeof(words[0]))
        return words[op];
    snprintf(room, TOP_WORDS, "op %" PRIu32, op);
    return room;
}

/* "0, 2-5" of a mask, as far as it fits. */
static void print_members(uint64_t members, char *room, size_t left)
{
    const char *between = "";

    for (uint32_t first = 0, last; first < 64 && left > 8; first = last + 1) {
        int bytes;

        last = first;
        if (!(members >> first & 1))
            continue;
        while (last < 63 && members >> (last + 1) & 1)
            last++;
        bytes = last == first ? snprintf(room, left, "%s%u", between, first)
                              : snprintf(room, left, "%s%u-%u", between, first, last);
        room += bytes;
        left -= (size_t)bytes;
        between = ",";
    }
}

/* "from" or "to", or what stands between a word and the ranks that all have to come. */
static const char *preposition(uint32_t op)
{
    switch (op) {
    case NIGH_NOTE_OP_SEND:
    case NIGH_NOTE_OP_SSEND:
    case NIGH_NOTE_OP_LEND:
    case NIGH_NOTE_OP_PUT:
    case NIGH_NOTE_OP_WAIT_SEND:
        return " to ";
    case NIGH_NOTE_OP_RECV:
    case NIGH_NOTE_OP_PROBE:
    case NIGH_NOTE_OP_MPROBE:
    case NIGH_NOTE_OP_MRECV:
    case NIGH_NOTE_OP_GET:
    case NIGH_NOTE_OP_WAIT_RECV:
        return " from ";
    default:
        return " for ";
    }
}

const char *top_wait_words(const struct top_rank *rank, char room[TOP_WORDS])
{
    const struct nigh_note *note = &rank->now.note;
    char op[TOP_WORDS], who[64] = "anyone";
    int bytes;

    if (note->peer != NIGH_RANK_NONE)
        snprintf(who, sizeof(who), "%" PRIu32, note->peer);
    else if (note->members != UINT64_MAX)
        print_members(note->members, who, sizeof(who));
    else if (top_waits_for_all(rank))
        snprintf(who, sizeof(who), "all");
    bytes = snprintf(room, TOP_WORDS, "%s%s%s", top_op_word(note->op, op), preposition(note->op), who);
    if (note->op < NIGH_NOTE_OP_BARRIER && note->op != NIGH_NOTE_OP_FENCE)
        bytes += snprintf(room + bytes, (size_t)(TOP_WORDS - bytes), " tag %" PRIu64 " %" PRIu64 " B",
                          note->tag, note->bytes);
    if (note->requests > 1)
        snprintf(room + bytes, (size_t)(TOP_WORDS - bytes), " (%" PRIu32 " requests)", note->requests);
    return room;
}

const char *top_amount(double value, char room[16])
{
    static const char units[] = " kMGTPE";
    unsigned unit = 0;

    while (value >= 999.5 && unit < 6) {
        value /= 1000;
        unit++;
    }
    if (unit == 0)
        snprintf(room, 16, "%.0f", value);
    else
        snprintf(room, 16, "%.*f %c", value < 9.95 ? 1 : 0, value, units[unit]);
    return room;
}

const char *top_duration(uint64_t ns, char room[16])
{
    double seconds = (double)ns / 1e9;

    if (seconds < 100)
        snprintf(room, 16, "%.1f s", seconds);
    else if (seconds < 6000)
        snprintf(room, 16, "%.0f min", seconds / 60);
    else
        snprintf(room, 16, "%.0f h", seconds / 3600);
    return room;
}
