/* SPDX-License-Identifier: BSD-3-Clause */
/* What a host reads that asks for what cannot be: each refusal's line names the call, the value and what it may be.
 * Which calls refuse what is in arguments_test.c and structs_test.c. */
#include "tests/support/pair.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct nigh_ops *nigh;

struct told {
    char text[1024]; /* the last line */
    uint32_t lines, errors;
};

static void keep(void *data, int level, const char *text)
{
    struct told *told = data;

    snprintf(told->text, sizeof(told->text), "%s", text);
    told->lines++;
    told->errors += level == 0;
}

/* What the calls are made with. */
struct host {
    struct nigh_context *context;
    struct nigh_endpoint *self;
    struct nigh_region *region;
    void *heap;
    struct told told;
    uint64_t job;
};

static struct host host;

static void *where(void)
{
    static uint64_t place[512];

    return place;
}

static struct nigh_open options_of(uint64_t job)
{
    return (struct nigh_open){
        .size = sizeof(struct nigh_open), .job = job, .ranks = 3, .log = keep, .log_data = &host.told};
}

/* A call whose one struct is this. */
#define WITH(name, call, type, ...)                                           \
    static int name(void)                                                     \
    {                                                                         \
        return call((struct type){.size = sizeof(struct type), __VA_ARGS__}); \
    }

/* ---- calls that are wrong in one thing --------------------------------------------------------------------------- */

static int opened(struct nigh_open options)
{
    struct nigh_context *context = NULL;

    return nigh->open(&options, &context);
}

static int open_short(void)
{
    struct nigh_open options = options_of(host.job + 1);

    options.size = 88; /* to behind the log */
    return opened(options);
}

static int open_flags(void)
{
    struct nigh_open options = options_of(host.job + 1);

    options.flags = 1u << 30;
    return opened(options);
}

static int open_reserved(void)
{
    struct nigh_open options = options_of(host.job + 1);

    options.reserved[sizeof(options.reserved) / sizeof(options.reserved[0]) - 1] = 1;
    return opened(options);
}

static int open_rank(void)
{
    struct nigh_open options = options_of(host.job + 1);

    options.rank = 3;
    return opened(options);
}

static int open_again(void)
{
    return opened(options_of(host.job));
}

static int connected(struct nigh_connect to)
{
    struct nigh_endpoint *endpoint = NULL;

    return nigh->connect(host.context, &to, &endpoint);
}

static int connect_tail(void)
{
    uint8_t bytes[sizeof(struct nigh_connect) + 8] = {0};
    struct nigh_connect to = {.size = sizeof(bytes), .rank = 0};
    struct nigh_endpoint *endpoint = NULL;

    memcpy(bytes, &to, sizeof(to));
    bytes[sizeof(to) + 3] = 1;
    return nigh->connect(host.context, (const void *)bytes, &endpoint);
}

WITH(connect_rank, connected, nigh_connect, .rank = 77)
WITH(connect_nobody, connected, nigh_connect, .rank = NIGH_RANK_NONE)

static int connect_garbage(void)
{
    struct nigh_address address = {.bytes = "http://127.0.0.1/"};

    return connected((struct nigh_connect){
        .size = sizeof(struct nigh_connect), .rank = NIGH_RANK_NONE, .address = &address});
}

/* An address of which the last part has been cut off, as by a record that is too short. */
static int connect_truncated(void)
{
    struct nigh_address address;

    if (nigh->address(host.context, &address))
        return 1;
    memset(address.bytes + 24, 0, sizeof(address.bytes) - 24);
    return connected((struct nigh_connect){
        .size = sizeof(struct nigh_connect), .rank = NIGH_RANK_NONE, .address = &address});
}

static int send_with(struct nigh_send send)
{
    return nigh->post_send(host.self, &send);
}

static int send_short(void)
{
    return send_with((struct nigh_send){.size = 8});
}
WITH(send_flags, send_with, nigh_send, .flags = 0x100)
WITH(send_class, send_with, nigh_send, .tclass = 8)
WITH(send_null, send_with, nigh_send, .bytes = 4711)
WITH(send_inject, send_with, nigh_send, .flags = NIGH_INJECT, .buffer = where(), .bytes = 1025)

static int inject_long(void)
{
    return nigh->inject(host.self, where(), NIGH_SHAPE(2000, 1), 0, 0, NULL);
}

static int recv_with(struct nigh_recv recv)
{
    return nigh->post_recv(host.context, host.self, &recv);
}

WITH(recv_class, recv_with, nigh_recv, .tclass = 1000)
WITH(recv_null, recv_with, nigh_recv, .bytes = 99)
WITH(recv_both, recv_with, nigh_recv, .flags = NIGH_MULTI | NIGH_IN_PLACE)
WITH(recv_min_free, recv_with, nigh_recv, .flags = NIGH_MULTI, .buffer = where(), .bytes = 64, .min_free = 65)

static int expect_class(void)
{
    return nigh->expect(host.self, where(), NIGH_SHAPE(8, 9), 0, 0, NULL);
}

static int send_to_nobody(void)
{
    struct nigh_send send = {.size = sizeof(send)};

    return nigh->post_send(NULL, &send);
}

static int inject_to_nobody(void)
{
    return nigh->inject(NULL, where(), NIGH_SHAPE(8, 0), 0, 0, NULL);
}

static int inject_imm_to_nobody(void)
{
    return nigh->inject_imm(NULL, where(), NIGH_SHAPE(8, 0), 0, 0);
}

static int send_imm_to_nobody(void)
{
    return nigh->send_imm(NULL, where(), NIGH_SHAPE(8, 0), 0, 0, 0);
}

static int take_of_nobody(void)
{
    struct nigh_taken taken = {.size = sizeof(taken)};

    return nigh->take_completions(NULL, &taken, 1);
}

static int expect_of_nobody(void)
{
    return nigh->expect(NULL, where(), NIGH_SHAPE(8, 0), 0, 0, NULL);
}

static int recv_imm_of_nobody(void)
{
    return nigh->recv_imm(NULL, where(), NIGH_SHAPE(8, 0), 0, 0, 0);
}

static int probe_class(void)
{
    struct nigh_completion found;

    return nigh->probe(host.context, NULL, 0, 0, 8, &found, NULL);
}

static int claim_nothing(void)
{
    struct nigh_recv recv = {.size = sizeof(recv)};

    return nigh->claim(host.context, where(), &recv);
}

static int put_flags(void)
{
    struct nigh_rma rma = {.size = sizeof(rma), .flags = NIGH_SYNC};

    return nigh->post_put(host.self, &rma);
}

static int get_notify(void)
{
    struct nigh_rma rma = {.size = sizeof(rma), .flags = NIGH_NOTIFY};

    return nigh->post_get(host.self, &rma);
}

static int get_null(void)
{
    struct nigh_rma rma = {.size = sizeof(rma), .bytes = 12};

    return nigh->post_get(host.self, &rma);
}

static int atomic_with(struct nigh_atomic atomic)
{
    return nigh->post_atomic(host.self, &atomic);
}

WITH(atomic_float_and, atomic_with, nigh_atomic, .op = NIGH_BAND, .type = NIGH_F32, .count = 1)
WITH(atomic_offset, atomic_with, nigh_atomic, .op = NIGH_SUM, .type = NIGH_U64, .count = 2, .offset = 12,
     .operand = where())
WITH(atomic_large, atomic_with, nigh_atomic, .op = NIGH_SUM, .type = NIGH_U64, .count = 129,
     .operand = where())
WITH(atomic_compare, atomic_with, nigh_atomic, .op = NIGH_CSWAP, .type = NIGH_U8, .count = 1,
     .operand = where())

static int lend_private(void)
{
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = where(), .bytes = 8};

    return nigh->post_lend(host.self, &lend);
}

static int lend_beyond(void)
{
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = host.heap, .bytes = 1 << 20};

    return nigh->post_lend(host.self, &lend);
}

static int lend_flags(void)
{
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = host.heap, .bytes = 8, .flags = NIGH_INJECT};

    return nigh->post_lend(host.self, &lend);
}

static int release_nothing(void)
{
    return nigh->release(host.context, where());
}

static int alloc_nothing(void)
{
    void *out;

    return nigh->heap_alloc(host.context, 0, &out);
}

static int alloc_much(void)
{
    void *out;

    return nigh->heap_alloc(host.context, UINT64_C(1) << 50, &out);
}

static int free_inside(void)
{
    return nigh->heap_free(host.context, (uint8_t *)host.heap + 8);
}

static int registered(struct nigh_register memory, uint64_t key)
{
    struct nigh_region *region;

    memory.size = sizeof(memory);
    return nigh->register_memory(host.context, &memory, &key, &region);
}

static int register_nothing(void)
{
    return registered((struct nigh_register){.flags = NIGH_REMOTE_READ, .buffer = where()}, 0);
}

static int register_no_way(void)
{
    return registered((struct nigh_register){.buffer = where(), .bytes = 8}, 0);
}

static int register_null(void)
{
    return registered((struct nigh_register){.flags = NIGH_REMOTE_WRITE, .bytes = 8}, 0);
}

static int register_key(void)
{
    return registered(
        (struct nigh_register){.flags = NIGH_REMOTE_READ | NIGH_REGISTER_KEY, .buffer = where(), .bytes = 8},
        0xabc);
}

static int register_twice(void)
{
    return registered(
        (struct nigh_register){.flags = NIGH_REMOTE_READ | NIGH_REGISTER_KEY, .buffer = where(), .bytes = 8},
        NIGH_KEY_CHOSEN | 5);
}

static int deregister_nothing(void)
{
    return nigh->deregister(host.context, where());
}

static int copy_way(void)
{
    return nigh->copy_device(host.context, NULL, where(), where(), 8, 7);
}

static int copy_null(void)
{
    return nigh->copy_device(host.context, NULL, where(), NULL, 17, NIGH_COPY_OUT);
}

static int poll_much(void)
{
    return nigh->poll_completions(host.context, where(), UINT32_MAX);
}

static int take_much(void)
{
    struct nigh_taken taken = {.size = sizeof(taken)};

    return nigh->take_completions(host.context, &taken, UINT32_MAX);
}

static int take_short(void)
{
    struct nigh_taken taken = {.size = 8};

    return nigh->take_completions(host.context, &taken, 1);
}

static int no_descriptor(void)
{
    int fd;

    return nigh->wait_fd(host.context, &fd);
}

static int query_kind(void)
{
    uint64_t bytes = 64;

    return nigh->query(host.context, NULL, 99, where(), &bytes);
}

static int query_of_nobody(void)
{
    uint64_t bytes = 64;

    return nigh->query(host.context, NULL, NIGH_QUERY_PATHS, where(), &bytes);
}

static int note_state(void)
{
    struct nigh_note note = {.size = sizeof(note), .state = 4};

    return nigh->note(host.context, &note);
}

#define CALL(name) #name, name
static const struct refusal {
    const char *name;
    int (*call)(void);
    int error;
    const char *said[3]; /* the call, the value, what it may be */
} refusals[] = {
    {CALL(open_short), -EINVAL, {"open:", " 88,", "sizeof"}},
    {CALL(open_flags), -EINVAL, {"open:", "0x40000000", "0xf"}},
    {CALL(open_reserved), -EINVAL, {"open:", "reserved", "clear the struct"}},
    {CALL(open_rank), -EINVAL, {"rank", "3 of 3", "below"}},
    {CALL(open_again), -EADDRINUSE, {"rank 0", "already", NULL}},
    {CALL(connect_tail), -EINVAL, {"connect:", "not zero", "newer"}},
    {CALL(connect_rank), -ERANGE, {"connect:", "rank 77", "0 to 2"}},
    {CALL(connect_nobody), -EINVAL, {"connect:", "rank -1", "by its rank"}},
    {CALL(connect_garbage), -EBADMSG, {"connect:", "no address of nigh", "address()"}},
    {CALL(connect_truncated), -EBADMSG, {"connect:", "no address of nigh", "all of it"}},
    {CALL(send_short), -EINVAL, {"post_send:", " 8,", "sizeof"}},
    {CALL(send_flags), -EINVAL, {"post_send:", "0x100", "0x1f"}},
    {CALL(send_class), -EINVAL, {"post_send:", "class 8", "0 to 7"}},
    {CALL(send_null), -EFAULT, {"post_send:", "4711", "NULL"}},
    {CALL(send_inject), -EMSGSIZE, {"post_send:", "1025", "1024"}},
    {CALL(inject_long), -EMSGSIZE, {"post_send:", "2000", "1024"}},
    {CALL(recv_class), -EINVAL, {"post_recv:", "class 1000", "0 to 7"}},
    {CALL(recv_null), -EFAULT, {"post_recv:", "99", "NULL"}},
    {CALL(recv_both), -EINVAL, {"post_recv:", "NIGH_MULTI", "NIGH_IN_PLACE"}},
    {CALL(recv_min_free), -EINVAL, {"post_recv:", "min_free is 65", "64"}},
    {CALL(expect_class), -EINVAL, {"post_recv:", "class 9", "0 to 7"}},
    {CALL(probe_class), -EINVAL, {"probe:", "class 8", "0 to 7"}},
    {CALL(claim_nothing), -EINVAL, {"claim:", "0x", "probe()"}},
    {CALL(put_flags), -EINVAL, {"post_put:", "0x1:", "0x1c"}},
    {CALL(get_notify), -EINVAL, {"post_get:", "0x8", "0x14"}},
    {CALL(get_null), -EFAULT, {"post_get:", "12", "NULL"}},
    {CALL(atomic_float_and), -EOPNOTSUPP, {"post_atomic:", "operation 8", "type 9"}},
    {CALL(atomic_offset), -EINVAL, {"post_atomic:", "offset 12", "multiple of 8"}},
    {CALL(atomic_large), -EMSGSIZE, {"post_atomic:", "129 elements", "1024"}},
    {CALL(atomic_compare), -EFAULT, {"post_atomic:", "operation 13", "`compare`"}},
    {CALL(lend_private), -EINVAL, {"post_lend:", "0x", "heap_alloc"}},
    {CALL(lend_beyond), -EINVAL, {"post_lend:", "1048576", "heap_alloc"}},
    {CALL(lend_flags), -EINVAL, {"post_lend:", "0x2:", "0x14"}},
    {CALL(release_nothing), -EINVAL, {"release:", "0x", "given back"}},
    {CALL(alloc_nothing), -EINVAL, {"heap_alloc:", "0 bytes", "at least 1"}},
    {CALL(alloc_much), -ENOMEM, {"heap", "1.0 PiB", "NIGH_HEAP"}},
    {CALL(free_inside), -EINVAL, {"heap_free:", "0x", "heap_alloc()"}},
    {CALL(register_nothing), -EINVAL, {"register_memory:", "0 bytes", "at least 1"}},
    {CALL(register_no_way), -EINVAL, {"register_memory:", "0x0", "NIGH_REMOTE_READ"}},
    {CALL(register_null), -EFAULT, {"register_memory:", "8 bytes", "NULL"}},
    {CALL(register_key), -EINVAL, {"register_memory:", "0xabc", "NIGH_KEY_CHOSEN"}},
    {CALL(register_twice), -EEXIST, {"register_memory:", "0x8000000000000005", "deregister()"}},
    {CALL(deregister_nothing), -EINVAL, {"deregister:", "0x", "registered"}},
    {CALL(copy_way), -EINVAL, {"copy_device:", "way 7", "NIGH_COPY_OUT"}},
    {CALL(copy_null), -EFAULT, {"copy_device:", "17", "NULL"}},
    {CALL(poll_much), -EINVAL, {"poll_completions:", "4294967295", "2147483647"}},
    {CALL(take_much), -EINVAL, {"take_completions:", "4294967295", "2147483647"}},
    {CALL(take_short), -EINVAL, {"take_completions:", "size is 8", "32"}},
    {CALL(no_descriptor), -ENOTSUP, {"wait_fd:", "NIGH_OPEN_WAIT_FD", "NIGH_WAIT_FD=1"}},
    {CALL(query_kind), -EINVAL, {"query:", "kind 99", "1 to 11"}},
    {CALL(query_of_nobody), -EINVAL, {"query:", "kind 3", "endpoint"}},
    {CALL(note_state), -EINVAL, {"note:", "state 4", "1 to 3"}},
};

static void begin(const struct pair *pair)
{
    struct nigh_register memory = {
        .size = sizeof(memory), .flags = NIGH_REMOTE_READ | NIGH_REGISTER_KEY, .buffer = where(), .bytes = 8};
    struct nigh_connect to = {.size = sizeof(to)};
    uint64_t key = NIGH_KEY_CHOSEN | 5;
    struct nigh_open options;

    host = (struct host){.job = pair->job + 50};
    options = options_of(host.job);
    options.heap_bytes = 1 << 20;
    CHECK_INT(nigh->open(&options, &host.context), 0);
    CHECK_INT(nigh->connect(host.context, &to, &host.self), 0);
    CHECK_INT(nigh->heap_alloc(host.context, 64, &host.heap), 0);
    CHECK_INT(nigh->register_memory(host.context, &memory, &key, &host.region), 0);
}

static void end(void)
{
    CHECK_INT(nigh->deregister(host.context, host.region), 0);
    CHECK_INT(nigh->heap_free(host.context, host.heap), 0);
    CHECK_INT(nigh->close(host.context), 0);
}

static void told(struct pair *pair)
{
    begin(pair);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *refusal = &refusals[i];
        int rc;

        host.told = (struct told){.lines = 0};
        rc = refusal->call();
        if (rc != refusal->error || host.told.lines != 1 || host.told.errors != 1)
            pair_fail(__FILE__, __LINE__, "%s: %d, not %d; %u lines, %u of errors: \"%s\"", refusal->name, rc,
                      refusal->error, host.told.lines, host.told.errors, host.told.text);
        for (unsigned part = 0; part < 3 && refusal->said[part]; part++)
            if (!strstr(host.told.text, refusal->said[part]))
                pair_fail(__FILE__, __LINE__, "%s: \"%s\" has no \"%s\"", refusal->name, host.told.text,
                          refusal->said[part]);
    }
    end();
}

/* Who asks in a loop does not fill the log. */
static void told_so_often(struct pair *pair)
{
    begin(pair);
    for (unsigned i = 1; i <= 200; i++) {
        CHECK_INT(send_class(), -EINVAL);
        CHECK_INT(host.told.lines, i < 64 ? i : 64);
    }
    CHECK(strstr(host.told.text, "no more of these") != NULL);
    end();
}

/* A struct that ends where its page does: what lies behind its size is nobody's. */
static void told_of_little(struct pair *pair)
{
    struct nigh_context *context;
    uint32_t bytes[] = {8, 64, 72, 80};
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)pair;
    CHECK(pages != MAP_FAILED);
    CHECK_INT(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        char *options = pages + 4096 - bytes[i];

        memset(options, 0x41, bytes[i]);
        memcpy(options, &bytes[i], sizeof(bytes[i]));
        CHECK_INT(nigh->open((void *)options, &context), -EINVAL);
    }
    CHECK_INT(munmap(pages, 8192), 0);
}

/* Without a handle there is no context whose log it could be: standard error. */
static void told_of_no_handle(struct pair *pair)
{
    static const struct {
        int (*call)(void);
        const char *name;
    } missing[] = {
        {send_to_nobody, "post_send: "},        {inject_to_nobody, "inject: "},
        {inject_imm_to_nobody, "inject_imm: "}, {send_imm_to_nobody, "send_imm: "},
        {expect_of_nobody, "expect: "},         {recv_imm_of_nobody, "recv_imm: "},
        {take_of_nobody, "take_completions: "},
    };

    (void)pair;
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
        char text[1024] = "";
        int stderr_before = dup(STDERR_FILENO), said[2], rc;

        CHECK(stderr_before >= 0 && pipe(said) == 0 && dup2(said[1], STDERR_FILENO) >= 0);
        rc = missing[i].call();
        CHECK(dup2(stderr_before, STDERR_FILENO) >= 0);
        CHECK_INT(rc, -EINVAL);
        CHECK_INT(close(said[1]) | close(stderr_before), 0);
        CHECK(read(said[0], text, sizeof(text) - 1) > 0);
        CHECK_INT(close(said[0]), 0);
        if (!strstr(text, missing[i].name) || !strstr(text, "handle"))
            pair_fail(__FILE__, __LINE__, "\"%s\" has no \"%s\"", text, missing[i].name);
    }
}

/* A child is told by its first call, and no more: on standard error, since its parent's log may be
 * locked by a thread that is not there. */
static void told_to_a_child(struct pair *pair)
{
    char text[1024] = "";
    int status, said[2];
    pid_t child;

    begin(pair);
    CHECK_INT(pipe(said), 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct nigh_address address;
        int failed = dup2(said[1], STDERR_FILENO) < 0 || nigh->address(host.context, &address) != -ECHILD;

        for (unsigned i = 0; i < 3 && !failed; i++)
            failed = nigh->wait(host.context, 0) != -ECHILD || nigh->close(host.context) != -ECHILD;
        _exit(failed || host.told.lines);
    }
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(WEXITSTATUS(status), 0);
    CHECK(read(said[0], text, sizeof(text) - 1) > 0);
    CHECK(strstr(text, "forked") && strstr(text, "open a context") && strchr(text, '\n')[1] == '\0');
    CHECK_INT(close(said[0]), 0);
    CHECK_INT(close(said[1]), 0);
    end();
}

static const struct pair_case cases[] = {
    {.name = "told", .play = told, .forms = PAIR_SELF},
    {.name = "told so often", .play = told_so_often, .forms = PAIR_SELF},
    {.name = "told of little", .play = told_of_little, .forms = PAIR_SELF},
    {.name = "told of no handle", .play = told_of_no_handle, .forms = PAIR_SELF},
    {.name = "told to a child", .play = told_to_a_child, .forms = PAIR_SELF},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
