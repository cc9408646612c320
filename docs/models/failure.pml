/* SPDX-License-Identifier: Apache-2.0
 * How a failure spreads over the control connections (docs/errors.md), as a model for spin:
 *   spin -run -safety failure.pml
 * looks at every order of events: no assertion fails, and no rank is stuck before its end.
 *
 * A star: rank 0 in the middle, one connection to each other rank, each direction in order. Ranks
 * may die, abort, fall silent (stopped, or their host cut off), or fail because of what they heard.
 * What is left out: payloads, time (a time limit may pass whenever what it waits for is missing),
 * and what ranks of one host see of each other. Channels hold all that is ever sent.
 */
#define N 3            /* ranks */
#define FAULTS 2       /* that may happen */
#define NOBODY 255

mtype = { failure, complaint, answer, closed }

/* up[r]: from rank r to rank 0. down[r]: from rank 0 to rank r. `closed` is the end of a stream. */
chan up[N] = [4] of { mtype, byte };
chan down[N] = [4] of { mtype, byte };

bool dead[N], silent[N];
byte verdict[N] = NOBODY;  /* whom the rank has named; NOBODY: it has not failed */
bool at_fault[N];          /* died, aborted or fell silent: the truth */
byte faults = 0;
bool over[N];
byte complaints[N];        /* two per fault at most, so that going on for ever is being stuck */

#define survives(r) (!dead[r] && !silent[r])

inline tell_all(what, about) { down[1] ! what, about; down[2] ! what, about }

inline conclude(me, culprit) {
  if
  :: verdict[me] == NOBODY ->
     verdict[me] = culprit;
     assert(at_fault[culprit]);                /* nobody innocent is named */
     if
     :: me == 0 -> tell_all(failure, culprit)
     :: else -> up[me] ! failure, culprit
     fi
  :: else                                      /* the first failure wins */
  fi
}

inline hang_up(it) {
  if
  :: it == 0 -> tell_all(closed, 0)
  :: else -> up[it] ! closed, it
  fi
}

/* The faults. A rank that fell silent reads and writes nothing any more. */
proctype fate(byte r) {
  do
  :: atomic { faults < FAULTS && survives(r) && verdict[r] == NOBODY ->
       faults++; at_fault[r] = true; complaints[1] = 0; complaints[2] = 0;
       if
       :: dead[r] = true; hang_up(r); break
       :: silent[r] = true; break
       :: conclude(r, r); break                /* an abort */
       fi }
  :: break
  od
}

/* The service thread of a rank other than 0, and its caller that waits for others in vain. */
proctype member(byte r) {
  byte who;
  bool owed = false;                           /* rank 0 owes an answer */
  do
  :: atomic { survives(r) && nempty(down[r]) && down[r] ?? [failure, who] -> down[r] ?? failure, who; conclude(r, who) }
  :: atomic { survives(r) && down[r] ? [closed, who] -> down[r] ? closed, who;
       if :: verdict[r] == NOBODY -> conclude(r, 0) :: else fi }
  :: atomic { survives(r) && down[r] ? [answer, who] -> down[r] ? answer, who; owed = false }
  :: atomic { survives(r) && verdict[r] == NOBODY && faults > 0 && !owed && complaints[r] < 2 -> owed = true; complaints[r]++; up[r] ! complaint, r }
  /* the limit has passed; when rank 0 lives it answers in time */
  :: atomic { survives(r) && verdict[r] == NOBODY && owed && silent[0] && empty(down[r]) -> conclude(r, 0) }
  :: survives(r) && verdict[r] != NOBODY -> break
  :: !survives(r) -> break
  :: atomic { faults == 0 && _nr_pr <= N + 1 -> break }  /* nothing has happened, nothing will */
  od;
  over[r] = true
}

/* Rank 0. */
proctype root() {
  byte from, who;
  do
  :: atomic { survives(0) && up[1] ? [failure, who] -> up[1] ? failure, who; conclude(0, who) }
  :: atomic { survives(0) && up[2] ? [failure, who] -> up[2] ? failure, who; conclude(0, who) }
  :: atomic { survives(0) && up[1] ? [closed, who] -> up[1] ? closed, who; if :: verdict[0] == NOBODY -> conclude(0, 1) :: else fi }
  :: atomic { survives(0) && up[2] ? [closed, who] -> up[2] ? closed, who; if :: verdict[0] == NOBODY -> conclude(0, 2) :: else fi }
  :: atomic { survives(0) && up[1] ? [complaint, who] -> up[1] ? complaint, who; down[1] ! answer, 0 }
  :: atomic { survives(0) && up[2] ? [complaint, who] -> up[2] ? complaint, who; down[2] ! answer, 0 }
  /* somebody complains, itself perhaps; who does not answer the question in time has failed */
  :: atomic { survives(0) && verdict[0] == NOBODY && silent[1] && empty(up[1]) -> conclude(0, 1) }
  :: atomic { survives(0) && verdict[0] == NOBODY && silent[2] && empty(up[2]) -> conclude(0, 2) }
  :: survives(0) && verdict[0] != NOBODY && empty(up[1]) && empty(up[2]) -> break
  :: !survives(0) -> break
  :: atomic { faults == 0 && _nr_pr <= N + 1 -> break }
  od;
  over[0] = true
}

init {
  atomic {
    run root(); run member(1); run member(2);
    run fate(0); run fate(1); run fate(2)
  }
  (over[0] && over[1] && over[2]);
  byte r;
  bool happened = faults > 0;
  for (r : 0 .. N - 1) {
    /* every survivor has ended, and only when something had happened */
    assert(!survives(r) || (verdict[r] != NOBODY) == happened)
  }
  /* one fault: all survivors name the same rank */
  if
  :: faults == 1 && survives(1) && survives(2) -> assert(verdict[1] == verdict[2])
  :: else
  fi
}
