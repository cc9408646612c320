# SPDX-License-Identifier: Apache-2.0
"""The collectives of torch.distributed, from those of the library. Each function checks what it was
given and returns what the group's thread is to do: start requests, and later copy results to where
they belong. Tensors that are not contiguous, and lists of tensors, go through copies."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, List, Optional, Sequence

import torch

from .._constants import ReduceOp
from .._errors import InvalidError, MismatchError
from .._requests import Request
from ._calls import Caller, wait_all
from ._tensors import flat_pieces, joined

Tensors = Sequence[torch.Tensor]


@dataclass
class Started:
    """`finish` runs when the requests have ended."""

    requests: Sequence[Request] = ()
    finish: Callable[[], None] = lambda: None


Begin = Callable[[Caller], Started]


def named(name: str, begin: Begin) -> Begin:
    """The same, called so in the timeline."""
    return lambda caller: begin(replace(caller, name=name))


def _copy(pairs: Sequence[Sequence[torch.Tensor]]) -> Callable[[], None]:
    """Copies where there was one made; nothing where a tensor was used itself."""
    different = [(to, of) for to, of in pairs if to is not of]

    def finish() -> None:
        for to, of in different:
            to.copy_(of.reshape(to.shape))

    return finish


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def _check_types(tensors: Tensors) -> None:
    kinds = {tensor.dtype for tensor in tensors}
    if len(kinds) > 1:
        raise InvalidError(f"tensors of {sorted(map(str, kinds))}: expected one type")


def _check_counts(what: str, many: torch.Tensor, few: torch.Tensor, size: int) -> None:
    _check_types([many, few])
    if many.numel() != size * few.numel():
        raise InvalidError(f"{what}: {many.numel()} elements for {size} ranks with {few.numel()} "
                           "each")


def _check_list(what: str, given: Tensors, size: int) -> None:
    _check_types(given)
    if len(given) != size:
        raise InvalidError(f"{what}: {len(given)} tensors for {size} ranks")


def _alike(tensors: Tensors) -> bool:
    return len({tensor.numel() for tensor in tensors}) <= 1


def allreduce(tensors: Tensors, ops: Sequence[ReduceOp]) -> Begin:
    def begin(caller: Caller) -> Started:
        dense = [_dense(tensor) for tensor in tensors]
        requests = [r for t, op in zip(dense, ops) for r in caller.allreduce(t, op)]
        return Started(requests, _copy(list(zip(tensors, dense))))

    return begin


def broadcast(tensor: torch.Tensor, root: int) -> Begin:
    def begin(caller: Caller) -> Started:
        dense = _dense(tensor)
        return Started(caller.broadcast(dense, root), _copy([(tensor, dense)]))

    return begin


def reduce(tensor: torch.Tensor, op: ReduceOp, root: int) -> Begin:
    def begin(caller: Caller) -> Started:
        dense = _dense(tensor)
        is_root = caller.members.rank() == root
        return Started(caller.reduce(dense, op, root), _copy([(tensor, dense)] * is_root))

    return begin


def allgather_into(outputs: Tensors, inputs: Tensors, size: int) -> Begin:
    for received, sent in zip(outputs, inputs):
        _check_counts("allgather", received, sent, size)

    def begin(caller: Caller) -> Started:
        dense = [_dense(received) for received in outputs]
        requests = [r for sent, received in zip(inputs, dense)
                    for r in caller.allgather(_dense(sent), received)]
        return Started(requests, _copy(list(zip(outputs, dense))))

    return begin


def allgather(outputs: Tensors, sent: torch.Tensor, size: int) -> Begin:
    _check_list("allgather", [*outputs, sent], size + 1)

    def begin(caller: Caller) -> Started:
        flat = sent.new_empty(size * sent.numel())
        requests = caller.allgather(_dense(sent), flat)
        return Started(requests, _copy(list(zip(outputs, flat_pieces(flat, outputs)))))

    def begin_unequal(caller: Caller) -> Started:
        """A broadcast for each."""
        dense = [_dense(received) for received in outputs]
        dense[caller.members.rank()].copy_(sent.reshape(outputs[caller.members.rank()].shape))
        requests = [r for root, t in enumerate(dense) for r in caller.broadcast(t, root)]
        return Started(requests, _copy(list(zip(outputs, dense))))

    return begin if _alike([*outputs, sent]) else begin_unequal


def reduce_scatter_into(outputs: Tensors, inputs: Tensors, ops: Sequence[ReduceOp],
                        size: int) -> Begin:
    for received, sent in zip(outputs, inputs):
        _check_counts("reduce_scatter", sent, received, size)

    def begin(caller: Caller) -> Started:
        dense = [_dense(received) for received in outputs]
        requests = [r for sent, received, op in zip(inputs, dense, ops)
                    for r in caller.reduce_scatter(_dense(sent), received, op)]
        return Started(requests, _copy(list(zip(outputs, dense))))

    return begin


def reduce_scatter(received: torch.Tensor, inputs: Tensors, op: ReduceOp, size: int) -> Begin:
    _check_list("reduce_scatter", [*inputs, received], size + 1)

    def begin(caller: Caller) -> Started:
        dense = _dense(received)
        requests = caller.reduce_scatter(joined(inputs), dense, op)
        return Started(requests, _copy([(received, dense)]))

    def begin_unequal(caller: Caller) -> Started:
        """A reduce for each, to the rank whose it is; of copies, since it writes to them."""
        copies = [given.clone(memory_format=torch.contiguous_format) for given in inputs]
        requests = [r for root, t in enumerate(copies) for r in caller.reduce(t, op, root)]
        return Started(requests, _copy([(received, copies[caller.members.rank()])]))

    return begin if _alike([*inputs, received]) else begin_unequal


def gather(outputs: Optional[Tensors], sent: torch.Tensor, size: int) -> Begin:
    """An allgather, of which all but the root (`outputs`) forget the result."""
    if outputs is not None:
        _check_list("gather", [*outputs, sent], size + 1)
        if not _alike([*outputs, sent]):
            raise InvalidError("gather: tensors of different sizes")

    def begin(caller: Caller) -> Started:
        flat = sent.new_empty(size * sent.numel())
        requests = caller.allgather(_dense(sent), flat)
        parts = zip(outputs, flat_pieces(flat, outputs)) if outputs is not None else ()
        return Started(requests, _copy(list(parts)))

    return begin


def scatter(received: torch.Tensor, inputs: Optional[Tensors], root: int, size: int) -> Begin:
    """A broadcast of all parts, of which each rank keeps its own."""
    if inputs is not None:
        _check_list("scatter", [*inputs, received], size + 1)
        if not _alike([*inputs, received]):
            raise InvalidError("scatter: tensors of different sizes")

    def begin(caller: Caller) -> Started:
        count = received.numel()
        flat = received.new_empty(size * count) if inputs is None else joined(inputs)
        mine = flat[caller.members.rank() * count:][:count]
        return Started(caller.broadcast(flat, root), _copy([(received, mine)]))

    return begin


def barrier() -> Begin:
    return lambda caller: Started(caller.barrier())


def alltoall(outputs: Tensors, inputs: Tensors, size: int) -> Begin:
    """An allgather of everything, of which each rank keeps its own: right, but of `size` times the
    data that need to move. The ranks tell each other first how long their parts are."""
    _check_list("alltoall", outputs, size)
    _check_list("alltoall", inputs, size)
    _check_types([*outputs, *inputs])

    def begin(caller: Caller) -> Started:
        rank = caller.members.rank()
        table = _lengths(caller, inputs)
        expected = [received.numel() for received in outputs]
        if table[:, rank].tolist() != expected:
            raise MismatchError(f"alltoall: this rank expects {expected} elements, the others send "
                                f"it {table[:, rank].tolist()}")
        longest = int(table.sum(1).max())
        sent = inputs[0].new_empty(longest)
        whole = joined(inputs)
        sent[:whole.numel()] = whole
        flat = inputs[0].new_empty(size * longest)
        starts = [r * longest + int(table[r, :rank].sum()) for r in range(size)]
        mine = [flat[start:start + count] for start, count in zip(starts, expected)]
        return Started(caller.allgather(sent, flat), _copy(list(zip(outputs, mine))))

    return begin


def _lengths(caller: Caller, inputs: Tensors) -> torch.Tensor:
    """How many elements each rank (row) has for each (column). In host memory."""
    mine = torch.tensor([given.numel() for given in inputs])
    table = torch.empty(len(inputs), len(inputs), dtype=torch.int64)
    wait_all(Caller(caller.members, caller.timeout, None).allgather(mine, table))
    return table


def parts_of(tensor: torch.Tensor, splits: Sequence[int], size: int) -> List[torch.Tensor]:
    """Cut along the first dimension: as `splits` says, or evenly without them."""
    if len(splits) not in (0, size) or splits and sum(splits) != tensor.size(0):
        raise InvalidError(f"alltoall: splits {list(splits)} of {tensor.size(0)} rows for {size} "
                           "ranks")
    if not splits and tensor.size(0) % size != 0:
        raise InvalidError(f"alltoall: {tensor.size(0)} rows for {size} ranks")
    return list(tensor.split(list(splits) or tensor.size(0) // size)) if tensor.size(0) else \
        [tensor] * size
