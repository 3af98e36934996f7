/* SPDX-License-Identifier: BSD-3-Clause */
/* See chosen.h. */
#include "tools/mpi/chosen.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool mpi_chosen_any(const char *prefix)
{
    for (char **one = environ; *one; one++)
        if (strncmp(*one, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

bool mpi_chosen(const char *name)
{
    size_t length = strlen(name);

    for (char **one = environ; *one; one++)
        if (strncmp(*one, name, length) == 0 &&
            ((*one)[length] == '=' || ((*one)[length] == '_' && strncmp(*one + length, "_SCATTER", 8) != 0)))
            return true;
    return false;
}

bool mpi_chosen_table(void)
{
    return getenv("I_MPI_TUNING_BIN") || getenv("I_MPI_TUNING");
}
