/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/light.c - the table of light requests, and a thread's first send. */
#include "lib/light.h"

#include <stdatomic.h>

struct nigh_light nigh_lights[NIGH_LIGHTS];

void nigh_hot_open(struct nigh_hot *hot)
{
    static atomic_uint threads;
    /* Modulo a million: two threads with one number would have to reach the same serial number, too. */
    uint64_t thread = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) & 0xfffff;

    hot->next = NIGH_LIGHT | thread * NIGH_LIGHT_THREAD;
    hot->send = (struct nigh_send){
        .size = sizeof(hot->send),
        .flags = NIGH_INJECT | NIGH_SILENT,
        .tclass = NIGH_CLASS_USER,
    };
}
