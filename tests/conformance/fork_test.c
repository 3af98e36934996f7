/* SPDX-License-Identifier: BSD-3-Clause */
/* fork() in the host: every call of the child on its parent's context says -ECHILD, whatever the child does or however
 * it ends; the parent goes on, and the child may begin anew for itself. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct nigh_ops *nigh;

struct handles {
    struct pair_end *end;
    struct nigh_region *region;
    void *heap;
};

/* The number of the first call that says anything else, 0 if none does. */
static int calls(const struct handles *handles)
{
    struct nigh_context *context = handles->end->context;
    struct nigh_endpoint *peer = handles->end->peer, *endpoint;
    struct nigh_connect connect = {.size = sizeof(connect)};
    struct nigh_send send = pair_a_send(NULL, 0, 0, 0);
    struct nigh_recv recv = pair_a_recv(NULL, 0, 0, 0);
    struct nigh_rma rma = {.size = sizeof(rma)};
    struct nigh_atomic atomic = {.size = sizeof(atomic), .op = NIGH_READ, .type = NIGH_U8, .count = 1};
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = handles->heap, .bytes = 1};
    struct nigh_register memory = {.size = sizeof(memory), .flags = 1, .buffer = &lend, .bytes = 8};
    struct nigh_taken taken = {.size = sizeof(taken)};
    struct nigh_note note = {.size = sizeof(note), .state = NIGH_NOTE_RUNNING};
    struct nigh_query_context facts;
    struct nigh_completion done;
    struct nigh_address address;
    struct nigh_region *region;
    uint64_t key, bytes = sizeof(facts);
    void *place;
    int fd;
    const int results[] = {
        nigh->address(context, &address),
        nigh->connect(context, &connect, &endpoint),
        nigh->post_send(peer, &send),
        nigh->post_recv(context, peer, &recv),
        nigh->probe(context, peer, 0, 0, 0, &done, NULL),
        nigh->claim(context, (struct nigh_message *)(void *)&done, &recv),
        nigh->cancel(context, 0),
        nigh->cancel_unmatched(context, 0),
        nigh->post_put(peer, &rma),
        nigh->post_get(peer, &rma),
        nigh->post_atomic(peer, &atomic),
        nigh->post_lend(peer, &lend),
        nigh->release(context, &done),
        nigh->heap_alloc(context, 64, &place),
        nigh->heap_free(context, handles->heap),
        nigh->register_memory(context, &memory, &key, &region),
        nigh->deregister(context, handles->region),
        nigh->poll_completions(context, &done, 1),
        nigh->wait(context, 0),
        nigh->wait_fd(context, &fd),
        nigh->query(context, NULL, NIGH_QUERY_CONTEXT, &facts, &bytes),
        nigh->check_address(context, &address),
        nigh->note(context, &note),
        nigh->nudge(peer, &key),
        nigh->inject(peer, &done, NIGH_SHAPE(8, 0), 0, 0, NULL),
        nigh->expect(peer, &done, NIGH_SHAPE(8, 0), 0, 0, NULL),
        nigh->inject_imm(peer, &done, NIGH_SHAPE(8, 0), 0, 0),
        nigh->send_imm(peer, &done, NIGH_SHAPE(8, 0), 0, 0, 0),
        nigh->recv_imm(peer, &done, NIGH_SHAPE(8, 0), 0, 0, 0),
        nigh->take_completions(context, &taken, 1),
        nigh->copy_device(context, NULL, &done, &key, 8, NIGH_COPY_OUT),
        nigh->disconnect(peer),
        nigh->close(context),
    };

    for (int i = 0; i < (int)(sizeof(results) / sizeof(results[0])); i++)
        if (results[i] != -ECHILD)
            return i + 1;
    return 0;
}

/* The child joins the job as a rank of its own and tells its parent. */
static int begins_anew(const struct pair *pair)
{
    struct nigh_open options = {
        .size = sizeof(options), .job = pair->job + 5, .rank = 1, .ranks = 2, .heap_bytes = 1 << 20};
    struct nigh_connect to = {.size = sizeof(to), .rank = 1, .source = 9};
    uint64_t value = 3, got = 0;
    struct nigh_send send = pair_a_send(&value, 8, 1, 1);
    struct nigh_recv recv = pair_a_recv(&got, 8, 1, 2);
    struct nigh_context *context;
    struct nigh_endpoint *self;
    struct nigh_completion done;

    if (nigh->open(&options, &context) || nigh->connect(context, &to, &self) ||
        nigh->post_recv(context, self, &recv) || nigh->post_send(self, &send))
        return 100;
    for (uint32_t count = 0, polls = 0; count < 2; polls++)
        if (polls > 1000000)
            return 101;
        else
            count += (uint32_t)nigh->poll_completions(context, &done, 1);
    return got == 3 && nigh->close(context) == 0 ? 0 : 102;
}

static void talk(struct pair_end *end)
{
    uint8_t *to = data_room(200000);

    pair_recv(end, to, 200000, 1, 1);
    pair_send(end, data_filled(200000, 1), 200000, 1, 0, 2);
    pair_received(end, 1, 200000);
    pair_sent(end, 2, 200000);
    data_check(to, 200000, 1, 0);
}

static void forked(struct pair *pair)
{
    struct handles handles = {.end = pair->end[0]};
    struct nigh_register memory = {.size = sizeof(memory), .flags = 1, .bytes = 64};
    uint64_t key;
    int status;
    pid_t child;

    CHECK_INT(nigh->heap_alloc(handles.end->context, 64, &handles.heap), 0);
    memory.buffer = handles.heap;
    CHECK_INT(nigh->register_memory(handles.end->context, &memory, &key, &handles.region), 0);
    talk(handles.end);
    for (uint32_t round = 0; round < 3; round++) {
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int failed = calls(&handles);

            if (!failed && round == 1)
                failed = begins_anew(pair);
            _exit(failed);
        }
        talk(handles.end);
        CHECK_INT(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status));
        CHECK_INT(WEXITSTATUS(status), 0);
        talk(handles.end);
    }
    CHECK_INT(nigh->deregister(handles.end->context, handles.region), 0);
    CHECK_INT(nigh->heap_free(handles.end->context, handles.heap), 0);
}

/* The child does not look back and runs another program: nothing of the parent's comes along. */
static void executes(struct pair *pair)
{
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c",
              "for fd in /proc/$$/fd/*; do case $(readlink $fd) in *memfd:*|*anon_inode:\\[event*) exit 3;; "
              "esac; "
              "done; exit 0",
              (char *)NULL);
        _exit(4);
    }
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(WEXITSTATUS(status), 0);
    talk(pair->end[0]);
}

static const struct pair_case cases[] = {
    {.name = "forked", .play = forked, .forms = PAIR_SELF},
    {.name = "forked, any thread",
     .play = forked,
     .forms = PAIR_SELF,
     .options = {.flags = NIGH_OPEN_THREADS}},
    {.name = "forked, with a descriptor",
     .play = forked,
     .forms = PAIR_SELF,
     .options = {.flags = NIGH_OPEN_WAIT_FD}},
    {.name = "executes", .play = executes, .forms = PAIR_SELF, .options = {.flags = NIGH_OPEN_WAIT_FD}},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
