/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer says of its device memory is checked member by member: each member that is wrong is refused, alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_ipc/record.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20, BASE = 64 * MIB };

static union {
    struct nigh_cuda_wire wire;
    unsigned char bytes[NIGH_CUDA_RECORD_MAX + 64];
} record;

static size_t make(uint32_t way, uint32_t segments)
{
    memset(&record, 0, sizeof(record));
    record.wire.version = NIGH_CUDA_RECORD_VERSION;
    record.wire.way = way;
    record.wire.reason = way == NIGH_CUDA_STAGED ? NIGH_CUDA_WHY_MANAGED : NIGH_CUDA_WHY_NONE;
    record.wire.segments = segments;
    for (uint32_t i = 0; i < segments && i < NIGH_CUDA_SEGMENTS_MAX; i++)
        record.wire.segment[i] =
            (struct nigh_cuda_wire_segment){BASE + (uint64_t)i * 2 * MIB, 2 * MIB, i + 1};
    return nigh_cuda_record_bytes(segments);
}

static void taken(size_t bytes)
{
    struct nigh_cuda_wire *wire = NULL;
    const char *why = "";

    assert_int_equal(nigh_cuda_record_read(&record, bytes, &wire, &why), 0);
    assert_null(why);
    assert_memory_equal(wire, &record, bytes);
    free(wire);
}

static void refused(size_t bytes, const char *text)
{
    struct nigh_cuda_wire *wire = NULL;
    const char *why = NULL;

    assert_int_equal(nigh_cuda_record_read(&record, bytes, &wire, &why), -EPROTO);
    assert_null(wire);
    assert_non_null(strstr(why, text));
}

static void sound_records(void **state)
{
    (void)state;
    taken(make(NIGH_CUDA_STAGED, 1));
    taken(make(NIGH_CUDA_VMM, 1));
    taken(make(NIGH_CUDA_VMM, 3));
    taken(make(NIGH_CUDA_VMM, NIGH_CUDA_SEGMENTS_MAX));
    taken(make(NIGH_CUDA_POOL, 1));
    taken(make(NIGH_CUDA_LEGACY, 1));
    make(NIGH_CUDA_LEGACY, 1);
    record.wire.handle[63] = 1;
    taken(nigh_cuda_record_bytes(1));
    make(NIGH_CUDA_VMM, 3);
    assert_int_equal(nigh_cuda_record_fds(&record.wire), 3);
    assert_int_equal(nigh_cuda_record_extent(&record.wire), 6 * MIB);
}

static void sizes(void **state)
{
    size_t bytes = make(NIGH_CUDA_VMM, 3);

    (void)state;
    for (size_t wrong = 0; wrong < bytes + 48; wrong++)
        if (wrong != bytes)
            refused(wrong, "size");
    refused(sizeof(record), "size");
    refused(make(NIGH_CUDA_VMM, NIGH_CUDA_SEGMENTS_MAX + 1), "size");
    bytes = make(NIGH_CUDA_VMM, 2);
    record.wire.segments = 0;
    refused(bytes, "number of segments");
    record.wire.segments = UINT32_MAX;
    refused(bytes, "number of segments");
    record.wire.segments = 1;
    refused(bytes, "size");
}

static void heads(void **state)
{
    size_t bytes = make(NIGH_CUDA_VMM, 2);

    (void)state;
    record.wire.version = 2;
    refused(bytes, "version");
    bytes = make(NIGH_CUDA_WAYS, 2);
    refused(bytes, "way");
    bytes = make(NIGH_CUDA_VMM, 2);
    record.wire.reason = NIGH_CUDA_WHY_MANAGED;
    refused(bytes, "reason");
    bytes = make(NIGH_CUDA_STAGED, 1);
    record.wire.reason = NIGH_CUDA_WHY_NONE;
    refused(bytes, "reason");
    record.wire.reason = NIGH_CUDA_REASONS_COUNT;
    refused(bytes, "reason");
    refused(make(NIGH_CUDA_LEGACY, 2), "handle");
    refused(make(NIGH_CUDA_POOL, 2), "handle");
    for (int i = 0; i < 64; i++) {
        bytes = make(i % 2 ? NIGH_CUDA_VMM : NIGH_CUDA_STAGED, 1);
        record.wire.handle[i] = 1;
        refused(bytes, "handle");
    }
}

static void segments(void **state)
{
    size_t bytes = make(NIGH_CUDA_VMM, 3);

    (void)state;
    record.wire.segment[2].base++;
    refused(bytes, "follow");
    make(NIGH_CUDA_VMM, 3);
    record.wire.segment[1].bytes--;
    refused(bytes, "follow");
    for (int i = 0; i < 3; i++) {
        make(NIGH_CUDA_VMM, 3);
        record.wire.segment[i].bytes = 0;
        refused(bytes, "possible size");
        record.wire.segment[i].bytes = NIGH_CUDA_EXTENT_MAX + 1;
        refused(bytes, "possible size");
        record.wire.segment[i].bytes = UINT64_MAX;
        refused(bytes, "possible size");
    }
    bytes = make(NIGH_CUDA_LEGACY, 1);
    record.wire.segment[0].base = 0;
    refused(bytes, "begins at 0");
    record.wire.segment[0].base = UINT64_MAX - MIB;
    refused(bytes, "last address");
}

/* Any one byte of a record may be anything: it is taken or refused, and never read past its end. */
static void any_byte(void **state)
{
    size_t bytes = make(NIGH_CUDA_VMM, 2);

    (void)state;
    for (size_t at = 0; at < bytes; at++)
        for (int value = 0; value < 256; value += 5) {
            struct nigh_cuda_wire *wire = NULL;
            const char *why = NULL;
            unsigned char *exact = malloc(bytes);
            int rc;

            memcpy(exact, &record, bytes);
            exact[at] = (unsigned char)value;
            rc = nigh_cuda_record_read(exact, bytes, &wire, &why);
            free(exact);
            assert_true(rc == (wire ? 0 : -EPROTO));
            if (wire)
                assert_true(nigh_cuda_record_extent(wire) >= 2);
            free(wire);
        }
}

static void every_reason_has_a_text(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NIGH_CUDA_REASONS_COUNT; i++)
        assert_true(strlen(nigh_cuda_reason_text(i)) > 10);
    assert_string_equal(nigh_cuda_reason_text(NIGH_CUDA_REASONS_COUNT), "unknown");
    assert_string_equal(nigh_cuda_way_name(NIGH_CUDA_VMM), "cuda-vmm");
    assert_string_equal(nigh_cuda_way_name(NIGH_CUDA_WAYS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_records), cmocka_unit_test(sizes),
        cmocka_unit_test(heads),         cmocka_unit_test(segments),
        cmocka_unit_test(any_byte),      cmocka_unit_test(every_reason_has_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
