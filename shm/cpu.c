/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/cpu.c - asks the CPU for its maker, family and model. */
#include "shm/cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>

#include "shm/shared.h"

static enum nigh_cpu amd(unsigned family, unsigned model)
{
    int zen3 = family == 0x19 && (model < 0x10 || (model >= 0x20 && model < 0x60));

    return zen3 ? NIGH_CPU_ZEN3 : NIGH_CPU_OTHER;
}

static enum nigh_cpu intel(unsigned family, unsigned model)
{
    int golden_cove = family == 6 && (model == 0x8f || model == 0xcf);

    return golden_cove ? NIGH_CPU_GOLDEN_COVE : NIGH_CPU_INTEL;
}

static enum nigh_cpu ask(void)
{
    unsigned a, b, c, d, first, family, model;

    if (!__get_cpuid(1, &a, &b, &c, &d))
        return NIGH_CPU_OTHER;
    first = a >> 8 & 0xf;
    family = first + (first == 0xf ? a >> 20 & 0xff : 0);
    model = (a >> 4 & 0xf) | (first == 0xf || first == 6 ? a >> 12 & 0xf0 : 0);
    if (!__get_cpuid(0, &a, &b, &c, &d))
        return NIGH_CPU_OTHER;
    if (b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx)
        return amd(family, model);
    if (b == signature_INTEL_ebx && c == signature_INTEL_ecx && d == signature_INTEL_edx)
        return intel(family, model);
    return NIGH_CPU_OTHER;
}

enum nigh_cpu nigh_cpu(void)
{
    static int kept = -1;
    /* Two threads that both find nothing ask twice and store the same answer: relaxed is enough. */
    int answer = nigh_load_relaxed(&kept);

    if (answer < 0) {
        answer = (int)ask();
        nigh_store_relaxed(&kept, answer);
    }
    return (enum nigh_cpu)answer;
}

#else

enum nigh_cpu nigh_cpu(void)
{
    return NIGH_CPU_OTHER;
}

#endif
