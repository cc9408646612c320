# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: an optimizer that averages the gradients of all ranks."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple, Type

import torch

from .._collectives import set_of
from .._constants import Average, ReduceOp
from .._errors import InvalidError
from .._gathers import allgather_object
from .._process_sets import ProcessSet
from ._buckets import Buckets, fill
from ._compression import Compression, Compressor
from ._driver import Driver

Named = Iterable[Tuple[str, torch.nn.Parameter]]


def _trained(optimizer: torch.optim.Optimizer) -> List[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]


def _check_alike(parameters: List[torch.nn.Parameter], named: Optional[Named],
                 members: ProcessSet) -> None:
    """Parameters belong together by their order."""
    names = {p: name for name, p in named} if named is not None else {}
    mine = [(names.get(p, ""), tuple(p.shape), str(p.dtype)) for p in parameters]
    for rank, theirs in enumerate(allgather_object(mine, process_set=members)):
        if theirs != mine:
            differ = [pair for pair in zip(mine, theirs) if pair[0] != pair[1]]
            raise InvalidError(f"rank {rank} has {len(theirs)} parameters, this one {len(mine)}; "
                               f"the first that differ: {differ[:1]}")


class _Distributed:
    """What DistributedOptimizer adds to the class of the optimizer that it is given."""

    _buckets: Buckets
    _driver: Driver
    _closed = False

    def _set_up(self, buckets: Buckets, driver: Driver, passes: int) -> None:
        self._buckets, self._driver, self._passes = buckets, driver, passes
        self._closed = False
        self._counts = {p: 0 for p in _trained(self)}  # type: ignore[arg-type]
        self._synchronized = self._skipping = False
        self._hooks = [p.register_post_accumulate_grad_hook(self._came) for p in self._counts]

    def _came(self, parameter: torch.nn.Parameter) -> None:
        self._counts[parameter] += 1
        if self._counts[parameter] > self._passes:
            raise InvalidError(f"more than {self._passes} backward passes before step(): give "
                               "backward_passes_per_step")
        if self._counts[parameter] == self._passes:
            self._buckets.ready(parameter)

    def synchronize(self) -> None:
        """Waits until the gradients are the reduced ones: for clipping them before step(), which
        then belongs into `with optimizer.skip_synchronize()`. Collective."""
        self._buckets.finish()
        self._counts = dict.fromkeys(self._counts, 0)
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        self._skipping = True
        try:
            yield
        finally:
            self._skipping = False

    def step(self, closure: Optional[Callable[[], float]] = None) -> Any:
        if closure is not None:
            raise InvalidError("step() with a closure: gradients are reduced before step()")
        if not self._skipping:
            self.synchronize()
        elif not self._synchronized:
            raise InvalidError("skip_synchronize() without synchronize() before it")
        self._synchronized = False
        return super().step()  # type: ignore[misc]

    def zero_grad(self, *arguments: Any, **named: Any) -> Any:
        if self._buckets.under_way:
            raise InvalidError("zero_grad() between backward() and step(): gradients are on their "
                               "way")
        return super().zero_grad(*arguments, **named)  # type: ignore[misc]

    def close(self) -> None:
        """Ends its communicator; step() is no longer possible, until DistributedOptimizer() is given
        it again. Collective; local after a failure."""
        for hook in self._hooks:
            hook.remove()
        self._driver.close()
        self._closed = True


def _undo(optimizer: torch.optim.Optimizer) -> None:
    """One that was closed becomes what it was before."""
    if isinstance(optimizer, _Distributed):
        if not optimizer._closed:
            raise InvalidError("the optimizer is distributed already: close() it first")
        optimizer.__class__ = type(optimizer).__bases__[1]


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Optional[Named] = None,
                         compression: Type[Compressor] = Compression.none,
                         backward_passes_per_step: int = 1, op: ReduceOp = Average, *,
                         gradient_predivide_factor: float = 1.0,
                         process_set: Optional[ProcessSet] = None,
                         bucket_bytes: int = 16 << 20) -> Any:
    """The optimizer, changed so that step() uses the gradients of all ranks, which `op` reduces.
    They are reduced in buckets of `bucket_bytes` while backward() still computes others. With
    backward_passes_per_step gradients are added up over so many calls of backward() first. After
    step() and synchronize() gradients are parts of the buckets: what is kept of them changes with
    the next step, unless it is a copy. The ranks must have the same parameters in the same order.
    Collective."""
    _undo(optimizer)
    members = set_of(process_set)
    parameters = _trained(optimizer)
    if not parameters or backward_passes_per_step < 1:
        raise InvalidError(f"{len(parameters)} parameters, {backward_passes_per_step} backward "
                           "passes per step: expected at least one")
    if "step" in vars(optimizer):  # as learning rate schedulers do
        raise InvalidError("the optimizer's step() has been replaced: make the learning rate "
                           "scheduler after DistributedOptimizer")
    dtype = getattr(compression, "dtype", None)
    if hasattr(compression, "compress") or not (dtype is None or isinstance(dtype, torch.dtype)):
        raise InvalidError(f"{compression.__name__} compresses NumPy arrays: expected one of "
                           "echelon.torch.Compression")
    _check_alike(parameters, named_parameters, members)
    filled = fill(parameters, bucket_bytes, compression)
    factors = 1 / gradient_predivide_factor, gradient_predivide_factor
    driver = Driver(members=members.split(0, members.rank()))  # last, since it has to be ended
    buckets = Buckets(filled, driver, op, factors)
    kind = type(optimizer)
    optimizer.__class__ = type(kind.__name__, (_Distributed, kind), {})
    optimizer._set_up(buckets, driver, backward_passes_per_step)  # type: ignore[attr-defined]
    return optimizer
