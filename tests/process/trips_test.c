/* SPDX-License-Identifier: BSD-3-Clause */
/* kill -9 in the middle of a trip of a long message, of the one that sends it or of the one that receives it: the other
 * one hears of the death, whether it polls or sleeps, and what it exchanges with everybody else goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/copy.h"
#include "tests/support/cpus.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Who dies can copy no more than BARRED bytes of a message, and stands in the third trip. */
enum { TRIP = 131072, BYTES = 5 * TRIP, BARRED = 2 * TRIP + 65536, TAG = 77, ASIDE = 78, GO = 79 };

static struct hosted survivor, good;
static struct nigh_endpoint *to, *to_good, *back_good;
static uint64_t job;
static uint8_t in[BYTES], out[BYTES];
static int told[2];
static pid_t child;
static cpu_set_t allowed;

/* ---- the one that dies ---------------------------------------------------------------------------------- */

/* In the middle of its copy, from then on. */
static void stand(int number)
{
    (void)number;
    if (write(told[1], "", 1) == 1)
        for (;;)
            pause();
    _exit(1);
}

static void open_as(struct hosted *hosted, uint32_t rank)
{
    hosted_open(hosted, job, rank, 0);
    hosted->context->config.place_from = NIGH_SHUTTLE_BYTES + 1; /* in trips on every CPU */
}

/* So that there are rings. */
static void greet(struct hosted *me, struct nigh_endpoint *peer, struct hosted *other)
{
    hosted_recv(me, peer, GO, GO, NULL, 0, 0);
    hosted_send(peer, GO, GO, NULL, 0, 0);
    hosted_until(me, other, NIGH_OP_RECV, GO);
    me->count = 0;
}

/* Of two messages to two peers the second one goes in trips. */
static void send_both(struct hosted *me, struct nigh_endpoint *back, struct nigh_endpoint *aside,
                      const uint8_t *barred)
{
    hosted_send(aside, 3, ASIDE, out, BYTES, 0);
    hosted_send(back, 4, TAG, barred, BYTES, 0);
    hosted_until(me, NULL, NIGH_OP_SEND, 4);
}

static void live(bool sends)
{
    struct sigaction stands = {.sa_handler = stand};
    struct nigh_endpoint *back, *aside;
    struct hosted me;
    uint8_t *barred;

    alarm(300);
    open_as(&me, 1);
    back = hosted_connect(&me, 0);
    aside = hosted_connect(&me, 2);
    greet(&me, back, NULL);
    greet(&me, aside, NULL);
    barred = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(barred, 5, BYTES);
    sigaction(SIGSEGV, &stands, NULL);
    mprotect(barred + BARRED, BYTES - BARRED, PROT_NONE);
    if (sends)
        send_both(&me, back, aside, barred);
    hosted_recv(&me, back, 5, TAG, barred, BYTES, 0);
    hosted_until(&me, NULL, NIGH_OP_RECV, 5);
    _exit(2);
}

/* ---- the survivors -------------------------------------------------------------------------------------- */

static void start(bool sends)
{
    alarm(300);
    assert_int_equal(cpus_one(&allowed), 0);
    job = hosted_job();
    hosted_quiet = true;
    memset(in, 0, sizeof(in));
    memset(out, 6, sizeof(out));
    assert_int_equal(pipe2(told, O_NONBLOCK), 0);
    fflush(NULL);
    child = fork();
    if (child == 0)
        live(sends);
    assert_true(child > 0);
    open_as(&survivor, 0);
    open_as(&good, 2);
    to = hosted_connect(&survivor, 1);
    to_good = hosted_connect(&survivor, 2);
    back_good = hosted_connect(&good, 0);
    greet(&survivor, to, &good);
    greet(&good, hosted_connect(&good, 1), &survivor);
}

static int start_sender(void **state)
{
    (void)state;
    start(true);
    return 0;
}

static int start_receiver(void **state)
{
    (void)state;
    start(false);
    return 0;
}

/* Long messages between the two that are left, both ways. */
static void assert_goes_on(void)
{
    struct hosted *of[] = {&survivor, &good};
    struct nigh_endpoint *peer[] = {to_good, back_good};

    for (unsigned i = 0; i < 2; i++) {
        memset(in, 0, sizeof(in));
        assert_int_equal(hosted_recv(of[1 - i], peer[1 - i], 900 + i, 900, in, BYTES, 0), 0);
        assert_int_equal(hosted_send(peer[i], 902 + i, 900, out, BYTES, 0), 0);
        assert_int_equal(hosted_until(of[1 - i], of[i], NIGH_OP_RECV, 900 + i)->status, 0);
        assert_int_equal(hosted_until(of[i], of[1 - i], NIGH_OP_SEND, 902 + i)->status, 0);
        assert_memory_equal(in, out, BYTES);
    }
    assert_int_equal(survivor.context->spread.peers, 0);
}

static int stop(void **state)
{
    (void)state;
    assert_goes_on();
    hosted_close(&survivor);
    hosted_close(&good);
    close(told[0]);
    close(told[1]);
    return cpus_all(&allowed);
}

static bool stands(void)
{
    char byte;

    return read(told[0], &byte, 1) == 1;
}

/* It needs GRANTs for that, which somebody has to give. */
static void until_the_third_trip(void)
{
    while (!stands())
        hosted_turns(&survivor, &good, 1);
}

static void until_dead(void)
{
    int status;

    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Asleep until it hears of something. */
static void sleep_until(uint16_t op, uint64_t context)
{
    while (!hosted_find(&survivor, op, context)) {
        int rc = hosted_ops->wait(survivor.context, UINT64_C(120000000000));

        assert_true(rc == 0 || rc == -EINTR);
        hosted_poll(&survivor);
    }
}

/* ---- its sender is killed ------------------------------------------------------------------------------- */

/* Two trips of it, and nothing of the third. */
static void assert_come(void)
{
    for (uint32_t at = 0; at < BYTES; at++)
        assert_int_equal(in[at], at < 2 * TRIP ? 5 : 0);
}

static void expect(uint32_t flags)
{
    void *buffer = flags & NIGH_IN_PLACE ? NULL : in;

    assert_int_equal(hosted_recv(&survivor, to, 10, TAG, buffer, BYTES, flags), 0);
    until_the_third_trip();
    assert_null(hosted_find(&survivor, NIGH_OP_RECV, 10));
}

static void assert_reset(uint16_t op)
{
    assert_int_equal(hosted_until(&survivor, &good, op, 10)->status, -ECONNRESET);
}

static void sender_killed(void **state)
{
    (void)state;
    expect(0);
    until_dead();
    assert_reset(NIGH_OP_RECV);
    assert_come();
}

static void sender_killed_while_we_sleep(void **state)
{
    (void)state;
    expect(0);
    assert_int_equal(kill(child, SIGKILL), 0);
    sleep_until(NIGH_OP_RECV, 10);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_reset(NIGH_OP_RECV);
    assert_come();
}

static void sender_of_multi_killed(void **state)
{
    (void)state;
    expect(NIGH_MULTI);
    until_dead();
    assert_reset(NIGH_OP_RECV);
    assert_int_equal(survivor.done[survivor.count - 1].flags & NIGH_DONE_RELEASED, NIGH_DONE_RELEASED);
    assert_come();
}

static void sender_in_place_killed(void **state)
{
    (void)state;
    expect(NIGH_IN_PLACE);
    until_dead();
    assert_reset(NIGH_OP_RECV);
    assert_null(survivor.done[0].data);
}

/* Returns when its first trip lies there. */
static void find(struct nigh_message **message)
{
    struct nigh_completion found;

    while (hosted_ops->probe(survivor.context, to, TAG, 0, 0, &found, message) != 0)
        hosted_turns(&survivor, &good, 1);
    assert_int_equal(found.bytes, BYTES);
}

/* Nobody can receive it any more. */
static void sender_of_unexpected_killed(void **state)
{
    (void)state;
    find(NULL);
    until_dead();
    while (hosted_state(&survivor, to) != NIGH_PEER_DEAD)
        hosted_poll(&survivor);
    assert_int_equal(hosted_recv(&survivor, to, 10, TAG, in, BYTES, 0), -ECONNRESET);
}

static void sender_of_claimed_killed(void **state)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = in, .bytes = BYTES, .context = 10};
    struct nigh_message *message = NULL;

    (void)state;
    find(&message);
    until_dead();
    while (hosted_state(&survivor, to) != NIGH_PEER_DEAD)
        hosted_poll(&survivor);
    assert_int_equal(hosted_ops->claim(survivor.context, message, &recv), 0);
    assert_reset(NIGH_OP_RECV);
}

/* ---- its receiver is killed ----------------------------------------------------------------------------- */

/* And one to another peer, so that it goes in trips, which nobody receives yet. */
static void send_in_trips(void)
{
    assert_int_equal(hosted_send(to_good, 11, ASIDE, in, BYTES, 0), 0);
    assert_int_equal(hosted_send(to, 10, TAG, out, BYTES, 0), 0);
    until_the_third_trip();
    assert_null(hosted_find(&survivor, NIGH_OP_SEND, 10));
    assert_int_equal(survivor.context->spread.peers, 2);
}

static void receive_the_other(void)
{
    static uint8_t other[BYTES];

    assert_int_equal(hosted_recv(&good, back_good, 12, ASIDE, other, BYTES, 0), 0);
    assert_int_equal(hosted_until(&good, &survivor, NIGH_OP_RECV, 12)->status, 0);
    assert_int_equal(hosted_until(&survivor, &good, NIGH_OP_SEND, 11)->status, 0);
}

static void receiver_killed(void **state)
{
    (void)state;
    send_in_trips();
    until_dead();
    assert_reset(NIGH_OP_SEND);
    receive_the_other();
}

static void receiver_killed_while_we_sleep(void **state)
{
    (void)state;
    send_in_trips();
    assert_int_equal(kill(child, SIGKILL), 0);
    sleep_until(NIGH_OP_SEND, 10);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_reset(NIGH_OP_SEND);
    receive_the_other();
}

#define SENDER(test)   cmocka_unit_test_setup_teardown(test, start_sender, stop)
#define RECEIVER(test) cmocka_unit_test_setup_teardown(test, start_receiver, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SENDER(sender_killed),
        SENDER(sender_killed_while_we_sleep),
        SENDER(sender_of_multi_killed),
        SENDER(sender_in_place_killed),
        SENDER(sender_of_unexpected_killed),
        SENDER(sender_of_claimed_killed),
        RECEIVER(receiver_killed),
        RECEIVER(receiver_killed_while_we_sleep),
    };

    if (!nigh_copy_select(NIGH_COPY_NT)) {
        printf("SKIP: there are no copies past the caches for this CPU\n");
        return 77;
    }
    return cmocka_run_group_tests_name("trips", tests, NULL, NULL);
}
