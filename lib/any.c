/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/any.c - waiting for and testing one of several requests. */
#include "lib/error.h"
#include "lib/several.h"

#include <errno.h>

/* The first that has ended, -1 if none has. */
static int find_ended(int count, const nigh_request *requests)
{
    for (int i = 0; i < count; i++) {
        const struct nigh_operation *operation = nigh_several_operation(requests[i]);

        if (operation && operation->phase == NIGH_PHASE_DONE)
            return i;
    }
    return -1;
}

/* `flag` NULL: waits. */
static int any(struct nigh_call call, int count, nigh_request *requests, int *index, int *flag,
               struct nigh_status *status)
{
    int active, at, rc;

    if (!index)
        return nigh_fail(call, -EINVAL, "index is NULL");
    rc = nigh_several_check(call, count, requests, &active);
    if (rc)
        return rc;
    if (active == 0) {
        *index = NIGH_UNDEFINED;
        if (flag)
            *flag = 1;
        nigh_status_empty(status);
        return 0;
    }
    if (flag) {
        (void)nigh_poll();
    } else {
        rc = nigh_several_await(call, count, requests);
        if (rc)
            return rc;
    }
    at = find_ended(count, requests);
    if (flag)
        *flag = at >= 0;
    if (at < 0)
        return 0;
    *index = at;
    nigh_several_retire(call, &requests[at], status, &rc);
    return rc;
}

NIGH_PUBLIC int nigh_waitany(int count, nigh_request *requests, int *index, struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_waitany");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = any(call, count, requests, index, NULL, status);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_testany(int count, nigh_request *requests, int *index, int *flag,
                             struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_testany");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = flag ? any(call, count, requests, index, flag, status) : nigh_fail(call, -EINVAL, "flag is NULL");
    nigh_leave();
    return rc;
}
