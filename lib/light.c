/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/light.c - what is rare with light requests: a send unlike the last, and requests that grow old. */
#include "lib/light.h"

#include <string.h>

struct nigh_lights nigh_lights;

static struct nigh_run runs[NIGH_LIGHTS];      /* the last ones: enough for all that are young */
static uint64_t begun;                         /* runs, ever: the last has that place, modulo */
static struct nigh_run kept[NIGH_LIGHTS_KEPT]; /* by serial number, modulo; `first` 0: free */

/* Handles of an earlier time, before nigh_finalize, stay known as ended. */
void nigh_lights_open(void)
{
    uint64_t next = nigh_lights.next ? (nigh_lights.next + 63) / 64 * 64 : NIGH_LIGHTS;

    memset(runs, 0, sizeof(runs));
    memset(kept, 0, sizeof(kept));
    memset(nigh_lights.ended, 0xff, sizeof(nigh_lights.ended));
    nigh_lights.next = nigh_lights.limit = next;
    nigh_alike_forget(&nigh_lights.last);
    begun = 0;
    runs[0].first = next;
}

void nigh_lights_turn(const struct nigh_comm *comm, uint64_t with, uint64_t bytes, const char *site)
{
    nigh_alike_set(&nigh_lights.last, comm, with, bytes, site);
    runs[++begun % NIGH_LIGHTS] = (struct nigh_run){
        nigh_lights.next, nigh_light_who(NIGH_RANK_OF(with), site), nigh_lights.last.tag, bytes};
}

uint64_t nigh_lights_who(void)
{
    return runs[begun % NIGH_LIGHTS].who;
}

/* The run of one that is young, or was until now: at most NIGH_LIGHTS have begun since. */
static const struct nigh_run *run_of(uint64_t serial)
{
    uint64_t high = begun, low = high < NIGH_LIGHTS ? 0 : high - NIGH_LIGHTS + 1;

    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;

        if (runs[middle % NIGH_LIGHTS].first <= serial)
            low = middle;
        else
            high = middle - 1;
    }
    return &runs[low % NIGH_LIGHTS];
}

static bool has_ended(uint64_t serial)
{
    return *nigh_light_word(serial) >> serial % 64 & 1;
}

bool nigh_lights_more(void)
{
    uint64_t old = nigh_lights.limit - NIGH_LIGHTS;
    uint64_t *word = nigh_light_word(old);

    if (nigh_lights.next != nigh_lights.limit)
        return true;
    /* All places before any is taken: ended here, and `limit` where it was, one would be known to nobody. */
    for (uint64_t serial = old; *word != UINT64_MAX && serial < old + 64; serial++)
        if (!has_ended(serial) && kept[serial % NIGH_LIGHTS_KEPT].first)
            return false;
    for (uint64_t serial = old; *word != UINT64_MAX && serial < old + 64; serial++) {
        struct nigh_run *place = &kept[serial % NIGH_LIGHTS_KEPT];

        if (has_ended(serial))
            continue;
        *place = *run_of(serial);
        place->first = serial;
        *word |= UINT64_C(1) << serial % 64;
    }
    *word = 0;
    nigh_lights.limit += 64;
    return true;
}

bool nigh_light_end_old(uint64_t serial)
{
    struct nigh_run *place = &kept[serial % NIGH_LIGHTS_KEPT];

    if (serial == 0 || place->first != serial)
        return false;
    place->first = 0;
    return true;
}

bool nigh_light_know(uint64_t id, struct nigh_run *known)
{
    uint64_t serial = nigh_light_serial(id);
    const struct nigh_run *place = &kept[serial % NIGH_LIGHTS_KEPT];

    if (!(id & NIGH_LIGHT))
        return false;
    if (nigh_light_is_young(serial) && !has_ended(serial))
        place = run_of(serial);
    else if (serial == 0 || place->first != serial)
        return false;
    if (place->bytes != (id & NIGH_LIGHT_BYTES))
        return false;
    *known = *place;
    return true;
}

static uint64_t handle(uint64_t serial, uint64_t bytes)
{
    return NIGH_LIGHT | serial << NIGH_LIGHT_SHIFT | bytes;
}

void nigh_lights_each(void (*visit)(uint64_t id, void *data), void *data)
{
    for (uint32_t i = 0; i < NIGH_LIGHTS_KEPT; i++)
        if (kept[i].first)
            visit(handle(kept[i].first, kept[i].bytes), data);
    for (uint64_t serial = nigh_lights.limit - NIGH_LIGHTS; serial < nigh_lights.next; serial++)
        if (!has_ended(serial))
            visit(handle(serial, run_of(serial)->bytes), data);
}
