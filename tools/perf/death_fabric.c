/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/perf/death_fabric.c - a death as a program over libfabric hears of it. libfabric is loaded where it is there; nothing
 * is linked with it. */
#include "tools/perf/death.h"

#include "tools/mpi/over.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PERF_WITH_LIBFABRIC
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

enum { TAG = 52 };

struct side {
    struct perf_rank *me;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    fi_addr_t peer;
    uint64_t word;
};

static void *library(void)
{
    return dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
}

bool perf_death_has_fabric(char *why, size_t room, char *providers, size_t size)
{
    if (!library()) {
        snprintf(why, room, "%s", dlerror());
        return false;
    }
    return mpi_providers(providers, size, why, room) == 0;
}

static void must(const struct side *side, const char *call, long rc)
{
    if (rc != 0)
        perf_fail(side->me, "death: %s: %s", call, strerror((int)-rc));
}

/* What libfabric's headers do not do by calling through a struct. */
static struct fi_info *ask(const struct side *side, const char *providers, const char *plugin)
{
    struct fi_info *(*dup)(const struct fi_info *), *hints, *info = NULL;
    int (*get)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
    void *object = library();

    setenv("FI_PROVIDER_PATH", providers, 1);
    setenv("FI_PROVIDER", "nigh", 1);
    setenv("NIGH_PLUGIN", plugin, 1);
    *(void **)&dup = dlsym(object, "fi_dupinfo");
    *(void **)&get = dlsym(object, "fi_getinfo");
    hints = dup ? dup(NULL) : NULL;
    if (!hints || !get)
        perf_fail(side->me, "death: libfabric has no fi_dupinfo() or no fi_getinfo()");
    hints->fabric_attr->prov_name = strdup("nigh");
    must(side, "fi_getinfo", get(FI_VERSION(1, 15), NULL, NULL, 0, hints, &info));
    return info;
}

static void open_fabric(struct side *side, struct fi_info *info)
{
    int (*open_it)(struct fi_fabric_attr *, struct fid_fabric **, void *);

    *(void **)&open_it = dlsym(library(), "fi_fabric");
    must(side, "fi_fabric", open_it ? open_it(info->fabric_attr, &side->fabric, NULL) : -FI_ENOSYS);
    must(side, "fi_domain", fi_domain(side->fabric, info, &side->domain, NULL));
}

/* As victim (0) or survivor (1), and when the other one is there its address. */
static void open_side(struct side *side, struct perf_rank *me, struct perf_death *death, unsigned which)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.size = 16, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
    size_t bytes = sizeof(death->name[0]);
    struct fi_info *info;

    *side = (struct side){.me = me};
    info = ask(side, death->providers, death->plugin);
    open_fabric(side, info);
    must(side, "fi_endpoint", fi_endpoint(side->domain, info, &side->ep, NULL));
    must(side, "fi_av_open", fi_av_open(side->domain, &av, &side->av, NULL));
    must(side, "fi_cq_open", fi_cq_open(side->domain, &cq, &side->cq, NULL));
    must(side, "fi_ep_bind", fi_ep_bind(side->ep, &side->av->fid, 0));
    must(side, "fi_ep_bind", fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
    must(side, "fi_enable", fi_enable(side->ep));
    must(side, "fi_getname", fi_getname(&side->ep->fid, death->name[which], &bytes));
    perf_give(&death->name_set[which], 1);
    while (!perf_take(&death->name_set[1 - which]))
        fi_cq_read(side->cq, NULL, 0);
    if (fi_av_insert(side->av, death->name[1 - which], 1, &side->peer, 0, NULL) != 1)
        perf_fail(me, "death: fi_av_insert has failed");
}

/* Of the next completion: 0, an error's number, or -1 for none yet. */
static int next(const struct side *side, bool sleeps)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t n = sleeps ? fi_cq_sread(side->cq, &entry, 1, NULL, -1) : fi_cq_read(side->cq, &entry, 1);

    if (n == 1)
        return 0;
    return n == -FI_EAVAIL && fi_cq_readerr(side->cq, &error, 0) == 1 ? error.err : -1;
}

static void must_complete(const struct side *side)
{
    int error;

    while ((error = next(side, false)) < 0)
        continue;
    must(side, "a message over libfabric", -error);
}

static void fabric_lives(struct perf_rank *me, struct perf_death *death)
{
    static struct side side;
    ssize_t rc;

    open_side(&side, me, death, 0);
    while ((rc = fi_tsend(side.ep, &side.word, sizeof(side.word), NULL, side.peer, TAG, NULL)) == -FI_EAGAIN)
        fi_cq_read(side.cq, NULL, 0);
    must(&side, "fi_tsend", rc);
    must_complete(&side);
    while (!perf_take(&death->survivor_ready))
        fi_cq_read(side.cq, NULL, 0);
}

static void fabric_survives(struct perf_rank *me, struct perf_death *death, enum perf_death_wait how)
{
    static struct side side;
    int error;

    open_side(&side, me, death, 1);
    for (unsigned i = 0; i < 2; i++) {
        must(&side, "fi_trecv",
             fi_trecv(side.ep, &side.word, sizeof(side.word), NULL, side.peer, TAG, 0, NULL));
        if (i == 0)
            must_complete(&side);
    }
    perf_death_begin(death);
    while ((error = next(&side, how == PERF_DEATH_BLOCKED)) < 0)
        continue;
    if (error != ECONNRESET)
        must(&side, "the receive from the dead", error ? -error : -EPROTO);
}
#else
bool perf_death_has_fabric(char *why, size_t room, char *providers, size_t size)
{
    (void)providers, (void)size;
    snprintf(why, room, "nigh-perf was built without libfabric's headers");
    return false;
}

static void fabric_lives(struct perf_rank *me, struct perf_death *death)
{
    (void)death;
    perf_fail(me, "death: built without libfabric");
}

static void fabric_survives(struct perf_rank *me, struct perf_death *death, enum perf_death_wait how)
{
    (void)how;
    fabric_lives(me, death);
}
#endif

const struct perf_death_layer perf_death_fabric = {
    "libfabric", fabric_lives, fabric_survives, {true, true, false}};
