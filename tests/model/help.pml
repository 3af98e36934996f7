/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two copy one message (plugin/help.c, docs/memory-model.md): R takes slices from the first on, S from the last. Each
 * stores its count, fences, and looks at the other's. R may end the message before its time; then, and when it is
 * whole, the buffer is the host's, and S may write to none of it. Then R offers a second one, with another number. A
 * write of S's may fail, then S puts the slice back. Stores wait in buffers and reach memory when they like, but for
 * those to one word, and a release store waits for the ones ahead of it.
 *
 * What is modelled of the labels of shm/shared.h: HELP_TAKE, HELP_CLAIM, HELP_DONE, HELP_SEE, RING_PUBLISH and
 * RING_PEEK (the slot that tells of the offer). Loads of one process are taken in program order. Mutations, each of
 * which must fail, are chosen by -D; tests/model/help_fails names them.
 */
#ifndef SLICES
#define SLICES 2
#endif

#define OFFERED 0 /* number * 16 + count */
#define HELPED  1 /* number * 16 + claimed * 4 + written */
#define SLOT    2 /* the number of the last offer that S was told of */
#define DATA    3 /* a slice each: 0, or the number of the message that it was written for */
#define WORDS   (DATA + SLICES)

#define WORD(number, count) ((number)*16 + (count))
#define HELP(number, claimed, written) WORD(number, (claimed)*4 + (written))
#define CLAIMED(word, number) ((word) / 16 == (number) -> (word) % 16 / 4 : 0)
#define WRITTEN(word, number) ((word) / 16 == (number) -> (word) % 4 : 0)

byte memory[WORDS];
byte host;    /* the number of the offer whose buffer is the host's again */
byte copied[SLICES]; /* how often, by whom ever, in full */
chan buffer_r = [4] of { byte, byte, bool }; /* word, value, release */
chan buffer_s = [6] of { byte, byte, bool };

#ifdef NO_RELEASE
#define RELEASE false
#else
#define RELEASE true
#endif
#ifdef PUT_BACK_RELAXED
#define PUT_BACK false
#else
#define PUT_BACK RELEASE
#endif

/* A store of S's to a slice reaches it: not when the buffer is the host's again. */
inline land(w, v)
{
    assert(w < DATA || v > host);
    memory[w] = v
}

inline drain_one(buffer, w, v)
{
    buffer ? w, v, _ -> land(w, v); w = 0; v = 0
}

inline drain(buffer, w, v)
{
    do
    :: nempty(buffer) -> drain_one(buffer, w, v)
    :: empty(buffer) -> break
    od
}

#define OVERTAKES(buffer, word) \
    :: d_step { buffer ?? [eval(word), v, false] -> buffer ?? eval(word), v, false; land(word, v); v = 0 }

active proctype hardware()
{
    byte w, v;

end:
    do
    :: d_step { nempty(buffer_r) -> drain_one(buffer_r, w, v) }
    :: d_step { nempty(buffer_s) -> drain_one(buffer_s, w, v) }
    OVERTAKES(buffer_r, OFFERED)
    OVERTAKES(buffer_s, HELPED)
    OVERTAKES(buffer_s, DATA)
    OVERTAKES(buffer_s, DATA + 1)
#if SLICES > 2
    OVERTAKES(buffer_s, DATA + 2)
#endif
    od
}

/* ---- R ---- */

inline fence_r()
{
#ifndef NO_TAKE_FENCE
    d_step { drain(buffer_r, w, v) }
#else
    skip
#endif
}

inline take()
{
    buffer_r ! OFFERED, WORD(number, got + 1), false;
    fence_r();
    if
    :: CLAIMED(memory[HELPED], number) <= SLICES - got - 1 ->
        atomic { copied[got]++; got++ }
    :: else ->
        buffer_r ! OFFERED, WORD(number, got), false
    fi
}

/* Both counts are loaded apart. */
inline is_written()
{
    seen = CLAIMED(memory[HELPED], number);
#ifndef NO_WAIT
    writes = (got < SLICES && seen != WRITTEN(memory[HELPED], number));
#endif
    seen = 0
}

inline give_back(whole)
{
    d_step {
        i = 0;
        do
        :: i < SLICES ->
            /* What S says that it has written is there, and is nobody else's. */
            assert(!whole || copied[i] == 1);
            assert(!whole || i < got || memory[DATA + i] == number);
            copied[i] = 0;
            i++
        :: else -> break
        od;
        i = 0;
        host = number
    }
}

active proctype receiver()
{
    byte w, v, number, got, seen, i;
    bool writes, withdrawn;

    for (number : 1 .. 2) {
        d_step { got = 0; withdrawn = false; writes = false };
        buffer_r ! OFFERED, WORD(number, 0), false;
        buffer_r ! SLOT, number, true; /* RING_PUBLISH */
        do
        :: !withdrawn && got < SLICES -> take()
        :: !withdrawn && got + WRITTEN(memory[HELPED], number) == SLICES ->
            give_back(true); /* what is offered says that nothing is left */
            break
        :: !withdrawn && got < SLICES ->
            buffer_r ! OFFERED, 0, false; /* nigh_help_withdraw() */
#ifndef NO_WITHDRAW_FENCE
            fence_r();
#endif
            withdrawn = true
        :: withdrawn ->
            is_written();
            if
            :: !writes -> give_back(false); break
            :: writes && CLAIMED(memory[HELPED], number) == WRITTEN(memory[HELPED], number) -> writes = false
            fi
        od
    }
}

/* ---- S ---- */

inline fence_s()
{
#ifndef NO_CLAIM_FENCE
    d_step { drain(buffer_s, w, v) }
#else
    skip
#endif
}

active proctype sender()
{
    byte w, v, number, taken, word;

end:
    do
    :: memory[SLOT] > number ->
        d_step { number = memory[SLOT]; taken = 0 }
    :: number && taken < SLICES ->
        buffer_s ! HELPED, HELP(number, taken + 1, taken), RELEASE;
        fence_s();
        word = memory[OFFERED];
        if
#ifdef NO_NUMBER
        :: word % 16 < SLICES - taken && word ->
#else
        :: word / 16 == number && word % 16 < SLICES - taken ->
#endif
            buffer_s ! DATA + SLICES - taken - 1, number, false;
            if
            :: atomic { copied[SLICES - taken - 1]++; taken++ };
                buffer_s ! HELPED, HELP(number, taken, taken), RELEASE /* HELP_DONE */
            :: buffer_s ! HELPED, HELP(number, taken, taken), PUT_BACK; /* it has failed: some of it may be written */
                taken = SLICES
            fi
        :: else ->
            buffer_s ! HELPED, HELP(number, taken, taken), RELEASE;
            taken = SLICES /* not until it is asked again */
        fi;
        word = 0
    od
}
