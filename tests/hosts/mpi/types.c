/* SPDX-License-Identifier: BSD-3-Clause */
/* Derived types: data that does not lie in one piece, sent as such and received as something else. */
#include "tests/hosts/mpi/suite.h"

#include <stddef.h>

/* A column of a matrix becomes a row of the neighbour's. */
static void vector(void)
{
    enum { ROWS = 300, COLUMNS = 7 };
    static int matrix[ROWS][COLUMNS], row[ROWS];
    MPI_Datatype column;

    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++)
            matrix[i][k] = suite_rank * 10000 + i * 10 + k;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Sendrecv(&matrix[0][3], 1, column, suite_right(), 1, row, ROWS, MPI_INT, suite_left(), 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS; i++)
        EQUAL(row[i], suite_left() * 10000 + i * 10 + 3);
    MPI_Sendrecv(row, ROWS, MPI_INT, suite_left(), 2, &matrix[0][5], 1, column, suite_right(), 2,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS; i++) {
        EQUAL(matrix[i][5], suite_rank * 10000 + i * 10 + 3);
        EQUAL(matrix[i][4], suite_rank * 10000 + i * 10 + 4);
    }
    MPI_Type_free(&column);
}

struct particle {
    char kind;
    double place[3];
    short charge;
};

static void structure(void)
{
    enum { MANY = 1000 };
    static struct particle out[MANY], in[MANY];
    const int lengths[] = {1, 3, 1};
    const MPI_Aint places[] = {offsetof(struct particle, kind), offsetof(struct particle, place),
                               offsetof(struct particle, charge)};
    const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    MPI_Datatype loose, type;

    for (int i = 0; i < MANY; i++) {
        memset(&out[i], 0x11, sizeof out[i]);
        memset(&in[i], 0x22, sizeof in[i]);
        out[i].kind = (char)i;
        for (int k = 0; k < 3; k++)
            out[i].place[k] = suite_rank + i / 8.0 + k;
        out[i].charge = (short)-i;
    }
    MPI_Type_create_struct(3, lengths, places, types, &loose);
    MPI_Type_create_resized(loose, 0, sizeof(struct particle), &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(out, MANY, type, suite_right(), 1, in, MANY, type, suite_left(), 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < MANY; i++) {
        EQUAL(in[i].kind, (char)i);
        EQUAL(in[i].place[2] == suite_left() + i / 8.0 + 2, 1);
        EQUAL(in[i].charge, (short)-i);
        EQUAL(((unsigned char *)&in[i])[1], 0x22); /* what no member covers stays */
    }
    MPI_Type_free(&loose);
    MPI_Type_free(&type);
}

/* A block out of the middle of a box, into another corner of the neighbour's. */
static void subarray(void)
{
    enum { N = 40, M = 20 };
    static int box[N][N][N];
    const int all[] = {N, N, N}, part[] = {M, M, M}, from[] = {5, 6, 7}, to[] = {20, 20, 20};
    MPI_Datatype out, in;

    for (int i = 0; i < N * N * N; i++)
        ((int *)box)[i] = suite_rank * N * N * N + i;
    MPI_Type_create_subarray(3, all, part, from, MPI_ORDER_C, MPI_INT, &out);
    MPI_Type_create_subarray(3, all, part, to, MPI_ORDER_C, MPI_INT, &in);
    MPI_Type_commit(&out);
    MPI_Type_commit(&in);
    int *copy = suite_memory(sizeof box);
    memcpy(copy, box, sizeof box);
    MPI_Sendrecv(copy, 1, out, suite_right(), 1, box, 1, in, suite_left(), 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < M; i++)
        for (int k = 0; k < M; k++)
            EQUAL(box[20 + i][20 + k][39], suite_left() * N * N * N + ((5 + i) * N + 6 + k) * N + 26);
    EQUAL(box[19][20][20], suite_rank * N * N * N + (19 * N + 20) * N + 20);
    free(copy);
    MPI_Type_free(&out);
    MPI_Type_free(&in);
}

static void indexed(void)
{
    enum { BLOCKS = 50 };
    int lengths[BLOCKS], places[BLOCKS], total = 0;
    static int out[10 * BLOCKS], in[10 * BLOCKS];
    MPI_Datatype type;
    MPI_Status status;
    int count;

    for (int i = 0; i < BLOCKS; i++) {
        lengths[i] = i % 4; /* empty ones too */
        places[i] = 10 * (BLOCKS - 1 - i);
        total += lengths[i];
    }
    for (int i = 0; i < 10 * BLOCKS; i++) {
        out[i] = suite_rank * 1000 + i;
        in[i] = -1;
    }
    MPI_Type_indexed(BLOCKS, lengths, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(out, 1, type, suite_right(), 1, in, 1, type, suite_left(), 1, MPI_COMM_WORLD, &status);
    MPI_Get_elements(&status, type, &count);
    EQUAL(count, total);
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < 4; k++)
            EQUAL(in[places[i] + k], k < lengths[i] ? suite_left() * 1000 + places[i] + k : -1);
    MPI_Type_free(&type);
}

static void packed(void)
{
    char room[200], text[] = "nigh";
    int number = suite_rank, at = 0, back = -1;

    MPI_Pack(&number, 1, MPI_INT, room, sizeof room, &at, MPI_COMM_WORLD);
    MPI_Pack(text, 5, MPI_CHAR, room, sizeof room, &at, MPI_COMM_WORLD);
    MPI_Sendrecv_replace(room, at, MPI_PACKED, suite_right(), 1, suite_left(), 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    memset(text, 0, sizeof text);
    at = 0;
    MPI_Unpack(room, sizeof room, &at, &back, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Unpack(room, sizeof room, &at, text, 5, MPI_CHAR, MPI_COMM_WORLD);
    EQUAL(back, suite_left());
    EQUAL(strcmp(text, "nigh"), 0);
}

const struct suite_case suite_types[] = {
    {"a column becomes a row", vector},
    {"structures with gaps", structure},
    {"a block of a box", subarray},
    {"blocks of different lengths", indexed},
    {"packed", packed},
    {0},
};
