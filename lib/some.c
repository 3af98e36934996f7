/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/some.c - waiting for and testing those of several requests that have ended. */
#include "lib/error.h"
#include "lib/several.h"

#include <errno.h>

static int some(struct nigh_call call, int count, nigh_request *requests, int *outcount, int *indices,
                struct nigh_status *statuses, bool waits)
{
    int active, found = 0, rc;

    if (!outcount || (count > 0 && !indices))
        return nigh_fail(call, -EINVAL, "outcount or indices is NULL");
    rc = nigh_several_check(call, count, requests, &active);
    if (rc)
        return rc;
    if (active == 0) {
        *outcount = NIGH_UNDEFINED;
        return 0;
    }
    if (!waits) {
        (void)nigh_poll();
    } else {
        rc = nigh_several_await(call, count, requests);
        if (rc)
            return rc;
    }
    for (int i = 0; i < count; i++) {
        const struct nigh_operation *operation = nigh_several_operation(requests[i]);

        if (!operation || operation->phase != NIGH_PHASE_DONE)
            continue;
        indices[found] = i;
        nigh_several_retire(call, &requests[i], statuses ? &statuses[found] : NULL, &rc);
        found++;
    }
    *outcount = found;
    return rc;
}

NIGH_PUBLIC int nigh_waitsome(int count, nigh_request *requests, int *outcount, int *indices,
                              struct nigh_status *statuses)
{
    struct nigh_call call = NIGH_CALL("nigh_waitsome");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = some(call, count, requests, outcount, indices, statuses, true);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_testsome(int count, nigh_request *requests, int *outcount, int *indices,
                              struct nigh_status *statuses)
{
    struct nigh_call call = NIGH_CALL("nigh_testsome");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = some(call, count, requests, outcount, indices, statuses, false);
    nigh_leave();
    return rc;
}
