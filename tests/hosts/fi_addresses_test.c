/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of processes that this one cannot reach: of another machine or boot, another network
 * namespace, another user. Each is a real address with one field changed and its checksum made right
 * again, as it would come from there. */
#include "tests/support/fi.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* Where the fields lie: shm/address.c. */
enum { USER = 12, MACHINE = 16, NETWORK = 24, CHECK = 56, BYTES = 64 };

static struct fi_lab lab;
static char said[4096];

#define TX (&lab.side[0])
#define RX (&lab.side[1])

static int open_all(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){0});
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fi_lab_close(&lab);
    return 0;
}

/* FNV-1a over all before it. */
static void seal(unsigned char name[BYTES])
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; i < CHECK; i++)
        sum = (sum ^ name[i]) * UINT64_C(0x100000001b3);
    memcpy(name + CHECK, &sum, sizeof(sum));
}

/* The receiver's address, as from a place that differs in the field at `at`. */
static void from_elsewhere(int at, unsigned char name[BYTES])
{
    memcpy(name, RX->name, BYTES);
    name[at] ^= 1;
    seal(name);
}

/* fi_av_insert() of one address; what it has written to stderr is in `said`. */
static int insert(const void *name, fi_addr_t *address, int *error)
{
    int keep = dup(STDERR_FILENO), file = memfd_create("said", MFD_CLOEXEC), done;
    ssize_t bytes;

    assert_true(keep >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    done = fi_av_insert(TX->av, name, 1, address, FI_SYNC_ERR, error);
    dup2(keep, STDERR_FILENO);
    bytes = pread(file, said, sizeof(said) - 1, 0);
    said[bytes > 0 ? bytes : 0] = '\0';
    close(keep);
    close(file);
    return done;
}

static void refused(int at, int error, const char *why)
{
    unsigned char name[BYTES];
    fi_addr_t address = 0;
    int found = 0;

    from_elsewhere(at, name);
    assert_int_equal(insert(name, &address, &found), 0);
    assert_int_equal(address, FI_ADDR_NOTAVAIL);
    assert_int_equal(found, error);
    if (!strstr(said, "address refused: ") || !strstr(said, why))
        fail_msg("it was said: \"%s\", and not \"%s\"", said, why);
}

/* The checksum of this file is the library's own: an address that is only sealed again is as good as it was. */
static void own_is_taken(void **state)
{
    unsigned char name[BYTES];
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    int error = -1;

    (void)state;
    memcpy(name, RX->name, BYTES);
    seal(name);
    assert_memory_equal(name, RX->name, BYTES);
    assert_int_equal(insert(name, &address, &error), 1);
    assert_int_equal(error, 0);
    assert_string_equal(said, "");
}

static void of_another_machine(void **state)
{
    (void)state;
    refused(MACHINE, EHOSTUNREACH, "another machine");
}

static void of_another_network(void **state)
{
    (void)state;
    refused(NETWORK, EHOSTUNREACH, "network namespace");
}

static void of_another_user(void **state)
{
    (void)state;
    refused(USER, EACCES, "another user");
}

/* Nothing was refused by accident, and nothing of it stays: the vector goes on as before. */
static void vector_goes_on(void **state)
{
    char from[8] = "still", to[8] = "";

    of_another_machine(state);
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, to));
    FI_OK(fi_tinject(TX->ep, from, 8, TX->peer, 1));
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, to);
    assert_string_equal(to, "still");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(own_is_taken),    CASE(of_another_machine), CASE(of_another_network),
        CASE(of_another_user), CASE(vector_goes_on),
    };

    fi_find();
    unsetenv("FI_LOG_LEVEL");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
