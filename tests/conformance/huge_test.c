/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages past 4 GiB, where a length or a place kept in 32 bits would show: all of the bytes arrive in their places,
 * and a receive that is too short is told the whole length. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <sys/mman.h>
#include <unistd.h>

#define LATE_RECV 1u

/* Up to END - TAIL the bytes lie in one window of memory again and again, so that 4 GiB take 32 MiB. The window's size
 * has no power of two but the page's: a place that lost its upper bits is another place of the window. The tail,
 * around the 4 GiB, is memory of its own. */
static const uint64_t MIB = 1 << 20, END = (UINT64_C(1) << 32) + 12345;
static const uint64_t WINDOW = 4096 * 4099, TAIL = 8 << 20;

struct huge {
    uint8_t *bytes, *window, *tail;
};

static void map_window(uint8_t *base, uint64_t bytes)
{
    int fd = memfd_create("huge", MFD_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_INT(ftruncate(fd, (off_t)WINDOW), 0);
    for (uint64_t at = 0; at < bytes; at += WINDOW) {
        uint64_t part = bytes - at < WINDOW ? bytes - at : WINDOW;

        CHECK(mmap(base + at, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == base + at);
    }
    CHECK_INT(close(fd), 0);
}

/* The process ends with its case, and the memory with it. */
static struct huge huge(void)
{
    uint64_t before = (END - TAIL) / 4096 * 4096, room = END + MIB;
    uint8_t *base =
        mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    CHECK(base != MAP_FAILED);
    map_window(base, before);
    return (struct huge){.bytes = base, .window = base, .tail = base + before};
}

static uint64_t tail_bytes(const struct huge *huge)
{
    return END - (uint64_t)(huge->tail - huge->bytes);
}

static void whole(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct huge to = {0}, from = {0};

    if (rx) {
        to = huge();
        if (!(pair->of->number & LATE_RECV))
            pair_recv(rx, to.bytes, END, 7, 1);
    }
    pair_meet();
    if (tx) {
        from = huge();
        data_fill(from.window, WINDOW, 70);
        data_fill(from.tail, tail_bytes(&from), 71);
        pair_send(tx, from.bytes, END, 7, 0, 2);
    }
    if (rx && pair->of->number & LATE_RECV) {
        pair_unexpected(rx, 1);
        pair_recv(rx, to.bytes, END, 7, 1);
    }
    if (tx)
        pair_sent(tx, 2, END);
    if (rx) {
        pair_received(rx, 1, END);
        data_check(to.window, WINDOW, 70, 0);
        data_check(to.tail, tail_bytes(&to), 71, 0);
        CHECK_INT(to.bytes[END], 0);
    }
}

static void cut(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    const uint64_t room = 100000;
    uint8_t *to = rx ? data_room(room) : NULL;

    if (rx)
        pair_recv(rx, to, room, 7, 1);
    pair_meet();
    if (tx) {
        struct huge from = huge();

        data_fill(from.window, WINDOW, 70);
        pair_send(tx, from.bytes, END, 7, 0, 2);
        pair_sent(tx, 2, END);
    }
    if (rx) {
        struct nigh_completion done = pair_await(rx, NIGH_OP_RECV, 1);

        CHECK_INT(done.status, -EMSGSIZE);
        CHECK_INT(done.bytes, END);
        data_check(to, room, 70, 0);
    }
}

#define CASE(title, what, n, p)                                                                   \
    {                                                                                             \
        .name = title, .play = what, .forms = PAIR_FORK, .number = (n), .options = {.path = (p)}, \
    }

static const struct pair_case cases[] = {
    CASE("in chunks", whole, 0, "chunked"),
    CASE("in chunks, receive later", whole, LATE_RECV, "chunked"),
    CASE("cma", whole, 0, "cma"),
    CASE("receive too short", cut, 0, NULL),
};

int main(int argc, char **argv)
{
    pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
