/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that lies about device memory: what it has brought, what it names, what it asks for twice. It breaks, or hears that it is to
 * send in pieces; nothing waits for it, and nothing stays open. A foe of another process and its pointers: refer_is_sound(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_ipc/export.h"
#include "plugin/context.h"
#include "plugin/device_peer.h"
#include "plugin/wire.h"
#include "shm/clock.h"
#include "tests/support/osfail.h"
#include "tests/support/siege.h"
#include "tests/support/test_cuda.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 128 * 1024, FLOOD = 2000, POLLS = 1000, PARCELS = 300, FDS = 4 };

static struct hosted victim, good;
static struct foe foe;
static struct nigh_endpoint *to_foe, *to_good;
static const struct test_cuda *cuda;
static uint8_t *place, *memory, out[BYTES], in[BYTES];

static void load(void)
{
    const char *build = getenv("NIGH_BUILDDIR");
    char path[4096];
    void *object;

    snprintf(path, sizeof(path), "%s/tests/support/.libs/libcuda.so.1", build ? build : ".");
    object = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    assert_non_null(object);
    cuda = dlsym(object, TEST_CUDA_SYMBOL);
    assert_non_null(cuda);
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    hosted_quiet = true;
    if (!cuda)
        load();
    siege_open(&victim, &foe, &good, &to_foe, &to_good);
    victim.count = good.count = 0;
    place = cuda->alloc(MEMORY_MAPPED, cuda->device(), BYTES);
    memory = cuda->alloc(MEMORY_MAPPED, cuda->device(), BYTES);
    memset(out, 0x5a, sizeof(out));
    cuda->put(memory, out, BYTES);
    assert_int_equal(hosted_recv(&victim, to_foe, 1, 1, place, BYTES, NIGH_DEVICE), 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    osfail_remove();
    siege_close(&victim, &foe, &good);
    cuda->free(place);
    cuda->free(memory);
    assert_null(cuda->leaks());
    return 0;
}

static unsigned descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* Its endpoint fails, with the receive that waited for it; others are served. */
static void is_broken(void)
{
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 1)->status, -EPROTO);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_BROKEN);
    assert_int_equal(hosted_recv(&good, NULL, 70, 7, in, BYTES, 0), 0);
    assert_int_equal(hosted_send(to_good, 71, 7, out, BYTES, 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 70)->status, 0);
    assert_memory_equal(in, out, BYTES);
}

static void refer(uint64_t number, uint64_t where, uint64_t total)
{
    const struct nigh_wire_refer what = {
        .total = total, .where = where, .id = 3, .refer = NIGH_REFER_DEVICE, .number = number};

    foe_send(&foe, nigh_head_make(NIGH_K_REFER, 0, 0, 0), 1, 0, &what, sizeof(what));
}

static int bring(uint64_t number, const void *record, size_t bytes, const int *fds, uint32_t count)
{
    const struct nigh_identity to = {.job = foe.job, .incarnation = victim.context->incarnation, .rank = 0};
    const struct nigh_parcel parcel = {
        .number = number, .record = record, .bytes = bytes, .fds = fds, .count = count};

    return nigh_rendezvous_bring(foe.rendezvous, &to, &parcel);
}

/* The victim's next slot, soon: a wait for what does not come takes a thousand times as many polls. */
static struct nigh_slot hear(enum nigh_kind kind)
{
    struct nigh_slot slot;

    for (unsigned i = 0; !foe_receive(&foe, &slot); i++) {
        assert_true(i < POLLS);
        hosted_poll(&victim);
    }
    assert_int_equal(nigh_head_kind(slot.head), kind);
    return slot;
}

/* ---- what it names ---- */

static void test_never_brought(void **state)
{
    struct nigh_slot slot;

    (void)state;
    refer(7, 0, BYTES);
    slot = hear(NIGH_K_GRANT);
    assert_int_equal(slot.tag, 3);
    assert_int_equal(slot.imm, NIGH_GRANT_WAITED | NIGH_GRANT_AGAIN);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static void test_no_number(void **state)
{
    (void)state;
    refer(0, 0, BYTES);
    is_broken();
}

/* A lend of nothing would be at no address. */
static void test_no_bytes(void **state)
{
    (void)state;
    refer(7, 0, 0);
    is_broken();
}

static void test_no_record(void **state)
{
    unsigned before = descriptors();
    uint8_t nonsense[100];

    (void)state;
    memset(nonsense, 0xa5, sizeof(nonsense));
    assert_int_equal(bring(7, nonsense, sizeof(nonsense), (const int[]){0}, 1), 0);
    refer(7, 0, BYTES);
    is_broken();
    hosted_turns(&victim, &good, 100);
    assert_true(descriptors() <= before);
}

/* Memory that is there, brought as it should be. */
static void bring_memory(uint64_t number)
{
    struct nigh_cuda *domain = victim.context->devices.cuda;
    int fds[NIGH_CUDA_SEGMENTS_MAX];
    struct nigh_cuda_export *export;
    struct nigh_cuda_memory *found;

    assert_int_equal(nigh_cuda_look(domain, memory, BYTES, &found), 0);
    assert_int_equal(nigh_cuda_export_get(domain, found, &export), 0);
    assert_int_equal(nigh_cuda_export_open(export, fds), 0);
    assert_int_equal(bring(number, export->wire, export->bytes, fds, nigh_cuda_record_fds(export->wire)), 0);
    for (uint32_t i = 0; i < nigh_cuda_record_fds(export->wire); i++)
        close(fds[i]);
    nigh_cuda_export_put(export);
    free(found);
}

static void test_honest(void **state)
{
    (void)state;
    bring_memory(7);
    refer(7, 0, BYTES);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 1)->status, 0);
    cuda->get(in, place, BYTES);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(hear(NIGH_K_FINISH).tag, 3);
}

static void test_outside(void **state)
{
    (void)state;
    bring_memory(7);
    refer(7, UINT64_MAX - 9, 10); /* the sum is 0 */
    is_broken();
}

static void test_too_long(void **state)
{
    (void)state;
    bring_memory(7);
    refer(7, 0, UINT64_MAX);
    is_broken();
}

/* ---- floods ---- */

static void test_drops(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < FLOOD; i++) {
        foe_send(&foe, nigh_head_make(i % 2 ? NIGH_K_DROPPED : NIGH_K_DROP, 0, 0, 0), i, 0, NULL, 0);
        if (i % 2 == 0)
            assert_int_equal(hear(NIGH_K_DROPPED).tag, i);
    }
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

/* What nobody asks for is bounded, and goes with its peer. */
static void test_parcels(void **state)
{
    const int fds[FDS] = {0, 0, 0, 0};
    unsigned before = descriptors(), most = 0;

    (void)state;
    for (uint64_t i = 1; i <= PARCELS; i++) {
        while (bring(i, out, 100, fds, FDS) == -EAGAIN)
            hosted_turns(&victim, &good, 1);
        hosted_turns(&victim, &good, 1);
        most = descriptors() > most ? descriptors() : most;
    }
    assert_true(most > before + FDS && most <= before + 64 * FDS + 16);
    assert_int_equal(hosted_ops->disconnect(to_foe), 0);
    nigh_store_relaxed(&foe.pair->closed, nigh_load_relaxed(&foe.pair->closed) | 1);
    foe_wake(&foe);
    for (unsigned i = 0; descriptors() > before; i++) {
        assert_true(i < 100000);
        hosted_turns(&victim, &good, 10);
    }
}

/* ---- what it answers ---- */

/* A message to the foe that its device is to copy; its number. */
static uint64_t sent(void)
{
    struct nigh_wire_refer what;
    struct nigh_slot slot;

    assert_int_equal(hosted_send(to_foe, 2, 2, memory, BYTES, NIGH_DEVICE), 0);
    slot = hear(NIGH_K_REFER);
    memcpy(&what, slot.payload, sizeof(what));
    assert_int_equal(what.refer, NIGH_REFER_POINTER); /* it is of this process */
    return what.id;
}

static void test_granted_twice(void **state)
{
    uint64_t id = sent();

    (void)state;
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), id, NIGH_GRANT_AGAIN, NULL, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), id, NIGH_GRANT_AGAIN, NULL, 0);
    is_broken();
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, 2)->status, -EPROTO);
}

static void test_finished_and_granted(void **state)
{
    uint64_t id = sent();

    (void)state;
    foe_send(&foe, nigh_head_make(NIGH_K_FINISH, 0, 0, 0), id, 0, NULL, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), id, 0, NULL, 0);
    is_broken();
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, 2)->status, 0);
}

static void test_finished_in_pieces(void **state)
{
    uint64_t id = sent();

    (void)state;
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), id, 0, NULL, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_FINISH, 0, 0, 0), id, 0, NULL, 0);
    is_broken();
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, 2)->status, -EPROTO);
}

/* ---- lends ---- */

/* The foe says that it uses the same device, and is taken for another process until lent() has posted to it: its id, and the
 * number of the memory. */
static uint64_t lent(uint64_t *number)
{
    const struct nigh_lend post = {
        .size = sizeof(post), .flags = NIGH_DEVICE, .buffer = memory, .bytes = BYTES, .tag = 2, .context = 2};
    const struct nigh_arena_devices *known = nigh_arena_devices(&victim.context->arena);
    int pid = to_foe->pid;
    struct nigh_wire_refer what;
    struct nigh_slot slot;

    memcpy(nigh_arena_devices(&foe.arena), known, sizeof(*known));
    to_foe->pid = getppid();
    assert_int_equal(hosted_ops->post_lend(to_foe, &post), 0);
    slot = hear(NIGH_K_REFER);
    to_foe->pid = pid;
    assert_int_equal(nigh_head_flags(slot.head), NIGH_F_LENT);
    memcpy(&what, slot.payload, sizeof(what));
    assert_int_equal(what.refer, NIGH_REFER_DEVICE);
    assert_true(nigh_device_peer_has(to_foe, what.number));
    *number = what.number;
    return what.id;
}

static void answer(enum nigh_kind kind, uint64_t id, uint64_t imm)
{
    foe_send(&foe, nigh_head_make(kind, 0, 0, 0), id, imm, NULL, 0);
    for (unsigned i = 0; i < 10; i++) {
        hosted_turns(&victim, &good, 1);
        foe_progress(&foe);
    }
}

static void is_brought(uint64_t number)
{
    for (unsigned i = 0; !nigh_device_peer_has(to_foe, number); i++) {
        assert_true(i < POLLS * 1000);
        foe_progress(&foe);
        hosted_turns(&victim, &good, 1);
    }
}

static void lend_ends(int status)
{
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_LEND, 2)->status, status);
    assert_false(victim.context->devices.scarce);
    assert_null(to_foe->device_sends);
}

/* As often as it likes, and FINISH ends it once. */
static void test_brought_again(void **state)
{
    uint64_t number, id = lent(&number);

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
        is_brought(number);
    }
    answer(NIGH_K_FINISH, id, 0);
    lend_ends(0);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
    answer(NIGH_K_FINISH, id, 0);
    is_broken();
}

/* Given up for other memory that is sent, and brought again: it is given up there once more when that lend is over. */
static void test_brought_and_given_up(void **state)
{
    static const enum nigh_kind ends[] = {NIGH_K_FINISH, NIGH_K_GRANT};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t number, id = lent(&number);
        struct nigh_cuda_export *export = nigh_cuda_seen_take(&victim.context->devices.seen);

        assert_int_equal(export->number, number);
        nigh_device_peers_drop(victim.context, number, false);
        nigh_cuda_export_put(export);
        assert_int_equal(hear(NIGH_K_DROP).tag, number);
        answer(NIGH_K_DROPPED, number, 0);
        answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
        is_brought(number);
        answer(ends[i], id, 0);
        assert_int_equal(hear(NIGH_K_DROP).tag, number);
        assert_false(nigh_device_peer_has(to_foe, number));
        lend_ends(0);
        victim.count = 0;
    }
}

/* What cannot go now goes a little later, and not in each pass; who waits meanwhile does not sleep. */
static void test_brought_later(void **state)
{
    static const int passing[] = {EAGAIN, EMFILE};
    uint64_t number, id = lent(&number);

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        osfail_install();
        osfail_arm_all(i ? OSFAIL_socket : OSFAIL_connect, 1, passing[i]);
        answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
        hosted_turns(&victim, &good, 20000);
        assert_true(osfail_count(i ? OSFAIL_socket : OSFAIL_connect) > 1);
        assert_true(osfail_count(i ? OSFAIL_socket : OSFAIL_connect) < 5000);
        assert_false(nigh_device_peer_has(to_foe, number));
        assert_true(victim.context->devices.scarce);
        osfail_remove();
        is_brought(number);
        hosted_turns(&victim, &good, 1);
        assert_false(victim.context->devices.scarce);
    }
    answer(NIGH_K_FINISH, id, 0);
    lend_ends(0);
}

/* Not for ever: its receiver does not wait so long. */
static void test_brought_never(void **state)
{
    uint64_t number, id = lent(&number), until = nigh_clock_ns() + 3 * NIGH_DEVICE_BRING_NS;

    (void)state;
    osfail_install();
    osfail_arm_all(OSFAIL_connect, 1, EAGAIN);
    answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
    while (victim.context->devices.scarce) {
        assert_true(nigh_clock_ns() < until);
        hosted_turns(&victim, &good, 100);
    }
    osfail_remove();
    answer(NIGH_K_FINISH, id, (uint64_t)(int64_t)-EOPNOTSUPP);
    lend_ends(-EOPNOTSUPP);
}

/* In the middle of that its receiver takes a copy, is done with it, or is left. */
static void test_brought_no_more(void **state)
{
    uint64_t number, id;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        victim.count = 0;
        id = lent(&number);
        osfail_install();
        osfail_arm_all(OSFAIL_connect, 1, EAGAIN);
        answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
        assert_true(victim.context->devices.scarce);
        if (i == 0) {
            answer(NIGH_K_GRANT, id, 0);
            lend_ends(0);
        } else if (i == 1) {
            answer(NIGH_K_FINISH, id, 0);
            lend_ends(0);
        } else {
            assert_int_equal(hosted_ops->disconnect(to_foe), 0);
            lend_ends(-ECANCELED);
        }
        osfail_remove();
        for (struct nigh_slot slot; i == 0 && foe_receive(&foe, &slot);)
            assert_true(nigh_head_kind(slot.head) == NIGH_K_FIRST ||
                        nigh_head_kind(slot.head) == NIGH_K_PIECE);
    }
}

/* A message is no lend. */
static void test_bring_a_message(void **state)
{
    uint64_t id = sent();

    (void)state;
    answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
    is_broken();
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, 2)->status, -EPROTO);
}

static void test_bring_what_is_over(void **state)
{
    uint64_t number, id = lent(&number);

    (void)state;
    answer(NIGH_K_FINISH, id, 0);
    lend_ends(0);
    answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
    is_broken();
}

/* The victim wants one in place, as it would be at `place`. */
static void want_lent(void)
{
    struct nigh_recv recv = {.size = sizeof(recv),
                             .flags = NIGH_IN_PLACE | NIGH_DEVICE,
                             .buffer = place,
                             .bytes = BYTES,
                             .tag = 5,
                             .context = 5};

    assert_int_equal(hosted_ops->post_recv(victim.context, to_foe, &recv), 0);
}

static void refer_lent(uint64_t number, uint64_t where, uint64_t total)
{
    const struct nigh_wire_refer what = {
        .total = total, .where = where, .id = 3, .refer = NIGH_REFER_DEVICE, .number = number};

    foe_send(&foe, nigh_head_make(NIGH_K_REFER, 0, 0, NIGH_F_LENT), 5, 0, &what, sizeof(what));
}

static const struct nigh_completion *lent_comes(void)
{
    const struct nigh_completion *done = hosted_until(&victim, &good, NIGH_OP_RECV, 5);

    assert_int_equal(done->flags & NIGH_DONE_LENT, done->status ? 0 : NIGH_DONE_LENT);
    return done;
}

/* It is asked for once, and not waited for without end. */
static void test_lent_and_never_brought(void **state)
{
    struct nigh_slot slot;

    (void)state;
    want_lent();
    refer_lent(7, 0, BYTES);
    slot = hear(NIGH_K_GRANT);
    assert_int_equal(slot.tag, 3);
    assert_int_equal(slot.imm, NIGH_GRANT_BRING);
    assert_int_equal(lent_comes()->status, -EOPNOTSUPP);
    slot = hear(NIGH_K_FINISH);
    assert_int_equal((int)(int64_t)slot.imm, -EOPNOTSUPP);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static void test_lent_outside(void **state)
{
    (void)state;
    bring_memory(7);
    want_lent();
    refer_lent(7, UINT64_MAX - 9, 10);
    is_broken();
    assert_int_equal(lent_comes()->status, -EPROTO);
}

/* It is the lender's again as soon as nobody wants it; what is brought behind that is of no use, and no harm. */
static void test_lent_and_cancelled(void **state)
{
    struct nigh_slot slot;

    (void)state;
    want_lent();
    refer_lent(7, 0, BYTES);
    hear(NIGH_K_GRANT);
    assert_int_equal(hosted_ops->cancel(victim.context, 5), 0);
    assert_int_equal(hosted_ops->cancel(victim.context, 5), -ENOENT);
    assert_int_equal(lent_comes()->status, -ECANCELED);
    slot = hear(NIGH_K_FINISH);
    assert_int_equal(slot.tag, 3);
    assert_int_equal(slot.imm, 0);
    hosted_turns(&victim, &good, 10);
    assert_false(victim.context->devices.scarce);
    bring_memory(7);
    victim.count = 0;
    want_lent();
    refer_lent(7, 0, BYTES);
    assert_int_equal(hosted_ops->release(victim.context, lent_comes()->data), 0);
    assert_int_equal(hear(NIGH_K_FINISH).tag, 3);
}

/* Probed for, and then its lender is gone, or not. */
static void test_lent_and_claimed(void **state)
{
    struct nigh_recv recv = {.size = sizeof(recv),
                             .flags = NIGH_IN_PLACE | NIGH_DEVICE,
                             .buffer = place,
                             .bytes = BYTES,
                             .context = 5};
    struct nigh_completion found;
    struct nigh_message *message[2];

    (void)state;
    bring_memory(7);
    for (unsigned i = 0; i < 2; i++) {
        refer_lent(7, 0, BYTES);
        for (unsigned turns = 0;
             hosted_ops->probe(victim.context, to_foe, 5, 0, 0, &found, &message[i]) == -ENOMSG; turns++) {
            assert_true(turns < POLLS * 1000);
            hosted_poll(&victim);
        }
        assert_int_equal(found.bytes, BYTES);
    }
    assert_int_equal(hosted_ops->claim(victim.context, message[0], &recv), 0);
    assert_int_equal(hosted_ops->release(victim.context, lent_comes()->data), 0);
    refer(0, 0, BYTES); /* which no message can be */
    is_broken();
    victim.count = 0;
    assert_int_equal(hosted_ops->claim(victim.context, message[1], &recv), 0);
    assert_int_equal(lent_comes()->status, -ECONNRESET);
}

/* Given up while it is held, and its endpoint ends: it stays as long, and goes then. */
static void test_lent_and_given_up(void **state)
{
    void *held;

    (void)state;
    bring_memory(7);
    want_lent();
    want_lent();
    refer_lent(7, 0, BYTES);
    held = lent_comes()->data;
    foe_send(&foe, nigh_head_make(NIGH_K_DROP, 0, 0, 0), 7, 0, NULL, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_DROP, 0, 0, 0), 7, 0, NULL, 0);
    hosted_turns(&victim, &good, 100);
    assert_false(victim.context->devices.scarce);
    cuda->get(in, held, BYTES);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(hosted_ops->release(victim.context, held), 0);
    assert_int_equal(hear(NIGH_K_FINISH).tag, 3);
    assert_int_equal(hear(NIGH_K_DROPPED).tag, 7);
    assert_int_equal(hear(NIGH_K_DROPPED).tag, 7);
    bring_memory(7);
    victim.count = 0;
    refer_lent(7, 0, BYTES);
    held = lent_comes()->data;
    foe_send(&foe, nigh_head_make(NIGH_K_DROP, 0, 0, 0), 7, 0, NULL, 0);
    refer(0, 0, BYTES); /* which no message can be */
    is_broken();
    cuda->get(in, held, BYTES);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(hosted_ops->disconnect(to_foe), 0);
    hosted_turns(&victim, &good, 5000);
    cuda->get(in, held, BYTES);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(hosted_ops->release(victim.context, held), 0);
    assert_int_equal(hosted_ops->release(victim.context, held), -EINVAL);
    hosted_turns(&victim, &good, 5000);
}

/* ---- puts and gets by reference ---- */

static uint64_t registered(void)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE | NIGH_REGISTER_DEVICE,
                                 .buffer = place,
                                 .bytes = BYTES};
    struct nigh_region *region;
    uint64_t key = 0;

    assert_int_equal(hosted_ops->register_memory(victim.context, &what, &key, &region), 0);
    return key;
}

static void put(uint64_t key, uint64_t number, uint64_t where, uint64_t total)
{
    const struct nigh_wire_remote what = {
        .refer = {.total = total, .where = where, .id = 3, .refer = NIGH_REFER_DEVICE, .number = number}};

    foe_send(&foe, nigh_head_make(NIGH_K_PUT, 0, 0, NIGH_F_REFERS), key, 0, &what, sizeof(what));
}

static void test_put(void **state)
{
    uint64_t key = registered();
    struct nigh_slot slot;

    (void)state;
    put(key, 7, 0, BYTES); /* never brought */
    slot = hear(NIGH_K_GRANT);
    assert_int_equal(slot.tag, 3);
    assert_int_equal(slot.imm, NIGH_GRANT_AGAIN);
    put(key + 1, 7, 0, BYTES);
    slot = hear(NIGH_K_FINISH);
    assert_int_equal((int)(int64_t)slot.imm, -EACCES);
    put(key, 7, 0, BYTES + 1);
    slot = hear(NIGH_K_FINISH);
    assert_int_equal((int)(int64_t)slot.imm, -ERANGE);
    bring_memory(7);
    put(key, 7, 0, BYTES);
    slot = hear(NIGH_K_FINISH);
    assert_int_equal(slot.tag, 3);
    assert_int_equal(slot.imm, 0);
    cuda->get(in, place, BYTES);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static void test_put_outside(void **state)
{
    uint64_t key = registered();

    (void)state;
    bring_memory(7);
    put(key, 7, (uint64_t)1 << 40, BYTES);
    is_broken();
}

static void test_put_of_nothing(void **state)
{
    uint64_t key = registered();

    (void)state;
    put(key, 7, 0, 0);
    is_broken();
}

/* A get of the victim's, to `to`: its number. */
static uint32_t asked(void *to, uint32_t flags)
{
    struct nigh_rma rma = {
        .size = sizeof(rma), .flags = flags, .buffer = to, .bytes = BYTES, .key = 77, .context = 9};
    struct nigh_wire_get get;
    struct nigh_slot slot;

    assert_int_equal(hosted_ops->post_get(to_foe, &rma), 0);
    slot = hear(NIGH_K_GET);
    memcpy(&get, slot.payload, sizeof(get));
    assert_int_equal(get.flags, flags ? NIGH_GET_REFER : 0);
    return get.id;
}

static void reply(uint64_t id, uint64_t total)
{
    const struct nigh_wire_remote what = {
        .refer = {.total = total, .id = 3, .refer = NIGH_REFER_DEVICE, .number = 7}};

    foe_send(&foe, nigh_head_make(NIGH_K_REPLY, 0, 0, NIGH_F_REFERS), id, 0, &what, sizeof(what));
}

static void test_reply(void **state)
{
    uint64_t id = asked(place, NIGH_DEVICE);
    struct nigh_slot slot;

    (void)state;
    reply(id, BYTES); /* never brought: it is asked for in pieces, and may come by reference again */
    slot = hear(NIGH_K_GRANT);
    assert_int_equal(slot.tag, 3);
    bring_memory(7);
    reply(id, BYTES);
    assert_int_equal(hear(NIGH_K_FINISH).tag, 3);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_GET, 9)->status, 0);
    cuda->get(in, place, BYTES);
    assert_memory_equal(in, out, BYTES);
}

static void test_reply_twice(void **state)
{
    uint64_t id = asked(place, NIGH_DEVICE);

    (void)state;
    reply(id, BYTES);
    reply(id, BYTES);
    is_broken();
}

static void test_reply_to_the_host(void **state)
{
    (void)state;
    reply(asked(in, 0), BYTES);
    is_broken();
}

static void test_reply_of_another_length(void **state)
{
    (void)state;
    reply(asked(place, NIGH_DEVICE), BYTES - 1);
    is_broken();
}

/* Of a put of the victim's. */
static void test_put_granted_twice(void **state)
{
    struct nigh_rma rma = {
        .size = sizeof(rma), .flags = NIGH_DEVICE, .buffer = memory, .bytes = BYTES, .key = 77, .context = 9};
    struct nigh_wire_remote what;
    struct nigh_slot slot;

    (void)state;
    assert_int_equal(hosted_ops->post_put(to_foe, &rma), 0);
    slot = hear(NIGH_K_PUT);
    assert_int_equal(nigh_head_flags(slot.head), NIGH_F_REFERS);
    memcpy(&what, slot.payload, sizeof(what));
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), what.refer.id, NIGH_GRANT_AGAIN, NULL, 0);
    slot = hear(NIGH_K_PUT); /* in pieces */
    assert_int_equal(nigh_head_flags(slot.head) & NIGH_F_REFERS, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), what.refer.id, NIGH_GRANT_AGAIN, NULL, 0);
    is_broken();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_never_brought),
        CASE(test_no_number),
        CASE(test_no_bytes),
        CASE(test_no_record),
        CASE(test_honest),
        CASE(test_outside),
        CASE(test_too_long),
        CASE(test_drops),
        CASE(test_parcels),
        CASE(test_granted_twice),
        CASE(test_finished_and_granted),
        CASE(test_finished_in_pieces),
        CASE(test_brought_again),
        CASE(test_brought_and_given_up),
        CASE(test_brought_later),
        CASE(test_brought_never),
        CASE(test_brought_no_more),
        CASE(test_bring_a_message),
        CASE(test_bring_what_is_over),
        CASE(test_lent_and_never_brought),
        CASE(test_lent_outside),
        CASE(test_lent_and_cancelled),
        CASE(test_lent_and_claimed),
        CASE(test_lent_and_given_up),
        CASE(test_put),
        CASE(test_put_outside),
        CASE(test_put_of_nothing),
        CASE(test_reply),
        CASE(test_reply_twice),
        CASE(test_reply_to_the_host),
        CASE(test_reply_of_another_length),
        CASE(test_put_granted_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
