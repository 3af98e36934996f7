/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever connects or listens may say anything: nonsense is refused, costs no descriptor and no crash, and does not
 * keep others from attaching. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/name.h"
#include "shm/wire.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include "tests/support/party.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t job;
static struct party victim;
static struct party *const us[] = {&victim};
static struct nigh_name name;
static unsigned fds_before;

static int begin(void **state)
{
    (void)state;
    job = ((uint64_t)getpid() << 32) + (job & 0xffff) + 1;
    fds_before = osfail_open_fds();
    assert_int_equal(party_open(&victim, job, 0, NULL, false), 0);
    name = (struct nigh_name){.uid = geteuid(), .job = job, .rank = 0};
    logged_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    logged_end();
    party_close(&victim);
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

/* The victim still attaches to an honest one, and has kept nothing of anybody else's. */
static void still_works(void)
{
    static struct party honest;
    struct party *const two[] = {&victim, &honest};
    struct peer *peer;

    assert_int_equal(party_open(&honest, job, 1000, NULL, false), 0);
    peer = party_dial(&honest, 0, 0);
    assert_true(party_until(two, 2, 2000, is_attached, peer));
    party_for(two, 2, 50);
    peer = party_peer(&victim, 1000);
    assert_true(peer->attached);
    party_forget(&victim, peer);
    party_close(&honest);
    party_for(us, 1, 30);
    assert_int_equal(osfail_open_fds(), fds_before + 6);
}

static int knock(void)
{
    int fd;

    assert_int_equal(nigh_name_connect(&name, &fd), 0);
    return fd;
}

/* A greeting that would be welcome. */
static struct nigh_wire greeting(void)
{
    struct nigh_hello self = {
        .self = {.job = job, .incarnation = 99, .rank = 1}, .peers_max = 64, .ranks = 16};
    struct nigh_wire message;

    nigh_wire_begin(&message, NIGH_WIRE_HELLO, &self);
    message.to_job = job;
    message.fds = 3;
    return message;
}

static int send_raw(int fd, const void *bytes, size_t length, unsigned fd_count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(253 * sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd_count) {
        int *fds = (int *)(void *)CMSG_DATA(&control.header);

        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        for (unsigned i = 0; i < fd_count; i++)
            fds[i] = STDERR_FILENO;
        header.msg_control = &control;
        header.msg_controllen = control.header.cmsg_len;
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* What the victim says to it: the error of a REFUSE, 0 for an ANSWER, 1 when it just hangs up, 2 nothing. */
static int verdict(int fd)
{
    struct nigh_wire message;
    int fds[NIGH_WIRE_FDS];
    int error;

    for (unsigned i = 0; i < 3; i++)
        nigh_rendezvous_progress(victim.rendezvous);
    error = nigh_wire_receive(fd, &message, fds);
    if (error)
        return error == -EAGAIN ? 2 : 1;
    for (unsigned i = 0; i < NIGH_WIRE_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return message.kind == NIGH_WIRE_ANSWER ? 0 : message.error;
}

static int say(const void *bytes, size_t length, unsigned fd_count)
{
    int fd = knock(), result;

    assert_int_equal(send_raw(fd, bytes, length, fd_count), 0);
    result = verdict(fd);
    close(fd);
    return result;
}

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
    assert_int_equal(say(&message, sizeof(message), 5), -EPROTO);
    assert_int_equal(say(&message, sizeof(message), 4), 0);
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

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* 70 of ours, 64 that were let in, the honest one's 6 and its dial. */
static unsigned fds_with_the_silent(void)
{
    return fds_before + 6 + 70 + 64 + 6 + 1;
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
    assert_int_equal(party_open(&honest, job, 1, NULL, false), 0);
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
                      answer.error == -EACCES
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
    logged_assert_has("is held by a process of user 65534");
    logged_assert_has("rank 1 of job 0000000000ca11ed");
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
    still_works();
}

/* ---- hostile listeners ------------------------------------------------------------------------------------ */

static struct nigh_listener trap;
static struct nigh_name trap_name;

static void set_trap(void)
{
    trap_name = name;
    trap_name.rank = 1;
    assert_int_equal(nigh_name_listen(&trap_name, &trap), 0);
}

static bool is_dialled(void *data)
{
    (void)data;
    return poll(&(struct pollfd){.fd = trap.fd, .events = POLLIN}, 1, 0) == 1;
}

/* Accepts the victim's dial and reads its greeting. */
static int take_dial(void)
{
    struct nigh_wire message;
    int fds[NIGH_WIRE_FDS], fd;

    assert_true(party_until(us, 1, 2000, is_dialled, NULL));
    fd = accept4(trap.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(nigh_wire_receive(fd, &message, fds), 0);
    assert_int_equal(message.kind, NIGH_WIRE_HELLO);
    assert_int_equal(message.fds, 3);
    close(fds[0]);
    close(fds[1]);
    close(fds[2]);
    return fd;
}

static struct nigh_wire answer(uint32_t rank, uint64_t incarnation)
{
    struct nigh_hello self = {
        .self = {.job = job, .incarnation = incarnation, .rank = rank}, .peers_max = 64, .ranks = 16};
    struct nigh_wire message;

    nigh_wire_begin(&message, NIGH_WIRE_ANSWER, &self);
    message.fds = 3;
    return message;
}

/* Dials (incarnation 5), is answered so, and must fail so. */
static void expect_failure(const struct nigh_wire *message, unsigned fd_count, int error)
{
    struct peer *peer = party_dial(&victim, 1, 5);
    int fd = take_dial();

    assert_int_equal(send_raw(fd, message, sizeof(*message), fd_count), 0);
    assert_true(party_until(us, 1, 2000, has_failed, peer));
    assert_int_equal(peer->error, error);
    assert_int_equal(peer->attaches, 0);
    close(fd);
    party_forget(&victim, peer);
}

static void wrong_answers(void **state)
{
    struct nigh_wire message = answer(1, 5);

    (void)state;
    set_trap();
    expect_failure(&message, 0, -EPROTO);
    expect_failure(&message, 2, -EPROTO);
    expect_failure(&message, 50, -EPROTO);
    message = answer(2, 5);
    expect_failure(&message, 3, -EPROTO);
    message = answer(1, 6);
    expect_failure(&message, 3, -ECONNREFUSED);
    message = answer(1, 5);
    message.job++;
    expect_failure(&message, 3, -EPROTO);
    message = answer(1, 5);
    message.to_rank = 1;
    expect_failure(&message, 3, -EPROTO);
    message = greeting(); /* a greeting is no answer */
    expect_failure(&message, 3, -EPROTO);
    nigh_wire_begin(&message, NIGH_WIRE_DONE, NULL);
    expect_failure(&message, 0, -EPROTO);
    nigh_wire_begin(&message, NIGH_WIRE_REFUSE, NULL);
    message.error = -EIO; /* not one that is known */
    expect_failure(&message, 0, -EPROTO);
    message.error = 5;
    expect_failure(&message, 0, -EPROTO);
    message.error = -ENOSPC;
    expect_failure(&message, 0, -ENOSPC);
    nigh_name_close(&trap_name, &trap);
    still_works();
}

/* Hangs up on every dial: it is tried again at the slower pace, for ever, and costs no descriptor. */
static void listener_that_hangs_up(void **state)
{
    struct peer *peer;
    unsigned dials = 0;
    uint64_t begun, stop;

    (void)state;
    set_trap();
    peer = party_dial(&victim, 1, 5);
    begun = now_ms();
    for (stop = begun + 500; now_ms() < stop || (dials < 8 && now_ms() < begun + 60000);) {
        int fd = accept4(trap.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        dials += fd >= 0;
        if (fd >= 0)
            close(fd);
        party_for(us, 1, 1);
    }
    assert_in_range(dials, 8, 12 + (now_ms() - begun) / 100); /* 1, 2, 4 .. 64, 100, 100 ms */
    assert_int_equal(peer->failures, 0);
    nigh_name_close(&trap_name, &trap);
    assert_true(party_until(us, 1, 2000, has_failed, peer));
    assert_int_equal(peer->error, -ECONNREFUSED);
    still_works();
}

static void refusal_for_now_is_tried_again(void **state)
{
    struct nigh_wire message;
    struct peer *peer;
    int fd;

    (void)state;
    set_trap();
    peer = party_dial(&victim, 1, 5);
    for (unsigned i = 0; i < 3; i++) {
        fd = take_dial();
        nigh_wire_begin(&message, NIGH_WIRE_REFUSE, NULL);
        message.error = -EAGAIN;
        assert_int_equal(send_raw(fd, &message, sizeof(message), 0), 0);
        close(fd);
        party_for(us, 1, 20);
    }
    fd = take_dial();
    message = answer(1, 5);
    assert_int_equal(send_raw(fd, &message, sizeof(message), 3), 0);
    assert_true(party_until(us, 1, 2000, is_attached, peer));
    assert_int_equal(nigh_wire_receive(fd, &message, (int[NIGH_WIRE_FDS]){0}), 0);
    assert_int_equal(message.kind, NIGH_WIRE_DONE);
    assert_int_equal(message.error, 0);
    close(fd);
    nigh_name_close(&trap_name, &trap);
    party_forget(&victim, peer);
    still_works();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

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
        CASE(wrong_answers),
        CASE(listener_that_hangs_up),
        CASE(refusal_for_now_is_tried_again),
    };
    return cmocka_run_group_tests_name("attach_hostile", tests, NULL, NULL);
}
