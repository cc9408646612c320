# SPDX-License-Identifier: Apache-2.0
"""The names of PowerAI DDL, for scripts that were written for it: `import echelon.ddl as ddl`.

With TensorFlow 2 and Keras 3; see docs/keras.md for what differs from DDL."""
from __future__ import annotations

from typing import Any, List, Sequence

import echelon

from . import tensorflow as _tensorflow
from ._constants import Average, Sum
from .keras import BroadcastGlobalVariables, DistributedOptimizer, MetricAverage, is_distributed


def init(options: str = "") -> None:
    """Finds the other ranks. The other functions do so too, where it was not called. The options of
    DDL describe the cluster, which is found here: they are not looked at."""
    echelon.init()


def rank() -> int:
    """This process's number among all ranks."""
    init()
    return echelon.rank()


def size() -> int:
    """How many ranks there are."""
    init()
    return echelon.size()


def local_rank() -> int:
    """This process's number among the ranks of its host: which GPU to take."""
    init()
    return echelon.local_rank()


def num_hosts() -> int:
    """How many hosts there are."""
    init()
    return echelon.cross_size()


def bcast(init_val: Any) -> Any:
    """The tensor of rank 0."""
    init()
    return _tensorflow.broadcast(init_val, 0)


def allreduce_n(grads: Sequence[Any], average: bool = True, device_dense: str = "",
                device_sparse: str = "") -> List[Any]:
    """The averages, or sums, of all gradients, together. The devices are not looked at."""
    init()
    return _tensorflow.grouped_allreduce(grads, Average if average else Sum)


def _distribute(model: Any) -> None:
    """DDL does it for all optimizers when it is imported."""
    if not is_distributed(model.optimizer):
        DistributedOptimizer(model.optimizer)
        model.train_function = None  # in case that one has been traced


class DDLCallback(MetricAverage):
    """Lets the model's optimizer apply the averages of the gradients, and averages the metrics."""

    def set_model(self, model: Any) -> None:
        init()
        super().set_model(model)
        _distribute(model)


class DDLGlobalVariablesCallback(BroadcastGlobalVariables):
    """Begins with the variables of rank 0. Lets the model's optimizer apply the averages too."""

    def set_model(self, model: Any) -> None:
        init()
        super().set_model(model)
        _distribute(model)


__all__ = [
    "DDLCallback", "DDLGlobalVariablesCallback", "allreduce_n", "bcast", "init", "local_rank",
    "num_hosts", "rank", "size",
]
