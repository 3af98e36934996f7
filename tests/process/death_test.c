/* SPDX-License-Identifier: BSD-3-Clause */
/* kill -9 at any moment, in every kind of traffic: what names the dead completes with -ECONNRESET, a receive from
 * anyone is told once, nothing hangs, everybody else is served, and nothing of the dead is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/hosted.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEATHS = 100, LARGE = 3 << 20, NAMED = 500, ANYONE = 600 };

static struct hosted survivor, good;
static struct nigh_endpoint *to_good, *back;
static uint64_t job;
static uint8_t *large;

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- the one that dies ---------------------------------------------------------------------------------- */

static void ping_pong(struct hosted *me, struct nigh_endpoint *to)
{
    uint64_t word;

    hosted_recv(me, to, 1, 1, &word, 8, 0);
    hosted_send(to, 2, 1, &word, 8, NIGH_SILENT);
    hosted_until(me, NULL, NIGH_OP_RECV, 1);
}

static void stream(struct hosted *me, struct nigh_endpoint *to)
{
    for (unsigned i = 0; i < 500; i++)
        (void)hosted_send(to, 2, 2, large, i % 1500, NIGH_SILENT);
    hosted_poll(me);
}

static void large_ones(struct hosted *me, struct nigh_endpoint *to)
{
    hosted_recv(me, to, 1, 3, large, LARGE, 0);
    (void)hosted_send(to, 2, 3, large, LARGE, 0);
    hosted_until(me, NULL, NIGH_OP_SEND, 2);
    hosted_until(me, NULL, NIGH_OP_RECV, 1);
}

static void from_heap(struct hosted *me, struct nigh_endpoint *to)
{
    static void *heap;

    if (!heap)
        assert_int_equal(hosted_ops->heap_alloc(me->context, LARGE, &heap), 0);
    (void)hosted_send(to, 2, 4, heap, LARGE, 0);
    hosted_until(me, NULL, NIGH_OP_SEND, 2);
}

static void asleep(struct hosted *me, struct nigh_endpoint *to)
{
    (void)to;
    (void)hosted_ops->wait(me->context, UINT64_C(10000000000));
}

struct kind {
    const char *name;
    void (*live)(struct hosted *me, struct nigh_endpoint *to);
    uint64_t tag; /* what the survivor exchanges with it */
    uint64_t bytes;
    bool answers, sleeps;
};

static const struct kind kinds[] = {
    {"ping-pong", ping_pong, 1, 8, true, false},  {"stream", stream, 2, 1500, false, false},
    {"large", large_ones, 3, LARGE, true, false}, {"heap", from_heap, 4, LARGE, false, false},
    {"asleep", asleep, 5, 8, false, true},
};

static void live(const struct kind *kind)
{
    struct hosted me;
    struct nigh_endpoint *to;

    alarm(300);
    hosted_open(&me, job, 1, 0);
    to = hosted_connect(&me, 0);
    for (;;) {
        me.count = 0;
        kind->live(&me, to);
    }
}

/* ---- the survivor --------------------------------------------------------------------------------------- */

static unsigned descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static unsigned mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    unsigned count = 0;
    char line[512];

    while (fgets(line, sizeof(line), file))
        count += strstr(line, "memfd:") != NULL;
    fclose(file);
    return count;
}

/* Exchanges with the one that dies as it does, until `until`. */
static void exchange(const struct kind *kind, struct nigh_endpoint *to, uint64_t until)
{
    const struct nigh_completion *got;

    while (now_us() < until) {
        survivor.count = 0;
        if (kind->sleeps) {
            hosted_turns(&survivor, &good, 20);
            continue;
        }
        if (hosted_recv(&survivor, to, 10, kind->tag, large, kind->bytes, 0))
            return;
        if (kind->answers && hosted_send(to, 11, kind->tag, large, kind->bytes, NIGH_SILENT))
            return;
        while (!(got = hosted_find(&survivor, NIGH_OP_RECV, 10)) && now_us() < until + 100000)
            hosted_poll(&survivor);
        if (!got || got->status)
            return;
    }
}

/* Everything that names `to` and completes only with its help. Returns how many. */
static unsigned post(struct nigh_endpoint *to)
{
    unsigned posted = 0;

    posted += hosted_recv(&survivor, to, NAMED, 77, large, LARGE, 0) == 0;
    posted += hosted_recv(&survivor, to, NAMED + 1, 78, large, 4096, NIGH_MULTI) == 0;
    posted += hosted_send(to, NAMED + 2, 79, large, 64, NIGH_SYNC) == 0;
    posted += hosted_send(to, NAMED + 3, 79, large, LARGE, 0) == 0;
    return posted;
}

static unsigned ended(uint64_t from, uint64_t to)
{
    unsigned count = 0;

    for (unsigned i = 0; i < survivor.count; i++) {
        const struct nigh_completion *done = &survivor.done[i];

        if (done->context < from || done->context >= to)
            continue;
        assert_int_equal(done->status, -ECONNRESET);
        count++;
    }
    return count;
}

static void serve_good(void)
{
    uint64_t out = now_us(), in = 0;

    good.count = 0;
    assert_int_equal(hosted_recv(&good, back, 900, 900, &in, sizeof(in), 0), 0);
    assert_int_equal(hosted_send(to_good, 901, 900, &out, sizeof(out), 0), 0);
    assert_int_equal(hosted_until(&good, &survivor, NIGH_OP_RECV, 900)->status, 0);
    assert_true(in == out);
}

/* Reads away what was published, until the state says that the peer has died. */
static void hear_of_it(struct nigh_endpoint *to, bool sleep)
{
    uint64_t until = now_us() + 120000000;

    while (hosted_state(&survivor, to) != NIGH_PEER_DEAD) {
        if (now_us() > until)
            fail_msg("the death has not been told in 120 s");
        if (sleep)
            (void)hosted_ops->wait(survivor.context, UINT64_C(1000000000));
        hosted_poll(&survivor);
    }
}

/* What the dead might have read goes when its process has ended, which is a moment behind its death. */
static void only_good_is_left(void)
{
    uint64_t until = now_us() + 60000000;

    do
        hosted_turns(&survivor, &good, 1100);
    while (hosted_facts(&survivor).peers != 1 && now_us() < until);
    assert_int_equal(hosted_facts(&survivor).peers, 1);
}

static void die(const struct kind *kind, unsigned turn, bool sleep)
{
    struct nigh_endpoint *to = hosted_connect(&survivor, 1);
    uint64_t word, end = now_us() + 200 + turn * 997 % 6000, begun;
    unsigned posted;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0)
        live(kind);
    assert_true(child > 0);
    while (hosted_state(&survivor, to) != NIGH_READY && now_us() < end + 60000000)
        hosted_poll(&survivor);
    end = now_us() + 50 + turn * 997 % 6000;
    exchange(kind, to, end);
    survivor.count = 0;
    /* An exchange that was cut short left its receive. */
    assert_int_equal(hosted_recv(&survivor, NULL, ANYONE, 99, &word, 8, 0), 0);
    posted = post(to);
    begun = now_us();
    kill(child, SIGKILL);
    hear_of_it(to, sleep);
    begun = now_us() - begun;
    waitpid(child, NULL, 0);
    hosted_turns(&survivor, &good, 10);
    assert_int_equal(ended(NAMED, NAMED + 10), posted);
    assert_int_equal(ended(ANYONE, ANYONE + 1), 1);
    assert_int_equal(hosted_send(to, 1, 1, large, 8, 0), -ECONNRESET);
    serve_good();
    assert_int_equal(hosted_ops->disconnect(to), 0);
    only_good_is_left();
    if (begun > 30000000) /* nobody has rung, and it was found by chance */
        fail_msg("%s: it took %llu us until the death was told", kind->name, (unsigned long long)begun);
}

/* An attach that has just ended (a dead rank's last, or the other one where both sides dialled) is
 * closed when the service thread has had its turn, which on a loaded machine is a moment later. Until
 * the count has stood still for 50 ms. */
static void stand_still(void)
{
    unsigned files = descriptors();
    uint64_t until = now_us() + 3000000, since = now_us();

    while (now_us() < until && now_us() < since + 50000) {
        hosted_turns(&survivor, &good, 10);
        usleep(1000);
        if (descriptors() == files)
            continue;
        files = descriptors();
        since = now_us();
    }
}

static void all_die(const struct kind *kind)
{
    unsigned files, maps;

    stand_still();
    files = descriptors();
    maps = mappings();
    for (unsigned turn = 0; turn < DEATHS; turn++)
        die(kind, turn, turn & 1);
    /* Fewer is no leak: on a loaded machine the first count may have met an attach of the start
     * that had not closed yet. */
    for (uint64_t until = now_us() + 60000000;
         now_us() < until && (descriptors() > files || mappings() > maps);)
        hosted_turns(&survivor, &good, 10);
    assert_in_range(descriptors(), 1, files);
    assert_in_range(mappings(), 1, maps);
    assert_int_equal(hosted_stats(&survivor).rescues, 0);
}

static void test_ping_pong(void **state)
{
    (void)state;
    all_die(&kinds[0]);
}

static void test_stream(void **state)
{
    (void)state;
    all_die(&kinds[1]);
}

static void test_large(void **state)
{
    (void)state;
    all_die(&kinds[2]);
}

static void test_heap(void **state)
{
    (void)state;
    all_die(&kinds[3]);
}

static void test_asleep(void **state)
{
    (void)state;
    all_die(&kinds[4]);
}

/* It closes and exits as it should while nobody looks: that is no death, and its last words are still there. */
static void test_orderly_end(void **state)
{
    uint64_t word = 0;
    int status;
    pid_t child;

    (void)state;
    survivor.count = 0;
    assert_int_equal(hosted_recv(&survivor, NULL, ANYONE, 99, &word, 8, 0), 0);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        struct hosted me;
        struct nigh_endpoint *to;
        uint64_t last = 4711;

        hosted_open(&me, job, 1, 0);
        to = hosted_connect(&me, 0);
        hosted_send(to, 1, 98, &last, 8, 0);
        hosted_until(&me, NULL, NIGH_OP_SEND, 1);
        hosted_close(&me);
        _exit(0);
    }
    while (waitpid(child, &status, WNOHANG) == 0)
        if (hosted_facts(&survivor).peers < 2)
            hosted_poll(&survivor); /* only until it is attached */
    assert_int_equal(status, 0);
    /* Long enough for sweeps: a message that nobody has received stays. */
    hosted_turns(&survivor, &good, 5000);
    assert_null(hosted_find(&survivor, NIGH_OP_RECV, ANYONE));
    assert_int_equal(hosted_recv(&survivor, NULL, 2, 98, &word, 8, 0), 0);
    assert_int_equal(hosted_until(&survivor, &good, NIGH_OP_RECV, 2)->status, 0);
    assert_int_equal(word, 4711);
    assert_int_equal(hosted_ops->cancel(survivor.context, ANYONE), 0);
    hosted_turns(&survivor, &good, 3000);
    assert_int_equal(hosted_facts(&survivor).peers, 1);
}

/* ---- what was claimed --------------------------------------------------------------------------------------- */

/* Lends what its heap has, leaves when it is told to, and lives on until it is killed. */
static void lend_and_leave(const volatile unsigned *step)
{
    struct nigh_lend lend = {.size = sizeof(lend), .bytes = LARGE, .tag = 98};
    struct hosted me;
    struct nigh_endpoint *to;
    void *heap;

    alarm(300);
    hosted_open(&me, job, 1, 0);
    to = hosted_connect(&me, 0);
    assert_int_equal(hosted_ops->heap_alloc(me.context, LARGE, &heap), 0);
    lend.buffer = heap;
    assert_int_equal(hosted_ops->post_lend(to, &lend), 0);
    while (!*step)
        hosted_poll(&me);
    hosted_close(&me);
    for (;;)
        pause();
}

/* Until the endpoint has ended so. */
static void until_ended(struct nigh_endpoint *to, enum nigh_state state)
{
    uint64_t until = now_us() + 120000000;

    while (hosted_state(&survivor, to) != state) {
        assert_true(now_us() < until);
        hosted_poll(&survivor);
    }
}

/* What the dead have lent stays as they left it, but who has left before takes it back: by the time it was killed its
 * memory may have been another message's. `we`: it is left, which its peer hears as well. */
static void claim_of_one_that_left_and_died(bool we)
{
    volatile unsigned *step =
        mmap(NULL, sizeof(*step), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct nigh_recv recv = {.size = sizeof(recv), .flags = NIGH_IN_PLACE, .bytes = LARGE, .context = 5};
    struct nigh_endpoint *to = hosted_connect(&survivor, 1);
    struct nigh_message *message = NULL;
    struct nigh_completion found;
    pid_t child;

    assert_true(step != MAP_FAILED);
    fflush(NULL);
    child = fork();
    if (child == 0)
        lend_and_leave(step);
    assert_true(child > 0);
    while (hosted_ops->probe(survivor.context, to, 98, 0, 0, &found, &message) == -ENOMSG)
        continue;
    if (we) {
        assert_int_equal(hosted_ops->disconnect(to), 0);
    } else {
        *step = 1;
        until_ended(to, NIGH_PEER_CLOSED);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (!we)
        until_ended(to, NIGH_PEER_DEAD);
    /* Of one that was left nobody can ask whether its end was heard of, but it will have been. */
    for (uint64_t until = now_us() + 100000; now_us() < until;)
        hosted_turns(&survivor, &good, 10);
    survivor.count = 0;
    assert_int_equal(hosted_ops->claim(survivor.context, message, &recv), 0);
    assert_int_equal(hosted_until(&survivor, &good, NIGH_OP_RECV, 5)->status, -ECONNRESET);
    if (!we)
        assert_int_equal(hosted_ops->disconnect(to), 0);
    munmap((void *)step, sizeof(*step));
}

static void test_claimed_of_one_that_left_and_died(void **state)
{
    (void)state;
    claim_of_one_that_left_and_died(false);
}

static void test_claimed_of_one_that_was_left_and_died(void **state)
{
    (void)state;
    claim_of_one_that_left_and_died(true);
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    job = hosted_job();
    hosted_quiet = true;
    large = malloc(LARGE);
    memset(large, 1, LARGE);
    hosted_open(&survivor, job, 0, 0);
    hosted_open(&good, job, 2, 0);
    to_good = hosted_connect(&survivor, 2);
    back = hosted_connect(&good, 0);
    serve_good();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close(&survivor);
    hosted_close(&good);
    free(large);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ping_pong, start, stop),
        cmocka_unit_test_setup_teardown(test_stream, start, stop),
        cmocka_unit_test_setup_teardown(test_large, start, stop),
        cmocka_unit_test_setup_teardown(test_heap, start, stop),
        cmocka_unit_test_setup_teardown(test_asleep, start, stop),
        cmocka_unit_test_setup_teardown(test_orderly_end, start, stop),
        cmocka_unit_test_setup_teardown(test_claimed_of_one_that_left_and_died, start, stop),
        cmocka_unit_test_setup_teardown(test_claimed_of_one_that_was_left_and_died, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
