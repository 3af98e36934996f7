/* SPDX-License-Identifier: BSD-3-Clause */
/* The version of this build, for the discovery record and for messages: one place that knows configure's number. */
#ifndef NIGH_PLUGIN_VERSION_H
#define NIGH_PLUGIN_VERSION_H

/* Returns "MAJOR.MINOR.PATCH", a constant string that lives as long as the module is loaded. Any thread. */
const char *nigh_version(void);

#endif
