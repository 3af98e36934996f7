/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast one core, two cores and the kernel copy a message that has just been written. */
#include "tools/perf/floors.h"

#include "shm/copy.h"
#include "tools/perf/clock.h"
#include "tools/perf/pattern.h"
#include "tools/perf/tally.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Repetitions per timing: the clock must not show. */
enum { TIMED_BYTES = 16384 };

static void check(const struct perf_rank *me, const char *what, const uint8_t *data, size_t bytes,
                  uint64_t seed)
{
    size_t wrong = perf_check(data, bytes, seed);

    if (wrong != bytes)
        perf_fail(me, "%s: byte %zu of %zu is wrong", what, wrong, bytes);
}

/* One copy, timed; small ones several times in a row. Through a volatile pointer: the compiler sees neither the
 * function nor that the repetitions do the same. */
static double timed_copy(nigh_copy_fn copy, uint8_t *to, const uint8_t *from, size_t bytes)
{
    nigh_copy_fn volatile opaque = copy;
    uint32_t times = bytes >= TIMED_BYTES ? 1 : (uint32_t)(TIMED_BYTES / (bytes ? bytes : 1));
    uint64_t start = perf_ticks();

    for (uint32_t i = 0; i < times; i++)
        opaque(to, from, bytes);
    return perf_ns_net(start, perf_ticks()) / times;
}

double perf_copy_one(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_copy_kind *kind = arg;
    nigh_copy_fn copy = nigh_copy_select(NIGH_COPY_PLAIN);
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank == 0 && i < count; i++) {
        uint64_t seed = perf_seed(1, me->lone++);

        perf_fill(kind->private_from, kind->bytes, seed);
        perf_tally_add(&tally, (double)kind->bytes /
                                   timed_copy(copy, kind->private_to, kind->private_from, kind->bytes));
        check(me, "copy by one core", kind->private_to, kind->bytes, seed);
    }
    return perf_tally_middle(&tally);
}

static uint8_t *shared_from(const struct perf_rank *me)
{
    return me->scratch + PERF_SCRATCH_RING + 2 * PERF_SCRATCH_ARENA;
}

/* Rank 0 tells rank 1 to begin and waits for its end: the two handoffs are part of any copy that two cores share. */
static double give_and_await(struct perf_rank *me, nigh_copy_fn copy, uint8_t *to, const uint8_t *from,
                             size_t bytes, uint64_t number)
{
    struct perf_line *line = &me->shared->line[PERF_LINE_DONE];
    uint64_t start = perf_ticks();

    perf_line_give(line, 2 * number);
    if (copy)
        copy(to, from, bytes);
    perf_line_await(line, 2 * number + 1);
    return perf_ns_net(start, perf_ticks());
}

double perf_copy_both(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_copy_kind *kind = arg;
    nigh_copy_fn copy = nigh_copy_select(NIGH_COPY_PLAIN);
    struct perf_line *line = &me->shared->line[PERF_LINE_DONE];
    uint8_t *from = shared_from(me), *to = from + (kind->bytes + 4095) / 4096 * 4096;
    size_t half = kind->bytes / 2 / 64 * 64;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t number = ++me->messages, seed = perf_seed(0, number);

        if (me->rank == 0)
            perf_fill(from, kind->bytes, seed);
        perf_pair_sync(me);
        if (me->rank == 0) {
            perf_tally_add(&tally, (double)kind->bytes / give_and_await(me, copy, to, from, half, number));
        } else {
            perf_line_await(line, 2 * number);
            copy(to + half, from + half, kind->bytes - half);
            perf_line_give(line, 2 * number + 1);
            check(me, "copy by two cores", to + half, kind->bytes - half, seed + half / 8);
        }
        perf_pair_sync(me); /* rank 1 has checked before rank 0 writes again */
    }
    return perf_tally_middle(&tally);
}

int perf_vm_move(perf_vm_fn call, pid_t pid, uint8_t *local, uint64_t remote, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        struct iovec here = {local + done, bytes - done},
                     there = {(void *)(uintptr_t)(remote + done), bytes - done};
        ssize_t n = call(pid, &here, 1, &there, 1, 0);

        if (n <= 0)
            return n == 0 ? -EIO : -errno;
        done += (size_t)n;
    }
    return 0;
}

/* The sender's address travels in the line that says "begin". */
double perf_copy_vm(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_copy_kind *kind = arg;
    struct perf_line *line = &me->shared->line[PERF_LINE_DONE],
                     *address = line + PERF_LINE_HEAP - PERF_LINE_DONE;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t number = ++me->messages, seed = perf_seed(0, number);

        if (me->rank == 0) {
            perf_fill(kind->private_from, kind->bytes, seed);
            perf_line_give(address, (uint64_t)(uintptr_t)kind->private_from);
        }
        perf_pair_sync(me);
        if (me->rank == 0) {
            perf_tally_add(&tally, (double)kind->bytes / give_and_await(me, NULL, NULL, NULL, 0, number));
        } else {
            uint64_t from = perf_line_take(address);
            int rc;

            perf_line_await(line, 2 * number);
            rc = perf_vm_move(process_vm_readv, (pid_t)me->shared->pid[0], kind->private_to, from,
                              kind->bytes);
            perf_line_give(line, 2 * number + 1);
            if (rc != 0)
                perf_fail(me, "process_vm_readv of %zu bytes: %s", kind->bytes, strerror(-rc));
            check(me, "process_vm_readv", kind->private_to, kind->bytes, seed);
        }
        perf_pair_sync(me);
    }
    return perf_tally_middle(&tally);
}

int perf_copy_vm_allowed(const char **why)
{
    static char reason[100];
    uint64_t here = 42, there = 0;
    int status = -1;
    pid_t pid;

    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* where Yama guards; EINVAL elsewhere */
    pid = fork();
    if (pid == 0) {
        int rc = perf_vm_move(process_vm_readv, getppid(), (uint8_t *)&there, (uintptr_t)&here, sizeof(here));

        _exit(rc == 0 && there == here ? 0 : rc ? -rc : EIO);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        status = EAGAIN << 8;
    if (WEXITSTATUS(status) == 0)
        return 1;
    strcpy(reason, "process_vm_readv: ");
    strncat(reason, strerror(WEXITSTATUS(status)), sizeof(reason) - strlen(reason) - 1);
    *why = reason;
    return 0;
}
