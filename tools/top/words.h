/* SPDX-License-Identifier: BSD-3-Clause */
/* What the text view and JSON call things. */
#ifndef NIGH_TOOLS_TOP_WORDS_H
#define NIGH_TOOLS_TOP_WORDS_H

#include "tools/top/graph.h"

#define TOP_WORDS 160

const char *top_state_word(enum top_state state);
const char *top_path_word(unsigned path);
/* An operation that only its host has a name for: "op 1007". */
const char *top_op_word(uint32_t op, char room[TOP_WORDS]);
/* What a blocked rank waits for: "recv from 1, tag 5, 400 bytes". */
const char *top_wait_words(const struct top_rank *rank, char room[TOP_WORDS]);
/* "1.2 k", with at most three digits before the unit. */
const char *top_amount(double value, char room[16]);
/* "3.2 s", "5 min", "2 h". */
const char *top_duration(uint64_t ns, char room[16]);

#endif
