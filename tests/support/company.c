/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/company.c - see company.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/company.h"
#include "tests/support/pair.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const struct nigh_ops *company_ops;
const char *const *company_places;

static uint64_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

void company_open(struct company *company, uint32_t count, uint32_t flags, const char *path)
{
    static uint32_t jobs;
    struct nigh_open options = {.size = sizeof(options),
                                .flags = flags,
                                .job = (uint64_t)getpid() << 32 | ++jobs,
                                .ranks = count,
                                .heap_bytes = 64 << 20,
                                .pool_bytes = 1 << 20,
                                .path = path};

    company_ops = pair_load();
    memset(company, 0, sizeof(*company));
    company->count = count;
    for (options.rank = 0; options.rank < count; options.rank++) {
        if (company_places)
            setenv("NIGH_PLACE", company_places[options.rank], 1);
        assert_int_equal(company_ops->open(&options, &company->members[options.rank].context), 0);
    }
    unsetenv("NIGH_PLACE");
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count; k++) {
            struct nigh_connect to = {.size = sizeof(to), .rank = k, .source = NIGH_SOURCE_NONE};

            assert_int_equal(
                company_ops->connect(company->members[i].context, &to, &company->members[i].to[k]), 0);
        }
    }
}

void company_close(struct company *company)
{
    for (uint32_t i = 0; i < company->count; i++)
        if (company->members[i].context)
            assert_int_equal(company_ops->close(company->members[i].context), 0);
}

void company_group(struct company *company, const uint32_t *who, uint32_t count, struct nigh_group **out)
{
    for (uint32_t i = 0; i < count; i++) {
        struct company_member *member = &company->members[who[i]];
        struct nigh_endpoint *members[COMPANY_MAX];
        struct nigh_group_options options = {.size = sizeof(options), .count = count, .members = members};

        for (uint32_t k = 0; k < count; k++)
            members[k] = member->to[who[k]];
        assert_int_equal(company_ops->group_create(member->context, &options, &out[i]), 0);
    }
}

void company_leave(struct nigh_group *const *groups, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(company_ops->group_free(groups[i]), 0);
}

void company_poll(struct company *company)
{
    for (uint32_t i = 0; i < company->count; i++) {
        struct company_member *member = &company->members[i];
        int polled;

        if (!member->context)
            continue;
        polled = company_ops->poll_completions(member->context, member->done + member->count,
                                               COMPANY_DONE - member->count);
        assert_true(polled >= 0);
        member->count += (unsigned)polled;
    }
}

struct nigh_completion company_await(struct company *company, uint32_t member, uint64_t context)
{
    struct company_member *of = &company->members[member];
    uint64_t end = now_s() + 60;

    for (;;) {
        for (unsigned i = 0; i < of->count; i++) {
            struct nigh_completion done = of->done[i];

            if (done.context != context)
                continue;
            of->done[i] = of->done[--of->count];
            return done;
        }
        if (now_s() > end)
            fail_msg("member %u: no completion of %llu in 60 s", member, (unsigned long long)context);
        company_poll(company);
    }
}

void company_call(struct company *company, const uint32_t *who, struct nigh_group *const *groups,
                  const struct call_case *of, uint32_t first)
{
    struct call_room rooms[COMPANY_MAX];

    for (uint32_t i = 0; i < of->members; i++) {
        call_case_make(of, i, &rooms[i]);
        rooms[i].call.context = 1000 + i;
    }
    for (uint32_t i = 0; i < of->members; i++) {
        uint32_t at = (first + i) % of->members;

        assert_int_equal(company_ops->post_collective(groups[at], &rooms[at].call), 0);
        if ((of->seed + i) % 3 == 0)
            company_poll(company);
    }
    for (uint32_t i = 0; i < of->members; i++) {
        struct nigh_completion done = company_await(company, who[i], 1000 + i);
        const char *wrong;

        if (done.status)
            fail_msg("%s: status %d", call_case_text(of, i), done.status);
        assert_int_equal(done.op, NIGH_OP_COLLECTIVE);
        if (!rooms[i].recv)
            assert_int_equal(done.bytes, 0);
        wrong = call_case_check(&rooms[i]);
        if (wrong)
            fail_msg("%s: %s", call_case_text(of, i), wrong);
        call_case_free(&rooms[i]);
    }
}
