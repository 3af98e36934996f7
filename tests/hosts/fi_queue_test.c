/* SPDX-License-Identifier: BSD-3-Clause */
/* What one read of a queue gives where ends of all sorts come together: those that nigh tells by themselves, those with
 * a record of the provider's, and errors between them. Each is told of once, with what belongs to it. */
#include "tests/support/fi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { PAIRS = 20, ROUNDS = 60 };
enum kind { PLAIN, DATA, MSG, VECTORS, TOO_LONG, CANCELLED, KINDS };

struct wanted {
    uint64_t flags, len, tag, data;
    int err;
    unsigned told;
};

static struct fi_lab lab;
static struct wanted sends[PAIRS], receives[PAIRS];
static uint64_t from[PAIRS], to[PAIRS];
static uint32_t seed;

#define SIDE (&lab.side[0])

static uint32_t random_below(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 16) % below;
}

static void post_recv(enum kind kind, unsigned i)
{
    struct iovec halves[2] = {{&to[i], 4}, {(char *)&to[i] + 4, 4}};

    if (kind == MSG)
        FI_OK(fi_recv(SIDE->ep, &to[i], 8, NULL, FI_ADDR_UNSPEC, &receives[i]));
    else if (kind == VECTORS)
        FI_OK(fi_trecvv(SIDE->ep, halves, NULL, 2, FI_ADDR_UNSPEC, i, 0, &receives[i]));
    else
        FI_OK(fi_trecv(SIDE->ep, &to[i], kind == TOO_LONG ? 4 : 8, NULL, FI_ADDR_UNSPEC, i, 0, &receives[i]));
    receives[i] = (struct wanted){.flags = FI_RECV | (kind == MSG ? FI_MSG : FI_TAGGED) |
                                           (kind == DATA ? FI_REMOTE_CQ_DATA : 0),
                                  .len = 8,
                                  .tag = kind == MSG ? 0 : i,
                                  .data = kind == DATA ? i + 100 : 0,
                                  .err = kind == TOO_LONG    ? FI_ETRUNC
                                         : kind == CANCELLED ? FI_ECANCELED
                                                             : 0};
}

static void post_send(enum kind kind, unsigned i)
{
    struct iovec halves[2] = {{&from[i], 4}, {(char *)&from[i] + 4, 4}};

    sends[i] = (struct wanted){.flags = FI_SEND | (kind == MSG ? FI_MSG : FI_TAGGED), .len = 8};
    if (kind == CANCELLED) {
        FI_OK((int)fi_cancel(&SIDE->ep->fid, &receives[i]));
        sends[i].told = 1;
    } else if (kind == MSG) {
        FI_OK(fi_send(SIDE->ep, &from[i], 8, NULL, SIDE->self, &sends[i]));
    } else if (kind == VECTORS) {
        FI_OK(fi_tsendv(SIDE->ep, halves, NULL, 2, SIDE->self, i, &sends[i]));
    } else if (kind == DATA) {
        FI_OK(fi_tsenddata(SIDE->ep, &from[i], 8, NULL, i + 100, SIDE->self, i, &sends[i]));
    } else {
        FI_OK(fi_tsend(SIDE->ep, &from[i], 8, NULL, SIDE->self, i, &sends[i]));
    }
}

static void check(const struct fi_cq_tagged_entry *entry)
{
    struct wanted *wanted = entry->op_context;

    assert_true((wanted >= sends && wanted < sends + PAIRS) ||
                (wanted >= receives && wanted < receives + PAIRS));
    assert_int_equal(wanted->told++, 0);
    assert_int_equal(wanted->err, 0);
    assert_int_equal(entry->flags, wanted->flags);
    assert_int_equal(entry->len, wanted->len);
    assert_int_equal(entry->tag, wanted->tag);
    assert_int_equal(entry->data, wanted->data);
    assert_null(entry->buf);
}

static void check_error(void)
{
    struct fi_cq_err_entry error = {0};
    struct wanted *wanted;

    FI_GIVES(fi_cq_readerr(SIDE->tx, &error, 0), 1);
    wanted = error.op_context;
    assert_true(wanted >= receives && wanted < receives + PAIRS);
    assert_int_equal(wanted->told++, 0);
    assert_int_equal(error.err, wanted->err);
}

static unsigned told(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < PAIRS; i++)
        count += sends[i].told + receives[i].told;
    return count;
}

static void read_all(size_t at_a_time)
{
    struct fi_cq_tagged_entry entries[64];

    for (unsigned reads = 0; told() < 2 * PAIRS; reads++) {
        ssize_t got = fi_cq_read(SIDE->tx, entries, at_a_time);

        assert_true(reads < 100000);
        if (got == -FI_EAVAIL)
            check_error();
        else if (got != -FI_EAGAIN)
            assert_true(got > 0 && (size_t)got <= at_a_time);
        for (ssize_t k = 0; k < got; k++)
            check(&entries[k]);
    }
    FI_GIVES(fi_cq_read(SIDE->tx, entries, at_a_time), -FI_EAGAIN);
}

/* `kinds`: of the first so many. */
static void mix(uint32_t kinds)
{
    static const size_t at_a_time[] = {64, 32, 7, 1};

    fi_pump(&lab);
    for (unsigned round = 0; round < ROUNDS; round++) {
        enum kind kind[PAIRS];

        seed = round + 1000 * kinds;
        for (unsigned i = 0; i < PAIRS; i++) {
            /* Untagged ones match in their order: they are all posted before they are sent, or one at a time. */
            bool late = random_below(2) && round % 2;

            kind[i] = (enum kind)random_below(kinds);
            from[i] = i + round;
            to[i] = 0;
            if (late && kind[i] != CANCELLED)
                post_send(kind[i], i);
            post_recv(kind[i], i);
            if (!late && round % 2)
                post_send(kind[i], i);
            if (late && kind[i] == CANCELLED)
                post_send(kind[i], i);
        }
        for (unsigned i = 0; i < PAIRS && round % 2 == 0; i++)
            post_send(kind[i], i);
        read_all(at_a_time[round / 2 % 4]);
        for (unsigned i = 0; i < PAIRS; i++)
            if (kind[i] != CANCELLED && kind[i] != TOO_LONG)
                assert_int_equal(to[i], from[i]);
    }
}

static void those_that_nigh_tells(void **state)
{
    (void)state;
    mix(VECTORS);
}

static void with_records(void **state)
{
    (void)state;
    mix(TOO_LONG);
}

static void with_errors(void **state)
{
    (void)state;
    mix(KINDS);
}

/* As long as nigh has some, a read gives some: also behind those that lie together. */
static void no_read_is_empty_before_all_are_told(void **state)
{
    enum { SENDS = 5, RECEIVES = 45 };
    struct fi_cq_tagged_entry entries[64];
    uint64_t word = 7, got[RECEIVES];

    (void)state;
    fi_pump(&lab);
    for (unsigned i = 0; i < RECEIVES; i++)
        FI_OK((int)fi_tinject(SIDE->ep, &word, 8, SIDE->self, i));
    fi_pump(&lab);
    for (unsigned i = 0; i < SENDS; i++)
        FI_OK((int)fi_tsend(SIDE->ep, &word, 8, NULL, SIDE->self, RECEIVES, NULL));
    for (unsigned i = 0; i < RECEIVES; i++)
        FI_OK((int)fi_trecv(SIDE->ep, &got[i], 8, NULL, FI_ADDR_UNSPEC, i, 0, NULL));
    for (ssize_t told = 0, read; told < SENDS + RECEIVES; told += read) {
        read = fi_cq_read(SIDE->tx, entries, 64);
        assert_true(read > 0);
    }
    FI_GIVES(fi_cq_read(SIDE->tx, entries, 64), -FI_EAGAIN);
}

static int open_alone(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){0});
    return 0;
}

static int open_locked(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.threading = FI_THREAD_SAFE});
    return 0;
}

static int open_counted(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.counters = true});
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fi_lab_close(&lab);
    return 0;
}

#define CASES(open)                                                          \
    cmocka_unit_test_setup_teardown(those_that_nigh_tells, open, close_all), \
        cmocka_unit_test_setup_teardown(with_records, open, close_all),      \
        cmocka_unit_test_setup_teardown(with_errors, open, close_all),       \
        cmocka_unit_test_setup_teardown(no_read_is_empty_before_all_are_told, open, close_all)

int main(void)
{
    static const struct CMUnitTest tests[] = {CASES(open_alone), CASES(open_locked), CASES(open_counted)};

    fi_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
