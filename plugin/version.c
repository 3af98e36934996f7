/* SPDX-License-Identifier: BSD-3-Clause */
/* The only file that sees configure's version, so that a new release rebuilds one object. */
#include "config.h"

#include "plugin/version.h"

const char *nigh_version(void)
{
    return PACKAGE_VERSION;
}
