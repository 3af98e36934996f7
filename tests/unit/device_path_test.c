/* SPDX-License-Identifier: BSD-3-Clause */
/* How device memory gets from one process to another: each fact that is in the way, alone and in its order before others; and what
 * a peer tells of its devices, which is checked before it is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/device_way.h"
#include "shm/shared.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALL (1u << NIGH_DEVICE_VMM | 1u << NIGH_DEVICE_POOL | 1u << NIGH_DEVICE_LEGACY)

enum { HERE = 77, ELSEWHERE = 78 };

/* All is well: one device, two processes. */
static struct nigh_device_facts well(enum nigh_device_memory memory)
{
    struct nigh_device_facts facts = {.memory = memory,
                                      .owner = {.uuid = {1, 2}, .ways = ALL, .pid_space = HERE},
                                      .callable = ALL,
                                      .peer_uses = true,
                                      .access = NIGH_ACCESS_YES};

    facts.peer = facts.owner;
    return facts;
}

static void decides(const char *what, const struct nigh_device_facts *facts, enum nigh_device_way way,
                    enum nigh_device_reason reason)
{
    struct nigh_device_path path = nigh_device_path(facts);

    if (path.way != way || path.reason != reason)
        fail_msg("%s, memory %d: %s (%s) instead of %s (%s)", what, (int)facts->memory,
                 nigh_device_way_name(path.way), nigh_device_reason_text(path.reason),
                 nigh_device_way_name(way), nigh_device_reason_text(reason));
}

static void each_kind_has_its_handle(void **state)
{
    static const struct {
        enum nigh_device_memory memory;
        enum nigh_device_way way;
        enum nigh_device_reason reason;
        const char *name;
    } cases[] = {
        {NIGH_DEVICE_PLAIN, NIGH_DEVICE_LEGACY, NIGH_DEVICE_WHY_NONE, "cuda-legacy"},
        {NIGH_DEVICE_MAPPED, NIGH_DEVICE_VMM, NIGH_DEVICE_WHY_NONE, "cuda-vmm"},
        {NIGH_DEVICE_POOLED, NIGH_DEVICE_POOL, NIGH_DEVICE_WHY_NONE, "cuda-pool"},
        {NIGH_DEVICE_MANAGED, NIGH_DEVICE_STAGED, NIGH_DEVICE_WHY_MANAGED, "staged"},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nigh_device_facts facts = well(cases[i].memory);

        decides("all is well", &facts, cases[i].way, cases[i].reason);
        assert_string_equal(nigh_device_way_name(cases[i].way), cases[i].name);
        facts.peer.uuid[0] = 9; /* another device, which may map it, or nobody here knows */
        decides("another device", &facts, cases[i].way, cases[i].reason);
        facts.access = NIGH_ACCESS_UNKNOWN;
        decides("a device that is not seen here", &facts, cases[i].way, cases[i].reason);
        facts.same_process = true;
        facts.owner.wsl = facts.owner.mig = true;
        facts.owner.ways = facts.callable = 0;
        decides("the same process", &facts, NIGH_DEVICE_POINTER, NIGH_DEVICE_WHY_NONE);
    }
    assert_string_equal(nigh_device_way_name(NIGH_DEVICE_POINTER), "pointer");
}

/* Each obstacle, in the order of the rule: those behind it are there, too, and are not the reason. */
static void obstacles_come_in_order(void **state)
{
    static const enum nigh_device_reason order[] = {NIGH_DEVICE_WHY_WSL,
                                                    NIGH_DEVICE_WHY_OLD_DRIVER,
                                                    NIGH_DEVICE_WHY_EXPORT_REFUSED,
                                                    NIGH_DEVICE_WHY_PEER_SILENT,
                                                    NIGH_DEVICE_WHY_IMPORT_REFUSED,
                                                    NIGH_DEVICE_WHY_MIG,
                                                    NIGH_DEVICE_WHY_NO_PEER_ACCESS,
                                                    NIGH_DEVICE_WHY_MPS,
                                                    NIGH_DEVICE_WHY_PID_NAMESPACE};
    enum { COUNT = sizeof(order) / sizeof(order[0]) };

    (void)state;
    for (unsigned first = 0; first < COUNT; first++) {
        struct nigh_device_facts facts = well(NIGH_DEVICE_PLAIN);

        for (unsigned i = first; i < COUNT; i++) {
            facts.owner.wsl |= order[i] == NIGH_DEVICE_WHY_WSL;
            facts.callable &= order[i] == NIGH_DEVICE_WHY_OLD_DRIVER ? ~(1u << NIGH_DEVICE_LEGACY) : ALL;
            facts.owner.ways &=
                order[i] == NIGH_DEVICE_WHY_EXPORT_REFUSED ? ~(1u << NIGH_DEVICE_LEGACY) : ALL;
            facts.peer_uses &= order[i] != NIGH_DEVICE_WHY_PEER_SILENT;
            facts.peer.ways &= order[i] == NIGH_DEVICE_WHY_IMPORT_REFUSED ? ~(1u << NIGH_DEVICE_LEGACY) : ALL;
            if (order[i] == NIGH_DEVICE_WHY_MIG || order[i] == NIGH_DEVICE_WHY_NO_PEER_ACCESS)
                facts.peer.uuid[15] = 1;
            facts.peer.mig |= order[i] == NIGH_DEVICE_WHY_MIG;
            if (order[i] == NIGH_DEVICE_WHY_NO_PEER_ACCESS)
                facts.access = NIGH_ACCESS_NO;
            facts.peer.mps |= order[i] == NIGH_DEVICE_WHY_MPS;
            if (order[i] == NIGH_DEVICE_WHY_PID_NAMESPACE)
                facts.peer.pid_space = ELSEWHERE;
        }
        decides("from here on", &facts, NIGH_DEVICE_STAGED, order[first]);
    }
}

/* What looks like an obstacle, and is none. */
static void what_is_no_obstacle(void **state)
{
    struct nigh_device_facts facts = well(NIGH_DEVICE_PLAIN);

    (void)state;
    facts.access = NIGH_ACCESS_NO; /* a device is no peer of itself */
    decides("itself", &facts, NIGH_DEVICE_LEGACY, NIGH_DEVICE_WHY_NONE);
    facts.owner.mig = facts.peer.mig = true;
    decides("one instance", &facts, NIGH_DEVICE_LEGACY, NIGH_DEVICE_WHY_NONE);
    facts.owner.mps = facts.peer.mps = true;
    decides("both by MPS", &facts, NIGH_DEVICE_LEGACY, NIGH_DEVICE_WHY_NONE);
    facts.peer.pid_space = 0;
    decides("a PID namespace that nobody knows", &facts, NIGH_DEVICE_LEGACY, NIGH_DEVICE_WHY_NONE);
    facts = well(NIGH_DEVICE_MAPPED);
    facts.peer.pid_space = ELSEWHERE;
    decides("descriptors to another PID namespace", &facts, NIGH_DEVICE_VMM, NIGH_DEVICE_WHY_NONE);
    facts.callable = facts.owner.ways = facts.peer.ways = 1u << NIGH_DEVICE_VMM;
    decides("no other kind", &facts, NIGH_DEVICE_VMM, NIGH_DEVICE_WHY_NONE);
    facts.peer.ways = ALL & ~(1u << NIGH_DEVICE_VMM);
    decides("every other kind", &facts, NIGH_DEVICE_STAGED, NIGH_DEVICE_WHY_IMPORT_REFUSED);
    facts = well(NIGH_DEVICE_POOLED);
    facts.peer.wsl = true;
    decides("the peer in WSL", &facts, NIGH_DEVICE_STAGED, NIGH_DEVICE_WHY_WSL);
    for (int i = 0; i <= NIGH_DEVICE_WHY_NOT_JOINED; i++) {
        const char *text = nigh_device_reason_text((enum nigh_device_reason)i);

        assert_in_range(strlen(text), 10, NIGH_REASON_BYTES - 1);
        assert_string_not_equal(text, "unknown");
    }
    assert_string_equal(nigh_device_reason_text((enum nigh_device_reason)(NIGH_DEVICE_WHY_NOT_JOINED + 1)),
                        "unknown");
}

/* ---- what a peer tells --------------------------------------------------------------------------------- */

static struct nigh_endpoint *endpoint;
static struct nigh_arena_devices *table;
static uint8_t *arena;

static int set_up(void **state)
{
    (void)state;
    arena = aligned_alloc(NIGH_PAGE, (size_t)2 * NIGH_PAGE);
    endpoint = aligned_alloc(64, (sizeof(*endpoint) + 63) / 64 * 64);
    if (!arena || !endpoint)
        return -1;
    memset(arena, 0, (size_t)2 * NIGH_PAGE);
    memset(endpoint, 0, sizeof(*endpoint));
    endpoint->attached = true;
    endpoint->state = NIGH_READY;
    endpoint->view.base = arena;
    endpoint->view.bytes = (uint64_t)2 * NIGH_PAGE;
    table = (void *)(arena + NIGH_PAGE + NIGH_DEVICES_OFFSET);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(arena);
    free(endpoint);
    return 0;
}

static void a_peer_tells(void **state)
{
    struct nigh_arena_devices told;

    (void)state;
    memset(table->at, 0xff, sizeof(table->at)); /* not before the count is there */
    table->pid_space = 5;
    memset(&told, 0xa5, sizeof(told));
    assert_int_equal(nigh_device_told(endpoint, &told), 0);
    assert_int_equal(told.count, 0);
    assert_int_equal(told.pid_space, 0);
    for (uint32_t i = 0; i < NIGH_DEVICES_MAX; i++)
        table->at[i] = (struct nigh_arena_device){.uuid = {(uint8_t)i}, .number = i, .ways = ALL};
    for (uint32_t count = 1; count <= NIGH_DEVICES_MAX; count++) {
        nigh_store_release(&table->count, count, DEVICES_TELL);
        assert_int_equal(nigh_device_told(endpoint, &told), 0);
        assert_int_equal(told.count, count);
        assert_int_equal(told.pid_space, 5);
        assert_memory_equal(told.at, table->at, count * sizeof(table->at[0]));
        if (count < NIGH_DEVICES_MAX)
            assert_int_equal(told.at[count].ways, 0);
    }
}

static void a_peer_lies(void **state)
{
    struct nigh_arena_devices told;

    (void)state;
    table->count = NIGH_DEVICES_MAX + 1;
    assert_int_equal(nigh_device_told(endpoint, &told), -EPROTO);
    table->count = UINT32_MAX;
    assert_int_equal(nigh_device_told(endpoint, &told), -EPROTO);
    table->count = 2;
    assert_int_equal(nigh_device_told(endpoint, &told), 0);
    table->at[1].number = NIGH_DEVICE_NONE;
    assert_int_equal(nigh_device_told(endpoint, &told), -EPROTO);
    table->at[1].number = 0;
    table->at[1].ways = 1u << NIGH_DEVICE_POINTER;
    assert_int_equal(nigh_device_told(endpoint, &told), -EPROTO);
    table->at[1].ways = 1u << 31;
    assert_int_equal(nigh_device_told(endpoint, &told), -EPROTO);
    table->count = 1; /* what is beyond is nobody's */
    assert_int_equal(nigh_device_told(endpoint, &told), 0);
}

static void a_peer_that_is_not_there(void **state)
{
    struct nigh_arena_devices told;

    (void)state;
    endpoint->attached = false;
    endpoint->state = NIGH_CONNECTING;
    assert_int_equal(nigh_device_told(endpoint, &told), -EAGAIN);
    endpoint->state = NIGH_PEER_DEAD;
    assert_int_equal(nigh_device_told(endpoint, &told), -ECONNRESET);
    endpoint->state = NIGH_BROKEN;
    assert_int_equal(nigh_device_told(endpoint, &told), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_its_handle),
        cmocka_unit_test(obstacles_come_in_order),
        cmocka_unit_test(what_is_no_obstacle),
        cmocka_unit_test_setup_teardown(a_peer_tells, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_lies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_that_is_not_there, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
