/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/name.c - see name.h. */
#include "hosts/libfabric/name.h"
#include "hosts/libfabric/log.h"
#include "include/common/descriptor.h"

#include <assert.h>
#include <ifaddrs.h>
#include <locale.h>
#include <netdb.h>
#include <netinet/in.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x656d616e2d696601)

struct record {
    uint64_t magic;
    uint64_t job;
    uint64_t zero[5];
    uint64_t check; /* over the job */
};
static_assert(sizeof(struct record) == NIGH_ADDRESS_BYTES, "names are as long as addresses");

static uint64_t hash(const char *text, uint64_t seed)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325) ^ seed;

    for (; *text; text++)
        value = (value ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return value;
}

static bool same(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
                      &((const struct sockaddr_in *)(const void *)b)->sin_addr, sizeof(struct in_addr)) == 0;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool has_address(const struct addrinfo *found)
{
    struct ifaddrs *mine;
    bool is = false;

    if (NIGH_FD_DURING(getifaddrs(&mine)) < 0)
        return false;
    for (; found && !is; found = found->ai_next)
        for (struct ifaddrs *at = mine; at && !is; at = at->ifa_next)
            is = at->ifa_addr && same(at->ifa_addr, found->ai_addr);
    freeifaddrs(mine);
    return is;
}

static bool is_this_machine(const char *node)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* static in glibc and musl */
    struct addrinfo *found;
    char own[256] = "";
    bool is;

    if (strcasecmp_l(node, "localhost", plain) == 0 || strncmp(node, "127.", 4) == 0 ||
        strcmp(node, "::1") == 0)
        return true;
    if (gethostname(own, sizeof(own) - 1) == 0 && strcasecmp_l(node, own, plain) == 0)
        return true;
    if (NIGH_FD_DURING(getaddrinfo(node, NULL, NULL, &found)) != 0)
        return false;
    is = has_address(found);
    freeaddrinfo(found);
    return is;
}

int nigh_fi_name_make(const char *node, const char *service, void *out)
{
    struct record record = {.magic = MAGIC};

    if (node && !is_this_machine(node)) {
        nigh_fi_log(NIGH_FI_INFO, "node %s is not this machine: nigh reaches processes of one machine only",
                    node);
        return -FI_ENODATA;
    }
    /* A service is enough: all spellings of this machine's name mean the same. */
    if (node || service)
        record.job = hash(service ? service : "", UINT64_C(0x6e6967682d666931)) | 1;
    record.check = ~record.job * UINT64_C(0x9e3779b97f4a7c15);
    memcpy(out, &record, sizeof(record));
    return 0;
}

bool nigh_fi_name_read(const void *address, uint64_t *job)
{
    struct record record;

    memcpy(&record, address, sizeof(record));
    if (record.magic != MAGIC || record.check != ~record.job * UINT64_C(0x9e3779b97f4a7c15))
        return false;
    *job = record.job;
    return true;
}
