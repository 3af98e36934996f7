/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nigh/transport.h - the plugin ABI.
 *
 * nigh is one loadable object with one exported symbol, nigh_transport(), which returns one constant table of
 * functions. Through it the processes of one machine exchange messages, read and write each other's memory
 * and wait for one another. A host needs this header and dlopen() only; it links nothing.
 *
 *     void *object = dlopen(path, RTLD_NOW);   the path: pkg-config --variable=plugin nigh
 *     nigh_transport_fn entry = (nigh_transport_fn)dlsym(object, NIGH_SYMBOL);
 *     const struct nigh_ops *nigh = entry(NIGH_ABI);
 *
 * ## The model
 *
 * A *job* is a set of processes that talk to each other; a process in it has a *rank*. open() gives a
 * *context*: one presence in a job (a process may have several). connect() gives an *endpoint*: the context's
 * connection to one peer, which may be the context itself. What is posted on an endpoint completes in
 * poll_completions().
 *
 *     open -> connect -> post_* -> poll_completions -> disconnect -> close
 *
 * ## Rules that hold for every slot
 *
 * Result      0 (or a count) on success, a negative errno otherwise. Outputs are written on success only.
 *             -EAGAIN means that nothing changed: poll and call again. Each slot lists all its other errors;
 *             on top of them any slot returns -EINVAL for a NULL handle or output, for an endpoint of another
 *             context, and for a struct whose `size` is too small or whose reserved bytes are not zero; and
 *             -ECHILD in a process that was forked from the one that opened the context. A context that was
 *             closed and an endpoint that was disconnected are dead pointers, as after free(). What only a mistake
 *             of the host's can bring (-EINVAL, -EFAULT, -ERANGE, too many bytes, an address that is none) is also told
 *             to the log, with the value and what it may be: the first 64 of a context. A NULL handle or output, and
 *             calls in a forked child (once), are told on standard error.
 * Threads     A thread that calls any slot needs 32 KiB of stack.
 *             By default a context belongs to one thread at a time: no two slots may run on it at once;
 *             different contexts are independent. With NIGH_OPEN_THREADS (or NIGH_THREADS=multiple) every slot
 *             may be called by any thread at any time. wait() then lets other threads in while it sleeps.
 * Blocking    Only wait() blocks. Everything else returns after a bounded amount of work. A call that copies
 *             memory takes the time of that copy; large copies are cut into pieces over several polls. close()
 *             also waits for nigh's own thread to end, and for a peer that is just copying into a receive's buffer.
 *             Outside of that bound is memory whose pages a process supplies: of userfaultfd(2), and mapped files of a
 *             file system in user space (FUSE). A copy from or to it, also by process_vm_readv() of a peer's, stops the
 *             copying thread for as long as that process likes.
 * Progress    Things move when poll_completions(), take_completions(), wait(), probe() or a post is called.
 * Structs     Every struct that crosses this boundary begins with its size as the caller compiled it. A larger
 *             size than this object knows is accepted as long as the unknown tail is zero.
 *
 * ## Loading and unloading
 *
 * dlclose() leaves the object where it is (-z nodelete): contexts that are open stay good, and a later dlopen() gives
 * the same object. close() ends a context, also after dlclose().
 *
 * ## Growth
 *
 * Slots are only appended. NIGH_HAS(ops, slot) says whether a table has a slot. entry() refuses another
 * major.
 */
#ifndef NIGH_TRANSPORT_H
#define NIGH_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define NIGH_CAST(type, value) (static_cast<type>(value)) /* -Wold-style-cast */
extern "C" {
#else
#define NIGH_CAST(type, value) ((type)(value))
#endif

#define NIGH_ABI_MAJOR     1u
#define NIGH_ABI_MINOR     1u
#define NIGH_ABI           ((NIGH_ABI_MAJOR << 16) | NIGH_ABI_MINOR)
#define NIGH_SYMBOL        "nigh_transport"
#define NIGH_ADDRESS_BYTES 64u        /* of struct nigh_address, fixed for this major */
#define NIGH_RANK_NONE     UINT32_MAX /* "no rank": an address of another job, or take it from the job */
#define NIGH_SOURCE_NONE   UINT64_MAX /* completion.source of a peer that has no number yet */
#define NIGH_IGNORE_ALL    UINT64_MAX /* an ignore mask under which every tag matches */
#define NIGH_TCLASSES      8u         /* traffic classes 0..7 */

/* Does table `ops` have `slot`? True when the slot lies inside the table's size and is not NULL. */
#define NIGH_HAS(ops, slot) \
    ((ops)->size >= offsetof(struct nigh_ops, slot) + sizeof((ops)->slot) && (ops)->slot != NULL)

struct nigh_context;  /* a process's presence in a job: open .. close */
struct nigh_endpoint; /* a connection to one peer: connect .. disconnect */
struct nigh_region;   /* registered memory: register_memory .. deregister */
struct nigh_message;  /* a message claimed by a probe: probe .. claim */
struct nigh_group;    /* an ordered set of endpoints: group_create .. group_free */

/* ---- open ---------------------------------------------------------------------------------------------- */

/* flags of struct nigh_open; the environment variable of the same meaning is named behind each */
#define NIGH_OPEN_THREADS (1u << 0) /* any thread at any time                    NIGH_THREADS=multiple */
#define NIGH_OPEN_WAIT_FD (1u << 1) /* wait_fd() will be used                    NIGH_WAIT_FD=1 */
#define NIGH_OPEN_HUGE    (1u << 2) /* ask for huge pages (a wish: query tells)  NIGH_HUGE=1 */
/* Rank, size and job from the launcher's environment: nigh-run, mpirun, srun, torchrun or NIGH_RANK, NIGH_SIZE,
 * NIGH_JOB. -ENOENT without one. */
#define NIGH_OPEN_DETECT (1u << 3)

/*
 * All options of a context. Zero means "the default" everywhere but in job, rank and ranks: these are taken as
 * they are, or with NIGH_OPEN_DETECT all three from the launcher. An environment variable, where set, overrides
 * any other field that is zero, never one that the host has set; a value that does not parse is an error of
 * open(), never ignored.
 */
struct nigh_open {
    uint32_t size;  /* sizeof(struct nigh_open) */
    uint32_t flags; /* NIGH_OPEN_* */
    /* NIGH_JOB: the job's id, the same in all its processes, different in others' */
    uint64_t job;
    uint32_t rank;       /* NIGH_RANK: 0 .. ranks-1 */
    uint32_t ranks;      /* NIGH_SIZE: processes in the job, at least 1 */
    uint64_t heap_bytes; /* NIGH_HEAP: space reserved for heap_alloc, 64 KiB..4 TiB: 0 = half of memory */
    uint64_t pool_bytes; /* NIGH_POOL: space for chunks, 256 KiB..128 GiB, committed as used: 0 = 256 MiB */
    uint32_t ring_slots; /* NIGH_RING: slots of a hot pair's ring, a power of two, 64..65536: 0 = by load */
    /* NIGH_EAGER: up to this sends complete unmatched, 4096..1 GiB: 0 = 65536. To a peer other than ourselves where 64
     * times as much of ours waits for receives those of more than a body (NIGH_BODY) complete when they are matched, but
     * for NIGH_SILENT ones, until half of it was received. */
    uint32_t eager_bytes;
    uint32_t spin_ns; /* NIGH_SPIN: how long wait() spins before it sleeps: 0 = by machine load */
    /* NIGH_PEERS_MAX: endpoints at one time, at most 65536: 0 = max(ranks, 64) + 64. Those whose peer has ended do not
     * count. */
    uint32_t peers_max;
    /* NIGH_DIR: sockets as files in this 0700 directory instead of abstract names, for processes without a
     * common network namespace */
    const char *directory;
    /* NIGH_PATH: force the path of messages that do not fit a ring, where it is possible: "heap" and "cma", or
     * "eager" and "chunked", which are one: copied through chunks. NULL = choose by size and measurement */
    const char *path;
    /* Called for each line of diagnosis (no newline at its end), from any slot, on the calling thread. NULL:
     * stderr. level: 0 error, 1 warning, 2 information (NIGH_LOG=error|warn|info, default warn). It calls no slot. */
    void (*log)(void *log_data, int level, const char *text);
    void *log_data;
    /* How often the ranks of this job have all opened and closed contexts before: a context meets only those of its own
     * life, so one that comes back early never meets who has not left yet. The host counts. */
    uint64_t life;
    uint64_t reserved[3]; /* zero */
};

/* ---- addresses and endpoints --------------------------------------------------------------------------- */

/* Where a context can be reached: opaque, fixed in size, valid on this machine until the context is closed.
 * Send it to other processes by any means. A bytewise copy is as good as the original. */
struct nigh_address {
    uint8_t bytes[NIGH_ADDRESS_BYTES];
};

struct nigh_connect {
    uint32_t size;                      /* sizeof(struct nigh_connect) */
    uint32_t rank;                      /* the peer's rank in this job, or NIGH_RANK_NONE to use `address` */
    const struct nigh_address *address; /* the peer's address, or NULL to use `rank` */
    uint64_t source;                    /* the number that completions give as this peer's `source`;
                                           NIGH_SOURCE_NONE = its rank */
    uint64_t job;      /* the job that `rank` is in: 0 or this context's own = this life of it;
                          another one = its first life */
    uint64_t reserved; /* zero */
};

/*
 * The life of an endpoint. `connect` never waits: what is posted while it is CONNECTING is sent when it is
 * READY.
 *
 *     state        | meaning                                  | posts           | disconnect
 *     -------------+------------------------------------------+-----------------+------------
 *     CONNECTING   | the peer has not answered yet            | 0, queued       | 0, -> gone
 *     READY        | both sides know each other               | 0               | 0, -> gone
 *     PEER_CLOSED  | the peer disconnected, closed, refused   | -ECONNRESET     | 0, -> gone
 *     PEER_DEAD    | the peer's process ended, or exec        | -ECONNRESET     | 0, -> gone
 *     BROKEN       | the peer broke the protocol              | -EPROTO         | 0, -> gone
 *
 * Why it has ended, or is not connected yet, NIGH_QUERY_END tells. A job is of the user that its processes are when they
 * open it: a process that changes its user later, at any time, is connected as before.
 *
 * Operations in flight when a state ends complete with -ECONNRESET (or -EPROTO); what the peer had published
 * before it closed or died can still be received. After `disconnect` the pointer is dead; connect anew for a
 * new one.
 *
 * An endpoint that has ended gives its descriptors, mappings and memory back at the next poll, and the peer sees
 * PEER_CLOSED if it lives. What lies in the peer's memory and is not received or released yet keeps that memory mapped.
 * The pointer stays good, and its endpoint takes about 4 KiB, until `disconnect`.
 */
enum nigh_state {
    NIGH_CONNECTING = 1,
    NIGH_READY = 2,
    NIGH_PEER_CLOSED = 3,
    NIGH_PEER_DEAD = 4,
    NIGH_BROKEN = 5,
};

/* ---- messages ------------------------------------------------------------------------------------------ */

/* flags of struct nigh_send and struct nigh_lend */
#define NIGH_SYNC   (1u << 0) /* complete only when the message has been matched by a receive */
#define NIGH_INJECT (1u << 1) /* the buffer may be reused on return (at most NIGH_INJECT_BYTES) */
/* No completion, unless it fails. The first of such messages, of at most a body (NIGH_BODY), to a peer that is still
 * CONNECTING reach it with no further call here, if its context was open when it was dialled: what a small ring holds,
 * 60 of up to 40 bytes, 3 of 1 KiB. A disconnect before it is READY completes them with -ECANCELED, though the peer may
 * read them yet. */
#define NIGH_SILENT (1u << 2)
/* It may complete only when the peer has looked for messages, whatever its length: the host counts on no less, as MPI's
 * standard mode does. So those of up to NIGH_EAGER, too, can be read where they lie, where that is faster. Without effect
 * on NIGH_SILENT ones. */
#define NIGH_MAY_WAIT (1u << 3)
/*
 * Of sends, receives, puts, gets and lends: the buffer may be memory of a CUDA device. Whose it is its `region` says
 * (NIGH_REGISTER_DEVICE), which stays registered until the completion; without one the driver is
 * asked in each call. Without this flag `region` decides nothing and a buffer is the host's. The peer needs no device.
 * Where it uses one that reaches the buffer, its device copies a message longer than NIGH_EAGER from there, once it is received. A
 * put to a region on a device, and a get from one, longer than NIGH_EAGER or with NIGH_CUDA=require, goes so, too: a device of the
 * side that has the place copies.
 *
 * What the host's copies have put there before the call is sent; kernels that write it must have ended, as nigh's copies run on streams
 * of their own. They move with calls that make progress, and nobody waits for them but NIGH_INJECT. When a receive or a get
 * completes its bytes are in the device's memory. The post returns -ENOTSUP with NIGH_CUDA=off, where the driver does not
 * start, or with NIGH_CUDA=require where it would be staged through the host (a put or a get completes with it where only the
 * peer can tell), -EFAULT for a range with a hole, -EXDEV on several
 * devices, -ERANGE outside of its region, -EIO the driver fails, -ECHILD in a forked child. Where a copy fails the operation completes with -EIO on both sides, and the endpoint goes on.
 */
#define NIGH_DEVICE       (1u << 4)
#define NIGH_INJECT_BYTES 1024u

/* copy_device() */
#define NIGH_COPY_IN  1u
#define NIGH_COPY_OUT 2u

/*
 * A message to a peer. The order of the messages between two contexts is kept within a class: of two messages
 * that both match a receive, the one posted first is matched first.
 *
 * The buffer belongs to nigh from the call until the completion (NIGH_INJECT: until the return; NIGH_SILENT without
 * that: until the host knows otherwise that the message has been received, as by an answer). `bytes` may be 0, `buffer`
 * then NULL. There is no upper limit to `bytes`.
 */
struct nigh_send {
    uint32_t size;  /* sizeof(struct nigh_send) */
    uint32_t flags; /* NIGH_SYNC, NIGH_INJECT, NIGH_SILENT, NIGH_MAY_WAIT, NIGH_DEVICE */
    const void *buffer;
    uint64_t bytes;
    uint64_t tag;
    uint64_t imm;       /* 64 bits that arrive in the receiver's completion */
    uint64_t context;   /* comes back in the completion */
    uint32_t tclass;    /* traffic class 0..NIGH_TCLASSES-1: matched only by receives of the same class */
    uint32_t reserved0; /* zero */
    struct nigh_region *region; /* the buffer's registration; NULL: nigh finds heap memory by itself */
};

/* What inject() and expect() take in one register: how many bytes, and the traffic class. */
#define NIGH_SHAPE(bytes, tclass) (NIGH_CAST(uint64_t, tclass) << 32 | NIGH_CAST(uint32_t, bytes))
#define NIGH_SHAPE_BYTES(shape)   NIGH_CAST(uint32_t, shape)
#define NIGH_SHAPE_TCLASS(shape)  NIGH_CAST(uint32_t, (shape) >> 32)

/* The host's, called by inject() and expect() in place of their return, with the arguments of that and the error: its
 * result becomes theirs. It may call any slot. */
typedef int (*nigh_refused_fn)(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape,
                               uint64_t tag, uint64_t context, int error);

/* flags of struct nigh_recv */
/* The buffer takes message after message until fewer than `min_free` bytes are left; each has a completion with
 * `data` pointing into the buffer, the last of the buffer carries NIGH_DONE_RELEASED. */
#define NIGH_MULTI (1u << 0)
/* No buffer: the completion's `data` points at the message where it lies (a lend: in the sender's heap); give it
 * back by release(). `bytes` limits what is accepted.
 * With NIGH_DEVICE: `data` is an address of the device that the memory at `buffer`, which is not written, is on. Of lends of
 * device memory alone: any other message, and one that this device cannot map (of another device of this process: all but managed
 * memory), completes with -EOPNOTSUPP and is spent.
 * Where the lender ends before release() its memory may be gone. */
#define NIGH_IN_PLACE (1u << 1)

/* A place for a message. The buffer belongs to nigh until the completion. */
struct nigh_recv {
    uint32_t size; /* sizeof(struct nigh_recv) */
    uint32_t
        flags; /* one of NIGH_MULTI, NIGH_IN_PLACE, NIGH_DEVICE, or none; the last two together: see there */
    void *buffer;
    uint64_t bytes; /* a longer message completes with -EMSGSIZE and its full length in `bytes`; what fits
                       has been written, nothing beyond */
    uint64_t tag;
    uint64_t ignore; /* bits of the tag that are not compared; NIGH_IGNORE_ALL = any tag */
    uint64_t context;
    uint32_t tclass;
    uint32_t min_free; /* with NIGH_MULTI; at least 1 */
    struct nigh_region *region;
};

/* ---- completions --------------------------------------------------------------------------------------- */

enum nigh_op {
    NIGH_OP_SEND = 1,
    NIGH_OP_RECV = 2,
    NIGH_OP_LEND = 3, /* the lender's: the receiver has given the buffer back */
    NIGH_OP_PUT = 4,
    NIGH_OP_GET = 5,
    NIGH_OP_ATOMIC = 6,
    NIGH_OP_COLLECTIVE = 7,
    NIGH_OP_REMOTE_PUT =
        8, /* the target's: a put with NIGH_NOTIFY has arrived; or see NIGH_REGISTER_EVENTS */
    NIGH_OP_REMOTE_GET = 9, /* the target's: see there */
};

/* flags of struct nigh_completion */
#define NIGH_DONE_RELEASED (1u << 0) /* this multi-receive buffer is the host's again */
#define NIGH_DONE_LENT     (1u << 1) /* `data` must be given back by release() */
/* -EMSGSIZE of a receive with a buffer of its own: `data` is no address but how many bytes the buffer took. */
#define NIGH_DONE_CUT (1u << 2)
/* Of sends, lends and receives the traffic class: one context carries several kinds, and hosts must tell them apart. */
#define NIGH_DONE_CLASS(flags) (NIGH_CAST(uint32_t, flags) >> 8)

struct nigh_completion {
    uint64_t context; /* of the post */
    int32_t status;  /* 0, or: -EMSGSIZE longer than the buffer (`bytes` tells the full length), -ECANCELED by
                        cancel or disconnect, -ECONNRESET the peer has closed or died, -EPROTO the peer broke
                        the protocol, -EACCES or -ERANGE remote memory that is not registered, not allowed or
                        outside its region, -ENOTSUP remote memory of a device that is not to be staged
                        (NIGH_CUDA=require there), -EIO a copy failed, -ENOMEM none to place a message received in
                        place or in a multi-receive buffer: the message is spent */
    uint16_t op;     /* enum nigh_op */
    uint16_t flags;  /* NIGH_DONE_* */
    uint64_t bytes;  /* of the message; sent, received or moved */
    uint64_t tag;    /* receives: the sender's tag */
    uint64_t imm;    /* receives: the sender's immediate */
    uint64_t source; /* receives: the number given for the peer at connect, its rank if it connected by itself
                        and is of this job, else NIGH_SOURCE_NONE. Others: the peer of the operation */
    /* Of the peer: good for an answer, NULL where there is none. If the peer connected by itself and ends, until the
     * host polls again; with threads 10 s, less where more than half of peers_max are in use. */
    struct nigh_endpoint *endpoint;
    void *data; /* where the bytes lie: multi-receive, in place; see NIGH_DONE_CUT; NULL otherwise */
};

/* Of the completion of a send that was over when it was posted, and went well: all that is not 0 or NIGH_OP_SEND. */
struct nigh_sent {
    uint64_t context;
    uint32_t bytes, tclass;
    uint64_t source;
    struct nigh_endpoint *endpoint;
};

/* take_completions() that shows fewer than were asked for, and fewer than this, has shown all. */
#define NIGH_TAKEN_FULL 32u

/* What take_completions() shows. `sent` come first. */
struct nigh_taken {
    uint32_t size;
    uint32_t sent_count, done_count;
    uint32_t reserved0;
    const struct nigh_sent *sent;
    const struct nigh_completion *done;
};

/* ---- remote memory ------------------------------------------------------------------------------------- */

#define NIGH_REMOTE_READ  (1u << 0)
#define NIGH_REMOTE_WRITE (1u << 1) /* put and atomics */
#define NIGH_REGISTER_KEY (1u << 2) /* register_memory: *key says which key it is to be */
/* What peers do to the region completes here, too, when it is done: puts and atomics that return nothing as
 * NIGH_OP_REMOTE_PUT (`imm` 0 without NIGH_NOTIFY), gets and atomics that return something as NIGH_OP_REMOTE_GET,
 * `context` as registered. What fails does not. Gets of heap memory are then no longer without this side's help. */
#define NIGH_REGISTER_EVENTS (1u << 4)
/* The CPU may not touch the region, as that of a device: `copies` say how its bytes move. */
#define NIGH_REGISTER_COPIES (1u << 5)

/*
 * The region may be memory of a CUDA device, of any kind and of several physical segments: found out here, once. Memory that the
 * CPU may touch makes an ordinary region. Its bytes move by copies on nigh's own streams, behind what the host's copies have put
 * there before, in parts while more bytes come or go; atomics alone are waited for, as `copies` are, and other threads do not get
 * into the context meanwhile. To register such memory may wait for kernels that run. The memory stays until deregister(). Where
 * its CUDA context is destroyed earlier, peers' operations complete with -EIO. Peers need no device. Those
 * whose devices copy from it map it: deregister() makes progress until they have closed it, a second at most (logged), and
 * keeps other threads out meanwhile; memory of cuMemMap() alone may be freed earlier. Where the driver maps it for the CPU
 * (NIGH_DEVICE_WINDOW) short bytes for it are stored there without a copy of the device's. Without NIGH_REMOTE_READ and _WRITE it is for NIGH_DEVICE in posts of this process alone. With NIGH_CUDA=require what would be staged through the host
 * completes with -ENOTSUP at the peer instead, and the log here says why: NIGH_QUERY_DEVICE_PATHS tells it before.
 */
#define NIGH_REGISTER_DEVICE (1u << 6)

/*
 * How bytes of a region move to and from ordinary memory: `offset` from the region's start, within it. Done on return.
 * 0, or a negative errno: then the peer's operation completes with -EIO, as it does where there is no memory for its
 * bytes: a put's come together in memory of its size, a get's are read to such, one get of 16 MiB or longer of a peer
 * at a time. An atomic is a read and a write behind it. Called by calls that make progress, in their thread; they must
 * not call into the context.
 */
struct nigh_copies {
    uint32_t size;     /* sizeof(struct nigh_copies) */
    uint32_t reserved; /* zero */
    void *arg;         /* the host's, handed to both */
    int (*read)(void *arg, void *to, uint64_t offset, uint64_t bytes);
    int (*write)(void *arg, const void *from, uint64_t offset, uint64_t bytes);
};

/* Keys with this bit are chosen by hosts, all others by nigh. */
#define NIGH_KEY_CHOSEN (UINT64_C(1) << 63)

struct nigh_register {
    uint32_t size;  /* sizeof(struct nigh_register) */
    uint32_t flags; /* NIGH_REMOTE_READ | NIGH_REMOTE_WRITE; NIGH_REGISTER_KEY, _EVENTS, _COPIES, _DEVICE */
    /* NULL with UINT64_MAX bytes: all that this process has, offsets are its addresses. A peer that names one where
     * nothing is may end it by SIGSEGV. */
    void *buffer;
    uint64_t bytes;                   /* at least 1 */
    uint64_t context;                 /* NIGH_REGISTER_EVENTS: of its completions; else zero */
    const struct nigh_copies *copies; /* NIGH_REGISTER_COPIES: taken over in the call; else NULL */
};

#define NIGH_NOTIFY (1u << 3) /* post_put: a NIGH_OP_REMOTE_PUT completion with `imm` at the target */

struct nigh_rma {
    uint32_t size;  /* sizeof(struct nigh_rma) */
    uint32_t flags; /* NIGH_SILENT, NIGH_NOTIFY, NIGH_DEVICE */
    void *buffer;   /* local: read by put, written by get */
    uint64_t bytes;
    uint64_t offset; /* in bytes from the start of the remote region */
    uint64_t key;    /* the remote region's key, from register_memory at the target */
    uint64_t imm;
    uint64_t context;
    struct nigh_region *region; /* NIGH_DEVICE: the buffer's, or NULL; else NULL */
};

enum nigh_type {
    NIGH_I8 = 1,
    NIGH_U8,
    NIGH_I16,
    NIGH_U16,
    NIGH_I32,
    NIGH_U32,
    NIGH_I64,
    NIGH_U64,
    NIGH_F32,
    NIGH_F64,
    /* The types from here on are for collectives: atomics do not take them. */
    NIGH_BOOL, /* one byte, 0 or not 0; results are 0 or 1 */
    NIGH_F16,
    NIGH_BF16,
    NIGH_CF32, /* complex: two f32 */
    NIGH_CF64, /* complex: two f64 */
    /* A value and an index: struct {T value; int32_t index;} as C lays it out. Padding of results is zero. */
    NIGH_I16_I32,
    NIGH_I32_I32,
    NIGH_I64_I32,
    NIGH_F32_I32,
    NIGH_F64_I32,
    NIGH_OPAQUE, /* bytes of any width: they are moved, or combined by a function of the host's */
};

enum nigh_atomic_op {
    NIGH_SUM = 1,
    NIGH_PROD,
    NIGH_MIN,
    NIGH_MAX,
    NIGH_LAND,
    NIGH_LOR,
    NIGH_LXOR,
    NIGH_BAND,
    NIGH_BOR,
    NIGH_BXOR,
    NIGH_READ,  /* fetch only */
    NIGH_WRITE, /* replace */
    NIGH_CSWAP, /* replace where equal to `compare` */
    /* The operations from here on are for collectives: atomics do not take them. */
    NIGH_AVG,      /* the sum divided by the number of ranks */
    NIGH_PREMUL,   /* each rank's elements times that rank's factor, summed */
    NIGH_MINLOC,   /* of pairs: the smallest value and its index; the smaller index of equal values */
    NIGH_MAXLOC,   /* of pairs: the largest value and its index; the smaller index of equal values */
    NIGH_FUNCTION, /* a function of the host's */
};

#define NIGH_ATOMIC_BYTES 1024u /* largest count * width of one post_atomic */

/* Applied by the target when it makes progress, those of one context in the order of their posting;
 * atomic with respect to all other post_atomic of any rank on that region, not to the target's own loads
 * and stores while they are in flight. */
struct nigh_atomic {
    uint32_t size;       /* sizeof(struct nigh_atomic) */
    uint32_t flags;      /* NIGH_SILENT */
    uint16_t op;         /* NIGH_SUM .. NIGH_CSWAP; bitwise and logical ones take integers only */
    uint16_t type;       /* NIGH_I8 .. NIGH_F64 */
    uint32_t count;      /* elements, at least 1, count * width <= NIGH_ATOMIC_BYTES */
    const void *operand; /* NULL for NIGH_READ */
    const void *compare; /* NIGH_CSWAP only */
    void *result;        /* the values before, or NULL */
    uint64_t offset;     /* in bytes, a multiple of the element's width */
    uint64_t key;
    uint64_t context;
    uint64_t reserved; /* zero */
};

/* Handing over heap memory, or a device's, without a copy. */
struct nigh_lend {
    uint32_t size;      /* sizeof(struct nigh_lend) */
    uint32_t flags;     /* NIGH_SILENT, NIGH_DEVICE */
    const void *buffer; /* inside one block from heap_alloc; with NIGH_DEVICE also on a device, not empty */
    uint64_t bytes;
    uint64_t tag;
    uint64_t imm;
    uint64_t context;
    uint32_t tclass;
    uint32_t reserved0;         /* zero */
    struct nigh_region *region; /* with NIGH_DEVICE: the buffer's registration, or NULL; else NULL */
};

/* ---- collectives --------------------------------------------------------------------------------------- */

enum nigh_collective_op {
    NIGH_BARRIER = 1,
    NIGH_BROADCAST,
    NIGH_REDUCE,
    NIGH_ALLREDUCE,
    NIGH_GATHER,
    NIGH_SCATTER,
    NIGH_ALLGATHER,
    NIGH_ALLTOALL,
    NIGH_REDUCE_SCATTER,
    NIGH_SCAN,
    NIGH_EXSCAN,
};

/* A reduction of the host's (NIGH_FUNCTION): inout[i] = in[i] op inout[i] for `count` elements, `in` of the lower member. Called
 * by posts and by calls that make progress, in their thread, for parts of a call; it calls no slot. `inout` is nigh's own memory;
 * `in` may be a member's own buffer, is only read, and is aligned as that buffer is. */
typedef void (*nigh_reduce_fn)(void *arg, const void *in, void *inout, uint64_t count);

/* The input lies in `recv`, and `send` is not looked at: of reductions and scans at its beginning (NIGH_REDUCE: at the root
 * alone), of NIGH_GATHER (at the root alone) and NIGH_ALLGATHER in this member's block, of NIGH_ALLTOALL in all blocks, sent by
 * the counts and offsets of `recv`. NIGH_BROADCAST: of the root. NIGH_SCATTER: the root keeps its block in `send`. */
#define NIGH_COLLECTIVE_IN_PLACE (1u << 0)

/*
 * A call of a group. All members make the same calls in the same order. Members are numbered by their place in the group.
 *
 *     op              send                           recv                             count: elements
 *     ----------------+------------------------------+--------------------------------+------------------------------
 *     BARRIER         | -                            | -                              | -
 *     BROADCAST       | root: count                  | others: count; root: a copy,   | the same at all members
 *                     |                              | or NULL                        |
 *     REDUCE          | count                        | root: count                    | the same at all members
 *     ALLREDUCE       | count                        | count                          | the same at all members
 *     GATHER          | count                        | root: a block a member         | of the member's block
 *     SCATTER         | root: a block a member       | count                          | of the member's block
 *     ALLGATHER       | count                        | a block a member               | of the member's block
 *     ALLTOALL        | a block a member             | a block a member               | of one block
 *     REDUCE_SCATTER  | all blocks                   | the member's block             | of one block
 *     SCAN, EXSCAN    | count                        | count; EXSCAN, first: unchanged| the same at all members
 *
 * Blocks are `count` elements each and lie behind each other, unless send_counts or recv_counts say how many elements each has:
 * an entry a member. They lie behind each other then, too, unless send_offsets or recv_offsets say where each begins, in
 * elements. `count` is the member's own block then (GATHER, SCATTER, ALLGATHER), or not looked at. REDUCE_SCATTER takes
 * recv_counts alone.
 *
 * Reductions are done in the order of the members, so all members get the same bits, in every run. What moves and is not
 * reduced is bytes: types may differ between members if the bytes agree.
 */
struct nigh_collective {
    uint32_t size;      /* sizeof(struct nigh_collective) */
    uint32_t flags;     /* NIGH_COLLECTIVE_IN_PLACE */
    uint16_t op;        /* enum nigh_collective_op */
    uint16_t type;      /* enum nigh_type */
    uint16_t reduction; /* enum nigh_atomic_op: NIGH_SUM .. NIGH_BXOR, NIGH_AVG .. NIGH_FUNCTION; else zero */
    uint16_t reserved0; /* zero */
    uint32_t root;      /* place in the group: BROADCAST, REDUCE, GATHER, SCATTER; else zero */
    uint32_t width;     /* NIGH_OPAQUE: bytes of an element; else zero */
    const void *send;
    void *recv;
    uint64_t count;
    const uint64_t *send_counts, *send_offsets; /* these belong to nigh until the completion, too */
    const uint64_t *recv_counts, *recv_offsets;
    const void *factor;      /* NIGH_PREMUL: one element; taken over in the call */
    nigh_reduce_fn function; /* NIGH_FUNCTION */
    void *function_arg;
    uint64_t context; /* comes back in the completion */
    /* NULL, or where the call stands in the program, "file.c:12": told with it when members have made different calls, to those
     * that may read this process. Not copied, so a text that stays. */
    const char *place;
    uint64_t reserved; /* zero */
};

#define NIGH_GROUP_MAX 256u

#define NIGH_GROUP_TEXT_BYTES 256
/* What members of a domain share (NIGH_DOMAINS, nigh(7)). */
enum nigh_level { NIGH_LEVEL_AUTO = 0, NIGH_LEVEL_FLAT, NIGH_LEVEL_L3, NIGH_LEVEL_NODE, NIGH_LEVEL_PACKAGE };
/* How a group is. Answered from what the last pass has found; where no call is under way, from a look. */
struct nigh_query_group {
    uint32_t size; /* sizeof(struct nigh_query_group), from the host */
    uint32_t members;
    uint32_t formed;    /* 1: all members have made it */
    int32_t status;     /* 0, or what all calls fail with */
    uint32_t about;     /* status: the member that it is about */
    uint32_t under_way; /* calls that were posted and have not completed */
    uint64_t posted;    /* calls, ever: the next one's number */
    uint64_t oldest;    /* number of the oldest that is under way */
    /* Whom that one waits for: bit m % 64 of waits_for[m / 64]: member m has not come. If all have (`come`): it has not all that is
     * needed, and moves it whenever it calls nigh. Before the group is formed: the members that have not made it. */
    uint64_t waits_for[NIGH_GROUP_MAX / 64];
    uint64_t
        ended_in; /* status: number of the call in which the group has ended; later ones have not begun everywhere */
    uint32_t by_host; /* status: 1: by group_end() of member `about`, whose text it is */
    uint32_t domains; /* of members that run near each other; 1: calls are made without; 0: not formed */
    uint32_t level;   /* enum nigh_level: what makes a domain */
    uint32_t domain;  /* number of this member's, in the order of their lowest members */
    uint32_t representative; /* the lowest member of it */
    uint32_t come;           /* 1: those that are waited for have come to the call */
    /* status: what has happened, as "member 2 calls allreduce of 100 f32 (sum), member 0 calls barrier"; else empty */
    char text[NIGH_GROUP_TEXT_BYTES];
};

struct nigh_group_options {
    uint32_t size;                        /* sizeof(struct nigh_group_options) */
    uint32_t count;                       /* members: 1 .. NIGH_GROUP_MAX */
    struct nigh_endpoint *const *members; /* in the group's order; one of them leads to this context itself */
    uint64_t
        id; /* the same at all members. Of groups of the same members and id the first that each has made is one
                    group, the second another */
    uint64_t reserved[2]; /* zero */
};

/* ---- query --------------------------------------------------------------------------------------------- */

enum nigh_query {
    NIGH_QUERY_CONTEXT = 1,  /* struct nigh_query_context; endpoint NULL */
    NIGH_QUERY_ENDPOINT = 2, /* struct nigh_query_endpoint */
    NIGH_QUERY_PATHS = 3,    /* array of struct nigh_query_path, one a size class */
    NIGH_QUERY_STATS = 4,    /* struct nigh_query_stats; endpoint NULL = the whole context */
    NIGH_QUERY_MACHINE = 5,  /* struct nigh_query_machine; context may be NULL */
    /* struct nigh_note: the peer's status line, also of one that has ended; endpoint NULL = our own. -EAGAIN while
     * CONNECTING, or it is being written all the time; -ECONNRESET, -EPROTO by the state of a peer that was never
     * READY; -EPROTO it says what no note can */
    NIGH_QUERY_NOTE = 6,
    /* Arrays of struct nigh_query_message, as many as fit, of one peer or (endpoint NULL) of all: what has arrived and
     * is not matched, class by class, oldest first; and the receives that are posted, oldest first. As of the last
     * progress: poll first. The answer may be empty. -ENOMEM */
    NIGH_QUERY_UNEXPECTED = 7,
    NIGH_QUERY_POSTED = 8,
    /* struct nigh_query_end: why an endpoint has ended, or is not connected yet; of one that is READY here whether its peer
     * has ended since the last poll. May ask the system who listens, and who lives */
    NIGH_QUERY_END = 9,
    /* Array of struct nigh_query_device, one a CUDA device that this process sees, as many as fit; endpoint NULL. Empty where the
     * program has loaded no CUDA driver, which is never loaded for this; one that it has loaded is started, as by
     * NIGH_REGISTER_DEVICE, and peers hear of the devices. Empty, too, with NIGH_CUDA=off. -ENOTSUP there is a driver that does not
     * start, -EIO it fails, -ECHILD in a child forked from a process that uses CUDA: all logged; -ENOMEM */
    NIGH_QUERY_DEVICES = 10,
    /* Array of struct nigh_query_device_path: how memory of each kind goes from each of these devices to each that the peer uses, or
     * to the peer's process where it uses none. Empty where this process has no device. Besides the errors above: -EAGAIN while
     * CONNECTING; -ECONNRESET, -EPROTO by the endpoint's state; -EPROTO the peer says what cannot be */
    NIGH_QUERY_DEVICE_PATHS = 11,
};

/* Each answer begins with its full size as this object knows it. A smaller room gets the beginning of the answer; what
 * a larger one has beyond it is filled with zero. */
struct nigh_query_context {
    uint32_t size;
    /* peers: endpoints, implicit ones included, but for those that have ended and were not disconnected */
    uint32_t rank, ranks, peers;
    uint64_t job;
    uint64_t incarnation;      /* random, of this context */
    uint64_t shared_reserved;  /* bytes of address space of the arena */
    uint64_t shared_committed; /* bytes of memory that the arena takes now */
    uint64_t heap_bytes, heap_used;
    uint64_t inject_bytes, eager_bytes, atomic_bytes;
    uint32_t posted, unexpected; /* receives waiting, messages waiting */
    uint32_t crowded; /* more ranks than CPUs for them: whoever polls and finds nothing had better yield */
    uint32_t reserved0;
    uint64_t reserved[5];
};

struct nigh_query_endpoint {
    uint32_t size;
    uint32_t state; /* enum nigh_state */
    uint32_t rank;  /* NIGH_RANK_NONE for one of another job */
    int32_t pid;    /* as the kernel told; CONNECTING: of who was reached; 0 = nobody, or not visible */
    uint64_t source;
    uint64_t queued; /* posts waiting for room or for the connection */
    uint64_t ring_slots;
    uint64_t handoff_ns; /* measured on this pair, 0 = not yet */
    uint64_t reserved[6];
};

/* Why an endpoint has ended; of one that is CONNECTING, what keeps it so. Later versions may know more. */
enum nigh_reason {
    NIGH_REASON_NONE = 0,    /* it is READY, and lives */
    NIGH_REASON_ABSENT = 1,  /* CONNECTING: nobody has its name, yet or ever */
    NIGH_REASON_REACHED = 2, /* CONNECTING: it is there and has not answered yet */
    NIGH_REASON_LEFT = 3,    /* it has disconnected or closed */
    NIGH_REASON_DIED = 4,    /* its process has ended */
    NIGH_REASON_BROKEN = 5,  /* it broke the protocol */
    NIGH_REASON_GONE = 6,    /* the context that was addressed is closed */
    NIGH_REASON_USER = 7,    /* it is another user's: `value` */
    NIGH_REASON_DENIED =
        8, /* the system refuses a call: `error`; -EBADF: the program has closed nigh's descriptors */
    NIGH_REASON_DIRECTORY = 9,    /* NIGH_DIR is closed to the user that this process is now */
    NIGH_REASON_DESCRIPTORS = 10, /* none is left, of `value` */
    NIGH_REASON_MEMORY = 11,      /* none is left, or no address space */
    NIGH_REASON_PEERS = 12,       /* peers_max, `value`, is reached */
    NIGH_REASON_VERSION = 13,     /* its greeting is of version `value` */
    NIGH_REASON_LAYOUT = 14,      /* its shared memory is of version `value` */
    NIGH_REASON_PROTOCOL = 15,    /* what was said when they met is no greeting of nigh's */
};

#define NIGH_END_BYTES 384
struct nigh_query_end {
    uint32_t size;
    uint32_t state;  /* enum nigh_state */
    uint32_t reason; /* enum nigh_reason */
    int32_t error;   /* the negative errno behind it, 0 = none */
    uint32_t there;  /* 1 the peer refuses or lacks it, 0 this process */
    uint32_t reserved0;
    uint64_t value; /* see enum nigh_reason; 0 = not known */
    uint64_t reserved[4];
    /* What failed, with which value, and what to do: goes on behind "rank 1 cannot be reached: ". Empty: READY, and
     * the peer lives */
    char text[NIGH_END_BYTES];
};

#define NIGH_REASON_BYTES 112

/* How device memory gets to a peer. */
enum nigh_device_way {
    NIGH_DEVICE_STAGED = 0,  /* through memory of the host */
    NIGH_DEVICE_VMM = 1,     /* mapped there by a POSIX descriptor for each segment */
    NIGH_DEVICE_POOL = 2,    /* mapped there by a POSIX descriptor of its memory pool */
    NIGH_DEVICE_LEGACY = 3,  /* mapped there by the handle of its allocation */
    NIGH_DEVICE_POINTER = 4, /* the peer is in this process: it uses the address */
};

/* What made the memory, as cuMemAlloc() and cudaMalloc() do; cuMemMap(); cuMemAllocAsync(); cuMemAllocManaged(). */
enum nigh_device_memory {
    NIGH_DEVICE_PLAIN = 0,
    NIGH_DEVICE_MAPPED = 1,
    NIGH_DEVICE_POOLED = 2,
    NIGH_DEVICE_MANAGED = 3,
};

/* Why device memory is staged. Later versions may know more: `text` says it in words. */
enum nigh_device_reason {
    NIGH_DEVICE_WHY_NONE = 0,           /* it is not staged */
    NIGH_DEVICE_WHY_MANAGED = 1,        /* managed memory has no handle */
    NIGH_DEVICE_WHY_NO_HANDLE_TYPE = 2, /* it was created without POSIX descriptors in requestedHandleTypes */
    NIGH_DEVICE_WHY_POOL_PRIVATE = 3,   /* its pool was created without them in handleTypes */
    NIGH_DEVICE_WHY_MANY_SEGMENTS = 4,  /* it consists of too many physical segments */
    NIGH_DEVICE_WHY_OLD_DRIVER = 5,     /* the driver of either side is too old for its kind of handle */
    NIGH_DEVICE_WHY_WSL = 6,            /* WSL's driver exports none */
    NIGH_DEVICE_WHY_EXPORT_REFUSED = 7, /* this driver, or device, exports none of its kind */
    NIGH_DEVICE_WHY_PID_NAMESPACE = 8,  /* another PID namespace: legacy handles do not work */
    NIGH_DEVICE_WHY_NO_PEER_ACCESS = 9, /* the two devices cannot access each other's memory */
    NIGH_DEVICE_WHY_IMPORT_REFUSED = 10, /* the peer's driver did not open it */
    NIGH_DEVICE_WHY_CLASH = 11,          /* its handle is open there by other means */
    NIGH_DEVICE_WHY_MIG = 12,            /* one of the two is an instance of a divided device */
    NIGH_DEVICE_WHY_MPS = 13,            /* one of the two processes uses its device through MPS */
    NIGH_DEVICE_WHY_PEER_SILENT = 14,    /* the peer has not used a CUDA device yet */
    NIGH_DEVICE_WHY_NOT_JOINED = 15,     /* a put, get or atomic whose other side is not on a device */
};

#define NIGH_DEVICE_MIG    (1u << 0) /* an instance of a divided device */
#define NIGH_DEVICE_MPS    (1u << 1) /* processes share it through MPS */
#define NIGH_DEVICE_WINDOW (1u << 2) /* its driver promises that the CPU may map its memory */

struct nigh_query_device {
    uint32_t size;
    uint32_t number;  /* as the driver counts in this process */
    uint8_t uuid[16]; /* of the instance, if it is one */
    uint32_t flags;   /* NIGH_DEVICE_* */
    /* Bits 1 << enum nigh_device_way: kinds of handle that its driver promises and has not refused; those by which memory of it
     * has been exported */
    uint32_t offered, worked;
    uint32_t reason;              /* enum nigh_device_reason: why memory of it could last not be exported */
    uint64_t memory_bytes;        /* 0 = not known */
    char bus[16];                 /* PCI: "0000:3B:00.0"; empty = not known */
    char name[64];                /* of the model */
    char text[NIGH_REASON_BYTES]; /* `reason` in words; empty: none */
    uint64_t reserved[4];
};

#define NIGH_DEVICE_NONE UINT32_MAX
struct nigh_query_device_path {
    uint32_t size;
    uint32_t from;       /* number of this process' device */
    uint32_t to;         /* number of the peer's, as it counts; NIGH_DEVICE_NONE: it uses none */
    uint32_t memory;     /* enum nigh_device_memory */
    uint32_t way;        /* enum nigh_device_way */
    uint32_t reason;     /* enum nigh_device_reason: why it is staged */
    uint8_t to_uuid[16]; /* zero: NIGH_DEVICE_NONE */
    char path[16];       /* `way` in a word: "staged", "cuda-vmm", "cuda-pool", "cuda-legacy", "pointer" */
    char text[NIGH_REASON_BYTES]; /* `reason` in words */
    uint64_t reserved[4];
};

struct nigh_query_path {
    uint32_t size;
    uint32_t reserved0;
    uint64_t bytes_from;            /* the first message size of this class */
    char path[16];                  /* "inline", "eager", "chunked", "heap", "cma", "lend", ... */
    char reason[NIGH_REASON_BYTES]; /* why this one; which others were refused and why */
};

struct nigh_query_stats {
    uint32_t size;
    uint32_t reserved0;
    uint64_t sent, sent_bytes, received, received_bytes;
    /* Messages by path; heap: of a copy that several peers read, too. One that its receiver finds that it cannot read
     * (cma) goes over to those in chunks. Device memory that is staged counts as in chunks, too. */
    uint64_t inline_sent, eager_sent, chunked_sent, heap_sent, cma_sent, lend_sent;
    uint64_t put, get, atomic;
    uint64_t unexpected, truncated, peers_lost, peers_broken;
    uint64_t sleeps, wakes, rescues; /* rescues: sleeps ended by their time-out with work there; must be 0 */
    uint64_t ring_full, ring_grown, path_changes;
    uint64_t device_sent; /* messages that a device of the receiver's copies from device memory here */
    uint64_t reserved[7];
};

struct nigh_query_machine {
    uint32_t size;
    uint32_t cpus; /* that this process may run on; the next three count what these lie in */
    uint32_t l3_domains, numa_nodes, packages;
    uint32_t page_bytes;
    uint64_t memory_bytes, memory_limit; /* limit: of the cgroup, 0 = none */
    uint32_t cma;                        /* 1 usable with children, 0 not; reason below */
    uint32_t huge_shared;                /* 1 huge pages for shared memory can be had */
    char cma_reason[NIGH_REASON_BYTES];
    char huge_reason[NIGH_REASON_BYTES];
    char topology_reason[NIGH_REASON_BYTES]; /* empty, or why the topology is a guess */
    uint32_t cpus_runnable; /* threads of this process that can run at one time: cpus, less by a quota */
    uint32_t cpu_quota;     /* of the cgroup, in thousandths of a CPU, 0 = none */
    uint64_t reserved[7];
};

struct nigh_query_message {
    uint32_t size;
    uint32_t tclass;
    uint64_t source; /* as in completions; of a receive from anyone NIGH_SOURCE_NONE */
    uint64_t tag;
    uint64_t imm;     /* of a message */
    uint64_t ignore;  /* of a receive */
    uint64_t bytes;   /* of the message; free in the receive's buffer */
    uint64_t context; /* of the receive's post */
    uint64_t reserved;
};

/* ---- the status line ------------------------------------------------------------------------------------- */

enum nigh_note_state {
    NIGH_NOTE_NONE = 0, /* never written */
    NIGH_NOTE_RUNNING = 1,
    NIGH_NOTE_BLOCKED = 2, /* in a call that returns when others have done something */
    NIGH_NOTE_LEFT = 3,    /* waits for nobody any more */
};

/* What a host calls the operation it is in; those that tools know by name. Others from NIGH_NOTE_OP_HOST on. */
enum nigh_note_op {
    NIGH_NOTE_OP_NONE = 0,
    NIGH_NOTE_OP_SEND = 1,
    NIGH_NOTE_OP_SSEND,
    NIGH_NOTE_OP_RECV,
    NIGH_NOTE_OP_SENDRECV,
    NIGH_NOTE_OP_PROBE,
    NIGH_NOTE_OP_MPROBE,
    NIGH_NOTE_OP_MRECV,
    NIGH_NOTE_OP_WAIT,
    NIGH_NOTE_OP_WAITALL,
    NIGH_NOTE_OP_WAITANY,
    NIGH_NOTE_OP_WAITSOME,
    NIGH_NOTE_OP_LEND,
    NIGH_NOTE_OP_PUT,
    NIGH_NOTE_OP_GET,
    NIGH_NOTE_OP_ATOMIC,
    NIGH_NOTE_OP_FENCE,
    NIGH_NOTE_OP_BARRIER,
    NIGH_NOTE_OP_BROADCAST,
    NIGH_NOTE_OP_REDUCE,
    NIGH_NOTE_OP_ALLREDUCE,
    NIGH_NOTE_OP_GATHER,
    NIGH_NOTE_OP_SCATTER,
    NIGH_NOTE_OP_ALLGATHER,
    NIGH_NOTE_OP_ALLTOALL,
    NIGH_NOTE_OP_REDUCE_SCATTER,
    NIGH_NOTE_OP_SCAN,
    NIGH_NOTE_OP_EXSCAN,
    NIGH_NOTE_OP_SPLIT,     /* making or freeing a communicator */
    NIGH_NOTE_OP_OPEN,      /* joining the job */
    NIGH_NOTE_OP_CLOSE,     /* leaving it */
    NIGH_NOTE_OP_WAIT_SEND, /* one request, a send's */
    NIGH_NOTE_OP_WAIT_RECV, /* or a receive's */
    NIGH_NOTE_OP_HOST = 1000,
};

/* What a rank is doing. A host writes it when it starts to block for longer than a short spin, and when it goes on. */
struct nigh_note {
    uint32_t size;     /* sizeof(struct nigh_note) */
    uint32_t state;    /* enum nigh_note_state, not NONE */
    uint32_t op;       /* enum nigh_note_op or the host's own */
    uint32_t group;    /* the host's number of the communicator */
    uint32_t peer;     /* the rank of the job that is waited for; NIGH_RANK_NONE: any of `members` */
    uint32_t requests; /* how many are waited for */
    uint64_t members;  /* bit r: rank r, below 64; all ones: any rank of the job */
    uint64_t tag;
    uint64_t bytes;
    uint64_t since_ns; /* CLOCK_MONOTONIC */
    char site[40];     /* where in the program, "file.c:123", ended by a zero */
    /* Filled in by nigh, not looked at by note(): */
    uint64_t serial;  /* differs after each note(), and after whatever moves while a note says BLOCKED */
    uint64_t checked; /* full passes since then, asked for by nudge(), that found nothing to do */
    /* The host's again. When a BLOCKED rank goes on by the clock if nothing comes before, CLOCK_MONOTONIC; 0 or UINT64_MAX:
     * never. query() says 0 of both. */
    uint64_t until_ns;
    uint64_t reserved[2]; /* zero */
};

/* ---- the table ----------------------------------------------------------------------------------------- */

struct nigh_ops {
    uint32_t abi;            /* NIGH_ABI of this object */
    uint32_t size;           /* of this table in bytes */
    const char *name;        /* "nigh" */
    const char *version;     /* of the release, "0.1.0" */
    const char *description; /* one line */
    const char *config_help; /* all environment variables, a line each */

    /*
     * Joins a job. On success *out is the context and belongs to the caller until close(). Waits for nobody.
     * Errors: -ENOENT NIGH_OPEN_DETECT and no launcher; -EINVAL a field or an environment value out of range
     * (logged with its name, value and limit); -EADDRINUSE this rank of this job is already open on this
     * machine; -ENOMEM the shared memory could not be reserved (logged with the size and the limit that
     * refused), or no thread can be started (logged); -EMFILE no file descriptors left; -EPERM, -ENOSYS the
     * system refuses memfd or sockets (logged); -ENAMETOOLONG, -ENOTDIR, -EACCES the directory cannot hold
     * sockets.
     */
    int (*open)(const struct nigh_open *options, struct nigh_context **out);

    /*
     * Leaves the job. Posted operations end without completions, lends in flight are withdrawn, endpoints,
     * regions, groups and heap memory become invalid. Peers see PEER_CLOSED after everything that was
     * published before; eager messages stay readable for them. Waits for a peer in two cases only. It was reached,
     * lives, and has not room, or not looked yet, for NIGH_SILENT messages of at most a body: until it has, 5 s at most
     * (logged: they are lost). And it is in the middle of copying its message into the buffer of a posted receive, as
     * they do where ranks outnumber CPUs: some 40 us, 5 s at most for one that was stopped there (logged: it may still
     * write to that buffer when it goes on).
     * Buffers of what is posted are nigh's until it returns. Returns 0 always for a valid context.
     */
    int (*close)(struct nigh_context *context);

    /* Writes this context's address. Legal from open to close. */
    int (*address)(struct nigh_context *context, struct nigh_address *out);

    /*
     * A connection to a peer, which may be this context, another one of this process, and may not exist yet
     * if it is named by rank. *out belongs to the caller until disconnect(). Connecting to the same peer
     * again gives the same endpoint, and as many disconnects are needed; `source` of the first call stays.
     * Never waits. Errors: -ERANGE rank outside of the job; -EINVAL neither or both of rank and address;
     * -EBADMSG the address is not one of nigh's (garbage, another version); -EHOSTUNREACH the address is of
     * another machine or boot; -EACCES of another user; -ENOSPC more than peers_max (logged); -EMFILE no file
     * descriptor left (logged); -ENOMEM; -EBADF the program has closed descriptors of nigh's, or opened others under their numbers
     * (logged): who is connected stays so. A peer named by rank that never opens stays CONNECTING, which the
     * log tells once after 3 s, with what may be the reason; one named by
     * the address of a context that was closed becomes PEER_CLOSED. A peer of another job can be named by that
     * job and its rank there: a service whose job is a number that all know.
     */
    int (*connect)(struct nigh_context *context, const struct nigh_connect *to, struct nigh_endpoint **out);

    /*
     * Undoes one connect(). With the last: queued and unmatched operations of this endpoint complete with
     * -ECANCELED (one whose message other threads, or the peer, are copying at this moment as soon as none does,
     * and with 0 if that was all of it), the peer sees PEER_CLOSED, the pointer is dead. Never waits. Errors:
     * -EINVAL not connected by this caller.
     */
    int (*disconnect)(struct nigh_endpoint *endpoint);

    /*
     * Sends. Completes (NIGH_OP_SEND) when the buffer may be reused; with NIGH_SYNC when it was matched too.
     * Errors: -EINVAL class or flags; -EFAULT NULL buffer with bytes > 0; -EMSGSIZE NIGH_INJECT of more than
     * NIGH_INJECT_BYTES; -EAGAIN 16384 operations are queued on this endpoint; -ECONNRESET, -EPROTO by the
     * endpoint's state; -ENOMEM.
     */
    int (*post_send)(struct nigh_endpoint *endpoint, const struct nigh_send *send);

    /*
     * Posts a receive from `from`, or from anyone if it is NULL. Receives are matched in the order of their
     * posting. Completes with NIGH_OP_RECV. A receive that names an endpoint which ends completes with
     * -ECONNRESET; of the receives from anyone one completes with -ECONNRESET per peer that died, the oldest
     * or, if none is posted then, the next: so the host is told once. Errors: -EINVAL class, flags, min_free;
     * -EFAULT NULL buffer with bytes > 0; -ECONNRESET, -EPROTO by the state, if no message that matches is
     * there; -ENOMEM.
     */
    int (*post_recv)(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv);

    /*
     * Is there an unmatched message? On success *found tells tag, imm, bytes, source, endpoint. With out !=
     * NULL the message is claimed: it matches no other receive, and *out must be given to claim() once. Makes
     * progress first. Errors: -ENOMSG none; -EINVAL class; -ECONNRESET, -EPROTO by the state of `from`, if
     * none is there.
     */
    int (*probe)(struct nigh_context *context, struct nigh_endpoint *from, uint64_t tag, uint64_t ignore,
                 uint32_t tclass, struct nigh_completion *found, struct nigh_message **out);

    /* Receives a claimed message as post_recv would; tag and ignore of `recv` are not looked at; NIGH_MULTI is
     * not allowed. *message is used up on success only; one that its sender has taken back since, by leaving,
     * completes with -ECONNRESET. Errors: -EINVAL not claimed, flags, class; -EFAULT NULL buffer with bytes > 0;
     * -ENOMEM. */
    int (*claim)(struct nigh_context *context, struct nigh_message *message, const struct nigh_recv *recv);

    /*
     * Takes back one operation that was posted with this `op_context`. It completes with -ECANCELED, and nigh writes
     * nothing to its memory from then on. In this order, what there is:
     *  - the oldest receive that has met no message;
     *  - the oldest send, put, get or atomic of which nothing has left;
     *  - a receive whose message is arriving. The message is lost: it is received for nobody, and its sender's operation
     *    completes as usual. The completion tells source, tag, immediate and length of the message;
     *  - a get or an atomic whose result has not come. The atomic may have been done.
     * The completion is there at once, but for two cases: other threads are copying to the buffer at this moment, or the
     * peer is (it copies a part of a long message by process_vm_writev). It comes when they are done: if that peer is
     * stopped just then, when it goes on or dies. Where all of the message was there by then it may be 0. Of a
     * multi-receive buffer the messages that are arriving complete first; to cancel it once more drops those, too, and
     * each of them completes with -ECANCELED. Never waits. Takes time in proportion to what is posted and under way.
     * Errors: -ENOENT there is none: it has completed, is about to, or never was.
     */
    int (*cancel)(struct nigh_context *context, uint64_t op_context);

    /*
     * Remote memory. put writes into, get reads from, atomic works on a region that the peer has registered.
     * Complete when the remote side is done. Regions of heap memory are read without the peer's help;
     * everything else needs the peer to make progress. No order among them or to messages, unless by
     * completion. Errors: -EINVAL flags, or atomic: no elements, offset not a multiple of the width; -EFAULT
     * NULL buffer or operand; -EOPNOTSUPP atomic: operation not defined for the type; -EMSGSIZE atomic too
     * large; -EAGAIN 16384 operations are queued on this endpoint; -ECONNRESET, -EPROTO by the endpoint's
     * state; -ENOMEM.
     */
    int (*post_put)(struct nigh_endpoint *endpoint, const struct nigh_rma *rma);
    int (*post_get)(struct nigh_endpoint *endpoint, const struct nigh_rma *rma);
    int (*post_atomic)(struct nigh_endpoint *endpoint, const struct nigh_atomic *atomic);

    /*
     * Sends heap memory without copying it: whoever receives it with NIGH_IN_PLACE reads it where it lies; an
     * ordinary receive gets a copy. Neither side may write it until it is given back. Completes with
     * NIGH_OP_LEND when it is, or with an error when the receiver is gone. Errors: -EINVAL class, flags, not
     * heap memory; -EAGAIN 16384 operations are queued on this endpoint; -ECONNRESET, -EPROTO by the
     * endpoint's state; -ENOMEM. With NIGH_DEVICE also those of NIGH_DEVICE, -EAGAIN while CONNECTING, and -ENOTSUP where the
     * peer cannot map such memory (logged, with the reason).
     */
    int (*post_lend)(struct nigh_endpoint *endpoint, const struct nigh_lend *lend);

    /*
     * Gives `data` of a completion with NIGH_DONE_LENT back; afterwards it must not be read.
     * Errors: -EINVAL nothing of that address is held.
     */
    int (*release)(struct nigh_context *context, void *data);

    /*
     * Begins a call of a group: NIGH_OP_COLLECTIVE completes it, with `tag` the call's number in the group and `bytes` what it
     * has put into `recv`. Several calls may be under way; they begin in the order of their posting. Buffers belong to nigh
     * until the completion; `send` is only read. A call may complete before other members have made it. Status other than 0,
     * with `source` of the member that it is about:
     *   -ECONNRESET  a member has left the group, closed or died
     *   -EPROTO      members have made different calls: both are told to the log of each that finds it
     *   -EIO         a member's memory cannot be read, though it could when they met
     *   -ENOMEM      none for data on its way
     *   the error of group_end(), of which `source` has called it
     * From then on all calls of the group fail so, at all members, and no member reads another's buffers.
     * Errors: -EINVAL op, flags, root, counts that another field rules out, send and recv overlap; -EOPNOTSUPP the reduction is
     * not defined for the type; -EFAULT NULL where there are bytes; -ERANGE more than 2^55 bytes; -ECONNRESET, -EPROTO, -EIO as
     * above; -ENOMEM.
     */
    int (*post_collective)(struct nigh_group *group, const struct nigh_collective *collective);
    /*
     * A group of endpoints that are connected, or will be: each member makes it, with the same members in the same order. It
     * keeps its endpoints, as one more connect() would, until all members have left it or ended. Calls may be posted at once;
     * they wait for members that do not exist yet. Never waits. Errors:
     * -EINVAL count, a NULL or one endpoint twice, not exactly one that leads here; -ECONNRESET, -EPROTO a member has ended;
     * -ENOMEM.
     */
    int (*group_create)(struct nigh_context *context, const struct nigh_group_options *options,
                        struct nigh_group **out);
    /* Leaves it: calls of other members that still need this one complete with -ECONNRESET. Errors: -EBUSY calls are under way:
     * group_end() completes them. */
    int (*group_free)(struct nigh_group *group);

    /*
     * Memory that peers can read in place: lends, and large sends of it, are copied once or not at all.
     * Aligned to 64 bytes, zeroed when first used. Freed by heap_free() or close(). heap_free() of memory
     * that is lent or being sent is refused with -EBUSY. Errors: -ENOMEM the heap is full or the machine's
     * memory cannot back it (logged once with the limit); -EINVAL bytes is 0, or heap_free() of something
     * else.
     */
    int (*heap_alloc)(struct nigh_context *context, uint64_t bytes, void **out);
    int (*heap_free)(struct nigh_context *context, void *memory);

    /*
     * Lets peers use [buffer, buffer + bytes) by *key. The memory stays the caller's and must stay valid
     * until deregister(), after which operations of peers that arrive complete with -EACCES at them. So do
     * gets of heap memory that were being copied: what they have read is not the peer's to use. Errors:
     * -EINVAL no bytes, unknown flags, neither NIGH_REMOTE_* nor NIGH_REGISTER_DEVICE, NIGH_REGISTER_KEY without NIGH_KEY_CHOSEN in *key, deregister() of
     * something else, copies without NIGH_REGISTER_COPIES, it without copies, both of them, or of all memory,
     * NIGH_REGISTER_DEVICE with NIGH_REGISTER_COPIES or of all memory, a
     * `copies` of another size or with something reserved in it; of NIGH_REGISTER_DEVICE: -ENOTSUP NIGH_CUDA=off, -EFAULT the
     * memory has a hole, -EXDEV it lies on several devices, or in part in the host's memory, -EIO the driver fails, -ECHILD in
     * a forked child; all logged. -EEXIST that key is registered; -EBUSY deregister()
     * while a put of a peer, or the answer to its get, is under way on it; -EFAULT NULL, less than all; -ENOSPC 8
     * million are registered; -ENOMEM. A peer that stops in the middle of its put, or does not read what it got, keeps
     * a region busy for as long as it likes; its end, in whatever state, releases it, and so does disconnect() from it.
     */
    int (*register_memory)(struct nigh_context *context, const struct nigh_register *memory, uint64_t *key,
                           struct nigh_region **out);
    int (*deregister)(struct nigh_context *context, struct nigh_region *region);

    /*
     * Makes progress and writes up to `count` completions. Returns how many, 0 if there is none now. Never
     * sleeps. They come in the order in which operations end, which need be neither that of their posting nor, of
     * receives, that in which messages were matched: a short message that came behind a long one ends before it, and so
     * may a long one that several threads copy. Sends that end while they are posted may come before what ended
     * earlier. Errors: -EINVAL NULL `out` with count > 0, count above INT32_MAX.
     */
    int (*poll_completions)(struct nigh_context *context, struct nigh_completion *out, uint32_t count);

    /*
     * Returns 0 as soon as poll_completions() would return something, -ETIMEDOUT after timeout_ns
     * (UINT64_MAX: no limit; 0: look once), -EINTR when a signal handler ran while it slept, or a peer nudged:
     * nothing came, but the host may want to look up; or, if its note says that it is blocked in a probe, a message
     * that probe() may find has come since it found nothing. Spins, yields, then sleeps; a sleeper is woken by peers,
     * by the kernel (a peer's death) and by other threads' posts.
     */
    int (*wait)(struct nigh_context *context, uint64_t timeout_ns);

    /*
     * The descriptor that becomes readable when there is something to poll, for epoll, libuv and the like; it
     * belongs to the context. Call it before each sleep: it also arms the descriptor and takes old readiness
     * off it. While it is armed every message costs its sender a system call: `fd` NULL takes the arms off, for hosts
     * that do not sleep any more. There is one: with threads, who calls does so for all that sleep on it. The first
     * call makes it, and starts a thread that makes it readable, with all signals blocked. It may become readable with
     * nothing to poll: poll, and arm it again. Errors:
     * -EAGAIN there is something to poll now (*fd is not written, and it is not armed); -ENOTSUP the context was
     * opened without NIGH_OPEN_WAIT_FD; -EMFILE, -ENOMEM it, or the thread, could not be made (logged); -EBADF the program has
     * closed it (logged).
     */
    int (*wait_fd)(struct nigh_context *context, int *fd);

    /*
     * Facts, read-only: *bytes is the room at `out` and becomes the length of the answer in it. See enum
     * nigh_query. Errors: -EINVAL unknown kind, or an endpoint is needed; -ENOSPC room for less than a `size`;
     * and those that stand at the kind.
     */
    int (*query)(struct nigh_context *context, struct nigh_endpoint *endpoint, uint32_t what, void *out,
                 uint64_t *bytes);

    /* ---- since 1.1 ---- */

    /*
     * Would connect() take this address? Nobody is dialled. 0, or connect's -EBADMSG, -EHOSTUNREACH, -EACCES.
     */
    int (*check_address)(struct nigh_context *context, const struct nigh_address *address);

    /*
     * Writes this context's status line, for peers, nigh-top and detectors of deadlocks; nothing in nigh depends on
     * what it says. About 10 ns, no system call. It stands until the next: a host whose note says BLOCKED and that goes
     * on to post anything writes it again first, so that whoever has read it knows that it is out of date. One line a
     * context: with several threads that block at a time it is the host that says for whom. Errors: -EINVAL state.
     */
    int (*note)(struct nigh_context *context, const struct nigh_note *note);

    /*
     * Asks the peer to look, once more, at everything that has been sent to it, wherever it is in wait() or polls next;
     * *number is that of this nudge of the peer. Where a pass that began after it finds nothing, the peer's note says
     * BLOCKED and its host has taken all completions, `checked` of its line becomes `number` or more; where something
     * moves, `serial` changes. Its wait() returns -EINTR if nothing came. Costs the peer a few microseconds. Never
     * waits: a peer that is stopped or computes answers when it goes on, and one that waits for a connection which is
     * still being made, or whose sends wait for memory that other peers have yet to read, lets `checked` be.
     *
     * So of ranks that wait for each other without an end (`until_ns` is 0: a rank that goes on by the clock is in no
     * deadlock), the caller's own among them (through its endpoint to itself): read all their lines, then nudge each, then read all lines again until each says `checked` >= its number. If every serial
     * is still the same, nothing that was sent is unread, and nobody was free to send: they are in a deadlock. (Not so
     * if `checked` has only gone up: an earlier nudge may have been answered by a pass that had begun before.) Errors:
     * -EAGAIN CONNECTING; -ECONNRESET, -EPROTO by the endpoint's state.
     */
    int (*nudge)(struct nigh_endpoint *endpoint, uint64_t *number);

    /*
     * post_send() with NIGH_INJECT and NIGH_SILENT and an immediate of 0, of a message of shape NIGH_SHAPE(bytes,
     * class). Everything comes in registers: for hosts that send small messages close behind each other, where each
     * word that is stored between two of them costs 4 ns if the peer is far. For the same reason a host need not keep
     * anything across the call: if the message is refused, and `refused` is not NULL, refused() is called with all of
     * it and with `context`, of which nigh makes no other use: a message that was accepted and fails later, as its peer
     * is gone, completes with a context of 0. Errors, returned or given to refused(): those of post_send().
     */
    int (*inject)(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                  uint64_t context, nigh_refused_fn refused);

    /*
     * post_recv() without flags, from one peer, of at most the bytes of `shape`, its class and exactly this tag; the
     * completion carries `context`. refused() as above. Errors: those of post_recv(); -EINVAL NULL endpoint.
     */
    int (*expect)(struct nigh_endpoint *from, void *buffer, uint64_t shape, uint64_t tag, uint64_t context,
                  nigh_refused_fn refused);

    /*
     * inject() with an immediate, which arrives in the receiver's completion, for hosts that keep what they send
     * themselves: nobody is called, and what fails later has a context of 0, too. Errors: those of post_send().
     */
    int (*inject_imm)(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                      uint64_t imm);

    /*
     * post_send() without flags, of a message of shape NIGH_SHAPE(bytes, class), all of it in registers: for hosts that
     * tell of their sends, too. The completion carries `context`. Errors: those of post_send(); -EINVAL NULL endpoint.
     */
    int (*send_imm)(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                    uint64_t imm, uint64_t context);

    /*
     * post_recv() without flags, from one peer, of at most the bytes of `shape`, of its class and of tags that are
     * `tag` in all bits that `ignore` does not have, all of it in registers: expect() for hosts that use masks. Errors:
     * those of post_recv(); -EINVAL NULL endpoint.
     */
    int (*recv_imm)(struct nigh_endpoint *from, void *buffer, uint64_t shape, uint64_t tag, uint64_t ignore,
                    uint64_t context);

    /*
     * poll_completions() without its copy: up to `count` completions are the host's, as if polled, but lie in nigh's
     * memory, where they are good until the next call of any slot on this context or its endpoints: who has to call one
     * first copies what is left. Returns how many, of both kinds; fewer than `count` and than NIGH_TAKEN_FULL are all
     * that there are. Errors: -EINVAL count above INT32_MAX; -ENOTSUP (told to nobody: poll) the context may be used by
     * several threads, whose calls would end what one looks at.
     */
    int (*take_completions)(struct nigh_context *context, struct nigh_taken *out, uint32_t count);

    /*
     * cancel() of what has not begun alone: a receive that has met no message, an operation of which nothing has left. No
     * message is lost: for hosts whose receives either fail or bring their message, as MPI's do. Errors: -ENOENT as
     * cancel(), or the operation has begun and completes by itself.
     */
    int (*cancel_unmatched)(struct nigh_context *context, uint64_t op_context);

    /* How a group is, and why its calls fail. `out->size` as the host has it. Errors: -EINVAL size. */
    int (*query_group)(struct nigh_group *group, struct nigh_query_group *out);

    /*
     * Ends a group for all its members: its calls complete with status `error`, at the other members, too, unless all that
     * they need is there. Calls that were posted here have completed when this returns: their buffers are the host's. `text`
     * says why to query_group() of all members; it is copied, and cut after NIGH_GROUP_TEXT_BYTES - 1 bytes. Does nothing to a
     * group that has ended. The group stays until group_free(). Errors: -EINVAL `error` is not -1 to -255, or `text` is NULL.
     */
    int (*group_end)(struct nigh_group *group, int error, const char *text);

    /*
     * Copies `bytes` between `host`, memory of the host's, and `buffer`, which may be memory of a CUDA device: whose it is its
     * `region` says (NIGH_REGISTER_DEVICE), or for NULL the driver is asked. `way`: NIGH_COPY_IN to the buffer, NIGH_COPY_OUT from
     * it. For hosts that put together what lies in several places. What the host's copies have put there before is copied, or
     * copied over. Returns when all bytes are there; waits for the device, makes no progress. Errors: those of a post with
     * NIGH_DEVICE; -EIO also where the copy fails, which may then have been made in part; -EINVAL another `way`; -EFAULT NULL
     * with bytes.
     */
    int (*copy_device)(struct nigh_context *context, const struct nigh_region *region, void *buffer,
                       void *host, uint64_t bytes, uint32_t way);
};

typedef const struct nigh_ops *(*nigh_transport_fn)(uint32_t abi);

/* The one exported symbol. Returns the table, or NULL if `abi` is of another major. Any thread, any time. */
const struct nigh_ops *nigh_transport(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif
