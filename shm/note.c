/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/note.c - writing and reading a status line. */
#include "shm/note.h"
#include "shm/shared.h"

#include <errno.h>
#include <string.h>

/* A writer is in the line for some 20 ns. One that is preempted there is given up on: the caller asks again. */
#define TRIES 100u

static_assert(sizeof(((struct nigh_note *)NULL)->site) == NIGH_NOTE_SITE_BYTES,
              "a note's text fits its line");

static uint64_t join(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* A store with release costs nothing on x86 and little elsewhere, and needs no fence behind the odd sequence. */
void nigh_note_write(struct nigh_arena_note *line, const struct nigh_note *note)
{
    uint64_t sequence = nigh_load_relaxed(&line->sequence), word;

    nigh_store_release(&line->sequence, sequence | 1, NOTE_SET);
    nigh_store_release(&line->state_op, join(note->state, note->op), NOTE_SET);
    nigh_store_release(&line->group_peer, join(note->group, note->peer), NOTE_SET);
    nigh_store_release(&line->members, note->members, NOTE_SET);
    nigh_store_release(&line->tag, note->tag, NOTE_SET);
    nigh_store_release(&line->bytes, note->bytes, NOTE_SET);
    nigh_store_release(&line->requests, note->requests, NOTE_SET);
    nigh_store_release(&line->since_ns, note->since_ns, NOTE_SET);
    nigh_store_release(&line->until_ns, note->until_ns, NOTE_SET);
    for (unsigned i = 0; i < NIGH_NOTE_SITE_BYTES / 8; i++) {
        memcpy(&word, note->site + 8 * i, sizeof(word));
        nigh_store_release(&line->site[i], word, NOTE_SET);
    }
    nigh_store_release(&line->sequence, (sequence | 1) + 1, NOTE_SET);
}

void nigh_note_moved(struct nigh_arena_note *line)
{
    nigh_store_release(&line->sequence, nigh_load_relaxed(&line->sequence) + 2, NOTE_SET);
}

void nigh_note_checked(struct nigh_arena_note *line, uint64_t number)
{
    nigh_store_release(&line->checked, number, NOTE_SET);
}

/* Everything once, into private memory. */
static void copy(const struct nigh_arena_note *line, uint64_t sequence, struct nigh_note *out)
{
    uint64_t state_op = nigh_load_acquire(&line->state_op, NOTE_GET);
    uint64_t group_peer = nigh_load_acquire(&line->group_peer, NOTE_GET);
    uint64_t until_ns = nigh_load_acquire(&line->until_ns, NOTE_GET);

    *out = (struct nigh_note){
        .size = sizeof(*out),
        .state = (uint32_t)(state_op >> 32),
        .op = (uint32_t)state_op,
        .group = (uint32_t)(group_peer >> 32),
        .peer = (uint32_t)group_peer,
        .requests = (uint32_t)nigh_load_acquire(&line->requests, NOTE_GET),
        .members = nigh_load_acquire(&line->members, NOTE_GET),
        .tag = nigh_load_acquire(&line->tag, NOTE_GET),
        .bytes = nigh_load_acquire(&line->bytes, NOTE_GET),
        .since_ns = nigh_load_acquire(&line->since_ns, NOTE_GET),
        .serial = sequence / 2,
        .checked = nigh_load_acquire(&line->checked, NOTE_GET),
        .until_ns = until_ns == UINT64_MAX ? 0 : until_ns,
    };
    for (unsigned i = 0; i < NIGH_NOTE_SITE_BYTES / 8; i++) {
        uint64_t word = nigh_load_acquire(&line->site[i], NOTE_GET);

        memcpy(out->site + 8 * i, &word, sizeof(word));
    }
}

/* Somebody prints it: no terminal is to be steered by a peer. */
static void clean(char *site)
{
    site[NIGH_NOTE_SITE_BYTES - 1] = 0;
    for (char *at = site; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

int nigh_note_read(const struct nigh_arena_note *line, struct nigh_note *out)
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t sequence = nigh_load_acquire(&line->sequence, NOTE_GET);
        struct nigh_note note;

        if (sequence & 1) {
            nigh_pause();
            continue;
        }
        copy(line, sequence, &note);
        if (nigh_load_acquire(&line->sequence, NOTE_GET) != sequence)
            continue;
        if (note.state > NIGH_NOTE_LEFT)
            return -EPROTO;
        clean(note.site);
        *out = note;
        return 0;
    }
    return -EAGAIN;
}
