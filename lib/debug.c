/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/debug.c - a copy of each buffer that is sent, compared at the end; a pattern in each that is received into, so that a
 * program that reads too early sees that it does. */
#include "lib/debug.h"
#include "lib/error.h"

#include <stdlib.h>
#include <string.h>

#define PATTERN 0xa5

static bool reads(const struct nigh_operation *operation)
{
    return operation->kind == NIGH_KIND_SEND || operation->kind == NIGH_KIND_SSEND ||
           operation->kind == NIGH_KIND_LEND;
}

void nigh_debug_begin_it(struct nigh_operation *operation)
{
    if (operation->flags & (NIGH_OP_INTERNAL | NIGH_OP_WINDOW) || operation->bytes == 0 || !operation->buffer)
        return;
    if (!reads(operation)) {
        memset(operation->buffer, PATTERN, operation->bytes);
        return;
    }
    operation->debug = malloc(operation->bytes);
    if (operation->debug)
        memcpy(operation->debug, operation->buffer, operation->bytes);
    else
        nigh_say(NIGH_LOG_WARN, "NIGH_DEBUG: no memory for a copy of this buffer, which is not watched: %s",
                 nigh_operation_text(operation).text);
}

void nigh_debug_end_it(struct nigh_call call, struct nigh_operation *operation)
{
    const uint8_t *was = operation->debug, *is = operation->buffer;
    uint64_t at = 0;

    if (!was)
        return;
    if (memcmp(was, is, operation->bytes) != 0) {
        while (was[at] == is[at])
            at++;
        nigh_say(
            NIGH_LOG_ERROR,
            "%s%s: the buffer was changed before the request had ended, first at byte %llu (it was 0x%02x "
            "and is 0x%02x): %s",
            call.name, nigh_where(call.site).text, (unsigned long long)at, was[at], is[at],
            nigh_operation_text(operation).text);
    }
    nigh_debug_forget_it(operation);
}

void nigh_debug_forget_it(struct nigh_operation *operation)
{
    free(operation->debug);
    operation->debug = NULL;
}
