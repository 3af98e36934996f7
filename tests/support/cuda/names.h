/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/names.h - cuGetProcAddress(): which call a plain name means. */
#ifndef NIGH_TESTS_CUDA_NAMES_H
#define NIGH_TESTS_CUDA_NAMES_H

/* The function of this object that a program built for `version` means by the plain name, or NULL. */
void *cuda_function(const char *name, int version);

#endif
