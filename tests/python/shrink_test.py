# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, and those that are left, which go on. No launcher looks after them."""
import signal
import sys
import unittest

import processes

SUMS = """
import os, signal, sys
import echelon, numpy
echelon.init()
me, step, sums = echelon.rank(), 0, []
part = echelon.add_process_set(range(echelon.size()))
while step < 6:
    if step == 3 and me in {dead}:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        total = echelon.allreduce(numpy.full(3, 10.0 ** step), echelon.Sum, process_set={members})
        sums.append(total[0])
        step += 1
    except echelon.RankLostError:
        echelon.shrink()
        part = echelon.add_process_set(range(echelon.size()))
        done = int(echelon.allreduce(numpy.array([step]), echelon.Min)[0])
        step, sums = done, sums[:done]
assert echelon.broadcast_object(me) == min(set(range(4)) - {dead})
sys.stdout.write(f"{{echelon.rank()}} {{echelon.size()}} {{[float(s) for s in sums]}}\\n")
"""
SUMS_OF = [4.0, 40.0, 400.0]
PART = """
import os, signal, sys
import echelon, numpy
echelon.init()
me, part = echelon.rank(), echelon.split(0)
echelon.barrier(process_set=part)
echelon.barrier()
if me == 1:
    part.abort()
    part.close()
else:
    try:
        echelon.barrier(process_set=part)
    except echelon.AbortedError:
        part, old = part.shrink(), part
        assert not old.included()
    total = echelon.allreduce(numpy.ones(1), echelon.Sum, process_set=part)[0]
    sys.stdout.write(f"{part.rank()} {part.size()} {total}\\n")
echelon.barrier()  # of that nobody is lost
"""


PENDING = """
import os, signal, sys, time
import echelon, numpy
echelon.init()
echelon.barrier()
if echelon.rank() == 3:
    time.sleep(1)  # the others have begun
    os.kill(os.getpid(), signal.SIGKILL)
handles = [echelon.allreduce_async(numpy.ones(3)) for _ in range(2)]
said = []
try:
    handles[0].wait()
except echelon.RankLostError as error:
    said.append(type(error).__name__)
    echelon.shrink()
try:
    handles[1].wait()
except echelon.RankLostError as error:
    said.append(type(error).__name__)
sys.stdout.write(f"{said}\\n")
"""


def four(script):
    """Four ranks. (exit code, output, errors) of each."""
    return processes.run_all([sys.executable, "-c", script], processes.torchrun_variables(4), 240)


class Shrink(unittest.TestCase):
    def check(self, dead, members="None"):
        ranks, left = four(SUMS.format(dead=dead, members=members)), 4 - len(dead)
        # The last that the dead had ended may have to be done again, if the others had not; by all.
        once_more = any(f" {left * 100.0}, " in said for _, said, _ in ranks)
        sums = SUMS_OF[:2] + [left * 100.0 if once_more else SUMS_OF[2]]
        sums += [left * 10.0 ** step for step in (3, 4, 5)]
        number = 0
        for r, (code, said, errors) in enumerate(ranks):
            if r in dead:
                self.assertEqual(code, -signal.SIGKILL)
                continue
            self.assertEqual((code, said), (0, f"{number} {left} {sums}\n"), errors)
            number += 1

    def test_a_rank(self):
        self.check({2})

    def test_rank_0(self):
        self.check({0})

    def test_two(self):
        self.check({0, 3})

    def test_in_a_process_set(self):
        self.check({1}, "part")

    def test_what_is_pending(self):
        for code, said, errors in four(PENDING)[:3]:
            self.assertEqual((code, said), (0, "['PeerError', 'AbortedError']\n"), errors)

    def test_of_a_part(self):
        """Of those that a set has; a rank that ends it instead is not waited for."""
        ranks = four(PART)
        self.assertEqual([said for _, said, _ in ranks], ["0 3 3.0\n", "", "1 3 3.0\n", "2 3 3.0\n"],
                         ranks)
        self.assertEqual([code for code, _, _ in ranks], [0] * 4, ranks)


if __name__ == "__main__":
    processes.main()
