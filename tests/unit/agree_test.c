/* SPDX-License-Identifier: BSD-3-Clause */
/* An agreement that is given up while its messages can no longer be taken back: they come later, and find their memory.
 * The plugin here is a table that takes everything and ends nothing but receives that are cancelled. */
#include "lib/agree.h"
#include "lib/control.h"
#include "lib/request.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { POSTS = 16 };

static struct {
    void *buffer;
    uint64_t bytes;
    bool sends;
} posts[POSTS];
static uint32_t posted;

static int take(const void *buffer, uint64_t bytes, bool sends)
{
    assert_true(posted < POSTS);
    posts[posted].buffer = (void *)(uintptr_t)buffer;
    posts[posted].bytes = bytes;
    posts[posted++].sends = sends;
    return 0;
}

static int post_send(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    (void)endpoint;
    return take(send->buffer, send->bytes, true);
}

static int post_recv(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv)
{
    (void)context;
    (void)from;
    return take(recv->buffer, recv->bytes, false);
}

static uint64_t cancelled; /* completes next; 0: nothing does */

static int cancel(struct nigh_context *context, uint64_t id)
{
    const struct nigh_operation *operation = (const void *)(uintptr_t)id;

    (void)context;
    if (operation->kind != NIGH_KIND_RECV)
        return -ENOENT;
    cancelled = id;
    return 0;
}

static int poll_completions(struct nigh_context *context, struct nigh_completion *out, uint32_t count)
{
    (void)context;
    if (!cancelled || !count)
        return 0;
    *out = (struct nigh_completion){
        .context = cancelled, .status = -ECANCELED, .op = NIGH_OP_RECV, .source = NIGH_SOURCE_NONE};
    cancelled = 0;
    return 1;
}

static int sleep_in_vain(struct nigh_context *context, uint64_t ns)
{
    (void)context;
    (void)ns;
    return -ETIMEDOUT;
}

static int note(struct nigh_context *context, const struct nigh_note *line)
{
    (void)context;
    (void)line;
    return 0;
}

static int query(struct nigh_context *context, struct nigh_endpoint *endpoint, uint32_t what, void *out,
                 uint64_t *bytes)
{
    (void)context;
    (void)endpoint;
    (void)what;
    (void)out;
    (void)bytes;
    return -EAGAIN;
}

static int probe(struct nigh_context *context, struct nigh_endpoint *from, uint64_t tag, uint64_t ignore,
                 uint32_t tclass, struct nigh_completion *found, struct nigh_message **out)
{
    (void)context;
    (void)from;
    (void)tag;
    (void)ignore;
    (void)tclass;
    (void)found;
    (void)out;
    return -ENOMSG;
}

static const struct nigh_ops nothing_ends = {
    .size = sizeof(nothing_ends),
    .post_send = post_send,
    .post_recv = post_recv,
    .cancel = cancel,
    .cancel_unmatched = cancel,
    .poll_completions = poll_completions,
    .wait = sleep_in_vain,
    .note = note,
    .query = query,
    .probe = probe,
};

enum { RANKS = 300 };

static char places[RANKS];
static struct nigh_endpoint *endpoints[RANKS];
static struct nigh_comm comm = {
    .state = NIGH_COMM_ALIVE, .id = 2, .size = RANKS, .endpoints = endpoints, .timeout_ns = 1};
static const struct nigh_members members = {.comm = &comm, .count = RANKS, .number = 1};
static const struct nigh_call call = {"nigh_comm_split", "here.c:1"};

static int open_all(void **state)
{
    (void)state;
    for (int i = 0; i < RANKS; i++)
        endpoints[i] = (struct nigh_endpoint *)(void *)&places[i];
    nigh_core.ops = &nothing_ends;
    nigh_core.ranks = RANKS;
    nigh_core.endpoints = endpoints;
    nigh_core.stall_ns = 0;
    nigh_core.log_level = -1;
    posted = 0;
    return nigh_operations_open();
}

static int close_all(void **state)
{
    (void)state;
    nigh_control_close();
    nigh_operations_close();
    return 0;
}

/* The messages that have left arrive after all: the address sanitizer knows whose memory that is. */
static void come_late(void)
{
    static uint8_t sent[RANKS * 16];

    assert_true(posted >= 2);
    for (uint32_t i = 0; i < posted; i++)
        if (posts[i].sends)
            memcpy(sent, posts[i].buffer, posts[i].bytes);
}

/* Is `at` in the frames of the calls that are over? They were below this one's. */
static bool on_the_stack(const void *at)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    return (uintptr_t)at < here && here - (uintptr_t)at < 1024 * 1024;
}

static void test_max_given_up(void **state)
{
    uint32_t value = 7;

    (void)state;
    assert_int_equal(nigh_agree_max(call, &members, &value), -ETIMEDOUT);
    assert_int_equal(value, 7);
    for (uint32_t i = 0; i < posted; i++)
        assert_false(on_the_stack(posts[i].buffer));
    come_late();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_max_given_up, open_all, close_all),
    };

    return cmocka_run_group_tests_name("agree", tests, NULL, NULL);
}
