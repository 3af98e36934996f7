/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/lend.h - lending heap memory to a receiver, who gives it back. */
#ifndef NIGH_PLUGIN_LEND_H
#define NIGH_PLUGIN_LEND_H

#include "plugin/endpoint.h"

int nigh_lend_post(struct nigh_endpoint *endpoint, const struct nigh_lend *lend);
int nigh_lend_release(struct nigh_context *context, void *data);

#endif
