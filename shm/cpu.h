/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/cpu.h - which CPU this is, of those on which a default was measured to be another one. By its maker's numbers: a compiler
 * knows no CPU that is younger than itself, and takes a Zen 4 for a Zen 3. */
#ifndef NIGH_SHM_CPU_H
#define NIGH_SHM_CPU_H

enum nigh_cpu {
    NIGH_CPU_OTHER = 0,       /* anything else, as a Zen 4, and what is no x86-64 */
    NIGH_CPU_ZEN3 = 1,        /* EPYC Milan, Ryzen 5000 */
    NIGH_CPU_INTEL = 2,       /* whose cores of a socket have one L3 */
    NIGH_CPU_GOLDEN_COVE = 3, /* of those, Xeons of the 4th and 5th generation: Sapphire and Emerald Rapids */
};

/* The CPU is asked once; any thread. */
enum nigh_cpu nigh_cpu(void);

#endif
