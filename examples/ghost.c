/* SPDX-License-Identifier: BSD-3-Clause */
/* A field that is spread over the ranks: each step needs one cell of either neighbour. Receives and sends of the
 * borders are started, the interior is computed while they are under way, then the borders. The result is that of one
 * process alone.
 *
 *     nigh-run -n 4 ghost
 */
#include <nigh/nigh.h>
#include <stdio.h>
#include <string.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { CELLS = 1000, STEPS = 50, MOST = 64, TO_LEFT = 1, TO_RIGHT = 2 };

/* Cells 1 to `count`; 0 and count + 1 are ghosts: copies of the neighbours' cells, zero at the ends of the field. */
static void smooth(double *to, const double *from, int first, int last)
{
    for (int i = first; i <= last; i++)
        to[i] = 0.25 * from[i - 1] + 0.5 * from[i] + 0.25 * from[i + 1];
}

static double start(int cell)
{
    return cell % 7 + 0.125 * (cell % 11);
}

static void step(double *to, double *from, int left, int right)
{
    nigh_request requests[4];

    MUST(nigh_irecv(&from[0], sizeof *from, left, TO_RIGHT, nigh_world(), &requests[0]));
    MUST(nigh_irecv(&from[CELLS + 1], sizeof *from, right, TO_LEFT, nigh_world(), &requests[1]));
    MUST(nigh_isend(&from[1], sizeof *from, left, TO_LEFT, nigh_world(), &requests[2]));
    MUST(nigh_isend(&from[CELLS], sizeof *from, right, TO_RIGHT, nigh_world(), &requests[3]));
    smooth(to, from, 2, CELLS - 1);
    MUST(nigh_waitall(4, requests, NIGH_STATUSES_IGNORE));
    smooth(to, from, 1, 1);
    smooth(to, from, CELLS, CELLS);
}

/* All of the field in this process. */
static const double *alone(int cells)
{
    static double field[2][MOST * CELLS + 2];

    for (int i = 1; i <= cells; i++)
        field[0][i] = start(i);
    for (int n = 0; n < STEPS; n++)
        smooth(field[(n + 1) % 2], field[n % 2], 1, cells);
    return field[STEPS % 2];
}

int main(void)
{
    static double field[2][CELLS + 2];
    int rank, size;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    MUST(nigh_comm_size(nigh_world(), &size));
    for (int i = 1; i <= CELLS; i++)
        field[0][i] = start(rank * CELLS + i);
    for (int n = 0; n < STEPS; n++)
        step(field[(n + 1) % 2], field[n % 2], rank > 0 ? rank - 1 : NIGH_PROC_NULL,
             rank < size - 1 ? rank + 1 : NIGH_PROC_NULL);
    if (size <= MOST)
        printf("rank %d: %d cells after %d steps are %s those of one process\n", rank, CELLS, STEPS,
               memcmp(field[STEPS % 2] + 1, alone(size * CELLS) + rank * CELLS + 1, CELLS * sizeof(double))
                   ? "not"
                   : "equal to");
    return nigh_finalize() != 0;
}
