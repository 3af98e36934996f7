/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/fi.c - see fi.h. */
#include "tests/support/fi.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT_S 100 /* nothing here takes as long, on a busy machine either */

void fi_check(long got, long expected, const char *what, const char *file, int line)
{
    if (got == expected)
        return;
    print_error("%s:%d: %s is %ld (%s), not %ld (%s)\n", file, line, what, got, fi_strerror((int)-got),
                expected, fi_strerror((int)-expected));
    _fail(file, line);
}

void fi_find(void)
{
    const char *build = getenv("NIGH_BUILDDIR");
    char path[4096];

    snprintf(path, sizeof(path), "%s/hosts/libfabric/.libs", build ? build : ".");
    if (setenv("FI_PROVIDER_PATH", path, 1) || setenv("FI_PROVIDER", "nigh", 1))
        abort();
    strncat(path, "/libnigh-fi.so", sizeof(path) - strlen(path) - 1);
    if (access(path, R_OK) == 0)
        return;
    printf("skipped: no provider in %s\n", path);
    exit(77);
}

/* ---- sides --------------------------------------------------------------------------------------------- */

static struct fid_cq *new_cq(struct fi_lab *lab, const struct fi_wish *wish)
{
    struct fi_cq_attr attr = {
        .size = 64,
        .format = wish->format ? wish->format : FI_CQ_FORMAT_TAGGED,
        .wait_obj = wish->wait,
    };
    struct fid_cq *cq = NULL;

    FI_OK(fi_cq_open(lab->domain, &attr, &cq, NULL));
    return cq;
}

static void open_counters(struct fi_lab *lab, struct fi_side *side)
{
    static const uint64_t kinds[FI_COUNTERS] = {FI_SEND,  FI_RECV,        FI_READ,
                                                FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE};
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};

    for (int i = 0; i < FI_COUNTERS; i++) {
        FI_OK(fi_cntr_open(lab->domain, &attr, &side->cntr[i], NULL));
        FI_OK(fi_ep_bind(side->ep, &side->cntr[i]->fid, kinds[i]));
    }
}

void fi_side_open(struct fi_lab *lab, const struct fi_wish *wish, struct fi_side *side)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    size_t bytes = sizeof(side->name);

    FI_OK(fi_endpoint(lab->domain, lab->info, &side->ep, NULL));
    FI_OK(fi_av_open(lab->domain, &av, &side->av, NULL));
    FI_OK(fi_ep_bind(side->ep, &side->av->fid, 0));
    if (!side->tx)
        side->tx = new_cq(lab, wish);
    side->rx = wish->apart ? new_cq(lab, wish) : side->tx;
    FI_OK(fi_ep_bind(side->ep, &side->tx->fid, FI_TRANSMIT | wish->selective));
    FI_OK(fi_ep_bind(side->ep, &side->rx->fid, FI_RECV | wish->selective));
    if (wish->counters)
        open_counters(lab, side);
    FI_OK(fi_enable(side->ep));
    FI_OK(fi_getname(&side->ep->fid, side->name, &bytes));
    FI_GIVES((long)bytes, 64);
}

void fi_side_close(struct fi_side *side)
{
    if (!side->ep)
        return;
    FI_OK(fi_close(&side->ep->fid));
    for (int i = 0; i < FI_COUNTERS; i++)
        if (side->cntr[i])
            FI_OK(fi_close(&side->cntr[i]->fid));
    FI_OK(fi_close(&side->av->fid));
    if (side->rx != side->tx)
        FI_OK(fi_close(&side->rx->fid));
    if (side->tx)
        FI_OK(fi_close(&side->tx->fid));
    *side = (struct fi_side){0};
}

fi_addr_t fi_side_insert(struct fi_side *side, const void *name)
{
    fi_addr_t address = FI_ADDR_NOTAVAIL;

    FI_GIVES(fi_av_insert(side->av, name, 1, &address, 0, NULL), 1);
    return address;
}

/* ---- the lab ------------------------------------------------------------------------------------------- */

static void ask(struct fi_lab *lab, const struct fi_wish *wish)
{
    struct fi_info *hints = fi_allocinfo();

    assert_non_null(hints);
    hints->caps = wish->caps;
    hints->fabric_attr->prov_name = strdup("nigh");
    hints->domain_attr->threading = wish->threading ? wish->threading : FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = wish->mr_mode;
    hints->tx_attr->op_flags = wish->tx_op_flags;
    hints->rx_attr->op_flags = wish->rx_op_flags;
    FI_OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &lab->info));
    fi_freeinfo(hints);
}

void fi_lab_open(struct fi_lab *lab, const struct fi_wish *wish)
{
    *lab = (struct fi_lab){0};
    ask(lab, wish);
    FI_OK(fi_fabric(lab->info->fabric_attr, &lab->fabric, NULL));
    FI_OK(fi_domain(lab->fabric, lab->info, &lab->domain, NULL));
    fi_side_open(lab, wish, &lab->side[0]);
    if (wish->shared)
        lab->side[1].tx = lab->side[0].tx;
    fi_side_open(lab, wish, &lab->side[1]);
    for (int i = 0; i < 2; i++) {
        /* Indices that differ, so that one cannot pass for the other. */
        lab->side[i].self = fi_side_insert(&lab->side[i], lab->side[i].name);
        lab->side[i].peer = fi_side_insert(&lab->side[i], lab->side[1 - i].name);
    }
}

void fi_lab_close(struct fi_lab *lab)
{
    struct fid_cq *common = lab->side[0].tx == lab->side[1].tx ? lab->side[0].tx : NULL;

    if (common)
        lab->side[0].tx = lab->side[0].rx = NULL;
    fi_side_close(&lab->side[0]);
    fi_side_close(&lab->side[1]);
    FI_OK(fi_close(&lab->domain->fid));
    FI_OK(fi_close(&lab->fabric->fid));
    fi_freeinfo(lab->info);
}

/* ---- completions --------------------------------------------------------------------------------------- */

void fi_pump(struct fi_lab *lab)
{
    for (int i = 0; i < 2; i++) {
        if (!lab->side[i].ep)
            continue;
        fi_cq_read(lab->side[i].tx, NULL, 0);
        fi_cq_read(lab->side[i].rx, NULL, 0);
    }
}

static ssize_t next(struct fi_lab *lab, struct fid_cq *cq, struct fi_cq_tagged_entry *entry)
{
    time_t end = time(NULL) + LIMIT_S;
    ssize_t rc;

    while ((rc = fi_cq_read(cq, entry, 1)) == -FI_EAGAIN) {
        fi_pump(lab);
        if (time(NULL) > end)
            fail_msg("nothing came for %d s", LIMIT_S);
    }
    return rc;
}

struct fi_cq_tagged_entry fi_await(struct fi_lab *lab, struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry = {0};
    struct fi_cq_err_entry error = {0};
    ssize_t rc = next(lab, cq, &entry);

    if (rc == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1)
        fail_msg("a completion is an error: %d (%s)", error.err, fi_strerror(error.err));
    FI_GIVES(rc, 1);
    return entry;
}

struct fi_cq_err_entry fi_await_error(struct fi_lab *lab, struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};

    FI_GIVES(next(lab, cq, &entry), -FI_EAVAIL);
    FI_GIVES(fi_cq_readerr(cq, &error, 0), 1);
    return error;
}

void fi_quiet(struct fi_lab *lab, struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < 200; i++) {
        fi_pump(lab);
        FI_GIVES(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
    }
}

int fi_try(struct fi_lab *lab, struct fid *fid)
{
    return fi_trywait(lab->fabric, &fid, 1);
}

void fi_watch(struct fi_lab *lab, struct fid *fid)
{
    time_t end = time(NULL) + LIMIT_S;

    while (fi_try(lab, fid) == -FI_EAGAIN && time(NULL) < end)
        fi_pump(lab);
    FI_OK(fi_try(lab, fid));
}

static bool is_readable_within(struct fid *fid, int ms)
{
    struct pollfd on = {.events = POLLIN};

    FI_OK(fi_control(fid, FI_GETWAIT, &on.fd));
    return poll(&on, 1, ms) == 1;
}

bool fi_is_readable(struct fid *fid)
{
    return is_readable_within(fid, 0);
}

bool fi_gets_readable(struct fid *fid)
{
    return is_readable_within(fid, LIMIT_S * 1000);
}
