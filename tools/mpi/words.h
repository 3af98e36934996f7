/* SPDX-License-Identifier: BSD-3-Clause */
/* A command in the making, ready for execvp. */
#ifndef NIGH_TOOLS_MPI_WORDS_H
#define NIGH_TOOLS_MPI_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#define MPI_WORDS 512
#define MPI_ROOM  32768

/* NULL follows the last word. The words lie in `room`. */
struct mpi_words {
    size_t count, used;
    bool overflow; /* a word did not fit; it and all later ones are missing */
    char *word[MPI_WORDS + 1];
    size_t missing; /* bytes of the word that did not fit, and its beginning */
    char missing_word[32];
    char room[MPI_ROOM];
};

void mpi_words_init(struct mpi_words *words);

/* Appends a copy of the text. */
void mpi_words_add(struct mpi_words *words, const char *text);

/* After an overflow: what did not fit, the limit, and what to do. */
void mpi_words_lack(const struct mpi_words *words, char *text, size_t size);

/* The words with blanks between them, cut to `size`. */
void mpi_words_join(const struct mpi_words *words, char *text, size_t size);

#endif
