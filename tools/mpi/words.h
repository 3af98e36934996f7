/* SPDX-License-Identifier: BSD-3-Clause */
/* A command in the making, ready for execvp. */
#ifndef NIGH_TOOLS_MPI_WORDS_H
#define NIGH_TOOLS_MPI_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#define MPI_WORDS 512

/* NULL follows the last word. The words lie in `room`. */
struct mpi_words {
    size_t count, used;
    bool overflow; /* a word did not fit; it and all later ones are missing */
    char *word[MPI_WORDS + 1];
    char room[32768];
};

void mpi_words_init(struct mpi_words *words);

/* Appends a copy of the text. */
void mpi_words_add(struct mpi_words *words, const char *text);

/* The words with blanks between them, cut to `size`. */
void mpi_words_join(const struct mpi_words *words, char *text, size_t size);

#endif
