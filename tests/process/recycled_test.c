/* SPDX-License-Identifier: BSD-3-Clause */
/* A sender whose private memory is being read by process number dies, and its number goes to another process, between
 * the look whether it lives and the copy: what is copied then is not the message, and the receive must say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/os.h"
#include "tests/support/hosted.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 << 19, SLICE = 512 << 10 }; /* three copies of half a megabyte */

static struct nigh_os saved;
static pid_t child;
static unsigned copies, dies_in; /* the copy in which the sender dies, from 1; 0: it lives */
static bool before;              /* it dies before that copy, else after it */
static uint8_t message[BYTES], room[BYTES];

/* ---- the staging
 * --------------------------------------------------------------------------------------------------- */

static void recycle(void)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* The kernel's answer once the number is another process': success, and bytes that are none of the message's. */
static ssize_t read_another(const struct iovec *to)
{
    memset(to->iov_base, 0xee, to->iov_len);
    return (ssize_t)to->iov_len;
}

static ssize_t staged_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                            const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    ssize_t got;

    if (local->iov_len <= 8) /* the probe */
        return saved.process_vm_readv(pid, local, locals, remote, remotes, flags);
    copies++;
    if (dies_in == 0 || copies < dies_in)
        return saved.process_vm_readv(pid, local, locals, remote, remotes, flags);
    if (copies > dies_in)
        return read_another(local);
    if (before) {
        recycle();
        return read_another(local);
    }
    got = saved.process_vm_readv(pid, local, locals, remote, remotes, flags);
    recycle();
    return got;
}

/* ---- the two sides
 * ------------------------------------------------------------------------------------------------- */

static void send_and_wait(uint64_t job)
{
    static struct hosted me;
    struct nigh_endpoint *to;

    alarm(300);
    hosted_open(&me, job, 1, 0);
    to = hosted_connect(&me, 0);
    memset(message, 0x11, sizeof(message));
    /* It has found out by then that it may read us. */
    hosted_recv(&me, to, 2, 2, NULL, 0, 0);
    hosted_until(&me, NULL, NIGH_OP_RECV, 2);
    hosted_send(to, 1, 1, message, sizeof(message), 0);
    for (;;) {
        hosted_poll(&me);
        usleep(100);
        if (hosted_find(&me, NIGH_OP_SEND, 1))
            _exit(hosted_find(&me, NIGH_OP_SEND, 1)->status ? 1 : 0);
    }
}

static int play(bool pidfds, unsigned copy, bool earlier)
{
    static struct hosted me;
    uint64_t job = hosted_job();
    struct nigh_endpoint *from;
    int status;

    copies = 0;
    dies_in = copy;
    before = earlier;
    saved = nigh_os;
    nigh_os.process_vm_readv = staged_readv;
    if (!pidfds)
        osfail_take_pidfds();
    fflush(NULL);
    child = fork();
    if (child == 0)
        send_and_wait(job);
    hosted_open(&me, job, 0, 0);
    from = hosted_connect(&me, 1);
    /* Before that the child does not know that we may read it. */
    while (hosted_state(&me, from) == NIGH_CONNECTING)
        hosted_poll(&me);
    hosted_recv(&me, from, 1, 1, room, sizeof(room), 0);
    hosted_send(from, 2, 2, NULL, 0, NIGH_SILENT);
    status = hosted_until(&me, NULL, NIGH_OP_RECV, 1)->status;
    if (dies_in == 0) {
        int ended;

        /* Its send has to be answered yet. */
        while (waitpid(child, &ended, WNOHANG) == 0)
            hosted_poll(&me);
        assert_int_equal(ended, 0);
        assert_memory_equal(room, room + 1, sizeof(room) - 1);
        assert_int_equal(room[0], 0x11);
    }
    while (hosted_state(&me, from) < NIGH_PEER_CLOSED)
        hosted_poll(&me);
    if (dies_in)
        assert_int_equal(hosted_state(&me, from), NIGH_PEER_DEAD);
    assert_int_equal(hosted_facts(&me).posted, 0);
    hosted_close(&me);
    osfail_remove();
    nigh_os = saved;
    return status;
}

static void skip_where_reading_is_forbidden(void)
{
    struct nigh_query_machine machine = {.size = sizeof(machine)};
    static struct hosted me;
    uint64_t bytes = sizeof(machine);

    hosted_open(&me, hosted_job(), 0, 0);
    assert_int_equal(hosted_ops->query(me.context, NULL, NIGH_QUERY_MACHINE, &machine, &bytes), 0);
    hosted_close(&me);
    if (machine.cma)
        return;
    print_message("# skipped: processes cannot read each other here: %s\n", machine.cma_reason);
    skip();
}

static void every_copy(bool pidfds)
{
    skip_where_reading_is_forbidden();
    assert_int_equal(play(pidfds, 0, false), 0);
    assert_int_equal(copies, BYTES / SLICE);
    for (unsigned copy = 1; copy <= BYTES / SLICE; copy++)
        for (unsigned earlier = 0; earlier < 2; earlier++)
            assert_int_equal(play(pidfds, copy, earlier), -ECONNRESET);
}

static void test_number_of_another(void **state)
{
    (void)state;
    every_copy(true);
}

static void test_number_of_another_without_pidfds(void **state)
{
    (void)state;
    every_copy(false);
}

static int force_path(void **state)
{
    (void)state;
    return setenv("NIGH_PATH", "cma", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_of_another),
        cmocka_unit_test(test_number_of_another_without_pidfds),
    };

    return cmocka_run_group_tests(tests, force_path, NULL);
}
