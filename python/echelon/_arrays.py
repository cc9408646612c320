# SPDX-License-Identifier: Apache-2.0
"""Arrays of NumPy and of others as the library sees them: an address, a type and a count."""
from __future__ import annotations

import numbers
import sys
from dataclasses import dataclass, replace
from typing import Any, Optional, Tuple

import numpy as np

from . import _dlpack
from ._constants import TYPES, UINT8, ElementType
from ._errors import InvalidError

Shape = Tuple[int, ...]


@dataclass(frozen=True)
class View:
    """`array` is what the caller knows it by, `owner` keeps the memory. `dtype` is what the library
    takes the elements for, `stored` what the array says that they are."""

    array: Any
    owner: Any
    address: int
    shape: Shape
    dtype: str
    stored: str
    itemsize: int
    writable: bool
    on_gpu: bool

    @property
    def count(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count

    def to_reduce(self) -> ElementType:
        if self.dtype not in TYPES:
            raise InvalidError(f"dtype {self.dtype} cannot be reduced; expected one of "
                               + ", ".join(TYPES))
        return TYPES[self.dtype]

    def to_copy(self) -> Tuple[ElementType, int]:
        """Type and count of the elements; bytes where the library does not know the type."""
        known = TYPES.get(self.dtype)
        return (known, self.count) if known else (UINT8, self.count * self.itemsize)


def _of_numpy(given: "np.ndarray[Any, Any]", array: Any) -> View:
    if not given.dtype.isnative or given.dtype.hasobject:
        raise InvalidError(f"dtype {given.dtype} has no elements of this machine's own kind")
    if not given.flags.c_contiguous:
        raise InvalidError(f"the array of shape {given.shape} is not C-contiguous; "
                           "numpy.ascontiguousarray makes a copy that is")
    address: int = given.__array_interface__["data"][0]
    name = given.dtype.name
    return View(array, given, address, given.shape, name, name, given.dtype.itemsize,
                given.flags.writeable, False)


def _of_dlpack(given: Any, stream: Optional[int]) -> View:
    tensor = _dlpack.Tensor(given, stream)
    if not tensor.contiguous:
        raise InvalidError(f"the tensor of shape {tensor.shape} is not C-contiguous; make a copy "
                           "that is")
    return View(given, tensor, tensor.address, tensor.shape, tensor.dtype, tensor.dtype,
                tensor.itemsize, True, tensor.on_gpu)


def _retyped(view: View, dtype: str) -> View:
    if dtype not in TYPES:
        raise InvalidError(f'dtype "{dtype}" is none; expected one of ' + ", ".join(TYPES))
    if TYPES[dtype].size != view.itemsize:
        raise InvalidError(f"elements of {dtype} have {TYPES[dtype].size} bytes, those of the "
                           f"{view.dtype} array {view.itemsize}")
    return replace(view, dtype=dtype)


def view_of(array: Any, dtype: Optional[str] = None, stream: Optional[int] = None) -> View:
    """No copy is made, but of plain numbers. `dtype` says what the elements are where NumPy has no
    name for it: "bfloat16" for an array of uint16."""
    if isinstance(array, np.ndarray):
        view = _of_numpy(array, array)
    elif hasattr(array, "__dlpack__"):
        view = _of_dlpack(array, stream)
    elif isinstance(array, (numbers.Number, np.generic)):
        made = np.asarray(array)
        view = _of_numpy(made, made)
    elif hasattr(array, "__array_interface__") or _has_buffer(array):
        view = _of_numpy(np.asarray(array), array)
    else:
        raise InvalidError(f"a {type(array).__name__} is no array: neither NumPy's, nor with "
                           "DLPack, nor a buffer")
    return view if dtype is None else _retyped(view, dtype)


def _has_buffer(array: Any) -> bool:
    try:
        memoryview(array).release()
    except TypeError:
        return False
    return True


def output_for(view: View, out: Optional[Any], shape: Shape, stream: Optional[int]) -> View:
    """Where a result of this shape goes: `out`, or a new array of the kind that was given."""
    made = view_of(_empty(view, shape) if out is None else out, None, stream)
    if not made.writable:
        raise InvalidError("out is read-only")
    if made.shape != shape or made.stored != view.stored:
        raise InvalidError(f"out is {made.stored} of shape {made.shape}, expected {view.stored} "
                           f"of shape {shape}")
    return replace(made, dtype=view.dtype)


def _empty(view: View, shape: Shape) -> Any:
    """A new array of the same kind, on the same device, as the one behind the view."""
    if isinstance(view.owner, np.ndarray):
        return np.empty(shape, dtype=view.owner.dtype)
    array = view.array
    if hasattr(array, "new_empty"):  # PyTorch
        return array.new_empty(shape)
    module: Any = sys.modules.get(type(array).__module__.partition(".")[0])
    if hasattr(module, "empty") and hasattr(array, "dtype"):  # CuPy and others like NumPy
        return module.empty(shape, dtype=array.dtype)
    if view.on_gpu or view.stored == "bfloat16":
        raise InvalidError(f"a new {type(array).__name__} cannot be made here: give one as out")
    return np.empty(shape, dtype=view.stored)
