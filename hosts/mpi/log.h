/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/log.h - lines for people on standard error. */
#ifndef NIGH_MPI_LOG_H
#define NIGH_MPI_LOG_H

/* One line, of what ends a call or keeps nigh from being used. Any thread. */
void nigh_mpi_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For nigh's own lines: struct nigh_open.log. */
void nigh_mpi_log_nigh(void *data, int level, const char *text);

#endif
