/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/print.h - the facts as tables for people. */
#ifndef NIGH_INFO_PRINT_H
#define NIGH_INFO_PRINT_H

#include <jansson.h>
#include <stdio.h>

/* Prints the sections that `facts` has. */
void info_print(FILE *out, const json_t *facts);

/* "8", "4 KiB", "1.5 GiB"; exact: "1025" rather than "1.0 KiB". Returns text. */
#define INFO_BYTES 24
const char *info_bytes(json_int_t bytes, char text[INFO_BYTES]);
const char *info_bytes_exact(json_int_t bytes, char text[INFO_BYTES]);

#endif
