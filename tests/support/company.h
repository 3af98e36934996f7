/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/company.h - a job whose members are contexts of this one process, all connected, polled in turn: groups of them
 * make calls, and each is checked. */
#ifndef NIGH_TESTS_COMPANY_H
#define NIGH_TESTS_COMPANY_H

#include "tests/support/call_case.h"

enum { COMPANY_MAX = 24, COMPANY_DONE = 64 };

struct company_member {
    struct nigh_context *context;
    struct nigh_endpoint *to[COMPANY_MAX];
    struct nigh_completion done[COMPANY_DONE];
    unsigned count;
};

struct company {
    struct company_member members[COMPANY_MAX];
    uint32_t count;
};

extern const struct nigh_ops *company_ops;

/* NULL, or what NIGH_PLACE is while each member is opened. */
extern const char *const *company_places;

/* `flags` as of nigh_open; `path` as there. Fails the test when it cannot. */
void company_open(struct company *company, uint32_t count, uint32_t flags, const char *path);
void company_close(struct company *company);
/* A group of the members whose numbers are in `who`, in that order: out[i] is that of who[i]. */
void company_group(struct company *company, const uint32_t *who, uint32_t count, struct nigh_group **out);
/* All leave it. */
void company_leave(struct nigh_group *const *groups, uint32_t count);
void company_poll(struct company *company);
/* Polls until member has the completion of `context`; fails the test after a minute. Takes it from the list. */
struct nigh_completion company_await(struct company *company, uint32_t member, uint64_t context);
/* The call is made by all of `who`, beginning with the place `first`; fails the test unless each has what it must. */
void company_call(struct company *company, const uint32_t *who, struct nigh_group *const *groups,
                  const struct call_case *of, uint32_t first);

#endif
