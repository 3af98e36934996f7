/* SPDX-License-Identifier: BSD-3-Clause */
/* Golden numbers: every constant of the plugin ABI and of shared memory, every size, offset and width of their structs
 * and every slot of the table, as literals. A change here is a change of the ABI or of the layout: bump NIGH_ABI_MAJOR
 * or NIGH_LAYOUT_VERSION, or append. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nigh/transport.h"
#include "plugin/wire.h"
#include "shm/layout.h"
#include "shm/wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct constant {
    const char *name;
    uint64_t is, golden;
};
#define CONSTANT(text, value)                                    \
    {                                                            \
        .name = #text, .is = (uint64_t)(text), .golden = (value) \
    }

/* field NULL: the struct as a whole. */
struct place {
    const char *of, *field;
    size_t offset, bytes, golden_offset, golden_bytes;
};
#define STRUCT(name, width)                                                \
    {                                                                      \
        .of = #name, .bytes = sizeof(struct name), .golden_bytes = (width) \
    }
#define FIELD(name, member, at, width)                                                                 \
    {                                                                                                  \
        .of = #name, .field = #member, .offset = offsetof(struct name, member),                        \
        .bytes = sizeof(((struct name *)NULL)->member), .golden_offset = (at), .golden_bytes = (width) \
    }
/* A flexible array at the end. */
#define TAIL(name, member, at)                                                                        \
    {                                                                                                 \
        .of = #name, .field = #member, .offset = offsetof(struct name, member), .golden_offset = (at) \
    }

static const struct constant abi_constants[] = {
    CONSTANT(NIGH_ABI_MAJOR, 1),
    CONSTANT(NIGH_ABI_MINOR, 1),
    CONSTANT(NIGH_ABI, 65537),
    CONSTANT(NIGH_ADDRESS_BYTES, 64),
    CONSTANT(NIGH_RANK_NONE, UINT32_MAX),
    CONSTANT(NIGH_SOURCE_NONE, UINT64_MAX),
    CONSTANT(NIGH_IGNORE_ALL, UINT64_MAX),
    CONSTANT(NIGH_TCLASSES, 8),
    CONSTANT(NIGH_OPEN_THREADS, 1),
    CONSTANT(NIGH_OPEN_WAIT_FD, 2),
    CONSTANT(NIGH_OPEN_HUGE, 4),
    CONSTANT(NIGH_OPEN_DETECT, 8),
    CONSTANT(NIGH_CONNECTING, 1),
    CONSTANT(NIGH_READY, 2),
    CONSTANT(NIGH_PEER_CLOSED, 3),
    CONSTANT(NIGH_PEER_DEAD, 4),
    CONSTANT(NIGH_BROKEN, 5),
    CONSTANT(NIGH_SYNC, 1),
    CONSTANT(NIGH_INJECT, 2),
    CONSTANT(NIGH_SILENT, 4),
    CONSTANT(NIGH_INJECT_BYTES, 1024),
    CONSTANT(NIGH_MULTI, 1),
    CONSTANT(NIGH_IN_PLACE, 2),
    CONSTANT(NIGH_OP_SEND, 1),
    CONSTANT(NIGH_OP_RECV, 2),
    CONSTANT(NIGH_OP_LEND, 3),
    CONSTANT(NIGH_OP_PUT, 4),
    CONSTANT(NIGH_OP_GET, 5),
    CONSTANT(NIGH_OP_ATOMIC, 6),
    CONSTANT(NIGH_OP_COLLECTIVE, 7),
    CONSTANT(NIGH_OP_REMOTE_PUT, 8),
    CONSTANT(NIGH_OP_REMOTE_GET, 9),
    CONSTANT(NIGH_DONE_RELEASED, 1),
    CONSTANT(NIGH_DONE_LENT, 2),
    CONSTANT(NIGH_TAKEN_FULL, 32),
    CONSTANT(NIGH_REMOTE_READ, 1),
    CONSTANT(NIGH_REMOTE_WRITE, 2),
    CONSTANT(NIGH_NOTIFY, 8),
    CONSTANT(NIGH_I8, 1),
    CONSTANT(NIGH_U8, 2),
    CONSTANT(NIGH_I16, 3),
    CONSTANT(NIGH_U16, 4),
    CONSTANT(NIGH_I32, 5),
    CONSTANT(NIGH_U32, 6),
    CONSTANT(NIGH_I64, 7),
    CONSTANT(NIGH_U64, 8),
    CONSTANT(NIGH_F32, 9),
    CONSTANT(NIGH_F64, 10),
    CONSTANT(NIGH_SUM, 1),
    CONSTANT(NIGH_PROD, 2),
    CONSTANT(NIGH_MIN, 3),
    CONSTANT(NIGH_MAX, 4),
    CONSTANT(NIGH_LAND, 5),
    CONSTANT(NIGH_LOR, 6),
    CONSTANT(NIGH_LXOR, 7),
    CONSTANT(NIGH_BAND, 8),
    CONSTANT(NIGH_BOR, 9),
    CONSTANT(NIGH_BXOR, 10),
    CONSTANT(NIGH_READ, 11),
    CONSTANT(NIGH_WRITE, 12),
    CONSTANT(NIGH_CSWAP, 13),
    CONSTANT(NIGH_ATOMIC_BYTES, 1024),
    CONSTANT(NIGH_BARRIER, 1),
    CONSTANT(NIGH_BROADCAST, 2),
    CONSTANT(NIGH_REDUCE, 3),
    CONSTANT(NIGH_ALLREDUCE, 4),
    CONSTANT(NIGH_GATHER, 5),
    CONSTANT(NIGH_SCATTER, 6),
    CONSTANT(NIGH_ALLGATHER, 7),
    CONSTANT(NIGH_ALLTOALL, 8),
    CONSTANT(NIGH_REDUCE_SCATTER, 9),
    CONSTANT(NIGH_SCAN, 10),
    CONSTANT(NIGH_EXSCAN, 11),
    CONSTANT(NIGH_QUERY_CONTEXT, 1),
    CONSTANT(NIGH_QUERY_ENDPOINT, 2),
    CONSTANT(NIGH_QUERY_PATHS, 3),
    CONSTANT(NIGH_QUERY_STATS, 4),
    CONSTANT(NIGH_QUERY_MACHINE, 5),
    CONSTANT(NIGH_QUERY_NOTE, 6),
    CONSTANT(NIGH_QUERY_UNEXPECTED, 7),
    CONSTANT(NIGH_QUERY_POSTED, 8),
    CONSTANT(NIGH_NOTE_NONE, 0),
    CONSTANT(NIGH_NOTE_RUNNING, 1),
    CONSTANT(NIGH_NOTE_BLOCKED, 2),
    CONSTANT(NIGH_NOTE_LEFT, 3),
    CONSTANT(NIGH_NOTE_OP_NONE, 0),
    CONSTANT(NIGH_NOTE_OP_SEND, 1),
    CONSTANT(NIGH_NOTE_OP_SSEND, 2),
    CONSTANT(NIGH_NOTE_OP_RECV, 3),
    CONSTANT(NIGH_NOTE_OP_SENDRECV, 4),
    CONSTANT(NIGH_NOTE_OP_PROBE, 5),
    CONSTANT(NIGH_NOTE_OP_MPROBE, 6),
    CONSTANT(NIGH_NOTE_OP_MRECV, 7),
    CONSTANT(NIGH_NOTE_OP_WAIT, 8),
    CONSTANT(NIGH_NOTE_OP_WAITALL, 9),
    CONSTANT(NIGH_NOTE_OP_WAITANY, 10),
    CONSTANT(NIGH_NOTE_OP_WAITSOME, 11),
    CONSTANT(NIGH_NOTE_OP_LEND, 12),
    CONSTANT(NIGH_NOTE_OP_PUT, 13),
    CONSTANT(NIGH_NOTE_OP_GET, 14),
    CONSTANT(NIGH_NOTE_OP_ATOMIC, 15),
    CONSTANT(NIGH_NOTE_OP_FENCE, 16),
    CONSTANT(NIGH_NOTE_OP_BARRIER, 17),
    CONSTANT(NIGH_NOTE_OP_BROADCAST, 18),
    CONSTANT(NIGH_NOTE_OP_REDUCE, 19),
    CONSTANT(NIGH_NOTE_OP_ALLREDUCE, 20),
    CONSTANT(NIGH_NOTE_OP_GATHER, 21),
    CONSTANT(NIGH_NOTE_OP_SCATTER, 22),
    CONSTANT(NIGH_NOTE_OP_ALLGATHER, 23),
    CONSTANT(NIGH_NOTE_OP_ALLTOALL, 24),
    CONSTANT(NIGH_NOTE_OP_REDUCE_SCATTER, 25),
    CONSTANT(NIGH_NOTE_OP_SCAN, 26),
    CONSTANT(NIGH_NOTE_OP_EXSCAN, 27),
    CONSTANT(NIGH_NOTE_OP_SPLIT, 28),
    CONSTANT(NIGH_NOTE_OP_OPEN, 29),
    CONSTANT(NIGH_NOTE_OP_CLOSE, 30),
    CONSTANT(NIGH_NOTE_OP_WAIT_SEND, 31),
    CONSTANT(NIGH_NOTE_OP_WAIT_RECV, 32),
    CONSTANT(NIGH_NOTE_OP_HOST, 1000),
    CONSTANT(NIGH_REASON_BYTES, 112),
};

static const struct place abi[] = {
    STRUCT(nigh_open, 120),
    FIELD(nigh_open, size, 0, 4),
    FIELD(nigh_open, flags, 4, 4),
    FIELD(nigh_open, job, 8, 8),
    FIELD(nigh_open, rank, 16, 4),
    FIELD(nigh_open, ranks, 20, 4),
    FIELD(nigh_open, heap_bytes, 24, 8),
    FIELD(nigh_open, pool_bytes, 32, 8),
    FIELD(nigh_open, ring_slots, 40, 4),
    FIELD(nigh_open, eager_bytes, 44, 4),
    FIELD(nigh_open, spin_ns, 48, 4),
    FIELD(nigh_open, peers_max, 52, 4),
    FIELD(nigh_open, directory, 56, 8),
    FIELD(nigh_open, path, 64, 8),
    FIELD(nigh_open, log, 72, 8),
    FIELD(nigh_open, log_data, 80, 8),
    FIELD(nigh_open, life, 88, 8),
    FIELD(nigh_open, reserved, 96, 24),

    STRUCT(nigh_address, 64),
    FIELD(nigh_address, bytes, 0, 64),

    STRUCT(nigh_connect, 40),
    FIELD(nigh_connect, size, 0, 4),
    FIELD(nigh_connect, rank, 4, 4),
    FIELD(nigh_connect, address, 8, 8),
    FIELD(nigh_connect, source, 16, 8),
    FIELD(nigh_connect, job, 24, 8),
    FIELD(nigh_connect, reserved, 32, 8),

    STRUCT(nigh_send, 64),
    FIELD(nigh_send, size, 0, 4),
    FIELD(nigh_send, flags, 4, 4),
    FIELD(nigh_send, buffer, 8, 8),
    FIELD(nigh_send, bytes, 16, 8),
    FIELD(nigh_send, tag, 24, 8),
    FIELD(nigh_send, imm, 32, 8),
    FIELD(nigh_send, context, 40, 8),
    FIELD(nigh_send, tclass, 48, 4),
    FIELD(nigh_send, reserved0, 52, 4),
    FIELD(nigh_send, region, 56, 8),

    STRUCT(nigh_recv, 64),
    FIELD(nigh_recv, size, 0, 4),
    FIELD(nigh_recv, flags, 4, 4),
    FIELD(nigh_recv, buffer, 8, 8),
    FIELD(nigh_recv, bytes, 16, 8),
    FIELD(nigh_recv, tag, 24, 8),
    FIELD(nigh_recv, ignore, 32, 8),
    FIELD(nigh_recv, context, 40, 8),
    FIELD(nigh_recv, tclass, 48, 4),
    FIELD(nigh_recv, min_free, 52, 4),
    FIELD(nigh_recv, region, 56, 8),

    STRUCT(nigh_completion, 64),
    FIELD(nigh_completion, context, 0, 8),
    FIELD(nigh_completion, status, 8, 4),
    FIELD(nigh_completion, op, 12, 2),
    FIELD(nigh_completion, flags, 14, 2),
    FIELD(nigh_completion, bytes, 16, 8),
    FIELD(nigh_completion, tag, 24, 8),
    FIELD(nigh_completion, imm, 32, 8),
    FIELD(nigh_completion, source, 40, 8),
    FIELD(nigh_completion, endpoint, 48, 8),
    FIELD(nigh_completion, data, 56, 8),

    STRUCT(nigh_sent, 32),
    FIELD(nigh_sent, context, 0, 8),
    FIELD(nigh_sent, bytes, 8, 4),
    FIELD(nigh_sent, tclass, 12, 4),
    FIELD(nigh_sent, source, 16, 8),
    FIELD(nigh_sent, endpoint, 24, 8),

    STRUCT(nigh_taken, 32),
    FIELD(nigh_taken, size, 0, 4),
    FIELD(nigh_taken, sent_count, 4, 4),
    FIELD(nigh_taken, done_count, 8, 4),
    FIELD(nigh_taken, reserved0, 12, 4),
    FIELD(nigh_taken, sent, 16, 8),
    FIELD(nigh_taken, done, 24, 8),

    STRUCT(nigh_register, 40),
    FIELD(nigh_register, size, 0, 4),
    FIELD(nigh_register, flags, 4, 4),
    FIELD(nigh_register, buffer, 8, 8),
    FIELD(nigh_register, bytes, 16, 8),
    FIELD(nigh_register, context, 24, 8),
    FIELD(nigh_register, reserved, 32, 8),

    STRUCT(nigh_rma, 64),
    FIELD(nigh_rma, size, 0, 4),
    FIELD(nigh_rma, flags, 4, 4),
    FIELD(nigh_rma, buffer, 8, 8),
    FIELD(nigh_rma, bytes, 16, 8),
    FIELD(nigh_rma, offset, 24, 8),
    FIELD(nigh_rma, key, 32, 8),
    FIELD(nigh_rma, imm, 40, 8),
    FIELD(nigh_rma, context, 48, 8),
    FIELD(nigh_rma, reserved, 56, 8),

    STRUCT(nigh_atomic, 72),
    FIELD(nigh_atomic, size, 0, 4),
    FIELD(nigh_atomic, flags, 4, 4),
    FIELD(nigh_atomic, op, 8, 2),
    FIELD(nigh_atomic, type, 10, 2),
    FIELD(nigh_atomic, count, 12, 4),
    FIELD(nigh_atomic, operand, 16, 8),
    FIELD(nigh_atomic, compare, 24, 8),
    FIELD(nigh_atomic, result, 32, 8),
    FIELD(nigh_atomic, offset, 40, 8),
    FIELD(nigh_atomic, key, 48, 8),
    FIELD(nigh_atomic, context, 56, 8),
    FIELD(nigh_atomic, reserved, 64, 8),

    STRUCT(nigh_lend, 64),
    FIELD(nigh_lend, size, 0, 4),
    FIELD(nigh_lend, flags, 4, 4),
    FIELD(nigh_lend, buffer, 8, 8),
    FIELD(nigh_lend, bytes, 16, 8),
    FIELD(nigh_lend, tag, 24, 8),
    FIELD(nigh_lend, imm, 32, 8),
    FIELD(nigh_lend, context, 40, 8),
    FIELD(nigh_lend, tclass, 48, 4),
    FIELD(nigh_lend, reserved0, 52, 4),
    FIELD(nigh_lend, reserved, 56, 8),

    STRUCT(nigh_collective, 104),
    FIELD(nigh_collective, size, 0, 4),
    FIELD(nigh_collective, flags, 4, 4),
    FIELD(nigh_collective, op, 8, 2),
    FIELD(nigh_collective, type, 10, 2),
    FIELD(nigh_collective, reduction, 12, 2),
    FIELD(nigh_collective, reserved0, 14, 2),
    FIELD(nigh_collective, root, 16, 4),
    FIELD(nigh_collective, reserved1, 20, 4),
    FIELD(nigh_collective, send, 24, 8),
    FIELD(nigh_collective, recv, 32, 8),
    FIELD(nigh_collective, count, 40, 8),
    FIELD(nigh_collective, send_counts, 48, 8),
    FIELD(nigh_collective, send_offsets, 56, 8),
    FIELD(nigh_collective, recv_counts, 64, 8),
    FIELD(nigh_collective, recv_offsets, 72, 8),
    FIELD(nigh_collective, context, 80, 8),
    FIELD(nigh_collective, reserved, 88, 16),

    STRUCT(nigh_query_context, 144),
    FIELD(nigh_query_context, size, 0, 4),
    FIELD(nigh_query_context, rank, 4, 4),
    FIELD(nigh_query_context, ranks, 8, 4),
    FIELD(nigh_query_context, peers, 12, 4),
    FIELD(nigh_query_context, job, 16, 8),
    FIELD(nigh_query_context, incarnation, 24, 8),
    FIELD(nigh_query_context, shared_reserved, 32, 8),
    FIELD(nigh_query_context, shared_committed, 40, 8),
    FIELD(nigh_query_context, heap_bytes, 48, 8),
    FIELD(nigh_query_context, heap_used, 56, 8),
    FIELD(nigh_query_context, inject_bytes, 64, 8),
    FIELD(nigh_query_context, eager_bytes, 72, 8),
    FIELD(nigh_query_context, atomic_bytes, 80, 8),
    FIELD(nigh_query_context, posted, 88, 4),
    FIELD(nigh_query_context, unexpected, 92, 4),
    FIELD(nigh_query_context, crowded, 96, 4),
    FIELD(nigh_query_context, reserved0, 100, 4),
    FIELD(nigh_query_context, reserved, 104, 40),

    STRUCT(nigh_query_endpoint, 96),
    FIELD(nigh_query_endpoint, size, 0, 4),
    FIELD(nigh_query_endpoint, state, 4, 4),
    FIELD(nigh_query_endpoint, rank, 8, 4),
    FIELD(nigh_query_endpoint, pid, 12, 4),
    FIELD(nigh_query_endpoint, source, 16, 8),
    FIELD(nigh_query_endpoint, queued, 24, 8),
    FIELD(nigh_query_endpoint, ring_slots, 32, 8),
    FIELD(nigh_query_endpoint, handoff_ns, 40, 8),
    FIELD(nigh_query_endpoint, reserved, 48, 48),

    STRUCT(nigh_query_path, 144),
    FIELD(nigh_query_path, size, 0, 4),
    FIELD(nigh_query_path, reserved0, 4, 4),
    FIELD(nigh_query_path, bytes_from, 8, 8),
    FIELD(nigh_query_path, path, 16, 16),
    FIELD(nigh_query_path, reason, 32, 112),

    STRUCT(nigh_query_stats, 256),
    FIELD(nigh_query_stats, size, 0, 4),
    FIELD(nigh_query_stats, reserved0, 4, 4),
    FIELD(nigh_query_stats, sent, 8, 8),
    FIELD(nigh_query_stats, sent_bytes, 16, 8),
    FIELD(nigh_query_stats, received, 24, 8),
    FIELD(nigh_query_stats, received_bytes, 32, 8),
    FIELD(nigh_query_stats, inline_sent, 40, 8),
    FIELD(nigh_query_stats, eager_sent, 48, 8),
    FIELD(nigh_query_stats, chunked_sent, 56, 8),
    FIELD(nigh_query_stats, heap_sent, 64, 8),
    FIELD(nigh_query_stats, cma_sent, 72, 8),
    FIELD(nigh_query_stats, lend_sent, 80, 8),
    FIELD(nigh_query_stats, put, 88, 8),
    FIELD(nigh_query_stats, get, 96, 8),
    FIELD(nigh_query_stats, atomic, 104, 8),
    FIELD(nigh_query_stats, unexpected, 112, 8),
    FIELD(nigh_query_stats, truncated, 120, 8),
    FIELD(nigh_query_stats, peers_lost, 128, 8),
    FIELD(nigh_query_stats, peers_broken, 136, 8),
    FIELD(nigh_query_stats, sleeps, 144, 8),
    FIELD(nigh_query_stats, wakes, 152, 8),
    FIELD(nigh_query_stats, rescues, 160, 8),
    FIELD(nigh_query_stats, ring_full, 168, 8),
    FIELD(nigh_query_stats, ring_grown, 176, 8),
    FIELD(nigh_query_stats, path_changes, 184, 8),
    FIELD(nigh_query_stats, reserved, 192, 64),

    STRUCT(nigh_query_machine, 448),
    FIELD(nigh_query_machine, size, 0, 4),
    FIELD(nigh_query_machine, cpus, 4, 4),
    FIELD(nigh_query_machine, l3_domains, 8, 4),
    FIELD(nigh_query_machine, numa_nodes, 12, 4),
    FIELD(nigh_query_machine, packages, 16, 4),
    FIELD(nigh_query_machine, page_bytes, 20, 4),
    FIELD(nigh_query_machine, memory_bytes, 24, 8),
    FIELD(nigh_query_machine, memory_limit, 32, 8),
    FIELD(nigh_query_machine, cma, 40, 4),
    FIELD(nigh_query_machine, huge_shared, 44, 4),
    FIELD(nigh_query_machine, cma_reason, 48, 112),
    FIELD(nigh_query_machine, huge_reason, 160, 112),
    FIELD(nigh_query_machine, topology_reason, 272, 112),
    FIELD(nigh_query_machine, cpus_runnable, 384, 4),
    FIELD(nigh_query_machine, cpu_quota, 388, 4),
    FIELD(nigh_query_machine, reserved, 392, 56),

    STRUCT(nigh_query_message, 64),
    FIELD(nigh_query_message, size, 0, 4),
    FIELD(nigh_query_message, tclass, 4, 4),
    FIELD(nigh_query_message, source, 8, 8),
    FIELD(nigh_query_message, tag, 16, 8),
    FIELD(nigh_query_message, imm, 24, 8),
    FIELD(nigh_query_message, ignore, 32, 8),
    FIELD(nigh_query_message, bytes, 40, 8),
    FIELD(nigh_query_message, context, 48, 8),
    FIELD(nigh_query_message, reserved, 56, 8),

    STRUCT(nigh_note, 136),
    FIELD(nigh_note, size, 0, 4),
    FIELD(nigh_note, state, 4, 4),
    FIELD(nigh_note, op, 8, 4),
    FIELD(nigh_note, group, 12, 4),
    FIELD(nigh_note, peer, 16, 4),
    FIELD(nigh_note, requests, 20, 4),
    FIELD(nigh_note, members, 24, 8),
    FIELD(nigh_note, tag, 32, 8),
    FIELD(nigh_note, bytes, 40, 8),
    FIELD(nigh_note, since_ns, 48, 8),
    FIELD(nigh_note, site, 56, 40),
    FIELD(nigh_note, serial, 96, 8),
    FIELD(nigh_note, checked, 104, 8),
    FIELD(nigh_note, reserved, 112, 24),

    STRUCT(nigh_ops, 320),
    FIELD(nigh_ops, abi, 0, 4),
    FIELD(nigh_ops, size, 4, 4),
    FIELD(nigh_ops, name, 8, 8),
    FIELD(nigh_ops, version, 16, 8),
    FIELD(nigh_ops, description, 24, 8),
    FIELD(nigh_ops, config_help, 32, 8),
    FIELD(nigh_ops, open, 40, 8),
    FIELD(nigh_ops, close, 48, 8),
    FIELD(nigh_ops, address, 56, 8),
    FIELD(nigh_ops, connect, 64, 8),
    FIELD(nigh_ops, disconnect, 72, 8),
    FIELD(nigh_ops, post_send, 80, 8),
    FIELD(nigh_ops, post_recv, 88, 8),
    FIELD(nigh_ops, probe, 96, 8),
    FIELD(nigh_ops, claim, 104, 8),
    FIELD(nigh_ops, cancel, 112, 8),
    FIELD(nigh_ops, post_put, 120, 8),
    FIELD(nigh_ops, post_get, 128, 8),
    FIELD(nigh_ops, post_atomic, 136, 8),
    FIELD(nigh_ops, post_lend, 144, 8),
    FIELD(nigh_ops, release, 152, 8),
    FIELD(nigh_ops, post_collective, 160, 8),
    FIELD(nigh_ops, group_create, 168, 8),
    FIELD(nigh_ops, group_free, 176, 8),
    FIELD(nigh_ops, heap_alloc, 184, 8),
    FIELD(nigh_ops, heap_free, 192, 8),
    FIELD(nigh_ops, register_memory, 200, 8),
    FIELD(nigh_ops, deregister, 208, 8),
    FIELD(nigh_ops, poll_completions, 216, 8),
    FIELD(nigh_ops, wait, 224, 8),
    FIELD(nigh_ops, wait_fd, 232, 8),
    FIELD(nigh_ops, query, 240, 8),
    FIELD(nigh_ops, check_address, 248, 8),
    FIELD(nigh_ops, note, 256, 8),
    FIELD(nigh_ops, nudge, 264, 8),
    FIELD(nigh_ops, inject, 272, 8),
    FIELD(nigh_ops, expect, 280, 8),
    FIELD(nigh_ops, inject_imm, 288, 8),
    FIELD(nigh_ops, send_imm, 296, 8),
    FIELD(nigh_ops, recv_imm, 304, 8),
    FIELD(nigh_ops, take_completions, 312, 8),
};

static const struct constant layout_constants[] = {
    CONSTANT(NIGH_ARENA_MAGIC, UINT64_C(0x31616e6572612d6e)),
    CONSTANT(NIGH_LAYOUT_VERSION, 10),
    CONSTANT(NIGH_LINE, 64),
    CONSTANT(NIGH_PAGE, 4096),
    CONSTANT(NIGH_PEERS_MAX, 65536),
    CONSTANT(NIGH_RING_SLOTS_MIN, 64),
    CONSTANT(NIGH_RING_SLOTS_MAX, 65536),
    CONSTANT(NIGH_SHUTTLE_BYTES, 524288),
    CONSTANT(NIGH_SHUTTLE_COUNT, 65472),
    CONSTANT(NIGH_ARENA_MAX, UINT64_C(0x100000000000)),
    CONSTANT(NIGH_ARENA_FENCES, 1),
    CONSTANT(NIGH_AWAKE, 0),
    CONSTANT(NIGH_ASLEEP_FUTEX, 1),
    CONSTANT(NIGH_ASLEEP_FD, 2),
    CONSTANT(NIGH_NOTE_OFFSET, 128),
    CONSTANT(NIGH_NOTE_SITE_BYTES, 40),
    CONSTANT(NIGH_COUNTERS_OFFSET, 256),
    CONSTANT(NIGH_COUNTED_PATHS, 6),
    CONSTANT(NIGH_SLOT_PAYLOAD, 40),
};

static const struct place layout[] = {
    STRUCT(nigh_arena_header, 128),
    FIELD(nigh_arena_header, magic, 0, 8),
    FIELD(nigh_arena_header, version, 8, 4),
    FIELD(nigh_arena_header, peers_max, 12, 4),
    FIELD(nigh_arena_header, bytes, 16, 8),
    FIELD(nigh_arena_header, incarnation, 24, 8),
    FIELD(nigh_arena_header, pairs_off, 32, 8),
    FIELD(nigh_arena_header, pool_off, 40, 8),
    FIELD(nigh_arena_header, pool_bytes, 48, 8),
    FIELD(nigh_arena_header, heap_off, 56, 8),
    FIELD(nigh_arena_header, heap_bytes, 64, 8),
    FIELD(nigh_arena_header, flags, 72, 4),
    FIELD(nigh_arena_header, reserved0, 76, 4),
    FIELD(nigh_arena_header, nonce_address, 80, 8),
    FIELD(nigh_arena_header, job, 88, 8),
    FIELD(nigh_arena_header, rank, 96, 4),
    FIELD(nigh_arena_header, ranks, 100, 4),
    FIELD(nigh_arena_header, reserved, 104, 24),

    STRUCT(nigh_arena_state, 64),
    FIELD(nigh_arena_state, asleep, 0, 4),
    FIELD(nigh_arena_state, cold, 4, 4),
    FIELD(nigh_arena_state, regions, 8, 8),
    FIELD(nigh_arena_state, reserved, 16, 48),

    STRUCT(nigh_arena_note, 128),
    FIELD(nigh_arena_note, sequence, 0, 8),
    FIELD(nigh_arena_note, checked, 8, 8),
    FIELD(nigh_arena_note, state_op, 16, 8),
    FIELD(nigh_arena_note, group_peer, 24, 8),
    FIELD(nigh_arena_note, members, 32, 8),
    FIELD(nigh_arena_note, tag, 40, 8),
    FIELD(nigh_arena_note, bytes, 48, 8),
    FIELD(nigh_arena_note, requests, 56, 8),
    FIELD(nigh_arena_note, since_ns, 64, 8),
    FIELD(nigh_arena_note, site, 72, 40),
    FIELD(nigh_arena_note, reserved, 112, 16),

    STRUCT(nigh_arena_counters, 288),
    FIELD(nigh_arena_counters, sent, 0, 48),
    FIELD(nigh_arena_counters, sent_bytes, 48, 48),
    FIELD(nigh_arena_counters, received, 96, 8),
    FIELD(nigh_arena_counters, received_bytes, 104, 8),
    FIELD(nigh_arena_counters, put, 112, 8),
    FIELD(nigh_arena_counters, get, 120, 8),
    FIELD(nigh_arena_counters, atomic, 128, 8),
    FIELD(nigh_arena_counters, unexpected, 136, 8),
    FIELD(nigh_arena_counters, truncated, 144, 8),
    FIELD(nigh_arena_counters, lost, 152, 8),
    FIELD(nigh_arena_counters, broken, 160, 8),
    FIELD(nigh_arena_counters, sleeps, 168, 8),
    FIELD(nigh_arena_counters, wakes, 176, 8),
    FIELD(nigh_arena_counters, rescues, 184, 8),
    FIELD(nigh_arena_counters, ring_full, 192, 8),
    FIELD(nigh_arena_counters, ring_grown, 200, 8),
    FIELD(nigh_arena_counters, path_changes, 208, 8),
    FIELD(nigh_arena_counters, posted, 216, 8),
    FIELD(nigh_arena_counters, arrived, 224, 8),
    FIELD(nigh_arena_counters, queued, 232, 8),
    FIELD(nigh_arena_counters, peers, 240, 8),
    FIELD(nigh_arena_counters, reserved, 248, 40),

    STRUCT(nigh_region_entry, 32),
    FIELD(nigh_region_entry, key, 0, 8),
    FIELD(nigh_region_entry, offset, 8, 8),
    FIELD(nigh_region_entry, bytes, 16, 8),
    FIELD(nigh_region_entry, reserved, 24, 8),

    STRUCT(nigh_region_table, 64),
    FIELD(nigh_region_table, count, 0, 8),
    FIELD(nigh_region_table, reserved, 8, 56),
    TAIL(nigh_region_table, at, 64),

    STRUCT(nigh_pair, 128),
    FIELD(nigh_pair, consumed, 0, 8),
    FIELD(nigh_pair, cold, 8, 4),
    FIELD(nigh_pair, reserved0, 12, 4),
    FIELD(nigh_pair, read_cost, 16, 48),
    FIELD(nigh_pair, ring, 64, 8),
    FIELD(nigh_pair, closed, 72, 4),
    FIELD(nigh_pair, reading, 76, 4),
    FIELD(nigh_pair, offered, 80, 8),
    FIELD(nigh_pair, claimed, 88, 8),
    FIELD(nigh_pair, written, 96, 8),
    FIELD(nigh_pair, reserved3, 104, 24),

    STRUCT(nigh_slot, 64),
    FIELD(nigh_slot, head, 0, 8),
    FIELD(nigh_slot, tag, 8, 8),
    FIELD(nigh_slot, imm, 16, 8),
    FIELD(nigh_slot, payload, 24, 40),

    STRUCT(nigh_doorbell, 128),
    FIELD(nigh_doorbell, bell, 0, 4),
    FIELD(nigh_doorbell, reserved0, 4, 60),
    FIELD(nigh_doorbell, summary, 64, 8),
    FIELD(nigh_doorbell, nudges, 72, 8),
    FIELD(nigh_doorbell, reserved1, 80, 48),
    TAIL(nigh_doorbell, hints, 128),
};

/* What slots say: part of the layout, since both ends must agree on it. */
static const struct constant slot_constants[] = {
    CONSTANT(NIGH_K_MESSAGE, 1),       CONSTANT(NIGH_K_FIRST, 2),      CONSTANT(NIGH_K_PIECE, 3),
    CONSTANT(NIGH_K_REFER, 4),         CONSTANT(NIGH_K_GRANT, 5),      CONSTANT(NIGH_K_FINISH, 6),
    CONSTANT(NIGH_K_PUT, 7),           CONSTANT(NIGH_K_GET, 8),        CONSTANT(NIGH_K_REPLY, 9),
    CONSTANT(NIGH_K_ATOMIC, 10),       CONSTANT(NIGH_K_RESULT, 11),    CONSTANT(NIGH_K_MOVE, 12),
    CONSTANT(NIGH_K_WHOLE, 13),        CONSTANT(NIGH_K_HELP, 14),      CONSTANT(NIGH_K_END, 15),
    CONSTANT(NIGH_F_SYNC, 1),          CONSTANT(NIGH_F_NOTIFY, 2),     CONSTANT(NIGH_F_KERNEL_SHIFT, 4),
    CONSTANT(NIGH_F_KERNEL_MASK, 7),   CONSTANT(NIGH_F_TIMED, 128),    CONSTANT(NIGH_F_STRATEGY_SHIFT, 8),
    CONSTANT(NIGH_F_STRATEGY_MASK, 7), CONSTANT(NIGH_F_SHUTTLE, 2048), CONSTANT(NIGH_F_RETURNS, 4096),
    CONSTANT(NIGH_REFER_HEAP, 1),      CONSTANT(NIGH_REFER_CMA, 2),    CONSTANT(NIGH_REFER_LEND, 3),
    CONSTANT(NIGH_REFER_COPY, 4),      CONSTANT(NIGH_LAP_SHIFT, 48),
};

#define HEAD UINT64_C(0x203010004) /* of kind 1, 2 bytes, class 3, flags 4 */

static const struct place slots[] = {
    STRUCT(nigh_wire_first, 32),
    FIELD(nigh_wire_first, total, 0, 8),
    FIELD(nigh_wire_first, imm, 8, 8),
    FIELD(nigh_wire_first, eager, 16, 4),
    FIELD(nigh_wire_first, id, 20, 4),
    FIELD(nigh_wire_first, line, 24, 4),
    FIELD(nigh_wire_first, bytes, 28, 4),

    STRUCT(nigh_wire_piece, 8),
    FIELD(nigh_wire_piece, line, 0, 4),
    FIELD(nigh_wire_piece, bytes, 4, 4),

    STRUCT(nigh_wire_refer, 32),
    FIELD(nigh_wire_refer, total, 0, 8),
    FIELD(nigh_wire_refer, where, 8, 8),
    FIELD(nigh_wire_refer, id, 16, 4),
    FIELD(nigh_wire_refer, refer, 20, 4),
    FIELD(nigh_wire_refer, cpu, 24, 4),
    FIELD(nigh_wire_refer, reserved, 28, 4),

    STRUCT(nigh_wire_help, 16),
    FIELD(nigh_wire_help, to, 0, 8),
    FIELD(nigh_wire_help, bytes, 8, 8),
    STRUCT(nigh_wire_get, 16),
    FIELD(nigh_wire_get, total, 0, 8),
    FIELD(nigh_wire_get, id, 8, 4),
    FIELD(nigh_wire_get, reserved, 12, 4),

    STRUCT(nigh_wire_atomic, 16),
    FIELD(nigh_wire_atomic, op, 0, 2),
    FIELD(nigh_wire_atomic, type, 2, 2),
    FIELD(nigh_wire_atomic, count, 4, 4),
    FIELD(nigh_wire_atomic, id, 8, 4),
    FIELD(nigh_wire_atomic, fetches, 12, 4),
};

/* What an attach says. */
static const struct constant greeting_constants[] = {
    CONSTANT(NIGH_WIRE_MAGIC, UINT64_C(0x31747461682d6e67)),
    CONSTANT(NIGH_WIRE_HELLO, 1),
    CONSTANT(NIGH_WIRE_ANSWER, 2),
    CONSTANT(NIGH_WIRE_REFUSE, 3),
    CONSTANT(NIGH_WIRE_DONE, 4),
    CONSTANT(NIGH_WIRE_BYE, 5),
    CONSTANT(NIGH_WIRE_KEEP, 1),
    CONSTANT(NIGH_WIRE_FDS, 4),
};

static const struct place greeting[] = {
    STRUCT(nigh_wire, 80),
    FIELD(nigh_wire, magic, 0, 8),
    FIELD(nigh_wire, version, 8, 4),
    FIELD(nigh_wire, kind, 12, 4),
    FIELD(nigh_wire, job, 16, 8),
    FIELD(nigh_wire, incarnation, 24, 8),
    FIELD(nigh_wire, rank, 32, 4),
    FIELD(nigh_wire, index, 36, 4),
    FIELD(nigh_wire, peers_max, 40, 4),
    FIELD(nigh_wire, ranks, 44, 4),
    FIELD(nigh_wire, to_job, 48, 8),
    FIELD(nigh_wire, to_incarnation, 56, 8),
    FIELD(nigh_wire, to_rank, 64, 4),
    FIELD(nigh_wire, error, 68, 4),
    FIELD(nigh_wire, flags, 72, 4),
    FIELD(nigh_wire, fds, 76, 4),
};

/*
 * What each version looked like: a number over all of the above, as it is compiled. A line is added with each version and
 * none is ever changed, so whoever changes what lies in shared memory, and the golden numbers with it, cannot forget the
 * version. Two builds that are both of it would read each other wrongly.
 */
struct look {
    uint32_t version;
    uint64_t is;
};
static const struct look layout_looks[] = {
    {1, UINT64_C(0xe52b4a879d5e7577)}, {2, UINT64_C(0x1db76b6598367b0b)}, {3, UINT64_C(0xa72b58a7f0b09d55)},
    {4, UINT64_C(0x02e1cb6891305b23)}, {5, UINT64_C(0x66f245bdfbefae93)}, {6, UINT64_C(0x9c5f48f334a6c672)},
    {7, UINT64_C(0x57c34a20d5c537a9)}, {8, UINT64_C(0xe85f7a97a38cee19)}, {9, UINT64_C(0xc3d38a539bf4847d)},
    {10, UINT64_C(0x98f32d069a55b967)}};
static const struct look greeting_looks[] = {{1, UINT64_C(0xb2ac7a01926d8468)},
                                             {2, UINT64_C(0x8b87eb40def88b4f)}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void check_constants(const struct constant *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (all[i].is != all[i].golden)
            fail_msg("%s is %llu, must be %llu", all[i].name, (unsigned long long)all[i].is,
                     (unsigned long long)all[i].golden);
    }
}

static void check_place(const struct place *place)
{
    if (place->offset != place->golden_offset || place->bytes != place->golden_bytes)
        fail_msg("%s.%s is %zu bytes at %zu, must be %zu at %zu", place->of, place->field ? place->field : "",
                 place->bytes, place->offset, place->golden_bytes, place->golden_offset);
}

/* Fields follow each other without holes to the end, so that no field can be added where nobody sees it, and no
 * byte is left that a caller's compiler fills with garbage. */
static void check_places(const struct place *all, size_t count)
{
    size_t next = 0, whole = 0;

    for (size_t i = 0; i < count; i++) {
        check_place(&all[i]);
        if (!all[i].field) {
            assert_int_equal(next, whole);
            whole = all[i].bytes;
            next = 0;
            continue;
        }
        if (all[i].offset != next)
            fail_msg("%s has a hole of %zd bytes before %s", all[i].of, (ssize_t)(all[i].offset - next),
                     all[i].field);
        next += all[i].bytes;
    }
    assert_int_equal(next, whole);
}

static uint64_t mixed(uint64_t value, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        value = (value ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3);
    return value;
}

static uint64_t look_of(uint64_t value, const struct place *places, size_t count,
                        const struct constant *constants, size_t constant_count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t numbers[] = {places[i].offset, places[i].bytes};

        value = mixed(value, places[i].of, strlen(places[i].of));
        if (places[i].field) /* the places of two may have been exchanged */
            value = mixed(value, places[i].field, strlen(places[i].field));
        value = mixed(value, numbers, sizeof(numbers));
    }
    for (size_t i = 0; i < constant_count; i++)
        if (!strstr(constants[i].name, "VERSION"))
            value = mixed(value, &constants[i].is, sizeof(constants[i].is));
    return value;
}

static void check_look(const char *what, const char *version_name, uint32_t version, uint64_t is,
                       const struct look *looks, size_t count)
{
    if (looks[count - 1].version != version)
        fail_msg("%s is %u: add {%u, 0x%llx} to its looks", version_name, version, version,
                 (unsigned long long)is);
    if (looks[count - 1].is != is)
        fail_msg("%s is another one (0x%llx) than that of version %u: bump %s and add a line to its looks",
                 what, (unsigned long long)is, version, version_name);
    for (size_t i = 1; i < count; i++)
        assert_int_equal(looks[i].version, looks[i - 1].version + 1);
}

/* Every struct that the header defines is in the table. */
static void check_all_listed(const char *header, const struct place *all, size_t count)
{
    const char *root = getenv("NIGH_SRCDIR");
    char path[4096], line[512], name[128];
    unsigned structs = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root ? root : ".", header);
    file = fopen(path, "r");
    if (!file)
        fail_msg("cannot read %s", path);
    while (fgets(line, sizeof(line), file)) {
        size_t i = 0;

        if (sscanf(line, "struct %127[a-z0-9_] {", name) != 1 || !strchr(line, '{'))
            continue;
        structs++;
        while (i < count && (all[i].field || strcmp(all[i].of, name) != 0))
            i++;
        if (i == count)
            fail_msg("struct %s of %s has no golden sizes", name, header);
    }
    fclose(file);
    assert_in_range(structs, 1, 100);
}

static void abi_constants_are_golden(void **state)
{
    (void)state;
    check_constants(abi_constants, COUNT(abi_constants));
}

static void abi_structs_are_golden(void **state)
{
    (void)state;
    check_places(abi, COUNT(abi));
}

static void abi_structs_are_all_listed(void **state)
{
    (void)state;
    check_all_listed("include/nigh/transport.h", abi, COUNT(abi));
}

static void layout_constants_are_golden(void **state)
{
    (void)state;
    check_constants(layout_constants, COUNT(layout_constants));
}

static void layout_structs_are_golden(void **state)
{
    (void)state;
    check_places(layout, COUNT(layout));
}

static void layout_structs_are_all_listed(void **state)
{
    (void)state;
    check_all_listed("shm/layout.h", layout, COUNT(layout));
}

static void slots_are_golden(void **state)
{
    (void)state;
    check_constants(slot_constants, COUNT(slot_constants));
    assert_int_equal(nigh_head_make(1, 2, 3, 4), HEAD);
    check_places(slots, COUNT(slots));
    check_all_listed("plugin/wire.h", slots, COUNT(slots));
}

static void greetings_are_golden(void **state)
{
    (void)state;
    check_constants(greeting_constants, COUNT(greeting_constants));
    check_places(greeting, COUNT(greeting));
    check_all_listed("shm/wire.h", greeting, COUNT(greeting));
}

static void a_new_layout_has_a_new_version(void **state)
{
    uint64_t is = look_of(UINT64_C(0xcbf29ce484222325), layout, COUNT(layout), layout_constants,
                          COUNT(layout_constants));

    (void)state;
    is = look_of(is, slots, COUNT(slots), slot_constants, COUNT(slot_constants));
    is ^= nigh_head_make(1, 2, 3, 4);
    check_look("the layout of shared memory", "NIGH_LAYOUT_VERSION", NIGH_LAYOUT_VERSION, is, layout_looks,
               COUNT(layout_looks));
}

static void a_new_greeting_has_a_new_version(void **state)
{
    uint64_t is = look_of(UINT64_C(0xcbf29ce484222325), greeting, COUNT(greeting), greeting_constants,
                          COUNT(greeting_constants));

    (void)state;
    check_look("the greeting", "NIGH_WIRE_VERSION", NIGH_WIRE_VERSION, is, greeting_looks,
               COUNT(greeting_looks));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(abi_constants_are_golden),
        cmocka_unit_test(abi_structs_are_golden),
        cmocka_unit_test(abi_structs_are_all_listed),
        cmocka_unit_test(layout_constants_are_golden),
        cmocka_unit_test(layout_structs_are_golden),
        cmocka_unit_test(layout_structs_are_all_listed),
        cmocka_unit_test(slots_are_golden),
        cmocka_unit_test(greetings_are_golden),
        cmocka_unit_test(a_new_layout_has_a_new_version),
        cmocka_unit_test(a_new_greeting_has_a_new_version),
    };

    if (sizeof(void *) != 8) {
        printf("skip: the golden numbers are those of 64-bit machines\n");
        return 77;
    }
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
