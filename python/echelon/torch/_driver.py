# SPDX-License-Identifier: Apache-2.0
"""The thread that drives the communicator of a process group.

The library makes progress inside calls only, and PyTorch expects operations to go on while the
program computes. So one thread makes all calls for a group, in the order in which they were
submitted: it starts whatever has been submitted, and waits in the library, without the
interpreter's lock, for what was started first."""
from __future__ import annotations

import atexit
import contextlib
import queue
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any, Callable, ContextManager, List, Optional, Sequence

import torch

from .._errors import AbortedError, EchelonError, RankLostError
from .._process_sets import ProcessSet
from ._calls import Caller, wait_all
from ._collectives import Begin, Started
from ._work import Work


class Place:
    """The device of an operation. On a GPU it begins, and what it copies is copied, in a stream of
    its own, which first waits for what the caller's stream has been given so far."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._ready = None
        if device.type == "cuda":
            self._ready = torch.cuda.current_stream(device).record_event()

    def entered(self, streams: Any) -> ContextManager[Any]:
        if self._ready is None:
            return contextlib.nullcontext()
        if self.device not in streams:
            streams[self.device] = torch.cuda.Stream(self.device)
        streams[self.device].wait_event(self._ready)
        return torch.cuda.stream(streams[self.device])

    def left(self, streams: Any) -> None:
        if self._ready is not None:
            streams[self.device].synchronize()

    def stream(self, streams: Any) -> Optional[int]:
        return None if self._ready is None else streams[self.device].cuda_stream


@dataclass
class Operation:
    begin: Begin
    place: Place
    timeout: Optional[float]
    work: Work
    started: Started = field(default_factory=Started)


Connect = Callable[[torch.device], ProcessSet]


class Driver(threading.Thread):
    """`connect` makes the communicator, when it is first needed. Or it is there: `members`."""

    def __init__(self, connect: Optional[Connect] = None,
                 members: Optional[ProcessSet] = None) -> None:
        super().__init__(name="echelon.torch", daemon=True)
        self._connect = connect
        self._members = members
        self._queue: "queue.SimpleQueue[Optional[Operation]]" = queue.SimpleQueue()
        self._under_way: List[Operation] = []
        self._streams: Any = {}
        self._lock = threading.Lock()
        self._error: Optional[EchelonError] = None
        self._closing = False
        self.failure: Optional[RankLostError] = None  # of an operation: all fail from now on
        _drivers.append(weakref.ref(self))
        self.start()

    def submit(self, begin: Begin, outputs: Sequence[torch.Tensor], device: torch.device,
               timeout: Optional[float]) -> Work:
        work = Work(outputs)
        with self._lock:
            if self._closing:
                raise AbortedError("the process group has been shut down")
            self._queue.put(Operation(begin, Place(device), timeout, work))
        return work

    def abort(self) -> None:
        """From any thread."""
        with self._lock:
            self._error = AbortedError("the process group was aborted")
            if self._members is not None:
                self._members.abort()

    def begin_to_close(self) -> None:
        with self._lock:
            if not self._closing:
                self._closing = True
                self._queue.put(None)

    def close(self) -> None:
        """Waits for what was submitted and ends the communicator. Collective, unless an operation
        has failed. A signal handler that raises ends it."""
        self.begin_to_close()
        try:
            self.join()
        except BaseException:
            self.abort()
            raise

    # ---- in the thread -----------------------------------------------------------------------

    @torch.no_grad()
    def run(self) -> None:
        open = True
        while open or self._under_way:
            open = self._start_submitted(open)
            if self._under_way:
                self._finish(self._under_way.pop(0))
        self._leave()

    def _leave(self) -> None:
        """Every operation has had its own error."""
        with contextlib.suppress(EchelonError):
            if self._members is not None:
                self._members.close()

    def _start_submitted(self, open: bool) -> bool:
        """Whether more may come. Waits only when there is nothing else to do."""
        while open:
            try:
                operation = self._queue.get(block=not self._under_way)
            except queue.Empty:
                break
            open = operation is not None
            if operation is not None:
                self._start(operation)
        return open

    def _start(self, operation: Operation) -> None:
        try:
            members = self._connected(operation.place.device)
            with operation.place.entered(self._streams):
                stream = operation.place.stream(self._streams)
                operation.started = operation.begin(Caller(members, operation.timeout, stream))
            self._under_way.append(operation)
        except BaseException as error:
            self._fail(operation, error)

    def _connected(self, device: torch.device) -> ProcessSet:
        if self._error is not None:
            raise self._error
        if self._members is None:
            assert self._connect is not None
            try:
                members = self._connect(device)
            except EchelonError as error:
                self._error = error
                raise
            with self._lock:
                self._members = members
                if self._error is not None:  # abort() came meanwhile
                    members.abort()
        return self._members

    def _finish(self, operation: Operation) -> None:
        try:
            wait_all(operation.started.requests)
            with operation.place.entered(self._streams):
                operation.started.finish()
            operation.place.left(self._streams)
        except BaseException as error:
            self._fail(operation, error)
        else:
            operation.work.end()

    def _fail(self, operation: Operation, error: BaseException) -> None:
        """The error is for the thread that waits."""
        if isinstance(error, RankLostError):
            self.failure = error
        operation.work.end(error)


# How long the end of a program waits for the other ranks' groups to end, and then for ours to give up.
_FAREWELL, _PATIENCE = 30.0, 2.0  # s

_drivers: List["weakref.ref[Driver]"] = []


@atexit.register
def _at_exit() -> None:
    """For those that nobody closed: all at once, since ranks may have made them in another order. A
    rank that ends with an exception does not wait for the others, and tells them. One that ends by
    sys.exit() looks like any other: after a while it does the same, so that whoever started it sees
    how it ended."""
    drivers = [driver for driver in (made() for made in _drivers) if driver is not None]
    for driver in drivers:
        if hasattr(sys, "last_value"):
            driver.abort()
        driver.begin_to_close()
    _join(drivers, _FAREWELL)
    for driver in drivers:
        if driver.is_alive():
            driver.abort()
    _join(drivers, _PATIENCE)  # one that is still connecting is left: a daemon


def _join(drivers: Sequence[Driver], seconds: float) -> None:
    end = time.monotonic() + seconds
    for driver in drivers:
        driver.join(max(0.0, end - time.monotonic()))
