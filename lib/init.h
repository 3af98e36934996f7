/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/init.h - the end of what nigh_init has made. */
#ifndef NIGH_LIB_INIT_H
#define NIGH_LIB_INIT_H

/* Closes the context and frees every table. No other thread may be inside. */
void nigh_core_close(void);

#endif
