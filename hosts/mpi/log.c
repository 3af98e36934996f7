/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/log.c - see log.h. */
#include "hosts/mpi/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void nigh_mpi_log(const char *format, ...)
{
    char text[512];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "nigh: MPI:%d: %s\n", (int)getpid(), text);
}

void nigh_mpi_log_nigh(void *data, int level, const char *text)
{
    (void)data;
    (void)level; /* nigh itself leaves out what NIGH_LOG does not ask for */
    nigh_mpi_log("%s", text);
}
