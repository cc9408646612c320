# SPDX-License-Identifier: Apache-2.0
"""Training on the backend "echelon" gives what one process gives with the whole batch, and what
gloo gives, to the rounding of float64."""
import copy
import functools
import unittest

import torch_suite
from torch_suite import Ranks
import echelon.torch as ech
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

STEPS, ROWS = 4, 8


def make_model():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(),
                         nn.Linear(16, 3)).double()


def make_data(size):
    random = torch.Generator(torch.get_default_device()).manual_seed(6)
    return [(torch.randn(ROWS * size, 6, generator=random, dtype=torch.float64),
             torch.randn(ROWS * size, 3, generator=random, dtype=torch.float64))
            for _ in range(STEPS)]


def train(model, optimizer, rank, size, accumulate=1):
    """With this rank's rows of each batch."""
    losses = []
    for images, labels in make_data(dist.get_world_size()):
        mine = slice(rank * len(images) // size, (rank + 1) * len(images) // size)
        optimizer.zero_grad()
        for part in zip(images[mine].chunk(accumulate), labels[mine].chunk(accumulate)):
            loss = nn.functional.mse_loss(model(part[0]), part[1])
            (loss / accumulate).backward()
            losses.append(loss.item())
        optimizer.step()
    return losses


def sgd(model, scale=1):
    return torch.optim.SGD(model.parameters(), lr=0.1 * scale, momentum=0.9)


class Training(Ranks):
    def setUp(self):
        super().setUp()
        self.alone = make_model()
        train(self.alone, sgd(self.alone), 0, 1)

    def check(self, model):
        self.alike(model)
        for mine, right in zip(model.parameters(), self.alone.parameters()):
            torch.testing.assert_close(mine, right, rtol=0, atol=1e-12)

    def alike(self, model):
        """The same bits on all ranks."""
        whole = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        found = torch.empty(self.size, whole.numel(), dtype=whole.dtype)
        dist.all_gather_into_tensor(found, whole)
        self.assertTrue(torch.equal(found, found[:1].expand_as(found)))

    def test_data_parallel(self):
        for bucket in (25, 0.001):
            model = DistributedDataParallel(make_model(), bucket_cap_mb=bucket)
            train(model, sgd(model), self.rank, self.size)
            self.check(model.module)

    def test_data_parallel_as_views_without_sync(self):
        model = DistributedDataParallel(make_model(), gradient_as_bucket_view=True)
        optimizer = sgd(model)
        for images, labels in make_data(self.size):
            mine = [t.chunk(self.size)[self.rank].chunk(2) for t in (images, labels)]
            optimizer.zero_grad()
            with model.no_sync():
                (nn.functional.mse_loss(model(mine[0][0]), mine[1][0]) / 2).backward()
            (nn.functional.mse_loss(model(mine[0][1]), mine[1][1]) / 2).backward()
            optimizer.step()
        self.check(model.module)

    def test_data_parallel_as_on_gloo(self):
        gloo = dist.new_group(backend="gloo")
        ours, theirs = (DistributedDataParallel(make_model(), process_group=group)
                        for group in (None, gloo))
        losses = [train(model, sgd(model), self.rank, self.size) for model in (ours, theirs)]
        torch.testing.assert_close(*map(torch.tensor, losses), rtol=0, atol=1e-12)
        for mine, other in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)

    def test_fully_sharded(self):
        model = make_model()
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(model)
        train(model, sgd(model), self.rank, self.size)
        whole = copy.deepcopy(self.alone)
        with torch.no_grad():
            for full, sharded in zip(whole.parameters(), model.parameters()):
                full.copy_(sharded.full_tensor())
        self.check(whole)

    def test_sharded_optimizer(self):
        model = DistributedDataParallel(make_model())
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1,
                                            momentum=0.9)
        train(model, optimizer, self.rank, self.size)
        self.check(model.module)

    # ---- in Horovod's way ----------------------------------------------------------------------

    def test_optimizer(self):
        for settings in ({}, {"bucket_bytes": 200}, {"op": ech.Sum, "factor": self.size},
                         {"gradient_predivide_factor": 8.0}):
            with self.subTest(settings):
                model = make_model()
                scale = 1 / settings.pop("factor", 1)
                optimizer = ech.DistributedOptimizer(sgd(model, scale), model.named_parameters(),
                                                     **settings)
                self.assertIsInstance(optimizer, torch.optim.SGD)
                train(model, optimizer, self.rank, self.size)
                self.check(model)
                optimizer.close()

    def test_optimizer_keeps_gradients_in_place(self):
        model = make_model()
        optimizer = ech.DistributedOptimizer(sgd(model))
        optimizer.zero_grad = functools.partial(optimizer.zero_grad, set_to_none=False)
        train(model, optimizer, self.rank, self.size)
        self.check(model)
        memory = {p.grad.untyped_storage().data_ptr() for p in model.parameters()}
        self.assertEqual(len(memory), 1)  # of the one bucket

    def test_optimizer_accumulates(self):
        model = make_model()
        optimizer = ech.DistributedOptimizer(sgd(model), backward_passes_per_step=2)
        train(model, optimizer, self.rank, self.size, accumulate=2)
        self.check(model)

    def test_optimizer_after_synchronize(self):
        model = make_model()
        optimizer = ech.DistributedOptimizer(sgd(model))
        nn.functional.mse_loss(model(torch.full((1, 6), float(self.rank)).double()),
                               torch.zeros(1, 3).double()).backward()
        with self.assertRaisesRegex(ValueError, "on their way"):
            optimizer.zero_grad()
        optimizer.synchronize()
        first = next(model.parameters()).grad.clone()
        self.assertTrue(torch.equal(first, ech.allreduce(first)))  # the same on all ranks
        with optimizer.skip_synchronize():
            optimizer.step()
        self.alike(model)

    def test_optimizer_compresses(self):
        for compression in (ech.Compression.fp16, ech.Compression.bf16):
            model = make_model()
            optimizer = ech.DistributedOptimizer(sgd(model), compression=compression)
            train(model, optimizer, self.rank, self.size)
            self.alike(model)
            for mine, right in zip(model.parameters(), self.alone.parameters()):
                torch.testing.assert_close(mine, right, rtol=0.05, atol=0.01)
            self.assertFalse(torch.equal(mine, right))

    def test_optimizer_without_some_gradients(self):
        """A part of the model that only one rank uses."""
        model = nn.ModuleList([nn.Linear(2, 1).double(), nn.Linear(2, 1).double()])
        ech.broadcast_parameters(model.named_parameters())
        before = model[1].weight.detach().clone()
        optimizer = ech.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0),
                                             bucket_bytes=1)
        used = model[1] if self.rank == self.size - 1 else model[0]
        used(torch.ones(1, 2).double()).sum().backward()
        optimizer.step()
        self.alike(model)
        torch.testing.assert_close(model[1].weight, before - 1 / self.size, rtol=0, atol=1e-15)

    def test_optimizer_refuses(self):
        model = make_model()
        with self.assertRaisesRegex(ValueError, "0 backward passes"):
            ech.DistributedOptimizer(sgd(model), backward_passes_per_step=0)
        if self.size > 1:
            wide = nn.Linear(3 if self.rank == 0 else 4, 1)
            with self.assertRaisesRegex(ValueError, "first that differ"):
                ech.DistributedOptimizer(sgd(wide), wide.named_parameters())

    def test_batch_norm(self):
        def make(kind):
            torch.manual_seed(7)
            return nn.Sequential(nn.Linear(6, 5), kind(5), nn.Tanh(), nn.Linear(5, 3)).double()

        self.alone = make(nn.BatchNorm1d)
        train(self.alone, sgd(self.alone), 0, 1)
        model = make(ech.SyncBatchNorm)
        train(model, ech.DistributedOptimizer(sgd(model)), self.rank, self.size)
        self.check(model)
        for mine, right in zip(model.buffers(), self.alone.buffers()):
            torch.testing.assert_close(mine, right, rtol=0, atol=1e-12)
        images = make_data(1)[0][0]
        torch.testing.assert_close(model.eval()(images), self.alone.eval()(images), rtol=0,
                                   atol=1e-12)
        with self.assertRaisesRegex(ValueError, "expected 5 channels"):
            model.train()[1](torch.zeros(2, 4).double())

    def test_broadcast(self):
        torch.manual_seed(self.rank)
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        root = self.size - 1
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if self.rank == root else 0.5)
        if self.rank == root:
            model(torch.randn(8, 4)).square().sum().backward()
            optimizer.step()
        ech.broadcast_parameters(model.state_dict(), root)
        ech.broadcast_optimizer_state(optimizer, root)
        self.alike(model)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.1)
        states = ech.allgather_object(optimizer.state_dict())
        self.assertEqual(states[0]["state"][0]["step"], 1)
        for mine, right in zip(states[self.rank]["state"].values(),
                               states[root]["state"].values()):
            self.assertTrue(all(torch.equal(mine[name], right[name]) for name in right))


if __name__ == "__main__":
    unittest.TestLoader.sortTestMethodsUsing = None
    torch_suite.main()
