/* SPDX-License-Identifier: BSD-3-Clause */
/* A host that is wrong: variables that say nothing, calls with what cannot be. Each has its error, variables a line,
 * too, and whatever is sound goes on afterwards. */
#include "tests/support/fi.h"

#include <errno.h>
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
static char from[64] = "goes on", to[64];

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

static int ask(struct fi_info **info)
{
    struct fi_info *hints = fi_allocinfo();
    int rc;

    assert_non_null(hints);
    hints->fabric_attr->prov_name = strdup("nigh");
    rc = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);
    fi_freeinfo(hints);
    return rc;
}

/* ---- variables --------------------------------------------------------------------------------------------------- */

/* What `call` writes to standard error has a line with all of these. */
static void says(void (*call)(void), const char *name, const char *value, const char *valid)
{
    static char said[1 << 16];
    int keep = dup(STDERR_FILENO), file = memfd_create("said", MFD_CLOEXEC);
    const char *line;
    ssize_t bytes;

    assert_true(keep >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    call();
    dup2(keep, STDERR_FILENO);
    bytes = pread(file, said, sizeof(said) - 1, 0);
    said[bytes > 0 ? bytes : 0] = '\0';
    close(keep);
    close(file);
    line = strstr(said, name);
    if (!line || !strstr(line, value) || !strstr(line, valid))
        fail_msg("nothing of %s, \"%s\", \"%s\" in: %s", name, value, valid, said);
}

static int result;

static void asks(void)
{
    struct fi_info *info = NULL;

    result = ask(&info);
    fi_freeinfo(info);
}

static void closes(void)
{
    fi_lab_close(&lab);
}

/* An endpoint that has all it needs; it opens nigh's context. */
static void enables(void)
{
    struct fid_ep *ep;

    FI_OK(fi_endpoint(lab.domain, lab.info, &ep, NULL));
    FI_OK(fi_ep_bind(ep, &TX->av->fid, 0));
    FI_OK(fi_ep_bind(ep, &TX->tx->fid, FI_TRANSMIT | FI_RECV));
    result = fi_enable(ep);
    FI_OK(fi_close(&ep->fid));
}

static void remote_comm(void **state)
{
    static const char *const values[] = {"yes", "2", "01", " 1", "-1"};

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        setenv("NIGH_REMOTE_COMM", values[i], 1);
        says(asks, "NIGH_REMOTE_COMM", values[i], "expected 0 or 1");
        FI_GIVES(result, -FI_ENODATA);
    }
    setenv("NIGH_REMOTE_COMM", "", 1); /* as if it were not set */
    asks();
    FI_OK(result);
    unsetenv("NIGH_REMOTE_COMM");
}

static void account(void **state)
{
    (void)state;
    setenv("NIGH_FI_ACCOUNT", "/nowhere/at/all", 1);
    fi_lab_open(&lab, &(struct fi_wish){0});
    says(closes, "NIGH_FI_ACCOUNT", "/nowhere/at/all", "No such file");
    unsetenv("NIGH_FI_ACCOUNT");
}

/* Of the plugin: no endpoint without it being understood. */
static void ring(void **state)
{
    (void)state;
    setenv("NIGH_RING", "100", 1);
    says(enables, "NIGH_RING", "\"100\"", "a power of two");
    FI_GIVES(result, -FI_EINVAL);
    unsetenv("NIGH_RING");
    enables();
    FI_OK(result);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void exchange(void)
{
    memset(to, 0, sizeof(to));
    FI_OK(fi_trecv(RX->ep, to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, to));
    FI_OK(fi_tinject(TX->ep, from, 8, TX->peer, 1));
    assert_ptr_equal(fi_await(&lab, RX->rx).op_context, to);
    assert_string_equal(to, from);
    fi_quiet(&lab, TX->tx);
    fi_quiet(&lab, RX->rx);
}

static void queues_and_counters(void **state)
{
    struct fi_cq_attr strange = {.format = 99}, flagged = {.flags = FI_PEEK};
    struct fi_cntr_attr events = {.events = 9};
    struct fid_cntr *cntr;
    struct fid_cq *cq;

    (void)state;
    FI_GIVES(fi_cq_open(lab.domain, &strange, &cq, NULL), -FI_ENOSYS);
    FI_GIVES(fi_cq_open(lab.domain, &flagged, &cq, NULL), -FI_EINVAL);
    FI_GIVES(fi_cntr_open(lab.domain, &events, &cntr, NULL), -FI_EINVAL);
    FI_GIVES(fi_cancel(&TX->ep->fid, &strange), -FI_ENOENT);
    exchange();
}

static void binding(void **state)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;
    struct fid_ep *ep;

    (void)state;
    FI_OK(fi_cntr_open(lab.domain, &attr, &cntr, NULL));
    FI_OK(fi_endpoint(lab.domain, lab.info, &ep, NULL));
    FI_GIVES(fi_ep_bind(ep, &TX->tx->fid, 0), -FI_EBADFLAGS);
    FI_GIVES(fi_ep_bind(ep, &TX->tx->fid, FI_TRANSMIT | FI_PEEK), -FI_EBADFLAGS);
    FI_OK(fi_ep_bind(ep, &TX->tx->fid, FI_TRANSMIT));
    FI_GIVES(fi_ep_bind(ep, &RX->tx->fid, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
    FI_OK(fi_ep_bind(ep, &TX->av->fid, 0));
    FI_GIVES(fi_ep_bind(ep, &RX->av->fid, 0), -FI_EINVAL);
    FI_GIVES(fi_ep_bind(ep, &cntr->fid, 0), -FI_EBADFLAGS);
    FI_GIVES(fi_ep_bind(ep, &cntr->fid, FI_MULTI_RECV), -FI_EBADFLAGS);
    FI_GIVES(fi_ep_bind(ep, &lab.fabric->fid, 0), -FI_EINVAL);
    FI_OK(fi_close(&ep->fid));
    FI_OK(fi_close(&cntr->fid));
    exchange();
}

static void options(void **state)
{
    fid_t fid = &TX->ep->fid;
    size_t value = 0, bytes = 4;

    (void)state;
    FI_GIVES(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, sizeof(value)), -FI_EINVAL);
    FI_GIVES(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 4), -FI_EINVAL);
    FI_GIVES(fi_setopt(fid, FI_OPT_ENDPOINT, 12345, &value, sizeof(value)), -FI_ENOPROTOOPT);
    FI_GIVES(fi_setopt(fid, 77, FI_OPT_MIN_MULTI_RECV, &value, sizeof(value)), -FI_ENOPROTOOPT);
    FI_GIVES(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &bytes), -FI_ETOOSMALL);
    FI_GIVES(fi_getopt(fid, FI_OPT_ENDPOINT, 12345, &value, &bytes), -FI_ENOPROTOOPT);
    exchange();
}

/* A table begins with its size. */
static void filled(const void *table, const char *name)
{
    void *slot[32];
    size_t bytes;

    memcpy(&bytes, table, sizeof(bytes));
    assert_in_range(bytes, 2 * sizeof(void *), sizeof(slot));
    memcpy(slot, table, bytes);
    for (size_t i = 1; i < bytes / sizeof(void *); i++)
        if (!slot[i])
            fail_msg("slot %zu of the table of %s is empty", i, name);
}

/* libfabric calls most slots without a look. */
static void no_slot_is_empty(void **state)
{
    struct fi_eq_attr events = {0};
    struct fi_cntr_attr counts = {0};
    struct fid_eq *eq;
    struct fid_cntr *cntr;
    struct fid_mr *mr;

    (void)state;
    FI_OK(fi_eq_open(lab.fabric, &events, &eq, NULL));
    FI_OK(fi_cntr_open(lab.domain, &counts, &cntr, NULL));
    FI_OK(fi_mr_reg(lab.domain, to, 8, FI_REMOTE_READ, 0, 1, 0, &mr, NULL));
    filled(lab.fabric->fid.ops, "fabric, fid");
    filled(lab.fabric->ops, "fabric");
    filled(lab.domain->fid.ops, "domain, fid");
    filled(lab.domain->ops, "domain");
    filled(lab.domain->mr, "domain, mr");
    filled(TX->ep->fid.ops, "endpoint, fid");
    filled(TX->ep->ops, "endpoint");
    filled(TX->ep->cm, "cm");
    filled(TX->ep->msg, "msg");
    filled(TX->ep->tagged, "tagged");
    filled(TX->ep->rma, "rma");
    filled(TX->ep->atomic, "atomic");
    filled(TX->ep->collective, "collective");
    filled(TX->av->fid.ops, "vector, fid");
    filled(TX->av->ops, "vector");
    filled(TX->tx->fid.ops, "queue, fid");
    filled(TX->tx->ops, "queue");
    filled(cntr->fid.ops, "counter, fid");
    filled(cntr->ops, "counter");
    filled(eq->fid.ops, "event queue, fid");
    filled(eq->ops, "event queue");
    filled(mr->fid.ops, "mr, fid");
    FI_OK(fi_close(&mr->fid));
    FI_OK(fi_close(&cntr->fid));
    FI_OK(fi_close(&eq->fid));
}

/* An endpoint that is not enabled has nothing to receive with. */
static void too_early(void **state)
{
    struct iovec parts[2] = {{to, 8}, {to + 8, 8}};
    struct fid_ep *ep;

    (void)state;
    FI_OK(fi_endpoint(lab.domain, lab.info, &ep, NULL));
    FI_GIVES(fi_recv(ep, to, 8, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
    FI_GIVES(fi_trecv(ep, to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), -FI_EOPBADSTATE);
    FI_GIVES(fi_recvv(ep, parts, NULL, 2, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
    FI_GIVES(fi_send(ep, from, 8, NULL, 0, NULL), -FI_EOPBADSTATE);
    FI_OK(fi_close(&ep->fid));
    exchange();
}

/* Nothing of them is posted: what completes afterwards is the exchange alone. */
static void messages(void **state)
{
    struct iovec parts[5] = {{from, 8}, {from, 8}, {from, 8}, {from, 8}, {from, 8}};
    struct iovec small = {to, 8};
    struct fi_msg multi = {.msg_iov = &small, .iov_count = 1, .addr = FI_ADDR_UNSPEC};

    (void)state;
    FI_GIVES(fi_tsend(TX->ep, NULL, 8, NULL, TX->peer, 1, NULL), -EFAULT);
    FI_GIVES(fi_trecv(RX->ep, NULL, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), -EFAULT);
    FI_GIVES(fi_send(TX->ep, from, 8, NULL, TX->peer + 100, NULL), -FI_EINVAL);
    FI_GIVES(fi_recv(RX->ep, to, 8, NULL, RX->peer + 100, NULL), -FI_EINVAL);
    FI_GIVES(fi_sendv(TX->ep, parts, NULL, 5, TX->peer, NULL), -FI_EINVAL);
    FI_GIVES(fi_recvv(RX->ep, parts, NULL, 5, FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
    FI_GIVES(fi_inject(TX->ep, from, 1025, TX->peer), -FI_EMSGSIZE);
    FI_GIVES(fi_recvmsg(RX->ep, &multi, FI_MULTI_RECV), -FI_EINVAL); /* less than FI_OPT_MIN_MULTI_RECV */
    exchange();
}

static void remote_memory(void **state)
{
    struct iovec parts[2] = {{to, 8}, {to + 8, 8}};
    struct fi_mr_attr two = {.mr_iov = parts, .iov_count = 2, .access = FI_REMOTE_READ};
    struct fi_mr_attr one = {.mr_iov = parts, .iov_count = 1, .access = FI_REMOTE_READ};
    struct fi_rma_iov remote[2] = {{0, 8, 1}, {8, 8, 1}};
    struct fi_msg_rma msg = {
        .msg_iov = parts, .iov_count = 1, .addr = TX->peer, .rma_iov = remote, .rma_iov_count = 2};
    struct fid_mr *mr;

    (void)state;
    FI_GIVES(fi_mr_regattr(lab.domain, &two, 0, &mr), -FI_EINVAL);
    FI_GIVES(fi_mr_regattr(lab.domain, &one, FI_PEEK, &mr), -FI_EBADFLAGS);
    one.iface = FI_HMEM_CUDA;
    FI_GIVES(fi_mr_regattr(lab.domain, &one, 0, &mr), -FI_ENOSYS);
    FI_GIVES(fi_readmsg(TX->ep, &msg, 0), -FI_EINVAL);
    FI_GIVES(fi_writemsg(TX->ep, &msg, 0), -FI_EINVAL);
    FI_GIVES(fi_write(TX->ep, NULL, 8, NULL, TX->peer, 0, 1, NULL), -EFAULT);
    /* A key that is none, and memory of the peer's that it has not registered, are known there only. */
    FI_OK(fi_read(TX->ep, to, 8, NULL, TX->peer, 0, 4711, NULL));
    assert_int_equal(fi_await_error(&lab, TX->tx).err, FI_EACCES);
    exchange();
}

/* ---- a peer that refuses --------------------------------------------------------------------------------------- */

static struct fi_side full; /* has room for one peer, which it is itself */

/* One that has not been read yet for each of two sends; `full` must look, too. */
static void await_refusals(void)
{
    static char much[1 << 20]; /* what is short is over when it is posted */
    fi_addr_t there;

    setenv("NIGH_PEERS_MAX", "1", 1);
    fi_side_open(&lab, &(struct fi_wish){0}, &full);
    unsetenv("NIGH_PEERS_MAX");
    FI_OK(fi_tsend(full.ep, from, 1, NULL, fi_side_insert(&full, full.name), 1, NULL));
    there = fi_side_insert(TX, full.name);
    for (int i = 0; i < 2; i++)
        FI_OK(fi_tsend(TX->ep, much, sizeof(much), NULL, there, 1, NULL));
}

/* As fi_await_error(), into an entry that has been filled in. */
static void read_refusal(struct fi_cq_err_entry *error)
{
    struct fi_cq_tagged_entry entry;
    ssize_t rc;

    do {
        fi_cq_read(full.rx, NULL, 0);
        rc = fi_cq_read(TX->tx, &entry, 1);
    } while (rc == -FI_EAGAIN);
    FI_GIVES(rc, -FI_EAVAIL);
    FI_GIVES(fi_cq_readerr(TX->tx, error, 0), 1);
    FI_GIVES(error->err, FI_ECONNRESET);
    FI_GIVES(error->prov_errno, ENOSPC);
    FI_GIVES(error->olen, 0);
}

static void wants_words(const char *words)
{
    if (!strstr(words, "as many peers as it may, 1: set NIGH_PEERS_MAX"))
        fail_msg("\"%s\"", words);
}

/* The words are in the queue's memory, or in the host's, as far as that reaches, and fi_cq_strerror() has them. */
static void refusals(void **state)
{
    char words[512], few[10] = "", none[8] = "unread";
    struct fi_cq_err_entry error = {0};

    (void)state;
    await_refusals();
    read_refusal(&error);
    wants_words(error.err_data);
    assert_int_equal(error.err_data_size, strlen(error.err_data) + 1);
    assert_string_equal(fi_cq_strerror(TX->tx, error.prov_errno, error.err_data, words, sizeof(words)),
                        error.err_data);
    wants_words(words);
    error = (struct fi_cq_err_entry){.err_data = few, .err_data_size = sizeof(few)};
    read_refusal(&error);
    assert_ptr_equal(error.err_data, few);
    assert_int_equal(error.err_data_size, sizeof(few));
    assert_int_equal(strlen(few), sizeof(few) - 1);
    assert_true(lab.info->domain_attr->max_err_data >= sizeof(words) / 2);
    /* An error without words leaves nothing that could be taken for some. */
    error = (struct fi_cq_err_entry){.err_data = none, .err_data_size = sizeof(none)};
    FI_OK(fi_trecv(RX->ep, to, 1, NULL, RX->peer, 9, 0, NULL));
    FI_OK(fi_tsend(TX->ep, from, sizeof(from), NULL, TX->peer, 9, NULL));
    (void)fi_await_error(&lab, RX->rx);
    FI_OK(fi_trecv(RX->ep, to, 1, NULL, RX->peer, 9, 0, NULL));
    FI_OK(fi_tsend(TX->ep, from, sizeof(from), NULL, TX->peer, 9, NULL));
    do {
        fi_pump(&lab);
    } while (fi_cq_readerr(RX->rx, &error, 0) != 1);
    assert_int_equal(error.err, FI_ETRUNC);
    assert_int_equal(error.err_data_size, 0);
    assert_string_equal(none, "");
    assert_string_equal(fi_cq_strerror(RX->rx, error.prov_errno, none, NULL, 0), strerror(EMSGSIZE));
    fi_side_close(&full);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(remote_comm),
        cmocka_unit_test(account),
        CASE(ring),
        CASE(queues_and_counters),
        CASE(binding),
        CASE(options),
        CASE(no_slot_is_empty),
        CASE(too_early),
        CASE(messages),
        CASE(remote_memory),
        CASE(refusals),
    };

    fi_find();
    unsetenv("FI_LOG_LEVEL");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
