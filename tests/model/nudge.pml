/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks that look for a deadlock while messages are under way (docs/memory-model.md, "What two readings prove").
 * Each sends and receives in turn, the other one the other way round, so nobody is ever stuck, unless DEADLOCK leaves
 * out the last send. Whoever waits shows it in its line, and may look at any moment: reads both lines, nudges both
 * ranks, reads again, or gives up in between. A pass over the ring is several steps, as are two loads.
 *
 * Memory is sequentially consistent here: who sees what of a line is the labels' matter, and that of sleep.pml.
 * Asserted is that whoever calls it a deadlock is right. Mutations, each of which must fail, are chosen by -D;
 * tests/model/nudge_fails names them.
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef LOOKS
#define LOOKS 2 /* of each rank */
#endif

byte sent[2], taken[2];     /* messages to a rank: published in its ring, read from there */
byte serial[2];             /* of its line: goes up when that is written */
bool blocked[2];            /* what its line says */
byte nudges[2], checked[2]; /* asked for, answered */
bool waits[2];              /* what is true: it is in a receive and has not got its message */
bool found;                 /* somebody was told of a deadlock */

#define STUCK (waits[0] && waits[1] && sent[0] == taken[0] && sent[1] == taken[1])

inline write_line(says)
{
    d_step { blocked[me] = says; serial[me]++ }
}

/*
 * One pass of the plugin: a message found completes the receive. Of a nudge that it sees at its beginning it tells,
 * when it has found nothing; what the pass for the nudge alone has found it shows in the line.
 */
inline pass()
{
#ifdef SEE_LATE
    more = sent[me] > taken[me];
    now = nudges[me];
#else
    now = nudges[me]; /* NUDGE_SEE */
    more = sent[me] > taken[me];
#endif
    if
    :: more ->
        atomic {
            taken[me]++;
            waits[me] = false;
            done = true;
            if
            :: now != seen -> serial[me]++
            :: true
            fi
        }
    :: !more && now != seen && blocked[me] -> checked[me] = now
    :: else
    fi;
    atomic { seen = now; now = 0; more = false }
}

/* What the host does behind each pass: its line must not stand when what it names has come. */
inline refresh()
{
#ifndef LINE_LATE
    if
    :: done && blocked[me] -> write_line(false)
    :: else
    fi
#else
    skip
#endif
}

/* Has it answered this nudge, its line being what it was? */
inline ask(who, number, was, yes)
{
#ifdef ANY_ANSWER
    yes = checked[who] != number;
#else
    yes = checked[who] >= number;
#endif
#ifndef NO_SECOND_READING
    yes = yes && serial[who] == was;
#endif
}

inline look()
{
    looks++;
    atomic { mine = serial[me]; both = blocked[me]; my_number = checked[me] }
    atomic { theirs = serial[1 - me]; both = both && blocked[1 - me]; number = checked[1 - me] }
    if
    :: !both
    :: both ->
#ifdef NO_NUDGE
        both = serial[me] == mine && serial[1 - me] == theirs; /* two equal readings */
        if
        :: both -> found = true; assert(STUCK)
        :: else
        fi
#else
#ifdef ANY_ANSWER
        nudges[1 - me]++;
        nudges[me]++;
#else
        atomic { nudges[1 - me]++; number = nudges[1 - me] }
        atomic { nudges[me]++; my_number = nudges[me] }
#endif
        do
        :: break /* no answer in time */
        :: pass();
#ifndef NO_REFRESH
           refresh();
           if
           :: done -> break
           :: else
           fi
#endif
        :: ask(1 - me, number, theirs, both);
           if
           :: both ->
#ifndef NOT_ITSELF
               ask(me, my_number, mine, both);
#endif
               if
               :: both -> found = true; assert(STUCK); break
               :: else
               fi
           :: else
           fi
        od
#endif
    fi;
    atomic { mine = 0; theirs = 0; number = 0; my_number = 0; both = false }
}

inline receive()
{
    d_step { done = false; waits[me] = true }
    pass();
    if
    :: done
    :: else ->
        write_line(true);
        do
        :: done -> break
        :: !done -> pass(); refresh()
        :: !done && looks < LOOKS -> look()
        od;
#ifndef LINE_LATE
        if
        :: blocked[me] -> write_line(false)
        :: else
        fi
#endif
    fi
}

inline send()
{
    if
#ifdef DEADLOCK
    :: round == ROUNDS - 1 && me == 0
#endif
    :: else ->
        sent[1 - me]++;
#ifdef LINE_LATE
        pass();
        if
        :: blocked[me] -> write_line(false)
        :: else
        fi
#endif
    fi
}

proctype rank(byte me)
{
    byte round, looks, now, seen, mine, theirs, number, my_number;
    bool more, done, both;

end:
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        if
        :: me == 0 -> send(); receive()
        :: else -> receive(); send()
        fi;
        round++
    od
}

init
{
    atomic { run rank(0); run rank(1) }
}

#ifdef DEADLOCK
/* It is found: to be violated. */
active proctype never_found()
{
    found -> assert(false)
}
#endif
