/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may attach when users change, and what a dialler is told when nothing comes of its dial: the true reason, with its
 * value, within a bound; and of peers that are never met, where they may be. */
#include "tests/support/child.h"

#include "shm/exchange.h"
#include "shm/name.h"
#include "shm/wire.h"
#include "tests/support/logged.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { OTHER = 1234, LIMIT = 64 };

static void only_root_changes_users(void)
{
    if (geteuid() == 0)
        return;
    print_message("only root can become another user\n");
    skip();
}

/* ---- a user that changes between open and the first message --------------------------------------------------------- */

static void become_another(void)
{
    if (setresgid(OTHER, OTHER, OTHER) || setresuid(OTHER, OTHER, OTHER))
        _exit(6);
}

static void serve_as_another(int in, int out)
{
    open_there();
    become_another();
    say(out);
    party_until(them, 1, 60000, told_to_stop, &in);
}

static void dial_as_another(int in, int out)
{
    struct peer *peer;

    open_there();
    become_another();
    peer = party_dial(&there, 0, 0);
    if (!party_until(them, 1, 10000, is_attached, peer))
        _exit(7);
    say(out);
    party_until(them, 1, 60000, told_to_stop, &in);
}

/* Only the effective one: it must come back. */
static void as_user(uid_t uid)
{
    assert_int_equal(seteuid(uid), 0);
}

static void listener_that_has_changed_is_met(void **state)
{
    struct peer *peer;

    (void)state;
    only_root_changes_users();
    for (unsigned both = 0; both < 2; both++) {
        start(serve_as_another);
        listen_to(from_child);
        as_user(both ? OTHER : 0);
        peer = party_dial(&here, 1, 0);
        assert_true(party_until(us, 1, 60000, is_settled, peer));
        as_user(0);
        assert_int_equal(peer->failures, 0);
        kill_as_told_once(peer);
    }
}

/* Nobody dials the one that has changed, so it must be let in. */
static void dialler_that_has_changed_is_let_in(void **state)
{
    (void)state;
    only_root_changes_users();
    for (unsigned both = 0; both < 2; both++) {
        logged_begin();
        start(dial_as_another);
        as_user(both ? OTHER : 0);
        assert_true(party_until(us, 1, 60000, has_rank_1, &here));
        assert_true(party_until(us, 1, 60000, is_attached, party_peer(&here, 1)));
        as_user(0);
        assert_int_equal(logged_lines(), 0);
        logged_end();
        kill_as_told_once(party_peer(&here, 1));
    }
}

enum { NUMBER = 17 };

static uint64_t brought_number;

static void brought(void *user, const struct nigh_identity *from, int pid, const struct nigh_parcel *parcel)
{
    assert_ptr_equal(user, &here);
    assert_int_equal(from->rank, 1);
    assert_int_equal(pid, child);
    assert_int_equal(parcel->count, 1);
    close(parcel->fds[0]);
    brought_number = parcel->number;
}

static bool is_brought(void *data)
{
    return *(const uint64_t *)data == NUMBER;
}

/* One that is looked at between its connect() and its sendmsg() is told to come again. */
static void bring_as_another(int in, int out)
{
    struct nigh_identity to = here.config.self;
    struct nigh_parcel parcel = {.number = NUMBER, .fds = &in, .count = 1};
    struct peer *peer;
    int error;

    open_there();
    become_another();
    peer = party_dial(&there, 0, 0);
    if (!party_until(them, 1, 10000, is_attached, peer))
        _exit(7);
    while ((error = nigh_rendezvous_bring(there.rendezvous, &to, &parcel)) == -EAGAIN)
        continue;
    if (error)
        _exit(5);
    say(out);
    party_until(them, 1, 60000, told_to_stop, &in);
}

static void what_one_that_has_changed_brings_is_taken(void **state)
{
    struct nigh_rendezvous_events bringing = *here.config.events;

    (void)state;
    only_root_changes_users();
    bringing.brought = brought;
    here.rendezvous->events = &bringing;
    for (unsigned both = 0; both < 2; both++) {
        brought_number = 0;
        logged_begin();
        start(bring_as_another);
        as_user(both ? OTHER : 0);
        assert_true(party_until(us, 1, 2000, is_brought, &brought_number));
        as_user(0);
        assert_int_equal(logged_lines(), 0);
        logged_end();
        kill_as_told_once(party_peer(&here, 1));
    }
    here.rendezvous->events = here.config.events;
}

/* What the answer to one who says to be rank 1 is. */
static int error_of_claim(void)
{
    struct nigh_name name = {.uid = 0, .job = job, .rank = 0};
    struct nigh_hello self = {
        .self = {.job = job, .incarnation = 5, .rank = 1}, .peers_max = 64, .ranks = 16};
    struct nigh_wire message;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), fds[NIGH_WIRE_FDS] = {fd, fd, fd};

    nigh_wire_begin(&message, NIGH_WIRE_HELLO, &self);
    message.to_job = job;
    message.fds = 3;
    if (nigh_name_connect(&name, &fd))
        return 1;
    (void)nigh_wire_send(fd, &message, fds); /* it may have been refused by now, which is to be read yet */
    if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 60000) != 1 ||
        nigh_wire_receive(fd, &message, fds))
        return 1;
    close(fd);
    return message.kind == NIGH_WIRE_REFUSE && message.value == 0 ? message.error : 2;
}

/* One that is looked at between its connect() and its greeting is told to come again. */
static int claim_rank_1(void)
{
    int error;

    become_another();
    while ((error = error_of_claim()) == -EAGAIN)
        continue;
    return error == -EACCES ? 0 : 1;
}

/* Neither the new user alone makes a process a rank, nor the name of a rank that another process has. */
static void others_of_the_new_user_stay_out(void **state)
{
    int status;
    pid_t stranger;

    (void)state;
    only_root_changes_users();
    for (unsigned taken = 0; taken < 2; taken++) {
        if (taken) {
            start(serve_as_another);
            listen_to(from_child);
        }
        logged_begin();
        stranger = fork();
        if (stranger == 0)
            _exit(claim_rank_1());
        as_user(OTHER);
        while (waitpid(stranger, &status, WNOHANG) == 0)
            party_for(us, 1, 10);
        as_user(0);
        assert_int_equal(status, 0);
        if (!taken)
            logged_assert_has("of user 1234 tried to attach"); /* once is enough */
        logged_end();
        assert_int_equal(here.greetings, 0);
    }
    kill_child();
}

/* ---- no descriptor is left ------------------------------------------------------------------------------------------ */

static void serve_full(int in, int out)
{
    struct rlimit limit = {LIMIT, LIMIT};

    open_there();
    if (setrlimit(RLIMIT_NOFILE, &limit))
        _exit(5);
    while (fcntl(in, F_DUPFD_CLOEXEC, 3) >= 0)
        continue;
    say(out);
    party_until(them, 1, 60000, told_to_stop, &in);
}

static void full_listener_says_so(void **state)
{
    struct peer *peer;

    (void)state;
    start(serve_full);
    listen_to(from_child);
    peer = party_dial(&here, 1, 0);
    assert_true(party_until(us, 1, 3000, is_settled, peer));
    assert_int_equal(peer->error, -EMFILE);
    assert_int_equal(peer->why.cause, NIGH_CAUSE_DESCRIPTORS);
    assert_true(peer->why.there);
    assert_int_equal(peer->why.value, LIMIT);
    assert_int_equal(peer->why.pid, child);
}

static void full_dialler_says_so(void **state)
{
    struct rlimit limit;
    struct peer *peer;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    start(serve);
    listen_to(from_child);
    osfail_arm_all(OSFAIL_socket, 1, EMFILE);
    peer = party_dial(&here, 1, 0);
    assert_true(party_until(us, 1, 3000, is_settled, peer));
    osfail_remove();
    assert_int_equal(peer->why.cause, NIGH_CAUSE_DESCRIPTORS);
    assert_false(peer->why.there);
    assert_int_equal(peer->why.value, limit.rlim_cur);
}

static void what_the_system_refuses_is_told(void **state)
{
    static const int errors[] = {EPERM, EACCES, ENOSYS, EAFNOSUPPORT};

    (void)state;
    start(serve);
    listen_to(from_child);
    for (unsigned i = 0; i < 4; i++) {
        struct peer *peer;

        osfail_arm_all(i == 3 ? OSFAIL_socket : OSFAIL_connect, 1, errors[i]);
        peer = party_dial(&here, 1, 0);
        assert_true(party_until(us, 1, 3000, is_settled, peer));
        osfail_remove();
        assert_int_equal(peer->why.cause, NIGH_CAUSE_DENIED);
        assert_int_equal(peer->error, errors[i] == EPERM ? -EACCES : -errors[i]);
        party_forget(&here, peer);
    }
}

/* ---- never met ------------------------------------------------------------------------------------------------------ */

static void open_late(struct party *party, const char *directory)
{
    party_late_ns = 50000000;
    assert_int_equal(party_open(party, job, 7, directory), 0);
    party_late_ns = 0;
    logged_begin();
}

static bool has_told(void *lines)
{
    return logged_lines() >= *(unsigned *)lines;
}

static void the_unmet_are_told_once(void **state)
{
    static struct party late;
    struct party *const one[] = {&late};
    unsigned lines = 1;

    (void)state;
    open_late(&late, NULL);
    late.rendezvous->late_ns = UINT64_MAX;
    for (uint32_t rank = 12; rank > 2; rank -= 3)
        party_dial(&late, rank, 0);
    late.rendezvous->late_ns = 1; /* all together, however long it took to dial them */
    assert_true(party_until(one, 1, 1000, has_told, &lines));
    party_for(one, 1, 200);
    assert_int_equal(logged_lines(), 1);
    logged_assert_has("rank 7: ranks 3, 6, 9 and 12 of job 0000000000ca11ed not met");
    logged_assert_has("another user than");
    logged_assert_has("NIGH_JOB");
    logged_assert_has("network namespace");
    logged_assert_has("NIGH_DIR");
    party_dial(&late, 1, 0);
    lines = 2;
    assert_true(party_until(one, 1, 1000, has_told, &lines));
    logged_assert_has("rank 7: rank 1 of job");
    logged_end();
    party_close(&late);
}

static void open_as_another(int in, int out)
{
    become_another();
    serve(in, out);
}

static void another_users_rank_is_found(void **state)
{
    static struct party late;
    struct party *const one[] = {&late};
    struct peer *peer;
    uint64_t value, ns;
    unsigned lines = 1;

    (void)state;
    only_root_changes_users();
    start(open_as_another);
    listen_to(from_child);
    open_late(&late, NULL);
    peer = party_dial(&late, 1, 0);
    assert_int_equal(nigh_rendezvous_seen(late.rendezvous, peer, &value, &ns), NIGH_SEEN_NOBODY);
    assert_true(party_until(one, 1, 1000, has_told, &lines));
    logged_assert_has("user 1234 has opened rank 1");
    logged_end();
    assert_int_equal(nigh_rendezvous_seen(late.rendezvous, peer, &value, &ns), NIGH_SEEN_USER);
    assert_int_equal(value, OTHER);
    assert_true(ns >= 50000000);
    party_close(&late);
}

static int (*real_open)(const char *path, int flags, mode_t mode);

/* What the kernel's table of sockets has, behind a megabyte of others. */
static int open_long(const char *path, int flags, mode_t mode)
{
    static const char line[] = "0000000000000000: 00000002 00000000 00000000 0001 03 4711\n";
    int file, fd = real_open(path, flags, mode);
    char bytes[4096];
    ssize_t got;

    if (fd < 0 || strcmp(path, "/proc/net/unix") != 0)
        return fd;
    file = memfd_create("unix", MFD_CLOEXEC);
    assert_true(file >= 0);
    for (unsigned i = 0; i < (1u << 20) / sizeof(line); i++)
        assert_int_equal(write(file, line, sizeof(line) - 1), sizeof(line) - 1);
    while ((got = read(fd, bytes, sizeof(bytes))) > 0)
        assert_int_equal(write(file, bytes, (size_t)got), got);
    close(fd);
    assert_int_equal(lseek(file, 0, SEEK_SET), 0);
    return file;
}

static void another_users_rank_is_found_among_many(void **state)
{
    real_open = nigh_os.open;
    nigh_os.open = open_long;
    another_users_rank_is_found(state);
    nigh_os.open = real_open;
}

static void a_rank_without_the_directory_is_found(void **state)
{
    static struct party late;
    struct party *const one[] = {&late};
    char directory[] = "/tmp/nigh-late-XXXXXX";
    struct peer *peer;
    uint64_t value, ns;
    unsigned lines = 1;

    (void)state;
    assert_non_null(mkdtemp(directory));
    start(serve);
    listen_to(from_child);
    open_late(&late, directory);
    peer = party_dial(&late, 1, 0);
    assert_true(party_until(one, 1, 1000, has_told, &lines));
    logged_assert_has(directory);
    logged_assert_has("rank 1 listens without NIGH_DIR");
    logged_end();
    assert_int_equal(nigh_rendezvous_seen(late.rendezvous, peer, &value, &ns), NIGH_SEEN_ABSTRACT);
    party_close(&late);
    assert_int_equal(rmdir(directory), 0);
}

static void whoever_is_reached_is_not_missed(void **state)
{
    static struct party late;
    struct party *const one[] = {&late};
    uint64_t value, ns;
    struct peer *peer;

    (void)state;
    start(open_and_sleep);
    listen_to(from_child);
    open_late(&late, NULL);
    peer = party_dial(&late, 1, 0);
    party_for(one, 1, 300);
    assert_int_equal(nigh_rendezvous_seen(late.rendezvous, peer, &value, &ns), NIGH_SEEN_REACHED);
    assert_int_equal(logged_lines(), 0);
    logged_end();
    party_close(&late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(listener_that_has_changed_is_met),
        CASE(dialler_that_has_changed_is_let_in),
        CASE(what_one_that_has_changed_brings_is_taken),
        CASE(others_of_the_new_user_stay_out),
        CASE(full_listener_says_so),
        CASE(full_dialler_says_so),
        CASE(what_the_system_refuses_is_told),
        CASE(the_unmet_are_told_once),
        CASE(another_users_rank_is_found),
        CASE(another_users_rank_is_found_among_many),
        CASE(a_rank_without_the_directory_is_found),
        CASE(whoever_is_reached_is_not_missed),
    };
    return cmocka_run_group_tests_name("attach_refused", tests, NULL, NULL);
}
