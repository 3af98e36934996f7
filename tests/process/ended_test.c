/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that come and go: a host that lives on has as many descriptors and mappings, and as much memory, as before,
 * whether it has connected to them or they to it, and whether it disconnects or never does. Arguments: how many there are
 * of each kind, and which kind (as a pattern) if not all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/footprint.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 300000, SHORT = 8, HEAP = 70000, RANKS = 7, WARM = RANKS };
enum { TO_HOST = 1, TO_PEER, LENT, STRAY }; /* tags */
/* What stays of a peer that the host never disconnects: its endpoint. */
enum { ENDPOINT_KIB = 4 };

static unsigned rounds = 16, idle; /* descriptors of a host without peers */
static struct hosted host;
static uint64_t job;
static uint8_t out[LONG], in[LONG];

/* How a peer ends, and what its host has to do with it. */
struct kind {
    bool dies;        /* without a close */
    bool connects;    /* the host does */
    bool disconnects; /* and undoes it */
    bool strays;      /* messages that are received only behind its end */
    bool lends;       /* what the host gives back only behind its end */
    uint32_t flags;
};

/* ---- the peer's ----------------------------------------------------------------------------------------- */

static void lend(struct hosted *me, struct nigh_endpoint *to)
{
    struct nigh_lend lend = {.size = sizeof(lend), .bytes = HEAP, .tag = LENT};
    void *memory;

    assert_int_equal(hosted_ops->heap_alloc(me->context, HEAP, &memory), 0);
    memset(memory, 5, HEAP);
    lend.buffer = memory;
    assert_int_equal(hosted_ops->post_lend(to, &lend), 0);
}

/* In the ring, in the shuttle, in the heap. */
static void stray(struct hosted *me, struct nigh_endpoint *to)
{
    void *memory;

    assert_int_equal(hosted_ops->heap_alloc(me->context, HEAP, &memory), 0);
    memset(memory, 6, HEAP);
    assert_int_equal(hosted_send(to, 20, STRAY, out, SHORT, 0), 0);
    assert_int_equal(hosted_send(to, 21, STRAY, out, HEAP / 2, 0), 0);
    assert_int_equal(hosted_send(to, 22, STRAY, memory, HEAP, 0), 0);
}

static void live(const struct kind *kind, uint32_t rank)
{
    static struct hosted me;
    struct nigh_endpoint *to;
    uint8_t word[SHORT];

    alarm(300);
    hosted_open(&me, job, rank, 0);
    to = hosted_connect(&me, 0);
    assert_int_equal(hosted_recv(&me, to, 1, TO_PEER, word, SHORT, 0), 0);
    if (kind->lends)
        lend(&me, to);
    assert_int_equal(hosted_send(to, 2, TO_HOST, out, LONG, 0), 0);
    if (kind->strays)
        stray(&me, to);
    hosted_until(&me, NULL, NIGH_OP_RECV, 1);
    if (!kind->dies)
        hosted_close(&me);
    _exit(0);
}

/* ---- the host's ----------------------------------------------------------------------------------------- */

/* Nothing of any peer is left. When the kernel says that all of a process is gone, its end was known before. */
static void settles(void)
{
    time_t until = time(NULL) + 60;

    while (footprint_descriptors() > idle) {
        assert_true(time(NULL) < until);
        hosted_turns(&host, NULL, 20);
    }
}

static void await_end(pid_t child, struct nigh_endpoint *peer)
{
    int status;

    while (waitpid(child, &status, WNOHANG) == 0)
        hosted_poll(&host);
    assert_int_equal(status, 0);
    while (peer && hosted_state(&host, peer) < NIGH_PEER_CLOSED)
        hosted_poll(&host);
    if (!peer)
        settles();
}

/* A peer that has left in order takes its heap along. */
static void receive_strays(const struct kind *kind, struct nigh_endpoint *from)
{
    assert_int_equal(hosted_recv(&host, from, 30, STRAY, in, LONG, 0), 0);
    assert_int_equal(hosted_until(&host, NULL, NIGH_OP_RECV, 30)->bytes, SHORT);
    memset(in, 0, sizeof(in));
    assert_int_equal(hosted_recv(&host, from, 31, STRAY, in, LONG, 0), 0);
    assert_int_equal(hosted_until(&host, NULL, NIGH_OP_RECV, 31)->bytes, HEAP / 2);
    assert_memory_equal(in, out, HEAP / 2);
    if (!kind->dies)
        return;
    assert_int_equal(hosted_recv(&host, from, 32, STRAY, in, LONG, 0), 0);
    assert_int_equal(hosted_until(&host, NULL, NIGH_OP_RECV, 32)->bytes, HEAP);
    assert_int_equal(in[HEAP - 1], 6);
}

static void give_back(void *lent)
{
    assert_int_equal(((uint8_t *)lent)[HEAP - 1], 5);
    assert_int_equal(hosted_ops->release(host.context, lent), 0);
}

static void play(const struct kind *kind, uint32_t rank)
{
    struct nigh_endpoint *from = kind->connects ? hosted_connect(&host, rank) : NULL;
    struct nigh_completion done;
    void *lent = NULL;
    pid_t child;

    host.count = 0;
    fflush(NULL);
    child = fork();
    if (child == 0)
        live(kind, rank);
    if (kind->lends) {
        assert_int_equal(hosted_recv(&host, from, 9, LENT, NULL, HEAP, NIGH_IN_PLACE), 0);
        lent = hosted_until(&host, NULL, NIGH_OP_RECV, 9)->data;
    }
    do {
        host.count = 0;
        assert_int_equal(hosted_recv(&host, from, 10, TO_HOST, in, LONG, 0), 0);
        done = *hosted_until(&host, NULL, NIGH_OP_RECV, 10);
    } while (!from && done.status == -ECONNRESET); /* the one before has died */
    assert_int_equal(done.status, 0);
    assert_memory_equal(in, out, LONG);
    assert_int_equal(hosted_send(done.endpoint, 11, TO_PEER, out, SHORT, NIGH_INJECT | NIGH_SILENT), 0);
    await_end(child, from);
    if (from)
        assert_true(hosted_state(&host, from) == NIGH_PEER_DEAD ||
                    (!kind->dies && hosted_state(&host, from) == NIGH_PEER_CLOSED));
    if (kind->strays)
        receive_strays(kind, from);
    if (lent)
        give_back(lent);
    if (from)
        assert_int_equal(hosted_send(from, 12, 1, out, SHORT, 0), -ECONNRESET);
    if (kind->disconnects)
        assert_int_equal(hosted_ops->disconnect(from), 0);
    settles();
    hosted_turns(&host, NULL, 1500); /* a sweep */
}

static void come_and_go(struct kind kind)
{
    struct footprint before;
    bool same = false;

    job = hosted_job();
    hosted_open(&host, job, 0, kind.flags);
    idle = footprint_descriptors();
    for (unsigned i = 0; i < WARM; i++)
        play(&kind, 1 + i % RANKS);
    for (unsigned batch = 0; batch < 2 && !same; batch++) { /* a loaded machine makes pools grow once */
        before = footprint_now();
        for (unsigned i = 0; i < rounds; i++) {
            play(&kind, 1 + i % RANKS);
            assert_int_equal(footprint_descriptors(), idle);
        }
        same = footprint_is_as(&before, rounds, kind.connects && !kind.disconnects ? ENDPOINT_KIB : 0);
    }
    assert_true(same);
    hosted_close(&host);
}

#define COME_AND_GO(name, ...)                   \
    static void name(void **state)               \
    {                                            \
        (void)state;                             \
        come_and_go((struct kind){__VA_ARGS__}); \
    }
COME_AND_GO(test_never_disconnected, .connects = true)
COME_AND_GO(test_dead_never_disconnected, .connects = true, .dies = true)
COME_AND_GO(test_disconnected, .connects = true, .disconnects = true)
COME_AND_GO(test_never_connected, .dies = false)
COME_AND_GO(test_dead_never_connected, .dies = true)
COME_AND_GO(test_never_connected_with_threads, .flags = NIGH_OPEN_THREADS)
COME_AND_GO(test_lends_outlive_the_dead, .connects = true, .dies = true, .lends = true)
COME_AND_GO(test_messages_outlive_the_dead, .connects = true, .dies = true, .strays = true)
COME_AND_GO(test_messages_outlive_the_gone, .connects = true, .strays = true)

/* ---- one that comes again and again --------------------------------------------------------------------- */

/* As fast as it can: it waits for no more than that it is connected. */
static void come_again(bool waits)
{
    static struct hosted me;

    alarm(300);
    hosted_open(&me, job, 1, 0);
    for (unsigned i = 0; i < 4 * rounds; i++) {
        struct nigh_endpoint *to = hosted_connect(&me, 0);

        assert_int_equal(hosted_send(to, 2, TO_HOST, out, SHORT, NIGH_SILENT), 0);
        while (waits && hosted_state(&me, to) == NIGH_CONNECTING)
            hosted_poll(&me);
        assert_int_equal(hosted_ops->disconnect(to), 0);
        hosted_poll(&me);
    }
    hosted_close(&me);
    _exit(0);
}

static void come_again_and_again(uint32_t flags, bool waits)
{
    unsigned most = 0;
    pid_t child;

    job = hosted_job();
    hosted_open(&host, job, 0, flags);
    idle = footprint_descriptors();
    fflush(NULL);
    child = fork();
    if (child == 0)
        come_again(waits);
    while (waitpid(child, NULL, WNOHANG) == 0) {
        host.count = 0;
        hosted_recv(&host, NULL, 1, TO_HOST, in, SHORT, 0);
        hosted_turns(&host, NULL, 50);
        most = footprint_descriptors() > most ? footprint_descriptors() : most;
    }
    /* So many greetings may be under way. */
    assert_true(most < idle + 13 * 16);
    host.count = 0;
    settles();
    hosted_close(&host);
}

static void test_one_again_and_again(void **state)
{
    (void)state;
    come_again_and_again(0, true);
}

static void test_one_in_a_hurry(void **state)
{
    (void)state;
    come_again_and_again(0, false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_disconnected),
        cmocka_unit_test(test_dead_never_disconnected),
        cmocka_unit_test(test_disconnected),
        cmocka_unit_test(test_never_connected),
        cmocka_unit_test(test_dead_never_connected),
        cmocka_unit_test(test_never_connected_with_threads),
        cmocka_unit_test(test_lends_outlive_the_dead),
        cmocka_unit_test(test_messages_outlive_the_dead),
        cmocka_unit_test(test_messages_outlive_the_gone),
        cmocka_unit_test(test_one_again_and_again),
        cmocka_unit_test(test_one_in_a_hurry),
    };

    if (argc > 1)
        rounds = (unsigned)atoi(argv[1]);
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    hosted_quiet = true;
    memset(out, 3, sizeof(out));
    /* Fewer than there are peers: of those that have ended none counts. */
    setenv("NIGH_PEERS_MAX", "16", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
