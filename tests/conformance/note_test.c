/* SPDX-License-Identifier: BSD-3-Clause */
/* The status line: what one side writes the other reads, whole or not at all; and the lists of what waits. */
#include "tests/support/data.h"
#include "tests/support/notes.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* ---- the line ------------------------------------------------------------------------------------------------- */

static const struct nigh_note all_fields = {
    .size = sizeof(struct nigh_note),
    .state = NIGH_NOTE_BLOCKED,
    .op = NIGH_NOTE_OP_HOST + 7,
    .group = 0x89abcdef,
    .peer = 0xfffffffe,
    .requests = 0xf0f1f2f3,
    .members = UINT64_C(0x8000000000000001),
    .tag = UINT64_C(0x1122334455667788),
    .bytes = UINT64_C(0xffffffffffffffff),
    .since_ns = 12345678901,
    .site = "program.c:123",
    .until_ns = 23456789012,
};

static void check_fields(const struct nigh_note *note)
{
    CHECK_INT(note->size, sizeof(*note));
    CHECK_INT(note->state, NIGH_NOTE_BLOCKED);
    CHECK_INT(note->op, NIGH_NOTE_OP_HOST + 7);
    CHECK_INT(note->group, 0x89abcdef);
    CHECK_INT(note->peer, 0xfffffffe);
    CHECK_INT(note->requests, 0xf0f1f2f3);
    CHECK(note->members == all_fields.members && note->tag == all_fields.tag);
    CHECK(note->bytes == all_fields.bytes && note->since_ns == all_fields.since_ns);
    CHECK(note->until_ns == all_fields.until_ns);
    CHECK(strcmp(note->site, "program.c:123") == 0);
    CHECK_INT(note->checked, 0);
}

static void line(struct pair *pair)
{
    struct pair_end *writes = pair->end[0], *reads = pair->end[1];
    struct nigh_note note = all_fields, first, second;

    both_ready(pair);
    if (reads) {
        first = note_of(reads, reads->peer);
        CHECK_INT(first.state, NIGH_NOTE_NONE);
        CHECK_INT(first.serial, 0);
    }
    pair_meet();
    if (writes) {
        /* What nigh fills in is not looked at. */
        note.serial = note.checked = 99;
        CHECK_INT(nigh->note(writes->context, &note), 0);
        first = note_of(writes, NULL);
        check_fields(&first);
        /* Attaching may not be over on this side yet: it counts, too. */
        CHECK(first.serial >= 1 && first.serial < 99);
    }
    pair_meet();
    if (reads) {
        second = note_of(reads, reads->peer);
        check_fields(&second);
        CHECK(second.serial >= 1);
        tell(pair, 0, second.serial);
    }
    pair_meet();
    if (writes) {
        memset(note.site, 'x', sizeof(note.site));
        note.site[3] = '\033';
        CHECK_INT(nigh->note(writes->context, &note), 0);
    }
    pair_meet();
    if (reads) {
        second = note_of(reads, reads->peer);
        CHECK(second.serial > told(pair, 0));
        CHECK_INT(strlen(second.site), sizeof(second.site) - 1);
        CHECK(second.site[3] == '?' && second.site[38] == 'x');
    }
    pair_meet();
}

static void states(struct pair *pair)
{
    static const uint32_t bad[] = {NIGH_NOTE_NONE, 4, UINT32_MAX};
    struct nigh_note note = all_fields;
    uint64_t serial;

    (void)pair;
    serial = note_of(pair->end[0], NULL).serial;
    for (unsigned i = 0; i < 3; i++) {
        note.state = bad[i];
        CHECK_INT(nigh->note(pair->end[0]->context, &note), -EINVAL);
    }
    CHECK_INT(note_of(pair->end[0], NULL).serial, serial);
}

/* Never torn: every field of what is read is of one writing. */
static void torn(struct pair *pair)
{
    struct pair_end *writes = pair->end[0], *reads = pair->end[1];
    uint32_t seen = 0;

    both_ready(pair);
    for (uint64_t i = 1; writes && i <= 300000 && !told(pair, 0); i++) {
        struct nigh_note note = {.size = sizeof(note),
                                 .state = NIGH_NOTE_RUNNING,
                                 .op = (uint32_t)i,
                                 .group = (uint32_t)i,
                                 .peer = (uint32_t)i,
                                 .requests = (uint32_t)i,
                                 .members = i,
                                 .tag = i,
                                 .bytes = i,
                                 .since_ns = i,
                                 .until_ns = i};

        memset(note.site, 'a' + (int)(i % 26), 39);
        CHECK_INT(nigh->note(writes->context, &note), 0);
    }
    for (uint64_t last = 0; reads && seen < 20000 && last < 300000;) {
        struct nigh_note note;

        if (read_note(reads, reads->peer, &note) || note.state == NIGH_NOTE_NONE)
            continue;
        CHECK(note.tag >= last);
        last = note.tag;
        seen++;
        CHECK(note.serial == last && note.members == last && note.bytes == last && note.since_ns == last &&
              note.until_ns == last);
        CHECK(note.op == last && note.group == last && note.peer == last && note.requests == last);
        for (unsigned i = 0; i < 39; i++)
            CHECK_INT(note.site[i], 'a' + (int)(last % 26));
    }
    if (reads)
        tell(pair, 0, 1);
    pair_meet();
}

static void not_there(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct nigh_note note;
    uint64_t number = 99;

    pair_open(end);
    pair_connect(end);
    CHECK_INT(read_note(end, end->peer, &note), -EAGAIN);
    CHECK_INT(nigh->nudge(end->peer, &number), -EAGAIN);
    CHECK_INT(number, 99);
    pair_disconnect(end);
    pair_close(end);
}

/* The line of one that has ended can still be read; it cannot be nudged. number: 1 it closes, 2 it is killed. */
static void ended(struct pair *pair)
{
    struct pair_end *stays = pair->end[0], *ends = pair->end[1];

    both_ready(pair);
    if (ends) {
        CHECK_INT(nigh->note(ends->context, &all_fields), 0);
        if (pair->of->number == 2)
            kill(getpid(), SIGKILL);
        pair_close(ends);
    }
    if (stays) {
        struct nigh_note note;
        uint64_t number;

        pair_state(stays, pair->of->number == 2 ? NIGH_PEER_DEAD : NIGH_PEER_CLOSED);
        note = note_of(stays, stays->peer);
        check_fields(&note);
        CHECK_INT(nigh->nudge(stays->peer, &number), -ECONNRESET);
    }
    if (pair->of->number != 2)
        pair_meet();
}

/* ---- lists ---------------------------------------------------------------------------------------------------- */

static uint64_t list_of(struct pair_end *end, uint32_t what, struct nigh_query_message *rows, uint64_t room)
{
    uint64_t bytes = room;

    CHECK_INT(nigh->query(end->context, end->peer, what, rows, &bytes), 0);
    return bytes;
}

static void lists(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_query_message rows[8];
    const uint64_t row = sizeof(rows[0]);
    uint8_t *big = data_room(300000);
    uint64_t got[4];

    both_ready(pair);
    if (tx) {
        pair_send(tx, &row, 8, 6, NIGH_INJECT | NIGH_SILENT, 0);
        pair_send(tx, big, 700, 5, 0, 1);
        pair_send(tx, big, 300000, 7, 0, 2);
    }
    if (rx) {
        pair_unexpected(rx, 3);
        CHECK_INT(list_of(rx, NIGH_QUERY_UNEXPECTED, rows, sizeof(rows)), 3 * row);
        CHECK(rows[0].tag == 6 && rows[1].tag == 5 && rows[2].tag == 7);
        CHECK(rows[0].bytes == 8 && rows[1].bytes == 700 && rows[2].bytes == 300000);
        for (unsigned i = 0; i < 3; i++)
            CHECK(rows[i].size == row && rows[i].source == pair_peer_facts(rx).source && !rows[i].tclass);
        CHECK_INT(list_of(rx, NIGH_QUERY_UNEXPECTED, rows, 2 * row), 2 * row);
        CHECK(rows[0].tag == 6 && rows[1].tag == 5);
        CHECK_INT(list_of(rx, NIGH_QUERY_UNEXPECTED, rows, row + 24), row + 24);
        CHECK_INT(rows[1].tag, 5);
        CHECK_INT(list_of(rx, NIGH_QUERY_POSTED, rows, sizeof(rows)), 0);
        for (uint32_t i = 0; i < 3; i++) {
            struct nigh_recv recv = pair_a_recv(&got[i], 8, 60 + i, i);

            recv.ignore = i == 1 ? 0xff00 : 0;
            recv.tclass = 2;
            CHECK_INT(nigh->post_recv(rx->context, i == 2 ? NULL : rx->peer, &recv), 0);
        }
        CHECK_INT(list_of(rx, NIGH_QUERY_POSTED, rows, sizeof(rows)), 2 * row);
        {
            uint64_t bytes = sizeof(rows);

            CHECK_INT(nigh->query(rx->context, NULL, NIGH_QUERY_POSTED, rows, &bytes), 0);
            CHECK_INT(bytes, 3 * row);
        }
        for (uint32_t i = 0; i < 3; i++)
            CHECK(rows[i].tag == 60 + i && rows[i].context == i && rows[i].bytes == 8 && rows[i].tclass == 2);
        CHECK(rows[1].ignore == 0xff00 && rows[2].source == NIGH_SOURCE_NONE &&
              rows[0].source != NIGH_SOURCE_NONE);
    }
    pair_meet();
}

#define TWO_RANKS (PAIR_FORK | PAIR_THREADS)

static const struct pair_case cases[] = {
    {.name = "line", .play = line, .forms = PAIR_APART},
    {.name = "states of a line", .play = states, .forms = PAIR_SELF},
    {.name = "a line is never torn", .play = torn, .forms = TWO_RANKS},
    {.name = "no peer yet", .play = not_there, .forms = PAIR_TWO, .how = PAIR_MANUAL},
    {.name = "the peer has closed", .play = ended, .forms = TWO_RANKS, .number = 1},
    {.name = "the peer was killed", .play = ended, .forms = PAIR_FORK, .number = 2, .how = PAIR_DEATH},
    {.name = "lists", .play = lists, .forms = PAIR_ALL, .how = PAIR_LOOSE},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
