/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of every size, by every path and with every flag, before and after their receive: the bytes, the tag and the
 * immediate that were sent are those that arrive, and nothing else is written. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* number of a case */
#define LATE_RECV 1u /* the message waits for its receive */
#define HEAP_FROM 2u /* sent from heap memory */
#define HEAP_TO   4u /* received into heap memory */
#define FLAGS(n)  ((uint32_t)(n) >> 8)
#define WITH(f)   ((uint64_t)(f) << 8)

static const uint64_t sizes[] = {0,    1,     8,     40,    41,    64,    1024,  1025,    2088,    4096,
                                 4097, 20001, 40000, 65535, 65536, 65537, 65600, MIB + 3, 9 * MIB, 7};

static uint8_t *room_at(struct pair_end *end, uint64_t bytes, bool heap)
{
    void *memory;

    if (!heap)
        return data_room(bytes);
    CHECK_INT(pair_load()->heap_alloc(end->context, bytes ? bytes : 1, &memory), 0);
    return memory;
}

/* Nothing tells the sender of a silent message when its memory has been read: until then it is refused as busy. */
static void give_room(struct pair_end *end, uint8_t *room, bool heap, bool silent)
{
    int rc;

    if (!heap)
        return;
    rc = pair_load()->heap_free(end->context, room);
    for (unsigned i = 0; silent && rc == -EBUSY && i < 100000; i++) {
        pair_pump_ms(1);
        rc = pair_load()->heap_free(end->context, room);
    }
    CHECK_INT(rc, 0);
}

static void send_one(struct pair_end *tx, uint64_t bytes, uint64_t tag, uint64_t number, uint8_t *from)
{
    uint32_t flags = FLAGS(number);

    data_fill(from, bytes, tag);
    pair_send(tx, bytes ? from : NULL, bytes, tag, flags, tag);
    if (flags & NIGH_INJECT)
        memset(from, 0, bytes);
}

static void check_one(struct pair_end *rx, uint64_t bytes, uint64_t tag, const uint8_t *to)
{
    struct nigh_completion done = pair_received(rx, tag, bytes);

    CHECK_INT(done.tag, tag);
    CHECK_INT(done.imm, ~tag);
    CHECK_INT(done.source, 0);
    CHECK(done.endpoint == rx->peer);
    CHECK(done.data == NULL);
    CHECK_INT(done.flags, 0);
    data_check(to, bytes, tag, 0);
}

static void exchange(struct pair *pair, uint64_t bytes, uint64_t tag)
{
    uint64_t number = pair->of->number;
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *from = tx ? room_at(tx, bytes, number & HEAP_FROM) : NULL;
    uint8_t *to = rx ? room_at(rx, bytes, number & HEAP_TO) : NULL;

    if (rx && !(number & LATE_RECV))
        pair_recv(rx, to, bytes, tag, tag);
    pair_meet();
    if (tx)
        send_one(tx, bytes, tag, number, from);
    if (rx && number & LATE_RECV) {
        pair_unexpected(rx, 1);
        pair_recv(rx, to, bytes, tag, tag);
    }
    if (tx && !(FLAGS(number) & NIGH_SILENT))
        pair_sent(tx, tag, bytes);
    if (rx)
        check_one(rx, bytes, tag, to);
    pair_meet();
    if (tx)
        give_room(tx, from, number & HEAP_FROM, FLAGS(number) & NIGH_SILENT);
    if (rx)
        give_room(rx, to, number & HEAP_TO, false);
}

static void all_sizes(struct pair *pair)
{
    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (!(FLAGS(pair->of->number) & NIGH_INJECT) || sizes[i] <= NIGH_INJECT_BYTES)
            exchange(pair, sizes[i], 1000 + i);
}

/* ---- a message that no 32-bit count holds ----------------------------------------------------------------------- */

#define HUGE      (4 * GIB + 12345)
#define MARK_EACH (64 * MIB)

static uint64_t memory_available(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;
    char line[128];

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return (uint64_t)kib * 1024;
}

static uint8_t *mapped(void)
{
    uint8_t *at =
        mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    CHECK(at != MAP_FAILED);
    madvise(at, HUGE, MADV_HUGEPAGE);
    return at;
}

static uint64_t mark_at(uint64_t place)
{
    return place * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

/* Zero but for a mark here and there: what the sender never touches costs no memory. */
static void check_huge(const uint8_t *to)
{
    uint64_t word;

    for (uint64_t at = 0; at + 8 <= HUGE; at += 8) {
        memcpy(&word, to + at, 8);
        if (word != (at % MARK_EACH == 8 ? mark_at(at) : 0))
            pair_fail(__FILE__, __LINE__, "the word at %llu is %llx", (unsigned long long)at,
                      (unsigned long long)word);
    }
    CHECK_INT(to[HUGE - 1], 77);
}

static void beyond_4_gib(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *memory;

    if (memory_available() < 10 * GIB)
        pair_skip("a message beyond 4 GiB takes 10 GiB of available memory");
    memory = mapped();
    if (rx)
        pair_recv(rx, memory, HUGE, 5, 5);
    if (tx) {
        for (uint64_t at = 8; at < HUGE; at += MARK_EACH)
            memcpy(memory + at, &(uint64_t){mark_at(at)}, 8);
        memory[HUGE - 1] = 77;
        pair_send(tx, memory, HUGE, 5, 0, 5);
        pair_sent(tx, 5, HUGE);
    }
    if (rx) {
        pair_received(rx, 5, HUGE);
        check_huge(memory);
    }
    munmap(memory, HUGE);
}

#define CASE(title, n)                                   \
    {                                                    \
        .name = title, .play = all_sizes, .number = (n), \
    }
#define FORCED(title, n, p)                                                        \
    {                                                                              \
        .name = title, .play = all_sizes, .number = (n), .options = {.path = (p)}, \
    }

static const struct pair_case cases[] = {
    CASE("plain", 0),
    CASE("plain, receive later", LATE_RECV),
    CASE("synchronous", WITH(NIGH_SYNC)),
    CASE("synchronous, receive later", WITH(NIGH_SYNC) | LATE_RECV),
    CASE("inject", WITH(NIGH_INJECT)),
    CASE("inject, receive later", WITH(NIGH_INJECT) | LATE_RECV),
    CASE("inject and synchronous, receive later", WITH(NIGH_INJECT | NIGH_SYNC) | LATE_RECV),
    CASE("silent", WITH(NIGH_SILENT)),
    CASE("silent, receive later", WITH(NIGH_SILENT) | LATE_RECV),
    CASE("silent and synchronous", WITH(NIGH_SILENT | NIGH_SYNC)),
    CASE("out of the heap", HEAP_FROM),
    CASE("out of the heap, receive later", HEAP_FROM | LATE_RECV),
    CASE("into the heap", HEAP_TO),
    CASE("heap to heap, synchronous", HEAP_FROM | HEAP_TO | WITH(NIGH_SYNC)),
    CASE("heap to heap, silent, receive later", HEAP_FROM | HEAP_TO | LATE_RECV | WITH(NIGH_SILENT)),
    FORCED("path eager", 0, "eager"),
    FORCED("path chunked", HEAP_FROM | LATE_RECV, "chunked"),
    FORCED("path heap", HEAP_FROM, "heap"),
    FORCED("path heap, receive later", HEAP_FROM | LATE_RECV | WITH(NIGH_SYNC), "heap"),
    FORCED("path cma", 0, "cma"),
    FORCED("path cma, receive later", LATE_RECV | WITH(NIGH_SYNC), "cma"),
    {.name = "beyond 4 GiB", .play = beyond_4_gib, .forms = PAIR_FORK},
};

int main(int argc, char **argv)
{
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
