# SPDX-License-Identifier: Apache-2.0
"""Failures and signals, on 2 ranks, each in a process set of its own, which it ends."""
import contextlib
import os
import signal
import threading
import time
import unittest

import rank_suite
import echelon
import numpy as np


class WithPart(unittest.TestCase):
    def setUp(self):
        self.rank = echelon.rank()
        self.part = echelon.split(0)

    def tearDown(self):
        # What has ended it, a rank may hear only now.
        with contextlib.suppress(echelon.EchelonError):
            self.part.close()


class Failures(WithPart):
    def test_ranks_that_differ(self):
        count = 100 if self.rank == 0 else 200
        with self.assertRaisesRegex(echelon.MismatchError, "count 100") as caught:
            echelon.allreduce(np.zeros(count), process_set=self.part)
        self.assertEqual(caught.exception.status, -20)
        with self.assertRaises(echelon.MismatchError):  # from now on
            echelon.barrier(process_set=self.part)

    def test_a_rank_that_does_not_come(self):
        if self.rank == 0:
            begin = time.monotonic()
            with self.assertRaises(TimeoutError) as caught:
                echelon.allreduce(np.zeros(10), process_set=self.part, timeout=0.5)
            self.assertIsInstance(caught.exception, echelon.TimeoutError)
            self.assertGreater(time.monotonic() - begin, 0.4)
        echelon.barrier()

    def test_abort(self):
        if self.rank == 1:
            self.part.abort()
        with self.assertRaisesRegex(echelon.AbortedError, "rank 1"):
            echelon.barrier(process_set=self.part)


class Signals(WithPart):
    def after(self, seconds, number):
        timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
        timer.start()
        self.addCleanup(timer.join)

    def test_interrupt_while_waiting(self):
        if self.rank == 0:
            self.after(1, signal.SIGINT)
            begin, used = time.monotonic(), time.process_time()
            with self.assertRaises(KeyboardInterrupt):
                echelon.allreduce(np.zeros(10), process_set=self.part)
            waited, used = time.monotonic() - begin, time.process_time() - used
            self.assertLess(waited, 20)
            self.assertLess(used, 0.6 * waited)  # no burnt core
            echelon.barrier()
        else:
            echelon.barrier()  # only now it looks at the other set, which is aborted
            with self.assertRaisesRegex(echelon.AbortedError, "rank 0"):
                for _ in range(2):  # what rank 0 had given to the first may be enough for that
                    echelon.allreduce(np.zeros(10), process_set=self.part)

    def test_handler_that_returns(self):
        seen = []
        before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.monotonic()))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        if self.rank == 0:
            self.after(0.5, signal.SIGUSR1)
        else:
            time.sleep(2)
        total = echelon.allreduce(np.ones(3), echelon.Sum, process_set=self.part)
        ended = time.monotonic()
        np.testing.assert_array_equal(total, [2.0] * 3)
        if self.rank == 0:
            self.assertEqual(len(seen), 1)
            self.assertLess(seen[0], ended - 0.5)  # while this rank was waiting


class Threads(unittest.TestCase):
    def test_wait_in_another_thread(self):
        got = []
        thread = threading.Thread(target=lambda: got.append(echelon.allreduce(np.ones(3))))
        thread.start()
        thread.join()
        np.testing.assert_array_equal(got[0], [1.0] * 3)


if __name__ == "__main__":
    rank_suite.main()
