/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message in trips of a shuttle (docs/memory-model.md). A writes two lines, publishes a slot, and writes the same lines for the
 * next trip when a GRANT has come; B reads them and grants, and behind the last one the shuttle is B's, who answers in it. Stores wait
 * in buffers as in sleep.pml: a release store does not reach memory before the ones ahead of it, any other one when it likes.
 * How either side sleeps until the other's slot is there is sleep.pml's matter.
 *
 * What is modelled of the labels of shm/shared.h: RING_PUBLISH, RING_PEEK. Loads of one process are taken in program order.
 * Mutations, each of which must fail, are chosen by -D; tests/model/trips_fails names them.
 */
#ifndef TRIPS
#define TRIPS 3
#endif

#define DATA   0 /* two lines */
#define SLOT_A 2 /* how many slots A has published: FIRST and PIECEs */
#define SLOT_B 3 /* and B: GRANTs, and the answer's */
#define WORDS  4

#define BASE_B 100 /* what the answer says */

byte memory[WORDS];
chan buffer_a = [6] of { byte, byte, bool }; /* word, value, release */
chan buffer_b = [6] of { byte, byte, bool };

#ifdef NO_RELEASE
#define RELEASE false
#else
#define RELEASE true
#endif

/* Stores that are no release leave a buffer out of their turn, but for those to the same word. */
#define OVERTAKES(buffer, word) \
    :: d_step { buffer ?? [eval(word), v, false] -> buffer ?? eval(word), v, false; memory[word] = v; v = 0 }

active proctype hardware()
{
    byte w, v;

end:
    do
    :: d_step { nempty(buffer_a) -> buffer_a ? w, v, _; memory[w] = v; w = 0; v = 0 }
    :: d_step { nempty(buffer_b) -> buffer_b ? w, v, _; memory[w] = v; w = 0; v = 0 }
    OVERTAKES(buffer_a, DATA)
    OVERTAKES(buffer_a, DATA + 1)
    OVERTAKES(buffer_b, DATA)
    OVERTAKES(buffer_b, DATA + 1)
#ifdef NO_RELEASE
    OVERTAKES(buffer_a, SLOT_A)
#endif
    od
}

inline write(buffer, value)
{
    buffer ! DATA, value, false;
    buffer ! DATA + 1, value, false
}

inline read(value)
{
    assert(memory[DATA] == value);
    assert(memory[DATA + 1] == value)
}

active proctype a()
{
    byte i;

    for (i : 1 .. TRIPS) {
#ifndef NO_GRANT
        memory[SLOT_B] >= i - 1; /* RING_PEEK: the GRANT for the last trip */
#endif
        write(buffer_a, i);
        buffer_a ! SLOT_A, i, RELEASE /* RING_PUBLISH */
    }
    memory[SLOT_B] == TRIPS;
    read(BASE_B)
}

active proctype b()
{
    byte i;

    for (i : 1 .. TRIPS) {
        memory[SLOT_A] >= i; /* RING_PEEK */
#ifdef GRANT_EARLY
        if
        :: i < TRIPS -> buffer_b ! SLOT_B, i, true
        :: else
        fi;
#endif
#ifdef ANSWER_EARLY
        if
        :: i == TRIPS - 1 -> write(buffer_b, BASE_B)
        :: else
        fi;
#endif
        read(i);
#ifndef GRANT_EARLY
        if
        :: i < TRIPS -> buffer_b ! SLOT_B, i, true /* GRANT */
        :: else
        fi
#endif
    }
    write(buffer_b, BASE_B);
    buffer_b ! SLOT_B, TRIPS, true
}
