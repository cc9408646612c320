# SPDX-License-Identifier: Apache-2.0
"""Allgather, of parts of unequal length too, and Python objects."""
from __future__ import annotations

import pickle
import zlib
from typing import Any, List, Optional

import numpy as np

from ._arrays import View, output_for, view_of
from ._collectives import broadcast, call_of, set_of
from ._errors import MismatchError
from ._process_sets import ProcessSet
from ._requests import Handle, Request


def _start_equal(members: ProcessSet, sent: View, received: View, call: Any) -> Request:
    element, count = sent.to_copy()
    return members.start("iallgather", (sent.address, received.address, count, element.code), call,
                         (sent, received))


def _start_unequal(members: ProcessSet, sent: View, received: View, lengths: List[int],
                   call: Any) -> List[Request]:
    """A broadcast for every part, into its place."""
    row = sent.itemsize
    for length in sent.shape[1:]:
        row *= length
    element, _ = sent.to_copy()
    requests, offset = [], 0
    for root, length in enumerate(lengths):
        requests.append(members.start(
            "ibroadcast",
            (sent.address, received.address + offset, length * row // element.size, element.code,
             root), call, (sent, received)))
        offset += length * row
    return requests


def _lengths(members: ProcessSet, sent: View, timeout: Optional[float]) -> List[int]:
    """The first dimension of every rank; the rest must be alike."""
    rest = zlib.crc32(repr((sent.stored, sent.shape[1:])).encode())
    mine = view_of(np.array([[sent.shape[0], rest]], dtype=np.int64))
    found = output_for(mine, None, (members.size(), 2), None)
    request = _start_equal(members, mine, found, call_of(mine, timeout, None))
    Handle([request], lambda: None).wait()
    others = [r for r, row in enumerate(found.array) if row[1] != found.array[0][1]]
    if others:
        raise MismatchError(
            f"allgather: ranks {others} differ from rank 0 in type or in a dimension after the "
            f"first; this rank has {sent.stored} of shape {sent.shape}")
    return [int(row[0]) for row in found.array]


def allgather(tensor: Any, *, name: Optional[str] = None,
              process_set: Optional[ProcessSet] = None, out: Optional[Any] = None,
              timeout: Optional[float] = None, stream: Optional[int] = None) -> Any:
    """The arrays of all ranks, one after the other along the first dimension, in which they may
    differ. Arrays of any type. The ranks tell each other their lengths first."""
    members = set_of(process_set)
    sent = view_of(tensor, None, stream)
    if sent.shape == ():
        sent = view_of(np.asarray(tensor).reshape(1))
    lengths = _lengths(members, sent, timeout)
    received = output_for(sent, out, (sum(lengths), *sent.shape[1:]), stream)
    call = call_of(sent, timeout, stream, name)
    if len(set(lengths)) == 1:
        requests = [_start_equal(members, sent, received, call)]
    else:
        requests = _start_unequal(members, sent, received, lengths, call)
    return Handle(requests, lambda: received.array, name).wait()


def broadcast_object(obj: Any = None, root_rank: int = 0, *, name: Optional[str] = None,
                     process_set: Optional[ProcessSet] = None) -> Any:
    """The object of rank `root_rank` of the process set, by pickle."""
    members = set_of(process_set)
    is_root = members.rank() == root_rank
    data = np.frombuffer(pickle.dumps(obj) if is_root else b"", dtype=np.uint8)
    length = int(broadcast(np.array([data.size]), root_rank, process_set=members)[0])
    if not is_root:
        data = np.empty(length, dtype=np.uint8)
    data = broadcast(data, root_rank, name=name, process_set=members)
    return obj if is_root else pickle.loads(data.tobytes())


def allgather_object(obj: Any, *, name: Optional[str] = None,
                     process_set: Optional[ProcessSet] = None) -> List[Any]:
    """The objects of all ranks, in rank order, by pickle."""
    members = set_of(process_set)
    data = np.frombuffer(pickle.dumps(obj), dtype=np.uint8)
    lengths = allgather(np.array([data.size]), process_set=members)
    whole = allgather(data, name=name, process_set=members)
    return [pickle.loads(part.tobytes()) for part in np.split(whole, np.cumsum(lengths)[:-1])]
