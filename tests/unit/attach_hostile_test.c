/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever connects may say anything: nonsense is refused, costs no descriptor and no crash, and
 * does not keep others from attaching. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/victim.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void welcome_greeting_is_welcome(void **state)
{
    struct nigh_wire message = greeting();

    (void)state; /* else the cases below would prove nothing */
    assert_int_equal(say(&message, sizeof(message), 3), 0);
    party_for(us, 1, 50);
    assert_int_equal(party_peer(&victim, 1)->error, -ECONNREFUSED); /* it closed without DONE */
    still_works();
}

static void wrong_lengths(void **state)
{
    static uint8_t bytes[4096];
    struct nigh_wire message = greeting();

    (void)state;
    memcpy(bytes, &message, sizeof(message));
    for (size_t length = 1; length <= 200; length++) {
        if (length != sizeof(message))
            assert_int_equal(say(bytes, length, length % 5), -EPROTO);
    }
    assert_int_equal(say(bytes, sizeof(bytes), 3), -EPROTO);
    assert_int_equal(say(bytes, 0, 0), 1); /* nothing is like hanging up */
    assert_int_equal(say(bytes, 0, 4), 1);
    assert_int_equal(victim.greetings, 0);
    still_works();
}

static void wrong_fields(void **state)
{
    struct nigh_wire good = greeting(), bad;
#define WITH(field, value)                                                       \
    {                                                                            \
        offsetof(struct nigh_wire, field), sizeof(good.field), (uint64_t)(value) \
    }
    const struct {
        size_t at, bytes;
        uint64_t value;
    } cases[] = {
        WITH(magic, good.magic + 1),
        WITH(version, good.version + 1),
        WITH(version, 0),
        WITH(kind, 0),
        WITH(kind, NIGH_WIRE_ANSWER),
        WITH(kind, NIGH_WIRE_REFUSE),
        WITH(kind, NIGH_WIRE_DONE),
        WITH(kind, NIGH_WIRE_BYE),
        WITH(kind, UINT32_MAX),
        WITH(incarnation, 0),
        WITH(index, good.peers_max),
        WITH(index, UINT32_MAX),
        WITH(peers_max, 0),
        WITH(peers_max, 65537),
        WITH(ranks, 0),
        WITH(rank, good.ranks),
        WITH(rank, UINT32_MAX),
        WITH(error, -ENOSPC),
        WITH(flags, NIGH_WIRE_KEEP),
        WITH(fds, 0),
        WITH(fds, 1),
        WITH(fds, 2),
        WITH(fds, 4), /* 3 come */
        WITH(fds, UINT32_MAX),
        WITH(to_job, job + 1),
        WITH(to_rank, 5),
    };
#undef WITH

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int result;

        bad = good;
        memcpy((uint8_t *)&bad + cases[i].at, &cases[i].value, cases[i].bytes); /* little-endian */
        result = say(&bad, sizeof(bad), 3);
        if (result != -EPROTO)
            fail_msg("case %u was answered with %d", i, result);
    }
    bad = good;
    bad.to_incarnation = victim.config.self.incarnation + 1;
    assert_int_equal(say(&bad, sizeof(bad), 3), -ECONNREFUSED);
    assert_int_equal(victim.greetings, 0);
    still_works();
}

static void wrong_counts_of_descriptors(void **state)
{
    static const unsigned counts[] = {0, 1, 2, 4, 5, 6, 100, 253};
    struct nigh_wire message = greeting();

    (void)state;
    for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        assert_int_equal(say(&message, sizeof(message), counts[i]), -EPROTO);
    message.fds = 4;
    assert_int_equal(say(&message, sizeof(message), 3), -EPROTO);
    assert_int_equal(say(&message, sizeof(message), 4), -EPROTO);
    message.fds = 3;
    assert_int_equal(say(&message, sizeof(message), 3), 0);
    party_for(us, 1, 50);
    still_works();
}

static void random_messages(void **state)
{
    struct nigh_wire message;
    uint8_t *bytes = (uint8_t *)&message;

    (void)state;
    srandom(7);
    for (unsigned i = 0; i < 5000; i++) {
        message = greeting();
        message.rank = i % 16;
        for (unsigned changes = (unsigned)random() % 4; changes--;)
            bytes[(unsigned)random() % sizeof(message)] = (uint8_t)random();
        say(bytes, sizeof(message), (unsigned)random() % 5);
        for (unsigned peer = 0; peer < PARTY_PEERS; peer++) {
            if (victim.peers[peer].used)
                party_forget(&victim, &victim.peers[peer]);
        }
    }
    still_works();
}

static void nonsense_instead_of_done(void **state)
{
    struct nigh_wire message;

    (void)state;
    for (unsigned kind = 0; kind < 8; kind++) {
        int fd = knock();

        message = greeting();
        message.incarnation += kind;
        assert_int_equal(send_raw(fd, &message, sizeof(message), 3), 0);
        assert_int_equal(verdict(fd), 0);
        nigh_wire_begin(&message, kind, NULL);
        if (kind == NIGH_WIRE_DONE)
            message.error = -ENOENT; /* none of those that are known */
        if (kind == 7)
            message.magic = 0;
        assert_int_equal(send_raw(fd, &message, sizeof(message), kind == 5 ? 3 : 0), 0);
        for (unsigned i = 0; i < 3; i++)
            nigh_rendezvous_progress(victim.rendezvous);
        assert_int_equal(victim.peers[kind].failures, 1);
        assert_int_equal(victim.peers[kind].error, -EPROTO);
        close(fd);
    }
    for (unsigned i = 0; i < 8; i++)
        victim.peers[i].used = false;
    still_works();
}

/* A greeting that comes again and again from the same peer keeps one exchange, not one each. */
static void greetings_do_not_pile_up(void **state)
{
    struct nigh_wire message = greeting();
    static int fds[300];
    unsigned before = 0;

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        fds[i] = knock();
        assert_int_equal(send_raw(fds[i], &message, sizeof(message), 3), 0);
        assert_int_equal(verdict(fds[i]), 0);
        if (i == 0)
            before = osfail_open_fds();
        else
            assert_int_equal(osfail_open_fds(), before + i); /* this end of each */
    }
    for (unsigned i = 0; i < 300; i++)
        close(fds[i]);
    party_for(us, 1, 50);
    assert_int_equal(victim.peers[0].attaches, 300);
    assert_int_equal(victim.peers[0].failures, 1);
    still_works();
}

static void connect_and_close(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 500; i++)
        close(knock());
    party_for(us, 1, 30);
    assert_int_equal(logged_lines(), 0);
    still_works();
}

/* 70 of ours, 64 that were let in, the honest one's 6 and its dial. */
static unsigned fds_with_the_silent(void)
{
    return fds_before + 7 + 70 + 64 + 7 + 1;
}

static bool are_let_in(void *data)
{
    (void)data;
    return osfail_open_fds() >= fds_with_the_silent();
}

/* 70 silent ones: 64 are let in, the rest and an honest one wait outside until those are thrown out after 5 s. The
 * wait costs nothing: the set is not readable for those outside. */
static void silent_ones_are_dropped(void **state)
{
    static int silent[70];
    static struct party honest;
    struct party *const two[] = {&victim, &honest};
    struct pollfd look = {.fd = nigh_rendezvous_fd(victim.rendezvous), .events = POLLIN};
    uint64_t began = now_ms(), took;
    struct peer *peer;
    bool all_wait;
    int said;

    (void)state;
    for (unsigned i = 0; i < 70; i++)
        silent[i] = knock();
    assert_int_equal(party_open(&honest, job, 1, NULL), 0);
    peer = party_dial(&honest, 0, 0);
    (void)party_until(two, 2, 100, are_let_in, NULL);
    all_wait = osfail_open_fds() == fds_with_the_silent();
    party_for(two, 2, 50);
    all_wait =
        all_wait && !peer->attached && osfail_open_fds() == fds_with_the_silent() && poll(&look, 1, 0) == 0;
    /* A machine that has taken so long to come here has dropped some already. */
    if (now_ms() - began < 4500)
        assert_true(all_wait);
    assert_true(party_until(two, 2, 10000, is_attached, peer));
    took = now_ms() - began;
    assert_in_range(took, 4900, 60000);
    logged_assert_has("said nothing for 5 s");
    for (unsigned i = 0; i < 64;
         i++) { /* each 5 s after it has come: the honest one may have got the place of the first */
        while ((said = verdict(silent[i])) == 2 && now_ms() < began + 60000)
            party_for(two, 2, 10);
        assert_int_equal(said, 1);
    }
    for (unsigned i = 0; i < 70; i++)
        close(silent[i]);
    party_close(&honest);
    party_for(us, 1, 30);
    party_forget(&victim, party_peer(&victim, 1));
    still_works();
}

/* ---- other users ------------------------------------------------------------------------------------------ */

static bool cannot_become_another(void)
{
    if (geteuid() == 0)
        return false;
    print_message("only root can become another user\n");
    return true;
}

static void other_user_is_refused(void **state)
{
    struct nigh_wire message = greeting();
    int status, done[2];
    pid_t child;

    (void)state;
    if (cannot_become_another())
        skip();
    assert_int_equal(pipe(done), 0);
    child = fork();
    if (child == 0) {
        struct nigh_wire answer;
        int fd, fds[NIGH_WIRE_FDS];

        if (setgid(65534) || setuid(65534) || nigh_name_connect(&name, &fd))
            _exit(1);
        send_raw(fd, &message, sizeof(message), 3);
        if (write(done[1], "", 1) != 1 || poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 60000) != 1)
            _exit(2);
        _exit(nigh_wire_receive(fd, &answer, fds) == 0 && answer.kind == NIGH_WIRE_REFUSE &&
                      answer.error == -EACCES && answer.value == 0 /* root's */
                  ? 0
                  : 3);
    }
    assert_int_equal(read(done[0], &(char){0}, 1), 1);
    while (waitpid(child, &status, WNOHANG) == 0)
        party_for(us, 1, 10);
    assert_int_equal(status, 0);
    logged_assert_has("of user 65534 tried to attach");
    assert_int_equal(victim.greetings, 0);
    close(done[0]);
    close(done[1]);
    still_works();
}

/* Somebody else sits on the name that the victim dials: it must not get the victim's descriptors. */
static void other_users_name_is_not_trusted(void **state)
{
    struct nigh_name squatted = name;
    int ready[2], status;
    struct peer *peer;
    pid_t child;

    (void)state;
    if (cannot_become_another())
        skip();
    squatted.rank = 1;
    assert_int_equal(pipe(ready), 0);
    child = fork();
    if (child == 0) {
        struct nigh_listener listener;
        struct nigh_wire message;
        int fd, fds[NIGH_WIRE_FDS];

        if (setgid(65534) || setuid(65534) || nigh_name_listen(&squatted, &listener) ||
            write(ready[1], "", 1) != 1)
            _exit(1);
        if (poll(&(struct pollfd){.fd = listener.fd, .events = POLLIN}, 1, 60000) != 1)
            _exit(2);
        fd = accept(listener.fd, NULL, NULL);
        if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 60000) != 1)
            _exit(3);
        _exit(nigh_wire_receive(fd, &message, fds) == -ECONNRESET ? 0 : 4);
    }
    assert_int_equal(read(ready[0], &(char){0}, 1), 1);
    peer = party_dial(&victim, 1, 0);
    assert_true(party_until(us, 1, 2000, has_failed, peer));
    assert_int_equal(peer->error, -EACCES);
    assert_int_equal(peer->why.cause, NIGH_CAUSE_USER);
    assert_false(peer->why.there);
    assert_int_equal(peer->why.value, 65534);
    assert_int_equal(peer->why.pid, child);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
    still_works();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(welcome_greeting_is_welcome),
        CASE(wrong_lengths),
        CASE(wrong_fields),
        CASE(wrong_counts_of_descriptors),
        CASE(random_messages),
        CASE(nonsense_instead_of_done),
        CASE(greetings_do_not_pile_up),
        CASE(connect_and_close),
        CASE(silent_ones_are_dropped),
        CASE(other_user_is_refused),
        CASE(other_users_name_is_not_trusted),
    };
    return cmocka_run_group_tests_name("attach_hostile", tests, NULL, NULL);
}
