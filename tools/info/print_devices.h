/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/print_devices.h - the section of CUDA devices, for people. */
#ifndef NIGH_INFO_PRINT_DEVICES_H
#define NIGH_INFO_PRINT_DEVICES_H

#include <jansson.h>
#include <stdio.h>

void info_print_devices(FILE *out, const json_t *section);

#endif
