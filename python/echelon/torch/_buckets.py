# SPDX-License-Identifier: Apache-2.0
"""Gradients that are reduced together: which, and when."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Type

import torch

from .._constants import FLOATING, ReduceOp
from .._errors import InvalidError
from . import _collectives
from ._compression import Compressor
from ._driver import Driver
from ._tensors import flat_pieces, name_of
from ._work import Work


class Bucket:
    """Some parameters, and one flat tensor in which their gradients travel."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter],
                 dtype: Optional[torch.dtype]) -> None:
        first = parameters[0]
        self.parameters = list(parameters)
        self.flat = torch.zeros(sum(p.numel() for p in parameters), dtype=dtype or first.dtype,
                                device=first.device)
        self.pieces = flat_pieces(self.flat, parameters)
        self.missing = len(parameters)
        self.work: Optional[Work] = None

    def pack(self, factor: float) -> None:
        """A parameter that took no part in the loss counts as one whose gradient is zero."""
        for parameter, piece in zip(self.parameters, self.pieces):
            if parameter.grad is None:
                piece.zero_()
            elif parameter.grad.is_sparse:
                raise InvalidError("sparse gradients: give the embedding sparse=False")
            elif parameter.grad.data_ptr() != piece.data_ptr():  # else zeroed in place since
                piece.copy_(parameter.grad)
        if factor != 1:
            self.flat.mul_(factor)

    def unpack(self, factor: float) -> None:
        """The pieces become the gradients. Those of another type or layout are copied."""
        for parameter, piece in zip(self.parameters, self.pieces):
            if piece.dtype == parameter.dtype and piece.stride() == parameter.stride():
                parameter.grad = piece
            else:
                if parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter)
                parameter.grad.copy_(piece)
            if factor != 1:
                parameter.grad.mul_(factor)


def fill(parameters: Sequence[torch.nn.Parameter], limit: int,
         compression: Type[Compressor]) -> List[Bucket]:
    """The last parameters first, as their gradients come; each bucket of one type on one device."""
    buckets: List[Bucket] = []
    open: Dict[Any, List[torch.nn.Parameter]] = {}

    def close(kind: Any) -> None:
        dtype = compression.dtype if kind[0].is_floating_point else None
        buckets.append(Bucket(open.pop(kind), dtype))

    for parameter in reversed(parameters):
        kind = parameter.dtype, parameter.device
        if name_of(parameter.dtype) not in FLOATING:
            raise InvalidError(f"a parameter of {parameter.dtype}: expected one of "
                               + ", ".join(FLOATING))
        size = parameter.numel() * parameter.element_size()
        held = sum(p.numel() * p.element_size() for p in open.get(kind, ()))
        if held and held + size > limit:
            close(kind)
        open.setdefault(kind, []).append(parameter)
    for kind in list(open):
        close(kind)
    return buckets


class Buckets:
    """They are reduced in their order, which is the same on all ranks, whatever the order in which
    gradients come: one that is complete waits for those before it."""

    def __init__(self, buckets: List[Bucket], driver: Driver, op: ReduceOp,
                 factors: Sequence[float]) -> None:
        self._buckets = buckets
        self._of = {p: bucket for bucket in self._buckets for p in bucket.parameters}
        self._driver, self._op, self._factors = driver, op, factors
        self._next = 0

    def ready(self, parameter: torch.nn.Parameter) -> None:
        self._of[parameter].missing -= 1
        while self._next < len(self._buckets) and self._buckets[self._next].missing <= 0:
            self._send()

    def finish(self) -> None:
        """Sends what is left, and puts the results into the gradients."""
        while self._next < len(self._buckets):
            self._send()
        works = [bucket.work for bucket in self._buckets]
        self.forget()
        for bucket, work in zip(self._buckets, works):
            assert work is not None
            work.wait()
            bucket.unpack(self._factors[1])

    def forget(self) -> None:
        """Begins anew."""
        self._next = 0
        for bucket in self._buckets:
            bucket.missing, bucket.work = len(bucket.parameters), None

    @property
    def under_way(self) -> bool:
        return self._next > 0

    def _send(self) -> None:
        name = f"bucket {self._next}"
        bucket = self._buckets[self._next]
        self._next += 1
        with torch.no_grad():
            bucket.pack(self._factors[0])
        begin = _collectives.named(name, _collectives.allreduce([bucket.flat], [self._op]))
        bucket.work = self._driver.submit(begin, [bucket.flat], bucket.flat.device, None)
