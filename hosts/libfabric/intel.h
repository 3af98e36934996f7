/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/intel.h - whether the host is Intel MPI, which is not offered remote memory. */
#ifndef NIGH_LIBFABRIC_INTEL_H
#define NIGH_LIBFABRIC_INTEL_H

#include <stdbool.h>

/* Does this process use Intel MPI? */
bool nigh_fi_intel_mpi(void);

/* Intel MPI's variable for it. */
#define NIGH_FI_INTEL_ASKS "MPIR_CVAR_CH4_OFI_ENABLE_RMA"

/* Has the user told Intel MPI to use a provider's remote memory? It then takes no provider without. */
bool nigh_fi_intel_asks(void);

#endif
