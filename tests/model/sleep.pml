/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring, sleep and death of one pair (docs/memory-model.md). A producer sends COUNT messages through a ring of two
 * slots; either side sleeps when it has nothing to do; the producer may be killed at any step. Stores wait in a buffer
 * for each process and reach memory later, a release store not before the ones ahead of it, any other one in any order:
 * weaker than x86, as strong as the labels promise. No time-outs: a lost wake-up is a state from which nothing goes on.
 *
 * What is modelled of the labels of shm/shared.h: RING_PUBLISH, RING_PEEK, CREDIT_RETURN, CREDIT_TAKE, SLEEP_ENTER,
 * SLEEP_CHECK (light: nothing at all; FULL: a fence), BELL_RING, BELL_READ, FLAG_RAISE, FLAG_SEE, and with NOTIFIER
 * NOTIFY_ARM and NOTIFY_TAKE. Loads of one process
 * are taken in program order. Mutations, each of which must fail, are chosen by -D; tests/model/sleep_fails names them.
 */
#ifndef COUNT
#define COUNT 4
#endif
#define SLOTS 2
#define LAPS  4 /* laps are counted modulo this, as the ring counts them modulo 65536 */

#define DATA    0 /* 0, 1: what a slot carries */
#define LAP     2 /* 2, 3: its word 0 */
#define CREDIT  4
#define ASLEEP_P 5
#define ASLEEP_C 6
#define WORDS   7

byte memory[WORDS];
byte bell_p, bell_c; /* futex words: read-modify-write only, so in no buffer */
bool dead, killed_told, flag;
bool armed, readable; /* NOTIFIER: the consumer sleeps on a descriptor, which a thread of its own makes readable */
byte armed_seen;
chan buffer_p = [5] of { byte, byte, bool }; /* word, value, release */
chan buffer_c = [5] of { byte, byte, bool };
byte published, consumed;
bool ended_p;

#ifdef NO_RELEASE
#define RELEASE false
#else
#define RELEASE true
#endif

/* A buffer's oldest store reaches memory. */
inline drain_one(buffer, w, v)
{
    buffer ? w, v, _ -> memory[w] = v; w = 0; v = 0
}

inline drain(buffer, w, v)
{
    do
    :: nempty(buffer) -> drain_one(buffer, w, v)
    :: empty(buffer) -> break
    od
}

inline fence(buffer, w, v)
{
    d_step { drain(buffer, w, v) }
}

/* The sleeper's fence: its own, and through membarrier everybody's, at one moment of its call. */
inline sleep_enter(own, others, w, v)
{
#ifndef NO_OWN_FENCE
    fence(own, w, v);
#endif
#if !defined(FULL) && !defined(NO_MEMBARRIER)
    d_step { drain(others, w, v) }
#endif
    skip
}

inline sleep_check(own, w, v)
{
#ifdef FULL
    fence(own, w, v)
#else
    skip
#endif
}

inline ring_bell(own, bell, w, v)
{
    d_step { drain(own, w, v); bell++ }
}

/* Stores leave the buffers when they like. */
active proctype hardware()
{
    byte w, v;

end:
    do
    :: d_step { nempty(buffer_p) -> drain_one(buffer_p, w, v) }
    :: d_step { nempty(buffer_c) -> drain_one(buffer_c, w, v) }
    :: d_step { buffer_p ?? [eval(DATA), v, false] -> buffer_p ?? eval(DATA), v, false; memory[DATA] = v; v = 0 }
    :: d_step { buffer_p ?? [eval(DATA + 1), v, false] ->
                buffer_p ?? eval(DATA + 1), v, false; memory[DATA + 1] = v; v = 0 }
    :: d_step { buffer_p ?? [eval(LAP), v, false] -> buffer_p ?? eval(LAP), v, false; memory[LAP] = v; v = 0 }
    :: d_step { buffer_p ?? [eval(LAP + 1), v, false] ->
                buffer_p ?? eval(LAP + 1), v, false; memory[LAP + 1] = v; v = 0 }
    :: d_step { buffer_p ?? [eval(ASLEEP_P), v, false] ->
                buffer_p ?? eval(ASLEEP_P), v, false; memory[ASLEEP_P] = v; v = 0 }
    :: d_step { buffer_c ?? [eval(ASLEEP_C), v, false] ->
                buffer_c ?? eval(ASLEEP_C), v, false; memory[ASLEEP_C] = v; v = 0 }
    od
}

#define LAP_OF(seq) (((seq) / SLOTS + 1) % LAPS)

active proctype producer()
{
    byte w, v, next, seen;
    bool room;

    {
        do
        :: next == COUNT -> break
        :: next < COUNT ->
            /* CREDIT_TAKE */
            room = next - memory[CREDIT] < SLOTS;
            if
            :: room ->
                atomic { buffer_p ! DATA + next % SLOTS, next + 1, false; v = 0 }
                atomic { buffer_p ! LAP + next % SLOTS, LAP_OF(next), RELEASE; published++ } /* RING_PUBLISH */
                next++;
                sleep_check(buffer_p, w, v);
                if
                :: memory[ASLEEP_C] -> ring_bell(buffer_p, bell_c, w, v)
                :: else
                fi
            :: else ->
                seen = bell_p; /* BELL_READ */
                buffer_p ! ASLEEP_P, 1, false;
                sleep_enter(buffer_p, buffer_c, w, v);
                if
                :: next - memory[CREDIT] < SLOTS
                :: else -> bell_p != seen
                fi;
                buffer_p ! ASLEEP_P, 0, false
            fi
        od;
        ended_p = true
    } unless { dead };
end_p:
    skip
}

active proctype killer()
{
    if
    :: true
#ifndef NO_DEATH
    :: atomic { !ended_p -> dead = true }
#endif
    fi
}

/* The consumer's service thread: the kernel tells it of a death, after what the dead had stored reached memory. */
active proctype service()
{
    byte w, v;

end:
    atomic { dead -> drain(buffer_p, w, v) };
    flag = true; /* FLAG_RAISE: read-modify-write, and a full fence */
#ifndef NO_DEATH_BELL
    if
    :: memory[ASLEEP_C] -> bell_c++
    :: else
    fi;
#endif
    killed_told = true
}

#ifdef NOTIFIER
active proctype notifier()
{
    byte seen;

end:
    do
    :: armed -> /* NOTIFY_TAKE */
#ifdef NOTIFIER_READS
        seen = bell_c;
#else
        seen = armed_seen;
#endif
        bell_c != seen;
        atomic { armed = false; readable = true; seen = 0 }
    od
}
#endif

#define HERE (memory[LAP + consumed % SLOTS] == LAP_OF(consumed))

inline take()
{
#ifdef CREDIT_EARLY
    buffer_c ! CREDIT, consumed + 1, RELEASE;
    assert(memory[DATA + consumed % SLOTS] == consumed + 1);
    consumed++;
#else
    assert(memory[DATA + consumed % SLOTS] == consumed + 1);
    consumed++;
    buffer_c ! CREDIT, consumed, RELEASE; /* CREDIT_RETURN */
#endif
    sleep_check(buffer_c, w, v);
    if
    :: memory[ASLEEP_P] -> ring_bell(buffer_c, bell_p, w, v)
    :: else
    fi
}

active proctype consumer()
{
    byte w, v, seen;

    do
    :: consumed == COUNT -> break
    :: consumed < COUNT ->
        if
        :: HERE -> take() /* RING_PEEK */
        :: !HERE && flag -> /* FLAG_SEE: dead. What it had published is read first. */
            if
            :: HERE
            :: else -> break
            fi
        :: !HERE && !flag ->
#if defined(NOTIFIER) && !defined(CLEAR_LATE)
            readable = false;
#endif
#ifndef BELL_LATE
            seen = bell_c; /* BELL_READ */
#endif
            buffer_c ! ASLEEP_C, 1, false;
            sleep_enter(buffer_c, buffer_p, w, v);
            if
#ifndef NO_LAST_LOOK
            :: HERE || flag
            :: !HERE && !flag ->
#else
            :: true ->
#endif
#ifdef BELL_LATE
                seen = bell_c;
#endif
#ifdef NOTIFIER
                atomic { armed_seen = seen; armed = true }; /* NOTIFY_ARM */
#ifdef CLEAR_LATE
                readable = false;
#endif
                readable
#else
                bell_c != seen
#endif
            fi;
            buffer_c ! ASLEEP_C, 0, false
        fi
    od;
    /* Whatever the dead had published has been read. */
    assert(consumed == COUNT || (dead && consumed == published))
}
