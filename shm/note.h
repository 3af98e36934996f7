/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/note.h - the status line of a context: written by its owner alone, read by peers and observers at any moment
 * (docs/memory-model.md, NOTE_SET and NOTE_GET). Apart from the arena because its reader trusts nothing. */
#ifndef NIGH_SHM_NOTE_H
#define NIGH_SHM_NOTE_H

#include "nigh/transport.h"
#include "shm/layout.h"

/* The owner's; one thread at a time. */

/* Replaces what the line says; `serial` and `checked` of `note` are not looked at: the one counts on, the other stays.
 */
void nigh_note_write(struct nigh_arena_note *line, const struct nigh_note *note);
/* Something has moved while the line stands: its serial counts on. */
void nigh_note_moved(struct nigh_arena_note *line);
/* A full pass that began after nudge `number` has found nothing. */
void nigh_note_checked(struct nigh_arena_note *line, uint64_t number);

/* Anybody's. Tries often enough for a living writer. 0 and *out, all fields set, text terminated and printable;
 * -EAGAIN its owner is writing all the time, or ended in the middle; -EPROTO it says what no note can. */
int nigh_note_read(const struct nigh_arena_note *line, struct nigh_note *out);

#endif
