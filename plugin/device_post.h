/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_post.h - what may lie on a device is sent or lent: whose memory it is, and whether its bytes are fetched in the call, staged,
 * or referred to. */
#ifndef NIGH_PLUGIN_DEVICE_POST_H
#define NIGH_PLUGIN_DEVICE_POST_H

struct nigh_endpoint;
struct nigh_lend;
struct nigh_send;

/* post_send() of what was checked, and has NIGH_DEVICE, which it may have for the host's memory, too. */
int nigh_device_send_post(struct nigh_endpoint *endpoint, const struct nigh_send *send);

/* post_lend() of what was checked, and has NIGH_DEVICE. */
int nigh_device_lend_post(struct nigh_endpoint *endpoint, const struct nigh_lend *lend);

#endif
