/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider's objects through libfabric's calls: what is offered and refused, addresses, queues of every format,
 * waiting, threads, events, the order of closing. */
#include "tests/support/fi.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static struct fi_lab lab;
static char from[64], to[64];

#define TX (&lab.side[0])
#define RX (&lab.side[1])

static int close_all(void **state)
{
    (void)state;
    fi_lab_close(&lab);
    return 0;
}

static int open_all(void **state)
{
    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){0});
    return 0;
}

/* ---- getinfo ------------------------------------------------------------------------------------------- */

static struct fi_info *new_hints(void)
{
    struct fi_info *hints = fi_allocinfo();

    assert_non_null(hints);
    hints->fabric_attr->prov_name = strdup("nigh");
    return hints;
}

static int ask(struct fi_info *hints, const char *node, const char *service, uint64_t flags,
               struct fi_info **info)
{
    int rc = fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints, info);

    fi_freeinfo(hints);
    return rc;
}

static void offers(void **state)
{
    struct fi_info *info;

    (void)state;
    FI_OK(ask(new_hints(), NULL, NULL, 0, &info));
    assert_string_equal(info->fabric_attr->prov_name, "nigh");
    assert_true(info->caps & FI_TAGGED && info->caps & FI_MSG && info->caps & FI_RMA &&
                info->caps & FI_ATOMIC);
    assert_true(info->caps & FI_MULTI_RECV && info->caps & FI_DIRECTED_RECV && info->caps & FI_SOURCE);
    assert_false(info->caps & FI_HMEM);
    assert_int_equal(info->mode, 0);
    assert_int_equal(info->domain_attr->mr_mode, 0);
    assert_int_equal(info->src_addrlen, 64);
    assert_null(info->next);
    fi_freeinfo(info);
}

static void offers_what_is_asked(void **state)
{
    struct fi_info *hints = new_hints(), *info;

    (void)state;
    hints->caps = FI_TAGGED | FI_SEND;
    hints->domain_attr->threading = FI_THREAD_COMPLETION;
    hints->domain_attr->av_type = FI_AV_MAP;
    FI_OK(ask(hints, NULL, NULL, 0, &info));
    assert_int_equal(info->caps & (FI_TAGGED | FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_DIRECTED_RECV),
                     FI_TAGGED | FI_SEND);
    assert_int_equal(info->domain_attr->threading, FI_THREAD_COMPLETION);
    assert_int_equal(info->domain_attr->av_type, FI_AV_MAP);
    fi_freeinfo(info);
}

/* What the provider says on standard error from here to heard(). The file stays open: it would be taken for one of data. */
static int said_fd;

static int hear(void)
{
    int before = dup(STDERR_FILENO);

    said_fd = memfd_create("said", 0);
    assert_true(before >= 0 && said_fd >= 0);
    setenv("FI_LOG_LEVEL", "info", 1);
    fflush(stderr);
    assert_true(dup2(said_fd, STDERR_FILENO) >= 0);
    return before;
}

static const char *heard(int before)
{
    static char said[1 << 16];
    ssize_t bytes;

    fflush(stderr);
    bytes = pread(said_fd, said, sizeof(said) - 1, 0);
    said[bytes > 0 ? bytes : 0] = '\0';
    dup2(before, STDERR_FILENO);
    close(before);
    close(said_fd);
    unsetenv("FI_LOG_LEVEL");
    return said;
}

/* With which hint it was, or nobody finds out why an MPI passes the provider over. */
static void refuse(struct fi_info *hints, const char *reason)
{
    struct fi_info *info = NULL;
    int before = hear(), rc = ask(hints, NULL, NULL, 0, &info);
    const char *said = heard(before), *line = strstr(said, ":nigh:<info> ");

    while (line && strncmp(line + strlen(":nigh:<info> "), reason, strlen(reason)) != 0)
        line = strstr(line + 1, ":nigh:<info> ");
    assert_int_equal(rc, -FI_ENODATA);
    if (!line || !strstr(line, "asked for"))
        fail_msg("nothing about \"%s\" in: %s", reason, said);
}

#define REFUSE(reason, what)                 \
    do {                                     \
        struct fi_info *hints = new_hints(); \
        what;                                \
        refuse(hints, reason);               \
    } while (0)

static void refuses(void **state)
{
    (void)state;
    REFUSE("caps", hints->caps = FI_COLLECTIVE);
    REFUSE("endpoint type", hints->ep_attr->type = FI_EP_MSG);
    REFUSE("endpoint type", hints->ep_attr->type = FI_EP_DGRAM);
    REFUSE("tx_ctx_cnt", hints->ep_attr->tx_ctx_cnt = 2);
    REFUSE("protocol", hints->ep_attr->protocol = FI_PROTO_SHM);
    REFUSE("addr_format", hints->addr_format = FI_SOCKADDR_IN);
    REFUSE("data_progress", hints->domain_attr->data_progress = FI_PROGRESS_AUTO);
    REFUSE("mr_mode", hints->domain_attr->mr_mode = FI_MR_BASIC);
    REFUSE("cq_data_size", hints->domain_attr->cq_data_size = 8);
    REFUSE("domain name", hints->domain_attr->name = strdup("lo"));
    REFUSE("inject_size", hints->tx_attr->inject_size = 1025);
    REFUSE("tx iov_limit", hints->tx_attr->iov_limit = 5);
    REFUSE("tx msg_order", hints->tx_attr->msg_order = FI_ORDER_RAW);
    REFUSE("rx msg_order", hints->rx_attr->msg_order = FI_ORDER_WAS);
    REFUSE("rx comp_order", hints->rx_attr->comp_order = FI_ORDER_STRICT);
}

static void remote_comm_is_the_launchers_affair(void **state)
{
    struct fi_info *info;

    (void)state;
    FI_OK(setenv("NIGH_REMOTE_COMM", "0", 1));
    FI_OK(ask(new_hints(), NULL, NULL, 0, &info));
    assert_false(info->caps & FI_REMOTE_COMM);
    fi_freeinfo(info);
    unsetenv("NIGH_REMOTE_COMM");
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    FI_OK(ask(new_hints(), NULL, NULL, 0, &info));
    assert_false(info->caps & FI_REMOTE_COMM);
    fi_freeinfo(info);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
    FI_OK(ask(new_hints(), NULL, NULL, 0, &info));
    assert_true(info->caps & FI_REMOTE_COMM);
    fi_freeinfo(info);
    unsetenv("OMPI_COMM_WORLD_RANK");
}

static void other_machines(void **state)
{
    struct fi_info *info;

    (void)state;
    FI_GIVES(ask(new_hints(), "192.0.2.1", "7000", 0, &info), -FI_ENODATA);
    FI_OK(ask(new_hints(), "localhost", "7000", 0, &info));
    assert_int_equal(info->dest_addrlen, 64);
    fi_freeinfo(info);
}

/* ---- addresses ----------------------------------------------------------------------------------------- */

static void garbage_is_refused(void **state)
{
    char many[3][64];
    fi_addr_t addresses[3];
    int errors[3] = {-1, -1, -1};
    size_t bytes = 64;
    char back[64];

    (void)state;
    memset(many[0], 0x5a, 64);
    memcpy(many[1], RX->name, 64);
    memcpy(many[2], RX->name, 64);
    many[2][20] ^= 1;
    FI_GIVES(fi_av_insert(TX->av, many, 3, addresses, FI_SYNC_ERR, errors), 1);
    assert_int_equal(addresses[0], FI_ADDR_NOTAVAIL);
    assert_int_equal(addresses[1], 2);
    assert_int_equal(addresses[2], FI_ADDR_NOTAVAIL);
    assert_int_equal(errors[0], FI_EADDRNOTAVAIL);
    assert_int_equal(errors[1], 0);
    FI_OK(fi_av_lookup(TX->av, 2, back, &bytes));
    assert_memory_equal(back, RX->name, 64);
    FI_GIVES(fi_av_lookup(TX->av, 3, back, &bytes), -FI_EINVAL);
    FI_GIVES(fi_tsend(TX->ep, from, 8, NULL, 3, 1, NULL), -FI_EINVAL);
    FI_GIVES(fi_tsend(TX->ep, from, 8, NULL, FI_ADDR_NOTAVAIL, 1, NULL), -FI_EINVAL);
    FI_OK(fi_av_remove(TX->av, &addresses[1], 1, 0));
    FI_GIVES(fi_av_remove(TX->av, &addresses[1], 1, 0), -FI_EINVAL);
    FI_GIVES(fi_av_lookup(TX->av, 2, back, &bytes), -FI_EINVAL);
    assert_int_equal(fi_side_insert(TX, RX->name), 2);
}

static void shared_vectors_are_not(void **state)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .name = "common"};
    struct fid_av *av;

    (void)state;
    FI_GIVES(fi_av_open(lab.domain, &attr, &av, NULL), -FI_ENOSYS);
}

/* A name made of node and service leads to the endpoint that was opened under it. The service is this process'
 * own: names are the whole machine's, on which the test may run twice. */
static void named(void **state)
{
    struct fi_info *mine, *theirs, *all = lab.info;
    struct fi_side server = {0};
    struct fi_cq_tagged_entry entry;
    fi_addr_t address;
    char service[32];
    ssize_t rc;

    (void)state;
    snprintf(service, sizeof(service), "nigh-test-%d", (int)getpid());
    FI_OK(ask(new_hints(), "localhost", service, FI_SOURCE, &mine));
    FI_OK(ask(new_hints(), "127.0.0.1", service, 0, &theirs));
    address = fi_side_insert(TX, theirs->dest_addr);
    FI_OK(fi_tinject(TX->ep, from, 8, address, 5));
    lab.info = mine;
    fi_side_open(&lab, &(struct fi_wish){0}, &server);
    lab.info = all;
    FI_OK(fi_trecv(server.ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, &server));
    while ((rc = fi_cq_read(server.rx, &entry, 1)) == -FI_EAGAIN)
        fi_pump(&lab);
    FI_GIVES(rc, 1);
    assert_ptr_equal(entry.op_context, &server);
    fi_side_close(&server);
    fi_freeinfo(mine);
    fi_freeinfo(theirs);
}

static void sources(void **state)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t source = 0;
    ssize_t rc;

    (void)state;
    /* The receiver has talked to nobody yet. */
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    FI_OK(fi_tinject(TX->ep, from, 8, TX->peer, 5));
    while ((rc = fi_cq_readfrom(RX->rx, &entry, 1, &source)) == -FI_EAGAIN)
        fi_cq_read(TX->tx, NULL, 0);
    FI_GIVES(rc, 1);
    assert_int_equal(source, RX->peer);
}

/* ---- queues -------------------------------------------------------------------------------------------- */

static void formats(void **state)
{
    static const size_t sizes[] = {[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
                                   [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
                                   [FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
                                   [FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry)};

    (void)state;
    for (enum fi_cq_format format = FI_CQ_FORMAT_CONTEXT; format <= FI_CQ_FORMAT_TAGGED; format++) {
        char room[3 * sizeof(struct fi_cq_tagged_entry)];
        struct fi_cq_tagged_entry first = {0}, second = {0};
        size_t got = 0;

        fi_lab_open(&lab, &(struct fi_wish){.format = format});
        memset(room, 0x33, sizeof(room));
        for (uintptr_t i = 0; i < 2; i++) {
            FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5 + i, 0, (void *)(i + 1)));
            FI_OK(fi_tinjectdata(TX->ep, from, 8, 9, TX->peer, 5 + i));
        }
        while (got < 2) {
            ssize_t rc = fi_cq_read(RX->rx, room + got * sizes[format], 2 - got);

            got += rc > 0 ? (size_t)rc : 0;
            fi_cq_read(TX->tx, NULL, 0);
        }
        memcpy(&first, room, sizes[format]);
        memcpy(&second, room + sizes[format], sizes[format]);
        assert_ptr_equal(first.op_context, (void *)1);
        assert_ptr_equal(second.op_context, (void *)2);
        assert_int_equal(room[2 * sizes[format]], 0x33);
        assert_int_equal(second.len, format >= FI_CQ_FORMAT_MSG ? 8 : 0);
        assert_int_equal(second.data, format >= FI_CQ_FORMAT_DATA ? 9 : 0);
        assert_int_equal(second.tag, format == FI_CQ_FORMAT_TAGGED ? 6 : 0);
        fi_lab_close(&lab);
    }
}

/* Only what asks for it is shown. */
static void selective(void **state)
{
    struct iovec part = {from, 8};
    struct fi_msg_tagged loud = {.msg_iov = &part, .iov_count = 1, .context = &loud};

    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.selective = FI_SELECTIVE_COMPLETION});
    loud.addr = TX->peer;
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 0, 0, NULL));
    FI_OK(fi_tsend(TX->ep, from, 8, NULL, TX->peer, 0, NULL));
    fi_quiet(&lab, TX->tx);
    fi_quiet(&lab, RX->rx);
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 0, 0, NULL));
    FI_OK(fi_tsendmsg(TX->ep, &loud, FI_COMPLETION));
    assert_ptr_equal(fi_await(&lab, TX->tx).op_context, &loud);
    fi_quiet(&lab, RX->rx);
    /* Errors come nevertheless. */
    FI_OK(fi_trecv(RX->ep, to, 4, NULL, FI_ADDR_UNSPEC, 0, 0, &to));
    FI_OK(fi_tsend(TX->ep, from, 8, NULL, TX->peer, 0, NULL));
    assert_int_equal(fi_await_error(&lab, RX->rx).err, FI_ETRUNC);
    fi_lab_close(&lab);
}

static _Atomic bool has_come;

/* Until it has come: what connects the two is done in calls of both. */
static void *send_later(void *unused)
{
    (void)unused;
    usleep(50000);
    FI_OK(fi_tinject(TX->ep, from, 8, TX->peer, 5));
    for (int i = 0; i < 90000 && !has_come; i++) {
        fi_cq_read(TX->tx, NULL, 0);
        usleep(1000);
    }
    return NULL;
}

/* Another thread sends: the one that sleeps wakes. By sread, and by the descriptor. */
static void waiting(void **state)
{
    struct fi_cq_tagged_entry entry;
    pthread_t other;
    struct pollfd on = {.events = POLLIN};
    struct fid *fid;
    int rc;

    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE});
    FI_GIVES(fi_cq_sread(RX->rx, &entry, 1, NULL, 10), -FI_EAGAIN);
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, &to));
    has_come = false;
    pthread_create(&other, NULL, send_later, NULL);
    FI_GIVES(fi_cq_sread(RX->rx, &entry, 1, NULL, 100000), 1);
    has_come = true;
    pthread_join(other, NULL);
    assert_ptr_equal(entry.op_context, &to);

    FI_OK(fi_control(&RX->rx->fid, FI_GETWAIT, &on.fd));
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, &to));
    has_come = false;
    pthread_create(&other, NULL, send_later, NULL);
    fid = &RX->rx->fid;
    while ((rc = (int)fi_cq_read(RX->rx, &entry, 1)) == -FI_EAGAIN)
        if (fi_trywait(lab.fabric, &fid, 1) == 0)
            assert_int_equal(poll(&on, 1, 100000), 1);
    FI_GIVES(rc, 1);
    has_come = true;
    pthread_join(other, NULL);

    FI_OK(fi_cq_signal(RX->rx));
    FI_GIVES(fi_cq_sread(RX->rx, &entry, 1, NULL, 10000), -FI_EAGAIN);
    fi_lab_close(&lab);
}

static void *send_many(void *from_side)
{
    for (int i = 0; i < 2000; i++)
        while (fi_tinject(TX->ep, from, 8, TX->peer, (uintptr_t)from_side) == -FI_EAGAIN)
            ;
    return NULL;
}

/* FI_THREAD_SAFE: three threads send on one endpoint while a fourth reads. */
static void threads(void **state)
{
    pthread_t senders[3];

    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.threading = FI_THREAD_SAFE});
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&senders[i], NULL, send_many, (void *)i);
    for (int i = 0; i < 6000; i++) {
        FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, NULL));
        fi_await(&lab, RX->rx);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(senders[i], NULL);
    fi_quiet(&lab, RX->rx);
    fi_lab_close(&lab);
}

/* ---- events, order ------------------------------------------------------------------------------------- */

static void events(void **state)
{
    struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_FD};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
    struct fi_eq_entry entry = {.data = 7};
    struct fi_eq_err_entry error;
    char names[2][64];
    fi_addr_t addresses[2];
    struct fid_eq *eq;
    struct fid_av *av;
    uint32_t event = 0;

    (void)state;
    FI_OK(fi_eq_open(lab.fabric, &attr, &eq, NULL));
    FI_GIVES(fi_eq_sread(eq, &event, &entry, sizeof(entry), 5, 0), -FI_EAGAIN);
    FI_GIVES(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
    entry.data = 0;
    FI_GIVES(fi_eq_read(eq, &event, &entry, sizeof(entry), FI_PEEK), sizeof(entry));
    FI_GIVES(fi_eq_read(eq, &event, &entry, 4, 0), -FI_ETOOSMALL);
    FI_GIVES(fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0), sizeof(entry));
    assert_int_equal(entry.data, 7);
    FI_GIVES(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
    FI_OK(fi_av_open(lab.domain, &av_attr, &av, NULL));
    memcpy(names[0], RX->name, 64);
    memset(names[1], 1, 64);
    FI_GIVES(fi_av_insert(av, names, 2, addresses, 0, &lab), -FI_ENOEQ);
    FI_OK(fi_av_bind(av, &eq->fid, 0));
    FI_OK(fi_av_insert(av, names, 1, addresses, 0, &lab));
    FI_GIVES(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(event, FI_AV_COMPLETE);
    assert_ptr_equal(entry.context, &lab);
    assert_int_equal(entry.data, 1);
    FI_GIVES(fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
    FI_GIVES(fi_close(&eq->fid), -FI_EBUSY);
    FI_OK(fi_close(&av->fid));
    FI_OK(fi_close(&eq->fid));
}

static void closing_in_the_wrong_order(void **state)
{
    struct fid_ep *ep;
    size_t bytes = 64;
    char name[64];

    (void)state;
    FI_GIVES(fi_close(&lab.fabric->fid), -FI_EBUSY);
    FI_GIVES(fi_close(&lab.domain->fid), -FI_EBUSY);
    FI_GIVES(fi_close(&TX->tx->fid), -FI_EBUSY);
    FI_GIVES(fi_close(&TX->av->fid), -FI_EBUSY);
    FI_GIVES(fi_enable(TX->ep), -FI_EOPBADSTATE);
    FI_GIVES(fi_ep_bind(TX->ep, &RX->av->fid, 0), -FI_EOPBADSTATE);
    FI_OK(fi_endpoint(lab.domain, lab.info, &ep, NULL));
    FI_GIVES(fi_enable(ep), -FI_ENOAV);
    FI_GIVES(fi_getname(&ep->fid, name, &bytes), -FI_EOPBADSTATE);
    bytes = 10;
    FI_GIVES(fi_getname(&TX->ep->fid, name, &bytes), -FI_ETOOSMALL);
    assert_int_equal(bytes, 64);
    FI_OK(fi_ep_bind(ep, &RX->av->fid, 0));
    FI_GIVES(fi_enable(ep), -FI_ENOCQ);
    FI_GIVES(fi_tsend(ep, from, 8, NULL, 0, 1, NULL), -FI_EOPBADSTATE);
    FI_GIVES(fi_trecv(ep, to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), -FI_EOPBADSTATE);
    FI_OK(fi_close(&ep->fid));
}

/* Half of the domain's records and more, each time: what is still posted when an endpoint closes goes with it. */
static void what_is_posted_goes_too(void **state)
{
    enum { POSTED = 40000 };
    static char parts[2][64];
    struct iovec iov[2] = {{parts[0], 64}, {parts[1], 64}};
    struct fi_side side = {0};

    (void)state;
    for (int life = 0; life < 3; life++) {
        fi_side_open(&lab, &(struct fi_wish){0}, &side);
        for (uint64_t i = 0; i < POSTED; i++)
            FI_OK(fi_trecvv(side.ep, iov, NULL, 2, FI_ADDR_UNSPEC, i, 0, &side));
        fi_side_close(&side);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(offers),
        cmocka_unit_test(offers_what_is_asked),
        cmocka_unit_test(refuses),
        cmocka_unit_test(remote_comm_is_the_launchers_affair),
        cmocka_unit_test(other_machines),
        CASE(garbage_is_refused),
        CASE(shared_vectors_are_not),
        CASE(named),
        CASE(sources),
        cmocka_unit_test(formats),
        cmocka_unit_test(selective),
        cmocka_unit_test(waiting),
        cmocka_unit_test(threads),
        CASE(events),
        CASE(closing_in_the_wrong_order),
        CASE(what_is_posted_goes_too),
    };

    fi_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
