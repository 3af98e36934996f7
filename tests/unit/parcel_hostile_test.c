/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever connects may send anything that calls itself a parcel: what is none costs nothing, is answered by nothing, and
 * disturbs nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/exchange.h"
#include "tests/support/victim.h"
#include <stdlib.h>
#include <string.h>

enum { PACKET_MAX = sizeof(struct nigh_wire) + NIGH_PARCEL_BYTES + 1 };

static struct nigh_rendezvous_events bringing;
static unsigned came;
static uint64_t last;

static void brought(void *user, const struct nigh_identity *from, int pid, const struct nigh_parcel *parcel)
{
    assert_ptr_equal(user, &victim);
    assert_int_not_equal(from->incarnation, 0);
    assert_int_equal(pid, getpid());
    for (unsigned i = 0; i < parcel->count; i++)
        assert_int_equal(close(parcel->fds[i]), 0);
    came++;
    last = parcel->number;
}

static int begin_bringing(void **state)
{
    begin(state);
    came = 0;
    bringing = *victim.config.events;
    bringing.brought = brought;
    victim.rendezvous->events = &bringing;
    return 0;
}

/* A parcel that would be welcome. */
static struct nigh_wire welcome(uint32_t fds)
{
    struct nigh_wire message;

    nigh_wire_begin(&message, NIGH_WIRE_PARCEL, NULL);
    message.job = job;
    message.incarnation = 99;
    message.rank = 1;
    message.to_job = job;
    message.to_incarnation = victim.config.self.incarnation;
    message.fds = fds;
    message.value = 17;
    return message;
}

/* Sends so many bytes that begin with `message`, with so many descriptors. Nothing is answered, and nothing kept. */
static void send_so(const struct nigh_wire *message, size_t bytes, unsigned fds)
{
    static uint8_t packet[PACKET_MAX];
    char answer[1024];
    int fd = knock();

    memcpy(packet, message, sizeof(*message));
    assert_int_equal(send_raw(fd, packet, bytes, fds), 0);
    while (nigh_rendezvous_progress(victim.rendezvous))
        continue;
    assert_int_equal(recv(fd, answer, sizeof(answer), MSG_DONTWAIT), 0);
    close(fd);
    assert_int_equal(osfail_open_fds(), fds_before + 7);
    assert_int_equal(victim.rendezvous->half_open, 0);
}

static void expect_none(const struct nigh_wire *message, size_t bytes, unsigned fds)
{
    unsigned before = came, lines = logged_lines();

    send_so(message, bytes, fds);
    assert_int_equal(came, before);
    assert_int_equal(logged_lines(), lines + 1);
    logged_assert_has("no parcel of version");
}

static void expect_one(const struct nigh_wire *message, size_t bytes, unsigned fds)
{
    unsigned before = came, lines = logged_lines();

    send_so(message, bytes, fds);
    assert_int_equal(came, before + 1);
    assert_int_equal(last, message->value);
    assert_int_equal(logged_lines(), lines);
}

static void wrong_lengths(void **state)
{
    const struct nigh_wire message = welcome(0);

    (void)state;
    expect_none(&message, 16, 0);
    expect_none(&message, sizeof(message) - 1, 0);
    expect_none(&message, PACKET_MAX, 0);
    expect_one(&message, PACKET_MAX - 1, 0);
    expect_one(&message, sizeof(message), 0);
    still_works();
}

static void wrong_counts_of_descriptors(void **state)
{
    static const struct {
        uint32_t said;
        unsigned sent;
    } cases[] = {{0, 1},     {1, 0},          {2, 1},         {1, 2},     {3, 0},     {0, 3},
                 {240, 239}, {239, 240},      {240, 241},     {241, 241}, {240, 250}, {250, 250},
                 {240, 253}, {253, 253},      {0, 253},       {242, 242}, {241, 240}, {240, 242},
                 {4, 253},   {UINT32_MAX, 1}, {UINT32_MAX, 0}};

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct nigh_wire message = welcome(cases[i].said);

        expect_none(&message, sizeof(message) + 100, cases[i].sent);
    }
    for (unsigned count = 0; count <= 240; count += 48) {
        const struct nigh_wire message = welcome(count);

        expect_one(&message, sizeof(message) + 100, count);
    }
    still_works();
}

static void wrong_fields(void **state)
{
    struct nigh_wire message;

    (void)state;
#define WRONG(field, is)  \
    message = welcome(1); \
    message.field = is;   \
    expect_none(&message, sizeof(message), 1)
    WRONG(incarnation, 0);
    WRONG(index, 1);
    WRONG(peers_max, 64);
    WRONG(ranks, 2);
    WRONG(to_incarnation, 0);
    WRONG(error, -EAGAIN);
    WRONG(error, 1);
    WRONG(flags, NIGH_WIRE_KEEP);
    WRONG(flags, 2);
#undef WRONG
    message = welcome(1);
    expect_one(&message, sizeof(message), 1);
    still_works();
}

/* Right in form, but for somebody else. */
static void meant_for_another(void **state)
{
    struct nigh_wire message;

    (void)state;
#define FOR_ANOTHER(field) \
    message = welcome(1);  \
    message.field++;       \
    send_so(&message, sizeof(message), 1)
    FOR_ANOTHER(to_job);
    FOR_ANOTHER(to_rank);
    FOR_ANOTHER(to_incarnation);
#undef FOR_ANOTHER
    assert_int_equal(came, 0);
    assert_int_equal(logged_lines(), 0);
}

/* What is no parcel by its own word goes the way of greetings. */
static void it_is_no_greeting(void **state)
{
    struct nigh_wire message = welcome(3);

    (void)state;
    message.kind = 7;
    assert_int_equal(say(&message, sizeof(message), 3), -EPROTO);
    message.kind = NIGH_WIRE_PARCEL;
    message.version--;
    assert_int_equal(say(&message, sizeof(message), 3), -EPROTO);
    logged_assert_has("a greeting of version 4");
    message = greeting();
    assert_int_equal(say(&message, sizeof(message), 3), 0);
    assert_int_equal(came, 0);
    party_forget(&victim, party_peer(&victim, 1));
    party_for(us, 1, 30);
}

/* In the place of DONE, or of any other message. */
static void a_parcel_finishes_no_attach(void **state)
{
    struct nigh_wire message = welcome(3);
    int fd, pair[2], fds[NIGH_WIRE_FDS];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(send_raw(pair[0], &message, sizeof(message), 3), 0);
    assert_int_equal(nigh_wire_receive(pair[1], &message, fds), -EPROTO);
    close(pair[0]);
    close(pair[1]);
    fd = knock();
    message = greeting();
    assert_int_equal(send_raw(fd, &message, sizeof(message), 3), 0);
    assert_int_equal(verdict(fd), 0);
    message = welcome(0);
    assert_int_equal(send_raw(fd, &message, sizeof(message), 0), 0);
    party_for(us, 1, 30);
    assert_int_equal(came, 0);
    assert_int_equal(party_peer(&victim, 1)->failures, 1);
    close(fd);
    still_works();
}

static void random_parcels(void **state)
{
    unsigned seed = 37;

    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        struct nigh_wire message = welcome(i % 4);
        uint8_t *bytes = (uint8_t *)&message;
        int fd = knock();

        for (unsigned changes = i % 3; changes > 0; changes--)
            bytes[16 + (unsigned)rand_r(&seed) % (sizeof(message) - 16)] ^= (uint8_t)(1 << rand_r(&seed) % 8);
        send_raw(fd, bytes, sizeof(message) - (i % 7 == 0), i % 5);
        if (i % 2)
            close(fd);
        nigh_rendezvous_progress(victim.rendezvous);
        if (i % 2 == 0)
            close(fd);
    }
    party_for(us, 1, 30);
    assert_int_not_equal(came, 0);
    assert_int_equal(victim.rendezvous->half_open, 0);
    still_works();
}

/* Who is silent keeps nobody out, and the order of parcels is asked of those of the same process alone. */
static void others_attach_meanwhile(void **state)
{
    const struct nigh_wire message = welcome(1);
    int fds[NIGH_HALF_OPEN_MAX - 2];

    (void)state;
    for (unsigned i = 0; i < NIGH_HALF_OPEN_MAX - 2; i++) {
        fds[i] = knock();
        if (i % 2 == 0)
            nigh_rendezvous_progress(victim.rendezvous);
    }
    for (unsigned i = 0; i < 50; i++) {
        int fd = knock();

        assert_int_equal(send_raw(fd, &message, sizeof(message), 1), 0);
        close(fd);
    }
    {
        static struct party honest;
        struct party *const two[] = {&victim, &honest};
        struct peer *peer;

        assert_int_equal(party_open(&honest, job, 1000, NULL), 0);
        peer = party_dial(&honest, 0, 0);
        assert_true(party_until(two, 2, 2000, is_attached, peer));
        party_for(two, 2, 30);
        assert_int_equal(came, 50);
        assert_int_equal(victim.rendezvous->half_open, NIGH_HALF_OPEN_MAX - 2);
        party_forget(&victim, party_peer(&victim, 1000));
        party_close(&honest);
    }
    for (unsigned i = 0; i < NIGH_HALF_OPEN_MAX - 2; i++)
        close(fds[i]);
    party_for(us, 1, 30);
    assert_int_equal(victim.rendezvous->half_open, 0);
    still_works();
}

#define BRINGING(name) cmocka_unit_test_setup_teardown(name, begin_bringing, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BRINGING(wrong_lengths),     BRINGING(wrong_counts_of_descriptors),
        BRINGING(wrong_fields),      BRINGING(meant_for_another),
        BRINGING(it_is_no_greeting), BRINGING(a_parcel_finishes_no_attach),
        BRINGING(random_parcels),    BRINGING(others_attach_meanwhile),
    };
    return cmocka_run_group_tests_name("parcel_hostile", tests, NULL, NULL);
}
