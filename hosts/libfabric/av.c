/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/av.c - the address vector: a table whose index is the fi_addr, whatever type the host asks for. */
#include "hosts/libfabric/eq.h"
#include "hosts/libfabric/log.h"
#include "hosts/libfabric/peer.h"
#include "hosts/libfabric/provider.h"
#include "hosts/libfabric/refuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct nigh_fi_av *av_of(struct fid *fid)
{
    return (struct nigh_fi_av *)(void *)fid;
}

static int reserve(struct nigh_fi_av *av, size_t count)
{
    size_t room = av->room ? av->room : 64;
    struct nigh_fi_address *entries;

    while (room < count)
        room *= 2;
    if (room == av->room)
        return 0;
    entries = realloc(av->entries, room * sizeof(*entries));
    if (!entries)
        return -FI_ENOMEM;
    memset(entries + av->room, 0, (room - av->room) * sizeof(*entries));
    av->entries = entries;
    av->room = room;
    return 0;
}

/* The lowest index that is free, as tables promise. */
static int place(struct nigh_fi_av *av, size_t *index)
{
    size_t at = av->used == av->count ? av->count : 0;
    int rc;

    while (at < av->count && av->entries[at].used)
        at++;
    rc = reserve(av, at + 1);
    if (rc)
        return rc;
    if (at == av->count)
        av->count++;
    *index = at;
    return 0;
}

/* What no endpoint can judge yet is judged when it is first talked to. */
static int insert_one(struct nigh_fi_av *av, const void *from, fi_addr_t *out)
{
    struct nigh_address address;
    size_t index;
    int rc;

    memcpy(&address, from, sizeof(address));
    rc = av->eps ? nigh_fi_peer_check(av->eps, &address) : 0;
    if (!rc)
        rc = place(av, &index);
    if (rc)
        return rc;
    av->entries[index].address = address;
    av->entries[index].used = true;
    av->used++;
    *out = index;
    return 0;
}

static void report(struct nigh_fi_av *av, void *context, size_t done, const int *errors, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (errors[i])
            nigh_fi_eq_error(av->eq, &av->fid.fid, context, i, -errors[i]);
    nigh_fi_eq_event(av->eq, FI_AV_COMPLETE, &av->fid.fid, context, done);
}

static int insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags,
                  void *context)
{
    struct nigh_fi_av *av = av_of(&fid->fid);
    bool later = av->flags & FI_EVENT;
    int *errors = flags & FI_SYNC_ERR ? context : NULL, *owned = NULL, done = 0;

    if ((!addr && count) || flags & ~(FI_MORE | FI_SYNC_ERR) || (flags & FI_SYNC_ERR && (!context || later)))
        return -FI_EINVAL;
    if (later && !av->eq)
        return -FI_ENOEQ;
    if (later && !(errors = owned = calloc(count + 1, sizeof(int))))
        return -FI_ENOMEM;
    nigh_fi_lock(av->domain);
    for (size_t i = 0; i < count; i++) {
        fi_addr_t index = FI_ADDR_NOTAVAIL;
        int rc = insert_one(av, (const char *)addr + i * NIGH_ADDRESS_BYTES, &index);

        done += !rc;
        if (fi_addr)
            fi_addr[i] = index;
        if (errors)
            errors[i] = later ? rc : -rc;
    }
    nigh_fi_unlock(av->domain);
    if (later)
        report(av, context, (size_t)done, errors, count);
    free(owned);
    return later ? 0 : done;
}

static int no_insertsvc(struct fid_av *av, const char *node, const char *service, fi_addr_t *fi_addr,
                        uint64_t flags, void *context)
{
    (void)av, (void)node, (void)service, (void)fi_addr, (void)flags, (void)context;
    return -FI_ENOSYS;
}

static int no_insertsym(struct fid_av *av, const char *node, size_t nodecnt, const char *service,
                        size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    (void)av, (void)node, (void)nodecnt, (void)service, (void)svccnt, (void)fi_addr, (void)flags,
        (void)context;
    return -FI_ENOSYS;
}

static int remove_addresses(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    struct nigh_fi_av *av = av_of(&fid->fid);
    int rc = 0;

    if (flags || (!fi_addr && count))
        return -FI_EINVAL;
    nigh_fi_lock(av->domain);
    for (size_t i = 0; i < count; i++) {
        if (fi_addr[i] >= av->count || !av->entries[fi_addr[i]].used) {
            rc = -FI_EINVAL;
            continue;
        }
        for (struct nigh_fi_ep *ep = av->eps; ep; ep = ep->next_av)
            nigh_fi_peer_drop(ep, fi_addr[i]);
        av->entries[fi_addr[i]].used = false;
        av->used--;
    }
    nigh_fi_unlock(av->domain);
    return rc;
}

static int lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
    struct nigh_fi_av *av = av_of(&fid->fid);
    size_t room = *addrlen;
    bool known;

    nigh_fi_lock(av->domain);
    known = fi_addr < av->count && av->entries[fi_addr].used;
    if (known)
        memcpy(addr, &av->entries[fi_addr].address, room < NIGH_ADDRESS_BYTES ? room : NIGH_ADDRESS_BYTES);
    nigh_fi_unlock(av->domain);
    if (!known)
        return -FI_EINVAL;
    *addrlen = NIGH_ADDRESS_BYTES;
    return room < NIGH_ADDRESS_BYTES ? -FI_ETOOSMALL : 0;
}

static const char *straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
    const uint8_t *bytes = addr;
    char text[7 + 2 * NIGH_ADDRESS_BYTES + 1] = "nigh://";

    (void)fid;
    for (size_t i = 0; i < NIGH_ADDRESS_BYTES; i++)
        snprintf(text + 7 + 2 * i, 3, "%02x", bytes[i]);
    if (*len)
        snprintf(buf, *len, "%s", text);
    *len = sizeof(text);
    return buf;
}

static int no_av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **av_set,
                     void *context)
{
    (void)av, (void)attr, (void)av_set, (void)context;
    return -FI_ENOSYS;
}

static int close_av(struct fid *fid)
{
    struct nigh_fi_av *av = av_of(fid);

    if (nigh_fi_is_held(av->domain, &av->refs))
        return -FI_EBUSY;
    if (av->eq)
        nigh_fi_eq_hold(av->eq, -1);
    nigh_fi_let_go(av->domain);
    free(av->entries);
    free(av);
    return 0;
}

static int bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct nigh_fi_av *av = av_of(fid);

    (void)flags;
    if (!bfid || bfid->fclass != FI_CLASS_EQ || av->eq)
        return -FI_EINVAL;
    av->eq = (struct nigh_fi_eq *)(void *)bfid;
    nigh_fi_eq_hold(av->eq, 1);
    return 0;
}

static struct fi_ops fid_ops = NIGH_FI_OPS(close_av, bind, nigh_fi_no_control);

static struct fi_ops_av av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = insert,
    .insertsvc = no_insertsvc,
    .insertsym = no_insertsym,
    .remove = remove_addresses,
    .lookup = lookup,
    .straddr = straddr,
    .av_set = no_av_set,
};

int nigh_fi_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
    struct nigh_fi_domain *domain = (struct nigh_fi_domain *)(void *)fid;
    struct nigh_fi_av *av;

    if (!attr || attr->type > FI_AV_TABLE || attr->flags & ~(uint64_t)(FI_EVENT | FI_SYMMETRIC))
        return -FI_EINVAL;
    /* A vector shared by name between processes: hosts do without when they hear that there is none, and trust
     * `map_addr` when they do not. */
    if (attr->name)
        return -FI_ENOSYS;
    av = calloc(1, sizeof(*av));
    if (!av)
        return -FI_ENOMEM;
    av->domain = domain;
    if (reserve(av, attr->count < 65536 ? attr->count : 65536)) {
        free(av);
        return -FI_ENOMEM;
    }
    /* A fi_addr is an index in either type. */
    av->type = attr->type = attr->type == FI_AV_UNSPEC ? FI_AV_TABLE : attr->type;
    av->flags = attr->flags;
    av->fid.fid.fclass = FI_CLASS_AV;
    av->fid.fid.context = context;
    av->fid.fid.ops = &fid_ops;
    av->fid.ops = &av_ops;
    nigh_fi_hold(domain);
    *out = &av->fid;
    return 0;
}
