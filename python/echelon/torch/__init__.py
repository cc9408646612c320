# SPDX-License-Identifier: Apache-2.0
"""PyTorch on Echelon. Importing it registers the backend "echelon" of torch.distributed:

    import torch.distributed as dist
    import echelon.torch

    dist.init_process_group("echelon")  # init_method="echelon://" under echelon run or mpirun

Without torch.distributed, in Horovod's way:

    import echelon.torch as ech

    ech.init()
    ech.broadcast_parameters(model.state_dict())
    optimizer = ech.DistributedOptimizer(optimizer)
"""
from __future__ import annotations

from .. import (Average, Max, Min, Product, RankLostError, Sum, abort, add_process_set, allgather,
                allgather_object, allreduce, allreduce_async, barrier, broadcast, broadcast_async,
                broadcast_object, cross_rank, cross_size, grouped_allreduce,
                grouped_allreduce_async, init, is_initialized, local_rank, local_size, poll, rank,
                reduce_scatter, remove_process_set, shrink, shutdown, size, synchronize)
from . import _meeting, _process_group
from ._broadcast import broadcast_optimizer_state, broadcast_parameters
from ._compression import Compression, Compressor
from ._optimizer import DistributedOptimizer
from ._process_group import ProcessGroup
from ._sync_batch_norm import SyncBatchNorm

_meeting.register()
_process_group.register()

__all__ = [
    "Average", "Compression", "Compressor", "DistributedOptimizer", "Max", "Min", "ProcessGroup",
    "Product", "RankLostError", "Sum", "SyncBatchNorm", "abort", "add_process_set", "allgather",
    "allgather_object", "allreduce", "allreduce_async", "barrier", "broadcast", "broadcast_async",
    "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "cross_rank",
    "cross_size", "grouped_allreduce", "grouped_allreduce_async", "init", "is_initialized",
    "local_rank", "local_size", "poll", "rank", "reduce_scatter", "remove_process_set", "shrink",
    "shutdown", "size", "synchronize",
]
