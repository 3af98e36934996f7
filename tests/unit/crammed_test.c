/* SPDX-License-Identifier: BSD-3-Clause */
/* A sender that runs ahead of its receiver: what waits there in private memory is bounded, nothing is lost or overtaken,
 * and once enough of it was received sends are complete unmatched again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/crammed.h"
#include "shm/os.h"
#include "tests/support/cpus.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* EAGER is the longest that is complete unmatched; SPAN what lies in chunks, which the sender fills before it is told. */
enum { EAGER = 16384, COUNT = 300, TAG = 7, SPAN = 1 << 20 };

static struct nigh_os saved;
static struct hosted a, b;
static struct nigh_endpoint *to, *from;
static uint8_t out[COUNT][2 * EAGER], in[2 * EAGER];
static cpu_set_t allowed;

static ssize_t no_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                        const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    (void)pid, (void)local, (void)locals, (void)remote, (void)remotes, (void)flags;
    errno = EPERM;
    return -1;
}

static int open_both(uint32_t flags)
{
    alarm(300);
    setenv("NIGH_EAGER", "16K", 1);
    setenv("NIGH_SPAN", "1M", 1);
    to = hosted_open_pair(&a, &b, flags);
    from = hosted_connect(&b, 0);
    for (unsigned i = 0; i < COUNT; i++)
        for (unsigned at = 0; at < sizeof(out[0]); at++)
            out[i][at] = (uint8_t)(at * 7 + at / 256 * 3 + i * 31);
    assert_int_equal(hosted_recv(&b, from, 9000, 9000, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(to, 9000, 9000, NULL, 0, NIGH_SILENT), 0);
    hosted_until(&b, &a, NIGH_OP_RECV, 9000);
    assert_int_equal(hosted_recv(&a, to, 9001, 9001, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(from, 9001, 9001, NULL, 0, NIGH_SILENT), 0);
    hosted_until(&a, &b, NIGH_OP_RECV, 9001);
    return 0;
}

static int start(void **state)
{
    (void)state;
    saved = nigh_os;
    return open_both(0);
}

static int start_threads(void **state)
{
    (void)state;
    saved = nigh_os;
    return open_both(NIGH_OPEN_THREADS);
}

static int start_crowded(void **state)
{
    (void)state;
    saved = nigh_os;
    assert_int_equal(cpus_one(&allowed), 0);
    open_both(0);
    assert_int_equal(hosted_facts(&a).crowded, 1);
    return 0;
}

static int start_unread(void **state)
{
    (void)state;
    saved = nigh_os;
    nigh_os.process_vm_readv = no_readv;
    return open_both(0);
}

static int stop(void **state)
{
    (void)state;
    hosted_close_pair(&a, &b);
    nigh_os = saved;
    unsetenv("NIGH_EAGER");
    unsetenv("NIGH_SPAN");
    return 0;
}

static int stop_crowded(void **state)
{
    return stop(state) ? -1 : cpus_all(&allowed);
}

static void send_and_turn(unsigned i, uint64_t bytes, uint32_t flags)
{
    assert_int_equal(hosted_send(to, 100 + i, TAG, out[i], bytes, flags), 0);
    for (unsigned turn = 0; turn < 3; turn++) {
        hosted_poll(&b);
        hosted_poll(&a);
    }
}

static unsigned completed(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < a.count; i++)
        count += a.done[i].op == NIGH_OP_SEND;
    return count;
}

static void receive(unsigned i, uint64_t bytes)
{
    memset(in, 0, sizeof(in));
    assert_int_equal(hosted_recv(&b, from, i, TAG, in, sizeof(in), 0), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, 0);
    assert_memory_equal(in, out[i], bytes);
    b.count = 0;
}

static uint64_t length_of(unsigned i)
{
    static const uint64_t lengths[] = {EAGER, EAGER - 1, 2 * EAGER, 5000, EAGER, EAGER / 2 + 1, 2000};

    return lengths[i % 7];
}

/* ---- tests ---- */

/* Of what nobody receives no more is kept than was said, with what was under way when that was said; all of it comes,
 * in order, and no send is complete before it has a place. */
static void flood(uint64_t (*length)(unsigned))
{
    uint64_t most = (uint64_t)NIGH_CRAMMED_MESSAGES * EAGER + SPAN + (uint64_t)COUNT * NIGH_CRAMMED_EAGER;

    for (unsigned i = 0; i < COUNT; i++) {
        send_and_turn(i, length(i), 0);
        assert_true(from->early <= most);
    }
    assert_int_equal(nigh_load_relaxed(&from->pair->crammed), 1);
    assert_in_range(completed(), NIGH_CRAMMED_MESSAGES / 2, COUNT * 2 / 3);
    for (unsigned i = 0; i < COUNT; i++)
        receive(i, length(i));
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 100 + i)->status, 0);
    assert_int_equal(from->early, 0);
    assert_int_equal(nigh_load_relaxed(&from->pair->crammed), 0);
}

static uint64_t eager_each(unsigned i)
{
    (void)i;
    return EAGER;
}

static void of_one_length(void **state)
{
    (void)state;
    flood(eager_each);
}

static void of_several_lengths(void **state)
{
    (void)state;
    flood(length_of);
}

/* Read where they lie they are copied once and not kept. */
static void the_rest_stays_with_the_sender(void **state)
{
    uint64_t early;

    (void)state;
    if (!hosted_may_read(&a)) {
        print_message("# skipped: process_vm_readv is not allowed here\n");
        skip();
    }
    for (unsigned i = 0; !nigh_load_relaxed(&from->pair->crammed); i++)
        send_and_turn(i, EAGER, 0);
    early = from->early;
    for (unsigned i = 200; i < COUNT; i++)
        send_and_turn(i, EAGER, 0);
    assert_int_equal(from->early, early);
    assert_int_equal(hosted_stats(&a).cma_sent, COUNT - 200);
}

/* Once told, the sender of anything longer than a body waits, however short, whoever may read whom. */
static void none_is_complete_unmatched(void **state)
{
    static const uint64_t lengths[] = {1025, 2000, 4096, 4097, EAGER};
    unsigned sent = 0, before;

    (void)state;
    for (; !nigh_load_relaxed(&from->pair->crammed); sent++)
        send_and_turn(sent, EAGER, 0);
    before = completed();
    for (unsigned i = 0; i < 5; i++)
        send_and_turn(sent + i, lengths[i], 0);
    assert_int_equal(completed(), before);
    for (unsigned i = 0; i < sent; i++)
        receive(i, EAGER);
    for (unsigned i = 0; i < 5; i++)
        receive(sent + i, lengths[i]);
    for (unsigned i = 0; i < sent + 5; i++)
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 100 + i)->status, 0);
}

/* Who sends to itself is the only one that could receive it. */
static void not_to_oneself(void **state)
{
    struct nigh_endpoint *self = hosted_connect(&a, 0);

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(hosted_send(self, 100 + i, TAG, out[i], EAGER, 0), 0);
        assert_int_equal(hosted_until(&a, NULL, NIGH_OP_SEND, 100 + i)->status, 0);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(hosted_recv(&a, self, i, TAG, in, EAGER, 0), 0);
        assert_int_equal(hosted_until(&a, NULL, NIGH_OP_RECV, i)->status, 0);
        assert_memory_equal(in, out[i], EAGER);
    }
}

/* At half of it, and not sooner. */
static void unmatched_again(void **state)
{
    unsigned sent = 0, received = 0, before;

    (void)state;
    for (; !nigh_load_relaxed(&from->pair->crammed); sent++)
        send_and_turn(sent, EAGER, 0);
    while (nigh_load_relaxed(&from->pair->crammed))
        receive(received++, EAGER);
    assert_int_equal(received, sent - NIGH_CRAMMED_MESSAGES / 2);
    before = completed();
    send_and_turn(sent, EAGER, 0);
    assert_int_equal(completed(), before + 1);
    for (unsigned i = received; i <= sent; i++)
        receive(i, EAGER);
}

/* Its host may know that it was received before we do, and is never held up: it goes as ever. */
static void silent_ones_go_as_ever(void **state)
{
    uint64_t early;
    unsigned sent = 0;

    (void)state;
    for (; !nigh_load_relaxed(&from->pair->crammed); sent++)
        send_and_turn(sent, EAGER, 0);
    early = from->early;
    send_and_turn(sent, EAGER, NIGH_SILENT);
    assert_int_equal(from->early, early + EAGER);
    for (unsigned i = 0; i <= sent; i++)
        receive(i, EAGER);
    assert_int_equal(from->early, 0);
}

/* Short ones count, but are not held up. */
static void bodies_go_as_ever(void **state)
{
    unsigned sent = 0, before;

    (void)state;
    for (; !nigh_load_relaxed(&from->pair->crammed); sent++)
        send_and_turn(sent, EAGER, 0);
    before = completed();
    for (unsigned i = 0; i < 10; i++)
        send_and_turn(sent + i, 1000, 0);
    assert_int_equal(completed(), before + 10);
    for (unsigned i = 0; i < sent; i++)
        receive(i, EAGER);
    for (unsigned i = sent; i < sent + 10; i++)
        receive(i, 1000);
}

/* What a peer that leaves has sent is dropped, and is not counted against the next one of its place. */
static void the_next_one_begins_anew(void **state)
{
    (void)state;
    for (unsigned i = 0; !nigh_load_relaxed(&from->pair->crammed); i++)
        send_and_turn(i, EAGER, 0);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    assert_int_equal(hosted_ops->disconnect(from), 0);
    hosted_turns(&a, &b, 3000);
    a.count = b.count = 0;
    to = hosted_connect(&a, 1);
    from = hosted_connect(&b, 0);
    send_and_turn(0, EAGER, 0);
    hosted_until(&a, &b, NIGH_OP_SEND, 100);
    assert_int_equal(nigh_load_relaxed(&from->pair->crammed), 0);
    receive(0, EAGER);
}

#define ALL(name)                                                           \
    cmocka_unit_test_setup_teardown(name, start, stop),                     \
        cmocka_unit_test_setup_teardown(name, start_crowded, stop_crowded), \
        cmocka_unit_test_setup_teardown(name, start_threads, stop),         \
        cmocka_unit_test_setup_teardown(name, start_unread, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALL(of_one_length),
        ALL(of_several_lengths),
        cmocka_unit_test_setup_teardown(the_rest_stays_with_the_sender, start, stop),
        ALL(none_is_complete_unmatched),
        cmocka_unit_test_setup_teardown(not_to_oneself, start, stop),
        cmocka_unit_test_setup_teardown(not_to_oneself, start_crowded, stop_crowded),
        ALL(unmatched_again),
        ALL(silent_ones_go_as_ever),
        ALL(bodies_go_as_ever),
        ALL(the_next_one_begins_anew),
    };

    return cmocka_run_group_tests_name("crammed", tests, NULL, NULL);
}
