# SPDX-License-Identifier: Apache-2.0
"""The c10d backend "echelon": a torch.distributed.ProcessGroup in Python."""
from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence, TypeVar

import torch
import torch.distributed as dist

from .._errors import InvalidError, RankLostError, UnsupportedError
from . import _collectives
from ._collectives import Begin, parts_of
from ._driver import Driver
from ._meeting import meet_in
from ._point_to_point import Mailbox
from ._tensors import check_place, one, reduction
from ._work import Together, seconds_of

Tensors = List[torch.Tensor]
Method = TypeVar("Method", bound=Callable[..., Any])

_CPU = torch.device("cpu")


def _tensors_in(arguments: Sequence[Any]) -> Any:
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _tensors_in(argument)


def _by_device(method: Method) -> Method:
    """For "cpu:echelon,cuda:nccl": what lies on the other device goes to the other backend."""

    @functools.wraps(method)
    def routed(self: ProcessGroup, *arguments: Any, **named: Any) -> Any:
        first = next(_tensors_in(arguments), None)
        other = None if first is None else self._other_backend(first.device.type)
        if other is not None:
            return getattr(other, method.__name__)(*arguments, **named)
        return self._collected(method(self, *arguments, **named))

    return routed  # type: ignore[return-value]


class ProcessGroup(dist.ProcessGroup):
    """Operations are done by the group's own thread, in the order of the calls."""

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._store, self._number, self._count, self._timeout = store, rank, size, timeout
        self._driver: Optional[Driver] = None
        self._gpu: Optional[torch.device] = None
        self._mailbox = Mailbox(store, rank, size, timeout.total_seconds())
        self._others: Dict[str, Any] = {}
        self._coalescing: Optional[List[Any]] = None
        self._group_name = self._group_desc = "undefined"

    # ---- what it is --------------------------------------------------------------------------

    def getBackendName(self) -> str:
        return "echelon"

    def name(self) -> str:
        return "echelon"

    def setGroupName(self, name: str) -> None:
        self._group_name = name

    def getGroupName(self) -> str:
        return self._group_name

    def setGroupDesc(self, text: str) -> None:
        self._group_desc = text

    def getGroupDesc(self) -> str:
        return self._group_desc

    def getRank(self) -> int:
        return self._number

    def getSize(self) -> int:
        return self._count

    def _set_sequence_number_for_group(self) -> None:
        """Operations belong together by their order alone."""

    def _get_sequence_number_for_group(self) -> int:
        return 0

    def _get_backend(self, device: Any) -> Any:
        return self._other_backend(torch.device(device).type) or self

    def _other_backend(self, kind: str) -> Any:
        if kind not in self._others:
            configured = dist.distributed_c10d._world.pg_backend_config.get(self, "")
            chosen = dict(pair.split(":") for pair in configured.split(",") if ":" in pair)
            backend = chosen.get(kind, "echelon").lower()
            self._others[kind] = None if backend == "echelon" else self._make(backend, kind)
        return self._others[kind]

    def _make(self, backend: str, kind: str) -> Any:
        store = dist.PrefixStore(f"{kind}/{backend}", self._store)
        if backend == "gloo":
            return dist.ProcessGroupGloo(store, self._number, self._count, timeout=self._timeout)
        if backend == "nccl":
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = self._timeout
            return dist.ProcessGroupNCCL(store, self._number, self._count, options)
        raise UnsupportedError(f'backend "{backend}" beside echelon; expected gloo or nccl')

    # ---- beginning and ending ----------------------------------------------------------------

    def _submit(self, begin: Begin, tensors: Sequence[torch.Tensor], opts: Any,
                outputs: Optional[Sequence[torch.Tensor]] = None) -> Any:
        device = check_place(tensors) if tensors else _CPU
        if self._driver is None:
            self._gpu = self._gpu_here()
            self._driver = Driver(self._connect)
        seconds = seconds_of(getattr(opts, "timeout", None)) or seconds_of(self._timeout)
        return self._driver.submit(begin, tensors if outputs is None else outputs, device, seconds)

    def _gpu_here(self) -> Optional[torch.device]:
        """This rank's, for a group that begins with host memory. Which one is current is known to
        the caller's thread alone."""
        if not torch.cuda.is_initialized():
            return None
        return self.bound_device_id or torch.device("cuda", torch.cuda.current_device())

    def _connect(self, device: torch.device) -> Any:
        if device.type == "cpu" and self._gpu is not None:
            device = self._gpu
        return meet_in(self._store, self._number, self._count, self._timeout.total_seconds(),
                       device)

    def set_timeout(self, timeout: timedelta) -> None:
        """For what begins from now on."""
        self._timeout = timeout
        self._mailbox.timeout = timeout.total_seconds()

    def abort(self) -> None:
        """Ends all operations, here and on the other ranks, with AbortedError."""
        if self._driver is not None:
            self._driver.abort()

    def failure(self) -> Optional[RankLostError]:
        """Why all operations fail from now on; None while they do not. For what backward() raises,
        which waits in C++: a RuntimeError of any kind."""
        return None if self._driver is None else self._driver.failure

    def shutdown(self) -> None:
        """Collective, unless an operation has failed."""
        if self._driver is not None:
            self._driver.close()

    # ---- reductions --------------------------------------------------------------------------

    @_by_device
    def allreduce(self, tensors: Tensors, opts: Any = None) -> Any:
        tensor, given = one(tensors), dist.ReduceOp.SUM if opts is None else opts.reduceOp
        return self._submit(_collectives.allreduce(tensors, [reduction(given, tensor)]), tensors,
                            opts)

    @_by_device
    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Any:
        given = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        ops = [reduction(given, tensor) for tensor in tensors]
        return self._submit(_collectives.allreduce(tensors, ops), tensors, opts)

    @_by_device
    def reduce(self, tensors: Tensors, opts: Any) -> Any:
        tensor = one(tensors)
        op = reduction(opts.reduceOp, tensor)
        return self._submit(_collectives.reduce(tensor, op, self._root(opts)), tensors, opts)

    @_by_device
    def reduce_scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any) -> Any:
        received, given = one(outputs), inputs[0]
        begin = _collectives.reduce_scatter(received, given, reduction(opts.reduceOp, received),
                                            self._count)
        return self._submit(begin, [received, *given], opts, outputs)

    @_by_device
    def _reduce_scatter_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any) -> Any:
        return self._reduce_scatter_into([output], [given], opts)

    @_by_device
    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors,
                                        opts: Any) -> Any:
        return self._reduce_scatter_into(outputs, inputs, opts)

    def _reduce_scatter_into(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Any:
        begin = _collectives.reduce_scatter_into(
            outputs, inputs, [reduction(opts.reduceOp, sent) for sent in inputs], self._count)
        return self._submit(begin, [*outputs, *inputs], opts, outputs)

    # ---- copies ------------------------------------------------------------------------------

    @_by_device
    def broadcast(self, tensors: Tensors, opts: Any) -> Any:
        return self._submit(_collectives.broadcast(one(tensors), self._root(opts)), tensors, opts)

    @_by_device
    def allgather(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        received, sent = outputs[0], one(inputs)
        return self._submit(_collectives.allgather(received, sent, self._count),
                            [*received, sent], opts, received)

    @_by_device
    def allgather_coalesced(self, outputs: List[Tensors], inputs: Tensors,
                            opts: Any = None) -> Any:
        return Together([self.allgather([received], [sent], opts)
                         for received, sent in zip(outputs, inputs)])

    @_by_device
    def _allgather_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Any:
        return self._allgather_into([output], [given], opts)

    @_by_device
    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors,
                                        opts: Any = None) -> Any:
        return self._allgather_into(outputs, inputs, opts)

    def _allgather_into(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Any:
        begin = _collectives.allgather_into(outputs, inputs, self._count)
        return self._submit(begin, [*outputs, *inputs], opts, outputs)

    @_by_device
    def gather(self, outputs: List[Tensors], inputs: Tensors, opts: Any) -> Any:
        sent = one(inputs)
        kept = outputs[0] if self._number == self._root(opts) else None
        return self._submit(_collectives.gather(kept, sent, self._count), [*(kept or ()), sent],
                            opts, kept or ())

    @_by_device
    def scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any) -> Any:
        received, root = one(outputs), self._root(opts)
        given = inputs[0] if self._number == root else None
        begin = _collectives.scatter(received, given, root, self._count)
        return self._submit(begin, [received, *(given or ())], opts, outputs)

    @_by_device
    def alltoall_base(self, output: torch.Tensor, given: torch.Tensor, output_splits: List[int],
                      input_splits: List[int], opts: Any = None) -> Any:
        outputs = parts_of(output, output_splits, self._count)
        inputs = parts_of(given, input_splits, self._count)
        return self._submit(_collectives.alltoall(outputs, inputs, self._count),
                            [output, given], opts, [output])

    @_by_device
    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        return self._submit(_collectives.alltoall(outputs, inputs, self._count),
                            [*outputs, *inputs], opts, outputs)

    # ---- others ------------------------------------------------------------------------------

    def barrier(self, opts: Any = None) -> Any:
        return self._collected(self._submit(_collectives.barrier(), (), opts))

    @_by_device
    def send(self, tensors: Tensors, to: int, tag: int) -> Any:
        return self._mailbox.send(one(tensors), self._rank_in(to), tag)

    @_by_device
    def recv(self, tensors: Tensors, source: int, tag: int) -> Any:
        return self._mailbox.recv(one(tensors), self._rank_in(source), tag)

    @_by_device
    def recv_anysource(self, tensors: Tensors, tag: int) -> Any:
        return self._mailbox.recv(one(tensors), None, tag)

    def _start_coalescing(self, device: Any) -> None:
        self._coalescing = []

    def _end_coalescing(self, device: Any) -> Any:
        works, self._coalescing = self._coalescing or [], None
        return Together(works)

    def _collected(self, work: Any) -> Any:
        if self._coalescing is not None:
            self._coalescing.append(work)
        return work

    def _root(self, opts: Any) -> int:
        return self._rank_in(opts.rootRank)

    def _rank_in(self, rank: int) -> int:
        if not 0 <= rank < self._count:
            raise InvalidError(f"rank {rank} is not in [0, {self._count})")
        return rank

    # PyTorch 2.14 has other names for these.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base


def _create(options: Any, _: Any = None) -> ProcessGroup:
    return ProcessGroup(options.store, options.group_rank, options.group_size, options.timeout)


def register() -> None:
    dist.Backend.register_backend("echelon", _create, extended_api=True, devices=["cpu", "cuda"])
