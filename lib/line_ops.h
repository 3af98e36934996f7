/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/line_ops.h - the calls that can block, as numbers in a status line and as names in a sentence. */
#ifndef NIGH_LIB_LINE_OPS_H
#define NIGH_LIB_LINE_OPS_H

#include "lib/core.h"

/* enum nigh_note_op of a call of the program, by its name; NIGH_NOTE_OP_HOST for others. */
uint32_t nigh_line_op(const char *call);

/* "nigh_recv"; "a call" for numbers that nobody has given. */
const char *nigh_line_call(uint32_t op);

/* Does it take messages of the program, send them, or neither (collectives)? */
bool nigh_line_receives(uint32_t op);
bool nigh_line_sends(uint32_t op);
bool nigh_line_is_collective(uint32_t op);

#endif
