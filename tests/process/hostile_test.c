/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that attaches as it should and then writes whatever comes to its mind into everything that it may write:
 * slots, credits, ring words, flags, hints. Thousands of cases from one seed. The victim never crashes and never hangs,
 * everything that it posted completes, nothing outside of its buffers is written, and its other peer is served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/foe.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CASES = 6000, CASES_A_PROCESS = 100, POSTS = 12, GUARD = 4096, ROOM = 256 << 10 };

/* How the two processes walk together: private to the test. */
struct script {
    uint32_t open; /* the case for which the liar can be reached */
    uint32_t turn; /* the case that it is to play */
    uint32_t done; /* the case that it has played */
    uint32_t over; /* the case that the victim has done with */
};

static struct script *script;
static struct hosted victim, good;
static struct nigh_endpoint *to_good, *back;
static uint8_t *memory; /* guard, room, guard */
static uint8_t *heap;
static uint64_t key, job;

/* ---- chance --------------------------------------------------------------------------------------------- */

static uint64_t seed;

static uint64_t chance(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t below(uint64_t limit)
{
    return chance() % limit;
}

/* Values at which checks go wrong. */
static uint64_t value(struct foe *foe)
{
    const uint64_t values[] = {0,
                               1,
                               2,
                               40,
                               64,
                               4096,
                               65535,
                               65536,
                               ROOM,
                               1 << 20,
                               (1 << 20) - 1,
                               UINT32_MAX,
                               UINT64_C(1) << 32,
                               INT64_MAX,
                               UINT64_C(1) << 63,
                               UINT64_MAX,
                               UINT64_MAX - 63,
                               UINT64_MAX - 7,
                               foe_pool_line(foe),
                               foe_pool_line(foe) + (1 << 14) - 1,
                               foe_heap(foe),
                               foe_heap(foe) + (1 << 20) - 8,
                               foe->arena.bytes,
                               key,
                               foe->ring_word,
                               foe->tx.next,
                               chance()};

    return values[below(sizeof(values) / sizeof(values[0]))];
}

/* ---- the liar ------------------------------------------------------------------------------------------- */

static void fill_payload(struct foe *foe, uint8_t *payload)
{
    struct nigh_wire_first first = {.total = value(foe),
                                    .imm = chance(),
                                    .eager = (uint32_t)value(foe),
                                    .id = (uint32_t)(below(4) ? below(8) : value(foe)),
                                    .line = foe_pool_line(foe),
                                    .bytes = (uint32_t)value(foe)};
    struct nigh_wire_refer refer = {.total = value(foe),
                                    .where = value(foe),
                                    .id = (uint32_t)(below(4) ? below(8) : value(foe)),
                                    .refer = (uint32_t)below(6)};
    struct nigh_wire_piece piece = {.line = foe_pool_line(foe), .bytes = (uint32_t)value(foe)};
    struct nigh_wire_atomic atomic = {.op = (uint16_t)below(24),
                                      .type = (uint16_t)below(24),
                                      .count = (uint32_t)(below(4) ? below(4) : value(foe)),
                                      .id = (uint32_t)below(8)};

    if (!below(4))
        first.line = piece.line = (uint32_t)value(foe);
    switch (below(5)) {
    case 0:
        memcpy(payload, &first, sizeof(first));
        break;
    case 1:
        memcpy(payload, &refer, sizeof(refer));
        break;
    case 2:
        memcpy(payload, &piece, sizeof(piece));
        break;
    case 3:
        memcpy(payload, &atomic, sizeof(atomic));
        break;
    default:
        for (unsigned i = 0; i < 40; i++)
            payload[i] = (uint8_t)chance();
    }
}

static void say(struct foe *foe)
{
    uint32_t kind = (uint32_t)(below(16) ? 1 + below(NIGH_K_END - 1) : below(256));
    uint32_t bytes = (uint32_t)(below(3) ? below(48) : below(4) ? below(2200) : below(65536));
    uint32_t flags = (uint32_t)below(below(2) ? 256 : 65536);
    uint64_t head = nigh_head_make(kind, bytes, (uint32_t)(below(8) ? 0 : below(256)), flags);
    uint64_t tag = below(3) ? below(8) : value(foe), imm = below(2) ? below(4) : value(foe);
    uint8_t payload[40];

    if (!nigh_ring_room(&foe->tx, 40))
        return;
    fill_payload(foe, payload);
    if (kind == NIGH_K_MOVE && below(8))
        tag = foe->ring_word;
    foe_publish(foe, head, tag, imm, payload, nigh_slots_for(bytes > NIGH_BODY_MAX ? 0 : bytes));
}

static uint64_t *count_of(const struct foe *foe)
{
    return (uint64_t *)(void *)(nigh_window_shuttle(&foe->window) + NIGH_SHUTTLE_COUNT);
}

/* A count that may be right, and goes on or not. */
static void say_counted(struct foe *foe, uint32_t id)
{
    struct nigh_wire_first first = {.total = 256, .eager = 256, .id = id, .bytes = 64};

    nigh_store_release(count_of(foe), below(5) * 64, COUNT_SET);
    foe_send(foe, nigh_head_make(NIGH_K_FIRST, 0, 0, NIGH_F_SHUTTLE | NIGH_F_COUNTED), below(5), 0, &first,
             sizeof(first));
    if (below(4))
        nigh_store_release(count_of(foe), below(4) ? 256 : below(300), COUNT_SET);
}

/* What a sound peer might say, so that the lies come where something is under way. */
static void say_soundly(struct foe *foe)
{
    static const uint32_t kinds[] = {NIGH_REFER_HEAP, NIGH_REFER_LEND, NIGH_REFER_COPY};
    static uint32_t id;
    struct nigh_wire_first first = {.total = 64 + below(3) * 64,
                                    .eager = 64,
                                    .id = id % 64,
                                    .line = foe_pool_line(foe),
                                    .bytes = below(2) ? 64 : 0};
    struct nigh_wire_piece piece = {.line = foe_pool_line(foe), .bytes = 64};
    struct nigh_wire_refer refer = {
        .total = below(70000), .where = foe_heap(foe), .id = id % 64, .refer = kinds[id % 3]};
    struct nigh_wire_get get = {.total = below(4096), .id = id % 64};
    struct nigh_wire_atomic atomic = {.op = NIGH_READ, .type = NIGH_U64, .count = 1, .id = id % 64};
    uint64_t begun = id % 64;
    uint32_t flags = 0, kind;

    if (!nigh_ring_room(&foe->tx, 40))
        return;
    id++;
    if (below(2)) {
        first.line = piece.line = (uint32_t)below(16);
        flags = NIGH_F_SHUTTLE | (below(4) ? 0 : NIGH_F_RETURNS);
    }
    switch (below(10)) {
    case 9:
        say_counted(foe, id % 64);
        break;
    case 0:
        foe_send(foe, nigh_head_make(NIGH_K_FIRST, 0, 0, flags | (uint32_t)below(2)), below(5), 0, &first,
                 sizeof(first));
        if (!first.bytes)
            foe_send(foe, nigh_head_make(NIGH_K_PIECE, 0, 0, flags), begun, 0, &piece, sizeof(piece));
        break;
    case 1:
        foe_send(foe, nigh_head_make(NIGH_K_REFER, 0, 0, 0), below(5), 0, &refer, sizeof(refer));
        break;
    case 2:
        foe_send(foe, nigh_head_make(NIGH_K_GET, 0, 0, 0), below(2) ? key : 9, below(4200), &get,
                 sizeof(get));
        break;
    case 3:
        foe_send(foe, nigh_head_make(NIGH_K_ATOMIC, 0, 0, 0), key, below(64) * 8, &atomic, sizeof(atomic));
        break;
    case 4:
        first.id += 64; /* apart from the messages' */
        foe_send(foe, nigh_head_make(NIGH_K_PUT, 0, 0, (uint32_t)below(2) * NIGH_F_NOTIFY), key, below(4096),
                 &first, sizeof(first));
        break;
    case 5:
        foe_send(foe, nigh_head_make(NIGH_K_WHOLE, 0, 0, flags), below(5), 0, &piece, sizeof(piece));
        break;
    case 6: /* to what the victim has begun */
        kind = below(4)   ? NIGH_K_GRANT + (uint32_t)below(2)
               : below(2) ? NIGH_K_REPLY
               : below(2) ? NIGH_K_RESULT
                          : NIGH_K_HELP;
        foe_send(foe, nigh_head_make(kind, 0, 0, 0), below(12), below(2), &first, sizeof(first));
        break;
    default:
        foe_send(foe, nigh_head_make(NIGH_K_MESSAGE, 0, 0, 0), below(5), 0, foe->arena.base,
                 (uint32_t)below(2000));
    }
}

static void scribble_on_help(struct foe *foe)
{
    uint64_t *words[] = {foe->pair->offered, foe->pair->helped};

    nigh_store_relaxed(&words[below(2)][below(NIGH_OFFERS)], chance());
}

/* All that peers read of an owner now and then, and believe nothing of. */
static void scribble_apart(struct foe *foe)
{
    struct nigh_arena_state *state = nigh_arena_state(&foe->arena);
    uint64_t *note = (void *)(foe->arena.base + NIGH_PAGE + NIGH_NOTE_OFFSET);
    uint64_t *table = (void *)(foe->arena.base + foe_heap(foe)), at = below(2) ? foe_heap(foe) : value(foe);
    uint64_t *shuttles[] = {(void *)nigh_window_shuttle(&foe->window),
                            (void *)nigh_window_shuttle(&foe->theirs)};

    switch (below(6)) {
    case 5:
        nigh_store_release(count_of(foe), below(2) ? below(257) : chance(), COUNT_SET);
        break;
    case 0: /* of costs that wrap, come at any time, and say nonsense */
        nigh_store_relaxed(&foe->pair->read_cost[below(6)], below(2) ? chance() : value(foe));
        break;
    case 1:
        nigh_store_relaxed(&foe->pair->reading, below(2) ? (uint32_t)below(40) : (uint32_t)chance());
        nigh_store_relaxed(&foe->pair->asks, (uint32_t)below(3));
        scribble_on_help(foe);
        break;
    case 2: /* where memory may be got from that was never registered */
        for (unsigned i = 0; i < 24; i++)
            nigh_store_relaxed(&table[i], i < 8 || below(3) ? value(foe) : 7);
        nigh_store_release(&state->regions, at, REGION_SET);
        break;
    case 3:
        for (unsigned i = 0; i < sizeof(struct nigh_arena_note) / sizeof(uint64_t); i++)
            nigh_store_relaxed(&note[i], below(4) ? value(foe) : chance());
        break;
    default: /* a message that changes while it is read, in memory that either may hold */
        nigh_store_relaxed(&shuttles[below(2)][below(2000)], chance());
    }
}

static void scribble(struct foe *foe)
{
    struct nigh_arena_state *state = nigh_arena_state(&foe->arena);
    uint32_t words = foe->victim.words;

    switch (below(12)) {
    case 0:
        nigh_store_release(&foe->pair->consumed, value(foe), CREDIT_RETURN);
        break;
    case 1: /* a credit that may well be true */
        nigh_store_release(&foe->pair->consumed, below(200), CREDIT_RETURN);
        break;
    case 2:
        if (!below(4))
            nigh_store_relaxed(&foe->pair->closed, (uint32_t)chance());
        break;
    case 3:
        nigh_store_relaxed(&state->cold, (uint32_t)chance());
        nigh_store_relaxed(&foe->pair->cold, (uint32_t)chance());
        break;
    case 4:
        nigh_store_relaxed(&state->asleep, (uint32_t)below(5));
        break;
    case 5:
        nigh_store_relaxed(&foe->victim.shared->hints[below(words)], chance());
        nigh_store_relaxed(&foe->victim.shared->summary, chance());
        break;
    case 6:
        nigh_store_relaxed(&foe->victim.shared->bell, (uint32_t)chance());
        break;
    case 7: /* any slot of the ring, at any moment */
        nigh_store_relaxed(&foe->tx.slots[below(foe->tx.mask + 1)].head, chance());
        break;
    case 8:
        nigh_store_relaxed(&foe->pair->ring, below(2) ? value(foe) : chance());
        break;
    default:
        scribble_apart(foe);
    }
}

static void play(uint32_t turn)
{
    struct foe foe;
    uint32_t acts, sober;

    seed = UINT64_C(0x9e3779b97f4a7c15) * (turn + 1);
    foe_open(&foe, job, 1, UINT64_C(0xbad) << 32 | turn);
    nigh_store_release(&script->open, turn, FLAG_RAISE);
    while (nigh_load_acquire(&script->turn, FLAG_SEE) < turn || !foe.attached) {
        foe_progress(&foe);
        usleep(20);
    }
    foe_ring(&foe, below(2) ? 64 : 1024);
    if (!below(8))
        scribble(&foe);
    acts = 1 + (uint32_t)below(60);
    sober = (uint32_t)below(4) * 16;
    for (uint32_t i = 0; i < acts; i++) {
        if (below(sober + 1))
            say_soundly(&foe);
        else if (below(4))
            say(&foe);
        else
            scribble(&foe);
        if (!below(16)) {
            foe_progress(&foe);
            usleep(1);
        }
    }
    if (below(2))
        nigh_store_relaxed(&foe.pair->closed, 1);
    foe_wake(&foe);
    nigh_store_release(&script->done, turn, FLAG_RAISE);
    while (nigh_load_acquire(&script->over, FLAG_SEE) != turn) {
        foe_progress(&foe);
        usleep(20);
    }
    foe_close(&foe);
}

static void lie(uint32_t from)
{
    alarm(300);
    for (uint32_t turn = from; turn < from + CASES_A_PROCESS; turn++)
        play(turn);
    _exit(0);
}

/* ---- the victim ----------------------------------------------------------------------------------------- */

/* Posts a bit of everything that names the liar. Returns how many completions that must make. */
static unsigned post(struct nigh_endpoint *to, uint32_t turn)
{
    struct nigh_rma rma = {
        .size = sizeof(rma), .buffer = memory + GUARD, .bytes = 64, .key = 7, .context = 100};
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = heap, .bytes = 4096, .tag = 3, .context = 101};
    uint64_t operand = 1;
    struct nigh_atomic atomic = {.size = sizeof(atomic),
                                 .op = NIGH_SUM,
                                 .type = NIGH_U64,
                                 .count = 1,
                                 .operand = &operand,
                                 .key = 7,
                                 .context = 102};
    uint8_t *room = memory + GUARD;
    unsigned posted = 0;

    posted += hosted_recv(&victim, to, 103, 1, room, 64, 0) == 0;
    posted += hosted_recv(&victim, to, 104, 2, room, ROOM, 0) == 0;
    posted += hosted_recv(&victim, to, 105, 3, NULL, ROOM, NIGH_IN_PLACE) == 0;
    posted += hosted_send(to, 106, 1, room, 8, 0) == 0;
    posted += hosted_send(to, 107, 1, room, 8, NIGH_SYNC) == 0;
    posted += hosted_send(to, 108, 1, room, turn & 1 ? ROOM : 5000, 0) == 0;
    posted += hosted_send(to, 109, 1, heap, 65536, 0) == 0;
    posted += hosted_ops->post_put(to, &rma) == 0;
    posted += hosted_ops->post_get(to, &rma) == 0;
    posted += hosted_ops->post_lend(to, &lend) == 0;
    posted += hosted_ops->post_atomic(to, &atomic) == 0;
    return posted;
}

static unsigned counted(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < victim.count; i++) {
        const struct nigh_completion *done = &victim.done[i];

        if (done->flags & NIGH_DONE_LENT) {
            assert_int_equal(hosted_ops->release(victim.context, done->data), 0);
            victim.done[i].flags = 0;
        }
        count += done->context >= 100 && done->context < 100 + POSTS;
    }
    return count;
}

static void serve_good(uint32_t turn)
{
    uint64_t out = turn, in = 0;

    good.count = 0;
    assert_int_equal(hosted_recv(&good, back, 900, 900, &in, sizeof(in), 0), 0);
    assert_int_equal(hosted_send(to_good, 901, 900, &out, sizeof(out), 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 900)->status, 0);
    assert_int_equal(in, out);
}

static void check_guards(void)
{
    for (unsigned i = 0; i < GUARD; i++)
        if (memory[i] != 0xee || memory[GUARD + ROOM + i] != 0xee)
            fail_msg("byte %u outside of the buffer was written", i);
}

/* What a host looks up about a peer: any answer will do. */
static void ask_about(struct nigh_endpoint *liar)
{
    struct nigh_note note = {.size = sizeof(note)};
    struct nigh_query_endpoint facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(note), number;

    if (hosted_ops->query(victim.context, liar, NIGH_QUERY_NOTE, &note, &bytes) == 0)
        assert_int_equal(note.site[sizeof(note.site) - 1], '\0');
    bytes = sizeof(facts);
    assert_int_equal(hosted_ops->query(victim.context, liar, NIGH_QUERY_ENDPOINT, &facts, &bytes), 0);
    (void)hosted_ops->nudge(liar, &number);
}

static void survive(uint32_t turn, unsigned *broken)
{
    struct nigh_endpoint *to;
    unsigned posted;

    while (nigh_load_acquire(&script->open, FLAG_SEE) != turn)
        usleep(20);
    to = hosted_connect(&victim, 1);
    victim.count = 0;
    posted = post(to, turn);
    nigh_store_release(&script->turn, turn, FLAG_RAISE);
    for (unsigned i = 0; nigh_load_acquire(&script->done, FLAG_SEE) != turn; i++) {
        hosted_poll(&victim);
        if (victim.count > HOSTED_DONE / 2)
            victim.count = 0, posted = 0;
        if (i % 64 == 1)
            ask_about(to);
        if (i % 64 == 0)
            (void)hosted_ops->wait(victim.context, 20000);
    }
    hosted_turns(&victim, NULL, 50);
    ask_about(to);
    *broken += hosted_state(&victim, to) == NIGH_BROKEN;
    serve_good(turn);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    hosted_turns(&victim, &good, 20);
    if (posted && counted() != posted)
        fail_msg("case %u: %u operations posted, %u completed", turn, posted, counted());
    check_guards();
    nigh_store_release(&script->over, turn, FLAG_RAISE);
}

static void test_cases(void **state)
{
    unsigned broken = 0;
    uint32_t turn = 1;

    (void)state;
    while (turn <= CASES) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            lie(turn);
        for (uint32_t end = turn + CASES_A_PROCESS; turn < end; turn++)
            survive(turn, &broken);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        hosted_turns(&victim, &good, 3000);
    }
    print_message("%u cases, %u of them broke the protocol\n", turn - 1, broken);
    assert_true(broken > CASES / 20 && broken < CASES);
    /* Nothing of the liars is left. */
    for (unsigned i = 0; i < 30000 && hosted_facts(&victim).peers != 1; i++) {
        hosted_turns(&victim, &good, 2000);
        usleep(1000);
    }
    assert_int_equal(hosted_facts(&victim).peers, 1);
}

static int start(void **state)
{
    struct nigh_register region = {.size = sizeof(region), .bytes = 4096};
    struct nigh_region *out;

    (void)state;
    alarm(300);
    script = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(script, MAP_FAILED);
    memory = malloc(2 * GUARD + ROOM);
    memset(memory, 0xee, 2 * GUARD + ROOM);
    job = hosted_job();
    setenv("NIGH_PEERS_MAX", "4096", 1);
    hosted_quiet = true;
    hosted_open(&victim, job, 0, 0);
    hosted_open(&good, job, 2, 0);
    to_good = hosted_connect(&victim, 2);
    back = hosted_connect(&good, 0);
    assert_int_equal(hosted_ops->heap_alloc(victim.context, 65536, (void **)&heap), 0);
    region.buffer = memory + GUARD;
    region.flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE;
    assert_int_equal(hosted_ops->register_memory(victim.context, &region, &key, &out), 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close(&victim);
    hosted_close(&good);
    free(memory);
    munmap(script, 4096);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_cases, start, stop)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
