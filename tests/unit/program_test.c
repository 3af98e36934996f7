/* SPDX-License-Identifier: BSD-3-Clause */
/* A program whose memory lies in a file that peers map: its messages are read there and not by process_vm_readv, as long
 * as it says so, and by that where anything is amiss. Sender and receiver are one process, so what tells the two ways
 * apart is who was asked. */
#include "tests/support/apart.h"
#include "tests/support/osfail.h"
#include "tests/support/others.h"
#include "tests/support/program.h"

static int begin_with(int seals, uint32_t flags)
{
    make_file(seals);
    asked = false;
    start_as(flags);
    assert_true(asked);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_with(F_SEAL_SHRINK | F_SEAL_GROW, 0);
}

static int begin_threads(void **state)
{
    (void)state;
    return begin_with(F_SEAL_SHRINK | F_SEAL_GROW, NIGH_OPEN_THREADS);
}

static int begin_unsealed(void **state)
{
    (void)state;
    return begin_with(F_SEAL_SHRINK, 0);
}

static int end(void **state)
{
    stop(state);
    drop_file();
    return 0;
}

/* ---- messages ---------------------------------------------------------------------------------------------- */

static void post_at(unsigned context, const uint8_t *at, uint64_t bytes)
{
    assert_int_equal(hosted_recv(&b, from, context, context, in, bytes, 0), 0);
    assert_int_equal(hosted_send(to, context, context, at, bytes, 0), 0);
}

static void arrives(unsigned context, const uint8_t *at, uint64_t bytes)
{
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, context)->status, 0);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, context)->status, 0);
    assert_memory_equal(in, at, bytes);
}

/* How much of it was read by process_vm_readv; the sender, which writes by process_vm_writev, does not help. */
static uint64_t sent_from(const uint8_t *at, uint64_t bytes)
{
    a.count = b.count = 0;
    reads = 0;
    read_bytes = 0;
    memset(in, 0, sizeof(in));
    post_at(1, at, bytes);
    polls(&b, 100);
    arrives(1, at, bytes);
    assert_int_equal(writes, 0);
    return read_bytes;
}

static void test_mapped(void **state)
{
    (void)state;
    assert_non_null(from->program.base);
    assert_int_equal(sent_from(base + PAGE, FROM), 0);
    assert_int_equal(sent_from(base + PAGE + 13, 333 * KIB + 5), 0);
    assert_int_equal(sent_from(base + BYTES - MOST, MOST), 0);
}

/* Other memory, also such as begins or ends there. */
static void test_other_memory(void **state)
{
    (void)state;
    assert_int_equal(sent_from(out, EACH), EACH);
    assert_int_equal(sent_from(base + BYTES - EACH, EACH), 0);
    assert_true(sent_from(base + BYTES - EACH + 1, EACH) > 0);
    assert_int_equal(sent_from(base + BYTES - FROM + 2 * PAGE, FROM), FROM / 2) /* the second half */;
}

/* The sender may still be asked to help. */
static void test_helped(void **state)
{
    (void)state;
    a.count = b.count = 0;
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * EACH, EACH, 0), 0);
        assert_int_equal(hosted_send(to, i, i, base + PAGE + i * EACH, EACH, 0), 0);
    }
    polls(&b, 1);
    polls(&a, 50);
    assert_true(writes > 0);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, 0);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
    }
    assert_memory_equal(in, base + PAGE, 8 * EACH);
    assert_int_equal(reads, 0);
}

/* Several whole ones in a go, of which one lies elsewhere: those are read by the kernel, all of them. */
static void run_of(const uint8_t *second)
{
    enum { SHORT = 100 * KIB };

    a.count = b.count = 0;
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * SHORT, SHORT, 0), 0);
        assert_int_equal(
            hosted_send(to, i, i, i == 1 ? second : base + PAGE + i * SHORT, SHORT, NIGH_MAY_WAIT), 0);
    }
    polls(&b, 100);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, 0);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
        assert_memory_equal(in + i * SHORT, i == 1 ? second : base + PAGE + i * SHORT, SHORT);
    }
}

static void test_runs(void **state)
{
    (void)state;
    run_of(base + PAGE + 100 * KIB);
    assert_int_equal(reads, 0);
    comes_back();
    run_of(out);
    assert_true(reads > 0);
}

/* What has no receive is fetched from there, too; the first of a row goes in chunks. */
static unsigned reads_of_fetched(const uint8_t *at)
{
    enum { ROW = 4, LONG = 64 * KIB };

    a.count = b.count = 0;
    reads = 0;
    for (unsigned i = 0; i < ROW; i++)
        assert_int_equal(hosted_send(to, i, i, at + i * LONG, LONG, NIGH_MAY_WAIT), 0);
    for (unsigned i = 0; i < ROW; i++)
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
    for (unsigned i = 0; i < ROW; i++) {
        assert_int_equal(hosted_recv(&b, from, i, i, in, LONG, 0), 0);
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, 0);
        assert_memory_equal(in, at + i * LONG, LONG);
    }
    comes_back();
    return reads;
}

static void test_fetched(void **state)
{
    (void)state;
    a.context->config.beside_from = b.context->config.beside_from = MOST;
    a.context->config.beside_row_from = b.context->config.beside_row_from = 32 * KIB;
    a.context->config.away_ns = UINT64_MAX;
    b.context->config.fetch_ns = 0;
    assert_int_equal(reads_of_fetched(base + 5 * PAGE + 3), 0);
    assert_true(reads_of_fetched(out) > 0);
}

static void test_threads(void **state)
{
    (void)state;
    assert_int_equal(sent_from(base + PAGE, EACH), 0);
    assert_int_equal(sent_from(base + PAGE, MOST), 0);
}

/* ---- taken back -------------------------------------------------------------------------------------------- */

/* What was sent before is as it was; what is written later is not in the file. */
static void test_taken_back(void **state)
{
    uint8_t *at = base + PAGE;

    (void)state;
    a.count = b.count = 0;
    post_at(1, at, EACH);
    make_private();
    polls(&b, 100);
    arrives(1, at, EACH);
    memset(at, 0x5a, MOST);
    assert_int_equal(sent_from(at, EACH), EACH);
    assert_int_equal(sent_from(at, MOST), MOST);
}

/* Who connects then does not map it. */
static void test_taken_back_before(void **state)
{
    (void)state;
    make_file(F_SEAL_SHRINK | F_SEAL_GROW);
    make_private();
    start(state);
    assert_null(from->program.base);
    assert_int_equal(sent_from(base + PAGE, EACH), EACH);
    stop(state);
    drop_file();
}

/* ---- other memory is mapped there -------------------------------------------------------------------------- */

/* By a program that does not say so, while its peers go on: the kernel does (Linux 6.11). */
static void maps_over(uint64_t offset, int flags, int fd)
{
    uint8_t *at = base + PAGE + offset;

    assert_non_null(from->program.base);
    assert_int_equal(sent_from(base + PAGE, MOST), 0);
    assert_ptr_equal(mmap(at, EACH / 2, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0), at);
    memset(at, 0x77, EACH / 2);
    assert_int_equal(sent_from(base + PAGE, MOST), MOST);
    assert_int_equal(sent_from(base + PAGE, MOST / 16), MOST / 16); /* nor shorter ones, from then on */
}

static bool cannot_ask(void)
{
    if (a.context->program_watch.maps >= 0)
        return false;
    print_message("this kernel does not say what is mapped at an address\n");
    return true;
}

static void test_mapped_over(void **state)
{
    (void)state;
    if (cannot_ask())
        skip();
    maps_over(EACH, MAP_SHARED | MAP_ANONYMOUS, -1);
}

static void test_mapped_over_at_its_end(void **state)
{
    (void)state;
    if (cannot_ask())
        skip();
    maps_over((MOST - EACH / 2) / PAGE * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* The same file, at another place of it. */
static void test_moved(void **state)
{
    (void)state;
    if (cannot_ask())
        skip();
    maps_over(EACH, MAP_SHARED, file);
}

/* The same place of the same file, but the program's alone. */
static void test_private(void **state)
{
    uint8_t *at = base + PAGE;

    (void)state;
    if (cannot_ask())
        skip();
    assert_ptr_equal(mmap(at, EACH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, PAGE), at);
    memset(at, 0x77, EACH);
    assert_int_equal(sent_from(at, MOST), MOST);
}

/* And the descriptor is closed, so that peers cannot be told: it is sent otherwise. */
static void test_mapped_over_and_closed(void **state)
{
    int kept;

    (void)state;
    if (cannot_ask())
        skip();
    kept = dup(file);
    close(file);
    assert_ptr_equal(
        mmap(base + PAGE, EACH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        base + PAGE);
    memset(base + PAGE, 0x77, EACH);
    assert_int_equal(sent_from(base + PAGE, MOST), 0);
    assert_int_equal(dup2(kept, file), file);
    close(kept);
}

/* A kernel that cannot be asked: what is sent is taken to lie there. */
static void test_unasked(void **state)
{
    struct nigh_program_told told;
    struct nigh_program_watch watch;

    (void)state;
    nigh_program_ask(&told);
    osfail_install();
    osfail_arm(OSFAIL_ioctl, 1, ENOTTY);
    nigh_program_watch_open(&told, &watch);
    assert_true(osfail_hit());
    osfail_remove();
    assert_int_equal(watch.maps, -1);
    assert_true(nigh_program_is_there(&watch, &a.context->arena.layout, base + PAGE, MOST));
}

/* The program has closed what asks, and opened others under its number: what is sent is read by the kernel. */
static void test_asked_of_another_file(void **state)
{
    struct nigh_program_told told;
    struct nigh_program_watch watch;

    (void)state;
    nigh_program_ask(&told);
    for (unsigned kind = 0; kind < OTHERS_KINDS; kind++) {
        nigh_program_watch_open(&told, &watch);
        if (watch.maps < 0) {
            print_message("SKIP: this kernel has no call that tells of one mapping\n");
            skip();
        }
        others_open(watch.maps, kind);
        assert_false(nigh_program_is_there(&watch, &a.context->arena.layout, base + PAGE, MOST));
        nigh_program_watch_close(&watch);
        assert_int_equal(others_touched(), -1);
    }
}

/* ---- what is not that file --------------------------------------------------------------------------------- */

static void test_unsealed(void **state)
{
    (void)state;
    assert_null(from->program.base);
    assert_int_equal(sent_from(base + PAGE, EACH), EACH);
}

/* A descriptor of that number that is another file, of another length, no file at all, closed. */
static void test_another_file(void **state)
{
    struct nigh_arena_header told;
    struct nigh_program program;
    struct nigh_memory_head head = {.id = ID};
    unsigned fds = osfail_open_fds(), maps = osfail_shared_maps();
    int low, other, ends[2];

    (void)state;
    told = a.context->arena.layout;
    assert_int_equal(nigh_program_map(getpid(), &told, UINT64_MAX, &program), 0);
    nigh_program_unmap(&program);
    told.memory_id++;
    assert_int_equal(nigh_program_map(getpid(), &told, UINT64_MAX, &program), -EPROTO);
    told.memory_id--;
    told.memory_bytes -= PAGE;
    assert_int_equal(nigh_program_map(getpid(), &told, UINT64_MAX, &program), -EPROTO);
    told.memory_bytes += PAGE;

    low = memfd_create("other", MFD_ALLOW_SEALING);
    other = fcntl(low, F_DUPFD, 200); /* beyond what is opened meanwhile */
    assert_true(other >= 200);
    close(low);
    assert_int_equal(ftruncate(other, BYTES), 0);
    assert_int_equal(pwrite(other, &head, sizeof(head), 0), sizeof(head));
    assert_int_equal(fcntl(other, F_ADD_SEALS, F_SEAL_GROW), 0);
    told.memory_fd = (uint32_t)other + 1;
    assert_int_equal(nigh_program_map(getpid(), &told, UINT64_MAX, &program), -EPROTO);
    assert_int_equal(fcntl(other, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(nigh_program_map(getpid(), &told, UINT64_MAX, &program), 0);
    nigh_program_unmap(&program);
    close(other);
    assert_int_equal(nigh_program_map(getpid(), &told, UINT64_MAX, &program), -EBADF);
    assert_int_equal(pipe(ends), 0);
    told.memory_fd = (uint32_t)ends[0] + 1;
    assert_int_equal(nigh_program_map(getpid(), &told, UINT64_MAX, &program), -EPROTO);
    assert_null(program.base);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(nigh_program_map(0, &told, UINT64_MAX, &program), -ESRCH);
    told.memory_fd = 0;
    assert_int_equal(nigh_program_map(getpid(), &told, UINT64_MAX, &program), 0);
    assert_null(program.base);
    assert_int_equal(osfail_open_fds(), fds);
    assert_int_equal(osfail_shared_maps(), maps);
}

/* Of one that is longer than its share of the address space the beginning. */
static void test_beginning(void **state)
{
    const struct nigh_arena_header *told = &a.context->arena.layout;
    struct nigh_program program;

    (void)state;
    assert_int_equal(nigh_program_map(getpid(), told, 5 * PAGE + 7, &program), 0);
    assert_non_null(nigh_program_at(&program, (uintptr_t)base + 4 * PAGE, PAGE));
    assert_memory_equal(nigh_program_at(&program, (uintptr_t)base + 4 * PAGE, PAGE), base + 4 * PAGE, PAGE);
    assert_null(nigh_program_at(&program, (uintptr_t)base + 4 * PAGE, PAGE + 1));
    assert_null(nigh_program_at(&program, (uintptr_t)base + 5 * PAGE, 1));
    nigh_program_unmap(&program);
    assert_int_equal(nigh_program_map(getpid(), told, 2 * PAGE - 1, &program), -ENOMEM);
    from->program.bytes = 6 * PAGE;
    assert_true(sent_from(base + PAGE, EACH) > 0);
    from->program.bytes = BYTES;
}

/* What no one has used takes no memory by being mapped, locked or dumped. */
static void test_locked(void **state)
{
    struct nigh_program program;
    struct stat before, after;

    (void)state;
    assert_int_equal(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, BYTES / 2, BYTES / 2), 0);
    assert_int_equal(fstat(file, &before), 0);
    if (geteuid() || mlockall(MCL_FUTURE)) { /* for others there is a limit, which mappings count against */
        print_message("no memory may be locked here\n");
        skip();
    }
    assert_int_equal(nigh_program_map(getpid(), &a.context->arena.layout, UINT64_MAX, &program), 0);
    assert_int_equal(munlockall(), 0);
    assert_int_equal(fstat(file, &after), 0);
    assert_int_equal(after.st_blocks, before.st_blocks);
    nigh_program_unmap(&program);
}

/* Each call that maps it fails once: nothing is left, and messages are read the other way. */
static void test_failures(void **state)
{
    static const struct {
        enum osfail_call call;
        unsigned nth;
        int error, result;
    } failures[] = {
        {OSFAIL_pidfd_open, 1, EMFILE, -EMFILE}, {OSFAIL_pidfd_getfd, 1, EPERM, -EPERM},
        {OSFAIL_fcntl, 1, EINVAL, -EPROTO},      {OSFAIL_fstatfs, 1, EIO, -EPROTO},
        {OSFAIL_fstat, 1, EIO, -EPROTO},         {OSFAIL_pread, 1, EIO, -EPROTO},
        {OSFAIL_getrlimit, 1, EIO, -ENOMEM},     {OSFAIL_mmap, 1, ENOMEM, -ENOMEM},
        {OSFAIL_madvise, 1, ENOMEM, -ENOMEM},    {OSFAIL_madvise, 2, EINVAL, -ENOMEM},
        {OSFAIL_munlock, 1, ENOMEM, -ENOMEM},    {OSFAIL_mprotect, 1, EACCES, -ENOMEM},
    };
    unsigned fds = osfail_open_fds(), maps = osfail_shared_maps();
    struct nigh_program program;

    (void)state;
    for (unsigned i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        osfail_install();
        osfail_arm(failures[i].call, failures[i].nth, failures[i].error);
        assert_int_equal(nigh_program_map(getpid(), &a.context->arena.layout, UINT64_MAX, &program),
                         failures[i].result);
        assert_true(osfail_hit());
        osfail_remove();
        assert_null(program.base);
        assert_int_equal(osfail_open_fds(), fds);
        assert_int_equal(osfail_shared_maps(), maps);
    }
}

static int no_descriptors(int process, int fd, unsigned flags)
{
    (void)process, (void)fd, (void)flags;
    errno = EPERM;
    return -1;
}

static void test_not_allowed(void **state)
{
    int (*before)(int, int, unsigned) = nigh_os.pidfd_getfd;

    (void)state;
    make_file(F_SEAL_SHRINK | F_SEAL_GROW);
    nigh_os.pidfd_getfd = no_descriptors;
    start(state);
    assert_null(from->program.base);
    assert_int_equal(sent_from(base + PAGE, EACH), EACH);
    stop(state);
    nigh_os.pidfd_getfd = before;
    drop_file();
}

/* ---- what is said of it ------------------------------------------------------------------------------------ */

/* Whether the last row of the report begins so, of what is sent on `endpoint`. */
static bool reported(const struct hosted *hosted, struct nigh_endpoint *endpoint, const char *text)
{
    struct nigh_query_path rows[32];
    uint64_t bytes = sizeof(rows);

    rows[0].size = sizeof(rows[0]);
    assert_int_equal(hosted_ops->query(hosted->context, endpoint, NIGH_QUERY_PATHS, rows, &bytes), 0);
    return strstr(rows[bytes / sizeof(rows[0]) - 1].reason, text) != NULL;
}

static void test_report(void **state)
{
    (void)state;
    assert_true(reported(&a, to, "the peer has mapped them"));
    from->pair->maps = 0;
    assert_true(reported(&a, to, "the peer has not mapped them"));
    from->pair->maps = 1;
    take_back();
    assert_true(reported(&a, to, "its own since it forked"));
}

/* ---- what an allocator may say ----------------------------------------------------------------------------- */

static void test_unsound(void **state)
{
    struct nigh_program_told told;
    struct nigh_memory sound;

    (void)state;
    make_file(F_SEAL_SHRINK | F_SEAL_GROW);
    sound = said;
    nigh_program_ask(&told);
    assert_int_equal(told.fd, (unsigned)file + 1);
    assert_int_equal(told.address, (uintptr_t)base);
    assert_int_equal(told.bytes, BYTES);
    assert_int_equal(told.id, ID);
    for (unsigned i = 0; i < 8; i++) {
        said = sound;
        switch (i) {
        case 0:
            said.base += 16;
            break;
        case 1:
            said.base = 0;
            break;
        case 2:
            said.bytes = PAGE;
            break;
        case 3:
            said.bytes -= 1;
            break;
        case 4:
            said.bytes = 2 * NIGH_ARENA_MAX;
            break;
        case 5:
            said.base = UINT64_MAX - PAGE + 1;
            break;
        case 6:
            said.fd = -1;
            break;
        default:
            said.id = 0;
        }
        nigh_program_ask(&told);
        assert_int_equal(told.fd | told.address | told.bytes | told.id, 0);
    }
    drop_file();
    nigh_program_ask(&told);
    assert_int_equal(told.fd | told.address | told.bytes | told.id, 0);
}

#define TEST(name)          cmocka_unit_test_setup_teardown(test_##name, begin, end)
#define TEST_WITH(name, as) cmocka_unit_test_setup_teardown(test_##name, as, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mapped),
        TEST(other_memory),
        TEST(helped),
        TEST(runs),
        TEST(fetched),
        TEST_WITH(threads, begin_threads),
        TEST(taken_back),
        cmocka_unit_test(test_taken_back_before),
        TEST(mapped_over),
        TEST(mapped_over_at_its_end),
        TEST(moved),
        TEST(private),
        TEST(mapped_over_and_closed),
        TEST(unasked),
        TEST(asked_of_another_file),
        TEST_WITH(unsealed, begin_unsealed),
        TEST(another_file),
        TEST(beginning),
        TEST(locked),
        TEST(failures),
        cmocka_unit_test(test_not_allowed),
        TEST(report),
        cmocka_unit_test(test_unsound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
