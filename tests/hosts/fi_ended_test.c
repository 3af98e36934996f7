/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that come and go, and whose addresses stay in the vector, as MPIs leave them there: an endpoint that lives on has
 * as many descriptors and mappings, and as much memory, as before, and more of them than it may have at one time. An
 * argument is how many there are.
 */
#include "tests/support/fi.h"
#include "tests/support/footprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* More than the 1024 that an endpoint may have at one time. */
static unsigned rounds = 1100;
enum { WARM = 100, LONG = 100000 };

static struct fi_lab lab;
static const struct fi_wish wish;
static struct fi_side guest;
static char out[LONG], in[LONG];

#define HOST (&lab.side[0])

static int open_all(void **state)
{
    (void)state;
    fi_lab_open(&lab, &wish);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fi_lab_close(&lab);
    return 0;
}

/* One completion of `side`; 0: none. */
static ssize_t poll_side(const struct fi_side *side)
{
    struct fi_cq_tagged_entry entry;
    ssize_t got = fi_cq_read(side->rx, &entry, 1);

    assert_true(got == 1 || got == -FI_EAGAIN);
    return got == 1;
}

static void send_from(const struct fi_side *side, fi_addr_t to, const struct fi_side *receiver,
                      fi_addr_t from, size_t bytes)
{
    ssize_t sent = 0, received = 0, rc;

    memset(in, 0, bytes);
    FI_OK(fi_trecv(receiver->ep, in, bytes, NULL, from, 7, 0, NULL));
    do {
        rc = fi_tsend(side->ep, out, bytes, NULL, to, 7, NULL);
        received += poll_side(receiver);
    } while (rc == -FI_EAGAIN);
    FI_OK(rc);
    while (sent + received < 2) {
        sent += poll_side(side);
        received += poll_side(receiver);
    }
    assert_memory_equal(in, out, bytes);
}

/* What is sent to who has left fails, at once or a little later. */
static void fails(fi_addr_t to)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc = fi_tsend(HOST->ep, out, 8, NULL, to, 7, NULL);

    if (rc == -FI_ECONNRESET)
        return;
    FI_OK(rc);
    do
        rc = fi_cq_read(HOST->tx, &entry, 1);
    while (rc == -FI_EAGAIN);
    if (rc == 1) /* it had not been seen yet that the peer was about to go */
        return;
    FI_GIVES(rc, -FI_EAVAIL);
    FI_GIVES(fi_cq_readerr(HOST->tx, &error, 0), 1);
    FI_GIVES(error.err, FI_ECONNRESET);
}

static fi_addr_t play(unsigned kind)
{
    fi_addr_t there, here;

    guest = (struct fi_side){0};
    fi_side_open(&lab, &wish, &guest);
    there = fi_side_insert(HOST, guest.name);
    here = fi_side_insert(&guest, HOST->name);
    if (kind % 3 == 0) /* the host does not talk to it */
        send_from(&guest, here, HOST, FI_ADDR_UNSPEC, LONG);
    if (kind % 3 == 1)
        send_from(HOST, there, &guest, here, LONG);
    if (kind % 3 == 2)
        send_from(&guest, here, HOST, there, 8);
    fi_side_close(&guest);
    for (unsigned i = 0; i < 1500; i++) /* a sweep */
        poll_side(HOST);
    return there;
}

static void addresses_stay(void **state)
{
    fi_addr_t first = FI_ADDR_NOTAVAIL, last = FI_ADDR_NOTAVAIL;
    struct footprint before;
    bool same = false;

    (void)state;
    for (unsigned i = 0; i < WARM; i++) {
        last = play(i);
        first = i == 1 ? last : first;
    }
    for (unsigned batch = 0; batch < 2 && !same; batch++) { /* a loaded machine makes pools grow once */
        before = footprint_now();
        for (unsigned i = 0; i < rounds; i++)
            last = play(i);
        same = footprint_is_as(&before, rounds, 1);
    }
    assert_true(same);
    fails(last);
    fails(first); /* forgotten long ago */
    FI_GIVES(fi_trecv(HOST->ep, in, 8, NULL, first, 7, 0, NULL), -FI_ECONNRESET);
}

/* An index that is given again is nobody's past. */
static void address_leaves_and_another_comes(void **state)
{
    fi_addr_t there = FI_ADDR_NOTAVAIL, again;

    (void)state;
    for (unsigned i = 0; i < 60; i++)
        there = play(1);
    fails(there);
    for (fi_addr_t i = there - 40; i <= there; i++) {
        FI_OK(fi_av_remove(HOST->av, &i, 1, 0));
        again = play(1); /* which sends there */
        assert_true(again == i);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(addresses_stay, open_all, close_all),
        cmocka_unit_test_setup_teardown(address_leaves_and_another_comes, open_all, close_all),
    };

    if (argc > 1)
        rounds = (unsigned)atoi(argv[1]);
    memset(out, 4, sizeof(out));
    fi_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
