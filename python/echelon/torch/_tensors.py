# SPDX-License-Identifier: Apache-2.0
"""Tensors as the library sees them, and PyTorch's reductions in its words."""
from __future__ import annotations

from typing import Any, List, Sequence

import torch
import torch.distributed as dist

from .._arrays import View
from .._constants import FLOATING, TYPES, ReduceOp
from .._errors import InvalidError, UnsupportedError

_OPS = {
    dist.ReduceOp.SUM: ReduceOp.Sum,
    dist.ReduceOp.AVG: ReduceOp.Average,
    dist.ReduceOp.PRODUCT: ReduceOp.Product,
    dist.ReduceOp.MIN: ReduceOp.Min,
    dist.ReduceOp.MAX: ReduceOp.Max,
}
# For zeros and ones in bytes: the sum of truth values is their disjunction.
_BOOL_OPS = {ReduceOp.Sum: ReduceOp.Max, ReduceOp.Product: ReduceOp.Min,
             ReduceOp.Min: ReduceOp.Min, ReduceOp.Max: ReduceOp.Max}


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).rpartition(".")[2]


def view_of(tensor: torch.Tensor) -> View:
    """Of a contiguous tensor. Without DLPack, which does not take every type."""
    name = "uint8" if tensor.dtype == torch.bool else name_of(tensor.dtype)
    return View(tensor, tensor, tensor.data_ptr(), tuple(tensor.shape), name, name,
                tensor.element_size(), True, tensor.is_cuda)


def reduction(given: Any, tensor: torch.Tensor) -> ReduceOp:
    """What the library calls an operator, for elements like those of the tensor."""
    found = next((op for word, op in _OPS.items() if given == word), None)
    if found is None:
        raise UnsupportedError(f"operator {given} is none of SUM, AVG, PRODUCT, MIN and MAX")
    if tensor.dtype == torch.bool:
        if found not in _BOOL_OPS:
            raise UnsupportedError("truth values have no average")
        return _BOOL_OPS[found]
    name = name_of(tensor.dtype)
    if name not in TYPES:
        raise UnsupportedError(f"tensors of {name} cannot be reduced; expected one of bool, "
                               + ", ".join(TYPES))
    if found == ReduceOp.Average and name not in FLOATING:
        raise UnsupportedError(f"tensors of {name} have no average: only those of floating-point "
                               "numbers do")
    return found


def check_place(tensors: Sequence[torch.Tensor]) -> torch.device:
    """The device on which all of them are."""
    devices = {tensor.device for tensor in tensors}
    if len(devices) != 1:
        raise InvalidError(f"tensors on {sorted(map(str, devices))}: expected one device")
    device = devices.pop()
    if device.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"tensors on {device}: expected cpu or cuda")
    if any(tensor.layout != torch.strided for tensor in tensors):
        raise UnsupportedError("sparse tensors: expected dense ones")
    return device


def one(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """torch.distributed gives a list for the tensors of several GPUs of one process."""
    if len(tensors) != 1:
        raise UnsupportedError(f"{len(tensors)} tensors of one rank: expected one")
    return tensors[0]


def flat_pieces(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """Views of a tensor of one dimension, in the shapes of others."""
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like)]


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A copy of all of them, one after the other."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
