/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes copy half of each message each, as fast as they can: rows of all lengths, receives that are too short,
 * messages of the heap among them and messages the other way. Each byte is where it belongs, and no buffer is written to
 * when its receive is over. And: the sender is killed in the middle of a slice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/os.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    KIB = 1024,
    FROM = 64 * KIB,
    ROW_FROM = 32 * KIB,
    SHORT = 250 * KIB,  /* at most so long are some: many of those are copied whole, */
    SHORTER = 70 * KIB, /* and of those several in a call */
    MOST = 1024 * KIB,
    PITCH = MOST + 4096,
    ROW = 24,
    HEAPED = 160 * KIB, /* at most so long are those of the heap */
    BACK = 600 * KIB,
    ROUNDS = 150,
    ASK = 700, /* contexts of what is no message of the row */
    OVER = 800,
    HELLO = 900,
};

struct row {
    unsigned count;
    bool both; /* one goes the other way, too */
    struct {
        uint64_t bytes, room;
        uint32_t flags;
        bool heap;
    } message[ROW];
};

static struct nigh_os saved;
static struct hosted me;
static uint8_t buffer[ROW * PITCH], back[BACK];
static uint8_t *heap;
static unsigned helped;
static bool crowds; /* both come to be a crowd, and apart again, at any time */
static bool slow;   /* the receiver is, in each slice */
static int sent;    /* a signal, to itself, in the first slice that the sender writes */

/* ---- chance ------------------------------------------------------------------------------------------------ */

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 32;
}

/* What each process does by itself. */
static uint64_t chance(uint64_t below)
{
    static uint64_t state;

    if (!state)
        state = (uint64_t)getpid() * 99991;
    return next(&state) % below;
}

/* The same in both. */
static struct row row_of(unsigned round)
{
    uint64_t state = round * UINT64_C(0x9e3779b97f4a7c15) + 12345, most;
    struct row row;

    for (unsigned i = 0; i < 8; i++)
        next(&state);
    row.count = 1 + (unsigned)(next(&state) % ROW);
    row.both = next(&state) % 5 == 0;
    for (unsigned i = 0; i < row.count; i++) {
        row.message[i].heap = next(&state) % 8 == 0;
        most = (uint64_t[]){SHORTER, SHORTER, SHORT, MOST}[next(&state) % 4];
        row.message[i].bytes = 1 + next(&state) % (row.message[i].heap ? HEAPED : most);
        row.message[i].flags = next(&state) % 2 ? NIGH_MAY_WAIT : 0;
        row.message[i].room = next(&state) % 8 ? MOST : row.message[i].bytes - row.message[i].bytes / 3;
    }
    return row;
}

static uint8_t byte_of(unsigned round, unsigned message, uint64_t at)
{
    return (uint8_t)(at * 13 + (at >> 12) * 7 + round * 31 + message * 101);
}

static void fill(uint8_t *to, unsigned round, unsigned message, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = byte_of(round, message, i);
}

/* ---- both sides -------------------------------------------------------------------------------------------- */

/* As if neither had one of the other's. */
static int another_cpu(void)
{
    return saved.sched_getcpu() + (int)getpid() % 10000 * 1000;
}

static ssize_t counted_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                              const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    if (sent)
        raise(sent);
    helped++;
    if (chance(8) == 0)
        usleep((useconds_t)chance(300));
    return saved.process_vm_writev(pid, local, locals, remote, remotes, flags);
}

/* On a busy machine the sender may wait for a CPU for as long as a row takes. */
static ssize_t slow_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                          const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    ssize_t done = saved.process_vm_readv(pid, local, locals, remote, remotes, flags);

    if (local->iov_len > 8 && chance(slow ? 1 : 8) == 0)
        usleep(slow ? 2000 : 1000);
    return done;
}

/* Whatever this machine has. */
static void set_apart(void)
{
    me.context->config.beside_from = FROM;
    me.context->config.beside_row_from = ROW_FROM;
    me.context->crowd.full = crowds && chance(3) == 0;
    nigh_context_settle(me.context);
}

static void turn(void)
{
    if (crowds && chance(4) == 0)
        set_apart();
    if (chance(40) == 0)
        usleep((useconds_t)chance(200));
    hosted_poll(&me);
}

static void await(uint16_t op, uint64_t context)
{
    while (!hosted_find(&me, op, context))
        turn();
}

/* A test's own failure is its parent's alone. */
static void sender_wants(bool held, const char *what, long long value)
{
    if (held)
        return;
    fprintf(stderr, "sender: %s: %lld\n", what, value);
    abort();
}

/* ---- the sender: a process --------------------------------------------------------------------------------- */

static uint8_t *place_of(const struct row *row, unsigned message)
{
    return row->message[message].heap ? heap + message * HEAPED : buffer + message * PITCH;
}

static void send_row(struct nigh_endpoint *to, unsigned round)
{
    struct row row = row_of(round);

    me.count = 0;
    if (row.both)
        hosted_recv(&me, to, ASK, ASK, back, BACK, 0);
    for (unsigned i = 0; i < row.count; i++)
        fill(place_of(&row, i), round, i, row.message[i].bytes);
    for (unsigned i = 0; i < row.count; i++) {
        hosted_send(to, i, i, place_of(&row, i), row.message[i].bytes, row.message[i].flags);
        if (chance(6) == 0)
            turn();
    }
    for (unsigned i = 0; i < row.count; i++) {
        await(NIGH_OP_SEND, i);
        sender_wants(!hosted_find(&me, NIGH_OP_SEND, i)->status, "status of a send",
                     hosted_find(&me, NIGH_OP_SEND, i)->status);
    }
    if (row.both)
        await(NIGH_OP_RECV, ASK);
    for (unsigned i = 0; row.both && i < BACK; i++)
        sender_wants(back[i] == byte_of(round, ROW, i), "wrong byte of what came back", i);
    hosted_recv(&me, to, OVER, OVER, NULL, 0, 0);
    await(NIGH_OP_RECV, OVER);
}

static void play_sender(uint64_t job, unsigned rounds)
{
    struct nigh_endpoint *to;

    alarm(300);
    hosted_open(&me, job, 1, 0);
    to = hosted_connect(&me, 0);
    hosted_recv(&me, to, HELLO, HELLO, NULL, 0, 0);
    hosted_until(&me, NULL, NIGH_OP_RECV, HELLO);
    hosted_send(to, HELLO, HELLO, NULL, 0, NIGH_SILENT);
    set_apart();
    sender_wants(!hosted_ops->heap_alloc(me.context, ROW * HEAPED, (void **)&heap), "heap_alloc", 0);
    for (unsigned i = 0; i < rounds; i++)
        send_row(to, i);
    sender_wants(!me.context->referred, "messages that are said to be read", me.context->referred);
    sender_wants(!me.context->asked, "somebody's help is still asked for", 0);
    sender_wants(helped, "slices written", helped);
    hosted_close(&me);
    _exit(0);
}

/* ---- the receiver ------------------------------------------------------------------------------------------ */

static struct nigh_endpoint *begin(unsigned rounds, int signal, pid_t *child)
{
    uint64_t job = hosted_job();
    struct nigh_endpoint *from;

    alarm(300);
    nigh_os.sched_getcpu = another_cpu;
    nigh_os.process_vm_writev = counted_writev;
    sent = signal;
    fflush(NULL);
    *child = fork();
    if (*child == 0)
        play_sender(job, rounds);
    nigh_os.process_vm_readv = slow_readv;
    hosted_open(&me, job, 0, 0);
    from = hosted_connect(&me, 1);
    /* Known by then: whether they may read each other. */
    while (hosted_state(&me, from) != NIGH_READY)
        hosted_poll(&me);
    hosted_recv(&me, from, HELLO, HELLO, NULL, 0, 0);
    hosted_send(from, HELLO, HELLO, NULL, 0, NIGH_SILENT);
    hosted_until(&me, NULL, NIGH_OP_RECV, HELLO);
    set_apart();
    return from;
}

static void end(void)
{
    hosted_close(&me);
    nigh_os = saved;
}

static int keep_os(void **state)
{
    (void)state;
    saved = nigh_os;
    return 0;
}

/* What is not the message's is as it was. From then on the buffer is ours. */
static void check(const struct row *row, unsigned round, unsigned message)
{
    uint64_t bytes = row->message[message].bytes, room = row->message[message].room;
    uint8_t *at = buffer + message * PITCH;

    assert_int_equal(hosted_find(&me, NIGH_OP_RECV, message)->status, bytes > room ? -EMSGSIZE : 0);
    for (uint64_t i = 0; i < PITCH; i++)
        if (at[i] != (i < bytes && i < room ? byte_of(round, message, i) : 0xaa))
            fail_msg("round %u, message %u of %llu: byte %llu", round, message, (unsigned long long)bytes,
                     (unsigned long long)i);
    memset(at, 0xee, PITCH);
}

static void receive_row(struct nigh_endpoint *from, unsigned round)
{
    struct row row = row_of(round);

    me.count = 0;
    memset(buffer, 0xaa, row.count * PITCH);
    for (uint64_t late = chance(3) ? 0 : chance(50); late; late--)
        turn();
    for (unsigned i = 0; i < row.count; i++)
        hosted_recv(&me, from, i, i, buffer + i * PITCH, row.message[i].room, 0);
    if (row.both) {
        fill(back, round, ROW, BACK);
        hosted_send(from, ASK, ASK, back, BACK, 0);
    }
    for (unsigned i = 0; i < row.count; i++) {
        await(NIGH_OP_RECV, i);
        check(&row, round, i);
    }
    if (row.both)
        await(NIGH_OP_SEND, ASK);
    for (unsigned i = 0; i < 5; i++)
        turn();
    for (uint64_t i = 0; i < row.count * PITCH; i++)
        if (buffer[i] != 0xee)
            fail_msg("round %u: byte %llu is written when all is over", round, (unsigned long long)i);
    hosted_send(from, OVER, OVER, NULL, 0, NIGH_SILENT);
}

static void skip_unless_read(pid_t child)
{
    if (hosted_may_read(&me))
        return;
    print_message("# skipped: processes may not read each other here\n");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    end();
    skip();
}

static void play(bool crowd)
{
    struct nigh_endpoint *from;
    int status;
    pid_t child;

    crowds = crowd;
    slow = false;
    from = begin(ROUNDS, 0, &child);
    skip_unless_read(child);
    from->offers = UINT32_MAX - 50;
    for (unsigned i = 0; i < ROUNDS; i++)
        receive_row(from, i);
    while (waitpid(child, &status, WNOHANG) == 0)
        hosted_poll(&me);
    assert_int_equal(status, 0);
    for (unsigned i = 0; i < NIGH_OFFERS; i++)
        assert_null(from->offered[i]);
    assert_true(!me.context->pulls && !me.context->pulls_last && !me.context->copying);
    assert_int_equal(me.context->referred, 0);
    end();
}

static void test_apart(void **state)
{
    (void)state;
    play(false);
}

static void test_crowds_come_and_go(void **state)
{
    (void)state;
    play(true);
}

/* The messages of a row that have come, until all have, or the sender has died: then *status is set. */
static unsigned receive_until_dead(struct nigh_endpoint *from, unsigned count, pid_t child, int *status)
{
    unsigned come;

    me.count = 0;
    for (unsigned i = 0; i < count; i++)
        hosted_recv(&me, from, i, i, buffer + i * PITCH, MOST, 0);
    do {
        hosted_poll(&me);
        come = 0;
        for (unsigned i = 0; i < count; i++)
            come += hosted_find(&me, NIGH_OP_RECV, i) != NULL;
    } while (come < count && waitpid(child, status, WNOHANG) == 0);
    return come;
}

/* What it had claimed is lost with it, and what it had not sent; that is told, and nobody waits for more. */
static void test_killed(void **state)
{
    unsigned lost = 0, round = 0, count;
    struct nigh_endpoint *from;
    int status = 0;
    pid_t child;

    (void)state;
    crowds = false;
    slow = true;
    from = begin(1000, SIGKILL, &child);
    skip_unless_read(child);
    /* It may have its turn only when all of a row is copied. */
    for (;; round++) {
        count = row_of(round).count;
        if (receive_until_dead(from, count, child, &status) < count)
            break;
        if (row_of(round).both)
            hosted_send(from, ASK, ASK, back, BACK, 0);
        hosted_send(from, OVER, OVER, NULL, 0, NIGH_SILENT);
    }
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (unsigned i = 0; i < count; i++)
        lost += hosted_until(&me, NULL, NIGH_OP_RECV, i)->status == -ECONNRESET;
    assert_true(lost > 0);
    assert_int_equal(hosted_state(&me, from), NIGH_PEER_DEAD);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_crowds_come_and_go),
        cmocka_unit_test(test_killed),
    };

    return cmocka_run_group_tests(tests, keep_os, NULL);
}
