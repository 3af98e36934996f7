/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that close descriptors: stdin, stdout or stderr before they open a context or between open and connect, and print
 * all the same; or all that there are, as daemons do, and open others. nigh owns none of 0, 1 and 2, and touches none of the
 * program's. */
#include "tests/support/data.h"
#include "tests/support/others.h"
#include "tests/support/pair.h"
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct nigh_ops *nigh;

/* ---- stdio that is closed -------------------------------------------------------------------------------- */

enum { ROUNDS = 300, ALL_WAYS = 60 };

/* What nigh opens where a program prints, the program writes to. */
static void print(unsigned round)
{
    char line[1024];

    memset(line, '0' + (int)(round % 10), sizeof(line));
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) >= 0 || write(fd, line, 1 + round % sizeof(line)) != -1)
            pair_fail(__FILE__, __LINE__, "descriptor %d, which the program has closed, is open", fd);
}

static void close_stdio(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        close(fd);
}

/* Back and forth, of all ways that messages take; the second side prints before each. */
static void talk(struct pair *pair, unsigned rounds, bool prints)
{
    static const uint64_t sizes[] = {8, 1000, 5000, 50000, 1 << 20};
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];

    for (unsigned round = 0; round < rounds; round++) {
        uint64_t bytes = sizes[round % 10 ? round % 3 : round / 10 % 5], from = round, back = round + 7;

        if (rx) {
            uint8_t *in = data_room(bytes), *out = data_filled(bytes, back);

            if (prints)
                print(round);
            pair_recv(rx, in, bytes, round, 1);
            pair_received(rx, 1, bytes);
            data_check(in, bytes, from, 0);
            if (prints)
                print(round);
            pair_send(rx, out, bytes, round, 0, 2);
            pair_sent(rx, 2, bytes);
        }
        if (tx) {
            uint8_t *in = data_room(bytes), *out = data_filled(bytes, from);

            pair_recv(tx, in, bytes, round, 1);
            pair_send(tx, out, bytes, round, 0, 2);
            pair_sent(tx, 2, bytes);
            pair_received(tx, 1, bytes);
            data_check(in, bytes, back, 0);
        }
    }
}

/* number: 0 before open, 1 between open and connect, 2 behind connect. */
static void closed_stdio(struct pair *pair)
{
    struct pair_end *own = pair->end[0] ? pair->end[0] : pair->end[1];
    bool second = pair->end[1] != NULL;

    if (second && pair->of->number == 0)
        close_stdio();
    pair_open(own);
    pair_meet();
    if (second && pair->of->number == 1)
        close_stdio();
    pair_connect(own);
    if (second && pair->of->number == 2)
        close_stdio();
    talk(pair, ROUNDS, second);
}

/* ---- all closed, and others opened ------------------------------------------------------------------------ */

/* A round for each kind that a number may get, in a job of its own. */
static void each_shift(struct pair *pair,
                       void (*round)(struct pair *pair, struct pair_end *own, unsigned shift))
{
    struct pair_end *own = pair->end[0] ? pair->end[0] : pair->end[1];

    for (unsigned shift = 0; shift < OTHERS_KINDS; shift++) {
        round(pair, own, shift);
        if (own->context) {
            pair_disconnect(own);
            pair_close(own);
        }
        if (pair->end[1])
            CHECK_INT(others_touched(), -1);
        pair_meet();
        pair->job += 2;
    }
}

static void be_connected(struct pair_end *own)
{
    pair_open(own);
    pair_connect(own);
    pair_state(own, NIGH_READY);
    pair_meet();
}

/* A job that nobody opens. */
static struct nigh_connect nobody(const struct pair *pair)
{
    return (struct nigh_connect){.size = sizeof(struct nigh_connect),
                                 .job = pair->job ^ UINT64_C(1) << 63,
                                 .source = NIGH_SOURCE_NONE};
}

/* Whoever is connected stays so; to others there is no way any more. */
static void close_behind_connect(struct pair *pair, struct pair_end *own, unsigned shift)
{
    struct nigh_connect other = nobody(pair);
    struct nigh_endpoint *endpoint;

    be_connected(own);
    if (pair->end[1])
        others_open_all(shift);
    pair_meet();
    talk(pair, ALL_WAYS, false);
    if (pair->end[1]) {
        CHECK_INT(nigh->connect(own->context, &other, &endpoint), -EBADF);
        pair_pump_ms(20);
        CHECK_INT(pair_state_now(own), NIGH_READY);
    }
    pair_meet();
}

static void closed_behind_connect(struct pair *pair)
{
    each_shift(pair, close_behind_connect);
}

/* One that waits for its peer hears that it waits in vain. */
static void close_while_it_dials(struct pair *pair, struct pair_end *own, unsigned shift)
{
    struct nigh_connect other = nobody(pair);

    if (!pair->end[1])
        return;
    pair_open(own);
    CHECK_INT(nigh->connect(own->context, &other, &own->peer), 0);
    pair_pump_ms(10);
    CHECK_INT(pair_state_now(own), NIGH_CONNECTING);
    others_open_all(shift);
    pair_state(own, NIGH_PEER_CLOSED);
}

static void closed_while_it_dials(struct pair *pair)
{
    each_shift(pair, close_while_it_dials);
}

/* A message comes while a thread sleeps on a descriptor that it was given: that was its own to close. */
static void close_with_a_descriptor(struct pair *pair, struct pair_end *own, unsigned shift)
{
    int fd;

    be_connected(own);
    if (pair->end[1]) {
        for (int rc = -EAGAIN; rc == -EAGAIN; pair_pump())
            rc = nigh->wait_fd(own->context, &fd);
        others_open_all(shift);
    }
    pair_meet();
    talk(pair, 1, false);
    pair_meet();
    if (pair->end[1]) {
        pair_pump_ms(20); /* whoever would make it readable has run */
        for (int rc = -EAGAIN; rc != -EBADF; pair_pump()) {
            rc = nigh->wait_fd(own->context, &fd);
            CHECK(rc == -EAGAIN || rc == -EBADF);
        }
    }
    pair_meet();
    talk(pair, ALL_WAYS, false);
    pair_meet();
}

static void closed_with_a_descriptor(struct pair *pair)
{
    each_shift(pair, close_with_a_descriptor);
}

/* ---- all closed, and the peer dies ------------------------------------------------------------------------- */

enum { POLLS, SLEEPS, UNMARKED };

/* Arenas that are mapped here: its own, and the peer's while something of that may be looked at. */
static unsigned mapped_arenas(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned count = 0;
    char line[512];

    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, "nigh-arena") != NULL;
    fclose(maps);
    return count;
}

/* As in a sandbox: the kernel marks nothing when this process ends. */
static void refuse_life_words(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_robust_list, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        pair_skip("this kernel, or what emulates it, has no seccomp filters");
}

static void await_death(struct pair_end *own, bool sleeps)
{
    while (pair_state_now(own) == NIGH_READY)
        if (sleeps)
            (void)nigh->wait(own->context, UINT64_C(60000000000));
        else
            pair_pump();
    CHECK_INT(pair_state_now(own), NIGH_PEER_DEAD);
}

/* number: how it is noticed. What was the peer's is given back, as nobody looks at it any more. */
static void closed_and_the_peer_killed(struct pair *pair)
{
    struct pair_end *own = pair->end[0] ? pair->end[0] : pair->end[1];
    unsigned arenas;
    uint64_t in;

    if (pair->end[1] && pair->of->number == UNMARKED)
        refuse_life_words();
    pair_open(own);
    arenas = mapped_arenas();
    pair_connect(own);
    pair_state(own, NIGH_READY);
    talk(pair, 1, false);
    CHECK(mapped_arenas() > arenas);
    pair_meet();
    if (pair->end[0]) {
        others_open_all(0);
        pair_recv(own, &in, sizeof(in), 5, 5);
    }
    pair_meet();
    if (pair->end[1])
        kill(getpid(), SIGKILL);
    await_death(own, pair->of->number != POLLS);
    CHECK_INT(pair_await(own, NIGH_OP_RECV, 5).status, -ECONNRESET);
    CHECK_INT(pair_stats(own).peers_lost, 1);
    for (unsigned i = 0; i < 1000 && mapped_arenas() > arenas; i++)
        pair_pump_ms(10);
    CHECK_INT(mapped_arenas(), arenas);
    pair_disconnect(own);
    pair_close(own);
    CHECK_INT(others_touched(), -1);
}

static const struct pair_case cases[] = {
    {.name = "stdio closed before open", .play = closed_stdio, .forms = PAIR_FORK, .how = PAIR_MANUAL},
    {.name = "stdio closed before connect",
     .play = closed_stdio,
     .forms = PAIR_FORK,
     .how = PAIR_MANUAL,
     .number = 1},
    {.name = "stdio closed behind connect",
     .play = closed_stdio,
     .forms = PAIR_FORK,
     .how = PAIR_MANUAL,
     .number = 2},
    {.name = "all closed behind connect",
     .play = closed_behind_connect,
     .forms = PAIR_FORK,
     .how = PAIR_MANUAL},
    {.name = "all closed while it dials",
     .play = closed_while_it_dials,
     .forms = PAIR_FORK,
     .how = PAIR_MANUAL},
    {.name = "all closed, with a descriptor",
     .play = closed_with_a_descriptor,
     .forms = PAIR_FORK,
     .how = PAIR_MANUAL,
     .options = {.flags = NIGH_OPEN_WAIT_FD}},
    {.name = "all closed, a peer killed, polling",
     .play = closed_and_the_peer_killed,
     .forms = PAIR_FORK,
     .how = PAIR_MANUAL | PAIR_DEATH,
     .number = POLLS},
    {.name = "all closed, a peer killed, asleep",
     .play = closed_and_the_peer_killed,
     .forms = PAIR_FORK,
     .how = PAIR_MANUAL | PAIR_DEATH,
     .number = SLEEPS},
    {.name = "all closed, a peer killed, unmarked",
     .play = closed_and_the_peer_killed,
     .forms = PAIR_FORK,
     .how = PAIR_MANUAL | PAIR_DEATH,
     .number = UNMARKED},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
