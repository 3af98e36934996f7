/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/log.h - lines for people, in libfabric's form and by its FI_LOG_LEVEL. libfabric's own log functions
 * are not used: a symbol of its library would tie the provider to one version of it. */
#ifndef NIGH_LIBFABRIC_LOG_H
#define NIGH_LIBFABRIC_LOG_H

#include <stddef.h>

enum nigh_fi_level { NIGH_FI_WARN, NIGH_FI_TRACE, NIGH_FI_INFO, NIGH_FI_DEBUG };

/* One line on stderr if FI_LOG_LEVEL (warn, trace, info, debug; default: none but warn) lets it through. Any thread. */
void nigh_fi_log(enum nigh_fi_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The words for an entry's prov_errno, or those that are its err_data, if it has some; in `buf`, too, if there is one. */
const char *nigh_fi_strerror(int prov_errno, const char *err_data, char *buf, size_t len);

/* For nigh's own lines: struct nigh_open.log. */
void nigh_fi_log_nigh(void *data, int level, const char *text);

#endif
