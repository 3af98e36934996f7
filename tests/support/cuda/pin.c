/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/pin.c - memory of the host's that the fake driver was told to pin. */
#include "tests/support/cuda/fake.h"

#include <stdlib.h>

enum { PORTABLE = 1, PAGE = 4096 };

static struct pin {
    struct pin *next;
    uintptr_t at;
    size_t bytes;
    unsigned flags;
    const struct context *context;
} * pins;

/* Of another context only if it is portable. */
bool fake_is_pinned(const void *at, size_t bytes)
{
    uintptr_t first = (uintptr_t)at;
    const struct range *range = fake_range_at(first);

    for (struct pin *pin = pins; pin; pin = pin->next)
        if (first >= pin->at && first + bytes <= pin->at + pin->bytes &&
            (pin->flags & PORTABLE || pin->context == fake_current()))
            return true;
    return range && range->kind == RANGE_HOST && first + bytes <= range->at + range->bytes;
}

size_t fake_pinned(void)
{
    size_t bytes = 0;

    for (struct pin *pin = pins; pin; pin = pin->next)
        bytes += pin->bytes;
    return bytes;
}

static void drop(struct pin **link)
{
    struct pin *gone = *link;

    *link = gone->next;
    free(gone);
}

void fake_pins_of_context_gone(const struct context *context)
{
    for (struct pin **link = &pins; *link;)
        if ((*link)->context == context)
            drop(link);
        else
            link = &(*link)->next;
}

static bool shares_a_page(uintptr_t at, size_t bytes)
{
    for (struct pin *pin = pins; pin; pin = pin->next)
        if (at / PAGE <= (pin->at + pin->bytes - 1) / PAGE && pin->at / PAGE <= (at + bytes - 1) / PAGE)
            return true;
    return false;
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    struct pin *pin;

    FAKE_CALL;
    if (fake_spoils())
        return CU_CAPTURE_UNSUPPORTED;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    if (!memory || !bytes || flags > 0xf || fake_range_at((uintptr_t)memory))
        return CU_INVALID_VALUE;
    if (shares_a_page((uintptr_t)memory, bytes))
        return CU_ALREADY_REGISTERED;
    pin = malloc(sizeof(*pin));
    if (!pin)
        abort();
    *pin = (struct pin){pins, (uintptr_t)memory, bytes, flags, fake_current()};
    pins = pin;
    return CU_SUCCESS;
}

int cuMemHostUnregister(void *memory)
{
    struct pin **link = &pins;

    FAKE_LETS_GO;
    fake_waits_for_host(__func__);
    if (fake_spoils())
        return CU_CAPTURE_UNSUPPORTED;
    while (*link && (*link)->at != (uintptr_t)memory)
        link = &(*link)->next;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    if (!*link)
        return CU_NOT_REGISTERED;
    drop(link);
    return injected;
}
