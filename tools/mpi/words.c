/* SPDX-License-Identifier: BSD-3-Clause */
/* See words.h. */
#include "tools/mpi/words.h"

#include <stdio.h>
#include <string.h>

void mpi_words_init(struct mpi_words *words)
{
    words->count = 0;
    words->used = 0;
    words->overflow = false;
    words->word[0] = NULL;
}

void mpi_words_add(struct mpi_words *words, const char *text)
{
    size_t size = strlen(text) + 1;

    if (words->overflow)
        return;
    if (words->count == MPI_WORDS || size > sizeof words->room - words->used) {
        words->overflow = true;
        words->missing = size - 1;
        snprintf(words->missing_word, sizeof words->missing_word, "%s", text);
        return;
    }
    words->word[words->count++] = memcpy(words->room + words->used, text, size);
    words->word[words->count] = NULL;
    words->used += size;
}

void mpi_words_lack(const struct mpi_words *words, char *text, size_t size)
{
    snprintf(text, size,
             "no room for \"%s%s\" (%zu bytes): an MPI is given at most %d variables of %d KiB in all, and a "
             "command line of as much; make it shorter",
             words->missing_word, words->missing < sizeof words->missing_word ? "" : "...", words->missing,
             MPI_WORDS, MPI_ROOM >> 10);
}

void mpi_words_join(const struct mpi_words *words, char *text, size_t size)
{
    size_t used = 0;

    text[0] = 0;
    for (size_t i = 0; i < words->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", words->word[i]);
}
