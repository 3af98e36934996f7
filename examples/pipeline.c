/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipeline, a stage per rank, as in training: each stage multiplies what comes from the left by its weights and
 * passes it on; gradients come back from the right. Several batches are under way at the same time. Rank 0 then does
 * all of it alone and compares.
 *
 *     nigh-run -n 4 pipeline
 */
#include <nigh/nigh.h>
#include <stdio.h>
#include <string.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { N = 8, BATCHES = 6 };
typedef double matrix[N][N]; /* small whole numbers: no rounding, so that results are equal, not similar */

static int rank, size;

static void make(matrix a, int seed)
{
    for (int i = 0; i < N * N; i++)
        a[i / N][i % N] = (i * seed + i / 3) % 5 - 2;
}

/* out = a * b, or a * transposed b */
static void multiply(matrix out, matrix a, matrix b, int transposed)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            out[i][j] = 0;
            for (int k = 0; k < N; k++)
                out[i][j] += a[i][k] * (transposed ? b[j][k] : b[k][j]);
        }
}

static void forward(int batch, matrix weights, nigh_request *request, matrix out)
{
    matrix in;

    if (rank == 0)
        make(in, 100 + batch);
    else
        MUST(nigh_recv(in, sizeof in, rank - 1, batch, nigh_world(), NIGH_STATUS_IGNORE));
    multiply(out, in, weights, 0);
    *request = NIGH_REQUEST_NULL; /* counts as ended in a wait */
    if (rank < size - 1)
        MUST(nigh_isend(out, sizeof(matrix), rank + 1, batch, nigh_world(), request));
}

/* The loss is the sum of all squares, halved: its gradient is the output itself. */
static void backward(int batch, matrix weights, matrix out, matrix gradient)
{
    matrix in;

    memcpy(in, out, sizeof in);
    if (rank < size - 1)
        MUST(nigh_recv(in, sizeof in, rank + 1, batch, nigh_world(), NIGH_STATUS_IGNORE));
    multiply(gradient, in, weights, 1);
    if (rank > 0)
        MUST(nigh_send(gradient, sizeof(matrix), rank - 1, batch, nigh_world()));
}

static void alone(int batch, matrix gradient)
{
    matrix weights, next;

    make(gradient, 100 + batch);
    for (int stage = 0; stage < size; stage++, memcpy(gradient, next, sizeof next)) {
        make(weights, stage + 2);
        multiply(next, gradient, weights, 0);
    }
    for (int stage = size - 1; stage >= 0; stage--, memcpy(gradient, next, sizeof next)) {
        make(weights, stage + 2);
        multiply(next, gradient, weights, 1);
    }
}

int main(void)
{
    static matrix weights, out[BATCHES], gradient, expected;
    nigh_request requests[BATCHES];
    int equal = 0;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    MUST(nigh_comm_size(nigh_world(), &size));
    make(weights, rank + 2);
    for (int batch = 0; batch < BATCHES; batch++)
        forward(batch, weights, &requests[batch], out[batch]);
    for (int batch = 0; batch < BATCHES; batch++) {
        backward(batch, weights, out[batch], gradient);
        alone(batch, expected);
        equal += memcmp(gradient, expected, sizeof expected) == 0;
    }
    MUST(nigh_waitall(BATCHES, requests, NIGH_STATUSES_IGNORE));
    if (rank == 0)
        printf("the gradients of %d of %d batches through %d stages are those of one process\n", equal,
               BATCHES, size);
    return nigh_finalize() != 0;
}
