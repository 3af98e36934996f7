/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes nigh say a line in each rank: says equal|one|apart|twice|die|wait. The program says one, too, in the same manner. */
#include "nigh/nigh.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void complain(int tag)
{
    char byte = 0;

    (void)nigh_send(&byte, sizeof(byte), 0, tag, nigh_world());
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int rank;

    if (nigh_init(NULL) || nigh_comm_rank(nigh_world(), &rank) || nigh_barrier(nigh_world()))
        return 1;
    if (strcmp(how, "one") != 0 || rank == 1)
        complain(strcmp(how, "apart") == 0 ? -1000 - rank : -1000);
    if (strcmp(how, "twice") == 0) {
        complain(-2000);
        complain(-1000);
    }
    fprintf(stderr, "nigh: of the program%s\n", isatty(STDERR_FILENO) ? ", on a terminal" : "");
    if (strcmp(how, "die") == 0)
        raise(SIGKILL);
    if (strcmp(how, "wait") == 0)
        sleep(1000);
    return nigh_finalize();
}
