/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/log.c - see log.h. */
#include "hosts/mpi/log.h"
#include "include/common/standard_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static struct nigh_standard_error standard_error;

__attribute__((constructor)) static void look_first(void)
{
    nigh_standard_error_begin(&standard_error);
}

void nigh_mpi_log(const char *format, ...)
{
    char text[512], line[sizeof(text) + 48];
    va_list list;
    int bytes;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    bytes = snprintf(line, sizeof(line), "nigh: MPI:%d: %s\n", (int)getpid(), text);
    nigh_standard_error_write(&standard_error, line, (size_t)bytes);
}

void nigh_mpi_log_nigh(void *data, int level, const char *text)
{
    (void)data;
    (void)level; /* nigh itself leaves out what NIGH_LOG does not ask for */
    nigh_mpi_log("%s", text);
}
