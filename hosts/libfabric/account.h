/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/account.h - what an endpoint has carried, written down when it closes: whether an MPI's messages went
 * over nigh at all is otherwise seen by nobody. */
#ifndef NIGH_LIBFABRIC_ACCOUNT_H
#define NIGH_LIBFABRIC_ACCOUNT_H

#include "hosts/libfabric/provider.h"

/* Appends one line of JSON to the file that NIGH_FI_ACCOUNT names ("-": standard error); without the variable nothing.
 * The context is still open. What cannot be written is logged. Blocks as writing to that file does. */
void nigh_fi_account(const struct nigh_fi_ep *ep);

#endif
