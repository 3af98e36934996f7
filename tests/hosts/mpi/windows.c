/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided communication, mostly on a program's own memory: windows that an MPI allocates may be plain shared memory,
 * and tell nothing about the transport. Where they are not, the MPI has to find the transport's way there. */
#include "tests/hosts/mpi/suite.h"

enum { WORDS = 5000 };

static long *memory;
static MPI_Win window;

static void open_window(void)
{
    memory = suite_memory(WORDS * sizeof(long));
    MPI_Win_create(memory, WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
}

static void close_window(void)
{
    MPI_Win_free(&window);
    free(memory);
}

static void fence(void)
{
    static long out[WORDS], back[WORDS];

    open_window();
    for (int i = 0; i < WORDS; i++)
        out[i] = suite_rank * 100000 + i;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    MPI_Put(out, WORDS, MPI_LONG, suite_right(), 0, WORDS, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < WORDS; i++)
        EQUAL(memory[i], suite_left() * 100000 + i);
    MPI_Get(back, WORDS, MPI_LONG, suite_right(), 0, WORDS, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < WORDS; i++)
        EQUAL(back[i], suite_rank * 100000 + i);
    for (int i = 0; i < WORDS; i++)
        memory[i] = 0;
    MPI_Win_fence(0, window);
    for (int r = 0; r < suite_ranks; r++)
        MPI_Accumulate(out, 10, MPI_LONG, r, 0, 10, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    for (int i = 0; i < 10; i++)
        EQUAL(memory[i], suite_ranks * (suite_ranks - 1) / 2 * 100000L + suite_ranks * i);
    close_window();
}

/* A counter that everybody counts up: under a lock by get and put, then by one atomic operation. */
static void counter(void)
{
    enum { TURNS = 20 };
    long one = 1, old, sum = 0;

    open_window();
    for (int i = 0; i < TURNS; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Get(&old, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
        MPI_Win_flush(0, window);
        old++;
        MPI_Put(&old, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < TURNS; i++) {
        MPI_Fetch_and_op(&one, &old, MPI_LONG, suite_ranks - 1, 1, MPI_SUM, window);
        MPI_Win_flush(suite_ranks - 1, window);
        sum += old;
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(&old, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    EQUAL(old, TURNS * suite_ranks);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    EQUAL(sum, (long)TURNS * suite_ranks * (TURNS * suite_ranks - 1) / 2); /* each value was given once */
    close_window();
}

/* Who finds 0 puts itself there; exactly one does. */
static void compare_and_swap(void)
{
    long me = suite_rank + 1, none = 0, found = -1, won, all = 0;

    open_window();
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Compare_and_swap(&me, &none, &found, MPI_LONG, 0, 3, window);
    MPI_Win_unlock(0, window);
    won = found == 0;
    MPI_Allreduce(&won, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    EQUAL(all, 1);
    EQUAL(won || (found > 0 && found <= suite_ranks), 1);
    close_window();
}

static void fetched(void)
{
    double mine[8], before[8];
    MPI_Request request;

    open_window();
    double *values = (double *)(void *)memory;
    for (int i = 0; i < 8; i++) {
        values[i] = 1;
        mine[i] = suite_rank + i;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    MPI_Win_sync(window);
    MPI_Get_accumulate(mine, 8, MPI_DOUBLE, before, 8, MPI_DOUBLE, suite_right(), 0, 8, MPI_DOUBLE, MPI_MAX,
                       window);
    MPI_Win_flush_all(window);
    for (int i = 0; i < 8; i++)
        EQUAL(before[i], 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Rget(before, 8, MPI_DOUBLE, suite_right(), 0, 8, MPI_DOUBLE, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 8; i++)
        EQUAL(before[i], suite_rank + i > 1 ? suite_rank + i : 1);
    MPI_Win_unlock_all(window);
    close_window();
}

/* Only neighbours synchronise: each exposes its memory to the left one and writes into the right one's. */
static void start_post(void)
{
    MPI_Group world, left, right;
    int to = suite_right(), from = suite_left();
    long value = suite_rank;

    open_window();
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &from, &left);
    MPI_Group_incl(world, 1, &to, &right);
    for (int i = 0; i < 5; i++) {
        MPI_Win_post(left, 0, window);
        MPI_Win_start(right, 0, window);
        MPI_Put(&value, 1, MPI_LONG, to, i, 1, MPI_LONG, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        EQUAL(memory[i], from);
    }
    MPI_Group_free(&left);
    MPI_Group_free(&right);
    MPI_Group_free(&world);
    close_window();
}

/* Every other word of the neighbour's memory. */
static void strided(void)
{
    long out[100];
    MPI_Datatype every_other;

    open_window();
    MPI_Type_vector(100, 1, 2, MPI_LONG, &every_other);
    MPI_Type_commit(&every_other);
    for (int i = 0; i < 100; i++)
        out[i] = suite_rank + 1 + i;
    MPI_Win_fence(0, window);
    MPI_Put(out, 100, MPI_LONG, suite_right(), 10, 1, every_other, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 100; i++) {
        EQUAL(memory[10 + 2 * i], suite_left() + 1 + i);
        EQUAL(memory[11 + 2 * i], 0);
    }
    MPI_Type_free(&every_other);
    close_window();
}

/* Memory that is attached later: some MPIs register all that the process has. */
static void attached(void)
{
    long one = 1, out[WORDS];
    MPI_Aint at, *all = suite_memory((size_t)suite_ranks * sizeof(*all));
    int right = suite_right();

    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    memory = suite_memory(WORDS * sizeof(long));
    MPI_Win_attach(window, memory, WORDS * sizeof(long));
    MPI_Get_address(memory, &at);
    MPI_Allgather(&at, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    for (int i = 0; i < WORDS; i++)
        out[i] = suite_rank * 100000 + i;
    MPI_Win_fence(0, window);
    MPI_Put(out + 1, WORDS - 1, MPI_LONG, right, all[right] + (MPI_Aint)sizeof(long), WORDS - 1, MPI_LONG,
            window);
    for (int r = 0; r < suite_ranks; r++)
        MPI_Accumulate(&one, 1, MPI_LONG, r, all[r], 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    EQUAL(memory[0], suite_ranks);
    for (int i = 1; i < WORDS; i++)
        EQUAL(memory[i], suite_left() * 100000 + i);
    MPI_Win_detach(window, memory);
    close_window();
    free(all);
}

/* Every other word of the neighbour's part, and all ranks' sums in rank 0's. The last rank's part is shorter. */
static void shared(void)
{
    enum { PART = 600 };
    long out[100], back[100], one = 1, old, *mine;
    int size, me, right, left, last;
    MPI_Datatype every_other;
    MPI_Comm node;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &size);
    MPI_Comm_rank(node, &me);
    right = (me + 1) % size, left = (me + size - 1) % size, last = me == size - 1;
    MPI_Win_allocate_shared((last ? PART / 2 : PART) * sizeof(long), sizeof(long), MPI_INFO_NULL, node, &mine,
                            &window);
    MPI_Type_vector(100, 1, 2, MPI_LONG, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    for (int i = 0; i < PART / 2; i++)
        mine[i] = 0;
    MPI_Win_sync(window);
    MPI_Barrier(node);
    MPI_Win_unlock_all(window);
    for (int i = 0; i < 100; i++)
        out[i] = me * 1000 + i;
    MPI_Win_fence(0, window);
    MPI_Put(out, 100, MPI_LONG, right, 10, 1, every_other, window);
    for (int i = 0; i < 7; i++)
        MPI_Accumulate(&one, 1, MPI_LONG, 0, 250, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    MPI_Get(back, 100, MPI_LONG, right, 10, 1, every_other, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 100; i++) {
        EQUAL(mine[10 + 2 * i], left * 1000 + i);
        EQUAL(mine[11 + 2 * i], 0);
        EQUAL(back[i], out[i]);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 251, MPI_SUM, window);
    MPI_Win_flush(0, window);
    EQUAL(old >= 0 && old < size, 1);
    MPI_Win_unlock(0, window);
    MPI_Barrier(node);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(back, 2, MPI_LONG, 0, 250, 2, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    EQUAL(back[0], 7 * size);
    EQUAL(back[1], size);
    MPI_Type_free(&every_other);
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
}

/* Attributes of a dynamic window, which has no memory until some is attached, and afterwards still none of its own. */
static void described(void)
{
    static const int names[] = {MPI_WIN_BASE, MPI_WIN_SIZE, MPI_WIN_DISP_UNIT, MPI_WIN_CREATE_FLAVOR};
    void *found[4] = {0};
    int has, all = 0;

    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    memory = suite_memory(WORDS * sizeof(long));
    for (int attach = 0; attach < 2; attach++) {
        if (attach)
            MPI_Win_attach(window, memory, WORDS * sizeof(long));
        for (int i = 0; i < 4; i++, all += has)
            MPI_Win_get_attr(window, names[i], &found[i], &has);
        EQUAL(all, 4 * (attach + 1));
        EQUAL((long)found[0], (long)MPI_BOTTOM);
        EQUAL(found[1] ? *(MPI_Aint *)found[1] : -2, 0);
        EQUAL(found[2] ? *(int *)found[2] : -2, 1);
        EQUAL(found[3] ? *(int *)found[3] : -2, MPI_WIN_FLAVOR_DYNAMIC);
    }
    MPI_Win_detach(window, memory);
    close_window();
}

const struct suite_case suite_windows[] = {
    {"windows: put, get and accumulate between fences", fence},
    {"windows: a counter under locks, and by atomic operations", counter},
    {"windows: compare and swap", compare_and_swap},
    {"windows: get_accumulate, rget", fetched},
    {"windows: post, start, complete, wait", start_post},
    {"windows: every other word", strided},
    {"windows: memory attached later", attached},
    {"windows: shared memory that the MPI allocates", shared},
    {"windows: what is said of a dynamic one", described},
    {0},
};
