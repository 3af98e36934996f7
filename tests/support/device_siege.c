/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/device_siege.c - see device_siege.h. */
#include "tests/support/device_siege.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_ipc/export.h"
#include "plugin/context.h"
#include "tests/support/osfail.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hosted victim, good;
struct foe foe;
struct nigh_endpoint *to_foe, *to_good;
const struct test_cuda *cuda;
uint8_t *place, *memory, out[BYTES], in[BYTES];

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

int start(void **state)
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

int stop(void **state)
{
    (void)state;
    osfail_remove();
    siege_close(&victim, &foe, &good);
    cuda->free(place);
    cuda->free(memory);
    assert_null(cuda->leaks());
    return 0;
}

/* Its endpoint fails, with the receive that waited for it; others are served. */
void is_broken(void)
{
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 1)->status, -EPROTO);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_BROKEN);
    assert_int_equal(hosted_recv(&good, NULL, 70, 7, in, BYTES, 0), 0);
    assert_int_equal(hosted_send(to_good, 71, 7, out, BYTES, 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 70)->status, 0);
    assert_memory_equal(in, out, BYTES);
}

void refer(uint64_t number, uint64_t where, uint64_t total)
{
    const struct nigh_wire_refer what = {
        .total = total, .where = where, .id = 3, .refer = NIGH_REFER_DEVICE, .number = number};

    foe_send(&foe, nigh_head_make(NIGH_K_REFER, 0, 0, 0), 1, 0, &what, sizeof(what));
}

int bring(uint64_t number, const void *record, size_t bytes, const int *fds, uint32_t count)
{
    const struct nigh_identity to = {.job = foe.job, .incarnation = victim.context->incarnation, .rank = 0};
    const struct nigh_parcel parcel = {
        .number = number, .record = record, .bytes = bytes, .fds = fds, .count = count};

    return nigh_rendezvous_bring(foe.rendezvous, &to, &parcel);
}

/* The victim's next slot, soon: a wait for what does not come takes a thousand times as many polls. */
struct nigh_slot hear(enum nigh_kind kind)
{
    struct nigh_slot slot;

    for (unsigned i = 0; !foe_receive(&foe, &slot); i++) {
        assert_true(i < POLLS);
        hosted_poll(&victim);
    }
    assert_int_equal(nigh_head_kind(slot.head), kind);
    return slot;
}

/* Memory that is there, brought as it should be. */
void bring_memory(uint64_t number)
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

/* A message to the foe that its device is to copy; its number. */
uint64_t sent(void)
{
    struct nigh_wire_refer what;
    struct nigh_slot slot;

    assert_int_equal(hosted_send(to_foe, 2, 2, memory, BYTES, NIGH_DEVICE), 0);
    slot = hear(NIGH_K_REFER);
    memcpy(&what, slot.payload, sizeof(what));
    assert_int_equal(what.refer, NIGH_REFER_POINTER); /* it is of this process */
    return what.id;
}
