/* SPDX-License-Identifier: BSD-3-Clause */
/* A time-out passes while the sender, which copies a part of the message itself, stands still in that: the call ends when
 * nobody writes to its buffer any more, and not before. What the sender calls to write is this program's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include "tests/support/cpus.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 << 20, STANDS_MS = 2600, STOOD = 0, SENT = 1 };

static bool sends;

#define SHOWN __attribute__((visibility("default")))

SHOWN ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                                const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    if (!ranks_told(STOOD)) {
        ranks_tell(STOOD);
        ranks_nap(STANDS_MS);
    }
    return syscall(SYS_process_vm_writev, pid, local, locals, remote, remotes, flags);
}

/* The receiver has asked for help by its first copy, and would go on without. */
SHOWN ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                               const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    if (local->iov_len > 8)
        ranks_hear(STOOD);
    return syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
}

/* The two share a CPU, so they are a crowd; a sender that runs on its receiver's is not asked. */
SHOWN int sched_getcpu(void)
{
    unsigned cpu = 0;

    return syscall(SYS_getcpu, &cpu, NULL, NULL) == 0 ? (int)cpu + (sends ? 1000 : 0) : -1;
}

/* Behind the second barrier each knows whether the other one may read its memory. */
static void meet(void)
{
    OK(nigh_barrier(nigh_world()));
    OK(nigh_barrier(nigh_world()));
}

static void play_sender(const uint8_t *buffer)
{
    nigh_request requests[2];
    int value = 0;

    sends = true;
    meet();
    for (int i = 0; i < 2; i++)
        OK(nigh_isend(buffer, BYTES, 1, i, nigh_world(), &requests[i]));
    ranks_tell(SENT);
    for (int i = 0; i < 2; i++)
        OK(nigh_wait(&requests[i], NULL));
    OK(nigh_send(&value, sizeof(value), 1, 2, nigh_world()));
}

/* The first message is not received before: one by itself would be copied by its receiver alone. */
static void play_receiver(uint8_t *buffer)
{
    double start;
    int value = 1;

    meet();
    ranks_hear(SENT);
    OK(nigh_probe(0, 1, nigh_world(), NULL));
    OK(nigh_comm_set_timeout(nigh_world(), 0.2));
    start = nigh_wtime();
    CHECK_INT(nigh_recv(buffer, BYTES, 0, 1, nigh_world(), NULL), -ETIMEDOUT);
    CHECK(ranks_told(STOOD));
    CHECK(nigh_wtime() - start > 0.9 * STANDS_MS / 1e3);
    ranks_check_text(__FILE__, __LINE__, ranks_said(), "stopped in the middle of copying");
    memset(buffer, 0x77, BYTES);
    OK(nigh_comm_set_timeout(nigh_world(), 0));
    OK(nigh_recv(buffer + BYTES, BYTES, 0, 0, nigh_world(), NULL));
    OK(nigh_recv(&value, sizeof(value), 0, 2, nigh_world(), NULL));
    CHECK_INT(value, 0);
    CHECK(ranks_is_filled(buffer + BYTES, BYTES, 5));
    for (size_t i = 0; i < BYTES; i++)
        CHECK(buffer[i] == 0x77);
}

static void stands(int rank, int size)
{
    uint8_t *buffer = calloc(2, BYTES);

    (void)size;
    if (rank == 0) {
        ranks_fill(buffer, BYTES, 5);
        play_sender(buffer);
    } else {
        play_receiver(buffer);
    }
    free(buffer);
}

static void test_stands(void **state)
{
    cpu_set_t allowed;

    (void)state;
    assert_int_equal(cpus_one(&allowed), 0);
    ranks_run(2, stands, &(struct ranks_how){.environment = "NIGH_PATH=cma"});
    assert_int_equal(cpus_all(&allowed), 0);
}

/* Whether a process may write its parent: the yama module and sandboxes say no. */
static bool is_allowed(void)
{
    static uint64_t word = 5;
    uint64_t seen = 0;
    struct iovec here = {&seen, sizeof(seen)}, there = {&word, sizeof(word)};
    pid_t parent = getpid(), child = fork();
    int status;

    if (child == 0)
        _exit(syscall(SYS_process_vm_writev, parent, &here, 1, &there, 1, 0) != sizeof(seen));
    return waitpid(child, &status, 0) == child && status == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stands),
    };

    if (!is_allowed()) {
        printf("SKIP: a process may not write its parent's memory here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
