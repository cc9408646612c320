# SPDX-License-Identifier: Apache-2.0
"""Process sets: ranks that make collectives together. Each has a communicator of its own."""
from __future__ import annotations

import atexit
import ctypes
import json
import sys
import threading
import time
from contextlib import contextmanager, suppress
from ctypes import byref, c_void_p
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from . import _cuda, _library
from ._constants import TYPES, UINT8, Collective, ReduceOp
from ._errors import AbortedError, EchelonError, InvalidError, PeerError, TimeoutError
from ._requests import Request
from ._waiting import interruptible

_TEXT, _JSON, _TOML = 0, 1, 2
_FORMATS = {"text": _TEXT, "json": _JSON, "toml": _TOML, "dict": _JSON}

# How long the end of a program waits for the other ranks, in seconds.
_FAREWELL = 30.0


class ProcessSet:
    """The ranks that take part in an operation. Made by init(), split() and add_process_set()."""

    def __init__(self, comm: Optional[c_void_p] = None,
                 ranks: Optional[Sequence[int]] = None) -> None:
        self.ranks: Optional[List[int]] = None if ranks is None else list(ranks)
        self._comm = comm
        self._pending: Dict[int, Request] = {}
        self._lock = threading.RLock()
        self._ending = threading.RLock()  # abort() and the end of the communicator

    # ---- who and where -----------------------------------------------------------------------

    def included(self) -> bool:
        """Whether this rank is one of the set."""
        return self._comm is not None

    def rank(self) -> int:
        return self._number("comm_rank")

    def size(self) -> int:
        return self._number("comm_size")

    def local_rank(self) -> int:
        return self._number("comm_local_rank")

    def local_size(self) -> int:
        return self._number("comm_local_size")

    def cross_rank(self) -> int:
        """The index of this rank's host."""
        return self._number("comm_host_index")

    def cross_size(self) -> int:
        """The number of hosts."""
        return self._number("comm_host_count")

    def topology(self, format: str = "dict") -> Union[str, Dict[str, Any]]:
        """The fabric that the ranks found: "dict", "text", "json" or "toml"."""
        return self._told(format, "comm_fabric", self._communicator())

    def explain(self, collective: str = "allreduce", count: int = 1 << 20, dtype: str = "float32",
                op: ReduceOp = ReduceOp.Sum, format: str = "text") -> Union[str, Dict[str, Any]]:
        """The plan for one operation, and why: "text", "json" or "dict"."""
        if collective.upper() not in Collective.__members__:
            raise InvalidError(f'collective "{collective}" is none; expected one of '
                               + ", ".join(c.name.lower() for c in Collective))
        if dtype not in TYPES:
            raise InvalidError(f'dtype "{dtype}" is none; expected one of ' + ", ".join(TYPES))
        question = _library.Question(ctypes.sizeof(_library.Question),
                                     Collective[collective.upper()], op, TYPES[dtype].code, count)
        with self.driving():
            return self._told(format, "comm_explain", self._communicator(), byref(question))

    # ---- making and ending -------------------------------------------------------------------

    def split(self, color: int, key: int = 0) -> Optional[ProcessSet]:
        """A set of the ranks that give the same color, in the order of (key, rank); None for a
        negative one. Collective over this set."""
        made = c_void_p()
        with self.driving():
            comm = self._communicator()
            interruptible(lambda: _library.call("comm_split", comm, color, key, byref(made)),
                          self.abort)
        return ProcessSet(made) if made else None

    def shrink(self) -> ProcessSet:
        """After a failure: a set of the ranks that are left, in their old order; this one ends.
        Collective over those that live; ends what they have pending with AbortedError."""
        return ProcessSet(self._survivors())

    def _survivors(self) -> c_void_p:
        """When one more rank is lost meanwhile, all the others call again."""
        made, losses = c_void_p(), 0
        with self.driving():
            comm, most = self._communicator(), self.size()
            while not made:
                try:
                    interruptible(lambda: _library.call("comm_shrink", comm, byref(made)))
                except (PeerError, TimeoutError):
                    losses += 1
                    if losses == most:
                        raise
                except EchelonError:
                    raise
                except BaseException:  # a signal handler's: the call goes on
                    self._abandon()
                    raise
            self._destroy(AbortedError("the process set was shrunk"))
        return made

    def abort(self) -> None:
        """Ends every operation, here and on the other ranks, with AbortedError. From any thread."""
        with self._ending:
            if self._comm is not None:
                _library.call("comm_abort", self._comm)

    def close(self, timeout: float = 0) -> None:
        """Waits for what is pending and ends the set, within `timeout` seconds if given. Collective;
        local after a failure."""
        with self.driving():
            if self._comm is None:
                return
            try:
                if not self.has_failed():
                    self._say_farewell(timeout)
            finally:
                if any(request.waited_for for request in self._pending.values()):
                    self._abandon()
                else:
                    self._destroy(InvalidError("the process set has ended before its operation"))

    def _say_farewell(self, timeout: float) -> None:
        """An operation that no program makes, so that nothing else is taken for it. It can be
        aborted and has a timeout, as the end of a communicator, which then waits for nobody, has
        not."""
        words = (ctypes.c_uint8 * 1)(1)
        call = _library.Call(ctypes.sizeof(_library.Call), timeout)
        request = self.start("iallreduce", (words, words, 1, UINT8.code, ReduceOp.Product), call,
                             (words,))
        request.wait()
        if request.error is not None:
            raise request.error

    def _abandon(self) -> None:
        """A thread that was given up is in the library with the communicator: nobody may use or end
        it, and what operations write to has to stay."""
        self._comm = None
        for request in self._pending.values():
            request.drop(AbortedError("the process set was given up"))
        _abandoned.extend(self._pending.values())
        self._pending.clear()

    def _destroy(self, error: EchelonError) -> None:
        """The error is that of operations that have not ended."""
        with self._ending:  # from here on abort() finds nothing
            comm, self._comm = self._comm, None
        try:
            interruptible(lambda: _library.call("comm_destroy", comm))
        finally:
            for request in self._pending.values():
                request.drop(error)
            self._pending.clear()

    # ---- for the collectives -----------------------------------------------------------------

    @contextmanager
    def driving(self) -> Iterator[None]:
        """One thread at a time."""
        with self._lock:
            yield

    def has_failed(self) -> bool:
        """Whether every operation fails from now on."""
        try:
            _library.call("comm_status", self._communicator())
        except EchelonError:
            return True
        return False

    def start(self, function: str, arguments: Sequence[Any], call: _library.Call,
              keep: Sequence[Any]) -> Request:
        request = Request(self, keep)
        with self.driving():
            _library.call(function, *arguments, self._communicator(), byref(call),
                          byref(request.pointer))
            self._pending[id(request)] = request
        return request

    def forget(self, request: Request) -> None:
        self._pending.pop(id(request), None)

    def _communicator(self) -> c_void_p:
        if self._comm is None:
            raise InvalidError("this rank is not in the process set, or that has ended")
        return self._comm

    def _number(self, name: str) -> int:
        return _library.number(name, self._communicator())

    def _told(self, format: str, *question: Any) -> Union[str, Dict[str, Any]]:
        if format not in _FORMATS:
            raise InvalidError(f'format "{format}" is none; expected one of ' + ", ".join(_FORMATS))
        text = _library.text(*question, _FORMATS[format])
        return dict(json.loads(text)) if format == "dict" else text


class _World(ProcessSet):
    """All ranks."""

    def adopt(self, comm: c_void_p) -> None:
        self._comm = comm
        self.ranks = list(range(self.size()))

    def shrink(self) -> ProcessSet:
        """Of others the ranks, which have new numbers now, say nothing."""
        while _added:
            ended = _added.pop()
            with suppress(EchelonError):
                ended.abort()
            with suppress(EchelonError):
                ended.close()
        self.adopt(self._survivors())
        return self

    def _communicator(self) -> c_void_p:
        if self._comm is None:
            raise InvalidError("echelon is not initialized: call echelon.init()")
        return self._comm


_abandoned: List[Request] = []  # for ever
global_process_set: ProcessSet = _World()
_added: List[ProcessSet] = []


def _text(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else value.encode()


def unique_id(interface: Optional[str] = None) -> bytes:
    """What the ranks need to find each other without a launcher. The process that calls it must
    be rank 0; hand the bytes to the others by any private channel, and all give them to init()."""
    made = ctypes.create_string_buffer(_library.UNIQUE_ID_BYTES)
    _library.call("get_unique_id", made, _text(interface))
    return made.raw


def _create(*, unique_id: Optional[bytes] = None, rank: int = 0, size: int = 0,
            bootstrap: Optional[str] = None, interface: Optional[str] = None,
            fabric: Optional[str] = None, algorithm: Optional[str] = None, timeout: float = 0,
            probe: Optional[bool] = None) -> c_void_p:
    options = _library.CommOptions(ctypes.sizeof(_library.CommOptions))
    identity = None if unique_id is None else ctypes.create_string_buffer(
        unique_id, _library.UNIQUE_ID_BYTES)
    options.unique_id = ctypes.cast(identity, c_void_p) if identity is not None else None
    options.rank, options.size, options.timeout = rank, size, timeout
    options.bootstrap, options.interface_name = _text(bootstrap), _text(interface)
    options.fabric_file, options.algorithm = _text(fabric), _text(algorithm)
    options.probe = 0 if probe is None else 1 if probe else -1
    made = c_void_p()
    keep, context = (options, identity), _cuda.current_context()

    def create() -> None:
        with _cuda.within(context):
            _library.call("comm_create", byref(made), byref(keep[0]))

    interruptible(create)
    return made


def init(*, unique_id: Optional[bytes] = None, rank: int = 0, size: int = 0,
         bootstrap: Optional[str] = None, interface: Optional[str] = None,
         fabric: Optional[str] = None, algorithm: Optional[str] = None, timeout: float = 0,
         probe: Optional[bool] = None) -> None:
    """Finds the other ranks, by the launcher's variables unless told otherwise. Collective. Does
    nothing where it was called before. What is not given comes from the environment."""
    world = global_process_set
    assert isinstance(world, _World)
    if not world.included():
        world.adopt(_create(unique_id=unique_id, rank=rank, size=size, bootstrap=bootstrap,
                            interface=interface, fabric=fabric, algorithm=algorithm,
                            timeout=timeout, probe=probe))


def meet(unique_id: bytes, rank: int, size: int, timeout: float) -> ProcessSet:
    """A set by itself, apart from all ranks. Collective over those who have the id."""
    return ProcessSet(_create(unique_id=unique_id, rank=rank, size=size, timeout=timeout),
                      range(size))


def is_initialized() -> bool:
    return global_process_set.included()


def shutdown() -> None:
    """Ends all process sets, the latest first. Collective. At the interpreter's end it is called
    for you."""
    while _added:
        _added.pop().close()
    global_process_set.close()


def add_process_set(ranks: Sequence[int]) -> ProcessSet:
    """A set of these ranks, in this order. Every rank of the job calls it, the others too."""
    ranks = list(ranks)
    world = global_process_set
    if len(set(ranks)) != len(ranks) or not all(0 <= r < world.size() for r in ranks):
        raise InvalidError(f"ranks {ranks} are not different ones in [0, {world.size()})")
    mine = world.rank()
    part = world.split(0, ranks.index(mine)) if mine in ranks else world.split(-1)
    made = part if part is not None else ProcessSet()
    made.ranks = ranks
    _added.append(made)
    return made


def remove_process_set(process_set: ProcessSet) -> None:
    """Ends a set that add_process_set() made. Every rank of the set calls it; others may."""
    if process_set in _added:
        _added.remove(process_set)
    process_set.close()


@atexit.register
def _at_exit() -> None:
    """A rank that ends with an exception does not wait for the others, and tells them. One that
    ends by sys.exit() looks like any other, so no rank waits for ever."""
    end = time.monotonic() + _FAREWELL
    sets = [*reversed(_added), global_process_set]
    if hasattr(sys, "last_value"):
        for process_set in sets:
            process_set.abort()
    for process_set in sets:
        try:
            process_set.close(max(0.1, end - time.monotonic()))
        except EchelonError as error:
            print(f"echelon: at the end of the program: {error}", file=sys.stderr)
