# SPDX-License-Identifier: Apache-2.0
"""What belongs to a process group beside its operations, on 2 ranks."""
import os
import threading
import unittest
from datetime import timedelta
from unittest import mock

import torch_suite
import torch
import torch.distributed as dist
import echelon
from echelon.torch import _process_group


class Device(torch_suite.Ranks):
    def test_gpu_of_the_caller(self):
        """A group that begins with host memory is made for the GPU that is current in the thread of
        the caller; torch.cuda is made up."""
        caller, used = threading.get_ident(), []

        def current_device():
            return 1 if threading.get_ident() == caller else 0

        def meet_in(store, rank, size, timeout, device):
            used.append((threading.get_ident() == caller, device))
            return real(store, rank, size, timeout, torch.device("cpu"))

        real = _process_group.meet_in
        group, mine = dist.new_group(), torch.ones(2)
        with mock.patch.object(torch.cuda, "is_initialized", lambda: True), \
                mock.patch.object(torch.cuda, "current_device", current_device), \
                mock.patch.object(_process_group, "meet_in", meet_in):
            dist.all_reduce(mine, group=group)
        self.same(mine, [self.size] * 2)
        self.assertEqual(used, [(False, torch.device("cuda", 1))])
        dist.destroy_process_group(group)


class Timeout(torch_suite.Ranks):
    def test_of_a_group_that_has_connected(self):
        part = dist.new_group()
        dist.barrier(part)
        part.set_timeout(timedelta(seconds=0.5))
        if self.rank == 0:
            with self.assertRaisesRegex(echelon.TimeoutError, "0.5 s"):
                dist.barrier(part)
        dist.barrier()


class Receives(torch_suite.Ranks):
    def test_completed_from_any_rank(self):
        """is_completed() says so of a message that is in the tensor, and of one for each receive."""
        if self.rank == 1:
            dist.send(torch.tensor([5.0]), 0)
            dist.barrier()
            dist.send(torch.tensor([6.0]), 0)
        else:
            first, second = torch.zeros(1), torch.zeros(1)
            works = [dist.irecv(first), dist.irecv(second)]
            self.until(works[0].is_completed)
            self.same(first, [5.0])
            self.assertFalse(works[1].is_completed())
            dist.barrier()
            self.until(works[1].is_completed)
            self.same(second, [6.0])
            self.assertTrue(all(work.wait() and work.is_success() for work in works))
            self.assertEqual([work.source_rank() for work in works], [1, 1])

    def test_error(self):
        if self.rank == 1:
            dist.send(torch.zeros(3), 0, tag=1)
        else:
            work = dist.irecv(torch.zeros(2), 1, tag=1)
            self.until(work.is_completed)
            self.assertFalse(work.is_success())
            for _ in range(2):
                with self.assertRaisesRegex(echelon.MismatchError, "12 bytes came for a tensor of 8"):
                    work.wait()


class Optimizer(torch_suite.Ranks):
    def test_nothing_is_left_of_one_that_is_refused(self):
        before = len(os.listdir("/proc/self/task"))
        parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
        with self.assertRaisesRegex(echelon.InvalidError, "complex64"):
            echelon.torch.DistributedOptimizer(torch.optim.SGD([parameter], lr=1))
        self.until(lambda: len(os.listdir("/proc/self/task")) <= before)  # soon after join()

    def test_nothing_is_left_of_one_that_was_not_used(self):
        before = len(os.listdir("/proc/self/task"))
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=1)
        echelon.torch.DistributedOptimizer(optimizer).close()
        self.until(lambda: len(os.listdir("/proc/self/task")) <= before)  # soon after join()


if __name__ == "__main__":
    torch_suite.main()
