/* SPDX-License-Identifier: BSD-3-Clause */
/* Says how many bytes the C library has registered for restartable sequences: 0 where it was told not to. */
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size"); /* glibc 2.35 has it, and later ones */

    printf("%u bytes of sequences\n", size ? *size : 0);
    return 0;
}
