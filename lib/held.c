/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/held.c - a list in the order of receiving; programs hold few messages at a time and release
 * the last ones first. */
#include "lib/held.h"
#include "lib/comm.h"
#include "lib/error.h"

#include <stdlib.h>
#include <string.h>

struct held {
    const void *data;
    uint64_t bytes;
    int source, tag;
    const char *site;
};

static struct held *list;
static uint32_t count, room;

void nigh_held_add(const struct nigh_operation *operation)
{
    if (count == room) {
        uint32_t more = room ? 2 * room : 16;
        struct held *bigger = realloc(list, more * sizeof(*list));

        if (!bigger)
            return; /* it can be released all the same, only its name is missing at the end */
        list = bigger;
        room = more;
    }
    list[count++] = (struct held){
        .data = operation->data,
        .bytes = operation->done_bytes,
        .source = operation->source,
        .tag = operation->done_tag,
        .site = operation->site,
    };
}

void nigh_held_remove(const void *data)
{
    for (uint32_t i = count; i-- > 0;)
        if (list[i].data == data) {
            memmove(&list[i], &list[i + 1], (count - i - 1) * sizeof(*list));
            count--;
            return;
        }
}

int nigh_held_report(void)
{
    int found = (int)count;

    for (uint32_t i = 0; i < count; i++)
        nigh_say(NIGH_LOG_WARN,
                 "never released: the message of %llu bytes from rank %d, tag %d, received in place%s "
                 "(nigh_release)",
                 (unsigned long long)list[i].bytes, list[i].source, list[i].tag,
                 nigh_where(list[i].site).text);
    free(list);
    list = NULL;
    count = room = 0;
    return found;
}
