/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/end.c - see end.h. */
#include "plugin/end.h"
#include "plugin/context.h"
#include "shm/layout.h"
#include "shm/wire.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where a line goes. */
struct text {
    char *at;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    size_t room = NIGH_END_BYTES - text->used;
    va_list arguments;
    int bytes;

    va_start(arguments, format);
    bytes = vsnprintf(text->at + text->used, room, format, arguments);
    va_end(arguments);
    text->used += bytes < 0 ? 0 : (size_t)bytes < room ? (size_t)bytes : room - 1;
}

struct nigh_end nigh_end_of(const struct nigh_refusal *why)
{
    static const enum nigh_reason reasons[] = {
        [NIGH_CAUSE_GONE] = NIGH_REASON_GONE,
        [NIGH_CAUSE_USER] = NIGH_REASON_USER,
        [NIGH_CAUSE_DENIED] = NIGH_REASON_DENIED,
        [NIGH_CAUSE_DIRECTORY] = NIGH_REASON_DIRECTORY,
        [NIGH_CAUSE_DESCRIPTORS] = NIGH_REASON_DESCRIPTORS,
        [NIGH_CAUSE_MEMORY] = NIGH_REASON_MEMORY,
        [NIGH_CAUSE_PEERS] = NIGH_REASON_PEERS,
        [NIGH_CAUSE_VERSION] = NIGH_REASON_VERSION,
        [NIGH_CAUSE_LAYOUT] = NIGH_REASON_LAYOUT,
        [NIGH_CAUSE_PROTOCOL] = NIGH_REASON_PROTOCOL,
    };

    return (struct nigh_end){.reason = reasons[why->cause],
                             .error = why->error,
                             .there = why->there,
                             .pid = why->pid,
                             .value = why->value};
}

void nigh_end_set(struct nigh_endpoint *endpoint, const struct nigh_end *end)
{
    if (!endpoint->end.reason)
        endpoint->end = *end;
}

/* ---- refused ------------------------------------------------------------------------------------------- */

static void put_process(struct text *text, int pid)
{
    if (pid > 0)
        put(text, " (process %d)", pid);
}

static unsigned user_of(const struct nigh_endpoint *endpoint)
{
    return nigh_rendezvous_user(endpoint->context->rendezvous);
}

static void put_user(struct text *text, const struct nigh_endpoint *endpoint)
{
    const struct nigh_end *end = &endpoint->end;

    if (end->there) {
        put(text, "its process");
        if (end->pid > 0)
            put(text, " %d", end->pid);
        put(text,
            ", whose job is of user %llu, does not let in this one, which is of user %u now and opened as "
            "user %u: "
            "all processes of a job must be of one user when they open it",
            (unsigned long long)end->value, (unsigned)geteuid(), user_of(endpoint));
    } else {
        put(text, "its name is held");
        if (end->pid > 0)
            put(text, " by process %d", end->pid);
        put(text,
            " of user %llu, and this job is of user %u: run all of a job as one user, and give each job an "
            "id of its "
            "own (NIGH_JOB)",
            (unsigned long long)end->value, user_of(endpoint));
    }
}

static void put_descriptors(struct text *text, const struct nigh_end *end)
{
    put(text, end->there ? "it" : "this process");
    put_process(text, end->there ? end->pid : 0);
    put(text, " has no file descriptor left to connect with");
    if (end->value)
        put(text, ": it may have %llu", (unsigned long long)end->value);
    put(text, ", and a peer takes two, while it is connected up to thirteen: raise the limit%s (ulimit -n)",
        end->there ? " there" : "");
}

static void put_memory(struct text *text, const struct nigh_end *end)
{
    put(text, end->there ? "it" : "this process");
    put_process(text, end->there ? end->pid : 0);
    put(text, " has no memory or address space left to connect with");
    if (!end->there && end->value)
        put(text, ": its shared memory takes %llu bytes of addresses", (unsigned long long)end->value);
    put(text, ": raise the limit%s (ulimit -v, the cgroup's, vm.max_map_count)", end->there ? " there" : "");
}

static void put_refusal(struct text *text, const struct nigh_endpoint *endpoint)
{
    const struct nigh_end *end = &endpoint->end;
    unsigned long long value = end->value;

    switch (end->reason) {
    case NIGH_REASON_GONE:
        put(text, "the context that was addressed is closed: ask for its new address");
        break;
    case NIGH_REASON_USER:
        put_user(text, endpoint);
        break;
    case NIGH_REASON_DENIED:
        if (end->error == -EBADF) {
            put(text, "the program has closed descriptors of nigh's, or opened others under their numbers "
                      "(closefrom closes all)");
            break;
        }
        put(text,
            "the system does not let this process connect to it: %s: a sandbox or security module stands in "
            "the way "
            "(seccomp, SELinux, AppArmor)",
            strerror(-end->error));
        break;
    case NIGH_REASON_DIRECTORY:
        put(text,
            "NIGH_DIR, %s, is open to user %llu alone, and this process is of user %u now: connect to all "
            "peers "
            "before the user changes, or leave NIGH_DIR unset",
            endpoint->context->config.directory, value, (unsigned)geteuid());
        break;
    case NIGH_REASON_DESCRIPTORS:
        put_descriptors(text, end);
        break;
    case NIGH_REASON_MEMORY:
        put_memory(text, end);
        break;
    case NIGH_REASON_PEERS:
        put(text, "it");
        put_process(text, end->pid);
        put(text, " has as many peers as it may, %llu: set NIGH_PEERS_MAX higher there", value);
        break;
    case NIGH_REASON_VERSION:
        put(text,
            "its greeting has version %llu, this process knows %u: all processes of a job must load the same "
            "nigh",
            value, NIGH_WIRE_VERSION);
        break;
    case NIGH_REASON_LAYOUT:
        put(text,
            "its shared memory has version %llu, this process' has %u: all processes of a job must load the "
            "same nigh",
            value, NIGH_LAYOUT_VERSION);
        break;
    default:
        put(text, "what was said is no greeting of nigh's, or something else has its name: all processes of "
                  "a job must "
                  "load the same nigh");
        break;
    }
}

/* ---- not connected yet --------------------------------------------------------------------------------- */

static enum nigh_reason put_waiting(struct text *text, const struct nigh_endpoint *endpoint)
{
    const char *directory = endpoint->context->config.directory;
    uint64_t value, ns;
    enum nigh_seen seen = nigh_rendezvous_seen(endpoint->context->rendezvous, endpoint, &value, &ns);
    double seconds = (double)ns / 1e9;

    switch (seen) {
    case NIGH_SEEN_REACHED:
        put(text, "it");
        put_process(text, nigh_rendezvous_reached(endpoint->context->rendezvous, endpoint));
        put(text,
            " was greeted and has not answered for %.1f s: it computes without a call of nigh, or is stopped",
            seconds);
        return NIGH_REASON_REACHED;
    case NIGH_SEEN_BUSY:
        put(text,
            "it takes no connection for %.1f s, more than it has room for wait: it computes without a call "
            "of "
            "nigh, or is stopped",
            seconds);
        return NIGH_REASON_REACHED;
    case NIGH_SEEN_USER:
        put(text,
            "user %llu has opened that rank of the job, and this job is of user %u: run all of a job as one "
            "user",
            (unsigned long long)value, user_of(endpoint));
        return NIGH_REASON_ABSENT;
    case NIGH_SEEN_ABSTRACT:
        put(text,
            "it listens without NIGH_DIR, and NIGH_DIR is %s here: set it to one directory for all, or for "
            "none",
            directory);
        return NIGH_REASON_ABSENT;
    default:
        break;
    }
    put(text,
        "it has not opened nigh yet, or had ended before (nobody has its name for %.1f s); or it can never "
        "be met: of "
        "another user than %u, of another job (NIGH_JOB), ",
        seconds, user_of(endpoint));
    if (directory[0])
        put(text, "with another NIGH_DIR than %s", directory);
    else
        put(text, "in another network namespace (then NIGH_DIR), with NIGH_DIR set");
    return NIGH_REASON_ABSENT;
}

/* ---- asked --------------------------------------------------------------------------------------------- */

static enum nigh_reason put_all(struct text *text, const struct nigh_endpoint *endpoint,
                                enum nigh_reason reason)
{
    const struct nigh_end *end = &endpoint->end;

    switch (reason) {
    case NIGH_REASON_NONE:
        return endpoint->state == NIGH_CONNECTING ? put_waiting(text, endpoint) : NIGH_REASON_NONE;
    case NIGH_REASON_LEFT:
        put(text, "it has disconnected or closed");
        break;
    case NIGH_REASON_DIED:
        put(text, "its process");
        if (endpoint->pid > 0)
            put(text, " %d", endpoint->pid);
        put(text, " has ended");
        break;
    case NIGH_REASON_BROKEN:
        put(text, "it broke the protocol: %s", end->why ? end->why : "it said what cannot be");
        break;
    default:
        put_refusal(text, endpoint);
        break;
    }
    return reason;
}

/* What another has heard before us, and told: that a peer has ended, of which no poll has told us. */
static enum nigh_reason unheard(const struct nigh_endpoint *endpoint)
{
    if (endpoint->state != NIGH_READY || endpoint->self)
        return NIGH_REASON_NONE;
    if (nigh_endpoint_let_go(endpoint))
        return NIGH_REASON_LEFT;
    return nigh_endpoint_lives(endpoint) ? NIGH_REASON_NONE : NIGH_REASON_DIED;
}

void nigh_end_text(const struct nigh_endpoint *endpoint, char *text)
{
    struct text to = {.at = text};

    text[0] = 0;
    put_all(&to, endpoint, endpoint->end.reason);
}

void nigh_end_query(const struct nigh_endpoint *endpoint, struct nigh_query_end *out)
{
    struct text to = {.at = out->text};
    enum nigh_reason reason = endpoint->end.reason;

    *out = (struct nigh_query_end){
        .size = sizeof(*out),
        .state = endpoint->state,
        .error = endpoint->end.error,
        .there = endpoint->end.there,
        .value = endpoint->end.value,
    };
    out->reason = put_all(&to, endpoint, reason ? reason : unheard(endpoint));
}
