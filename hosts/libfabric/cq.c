/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/cq.c - the completion queue: reading, waiting, errors. */
#include "hosts/libfabric/complete.h"
#include "hosts/libfabric/log.h"
#include "hosts/libfabric/refuse.h"
#include "hosts/libfabric/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct nigh_fi_cq *cq_of(struct fid_cq *fid)
{
    return (struct nigh_fi_cq *)(void *)fid;
}

/* The formats are prefixes of each other. */
static inline void copy_entry(void *to, const struct fi_cq_tagged_entry *from, size_t bytes)
{
    if (NIGH_FI_LIKELY(bytes == sizeof(*from)))
        memcpy(to, from, sizeof(*from));
    else
        memcpy(to, from, bytes);
}

/* Successes that wait, up to the first error. */
static ssize_t drain(struct nigh_fi_cq *cq, void *buf, size_t count, fi_addr_t *source)
{
    char *at = buf;
    size_t got = 0;

    for (; got < count && cq->head != cq->tail; got++, cq->head++, at += cq->entry_bytes) {
        const struct nigh_fi_staged *first = &cq->staged[cq->head & cq->mask];

        if (first->err)
            return got ? (ssize_t)got : -FI_EAVAIL;
        copy_entry(at, &first->entry, cq->entry_bytes);
        if (source)
            source[got] = first->source;
    }
    return got ? (ssize_t)got : -FI_EAGAIN;
}

/* nigh's completions, in any format and whatever they are, behind the `got` that are in the host's array. */
static __attribute__((noinline)) ssize_t convert(struct nigh_fi_cq *cq, const struct nigh_completion *done,
                                                 uint32_t n, void *buf, size_t got, size_t count,
                                                 fi_addr_t *source)
{
    struct nigh_fi_ep *ep = cq->solo;
    char *at = (char *)buf + got * cq->entry_bytes;

    for (uint32_t i = 0; i < n; i++) {
        struct fi_cq_tagged_entry entry;

        if (ep->counts)
            nigh_fi_count(ep, &done[i]);
        if (!nigh_fi_is_plain(ep, &done[i])) {
            nigh_fi_complete(ep, &done[i]);
            continue;
        }
        nigh_fi_entry(&done[i], &entry);
        copy_entry(at, &entry, cq->entry_bytes);
        if (source)
            source[got] = nigh_fi_source(ep, &done[i]);
        at += cq->entry_bytes;
        got++;
    }
    return got ? (ssize_t)got : drain(cq, buf, count, source);
}

/* What nigh shows and the host has not got yet: by way of a copy, as what some of it needs are calls of nigh. */
static __attribute__((noinline)) ssize_t convert_shown(struct nigh_fi_cq *cq, const struct nigh_sent *sent,
                                                       uint32_t sent_count,
                                                       const struct nigh_completion *done,
                                                       uint32_t done_count, void *buf, size_t got,
                                                       size_t count)
{
    struct nigh_completion copy[NIGH_FI_BATCH];

    for (uint32_t i = 0; i < sent_count; i++)
        copy[i] = nigh_fi_of_sent(&sent[i]);
    memcpy(&copy[sent_count], done, done_count * sizeof(*done));
    return convert(cq, copy, sent_count + done_count, buf, got, count, NULL);
}

/* Of one that is NIGH_FI_RECEIVED, while no record is in use. */
static inline __attribute__((always_inline)) void entry_of_message(struct fi_cq_tagged_entry *entry,
                                                                   const struct nigh_completion *done)
{
    entry->op_context = (void *)(uintptr_t)done->context;
    entry->flags = FI_RECV | FI_TAGGED | (done->imm & NIGH_FI_WITH_DATA) >> 15;
    entry->len = done->bytes;
    entry->buf = done->data;
    entry->data = done->imm & NIGH_FI_DATA;
    entry->tag = done->tag;
}

/* The same where the format has all fields and nothing is counted. While no record is in use, what is common is
 * known by one comparison. */
static inline __attribute__((always_inline)) ssize_t convert_tagged(struct nigh_fi_cq *cq,
                                                                    const struct nigh_taken *taken, void *buf,
                                                                    size_t count)
{
    const struct nigh_sent *sent = taken->sent, *sent_end = sent + taken->sent_count;
    const struct nigh_completion *done = taken->done, *end = done + taken->done_count;
    struct fi_cq_tagged_entry *entry = buf;

    if (NIGH_FI_UNLIKELY(cq->solo->domain->ops.live != 0))
        goto rare;
    for (; sent != sent_end; sent++, entry++) {
        entry->op_context = (void *)(uintptr_t)sent->context;
        entry->flags = FI_SEND | FI_TAGGED;
        if (NIGH_FI_UNLIKELY(sent->tclass != NIGH_FI_TAGGED))
            entry->flags = FI_SEND | FI_MSG;
        entry->len = sent->bytes;
        entry->buf = NULL;
        entry->data = 0;
        entry->tag = 0;
    }
    for (; done != end; done++, entry++) {
        if (NIGH_FI_LIKELY(nigh_fi_what_of(done) == NIGH_FI_RECEIVED)) {
            entry_of_message(entry, done);
        } else if (!done->status) {
            nigh_fi_entry(done, entry);
        } else {
            goto rare;
        }
    }
    return (ssize_t)taken->sent_count + taken->done_count;
rare:
    return convert_shown(cq, sent, (uint32_t)(sent_end - sent), done, (uint32_t)(end - done), buf,
                         (size_t)(entry - (struct fi_cq_tagged_entry *)buf), count);
}

/* The same for who reads what nigh copies. */
static __attribute__((noinline)) ssize_t read_polled(struct nigh_fi_cq *cq, void *buf, size_t count,
                                                     fi_addr_t *source, uint32_t looks)
{
    struct nigh_completion done[NIGH_FI_BATCH];
    struct nigh_fi_ep *ep = cq->solo;
    int n;

    do
        n = ep->nigh->poll_completions(ep->context, done, (uint32_t)count);
    while (n <= 0 && --looks > 0);
    if (n <= 0)
        return -FI_EAGAIN;
    if (source || ep->counts || cq->format != FI_CQ_FORMAT_TAGGED)
        return convert(cq, done, (uint32_t)n, buf, 0, count, source);
    return convert_tagged(cq, &(struct nigh_taken){.done = done, .done_count = (uint32_t)n}, buf, count);
}

/* The only endpoint's completions, straight into the host's array; up to `looks` looks until there are some. */
static inline __attribute__((always_inline)) ssize_t read_solo(struct nigh_fi_cq *cq, void *buf, size_t count,
                                                               fi_addr_t *source, uint32_t looks)
{
    struct nigh_taken taken;
    struct nigh_fi_ep *ep = cq->solo;
    int n;

    if (count > NIGH_FI_BATCH) /* for which an empty queue has room */
        count = NIGH_FI_BATCH;
    if (NIGH_FI_UNLIKELY(source || !cq->takes))
        return read_polled(cq, buf, count, source, looks);
    taken.size = sizeof(taken);
    do
        n = ep->nigh->take_completions(ep->context, &taken, (uint32_t)count);
    while (n <= 0 && --looks > 0);
    if (n <= 0)
        return -FI_EAGAIN;
    /* What a rank with a CPU of its own mostly finds: 5 ns earlier in one L3, 8 between threads of one core, than by
     * the loops. */
    if (n == 1 && taken.done_count && nigh_fi_what_of(taken.done) == NIGH_FI_RECEIVED &&
        ep->domain->ops.live == 0) {
        entry_of_message(buf, taken.done);
        return 1;
    }
    return convert_tagged(cq, &taken, buf, count);
}

/* A read of no entries asks for progress, whatever waits to be read. */
static void push_on(struct nigh_fi_cq *cq)
{
    for (uint32_t i = 0; i < cq->waiter.ep_count; i++) {
        struct nigh_fi_ep *ep = cq->waiter.eps[i];

        (void)ep->nigh->poll_completions(ep->context, NULL, 0);
    }
}

static ssize_t read_some(struct nigh_fi_cq *cq, void *buf, size_t count, fi_addr_t *source)
{
    ssize_t rc;

    if (NIGH_FI_LIKELY(cq->head == cq->tail)) {
        if (NIGH_FI_LIKELY(cq->solo && count))
            return read_solo(cq, buf, count, source, 1);
        for (uint32_t i = 0; i < cq->waiter.ep_count; i++)
            nigh_fi_ep_progress(cq->waiter.eps[i]);
    } else if (!count) {
        push_on(cq);
    }
    rc = drain(cq, buf, count, source);
    return rc == -FI_EAGAIN && !count && cq->head != cq->tail ? 0 : rc;
}

/* *stamp is the waiter's, of what was found. */
static ssize_t read_locked(struct nigh_fi_cq *cq, void *buf, size_t count, fi_addr_t *source, uint64_t *stamp)
{
    ssize_t rc;

    nigh_fi_lock(cq->domain);
    rc = read_some(cq, buf, count, source);
    *stamp = cq->waiter.stamp;
    nigh_fi_unlock(cq->domain);
    return rc;
}

static ssize_t readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source)
{
    uint64_t stamp;

    return read_locked(cq_of(fid), buf, count, source, &stamp);
}

static __attribute__((noinline)) ssize_t read_idle(struct nigh_fi_cq *cq, void *buf, size_t count)
{
    ssize_t rc = -FI_EAGAIN;
    uint64_t start;

    if (!nigh_fi_idle_wait(&cq->idle, cq->solo))
        return rc;
    start = nigh_fi_now();
    do
        rc = read_solo(cq, buf, count, NULL, 16);
    while (rc == -FI_EAGAIN && nigh_fi_idle_more(&cq->idle, start));
    nigh_fi_idle_result(&cq->idle, rc != -FI_EAGAIN);
    return rc;
}

/* A look that finds something. Whoever sleeps on a descriptor must have looked before. */
static inline void read_on(struct nigh_fi_cq *cq, ssize_t got, size_t count)
{
    cq->idle.empty = cq->idle.missed = 0;
    cq->idle.drained =
        got > 0 && (size_t)got < count && got < NIGH_FI_BATCH && cq->waiter.object == FI_WAIT_NONE;
    if (cq->idle.drained && cq->solo->posted)
        cq->solo->posted = false;
}

static __attribute__((noinline)) ssize_t read_lone(struct nigh_fi_cq *cq, void *buf, size_t count)
{
    uint32_t looks;
    ssize_t rc;

    if (NIGH_FI_UNLIKELY(cq->idle.left_ns != 0))
        nigh_fi_idle_back(&cq->idle);
    looks = nigh_fi_idle_looks(&cq->idle);
    rc = read_solo(cq, buf, count, NULL, looks);
    if (rc == -FI_EAGAIN && cq->idle.empty == 0 && looks == 1) {
        cq->idle.empty = 1;
        return rc;
    }
    if (rc == -FI_EAGAIN)
        return read_idle(cq, buf, count);
    read_on(cq, rc, count);
    return rc;
}

/* What needs no look is said before any register is saved. */
static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct nigh_fi_cq *cq = cq_of(fid);

    if (NIGH_FI_UNLIKELY(!cq->lone || cq->head != cq->tail || !count))
        return readfrom(fid, buf, count, NULL);
    if (cq->idle.drained && nigh_fi_idle_is_drained(&cq->idle, cq->solo->posted)) {
        cq->idle.empty = 1;
        return -FI_EAGAIN;
    }
    return read_lone(cq, buf, count);
}

static ssize_t sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source, const void *cond,
                         int timeout)
{
    struct nigh_fi_cq *cq = cq_of(fid);
    uint64_t deadline, stamp;
    ssize_t rc;

    (void)cond; /* a threshold is a hint that one may always return below */
    if (cq->waiter.object == FI_WAIT_NONE)
        return -FI_EINVAL;
    rc = read_locked(cq, buf, count, source, &stamp);
    if (rc != -FI_EAGAIN)
        return rc;
    deadline = nigh_fi_deadline(timeout);
    for (;;) {
        int slept = nigh_fi_sleep(cq->domain, &cq->waiter, stamp, deadline);

        rc = read_locked(cq, buf, count, source, &stamp);
        if (rc != -FI_EAGAIN || slept)
            return rc != -FI_EAGAIN ? rc : slept;
    }
}

static ssize_t sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    return sreadfrom(fid, buf, count, NULL, cond, timeout);
}

/* The words for an error, which are the queue's or the host's: in its buffer of err_data_size bytes, if it has given one
 * (since API 1.5), else in the queue until the next is read. */
static void tell_why(struct nigh_fi_cq *cq, char *why, struct fi_cq_err_entry *buf)
{
    size_t room = cq->domain->fabric->fid.api_version < FI_VERSION(1, 5) ? 0 : buf->err_data_size;
    size_t bytes = why ? strlen(why) + 1 : 0;

    if (!room || !buf->err_data) {
        snprintf(cq->why, sizeof(cq->why), "%s", why ? why : "");
        buf->err_data = why ? cq->why : NULL;
    } else {
        snprintf(buf->err_data, room, "%s", why ? why : "");
        bytes = bytes < room ? bytes : room;
    }
    buf->err_data_size = bytes;
    free(why);
}

/* Fields that later versions append to the entry are not touched: its size is the host's affair. */
static ssize_t readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
    struct nigh_fi_cq *cq = cq_of(fid);
    const struct nigh_fi_staged *first;
    ssize_t rc = -FI_EAGAIN;

    (void)flags;
    nigh_fi_lock(cq->domain);
    first = &cq->staged[cq->head & cq->mask];
    if (cq->head != cq->tail && first->err) {
        buf->op_context = first->entry.op_context;
        buf->flags = first->entry.flags;
        buf->len = first->entry.len;
        buf->buf = first->entry.buf;
        buf->data = first->entry.data;
        buf->tag = first->entry.tag;
        buf->olen = nigh_fi_is_loss(first->err) ? 0 : first->olen;
        buf->err = first->err;
        buf->prov_errno = first->prov_errno;
        tell_why(cq, nigh_fi_is_loss(first->err) ? first->why : NULL, buf);
        cq->head++;
        rc = 1;
    }
    nigh_fi_unlock(cq->domain);
    return rc;
}

static int cq_signal(struct fid_cq *fid)
{
    struct nigh_fi_waiter *waiter = &cq_of(fid)->waiter;

    return waiter->object == FI_WAIT_NONE ? -FI_EINVAL : nigh_fi_wakeup_signal(&waiter->wakeup);
}

static const char *cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf, size_t len)
{
    (void)cq;
    return nigh_fi_strerror(prov_errno, err_data, buf, len);
}

/* ---- the object ---------------------------------------------------------------------------------------- */

static int close_cq(struct fid *fid)
{
    struct nigh_fi_cq *cq = (struct nigh_fi_cq *)(void *)fid;

    if (nigh_fi_is_held(cq->domain, &cq->refs))
        return -FI_EBUSY;
    for (; cq->head != cq->tail; cq->head++)
        if (nigh_fi_is_loss(cq->staged[cq->head & cq->mask].err))
            free(cq->staged[cq->head & cq->mask].why);
    nigh_fi_waiter_close(cq->domain, &cq->waiter);
    nigh_fi_let_go(cq->domain);
    free(cq->staged);
    free(cq);
    return 0;
}

static int control(struct fid *fid, int command, void *arg)
{
    struct nigh_fi_cq *cq = (struct nigh_fi_cq *)(void *)fid;

    return nigh_fi_waiter_control(cq->domain, &cq->waiter, command, arg);
}

static struct fi_ops fid_ops = NIGH_FI_OPS(close_cq, nigh_fi_no_bind, control);

static struct fi_ops_cq cq_ops = {
    .size = sizeof(struct fi_ops_cq),
    .read = cq_read,
    .readfrom = readfrom,
    .readerr = readerr,
    .sread = sread,
    .sreadfrom = sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

static const size_t entry_bytes[] = {
    [FI_CQ_FORMAT_UNSPEC] = sizeof(struct fi_cq_entry),
    [FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
    [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
    [FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
    [FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
};

static int create(struct nigh_fi_domain *domain, struct fi_cq_attr *attr, struct nigh_fi_cq **out)
{
    struct nigh_fi_cq *cq = calloc(1, sizeof(*cq));
    int rc;

    if (!cq)
        return -FI_ENOMEM;
    cq->staged = malloc(64 * sizeof(*cq->staged));
    if (!cq->staged) {
        free(cq);
        return -FI_ENOMEM;
    }
    cq->mask = 63;
    rc = nigh_fi_waiter_open(domain, attr->wait_obj, &cq->waiter);
    if (rc) {
        free(cq->staged);
        free(cq);
        return rc;
    }
    *out = cq;
    return 0;
}

int nigh_fi_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
    struct nigh_fi_domain *domain = (struct nigh_fi_domain *)(void *)fid;
    struct nigh_fi_cq *cq;
    int rc;

    if (!attr || attr->flags & ~(uint64_t)FI_AFFINITY)
        return -FI_EINVAL;
    if (attr->format > FI_CQ_FORMAT_TAGGED)
        return -FI_ENOSYS;
    rc = create(domain, attr, &cq);
    if (rc)
        return rc;
    cq->domain = domain;
    cq->format = attr->format ? attr->format : FI_CQ_FORMAT_CONTEXT;
    cq->entry_bytes = entry_bytes[cq->format];
    attr->format = cq->format;
    cq->fid.fid.fclass = FI_CLASS_CQ;
    cq->fid.fid.context = context;
    cq->fid.fid.ops = &fid_ops;
    cq->fid.ops = &cq_ops;
    nigh_fi_hold(domain);
    *out = &cq->fid;
    return 0;
}
