/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/strategy.c - see strategy.h. */
#include "shm/strategy.h"
#include <errno.h>

#define PAGE 4096u

int nigh_strategy_check(const struct nigh_strategy *strategy, const char **why)
{
    const char *said = NULL;
    int error = -EINVAL;

    if (strategy->sender >= NIGH_COPY_KERNELS || strategy->receiver >= NIGH_COPY_KERNELS) {
        said = "no such copy kernel";
    } else if (strategy->piece == 0 || strategy->piece % PAGE != 0) {
        said = "the piece must be a multiple of 4096 bytes and not 0";
    } else if (strategy->piece > strategy->span / 2) {
        said = "the piece must be at most half of the span";
    } else if (strategy->tried > strategy->from) {
        said = "it is tried before it is taken: try must be at most from";
    } else if (!nigh_copy_select((enum nigh_copy_kernel)strategy->sender) ||
               !nigh_copy_select((enum nigh_copy_kernel)strategy->receiver)) {
        said = "this CPU lacks the copy kernel";
        error = -ENOTSUP;
    }
    if (why)
        *why = said;
    return said ? error : 0;
}
