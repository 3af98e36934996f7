/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests used as they must not be: user program 30 and its relatives. One rank is enough for most. */
#include "tests/wrong/wrong.h"

#include <stdio.h>

static char data[64], room[64];

/* A request of a message to oneself that will be there. */
static nigh_request started(void)
{
    nigh_request request;

    nigh_send(data, 8, 0, 1, nigh_self());
    nigh_irecv(room, 8, 0, 1, nigh_self(), &request);
    return request;
}

/* One that nobody will ever answer. */
static nigh_request pending(void)
{
    nigh_request request;

    nigh_irecv(room, 8, 0, 9, nigh_self(), &request);
    return request;
}

static void end(nigh_request request)
{
    nigh_cancel(&request);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
}

static void waited_twice(int rank, int size)
{
    nigh_request request = started(), copy = request;

    (void)rank, (void)size;
    nigh_wait(&request, NIGH_STATUS_IGNORE);
    TELL(nigh_wait(&copy, NIGH_STATUS_IGNORE));
}

static void tested_after_wait(int rank, int size)
{
    nigh_request request = started(), copy = request;
    int flag;

    (void)rank, (void)size;
    nigh_wait(&request, NIGH_STATUS_IGNORE);
    TELL(nigh_test(&copy, &flag, NIGH_STATUS_IGNORE));
}

static void listed_twice(int rank, int size)
{
    nigh_request request = started(), list[2] = {request, request};

    (void)rank, (void)size;
    TELL(nigh_waitall(2, list, NIGH_STATUSES_IGNORE));
}

static void never_started(int rank, int size)
{
    nigh_request request = {0x1234567800000042};

    (void)rank, (void)size;
    TELL(nigh_wait(&request, NIGH_STATUS_IGNORE));
}

static void in_a_list_never_started(int rank, int size)
{
    nigh_request list[2] = {started(), {77}};

    (void)rank, (void)size;
    TELL(nigh_waitall(2, list, NIGH_STATUSES_IGNORE));
    nigh_wait(&list[0], NIGH_STATUS_IGNORE);
}

static void request_is_null(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_wait(NULL, NIGH_STATUS_IGNORE));
}

static void irecv_without_request(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_irecv(room, 8, 0, 1, nigh_self(), NULL));
}

static void freed_while_active(int rank, int size)
{
    nigh_request request = pending();

    (void)rank, (void)size;
    TELL(nigh_request_free(&request));
    end(request);
}

static void used_after_free(int rank, int size)
{
    nigh_request request, copy;

    (void)rank, (void)size;
    nigh_send_init(data, 8, 0, 1, nigh_self(), &request);
    copy = request;
    nigh_request_free(&request);
    TELL(nigh_start(&copy));
}

static void freed_twice(int rank, int size)
{
    nigh_request request, copy;

    (void)rank, (void)size;
    nigh_recv_init(room, 8, 0, 1, nigh_self(), &request);
    copy = request;
    nigh_request_free(&request);
    TELL(nigh_request_free(&copy));
}

static void persistent_freed_while_active(int rank, int size)
{
    nigh_request request;

    (void)rank, (void)size;
    nigh_recv_init(room, 8, 0, 9, nigh_self(), &request);
    nigh_start(&request);
    TELL(nigh_request_free(&request));
    nigh_cancel(&request);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
    nigh_request_free(&request);
}

static void started_twice(int rank, int size)
{
    nigh_request request;

    (void)rank, (void)size;
    nigh_recv_init(room, 8, 0, 9, nigh_self(), &request);
    nigh_start(&request);
    TELL(nigh_start(&request));
    nigh_cancel(&request);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
    nigh_request_free(&request);
}

static void started_not_persistent(int rank, int size)
{
    nigh_request request = pending();

    (void)rank, (void)size;
    TELL(nigh_start(&request));
    end(request);
}

static void cancelled_inactive(int rank, int size)
{
    nigh_request request = NIGH_REQUEST_NULL;

    (void)rank, (void)size;
    TELL(nigh_cancel(&request));
}

static nigh_matched matched(void)
{
    nigh_matched message;

    nigh_send(data, 8, 0, 1, nigh_self());
    nigh_mprobe(0, 1, nigh_self(), &message, NIGH_STATUS_IGNORE);
    return message;
}

static void matched_received_twice(int rank, int size)
{
    nigh_matched message = matched(), copy = message;

    (void)rank, (void)size;
    nigh_mrecv(room, 8, &message, NIGH_STATUS_IGNORE);
    TELL(nigh_mrecv(room, 8, &copy, NIGH_STATUS_IGNORE));
}

static void matched_waited_for(int rank, int size)
{
    nigh_matched message = matched();
    nigh_request request = {message.id};

    (void)rank, (void)size;
    TELL(nigh_wait(&request, NIGH_STATUS_IGNORE));
    nigh_mrecv(room, 8, &message, NIGH_STATUS_IGNORE);
}

static void request_received(int rank, int size)
{
    nigh_request request = pending();
    nigh_matched message = {request.id};

    (void)rank, (void)size;
    TELL(nigh_mrecv(room, 8, &message, NIGH_STATUS_IGNORE));
    end(request);
}

static void dropped_receive(int rank, int size)
{
    nigh_request request;

    (void)size;
    if (rank == 0)
        nigh_irecv(room, 8, 1, 3, WORLD, &request);
}

static void dropped_after_its_end(int rank, int size)
{
    int flag;

    (void)rank, (void)size;
    (void)started();
    nigh_iprobe(0, 99, nigh_self(), &flag, NIGH_STATUS_IGNORE);
}

static void dropped_send(int rank, int size)
{
    nigh_request request;

    if (rank == 0)
        nigh_isend(data, 8, size - 1, 3, WORLD, &request);
    else
        nigh_recv(room, 8, 0, 3, WORLD, NIGH_STATUS_IGNORE);
}

static void persistent_never_freed(int rank, int size)
{
    nigh_request request;

    (void)rank, (void)size;
    nigh_send_init(data, 8, 0, 1, nigh_self(), &request);
}

static void matched_never_received(int rank, int size)
{
    (void)rank, (void)size;
    (void)matched();
}

static void comm_never_freed(int rank, int size)
{
    struct nigh_comm *copy;

    (void)rank, (void)size;
    nigh_comm_dup(WORLD, &copy);
}

static void negative_count(int rank, int size)
{
    nigh_request request = NIGH_REQUEST_NULL;

    (void)rank, (void)size;
    TELL(nigh_waitall(-1, &request, NIGH_STATUSES_IGNORE));
}

static void no_flag(int rank, int size)
{
    nigh_request request = started();

    (void)rank, (void)size;
    TELL(nigh_test(&request, NULL, NIGH_STATUS_IGNORE));
    nigh_wait(&request, NIGH_STATUS_IGNORE);
}

static void comm_freed_before_start(int rank, int size)
{
    struct nigh_comm *copy;
    nigh_request request;

    (void)rank, (void)size;
    nigh_comm_dup(WORLD, &copy);
    nigh_send_init(data, 8, 0, 1, copy, &request);
    nigh_comm_free(&copy);
    TELL(nigh_start(&request));
    nigh_request_free(&request);
}

static void not_ended_in_time(int rank, int size)
{
    nigh_request request = pending();

    (void)rank, (void)size;
    TELL(nigh_wait_for(&request, 0.05, NIGH_STATUS_IGNORE));
    fprintf(stderr, "%s\n", nigh_error_text());
    end(request);
}

#define ENDED "this request has ended: it was waited for, tested successfully or freed before"
#define HERE  "requests.c:[0-9]+"

const struct wrong wrong_requests[] = {
    {"waited-twice", 1, waited_twice, {"nigh_wait at .*" HERE ": " ENDED}, NULL, 0},
    {"tested-after-its-wait", 1, tested_after_wait, {"nigh_test at .*" HERE ": " ENDED}, NULL, 0},
    {"listed-twice", 1, listed_twice, {"nigh_waitall at .*is it listed twice"}, NULL, 0},
    {"never-started",
     1,
     never_started,
     {"is no request: it was never started, or its memory was not initialized"},
     NULL,
     0},
    {"in-a-list-never-started", 1, in_a_list_never_started, {"nigh_waitall at .*is no request"}, NULL, 0},
    {"request-is-NULL", 1, request_is_null, {"the request is NULL"}, NULL, 0},
    {"irecv-without-request", 1, irecv_without_request, {"nigh_irecv at .*the request is NULL"}, NULL, 0},
    {"freed-while-active",
     1,
     freed_while_active,
     {"still active, and nobody could know when its buffer is filled.*posted at .*" HERE},
     NULL,
     0},
    {"used-after-free", 1, used_after_free, {"nigh_start at .*" ENDED}, NULL, 0},
    {"freed-twice", 1, freed_twice, {"nigh_request_free at .*" ENDED}, NULL, 0},
    {"persistent-freed-while-active",
     1,
     persistent_freed_while_active,
     {"still active, wait for it first: receive"},
     NULL,
     0},
    {"started-twice", 1, started_twice, {"started before and not waited for: receive"}, NULL, 0},
    {"started-not-persistent",
     1,
     started_not_persistent,
     {"is not persistent: make it with nigh_send_init"},
     NULL,
     0},
    {"cancelled-inactive",
     1,
     cancelled_inactive,
     {"the request is not active: there is nothing to take back"},
     NULL,
     0},
    {"matched-received-twice", 1, matched_received_twice, {"this message was received before"}, NULL, 0},
    {"matched-waited-for",
     1,
     matched_waited_for,
     {"taken by a matched probe, not a request: receive it with nigh_mrecv"},
     NULL,
     0},
    {"request-received",
     1,
     request_received,
     {"this is a request, not a message of a matched probe"},
     NULL,
     0},
    {"receive-dropped",
     2,
     dropped_receive,
     {"request never waited for, and not ended: receive of at most 8 bytes from rank 1, tag 3, .*posted at "
      ".*" HERE,
      ""},
     NULL,
     0},
    {"receive-dropped-after-its-end",
     1,
     dropped_after_its_end,
     {"request never waited for, though it has ended: receive.*posted at .*" HERE},
     NULL,
     0},
    {"send-dropped",
     2,
     dropped_send,
     {"request never waited for, though it has ended: send of 8 bytes to rank 1, tag 3.*posted at .*" HERE,
      ""},
     NULL,
     0},
    {"persistent-never-freed",
     1,
     persistent_never_freed,
     {"persistent request never freed \\(nigh_request_free\\): send"},
     NULL,
     0},
    {"matched-never-received",
     1,
     matched_never_received,
     {"never received \\(nigh_mrecv\\): message taken by a matched probe of 8 bytes"},
     NULL,
     0},
    {"communicator-never-freed",
     2,
     comm_never_freed,
     {"never freed \\(nigh_comm_free\\): communicator 3 \\(made at .*" HERE},
     NULL,
     0},
    {"negative-count", 1, negative_count, {"nigh_waitall at .*: -1 requests at"}, NULL, 0},
    {"no-flag", 1, no_flag, {"nigh_test at .*flag is NULL"}, NULL, 0},
    {"communicator-freed-before-start",
     1,
     comm_freed_before_start,
     {"nigh_start at .*communicator 3 .*was freed by nigh_comm_free before"},
     NULL,
     0},
    {"not-ended-in-time",
     1,
     not_ended_in_time,
     {"not ended after 0.050 s: receive of at most 8 bytes from rank 0, tag 9"},
     NULL,
     0},
    {0},
};
