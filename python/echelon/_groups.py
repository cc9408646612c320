# SPDX-License-Identifier: Apache-2.0
"""Several arrays in one go."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Type

from ._collectives import Part, Scaling, set_of, start_many
from ._compression import Compression, Compressor
from ._constants import Average, ReduceOp
from ._errors import InvalidError
from ._process_sets import ProcessSet
from ._requests import Handle


def grouped_allreduce_async(tensors: Sequence[Any], op: ReduceOp = Average, *,
                            name: Optional[str] = None,
                            compression: Type[Compressor] = Compression.none,
                            prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: Optional[ProcessSet] = None,
                            timeout: Optional[float] = None, out: Optional[Sequence[Any]] = None,
                            stream: Optional[int] = None) -> Handle:
    """Starts a grouped_allreduce(); synchronize() gives the list."""
    outs: Sequence[Any] = [None] * len(tensors) if out is None else out
    if len(outs) != len(tensors):
        raise InvalidError(f"out has {len(outs)} arrays, expected {len(tensors)}")
    scaling = Scaling(compression, prescale_factor, postscale_factor)
    parts = [Part(tensor, scaling, to, None, stream) for tensor, to in zip(tensors, outs)]
    requests = start_many(set_of(process_set), parts, op, timeout, stream, name)
    return Handle(requests, lambda: [part.result() for part in parts], name)


def grouped_allreduce(tensors: Sequence[Any], op: ReduceOp = Average, *,
                      name: Optional[str] = None,
                      compression: Type[Compressor] = Compression.none,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: Optional[ProcessSet] = None, timeout: Optional[float] = None,
                      out: Optional[Sequence[Any]] = None,
                      stream: Optional[int] = None) -> List[Any]:
    """allreduce() of each of a list of arrays: one operation for all that are of one type and in
    the same memory. `out` is a list of where the results go, `tensors` itself for in place."""
    return list(grouped_allreduce_async(
        tensors, op, name=name, compression=compression, prescale_factor=prescale_factor,
        postscale_factor=postscale_factor, process_set=process_set, timeout=timeout, out=out,
        stream=stream).wait())
