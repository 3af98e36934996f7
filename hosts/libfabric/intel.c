/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/intel.c - see intel.h. A provider is not told who its host is; the libraries that the process has
 * loaded say it. The environment does not: whoever uses several MPIs has Intel's variables in all of them. */
#include "hosts/libfabric/intel.h"
#include "include/common/descriptor.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The program itself, and the sonames of Intel MPI's library, of which MPICH's has the first, too. */
static const char *const objects[] = {NULL, "libmpi.so.12", "libmpi_abi.so.1"};

/* Only Intel's has it. */
static const char function[] = "I_MPI_Check_image_status";

bool nigh_fi_intel_mpi(void)
{
    bool found = false;

    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]) && !found; i++) {
        void *object = NIGH_FD_DURING(dlopen(objects[i], RTLD_LAZY | RTLD_NOLOAD));

        if (!object)
            continue;
        found = dlsym(object, function) != NULL;
        dlclose(object);
    }
    return found;
}

bool nigh_fi_intel_asks(void)
{
    const char *told = getenv(NIGH_FI_INTEL_ASKS);

    return told && strcmp(told, "1") == 0;
}
