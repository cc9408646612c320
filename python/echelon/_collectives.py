# SPDX-License-Identifier: Apache-2.0
"""Allreduce, broadcast, reduce-scatter and barrier.

What the functions have in common: `process_set` takes part, all ranks unless given; `out` is where
the result goes, a new array unless given, `tensor` itself for in place; `dtype` says what the
elements are where the array cannot ("bfloat16" for uint16); `timeout` is in seconds; `stream` is
the CUDA stream in which operations on arrays on a GPU begin, the default one unless given: only
their handles tell the end. Operations belong together by their order, which must be the same on all
ranks; `name` is only for the reader, of the handle and of the timeline (docs/timeline.md)."""
from __future__ import annotations

import ctypes
import numbers
from ctypes import c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

import numpy as np

from ._arrays import View, output_for, view_of
from ._compression import Compression, Compressor
from ._constants import FLOATING, Average, ReduceOp
from ._dlpack import LEGACY_STREAM
from ._errors import InvalidError
from ._library import Call
from ._process_sets import ProcessSet, global_process_set
from ._requests import Handle, Request


def set_of(process_set: Optional[ProcessSet]) -> ProcessSet:
    return global_process_set if process_set is None else process_set


def call_of(view: Optional[View], timeout: Optional[float], stream: Optional[int],
            name: Optional[str] = None) -> Call:
    """The settings of one operation. CUDA numbers its default stream 0, by which the library means
    none."""
    if view is not None and view.on_gpu:
        stream = stream or LEGACY_STREAM
    return Call(ctypes.sizeof(Call), timeout or 0, 0, stream, name.encode() if name else None)


def _expect_floats(view: View) -> None:
    if view.dtype not in FLOATING:
        raise InvalidError("only arrays of floating-point numbers can be scaled")


def _scaled(tensor: Any, factor: float) -> Any:
    """A copy, by the array's own arithmetic; the array itself where there is nothing to do."""
    if factor == 1:
        return tensor
    _expect_floats(view_of(tensor))
    if isinstance(tensor, np.ndarray):
        return np.multiply(tensor, factor, dtype=tensor.dtype)
    return tensor * factor


def _scale(view: View, factor: float) -> None:
    """In place."""
    if factor == 1:
        return
    array = view.array
    array *= factor


def _result(view: View, given: Any) -> Any:
    """A number for a number."""
    is_number = isinstance(given, (numbers.Number, np.generic))
    return view.array[()] if is_number else view.array


@dataclass(frozen=True)
class Scaling:
    """What happens to the elements on the way. The library multiplies, but where they are
    compressed: there NumPy does it, with all their bits."""

    compression: Type[Compressor] = Compression.none
    before: float = 1.0
    after: float = 1.0

    @property
    def by_library(self) -> bool:
        return self.compression is Compression.none

    @property
    def factors(self) -> Tuple[float, float]:
        """What the library is to multiply by."""
        return (self.before, self.after) if self.by_library else (1.0, 1.0)


class Part:
    """One array of an allreduce: what is sent, where the sum goes, and what the caller gets."""

    def __init__(self, tensor: Any, scaling: Scaling, out: Optional[Any], dtype: Optional[str],
                 stream: Optional[int]) -> None:
        self.scaling = scaling
        self._tensor, self._out = tensor, out
        scaled = tensor if scaling.by_library else _scaled(tensor, scaling.before)
        small, self._context = scaling.compression.compress(scaled)
        self._as_is = small is scaled
        self.sent = view_of(small, scaling.compression.dtype or dtype, stream)
        self.element = self.sent.to_reduce()
        if (scaling.before, scaling.after) != (1, 1):
            _expect_floats(self.sent)
        self.received = output_for(self.sent, out if self._as_is else None, self.sent.shape,
                                   stream)

    def result(self) -> Any:
        """When the operation has ended."""
        after = 1.0 if self.scaling.by_library else self.scaling.after
        if self._as_is:
            _scale(self.received, after)
            return _result(self.received, self._tensor)
        wide = self.scaling.compression.decompress(self.received.array, self._context)
        wide *= wide.dtype.type(after)
        if self._out is None:
            return wide
        self._out[...] = wide
        return self._out


def start_many(members: ProcessSet, parts: Sequence[Part], op: ReduceOp, timeout: Optional[float],
               stream: Optional[int], name: Optional[str]) -> List[Request]:
    """One operation for those that are alike: of one type and in the same memory."""
    alike: Dict[Tuple[int, bool], List[Part]] = {}
    for part in parts:
        alike.setdefault((part.element.code, part.sent.on_gpu), []).append(part)
    requests = []
    for (code, _), group in alike.items():
        pointers, sizes = c_void_p * len(group), c_size_t * len(group)
        requests.append(members.start(
            "iallreduce_many",
            (pointers(*[part.sent.address for part in group]),
             pointers(*[part.received.address for part in group]),
             sizes(*[part.sent.count for part in group]), len(group), code, op,
             *group[0].scaling.factors),
            call_of(group[0].sent, timeout, stream, name),
            [(part.sent, part.received) for part in group]))
    return requests


def allreduce_async(tensor: Any, op: ReduceOp = Average, *, name: Optional[str] = None,
                    compression: Type[Compressor] = Compression.none,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: Optional[ProcessSet] = None, out: Optional[Any] = None,
                    dtype: Optional[str] = None, timeout: Optional[float] = None,
                    stream: Optional[int] = None) -> Handle:
    """Starts an allreduce(); synchronize() gives its result. Progress is made inside calls of this
    module: call poll() now and then when computing meanwhile."""
    members = set_of(process_set)
    part = Part(tensor, Scaling(compression, prescale_factor, postscale_factor), out, dtype, stream)
    if part.scaling.factors != (1, 1):
        return Handle(start_many(members, [part], op, timeout, stream, name), part.result, name)
    sent, received = part.sent, part.received
    request = members.start(
        "iallreduce", (sent.address, received.address, sent.count, part.element.code, op),
        call_of(sent, timeout, stream, name), (sent, received))
    return Handle([request], part.result, name)


def allreduce(tensor: Any, op: ReduceOp = Average, *, name: Optional[str] = None,
              compression: Type[Compressor] = Compression.none, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: Optional[ProcessSet] = None,
              out: Optional[Any] = None, dtype: Optional[str] = None,
              timeout: Optional[float] = None, stream: Optional[int] = None) -> Any:
    """The average, or what `op` says, of the arrays of all ranks: the same bits on every rank."""
    return allreduce_async(tensor, op, name=name, compression=compression,
                           prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                           process_set=process_set, out=out, dtype=dtype, timeout=timeout,
                           stream=stream).wait()


def broadcast_async(tensor: Any, root_rank: int, *, name: Optional[str] = None,
                    process_set: Optional[ProcessSet] = None, out: Optional[Any] = None,
                    timeout: Optional[float] = None, stream: Optional[int] = None) -> Handle:
    """Starts a broadcast(); synchronize() gives its result."""
    members = set_of(process_set)
    sent = view_of(tensor, None, stream)
    received = output_for(sent, out, sent.shape, stream)
    element, count = sent.to_copy()
    request = members.start(
        "ibroadcast", (sent.address, received.address, count, element.code, root_rank),
        call_of(sent, timeout, stream, name), (sent, received))
    return Handle([request], lambda: _result(received, tensor), name)


def broadcast(tensor: Any, root_rank: int, *, name: Optional[str] = None,
              process_set: Optional[ProcessSet] = None, out: Optional[Any] = None,
              timeout: Optional[float] = None, stream: Optional[int] = None) -> Any:
    """The array of rank `root_rank` of the process set, on every rank. Arrays of any type; on the
    other ranks `tensor` says only its type and shape."""
    return broadcast_async(tensor, root_rank, name=name, process_set=process_set, out=out,
                           timeout=timeout, stream=stream).wait()


def reduce_scatter_async(tensor: Any, op: ReduceOp = Average, *, name: Optional[str] = None,
                         process_set: Optional[ProcessSet] = None, out: Optional[Any] = None,
                         dtype: Optional[str] = None, timeout: Optional[float] = None,
                         stream: Optional[int] = None) -> Handle:
    """Starts a reduce_scatter(); synchronize() gives its result."""
    members = set_of(process_set)
    sent = view_of(tensor, dtype, stream)
    element, size = sent.to_reduce(), members.size()
    if sent.shape == () or sent.shape[0] % size != 0:
        raise InvalidError(f"the first dimension of shape {sent.shape} is not a multiple of the "
                           f"{size} ranks")
    shape = (sent.shape[0] // size, *sent.shape[1:])
    received = output_for(sent, out, shape, stream)
    request = members.start(
        "ireduce_scatter",
        (sent.address, received.address, received.count, element.code, op),
        call_of(sent, timeout, stream, name), (sent, received))
    return Handle([request], lambda: received.array, name)


def reduce_scatter(tensor: Any, op: ReduceOp = Average, *, name: Optional[str] = None,
                   process_set: Optional[ProcessSet] = None, out: Optional[Any] = None,
                   dtype: Optional[str] = None, timeout: Optional[float] = None,
                   stream: Optional[int] = None) -> Any:
    """This rank's part of the reduced array: of as many equal parts of the first dimension as there
    are ranks, the one with the rank's number."""
    return reduce_scatter_async(tensor, op, name=name, process_set=process_set, out=out,
                                dtype=dtype, timeout=timeout, stream=stream).wait()


def barrier_async(*, process_set: Optional[ProcessSet] = None,
                  timeout: Optional[float] = None) -> Handle:
    """Starts a barrier()."""
    request: Request = set_of(process_set).start("ibarrier", (), call_of(None, timeout, None), ())
    return Handle([request], lambda: None)


def barrier(*, process_set: Optional[ProcessSet] = None, timeout: Optional[float] = None) -> None:
    """Returns when every rank has called it."""
    barrier_async(process_set=process_set, timeout=timeout).wait()
