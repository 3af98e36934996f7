/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/logged.h - catches what the calling thread logs, so that a test can read it. */
#ifndef NIGH_TESTS_LOGGED_H
#define NIGH_TESTS_LOGGED_H

/* Catches from now on; forgets what was caught before. */
void logged_begin(void);
/* Lines since then, and the last one's text ("" without any). */
unsigned logged_lines(void);
const char *logged_text(void);
/* Lines go where they went before. */
void logged_end(void);

/* Fails the test, printing the line, unless the last line contains `part`. */
void logged_assert_has(const char *part);

#endif
