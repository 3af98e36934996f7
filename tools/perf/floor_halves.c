/* SPDX-License-Identifier: BSD-3-Clause */
/* The floor of messages that are copied once, by both, straight from one process' private memory to the other's, and
 * nothing else happens: the receiver reads the first half of each, the sender writes the second; or, of a window, the
 * receiver reads the first half of the messages, several in a call, and the sender writes the others. */
#include "tools/perf/floors.h"

#include "tools/perf/clock.h"
#include "tools/perf/pattern.h"
#include "tools/perf/pipe.h"
#include "tools/perf/tally.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>

static struct perf_line *line_of(const struct perf_rank *me, enum perf_line_use use, uint32_t rank)
{
    return &me->shared->line[(uint32_t)use + rank];
}

static size_t half_of(const struct perf_pipe_load *load)
{
    return load->bytes / 2 / 64 * 64;
}

static void must(struct perf_rank *me, int rc, const struct perf_pipe_load *load)
{
    if (rc != 0)
        perf_fail(me, "floor halves: half of %zu bytes to or from another process: %s", load->bytes,
                  strerror(-rc));
}

static void write_second(struct perf_rank *me, const struct perf_halves *halves, size_t at)
{
    const struct perf_pipe_load *load = halves->load;
    size_t half = half_of(load);

    must(me,
         perf_vm_move(process_vm_writev, halves->pid, load->from + at + half, halves->peer_to + at + half,
                      load->bytes - half),
         load);
}

static void read_first(struct perf_rank *me, const struct perf_halves *halves, size_t at)
{
    const struct perf_pipe_load *load = halves->load;

    must(me,
         perf_vm_move(process_vm_readv, halves->pid, load->to + at, halves->peer_from + at, half_of(load)),
         load);
}

/* `count` whole ones from `first` on, in one call. */
static void move_whole(struct perf_rank *me, const struct perf_halves *halves, perf_vm_fn call,
                       uint32_t first, uint32_t count)
{
    const struct perf_pipe_load *load = halves->load;
    bool reads = call == process_vm_readv;
    struct iovec here[PERF_HALVES_CALL], there[PERF_HALVES_CALL];
    ssize_t moved;

    for (uint32_t i = 0; i < count; i++) {
        size_t at = (first + i) * load->stride;
        uint64_t far = (reads ? halves->peer_from : halves->peer_to) + at;

        here[i] = (struct iovec){(reads ? load->to : load->from) + at, load->bytes};
        there[i] = (struct iovec){(void *)(uintptr_t)far, load->bytes};
    }
    moved = call(halves->pid, here, count, there, count, 0);
    if (moved < 0 || (size_t)moved != count * load->bytes)
        perf_fail(me, "floor halves: %u messages of %zu bytes to or from another process: %s", count,
                  load->bytes, moved < 0 ? strerror(errno) : "some are missing");
}

/* Of a window: all, or the first of them, or the others. */
static void move_window(struct perf_rank *me, const struct perf_halves *halves, bool reads, uint32_t messages)
{
    uint32_t half = (messages + 1) / 2, first = reads ? 0 : half, end = reads ? half : messages,
             most = halves->whole;

    for (uint32_t i = 0; !most && i < messages; i++)
        (reads ? read_first : write_second)(me, halves, i * halves->load->stride);
    for (uint32_t i = first, count; most && i < end; i += count) {
        count = end - i < most ? end - i : most;
        move_whole(me, halves, reads ? process_vm_readv : process_vm_writev, i, count);
    }
}

/* Where the other's buffers lie, and whether we may read and write there: tried with what is to be written over. */
static int meet(struct perf_rank *me, struct perf_halves *halves)
{
    uint32_t peer = 1 - me->rank;
    uint64_t word;
    int rc;

    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* where Yama guards; EINVAL elsewhere */
    perf_line_give(line_of(me, PERF_LINE_FROM, me->rank), (uintptr_t)halves->load->from);
    perf_line_give(line_of(me, PERF_LINE_TO, me->rank), (uintptr_t)halves->load->to);
    perf_pair_sync(me);
    halves->pid = (pid_t)me->shared->pid[peer];
    halves->peer_from = perf_line_take(line_of(me, PERF_LINE_FROM, peer));
    halves->peer_to = perf_line_take(line_of(me, PERF_LINE_TO, peer));
    rc = perf_vm_move(process_vm_readv, halves->pid, (uint8_t *)&word, halves->peer_from, sizeof(word));
    return rc ? rc
              : perf_vm_move(process_vm_writev, halves->pid, (uint8_t *)&word, halves->peer_to, sizeof(word));
}

bool perf_halves_open(struct perf_rank *me, const struct perf_pipe_load *load, uint32_t whole,
                      struct perf_halves *halves)
{
    *halves = (struct perf_halves){.load = load, .whole = whole};
    if (me->rank < 2)
        perf_line_give(line_of(me, PERF_LINE_MAY, me->rank), meet(me, halves) == 0);
    perf_barrier(me);
    return perf_line_take(line_of(me, PERF_LINE_MAY, 0)) && perf_line_take(line_of(me, PERF_LINE_MAY, 1));
}

static void fill(const struct perf_pipe_load *load, uint32_t messages, uint64_t first)
{
    for (uint32_t i = 0; i < messages; i++)
        perf_fill(load->from + i * load->stride, load->bytes, perf_seed(0, first + i));
}

static void check(const struct perf_rank *me, const struct perf_pipe_load *load, uint32_t messages,
                  uint64_t first)
{
    for (uint32_t i = 0; i < messages; i++) {
        size_t wrong = perf_check(load->to + i * load->stride, load->bytes, perf_seed(0, first + i));

        if (wrong != load->bytes)
            perf_fail(me, "floor halves: byte %zu of %zu is wrong", wrong, load->bytes);
    }
}

/* Messages of a run are numbered; a stale run sends the first ones for ever. */
static uint64_t first_message(struct perf_rank *me, const struct perf_pipe_load *load, uint32_t messages)
{
    uint64_t first = load->stale ? 0 : me->messages;

    me->messages += messages;
    return first;
}

/* Says where it is twice: it may be read, and what it writes is written. */
static void send(struct perf_rank *me, const struct perf_halves *halves, uint32_t messages)
{
    struct perf_line *line = line_of(me, PERF_LINE_HALVES, me->rank);

    perf_line_give(line, ++me->halves[me->rank]);
    move_window(me, halves, false, messages);
    perf_line_give(line, ++me->halves[me->rank]);
}

static void receive(struct perf_rank *me, const struct perf_halves *halves, uint32_t messages)
{
    uint32_t peer = 1 - me->rank;
    struct perf_line *line = line_of(me, PERF_LINE_HALVES, peer);

    perf_line_await(line, ++me->halves[peer]);
    move_window(me, halves, true, messages);
    perf_line_await(line, ++me->halves[peer]);
}

double perf_halves_stream(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_halves *halves = arg;
    const struct perf_pipe_load *load = halves->load;
    struct perf_line *done = &me->shared->line[PERF_LINE_DONE];
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t first = first_message(me, load, load->window), mark = 2 * me->messages, start;

        if (me->rank == 0 && (!load->stale || i == 0))
            fill(load, load->window, first);
        perf_pair_sync(me);
        start = perf_ticks();
        if (me->rank == 0) {
            send(me, halves, load->window);
            perf_line_await(done, mark);
            perf_tally_add(&tally, (double)load->bytes * load->window / perf_ns_net(start, perf_ticks()));
        } else {
            receive(me, halves, load->window);
            perf_line_give(done, mark);
            check(me, load, load->window, first);
        }
    }
    return perf_tally_middle(&tally);
}

double perf_halves_oneway(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_halves *halves = arg;
    const struct perf_pipe_load *load = halves->load;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t first = first_message(me, load, 1), start;

        if (!load->stale || i == 0)
            fill(load, 1, first);
        perf_pair_sync(me);
        start = perf_ticks();
        for (uint32_t turn = 0; turn < 2; turn++) {
            if (turn == me->rank)
                send(me, halves, 1);
            else
                receive(me, halves, 1);
        }
        perf_tally_add(&tally, perf_ns_net(start, perf_ticks()) / 2);
        check(me, load, 1, first);
        perf_pair_sync(me); /* the peer has read what is written anew next */
    }
    return perf_tally_middle(&tally);
}
