/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/range.c - the addresses of the fake driver's memory: none that the CPU may touch, but of the host's. */
#include "tests/support/cuda/fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* In the order of their addresses. */
static struct range **ranges;
static size_t count, room;
static struct reservation *reservations;

/* The first that ends behind `at`. */
static size_t place_of(cu_address at)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (ranges[middle]->at + ranges[middle]->bytes > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct range *fake_range_from(cu_address at)
{
    size_t place = place_of(at);

    return place < count ? ranges[place] : NULL;
}

struct range *fake_range_at(cu_address at)
{
    struct range *range = fake_range_from(at);

    return range && range->at <= at ? range : NULL;
}

struct range *fake_range_add(const struct range *range)
{
    static number ids;
    size_t place = place_of(range->at);
    struct range *made = malloc(sizeof(*made));

    if (count == room) {
        room = room ? 2 * room : 64;
        ranges = realloc(ranges, room * sizeof(*ranges));
    }
    if (!made || !ranges)
        abort();
    *made = *range;
    made->id = ++ids;
    memmove(ranges + place + 1, ranges + place, (count - place) * sizeof(*ranges));
    ranges[place] = made;
    count++;
    return made;
}

/* Addresses of a reservation or a pool stay with it. */
static bool owns_addresses(const struct range *range)
{
    return range->kind != RANGE_MAPPED && range->kind != RANGE_POOL;
}

void fake_range_remove(struct range *range)
{
    size_t place = place_of(range->at);

    memmove(ranges + place, ranges + place + 1, (--count - place) * sizeof(*ranges));
    if (owns_addresses(range))
        fake_address_give(range->at, range->bytes);
    else if (range->readable || range->writable)
        mmap((void *)(uintptr_t)range->at, range->bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    fake_object_drop(range->object);
    if (range->pool)
        fake_pool_freed(range->pool);
    free(range);
}

void fake_ranges_of_context_gone(const struct context *context)
{
    for (size_t i = count; i-- > 0;)
        if (ranges[i]->context == context)
            fake_range_remove(ranges[i]);
}

/* ---- addresses ------------------------------------------------------------------------------------------------ */

static size_t whole(size_t bytes)
{
    return (bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
}

static char *taken(void *at, size_t bytes)
{
    char *got = mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return got == MAP_FAILED ? NULL : got;
}

/* What was given back last: the driver too gives the same addresses again, and mistakes show then. */
static struct {
    cu_address at;
    size_t bytes;
} given;

/* The wish is no more than that, as the driver's. */
cu_address fake_address_take(size_t bytes, cu_address wish)
{
    size_t length = whole(bytes), skip;
    char *got;

    if (!wish && given.bytes == length)
        wish = given.at;
    got = wish && wish % GRANULARITY == 0 ? taken((void *)(uintptr_t)wish, length) : NULL;
    if (got && (uintptr_t)got == wish)
        return wish;
    if (got)
        munmap(got, length);
    got = taken(NULL, length + GRANULARITY);
    if (!got)
        return 0;
    skip = (GRANULARITY - (uintptr_t)got % GRANULARITY) % GRANULARITY;
    if (skip)
        munmap(got, skip);
    munmap(got + skip + length, GRANULARITY - skip);
    return (uintptr_t)got + skip;
}

void fake_address_give(cu_address at, size_t bytes)
{
    munmap((void *)(uintptr_t)at, whole(bytes));
    given.at = at;
    given.bytes = whole(bytes);
}

struct reservation *fake_reserve(size_t bytes, size_t alignment, cu_address wish)
{
    struct reservation *made;
    cu_address at;

    if (alignment > GRANULARITY)
        return NULL;
    at = fake_address_take(bytes, wish);
    made = at ? calloc(1, sizeof(*made)) : NULL;
    if (!made)
        return NULL;
    *made = (struct reservation){.next = reservations, .at = at, .bytes = bytes};
    reservations = made;
    return made;
}

struct reservation *fake_reservation_of(cu_address at, size_t bytes)
{
    for (struct reservation *one = reservations; one; one = one->next)
        if (at >= one->at && bytes <= one->bytes && at - one->at <= one->bytes - bytes)
            return one;
    return NULL;
}

/* Of exactly what was reserved, with nothing mapped there. */
int fake_unreserve(cu_address at, size_t bytes)
{
    struct reservation **link = &reservations, *gone;
    const struct range *first = fake_range_from(at);

    while (*link && ((*link)->at != at || (*link)->bytes != bytes))
        link = &(*link)->next;
    if (!*link || (first && first->at < at + bytes))
        return CU_INVALID_VALUE;
    gone = *link;
    *link = gone->next;
    fake_address_give(gone->at, gone->bytes);
    free(gone);
    return CU_SUCCESS;
}

size_t fake_reserved(void)
{
    size_t bytes = 0;

    for (struct reservation *one = reservations; one; one = one->next)
        bytes += one->of_test ? 0 : one->bytes;
    return bytes;
}

const char *fake_range_leaks(void)
{
    for (size_t i = 0; i < count; i++)
        if (ranges[i]->kind == RANGE_OPENED)
            return "memory of another process was not closed";
    return fake_reserved() ? "reserved addresses were not freed" : NULL;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

char *fake_bytes_at(cu_address at, size_t *span)
{
    const struct range *range = fake_range_at(at);

    if (!range)
        return NULL;
    *span = (size_t)(range->at + range->bytes - at);
    return range->object->view + range->offset + (at - range->at);
}

/* Without a hole. */
bool fake_is_device(cu_address at, size_t bytes)
{
    size_t span;

    while (fake_bytes_at(at, &span)) {
        if (span >= bytes)
            return true;
        at += span;
        bytes -= span;
    }
    return false;
}
