/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/op.c - see op.h. */
#include "lib/op.h"
#include "lib/error.h"
#include "lib/type.h"

#include <errno.h>
#include <string.h>

static struct nigh_own_op ops[NIGH_OP_MAX];

const struct nigh_own_op *nigh_op_find(int op)
{
    int at = op - NIGH_OP_FIRST;

    return op >= NIGH_OP_FIRST && at < NIGH_OP_MAX && ops[at].used ? &ops[at] : NULL;
}

static int add(struct nigh_call call, const struct nigh_own_op *made, int *op)
{
    for (int at = 0; at < NIGH_OP_MAX; at++) {
        if (ops[at].used)
            continue;
        ops[at] = *made;
        ops[at].used = true;
        *op = NIGH_OP_FIRST + at;
        return 0;
    }
    return nigh_fail(call, -ENOSPC, "%d operations are there already: free those that are not used any more",
                     NIGH_OP_MAX);
}

NIGH_PUBLIC int nigh_op_create(nigh_reduce_fn function, void *arg, int *op)
{
    struct nigh_call call = NIGH_CALL("nigh_op_create");
    struct nigh_own_op made = {.function = function, .arg = arg};
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = function && op ? add(call, &made, op)
                        : nigh_fail(call, -EINVAL, "the %s is NULL", op ? "function" : "place of the result");
    nigh_leave();
    return rc;
}

static int check_factor(struct nigh_call call, const void *factor, int type, const int *op)
{
    if (!factor || !op)
        return nigh_fail(call, -EINVAL, "the %s is NULL", op ? "factor" : "place of the result");
    /* What can be averaged can be multiplied. */
    if (!nigh_reduces(NIGH_AVG, type))
        return nigh_fail(call, -EOPNOTSUPP,
                         "no factor for %s: integers, floating-point and complex types have one",
                         nigh_type_name(type).text);
    return 0;
}

NIGH_PUBLIC int nigh_op_premul(const void *factor, int type, int *op)
{
    struct nigh_call call = NIGH_CALL("nigh_op_premul");
    struct nigh_own_op made = {.type = type};
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = check_factor(call, factor, type, op);
    if (!rc) {
        memcpy(made.factor, factor, nigh_type_width(type));
        rc = add(call, &made, op);
    }
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_op_free(int *op)
{
    struct nigh_call call = NIGH_CALL("nigh_op_free");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    if (!op || !nigh_op_find(*op)) {
        rc = nigh_fail(call, -EINVAL, "%d is no operation that nigh_op_create or nigh_op_premul has made",
                       op ? *op : 0);
    } else {
        ops[*op - NIGH_OP_FIRST].used = false;
        *op = 0;
    }
    nigh_leave();
    return rc;
}
