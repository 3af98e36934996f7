/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/line_ops.c - one table. Searched when a call blocks, 20 us after it began: no time is to be saved. */
#include "lib/line_ops.h"

#include <string.h>

/* The first of several with one number is the name that a reader gets. */
static const struct {
    const char *call;
    uint32_t op;
} table[] = {
    {"nigh_send", NIGH_NOTE_OP_SEND},
    {"nigh_isend", NIGH_NOTE_OP_SEND},
    {"nigh_ssend", NIGH_NOTE_OP_SSEND},
    {"nigh_issend", NIGH_NOTE_OP_SSEND},
    {"nigh_recv", NIGH_NOTE_OP_RECV},
    {"nigh_recv_in_place", NIGH_NOTE_OP_RECV},
    {"nigh_sendrecv", NIGH_NOTE_OP_SENDRECV},
    {"nigh_probe", NIGH_NOTE_OP_PROBE},
    {"nigh_mprobe", NIGH_NOTE_OP_MPROBE},
    {"nigh_mrecv", NIGH_NOTE_OP_MRECV},
    {"nigh_wait", NIGH_NOTE_OP_WAIT},
    {"nigh_wait_for", NIGH_NOTE_OP_WAIT},
    {"nigh_wait", NIGH_NOTE_OP_WAIT_SEND},
    {"nigh_wait", NIGH_NOTE_OP_WAIT_RECV},
    {"nigh_waitall", NIGH_NOTE_OP_WAITALL},
    {"nigh_waitany", NIGH_NOTE_OP_WAITANY},
    {"nigh_waitsome", NIGH_NOTE_OP_WAITSOME},
    {"nigh_ilend", NIGH_NOTE_OP_LEND},
    {"nigh_win_fence", NIGH_NOTE_OP_FENCE},
    {"nigh_win_flush", NIGH_NOTE_OP_FENCE},
    {"nigh_win_allocate", NIGH_NOTE_OP_FENCE},
    {"nigh_win_create", NIGH_NOTE_OP_FENCE},
    {"nigh_win_free", NIGH_NOTE_OP_FENCE},
    {"nigh_put", NIGH_NOTE_OP_PUT},
    {"nigh_get", NIGH_NOTE_OP_GET},
    {"nigh_accumulate", NIGH_NOTE_OP_ATOMIC},
    {"nigh_get_accumulate", NIGH_NOTE_OP_ATOMIC},
    {"nigh_compare_and_swap", NIGH_NOTE_OP_ATOMIC},
    {"nigh_barrier", NIGH_NOTE_OP_BARRIER},
    {"nigh_bcast", NIGH_NOTE_OP_BROADCAST},
    {"nigh_reduce", NIGH_NOTE_OP_REDUCE},
    {"nigh_allreduce", NIGH_NOTE_OP_ALLREDUCE},
    {"nigh_gather", NIGH_NOTE_OP_GATHER},
    {"nigh_scatter", NIGH_NOTE_OP_SCATTER},
    {"nigh_allgather", NIGH_NOTE_OP_ALLGATHER},
    {"nigh_alltoall", NIGH_NOTE_OP_ALLTOALL},
    {"nigh_reduce_scatter", NIGH_NOTE_OP_REDUCE_SCATTER},
    {"nigh_scan", NIGH_NOTE_OP_SCAN},
    {"nigh_exscan", NIGH_NOTE_OP_EXSCAN},
    {"a call that makes a communicator", NIGH_NOTE_OP_SPLIT},
    {"nigh_comm_split", NIGH_NOTE_OP_SPLIT},
    {"nigh_comm_dup", NIGH_NOTE_OP_SPLIT},
    {"nigh_comm_create", NIGH_NOTE_OP_SPLIT},
    {"nigh_finalize", NIGH_NOTE_OP_CLOSE},
};

enum { ROWS = sizeof(table) / sizeof(table[0]) };

uint32_t nigh_line_op(const char *call)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(table[i].call, call) == 0)
            return table[i].op;
    return NIGH_NOTE_OP_HOST;
}

const char *nigh_line_call(uint32_t op)
{
    for (int i = 0; i < ROWS; i++)
        if (table[i].op == op)
            return table[i].call;
    return "a call";
}

bool nigh_line_receives(uint32_t op)
{
    return op == NIGH_NOTE_OP_RECV || op == NIGH_NOTE_OP_PROBE || op == NIGH_NOTE_OP_MPROBE ||
           op == NIGH_NOTE_OP_MRECV || op == NIGH_NOTE_OP_WAIT_RECV;
}

bool nigh_line_sends(uint32_t op)
{
    return op == NIGH_NOTE_OP_SEND || op == NIGH_NOTE_OP_SSEND || op == NIGH_NOTE_OP_LEND ||
           op == NIGH_NOTE_OP_WAIT_SEND;
}

bool nigh_line_is_collective(uint32_t op)
{
    return op >= NIGH_NOTE_OP_FENCE && op <= NIGH_NOTE_OP_SPLIT;
}
