/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/trust.h - how much of a message longer than NIGH_EAGER goes before it is matched. */
#ifndef NIGH_PLUGIN_TRUST_H
#define NIGH_PLUGIN_TRUST_H

#include "plugin/endpoint.h"

/* Before its first slot. False: NIGH_EAGER bytes. True: all may be announced, and `allowed` is set to what may be sent
 * now, all or nothing; its GRANT is asked for. */
bool nigh_trust_whole(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* It is matched. */
void nigh_trust_granted(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool late);
/* One that was announced and may be sent now, all of it; NULL: none. */
struct nigh_send_op *nigh_trust_next(struct nigh_endpoint *endpoint);

#endif
