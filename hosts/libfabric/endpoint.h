/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/endpoint.h - the steps of an endpoint's life that lie in different files. */
#ifndef NIGH_LIBFABRIC_ENDPOINT_H
#define NIGH_LIBFABRIC_ENDPOINT_H

#include "hosts/libfabric/provider.h"

/* Binding to a queue, a counter, a vector. */
int nigh_fi_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
void nigh_fi_ep_unbind(struct nigh_fi_ep *ep);

/* Opens nigh's context and makes the endpoint known to what it is bound to. */
int nigh_fi_ep_enable(struct nigh_fi_ep *ep);
/* The reverse. */
void nigh_fi_ep_disable(struct nigh_fi_ep *ep);

/* Registrations of the domain hold for every endpoint. */
int nigh_fi_mr_attach(struct nigh_fi_ep *ep);
void nigh_fi_mr_detach(struct nigh_fi_ep *ep);

#endif
