/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/settings.h - nigh_config and the environment, read once by nigh_init. */
#ifndef NIGH_LIB_SETTINGS_H
#define NIGH_LIB_SETTINGS_H

#include "lib/core.h"

/*
 * Fill the settings in nigh_core: what `config` (NULL: nothing) says, else the environment, else the default. -EINVAL
 * (said, with the name, the value and what was expected).
 */
int nigh_settings_read(struct nigh_call call, const struct nigh_config *config);

#endif
