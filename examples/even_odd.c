/* SPDX-License-Identifier: BSD-3-Clause */
/* Every even rank exchanges messages of 1 byte to 64 MiB with the odd rank above it, all pairs at once. With an odd
 * number of ranks the last one has nobody to talk to, and just leaves.
 *
 *     nigh-run -n 4 even_odd
 */
#include <nigh/nigh.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { MOST = 64 << 20 };

static int is_all(const unsigned char *bytes, size_t count, unsigned char value)
{
    return bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0;
}

/* The tag is the round, so that a message of another round would not be taken for this one. */
static int swap(unsigned char *mine, unsigned char *theirs, size_t bytes, int rank, int other, int round)
{
    struct nigh_status status;

    memset(mine, 16 * round + rank, bytes);
    MUST(nigh_sendrecv(mine, bytes, other, round, theirs, bytes, other, round, nigh_world(), &status));
    return status.bytes == bytes && is_all(theirs, bytes, (unsigned char)(16 * round + other));
}

int main(void)
{
    unsigned char *mine = malloc(MOST), *theirs = malloc(MOST);
    int rank, size, other, rounds = 0, right = 0;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    MUST(nigh_comm_size(nigh_world(), &size));
    other = rank % 2 == 0 ? rank + 1 : rank - 1;
    if (other < size) {
        for (size_t bytes = 1; bytes <= MOST; bytes *= 2, rounds++)
            right += swap(mine, theirs, bytes, rank, other, rounds);
        printf("rank %d: %d of %d messages from rank %d are right\n", rank, right, rounds, other);
    } else {
        printf("rank %d: has no partner\n", rank);
    }
    free(mine);
    free(theirs);
    return nigh_finalize() != 0;
}
