/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/debug.c - a copy of each buffer that is sent, compared at the end; a pattern in each that is received into, so
 * that a program that reads too early sees that it does, and what it had there otherwise is put back. */
#include "lib/debug.h"
#include "lib/error.h"

#include <errno.h>
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
    operation->debug = malloc(operation->bytes);
    if (!operation->debug) {
        nigh_say(NIGH_LOG_WARN, "NIGH_DEBUG: no memory for a copy of this buffer, which is not watched: %s",
                 nigh_operation_text(operation).text);
        return;
    }
    memcpy(operation->debug, operation->buffer, operation->bytes);
    if (!reads(operation))
        memset(operation->buffer, PATTERN, operation->bytes);
}

static void compare(struct nigh_call call, const struct nigh_operation *operation)
{
    const uint8_t *was = operation->debug, *is = operation->buffer;
    uint64_t at = 0;

    while (at < operation->bytes && was[at] == is[at])
        at++;
    if (at < operation->bytes)
        nigh_say(NIGH_LOG_ERROR,
                 "%s%s: the buffer was changed before the request had ended, first at byte %llu (it was "
                 "0x%02x and "
                 "is 0x%02x): %s",
                 call.name, nigh_where(call.site).text, (unsigned long long)at, was[at], is[at],
                 nigh_operation_text(operation).text);
}

/* What the message did not fill is the program's: it gets back what it had there. Whatever it has
 * written since is named. */
static void put_back(struct nigh_call call, const struct nigh_operation *operation)
{
    bool filled = operation->error == 0 || operation->error == -EMSGSIZE;
    uint64_t from = filled ? operation->done_bytes : 0, at;
    uint8_t *is = operation->buffer;

    for (at = from; at < operation->bytes && is[at] == PATTERN;)
        at++;
    if (at < operation->bytes && filled)
        nigh_say(NIGH_LOG_ERROR,
                 "%s%s: the buffer was written before its receive had ended, at byte %llu: %s", call.name,
                 nigh_where(call.site).text, (unsigned long long)at, nigh_operation_text(operation).text);
    if (from < operation->bytes)
        memcpy(is + from, (const uint8_t *)operation->debug + from, operation->bytes - from);
}

void nigh_debug_end_it(struct nigh_call call, struct nigh_operation *operation)
{
    if (!operation->debug)
        return;
    if (reads(operation))
        compare(call, operation);
    else
        put_back(call, operation);
    free(operation->debug);
    operation->debug = NULL;
}

/* One that is still active writes into its buffer, and what has come well belongs there. */
void nigh_debug_forget_it(struct nigh_operation *operation)
{
    bool came = operation->phase == NIGH_PHASE_DONE && !operation->error;

    if (operation->debug && !reads(operation) && operation->phase != NIGH_PHASE_ACTIVE && !came)
        memcpy(operation->buffer, operation->debug, operation->bytes);
    free(operation->debug);
    operation->debug = NULL;
}
