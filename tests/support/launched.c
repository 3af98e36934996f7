/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that prints, in one line, what it knows of its launch: the process tests start it under each
 * launcher that the machine has. With an argument it stays for half a second.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "plugin/launcher.h"

int main(int argc, char **argv)
{
    struct nigh_launch launch;
    int rc = nigh_launcher_detect(&launch);

    (void)argv;
    if (argc > 1)
        usleep(500000);
    if (rc != 0) {
        fprintf(stderr, "launched: %d %s\n", rc, rc == -EINVAL ? launch.error : "no launcher");
        return 1;
    }
    printf("%s rank %" PRIu32 " of %" PRIu32 " local %" PRIu32 " of %" PRIu32 " job %016" PRIx64 " from %s\n",
           launch.launcher, launch.rank, launch.size, launch.local_rank, launch.local_size, launch.job,
           launch.job_text);
    return 0;
}
