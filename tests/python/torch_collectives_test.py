# SPDX-License-Identifier: Apache-2.0
"""Every operation of torch.distributed on the backend "echelon", with results that are exact."""
import dataclasses
import unittest
from datetime import timedelta

import torch_suite
from torch_suite import Ranks
import echelon
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from echelon.torch._calls import Caller
from echelon.torch._tensors import view_of

DTYPES = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64]


class Reductions(Ranks):
    def test_every_type_and_operator(self):
        for dtype in DTYPES:
            ranks = torch.stack([torch.arange(7) % 3 + r + 1 for r in range(self.size)])
            expected = {dist.ReduceOp.SUM: ranks.sum(0), dist.ReduceOp.PRODUCT: ranks.prod(0),
                        dist.ReduceOp.MIN: ranks.amin(0), dist.ReduceOp.MAX: ranks.amax(0)}
            if dtype.is_floating_point:
                expected[dist.ReduceOp.AVG] = ranks.double().mean(0)
            for op, value in expected.items():
                mine = ranks[self.rank].to(dtype, copy=True)
                dist.all_reduce(mine, op)
                self.same(mine, value.to(dtype))

    def test_truth_values(self):
        for op, expected in ((dist.ReduceOp.SUM, [True, False, self.size == 1]),
                             (dist.ReduceOp.MIN, [self.size == 1, False, self.size == 1])):
            mine = torch.tensor([self.rank == 0, False, self.size == 1])
            dist.all_reduce(mine, op)
            self.same(mine, expected)

    def test_not_contiguous(self):
        whole = torch.full((4, 4), float(self.rank))
        dist.all_reduce(whole[:, 1])
        expected = torch.full((4, 4), float(self.rank))
        expected[:, 1] = self.size * (self.size - 1) / 2
        self.same(whole, expected)

    def test_coalesced(self):
        with dist._coalescing_manager(async_ops=True) as all:
            mine = [torch.full((k,), float(self.rank + k)) for k in (1, 3, 1000)]
            for tensor in mine:
                dist.all_reduce(tensor)
        all.wait()
        total = self.size * (self.size - 1) / 2
        for k, tensor in zip((1, 3, 1000), mine):
            self.same(tensor, torch.full((k,), total + k * self.size))

    def test_reduce(self):
        for root in range(self.size):
            mine = torch.full((3,), self.rank + 1)
            dist.reduce(mine, root)
            if self.rank == root:
                self.same(mine, [self.size * (self.size + 1) // 2] * 3)
            else:
                self.same(mine, [self.rank + 1] * 3)

    def test_reduce_scatter(self):
        total = self.size * (self.size - 1) // 2
        inputs = [torch.tensor([[k + self.rank, k]]) for k in range(self.size)]
        mine = torch.empty(1, 2, dtype=torch.int64)
        dist.reduce_scatter(mine, inputs)
        self.same(mine, [[self.rank * self.size + total, self.rank * self.size]])
        dist.reduce_scatter_tensor(mine, torch.cat(inputs), dist.ReduceOp.MAX)
        self.same(mine, [[self.rank + self.size - 1, self.rank]])

    def test_reduce_scatter_of_unequal_parts(self):
        inputs = [torch.full((k + 1,), float(self.rank)) for k in range(self.size)]
        mine = torch.empty(self.rank + 1)
        dist.reduce_scatter(mine, inputs)
        self.same(mine, torch.full((self.rank + 1,), self.size * (self.size - 1) / 2))

    def test_what_cannot_be_reduced(self):
        for tensor, op, message in (
                (torch.zeros(2, dtype=torch.int16), dist.ReduceOp.SUM, "int16 cannot be reduced"),
                (torch.zeros(2), dist.ReduceOp.BOR, "none of SUM, AVG"),
                (torch.zeros(2, dtype=torch.int32), dist.ReduceOp.AVG, "have no average"),
                (torch.zeros(2).to_sparse(), dist.ReduceOp.SUM, "sparse")):
            with self.subTest(message), self.assertRaisesRegex(echelon.UnsupportedError, message):
                dist.all_reduce(tensor, op)


class Copies(Ranks):
    def test_broadcast(self):
        for root in range(self.size):
            for dtype in (torch.int16, torch.bool, torch.complex64, torch.float8_e4m3fn):
                mine = torch.tensor([self.rank == root, False]).to(dtype)
                dist.broadcast(mine, root)
                self.assertEqual(mine.to(torch.complex64).tolist(), [1, 0])

    def test_allgather(self):
        mine = torch.full((2, 3), self.rank, dtype=torch.int16)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(found, mine)
        for r, part in enumerate(found):
            self.same(part, torch.full((2, 3), r))
        whole = torch.empty(2 * self.size, 3, dtype=torch.int16)
        dist.all_gather_into_tensor(whole, mine)
        self.same(whole, torch.cat(found))

    def test_allgather_of_unequal_parts(self):
        found = [torch.empty(r + 1) for r in range(self.size)]
        dist.all_gather(found, torch.full((self.rank + 1,), float(self.rank)))
        for r, part in enumerate(found):
            self.same(part, torch.full((r + 1,), float(r)))

    def test_gather_and_scatter(self):
        for root in range(self.size):
            found = [torch.empty(2) for _ in range(self.size)] if self.rank == root else None
            dist.gather(torch.full((2,), float(self.rank)), found, root)
            for r, part in enumerate(found or ()):
                self.same(part, [float(r)] * 2)
            mine = torch.empty(2)
            given = [torch.full((2,), r + 10.0 * root) for r in range(self.size)]
            dist.scatter(mine, given if self.rank == root else None, root)
            self.same(mine, [self.rank + 10.0 * root] * 2)

    def test_alltoall(self):
        found = torch.empty(self.size, dtype=torch.int64)
        dist.all_to_all_single(found, torch.arange(self.size) + 100 * self.rank)
        self.same(found, torch.arange(self.size) * 100 + self.rank)
        # To rank r go r + 1 rows.
        found = torch.empty(self.size * (self.rank + 1), 2)
        given = torch.cat([torch.full((r + 1, 2), 10.0 * self.rank + r) for r in range(self.size)])
        dist.all_to_all_single(found, given, [self.rank + 1] * self.size,
                               list(range(1, self.size + 1)))
        self.same(found, torch.cat([torch.full((self.rank + 1, 2), 10.0 * r + self.rank)
                                    for r in range(self.size)]))
        parts = [torch.empty(self.rank) for _ in range(self.size)]
        dist.all_to_all(parts, [torch.full((r,), float(self.rank)) for r in range(self.size)])
        for r, part in enumerate(parts):
            self.same(part, [float(r)] * self.rank)

    def test_objects(self):
        found = [None] * self.size
        dist.all_gather_object(found, {"from": self.rank})
        self.assertEqual(found, [{"from": r} for r in range(self.size)])
        given = ["x" * 1000 if self.rank == 0 else None]
        dist.broadcast_object_list(given, 0)
        self.assertEqual(given, ["x" * 1000])

    def test_shapes_that_do_not_fit(self):
        with self.assertRaisesRegex(ValueError, "elements for"):
            dist.all_gather_into_tensor(torch.empty(self.size * 2 + 1), torch.empty(2))


class PointToPoint(Ranks):
    def test_ring(self):
        following, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        sent = [torch.full((k,), float(self.rank)) for k in (3, 0, 2_000_000)]
        found = [torch.empty_like(tensor) for tensor in sent]
        works = [dist.isend(tensor, following) for tensor in sent]
        works += [dist.irecv(tensor, before) for tensor in found]
        for work in works:
            work.wait()
        for tensor in found:
            self.same(tensor, torch.full_like(tensor, float(before)))

    def test_tags_and_any_source(self):
        if self.rank != 0:
            dist.send(torch.tensor([self.rank]), 0, tag=1)
            dist.send(torch.tensor([-self.rank]), 0, tag=2)
            return
        for sign, tag in ((-1, 2), (1, 1)):
            mine = torch.empty(1, dtype=torch.int64)
            found = set()
            for _ in range(self.size - 1):
                source = dist.recv(mine, tag=tag)
                self.same(mine, [sign * source])
                found.add(source)
            self.assertEqual(found, set(range(1, self.size)))

    def test_nobody_sends(self):
        work = dist.irecv(torch.empty(1), self.rank, tag=7)
        with self.assertRaisesRegex(echelon.TimeoutError, f"nothing came from rank {self.rank}"):
            work.wait(timedelta(milliseconds=50))


class Works(Ranks):
    def test_future(self):
        mine = torch.ones(1000)
        work = dist.all_reduce(mine, async_op=True)
        twice = work.get_future().then(lambda done: done.value()[0] * 2)
        self.same(twice.wait(), torch.full((1000,), 2.0 * self.size))
        self.assertTrue(work.is_completed() and work.is_success())
        self.same(work.result()[0], mine)

    def test_goes_on_by_itself(self):
        works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(10)]
        while not all(work.is_completed() for work in works):
            pass

    def test_error(self):
        """Of an operation that differs between ranks: to Python the library's exception, to C++ an
        error, not a value."""
        part = dist.new_group()
        work = dist.all_reduce(torch.ones(10 if self.rank == 0 else 20), group=part, async_op=True)
        if self.size == 1:
            return
        with self.assertRaisesRegex(RuntimeError, "count 10"):
            work.get_future().wait()
        with self.assertRaisesRegex(echelon.MismatchError, "count 10"):
            work.wait()
        self.assertIsInstance(work.exception(), echelon.MismatchError)
        with self.assertRaises(echelon.MismatchError):  # from now on
            dist.barrier(part)
        dist.destroy_process_group(part)

    def test_abort(self):
        part = dist.new_group()
        dist.barrier(part)
        dist.barrier()  # an abort would end the first for those who are still in it
        if self.rank == 0:
            part.abort()
        with self.assertRaises(echelon.AbortedError):
            dist.barrier(part)


class Settings(unittest.TestCase):
    def test_stream(self):
        """Of what lies on a GPU, where CUDA's 0 is the default one; host memory has none."""
        class Heard:
            def start(self, function, arguments, call, keep):
                self.stream = call.stream

        def stream(given, on_gpu):
            heard = Heard()
            view = dataclasses.replace(view_of(torch.ones(1)), on_gpu=on_gpu)
            Caller(heard, None, given)._start("", 1, [view], ())
            return heard.stream

        self.assertEqual([stream(given, True) for given in (7, 0, None)], [7, 1, 1])
        self.assertEqual([stream(given, False) for given in (7, 0, None)], [None, None, None])


class Groups(Ranks):
    def test_new_group(self):
        if self.size == 1:
            self.skipTest("PyTorch makes no group of no ranks")
        odd = dist.new_group([r for r in range(self.size) if r % 2 == 1])
        last = dist.new_group([self.size - 1])
        if self.rank % 2 == 1:
            mine = torch.tensor([self.rank])
            dist.all_reduce(mine, group=odd)
            self.same(mine, [sum(range(1, self.size, 2))])
            dist.broadcast(mine, self.size - 1 - self.size % 2, group=odd)
        if self.rank == self.size - 1:
            dist.barrier(last)
        dist.barrier()

    def test_timeout(self):
        part = dist.new_group()
        dist.barrier(part)
        dist.barrier()  # as for test_abort
        if self.rank == 0 and self.size > 1:
            settings = dist.BarrierOptions()
            settings.timeout = timedelta(seconds=0.5)
            with self.assertRaises(echelon.TimeoutError):
                part.barrier(settings).wait()
        dist.barrier()

    def test_mesh_and_functional_collectives(self):
        if self.size != 4:
            self.skipTest("takes four ranks")
        mesh = init_device_mesh(torch.get_default_device().type, (2, 2),
                                mesh_dim_names=("out", "in"))
        mine = torch.full((2,), float(self.rank))
        got = functional.all_reduce(mine, "sum", mesh["in"].get_group())
        self.same(got + 0, [float(self.rank // 2 * 4 + 1)] * 2)
        got = functional.all_gather_tensor(mine, 0, mesh["out"].get_group())
        self.same(got + 0, [float(self.rank % 2)] * 2 + [self.rank % 2 + 2.0] * 2)
        got = functional.reduce_scatter_tensor(mine, "sum", 0, mesh["out"].get_group())
        self.same(got + 0, [self.rank % 2 * 2.0 + 2])
        got = functional.all_to_all_single(mine, None, None, mesh["in"].get_group())
        self.same(got + 0, [float(self.rank // 2 * 2), self.rank // 2 * 2 + 1.0])

    def test_beside_gloo(self):
        """What is configured for another device goes to the other backend."""
        mixed = dist.new_group(backend="cpu:gloo,cuda:echelon")
        mine = torch.tensor([self.rank], device="cpu")
        dist.all_reduce(mine, group=mixed)
        self.same(mine, [self.size * (self.size - 1) // 2])
        self.assertIsNone(mixed._driver)
        ours = dist.new_group(backend="cpu:echelon,cuda:nccl")
        dist.all_reduce(mine, group=ours)
        self.assertIsNotNone(ours._driver)


if __name__ == "__main__":
    unittest.TestLoader.sortTestMethodsUsing = None
    torch_suite.main()
