# SPDX-License-Identifier: Apache-2.0
"""Several arrays in one go."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Type

import numpy as np

from ._collectives import allreduce_async
from ._compression import Compression, Compressor
from ._constants import Average, ReduceOp
from ._process_sets import ProcessSet
from ._requests import Handle

# Arrays up to this many bytes travel together: packing them costs less than their own messages.
_PACKED = 64 << 10


def _packs(tensors: Sequence[Any]) -> List[List[int]]:
    """Which arrays travel together; the same on all ranks, whose arrays are alike."""
    small: Dict[str, List[int]] = {}
    packs: List[List[int]] = []
    for k, tensor in enumerate(tensors):
        if not isinstance(tensor, np.ndarray) or tensor.nbytes > _PACKED:
            packs.append([k])
            continue
        name = tensor.dtype.str
        if name not in small:
            small[name] = []
            packs.append(small[name])
        small[name].append(k)
    return packs


def _unpack(packed: "np.ndarray[Any, Any]", like: Sequence[Any]) -> List[Any]:
    ends = np.cumsum([array.size for array in like])
    return [part.reshape(array.shape) for part, array in zip(np.split(packed, ends[:-1]), like)]


def grouped_allreduce_async(tensors: Sequence[Any], op: ReduceOp = Average, *,
                            name: Optional[str] = None,
                            compression: Type[Compressor] = Compression.none,
                            prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: Optional[ProcessSet] = None,
                            timeout: Optional[float] = None) -> Handle:
    """Starts a grouped_allreduce(); synchronize() gives the list."""
    packs = _packs(tensors)
    handles: List[Handle] = []
    for pack in packs:
        whole = tensors[pack[0]] if len(pack) == 1 else \
            np.concatenate([tensors[k].ravel() for k in pack])
        handles.append(allreduce_async(
            whole, op, name=name, compression=compression, prescale_factor=prescale_factor,
            postscale_factor=postscale_factor, process_set=process_set, timeout=timeout))

    def result() -> List[Any]:
        results: List[Any] = [None] * len(tensors)
        for pack, handle in zip(packs, handles):
            value = handle.wait()
            parts = [value] if len(pack) == 1 else _unpack(value, [tensors[k] for k in pack])
            for k, part in zip(pack, parts):
                results[k] = part
        return results

    return Handle([request for handle in handles for request in handle.requests], result, name)


def grouped_allreduce(tensors: Sequence[Any], op: ReduceOp = Average, *,
                      name: Optional[str] = None,
                      compression: Type[Compressor] = Compression.none,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: Optional[ProcessSet] = None,
                      timeout: Optional[float] = None) -> List[Any]:
    """allreduce() of each of a list of arrays. NumPy arrays of up to 64 KiB are copied together, by
    type, and travel as one; the others go as they are, all at once."""
    return list(grouped_allreduce_async(
        tensors, op, name=name, compression=compression, prescale_factor=prescale_factor,
        postscale_factor=postscale_factor, process_set=process_set, timeout=timeout).wait())
