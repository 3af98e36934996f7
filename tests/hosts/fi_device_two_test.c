/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory between two processes, each with a context of its own on the same device: messages there and back, from
 * and to memory of every kind. */
#include "tests/support/fi_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROOM = (1 << 20) + 4096 };

static struct fi_lab lab;
static struct device_buffer from, to;

#define TX (&lab.side[0])

static const size_t sizes[] = {0, 1, 2, 3, 8, 1025, 16384, 16385, 32768, 32769, 65536, 65537, 1 << 20};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* There and back, the memory another in each round. The one who begins sends first. */
static void play(int line, bool begins)
{
    static const enum cuda_memory kinds[] = {MEMORY_PLAIN, MEMORY_PIECES, MEMORY_POOL, MEMORY_MAPPED,
                                             MEMORY_MANAGED};
    char peer[sizeof(TX->name)];

    fi_lab_open(&lab, &(struct fi_wish){.caps = DEVICE_CAPS, .mr_mode = FI_MR_HMEM});
    assert_int_equal(write(line, TX->name, sizeof(TX->name)), sizeof(TX->name));
    assert_int_equal(recv(line, peer, sizeof(peer), MSG_WAITALL), sizeof(peer));
    TX->peer = fi_side_insert(TX, peer);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        device_open(&lab, &from, kinds[k], ROOM, true);
        device_open(&lab, &to, kinds[k], ROOM, true);
        for (unsigned i = 0; i < 2 * SIZES; i++) {
            if ((i % 2 == 0) == begins) {
                device_fill(&from, 0, sizes[i / 2], i);
                FI_OK(fi_tsend(TX->ep, from.at, sizes[i / 2], from.desc, TX->peer, i, &from));
                assert_ptr_equal(fi_await(&lab, TX->tx).op_context, &from);
            } else {
                device_clear(&to);
                FI_OK(fi_trecv(TX->ep, to.at, ROOM, to.desc, TX->peer, i, 0, &to));
                assert_int_equal(fi_await(&lab, TX->rx).len, sizes[i / 2]);
                device_holds(&to, 0, sizes[i / 2], i);
            }
        }
        device_close(&from);
        device_close(&to);
    }
    /* The other may still be reading the last message. */
    assert_int_equal(write(line, "", 1), 1);
    assert_int_equal(read(line, peer, 1), 1);
    fi_lab_close(&lab);
    if (cuda->leaks())
        fail_msg("%s", cuda->leaks());
}

static int ends[2];
static pid_t other;

static void other_plays(void **state)
{
    (void)state;
    play(ends[1], false);
}

/* Both have played when the other has ended well. */
static void two_processes(void **state)
{
    int status;

    (void)state;
    play(ends[0], true);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
}

/* Before anything of CUDA: a forked process cannot use what its parent has begun. */
static void fork_other(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(other_plays)};

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        abort();
    fflush(NULL);
    other = fork();
    if (other)
        return;
    dup2(STDERR_FILENO, STDOUT_FILENO); /* its cases are not this program's */
    setenv("CMOCKA_MESSAGE_OUTPUT", "STDOUT", 1);
    device_find();
    exit(cmocka_run_group_tests(tests, NULL, NULL));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes),
    };

    fi_find();
    fork_other();
    device_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
