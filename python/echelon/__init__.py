# SPDX-License-Identifier: Apache-2.0
"""Echelon: topology-aware hierarchical allreduce, for NumPy arrays and all that speak DLPack.

    import echelon
    import numpy

    echelon.init()
    mean = echelon.allreduce(numpy.full(4, echelon.rank(), dtype=numpy.float32))
"""
from __future__ import annotations

from typing import Any, Dict, Optional, Union

from . import _library
from ._collectives import (allreduce, allreduce_async, barrier, barrier_async, broadcast,
                           broadcast_async, reduce_scatter, reduce_scatter_async)
from ._compression import Compression, Compressor
from ._constants import Average, Max, Min, Product, ReduceOp, Sum
from ._errors import (AbortedError, AuthError, EchelonError, InternalError, InvalidError,
                      MismatchError, NoMemoryError, PeerError, RankLostError, SystemCallError,
                      TimeoutError, UnsupportedError)
from ._gathers import allgather, allgather_object, broadcast_object
from ._groups import grouped_allreduce, grouped_allreduce_async
from ._process_sets import (ProcessSet, add_process_set, global_process_set, init, is_initialized,
                            remove_process_set, shutdown, unique_id)
from ._requests import Handle, poll, synchronize

__version__ = ".".join(map(str, _library.version()))


def rank() -> int:
    """This process's number among all ranks."""
    return global_process_set.rank()


def size() -> int:
    """How many ranks there are."""
    return global_process_set.size()


def local_rank() -> int:
    """This process's number among the ranks of its host."""
    return global_process_set.local_rank()


def local_size() -> int:
    """How many ranks this host has."""
    return global_process_set.local_size()


def cross_rank() -> int:
    """The number of this rank's host."""
    return global_process_set.cross_rank()


def cross_size() -> int:
    """How many hosts there are."""
    return global_process_set.cross_size()


def split(color: int, key: int = 0) -> Optional[ProcessSet]:
    """ProcessSet.split() of all ranks."""
    return global_process_set.split(color, key)


def shrink() -> None:
    """After a RankLostError, when the ranks that are left all call it: from now on these are all
    ranks, with new numbers in the old order. What add_process_set() made is ended. A rank that is
    silent is waited for and then left out, where it gets an AbortedError."""
    global_process_set.shrink()


def topology(format: str = "dict") -> Union[str, Dict[str, Any]]:
    """The fabric that the ranks found: "dict", "text", "json" or "toml"."""
    return global_process_set.topology(format)


def explain(collective: str = "allreduce", count: int = 1 << 20, dtype: str = "float32",
            op: ReduceOp = Sum, format: str = "text") -> Union[str, Dict[str, Any]]:
    """The plan for one operation, and why: "text", "json" or "dict"."""
    return global_process_set.explain(collective, count, dtype, op, format)


def abort() -> None:
    """Ends every operation of all ranks with AbortedError. May be called from any thread."""
    global_process_set.abort()


__all__ = [
    "AbortedError", "AuthError", "Average", "Compression", "Compressor", "EchelonError", "Handle",
    "InternalError", "InvalidError", "Max", "Min", "MismatchError", "NoMemoryError", "PeerError",
    "ProcessSet", "Product", "RankLostError", "ReduceOp", "Sum", "SystemCallError", "TimeoutError",
    "UnsupportedError", "abort", "add_process_set", "allgather", "allgather_object", "allreduce",
    "allreduce_async", "barrier", "barrier_async", "broadcast", "broadcast_async",
    "broadcast_object", "cross_rank", "cross_size", "explain", "global_process_set",
    "grouped_allreduce", "grouped_allreduce_async", "init", "is_initialized", "local_rank",
    "local_size", "poll", "rank", "reduce_scatter", "reduce_scatter_async", "remove_process_set",
    "shrink", "shutdown", "size", "split", "synchronize", "topology", "unique_id",
]
