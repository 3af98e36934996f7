/* SPDX-License-Identifier: BSD-3-Clause */
/* Two and more rendezvous of one process, driving each other: the exchange, its refusals, its collisions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "shm/exchange.h"
#include "shm/held.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include "tests/support/others.h"
#include "tests/support/party.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t job;

static struct party a, b;
static struct party *const both[] = {&a, &b};
static unsigned fds_before;

static int open_two(void **state)
{
    (void)state;
    job = ((uint64_t)getpid() << 32) + (job & 0xffff) + 1;
    fds_before = osfail_open_fds();
    assert_int_equal(party_open(&a, job, 0, NULL), 0);
    assert_int_equal(party_open(&b, job, 1, NULL), 0);
    return 0;
}

static int close_two(void **state)
{
    (void)state;
    party_close(&a);
    party_close(&b);
    assert_int_equal(osfail_open_fds(), fds_before);
    return 0;
}

static bool is_attached(void *data)
{
    return ((struct peer *)data)->attached;
}

static bool has_failed(void *data)
{
    return ((struct peer *)data)->failures > 0;
}

static bool quiet(struct party *party)
{
    struct pollfd look = {.fd = nigh_rendezvous_fd(party->rendezvous), .events = POLLIN};

    return poll(&look, 1, 0) == 0;
}

/* Runs what is under way to its end: afterwards nothing but the watches may be left. */
static void settle(void)
{
    party_for(both, 2, 60);
    assert_true(quiet(&a));
    assert_true(quiet(&b));
}

static void dial_attaches_both(void **state)
{
    struct peer *there = party_dial(&a, 1, 0), *here;

    (void)state;
    assert_non_null(there);
    assert_true(party_until(both, 2, 2000, is_attached, there));
    here = party_peer(&b, 0);
    assert_non_null(here);
    assert_true(here->attached);
    assert_int_equal(there->who.incarnation, b.config.self.incarnation);
    assert_int_equal(here->who.incarnation, a.config.self.incarnation);
    assert_int_equal(there->their_index, here - b.peers);
    assert_int_equal(here->their_index, there - a.peers);
    assert_true(there->fds_are_right && here->fds_are_right);
    assert_int_equal(here->pid, getpid());
    settle();
    assert_int_equal(there->attaches + here->attaches, 2);
    assert_int_equal(there->failures + here->failures + there->deaths + here->deaths, 0);
}

static void nothing_lingers_after_an_attach(void **state)
{
    struct peer *there;
    unsigned open_before = osfail_open_fds();

    (void)state;
    there = party_dial(&a, 1, b.config.self.incarnation);
    assert_true(party_until(both, 2, 2000, is_attached, there));
    settle();
    /* What came, and nothing else: both are of this process, so no pidfds. */
    assert_int_equal(osfail_open_fds(), open_before + 3 + 3);
}

static void both_dial_at_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        struct peer *there = party_dial(&a, 1, 0), *here = party_dial(&b, 0, 0);

        /* Each order of the two sides' polls, and of how far one gets before the other looks, is taken in turn. */
        for (unsigned step = 0; step < 6; step++)
            nigh_rendezvous_progress((i >> step) & 1 ? a.rendezvous : b.rendezvous);
        assert_true(party_until(both, 2, 2000, is_attached, there));
        assert_true(party_until(both, 2, 2000, is_attached, here));
        for (unsigned step = 0; step < 4; step++) {
            nigh_rendezvous_progress(a.rendezvous);
            nigh_rendezvous_progress(b.rendezvous);
        }
        assert_int_equal(there->their_index, here - b.peers);
        assert_int_equal(here->their_index, there - a.peers);
        assert_int_equal(there->failures + here->failures, 0);
        assert_true(there->attaches <= 2 && here->attaches <= 2);
        party_forget(&a, there);
        party_forget(&b, here);
    }
    settle();
    assert_null(party_peer(&a, 1));
    assert_null(party_peer(&b, 0));
}

static void dial_waits_for_a_name(void **state)
{
    struct peer *there = party_dial(&a, 2, 0);
    static struct party late;
    struct party *const all[] = {&a, &late};

    (void)state;
    party_for(both, 1, 50);
    assert_false(there->attached);
    assert_int_equal(there->failures, 0);
    assert_int_equal(party_open(&late, job, 2, NULL), 0);
    assert_true(party_until(all, 2, 2000, is_attached, there));
    party_close(&late);
}

static void dial_of_a_closed_incarnation_fails(void **state)
{
    struct peer *there = party_dial(&a, 3, 77);

    (void)state;
    assert_int_equal(there->failures, 0); /* told from progress only */
    assert_true(party_until(both, 2, 1000, has_failed, there));
    assert_int_equal(there->error, -ECONNREFUSED);
    there = party_dial(&a, 1, b.config.self.incarnation + 1000);
    assert_true(party_until(both, 2, 1000, has_failed, there));
    assert_int_equal(there->error, -ECONNREFUSED);
    assert_int_equal(b.greetings, 0);
    settle();
}

static void listener_closes_before_it_answers(void **state)
{
    struct peer *known = party_dial(&a, 1, b.config.self.incarnation), *any = party_dial(&a, 1, 0);

    (void)state;
    nigh_rendezvous_progress(a.rendezvous);
    party_close(&b);
    assert_true(party_until(both, 1, 1000, has_failed, known));
    assert_int_equal(known->error, -ECONNREFUSED);
    party_for(both, 1, 30);
    assert_int_equal(any->failures, 0);
    assert_int_equal(party_open(&b, job, 1, NULL), 0);
    assert_true(party_until(both, 2, 2000, is_attached, any));
    settle();
}

static void greeting_can_be_refused(void **state)
{
    static const int errors[] = {-ENOSPC, -ENOMEM, -EPROTO, -ENOENT};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct peer *there = party_dial(&a, 1, 0);

        b.refuse_greeting = errors[i];
        assert_true(party_until(both, 2, 1000, has_failed, there));
        assert_int_equal(there->error, errors[i] == -ENOENT ? -EPROTO : errors[i]);
        assert_int_equal(there->failures, 1);
    }
    settle();
}

static void greeting_can_be_put_off(void **state)
{
    struct peer *there = party_dial(&a, 1, b.config.self.incarnation);

    (void)state;
    b.refuse_greeting = -EAGAIN;
    party_for(both, 2, 50);
    assert_true(b.greetings > 1);
    assert_int_equal(there->failures, 0);
    assert_true(nigh_rendezvous_greeted(a.rendezvous, there)); /* who closes waits for it */
    osfail_install();
    osfail_arm_all(OSFAIL_connect, 1, EAGAIN); /* nor is it forgotten while there is no room in the queue */
    party_for(both, 2, 250);
    assert_int_not_equal(osfail_count(OSFAIL_connect), 0);
    assert_true(nigh_rendezvous_greeted(a.rendezvous, there));
    osfail_remove();
    b.refuse_greeting = 0;
    assert_true(party_until(both, 2, 1000, is_attached, there));
    settle();
}

/* Both dial, and a hears b's greeting, then the answer to its own, both at once. That its DONE is read behind the greeting
 * is no reason to take the event of the answer, which is still to come, for the hang-up of one that needs none. */
static void done_that_cannot_be_sent_is_sent_again(void **state)
{
    struct peer *there = party_dial(&a, 1, 0), *here = party_dial(&b, 0, 0);

    (void)state;
    nigh_rendezvous_progress(b.rendezvous);
    assert_true(here->attached);
    osfail_install();
    osfail_arm(OSFAIL_sendmsg, 1, ENOMEM);
    nigh_rendezvous_progress(a.rendezvous);
    assert_true(osfail_hit());
    assert_true(there->attached);
    assert_int_equal(osfail_count(OSFAIL_sendmsg), 3); /* DONE, the answer, DONE */
    osfail_remove();
    settle();
    assert_int_equal(there->failures + here->failures, 0);
}

static void listener_can_refuse_to_attach(void **state)
{
    struct peer *there = party_dial(&a, 1, 0);

    (void)state;
    b.refuse_attach = -ENOMEM;
    assert_true(party_until(both, 2, 1000, has_failed, there));
    assert_int_equal(there->error, -ENOMEM);
    assert_int_equal(there->attaches, 0);
    assert_int_equal(party_peer(&b, 0)->failures, 0);
    settle();
}

static void dialler_can_refuse_to_attach(void **state)
{
    struct peer *there = party_dial(&a, 1, 0), *here;

    (void)state;
    a.refuse_attach = -ENOMEM;
    settle();
    here = party_peer(&b, 0);
    assert_non_null(here);
    assert_int_equal(there->failures, 0); /* it said so itself */
    assert_int_equal(here->attaches, 1);
    assert_int_equal(here->failures, 1);
    assert_int_equal(here->error, -ENOMEM);
}

static void forget_in_a_callback(void **state)
{
    struct peer *there = party_dial(&a, 1, 0), *here;

    (void)state;
    b.forget_in_callback = true;
    for (unsigned i = 0; i < 4; i++) {
        nigh_rendezvous_progress(b.rendezvous);
        nigh_rendezvous_progress(a.rendezvous);
    }
    here = party_peer(&b, 0);
    assert_non_null(here);
    assert_int_equal(here->failures + here->deaths, 0);
    b.forget_in_callback = false;
    assert_true(party_until(both, 2, 1000, is_attached, there)); /* a tries again by itself */
    settle();
    party_forget(&a, there);
    a.forget_in_callback = true;
    there = party_dial(&a, 1, 0);
    settle();
    assert_int_equal(there->attaches, 1);
    assert_int_equal(there->failures, 0);
}

/* A dialler that forgets after the other side has attached is told to that side. */
static void forgotten_dial_is_undone(void **state)
{
    struct peer *there = party_dial(&a, 1, 0), *here;

    (void)state;
    nigh_rendezvous_progress(b.rendezvous);
    here = party_peer(&b, 0);
    assert_non_null(here);
    assert_true(here->attached);
    party_forget(&a, there);
    assert_true(party_until(both, 2, 1000, has_failed, here));
    assert_int_equal(here->error, -ECONNREFUSED);
    settle();
    assert_int_equal(here->failures, 1);
}

/* b dials, a attaches; b forgets a and only then sees that a had dialled as well. That acquaintance is new to b and
 * must not be taken by a for the one it has. */
static void stale_dial_makes_no_second_pair(void **state)
{
    struct peer *there = party_dial(&a, 1, 0), *here = party_dial(&b, 0, 0), *phantom;

    (void)state;
    nigh_rendezvous_progress(a.rendezvous);
    assert_true(there->attached);
    party_forget(&b, here);
    b.peers[0] =
        (struct peer){.used = true, .who = {.rank = 99}, .fds = {-1, -1, -1}}; /* another index then */
    nigh_rendezvous_progress(b.rendezvous);
    phantom = party_peer(&b, 0);
    assert_ptr_equal(phantom, &b.peers[1]);
    settle();
    assert_int_equal(there->attaches, 1);
    assert_int_equal(phantom->attaches, 1);
    assert_int_equal(phantom->failures, 1);
    assert_int_equal(phantom->error, -ECONNREFUSED);
    assert_int_equal(there->failures, 1);
}

static void name_in_use(void **state)
{
    static struct party second;
    unsigned open_before = osfail_open_fds();

    (void)state;
    assert_int_equal(party_open(&second, job, 0, NULL), -EADDRINUSE);
    assert_int_equal(osfail_open_fds(), open_before);
    settle(); /* a was looked at: it must not mind */
    party_close(&a);
    assert_int_equal(party_open(&a, job, 0, NULL), 0);
}

static void dial_oneself(void **state)
{
    struct peer *self = party_dial(&a, 0, 0);

    (void)state;
    assert_true(party_until(both, 2, 1000, is_attached, self));
    settle();
    assert_int_equal(self->their_index, self - a.peers);
    assert_int_equal(self->failures, 0);
}

static bool hundred_attached(void *data)
{
    struct party *party = data;
    unsigned count = 0;

    for (unsigned i = 0; i < PARTY_PEERS; i++)
        count += party->peers[i].attached;
    return count == 100;
}

static void hundred_dials_at_once(void **state)
{
    static struct peer *there[100];
    unsigned open_before = osfail_open_fds();

    (void)state;
    /* 100 records at a for the same context: each says its own index, b makes them one. */
    for (unsigned i = 0; i < 100; i++)
        there[i] = party_dial(&a, 1, 0);
    assert_true(party_until(both, 2, 5000, hundred_attached, &a));
    settle();
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(there[i]->failures, 0);
    assert_int_equal(b.peers[0].attaches, 100);
    assert_int_equal(osfail_open_fds(), open_before + 100 * 3 + 3);
}

static void idle_progress_is_three_calls(void **state)
{
    struct peer *there = party_dial(&a, 1, 0);
    unsigned calls = 0;

    (void)state;
    assert_true(party_until(both, 2, 1000, is_attached, there));
    settle();
    osfail_install();
    nigh_rendezvous_progress(a.rendezvous);
    for (unsigned i = 0; i < OSFAIL_CALLS; i++)
        calls += osfail_count((enum osfail_call)i);
    /* Two of them ask whether the descriptors are ours yet. */
    assert_int_equal(calls, 3);
    assert_int_equal(osfail_count(OSFAIL_fstat), 1);
    assert_int_equal(osfail_count(OSFAIL_epoll_ctl), 1);
    assert_int_equal(osfail_count(OSFAIL_epoll_wait), 1);
    osfail_remove();
}

static void addresses_are_its_own(void **state)
{
    struct nigh_address address;
    struct nigh_identity who;
    struct peer *there;

    (void)state;
    nigh_rendezvous_address(b.rendezvous, &address);
    assert_int_equal(nigh_rendezvous_parse(a.rendezvous, &address, &who), 0);
    assert_int_equal(who.job, job);
    assert_int_equal(who.rank, 1);
    assert_int_equal(who.incarnation, b.config.self.incarnation);
    there = party_dial(&a, who.rank, who.incarnation);
    assert_true(party_until(both, 2, 1000, is_attached, there));
    settle();
}

/* The program closes all descriptors while an answer is under way: its dialler attaches by that, and says so in vain. One that
 * has no answer is told. */
static void who_was_answered_stays_attached(void **state)
{
    struct peer *there = party_dial(&a, 1, 0), *here;

    (void)state;
    nigh_rendezvous_progress(a.rendezvous);
    while (!(here = party_peer(&b, 0)) || !here->attached)
        nigh_rendezvous_progress(b.rendezvous);
    assert_false(there->attached);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    fds_before = osfail_open_fds();
    logged_begin();
    for (unsigned i = 0; i < 10; i++) {
        nigh_rendezvous_progress(a.rendezvous);
        nigh_rendezvous_progress(b.rendezvous);
    }
    assert_int_equal(logged_lines(), 2);
    logged_assert_has("the program has closed descriptors");
    logged_end();
    assert_int_equal(here->failures, 0);
    assert_int_equal(there->failures, 1);
    assert_int_equal(there->error, -EBADF);
}

/* One of a's descriptors becomes the program's, of each kind, while b greets it or waits to: b gets none of the program's, and
 * nothing of it is touched, nor closed in a forked child. */
static void lose_one(int (*number)(void), unsigned left_open, unsigned kind)
{
    int fd = number(), status;
    struct peer *here;
    pid_t child;

    others_open(fd, kind);
    child = fork();
    if (child == 0) {
        nigh_held_abandon();
        _exit(fcntl(fd, F_GETFD) < 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    logged_begin();
    party_dial(&a, 7, 0); /* sets the timer */
    here = party_dial(&b, 0, 0);
    for (unsigned i = 0; i < 100 && !nigh_rendezvous_is_lost(a.rendezvous); i++) {
        nigh_rendezvous_progress(b.rendezvous);
        nigh_rendezvous_progress(a.rendezvous);
    }
    assert_true(nigh_rendezvous_is_lost(a.rendezvous));
    logged_assert_has("the program has closed descriptors");
    logged_end();
    assert_false(here->attached);
    assert_int_equal(here->failures, 0);
    nigh_rendezvous_close(a.rendezvous);
    a.rendezvous = NULL;
    assert_int_equal(others_touched(), -1);
    party_close(&a);
    party_forget(&b, here);
    party_for((struct party *const[]){&b}, 1, 5);
    fds_before += left_open;
    assert_int_equal(party_open(&a, job, 0, NULL), 0);
}

static int arena_of_a(void)
{
    return a.config.arena_fd;
}

static int doorbell_of_a(void)
{
    return a.config.doorbell_fd;
}

static int listener_of_a(void)
{
    return a.rendezvous->listener.fd;
}

static int set_of_a(void)
{
    return a.rendezvous->epoll;
}

static int timer_of_a(void)
{
    return a.rendezvous->timer;
}

static void one_that_the_program_closed_is_noticed(void **state)
{
    /* The set is known by the listener, the timer by the set. */
    static const struct {
        int (*number)(void);
        unsigned left_open;
    } cases[] = {{listener_of_a, 2}, {set_of_a, 1}, {timer_of_a, 0}, {arena_of_a, 0}, {doorbell_of_a, 0}};

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (unsigned kind = 0; kind < OTHERS_KINDS; kind++)
            lose_one(cases[i].number, cases[i].left_open, kind);
}

/* A set of the program's under the number of a's, with a file of the program's in it under the number of a's listener. */
static void a_set_of_the_programs_is_not_taken_for_its_own(void **state)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0xbeef}, got;
    int listener = listener_of_a(), set = set_of_a(), file = eventfd(1, EFD_CLOEXEC),
        made = epoll_create1(EPOLL_CLOEXEC);

    (void)state;
    assert_int_equal(dup3(file, listener, O_CLOEXEC), listener);
    assert_int_equal(dup3(made, set, O_CLOEXEC), set);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event), 0);
    logged_begin();
    nigh_rendezvous_progress(a.rendezvous);
    logged_end();
    assert_true(nigh_rendezvous_is_lost(a.rendezvous));
    assert_int_equal(epoll_wait(set, &got, 1, 0), 1);
    assert_int_equal(got.data.u64, 0xbeef);
    assert_int_equal(close(listener) | close(set), 0);
    close(file);
    close(made);
    fds_before++; /* the timer: its set is not there to know it by */
}

/* The descriptor that is kept for diallers of a process that has no other is the program's, or what it is a copy of. */
static void a_spare_one_that_the_program_closed_is_not_given_up(void **state)
{
    struct peer *here;

    (void)state;
    for (unsigned kind = 0; kind < OTHERS_KINDS; kind++) {
        others_open(a.rendezvous->spare, kind);
        a.rendezvous->full_since = 1; /* long ago */
        osfail_install();
        osfail_arm_all(OSFAIL_accept4, 1, EMFILE);
        logged_begin();
        here = party_dial(&b, 0, 0);
        for (unsigned i = 0; i < 10; i++) {
            nigh_rendezvous_progress(b.rendezvous);
            nigh_rendezvous_progress(a.rendezvous);
        }
        logged_end();
        assert_true(osfail_hit());
        osfail_remove();
        assert_int_equal(others_touched(), -1);
        party_forget(&b, here);
        party_close(&a);
        assert_int_equal(party_open(&a, job, 0, NULL), 0);
        nigh_os_close(a.rendezvous->spare);
        a.rendezvous->spare = -1;
        others_open(arena_of_a(), kind);
        nigh_greet_keep_spare(a.rendezvous);
        assert_int_equal(a.rendezvous->spare, -1);
        assert_int_equal(others_touched(), -1);
        party_close(&a);
        assert_int_equal(party_open(&a, job, 0, NULL), 0);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_two, close_two)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(dial_attaches_both),
        CASE(nothing_lingers_after_an_attach),
        CASE(both_dial_at_once),
        CASE(dial_waits_for_a_name),
        CASE(dial_of_a_closed_incarnation_fails),
        CASE(listener_closes_before_it_answers),
        CASE(greeting_can_be_refused),
        CASE(greeting_can_be_put_off),
        CASE(done_that_cannot_be_sent_is_sent_again),
        CASE(listener_can_refuse_to_attach),
        CASE(dialler_can_refuse_to_attach),
        CASE(forget_in_a_callback),
        CASE(forgotten_dial_is_undone),
        CASE(stale_dial_makes_no_second_pair),
        CASE(name_in_use),
        CASE(dial_oneself),
        CASE(hundred_dials_at_once),
        CASE(idle_progress_is_three_calls),
        CASE(addresses_are_its_own),
        CASE(who_was_answered_stays_attached),
        CASE(one_that_the_program_closed_is_noticed),
        CASE(a_set_of_the_programs_is_not_taken_for_its_own),
        CASE(a_spare_one_that_the_program_closed_is_not_given_up),
    };
    return cmocka_run_group_tests_name("rendezvous", tests, NULL, NULL);
}
