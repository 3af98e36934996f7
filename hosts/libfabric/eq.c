/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/eq.c - the event queue: a list, and a descriptor that is readable while there is something in it. */
#include "hosts/libfabric/eq.h"
#include "hosts/libfabric/log.h"
#include "hosts/libfabric/refuse.h"
#include "hosts/libfabric/wait.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static struct nigh_fi_eq *eq_of(struct fid *fid)
{
    return (struct nigh_fi_eq *)(void *)fid;
}

void nigh_fi_eq_hold(struct nigh_fi_eq *eq, int by)
{
    pthread_mutex_lock(&eq->lock);
    eq->refs += (uint32_t)by;
    pthread_mutex_unlock(&eq->lock);
}

/* ---- queueing ------------------------------------------------------------------------------------------ */

static struct nigh_fi_event *create(uint32_t event, const void *data, size_t bytes)
{
    struct nigh_fi_event *made = calloc(1, sizeof(*made) + bytes);

    if (!made)
        return NULL;
    made->event = event;
    made->bytes = bytes;
    if (bytes)
        memcpy(made->data, data, bytes);
    return made;
}

static bool may_sleep(const struct nigh_fi_eq *eq)
{
    return eq->pair.fd[0] >= 0;
}

/* What is lost costs the event nothing: whoever sleeps looks each second. */
static void append(struct nigh_fi_eq *eq, struct nigh_fi_event *event)
{
    pthread_mutex_lock(&eq->lock);
    if (!eq->head && may_sleep(eq))
        (void)nigh_fi_pair_wake(&eq->pair, 0);
    *eq->tail = event;
    eq->tail = &event->next;
    pthread_mutex_unlock(&eq->lock);
}

void nigh_fi_eq_event(struct nigh_fi_eq *eq, uint32_t event, struct fid *fid, void *context, uint64_t data)
{
    struct fi_eq_entry entry = {.fid = fid, .context = context, .data = data};
    struct nigh_fi_event *made = create(event, &entry, sizeof(entry));

    if (made)
        append(eq, made);
    else
        nigh_fi_log(NIGH_FI_WARN, "no memory: event %u is lost", event);
}

void nigh_fi_eq_error(struct nigh_fi_eq *eq, struct fid *fid, void *context, uint64_t data, int err)
{
    struct nigh_fi_event *made = create(0, NULL, 0);

    if (!made) {
        nigh_fi_log(NIGH_FI_WARN, "no memory: error %d is lost", err);
        return;
    }
    made->err = err;
    made->error.fid = fid;
    made->error.context = context;
    made->error.data = data;
    made->error.err = err;
    made->error.prov_errno = err;
    append(eq, made);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static void drop_first(struct nigh_fi_eq *eq)
{
    struct nigh_fi_event *first = eq->head;

    eq->head = first->next;
    if (!eq->head) {
        eq->tail = &eq->head;
        if (may_sleep(eq))
            nigh_fi_pair_take(&eq->pair, 0);
    }
    free(first);
}

static ssize_t take(struct nigh_fi_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    struct nigh_fi_event *first = eq->head;
    size_t bytes;

    if (!first)
        return -FI_EAGAIN;
    if (first->err)
        return -FI_EAVAIL;
    bytes = first->bytes;
    if (len < bytes)
        return -FI_ETOOSMALL;
    *event = first->event;
    memcpy(buf, first->data, bytes);
    if (!(flags & FI_PEEK))
        drop_first(eq);
    return (ssize_t)bytes;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    struct nigh_fi_eq *eq = eq_of(&fid->fid);
    ssize_t rc;

    pthread_mutex_lock(&eq->lock);
    rc = take(eq, event, buf, len, flags);
    pthread_mutex_unlock(&eq->lock);
    return rc;
}

static ssize_t readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
    struct nigh_fi_eq *eq = eq_of(&fid->fid);
    ssize_t rc = -FI_EAGAIN;

    pthread_mutex_lock(&eq->lock);
    if (eq->head && eq->head->err) {
        *buf = eq->head->error;
        rc = sizeof(*buf);
        if (!(flags & FI_PEEK))
            drop_first(eq);
    }
    pthread_mutex_unlock(&eq->lock);
    return rc;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
    struct nigh_fi_eq *eq = eq_of(&fid->fid);
    struct nigh_fi_event *made;

    if (flags || (!buf && len))
        return -FI_EINVAL;
    if (!eq->writable)
        return -FI_EINVAL;
    made = create(event, buf, len);
    if (!made)
        return -FI_ENOMEM;
    append(eq, made);
    return (ssize_t)len;
}

static ssize_t sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
{
    struct nigh_fi_eq *eq = eq_of(&fid->fid);
    struct pollfd on = {.fd = eq->pair.fd[0], .events = POLLIN};
    uint64_t deadline = nigh_fi_deadline(timeout);
    ssize_t rc;
    int left;

    if (!may_sleep(eq))
        return -FI_ENOSYS;
    /* What woke this thread another one may have read. */
    while ((rc = eq_read(fid, event, buf, len, flags)) == -FI_EAGAIN &&
           (left = nigh_fi_left_ms(deadline)) != 0) {
        rc = nigh_fi_pair_check(&eq->pair);
        if (rc)
            return rc;
        if (poll(&on, 1, left) < 0)
            return -errno;
    }
    return rc;
}

static const char *eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf, size_t len)
{
    (void)eq, (void)err_data;
    return nigh_fi_strerror(prov_errno, NULL, buf, len);
}

/* ---- the object ---------------------------------------------------------------------------------------- */

static int close_eq(struct fid *fid)
{
    struct nigh_fi_eq *eq = eq_of(fid);
    uint32_t refs;

    pthread_mutex_lock(&eq->lock);
    refs = eq->refs;
    pthread_mutex_unlock(&eq->lock);
    if (refs)
        return -FI_EBUSY;
    while (eq->head)
        drop_first(eq);
    nigh_fi_pair_close(&eq->pair);
    pthread_mutex_lock(&eq->fabric->lock);
    eq->fabric->refs--;
    pthread_mutex_unlock(&eq->fabric->lock);
    pthread_mutex_destroy(&eq->lock);
    free(eq);
    return 0;
}

static int control(struct fid *fid, int command, void *arg)
{
    struct nigh_fi_eq *eq = eq_of(fid);
    int rc;

    if (!arg)
        return -FI_EINVAL;
    if (command == FI_GETWAITOBJ) {
        *(enum fi_wait_obj *)arg = eq->wait_obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : eq->wait_obj;
        return 0;
    }
    if (command != FI_GETWAIT)
        return -FI_ENOSYS;
    if (!may_sleep(eq))
        return -FI_ENODATA;
    rc = nigh_fi_pair_check(&eq->pair);
    if (!rc)
        *(int *)arg = eq->pair.fd[0];
    return rc;
}

static struct fi_ops fid_ops = NIGH_FI_OPS(close_eq, nigh_fi_no_bind, control);

static struct fi_ops_eq eq_ops = {
    .size = sizeof(struct fi_ops_eq),
    .read = eq_read,
    .readerr = readerr,
    .write = eq_write,
    .sread = sread,
    .strerror = eq_strerror,
};

int nigh_fi_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **out, void *context)
{
    struct nigh_fi_fabric *fabric = (struct nigh_fi_fabric *)(void *)fid;
    struct nigh_fi_eq *eq;

    if (!attr || attr->flags & ~(uint64_t)(FI_WRITE | FI_AFFINITY))
        return -FI_EINVAL;
    if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_FD)
        return -FI_ENOSYS;
    eq = calloc(1, sizeof(*eq));
    if (!eq)
        return -FI_ENOMEM;
    eq->pair = (struct nigh_fi_pair){.fd = {-1, -1}};
    if (attr->wait_obj != FI_WAIT_NONE && nigh_fi_pair_open(&eq->pair)) {
        free(eq);
        return -FI_EMFILE;
    }
    eq->fabric = fabric;
    eq->tail = &eq->head;
    eq->wait_obj = attr->wait_obj;
    eq->writable = attr->flags & FI_WRITE;
    pthread_mutex_init(&eq->lock, NULL);
    eq->fid.fid.fclass = FI_CLASS_EQ;
    eq->fid.fid.context = context;
    eq->fid.fid.ops = &fid_ops;
    eq->fid.ops = &eq_ops;
    pthread_mutex_lock(&fabric->lock);
    fabric->refs++;
    pthread_mutex_unlock(&fabric->lock);
    *out = &eq->fid;
    return 0;
}
