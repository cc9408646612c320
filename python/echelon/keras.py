# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on TensorFlow: optimizers that average the gradients of all ranks, and callbacks.

    import echelon.keras as ech

    ech.init()
    model.compile(ech.DistributedOptimizer(keras.optimizers.SGD(0.1 * ech.size())), loss)
    model.fit(mine, callbacks=[ech.BroadcastGlobalVariables(), ech.MetricAverage()])"""
from __future__ import annotations

import numbers
from typing import Any, Callable, Dict, List, Optional, Type, Union

import keras  # type: ignore
import numpy as np

import echelon

from ._collectives import allreduce, set_of
from ._compression import Compression, Compressor
from ._constants import Average, Max, Min, Product, ReduceOp, Sum
from ._errors import InvalidError, UnsupportedError
from ._process_sets import ProcessSet, init, is_initialized, shutdown

if keras.backend.backend() != "tensorflow":
    raise UnsupportedError(f"echelon.keras needs Keras on TensorFlow, not on "
                           f"{keras.backend.backend()}: set KERAS_BACKEND=tensorflow")

from .tensorflow import BUCKET_BYTES, Reduction, broadcast_variables  # noqa: E402

cross_rank, cross_size = echelon.cross_rank, echelon.cross_size
local_rank, local_size = echelon.local_rank, echelon.local_size
rank, size = echelon.rank, echelon.size

Logs = Optional[Dict[str, Any]]


class _ReducedApply:
    """Stands for apply() of one optimizer, the method that every way of applying gradients ends
    in."""

    def __init__(self, apply: Callable[..., None], reduction: Reduction) -> None:
        self._apply = apply
        self._reduction = reduction

    def __call__(self, grads: Any, trainable_variables: Any = None) -> None:
        self._apply(self._reduction.of_variables(grads), trainable_variables)


def is_distributed(optimizer: Any) -> bool:
    """Whether DistributedOptimizer() had it."""
    return isinstance(optimizer.apply, _ReducedApply)


def DistributedOptimizer(optimizer: Any, *, op: ReduceOp = Average,
                         compression: Type[Compressor] = Compression.none,
                         sparse_as_dense: bool = False, bucket_bytes: int = BUCKET_BYTES,
                         process_set: Optional[ProcessSet] = None) -> Any:
    """The optimizer itself, which from now on applies the gradients of all ranks. Keras saves it as
    what it was, so that a saved model loads without this package; to go on with all ranks call
    DistributedOptimizer(model.optimizer) again."""
    if is_distributed(optimizer):
        raise InvalidError(f"the optimizer {optimizer.name} is distributed already")
    optimizer.apply = _ReducedApply(
        optimizer.apply,
        Reduction(op, compression, sparse_as_dense, bucket_bytes, process_set))
    return optimizer


def _without_xla(model: Any) -> None:
    """XLA compiles no operation that calls Python, as collectives do."""
    if model.jit_compile:
        model.jit_compile = False
        model.train_function = None


def _refuse_local_loss_scale(model: Any) -> None:
    inner = getattr(model.optimizer, "inner_optimizer", None)
    if inner is not None and is_distributed(inner):
        raise InvalidError(
            "the loss scale is around the distributed optimizer, so a rank could skip a step that "
            "others take: give DistributedOptimizer() the LossScaleOptimizer")


class BroadcastGlobalVariables(keras.callbacks.Callback):  # type: ignore[misc]
    """Begins fit() with the weights and the optimizer's state of rank `root_rank` on all ranks.
    Seeds of random numbers stay each rank's own. Weights that a model makes only when it sees its
    first batch are sent after that. Also turns off compilation by XLA, which knows no
    collectives."""

    def __init__(self, root_rank: int = 0, process_set: Optional[ProcessSet] = None) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._process_set = process_set
        self._is_first = True
        self._sent = 0

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        _without_xla(model)
        _refuse_local_loss_scale(model)

    def on_train_begin(self, logs: Logs = None) -> None:
        self._is_first = True
        model = self.model
        if model.built and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self._is_first and len(self._variables()) != self._sent:
            self._broadcast()
        self._is_first = False

    def _variables(self) -> List[Any]:
        return [*self.model.weights, *self.model.optimizer.variables]

    def _broadcast(self) -> None:
        variables = self._variables()
        broadcast_variables(variables, self._root_rank, process_set=self._process_set)
        self._sent = len(variables)


class MetricAverage(keras.callbacks.Callback):  # type: ignore[misc]
    """Averages the metrics of an epoch over the ranks, for the callbacks that come after it and for
    the history. What comes before it, such as the progress bar, has those of its own rank."""

    def __init__(self, process_set: Optional[ProcessSet] = None) -> None:
        super().__init__()
        self._process_set = process_set

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if not logs:
            return
        names = sorted(name for name, value in logs.items() if isinstance(value, numbers.Number))
        mine = np.array([logs[name] for name in names], dtype=np.float64)
        for name, value in zip(names, allreduce(mine, process_set=self._process_set)):
            logs[name] = float(value)


class LearningRateSchedule(keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the learning rate to initial_lr * multiplier, a number or a function of the epoch, from
    start_epoch until before end_epoch. Without `staircase` it does so in each batch, and the epoch
    has a fraction: how much of it will have passed with that batch."""

    def __init__(self, initial_lr: float, multiplier: Union[float, Callable[[float], float]], *,
                 start_epoch: int = 0, end_epoch: Optional[int] = None, staircase: bool = True,
                 steps_per_epoch: Optional[int] = None) -> None:
        super().__init__()
        self._initial_lr = initial_lr
        self._multiplier = multiplier
        self._first, self._end = start_epoch, end_epoch
        self._staircase = staircase
        self._steps_per_epoch = steps_per_epoch
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._epoch = epoch
        if self._staircase and self._is_active():
            self._set(float(epoch))

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        if not self._staircase and self._is_active():
            self._set(self._epoch + (batch + 1) / self._steps())

    def _is_active(self) -> bool:
        return self._first <= self._epoch and (self._end is None or self._epoch < self._end)

    def _steps(self) -> int:
        steps = self._steps_per_epoch or self.params.get("steps")
        if not steps:
            raise InvalidError("the number of batches of an epoch is not known: give it to "
                               f"{type(self).__name__} as steps_per_epoch")
        return int(steps)

    def _set(self, epoch: float) -> None:
        factor = self._multiplier(epoch) if callable(self._multiplier) else self._multiplier
        self.model.optimizer.learning_rate = self._initial_lr * factor


class LearningRateWarmup(LearningRateSchedule):
    """Raises the learning rate, batch by batch, from that for one rank, initial_lr / size, to
    initial_lr, which is reached with the last batch of warmup_epochs."""

    def __init__(self, initial_lr: float, warmup_epochs: int = 5, *,
                 steps_per_epoch: Optional[int] = None,
                 process_set: Optional[ProcessSet] = None) -> None:
        def multiplier(epoch: float) -> float:
            ranks = set_of(process_set).size()
            return (1 + epoch / warmup_epochs * (ranks - 1)) / ranks

        super().__init__(initial_lr, multiplier, end_epoch=warmup_epochs, staircase=False,
                         steps_per_epoch=steps_per_epoch)


__all__ = [
    "Average", "BroadcastGlobalVariables", "Compression", "DistributedOptimizer",
    "LearningRateSchedule", "LearningRateWarmup", "Max", "MetricAverage", "Min", "Product", "Sum",
    "cross_rank", "cross_size", "init", "is_distributed", "is_initialized", "local_rank",
    "local_size", "rank", "shutdown", "size",
]
