/* SPDX-License-Identifier: Apache-2.0
 * How survivors come together (docs/bootstrap.md), as a model for spin:
 *   spin -run -safety shrink.pml
 * looks at every order of events: all that live and came in time end in one group, which knows
 * exactly its members; who was left out is told and is in no group; nobody is stuck.
 *
 * What is left out: payloads, the proofs, and time. A rank that comes late may be given up at any
 * moment before it comes; whom a leader gives up has not come. A call to a dead rank is refused.
 */
#define N 3            /* ranks */
#define DEATHS 2       /* that may happen, at any moment */
#define LATE 1         /* ranks that may be given up */

#define only(r) (1 << (r))

bool dead[N], came[N];
bool lost[N];          /* the notice lies in its kernel: the others have gone on */
bool passed[N];        /* a leader has decided without it */
bool out[N];           /* it has read the notice */
byte leader[N];        /* whom it follows, or itself */
byte here[N];          /* bits: who follows it, as far as it knows */
byte news[N];          /* bits: the members, as its leader has announced them; 0: nothing yet */
byte told[N];          /* bits: the members that a leader has announced and waits for */
byte heard[N];         /* bits: those of them that have answered */
byte group[N];         /* bits: the result; 0 while it looks for the others */
byte deaths = 0, lates = 0, restarts = 0;

#define looks(r) (came[r] && !dead[r] && !out[r] && group[r] == 0 && told[r] == 0)
#define leads(r) (looks(r) && leader[r] == r)
/* Nobody need be waited for: it follows, or is dead, or was left out before. */
#define settled(r, q) ((here[r] & only(q)) || dead[q] || lost[q] || q == r)
#define gone_from(q, r) (dead[q] || out[q] || leader[q] != r)
#define missing(r, q) (q != r && (told[r] & ~heard[r] & only(q)) && gone_from(q, r))
#define broken(r) (group[r] != 0 && ((group[r] & only(0) && dead[0]) || (group[r] & only(1) && dead[1]) || (group[r] & only(2) && dead[2])))

inline start_over(r) {
  leader[r] = r; here[r] = 0; news[r] = 0; told[r] = 0; heard[r] = 0; group[r] = 0
}

/* Who has left it since does not hear it. */
inline announce(r, members) {
  told[r] = members; heard[r] = only(r);
  for (q : 0 .. N - 1) {
    if :: q != r && (told[r] & only(q)) && leader[q] == r -> news[q] = told[r] :: else fi;
    if :: lost[q] && !(told[r] & only(q)) -> passed[q] = true :: else fi
  }
}

inline follow(r, s) {
  here[s] = here[s] | only(r);
  leader[r] = s; here[r] = 0               /* its own find s by themselves */
}

proctype rank(byte r) {
  byte q;
  atomic { came[r] = true; start_over(r) }
end:
  do
  :: atomic { looks(r) && lost[r] -> out[r] = true; break }
  /* who follows leaves its leader only for a lower one */
  :: atomic { looks(r) && news[r] == 0 && 0 < leader[r] && leads(0) && !passed[r] -> follow(r, 0) }
  :: atomic { looks(r) && news[r] == 0 && 1 < leader[r] && leads(1) && !passed[r] -> follow(r, 1) }
  /* or when that is lost, or has let it go */
  :: atomic { looks(r) && leader[r] != r && news[r] == 0 && (dead[leader[r]] || out[leader[r]] || !(here[leader[r]] & only(r))) -> leader[r] = r }
  /* a leader that sees a connection end, or decides */
  :: atomic { leads(r) && (here[r] & only(1)) && gone_from(1, r) -> here[r] = here[r] & ~only(1) }
  :: atomic { leads(r) && (here[r] & only(2)) && gone_from(2, r) -> here[r] = here[r] & ~only(2) }
  :: atomic { leads(r) && settled(r, 0) && settled(r, 1) &&
       !lost[r] &&                             /* it reads what lies at its door before */
       settled(r, 2) -> announce(r, here[r] | only(r)) }
  /* the members hear it and answer */
  :: atomic { looks(r) && news[r] != 0 && !dead[leader[r]] && told[leader[r]] == news[r] -> group[r] = news[r]; assert(!passed[r]); heard[leader[r]] = heard[leader[r]] | only(r) }
  :: atomic { looks(r) && news[r] != 0 && (dead[leader[r]] || told[leader[r]] != news[r]) && group[leader[r]] != news[r] -> start_over(r) }
  :: atomic { !dead[r] && told[r] != 0 && heard[r] == told[r] -> group[r] = told[r]; assert(!passed[r]); told[r] = 0 }
  /* a member is lost before it has: all try again */
  :: atomic { !dead[r] && told[r] != 0 && (missing(r, 1) || missing(r, 2)) -> start_over(r); restarts++ }
  /* the new communicator fails, and is shrunk in its turn */
  :: atomic { !dead[r] && broken(r) -> start_over(r); restarts++; assert(restarts <= N * (DEATHS + 1)) }
  :: atomic { !dead[r] && group[r] != 0 && told[leader[r]] == 0 && group[leader[r]] != group[r] && !dead[leader[r]] -> start_over(r) }
  :: dead[r] -> break
  od
}

proctype death(byte r) {
  if
  :: atomic { deaths < DEATHS -> deaths++; dead[r] = true }
  :: true
  fi
}

/* The others decide without one that has not come. The notice is there before they go on. */
proctype impatience() {
  byte r;
  if
  :: atomic { lates < LATE -> select(r : 0 .. N - 1);
       if :: !came[r] && !dead[r] -> lost[r] = true; lates++ :: else fi }
  :: true
  fi
}

init {
  byte r, living = 0;
  atomic {
    for (r : 0 .. N - 1) { leader[r] = r }
    run rank(0); run rank(1); run rank(2);
    run death(0); run death(1); run death(2); run impatience()
  }
  timeout;                                     /* nothing more can happen */
  for (r : 0 .. N - 1) {
    if :: !dead[r] && !out[r] -> living = living | only(r) :: else fi
  }
  for (r : 0 .. N - 1) {
    assert(!out[r] || lost[r]);
    if
    :: dead[r]
    :: !dead[r] && out[r] -> assert(group[r] == 0)
    :: else -> assert(group[r] == living)
    fi
  }
}
