# SPDX-License-Identifier: Apache-2.0
"""The same beginning on all ranks: parameters, and the state of an optimizer."""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

import torch

from .._collectives import set_of
from .._gathers import broadcast_object
from .._process_sets import ProcessSet
from ._calls import Caller, wait_all

class _Kind(NamedTuple):
    shape: Tuple[int, ...]
    dtype: torch.dtype
    device: str


Parameters = Union[Mapping[str, Any], Iterable[Tuple[str, Any]]]


def _broadcast(tensors: List[torch.Tensor], root: int, members: ProcessSet) -> None:
    """All at once."""
    dense = [t.detach() if t.is_contiguous() else t.detach().contiguous() for t in tensors]
    with members.driving():
        stream = torch.cuda.current_stream().cuda_stream if any(t.is_cuda for t in dense) else None
        caller = Caller(members, None, stream)
        wait_all([request for tensor in dense for request in caller.broadcast(tensor, root)])
    with torch.no_grad():
        for tensor, copy in zip(tensors, dense):
            if not tensor.is_contiguous():
                tensor.copy_(copy)


def broadcast_parameters(params: Parameters, root_rank: int = 0,
                         process_set: Optional[ProcessSet] = None) -> None:
    """Gives all ranks the tensors of rank `root_rank`, in place: of model.state_dict() or of
    model.named_parameters(). What is no tensor is left alone. Collective."""
    pairs = params.items() if isinstance(params, Mapping) else params
    tensors = [value for _, value in pairs if isinstance(value, torch.Tensor)]
    _broadcast(tensors, root_rank, set_of(process_set))


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0,
                              process_set: Optional[ProcessSet] = None) -> None:
    """Gives all ranks the state of the optimizer of rank `root_rank`: momenta, counts, learning
    rates. The others need not have made a step yet. Collective."""
    members = set_of(process_set)
    state = optimizer.state_dict()
    tensors = _tensors_of(state)
    told = broadcast_object(_described(state), root_rank, process_set=members)
    if members.rank() != root_rank:
        state, tensors = _rebuilt(told)
    _broadcast(tensors, root_rank, members)
    if members.rank() != root_rank:
        optimizer.load_state_dict(state)


def _tensors_of(state: Dict[str, Any]) -> List[torch.Tensor]:
    return [value for key in state["state"] for value in state["state"][key].values()
            if isinstance(value, torch.Tensor)]


def _described(state: Dict[str, Any]) -> Dict[str, Any]:
    """With its kind in place of each tensor."""
    described = {key: {name: _kind(value) if isinstance(value, torch.Tensor) else value
                       for name, value in values.items()}
                 for key, values in state["state"].items()}
    return {**state, "state": described}


def _kind(tensor: torch.Tensor) -> _Kind:
    return _Kind(tuple(tensor.shape), tensor.dtype, tensor.device.type)


def _rebuilt(told: Dict[str, Any]) -> Tuple[Dict[str, Any], List[torch.Tensor]]:
    tensors = []
    for values in told["state"].values():
        for name, value in values.items():
            if isinstance(value, _Kind):
                values[name] = torch.empty(value.shape, dtype=value.dtype, device=value.device)
                tensors.append(values[name])
    return told, tensors
