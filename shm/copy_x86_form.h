/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/copy_x86_form.h - the copy kernels around one line, for the instruction set that TARGET names; FORM(line) and
 * FORM(stream) move a line. copy_x86.c includes it once for each set: there is nothing here for anybody else. */

/* The loops below move one line a turn. Four lines a turn are no faster on data that is at hand, and 12 % slower
 * for a reader of 4 KiB pieces: the prefetcher follows each load instruction and runs further past their end. */

/* Writes the first line unaligned, if it is, and says how far the loop may start: the overlap is cheaper than
 * a remainder of every size. */
TARGET static inline size_t FORM(head)(uint8_t *dst, const uint8_t *src)
{
    size_t skip = to_next_line(dst);

    if (skip)
        FORM(line)(dst, src);
    return skip;
}

TARGET static void FORM(plain)(void *to, const void *from, size_t bytes)
{
    uint8_t *dst = to;
    const uint8_t *src = from;

    if (bytes < LINE) {
        nigh_copy_small(dst, src, bytes);
        return;
    }

    size_t at = FORM(head)(dst, src);

    for (; at + LINE <= bytes; at += LINE)
        FORM(line)(dst + at, src + at);
    if (at < bytes)
        FORM(line)(dst + bytes - LINE, src + bytes - LINE);
}

TARGET static void FORM(prefetchw)(void *to, const void *from, size_t bytes)
{
    uint8_t *dst = to;
    const uint8_t *src = from;
    size_t at = 0;

    for (size_t line = 0; line < AHEAD && line < bytes; line += LINE)
        own_ahead(dst + line);
    if (bytes > AHEAD + LINE) {
        for (at = FORM(head)(dst, src); at + AHEAD + LINE <= bytes; at += LINE) {
            own_ahead(dst + at + AHEAD);
            FORM(line)(dst + at, src + at);
        }
    }
    FORM(plain)(dst + at, src + at, bytes - at);
}

/*
 * What a CPU fetches ahead of the loads follows each 4 KiB page for itself and ends with it, so of four pages at once
 * four times as many lines are under way: what lies in the L3 or in memory is read faster, streams gain 7 to 29 %. Two
 * at once gain less, eight lose (docs/rationale/copies.md).
 */
TARGET static void FORM(quarters)(void *to, const void *from, size_t bytes)
{
    uint8_t *dst = to;
    const uint8_t *src = from;
    size_t at, quarter;

    if (bytes < QUARTERS_FROM) {
        FORM(plain)(dst, src, bytes);
        return;
    }
    at = FORM(head)(dst, src);
    quarter = (bytes - at) / (4 * LINE) * LINE;
    for (size_t end = at + quarter; at < end; at += LINE) {
        FORM(line)(dst + at, src + at);
        FORM(line)(dst + at + quarter, src + at + quarter);
        FORM(line)(dst + at + 2 * quarter, src + at + 2 * quarter);
        FORM(line)(dst + at + 3 * quarter, src + at + 3 * quarter);
    }
    at += 3 * quarter;
    FORM(plain)(dst + at, src + at, bytes - at);
}

/* A line is written either past the cache or through it, never both: a mixed line is flushed twice. */
TARGET static void FORM(nt)(void *to, const void *from, size_t bytes)
{
    uint8_t *dst = to;
    const uint8_t *src = from;
    size_t at = to_next_line(dst);

    if (bytes < at + LINE) {
        FORM(plain)(dst, src, bytes);
        return;
    }
    nigh_copy_small(dst, src, at);
    for (; at + LINE <= bytes; at += LINE)
        FORM(stream)(dst + at, src + at);
    nigh_copy_small(dst + at, src + at, bytes - at);
    _mm_sfence();
}

/* Copies a block, then gives its lines back. The lines at both ends may hold a neighbour's bytes: a flush
 * never changes what memory holds, so that costs time and nothing else. */
static void FORM(flush)(void *to, const void *from, size_t bytes)
{
    uint8_t *dst = to;
    const uint8_t *src = from;

    for (size_t at = 0; at < bytes; at += FLUSH_BLOCK) {
        size_t part = bytes - at < FLUSH_BLOCK ? bytes - at : FLUSH_BLOCK;
        uintptr_t line = (uintptr_t)(src + at) & ~(uintptr_t)(LINE - 1);

        FORM(plain)(dst + at, src + at, part);
        for (; line < (uintptr_t)(src + at + part); line += LINE)
            give_back((const void *)line);
    }
}

#undef TARGET
#undef FORM
