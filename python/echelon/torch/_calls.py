# SPDX-License-Identifier: Apache-2.0
"""The library's collectives on contiguous tensors, started but not waited for."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence

import torch

from .._arrays import View
from .._collectives import call_of
from .._constants import ReduceOp
from .._process_sets import ProcessSet
from .._requests import Request
from ._tensors import view_of


def wait_all(requests: Sequence[Request]) -> None:
    for request in requests:
        request.wait()
    for request in requests:
        if request.error is not None:
            raise request.error


@dataclass(frozen=True)
class Caller:
    """Those ranks, with the settings of one operation. What has no elements is not started."""

    members: ProcessSet
    timeout: Optional[float]
    stream: Optional[int]
    name: Optional[str] = None  # for the timeline

    def allreduce(self, tensor: torch.Tensor, op: ReduceOp) -> List[Request]:
        view = view_of(tensor)
        return self._start("iallreduce", view.count, [view],
                           (view.address, view.address, view.count, view.to_reduce().code, op))

    def reduce(self, tensor: torch.Tensor, op: ReduceOp, root: int) -> List[Request]:
        view = view_of(tensor)
        received = view.address if self.members.rank() == root else None
        return self._start("ireduce", view.count, [view],
                           (view.address, received, view.count, view.to_reduce().code, op, root))

    def broadcast(self, tensor: torch.Tensor, root: int) -> List[Request]:
        view = view_of(tensor)
        element, count = view.to_copy()
        return self._start("ibroadcast", count, [view],
                           (view.address, view.address, count, element.code, root))

    def allgather(self, sent: torch.Tensor, received: torch.Tensor) -> List[Request]:
        source, target = view_of(sent), view_of(received)
        element, count = source.to_copy()
        return self._start("iallgather", count, [source, target],
                           (source.address, target.address, count, element.code))

    def reduce_scatter(self, sent: torch.Tensor, received: torch.Tensor,
                       op: ReduceOp) -> List[Request]:
        source, target = view_of(sent), view_of(received)
        return self._start(
            "ireduce_scatter", target.count, [source, target],
            (source.address, target.address, target.count, source.to_reduce().code, op))

    def barrier(self) -> List[Request]:
        return self._start("ibarrier", 1, [], ())

    def _start(self, function: str, count: int, views: Sequence[View],
               arguments: Sequence[Any]) -> List[Request]:
        """The stream is not for what lies in host memory: the state of an optimizer may lie on both
        sides."""
        if count == 0:
            return []
        first = views[0] if views else None
        in_stream = first is None or first.on_gpu
        call = call_of(first, self.timeout, self.stream if in_stream else None, self.name)
        return [self.members.start(function, arguments, call, (views,))]
