/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/note.h - the status line of the host, and nudges, which ask it to look once more. */
#ifndef NIGH_PLUGIN_NOTE_H
#define NIGH_PLUGIN_NOTE_H

#include "plugin/context.h"

int nigh_note_set(struct nigh_context *context, const struct nigh_note *note);
int nigh_endpoint_nudge(struct nigh_endpoint *endpoint, uint64_t *number);
/* Has a peer asked for a full pass? Says so once. */
bool nigh_note_is_asked(struct nigh_context *context);
/* Makes that pass, behind one in which something has `moved` or not. Returns whether anything moved in it. */
bool nigh_note_answer(struct nigh_context *context, bool moved);
/* Has something come that a blocked probe has not looked at? */
static inline bool nigh_is_unprobed(const struct nigh_context *context)
{
    return context->probing && nigh_load_relaxed(&context->counters->unexpected) != context->probed;
}

#endif
