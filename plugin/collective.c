/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/collective.c - see collective.h. */
#include "plugin/collective.h"
#include "plugin/guard.h"
#include "plugin/progress.h"
#include "plugin/pull.h"
#include "plugin/refuse.h"
#include "plugin/send.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what coll/ asks ----------------------------------------------------------------------------------- */

static bool meet(void *handle, struct nigh_member_link *out)
{
    struct nigh_endpoint *endpoint = handle;

    if (!endpoint->attached)
        return false;
    *out = (struct nigh_member_link){
        .view = &endpoint->view,
        .program = &endpoint->program,
        .bell = &endpoint->bell,
        .asleep = endpoint->peer_asleep,
        .reads = endpoint->peer_reading,
        .maps = endpoint->peer_maps,
        .pid = endpoint->pid,
        .light = endpoint->light,
    };
    endpoint->pins++;
    return true;
}

static void let_go(void *handle, bool met)
{
    if (met)
        nigh_progress_unpin(handle);
    nigh_endpoint_disconnect(handle);
}

static bool lives(void *handle)
{
    return nigh_pull_lives(handle);
}

static bool may_be_read(void *user, const void *buffer, uint64_t bytes)
{
    return nigh_send_may_be_read(user, buffer, bytes);
}

/* Its room was reserved by the post. */
static void complete(void *user, const struct nigh_call_result *result)
{
    struct nigh_context *context = user;
    struct nigh_endpoint *about = result->about;
    struct nigh_completion done = {
        .context = result->context,
        .status = result->status,
        .op = NIGH_OP_COLLECTIVE,
        .bytes = result->bytes,
        .tag = result->number,
        .source = about ? about->source : NIGH_SOURCE_NONE,
        .endpoint = about,
    };

    nigh_complete(context, &done);
}

static const struct nigh_coll_host host = {
    .meet = meet, .let_go = let_go, .lives = lives, .may_be_read = may_be_read, .complete = complete};

struct nigh_collective_ways nigh_collective_ways(int path, bool once)
{
    static const struct nigh_collective_ways forced[] = {
        [NIGH_PATH_EAGER] = {.copies_only = true, .streams = true},
        [NIGH_PATH_CHUNKED] = {.copies_only = true, .streams = true},
        [NIGH_PATH_HEAP] = {.copies_only = false, .streams = true},
        [NIGH_PATH_CMA] = {.copies_only = false, .streams = false},
    };
    struct nigh_collective_ways ways = {.streams = true};

    if (path >= 0)
        ways = forced[path];
    ways.streams &= !once;
    return ways;
}

void nigh_collectives_open(struct nigh_context *context)
{
    struct nigh_collective_ways ways =
        nigh_collective_ways(context->config.path, nigh_plan_prefers_once(context));

    context->coll = (struct nigh_coll){
        .arena = &context->arena,
        .heap = context->heap,
        .host = &host,
        .user = context,
        .rank = context->config.rank,
        .past = nigh_copy_select(NIGH_COPY_NT),
        .is_placed = context->config.is_placed,
        .where = context->config.where,
        .level = context->config.domains,
        .copies_only = ways.copies_only,
        .streams = ways.streams,
    };
}

static struct nigh_context *context_of(const struct nigh_group *group)
{
    return nigh_group_coll(group)->user;
}

/* ---- groups -------------------------------------------------------------------------------------------- */

static int check_members(struct nigh_context *context, const struct nigh_group_options *options)
{
    uint32_t selves = 0;

    for (uint32_t i = 0; i < options->count; i++) {
        const struct nigh_endpoint *endpoint = options->members[i];
        int rc;

        if (!endpoint || endpoint->context != context)
            return nigh_refuse(context, -EINVAL, "group_create: member %u is %s", i,
                               endpoint ? "another context's endpoint" : "NULL");
        rc = nigh_endpoint_check(endpoint);
        if (rc)
            return rc;
        selves += endpoint->self;
        for (uint32_t k = 0; k < i; k++)
            if (options->members[k] == endpoint)
                return nigh_refuse(context, -EINVAL, "group_create: members %u and %u are one endpoint", k,
                                   i);
    }
    if (selves != 1)
        return nigh_refuse(context, -EINVAL,
                           "group_create: %u of the members lead to this context itself: one must", selves);
    return 0;
}

static int check_options(struct nigh_context *context, const struct nigh_group_options *options)
{
    int rc = nigh_check_struct(context, "group_create", options, options->size, sizeof(*options));

    if (rc)
        return rc;
    if (options->reserved[0] || options->reserved[1])
        return nigh_refuse_reserved(context, "group_create");
    if (!options->count || options->count > NIGH_GROUP_MAX)
        return nigh_refuse(context, -EINVAL, "group_create: %u members: 1 to %u", options->count,
                           NIGH_GROUP_MAX);
    if (!options->members)
        return nigh_refuse(context, -EINVAL, "group_create: members is NULL");
    return check_members(context, options);
}

static int create_group(struct nigh_context *context, const struct nigh_group_options *options,
                        struct nigh_group **out)
{
    struct nigh_group_member *members;
    int rc;

    nigh_log_use(&context->log);
    rc = check_options(context, options);
    if (rc)
        return rc;
    members = calloc(options->count, sizeof(*members));
    if (!members)
        return -ENOMEM;
    for (uint32_t i = 0; i < options->count; i++)
        members[i] = (struct nigh_group_member){.handle = options->members[i],
                                                .source = options->members[i]->source,
                                                .self = options->members[i]->self};
    rc = nigh_group_create(&context->coll, members, options->count, options->id, out);
    for (uint32_t i = 0; !rc && i < options->count; i++)
        options->members[i]->refs++;
    free(members);
    return rc;
}

static int leave_group(struct nigh_group *group)
{
    nigh_log_use(&context_of(group)->log);
    return nigh_group_free(group);
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static int post(struct nigh_group *group, const struct nigh_collective *call)
{
    struct nigh_context *context = context_of(group);
    int rc;

    nigh_log_use(&context->log);
    rc = nigh_check_struct(context, "post_collective", call, call->size, sizeof(*call));
    if (rc)
        return rc;
    if (call->reserved0 || call->reserved)
        return nigh_refuse_reserved(context, "post_collective");
    rc = nigh_cq_reserve(&context->cq, 1);
    if (rc)
        return rc;
    rc = nigh_group_post(group, call);
    if (rc)
        nigh_cq_unreserve(&context->cq, 1);
    return rc;
}

/* ---- the slots of the table ------------------------------------------------------------------------------ */

int nigh_entry_post_collective(struct nigh_group *group, const struct nigh_collective *collective)
{
    if (!group || !collective)
        return nigh_refuse_missing("post_collective");
    return NIGH_GUARDED(context_of(group), post(group, collective));
}

int nigh_entry_group_create(struct nigh_context *context, const struct nigh_group_options *options,
                            struct nigh_group **out)
{
    if (!context || !options || !out)
        return nigh_refuse_missing("group_create");
    return NIGH_GUARDED(context, create_group(context, options, out));
}

int nigh_entry_group_free(struct nigh_group *group)
{
    if (!group)
        return nigh_refuse_missing("group_free");
    return NIGH_GUARDED(context_of(group), leave_group(group));
}

static int query(struct nigh_group *group, struct nigh_query_group *out)
{
    struct nigh_query_group answer;
    uint32_t size = out->size;

    if (size < sizeof(out->size))
        return nigh_refuse(context_of(group), -EINVAL, "query_group: size is %u", size);
    nigh_group_query(group, &answer);
    memset(out, 0, size);
    memcpy(out, &answer, size < sizeof(answer) ? size : sizeof(answer));
    return 0;
}

int nigh_entry_query_group(struct nigh_group *group, struct nigh_query_group *out)
{
    if (!group || !out)
        return nigh_refuse_missing("query_group");
    return NIGH_GUARDED(context_of(group), query(group, out));
}

static int end_group(struct nigh_group *group, int error, const char *text)
{
    struct nigh_context *context = context_of(group);

    nigh_log_use(&context->log);
    if (error >= 0 || error < -255 || !text)
        return nigh_refuse(context, -EINVAL, "group_end: error %d, text at %p: -1 to -255, and a text", error,
                           (const void *)text);
    nigh_group_end(group, error, text);
    return 0;
}

int nigh_entry_group_end(struct nigh_group *group, int error, const char *text)
{
    if (!group)
        return nigh_refuse_missing("group_end");
    return NIGH_GUARDED(context_of(group), end_group(group, error, text));
}
