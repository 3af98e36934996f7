/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that an MPI runs beside nigh, written over op_barrier op_allreduce op_reduce op_bcast op_gather
 * op_allgather op_alltoall (root 0, bytes of one block), which the file that includes peer_patterns.h defines. */
#ifndef NIGH_TOOLS_PERF_PEER_COLLECTIVES_H
#define NIGH_TOOLS_PERF_PEER_COLLECTIVES_H

/* Small integers, so that the sum is exact in any order. */
static float addend(int rank, uint64_t seq)
{
    return (float)(seq % 997 + (uint64_t)rank);
}

static float sum(const struct peer_rank *self, uint64_t seq)
{
    int n = self->ranks;
    return (float)(n * (int)(seq % 997) + n * (n - 1) / 2);
}

static void write_floats(size_t bytes, float value)
{
    float *f = (float *)outgoing;
    for (size_t i = 0; i < bytes / sizeof *f; i++)
        f[i] = value;
}

static uint64_t check_floats(size_t bytes, float value)
{
    const float *f = (const float *)incoming;
    uint64_t wrong = 0;
    for (size_t i = 0; i < bytes / sizeof *f; i++)
        wrong |= f[i] != value;
    return wrong;
}

/* What the block from one rank to another holds. */
static uint64_t block_word(uint64_t seq, int from, int to)
{
    return (seq * PEER_RANKS_MAX + (uint64_t)from) * PEER_RANKS_MAX + (uint64_t)to;
}

static uint64_t check_blocks(const struct peer_rank *self, size_t bytes, uint64_t seq, int to)
{
    uint64_t wrong = 0;
    for (int r = 0; r < self->ranks; r++)
        wrong |= check_words(incoming + (size_t)r * bytes, bytes, block_word(seq, r, to));
    return wrong;
}

/* ---- one file-private trio each: write what goes, call, check what came ---- */

static void barrier_call(struct peer_rank *self, const struct peer_case *c)
{
    (void)c;
    op_barrier(self);
}

static void floats_write(struct peer_rank *self, const struct peer_case *c, uint64_t seq)
{
    write_floats(c->bytes, addend(self->rank, seq));
}

static void allreduce_call(struct peer_rank *self, const struct peer_case *c)
{
    op_allreduce(self, outgoing, incoming, c->bytes);
}

static uint64_t allreduce_check(struct peer_rank *self, const struct peer_case *c, uint64_t seq)
{
    return check_floats(c->bytes, sum(self, seq));
}

static void reduce_call(struct peer_rank *self, const struct peer_case *c)
{
    op_reduce(self, outgoing, incoming, c->bytes);
}

static uint64_t reduce_check(struct peer_rank *self, const struct peer_case *c, uint64_t seq)
{
    return self->rank ? 0 : check_floats(c->bytes, sum(self, seq));
}

static void bcast_write(struct peer_rank *self, const struct peer_case *c, uint64_t seq)
{
    if (self->rank == 0)
        write_words(outgoing, c->bytes, seq);
}

static void bcast_call(struct peer_rank *self, const struct peer_case *c)
{
    op_bcast(self, self->rank ? incoming : outgoing, c->bytes);
}

static uint64_t bcast_check(struct peer_rank *self, const struct peer_case *c, uint64_t seq)
{
    return check_words(self->rank ? incoming : outgoing, c->bytes, seq);
}

static void bcast_barrier_call(struct peer_rank *self, const struct peer_case *c)
{
    bcast_call(self, c);
    op_barrier(self);
}

static void block_write(struct peer_rank *self, const struct peer_case *c, uint64_t seq)
{
    write_words(outgoing, c->bytes, block_word(seq, self->rank, 0));
}

static void gather_call(struct peer_rank *self, const struct peer_case *c)
{
    op_gather(self, outgoing, incoming, c->bytes);
}

static uint64_t gather_check(struct peer_rank *self, const struct peer_case *c, uint64_t seq)
{
    return self->rank ? 0 : check_blocks(self, c->bytes, seq, 0);
}

static void allgather_call(struct peer_rank *self, const struct peer_case *c)
{
    op_allgather(self, outgoing, incoming, c->bytes);
}

static uint64_t allgather_check(struct peer_rank *self, const struct peer_case *c, uint64_t seq)
{
    return check_blocks(self, c->bytes, seq, 0);
}

static void alltoall_write(struct peer_rank *self, const struct peer_case *c, uint64_t seq)
{
    for (int r = 0; r < self->ranks; r++)
        write_words(outgoing + (size_t)r * c->bytes, c->bytes, block_word(seq, self->rank, r));
}

static void alltoall_call(struct peer_rank *self, const struct peer_case *c)
{
    op_alltoall(self, outgoing, incoming, c->bytes);
}

static uint64_t alltoall_check(struct peer_rank *self, const struct peer_case *c, uint64_t seq)
{
    return check_blocks(self, c->bytes, seq, self->rank);
}

/* ---- and how they are timed ---- */

struct collective_verb {
    const char *test;
    void (*write)(struct peer_rank *self, const struct peer_case *c, uint64_t seq); /* NULL: nothing goes */
    void (*call)(struct peer_rank *self, const struct peer_case *c);
    uint64_t (*check)(struct peer_rank *self, const struct peer_case *c, uint64_t seq);
    int blocks; /* one for each rank in a buffer */
    int alone;  /* each call follows a barrier, whatever its size */
    int rooted; /* others run ahead of the root: calls in a row end with a barrier */
};

/* Times of this rank, private while the clock runs: a store to a line that another rank has read would hold up the
 * call behind it. */
static uint64_t spent[PEER_SAMPLES_MAX];

/* A call is over when the last rank returns: each leaves its own time since the barrier, rank 0 takes the
 * largest. */
static int slowest(struct peer_rank *self, uint64_t count, double *samples)
{
    memcpy(self->shared->spent[self->rank], spent, count * sizeof *spent);
    op_barrier(self);
    for (uint64_t s = 0; samples && s < count; s++) {
        uint64_t worst = 0;
        for (int r = 0; r < self->ranks; r++)
            worst = self->shared->spent[r][s] > worst ? self->shared->spent[r][s] : worst;
        samples[s] = (double)worst * self->tick_ns;
    }
    op_barrier(self);
    return (int)count;
}

static int timed_alone(struct peer_rank *self, const struct collective_verb *verb, const struct peer_case *c,
                       double *samples)
{
    uint64_t count = min_u64(c->iterations, PEER_SAMPLES_MAX), wrong = 0, seq = 1;

    verb->write(self, c, seq);
    for (uint64_t s = 0; s < count; s++) {
        if (!c->stale)
            verb->write(self, c, ++seq);
        op_barrier(self);
        uint64_t start = peer_ticks();
        verb->call(self, c);
        spent[s] = peer_ticks() - start;
        op_barrier(self); /* what checks takes the CPU of those that have not returned */
        wrong |= verb->check(self, c, seq);
    }
    int done = slowest(self, count, samples);
    return wrong_data(c, wrong) ? -1 : done;
}

static int timed_in_a_row(struct peer_rank *self, const struct collective_verb *verb,
                          const struct peer_case *c, double *samples)
{
    uint64_t group = group_size(c, 32), count = c->iterations / group, wrong = 0, seq = 1;

    for (uint64_t s = 0; s < count; s++) {
        uint64_t start = peer_ticks();
        for (uint64_t i = 0; i < group; i++) {
            if (verb->write)
                verb->write(self, c, ++seq);
            verb->call(self, c);
            if (verb->check)
                wrong |= verb->check(self, c, seq);
        }
        if (verb->rooted)
            op_barrier(self);
        if (samples)
            samples[s] = (double)(peer_ticks() - start) * self->tick_ns / (double)group;
    }
    return wrong_data(c, wrong) ? -1 : (int)count;
}

static const struct collective_verb *collective_verb(const char *test)
{
    static const struct collective_verb verbs[] = {
        {"barrier", NULL, barrier_call, NULL, 0, 0, 0},
        {"allreduce", floats_write, allreduce_call, allreduce_check, 0, 0, 0},
        {"reduce", floats_write, reduce_call, reduce_check, 0, 0, 1},
        {"bcast", bcast_write, bcast_call, bcast_check, 0, 1, 1},
        {"bcast+barrier", bcast_write, bcast_barrier_call, bcast_check, 0, 0, 0},
        {"gather", block_write, gather_call, gather_check, 1, 0, 1},
        {"allgather", block_write, allgather_call, allgather_check, 1, 0, 0},
        {"alltoall", alltoall_write, alltoall_call, alltoall_check, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(test, verbs[i].test))
            return &verbs[i];
    return NULL;
}

/* Blocks of the case's bytes that a buffer must have room for. */
static size_t collective_blocks(const struct peer_rank *self, const struct peer_case *c)
{
    const struct collective_verb *verb = collective_verb(c->test);
    return verb && verb->blocks ? (size_t)self->ranks : 1;
}

static int run_collective(struct peer_rank *self, const struct peer_case *c, double *samples)
{
    const struct collective_verb *verb = collective_verb(c->test);

    if (!verb) {
        fprintf(stderr, "peer: no test '%s'\n", c->test);
        return -1;
    }
    if (verb->write && (verb->alone || c->bytes > SMALL_MAX))
        return timed_alone(self, verb, c, samples);
    return timed_in_a_row(self, verb, c, samples);
}

#endif
