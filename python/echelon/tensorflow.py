# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 2: the tensors, gradients and variables of all ranks, in eager code and in tf.function.

    import echelon.tensorflow as ech

    with ech.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = model(mine)
    gradients = tape.gradient(loss, weights)  # the averages over all ranks

In a tf.function every call becomes one operation that calls back into Python. Those operations run
one after the other, in the order of the program, which must be the same on all ranks."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Type

import numpy as np
import tensorflow as tf  # type: ignore

import echelon

from ._collectives import set_of
from ._compression import Compression, Compressor
from ._constants import Average, Max, Min, Product, ReduceOp, Sum
from ._errors import InvalidError
from ._process_sets import ProcessSet, init, is_initialized, shutdown
from ._rooms import Rooms

cross_rank, cross_size = echelon.cross_rank, echelon.cross_size
local_rank, local_size = echelon.local_rank, echelon.local_size
rank, size = echelon.rank, echelon.size

# Gradients travel together up to this many bytes, so that the first leave while others are computed.
BUCKET_BYTES = 32 << 20

# Of the gradients of variables.
_rooms = Rooms()

Arrays = Sequence[Any]

_turn: Any = None


def _order() -> Any:
    """The variable that every operation of a tf.function reads before and writes after it: by that
    TensorFlow runs them in the order of the program, through branches and loops too."""
    global _turn
    if _turn is None:
        with tf.init_scope(), tf.device("/cpu:0"):
            _turn = tf.Variable(0, trainable=False, dtype=tf.int32, name="echelon_order")
    return _turn


def _on_arrays(function: Callable[[Arrays], Arrays], tensors: Arrays) -> List[Any]:
    """The tensors that function makes of the tensors, as NumPy arrays; of the same types."""
    if tf.executing_eagerly():
        made = function([np.asarray(tensor) for tensor in tensors])
        return [tf.convert_to_tensor(array) for array in made]
    order = _order()

    def in_turn(turn: Any, *arrays: Any) -> List[Any]:
        return [turn, *function(arrays)]

    types = [order.dtype, *(tensor.dtype for tensor in tensors)]
    turn, *results = tf.numpy_function(in_turn, [order.read_value(), *tensors], types)
    order.assign(turn)
    return list(results)


def _shaped_like(results: Arrays, tensors: Arrays) -> List[Any]:
    """What TensorFlow does not know of what came from Python."""
    return [tf.ensure_shape(result, tensor.shape) for result, tensor in zip(results, tensors)]


@dataclass(frozen=True)
class Reduction:
    """How the gradients of all ranks become one."""

    op: ReduceOp = Average
    compression: Type[Compressor] = Compression.none
    sparse_as_dense: bool = False
    bucket_bytes: int = BUCKET_BYTES
    process_set: Optional[ProcessSet] = None
    name: str = "bucket"  # in the timeline; with a number where there are several buckets

    def of(self, gradients: Arrays) -> List[Any]:
        """Tensors and tf.IndexedSlices; None stays None, and must be None on all ranks."""
        results = [self._prepared(gradient) for gradient in gradients]
        dense = [k for k, g in enumerate(results) if g is not None and not _is_sparse(g)]
        buckets = _buckets([results[k] for k in dense], self.bucket_bytes)
        for number, bucket in enumerate(buckets):
            name = self.name if len(buckets) == 1 else f"{self.name} {number}"
            places = [dense[k] for k in bucket]
            for k, reduced in zip(places, self._dense([results[k] for k in places], name)):
                results[k] = reduced
        return [self._sparse(g) if _is_sparse(g) else g for g in results]

    def of_variables(self, gradients: Arrays) -> List[Any]:
        """Like of(), for gradients that have the same shapes in every step."""
        if not tf.executing_eagerly():
            dense = [self._prepared(gradient) for gradient in gradients]
            _rooms.prepare([_bytes(g) for g in dense if g is not None and not _is_sparse(g)])
        return self.of(gradients)

    def _prepared(self, gradient: Any) -> Any:
        if gradient is None or _is_sparse(gradient) and not self.sparse_as_dense:
            return gradient
        return tf.convert_to_tensor(gradient)

    def _dense(self, tensors: Arrays, name: str) -> List[Any]:
        def reduce(arrays: Arrays) -> Arrays:
            return echelon.grouped_allreduce(arrays, self.op, compression=self.compression,
                                             process_set=self.process_set, name=name,
                                             out=[_rooms.like(array) for array in arrays])

        return _shaped_like(_on_arrays(reduce, tensors), tensors)

    def _sparse(self, slices: Any) -> Any:
        """The slices of all ranks, in rank order. An index that several ranks have is there several
        times, which means the sum."""
        if self.op not in (Sum, Average):
            raise InvalidError(f"{self.op.name} of tf.IndexedSlices: only Sum and Average can be "
                               "had without sparse_as_dense")

        def gather(arrays: Arrays) -> Arrays:
            indices, values = (echelon.allgather(array, process_set=self.process_set)
                               for array in arrays)
            if self.op == Average:
                values /= values.dtype.type(set_of(self.process_set).size())
            return [indices, values]

        indices, values = _on_arrays(gather, [slices.indices, slices.values])
        indices = tf.ensure_shape(indices, [None])
        values = tf.ensure_shape(values, [None, *slices.values.shape[1:]])
        return tf.IndexedSlices(values, indices, slices.dense_shape)


def _is_sparse(gradient: Any) -> bool:
    return isinstance(gradient, tf.IndexedSlices)


def _buckets(tensors: Arrays, limit: int) -> List[List[int]]:
    """Which travel together: from the last on, because the gradients of the last layers are there
    first."""
    buckets: List[List[int]] = []
    filled = limit
    for k in reversed(range(len(tensors))):
        if filled >= limit:
            buckets.append([])
            filled = 0
        buckets[-1].append(k)
        filled += _bytes(tensors[k])
    return buckets


def _bytes(tensor: Any) -> int:
    """0 where a tf.function does not know its shape yet."""
    return tensor.dtype.size * (tensor.shape.num_elements() or 0)


def allreduce(tensor: Any, op: ReduceOp = Average, *, name: Optional[str] = None,
              compression: Type[Compressor] = Compression.none, sparse_as_dense: bool = False,
              process_set: Optional[ProcessSet] = None) -> Any:
    """The average, or what `op` says, of the tensors of all ranks; of a tf.IndexedSlices the slices
    of all ranks. Sums and averages have gradients: the same of the gradients. `name` is that of the
    operation in the timeline."""
    return grouped_allreduce([tensor], op, name=name, compression=compression,
                             sparse_as_dense=sparse_as_dense, process_set=process_set)[0]


def grouped_allreduce(tensors: Arrays, op: ReduceOp = Average, *, name: Optional[str] = None,
                      compression: Type[Compressor] = Compression.none,
                      sparse_as_dense: bool = False,
                      process_set: Optional[ProcessSet] = None) -> List[Any]:
    """allreduce() of each of a list of tensors, in as few operations as possible."""
    reduction = Reduction(op, compression, sparse_as_dense, process_set=process_set,
                          name=name or "bucket")
    if any(tensor is None or _is_sparse(tensor) for tensor in tensors):
        return reduction.of(tensors)

    def reduced(*given: Any) -> Any:
        def gradient(*upstream: Any) -> List[Any]:
            if op not in (Sum, Average):
                raise InvalidError(f"an allreduce by {op.name} has no gradient")
            return reduction.of(upstream)

        return reduction.of(given), gradient

    given = [tf.convert_to_tensor(tensor) for tensor in tensors]
    return list(tf.custom_gradient(reduced)(*given))


def broadcast(tensor: Any, root_rank: int, *, name: Optional[str] = None,
              process_set: Optional[ProcessSet] = None) -> Any:
    """The tensor of rank `root_rank` of the process set, on every rank. `name`: as of allreduce()."""
    return _broadcast([tf.convert_to_tensor(tensor)], root_rank, process_set, [name])[0]


def broadcast_variables(variables: Arrays, root_rank: int = 0, *,
                        process_set: Optional[ProcessSet] = None) -> None:
    """Gives variables of TensorFlow or Keras the values that they have on rank `root_rank`."""
    targets = [v if isinstance(v, tf.Variable) else v.value for v in variables]
    values = _broadcast([v.read_value() for v in targets], root_rank, process_set,
                        [v.name for v in targets])
    for variable, value in zip(targets, values):
        variable.assign(value)


def _broadcast(tensors: Arrays, root_rank: int, process_set: Optional[ProcessSet],
               names: Sequence[Optional[str]]) -> List[Any]:
    def send(arrays: Arrays) -> Arrays:
        handles = [echelon.broadcast_async(array, root_rank, process_set=process_set, name=name)
                   for array, name in zip(arrays, names)]
        return [handle.wait() for handle in handles]

    return _shaped_like(_on_arrays(send, tensors), tensors)


class DistributedGradientTape:
    """A tf.GradientTape whose gradients are those of all ranks. Everything else is the tape's."""

    def __init__(self, tape: Any, *, op: ReduceOp = Average,
                 compression: Type[Compressor] = Compression.none, sparse_as_dense: bool = False,
                 bucket_bytes: int = BUCKET_BYTES,
                 process_set: Optional[ProcessSet] = None) -> None:
        self._tape = tape
        self._reduction = Reduction(op, compression, sparse_as_dense, bucket_bytes, process_set)

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._tape.__exit__(*exception)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def gradient(self, target: Any, sources: Any, *arguments: Any, **named: Any) -> Any:
        mine = self._tape.gradient(target, sources, *arguments, **named)
        return tf.nest.pack_sequence_as(mine, self._reduction.of_variables(tf.nest.flatten(mine)))


__all__ = [
    "Average", "BUCKET_BYTES", "Compression", "DistributedGradientTape", "Max", "Min", "Product",
    "Sum", "allreduce", "broadcast", "broadcast_variables", "cross_rank", "cross_size",
    "grouped_allreduce", "init", "is_initialized", "local_rank", "local_size", "rank", "shutdown",
    "size",
]
