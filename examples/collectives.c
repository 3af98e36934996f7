/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks do together: broadcast, reduce, scatter, gather, a sum with work in between, and a sum in two groups at once.
 *
 *     nigh-run -n 4 collectives
 */
#include <nigh/nigh.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

static struct nigh_comm *world;
static int rank, size;

static void one_to_all(void)
{
    float value = rank == 0 ? 1.0f : 0.0f;
    int *parts = calloc((size_t)size, sizeof *parts), part;

    MUST(nigh_bcast(&value, 1, NIGH_F32, 0, world));
    printf("rank %d: broadcast %.1f\n", rank, (double)value);
    for (int i = 0; rank == 0 && i < size; i++)
        parts[i] = i + 1;
    MUST(nigh_scatter(parts, &part, 1, NIGH_I32, 0, world));
    printf("rank %d: scatter %d\n", rank, part);
    free(parts);
}

static void all_to_one(void)
{
    int mine = rank + 1, sum = 0;
    int *parts = calloc((size_t)size, sizeof *parts);

    MUST(nigh_reduce(&mine, &sum, 1, NIGH_I32, NIGH_SUM, 0, world));
    MUST(nigh_gather(&mine, parts, 1, NIGH_I32, 0, world));
    if (rank == 0)
        printf("rank 0: reduce %d, gather %d .. %d\n", sum, parts[0], parts[size - 1]);
    free(parts);
}

static void all_to_all(void)
{
    int mine = rank + 1, sum, before = 0;
    int *parts = calloc((size_t)size, sizeof *parts);
    double average = rank;

    MUST(nigh_allreduce(&mine, &sum, 1, NIGH_I32, NIGH_SUM, world));
    MUST(nigh_allreduce(NULL, &average, 1, NIGH_F64, NIGH_AVG, world)); /* in place */
    MUST(nigh_exscan(&mine, &before, 1, NIGH_I32, NIGH_SUM, world));
    MUST(nigh_allgather(&mine, parts, 1, NIGH_I32, world));
    printf("rank %d: allreduce %d, average %.2f, before me %d, allgather %d .. %d\n", rank, sum, average,
           before, parts[0], parts[size - 1]);
    free(parts);
}

/* The sum is under way while the rank computes. */
static void with_work_in_between(void)
{
    float mine[100], sums[100];
    double work = 0;
    nigh_request request;

    for (int i = 0; i < 100; i++)
        mine[i] = (float)rank;
    MUST(nigh_iallreduce(mine, sums, 100, NIGH_F32, NIGH_SUM, world, &request));
    for (int i = 1; i <= 100000; i++)
        work += 1.0 / i;
    MUST(nigh_wait(&request, NIGH_STATUS_IGNORE));
    printf("rank %d: non-blocking allreduce %.1f, work in between %.3f\n", rank, (double)sums[99], work);
}

/* Even and odd ranks, each among themselves, at the same time. */
static void two_groups(void)
{
    struct nigh_comm *group;
    int mine = rank + 1, sum;

    MUST(nigh_comm_split(world, rank % 2, rank, &group));
    MUST(nigh_allreduce(&mine, &sum, 1, NIGH_I32, NIGH_SUM, group));
    printf("rank %d: allreduce among the %s ranks %d\n", rank, rank % 2 ? "odd" : "even", sum);
    MUST(nigh_comm_free(&group));
}

int main(void)
{
    MUST(nigh_init(NULL));
    world = nigh_world();
    MUST(nigh_comm_rank(world, &rank));
    MUST(nigh_comm_size(world, &size));
    one_to_all();
    all_to_one();
    all_to_all();
    with_work_in_between();
    two_groups();
    return nigh_finalize() != 0;
}
