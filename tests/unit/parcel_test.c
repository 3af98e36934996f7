/* SPDX-License-Identifier: BSD-3-Clause */
/* Parcels between two rendezvous of one process, and from one that ends: what arrives, in which order, what a sender hears, and
 * that nothing is left open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/exchange.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include "tests/support/party.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT_MAX = 300 };

/* What has come to b. */
static struct {
    unsigned count;
    uint64_t numbers[KEPT_MAX];
    bool attached[KEPT_MAX], dead[KEPT_MAX]; /* the sender, when it came */
    struct nigh_identity from;               /* of the last one, and so on */
    int pid;
    size_t bytes;
    uint8_t record[NIGH_PARCEL_BYTES];
    uint32_t fd_count;
    int fds[NIGH_PARCEL_FDS];
} got;

static uint64_t job;
static struct party a, b;
static struct party *const both[] = {&a, &b};
static struct nigh_rendezvous_events bringing;
static unsigned fds_before;
static struct peer *there, *here; /* b to a, a to b */

static void close_got(void)
{
    for (unsigned i = 0; i < got.fd_count; i++)
        close(got.fds[i]);
    got.fd_count = 0;
}

static void brought(void *user, const struct nigh_identity *from, int pid, const struct nigh_parcel *parcel)
{
    struct peer *sender = party_peer(user, from->rank);

    assert_ptr_equal(user, &b);
    assert_true(got.count < KEPT_MAX);
    close_got();
    got.numbers[got.count] = parcel->number;
    got.attached[got.count] = sender && sender->attached;
    got.dead[got.count++] = sender && sender->deaths;
    got.from = *from;
    got.pid = pid;
    got.bytes = parcel->bytes;
    memcpy(got.record, parcel->record, parcel->bytes);
    got.fd_count = parcel->count;
    memcpy(got.fds, parcel->fds, parcel->count * sizeof(int));
}

static int open_two(void **state)
{
    (void)state;
    memset(&got, 0, sizeof(got));
    job = ((uint64_t)getpid() << 32) + (job & 0xffff) + 1;
    fds_before = osfail_open_fds();
    assert_int_equal(party_open(&a, job, 0, NULL), 0);
    assert_int_equal(party_open(&b, job, 1, NULL), 0);
    bringing = *b.config.events;
    bringing.brought = brought;
    b.rendezvous->events = &bringing;
    return 0;
}

static bool is_attached(void *data)
{
    return ((struct peer *)data)->attached;
}

static int attach_two(void **state)
{
    open_two(state);
    there = party_dial(&a, 1, 0);
    assert_true(party_until(both, 2, 2000, is_attached, there));
    party_for(both, 2, 20);
    here = party_peer(&b, 0);
    return 0;
}

static int close_two(void **state)
{
    (void)state;
    close_got();
    party_close(&a);
    party_close(&b);
    assert_int_equal(osfail_open_fds(), fds_before);
    return 0;
}

static int bring(const struct nigh_identity *to, uint64_t number, const int *fds, uint32_t count)
{
    struct nigh_parcel parcel = {.number = number, .fds = fds, .count = count};

    return nigh_rendezvous_bring(a.rendezvous, to, &parcel);
}

static int bring_number(uint64_t number)
{
    return bring(&b.config.self, number, NULL, 0);
}

static void hear(void)
{
    while (nigh_rendezvous_progress(b.rendezvous))
        continue;
}

static void assert_order(unsigned count)
{
    assert_int_equal(got.count, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(got.numbers[i], i + 1);
}

/* A connection of a's that has said nothing yet, and what it says at last. */
static int knock(void)
{
    struct nigh_name name = a.rendezvous->name;
    int fd;

    name.rank = 1;
    assert_int_equal(nigh_name_connect(&name, &fd), 0);
    return fd;
}

static void say(int fd, uint64_t number)
{
    struct nigh_wire message;

    nigh_wire_begin(&message, NIGH_WIRE_PARCEL, NULL);
    message.job = job;
    message.incarnation = a.config.self.incarnation;
    message.to_job = job;
    message.to_incarnation = b.config.self.incarnation;
    message.to_rank = 1;
    message.value = number;
    assert_int_equal(nigh_wire_send(fd, &message, NULL), 0);
}

/* ---- what arrives ---------------------------------------------------------------------------------------- */

static int make_file(unsigned content)
{
    int fd = memfd_create("parcel", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, &content, sizeof(content)), sizeof(content));
    return fd;
}

static void bring_files(uint32_t count, size_t bytes)
{
    static uint8_t record[NIGH_PARCEL_BYTES];
    int fds[NIGH_PARCEL_FDS];
    struct nigh_parcel parcel = {
        .number = UINT64_MAX - count, .record = record, .bytes = bytes, .fds = fds, .count = count};
    unsigned content;

    for (size_t i = 0; i < sizeof(record); i++)
        record[i] = (uint8_t)(i * 7 + count);
    for (unsigned i = 0; i < count; i++)
        fds[i] = make_file(1000 + i);
    got.count = 0;
    assert_int_equal(nigh_rendezvous_bring(a.rendezvous, &b.config.self, &parcel), 0);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(close(fds[i]), 0); /* they have stayed ours */
    hear();
    assert_int_equal(got.count, 1);
    assert_int_equal(got.numbers[0], parcel.number);
    assert_int_equal(got.from.job, job);
    assert_int_equal(got.from.rank, 0);
    assert_int_equal(got.from.incarnation, a.config.self.incarnation);
    assert_int_equal(got.pid, getpid());
    assert_int_equal(got.bytes, bytes);
    assert_memory_equal(got.record, record, bytes);
    assert_int_equal(got.fd_count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pread(got.fds[i], &content, sizeof(content), 0), sizeof(content));
        assert_int_equal(content, 1000 + i);
        assert_int_equal(fcntl(got.fds[i], F_GETFD), FD_CLOEXEC);
    }
    close_got();
}

static void all_of_it_arrives(void **state)
{
    (void)state;
    bring_files(3, 5000);
    bring_files(0, 0);
    bring_files(0, 1);
    bring_files(1, 0);
    bring_files(NIGH_PARCEL_FDS, NIGH_PARCEL_BYTES);
}

static void more_is_refused(void **state)
{
    static uint8_t record[NIGH_PARCEL_BYTES + 1];
    int fds[NIGH_PARCEL_FDS + 1];
    struct nigh_parcel parcel = {.record = record, .bytes = sizeof(record)};

    (void)state;
    for (unsigned i = 0; i <= NIGH_PARCEL_FDS; i++)
        fds[i] = STDERR_FILENO;
    assert_int_equal(nigh_rendezvous_bring(a.rendezvous, &b.config.self, &parcel), -EMSGSIZE);
    assert_int_equal(bring(&b.config.self, 1, fds, NIGH_PARCEL_FDS + 1), -EMSGSIZE);
    fds[1] = -1;
    assert_int_equal(bring(&b.config.self, 1, fds, 2), -EBADF);
    hear();
    assert_int_equal(got.count, 0);
}

static void nobody_asks_for_it(void **state)
{
    const int fds[] = {make_file(1), make_file(2)};

    (void)state;
    b.rendezvous->events = b.config.events;
    assert_int_equal(bring(&b.config.self, 1, fds, 2), 0);
    close(fds[0]);
    close(fds[1]);
    hear();
    assert_int_equal(b.rendezvous->half_open, 0);
}

static void another_is_meant(void **state)
{
    struct nigh_identity to = b.config.self;
    int fd = make_file(1);

    (void)state;
    logged_begin();
    to.incarnation++;
    assert_int_equal(bring(&to, 1, &fd, 1), 0);
    to = b.config.self;
    a.rendezvous->self.self.job++;
    assert_int_equal(bring(&b.config.self, 2, &fd, 1), 0);
    a.rendezvous->self.self.job--;
    close(fd);
    hear();
    /* Whom it comes from is the callee's to judge, whom it is for is not. */
    assert_int_equal(got.count, 1);
    assert_int_equal(got.numbers[0], 2);
    assert_int_equal(got.from.job, job + 1);
    assert_int_equal(logged_lines(), 0);
    logged_end();
}

/* ---- order ----------------------------------------------------------------------------------------------- */

static void they_come_in_order(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 200; i++)
        assert_int_equal(bring_number(i), 0);
    hear();
    assert_order(200);
}

/* The first is accepted before it is sent, and the others are there when that is looked at again. */
static void accepted_too_early(void **state)
{
    int first, second;

    (void)state;
    first = knock();
    nigh_rendezvous_progress(b.rendezvous);
    second = knock();
    nigh_rendezvous_progress(b.rendezvous);
    assert_int_equal(b.rendezvous->half_open, 2);
    say(first, 1);
    close(first);
    say(second, 2);
    close(second);
    assert_int_equal(bring_number(3), 0);
    assert_int_equal(bring_number(4), 0);
    hear();
    assert_order(4);
    assert_int_equal(b.rendezvous->half_open, 0);
}

/* b is attached by a's answer, which it finds behind the parcel in its set of descriptors. */
static void the_answer_comes_first(void **state)
{
    (void)state;
    here = party_dial(&b, 0, 0);
    close(knock());
    nigh_rendezvous_progress(b.rendezvous); /* the listener has its place in the set before the answer */
    nigh_rendezvous_progress(a.rendezvous);
    assert_false(here->attached);
    assert_int_equal(bring_number(1), 0);
    hear();
    assert_order(1);
    assert_true(got.attached[0]);
}

static void an_answer_that_is_not_sent_is_waited_for(void **state)
{
    (void)state;
    here = party_dial(&b, 0, 0);
    osfail_install();
    osfail_arm(OSFAIL_sendmsg, 1, ENOMEM);
    nigh_rendezvous_progress(a.rendezvous);
    assert_true(osfail_hit());
    osfail_remove();
    assert_true(party_peer(&a, 1)->attached);
    assert_int_equal(bring_number(1), -EAGAIN);
    assert_true(party_until(both, 2, 2000, is_attached, here));
    assert_int_equal(bring_number(1), 0);
    hear();
    assert_order(1);
}

enum { BEFORE_END = 150 };

static void bring_and_end(void)
{
    static struct party sender;
    struct party *const alone[] = {&sender};
    struct peer *peer;

    party_abandon(&a);
    party_abandon(&b);
    if (party_open(&sender, job, 2, NULL))
        _exit(1);
    peer = party_dial(&sender, 1, 0);
    if (!party_until(alone, 1, 2000, is_attached, peer))
        _exit(2);
    party_for(alone, 1, 20);
    for (unsigned i = 1; i <= BEFORE_END; i++) {
        struct nigh_parcel parcel = {.number = i, .fds = sender.peers[0].fds, .count = i == BEFORE_END};

        if (nigh_rendezvous_bring(sender.rendezvous, &b.config.self, &parcel))
            _exit(3);
    }
    _exit(0);
}

static bool has_died(void *data)
{
    return party_peer(data, 2)->deaths > 0;
}

static bool knows_rank_2(void *data)
{
    struct peer *peer = party_peer(data, 2);

    return peer && peer->attached;
}

/* More than a pass accepts at once; and where no pidfd tells of the end, the socket that was kept does. */
static void it_ends_before_it_is_heard(void **state)
{
    int status;
    pid_t child;

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        got.count = 0;
        osfail_install();
        if (round)
            osfail_take_pidfds();
        child = fork();
        if (child == 0)
            bring_and_end();
        assert_true(party_until((struct party *const[]){&b}, 1, 5000, knows_rank_2, &b));
        osfail_remove();
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_true(party_until((struct party *const[]){&b}, 1, 5000, has_died, &b));
        assert_order(BEFORE_END);
        for (unsigned i = 0; i < BEFORE_END; i++)
            assert_false(got.dead[i]);
        assert_int_equal(got.pid, child);
        assert_int_equal(got.fd_count, 1);
        party_forget(&b, party_peer(&b, 2));
    }
}

/* ---- what a sender hears --------------------------------------------------------------------------------- */

static void the_queue_is_full(void **state)
{
    unsigned sent = 0;
    int error;

    (void)state;
    assert_int_equal(listen(b.rendezvous->listener.fd, 20), 0);
    while ((error = bring_number(sent + 1)) == 0)
        sent++;
    assert_int_equal(error, -EAGAIN);
    assert_int_equal(sent, 21);
    hear();
    assert_order(sent);
    assert_int_equal(bring_number(sent + 1), 0);
    hear();
    assert_order(sent + 1);
}

static void nobody_listens(void **state)
{
    (void)state;
    nigh_rendezvous_deafen(b.rendezvous);
    assert_int_equal(bring_number(1), -ECONNREFUSED);
    party_close(&b);
    assert_int_equal(bring_number(1), -ECONNREFUSED);
    assert_int_equal(party_open(&b, job, 1, NULL), 0);
}

static void ours_were_closed(void **state)
{
    (void)state;
    close(a.rendezvous->listener.fd);
    logged_begin();
    assert_int_equal(bring_number(1), -EBADF);
    logged_assert_has("the program has closed descriptors");
    assert_int_equal(bring_number(1), -EBADF);
    assert_int_equal(logged_lines(), 1);
    logged_end();
    fds_before += 2; /* the set, by which none of them is known, and the timer */
}

static void what_the_system_refuses_is_told(void **state)
{
    static const struct {
        enum osfail_call call;
        int with, error;
    } cases[] = {
        {OSFAIL_socket, EMFILE, -EMFILE},        {OSFAIL_socket, ENFILE, -EMFILE},
        {OSFAIL_socket, ENOBUFS, -EAGAIN},       {OSFAIL_connect, EAGAIN, -EAGAIN},
        {OSFAIL_connect, EPERM, -EACCES},        {OSFAIL_getsockopt, EINVAL, -EACCES},
        {OSFAIL_sendmsg, ETOOMANYREFS, -EAGAIN}, {OSFAIL_sendmsg, ENOMEM, -EAGAIN},
        {OSFAIL_sendmsg, EMSGSIZE, -EMSGSIZE},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned open_before = osfail_open_fds();

        osfail_install();
        osfail_arm(cases[i].call, 1, cases[i].with);
        assert_int_equal(bring_number(1), cases[i].error);
        assert_true(osfail_hit());
        osfail_remove();
        assert_int_equal(osfail_open_fds(), open_before);
    }
    hear();
    assert_int_equal(got.count, 0);
    assert_int_equal(b.rendezvous->half_open, 0);
}

/* b turns a's connection down between a's connect() and its sendmsg(). */
static struct nigh_os real;
static int refusal; /* what it finds out about a then */

static int getsockopt_of_b(int fd, int level, int name, void *value, socklen_t *bytes)
{
    nigh_os.getsockopt = real.getsockopt;
    if (refusal == -EACCES) {
        errno = EINVAL;
        return -1;
    }
    if (real.getsockopt(fd, level, name, value, bytes))
        return -1;
    ((struct ucred *)value)->uid++; /* a stranger, who has said nothing yet */
    return 0;
}

static ssize_t send_too_late(int fd, const struct msghdr *message, int flags)
{
    nigh_os.sendmsg = real.sendmsg;
    nigh_os.getsockopt = getsockopt_of_b;
    nigh_rendezvous_progress(b.rendezvous);
    return real.sendmsg(fd, message, flags);
}

static void who_is_turned_down_hears_it(void **state)
{
    static const int refusals[] = {-EACCES, -EAGAIN};

    (void)state;
    real = nigh_os;
    for (unsigned i = 0; i < 2; i++) {
        refusal = refusals[i];
        nigh_os.sendmsg = send_too_late;
        assert_int_equal(bring_number(1), refusal);
    }
    hear();
    assert_int_equal(got.count, 0);
}

/* It may not even hear that there was something. */
static void another_user_listens(void **state)
{
    (void)state;
    real = nigh_os;
    refusal = 0;
    nigh_os.getsockopt = getsockopt_of_b;
    assert_int_equal(bring_number(1), -EACCES);
    assert_ptr_equal(nigh_os.getsockopt, real.getsockopt);
    hear();
    assert_int_equal(got.count, 0);
}

/* ---- connections that say nothing ------------------------------------------------------------------------ */

static int silent;

static int shut_after_it_speaks(int fd, int how)
{
    nigh_os.shutdown = real.shutdown;
    say(silent, 1);
    return real.shutdown(fd, how);
}

/* A rank that has changed its user since it opened; b looks between its connect() and its sendmsg(). */
static void a_stranger_that_speaks_late(void **state)
{
    (void)state;
    real = nigh_os;
    refusal = 0;
    silent = knock();
    nigh_os.getsockopt = getsockopt_of_b;
    nigh_os.shutdown = shut_after_it_speaks;
    nigh_rendezvous_progress(b.rendezvous);
    assert_ptr_equal(nigh_os.shutdown, real.shutdown);
    assert_order(1);
    close(silent);
    assert_int_equal(bring_number(2), 0);
    nigh_os.getsockopt = getsockopt_of_b;
    hear();
    assert_order(2);
}

static struct nigh_exchange *waiting(void)
{
    struct nigh_exchange *at = b.rendezvous->exchanges;

    while (at && at->state != NIGH_WAIT_HELLO)
        at = at->next;
    assert_non_null(at);
    return at;
}

/* b computes for long, and finds the parcel and the end of its patience both at once; or in the last moment. */
static void it_was_silent_for_long(void **state)
{
    int fd;

    (void)state;
    fd = knock();
    nigh_rendezvous_progress(b.rendezvous);
    say(fd, 1);
    nigh_exchange_expire(waiting());
    close(fd);
    assert_order(1);
    silent = knock();
    nigh_rendezvous_progress(b.rendezvous);
    real = nigh_os;
    nigh_os.shutdown = shut_after_it_speaks;
    nigh_exchange_expire(waiting());
    assert_int_equal(got.count, 2);
    close(silent);
    fd = knock();
    nigh_rendezvous_progress(b.rendezvous);
    nigh_exchange_expire(waiting());
    close(fd);
    hear();
    assert_int_equal(got.count, 2);
    assert_int_equal(b.rendezvous->half_open, 0);
}

/* ---- no room --------------------------------------------------------------------------------------------- */

static void no_descriptor_is_left(void **state)
{
    enum { FILES = 20, ROOM = 8 };
    struct rlimit limit, less;
    int fds[FILES], lowest;
    unsigned open_before;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (unsigned i = 0; i < FILES; i++)
        fds[i] = make_file(i);
    open_before = osfail_open_fds();
    assert_int_equal(bring(&b.config.self, 1, fds, FILES), 0);
    lowest = dup(STDERR_FILENO);
    close(lowest);
    less = limit;
    less.rlim_cur = (rlim_t)(lowest + ROOM); /* the socket, and some of the twenty */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    logged_begin();
    hear();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    logged_assert_has("hands over 20 file descriptors");
    logged_end();
    assert_int_equal(got.count, 0);
    assert_int_equal(osfail_open_fds(), open_before);
    assert_int_equal(b.rendezvous->half_open, 0);
    assert_int_equal(bring(&b.config.self, 2, fds, FILES), 0);
    hear();
    assert_int_equal(got.count, 1);
    assert_int_equal(got.fd_count, FILES);
    for (unsigned i = 0; i < FILES; i++)
        close(fds[i]);
}

/* What passes is tried again. */
static void no_memory_for_a_moment(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= 3; nth++) {
        got.count = 0;
        assert_int_equal(bring_number(1), 0);
        osfail_install();
        osfail_arm(OSFAIL_recvmsg, nth, ENOMEM);
        nigh_rendezvous_progress(b.rendezvous);
        assert_int_equal(osfail_hit(), nth < 3); /* one look, one read */
        assert_int_equal(got.count, nth == 3);
        osfail_remove();
        hear();
        assert_order(1);
    }
}

#define OPENED(name)   cmocka_unit_test_setup_teardown(name, open_two, close_two)
#define ATTACHED(name) cmocka_unit_test_setup_teardown(name, attach_two, close_two)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACHED(all_of_it_arrives),
        ATTACHED(more_is_refused),
        ATTACHED(nobody_asks_for_it),
        ATTACHED(another_is_meant),
        ATTACHED(they_come_in_order),
        ATTACHED(accepted_too_early),
        OPENED(the_answer_comes_first),
        OPENED(an_answer_that_is_not_sent_is_waited_for),
        OPENED(it_ends_before_it_is_heard),
        ATTACHED(the_queue_is_full),
        ATTACHED(nobody_listens),
        ATTACHED(ours_were_closed),
        ATTACHED(what_the_system_refuses_is_told),
        ATTACHED(who_is_turned_down_hears_it),
        ATTACHED(another_user_listens),
        ATTACHED(a_stranger_that_speaks_late),
        ATTACHED(it_was_silent_for_long),
        ATTACHED(no_descriptor_is_left),
        ATTACHED(no_memory_for_a_moment),
    };
    return cmocka_run_group_tests_name("parcel", tests, NULL, NULL);
}
