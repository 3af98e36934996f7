/* SPDX-License-Identifier: BSD-3-Clause */
/* kill -9 in the middle of a message that a count fills: whoever had begun to receive it, in whatever way, hears
 * of the death, whether it polls or sleeps, nothing of the message is told, and everybody else is served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The sender can read no more than BARRED bytes of it. COME: of which so many steps come; pieces
 * with a slot each would be less. */
enum { BYTES = 32768, BARRED = 12288, COME = 10752, TAG = 77 };

static struct hosted survivor, good;
static struct nigh_endpoint *to, *to_good;
static uint64_t job;
static uint8_t in[BYTES], filled;
static int told[2];

/* ---- the one that dies ---------------------------------------------------------------------------------- */

/* Where ranks share CPUs a message of this length goes in one piece. */
static void has_a_cpu(struct hosted *hosted)
{
    hosted->context->crowd.full = false;
}

/* It stands in the middle of its copy from then on. */
static void stand(int number)
{
    (void)number;
    if (write(told[1], "", 1) == 1)
        for (;;)
            pause();
    _exit(1);
}

static void live(void)
{
    struct sigaction stands = {.sa_handler = stand};
    struct nigh_endpoint *back;
    struct hosted me;
    uint8_t *out;

    alarm(300);
    hosted_open(&me, job, 1, 0);
    back = hosted_connect(&me, 0);
    /* The first message waits for the other side, and the rest of them do not. */
    hosted_send(back, 1, 1, &job, 8, 0);
    hosted_until(&me, NULL, NIGH_OP_SEND, 1);
    hosted_recv(&me, back, 2, 2, NULL, 0, 0);
    hosted_until(&me, NULL, NIGH_OP_RECV, 2);
    has_a_cpu(&me);
    out = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(out, 5, BYTES);
    sigaction(SIGSEGV, &stands, NULL);
    mprotect(out + BARRED, BYTES - BARRED, PROT_NONE);
    hosted_send(back, 3, TAG, out, BYTES, 0);
    _exit(2);
}

/* ---- the survivor --------------------------------------------------------------------------------------- */

static pid_t child;

static int start(void **state)
{
    uint64_t word;

    (void)state;
    alarm(300);
    job = hosted_job();
    hosted_quiet = true;
    memset(in, 0, sizeof(in));
    assert_int_equal(pipe(told), 0);
    fflush(NULL);
    child = fork();
    if (child == 0)
        live();
    assert_true(child > 0);
    hosted_open(&survivor, job, 0, 0);
    hosted_open(&good, job, 2, 0);
    to = hosted_connect(&survivor, 1);
    to_good = hosted_connect(&survivor, 2);
    assert_int_equal(hosted_recv(&survivor, to, 1, 1, &word, 8, 0), 0);
    hosted_until(&survivor, &good, NIGH_OP_RECV, 1);
    has_a_cpu(&survivor);
    has_a_cpu(&good);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&good, NULL, 900, 900, &filled, 1, 0), 0);
    assert_int_equal(hosted_send(to_good, 901, 900, in, 1, 0), 0);
    assert_int_equal(hosted_until(&good, &survivor, NIGH_OP_RECV, 900)->status, 0);
    assert_int_equal(hosted_stats(&survivor).rescues, 0);
    hosted_close(&survivor);
    hosted_close(&good);
    close(told[0]);
    close(told[1]);
    return 0;
}

/* It stands in the middle, and what it has said by then has been read. */
static void until_the_middle(void)
{
    char byte;

    survivor.count = 0;
    assert_int_equal(hosted_send(to, 2, 2, NULL, 0, NIGH_SILENT), 0);
    assert_int_equal(read(told[0], &byte, 1), 1);
    hosted_turns(&survivor, &good, 2000);
    assert_null(hosted_find(&survivor, NIGH_OP_RECV, 10));
}

/* In the buffer of its receive. */
static void assert_come(void)
{
    for (unsigned i = 0; i < COME; i++)
        assert_int_equal(in[i], 5);
    assert_int_equal(in[BARRED], 0);
}

static void until_dead(void)
{
    int status;

    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (hosted_state(&survivor, to) != NIGH_PEER_DEAD)
        hosted_poll(&survivor);
    hosted_turns(&survivor, &good, 20);
}

static void assert_reset(void)
{
    assert_int_equal(hosted_until(&survivor, &good, NIGH_OP_RECV, 10)->status, -ECONNRESET);
    assert_int_equal(survivor.count, 1);
}

static void test_received(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&survivor, to, 10, TAG, in, BYTES, 0), 0);
    until_the_middle();
    assert_come();
    until_dead();
    assert_reset();
    assert_come();
}

static void test_received_asleep(void **state)
{
    int rc;

    (void)state;
    assert_int_equal(hosted_recv(&survivor, NULL, 10, TAG, in, BYTES, 0), 0);
    until_the_middle();
    assert_come();
    assert_int_equal(kill(child, SIGKILL), 0);
    do {
        rc = hosted_ops->wait(survivor.context, UINT64_C(120000000000));
        assert_true(rc == 0 || rc == -EINTR);
        hosted_poll(&survivor);
    } while (!survivor.count);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_reset();
}

static void test_received_late(void **state)
{
    (void)state;
    until_the_middle();
    assert_int_equal(hosted_recv(&survivor, NULL, 10, TAG, in, BYTES, 0), 0);
    assert_come();
    until_dead();
    assert_reset();
}

/* Nobody can receive it any more, and nobody finds it. */
static void test_unexpected(void **state)
{
    struct nigh_completion found;

    (void)state;
    until_the_middle();
    assert_int_equal(hosted_ops->probe(survivor.context, to, TAG, 0, 0, &found, NULL), 0);
    until_dead();
    assert_int_equal(hosted_ops->probe(survivor.context, to, TAG, 0, 0, &found, NULL), -ECONNRESET);
    assert_int_equal(hosted_recv(&survivor, to, 10, TAG, in, BYTES, 0), -ECONNRESET);
}

static void test_claimed(void **state)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = in, .bytes = BYTES, .context = 10};
    struct nigh_message *message = NULL;
    struct nigh_completion found;

    (void)state;
    until_the_middle();
    assert_int_equal(hosted_ops->probe(survivor.context, to, TAG, 0, 0, &found, &message), 0);
    assert_int_equal(found.bytes, BYTES);
    until_dead();
    assert_int_equal(hosted_ops->claim(survivor.context, message, &recv), 0);
    assert_reset();
}

/* The message ends, and then the buffer: it named the dead. */
static void test_multi(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&survivor, to, 10, TAG, in, sizeof(in), NIGH_MULTI), 0);
    until_the_middle();
    assert_come();
    until_dead();
    assert_int_equal(hosted_until(&survivor, &good, NIGH_OP_RECV, 10)->status, -ECONNRESET);
    assert_int_equal(survivor.done[survivor.count - 1].flags & NIGH_DONE_RELEASED, NIGH_DONE_RELEASED);
}

static void test_in_place(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&survivor, to, 10, TAG, NULL, BYTES, NIGH_IN_PLACE), 0);
    until_the_middle();
    until_dead();
    assert_reset();
    assert_null(survivor.done[0].data);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_received), CASE(test_received_asleep), CASE(test_received_late), CASE(test_unexpected),
        CASE(test_claimed),  CASE(test_multi),           CASE(test_in_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
