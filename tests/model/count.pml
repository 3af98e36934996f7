/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message that a count fills, and its answer in the same shuttle (docs/memory-model.md). A copies STEPS steps,
 * publishes a slot behind the first and counts on behind each other one, then sends something else, or not. B takes
 * what the count says, sleeps where nothing has come, and when it has all answers in the same way through the same
 * words. A may be killed at any step. Stores wait in buffers as in sleep.pml: a release store does not reach memory
 * before the ones ahead of it, any other one when it likes. No time-outs: a lost wake-up is a state from which nothing
 * goes on.
 *
 * What is modelled of the labels of shm/shared.h: COUNT_SET, COUNT_GET, RING_PUBLISH, RING_PEEK, SLEEP_ENTER,
 * SLEEP_CHECK (light), BELL_RING, BELL_READ, FLAG_RAISE, FLAG_SEE. Loads of one process are taken in program order.
 * Mutations, each of which must fail, are chosen by -D; tests/model/count_fails names them.
 */
#ifndef STEPS
#define STEPS 3
#endif

#define DATA     0 /* 0 to 2: what a step carries */
#define COUNT    3
#define SLOT_A   4 /* how many slots A has published; each is a word of its own, and so is this as long as it only grows */
#define SLOT_B   5
#define ASLEEP_A 6
#define ASLEEP_B 7
#define WORDS    8

#define BASE_A 10 /* the first step of A's message */
#define BASE_B 20

byte memory[WORDS];
byte bell_a, bell_b; /* futex words: read-modify-write only, so in no buffer */
bool dead, flag, ended_a, published; /* published: A's first slot */
byte said;                           /* how many steps A has counted, of those that are published */
chan buffer_a = [6] of { byte, byte, bool }; /* word, value, release */
chan buffer_b = [6] of { byte, byte, bool };

#ifdef NO_RELEASE
#define RELEASE false
#else
#define RELEASE true
#endif

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

/* Stores that are no release leave a buffer out of their turn, but for those to the same word. */
#define OVERTAKES(buffer, word) \
    :: d_step { buffer ?? [eval(word), v, false] -> buffer ?? eval(word), v, false; memory[word] = v; v = 0 }

active proctype hardware()
{
    byte w, v;

end:
    do
    :: d_step { nempty(buffer_a) -> drain_one(buffer_a, w, v) }
    :: d_step { nempty(buffer_b) -> drain_one(buffer_b, w, v) }
    OVERTAKES(buffer_a, DATA)
    OVERTAKES(buffer_a, DATA + 1)
    OVERTAKES(buffer_a, DATA + 2)
    OVERTAKES(buffer_a, COUNT)
    OVERTAKES(buffer_b, DATA)
    OVERTAKES(buffer_b, DATA + 1)
    OVERTAKES(buffer_b, DATA + 2)
    OVERTAKES(buffer_b, COUNT)
    OVERTAKES(buffer_a, ASLEEP_A)
    OVERTAKES(buffer_b, ASLEEP_B)
    od
}

/* SLEEP_CHECK, the light one: nothing between the store and the look. */
inline wake(buffer, asleep, bell)
{
    if
    :: memory[asleep] -> d_step { drain(buffer, w, v); bell++ }
    :: else
    fi
}

inline copy_step(buffer, base)
{
    buffer ! DATA + i, base + i, false
}

inline send(buffer, base, slot, asleep, bell)
{
    i = 0;
    copy_step(buffer, base);
#ifndef COUNT_LATE
    buffer ! COUNT, 1, false; /* relaxed: RING_PUBLISH is behind it */
#endif
    atomic { buffer ! slot, 1, true; published = true; if :: said == 0 -> said = 1 :: else fi } /* RING_PUBLISH */
#ifdef COUNT_LATE
    buffer ! COUNT, 1, true;
#endif
    wake(buffer, asleep, bell);
    for (i : 1 .. STEPS - 1) {
        copy_step(buffer, base);
#ifdef SLOT_EARLY
        if
        :: i == STEPS - 1 -> buffer ! slot, 2, true
        :: else
        fi;
#endif
        atomic { buffer ! COUNT, i + 1, RELEASE; if :: base == BASE_A -> said = i + 1 :: else fi } /* COUNT_SET */
    }
    i = 0;
#ifndef NO_LAST_CHECK
    wake(buffer, asleep, bell);
#endif
    if
    :: buffer ! slot, 2, true; wake(buffer, asleep, bell)
    :: true
    fi
}

/* All that the count says is there, which can be all, no less than there was, and all where a slot is behind it. */
inline look(base, slot)
{
#ifdef COUNT_FIRST
    upto = memory[COUNT];
#endif
    head = memory[slot]; /* RING_PEEK */
    if
    :: head == 0
    :: head > 0 ->
#ifndef COUNT_FIRST
        upto = memory[COUNT]; /* COUNT_GET */
#endif
        assert(upto >= got && upto > 0 && upto <= STEPS);
        assert(head == 1 || upto == STEPS);
        do
        :: got == upto -> break
        :: got < upto -> atomic { assert(memory[DATA + got] == base + got); got++ }
        od
    fi;
    atomic { head = 0; upto = 0 }
}

#ifndef SLOT_ONLY
#define MORE(slot) (memory[slot] > 0 && memory[COUNT] != got)
#else
#define MORE(slot) (memory[slot] > (got > 0))
#endif

inline receive(base, slot, own, others, asleep, bell)
{
    do
    :: got == STEPS -> break
    :: got < STEPS ->
        look(base, slot);
        if
        :: got == STEPS
        :: got < STEPS && (flag || MORE(slot)) ->
            /* FLAG_SEE: dead. What it had said is read first. */
            if
            :: flag -> look(base, slot); break
            :: !flag
            fi
        :: got < STEPS && !flag && !MORE(slot) ->
            seen = bell; /* BELL_READ */
            own ! asleep, 1, false;
            d_step { drain(own, w, v) }; /* SLEEP_ENTER: its own fence, and everybody's */
#ifndef NO_MEMBARRIER
            d_step { drain(others, w, v) };
#endif
            if
            :: MORE(slot) || flag
            :: !MORE(slot) && !flag -> bell != seen
            fi;
            own ! asleep, 0, false
        fi
    od;
    seen = 0
}

active proctype a()
{
    byte w, v, i, got, upto, head, seen;

    {
        send(buffer_a, BASE_A, SLOT_A, ASLEEP_B, bell_b);
        receive(BASE_B, SLOT_B, buffer_a, buffer_b, ASLEEP_A, bell_a);
        ended_a = true
    } unless { dead };
end_a:
    skip
}

active proctype killer()
{
    if
    :: true
#ifndef NO_DEATH
    :: atomic { !ended_a -> dead = true }
#endif
    fi
}

/* B's service thread: the kernel tells it of a death, after what the dead had stored reached memory. */
active proctype service()
{
    byte w, v;

end:
    atomic { dead -> drain(buffer_a, w, v) };
    flag = true; /* FLAG_RAISE: read-modify-write, and a full fence */
    if
    :: memory[ASLEEP_B] -> bell_b++
    :: else
    fi
}

active proctype b()
{
    byte w, v, i, got, upto, head, seen;

    receive(BASE_A, SLOT_A, buffer_b, buffer_a, ASLEEP_B, bell_b);
    /* Whatever the dead had said has been read. */
    assert(got == STEPS || (dead && got == (published -> said : 0)));
    if
    :: got == STEPS -> send(buffer_b, BASE_B, SLOT_B, ASLEEP_A, bell_a)
    :: else
    fi
}
