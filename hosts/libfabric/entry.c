/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/entry.c - the one exported symbol, which libfabric asks for what it has loaded. */
#include "hosts/libfabric/provider.h"

#include <rdma/providers/fi_prov.h>

static void cleanup(void)
{
    /* nigh.so stays loaded: contexts that a host has forgotten may have threads in it. */
}

/* Not constant: libfabric keeps a word of its own in it. */
static struct fi_provider provider = {
    .version = NIGH_FI_VERSION,
    .fi_version = NIGH_FI_API,
    .name = NIGH_FI_NAME,
    .getinfo = nigh_fi_getinfo,
    .fabric = nigh_fi_fabric_open,
    .cleanup = cleanup,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
    return &provider;
}
