/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/light.c - the table of light requests, and a thread's first send. */
#include "lib/light.h"

struct nigh_light nigh_lights[NIGH_LIGHTS];

void nigh_hot_open(struct nigh_hot *hot)
{
    static uint32_t threads; /* called between nigh_enter() and nigh_leave(): one thread at a time */
    /* Modulo a million: two threads with one number would have to reach the same serial number, too. */
    uint64_t thread = threads++ & 0xfffff;

    hot->next = NIGH_LIGHT | thread * NIGH_LIGHT_THREAD;
    hot->send = (struct nigh_send){
        .size = sizeof(hot->send),
        .flags = NIGH_INJECT | NIGH_SILENT,
        .tclass = NIGH_CLASS_USER,
    };
}
