/* SPDX-License-Identifier: BSD-3-Clause */
/* The nudge: who waits answers wherever it waits; and what a detector of deadlocks concludes from
 * two readings is never wrong. */
#include "tests/support/data.h"
#include "tests/support/notes.h"
#include "tests/support/taken.h"

/* ---- the nudge ------------------------------------------------------------------------------------------------ */

static uint64_t nudge(struct nigh_endpoint *endpoint)
{
    uint64_t number = 0;

    CHECK_INT(nigh->nudge(endpoint, &number), 0);
    CHECK(number > 0);
    return number;
}

/* Whether the peer's line tells of a check after nudge `number` within `ms`. */
static bool is_checked(struct pair_end *end, uint64_t number, unsigned ms)
{
    uint64_t until = now_ns() + ms * MS;

    while (now_ns() < until) {
        if (note_of(end, end->peer).checked >= number)
            return true;
        sleep_ms(1);
    }
    return false;
}

/* The second side blocks in wait(), number: its spinning; the first nudges it twenty times. A pass that finds something
 * besides the nudge, as the end of attaching, does not count it, and says that something moved. */
static void answers(struct pair *pair)
{
    struct pair_end *asks = pair->end[0], *waits = pair->end[1];
    struct nigh_note before, after;
    uint64_t number;

    both_ready(pair);
    if (waits) {
        write_note(waits, NIGH_NOTE_BLOCKED);
        tell(pair, 0, 1);
        for (unsigned i = 0; i < 20; i++) {
            CHECK_INT(nigh->wait(waits->context, 100000 * MS), -EINTR);
            tell(pair, 1, i + 1);
        }
        CHECK_INT(pair_stats(waits).rescues, 0);
    }
    if (asks) {
        unsigned uncounted = 0;

        while (!told(pair, 0))
            sleep_ms(1);
        for (unsigned i = 0; i < 20; i++) {
            sleep_ms(3); /* mostly it is asleep then */
            before = note_of(asks, asks->peer);
            CHECK_INT(before.state, NIGH_NOTE_BLOCKED);
            number = nudge(asks->peer);
            while (told(pair, 1) <= i)
                sleep_ms(1);
            after = note_of(asks, asks->peer);
            uncounted += after.checked < number;
            CHECK(after.checked >= number || after.serial != before.serial);
        }
        CHECK(uncounted < 5);
    }
    pair_meet();
}

/* Whoever is being handed completions goes on in a moment: such a poll answers no nudge, the next one that finds
 * nothing does. number: room for so many. */
static void handed(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct nigh_completion done[2];
    uint64_t number, word = 0;

    for (unsigned i = 0; i < 40; i++) {
        write_note(end, NIGH_NOTE_RUNNING);
        pair_send(end, &word, 8, 1, 0, i);
        for (unsigned pass = 0; pass < 10; pass++)
            CHECK_INT(nigh->poll_completions(end->context, NULL, 0), 0);
        write_note(end, NIGH_NOTE_BLOCKED);
        number = nudge(end->peer);
        CHECK_INT(i % 2 ? taken_poll(nigh, end->context, done, (uint32_t)pair->of->number)
                        : nigh->poll_completions(end->context, done, (uint32_t)pair->of->number),
                  1);
        CHECK(note_of(end, end->peer).checked < number);
        number = nudge(end->peer);
        CHECK_INT(nigh->poll_completions(end->context, done, 1), 0);
        CHECK(note_of(end, end->peer).checked >= number);
    }
    write_note(end, NIGH_NOTE_RUNNING);
    for (unsigned i = 0; i < 40; i++) {
        pair_recv(end, &word, 8, 1, 100);
        (void)pair_await(end, NIGH_OP_RECV, 100);
    }
}

/* One that polls answers in a poll, and one that computes when it comes back. */
static void answers_late(struct pair *pair)
{
    struct pair_end *asks = pair->end[0], *late = pair->end[1];
    struct nigh_completion done;

    both_ready(pair);
    if (late) {
        write_note(late, NIGH_NOTE_BLOCKED);
        tell(pair, 0, 1);
        while (told(pair, 0) == 1)
            sleep_ms(1);
        while (told(pair, 0) == 2)
            CHECK_INT(nigh->poll_completions(late->context, &done, 1), 0);
        write_note(late, NIGH_NOTE_RUNNING);
    }
    if (asks) {
        while (!told(pair, 0))
            sleep_ms(1);
        CHECK(!is_checked(asks, nudge(asks->peer), 30));
        tell(pair, 0, 2);
        /* The first pass may have found the end of attaching, which is not nothing. */
        for (unsigned i = 0; !is_checked(asks, nudge(asks->peer), 100); i++)
            CHECK(i < 1000);
        tell(pair, 0, 3);
    }
    pair_meet();
    if (asks) {
        /* Who does not say that it is blocked makes the pass and does not count it. */
        struct nigh_note before = note_of(asks, asks->peer);

        CHECK_INT(before.state, NIGH_NOTE_RUNNING);
        tell(pair, 1, before.serial);
        tell(pair, 2, nudge(asks->peer));
    }
    pair_meet();
    pair_pump_ms(20);
    pair_meet();
    if (asks) {
        CHECK(note_of(asks, asks->peer).checked < told(pair, 2));
        CHECK_INT(note_of(asks, asks->peer).serial, told(pair, 1));
    }
    pair_meet();
}

/* A descriptor that is watched becomes readable, and is quiet again once it was looked at. */
static void by_descriptor(struct pair *pair)
{
    struct pair_end *asks = pair->end[0], *waits = pair->end[1];
    struct nigh_completion done;
    int fd = -1, rc;

    both_ready(pair);
    if (waits) {
        write_note(waits, NIGH_NOTE_BLOCKED);
        while ((rc = nigh->wait_fd(waits->context, &fd)) == -EAGAIN)
            pair_pump();
        CHECK_INT(rc, 0);
    }
    pair_meet();
    /* Again and again: the first may find the end of attaching, which is not nothing. */
    for (unsigned i = 0; asks && !told(pair, 0); i++) {
        CHECK(i < 50000);
        nudge(asks->peer);
        sleep_ms(2);
    }
    if (waits) {
        while (note_of(waits, NULL).checked == 0)
            CHECK_INT(nigh->poll_completions(waits->context, &done, 1), 0);
        tell(pair, 0, 1);
        while ((rc = nigh->wait_fd(waits->context, &fd)) == -EAGAIN)
            CHECK_INT(nigh->poll_completions(waits->context, &done, 1), 0);
        CHECK_INT(rc, 0);
    }
    pair_meet();
}

/* Nudges `end`, which waits in this thread, until a pass counts it: one may find the end of
 * attaching besides. The number. */
static uint64_t nudge_until_checked(struct nigh_endpoint *endpoint, struct pair_end *end)
{
    uint64_t number;

    for (unsigned i = 0; i < 1000; i++) {
        number = nudge(endpoint);
        CHECK_INT(nigh->wait(end->context, 0), -EINTR);
        if (note_of(end, NULL).checked >= number)
            return number;
        sleep_ms(1);
    }
    pair_fail(__FILE__, __LINE__, "1000 nudges, and none was counted");
}

/* What comes while the note stands changes its serial; what waits in the host's queue keeps the count where it is. */
static void moves(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_note before, after;
    uint64_t value = 1, number, got;

    both_ready(pair);
    write_note(rx, NIGH_NOTE_BLOCKED);
    before = note_of(rx, NULL);
    pair_send(tx, &value, 8, 1, NIGH_INJECT | NIGH_SILENT, 0);
    pair_unexpected(rx, 1);
    after = note_of(rx, NULL);
    CHECK(after.serial > before.serial);
    /* It completes at once, and is not polled. */
    pair_recv(rx, &got, 8, 1, 7);
    nudge(tx->peer);
    CHECK_INT(nigh->wait(rx->context, 0), 0);
    CHECK_INT(note_of(rx, NULL).checked, 0);
    (void)pair_await(rx, NIGH_OP_RECV, 7);
    number = nudge_until_checked(tx->peer, rx);
    CHECK_INT(note_of(rx, NULL).checked, number);
    /* Told once. */
    CHECK_INT(nigh->wait(rx->context, 0), -ETIMEDOUT);
}

/* One that waits for a rank which has not come lets the count be; `wanted` decides whether it waits for that. */
static void waits_for_a_connection(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct nigh_connect to = {.size = sizeof(to), .rank = 1, .source = NIGH_SOURCE_NONE};
    struct nigh_endpoint *missing, *self;
    uint64_t number;
    struct nigh_note note = {.size = sizeof(note), .state = NIGH_NOTE_BLOCKED, .op = NIGH_NOTE_OP_RECV};

    pair_open(end);
    CHECK_INT(nigh->connect(end->context, &to, &missing), 0);
    to.rank = 0;
    CHECK_INT(nigh->connect(end->context, &to, &self), 0);
    for (unsigned i = 0; i < 5; i++) {
        static const struct {
            uint32_t peer;
            uint64_t members;
            bool counted;
        } waits[] = {{0, 0, true},
                     {1, 0, false},
                     {NIGH_RANK_NONE, 2, false},
                     {NIGH_RANK_NONE, 1, true},
                     {NIGH_RANK_NONE, UINT64_MAX, false}};

        note.peer = waits[i].peer;
        note.members = waits[i].members;
        CHECK_INT(nigh->note(end->context, &note), 0);
        if (waits[i].counted) {
            number = nudge_until_checked(self, end);
            CHECK_INT(note_of(end, NULL).checked, number);
            continue;
        }
        for (unsigned j = 0; j < 20; j++) {
            number = nudge(self);
            CHECK_INT(nigh->wait(end->context, 0), -EINTR);
            CHECK(note_of(end, NULL).checked < number);
        }
    }
    CHECK_INT(nigh->disconnect(self), 0);
    CHECK_INT(nigh->disconnect(missing), 0);
    pair_close(end);
}

/* ---- two readings --------------------------------------------------------------------------------------------- */

struct reading {
    struct nigh_note own, peer;
};

static bool take(struct pair_end *end, struct reading *out)
{
    return read_note(end, NULL, &out->own) == 0 && read_note(end, end->peer, &out->peer) == 0 &&
           out->own.state == NIGH_NOTE_BLOCKED && out->peer.state == NIGH_NOTE_BLOCKED;
}

/* As a host that blocks in `end` would look, `self` being its connection to itself. Completions go to `done`. */
static bool is_deadlock(struct pair_end *end, struct nigh_endpoint *self, struct nigh_completion *done,
                        unsigned *count, unsigned ms)
{
    uint64_t until = now_ns() + ms * MS, own = 0, peer = 0;
    struct reading before, after;

    /* Always: the peer may need nothing more, and say nothing more, while there is something left for us. */
    *count = (unsigned)nigh->poll_completions(end->context, done, 1);
    if (*count || !take(end, &before) || nigh->nudge(self, &own) || nigh->nudge(end->peer, &peer))
        return false;
    do {
        *count = (unsigned)nigh->poll_completions(end->context, done, 1);
        if (*count || !take(end, &after) || before.own.serial != after.own.serial ||
            before.peer.serial != after.peer.serial)
            return false;
    } while ((after.own.checked < own || after.peer.checked < peer) && now_ns() < until);
    return after.own.checked >= own && after.peer.checked >= peer;
}

static struct nigh_endpoint *self_of(struct pair_end *end)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = end->side, .source = 77};
    struct nigh_endpoint *self;

    CHECK_INT(nigh->connect(end->context, &to, &self), 0);
    return self;
}

/* Both wait for a message that neither sends: both find that out. */
static void deadlock(struct pair *pair)
{
    uint64_t start = now_ns();

    both_ready(pair);
    for (unsigned i = 0; i < 2; i++) {
        struct pair_end *end = pair->end[i];
        struct nigh_endpoint *self;
        struct nigh_completion done;
        uint64_t got;
        unsigned count;

        if (!end)
            continue;
        self = self_of(end);
        pair_recv(end, &got, 8, 1, 1);
        write_note(end, NIGH_NOTE_BLOCKED);
        while (!is_deadlock(end, self, &done, &count, 100)) {
            CHECK_INT(count, 0);
            CHECK(now_ns() - start < 150000 * MS);
        }
        tell(pair, i, 1);
        while (!told(pair, 1 - i))
            CHECK_INT(nigh->poll_completions(end->context, &done, 1), 0);
        CHECK_INT(nigh->cancel(end->context, 1), 0);
        (void)pair_await(end, NIGH_OP_RECV, 1);
        CHECK_INT(nigh->disconnect(self), 0);
    }
    pair_meet();
}

static uint64_t random_of(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 8;
}

/* Both look after every message, which is as often as they can, and there is never a deadlock.
 * number: largest message. */
static void no_deadlock(struct pair *pair)
{
    uint64_t most = pair->of->number, seed = 7, rounds = most > 4096 ? 300 : 3000;
    uint8_t *out = data_room(most), *in = data_room(most);

    both_ready(pair);
    for (unsigned i = 0; i < 2; i++) {
        struct pair_end *end = pair->end[i];
        struct nigh_endpoint *self;

        if (!end)
            continue;
        self = self_of(end);
        for (uint64_t round = 0; round < rounds; round++) {
            uint64_t bytes = random_of(&seed) % most + 1;
            bool sends = random_of(&seed) % 2 == i;
            struct nigh_completion done;
            unsigned count = 0;

            if (sends)
                pair_send(end, out, bytes, 1, NIGH_SYNC, round);
            else
                pair_recv(end, in, bytes, 1, round);
            write_note(end, NIGH_NOTE_BLOCKED);
            while (!count)
                if (is_deadlock(end, self, &done, &count, 1))
                    pair_fail(__FILE__, __LINE__, "round %llu: a deadlock that is none",
                              (unsigned long long)round);
            CHECK_INT(done.status, 0);
            CHECK_INT(done.context, round);
            write_note(end, NIGH_NOTE_RUNNING);
        }
        CHECK_INT(nigh->disconnect(self), 0);
    }
    pair_meet();
}

#define TWO_RANKS (PAIR_FORK | PAIR_THREADS)

static const struct pair_case cases[] = {
    {.name = "a sleeper answers", .play = answers, .forms = TWO_RANKS, .options = {.spin_ns = 1}},
    {.name = "a spinner answers", .play = answers, .forms = TWO_RANKS, .options = {.spin_ns = 1000000000}},
    {.name = "handed one", .play = handed, .forms = PAIR_SELF, .number = 1},
    {.name = "handed one of two", .play = handed, .forms = PAIR_SELF, .number = 2},
    {.name = "answers come late", .play = answers_late, .forms = TWO_RANKS},
    {.name = "descriptor",
     .play = by_descriptor,
     .forms = TWO_RANKS,
     .options = {.flags = NIGH_OPEN_WAIT_FD}},
    {.name = "what moves", .play = moves, .forms = PAIR_TWO, .how = PAIR_LOOSE},
    {.name = "waits for a connection", .play = waits_for_a_connection, .forms = PAIR_TWO, .how = PAIR_MANUAL},
    {.name = "deadlock", .play = deadlock, .forms = TWO_RANKS},
    {.name = "no deadlock, small", .play = no_deadlock, .forms = TWO_RANKS, .number = 2000},
    {.name = "no deadlock, large", .play = no_deadlock, .forms = TWO_RANKS, .number = 600000},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
