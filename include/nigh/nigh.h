/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nigh/nigh.h - libnigh, for C programs that run as ranks of a job on one machine.
 *
 * Communicators, blocking and non-blocking messages, requests, one-sided windows and collectives, named and ordered as
 * in MPI, in lower case with nigh_, and with sizes in bytes where MPI has a count and a datatype.
 *
 *     int main(void)
 *     {
 *         int rank, error = nigh_init(NULL);              // nigh-run -n 2 ./program
 *         if (error != 0)
 *             return 1;                                   // the reason is on stderr
 *         nigh_comm_rank(nigh_world(), &rank);
 *         if (rank == 0)
 *             nigh_send("hello", 6, 1, 7, nigh_world());
 *         else
 *             nigh_recv(text, sizeof text, 0, 7, nigh_world(), NIGH_STATUS_IGNORE);
 *         return nigh_finalize() != 0;
 *     }
 *
 * ## Rules that hold for every call
 *
 * Result      0 on success, a negative errno otherwise; outputs are written on success, statuses also where a message
 *             ended with an error. The sentence that goes with an error is logged once and kept: nigh_error_text().
 * Errors      Each call lists its own. Any call may also return
 *               -ENOTCONN  before nigh_init() or after nigh_finalize()
 *               -ECHILD    in a process that was forked from the one that called nigh_init()
 *               -EINVAL    a NULL where something is needed; a communicator, window, request or matched message that
 *                          was freed, is of another kind or never was one
 *               -EPERM     another thread of this process waits in a call, and threads were not asked for ("Threads")
 *               -ENOMEM
 *             Whatever waits (marked "waits") may also return
 *               -ECONNRESET  the rank that is waited for has left or was killed
 *               -EPROTO      its shared memory is not sound any more
 *               -EDEADLK     this rank is part of a circle of ranks that wait for each other without an end (a
 *                            time-out is one: such a call never returns this); all of them are told, and
 *                            the text names ranks, operations, tags and sizes
 *               -ETIMEDOUT   the communicator's time-out has passed; the text says what did not come. A receive was
 *                            taken back, and nothing is written to its buffer any more. If its message is just
 *                            arriving, the call waits up to a second longer for it; a message that is not there by
 *                            then is lost, and its sender's call ends as if it had been received. If the sender was
 *                            stopped in the middle of copying to the buffer itself, the call says so and waits until
 *                            it goes on or ends. A request stays active, and its buffer in use
 * Ranks       of a message are ranks in its communicator, 0 .. size-1; NIGH_PROC_NULL: nobody, the call succeeds at
 *             once with no data; -ERANGE otherwise.
 * Tags        0 .. NIGH_TAG_MAX; -ERANGE otherwise. Messages of different communicators never match each other.
 * Buffers     A buffer belongs to nigh from the call to the end of the operation. `bytes` may be 0, the buffer then
 *             NULL; otherwise NULL is -EFAULT.
 * Order       Of two messages from one rank that match the same receive, the one sent first is received first.
 * Threads     Each needs 32 KiB of stack. One thread at a time, unless nigh_config.threads (or NIGH_THREADS=multiple): then any thread at any time.
 *             nigh_abort, nigh_comm_rank, nigh_comm_size and nigh_comm_world_rank may be called
 *             beside a call that waits.
 * Signals     A handler may interrupt a call that waits, which goes on. It calls nothing of nigh, and does not leave a
 *             call by a jump (siglongjmp, an exception).
 * Progress    Any call that waits or tests moves everything. With NIGH_PROGRESS=thread messages also move
 *             while the program computes.
 * Call sites  Messages name file and line of the call: the macros at the end of this header pass them.
 *             (nigh_send)(...), with parentheses, is the bare function.
 *
 * ## Environment, on top of that of the plugin (nigh-info --help)
 *
 *   NIGH_TIMEOUT=SECONDS    time-out of every communicator that has none of its own: 0 = never (default)
 *   NIGH_STALL=SECONDS      how long a call waits before it looks for a deadlock: 0 = never, default 0.3
 *   NIGH_STRICT=1           every send is synchronous: programs that only work because small messages are buffered fail
 *   NIGH_DEBUG=1            checks that buffers of sends are not changed before they complete; fills buffers of
 *                           receives with a pattern until they do
 *   NIGH_PROGRESS=thread    a thread that moves messages while the program computes, given a CPU that no rank needs
 *   NIGH_PROGRESS_CPUS=LIST that CPU, or several, such as 0-3,7; nigh-run sets it
 *   NIGH_PLUGIN=FILE        the plugin: default the one that was installed with this library
 */
#ifndef NIGH_NIGH_H
#define NIGH_NIGH_H

#include <nigh/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NIGH_ANY_SOURCE (-1)
#define NIGH_ANY_TAG    (-1)
#define NIGH_PROC_NULL  (-2)
#define NIGH_UNDEFINED  (-3) /* colour of nigh_comm_split: in no new communicator; index: none */
#define NIGH_TAG_MAX    2147483647

struct nigh_comm; /* nigh_world, nigh_comm_dup, ... .. nigh_comm_free */
struct nigh_win;  /* nigh_win_create, nigh_win_allocate .. nigh_win_free */

/* An operation under way. A plain value: copies name the same operation; those that wait for it set it to
 * NIGH_REQUEST_NULL when it has ended (a persistent one becomes inactive instead). A copy that is
 * used later is found out: -EINVAL. */
typedef struct {
    uint64_t id;
} nigh_request;
#define NIGH_REQUEST_NULL (__extension__(nigh_request){0})
/* The same where a static variable is defined: there NIGH_REQUEST_NULL is an extension that -Wpedantic warns about. */
/* clang-format off */
#define NIGH_REQUEST_INITIALIZER {0}
/* clang-format on */

/* A message that a matched probe took out of the queue: nigh_mprobe .. nigh_mrecv. */
typedef struct {
    uint64_t id;
} nigh_matched;
#define NIGH_MATCHED_NULL (__extension__(nigh_matched){0})
/* clang-format off */
#define NIGH_MATCHED_INITIALIZER {0}
/* clang-format on */

/* How a message ended. */
struct nigh_status {
    int32_t
        source; /* rank in the communicator; NIGH_PROC_NULL of nobody's message, NIGH_ANY_SOURCE if unknown */
    int32_t tag;       /* NIGH_ANY_TAG of nobody's message */
    int32_t error;     /* 0 or a negative errno: -EMSGSIZE, -ECANCELED, -ECONNRESET, ... */
    int32_t reserved0; /* zero */
    uint64_t bytes;    /* received; with -EMSGSIZE the message's full size */
    void *data;        /* where the bytes lie: receives in place; NULL otherwise */
    uint64_t reserved[2];
};
#define NIGH_STATUS_IGNORE   NIGH_CAST(struct nigh_status *, 0)
#define NIGH_STATUSES_IGNORE NIGH_CAST(struct nigh_status *, 0)

/* ---- start and end ------------------------------------------------------------------------------------- */

/* How to start. Zero means "from the environment" everywhere. */
struct nigh_config {
    uint32_t size; /* sizeof(struct nigh_config) */
    uint32_t
        set; /* 1: rank, ranks and job below are taken; 0: the launcher's (nigh-run, mpirun, srun, torchrun) */
    uint32_t rank;        /* 0 .. ranks-1 */
    uint32_t ranks;       /* at least 1 */
    uint64_t job;         /* the same in all processes of the job, different in others' */
    uint32_t threads;     /* 1: any thread may call at any time */
    uint32_t progress;    /* 1: with a thread that moves messages */
    double timeout;       /* seconds, see NIGH_TIMEOUT */
    const char *plugin;   /* file of the plugin, NULL = NIGH_PLUGIN or the installed one */
    uint64_t heap_bytes;  /* room of nigh_alloc_mem, 0 = the plugin's default */
    uint64_t reserved[4]; /* zero */
};

/* Joins the job. `config` may be NULL. Does not wait for the other ranks. Without a launcher and without `set`
 * the job is this process alone. Errors: -EALREADY called before (a process can start once more after
 * nigh_finalize, see there); -ENOENT no plugin (logged with where it was looked for); -EPROTO the plugin is of
 * another version; those of open() in transport.h. */
int nigh_init(const struct nigh_config *config);

/* Leaves the job. Waits for all ranks of the job to come here, so that nobody loses what was sent to him: at most the
 * world's time-out (NIGH_TIMEOUT, nigh_comm_set_timeout); if it has none, for ranks that live as long as they take, and
 * 10 s for those that have not called nigh_init by then. Ranks that are dead are not waited for. Names what was left
 * over: requests never waited for with their call sites, messages never received, messages to a rank that never came,
 * memory lent and not given back, communicators and windows not freed. Everything of libnigh is invalid afterwards.
 * Errors: -ETIMEDOUT some rank did not come (named); -EBUSY something was left over (it is gone all the same). A
 * process may call nigh_init once more, for the same job or another one, and need not know whether the others have
 * returned: ranks meet those that have left the job as often as they have, nobody else. So each rank of a job joins it
 * as often as the others. Under nigh-run its processes count as one: a script may run several programs one behind the
 * other, as many in each rank. Under other launchers another process in the place of one starts from the beginning, and
 * needs a job of its own (NIGH_JOB). */
int nigh_finalize(void);

/* Ends all ranks of the job with exit status `code`; does not return. */
void nigh_abort(int code) __attribute__((noreturn));

/* Has nigh_init been called and nigh_finalize not? 1 or 0. Any thread, any time. */
int nigh_initialized(void);

/* The communicator of all ranks, and the one of this rank alone. NULL before nigh_init. Not to be freed. */
struct nigh_comm *nigh_world(void);
struct nigh_comm *nigh_self(void);

/* The sentence of the last error of this thread, "" if there was none. Valid until this thread's next call. */
const char *nigh_error_text(void);

/* Seconds since some moment in the past, the same in all ranks. */
double nigh_wtime(void);

/* The plugin's table and this process's context: for what this library does not have. Traffic classes 0 to 4 are the
 * program's own. What completes is not to be polled from the table, which would take this library's completions away:
 * nigh_plugin_poll() makes progress as poll_completions() does and writes those of the program's own posts, in the
 * order in which they came. How many, or a negative errno: -EINVAL a negative count. */
const struct nigh_ops *nigh_plugin(void);
struct nigh_context *nigh_plugin_context(void);
int nigh_plugin_poll(struct nigh_completion *out, int count);

/* ---- communicators ------------------------------------------------------------------------------------- */

int nigh_comm_rank(struct nigh_comm *comm, int *rank);
int nigh_comm_size(struct nigh_comm *comm, int *size);

/* The rank in the world of `rank` in `comm`. -ERANGE. */
int nigh_comm_world_rank(struct nigh_comm *comm, int rank, int *world_rank);

/* Collective over `comm` (all its ranks must call), waits. Same ranks, traffic of its own. */
int nigh_comm_dup(struct nigh_comm *comm, struct nigh_comm **out);

/* Collective over `comm`, waits. Ranks that give the same colour form a communicator, ordered by key and then by rank
 * in `comm`. NIGH_UNDEFINED: *out becomes NULL. Errors: -ERANGE another negative colour. */
int nigh_comm_split(struct nigh_comm *comm, int color, int key, struct nigh_comm **out);

/* Collective over the `count` ranks listed, in the same order at each; waits. They become ranks 0 .. count-1. Errors:
 * -ERANGE a rank outside of `comm`; -EINVAL one listed twice, or the caller not listed. */
int nigh_comm_create(struct nigh_comm *comm, const int *ranks, int count, struct nigh_comm **out);

/* Local, does not wait; sets *comm to NULL. Requests of it that are active go on to their end.
 * Errors: -EPERM the world. */
int nigh_comm_free(struct nigh_comm **comm);

/* Every call that waits on `comm` returns -ETIMEDOUT after so many seconds; 0 = never. New communicators inherit it. */
int nigh_comm_set_timeout(struct nigh_comm *comm, double seconds);

/* A name for diagnoses, at most 31 bytes; copied. */
int nigh_comm_set_name(struct nigh_comm *comm, const char *name);

/* ---- messages, blocking -------------------------------------------------------------------------------- */

/* Sends; waits until the buffer may be used again: for messages up to 64 KiB (NIGH_EAGER) not for the receiver, unless
 * more than 4 MiB (64 times that) of ours wait there for receives. */
int nigh_send(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm);

/* Sends; waits until the message was matched by a receive. */
int nigh_ssend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm);

/* Receives; waits. source may be NIGH_ANY_SOURCE, tag NIGH_ANY_TAG. Errors: -EMSGSIZE the message is longer than
 * `bytes` (the text tells both sizes): the buffer has its beginning, nothing was written beyond. */
int nigh_recv(void *buffer, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
              struct nigh_status *status);

/* Both at once, waits for both: cannot deadlock against another sendrecv. Errors: as nigh_recv. */
int nigh_sendrecv(const void *send, uint64_t send_bytes, int dest, int send_tag, void *recv,
                  uint64_t recv_bytes, int source, int recv_tag, struct nigh_comm *comm,
                  struct nigh_status *status);

/* ---- messages, non-blocking ---------------------------------------------------------------------------- */

/* Start and return at once. Errors: -ECONNRESET, -EPROTO the peer is gone; *request is NIGH_REQUEST_NULL then,
 * which may be waited for with others. */
int nigh_isend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
               nigh_request *request);
int nigh_issend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                nigh_request *request);
int nigh_irecv(void *buffer, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
               nigh_request *request);

/* Persistent requests: made inactive, started as often as wanted, each time waited for, freed with
 * nigh_request_free. */
int nigh_send_init(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                   nigh_request *request);
int nigh_ssend_init(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                    nigh_request *request);
int nigh_recv_init(void *buffer, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                   nigh_request *request);

/* Errors: -EINVAL not persistent; -EBUSY still active. nigh_startall starts in order and stops at the first error. */
int nigh_start(nigh_request *request);
int nigh_startall(int count, nigh_request *requests);

/* ---- waiting for requests ------------------------------------------------------------------------------ */

/*
 * The result of a wait or test is 0 or the error of the operation, which status->error tells, too; for several at once
 * the result is the first error among them, and the statuses tell which. NIGH_REQUEST_NULL and inactive persistent
 * requests count as ended, with an empty status (source NIGH_ANY_SOURCE, tag NIGH_ANY_TAG, 0 bytes).
 */
int nigh_wait(nigh_request *request, struct nigh_status *status);            /* waits */
int nigh_test(nigh_request *request, int *flag, struct nigh_status *status); /* *flag: 1 ended, 0 not yet */

/* As nigh_wait, at most `seconds`: -ETIMEDOUT, the request stays active. From 1e9 on it is nigh_wait. */
int nigh_wait_for(nigh_request *request, double seconds, struct nigh_status *status);

/* Ends them in their order as they come. On -ETIMEDOUT and -EDEADLK those that were not reached yet stay as they are; a
 * request that is none is an error of its own, the others are waited for. */
int nigh_waitall(int count, nigh_request *requests, struct nigh_status *statuses); /* waits */
int nigh_testall(int count, nigh_request *requests, int *flag,
                 struct nigh_status *statuses); /* all or none */

/* One that has ended: its index, or NIGH_UNDEFINED when none is active. nigh_testany: *flag 0 when
 * none has ended yet. */
int nigh_waitany(int count, nigh_request *requests, int *index, struct nigh_status *status); /* waits */
int nigh_testany(int count, nigh_request *requests, int *index, int *flag, struct nigh_status *status);

/* All that have ended, at least one for nigh_waitsome: *outcount indices and statuses, packed, each of room `count`;
 * *outcount is NIGH_UNDEFINED when none is active. */
int nigh_waitsome(int count, nigh_request *requests, int *outcount, int *indices,
                  struct nigh_status *statuses); /* waits */
int nigh_testsome(int count, nigh_request *requests, int *outcount, int *indices,
                  struct nigh_status *statuses);

/* Has it ended? Leaves it as it is. */
int nigh_request_get_status(nigh_request request, int *flag, struct nigh_status *status);

/* Asks to take a receive or a send back; returns at once. The request must still be waited for: its error is
 * -ECANCELED, and nothing is written to its buffer any more, or it had ended already. A receive is taken back while its message
 * is arriving, too: that message is lost, and its sender's call ends as if it had been received. A send that has left ends
 * as any other. */
int nigh_cancel(nigh_request *request);

/* A persistent one that is inactive; or lets an active send go on by itself: it cannot be waited for any more; or one
 * that has ended, and what a receive in place has brought is released. Errors: -EBUSY an active receive, or a
 * persistent request that is active. */
int nigh_request_free(nigh_request *request);

/* ---- probing ------------------------------------------------------------------------------------------- */

int nigh_probe(int source, int tag, struct nigh_comm *comm, struct nigh_status *status); /* waits */
int nigh_iprobe(int source, int tag, struct nigh_comm *comm, int *flag, struct nigh_status *status);

/* As these, and takes the message out of the queue for nigh_mrecv or nigh_imrecv. NIGH_PROC_NULL: *message is
 * one that is received with no data. */
int nigh_mprobe(int source, int tag, struct nigh_comm *comm, nigh_matched *message,
                struct nigh_status *status); /* waits */
int nigh_improbe(int source, int tag, struct nigh_comm *comm, int *flag, nigh_matched *message,
                 struct nigh_status *status);
int nigh_mrecv(void *buffer, uint64_t bytes, nigh_matched *message, struct nigh_status *status); /* waits */
int nigh_imrecv(void *buffer, uint64_t bytes, nigh_matched *message, nigh_request *request);

/* ---- shared heap, messages without a copy -------------------------------------------------------------- */

/* Memory that others can read in place: large messages out of it are copied once, lends not at all. 64-byte aligned,
 * zero. Errors: -ENOMEM the heap or the machine's memory is full (logged with the limit); nigh_free_mem: -EBUSY lent or
 * being sent; -EINVAL not from nigh_alloc_mem. */
int nigh_alloc_mem(uint64_t bytes, void **memory);
int nigh_free_mem(void *memory);

/* Hands memory from nigh_alloc_mem over without copying it: nobody writes it until the request has ended, which is when
 * the receiver has released it (or has received it with an ordinary receive). -EINVAL not such memory. */
int nigh_ilend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
               nigh_request *request);

/* Receive without a buffer: *data (status->data of the request's status) points at the message where it lies,
 * read-only, until nigh_release(data). Takes any message of at most `bytes`, lent or not. */
int nigh_recv_in_place(const void **data, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                       struct nigh_status *status); /* waits */
int nigh_irecv_in_place(uint64_t bytes, int source, int tag, struct nigh_comm *comm, nigh_request *request);

/* Gives it back. -EINVAL nothing of that address is held. */
int nigh_release(const void *data);

/* ---- one-sided: windows -------------------------------------------------------------------------------- */

/* Collective over `comm`, wait. Each rank shows `bytes` of memory (0: none) to the others, which may be another number
 * at each. allocate: memory of the shared heap, zero, *base, freed with the window; create: memory of the caller's,
 * which stays valid until the window is freed. free: as nigh_win_fence, and then the window is gone, also with an
 * error: gets and atomics that have not ended are given up, and nothing is written to their memory any more. The
 * communicator may be freed before. */
int nigh_win_allocate(uint64_t bytes, struct nigh_comm *comm, void **base, struct nigh_win **out);
int nigh_win_create(void *base, uint64_t bytes, struct nigh_comm *comm, struct nigh_win **out);
int nigh_win_free(struct nigh_win **win);

/* Start and return at once; complete at the next nigh_win_fence or nigh_win_flush, which also return their errors:
 * until then the buffers belong to nigh. No order among them. `offset` is in bytes from the start of the target's
 * memory. Errors: -ERANGE outside of it (with both sizes); -ECONNRESET, -EPROTO the target is gone. */
int nigh_put(const void *origin, uint64_t bytes, int target, uint64_t offset, struct nigh_win *win);
int nigh_get(void *origin, uint64_t bytes, int target, uint64_t offset, struct nigh_win *win);
/* Element by element atomic with other accumulates of the same type. type: enum nigh_type, op: NIGH_SUM .. NIGH_BXOR,
 * NIGH_WRITE; of nigh_get_accumulate also NIGH_READ, `origin` is not looked at then. Errors: -EOPNOTSUPP the operation
 * is not defined for the type; -EINVAL no such type, or `offset` is not a multiple of its width. */
int nigh_accumulate(const void *origin, uint64_t count, int type, int target, uint64_t offset, int op,
                    struct nigh_win *win);
int nigh_get_accumulate(const void *origin, uint64_t count, int type, void *result, int target,
                        uint64_t offset, int op, struct nigh_win *win);
int nigh_compare_and_swap(const void *origin, const void *compare, void *result, int type, int target,
                          uint64_t offset, struct nigh_win *win);

/* Collective over the window's communicator, waits: all operations of all ranks before it are complete everywhere. */
int nigh_win_fence(struct nigh_win *win);
/* Waits until this rank's operations on `target` (NIGH_ANY_SOURCE: on all) are complete there. */
int nigh_win_flush(int target, struct nigh_win *win);

/* ---- collectives --------------------------------------------------------------------------------------- */

/*
 * Collective over `comm`, of at most NIGH_GROUP_MAX ranks: all ranks call them in the same order with fitting arguments; all
 * wait. `count` is in elements of `type` (enum nigh_type but NIGH_OPAQUE, or NIGH_BYTES()), `op` is NIGH_SUM .. NIGH_BXOR, NIGH_AVG,
 * NIGH_MINLOC, NIGH_MAXLOC or one of nigh_op_create() and nigh_op_premul(). Reductions combine in rank order, ((x0 op x1) op x2) ..., so that results are equal on every rank and in every run.
 *
 *   defined for   integers: SUM .. BXOR, AVG. f16, bf16, f32, f64: SUM .. LXOR, AVG. complex: SUM, PROD, AVG. bool: SUM ..
 *                 BXOR. pairs: MINLOC, MAXLOC
 *   count is      bcast, reduce, allreduce, scan, exscan: of the vector. gather, allgather: of each rank's part of
 *                 recv. scatter, alltoall, reduce_scatter: of each rank's part of send
 *   in place      `send` NULL, as MPI_IN_PLACE: what is sent lies in `recv`, in gather and allgather at this rank's
 *                 own part of it. gather: at the root alone. scatter: at the root alone, whose own part stays where it
 *                 is. reduce: everywhere. Otherwise send and recv are memory of their own: one may not lie in the
 *                 other, nor be the other
 *   not looked at `recv` of reduce and gather but at the root, `send` of scatter but at the root; exscan leaves
 *                 `recv` of rank 0 as it is
 *
 * A call may return before all ranks have come: who has, and has given, all that the call needs of it goes on. Only nigh_barrier,
 * and what gives every rank something of every other, waits for all.
 *
 * Errors: -EPROTO a rank that this one needs something of calls another collective (those on communicators and windows are ones,
 * too), or the same with another root, operation or number of bytes, in reductions another type; or has done so before: the text
 * has both calls. Or it was refused for its arguments. Of this rank's own arguments: -EINVAL no such type, or send and recv
 * overlap; -ERANGE no such root, or too many elements; -EFAULT a buffer is NULL; -EOPNOTSUPP the operation is not defined for the
 * type, or more ranks than NIGH_GROUP_MAX.
 *
 * When a collective has failed by a mismatch, refused arguments or a time-out, all ranks that are in it are told, and `recv` is
 * undefined there. Ranks that were through with it return 0, and the log tells them of a mismatch. The next collective works,
 * unless a rank is ahead, as a root of small broadcasts may be: then the others fail until they are as far. After a death every
 * collective on that communicator fails, as after a nigh_comm_free of another rank.
 *
 * The buffers are the program's again on return, after an error, too.
 */
int nigh_barrier(struct nigh_comm *comm);
int nigh_bcast(void *buffer, uint64_t count, int type, int root, struct nigh_comm *comm);
int nigh_reduce(const void *send, void *recv, uint64_t count, int type, int op, int root,
                struct nigh_comm *comm);
int nigh_allreduce(const void *send, void *recv, uint64_t count, int type, int op, struct nigh_comm *comm);
int nigh_gather(const void *send, void *recv, uint64_t count, int type, int root, struct nigh_comm *comm);
int nigh_scatter(const void *send, void *recv, uint64_t count, int type, int root, struct nigh_comm *comm);
int nigh_allgather(const void *send, void *recv, uint64_t count, int type, struct nigh_comm *comm);
int nigh_alltoall(const void *send, void *recv, uint64_t count, int type, struct nigh_comm *comm);
int nigh_reduce_scatter(const void *send, void *recv, uint64_t count, int type, int op,
                        struct nigh_comm *comm);
int nigh_scan(const void *send, void *recv, uint64_t count, int type, int op, struct nigh_comm *comm);
int nigh_exscan(const void *send, void *recv, uint64_t count, int type, int op, struct nigh_comm *comm);

/* Blocks of lengths of their own: a count for each rank, in elements, at the ranks that have the blocks; `count` is this rank's
 * part. Blocks lie behind each other, or where the offsets say, in elements, which may be NULL. The arrays belong to nigh like
 * the buffers. In place as above: the own part is where the offsets say. reduce_scatterv: the same counts at all ranks. */
int nigh_gatherv(const void *send, uint64_t count, void *recv, const uint64_t *recv_counts,
                 const uint64_t *recv_offsets, int type, int root, struct nigh_comm *comm);
int nigh_scatterv(const void *send, const uint64_t *send_counts, const uint64_t *send_offsets, void *recv,
                  uint64_t count, int type, int root, struct nigh_comm *comm);
int nigh_allgatherv(const void *send, uint64_t count, void *recv, const uint64_t *recv_counts,
                    const uint64_t *recv_offsets, int type, struct nigh_comm *comm);
int nigh_alltoallv(const void *send, const uint64_t *send_counts, const uint64_t *send_offsets, void *recv,
                   const uint64_t *recv_counts, const uint64_t *recv_offsets, int type,
                   struct nigh_comm *comm);
int nigh_reduce_scatterv(const void *send, void *recv, const uint64_t *counts, int type, int op,
                         struct nigh_comm *comm);

/*
 * The same as requests: they return at once, and are waited for as those of messages are. All ranks make these and the blocking
 * ones in one order; a communicator may have several under way. Data move in calls of any kind that wait or test. A status says
 * nothing but the error. What this rank is refused for ends with that error here, and *request is NIGH_REQUEST_NULL; a
 * time-out of a wait leaves the request active. nigh_cancel: -EINVAL; nigh_request_free of one that is active: -EBUSY.
 */
int nigh_ibarrier(struct nigh_comm *comm, nigh_request *request);
int nigh_ibcast(void *buffer, uint64_t count, int type, int root, struct nigh_comm *comm,
                nigh_request *request);
int nigh_ireduce(const void *send, void *recv, uint64_t count, int type, int op, int root,
                 struct nigh_comm *comm, nigh_request *request);
int nigh_iallreduce(const void *send, void *recv, uint64_t count, int type, int op, struct nigh_comm *comm,
                    nigh_request *request);
int nigh_igather(const void *send, void *recv, uint64_t count, int type, int root, struct nigh_comm *comm,
                 nigh_request *request);
int nigh_iscatter(const void *send, void *recv, uint64_t count, int type, int root, struct nigh_comm *comm,
                  nigh_request *request);
int nigh_iallgather(const void *send, void *recv, uint64_t count, int type, struct nigh_comm *comm,
                    nigh_request *request);
int nigh_ialltoall(const void *send, void *recv, uint64_t count, int type, struct nigh_comm *comm,
                   nigh_request *request);
int nigh_ireduce_scatter(const void *send, void *recv, uint64_t count, int type, int op,
                         struct nigh_comm *comm, nigh_request *request);
int nigh_iscan(const void *send, void *recv, uint64_t count, int type, int op, struct nigh_comm *comm,
               nigh_request *request);
int nigh_iexscan(const void *send, void *recv, uint64_t count, int type, int op, struct nigh_comm *comm,
                 nigh_request *request);
int nigh_igatherv(const void *send, uint64_t count, void *recv, const uint64_t *recv_counts,
                  const uint64_t *recv_offsets, int type, int root, struct nigh_comm *comm,
                  nigh_request *request);
int nigh_iscatterv(const void *send, const uint64_t *send_counts, const uint64_t *send_offsets, void *recv,
                   uint64_t count, int type, int root, struct nigh_comm *comm, nigh_request *request);
int nigh_iallgatherv(const void *send, uint64_t count, void *recv, const uint64_t *recv_counts,
                     const uint64_t *recv_offsets, int type, struct nigh_comm *comm, nigh_request *request);
int nigh_ialltoallv(const void *send, const uint64_t *send_counts, const uint64_t *send_offsets, void *recv,
                    const uint64_t *recv_counts, const uint64_t *recv_offsets, int type,
                    struct nigh_comm *comm, nigh_request *request);
int nigh_ireduce_scatterv(const void *send, void *recv, const uint64_t *counts, int type, int op,
                          struct nigh_comm *comm, nigh_request *request);

/* And persistent ones, for nigh_start; errors of the arguments are this rank's alone. */
int nigh_barrier_init(struct nigh_comm *comm, nigh_request *request);
int nigh_bcast_init(void *buffer, uint64_t count, int type, int root, struct nigh_comm *comm,
                    nigh_request *request);
int nigh_reduce_init(const void *send, void *recv, uint64_t count, int type, int op, int root,
                     struct nigh_comm *comm, nigh_request *request);
int nigh_allreduce_init(const void *send, void *recv, uint64_t count, int type, int op,
                        struct nigh_comm *comm, nigh_request *request);
int nigh_gather_init(const void *send, void *recv, uint64_t count, int type, int root, struct nigh_comm *comm,
                     nigh_request *request);
int nigh_scatter_init(const void *send, void *recv, uint64_t count, int type, int root,
                      struct nigh_comm *comm, nigh_request *request);
int nigh_allgather_init(const void *send, void *recv, uint64_t count, int type, struct nigh_comm *comm,
                        nigh_request *request);
int nigh_alltoall_init(const void *send, void *recv, uint64_t count, int type, struct nigh_comm *comm,
                       nigh_request *request);
int nigh_reduce_scatter_init(const void *send, void *recv, uint64_t count, int type, int op,
                             struct nigh_comm *comm, nigh_request *request);
int nigh_scan_init(const void *send, void *recv, uint64_t count, int type, int op, struct nigh_comm *comm,
                   nigh_request *request);
int nigh_exscan_init(const void *send, void *recv, uint64_t count, int type, int op, struct nigh_comm *comm,
                     nigh_request *request);
int nigh_gatherv_init(const void *send, uint64_t count, void *recv, const uint64_t *recv_counts,
                      const uint64_t *recv_offsets, int type, int root, struct nigh_comm *comm,
                      nigh_request *request);
int nigh_scatterv_init(const void *send, const uint64_t *send_counts, const uint64_t *send_offsets,
                       void *recv, uint64_t count, int type, int root, struct nigh_comm *comm,
                       nigh_request *request);
int nigh_allgatherv_init(const void *send, uint64_t count, void *recv, const uint64_t *recv_counts,
                         const uint64_t *recv_offsets, int type, struct nigh_comm *comm,
                         nigh_request *request);
int nigh_alltoallv_init(const void *send, const uint64_t *send_counts, const uint64_t *send_offsets,
                        void *recv, const uint64_t *recv_counts, const uint64_t *recv_offsets, int type,
                        struct nigh_comm *comm, nigh_request *request);
int nigh_reduce_scatterv_init(const void *send, void *recv, const uint64_t *counts, int type, int op,
                              struct nigh_comm *comm, nigh_request *request);

/* ---- types and operations of the program's ---- */

/* A type for collectives: elements of so many bytes, 1 to 2^30 - 1, as a struct. Only functions reduce it. */
#define NIGH_BYTES(bytes) (0x40000000 + (int)(bytes))

enum { NIGH_OP_MAX = 256 }; /* operations of the program's at a time */

/*
 * Operations for collectives that reduce, each made at every rank; `*op` is a number of this process.
 *   nigh_op_create   an associative function, of any type: nigh_reduce_fn in nigh/transport.h. In rank order, so it need not commute. It
 *                    is called in any call of nigh, and with NIGH_PROGRESS=thread beside the program; it calls nothing of nigh
 *   nigh_op_premul   the sum of the elements times `factor`, one element of `type`, which is copied; ranks may differ in it.
 *                    Integers, floating-point and complex types
 *   nigh_op_free     collectives that were called or made before keep it; *op is 0 then
 * Errors: -ENOSPC NIGH_OP_MAX are there; -EOPNOTSUPP the type has no factor.
 */
int nigh_op_create(nigh_reduce_fn function, void *arg, int *op);
int nigh_op_premul(const void *factor, int type, int *op);
int nigh_op_free(int *op);

/* ---- call sites ---------------------------------------------------------------------------------------- */

/* Set by the macros below just before the call, taken by the call. */
struct nigh_site {
    const char *at; /* "file.c:12" */
};
extern __thread struct nigh_site nigh_site __attribute__((tls_model("initial-exec")));

/* A function, so that two calls may stand in one expression. */
static inline void nigh_site_set(const char *at)
{
    nigh_site.at = at;
}

#define NIGH_LINE_(line) #line
#define NIGH_LINE(line)  NIGH_LINE_(line)
#define NIGH_HERE        __FILE__ ":" NIGH_LINE(__LINE__)
#define NIGH_AT(call)    (nigh_site_set(NIGH_HERE), call)

/*
 * The four calls that carry most messages are given their place instead, and rank and tag in one, so that all that a
 * send is fits into registers: what it stores bounds how many there are in a second. For the macros alone.
 */
#define NIGH_WITH(rank, tag) (NIGH_CAST(uint64_t, NIGH_CAST(uint32_t, tag)) << 32 | NIGH_CAST(uint32_t, rank))
int nigh_send_at(const void *buffer, uint64_t bytes, uint64_t with, struct nigh_comm *comm, const char *site);
int nigh_recv_at(void *buffer, uint64_t bytes, uint64_t with, struct nigh_comm *comm,
                 struct nigh_status *status, const char *site);
int nigh_isend_at(const void *buffer, uint64_t bytes, uint64_t with, struct nigh_comm *comm,
                  nigh_request *request, const char *site);
int nigh_irecv_at(void *buffer, uint64_t bytes, uint64_t with, struct nigh_comm *comm, nigh_request *request,
                  const char *site);

static inline int nigh_send_here(const void *buffer, uint64_t bytes, int dest, int tag,
                                 struct nigh_comm *comm, const char *site)
{
    return nigh_send_at(buffer, bytes, NIGH_WITH(dest, tag), comm, site);
}

static inline int nigh_recv_here(void *buffer, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                                 struct nigh_status *status, const char *site)
{
    return nigh_recv_at(buffer, bytes, NIGH_WITH(source, tag), comm, status, site);
}

static inline int nigh_isend_here(const void *buffer, uint64_t bytes, int dest, int tag,
                                  struct nigh_comm *comm, nigh_request *request, const char *site)
{
    return nigh_isend_at(buffer, bytes, NIGH_WITH(dest, tag), comm, request, site);
}

static inline int nigh_irecv_here(void *buffer, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                                  nigh_request *request, const char *site)
{
    return nigh_irecv_at(buffer, bytes, NIGH_WITH(source, tag), comm, request, site);
}

/* Defining NIGH_NO_SITES before this header leaves the bare functions: for wrappers that have sites of their own. */
#ifndef NIGH_NO_SITES
#define nigh_init(...)                 NIGH_AT((nigh_init)(__VA_ARGS__))
#define nigh_finalize(...)             NIGH_AT((nigh_finalize)(__VA_ARGS__))
#define nigh_abort(...)                NIGH_AT((nigh_abort)(__VA_ARGS__))
#define nigh_comm_rank(...)            NIGH_AT((nigh_comm_rank)(__VA_ARGS__))
#define nigh_comm_size(...)            NIGH_AT((nigh_comm_size)(__VA_ARGS__))
#define nigh_comm_world_rank(...)      NIGH_AT((nigh_comm_world_rank)(__VA_ARGS__))
#define nigh_comm_dup(...)             NIGH_AT((nigh_comm_dup)(__VA_ARGS__))
#define nigh_comm_split(...)           NIGH_AT((nigh_comm_split)(__VA_ARGS__))
#define nigh_comm_create(...)          NIGH_AT((nigh_comm_create)(__VA_ARGS__))
#define nigh_comm_free(...)            NIGH_AT((nigh_comm_free)(__VA_ARGS__))
#define nigh_comm_set_timeout(...)     NIGH_AT((nigh_comm_set_timeout)(__VA_ARGS__))
#define nigh_comm_set_name(...)        NIGH_AT((nigh_comm_set_name)(__VA_ARGS__))
#define nigh_send(...)                 nigh_send_here(__VA_ARGS__, NIGH_HERE)
#define nigh_ssend(...)                NIGH_AT((nigh_ssend)(__VA_ARGS__))
#define nigh_recv(...)                 nigh_recv_here(__VA_ARGS__, NIGH_HERE)
#define nigh_sendrecv(...)             NIGH_AT((nigh_sendrecv)(__VA_ARGS__))
#define nigh_isend(...)                nigh_isend_here(__VA_ARGS__, NIGH_HERE)
#define nigh_issend(...)               NIGH_AT((nigh_issend)(__VA_ARGS__))
#define nigh_irecv(...)                nigh_irecv_here(__VA_ARGS__, NIGH_HERE)
#define nigh_send_init(...)            NIGH_AT((nigh_send_init)(__VA_ARGS__))
#define nigh_ssend_init(...)           NIGH_AT((nigh_ssend_init)(__VA_ARGS__))
#define nigh_recv_init(...)            NIGH_AT((nigh_recv_init)(__VA_ARGS__))
#define nigh_start(...)                NIGH_AT((nigh_start)(__VA_ARGS__))
#define nigh_startall(...)             NIGH_AT((nigh_startall)(__VA_ARGS__))
#define nigh_wait(...)                 NIGH_AT((nigh_wait)(__VA_ARGS__))
#define nigh_test(...)                 NIGH_AT((nigh_test)(__VA_ARGS__))
#define nigh_wait_for(...)             NIGH_AT((nigh_wait_for)(__VA_ARGS__))
#define nigh_waitall(...)              NIGH_AT((nigh_waitall)(__VA_ARGS__))
#define nigh_testall(...)              NIGH_AT((nigh_testall)(__VA_ARGS__))
#define nigh_waitany(...)              NIGH_AT((nigh_waitany)(__VA_ARGS__))
#define nigh_testany(...)              NIGH_AT((nigh_testany)(__VA_ARGS__))
#define nigh_waitsome(...)             NIGH_AT((nigh_waitsome)(__VA_ARGS__))
#define nigh_testsome(...)             NIGH_AT((nigh_testsome)(__VA_ARGS__))
#define nigh_request_get_status(...)   NIGH_AT((nigh_request_get_status)(__VA_ARGS__))
#define nigh_cancel(...)               NIGH_AT((nigh_cancel)(__VA_ARGS__))
#define nigh_request_free(...)         NIGH_AT((nigh_request_free)(__VA_ARGS__))
#define nigh_probe(...)                NIGH_AT((nigh_probe)(__VA_ARGS__))
#define nigh_iprobe(...)               NIGH_AT((nigh_iprobe)(__VA_ARGS__))
#define nigh_mprobe(...)               NIGH_AT((nigh_mprobe)(__VA_ARGS__))
#define nigh_improbe(...)              NIGH_AT((nigh_improbe)(__VA_ARGS__))
#define nigh_mrecv(...)                NIGH_AT((nigh_mrecv)(__VA_ARGS__))
#define nigh_imrecv(...)               NIGH_AT((nigh_imrecv)(__VA_ARGS__))
#define nigh_alloc_mem(...)            NIGH_AT((nigh_alloc_mem)(__VA_ARGS__))
#define nigh_free_mem(...)             NIGH_AT((nigh_free_mem)(__VA_ARGS__))
#define nigh_ilend(...)                NIGH_AT((nigh_ilend)(__VA_ARGS__))
#define nigh_recv_in_place(...)        NIGH_AT((nigh_recv_in_place)(__VA_ARGS__))
#define nigh_irecv_in_place(...)       NIGH_AT((nigh_irecv_in_place)(__VA_ARGS__))
#define nigh_release(...)              NIGH_AT((nigh_release)(__VA_ARGS__))
#define nigh_win_allocate(...)         NIGH_AT((nigh_win_allocate)(__VA_ARGS__))
#define nigh_win_create(...)           NIGH_AT((nigh_win_create)(__VA_ARGS__))
#define nigh_win_free(...)             NIGH_AT((nigh_win_free)(__VA_ARGS__))
#define nigh_put(...)                  NIGH_AT((nigh_put)(__VA_ARGS__))
#define nigh_get(...)                  NIGH_AT((nigh_get)(__VA_ARGS__))
#define nigh_accumulate(...)           NIGH_AT((nigh_accumulate)(__VA_ARGS__))
#define nigh_get_accumulate(...)       NIGH_AT((nigh_get_accumulate)(__VA_ARGS__))
#define nigh_compare_and_swap(...)     NIGH_AT((nigh_compare_and_swap)(__VA_ARGS__))
#define nigh_win_fence(...)            NIGH_AT((nigh_win_fence)(__VA_ARGS__))
#define nigh_win_flush(...)            NIGH_AT((nigh_win_flush)(__VA_ARGS__))
#define nigh_barrier(...)              NIGH_AT((nigh_barrier)(__VA_ARGS__))
#define nigh_bcast(...)                NIGH_AT((nigh_bcast)(__VA_ARGS__))
#define nigh_reduce(...)               NIGH_AT((nigh_reduce)(__VA_ARGS__))
#define nigh_allreduce(...)            NIGH_AT((nigh_allreduce)(__VA_ARGS__))
#define nigh_gather(...)               NIGH_AT((nigh_gather)(__VA_ARGS__))
#define nigh_scatter(...)              NIGH_AT((nigh_scatter)(__VA_ARGS__))
#define nigh_allgather(...)            NIGH_AT((nigh_allgather)(__VA_ARGS__))
#define nigh_alltoall(...)             NIGH_AT((nigh_alltoall)(__VA_ARGS__))
#define nigh_reduce_scatter(...)       NIGH_AT((nigh_reduce_scatter)(__VA_ARGS__))
#define nigh_scan(...)                 NIGH_AT((nigh_scan)(__VA_ARGS__))
#define nigh_exscan(...)               NIGH_AT((nigh_exscan)(__VA_ARGS__))
#define nigh_gatherv(...)              NIGH_AT((nigh_gatherv)(__VA_ARGS__))
#define nigh_scatterv(...)             NIGH_AT((nigh_scatterv)(__VA_ARGS__))
#define nigh_allgatherv(...)           NIGH_AT((nigh_allgatherv)(__VA_ARGS__))
#define nigh_alltoallv(...)            NIGH_AT((nigh_alltoallv)(__VA_ARGS__))
#define nigh_reduce_scatterv(...)      NIGH_AT((nigh_reduce_scatterv)(__VA_ARGS__))
#define nigh_ibarrier(...)             NIGH_AT((nigh_ibarrier)(__VA_ARGS__))
#define nigh_ibcast(...)               NIGH_AT((nigh_ibcast)(__VA_ARGS__))
#define nigh_ireduce(...)              NIGH_AT((nigh_ireduce)(__VA_ARGS__))
#define nigh_iallreduce(...)           NIGH_AT((nigh_iallreduce)(__VA_ARGS__))
#define nigh_igather(...)              NIGH_AT((nigh_igather)(__VA_ARGS__))
#define nigh_iscatter(...)             NIGH_AT((nigh_iscatter)(__VA_ARGS__))
#define nigh_iallgather(...)           NIGH_AT((nigh_iallgather)(__VA_ARGS__))
#define nigh_ialltoall(...)            NIGH_AT((nigh_ialltoall)(__VA_ARGS__))
#define nigh_ireduce_scatter(...)      NIGH_AT((nigh_ireduce_scatter)(__VA_ARGS__))
#define nigh_iscan(...)                NIGH_AT((nigh_iscan)(__VA_ARGS__))
#define nigh_iexscan(...)              NIGH_AT((nigh_iexscan)(__VA_ARGS__))
#define nigh_igatherv(...)             NIGH_AT((nigh_igatherv)(__VA_ARGS__))
#define nigh_iscatterv(...)            NIGH_AT((nigh_iscatterv)(__VA_ARGS__))
#define nigh_iallgatherv(...)          NIGH_AT((nigh_iallgatherv)(__VA_ARGS__))
#define nigh_ialltoallv(...)           NIGH_AT((nigh_ialltoallv)(__VA_ARGS__))
#define nigh_ireduce_scatterv(...)     NIGH_AT((nigh_ireduce_scatterv)(__VA_ARGS__))
#define nigh_barrier_init(...)         NIGH_AT((nigh_barrier_init)(__VA_ARGS__))
#define nigh_bcast_init(...)           NIGH_AT((nigh_bcast_init)(__VA_ARGS__))
#define nigh_reduce_init(...)          NIGH_AT((nigh_reduce_init)(__VA_ARGS__))
#define nigh_allreduce_init(...)       NIGH_AT((nigh_allreduce_init)(__VA_ARGS__))
#define nigh_gather_init(...)          NIGH_AT((nigh_gather_init)(__VA_ARGS__))
#define nigh_scatter_init(...)         NIGH_AT((nigh_scatter_init)(__VA_ARGS__))
#define nigh_allgather_init(...)       NIGH_AT((nigh_allgather_init)(__VA_ARGS__))
#define nigh_alltoall_init(...)        NIGH_AT((nigh_alltoall_init)(__VA_ARGS__))
#define nigh_reduce_scatter_init(...)  NIGH_AT((nigh_reduce_scatter_init)(__VA_ARGS__))
#define nigh_scan_init(...)            NIGH_AT((nigh_scan_init)(__VA_ARGS__))
#define nigh_exscan_init(...)          NIGH_AT((nigh_exscan_init)(__VA_ARGS__))
#define nigh_gatherv_init(...)         NIGH_AT((nigh_gatherv_init)(__VA_ARGS__))
#define nigh_scatterv_init(...)        NIGH_AT((nigh_scatterv_init)(__VA_ARGS__))
#define nigh_allgatherv_init(...)      NIGH_AT((nigh_allgatherv_init)(__VA_ARGS__))
#define nigh_alltoallv_init(...)       NIGH_AT((nigh_alltoallv_init)(__VA_ARGS__))
#define nigh_reduce_scatterv_init(...) NIGH_AT((nigh_reduce_scatterv_init)(__VA_ARGS__))
#define nigh_op_create(...)            NIGH_AT((nigh_op_create)(__VA_ARGS__))
#define nigh_op_premul(...)            NIGH_AT((nigh_op_premul)(__VA_ARGS__))
#define nigh_op_free(...)              NIGH_AT((nigh_op_free)(__VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif

#endif
